//! Images on this host: layers by digest, each written once and never changed, and a row for each image that names them.
//!
//! | below the store | what |
//! | --- | --- |
//! | `layers/HEX/` | the files of a layer, as an overlay's lower folder |
//! | `layers/HEX.about` | what was left out of it, and how much it holds |
//! | `layers/HEX.table` | owner, mode and device numbers that the disk does not show |
//! | `layers/unfinished-PID-…` | what is being written; removed once its writer is gone |
//! | `NAME.json` | an image |
//! | `built/HEX` | what a built layer was made of, by the digest of that |
//!
//! A layer is written under a name of its own, and then renamed; a row too. Whoever is killed leaves the old state or the
//! new one. What no row names is removed when nobody uses it.

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

use crate::image::{self, Config, Image, Top, TopKind};
use crate::source::SourceError;
use crate::stream::Digest;
use crate::tree::Kind;
use crate::unpack::{Limits, Recorded, UnpackError, Unpacked, unpack};
use crate::view::View;

const LAYERS: &str = "layers";
const LOCK: &str = "lock";
/// Begins the name of what is being written; its writer's process id follows.
const UNFINISHED: &str = "unfinished-";
/// Names in the root of an image: each one is a rule of the sandbox.
const MOST_TOP: usize = 1000;
/// The longest row that is read.
const LONGEST_ROW: u64 = 4 << 20;
/// An overlay's mount options are one page, which holds so many layers, and one of ours.
pub const MOST_LAYERS: usize = 127;

/// Why a store refuses.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// More than a run can have.
    #[error("the image has {0}; make a smaller one")]
    Large(String),
    /// There is no such image.
    #[error("there is no image {0:?}")]
    Unknown(String),
    /// No name of an image.
    #[error("{0:?} cannot be the name of an image: letters, digits and ._:- between them, at most 100")]
    Name(String),
    /// The row cannot be understood.
    #[error("the image {0:?} is damaged ({1}); remove it and import it again")]
    Damaged(String, String),
    /// The source cannot be read, or is no image.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A layer was refused.
    #[error("the layer {layer}: {error}")]
    Layer {
        /// Which: a digest, or a file's name.
        layer: String,
        /// Why.
        error: UnpackError,
    },
    /// Not what was promised.
    #[error(
        "{what} has the digest {found}, and should have {promised}: it is damaged, or was changed on its way"
    )]
    Digest {
        /// What.
        what: String,
        /// What it should have been.
        promised: Digest,
        /// What it is.
        found: Digest,
    },
    /// More layers than an overlay takes.
    #[error(
        "the image has {0} layers, and at most {MOST_LAYERS} can be mounted; make it again with fewer steps"
    )]
    Layers(usize),
    /// The store's own files.
    #[error("the store of images: {0}")]
    Io(#[from] io::Error),
}

type Result<T> = std::result::Result<T, StoreError>;

/// What is known of a layer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Bytes of its files.
    pub bytes: u64,
    /// Files, folders, links and deletions.
    pub entries: u64,
    /// Devices and pipes that were left out.
    pub special: u64,
    /// Setuid and setgid bits that were taken off.
    pub setid: u64,
    /// Attributes that were left out.
    pub attributes_dropped: u64,
}

impl About {
    /// What is told of an archive that was unpacked.
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

/// An image whose layers nobody removes while this lives.
#[derive(Debug)]
pub struct Held {
    /// The image.
    pub image: Image,
    /// The folders of its layers, the topmost first.
    pub layers: Vec<PathBuf>,
    _locks: Vec<File>,
}

impl Store {
    /// Opens a store, makes it when it is not there, and removes what a dead import left.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(path: &Path) -> Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(path.join(LAYERS))?;
        let store = Self { path: path.canonicalize()? };
        store.sweep()?;
        Ok(store)
    }

    /// All images, by name.
    ///
    /// # Errors
    /// What the system says. A row that is damaged is left out, with a warning.
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

    /// An image.
    ///
    /// # Errors
    /// When there is none of this name.
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
        file.take(LONGEST_ROW).read_to_string(&mut text)?;
        serde_json::from_str(&text).map_err(|e| StoreError::Damaged(name.to_owned(), e.to_string()))
    }

    /// An image to be mounted: its layers stay while it is held, whoever removes it.
    ///
    /// # Errors
    /// When there is none of this name, or a layer of it is gone.
    pub fn hold(&self, name: &str) -> Result<Held> {
        let image = self.get(name)?;
        let layers: Vec<PathBuf> = image.layers.iter().map(|digest| self.layer(digest)).collect();
        let gone =
            |digest: &Digest| StoreError::Damaged(name.to_owned(), format!("its layer {digest} is gone"));
        let mut locks = Vec::new();
        for (path, digest) in layers.iter().zip(&image.layers) {
            let folder = File::open(path).map_err(|_| gone(digest))?;
            // Whoever removes it renames it first, and holds this lock alone meanwhile.
            flock(&folder, FlockOperation::LockShared).map_err(io::Error::from)?;
            let there = path.metadata().map_err(|_| gone(digest))?;
            if (there.dev(), there.ino()) != (folder.metadata()?.dev(), folder.metadata()?.ino()) {
                return Err(gone(digest));
            }
            locks.push(folder);
        }
        Ok(Held { image, layers, _locks: locks })
    }

    /// What is known of a layer.
    ///
    /// # Errors
    /// What the system says.
    pub fn about(&self, layer: &Digest) -> Result<About> {
        let text = std::fs::read_to_string(self.layer(layer).with_extension("about"))?;
        Ok(serde_json::from_str(&text).map_err(io::Error::from)?)
    }

    /// Removes an image, and the layers that no other has.
    ///
    /// # Errors
    /// When there is none of this name.
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

    /// Begins to add an image. What is not finished is removed.
    ///
    /// # Errors
    /// What the system says.
    pub fn begin(&self) -> Result<Import<'_>> {
        let lock = self.lock_file()?;
        // Nothing is swept while somebody adds, who has layers that no row names yet.
        flock(&lock, FlockOperation::LockShared).map_err(io::Error::from)?;
        Ok(Import { store: self, made: 0, _lock: lock })
    }

    /// The folder of a layer, which may not be there.
    #[must_use]
    pub fn layer(&self, digest: &Digest) -> PathBuf {
        self.path.join(LAYERS).join(digest.hex())
    }

    /// The folder of what is remembered of built layers, which may not be there.
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

    /// Removes layers that no row names, and what dead writers left. Nothing while somebody adds.
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

    /// Removes a layer unless a run has it.
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

/// Whether who writes this is alive.
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

/// An image that is being added. Dropping it unfinished leaves nothing that a row names.
#[derive(Debug)]
pub struct Import<'a> {
    store: &'a Store,
    made: u32,
    _lock: File,
}

/// What an image is, but for what the store finds out itself.
#[derive(Clone, Debug)]
pub struct Named {
    /// Its name here.
    pub name: String,
    /// Where it came from, as it was asked for.
    pub source: String,
    /// Its digest.
    pub digest: Digest,
    /// What its maker says.
    pub config: Config,
    /// What of it is not there, and why; of what the archives had the store adds its own.
    pub notes: Vec<String>,
}

impl Import<'_> {
    /// Whether a layer is here already.
    #[must_use]
    pub fn has(&self, layer: &Digest) -> bool {
        self.store.layer(layer).is_dir()
    }

    /// A fresh folder of the store's, for what becomes a layer or is needed meanwhile; removed when this process is gone.
    ///
    /// # Errors
    /// What the system says.
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

    /// Unpacks an archive as a layer. `promised` is its `diff_id`, if somebody said one.
    ///
    /// # Errors
    /// What is wrong with the archive, or that it is not the promised one.
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

    /// Makes a layer of a [fresh](Import::fresh) folder under a digest that stands for what is in it.
    ///
    /// # Errors
    /// What the system says.
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
            // Somebody else was quicker.
            Err(_) if place.is_dir() => Ok(remove(folder)?),
            renamed => Ok(renamed?),
        }
    }

    /// Names layers, the topmost first, as an image. One that had the name is replaced.
    ///
    /// # Errors
    /// When the name cannot be one.
    pub fn finish(mut self, named: Named, layers: Vec<Digest>) -> Result<Image> {
        let Named { name, source, digest, config, mut notes } = named;
        if !image::is_name(&name) {
            return Err(StoreError::Name(name));
        }
        if layers.len() > MOST_LAYERS {
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
        if image.top.len() > MOST_TOP {
            return Err(StoreError::Large(format!(
                "{} names in its root, and at most {MOST_TOP}",
                image.top.len()
            )));
        }
        // The layers first: a row never names what a power cut took.
        let top = File::open(&self.store.path)?;
        rustix::fs::syncfs(&top).map_err(io::Error::from)?;
        let mut text = serde_json::to_vec_pretty(&image).map_err(io::Error::from)?;
        text.push(b'\n');
        // It has to be read again.
        if text.len() as u64 >= LONGEST_ROW {
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
        // The layers of the image that had the name.
        store.sweep()?;
        Ok(image)
    }
}

#[cfg(test)]
mod tests;
