//! How many questions of each kind one call may ask. The host counts them before it asks; whoever answers counts again, because the
//! host may have been taken over.

use crate::{Ask, Limits};

/// HTTP requests.
pub(crate) const REQUESTS: u64 = 256;
/// Lines of the log, with one that says that further ones are dropped.
pub(crate) const LINES: u32 = 256;
/// Runs.
pub(crate) const RUNS: u64 = 16;
/// Scans.
pub(crate) const SCANS: u64 = 1_000;
/// All other questions together. A guest could ask nothing else for all of its time.
pub(crate) const QUESTIONS: u64 = 10_000;
/// Milliseconds between two reports of progress.
pub(crate) const PAUSE_MS: u64 = 100;

/// A call may go on for so long after its own limit: it is given time to end when it is cancelled.
const AFTER_MS: u128 = 5_000;

/// What one call has asked so far.
#[derive(Debug, Default)]
pub(crate) struct Questions([u64; 6]);

impl Questions {
    /// Counts a question, if there may be one more.
    pub(crate) fn take(&mut self, what: &Ask, limits: &Limits) -> bool {
        let reports = || (limits.wall.as_millis() + AFTER_MS) / u128::from(PAUSE_MS) + 1;
        let (kind, most) = match what {
            Ask::Http { .. } => (0, REQUESTS),
            Ask::Log { .. } => (1, LINES.into()),
            Ask::Sandbox { .. } => (2, RUNS),
            Ask::Scan { .. } => (3, SCANS),
            Ask::Progress { .. } => (4, u64::try_from(reports()).unwrap_or(u64::MAX)),
            Ask::Config { .. }
            | Ask::Secret { .. }
            | Ask::KvGet { .. }
            | Ask::KvSet { .. }
            | Ask::KvDelete { .. }
            | Ask::KvKeys { .. } => (5, QUESTIONS),
        };
        self.0[kind] += 1;
        self.0[kind] <= most
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_kind_is_counted_by_itself() {
        let limits = Limits { wall: Duration::from_secs(1), ..Limits::default() };
        let text = String::new;
        let mut questions = Questions::default();
        for (what, most) in [
            (Ask::Log { level: text(), message: text() }, 256),
            (Ask::Progress { done: 1, total: None, message: None }, 61),
            (Ask::Scan { name: text(), content: Default::default(), language: None }, 1_000),
            (Ask::KvKeys { prefix: text() }, 10_000),
            (Ask::Config { key: text() }, 0),
        ] {
            let taken = (0..20_000).take_while(|_| questions.take(&what, &limits)).count();
            assert_eq!(taken, most, "{what:?}");
        }
    }
}
