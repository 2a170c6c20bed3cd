//! Which plugin runs in which process.
//!
//! Plugins that hold nothing share one process, and each of the others has its own, because a process that was taken over
//! has what its plugin holds. What a process may reach cannot be widened while it runs, so another grant, another
//! component or other limits mean another process.

use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hotcell_sandbox::{Bytes, Confinement, Engine, Policy};
use sha2::{Digest, Sha256};
use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use tokio_util::sync::CancellationToken;

use super::apart::Apart;
use super::process::{Gone, Process};
use super::restarts::{PAUSE, Restarts};
use super::waiting::Call;
use super::{HostsOptions, Plugin, Readiness, compile, confine};
use crate::cache::{self, Cache};
use crate::protocol::Setting;
use crate::{Answer, BoxFuture, Broker, CallError, Description, Folder, Limit, Limits, LoadError};

/// After so many calls a process is replaced: what one of them did to it does not last.
pub const MOST_CALLS: u64 = 1_000;
/// After so many plugins the shared one is: those of them that nobody calls any more take memory.
const MOST_PLUGINS: usize = 64;
/// The same after so many bytes of machine code.
const MOST_CODE: u64 = 256 << 20;
/// So often a component is loaded, when its compiled form is of another build or its process ends at that moment.
const MOST_ATTEMPTS: u32 = 3;
/// Calls of the shared process at the same time; further ones wait.
const MOST_SHARED: u32 = 16;

/// All processes. They end when it is dropped, or a little later; see [`Hosts::close`].
pub struct Hosts {
    options: HostsOptions,
    engine: Engine,
    cache: Cache,
    classes: Mutex<HashMap<Class, Arc<Slot>>>,
    /// Components that could not be compiled a moment ago, and why: nobody waits for the same again.
    failed: Mutex<HashMap<String, (Instant, LoadError)>>,
    apart: Mutex<Apart>,
    /// Compilers at the same time: one, since each may take as much memory as it may.
    compiling: Semaphore,
}

/// Plugins that trust each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Class {
    /// They hold nothing.
    Bare,
    /// One, by its name.
    Own(String),
}

impl Class {
    fn of(plugin: &Plugin) -> Self {
        let Plugin { held, env, limits, alone, .. } = plugin;
        // What reaches further than others would take their memory.
        let usual = limits.memory <= Limits::default().memory && limits.concurrent <= MOST_SHARED;
        let bare = held.is_nothing() && env.is_empty() && usual && !alone;
        if bare { Self::Bare } else { Self::Own(plugin.name.clone()) }
    }
}

#[derive(Default)]
struct Slot {
    /// Held while a process is started or a component loaded.
    current: AsyncMutex<Option<Current>>,
    restarts: Mutex<Restarts>,
    /// Of each plugin, and of all together: whichever process a call is in.
    turns: Mutex<HashMap<(String, u32), Arc<Semaphore>>>,
}

struct Current {
    process: Arc<Process>,
    /// The plugin that it was started for, whose folders it has.
    made_for: Plugin,
    plugins: Vec<Loaded>,
    /// Bytes of their machine code.
    code: u64,
}

struct Loaded {
    plugin: Plugin,
    number: u64,
}

/// A plugin in a process.
struct Place {
    process: Arc<Process>,
    plugin: u64,
}

impl Hosts {
    /// Opens the cache. Starts no process yet.
    ///
    /// # Errors
    /// [`LoadError::Host`] when the cache cannot be had.
    pub fn new(options: HostsOptions) -> Result<Self, LoadError> {
        let cache = Cache::open(&options.cache, options.cache_bytes.0)?;
        Ok(Self {
            options,
            engine: Engine::new(),
            cache,
            classes: Mutex::default(),
            failed: Mutex::default(),
            apart: Mutex::default(),
            compiling: Semaphore::new(1),
        })
    }

    /// How many of its processes failed: crashed, broke the protocol, or did not start. The next call starts another.
    #[must_use]
    pub fn failures(&self) -> u64 {
        let classes = self.classes.lock().unwrap_or_else(PoisonError::into_inner);
        classes.values().map(|slot| slot.restarts().all()).sum()
    }

    /// Compiles a component and says what it is. Its compiled form is kept.
    ///
    /// # Errors
    /// Why it cannot be loaded.
    pub fn describe<'a>(&'a self, wasm: &'a [u8]) -> BoxFuture<'a, Result<Description, LoadError>> {
        Box::pin(
            async move { self.compile(&digest_of(wasm), wasm.to_vec()).await.map(|compiled| compiled.0) },
        )
    }

    /// Makes a plugin ready for calls, which happens with its first call otherwise.
    ///
    /// # Errors
    /// Why it cannot be: [`CallError::Host`].
    pub fn prepare<'a>(&'a self, plugin: &'a Plugin) -> BoxFuture<'a, Result<Readiness, CallError>> {
        Box::pin(async move {
            let class = self.class(plugin);
            self.place(plugin, &class, &self.slot(&class)).await.map(|(_, readiness)| readiness)
        })
    }

    /// Calls a tool of a plugin, by its [`crate::Export::path`], with a JSON object. The broker answers what this call asks.
    /// Dropping the future cancels the call, like the token.
    ///
    /// # Errors
    /// Why it came to nothing.
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
            let class = self.class(plugin);
            let slot = self.slot(&class);
            let (own, all) = (slot.turns(&plugin.name, limits.concurrent), slot.turns("", MOST_SHARED));
            let _own = tokio::select! {
                biased;
                turn = own.acquire() => turn,
                () = cancel.cancelled() => return Err(CallError::Cancelled),
            };
            loop {
                let place = tokio::select! {
                    biased;
                    place = self.place(plugin, &class, &slot) => place?.0,
                    () = cancel.cancelled() => return Err(CallError::Cancelled),
                };
                // Not before: whoever waits for a compiler keeps nobody else waiting.
                let _turn = tokio::select! {
                    biased;
                    turn = all.acquire() => turn,
                    () = cancel.cancelled() => return Err(CallError::Cancelled),
                };
                let call =
                    Call { plugin: place.plugin, path, arguments, limits, broker: &broker, cancel: &cancel };
                match place.process.call(call).await {
                    // It ended meanwhile, before the call: there is another, or it says why not.
                    Err(Gone) => {}
                    Ok(answer) => {
                        // Whoever was there when it failed is kept apart, so that the others are not in for it again.
                        if class == Class::Bare && matches!(answer, Err(CallError::Host { .. })) {
                            self.apart().failed(&plugin.name, Instant::now());
                        }
                        if !is_clean(&answer) || place.process.served() >= MOST_CALLS {
                            place.process.retire();
                        }
                        return answer;
                    }
                }
            }
        })
    }

    /// Ends all processes and waits until nothing is left of them.
    pub fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            for slot in self.slots() {
                if let Some(current) = slot.current.lock().await.take() {
                    current.process.dismiss();
                    current.process.gone().await;
                }
            }
            // Its rest goes on its own when it takes longer.
            let _ = self.engine.settle(Duration::from_secs(5)).await;
        })
    }

    fn slots(&self) -> Vec<Arc<Slot>> {
        self.classes.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
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

    /// Where a plugin is ready.
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
        let host = |error: LoadError| CallError::Host {
            message: format!("the component cannot be loaded: {error}"),
        };
        // Before the slot is held: a component that takes long to compile delays its own callers only.
        let mut compiled = self.compiled(plugin, true).await.map_err(host)?;
        let mut readiness = Readiness::default();
        let setting = self.setting(plugin);
        for attempt in 1.. {
            let mut current = slot.current.lock().await;
            if let Some(place) = current.as_ref().and_then(|current| current.place(plugin)) {
                return Ok((place, readiness));
            }
            slot.tidy(&mut current, class, plugin).await;
            // In the slot before anything else is waited for: whoever stops waiting leaves it to the next.
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
                // By another wasmtime, or for another processor.
                Ok(Err(LoadError::Stale)) if attempt < MOST_ATTEMPTS => {
                    found.distrust(class);
                    drop(current);
                    self.cache.remove(&plugin.digest);
                    compiled = self.compiled(plugin, false).await.map_err(host)?;
                }
                Ok(Err(error)) => {
                    found.distrust(class);
                    return Err(host(error));
                }
                // It has just ended, of having nothing to do for example.
                Err(Gone) if attempt < MOST_ATTEMPTS => {}
                Err(Gone) => break,
            }
        }
        Err(CallError::Host { message: "its process ends as soon as it is started".to_owned() })
    }

    async fn start(&self, plugin: &Plugin, class: &Class, slot: &Slot) -> Result<Current, CallError> {
        if let Some(pause) = slot.restarts().pause(Instant::now()) {
            let message = format!(
                "it failed {} times within {} s, and is tried again in {} s",
                super::restarts::MOST,
                super::restarts::WITHIN.as_secs(),
                pause.as_secs() + 1
            );
            return Err(CallError::Host { message });
        }
        let (calls, folders) = match class {
            Class::Bare => (MOST_SHARED, Vec::new()),
            Class::Own(_) => (plugin.limits.concurrent, folders_of(plugin)),
        };
        let memory = match class {
            Class::Bare => confine::memory_for(calls, &Limits::default()),
            Class::Own(_) => confine::memory_for(calls, &plugin.limits),
        };
        let policy = self.policy(&folders, memory).map_err(|message| CallError::Host { message })?;
        let started = Process::start(&self.engine, &policy, &self.options).await;
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

    /// What a plugin gets in a process. Which folder a name stands for is checked by whoever mounts it; without mounts the
    /// process does so itself, for each call.
    fn setting(&self, plugin: &Plugin) -> Setting {
        let mut folders = folders_of(plugin);
        if self.options.confinement != Confinement::LandlockOnly {
            folders.iter_mut().for_each(|folder| folder.identity = None);
        }
        Setting { folders, env: plugin.env.clone(), limits: plugin.limits.clone() }
    }

    /// A plugin's compiled form, from the cache if it is there.
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
            return Err(LoadError::Host { message });
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
        // Nobody closes it.
        let _turn = self.compiling.acquire().await;
        let options = &self.options;
        let policy =
            self.policy(&[], options.compile_memory).map_err(|message| LoadError::Host { message })?;
        let compiled = compile::compile(&self.engine, &policy, wasm, options).await;
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.retain(|_, (at, _)| at.elapsed() < PAUSE);
        match &compiled {
            Err(error) => drop(failed.insert(digest.to_owned(), (Instant::now(), error.clone()))),
            Ok(_) => drop(failed.remove(digest)),
        }
        drop(failed);
        let compiled = compiled?;
        if let Err(e) = self.cache.put(digest, &compiled.1) {
            tracing::warn!("the compiled form of {digest} is not kept: {e}");
        }
        Ok(compiled)
    }

    fn failed_before(&self, digest: &str) -> Option<LoadError> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.get(digest).filter(|(at, _)| at.elapsed() < PAUSE).map(|(_, error)| error.clone())
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

impl Slot {
    /// Parts with a process that a plugin of this class, which is not in it yet, cannot have.
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
            // Started by somebody who did not wait for it.
            return;
        }
        // Its last calls may end.
        found.process.retire();
        *current = None;
    }

    /// Turns of a plugin, or by an empty name of all.
    fn turns(&self, name: &str, calls: u32) -> Arc<Semaphore> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if turns.len() > MOST_PLUGINS {
            turns.retain(|_, known| Arc::strong_count(known) > 1);
        }
        let new = || Arc::new(Semaphore::new(permits(calls)));
        Arc::clone(turns.entry((name.to_owned(), calls)).or_insert_with(new))
    }

    fn restarts(&self) -> std::sync::MutexGuard<'_, Restarts> {
        self.restarts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Current {
    fn place(&self, plugin: &Plugin) -> Option<Place> {
        // Who has the same shares it; a name gives nothing.
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

    /// What does not load was compiled here, for this very program: a shared process that says so may be lying about others.
    fn distrust(&self, class: &Class) {
        if *class == Class::Bare {
            self.process.retire();
        }
    }
}

/// Whether one more fits into a process with so many plugins and so many bytes of machine code.
fn has_room(plugins: usize, code: u64) -> bool {
    plugins < MOST_PLUGINS && code < MOST_CODE
}

fn permits(calls: u32) -> usize {
    usize::try_from(calls.max(1)).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS)
}

/// The SHA-256 of a component, in hexadecimal: [`Plugin::digest`].
#[must_use]
pub fn digest_of(wasm: &[u8]) -> String {
    Sha256::digest(wasm).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A folder that may be written may be read as well.
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

/// Whether a process is as good as before such a call. One that ran out of time may leave work behind in the host.
fn is_clean(answer: &Result<Answer, CallError>) -> bool {
    !matches!(answer, Err(CallError::Host { .. } | CallError::Limit { limit: Limit::Wall, .. }))
}

#[cfg(test)]
mod tests;
