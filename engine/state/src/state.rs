//! The state folder: private to this user, and opened once as a directory handle, so that no name in it leads
//! elsewhere.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirBuilder, DirBuilderExt, Metadata, MetadataExt, OpenOptions, OpenOptionsExt};
use hotcell_sandbox::{Bytes, FileId};
use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::unistd::{AccessFlags, faccessat};

/// File name of the database in the state folder.
pub const DATABASE: &str = "hotcell.db";
/// Name of the folder in the state folder that keeps results of tools that verbs call; all of it may be removed.
pub const VERB_RESULTS: &str = "verb-results";
/// Held while a file is created, so that no other thread opens the database before the new file is closed:
/// closing it drops the locks that SQLite holds on it in this process (fcntl_locking(2)).
static MAKING: Mutex<()> = Mutex::new(());
/// Minimum free space, in bytes, needed to start anything.
const MIN_FREE_BYTES: u64 = 256 * 1024;

/// Choice of the state folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateChoice {
    /// Named by the user: failing to use it refuses the run.
    Named(PathBuf),
    /// The default, `$XDG_STATE_HOME/hotcell`: failing to use it is only a warning.
    Usual(PathBuf),
    /// No folder: there is no home folder to put one in.
    Nowhere,
}

impl StateChoice {
    /// The default folder by `XDG_STATE_HOME` and `HOME`; relative values are ignored.
    #[must_use]
    pub fn usual(xdg: Option<PathBuf>, home: Option<PathBuf>) -> Self {
        let absolute = |p: &PathBuf| p.is_absolute();
        let base = xdg.filter(absolute).or_else(|| home.filter(absolute).map(|h| h.join(".local/state")));
        base.map_or(Self::Nowhere, |b| Self::Usual(b.join("hotcell")))
    }

    /// The folder's path.
    ///
    /// # Errors
    /// [`StateError::Nowhere`] when there is no home folder and no folder was named.
    pub fn path(&self) -> Result<&Path, StateError> {
        match self {
            Self::Named(path) | Self::Usual(path) => Ok(path),
            Self::Nowhere => Err(StateError::Nowhere),
        }
    }
}

/// Why a state folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Neither `XDG_STATE_HOME` nor `HOME` is set.
    #[error(
        "there is no place for a state folder: HOME is not set to an absolute path; name one with ‹state=DIR›"
    )]
    Nowhere,
    /// A system call failed.
    #[error("the state folder {} {what}: {error}; make it writable, or name another with ‹state=DIR›", path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// Operation that failed.
        what: &'static str,
        /// Error of the system call.
        error: io::Error,
    },
    /// Another user could change the files that hotcell reads there.
    #[error("the state folder {} {why}; use a folder of your own with mode 0700", path.display())]
    NotOurs {
        /// The folder.
        path: PathBuf,
        /// Reason: a foreign owner, or a mode that lets others write.
        why: String,
    },
    /// Too little free space.
    #[error("the state folder {} is full ({} free); make room, or name another with ‹state=DIR›", path.display(), Bytes(*free))]
    Full {
        /// The folder.
        path: PathBuf,
        /// Free space in bytes.
        free: u64,
    },
}

/// An open state folder.
#[derive(Debug)]
pub struct StateFolder {
    dir: Dir,
    path: PathBuf,
}

impl StateFolder {
    /// Opens the folder, and creates it (0700) when it is missing.
    ///
    /// # Errors
    /// [`StateError::Io`] when it cannot be created or opened, [`StateError::NotOurs`] when others could
    /// change it.
    pub fn open(path: &Path) -> Result<Self, StateError> {
        use std::os::unix::fs::DirBuilderExt;
        // As in all but the first command.
        if let Ok(Some(folder)) = Self::open_existing(path) {
            return Ok(folder);
        }
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|error| StateError::Io { path: path.into(), what: "cannot be made", error })?;
        Self::open_existing(path)?.ok_or_else(|| StateError::Io {
            path: path.into(),
            what: "vanished",
            error: io::ErrorKind::NotFound.into(),
        })
    }

    /// Opens the folder if it exists.
    ///
    /// # Errors
    /// [`StateError::Io`] when it cannot be opened, [`StateError::NotOurs`] when others could change it.
    pub fn open_existing(path: &Path) -> Result<Option<Self>, StateError> {
        let io = |what, error| StateError::Io { path: path.into(), what, error };
        let path = match path.canonicalize() {
            Ok(path) => path,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(io("cannot be opened", e)),
        };
        let dir = Dir::open_ambient_dir(&path, ambient_authority()).map_err(|e| io("cannot be opened", e))?;
        let metadata = dir.dir_metadata().map_err(|e| io("cannot be read", e))?;
        let us = nix::unistd::geteuid().as_raw();
        let why = if metadata.uid() != us {
            Some(format!("belongs to user {} and not to you ({us})", metadata.uid()))
        } else if metadata.mode() & 0o022 != 0 {
            Some(format!("can be written by others (mode {:04o})", metadata.mode() & 0o7777))
        } else {
            None
        };
        match why {
            Some(why) => Err(StateError::NotOurs { path, why }),
            None => Ok(Some(Self { dir, path })),
        }
    }

    /// The folder's canonical path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open directory handle.
    pub fn dir(&self) -> &Dir {
        &self.dir
    }

    /// The path of the database; SQLite opens by name.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    /// Device and inode of the database; `None` when there is no database.
    pub fn database_id(&self) -> Option<FileId> {
        let _one = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
        self.id(DATABASE)
    }

    /// Device and inode of the write-ahead log (`hotcell.db-wal`).
    pub fn log_id(&self) -> Option<FileId> {
        self.id(&format!("{DATABASE}-wal"))
    }

    fn id(&self, name: &str) -> Option<FileId> {
        let metadata = self.dir.symlink_metadata(name).ok().filter(Metadata::is_file)?;
        Some(FileId { dev: metadata.dev(), ino: metadata.ino() })
    }

    /// Ensures that a database file exists which only we can read. SQLite gives its other files the same
    /// mode.
    pub fn touch_database(&self) -> Result<(), StateError> {
        self.touch(DATABASE)
    }

    /// Creates the file with private rights, if it does not exist.
    ///
    /// # Errors
    /// When it exists with other owners or rights, or cannot be created.
    pub fn touch(&self, name: &str) -> Result<(), StateError> {
        let _one = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
        let done = match self.dir.symlink_metadata(name) {
            Ok(metadata) if metadata.is_file() => {
                let flags = AtFlags::AT_EACCESS | AtFlags::AT_SYMLINK_NOFOLLOW;
                match faccessat(&self.dir, name, AccessFlags::R_OK | AccessFlags::W_OK, flags) {
                    // Some seccomp filters of containers answer EPERM to faccessat2(2): SQLite will report a
                    // real problem.
                    Err(Errno::EPERM) => Ok(()),
                    other => other.map_err(io::Error::from),
                }
            }
            _ => {
                let mut options = OpenOptions::new();
                options.write(true).create_new(true).mode(0o600);
                match self.dir.open_with(name, &options) {
                    // Another process created it first. A link does not count as a file.
                    Err(e) if e.kind() == io::ErrorKind::AlreadyExists && self.id(name).is_some() => Ok(()),
                    made => made.map(drop),
                }
            }
        };
        done.map_err(|error| StateError::Io { path: self.path.clone(), what: "cannot be written", error })
    }

    /// Checks that the state folder can be written now.
    ///
    /// # Errors
    /// [`StateError::Io`] when a system call fails, [`StateError::Full`] when too little space is free.
    pub fn check_writable(&self) -> Result<(), StateError> {
        self.touch_database()?;
        let stat = nix::sys::statvfs::fstatvfs(&self.dir).map_err(|e| StateError::Io {
            path: self.path.clone(),
            what: "cannot be measured",
            error: e.into(),
        })?;
        let free = stat.blocks_available().saturating_mul(stat.fragment_size());
        if free < MIN_FREE_BYTES {
            return Err(StateError::Full { path: self.path.clone(), free });
        }
        Ok(())
    }
}

/// Creates a folder that only this user can enter, unless it exists.
pub fn make_private(dir: &Dir, name: &str) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    match dir.create_dir_with(name, &builder) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn usual_state_folder_follows_environment() {
        let usual = |xdg: Option<&str>, home: Option<&str>| {
            StateChoice::usual(xdg.map(PathBuf::from), home.map(PathBuf::from))
        };
        let at = |path: &str| StateChoice::Usual(path.into());
        for (xdg, home, want) in [
            (Some("/x"), Some("/h"), at("/x/hotcell")),
            (None, Some("/h"), at("/h/.local/state/hotcell")),
            (Some("relative"), Some("/h"), at("/h/.local/state/hotcell")),
            (Some(""), None, StateChoice::Nowhere),
            (None, Some(""), StateChoice::Nowhere),
        ] {
            assert_eq!(usual(xdg, home), want, "{xdg:?} {home:?}");
        }
    }

    #[test]
    fn state_folder_is_private_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        assert!(StateFolder::open_existing(&path).unwrap().is_none());
        let folder = StateFolder::open(&path).unwrap();
        folder.check_writable().unwrap();
        let mode = |p: &Path| std::fs::metadata(p).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&folder.database())), (0o700, 0o600));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(StateFolder::open(&path), Err(StateError::NotOurs { .. })));
    }

    #[test]
    fn database_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let folder = StateFolder::open(&dir.path().join("state")).unwrap();
        let victim = dir.path().join("victim");
        std::os::unix::fs::symlink(&victim, folder.database()).unwrap();
        assert!(folder.touch_database().is_err());
        assert!(!victim.exists());
    }
}
