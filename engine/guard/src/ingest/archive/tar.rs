//! tar: every entry with bytes is read as a file, whatever its type, and reading continues after the end
//! marker.

use super::{entry, leads_out, more};
use crate::context::Cx;
use crate::ingest::packed::is_tar_header;
use crate::report::PartState;

const BLOCK: usize = 512;

/// Reads an archive, and those after its end, like `tar --ignore-zeros`.
pub(super) fn read(cx: &mut Cx<'_>, name: &str, bytes: &[u8], depth: usize) {
    let mut rest = bytes;
    while let Some(left) = one(cx, name, rest, depth) {
        let Some(at) = left.chunks(BLOCK).position(|block| block.iter().any(|b| *b != 0)) else { return };
        let left = &left[at * BLOCK..];
        let next = left.chunks_exact(BLOCK).position(is_tar_header).map(|at| at * BLOCK);
        let behind = &left[..next.unwrap_or(left.len())];
        if !behind.is_empty() {
            if !more(cx, name) {
                return;
            }
            entry(cx, &format!("{name}!behind the end"), behind, behind.len(), depth);
        }
        let Some(next) = next else { return };
        rest = &left[next..];
    }
}

/// Reads up to the first end marker; returns the bytes after it, unless reading failed.
fn one<'a>(cx: &mut Cx<'_>, name: &str, bytes: &'a [u8], depth: usize) -> Option<&'a [u8]> {
    let mut archive = ::tar::Archive::new(bytes);
    let entries = match archive.entries() {
        Ok(entries) => entries,
        Err(error) => {
            cx.note_part(name, "tar", PartState::Skipped(format!("cannot be read: {error}")));
            return None;
        }
    };
    for file in entries {
        if !more(cx, name) {
            return None;
        }
        match file {
            Ok(file) => member(cx, name, file, depth),
            // After a broken header the next one cannot be found.
            Err(error) => {
                cx.note_part(name, "tar", PartState::Skipped(format!("broken: {error}")));
                return None;
            }
        }
    }
    Some(archive.into_inner())
}

fn member(cx: &mut Cx<'_>, name: &str, file: ::tar::Entry<'_, &[u8]>, depth: usize) {
    let own = file.path_bytes().into_owned();
    let path = format!("{name}!{}", String::from_utf8_lossy(&own));
    let link = file.link_name_bytes().is_some_and(|link| leads_out(&link));
    let kind = file.header().entry_type();
    let device = kind.is_character_special() || kind.is_block_special();
    if leads_out(&own) || link || device {
        cx.note_part(&path, "tar", PartState::Inert);
        cx.part_fact("archive.outside");
    }
    // For folders, links and devices some programs skip the bytes, others read them as files or as the next
    // header; all programs read unknown types as files.
    let is_data = kind.is_dir() || kind.is_symlink() || kind.is_hard_link() || kind.is_fifo() || device;
    if kind.is_gnu_sparse() {
        cx.note_part(&path, "tar", PartState::Skipped("a sparse file".to_owned()));
    } else if !kind.is_pax_global_extensions() && (!is_data || file.size() > 0) {
        // A tar contains its files uncompressed.
        let size = usize::try_from(file.size()).unwrap_or(usize::MAX);
        entry(cx, &path, file, size, depth);
    }
}
