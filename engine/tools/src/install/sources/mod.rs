//! Sources of components. Everything that is fetched is untrusted bytes.
//!
//! | module | from |
//! | --- | --- |
//! | [`mod@file`] | a component |
//! | [`folder`] | a component with its `plugin.toml` and its signature |
//! | [`https`] | a URL, with the digest that it must have |
//! | [`oci`] | a registry of OCI artifacts |
//! | [`mod@publish`] | and to such a registry |
//!
//! [`hotcell_oci`] bounds the answers of servers, and asks registries.

pub mod file;
pub mod folder;
pub mod https;
pub mod oci;
pub mod publish;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use hotcell_oci::RegistryError;
use sha2::{Digest, Sha256};

use crate::BoxFuture;
use crate::install::signature::{Key, SignatureError};

/// Maximum size of a component, in bytes.
pub const MAX_SOURCE_BYTES: u64 = 64 << 20;
/// Maximum size of a signature, in bytes.
const MAX_SIGNATURE_BYTES: u64 = 4096;

/// Source of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A component in a file, by an absolute path.
    File(PathBuf),
    /// A folder with one component.
    Folder(PathBuf),
    /// A URL, with the digest of its contents.
    Https(https::Url),
    /// An artifact in a registry.
    Oci(oci::Artifact),
}

/// Fetched component and the files beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The component.
    pub wasm: Vec<u8>,
    /// Manifest from beside the component, and its name in errors.
    pub manifest: Option<(String, PathBuf)>,
    /// Signature from beside the component.
    pub signature: Option<String>,
    /// A name for a component without a manifest.
    pub name: String,
    /// Exact source: with a digest, if it has one.
    pub pinned: String,
}

/// Reasons nothing was fetched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// The source does not exist, or cannot be read.
    #[error("{place}: {why}")]
    Unreadable {
        /// Source as it was named.
        place: String,
        /// Reason, and what to do.
        why: String,
    },
    /// The component does not have the promised digest.
    #[error(
        "{place} has the digest sha256:{found}, and not sha256:{promised}: somebody changed it, or the digest is another file's"
    )]
    Digest {
        /// Source as it was named.
        place: String,
        /// Digest that it must have.
        promised: String,
        /// Digest that it has.
        found: String,
    },
    /// The component or a document is too long.
    #[error("{place} is longer than {most} bytes")]
    Long {
        /// Source as it was named.
        place: String,
        /// Maximum size in bytes.
        most: u64,
    },
}

impl SourceError {
    pub(crate) fn unreadable(place: impl std::fmt::Display, why: impl std::fmt::Display) -> Self {
        Self::Unreadable { place: place.to_string(), why: why.to_string() }
    }
}

impl From<RegistryError> for SourceError {
    fn from(error: RegistryError) -> Self {
        match error {
            RegistryError::Unreadable { place, why } => Self::Unreadable { place, why },
            RegistryError::Long { place, most } => Self::Long { place, most },
            RegistryError::Digest { place, promised, found } => {
                Self::Digest { place, promised: hex::encode(promised), found: hex::encode(found) }
            }
        }
    }
}

impl Source {
    /// Parses a source as a person names it: a path relative to `cwd`, `https://…#sha256=…` or `oci://…`.
    ///
    /// # Errors
    /// [`SourceError::Unreadable`] for anything else.
    pub fn parse(text: &OsStr, cwd: &Path) -> Result<Self, SourceError> {
        let shown = text.to_string_lossy();
        // The folder itself is `.`: a variable that is not set must not name it.
        if shown.is_empty() {
            return Err(SourceError::unreadable(
                format!("{shown:?}"),
                "names nothing; name a component, its folder, a URL or oci://…",
            ));
        }
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
        // The path is stored as text, and shown.
        if path.to_str().is_none() {
            return Err(SourceError::unreadable(path.display(), "its path is not UTF-8"));
        }
        Ok(if path.is_dir() { Self::Folder(path) } else { Self::File(path) })
    }

    /// The part of a source that does not change between versions: a path, a URL without its digest, a
    /// repository without its tag.
    #[must_use]
    pub fn place(&self) -> String {
        match self {
            Self::File(path) | Self::Folder(path) => path.display().to_string(),
            Self::Https(url) => url.place().to_owned(),
            Self::Oci(artifact) => artifact.place(),
        }
    }

    /// Whether the source is on this host, so that it may be changed while hotcell runs.
    #[must_use]
    pub fn is_local(&self) -> bool {
        matches!(self, Self::File(_) | Self::Folder(_))
    }

    /// Checks that this key signed what was fetched.
    ///
    /// # Errors
    /// [`SignatureError`].
    pub async fn check(
        &self,
        fetched: &Fetched,
        key: &Key,
        signature: Option<&str>,
    ) -> Result<(), SignatureError> {
        let Some(cosign) = key.cosign() else { return key.check(&fetched.wasm, signature) };
        let digest = fetched.pinned.rsplit_once("@sha256:").map(|(_, digest)| digest);
        let (Self::Oci(artifact), Some(digest)) = (self, digest) else { return Err(SignatureError::NotHere) };
        let bad = |why| SignatureError::Registry { tag: crate::install::cosign::tag(digest), why };
        let all = oci::signatures(artifact, digest).await.map_err(|e| bad(e.to_string()))?;
        cosign.check(digest, &all).map_err(bad)
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

/// SHA-256 in hexadecimal.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// Whether a text is a SHA-256 digest in lower-case hexadecimal digits.
pub(crate) fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// A plugin's name from the last part of a path: a hyphen replaces characters that a name cannot have, and a
/// word is put before a beginning that it cannot have. Empty if letters would be lost, as `n` for `ünï`: two
/// such files would share a name. The name may be too long, which the caller has to report.
pub(crate) fn name_of(last: &str) -> String {
    let stem = last.split('@').next().unwrap_or(last);
    let stem = stem.strip_suffix(".wasm").unwrap_or(stem);
    if stem.contains(|c: char| !c.is_ascii() && c.is_alphanumeric()) {
        return String::new();
    }
    let name =
        stem.to_ascii_lowercase().replace(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit()), "-");
    let name = name.trim_matches('-');
    if name.starts_with(|c: char| c.is_ascii_digit()) { format!("plugin-{name}") } else { name.to_owned() }
}

#[cfg(test)]
mod hostile_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugin_name_follows_source() {
        for (last, name) in [
            ("files.wasm", "files"),
            ("My_Tool.wasm", "my-tool"),
            ("tool@sha256", "tool"),
            ("conv1.wasm", "conv1"),
            ("conv2.wasm", "conv2"),
            ("my_tool_v2", "my-tool-v2"),
            ("v1.2.3.wasm", "v1-2-3"),
            ("2048.wasm", "plugin-2048"),
            ("2fa.wasm", "plugin-2fa"),
            ("-.wasm", ""),
            ("ünï.wasm", ""),
            ("工具", ""),
            ("my…tool.wasm", "my-tool"),
            (&"a".repeat(33), &"a".repeat(33)),
        ] {
            assert_eq!(name_of(last), name);
        }
    }

    #[test]
    fn source_spellings_are_parsed() {
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
            ("", "\"\": names nothing; name a component"),
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
