//! Tests of the module above.

use super::*;
use crate::admit;
use crate::changes::changes;
use crate::stack::Layer;

fn node(kind: Kind, changed: i64) -> Node {
    Node { kind, mode: 0o644, bytes: 0, names: 1, changed: (changed, 0), owner: (0, 0) }
}

fn change(path: &str, what: What, before: Option<Kind>, after: Option<Kind>) -> Change {
    let node = |kind: Kind| node(kind, 1);
    Change { path: path.into(), what, before: before.map(node), after: after.map(node) }
}

#[test]
fn concurrent_change_is_a_conflict() {
    use Kind::{File, Folder};
    let since = (10, 0);
    for (change, now, conflict) in [
        (change("x", What::Modified, Some(File), Some(File)), Some(node(File, 9)), false),
        (change("x", What::Modified, Some(File), Some(File)), Some(node(File, 10)), true),
        (change("x", What::Modified, Some(File), Some(File)), Some(node(Folder, 1)), true),
        (change("x", What::Modified, Some(File), Some(File)), None, true),
        (change("x", What::Deleted, Some(File), None), Some(node(File, 9)), false),
        (change("x", What::Deleted, Some(File), None), Some(node(File, 11)), true),
        (change("x", What::Deleted, Some(File), None), None, false),
        (change("x", What::Added, None, Some(File)), None, false),
        (change("x", What::Added, None, Some(File)), Some(node(File, 1)), true),
        (change("x", What::Added, None, Some(Folder)), Some(node(Folder, 11)), false),
        (change("x", What::Modified, Some(Folder), Some(Folder)), Some(node(Folder, 11)), false),
    ] {
        assert_eq!(conflicts(&change, now.as_ref(), since), conflict, "{change:?} {now:?}");
    }
}

pub(super) struct Case {
    _dirs: [tempfile::TempDir; 2],
    pub(super) original: Folder,
    upper: Folder,
}

pub(super) fn case(original: &[&str], upper: impl FnOnce(&Path, &Folder)) -> Case {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    for file in original {
        let path = dirs[0].path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "original").unwrap();
    }
    let [original, folder] = [0, 1].map(|n: usize| Folder::open(dirs[n].path()).unwrap());
    upper(dirs[1].path(), &folder);
    Case { _dirs: dirs, original, upper: folder }
}

impl Case {
    pub(super) fn commit(&self, terms: &CommitOptions) -> Result<Committed, CommitError> {
        let before = Stack::new([], &self.original);
        let layer = Layer::over(&self.upper);
        let found = changes(&before, &[layer], &[], 99_999).unwrap();
        commit(&before.with(layer), &self.original, &found, terms)
    }
    fn shown(&self) -> Vec<(String, String)> {
        let stack = Stack::new([], &self.original);
        let text = |path: &Path, node: &Node| match node.kind {
            Kind::File => io::read_to_string(stack.file(path).unwrap()).unwrap(),
            kind => format!("{kind:?}"),
        };
        let all = stack.walk(Path::new(""), 999).unwrap();
        all.iter().map(|(p, n)| (p.to_string_lossy().into_owned(), text(p, n))).collect()
    }
}

pub(super) fn later() -> CommitOptions {
    CommitOptions { since: (i64::MAX, 0), allow: Allow::Nothing, owner: None, most: 1 << 30 }
}

fn rows(rows: &[(&str, &str)]) -> Vec<(String, String)> {
    rows.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

#[test]
fn changes_are_taken_over() {
    let case = case(&["a", "b", "d/x", "d/y", "f/z", "t"], |path, upper| {
        std::fs::write(path.join("a"), "new").unwrap();
        upper.whiteout(Path::new("b")).unwrap();
        upper.make_all(Path::new("d")).unwrap();
        upper.set_opaque(Path::new("d")).unwrap();
        std::fs::write(path.join("d/y"), "new").unwrap();
        upper.whiteout(Path::new("f")).unwrap();
        upper.make_all(Path::new("n/m")).unwrap();
        std::fs::write(path.join("n/m/new"), "new").unwrap();
        upper.make_all(Path::new("t")).unwrap();
        std::fs::write(path.join("t/in"), "new").unwrap();
    });
    let committed = case.commit(&later()).unwrap();
    assert_eq!(committed.left, []);
    let want = [
        ("a", "new"),
        ("d", "Folder"),
        ("d/y", "new"),
        ("n", "Folder"),
        ("n/m", "Folder"),
        ("n/m/new", "new"),
        ("t", "Folder"),
        ("t/in", "new"),
    ];
    assert_eq!(case.shown(), rows(&want));
}

#[test]
fn protected_names_links_and_setuid_bits_stay_out() {
    use std::os::unix::fs::PermissionsExt;
    let case = case(&[".git/hooks/keep", "a"], |path, upper| {
        upper.make_all(Path::new(".git/hooks")).unwrap();
        std::fs::write(path.join(".git/hooks/pre-commit"), "evil").unwrap();
        std::fs::write(path.join(".git/index"), "evil").unwrap();
        upper.make_link(Path::new("link"), Path::new("/etc/passwd")).unwrap();
        std::fs::write(path.join("suid"), "x").unwrap();
        std::fs::set_permissions(path.join("suid"), PermissionsExt::from_mode(0o6777)).unwrap();
    });
    let committed = case.commit(&later()).unwrap();
    assert_eq!(committed.left.len(), 3, "{committed:?}");
    let told = admit::told(&committed.left, "say so");
    assert_eq!(told[0], (".git".into(), "git's own state (2 paths) was left as it was; say so".to_owned()));
    assert_eq!((told.len(), told[1].0.as_path()), (2, Path::new("link")));
    let shown: Vec<_> = case.shown().into_iter().map(|(path, _)| path).collect();
    assert_eq!(shown, [".git", ".git/hooks", ".git/hooks/keep", "a", "suid"]);
    assert_eq!(case.original.node(Path::new("suid")).unwrap().unwrap().mode, 0o755);
    let allowed = case.commit(&CommitOptions { allow: Allow::All, ..later() }).unwrap();
    assert!(allowed.done.contains(&".git/hooks/pre-commit".into()) && allowed.left.len() == 1);
}

#[test]
fn bare_repository_settings_are_excluded() {
    for (already, new, left) in [
        (&["x"][..], &["b/HEAD", "b/config", "b/objects/aa/1", "b/refs/x", "b/README"][..], 5),
        (&["b/HEAD", "b/objects/x", "b/refs/x"], &["b/config", "b/hooks/update", "b/objects/aa/1"], 3),
        (&["b/Head", "b/OBJECTS/x", "b/refs/x"], &["b/CONFIG", "b/packed-refs", "b/a.py"], 3),
        (&["b/HEAD", "b/config"], &["b/objects/aa/1", "b/refs/x"], 2),
        (&["b/config"], &["b/HEAD", "b/commondir"], 2),
        (&[], &["HEAD", "config", "objects/aa/1", "refs/x"], 4),
        (&[], &["b/HEAD", "b/config", "b/objects/x"], 0),
        // Under any name, including names that git might read in future versions.
        (&["sep/HEAD", "sep/objects/x", "sep/refs/x"], &["sep/new-thing", "sep/deep/er/x", "sepia"], 2),
        (&["w/HEAD", "w/objects/x", "w/refs/x", "w/.git/HEAD"], &["w/config", "w/a.py"], 1),
        (&["w/HEAD", "w/objects/x", "w/refs/x"], &["w/.git/HEAD", "w/a.py"], 2),
        (&["src/a"], &["src/hooks/x", "src/config/y", "src/index"], 0),
    ] {
        let case = case(already, |path, _| {
            for file in new {
                std::fs::create_dir_all(path.join(file).parent().unwrap()).unwrap();
                std::fs::write(path.join(file), "new").unwrap();
            }
        });
        let committed = case.commit(&later()).unwrap();
        let files = committed.left.iter().filter(|(p, _)| new.contains(&p.to_str().unwrap())).count();
        assert_eq!(files, left, "{already:?} {new:?}: {committed:?}");
    }
}

#[test]
fn file_replacing_protected_folder_is_excluded() {
    let case = case(&["d/.mcp.json", "d/x", "e"], |path, upper| {
        std::fs::write(path.join("d"), "new").unwrap();
        std::fs::write(path.join("e"), "new").unwrap();
        upper.whiteout(Path::new("none")).unwrap();
    });
    let committed = case.commit(&later()).unwrap();
    let left: Vec<_> = committed.left.iter().map(|(path, _)| path.to_str().unwrap()).collect();
    assert_eq!(left, ["d/.mcp.json", "d"]);
    assert_eq!(case.shown(), rows(&[("d", "Folder"), ("d/.mcp.json", "original"), ("e", "new")]));
}

#[test]
fn virtual_environment_is_recognised_by_form() {
    for name in ["venv", "env", "any/where", ".venv"] {
        for (already, new) in [
            (&["pyvenv.cfg"][..], &["bin/python", "lib/site-packages/x.pth", "new"][..]),
            (&[], &["pyvenv.cfg", "bin/python"]),
        ] {
            let below = |all: &[&str]| all.iter().map(|path| format!("{name}/{path}")).collect::<Vec<_>>();
            let (already, new) = (below(already), below(new));
            let case = case(&already.iter().map(String::as_str).collect::<Vec<_>>(), |path, _| {
                for file in new.iter().map(String::as_str).chain(["beside.py"]) {
                    std::fs::create_dir_all(path.join(file).parent().unwrap()).unwrap();
                    std::fs::write(path.join(file), "new").unwrap();
                }
            });
            let committed = case.commit(&later()).unwrap();
            let left = |path: &String| {
                committed.left.iter().any(|(left, why)| left == Path::new(path) && why.wants_yes())
            };
            assert!(new.iter().all(left), "{new:?}: {committed:?}");
            assert!(committed.done.contains(&"beside.py".into()));
            let allowed = case.commit(&CommitOptions { allow: Allow::All, ..later() }).unwrap();
            assert!(allowed.left.is_empty(), "{allowed:?}");
        }
    }
}

#[test]
fn byte_code_is_excluded_with_one_line() {
    let case = case(&["d/__pycache__/old.pyc"], |path, upper| {
        for file in ["a.py", "__pycache__/a.cpython-311.pyc", "p/__pycache__/b.pyc", "c.pyo", "p/b.py", "pyc"]
        {
            std::fs::create_dir_all(path.join(file).parent().unwrap()).unwrap();
            std::fs::write(path.join(file), "new").unwrap();
        }
        upper.whiteout(Path::new("d")).unwrap();
    });
    for allow in [Allow::Nothing, Allow::Names] {
        let committed = case.commit(&CommitOptions { allow, ..later() });
        let Ok(committed) = committed else { continue };
        assert!(committed.left.iter().all(|(_, why)| *why == Left::ByteCode), "{committed:?}");
        assert_eq!((committed.left.len(), admit::told(&committed.left, "").len()), (5, 1));
    }
    let shown: Vec<_> = case.shown().into_iter().map(|(path, _)| path).collect();
    assert_eq!(shown, ["a.py", "p", "p/b.py", "pyc"]);
}

#[test]
fn retained_folder_is_not_reported_as_committed() {
    let case = case(&["d/.mcp.json", "d/x"], |_, upper| upper.whiteout(Path::new("d")).unwrap());
    let committed = case.commit(&later()).unwrap();
    assert_eq!(committed.done, [PathBuf::from("d/x")]);
    assert_eq!(committed.left.last().unwrap(), &("d".into(), Left::NotEmpty));
}

#[test]
fn commit_exceeding_byte_limit_fails() {
    let case = case(&["a"], |path, _| {
        std::fs::write(path.join("a"), "new").unwrap();
        // Sparse: the files take no disk space here, but 1 TiB each when copied.
        for name in ["b", "c"] {
            std::fs::File::create(path.join(name)).unwrap().set_len(1 << 40).unwrap();
        }
    });
    let error = case.commit(&CommitOptions { most: 1 << 20, ..later() }).unwrap_err();
    assert!(matches!(&error, CommitError::NotStored { .. }), "{error}");
    assert_eq!(case.shown(), rows(&[("a", "original")]));
}

#[test]
fn hard_links_are_replaced_and_removed_together() {
    let case = case(&["a"], |path, upper| {
        for name in ["a", "b"] {
            std::fs::write(path.join(name), "new").unwrap();
        }
        for name in ["c", "d"] {
            upper.whiteout(Path::new(name)).unwrap();
        }
    });
    for name in ["b", "c", "d"] {
        case.original.hard_link(Path::new(name), &case.original, Path::new("a")).unwrap();
    }
    // Every change counts as another process's from now on.
    let since = moment();
    case.commit(&CommitOptions { since, ..later() }).unwrap();
    assert_eq!(case.shown(), rows(&[("a", "new"), ("b", "new")]));
}

#[test]
fn removal_needs_unchanged_file() {
    let case = case(&["a"], |_, upper| upper.whiteout(Path::new("a")).unwrap());
    let gone = change("a", What::Deleted, Some(Kind::File), None);
    assert!(remove(&case.original, &gone, &HashSet::new(), (0, 0)).is_err());
    assert!(remove(&case.original, &gone, &HashSet::new(), (i64::MAX, 0)).is_ok());
}

/// For an unprivileged user only: root can write everywhere.
#[test]
fn unwritable_folders_are_committed() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    let case = case(&["old/x"], |path, _| {
        for folder in ["new/in", "old"] {
            std::fs::create_dir_all(path.join(folder)).unwrap();
            std::fs::write(path.join(folder).join("file"), "new").unwrap();
        }
        for folder in ["new/in", "new", "old"] {
            mode(&path.join(folder), 0o555);
        }
    });
    let committed = case.commit(&later());
    let modes: Vec<_> = ["new/in", "new", "old"]
        .iter()
        .map(|folder| case.original.node(Path::new(folder)).unwrap().map(|node| node.mode))
        .collect();
    for dir in &case._dirs {
        for folder in ["new", "new/in", "old"] {
            if dir.path().join(folder).exists() {
                mode(&dir.path().join(folder), 0o755);
            }
        }
    }
    assert_eq!(committed.unwrap().done.len(), 5);
    assert_eq!(modes, [Some(0o555); 3]);
}

/// More changes than are processed by one thread.
#[test]
fn three_hundred_changes_are_committed() {
    let names: Vec<String> = (0..300).map(|n| format!("d{}/f{n}", n % 7)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let case = case(&names, |path, upper| {
        for (number, name) in names.iter().enumerate() {
            upper.make_all(Path::new(name).parent().unwrap()).unwrap();
            match number % 3 {
                0 => std::fs::write(path.join(name), format!("new {number}")).unwrap(),
                1 => upper.whiteout(Path::new(name)).unwrap(),
                _ => {
                    upper.make_all(&Path::new("new").join(name)).unwrap();
                    std::fs::write(path.join("new").join(name).join("file"), "added").unwrap();
                }
            }
        }
    });
    let committed = case.commit(&later()).unwrap();
    assert!(committed.left.is_empty(), "{:?}", committed.left);
    let read = |name: &str| case.original.file(Path::new(name)).and_then(std::io::read_to_string).ok();
    for (number, name) in names.iter().enumerate() {
        let (here, added) = (read(name), read(&format!("new/{name}/file")));
        match number % 3 {
            0 => assert_eq!((here.unwrap(), added), (format!("new {number}"), None)),
            1 => assert_eq!((here, added), (None, None)),
            _ => assert!(here.is_some() && added.is_some_and(|text| text == "added")),
        }
    }
    case.original.remove_all(Path::new("new")).unwrap();
    assert!(case.original.node(Path::new("new")).unwrap().is_none());
    assert!(
        case.original.names(Path::new("")).unwrap().iter().all(|n| !n.to_string_lossy().starts_with('.'))
    );
}

#[test]
fn conflict_commits_nothing() {
    let case = case(&["a", "b"], |path, _| {
        std::fs::write(path.join("a"), "new").unwrap();
        std::fs::write(path.join("c"), "new").unwrap();
    });
    let before = case.shown();
    let error = case.commit(&CommitOptions { since: (0, 0), ..later() }).unwrap_err();
    assert!(matches!(&error, CommitError::Conflict(paths) if paths == &[PathBuf::from("a")]), "{error}");
    assert_eq!(case.shown(), before);
}

#[test]
fn file_added_to_deleted_folder_is_conflict() {
    let case = case(&["d/x"], |_, upper| upper.whiteout(Path::new("d")).unwrap());
    let before = Stack::new([], &case.original);
    let layer = Layer::over(&case.upper);
    let found = changes(&before, &[layer], &[], 99_999).unwrap();
    drop(case.original.create(Path::new("d/new")).unwrap());
    let error = commit(&before.with(layer), &case.original, &found, &later()).unwrap_err();
    assert!(matches!(&error, CommitError::Conflict(paths) if paths == &[PathBuf::from("d/new")]), "{error}");
    assert!(case.original.node(Path::new("d/x")).unwrap().is_some());
}

#[test]
fn concurrent_link_in_original_is_not_followed() {
    let outside = tempfile::tempdir().unwrap();
    let case = case(&["d/x"], |path, upper| {
        upper.make_all(Path::new("d")).unwrap();
        std::fs::write(path.join("d/new"), "new").unwrap();
    });
    let before = Stack::new([], &case.original);
    let layer = Layer::over(&case.upper);
    let found = changes(&before, &[layer], &[], 99_999).unwrap();
    case.original.remove_all(Path::new("d")).unwrap();
    case.original.make_link(Path::new("d"), outside.path()).unwrap();
    assert!(commit(&before.with(layer), &case.original, &found, &later()).is_err());
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn remains_of_killed_commit_are_removed() {
    let case = case(&["a"], |path, _| std::fs::write(path.join("a"), "new").unwrap());
    case.original.make_all(Path::new(".hotcell-commit-dead/x")).unwrap();
    case.commit(&later()).unwrap();
    assert_eq!(case.shown(), rows(&[("a", "new")]));
}
