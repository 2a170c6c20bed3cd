//! Where components come from. What was fetched is bytes: nothing of it is believed yet.
//!
//! | module | from |
//! | --- | --- |
//! | [`mod@file`] | a component |
//! | [`folder`] | a component with its `plugin.toml` and its signature |
//! | [`https`] | a URL, with the digest that it has to have |
//! | [`oci`] | a registry of OCI artifacts |
//! | `registry` | what a registry is asked |
//! | `bounded` | how much of a server's answers is taken, and how late |

mod bounded;
pub mod file;
pub mod folder;
pub mod https;
pub mod oci;
mod registry;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::BoxFuture;

/// The longest component, in bytes.
pub const LONGEST: u64 = 64 << 20;
/// The longest signature, in bytes.
const LONGEST_SIGNATURE: u64 = 4096;

/// A place that components come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A component; an absolute path.
    File(PathBuf),
    /// A folder with one component.
    Folder(PathBuf),
    /// A URL, with the digest of what is there.
    Https(https::Url),
    /// An artifact of a registry.
    Oci(oci::Artifact),
}

/// What was fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The component.
    pub wasm: Vec<u8>,
    /// The manifest that lay beside it, and what an error calls that.
    pub manifest: Option<(String, PathBuf)>,
    /// The signature that lay beside it.
    pub signature: Option<String>,
    /// A name for a component without a manifest.
    pub name: String,
    /// Where exactly it came from: with a digest, where one can be named.
    pub pinned: String,
}

/// Why nothing was fetched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// There is nothing of this name, or it cannot be read.
    #[error("{place}: {why}")]
    Unreadable {
        /// What was named.
        place: String,
        /// Why not, and what to do.
        why: String,
    },
    /// It is not what it has to be.
    #[error(
        "{place} has the digest sha256:{found}, and not sha256:{promised}: somebody changed it, or the digest is another file's"
    )]
    Digest {
        /// What was named.
        place: String,
        /// What it has to have.
        promised: String,
        /// What it has.
        found: String,
    },
    /// Too long.
    #[error("{place} is longer than {most} bytes")]
    Long {
        /// What was named.
        place: String,
        /// How long it may be.
        most: u64,
    },
}

impl SourceError {
    pub(crate) fn unreadable(place: impl std::fmt::Display, why: impl std::fmt::Display) -> Self {
        Self::Unreadable { place: place.to_string(), why: why.to_string() }
    }
}

impl Source {
    /// Reads what a person named: a path, counted from `cwd`, `https://…#sha256=…` or `oci://…`.
    ///
    /// # Errors
    /// [`SourceError::Unreadable`] where it is neither.
    pub fn parse(text: &OsStr, cwd: &Path) -> Result<Self, SourceError> {
        let shown = text.to_string_lossy();
        if shown.starts_with(oci::SCHEME) {
            return oci::Artifact::parse(&shown).map(Self::Oci);
        }
        if shown.contains("://") {
            return https::Url::parse(&shown).map(Self::Https);
        }
        let path = cwd.join(text);
        let path = path.canonicalize().map_err(|e| {
            SourceError::unreadable(
                path.display(),
                format!("cannot be opened: {e}; name a component, its folder, a URL or oci://…"),
            )
        })?;
        // It is stored as text, and shown.
        if path.to_str().is_none() {
            return Err(SourceError::unreadable(path.display(), "its path is not UTF-8"));
        }
        Ok(if path.is_dir() { Self::Folder(path) } else { Self::File(path) })
    }

    /// What stays the same when it has something newer: a path, a URL without its digest, a repository without its tag.
    #[must_use]
    pub fn place(&self) -> String {
        match self {
            Self::File(path) | Self::Folder(path) => path.display().to_string(),
            Self::Https(url) => url.place().to_owned(),
            Self::Oci(artifact) => artifact.place(),
        }
    }

    /// Whether somebody may change it while hotcell runs: it lies on this host.
    #[must_use]
    pub fn is_local(&self) -> bool {
        matches!(self, Self::File(_) | Self::Folder(_))
    }

    /// Fetches what is there now.
    #[must_use]
    pub fn fetch(&self) -> BoxFuture<'_, Result<Fetched, SourceError>> {
        Box::pin(async move {
            match self {
                Self::File(path) => file::fetch(path),
                Self::Folder(path) => folder::fetch(path),
                Self::Https(url) => https::fetch(url).await,
                Self::Oci(artifact) => oci::fetch(artifact).await,
            }
        })
    }
}

/// sha256 in hexadecimal.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether this is a sha256 digest in small hexadecimal digits.
pub(crate) fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// A plugin's name out of the last part of a path; what cannot stand in one becomes a hyphen.
pub(crate) fn name_of(last: &str) -> String {
    let stem = last.split('@').next().unwrap_or(last);
    let stem = stem.strip_suffix(".wasm").unwrap_or(stem);
    let name =
        stem.to_ascii_lowercase().replace(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit()), "-");
    name.trim_matches(|c: char| c == '-' || c.is_ascii_digit()).chars().take(32).collect()
}

#[cfg(test)]
mod hostile_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_places() {
        for (last, name) in [
            ("files.wasm", "files"),
            ("My_Tool.wasm", "my-tool"),
            ("tool@sha256", "tool"),
            ("2fa.wasm", "fa"),
            ("-.wasm", ""),
        ] {
            assert_eq!(name_of(last), name);
        }
    }

    #[test]
    fn what_a_person_names() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.wasm"), "x").unwrap();
        let digest = "0".repeat(64);
        let read = |text: &str| Source::parse(text.as_ref(), dir.path()).map(|source| source.place());
        let root = dir.path().canonicalize().unwrap().display().to_string();
        assert_eq!(read("a.wasm").unwrap(), format!("{root}/a.wasm"));
        assert_eq!(read(".").unwrap(), root);
        assert_eq!(read(&format!("https://a.org/t.wasm#sha256={digest}")).unwrap(), "https://a.org/t.wasm");
        assert_eq!(read("oci://a.org/x/tool:1").unwrap(), "oci://a.org/x/tool");
        for (text, word) in [
            ("none.wasm", "cannot be opened"),
            ("https://a.org/t.wasm", "#sha256="),
            ("http://a.org/t.wasm#sha256=0", "https"),
            ("oci://tool", "names no registry"),
            ("s3://a/b", "https"),
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
