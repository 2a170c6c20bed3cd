//! Archives: each entry is a part of its own, and a bad one never hides the others.

mod sevenz;
pub(super) mod zip;
mod zstd;

use crate::report::PartState;
use crate::scan::Cx;
use lzma_rust2::{LzmaReader, XzReader};
use std::io::Read;

/// How deep archives in archives are followed.
pub(super) const DEPTH: usize = 8;
/// Entries of all archives of an artifact together.
const ENTRIES: usize = 10_000;
/// What one entry may unpack to, in bytes for each packed one, once it is above a mebibyte.
const RATIO: usize = 200;
/// What a decoder may ask for, in KiB: dictionaries of any ordinary level; a header can name four gigabytes.
const MEMORY: u32 = 80 << 10;

/// Reads what is in an archive.
pub(super) fn read(cx: &mut Cx<'_>, name: &str, kind: &str, bytes: &[u8], depth: usize) {
    if depth >= DEPTH {
        cx.note_part(name, "archive", PartState::Skipped("archives in archives, too deep".to_owned()));
        return;
    }
    match kind {
        "zip" => zip::read(cx, name, bytes, 0, depth),
        "tar" => tar(cx, name, bytes, depth),
        "gzip" => stream(cx, name, flate2::read::MultiGzDecoder::new(bytes), bytes.len(), depth),
        "zlib" => stream(cx, name, flate2::read::ZlibDecoder::new(bytes), bytes.len(), depth),
        "bzip2" => stream(cx, name, ::bzip2::read::MultiBzDecoder::new(bytes), bytes.len(), depth),
        "xz" => stream(cx, name, XzReader::new_mem_limit(bytes, true, MEMORY), bytes.len(), depth),
        "lzma" => match LzmaReader::new_mem_limit(bytes, MEMORY, None) {
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

/// Whether this is a bare zlib stream, as pickles are kept in: its two bytes are a weak mark, so a piece has to inflate.
pub(super) fn is_zlib(bytes: &[u8]) -> bool {
    bytes.len() > 8
        && bytes[0] == 0x78
        && u16::from_be_bytes([bytes[0], bytes[1]]).is_multiple_of(31)
        && flate2::read::ZlibDecoder::new(bytes).read(&mut [0; 64]).is_ok_and(|count| count > 0)
}

/// A compressed file: what is in it has its name without the ending.
fn stream(cx: &mut Cx<'_>, name: &str, reader: impl Read, packed: usize, depth: usize) {
    let base = crate::rules::basename(name);
    let inner =
        base.rsplit_once('.').map_or(base, |(stem, end)| if end == "tgz" { "content.tar" } else { stem });
    entry(cx, &format!("{name}!{inner}"), reader, packed, depth);
}

/// Reads an entry within what is left of the limits.
fn entry(cx: &mut Cx<'_>, path: &str, reader: impl Read, packed: usize, depth: usize) {
    cx.entries += 1;
    let left = cx.limits.unpacked_bytes.saturating_sub(cx.unpacked);
    let most = left.min((packed.saturating_mul(RATIO)).max(1 << 20));
    let mut bytes = Vec::new();
    let read = reader.take(most as u64 + 1).read_to_end(&mut bytes);
    cx.unpacked += bytes.len();
    let skipped = |cx: &mut Cx<'_>, why: String| cx.note_part(path, "archive", PartState::Skipped(why));
    match read {
        Err(error) => {
            skipped(cx, format!("cannot be unpacked: {error}"));
            // Whoever ignores a wrong checksum has this much.
            if !bytes.is_empty() {
                super::read(cx, path, &bytes, depth + 1);
            }
        }
        Ok(_) if bytes.len() > most => skipped(cx, "unpacks to too much".to_owned()),
        Ok(_) => super::read(cx, path, &bytes, depth + 1),
    }
}

/// Whether more entries may be read; says so once when not.
fn more(cx: &mut Cx<'_>, name: &str) -> bool {
    let full = cx.entries >= ENTRIES || cx.unpacked >= cx.limits.unpacked_bytes;
    if full || cx.late() {
        cx.note_part(name, "archive", PartState::Skipped("too much in archives".to_owned()));
        return false;
    }
    true
}

fn tar(cx: &mut Cx<'_>, name: &str, bytes: &[u8], depth: usize) {
    let mut archive = ::tar::Archive::new(bytes);
    let entries = match archive.entries() {
        Ok(entries) => entries,
        Err(error) => {
            cx.note_part(name, "tar", PartState::Skipped(format!("cannot be read: {error}")));
            return;
        }
    };
    for file in entries {
        if !more(cx, name) {
            return;
        }
        match file {
            Ok(file) => {
                let own = file.path_bytes().into_owned();
                let path = format!("{name}!{}", String::from_utf8_lossy(&own));
                let link = file.link_name_bytes().is_some_and(|link| leads_out(&link));
                let kind = file.header().entry_type();
                let device = kind.is_character_special() || kind.is_block_special();
                if leads_out(&own) || link || device {
                    cx.note_part(&path, "tar", PartState::Inert);
                    cx.part_fact("archive.outside");
                }
                if kind.is_file() || kind.is_contiguous() {
                    // A tar holds its files as they are.
                    let size = usize::try_from(file.size()).unwrap_or(usize::MAX);
                    entry(cx, &path, file, size, depth);
                } else if kind.is_gnu_sparse() {
                    cx.note_part(&path, "tar", PartState::Skipped("a sparse file".to_owned()));
                }
            }
            // After a broken header there is no next one.
            Err(error) => {
                cx.note_part(name, "tar", PartState::Skipped(format!("broken: {error}")));
                return;
            }
        }
    }
}

/// Whether a name or a link's target lies outside of the folder that it is unpacked to, or hides where it lies.
fn leads_out(name: &[u8]) -> bool {
    name.starts_with(b"/")
        || name.starts_with(b"\\")
        || name.contains(&0)
        || name.get(1) == Some(&b':')
        || name.split(|b| matches!(b, b'/' | b'\\')).any(|part| part == b"..")
}

#[cfg(test)]
mod tests;
