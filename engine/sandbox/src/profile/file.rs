//! Files that a person writes, in TOML: an unknown key is an error with the file, the line and the nearest known key.

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};

use crate::layer::likely;
use crate::units::Bytes;

/// Maximum size of a profile file in bytes; a profile is about a page of text.
const MAX_PROFILE_BYTES: u64 = 64 * 1024;

/// An error in a file written by a person: `FILE:LINE: MESSAGE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// Path of the file, as it was given.
    pub file: PathBuf,
    /// Line number from 1, if known.
    pub line: Option<usize>,
    /// The invalid key in dotted form, if the error is about a key.
    pub key: Option<String>,
    /// The key that was probably intended.
    pub nearest: Option<String>,
    /// Description of the error.
    pub message: String,
}

impl FileError {
    /// An error about a whole file.
    pub fn of_file(file: &Path, message: impl Into<String>) -> Self {
        Self { file: file.into(), line: None, key: None, nearest: None, message: message.into() }
    }

    /// An error about a key of a file.
    pub fn of_key(file: &Path, key: &str, message: impl fmt::Display) -> Self {
        Self { key: Some(key.to_owned()), ..Self::of_file(file, format!("{key}: {message}")) }
    }

    /// Adds the line on which `key` appears in `text`.
    #[must_use]
    pub fn found_in(mut self, text: &str) -> Self {
        if let (None, Some(key)) = (self.line, &self.key) {
            self.line = line_of_key(text, key);
        }
        self
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        write!(f, " {}", self.message)
    }
}

impl std::error::Error for FileError {}

/// A key allowed in a file, with the keys of its table; a table without known keys accepts any key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Name of the key.
    pub name: &'static str,
    /// Keys allowed in its table.
    pub within: &'static [Key],
}

impl Key {
    /// A key with a value, or with a table of any keys.
    #[must_use]
    pub const fn value(name: &'static str) -> Self {
        Self { name, within: &[] }
    }
    /// A key with a table of known keys.
    #[must_use]
    pub const fn table(name: &'static str, within: &'static [Key]) -> Self {
        Self { name, within }
    }
}

/// Reads a small text file in full. It must be a regular file in UTF-8.
///
/// # Errors
/// [`FileError`] when the file cannot be read, is not a regular file, is too large or is not UTF-8.
pub fn read_text(path: &Path) -> Result<String, FileError> {
    use std::os::unix::fs::OpenOptionsExt;
    // O_NONBLOCK: opening a pipe without a writer must not block.
    let file = std::fs::OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open(path);
    let file = file.map_err(|e| FileError::of_file(path, format!("cannot be read: {e}")))?;
    text_of(file, path)
}

/// Reads a small text file that is already open.
///
/// # Errors
/// [`FileError`] when the file cannot be read, is not a regular file, is too large or is not UTF-8.
pub fn text_of(file: std::fs::File, path: &Path) -> Result<String, FileError> {
    let bad = |message: String| FileError::of_file(path, message);
    let metadata = file.metadata().map_err(|e| bad(format!("cannot be read: {e}")))?;
    if !metadata.is_file() {
        return Err(bad("is not a file".to_owned()));
    }
    let mut bytes = Vec::new();
    file.take(MAX_PROFILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| bad(format!("cannot be read: {e}")))?;
    if bytes.len() as u64 > MAX_PROFILE_BYTES {
        return Err(bad(format!("is longer than {}", Bytes(MAX_PROFILE_BYTES))));
    }
    String::from_utf8(bytes).map_err(|_| bad("is not UTF-8 text".to_owned()))
}

/// Parses TOML, rejecting unknown keys.
///
/// # Errors
/// [`FileError`] with the line, and for an unknown key the nearest key that is allowed there.
pub fn parse_strict<T: DeserializeOwned>(text: &str, file: &Path, known: &[Key]) -> Result<T, FileError> {
    let at = |span: Option<std::ops::Range<usize>>| span.map(|s| line_at(text, s.start));
    let of_toml = |e: toml::de::Error| FileError {
        line: at(e.span()),
        // Only the first line: the rest is an excerpt of the file.
        ..FileError::of_file(file, e.message().lines().next().unwrap_or("is not TOML").to_owned())
    };
    let document = DeTable::parse(text).map_err(of_toml)?;
    check_keys(document.get_ref(), known, "").map_err(|unknown| FileError {
        file: file.to_owned(),
        line: Some(line_at(text, unknown.at)),
        message: match &unknown.nearest {
            Some(nearest) => format!("unknown key {:?}; did you mean {nearest:?}?", unknown.key),
            None => format!("unknown key {:?}", unknown.key),
        },
        key: Some(unknown.key),
        nearest: unknown.nearest,
    })?;
    toml::from_str(text).map_err(of_toml)
}

struct UnknownKey {
    key: String,
    nearest: Option<String>,
    at: usize,
}

fn check_keys(table: &DeTable<'_>, known: &[Key], above: &str) -> Result<(), UnknownKey> {
    for (key, value) in table {
        let name: &str = key.get_ref();
        let Some(found) = known.iter().find(|k| k.name == name) else {
            let nearest = likely(name, known.iter().map(|k| k.name)).map(|n| format!("{above}{n}"));
            return Err(UnknownKey { key: format!("{above}{name}"), nearest, at: key.span().start });
        };
        if let (DeValue::Table(inner), false) = (value.get_ref(), found.within.is_empty()) {
            check_keys(inner, found.within, &format!("{above}{name}."))?;
        }
    }
    Ok(())
}

/// Line number, from 1, on which a dotted key appears.
#[must_use]
pub fn line_of_key(text: &str, dotted: &str) -> Option<usize> {
    fn find(table: &DeTable<'_>, dotted: &str) -> Option<usize> {
        table.iter().find_map(|(key, value)| {
            let name: &str = key.get_ref();
            if name == dotted {
                return Some(key.span().start);
            }
            match (dotted.strip_prefix(name)?.strip_prefix('.'), value.get_ref()) {
                (Some(rest), DeValue::Table(inner)) => find(inner, rest),
                _ => None,
            }
        })
    }
    let document = DeTable::parse(text).ok()?;
    find(document.get_ref(), dotted).map(|at| line_at(text, at))
}

fn line_at(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|b| **b == b'\n').count() + 1
}
