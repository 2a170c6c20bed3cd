//! Walks folders.

use std::fs;
use std::path::Path;

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    File,
    Folder,
    Link,
    Other,
}

/// An entry of a folder, with its path relative to the requested folder.
#[derive(Debug, PartialEq)]
pub struct Entry {
    pub path: String,
    pub kind: Kind,
    pub size: Option<u64>,
}

/// Walks a folder in the order of names, `depth` levels deep, until `visit` returns false. Returns whether it
/// reached the end. Skips entries below the top that cannot be read.
pub fn walk(
    top: &Path,
    below: &str,
    depth: u32,
    visit: &mut dyn FnMut(Entry, &Path) -> bool,
    enter: &dyn Fn(&str) -> bool,
) -> Result<bool, String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(top).map_err(|e| format!("{}: {e}", top.display()))? {
        let entry = entry.map_err(|e| format!("{}: {e}", top.display()))?;
        // A name that is not UTF-8 cannot be part of an answer either.
        if let Ok(name) = entry.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort_unstable();
    for name in names {
        let full = top.join(&name);
        let Ok(meta) = fs::symlink_metadata(&full) else { continue };
        let kind = match meta.file_type() {
            t if t.is_file() => Kind::File,
            t if t.is_dir() => Kind::Folder,
            t if t.is_symlink() => Kind::Link,
            _ => Kind::Other,
        };
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        let size = (kind == Kind::File).then_some(meta.len());
        if !visit(Entry { path: path.clone(), kind, size }, &full) {
            return Ok(false);
        }
        if kind == Kind::Folder
            && depth > 1
            && enter(&name)
            && walk(&full, &path, depth - 1, visit, enter) == Ok(false)
        {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> tempfile::TempDir {
        let top = tempfile::tempdir().unwrap();
        for (path, content) in [
            ("b.txt", "one\nTwo\n"),
            ("a/c.rs", "fn two() {}\n"),
            ("a/d/e.txt", "two\r\ntwo"),
            (".git/x.txt", "two"),
            ("z.bin", "two\0"),
        ] {
            let path = top.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        top
    }

    #[test]
    fn walk_is_ordered_and_depth_limited() {
        let top = tree();
        let seen = |depth| {
            let mut seen = Vec::new();
            let mut visit = |entry: Entry, _: &Path| {
                seen.push(entry.path);
                seen.len() < 5
            };
            let end = walk(top.path(), "", depth, &mut visit, &|_| true).unwrap();
            (seen.join(" "), end)
        };
        assert_eq!(seen(1), (".git a b.txt z.bin".into(), true));
        assert_eq!(seen(9), (".git .git/x.txt a a/c.rs a/d".into(), false));
        assert!(walk(&top.path().join("no"), "", 1, &mut |_, _| true, &|_| true).is_err());
    }
}
