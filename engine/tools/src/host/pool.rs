//! Assignment of plugins to processes.
//!
//! Plugins without capabilities share one process, and each of the others has its own, because a component
//! that takes its process over has everything that the process holds. A running process cannot gain rights,
//! so a change of grant, component or limits means another process. An instance that is kept for a session
//! has a process of its own too, and ends with it.

use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hotcell_sandbox::{Bytes, Confinement, Engine, Policy};
use sha2::{Digest, Sha256};
use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::cache::{self, Cache};
use crate::protocol::{Setting, measure};
use crate::{Answer, BoxFuture, Broker, CallError, Description, Folder, Limit, Limits, LoadError};

use super::apart::Apart;
use super::checked::check_description;
use super::process::{Gone, Process};
use super::restarts::{RESTART_DELAY, Restarts};
use super::sessions::{self, Key, Room, Use};
use super::turns::Turns;
use super::waiting::Call;
use super::{HostsOptions, Plugin, Readiness, compile, confine};

/// Number of calls after which a process is replaced, so that damage done by one of them does not last.
pub const MAX_CALLS: u64 = 1_000;
/// Number of plugins after which the shared process is replaced: plugins that are no longer called take
/// memory.
const MAX_PLUGINS: usize = 64;
/// Bytes of machine code after which the shared process is replaced.
const MAX_CODE_BYTES: u64 = 256 << 20;
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

/// Plugins that may share a process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Class {
    /// Plugins without capabilities.
    Bare,
    /// One plugin, by its name.
    Own(String),
}

impl Class {
    fn of(plugin: &Plugin) -> Self {
        let Plugin { held, env, limits, alone, session, .. } = plugin;
        // Limits above the usual ones would take memory from the other plugins.
        let usual = limits.memory <= Limits::default().memory && limits.concurrent <= MAX_SHARED_CALLS;
        let bare = held.is_nothing() && env.is_empty() && usual && !alone && session.is_none();
        if bare { Self::Bare } else { Self::Own(plugin.name.clone()) }
    }
}

#[derive(Default)]
struct Slot {
    /// Locked while a process is started or a component loaded.
    current: AsyncMutex<Option<Current>>,
    restarts: Arc<Mutex<Restarts>>,
    /// Turns of each plugin, and of all together, across processes.
    turns: Mutex<HashMap<(String, u32), Arc<Turns>>>,
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

struct Current {
    process: Arc<Process>,
    /// Plugin that the process was started for, and whose folders it has.
    made_for: Plugin,
    plugins: Vec<Loaded>,
    /// Bytes of machine code of the loaded plugins.
    code: u64,
}

struct Loaded {
    plugin: Plugin,
    number: u64,
}

/// A plugin loaded in a process.
struct Place {
    process: Arc<Process>,
    plugin: u64,
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

    /// Compiles and describes a component. Both results are cached: a component that is known already is not
    /// compiled again.
    ///
    /// # Errors
    /// The [`LoadError`] that keeps the component from being loaded.
    pub fn describe<'a>(&'a self, wasm: &'a [u8]) -> BoxFuture<'a, Result<Description, LoadError>> {
        Box::pin(async move {
            let digest = digest_of(wasm);
            if let Some(known) = self.known(&digest) {
                return Ok(known);
            }
            self.compile(&digest, wasm.to_vec()).await.map(|compiled| compiled.0)
        })
    }

    /// Compiled form of a component from the cache, sealed and written by this installation.
    #[must_use]
    pub fn compiled_form(&self, wasm: &[u8]) -> Option<File> {
        self.cache.get(&digest_of(wasm))
    }

    /// Description of a component by this very program, if its compiled form is cached too.
    fn known(&self, digest: &str) -> Option<Description> {
        let text = self.cache.said(digest, &self.build)?;
        let description = serde_json::from_slice(&text).ok()?;
        check_description(&description).ok()?;
        self.cache.has(digest).then_some(description)
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

    /// Compiled form of a plugin, from the cache if it is there.
    async fn compiled(&self, plugin: &Plugin, cached: bool) -> Result<File, LoadError> {
        if let Some(compiled) = cached.then(|| self.cache.get(&plugin.digest)).flatten() {
            return Ok(compiled);
        }
        let wasm = tokio::fs::read(&plugin.wasm).await.map_err(|e| LoadError::Host {
            message: format!("{} cannot be read: {e}", plugin.wasm.display()),
        })?;
        let digest = digest_of(&wasm);
        if digest != plugin.digest {
            let message = format!(
                "{} was changed: its digest is sha256:{digest}, and sha256:{} was added",
                plugin.wasm.display(),
                plugin.digest
            );
            return Err(LoadError::Changed { message });
        }
        if let Some(error) = self.failed_before(&digest) {
            return Err(error);
        }
        let (_, code) = self.compile(&digest, wasm).await?;
        cache::sealed(&code).map_err(|e| LoadError::Host {
            message: format!("a compiled component has no place in memory: {e}"),
        })
    }

    async fn compile(&self, digest: &str, wasm: Vec<u8>) -> Result<(Description, Vec<u8>), LoadError> {
        // The semaphore is never closed.
        let _turn = self.compiling.acquire().await;
        let options = &self.options;
        let policy =
            self.policy(&[], options.compile_memory).map_err(|message| LoadError::Host { message })?;
        let compiled = compile::compile(&self.engine, &policy, wasm, options).await;
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.retain(|_, (at, _)| at.elapsed() < RESTART_DELAY);
        match &compiled {
            Err(error) => drop(failed.insert(digest.to_owned(), (Instant::now(), error.clone()))),
            Ok(_) => drop(failed.remove(digest)),
        }
        drop(failed);
        let compiled = compiled?;
        let said = serde_json::to_vec(&compiled.0).unwrap_or_default();
        let kept = self.cache.put(digest, &compiled.1);
        if let Err(e) = kept.and_then(|()| self.cache.say(digest, &self.build, &said)) {
            tracing::warn!("the compiled form of {digest} is not kept: {e}");
        }
        Ok(compiled)
    }

    fn failed_before(&self, digest: &str) -> Option<LoadError> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.get(digest).filter(|(at, _)| at.elapsed() < RESTART_DELAY).map(|(_, error)| error.clone())
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

impl Slot {
    /// Whether there is a process that takes calls, or one that is being started.
    fn is_alive(&self) -> bool {
        match self.current.try_lock() {
            Ok(current) => current.as_ref().is_some_and(|current| current.process.is_open()),
            Err(_) => true,
        }
    }

    /// Ends the process, which runs no call.
    fn dismiss(&self) {
        if let Ok(mut current) = self.current.try_lock()
            && let Some(current) = current.take()
        {
            current.process.retire();
        }
    }

    /// Gives up a process that cannot take a plugin of this class which it has not loaded yet.
    async fn tidy(&self, current: &mut Option<Current>, class: &Class, plugin: &Plugin) {
        let Some(found) = current else { return };
        if found.process.is_ending() {
            found.process.gone().await;
        }
        if let Some(end) = found.process.ended() {
            if !end.clean {
                self.restarts().failed(end.at);
            }
        } else if *class == Class::Bare && found.has_room() && found.process.is_open() {
            return;
        } else if found.made_for == *plugin && found.process.is_open() {
            // Started for a caller that stopped waiting.
            return;
        }
        // Running calls may finish.
        found.process.retire();
        *current = None;
    }

    /// Turns of a plugin; the empty name stands for all plugins together.
    fn turns(&self, name: &str, calls: u32) -> Arc<Turns> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if turns.len() > MAX_PLUGINS {
            turns.retain(|_, known| Arc::strong_count(known) > 1);
        }
        let new = || Arc::new(Turns::new(permits(calls)));
        Arc::clone(turns.entry((name.to_owned(), calls)).or_insert_with(new))
    }

    fn restarts(&self) -> std::sync::MutexGuard<'_, Restarts> {
        self.restarts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Current {
    fn place(&self, plugin: &Plugin) -> Option<Place> {
        // Plugins with equal settings share a copy; the name alone grants nothing.
        let same =
            |loaded: &&Loaded| Plugin { name: plugin.name.clone(), ..loaded.plugin.clone() } == *plugin;
        self.plugins.iter().find(same).filter(|_| self.process.is_open()).map(|loaded| self.at(loaded))
    }

    fn add(&mut self, plugin: &Plugin, number: u64) -> Place {
        let loaded = Loaded { plugin: plugin.clone(), number };
        let place = self.at(&loaded);
        self.plugins.push(loaded);
        place
    }

    fn at(&self, loaded: &Loaded) -> Place {
        Place { process: Arc::clone(&self.process), plugin: loaded.number }
    }

    fn has_room(&self) -> bool {
        has_room(self.plugins.len(), self.code)
    }

    /// Reacts to a component that does not load although it was compiled here, for this very program: a
    /// shared process that reports that may be lying about other components.
    fn distrust(&self, class: &Class) {
        if *class == Class::Bare {
            self.process.retire();
        }
    }
}

/// Whether a process with this number of plugins and bytes of machine code can take another plugin.
fn has_room(plugins: usize, code: u64) -> bool {
    plugins < MAX_PLUGINS && code < MAX_CODE_BYTES
}

fn permits(calls: u32) -> usize {
    usize::try_from(calls.max(1)).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS)
}

/// Identity of the program's build: builds may describe a component differently.
fn build_of(program: &std::path::Path) -> String {
    let about = std::fs::metadata(program);
    let written = about.as_ref().ok().and_then(|about| about.modified().ok());
    let since = written.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok()).unwrap_or_default();
    let length = about.map_or(0, |about| about.len());
    format!("{} {length} {}", env!("CARGO_PKG_VERSION"), since.as_nanos())
}

/// SHA-256 of a component, in hexadecimal: [`Plugin::digest`].
#[must_use]
pub fn digest_of(wasm: &[u8]) -> String {
    hex::encode(Sha256::digest(wasm))
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
