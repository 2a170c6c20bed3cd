//! One folder of a cgroup file system, and errors that name the file.
//!
//! Files are opened relative to the folder's descriptor. Setting a limit is one `write`, for which the file
//! is opened; a file that is sampled repeatedly is a [`KeptFile`].

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::Mode;

/// Maximum size in bytes of a file that is read: `cgroup.procs` of a group with the highest process limit.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Maximum size in bytes of a sampled file. `memory.stat`, the longest, has about 2 KiB.
const MAX_SAMPLED_FILE_BYTES: usize = 8 << 10;

/// A cgroup: its path, for messages and for removal, and its opened folder.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    dir: OwnedFd,
}

impl Folder {
    /// Makes the folder and opens it.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        std::fs::create_dir(path).map_err(|e| explain("cannot make", path, &e))?;
        Self::open(path.to_owned()).inspect_err(|_| {
            let _ = std::fs::remove_dir(path);
        })
    }

    /// Opens an existing folder.
    pub(super) fn open(path: PathBuf) -> io::Result<Self> {
        // Not O_PATH, because the descriptor is also used for CLONE_INTO_CGROUP.
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        match open(&path, flags, Mode::empty()) {
            Ok(dir) => Ok(Self { path, dir }),
            Err(e) => Err(explain("cannot open", &path, &e.into())),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file of the group write-only.
    pub(super) fn open_for_writing(&self, name: &str) -> io::Result<OwnedFd> {
        self.open_file(name, OFlag::O_WRONLY)
    }

    /// The text of a file of the group.
    pub(super) fn read(&self, name: &str) -> io::Result<String> {
        let file = File::from(self.open_file(name, OFlag::O_RDONLY)?);
        let mut text = Vec::with_capacity(4096);
        file.take(MAX_FILE_BYTES)
            .read_to_end(&mut text)
            .map_err(|e| explain("cannot read", &self.path.join(name), &e))?;
        String::from_utf8(text).map_err(|_| self.unreadable(name))
    }

    /// Writes `value` in one `write`, as the kernel requires.
    pub(super) fn write(&self, name: &str, value: &str) -> io::Result<()> {
        let mut file = File::from(self.open_for_writing(name)?);
        file.write_all(value.as_bytes())
            .map_err(|e| explain(&format!("cannot write {value:?} to"), &self.path.join(name), &e))
    }

    /// Removes the group. A missing group counts as removed.
    pub(super) fn remove(&self) -> io::Result<()> {
        match std::fs::remove_dir(&self.path) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(explain("cannot remove", &self.path, &e)),
            _ => Ok(()),
        }
    }

    /// The processes in the group that have an id in this process's pid namespace.
    pub(super) fn processes(&self) -> io::Result<Vec<i32>> {
        let text = self.read("cgroup.procs")?;
        Ok(text.lines().filter_map(|line| line.trim().parse().ok()).filter(|pid| *pid > 0).collect())
    }

    fn unreadable(&self, name: &str) -> io::Error {
        let path = self.path.join(name);
        io::Error::new(ErrorKind::InvalidData, format!("{} has an unknown form", path.display()))
    }

    fn open_file(&self, name: &str, flags: OFlag) -> io::Result<OwnedFd> {
        openat(&self.dir, name, flags | OFlag::O_CLOEXEC, Mode::empty())
            .map_err(|e| explain("cannot open", &self.path.join(name), &e.into()))
    }
}

/// A file that is opened when it is first read, and stays open: opening takes nine tenths of the time of a
/// read.
#[derive(Debug)]
pub(super) struct KeptFile {
    name: &'static str,
    file: OnceLock<File>,
}

impl KeptFile {
    pub(super) const fn new(name: &'static str) -> Self {
        Self { name, file: OnceLock::new() }
    }

    /// Reads the current text. `folder` is the folder of the file.
    pub(super) fn read(&self, folder: &Folder) -> io::Result<String> {
        let file = match self.file.get() {
            Some(file) => file,
            None => {
                let file = File::from(folder.open_file(self.name, OFlag::O_RDONLY)?);
                self.file.get_or_init(|| file)
            }
        };
        let mut text = vec![0; MAX_SAMPLED_FILE_BYTES];
        // For a read at offset 0 the kernel generates the whole text and returns what fits.
        let length = file
            .read_at(&mut text, 0)
            .map_err(|e| explain("cannot read", &folder.path.join(self.name), &e))?;
        if length == text.len() {
            return folder.read(self.name);
        }
        text.truncate(length);
        String::from_utf8(text).map_err(|_| self.unreadable(folder))
    }

    /// Reads the value of `key`, which must exist, in a file of `key value` lines.
    pub(super) fn read_field(&self, folder: &Folder, key: &str) -> io::Result<u64> {
        field(&self.read(folder)?, key).ok_or_else(|| self.unreadable(folder))
    }

    /// See [`number`].
    pub(super) fn read_number(&self, folder: &Folder) -> io::Result<u64> {
        number(&self.read(folder)?).ok_or_else(|| self.unreadable(folder))
    }

    pub(super) fn unreadable(&self, folder: &Folder) -> io::Error {
        folder.unreadable(self.name)
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

/// Turns the error for a file that this kernel, or this host's configuration, does not have into `None`.
pub(super) fn if_there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Adds the operation and the file to an error. The kind is kept, because callers depend on it.
pub(super) fn explain(what: &str, path: &Path, error: &io::Error) -> io::Error {
    // A file that was opened before its group was removed returns ENODEV.
    let kind = match error.raw_os_error() {
        Some(nix::libc::ENODEV) => ErrorKind::NotFound,
        _ => error.kind(),
    };
    io::Error::new(kind, format!("{what} {}: {error}", path.display()))
}

/// Parses a file that holds one number; `max` is `u64::MAX`.
pub(super) fn number(text: &str) -> Option<u64> {
    match text.trim() {
        "max" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

/// The value of `key` in a file of `key value` lines.
pub(super) fn field(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        (name == key).then(|| value.trim().parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_match_complete_name() {
        let text = "cache 1\nrss 2\nrss_huge 3\ntotal_rss 4\nbroken\noom_kill x\n";
        for (key, want) in [
            ("cache", Some(1)),
            ("rss", Some(2)),
            ("total_rss", Some(4)),
            ("total", None),
            ("broken", None),
            ("oom_kill", None),
        ] {
            assert_eq!(field(text, key), want, "{key}");
        }
    }

    #[test]
    fn group_file_numbers_are_parsed() {
        for (text, want) in [("12\n", Some(12)), ("max\n", Some(u64::MAX)), ("", None), ("-1", None)] {
            assert_eq!(number(text), want, "{text}");
        }
    }

    #[test]
    fn cached_descriptor_rereads_file() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path().to_owned()).unwrap();
        let kept = KeptFile::new("pids.current");
        assert_eq!(kept.read(&folder).unwrap_err().kind(), ErrorKind::NotFound);
        std::fs::write(dir.path().join("pids.current"), "7\n").unwrap();
        assert_eq!(kept.read_number(&folder).unwrap(), 7);
        std::fs::write(dir.path().join("pids.current"), "18\n").unwrap();
        assert_eq!(kept.read_number(&folder).unwrap(), 18);
        let long = "key 1\n".repeat(MAX_SAMPLED_FILE_BYTES);
        std::fs::write(dir.path().join("pids.current"), &long).unwrap();
        assert_eq!(kept.read(&folder).unwrap().len(), long.len());
        assert!(kept.read_number(&folder).is_err());
    }

    #[test]
    fn errors_keep_their_kind_and_name_the_file() {
        let missing = Folder::open(PathBuf::from("/proc/self/no such folder")).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        assert!(missing.to_string().contains("no such folder"), "{missing}");
        let gone = io::Error::from_raw_os_error(nix::libc::ENODEV);
        assert_eq!(explain("x", Path::new("/y"), &gone).kind(), ErrorKind::NotFound);
    }
}
