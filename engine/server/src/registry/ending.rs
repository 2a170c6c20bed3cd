//! The end of a run that has started.

use std::sync::Arc;
use std::time::Instant;

use hotcell_report::RunReport;
use hotcell_sandbox::outcome::Cause;
use hotcell_state::history::Stored;
use hotcell_state::running::LiveRun;

use super::Live;
use crate::run::{Answer, Run};

/// Ensures that a run ends, even when its work panics.
pub(super) struct Ending {
    pub live: Live,
    pub run: Arc<Run>,
    pub stored: Stored,
    /// Shows the run on the page until it has ended.
    pub _running: Option<LiveRun>,
    pub began: Instant,
    /// Whether the run has a place in the queue.
    pub place: bool,
}

impl Ending {
    pub fn with(self, answer: Answer) {
        let outcome = answer.outcome().clone();
        // Counted before the answer is published, so that a client sees consistent numbers. Only this guard
        // finishes a started run.
        self.live.0.metrics.run_ended(&outcome, Some(self.began.elapsed()));
        if self.run.finish(answer) {
            self.live.remember(self.stored.clone(), outcome, &self.run);
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let failed = RunReport::without_a_run(Cause::Internal, "hotcell failed while it followed the run");
        if self.run.finish(Answer::Outcome(Box::new(failed.clone()))) {
            self.live.0.metrics.run_ended(&failed, Some(self.began.elapsed()));
        }
        let mut table = self.live.table();
        table.ended(&self.run);
        if self.place {
            table.queue.done(&self.run.caller);
            self.live.pump(&mut table);
        }
    }
}
