//! Sessions of callers over HTTP: their last use, and the ids of their open requests.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hotcell_server::Caller;
use rmcp::model::RequestId;

/// Minimum idle time of a session that may be ended when its caller begins more than [`super::MAX_SESSIONS`].
const MIN_SESSION_IDLE: Duration = Duration::from_secs(60);
/// Time for the response of an earlier request to end: a client that uses its id again has read the answer in it.
const ID_TIMEOUT: Duration = Duration::from_secs(1);
/// Interval at which that is looked for.
const ID_INTERVAL: Duration = Duration::from_millis(10);

/// A session, identified by an id that its caller knows.
pub(super) struct Session {
    pub(super) owner: Caller,
    /// Time of the last use. Each request and response in progress has a clone.
    pub(super) used: Arc<Mutex<Instant>>,
    /// Ids of its open requests.
    pub(super) ids: OpenIds,
    /// Whether the session is being closed, so that it no longer counts.
    pub(super) ends: bool,
}

/// Ids of requests whose responses have not ended.
pub(super) type OpenIds = Arc<Mutex<HashSet<RequestId>>>;

/// Marks a session, and the id of its request, as in use until it is dropped.
pub(super) struct InUse {
    used: Arc<Mutex<Instant>>,
    ids: OpenIds,
    id: Option<RequestId>,
}

impl InUse {
    /// Marks a session.
    pub(super) fn of(session: &Session) -> Self {
        Self { used: Arc::clone(&session.used), ids: Arc::clone(&session.ids), id: None }
    }

    /// Takes the id of a request; `false` where another one keeps it, whose answer would be lost.
    pub(super) async fn take(&mut self, id: &RequestId) -> bool {
        let until = Instant::now() + ID_TIMEOUT;
        loop {
            if self.ids.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone()) {
                self.id = Some(id.clone());
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            tokio::time::sleep(ID_INTERVAL).await;
        }
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        if let Some(id) = &self.id {
            self.ids.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        }
    }
}

impl Session {
    pub(super) fn used(&self) -> Instant {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The caller's least recently used session, if it has been idle for long enough.
pub(super) fn forgotten(
    sessions: &HashMap<String, Session>,
    caller: &Caller,
    now: Instant,
) -> Option<String> {
    let is_idle = |session: &Session| {
        Arc::strong_count(&session.used) == 1
            && !session.ends
            && now.saturating_duration_since(session.used()) >= MIN_SESSION_IDLE
    };
    let idle = sessions.iter().filter(|(_, session)| session.owner == *caller && is_idle(session));
    idle.min_by_key(|(_, session)| session.used()).map(|(id, _)| id.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_forgotten_session_is_evicted() {
        let (mine, other) = (Caller::new("mine"), Caller::new("other"));
        let now = Instant::now() + Duration::from_secs(3600);
        let ago = |seconds| now.checked_sub(Duration::from_secs(seconds)).unwrap();
        let all = [
            ("busy", &mine, 900, false),
            ("old", &mine, 600, false),
            ("older", &mine, 700, false),
            ("another's", &other, 800, false),
            ("ending", &mine, 800, true),
            ("new", &mine, MIN_SESSION_IDLE.as_secs() - 1, false),
        ];
        let mut sessions: HashMap<_, _> = all
            .into_iter()
            .map(|(id, owner, seconds, ends)| {
                let used = Arc::new(Mutex::new(ago(seconds)));
                (id.to_owned(), Session { owner: owner.clone(), used, ids: OpenIds::default(), ends })
            })
            .collect();
        let in_use = InUse::of(&sessions["busy"]);
        for want in [Some("older"), Some("old"), None] {
            let found = forgotten(&sessions, &mine, now);
            assert_eq!(found.as_deref(), want);
            found.map(|id| sessions.remove(&id));
        }
        drop(in_use);
        assert!(sessions["busy"].used() > ago(3601), "it was used until now");
        assert_eq!(forgotten(&sessions, &mine, now + MIN_SESSION_IDLE).as_deref(), Some("busy"));
    }
}
