//! Which plugin runs in which process.
//!
//! Plugins that hold nothing share one process, and each of the others has its own, because a process that was taken over
//! has what its plugin holds. What a process may reach cannot be widened while it runs, so another grant, another
//! component or other limits mean another process.

use std::collections::HashMap;
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hotcell_sandbox::{Bytes, Engine, Policy};
use sha2::{Digest, Sha256};
use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use tokio_util::sync::CancellationToken;

use super::process::{Gone, Process};
use super::restarts::{PAUSE, Restarts};
use super::waiting::Call;
use super::{HostsOptions, Plugin, Readiness, compile, confine};
use crate::cache::{self, Cache};
use crate::protocol::Setting;
use crate::{Answer, BoxFuture, Broker, CallError, Description, Folder, Held, Limit, Limits, LoadError};

/// After so many calls a process is replaced: what one of them did to it does not last.
pub const MOST_CALLS: u64 = 1_000;
/// After so many plugins the shared one is: those of them that nobody calls any more take memory.
const MOST_PLUGINS: usize = 64;
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
        let Plugin { held, env, limits, .. } = plugin;
        // What reaches further than others would take their memory.
        let usual = limits.memory <= Limits::default().memory && limits.concurrent <= MOST_SHARED;
        if held.is_nothing() && env.is_empty() && usual { Self::Bare } else { Self::Own(plugin.name.clone()) }
    }
}

#[derive(Default)]
struct Slot {
    /// Held while a process is started or a component loaded.
    current: AsyncMutex<Option<Current>>,
    restarts: Mutex<Restarts>,
}

struct Current {
    process: Arc<Process>,
    /// The plugin that it was started for, whose folders it has.
    made_for: Plugin,
    plugins: Vec<Loaded>,
    turns: Arc<Semaphore>,
}

#[derive(Clone)]
struct Loaded {
    digest: String,
    held: Held,
    setting: Arc<Setting>,
    number: u64,
    turns: Arc<Semaphore>,
}

/// A plugin in a process.
struct Place {
    process: Arc<Process>,
    plugin: u64,
    turns: [Arc<Semaphore>; 2],
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
            compiling: Semaphore::new(1),
        })
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
        Box::pin(async move { self.place(plugin).await.map(|(_, readiness)| readiness) })
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
            loop {
                let place = tokio::select! {
                    biased;
                    place = self.place(plugin) => place?.0,
                    () = cancel.cancelled() => return Err(CallError::Cancelled),
                };
                let [plugins, process] = &place.turns;
                let turns = async { (plugins.acquire().await, process.acquire().await) };
                let _turns = tokio::select! {
                    biased;
                    turns = turns => turns,
                    () = cancel.cancelled() => return Err(CallError::Cancelled),
                };
                let call =
                    Call { plugin: place.plugin, path, arguments, limits, broker: &broker, cancel: &cancel };
                match place.process.call(call).await {
                    // It ended meanwhile, before the call: there is another, or it says why not.
                    Err(Gone) => {}
                    Ok(answer) => {
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

    /// Where a plugin is ready.
    async fn place(&self, plugin: &Plugin) -> Result<(Place, Readiness), CallError> {
        let class = Class::of(plugin);
        let slot = {
            let mut classes = self.classes.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(classes.entry(class.clone()).or_default())
        };
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
        let setting = Arc::new(setting_of(plugin));
        for attempt in 1.. {
            let mut current = slot.current.lock().await;
            if let Some(place) = current.as_ref().and_then(|current| current.place(plugin)) {
                return Ok((place, readiness));
            }
            slot.tidy(&mut current, &class, plugin).await;
            // In the slot before anything else is waited for: whoever stops waiting leaves it to the next.
            let found = match &mut *current {
                Some(found) => found,
                none => {
                    let found = none.insert(self.start(plugin, &class, &slot).await?);
                    readiness.process = Some(found.process.took);
                    found
                }
            };
            match found.process.load(&setting, &compiled).await {
                Ok(Ok(number)) => {
                    readiness.component = Some(asked.elapsed());
                    return Ok((found.add(plugin, Arc::clone(&setting), number), readiness));
                }
                // By another wasmtime, or for another processor.
                Ok(Err(LoadError::Stale)) if attempt < MOST_ATTEMPTS => {
                    drop(current);
                    self.cache.remove(&plugin.digest);
                    compiled = self.compiled(plugin, false).await.map_err(host)?;
                }
                // It may serve the others still.
                Ok(Err(error)) => return Err(host(error)),
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
            Class::Own(_) => (plugin.limits.concurrent, folders_of(&plugin.held)),
        };
        let memory = match class {
            Class::Bare => confine::memory_for(calls, &Limits::default()),
            Class::Own(_) => confine::memory_for(calls, &plugin.limits),
        };
        let policies = self.policies(&folders, memory);
        let started = Process::start(&self.engine, &policies, self.options.idle).await;
        let process = started.map_err(|error| {
            slot.restarts().failed(Instant::now());
            CallError::Host { message: error.to_string() }
        })?;
        Ok(Current {
            process,
            made_for: plugin.clone(),
            plugins: Vec::new(),
            turns: Arc::new(Semaphore::new(permits(calls))),
        })
    }

    fn policies(&self, folders: &[Folder], memory: Bytes) -> Vec<Policy> {
        let HostsOptions { program, arguments, confinements, .. } = &self.options;
        let memory = memory.min(self.engine.host().memory);
        confine::policies(program, arguments, folders, memory, confinements)
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
        let policies = self.policies(&[], options.compile_memory);
        let compiled = compile::compile(&self.engine, &policies, wasm, options.compile_time).await;
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
        } else if *class == Class::Bare && found.plugins.len() < MOST_PLUGINS && found.process.is_open() {
            return;
        } else if found.made_for == *plugin && found.process.is_open() {
            // Started by somebody who did not wait for it.
            return;
        }
        // Its last calls may end.
        found.process.retire();
        *current = None;
    }

    fn restarts(&self) -> std::sync::MutexGuard<'_, Restarts> {
        self.restarts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Current {
    fn place(&self, plugin: &Plugin) -> Option<Place> {
        let same = |loaded: &&Loaded| {
            loaded.digest == plugin.digest
                && loaded.held == plugin.held
                && loaded.setting.env == plugin.env
                && loaded.setting.limits == plugin.limits
        };
        self.plugins.iter().find(same).filter(|_| self.process.is_open()).map(|loaded| self.at(loaded))
    }

    fn add(&mut self, plugin: &Plugin, setting: Arc<Setting>, number: u64) -> Place {
        let loaded = Loaded {
            digest: plugin.digest.clone(),
            held: plugin.held.clone(),
            turns: Arc::new(Semaphore::new(permits(plugin.limits.concurrent))),
            setting,
            number,
        };
        let place = self.at(&loaded);
        self.plugins.push(loaded);
        place
    }

    fn at(&self, loaded: &Loaded) -> Place {
        Place {
            process: Arc::clone(&self.process),
            plugin: loaded.number,
            turns: [Arc::clone(&loaded.turns), Arc::clone(&self.turns)],
        }
    }
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
fn folders_of(held: &Held) -> Vec<Folder> {
    let read = held.read.difference(&held.write).map(|path| Folder { path: path.clone(), writable: false });
    read.chain(held.write.iter().map(|path| Folder { path: path.clone(), writable: true })).collect()
}

fn setting_of(plugin: &Plugin) -> Setting {
    Setting { folders: folders_of(&plugin.held), env: plugin.env.clone(), limits: plugin.limits.clone() }
}

/// Whether a process is as good as before such a call. One that ran out of time may leave work behind in the host.
fn is_clean(answer: &Result<Answer, CallError>) -> bool {
    !matches!(
        answer,
        Err(CallError::Host { .. } | CallError::Limit { limit: Limit::Wall | Limit::Stack, .. })
    )
}

#[cfg(test)]
mod tests;
