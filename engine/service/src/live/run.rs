//! One run: where it stands, what it printed, what it came to. Whoever follows it may be slow: a follower sees the
//! newest state, never a backlog.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hotcell_sandbox::outcome::{Cause, Outcome};
use hotcell_sandbox::pool::Pool;
use hotcell_testing::{Case, TestReport};
use tokio::sync::watch;

use super::caller::Caller;
use super::retained::{Piece, Retained};

/// The longest message of a progress report, in bytes.
const LONGEST_MESSAGE: usize = 300;

/// One of a program's output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Stdout, Self::Stderr];

    /// `stdout` or `stderr`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// What a run is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It waits for its turn.
    Queued,
    /// It runs.
    Running,
    /// It has ended; the answer is there.
    Finished,
}

/// How far a run says that it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// Done so far, such as tests.
    pub done: u64,
    /// Of how many, where that is known.
    pub total: Option<u64>,
    /// What was done last. **It may come from the program**: a name of a test, not hotcell's words.
    pub message: String,
}

/// Where a run stands.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// What it is doing.
    pub phase: Phase,
    /// How far it is, where it says so.
    pub progress: Option<Progress>,
    /// Bytes that it printed, to standard output and standard error.
    pub printed: [u64; 2],
}

/// What a run came to.
#[derive(Debug)]
pub enum Answer {
    /// A program's outcome. Its output is in the run, see [`Run::read`].
    Outcome(Box<Outcome>),
    /// What tests came to. Their output is in the run, see [`Run::read`].
    Tests(Box<TestReport>),
}

impl Answer {
    /// The outcome of the sandbox.
    #[must_use]
    pub fn outcome(&self) -> &Outcome {
        match self {
            Self::Outcome(outcome) => outcome,
            Self::Tests(report) => &report.outcome,
        }
    }

    /// Bytes of text in it, about.
    fn held(&self) -> usize {
        let Self::Tests(report) = self else { return 0 };
        let texts = |c: &Case| {
            let long = [&c.message, &c.details, &c.stdout, &c.stderr, &c.source, &c.file];
            long.into_iter().flatten().map(String::len).sum::<usize>()
                + c.id.len()
                + c.name.len()
                + size_of::<Case>()
        };
        report.cases.iter().map(texts).sum()
    }
}

/// A run that somebody started.
#[derive(Debug)]
pub struct Run {
    /// Its unguessable name.
    pub id: String,
    /// Whose it is.
    pub caller: Caller,
    /// What runs, for a list.
    pub command: Vec<String>,
    /// When it was asked for.
    pub asked: Instant,
    pub(super) key: Option<(String, u64)>,
    state: watch::Sender<State>,
    cancelled: watch::Sender<bool>,
    holders: AtomicUsize,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    output: [Retained; 2],
    answer: Option<std::sync::Arc<Answer>>,
    ended: Option<Instant>,
}

impl Run {
    pub(super) fn new(
        id: String,
        caller: Caller,
        command: Vec<String>,
        key: Option<(String, u64)>,
        kept: usize,
    ) -> Self {
        let state = State { phase: Phase::Queued, progress: None, printed: [0; 2] };
        let output = [Retained::new(kept), Retained::new(kept)];
        Self {
            id,
            caller,
            command,
            asked: Instant::now(),
            key,
            state: watch::Sender::new(state),
            cancelled: watch::Sender::new(false),
            holders: AtomicUsize::new(0),
            inner: Mutex::new(Inner { output, answer: None, ended: None }),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where it stands.
    #[must_use]
    pub fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// Follows it: the newest state at each change.
    #[must_use]
    pub fn follow(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// Whether somebody has cancelled it.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        *self.cancelled.borrow()
    }

    /// Ends its whole process tree, or takes it out of the queue; nothing when it has ended.
    pub fn cancel(&self) {
        self.cancelled.send_replace(true);
    }

    /// One more request is the reason that it runs: with a key there may be several.
    pub fn hold(&self) {
        self.holders.fetch_add(1, Ordering::Relaxed);
    }

    /// One fewer is; whether none is left.
    #[must_use]
    pub fn release(&self) -> bool {
        self.holders.fetch_sub(1, Ordering::Relaxed) == 1
    }

    /// Waits until it has ended.
    pub async fn ended(&self) {
        // The sender is ours: it cannot be gone.
        let _ = self.follow().wait_for(|s| s.phase == Phase::Finished).await;
    }

    /// What it came to, once it has ended.
    #[must_use]
    pub fn answer(&self) -> Option<std::sync::Arc<Answer>> {
        self.inner().answer.clone()
    }

    /// Reads what it printed, at most `most` bytes from an offset on.
    #[must_use]
    pub fn read(&self, stream: Stream, offset: u64, most: usize) -> Piece {
        self.inner().output[stream as usize].read(offset, most)
    }

    /// The last bytes that it printed.
    #[must_use]
    pub fn last(&self, stream: Stream, most: usize) -> Piece {
        self.inner().output[stream as usize].last(most)
    }

    /// All that is kept of a stream, and how much was printed.
    #[must_use]
    pub fn kept(&self, stream: Stream) -> (Vec<u8>, u64) {
        let inner = self.inner();
        let output = &inner.output[stream as usize];
        (output.to_vec(), output.bytes())
    }

    /// Bytes of output and reports that are held in memory.
    pub(super) fn held(&self) -> usize {
        let inner = self.inner();
        inner.output.iter().map(Retained::kept).sum::<usize>() + inner.answer.as_ref().map_or(0, |a| a.held())
    }

    pub(super) fn ended_at(&self) -> Option<Instant> {
        self.inner().ended
    }

    pub(super) fn started(&self) {
        self.state.send_modify(|s| s.phase = Phase::Running);
    }

    pub(super) fn wrote(&self, stream: Stream, bytes: &[u8]) {
        let all = {
            let output = &mut self.inner().output[stream as usize];
            output.push(bytes);
            output.bytes()
        };
        self.state.send_modify(|s| s.printed[stream as usize] = all);
    }

    pub(super) fn progressed(&self, mut progress: Progress) {
        let end = (0..=LONGEST_MESSAGE.min(progress.message.len()))
            .rev()
            .find(|at| progress.message.is_char_boundary(*at));
        progress.message.truncate(end.unwrap_or(0));
        self.state.send_modify(|s| s.progress = Some(progress));
    }

    /// The end; the first one counts.
    pub(super) fn finish(&self, answer: Answer) -> bool {
        {
            let mut inner = self.inner();
            if inner.answer.is_some() {
                return false;
            }
            inner.answer = Some(std::sync::Arc::new(answer));
            inner.ended = Some(Instant::now());
        }
        self.state.send_modify(|s| s.phase = Phase::Finished);
        true
    }
}

/// What work has to do with: the engine, the run that it is, and word of its cancellation.
#[derive(Clone, Debug)]
pub struct Desk {
    /// Has sandboxes ready.
    pub pool: Pool,
    pub(super) run: std::sync::Arc<Run>,
}

impl Desk {
    /// Waits until somebody cancels the run.
    pub async fn cancelled(&self) {
        let _ = self.run.cancelled.subscribe().wait_for(|c| *c).await;
    }

    /// Whether somebody has cancelled it.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        *self.run.cancelled.borrow()
    }

    /// The program printed this.
    pub fn wrote(&self, stream: Stream, bytes: &[u8]) {
        self.run.wrote(stream, bytes);
    }

    /// This much is done.
    pub fn progressed(&self, progress: Progress) {
        self.run.progressed(progress);
    }
}

/// The outcome of what was cancelled before it ran.
pub(super) fn never_ran() -> Outcome {
    Outcome::without_a_run(Cause::Cancelled, "stopped: cancelled before it began")
}
