//! Asks the broker on behalf of one call, and keeps count of what it asked and what it was denied.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::ask::Refused;
use crate::mapping::text::clean;
use crate::{Ask, Broker, Reply};

/// Denials that an answer lists. More are of no use to whoever reads it.
pub(crate) const DENIED: usize = 32;

/// Bytes of one denial. Longer names come from a guest that plays.
pub(crate) const DENIAL: usize = 256;

/// One call's way to the broker.
pub(crate) struct Asker {
    broker: Arc<dyn Broker>,
    call: u64,
    /// When the call's time is up.
    deadline: Instant,
    pub(crate) cancel: CancellationToken,
    denied: Mutex<Vec<String>>,
}

/// So many of something, once for each call.
#[derive(Debug)]
pub(crate) struct Allowance(AtomicU64);

/// So many of something at the same time. Given back when it is dropped.
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

    /// Asks, and notes what was denied.
    pub(crate) async fn ask(&self, ask: Ask) -> Reply {
        let reply = self.broker.ask(self.call, ask).await;
        if let Reply::Refused { why: Refused::Denied(what) } = &reply {
            let mut denied = self.denied.lock().unwrap_or_else(PoisonError::into_inner);
            let what = line(what, DENIAL);
            if denied.len() < DENIED && !denied.contains(&what) {
                denied.push(what);
            }
        }
        reply
    }

    /// What is left of the call's time.
    pub(crate) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// The same in milliseconds, or less when less is wanted.
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

    /// Takes so much, if there is so much.
    pub(crate) fn take(&self, amount: u64) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(amount)).is_ok()
    }
}

impl Place {
    /// A place among so many, if one is free.
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

/// A text of a guest's as one line of at most so many bytes, with nothing in it that is not seen.
pub(crate) fn line(text: &str, longest: usize) -> String {
    let mut line = clean(text, longest).replace(['\n', '\t'], " ");
    line.truncate(line.floor_char_boundary(longest));
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line() {
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
    fn an_allowance_is_used_up_and_a_place_comes_back() {
        let allowance = Allowance::new(3);
        assert!(allowance.take(2) && !allowance.take(2) && allowance.take(1) && !allowance.take(1));
        let taken = Arc::default();
        let place = Place::take(&taken, 1);
        assert!(place.is_some() && Place::take(&taken, 1).is_none());
        drop(place);
        assert!(Place::take(&taken, 1).is_some());
    }
}
