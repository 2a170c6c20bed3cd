//! A connection whose bytes from the client are taken from the run's budget as they are read, with all frames that carry no body.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::stream::Budget;

/// A stream that spends what is read from it.
pub(crate) struct Spending<'a, S> {
    io: S,
    budget: &'a Budget,
}

impl<'a, S> Spending<'a, S> {
    /// Takes what is read from `io` from this budget.
    pub const fn new(io: S, budget: &'a Budget) -> Self {
        Self { io, budget }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Spending<'_, S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = to.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(context, to);
        if let Poll::Ready(Ok(())) = &polled {
            self.budget.spend(to.filled().len() - before)?;
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Spending<'_, S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
