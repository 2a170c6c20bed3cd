//! Images on this host: layers by digest, each written once and never changed, and a record for each image
//! that names its layers.
//!
//! | path in the store | content |
//! | --- | --- |
//! | `layers/HEX/` | files of a layer, as an overlay's lower folder |
//! | `layers/HEX.about` | the layer's size, and counts of what was left out of it |
//! | `layers/HEX.table` | owners, modes and device numbers that the files on disk do not show |
//! | `layers/unfinished-PID-…` | data that is being written; removed once its writer is gone |
//! | `NAME.json` | record of an image |
//! | `built/HEX` | cache entry of a built layer, by the digest of its inputs |
//!
//! Layers and records are written under a temporary name and then renamed, so a process that is killed leaves
//! the old state or the new one. Layers that no record names are removed when no process uses them.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::image::{self, Config, Image, MAX_LAYERS, Top, TopKind};
use crate::stream::Digest;
use crate::tree::Kind;
use crate::unpack::{Limits, Recorded, Unpacked, unpack};
use crate::view::View;

const LAYERS: &str = "layers";
const LOCK: &str = "lock";
/// Name prefix of data that is being written; the writer's process id follows.
const UNFINISHED: &str = "unfinished-";
/// Maximum number of names in an image's root, each of which needs a rule of the sandbox.
const MAX_TOP_NAMES: usize = 1000;
/// Maximum size of a record, in bytes.
const MAX_RECORD_BYTES: u64 = 4 << 20;
type Result<T> = std::result::Result<T, StoreError>;

/// Facts about a layer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Size of its files in bytes.
    pub bytes: u64,
    /// Number of files, folders, links and deletions.
    pub entries: u64,
    /// Number of devices and pipes that were left out.
    pub special: u64,
    /// Number of files whose setuid or setgid bit was removed.
    pub setid: u64,
    /// Number of extended attributes that were left out.
    pub attributes_dropped: u64,
}

impl About {
    /// Facts about an archive that was unpacked.
    #[must_use]
    pub fn of(unpacked: &Unpacked) -> Self {
        let Unpacked { bytes, entries, special, setid, attributes_dropped, .. } = *unpacked;
        Self { bytes, entries, special, setid, attributes_dropped }
    }
}

/// A folder with images.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
}

/// An image whose layers are not removed while this value lives.
#[derive(Debug)]
pub struct Held {
    /// The image.
    pub image: Image,
    /// Folders of its layers, the topmost first.
    pub layers: Vec<PathBuf>,
    _locks: Vec<File>,
}

impl Store {
    /// Opens a store, creates it when it does not exist, and removes the remains of interrupted imports.
    ///
    /// # Errors
    /// When the store's folders cannot be made or read.
    pub fn open(path: &Path) -> Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(path.join(LAYERS))?;
        let store = Self { path: path.canonicalize()? };
        store.sweep()?;
        Ok(store)
    }

    /// All images, sorted by name. An image whose record is damaged is left out, with a warning.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn list(&self) -> Result<Vec<Image>> {
        let mut all = Vec::new();
        for name in self.names()? {
            match self.get(&name) {
                Ok(image) => all.push(image),
                Err(StoreError::Unknown(_)) => {}
                Err(error) => tracing::warn!("{error}"),
            }
        }
        all.sort_by(|a: &Image, b| a.name.cmp(&b.name));
        Ok(all)
    }

    fn names(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            names.extend(name.to_str().and_then(|n| n.strip_suffix(".json")).map(str::to_owned));
        }
        Ok(names)
    }

    /// The record of an image.
    ///
    /// # Errors
    /// [`StoreError::Unknown`] when there is no such image; [`StoreError::Damaged`] when its record cannot be
    /// parsed.
    pub fn get(&self, name: &str) -> Result<Image> {
        let unknown = || StoreError::Unknown(name.to_owned());
        if !image::is_name(name) {
            return Err(unknown());
        }
        let file = match File::open(self.row(name)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(unknown()),
            file => file?,
        };
        let mut text = String::new();
        file.take(MAX_RECORD_BYTES).read_to_string(&mut text)?;
        serde_json::from_str(&text).map_err(|e| StoreError::Damaged(name.to_owned(), e.to_string()))
    }

    /// Holds an image for mounting: its layers stay while it is held, even when the image is removed.
    ///
    /// # Errors
    /// [`StoreError::Unknown`] when there is no such image, and an error when one of its layers is gone.
    pub fn hold(&self, name: &str) -> Result<Held> {
        let image = self.get(name)?;
        let layers: Vec<PathBuf> = image.layers.iter().map(|digest| self.layer(digest)).collect();
        let gone =
            |digest: &Digest| StoreError::Damaged(name.to_owned(), format!("its layer {digest} is gone"));
        let mut locks = Vec::new();
        for (path, digest) in layers.iter().zip(&image.layers) {
            let folder = File::open(path).map_err(|_| gone(digest))?;
            // A process that removes a layer first renames it, and holds this lock exclusively meanwhile.
            flock(&folder, FlockOperation::LockShared).map_err(io::Error::from)?;
            let there = path.metadata().map_err(|_| gone(digest))?;
            if (there.dev(), there.ino()) != (folder.metadata()?.dev(), folder.metadata()?.ino()) {
                return Err(gone(digest));
            }
            locks.push(folder);
        }
        Ok(Held { image, layers, _locks: locks })
    }

    /// Facts about a layer.
    ///
    /// # Errors
    /// When the layer does not exist or its facts cannot be read.
    pub fn about(&self, layer: &Digest) -> Result<About> {
        let text = std::fs::read_to_string(self.layer(layer).with_extension("about"))?;
        Ok(serde_json::from_str(&text).map_err(io::Error::from)?)
    }

    /// Removes an image, and the layers that no other image has.
    ///
    /// # Errors
    /// [`StoreError::Unknown`] when there is no such image.
    pub fn remove(&self, name: &str) -> Result<()> {
        if !image::is_name(name) {
            return Err(StoreError::Unknown(name.to_owned()));
        }
        match std::fs::remove_file(self.row(name)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Err(StoreError::Unknown(name.to_owned()));
            }
            removed => removed?,
        }
        self.sweep()
    }

    /// Starts an import. An unfinished import is removed.
    ///
    /// # Errors
    /// When the store's lock cannot be taken.
    pub fn begin(&self) -> Result<Import<'_>> {
        let lock = self.lock_file()?;
        // The shared lock prevents sweeps during an import, whose layers no record names yet.
        flock(&lock, FlockOperation::LockShared).map_err(io::Error::from)?;
        Ok(Import { store: self, made: 0, _lock: lock })
    }

    /// Folder of a layer, which may not exist.
    #[must_use]
    pub fn layer(&self, digest: &Digest) -> PathBuf {
        self.path.join(LAYERS).join(digest.hex())
    }

    /// Folder of the cache of built layers, which may not exist.
    pub(crate) fn built(&self) -> PathBuf {
        self.path.join("built")
    }

    fn row(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.json"))
    }

    fn lock_file(&self) -> io::Result<File> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600).open(self.path.join(LOCK))
    }

    /// Removes layers that no record names, and the remains of dead writers. Does nothing during an import.
    fn sweep(&self) -> Result<()> {
        let lock = self.lock_file()?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(());
        }
        let mut used = BTreeSet::new();
        for name in self.names()? {
            match self.get(&name) {
                Ok(image) => used.extend(image.layers.iter().map(Digest::hex)),
                Err(StoreError::Unknown(_)) => {}
                Err(error) => {
                    tracing::warn!("layers that nobody needs stay: {error}");
                    return Ok(());
                }
            }
        }
        for entry in std::fs::read_dir(self.path.join(LAYERS))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let hex = name.split('.').next().unwrap_or_default();
            if used.contains(hex) {
                continue;
            }
            if name.starts_with(UNFINISHED) {
                if !lives(&name) {
                    remove(&entry.path())?;
                }
            } else if entry.file_type()?.is_dir() {
                self.remove_layer(&entry.path())?;
            } else if !self.path.join(LAYERS).join(hex).exists() {
                remove(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Removes a layer unless a run uses it.
    fn remove_layer(&self, path: &Path) -> Result<()> {
        let folder = File::open(path)?;
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Ok(()),
            locked => locked.map_err(io::Error::from)?,
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let going = self.path.join(LAYERS).join(format!("{UNFINISHED}{}-{name}", std::process::id()));
        std::fs::rename(path, &going)?;
        for beside in ["about", "table"] {
            remove(&path.with_extension(beside))?;
        }
        Ok(remove(&going)?)
    }
}

const fn top_kind(kind: Kind) -> Option<TopKind> {
    match kind {
        Kind::Folder => Some(TopKind::Folder),
        Kind::File => Some(TopKind::File),
        Kind::Link => Some(TopKind::Link),
        Kind::Whiteout | Kind::Other => None,
    }
}

/// Whether the writer of this data is alive.
fn lives(unfinished: &str) -> bool {
    let writer = unfinished.strip_prefix(UNFINISHED).and_then(|rest| rest.split('-').next());
    writer.is_some_and(|pid| Path::new("/proc").join(pid).exists())
}

fn remove(path: &Path) -> io::Result<()> {
    let removed = match path.symlink_metadata() {
        Ok(about) if about.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(e) => Err(e),
    };
    match removed {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// An import in progress. Dropping it unfinished leaves no data that a record names.
#[derive(Debug)]
pub struct Import<'a> {
    store: &'a Store,
    made: u32,
    _lock: File,
}

/// Description of an image, without the parts that the store determines.
#[derive(Clone, Debug)]
pub struct Named {
    /// Name in the store.
    pub name: String,
    /// Origin, as the user gave it.
    pub source: String,
    /// Digest of the image.
    pub digest: Digest,
    /// Run configuration from the image's maker.
    pub config: Config,
    /// Parts that were left out, and why; the store adds those of the archives.
    pub notes: Vec<String>,
}

impl Import<'_> {
    /// Whether the store has a layer.
    #[must_use]
    pub fn has(&self, layer: &Digest) -> bool {
        self.store.layer(layer).is_dir()
    }

    /// Makes a folder in the store, for a new layer or temporary data. It is removed after this process has
    /// ended.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn fresh(&mut self) -> Result<PathBuf> {
        loop {
            self.made += 1;
            let name = format!("{UNFINISHED}{}-{:p}-{}", std::process::id(), self, self.made);
            let path = self.store.path.join(LAYERS).join(name);
            match DirBuilder::new().mode(0o755).create(&path) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                made => {
                    made?;
                    return Ok(path);
                }
            }
        }
    }

    /// Unpacks an archive as a layer. `promised` is its expected `diff_id`, if known.
    ///
    /// # Errors
    /// [`StoreError::Layer`] when the archive is refused; [`StoreError::Digest`] when it is not the promised
    /// one; [`StoreError::Io`] when the layer cannot be stored.
    pub fn layer(
        &mut self,
        what: &str,
        archive: impl Read,
        promised: Option<Digest>,
        limits: &Limits,
    ) -> Result<Digest> {
        let folder = self.fresh()?;
        let added = self.unpacked(&folder, what, archive, promised, limits);
        if added.is_err() {
            remove(&folder)?;
        }
        added
    }

    fn unpacked(
        &self,
        folder: &Path,
        what: &str,
        archive: impl Read,
        promised: Option<Digest>,
        limits: &Limits,
    ) -> Result<Digest> {
        let into = OwnedFd::from(File::open(folder)?);
        let unpacked = unpack(archive, into, limits)
            .map_err(|error| StoreError::Layer { layer: what.to_owned(), error })?;
        let found = unpacked.diff_id;
        if let Some(promised) = promised.filter(|promised| *promised != found) {
            return Err(StoreError::Digest { what: format!("the layer {what}"), promised, found });
        }
        self.adopt(folder, found, &About::of(&unpacked), &unpacked.recorded)?;
        Ok(found)
    }

    /// Turns a [fresh](Import::fresh) folder into a layer under a digest that identifies its content.
    ///
    /// # Errors
    /// When the layer cannot be stored.
    pub fn adopt(&self, folder: &Path, digest: Digest, about: &About, recorded: &[Recorded]) -> Result<()> {
        let place = self.store.layer(&digest);
        if place.is_dir() {
            return Ok(remove(folder)?);
        }
        let mut table = Vec::new();
        for row in recorded {
            writeln!(table, "{row}")?;
        }
        std::fs::write(place.with_extension("table"), table)?;
        let about = serde_json::to_vec(about).map_err(io::Error::from)?;
        std::fs::write(place.with_extension("about"), about)?;
        match std::fs::rename(folder, &place) {
            // Another process added the same layer first.
            Err(_) if place.is_dir() => Ok(remove(folder)?),
            renamed => Ok(renamed?),
        }
    }

    /// Stores a record that names these layers, the topmost first, as an image, and replaces an image of that
    /// name.
    ///
    /// # Errors
    /// [`StoreError::Name`] when the name is not valid; [`StoreError::Layers`] or [`StoreError::Large`] when
    /// the image exceeds a limit; [`StoreError::Io`] when the record cannot be written.
    pub fn finish(mut self, named: Named, layers: Vec<Digest>) -> Result<Image> {
        let Named { name, source, digest, config, mut notes } = named;
        if !image::is_name(&name) {
            return Err(StoreError::Name(name));
        }
        if layers.len() > MAX_LAYERS {
            return Err(StoreError::Layers(layers.len()));
        }
        let folders: Vec<PathBuf> = layers.iter().map(|digest| self.store.layer(digest)).collect();
        let view = View::open(&folders)?;
        let mut about = About::default();
        for layer in &layers {
            let one = self.store.about(layer)?;
            about.bytes += one.bytes;
            about.special += one.special;
            about.setid += one.setid;
            about.attributes_dropped += one.attributes_dropped;
        }
        for (count, what) in [
            (about.special, "devices and pipes are left out"),
            (about.setid, "setuid and setgid bits are taken off"),
            (about.attributes_dropped, "attributes of files (capabilities and the like) are left out"),
        ] {
            if count > 0 {
                notes.push(format!("{count} {what}"));
            }
        }
        let kinds = view.top()?.into_iter().filter_map(|(name, kind)| Some((name.into_string().ok()?, kind)));
        let image = Image {
            bytes: about.bytes,
            created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
            languages: image::languages(&view, config.path())?,
            top: kinds.filter_map(|(name, kind)| Some(Top { name, kind: top_kind(kind)? })).collect(),
            name,
            source,
            digest,
            layers,
            config,
            notes,
        };
        if image.top.len() > MAX_TOP_NAMES {
            return Err(StoreError::Large(format!(
                "{} names in its root, and at most {MAX_TOP_NAMES}",
                image.top.len()
            )));
        }
        // Syncs the layers first, so that after a power cut no record names a missing layer.
        let top = File::open(&self.store.path)?;
        rustix::fs::syncfs(&top).map_err(io::Error::from)?;
        let mut text = serde_json::to_vec_pretty(&image).map_err(io::Error::from)?;
        text.push(b'\n');
        // The record has to fit the limit for reading.
        if text.len() as u64 >= MAX_RECORD_BYTES {
            return Err(StoreError::Large(format!("a configuration of {} bytes", text.len())));
        }
        let folder = self.fresh()?;
        let new = folder.join("row");
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(&text)?;
        file.sync_all()?;
        std::fs::rename(&new, self.store.row(&image.name))?;
        remove(&folder)?;
        top.sync_all()?;
        let store = self.store;
        drop(self);
        // Removes layers of the image that was replaced.
        store.sweep()?;
        Ok(image)
    }
}

#[cfg(test)]
mod tests;
