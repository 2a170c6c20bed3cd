//! Finds paths of a project that a protected name leads to, by an existing symbolic link or because git's
//! settings name them. A file at such a path runs as if it had the protected name.

mod git;
mod places;
mod words;

use std::io;
use std::path::{Path, PathBuf};

use crate::folder::{Folder, Kind};
use crate::protected::{Protection, folded, protected};
use crate::stack::MAX_FOLDER_DEPTH;
use places::Places as Found;

pub use places::{How, Lead, Places};

/// Maximum number of names of a project that are examined.
const MAX_NAMES: usize = 1 << 21;

/// Finds the targets of links with protected names, at any depth, and the paths named by the settings of
/// every repository that the project is, is in, or contains. What cannot be read protects every path that it
/// could lead to.
///
/// # Errors
/// When the project's own folder cannot be read.
pub fn linked(original: &Folder) -> io::Result<Places> {
    look(original, MAX_NAMES)
}

fn look(original: &Folder, most: usize) -> io::Result<Places> {
    let root = original.real_path()?;
    let mut found = Found::new(root.clone());
    for top in root.ancestors().skip(1) {
        git::repository(&mut found, top, &top.join(".git"));
    }
    let mut looked = 0;
    // Folders to examine, each with whether everything in it counts as protected by name.
    let mut todo = vec![(PathBuf::new(), false)];
    while let Some((folder, inside)) = todo.pop() {
        let at = root.join(&folder);
        let entries = match original.entries(&folder) {
            Ok(entries) => entries,
            Err(error) if folder.as_os_str().is_empty() => return Err(error),
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                found.unread(&at, &at, error.to_string());
                continue;
            }
        };
        looked += entries.len();
        if looked > most || folder.components().count() > MAX_FOLDER_DEPTH {
            let why = format!("more than {most} names, or folders nested deeper than {MAX_FOLDER_DEPTH}");
            found.unread(&root, &at, why);
            break;
        }
        if is_repository(&entries) {
            git::repository(&mut found, &at, &at);
        }
        for (name, kind) in entries {
            let path = folder.join(&name);
            if name.len() >= 4 && folded(&name.to_string_lossy()) == ".git" {
                git::repository(&mut found, &at, &root.join(&path));
                continue;
            }
            match kind {
                Kind::Folder => {
                    let inside = inside || leads(&path);
                    todo.push((path, inside));
                }
                Kind::Link if inside || leads(&path) => link(&mut found, &root.join(&path)),
                _ => {}
            }
        }
    }
    Ok(found)
}

/// Protects the target of a link. A link with an unknown hidden name that leads to a folder above itself is
/// exempt: it only shows the project again.
fn link(found: &mut Found, path: &Path) {
    let around = found.resolve(path).is_some_and(|resolved| path.starts_with(&resolved.place));
    let named = matches!(protected(&found.below(path)), Some(Protection::Named(_)));
    if !around || named {
        found.add_where(path, path, &How::Link);
    }
}

/// Whether the target of a link with this path is protected. Hidden folders of packages, such as
/// `node_modules/.bin`, are exempt: their links lead to packages, which are part of the project.
fn leads(path: &Path) -> bool {
    match protected(path) {
        Some(Protection::Named(_)) => true,
        Some(Protection::Hidden | Protection::Short) => {
            !path.components().any(|name| name.as_os_str() == "node_modules")
        }
        Some(Protection::Unseen) | None => false,
    }
}

/// Whether git would take a folder for a bare repository.
fn is_repository(entries: &[(std::ffi::OsString, Kind)]) -> bool {
    let has = |wanted: &str| entries.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
    has("HEAD") && (has("commondir") || has("objects") && has("refs"))
}

#[cfg(test)]
mod tests;
