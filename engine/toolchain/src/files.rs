//! The few file system queries of a lookup. No decision is made here.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2};
use nix::libc;

use hotcell_sandbox::policy::FileId;

/// Maximum number of bytes read from a version or settings file.
pub(super) const MAX_TEXT_BYTES: usize = 64 << 10;
/// Initial size of the read buffer in bytes.
const INITIAL_BUFFER_BYTES: usize = 4 << 10;
/// Maximum number of names read from one folder.
const MAX_NAMES: usize = 4096;

/// Type of a file, without following a link at the end of its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File {
        /// Whether any execute permission is set.
        executable: bool,
        /// Device and inode: equal for two names of one file.
        id: (u64, u64),
    },
    /// A folder.
    Folder,
    /// A symbolic link and its target.
    Link(PathBuf),
    /// A device, socket or pipe.
    Other,
}

/// A file system, real or simulated for a test.
pub trait Fs {
    /// Type of the file at `path`; `None` if it does not exist or may not be looked at.
    fn look(&self, path: &Path) -> Option<Kind>;
    /// The first bytes of a regular file, at most `most`; `None` if it cannot be read.
    fn head(&self, path: &Path, most: usize) -> Option<Vec<u8>>;
    /// Names in a folder, sorted, up to a maximum number; empty if it cannot be read.
    fn names(&self, folder: &Path) -> Vec<OsString>;
    /// Identity of the host file or folder at this path; `None` if it cannot be opened or a link is on the
    /// way.
    fn id(&self, real: &Path) -> Option<FileId>;
}

/// The host's file system.
#[derive(Clone, Copy, Debug)]
pub struct Host;

/// A file system during one lookup, which looks at each path once: most paths have their first components in common.
pub(super) struct Seen<'a> {
    fs: &'a dyn Fs,
    kinds: RefCell<HashMap<PathBuf, Option<Kind>>>,
}

impl<'a> Seen<'a> {
    /// A lookup that begins now.
    pub(super) fn new(fs: &'a dyn Fs) -> Self {
        Self { fs, kinds: RefCell::default() }
    }
}

impl Fs for Seen<'_> {
    fn look(&self, path: &Path) -> Option<Kind> {
        if let Some(known) = self.kinds.borrow().get(path) {
            return known.clone();
        }
        let kind = self.fs.look(path);
        self.kinds.borrow_mut().insert(path.to_owned(), kind.clone());
        kind
    }

    fn head(&self, path: &Path, most: usize) -> Option<Vec<u8>> {
        self.fs.head(path, most)
    }

    fn names(&self, folder: &Path) -> Vec<OsString> {
        self.fs.names(folder)
    }

    fn id(&self, real: &Path) -> Option<FileId> {
        self.fs.id(real)
    }
}

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
        // Do not block on a pipe that replaced the file.
        let file = fs::OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(path)
            .ok()?;
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        // A single read where one page is enough.
        let mut bytes = Vec::with_capacity(most.min(INITIAL_BUFFER_BYTES));
        file.take(most as u64).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    fn names(&self, folder: &Path) -> Vec<OsString> {
        let Ok(entries) = fs::read_dir(folder) else {
            return Vec::new();
        };
        let mut names: Vec<_> = entries.flatten().take(MAX_NAMES).map(|e| e.file_name()).collect();
        names.sort();
        names
    }

    fn id(&self, real: &Path) -> Option<FileId> {
        let how = OpenHow::new()
            .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        let opened = fs::File::from(openat2(AT_FDCWD, real, how).ok()?);
        Some(FileId::from(&opened.metadata().ok()?))
    }
}
