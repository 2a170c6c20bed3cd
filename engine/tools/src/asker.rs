//! Asks the broker on behalf of one call, and counts its requests and denials.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::ask::Refused;
use crate::mapping::text::clean;
use crate::{Ask, Broker, Reply};

/// Maximum number of denials that an answer lists. More would not help the reader.
pub(crate) const MAX_DENIALS: usize = 32;

/// Maximum length of one denial, in bytes. A longer name is a guest playing tricks.
pub(crate) const MAX_DENIAL_BYTES: usize = 256;

/// Connection of one call to the broker.
pub(crate) struct Asker {
    broker: Arc<dyn Broker>,
    call: u64,
    /// End of the call's time.
    deadline: Instant,
    pub(crate) cancel: CancellationToken,
    denied: Mutex<Vec<String>>,
}

/// Amount of something that each call may use once.
#[derive(Debug)]
pub(crate) struct Allowance(AtomicU64);

/// Slot among a limited number of simultaneous uses. Freed on drop.
pub(crate) struct Place(Arc<AtomicU32>);

impl Asker {
    pub(crate) fn new(
        broker: Arc<dyn Broker>,
        call: u64,
        deadline: Instant,
        cancel: CancellationToken,
    ) -> Self {
        Self { broker, call, deadline, cancel, denied: Mutex::default() }
    }

    /// Asks the broker, and records a denial.
    pub(crate) async fn ask(&self, ask: Ask) -> Reply {
        let reply = self.broker.ask(self.call, ask).await;
        if let Reply::Refused { why: Refused::Denied(what) } = &reply {
            let mut denied = self.denied.lock().unwrap_or_else(PoisonError::into_inner);
            let what = line(what, MAX_DENIAL_BYTES);
            if denied.len() < MAX_DENIALS && !denied.contains(&what) {
                denied.push(what);
            }
        }
        reply
    }

    /// Time left to the call.
    pub(crate) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Time left to the call in milliseconds, or `wanted` if that is less.
    pub(crate) fn milliseconds(&self, wanted: Option<Duration>) -> u64 {
        let left = self.left();
        u64::try_from(wanted.map_or(left, |wanted| wanted.min(left)).as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn denied(&self) -> Vec<String> {
        self.denied.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Allowance {
    pub(crate) fn new(amount: u64) -> Self {
        Self(AtomicU64::new(amount))
    }

    /// Takes `amount` from the allowance; `false` when less is left.
    pub(crate) fn take(&self, amount: u64) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(amount)).is_ok()
    }
}

impl Place {
    /// Takes one of `places` slots, if one is free.
    pub(crate) fn take(taken: &Arc<AtomicU32>, places: u32) -> Option<Self> {
        let more = |taken: u32| (taken < places).then(|| taken + 1);
        taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Self(Arc::clone(taken)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A guest's text as one line of at most `longest` bytes, without invisible characters.
pub(crate) fn line(text: &str, longest: usize) -> String {
    let mut line = clean(text, longest).replace(['\n', '\t'], " ");
    line.truncate(line.floor_char_boundary(longest));
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_text_becomes_one_bounded_line() {
        for (text, longest, wanted) in [
            ("plain", 10, "plain"),
            ("two\nlines\u{1b}[31m", 20, "two lines[31m"),
            ("\u{202e}backwards\u{200b}", 20, "backwards"),
            ("äöü", 5, "äö"),
            ("äöüß", 3, "ä"),
            ("", 5, ""),
        ] {
            assert_eq!(line(text, longest), wanted, "{text:?}");
        }
    }

    #[test]
    fn allowance_is_consumed_and_place_released() {
        let allowance = Allowance::new(3);
        assert!(allowance.take(2) && !allowance.take(2) && allowance.take(1) && !allowance.take(1));
        let taken = Arc::default();
        let place = Place::take(&taken, 1);
        assert!(place.is_some() && Place::take(&taken, 1).is_none());
        drop(place);
        assert!(Place::take(&taken, 1).is_some());
    }
}
