//! Unpacks an archive into a folder. The archive is hostile: nothing is written outside the folder, and no
//! setuid file or device is made.
//!
//! | in the archive | on disk |
//! | --- | --- |
//! | files, folders, links | the same, owned by the unpacking user; setuid, setgid and sticky bits are
//! removed |
//! | hard links | within the archive's own files only |
//! | devices, pipes | not made, but counted |
//! | `.wh.NAME`, `.wh..wh..opq` | their form in an overlay: a device 0/0, `user.overlay.opaque` |
//! | attributes `user.*` | kept where the file system supports them; all others (capabilities, overlay's) are
//! counted |
//! | owners, modes, device numbers that the disk does not show | rows of [`Unpacked::recorded`] |
//!
//! A name that is absolute, contains `..`, or leads through a link is an error, since no image has such
//! names.

use std::ffi::OsStr;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tar::{EntryType, Header};

use crate::stream::{Digest, Gauge, Plain, Tripped};
use crate::tree::{Tree, set_attribute, settle};

/// Limits on one archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Size of the uncompressed archive in bytes, holes of sparse files included. Default 16 GiB.
    pub bytes: u64,
    /// Number of entries. Default 2,000,000.
    pub entries: u64,
    /// Length of a name in bytes. Default 4,095, the longest that system calls accept.
    pub name: usize,
    /// Nesting depth of folders. Default 128.
    pub depth: usize,
    /// Size of the names and attributes of one entry together, in bytes. Default 1 MiB.
    pub headers: u64,
    /// Compression ratio beyond the first 64 MiB of output. Default 200.
    pub ratio: u64,
    /// Whether names that begin with `.wh.` are deletions, as in a layer, instead of ordinary names. Default
    /// true.
    pub whiteouts: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 16 << 30,
            entries: 2_000_000,
            name: 4095,
            depth: 128,
            headers: 1 << 20,
            ratio: 200,
            whiteouts: true,
        }
    }
}

/// Result of unpacking an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpacked {
    /// Digest of the uncompressed archive, which image configurations call `diff_id`.
    pub diff_id: Digest,
    /// Length of the uncompressed archive in bytes.
    pub archive_bytes: u64,
    /// Size of the files in bytes.
    pub bytes: u64,
    /// Number of entries.
    pub entries: u64,
    /// Number of devices and pipes that were left out.
    pub special: u64,
    /// Number of deletions and opaque folders.
    pub whiteouts: u64,
    /// Number of files whose setuid or setgid bit was removed.
    pub setid: u64,
    /// Number of extended attributes that were left out.
    pub attributes_dropped: u64,
    /// Metadata that the disk does not show.
    pub recorded: Vec<Recorded>,
}

/// Metadata of an entry that the disk does not show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Path below the folder.
    pub path: PathBuf,
    /// Kind: `-` a file, `d` a folder, `l` a link, `c` and `b` devices, `p` a pipe.
    pub kind: char,
    /// The twelve permission bits.
    pub mode: u32,
    /// User id.
    pub uid: u64,
    /// Group id.
    pub gid: u64,
    /// Major and minor number of a device.
    pub device: Option<(u32, u32)>,
}

impl std::fmt::Display for Recorded {
    /// One line: kind, mode, owner, group, device numbers, name with everything but printable ASCII escaped.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:04o} {} {} ", self.kind, self.mode, self.uid, self.gid)?;
        match self.device {
            Some((major, minor)) => write!(f, "{major}:{minor} ")?,
            None => write!(f, "- ")?,
        }
        write!(f, "{}", self.path.as_os_str().as_bytes().escape_ascii())
    }
}

/// Reason why an archive was refused. The caller has to remove the part that was already unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// The data is not an archive, or a damaged one.
    #[error("the archive cannot be read: {0}")]
    Archive(io::Error),
    /// The name of an entry is not acceptable.
    #[error("the archive's entry {name:?} {why}")]
    Entry {
        /// The name, shortened.
        name: String,
        /// The problem.
        why: &'static str,
    },
    /// The archive exceeds a limit.
    #[error("the archive has more than {most} {what}")]
    Limit {
        /// The limited quantity.
        what: &'static str,
        /// The limit.
        most: u64,
    },
    /// Writing to the folder failed.
    #[error("{name:?} cannot be written: {error}")]
    Write {
        /// The entry.
        name: String,
        /// Error of the system call.
        error: io::Error,
    },
}

/// Unpacks a tar archive, plain or compressed by gzip, zstd or xz, into a folder that is open.
///
/// The folder should be empty and owned by the caller, and no other process may write to it meanwhile.
///
/// # Errors
/// [`UnpackError`], with the offending entry.
pub fn unpack(archive: impl Read, into: OwnedFd, limits: &Limits) -> Result<Unpacked, UnpackError> {
    let plain = Plain::new(archive, limits.ratio, limits.bytes).map_err(UnpackError::Archive)?;
    let gauge = plain.gauge();
    let mut archive = tar::Archive::new(plain);
    let mut unpacking = Unpacking {
        tree: Tree::new(into),
        limits: *limits,
        piece: vec![0; 128 * 1024],
        names: 0,
        found: Unpacked {
            diff_id: Digest([0; 32]),
            archive_bytes: 0,
            bytes: 0,
            entries: 0,
            special: 0,
            whiteouts: 0,
            setid: 0,
            attributes_dropped: 0,
            recorded: Vec::new(),
        },
    };
    let read = |error| unreadable(&gauge, limits, error);
    let mut entries = archive.entries().map_err(read)?;
    loop {
        gauge.headers(Some(limits.headers));
        let Some(entry) = entries.next() else { break };
        let mut entry = entry.map_err(read)?;
        gauge.headers(None);
        unpacking.entry(&mut entry, &gauge)?;
    }
    let mut found = unpacking.found;
    (found.diff_id, found.archive_bytes) =
        archive.into_inner().finish().map_err(|error| unreadable(&gauge, limits, error))?;
    Ok(found)
}

fn unreadable(gauge: &Gauge, limits: &Limits, error: io::Error) -> UnpackError {
    let (what, most) = match gauge.tripped() {
        None => return UnpackError::Archive(error),
        Some(Tripped::Bytes) => ("bytes", limits.bytes),
        Some(Tripped::Headers) => ("bytes of names and attributes in one entry", limits.headers),
        Some(Tripped::Ratio) => ("bytes for each compressed byte", limits.ratio),
    };
    UnpackError::Limit { what, most }
}

/// Maximum size in bytes of the table of owners, modes and devices.
const MAX_TABLE_BYTES: u64 = 64 << 20;

struct Unpacking {
    tree: Tree,
    limits: Limits,
    piece: Vec<u8>,
    /// Size of recorded names, in bytes.
    names: u64,
    found: Unpacked,
}

/// A name, shortened for messages.
fn shown(name: &[u8]) -> String {
    const MAX_SHOWN_BYTES: usize = 200;
    let text = String::from_utf8_lossy(&name[..name.len().min(MAX_SHOWN_BYTES)]).into_owned();
    if name.len() > MAX_SHOWN_BYTES { format!("{text}…") } else { text }
}

/// Converts a name in an archive to a path below the folder. `.` and repeated slashes are ignored; the empty
/// path is the folder itself.
fn below(name: &[u8], limits: &Limits) -> Result<PathBuf, &'static str> {
    if name.len() > limits.name {
        return Err("has a name that is too long");
    }
    if name.first() == Some(&b'/') {
        return Err("has an absolute name");
    }
    if name.contains(&0) {
        return Err("has a NUL character in its name");
    }
    let mut path = PathBuf::new();
    let mut depth = 0;
    for part in name.split(|b| *b == b'/').filter(|part| !part.is_empty() && *part != b".") {
        if part == b".." {
            return Err("has .. in its name");
        }
        if part.len() > 255 {
            return Err("has a name that is too long");
        }
        depth += 1;
        path.push(OsStr::from_bytes(part));
    }
    if depth > limits.depth { Err("lies too deep") } else { Ok(path) }
}

/// Meaning of a name in a layer.
#[derive(Debug, PartialEq, Eq)]
enum Meaning<'a> {
    Name,
    /// The entry with this name in lower layers is deleted.
    Deleted(&'a OsStr),
    /// The folder hides the entries of lower layers.
    Opaque,
    /// Metadata of the program that made the layer.
    Note,
}

fn meaning(name: &OsStr) -> Result<Meaning<'_>, &'static str> {
    Ok(match name.as_bytes().strip_prefix(b".wh.") {
        None => Meaning::Name,
        Some(b".wh..opq") => Meaning::Opaque,
        Some(rest) if rest.starts_with(b".wh.") => Meaning::Note,
        Some(b"" | b"." | b"..") => return Err("deletes no name"),
        Some(rest) => Meaning::Deleted(OsStr::from_bytes(rest)),
    })
}

/// Mode on disk: readable by all users, and executable by all if by any, since the program in the sandbox is
/// neither the owner nor in the group; and the unpacking user can remove it.
const fn mode_on_disk(mode: u32, folder: bool) -> u32 {
    let floor = if folder || mode & 0o111 != 0 { 0o755 } else { 0o644 };
    mode & 0o777 | floor
}

impl Unpacking {
    fn entry<R: Read>(&mut self, entry: &mut tar::Entry<'_, R>, gauge: &Gauge) -> Result<(), UnpackError> {
        let header = entry.header().clone();
        let kind = header.entry_type();
        if kind == EntryType::XGlobalHeader {
            return self.skip(entry, gauge);
        }
        self.found.entries += 1;
        if self.found.entries > self.limits.entries {
            return Err(UnpackError::Limit { what: "entries", most: self.limits.entries });
        }
        let name = entry.path_bytes().into_owned();
        let fault = |why| UnpackError::Entry { name: shown(&name), why };
        let path = below(&name, &self.limits).map_err(fault)?;
        let folder = kind.is_dir();
        let Some((parent, last)) = path.parent().zip(path.file_name()) else {
            // The target folder itself.
            return if folder { self.skip(entry, gauge) } else { Err(fault("has no name")) };
        };
        let write = |error: io::Error| cannot(&name, error);
        if self.limits.whiteouts {
            let meant = meaning(last).map_err(fault)?;
            match meant {
                Meaning::Name => {}
                Meaning::Deleted(what) => self.tree.whiteout(parent, what).map_err(write)?,
                Meaning::Opaque => self.tree.opaque(parent).map_err(write)?,
                Meaning::Note => {}
            }
            if meant != Meaning::Name {
                self.found.whiteouts += u64::from(meant != Meaning::Note);
                return self.skip(entry, gauge);
            }
        }
        let bad = |error| UnpackError::Archive(error);
        let mode = header.mode().map_err(bad)? & 0o7777;
        let modified = modified(&header);
        let on_disk = mode_on_disk(mode, folder);
        let mut device = None;
        let letter = match kind {
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                self.file(entry, gauge, (parent, last), &name, (on_disk, modified))?;
                '-'
            }
            EntryType::Directory => {
                self.tree.make(parent, last, on_disk).map_err(write)?;
                'd'
            }
            EntryType::Symlink => {
                let says = entry.link_name_bytes().unwrap_or_default().into_owned();
                if says.is_empty() || says.len() > self.limits.name || says.contains(&0) {
                    return Err(fault("is a link that says nothing, or too much"));
                }
                self.tree.link(parent, last, OsStr::from_bytes(&says), modified).map_err(write)?;
                'l'
            }
            EntryType::Link => {
                let says = entry.link_name_bytes().unwrap_or_default().into_owned();
                let of = below(&says, &self.limits)
                    .map_err(|_| fault("is a hard link to something outside the archive"))?;
                let target = of.parent().zip(of.file_name()).filter(|_| of != path);
                let target = target.ok_or_else(|| fault("is a hard link to nothing"))?;
                if !self.tree.hard_link(parent, last, target).map_err(write)? {
                    return Err(fault("is a hard link to something that is not in the archive before it"));
                }
                // A hard link has the owner and mode of its target.
                return self.skip(entry, gauge);
            }
            EntryType::Char | EntryType::Block | EntryType::Fifo => {
                self.found.special += 1;
                let numbers = (header.device_major(), header.device_minor());
                if let (Ok(Some(major)), Ok(Some(minor)), true) =
                    (numbers.0, numbers.1, kind != EntryType::Fifo)
                {
                    device = Some((major, minor));
                }
                self.skip(entry, gauge)?;
                match kind {
                    EntryType::Char => 'c',
                    EntryType::Block => 'b',
                    _ => 'p',
                }
            }
            _ => return Err(fault("is neither a file, a folder, a link nor a device")),
        };
        let setid = mode & 0o6000 != 0 && letter == '-';
        self.found.setid += u64::from(setid);
        // The fields are blank in very old archives.
        let (uid, gid) = (header.uid().unwrap_or(0), header.gid().unwrap_or(0));
        let special = !matches!(letter, '-' | 'd' | 'l');
        if special || (uid, gid) != (0, 0) || (mode != on_disk && letter != 'l') {
            // The table is kept in memory, and names may be long.
            self.names += path.as_os_str().len() as u64 + 64;
            if self.names > MAX_TABLE_BYTES {
                return Err(UnpackError::Limit {
                    what: "bytes of names with owners or devices",
                    most: MAX_TABLE_BYTES,
                });
            }
            self.found.recorded.push(Recorded { path, kind: letter, mode, uid, gid, device });
        }
        Ok(())
    }

    /// Skips the content of an entry, so that the next bytes are headers.
    fn skip<R: Read>(&mut self, entry: &mut tar::Entry<'_, R>, gauge: &Gauge) -> Result<(), UnpackError> {
        loop {
            match entry.read(&mut self.piece) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(e) => return Err(unreadable(gauge, &self.limits, e)),
            }
        }
    }

    fn file<R: Read>(
        &mut self,
        entry: &mut tar::Entry<'_, R>,
        gauge: &Gauge,
        (parent, last): (&Path, &OsStr),
        name: &[u8],
        (mode, modified): (u32, i64),
    ) -> Result<(), UnpackError> {
        let sparse = entry.header().entry_type() == EntryType::GNUSparse;
        let mut attributes = Vec::new();
        let limits = self.limits;
        let bad = |error| unreadable(gauge, &limits, error);
        if let Some(extensions) = entry.pax_extensions().map_err(bad)? {
            for extension in extensions {
                let extension = extension.map_err(bad)?;
                if extension.key_bytes().starts_with(b"GNU.sparse.") {
                    return Err(UnpackError::Entry {
                        name: shown(name),
                        why: "is a sparse file of a kind that is not read; make the archive with --format=gnu",
                    });
                }
                if let Some(attribute) = extension.key_bytes().strip_prefix(b"SCHILY.xattr.") {
                    attributes.push((attribute.to_owned(), extension.value_bytes().to_owned()));
                }
            }
        }
        let left = self.limits.bytes - self.found.bytes.min(self.limits.bytes);
        if entry.size() > left {
            return Err(UnpackError::Limit { what: "bytes", most: self.limits.bytes });
        }
        let cannot = |error| cannot(name, error);
        let mut file = self.tree.create(parent, last).map_err(cannot)?;
        let mut written: u64 = 0;
        loop {
            let count = match entry.read(&mut self.piece) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) => return Err(unreadable(gauge, &self.limits, error)),
            };
            let piece = &self.piece[..count];
            written += count as u64;
            if sparse && piece.iter().all(|b| *b == 0) {
                file.seek(SeekFrom::Start(written)).map_err(cannot)?;
            } else {
                file.write_all(piece).map_err(cannot)?;
            }
        }
        if written != entry.size() {
            let error = io::Error::new(io::ErrorKind::UnexpectedEof, "it ends within a file");
            return Err(UnpackError::Archive(error));
        }
        if sparse {
            file.set_len(written).map_err(cannot)?;
        }
        self.found.bytes += written;
        for (attribute, value) in attributes {
            let kept = std::str::from_utf8(&attribute)
                .ok()
                .filter(|a| a.starts_with("user.") && !a.starts_with("user.overlay."))
                .is_some_and(|attribute| set_attribute(&file, attribute, &value));
            self.found.attributes_dropped += u64::from(!kept);
        }
        settle(&file, mode, modified).map_err(cannot)
    }
}

/// Converts a file system error. Links on the way are reported as a fault of the entry.
fn cannot(name: &[u8], error: io::Error) -> UnpackError {
    use rustix::io::Errno;
    let name = shown(name);
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::LOOP | Errno::NOTDIR | Errno::XDEV) => {
            UnpackError::Entry { name, why: "lies behind a link, or below something that is no folder" }
        }
        _ => UnpackError::Write { name, error },
    }
}

/// Modification time in seconds since 1970, within the range of every file system.
fn modified(header: &Header) -> i64 {
    const MAX_MTIME: u64 = u32::MAX as u64;
    i64::try_from(header.mtime().unwrap_or(0).min(MAX_MTIME)).unwrap_or(0)
}

#[cfg(test)]
mod tests;
