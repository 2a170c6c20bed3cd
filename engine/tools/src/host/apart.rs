//! Plugins that were running when the process that they share failed. Pure.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Time for which such a plugin gets a process of its own.
pub const SEPARATION_PERIOD: Duration = Duration::from_secs(600);

/// Plugins that are kept apart, each with the time of its last failure.
#[derive(Debug, Default)]
pub struct Apart(HashMap<String, Instant>);

impl Apart {
    /// Records that the shared process failed during a call of this plugin.
    pub fn failed(&mut self, plugin: &str, now: Instant) {
        self.0.insert(plugin.to_owned(), now);
    }

    /// Whether the plugin still needs a process of its own. Removes expired entries.
    pub fn keeps(&mut self, plugin: &str, now: Instant) -> bool {
        self.0.retain(|_, since| now.saturating_duration_since(*since) < SEPARATION_PERIOD);
        self.0.contains_key(plugin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspect_components_are_isolated_for_ten_minutes() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        for (failures, asked, keeps) in [
            (&[][..], 0, false),
            (&[("a", 0)], 0, true),
            (&[("a", 0)], 599, true),
            (&[("a", 0)], 600, false),
            (&[("b", 0)], 1, false),
            // The last failure counts.
            (&[("a", 0), ("a", 300)], 899, true),
            (&[("a", 0), ("a", 300)], 900, false),
        ] {
            let mut apart = Apart::default();
            failures.iter().for_each(|(plugin, seconds)| apart.failed(plugin, at(*seconds)));
            assert_eq!(apart.keeps("a", at(asked)), keeps, "{failures:?} at {asked}");
        }
        let mut apart = Apart::default();
        apart.failed("b", at(0));
        assert!(!apart.keeps("a", at(700)) && apart.0.is_empty(), "nobody is remembered for ever");
    }
}
