//! A server, `hotcell mcp`, and the client's end of it: several simultaneous calls, each answered by its
//! number.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::kinds::Place;
use crate::processes::Children;
use crate::run::surroundings;

/// Calls that wait for their answer; `None` when there are no more answers.
type Waiting = Mutex<Option<HashMap<u64, Sender<Value>>>>;

/// A server and its streams.
#[derive(Debug)]
pub struct Client {
    pub pid: i32,
    input: Mutex<Option<ChildStdin>>,
    waiting: Arc<Waiting>,
    next: AtomicU64,
}

/// Reply to a call.
#[derive(Debug)]
pub enum Reply {
    /// The structured content.
    Good(Value),
    /// Message of an answer with `isError`, or of a protocol error.
    Bad(String),
    /// The server has ended.
    Lost,
    /// The server is alive but did not answer in time.
    Silent,
}

/// A client that can call tools, over any transport.
pub trait Calls {
    /// Calls a tool.
    fn call(&self, tool: &str, arguments: &Value, patience: Duration) -> Reply;
}

/// Converts an answer to `tools/call`.
pub fn reply(answer: &Value) -> Reply {
    let result = &answer["result"];
    if result["isError"] == true || result.is_null() {
        let said = result["content"][0]["text"].as_str().or_else(|| answer["error"]["message"].as_str());
        return Reply::Bad(said.unwrap_or_default().to_owned());
    }
    Reply::Good(result["structuredContent"].clone())
}

impl Calls for Client {
    fn call(&self, tool: &str, arguments: &Value, patience: Duration) -> Reply {
        match self.request("tools/call", &json!({ "name": tool, "arguments": arguments }), patience) {
            Ok(answer) => reply(&answer),
            Err(RecvTimeoutError::Timeout) => Reply::Silent,
            Err(RecvTimeoutError::Disconnected) => Reply::Lost,
        }
    }
}

impl Client {
    /// Starts a server with a state folder of its own; its standard error goes to `said`.
    pub fn start(children: &Children, place: &Place, state: &Path, said: &Path) -> io::Result<Self> {
        let mut command = Command::new(&place.hotcell);
        command.args(["mcp", "--toolsets", "all", "--state"]).arg(state);
        surroundings(&mut command, place);
        let said = File::options().create(true).append(true).open(said)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(said);
        let (pid, mut child) = children.start(&mut command)?;
        let waiting: Arc<Waiting> = Arc::new(Mutex::new(Some(HashMap::new())));
        let stdout = child.stdout.take().ok_or_else(|| io::Error::other("the server has no streams"))?;
        let readers = Arc::clone(&waiting);
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let message: Value = serde_json::from_str(&line).unwrap_or_default();
                let asked = message["id"].as_u64().and_then(|id| lock(&readers).as_mut()?.remove(&id));
                asked.map(|asked| asked.send(message));
            }
            *lock(&readers) = None;
        });
        let client = Self { pid, input: Mutex::new(child.stdin.take()), waiting, next: AtomicU64::new(1) };
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {},
                            "clientInfo": { "name": "hotcell-soak", "version": "1" } });
        let _ = client.request("initialize", &hello, Duration::from_secs(60));
        let _ = client.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        Ok(client)
    }

    fn request(&self, method: &str, params: &Value, patience: Duration) -> Result<Value, RecvTimeoutError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = channel();
        match lock(&self.waiting).as_mut() {
            Some(waiting) => waiting.insert(id, sender),
            None => return Err(RecvTimeoutError::Disconnected),
        };
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        if self.say(&request).is_err() {
            return Err(RecvTimeoutError::Disconnected);
        }
        answer.recv_timeout(patience)
    }

    fn say(&self, message: &Value) -> io::Result<()> {
        let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        let input = input.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        writeln!(input, "{message}")
    }

    /// Closes the server's input, so that it ends.
    pub fn hang_up(&self) {
        *self.input.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn lock(waiting: &Waiting) -> std::sync::MutexGuard<'_, Option<HashMap<u64, Sender<Value>>>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}
