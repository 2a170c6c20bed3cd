//! The files that a run left in its home folder, for the caller to read. They are hostile: no path leads out
//! of the folder.
//!
//! Everything is opened below one directory handle, without following links or crossing mounts, and only
//! regular files are read. Processes of the run may stay alive for a moment and change files during a read,
//! so all data is the program's and may be incomplete.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::{Dir, MetadataExt as _};
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};

use crate::host_scratch::Scratch;
use crate::units::Bytes;

/// The home folder of a run that has ended. Its memory is held until this value is dropped.
#[derive(Debug)]
pub struct Home {
    folder: OwnedFd,
    /// Keeps the host folder of a sandbox without its own root; it is removed with the last holder.
    _held: Option<Held>,
}

/// A value that must live as long as the folder.
pub type Held = Arc<dyn std::any::Any + Send + Sync>;

/// Error of reading a file that a run left.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// There is no such file.
    #[error("{0} is not there")]
    Missing(PathBuf),
    /// The path is, or leads through, a link, a folder, a pipe or a device.
    #[error("{0} is not a file")]
    NotAFile(PathBuf),
    /// The file is larger than the caller's limit.
    #[error("{path} has {bytes} and at most {most} are taken", bytes = Bytes(*.bytes))]
    TooLarge {
        /// Path of the file.
        path: PathBuf,
        /// Size of the file.
        bytes: u64,
        /// The caller's limit.
        most: Bytes,
    },
    /// The kernel refused.
    #[error("{path}: {error}")]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// The kernel's error.
        error: io::Error,
    },
}

impl Home {
    /// Opens the home folder from the top of a scratch file system, or from the scratch folder of a sandbox
    /// without its own root.
    pub(crate) fn of(scratch: Option<&File>, plain: Option<Arc<Scratch>>) -> Option<Self> {
        let opened = match (scratch, &plain) {
            (Some(top), _) => open(top, Path::new("home"), OFlag::O_DIRECTORY),
            (None, Some(plain)) => nix::fcntl::open(
                plain.path(),
                OFlag::O_DIRECTORY | OFlag::O_CLOEXEC,
                nix::sys::stat::Mode::empty(),
            ),
            (None, None) => return None,
        };
        Some(Self { folder: opened.ok()?, _held: plain.map(|plain| plain as Held) })
    }

    /// Wraps the home folder of a run that another process followed.
    #[must_use]
    pub fn handed(folder: OwnedFd, held: Held) -> Self {
        Self { folder, _held: Some(held) }
    }

    /// The home folder.
    #[must_use]
    pub fn folder(&self) -> std::os::fd::BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// Reads a file of at most `most` bytes. `path` is relative to the home folder.
    ///
    /// # Errors
    /// [`CollectError`] when the path is missing, is not a regular file, is larger than `most` (nothing is
    /// read then), or cannot be read.
    pub fn read(&self, path: &Path, most: Bytes) -> Result<Vec<u8>, CollectError> {
        let mut bytes = Vec::new();
        self.copy(path, most, &mut bytes)?;
        Ok(bytes)
    }

    /// Like [`Home::read`], but writes the file to `to` in chunks. Returns the number of bytes written.
    ///
    /// # Errors
    /// [`CollectError`] as for [`Home::read`]; if the file grew past `most` during the copy, part of it has
    /// been written.
    pub fn copy(&self, path: &Path, most: Bytes, to: &mut impl io::Write) -> Result<u64, CollectError> {
        let fail = |error: io::Error| CollectError::Io { path: path.to_owned(), error };
        let too_large = |bytes| CollectError::TooLarge { path: path.to_owned(), bytes, most };
        let file = File::from(self.open(path, OFlag::empty())?);
        let about = file.metadata().map_err(fail)?;
        if !about.is_file() {
            return Err(CollectError::NotAFile(path.to_owned()));
        }
        if about.size() > most.0 {
            return Err(too_large(about.size()));
        }
        // The file may still grow.
        let bytes = io::copy(&mut file.take(most.0.saturating_add(1)), to).map_err(fail)?;
        if bytes > most.0 { Err(too_large(bytes)) } else { Ok(bytes) }
    }

    /// The regular files of one folder with their sizes, at most `most` of them, in no order. `folder` is relative to
    /// the home folder.
    ///
    /// # Errors
    /// [`CollectError`] when the folder cannot be read.
    pub fn list(&self, folder: &Path, most: usize) -> Result<Vec<(PathBuf, Bytes)>, CollectError> {
        let fail = |error: io::Error| CollectError::Io { path: folder.to_owned(), error };
        let dir = Dir::from_std_file(File::from(self.open(folder, OFlag::O_DIRECTORY)?));
        let mut files = Vec::new();
        for entry in dir.entries().map_err(fail)? {
            let entry = entry.map_err(fail)?;
            // Of the entry itself; a link is not followed.
            if let Some(about) = entry.metadata().ok().filter(cap_std::fs::Metadata::is_file) {
                if files.len() == most {
                    break;
                }
                files.push((folder.join(entry.file_name()), Bytes(about.size())));
            }
        }
        Ok(files)
    }

    /// Like [`Home::list`], but recursive: at most `most` entries of any kind, at most `deep` levels of
    /// folders below.
    ///
    /// # Errors
    /// [`CollectError`] when a folder cannot be read, or a limit is exceeded.
    pub fn tree(
        &self,
        folder: &Path,
        most: usize,
        deep: usize,
    ) -> Result<Vec<(PathBuf, Bytes)>, CollectError> {
        let fail = |error: io::Error| CollectError::Io { path: folder.to_owned(), error };
        let too_many = || fail(io::Error::other(format!("has more than {most} entries, or {deep} levels")));
        let (mut files, mut entries) = (Vec::new(), 0);
        let mut folders = vec![(folder.to_owned(), 0)];
        while let Some((at, level)) = folders.pop() {
            let dir = Dir::from_std_file(File::from(self.open(&at, OFlag::O_DIRECTORY)?));
            for entry in dir.entries().map_err(fail)? {
                let entry = entry.map_err(fail)?;
                entries += 1;
                if entries > most || level > deep {
                    return Err(too_many());
                }
                let Ok(about) = entry.metadata() else { continue };
                if about.is_dir() {
                    folders.push((at.join(entry.file_name()), level + 1));
                } else if about.is_file() {
                    files.push((at.join(entry.file_name()), Bytes(about.size())));
                }
            }
        }
        Ok(files)
    }

    /// Opens a folder, for a caller that can read hostile folders. `path` is relative to the home folder. The
    /// contents may change until the run's [`Changed`](crate::Changed) has settled.
    ///
    /// # Errors
    /// [`CollectError`] when the path is not a folder, or leads through a link.
    pub fn open_folder(&self, path: &Path) -> Result<OwnedFd, CollectError> {
        self.open(path, OFlag::O_DIRECTORY)
    }

    pub(crate) fn open(&self, path: &Path, flags: OFlag) -> Result<OwnedFd, CollectError> {
        open(&self.folder, path, flags).map_err(|errno| match errno {
            Errno::ENOENT => CollectError::Missing(path.to_owned()),
            // A link, another mount, a path that leads out, or a pipe without a reader.
            Errno::ELOOP | Errno::EXDEV | Errno::ENOTDIR | Errno::ENXIO => {
                CollectError::NotAFile(path.to_owned())
            }
            errno => CollectError::Io { path: path.to_owned(), error: errno.into() },
        })
    }
}

/// Opens a path below a folder, without blocking on a pipe. `openat2(2)`
pub(crate) fn open(at: impl AsFd, path: &Path, flags: OFlag) -> nix::Result<OwnedFd> {
    let resolve = ResolveFlag::RESOLVE_BENEATH
        | ResolveFlag::RESOLVE_NO_SYMLINKS
        | ResolveFlag::RESOLVE_NO_MAGICLINKS
        | ResolveFlag::RESOLVE_NO_XDEV;
    let flags = flags | OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    openat2(at, path, OpenHow::new().flags(flags).resolve(resolve))
}
