//! Pins keep a workspace's layers from being removed while a reader, usually a run, needs them, without
//! locking the workspace. A pin is a file that names layers and is locked while its owner lives.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::{LOCK, Listed, PINS, Record, Result, Store, StoreError, Summary, summary};
use crate::changes::{Change, changes};
use crate::folder::Folder;
use crate::random_hex;
use crate::stack::{Layer, Stack};

/// State of a workspace at one moment. It stays readable while this value lives, whatever happens to the
/// workspace.
#[derive(Debug)]
pub struct Pinned {
    id: String,
    pub(super) record: Record,
    base: PathBuf,
    layers: Vec<PathBuf>,
    store: Folder,
    pin: PathBuf,
    _lock: File,
}

impl Pinned {
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
        (self.base.clone(), self.layers.clone())
    }

    /// Opens the folders.
    pub(super) fn open(&self) -> Result<Open> {
        Open::of(&self.base, &self.layers)
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

    /// Writes the view as a tar archive: files, folders, and links as links.
    ///
    /// # Errors
    /// As [`Pinned::with_view`].
    pub fn export(&self, to: impl Write) -> Result<()> {
        self.with_view(|_, view| super::export::tar(view, to))
    }

    /// Writes the view into an empty folder as plain files, folders and links, within the limits of `most`.
    ///
    /// # Errors
    /// [`StoreError::Io`] when the view exceeds `most` or an operation fails; [`StoreError::Source`] when the
    /// source cannot be opened.
    pub fn copy_to(&self, to: &Folder, most: super::Quota) -> Result<()> {
        self.with_view(|_, view| super::export::plain(view, to, most))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // A pin that is left behind has no effect without its lock.
        if let Err(error) = self.store.remove_file(&self.pin) {
            tracing::debug!("a pin is left to the next sweep: {error}");
        }
    }
}

/// The folders of a view, held open.
pub(super) struct Open {
    pub(super) base: Folder,
    pub(super) layers: Vec<Folder>,
}

impl Open {
    pub(super) fn of(base: &Path, layers: &[PathBuf]) -> Result<Self> {
        Ok(Self {
            base: Folder::open(base).map_err(|error| StoreError::Source { path: base.into(), error })?,
            layers: layers.iter().map(|l| Folder::ours(l)).collect::<io::Result<_>>()?,
        })
    }
    pub(super) fn base(&self) -> Stack<'_> {
        Stack::new([], &self.base)
    }
    pub(super) fn layers(&self) -> Vec<Layer<'_>> {
        self.layers.iter().map(Layer::over).collect()
    }
    pub(super) fn view(&self) -> Stack<'_> {
        Stack::new(self.layers(), &self.base)
    }
    pub(super) fn changes(&self) -> Result<Vec<Change>> {
        Ok(changes(&self.base(), &self.layers(), &[], super::MAX_PATHS)?)
    }
}

impl Store {
    /// Pins the present state of a workspace. Other processes may use and change the workspace meanwhile.
    ///
    /// # Errors
    /// [`StoreError::Unknown`] when there is no such workspace; [`StoreError::Io`] when the pin cannot be
    /// written.
    pub fn pin(&self, id: &str) -> Result<Pinned> {
        // Keeps a sweep from running between reading the list of layers and writing the pin.
        let shared = self.lock_file(LOCK)?;
        flock(&shared, FlockOperation::LockShared).map_err(io::Error::from)?;
        let record = self.read(id)?;
        let pin = Path::new(PINS).join(random_hex()?);
        let mut file = self.folder.create(&pin)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(io::Error::from)?;
        let names: Vec<_> = record.layers.iter().map(|l| l.name.as_str()).collect();
        file.write_all(names.join("\n").as_bytes())?;
        let (base, layers) = self.mount(&record);
        let store = Folder::ours(&self.path)?;
        Ok(Pinned { id: id.to_owned(), record, base, layers, store, pin, _lock: file })
    }

    /// Layers pinned by live processes; pins of dead ones are removed. The caller holds the store's lock
    /// exclusively.
    pub(super) fn pinned(&self) -> Result<BTreeSet<String>> {
        let mut layers = BTreeSet::new();
        for name in self.folder.names(Path::new(PINS))? {
            let path = Path::new(PINS).join(name);
            // The owner has just removed the pin.
            let Ok(mut pin) = self.folder.file(&path) else { continue };
            if flock(&pin, FlockOperation::NonBlockingLockExclusive).is_ok() {
                let _ = self.folder.remove_file(&path);
                continue;
            }
            let mut text = String::new();
            pin.rewind()?;
            pin.read_to_string(&mut text)?;
            layers.extend(text.lines().map(str::to_owned));
        }
        Ok(layers)
    }

    /// Folder of a record's source, and its layers, the topmost first.
    pub(super) fn mount(&self, record: &Record) -> (PathBuf, Vec<PathBuf>) {
        let layer = |l: &Listed| self.layer_path(&l.name);
        (self.base_of(&record.source), record.layers.iter().map(layer).collect())
    }
}
