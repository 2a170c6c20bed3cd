//! The file of results that a user names. Its location is fixed before the tests run: by the end, they may
//! have replaced it by something else, if its folder was writable for them.

use std::fs::{File, Metadata};
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use hotcell_config::typed;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::context::current_folder;

/// Folders in which a name may refer to an open file, such as `/dev/stdout`.
const OF_THE_KERNEL: [&str; 2] = ["/dev", "/proc"];

/// Handling of the text that a file has when it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// It goes: results of an earlier run must not stand for this one if it is killed.
    Emptied,
    /// It stays, and results are written behind it.
    Kept,
}

/// One file, opened.
#[derive(Debug)]
pub struct ResultFile {
    named: PathBuf,
    file: File,
    before: Before,
    /// Nothing for what is not a regular file.
    place: Option<Place>,
}

/// Location of a regular file.
#[derive(Debug)]
struct Place {
    folder: OwnedFd,
    /// Path of the folder.
    path: PathBuf,
    name: PathBuf,
}

impl ResultFile {
    /// Opens a file, or makes it. No link of a repository's, or of one of `trees` (the project, without links), is followed out of it.
    ///
    /// # Errors
    /// Why it cannot be written, with its name in front.
    pub fn open(named: &Path, trees: &[PathBuf], before: Before) -> Result<Self, String> {
        let why = |why: &dyn std::fmt::Display| format!("{}: {why}", named.display());
        let cwd = current_folder();
        let absolute = cwd.join(named);
        let opened = if OF_THE_KERNEL.iter().any(|folder| absolute.starts_with(folder)) {
            let mut options = File::options();
            options.write(true).create(true).truncate(before == Before::Emptied);
            options.append(before == Before::Kept).open(&absolute).map(|file| (file, None))
        } else {
            let real = typed::real_from(&cwd, named, trees).map_err(|astray| why(&astray))?;
            at_its_place(&real, before)
        };
        let (file, place) = opened.map_err(|e| why(&e))?;
        Ok(Self { named: named.to_owned(), file, before, place })
    }

    /// Path as given by the user.
    pub fn named(&self) -> &Path {
        &self.named
    }

    /// Writes all of it: in place of what was written before, or behind it. What the tests put at its name goes.
    ///
    /// # Errors
    /// When its folder was replaced during the run, or a system call fails.
    pub fn write(&mut self, text: &[u8]) -> io::Result<()> {
        if let Some(Place { folder, path, name }) = &self.place {
            let known = File::from(folder.try_clone()?).metadata()?;
            if !path.symlink_metadata().is_ok_and(|now| is_same(&now, &known)) {
                return Err(io::Error::other("its folder was replaced during the run"));
            }
            let ours = self.file.metadata()?;
            let there = path.join(name).symlink_metadata();
            if !there.is_ok_and(|there| is_same(&there, &ours)) {
                match unlinkat(folder.as_fd(), name, UnlinkatFlags::NoRemoveDir) {
                    Ok(()) | Err(nix::errno::Errno::ENOENT) => {}
                    Err(e) => return Err(e.into()),
                }
                self.file = open_in(folder, name, OFlag::O_EXCL | mode(self.before))?;
            }
            if self.before == Before::Emptied {
                self.file.set_len(0)?;
                self.file.rewind()?;
            }
        }
        self.file.write_all(text)
    }
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Opens a path without links.
fn at_its_place(real: &Path, before: Before) -> io::Result<(File, Option<Place>)> {
    let (Some(path), Some(name)) = (real.parent(), real.file_name()) else {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    };
    let folder = nix::fcntl::open(
        path,
        OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC,
        Mode::empty(),
    )?;
    let file = open_in(&folder, Path::new(name), mode(before))?;
    if !file.metadata()?.is_file() {
        return Ok((file, None));
    }
    if before == Before::Emptied {
        file.set_len(0)?;
    }
    Ok((file, Some(Place { folder, path: path.to_owned(), name: name.into() })))
}

fn mode(before: Before) -> OFlag {
    if before == Before::Kept { OFlag::O_APPEND } else { OFlag::empty() }
}

fn open_in(folder: &OwnedFd, name: &Path, how: OFlag) -> io::Result<File> {
    debug_assert!(!name.as_os_str().as_bytes().contains(&b'/'));
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    Ok(File::from(openat(folder, name, flags | how, Mode::from_bits_truncate(0o666))?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Whatever the tests put at its path or in place of its folder: the results are at the path, and nothing
    /// else was written.
    #[test]
    fn result_file_ignores_links_made_by_tests() {
        type Change = fn(&Path);
        let changes: [(Change, bool); 7] = [
            (|_| {}, true),
            (|out| std::fs::remove_file(out.join("j.xml")).unwrap(), true),
            (
                |out| {
                    std::fs::remove_file(out.join("j.xml")).unwrap();
                    symlink("../victim", out.join("j.xml")).unwrap();
                },
                true,
            ),
            (
                |out| {
                    std::fs::remove_file(out.join("j.xml")).unwrap();
                    std::fs::hard_link(out.join("../victim"), out.join("j.xml")).unwrap();
                },
                true,
            ),
            (
                |out| {
                    std::fs::remove_file(out.join("j.xml")).unwrap();
                    nix::unistd::mkfifo(&out.join("j.xml"), Mode::S_IRWXU).unwrap();
                },
                true,
            ),
            (
                |out| {
                    std::fs::remove_file(out.join("j.xml")).unwrap();
                    std::fs::create_dir(out.join("j.xml")).unwrap();
                },
                false,
            ),
            (
                |out| {
                    std::fs::rename(out, out.with_extension("old")).unwrap();
                    symlink("elsewhere", out).unwrap();
                },
                false,
            ),
        ];
        let each = changes.into_iter().enumerate();
        for ((number, (change, written)), before) in
            each.flat_map(|one| [(one, Before::Emptied), (one, Before::Kept)])
        {
            let dir = tempfile::tempdir().unwrap();
            let at = dir.path().canonicalize().unwrap();
            let out = at.join("out");
            std::fs::create_dir(&out).unwrap();
            std::fs::create_dir(at.join("elsewhere")).unwrap();
            std::fs::write(at.join("victim"), "kept").unwrap();
            let mut file = ResultFile::open(&out.join("j.xml"), std::slice::from_ref(&at), before).unwrap();
            change(&out);
            assert_eq!(file.write(b"results").is_ok(), written, "{number}");
            assert_eq!(std::fs::read_to_string(at.join("victim")).unwrap(), "kept", "{number}");
            assert_eq!(std::fs::read_dir(at.join("elsewhere")).unwrap().count(), 0, "{number}");
            if written {
                assert!(out.join("j.xml").symlink_metadata().unwrap().is_file());
                assert_eq!(std::fs::read_to_string(out.join("j.xml")).unwrap(), "results", "{number}");
                file.write(b"less").unwrap();
                let want = if before == Before::Kept { "resultsless" } else { "less" };
                assert_eq!(std::fs::read_to_string(out.join("j.xml")).unwrap(), want, "{number}");
            }
        }
    }

    #[test]
    fn result_file_refuses_project_links_only() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().canonicalize().unwrap();
        std::fs::create_dir(at.join("project")).unwrap();
        std::fs::write(at.join("victim"), "kept").unwrap();
        for (link, to) in
            [("project/j.xml", "../victim"), ("project/new.xml", "../absent"), ("j.xml", "mine")]
        {
            symlink(to, at.join(link)).unwrap();
        }
        let trees = [at.join("project")];
        let both = [Before::Emptied, Before::Kept];
        for (name, before) in
            ["project/j.xml", "project/new.xml"].into_iter().flat_map(|name| both.map(|b| (name, b)))
        {
            let why = ResultFile::open(&at.join(name), &trees, before).unwrap_err();
            assert!(why.contains("is a link that came with"), "{why}");
        }
        assert_eq!(std::fs::read_to_string(at.join("victim")).unwrap(), "kept");
        assert!(!at.join("absent").exists());
        ResultFile::open(&at.join("j.xml"), &trees, Before::Emptied).unwrap().write(b"x").unwrap();
        assert_eq!(std::fs::read_to_string(at.join("mine")).unwrap(), "x");
        ResultFile::open(&at.join("j.xml"), &trees, Before::Kept).unwrap().write(b"y").unwrap();
        assert_eq!(std::fs::read_to_string(at.join("mine")).unwrap(), "xy");
        for before in both {
            ResultFile::open(Path::new("/dev/null"), &trees, before).unwrap().write(b"x").unwrap();
        }
    }
}
