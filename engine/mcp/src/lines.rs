//! The stdio transport: one message per line, between a process and its parent.
//!
//! A line that is too long, not JSON, or not a message is answered with the protocol's error, and reading
//! goes on. The end of the input is reported immediately, even while answers are in progress.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hotcell_sandbox::lines::LineBuffer;
use rmcp::model::{ClientNotification, ClientRequest, ErrorData, GetMeta, ProtocolVersion, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::{RoleServer, model::JsonRpcMessage};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{Mutex, Notify};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::methods::{self, in_words};
use crate::server::REVISIONS;
use crate::unread::{self, Unread};

/// Maximum number of answers waiting for a client that does not read; further lines are read only when it
/// does.
const MAX_WAITING_ANSWERS: usize = 256;

/// Maximum number of open requests; further ones are refused.
const MAX_REQUESTS: usize = 1024;

/// The stdio transport.
pub struct Lines<R, W> {
    input: BufReader<R>,
    line: LineBuffer,
    longest: usize,
    ended: CancellationToken,
    output: Arc<Output<W>>,
    /// Requests without an answer that were not cancelled.
    open: HashSet<RequestId>,
    /// Whether a request came with which a client begins.
    has_begun: bool,
    /// Task that sends an error about a line that was not a message.
    refusing: Option<JoinHandle<io::Result<()>>>,
}

struct Output<W> {
    stream: Mutex<W>,
    waiting: AtomicUsize,
    fewer: Notify,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin + Send + 'static> Lines<R, W> {
    /// Reads lines of at most `longest` bytes; `ended` is cancelled at the end of the input.
    pub fn new(input: R, output: W, longest: usize, ended: CancellationToken) -> Self {
        let output =
            Output { stream: Mutex::new(output), waiting: AtomicUsize::new(0), fewer: Notify::new() };
        Self {
            input: BufReader::new(input),
            line: LineBuffer::new(longest),
            longest,
            ended,
            output: Arc::new(output),
            open: HashSet::new(),
            has_begun: false,
            refusing: None,
        }
    }

    /// Reads until a line is complete; returns `false` at the end. Cancel-safe.
    async fn next(&mut self) -> bool {
        loop {
            let Ok(available) = self.input.fill_buf().await else { return false };
            if available.is_empty() {
                return false;
            }
            let (used, is_whole) = self.line.push(available);
            self.input.consume(used);
            if is_whole {
                return true;
            }
        }
    }

    /// Parses the complete line; `None` when it is empty.
    fn message(&mut self) -> Option<Result<RxJsonRpcMessage<RoleServer>, Box<Unread>>> {
        let is_cut = self.line.is_cut();
        let line = self.line.take();
        if is_cut {
            let why = format!("the line is too long; allowed are {} bytes", self.longest);
            let (error, id) = (ErrorData::invalid_request(why, None), unread::id_of(&line));
            return Some(Err(Box::new(Unread { error, id, is_request: false })));
        }
        let text = line.strip_suffix(b"\r").unwrap_or(&line);
        // A byte order mark is not JSON, and some clients write one before what they say first.
        let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text).trim_ascii();
        (!text.is_empty()).then(|| unread::check(text).and_then(|()| unread::read(text)))
    }

    /// Adds a request to the open ones; an error when there are too many, or when the id is already in use. `None` for a message
    /// that is passed over.
    fn admit(
        &mut self,
        message: RxJsonRpcMessage<RoleServer>,
    ) -> Option<Result<RxJsonRpcMessage<RoleServer>, Box<Unread>>> {
        if let JsonRpcMessage::Request(request) = &message {
            let error = if self.open.len() >= MAX_REQUESTS {
                ErrorData::internal_error(format!("{MAX_REQUESTS} requests are open; wait for answers"), None)
            } else if !self.has_begun && methods::comes_too_early(&request.request) {
                methods::not_begun()
            } else if !self.open.insert(request.id.clone()) {
                ErrorData::invalid_request("a request of this id is open; each has an id of its own", None)
            } else {
                self.has_begun |= begins(&request.request);
                return Some(Ok(message));
            };
            return Some(Err(Box::new(Unread { error, id: Some(request.id.clone()), is_request: true })));
        }
        // The protocol's library ends at anything but a request before the client has begun. Nothing is there yet that it could be about.
        if !self.has_begun {
            return None;
        }
        // A cancelled request gets no answer.
        if let JsonRpcMessage::Notification(notification) = &message
            && let ClientNotification::CancelledNotification(cancelled) = &notification.notification
            && let Some(id) = &cancelled.params.request_id
        {
            self.open.remove(id);
        }
        Some(Ok(message))
    }
}

/// True for a request with which a client begins: `initialize`, or one that says itself all that the protocol's library waits for. `ping` and
/// `server/discover` may come before.
fn begins(request: &ClientRequest) -> bool {
    match request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => false,
        other => {
            let meta = other.get_meta();
            meta.missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty()
                && meta.protocol_version().is_some_and(|version| REVISIONS.contains(&version))
        }
    }
}

impl<W: AsyncWrite + Unpin> Output<W> {
    async fn write(&self, message: TxJsonRpcMessage<RoleServer>) -> io::Result<()> {
        let mut line = match &message {
            // JSON-RPC 2.0, section 5: an error about a request whose id is not known has the id null.
            JsonRpcMessage::Error(error) if error.id.is_none() => {
                let mut answer = serde_json::to_value(&message)?;
                answer["id"] = serde_json::Value::Null;
                serde_json::to_vec(&answer)?
            }
            _ => serde_json::to_vec(&message)?,
        };
        line.push(b'\n');
        let mut stream = self.stream.lock().await;
        stream.write_all(&line).await?;
        stream.flush().await
    }
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        mut message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        match &mut message {
            JsonRpcMessage::Response(answer) => drop(self.open.remove(&answer.id)),
            JsonRpcMessage::Error(answer) => {
                in_words(&mut answer.error);
                if let Some(id) = &answer.id {
                    self.open.remove(id);
                }
            }
            _ => {}
        }
        let output = Arc::clone(&self.output);
        output.waiting.fetch_add(1, Ordering::Relaxed);
        async move {
            let written = output.write(message).await;
            output.waiting.fetch_sub(1, Ordering::Relaxed);
            output.fewer.notify_one();
            written
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if let Some(refusing) = &mut self.refusing {
                let _ = refusing.await;
                self.refusing = None;
            }
            while self.output.waiting.load(Ordering::Relaxed) > MAX_WAITING_ANSWERS {
                self.output.fewer.notified().await;
            }
            if !self.next().await {
                self.ended.cancel();
                return None;
            }
            let admitted = match self.message() {
                Some(Ok(message)) => self.admit(message),
                Some(Err(refused)) => Some(Err(refused)),
                None => None,
            };
            let (error, id) = match admitted {
                Some(Ok(message)) => return Some(message),
                Some(Err(refused)) => (refused.error, refused.id),
                None => continue,
            };
            let output = Arc::clone(&self.output);
            // In a task, since this future may be dropped in the middle of a line.
            self.refusing =
                Some(tokio::spawn(async move { output.write(JsonRpcMessage::error(error, id)).await }));
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.output.stream.lock().await.shutdown().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    #[tokio::test]
    async fn malformed_lines_are_answered_and_others_served() {
        let (mut client, server) = tokio::io::duplex(1 << 16);
        let (input, output) = tokio::io::split(server);
        let ended = CancellationToken::new();
        let mut lines = Lines::new(input, output, 200, ended.clone());
        let ping = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;
        let (deep, long) = ("[".repeat(150), "x".repeat(201));
        let twice = r#"{"jsonrpc":"2.0","id":9,"method":"x","params":{"a":{"b":1,"b":2}}}"#;
        let text = format!("\n\r\n{{no\n[]\n17\n{{\"id\":1}}\n{deep}\n{long}\n{twice}\n{ping}\r\n{ping}");
        client.write_all(text.as_bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        assert!(matches!(lines.receive().await, Some(JsonRpcMessage::Request(_))));
        assert!(!ended.is_cancelled());
        // An unterminated last line is dropped.
        assert!(lines.receive().await.is_none() && ended.is_cancelled());
        drop(lines);
        let mut answers = String::new();
        client.read_to_string(&mut answers).await.unwrap();
        let codes: Vec<_> = answers
            .lines()
            .map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap()["error"]["code"].as_i64().unwrap())
            .collect();
        assert_eq!(codes, [-32700, -32600, -32600, -32600, -32700, -32600, -32600], "{answers}");
        let ids: Vec<_> = answers
            .lines()
            .map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap()["id"].to_string())
            .collect();
        assert_eq!(ids, ["null", "null", "null", "1", "null", "null", "9"], "{answers}");
    }

    #[tokio::test]
    async fn nothing_but_requests_passes_before_a_client_has_begun() {
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let hello = r#"{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"f","version":"1"}}}"#;
        let says = |revision: &str, capabilities: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"{revision}"{capabilities}}}}}}}"#
            )
        };
        let capabilities = r#","io.modelcontextprotocol/clientCapabilities":{}"#;
        let list = &*says("2026-07-28", capabilities);
        // The library answers these, and waits on.
        let partial = &*says("2026-07-28", "").replace("\"id\":3", "\"id\":5");
        let unknown = &*says("1999-01-01", capabilities);
        let early = r#"{"jsonrpc":"2.0","id":4,"method":"tools/list"}"#;
        let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
        let answer = r#"{"jsonrpc":"2.0","id":9,"result":{}}"#;
        for (said, want) in [
            (vec![ready, cancel, answer, ping], "r"),
            (vec![ready, ping, ready, hello, ready, answer], "rrna"),
            (vec![cancel, early, ready, list, cancel], "rn"),
            (vec![partial, ready, unknown, cancel], "rr"),
        ] {
            let (mut client, server) = tokio::io::duplex(1 << 16);
            let (input, output) = tokio::io::split(server);
            let mut lines = Lines::new(input, output, 1 << 12, CancellationToken::new());
            client.write_all(format!("{}\n", said.join("\n")).as_bytes()).await.unwrap();
            client.shutdown().await.unwrap();
            let mut passed = String::new();
            while let Some(message) = lines.receive().await {
                passed.push(match message {
                    JsonRpcMessage::Request(_) => 'r',
                    JsonRpcMessage::Notification(_) => 'n',
                    _ => 'a',
                });
            }
            assert_eq!(passed, want, "{said:?}");
        }
    }

    #[tokio::test]
    async fn second_request_of_an_open_id_is_refused_as_that() {
        let (mut client, server) = tokio::io::duplex(1 << 16);
        let (input, output) = tokio::io::split(server);
        let mut lines = Lines::new(input, output, 200, CancellationToken::new());
        let ping = r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#;
        client.write_all(format!("{ping}\n{ping}\n").as_bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        assert!(lines.receive().await.is_some() && lines.receive().await.is_none());
        drop(lines);
        let mut answers = String::new();
        client.read_to_string(&mut answers).await.unwrap();
        let answer: serde_json::Value = serde_json::from_str(&answers).unwrap();
        assert!(answer["id"] == "a" && answer["error"]["code"] == -32600, "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().starts_with("a request of this id is open"));
    }
}
