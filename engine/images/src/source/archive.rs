//! A tar archive with access to its files by name: an OCI layout or a `docker save` archive. It is read once
//! to index the offsets of its files.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};

use tar::EntryType;

use super::compression;
use super::oci::Blobs;
use crate::error::{SourceError, StoreError};
use crate::store::Store;
use crate::stream::{Compression, Plain};
use crate::unpack::Limits;

/// Maximum number of files; an image has three per layer.
const MAX_FILES: usize = 10_000;

/// An archive, and the offsets of its files.
pub(crate) struct Archive {
    file: File,
    files: HashMap<String, Place>,
}

enum Place {
    /// Offset and length in bytes.
    Bytes(u64, u64),
    /// Name of another file: in old archives, layers may be links to an equal layer.
    Link(String),
}

impl Archive {
    pub(crate) fn open(store: &Store, path: &Path, limits: &Limits) -> Result<Self, StoreError> {
        let unreadable = |error| SourceError::Unreadable { path: path.to_owned(), error };
        let mut file = File::open(path).map_err(unreadable)?;
        if !file.metadata().map_err(unreadable)?.is_file() {
            return Err(SourceError::NoImage(path.display().to_string()).into());
        }
        if compression(&mut file).map_err(unreadable)? != Compression::None {
            file = plain(store, file, limits, path)?;
        }
        let files = index(&mut file).map_err(|_| SourceError::NoImage(path.display().to_string()))?;
        if !files.contains_key("index.json") && !files.contains_key("manifest.json") {
            return Err(SourceError::NoImage(path.display().to_string()).into());
        }
        Ok(Self { file, files })
    }
}

/// Decompresses the archive into an unnamed file.
fn plain(store: &Store, file: File, limits: &Limits, path: &Path) -> Result<File, StoreError> {
    let mut import = store.begin()?;
    let folder = import.fresh()?;
    let name = folder.join("plain");
    let kept = (|| {
        let mut kept = File::options().read(true).write(true).create_new(true).open(&name)?;
        io::copy(&mut Plain::new(file, limits.ratio, limits.bytes)?, &mut kept)?;
        kept.rewind()?;
        Ok(kept)
    })();
    std::fs::remove_dir_all(&folder)?;
    Ok(kept.map_err(|error| SourceError::Unreadable { path: path.to_owned(), error })?)
}

fn index(file: &mut File) -> io::Result<HashMap<String, Place>> {
    // Reads headers only and seeks over the content.
    let mut files = HashMap::new();
    let mut archive =
        tar::Archive::new(BufReader::with_capacity(4096, Bounded { file, left: MAX_FILES * 4096 }));
    for entry in archive.entries_with_seek()? {
        let entry = entry?;
        let Some(name) = entry.path_bytes().strip_prefix(b"./").map_or_else(
            || String::from_utf8(entry.path_bytes().into_owned()).ok(),
            |rest| String::from_utf8(rest.to_owned()).ok(),
        ) else {
            continue;
        };
        if files.len() == MAX_FILES {
            return Err(io::Error::other("too many files"));
        }
        match entry.header().entry_type() {
            EntryType::Regular => {
                files.insert(name, Place::Bytes(entry.raw_file_position(), entry.size()));
            }
            EntryType::Symlink | EntryType::Link => {
                let says = entry.link_name_bytes().unwrap_or_default();
                let from = if entry.header().entry_type() == EntryType::Link {
                    Path::new("")
                } else {
                    Path::new(&name).parent().unwrap_or(Path::new(""))
                };
                if let Some(to) = std::str::from_utf8(&says).ok().and_then(|says| joined(from, says)) {
                    files.insert(name, Place::Link(to));
                }
            }
            _ => {}
        }
    }
    Ok(files)
}

/// Limits the bytes of headers, whatever lengths they claim.
struct Bounded<'a> {
    file: &'a mut File,
    left: usize,
}

impl Read for Bounded<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(io::Error::other("its headers are too long"));
        }
        let len = out.len().min(self.left);
        let count = self.file.read(&mut out[..len])?;
        self.left -= count;
        Ok(count)
    }
}

impl Seek for Bounded<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// Resolves the target of a relative link to a name in the archive.
fn joined(from: &Path, says: &str) -> Option<String> {
    let mut path = PathBuf::from(from);
    for part in Path::new(says).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::ParentDir => {
                path.pop();
            }
            Component::CurDir => {}
            _ => return None,
        }
    }
    path.into_os_string().into_string().ok()
}

impl Blobs for Archive {
    fn open(&self, name: &str) -> Result<Box<dyn Read + '_>, SourceError> {
        let mut at = name;
        for _ in 0..8 {
            match self.files.get(at) {
                Some(Place::Bytes(offset, length)) => {
                    return Ok(Box::new(Part { file: &self.file, at: *offset, left: *length }));
                }
                Some(Place::Link(to)) => at = to,
                None => break,
            }
        }
        Err(SourceError::Missing(name.to_owned()))
    }
}

/// A range of a file.
struct Part<'a> {
    file: &'a File,
    at: u64,
    left: u64,
}

impl Read for Part<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = out.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let count = self.file.read_at(&mut out[..len], self.at)?;
        self.at += count as u64;
        self.left -= count as u64;
        Ok(count)
    }
}
