//! A workspace that is held: its view, its changes, and each way to change it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::{
    LAYERS, LOCK, Listed, MOST_LAYERS, MOST_PATHS, Record, Result, Snapshot, Source, Store, StoreError,
    Summary, UNFINISHED, oldest, seconds, summary, total,
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

/// The folders of a view, held open.
struct Open {
    base: Folder,
    layers: Vec<Folder>,
}

impl Open {
    fn base(&self) -> Stack<'_> {
        Stack::new([], &self.base)
    }
    fn layers(&self) -> Vec<Layer<'_>> {
        self.layers.iter().map(Layer::over).collect()
    }
    fn view(&self) -> Stack<'_> {
        Stack::new(self.layers(), &self.base)
    }
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
        (self.base(), self.record.layers.iter().map(|l| self.store.layer_path(&l.name)).collect())
    }

    /// Whom the source's folder belongs to.
    #[must_use]
    pub fn owner_of_source(&self) -> Option<(u32, u32)> {
        let folder = Folder::open(&self.base()).ok()?;
        folder.node(Path::new("")).ok().flatten().map(|node| node.owner)
    }

    fn base(&self) -> PathBuf {
        match &self.record.source {
            Source::Empty => self.store.path.join("empty"),
            Source::Folder(path) => path.clone(),
        }
    }

    fn open(&self) -> Result<Open> {
        let (base, layers) = self.mount();
        Ok(Open {
            base: Folder::open(&base).map_err(|error| StoreError::Source { path: base, error })?,
            layers: layers.iter().map(|l| Folder::ours(l)).collect::<io::Result<_>>()?,
        })
    }

    /// What the workspace changed in its source.
    ///
    /// # Errors
    /// What the system says.
    pub fn changes(&self) -> Result<Vec<Change>> {
        let open = self.open()?;
        Ok(changes(&open.base(), &open.layers(), &[], MOST_PATHS)?)
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
        self.add(&open, layer, &found)?;
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

    fn add(&mut self, open: &Open, layer: Layer<'_>, found: &[Change]) -> Result<()> {
        if found.is_empty() {
            return Ok(());
        }
        let held = layer::held(found);
        let most = self.store.quota;
        let fits = |held: Held| held.bytes <= most.bytes && held.files <= most.files;
        let full = !fits(total(&self.record.layers).and(held));
        if full {
            // What layers say twice counts once, and is merged.
            let all: Vec<_> = [layer].into_iter().chain(open.layers()).collect();
            let merged = layer::held(&changes(&open.base(), &all, &[], MOST_PATHS)?);
            if !fits(merged) {
                return Err(StoreError::Quota { held: merged, most });
            }
        }
        let (before, owner) = (open.view(), self.store.owner);
        let after = before.with(layer);
        self.replace(|this| {
            let name = this
                .store
                .write_layer(|to| layer::write(&before, &after, found, to, Bytes::Copied, owner))?;
            let mut layers = vec![Listed { name, held, since: this.record.since }];
            layers.extend(this.record.layers.iter().cloned());
            if full || layers.len() > MOST_LAYERS { this.merged(&layers) } else { Ok(layers) }
        })
    }

    /// The same view in one layer.
    fn merged(&self, layers: &[Listed]) -> Result<Vec<Listed>> {
        let base = Folder::open(&self.base())?;
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
        let record = Record { created: seconds(), snapshots: Vec::new(), ..self.record.clone() };
        self.store.add(record)
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
        let mut rest = changes(&open.base(), &open.layers(), &[], MOST_PATHS)?;
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
        use crate::folder::Kind;
        self.with_view(|_, view| {
            let mut archive = tar::Builder::new(to);
            for (path, node) in view.walk(Path::new(""), MOST_PATHS)? {
                let mut header = tar::Header::new_gnu();
                header.set_mode(node.mode & 0o777);
                header.set_mtime(u64::try_from(node.changed.0).unwrap_or(0));
                header.set_size(0);
                match node.kind {
                    Kind::File => {
                        header.set_size(node.bytes);
                        header.set_entry_type(tar::EntryType::Regular);
                        archive.append_data(&mut header, &path, view.file(&path)?)?;
                    }
                    Kind::Folder => {
                        header.set_entry_type(tar::EntryType::Directory);
                        archive.append_data(&mut header, &path, io::empty())?;
                    }
                    Kind::Link => {
                        header.set_entry_type(tar::EntryType::Symlink);
                        archive.append_link(&mut header, &path, view.link(&path)?)?;
                    }
                    Kind::Whiteout | Kind::Special => {}
                }
            }
            archive.into_inner()?.flush()
        })
    }
}

/// A path below a workspace.
fn checked(path: &Path) -> Result<()> {
    use std::path::Component;
    let good =
        path.components().all(|c| matches!(c, Component::Normal(_))) && path.components().next().is_some();
    if good { Ok(()) } else { Err(StoreError::Path(path.to_owned())) }
}
