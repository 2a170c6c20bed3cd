//! Workspaces of callers: each with an owner, quotas and a name that nobody can guess, in the same store as a person's own,
//! where it stays when the service ends.
//!
//! | module | idea |
//! | --- | --- |
//! | `one` | what a caller does with one |
//! | `allowed` | which folders of the host it may stand over |
//! | `protected` | protected names in a commit, which a person approves |
//! | `files` | files that are to be written, checked against the bounds |
//! | `temporary` | a plain folder for one run |
//! | `told` | what a caller is told of errors |

mod allowed;
mod files;
mod one;
mod protected;
mod temporary;
#[cfg(test)]
mod tests;
mod told;

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use hotcell_workspace::store::{Quota, Source, Store, StoreError, Summary};

pub use allowed::Folders;
pub use files::NewFile;
pub use one::{Entry, EntryKind, Taken, Used, Workspace};
pub use temporary::Temporary;

use super::caller::Caller;
use super::folder::ServiceFolder;
use crate::kept::Kept;
use crate::report::{Code, ErrorReport};
use crate::state::StateFolder;
use told::{of_store, over, unknown};

/// How long a call waits for another one on the same workspace.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bounds of workspaces.
#[derive(Clone, Copy, Debug)]
pub struct Quotas {
    /// Workspaces of one caller. Default 32.
    pub workspaces: usize,
    /// Workspaces of all callers. Default 256.
    pub all_workspaces: usize,
    /// Bytes of files that one workspace holds beside its source. Default 64 MiB.
    pub bytes: u64,
    /// Bytes of one file, and of an export. Default 16 MiB.
    pub file: u64,
    /// Files and folders that one workspace holds beside its source. Default 4,096.
    pub files: u64,
    /// Files in one call. Default 1,024.
    pub at_once: usize,
    /// Snapshots of one workspace; together they hold at most four times what it may. Default 16.
    pub snapshots: usize,
    /// How long a workspace lives after it was last used. Default 24 hours.
    pub time_to_live: Duration,
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            workspaces: 32,
            all_workspaces: 256,
            bytes: 64 << 20,
            file: 16 << 20,
            files: 4096,
            at_once: 1024,
            snapshots: 16,
            time_to_live: Duration::from_secs(24 * 3600),
        }
    }
}

/// All workspaces of a service.
#[derive(Debug)]
pub struct Workspaces {
    folder: Arc<ServiceFolder>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    store: Arc<Store>,
    quotas: Quotas,
    folders: RwLock<Folders>,
    /// What callers that are one process have made or named: of others they are told nothing.
    met: Mutex<BTreeSet<(Caller, String)>>,
    /// When this process used them last, by a clock that nobody sets.
    used: Mutex<HashMap<String, Instant>>,
    /// Held while workspaces are counted and one more is made.
    making: Mutex<()>,
}

/// Where a run takes place.
#[derive(Clone, Debug)]
pub enum Place {
    /// Files for this run alone.
    Temporary(Arc<Temporary>),
    /// A workspace as it was when it was pinned.
    Kept(Arc<Kept>),
}

impl Place {
    /// The host's folder. Not for a caller's eyes.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        match self {
            Self::Temporary(temporary) => temporary.path().to_owned(),
            Self::Kept(kept) => kept.mount().0,
        }
    }

    /// The workspace, where it is one that stays.
    #[must_use]
    pub fn kept(&self) -> Option<&Arc<Kept>> {
        match self {
            Self::Temporary(_) => None,
            Self::Kept(kept) => Some(kept),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does something once nobody else has the workspace.
fn patiently<T>(work: impl Fn() -> Result<T, StoreError>) -> Result<T, StoreError> {
    let until = Instant::now() + PATIENCE;
    loop {
        match work() {
            Err(StoreError::InUse(_)) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(5));
            }
            other => return other,
        }
    }
}

/// How long nobody has used a workspace: by the calendar, which counts other processes' use too and has no answer where the clock
/// was set back, and by this process's own clock, where it used it. A clock that is set forward makes nothing old that was used
/// here.
fn unused(calendar: Option<Duration>, here: Option<Duration>) -> Duration {
    let calendar = calendar.unwrap_or_default();
    here.map_or(calendar, |here| here.min(calendar))
}

impl Shared {
    fn folders(&self) -> RwLockReadGuard<'_, Folders> {
        self.folders.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nobody has used it for long.
    fn is_old(&self, id: &str) -> bool {
        let Ok(calendar) = self.store.used(id) else { return false };
        let here = locked(&self.used).get(id).map(Instant::elapsed);
        unused(calendar.elapsed().ok(), here) > self.quotas.time_to_live
    }

    /// Whether a caller knows of it: it is its own, and a process knows only what it has met.
    fn knows(&self, caller: &Caller, summary: &Summary) -> bool {
        summary.holder.as_deref() == Some(&caller.to_string())
            && (!caller.is_process() || locked(&self.met).contains(&(caller.clone(), summary.id.clone())))
    }

    fn meet(&self, caller: &Caller, id: &str) {
        locked(&self.used).insert(id.to_owned(), Instant::now());
        if caller.is_process() {
            locked(&self.met).insert((caller.clone(), id.to_owned()));
        }
    }

    /// Every workspace that some caller has.
    fn of_callers(&self) -> Result<Vec<Summary>, ErrorReport> {
        let ids = self.store.ids().map_err(|e| of_store(&e))?;
        // One may go while we look.
        let all = ids.iter().filter(|id| !self.is_old(id)).filter_map(|id| self.store.look(id).ok());
        Ok(all.filter(|summary| summary.holder.is_some()).collect())
    }

    /// Whether a caller may have one more.
    fn room(&self, caller: &Caller) -> Result<(), ErrorReport> {
        let all = self.of_callers()?;
        let own = all.iter().filter(|summary| self.knows(caller, summary)).count();
        if own >= self.quotas.workspaces {
            return Err(over("workspaces", own as u64 + 1, self.quotas.workspaces as u64)
                .hint("remove one with workspace_remove"));
        }
        if all.len() >= self.quotas.all_workspaces {
            return Err(ErrorReport::new(Code::Busy, "there are too many workspaces").hint("try again later"));
        }
        Ok(())
    }
}

impl Workspaces {
    pub(super) fn open(state: &StateFolder, quotas: Quotas, folders: Folders) -> Result<Self, ErrorReport> {
        let folder = Arc::new(ServiceFolder::make(state)?);
        let quota = Quota { bytes: quotas.bytes, files: quotas.files };
        let store = Store::open(&state.path().join(crate::workspaces::FOLDER), quota, None);
        let store = Arc::new(store.map_err(|e| crate::workspaces::report(&e))?);
        let (met, used, making) = (Mutex::default(), Mutex::default(), Mutex::default());
        Ok(Self {
            folder,
            shared: Arc::new(Shared { store, quotas, folders: RwLock::new(folders), met, used, making }),
        })
    }

    /// Other folders of the host are allowed from now on.
    pub(super) fn allow(&self, folders: Folders) {
        *self.shared.folders.write().unwrap_or_else(PoisonError::into_inner) = folders;
    }

    /// The name of the service's own folder.
    #[must_use]
    pub(super) fn service(&self) -> String {
        self.folder.path().file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The quotas.
    #[must_use]
    pub fn quotas(&self) -> &Quotas {
        &self.shared.quotas
    }

    /// Makes one with these files, over a folder of the host where the operator allows that. Blocks.
    ///
    /// # Errors
    /// A report: a quota, a path, a folder, or the disk. Nothing is made then.
    pub fn create(
        &self,
        caller: &Caller,
        files: &[NewFile],
        folder: Option<&str>,
    ) -> Result<Workspace, ErrorReport> {
        let shared = &self.shared;
        files::plan(files, &shared.quotas)?;
        let source = match folder {
            Some(folder) => Source::Folder(shared.folders().readable(folder)?),
            None => Source::Empty,
        };
        let _one = locked(&shared.making);
        shared.room(caller)?;
        let holder = caller.to_string();
        let id = {
            let made = shared.store.create_for(source, Some(&holder)).map_err(|e| of_store(&e))?;
            made.id().to_owned()
        };
        shared.meet(caller, &id);
        let workspace = Workspace::new(id, caller, shared);
        if !files.is_empty()
            && let Err(report) = workspace.write(files)
        {
            shared.store.remove(&workspace.id).map_err(|e| of_store(&e))?;
            return Err(report);
        }
        Ok(workspace)
    }

    /// A plain folder with files that no caller can name, gone with its last use. Blocks.
    ///
    /// # Errors
    /// A report: a quota, a path, or the disk.
    pub fn temporary(&self, files: &[NewFile]) -> Result<Arc<Temporary>, ErrorReport> {
        let planned = files::plan(files, &self.shared.quotas)?;
        Temporary::make(&self.folder, &planned).map(Arc::new)
    }

    /// A caller's workspace by its name; it counts as used.
    ///
    /// # Errors
    /// The same report for what does not exist, what has been removed and what is another caller's.
    pub fn get(&self, caller: &Caller, id: &str) -> Result<Workspace, ErrorReport> {
        let shared = &self.shared;
        let summary = shared.store.look(id).map_err(|_| unknown())?;
        if summary.holder.as_deref() != Some(&caller.to_string()) || shared.is_old(id) {
            return Err(unknown());
        }
        if let Source::Folder(folder) = &summary.source {
            shared.folders().still_readable(folder)?;
        }
        shared.store.touch(id).map_err(|_| unknown())?;
        shared.meet(caller, id);
        Ok(Workspace::new(id.to_owned(), caller, shared))
    }

    /// A caller's workspaces by name. Blocks.
    #[must_use]
    pub fn list(&self, caller: &Caller) -> Vec<Workspace> {
        let mut all = self.shared.of_callers().unwrap_or_default();
        all.retain(|summary| self.shared.knows(caller, summary));
        let mut own: Vec<_> =
            all.into_iter().map(|summary| Workspace::new(summary.id, caller, &self.shared)).collect();
        own.sort_by(|a, b| a.id.cmp(&b.id));
        own
    }

    /// Another one that begins where this is. Blocks.
    ///
    /// # Errors
    /// A report: a quota, or as [`Workspaces::get`].
    pub fn fork(&self, caller: &Caller, id: &str) -> Result<Workspace, ErrorReport> {
        self.get(caller, id)?;
        let shared = &self.shared;
        let _one = locked(&shared.making);
        shared.room(caller)?;
        let fork = shared.store.fork(id).map_err(|e| of_store(&e))?.id().to_owned();
        shared.meet(caller, &fork);
        Ok(Workspace::new(fork, caller, shared))
    }

    /// Removes one; what a run of it still needs goes when that has ended. Blocks.
    ///
    /// # Errors
    /// As [`Workspaces::get`].
    pub fn remove(&self, caller: &Caller, id: &str) -> Result<(), ErrorReport> {
        self.get(caller, id)?;
        patiently(|| self.shared.store.remove(id)).map_err(|e| of_store(&e))
    }

    /// Removes what nobody has used for long, and layers that ended runs have left. Blocks.
    pub(super) fn forget(&self) {
        let store = &self.shared.store;
        for id in store.ids().unwrap_or_default() {
            let of_caller = || store.look(&id).is_ok_and(|summary| summary.holder.is_some());
            // Somebody may have begun to use it in this moment.
            if self.shared.is_old(&id)
                && of_caller()
                && let Err(error) = store.remove(&id)
            {
                tracing::info!("an unused workspace stays: {error}");
            }
        }
        let left: BTreeSet<String> = store.ids().unwrap_or_default().into_iter().collect();
        locked(&self.shared.used).retain(|id, _| left.contains(id));
        if let Err(error) = store.sweep() {
            tracing::warn!("layers that nobody needs stay: {error}");
        }
    }
}
