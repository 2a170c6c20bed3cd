//! Limits the CPU time that hotcell spends on requests that a program can repeat endlessly. Pure: the caller
//! supplies the clock.
//!
//! A program with a CPU quota could consume far more than its quota by making calls that hotcell answers. So
//! the time spent on answers is charged to an account that refills at a fraction of that quota; a program
//! that overdraws it is delayed at its next such call. Honest bursts, such as a thousand connections of a
//! test, are covered by the initial balance.

use std::time::{Duration, Instant};

/// Initial and maximum balance of the account: enough for a few thousand answers.
const MAX_BALANCE: Duration = Duration::from_millis(250);
/// Fraction of a run's processors that may be spent on its answers, in addition to its quota.
const MAX_SHARE: f64 = 0.25;
/// Minimum rate, as a fraction of a processor; it keeps the delay of an answer below a tenth of a second.
const MIN_SHARE: f64 = 0.02;
/// Maximum delay, short enough that a waiting program does not look as if it hangs.
const MAX_PAUSE: Duration = Duration::from_millis(200);

/// The account of one run.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Refill rate in processors, from [`MIN_SHARE`] to [`MAX_SHARE`].
    share: f64,
    /// Balance in seconds of CPU time; negative when overdrawn.
    saved: f64,
    at: Instant,
    /// No answer is given before this time.
    until: Instant,
}

impl Pace {
    /// Opens the account of a run that may use this many processors (`None`: all of them).
    pub fn new(cpus: Option<f64>, now: Instant) -> Self {
        let share = (cpus.unwrap_or(1.0).min(1.0) * MAX_SHARE).max(MIN_SHARE);
        Self { share, saved: MAX_BALANCE.as_secs_f64(), at: now, until: now }
    }

    /// Charges CPU time for answers.
    pub fn spend(&mut self, used: Duration, now: Instant) {
        let earned = now.saturating_duration_since(self.at).as_secs_f64() * self.share;
        self.at = self.at.max(now);
        self.saved = (self.saved + earned).min(MAX_BALANCE.as_secs_f64()) - used.as_secs_f64();
        if self.saved < 0.0 {
            let pause = Duration::from_secs_f64(-self.saved / self.share).min(MAX_PAUSE);
            self.until = now + pause;
        }
    }

    /// Earliest time of the next answer; `None` for now.
    pub fn next(&self, now: Instant) -> Option<Instant> {
        (self.until > now).then_some(self.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CPU time spent in `seconds` on a program that asks without pause, at a cost of `each` per answer.
    fn flood(cpus: Option<f64>, each: Duration, seconds: u64) -> f64 {
        let start = Instant::now();
        let end = start + Duration::from_secs(seconds);
        let mut pace = Pace::new(cpus, start);
        let (mut now, mut used) = (start, Duration::ZERO);
        while now < end {
            now = pace.next(now).unwrap_or(now) + each;
            used += each;
            pace.spend(each, now);
        }
        used.as_secs_f64()
    }

    #[test]
    fn flood_uses_bounded_cpu_share() {
        for (cpus, share) in [
            (None, 0.25),
            (Some(8.0), 0.25),
            (Some(1.0), 0.25),
            (Some(0.4), 0.1),
            (Some(0.2), 0.05),
            (Some(0.01), 0.02),
        ] {
            for each in [5, 40, 300, 2500].map(Duration::from_micros) {
                for seconds in [5, 60] {
                    let used = flood(cpus, each, seconds);
                    // The first answer is given before it is paid for, and so is the one that overdraws the
                    // account.
                    let time = Duration::from_secs(seconds).as_secs_f64();
                    let most = MAX_BALANCE.as_secs_f64() + share * time + 2.0 * each.as_secs_f64();
                    assert!(used <= most + 1e-6, "{cpus:?} {each:?} {seconds} s: {used} of {most}");
                    assert!(used >= most * 0.9, "{cpus:?} {each:?} {seconds} s: only {used} of {most}");
                }
            }
        }
    }

    #[test]
    fn slow_requester_is_never_delayed() {
        let start = Instant::now();
        let mut pace = Pace::new(Some(0.2), start);
        // A burst of 5,000, then 1,000 a second for ten minutes, at 40 µs each.
        for _ in 0..5000 {
            pace.spend(Duration::from_micros(40), start);
            assert_eq!(pace.next(start), None);
        }
        let mut now = start + Duration::from_secs(5);
        for _ in 0..600_000 {
            now += Duration::from_millis(1);
            pace.spend(Duration::from_micros(40), now);
            assert_eq!(pace.next(now), None);
        }
    }

    #[test]
    fn pause_is_bounded_and_tolerates_backward_clock() {
        let start = Instant::now();
        let mut pace = Pace::new(Some(0.01), start);
        pace.spend(Duration::from_secs(100), start);
        assert_eq!(pace.next(start), Some(start + MAX_PAUSE));
        assert_eq!(pace.next(start + MAX_PAUSE), None);
        let later = start + Duration::from_secs(3600 * 24);
        pace.spend(Duration::ZERO, later);
        pace.spend(Duration::from_millis(100), start);
        assert_eq!(pace.next(later), None);
    }
}
