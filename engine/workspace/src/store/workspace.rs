//! A workspace that is held exclusively: its view, its changes, and the operations on it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::pins::{Open, Pinned};
use super::{
    LAYERS, LOCK, Listed, MAX_LAYERS, MAX_PATHS, Record, Result, Snapshot, Source, Store, StoreError,
    Summary, UNFINISHED, oldest, seconds, since, summary, total,
};
use crate::admit::{Allow, Judge};
use crate::changes::{Change, changes};
use crate::commit::{CommitError, CommitOptions, Committed, commit, conflicts, moment};
use crate::folder::Folder;
use crate::layer::{self, Bytes, Held};
use crate::random_hex;
use crate::stack::{Layer, Stack, speaks};

/// A workspace that is held exclusively until it is dropped.
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
    /// Path below the workspace.
    pub path: PathBuf,
    /// Content of the file.
    pub bytes: Vec<u8>,
    /// Whether the file is executable.
    pub executable: bool,
}

impl Workspace<'_> {
    /// Id of the workspace.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Summary for listings.
    #[must_use]
    pub fn summary(&self) -> Summary {
        summary(&self.id, &self.record)
    }

    /// Folders to mount: the source, and the layers over it, the topmost first.
    #[must_use]
    pub fn mount(&self) -> (PathBuf, Vec<PathBuf>) {
        self.store.mount(&self.record)
    }

    /// Owner and group of the source folder; `None` when it cannot be read.
    #[must_use]
    pub fn owner_of_source(&self) -> Option<(u32, u32)> {
        let folder = Folder::open(&self.mount().0).ok()?;
        folder.node(Path::new("")).ok().flatten().map(|node| node.owner)
    }

    fn open(&self) -> Result<Open> {
        let (base, layers) = self.mount();
        Open::of(&base, &layers)
    }

    /// Changes of the workspace relative to its source.
    ///
    /// # Errors
    /// [`StoreError::Source`] when the source cannot be opened; [`StoreError::Io`] when reading fails.
    pub fn changes(&self) -> Result<Vec<Change>> {
        self.open()?.changes()
    }

    /// Calls `work` with the source and the view over it.
    ///
    /// # Errors
    /// [`StoreError::Source`] when the source cannot be opened; [`StoreError::Io`] when opening the layers or
    /// `work` fails.
    pub fn with_view<T>(&self, work: impl FnOnce(&Stack<'_>, &Stack<'_>) -> io::Result<T>) -> Result<T> {
        let open = self.open()?;
        Ok(work(&open.base(), &open.view())?)
    }

    /// Adds the changes of a run: its overlay's upper layer, or a complete copy when `whole`. `ignored` are
    /// mountpoints.
    ///
    /// # Errors
    /// [`StoreError::Quota`] when the workspace would exceed its quota; [`StoreError::Source`] or
    /// [`StoreError::Io`] when an operation fails. Nothing is added then.
    pub fn absorb(&mut self, upper: &Folder, whole: bool, ignored: &[PathBuf]) -> Result<Vec<Change>> {
        let open = self.open()?;
        let before = open.view();
        let layer = Layer { folder: upper, whole };
        let found = changes(&before, &[layer], ignored, MAX_PATHS)?;
        self.add(&open, &before.with(layer), &found, self.record.since)?;
        Ok(found)
    }

    /// Adds the changes of a run that began at `start`, where others may have changed the workspace since.
    ///
    /// # Errors
    /// [`StoreError::Moved`] when they changed the same paths; otherwise as [`Workspace::absorb`].
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
        let found = changes(&before, &[layer], ignored, MAX_PATHS)?;
        let moved = since::moved(&before, &now, &found, MAX_PATHS)?;
        if !moved.is_empty() {
            return Err(StoreError::Moved(moved));
        }
        self.add(&open, &before.with(layer), &found, start.record.since.min(self.record.since))?;
        Ok(found)
    }

    /// Writes all of the files, with their parent folders, or none.
    ///
    /// # Errors
    /// [`StoreError::Path`] when a path is not below the workspace; otherwise as [`Workspace::absorb`].
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

    /// Removes an entry with everything below it.
    ///
    /// # Errors
    /// [`StoreError::Io`] when the entry does not exist; otherwise as [`Workspace::write`].
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

    /// Adds a layer that `fill` writes.
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

    /// Adds changes whose content is in the view `after`; anything else in that view may be outdated.
    fn add(&mut self, open: &Open, after: &Stack<'_>, found: &[Change], since: (i64, i64)) -> Result<()> {
        if found.is_empty() {
            return Ok(());
        }
        let most = self.store.quota;
        let fits = |held: Held| held.bytes <= most.bytes && held.files <= most.files;
        let held = layer::held(found);
        // Merging counts content that several layers have only once. Holes count by their apparent size, so a
        // huge sparse file is rejected before it is written.
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
            if !full && layers.len() <= MAX_LAYERS {
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

    /// Merges layers into one that shows the same view.
    fn merged(&self, layers: &[Listed]) -> Result<Vec<Listed>> {
        let base = Folder::open(&self.mount().0)?;
        let open = layers
            .iter()
            .map(|l| Folder::ours(&self.store.layer_path(&l.name)))
            .collect::<io::Result<Vec<_>>>()?;
        let bottom = Stack::new([], &base);
        let all: Vec<_> = open.iter().map(Layer::over).collect();
        let found = changes(&bottom, &all, &[], MAX_PATHS)?;
        let after = Stack::new(all, &base);
        let owner = self.store.owner;
        let name =
            self.store.write_layer(|to| layer::write(&bottom, &after, &found, to, Bytes::Shared, owner))?;
        Ok(vec![Listed { name, held: layer::held(&found), since: oldest(layers) }])
    }

    /// Gives the workspace another list of layers, and removes layers that are no longer used.
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

    /// Saves the present state under a name.
    ///
    /// # Errors
    /// [`StoreError::SnapshotTaken`] when the name is taken; [`StoreError::Io`] when the record cannot be
    /// written.
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

    /// Goes back to a snapshot, or to the source as it is now when `to` is `None`.
    ///
    /// # Errors
    /// [`StoreError::NoSnapshot`] when there is no such snapshot; [`StoreError::Io`] when the record cannot
    /// be written.
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

    /// Makes another workspace with the present state of this one, sharing its layers.
    ///
    /// # Errors
    /// As [`Store::fork`].
    pub fn fork(&self) -> Result<Self> {
        self.store.fork(&self.id)
    }

    /// Applies the changes to the source. The workspace keeps only the changes that were left out.
    ///
    /// # Errors
    /// [`StoreError::NoOriginal`] when the workspace has no source folder; [`StoreError::Commit`] on
    /// conflicts and other errors of [`commit`]; [`StoreError::Source`] or [`StoreError::Io`] when another
    /// operation fails.
    pub fn commit(&mut self, allow: impl Into<Allow>, owner: Option<(u32, u32)>) -> Result<Committed> {
        self.commit_since(None, allow.into(), owner)
    }

    /// Like [`Workspace::commit`], for a caller that took `moment` and **then** found each changed path of the source with the contents that
    /// the change was made against: only what changed after it is a conflict.
    ///
    /// # Errors
    /// As [`Workspace::commit`].
    pub fn commit_as_of(
        &mut self,
        moment: (i64, i64),
        allow: impl Into<Allow>,
        owner: Option<(u32, u32)>,
    ) -> Result<Committed> {
        self.commit_since(Some(moment), allow.into(), owner)
    }

    fn commit_since(
        &mut self,
        checked: Option<(i64, i64)>,
        allow: Allow,
        owner: Option<(u32, u32)>,
    ) -> Result<Committed> {
        if self.record.source == Source::Empty {
            return Err(StoreError::NoOriginal);
        }
        let open = self.open()?;
        let found = changes(&open.base(), &open.layers(), &[], MAX_PATHS)?;
        let conflicting = match checked {
            Some(_) => Vec::new(),
            None => self.old_conflicts(&open, &found, allow)?,
        };
        if !conflicting.is_empty() {
            return Err(CommitError::Conflict(conflicting).into());
        }
        let most = self.store.quota.bytes;
        let terms = CommitOptions { since: checked.unwrap_or(self.record.since), allow, owner, most };
        let committed = commit(&open.view(), &open.base, &found, &terms)?;
        // Only changes that were left out remain. The rest is now the source's, and later changes there are
        // no conflicts.
        let left: BTreeSet<&Path> = committed.left.iter().map(|(path, _)| path.as_path()).collect();
        let mut rest = match left.is_empty() {
            true => Vec::new(),
            false => changes(&open.base(), &open.layers(), &[], MAX_PATHS)?,
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

    /// Conflicts with layers older than the present view of the source: layers of a snapshot, or those that a
    /// commit left out.
    fn old_conflicts(&self, open: &Open, found: &[Change], allow: Allow) -> io::Result<Vec<PathBuf>> {
        let older = |listed: &&Listed| listed.since < self.record.since;
        if !self.record.layers.iter().any(|listed| older(&listed)) {
            return Ok(Vec::new());
        }
        let (before, after) = (open.base(), open.view());
        let mut judge = Judge::new(&open.base, &before, &after, allow)?;
        let mut all = BTreeSet::new();
        for change in found {
            if judge.left(change)?.is_some() {
                continue;
            }
            for (listed, folder) in self.record.layers.iter().zip(&open.layers) {
                if older(&listed)
                    && speaks(&Layer::over(folder), &change.path)?
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
    /// As [`Workspace::with_view`].
    pub fn export(&self, to: impl Write) -> Result<()> {
        self.with_view(|_, view| super::export::tar(view, to))
    }
}

/// Checks that a path is below the workspace: relative, not empty, and without `.` and `..`.
fn checked(path: &Path) -> Result<()> {
    use std::path::Component;
    let good =
        path.components().all(|c| matches!(c, Component::Normal(_))) && path.components().next().is_some();
    if good { Ok(()) } else { Err(StoreError::Path(path.to_owned())) }
}
