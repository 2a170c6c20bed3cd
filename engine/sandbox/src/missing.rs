//! Records the files that a program asks for and that are not there inside, for a person who wonders what it needs.
//!
//! A path is read from the program's memory when the call is made, and the program can change it afterwards: it is for the
//! report only and decides nothing.

use std::collections::HashMap;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::Mode;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

use crate::outcome::{FileUse, MissingFile, MissingFiles};
use crate::seccomp::PathCall;
use crate::sys::{self, Notification};

/// Maximum number of files in a report.
const MAX_FILES: usize = 1000;
/// Maximum length of a path in a report, in bytes; longer ones are counted only.
const MAX_PATH_LEN: usize = 512;
/// Paths that mean the asking process itself: they are other ones for the supervisor.
const OWN: [&str; 6] =
    ["/proc/self", "/proc/thread-self", "/dev/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr"];
/// Size of a page: a string may end before memory does that cannot be read.
const PAGE: u64 = 4096;

/// The files of one run.
#[derive(Debug, Default)]
pub struct Missing {
    files: Vec<MissingFile>,
    known: HashMap<String, usize>,
    left_out: u64,
}

impl Missing {
    /// Records a call, if its path is absolute and does not exist inside. The caller answers it.
    pub fn hear(&mut self, listener: BorrowedFd<'_>, call: &Notification, kind: PathCall) {
        let Ok(pid) = i32::try_from(call.pid) else { return };
        let Some(path) = read_path(Pid::from_raw(pid), call.arguments[kind.path]) else { return };
        let Some(path) = straight(&path) else { return };
        let wanted = kind.flags.map_or(FileUse::Look, |at| wanted(call.arguments[at]));
        if self.known.contains_key(&path) {
            return self.add(path, wanted);
        }
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let Ok(root) = nix::fcntl::open(format!("/proc/{pid}/root").as_str(), flags, Mode::empty()) else {
            return;
        };
        // The number may belong to another process by now.
        if sys::still_waiting(listener, call.id) && is_missing(&root, &path) {
            self.add(path, wanted);
        }
    }

    fn add(&mut self, path: String, wanted: FileUse) {
        if let Some(known) = self.known.get(&path).and_then(|at| self.files.get_mut(*at)) {
            known.count += 1;
            known.wanted = known.wanted.max(wanted);
        } else if self.files.len() < MAX_FILES && path.len() <= MAX_PATH_LEN {
            self.known.insert(path.clone(), self.files.len());
            self.files.push(MissingFile { path, wanted, count: 1 });
        } else {
            self.left_out += 1;
        }
    }

    /// The report.
    pub fn into_report(self) -> MissingFiles {
        MissingFiles { files: self.files, left_out: self.left_out }
    }
}

/// Use of a file by the flags of an open.
fn wanted(flags: u64) -> FileUse {
    let flags = i32::try_from(flags & 0x7fff_ffff).unwrap_or(0);
    let mode = flags & nix::libc::O_ACCMODE;
    if mode == nix::libc::O_RDONLY && flags & nix::libc::O_CREAT == 0 {
        FileUse::Read
    } else {
        FileUse::Write
    }
}

/// An absolute path without empty parts and `.`; `None` for one that goes up, whose meaning depends on links, and for one
/// of the asking process itself.
fn straight(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let path = Path::new(text);
    let up = path.components().any(|part| part == Component::ParentDir);
    let own = OWN.iter().any(|own| path.starts_with(own));
    (path.is_absolute() && !up && !own && !text.chars().any(char::is_control))
        .then(|| path.components().collect::<std::path::PathBuf>().to_string_lossy().into_owned())
}

/// Whether nothing has this absolute path below a root. Links are followed as they are inside. `openat2(2)`
fn is_missing(root: &OwnedFd, path: &str) -> bool {
    let below = path.trim_start_matches('/');
    if below.is_empty() {
        return false;
    }
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    matches!(openat2(root.as_fd(), below, how), Err(Errno::ENOENT | Errno::ENOTDIR))
}

/// Reads a string that ends with NUL from another process's memory, up to the maximum length of a path.
fn read_path(pid: Pid, at: u64) -> Option<Vec<u8>> {
    let mut path = Vec::new();
    let mut from = at;
    while path.len() < nix::libc::PATH_MAX as usize {
        let mut buffer = [0u8; 256];
        let room = (PAGE - from % PAGE).min(buffer.len() as u64);
        let len = usize::try_from(room).ok()?;
        let base = usize::try_from(from).ok()?;
        let mut local = [IoSliceMut::new(&mut buffer[..len])];
        let read =
            process_vm_readv(pid, &mut local, &[RemoteIoVec { base, len }]).ok().filter(|read| *read > 0)?;
        if let Some(end) = buffer[..read].iter().position(|byte| *byte == 0) {
            path.extend_from_slice(&buffer[..end]);
            return Some(path);
        }
        path.extend_from_slice(&buffer[..read]);
        from = from.checked_add(read as u64)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_absolute_and_go_straight() {
        for (path, want) in [
            ("/etc/hosts", Some("/etc/hosts")),
            ("//srv/./data/", Some("/srv/data")),
            ("/srv/../etc/shadow", None),
            ("/proc/self/maps", None),
            ("/proc/4242/environ", Some("/proc/4242/environ")),
            ("etc/hosts", None),
            ("", None),
            ("/srv/a\nb", None),
        ] {
            assert_eq!(straight(path.as_bytes()).as_deref(), want, "{path:?}");
        }
        assert_eq!(straight(b"/srv/\xff"), None);
    }

    #[test]
    fn use_follows_from_flags_of_open() {
        for (flags, want) in [
            (nix::libc::O_RDONLY, FileUse::Read),
            (nix::libc::O_RDONLY | nix::libc::O_CREAT, FileUse::Write),
            (nix::libc::O_WRONLY, FileUse::Write),
            (nix::libc::O_RDWR | nix::libc::O_CLOEXEC, FileUse::Write),
        ] {
            assert_eq!(wanted(u64::from(flags.cast_unsigned())), want, "{flags:o}");
        }
    }

    #[test]
    fn memory_of_this_process_is_read_to_its_nul() {
        let text = c"/srv/some/long/path";
        assert_eq!(read_path(Pid::this(), text.as_ptr() as u64).as_deref(), Some(text.to_bytes()));
        assert_eq!(read_path(Pid::this(), 8), None);
    }

    #[test]
    fn files_are_counted_and_bounded() {
        let mut missing = Missing::default();
        for n in 0..MAX_FILES + 7 {
            missing.add(format!("/a/{n}"), FileUse::Look);
        }
        missing.add("/a/3".to_owned(), FileUse::Read);
        missing.add("/b".repeat(MAX_PATH_LEN), FileUse::Read);
        let report = missing.into_report();
        assert_eq!((report.files.len(), report.left_out), (MAX_FILES, 8));
        assert_eq!((report.files[3].count, report.files[3].wanted), (2, FileUse::Read));
    }

    #[test]
    fn existing_files_are_not_missing() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink("/file", folder.path().join("link")).unwrap();
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let root = nix::fcntl::open(folder.path(), flags, Mode::empty()).unwrap();
        for (path, want) in
            [("/file", false), ("/link", false), ("/", false), ("/other", true), ("/file/below", true)]
        {
            assert_eq!(is_missing(&root, path), want, "{path}");
        }
    }
}
