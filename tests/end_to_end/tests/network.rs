//! `--network`: hosts that are allowed are reached, by clients that know of a proxy; nothing else is, by anybody.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hotcell_end_to_end::mcp::{Local, STATELESS};
use hotcell_end_to_end::{everyone, find};
use serde_json::{Value, json};

/// A web server on an address of this host that is not its loopback.
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

/// Tries what a program can try; prints one line for each.
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
        s = socket.create_connection((to, port), 5); s.sendall(b'GET / HTTP/1.1\r\n\r\n'); return s.recv(99)
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
fn an_allowed_host_is_reached_and_nothing_else() {
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
        let want = format!(
            "allowed reached\nother 403\naddress 403\nmetadata 403\nname {at}\nother-name failed\ndirect failed\n\
             direct-name failed\ndns-beyond failed\n"
        );
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
        // A server of its own still listens, beside the proxy.
        let own = "import socket,os\ns=socket.create_server(('127.0.0.1',0))\n\
                   c=socket.create_connection(s.getsockname())\nprint('own', os.environ['NO_PROXY'])";
        let words = ["run", "--network", &rule, "--", "/usr/bin/python3", "-c", own];
        user.hotcell(words).end().code(0).prints("own localhost,127.0.0.1,::1\n");
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
fn a086_an_empty_list_denies_everything() {
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
fn a084_a_name_that_leads_to_this_host_is_not_followed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    listener.set_nonblocking(true).unwrap();
    everyone(|user| {
        // Allowed by name; the host's resolver says that it is the loopback.
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
fn where_there_is_no_private_network_it_is_refused() {
    everyone(|user| {
        let words = ["run", "--profile", "landlock-only", "--network", "a.com:443", "--", "true"];
        user.hotcell(words).end().code(125).says("network");
        let words = ["run", "--profile", "strict", "--network", "a.com:443", "--", "true"];
        user.hotcell(words).end().code(125).says("no internet sockets");
    });
}

#[test]
fn a091_a_run_keeps_the_list_with_which_it_began() {
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

        // A file that changes while it runs changes nothing.
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

        // And a project's own file can only take away.
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
fn tests_reach_what_they_may() {
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
fn whoever_asks_over_mcp_reaches_no_host() {
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
