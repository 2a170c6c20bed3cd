//! Archives: each entry is a part of its own, and a broken one never hides the others.

mod sevenz;
mod tar;
pub(super) mod zip;
mod zstd;

use crate::report::PartState;
use lzma_rust2::{LzmaReader, XzReader};
use std::io::Read;

use crate::context::Cx;

/// Maximum depth of nested archives.
pub(super) const MAX_ARCHIVE_DEPTH: usize = 8;
/// Maximum number of entries of all archives of an artifact together.
const MAX_ENTRIES: usize = 10_000;
/// Maximum compression ratio of an entry that unpacks to more than [`MIN_UNPACKED`].
const MAX_RATIO: usize = 200;
/// Size, in bytes, that any entry may unpack to: libraries in wheels are padded with zeros.
const MIN_UNPACKED: usize = 4 << 20;
/// Memory limit of a decoder, in KiB: dictionaries of any ordinary level; a header can claim four gigabytes.
const MAX_MEMORY_KIB: u32 = 80 << 10;
/// Minimum output, in bytes, of an lzma stream without the usual signature.
const MIN_LZMA_BYTES: u64 = 4096;

/// Reads the contents of an archive.
pub(super) fn read(cx: &mut Cx<'_>, name: &str, kind: &str, bytes: &[u8], depth: usize) {
    if depth >= MAX_ARCHIVE_DEPTH {
        cx.note_part(name, "archive", PartState::Skipped("archives in archives, too deep".to_owned()));
        return;
    }
    match kind {
        "zip" => zip::read(cx, name, bytes, 0, depth),
        "tar" => tar::read(cx, name, bytes, depth),
        "gzip" => stream(cx, name, flate2::read::MultiGzDecoder::new(bytes), bytes.len(), depth),
        "zlib" => stream(cx, name, flate2::read::ZlibDecoder::new(bytes), bytes.len(), depth),
        "bzip2" => stream(cx, name, ::bzip2::read::MultiBzDecoder::new(bytes), bytes.len(), depth),
        "xz" => stream(cx, name, XzReader::new_mem_limit(bytes, true, MAX_MEMORY_KIB), bytes.len(), depth),
        "lzma" => match LzmaReader::new_mem_limit(bytes, MAX_MEMORY_KIB, None) {
            Ok(reader) => stream(cx, name, reader, bytes.len(), depth),
            Err(error) => {
                cx.note_part(name, "lzma", PartState::Skipped(format!("cannot be read: {error}")));
            }
        },
        "7z" => sevenz::read(cx, name, bytes, depth),
        "zstd" => stream(cx, name, zstd::Frames::of(bytes), bytes.len(), depth),
        other => cx.note_part(name, "archive", PartState::Skipped(format!("{other} is not unpacked here"))),
    }
}

/// True for a bare zlib stream, as used for pickles: its two-byte signature is weak, so a piece has to
/// inflate.
pub(super) fn is_zlib(bytes: &[u8]) -> bool {
    bytes.len() > 8
        && bytes[0] == 0x78
        && u16::from_be_bytes([bytes[0], bytes[1]]).is_multiple_of(31)
        && flate2::read::ZlibDecoder::new(bytes).read(&mut [0; 64]).is_ok_and(|count| count > 0)
}

/// True for an lzma stream with unusual settings. The format has no magic number: the header has to be valid,
/// and the beginning has to unpack to text or to a known format.
pub(super) fn is_lzma(bytes: &[u8]) -> bool {
    let Some((header, _)) = bytes.split_first_chunk::<14>() else { return false };
    let size = &header[5..13];
    // Nine by five by five settings, an unknown size or one below 256 gigabytes, and a first byte that is
    // always zero.
    if header[0] >= 225 || header[13] != 0 || size != [0xff; 8] && (size[5..] != [0; 3] || size[4] >= 64) {
        return false;
    }
    let Ok(reader) = LzmaReader::new_mem_limit(bytes, MAX_MEMORY_KIB, None) else { return false };
    let mut begin = Vec::new();
    // A part of it is enough, as it is for a program that ignores the error.
    let _ = reader.take(MIN_LZMA_BYTES).read_to_end(&mut begin);
    begin.len() >= 4
        && begin.iter().any(|b| *b != 0)
        && !matches!(super::sniff::kind(&begin), super::sniff::Kind::Unknown)
}

/// A compressed file: its contents get its name without the extension.
fn stream(cx: &mut Cx<'_>, name: &str, reader: impl Read, packed: usize, depth: usize) {
    let base = crate::rules::basename(name);
    let inner =
        base.rsplit_once('.').map_or(base, |(stem, end)| if end == "tgz" { "content.tar" } else { stem });
    entry(cx, &format!("{name}!{inner}"), reader, packed, depth);
}

/// Reads an entry within the remaining limits.
fn entry(cx: &mut Cx<'_>, path: &str, reader: impl Read, packed: usize, depth: usize) {
    cx.entries += 1;
    let left = cx.limits.unpacked_bytes.saturating_sub(cx.unpacked);
    let most = left.min((packed.saturating_mul(MAX_RATIO)).max(MIN_UNPACKED));
    let mut bytes = Vec::new();
    let read = reader.take(most as u64 + 1).read_to_end(&mut bytes);
    cx.unpacked += bytes.len();
    let skipped = |cx: &mut Cx<'_>, why: String| cx.note_part(path, "archive", PartState::Skipped(why));
    match read {
        Err(error) => {
            skipped(cx, format!("cannot be unpacked: {error}"));
            // A program that ignores a wrong checksum gets these bytes.
            if !bytes.is_empty() {
                contents(cx, path, &bytes, depth);
            }
        }
        Ok(_) if bytes.len() > most => skipped(cx, "unpacks to too much".to_owned()),
        Ok(_) => contents(cx, path, &bytes, depth),
    }
}

/// Reads the bytes of an entry, or those between entries, as a file of its own.
fn contents(cx: &mut Cx<'_>, path: &str, bytes: &[u8], depth: usize) {
    cx.in_own_unit(|cx| super::read(cx, path, bytes, depth + 1));
}

/// True when more entries may be read; reports the limit once when not.
fn more(cx: &mut Cx<'_>, name: &str) -> bool {
    let full = cx.entries >= MAX_ENTRIES || cx.unpacked >= cx.limits.unpacked_bytes;
    if full || cx.late() {
        cx.note_part(name, "archive", PartState::Skipped("too much in archives".to_owned()));
        return false;
    }
    true
}

/// True when a name or a link's target is outside the destination folder, or conceals its place.
fn leads_out(name: &[u8]) -> bool {
    name.starts_with(b"/")
        || name.starts_with(b"\\")
        || name.contains(&0)
        || name.get(1) == Some(&b':')
        || name.split(|b| matches!(b, b'/' | b'\\')).any(|part| part == b"..")
}

#[cfg(test)]
mod tests;
