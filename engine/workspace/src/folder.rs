//! A folder held open by descriptor, and safe access to the entries below it: no symbolic link is followed,
//! no other mount is entered.
//!
//! Files that a program made are opened only through this type. See `openat2(2)`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use crate::parallel::at_once;

/// Extended attribute that marks a folder of an overlay layer as opaque: entries of lower layers are hidden.
const OPAQUE: &str = "user.overlay.opaque";

/// Maximum number of files and folders for which [`Folder::sync`] calls `fsync(2)` on each, instead of
/// `syncfs(2)` once. Measured beside a busy writer: five entries take 9 ms by `fsync` and 50 ms by `syncfs`, a
/// thousand take 850 ms and 420 ms (medians of 8).
const MAX_FSYNCS: usize = 64;

/// Maximum number of file names that [`Folder::remove_all`] collects before it removes them together.
const MAX_BATCH_NAMES: usize = 4096;

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A character device 0/0: in a layer, a deleted entry.
    Whiteout,
    /// A device, a pipe or a socket.
    Special,
}

/// Metadata of an entry, read without opening it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Kind of the entry.
    pub kind: Kind,
    /// Permission bits: the twelve of `chmod(2)`.
    pub mode: u32,
    /// Size of a file in bytes; 0 for anything else.
    pub bytes: u64,
    /// Time of the last change of content, mode, owner or name (`ctime`), which no program can set: seconds
    /// and nanoseconds since 1970.
    pub changed: (i64, i64),
    /// Owner and group ids.
    pub owner: (u32, u32),
    /// Number of hard links.
    pub names: u64,
}

impl Node {
    fn of(stat: &Stat) -> Self {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Folder,
            FileType::Symlink => Kind::Link,
            FileType::CharacterDevice if stat.st_rdev == 0 => Kind::Whiteout,
            _ => Kind::Special,
        };
        Self {
            kind,
            mode: stat.st_mode & 0o7777,
            bytes: if kind == Kind::File { stat.st_size.unsigned_abs() } else { 0 },
            changed: (stat.st_ctime, stat.st_ctime_nsec.cast_signed()),
            owner: (stat.st_uid, stat.st_gid),
            names: stat.st_nlink,
        }
    }
}

/// A folder held open by its descriptor.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    /// The entries were made by a sandboxed program or by us: unreadable ones are made readable.
    ours: bool,
}

/// The parent folder of a path.
enum Parent<'f> {
    /// The path is a single name, so this folder is the parent.
    Itself(&'f OwnedFd),
    /// The parent is further down.
    Below(OwnedFd),
}

impl AsFd for Parent<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Itself(fd) => fd.as_fd(),
            Self::Below(fd) => fd.as_fd(),
        }
    }
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

impl Folder {
    /// Opens a folder by its path and follows links in it: for paths that a user named, and for our own.
    ///
    /// # Errors
    /// When the folder cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { fd: fs::open(path, FOLDER | OFlags::CLOEXEC, Mode::empty())?, ours: false })
    }

    /// Like [`Folder::open`], for folders that we made: an entry whose read permission a program removed is
    /// made readable again.
    ///
    /// # Errors
    /// When the folder cannot be opened.
    pub fn ours(path: &Path) -> io::Result<Self> {
        Ok(Self { ours: true, ..Self::open(path)? })
    }

    /// Takes a folder that is already open and that a program made for us; its unreadable entries are made
    /// readable too.
    #[must_use]
    pub const fn from_fd(fd: OwnedFd) -> Self {
        Self { fd, ours: true }
    }

    fn at(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let resolve = ResolveFlags::BENEATH
            | ResolveFlags::NO_SYMLINKS
            | ResolveFlags::NO_MAGICLINKS
            | ResolveFlags::NO_XDEV;
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        // `O_NONBLOCK`: opening a pipe must not block. The kernel accepts neither flag together with
        // `O_PATH`.
        let quiet = OFlags::NOCTTY | OFlags::NONBLOCK;
        let quiet = if flags.contains(OFlags::PATH) { OFlags::empty() } else { quiet };
        let flags = flags | OFlags::CLOEXEC | quiet;
        Ok(fs::openat2(&self.fd, path, flags, Mode::empty(), resolve)?)
    }

    /// Opens a folder below this one.
    ///
    /// # Errors
    /// When the folder does not exist, the path is not a folder, or it lies behind a link or a mount.
    pub fn folder(&self, path: &Path) -> io::Result<Self> {
        let fd = self.at(path, FOLDER).or_else(|e| self.after_permission(e, path, FOLDER))?;
        Ok(Self { fd, ours: self.ours })
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// When the file does not exist, the path is not a regular file, or it lies behind a link or a mount.
    pub fn file(&self, path: &Path) -> io::Result<File> {
        if self.node(path)?.is_none_or(|node| node.kind != Kind::File) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
        }
        let flags = OFlags::RDONLY;
        let file = File::from(self.at(path, flags).or_else(|e| self.after_permission(e, path, flags))?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
        }
        Ok(file)
    }

    /// Restores the owner's permissions, since a program may remove the read permission of its own files, and
    /// opens the path again.
    fn after_permission(&self, error: io::Error, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        if !self.ours || error.raw_os_error() != Some(Errno::ACCESS.raw_os_error()) {
            return Err(error);
        }
        let (parent, name) = self.parent(path)?;
        // Does not follow a link. See `fchmodat2(2)` and `proc_pid_fd(5)`.
        let held =
            fs::openat(&parent, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let stat = fs::fstat(&held)?;
        if !matches!(FileType::from_raw_mode(stat.st_mode), FileType::RegularFile | FileType::Directory) {
            return Err(error);
        }
        use std::os::fd::AsRawFd;
        let own = format!("/proc/self/fd/{}", held.as_raw_fd());
        fs::chmod(&own, Mode::from_raw_mode(stat.st_mode & 0o777) | Mode::RUSR | Mode::WUSR | Mode::XUSR)
            .map_err(|_| error)?;
        self.at(path, flags)
    }

    /// Metadata of the entry at a path; `None` when the entry does not exist, or when a parent of it is not a
    /// folder.
    ///
    /// # Errors
    /// When the entry cannot be looked up for another reason.
    pub fn node(&self, path: &Path) -> io::Result<Option<Node>> {
        match self.at(path, OFlags::PATH | OFlags::NOFOLLOW) {
            Ok(fd) => Ok(Some(Node::of(&fs::fstat(fd)?))),
            Err(e) => match e.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::NOENT | Errno::NOTDIR) => Ok(None),
                // Either the last name is a link, and the link itself was asked for, or a parent is a link,
                // and nothing counts as below it.
                Some(Errno::LOOP) => self.node_of_link(path),
                _ => Err(e),
            },
        }
    }

    fn node_of_link(&self, path: &Path) -> io::Result<Option<Node>> {
        let Ok((parent, name)) = self.parent(path) else { return Ok(None) };
        match fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(Node::of(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// Opens the parent folder of a path, and returns it with the path's last name.
    fn parent<'p>(&self, path: &'p Path) -> io::Result<(Parent<'_>, &'p OsStr)> {
        let name = path
            .file_name()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it has no name below the folder"))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let fd =
            folder.map_or(Ok(Parent::Itself(&self.fd)), |folder| self.at(folder, FOLDER).map(Parent::Below));
        Ok((fd?, name))
    }

    /// Target of a symbolic link.
    ///
    /// # Errors
    /// When the entry is not a link, or cannot be read.
    pub fn link(&self, path: &Path) -> io::Result<PathBuf> {
        let (parent, name) = self.parent(path)?;
        let says = fs::readlinkat(&parent, name, Vec::new())?;
        Ok(OsString::from_vec(says.into_bytes()).into())
    }

    /// Names in a folder, sorted.
    ///
    /// # Errors
    /// When the path is not a folder, or cannot be read.
    pub fn names(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in fs::Dir::read_from(self.folder(path)?.fd)? {
            let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// Names in a folder with their kinds, unsorted.
    ///
    /// # Errors
    /// When the path is not a folder, or cannot be read.
    pub(crate) fn entries(&self, path: &Path) -> io::Result<Vec<(OsString, Kind)>> {
        let mut entries = Vec::new();
        for entry in fs::Dir::read_from(self.folder(path)?.fd)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::RegularFile => Kind::File,
                FileType::Directory => Kind::Folder,
                FileType::Symlink => Kind::Link,
                // Some file systems do not report the kind in directory entries.
                FileType::Unknown => match self.node(&path.join(&name))? {
                    Some(node) => node.kind,
                    None => continue,
                },
                _ => Kind::Special,
            };
            entries.push((name, kind));
        }
        Ok(entries)
    }

    /// Absolute path of this folder, without links. See `proc_pid_fd(5)`.
    ///
    /// # Errors
    /// When `/proc` is not mounted.
    pub(crate) fn real_path(&self) -> io::Result<PathBuf> {
        use std::os::fd::AsRawFd;
        std::fs::read_link(format!("/proc/self/fd/{}", self.fd.as_raw_fd()))
    }

    /// Whether a folder of a layer is opaque: it hides the entries of lower layers.
    ///
    /// # Errors
    /// When the folder cannot be opened.
    pub fn opaque(&self, path: &Path) -> io::Result<bool> {
        let folder = self.folder(path)?;
        let mut value = [0u8; 8];
        match fs::fgetxattr(&folder.fd, OPAQUE, &mut value[..]) {
            Ok(len) => Ok(&value[..len] == b"y"),
            Err(_) => Ok(false),
        }
    }

    /// Marks a folder of a layer as opaque.
    ///
    /// # Errors
    /// When the file system does not support user extended attributes.
    pub fn set_opaque(&self, path: &Path) -> io::Result<()> {
        Ok(fs::fsetxattr(&self.folder(path)?.fd, OPAQUE, b"y", fs::XattrFlags::empty())?)
    }

    /// Makes a folder with this mode.
    ///
    /// # Errors
    /// When the entry already exists, or its parent does not.
    pub fn make(&self, path: &Path, mode: u32) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        fs::mkdirat(&parent, name, Mode::from_raw_mode(0o700))?;
        self.set_mode(path, mode)
    }

    /// Makes the missing folders of a path, with mode 0755.
    ///
    /// # Errors
    /// When a file is in the way.
    pub fn make_all(&self, path: &Path) -> io::Result<()> {
        for folder in ancestors(path) {
            match self.make(&folder, 0o755) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                made => made?,
            }
        }
        Ok(())
    }

    /// Makes a whiteout, which marks an entry of lower layers as deleted. A device 0/0 requires no privilege,
    /// see `mknod(2)`.
    ///
    /// # Errors
    /// When an entry already exists at the path.
    pub fn whiteout(&self, path: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        Ok(fs::mknodat(&parent, name, FileType::CharacterDevice, Mode::empty(), 0)?)
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// When an entry already exists at the path.
    pub fn make_link(&self, path: &Path, says: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        Ok(fs::symlinkat(says, &parent, name)?)
    }

    /// Makes a hard link to a file of another folder on the same file system.
    ///
    /// # Errors
    /// When an entry already exists at the path.
    pub fn hard_link(&self, path: &Path, other: &Self, of: &Path) -> io::Result<()> {
        let ((theirs, their_name), (ours, our_name)) = (other.parent(of)?, self.parent(path)?);
        Ok(fs::linkat(&theirs, their_name, &ours, our_name, AtFlags::empty())?)
    }

    /// Creates a file with mode 0600 and opens it for writing.
    ///
    /// # Errors
    /// When an entry already exists at the path.
    pub fn create(&self, path: &Path) -> io::Result<File> {
        let (parent, name) = self.parent(path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(fs::openat(&parent, name, flags, Mode::from_raw_mode(0o600))?.into())
    }

    /// Sets the nine permission bits.
    ///
    /// # Errors
    /// When the mode cannot be changed.
    pub fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        let fd = self.at(path, OFlags::RDONLY)?;
        Ok(fs::fchmod(fd, Mode::from_raw_mode(mode & 0o777))?)
    }

    /// Changes the owner and group of an entry, or of this folder when `path` is empty.
    ///
    /// # Errors
    /// When the owner cannot be changed.
    pub fn own(&self, path: &Path, (uid, gid): (u32, u32)) -> io::Result<()> {
        let (uid, gid) = (fs::Uid::from_raw(uid), fs::Gid::from_raw(gid));
        if path.as_os_str().is_empty() {
            return Ok(fs::fchown(&self.fd, Some(uid), Some(gid))?);
        }
        let (parent, name) = self.parent(path)?;
        Ok(fs::chownat(&parent, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Moves an entry here from another folder on the same file system, and atomically replaces the entry at
    /// `path`.
    ///
    /// # Errors
    /// When the rename fails.
    pub fn take(&self, path: &Path, other: &Self, from: &Path) -> io::Result<()> {
        let ((theirs, their_name), (ours, our_name)) = (other.parent(from)?, self.parent(path)?);
        Ok(fs::renameat(&theirs, their_name, &ours, our_name)?)
    }

    /// Removes a file, a link or any other entry that is not a folder.
    ///
    /// # Errors
    /// When the entry is a folder, or does not exist.
    pub fn remove_file(&self, path: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        Ok(fs::unlinkat(&parent, name, AtFlags::empty())?)
    }

    /// Removes an empty folder.
    ///
    /// # Errors
    /// When the folder is not empty, or does not exist.
    pub fn remove_folder(&self, path: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        Ok(fs::unlinkat(&parent, name, AtFlags::REMOVEDIR)?)
    }

    /// Removes an entry with everything below it. For folders that are ours: unreadable ones get back their
    /// permissions.
    ///
    /// # Errors
    /// When an entry cannot be removed; one that does not exist is not an error.
    pub fn remove_all(&self, path: &Path) -> io::Result<()> {
        let Some(node) = self.node(path)? else { return Ok(()) };
        if node.kind != Kind::Folder {
            return self.remove_file(path);
        }
        let (mut folders, mut files, mut waiting) = (Vec::new(), Vec::new(), vec![(path.to_owned(), node)]);
        while let Some((path, node)) = waiting.pop() {
            let folder = self.folder(&path)?;
            if node.mode & 0o700 != 0o700 {
                fs::fchmod(&folder.fd, Mode::RWXU)?;
            }
            for name in self.names(&path)? {
                let inner = path.join(name);
                match self.node(&inner)? {
                    Some(node) if node.kind == Kind::Folder => waiting.push((inner, node)),
                    Some(_) => files.push(inner),
                    None => {}
                }
                if files.len() >= MAX_BATCH_NAMES {
                    at_once(&std::mem::take(&mut files), |file| gone(self.remove_file(file))).whole()?;
                }
            }
            folders.push(path);
        }
        at_once(&files, |file| gone(self.remove_file(file))).whole()?;
        // Inner folders before the outer ones.
        folders.iter().rev().try_for_each(|folder| gone(self.remove_folder(folder)))
    }

    /// Writes everything below this folder to the disk. Up to 64 entries are synced one by one, so that
    /// this call does not wait for data that other processes wrote to the same file system. More are synced
    /// by one `syncfs(2)`, since each separate sync waits for the disk.
    ///
    /// # Errors
    /// When writing fails.
    pub fn sync(&self) -> io::Result<()> {
        let Some(all) = self.few()? else { return Ok(fs::syncfs(&self.fd)?) };
        // Starts write-back of all files before waiting for the first. See `posix_fadvise(2)`.
        for file in &all {
            fs::fadvise(file, 0, None, fs::Advice::DontNeed)?;
        }
        all.iter().try_for_each(|file| Ok(fs::fsync(file)?))
    }

    /// Opens all files, and after them their folders; `None` when there are more than [`MAX_FSYNCS`], or when one
    /// cannot be opened.
    fn few(&self) -> io::Result<Option<Vec<OwnedFd>>> {
        let (mut files, mut folders, mut waiting) = (Vec::new(), Vec::new(), vec![PathBuf::new()]);
        while let Some(folder) = waiting.pop() {
            // A folder that its mode forbids to open keeps that mode.
            let Ok(open) = self.at(&folder, FOLDER) else { return Ok(None) };
            folders.push(open);
            for name in self.names(&folder)? {
                let path = folder.join(name);
                match self.node(&path)?.map(|node| node.kind) {
                    Some(Kind::Folder) => waiting.push(path),
                    Some(Kind::File) => match self.at(&path, OFlags::RDONLY) {
                        Ok(open) => files.push(open),
                        Err(_) => return Ok(None),
                    },
                    _ => {}
                }
                if files.len() + folders.len() + waiting.len() > MAX_FSYNCS {
                    return Ok(None);
                }
            }
        }
        files.extend(folders);
        Ok(Some(files))
    }
}

/// Treats an entry as removed when another process removed it first.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|e| if e.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(e) })
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Ancestors of a path below a folder, and the path itself, the outermost first.
pub(crate) fn ancestors(path: &Path) -> Vec<PathBuf> {
    let mut all: Vec<_> =
        path.ancestors().filter(|p| !p.as_os_str().is_empty()).map(Path::to_owned).collect();
    all.reverse();
    all
}

/// Whether two files have the same content.
///
/// # Errors
/// When reading fails.
pub fn same_bytes(a: File, b: File) -> io::Result<bool> {
    const READ_CHUNK: usize = 64 * 1024;
    let (mut a, mut b) =
        (io::BufReader::with_capacity(READ_CHUNK, a), io::BufReader::with_capacity(READ_CHUNK, b));
    let (mut ours, mut theirs) = (vec![0; READ_CHUNK], vec![0; READ_CHUNK]);
    loop {
        let read = fill(&mut a, &mut ours)?;
        if fill(&mut b, &mut theirs)? != read || ours[..read] != theirs[..read] {
            return Ok(false);
        }
        if read < READ_CHUNK {
            return Ok(true);
        }
    }
}

fn fill(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// For an unprivileged user only: root can read everything.
    #[test]
    fn own_files_are_made_readable() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "x").unwrap();
        let mode = || std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o0)).unwrap();
        let root = rustix::process::geteuid().is_root();
        let theirs = Folder::open(dir.path()).unwrap();
        assert_eq!(theirs.file(Path::new("file")).is_ok(), root);
        assert_eq!(mode(), 0);
        let ours = Folder::ours(dir.path()).unwrap();
        assert!(ours.file(Path::new("file")).is_ok());
    }
}
