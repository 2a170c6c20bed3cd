//! Persistent workspaces: a folder of the host or an empty one, with layers over it, each written once and
//! never changed.
//!
//! A change adds a new layer and writes a new list of layers, which replaces the old list by a rename: a
//! process that is killed leaves either list intact. Snapshots and forks are lists that share the same
//! layers.

mod export;
mod pins;
mod since;
mod workspace;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::commit::{CommitError, moment};
use crate::folder::Folder;
use crate::layer::Held;
use crate::random_hex;

pub use pins::Pinned;
pub use workspace::{NewFile, Workspace};

/// Maximum number of layers over a workspace's folder; more are merged into one.
const MAX_LAYERS: usize = 8;
/// Maximum number of paths that are examined in one workspace.
const MAX_PATHS: usize = 2_000_000;
const LAYERS: &str = "layers";
const PINS: &str = "pins";
const LOCK: &str = "lock";
/// Name prefix of a layer that is being written; the writer's process id follows.
const UNFINISHED: &str = "unfinished-";

/// Origin of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// An empty workspace.
    Empty,
    /// A folder of the host, which only [`Workspace::commit`] writes to.
    Folder(PathBuf),
}

/// Limits on what a workspace holds in addition to its source.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    /// Bytes of files. Default 4 GiB.
    pub bytes: u64,
    /// Number of files, folders, links and deletions. Default 1,000,000.
    pub files: u64,
}

impl Default for Quota {
    fn default() -> Self {
        Self { bytes: 4 << 30, files: 1_000_000 }
    }
}

/// A layer in the list of a workspace or snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Listed {
    name: String,
    held: Held,
    /// Time at which the view of the source that this layer changes was taken.
    #[serde(default)]
    since: (i64, i64),
}

/// A saved state that a workspace can go back to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Name of the snapshot.
    pub name: String,
    /// Time of the snapshot: seconds since 1970.
    pub taken: u64,
    layers: Vec<Listed>,
}

/// Persistent record of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    source: Source,
    /// Time at which the view of the source was taken, on the clock of file times; older layers have a time
    /// of their own.
    since: (i64, i64),
    created: u64,
    /// Name of the caller whom the workspace was made for; `None` for the store's own user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
    /// Layers, the topmost first.
    layers: Vec<Listed>,
    snapshots: Vec<Snapshot>,
}

/// Errors of a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such workspace.
    #[error("there is no workspace {0}")]
    Unknown(String),
    /// There is no such snapshot.
    #[error("the workspace has no snapshot {0:?}")]
    NoSnapshot(String),
    /// The snapshot name is taken.
    #[error("the workspace has a snapshot {0:?} already; choose another name")]
    SnapshotTaken(String),
    /// A run or another command holds the workspace.
    #[error("the workspace {0} is in use; wait for its run to end")]
    InUse(String),
    /// Others changed the same paths since the run began. Nothing of the run was kept.
    #[error("{} changed in the workspace since the run began{}; nothing of the run was kept", .0[0].display(), more(.0.len()))]
    Moved(Vec<PathBuf>),
    /// The path is not a path below a workspace.
    #[error("{0:?} is no path below a workspace: relative, without . and ..")]
    Path(PathBuf),
    /// The workspace would exceed its quota.
    #[error("the workspace would hold {bytes} bytes in {files} files; at most {most_bytes} bytes in {most_files} files", bytes = .held.bytes, files = .held.files, most_bytes = .most.bytes, most_files = .most.files)]
    Quota {
        /// Size that the workspace would have.
        held: Held,
        /// Limits.
        most: Quota,
    },
    /// The workspace's source is gone or cannot be read.
    #[error("the workspace's folder {path}: {error}", path = .path.display())]
    Source {
        /// Path of the source.
        path: PathBuf,
        /// Error of the system call.
        error: io::Error,
    },
    /// The workspace has no source folder to commit to.
    #[error("the workspace was not made from a folder, so there is nothing to commit to; export it")]
    NoOriginal,
    /// A commit was refused.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// An operation on the store's own files failed.
    #[error("the store of workspaces: {0}")]
    Io(#[from] io::Error),
}

type Result<T> = std::result::Result<T, StoreError>;

/// A folder with workspaces.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    folder: Folder,
    quota: Quota,
    /// Owner and group of layers; `None` for those of the writing process.
    owner: Option<(u32, u32)>,
}

impl Store {
    /// Opens a store, and creates it when it does not exist.
    ///
    /// # Errors
    /// [`StoreError::Io`] when the store's folders cannot be made or opened.
    pub fn open(path: &Path, quota: Quota, owner: Option<(u32, u32)>) -> Result<Self> {
        let mut private = std::fs::DirBuilder::new();
        private.recursive(true).mode(0o700).create(path)?;
        private.create(path.join(PINS))?;
        for inner in [LAYERS, "empty"] {
            std::fs::DirBuilder::new().recursive(true).mode(0o755).create(path.join(inner))?;
        }
        let store = Self { folder: Folder::ours(path)?, path: path.canonicalize()?, quota, owner };
        if let Some(owner) = owner {
            store.folder.own(Path::new("empty"), owner)?;
        }
        Ok(store)
    }

    /// Makes a workspace, which is ready at once, whatever the size of the source.
    ///
    /// # Errors
    /// [`StoreError::Source`] when the source is not a folder that can be opened; [`StoreError::Io`] when the
    /// record cannot be written.
    pub fn create(&self, source: Source) -> Result<Workspace<'_>> {
        self.create_for(source, None)
    }

    /// Like [`Store::create`], and records whom the workspace is for. With a `holder` its id has 64 more
    /// random bits, so that it cannot be guessed.
    ///
    /// # Errors
    /// As [`Store::create`].
    pub fn create_for(&self, source: Source, holder: Option<&str>) -> Result<Workspace<'_>> {
        let source = match source {
            Source::Empty => Source::Empty,
            Source::Folder(path) => {
                let whole = path.canonicalize().and_then(|p| Folder::open(&p).map(|_| p));
                Source::Folder(whole.map_err(|error| StoreError::Source { path, error })?)
            }
        };
        self.add(Record {
            source,
            since: moment(),
            created: seconds(),
            holder: holder.map(str::to_owned),
            layers: Vec::new(),
            snapshots: Vec::new(),
        })
    }

    fn add(&self, record: Record) -> Result<Workspace<'_>> {
        let more = if record.holder.is_some() { random_hex()? } else { String::new() };
        let id = format!("ws_{}{more}", random_hex()?);
        let lock = self.hold(&id)?;
        self.keep(&id, &record)?;
        Ok(Workspace { store: self, id, record, _lock: lock })
    }

    /// Ids of all workspaces.
    ///
    /// # Errors
    /// [`StoreError::Io`] when the store cannot be read.
    pub fn ids(&self) -> Result<Vec<String>> {
        let names = self.folder.names(Path::new(""))?;
        let json = |name: std::ffi::OsString| Some(name.to_str()?.strip_suffix(".json")?.to_owned());
        Ok(names.into_iter().filter_map(json).filter(|id| id.starts_with("ws_")).collect())
    }

    /// Takes a workspace exclusively: no other process can take it until it is dropped.
    ///
    /// # Errors
    /// [`StoreError::Unknown`] when there is no such workspace; [`StoreError::InUse`] when another process
    /// holds it.
    pub fn take(&self, id: &str) -> Result<Workspace<'_>> {
        self.read(id)?;
        let lock = self.hold(id)?;
        // Read again: the workspace may have changed, or gone, before we got the lock.
        Ok(Workspace { store: self, id: id.to_owned(), record: self.read(id)?, _lock: lock })
    }

    /// Like [`Store::take`], but waits up to `patience` for the present holder to let go.
    ///
    /// # Errors
    /// [`StoreError::Unknown`] when there is no such workspace; [`StoreError::InUse`] when it is still held
    /// after `patience`.
    pub fn take_within(&self, id: &str, patience: Duration) -> Result<Workspace<'_>> {
        let until = Instant::now() + patience;
        loop {
            match self.take(id) {
                Err(StoreError::InUse(_)) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                other => return other,
            }
        }
    }

    /// Records that a workspace is being used now.
    ///
    /// # Errors
    /// [`StoreError::Unknown`] when there is no such workspace; [`StoreError::Io`] when the time cannot be
    /// written.
    pub fn touch(&self, id: &str) -> Result<()> {
        self.read(id)?;
        Ok(self.lock_file(&format!("{id}.lock"))?.set_modified(SystemTime::now())?)
    }

    /// Time of the last use of a workspace.
    ///
    /// # Errors
    /// [`StoreError::Unknown`] when there is no such workspace.
    pub fn used(&self, id: &str) -> Result<SystemTime> {
        self.read(id)?;
        Ok(self.lock_file(&format!("{id}.lock"))?.metadata()?.modified()?)
    }

    /// Makes another workspace with the present state of this one, sharing its layers. Does not wait for the
    /// holder.
    ///
    /// # Errors
    /// [`StoreError::Unknown`] when there is no such workspace.
    pub fn fork(&self, id: &str) -> Result<Workspace<'_>> {
        // The pin keeps the layers alive until the fork's record lists them.
        let pinned = self.pin(id)?;
        let record = Record { created: seconds(), snapshots: Vec::new(), ..pinned.record.clone() };
        self.add(record)
    }

    /// Summary of a workspace, which another process may be using.
    ///
    /// # Errors
    /// [`StoreError::Unknown`] when there is no such workspace.
    pub fn look(&self, id: &str) -> Result<Summary> {
        Ok(summary(id, &self.read(id)?))
    }

    /// Removes a workspace.
    ///
    /// # Errors
    /// [`StoreError::Unknown`] when there is no such workspace; [`StoreError::InUse`] when another process
    /// holds it.
    pub fn remove(&self, id: &str) -> Result<()> {
        let taken = self.take(id)?;
        self.folder.remove_file(Path::new(&format!("{id}.json")))?;
        self.folder.remove_file(Path::new(&format!("{id}.lock")))?;
        drop(taken);
        self.sweep()
    }

    fn read(&self, id: &str) -> Result<Record> {
        let unknown = || StoreError::Unknown(id.to_owned());
        let known = id.strip_prefix("ws_").is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
        if !known {
            return Err(unknown());
        }
        let text = match self.folder.file(Path::new(&format!("{id}.json"))) {
            Ok(file) => io::read_to_string(file)?,
            Err(_) => return Err(unknown()),
        };
        serde_json::from_str(&text).map_err(|e| StoreError::Io(e.into()))
    }

    /// Replaces a record atomically.
    fn keep(&self, id: &str, record: &Record) -> Result<()> {
        let (new, place) = (format!("{id}.new"), format!("{id}.json"));
        self.folder.remove_all(Path::new(&new))?;
        let mut file = self.folder.create(Path::new(&new))?;
        file.write_all(&serde_json::to_vec(record).map_err(io::Error::from)?)?;
        file.sync_all()?;
        Ok(self.folder.take(Path::new(&place), &self.folder, Path::new(&new))?)
    }

    fn lock_file(&self, name: &str) -> io::Result<File> {
        File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.path.join(name))
    }

    fn hold(&self, id: &str) -> Result<File> {
        let lock = self.lock_file(&format!("{id}.lock"))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                lock.set_modified(SystemTime::now())?;
                Ok(lock)
            }
            Err(rustix::io::Errno::WOULDBLOCK) => Err(StoreError::InUse(id.to_owned())),
            Err(e) => Err(io::Error::from(e).into()),
        }
    }

    fn layer_path(&self, name: &str) -> PathBuf {
        self.path.join(LAYERS).join(name)
    }

    /// Writes a layer under a temporary name, syncs it, and renames it to its final name.
    fn write_layer(&self, write: impl FnOnce(&Folder) -> io::Result<()>) -> Result<String> {
        let name = random_hex()?;
        let unfinished = Path::new(LAYERS).join(format!("{UNFINISHED}{}-{name}", std::process::id()));
        self.folder.make(&unfinished, 0o755)?;
        if let Some(owner) = self.owner {
            self.folder.own(&unfinished, owner)?;
        }
        let folder = self.folder.folder(&unfinished)?;
        let written = write(&folder).and_then(|()| folder.sync());
        if let Err(error) = written {
            self.folder.remove_all(&unfinished)?;
            return Err(error.into());
        }
        self.folder.take(&Path::new(LAYERS).join(&name), &self.folder, &unfinished)?;
        Ok(name)
    }

    fn base_of(&self, source: &Source) -> PathBuf {
        match source {
            Source::Empty => self.path.join("empty"),
            Source::Folder(path) => path.clone(),
        }
    }

    /// Removes layers that no record lists and no live process has pinned. Each change of a workspace calls
    /// this; call it also after a pin has ended.
    ///
    /// # Errors
    /// [`StoreError::Io`] when the store cannot be read or a layer cannot be removed.
    pub fn sweep(&self) -> Result<()> {
        let lock = self.lock_file(LOCK)?;
        // A writer that adds a layer holds this lock shared until its record lists the layer.
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(());
        }
        let mut used = self.pinned()?;
        for id in self.ids()? {
            let record = match self.read(&id) {
                Ok(record) => record,
                // The workspace was removed since its id was read.
                Err(StoreError::Unknown(_)) => continue,
                Err(error) => {
                    tracing::warn!(
                        "layers that nobody needs stay, because the workspace {id} cannot be read: {error}"
                    );
                    return Ok(());
                }
            };
            let snapshots = record.snapshots.into_iter().flat_map(|s| s.layers);
            used.extend(record.layers.into_iter().chain(snapshots).map(|l| l.name));
        }
        for name in self.folder.names(Path::new(LAYERS))? {
            let text = name.to_string_lossy();
            let writer = text.strip_prefix(UNFINISHED).and_then(|rest| rest.split('-').next());
            let alive = writer.is_some_and(|pid| Path::new("/proc").join(pid).exists());
            if !alive && !used.contains(text.as_ref()) {
                self.folder.remove_all(&Path::new(LAYERS).join(&name))?;
            }
        }
        Ok(())
    }
}

/// Summary of a workspace, for listings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Id of the workspace.
    pub id: String,
    /// Origin of the workspace.
    pub source: Source,
    /// Time of creation: seconds since 1970.
    pub created: u64,
    /// Name of the caller whom the workspace was made for; `None` for the store's own user.
    pub holder: Option<String>,
    /// Size of the workspace's layers, without its source.
    pub held: Held,
    /// Like `held`, with the layers that only snapshots have.
    pub with_snapshots: Held,
    /// Snapshots, the oldest first.
    pub snapshots: Vec<Snapshot>,
}

fn summary(id: &str, record: &Record) -> Summary {
    Summary {
        id: id.to_owned(),
        source: record.source.clone(),
        created: record.created,
        holder: record.holder.clone(),
        held: total(&record.layers),
        with_snapshots: everything(record),
        snapshots: record.snapshots.clone(),
    }
}

/// Total size of all layers of a record, each layer counted once.
fn everything(record: &Record) -> Held {
    let snapshots = record.snapshots.iter().flat_map(|s| &s.layers);
    let all: BTreeMap<_, _> = record.layers.iter().chain(snapshots).map(|l| (&l.name, l.held)).collect();
    all.into_values().fold(Held::default(), Held::and)
}

fn total(layers: &[Listed]) -> Held {
    layers.iter().fold(Held::default(), |sum, layer| sum.and(layer.held))
}

/// Time at which the view of the oldest layer was taken.
fn oldest(layers: &[Listed]) -> (i64, i64) {
    layers.iter().map(|layer| layer.since).min().unwrap_or_default()
}

fn more(paths: usize) -> String {
    if paths > 1 { format!(", and {} more", paths - 1) } else { String::new() }
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

#[cfg(test)]
mod tests;
