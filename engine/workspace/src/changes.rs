//! Differences between two views of a project: before and after a run.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use crate::folder::{Folder, Kind, Node, ancestors, same_bytes};
use crate::stack::{Layer, Lookups, PathBytes, Stack, check_bounds};

/// Kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The path is new.
    Added,
    /// Content, mode or link target differs.
    Modified,
    /// The path was deleted.
    Deleted,
    /// The entry has another kind, such as a file that became a folder.
    TypeChanged,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Path below the project's folder.
    pub path: PathBuf,
    /// Kind of the change.
    pub what: What,
    /// Entry before the run.
    pub before: Option<Node>,
    /// Entry after the run.
    pub after: Option<Node>,
}

/// Finds the changes that layers made, by path. `ignored` are paths that the program did not make, such as
/// mountpoints.
///
/// # Errors
/// When a view cannot be read, or has more than `most` paths to examine.
pub fn changes(
    before: &Stack<'_>,
    layers: &[Layer<'_>],
    ignored: &[PathBuf],
    most: usize,
) -> io::Result<Vec<Change>> {
    let mut after = before.clone();
    let mut paths = BTreeSet::new();
    for layer in layers.iter().rev() {
        after = after.with(*layer);
        if layer.whole {
            insert_all(&mut paths, before.walk_but(Path::new(""), ignored, most)?);
        }
        touched(layer.folder, before, (&mut paths, ignored), most)?;
    }
    let mut all = Vec::new();
    let (mut before, mut after) = (before.lookups(), after.lookups());
    for path in paths {
        if let Some(change) = change(&mut before, &mut after, path)? {
            all.push(change);
        }
    }
    without(&mut all, ignored);
    Ok(all)
}

fn insert_all(paths: &mut BTreeSet<PathBuf>, found: Vec<(PathBuf, Node)>) {
    paths.extend(found.into_iter().map(|(path, _)| path));
}

/// Paths that a layer says something about.
fn touched(
    layer: &Folder,
    before: &Stack<'_>,
    (paths, ignored): (&mut BTreeSet<PathBuf>, &[PathBuf]),
    most: usize,
) -> io::Result<()> {
    let mut folders = vec![PathBuf::new()];
    let mut names = PathBytes::default();
    while let Some(folder) = folders.pop() {
        let open = layer.folder(&folder)?;
        // From the layer: in the open folder, its own name would have to be looked up, which not every mode allows.
        for name in layer.names(&folder)? {
            let path = folder.join(&name);
            check_bounds(&path, paths.len(), most)?;
            names.add(&path)?;
            // In the original another file system may begin there, which is never entered.
            if ignored.contains(&path) {
                continue;
            }
            let Some(node) = open.node(Path::new(&name))? else { continue };
            if node.kind != Kind::Folder || layer.opaque(&path)? {
                // A folder that was there before is gone, with all that was in it.
                insert_all(paths, before.walk_but(&path, ignored, most)?);
            }
            if node.kind == Kind::Folder {
                folders.push(path.clone());
            }
            paths.insert(path);
        }
    }
    Ok(())
}

fn change(before: &mut Lookups<'_>, after: &mut Lookups<'_>, path: PathBuf) -> io::Result<Option<Change>> {
    let (was, is) = (before.find(&path)?, after.find(&path)?);
    let what = match (&was, &is) {
        (None, None) => return Ok(None),
        (None, Some(_)) => What::Added,
        (Some(_), None) => What::Deleted,
        (Some((old, _)), Some((new, _))) if old.kind != new.kind => What::TypeChanged,
        (Some((old, from)), Some((new, to))) => {
            let same = old.mode & 0o777 == new.mode & 0o777
                && match old.kind {
                    Kind::File => {
                        old.bytes == new.bytes
                            && match from.folder.file(&path) {
                                // The program could not read this file either, so it did not copy it.
                                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => false,
                                was => same_bytes(was?, to.folder.file(&path)?)?,
                            }
                    }
                    Kind::Link => from.folder.link(&path)? == to.folder.link(&path)?,
                    _ => true,
                };
            if same {
                return Ok(None);
            }
            What::Modified
        }
    };
    Ok(Some(Change { path, what, before: was.map(|(node, _)| node), after: is.map(|(node, _)| node) }))
}

/// Removes paths that the program did not make, and new folders that only hold such paths.
fn without(changes: &mut Vec<Change>, ignored: &[PathBuf]) {
    if ignored.is_empty() {
        return;
    }
    changes.retain(|change| !ignored.contains(&change.path));
    let around: BTreeSet<PathBuf> = ignored.iter().flat_map(|place| ancestors(place)).collect();
    let is_empty = |path: &Path, all: &[Change]| {
        !all.iter().any(|other| other.path != path && other.path.starts_with(path))
    };
    // The innermost first, so that a folder is removed after its only folder.
    for folder in around.iter().rev() {
        let new = changes.iter().position(|c| c.path == *folder && c.what == What::Added);
        if let Some(at) = new.filter(|_| is_empty(folder, changes)) {
            changes.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> (tempfile::TempDir, Folder) {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let folder = Folder::open(dir.path()).unwrap();
        (dir, folder)
    }

    fn found(
        base: &[(&str, &str)],
        layer: &[(&str, &str)],
        marks: fn(&Folder),
        ignored: &[&str],
    ) -> Vec<(String, What)> {
        let ((_a, base), (_b, upper)) = (folder(base), folder(layer));
        marks(&upper);
        let ignored: Vec<_> = ignored.iter().map(PathBuf::from).collect();
        changes(&Stack::new([], &base), &[Layer::over(&upper)], &ignored, 99)
            .unwrap()
            .into_iter()
            .map(|c| (c.path.to_string_lossy().into_owned(), c.what))
            .collect()
    }

    fn rows(rows: &[(&str, What)]) -> Vec<(String, What)> {
        rows.iter().map(|(path, what)| ((*path).to_owned(), *what)).collect()
    }

    /// Permission to search an empty folder is not needed. Any mode lets root read it.
    #[test]
    fn empty_folders_that_cannot_be_searched_are_changes_too() {
        use std::os::unix::fs::PermissionsExt;
        let ((_a, base), (dir, upper)) = (folder(&[]), folder(&[("n", "")]));
        let modes = [0o400, 0o500, 0o600, 0o700];
        for mode in modes {
            let made = dir.path().join(format!("d{mode:o}"));
            std::fs::create_dir(&made).unwrap();
            std::fs::set_permissions(&made, PermissionsExt::from_mode(mode)).unwrap();
        }
        let all = changes(&Stack::new([], &base), &[Layer::over(&upper)], &[], 99).unwrap();
        let all: Vec<_> = all.into_iter().map(|c| (c.path.to_string_lossy().into_owned(), c.what)).collect();
        assert_eq!(all, rows(&["d400", "d500", "d600", "d700", "n"].map(|path| (path, What::Added))));
    }

    #[test]
    fn layer_changes_are_listed() {
        let base = [("a", "1"), ("d/x", "1"), ("d/y", "1")];
        assert_eq!(found(&base, &[], |_| (), &[]), []);
        assert_eq!(found(&base, &[("a", "1")], |_| (), &[]), [], "copied up and not changed");
        assert_eq!(found(&base, &[("a", "2")], |_| (), &[]), rows(&[("a", What::Modified)]));
        assert_eq!(
            found(&base, &[("n/z", "")], |_| (), &[]),
            rows(&[("n", What::Added), ("n/z", What::Added)])
        );
        assert_eq!(
            found(&base, &[], |l| l.whiteout(Path::new("d")).unwrap(), &[]),
            rows(&[("d", What::Deleted), ("d/x", What::Deleted), ("d/y", What::Deleted)])
        );
        assert_eq!(
            found(&base, &[("d/y", "1")], |l| l.set_opaque(Path::new("d")).unwrap(), &[]),
            rows(&[("d/x", What::Deleted)])
        );
        assert_eq!(
            found(&base, &[("d", "file")], |_| (), &[]),
            rows(&[("d", What::TypeChanged), ("d/x", What::Deleted), ("d/y", What::Deleted)])
        );
        assert_eq!(
            found(&base, &[("a", "1")], |l| l.set_mode(Path::new("a"), 0o755).unwrap(), &[]),
            rows(&[("a", What::Modified)])
        );
        assert_eq!(found(&base, &[], |l| l.whiteout(Path::new("never")).unwrap(), &[]), []);
    }

    #[test]
    fn mountpoints_are_not_reported_as_changes() {
        let mountpoint = |l: &Folder| l.make_all(Path::new("tools/venv")).unwrap();
        assert_eq!(found(&[], &[], mountpoint, &["tools/venv"]), []);
        assert_eq!(
            found(&[], &[("tools/new", "")], mountpoint, &["tools/venv"]),
            rows(&[("tools", What::Added), ("tools/new", What::Added)])
        );
    }

    #[test]
    fn copied_tree_is_compared_completely() {
        let ((_a, base), (_b, copy)) =
            (folder(&[("a", "1"), ("b", "1"), ("d/x", "1")]), folder(&[("a", "1"), ("b", "2"), ("n", "")]));
        let whole = Layer { folder: &copy, whole: true };
        let all: Vec<_> = changes(&Stack::new([], &base), &[whole], &[], 99)
            .unwrap()
            .into_iter()
            .map(|c| (c.path.to_string_lossy().into_owned(), c.what))
            .collect();
        let want = [("b", What::Modified), ("d", What::Deleted), ("d/x", What::Deleted), ("n", What::Added)];
        assert_eq!(all, rows(&want));
    }

    #[test]
    fn excess_files_are_an_error() {
        let ((_a, base), (_b, upper)) = (folder(&[]), folder(&[("a", ""), ("b", ""), ("c", "")]));
        let looked = changes(&Stack::new([], &base), &[Layer::over(&upper)], &[], 1);
        assert!(looked.unwrap_err().to_string().contains("more than 1 files"));
    }

    #[test]
    fn paths_out_of_bounds_name_their_first_folder() {
        let deep = |name: &str, levels: usize| vec![name; levels].join("/");
        for (path, want) in [
            (deep("deep", 257), "its folder \"deep\" has folders nested deeper than 256"),
            (deep(&"long".repeat(50), 21), "has paths longer than 4095 bytes"),
        ] {
            let error = check_bounds(Path::new(&path), 0, 9).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
        assert!(check_bounds(Path::new(&deep("d", 256)), 8, 9).is_ok());
        assert!(check_bounds(Path::new("d"), 9, 9).is_err());
    }

    #[test]
    fn paths_are_bounded_together() {
        // Usual ones of a large project.
        let (mut names, usual) = (PathBytes::default(), "src/".repeat(30));
        assert!((0..1_000_000).all(|_| names.add(Path::new(&usual)).is_ok()));
        // A folder of long names, below which each empty file costs a page.
        let (mut names, long) = (PathBytes::default(), vec!["x".repeat(255); 15].join("/"));
        let found = (0..100_000).position(|_| names.add(Path::new(&long)).is_err());
        assert!(found.is_some_and(|found| (30_000..40_000).contains(&found)), "{found:?}");
        let error = names.add(Path::new("deep/x")).unwrap_err().to_string();
        assert!(error.contains("128 MiB") && error.contains("\"deep\""), "{error}");
    }
}
