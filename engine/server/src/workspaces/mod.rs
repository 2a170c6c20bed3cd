//! Workspaces of callers: each has an owner, quotas and an unguessable name. They are in the same store as
//! the user's own workspaces, and are kept when the service ends.
//!
//! | module | idea |
//! | --- | --- |
//! | `workspace` | operations on one workspace |
//! | `allowed` | host folders that a workspace may be made over |
//! | `protected` | protected names in a commit, which a person approves |
//! | `files` | checks of files to be written |
//! | `missing` | names like one that is not there |
//! | `temporary` | a plain folder for one run |
//! | `errors` | error messages for callers |

mod allowed;
mod edits;
pub(crate) mod errors;
mod files;
mod missing;
mod protected;
mod temporary;
#[cfg(test)]
mod tests;
mod workspace;

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use hotcell_workspace::store::{Quota, Source, Store, StoreError, Summary};

pub use crate::workspaces::workspace::{Entry, EntryKind, Taken, Used, Workspace};
pub use allowed::Folders;
pub use edits::Edit;
pub use files::NewFile;
pub use temporary::Temporary;

use super::folder::ServiceFolder;
use crate::workspaces::errors::{of_store, over, unknown};
use hotcell_state::caller::Caller;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::StateFolder;
use hotcell_verbs::pinned::PinnedWorkspace;

/// Time limit for waiting for another call on the same workspace.
const WORKSPACE_TIMEOUT: Duration = Duration::from_secs(10);

/// Limits of workspaces.
#[derive(Clone, Copy, Debug)]
pub struct Quotas {
    /// Maximum number of workspaces per caller. Default 32.
    pub workspaces: usize,
    /// Maximum number of workspaces of all callers. Default 256.
    pub all_workspaces: usize,
    /// Maximum size of the files that one workspace holds beside its source, in bytes. Default 64 MiB.
    pub bytes: u64,
    /// Maximum size of one file, and of an export, in bytes. Default 16 MiB.
    pub file: u64,
    /// Maximum number of files and folders that one workspace holds beside its source. Default 4,096.
    pub files: u64,
    /// Maximum number of files in one call. Default 1,024.
    pub at_once: usize,
    /// Maximum number of snapshots per workspace; together they hold at most four times its quota. Default
    /// 16.
    pub snapshots: usize,
    /// Retention of a workspace after its last use. Default 24 hours.
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
    /// Workspaces that single-process callers have created or named; they learn of no others.
    met: Mutex<BTreeSet<(Caller, String)>>,
    /// Last use in this process, by the monotonic clock.
    used: Mutex<HashMap<String, Instant>>,
    /// Held while counting workspaces and creating one.
    making: Mutex<()>,
}

/// Working folder of a run.
#[derive(Clone, Debug)]
pub enum RunDir {
    /// Files for this run alone.
    Temporary(Arc<Temporary>),
    /// A pinned workspace.
    Pinned(Arc<PinnedWorkspace>),
}

impl RunDir {
    /// Folder on the host. Must not be shown to a caller.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        match self {
            Self::Temporary(temporary) => temporary.path().to_owned(),
            Self::Pinned(kept) => kept.mount().0,
        }
    }

    /// The pinned workspace, if it is one.
    #[must_use]
    pub fn kept(&self) -> Option<&Arc<PinnedWorkspace>> {
        match self {
            Self::Temporary(_) => None,
            Self::Pinned(kept) => Some(kept),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Retries while another call holds the workspace.
fn retry_while_busy<T>(work: impl Fn() -> Result<T, StoreError>) -> Result<T, StoreError> {
    let until = Instant::now() + WORKSPACE_TIMEOUT;
    loop {
        match work() {
            Err(StoreError::InUse(_)) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(5));
            }
            other => return other,
        }
    }
}

/// Time since the last use of a workspace. `calendar` is by the wall clock, includes uses by other processes,
/// and is `None` when the clock was set back; `here` is by this process's monotonic clock, if it used the
/// workspace. Setting the clock forward does not age a workspace used by this process.
fn unused(calendar: Option<Duration>, here: Option<Duration>) -> Duration {
    let calendar = calendar.unwrap_or_default();
    here.map_or(calendar, |here| here.min(calendar))
}

impl Shared {
    fn folders(&self) -> RwLockReadGuard<'_, Folders> {
        self.folders.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// True when it was unused for longer than the retention.
    fn is_old(&self, id: &str) -> bool {
        let Ok(calendar) = self.store.used(id) else { return false };
        let here = locked(&self.used).get(id).map(Instant::elapsed);
        unused(calendar.elapsed().ok(), here) > self.quotas.time_to_live
    }

    /// True when a caller may see it: it must be the owner, and a single-process caller must have met it.
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

    /// Workspaces of all callers.
    fn of_callers(&self) -> Result<Vec<Summary>, ErrorReport> {
        let ids = self.store.ids().map_err(|e| of_store(&e))?;
        // One may disappear meanwhile.
        let all = ids.iter().filter(|id| !self.is_old(id)).filter_map(|id| self.store.look(id).ok());
        Ok(all.filter(|summary| summary.holder.is_some()).collect())
    }

    /// Checks that a caller may create another one.
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
    pub(crate) fn open(state: &StateFolder, quotas: Quotas, folders: Folders) -> Result<Self, ErrorReport> {
        let folder = Arc::new(ServiceFolder::make(state)?);
        let quota = Quota { bytes: quotas.bytes, files: quotas.files };
        let store = Store::open(&state.path().join(hotcell_verbs::workspaces::FOLDER), quota, None);
        let store = Arc::new(store.map_err(|e| hotcell_verbs::workspaces::report(&e))?);
        let (met, used, making) = (Mutex::default(), Mutex::default(), Mutex::default());
        Ok(Self {
            folder,
            shared: Arc::new(Shared { store, quotas, folders: RwLock::new(folders), met, used, making }),
        })
    }

    /// Replaces the allowed host folders.
    pub fn allow(&self, folders: Folders) {
        *self.shared.folders.write().unwrap_or_else(PoisonError::into_inner) = folders;
    }

    /// Name of the service's own folder.
    #[must_use]
    pub fn service(&self) -> String {
        self.folder.path().file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The quotas.
    #[must_use]
    pub fn quotas(&self) -> &Quotas {
        &self.shared.quotas
    }

    /// Creates a workspace with these files, over a host folder if the operator allows it. Blocks.
    ///
    /// # Errors
    /// A report when a quota is exceeded, a path or folder is invalid, or the disk fails. Nothing is created
    /// then.
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

    /// Creates a plain folder with files that no caller can name, removed after its last use. Blocks.
    ///
    /// # Errors
    /// A report when a quota is exceeded, a path is invalid, or the disk fails.
    pub fn temporary(&self, files: &[NewFile]) -> Result<Arc<Temporary>, ErrorReport> {
        let planned = files::plan(files, &self.shared.quotas)?;
        Temporary::make(&self.folder, &planned).map(Arc::new)
    }

    /// A caller's workspace by its name; this counts as a use.
    ///
    /// # Errors
    /// One and the same report for unknown workspaces, removed workspaces and workspaces of other callers.
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

    /// Creates a workspace with the current contents of this one. Blocks.
    ///
    /// # Errors
    /// A report when a quota is exceeded, or as in [`Workspaces::get`].
    pub fn fork(&self, caller: &Caller, id: &str) -> Result<Workspace, ErrorReport> {
        self.get(caller, id)?;
        let shared = &self.shared;
        let _one = locked(&shared.making);
        shared.room(caller)?;
        let fork = shared.store.fork(id).map_err(|e| of_store(&e))?.id().to_owned();
        shared.meet(caller, &fork);
        Ok(Workspace::new(fork, caller, shared))
    }

    /// Removes a workspace; layers that a run still needs are removed when it has ended. Blocks.
    ///
    /// # Errors
    /// Like [`Workspaces::get`].
    pub fn remove(&self, caller: &Caller, id: &str) -> Result<(), ErrorReport> {
        self.get(caller, id)?;
        retry_while_busy(|| self.shared.store.remove(id)).map_err(|e| of_store(&e))
    }

    /// Removes workspaces unused for longer than the retention, and layers left by finished runs. Blocks.
    pub fn forget(&self) {
        let store = &self.shared.store;
        for id in store.ids().unwrap_or_default() {
            let of_caller = || store.look(&id).is_ok_and(|summary| summary.holder.is_some());
            // A caller may have used it again at this moment.
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
