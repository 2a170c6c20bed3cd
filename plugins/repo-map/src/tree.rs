//! Files of a repository, and its folders with their sums.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ignore::WalkBuilder;

use crate::names;

/// Maximum number of files to look at.
const MOST_FILES: u32 = 20_000;
/// Maximum size of a file to read, in bytes: for a longer one, its bytes divided by four count as tokens.
const LONGEST: u64 = 1 << 20;

/// Sums of a file or a folder.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sums {
    pub(crate) files: u32,
    pub(crate) size: u64,
    pub(crate) tokens: u64,
}

/// Contents of a repository.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Tree {
    /// Files by path relative to the top.
    pub(crate) files: BTreeMap<String, Sums>,
    pub(crate) tests_left_out: u32,
    pub(crate) cut: bool,
}

/// Reads a repository.
pub(crate) fn read(top: &Path, include_tests: bool) -> Result<Tree, String> {
    fs::read_dir(top).map_err(|e| format!("{}: {e}", top.display()))?;
    let mut tree = Tree::default();
    // The host user's own git settings do not apply to the repository.
    let walk =
        WalkBuilder::new(top).require_git(false).parents(false).git_global(false).follow_links(false).build();
    for entry in walk {
        // Entries below that cannot be read are left out.
        let Ok(entry) = entry else { continue };
        let Some(path) = entry.path().strip_prefix(top).ok().and_then(Path::to_str) else { continue };
        if !entry.file_type().is_some_and(|t| t.is_file()) {
            continue;
        }
        if !include_tests && names::is_test(path) {
            tree.tests_left_out += 1;
            continue;
        }
        if tree.files.len() as u32 == MOST_FILES {
            tree.cut = true;
            break;
        }
        let size = entry.metadata().map_or(0, |meta| meta.len());
        let tokens = match size {
            0..=LONGEST => {
                fs::read(entry.path()).ok().and_then(|content| names::tokens(&content)).unwrap_or(0)
            }
            _ if names::language(path).is_some() => size / 4,
            _ => 0,
        };
        tree.files.insert(path.to_owned(), Sums { files: 1, size, tokens });
    }
    Ok(tree)
}

/// Files and folders down to `depth`, each folder before its entries: path, whether it is a folder, sums.
pub(crate) fn structure(files: &BTreeMap<String, Sums>, depth: u32) -> Vec<(String, bool, Sums)> {
    let mut nodes: BTreeMap<Vec<&str>, (bool, Sums)> = BTreeMap::new();
    for (path, sums) in files {
        let parts: Vec<&str> = path.split('/').collect();
        for length in 1..=parts.len().min(depth as usize) {
            let node =
                nodes.entry(parts[..length].to_vec()).or_insert((length < parts.len(), Sums::default()));
            node.1.files += sums.files;
            node.1.size += sums.size;
            node.1.tokens += sums.tokens;
        }
    }
    nodes.into_iter().map(|(parts, (folder, sums))| (parts.join("/"), folder, sums)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_sums_include_descendants() {
        let one = |size| Sums { files: 1, size, tokens: size };
        let files = [("a/b/c.rs", 1), ("a/b/d/e.rs", 2), ("a-b", 8), ("a/f", 4)];
        let files: BTreeMap<_, _> =
            files.into_iter().map(|(path, size)| (path.to_owned(), one(size))).collect();
        let told = |depth| {
            let nodes = structure(&files, depth).into_iter();
            nodes
                .map(|(path, folder, s)| {
                    format!("{path}{}{}:{}", if folder { "/" } else { " " }, s.files, s.size)
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(told(1), ["a/3:7", "a-b 1:8"]);
        assert_eq!(told(3), ["a/3:7", "a/b/2:3", "a/b/c.rs 1:1", "a/b/d/1:2", "a/f 1:4", "a-b 1:8"]);
        assert_eq!(told(0), [""; 0]);
        assert_eq!(told(9).len(), 7);
    }

    #[test]
    fn git_ignored_files_are_omitted() {
        let top = tempfile::tempdir().unwrap();
        for (path, content) in [
            (".gitignore", "/target\n*.log\n!keep.log\n"),
            ("target/x", "x"),
            ("a.log", "x"),
            ("keep.log", "abcd"),
            ("sub/target/y.rs", "abcdefgh"),
            ("sub/.gitignore", "z"),
            ("sub/z", "z"),
            ("tests/t.rs", "t"),
            (".hidden", "h"),
            ("bin", "\0"),
        ] {
            let path = top.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let tree = read(top.path(), false).unwrap();
        let told: Vec<_> =
            tree.files.iter().map(|(path, s)| format!("{path} {} {}", s.size, s.tokens)).collect();
        assert_eq!(told, ["bin 1 0", "keep.log 4 1", "sub/target/y.rs 8 2"]);
        assert_eq!((tree.tests_left_out, tree.cut), (1, false));
        assert!(read(top.path(), true).unwrap().files.contains_key("tests/t.rs"));
        assert!(read(&top.path().join("none"), true).is_err());
    }
}
