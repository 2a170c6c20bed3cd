//! The guard: `hotcell scan`, and the gate before `run` and `test`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use hotcell_end_to_end::{Ended, User, everyone};

use crate::endings::wait_until;
use serde_json::Value;

/// Dangerous on the face of it, and inert: there is no such folder.
const HOSTILE: &str = "import os\nopen('ran', 'w').close()\nos.system('rm -rf /home/')\n";
const QUESTIONABLE: &str = "import os\nos.system('id')\n";
const HARMLESS: &str = "print('ran')\n";

fn scan(user: &User, words: &[&str]) -> Ended {
    user.hotcell(["scan"]).words(words).end()
}

fn rules(report: &Value) -> Vec<String> {
    let findings = report["findings"].as_array().expect("findings");
    findings.iter().map(|f| f["rule"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn scan_verdict_sets_exit_status() {
    everyone(|user| {
        user.write("work/bad.py", HOSTILE);
        user.write("work/odd.py", QUESTIONABLE);
        user.write("work/good.py", HARMLESS);
        user.write("work/lib.7z", b"7z\xbc\xaf\x27\x1c\0\x04 packed");
        for (file, verdict, code) in [
            ("good.py", "allow", 0),
            ("odd.py", "review", 1),
            ("bad.py", "quarantine", 3),
            ("lib.7z", "incomplete", 3),
        ] {
            let report = scan(user, &["--json", file]).code(code).silent().json();
            assert_eq!(
                (&report["verdict"], &report["artifact"]["names"][0]),
                (&verdict.into(), &file.into())
            );
            let text = scan(user, &[file]).code(code).silent().text();
            assert!(text.starts_with(&format!("{verdict}: ")), "the answer comes first: {text}");
        }
        let text = scan(user, &["bad.py"]).text();
        assert!(text.contains("critical[sh.delete.root]") && text.contains("--> bad.py:3:1"), "{text}");
        assert!(text.contains("3 | os.system('rm -rf /home/')"), "the line is shown: {text}");
        let folder = scan(user, &["--json", "."]).code(3).json();
        assert_eq!(folder["coverage"]["parts"].as_array().map(Vec::len), Some(4));
        let several = scan(user, &["--json", "good.py", "odd.py"]).code(1).json();
        assert_eq!(several["artifact"]["names"], serde_json::json!(["good.py", "odd.py"]));
        user.hotcell(["scan", "-"]).input(HOSTILE).end().code(3).silent();
        scan(user, &["nowhere.py"]).code(125).says_one_line("nowhere.py");
        scan(user, &[]).code(125).says_one_line("PATH");
    });
}

#[test]
fn unreadable_files_are_reported() {
    everyone(|user| {
        let folder = user.make_folder("work/tree");
        user.write("work/tree/good.py", HARMLESS);
        let only = |report: &Value| report["verdict"].as_str().unwrap_or_default().to_owned();
        symlink(&folder, folder.join("loop")).expect("a link");
        symlink("/etc/passwd", folder.join("outside")).expect("a link");
        std::fs::write(folder.join(OsStr::from_bytes(b"\xff.py")), HARMLESS)
            .expect("a name that is no UTF-8");
        assert_eq!(only(&scan(user, &["--json", "tree"]).code(0).json()), "allow", "links are not followed");

        user.write("work/tree/.gitignore", "hidden.py\n");
        user.write("work/tree/hidden.py", HOSTILE);
        // The project's own file hides code from a scan, which says so.
        let text = scan(user, &["tree"]).code(0).text();
        assert!(text.contains("1 left out by .gitignore (--no-ignore reads them)"), "{text}");
        assert_eq!(scan(user, &["--json", "tree"]).json()["coverage"]["ignored"], 1);
        scan(user, &["--no-ignore", "tree"]).code(3);
        // A pipe, a device and endless lines are not waited for, and hide nothing.
        let ignores = folder.join(".gitignore");
        std::fs::remove_file(&ignores).expect("removed");
        symlink("/dev/zero", &ignores).expect("a link");
        scan(user, &["tree"]).code(3);
        std::fs::remove_file(&ignores).expect("removed");
        nix::unistd::mkfifo(&ignores, nix::sys::stat::Mode::S_IRWXU).expect("a fifo");
        scan(user, &["tree"]).code(3);
        std::fs::remove_file(&ignores).expect("removed");
        std::fs::remove_file(folder.join("hidden.py")).expect("removed");

        let fifo = folder.join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("a fifo");
        let report = scan(user, &["--json", "tree"]).code(3).json();
        assert_eq!(only(&report), "incomplete");
        std::fs::remove_file(fifo).expect("removed");

        if user.is_ordinary() {
            let file = user.write("work/tree/secret.py", HARMLESS);
            std::fs::set_permissions(file, PermissionsExt::from_mode(0o000)).expect("a mode");
            let text = scan(user, &["tree"]).code(3).text();
            assert!(
                text.starts_with("incomplete: ") && text.contains("not read: secret.py: Permission denied"),
                "{text}"
            );
        }
    });
}

#[test]
fn installed_packages_are_named_as_unread() {
    let user = User::me();
    let site = "work/p/.venv/lib/python3.11/site-packages";
    user.make_folder(site);
    user.make_folder("work/p/.venv/bin");
    user.write("work/p/.venv/pyvenv.cfg", "home = /usr/bin\n");
    user.write("work/p/.venv/bin/python", "");
    user.write(format!("{site}/x.py"), HOSTILE);
    user.write("work/p/good.py", HARMLESS);
    let report = scan(&user, &["--json", "p"]).code(1).json();
    assert_eq!(rules(&report), ["guard.packages_unread"]);
    scan(&user, &["--include-packages", "p"]).code(3);
    // In a folder that no package manager installed, code is the project's own.
    user.write("work/p/.venv/lib/x.py", HOSTILE);
    scan(&user, &["p"]).code(3);
}

#[test]
fn unread_files_are_named_and_not_allowed() {
    everyone(|user| {
        user.make_folder("work/p/.git/objects");
        user.write("work/p/.git/HEAD", "ref: refs/heads/main\n");
        user.write("work/p/good.py", HARMLESS);
        user.write("work/p/data.csv", "a,b\n");
        let clean = scan(user, &["p"]).code(0).text();
        assert!(clean.starts_with("allow: ") && clean.contains("1 part read, 2 data\n"), "{clean}");
        user.write("work/p/x.pl", "system('id');\n");
        let named = scan(user, &["p"]).code(1).text();
        assert!(
            named.contains("1 not read") && named.contains("not read: x.pl: perl is not read here"),
            "{named}"
        );
        // The file is there, but is not run.
        let run = user.hotcell(["run", "-v", "--workspace", "p", "--", "true"]).end();
        run.code(0).says("x.pl: perl is not read here");
        let run = user.hotcell(["run", "--workspace", "p", "--", "true"]).end();
        assert!(!run.code(0).stderr.contains("x.pl"), "{run:?}");
        user.write("work/p/picture.py", format!("RIFF=0\n{HOSTILE}"));
        scan(user, &["p"]).code(3);
        std::fs::remove_file(user.path("work/p/picture.py")).expect("a file");
        user.write("work/p/.git/objects/evil.py", HOSTILE);
        scan(user, &["p"]).code(3);
    });
}

#[test]
fn dangerous_code_runs_only_with_permission() {
    everyone(|user| {
        let folder = user.make_folder("work/project");
        user.write("work/project/bad.py", HOSTILE);
        let run = |words: &[&str]| user.hotcell(["run", "--lang", "python"]).words(words).end();
        let refused = run(&["project/bad.py"]);
        refused
            .code(125)
            .prints("")
            .says("critical[sh.delete.root]")
            .says("hotcell: quarantined: project/bad.py:3");
        let outcome = run(&["--json", "project/bad.py"]).code(125).silent().json();
        assert_eq!(outcome["cause"], "quarantined");
        assert_eq!(
            (&outcome["scan"]["verdict"], &outcome["usage"]["wall_us"]),
            (&"quarantine".into(), &Value::Null)
        );
        // Also through standard input, and whatever the file's name.
        user.hotcell(["run", "--lang", "python", "-"]).input(HOSTILE).end().code(125).says("quarantined");
        user.write("work/bad.txt", HOSTILE);
        run(&["bad.txt"]).code(125).says("quarantined");
        user.write("work/bad.sh", "rm -rf /home/\n");
        user.hotcell(["run", "--lang", "bash", "bad.sh"]).end().code(125).says("quarantined");

        let workspace = ["run", "--workspace", "project"];
        user.hotcell(workspace).words(&["--", "true"]).end().code(125).says("quarantined: bad.py:3");
        let report = user.hotcell(workspace).words(&["--json", "--guard", "report", "--", "true"]).end();
        assert_eq!(report.code(0).json()["scan"]["verdict"], "quarantine", "it runs, and it is recorded");
        let off = user.hotcell(workspace).words(&["--json", "--guard", "off", "--", "true"]).end();
        assert_eq!(off.code(0).json()["scan"], Value::Null);
        user.hotcell(workspace).words(&["--", "true"]).env("HOTCELL_GUARD", "off").end().code(0);
        // The project's own setting counts only if it is stricter.
        user.write("work/project/hotcell.toml", "guard = \"off\"\n");
        user.hotcell(workspace).words(&["--", "true"]).end().code(125).says("guard");
        user.write("work/project/hotcell.toml", "guard = \"enforce\"\n");
        let strict = user.hotcell(workspace).words(&["--", "true"]).env("HOTCELL_GUARD", "off").end();
        strict.code(125).says("quarantined");
        assert!(!folder.join("ran").exists());

        user.write("work/odd.py", QUESTIONABLE);
        run(&["odd.py"])
            .code(0)
            .says("hotcell: guard: review: odd.py:2: Runs a command line through a shell");
        user.write("work/good.py", HARMLESS);
        run(&["good.py"]).code(0).prints("ran\n").silent();
    });
}

#[test]
fn hostile_project_is_not_tested() {
    everyone(|user| {
        user.make_folder("work/project");
        user.write("work/project/test_good.py", "def test_good():\n    pass\n");
        user.write("work/project/conftest.py", HOSTILE);
        let ended = user.hotcell(["test", "--framework", "unittest", "project"]).end();
        ended.code(3).says("critical[sh.delete.root]").says("hotcell: quarantined: conftest.py:3");
        assert!(ended.text().starts_with("quarantined: nothing was run"), "{}", ended.text());
        let report =
            user.hotcell(["test", "--json", "--framework", "unittest", "project"]).end().code(3).json();
        let (cases, complete) = (&report["cases"], &report["complete"]);
        assert_eq!(
            (report["outcome"]["cause"].as_str(), cases, complete),
            (Some("quarantined"), &serde_json::json!([]), &false.into())
        );
    });
}

#[test]
fn byte_code_beside_a_source_is_not_used() {
    let user = User::me();
    user.make_folder("work/p/__pycache__");
    user.write("work/p/m.py", "x = 1\n");
    user.write("work/p/__pycache__/m.cpython-311.pyc", b"\xa7\x0d\x0d\x0a\0\0\0\0 not what m.py says");
    let script = "printf %s \"$PYTHONPYCACHEPREFIX\"";
    let inside = user.hotcell(["run", "-v", "--workspace", "p", "--", "sh", "-c", script]).end();
    inside.code(0).prints("/tmp/.python-cache").says("__pycache__/m.cpython-311.pyc");
    // Bytecode that Python uses without checking the source is treated like other machine code.
    user.write("work/p/__pycache__/m.cpython-311.pyc", b"\xa7\x0d\x0d\x0a\x01\0\0\0 not what m.py says");
    user.hotcell(["run", "--workspace", "p", "--", "true"])
        .end()
        .code(125)
        .says("could not be read completely");
    // Without a source beside it, the bytecode is all there is to run.
    user.write("work/p/__pycache__/other.cpython-311.pyc", b"\xa7\x0d\x0d\x0a\0\0\0\0\0\0\0\0\0\0\0\0\xe3");
    user.hotcell(["run", "--workspace", "p", "--", "true"])
        .end()
        .code(125)
        .says("could not be read completely");
}

#[test]
fn user_rules_must_match_their_examples() {
    let user = User::me();
    let folder = user.make_folder("work/rules");
    user.write("work/x.py", "import zz\nzz.run()\n");
    let rule = |benign: &str| {
        format!(
            "id: own.zz\nlanguage: Python\nseverity: error\nmessage: Runs zz.\nmetadata:\n  threat: own\n  positive: [\"import zz\\nzz.run()\", \"from zz import run\\nrun()\"]\n  benign: [\"x = 1\", {benign}]\nmatch:\n  call: [zz.run]\n"
        )
    };
    scan(&user, &["x.py"]).code(0);
    scan(&user, &["--rules", "rules", "x.py"])
        .code(125)
        .says_one_line("there are no rules (*.yml) and no feeds (*.feed)");
    user.write("work/rules/own.yml", rule("\"import zz\\nzz.stop()\""));
    let report = scan(&user, &["--json", "--rules", "rules", "x.py"]).code(3).json();
    assert_eq!(rules(&report), ["own.zz"]);
    user.hotcell(["run", "--rules", "rules", "--lang", "python", "x.py"]).end().code(125).says("own.zz");
    // Pinned rules are accepted unchanged, and refused otherwise.
    let told = scan(&user, &["-v", "--rules", "rules", "x.py"]);
    told.code(3);
    let digest =
        told.stderr.lines().find_map(|l| Some(l.split_once("rules_digest of the rules of your own: ")?.1));
    let digest = digest.expect("-v names the digest").to_owned();
    let pinned = |args: &[&str]| user.hotcell(args).env("HOTCELL_RULES_DIGEST", &digest).end();
    pinned(&["scan", "--rules", "rules", "x.py"]).code(3);
    pinned(&["scan", "x.py"]).code(125).says_one_line("no folder of rules is named");
    let tree = "id: own.tree\nlanguage: python\nseverity: warning\nmessage: m\nrule: { pattern: $A.run() }\nmetadata:\n  capability: c\n  positive: [b.run(), c.run()]\n  benign: [b.run(1), run()]\n";
    user.write("work/rules/tree.yml", tree);
    pinned(&["scan", "--rules", "rules", "x.py"]).code(125).says_one_line("rules_digest").says(&digest);
    pinned(&["run", "--rules", "rules", "--lang", "python", "x.py"]).code(125).says("not the pinned ones");
    assert_eq!(
        rules(&scan(&user, &["--json", "--rules", "rules", "x.py"]).code(3).json()),
        ["own.zz", "own.tree"]
    );
    user.write("work/rules/own.yml", rule("\"import zz\\nzz.run()\""));
    scan(&user, &["--rules", "rules", "x.py"]).code(125).says("own.zz").says("benign");
    user.write("work/rules/own.yml", "id: [");
    scan(&user, &["--rules", "rules", "x.py"]).code(125).says("own.yml");
    assert!(Path::new(&folder).is_dir());
}

#[test]
fn feeds_yield_notes_and_bad_feeds_are_refused() {
    let user = User::me();
    user.make_folder("work/rules");
    user.write("work/bad.py", "import os\n# c\ndef go(x):\n    print(os.path.join(x, 'a'))\ngo('b')\n");
    let told = scan(&user, &["--fingerprint", "bad.py"]);
    told.code(0);
    let line = String::from_utf8_lossy(&told.stdout).trim().to_owned();
    assert!(line.len() == 72 && line.ends_with("  bad.py") && told.stderr.is_empty(), "{line}");
    user.write("work/large.py", "x = f(1)\n".repeat(1 << 19));
    scan(&user, &["--fingerprint", "bad.py", "large.py"]).code(0).says("fingerprints are missing");
    user.write("work/rules/known.feed", format!("# A campaign.\n{line}\npypi requests\n"));
    user.write(
        "work/other.py",
        "import os\ndef run(path):  # other\n  print(os.path.join(path, \"a\"))\n\nrun(\"b\")\n",
    );
    user.write("work/typo.py", "import reqeusts\n");
    let read = |file: &str| scan(&user, &["--json", "--rules", "rules", file]).code(0).json();
    let report = read("other.py");
    assert_eq!(
        (rules(&report), report["verdict"].as_str()),
        (vec!["feed.known_code".to_owned()], Some("allow"))
    );
    let report = read("typo.py");
    assert_eq!(
        (rules(&report), report["verdict"].as_str()),
        (vec!["feed.similar_name".to_owned()], Some("allow"))
    );
    assert_eq!(rules(&scan(&user, &["--json", "typo.py"]).code(0).json()), Vec::<String>::new());
    // A report under another feed is not used again.
    user.write("work/rules/known.feed", "pypi reqeusts\n");
    assert_eq!((rules(&read("other.py")), rules(&read("typo.py"))), (Vec::new(), Vec::new()));
    user.write("work/rules/known.feed", "pypi requests\nnpm\n");
    let refused = "known.feed: line 2: there are no names of packages behind npm";
    scan(&user, &["--rules", "rules", "typo.py"]).code(125).says_one_line(refused);
    user.hotcell(["run", "--rules", "rules", "--lang", "python", "typo.py"]).end().code(125).says(refused);
    user.write("work/short.py", "import os\n");
    scan(&user, &["--fingerprint", "short.py"]).code(125).says_one_line("nothing there has a fingerprint");
}

/// Parsers of hostile bytes have no capabilities, and do not outlive the process that asked them.
#[test]
fn guard_reads_files_in_sandbox() {
    everyone(|user| {
        user.make_folder("work/much");
        let text = "x = [1, 2, {'a': f(3)}]\n".repeat(8000);
        for number in 0..60 {
            user.write(format!("work/much/{number}.py"), &text);
        }
        let mut child = user.hotcell(["scan", "much"]).start();
        let ours = std::fs::read_link("/proc/self/ns/net").expect("a namespace");
        let mut reader = None;
        wait_until("a reader", || {
            reader = descendants(child.id()).into_iter().find(|id| {
                let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
                line.split(|b| *b == 0).nth(1) == Some(b"guard-reader")
            });
            reader.is_some()
        });
        let reader = reader.expect("a reader");
        let status = std::fs::read_to_string(format!("/proc/{reader}/status")).expect("it reads");
        for line in ["NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0000000000000000"] {
            assert!(status.contains(line), "{line} in {status}");
        }
        // The kernel tells an ordinary user nothing about the sandbox of another.
        if let Ok(theirs) = std::fs::read_link(format!("/proc/{reader}/ns/net")) {
            assert_ne!(ours, theirs);
        }
        child.kill().expect("killed");
        child.wait().expect("it ends");
        wait_until("the reader is gone", || !Path::new(&format!("/proc/{reader}")).exists());
    });
}

/// All descendants of a process.
fn descendants(of: u32) -> Vec<u32> {
    let mut all = vec![of];
    let mut at = 0;
    while let Some(&parent) = all.get(at) {
        at += 1;
        for task in std::fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten() {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            all.extend(children.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
        }
    }
    all
}

#[test]
fn sarif_output_matches_its_schema() {
    let Some(schema) = hotcell_end_to_end::sarif::schema() else { return };
    let schema = jsonschema::validator_for(&schema).expect("a schema");
    let valid = |log: &Value| {
        let wrong: Vec<String> =
            schema.iter_errors(log).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(wrong.is_empty(), "{wrong:#?}\n{log:#}");
    };
    let log_of = |ended: &Ended| -> Value { serde_json::from_str(&ended.text()).expect("a log") };
    let mut broken = serde_json::json!({ "version": "2.1.0", "runs": [{ "tool": { "driver": {} } }] });
    assert!(!schema.is_valid(&broken), "the validator tells a bad log from a good one");
    broken["runs"][0]["tool"]["driver"]["name"] = "x".into();
    valid(&broken);
    everyone(|user| {
        user.make_folder("work/p/node_modules/x");
        user.write("work/p/bad one.py", HOSTILE);
        user.write("work/p/good.py", HARMLESS);
        user.write("work/p/lib.so", b"\x7fELF\0\0\0\0");
        user.write("work/p/n.ipynb", r##"{"cells": [{"cell_type": "code", "source": "!rm -rf /home/", "outputs": []}], "nbformat": 4}"##);
        let log = log_of(scan(user, &["--sarif", "p"]).code(3).silent());
        valid(&log);
        let run = &log["runs"][0];
        assert_eq!(run["invocations"][0]["executionSuccessful"], false, "machine code was not read");
        let places: Vec<&Value> = (0..run["results"].as_array().map_or(0, Vec::len))
            .map(|at| &run["results"][at]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"])
            .collect();
        for file in ["p/bad%20one.py", "p/n.ipynb"] {
            assert!(places.iter().any(|place| *place == file), "{file} in {places:?}");
        }
        let clean = log_of(scan(user, &["--sarif", "p/good.py"]).code(0).silent());
        valid(&clean);
        assert_eq!(clean["runs"][0]["results"], serde_json::json!([]));
        valid(&log_of(user.hotcell(["scan", "--sarif", "-"]).input(HOSTILE).end().code(3).silent()));
        scan(user, &["--sarif", "--json", "p"]).code(125).json();
    });
}
