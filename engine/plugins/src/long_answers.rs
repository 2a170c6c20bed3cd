//! Answers of tools that were too long to be shown whole, for reading on. In memory, separate per caller, the
//! oldest dropped first.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hotcell_state::caller::Caller;
use hotcell_state::ids::random_hex;

/// Maximum total size of all answers, in bytes.
const MAX_TOTAL_BYTES: usize = 32 << 20;
/// Maximum number of answers per caller, so that one caller does not displace those of all others.
const MAX_CALLER_ANSWERS: usize = 8;
/// Retention of an answer.
const ANSWER_RETENTION: Duration = Duration::from_secs(3600);

/// The stored answers.
#[derive(Debug, Default)]
pub struct Kept(Mutex<VecDeque<One>>);

#[derive(Debug)]
struct One {
    id: String,
    caller: Caller,
    text: Arc<str>,
    at: Instant,
}

impl Kept {
    /// Stores an answer and returns its unguessable name; `None` when it is too large.
    pub fn keep(&self, caller: &Caller, text: &str) -> Option<String> {
        let id = format!("answer_{}", random_hex(16).ok()?);
        self.put(caller, &id, text, Instant::now()).then_some(id)
    }

    fn put(&self, caller: &Caller, id: &str, text: &str, now: Instant) -> bool {
        if text.len() > MAX_TOTAL_BYTES {
            return false;
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|one| now.saturating_duration_since(one.at) < ANSWER_RETENTION);
        let own = all.iter().filter(|one| one.caller == *caller).count();
        if own >= MAX_CALLER_ANSWERS
            && let Some(oldest) = all.iter().position(|one| one.caller == *caller)
        {
            all.remove(oldest);
        }
        let mut total: usize = all.iter().map(|one| one.text.len()).sum();
        while total + text.len() > MAX_TOTAL_BYTES {
            let Some(oldest) = all.pop_front() else { break };
            total -= oldest.text.len();
        }
        all.push_back(One { id: id.to_owned(), caller: caller.clone(), text: text.into(), at: now });
        true
    }

    /// An answer of this caller.
    #[must_use]
    pub fn get(&self, caller: &Caller, id: &str) -> Option<Arc<str>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut own = all.iter().filter(|one| one.caller == *caller && one.at.elapsed() < ANSWER_RETENTION);
        own.find(|one| one.id == id).map(|one| Arc::clone(&one.text))
    }

    /// Names of this caller's answers with their lengths, the newest first.
    #[must_use]
    pub fn list(&self, caller: &Caller) -> Vec<(String, usize)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = all.iter().rev().filter(|one| one.caller == *caller && one.at.elapsed() < ANSWER_RETENTION);
        own.map(|one| (one.id.clone(), one.text.len())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_answers_are_per_caller_and_bounded() {
        let (kept, a, b) = (Kept::default(), Caller::new("a"), Caller::new("b"));
        let id = kept.keep(&a, "text").unwrap();
        assert_eq!(kept.get(&a, &id).as_deref(), Some("text"));
        assert!(kept.get(&b, &id).is_none() && kept.list(&b).is_empty());
        let all: Vec<String> = (0..MAX_CALLER_ANSWERS).map(|_| kept.keep(&a, "x").unwrap()).collect();
        assert!(kept.get(&a, &id).is_none() && kept.get(&a, &all[0]).is_some());
        // Another caller's large answers displace only older ones.
        let large = "y".repeat(MAX_TOTAL_BYTES / 2);
        kept.keep(&b, &large).unwrap();
        let last = kept.keep(&b, &large).unwrap();
        assert!(kept.list(&a).is_empty() && kept.get(&b, &last).is_some());
        assert!(kept.keep(&b, &"z".repeat(MAX_TOTAL_BYTES + 1)).is_none());
    }

    #[test]
    fn stored_answers_expire() {
        let (kept, a) = (Kept::default(), Caller::new("a"));
        let Some(past) = Instant::now().checked_sub(ANSWER_RETENTION) else { return };
        kept.put(&a, "old", "x", past);
        assert!(kept.get(&a, "old").is_none() && kept.list(&a).is_empty());
        kept.put(&a, "new", "x", Instant::now());
        assert_eq!(kept.list(&a).len(), 1);
    }
}
