//! Workspaces that stay: a folder of the host or one of our own, and layers over it, each written once and never changed.
//!
//! A change is a new layer and a new list of layers, which replaces the old one by a rename: whoever is killed leaves the
//! one or the other. Snapshots and forks are lists of the same layers.

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

/// An overlay has at most so many layers over its folder here; more are merged into one.
const MOST_LAYERS: usize = 8;
/// Paths that are looked at in one workspace.
const MOST_PATHS: usize = 2_000_000;
const LAYERS: &str = "layers";
const PINS: &str = "pins";
const LOCK: &str = "lock";
/// Begins the name of a layer that is being written; its writer's process id follows.
const UNFINISHED: &str = "unfinished-";

/// What a workspace is made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Nothing.
    Empty,
    /// A folder of the host, which only [`Workspace::commit`] writes to.
    Folder(PathBuf),
}

/// How much a workspace may hold beside its source.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    /// Bytes. Default 4 GiB.
    pub bytes: u64,
    /// Files, folders, links and deletions. Default 1,000,000.
    pub files: u64,
}

impl Default for Quota {
    fn default() -> Self {
        Self { bytes: 4 << 30, files: 1_000_000 }
    }
}

/// A layer in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Listed {
    name: String,
    held: Held,
    /// When the view of the source began that it changes.
    #[serde(default)]
    since: (i64, i64),
}

/// A state that can be gone back to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Its name.
    pub name: String,
    /// When it was taken: seconds since 1970.
    pub taken: u64,
    layers: Vec<Listed>,
}

/// What is kept of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    source: Source,
    /// When its view of the source began, on the clock of file times; layers that are older have their own.
    since: (i64, i64),
    created: u64,
    /// Who it was made for, by a name of theirs; nobody but the store's own user without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
    /// The topmost first.
    layers: Vec<Listed>,
    snapshots: Vec<Snapshot>,
}

/// Why a store refuses.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such workspace.
    #[error("there is no workspace {0}")]
    Unknown(String),
    /// There is no such snapshot.
    #[error("the workspace has no snapshot {0:?}")]
    NoSnapshot(String),
    /// The name is taken.
    #[error("the workspace has a snapshot {0:?} already; choose another name")]
    SnapshotTaken(String),
    /// A run or another command has it.
    #[error("the workspace {0} is in use; wait for its run to end")]
    InUse(String),
    /// Others changed the same since a run began. Nothing of the run was kept.
    #[error("{} changed in the workspace since the run began{}; nothing of the run was kept", .0[0].display(), more(.0.len()))]
    Moved(Vec<PathBuf>),
    /// Not below the workspace.
    #[error("{0:?} is no path below a workspace: relative, without . and ..")]
    Path(PathBuf),
    /// More than it may hold.
    #[error("the workspace would hold {bytes} bytes in {files} files; at most {most_bytes} bytes in {most_files} files", bytes = .held.bytes, files = .held.files, most_bytes = .most.bytes, most_files = .most.files)]
    Quota {
        /// What it would hold.
        held: Held,
        /// What it may.
        most: Quota,
    },
    /// Its source is gone or cannot be read.
    #[error("the workspace's folder {path}: {error}", path = .path.display())]
    Source {
        /// Which.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// It has no folder to commit to.
    #[error("the workspace was not made from a folder, so there is nothing to commit to; export it")]
    NoOriginal,
    /// A commit was refused.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The store's own files.
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
    /// Whom layers belong to; without, to whoever writes them.
    owner: Option<(u32, u32)>,
}

impl Store {
    /// Opens a store, and makes it when it is not there.
    ///
    /// # Errors
    /// What the system says.
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

    /// Makes a workspace; it is ready at once, whatever the size of the source.
    ///
    /// # Errors
    /// When the source is no folder.
    pub fn create(&self, source: Source) -> Result<Workspace<'_>> {
        self.create_for(source, None)
    }

    /// Makes a workspace that says who it is for; its id cannot be guessed.
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

    /// The ids of all workspaces.
    ///
    /// # Errors
    /// What the system says.
    pub fn ids(&self) -> Result<Vec<String>> {
        let names = self.folder.names(Path::new(""))?;
        let json = |name: std::ffi::OsString| Some(name.to_str()?.strip_suffix(".json")?.to_owned());
        Ok(names.into_iter().filter_map(json).filter(|id| id.starts_with("ws_")).collect())
    }

    /// Takes a workspace; nobody else can while it is held.
    ///
    /// # Errors
    /// When there is none, or somebody has it.
    pub fn take(&self, id: &str) -> Result<Workspace<'_>> {
        self.read(id)?;
        let lock = self.hold(id)?;
        // It may have changed, or gone, before the lock was ours.
        Ok(Workspace { store: self, id: id.to_owned(), record: self.read(id)?, _lock: lock })
    }

    /// The same, when others have let go of it within a time.
    ///
    /// # Errors
    /// When there is none, or somebody has it for longer.
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

    /// Notes that a workspace is used now.
    ///
    /// # Errors
    /// What the system says.
    pub fn touch(&self, id: &str) -> Result<()> {
        self.read(id)?;
        Ok(self.lock_file(&format!("{id}.lock"))?.set_modified(SystemTime::now())?)
    }

    /// When a workspace was used last.
    ///
    /// # Errors
    /// When there is none.
    pub fn used(&self, id: &str) -> Result<SystemTime> {
        self.read(id)?;
        Ok(self.lock_file(&format!("{id}.lock"))?.metadata()?.modified()?)
    }

    /// Another workspace that begins where this one is, sharing its bytes. Nobody is waited for.
    ///
    /// # Errors
    /// When there is none.
    pub fn fork(&self, id: &str) -> Result<Workspace<'_>> {
        // Its layers are nobody's before they are the other's.
        let pinned = self.pin(id)?;
        let record = Record { created: seconds(), snapshots: Vec::new(), ..pinned.record.clone() };
        self.add(record)
    }

    /// Looks at a workspace that somebody may be using.
    ///
    /// # Errors
    /// When there is none.
    pub fn look(&self, id: &str) -> Result<Summary> {
        Ok(summary(id, &self.read(id)?))
    }

    /// Removes a workspace.
    ///
    /// # Errors
    /// When there is none, or somebody has it.
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

    /// Replaces a record at once.
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

    /// Writes a layer under a name of its own and gives it its final one.
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

    /// Removes layers that no list has and nobody has pinned. Each change does; this is for when a pin has ended.
    ///
    /// # Errors
    /// What the system says.
    pub fn sweep(&self) -> Result<()> {
        let lock = self.lock_file(LOCK)?;
        // Whoever adds a layer holds it shared until his list has it.
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(());
        }
        let mut used = self.pinned()?;
        for id in self.ids()? {
            let record = match self.read(&id) {
                Ok(record) => record,
                // It was removed in this moment.
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

/// What is told of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Its id.
    pub id: String,
    /// What it was made from.
    pub source: Source,
    /// When: seconds since 1970.
    pub created: u64,
    /// Who it was made for; `None` for the store's own user.
    pub holder: Option<String>,
    /// What it holds beside its source.
    pub held: Held,
    /// The same with the layers that only its snapshots have.
    pub with_snapshots: Held,
    /// Its snapshots, the oldest first.
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

/// What all layers of a record hold, each counted once.
fn everything(record: &Record) -> Held {
    let snapshots = record.snapshots.iter().flat_map(|s| &s.layers);
    let all: BTreeMap<_, _> = record.layers.iter().chain(snapshots).map(|l| (&l.name, l.held)).collect();
    all.into_values().fold(Held::default(), Held::and)
}

fn total(layers: &[Listed]) -> Held {
    layers.iter().fold(Held::default(), |sum, layer| sum.and(layer.held))
}

/// When the view of the oldest layer began.
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
