//! Limits how often a client is asked for approvals without a yes: users who are asked too often approve
//! anything.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hotcell_server::Caller;

/// Time for which an unsuccessful question counts.
const QUESTION_RETENTION: Duration = Duration::from_secs(3600);
/// Maximum number of unsuccessful questions to one caller's client, and of those about the same approval.
const MAX_QUESTIONS: usize = 10;
const MAX_APPROVAL_QUESTIONS: usize = 3;

/// Times and approvals of the questions to a client, the latest last.
type Questions = VecDeque<(Instant, String)>;

/// Questions that were not answered with yes, or not yet. A yes clears those of its caller, since it shows
/// that a user is present.
#[derive(Debug, Default)]
pub(crate) struct PromptLimiter(Mutex<HashMap<Caller, Questions>>);

impl PromptLimiter {
    fn asked(&self) -> MutexGuard<'_, HashMap<Caller, Questions>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a caller's client may be asked for this approval now; if so, the question is counted.
    pub fn may(&self, caller: &Caller, approval: &str, now: Instant) -> bool {
        let mut asked = self.asked();
        asked.retain(|_, questions| {
            questions.retain(|(at, _)| now.saturating_duration_since(*at) < QUESTION_RETENTION);
            !questions.is_empty()
        });
        let questions = asked.entry(caller.clone()).or_default();
        let of_one = questions.iter().filter(|(_, id)| id == approval).count();
        let may = questions.len() < MAX_QUESTIONS && of_one < MAX_APPROVAL_QUESTIONS;
        if may {
            questions.push_back((now, approval.to_owned()));
        }
        may
    }

    /// Clears the questions of a caller after a yes.
    pub fn not(&self, caller: &Caller) {
        self.asked().remove(caller);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unanswered_prompts_are_limited_for_caller() {
        let (vain, now) = (PromptLimiter::default(), Instant::now());
        let (me, you) = (Caller::new("me"), Caller::new("you"));
        let asked = |caller, id: &str, after| vain.may(caller, id, now + Duration::from_secs(after));
        assert_eq!([0, 1, 2, 3].map(|after| asked(&me, "a", after)), [true, true, true, false]);
        // An equal request in other words is another approval, so the total is limited too.
        let others = (0..20).filter(|n| asked(&me, &format!("b{n}"), 10)).count();
        assert_eq!(others, MAX_QUESTIONS - MAX_APPROVAL_QUESTIONS);
        assert!(asked(&you, "a", 11), "another caller's client");
        assert!(asked(&me, "a", 3601), "the first of them is long ago");
        vain.not(&me);
        assert!(asked(&me, "c", 3602));
    }
}
