//! Reads the documents of an image: index, manifest, configuration; and chooses the image for this host.
//!
//! See the OCI image specification 1.1 (`image-layout.md`, `image-index.md`, `manifest.md`, `config.md`), and
//! the `manifest.json` of `docker save`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use hotcell_sandbox::unique;
use rustix::fs::{self, Mode, OFlags, ResolveFlags};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::{SourceError, StoreError};
use crate::image::Config;
use crate::image::HOST_ARCHITECTURE;

use crate::stream::Digest;

/// Maximum size of a document, in bytes.
pub(crate) const MAX_DOCUMENT_BYTES: u64 = 8 << 20;
/// Maximum nesting depth of indexes.
const MAX_INDEX_DEPTH: usize = 4;

/// Reference to a blob by its digest.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// Media type of the blob.
    #[serde(default)]
    pub media_type: String,
    /// Digest of the blob.
    pub digest: Digest,
    /// Size of the blob in bytes.
    #[serde(default)]
    pub size: u64,
    /// Platform of the image.
    pub platform: Option<Platform>,
    /// Annotations.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
}

/// Platform that an image runs on.
#[derive(Clone, Debug, Deserialize)]
pub struct Platform {
    /// Architecture, such as `amd64`.
    #[serde(default)]
    pub architecture: String,
    /// Operating system, such as `linux`.
    #[serde(default)]
    pub os: String,
}

impl Platform {
    fn is_host(&self) -> bool {
        self.os == "linux" && self.architecture == HOST_ARCHITECTURE
    }
}

/// An index or a manifest, which differ in their fields.
#[derive(Clone, Debug, Deserialize)]
pub struct Manifest {
    /// Entries of an index.
    #[serde(default)]
    pub manifests: Vec<Descriptor>,
    /// Configuration of a manifest.
    pub config: Option<Descriptor>,
    /// Layers of a manifest, the lowest first.
    #[serde(default)]
    pub layers: Vec<Descriptor>,
}

impl Manifest {
    /// Checks that a document is one of the two: of one that is both, a reader takes what the media type says that it was given (CVE-2021-41190).
    ///
    /// # Errors
    /// [`SourceError::Document`] when it is both.
    pub(crate) fn check(&self, what: &str) -> Result<(), SourceError> {
        if self.manifests.is_empty() || self.config.is_none() && self.layers.is_empty() {
            return Ok(());
        }
        let why = "it is an index and a manifest at once, and programs would take different images from it"
            .to_owned();
        Err(SourceError::Document { what: what.to_owned(), why })
    }
}

#[derive(Deserialize)]
struct ImageConfig {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
    config: Option<RunConfig>,
    rootfs: RootFs,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct RunConfig {
    env: Option<Vec<String>>,
    working_dir: Option<String>,
    user: Option<String>,
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct RootFs {
    diff_ids: Vec<Digest>,
}

/// An entry in the `manifest.json` of `docker save`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

/// The parts of an image.
pub(crate) struct Resolved {
    pub(crate) digest: Digest,
    pub(crate) config: Config,
    /// Layers, the lowest first.
    pub(crate) layers: Vec<LayerBlob>,
}

/// A layer in a source.
pub(crate) struct LayerBlob {
    /// Name of the blob.
    pub(crate) blob: String,
    /// Expected digest of the blob, where the source has one.
    pub(crate) digest: Option<Digest>,
    /// Digest of the uncompressed archive.
    pub(crate) diff_id: Digest,
}

/// Read access to blobs by name.
pub(crate) trait Blobs {
    /// Opens a blob; fails with [`SourceError::Missing`] when it does not exist.
    fn open(&self, name: &str) -> Result<Box<dyn Read + '_>, SourceError>;
}

/// Name of a blob in a layout.
pub(crate) fn blob(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

/// A layout in a folder.
pub(crate) struct Layout {
    path: PathBuf,
    folder: File,
}

impl Layout {
    pub(crate) fn open(path: &Path) -> Result<Self, SourceError> {
        let folder =
            File::open(path).map_err(|error| SourceError::Unreadable { path: path.to_owned(), error })?;
        Ok(Self { path: path.to_owned(), folder })
    }
}

impl Blobs for Layout {
    fn open(&self, name: &str) -> Result<Box<dyn Read + '_>, SourceError> {
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fail = |error| SourceError::Unreadable { path: self.path.join(name), error };
        let file: File = match fs::openat2(&self.folder, name, flags, Mode::empty(), beneath) {
            Err(rustix::io::Errno::NOENT) => return Err(SourceError::Missing(name.to_owned())),
            file => file.map_err(|e| fail(e.into()))?.into(),
        };
        if !file.metadata().map_err(fail)?.is_file() {
            return Err(fail(std::io::Error::other("it is not a file")));
        }
        Ok(Box::new(file))
    }
}

/// Reads a whole document.
fn read(blobs: &dyn Blobs, name: &str) -> Result<Vec<u8>, SourceError> {
    let mut bytes = Vec::new();
    let bad = |why: String| SourceError::Document { what: name.to_owned(), why };
    blobs.open(name)?.take(MAX_DOCUMENT_BYTES + 1).read_to_end(&mut bytes).map_err(|e| bad(e.to_string()))?;
    if bytes.len() as u64 > MAX_DOCUMENT_BYTES {
        return Err(bad(format!("it is longer than {MAX_DOCUMENT_BYTES} bytes")));
    }
    Ok(bytes)
}

pub(crate) fn parse<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T, SourceError> {
    let bad = |why: String| SourceError::Document { what: what.to_owned(), why };
    // Of a key that stands twice, another reader of this digest would take the other one. The check reads to the end, also through values that
    // the type leaves out.
    unique::check(bytes).map_err(bad)?;
    serde_json::from_slice(bytes).map_err(|e| bad(e.to_string()))
}

/// Reads the document with this digest, and verifies it.
fn verified(blobs: &dyn Blobs, what: &str, digest: Digest) -> Result<Vec<u8>, StoreError> {
    let bytes = read(blobs, &blob(&digest))?;
    check(what, &bytes, digest)?;
    Ok(bytes)
}

/// Checks that the data has the expected digest.
pub(crate) fn check(what: &str, bytes: &[u8], promised: Digest) -> Result<(), StoreError> {
    let found = Digest::of(bytes);
    if found == promised {
        Ok(())
    } else {
        Err(StoreError::Digest { what: what.to_owned(), promised, found })
    }
}

/// Resolves the image for this host.
pub(crate) fn resolve(blobs: &dyn Blobs, which: Option<&str>) -> Result<Resolved, StoreError> {
    match read(blobs, "index.json") {
        Ok(bytes) => {
            let index: Manifest = parse("index.json", &bytes)?;
            let chosen = choose(&index.manifests, which)?;
            of_manifest(blobs, chosen.digest, 0)
        }
        Err(SourceError::Missing(_)) => match read(blobs, "manifest.json") {
            Ok(bytes) => saved(blobs, &bytes, which),
            Err(SourceError::Missing(_)) => {
                Err(SourceError::Missing("neither index.json nor manifest.json".to_owned()).into())
            }
            Err(error) => Err(error.into()),
        },
        Err(error) => Err(error.into()),
    }
}

/// Annotations that name the images of a layout's index.
const NAMES: [&str; 2] = ["org.opencontainers.image.ref.name", "io.containerd.image.name"];

/// Chooses an image of an index: by name where one is requested, then by platform.
pub(crate) fn choose<'a>(all: &'a [Descriptor], which: Option<&str>) -> Result<&'a Descriptor, SourceError> {
    let named = |d: &Descriptor, name: &str| {
        NAMES.iter().filter_map(|key| d.annotations.get(*key)).any(|n| n == name)
            || d.digest.to_string() == name
    };
    let mut left: Vec<&Descriptor> = all.iter().filter(|d| which.is_none_or(|name| named(d, name))).collect();
    if let (Some(name), true) = (which, left.is_empty()) {
        return Err(SourceError::Missing(format!("an image {name:?}")));
    }
    // Signatures and build attestations have no known platform.
    let list = |all: &[&Descriptor]| {
        let text = |d: &&Descriptor| d.platform.as_ref().map(|p| format!("{}/{}", p.os, p.architecture));
        all.iter().filter_map(text).collect::<Vec<_>>().join(", ")
    };
    let known = list(&left);
    left.retain(|d| d.platform.as_ref().is_none_or(Platform::is_host));
    left.dedup_by_key(|d| d.digest);
    match left[..] {
        [one] => Ok(one),
        [] if known.is_empty() => Err(SourceError::Missing("an image".to_owned())),
        [] => Err(SourceError::Platform(known)),
        _ => {
            let name = |d: &&Descriptor| {
                let name = NAMES.iter().find_map(|key| d.annotations.get(*key));
                name.cloned().unwrap_or_else(|| d.digest.to_string())
            };
            Err(SourceError::Several(left.iter().map(name).collect::<Vec<_>>().join(", ")))
        }
    }
}

pub(crate) fn of_manifest(blobs: &dyn Blobs, digest: Digest, depth: usize) -> Result<Resolved, StoreError> {
    let what = format!("the manifest {digest}");
    let manifest: Manifest = parse(&what, &verified(blobs, &what, digest)?)?;
    manifest.check(&what)?;
    if manifest.config.is_none() && !manifest.manifests.is_empty() && depth < MAX_INDEX_DEPTH {
        let chosen = choose(&manifest.manifests, None)?;
        return of_manifest(blobs, chosen.digest, depth + 1);
    }
    let bad = |why: &str| SourceError::Document { what: what.clone(), why: why.to_owned() };
    let config = manifest.config.ok_or_else(|| bad("it has no configuration"))?;
    let what = format!("the configuration {}", config.digest);
    let (config, diff_ids) = configuration(&what, &verified(blobs, &what, config.digest)?)?;
    Ok(Resolved { digest, config, layers: layers(&manifest.layers, &diff_ids).map_err(bad)? })
}

/// Pairs layers with the digests of their uncompressed archives.
pub(crate) fn layers(layers: &[Descriptor], diff_ids: &[Digest]) -> Result<Vec<LayerBlob>, &'static str> {
    if layers.is_empty() || layers.len() != diff_ids.len() {
        return Err("it has not as many layers as its configuration, or none");
    }
    let both = layers.iter().zip(diff_ids);
    Ok(both
        .map(|(layer, diff_id)| LayerBlob {
            blob: blob(&layer.digest),
            digest: Some(layer.digest),
            diff_id: *diff_id,
        })
        .collect())
}

/// Parses a configuration, and returns the run configuration and the digests of the layers' archives.
pub(crate) fn configuration(what: &str, bytes: &[u8]) -> Result<(Config, Vec<Digest>), SourceError> {
    let read: ImageConfig = parse(what, bytes)?;
    let platform = Platform { architecture: read.architecture, os: read.os };
    if !platform.is_host() {
        return Err(SourceError::Platform(format!("{}/{}", platform.os, platform.architecture)));
    }
    let run = read.config.unwrap_or_default();
    let pairs = run.env.unwrap_or_default();
    let pair = |text: &String| text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    // Drops variables that cannot be set.
    let good =
        |(name, value): &(String, String)| !(name.is_empty() || name.contains('\0') || value.contains('\0'));
    let config = Config {
        env: pairs.iter().filter_map(pair).filter(good).collect(),
        workdir: run.working_dir.filter(|w| !w.is_empty()),
        user: run.user.filter(|u| !u.is_empty()),
        entrypoint: run.entrypoint.unwrap_or_default(),
        command: run.cmd.unwrap_or_default(),
        prime: Vec::new(),
    };
    Ok((config, read.rootfs.diff_ids))
}

/// Reads an image of `docker save` in its older form: blobs by file name, and digests of the uncompressed
/// layers only.
fn saved(blobs: &dyn Blobs, bytes: &[u8], which: Option<&str>) -> Result<Resolved, StoreError> {
    let what = "manifest.json";
    let all: Vec<Saved> = parse(what, bytes)?;
    let tagged = |s: &&Saved| which.is_none_or(|w| s.repo_tags.iter().flatten().any(|tag| tag == w));
    let chosen: Vec<&Saved> = all.iter().filter(tagged).collect();
    let one = match chosen[..] {
        [one] => one,
        [] => return Err(SourceError::Missing(which.unwrap_or("an image").to_owned()).into()),
        _ => {
            let tags: Vec<&str> =
                chosen.iter().flat_map(|s| s.repo_tags.iter().flatten()).map(String::as_str).collect();
            return Err(SourceError::Several(tags.join(", ")).into());
        }
    };
    let config_bytes = read(blobs, &one.config)?;
    // The configuration's file name is its digest.
    let hex = Path::new(&one.config).file_stem().and_then(|s| s.to_str()).unwrap_or_default();
    if let Some(promised) = Digest::parse(&format!("sha256:{hex}")) {
        check("the configuration", &config_bytes, promised)?;
    }
    let (config, diff_ids) = configuration("the configuration", &config_bytes)?;
    if one.layers.is_empty() || one.layers.len() != diff_ids.len() {
        let why = "it has not as many layers as its configuration, or none".to_owned();
        return Err(SourceError::Document { what: what.to_owned(), why }.into());
    }
    let both = one.layers.iter().zip(diff_ids);
    Ok(Resolved {
        digest: Digest::of(&config_bytes),
        config,
        layers: both.map(|(blob, diff_id)| LayerBlob { blob: blob.clone(), digest: None, diff_id }).collect(),
    })
}
