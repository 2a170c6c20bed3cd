//! What a run prints, read and kept within bounds.
//!
//! Where nobody follows the output, the run's own supervision reads it, so that no other thread wakes up beside the program.
//! A stream that somebody follows has a task of its own: a slow listener holds the stream up and nothing else.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use tokio::sync::{Notify, mpsc};

use crate::later::Later;
use crate::outcome::Output;
use crate::stdio::Capture;

/// What a running program printed, as it comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chunk {
    /// On standard output.
    Stdout(Vec<u8>),
    /// On standard error.
    Stderr(Vec<u8>),
}

/// How long somebody who follows the output may take to accept what was printed last.
const LISTENER: Duration = Duration::from_secs(30);
/// Read from a pipe at once.
const PIECE: usize = 16 * 1024;

/// The streams of one run: standard output and error, then events where there are any.
pub struct Streams {
    flow: Arc<Flow>,
    own: Vec<Own>,
    followed: Vec<Followed>,
    buffer: Vec<u8>,
}

/// A stream that is read here.
struct Own {
    /// None when it has ended.
    pipe: Option<Later>,
    capture: Capture,
}

/// A stream with a task of its own.
struct Followed {
    capture: Arc<Mutex<Capture>>,
    task: tokio::task::JoinHandle<()>,
}

/// How much was printed on all streams, and what their tasks are told.
struct Flow {
    printed: AtomicU64,
    most: u64,
    over: Notify,
    /// Set when the program has ended: read what is there and stop.
    ended: AtomicBool,
    end: Notify,
}

impl Flow {
    /// Counts what was read. A stream is read on when there is too much: a closed pipe would end the program by SIGPIPE before
    /// its limit does.
    fn count(&self, n: usize) {
        let printed = self.printed.fetch_add(n as u64, Ordering::AcqRel) + n as u64;
        if printed > self.most {
            self.over.notify_one();
        }
    }
}

/// The reading ends of a run's streams, which do not block, and who follows them.
pub struct Ends {
    /// Standard output and error.
    pub output: [OwnedFd; 2],
    /// Who is told what comes on them.
    pub chunks: Option<mpsc::Sender<Chunk>>,
    /// The descriptor for events, and where its bytes go.
    pub events: Option<(OwnedFd, mpsc::Sender<Vec<u8>>)>,
    /// When the job was sent.
    pub released: Instant,
}

impl Streams {
    /// Of each stream of output `keep` bytes are kept; [`Streams::too_much`] tells of more than `most` on all together.
    pub fn new(ends: Ends, keep: u64, most: u64) -> Self {
        let flow = Arc::new(Flow {
            printed: AtomicU64::new(0),
            most,
            over: Notify::new(),
            ended: AtomicBool::new(false),
            end: Notify::new(),
        });
        let (mut own, mut followed) = (Vec::new(), Vec::new());
        let later = |pipe| Later::new(pipe, ends.released);
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
        // Last, and nothing of it is kept: who asked for events takes them as they come.
        followed
            .extend(ends.events.map(|(pipe, to)| Followed::start(later(pipe), 0, &flow, to, |bytes| bytes)));
        let buffer = if own.is_empty() { Vec::new() } else { vec![0; PIECE] };
        Self { flow, own, followed, buffer }
    }

    /// Reads one piece of what nobody else reads. Waits for ever when there is nothing left; may be given up at any moment.
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

    /// Whether more was printed than may be, so far.
    pub fn is_over(&self) -> bool {
        self.flow.printed.load(Ordering::Acquire) > self.flow.most
    }

    /// Comes when more was printed than may be.
    pub fn too_much(&self) -> impl Future<Output = ()> + use<> {
        let flow = Arc::clone(&self.flow);
        async move { flow.over.notified().await }
    }

    /// Reads what is left in the pipes; nobody waits for a descendant that keeps them open. What came on standard output and error.
    pub async fn finish(&mut self) -> [Output; 2] {
        self.flow.ended.store(true, Ordering::Release);
        self.flow.end.notify_waiters();
        let mut kept = Vec::new();
        for mut stream in self.own.drain(..) {
            let pipe = stream.pipe.take();
            let Some(pipe) = pipe.as_ref().and_then(Later::fd) else {
                kept.push(stream.capture.finish());
                continue;
            };
            // What was written before the end fits into the pipe: who writes on is none of the run any more.
            let mut left = fcntl(pipe, FcntlArg::F_GETPIPE_SZ).map_or(PIECE, |n| n.unsigned_abs() as usize);
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
            if tokio::time::timeout(LISTENER, &mut stream.task).await.is_err() {
                stream.task.abort();
            }
            let mut capture = stream.capture.lock().unwrap_or_else(PoisonError::into_inner);
            kept.push(std::mem::replace(&mut *capture, Capture::new(0)).finish());
        }
        let mut kept = kept.into_iter();
        [(); 2].map(|()| kept.next().unwrap_or_else(|| Output::new(Vec::new(), 0)))
    }
}

/// Waits for what is to be read; for ever where the stream has ended.
async fn readable(pipe: Option<&Later>) -> io::Result<()> {
    match pipe {
        Some(pipe) => pipe.ready().await,
        None => std::future::pending().await,
    }
}

/// One piece of what is in a pipe now; none when it is empty or has ended. Straight from the kernel: what the runtime knows of
/// the pipe may be older than the end of the program.
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
        pipe: Later,
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
    mut pipe: Later,
    capture: Arc<Mutex<Capture>>,
    flow: Arc<Flow>,
    to: mpsc::Sender<T>,
    kind: fn(Vec<u8>) -> T,
) {
    let mut buffer = vec![0u8; PIECE];
    loop {
        // Neither reading nor a listener that is gone spends tokio's budget.
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
        // A slow listener slows the program down, as a full pipe does.
        let _ = to.send(kind(buffer[..n].to_vec())).await;
        flow.count(n);
    }
}
