//! Images in the state folder: what a run has as its root in place of the host's `/usr`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use hotcell_images::image::is_name;
use hotcell_images::source::{SCHEME, SourceError};
use hotcell_images::{Config, Definition, Held, Image, Limits, Source, Store, StoreError};
use hotcell_sandbox::policy::{ImageRoot, RootEntry, RootKind};
use schemars::JsonSchema;
use serde::Serialize;

use crate::report::{Code, ErrorReport};
use crate::state::{StateChoice, StateError, StateFolder};
use crate::time::rfc3339;

/// The schema's name.
pub const SCHEMA: &str = "hotcell.images/1";
/// The folder in the state folder.
const FOLDER: &str = "images";

/// `hotcell.images/1`: images on this host.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ImageList {
    /// Always `hotcell.images/1`.
    pub schema: String,
    /// Each, by name.
    pub images: Vec<ImageReport>,
}

/// An image.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ImageReport {
    /// Its name here.
    pub name: String,
    /// Where it came from, as it was asked for.
    pub source: String,
    /// The digest of its manifest; of a folder, of the archive that it makes.
    pub digest: String,
    /// Bytes of files in its layers. Images that share a layer each count it.
    pub bytes: u64,
    /// When it came here: RFC 3339.
    pub created: String,
    /// Languages whose interpreter or compiler is on its `PATH`.
    pub languages: Vec<String>,
    /// What it consists of; `null` in a list.
    pub details: Option<ImageDetails>,
}

/// What an image consists of.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ImageDetails {
    /// Its layers, the topmost first: digests of their archives without compression.
    pub layers: Vec<String>,
    /// Variables that its maker sets. `HOME` and `TMPDIR` are the sandbox's own.
    pub env: BTreeMap<String, String>,
    /// Its maker's start folder. Not used: a run starts in its workspace, else at home.
    pub workdir: Option<String>,
    /// Whom its maker runs it as. Not used: a run is user 1000.
    pub user: Option<String>,
    /// Its maker's program. Not used: a run names its own.
    pub entrypoint: Vec<String>,
    /// Its maker's arguments. Not used.
    pub command: Vec<String>,
    /// Modules that a Python of it imports while it waits for a job.
    pub prime: Vec<String>,
    /// What of it is not there, and why.
    pub notes: Vec<String>,
}

impl ImageReport {
    /// What is told of an image.
    #[must_use]
    pub fn of(image: &Image, details: bool) -> Self {
        let Config { env, workdir, user, entrypoint, command, prime } = image.config.clone();
        let micros = i64::try_from(image.created).unwrap_or(0).saturating_mul(1_000_000);
        Self {
            name: image.name.clone(),
            source: image.source.clone(),
            digest: image.digest.to_string(),
            bytes: image.bytes,
            created: rfc3339(micros),
            languages: image.languages.clone(),
            details: details.then(|| ImageDetails {
                layers: image.layers.iter().map(ToString::to_string).collect(),
                env,
                workdir,
                user,
                entrypoint,
                command,
                prime,
                notes: image.notes.clone(),
            }),
        }
    }
}

impl ImageList {
    /// Everything in a store.
    ///
    /// # Errors
    /// A report when the store cannot be read.
    pub fn of(store: &Store) -> Result<Self, ErrorReport> {
        let all = store.list().map_err(|e| report(&e))?;
        Ok(Self {
            schema: SCHEMA.to_owned(),
            images: all.iter().map(|i| ImageReport::of(i, false)).collect(),
        })
    }

    /// One image with its details.
    #[must_use]
    pub fn one(image: &Image) -> Self {
        Self { schema: SCHEMA.to_owned(), images: vec![ImageReport::of(image, true)] }
    }
}

/// The store of a state folder.
///
/// # Errors
/// A report when it cannot be used.
pub fn store(state: &StateFolder) -> Result<Store, ErrorReport> {
    Store::open(&state.path().join(FOLDER)).map_err(|e| report(&e))
}

/// Adds an image from a folder, an OCI layout, what `docker save` writes or a registry; without a name under its source's.
/// Waits for the network where it comes from there: not for a thread of an event loop.
///
/// # Errors
/// A report: what is wrong with the source, or that no name can be made of it.
pub fn import(store: &Store, source: &OsStr, name: Option<&str>, cwd: &Path) -> Result<Image, ErrorReport> {
    let name = match name {
        Some(name) => name.to_owned(),
        None => name_of(&source.to_string_lossy()).ok_or_else(|| {
            let why = format!("no name for an image can be made of {}", source.display());
            ErrorReport::new(Code::InvalidValue, why).field("--name").hint("give it one with --name NAME")
        })?,
    };
    let from_registry = source.to_string_lossy().starts_with(SCHEME);
    let source = if from_registry { Source::of(source) } else { Source::of(cwd.join(source).as_os_str()) };
    hotcell_images::import(store, &name, &source, &Limits::default()).map_err(|e| report(&e))
}

/// A name for an image by its source: the last part, without what follows it in names of archives.
fn name_of(source: &str) -> Option<String> {
    const ENDS: [&str; 9] = [".gz", ".xz", ".zst", ".tgz", ".tar", ".oci", ".docker", "-image", "/"];
    let whole = source.split('@').next()?.split('#').next()?;
    let mut name = whole.trim_end_matches('/').rsplit('/').next()?;
    while let Some(shorter) = ENDS.iter().find_map(|end| name.strip_suffix(end)) {
        name = shorter;
    }
    is_name(name).then(|| name.to_owned())
}

/// The image that a run is to have, by its name in a state folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its name.
    pub name: String,
    /// Where.
    pub state: StateChoice,
}

impl Wanted {
    /// Holds it: its layers stay until the run has ended.
    ///
    /// # Errors
    /// A report when there is none of this name.
    pub fn hold(&self) -> Result<Held, ErrorReport> {
        let bad = |e: &StateError| ErrorReport::new(Code::State, e.to_string());
        let path = self.state.path().map_err(|e| bad(&e))?;
        let unknown = || report(&StoreError::Unknown(self.name.clone())).field("--image");
        let folder = StateFolder::open_existing(path).map_err(|e| bad(&e))?.ok_or_else(unknown)?;
        let path = folder.path().join(FOLDER);
        if !path.exists() {
            return Err(unknown());
        }
        Store::open(&path).and_then(|store| store.hold(&self.name)).map_err(|e| report(&e).field("--image"))
    }
}

/// The root that a held image makes.
#[must_use]
pub fn root(held: &Held) -> ImageRoot {
    use hotcell_images::image::TopKind;
    let kind = |kind| match kind {
        TopKind::Folder => RootKind::Folder,
        TopKind::File => RootKind::File,
        TopKind::Link => RootKind::Link,
    };
    ImageRoot {
        layers: held.layers.clone(),
        top: held.image.top.iter().map(|t| RootEntry { name: t.name.clone(), kind: kind(t.kind) }).collect(),
    }
}

/// The variables of an image that a run has. Those of the sandbox itself stay its own; `PATH` is not among them.
#[must_use]
pub fn variables(image: &Image) -> Vec<(OsString, OsString)> {
    const OWN: [&str; 4] = ["PATH", "HOME", "TMPDIR", "PWD"];
    // A proxy of the image's is none that a sandbox could reach.
    let proxy = |name: &str| name.to_ascii_lowercase().ends_with("_proxy");
    let theirs = image.config.env.iter().filter(|(name, _)| !OWN.contains(&name.as_str()) && !proxy(name));
    theirs.map(|(name, value)| (name.into(), value.into())).collect()
}

/// A store's error as a report.
#[must_use]
pub fn report(error: &StoreError) -> ErrorReport {
    let (code, hint) = match error {
        StoreError::Unknown(name) if Definition::names().any(|known| known == name) => {
            let hint = format!("hotcell image build {name} makes it");
            return ErrorReport::new(Code::UnknownName, error.to_string()).hint(hint);
        }
        StoreError::Unknown(_) => (
            Code::UnknownName,
            Some("hotcell image list shows which there are; hotcell image build or import adds one"),
        ),
        StoreError::Name(_) => (Code::InvalidValue, Some("give it another with --name NAME")),
        StoreError::Source(SourceError::NoImage(_)) => (
            Code::InvalidValue,
            Some("name the folder of a root file system, an OCI layout, or what docker save wrote"),
        ),
        StoreError::Source(_) | StoreError::Layers(_) | StoreError::Large(_) => (Code::InvalidValue, None),
        StoreError::Layer { .. } => (Code::InvalidValue, Some("nothing of it was kept")),
        StoreError::Digest { .. } => (Code::InvalidValue, Some("nothing of it was kept; get it again")),
        StoreError::Damaged(..) | StoreError::Io(_) => (Code::State, None),
    };
    let report = ErrorReport::new(code, error.to_string());
    match hint {
        Some(hint) => report.hint(hint),
        None => report,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_sources() {
        for (source, name) in [
            ("python.tar.gz", Some("python")),
            ("/srv/images/debian/", Some("debian")),
            ("./a/b.oci.tar", Some("b")),
            ("oci://localhost:5000/library/python:3.14", Some("python:3.14")),
            ("oci://localhost/a/node@sha256:00", Some("node")),
            ("layout#v1", Some("layout")),
            ("/", None),
            ("..", None),
            ("with space.tar", None),
        ] {
            assert_eq!(name_of(source).as_deref(), name, "{source}");
        }
    }
}
