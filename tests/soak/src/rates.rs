//! Durations of calls: percentiles by the nearest rank.

use std::fmt;
use std::time::Duration;

/// Durations of calls.
#[derive(Clone, Debug, Default)]
pub struct Times(Vec<Duration>);

impl Times {
    /// Adds a duration.
    pub fn add(&mut self, took: Duration) {
        self.0.push(took);
    }

    /// Adds all durations of another.
    pub fn join(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The duration that `percent` of all do not exceed; zero without any durations.
    pub fn at(&self, percent: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent).div_ceil(100);
        sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p95, p99] = [50, 95, 99].map(|percent| self.at(percent).as_secs_f64() * 1000.0);
        write!(f, "{} calls, p50 {p50:.1} ms, p95 {p95:.1} ms, p99 {p99:.1} ms", self.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let mut times = Times::default();
        assert_eq!(times.at(99), Duration::ZERO);
        (1..=200).rev().for_each(|n| times.add(Duration::from_millis(n)));
        let at = [0, 1, 50, 99, 100].map(|percent| times.at(percent).as_millis());
        assert_eq!(at, [1, 2, 100, 198, 200]);
    }
}
