//! Tests of the module above.

use super::*;
use crate::changes::{Change, What};
use crate::layer;
use crate::stack::Stack;

fn new(path: &str, text: &str) -> NewFile {
    NewFile { path: path.into(), bytes: text.into(), executable: false }
}

fn store() -> (tempfile::TempDir, Store, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let original = dir.path().join("original");
    std::fs::create_dir_all(original.join("d")).unwrap();
    std::fs::write(original.join("a"), "original").unwrap();
    std::fs::write(original.join("d/x"), "original").unwrap();
    let store = Store::open(&dir.path().join("state"), Quota::default(), None).unwrap();
    (dir, store, original)
}

fn names(workspace: &Workspace<'_>) -> Vec<String> {
    let all = workspace.with_view(|_, view| view.walk(Path::new(""), 9999)).unwrap();
    all.into_iter().map(|(path, _)| path.display().to_string()).collect()
}

fn layers_on_disk(store: &Store) -> usize {
    store.folder.names(Path::new(LAYERS)).unwrap().len()
}

#[test]
fn files_are_written_deleted_snapshotted_and_discarded() {
    let (_dir, store, original) = store();
    let mut w = store.create(Source::Folder(original.clone())).unwrap();
    w.write(&[new("n/f", "1"), new("a", "2")]).unwrap();
    w.snapshot("one").unwrap();
    w.delete(Path::new("d")).unwrap();
    assert_eq!(names(&w), ["a", "n", "n/f"]);
    let what: Vec<_> = w.changes().unwrap().into_iter().map(|c| (c.path, c.what)).collect();
    let want = [
        ("a", What::Modified),
        ("d", What::Deleted),
        ("d/x", What::Deleted),
        ("n", What::Added),
        ("n/f", What::Added),
    ];
    assert_eq!(what, want.map(|(path, what)| (PathBuf::from(path), what)));
    assert!(matches!(w.snapshot("one"), Err(StoreError::SnapshotTaken(_))));
    w.discard(Some("one")).unwrap();
    assert_eq!(names(&w), ["a", "d", "d/x", "n", "n/f"]);
    w.discard(None).unwrap();
    assert_eq!(names(&w), ["a", "d", "d/x"]);
    assert!(matches!(w.discard(Some("two")), Err(StoreError::NoSnapshot(_))));
    assert_eq!(std::fs::read_to_string(original.join("a")).unwrap(), "original");
    let id = w.id().to_owned();
    drop(w);
    store.remove(&id).unwrap();
    assert_eq!((layers_on_disk(&store), store.ids().unwrap().len()), (0, 0));
}

#[test]
fn fork_changes_independently() {
    let (_dir, store, original) = store();
    let mut one = store.create(Source::Folder(original)).unwrap();
    one.write(&[new("f", "1")]).unwrap();
    let mut two = one.fork().unwrap();
    two.write(&[new("g", "2")]).unwrap();
    one.delete(Path::new("f")).unwrap();
    assert_eq!(
        (names(&one), names(&two)),
        (
            vec!["a".to_owned(), "d".into(), "d/x".into()],
            vec!["a".to_owned(), "d".into(), "d/x".into(), "f".into(), "g".into()],
        )
    );
}

#[test]
fn many_changes_are_merged() {
    let (_dir, store, original) = store();
    let mut w = store.create(Source::Folder(original)).unwrap();
    for n in 0..20 {
        w.write(&[new(&format!("f{n:02}"), "x"), new("same", &n.to_string())]).unwrap();
    }
    w.delete(Path::new("f00")).unwrap();
    assert!(w.mount().1.len() <= MAX_LAYERS && layers_on_disk(&store) <= MAX_LAYERS);
    assert_eq!(names(&w).len(), 3 + 19 + 1);
}

#[test]
fn commit_retains_protected_changes_in_workspace() {
    let (_dir, store, original) = store();
    let mut w = store.create(Source::Folder(original.clone())).unwrap();
    w.write(&[new("a", "2"), new(".mcp.json", "{}")]).unwrap();
    let committed = w.commit(false, None).unwrap();
    assert_eq!((committed.done.len(), committed.left.len()), (1, 1));
    assert_eq!(std::fs::read_to_string(original.join("a")).unwrap(), "2");
    let left: Vec<_> = w.changes().unwrap().into_iter().map(|c| c.path).collect();
    assert_eq!(left, [PathBuf::from(".mcp.json")]);
    w.commit(true, None).unwrap();
    assert!(original.join(".mcp.json").exists() && w.changes().unwrap().is_empty());
    let mut empty = store.create(Source::Empty).unwrap();
    assert!(matches!(empty.commit(false, None), Err(StoreError::NoOriginal)));
    assert!(empty.write(&[new("x", "1")]).is_ok() && empty.changes().unwrap().len() == 1);
}

#[test]
fn conflict_persists_after_revert_and_commit() {
    let (_dir, store, original) = store();
    let conflict = |w: &mut Workspace<'_>, allow: bool| {
        matches!(w.commit(allow, None), Err(StoreError::Commit(CommitError::Conflict(_))))
    };
    // Back to a snapshot, over the source as it is now.
    let mut w = store.create(Source::Folder(original.clone())).unwrap();
    w.write(&[new("a", "2")]).unwrap();
    w.snapshot("one").unwrap();
    std::fs::write(original.join("a"), "somebody's").unwrap();
    w.discard(None).unwrap();
    w.discard(Some("one")).unwrap();
    assert!(conflict(&mut w, false));
    // Changes that a first commit left out.
    let mut w = store.create(Source::Folder(original.clone())).unwrap();
    w.write(&[new("new", "2"), new(".mcp.json", "{}")]).unwrap();
    std::fs::write(original.join(".mcp.json"), "somebody's").unwrap();
    w.commit(false, None).unwrap();
    assert!(conflict(&mut w, true));
    assert_eq!(std::fs::read_to_string(original.join(".mcp.json")).unwrap(), "somebody's");
}

#[test]
fn committed_workspace_can_be_committed_again() {
    let (_dir, store, original) = store();
    let mut w = store.create(Source::Folder(original.clone())).unwrap();
    w.write(&[new("a", "2"), new(".mcp.json", "{}")]).unwrap();
    w.commit(false, None).unwrap();
    w.write(&[new("a", "3")]).unwrap();
    w.commit(false, None).unwrap();
    assert_eq!(std::fs::read_to_string(original.join("a")).unwrap(), "3");
}

#[test]
fn impossible_sizes_exceed_quota() {
    let (dir, store, _) = store();
    let mut w = store.create(Source::Empty).unwrap();
    let upper = dir.path().join("upper");
    std::fs::create_dir(&upper).unwrap();
    let found = |bytes: u64| Change {
        path: "a".into(),
        what: What::Added,
        before: None,
        after: Some(crate::folder::Node {
            kind: crate::folder::Kind::File,
            mode: 0o644,
            bytes,
            changed: (0, 0),
            owner: (0, 0),
            names: 1,
        }),
    };
    let huge = layer::held(&[found(1 << 63), found(1 << 63), found(5)]);
    assert_eq!(huge.bytes, u64::MAX);
    std::fs::File::create(upper.join("a")).unwrap().set_len(1 << 40).unwrap();
    let absorbed = w.absorb(&Folder::open(&upper).unwrap(), false, &[]);
    assert!(matches!(absorbed, Err(StoreError::Quota { .. })));
}

/// For an unprivileged user only: root can write everywhere.
#[test]
fn unwritable_folders_are_stored_and_removed() {
    use std::os::unix::fs::PermissionsExt;
    let (dir, store, original) = store();
    let mut w = store.create(Source::Folder(original)).unwrap();
    let upper = dir.path().join("upper");
    std::fs::create_dir_all(upper.join("module/in")).unwrap();
    std::fs::write(upper.join("module/in/file"), "x").unwrap();
    for (folder, mode) in [("module/in", 0o555), ("module", 0o500)] {
        std::fs::set_permissions(upper.join(folder), PermissionsExt::from_mode(mode)).unwrap();
    }
    let absorbed = w.absorb(&Folder::ours(&upper).unwrap(), false, &[]).map(|found| found.len());
    for folder in ["module", "module/in"] {
        std::fs::set_permissions(upper.join(folder), PermissionsExt::from_mode(0o755)).unwrap();
    }
    assert_eq!(absorbed.unwrap(), 3);
    let node = w.with_view(|_, view| view.node(Path::new("module/in"))).unwrap().unwrap();
    assert_eq!(node.mode, 0o555);
    w.discard(None).unwrap();
    assert_eq!(layers_on_disk(&store), 0);
}

#[test]
fn damaged_record_affects_only_itself() {
    let (_dir, store, original) = store();
    let mut w = store.create(Source::Folder(original)).unwrap();
    std::fs::write(store.path.join("ws_00.json"), "{").unwrap();
    w.write(&[new("a", "2")]).unwrap();
    w.write(&[new("b", "2")]).unwrap();
    assert_eq!(names(&w), ["a", "b", "d", "d/x"]);
    assert!(store.take("ws_00").is_err());
}

#[test]
fn busy_unknown_or_oversized_workspace_is_refused() {
    let (dir, store, original) = store();
    let held = store.create(Source::Folder(original)).unwrap();
    let id = held.id().to_owned();
    assert!(matches!(store.take(&id), Err(StoreError::InUse(_))));
    assert!(matches!(store.remove(&id), Err(StoreError::InUse(_))));
    assert_eq!(store.look(&id).unwrap().held, Held::default());
    drop(held);
    for unknown in ["ws_0", "../x", "ws_../../etc", ""] {
        assert!(matches!(store.take(unknown), Err(StoreError::Unknown(_))), "{unknown}");
    }
    let small = Store::open(&dir.path().join("small"), Quota { bytes: 10, files: 3 }, None).unwrap();
    let mut w = small.create(Source::Empty).unwrap();
    for files in [vec![new("a", "12345678901")], vec![new("a/b/c/d", "")]] {
        assert!(matches!(w.write(&files), Err(StoreError::Quota { .. })));
    }
    // Content that is overwritten repeatedly counts once.
    for text in ["12345678", "87654321", "11111111"] {
        w.write(&[new("a", text)]).unwrap();
    }
    w.discard(None).unwrap();
    for path in ["../x", "/x", "", "a/../../x"] {
        assert!(matches!(w.write(&[new(path, "")]), Err(StoreError::Path(_))), "{path}");
    }
    assert_eq!((names(&w).len(), layers_on_disk(&small)), (0, 0));
}

#[test]
fn remains_of_killed_writer_are_removed() {
    let (_dir, store, _) = store();
    std::fs::create_dir_all(store.layer_path("unfinished-999999999-x/y")).unwrap();
    std::fs::create_dir_all(store.layer_path("nobodys")).unwrap();
    store.create(Source::Empty).unwrap().write(&[new("a", "")]).unwrap();
    assert_eq!(layers_on_disk(&store), 1);
}

#[test]
fn export_unpacks_to_workspace_view() {
    let (dir, store, original) = store();
    let mut w = store.create(Source::Folder(original)).unwrap();
    w.write(&[NewFile { executable: true, ..new("d/run", "#!/bin/sh\n") }]).unwrap();
    let mut bytes = Vec::new();
    w.export(&mut bytes).unwrap();
    let to = dir.path().join("unpacked");
    tar::Archive::new(&bytes[..]).unpack(&to).unwrap();
    let folder = Folder::open(&to).unwrap();
    let all = Stack::new([], &folder).walk(Path::new(""), 99).unwrap();
    let shown: Vec<_> = all.iter().map(|(p, n)| (p.to_str().unwrap(), n.mode & 0o100)).collect();
    assert_eq!(shown, [("a", 0), ("d", 0o100), ("d/run", 0o100), ("d/x", 0)]);
}

fn text(workspace: &Workspace<'_>, path: &str) -> String {
    io::read_to_string(workspace.with_view(|_, view| view.file(Path::new(path))).unwrap()).unwrap()
}

#[test]
fn pinned_state_stays_readable_after_removal() {
    let (_dir, store, original) = store();
    let mut w = store.create(Source::Folder(original)).unwrap();
    let id = w.id().to_owned();
    w.write(&[new("f", "1")]).unwrap();
    let pinned = store.pin(&id).unwrap();
    w.write(&[new("f", "2")]).unwrap();
    w.discard(None).unwrap();
    let fork = store.fork(&id).unwrap();
    assert_eq!(names(&fork), ["a", "d", "d/x"]);
    drop((w, fork));
    store.remove(&id).unwrap();
    let seen = pinned.with_view(|_, view| io::read_to_string(view.file(Path::new("f"))?)).unwrap();
    assert_eq!((seen.as_str(), layers_on_disk(&store)), ("1", 1));
    drop(pinned);
    store.sweep().unwrap();
    assert_eq!((layers_on_disk(&store), store.folder.names(Path::new(PINS)).unwrap().len()), (0, 0));
}

/// Size of the files of all layers in bytes, the number of files, and the number of names. A file with
/// several names counts once.
fn on_disk(store: &Store) -> (u64, usize, usize) {
    use std::os::unix::fs::MetadataExt;
    let (mut files, mut names) = (std::collections::BTreeMap::new(), 0);
    let mut folders = vec![store.path.join(LAYERS)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let about = entry.metadata().unwrap();
            if about.is_dir() {
                folders.push(entry.path());
            } else {
                names += 1;
                files.insert(about.ino(), about.blocks() * 512);
            }
        }
    }
    (files.values().sum(), files.len(), names)
}

#[test]
fn snapshots_share_unchanged_content() {
    let (_dir, store, _) = store();
    let mut w = store.create(Source::Empty).unwrap();
    let text =
        |n: usize, round: usize| new(&format!("d{}/f{n}", n % 20), &format!("{round} {n}\n").repeat(500));
    w.write(&(0..400).map(|n| text(n, 0)).collect::<Vec<_>>()).unwrap();
    let (first, files, _) = on_disk(&store);
    // Each state differs from the previous one in one file of a hundred, and layers are merged on the way.
    for round in 1..=12 {
        w.snapshot(&format!("s{round}")).unwrap();
        let changed: Vec<_> = (0..4).map(|n| text((round * 37 + n * 101) % 400, round)).collect();
        w.write(&changed).unwrap();
    }
    let forks: Vec<_> = (0..5).map(|_| w.fork().unwrap()).collect();
    let (last, all_files, names) = on_disk(&store);
    let each = (last - first) as f64 / 12.0 / first as f64 * 100.0;
    println!(
        "{files} files, {first} bytes; then 12 states of 4 other files, {all_files} files in {names} names, {last} bytes: {each:.2} % each"
    );
    assert_eq!(all_files, files + 12 * 4, "nothing is copied that did not change");
    assert!(each < 1.1 && forks.len() == 5, "{each}");
    w.discard(Some("s1")).unwrap();
    assert_eq!(names_of_files(&w), 400);
}

fn names_of_files(workspace: &Workspace<'_>) -> usize {
    names(workspace).iter().filter(|name| name.contains("/f")).count()
}

#[test]
fn pin_of_dead_process_is_released() {
    let (_dir, store, _) = store();
    let mut w = store.create(Source::Empty).unwrap();
    w.write(&[new("f", "1")]).unwrap();
    let name = w.record.layers[0].name.clone();
    std::fs::write(store.path.join(PINS).join("dead"), name).unwrap();
    w.discard(None).unwrap();
    assert_eq!((layers_on_disk(&store), store.folder.names(Path::new(PINS)).unwrap().len()), (0, 0));
}

/// Applies the changes of a run to a view of a workspace, as an overlay's upper layer.
fn upper(dir: &Path, name: &str, does: impl FnOnce(&Folder)) -> Folder {
    let path = dir.join(name);
    std::fs::create_dir(&path).unwrap();
    let folder = Folder::ours(&path).unwrap();
    does(&folder);
    folder
}

#[test]
fn run_changes_merge_or_are_refused() {
    let (dir, store, original) = store();
    let put = |path: &'static str, text: &'static str| {
        move |folder: &Folder| {
            folder.make_all(Path::new(path).parent().unwrap()).unwrap();
            folder.create(Path::new(path)).unwrap().write_all(text.as_bytes()).unwrap();
        }
    };
    let gone = |path: &'static str| {
        move |folder: &Folder| {
            folder.make_all(Path::new(path).parent().unwrap()).unwrap();
            folder.whiteout(Path::new(path)).unwrap();
        }
    };
    type Does = Box<dyn Fn(&Folder)>;
    type Meanwhile = fn(&mut Workspace<'_>);
    let cases: Vec<(Does, Meanwhile, &[&str])> = vec![
        (Box::new(put("a", "run")), |_| (), &[]),
        (Box::new(put("a", "run")), |w| w.write(&[new("d/x", "2")]).unwrap(), &[]),
        (Box::new(put("a", "run")), |w| w.write(&[new("a", "2")]).unwrap(), &["a"]),
        (Box::new(put("a", "run")), |w| w.delete(Path::new("a")).unwrap(), &["a"]),
        (Box::new(put("new", "run")), |w| w.write(&[new("new", "2")]).unwrap(), &["new"]),
        (Box::new(put("n/run", "run")), |w| w.write(&[new("n/other", "2")]).unwrap(), &[]),
        (Box::new(put("n/run", "run")), |w| w.write(&[new("n", "2")]).unwrap(), &["n"]),
        (Box::new(put("d/y", "run")), |w| w.delete(Path::new("d")).unwrap(), &["d"]),
        (Box::new(gone("d")), |w| w.write(&[new("d/z", "2")]).unwrap(), &["d/z"]),
        (Box::new(gone("d")), |w| w.write(&[new("d/x", "2")]).unwrap(), &["d/x"]),
        (Box::new(gone("d")), |w| w.write(&[new("a", "2")]).unwrap(), &[]),
        // A change that is undone is not a change.
        (
            Box::new(put("a", "run")),
            |w| {
                w.write(&[new("a", "2")]).unwrap();
                w.write(&[new("a", "1")]).unwrap();
            },
            &[],
        ),
    ];
    for (number, (does, meanwhile, conflicting)) in cases.into_iter().enumerate() {
        let mut w = store.create(Source::Folder(original.clone())).unwrap();
        w.write(&[new("a", "1")]).unwrap();
        let start = store.pin(w.id()).unwrap();
        let upper = upper(dir.path(), &format!("upper{number}"), does);
        meanwhile(&mut w);
        let before = names(&w);
        match w.absorb_since(&start, &upper, false, &[]) {
            Ok(found) => {
                assert!(conflicting.is_empty() && !found.is_empty(), "{number}");
                for change in found {
                    let is = w.with_view(|_, view| view.node(&change.path)).unwrap();
                    assert_eq!(is.map(|n| n.kind), change.after.map(|n| n.kind), "{number}: {change:?}");
                }
            }
            Err(StoreError::Moved(paths)) => {
                let want: Vec<_> = conflicting.iter().map(PathBuf::from).collect();
                assert_eq!((paths, names(&w)), (want, before), "{number}");
            }
            Err(other) => panic!("{number}: {other}"),
        }
    }
    // Changes of others are still there.
    let mut w = store.create(Source::Folder(original)).unwrap();
    let start = store.pin(w.id()).unwrap();
    let upper = upper(dir.path(), "last", put("a", "run"));
    w.write(&[new("d/x", "2"), new("n", "2")]).unwrap();
    w.absorb_since(&start, &upper, false, &[]).unwrap();
    assert_eq!([text(&w, "a"), text(&w, "d/x"), text(&w, "n")], ["run", "2", "2"]);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 24, ..Default::default() })]

    /// When two runs that began together are added one after the other, either both are kept whole, or the
    /// second is refused.
    #[test]
    fn concurrent_runs_merge_or_second_is_refused(
        first in proptest::collection::btree_map(0usize..6, 0u8..4, 1..4),
        second in proptest::collection::btree_map(0usize..6, 0u8..4, 1..4),
    ) {
        const PATHS: [&str; 6] = ["a", "d/x", "d/y", "e", "e/f", "g/h"];
        let (dir, store, original) = store();
        let mut w = store.create(Source::Folder(original)).unwrap();
        w.write(&[new("d/y", "0")]).unwrap();
        let start = store.pin(w.id()).unwrap();
        let run = |name: &str, does: &std::collections::BTreeMap<usize, u8>| {
            upper(dir.path(), name, |folder| for (path, what) in does {
                let path = Path::new(PATHS[*path]);
                // Only as far as one layer allows: nothing can be below a file or a deleted entry.
                let _ = folder.make_all(path.parent().unwrap());
                match what {
                    0 => drop(folder.whiteout(path)),
                    n => if let Ok(mut file) = folder.create(path) {
                        file.write_all(format!("{name}{n}").as_bytes()).unwrap();
                    },
                }
            })
        };
        let (one, two) = (run("one", &first), run("two", &second));
        let whole = |w: &Workspace<'_>, found: &[Change]| found.iter().all(|change| {
            w.with_view(|_, view| view.node(&change.path)).unwrap().map(|n| (n.kind, n.bytes))
                == change.after.map(|n| (n.kind, n.bytes))
        });
        let found_first = w.absorb_since(&start, &one, false, &[]).unwrap();
        proptest::prop_assert!(whole(&w, &found_first));
        let before = names(&w);
        match w.absorb_since(&start, &two, false, &[]) {
            Ok(found_second) => {
                proptest::prop_assert!(whole(&w, &found_first) && whole(&w, &found_second));
            }
            Err(StoreError::Moved(paths)) => {
                proptest::prop_assert!(!paths.is_empty());
                proptest::prop_assert_eq!(names(&w), before);
            }
            Err(other) => panic!("{other}"),
        }
    }
}
