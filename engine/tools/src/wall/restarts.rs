//! How often a process that fails is replaced. Pure.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// So many failures …
pub const MOST: usize = 5;
/// … in this time …
pub const WITHIN: Duration = Duration::from_secs(60);
/// … and for so long nothing is started.
pub const PAUSE: Duration = Duration::from_secs(60);

/// The failures of one class of plugins.
#[derive(Debug, Default)]
pub struct Restarts {
    failures: VecDeque<Instant>,
    until: Option<Instant>,
    all: u64,
}

impl Restarts {
    /// A process failed: it crashed, broke the protocol, or did not start.
    pub fn failed(&mut self, now: Instant) {
        self.failures.retain(|at| now.saturating_duration_since(*at) < WITHIN);
        self.failures.push_back(now);
        self.all += 1;
        if self.failures.len() >= MOST {
            self.failures.clear();
            self.until = Some(now + PAUSE);
        }
    }

    /// How many failed since the beginning.
    pub fn all(&self) -> u64 {
        self.all
    }

    /// How long nothing is started yet; none when something may be.
    pub fn pause(&self, now: Instant) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(now)).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_failures_in_a_minute_are_followed_by_a_pause() {
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
            // After a pause it counts from the beginning.
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
