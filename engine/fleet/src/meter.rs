//! Counts and times of a worker for its operator: never contents, and no names from a farm.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tonic::Code;

/// Words for the ends of actions, in order of output.
pub const RESULTS: [&str; 10] = [
    "succeeded",
    "failed",
    "limit",
    "lost",
    "cancelled",
    "quarantined",
    "refused",
    "missing",
    "unavailable",
    "internal",
];

/// The word for the end of an action, from its status and its exit code.
#[must_use]
pub const fn word(code: Code, exit_code: Option<i32>) -> &'static str {
    match (code, exit_code) {
        (Code::Ok, Some(0)) => "succeeded",
        (Code::Ok, Some(124)) | (Code::DeadlineExceeded, _) => "limit",
        (Code::Ok, _) => "failed",
        (Code::Aborted, _) => "lost",
        (Code::Cancelled, _) => "cancelled",
        (Code::PermissionDenied, _) => "quarantined",
        (Code::InvalidArgument, _) => "refused",
        (Code::FailedPrecondition, _) => "missing",
        (Code::Unavailable, _) => "unavailable",
        _ => "internal",
    }
}

#[derive(Debug, Default)]
struct Now {
    running: BTreeMap<String, Instant>,
    results: BTreeMap<&'static str, u64>,
    taken_back: u64,
    seconds: f64,
    answered: Option<Instant>,
    draining: bool,
}

/// Counts and times, as they are now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// Actions that run.
    pub running: usize,
    /// Time since the oldest of them was taken.
    pub oldest: Option<Duration>,
    /// Actions that ended, by [`RESULTS`].
    pub results: Vec<(&'static str, u64)>,
    /// Leases that the farm took back.
    pub taken_back: u64,
    /// Time of all ended actions together, from lease to answer.
    pub seconds: f64,
    /// Time since the farm's last answer; `None` before the first.
    pub silent: Option<Duration>,
    /// The worker takes no more leases.
    pub draining: bool,
}

/// Counts and times of a worker.
#[derive(Debug, Default)]
pub struct Meter(Mutex<Now>);

impl Meter {
    fn now(&self, change: impl FnOnce(&mut Now)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Notes that an action was taken.
    pub fn begun(&self, id: &str) {
        self.now(|now| {
            now.running.insert(id.to_owned(), Instant::now());
        });
    }

    /// Notes the end of an action.
    pub fn ended(&self, id: &str, code: Code, exit_code: Option<i32>) {
        self.now(|now| {
            if let Some(since) = now.running.remove(id) {
                now.seconds += since.elapsed().as_secs_f64();
            }
            *now.results.entry(word(code, exit_code)).or_default() += 1;
        });
    }

    /// Notes that the farm took a lease back.
    pub fn taken_back(&self) {
        self.now(|now| now.taken_back += 1);
    }

    /// Notes an answer of the farm.
    pub fn answered(&self) {
        self.now(|now| now.answered = Some(Instant::now()));
    }

    /// Notes that no more leases are taken.
    pub fn drains(&self) {
        self.now(|now| now.draining = true);
    }

    /// Counts and times, as they are now.
    #[must_use]
    pub fn read(&self) -> Reading {
        let now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Reading {
            running: now.running.len(),
            oldest: now.running.values().min().map(Instant::elapsed),
            results: RESULTS.map(|word| (word, now.results.get(word).copied().unwrap_or(0))).to_vec(),
            taken_back: now.taken_back,
            seconds: now.seconds,
            silent: now.answered.as_ref().map(Instant::elapsed),
            draining: now.draining,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_have_words() {
        for (code, exit_code, want) in [
            (Code::Ok, Some(0), "succeeded"),
            (Code::Ok, Some(3), "failed"),
            (Code::Ok, Some(124), "limit"),
            (Code::DeadlineExceeded, Some(124), "limit"),
            (Code::Aborted, None, "lost"),
            (Code::Cancelled, None, "cancelled"),
            (Code::Unavailable, None, "unavailable"),
            (Code::Internal, None, "internal"),
            (Code::DataLoss, None, "internal"),
        ] {
            assert_eq!(word(code, exit_code), want, "{code:?} {exit_code:?}");
            assert!(RESULTS.contains(&want));
        }
        let meter = Meter::default();
        meter.begun("a");
        meter.begun("b");
        meter.ended("a", Code::Ok, Some(0));
        let reading = meter.read();
        assert_eq!((reading.running, reading.results[0], reading.silent), (1, ("succeeded", 1), None));
        assert!(reading.oldest.is_some());
    }
}
