//! Adds the changes of a run to a workspace that others may have changed since the run began.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use crate::changes::Change;
use crate::folder::{Kind, ancestors, same_bytes};
use crate::stack::Stack;

/// Paths that a run changed and that differ now from the state at the run's start.
///
/// # Errors
/// When a view cannot be read.
pub(super) fn moved(
    start: &Stack<'_>,
    now: &Stack<'_>,
    found: &[Change],
    most: usize,
) -> io::Result<Vec<PathBuf>> {
    let mut all = BTreeSet::new();
    let mut folders = BTreeSet::new();
    for change in found {
        // Two runs may make the same folder.
        let both_folders = change.before.is_none()
            && change.after.is_some_and(|node| node.kind == Kind::Folder)
            && now.node(&change.path)?.is_some_and(|node| node.kind == Kind::Folder);
        if !both_folders && !same(start, now, &change.path)? {
            all.insert(change.path.clone());
        }
        let is_folder = |node: Option<crate::folder::Node>| node.is_some_and(|n| n.kind == Kind::Folder);
        if is_folder(change.before) && !is_folder(change.after) && is_folder(now.node(&change.path)?) {
            // Entries that the run never saw would be deleted with the folder.
            for (path, _) in now.walk(&change.path, most)? {
                if start.node(&path)?.is_none() {
                    all.insert(path);
                }
            }
        }
        folders.extend(ancestors(change.path.parent().unwrap_or(Path::new(""))));
    }
    // Each parent of a changed path has to be a folder now exactly if it was one.
    for folder in folders {
        let was = start.node(&folder)?.is_some_and(|node| node.kind == Kind::Folder);
        let is = now.node(&folder)?;
        if was && is.is_none_or(|node| node.kind != Kind::Folder)
            || !was && is.is_some_and(|node| node.kind != Kind::Folder)
        {
            all.insert(folder);
        }
    }
    Ok(all.into_iter().collect())
}

/// Whether two views show the same entry at a path; for folders only the mode is compared.
fn same(one: &Stack<'_>, other: &Stack<'_>, path: &Path) -> io::Result<bool> {
    Ok(match (one.find(path)?, other.find(path)?) {
        (None, None) => true,
        (Some((a, from)), Some((b, to))) => {
            a.kind == b.kind
                && a.mode & 0o777 == b.mode & 0o777
                && match a.kind {
                    // Both entries are the source's own; a commit detects changes there.
                    Kind::File if from.whole && to.whole => true,
                    Kind::File => {
                        a.bytes == b.bytes && same_bytes(from.folder.file(path)?, to.folder.file(path)?)?
                    }
                    Kind::Link => from.folder.link(path)? == to.folder.link(path)?,
                    _ => true,
                }
        }
        _ => false,
    })
}
