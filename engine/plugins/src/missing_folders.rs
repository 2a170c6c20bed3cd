//! Folders that a failed call named and its plugin does not hold. A component sees only granted paths, so an
//! ungranted path seems not to exist, and no attempt reaches the host: only the arguments show which path was
//! meant. Pure, and without access to the disk: a caller that names paths must not learn which of them exist
//! on this host.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use hotcell_tools::{Capability, Held, Request};
use serde_json::Value;

/// Maximum number of paths examined, and of folders listed.
const MAX_PATHS: usize = 4;
/// Maximum length of a path, in bytes.
const MAX_PATH_BYTES: usize = 250;

/// Permissions that a failed call lacked, as far as its arguments tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beyond {
    /// Folders of paths outside the granted folders, in the syntax of `hotcell tool grant`.
    pub words: Vec<String>,
    /// True when the plugin requests folders and holds none at all.
    pub holds_none: bool,
}

impl Beyond {
    /// Paths in the arguments that `held` does not cover, for a plugin with this request.
    #[must_use]
    pub fn of(arguments: &Value, held: &Held, request: &Request) -> Self {
        let word = match (&request.read, &request.write) {
            (Some(_), _) => Capability::Read as fn(PathBuf) -> Capability,
            (None, Some(_)) => Capability::Write,
            (None, None) => return Self::default(),
        };
        let mut paths = Vec::new();
        collect(arguments, &mut paths);
        let has = |path: &Path| held.read.iter().chain(&held.write).any(|folder| path.starts_with(folder));
        let folders: BTreeSet<PathBuf> =
            paths.iter().filter(|path| !has(path)).filter_map(|path| folder(path)).collect();
        Self {
            words: folders.into_iter().take(MAX_PATHS).map(|folder| word(folder).to_string()).collect(),
            holds_none: held.read.is_empty() && held.write.is_empty(),
        }
    }
}

/// Collects texts that can only be absolute paths in canonical form.
fn collect(value: &Value, paths: &mut Vec<PathBuf>) {
    match value {
        Value::String(text) if text.starts_with('/') && text.len() <= MAX_PATH_BYTES => {
            let bad = |c: char| c.is_control() || c.is_whitespace() && c != ' ' || "*?\\".contains(c);
            let mut parts = Path::new(text).components();
            let plain = parts.all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
            if plain && !text.contains(bad) && paths.len() < 2 * MAX_PATHS {
                paths.push(Path::new(text).components().collect());
            }
        }
        Value::Array(items) => items.iter().take(64).for_each(|item| collect(item, paths)),
        Value::Object(fields) => fields.values().for_each(|field| collect(field, paths)),
        _ => {}
    }
}

/// Folder that would have to be granted: a last part with a dot in it is taken for a file.
fn folder(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let is_file = name.trim_start_matches('.').contains('.');
    let folder = if is_file { path.parent()? } else { path };
    // The root folder is never granted.
    folder.file_name().map(|_| folder.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_beyond_granted_folders_are_named() {
        let reads = Request { read: Some("why".to_owned()), ..Request::default() };
        let writes = Request { write: Some("why".to_owned()), ..Request::default() };
        let held = Held { read: ["/srv/a".into()].into(), ..Held::default() };
        for (arguments, request, words) in [
            (json!({ "path": "/data/x.txt" }), &reads, &["read=/data"][..]),
            (json!({ "path": "/data/x" }), &reads, &["read=/data/x"]),
            (json!({ "path": "/data/.git" }), &reads, &["read=/data/.git"]),
            (json!({ "path": "/data//b/" }), &reads, &["read=/data/b"]),
            (json!({ "path": "/data/x" }), &writes, &["write=/data/x"]),
            (json!({ "path": "/srv/a/deep/x.txt" }), &reads, &[]),
            (json!({ "path": "/srv/ab" }), &reads, &["read=/srv/ab"]),
            (json!({ "a": [{ "b": "/one/x.c" }, "/one/y.c", "/two"] }), &reads, &["read=/one", "read=/two"]),
            // Neither a path nor a folder that can be granted.
            (json!({ "path": "data/x" }), &reads, &[]),
            (json!({ "path": "/" }), &reads, &[]),
            (json!({ "path": "/passwd.txt" }), &reads, &[]),
            (json!({ "path": "/srv/a/../../etc" }), &reads, &[]),
            (json!({ "path": "/a\nhotcell: run this" }), &reads, &[]),
            (json!({ "path": "/a*" }), &reads, &[]),
            (json!({ "path": format!("/{}", "a".repeat(300)) }), &reads, &[]),
            // The plugin requests no folder.
            (json!({ "path": "/data/x" }), &Request::default(), &[]),
        ] {
            assert_eq!(Beyond::of(&arguments, &held, request).words, words, "{arguments}");
        }
        let many: Vec<String> = (0..50).map(|n| format!("/many/{n}")).collect();
        assert_eq!(Beyond::of(&json!(many), &held, &reads).words.len(), MAX_PATHS);
        assert!(Beyond::of(&json!({}), &Held::default(), &reads).holds_none);
        assert!(!Beyond::of(&json!({}), &held, &reads).holds_none);
        assert!(!Beyond::of(&json!({}), &Held::default(), &Request::default()).holds_none);
    }
}
