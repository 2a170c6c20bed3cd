//! A folder, and what is below it: nothing is followed out, no link is followed at all, no other mount is entered.
//!
//! What a program made is opened through this type only. `openat2(2)`

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use crate::at_once::at_once;

/// The attribute that makes a folder of an overlay's layer hide what is below it.
const OPAQUE: &str = "user.overlay.opaque";

/// Files and folders that are written to the disk one by one. Measured beside a busy writer: five take 9 ms so and 50 ms by
/// `syncfs(2)`, a thousand 850 ms so and 420 ms by it (medians of 8).
const FEW: usize = 64;

/// Files whose names are kept until they are removed together.
const MOST_AT_ONCE: usize = 4096;

/// What something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A character device 0/0: in a layer, something that was deleted.
    Whiteout,
    /// A device, a pipe, a socket.
    Special,
}

/// What is known of something without opening it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// Permission bits, the twelve of `chmod(2)`.
    pub mode: u32,
    /// Size of a file.
    pub bytes: u64,
    /// When bytes, mode, owner or name changed last: seconds and nanoseconds since 1970. Nobody can set it.
    pub changed: (i64, i64),
    /// Owner and group.
    pub owner: (u32, u32),
    /// How many names it has.
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

/// A folder that is held open.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    /// What is in it is a program's or our own: what cannot be read is made readable.
    ours: bool,
}

/// The folder that holds a path.
enum Parent<'f> {
    /// The path is a name alone.
    Itself(&'f OwnedFd),
    /// It is further down.
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
    /// A folder by its path, whose links are followed: for paths that a person named, and our own.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { fd: fs::open(path, FOLDER | OFlags::CLOEXEC, Mode::empty())?, ours: false })
    }

    /// The same, of our own making: what a program took the right to read away from is made readable again.
    ///
    /// # Errors
    /// What the system says.
    pub fn ours(path: &Path) -> io::Result<Self> {
        Ok(Self { ours: true, ..Self::open(path)? })
    }

    /// A folder that a program made for us, open already; its unreadable files are made readable too.
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
        // A pipe does not hold us up. Beside PATH the kernel takes neither.
        let quiet = OFlags::NOCTTY | OFlags::NONBLOCK;
        let quiet = if flags.contains(OFlags::PATH) { OFlags::empty() } else { quiet };
        let flags = flags | OFlags::CLOEXEC | quiet;
        Ok(fs::openat2(&self.fd, path, flags, Mode::empty(), resolve)?)
    }

    /// The folder below.
    ///
    /// # Errors
    /// When it is not there, is none, or lies behind a link or a mount.
    pub fn folder(&self, path: &Path) -> io::Result<Self> {
        let fd = self.at(path, FOLDER).or_else(|e| self.after_permission(e, path, FOLDER))?;
        Ok(Self { fd, ours: self.ours })
    }

    /// A regular file, for reading.
    ///
    /// # Errors
    /// When it is not there, is none, or lies behind a link or a mount.
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

    /// A program may take the right to read its own files away; whoever owns them gives it back.
    fn after_permission(&self, error: io::Error, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        if !self.ours || error.raw_os_error() != Some(Errno::ACCESS.raw_os_error()) {
            return Err(error);
        }
        let (parent, name) = self.parent(path)?;
        // Without following a link. `fchmodat2(2)`, `proc_pid_fd(5)`
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

    /// What is at a path; nothing when it is not there, or when what should be a folder before it is none.
    ///
    /// # Errors
    /// What the system says.
    pub fn node(&self, path: &Path) -> io::Result<Option<Node>> {
        match self.at(path, OFlags::PATH | OFlags::NOFOLLOW) {
            Ok(fd) => Ok(Some(Node::of(&fs::fstat(fd)?))),
            Err(e) => match e.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::NOENT | Errno::NOTDIR) => Ok(None),
                // The last name is a link, which is what was asked for; or a link is on the way, and nothing is below it.
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

    /// The folder that holds a path, and the path's name in it.
    fn parent<'p>(&self, path: &'p Path) -> io::Result<(Parent<'_>, &'p OsStr)> {
        let name = path
            .file_name()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it has no name below the folder"))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let fd =
            folder.map_or(Ok(Parent::Itself(&self.fd)), |folder| self.at(folder, FOLDER).map(Parent::Below));
        Ok((fd?, name))
    }

    /// What a link says.
    ///
    /// # Errors
    /// When it is none.
    pub fn link(&self, path: &Path) -> io::Result<PathBuf> {
        let (parent, name) = self.parent(path)?;
        let says = fs::readlinkat(&parent, name, Vec::new())?;
        Ok(OsString::from_vec(says.into_bytes()).into())
    }

    /// The names in a folder, sorted.
    ///
    /// # Errors
    /// When it is none.
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

    /// Whether a folder of a layer hides what is below it.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn opaque(&self, path: &Path) -> io::Result<bool> {
        let folder = self.folder(path)?;
        let mut value = [0u8; 8];
        match fs::fgetxattr(&folder.fd, OPAQUE, &mut value[..]) {
            Ok(len) => Ok(&value[..len] == b"y"),
            Err(_) => Ok(false),
        }
    }

    /// Marks a folder of a layer.
    ///
    /// # Errors
    /// Where the file system has no such attributes.
    pub fn set_opaque(&self, path: &Path) -> io::Result<()> {
        Ok(fs::fsetxattr(&self.folder(path)?.fd, OPAQUE, b"y", fs::XattrFlags::empty())?)
    }

    /// Makes a folder with this mode.
    ///
    /// # Errors
    /// When it is there already, or its parent is not.
    pub fn make(&self, path: &Path, mode: u32) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        fs::mkdirat(&parent, name, Mode::from_raw_mode(0o700))?;
        self.set_mode(path, mode)
    }

    /// Makes what is missing of a folder's path, with mode 0755.
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

    /// Marks something as deleted. `mknod(2)`: a device 0/0 takes no privilege.
    ///
    /// # Errors
    /// When something is there already.
    pub fn whiteout(&self, path: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        Ok(fs::mknodat(&parent, name, FileType::CharacterDevice, Mode::empty(), 0)?)
    }

    /// Makes a link.
    ///
    /// # Errors
    /// When something is there already.
    pub fn make_link(&self, path: &Path, says: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        Ok(fs::symlinkat(says, &parent, name)?)
    }

    /// Makes another name for a file of another folder on the same file system.
    ///
    /// # Errors
    /// When something is there already.
    pub fn hard_link(&self, path: &Path, other: &Self, of: &Path) -> io::Result<()> {
        let ((theirs, their_name), (ours, our_name)) = (other.parent(of)?, self.parent(path)?);
        Ok(fs::linkat(&theirs, their_name, &ours, our_name, AtFlags::empty())?)
    }

    /// A new file with mode 0600, for writing.
    ///
    /// # Errors
    /// When something is there already.
    pub fn create(&self, path: &Path) -> io::Result<File> {
        let (parent, name) = self.parent(path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(fs::openat(&parent, name, flags, Mode::from_raw_mode(0o600))?.into())
    }

    /// Sets the nine permission bits.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        let fd = self.at(path, OFlags::RDONLY)?;
        Ok(fs::fchmod(fd, Mode::from_raw_mode(mode & 0o777))?)
    }

    /// Gives something away.
    ///
    /// # Errors
    /// What the system says.
    pub fn own(&self, path: &Path, (uid, gid): (u32, u32)) -> io::Result<()> {
        let (uid, gid) = (fs::Uid::from_raw(uid), fs::Gid::from_raw(gid));
        if path.as_os_str().is_empty() {
            return Ok(fs::fchown(&self.fd, Some(uid), Some(gid))?);
        }
        let (parent, name) = self.parent(path)?;
        Ok(fs::chownat(&parent, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Moves something of a folder on the same file system here; what was there is replaced at once.
    ///
    /// # Errors
    /// What the system says.
    pub fn take(&self, path: &Path, other: &Self, from: &Path) -> io::Result<()> {
        let ((theirs, their_name), (ours, our_name)) = (other.parent(from)?, self.parent(path)?);
        Ok(fs::renameat(&theirs, their_name, &ours, our_name)?)
    }

    /// Removes a file, a link or whatever is no folder.
    ///
    /// # Errors
    /// When it is a folder, or not there.
    pub fn remove_file(&self, path: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        Ok(fs::unlinkat(&parent, name, AtFlags::empty())?)
    }

    /// Removes an empty folder.
    ///
    /// # Errors
    /// When it is not empty, or not there.
    pub fn remove_folder(&self, path: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        Ok(fs::unlinkat(&parent, name, AtFlags::REMOVEDIR)?)
    }

    /// Removes something with all that is in it, for what is ours.
    ///
    /// # Errors
    /// What the system says.
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
                if files.len() >= MOST_AT_ONCE {
                    at_once(&std::mem::take(&mut files), |file| gone(self.remove_file(file))).whole()?;
                }
            }
            folders.push(path);
        }
        at_once(&files, |file| gone(self.remove_file(file))).whole()?;
        // Each after those that are in it.
        folders.iter().rev().try_for_each(|folder| gone(self.remove_folder(folder)))
    }

    /// Writes to the disk what is in it: few things one by one, so that nobody waits for what others have written to the same
    /// file system; many by asking for all of that, since each one by itself waits for the disk.
    ///
    /// # Errors
    /// What the system says.
    pub fn sync(&self) -> io::Result<()> {
        let Some(all) = self.few()? else { return Ok(fs::syncfs(&self.fd)?) };
        // All of them begin before one is waited for. `posix_fadvise(2)`
        for file in &all {
            fs::fadvise(file, 0, None, fs::Advice::DontNeed)?;
        }
        all.iter().try_for_each(|file| Ok(fs::fsync(file)?))
    }

    /// Its files, and after them the folders that they are in; `None` when there are more than [`FEW`], or one cannot be opened.
    fn few(&self) -> io::Result<Option<Vec<OwnedFd>>> {
        let (mut files, mut folders, mut waiting) = (Vec::new(), Vec::new(), vec![PathBuf::new()]);
        while let Some(folder) = waiting.pop() {
            // What its mode forbids to open stays as it is.
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
                if files.len() + folders.len() + waiting.len() > FEW {
                    return Ok(None);
                }
            }
        }
        files.extend(folders);
        Ok(Some(files))
    }
}

/// What somebody else removed meanwhile is removed.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|e| if e.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(e) })
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A path's ancestors below a folder and the path itself, the outermost first.
pub(crate) fn ancestors(path: &Path) -> Vec<PathBuf> {
    let mut all: Vec<_> =
        path.ancestors().filter(|p| !p.as_os_str().is_empty()).map(Path::to_owned).collect();
    all.reverse();
    all
}

/// Whether two files have the same bytes.
///
/// # Errors
/// What the system says.
pub fn same_bytes(a: File, b: File) -> io::Result<bool> {
    const PIECE: usize = 64 * 1024;
    let (mut a, mut b) = (io::BufReader::with_capacity(PIECE, a), io::BufReader::with_capacity(PIECE, b));
    let (mut ours, mut theirs) = (vec![0; PIECE], vec![0; PIECE]);
    loop {
        let read = fill(&mut a, &mut ours)?;
        if fill(&mut b, &mut theirs)? != read || ours[..read] != theirs[..read] {
            return Ok(false);
        }
        if read < PIECE {
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

    /// For an ordinary user: root may read everything.
    #[test]
    fn only_what_is_ours_is_made_readable() {
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
