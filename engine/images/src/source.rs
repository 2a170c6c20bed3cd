//! Sources of images: a folder, an OCI layout, a `docker save` archive or a registry.

mod archive;
mod folder;
mod oci;
mod registry;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::error::{SourceError, StoreError};
use crate::image::Image;
use crate::store::{Named, Store};
use crate::stream::{Compression, Digest};
use crate::unpack::Limits;

pub use crate::image::HOST_ARCHITECTURE;
pub use hotcell_oci::SCHEME;
pub use oci::Manifest;
use oci::{Blobs, Resolved};

/// Source of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The tree below a folder.
    Folder(PathBuf),
    /// An OCI layout (a folder or a tar archive of it) or a `docker save` archive, and the
    /// `org.opencontainers.image.ref.name` or tag of one image, where it has several.
    Images(PathBuf, Option<String>),
    /// An image in a registry: `oci://HOST[:PORT]/NAME[:TAG|@sha256:…]`. Importing it blocks on the network.
    Registry(String),
}

impl Source {
    /// Determines the source by its prefix or by the file at the path: a folder with an `oci-layout` file is
    /// a layout, any other folder a root file system; a file is an archive. A `#` separates the path from the
    /// name of an image in it.
    #[must_use]
    pub fn of(text: &std::ffi::OsStr) -> Self {
        if let Some(name) = text.to_str().filter(|t| t.starts_with(SCHEME)) {
            return Self::Registry(name.to_owned());
        }
        let whole = Path::new(text);
        let (path, which) = match text.to_str().and_then(|t| t.rsplit_once('#')) {
            Some((path, which)) if !whole.exists() => (Path::new(path), Some(which.to_owned())),
            _ => (whole, None),
        };
        if path.is_dir() && !path.join("oci-layout").exists() {
            Self::Folder(path.to_owned())
        } else {
            Self::Images(path.to_owned(), which)
        }
    }
}

/// Imports an image under a name, and replaces an image of that name.
///
/// # Errors
/// [`StoreError::Source`] when the source cannot be read or used, and other variants of [`StoreError`] when
/// the store refuses a part of it. Nothing is kept then.
pub fn import(store: &Store, name: &str, source: &Source, limits: &Limits) -> Result<Image, StoreError> {
    if !crate::image::is_name(name) {
        return Err(StoreError::Name(name.to_owned()));
    }
    match source {
        Source::Registry(source) => registry::import(store, name, source, limits),
        Source::Folder(path) => folder(store, name, path, limits),
        Source::Images(path, which) => {
            let open = |error| SourceError::Unreadable { path: path.clone(), error };
            let is_folder = path.metadata().map_err(open)?.is_dir();
            if is_folder {
                let blobs = oci::Layout::open(path)?;
                images(store, name, &shown(path, which.as_deref()), &blobs, which.as_deref(), limits)
            } else {
                let blobs = archive::Archive::open(store, path, limits)?;
                images(store, name, &shown(path, which.as_deref()), &blobs, which.as_deref(), limits)
            }
        }
    }
}

fn shown(path: &Path, which: Option<&str>) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    match which {
        Some(which) => format!("{}#{which}", path.display()),
        None => path.display().to_string(),
    }
}

fn folder(store: &Store, name: &str, path: &Path, limits: &Limits) -> Result<Image, StoreError> {
    let mut import = store.begin()?;
    let limits = Limits { whiteouts: false, ..*limits };
    let layer = folder::as_archive(path, |archive| {
        import.layer(&path.display().to_string(), archive, None, &limits)
    })?;
    let named = Named {
        name: name.to_owned(),
        source: shown(path, None),
        digest: layer,
        config: crate::image::Config::default(),
        notes: Vec::new(),
    };
    import.finish(named, vec![layer])
}

/// Imports the image for this host from `blobs`.
fn images(
    store: &Store,
    name: &str,
    source: &str,
    blobs: &dyn Blobs,
    which: Option<&str>,
    limits: &Limits,
) -> Result<Image, StoreError> {
    let resolved = oci::resolve(blobs, which)?;
    add(store, name, source, blobs, resolved, limits)
}

/// Imports a resolved image: the missing layers, then the record.
pub(crate) fn add(
    store: &Store,
    name: &str,
    source: &str,
    blobs: &dyn Blobs,
    resolved: Resolved,
    limits: &Limits,
) -> Result<Image, StoreError> {
    let mut import = store.begin()?;
    for layer in &resolved.layers {
        if import.has(&layer.diff_id) {
            continue;
        }
        // An uncompressed layer is digested while it is unpacked.
        let compressed = layer.digest.filter(|digest| *digest != layer.diff_id);
        let mut blob = Hashed::new(blobs.open(&layer.blob)?, compressed.is_some());
        let mut added = import.layer(&layer.blob, &mut blob, Some(layer.diff_id), limits);
        if added.is_err() && compressed.is_none() {
            // A damaged download also fails to unpack, so the digest mismatch is reported first.
            let mut whole = Hashed::new(blobs.open(&layer.blob)?, true);
            let promised = layer.digest.unwrap_or(layer.diff_id);
            let found = whole.finish()?;
            if Compression::of(&whole.start) == Compression::None && found != promised {
                added =
                    Err(StoreError::Digest { what: format!("the layer {}", layer.blob), promised, found });
            }
        } else if let Some(promised) = compressed {
            let found = blob.finish()?;
            if found != promised {
                added =
                    Err(StoreError::Digest { what: format!("the layer {}", layer.blob), promised, found });
            }
        }
        added?;
    }
    let named = Named {
        name: name.to_owned(),
        source: source.to_owned(),
        digest: resolved.digest,
        config: resolved.config,
        notes: Vec::new(),
    };
    import.finish(named, resolved.layers.iter().rev().map(|layer| layer.diff_id).collect())
}

/// Digests the data that is read.
struct Hashed<R> {
    inner: R,
    state: Option<Sha256>,
    start: Vec<u8>,
}

impl<R: Read> Hashed<R> {
    fn new(inner: R, digests: bool) -> Self {
        Self { inner, state: digests.then(Sha256::new), start: Vec::new() }
    }

    /// Reads the rest, and returns the digest of everything.
    fn finish(&mut self) -> io::Result<Digest> {
        let mut piece = vec![0; 64 * 1024];
        while self.read(&mut piece)? > 0 {}
        Ok(Digest(self.state.take().unwrap_or_default().finalize().into()))
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(out)?;
        if let Some(state) = &mut self.state {
            state.update(&out[..count]);
        }
        if self.start.len() < 6 {
            self.start.extend(out[..count].iter().take(6));
        }
        Ok(count)
    }
}

/// Detects the compression of a file from its first bytes.
fn compression(file: &mut File) -> io::Result<Compression> {
    use std::io::Seek;
    let mut start = Vec::new();
    (&mut *file).take(6).read_to_end(&mut start)?;
    file.rewind()?;
    Ok(Compression::of(&start))
}

#[cfg(test)]
mod tests;
