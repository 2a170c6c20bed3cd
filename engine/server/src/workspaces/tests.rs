//! Tests of the module above.

use hotcell_guard::quarantine::Channel;
use hotcell_review::approvals::{Approvals, RequestStatus};

use super::*;

fn file(path: &str, bytes: &[u8]) -> NewFile {
    NewFile { path: path.to_owned(), bytes: bytes.to_vec(), executable: false }
}

fn workspaces(quotas: Quotas) -> (tempfile::TempDir, Workspaces) {
    let dir = tempfile::tempdir().unwrap();
    let all = again(&dir, quotas, Folders::default());
    (dir, all)
}

/// A service over the same state.
fn again(dir: &tempfile::TempDir, quotas: Quotas, folders: Folders) -> Workspaces {
    let state = StateFolder::open(&dir.path().join("state")).unwrap();
    Workspaces::open(&state, quotas, folders).unwrap()
}

/// Approvals over the same state: of a caller, and of a person.
fn approvals(dir: &tempfile::TempDir) -> (Approvals, Approvals) {
    let state = hotcell_state::state::StateChoice::Named(dir.path().join("state"));
    let of = |channel| {
        let asker = Some((channel, state.clone()));
        Approvals::of(&hotcell_config::Configuration { asker, ..Default::default() }).unwrap()
    };
    (of(Channel::Model("me".to_owned())), of(Channel::Cli))
}

fn paths(workspace: &Workspace) -> Vec<String> {
    workspace.list(None).unwrap().into_iter().map(|e| e.path).collect()
}

#[test]
fn files_are_written_read_listed_and_removed() {
    let (_dir, all) = workspaces(Quotas::default());
    let me = Caller::new("me");
    let w = all.create(&me, &[file("a/b.txt", b"one"), file("c", b"")], None).unwrap();
    assert_eq!(w.used().unwrap(), Used { bytes: 3, files: 3 });
    w.write(&[file("a/b.txt", b"longer"), file("a/d/e", b"x")]).unwrap();
    assert_eq!(w.used().unwrap(), Used { bytes: 7, files: 5 });
    assert_eq!(w.read("a/b.txt", 2, 3).unwrap(), (6, b"nge".to_vec()));
    assert_eq!(w.read("a/b.txt", 99, 3).unwrap(), (6, vec![]));
    let found: Vec<_> = w.list(None).unwrap().into_iter().map(|e| (e.path, e.kind, e.bytes)).collect();
    use EntryKind::{File, Folder};
    let want =
        [("a", Folder, 0), ("a/b.txt", File, 6), ("a/d", Folder, 0), ("a/d/e", File, 1), ("c", File, 0)];
    assert_eq!(found, want.map(|(p, k, b)| (p.to_owned(), k, b)));
    assert_eq!(w.list(Some("a/d")).unwrap().len(), 1);
    w.remove("a").unwrap();
    assert_eq!(w.used().unwrap(), Used { bytes: 0, files: 1 });
    for missing in ["a", "a/b.txt"] {
        assert_eq!(w.read(missing, 0, 1).unwrap_err().code, Code::UnknownName);
        assert_eq!(w.remove(missing).unwrap_err().code, Code::UnknownName);
    }
    assert!(w.read("c", 0, 1).is_ok() && w.list(Some("c")).is_err());
}

#[test]
fn workspace_of_another_caller_is_unknown() {
    let (dir, all) = workspaces(Quotas::default());
    let (me, other) = (Caller::new("me"), Caller::new("other"));
    let w = all.create(&me, &[file("a", b"1")], None).unwrap();
    let unknown = all.get(&me, "ws_0").unwrap_err();
    // The user's own workspace is invisible to callers.
    let persons = {
        let store = Store::open(&dir.path().join("state/workspaces"), Quota::default(), None).unwrap();
        store.create(Source::Empty).unwrap().id().to_owned()
    };
    for id in [w.id.as_str(), &persons, "../x", ""] {
        for asked in [all.get(&other, id).map(drop), all.remove(&other, id), all.fork(&other, id).map(drop)] {
            assert_eq!(asked.unwrap_err(), unknown, "{id}");
        }
    }
    assert_eq!(all.get(&me, &persons).unwrap_err(), unknown);
    assert!(all.list(&other).is_empty() && all.list(&me).len() == 1);
    assert_eq!(w.id.len(), 3 + 32, "128 bits");
    // A run may still use a removed workspace.
    let kept = w.kept().unwrap();
    let (_, layers) = kept.mount();
    all.remove(&me, &w.id).unwrap();
    assert_eq!(all.get(&me, &w.id).unwrap_err(), unknown);
    assert!(layers[0].join("a").exists());
    drop(kept);
    all.forget();
    assert!(!layers[0].exists());
}

#[test]
fn workspace_survives_restart_and_lists_by_caller() {
    let (dir, all) = workspaces(Quotas { workspaces: 1, ..Quotas::default() });
    let (token, process) = (Caller::new("token"), Caller::of_process("stdio"));
    let one = all.create(&token, &[file("a", b"1")], None).unwrap();
    let two = all.create(&process, &[file("a", b"2")], None).unwrap();
    drop(all);
    let all = again(&dir, Quotas { workspaces: 1, ..Quotas::default() }, Folders::default());
    let listed = |caller: &Caller| all.list(caller).into_iter().map(|w| w.id).collect::<Vec<_>>();
    assert_eq!((listed(&token), listed(&process)), (vec![one.id.clone()], vec![]));
    assert_eq!(all.get(&token, &one.id).unwrap().read("a", 0, 9).unwrap().1, b"1");
    assert_eq!(all.get(&process, &two.id).unwrap().read("a", 0, 9).unwrap().1, b"2");
    assert_eq!(listed(&process), vec![two.id.clone()]);
    assert!(all.get(&token, &two.id).is_err() && all.get(&process, &one.id).is_err());
    assert!(all.create(&token, &[], None).is_err() && all.fork(&token, &one.id).is_err());
}

#[test]
fn quotas_refuse_without_partial_change() {
    let quotas = Quotas { workspaces: 1, bytes: 10, file: 8, files: 4, at_once: 3, ..Quotas::default() };
    let (_dir, all) = workspaces(quotas);
    let me = Caller::new("me");
    let w = all.create(&me, &[file("a", b"12345")], None).unwrap();
    let before = w.list(None).unwrap();
    for files in [
        vec![file("b", b"123456789")],
        vec![file("b", b"123"), file("c", b"123")],
        vec![file("b/c/d/e", b"")],
        vec![file("x", b""), file("x/y", b"")],
        vec![file("x/y", b""), file("x", b"")],
        vec![file("a/b", b"")],
        vec![file("c", b"12"), file("c", b"")],
        vec![file("b", b""), file("../c", b"")],
        vec![file("1", b""), file("2", b""), file("3", b""), file("4", b"")],
    ] {
        assert!(w.write(&files).is_err(), "{files:?}");
        assert_eq!(
            (w.list(None).unwrap(), w.used().unwrap()),
            (before.clone(), Used { bytes: 5, files: 1 }),
            "{files:?}"
        );
    }
    w.write(&[file("a", b"1234567"), file("b", b"123")]).unwrap();
    w.write(&[file("c", b""), file("c", b""), file("b", b"")]).unwrap();
    assert_eq!(w.used().unwrap(), Used { bytes: 7, files: 3 });
    assert!(all.create(&me, &[], None).unwrap_err().message.contains("at most 1"));
    let other = Caller::new("other");
    assert!(all.create(&other, &[file("x", b"123456789")], None).is_err());
    assert!(all.list(&other).is_empty(), "nothing is made that cannot be filled");
    assert!(all.create(&other, &[], None).is_ok());
}

#[test]
fn snapshots_are_bounded_in_number_and_bytes() {
    let quotas = Quotas { bytes: 10, snapshots: 9, ..Quotas::default() };
    let (_dir, all) = workspaces(quotas);
    let w = all.create(&Caller::new("me"), &[], None).unwrap();
    let mut taken = 0;
    for n in 0..9 {
        w.discard(None).unwrap();
        w.write(&[file(&format!("f{n}"), b"1234567890")]).unwrap();
        match w.snapshot(&format!("s{n}")) {
            Ok(()) => taken += 1,
            Err(report) => assert!(report.message.contains("snapshots hold"), "{report}"),
        }
    }
    assert_eq!(taken, 4);
    for bad in ["", "a\nb", &"x".repeat(65)] {
        assert_eq!(w.snapshot(bad).unwrap_err().field.as_deref(), Some("name"));
    }
    assert_eq!(w.snapshot("s0").unwrap_err().field.as_deref(), Some("bytes that snapshots hold"));
    w.discard(Some("s0")).unwrap();
    assert_eq!(paths(&w), ["f0"]);
    assert_eq!(w.discard(Some("nothing")).unwrap_err().code, Code::UnknownName);
}

#[test]
fn commit_needs_operator_folder_and_unprotected_names() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().canonicalize().unwrap().join(name);
    for name in ["read", "write"] {
        std::fs::create_dir(at(name)).unwrap();
        std::fs::write(at(name).join("f"), "old\n").unwrap();
    }
    let settings = hotcell_config::McpSettings {
        folders: vec![at("read")],
        commit: vec![at("write")],
        ..Default::default()
    };
    let folders = Folders::of(&settings, &at("state"));
    let all = again(&dir, Quotas::default(), folders);
    let me = Caller::new("me");
    let (desk, person) = approvals(&dir);
    let over = |name: &str| all.create(&me, &[], Some(at(name).to_str().unwrap()));
    assert_eq!(over("").unwrap_err().field.as_deref(), Some("folder"));
    let change = [file("f", b"new\n"), file(".mcp.json", b"{}"), file("d/n", b"1")];
    let read = over("read").unwrap();
    read.write(&change).unwrap();
    assert!(read.commit(&desk).unwrap_err().message.contains("does not allow"));
    assert_eq!(std::fs::read_to_string(at("read/f")).unwrap(), "old\n");
    let write = over("write").unwrap();
    write.write(&change).unwrap();
    let (rows, text) = write.diff().unwrap();
    assert!(rows.len() == 4 && text.contains("-old\n+new\n"), "{text}");
    let taken = write.commit(&desk).unwrap();
    assert_eq!(taken.done, ["d", "d/n", "f"]);
    assert!(taken.left[0].0 == ".mcp.json" && taken.left[0].1.contains("is protected"));
    let Some(Ok(RequestStatus::Waits(asked))) = taken.standing else { panic!("{:?}", taken.standing) };
    assert_eq!(std::fs::read_to_string(at("write/f")).unwrap(), "new\n");
    assert!(!at("write/.mcp.json").exists());
    // The approval is for these bytes: others need a new request, and these are committed once.
    person.approve(&asked.id, None, None, &|_, _, _| Ok(())).unwrap();
    write.write(&[file(".mcp.json", b"{1}")]).unwrap();
    let other = write.commit(&desk).unwrap();
    assert!(matches!(other.standing, Some(Ok(RequestStatus::Waits(ref again))) if again.id != asked.id));
    write.write(&[file(".mcp.json", b"{}")]).unwrap();
    let taken = write.commit(&desk).unwrap();
    assert!(taken.done == [".mcp.json"] && taken.left.is_empty() && taken.standing.is_none(), "{taken:?}");
    assert_eq!(std::fs::read_to_string(at("write/.mcp.json")).unwrap(), "{}");
    write.write(&[file(".mcp.json", b"[]")]).unwrap();
    write.commit(&desk).unwrap();
    write.write(&[file(".mcp.json", b"{}\n")]).unwrap();
    assert!(
        matches!(write.commit(&desk).unwrap().standing, Some(Ok(RequestStatus::Waits(_)))),
        "it was used"
    );
    assert_eq!(std::fs::read_to_string(at("write/.mcp.json")).unwrap(), "{}");
    write.discard(None).unwrap();
    write.write(&[file("f", b"newer\n")]).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    std::fs::write(at("write/f"), "somebody's\n").unwrap();
    assert!(write.commit(&desk).unwrap_err().message.contains("\"f\" changed in the original"));
    assert_eq!(std::fs::read_to_string(at("write/f")).unwrap(), "somebody's\n");
    let empty = all.create(&me, &[], None).unwrap();
    assert!(empty.commit(&desk).unwrap_err().message.contains("not made over a folder"));
    // A folder that the operator withdraws is unusable at once.
    let later = again(&dir, Quotas::default(), Folders::default());
    assert!(later.get(&me, &write.id).unwrap_err().message.contains("any more"));
}

#[test]
fn workspace_export_is_bounded() {
    let (_dir, all) = workspaces(Quotas { file: 4096, ..Quotas::default() });
    let w = all.create(&Caller::new("me"), &[file("a/b", b"text")], None).unwrap();
    let archive = w.export().unwrap();
    assert!(archive.len() <= 4096 && archive.starts_with(b"a"));
    w.write(&[file("c", &[0; 4000])]).unwrap();
    assert!(w.export().unwrap_err().message.contains("4096"));
}

#[test]
fn calls_at_once_wait_for_each_other() {
    let (_dir, all) = workspaces(Quotas::default());
    let w = all.create(&Caller::new("me"), &[], None).unwrap();
    std::thread::scope(|scope| {
        for n in 0..8 {
            let w = &w;
            scope.spawn(move || {
                w.write(&[file(&format!("f{n}"), b"1")]).unwrap();
                w.read(&format!("f{n}"), 0, 9).unwrap();
            });
        }
    });
    assert_eq!(paths(&w).len(), 8);
}

#[test]
fn temporary_folder_is_removed_after_last_use() {
    let (_dir, all) = workspaces(Quotas::default());
    let made = all.temporary(&[file("a/b", b"1")]).unwrap();
    let path = made.path().to_owned();
    assert_eq!(std::fs::read(path.join("a/b")).unwrap(), b"1");
    drop(made);
    assert!(!path.exists());
}

#[test]
fn unused_workspace_expires() {
    let (dir, all) = workspaces(Quotas { time_to_live: Duration::ZERO, ..Quotas::default() });
    let me = Caller::new("me");
    let w = all.create(&me, &[file("a", b"1")], None).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    assert!(all.get(&me, &w.id).is_err());
    all.forget();
    let state = dir.path().join("state/workspaces");
    assert!(!state.join(format!("{}.json", w.id)).exists());
    assert_eq!(std::fs::read_dir(state.join("layers")).unwrap().count(), 0);
}

#[test]
fn clock_change_keeps_used_workspace_young() {
    let hours = |h: u64| Some(Duration::from_secs(h * 3600));
    for (calendar, here, want) in [
        (hours(25), None, hours(25)),
        (hours(25), hours(1), hours(1)),
        // Another process used it meanwhile.
        (hours(1), hours(25), hours(1)),
        (hours(500_000), hours(0), hours(0)),
        // The clock was set back.
        (None, None, hours(0)),
        (None, hours(25), hours(0)),
    ] {
        assert_eq!(Some(super::unused(calendar, here)), want, "{calendar:?} {here:?}");
    }
}
