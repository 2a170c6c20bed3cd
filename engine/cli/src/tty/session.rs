//! The streams of a run with a terminal: what is typed goes in, the program's output comes out, and the size
//! follows the caller's window.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use hotcell_sandbox::{Canceller, Chunk, Running, StdinWriter, Terminal};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::io::AsyncWriteExt;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::caller::{RawMode, window};
use super::keys::Keys;
use crate::stdin::Given;
use crate::streams;
use crate::terminal::notes;

/// Default time without a key and without output after which a run with a terminal ends.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Default wall-clock limit of a run with a terminal.
pub const WALL_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);
/// The reason of a run that ended for lack of both.
pub const IDLE: &str =
    "nothing was typed and nothing printed for the time of --idle (30 minutes if it is not given)";
/// The byte that ends the input of a terminal, Ctrl-D. `termios(3)`, VEOF
const END_OF_INPUT: u8 = 4;
/// Pieces of input that wait for a program that does not read.
const MAX_QUEUED_PIECES: usize = 4;

/// Time of the last key or output.
#[derive(Clone, Debug)]
pub struct Activity {
    start: Instant,
    last_ms: Arc<AtomicU64>,
}

impl Activity {
    fn new() -> Self {
        Self { start: Instant::now(), last_ms: Arc::default() }
    }

    fn now(&self) {
        let ms = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(ms, Ordering::Relaxed);
    }

    /// Completes when nothing has happened for this long.
    pub async fn idle(&self, timeout: Duration) {
        loop {
            let last = self.start + Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
            let until = last + timeout;
            if Instant::now() >= until {
                return;
            }
            tokio::time::sleep_until(until.into()).await;
        }
    }
}

/// A run with a terminal, on the caller's side.
#[derive(Debug)]
pub struct Session {
    raw: OnceLock<RawMode>,
    /// Whether a person types.
    is_typed: bool,
    /// Closing it ends the thread that reads keys.
    reading: Option<io::PipeWriter>,
    /// Time of the last key or output.
    pub activity: Activity,
}

impl Session {
    /// Prepares a session, in which a person types or not; the caller's terminal is not touched yet.
    pub fn new(is_typed: bool) -> Self {
        Self { raw: OnceLock::new(), is_typed, reading: None, activity: Activity::new() }
    }

    /// Whether a person types.
    pub const fn is_typed(&self) -> bool {
        self.is_typed
    }

    /// Connects the streams of a program that has just started; the future completes at the end of its
    /// output. `input` is what is typed; `as_is` passes all of its output on.
    pub async fn follow(
        &mut self,
        (chunks, terminal, stdin): (Option<mpsc::Receiver<Chunk>>, Option<Terminal>, Option<StdinWriter>),
        canceller: Canceller,
        input: Option<Given>,
        as_is: bool,
    ) -> io::Result<()> {
        let (Some(mut chunks), Some(terminal)) = (chunks, terminal) else { return Ok(()) };
        if self.is_typed {
            match RawMode::enter() {
                Ok(raw) => drop(self.raw.set(raw)),
                Err(error) => notes::say(format!("the terminal cannot be set to raw mode: {error}")),
            }
        }
        if let Some(stdin) = stdin {
            let keys = self.read(input)?;
            tokio::spawn(type_keys(keys, stdin, self.is_typed, canceller.clone(), self.activity.clone()));
        }
        let (sender, seen) = mpsc::channel(1);
        let activity = self.activity.clone();
        let pass = async move {
            while let Some(chunk) = chunks.recv().await {
                activity.now();
                if sender.send(chunk).await.is_err() {
                    break;
                }
            }
        };
        let print = streams::print_screen(seen, canceller, as_is);
        let raw = &self.raw;
        tokio::select! {
            ((), written) = async { tokio::join!(pass, print) } => written,
            never = follow_window(&terminal, raw) => match never {},
        }
    }

    /// Starts the thread that reads the input.
    fn read(&mut self, input: Option<Given>) -> io::Result<mpsc::Receiver<Vec<u8>>> {
        let (sender, receiver) = mpsc::channel(MAX_QUEUED_PIECES);
        let Some(input) = input else { return Ok(receiver) };
        if self.is_typed {
            let (end, writer) = io::pipe()?;
            self.reading = Some(writer);
            std::thread::spawn(move || read_keys(input.into_reader(), &end, &sender));
            return Ok(receiver);
        }
        Ok(streams::chunks(input.into_reader()))
    }

    /// Gives the terminal back to the caller, after everything was written. `reported` says that the program
    /// asked for reports of mouse or focus: those that are not read yet were not typed.
    pub fn end(&mut self, reported: bool) {
        self.reading = None;
        if let Some(raw) = self.raw.take()
            && reported
        {
            raw.drop_input();
        }
    }
}

/// Reads keys until the other end of `end` is closed.
fn read_keys(mut from: impl Read, end: &io::PipeReader, to: &mpsc::Sender<Vec<u8>>) {
    let stdin = io::stdin();
    let mut piece = vec![0; 4096];
    loop {
        let mut both =
            [PollFd::new(stdin.as_fd(), PollFlags::POLLIN), PollFd::new(end.as_fd(), PollFlags::POLLIN)];
        if poll(&mut both, PollTimeout::NONE).is_err_and(|e| e != nix::errno::Errno::EINTR) {
            return;
        }
        if both[1].revents().is_some_and(|events| !events.is_empty()) {
            return;
        }
        if both[0].revents().is_none_or(|events| events.is_empty()) {
            continue;
        }
        match from.read(&mut piece) {
            Ok(0) => return,
            Ok(n) if to.blocking_send(piece[..n].to_vec()).is_ok() => {}
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            _ => return,
        }
    }
}

/// Types what arrives into the program's terminal. Input that is not typed by a person ends with Ctrl-D.
async fn type_keys(
    mut keys: mpsc::Receiver<Vec<u8>>,
    mut to: StdinWriter,
    is_typed: bool,
    canceller: Canceller,
    activity: Activity,
) {
    let mut combination = Keys::default();
    while let Some(piece) = keys.recv().await {
        activity.now();
        if is_typed && combination.typed(&piece, Instant::now()) {
            canceller.cancel();
            return;
        }
        if to.write_all(&piece).await.is_err() {
            return;
        }
    }
    if !is_typed {
        let _ = to.write_all(&[END_OF_INPUT]).await;
    }
}

/// Passes changes of the caller's window on, and enters raw mode again after a stop.
async fn follow_window(terminal: &Terminal, raw: &OnceLock<RawMode>) -> std::convert::Infallible {
    let changed = signal(SignalKind::window_change());
    let continued = signal(SignalKind::from_raw(nix::libc::SIGCONT));
    let (Ok(mut changed), Ok(mut continued)) = (changed, continued) else {
        return std::future::pending().await;
    };
    // It may have changed while the sandbox was made.
    let _ = terminal.resize(window());
    loop {
        tokio::select! {
            _ = changed.recv() => {}
            _ = continued.recv() => {
                let _ = raw.get().map(RawMode::again);
            }
        }
        let _ = terminal.resize(window());
    }
}

/// The parts of a run that a session follows.
pub fn parts(
    running: &mut Running,
) -> (Option<mpsc::Receiver<Chunk>>, Option<Terminal>, Option<StdinWriter>) {
    let (stdin, terminal) = (running.stdin(), running.terminal());
    (running.output(), terminal, stdin)
}

/// The caller's terminal as the program's input.
pub fn keyboard() -> io::Result<File> {
    io::stdin().as_fd().try_clone_to_owned().map(File::from)
}
