//! Tests of families of changes, generated from the reviewed names and at random.

use proptest::prelude::*;

use super::tests::{Case, case, later};
use super::*;
use crate::protected::rules;

/// Ways in which a program changes a path.
#[derive(Clone, Copy, Debug)]
enum Way {
    Write,
    Delete,
    DeleteAround,
    MakeFolder,
    MakeLink,
    Execute,
}

const WAYS: [Way; 6] =
    [Way::Write, Way::Delete, Way::DeleteAround, Way::MakeFolder, Way::MakeLink, Way::Execute];

/// Changes a path in an overlay's upper layer. A file that is in the way stays.
fn change(upper: &Folder, top: &Path, path: &Path, way: Way) {
    use std::os::unix::fs::PermissionsExt;
    let at = top.join(path);
    let above = path.parent().unwrap();
    if matches!(way, Way::DeleteAround) {
        let _ = upper.whiteout(ancestors(path).first().unwrap());
        return;
    }
    if upper.make_all(above).is_err() {
        return;
    }
    let _ = match way {
        Way::Write | Way::DeleteAround => std::fs::write(&at, "changed"),
        Way::Delete => upper.whiteout(path),
        Way::MakeFolder => std::fs::create_dir(&at).and_then(|()| std::fs::write(at.join("in"), "changed")),
        Way::MakeLink => std::os::unix::fs::symlink("../x", &at),
        Way::Execute => std::fs::write(&at, "original")
            .and_then(|()| std::fs::set_permissions(&at, PermissionsExt::from_mode(0o755))),
    };
}

/// All entries of the original, with modes.
fn all(case: &Case) -> Vec<(PathBuf, u32, String)> {
    let stack = Stack::new([], &case.original);
    let found = stack.walk(Path::new(""), 99_999).unwrap();
    let text = |path: &Path, node: &Node| match node.kind {
        Kind::File => io::read_to_string(stack.file(path).unwrap()).unwrap(),
        kind => format!("{kind:?}"),
    };
    found.iter().map(|(path, node)| (path.clone(), node.mode, text(path, node))).collect()
}

/// Each reviewed name in one of several spellings, in a folder of its own beside an ordinary file.
fn spelled(turn: usize) -> Vec<(String, String)> {
    let spell = |number: usize, name: &str| match (number + turn) % 3 {
        0 => name.to_owned(),
        1 => name.to_uppercase(),
        _ => format!("deep/er/{name}"),
    };
    let named = rules().map(|(_, name, _)| name.replace('*', "any")).enumerate();
    named.map(|(number, name)| (format!("o{number}"), spell(number, &name))).collect()
}

#[test]
fn changes_to_protected_names_are_excluded() {
    let case = case(&[], |_, _| ());
    let view = Stack::new([], &case.original);
    let mut judge = Judge::new(&case.original, &view, &view, Allow::Nothing).unwrap();
    let node = |kind| Node { kind, mode: 0o755, bytes: 1, names: 1, changed: (0, 0), owner: (0, 0) };
    use Kind::{File, Folder, Link, Special};
    let kinds = [None, Some(File), Some(Folder), Some(Link), Some(Special)].map(|kind| kind.map(node));
    for turn in 0..3 {
        for (_, name) in spelled(turn) {
            for (before, after) in kinds.iter().flat_map(|b| kinds.iter().map(move |a| (*b, *a))) {
                let what = match (before, after) {
                    (None, None) => continue,
                    (None, _) => What::Added,
                    (_, None) => What::Deleted,
                    (Some(was), Some(is)) if was.kind != is.kind => What::TypeChanged,
                    _ => What::Modified,
                };
                for path in [PathBuf::from(&name), Path::new("a/b").join(&name), Path::new(&name).join("c/d")]
                {
                    let change = Change { path, what, before, after };
                    assert!(judge.left(&change).unwrap().is_some(), "{change:?}");
                }
            }
        }
    }
}

#[test]
fn protected_names_never_reach_original() {
    for (turn, way) in WAYS.into_iter().enumerate() {
        let names: Vec<_> = spelled(turn).into_iter().skip(turn).step_by(WAYS.len()).collect();
        // Every second name exists before.
        let exists = |folder: &str| folder.ends_with(['1', '2', '5', '6', '9']);
        let path = |(folder, name): &(String, String)| format!("{folder}/{name}");
        let free: Vec<_> = names.iter().map(|(folder, _)| format!("{folder}/a.py")).collect();
        let there = names.iter().filter(|(folder, _)| exists(folder)).map(path);
        let there: Vec<_> = free.iter().cloned().chain(there).collect();
        let there: Vec<&str> = there.iter().map(String::as_str).collect();
        let case = case(&there, |top, upper| {
            for name in &names {
                change(upper, top, Path::new(&path(name)), way);
            }
        });
        let before = all(&case);
        let committed = case.commit(&later()).unwrap();
        let after = all(&case);
        // New parent folders are harmless, and ordinary files are deleted with their folder.
        let kept = |all: Vec<(PathBuf, u32, String)>| -> Vec<_> {
            all.into_iter().filter(|(path, _, text)| !path.ends_with("a.py") && text != "Folder").collect()
        };
        assert_eq!(kept(before), kept(after), "{way:?}");
        let least =
            if matches!(way, Way::Delete | Way::DeleteAround) { names.len() / 3 } else { names.len() };
        assert!(committed.left.len() >= least, "{way:?}: {}", committed.left.len());
    }
}

#[test]
fn ordinary_files_beside_protected_names_are_committed() {
    // The file beside this one belongs to a virtual environment.
    let ordinary = |(_, name): &(String, String)| !name.ends_with("pyvenv.cfg");
    let names: Vec<_> = spelled(0).into_iter().filter(ordinary).step_by(WAYS.len()).collect();
    let free: Vec<_> = names.iter().map(|(folder, _)| format!("{folder}/a.py")).collect();
    let there: Vec<&str> = free.iter().map(String::as_str).collect();
    let case = case(&there, |top, upper| {
        for (folder, name) in &names {
            change(upper, top, &Path::new(folder).join("a.py"), Way::Write);
            change(upper, top, &Path::new(folder).join(name), Way::Write);
        }
    });
    let committed = case.commit(&later()).unwrap();
    let taken = committed.done.iter().filter(|path| path.ends_with("a.py")).count();
    assert_eq!(taken, names.len());
}

fn part() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        ".git",
        ".GIT",
        "git~1",
        ".g\u{200c}it",
        "a",
        "b",
        "hooks",
        "objects",
        "HEAD",
        "config",
        "index",
        "modules",
    ])
}

fn path() -> impl Strategy<Value = PathBuf> {
    prop::collection::vec(part(), 1..5).prop_map(|parts| parts.iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn commit_changes_no_git_path(
        there in prop::collection::vec(path(), 0..8),
        changed in prop::collection::vec((path(), prop::sample::select(WAYS.to_vec())), 1..8),
        allow in prop::sample::select(vec![Allow::Nothing, Allow::Names]),
    ) {
        // Leaves out a path that requires another file to be a folder.
        let mut files: Vec<PathBuf> = Vec::new();
        for path in there {
            if !files.iter().any(|file| file.starts_with(&path) || path.starts_with(file)) {
                files.push(path);
            }
        }
        let files: Vec<&str> = files.iter().map(|path| path.to_str().unwrap()).collect();
        let case = case(&files, |top, upper| {
            for (path, way) in &changed {
                change(upper, top, path, *way);
            }
        });
        let of_git = |all: Vec<(PathBuf, u32, String)>| -> Vec<_> {
            let named = |path: &Path| path.iter().any(|n| crate::protected::folded(&n.to_string_lossy()) == ".git");
            all.into_iter().filter(|(path, ..)| named(path)).collect()
        };
        let before = of_git(all(&case));
        // A conflict, or a file in place of a folder, means that nothing is applied.
        let _ = case.commit(&CommitOptions { allow, ..later() });
        prop_assert_eq!(before, of_git(all(&case)));
    }
}
