//! Finds out the capabilities of a stdio server as a client would: starts it, initializes it, requests its
//! lists, and ends it by closing its input. No call changes anything.
//!
//! The messages are written by hand, without the protocol's library, so that the output of a broken server is
//! reported as it is.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hotcell_sandbox::units::format_duration;
use hotcell_state::report::printable;
use serde_json::{Value, json};

use crate::MAX_MESSAGE_BYTES;
use crate::resources::DOCTOR;

/// Requested protocol revision, the one that clients use today.
const REVISION: &str = "2025-11-25";
/// Bytes kept of the end of a server's standard error.
const TAIL_BYTES: usize = 4 << 10;
/// Maximum number of pages of a list, in case a server never ends one.
const MAX_PAGES: usize = 50;
/// Timeout for a server to end after its input is closed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// How to start a server.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// A path, or a name that is looked up in `PATH`.
    pub program: String,
    /// Arguments.
    pub args: Vec<String>,
    /// Environment variables in addition to those of this process.
    pub env: BTreeMap<String, String>,
    /// Working directory; `None` for the current one.
    pub folder: Option<PathBuf>,
}

/// Capabilities of a server.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Name that the server reports.
    pub name: String,
    /// Version that the server reports.
    pub version: String,
    /// Negotiated revision of the protocol.
    pub revision: String,
    /// Names of its tools.
    pub tools: Vec<String>,
    /// URIs of its resources.
    pub resources: Vec<String>,
    /// URI templates of its resources.
    pub templates: Vec<String>,
    /// Names of its prompts.
    pub prompts: Vec<String>,
    /// Examination of the host, where the server is a hotcell.
    pub doctor: Option<Value>,
    /// Each request and the time of its answer in microseconds, in order.
    pub times_us: Vec<(String, u64)>,
    /// Time from the end of its input to its own end, in microseconds; `None` when it had to be killed.
    pub end_us: Option<u64>,
}

/// Reason why a server cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The program does not exist.
    #[error("{0} is not there, or not on PATH")]
    NotFound(String),
    /// The program could not be started for another reason.
    #[error("{program} cannot be started: {why}")]
    Start {
        /// The program.
        program: String,
        /// Error of the system call.
        why: io::Error,
    },
    /// The server ended before it answered.
    #[error("the server ended before it answered {request}: {how}{}", said(.stderr))]
    Ended {
        /// The request.
        request: String,
        /// Exit status or signal.
        how: String,
        /// End of its standard error.
        stderr: String,
    },
    /// The server sent a line that is not a message of the protocol.
    #[error("the server wrote what is not MCP to standard output: {line}{}", said(.stderr))]
    NotMcp {
        /// Beginning of the line.
        line: String,
        /// End of its standard error.
        stderr: String,
    },
    /// The server did not answer in time.
    #[error("the server did not answer {request} within {}{}", format_duration(*.within), said(.stderr))]
    TooLate {
        /// The request.
        request: String,
        /// The time limit.
        within: Duration,
        /// End of its standard error.
        stderr: String,
    },
    /// No server answers at that address, or none that speaks MCP.
    #[error("{address} cannot be used: {why}")]
    Unreached {
        /// The address, without what may be a secret.
        address: String,
        /// Why.
        why: String,
    },
    /// It answered with an error.
    #[error("the server answered {request} with an error: {why}")]
    Refused {
        /// The request.
        request: String,
        /// The error message.
        why: String,
    },
}

fn said(stderr: &str) -> String {
    let lines: Vec<&str> = stderr.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    match lines.len() {
        0 => String::new(),
        n => format!("; standard error: {}", printable(&lines[n.saturating_sub(3)..].join(" | "))),
    }
}

/// Starts a server, sends the requests, and ends it. Blocks. Each answer may take `within`.
///
/// # Errors
/// [`ProbeError`]; the server is ended in that case, too.
pub fn probe(start: &Start, within: Duration) -> Result<Seen, ProbeError> {
    let mut talk = Talk::begin(start, within)?;
    let mut seen = look(&mut talk)?;
    seen.end_us = talk.end();
    Ok(seen)
}

/// A server that is asked.
pub(crate) trait Asks {
    /// The answer to a request; `what` is a method, and what else tells it from others.
    fn ask(&mut self, what: &str, params: &Value) -> Result<Value, ProbeError>;
    /// Names the request without an answer.
    fn tell(&mut self, message: &Value);
    /// The end of what it said beside its answers.
    fn tail(&self) -> String;
}

/// Greets a server and asks for all that it lists.
pub(crate) fn look(talk: &mut impl Asks) -> Result<Seen, ProbeError> {
    let mut seen = Seen::default();
    let offers = greet(talk, &mut seen)?;
    timed(talk, &mut seen, "ping", &json!({}))?;
    let mut all = |offer: &str, method: &str, named: &str| {
        if offers.get(offer).is_none() { Ok(Vec::new()) } else { list(talk, &mut seen, method, named) }
    };
    let tools = all("tools", "tools/list", "name")?;
    let resources = all("resources", "resources/list", "uri")?;
    let templates = all("resources", "resources/templates/list", "uriTemplate")?;
    let prompts = all("prompts", "prompts/list", "name")?;
    seen = Seen { tools, resources, templates, prompts, ..seen };
    // Another server's resource of that name may be anything, and an older hotcell has the tool only.
    if seen.name == "hotcell" && seen.templates.iter().any(|uri| uri == DOCTOR) {
        let answer = timed(talk, &mut seen, "resources/read", &json!({ "uri": DOCTOR }))?;
        let text = answer.pointer("/contents/0/text").and_then(Value::as_str);
        seen.doctor = text.and_then(|text| serde_json::from_str(text).ok());
    } else if seen.name == "hotcell" && seen.tools.iter().any(|t| t == "doctor") {
        let asked = json!({ "name": "doctor", "arguments": {} });
        let answer = timed(talk, &mut seen, "tools/call doctor", &asked)?;
        seen.doctor = Some(answer["structuredContent"].clone());
    }
    Ok(seen)
}

/// The greeting; what the server offers.
fn greet(talk: &mut impl Asks, seen: &mut Seen) -> Result<Value, ProbeError> {
    let client = json!({ "name": "hotcell mcp check", "version": env!("CARGO_PKG_VERSION") });
    let params = json!({ "protocolVersion": REVISION, "capabilities": {}, "clientInfo": client });
    let answer = timed(talk, seen, "initialize", &params)?;
    let text = |at: &str| answer.pointer(at).and_then(Value::as_str).map(printable);
    seen.name = text("/serverInfo/name").unwrap_or_default();
    seen.version = text("/serverInfo/version").unwrap_or_default();
    seen.revision = text("/protocolVersion").unwrap_or_default();
    if seen.revision.is_empty() {
        let line = "an answer to initialize without protocolVersion".to_owned();
        return Err(ProbeError::NotMcp { line, stderr: talk.tail() });
    }
    talk.tell(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    Ok(answer["capabilities"].clone())
}

/// A list, in all its pages.
fn list(talk: &mut impl Asks, seen: &mut Seen, method: &str, named: &str) -> Result<Vec<String>, ProbeError> {
    let mut all = Vec::new();
    let begun = Instant::now();
    let mut params = json!({});
    for _ in 0..MAX_PAGES {
        let answer = talk.ask(method, &params)?;
        // `tools/list` has `tools`, `resources/templates/list` has `resourceTemplates`.
        let items = answer.as_object().into_iter().flatten().find_map(|(_, v)| v.as_array());
        let names = items.into_iter().flatten().filter_map(|item| item[named].as_str());
        all.extend(names.map(printable));
        match answer["nextCursor"].as_str() {
            Some(next) => params = json!({ "cursor": next }),
            None => break,
        }
    }
    seen.times_us.push((method.to_owned(), micros(begun)));
    Ok(all)
}

/// Asks, and notes how long the answer took.
fn timed(talk: &mut impl Asks, seen: &mut Seen, what: &str, params: &Value) -> Result<Value, ProbeError> {
    let begun = Instant::now();
    let answer = talk.ask(what, params)?;
    seen.times_us.push((what.to_owned(), micros(begun)));
    Ok(answer)
}

/// Whether a program is somewhere, as far as this user can see: at its path, or in a folder of `PATH`.
fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    program.contains('/') || std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}

/// Event on the server's standard output.
enum Heard {
    Message(Value),
    Other(String),
}

struct Talk {
    child: Child,
    stdin: Option<ChildStdin>,
    heard: Receiver<Heard>,
    stderr: Arc<Mutex<VecDeque<u8>>>,
    within: Duration,
    id: u64,
}

impl Asks for Talk {
    fn ask(&mut self, what: &str, params: &Value) -> Result<Value, ProbeError> {
        self.id += 1;
        let method = what.split(' ').next().unwrap_or(what);
        let request = json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params });
        self.send(&request);
        let until = Instant::now() + self.within;
        loop {
            match self.heard.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Heard::Message(message))
                    if message["id"] == self.id && message.get("method").is_none() =>
                {
                    return match message.get("error") {
                        None => Ok(message["result"].clone()),
                        Some(error) => {
                            let why = error["message"].as_str().map_or_else(|| error.to_string(), printable);
                            Err(ProbeError::Refused { request: what.to_owned(), why })
                        }
                    };
                }
                // A shell's `cat`, or a terminal.
                Ok(Heard::Message(message)) if message == request => {
                    let line = "what it was asked, word for word".to_owned();
                    return Err(ProbeError::NotMcp { line, stderr: self.tail() });
                }
                // A request of the server's own; nothing is offered to it but an answer.
                Ok(Heard::Message(message)) if message.get("method").is_some() => {
                    let Some(id) = message.get("id") else { continue };
                    let answer = match message["method"].as_str() {
                        Some("ping") => json!({ "jsonrpc": "2.0", "id": id, "result": {} }),
                        _ => {
                            let error = json!({ "code": -32601, "message": "not offered" });
                            json!({ "jsonrpc": "2.0", "id": id, "error": error })
                        }
                    };
                    self.send(&answer);
                }
                // An answer to nothing.
                Ok(Heard::Message(_)) => {}
                Ok(Heard::Other(line)) => {
                    return Err(ProbeError::NotMcp { line, stderr: self.tail() });
                }
                Err(RecvTimeoutError::Timeout) => {
                    let (request, within) = (what.to_owned(), self.within);
                    return Err(ProbeError::TooLate { request, within, stderr: self.tail() });
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let how = self.ended();
                    return Err(ProbeError::Ended { request: what.to_owned(), how, stderr: self.tail() });
                }
            }
        }
    }

    fn tell(&mut self, message: &Value) {
        self.send(message);
    }

    fn tail(&self) -> String {
        // The last output of the server may still be on its way.
        std::thread::sleep(Duration::from_millis(50));
        let tail = self.stderr.lock().map(|t| t.iter().copied().collect::<Vec<u8>>()).unwrap_or_default();
        String::from_utf8_lossy(&tail).into_owned()
    }
}

impl Talk {
    fn begin(start: &Start, within: Duration) -> Result<Self, ProbeError> {
        let mut command = Command::new(&start.program);
        command.args(&start.args).envs(&start.env);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(folder) = &start.folder {
            command.current_dir(folder);
        }
        let program = start.program.clone();
        let mut child = command.spawn().map_err(|why| match why.kind() {
            io::ErrorKind::NotFound => ProbeError::NotFound(program),
            // A folder of PATH that this user cannot read causes this error even if the program is in none of
            // them.
            io::ErrorKind::PermissionDenied if !is_on_path(&program) => ProbeError::NotFound(program),
            _ => ProbeError::Start { program, why },
        })?;
        let (stdout, errors) = (child.stdout.take(), child.stderr.take());
        let (send, heard) = channel();
        std::thread::spawn(move || {
            let Some(stdout) = stdout else { return };
            let mut lines = BufReader::new(stdout);
            loop {
                let mut line = Vec::new();
                let most = MAX_MESSAGE_BYTES as u64;
                let read = (&mut lines).take(most).read_until(b'\n', &mut line);
                if !matches!(read, Ok(n) if n > 0) {
                    return;
                }
                let message = serde_json::from_slice::<Value>(&line).ok();
                let heard = match message.filter(|m| m["jsonrpc"] == "2.0") {
                    Some(message) => Heard::Message(message),
                    None if line.iter().all(u8::is_ascii_whitespace) => continue,
                    None => {
                        let text = String::from_utf8_lossy(&line[..line.len().min(400)]);
                        Heard::Other(printable(text.trim_end()).chars().take(200).collect())
                    }
                };
                if send.send(heard).is_err() {
                    return;
                }
            }
        });
        let stderr = Arc::new(Mutex::new(VecDeque::new()));
        let tail = Arc::clone(&stderr);
        std::thread::spawn(move || {
            let Some(mut errors) = errors else { return };
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = errors.read(&mut bytes) {
                let Ok(mut tail) = tail.lock() else { return };
                tail.extend(&bytes[..read]);
                let over = tail.len().saturating_sub(TAIL_BYTES);
                tail.drain(..over);
            }
        });
        let stdin = child.stdin.take();
        Ok(Self { child, stdin, heard, stderr, within, id: 0 })
    }

    /// A write error is ignored: the server has ended or is too slow, which the missing answer shows.
    fn send(&mut self, message: &Value) {
        if let Some(stdin) = &mut self.stdin {
            let _ = stdin.write_all(format!("{message}\n").as_bytes()).and_then(|()| stdin.flush());
        }
    }

    /// Describes how a server that closed its output ended.
    fn ended(&mut self) -> String {
        let until = Instant::now() + Duration::from_secs(1);
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return told(status),
                Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
                _ => return "it closed its standard output".to_owned(),
            }
        }
    }

    /// Ends the server by closing its input.
    fn end(&mut self) -> Option<u64> {
        let begun = Instant::now();
        self.stdin = None;
        while begun.elapsed() < EXIT_TIMEOUT {
            match self.child.try_wait() {
                Ok(Some(_)) => return Some(micros(begun)),
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
                Err(_) => return None,
            }
        }
        None
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        self.stdin = None;
        // The server did not end in time, or answered wrongly.
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn told(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it exited with {code}"),
        (None, Some(signal)) => format!("signal {signal} killed it"),
        (None, None) => "it is gone".to_owned(),
    }
}

fn micros(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that is a script, which answers requests one after another.
    fn server(script: &str) -> Start {
        let args = vec!["-c".to_owned(), script.to_owned()];
        Start { program: "sh".to_owned(), args, ..Start::default() }
    }

    const GREETING: &str = r#"echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}'"#;

    #[test]
    fn probe_reads_tools_in_pages_between_messages() {
        let script = format!(
            r#"read a; {GREETING}; read a; read a
            echo '{{"jsonrpc":"2.0","method":"notifications/message","params":{{}}}}'
            echo '{{"jsonrpc":"2.0","id":"s1","method":"ping"}}'
            echo '{{"jsonrpc":"2.0","id":2,"result":{{}}}}'; read a; read a
            echo '{{"jsonrpc":"2.0","id":3,"result":{{"tools":[{{"name":"one"}}],"nextCursor":"x"}}}}'; read a
            echo '{{"jsonrpc":"2.0","id":4,"result":{{"tools":[{{"name":"two"}}]}}}}'; read a"#
        );
        let seen = probe(&server(&script), Duration::from_secs(20)).unwrap();
        assert_eq!((seen.name.as_str(), seen.tools), ("s", vec!["one".to_owned(), "two".to_owned()]));
        assert!(seen.resources.is_empty() && seen.doctor.is_none() && seen.end_us.is_some());
        let asked: Vec<_> = seen.times_us.iter().map(|(what, _)| what.as_str()).collect();
        assert_eq!(asked, ["initialize", "ping", "tools/list"]);
    }

    #[test]
    fn probe_reports_faults_of_server() {
        for (script, want) in [
            ("echo starting; cat >/dev/null", "not MCP to standard output: starting"),
            ("echo no key >&2; exit 3", "it exited with 3; standard error: no key"),
            ("kill -9 $$", "signal 9 killed it"),
            ("exec >&-; sleep 1", "ended before it answered initialize"),
            ("cat", "what it was asked, word for word"),
            ("cat >/dev/null", "did not answer initialize within 1 s"),
            (
                r#"read a; echo '{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"go away"}}'; cat"#,
                "go away",
            ),
            (
                r#"read a; echo '{"jsonrpc":"2.0","id":1,"result":{}}'; cat >/dev/null"#,
                "without protocolVersion",
            ),
        ] {
            let why = probe(&server(script), Duration::from_secs(1)).unwrap_err().to_string();
            assert!(why.contains(want), "{script}: {why}");
        }
        let nothing = Start { program: "no-such-program".to_owned(), ..Start::default() };
        let why = probe(&nothing, Duration::from_secs(1)).unwrap_err().to_string();
        assert_eq!(why, "no-such-program is not there, or not on PATH");
    }
}
