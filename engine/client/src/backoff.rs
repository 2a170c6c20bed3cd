//! Delays between attempts to connect. Pure.

use std::time::Duration;

/// Lifetime after which a connection counts as good: the delays begin anew behind it. Without it, a server that ends right after each start would be
/// started every second for ever.
pub const GOOD_LIFETIME: Duration = Duration::from_secs(60);

/// Delays that double up to a maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Delay before the first attempt.
    pub first: Duration,
    /// Maximum of a delay.
    pub longest: Duration,
}

impl Default for Backoff {
    /// 1 s, doubled up to 30 s.
    fn default() -> Self {
        Self { first: Duration::from_secs(1), longest: Duration::from_secs(30) }
    }
}

impl Backoff {
    /// Delay before an attempt, which are counted from 0.
    #[must_use]
    pub fn delay(&self, attempt: u32) -> Duration {
        self.first.saturating_mul(2_u32.saturating_pow(attempt)).min(self.longest)
    }
}

/// Number of the next attempt behind a connection that lasted for a time, and whose own number was `attempt`.
#[must_use]
pub fn behind(attempt: u32, lasted: Duration) -> u32 {
    if lasted >= GOOD_LIFETIME { 0 } else { attempt }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_thirty_seconds() {
        let backoff = Backoff::default();
        let seconds: Vec<_> = (0..8).map(|attempt| backoff.delay(attempt).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 30, 30, 30]);
        for attempt in [31, 32, 1000, u32::MAX] {
            assert_eq!(backoff.delay(attempt), Duration::from_secs(30), "{attempt}");
        }
        let none = Backoff { first: Duration::ZERO, longest: Duration::from_secs(1) };
        assert_eq!(none.delay(u32::MAX), Duration::ZERO);
    }

    #[test]
    fn delays_begin_anew_behind_a_good_connection_only() {
        for (attempt, lasted, want) in [(0, 0, 0), (3, 0, 3), (3, 59, 3), (3, 60, 0), (9, 86_400, 0)] {
            assert_eq!(behind(attempt, Duration::from_secs(lasted)), want, "{attempt} {lasted}");
        }
    }
}
