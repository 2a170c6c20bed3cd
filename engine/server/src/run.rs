//! One run: its state, its output, its answer. A slow follower sees the newest state, never a backlog.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use hotcell_report::RunReport;
use hotcell_sandbox::Spawn;
use hotcell_sandbox::outcome::Cause;
use hotcell_sandbox::pool::Pool;
use hotcell_state::caller::Caller;
use hotcell_testing::{Case, TestReport};
use tokio::sync::watch;

use super::retained::{Piece, Retained};
use super::signing::ReceiptFacts;

/// Maximum length of a progress message, in bytes.
const MAX_MESSAGE_BYTES: usize = 300;

/// One of a program's output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// Both streams.
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

/// Phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Waiting in the queue.
    Queued,
    /// Running.
    Running,
    /// Ended; the answer is available.
    Finished,
}

/// Progress as reported by a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// Units done so far, such as tests.
    pub done: u64,
    /// Total number of units, if known.
    pub total: Option<u64>,
    /// Latest unit done. **This text may come from the program**, such as the name of a test.
    pub message: String,
}

/// State of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Phase.
    pub phase: Phase,
    /// Progress, if reported.
    pub progress: Option<Progress>,
    /// Bytes printed to standard output and standard error.
    pub printed: [u64; 2],
}

/// Result of a run.
#[derive(Debug)]
pub enum Answer {
    /// A program's outcome. Its output is in the run, see [`Run::read`].
    Outcome(Box<RunReport>),
    /// A test report. The tests' output is in the run, see [`Run::read`].
    Tests(Box<TestReport>),
}

impl Answer {
    /// Outcome of the sandbox.
    #[must_use]
    pub fn outcome(&self) -> &RunReport {
        match self {
            Self::Outcome(outcome) => outcome,
            Self::Tests(report) => &report.outcome,
        }
    }

    /// Approximate size of its texts, in bytes.
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

/// Facts about the request for a run, for advice in its answer.
#[derive(Clone, Debug, Default)]
pub struct Requested {
    /// Hosts that a person approved for it.
    pub hosts: Option<String>,
    /// True when the caller's code mentions other hosts.
    pub may_fetch: bool,
    /// The operator's limits, which are the maximum for every caller.
    pub most: Option<hotcell_sandbox::Limits>,
    /// Packages that the caller's source imports, and that are not among its files.
    pub imports: Vec<String>,
    /// True when the run has a folder of its own, which is removed with it.
    pub scratch: bool,
    /// The first argument of a command that only a shell would read as an operator, such as `|`.
    pub operator: Option<String>,
}

/// A run.
#[derive(Debug)]
pub struct Run {
    /// Unguessable id.
    pub id: String,
    /// Owner.
    pub caller: Caller,
    /// Command, for a list.
    pub command: Vec<String>,
    /// Facts about its request.
    pub request: Requested,
    /// Time of the request.
    pub asked: Instant,
    pub(crate) key: Option<(String, u64)>,
    /// SHA-256 of the request.
    pub(crate) content: [u8; 32],
    /// True when it gets a receipt.
    pub(crate) has_receipt: bool,
    facts: Mutex<ReceiptFacts>,
    /// Digest of its receipt.
    receipt: OnceLock<String>,
    state: watch::Sender<State>,
    cancelled: watch::Sender<bool>,
    holders: AtomicUsize,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    output: [Retained; 2],
    files: Vec<(String, std::sync::Arc<[u8]>)>,
    answer: Option<std::sync::Arc<Answer>>,
    ended: Option<Instant>,
}

impl Run {
    pub(crate) fn new(
        id: String,
        caller: Caller,
        (command, request): (Vec<String>, Requested),
        key: Option<(String, u64)>,
        (content, has_receipt): ([u8; 32], bool),
        kept: usize,
    ) -> Self {
        let state = State { phase: Phase::Queued, progress: None, printed: [0; 2] };
        let output = [Retained::new(kept), Retained::new(kept)];
        Self {
            id,
            caller,
            command,
            request,
            asked: Instant::now(),
            key,
            content,
            has_receipt,
            facts: Mutex::default(),
            receipt: OnceLock::new(),
            state: watch::Sender::new(state),
            cancelled: watch::Sender::new(false),
            holders: AtomicUsize::new(0),
            inner: Mutex::new(Inner { output, files: Vec::new(), answer: None, ended: None }),
        }
    }

    /// Facts for its receipt.
    pub(crate) fn receipt_facts(&self) -> MutexGuard<'_, ReceiptFacts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the digest of its receipt.
    pub(crate) fn receive(&self, digest: String) {
        let _ = self.receipt.set(digest);
    }

    /// SHA-256 of its receipt, once there is one.
    #[must_use]
    pub fn receipt(&self) -> Option<&str> {
        self.receipt.get().map(String::as_str)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Current state.
    #[must_use]
    pub fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// Follows the run: receives the newest state at each change.
    #[must_use]
    pub fn follow(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// True once the run was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        *self.cancelled.borrow()
    }

    /// Ends its whole process tree, or removes it from the queue; does nothing when it has ended.
    pub fn cancel(&self) {
        self.cancelled.send_replace(true);
    }

    /// Adds a holder: with a key, several requests may share a run.
    pub fn hold(&self) {
        self.holders.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a holder; returns true if it was the last one.
    #[must_use]
    pub fn release(&self) -> bool {
        self.holders.fetch_sub(1, Ordering::Relaxed) == 1
    }

    /// Waits until the run has ended.
    pub async fn ended(&self) {
        // `self` owns the sender, so it cannot be dropped.
        let _ = self.follow().wait_for(|s| s.phase == Phase::Finished).await;
    }

    /// The answer, once the run has ended.
    #[must_use]
    pub fn answer(&self) -> Option<std::sync::Arc<Answer>> {
        self.inner().answer.clone()
    }

    /// Reads at most `most` bytes of output from an offset.
    #[must_use]
    pub fn read(&self, stream: Stream, offset: u64, most: usize) -> Piece {
        self.inner().output[stream as usize].read(offset, most)
    }

    /// The last bytes of output.
    #[must_use]
    pub fn last(&self, stream: Stream, most: usize) -> Piece {
        self.inner().output[stream as usize].last(most)
    }

    /// All stored bytes of a stream, and the number of bytes printed.
    #[must_use]
    pub fn kept(&self, stream: Stream) -> (Vec<u8>, u64) {
        let inner = self.inner();
        let output = &inner.output[stream as usize];
        (output.to_vec(), output.bytes())
    }

    /// Files that it returned, with their sizes.
    #[must_use]
    pub fn files(&self) -> Vec<(String, u64)> {
        self.inner().files.iter().map(|(path, bytes)| (path.clone(), bytes.len() as u64)).collect()
    }

    /// A file that it returned.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<std::sync::Arc<[u8]>> {
        self.inner()
            .files
            .iter()
            .find(|(name, _)| name == path)
            .map(|(_, bytes)| std::sync::Arc::clone(bytes))
    }

    /// Bytes of output and reports held in memory.
    pub fn held(&self) -> usize {
        let inner = self.inner();
        inner.output.iter().map(Retained::kept).sum::<usize>()
            + inner.files.iter().map(|(path, bytes)| path.len() + bytes.len()).sum::<usize>()
            + inner.answer.as_ref().map_or(0, |a| a.held())
    }

    pub(crate) fn ended_at(&self) -> Option<Instant> {
        self.inner().ended
    }

    pub(crate) fn started(&self) {
        self.state.send_modify(|s| s.phase = Phase::Running);
    }

    pub(crate) fn wrote(&self, stream: Stream, bytes: &[u8]) {
        let all = {
            let output = &mut self.inner().output[stream as usize];
            output.push(bytes);
            output.bytes()
        };
        self.state.send_modify(|s| s.printed[stream as usize] = all);
    }

    pub(crate) fn progressed(&self, mut progress: Progress) {
        let end = (0..=MAX_MESSAGE_BYTES.min(progress.message.len()))
            .rev()
            .find(|at| progress.message.is_char_boundary(*at));
        progress.message.truncate(end.unwrap_or(0));
        self.state.send_modify(|s| s.progress = Some(progress));
    }

    /// Ends the run; later calls have no effect.
    pub fn finish(&self, answer: Answer) -> bool {
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

/// Context of a run's work: the engine, the run, and its cancellation.
#[derive(Clone, Debug)]
pub struct RunContext {
    /// Pool of ready sandboxes.
    pub pool: Pool,
    /// Another place, to which runs are sent.
    pub(crate) elsewhere: Option<Elsewhere>,
    pub(crate) run: std::sync::Arc<Run>,
}

/// Another place than the pool, in which runs begin.
#[derive(Clone)]
pub struct Elsewhere(pub std::sync::Arc<dyn Spawn>);

impl std::fmt::Debug for Elsewhere {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Elsewhere(…)")
    }
}

impl RunContext {
    /// The place in which programs, sources and tests begin.
    #[must_use]
    pub fn spawn(&self) -> &dyn Spawn {
        self.elsewhere.as_ref().map_or(&self.pool, |elsewhere| &*elsewhere.0)
    }

    /// Waits until the run is cancelled.
    pub async fn cancelled(&self) {
        let _ = self.run.cancelled.subscribe().wait_for(|c| *c).await;
    }

    /// True once the run was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        *self.run.cancelled.borrow()
    }

    /// Appends the program's output.
    pub fn wrote(&self, stream: Stream, bytes: &[u8]) {
        self.run.wrote(stream, bytes);
    }

    /// Keeps files that the run returned.
    pub fn keep_files(&self, files: Vec<(String, Vec<u8>)>) {
        self.run.inner().files = files.into_iter().map(|(path, bytes)| (path, bytes.into())).collect();
    }

    /// Reports progress.
    pub fn progressed(&self, progress: Progress) {
        self.run.progressed(progress);
    }
}

/// Outcome of a run that was cancelled before it started.
pub fn never_ran() -> RunReport {
    RunReport::without_a_run(Cause::Cancelled, "stopped: cancelled before it began")
}
