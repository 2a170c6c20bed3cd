//! The sessions of the callers of a service: unguessable handles that are valid for their caller alone, bounded in number and idle time.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use hotcell_config::SessionSettings;
use hotcell_sandbox::Spawn;
use hotcell_sandbox::units::format_duration;
use hotcell_state::caller::Caller;
use hotcell_state::ids::handle;
use hotcell_state::report::{Code, ErrorReport};
use tokio::sync::watch;

use crate::language::Language;
use crate::session::{Session, Start};

/// Time between two looks for idle sessions.
const SWEEP_INTERVAL: Duration = Duration::from_secs(15);

/// Maximum number of ended sessions whose end is remembered.
const MAX_GONE: usize = 64;
/// Time for which a session that ended while it was idle is listed.
const GONE_LISTED: Duration = Duration::from_secs(3600);
/// Maximum number of receipts that are remembered of a handle's former sessions: each reset ends one.
const MAX_RECEIPTS: usize = 32;

/// Digest of a receipt, once it was made.
type Receipt = Arc<OnceLock<String>>;

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

impl Bounds {
    /// The bounds of a configuration.
    #[must_use]
    pub const fn of(settings: &SessionSettings) -> Self {
        Self { each: settings.per_caller, all: settings.total, idle: settings.idle }
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Self::of(&SessionSettings::default())
    }
}

/// The sessions of a service.
#[derive(Debug)]
pub struct Sessions {
    table: Arc<Mutex<Table>>,
    bounds: Bounds,
}

#[derive(Debug, Default)]
struct Table {
    live: HashMap<String, Entry>,
    /// Handles that are not valid any more; the oldest first.
    gone: VecDeque<Gone>,
    /// Sessions that are not in the table any more, and whose end was not told yet.
    ending: Vec<watch::Receiver<bool>>,
}

/// A session that is not valid any more.
#[derive(Clone, Debug)]
pub struct Gone {
    /// Handle.
    pub id: String,
    /// Language.
    pub language: Language,
    /// Packages that it had, as `NAME==VERSION`.
    pub packages: Vec<String>,
    /// Number of its cells.
    pub cells: u64,
    /// Why it ended.
    pub why: String,
    /// State that was lost with it, in words.
    pub lost: Option<String>,
    /// End.
    at: Instant,
    /// Time without a cell before it.
    idle: Duration,
    caller: Caller,
    /// True for an end without a request of the caller.
    is_news: bool,
    receipts: Vec<Receipt>,
}

impl Gone {
    /// Time since its last cell.
    #[must_use]
    pub fn idle(&self) -> Duration {
        self.at.elapsed().saturating_add(self.idle)
    }
}

impl Table {
    /// Takes a session out, and remembers why. `is_news`: its caller did not ask for that.
    fn remove(&mut self, id: &str, why: String, is_news: bool) -> Option<Entry> {
        let entry = self.live.remove(id)?;
        if self.gone.len() >= MAX_GONE {
            // The oldest of the caller with most: none pushes out what others have.
            let callers: Vec<&Caller> = self.gone.iter().map(|gone| &gone.caller).collect();
            let place = oldest_of_most(&callers);
            self.gone.remove(place);
        }
        let session = entry.session.as_ref();
        self.gone.push_back(Gone {
            id: id.to_owned(),
            language: entry.start.language,
            packages: entry.start.packages.clone(),
            cells: session.map_or(0, |session| session.cells()),
            why,
            lost: session.and_then(|session| session.lost()),
            at: Instant::now(),
            idle: session.map(|session| session.idle()).unwrap_or_default(),
            caller: entry.caller.clone(),
            is_news,
            receipts: entry.receipts(),
        });
        if let Some(session) = &entry.session {
            self.await_end(session);
        }
        Some(entry)
    }

    /// Notes a session that is being ended: the end of the service waits for its receipt.
    fn await_end(&mut self, session: &Session) {
        self.ending.retain(|told| !*told.borrow());
        self.ending.push(session.told());
    }

    /// Error of a handle that is not valid. One of another caller is answered like one that never was.
    fn unknown(&self, caller: &Caller, id: &str) -> ErrorReport {
        let gone = self.gone.iter().find(|gone| gone.id == id && gone.caller == *caller);
        match gone.map(|gone| &gone.why) {
            Some(why) => ErrorReport::new(Code::UnknownName, format!("the session {id:?} is over: {why}"))
                .field("session_id")
                .hint("its variables and files are lost; session_create starts another"),
            None => unknown(id),
        }
    }
}

#[derive(Debug)]
struct Entry {
    caller: Caller,
    start: Start,
    /// `None` while it starts.
    session: Option<Arc<Session>>,
    former: Former,
}

/// Receipts of the sessions that a handle had before its resets.
#[derive(Debug, Default)]
struct Former {
    /// Number of the oldest ones, which are forgotten.
    forgotten: usize,
    /// The last ones, at most [`MAX_RECEIPTS`].
    kept: VecDeque<Receipt>,
}

impl Former {
    /// Adds one, unless it is there: a reset whose new session did not start is repeated with the old one.
    fn add(&mut self, receipt: Receipt) {
        if self.has(&receipt) {
            return;
        }
        if self.kept.len() >= MAX_RECEIPTS {
            self.kept.pop_front();
            self.forgotten += 1;
        }
        self.kept.push_back(receipt);
    }

    fn has(&self, receipt: &Receipt) -> bool {
        self.kept.iter().any(|kept| Arc::ptr_eq(kept, receipt))
    }

    /// All with `current` at the end, each at the place of its number; a forgotten one has no digest.
    fn all(&self, current: Option<Receipt>) -> Vec<Receipt> {
        let forgotten = std::iter::repeat_n(Receipt::default(), self.forgotten);
        let current = current.filter(|current| !self.has(current));
        forgotten.chain(self.kept.iter().cloned()).chain(current).collect()
    }
}

impl Entry {
    /// Receipts of all sessions of the handle, the oldest first.
    fn receipts(&self) -> Vec<Receipt> {
        self.former.all(self.session.as_ref().map(|session| session.receipt()))
    }
}

/// Place of the first one of the caller that occurs most often; 0 without any.
fn oldest_of_most(callers: &[&Caller]) -> usize {
    let mut counts: HashMap<&Caller, usize> = HashMap::new();
    callers.iter().for_each(|caller| *counts.entry(caller).or_default() += 1);
    let most = counts.values().max().copied().unwrap_or_default();
    callers.iter().position(|caller| counts.get(caller) == Some(&most)).unwrap_or_default()
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

    fn table(&self) -> MutexGuard<'_, Table> {
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
            let own = table.live.values().filter(|entry| entry.caller == *caller).count();
            if own >= self.bounds.each || table.live.len() >= self.bounds.all {
                let why = format!(
                    "there are {own} sessions of yours and {} of all callers; allowed are {} and {}",
                    table.live.len(),
                    self.bounds.each,
                    self.bounds.all
                );
                return Err(ErrorReport::new(Code::Busy, why).hint("close one with session_close"));
            }
            let (caller, start) = (caller.clone(), start.clone());
            let entry = Entry { caller, start, session: None, former: Former::default() };
            table.live.insert(id.clone(), entry);
        }
        let reserved = Reserved { sessions: self, id: Some(&id) };
        let session = Arc::new(Session::start(spawn, start).await?);
        reserved.keep();
        if !self.begin(&id, caller, &session) {
            session.close().await;
            return Err(unknown(&id));
        }
        Ok((id, session))
    }

    /// Puts a started session at its handle; false when that is not valid any more.
    fn begin(&self, id: &str, caller: &Caller, session: &Arc<Session>) -> bool {
        let mut table = self.table();
        if let Some(entry) = table.live.get_mut(id).filter(|entry| entry.caller == *caller) {
            entry.session = Some(Arc::clone(session));
            return true;
        }
        table.await_end(session);
        false
    }

    /// A session of a caller, by its handle.
    ///
    /// # Errors
    /// When no session has this handle, or another caller's has: the two are not told apart.
    pub fn get(&self, caller: &Caller, id: &str) -> Result<Arc<Session>, ErrorReport> {
        let table = self.table();
        let own = table.live.get(id).filter(|entry| entry.caller == *caller);
        own.and_then(|entry| entry.session.clone()).ok_or_else(|| table.unknown(caller, id))
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
        let start = {
            let mut table = self.table();
            let Some(entry) = table.live.get_mut(id) else { return Err(unknown(id)) };
            let start = entry.start.clone();
            entry.former.add(old.receipt());
            table.await_end(&old);
            start
        };
        old.close_for_reset().await;
        let session = Arc::new(Session::start(spawn, start).await?);
        if !self.begin(id, caller, &session) {
            // Closed meanwhile.
            session.close().await;
            return Err(unknown(id));
        }
        Ok(session)
    }

    /// A caller's sessions that ended within the last hour without its request, and have no handle any more; the oldest first.
    #[must_use]
    pub fn gone(&self, caller: &Caller) -> Vec<Gone> {
        let table = self.table();
        let own = table.gone.iter().filter(|gone| gone.caller == *caller && gone.is_news);
        own.filter(|gone| gone.at.elapsed() < GONE_LISTED).cloned().collect()
    }

    /// Digests of the receipts of a caller's sessions by handle, the oldest first: those that live and were reset, and the last ones that ended. A receipt that
    /// was not made (yet) has no digest.
    #[must_use]
    pub fn receipts(&self, caller: &Caller) -> Vec<(String, Vec<Option<String>>)> {
        let digests = |receipts: Vec<Receipt>| -> Vec<Option<String>> {
            receipts.iter().map(|receipt| receipt.get().cloned()).collect()
        };
        let table = self.table();
        let gone = table.gone.iter().filter(|gone| gone.caller == *caller);
        let gone = gone.map(|gone| (gone.id.clone(), digests(gone.receipts.clone())));
        let live = table.live.iter().filter(|(_, entry)| entry.caller == *caller);
        let live = live.map(|(id, entry)| (id.clone(), digests(entry.receipts())));
        gone.chain(live).collect()
    }

    /// A caller's sessions, those included that have ended and were not closed.
    #[must_use]
    pub fn list(&self, caller: &Caller) -> Vec<(String, Arc<Session>)> {
        let table = self.table();
        let own = table.live.iter().filter(|(_, entry)| entry.caller == *caller);
        let mut all: Vec<_> =
            own.filter_map(|(id, entry)| Some((id.clone(), entry.session.clone()?))).collect();
        all.sort_by_key(|(_, session)| session.began);
        all
    }

    /// Ends all sessions, and waits until each one's end was told, also of those that were being ended. After a call that was dropped, the next one waits for
    /// all of them again.
    pub async fn close_all(&self) {
        let mut ending = tokio::task::JoinSet::new();
        let told = {
            let mut table = self.table();
            let names: Vec<String> = table.live.keys().cloned().collect();
            for name in names {
                let entry = table.remove(&name, "the service ended".to_owned(), true);
                if let Some(session) = entry.and_then(|entry| entry.session) {
                    ending.spawn(async move { session.close().await });
                }
            }
            table.ending.clone()
        };
        while ending.join_next().await.is_some() {}
        for mut told in told {
            let _ = told.wait_for(|told| *told).await;
        }
    }

    /// Ends a session; its handle is not valid any more.
    ///
    /// # Errors
    /// As [`Sessions::get`].
    pub async fn close(&self, caller: &Caller, id: &str) -> Result<(), ErrorReport> {
        let session = self.get(caller, id)?;
        drop(self.table().remove(id, "it was closed".to_owned(), false));
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
            self.sessions.table().live.remove(id);
        }
    }
}

fn locked(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unknown(id: &str) -> ErrorReport {
    let shown: String = id.chars().take(80).collect();
    ErrorReport::new(Code::UnknownName, format!("there is no session {shown:?}"))
        .field("session_id")
        .hint("it was closed, or idle for too long; session_create starts one, session_list names yours")
}

/// Closes idle sessions, until the table is gone.
async fn sweep(table: Weak<Mutex<Table>>, idle: Duration) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL.min(idle)).await;
        let Some(table) = table.upgrade() else { return };
        let is_idle = |session: &Arc<Session>| !session.is_busy() && session.idle() > idle;
        let idle: Vec<Entry> = {
            let mut table = locked(&table);
            let names: Vec<String> = table
                .live
                .iter()
                .filter(|(_, entry)| entry.session.as_ref().is_some_and(is_idle))
                .map(|(id, _)| id.clone())
                .collect();
            let why = format!("it had no cell for {}", format_duration(idle));
            names.iter().filter_map(|name| table.remove(name, why.clone(), true)).collect()
        };
        // Dropping a session ends it.
        drop(idle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caller_with_most_ended_sessions_loses_its_oldest() {
        let [a, b, c] = ["a", "b", "c"].map(Caller::new);
        for (callers, want) in [
            (&[&a, &b, &b][..], 1),
            (&[&c, &a, &b, &a, &b, &a], 1),
            (&[&b, &a, &c], 0),
            (&[&a, &b, &b, &a], 0),
            (&[], 0),
        ] {
            assert_eq!(oldest_of_most(callers), want, "{callers:?}");
        }
    }

    #[tokio::test]
    async fn ends_are_waited_for_after_a_dropped_call() {
        let sessions = Sessions::new(Bounds::default());
        let (done, told) = watch::channel(false);
        sessions.table().ending.push(told);
        for _ in 0..2 {
            let closing = tokio::time::timeout(Duration::from_millis(1), sessions.close_all());
            assert!(closing.await.is_err(), "it waits");
        }
        done.send_replace(true);
        sessions.close_all().await;
    }

    #[test]
    fn receipts_keep_their_numbers_past_the_limit() {
        let made = |number: usize| {
            let receipt = Receipt::default();
            receipt.set(number.to_string()).expect("the first value");
            receipt
        };
        let mut former = Former::default();
        for number in 1..=MAX_RECEIPTS + 5 {
            let receipt = made(number);
            former.add(Arc::clone(&receipt));
            // A second reset of the same session, whose successor did not start.
            former.add(Arc::clone(&receipt));
            let now = former.all(Some(receipt));
            assert_eq!(now.len(), number, "the current one is there once");
            let next = former.all(Some(Receipt::default()));
            assert_eq!((next.len(), next[number].get()), (number + 1, None));
            let is_right = |(at, receipt): (usize, &Receipt)| {
                receipt.get().is_none_or(|digest| *digest == (at + 1).to_string())
            };
            assert!(next.iter().enumerate().all(is_right), "{next:?}");
            assert_eq!(next.iter().filter(|one| one.get().is_some()).count(), number.min(MAX_RECEIPTS));
        }
    }
}
