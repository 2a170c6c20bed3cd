//! A workspace that is held: its view, its changes, and each way to change it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::pins::{Open, Pinned};
use super::{
    LAYERS, LOCK, Listed, MOST_LAYERS, MOST_PATHS, Record, Result, Snapshot, Source, Store, StoreError,
    Summary, UNFINISHED, oldest, seconds, since, summary, total,
};
use crate::changes::{Change, changes};
use crate::commit::{CommitError, Committed, Terms, admit, commit, conflicts, moment};
use crate::folder::Folder;
use crate::layer::{self, Bytes, Held};
use crate::random_hex;
use crate::stack::{Layer, Stack, speaks};

/// A workspace that is held.
#[derive(Debug)]
pub struct Workspace<'a> {
    pub(super) store: &'a Store,
    pub(super) id: String,
    pub(super) record: Record,
    pub(super) _lock: File,
}

/// A file to be written.
#[derive(Clone, Debug)]
pub struct NewFile {
    /// Where.
    pub path: PathBuf,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// It can be executed.
    pub executable: bool,
}

impl Workspace<'_> {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What is told of it.
    #[must_use]
    pub fn summary(&self) -> Summary {
        summary(&self.id, &self.record)
    }

    /// What to mount: the folder, and the layers over it, the topmost first.
    #[must_use]
    pub fn mount(&self) -> (PathBuf, Vec<PathBuf>) {
        self.store.mount(&self.record)
    }

    /// Whom the source's folder belongs to.
    #[must_use]
    pub fn owner_of_source(&self) -> Option<(u32, u32)> {
        let folder = Folder::open(&self.mount().0).ok()?;
        folder.node(Path::new("")).ok().flatten().map(|node| node.owner)
    }

    fn open(&self) -> Result<Open> {
        let (base, layers) = self.mount();
        Open::of(&base, &layers)
    }

    /// What the workspace changed in its source.
    ///
    /// # Errors
    /// What the system says.
    pub fn changes(&self) -> Result<Vec<Change>> {
        self.open()?.changes()
    }

    /// Works on the view, with the source below it.
    ///
    /// # Errors
    /// What the system says.
    pub fn with_view<T>(&self, work: impl FnOnce(&Stack<'_>, &Stack<'_>) -> io::Result<T>) -> Result<T> {
        let open = self.open()?;
        Ok(work(&open.base(), &open.view())?)
    }

    /// Adds what a run changed: its overlay's upper layer, or its whole copy. `ignored` are mountpoints.
    ///
    /// # Errors
    /// More than it may hold; what the system says. Nothing is added then.
    pub fn absorb(&mut self, upper: &Folder, whole: bool, ignored: &[PathBuf]) -> Result<Vec<Change>> {
        let open = self.open()?;
        let before = open.view();
        let layer = Layer { folder: upper, whole };
        let found = changes(&before, &[layer], ignored, MOST_PATHS)?;
        self.add(&open, &before.with(layer), &found, self.record.since)?;
        Ok(found)
    }

    /// Adds what a run changed that began at `start`, where others may have changed the workspace since.
    ///
    /// # Errors
    /// [`StoreError::Moved`] when they changed the same; otherwise as [`Workspace::absorb`].
    pub fn absorb_since(
        &mut self,
        start: &Pinned,
        upper: &Folder,
        whole: bool,
        ignored: &[PathBuf],
    ) -> Result<Vec<Change>> {
        if start.record.layers == self.record.layers && start.record.since == self.record.since {
            return self.absorb(upper, whole, ignored);
        }
        let (then, open) = (start.open()?, self.open()?);
        let layer = Layer { folder: upper, whole };
        let (before, now) = (then.view(), open.view());
        let found = changes(&before, &[layer], ignored, MOST_PATHS)?;
        let moved = since::moved(&before, &now, &found, MOST_PATHS)?;
        if !moved.is_empty() {
            return Err(StoreError::Moved(moved));
        }
        self.add(&open, &before.with(layer), &found, start.record.since.min(self.record.since))?;
        Ok(found)
    }

    /// Writes files, with the folders around them; all or none.
    ///
    /// # Errors
    /// A path that is none; more than it may hold.
    pub fn write(&mut self, files: &[NewFile]) -> Result<()> {
        self.change_by(|upper| {
            for file in files {
                checked(&file.path)?;
                upper.make_all(file.path.parent().unwrap_or(Path::new("")))?;
                upper.remove_all(&file.path)?;
                upper.create(&file.path)?.write_all(&file.bytes)?;
                upper.set_mode(&file.path, if file.executable { 0o755 } else { 0o644 })?;
            }
            Ok(())
        })
    }

    /// Removes something with all that is in it.
    ///
    /// # Errors
    /// When it is not there.
    pub fn delete(&mut self, path: &Path) -> Result<()> {
        checked(path)?;
        if self.with_view(|_, view| view.node(path))?.is_none() {
            return Err(
                io::Error::new(io::ErrorKind::NotFound, format!("{} is not there", path.display())).into()
            );
        }
        self.change_by(|upper| {
            upper.make_all(path.parent().unwrap_or(Path::new("")))?;
            Ok(upper.whiteout(path)?)
        })
    }

    /// Adds what is put into a layer by hand.
    fn change_by(&mut self, fill: impl FnOnce(&Folder) -> Result<()>) -> Result<()> {
        let scratch = Path::new(LAYERS).join(format!("{UNFINISHED}{}-{}", std::process::id(), random_hex()?));
        self.store.folder.make(&scratch, 0o700)?;
        let filled = self.store.folder.folder(&scratch).map_err(StoreError::from).and_then(|upper| {
            fill(&upper)?;
            self.absorb(&upper, false, &[]).map(drop)
        });
        self.store.folder.remove_all(&scratch)?;
        filled
    }

    /// Adds changes, whose bytes are in the view `after`, of which everything else may be old.
    fn add(&mut self, open: &Open, after: &Stack<'_>, found: &[Change], since: (i64, i64)) -> Result<()> {
        if found.is_empty() {
            return Ok(());
        }
        let most = self.store.quota;
        let fits = |held: Held| held.bytes <= most.bytes && held.files <= most.files;
        let held = layer::held(found);
        // What layers say twice counts once, and is merged. Holes are never written: one such file is refused before.
        let full = !fits(total(&self.record.layers).and(held));
        if full && !fits(held) {
            return Err(StoreError::Quota { held, most });
        }
        let (before, owner) = (open.view(), self.store.owner);
        self.replace(|this| {
            let name =
                this.store.write_layer(|to| layer::write(&before, after, found, to, Bytes::Copied, owner))?;
            let mut layers = vec![Listed { name, held, since }];
            layers.extend(this.record.layers.iter().cloned());
            if !full && layers.len() <= MOST_LAYERS {
                return Ok(layers);
            }
            let merged = this.merged(&layers)?;
            let held = total(&merged);
            if full && !fits(held) {
                return Err(StoreError::Quota { held, most });
            }
            Ok(merged)
        })
    }

    /// The same view in one layer.
    fn merged(&self, layers: &[Listed]) -> Result<Vec<Listed>> {
        let base = Folder::open(&self.mount().0)?;
        let open = layers
            .iter()
            .map(|l| Folder::ours(&self.store.layer_path(&l.name)))
            .collect::<io::Result<Vec<_>>>()?;
        let bottom = Stack::new([], &base);
        let all: Vec<_> = open.iter().map(Layer::over).collect();
        let found = changes(&bottom, &all, &[], MOST_PATHS)?;
        let after = Stack::new(all, &base);
        let owner = self.store.owner;
        let name =
            self.store.write_layer(|to| layer::write(&bottom, &after, &found, to, Bytes::Shared, owner))?;
        Ok(vec![Listed { name, held: layer::held(&found), since: oldest(layers) }])
    }

    /// Gives the workspace another list of layers; layers that nobody has any more go.
    fn replace(&mut self, layers: impl FnOnce(&Self) -> Result<Vec<Listed>>) -> Result<()> {
        let lock = self.store.lock_file(LOCK)?;
        flock(&lock, FlockOperation::LockShared).map_err(io::Error::from)?;
        let layers = layers(self)?;
        let record = Record { layers, ..self.record.clone() };
        self.store.keep(&self.id, &record)?;
        self.record = record;
        drop(lock);
        self.store.sweep()
    }

    /// Keeps the present state under a name.
    ///
    /// # Errors
    /// A name that is taken.
    pub fn snapshot(&mut self, name: &str) -> Result<()> {
        if self.record.snapshots.iter().any(|s| s.name == name) {
            return Err(StoreError::SnapshotTaken(name.to_owned()));
        }
        let mut record = self.record.clone();
        let layers = record.layers.clone();
        record.snapshots.push(Snapshot { name: name.to_owned(), taken: seconds(), layers });
        self.store.keep(&self.id, &record)?;
        self.record = record;
        Ok(())
    }

    /// Goes back to a snapshot, or to the source as it is now.
    ///
    /// # Errors
    /// A snapshot that is not there.
    pub fn discard(&mut self, to: Option<&str>) -> Result<()> {
        let layers = match to {
            None => Vec::new(),
            Some(name) => {
                let found = self.record.snapshots.iter().find(|s| s.name == name);
                found.ok_or_else(|| StoreError::NoSnapshot(name.to_owned()))?.layers.clone()
            }
        };
        if layers.is_empty() {
            self.record.since = moment();
        }
        self.replace(|_| Ok(layers))
    }

    /// Another workspace that begins where this one is, sharing its bytes.
    ///
    /// # Errors
    /// What the system says.
    pub fn fork(&self) -> Result<Self> {
        self.store.fork(&self.id)
    }

    /// Takes the changes over into the source; the workspace is then without changes.
    ///
    /// # Errors
    /// Conflicts and whatever else [`commit`] refuses. What is left out stays in the workspace.
    pub fn commit(&mut self, allow_protected: bool, owner: Option<(u32, u32)>) -> Result<Committed> {
        if self.record.source == Source::Empty {
            return Err(StoreError::NoOriginal);
        }
        let open = self.open()?;
        let found = changes(&open.base(), &open.layers(), &[], MOST_PATHS)?;
        let conflicting = self.old_conflicts(&open, &found, allow_protected)?;
        if !conflicting.is_empty() {
            return Err(CommitError::Conflict(conflicting).into());
        }
        let most = self.store.quota.bytes;
        let terms = Terms { since: self.record.since, allow_protected, owner, most };
        let committed = commit(&open.view(), &open.base, &found, &terms)?;
        // What was left out is a change still; the rest is the source's, and whoever changes it there now is right.
        let left: BTreeSet<&Path> = committed.left.iter().map(|(path, _)| path.as_path()).collect();
        let mut rest = match left.is_empty() {
            true => Vec::new(),
            false => changes(&open.base(), &open.layers(), &[], MOST_PATHS)?,
        };
        rest.retain(|change| left.contains(change.path.as_path()));
        let since = oldest(&self.record.layers);
        self.record.since = moment();
        let owner = self.store.owner;
        self.replace(|this| {
            if rest.is_empty() {
                return Ok(Vec::new());
            }
            let (base, view) = (open.base(), open.view());
            let name =
                this.store.write_layer(|to| layer::write(&base, &view, &rest, to, Bytes::Shared, owner))?;
            Ok(vec![Listed { name, held: layer::held(&rest), since }])
        })?;
        Ok(committed)
    }

    /// What somebody changed since layers began that are older than the view: a snapshot's, or what a commit left out.
    fn old_conflicts(
        &self,
        open: &Open,
        found: &[Change],
        allow_protected: bool,
    ) -> io::Result<Vec<PathBuf>> {
        let mut all = BTreeSet::new();
        for (listed, folder) in self.record.layers.iter().zip(&open.layers) {
            if listed.since >= self.record.since {
                continue;
            }
            for change in found.iter().filter(|change| admit(change, allow_protected).is_none()) {
                if speaks(&Layer::over(folder), &change.path)?
                    && conflicts(change, open.base.node(&change.path)?.as_ref(), listed.since)
                {
                    all.insert(change.path.clone());
                }
            }
        }
        Ok(all.into_iter().collect())
    }

    /// Writes the view as a tar archive: files, folders, and links as links.
    ///
    /// # Errors
    /// What the system says.
    pub fn export(&self, to: impl Write) -> Result<()> {
        self.with_view(|_, view| super::export::tar(view, to))
    }
}

/// A path below a workspace.
fn checked(path: &Path) -> Result<()> {
    use std::path::Component;
    let good =
        path.components().all(|c| matches!(c, Component::Normal(_))) && path.components().next().is_some();
    if good { Ok(()) } else { Err(StoreError::Path(path.to_owned())) }
}
