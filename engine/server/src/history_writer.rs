//! Writes runs to the history after their answers, several at once; failed writes are retried.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hotcell_report::RunReport;
use hotcell_state::history::{History, HistoryError, Stored, bounded};
use hotcell_state::state::StateFolder;

/// Delay between a run's answer and its history entry.
const WRITE_DELAY: Duration = Duration::from_millis(50);
/// First delay before a retry; it doubles each time, up to [`MAX_RETRY_DELAY`].
const MIN_RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);
/// Maximum number of runs waiting to be written; beyond it the oldest are lost.
const MAX_QUEUED_RUNS: usize = 500;

/// Writes the history of a state folder in the background.
pub struct HistoryWriter {
    state: Arc<StateFolder>,
    waiting: Mutex<Waiting>,
    /// Held while writing; true when the last write succeeded.
    writing: Mutex<bool>,
}

#[derive(Default)]
struct Waiting {
    runs: VecDeque<(Stored, RunReport)>,
    /// True while a task is going to write them.
    in_hand: bool,
}

impl HistoryWriter {
    pub fn new(state: Arc<StateFolder>) -> Self {
        Self { state, waiting: Mutex::default(), writing: Mutex::new(true) }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a run to the history, after a short delay. Call this within a runtime.
    pub fn add(self: &Arc<Self>, stored: Stored, outcome: RunReport) {
        let mut waiting = self.waiting();
        waiting.runs.push_back((stored, outcome));
        if !std::mem::replace(&mut waiting.in_hand, true) {
            tokio::spawn(Arc::clone(self).write_all());
        }
    }

    async fn write_all(self: Arc<Self>) {
        let mut pause = WRITE_DELAY;
        loop {
            tokio::time::sleep(pause).await;
            let scribe = Arc::clone(&self);
            let written = tokio::task::spawn_blocking(move || scribe.write()).await.unwrap_or(false);
            pause = if written { WRITE_DELAY } else { (2 * pause).clamp(MIN_RETRY_DELAY, MAX_RETRY_DELAY) };
            let mut waiting = self.waiting();
            if waiting.runs.is_empty() {
                waiting.in_hand = false;
                return;
            }
        }
    }

    /// Writes all waiting runs; returns true if that succeeded. Blocks.
    pub fn write(&self) -> bool {
        let mut could = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *could, true);
        let mut runs = std::mem::take(&mut self.waiting().runs);
        if runs.is_empty() {
            return true;
        }
        let Err(error) = write(&self.state, &mut runs) else { return true };
        // Shortened now to what will be written, to save memory while waiting.
        runs.iter_mut().for_each(|(_, outcome)| *outcome = bounded(outcome));
        let mut waiting = self.waiting();
        // Runs added meanwhile are younger.
        runs.append(&mut waiting.runs);
        let lost = runs.len().saturating_sub(MAX_QUEUED_RUNS);
        runs.drain(..lost);
        waiting.runs = runs;
        let left = waiting.runs.len();
        drop(waiting);
        if before || lost > 0 {
            tracing::warn!("{left} runs are not in the history yet, and {lost} never will be: {error}");
        }
        *could = false;
        false
    }
}

/// Removes runs from the queue as they are written.
fn write(state: &StateFolder, runs: &mut VecDeque<(Stored, RunReport)>) -> Result<(), HistoryError> {
    let history = History::open(state)?;
    while let Some((stored, outcome)) = runs.front() {
        history.add(stored, outcome)?;
        runs.pop_front();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(id: usize) -> (Stored, RunReport) {
        let stored = Stored { id: format!("{id:08x}"), ..Stored::begin(vec!["true".to_owned()]) };
        (stored, RunReport::without_a_run(hotcell_sandbox::outcome::Cause::Exited, ""))
    }

    #[tokio::test]
    async fn history_writer_retries_failed_writes() {
        let dir = tempfile::tempdir().unwrap();
        let state = Arc::new(StateFolder::open(&dir.path().join("state")).unwrap());
        let scribe = Arc::new(HistoryWriter::new(Arc::clone(&state)));
        // A folder in place of the database cannot be opened.
        std::fs::create_dir(state.database()).unwrap();
        for id in 0..MAX_QUEUED_RUNS + 2 {
            let (stored, outcome) = run(id);
            scribe.add(stored, outcome);
        }
        assert!(!scribe.write());
        assert_eq!(scribe.waiting().runs.len(), MAX_QUEUED_RUNS);
        std::fs::remove_dir(state.database()).unwrap();
        let written = async {
            while scribe.waiting().in_hand {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), written).await.expect("it is tried again");
        let rows = History::open_to_read(&state).unwrap().unwrap().list().unwrap();
        assert_eq!(
            (rows.len(), rows[0].id.as_str()),
            (MAX_QUEUED_RUNS, run(MAX_QUEUED_RUNS + 1).0.id.as_str())
        );
    }
}
