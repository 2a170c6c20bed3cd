//! Keeps a guest's output. None of it reaches the host's own streams, where it could be mistaken for protocol
//! messages.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

use crate::limits::Limit;
use crate::runtime::limiter::Reached;

/// Maximum size of one write in bytes: the usual amount that a WASI stream accepts at once.
const MAX_WRITE_BYTES: usize = 64 << 10;

/// Captured output of one call.
#[derive(Debug, Default)]
pub(crate) struct Printed {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    left: usize,
    /// Whether the guest tried to print more than its limit.
    pub(crate) exceeded: bool,
}

/// Output shared between the guest's streams and the host.
#[derive(Clone, Debug)]
pub(crate) struct Capture(Arc<Mutex<Printed>>);

/// Standard output or standard error.
#[derive(Clone)]
pub(crate) struct Stream {
    printed: Capture,
    is_stderr: bool,
}

impl Capture {
    pub(crate) fn new(limit: usize) -> Self {
        Self(Arc::new(Mutex::new(Printed { left: limit, ..Printed::default() })))
    }

    /// Begins another call: drops what is left of the one before, and allows this many bytes.
    pub(crate) fn begin(&self, limit: usize) {
        self.with(|printed| *printed = Printed { left: limit, ..Printed::default() });
    }

    pub(crate) fn stdout(&self) -> Stream {
        Stream { printed: self.clone(), is_stderr: false }
    }

    pub(crate) fn stderr(&self) -> Stream {
        Stream { printed: self.clone(), is_stderr: true }
    }

    pub(crate) fn exceeded(&self) -> bool {
        self.with(|printed| printed.exceeded)
    }

    /// Takes the output so far, and leaves none.
    pub(crate) fn take(&self) -> Printed {
        self.with(std::mem::take)
    }

    fn with<T>(&self, of: impl FnOnce(&mut Printed) -> T) -> T {
        of(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Stream {
    /// Keeps the bytes; if not all fit, keeps as many as fit and reports the limit.
    fn keep(&self, bytes: &[u8]) -> Result<(), Reached> {
        self.printed.with(|printed| {
            let fits = bytes.len().min(printed.left);
            printed.left -= fits;
            let to = if self.is_stderr { &mut printed.stderr } else { &mut printed.stdout };
            to.extend_from_slice(&bytes[..fits]);
            printed.exceeded |= fits < bytes.len();
            if printed.exceeded { Err(Reached(Limit::Output)) } else { Ok(()) }
        })
    }
}

impl IsTerminal for Stream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Stream {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Stream {
    async fn ready(&mut self) {}
}

impl OutputStream for Stream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.keep(&bytes).map_err(|reached| StreamError::Trap(reached.into()))
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(MAX_WRITE_BYTES)
    }
}

// WASI 0.3 has no way to end a guest from here: it gets an error, and the next tick of the clock ends it.
impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(self.keep(bytes).map(|()| bytes.len()).map_err(io::Error::other))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_streams_share_limit_and_keep_beginning() {
        let capture = Capture::new(5);
        capture.stdout().keep(b"abc").expect("fits");
        assert!(!capture.exceeded());
        assert!(capture.stderr().keep(b"defg").is_err());
        assert!(capture.stdout().keep(b"").is_err(), "it stays exceeded");
        let printed = capture.take();
        assert_eq!(
            (&printed.stdout[..], &printed.stderr[..], printed.exceeded),
            (&b"abc"[..], &b"de"[..], true)
        );
    }
}
