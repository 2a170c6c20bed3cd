//! Rate limiter: a burst at first, then a steady rate. Pure: the caller supplies the clock.
//!
//! Each connection and each question costs this process CPU time, which the program's own CPU limit does not
//! cover.

use std::time::{Duration, Instant};

/// Limit of a burst and of the rate after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Number of events in a burst.
    pub at_once: u32,
    /// Number of events per second after the burst.
    pub per_second: u32,
}

/// State of a rate limiter.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    rate: Rate,
    /// Time at which the whole burst would be available again without further events.
    full: Instant,
}

impl Pace {
    /// A limiter with the whole burst available.
    pub fn new(rate: Rate, now: Instant) -> Self {
        Self { rate, full: now }
    }

    /// Registers an event, and returns how long it has to wait before it is served. Each event gets its own
    /// slot, so that no two wait for the same moment.
    pub fn come(&mut self, now: Instant) -> Duration {
        let each = Duration::from_secs(1) / self.rate.per_second.max(1);
        self.full = self.full.max(now) + each;
        self.full.saturating_duration_since(now).saturating_sub(each * self.rate.at_once.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { at_once: 2000, per_second: 200 };

    #[test]
    fn flood_is_served_at_rate() {
        for rate in [RATE, Rate { at_once: 1, per_second: 5 }, Rate { at_once: 10, per_second: 1000 }] {
            let start = Instant::now();
            let mut pace = Pace::new(rate, start);
            let (mut now, mut served) = (start, 0);
            while now < start + Duration::from_secs(60) {
                now += pace.come(now);
                served += 1;
            }
            let most = u64::from(rate.at_once) + 60 * u64::from(rate.per_second);
            assert!((most..=most + 2).contains(&served), "{rate:?}: {served} of {most}");
        }
    }

    #[test]
    fn infrequent_requests_never_wait() {
        let start = Instant::now();
        let mut pace = Pace::new(RATE, start);
        let mut now = start;
        for _ in 0..2000 {
            assert_eq!(pace.come(now), Duration::ZERO);
        }
        now += Duration::from_secs(10);
        for _ in 0..10_000 {
            now += Duration::from_millis(5);
            assert_eq!(pace.come(now), Duration::ZERO);
        }
    }

    #[test]
    fn waiting_requests_are_served_in_order() {
        let now = Instant::now();
        let mut pace = Pace::new(Rate { at_once: 2, per_second: 10 }, now);
        let waits: Vec<u128> = (0..5).map(|_| pace.come(now).as_millis()).collect();
        assert_eq!(waits, [0, 0, 100, 200, 300]);
    }
}
