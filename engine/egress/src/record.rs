//! Rows of requests without a secret while their connections are open, and the counting of bytes.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;

use crate::route::records::{Request, Requests};

/// Bytes that a connection has moved so far.
#[derive(Debug, Default)]
pub struct Moved {
    /// To the host.
    pub sent: AtomicU64,
    /// From the host.
    pub received: AtomicU64,
}

/// Rows whose connections are open, by a number of their own.
#[derive(Debug, Default)]
pub struct OpenRows(Mutex<(u64, BTreeMap<u64, OpenRow>)>);

/// A row whose connection is open.
#[derive(Debug)]
pub struct OpenRow {
    /// Number of the row in the records, if it has one.
    pub at: Option<usize>,
    /// The row without its bytes.
    pub request: Request,
    /// Its bytes.
    pub moved: Arc<Moved>,
}

impl OpenRow {
    /// The row as it is now.
    pub fn now(&self) -> Request {
        let mut row = self.request.clone();
        row.sent = self.moved.sent.load(Ordering::Relaxed);
        row.received = self.moved.received.load(Ordering::Relaxed);
        row
    }
}

impl OpenRows {
    fn lock(&self) -> MutexGuard<'_, (u64, BTreeMap<u64, OpenRow>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a row; returns its number.
    pub fn add(&self, row: OpenRow) -> u64 {
        let mut open = self.lock();
        open.0 += 1;
        let number = open.0;
        open.1.insert(number, row);
        number
    }

    /// Changes a row.
    pub fn change(&self, number: u64, change: impl FnOnce(&mut Request)) {
        if let Some(open) = self.lock().1.get_mut(&number) {
            change(&mut open.request);
        }
    }

    /// Removes a row whose connection has ended.
    pub fn remove(&self, number: u64) -> Option<OpenRow> {
        self.lock().1.remove(&number)
    }

    /// Ends all open rows in a copy of the records.
    pub fn end_in(&self, all: &mut Requests) {
        for open in self.lock().1.values() {
            all.end(open.at, open.now());
        }
    }
}

/// Counts the bytes that are written.
#[derive(Debug)]
pub struct Counted<'a, W> {
    to: W,
    bytes: &'a AtomicU64,
}

impl<'a, W> Counted<'a, W> {
    /// Counts the bytes that are written to `to`.
    pub const fn new(to: W, bytes: &'a AtomicU64) -> Self {
        Self { to, bytes }
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for Counted<'_, W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.to).poll_write(context, bytes);
        if let Poll::Ready(Ok(written)) = &polled {
            self.bytes.fetch_add(*written as u64, Ordering::Relaxed);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.to).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.to).poll_shutdown(context)
    }
}
