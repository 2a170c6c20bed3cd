//! Plan to install the contents of a lock file: the installer, its files and the registries it may reach. Pure; the project is hostile.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use hotcell_testing::Project;
use sha2::{Digest, Sha256};

/// Folder for installed packages, below the project. Nothing in it reaches the original.
pub const MADE: &str = ".hotcell-deps";
/// Maximum size of a lock file, in bytes.
const MAX_LOCK_BYTES: u64 = 16 << 20;
/// Maximum number of manifests for an installer; below, their maximum total size in bytes.
const MAX_MANIFESTS: usize = 4000;
pub(crate) const MAX_MANIFEST_BYTES: usize = 32 << 20;
/// Version of the cached data; data of another version is installed again.
const FORM: &str = "3";

/// Program that installs packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Installer {
    /// `npm ci`
    Npm,
    /// `pip install`
    Pip,
    /// `cargo fetch`
    Cargo,
    /// `go mod download`
    Go,
}

/// Plan to install the contents of a lock file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Installer.
    pub installer: Installer,
    /// Lock files.
    pub locks: Vec<String>,
    /// Digest of the request: sha256, in hexadecimal, of the lock files and everything else that affects the
    /// result.
    pub digest: String,
    /// Registries, as `HOST:443`.
    pub hosts: BTreeSet<String>,
    /// Installer and its arguments; it starts in the project.
    pub argv: Vec<OsString>,
    /// Variables of the installer.
    pub env: Vec<(OsString, OsString)>,
    /// All files that it sees, by path: other files of the project cannot change its result.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Output of the installer, in the same folder.
    pub made: PathBuf,
    /// Folders of the project's packages that its tool would install in editable mode; the project itself is
    /// the empty path.
    pub own: Vec<PathBuf>,
    /// How to compile the packages before the tests, if that takes long.
    pub ahead: Option<Ahead>,
}

/// Why a lock file is not installed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {why}")]
pub struct LockError {
    /// File.
    pub file: String,
    /// Problem, and what to do about it.
    pub why: String,
}

/// How packages are compiled before the project's tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// Additional files for cargo, beside the plan's.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Packages from registries whose names differ from all of the project's own: other results could be
    /// mistaken for the project's packages, which were compiled from empty stubs.
    pub packages: BTreeSet<String>,
    /// The project's own packages, by crate name: results from stubs are not kept.
    pub own: BTreeSet<String>,
}

impl Installer {
    /// Name of the installer.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Npm => "npm",
            Self::Pip => "pip",
            Self::Cargo => "cargo",
            Self::Go => "go",
        }
    }

    pub(crate) fn plan(
        self,
        locks: &[&str],
        files: BTreeMap<String, Vec<u8>>,
        hosts: BTreeSet<String>,
        words: &[&str],
        made: &str,
    ) -> Plan {
        let mut hash = Sha256::new();
        let own = [FORM, self.name(), std::env::consts::ARCH].map(str::as_bytes);
        let theirs = files.iter().flat_map(|(name, text)| [name.as_bytes(), text.as_slice()]);
        for part in own.into_iter().chain(theirs) {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let hex = hex::encode(hash.finalize());
        Plan {
            installer: self,
            locks: locks.iter().map(|lock| (*lock).to_owned()).collect(),
            digest: hex,
            hosts,
            argv: words.iter().map(OsString::from).collect(),
            env: Vec::new(),
            files,
            made: made.into(),
            own: Vec::new(),
            ahead: None,
        }
    }
}

pub(crate) fn bad(file: &str, why: impl Into<String>) -> LockError {
    LockError { file: file.to_owned(), why: why.into() }
}

/// True when a path leads below its base folder.
pub fn is_below(path: &str) -> bool {
    Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

/// Adds a file of the project to the installer's files.
pub fn add(
    files: &mut BTreeMap<String, Vec<u8>>,
    project: &dyn Project,
    file: String,
) -> Result<(), LockError> {
    if !is_below(&file) {
        return Err(bad(&file, "is no path below the project"));
    }
    let bytes = text(project, &file)?;
    put(files, file, bytes)
}

/// Adds a file to the installer's files.
pub fn put(files: &mut BTreeMap<String, Vec<u8>>, file: String, bytes: Vec<u8>) -> Result<(), LockError> {
    let all: usize = files.values().map(Vec::len).sum();
    if files.len() >= MAX_MANIFESTS || all + bytes.len() > MAX_MANIFEST_BYTES {
        return Err(bad(
            &file,
            format!(
                "is one too many: at most {MAX_MANIFESTS} manifests of {} MiB are installed",
                MAX_MANIFEST_BYTES >> 20
            ),
        ));
    }
    files.insert(file, bytes);
    Ok(())
}

pub(crate) fn text(project: &dyn Project, file: &str) -> Result<Vec<u8>, LockError> {
    let bytes = project
        .read_more(file, MAX_LOCK_BYTES + 1)
        .ok_or_else(|| bad(file, "cannot be read; it must be a file of the project's"))?;
    match bytes.len() as u64 > MAX_LOCK_BYTES {
        true => {
            Err(bad(file, format!("is longer than {} MiB, of which nothing is read", MAX_LOCK_BYTES >> 20)))
        }
        false => Ok(bytes),
    }
}

/// Host of an https address, as an egress rule.
pub fn host(file: &str, address: &str) -> Result<String, LockError> {
    let rest = address.strip_prefix("https://").ok_or_else(|| {
        bad(file, format!("{address:.200} is not of a registry that is reached by https; only those are"))
    })?;
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let plain = !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b));
    match plain {
        true => Ok(format!("{}:443", host.to_ascii_lowercase())),
        false => {
            Err(bad(file, format!("{address:.200} names no plain host; only https://HOST/… is fetched")))
        }
    }
}

/// True for a valid package name or version.
pub fn is_plain(word: &str) -> bool {
    let starts = word.starts_with(|c: char| c.is_ascii_alphanumeric());
    starts && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._+!".contains(&b))
}
