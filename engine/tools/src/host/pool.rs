//! Assignment of plugins to processes.
//!
//! Plugins without capabilities share one process, and each of the others has its own, because a component
//! that takes its process over has everything that the process holds. A running process cannot gain rights,
//! so a change of grant, component or limits means another process. An instance that is kept for a session
//! has a process of its own too, and ends with it.

mod compiled;
mod slot;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hotcell_sandbox::{Bytes, Confinement, Engine, Policy};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::cache::Cache;
use crate::protocol::{Setting, measure};
use crate::{Answer, BoxFuture, Broker, CallError, Folder, Limit, Limits, LoadError};

use super::apart::Apart;
use super::process::{Gone, Process};
use super::sessions::{self, Key, Room, Use};
use super::waiting::Call;
use super::{HostsOptions, Plugin, Readiness, confine};
use compiled::build_of;
pub use compiled::digest_of;
use slot::{Class, Current, Place, Slot};

/// Number of calls after which a process is replaced, so that damage done by one of them does not last.
pub const MAX_CALLS: u64 = 1_000;
/// Maximum number of attempts to load a component, when its compiled form belongs to another build or its
/// process ends at that moment.
const MAX_ATTEMPTS: u32 = 3;
/// Maximum number of calls in the shared process at the same time; further ones wait.
const MAX_SHARED_CALLS: u32 = 16;

/// All tool host processes. They end when this is dropped, or a little later; see [`Hosts::close`].
pub struct Hosts {
    options: HostsOptions,
    engine: Engine,
    cache: Cache,
    /// Identity of the build that describes components.
    build: String,
    classes: Mutex<HashMap<Class, Arc<Slot>>>,
    /// Processes of kept instances.
    sessions: Arc<Mutex<HashMap<Key, Session>>>,
    /// Components that failed to compile recently, each with the error: callers do not wait for the same
    /// failure again.
    failed: Mutex<HashMap<String, (Instant, LoadError)>>,
    apart: Mutex<Apart>,
    /// Permits for compilers: one, since each may use its full memory limit.
    compiling: Semaphore,
}

/// An instance that is kept for a caller.
struct Session {
    slot: Arc<Slot>,
    used: Use,
}

/// A call of a plugin that found its processes.
struct Seat {
    class: Class,
    /// Turns of the plugin.
    turns: Arc<Slot>,
    /// The process.
    slot: Arc<Slot>,
    /// Counts as a call of the session until it is dropped.
    session: Option<InSession>,
}

/// Counts a call of a session.
struct InSession {
    all: Arc<Mutex<HashMap<Key, Session>>>,
    key: Key,
}

impl Hosts {
    /// Opens the cache. Starts no process yet.
    ///
    /// # Errors
    /// [`LoadError::Host`] when the cache cannot be opened.
    pub fn new(options: HostsOptions) -> Result<Self, LoadError> {
        let cache = Cache::open(&options.cache, options.cache_bytes.0)?;
        Ok(Self {
            engine: Engine::new(),
            build: build_of(&options.program),
            options,
            cache,
            classes: Mutex::default(),
            sessions: Arc::default(),
            failed: Mutex::default(),
            apart: Mutex::default(),
            compiling: Semaphore::new(1),
        })
    }

    /// Number of processes that failed: crashed, broke the protocol, or did not start. The next call starts
    /// another.
    #[must_use]
    pub fn failures(&self) -> u64 {
        let classes = self.classes.lock().unwrap_or_else(PoisonError::into_inner);
        classes.values().map(|slot| slot.restarts().all()).sum()
    }

    /// Loads a plugin ahead of its first call, which would do so otherwise.
    ///
    /// # Errors
    /// [`CallError::Refused`] when the component cannot be loaded, [`CallError::Host`] when its process
    /// cannot be started or ends.
    pub fn prepare<'a>(&'a self, plugin: &'a Plugin) -> BoxFuture<'a, Result<Readiness, CallError>> {
        Box::pin(async move {
            let Seat { class, slot, session, .. } = self.seat(plugin)?;
            let ready = self.place(plugin, &class, &slot).await.map(|(_, readiness)| readiness);
            drop(session);
            ready
        })
    }

    /// Calls a tool of a plugin, by its [`crate::Export::path`], with a JSON object. The broker answers the
    /// questions of this call. Dropping the future cancels the call, and so does the token.
    ///
    /// # Errors
    /// [`CallError`] when the call has no answer: as for [`Self::prepare`], and when it is cancelled, reaches
    /// a limit, waits too long or traps.
    pub fn call<'a>(
        &'a self,
        plugin: &'a Plugin,
        path: &'a str,
        arguments: &'a str,
        broker: Arc<dyn Broker>,
        cancel: CancellationToken,
    ) -> BoxFuture<'a, Result<Answer, CallError>> {
        Box::pin(async move {
            let limits = &plugin.limits;
            if arguments.len() as u64 > limits.arguments.0 {
                return Err(CallError::Limit {
                    limit: Limit::Arguments,
                    value: limits.arguments.to_string(),
                });
            }
            if plugin.session.is_some() && measure(arguments.as_bytes()).1 > limits.depth as usize {
                let message = format!("it nests more than {} deep", limits.depth);
                return Err(CallError::Arguments { at: String::new(), message });
            }
            let Seat { class, turns, slot, session } = self.seat(plugin)?;
            // An instance has one call at a time. Those that wait for it take no turn from other callers.
            let one = Limits { concurrent: 1, ..limits.clone() };
            let alone = session.is_some().then(|| slot.turns(&plugin.name, 1));
            let _alone = match &alone {
                None => None,
                Some(alone) => tokio::select! {
                    biased;
                    turn = alone.wait(&plugin.name, &one) => Some(turn?),
                    () = cancel.cancelled() => return Err(CallError::Cancelled),
                },
            };
            let (own, all) =
                (turns.turns(&plugin.name, limits.concurrent), turns.turns("", MAX_SHARED_CALLS));
            let _own = tokio::select! {
                biased;
                turn = own.wait(&plugin.name, limits) => turn?,
                () = cancel.cancelled() => return Err(CallError::Cancelled),
            };
            loop {
                let place = tokio::select! {
                    biased;
                    place = self.place(plugin, &class, &slot) => place?.0,
                    () = cancel.cancelled() => return Err(CallError::Cancelled),
                };
                // Taken only now: a caller that waits for a compiler does not hold up others.
                let _turn = tokio::select! {
                    biased;
                    turn = all.places.acquire() => turn,
                    () = cancel.cancelled() => return Err(CallError::Cancelled),
                };
                let call =
                    Call { plugin: place.plugin, path, arguments, limits, broker: &broker, cancel: &cancel };
                match place.process.call(call).await {
                    // The process ended before the call: the next round starts another, or reports why it
                    // cannot.
                    Err(Gone) => {}
                    Ok(answer) => {
                        // Plugins that were running when it failed get processes of their own, so that the
                        // others are not hit again.
                        if class == Class::Bare && matches!(answer, Err(CallError::Host { .. })) {
                            self.apart().failed(&plugin.name, Instant::now());
                        }
                        let done = match (&session, &answer) {
                            // Not replaced after a number of calls: the state would end with the process.
                            (Some(_), answer) => answer.as_ref().is_err_and(CallError::ends_instance),
                            (None, answer) => !is_clean(answer) || place.process.served() >= MAX_CALLS,
                        };
                        if done {
                            place.process.retire();
                        }
                        return answer;
                    }
                }
            }
        })
    }

    /// Ends all processes and waits until they are gone.
    pub fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            for slot in self.slots() {
                if let Some(current) = slot.current.lock().await.take() {
                    current.process.dismiss();
                    current.process.gone().await;
                }
            }
            // Cleanup that takes longer goes on in the background.
            let _ = self.engine.settle(Duration::from_secs(5)).await;
        })
    }

    fn slots(&self) -> Vec<Arc<Slot>> {
        let mut all: Vec<_> = lock(&self.classes).values().cloned().collect();
        all.extend(lock(&self.sessions).values().map(|session| Arc::clone(&session.slot)));
        all
    }

    /// Finds the slot of a plugin's calls; for a session there has to be room.
    fn seat(&self, plugin: &Plugin) -> Result<Seat, CallError> {
        let class = self.class(plugin);
        let turns = self.slot(&class);
        let Some(caller) = &plugin.session else {
            return Ok(Seat { class, slot: Arc::clone(&turns), turns, session: None });
        };
        let busy = |message: String| Err(CallError::Busy { message });
        let key = Key { plugin: plugin.name.clone(), caller: caller.clone() };
        let mut all = lock(&self.sessions);
        all.retain(|_, session| session.used.calls > 0 || session.slot.is_alive());
        let uses = all.iter().map(|(key, session)| (key.clone(), session.used)).collect();
        match sessions::room(&uses, &key, Instant::now()) {
            Room::Free => {}
            Room::Instead(other) => {
                if let Some(session) = all.remove(&other) {
                    session.slot.dismiss();
                }
            }
            Room::CallersFull => {
                return busy(format!(
                    "calls run in all of the {} instances that are kept for one caller",
                    sessions::MAX_CALLER_INSTANCES
                ));
            }
            Room::Full => {
                return busy(format!(
                    "all of the {} instances that are kept for sessions are in use; call again in a minute",
                    sessions::MAX_INSTANCES
                ));
            }
        }
        let session = all.entry(key.clone()).or_insert_with(|| {
            let restarts = Arc::clone(&turns.restarts);
            let slot = Arc::new(Slot { restarts, ..Slot::default() });
            Session { slot, used: Use { calls: 0, last: Instant::now() } }
        });
        session.used.calls += 1;
        let slot = Arc::clone(&session.slot);
        drop(all);
        let session = InSession { all: Arc::clone(&self.sessions), key };
        Ok(Seat { class, turns, slot, session: Some(session) })
    }

    fn apart(&self) -> std::sync::MutexGuard<'_, Apart> {
        self.apart.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn class(&self, plugin: &Plugin) -> Class {
        let apart = self.apart().keeps(&plugin.name, Instant::now());
        match Class::of(plugin) {
            Class::Bare if apart => Class::Own(plugin.name.clone()),
            class => class,
        }
    }

    fn slot(&self, class: &Class) -> Arc<Slot> {
        let mut classes = self.classes.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(classes.entry(class.clone()).or_default())
    }

    /// Makes a plugin ready in a process.
    async fn place(
        &self,
        plugin: &Plugin,
        class: &Class,
        slot: &Slot,
    ) -> Result<(Place, Readiness), CallError> {
        if let Some(place) = slot.current.lock().await.as_ref().and_then(|current| current.place(plugin)) {
            return Ok((place, Readiness::default()));
        }
        let asked = Instant::now();
        let host = |error: LoadError| {
            let message = format!("the component cannot be loaded: {error}");
            match error {
                LoadError::Host { .. } | LoadError::Stale => CallError::Host { message },
                _ => CallError::Refused { message },
            }
        };
        // Before the slot is locked: a component that takes long to compile delays only its own callers.
        let mut compiled = self.compiled(plugin, true).await.map_err(host)?;
        let mut readiness = Readiness::default();
        let setting = self.setting(plugin);
        for attempt in 1.. {
            let mut current = slot.current.lock().await;
            if let Some(place) = current.as_ref().and_then(|current| current.place(plugin)) {
                return Ok((place, readiness));
            }
            slot.tidy(&mut current, class, plugin).await;
            // Stored in the slot before the next wait: a caller that stops waiting leaves the process to the
            // next one.
            let found = match &mut *current {
                Some(found) => found,
                none => {
                    let found = none.insert(self.start(plugin, class, slot).await?);
                    readiness.process = Some(found.process.took);
                    found
                }
            };
            match found.process.load(&setting, &compiled).await {
                Ok(Ok(number)) => {
                    readiness.component = Some(asked.elapsed());
                    found.code += compiled.metadata().map_or(0, |about| about.len());
                    return Ok((found.add(plugin, number), readiness));
                }
                // Compiled by another wasmtime, or for another processor.
                Ok(Err(LoadError::Stale)) if attempt < MAX_ATTEMPTS => {
                    found.distrust(class);
                    drop(current);
                    self.cache.remove(&plugin.digest);
                    compiled = self.compiled(plugin, false).await.map_err(host)?;
                }
                Ok(Err(error)) => {
                    found.distrust(class);
                    return Err(host(error));
                }
                // The process has just ended, for example because it was idle.
                Err(Gone) if attempt < MAX_ATTEMPTS => {}
                Err(Gone) => break,
            }
        }
        Err(CallError::Host { message: "its process ends as soon as it is started".to_owned() })
    }

    async fn start(&self, plugin: &Plugin, class: &Class, slot: &Slot) -> Result<Current, CallError> {
        if let Some(pause) = slot.restarts().pause(Instant::now()) {
            let message = format!(
                "it failed {} times within {} s, and is tried again in {} s",
                super::restarts::MAX_FAILURES,
                super::restarts::FAILURE_PERIOD.as_secs(),
                pause.as_secs() + 1
            );
            return Err(CallError::Host { message });
        }
        let (calls, folders) = match class {
            Class::Bare => (MAX_SHARED_CALLS, Vec::new()),
            Class::Own(_) if plugin.session.is_some() => (1, folders_of(plugin)),
            Class::Own(_) => (plugin.limits.concurrent, folders_of(plugin)),
        };
        let memory = match class {
            Class::Bare => confine::memory_for(calls, &Limits::default()),
            Class::Own(_) => confine::memory_for(calls, &plugin.limits),
        };
        let policy = self.policy(&folders, memory).map_err(|message| CallError::Host { message })?;
        let mut options = self.options.clone();
        if plugin.session.is_some() {
            options.idle = options.session_idle;
        }
        let started = Process::start(&self.engine, &policy, &options).await;
        let process = started.map_err(|error| {
            slot.restarts().failed(Instant::now());
            CallError::Host { message: error.to_string() }
        })?;
        Ok(Current { process, made_for: plugin.clone(), plugins: Vec::new(), code: 0 })
    }

    fn policy(&self, folders: &[Folder], memory: Bytes) -> Result<Policy, String> {
        let HostsOptions { program, arguments, confinement, .. } = &self.options;
        let memory = memory.min(self.engine.host().memory);
        confine::policy(program, arguments, folders, memory, *confinement)
    }

    /// Settings of a plugin in its process. Whether a path is still the granted folder is checked when it is
    /// mounted; without mounts the process checks that itself, for each call.
    fn setting(&self, plugin: &Plugin) -> Setting {
        let mut folders = folders_of(plugin);
        if self.options.confinement != Confinement::LandlockOnly {
            folders.iter_mut().for_each(|folder| folder.identity = None);
        }
        let keeps = plugin.session.is_some();
        Setting { folders, env: plugin.env.clone(), limits: plugin.limits.clone(), keeps }
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for slot in self.slots() {
            if let Ok(mut current) = slot.current.try_lock()
                && let Some(current) = current.take()
            {
                current.process.retire();
            }
        }
    }
}

impl std::fmt::Debug for Hosts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hosts").field("options", &self.options).finish_non_exhaustive()
    }
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for InSession {
    fn drop(&mut self) {
        if let Some(session) = lock(&self.all).get_mut(&self.key) {
            session.used.calls = session.used.calls.saturating_sub(1);
            session.used.last = Instant::now();
        }
    }
}

/// Folders of a plugin. One that may be written may be read as well.
fn folders_of(plugin: &Plugin) -> Vec<Folder> {
    let Plugin { held, identities, .. } = plugin;
    let folder = |path: &PathBuf, writable| Folder {
        path: path.clone(),
        writable,
        identity: identities.get(path).copied(),
    };
    let read = held.read.difference(&held.write).map(|path| folder(path, false));
    read.chain(held.write.iter().map(|path| folder(path, true))).collect()
}

/// Whether a process is still clean after such a call. A call that ran out of time may leave work behind in
/// the host.
fn is_clean(answer: &Result<Answer, CallError>) -> bool {
    !matches!(answer, Err(CallError::Host { .. } | CallError::Limit { limit: Limit::Wall, .. }))
}

#[cfg(test)]
mod tests;
