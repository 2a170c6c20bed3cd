//! Limits how often a failing process is replaced. Pure.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Number of failures that causes a pause.
pub const MAX_FAILURES: usize = 5;
/// Period in which these failures are counted.
pub const FAILURE_PERIOD: Duration = Duration::from_secs(60);
/// Delay after these failures until a process is started again.
pub const RESTART_DELAY: Duration = Duration::from_secs(60);

/// Failures of one class of plugins.
#[derive(Debug, Default)]
pub struct Restarts {
    failures: VecDeque<Instant>,
    until: Option<Instant>,
    all: u64,
}

impl Restarts {
    /// Records a failure: the process crashed, broke the protocol, or did not start.
    pub fn failed(&mut self, now: Instant) {
        self.failures.retain(|at| now.saturating_duration_since(*at) < FAILURE_PERIOD);
        self.failures.push_back(now);
        self.all += 1;
        if self.failures.len() >= MAX_FAILURES {
            self.failures.clear();
            self.until = Some(now + RESTART_DELAY);
        }
    }

    /// Number of failures since the beginning.
    pub fn all(&self) -> u64 {
        self.all
    }

    /// Rest of the pause; `None` when a process may be started.
    pub fn pause(&self, now: Instant) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(now)).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_failures_per_minute_cause_pause() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        for (failures, asked, pause) in [
            (&[][..], 0, None),
            (&[0, 1, 2, 3], 3, None),
            (&[0, 1, 2, 3, 4], 4, Some(60)),
            (&[0, 1, 2, 3, 4], 34, Some(30)),
            (&[0, 1, 2, 3, 4], 64, None),
            (&[0, 10, 20, 30, 60], 60, None),
            (&[0, 10, 20, 30, 59], 59, Some(60)),
            // After a pause counting starts over.
            (&[0, 1, 2, 3, 4, 65, 66, 67, 68], 68, None),
            (&[0, 1, 2, 3, 4, 65, 66, 67, 68, 69], 69, Some(60)),
        ] {
            let mut restarts = Restarts::default();
            for failure in failures {
                restarts.failed(at(*failure));
            }
            assert_eq!(restarts.pause(at(asked)), pause.map(Duration::from_secs), "{failures:?} at {asked}");
        }
    }
}
