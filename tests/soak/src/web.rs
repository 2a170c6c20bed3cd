//! A server over HTTP, `hotcell mcp --http`, and one caller's end of it: in a session of the revision that
//! has them, or without one. It implements HTTP by hand, so that it can also read slowly, hang up and break
//! off.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Calls, Reply, reply};
use crate::kinds::Place;
use crate::processes::Children;
use crate::run::surroundings;

/// The revision without sessions.
const STATELESS: &str = "2026-07-28";
/// The revision with sessions.
const SESSIONS: &str = "2025-11-25";
/// Maximum idle time of a connection that is reused: the server closes idle ones.
const MAX_IDLE_TIME: Duration = Duration::from_secs(3);
/// The server closes a connection ten seconds after its last answer; this is somewhat less, to allow for the
/// clock's resolution.
const SERVER_IDLE_TIME: Duration = Duration::from_secs(9);
/// Time limit for a connection, and for requests that are answered at once.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum number of abandoned sessions per token: the server keeps each for an hour, and allows 128 per
/// token.
const MAX_ABANDONED_SESSIONS: u32 = 64;
/// Maximum size of an answer, in bytes.
const MAX_ANSWER_BYTES: u64 = 16 << 20;

/// A server on any port of loopback.
#[derive(Debug)]
pub struct Server {
    pub pid: i32,
    pub address: SocketAddr,
}

impl Server {
    /// Starts a server with these tokens, of callers named `t0`, `t1` …; its standard error goes to `said`.
    pub fn start(
        children: &Children,
        place: &Place,
        state: &Path,
        tokens: &[String],
        said: &Path,
    ) -> io::Result<Self> {
        let mut file = File::options()
            .create(true)
            .write(true)
            .truncate(true)
            .mode(0o600)
            .open(state.join("mcp-tokens"))?;
        for (number, token) in tokens.iter().enumerate() {
            writeln!(file, "t{number} {token}")?;
        }
        let mut command = Command::new(&place.hotcell);
        command.args(["mcp", "--toolsets", "all", "--http", "127.0.0.1:0", "--state"]).arg(state);
        surroundings(&mut command, place);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let (pid, mut child) = children.start(&mut command)?;
        let stderr = child.stderr.take().ok_or_else(|| io::Error::other("the server has no streams"))?;
        let (mut stderr, mut line) = (BufReader::new(stderr), String::new());
        stderr.read_line(&mut line)?;
        let address = line.split("http://").nth(1).and_then(|rest| rest.split("/mcp").next()?.parse().ok());
        let address = address.ok_or_else(|| io::Error::other(format!("the server said {line:?}")))?;
        let mut said = File::create(said)?;
        thread::spawn(move || io::copy(&mut stderr, &mut said));
        Ok(Self { pid, address })
    }
}

/// Reasons there is no answer.
#[derive(Debug)]
pub enum Trouble {
    /// HTTP status, with its text.
    Refused(u16, String),
    /// The connection failed.
    Lost(io::Error),
    /// No answer in time.
    Silent,
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Silent,
            _ => Self::Lost(error),
        }
    }
}

/// Speed of reading an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    Quick,
    /// Reads a few bytes at a time, with pauses, for about this number of pauses.
    Slow(u32),
}

/// An idle connection.
#[derive(Debug)]
struct Idle {
    stream: BufReader<TcpStream>,
    /// Time just before the last request was sent on it.
    asked: Instant,
    /// Time at which its answer was complete.
    since: Instant,
}

/// One caller.
#[derive(Debug)]
pub struct Web {
    address: SocketAddr,
    token: String,
    stateless: bool,
    session: Mutex<Option<String>>,
    idle: Mutex<Option<Idle>>,
    next: AtomicU64,
    pace: Pace,
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Web {
    /// A caller with this token; the first call begins its session.
    pub fn new(address: SocketAddr, token: &str, stateless: bool) -> Self {
        Self {
            address,
            token: token.to_owned(),
            stateless,
            session: Mutex::default(),
            idle: Mutex::default(),
            next: AtomicU64::new(1),
            pace: Pace::Quick,
        }
    }

    /// A copy of the caller, at another pace and in a session of its own.
    pub fn slowly(&self, pace: Pace) -> Self {
        Self { pace, ..Self::new(self.address, &self.token, self.stateless) }
    }

    /// A copy of the caller in its session, for another simultaneous call.
    pub fn beside(&self) -> Self {
        // Request numbers in a session must be unique.
        static FROM: AtomicU64 = AtomicU64::new(1);
        let next = AtomicU64::new(FROM.fetch_add(1, Ordering::Relaxed) << 32);
        let session = Mutex::new(lock(&self.session).clone());
        Self { session, next, ..Self::new(self.address, &self.token, self.stateless) }
    }

    /// Whether its calls need no session: hanging up cancels them.
    pub fn is_stateless(&self) -> bool {
        self.stateless
    }

    /// Number of the next request.
    pub fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Text of a tool call as it is sent.
    pub fn text(&self, id: u64, tool: &str, arguments: &Value) -> String {
        let mut params = json!({ "name": tool, "arguments": arguments });
        if self.stateless {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": STATELESS,
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": { "name": "hotcell-soak", "version": "1" }
            });
        }
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        self.whole("POST", Some(tool), &message.to_string())
    }

    fn whole(&self, verb: &str, tool: Option<&str>, body: &str) -> String {
        let mut text = format!(
            "{verb} /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n",
            self.token,
            body.len()
        );
        if self.stateless {
            text.push_str(&format!("MCP-Protocol-Version: {STATELESS}\r\nMcp-Method: tools/call\r\n"));
            text.extend(tool.map(|name| format!("Mcp-Name: {name}\r\n")));
        } else if let Some(session) = &*lock(&self.session) {
            text.push_str(&format!("MCP-Protocol-Version: {SESSIONS}\r\nMcp-Session-Id: {session}\r\n"));
        }
        text + "\r\n" + body
    }

    /// Opens another connection.
    pub fn connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&self.address, CONNECT_TIMEOUT)?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Begins a session if one is needed and has not begun.
    pub fn begin(&self, patience: Duration) -> Result<(), Trouble> {
        if self.stateless || lock(&self.session).is_some() {
            return Ok(());
        }
        let hello = json!({ "protocolVersion": SESSIONS, "capabilities": {},
                            "clientInfo": { "name": "hotcell-soak", "version": "1" } });
        let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello });
        let began = self.exchange(&self.whole("POST", None, &hello.to_string()), patience)?;
        let session = began.session.ok_or_else(|| io::Error::other("no session came"))?;
        *lock(&self.session) = Some(session);
        self.tell(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
    }

    /// Ends its session, or abandons it, unless its token has abandoned so many that there would be no place
    /// for more.
    pub fn leave(&self, properly: bool) -> Result<(), Trouble> {
        let text = self.whole("DELETE", None, "");
        if lock(&self.session).take().is_some() && (properly || !self.may_forget()) {
            return self.exchange(&text, CONNECT_TIMEOUT).map(drop);
        }
        Ok(())
    }

    /// Whether another session may be abandoned; if so, counts it.
    fn may_forget(&self) -> bool {
        static ALL: Mutex<Option<HashMap<String, u32>>> = Mutex::new(None);
        let mut all = lock(&ALL);
        let forgotten = all.get_or_insert_with(HashMap::new).entry(self.token.clone()).or_default();
        let may = *forgotten < MAX_ABANDONED_SESSIONS;
        *forgotten += u32::from(may);
        may
    }

    /// Sends a notification.
    pub fn tell(&self, message: &Value) -> Result<(), Trouble> {
        self.exchange(&self.whole("POST", None, &message.to_string()), CONNECT_TIMEOUT).map(drop)
    }

    /// Sends a complete request and reads the complete answer; the connection is reused.
    pub fn exchange(&self, text: &str, patience: Duration) -> Result<Answered, Trouble> {
        let idle = lock(&self.idle).take().filter(|idle| idle.since.elapsed() < MAX_IDLE_TIME);
        let mut asked = Instant::now();
        let used = match idle {
            Some(idle) => again(idle, text, patience)?,
            None => None,
        };
        let mut stream = match used {
            Some(stream) => stream,
            None => {
                let mut stream = BufReader::new(self.connect()?);
                asked = Instant::now();
                send(&mut stream, text, patience)?;
                stream
            }
        };
        let answered = answered(&mut stream, self.pace)?;
        if !answered.closes {
            *lock(&self.idle) = Some(Idle { stream, asked, since: Instant::now() });
        }
        if answered.status >= 300 {
            return Err(Trouble::Refused(answered.status, answered.body.trim().chars().take(200).collect()));
        }
        Ok(answered)
    }

    /// Closes its idle connection.
    pub fn hang_up(&self) {
        *lock(&self.idle) = None;
    }
}

impl Calls for Web {
    fn call(&self, tool: &str, arguments: &Value, patience: Duration) -> Reply {
        let id = self.number();
        let done =
            self.begin(patience).and_then(|()| self.exchange(&self.text(id, tool, arguments), patience));
        match done {
            Ok(answered) => match answered.message(id) {
                Some(message) => reply(&message),
                None => Reply::Bad(format!("no answer in {:?}", answered.body)),
            },
            Err(Trouble::Refused(status, why)) => {
                if status == 404 {
                    *lock(&self.session) = None;
                }
                Reply::Bad(format!("HTTP {status}: {why}"))
            }
            Err(Trouble::Lost(error)) => Reply::Bad(format!("the connection: {error}")),
            Err(Trouble::Silent) => Reply::Silent,
        }
    }
}

fn send(stream: &mut BufReader<TcpStream>, text: &str, patience: Duration) -> io::Result<()> {
    stream.get_ref().set_read_timeout(Some(patience))?;
    stream.get_ref().set_write_timeout(Some(patience))?;
    stream.get_mut().write_all(text.as_bytes())
}

/// Sends a request on a reused connection, and waits for the first byte of its answer. `None` when the server
/// had closed the connection meanwhile because it was idle: then it has not received the request, which may
/// be sent again. That can happen only if this thread was kept from sending for seconds; an earlier loss
/// counts as lost.
fn again(idle: Idle, text: &str, patience: Duration) -> io::Result<Option<BufReader<TcpStream>>> {
    let Idle { mut stream, asked, .. } = idle;
    let sent = send(&mut stream, text, patience);
    let late = asked.elapsed() >= SERVER_IDLE_TIME;
    match sent.and_then(|()| begins(&mut stream)) {
        Ok(true) => Ok(Some(stream)),
        Ok(false) if late => Ok(None),
        Ok(false) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed before an answer")),
        Err(e) if late && is_closed(&e) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Whether a byte of an answer arrived, and not the end.
fn begins(stream: &mut BufReader<TcpStream>) -> io::Result<bool> {
    loop {
        match stream.fill_buf() {
            Ok(bytes) => return Ok(!bytes.is_empty()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// Whether this is the error of sending to a closed connection.
fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

/// Answer of the server.
#[derive(Debug)]
pub struct Answered {
    pub status: u16,
    session: Option<String>,
    closes: bool,
    body: String,
}

impl Answered {
    /// The response to a request.
    pub fn message(&self, id: u64) -> Option<Value> {
        let of_stream = self.body.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
        let all = of_stream.chain([self.body.trim()]).filter(|text| text.starts_with('{'));
        all.filter_map(|text| serde_json::from_str::<Value>(text).ok())
            .find(|message| message["id"] == id && message["method"].is_null())
    }
}

/// Reads an answer to its end.
pub fn answered(stream: &mut BufReader<TcpStream>, pace: Pace) -> io::Result<Answered> {
    let ended = || io::Error::new(io::ErrorKind::UnexpectedEof, "closed before the answer was whole");
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 {
            return Err(ended());
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        head.push(line.to_ascii_lowercase());
    }
    let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("{what}: {head:?}"));
    let field = |name: &str| head.iter().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let status = head.first().and_then(|line| line.split(' ').nth(1)?.parse().ok());
    let status = status.ok_or_else(|| bad("no status"))?;
    let mut body = Vec::new();
    if field("transfer-encoding:") == Some("chunked") {
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line)? == 0 {
                return Err(ended());
            }
            let length = u64::from_str_radix(line.trim(), 16).map_err(|_| bad("no length of a piece"))?;
            take(stream, length, pace, &mut body)?;
            line.clear();
            stream.read_line(&mut line)?;
            if length == 0 {
                break;
            }
        }
    } else if let Some(length) = field("content-length:") {
        take(stream, length.parse().map_err(|_| bad("no length"))?, pace, &mut body)?;
    }
    Ok(Answered {
        status,
        session: field("mcp-session-id:").map(str::to_owned),
        closes: field("connection:") == Some("close"),
        body: String::from_utf8_lossy(&body).into_owned(),
    })
}

fn take(stream: &mut BufReader<TcpStream>, length: u64, pace: Pace, body: &mut Vec<u8>) -> io::Result<()> {
    if length + body.len() as u64 > MAX_ANSWER_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the answer is too long"));
    }
    let (mut left, before) = (length, body.len() as u64);
    if let Pace::Slow(pauses) = pace {
        for _ in 0..pauses {
            let piece = left.min(32);
            stream.by_ref().take(piece).read_to_end(body)?;
            left -= piece;
            thread::sleep(Duration::from_millis(4));
        }
    }
    stream.by_ref().take(left).read_to_end(body)?;
    if (body.len() as u64) < before + length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn said(text: &str) -> io::Result<Answered> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut near = TcpStream::connect(listener.local_addr()?)?;
        near.write_all(text.as_bytes())?;
        drop(near);
        answered(&mut BufReader::new(listener.accept()?.0), Pace::Slow(3))
    }

    #[test]
    fn request_is_resent_only_after_idle_close() {
        for (age, wants) in [
            // Lost at once: an answer is missing.
            (Duration::ZERO, [Err(()), Ok(true), Err(())]),
            (SERVER_IDLE_TIME, [Ok(false), Ok(true), Ok(false)]),
        ] {
            for (answer, want) in [Some(""), Some("HTTP/1.1"), None].iter().zip(wants) {
                let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
                let near = TcpStream::connect(listener.local_addr().expect("a port")).expect("it listens");
                let (mut far, _) = listener.accept().expect("it connects");
                match answer {
                    Some(text) => {
                        far.write_all(text.as_bytes()).expect("there is room");
                        far.shutdown(std::net::Shutdown::Write).expect("it is open");
                    }
                    None => drop(far),
                }
                let now = Instant::now();
                let asked = now.checked_sub(age).expect("the machine was up");
                let idle = Idle { stream: BufReader::new(near), asked, since: now };
                let came = again(idle, "GET / HTTP/1.1\r\n\r\n", CONNECT_TIMEOUT);
                let came = came.map(|stream| stream.is_some()).map_err(drop);
                assert_eq!(came, want, "{answer:?}, {:?}", asked.elapsed());
            }
        }
    }

    #[test]
    fn forgotten_sessions_per_token_are_limited() {
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let (one, other) = (Web::new(address, "one", false), Web::new(address, "other", false));
        assert!((0..MAX_ABANDONED_SESSIONS).all(|_| one.may_forget()));
        assert!(!one.may_forget() && other.may_forget());
    }

    #[test]
    fn answers_are_read_as_they_come() {
        let plain = said("HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n").expect("whole");
        assert_eq!((plain.status, plain.closes, plain.message(1)), (202, false, None));
        let busy =
            said("HTTP/1.1 429 Busy\r\nConnection: close\r\nContent-Length: 4\r\n\r\nwait").expect("whole");
        assert_eq!((busy.status, busy.closes, busy.body.as_str()), (429, true, "wait"));
        let stream = "HTTP/1.1 200 OK\r\nMcp-Session-Id: abc\r\nTransfer-Encoding: chunked\r\n\r\n\
                      9\r\ndata: {\"i\r\nb\r\nd\":7,\"a\":1}\r\n1\r\n\n\r\n0\r\n\r\n";
        let stream = said(stream).expect("whole");
        assert_eq!(stream.session.as_deref(), Some("abc"));
        assert_eq!(stream.message(7), Some(json!({ "id": 7, "a": 1 })));
        assert_eq!(stream.message(8), None);
        for torn in ["", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhalf"] {
            assert!(said(torn).is_err(), "{torn:?}");
        }
    }
}
