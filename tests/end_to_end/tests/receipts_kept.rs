//! Receipts that were handed out are in the log and verify, whatever happens to the process, the disk or the state folder.

use std::path::Path;
use std::time::Duration;

use hotcell_end_to_end::{Call, Ended, User, everyone, is_root};
use serde_json::Value;
use sha2::{Digest, Sha256};

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// A run with a receipt, whose file and state folder are these.
fn run(user: &User, state: &Path, file: &Path, words: &[&str]) -> Ended {
    call(user, state, file, words).end()
}

fn call(user: &User, state: &Path, file: &Path, words: &[&str]) -> Call {
    user.hotcell(["--state", text(state), "run", "--receipt", text(file), "--"]).words(words)
}

/// The facts that a good receipt states of itself.
fn about(user: &User, state: &Path, file: &Path) -> Value {
    let verified = user.hotcell(["--state", text(state), "receipt", "verify", "--json", text(file)]).end();
    verified.code(0).json()["receipts"][0]["statement"]["predicate"]["hotcell"].clone()
}

/// Receipts that the log of a state folder names, in their order; the log and what it names have to be whole.
fn noted(user: &User, state: &Path) -> Vec<String> {
    let audit = |words: &[&str]| user.hotcell(["--state", text(state), "--json", "audit"]).words(words).end();
    audit(&["verify"]).code(0);
    let entries =
        audit(&["list", "--last", "1000"]).code(0).json()["entries"].as_array().expect("entries").clone();
    let of = |entry: &Value| entry["subject"].as_str().expect("a digest").to_owned();
    entries.iter().filter(|entry| entry["action"] == "receipt").map(of).collect()
}

fn digest(file: &Path) -> String {
    let bytes = std::fs::read(file).expect("a receipt");
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn killed_command_loses_no_receipt_that_it_handed_out() {
    everyone(|user| {
        let state = user.path("work/own");
        let file = |number: u64| user.path(&format!("work/{number}.json"));
        run(user, &state, &file(0), &["true"]).code(0);
        let (mut handed_out, mut killed) = (vec![digest(&file(0))], 0);
        for number in 1..=40 {
            let mut child = call(user, &state, &file(number), &["true"]).start();
            std::thread::sleep(Duration::from_millis(10 + number * 2));
            child.kill().expect("it can be killed");
            killed += u32::from(!child.wait().expect("it ends").success());
            // A file that is not whole was not handed out.
            if std::fs::read(file(number)).is_ok_and(|bytes| bytes.ends_with(b"\n")) {
                about(user, &state, &file(number));
                handed_out.push(digest(&file(number)));
            }
        }
        assert!(killed > 0, "each ended before");
        let noted = noted(user, &state);
        for digest in handed_out {
            assert!(noted.contains(&digest), "{digest} {noted:?}");
        }
        // The log goes on.
        run(user, &state, &file(0), &["true"]).code(0);
        let number = about(user, &state, &file(0))["attempt"].as_u64();
        assert_eq!(number, Some(noted.len() as u64 + 1), "{noted:?}");
    });
}

#[test]
fn commands_that_end_at_once_share_one_log() {
    everyone(|user| {
        let state = user.path("work/own");
        let file = |name: &str| user.path(&format!("work/{name}.json"));
        // One that goes on for as long as the others: they write and empty the database's log behind its open connection.
        let mut slow = call(user, &state, &file("slow"), &["cat"]).piped().start();
        for round in 0..3 {
            let names: Vec<_> = (0..6).map(|number| format!("{round}-{number}")).collect();
            let all: Vec<_> =
                names.iter().map(|name| call(user, &state, &file(name), &["true"]).start()).collect();
            for child in all {
                let output = child.wait_with_output().expect("it ends");
                assert!(output.status.success(), "{output:?}");
            }
            let attempt = |name: &String| about(user, &state, &file(name))["attempt"].as_u64();
            let mut numbers: Vec<_> = names.iter().filter_map(attempt).collect();
            numbers.sort_unstable();
            let want: Vec<u64> = (round * 6 + 1..=round * 6 + 6).collect();
            assert_eq!(numbers, want);
            let noted = noted(user, &state);
            assert!(names.iter().all(|name| noted.contains(&digest(&file(name)))), "{noted:?}");
        }
        drop(slow.stdin.take());
        let output = slow.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{output:?}");
        let noted = noted(user, &state);
        assert_eq!((noted.len(), noted.last()), (19, Some(&digest(&file("slow")))));
        assert_eq!(about(user, &state, &file("slow"))["attempt"], 1);
    });
}

/// The workspace that is read, copied and compared has the state folder in it.
#[test]
fn state_folder_within_the_workspace_keeps_receipts() {
    everyone(|user| {
        user.make_folder("work/p");
        user.write("work/p/a", "1");
        let (state, file) = (user.path("work/p/own"), user.path("work/r.json"));
        for attempt in 1..=3 {
            let words = ["--state", text(&state), "run", "--workspace", "p", "--receipt", text(&file), "--"];
            user.hotcell(words).words(&["sh", "-c", "echo 2 >>a"]).end().code(0);
            about(user, &state, &file);
            let noted = noted(user, &state);
            assert_eq!((noted.len(), noted.last()), (attempt, Some(&digest(&file))));
        }
    });
}

#[test]
fn state_folder_that_is_replaced_during_the_run_gets_the_receipt() {
    everyone(|user| {
        let (state, file) = (user.path("work/own"), user.path("work/r.json"));
        run(user, &state, &file, &["true"]).code(0);
        let slow = call(user, &state, &file, &["sleep", "2"]).start();
        // Its connection is open by now.
        std::thread::sleep(Duration::from_secs(1));
        std::fs::rename(&state, user.path("work/old")).expect("it can be moved");
        let output = slow.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{output:?}");
        assert_eq!(noted(user, &state), [digest(&file)]);
        assert_eq!(noted(user, &user.path("work/old")).len(), 1);
        // The key is that of the folder before.
        about(user, &user.path("work/old"), &file);
    });
}

/// With a state folder of its own choice, hotcell runs the program and says that there is no receipt; with one that was named, it runs nothing.
#[test]
fn read_only_state_folder_gives_no_receipt() {
    everyone(|user| {
        // Root may write all the same.
        if !user.is_ordinary() && is_root() {
            return;
        }
        let state = user.path("home/.local/state/hotcell");
        let file = user.path("work/r.json");
        let run = || user.hotcell(["run", "--receipt", text(&file), "--", "echo", "ran"]).end();
        run().code(0);
        let first = digest(&file);
        let mode = |mode: u32| {
            use std::os::unix::fs::PermissionsExt;
            for name in
                ["hotcell.db", "hotcell.db-wal", "hotcell.db-shm", "audit.head", "quarantine.lock", ""]
            {
                let mode = if name.is_empty() { mode } else { mode & 0o666 };
                std::fs::set_permissions(state.join(name), PermissionsExt::from_mode(mode)).unwrap();
            }
        };
        mode(0o500);
        run().code(125).says("no receipt");
        assert_eq!(std::fs::read(&file).unwrap(), b"", "no receipt of an earlier run stays there");
        let named = self::run(user, &state, &file, &["echo", "ran"]);
        named.code(125).prints("").says("cannot be");
        mode(0o700);
        assert_eq!(noted(user, &state), std::slice::from_ref(&first));
        run().code(0);
        assert_eq!(noted(user, &state), [first, digest(&file)]);
    });
}

/// Whatever room is left: either the receipt is good and in the log, or the command says that it is missing.
#[test]
fn full_disk_gives_a_whole_receipt_or_none() {
    if !is_root() {
        println!("skipped: only root can mount a small file system");
        return;
    }
    let user = &User::me();
    let home = user.make_folder("small");
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m,mode=0700", "none"])
        .arg(&home)
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        println!("skipped: mounting is not possible here");
        return;
    }
    let (state, file) = (home.join(".local/state/hotcell"), user.path("work/r.json"));
    let run = || user.hotcell(["run", "--receipt", text(&file), "--", "true"]).env("HOME", &home).end();
    run().code(0);
    let mut good = vec![digest(&file)];
    let filler = home.join("filler");
    for free in [0, 4, 8, 16, 24, 32, 48, 64, 96, 128] {
        let _ = std::fs::write(&filler, vec![0; 1 << 20]);
        let size = std::fs::metadata(&filler).unwrap().len();
        std::fs::File::options().write(true).open(&filler).unwrap().set_len(size - (free << 10)).unwrap();
        let ended = run();
        match ended.code {
            Some(0) => {
                about(user, &state, &file);
                good.push(digest(&file));
            }
            _ => {
                ended.code(125).says("receipt");
                assert_eq!(std::fs::read(&file).unwrap_or_default(), b"", "{free}");
            }
        }
        std::fs::remove_file(&filler).unwrap();
        assert_eq!(noted(user, &state), good, "{free}");
    }
    run().code(0);
    std::process::Command::new("umount").arg("-l").arg(&home).status().unwrap();
}

/// Another user's log takes no receipt.
#[test]
fn state_folder_of_another_user_gets_no_receipt() {
    let Some(user) = User::ordinary() else { return };
    let theirs = user.path("theirs");
    let mine = User::me();
    run(&mine, &theirs, &mine.path("work/r.json"), &["true"]).code(0);
    let before = noted(&mine, &theirs);
    let ended = run(&user, &theirs, &user.path("work/r.json"), &["echo", "ran"]);
    ended.code(125).prints("");
    assert_eq!(noted(&mine, &theirs), before);
}
