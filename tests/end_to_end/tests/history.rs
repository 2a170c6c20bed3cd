//! The history of runs, and state folders of every kind.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use hotcell_end_to_end::{User, everyone, is_root};
use serde_json::Value;

fn list(user: &User, options: &[&str]) -> Vec<Value> {
    let mut words = vec!["runs", "list", "--json"];
    words.extend_from_slice(options);
    user.hotcell(words).end().code(0).json()["runs"].as_array().unwrap().clone()
}

#[test]
fn runs_are_remembered_and_shown() {
    everyone(|user| {
        user.hotcell(["runs", "list"]).end().code(0).prints("").says("no runs yet");
        assert_eq!(list(user, &[]).len(), 0);
        assert!(!user.path("home/.local").exists(), "looking makes nothing");
        user.shell([], "echo hello; exit 4").end().code(4);
        user.run(["no-such-program"]).end().code(127);
        let rows = list(user, &[]);
        assert_eq!(rows.len(), 2, "{rows:#?}");
        assert_eq!((&rows[0]["cause"], &rows[0]["exit_code"]), (&"not_found".into(), &Value::Null));
        assert_eq!((&rows[1]["cause"], &rows[1]["exit_code"]), (&"exited".into(), &4.into()));
        assert_eq!(rows[1]["command"], serde_json::json!(["sh", "-c", "echo hello; exit 4"]));
        assert!(rows[1]["usage"]["wall_us"].as_u64().unwrap() > 0);
        let id = rows[1]["id"].as_str().unwrap();
        let shown = user.hotcell(["runs", "show", "--json", &id[..6]]).end().code(0).json();
        assert_eq!((&shown["stdout"]["text"], &shown["exit_code"]), (&"hello\n".into(), &4.into()));
        let page = user.hotcell(["runs", "show", id]).end();
        assert!(
            page.code(0).text().contains("exited with 4") && page.text().contains("  | hello"),
            "{page:#?}"
        );
        let table = user.hotcell(["runs", "list"]).end();
        assert!(table.code(0).text().contains(id), "{table:#?}");
        for id in ["ffffffffffffffff", "%", "x"] {
            user.hotcell(["runs", "show", id]).end().code(125).says_one_line("there is no run");
        }
        let state = user.path("home/.local/state/hotcell");
        let mode = |p: &Path| std::fs::metadata(p).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&state), mode(&state.join("hotcell.db"))), (0o700, 0o600));
    });
}

#[test]
fn history_opt_out_stores_no_run_data() {
    everyone(|user| {
        user.run(["echo", "before"]).end().code(0);
        user.make_folder("work/suite");
        user.write("work/suite/test_a.py", "def test_it():\n    print('SECRETWORD')\n");
        let script = "echo SECRETWORD; exit 3";
        user.shell(["--no-history"], script).end().code(3).prints("SECRETWORD\n");
        user.shell(["--no-history", "-v"], script).end().code(3).says("exited with 3");
        user.hotcell(["test", "--no-history", "suite", "--framework", "SECRETWORD"]).end().code(125);
        user.hotcell(["run", "--no-history", "--", "SECRETWORD"]).end().code(127);
        assert_eq!(list(user, &[]).len(), 1);
        let state = user.path("home/.local/state/hotcell");
        for file in std::fs::read_dir(&state).unwrap() {
            let path = file.unwrap().path();
            let bytes = if path.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
            assert!(!bytes.windows(10).any(|w| w == b"SECRETWORD"), "{}", path.display());
        }
    });
}

#[test]
fn ambiguous_run_id_is_refused() {
    let user = User::me();
    for _ in 0..17 {
        user.run(["true"]).end().code(0);
    }
    // Seventeen ids with sixteen possible first digits.
    let ids: Vec<String> = list(&user, &[]).iter().map(|r| r["id"].as_str().unwrap().to_owned()).collect();
    let first = |id: &str| id[..1].to_owned();
    let twice = ids.iter().find(|a| ids.iter().filter(|b| first(a) == first(b)).count() > 1).unwrap();
    user.hotcell(["runs", "show", &first(twice)]).end().code(125).says_one_line("give more digits");
}

#[test]
fn long_output_is_bounded_in_history() {
    let user = User::me();
    user.shell([], "seq 1 100000").end().code(0);
    let id = list(&user, &[])[0]["id"].as_str().unwrap().to_owned();
    let shown = user.hotcell(["runs", "show", "--json", &id]).end().code(0).json();
    assert_eq!(shown["stdout"]["bytes"], 588_895);
    assert_eq!(shown["stdout"]["truncated"], true);
    assert!(shown["stdout"]["text"].as_str().unwrap().len() <= 32 * 1024);
}

#[test]
fn processes_share_one_state_folder() {
    everyone(|user| {
        let state = user.path("work/state");
        let words = ["run", "--state", state.to_str().unwrap(), "--", "true"];
        let started: Vec<_> = (0..6).map(|_| user.hotcell(words).start()).collect();
        for child in started {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{output:?}");
            assert!(output.stderr.is_empty(), "{output:?}");
        }
        assert_eq!(list(user, &["--state", state.to_str().unwrap()]).len(), 6);
    });
}

#[test]
fn unusable_default_state_folder_is_a_warning() {
    everyone(|user| {
        // A file in its place.
        user.make_folder("home/.local");
        user.write("home/.local/state", "in the way");
        let ended = user.run(["echo", "answer"]).end();
        ended.code(0).prints("answer\n").says_one_line("warning: this run is not in the history");
        user.hotcell(["run", "--quiet", "--", "echo", "answer"]).end().code(0).prints("answer\n").silent();
        let json = user.hotcell(["run", "--json", "--", "true"]).end();
        assert_eq!(json.code(0).json()["cause"], "exited");
        // Without a home folder.
        let ended = user.run(["echo", "answer"]).env("HOME", "").end();
        ended.code(0).prints("answer\n").says_one_line("HOME");
    });
}

#[test]
fn unusable_named_state_folder_is_refused() {
    everyone(|user| {
        let file = user.write("work/file", "");
        let shared = user.make_folder("work/shared");
        std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o777)).unwrap();
        let mut cases = vec![(file, "cannot be"), (shared, "written by others")];
        if user.is_ordinary() {
            let read_only = user.make_folder("work/read-only");
            std::fs::set_permissions(&read_only, std::fs::Permissions::from_mode(0o500)).unwrap();
            cases.push((read_only, "cannot be written"));
        }
        for (folder, line) in cases {
            let folder = folder.to_str().unwrap();
            let ended = user.hotcell(["run", "--state", folder, "--", "echo", "ran"]).end();
            ended.code(125).prints("").says_one_line(line);
            let outcome = user.hotcell(["--state", folder, "run", "--json", "--", "echo", "ran"]).end();
            assert_eq!(outcome.code(125).silent().json()["cause"], "refused");
        }
        user.run(["true"]).env("HOTCELL_STATE", user.path("work/file")).end().code(125).says("cannot be");
    });
}

#[test]
fn state_folder_of_another_user_is_refused() {
    let Some(user) = User::ordinary() else { return };
    let theirs = user.path("theirs");
    std::fs::create_dir(&theirs).unwrap();
    std::fs::set_permissions(&theirs, std::fs::Permissions::from_mode(0o755)).unwrap();
    let words = ["run", "--state", theirs.to_str().unwrap(), "--", "true"];
    user.hotcell(words).end().code(125).says_one_line("belongs to user 0");
}

#[test]
fn full_and_read_only_file_systems() {
    if !is_root() {
        eprintln!("not tried: only root can mount");
        return;
    }
    let user = User::me();
    let folder = user.make_folder("small");
    let mount = |options: &str| {
        let done = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "none"])
            .arg(&folder)
            .status();
        done.is_ok_and(|s| s.success())
    };
    let unmount = || {
        std::process::Command::new("umount").arg("-l").arg(&folder).status().unwrap();
    };
    if !mount("size=1m,mode=0700") {
        eprintln!("not tried: mounting is not possible here");
        return;
    }
    let state = folder.to_str().unwrap();
    let home = user.make_folder("small/home");
    user.hotcell(["run", "--state", state, "--", "true"]).end().code(0).silent();
    let _ = std::fs::write(folder.join("filler"), vec![0; 1 << 20]);
    user.hotcell(["run", "--state", state, "--", "echo", "ran"])
        .end()
        .code(125)
        .prints("")
        .says_one_line("is full");
    let ended = user.run(["echo", "answer"]).env("HOME", &home).end();
    ended.code(0).prints("answer\n").says("not in the history");
    // Existing history can still be read.
    assert_eq!(list(&user, &["--state", state]).len(), 1);
    unmount();
    if mount("size=1m,mode=0700") {
        user.hotcell(["run", "--state", state, "--", "true"]).end().code(0);
        let remount =
            std::process::Command::new("mount").args(["-o", "remount,ro"]).arg(&folder).status().unwrap();
        assert!(remount.success());
        user.hotcell(["run", "--state", state, "--", "true"])
            .end()
            .code(125)
            .says_one_line("cannot be written");
        assert_eq!(list(&user, &["--state", state]).len(), 1);
        unmount();
    }
}
