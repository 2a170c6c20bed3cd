//! Reads and writes files in pieces as large as the host accepts. The standard library of components writes 4
//! KiB at a time, and each piece goes to a thread of the host and back.

use std::io::{self, BufRead, Read};
use std::path::Path;

use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{Descriptor, DescriptorFlags, ErrorCode, OpenFlags, PathFlags};
use wasip2::io::streams::StreamError;

/// Maximum number of bytes that the host returns at once.
const PIECE: u64 = 64 << 10;
/// Maximum number of bytes to reserve ahead: an announced size may be wrong.
const MOST_AHEAD: u64 = 4 << 20;

/// A file that is read from its beginning, or from a given offset.
pub struct File {
    open: Descriptor,
    at: u64,
    piece: Vec<u8>,
    /// Number of consumed bytes of the piece.
    taken: usize,
}

/// Treatment of a file that exists already.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Write {
    Replace,
    Append,
    Create,
}

impl File {
    /// Opens a file of a granted folder.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let open = open(path.as_ref(), OpenFlags::empty(), DescriptorFlags::READ)?;
        Ok(Self { open, at: 0, piece: Vec::new(), taken: 0 })
    }

    /// Size of the file in bytes.
    pub fn size(&self) -> io::Result<u64> {
        Ok(self.open.stat().map_err(why)?.size)
    }

    /// Reads at most `length` bytes from `offset`.
    pub fn part(&self, offset: u64, length: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(usize::try_from(length.min(MOST_AHEAD)).unwrap_or_default());
        loop {
            let got = bytes.len() as u64;
            let piece = PIECE.min(length - got);
            if piece == 0 {
                return Ok(bytes);
            }
            let (more, _) = self.open.read(piece, offset + got).map_err(why)?;
            if more.is_empty() {
                return Ok(bytes);
            }
            bytes.extend_from_slice(&more);
        }
    }
}

impl BufRead for File {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.taken == self.piece.len() {
            (self.piece, self.taken) = (self.open.read(PIECE, self.at).map_err(why)?.0, 0);
            self.at += self.piece.len() as u64;
        }
        Ok(&self.piece[self.taken..])
    }

    fn consume(&mut self, count: usize) {
        self.taken = self.piece.len().min(self.taken + count);
    }
}

impl Read for File {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(into)?;
        self.consume(count);
        Ok(count)
    }
}

/// Writes a file, and returns its size.
pub fn write(path: impl AsRef<Path>, content: &[u8], how: Write) -> io::Result<u64> {
    let flags = match how {
        Write::Replace => OpenFlags::CREATE | OpenFlags::TRUNCATE,
        Write::Append => OpenFlags::CREATE,
        Write::Create => OpenFlags::CREATE | OpenFlags::EXCLUSIVE,
    };
    let open = open(path.as_ref(), flags, DescriptorFlags::WRITE)?;
    if how == Write::Append {
        append(&open, content)?;
    } else {
        let mut at = 0;
        while let Some(rest) = content.get(at..).filter(|rest| !rest.is_empty()) {
            match open.write(rest, at as u64).map_err(why)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => at += usize::try_from(written).unwrap_or(usize::MAX),
            }
        }
    }
    Ok(open.stat().map_err(why)?.size)
}

/// Appends at the end of the file, even if another process appends too.
fn append(open: &Descriptor, mut content: &[u8]) -> io::Result<()> {
    let failed = |error: StreamError| match error {
        StreamError::LastOperationFailed(error) => io::Error::other(error.to_debug_string()),
        StreamError::Closed => io::ErrorKind::WriteZero.into(),
    };
    let stream = open.append_via_stream().map_err(why)?;
    let ready = stream.subscribe();
    while !content.is_empty() {
        ready.block();
        let room = usize::try_from(stream.check_write().map_err(failed)?).unwrap_or(usize::MAX);
        let (now, later) = content.split_at(room.min(content.len()));
        stream.write(now).map_err(failed)?;
        content = later;
    }
    stream.blocking_flush().map_err(failed)
}

/// Opens a path below the nearest granted folder.
fn open(path: &Path, how: OpenFlags, flags: DescriptorFlags) -> io::Result<Descriptor> {
    let within = |(folder, name): (Descriptor, String)| {
        let below = path.strip_prefix(name).ok()?.to_str()?.to_owned();
        Some((folder, if below.is_empty() { ".".to_owned() } else { below }))
    };
    let found = get_directories().into_iter().filter_map(within).min_by_key(|(_, below)| below.len());
    let (folder, below) = found.ok_or(io::ErrorKind::NotFound)?;
    folder.open_at(PathFlags::SYMLINK_FOLLOW, &below, how, flags).map_err(why)
}

/// Error in the words of the interface: "No such file or directory, similar to …".
fn why(code: ErrorCode) -> io::Error {
    let words = code.message();
    io::Error::other(words.split_once(", similar to").map_or(words, |(words, _)| words).trim_end_matches('.'))
}
