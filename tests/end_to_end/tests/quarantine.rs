//! Refused artifacts, from the refusal to a person's decision: `hotcell quarantine`, `hotcell audit`, and the
//! tools of MCP.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use hotcell_end_to_end::mcp::{Local, SESSIONS};
use hotcell_end_to_end::{Call, Ended, User, everyone, is_root};
use serde_json::{Value, json};

/// Dangerous on the face of it, and harmless in a sandbox: its home folder is there to be deleted.
const HOSTILE: &str = "import os\nprint('ran')\nos.system('rm -rf /home/')\n";

fn quarantine(user: &User, words: &[&str]) -> Ended {
    user.hotcell(["quarantine"]).words(words).end()
}

fn run(user: &User, file: &str) -> Ended {
    user.hotcell(["run", "--lang", "python", file]).end()
}

fn items(user: &User) -> Vec<Value> {
    quarantine(user, &["list", "--json"]).code(0).silent().json()["items"]
        .as_array()
        .cloned()
        .expect("a list")
}

fn item(user: &User, id: &str) -> Value {
    quarantine(user, &["show", "--json", id]).code(0).json()["items"][0].clone()
}

fn id_of(refused: &Ended) -> String {
    let id = refused.stderr.split("hotcell quarantine show ").nth(1).and_then(|rest| rest.get(..8));
    id.unwrap_or_else(|| panic!("no id is named: {refused:#?}")).to_owned()
}

fn refused(user: &User, file: &str) -> String {
    let ended = run(user, file);
    ended.code(125).prints("").says("nothing was run");
    id_of(&ended)
}

fn ran(ended: &Ended) -> bool {
    ended.text().starts_with("ran\n")
}

fn release(user: &User, id: &str, more: &[&str]) -> Ended {
    user.hotcell(["quarantine", "release", id, "--reason", "looked at it"]).words(more).end()
}

fn audit_is_good(user: &User) {
    let text = user.hotcell(["audit", "verify"]).end().code(0).silent().text();
    assert!(text.starts_with("good: "), "{text}");
}

#[test]
fn quarantined_source_runs_after_release() {
    everyone(|user| {
        quarantine(user, &["list"]).code(0).prints("").says("nothing is held");
        assert!(!user.path("home/.local").exists(), "looking makes nothing");
        user.write("work/bad.py", HOSTILE);
        let id = refused(user, "bad.py");
        let outcome = user.hotcell(["run", "--json", "--lang", "python", "bad.py"]).end().code(125).json();
        assert_eq!(outcome["scan"]["quarantine"], json!({ "id": id, "state": "held" }));
        let all = items(user);
        assert_eq!((all.len(), &all[0]["seen"], &all[0]["verdict"]), (1, &2.into(), &"quarantine".into()));
        assert_eq!(all[0]["sha256"], outcome["scan"]["artifact"]["sha256"]);
        let page = quarantine(user, &["show", &id[..5]]).code(0).silent().text();
        for words in [&format!("{id}: held"), "critical[sh.delete.root]", "3 | os.system('rm -rf /home/')"] {
            assert!(page.contains(words), "{page}");
        }
        assert!(page.contains("seen through shell"), "{page}");
        quarantine(user, &["request", &id, "--reason", "need it"]).code(0);
        assert_eq!(item(user, &id)["state"], "under_review");
        run(user, "bad.py").code(125).says("Its release is asked for");
        release(user, &id, &[]).code(0).silent();
        let scanned = user.hotcell(["scan", "--json", "bad.py"]).end().code(3).json();
        assert_eq!(scanned["quarantine"]["state"], "released", "looking uses nothing up");
        let once = run(user, "bad.py");
        assert!(ran(&once), "{once:#?}");
        once.code(0).says(&format!("released it as {id}"));
        run(user, "bad.py").code(125).prints("").says("it is used up");
        assert_eq!(item(user, &id)["state"], "held");
        quarantine(user, &["reject", &id, "--reason", "no, thanks"]).code(0);
        run(user, "bad.py").code(125).says("was rejected (no, thanks)");
        audit_is_good(user);
        let log = user.hotcell(["audit", "list", "--json"]).end().code(0).json();
        let actions: Vec<_> = log["entries"].as_array().unwrap().iter().map(|e| &e["action"]).collect();
        assert_eq!(actions, ["hold", "request", "release", "use", "lapse", "reject"]);
        let text = user.hotcell(["audit", "list"]).end().code(0).text();
        assert_eq!(text.lines().count(), 6);
        assert!(text.contains("by cli; one run until"), "{text}");
        // The contents are removed, the record stays; refused again, the artifact is held again.
        let object = item(user, &id)["files"][0]["sha256"].as_str().unwrap().to_owned();
        let kept = user.path("home/.local/state/hotcell/objects").join(&object[..2]).join(&object);
        let raw = std::fs::read(&kept).expect("it is kept");
        assert_eq!(std::fs::metadata(&kept).unwrap().permissions().mode() & 0o7777, 0o400);
        assert!(!raw.windows(6).any(|w| w == b"rm -rf"), "nothing recognises it");
        quarantine(user, &["purge", &id]).code(0);
        assert!(!kept.exists() && item(user, &id)["state"] == "purged");
        quarantine(user, &["purge", &id]).code(125).says_one_line("it is purged");
        quarantine(user, &["list"]).code(0).prints("").says("nothing is held");
        assert!(quarantine(user, &["list", "-v"]).code(0).text().contains("purged"));
        assert_eq!(refused(user, "bad.py"), id);
        audit_is_good(user);
    });
}

#[test]
fn release_binds_bytes_language_and_time() {
    everyone(|user| {
        user.write("work/bad.py", HOSTILE);
        let id = refused(user, "bad.py");
        release(user, &id, &["--max-uses", "5"]).code(0);
        user.write("work/bad.py", format!("{HOSTILE}#"));
        let other = refused(user, "bad.py");
        assert_ne!(other, id, "one byte");
        user.write("work/bad.py", HOSTILE);
        let bash = user.hotcell(["run", "--lang", "bash", "bad.py"]).end();
        bash.code(125).says("nothing was run");
        assert_ne!(id_of(&bash), id, "another language");
        // Another name makes no difference.
        user.write("work/same.txt", HOSTILE);
        assert!(ran(&run(user, "same.txt")));
        release(user, &id, &["--expires", "1s"]).code(0);
        std::thread::sleep(std::time::Duration::from_millis(1100));
        run(user, "bad.py").code(125).says("it has expired");
        assert_eq!(item(user, &id)["state"], "held");
        audit_is_good(user);
    });
}

#[test]
fn project_is_one_quarantine_item() {
    everyone(|user| {
        user.make_folder("work/p");
        user.write("work/p/test_bad.py", HOSTILE);
        user.write("work/p/good.py", "print(1)\n");
        let workspace = || user.hotcell(["run", "--workspace", "p", "--", "echo", "ran"]);
        let id = id_of(workspace().end().code(125));
        let tests = || user.hotcell(["test", "--json", "--framework", "unittest", "p"]).end();
        assert_eq!(tests().code(3).json()["outcome"]["scan"]["quarantine"]["id"], id.as_str());
        assert_eq!(
            user.hotcell(["scan", "--json", "p"]).end().code(3).json()["quarantine"]["id"],
            id.as_str()
        );
        let shown = item(user, &id);
        let files: Vec<_> = shown["files"].as_array().unwrap().iter().map(|f| &f["part"]).collect();
        assert_eq!(files, ["test_bad.py"], "what nobody has to look at is not kept");
        release(user, &id, &["--max-uses", "9"]).code(0);
        assert!(ran(&workspace().end()));
        let report = tests().json();
        assert_eq!(report["outcome"]["scan"]["quarantine"], json!({ "id": id, "state": "released" }));
        // A harmless additional file makes another project.
        user.write("work/p/good.py", "print(2)\n");
        assert_ne!(id_of(workspace().end().code(125)), id);
        user.write("work/p/good.py", "print(1)\n");
        assert!(ran(&workspace().end()));
        // So does another target of a link.
        std::os::unix::fs::symlink("good.py", user.path("work/p/link.py")).unwrap();
        assert_ne!(id_of(workspace().end().code(125)), id);
        std::fs::remove_file(user.path("work/p/link.py")).unwrap();
        // A release cannot name an artifact without a digest.
        nix::unistd::mkfifo(&user.path("work/p/fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let nameless = id_of(workspace().end().code(125));
        release(user, &nameless, &[]).code(125).says_one_line("fifo");
        audit_is_good(user);
    });
}

#[test]
fn single_use_release_permits_one_run() {
    everyone(|user| {
        user.write("work/bad.py", HOSTILE);
        let id = refused(user, "bad.py");
        release(user, &id, &[]).code(0);
        let started: Vec<_> =
            (0..4).map(|_| user.hotcell(["run", "--lang", "python", "bad.py"]).start()).collect();
        let ended = started.into_iter().map(|child| child.wait_with_output().expect("it ends"));
        assert_eq!(ended.filter(|output| output.stdout.starts_with(b"ran\n")).count(), 1);
        audit_is_good(user);
    });
}

#[test]
fn changed_rules_void_release_and_rescan() {
    let user = User::me();
    user.write("work/bad.py", HOSTILE);
    user.make_folder("work/rules");
    user.write(
        "work/rules/own.yml",
        "id: own.print\nlanguage: Python\nseverity: error\nmessage: Prints.\nmetadata:\n  threat: own\n  \
         positive: [\"print('a')\", \"print('b')\"]\n  benign: [\"x = 1\", \"input()\"]\nmatch:\n  call: [print]\n",
    );
    let id = refused(&user, "bad.py");
    release(&user, &id, &["--max-uses", "3"]).code(0);
    let with_rules = || user.hotcell(["run", "--rules", "rules", "--lang", "python", "bad.py"]).end();
    with_rules().code(125).prints("").says("it was made under other rules");
    run(&user, "bad.py").code(125).says("nothing was run");
    // Conversely, the report is made from the stored bytes, under the rules in force.
    std::fs::remove_file(user.path("work/bad.py")).unwrap();
    let rules = |item: &Value| -> Vec<String> {
        let findings = item["findings"].as_array().unwrap();
        findings.iter().map(|f| f["rule"].as_str().unwrap().to_owned()).collect()
    };
    assert!(!rules(&item(&user, &id)).contains(&"own.print".to_owned()));
    let shown = quarantine(&user, &["show", "--rules", "rules", "--json", &id]).code(0).json();
    assert!(rules(&shown["items"][0]).contains(&"own.print".to_owned()), "{shown:#}");
    release(&user, &id, &["--rules", "rules"]).code(0);
    user.write("work/bad.py", HOSTILE);
    assert!(ran(&with_rules()));
    audit_is_good(&user);
}

#[test]
fn second_person_must_be_another_user() {
    if !is_root() {
        eprintln!("not tried: only root can be two users");
        return;
    }
    let login = std::fs::read_to_string("/proc/self/loginuid").unwrap_or_default();
    if !["", "4294967295"].contains(&login.trim()) {
        eprintln!("not tried: who is logged in here is user {}, whatever it becomes", login.trim());
        return;
    }
    let user = User::me();
    user.write("work/bad.py", HOSTILE);
    let config = user.write("config.toml", "[quarantine]\ntwo_persons = true\n");
    let with = |call: Call| call.env("HOTCELL_CONFIG", &config).end();
    let id = id_of(with(user.hotcell(["run", "--lang", "python", "bad.py"])).code(125));
    let decide = ["quarantine", "release", &id, "--reason", "r"];
    with(user.hotcell(decide)).code(125).says_one_line("nobody has asked for it");
    with(user.hotcell(["quarantine", "request", &id, "--reason", "r"])).code(0);
    with(user.hotcell(decide)).code(125).says_one_line("another person");
    // A configuration without the rule does not revoke it.
    user.hotcell(decide).end().code(125).says_one_line("another person");
    let another = hotcell_end_to_end::Weak::default().within(&["setpriv", "--ruid", "65534", "--"]);
    with(user.hotcell_on(&another, decide)).code(0);
    assert_eq!(item(&user, &id)["decision"]["uid"], 65_534);
    assert!(ran(&with(user.hotcell(["run", "--lang", "python", "bad.py"]))));
    audit_is_good(&user);
    // A project's own file may require two approvals, never reduce them to one.
    let user = User::me();
    user.make_folder("work/p");
    user.write("work/p/bad.py", HOSTILE);
    for (text, word) in [
        ("[quarantine]\ntwo_persons = false\n", "quarantine.two_persons"),
        ("[quarantine]\nretention = \"1m\"\n", "quarantine.retention"),
        ("[quarantine]\nretentoin = \"1m\"\n", "retention"),
    ] {
        user.write("work/p/hotcell.toml", text);
        user.hotcell(["run", "--workspace", "p", "--", "true"]).end().code(125).says(word);
    }
    user.write("work/p/hotcell.toml", "[quarantine]\ntwo_persons = true\n");
    let id = id_of(user.hotcell(["run", "--workspace", "p", "--", "true"]).end().code(125));
    release(&user, &id, &[]).code(125).says_one_line("nobody has asked for it");
}

#[test]
fn retention_follows_user_configuration() {
    let user = User::me();
    let config = |text: &str| user.write("config.toml", text);
    for (text, word) in
        [("[quarantine]\nretention = \"1s\"\n", "at least a minute"), ("quarantine = 3\n", "quarantine")]
    {
        let file = config(text);
        user.hotcell(["quarantine", "list"]).env("HOTCELL_CONFIG", file).end().code(125).says_one_line(word);
    }
    user.write("work/bad.py", HOSTILE);
    let id = refused(&user, "bad.py");
    let days = |from: &Value, to: &Value| {
        let day = |t: &Value| t.as_str().unwrap()[..10].to_owned();
        (day(from), day(to))
    };
    let file = config("[quarantine]\nretention = \"90d\"\n");
    let long = user.hotcell(["quarantine", "show", "--json", &id]).env("HOTCELL_CONFIG", file).end();
    let long = long.code(0).json()["items"][0].clone();
    let usual = item(&user, &id);
    assert_ne!(days(&usual["last_seen"], &usual["expires"]), days(&long["last_seen"], &long["expires"]));
    quarantine(&user, &["purge", "--expired"]).code(0).prints("nothing was old enough\n");
}

#[test]
fn quarantine_mistakes_suggest_correction() {
    everyone(|user| {
        user.write("work/bad.py", HOSTILE);
        let nothing = quarantine(user, &["show", "abc"]);
        nothing.code(125).says_one_line("nothing is held");
        let id = refused(user, "bad.py");
        let mut wrong = id.clone();
        wrong.replace_range(7.., if id.ends_with('0') { "1" } else { "0" });
        quarantine(user, &["show", &wrong]).code(125).says_one_line(&format!("did you mean {id}?"));
        quarantine(user, &["show", "zz"]).code(125).says_one_line("hotcell quarantine list shows");
        let error = quarantine(user, &["release", "--json", "zz", "--reason", "r"]).code(125).silent().json();
        assert_eq!((&error["code"], &error["field"]), (&"unknown_name".into(), &"ID".into()));
        for (words, word) in [
            (&["release", &id][..], "--reason"),
            (&["release", &id, "--reason", " "], "a reason cannot be empty"),
            (&["release", &id, "--reason", &"x".repeat(2000)], "at most 1000"),
            (&["release", &id, "--reason", "r", "--max-uses", "0"], "1 to 1000"),
            (&["release", &id, "--reason", "r", "--expires", "0"], "at most 365d"),
            (&["release", &id, "--reason", "r", "--expires", "soon"], "such as 60s"),
            (&["purge"], "ID"),
            (&["purge", &id, "--expired"], "--expired"),
            (&["relaese", &id], "did you mean release?"),
        ] {
            quarantine(user, words).code(125).says_one_line(word);
        }
        for words in
            [&["quarantine", "--help"][..], &["quarantine", "release", "--help"], &["audit", "--help"]]
        {
            user.hotcell(words).end().code(0).silent();
        }
        assert!(user.hotcell(["completions", "bash"]).end().text().contains("quarantine"));
        user.hotcell(["run", "--guard", "of", "--", "true"])
            .end()
            .code(125)
            .says_one_line("did you mean off?");
    });
}

#[test]
fn altered_audit_log_is_found() {
    everyone(|user| {
        user.write("work/bad.py", HOSTILE);
        let id = refused(user, "bad.py");
        release(user, &id, &[]).code(0);
        let end = user.hotcell(["audit", "verify", "--json"]).end().code(0).json()["head"]["hash"].clone();
        let noted = ["audit", "verify", "--expect-head", end.as_str().unwrap()];
        user.hotcell(noted).end().code(0);
        let state = user.path("home/.local/state/hotcell");
        let bad = |word: &str| {
            user.hotcell(["audit", "verify"]).end().code(125).prints("").says_one_line(word);
            let log = user.hotcell(["audit", "verify", "--json"]).end().code(125).silent().json();
            assert!(log["problem"].as_str().unwrap().contains(word), "{log:#}");
        };
        // Changes a byte of the database and its log, as an editor would.
        let place = |bytes: &[u8], what: &[u8]| {
            let at: Vec<_> = bytes.windows(what.len()).enumerate().filter(|(_, w)| *w == what).collect();
            at.iter().map(|(at, _)| *at).collect::<Vec<_>>()
        };
        let checkpointed: PathBuf = state.join("hotcell.db");
        user.hotcell(["audit", "verify"]).end().code(0);
        merge_log(user, &checkpointed);
        let good = std::fs::read(&checkpointed).unwrap();
        let mut changed = good.clone();
        let all = place(&changed, b"looked at it");
        assert!(!all.is_empty());
        for at in all {
            changed[at] = b'L';
        }
        std::fs::write(&checkpointed, &changed).unwrap();
        bad("was changed");
        std::fs::write(&checkpointed, &good).unwrap();
        audit_is_good(user);
        let head = std::fs::read(state.join("audit.head")).unwrap();
        std::fs::write(state.join("audit.head"), format!("9 {:064x}\n", 255)).unwrap();
        bad("was taken out");
        std::fs::remove_file(state.join("audit.head")).unwrap();
        bad("is gone");
        std::fs::write(state.join("audit.head"), head).unwrap();
        audit_is_good(user);
        std::fs::remove_file(&checkpointed).unwrap();
        user.hotcell(noted).end().code(125).says_one_line("there is no log any more");
        bad("there is no log any more");
    });
}

/// Moves SQLite's log into the database file, so that there is one file to change.
fn merge_log(user: &User, database: &std::path::Path) {
    let script =
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('PRAGMA wal_checkpoint(TRUNCATE)')";
    let mut python = user.program("/usr/bin/python3".as_ref());
    let done = python.args(["-c", script]).arg(database).status().expect("python3");
    assert!(done.success());
    for end in ["-wal", "-shm"] {
        let mut log = database.as_os_str().to_owned();
        log.push(end);
        let _ = std::fs::remove_file(log);
    }
}

#[test]
fn unstorable_item_is_still_refused() {
    everyone(|user| {
        user.write("work/bad.py", HOSTILE);
        refused(user, "bad.py");
        // Without a place to keep it: no home, a file in the way.
        let nowhere = user.hotcell(["run", "--lang", "python", "bad.py"]).env("HOME", "").end();
        nowhere.code(125).prints("").says("It could not be kept for a review: there is no place");
        user.make_folder("other");
        user.make_folder("other/.local");
        user.write("other/.local/state", "in the way");
        let other = user.path("other");
        let in_the_way = user.hotcell(["run", "--lang", "python", "bad.py"]).env("HOME", &other).end();
        in_the_way.code(125).prints("").says("It could not be kept for a review");
        let outcome = user.hotcell(["run", "--json", "--lang", "python", "bad.py"]).env("HOME", &other).end();
        let outcome = outcome.code(125).json();
        assert_eq!(
            (&outcome["cause"], &outcome["scan"]["quarantine"]),
            (&"quarantined".into(), &Value::Null)
        );
        user.hotcell(["scan", "--quarantine", "bad.py"]).env("HOME", &other).end().code(125).prints("");
        user.hotcell(["scan", "bad.py"]).env("HOME", "").end().code(3).silent();
        user.hotcell(["scan", "bad.py"]).env("HOME", &other).end().code(3).says("whether it is held");
        if user.is_ordinary() {
            // Read-only: the quarantine can be viewed, but not changed.
            let state = user.path("home/.local/state/hotcell");
            let mode = |mode| {
                let set =
                    |path: PathBuf, m| std::fs::set_permissions(path, PermissionsExt::from_mode(m)).unwrap();
                set(state.join("hotcell.db"), mode & 0o666);
                set(state.clone(), mode);
            };
            mode(0o500);
            run(user, "bad.py").code(125).prints("").says("It could not be kept for a review");
            let id = items(user)[0]["id"].as_str().unwrap().to_owned();
            release(user, &id, &[]).code(125).says("--state DIR");
            mode(0o700);
            run(user, "bad.py").code(125).says("It is held as");
        }
    });
}

#[test]
fn full_disk_stores_and_runs_nothing() {
    if !is_root() {
        eprintln!("not tried: only root can mount");
        return;
    }
    let user = User::me();
    let home = user.make_folder("small");
    let mount = ["-t", "tmpfs", "-o", "size=1m,mode=0700", "none"];
    if !std::process::Command::new("mount").args(mount).arg(&home).status().is_ok_and(|s| s.success()) {
        eprintln!("not tried: mounting is not possible here");
        return;
    }
    user.write("work/bad.py", HOSTILE);
    let run = |file: &str| user.hotcell(["run", "--lang", "python", file]).env("HOME", &home).end();
    run("bad.py").code(125).says("It is held as");
    let _ = std::fs::write(home.join("filler"), vec![0; 1 << 20]);
    user.write("work/more.py", format!("{HOSTILE}# {}\n", "x".repeat(100_000)));
    run("more.py").code(125).prints("").says("It could not be kept for a review").says("nothing was run");
    std::fs::remove_file(home.join("filler")).unwrap();
    let list = || user.hotcell(["quarantine", "list", "--json"]).env("HOME", &home).end().code(0).json();
    assert_eq!(list()["items"].as_array().map(Vec::len), Some(1), "nothing half");
    user.hotcell(["audit", "verify"]).env("HOME", &home).end().code(0);
    run("more.py").code(125).says("It is held as");
    assert_eq!(list()["items"].as_array().map(Vec::len), Some(2));
    std::process::Command::new("umount").arg("-l").arg(&home).status().unwrap();
}

#[test]
fn hostile_names_and_reasons_move_no_cursor() {
    everyone(|user| {
        let folder = user.make_folder("work/p");
        for name in [&b"\x1b[2J\x07.py"[..], b"\xff\xfe.py", "\u{202e}yp.py".as_bytes(), b"a!b c\n.py"] {
            let path = folder.join(OsStr::from_bytes(name));
            std::fs::write(&path, HOSTILE).unwrap();
            user.own(&path);
        }
        let scanned = user.hotcell(["scan", "--quarantine", "p"]).end().code(3).silent().text();
        let id = items(user)[0]["id"].as_str().unwrap().to_owned();
        quarantine(user, &["request", &id, "--reason", "\x1b]0;x\x07 \u{202e}please\nnow"]).code(0);
        let shown = quarantine(user, &["show", &id]).code(0).text();
        let list = quarantine(user, &["list"]).code(0).text();
        let log = user.hotcell(["audit", "list"]).end().code(0).text();
        assert!(shown.contains("p.py") && shown.contains("3 | os.system"), "{shown}");
        for text in [scanned, shown, list, log] {
            assert!(!text.contains(['\x1b', '\x07', '\u{202e}']), "{text:?}");
        }
        assert_eq!(item(user, &id)["files"].as_array().map(Vec::len), Some(4));
        audit_is_good(user);
    });
}

#[test]
fn scan_quarantines_only_on_request() {
    let user = User::me();
    user.write("work/bad.py", HOSTILE);
    user.write("work/good.py", "print(1)\n");
    let scan =
        |words: &[&str]| user.hotcell(["scan", "--json"]).words(words).end().json()["quarantine"].clone();
    assert_eq!(scan(&["bad.py"]), Value::Null);
    assert_eq!(items(&user).len(), 0);
    assert_eq!(scan(&["--quarantine", "good.py"]), Value::Null);
    let held = scan(&["--quarantine", "bad.py"]);
    assert_eq!(held["state"], "held");
    assert_eq!(scan(&["bad.py"]), held);
    assert_eq!(scan(&["good.py", "bad.py"]), held);
    let text = user.hotcell(["scan", "bad.py"]).end().code(3).text();
    assert!(
        text.contains(&format!("held as {0}: hotcell quarantine show {0}", held["id"].as_str().unwrap()))
    );
    let piped = user.hotcell(["scan", "--quarantine", "--json", "-"]).input(HOSTILE).end().code(3).json();
    let piped = piped["quarantine"]["id"].as_str().unwrap().to_owned();
    release(&user, &piped, &[]).code(125).says_one_line("what it is run as is not known");
    // The item is of a plain source file, and a run uses its release.
    assert_eq!(refused(&user, "bad.py"), held["id"]);
    release(&user, held["id"].as_str().unwrap(), &[]).code(0);
    assert!(ran(&run(&user, "bad.py")));
}

#[test]
fn model_sees_finding_and_can_only_request() {
    everyone(|user| {
        let mut client = Local::start(user, SESSIONS);
        assert_eq!(client.good("quarantine_list", &json!({}))["items"], json!([]));
        let code = json!({ "language": "python", "code": HOSTILE });
        let run = client.good("run_code", &code);
        assert_eq!(run["cause"], "quarantined");
        let id = run["scan"]["quarantine"]["id"].as_str().expect("an id").to_owned();
        let files = json!({ "files": [{ "path": "main.py", "content": HOSTILE }] });
        let scanned = client.good("scan_artifact", &files);
        assert_eq!(
            (&scanned["verdict"], &scanned["quarantine_id"]),
            (&"quarantine".into(), &id.as_str().into())
        );
        let shown = client.good("quarantine_show", &json!({ "id": id }));
        assert_eq!(shown["findings"][0]["line"], 3);
        let asked = client.good("quarantine_request", &json!({ "id": id, "reason": "it is only a test" }));
        assert_eq!(asked["state"], "under_review");
        let listed = client.good("quarantine_list", &json!({}));
        let message = item(user, &id)["findings"][0]["message"].as_str().unwrap().to_owned();
        for told in [&run, &scanned, &shown, &asked, &listed] {
            let text = told.to_string();
            assert!(!text.contains(message.trim_end_matches('.')) && !text.contains("rm -rf"), "{text}");
            assert!(!text.contains("policy") && !text.contains(user.path("").to_str().unwrap()), "{text}");
        }
        // No tool decides, and items of other callers are not shown.
        let tools = client.request("tools/list", json!({}));
        let names: Vec<_> =
            tools["result"]["tools"].as_array().unwrap().iter().filter_map(|t| t["name"].as_str()).collect();
        assert!(!names.iter().any(|n| n.contains("release") || n.contains("reject") || n.contains("purge")));
        user.write("work/other.py", format!("{HOSTILE}#"));
        let other = refused(user, "other.py");
        assert!(client.bad("quarantine_show", &json!({ "id": other })).contains("no such item"));
        assert!(
            client.bad("quarantine_request", &json!({ "id": other, "reason": "x" })).contains("no such item")
        );
        assert!(client.bad("quarantine_request", &json!({ "id": id, "reason": " " })).contains("reason"));
        assert!(client.bad("scan_artifact", &json!({})).contains("workspace_id"));
        assert_eq!(client.good("quarantine_list", &json!({}))["items"].as_array().map(Vec::len), Some(1));
        // A person decides; then the same code runs, once.
        release(user, &id, &[]).code(0);
        assert_eq!(client.good("quarantine_show", &json!({ "id": id }))["runs_left"], 1);
        let run = client.good("run_code", &code);
        assert!(run["stdout"]["text"].as_str().unwrap().starts_with("ran\n"), "{run:#}");
        assert_eq!(client.good("run_code", &code)["cause"], "quarantined");
        quarantine(user, &["reject", &id, "--reason", "no"]).code(0);
        let again = client.bad("quarantine_request", &json!({ "id": id, "reason": "please" }));
        assert!(again.contains("a person said no"), "{again}");
        let log = user.hotcell(["audit", "list", "--json"]).end().code(0).json();
        let by_model = log["entries"].as_array().unwrap().iter().filter(|e| e["channel"] == "mcp:stdio");
        let actions: Vec<_> = by_model.map(|e| e["action"].as_str().unwrap()).collect();
        assert_eq!(actions, ["hold", "request", "approval_ask", "use", "approval_use"]);
        audit_is_good(user);
        let (code, _, errors) = client.end();
        assert_eq!((code, errors.as_str()), (Some(0), ""));
    });
}
