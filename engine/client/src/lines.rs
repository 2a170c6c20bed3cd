//! Messages of a program, one a line. Unlike `rmcp`'s own transport, a line that is too long and noise without end are faults of the connection, since
//! an answer may have been in them.

use std::io;
use std::sync::Arc;

use hotcell_sandbox::lines::LineBuffer;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::service::RoleClient;
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{Mutex, broadcast};

use crate::event::Event;
use crate::noise::Noise;
use crate::notes::Fault;

/// Both directions of a program.
pub struct Lines<R, W> {
    read: BufReader<R>,
    /// The line that is being read; kept here since reading may be interrupted.
    line: LineBuffer,
    noise: Noise,
    max_bytes: usize,
    write: Arc<Mutex<Option<W>>>,
    fault: Fault,
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin> Lines<R, W> {
    /// Messages of at most this size.
    pub fn new(
        (read, write): (R, W),
        max_bytes: usize,
        events: broadcast::Sender<Event>,
        fault: Fault,
    ) -> Self {
        let (read, write) = (BufReader::with_capacity(64 << 10, read), Arc::new(Mutex::new(Some(write))));
        let (line, noise) = (LineBuffer::new(max_bytes), Noise::new(events, fault.clone()));
        Self { read, line, noise, max_bytes, write, fault }
    }

    /// Next line without its end; `None` at the end of the stream, or behind a fault.
    async fn line(&mut self) -> Option<()> {
        loop {
            let bytes = match self.read.fill_buf().await {
                Ok(bytes) => bytes,
                Err(e) => {
                    self.fault.note(format!("the server cannot be read: {e}"));
                    return None;
                }
            };
            if bytes.is_empty() {
                self.fault.note("the server ended");
                return None;
            }
            let (used, is_whole) = self.line.push(bytes);
            if self.line.is_cut() {
                self.fault.note(format!("the server sent a line of more than {} bytes", self.max_bytes));
                return None;
            }
            self.read.consume(used);
            if is_whole {
                return Some(());
            }
        }
    }
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin + 'static> Transport<RoleClient>
    for Lines<R, W>
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let write = self.write.clone();
        async move {
            let mut bytes = serde_json::to_vec(&message)?;
            bytes.push(b'\n');
            let mut write = write.lock().await;
            let write = write.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            write.write_all(&bytes).await?;
            write.flush().await
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            self.line().await?;
            let line = self.line.take();
            match serde_json::from_slice(&line) {
                Ok(message) => {
                    self.noise.reset();
                    return Some(message);
                }
                Err(_) => self.noise.push(&line, !line.trim_ascii().is_empty())?,
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        // A program that does not read keeps the writer: it is ended later by a signal.
        if let Ok(mut write) = self.write.try_lock() {
            drop(write.take());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::noise::MAX_NOISE_BYTES;

    proptest! {
        #[test]
        fn hostile_lines_are_read_without_a_panic(
            lines in proptest::collection::vec(
                prop_oneof![
                    proptest::collection::vec(any::<u8>(), 0..80),
                    "\\{\"jsonrpc\":\"2.0\",\"(id|method|result|error)\":[\\{\\}\\[\\]\"a-z0-9:,\\\\]{0,40}".prop_map(String::into_bytes),
                    Just(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#.to_vec()),
                ],
                0..12,
            ),
            max_bytes in 1..120_usize,
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let bytes = lines.join(&b'\n');
            let (messages, _, fault) = runtime.block_on(got(&bytes, max_bytes));
            prop_assert!(messages <= lines.len() + bytes.iter().filter(|byte| **byte == b'\n').count());
            prop_assert!(fault.is_some(), "each stream ends");
        }
    }

    /// Result for a client of these bytes: the number of messages, the lines of noise, and the fault.
    async fn got(bytes: &[u8], max_bytes: usize) -> (usize, Vec<String>, Option<String>) {
        let (events, mut heard) = broadcast::channel(1000);
        let fault = Fault::default();
        let mut lines = Lines::new((bytes, tokio::io::sink()), max_bytes, events, fault.clone());
        let mut messages = 0;
        while lines.receive().await.is_some() {
            messages += 1;
        }
        let mut noise = Vec::new();
        while let Ok(Event::Noise(text)) = heard.try_recv() {
            noise.push(text);
        }
        (messages, noise, fault.why())
    }

    #[tokio::test]
    async fn messages_noise_and_faults_are_told_apart() {
        let answer = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n";
        let ended = Some("the server ended".to_owned());
        for (bytes, messages, noise) in [
            (answer.to_owned(), 1, vec![]),
            (format!("starting\n\n{answer}\r\n{answer}"), 2, vec!["starting".to_owned()]),
            (
                format!("\u{1b}[2J\n{answer}{{}}\n[]\nunfinished"),
                1,
                vec!["\\u{1b}[2J".into(), "{}".into(), "[]".into()],
            ),
        ] {
            assert_eq!(got(bytes.as_bytes(), 1000).await, (messages, noise, ended.clone()), "{bytes:?}");
        }
        assert_eq!(got(b"\xff\xfe\n", 1000).await.0, 0);
        let (messages, _, fault) =
            got(format!("{answer}{}\n{answer}", "x".repeat(1001)).as_bytes(), 1000).await;
        assert_eq!((messages, fault), (1, Some("the server sent a line of more than 1000 bytes".to_owned())));
        // No newline at all.
        assert!(got(&vec![b'x'; 5000], 1000).await.2.unwrap().contains("more than 1000 bytes"));
        let noise = "noise\n".repeat(MAX_NOISE_BYTES / 6 + 1);
        assert!(got(noise.as_bytes(), 1000).await.2.unwrap().contains("does not speak MCP"));
        // Noise between messages is counted from each message on.
        let some = "noise\n".repeat(MAX_NOISE_BYTES / 10);
        assert_eq!(got(format!("{some}{answer}{some}{answer}").as_bytes(), 1000).await.0, 2);
    }
}
