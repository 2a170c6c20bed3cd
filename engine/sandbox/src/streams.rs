//! Reads a run's output streams and captures a bounded part.
//!
//! If nothing follows the output, the run's own supervisor reads it, so that no other thread wakes up while
//! the program runs. A stream that is followed has a task of its own: a slow listener delays that stream
//! only.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use tokio::sync::{Notify, mpsc};

use crate::deferred_fd::DeferredFd;
use crate::outcome::Output;
use crate::stdio::Capture;

/// A piece of a running program's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chunk {
    /// On standard output.
    Stdout(Vec<u8>),
    /// On standard error.
    Stderr(Vec<u8>),
}

/// Maximum time that a listener may take to accept the last output.
const LISTENER_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes read from a pipe at once.
const READ_CHUNK: usize = 16 * 1024;

/// The streams of one run: standard output, standard error, and events if there are any.
pub struct Streams {
    flow: Arc<Flow>,
    own: Vec<Own>,
    followed: Vec<Followed>,
    buffer: Vec<u8>,
}

/// A stream that the supervisor reads.
struct Own {
    /// `None` once the stream has ended.
    pipe: Option<DeferredFd>,
    capture: Capture,
}

/// A stream with a task of its own.
struct Followed {
    capture: Arc<Mutex<Capture>>,
    task: tokio::task::JoinHandle<()>,
}

/// Byte count of all streams, and signals to their tasks.
struct Flow {
    printed: AtomicU64,
    most: u64,
    over: Notify,
    /// Set when the program has ended: read what is left and stop.
    ended: AtomicBool,
    end: Notify,
}

impl Flow {
    /// Adds to the byte count. Reading goes on above the limit: a closed pipe would end the program by
    /// SIGPIPE before its limit does.
    fn count(&self, n: usize) {
        let printed = self.printed.fetch_add(n as u64, Ordering::AcqRel) + n as u64;
        if printed > self.most {
            self.over.notify_one();
        }
    }
}

/// The non-blocking reading ends of a run's streams, and their listeners.
pub struct Ends {
    /// Standard output and error.
    pub output: [OwnedFd; 2],
    /// Receiver of the output, if it is followed.
    pub chunks: Option<mpsc::Sender<Chunk>>,
    /// The descriptor for events, and the receiver of its bytes.
    pub events: Option<(OwnedFd, mpsc::Sender<Vec<u8>>)>,
    /// Time when the job was sent.
    pub released: Instant,
}

impl Streams {
    /// Captures `keep` bytes of each output stream; [`Streams::too_much`] reports more than `most` bytes on
    /// all streams together.
    pub fn new(ends: Ends, keep: u64, most: u64) -> Self {
        let flow = Arc::new(Flow {
            printed: AtomicU64::new(0),
            most,
            over: Notify::new(),
            ended: AtomicBool::new(false),
            end: Notify::new(),
        });
        let (mut own, mut followed) = (Vec::new(), Vec::new());
        let later = |pipe| DeferredFd::new(pipe, ends.released);
        match ends.chunks {
            None => {
                own.extend(
                    ends.output.map(|pipe| Own { pipe: Some(later(pipe)), capture: Capture::new(keep) }),
                );
            }
            Some(chunks) => {
                let kinds: [fn(Vec<u8>) -> Chunk; 2] = [Chunk::Stdout, Chunk::Stderr];
                followed.extend(
                    ends.output
                        .into_iter()
                        .zip(kinds)
                        .map(|(pipe, kind)| Followed::start(later(pipe), keep, &flow, chunks.clone(), kind)),
                );
            }
        }
        // Last, and not captured: the caller takes events as they arrive.
        followed
            .extend(ends.events.map(|(pipe, to)| Followed::start(later(pipe), 0, &flow, to, |bytes| bytes)));
        let buffer = if own.is_empty() { Vec::new() } else { vec![0; READ_CHUNK] };
        Self { flow, own, followed, buffer }
    }

    /// Reads one piece of a stream without a listener. Never completes once all of these have ended. Cancel
    /// safe.
    pub async fn read(&mut self) {
        let Self { own, buffer, flow, .. } = self;
        let [stdout, stderr] = own.as_mut_slice() else { return std::future::pending().await };
        let (stream, ready) = tokio::select! {
            ready = readable(stdout.pipe.as_ref()) => (stdout, ready),
            ready = readable(stderr.pipe.as_ref()) => (stderr, ready),
        };
        let read = match (&mut stream.pipe, ready) {
            (Some(pipe), Ok(())) => pipe.take(|fd| Ok(nix::unistd::read(fd, buffer)?)),
            (_, ready) => ready.map(|()| 0),
        };
        match read {
            Ok(n) if n > 0 => {
                stream.capture.push(&buffer[..n]);
                flow.count(n);
            }
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            _ => stream.pipe = None,
        }
    }

    /// Whether the limit of output was exceeded.
    pub fn is_over(&self) -> bool {
        self.flow.printed.load(Ordering::Acquire) > self.flow.most
    }

    /// Completes when the limit of output is exceeded.
    pub fn too_much(&self) -> impl Future<Output = ()> + use<> {
        let flow = Arc::clone(&self.flow);
        async move { flow.over.notified().await }
    }

    /// Reads what is left in the pipes, without waiting for a descendant that keeps them open. Returns
    /// standard output and error.
    pub async fn finish(&mut self) -> [Output; 2] {
        self.flow.ended.store(true, Ordering::Release);
        self.flow.end.notify_waiters();
        let mut kept = Vec::new();
        for mut stream in self.own.drain(..) {
            let pipe = stream.pipe.take();
            let Some(pipe) = pipe.as_ref().and_then(DeferredFd::fd) else {
                kept.push(stream.capture.finish());
                continue;
            };
            // Everything written before the end fits into the pipe; a process that writes later is no longer
            // part of the run.
            let mut left =
                fcntl(pipe, FcntlArg::F_GETPIPE_SZ).map_or(READ_CHUNK, |n| n.unsigned_abs() as usize);
            while left > 0
                && let Some(n) = read_now(pipe, &mut self.buffer)
            {
                stream.capture.push(&self.buffer[..n]);
                self.flow.count(n);
                left = left.saturating_sub(n);
            }
            kept.push(stream.capture.finish());
        }
        for mut stream in self.followed.drain(..) {
            if tokio::time::timeout(LISTENER_TIMEOUT, &mut stream.task).await.is_err() {
                stream.task.abort();
            }
            let mut capture = stream.capture.lock().unwrap_or_else(PoisonError::into_inner);
            kept.push(std::mem::replace(&mut *capture, Capture::new(0)).finish());
        }
        let mut kept = kept.into_iter();
        [(); 2].map(|()| kept.next().unwrap_or_else(|| Output::new(Vec::new(), 0)))
    }
}

/// Waits until there is something to read; forever if the stream has ended.
async fn readable(pipe: Option<&DeferredFd>) -> io::Result<()> {
    match pipe {
        Some(pipe) => pipe.ready().await,
        None => std::future::pending().await,
    }
}

/// Reads one piece from a pipe without waiting; `None` when it is empty or has ended. Reads directly, because
/// the runtime's idea of its readiness may be older than the end of the program.
fn read_now(pipe: BorrowedFd<'_>, buffer: &mut [u8]) -> Option<usize> {
    loop {
        match nix::unistd::read(pipe, buffer) {
            Err(Errno::EINTR) => {}
            Ok(0) | Err(_) => return None,
            Ok(n) => return Some(n),
        }
    }
}

impl Followed {
    fn start<T: Send + 'static>(
        pipe: DeferredFd,
        keep: u64,
        flow: &Arc<Flow>,
        to: mpsc::Sender<T>,
        kind: fn(Vec<u8>) -> T,
    ) -> Self {
        let capture = Arc::new(Mutex::new(Capture::new(keep)));
        let task = tokio::spawn(follow(pipe, Arc::clone(&capture), Arc::clone(flow), to, kind));
        Self { capture, task }
    }
}

async fn follow<T>(
    mut pipe: DeferredFd,
    capture: Arc<Mutex<Capture>>,
    flow: Arc<Flow>,
    to: mpsc::Sender<T>,
    kind: fn(Vec<u8>) -> T,
) {
    let mut buffer = vec![0u8; READ_CHUNK];
    loop {
        // Neither reading nor a listener that is gone consumes tokio's budget.
        tokio::task::consume_budget().await;
        let end = flow.end.notified();
        let n = if flow.ended.load(Ordering::Acquire) {
            let Some(n) = pipe.fd().and_then(|pipe| read_now(pipe, &mut buffer)) else { return };
            n
        } else {
            let ready = tokio::select! {
                biased;
                ready = pipe.ready() => ready,
                () = end => continue,
            };
            match ready.and_then(|()| pipe.take(|fd| Ok(nix::unistd::read(fd, &mut buffer)?))) {
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                    continue;
                }
                read => read.unwrap_or(0),
            }
        };
        if n == 0 {
            return;
        }
        capture.lock().unwrap_or_else(PoisonError::into_inner).push(&buffer[..n]);
        // A slow listener slows the program down, as a full pipe would.
        let _ = to.send(kind(buffer[..n].to_vec())).await;
        flow.count(n);
    }
}
