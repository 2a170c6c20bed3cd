//! Choice of a process for a call: the one of its session, else the least busy. The decision is pure.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Maximum number of sessions that are remembered for a server.
const MAX_SESSIONS: usize = 4096;
/// Time after its last call when a session is forgotten.
const SESSION_LIFETIME: Duration = Duration::from_secs(3600);

/// Process for a call, among the number of open calls of each; `None` marks one that is not connected. `own` is the one that the session had before.
pub fn choose(open: &[Option<usize>], own: Option<usize>) -> Option<usize> {
    if let Some(own) = own.filter(|own| open.get(*own).is_some_and(Option::is_some)) {
        return Some(own);
    }
    let ready = open.iter().enumerate().filter_map(|(at, calls)| calls.map(|calls| (calls, at)));
    ready.min().map(|(_, at)| at)
}

/// Processes of sessions.
#[derive(Debug, Default)]
pub struct Sessions(HashMap<String, (usize, Instant)>);

impl Sessions {
    /// Process of a session.
    pub fn of(&self, session: &str) -> Option<usize> {
        self.0.get(session).map(|(at, _)| *at)
    }

    /// Remembers the process of a session, and forgets old sessions when there are too many.
    pub fn keep(&mut self, session: &str, at: usize, now: Instant) {
        if self.0.len() >= MAX_SESSIONS && !self.0.contains_key(session) {
            self.0.retain(|_, (_, used)| now.duration_since(*used) < SESSION_LIFETIME);
            if self.0.len() >= MAX_SESSIONS {
                let oldest = self.0.iter().min_by_key(|(_, (_, used))| *used).map(|(name, _)| name.clone());
                oldest.map(|name| self.0.remove(&name));
            }
        }
        self.0.insert(session.to_owned(), (at, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_go_to_the_process_of_their_session_else_the_least_busy() {
        for (open, own, want) in [
            (&[Some(0), Some(0)][..], None, Some(0)),
            (&[Some(3), Some(1), Some(2)], None, Some(1)),
            (&[Some(3), Some(1)], Some(0), Some(0)),
            (&[None, Some(9)], Some(0), Some(1)),
            (&[None, Some(9)], None, Some(1)),
            (&[Some(1)], Some(7), Some(0)),
            (&[None, None], Some(1), None),
            (&[], None, None),
        ] {
            assert_eq!(choose(open, own), want, "{open:?} {own:?}");
        }
    }

    #[test]
    fn remembered_sessions_are_bounded() {
        let mut sessions = Sessions::default();
        let begin = Instant::now();
        for number in 0..=MAX_SESSIONS {
            sessions.keep(&number.to_string(), number, begin + Duration::from_millis(number as u64));
        }
        assert_eq!((sessions.0.len(), sessions.of("0"), sessions.of("1")), (MAX_SESSIONS, None, Some(1)));
    }
}
