//! Images in the state folder: root file systems for runs, in place of the host's `/usr`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use hotcell_images::SourceError;
use hotcell_images::image::is_name;
use hotcell_images::source::SCHEME;
use hotcell_images::{Config, Definition, Held, Image, Limits, Source, Store, StoreError};
use hotcell_sandbox::layer::likely;
use hotcell_sandbox::policy::{ImageRoot, RootEntry, RootKind};
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::{StateChoice, StateError, StateFolder};
use hotcell_state::time::rfc3339;
use schemars::JsonSchema;
use serde::Serialize;

/// Value of the `schema` field.
pub const SCHEMA: &str = "hotcell.images/1";
/// Folder name in the state folder.
const FOLDER: &str = "images";

/// List of images in the form `hotcell.images/1`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ImageList {
    /// Always `hotcell.images/1`.
    pub schema: String,
    /// Images, by name.
    pub images: Vec<ImageReport>,
}

/// An image.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ImageReport {
    /// Local name.
    pub name: String,
    /// Source as it was requested.
    pub source: String,
    /// Digest of the manifest; for a folder, of the archive made from it.
    pub digest: String,
    /// Total size of files in its layers, in bytes. Shared layers count for each image.
    pub bytes: u64,
    /// Time of import: RFC 3339.
    pub created: String,
    /// Languages whose interpreter or compiler is on its `PATH`.
    pub languages: Vec<String>,
    /// Details; `null` in a list.
    pub details: Option<ImageDetails>,
}

/// Contents of an image.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ImageDetails {
    /// Layers, topmost first: digests of their uncompressed archives.
    pub layers: Vec<String>,
    /// Variables set by its maker. `HOME` and `TMPDIR` are the sandbox's own.
    pub env: BTreeMap<String, String>,
    /// Working directory set by its maker. Not used: a run starts in its workspace, else in the home folder.
    pub workdir: Option<String>,
    /// User set by its maker. Not used: a run is user 1000.
    pub user: Option<String>,
    /// Program set by its maker. Not used: a run names its own.
    pub entrypoint: Vec<String>,
    /// Arguments set by its maker. Not used.
    pub command: Vec<String>,
    /// Modules that an idle Python of this image imports in advance.
    pub prime: Vec<String>,
    /// Omitted parts of the image, with the reasons.
    pub notes: Vec<String>,
}

impl ImageReport {
    /// Report on an image; with details, if `details`.
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
    /// All images in a store.
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

/// Opens the store of a state folder.
///
/// # Errors
/// A report when it cannot be used.
pub fn store(state: &StateFolder) -> Result<Store, ErrorReport> {
    Store::open(&state.path().join(FOLDER)).map_err(|e| report(&e))
}

/// Imports an image from a folder, an OCI layout, an archive of `docker save` or a registry; without a name
/// it is named after its source. Blocks on the network for a registry, so do not call it on an event loop's
/// thread.
///
/// # Errors
/// A report when the source is invalid, or no name can be derived from it.
pub fn import(store: &Store, source: &OsStr, name: Option<&str>, cwd: &Path) -> Result<Image, ErrorReport> {
    let name = match name {
        Some(name) => name.to_owned(),
        None => name_of(&source.to_string_lossy()).ok_or_else(|| {
            let why = format!("no name for an image can be made of {}", source.display());
            ErrorReport::new(Code::InvalidValue, why).parameter("name").hint("give it one with ‹name=NAME›")
        })?,
    };
    let from_registry = source.to_string_lossy().starts_with(SCHEME);
    let source = if from_registry { Source::of(source) } else { Source::of(cwd.join(source).as_os_str()) };
    hotcell_images::import(store, &name, &source, &Limits::default()).map_err(|e| report(&e))
}

/// Name of an image derived from its source: the last part, without extensions of archives.
fn name_of(source: &str) -> Option<String> {
    const ENDS: [&str; 9] = [".gz", ".xz", ".zst", ".tgz", ".tar", ".oci", ".docker", "-image", "/"];
    let whole = source.split('@').next()?.split('#').next()?;
    let mut name = whole.trim_end_matches('/').rsplit('/').next()?;
    while let Some(shorter) = ENDS.iter().find_map(|end| name.strip_suffix(end)) {
        name = shorter;
    }
    is_name(name).then(|| name.to_owned())
}

/// Image requested for a run, by its name in a state folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Name of the image.
    pub name: String,
    /// State folder.
    pub state: StateChoice,
}

impl Wanted {
    /// Holds the image: its layers are kept until the run has ended.
    ///
    /// # Errors
    /// A report when there is no image of this name.
    pub fn hold(&self) -> Result<Held, ErrorReport> {
        let bad = |e: &StateError| ErrorReport::new(Code::State, e.to_string());
        let path = self.state.path().map_err(|e| bad(&e))?;
        let unknown = || report(&StoreError::Unknown(self.name.clone())).parameter("image");
        let folder = StateFolder::open_existing(path).map_err(|e| bad(&e))?.ok_or_else(unknown)?;
        let path = folder.path().join(FOLDER);
        if !path.exists() {
            return Err(unknown());
        }
        let store = Store::open(&path).map_err(|e| report(&e).parameter("image"))?;
        store.hold(&self.name).map_err(|e| report_in(&store, &e).parameter("image"))
    }
}

/// Root file system of a held image.
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

/// Variables of an image that a run gets. The sandbox's own variables and `PATH` are left out.
#[must_use]
pub fn variables(image: &Image) -> Vec<(OsString, OsString)> {
    const OWN: [&str; 4] = ["PATH", "HOME", "TMPDIR", "PWD"];
    // The image's proxy is not reachable from a sandbox.
    let proxy = |name: &str| name.to_ascii_lowercase().ends_with("_proxy");
    let theirs = image.config.env.iter().filter(|(name, _)| !OWN.contains(&name.as_str()) && !proxy(name));
    theirs.map(|(name, value)| (name.into(), value.into())).collect()
}

/// Converts an error of the store into a report, with the nearest image for an unknown one.
#[must_use]
pub fn report_in(store: &Store, error: &StoreError) -> ErrorReport {
    let report = report(error);
    let StoreError::Unknown(name) = error else { return report };
    let all = store.list().unwrap_or_default();
    match likely(name, all.iter().map(|image| image.name.as_str())) {
        Some(near) => report.hint(format!("did you mean {near}? hotcell image list shows which there are")),
        None => report,
    }
}

/// Converts an error of the store into a report.
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
        StoreError::Name(_) => (Code::InvalidValue, Some("give it another with ‹name=NAME›")),
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
    fn image_name_follows_source() {
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
