//! A map of a workspace for a model: folders to a depth, files with their sizes. Pure.

use std::collections::BTreeMap;

use super::output::{FileNode, RepoMap};

/// Maximum number of nodes in one answer.
const MAX_NODES: usize = 400;
/// Folders that hold no sources of the project's own; they are shown and not opened.
const OTHERS: [&str; 8] =
    ["node_modules", "target", "venv", "__pycache__", "dist", "build", "vendor", "site-packages"];

/// The map of some files, each with its path below the folder, its size, and whether it is a test.
#[must_use]
pub fn map(
    files: &[(String, u64, bool)],
    (depth, include_tests, offset): (usize, bool, usize),
    is_hidden: &dyn Fn(&str) -> bool,
) -> RepoMap {
    let counted: Vec<_> =
        files.iter().filter(|(path, _, is_test)| (include_tests || !is_test) && !is_hidden(path)).collect();
    let mut nodes: BTreeMap<String, FileNode> = BTreeMap::new();
    for (path, bytes, _) in &counted {
        let parts: Vec<&str> = path.split('/').collect();
        let folders = parts.len() - 1;
        let other = parts[..folders].iter().position(|part| OTHERS.contains(part)).map(|at| at + 1);
        // Number of folders that are opened on the way to the file.
        let closed = other.unwrap_or(folders + 1).min(depth);
        for count in 1..=folders.min(closed) {
            let is_closed = count == closed;
            let folder = nodes.entry(parts[..count].join("/")).or_insert_with_key(|path| FileNode {
                path: path.clone(),
                kind: "folder",
                bytes: None,
                files: is_closed.then_some(0),
            });
            if let Some(files) = &mut folder.files {
                *files += 1;
            }
        }
        if folders < closed {
            let node = FileNode { path: path.clone(), kind: "file", bytes: Some(*bytes), files: None };
            nodes.insert(path.clone(), node);
        }
    }
    let total = nodes.len();
    let structure: Vec<FileNode> = nodes.into_values().skip(offset).take(MAX_NODES).collect();
    let next = offset.saturating_add(structure.len());
    RepoMap {
        next_offset: (next < total).then_some(next),
        structure,
        total_files: counted.len() as u64,
        total_tokens_estimated: counted.iter().map(|(_, bytes, _)| bytes.div_ceil(4)).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(files: &[&str], depth: usize, tests: bool) -> String {
        let files: Vec<_> = files.iter().map(|path| ((*path).to_owned(), 8, path.contains("test"))).collect();
        let map = map(&files, (depth, tests, 0), &|path| path.starts_with('.'));
        let line = |node: FileNode| match node.files {
            Some(files) => format!("{}/{files}", node.path),
            None => node.path,
        };
        map.structure.into_iter().map(line).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn maps_open_folders_to_their_depth() {
        let files =
            ["a.py", "src/b.py", "src/in/c.py", "src/in/d.py", "test_a.py", ".git/x", "node_modules/x/y.js"];
        for (depth, tests, want) in [
            (1, false, "a.py node_modules/1 src/3"),
            (2, false, "a.py node_modules/1 src src/b.py src/in/2"),
            (5, false, "a.py node_modules/1 src src/b.py src/in src/in/c.py src/in/d.py"),
            (1, true, "a.py node_modules/1 src/3 test_a.py"),
        ] {
            assert_eq!(shown(&files, depth, tests), want, "{depth}");
        }
    }

    #[test]
    fn pages_of_a_map_have_every_node_once() {
        let files: Vec<_> = (0..1000).map(|n| (format!("f{n:04}.py"), 4, false)).collect();
        let (mut seen, mut offset) = (0, Some(0));
        while let Some(at) = offset {
            let map = map(&files, (5, false, at), &|_| false);
            assert_eq!((map.total_files, map.total_tokens_estimated), (1000, 1000));
            seen += map.structure.len();
            offset = map.next_offset;
        }
        assert_eq!(seen, 1000);
    }
}
