//! Use of what one call may do a limited number of times.

use crate::asker::Allowance;
use crate::questions::{MAX_LOG_LINES, MAX_OTHER_QUESTIONS, MAX_RUNS, MAX_SCANS};

/// Use of the resources that the WIT packages promise to limit, by one call.
#[derive(Debug)]
pub(crate) struct Counts {
    /// Number of log lines that may still come.
    pub(crate) lines: u32,
    /// Last progress report: its time, and the amount done.
    pub(crate) progress: Option<(std::time::Instant, u64)>,
    pub(crate) runs: Allowance,
    pub(crate) scans: Allowance,
    /// Allowance for all other questions.
    pub(crate) questions: Allowance,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            lines: MAX_LOG_LINES,
            progress: None,
            runs: Allowance::new(MAX_RUNS),
            scans: Allowance::new(MAX_SCANS),
            questions: Allowance::new(MAX_OTHER_QUESTIONS),
        }
    }
}
