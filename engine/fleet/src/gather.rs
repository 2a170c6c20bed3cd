//! A view of a folder as `Directory` messages, without a copy of its files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use bazel_remote_apis::build::bazel::remote::execution::v2::{
    Directory, DirectoryNode, FileNode, SymlinkNode,
};
use hotcell_workspace::{Kind, Node, Stack};
use prost::Message;

use crate::digest::Key;
use crate::error::FleetError;
use crate::tree::{Bounds, check_link};

/// A folder as messages.
#[derive(Clone, Debug)]
pub struct Gathered {
    /// Digest of the root.
    pub root: Key,
    /// The root's message.
    pub directory: Directory,
    /// Each directory's message, encoded, the root's included.
    pub messages: BTreeMap<Key, Vec<u8>>,
    /// The directories below the root.
    pub children: Vec<Directory>,
    /// Files by path below the root.
    pub files: BTreeMap<PathBuf, Key>,
}

/// A folder of which some entries are known.
struct Unfinished {
    /// Path below the root.
    path: PathBuf,
    /// Number of folders from the root to this one.
    depth: usize,
    directory: Directory,
}

impl Unfinished {
    fn at(path: &Path) -> Self {
        Self { path: path.to_owned(), depth: path.components().count(), directory: Directory::default() }
    }

    /// Compares bytes: the paths of one walk are spelled in one way.
    fn is_at(&self, path: &Path) -> bool {
        self.path.as_os_str() == path.as_os_str()
    }
}

/// Opens the file that is taken.
pub type Open<'o> = dyn FnMut() -> io::Result<File> + 'o;

/// Makes messages of a folder of a view. `take` returns the digest of each file, which it may open.
///
/// # Errors
/// [`FleetError`] of a wrong request: a name that is not UTF-8, a link out of the folder, a device, a bound that is
/// exceeded; or a file cannot be read.
pub fn gather(
    view: &Stack<'_>,
    root: &Path,
    bounds: Bounds,
    take: &mut dyn FnMut(&Path, &Node, &mut Open<'_>) -> io::Result<Key>,
) -> Result<Gathered, FleetError> {
    let walked = view
        .walk(root, bounds.entries)
        .map_err(|e| FleetError::request(format!("{} cannot be read: {e}", shown(root))))?;
    // The folder of the last entry and those around it, as far as they have entries, the outermost first.
    let mut open: Vec<Unfinished> = Vec::new();
    let (mut messages, mut children) = (BTreeMap::new(), Vec::new());
    let (mut files, mut bytes) = (Vec::new(), 0_u64);
    // Backwards: the content of a folder before the folder, and the last of its entries first.
    for (path, node) in walked.into_iter().rev() {
        let below = path.strip_prefix(root).unwrap_or(&path);
        let own = if node.kind == Kind::Folder { open.pop_if(|folder| folder.is_at(below)) } else { None };
        let folder = below.parent().unwrap_or(Path::new(""));
        let around = open.pop_if(|last| last.is_at(folder)).unwrap_or_else(|| Unfinished::at(folder));
        let Unfinished { depth, directory: parent, .. } = open.push_mut(around);
        let depth = *depth + 1;
        if depth > bounds.depth {
            return Err(FleetError::request(format!(
                "{} is deeper than {} folders",
                shown(&path),
                bounds.depth
            )));
        }
        let name = path.file_name().and_then(|name| name.to_str()).map(str::to_owned).ok_or_else(|| {
            FleetError::request(format!(
                "{} has a name that is not UTF-8, which a farm cannot hold",
                shown(&path)
            ))
        })?;
        let unread = |e: io::Error| FleetError::request(format!("{} cannot be read: {e}", shown(&path)));
        match node.kind {
            Kind::File => {
                bytes = bytes.saturating_add(node.bytes);
                if bytes > bounds.bytes {
                    return Err(FleetError::request(format!(
                        "{} has more than {} bytes",
                        shown(root),
                        bounds.bytes
                    )));
                }
                let key = take(&path, &node, &mut || view.file(&path)).map_err(unread)?;
                let is_executable = node.mode & 0o111 != 0;
                parent.files.push(FileNode {
                    name,
                    digest: Some(key.message()),
                    is_executable,
                    ..FileNode::default()
                });
                files.push((below.to_owned(), key));
            }
            Kind::Folder => {
                let directory = sorted(own.map(|own| own.directory).unwrap_or_default());
                let text = directory.encode_to_vec();
                let key = Key::of(&text);
                parent.directories.push(DirectoryNode { name, digest: Some(key.message()) });
                if messages.insert(key, text).is_none() {
                    children.push(directory);
                }
            }
            Kind::Link => {
                let target = view.link(&path).map_err(unread)?;
                let target = target.to_str().ok_or_else(|| {
                    FleetError::request(format!("the link {} has a target that is not UTF-8", shown(&path)))
                })?;
                check_link(below, target, depth - 1)?;
                parent.symlinks.push(SymlinkNode {
                    name,
                    target: target.to_owned(),
                    ..SymlinkNode::default()
                });
            }
            Kind::Special | Kind::Whiteout => {
                let why =
                    format!("{} is a device, a pipe or a socket, which a farm cannot hold", shown(&path));
                return Err(FleetError::request(why));
            }
        }
    }
    let directory = sorted(open.pop().map(|root| root.directory).unwrap_or_default());
    let text = directory.encode_to_vec();
    let root = Key::of(&text);
    messages.insert(root, text);
    // In order, of which a map is made at once.
    let files = files.into_iter().rev().collect();
    Ok(Gathered { root, directory, messages, children, files })
}

fn shown(path: &Path) -> String {
    if path.as_os_str().is_empty() { "the folder".to_owned() } else { path.display().to_string() }
}

/// Names in order, as the API demands: equal folders then have equal digests.
fn sorted(mut directory: Directory) -> Directory {
    directory.files.sort_by(|a, b| a.name.cmp(&b.name));
    directory.directories.sort_by(|a, b| a.name.cmp(&b.name));
    directory.symlinks.sort_by(|a, b| a.name.cmp(&b.name));
    directory
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use hotcell_workspace::Folder;
    use proptest::prelude::*;

    use super::*;
    use crate::tree::{Entry, expand};

    fn of(path: &Path) -> Result<Gathered, FleetError> {
        let folder = Folder::open(path).unwrap();
        let view = Stack::new([], &folder);
        gather(&view, Path::new(""), Bounds::default(), &mut |_, node, open| {
            Key::of_reader(open()?, node.bytes)
        })
    }

    #[test]
    fn gathered_folders_expand_to_themselves() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("a/b/c")).unwrap();
        std::fs::write(at("a/b/x.sh"), "run").unwrap();
        std::fs::write(at("z"), "").unwrap();
        std::fs::set_permissions(at("a/b/x.sh"), PermissionsExt::from_mode(0o755)).unwrap();
        symlink("../../z", at("a/b/l")).unwrap();
        let gathered = of(dir.path()).unwrap();
        let decoded =
            gathered.messages.iter().map(|(key, text)| (*key, Directory::decode(text.as_slice()).unwrap()));
        let tree = expand(gathered.root, &decoded.collect(), Bounds::default()).unwrap();
        let mut entries = tree.entries;
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        let names: Vec<_> = entries.iter().map(|(path, _)| path.to_str().unwrap()).collect();
        assert_eq!(names, ["a", "a/b", "a/b/c", "a/b/l", "a/b/x.sh", "z"]);
        assert_eq!(entries[3].1, Entry::Link("../../z".to_owned()));
        assert_eq!(entries[4].1, Entry::File { key: Key::of(b"run"), executable: true });
        assert_eq!(gathered.files[Path::new("z")], Key::of(b""));
        assert_eq!(gathered.children.len(), 3);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever the names, a folder expands to its walk: names that sort apart from their folders (`a.` and `a/b`), empty folders, equal ones, a root below.
        #[test]
        fn gathered_folders_expand_to_their_walk(
            paths in prop::collection::vec("(a|a!|a\\.|b)(/(a|a-|é)){0,3}/?", 0..12),
            below in prop::sample::select(vec!["", "a", "a/a"]),
        ) {
            let dir = tempfile::tempdir().unwrap();
            for path in &paths {
                let at = dir.path().join(path.trim_end_matches('/'));
                // A file in the way of a folder stays.
                let _ = std::fs::create_dir_all(at.parent().unwrap()).and_then(|()| match path.ends_with('/') {
                    true => std::fs::create_dir(&at),
                    false => std::fs::write(&at, path),
                });
            }
            let (folder, below) = (Folder::open(dir.path()).unwrap(), Path::new(below));
            let view = Stack::new([], &folder);
            let gathered = gather(&view, below, Bounds::default(), &mut |_, node, open| Key::of_reader(open()?, node.bytes)).unwrap();
            let decoded = gathered.messages.iter().map(|(key, text)| (*key, Directory::decode(text.as_slice()).unwrap()));
            let mut entries = expand(gathered.root, &decoded.collect(), Bounds::default()).unwrap().entries;
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            let walked = view.walk(below, 99).unwrap().into_iter().map(|(path, node)| (path.strip_prefix(below).unwrap().to_owned(), node.kind));
            let found = entries.iter().map(|(path, entry)| (path.clone(), if *entry == Entry::Folder { Kind::Folder } else { Kind::File }));
            prop_assert_eq!(found.collect::<Vec<_>>(), walked.collect::<Vec<_>>());
            let files = entries.iter().filter_map(|(path, entry)| match entry {
                Entry::File { key, .. } => Some((path.clone(), *key)),
                _ => None,
            });
            prop_assert_eq!(gathered.files, files.collect::<BTreeMap<_, _>>());
        }
    }

    #[test]
    fn entries_that_a_farm_cannot_hold_are_named() {
        let dir = tempfile::tempdir().unwrap();
        symlink("/etc/passwd", dir.path().join("out")).unwrap();
        assert!(of(dir.path()).unwrap_err().message.contains("out"));
        std::fs::remove_file(dir.path().join("out")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("s")).unwrap();
        assert!(of(dir.path()).unwrap_err().message.contains("socket"));
    }
}
