//! Location of the socket: a folder owned by the user, into which no other user can put a socket.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag, open, openat};
use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, listen, socket};
use nix::sys::stat::{FileStat, Mode, fstat, fstatat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

/// The socket's name in its folder.
pub const NAME: &str = "serve.sock";
/// Lock file held by the server that owns the folder.
const LOCK: &str = "serve.lock";

/// Reason why there is no usable socket.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// There is no socket.
    #[error("no service runs: there is no {}", .0.display())]
    Nothing(PathBuf),
    /// There is a socket, but no process listens on it.
    #[error("no service runs: nobody answers at {}", .0.display())]
    Nobody(PathBuf),
    /// The queue of waiting connections is full.
    #[error("the service at {} has too many who wait", .0.display())]
    Busy(PathBuf),
    /// Another user could be behind the socket.
    #[error("{}: {why}; it is not used", path.display())]
    NotOurs {
        /// The folder or socket.
        path: PathBuf,
        /// Problem with its owner, mode or type.
        why: String,
    },
    /// Another server owns the folder.
    #[error("a service runs already at {}; end it with hotcell serve stop", .0.display())]
    Taken(PathBuf),
    /// A system call failed.
    #[error("{}: {error}", path.display())]
    Io {
        /// Path concerned.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

impl PlaceError {
    /// Whether the error only means that no service is running.
    #[must_use]
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::Nothing(_) | Self::Nobody(_))
    }
}

/// Default folder for the socket: in `XDG_RUNTIME_DIR`, otherwise in `XDG_STATE_HOME` or `HOME`. Relative
/// values are ignored.
#[must_use]
pub fn usual(runtime: Option<PathBuf>, state: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |p: &PathBuf| p.is_absolute();
    runtime.filter(absolute).map(|p| p.join("hotcell")).or_else(|| {
        let base = state.filter(absolute).or_else(|| home.filter(absolute).map(|h| h.join(".local/state")));
        base.map(|base| base.join("hotcell/serve"))
    })
}

/// An open folder to which only its user has access.
#[derive(Debug)]
pub struct Place {
    folder: OwnedFd,
    path: PathBuf,
}

/// Checks the `stat` of a folder or socket; returns the problem, if there is one.
fn wrong(about: &FileStat, kind: u32, us: u32) -> Option<String> {
    let (is, what) = (about.st_mode & nix::libc::S_IFMT, about.st_mode & 0o7777);
    if is == nix::libc::S_IFLNK {
        Some("is a link".to_owned())
    } else if is != kind {
        Some(format!("is no {}", if kind == nix::libc::S_IFDIR { "folder" } else { "socket" }))
    } else if about.st_uid != us {
        Some(format!("belongs to user {} and not to you ({us})", about.st_uid))
    } else if what & 0o077 != 0 {
        Some(format!("is open to others (mode {what:04o})"))
    } else {
        None
    }
}

impl Place {
    /// Opens the folder.
    ///
    /// # Errors
    /// [`PlaceError::Nothing`] when it does not exist, [`PlaceError::NotOurs`] when it is a link or not a folder,
    /// or another user could have access, [`PlaceError::Io`] otherwise.
    pub fn open(path: &Path) -> Result<Self, PlaceError> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let not_ours = |why: &str| PlaceError::NotOurs { path: path.into(), why: why.to_owned() };
        let folder = open(path, flags, Mode::empty()).map_err(|errno| match errno {
            Errno::ENOENT => PlaceError::Nothing(path.join(NAME)),
            // A parent is not a folder, so the socket cannot exist.
            Errno::ENOTDIR if path.symlink_metadata().is_err() => PlaceError::Nothing(path.join(NAME)),
            Errno::ELOOP | Errno::ENOTDIR => not_ours("is a link, or no folder"),
            Errno::EACCES => not_ours("cannot be opened by you"),
            errno => PlaceError::Io { path: path.into(), error: errno.into() },
        })?;
        let about = fstat(&folder).map_err(|e| PlaceError::Io { path: path.into(), error: e.into() })?;
        match wrong(&about, nix::libc::S_IFDIR, geteuid().as_raw()) {
            Some(why) => Err(PlaceError::NotOurs { path: path.into(), why }),
            None => Ok(Self { folder, path: path.into() }),
        }
    }

    /// Opens the folder; if it is missing, creates it in a folder that must belong to the user too.
    ///
    /// # Errors
    /// [`PlaceError`] as for [`Place::open`], or when the folder cannot be created.
    pub fn make(path: &Path) -> Result<Self, PlaceError> {
        let io = |error| PlaceError::Io { path: path.into(), error };
        if path.symlink_metadata().is_err() {
            let parent = path.parent().unwrap_or(Path::new("/"));
            let mut builder = std::fs::DirBuilder::new();
            builder.recursive(true).mode(0o700).create(parent).map_err(io)?;
            let about = parent.metadata().map_err(io)?;
            let us = geteuid().as_raw();
            if about.uid() != us || about.mode() & 0o022 != 0 {
                let why = format!(
                    "is no folder of yours alone (user {}, mode {:04o})",
                    about.uid(),
                    about.mode() & 0o7777
                );
                return Err(PlaceError::NotOurs { path: parent.into(), why });
            }
            match std::fs::DirBuilder::new().mode(0o700).create(path) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(io(e)),
                _ => {}
            }
        }
        Self::open(path)
    }

    /// The socket's path.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.path.join(NAME)
    }

    /// Address of the socket through the open folder: independent of later changes to the path, and of the
    /// path's length.
    fn address(&self) -> nix::Result<UnixAddr> {
        UnixAddr::new(format!("/proc/self/fd/{}/{NAME}", self.folder.as_raw_fd()).as_str())
    }

    fn io(&self, error: impl Into<io::Error>) -> PlaceError {
        PlaceError::Io { path: self.socket(), error: error.into() }
    }

    fn check(&self) -> Result<(), PlaceError> {
        let flags = nix::fcntl::AtFlags::AT_SYMLINK_NOFOLLOW;
        let about = match fstatat(&self.folder, NAME, flags) {
            Ok(about) => about,
            Err(Errno::ENOENT) => return Err(PlaceError::Nothing(self.socket())),
            Err(errno) => return Err(self.io(errno)),
        };
        match wrong(&about, nix::libc::S_IFSOCK, geteuid().as_raw()) {
            Some(why) => Err(PlaceError::NotOurs { path: self.socket(), why }),
            None => Ok(()),
        }
    }

    /// Connects, without blocking.
    ///
    /// # Errors
    /// [`PlaceError`] when there is no socket, no process listens on it, its queue is full, or another user
    /// could own it.
    pub fn connect(&self) -> Result<OwnedFd, PlaceError> {
        self.check()?;
        let socket = unconnected().map_err(|e| self.io(e))?;
        match connect(socket.as_raw_fd(), &self.address().map_err(|e| self.io(e))?) {
            Ok(()) => Ok(socket),
            Err(Errno::ECONNREFUSED | Errno::ENOENT) => Err(PlaceError::Nobody(self.socket())),
            Err(Errno::EAGAIN) => Err(PlaceError::Busy(self.socket())),
            Err(errno) => Err(self.io(errno)),
        }
    }

    /// Listens on the socket, replacing that of a server that has ended. The lock is held as long as the
    /// returned value lives.
    ///
    /// # Errors
    /// [`PlaceError::Taken`] when another server is running, other variants when the socket cannot be made.
    pub fn listen(&self) -> Result<(OwnedFd, Flock<OwnedFd>), PlaceError> {
        let flags = OFlag::O_CREAT | OFlag::O_RDWR | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
        let lock =
            openat(&self.folder, LOCK, flags, Mode::from_bits_retain(0o600)).map_err(|e| self.io(e))?;
        let lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| match errno {
            Errno::EWOULDBLOCK => PlaceError::Taken(self.socket()),
            errno => self.io(errno),
        })?;
        match self.connect() {
            // The lock is free, but a process still answers on the socket.
            Ok(_) | Err(PlaceError::Busy(_)) => return Err(PlaceError::Taken(self.socket())),
            Err(PlaceError::Nobody(_)) => self.remove(),
            Err(PlaceError::Nothing(_)) => {}
            Err(other) => return Err(other),
        }
        let socket = unconnected().map_err(|e| self.io(e))?;
        bind(socket.as_raw_fd(), &self.address().map_err(|e| self.io(e))?).map_err(|e| self.io(e))?;
        let path = format!("/proc/self/fd/{}/{NAME}", self.folder.as_raw_fd());
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(|e| self.io(e))?;
        listen(&socket, Backlog::new(128).map_err(|e| self.io(e))?).map_err(|e| self.io(e))?;
        Ok((socket, lock))
    }

    /// Removes the socket.
    pub fn remove(&self) {
        let _ = unlinkat(&self.folder, NAME, UnlinkatFlags::NoRemoveDir);
    }
}

fn unconnected() -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_socket_folder_follows_environment() {
        let at = |runtime: Option<&str>, state: Option<&str>, home: Option<&str>| {
            usual(runtime.map(Into::into), state.map(Into::into), home.map(Into::into))
        };
        for (runtime, state, home, want) in [
            (Some("/run/user/7"), Some("/s"), Some("/h"), Some("/run/user/7/hotcell")),
            (None, Some("/s"), Some("/h"), Some("/s/hotcell/serve")),
            (Some(""), None, Some("/h"), Some("/h/.local/state/hotcell/serve")),
            (Some("relative"), Some("relative"), None, None),
            (None, None, None, None),
        ] {
            assert_eq!(at(runtime, state, home), want.map(PathBuf::from), "{runtime:?} {state:?} {home:?}");
        }
    }

    #[test]
    fn stale_socket_is_replaced_live_one_refused() {
        let dir = tempfile::tempdir().unwrap();
        // Longer than a socket address may be.
        let path = dir.path().join("x".repeat(150)).join("hotcell");
        assert!(matches!(Place::open(&path), Err(PlaceError::Nothing(_))));
        std::fs::write(dir.path().join("file"), "").unwrap();
        assert!(matches!(Place::open(&dir.path().join("file/hotcell")), Err(PlaceError::Nothing(_))));
        assert!(matches!(Place::open(&dir.path().join("file")), Err(PlaceError::NotOurs { .. })));
        let place = Place::make(&path).unwrap();
        assert!(matches!(place.connect(), Err(PlaceError::Nothing(_))));
        let (listener, lock) = place.listen().unwrap();
        drop(place.connect().unwrap());
        assert!(matches!(Place::open(&path).unwrap().listen(), Err(PlaceError::Taken(_))));
        drop(lock);
        assert!(matches!(place.listen(), Err(PlaceError::Taken(_))), "it answers without its lock");
        // Connect until the queue is full; the socket must still be there.
        let waiting: Vec<_> = std::iter::from_fn(|| place.connect().ok()).take(1000).collect();
        assert!(waiting.len() >= 128 - 2 && waiting.len() < 1000, "{}", waiting.len());
        assert!(matches!(place.connect(), Err(PlaceError::Busy(_))));
        assert!(matches!(place.listen(), Err(PlaceError::Taken(_))), "it is busy");
        drop(listener);
        assert!(matches!(place.connect(), Err(PlaceError::Nobody(_))));
        drop(place.listen().unwrap());
    }

    #[test]
    fn socket_folder_open_to_others_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hotcell");
        let place = Place::make(&path).unwrap();
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let why = |result: Result<(), PlaceError>| match result {
            Err(PlaceError::NotOurs { why, .. }) => why,
            other => panic!("{other:?}"),
        };
        let open = || Place::open(&path).map(drop);
        mode(&path, 0o750);
        assert_eq!(why(open()), "is open to others (mode 0750)");
        mode(&path, 0o700);
        let (_listener, _lock) = place.listen().unwrap();
        mode(&place.socket(), 0o666);
        assert_eq!(why(place.connect().map(drop)), "is open to others (mode 0666)");
        std::fs::remove_file(place.socket()).unwrap();
        std::fs::write(place.socket(), "").unwrap();
        assert_eq!(why(place.connect().map(drop)), "is no socket");
        std::fs::remove_file(place.socket()).unwrap();
        std::os::unix::fs::symlink("/dev/null", place.socket()).unwrap();
        assert_eq!(why(place.connect().map(drop)), "is a link");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(why(Place::open(&link).map(drop)), "is a link, or no folder");
        mode(dir.path(), 0o777);
        assert!(why(Place::make(&dir.path().join("new")).map(drop)).contains("no folder of yours alone"));
    }

    #[test]
    fn folder_owner_and_mode_are_checked() {
        let us = geteuid().as_raw();
        let mut about = nix::sys::stat::stat("/").unwrap();
        for (mode, uid, want) in [
            (nix::libc::S_IFDIR | 0o700, us, None),
            (nix::libc::S_IFDIR | 0o700, us + 1, Some("belongs to user")),
            (nix::libc::S_IFDIR | 0o701, us, Some("open to others")),
            (nix::libc::S_IFLNK | 0o777, us, Some("is a link")),
            (nix::libc::S_IFREG | 0o600, us, Some("is no folder")),
        ] {
            (about.st_mode, about.st_uid) = (mode, uid);
            let wrong = wrong(&about, nix::libc::S_IFDIR, us);
            assert_eq!(wrong.is_some(), want.is_some(), "{wrong:?}");
            assert!(want.is_none_or(|want| wrong.unwrap().contains(want)));
        }
    }
}
