//! Turns a folder into an archive, so that it is imported like any other source and has a digest.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};

use crate::error::{SourceError, StoreError};

/// Maximum nesting depth of folders.
const MAX_FOLDER_DEPTH: usize = 128;

/// Passes the archive of a folder to `take` while it is being written.
pub(crate) fn as_archive<T>(
    path: &Path,
    take: impl FnOnce(PipeReader) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let unreadable = |error| SourceError::Unreadable { path: path.to_owned(), error };
    let root = OwnedFd::from(File::open(path).map_err(unreadable)?);
    let (reader, writer) = io::pipe()?;
    std::thread::scope(|scope| {
        let written = scope.spawn(|| write(&root, writer));
        let taken = take(reader);
        match written.join() {
            Ok(Ok(())) => taken,
            // The reader stopped first, and its error is the cause.
            Ok(Err(e)) if e.kind() == io::ErrorKind::BrokenPipe => taken,
            Ok(Err(error)) => Err(unreadable(error).into()),
            Err(_) => Err(unreadable(io::Error::other("the thread that reads it ended")).into()),
        }
    })
}

struct Writer {
    archive: tar::Builder<io::BufWriter<PipeWriter>>,
    /// Files with several names, by device and inode.
    names: HashMap<(u64, u64), PathBuf>,
}

fn write(root: &OwnedFd, to: PipeWriter) -> io::Result<()> {
    let mut writer = Writer {
        archive: tar::Builder::new(io::BufWriter::with_capacity(64 * 1024, to)),
        names: HashMap::new(),
    };
    writer.folder(root, Path::new(""), 0)?;
    let mut inner = writer.archive.into_inner()?;
    io::Write::flush(&mut inner)
}

impl Writer {
    fn folder(&mut self, folder: &OwnedFd, path: &Path, depth: usize) -> io::Result<()> {
        if depth > MAX_FOLDER_DEPTH {
            return Err(io::Error::other(format!("{} lies too deep", path.display())));
        }
        let mut names = Vec::new();
        for entry in fs::Dir::read_from(folder)? {
            let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort();
        for name in names {
            let path = path.join(&name);
            self.entry(folder, &name, &path, depth).map_err(|e| match e.kind() {
                io::ErrorKind::BrokenPipe => e,
                kind => io::Error::new(kind, format!("{}: {e}", path.display())),
            })?;
        }
        Ok(())
    }

    fn entry(&mut self, folder: &OwnedFd, name: &OsStr, path: &Path, depth: usize) -> io::Result<()> {
        let stat = fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let mut header = tar::Header::new_gnu();
        header.set_mode(stat.st_mode & 0o7777);
        header.set_uid(stat.st_uid.into());
        header.set_gid(stat.st_gid.into());
        header.set_mtime(u64::try_from(stat.st_mtime).unwrap_or(0));
        header.set_size(0);
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                let id = (stat.st_dev, stat.st_ino);
                if let Some(first) = self.names.get(&id) {
                    header.set_entry_type(tar::EntryType::Link);
                    return self.archive.append_link(&mut header, path, first);
                }
                if stat.st_nlink > 1 {
                    self.names.insert(id, path.to_owned());
                }
                let file = File::from(open(folder, name, OFlags::NONBLOCK, &stat)?);
                header.set_size(stat.st_size.unsigned_abs());
                header.set_entry_type(tar::EntryType::Regular);
                self.archive.append_data(&mut header, path, Exactly(file, stat.st_size.unsigned_abs()))
            }
            FileType::Directory => {
                header.set_entry_type(tar::EntryType::Directory);
                self.archive.append_data(&mut header, path, io::empty())?;
                let inner = open(folder, name, OFlags::DIRECTORY, &stat)?;
                self.folder(&inner, path, depth + 1)
            }
            FileType::Symlink => {
                header.set_entry_type(tar::EntryType::Symlink);
                let says = fs::readlinkat(folder, name, Vec::new())?;
                self.archive.append_link(&mut header, path, Path::new(OsStr::from_bytes(says.as_bytes())))
            }
            // Sockets and devices of the host do not belong in an image; they are counted like those of
            // archives.
            _ => {
                header.set_entry_type(tar::EntryType::Fifo);
                self.archive.append_data(&mut header, path, io::empty())
            }
        }
    }
}

/// Opens the examined entry, and fails when another one has taken its place.
fn open(folder: &OwnedFd, name: &OsStr, flags: OFlags, seen: &Stat) -> io::Result<OwnedFd> {
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let flags = flags | OFlags::RDONLY | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = fs::openat2(folder, name, flags, Mode::empty(), beneath)?;
    let now = fs::fstat(&opened)?;
    if (now.st_dev, now.st_ino) == (seen.st_dev, seen.st_ino) {
        Ok(opened)
    } else {
        Err(io::Error::other("it was replaced while it was read"))
    }
}

/// Reads exactly the announced number of bytes, or fails: a file that grows or shrinks would shift the rest
/// of the archive.
struct Exactly(File, u64);

impl io::Read for Exactly {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = out.len().min(usize::try_from(self.1).unwrap_or(usize::MAX));
        let count = self.0.read(&mut out[..len])?;
        if count == 0 && len > 0 {
            return Err(io::Error::other("it became shorter while it was read"));
        }
        self.1 -= count as u64;
        Ok(count)
    }
}
