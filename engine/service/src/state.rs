//! The state folder: ours alone, opened once as a directory handle, so that nothing in it leads elsewhere.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, Metadata, MetadataExt, OpenOptions, OpenOptionsExt};
use hotcell_sandbox::{Bytes, FileId};
use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::unistd::{AccessFlags, faccessat};

/// The database in the state folder.
pub const DATABASE: &str = "hotcell.db";
/// Held while a file is made: closing it drops the locks that SQLite holds on it in this process (fcntl_locking(2)), so that nobody
/// opens it before.
static MAKING: Mutex<()> = Mutex::new(());
/// Below this much free space nothing is begun.
const LEAST_FREE: u64 = 256 * 1024;

/// Which state folder is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateChoice {
    /// Somebody named it: that it cannot be used is a refusal.
    Named(PathBuf),
    /// `$XDG_STATE_HOME/hotcell`: that it cannot be used is a warning.
    Usual(PathBuf),
    /// There is no home folder to have one in.
    Nowhere,
}

impl StateChoice {
    /// The usual place, by `XDG_STATE_HOME` and `HOME`; relative values do not count.
    #[must_use]
    pub fn usual(xdg: Option<PathBuf>, home: Option<PathBuf>) -> Self {
        let absolute = |p: &PathBuf| p.is_absolute();
        let base = xdg.filter(absolute).or_else(|| home.filter(absolute).map(|h| h.join(".local/state")));
        base.map_or(Self::Nowhere, |b| Self::Usual(b.join("hotcell")))
    }

    /// The folder's path.
    ///
    /// # Errors
    /// [`StateError::Nowhere`].
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
    #[error("there is no place for a state folder: HOME is not set; name one with --state DIR")]
    Nowhere,
    /// The system refused.
    #[error("the state folder {} {what}: {error}; make it writable, or name another with --state DIR", path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// Somebody else could change what we read there.
    #[error("the state folder {} {why}; use a folder of your own with mode 0700", path.display())]
    NotOurs {
        /// The folder.
        path: PathBuf,
        /// Who could.
        why: String,
    },
    /// No room.
    #[error("the state folder {} is full ({} free); make room, or name another with --state DIR", path.display(), Bytes(*free))]
    Full {
        /// The folder.
        path: PathBuf,
        /// Bytes.
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
    /// Opens it, and makes it (0700) when it is missing.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn open(path: &Path) -> Result<Self, StateError> {
        use std::os::unix::fs::DirBuilderExt;
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

    /// Opens it if it is there.
    ///
    /// # Errors
    /// [`StateError`].
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

    /// Its canonical path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder itself.
    pub(crate) fn dir(&self) -> &Dir {
        &self.dir
    }

    /// The path of the database, for SQLite, which opens by name.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    /// Which file the database is; nothing where there is none.
    pub(crate) fn database_id(&self) -> Option<FileId> {
        let _one = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
        self.id(DATABASE)
    }

    /// Which file its log is (`hotcell.db-wal`).
    pub(crate) fn log_id(&self) -> Option<FileId> {
        self.id(&format!("{DATABASE}-wal"))
    }

    fn id(&self, name: &str) -> Option<FileId> {
        let metadata = self.dir.symlink_metadata(name).ok().filter(Metadata::is_file)?;
        Some(FileId { dev: metadata.dev(), ino: metadata.ino() })
    }

    /// Makes sure of a database file that only we can read. SQLite gives its other files the same mode.
    ///
    /// # Errors
    /// [`StateError::Io`] when it cannot be made or written.
    pub fn touch_database(&self) -> Result<(), StateError> {
        self.touch(DATABASE)
    }

    pub(crate) fn touch(&self, name: &str) -> Result<(), StateError> {
        let _one = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
        let done = match self.dir.symlink_metadata(name) {
            Ok(metadata) if metadata.is_file() => {
                let flags = AtFlags::AT_EACCESS | AtFlags::AT_SYMLINK_NOFOLLOW;
                match faccessat(&self.dir, name, AccessFlags::R_OK | AccessFlags::W_OK, flags) {
                    // Some filters of containers answer so to faccessat2(2): SQLite will say.
                    Err(Errno::EPERM) => Ok(()),
                    other => other.map_err(io::Error::from),
                }
            }
            _ => {
                let mut options = OpenOptions::new();
                options.write(true).create_new(true).mode(0o600);
                match self.dir.open_with(name, &options) {
                    // Another process was faster; a link is no file.
                    Err(e) if e.kind() == io::ErrorKind::AlreadyExists && self.id(name).is_some() => Ok(()),
                    made => made.map(drop),
                }
            }
        };
        done.map_err(|error| StateError::Io { path: self.path.clone(), what: "cannot be written", error })
    }

    /// Whether something can be written now.
    ///
    /// # Errors
    /// [`StateError`] with what is in the way.
    pub fn check_writable(&self) -> Result<(), StateError> {
        self.touch_database()?;
        let stat = nix::sys::statvfs::fstatvfs(&self.dir).map_err(|e| StateError::Io {
            path: self.path.clone(),
            what: "cannot be measured",
            error: e.into(),
        })?;
        let free = stat.blocks_available().saturating_mul(stat.fragment_size());
        if free < LEAST_FREE {
            return Err(StateError::Full { path: self.path.clone(), free });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_usual_place() {
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
    fn it_is_made_for_us_alone_and_refused_when_others_can_write() {
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
    fn a_link_in_place_of_the_database_is_not_followed_out() {
        let dir = tempfile::tempdir().unwrap();
        let folder = StateFolder::open(&dir.path().join("state")).unwrap();
        let victim = dir.path().join("victim");
        std::os::unix::fs::symlink(&victim, folder.database()).unwrap();
        assert!(folder.touch_database().is_err());
        assert!(!victim.exists());
    }
}
