//! 7z: files are pieces of the streams of "folders"; an error in a folder is reported for its files and hides
//! no other folder.

mod fields;
mod header;

use super::{MAX_MEMORY_KIB, MAX_RATIO, entry, leads_out, more};
use crate::report::PartState;
use header::{Coder, File, Folder, Header};
use lzma_rust2::filter::{bcj::BcjReader, delta::DeltaReader};
use lzma_rust2::{Lzma2Reader, LzmaReader};
use std::io::{Error, ErrorKind, Read};

use crate::context::Cx;

/// Maximum padding between streams that is ignored.
const MAX_PADDING: usize = 32;
/// Maximum length of a link's target, in bytes; Linux follows no longer one.
const MAX_TARGET_LEN: u64 = 4096;

/// Reads an archive.
pub(super) fn read(cx: &mut Cx<'_>, name: &str, bytes: &[u8], depth: usize) {
    let header = Header::of(bytes);
    for why in &header.wrong {
        skipped(cx, name, why);
    }
    if header.wrong.is_empty() && header.files.is_empty() {
        cx.note_part(name, "7z", PartState::Inert);
    }
    for file in header.files.iter().filter(|file| !file.data) {
        if !more(cx, name) {
            return;
        }
        let path = format!("{name}!{}", file.name);
        if file.anti {
            cx.entries += 1;
            skipped(cx, &path, "unpacking deletes what has this name");
        } else if file.folder {
            cx.entries += 1;
        } else {
            entry(cx, &path, &[][..], 0, depth);
        }
        outside(cx, &path, file, &[]);
    }
    let mut taken = header.taken;
    let mut files = header.files.iter().filter(|file| file.data);
    for (number, folder) in header.folders.iter().enumerate() {
        taken.extend(&folder.packed);
        if !read_folder(cx, name, bytes, (number, folder), &mut files, depth) {
            return;
        }
    }
    for file in files {
        if !more(cx, name) {
            return;
        }
        cx.entries += 1;
        let path = format!("{name}!{}", file.name);
        skipped(cx, &path, "no stream has its data");
        outside(cx, &path, file, &[]);
    }
    taken.sort_unstable();
    let mut at = 0;
    for (begin, end) in taken.into_iter().chain([(bytes.len(), bytes.len())]) {
        let begin = begin.min(bytes.len());
        if begin.saturating_sub(at) > MAX_PADDING && bytes[at..begin].iter().any(|byte| *byte != 0) {
            super::contents(cx, &format!("{name}!at-{at}"), &bytes[at..begin], depth);
        }
        at = at.max(end);
    }
}

/// Reads the files of a folder; returns true when more may be read.
fn read_folder<'a>(
    cx: &mut Cx<'_>,
    name: &str,
    bytes: &[u8],
    (number, folder): (usize, &Folder),
    files: &mut impl Iterator<Item = &'a File>,
    depth: usize,
) -> bool {
    let packed = folder.packed.first().map_or(&[][..], |(begin, end)| clipped(bytes, *begin, *end));
    let left = cx.limits.unpacked_bytes.saturating_sub(cx.unpacked);
    let most = left.min(packed.len().saturating_mul(MAX_RATIO).max(1 << 20)) as u64;
    let mut stream = decoder(folder, packed, most);
    for (at, (size, sum)) in folder.pieces.iter().enumerate() {
        if !more(cx, name) {
            return false;
        }
        let file = if folder.unnamed { None } else { files.next() };
        let path = file
            .map_or_else(|| format!("{name}!stream-{number}-{at}"), |file| format!("{name}!{}", file.name));
        let mut target = Vec::new();
        match &mut stream {
            Err(why) => {
                cx.entries += 1;
                skipped(cx, &path, why);
            }
            Ok(stream) => {
                let mut piece = Piece::of(stream, *size, *sum);
                if file.is_some_and(File::is_link) {
                    // The next read returns the error again.
                    let _ = piece.by_ref().take(MAX_TARGET_LEN).read_to_end(&mut target);
                }
                entry(cx, &path, target.chain(&mut piece), packed.len(), depth);
                // The next piece begins after this one, however much of it was read.
                let _ = std::io::copy(&mut piece, &mut std::io::sink());
            }
        }
        if let Some(file) = file {
            outside(cx, &path, file, &target);
        }
    }
    true
}

fn skipped(cx: &mut Cx<'_>, path: &str, why: &str) {
    cx.note_part(path, "7z", PartState::Skipped(why.to_owned()));
}

/// Reports a name, a link target or a file type that reaches out of the destination folder.
fn outside(cx: &mut Cx<'_>, path: &str, file: &File, target: &[u8]) {
    if leads_out(file.name.as_bytes()) || leads_out(target) || file.is_device() {
        cx.note_part(path, "7z", PartState::Inert);
        cx.part_fact("archive.outside");
    }
}

fn clipped(bytes: &[u8], begin: usize, end: usize) -> &[u8] {
    bytes.get(begin..end.min(bytes.len())).unwrap_or(&[])
}

/// Unpacks a folder, up to `most` bytes; an unsupported method is an error with its name.
fn decoder<'a>(folder: &Folder, packed: &'a [u8], most: u64) -> Result<Box<dyn Read + 'a>, String> {
    let mut reader: Box<dyn Read + 'a> = Box::new(packed);
    let mut memory = 0;
    for (coder, size) in folder.chain()? {
        let size = size.min(most);
        reader = unpacker(coder, reader, size, &mut memory)?;
        reader = Box::new(Stage { from: reader, left: size, failed: None });
    }
    Ok(reader)
}

fn unpacker<'a>(
    coder: &Coder,
    from: Box<dyn Read + 'a>,
    size: u64,
    memory: &mut u64,
) -> Result<Box<dyn Read + 'a>, String> {
    let settings = coder.settings.as_slice();
    // References never go back beyond the start of the stream, so a larger dictionary is not needed.
    let mut window = |named: u64| {
        let window = u32::try_from(named.min(size.max(4096))).map_err(|error| error.to_string())?;
        *memory += u64::from(window);
        if *memory > u64::from(MAX_MEMORY_KIB) << 10 {
            Err("needs too much memory".to_owned())
        } else {
            Ok(window)
        }
    };
    Ok(match (coder.method, settings) {
        (0, _) => from,
        (0x21, [bits @ 0..=40]) => {
            let named = (2 | u64::from(bits & 1)) << (bits / 2 + 11);
            Box::new(Lzma2Reader::new(from, window(named)?, None))
        }
        (0x03_01_01, [model, dictionary @ ..]) if dictionary.len() == 4 => {
            let named = dictionary.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
            let reader = LzmaReader::new_with_props(from, size, *model, window(named)?, None);
            Box::new(reader.map_err(|error| format!("cannot be read: {error}"))?)
        }
        (0x04_01_08, _) => Box::new(flate2::read::DeflateDecoder::new(from)),
        (0x04_02_02, _) => Box::new(::bzip2::read::BzDecoder::new(from)),
        (3, [distance]) => Box::new(DeltaReader::new(from, usize::from(*distance) + 1)),
        (4 | 0x03_03_01_03, []) => Box::new(BcjReader::new_x86(from, 0)),
        (7 | 0x03_03_05_01, []) => Box::new(BcjReader::new_arm(from, 0)),
        (0xa, []) => Box::new(BcjReader::new_arm64(from, 0)),
        (method, _) => return Err(header::unread(method)),
    })
}

/// Output of a coder: it ends where the header says, and is not read again after an error; the LZMA2 decoder
/// would then loop forever.
struct Stage<'a> {
    from: Box<dyn Read + 'a>,
    left: u64,
    failed: Option<(ErrorKind, String)>,
}

impl Read for Stage<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if let Some((kind, why)) = &self.failed {
            return Err(Error::new(*kind, why.clone()));
        }
        let read = self.from.by_ref().take(self.left).read(out);
        match &read {
            Ok(count) => self.left -= *count as u64,
            Err(error) => self.failed = Some((error.kind(), error.to_string())),
        }
        read
    }
}

/// A file's piece of a stream: reading fails at its end if the stream is shorter, or the checksum differs.
struct Piece<'a, 'b> {
    stream: &'a mut Box<dyn Read + 'b>,
    left: u64,
    wanted: Option<u32>,
    sum: flate2::Crc,
}

impl<'a, 'b> Piece<'a, 'b> {
    fn of(stream: &'a mut Box<dyn Read + 'b>, left: u64, wanted: Option<u32>) -> Self {
        Piece { stream, left, wanted, sum: flate2::Crc::new() }
    }
}

impl Read for Piece<'_, '_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let most = out.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if self.left == 0 && self.wanted.is_some_and(|wanted| wanted != self.sum.sum()) {
            return Err(Error::new(ErrorKind::InvalidData, "its checksum is wrong"));
        }
        if most == 0 {
            return Ok(0);
        }
        let count = self.stream.read(&mut out[..most])?;
        if count == 0 {
            return Err(Error::new(ErrorKind::UnexpectedEof, "it ends early, or unpacks to too much"));
        }
        self.sum.update(&out[..count]);
        self.left -= count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
