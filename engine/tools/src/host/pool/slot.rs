//! A process and the plugins that it has loaded, and which plugins may share one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Mutex as AsyncMutex, Semaphore};

use crate::Limits;
use crate::host::Plugin;
use crate::host::process::Process;
use crate::host::restarts::Restarts;
use crate::host::turns::Turns;

use super::MAX_SHARED_CALLS;

/// Number of plugins after which the shared process is replaced: plugins that are no longer called take
/// memory.
pub(super) const MAX_PLUGINS: usize = 64;

/// Bytes of machine code after which the shared process is replaced.
pub(super) const MAX_CODE_BYTES: u64 = 256 << 20;

/// Plugins that may share a process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Class {
    /// Plugins without capabilities.
    Bare,
    /// One plugin, by its name.
    Own(String),
}

impl Class {
    pub(super) fn of(plugin: &Plugin) -> Self {
        let Plugin { held, env, limits, alone, session, .. } = plugin;
        // Limits above the usual ones would take memory from the other plugins.
        let usual = limits.memory <= Limits::default().memory && limits.concurrent <= MAX_SHARED_CALLS;
        let bare = held.is_nothing() && env.is_empty() && usual && !alone && session.is_none();
        if bare { Self::Bare } else { Self::Own(plugin.name.clone()) }
    }
}

#[derive(Default)]
pub(super) struct Slot {
    /// Locked while a process is started or a component loaded.
    pub(super) current: AsyncMutex<Option<Current>>,
    pub(super) restarts: Arc<Mutex<Restarts>>,
    /// Turns of each plugin, and of all together, across processes.
    pub(super) turns: Mutex<HashMap<(String, u32), Arc<Turns>>>,
}

impl Slot {
    /// Whether there is a process that takes calls, or one that is being started.
    pub(super) fn is_alive(&self) -> bool {
        match self.current.try_lock() {
            Ok(current) => current.as_ref().is_some_and(|current| current.process.is_open()),
            Err(_) => true,
        }
    }

    /// Ends the process, which runs no call.
    pub(super) fn dismiss(&self) {
        if let Ok(mut current) = self.current.try_lock()
            && let Some(current) = current.take()
        {
            current.process.retire();
        }
    }

    /// Gives up a process that cannot take a plugin of this class which it has not loaded yet.
    pub(super) async fn tidy(&self, current: &mut Option<Current>, class: &Class, plugin: &Plugin) {
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
    pub(super) fn turns(&self, name: &str, calls: u32) -> Arc<Turns> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if turns.len() > MAX_PLUGINS {
            turns.retain(|_, known| Arc::strong_count(known) > 1);
        }
        let new = || Arc::new(Turns::new(permits(calls)));
        Arc::clone(turns.entry((name.to_owned(), calls)).or_insert_with(new))
    }

    pub(super) fn restarts(&self) -> std::sync::MutexGuard<'_, Restarts> {
        self.restarts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Current {
    pub(super) process: Arc<Process>,
    /// Plugin that the process was started for, and whose folders it has.
    pub(super) made_for: Plugin,
    pub(super) plugins: Vec<Loaded>,
    /// Bytes of machine code of the loaded plugins.
    pub(super) code: u64,
}

pub(super) struct Loaded {
    plugin: Plugin,
    number: u64,
}

/// A plugin loaded in a process.
pub(super) struct Place {
    pub(super) process: Arc<Process>,
    pub(super) plugin: u64,
}

impl Current {
    pub(super) fn place(&self, plugin: &Plugin) -> Option<Place> {
        // Plugins with equal settings share a copy; the name alone grants nothing.
        let same =
            |loaded: &&Loaded| Plugin { name: plugin.name.clone(), ..loaded.plugin.clone() } == *plugin;
        self.plugins.iter().find(same).filter(|_| self.process.is_open()).map(|loaded| self.at(loaded))
    }

    pub(super) fn add(&mut self, plugin: &Plugin, number: u64) -> Place {
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
    pub(super) fn distrust(&self, class: &Class) {
        if *class == Class::Bare {
            self.process.retire();
        }
    }
}

/// Whether a process with this number of plugins and bytes of machine code can take another plugin.
pub(super) fn has_room(plugins: usize, code: u64) -> bool {
    plugins < MAX_PLUGINS && code < MAX_CODE_BYTES
}

fn permits(calls: u32) -> usize {
    usize::try_from(calls.max(1)).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS)
}
