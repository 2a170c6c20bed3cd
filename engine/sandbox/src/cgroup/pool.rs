//! Makes groups ahead of time and removes used ones: one background thread does both.
//!
//! A group is taken once and never returned: its memory stays charged until the last file on its scratch is
//! gone, and a reused group would carry that over. Pooled groups have never held a process.
//!
//! The kernel refuses to remove a group while a process in it is still dying, so removal is retried with
//! growing pauses until it succeeds or [`REMOVAL_TIMEOUT`] has passed. No caller waits for that, except the end
//! of [`super::Cgroups`], for at most [`DROP_TIMEOUT`].

use std::io::{self, ErrorKind};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::leftovers::Owner;

use super::backend::{Made, Place};

/// Initial delay before removal is retried; it doubles up to [`MAX_RETRY_DELAY`].
const INITIAL_RETRY_DELAY: Duration = Duration::from_micros(500);
const MAX_RETRY_DELAY: Duration = Duration::from_millis(200);
/// Time limit for a process to end: after it, the process hangs in the kernel, and the next start removes its
/// group.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum time that dropping [`super::Cgroups`], or the last group after it, waits for removals.
const DROP_TIMEOUT: Duration = Duration::from_secs(1);
/// Back-off after a failure to make a group ahead; a caller who needs one meanwhile makes it and gets the
/// error.
const FAILURE_BACKOFF: Duration = Duration::from_secs(1);
/// Maximum number of attempts: another process may remove a `hotcell` folder between its creation and its
/// use.
const MAX_ATTEMPTS: usize = 16;

/// State shared by [`super::Cgroups`], its groups and the thread.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) place: Place,
    owner: Owner,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    ready: Vec<Made>,
    /// Number of groups to keep ready.
    wanted: usize,
    not_before: Option<Instant>,
    dying: Vec<Dying>,
    /// Number of groups that the thread has taken out of `dying`.
    in_hand: usize,
    stopping: bool,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Dying {
    made: Made,
    since: Instant,
    next_try: Instant,
    pause: Duration,
}

impl Pool {
    /// Makes a pool that holds `first` and makes no more until [`Pool::keep_ready`].
    pub(super) fn new(place: Place, owner: Owner, first: Made) -> Arc<Self> {
        let state = State { ready: vec![first], ..State::default() };
        Arc::new(Self { place, owner, state: Mutex::new(state), changed: Condvar::new() })
    }

    /// Keeps `count` groups ready from now on.
    pub(super) fn keep_ready(self: &Arc<Self>, count: usize) {
        let mut state = self.lock();
        state.wanted = count;
        self.wake_thread(&mut state);
    }

    /// Number of groups that are ready.
    pub(super) fn ready(&self) -> usize {
        self.lock().ready.len()
    }

    /// Number of used groups that are not removed yet.
    pub(super) fn pending(&self) -> usize {
        let state = self.lock();
        state.dying.len() + state.in_hand
    }

    /// Takes a group that has never been used: a ready one, otherwise a new one.
    pub(super) fn take(&self) -> io::Result<Made> {
        let mut state = self.lock();
        let ready = state.ready.pop();
        if state.ready.len() < state.wanted {
            self.changed.notify_all();
        }
        drop(state);
        match ready {
            Some(made) => Ok(made),
            None => make(&self.place, &self.owner),
        }
    }

    /// Kills the remaining processes of a group and removes it, now or later.
    pub(super) fn discard(self: &Arc<Self>, mut made: Made) {
        let mut state = self.lock();
        if !state.stopping {
            let now = Instant::now();
            state.dying.push(Dying { made, since: now, next_try: now, pause: INITIAL_RETRY_DELAY });
            if self.wake_thread(&mut state) {
                return;
            }
            // No thread can be started: remove the group right here.
            let Some(last) = state.dying.pop() else {
                return;
            };
            made = last.made;
        }
        drop(state);
        if let Err(e) = remove_within(&mut made, DROP_TIMEOUT) {
            tracing::warn!("a cgroup is left for the next start to remove: {e}");
        }
        self.place.remove_bases();
    }

    /// Ends the thread, removes ready groups, and waits a bounded time for ongoing removals.
    pub(super) fn stop(&self) {
        let thread = {
            let mut state = self.lock();
            state.stopping = true;
            self.changed.notify_all();
            state.thread.take()
        };
        if let Some(thread) = thread {
            let _ = thread.join();
        }
        let (ready, dying) = {
            let mut state = self.lock();
            (mem::take(&mut state.ready), mem::take(&mut state.dying))
        };
        let deadline = Instant::now() + DROP_TIMEOUT;
        for mut made in ready.into_iter().chain(dying.into_iter().map(|d| d.made)) {
            let left = deadline.saturating_duration_since(Instant::now());
            if let Err(e) = remove_within(&mut made, left) {
                tracing::warn!("a cgroup is left for the next start to remove: {e}");
            }
        }
        self.place.remove_bases();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the thread, starting it if needed; `false` if it cannot be started.
    fn wake_thread(self: &Arc<Self>, state: &mut State) -> bool {
        if state.thread.is_none() {
            let pool = Arc::clone(self);
            let name = "hotcell-cgroups".to_owned();
            match thread::Builder::new().name(name).spawn(move || pool.work()) {
                Ok(thread) => state.thread = Some(thread),
                Err(e) => {
                    tracing::warn!("cannot start the thread that removes cgroups: {e}");
                    return false;
                }
            }
        }
        self.changed.notify_all();
        true
    }

    /// The thread's loop: makes groups first, because a caller may be waiting for the next one.
    fn work(&self) {
        let mut state = self.lock();
        while !state.stopping {
            let now = Instant::now();
            if state.ready.len() < state.wanted && state.not_before.is_none_or(|at| at <= now) {
                drop(state);
                let made = make(&self.place, &self.owner);
                state = self.lock();
                match made {
                    Ok(made) => {
                        state.ready.push(made);
                        state.not_before = None;
                    }
                    Err(e) => {
                        tracing::warn!("cannot make a cgroup ahead of time: {e}");
                        state.not_before = Some(Instant::now() + FAILURE_BACKOFF);
                    }
                }
                continue;
            }
            if let Some(index) = state.dying.iter().position(|d| d.next_try <= now) {
                let mut dying = state.dying.swap_remove(index);
                state.in_hand += 1;
                drop(state);
                let again = dying.try_to_remove();
                state = self.lock();
                state.in_hand -= 1;
                if again {
                    state.dying.push(dying);
                }
                continue;
            }
            let refill = state.not_before.filter(|_| state.ready.len() < state.wanted);
            let due = state.dying.iter().map(|d| d.next_try).chain(refill).min();
            state = match due {
                Some(at) => {
                    let pause = at.saturating_duration_since(now);
                    let waited = self.changed.wait_timeout(state, pause);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

impl Dying {
    /// Tries to remove the group; `true` if it has to be tried again.
    fn try_to_remove(&mut self) -> bool {
        let error = match self.made.remove() {
            Ok(()) => return false,
            Err(e) => e,
        };
        let now = Instant::now();
        if now - self.since > REMOVAL_TIMEOUT {
            tracing::warn!("a cgroup is left for the next start to remove: {error}");
            return false;
        }
        self.made.kill();
        self.next_try = now + self.pause;
        self.pause = (self.pause * 2).min(MAX_RETRY_DELAY);
        true
    }
}

/// Makes a group, recreating the `hotcell` folders if another process has just removed them.
pub(super) fn make(place: &Place, owner: &Owner) -> io::Result<Made> {
    for _ in 0..MAX_ATTEMPTS {
        match place.make(&owner.next_name()) {
            Ok(made) => return Ok(made),
            Err(e) if e.kind() == ErrorKind::NotFound => place.ensure()?,
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    }
    let bases = place.bases();
    let base = bases.first().map(|base| base.display().to_string());
    Err(io::Error::new(
        ErrorKind::ResourceBusy,
        format!("{} disappears as often as it is made", base.unwrap_or_default()),
    ))
}

/// Kills what is inside and removes the group, trying for at most `limit`.
pub(super) fn remove_within(made: &mut Made, limit: Duration) -> io::Result<()> {
    let deadline = Instant::now() + limit;
    let mut pause = INITIAL_RETRY_DELAY;
    loop {
        match made.remove() {
            Err(e) if e.kind() == ErrorKind::ResourceBusy && Instant::now() < deadline => {}
            done => return done,
        }
        made.kill();
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}
