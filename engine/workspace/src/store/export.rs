//! Exports a view as a tar archive or as plain files.

use std::io::{self, Read, Write};
use std::path::Path;

use super::{MAX_PATHS, Quota};
use crate::folder::{Folder, Kind};
use crate::stack::Stack;

/// Writes a view as a tar archive: files, folders, and links as links.
pub(super) fn tar(view: &Stack<'_>, to: impl Write) -> io::Result<()> {
    let mut archive = tar::Builder::new(to);
    for (path, node) in view.walk(Path::new(""), MAX_PATHS)? {
        let mut header = tar::Header::new_gnu();
        header.set_mode(node.mode & 0o777);
        header.set_mtime(u64::try_from(node.changed.0).unwrap_or(0));
        header.set_size(0);
        match node.kind {
            Kind::File => {
                header.set_size(node.bytes);
                header.set_entry_type(tar::EntryType::Regular);
                archive.append_data(&mut header, &path, view.file(&path)?)?;
            }
            Kind::Folder => {
                header.set_entry_type(tar::EntryType::Directory);
                archive.append_data(&mut header, &path, io::empty())?;
            }
            Kind::Link => {
                header.set_entry_type(tar::EntryType::Symlink);
                archive.append_link(&mut header, &path, view.link(&path)?)?;
            }
            Kind::Whiteout | Kind::Special => {}
        }
    }
    archive.into_inner()?.flush()
}

/// Writes a view into an empty folder, within the limits of `most`.
pub(super) fn plain(view: &Stack<'_>, to: &Folder, most: Quota) -> io::Result<()> {
    let full = |what: u64, unit: &str| {
        io::Error::new(io::ErrorKind::QuotaExceeded, format!("it has more than {what} {unit}"))
    };
    let entries = usize::try_from(most.files).unwrap_or(usize::MAX);
    let all = view.walk(Path::new(""), entries.min(MAX_PATHS))?;
    let mut room = most.bytes;
    let mut modes = Vec::new();
    for (path, node) in &all {
        match node.kind {
            Kind::Folder => {
                to.make(path, 0o700)?;
                // The owner of the copy has to be able to remove it.
                modes.push((path, node.mode | 0o700));
            }
            Kind::File => {
                let mut target = to.create(path)?;
                // The file may grow while it is read.
                let mut source = view.file(path)?.take(room.saturating_add(1));
                let copied = io::copy(&mut source, &mut target)?;
                room = room.checked_sub(copied).ok_or_else(|| full(most.bytes, "bytes"))?;
                to.set_mode(path, node.mode)?;
            }
            Kind::Link => to.make_link(path, &view.link(path)?)?,
            Kind::Whiteout | Kind::Special => {}
        }
    }
    modes.iter().rev().try_for_each(|(path, mode)| to.set_mode(path, *mode))
}
