//! Number of questions of each kind that one call may ask. The host counts them before it asks; the parent
//! counts again, because the host may have been taken over.

use crate::{Ask, Limits};

/// Maximum number of HTTP requests.
pub(crate) const MAX_REQUESTS: u64 = 256;
/// Maximum number of log lines, including one that says that further ones are dropped.
pub(crate) const MAX_LOG_LINES: u32 = 256;
/// Maximum number of sandboxed runs.
pub(crate) const MAX_RUNS: u64 = 16;
/// Maximum number of scans.
pub(crate) const MAX_SCANS: u64 = 1_000;
/// Maximum number of all other questions together. Otherwise a guest could spend all its time asking.
pub(crate) const MAX_OTHER_QUESTIONS: u64 = 10_000;
/// Minimum time between two progress reports, in milliseconds.
pub(crate) const PROGRESS_INTERVAL_MS: u64 = 100;

/// Time that a call may go on after its own limit, in milliseconds: a cancelled call gets time to end.
const MAX_OVERRUN_MS: u128 = 5_000;

/// Number of questions of one call so far, by kind.
#[derive(Debug, Default)]
pub(crate) struct Questions([u64; 6]);

impl Questions {
    /// Counts a question; `false` when the call has used up its kind.
    pub(crate) fn take(&mut self, what: &Ask, limits: &Limits) -> bool {
        let reports = || (limits.wall.as_millis() + MAX_OVERRUN_MS) / u128::from(PROGRESS_INTERVAL_MS) + 1;
        let (kind, most) = match what {
            Ask::Http { .. } => (0, MAX_REQUESTS),
            Ask::Log { .. } => (1, MAX_LOG_LINES.into()),
            Ask::Sandbox { .. } => (2, MAX_RUNS),
            Ask::Scan { .. } => (3, MAX_SCANS),
            Ask::Progress { .. } => (4, u64::try_from(reports()).unwrap_or(u64::MAX)),
            Ask::Config { .. }
            | Ask::ConfigKeys
            | Ask::Secret { .. }
            | Ask::KvGet { .. }
            | Ask::KvSet { .. }
            | Ask::KvDelete { .. }
            | Ask::KvSwap { .. }
            | Ask::KvKeys { .. } => (5, MAX_OTHER_QUESTIONS),
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
    fn question_kinds_have_separate_limits() {
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
