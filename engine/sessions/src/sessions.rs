//! The sessions of the callers of a service: unguessable handles that are valid for their caller alone, bounded in number and idle time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use hotcell_sandbox::Spawn;
use hotcell_state::caller::Caller;
use hotcell_state::ids::handle;
use hotcell_state::report::{Code, ErrorReport};

use crate::session::{Session, Start};

/// Time between two looks for idle sessions.
const SWEEP_INTERVAL: Duration = Duration::from_secs(15);

/// Bounds of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Sessions of one caller. Default 4.
    pub each: usize,
    /// Sessions of all callers. Default 16.
    pub all: usize,
    /// Time without a cell after which a session is closed. Default 30 minutes.
    pub idle: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { each: 4, all: 16, idle: Duration::from_secs(1800) }
    }
}

/// The sessions of a service.
#[derive(Debug)]
pub struct Sessions {
    table: Arc<Mutex<HashMap<String, Entry>>>,
    bounds: Bounds,
}

#[derive(Debug)]
struct Entry {
    caller: Caller,
    start: Start,
    /// `None` while it starts.
    session: Option<Arc<Session>>,
}

impl Sessions {
    /// No sessions yet. Needs a runtime: idle sessions are closed in the background.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        let table = Arc::default();
        tokio::spawn(sweep(Arc::downgrade(&table), bounds.idle));
        Self { table, bounds }
    }

    /// The bounds.
    #[must_use]
    pub const fn bounds(&self) -> Bounds {
        self.bounds
    }

    fn table(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        locked(&self.table)
    }

    /// Starts a session of a caller; returns its handle.
    ///
    /// # Errors
    /// [`Code::Busy`] when the caller, or all callers, have too many; otherwise as [`Session::start`].
    pub async fn create(
        &self,
        spawn: &dyn Spawn,
        caller: &Caller,
        start: Start,
    ) -> Result<(String, Arc<Session>), ErrorReport> {
        let id = handle("ses_")?;
        {
            let mut table = self.table();
            let own = table.values().filter(|entry| entry.caller == *caller).count();
            if own >= self.bounds.each || table.len() >= self.bounds.all {
                let why = format!(
                    "there are {own} sessions of yours and {} of all callers; allowed are {} and {}",
                    table.len(),
                    self.bounds.each,
                    self.bounds.all
                );
                return Err(ErrorReport::new(Code::Busy, why).hint("close one with session_close"));
            }
            let entry = Entry { caller: caller.clone(), start: start.clone(), session: None };
            table.insert(id.clone(), entry);
        }
        let reserved = Reserved { sessions: self, id: Some(&id) };
        let session = Arc::new(Session::start(spawn, start).await?);
        reserved.keep();
        match self.table().get_mut(&id) {
            Some(entry) => entry.session = Some(Arc::clone(&session)),
            None => return Err(unknown(&id)),
        }
        Ok((id, session))
    }

    /// A session of a caller, by its handle.
    ///
    /// # Errors
    /// When no session has this handle, or another caller's has: the two are not told apart.
    pub fn get(&self, caller: &Caller, id: &str) -> Result<Arc<Session>, ErrorReport> {
        let table = self.table();
        let own = table.get(id).filter(|entry| entry.caller == *caller);
        own.and_then(|entry| entry.session.clone()).ok_or_else(|| unknown(id))
    }

    /// Begins a session again, empty, under its handle.
    ///
    /// # Errors
    /// As [`Sessions::get`] and [`Session::start`]; if it does not start, the old one is closed.
    pub async fn reset(
        &self,
        spawn: &dyn Spawn,
        caller: &Caller,
        id: &str,
    ) -> Result<Arc<Session>, ErrorReport> {
        let old = self.get(caller, id)?;
        let start = match self.table().get(id) {
            Some(entry) => entry.start.clone(),
            None => return Err(unknown(id)),
        };
        old.close().await;
        let session = Arc::new(Session::start(spawn, start).await?);
        match self.table().get_mut(id).filter(|entry| entry.caller == *caller) {
            Some(entry) => entry.session = Some(Arc::clone(&session)),
            // Closed meanwhile.
            None => return Err(unknown(id)),
        }
        Ok(session)
    }

    /// A caller's sessions, those included that have ended and were not closed.
    #[must_use]
    pub fn list(&self, caller: &Caller) -> Vec<(String, Arc<Session>)> {
        let table = self.table();
        let own = table.iter().filter(|(_, entry)| entry.caller == *caller);
        let mut all: Vec<_> =
            own.filter_map(|(id, entry)| Some((id.clone(), entry.session.clone()?))).collect();
        all.sort_by_key(|(_, session)| session.began);
        all
    }

    /// Ends a session; its handle is not valid any more.
    ///
    /// # Errors
    /// As [`Sessions::get`].
    pub async fn close(&self, caller: &Caller, id: &str) -> Result<(), ErrorReport> {
        let session = self.get(caller, id)?;
        self.table().remove(id);
        session.close().await;
        Ok(())
    }
}

/// Place of a session that starts; given up when it does not.
struct Reserved<'a> {
    sessions: &'a Sessions,
    id: Option<&'a str>,
}

impl Reserved<'_> {
    fn keep(mut self) {
        self.id = None;
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.sessions.table().remove(id);
        }
    }
}

fn locked(table: &Mutex<HashMap<String, Entry>>) -> MutexGuard<'_, HashMap<String, Entry>> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unknown(id: &str) -> ErrorReport {
    let shown: String = id.chars().take(80).collect();
    ErrorReport::new(Code::UnknownName, format!("there is no session {shown:?}"))
        .field("session_id")
        .hint("it was closed, or idle for too long; session_create starts one, session_list names yours")
}

/// Closes idle sessions, until the table is gone.
async fn sweep(table: Weak<Mutex<HashMap<String, Entry>>>, idle: Duration) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL.min(idle)).await;
        let Some(table) = table.upgrade() else { return };
        let is_idle = |session: &Arc<Session>| !session.is_busy() && session.idle() > idle;
        let idle: Vec<Entry> = {
            let mut table = locked(&table);
            let names: Vec<String> = table
                .iter()
                .filter(|(_, entry)| entry.session.as_ref().is_some_and(is_idle))
                .map(|(id, _)| id.clone())
                .collect();
            names.iter().filter_map(|name| table.remove(name)).collect()
        };
        // Dropping a session ends it.
        drop(idle);
    }
}
