//! A folder held open by descriptor, and safe access to the entries below it: no symbolic link is followed,
//! no other mount is entered.
//!
//! Files that a program made are opened only through this type. See `openat2(2)`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    self, AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, Statx, StatxAttributes, StatxFlags,
};
use rustix::io::Errno;

mod content;
mod sync;

pub use content::same_bytes;

/// Extended attribute that marks a folder of an overlay layer as opaque: entries of lower layers are hidden.
const OPAQUE: &str = "user.overlay.opaque";

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

impl Kind {
    fn of(file_type: FileType, is_device_0: bool) -> Self {
        match file_type {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Folder,
            FileType::Symlink => Self::Link,
            FileType::CharacterDevice if is_device_0 => Self::Whiteout,
            _ => Self::Special,
        }
    }
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
        let kind = Kind::of(FileType::from_raw_mode(stat.st_mode), stat.st_rdev == 0);
        Self {
            kind,
            mode: stat.st_mode & 0o7777,
            bytes: if kind == Kind::File { stat.st_size.unsigned_abs() } else { 0 },
            changed: (stat.st_ctime, stat.st_ctime_nsec.cast_signed()),
            owner: (stat.st_uid, stat.st_gid),
            names: stat.st_nlink,
        }
    }

    fn of_statx(stat: &Statx) -> Self {
        let mode = u32::from(stat.stx_mode);
        let is_device_0 = stat.stx_rdev_major == 0 && stat.stx_rdev_minor == 0;
        let kind = Kind::of(FileType::from_raw_mode(mode), is_device_0);
        Self {
            kind,
            mode: mode & 0o7777,
            bytes: if kind == Kind::File { stat.stx_size } else { 0 },
            changed: (stat.stx_ctime.tv_sec, i64::from(stat.stx_ctime.tv_nsec)),
            owner: (stat.stx_uid, stat.stx_gid),
            names: u64::from(stat.stx_nlink),
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
/// A folder in which entries are looked up, made, renamed and removed, which requires no permission to read it.
const PARENT: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);

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
        self.seen_file(path)
    }

    /// Like [`Folder::file`], for a path at which a file was just seen: opening a device has effects.
    ///
    /// # Errors
    /// As [`Folder::file`].
    pub(crate) fn seen_file(&self, path: &Path) -> io::Result<File> {
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
        if let Some(node) = single(path).map_or(Ok(None), |name| self.node_here(name))? {
            return Ok(node);
        }
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

    /// Metadata of an entry directly in this folder, by one system call instead of three; `None` when it has to be looked
    /// up by its path, because another file system begins there or the kernel does not say whether one does.
    fn node_here(&self, name: &OsStr) -> io::Result<Option<Option<Node>>> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        match fs::statx(&self.fd, name, flags, StatxFlags::BASIC_STATS) {
            Ok(stat) => {
                let tells = stat.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT);
                let is_here = tells && !stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
                Ok(is_here.then(|| Some(Node::of_statx(&stat))))
            }
            Err(Errno::NOENT) => Ok(Some(None)),
            Err(Errno::NOSYS) => Ok(None),
            Err(e) => Err(e.into()),
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
            folder.map_or(Ok(Parent::Itself(&self.fd)), |folder| self.at(folder, PARENT).map(Parent::Below));
        Ok((fd?, name))
    }

    /// Opens the parent folder of a path, in which the path's last name, also returned, can be looked up and replaced without
    /// resolving the path again. `None` when there is no such folder.
    ///
    /// # Errors
    /// When the parent cannot be opened for another reason, as it lies behind a mount.
    pub(crate) fn around<'p>(&self, path: &'p Path) -> io::Result<Option<(Self, &'p Path)>> {
        let name = path
            .file_name()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it has no name below the folder"))?;
        match self.at(path.parent().unwrap_or(Path::new("")), PARENT) {
            Ok(fd) => Ok(Some((Self { fd, ours: self.ours }, Path::new(name)))),
            Err(e) => match e.raw_os_error().map(Errno::from_raw_os_error) {
                // Nothing counts as below a link.
                Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
                _ => Err(e),
            },
        }
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
        // Takes the descriptor: to open `.` below it again would require permission to search the folder.
        for entry in fs::Dir::new(self.folder(path)?.fd)? {
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
        for entry in fs::Dir::new(self.folder(path)?.fd)? {
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
}

/// The name, if the path is one: not a path through other folders, and neither `.` nor `..`.
fn single(path: &Path) -> Option<&OsStr> {
    let bytes = path.as_os_str().as_bytes();
    (!matches!(bytes, b"" | b"." | b"..") && !bytes.contains(&b'/')).then_some(path.as_os_str())
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

    /// A single name is looked up by another system call than a path.
    #[test]
    fn name_and_path_have_same_metadata() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join("d").join(name);
        std::fs::create_dir(dir.path().join("d")).unwrap();
        std::fs::write(at("file"), "text").unwrap();
        std::fs::set_permissions(at("file"), PermissionsExt::from_mode(0o640)).unwrap();
        std::fs::hard_link(at("file"), at("other")).unwrap();
        std::fs::create_dir(at("folder")).unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        std::os::unix::fs::symlink("missing", at("dangling")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        let top = Folder::open(dir.path()).unwrap();
        let inner = top.folder(Path::new("d")).unwrap();
        inner.whiteout(Path::new("whiteout")).unwrap();
        for (name, kind) in [
            ("file", Some(Kind::File)),
            ("other", Some(Kind::File)),
            ("folder", Some(Kind::Folder)),
            ("link", Some(Kind::Link)),
            ("dangling", Some(Kind::Link)),
            ("socket", Some(Kind::Special)),
            ("whiteout", Some(Kind::Whiteout)),
            ("missing", None),
        ] {
            let (by_name, by_path) = (inner.node(Path::new(name)), top.node(&Path::new("d").join(name)));
            assert_eq!(by_name.unwrap(), by_path.unwrap(), "{name}");
            assert_eq!(top.node(&Path::new("d").join(name)).unwrap().map(|node| node.kind), kind, "{name}");
        }
        assert_eq!(inner.node(Path::new("")).unwrap(), top.node(Path::new("d")).unwrap());
        assert!(inner.node(Path::new("..")).is_err(), "out of the folder");
        // Other file systems are not entered.
        assert!(Folder::open(Path::new("/")).unwrap().node(Path::new("proc")).is_err());
    }
}
