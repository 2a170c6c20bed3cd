//! A client of `hotcell mcp` that speaks the protocol by hand, so that a test can also violate it.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{User, Weak};

/// The newest revision, which every request names.
pub const STATELESS: &str = "2026-07-28";
/// The revision before: a session begins with `initialize`.
pub const SESSIONS: &str = "2025-11-25";
/// Time limit for an answer on a busy machine.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Variable with the toolsets of a server; the option takes precedence. Servers of tests offer every tool.
const TOOLSETS: &str = "HOTCELL_MCP_TOOLSETS";

/// Metadata that every request of the newest revision carries.
#[must_use]
pub fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" }
    })
}

/// The first request of a session.
#[must_use]
pub fn initialize(id: u64) -> Value {
    let params = json!({
        "protocolVersion": SESSIONS, "capabilities": {}, "clientInfo": { "name": "test", "version": "1" }
    });
    json!({ "jsonrpc": "2.0", "id": id, "method": "initialize", "params": params })
}

/// Number of processes on this host whose command line contains this mark.
#[must_use]
pub fn marked(mark: &str) -> usize {
    let all = std::fs::read_dir("/proc").expect("/proc").flatten();
    let lines = all.filter_map(|e| std::fs::read(e.path().join("cmdline")).ok());
    lines.filter(|l| String::from_utf8_lossy(l).contains(mark)).count()
}

/// A script whose tree has three processes with this mark: a plain child, one that ignores SIGTERM, and one
/// in another session.
#[must_use]
pub fn tree(mark: &str) -> Value {
    let script = format!(
        "(exec -a {mark} sleep 300) & (trap '' TERM; exec -a {mark} sleep 300) & \
         setsid bash -c 'exec -a {mark} sleep 300' & wait"
    );
    json!({ "argv": ["bash", "-c", script] })
}

/// Waits until a condition holds; returns the time that took.
#[track_caller]
pub fn until(what: &str, mut is: impl FnMut() -> bool) -> Duration {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < ANSWER_TIMEOUT, "{what} did not come");
        std::thread::sleep(Duration::from_millis(1));
    }
    begin.elapsed()
}

/// A server with two callers, and their tokens.
#[must_use]
pub fn two_callers(user: &User) -> (Http, [String; 2]) {
    let tokens = ["a".repeat(40), "b".repeat(40)];
    let state = user.make_folder("state");
    let file = user.write("state/mcp-tokens", format!("one {}\ntwo {}\n", tokens[0], tokens[1]));
    for (path, mode) in [(&state, 0o700), (&file, 0o600)] {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode))
            .expect("it is there");
    }
    (Http::start(user, &["--state", state.to_str().expect("it is there")]), tokens)
}

/// Resident memory of a process, in bytes.
#[must_use]
pub fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it is there");
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).expect("it is there");
    line.split_whitespace().nth(1).expect("it is there").parse::<u64>().expect("it is there") * 1024
}

/// Authorization header of a token.
#[must_use]
pub fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

fn read_errors(mut stderr: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stderr.read_to_string(&mut text);
        text
    })
}

/// A server on standard input and output whose output is not read.
#[must_use]
pub fn unheard(user: &User) -> (Child, ChildStdin) {
    let mut call = user.hotcell(["mcp"]).env(TOOLSETS, "all");
    call.command.stdin(Stdio::piped());
    let mut child = call.start();
    let stdin = child.stdin.take().expect("a pipe");
    (child, stdin)
}

/// A server on standard input and output, and its client.
pub struct Local {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    errors: Option<std::thread::JoinHandle<String>>,
    /// Received notifications, in order.
    pub news: Vec<Value>,
    revision: &'static str,
    /// Capabilities that the client announces.
    able: Value,
    id: u64,
    /// Output schemas of each tool: as listed, and the whole one.
    schemas: HashMap<String, Vec<Value>>,
}

impl Local {
    /// Starts a server without sending it anything.
    pub fn silent(user: &User, options: &[&str]) -> Self {
        Self::silent_on(user, &Weak::default(), options)
    }

    fn silent_on(user: &User, host: &Weak, options: &[&str]) -> Self {
        let mut call = user.hotcell_on(host, ["mcp"]).env(TOOLSETS, "all");
        call.add(options);
        call.command.stdin(Stdio::piped());
        let mut child = call.start();
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let errors = child.stderr.take().map(read_errors);
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let message: Value =
                    serde_json::from_str(&line).unwrap_or_else(|e| panic!("not MCP: {e}: {line}"));
                assert_eq!(message["jsonrpc"], "2.0", "not MCP: {line}");
                if send.send(message).is_err() {
                    return;
                }
            }
        });
        let stdin = child.stdin.take();
        let (news, schemas) = (Vec::new(), HashMap::new());
        Self { child, stdin, lines, errors, news, revision: STATELESS, able: json!({}), id: 0, schemas }
    }

    /// Starts a server and opens the connection as the revision requires.
    pub fn start(user: &User, revision: &'static str) -> Self {
        Self::able(user, revision, json!({}))
    }

    /// Like [`Self::start`], but on a host that lacks something.
    pub fn start_on(user: &User, host: &Weak, options: &[&str], revision: &'static str) -> Self {
        Self::able_on(user, host, options, revision, json!({}))
    }

    /// Like [`Self::start`], for a client that announces capabilities.
    pub fn able(user: &User, revision: &'static str, able: Value) -> Self {
        Self::able_on(user, &Weak::default(), &[], revision, able)
    }

    /// Like [`Self::start_on`], for a client that announces capabilities.
    pub fn able_on(user: &User, host: &Weak, options: &[&str], revision: &'static str, able: Value) -> Self {
        let mut client = Self::silent_on(user, host, options);
        (client.revision, client.able) = (revision, able);
        if revision != STATELESS {
            let mut first = initialize(0);
            first["params"]["protocolVersion"] = revision.into();
            first["params"]["capabilities"] = client.able.clone();
            client.send(&first);
            assert_eq!(client.answer(&0.into())["result"]["protocolVersion"], revision);
            client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        }
        client
    }

    /// Process id of the server.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends bytes.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        if let Err(e) = self.stdin.as_mut().expect("still open").write_all(bytes) {
            panic!("the server does not read: {e}: {}", self.gone());
        }
    }

    /// Describes the end of a server that should not have ended.
    fn gone(&mut self) -> String {
        let status = self.child.wait();
        format!(
            "{status:?}: {}",
            self.errors.take().map_or_else(String::new, |e| e.join().unwrap_or_default())
        )
    }

    /// Sends a message.
    pub fn send(&mut self, message: &Value) {
        self.send_bytes(format!("{message}\n").as_bytes());
    }

    /// Sends a request; returns its id.
    pub fn ask(&mut self, method: &str, params: Value) -> u64 {
        let message = self.next_request(method, params);
        self.send(&message);
        self.id
    }

    /// Builds the next request, as this revision requires.
    fn next_request(&mut self, method: &str, mut params: Value) -> Value {
        self.id += 1;
        if self.revision == STATELESS {
            let mut all = meta();
            all["io.modelcontextprotocol/clientCapabilities"] = self.able.clone();
            if let (Some(all), Some(more)) = (all.as_object_mut(), params["_meta"].as_object()) {
                all.extend(more.clone());
            }
            params["_meta"] = all;
        }
        json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params })
    }

    /// The next message; `None` at the end of the server's output.
    #[track_caller]
    fn message(&mut self) -> Option<Value> {
        match self.lines.recv_timeout(ANSWER_TIMEOUT) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("nothing came"),
        }
    }

    /// Receives the next message; fails at the end of the output.
    #[track_caller]
    pub fn said(&mut self) -> Value {
        match self.message() {
            Some(message) => message,
            None => panic!("no answer before the end: {}", self.gone()),
        }
    }

    /// Receives the answer with this id; notifications before it are kept in `news`.
    #[track_caller]
    pub fn answer(&mut self, id: &Value) -> Value {
        loop {
            let message = self.said();
            if message["id"] == *id && message["method"].is_null() {
                return message;
            }
            self.news.push(message);
        }
    }

    /// Sends a request and receives its answer.
    #[track_caller]
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.answer(&id.into())
    }

    /// Result of a tool, good or bad.
    #[track_caller]
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let mut answer = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        let result = answer["result"].take();
        assert!(result.is_object(), "{answer:#}");
        result
    }

    /// Result of a tool, or a description of the server's end.
    #[track_caller]
    pub fn call_or_end(&mut self, tool: &str, arguments: &Value) -> Result<Value, String> {
        let message = self.next_request("tools/call", json!({ "name": tool, "arguments": arguments }));
        let stdin = self.stdin.as_mut().expect("still open");
        if writeln!(stdin, "{message}").is_err() {
            return Err(self.gone());
        }
        while let Some(mut answer) = self.message() {
            if answer["id"] == self.id && answer["method"].is_null() {
                return Ok(answer["result"].take());
            }
        }
        Err(self.gone())
    }

    /// Structured content of a good result, checked against the tool's output schema.
    #[track_caller]
    pub fn good(&mut self, tool: &str, arguments: &Value) -> Value {
        let mut result = self.call(tool, arguments);
        assert_eq!(result["isError"], false, "{result:#}");
        let content = result["structuredContent"].take();
        if self.schemas.is_empty() {
            let list = self.request("tools/list", json!({}));
            for tool in list["result"]["tools"].as_array().expect("tools") {
                let name = tool["name"].as_str().expect("a name").to_owned();
                self.schemas.insert(name, vec![tool["outputSchema"].clone()]);
            }
        }
        // The list has few words; the whole schema of hotcell's own tools is a resource.
        if self.schemas[tool].len() == 1 {
            let whole = self.request("resources/read", json!({ "uri": format!("hotcell://tools/{tool}") }));
            let text = whole["result"]["contents"][0]["text"].as_str();
            let whole = text.map_or(Value::Bool(true), |text| {
                serde_json::from_str::<Value>(text).expect("a tool is JSON")["outputSchema"].clone()
            });
            self.schemas.get_mut(tool).expect("listed").push(whole);
        }
        for schema in &self.schemas[tool] {
            let validator = jsonschema::validator_for(schema).expect("a schema is one");
            let errors: Vec<_> =
                validator.iter_errors(&content).map(|e| format!("{}: {e}", e.instance_path())).collect();
            assert!(errors.is_empty(), "{errors:#?}\n{content:#}");
        }
        content
    }

    /// Error text of a bad result.
    #[track_caller]
    pub fn bad(&mut self, tool: &str, arguments: &Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{result:#}");
        result["content"][0]["text"].as_str().expect("a text").to_owned()
    }

    /// Closes the server's input and waits for its end: exit status, time, standard error.
    #[track_caller]
    pub fn end(mut self) -> (Option<i32>, Duration, String) {
        drop(self.stdin.take());
        let begin = Instant::now();
        let status = self.child.wait().expect("it ends");
        (
            status.code(),
            begin.elapsed(),
            self.errors.take().map_or_else(String::new, |e| e.join().unwrap_or_default()),
        )
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server on HTTP.
pub struct Http {
    child: Child,
    errors: Option<std::thread::JoinHandle<String>>,
    /// Address that it listens on.
    pub address: SocketAddr,
    /// Token of the first caller; empty with `--no-auth`.
    pub token: String,
}

impl Http {
    /// Starts a server at any port of loopback.
    #[track_caller]
    pub fn start(user: &User, options: &[&str]) -> Self {
        let mut call = user.hotcell(["mcp", "--http", "127.0.0.1:0"]).env(TOOLSETS, "all");
        call.add(options);
        let mut child = call.start();
        let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut line = String::new();
        stderr.read_line(&mut line).expect("a line");
        let address =
            line.split("http://").nth(1).and_then(|r| r.split("/mcp").next()).and_then(|a| a.parse().ok());
        let address = address.unwrap_or_else(|| panic!("no address: {line}"));
        let token = line.trim_end().split("the token is in ").nth(1).map_or_else(String::new, |file| {
            let text = std::fs::read_to_string(file).expect("the token's file");
            text.split_whitespace().nth(1).expect("a token").to_owned()
        });
        Self { child, errors: Some(read_errors(stderr)), address, token }
    }

    /// Process id of the server.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a complete request with these headers and leaves the connection open.
    pub fn open(&self, headers: &[(&str, &str)], body: &str) -> std::io::Result<TcpStream> {
        let mut text = format!("POST /mcp HTTP/1.1\r\nContent-Length: {}\r\n", body.len());
        let usual = [
            ("Host", "localhost"),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("Connection", "close"),
        ];
        let given = |name: &str| headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        for (name, value) in usual.iter().filter(|(n, _)| !given(n)).chain(headers) {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        text.push_str(body);
        let mut stream = TcpStream::connect_timeout(&self.address, ANSWER_TIMEOUT)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.write_all(text.as_bytes())?;
        Ok(stream)
    }

    /// Sends a request of the newest revision with a token.
    pub fn ask(&self, token: &str, method: &str, mut params: Value) -> std::io::Result<TcpStream> {
        let name = ["name", "uri"].iter().find_map(|k| params[k].as_str()).unwrap_or_default().to_owned();
        let mut all = meta();
        if let (Some(all), Some(more)) = (all.as_object_mut(), params["_meta"].as_object()) {
            all.extend(more.clone());
        }
        params["_meta"] = all;
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let bearer = format!("Bearer {token}");
        let mut headers = vec![("MCP-Protocol-Version", STATELESS), ("Mcp-Method", method)];
        if !name.is_empty() {
            headers.push(("Mcp-Name", &name));
        }
        if !token.is_empty() {
            headers.push(("Authorization", &bearer));
        }
        self.open(&headers, &body)
    }

    /// Sends a request with these headers, and reads its reply.
    #[track_caller]
    pub fn post(&self, headers: &[(&str, &str)], body: &str) -> Reply {
        reply(self.open(headers, body).expect("it listens"))
    }

    /// Sends a request of the newest revision, and returns the last message of its reply.
    #[track_caller]
    pub fn request(&self, token: &str, method: &str, params: Value) -> Value {
        let reply = reply(self.ask(token, method, params).expect("it listens"));
        reply.messages.last().cloned().unwrap_or_else(|| panic!("no message: {reply:?}"))
    }

    /// Result of a tool.
    #[track_caller]
    pub fn call(&self, token: &str, tool: &str, arguments: &Value) -> Value {
        let mut answer = self.request(token, "tools/call", json!({ "name": tool, "arguments": arguments }));
        let result = answer["result"].take();
        assert!(result.is_object(), "{answer:#}");
        result
    }

    /// Asks the server to end and waits for that: exit status, time, standard error.
    pub fn end(mut self) -> (Option<i32>, Duration, String) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).expect("a process id"));
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("it lives");
        let begin = Instant::now();
        let status = self.child.wait().expect("it ends");
        (
            status.code(),
            begin.elapsed(),
            self.errors.take().map_or_else(String::new, |e| e.join().unwrap_or_default()),
        )
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reply of a server.
#[derive(Debug)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Status line and headers.
    pub head: String,
    /// Body of the reply.
    pub body: String,
    /// Messages in the body.
    pub messages: Vec<Value>,
}

impl Reply {
    /// Value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let all = self.head.lines().filter_map(|l| l.split_once(": "));
        all.filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v).next()
    }
}

/// Reads a reply to its end.
pub fn reply(mut stream: TcpStream) -> Reply {
    let mut bytes = Vec::new();
    // A connection that is refused early may be reset.
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, rest) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split_whitespace().nth(1).and_then(|s| s.parse().ok()).unwrap_or(0);
    let body = if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        without_chunks(rest)
    } else {
        rest.to_owned()
    };
    let events = body.lines().filter_map(|l| l.strip_prefix("data:"));
    let mut messages: Vec<Value> = events.filter_map(|l| serde_json::from_str(l).ok()).collect();
    messages.extend(serde_json::from_str::<Value>(&body));
    Reply { status, head: head.to_owned(), body, messages }
}

fn without_chunks(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        let Some(chunk) = after.get(..size).filter(|c| !c.is_empty()) else { break };
        body.push_str(chunk);
        rest = after.get(size + 2..).unwrap_or("");
    }
    body
}
