//! Features for operators: metrics, logs without contents, configuration reload, sockets that another process
//! opened.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hotcell_end_to_end::mcp::{Local, Reply, SESSIONS, STATELESS, bearer, initialize, meta, reply, until};
use hotcell_end_to_end::{User, Weak};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::approvals::{approvals, id_in};

/// Time limit for anything on a busy machine.
const BUSY_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum number of connections that the metrics endpoint serves at once.
const MAX_CONNECTIONS: usize = 8;

/// A server with its log lines.
struct Server {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Server {
    fn of(mut child: Child) -> Self {
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let lines = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&lines);
        let reader = std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                all.lock().expect("nobody panicked").push(line);
            }
        });
        Self { child, lines, reader: Some(reader) }
    }

    fn start(user: &User, words: &[&str]) -> Self {
        Self::of(user.hotcell(["mcp", "--toolsets", "all"]).words(words).piped().start())
    }

    /// Waits until it has ended and all its lines are read; returns its exit status.
    fn over(&mut self) -> Option<i32> {
        let status = self.child.wait().expect("it ends");
        if let Some(reader) = self.reader.take() {
            reader.join().expect("it only reads");
        }
        status.code()
    }

    fn said(&self) -> String {
        self.lines.lock().expect("nobody panicked").join("\n")
    }

    /// Waits for a line with this text, and returns it.
    #[track_caller]
    fn says(&self, word: &str) -> String {
        let found = || {
            let lines = self.lines.lock().expect("nobody panicked");
            lines.iter().find(|line| line.contains(word)).cloned()
        };
        until(word, || found().is_some());
        found().expect("it was there")
    }

    /// Address in a line such as `metrics at http://ADDRESS/metrics`.
    #[track_caller]
    fn address(&self, word: &str) -> SocketAddr {
        let line = self.says(word);
        let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        address.and_then(|a| a.parse().ok()).unwrap_or_else(|| panic!("no address: {line}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server over HTTP with metrics, each at a port that it chose itself.
struct Served {
    server: Server,
    at: SocketAddr,
    metrics: SocketAddr,
    /// Token of the first caller.
    token: String,
}

impl Served {
    #[track_caller]
    fn start(user: &User, words: &[&str]) -> Self {
        let both = ["--http", "127.0.0.1:0", "--metrics", "127.0.0.1:0"];
        let server = Server::start(user, &[&both[..], words].concat());
        let (at, metrics) = (server.address("MCP at"), server.address("metrics at"));
        let line = server.says("the token is in ");
        let file = line.split("the token is in ").nth(1).expect("a file");
        let text = std::fs::read_to_string(file).expect("the token's file");
        let token = text.split_whitespace().nth(1).expect("a token").to_owned();
        Self { server, at, metrics, token }
    }

    /// Sends a request with these headers, and reads its reply.
    #[track_caller]
    fn post(&self, headers: &[(&str, &str)], body: &str) -> Reply {
        let mut text = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n",
            body.len()
        );
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        send(self.at, &format!("{text}\r\n{body}"))
    }

    /// Sends a request of the newest revision, and returns the last message of its reply.
    #[track_caller]
    fn request(&self, method: &str, mut params: Value) -> Value {
        let name = params["name"].as_str().unwrap_or_default().to_owned();
        params["_meta"] = meta();
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let bearer = bearer(&self.token);
        let headers = [
            ("MCP-Protocol-Version", STATELESS),
            ("Mcp-Method", method),
            ("Mcp-Name", name.as_str()),
            ("Authorization", bearer.as_str()),
        ];
        let reply = self.post(&headers, &body);
        reply.messages.last().cloned().unwrap_or_else(|| panic!("no message: {reply:?}"))
    }

    /// Result of a tool.
    #[track_caller]
    fn call(&self, tool: &str, arguments: &Value) -> Value {
        let mut answer = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        let result = answer["result"].take();
        assert!(result.is_object(), "{answer:#}");
        result
    }

    /// Waits until the metrics have these values, since a count may follow a moment after the answer. Returns
    /// all of them as text.
    #[track_caller]
    fn counts(&self, wants: &[(&str, f64)]) -> String {
        let began = Instant::now();
        loop {
            let (status, text) = get(self.metrics, "/metrics", &[]);
            assert_eq!(status, 200, "{text}");
            let now = numbers(&text);
            let wrong: Vec<_> = wants.iter().filter(|(name, want)| now.get(*name) != Some(want)).collect();
            if wrong.is_empty() {
                return text;
            }
            assert!(began.elapsed() < BUSY_TIMEOUT, "not {wrong:?}\n{text}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Makes it reload its configuration, and waits until it has, with this result.
    #[track_caller]
    fn reload(&self, result: &str) {
        let name = format!("hotcell_config_reloads_total{{result=\"{result}\"}}");
        let read = || numbers(&get(self.metrics, "/metrics", &[]).1)[&name];
        let before = read();
        signal(self.server.child.id(), Signal::SIGHUP);
        until(&name, || read() > before);
    }

    /// Asks it to end and waits for that; returns its exit status and all its lines.
    #[track_caller]
    fn end(mut self) -> (Option<i32>, String) {
        signal(self.server.child.id(), Signal::SIGTERM);
        let code = self.server.over();
        (code, self.server.said())
    }
}

/// Sends a complete request; returns the reply, read until the connection is closed.
#[track_caller]
fn send(address: SocketAddr, text: &str) -> Reply {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(BUSY_TIMEOUT)).expect("a time");
    stream.write_all(text.as_bytes()).expect("it reads");
    reply(stream)
}

/// Requests a page; returns its status and the whole reply.
#[track_caller]
fn get(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
    let mut text = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| *name == "Host") {
        text.push_str(&format!("Host: {address}\r\n"));
    }
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    let reply = send(address, &format!("{text}\r\n"));
    (reply.status, reply.body)
}

/// Metrics by name and labels.
fn numbers(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let number = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no number: {line}"));
        (name.to_owned(), value.parse().unwrap_or_else(|e| panic!("{e}: {line}")))
    };
    lines.map(number).collect()
}

#[test]
fn metrics_count_calls_without_contents() {
    let user = User::me();
    let server = Served::start(&user, &[]);
    let secret = "Xyzzy7Contents";
    let call = |tool: &str, arguments: Value| server.call(tool, &arguments);
    call("run_command", json!({ "argv": ["echo", secret] }));
    call("run_code", json!({ "language": "bash", "code": format!("# {secret}\nexit 3") }));
    call("run_command", json!({ "argv": [format!("no-{secret}")] }));
    let unknown = json!({ "name": format!("tool_{secret}"), "arguments": {} });
    server.request("tools/call", unknown);
    let text = server.counts(&[
        ("hotcell_runs_total{cause=\"exited\"}", 2.0),
        ("hotcell_runs_total{cause=\"not_found\"}", 1.0),
        ("hotcell_run_seconds_count", 3.0),
        ("hotcell_runs_running", 0.0),
        ("hotcell_runs_queued", 0.0),
        ("hotcell_guard_verdicts_total{verdict=\"allow\"}", 1.0),
        ("hotcell_tool_calls_total{tool=\"run_command\",result=\"ok\"}", 2.0),
        ("hotcell_tool_calls_total{tool=\"unknown\",result=\"error\"}", 1.0),
        ("hotcell_approvals_pending", 0.0),
        ("hotcell_state_unreadable", 0.0),
    ]);
    let now = numbers(&text);
    assert!(now["process_resident_memory_bytes"] > 1e6 && now["process_open_fds"] > 3.0, "{text}");
    assert!(now["hotcell_http_responses_total{class=\"2xx\"}"] >= 4.0, "{text}");
    for word in [secret, &server.token, "default", "/tmp", "/home"] {
        assert!(!text.contains(word), "{word}\n{text}");
    }
    // Refusals over HTTP count, too.
    assert_eq!(server.post(&[], &initialize(1).to_string()).status, 401);
    server.counts(&[("hotcell_http_responses_total{class=\"4xx\"}", 1.0)]);
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn operating_chapter_names_every_metric() {
    let user = User::me();
    let server = Server::start(&user, &["--stdio", "--metrics", "127.0.0.1:0"]);
    let (status, text) = get(server.address("metrics at"), "/metrics", &[]);
    assert_eq!(status, 200);
    let chapter = include_str!("../../../docs/src/operating.md");
    let row = |line: &str| -> Option<[String; 2]> {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let name = cells.next()?.strip_suffix('`')?;
        let named = ["hotcell_", "process_"].iter().any(|p| name.starts_with(p));
        let kind = cells.next()?;
        (named && !name.contains([' ', '{'])).then(|| [name.to_owned(), kind.to_owned()])
    };
    let mut said: Vec<_> = chapter.lines().filter_map(row).collect();
    said.retain(|[_, kind]| ["counter", "gauge", "histogram"].contains(&kind.as_str()));
    let typed = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let told: Vec<_> = typed.map(|(name, kind)| [name.to_owned(), kind.to_owned()]).collect();
    assert!(told.len() > 20, "{text}");
    // Without a call there is no line for it.
    said.retain(|[name, _]| name != "hotcell_tool_calls_total");
    assert_eq!(said, told);
}

#[test]
fn metrics_refuse_foreign_host_and_origin() {
    let user = User::me();
    let server = Server::start(&user, &["--metrics", "127.0.0.1:0"]);
    let at = server.address("metrics at");
    for (path, headers, want) in [
        ("/metrics", vec![("Host", "localhost")], 200),
        ("/metrics", vec![("Host", "evil.example")], 403),
        ("/metrics", vec![("Host", "127.0.0.1.evil.example")], 403),
        ("/metrics", vec![("Origin", "http://evil.example")], 403),
        ("/metrics", vec![("Origin", "null")], 403),
        ("http://evil.example/metrics", vec![], 400),
        ("/", vec![], 404),
        ("/mcp", vec![], 404),
    ] {
        assert_eq!(get(at, path, &headers).0, want, "{path} {headers:?}");
    }
    // A silent client keeps its connection for ten seconds only: even when all are taken, others are served.
    let _silent: Vec<_> = (0..MAX_CONNECTIONS).map(|_| TcpStream::connect(at).expect("it listens")).collect();
    assert_eq!(get(at, "/metrics", &[]).0, 200);
}

#[test]
fn metrics_beyond_loopback_need_token() {
    let user = User::me();
    let words = ["--http", "127.0.0.1:0", "--metrics", "0.0.0.0:0", "--plain-http"];
    let server = Server::start(&user, &words);
    let line = server.says("the token is in ");
    let file = line.split("the token is in ").nth(1).expect("a file");
    let token = std::fs::read_to_string(file).expect("a file");
    let token = bearer(token.split_whitespace().nth(1).expect("a token"));
    let mut at = server.address("metrics at");
    at.set_ip([127, 0, 0, 1].into());
    assert_eq!(get(at, "/metrics", &[]).0, 401);
    assert_eq!(get(at, "/metrics", &[("Authorization", "Bearer x")]).0, 401);
    assert_eq!(get(at, "/metrics", &[("Authorization", &token)]).0, 200);
    assert_eq!(get(at, "/metrics", &[("Authorization", &token), ("Host", "evil.example")]).0, 403);
}

#[test]
fn invalid_metrics_address_prevents_start() {
    let user = User::me();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("an address").to_string();
    for (words, said) in [
        (&["--metrics", &taken][..], "Address already in use"),
        (&["--http", "127.0.0.1:0", "--metrics", &taken], "Address already in use"),
        (&["--metrics", "9808"], "invalid socket address"),
        (&["--metrics", "localhost"], "invalid socket address"),
        (&["--metrics", "0.0.0.0:0"], "could be read from other machines"),
        (&["--http", "127.0.0.1:0", "--metrics", "0.0.0.0:0"], "could be read from other machines"),
        (&["--http", "127.0.0.1:0", "--no-auth", "--plain-http", "--metrics", "0.0.0.0:0"], "other machines"),
        (&["--metrics", "192.0.2.1:1", "--plain-http"], "--http"),
    ] {
        let ended = user.hotcell(["mcp"]).words(words).end();
        ended.code(125).says(said);
        assert!(!ended.text().contains("MCP at"), "{words:?}");
    }
}

fn signal(pid: u32, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(pid).expect("a pid")), signal).expect("it is there");
}

/// Writes the configuration to its usual path.
fn configure(user: &User, text: &str) {
    user.make_folder("home/.config/hotcell");
    user.write("home/.config/hotcell/config.toml", text);
}

#[test]
fn reloaded_configuration_applies_to_new_runs() {
    let user = User::me();
    let server = Served::start(&user, &[]);
    let call = |arguments: Value| server.call("run_command", &arguments);
    let asks = json!({ "argv": ["true"], "limits": { "memory_mib": 256 } });
    assert_eq!(call(asks.clone())["isError"], json!(false));
    let slow = json!({ "argv": ["bash", "-c", "echo up; sleep 15; exit 7"], "wait_ms": 0 });
    let running = call(slow)["structuredContent"]["run_id"].clone();
    // A run that still waits for its turn would begin under the new limit.
    let printed = json!({ "run_id": running, "stream": "stdout" });
    until("its beginning", || server.call("run_output", &printed)["structuredContent"]["text"] == "up\n");

    configure(&user, "[limits]\nmemory = \"64M\"\ntimeout = \"2s\"\n");
    server.reload("ok");
    let refused = call(asks.clone());
    assert_eq!(refused["isError"], json!(true));
    assert!(refused.to_string().contains("limits.memory_mib"), "{refused:#}");
    let longer = call(json!({ "argv": ["sleep", "60"] }));
    assert_eq!(longer["structuredContent"]["cause"], "wall_limit", "{longer:#}");

    // A running run keeps its limits: it takes longer than the new one allows.
    let status = json!({ "run_id": running, "wait_ms": 50_000 });
    let ended = server.call("run_status", &status);
    assert_eq!(ended["structuredContent"]["exit_code"], 7, "{ended:#}");

    // Nothing of an invalid file takes effect, whatever the fault.
    for broken in [
        "[limits]\nmemory = \"1G\"\ntimeout = \"soon\"",
        "limit = 1",
        "[limits]\nmemory = \"1G\"\n[",
        "profile = \"strikt\"",
        "rules = \"/nowhere/at/all\"",
    ] {
        configure(&user, broken);
        server.reload("error");
        assert_eq!(call(asks.clone())["isError"], json!(true), "{broken}");
    }
    configure(&user, "[pool]\nper_shape = 1\n");
    server.reload("ok");
    assert_eq!(call(asks)["isError"], json!(false));
    let (code, errors) = server.end();
    assert_eq!(code, Some(0));
    assert!(
        errors.contains("not read again, and the old one stays")
            && errors.contains("did you mean \"limits\""),
        "{errors}"
    );
    assert!(errors.contains("pool counts after the next start"), "{errors}");
}

#[test]
fn removed_token_is_refused() {
    let user = User::me();
    let [one, two, three] = ["a", "b", "c"].map(|letter| letter.repeat(40));
    let state = user.make_folder("state");
    let file = user.write("state/mcp-tokens", format!("one {one}\ntwo {two}\n"));
    for (path, mode) in [(&state, 0o700), (&file, 0o600)] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("it is there");
    }
    let server = Served::start(&user, &["--state", state.to_str().expect("it is text")]);
    let list =
        |token: &str| server.post(&[("Authorization", &bearer(token))], &initialize(1).to_string()).status;
    assert_eq!((list(&one), list(&two)), (200, 200));
    std::fs::write(&file, format!("two {two}\nthree {three}\n")).expect("a file");
    server.reload("ok");
    assert_eq!((list(&one), list(&two), list(&three)), (401, 200, 200));
    // A file that others can read is ignored.
    std::fs::write(&file, format!("one {one}\n")).expect("a file");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).expect("it is there");
    server.reload("error");
    assert_eq!((list(&one), list(&two), list(&three)), (401, 200, 200));
    // Removed tokens are refused even if the rest of the reload fails; new ones wait for a successful reload.
    std::fs::write(&file, format!("one {one}\nthree {three}\n")).expect("a file");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).expect("it is there");
    configure(&user, "rules = \"/nowhere/at/all\"\n");
    server.reload("error");
    assert_eq!((list(&one), list(&two), list(&three)), (401, 401, 200));
    let (_, errors) = server.end();
    for line in ["others can read it", "/nowhere/at/all", "not in their file any more open nothing: 1"] {
        assert!(errors.contains(line), "{line}: {errors}");
    }
}

#[test]
fn systemd_is_notified_of_service_state() {
    let user = User::me();
    let path = user.path("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
    let said = || {
        let mut buffer = [0; 200];
        let length = socket.recv(&mut buffer).expect("a word");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    let call = user.hotcell(["mcp", "--http", "127.0.0.1:0"]).env("NOTIFY_SOCKET", &path);
    let mut server = Server::of(call.start());
    assert_eq!(said(), "READY=1");
    signal(server.child.id(), Signal::SIGHUP);
    let reloading = said();
    let micros = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").and_then(|m| m.parse::<u64>().ok());
    assert!(micros.is_some_and(|m| m > 0), "{reloading}");
    assert_eq!(said(), "READY=1");
    signal(server.child.id(), Signal::SIGTERM);
    assert_eq!(said(), "STOPPING=1");
    assert_eq!(server.over(), Some(0));
}

#[test]
fn json_log_contains_no_contents() {
    let user = User::me();
    let secret = "Xyzzy7Contents";
    let odd = format!("{secret}\u{1b}[31m\"}}\\n{{\"");
    let options = ["--log", "json", "-vvv"];
    let mut client = Local::start_on(&user, &Weak::default(), &options, SESSIONS);
    let made = client
        .call("workspace_create", &json!({ "files": [{ "path": format!("{secret}.py"), "text": odd }] }));
    let id = made["structuredContent"]["workspace_id"].clone();
    for (tool, arguments) in [
        (
            "run_code",
            json!({ "language": "python", "code": format!("print({odd:?}); import sys; sys.exit(3)"), "args": [odd], "stdin": odd }),
        ),
        (
            "run_code",
            json!({ "language": "python", "code": format!("import shutil # {odd:?}\nshutil.rmtree('/home/{secret}')") }),
        ),
        ("run_code", json!({ "language": "cobol", "code": odd })),
        ("run_code", json!({ "language": "rust", "code": format!("fn main() {{ {secret} }}") })),
        ("run_command", json!({ "argv": [format!("no-{secret}"), odd], "env": { "NAME": odd } })),
        ("run_command", json!({ "argv": [format!("./{secret}.py")], "workspace_id": id, "keep": true })),
        ("run_command", json!({ "argv": ["true"], "image": secret })),
        ("run_command", json!({ "argv": ["true"], "network": [format!("{secret}.example:443")] })),
        ("run_tests", json!({ "workspace_id": id })),
        ("run_status", json!({ "run_id": secret })),
        (
            "workspace_write",
            json!({ "workspace_id": id, "files": [{ "path": format!("../{secret}"), "text": odd }] }),
        ),
        ("workspace_read", json!({ "workspace_id": id, "path": secret })),
        ("scan_artifact", json!({ "workspace_id": id })),
        ("scan_artifact", json!({ "files": [{ "path": secret, "text": "(".repeat(3000) }] })),
        ("quarantine_show", json!({ "id": secret })),
    ] {
        client.call(tool, &arguments);
    }
    for method in ["tools/call", "resources/read", secret] {
        client.request(method, json!({ "name": secret, "uri": format!("hotcell://runs/{secret}") }));
    }
    let (code, _, log) = client.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.lines().count() > 0, "the most verbose log says something");
    for line in log.lines() {
        let read: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("no JSON: {e}: {line}"));
        let has = |name: &str| read[name].as_str().is_some_and(|text| !text.is_empty());
        assert!(["time", "level", "target", "message"].into_iter().all(has), "{line}");
        assert!(!line.contains(secret), "{line}");
    }
    // The text log contains the secret, so the check above would detect it.
    let mut client = Local::start_on(&user, &Weak::default(), &["-vvv"], SESSIONS);
    client.call("run_command", &json!({ "argv": [format!("no-{secret}")] }));
    let (_, _, log) = client.end();
    assert!(log.contains(secret), "{log}");
}

/// Starts its arguments with a socket as descriptor 3, as systemd does; the first argument says what is wrong
/// with the socket.
const PASSES: &str = "
import os, socket, sys
how = sys.argv[1]
kind = socket.AF_UNIX if how == 'unix' else socket.AF_INET
s = socket.socket(kind, socket.SOCK_STREAM)
s.bind('' if how == 'unix' else ('0.0.0.0' if how == 'open' else '127.0.0.1', 0))
if how != 'bound': s.listen()
if how != 'unix': print(s.getsockname()[1], file=sys.stderr, flush=True)
if how == 'file': s = open('/dev/null')
os.dup2(s.fileno(), 3)
os.set_inheritable(3, True)
os.environ['LISTEN_FDS'] = '2' if how == 'two' else '1'
os.environ['LISTEN_PID'] = '1' if how == 'pid' else str(os.getpid())
os.execv(sys.argv[2], sys.argv[2:])
";

fn passed(user: &User, how: &str, words: &[&str]) -> Server {
    let mut command = user.program(Path::new("python3"));
    command.args(["-c", PASSES, how]).arg(user.binary()).args(["mcp", "--http", "systemd"]).args(words);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", user.path("home"));
    command.current_dir(user.path("work")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    Server::of(command.spawn().expect("python3"))
}

#[test]
fn passed_socket_is_served() {
    let user = User::me();
    let server = passed(&user, "good", &["--no-auth"]);
    let port = server.says("").trim().parse::<u16>().expect("a port");
    let at = server.address("MCP at");
    assert_eq!(at, SocketAddr::from(([127, 0, 0, 1], port)));
    assert_eq!(get(at, "/other", &[]).0, 404);
    assert_eq!(get(at, "/mcp", &[("Host", "evil.example")]).0, 403);
}

#[test]
fn invalid_passed_socket_prevents_start() {
    let user = User::me();
    for (how, words, said) in [
        ("two", &[][..], "takes one"),
        ("pid", &[], "another process"),
        ("file", &[], "it is no socket"),
        ("bound", &[], "no socket that listens for TCP"),
        ("unix", &[], "no socket that listens for TCP"),
        ("open", &[], "--plain-http"),
        ("open", &["--no-auth"], "other machines"),
    ] {
        let mut server = passed(&user, how, words);
        assert_eq!(server.over(), Some(125), "{how}");
        server.says(said);
        assert!(!server.said().contains("MCP at"), "{how}");
    }
    user.hotcell(["mcp", "--http", "systemd"]).end().code(125).says("no socket was passed");
}

#[test]
fn withdrawn_network_ends_its_run() {
    let user = User::me();
    // Longer than the program runs: nothing else ends it.
    configure(&user, "[limits]\ntimeout = \"10m\"\n");
    let mut client = Local::start(&user, SESSIONS);
    let call = |tool: &mut Local, network: Value| {
        let argv = json!(["sh", "-c", "echo up; exec sleep 300"]);
        let call = json!({ "argv": argv, "network": network, "wait_ms": 0 });
        tool.call("run_command", &call)
    };
    let asked = call(&mut client, json!(["pypi.org:443"]));
    let id = id_in(asked["content"][0]["text"].as_str().expect("a text"));
    approvals(&user, &["approve", &id]).code(0);
    let with = call(&mut client, json!(["pypi.org:443"]))["structuredContent"]["run_id"].clone();
    let without = call(&mut client, json!([]))["structuredContent"]["run_id"].clone();
    assert!(with.is_string() && without.is_string());
    // Both have begun when they print; a waiting run is refused instead.
    until("both run", || {
        [&with, &without].iter().all(|run| {
            let printed = json!({ "run_id": run, "stream": "stdout" });
            client.good("run_output", &printed)["text"] == "up\n"
        })
    });
    let status = |client: &mut Local, run: &Value, wait: u32| {
        client.good("run_status", &json!({ "run_id": run, "wait_ms": wait }))
    };
    configure(&user, "network = \"off\"\n[limits]\ntimeout = \"10m\"\n");
    signal(client.pid(), Signal::SIGHUP);
    let ended = status(&mut client, &with, 50_000);
    assert_eq!(ended["cause"], "cancelled", "{ended:#}");
    assert!(ended["reason"].as_str().is_some_and(|r| r.contains("withdrew the network")), "{ended:#}");
    assert_eq!(status(&mut client, &without, 200)["status"], "running");
}
