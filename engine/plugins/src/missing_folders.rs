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
/// Maximum number of elements of a list that are examined.
const MAX_ITEMS: usize = 64;
/// Maximum length of a path, in bytes.
const MAX_PATH_BYTES: usize = 250;

/// Permissions that a failed call lacked, as far as its arguments tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beyond {
    /// Folders of paths outside the granted folders, in the syntax of `hotcell tool grant`.
    pub words: Vec<String>,
    /// Folders of paths that are granted for reading only, as grants for writing, for a plugin that requests
    /// both.
    pub writes: Vec<String>,
    /// True when the plugin requests folders and holds none at all, and the arguments may name a file.
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
        let within = |path: &Path, folders: &BTreeSet<PathBuf>| folders.iter().any(|f| path.starts_with(f));
        let (mut missing, mut read_only) = (BTreeSet::new(), BTreeSet::new());
        for named in &paths {
            let to = match (within(&named.path, &held.read), within(&named.path, &held.write)) {
                (_, true) => continue,
                (true, false) if request.write.is_some() => &mut read_only,
                (true, false) => continue,
                (false, false) => &mut missing,
            };
            to.extend(named.folder());
        }
        let words = |folders: BTreeSet<PathBuf>, word: fn(PathBuf) -> Capability| {
            folders.into_iter().take(MAX_PATHS).map(|folder| word(folder).to_string()).collect()
        };
        let nothing_named = arguments.as_object().is_none_or(serde_json::Map::is_empty);
        Self {
            words: words(missing, word),
            writes: words(read_only, Capability::Write),
            holds_none: held.read.is_empty()
                && held.write.is_empty()
                && (nothing_named || may_name_file(arguments)),
        }
    }
}

/// A path among the arguments.
struct Named {
    path: PathBuf,
    /// Whether the path ends with a slash.
    is_folder: bool,
}

/// Whether a text among the arguments could be the name of a file. A call without such a text fails for
/// another reason than a missing folder.
fn may_name_file(value: &Value) -> bool {
    match value {
        Value::String(text) => {
            let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
            let is_words = text.contains(char::is_whitespace) && !text.contains(['/', '.']);
            text.len() <= MAX_PATH_BYTES && !text.contains(char::is_control) && !is_number && !is_words
        }
        Value::Array(items) => items.iter().take(MAX_ITEMS).any(may_name_file),
        Value::Object(fields) => fields.values().any(may_name_file),
        _ => false,
    }
}

/// Collects texts that can only be absolute paths in canonical form.
fn collect(value: &Value, paths: &mut Vec<Named>) {
    match value {
        Value::String(text) if text.starts_with('/') && text.len() <= MAX_PATH_BYTES => {
            let bad = |c: char| c.is_control() || c.is_whitespace() && c != ' ' || "*?\\".contains(c);
            let mut parts = Path::new(text).components();
            let plain = parts.all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
            if plain && !text.contains(bad) && paths.len() < 2 * MAX_PATHS {
                let path = Path::new(text).components().collect();
                paths.push(Named { path, is_folder: text.ends_with('/') });
            }
        }
        Value::Array(items) => items.iter().take(MAX_ITEMS).for_each(|item| collect(item, paths)),
        Value::Object(fields) => fields.values().for_each(|field| collect(field, paths)),
        _ => {}
    }
}

impl Named {
    /// Folder that would have to be granted: without the last part, if that looks like the name of a file. The
    /// root folder is never granted.
    fn folder(&self) -> Option<PathBuf> {
        let name = self.path.file_name()?.to_str()?;
        let is_file = !self.is_folder && is_file_name(name);
        let folder = if is_file { self.path.parent()? } else { &self.path };
        folder.file_name().map(|_| folder.to_owned())
    }
}

/// Whether a name is rather that of a file than of a folder: `a.txt`, `.env`, `.gitignore`, `.bashrc`,
/// `Makefile`, `LICENSE`.
fn is_file_name(name: &str) -> bool {
    const HIDDEN_ENDS: [&str; 5] = ["env", "rc", "ignore", "attributes", "file"];
    let letters = |letter: char| letter.is_ascii_uppercase() || letter == '_';
    match name.strip_prefix('.') {
        Some(rest) => rest.contains('.') || HIDDEN_ENDS.iter().any(|end| rest.ends_with(end)),
        None => name.contains('.') || name.ends_with("file") || name.len() > 3 && name.chars().all(letters),
    }
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
            (json!({ "path": "/data/.config" }), &reads, &["read=/data/.config"]),
            (json!({ "path": "/data/v1.2/" }), &reads, &["read=/data/v1.2"]),
            (json!({ "path": "/data/Makefile" }), &reads, &["read=/data"]),
            (json!({ "path": "/data/LICENSE" }), &reads, &["read=/data"]),
            (json!({ "path": "/data/Documents" }), &reads, &["read=/data/Documents"]),
            (json!({ "path": "/data/SRC" }), &reads, &["read=/data/SRC"]),
            (json!({ "path": "/data/.env" }), &reads, &["read=/data"]),
            (json!({ "path": "/data/.gitignore" }), &reads, &["read=/data"]),
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
        let both = Request { write: Some("why".to_owned()), ..reads.clone() };
        let writes = Held { write: ["/srv/b".into()].into(), ..held.clone() };
        for (path, request, words) in [
            ("/srv/a/x.txt", &both, &["write=/srv/a"][..]),
            ("/srv/a/deep/", &both, &["write=/srv/a/deep"]),
            ("/srv/b/x.txt", &both, &[]),
            ("/data/x.txt", &both, &[]),
            ("/srv/a/x.txt", &reads, &[]),
        ] {
            assert_eq!(Beyond::of(&json!({ "path": path }), &writes, request).writes, words, "{path}");
        }
    }

    #[test]
    fn missing_grant_is_told_only_if_call_may_name_file() {
        let reads = Request { read: Some("why".to_owned()), ..Request::default() };
        let held = Held { read: ["/srv/a".into()].into(), ..Held::default() };
        for (arguments, told) in [
            (json!({}), true),
            (json!({ "path": "notes" }), true),
            (json!({ "path": "my notes.txt" }), true),
            (json!({ "all": [{ "at": "a/b" }] }), true),
            (json!({ "a": 1, "b": 0 }), false),
            (json!({ "n": "10000000" }), false),
            (json!({ "text": "two words" }), false),
            (json!({ "text": "several\nlines." }), false),
            (json!({ "text": format!("{}.", "a".repeat(300)) }), false),
        ] {
            assert_eq!(Beyond::of(&arguments, &Held::default(), &reads).holds_none, told, "{arguments}");
            assert!(!Beyond::of(&arguments, &held, &reads).holds_none);
            assert!(!Beyond::of(&arguments, &Held::default(), &Request::default()).holds_none);
        }
    }
}
