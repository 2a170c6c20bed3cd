//! A folder that is being filled: all names are resolved below it, no link is followed, no mount is entered.
//!
//! See `openat2(2)`.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, ResolveFlags, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;

/// Extended attribute that marks an overlay's folder as opaque: entries of lower layers are hidden.
const OPAQUE: &str = "user.overlay.opaque";
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Folder,
    Link,
    /// A character device 0/0: in a layer, a deleted entry.
    Whiteout,
    Other,
}

/// A folder that is being filled.
pub(crate) struct Tree {
    root: OwnedFd,
    /// The folder that was opened last: archives list the entries of a folder one after the other.
    last: Option<(PathBuf, Rc<OwnedFd>)>,
}

impl Tree {
    pub(crate) fn new(root: OwnedFd) -> Self {
        Self { root, last: None }
    }

    pub(crate) fn root(&self) -> &OwnedFd {
        &self.root
    }

    /// Opens a folder, and makes its missing parts.
    pub(crate) fn folder(&mut self, path: &Path) -> io::Result<Rc<OwnedFd>> {
        if let Some((known, fd)) = &self.last
            && known == path
        {
            return Ok(Rc::clone(fd));
        }
        let here = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let fd = match fs::openat2(&self.root, here, FOLDER, Mode::empty(), BENEATH) {
            Err(Errno::NOENT | Errno::NOTDIR) => self.make_all(path)?,
            opened => opened?,
        };
        let fd = Rc::new(fd);
        self.last = Some((path.to_owned(), Rc::clone(&fd)));
        Ok(fd)
    }

    /// Opens a folder that exists.
    pub(crate) fn existing(&self, path: &Path) -> io::Result<OwnedFd> {
        let here = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        Ok(fs::openat2(&self.root, here, FOLDER, Mode::empty(), BENEATH)?)
    }

    /// Makes the missing folders of a path, with mode 0755.
    fn make_all(&self, path: &Path) -> io::Result<OwnedFd> {
        let mut at = fs::openat2(&self.root, ".", FOLDER, Mode::empty(), BENEATH)?;
        for name in path {
            add(&at, name)?;
            at = fs::openat2(&at, name, FOLDER, Mode::empty(), BENEATH)?;
        }
        Ok(at)
    }

    /// Makes a folder, or sets the mode of an existing one. Any other entry in its place is replaced.
    pub(crate) fn make(&mut self, parent: &Path, name: &OsStr, mode: u32) -> io::Result<()> {
        let at = self.folder(parent)?;
        if matches!(kind(&*at, name)?, Some(Kind::File | Kind::Link | Kind::Other)) {
            self.clear(parent, name)?;
        }
        add(&*at, name)?;
        Ok(fs::fchmod(open(&*at, name)?, Mode::from_raw_mode(mode & 0o777))?)
    }

    /// Creates a file with mode 0600, and replaces any other entry.
    pub(crate) fn create(&mut self, parent: &Path, name: &OsStr) -> io::Result<File> {
        let at = self.folder(parent)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match fs::openat(&*at, name, flags, Mode::RUSR | Mode::WUSR) {
            Err(Errno::EXIST) => {
                self.clear(parent, name)?;
                Ok(fs::openat(&*at, name, flags, Mode::RUSR | Mode::WUSR)?.into())
            }
            file => Ok(file?.into()),
        }
    }

    /// Makes a symbolic link, and replaces any other entry.
    pub(crate) fn link(
        &mut self,
        parent: &Path,
        name: &OsStr,
        says: &OsStr,
        modified: i64,
    ) -> io::Result<()> {
        let at = self.folder(parent)?;
        match fs::symlinkat(says, &*at, name) {
            Err(Errno::EXIST) => {
                self.clear(parent, name)?;
                fs::symlinkat(says, &*at, name)?;
            }
            made => made?,
        }
        Ok(fs::utimensat(&*at, name, &times(modified), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Makes a hard link to a file or link of this tree, and replaces any other entry. Returns false when the
    /// file does not exist.
    pub(crate) fn hard_link(&mut self, parent: &Path, name: &OsStr, of: (&Path, &OsStr)) -> io::Result<bool> {
        let theirs = match self.existing(of.0) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            theirs => theirs?,
        };
        let at = self.folder(parent)?;
        if !matches!(kind(&theirs, of.1)?, Some(Kind::File | Kind::Link)) {
            return Ok(false);
        }
        match fs::linkat(&theirs, of.1, &*at, name, AtFlags::empty()) {
            // Both are already the same file. Replacing it would remove its only name.
            Err(Errno::EXIST) if same(&theirs, of.1, &*at, name)? => Ok(true),
            Err(Errno::EXIST) => {
                self.clear(parent, name)?;
                fs::linkat(&theirs, of.1, &*at, name, AtFlags::empty())?;
                Ok(true)
            }
            linked => Ok(linked.map(|()| true)?),
        }
    }

    /// Makes a whiteout, which marks an entry of lower layers as deleted. An entry of this layer stays, and
    /// hides the lower ones. A device 0/0 requires no privilege, see `mknod(2)`.
    pub(crate) fn whiteout(&mut self, parent: &Path, name: &OsStr) -> io::Result<()> {
        let at = self.folder(parent)?;
        match kind(&*at, name)? {
            None => Ok(fs::mknodat(&*at, name, FileType::CharacterDevice, Mode::empty(), 0)?),
            Some(Kind::Folder) => set_opaque(&*at, name),
            Some(_) => Ok(()),
        }
    }

    /// Marks a folder as opaque.
    pub(crate) fn opaque(&mut self, folder: &Path) -> io::Result<()> {
        let at = self.folder(folder)?;
        set_opaque(&*at, OsStr::new("."))
    }

    /// Removes an entry with everything below it.
    fn clear(&mut self, parent: &Path, name: &OsStr) -> io::Result<()> {
        let at = self.folder(parent)?;
        // The removed entry may be the folder that was opened last.
        self.last = None;
        remove_all(&*at, name)
    }
}

/// Kind of an entry; links are not followed.
pub(crate) fn kind(at: impl AsFd, name: &OsStr) -> io::Result<Option<Kind>> {
    let stat = match fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(None),
        stat => stat?,
    };
    Ok(Some(match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Folder,
        FileType::Symlink => Kind::Link,
        FileType::CharacterDevice if stat.st_rdev == 0 => Kind::Whiteout,
        _ => Kind::Other,
    }))
}

fn same(a: impl AsFd, a_name: &OsStr, b: impl AsFd, b_name: &OsStr) -> io::Result<bool> {
    let of = |at: rustix::fd::BorrowedFd<'_>, name| fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW);
    let (a, b) = (of(a.as_fd(), a_name)?, of(b.as_fd(), b_name)?);
    Ok((a.st_dev, a.st_ino) == (b.st_dev, b.st_ino))
}

/// Makes a folder unless it exists; in place of a whiteout, the new folder is opaque.
fn add(at: impl AsFd, name: &OsStr) -> io::Result<()> {
    let at = at.as_fd();
    match kind(at, name)? {
        Some(Kind::Whiteout) => {
            fs::unlinkat(at, name, AtFlags::empty())?;
            fs::mkdirat(at, name, Mode::from_raw_mode(0o755))?;
            set_opaque(at, name)
        }
        Some(Kind::Folder) => Ok(()),
        Some(Kind::Link) => Err(Errno::LOOP.into()),
        Some(_) => Err(Errno::NOTDIR.into()),
        None => Ok(fs::mkdirat(at, name, Mode::from_raw_mode(0o755))?),
    }
}

fn open(at: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(fs::openat2(at, name, flags, Mode::empty(), BENEATH)?)
}

fn set_opaque(at: impl AsFd, name: &OsStr) -> io::Result<()> {
    Ok(fs::fsetxattr(open(at, name)?, OPAQUE, b"y", XattrFlags::empty())?)
}

/// Whether a folder is opaque.
pub(crate) fn is_opaque(folder: impl AsFd) -> io::Result<bool> {
    let mut value = [0u8; 8];
    match fs::fgetxattr(open(folder, OsStr::new("."))?, OPAQUE, &mut value[..]) {
        Ok(len) => Ok(&value[..len] == b"y"),
        Err(_) => Ok(false),
    }
}

/// Removes an entry of our own making, whose folders we can therefore read and change.
fn remove_all(at: impl AsFd, name: &OsStr) -> io::Result<()> {
    if kind(&at, name)? != Some(Kind::Folder) {
        return Ok(fs::unlinkat(at, name, AtFlags::empty())?);
    }
    let folder = open(&at, name)?;
    for entry in fs::Dir::read_from(&folder)? {
        let entry = entry?;
        let inner = OsStr::from_bytes(entry.file_name().to_bytes());
        if inner != "." && inner != ".." {
            remove_all(&folder, inner)?;
        }
    }
    Ok(fs::unlinkat(at, name, AtFlags::REMOVEDIR)?)
}

/// Sets mode and modification time of a file.
pub(crate) fn settle(file: &File, mode: u32, modified: i64) -> io::Result<()> {
    fs::fchmod(file, Mode::from_raw_mode(mode & 0o777))?;
    Ok(fs::futimens(file, &times(modified))?)
}

/// Sets an extended attribute. Returns false where the file system does not support it.
pub(crate) fn set_attribute(file: &File, name: &str, value: &[u8]) -> bool {
    fs::fsetxattr(file, name, value, XattrFlags::empty()).is_ok()
}

fn times(modified: i64) -> Timestamps {
    let time = Timespec { tv_sec: modified, tv_nsec: 0 };
    Timestamps { last_access: time, last_modification: time }
}
