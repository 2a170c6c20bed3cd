//! zip: entries of the directory, and data between them: programs that use the directory and programs that
//! read sequentially may see different files, and both views are scanned.

use super::{entry, leads_out, more};
use crate::report::PartState;
use ::zip::ZipArchive;
use std::collections::HashSet;
use std::io::Cursor;

use crate::context::Cx;

const LOCAL: &[u8] = b"PK\x03\x04";
const CENTRAL: &[u8] = b"PK\x01\x02";
const END: &[u8] = b"PK\x05\x06";
/// Maximum padding and descriptors between entries that are ignored.
const MAX_PADDING: usize = 32;
/// Maximum distance of the end record from the end: its own length and the longest comment.
const TAIL_LEN: usize = 22 + 65_535;

/// True when an end record is where programs search for it.
pub(in crate::ingest) fn has_end(bytes: &[u8]) -> bool {
    find(&bytes[bytes.len().saturating_sub(TAIL_LEN)..], END).is_some()
}

/// Start of a zip that is appended to something else: interpreters run such a file as the archive.
pub(in crate::ingest) fn appended(bytes: &[u8]) -> Option<usize> {
    let tail = &bytes[bytes.len().saturating_sub(TAIL_LEN)..];
    find(tail, END)?;
    let mut archive = ZipArchive::new(Cursor::new(bytes)).ok()?;
    let starts = (0..archive.len().min(super::MAX_ENTRIES))
        .filter_map(|at| archive.by_index_raw(at).ok().map(|file| file.header_start()));
    usize::try_from(starts.min()?).ok().filter(|begin| *begin > 0)
}

/// Reads an archive; bytes before `from` are read by the caller.
pub(in crate::ingest) fn read(cx: &mut Cx<'_>, name: &str, bytes: &[u8], from: usize, depth: usize) {
    let mut archive = match ZipArchive::new(Cursor::new(bytes)) {
        Ok(archive) => archive,
        Err(error) => {
            cx.note_part(name, "zip", PartState::Skipped(format!("cannot be read: {error}")));
            return between(cx, name, bytes, from, &[], depth);
        }
    };
    let mut taken: Vec<(usize, usize)> = Vec::new();
    let directory = usize::try_from(archive.central_directory_start()).unwrap_or(usize::MAX);
    let (end, records) = directory_end(bytes, directory);
    taken.push((directory.min(end), end));
    let mut names = HashSet::new();
    // Names are compared case-insensitively: many file systems would treat them as one file.
    let repeated = records.iter().any(|own| !names.insert(own.to_ascii_lowercase()));
    if repeated {
        told(cx, name, "zip.disagrees");
    }
    for at in 0..archive.len() {
        if !more(cx, name) {
            return;
        }
        let mut place = None;
        if let Ok(raw) = archive.by_index_raw(at) {
            let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
            let (begin, central) = (number(raw.header_start()), number(raw.central_header_start()));
            let data = raw.data_start().map_or(begin, number);
            place = Some((begin, central));
            taken.push((begin, data.saturating_add(number(raw.compressed_size()))));
        }
        let local = place.and_then(|(begin, central)| {
            let own = local_name(bytes, begin)?;
            (!agrees(bytes, begin, central)).then(|| String::from_utf8_lossy(own).into_owned())
        });
        match archive.by_index(at) {
            Ok(file) if file.is_dir() && file.size() == 0 => {}
            Ok(file) => {
                let raw = file.name_raw().to_vec();
                let own = file.name().map_or_else(|_| at.to_string(), std::borrow::Cow::into_owned);
                let path = format!("{name}!{own}");
                let packed = usize::try_from(file.compressed_size()).unwrap_or(usize::MAX);
                entry(cx, &path, file, packed, depth);
                if leads_out(&raw) {
                    told(cx, &path, "archive.outside");
                }
            }
            Err(error) => {
                cx.entries += 1;
                cx.note_part(
                    &format!("{name}!{at}"),
                    "zip",
                    PartState::Skipped(format!("cannot be read: {error}")),
                );
            }
        }
        if let (Some(own), Some((begin, _))) = (local, place) {
            told(cx, &format!("{name}!{own}"), "zip.disagrees");
            by_local(cx, name, bytes, begin, bytes.len(), depth);
        }
    }
    taken.sort_unstable();
    between(cx, name, bytes, from, &taken, depth);
}

fn told(cx: &mut Cx<'_>, path: &str, fact: &str) {
    cx.note_part(path, "zip", PartState::Inert);
    cx.part_fact(fact);
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

fn number(bytes: &[u8], at: usize, width: usize) -> Option<usize> {
    let field = bytes.get(at..at.checked_add(width)?)?;
    Some(field.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
}

fn local_name(bytes: &[u8], begin: usize) -> Option<&[u8]> {
    let size = number(bytes, begin.checked_add(26)?, 2)?;
    bytes.get(begin..)?.starts_with(LOCAL).then(|| bytes.get(begin + 30..begin + 30 + size))?
}

/// End of the directory's records, and their names.
fn directory_end(bytes: &[u8], begin: usize) -> (usize, Vec<&[u8]>) {
    let mut at = begin.min(bytes.len());
    let mut names = Vec::new();
    while bytes[at..].starts_with(CENTRAL) && names.len() <= super::MAX_ENTRIES {
        let sizes = [28, 30, 32].map(|field| number(bytes, at + field, 2));
        let [Some(name), Some(extra), Some(comment)] = sizes else { break };
        let Some(own) = bytes.get(at + 46..at + 46 + name) else { break };
        names.push(own);
        at = (at + 46 + name + extra + comment).min(bytes.len());
    }
    (at, names)
}

/// True when an entry's own header matches the directory: name, method, encryption, and sizes if it has them.
fn agrees(bytes: &[u8], local: usize, central: usize) -> bool {
    let name = number(bytes, central + 28, 2).and_then(|size| bytes.get(central + 46..central + 46 + size));
    let field = |own: usize, other: usize, width: usize| {
        number(bytes, local + own, width).zip(number(bytes, central + other, width))
    };
    let same = |pair: Option<(usize, usize)>| pair.is_none_or(|(a, b)| a == b);
    let large = |pair: Option<(usize, usize)>| pair.is_some_and(|(a, b)| a.max(b) == 0xffff_ffff);
    let flags = field(6, 8, 2);
    // Sizes may follow the data instead.
    let later = flags.is_some_and(|(own, _)| own & 8 != 0);
    name == local_name(bytes, local)
        && same(field(8, 10, 2))
        && same(flags.map(|(a, b)| (a & 1, b & 1)))
        && (later
            || [(14, 16), (18, 20), (22, 24)]
                .iter()
                .all(|(a, b)| same(field(*a, *b, 4)) || large(field(*a, *b, 4))))
}

/// Reads an entry as its own header describes it; returns the end of its data, if known.
fn by_local(
    cx: &mut Cx<'_>,
    name: &str,
    bytes: &[u8],
    begin: usize,
    end: usize,
    depth: usize,
) -> Option<usize> {
    let own = String::from_utf8_lossy(local_name(bytes, begin)?).into_owned();
    let extra = number(bytes, begin + 28, 2)?;
    let (flags, method, size) =
        (number(bytes, begin + 6, 2)?, number(bytes, begin + 8, 2)?, number(bytes, begin + 18, 4)?);
    let data = begin + 30 + number(bytes, begin + 26, 2)? + extra;
    let known = flags & 8 == 0 && data.saturating_add(size) <= end;
    let until = if known { data + size } else { end };
    let body = bytes.get(data..until)?;
    let path = format!("{name}!{own}");
    match method {
        _ if flags & 1 != 0 => cx.note_part(&path, "zip", PartState::Skipped("encrypted".to_owned())),
        0 => entry(cx, &path, body, body.len(), depth),
        8 => entry(cx, &path, flate2::read::DeflateDecoder::new(body), body.len(), depth),
        _ => cx.note_part(&path, "zip", PartState::Skipped(format!("method {method} is not unpacked here"))),
    }
    Some(if known { until } else { data })
}

/// Reads data before, between and after the entries: entries missing from the directory, and other files.
fn between(cx: &mut Cx<'_>, name: &str, bytes: &[u8], from: usize, taken: &[(usize, usize)], depth: usize) {
    let mut at = from;
    for (begin, end) in taken.iter().copied().chain([(bytes.len(), bytes.len())]) {
        if begin.saturating_sub(at) > MAX_PADDING {
            gap(cx, name, bytes, (at, begin.min(bytes.len())), depth);
        }
        at = at.max(end);
    }
}

fn gap(cx: &mut Cx<'_>, name: &str, bytes: &[u8], (begin, end): (usize, usize), depth: usize) {
    let mut at = begin;
    let mut entries = false;
    while let Some(next) = bytes.get(at..end).and_then(|rest| find(rest, LOCAL)) {
        if !more(cx, name) {
            return;
        }
        let local = at + next;
        let Some(own) = local_name(&bytes[..end], local) else {
            at = local + 4;
            continue;
        };
        entries = true;
        told(cx, &format!("{name}!{}", String::from_utf8_lossy(own)), "zip.disagrees");
        at = by_local(cx, name, bytes, local, end, depth).unwrap_or(local + 4).max(local + 4);
    }
    let rest = &bytes[begin..end];
    // The end record, with its comment.
    let rest = if rest.starts_with(END) { rest.get(22..).unwrap_or(&[]) } else { rest };
    if !entries && rest.len() > MAX_PADDING && rest.iter().any(|b| *b != 0) {
        super::contents(cx, &format!("{name}!at-{begin}"), rest, depth);
    }
}
