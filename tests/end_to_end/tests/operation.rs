//! What an operator has: numbers, logs without contents, a configuration that is read again, sockets that somebody else opened.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

use hotcell_end_to_end::User;
use hotcell_end_to_end::mcp::{Http, bearer, initialize, reply, until};
use serde_json::json;

/// A server with its lines.
struct Server {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn of(mut child: Child) -> Self {
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let lines = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&lines);
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                all.lock().expect("nobody panicked").push(line);
            }
        });
        Self { child, lines }
    }

    fn start(user: &User, words: &[&str]) -> Self {
        Self::of(user.hotcell(["mcp"]).words(words).piped().start())
    }

    fn said(&self) -> String {
        self.lines.lock().expect("nobody panicked").join("\n")
    }

    /// Waits for a line with this; the line.
    #[track_caller]
    fn says(&self, word: &str) -> String {
        let found = || {
            let lines = self.lines.lock().expect("nobody panicked");
            lines.iter().find(|line| line.contains(word)).cloned()
        };
        until(word, || found().is_some());
        found().expect("it was there")
    }

    /// The address in a line such as `metrics at http://ADDRESS/metrics`.
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

/// Asks for a page; its status and all that came.
fn get(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let mut text = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| *name == "Host") {
        text.push_str(&format!("Host: {address}\r\n"));
    }
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{text}\r\n").as_bytes()).expect("it reads");
    let reply = reply(stream);
    (reply.status, reply.body)
}

/// The numbers, by name and labels.
fn numbers(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let number = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no number: {line}"));
        (name.to_owned(), value.parse().unwrap_or_else(|e| panic!("{e}: {line}")))
    };
    lines.map(number).collect()
}

/// A free port of loopback, for a server that is not asked which it took.
fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port")
}

#[test]
fn numbers_are_told_and_have_no_contents() {
    let user = User::me();
    let metrics = free();
    let server = Http::start(&user, &["--metrics", &metrics.to_string()]);
    until("the numbers", || TcpStream::connect(metrics).is_ok());
    let secret = "Xyzzy7Contents";
    let call = |tool: &str, arguments| server.call(&server.token, tool, &arguments);
    call("run_command", json!({ "argv": ["echo", secret] }));
    call("run_code", json!({ "language": "bash", "code": format!("# {secret}\nexit 3") }));
    call("run_command", json!({ "argv": [format!("no-{secret}")] }));
    call(&format!("tool_{secret}"), json!({}));
    let (status, text) = get(metrics, "/metrics", &[]);
    assert_eq!(status, 200, "{text}");
    let now = numbers(&text);
    for (name, want) in [
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
    ] {
        assert_eq!(now.get(name), Some(&want), "{name}\n{text}");
    }
    assert!(now["process_resident_memory_bytes"] > 1e6 && now["process_open_fds"] > 3.0, "{text}");
    assert!(now["hotcell_http_responses_total{class=\"2xx\"}"] >= 4.0, "{text}");
    for word in [secret, &server.token, "default", "/tmp", "/home"] {
        assert!(!text.contains(word), "{word}\n{text}");
    }
    // What is refused over HTTP counts, too.
    assert_eq!(server.post(&[], &initialize(1).to_string()).status, 401);
    let later = numbers(&get(metrics, "/metrics", &[]).1);
    assert_eq!(later["hotcell_http_responses_total{class=\"4xx\"}"], 1.0);
    server.end();
}

#[test]
fn the_chapter_has_every_name() {
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
    // Without a call there is no line of it.
    said.retain(|[name, _]| name != "hotcell_tool_calls_total");
    assert_eq!(said, told);
}

#[test]
fn only_who_may_hears_the_numbers() {
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
    // Somebody who says nothing keeps nobody else waiting.
    let _silent: Vec<_> = (0..4).map(|_| TcpStream::connect(at).expect("it listens")).collect();
    assert_eq!(get(at, "/metrics", &[]).0, 200);
}

#[test]
fn beyond_loopback_numbers_need_the_token() {
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
fn a_wrong_address_of_the_numbers_starts_nothing() {
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
