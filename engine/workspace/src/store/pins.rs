//! Pins: whoever reads a workspace's layers for a while, a run above all, keeps them from being swept away without
//! keeping others from the workspace. A pin is a file that names layers and is locked while its owner lives.

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

/// A workspace's state at a moment, which stays readable while this is held, whatever others do with the workspace.
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
    /// The workspace's id.
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
        (self.base.clone(), self.layers.clone())
    }

    /// The folders, held open.
    pub(super) fn open(&self) -> Result<Open> {
        Open::of(&self.base, &self.layers)
    }

    /// What the workspace had changed in its source.
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

    /// Writes the view as a tar archive: files, folders, and links as links.
    ///
    /// # Errors
    /// What the system says.
    pub fn export(&self, to: impl Write) -> Result<()> {
        self.with_view(|_, view| super::export::tar(view, to))
    }

    /// Writes the view into an empty folder as plain files, folders and links, at most so many bytes and entries.
    ///
    /// # Errors
    /// More than that; what the system says.
    pub fn copy_to(&self, to: &Folder, most: super::Quota) -> Result<()> {
        self.with_view(|_, view| super::export::plain(view, to, most))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // A pin that stays counts for nothing without its lock.
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
        Ok(changes(&self.base(), &self.layers(), &[], super::MOST_PATHS)?)
    }
}

impl Store {
    /// Looks at a workspace as it is now, for as long as it takes: others may use and change it meanwhile.
    ///
    /// # Errors
    /// When there is none.
    pub fn pin(&self, id: &str) -> Result<Pinned> {
        // No sweep comes between the list of layers and the pin.
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

    /// Layers that somebody alive has pinned; pins of the dead go. For whoever holds the store's lock alone.
    pub(super) fn pinned(&self) -> Result<BTreeSet<String>> {
        let mut layers = BTreeSet::new();
        for name in self.folder.names(Path::new(PINS))? {
            let path = Path::new(PINS).join(name);
            // Its owner has just removed it.
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

    /// The folder of a record and its layers, the topmost first.
    pub(super) fn mount(&self, record: &Record) -> (PathBuf, Vec<PathBuf>) {
        let layer = |l: &Listed| self.layer_path(&l.name);
        (self.base_of(&record.source), record.layers.iter().map(layer).collect())
    }
}
