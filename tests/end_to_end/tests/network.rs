//! `--network`: clients that support a proxy reach the allowed hosts; no program reaches any other.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hotcell_end_to_end::mcp::{Local, STATELESS};
use hotcell_end_to_end::{everyone, find};
use serde_json::{Value, json};

/// A web server on an address of this host other than loopback.
pub struct Server {
    pub at: IpAddr,
    pub port: u16,
    pub asked: Arc<AtomicU32>,
}

pub fn server() -> Option<Server> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    let routed = socket.connect((Ipv4Addr::new(203, 0, 113, 1), 9)); // sends nothing
    let at = routed.and_then(|()| socket.local_addr()).map(|a| a.ip()).ok().filter(|ip| !ip.is_loopback());
    let Some(at) = at else {
        println!("skipped: no address besides the loopback");
        return None;
    };
    let listener = TcpListener::bind((at, 0)).expect("a port of our own");
    let (port, asked) = (listener.local_addr().expect("bound").port(), Arc::new(AtomicU32::new(0)));
    let count = Arc::clone(&asked);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let count = Arc::clone(&count);
            std::thread::spawn(move || {
                let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
                    head.push(byte[0]);
                }
                count.fetch_add(1, Ordering::AcqRel);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nreached");
            });
        }
    });
    Some(Server { at, port, asked })
}

fn denials(outcome: &Value) -> Vec<(String, String)> {
    let rows = outcome["denials"].as_array().expect("rows");
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let network = rows.iter().filter(|row| row["layer"] == "network");
    network.map(|row| (text(row, "operation"), text(row, "target"))).collect()
}

/// Tries all ways that a program has; prints one line for each.
const CLIENT: &str = r#"
import os, socket, sys, urllib.error, urllib.request
name, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
def show(what, try_it):
    try: print(what, try_it())
    except urllib.error.HTTPError as e: print(what, e.code)
    except OSError as e: print(what, 'failed')
def get(host): return lambda: urllib.request.urlopen(f'http://{host}:{port}/', timeout=20).read().decode()
def direct(to):
    def go():
        s = socket.create_connection((to, port), 5); s.sendall(f'GET / HTTP/1.1\r\nHost: {to}:{port}\r\n\r\n'.encode()); return s.recv(15)
    return go
show('allowed', get(name))
show('other', get('other.test'))
show('address', get(address))
show('metadata', get('169.254.169.254'))
show('name', lambda: socket.gethostbyname(name))
show('other-name', lambda: socket.gethostbyname('secret.other.test'))
show('direct', direct(address))
show('direct-name', direct(name))
show('dns-beyond', lambda: socket.create_connection(('9.9.9.9', 53), 5))
"#;

#[test]
fn allowed_host_is_reached_others_denied() {
    let Some(server) = server() else { return };
    everyone(|user| {
        let (at, port) = (server.at.to_string(), server.port.to_string());
        let rule = format!("api.test={at}:{port}");
        let words = [
            "run",
            "--json",
            "--network",
            &rule,
            "--",
            "/usr/bin/python3",
            "-c",
            CLIENT,
            "API.test",
            &at,
            &port,
        ];
        let outcome = user.hotcell(words).end().code(0).json();
        let want = "allowed reached\nother 403\naddress 403\nmetadata 403\nname 127.0.0.2\nother-name failed\ndirect failed\n\
             direct-name b'HTTP/1.1 200 OK'\ndns-beyond failed\n";
        assert_eq!(outcome["stdout"]["text"], want, "{outcome:#}");
        let rows = denials(&outcome);
        for (operation, target) in [
            ("http", format!("other.test:{port}")),
            ("http", format!("{at}:{port}")),
            ("http", format!("169.254.169.254:{port}")),
            ("dns", "secret.other.test".to_owned()),
            ("connect", format!("{at}:{port}")),
            ("connect", "9.9.9.9:53".to_owned()),
        ] {
            assert!(rows.contains(&(operation.to_owned(), target.clone())), "{operation} {target}: {rows:?}");
        }
        // The program's own server still works beside the proxy.
        let own = "import socket,os\ns=socket.create_server(('127.0.0.1',0))\n\
                   c=socket.create_connection(s.getsockname())\nprint('own', os.environ['NO_PROXY'])";
        let words = ["run", "--network", &rule, "--", "/usr/bin/python3", "-c", own];
        user.hotcell(words).end().code(0).prints("own localhost,127.0.0.1,::1\n");
    });
}

#[test]
fn requests_are_listed_and_exported() {
    let Some(server) = server() else { return };
    everyone(|user| {
        let state = user.path("work/state").to_str().expect("a path").to_owned();
        let (at, port) = (server.at, server.port);
        let rule = format!("api.test={at}:{port}");
        let script = format!(
            "import urllib.request as r\nr.urlopen('http://api.test:{port}/a?token=hidden-value', timeout=20).read()\n\
             try: r.urlopen('http://evil.test:{port}/b', timeout=20)\nexcept OSError: pass"
        );
        let run =
            ["run", "--state", &state, "--network", &rule, "--json", "--", "/usr/bin/python3", "-c", &script];
        let outcome = user.hotcell(run).end().code(0).json();
        assert_eq!(outcome["requests"]["plain"]["requests"], 2, "{outcome:#}");
        assert_eq!(outcome["requests"]["plain"]["denied"], 1, "{outcome:#}");
        let list = user.hotcell(["runs", "list", "--state", &state, "--json"]).end().json();
        let id = list["runs"][0]["id"].as_str().expect("an id").to_owned();
        let file = user.path("work/run.har").to_str().expect("a path").to_owned();
        let show = ["runs", "show", &id, "--state", &state, "--network", "--har", &file];
        let shown = user.hotcell(show).end();
        let text = shown.code(0).text();
        assert!(text.contains(&format!("GET api.test:{port}/a?token=… ({rule})")), "{text}");
        assert!(text.contains(&format!("GET evil.test:{port}/b (no rule allows it)")), "{text}");
        let archive = std::fs::read_to_string(&file).expect("an archive");
        assert!(!archive.contains("hidden-value") && !text.contains("hidden-value"), "{archive}");
        let archive: Value = serde_json::from_str(&archive).expect("JSON");
        let entries = archive["log"]["entries"].as_array().expect("entries");
        assert_eq!((entries.len(), &entries[0]["response"]["status"]), (2, &json!(200)));
        assert_eq!(entries[1]["_ending"], "denied");
        // Nothing is kept of a run that is to leave no history.
        let quiet = [
            "run",
            "--state",
            &state,
            "--no-history",
            "--network",
            &rule,
            "--",
            "/usr/bin/python3",
            "-c",
            &script,
        ];
        user.hotcell(quiet).end().code(0);
        let list = user.hotcell(["runs", "list", "--state", &state, "--json"]).end().json();
        assert_eq!(list["runs"].as_array().map(Vec::len), Some(1));
    });
}

/// A Redis server on an address of this host that is not its loopback; it ends with the test.
struct Redis {
    child: std::process::Child,
    at: IpAddr,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn redis(at: IpAddr, port: Option<u16>) -> Option<Redis> {
    let Some(program) = find("redis-server") else {
        println!("skipped: no redis-server");
        return None;
    };
    let free = || TcpListener::bind((at, 0)).expect("a port").local_addr().expect("bound").port();
    let port = port.unwrap_or_else(free);
    let folder = tempfile::tempdir().expect("a folder");
    let child = std::process::Command::new(program)
        .args(["--bind", &at.to_string(), "--port", &port.to_string(), "--protected-mode", "no"])
        .args(["--save", "", "--appendonly", "no", "--dir"])
        .arg(folder.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("redis-server starts");
    let server = Redis { child, at, port, _folder: folder };
    for _ in 0..400 {
        if std::net::TcpStream::connect((at, port)).is_ok() {
            return Some(server);
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    panic!("redis-server does not listen");
}

/// Speaks Redis's protocol over a plain socket: writes by the first name, reads by the second.
const RESP: &str = "
import socket, sys
def ask(host, port, *words):
    s = socket.create_connection((host, int(port)), 20)
    s.sendall(b''.join([b'*%d\\r\\n' % len(words)] + [b'$%d\\r\\n%s\\r\\n' % (len(w), w.encode()) for w in words]))
    return s.recv(99)
first, second, port, value = sys.argv[1:]
print(ask(first, port, 'SET', 'key', value), ask(second, port, 'GET', 'key'), ask(first, port, 'PING'))
";

#[test]
fn database_clients_without_proxy_reach_allowed_address() {
    let Some(web) = server() else { return };
    let Some(redis) = redis(web.at, None) else { return };
    let (at, port) = (redis.at, redis.port.to_string());
    everyone(|user| {
        let (db, cache) = (format!("db.internal={at}:{port}"), format!("cache={at}:{port}"));
        let both = format!("{db},{cache}");
        let program = ["--", "/usr/bin/python3", "-c", RESP];
        let words =
            [&["run", "--network", &both], &program[..], &["db.internal", "Cache", &port, "v1"]].concat();
        user.hotcell(words).end().code(0).prints("b'+OK\\r\\n' b'$2\\r\\nv1\\r\\n' b'+PONG\\r\\n'\n");
        // Two names with one port have two addresses, and names that are not granted have none.
        let hosts =
            "getent hosts db.internal cache | cut -d' ' -f1; getent hosts other.internal || echo none";
        let words = ["run", "--network", &both, "--", "/bin/sh", "-c", hosts];
        user.hotcell(words).end().code(0).prints("127.0.0.2\n127.0.0.3\nnone\n");
        // Neither the address itself, nor another port of the name, nor anything without the option.
        let connect = "import socket, sys\ntry: socket.create_connection((sys.argv[1], int(sys.argv[2])), 5); print('there')\n\
                       except OSError as e: print(e.strerror or e)";
        let other = web.port.to_string();
        for (network, host, port, want) in [
            (db.as_str(), at.to_string().as_str(), port.as_str(), "Network is unreachable"),
            (&db, "db.internal", &other, "Connection refused"),
            (&db, "cache", &port, "Name or service not known"),
            ("", "db.internal", &port, "Name or service not known"),
            ("none", "127.0.0.2", &port, "Connection refused"),
        ] {
            let words = ["run", "--network", network, "--", "/usr/bin/python3", "-c", connect, host, port];
            let ended = user.hotcell(words).end();
            let said = ended.code(0).text();
            assert!(said.contains(want), "{network} {host}:{port}: {said}");
        }
        if find("redis-cli").is_some() {
            let words =
                ["run", "--network", &db, "--", "redis-cli", "-h", "db.internal", "-p", &port, "PING"];
            user.hotcell(words).end().code(0).prints("PONG\n");
        }
        // As the documentation has it, and by a configuration file.
        let project = user.make_folder("work/database");
        let test = format!(
            "import socket, unittest\nclass T(unittest.TestCase):\n    def test_ping(self):\n        \
             s = socket.create_connection(('db.internal', {port}), 20); s.sendall(b'PING\\r\\n')\n        \
             self.assertEqual(s.recv(9), b'+PONG\\r\\n')\n"
        );
        std::fs::write(project.join("test_db.py"), test).unwrap();
        let test = |more: &[&str]| {
            let all = [
                &["test", "--framework", "unittest", "--toolchain", "/usr"],
                more,
                &[project.to_str().unwrap()],
            ];
            user.hotcell(all.concat()).end()
        };
        test(&["--network", &db]).code(0);
        test(&[]).code(1);
        let config = user.make_folder("home/.config/hotcell").join("config.toml");
        std::fs::write(&config, format!("network = [\"{db}\"]\n")).unwrap();
        test(&[]).code(0);
        std::fs::remove_file(config).unwrap();
    });
}

#[test]
fn unresponsive_database_is_named() {
    let Some(web) = server() else { return };
    let port = TcpListener::bind((web.at, 0)).unwrap().local_addr().unwrap().port();
    everyone(|user| {
        let rule = format!("db.internal={}:{port}", web.at);
        let ask = format!("import socket; print(socket.create_connection(('db.internal', {port})).recv(9))");
        let words = ["run", "--network", &rule, "--", "/usr/bin/python3", "-c", &ask];
        let ended = user.hotcell(words).end();
        ended
            .code(0)
            .says(&format!("db.internal:{port} (it is allowed, and not reached: Connection refused"));
    });
}

#[test]
fn curl_reaches_it_by_every_way() {
    let Some(server) = server() else { return };
    if find("curl").is_none() {
        println!("skipped: no curl");
        return;
    }
    everyone(|user| {
        let url = format!("http://api.test:{}/", server.port);
        let rule = format!("api.test={}:{}", server.at, server.port);
        for way in [&[][..], &["--proxytunnel"], &["--socks5-hostname", "127.0.0.1:888"]] {
            let words = [&["run", "--network", &rule, "--", "/usr/bin/curl", "-sS"], way, &[&url]].concat();
            user.hotcell(words).end().code(0).prints("reached");
        }
        let words = ["run", "--network", &rule, "--", "/usr/bin/curl", "-sS", "https://api.test/"];
        user.hotcell(words).end().code(56).says("403").says("denied: connect to api.test:443 (network)");
    });
}

#[test]
fn a086_empty_list_denies_all_hosts() {
    let Some(server) = server() else { return };
    everyone(|user| {
        let before = server.asked.load(Ordering::Acquire);
        for (host, port) in [(server.at.to_string(), server.port), ("localhost".to_owned(), server.port)] {
            let port = port.to_string();
            let words = [
                "run",
                "--json",
                "--network",
                "",
                "--",
                "/usr/bin/python3",
                "-c",
                CLIENT,
                &host,
                &host,
                &port,
            ];
            let outcome = user.hotcell(words).end().code(0).json();
            let text = outcome["stdout"]["text"].as_str().unwrap_or_default();
            assert!(!text.contains("reached"), "{text}");
        }
        assert_eq!(server.asked.load(Ordering::Acquire), before);
    });
}

#[test]
fn a084_name_resolving_to_this_host_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    listener.set_nonblocking(true).unwrap();
    everyone(|user| {
        // Allowed by name, although the host's resolver gives a loopback address.
        let rule = format!("localhost:{port}");
        let connect = format!(
            "import socket\ns=socket.create_connection(('127.0.0.1',888))\n\
             s.sendall(b'CONNECT localhost:{port} HTTP/1.1\\r\\n\\r\\n')\nprint(s.recv(12).decode())"
        );
        let words = ["run", "--json", "--network", &rule, "--", "/usr/bin/python3", "-c", &connect];
        let outcome = user.hotcell(words).end().code(0).json();
        assert_eq!(outcome["stdout"]["text"], "HTTP/1.1 403\n", "{outcome:#}");
        let rows = denials(&outcome);
        assert!(rows.iter().any(|(_, target)| target.contains("a loopback address")), "{rows:?}");
        assert!(listener.accept().is_err());
    });
}

#[test]
fn network_list_needs_network_namespace() {
    everyone(|user| {
        let words = ["run", "--profile", "landlock-only", "--network", "a.com:443", "--", "true"];
        user.hotcell(words).end().code(125).says("network");
        let words = ["run", "--profile", "strict", "--network", "a.com:443", "--", "true"];
        user.hotcell(words).end().code(125).says("no internet sockets");
    });
}

#[test]
fn a091_run_retains_initial_network_list() {
    let Some(server) = server() else { return };
    everyone(|user| {
        let (at, port) = (server.at.to_string(), server.port.to_string());
        let folder = user.make_folder("work/lists");
        let config = folder.join("config.toml");
        let write = |list: &str| std::fs::write(&config, format!("network = [{list}]\n")).unwrap();
        let script = format!("echo began; read line; curl -sS http://api.test:{port}/; echo; echo $?");
        let run = || {
            user.hotcell(["run", "--config", config.to_str().unwrap(), "--", "/bin/sh", "-c", &script])
                .input("go\n")
                .end()
                .text()
        };
        if find("curl").is_none() {
            println!("skipped: no curl");
            return;
        }
        write("\"other.test:80\"");
        assert!(run().contains("not in the list"), "{}", run());
        write(&format!("\"api.test={at}:{port}\""));
        assert!(run().contains("reached"), "{}", run());

        // Changing the file during the run has no effect.
        write("\"other.test:80\"");
        let wait = format!(
            "for n in 1 2 3 4 5 6 7 8; do curl -sS http://api.test:{port}/ && echo; sleep 0.25; done; true"
        );
        let words = ["run", "--config", config.to_str().unwrap(), "--", "/bin/sh", "-c", &wait];
        let child = user.hotcell(words).start();
        std::thread::sleep(Duration::from_millis(800));
        write(&format!("\"api.test={at}:{port}\""));
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(!text.contains("reached"), "{text}");

        // A project's own file can only take hosts away.
        let project = user.make_folder("work/project");
        let tighten = |text: &str| std::fs::write(project.join("hotcell.toml"), text).unwrap();
        let words = ["run", "--config", config.to_str().unwrap(), "--", "/bin/sh", "-c", &script];
        tighten("network = []\n");
        let ended = user.hotcell(words).cwd(&project).input("go\n").end();
        assert!(ended.text().contains("not in the list"), "{ended:#?}");
        tighten("network = [\"more.test:80\"]\n");
        user.hotcell(words)
            .cwd(&project)
            .input("go\n")
            .end()
            .code(125)
            .says("hotcell.toml:1")
            .says("more.test:80");
    });
}

#[test]
fn tests_reach_allowed_hosts_only() {
    let Some(server) = server() else { return };
    everyone(|user| {
        let project = user.make_folder("work/fetching");
        let test = format!(
            "import unittest, urllib.request\nclass T(unittest.TestCase):\n    def test_fetch(self):\n        \
             self.assertEqual(urllib.request.urlopen('http://api.test:{}/').read(), b'reached')\n",
            server.port
        );
        std::fs::write(project.join("test_fetch.py"), test).unwrap();
        let project = project.to_str().unwrap();
        let rule = format!("api.test={}:{}", server.at, server.port);
        let test = |more: &[&str]| {
            let words =
                [&["test", "--framework", "unittest", "--toolchain", "/usr"], more, &[project]].concat();
            user.hotcell(words).end()
        };
        test(&["--network", &rule]).code(0);
        test(&[]).code(1);
    });
}

#[test]
fn mcp_request_cannot_widen_network() {
    everyone(|user| {
        let config = user.make_folder("home/.config/hotcell").join("config.toml");
        std::fs::write(&config, "network = [\"a.test=10.0.0.1:80\"]\n").unwrap();
        let code = "import os, socket\nprint('proxy' if 'HTTP_PROXY' in os.environ else 'none')\n\
                    try: socket.create_connection(('127.0.0.1', 888))\nexcept OSError as e: print(e.errno)";
        let mut client = Local::start(user, STATELESS);
        let content = client.good("run_code", &json!({ "language": "python", "code": code }));
        assert_eq!(content["stdout"]["text"], "none\n111\n", "{content:#}");
        let argv = json!({ "argv": ["python3", "-c", code] });
        let content = client.good("run_command", &argv);
        assert_eq!(content["stdout"]["text"], "none\n111\n", "{content:#}");
        client.end();
        std::fs::remove_file(config).unwrap();
    });
}
