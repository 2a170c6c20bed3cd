//! The few questions that a lookup asks a file system. Nothing here decides anything.

use std::ffi::OsString;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::libc;

/// The most that is read of a version or settings file.
pub(super) const TEXT: usize = 64 << 10;
/// Read at once.
const PAGE: usize = 4 << 10;
/// The most names that are read of one folder.
const NAMES: usize = 4096;

/// What a name is, without following a link at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File {
        /// Whether anybody may execute it.
        executable: bool,
        /// Device and inode: equal for two names of one file.
        id: (u64, u64),
    },
    /// A folder.
    Folder,
    /// A symbolic link and what it says.
    Link(PathBuf),
    /// A device, socket or pipe.
    Other,
}

/// A file system, real or made up for a test.
pub trait Fs {
    /// What `path` is; `None` when it is not there or may not be looked at.
    fn look(&self, path: &Path) -> Option<Kind>;
    /// The first bytes of a regular file, at most `most`; `None` when it cannot be read.
    fn head(&self, path: &Path, most: usize) -> Option<Vec<u8>>;
    /// Names in a folder, sorted, a bounded number of them; none when it cannot be read.
    fn names(&self, folder: &Path) -> Vec<OsString>;

    /// A small text file; `None` when it is not there.
    fn text(&self, path: &Path) -> Option<String> {
        self.head(path, TEXT).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The same for a file in a folder that may be hostile: a link could make a message repeat any file of the host.
    fn own_text(&self, path: &Path) -> Option<String> {
        matches!(self.look(path), Some(Kind::File { .. })).then(|| self.text(path))?
    }
}

/// The host's file system.
#[derive(Clone, Copy, Debug)]
pub struct Host;

impl Fs for Host {
    fn look(&self, path: &Path) -> Option<Kind> {
        let meta = fs::symlink_metadata(path).ok()?;
        let kind = meta.file_type();
        Some(if kind.is_symlink() {
            Kind::Link(fs::read_link(path).ok()?)
        } else if kind.is_dir() {
            Kind::Folder
        } else if kind.is_file() {
            Kind::File { executable: meta.permissions().mode() & 0o111 != 0, id: (meta.dev(), meta.ino()) }
        } else {
            Kind::Other
        })
    }

    fn head(&self, path: &Path, most: usize) -> Option<Vec<u8>> {
        // Never wait for the other end of a pipe that took the place of the file.
        let file = fs::OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(path)
            .ok()?;
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        // In one piece, where that is enough.
        let mut bytes = Vec::with_capacity(most.min(PAGE));
        file.take(most as u64).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    fn names(&self, folder: &Path) -> Vec<OsString> {
        let Ok(entries) = fs::read_dir(folder) else {
            return Vec::new();
        };
        let mut names: Vec<_> = entries.flatten().take(NAMES).map(|e| e.file_name()).collect();
        names.sort();
        names
    }
}
