//! Pauses between attempts, a pure function. An attempt is repeated only for a reason that passes by itself: 429, 5xx, no connection.

use std::time::{Duration, SystemTime};

/// Pauses: 1 s, doubled each time, at most 256 s, and 10 minutes in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// First pause.
    pub base: Duration,
    /// Longest pause that is not the server's own wish.
    pub cap: Duration,
    /// Time after the first attempt in which the last one has to begin.
    pub ceiling: Duration,
    /// Maximum number of attempts while another provider could be asked.
    pub attempts_before_fallback: u32,
    /// Longest pause while another provider could be asked.
    pub pause_before_fallback: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            base: Duration::from_secs(1),
            cap: Duration::from_secs(256),
            ceiling: Duration::from_secs(600),
            // Pauses of 1 s and 2 s outlast a short overload; a person who waits is better served by the next provider then.
            attempts_before_fallback: 3,
            pause_before_fallback: Duration::from_secs(5),
        }
    }
}

/// Situation after a failed attempt that may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct After {
    /// Number of failed attempts, at least 1.
    pub failed: u32,
    /// Time since the first attempt began.
    pub elapsed: Duration,
    /// Time until the deadline.
    pub remaining: Duration,
    /// Pause that the server asked for.
    pub retry_after: Option<Duration>,
    /// Another provider could be asked.
    pub has_fallback: bool,
}

impl Backoff {
    /// The pause before the next attempt; `None` when there is no next one. The server's wish is never shortened: a pause that does not fit
    /// into the time left ends the attempts at once.
    #[must_use]
    pub fn pause(&self, after: After) -> Option<Duration> {
        if after.has_fallback && after.failed >= self.attempts_before_fallback {
            return None;
        }
        let doubled = self.base.saturating_mul(2_u32.saturating_pow(after.failed.saturating_sub(1)));
        let pause = doubled.min(self.cap).max(after.retry_after.unwrap_or_default());
        let fits = after.elapsed.saturating_add(pause) < self.ceiling && pause < after.remaining;
        let waits = !after.has_fallback || pause <= self.pause_before_fallback;
        (fits && waits).then_some(pause)
    }
}

/// Share of the time left that the next of `providers` may use: all alike, and time that one does not use is left to the others.
#[must_use]
pub fn share(remaining: Duration, providers: usize) -> Duration {
    remaining / u32::try_from(providers.max(1)).unwrap_or(u32::MAX)
}

/// A `Retry-After` header: seconds, or a date (RFC 9110, section 10.2.3). `None` for another text.
#[must_use]
pub fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<u32>() {
        return Some(Duration::from_secs(seconds.into()));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn pauses_double_up_to_cap_and_ceiling() {
        let backoff = Backoff::default();
        let (mut elapsed, mut pauses) = (Duration::ZERO, Vec::new());
        for failed in 1.. {
            let after =
                After { failed, elapsed, remaining: s(10_000), retry_after: None, has_fallback: false };
            let Some(pause) = backoff.pause(after) else { break };
            pauses.push(pause.as_secs());
            elapsed += pause;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256]);
        assert!(elapsed < backoff.ceiling);
        let late =
            After { failed: 40, elapsed: s(1), remaining: s(10_000), retry_after: None, has_fallback: false };
        assert_eq!(backoff.pause(late), Some(s(256)));
    }

    #[test]
    fn pauses_fit_deadline_wishes_and_fallbacks() {
        let after =
            After { failed: 1, elapsed: s(0), remaining: s(60), retry_after: None, has_fallback: false };
        for (after, want) in [
            (after, Some(s(1))),
            (After { retry_after: Some(s(30)), ..after }, Some(s(30))),
            (After { retry_after: Some(s(0)), ..after }, Some(s(1))),
            (After { retry_after: Some(s(60)), ..after }, None),
            (After { retry_after: Some(s(599)), remaining: s(900), ..after }, Some(s(599))),
            (After { retry_after: Some(s(600)), remaining: s(900), ..after }, None),
            (After { elapsed: s(599), remaining: s(900), ..after }, None),
            (After { remaining: s(1), ..after }, None),
            (After { has_fallback: true, failed: 2, ..after }, Some(s(2))),
            (After { has_fallback: true, failed: 3, ..after }, None),
            (After { has_fallback: true, retry_after: Some(s(5)), ..after }, Some(s(5))),
            (After { has_fallback: true, retry_after: Some(s(6)), ..after }, None),
        ] {
            assert_eq!(Backoff::default().pause(after), want, "{after:?}");
        }
        assert_eq!((share(s(60), 3), share(s(60), 1), share(s(60), 0)), (s(20), s(60), s(60)));
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + s(1_700_000_000);
        for (text, want) in [
            ("7", Some(s(7))),
            (" 0 ", Some(s(0))),
            ("Tue, 14 Nov 2023 22:13:50 GMT", Some(s(30))),
            ("Tue, 14 Nov 2023 22:00:00 GMT", Some(s(0))),
            ("-1", None),
            ("soon", None),
            ("99999999999999", None),
            ("", None),
        ] {
            assert_eq!(retry_after(text, now), want, "{text}");
        }
    }
}
