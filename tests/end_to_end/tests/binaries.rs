//! Code that runs unread: machine code that a person allowed by its bytes, and files that a build tool kept
//! of an earlier run; and the caches.

use hotcell_end_to_end::{Ended, User, everyone, rust};

fn run(user: &User, words: &[&str]) -> Ended {
    user.hotcell(["run", "--workspace"]).words(words).end()
}

fn approvals(user: &User, words: &[&str]) -> Ended {
    user.hotcell(["approvals"]).words(words).end()
}

#[test]
fn allowed_binary_runs_and_is_reported() {
    everyone(|user| {
        let code = std::fs::read("/bin/true").expect("a program");
        user.make_folder("work/p/pk");
        let so = user.write("work/p/pk/_fast.so", &code);
        user.write("work/p/a.py", "print('ran')\n");
        let project = user.path("work/p");
        let (project, file) = (project.to_str().unwrap(), so.to_str().unwrap());
        let words = [project, "--", "python3", "a.py"];
        let offer =
            format!("hotcell approvals allow-binary {file} lets machine code of exactly these bytes run");
        run(user, &words).code(125).prints("").says("pk/_fast.so: elf is not read").says(&offer);
        approvals(user, &["allow-binary", file, "--reason", "built by me"]).code(0);
        let said = run(user, &words);
        said.code(0)
            .prints("ran\n")
            .says("1 binary runs unread")
            .says("pk/_fast.so")
            .says("allowed these bytes");
        // Under another name and in a test run too, and in the outcome.
        std::fs::rename(&so, project.to_owned() + "/other.node").unwrap();
        run(user, &words).code(0).says("other.node");
        let outcome = user.hotcell(["run", "--json", "--workspace"]).words(&words).end().code(0).json();
        assert_eq!(outcome["scan"]["verdict"], "review", "{outcome:#}");
        user.write(
            "work/p/test_a.py",
            "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): pass\n",
        );
        let test = ["test", "--framework", "unittest", "--toolchain", "/usr", project];
        user.hotcell(test).end().code(0).says("other.node");
        // Another one beside it, and one byte more.
        user.write("work/p/more.so", [&code[..], b"!"].concat());
        let offer = format!("allow-binary {project}/more.so lets");
        run(user, &words).code(125).says("more.so").says(&offer);
        std::fs::remove_file(project.to_owned() + "/more.so").unwrap();
        user.write("work/p/other.node", [&code[..], b"?"].concat());
        run(user, &words).code(125).says("other.node");
        // A folder counts for all in it; taken back, it is refused again.
        approvals(user, &["allow-binary", project]).code(0);
        let listed = approvals(user, &["binaries", "--json"]).code(0).json();
        let all = listed["binaries"].as_array().expect("rows");
        assert!(all.len() == 2 && all.iter().all(|one| one["because"] == "allowed"), "{listed:#}");
        run(user, &words).code(0);
        approvals(user, &["forget-binary", project]).code(0);
        run(user, &words).code(125);
        user.hotcell(["audit", "verify"]).end().code(0);
    });
}

#[test]
fn committed_binary_of_run_may_run() {
    everyone(|user| {
        user.make_folder("work/w");
        user.write("work/w/a.py", "print('ran')\n");
        let project = user.path("work/w");
        let project = project.to_str().unwrap();
        run(user, &[project, "--commit", "--", "cp", "/bin/true", "made.so"]).code(0);
        let words = [project, "--", "python3", "a.py"];
        run(user, &words).code(0).prints("ran\n").says("made.so").says("an earlier run wrote these bytes");
        // Written by a run that the guard did not read, it does not count.
        let (true_, false_) = (std::fs::read("/bin/true").unwrap(), std::fs::read("/bin/false").unwrap());
        if true_ != false_ {
            run(user, &[project, "--commit", "--guard", "off", "--", "cp", "/bin/false", "made.so"]).code(0);
            run(user, &words).code(125).says("made.so");
        }
        // By its bytes, from any source.
        user.write("work/w/made.so", &true_);
        run(user, &words).code(0);
        user.hotcell(["audit", "verify"]).end().code(0);
    });
}

#[test]
fn unallowable_binary_is_explained() {
    everyone(|user| {
        user.make_folder("work/n");
        let text = user.write("work/n/a.py", "print(1)\n");
        let so = user.write("work/n/a.so", std::fs::read("/bin/true").unwrap());
        let (text, so) = (text.to_str().unwrap(), so.to_str().unwrap());
        approvals(user, &["allow-binary", text]).code(125).says("there is no machine code");
        approvals(user, &["allow-binary", "/nowhere/x.so"]).code(125).says("/nowhere/x.so");
        approvals(user, &["forget-binary", so]).code(125).says("none of the binaries that may run");
        approvals(user, &["forget-binary", "00000000"]).code(125).says("00000000");
        approvals(user, &["binaries"]).code(0).prints("").says("nothing runs unread");
        // Beside something else that is not read nothing is offered.
        user.write("work/n/run.pl", "#!/usr/bin/perl\nprint 1;\n");
        let project = user.path("work/n");
        let project = project.to_str().unwrap();
        let ended = run(user, &[project, "--", "perl", "run.pl"]);
        assert!(!ended.code(125).stderr.contains("allow-binary"), "{ended:#?}");
        approvals(user, &["allow-binary", so]).code(0);
        run(user, &[project, "--", "perl", "run.pl"]).code(125).says("perl");
        // Where two persons decide it is not a word of one.
        let config = user.make_folder("home/.config/hotcell").join("config.toml");
        std::fs::write(&config, "[quarantine]\ntwo_persons = true\n").unwrap();
        approvals(user, &["allow-binary", so]).code(125).says("two persons");
        run(user, &[project, "--", "ls"]).code(125).says("a.so");
        std::fs::remove_file(config).unwrap();
        run(user, &[project, "--", "ls"]).code(0).says("a.so");
    });
}

#[test]
fn caches_are_listed_and_removed_and_made_again() {
    everyone(|user| {
        user.write("work/c.py", "print('ran')\n");
        let file = user.path("work/c.py");
        let run = || user.hotcell(["run", "--lang", "python", file.to_str().unwrap()]).end();
        run().code(0);
        let listed = user.hotcell(["cache", "list", "--json"]).end().code(0).json();
        let entries = listed["entries"].as_array().expect("rows");
        assert!(entries.iter().any(|entry| entry["kind"] == "readings"), "{listed:#}");
        user.hotcell(["cache", "prune"]).end().code(125).says("--older");
        user.hotcell(["cache", "prune", "--most", "1G", "--older", "7d"])
            .end()
            .code(0)
            .says("removed: 0 entries");
        let cleared = user.hotcell(["cache", "clear"]).end();
        assert!(cleared.code(0).says("removed: ").text().contains("readings.db"), "{cleared:#?}");
        let listed = user.hotcell(["cache", "list", "--json"]).end().code(0).json();
        assert_eq!(
            (listed["entries"].as_array().map(Vec::len), listed["bytes"].as_u64()),
            (Some(0), Some(0))
        );
        run().code(0).prints("ran\n");
    });
}

#[test]
fn cargo_build_is_reused_by_project_and_name() {
    let Some(rust) = rust() else { return };
    let path = format!("{}/bin:/usr/bin:/bin", rust.display());
    everyone(|user| {
        let manifest = "[package]\nname = \"own\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
        for project in ["crate", "other"] {
            user.make_folder(&format!("work/{project}/src"));
            user.write(format!("work/{project}/Cargo.toml"), manifest);
            let lock = "version = 4\n[[package]]\nname = \"own\"\nversion = \"0.1.0\"\n";
            user.write(format!("work/{project}/Cargo.lock"), lock);
            user.write(
                format!("work/{project}/src/lib.rs"),
                "#[test]\nfn adds() { assert_eq!(1 + 1, 2); }\n",
            );
        }
        let compiles = |project: &str, cache: &str, code: i32| {
            let words = ["test", project, "--framework", "cargo", "--json", "--timeout", "300s"];
            let cache = if cache.is_empty() { vec![] } else { vec!["--cache", cache] };
            let ended = user.hotcell(words).words(&cache).env("PATH", &path).end();
            let report = ended.code(code).json();
            assert_eq!(report["complete"], true, "{report:#}");
            let said = report["outcome"]["stderr"]["text"].as_str().unwrap_or_default().to_owned();
            said.contains("Compiling own")
        };
        // Project, cache, status, and whether it is compiled.
        for (number, (project, cache, code, want)) in [
            ("crate", "main", 0, true),
            ("crate", "main", 0, false),
            ("crate", "main:ro", 0, false),
            ("crate", "", 0, true),
            ("crate", "pr/1", 0, true),
            ("other", "main", 0, true),
            ("other", "main", 0, false),
        ]
        .into_iter()
        .enumerate()
        {
            assert_eq!(compiles(project, cache, code), want, "{number}: {project} {cache}");
        }
        // Changed code is compiled, the cache of a failed run is kept too, and a read-only run keeps nothing.
        let change = |n: u32| {
            let text = format!("#[test]\nfn adds() {{ assert_eq!(1 + 1, {n}); }}\n");
            // Later than the compiled file, however coarse the clock.
            std::thread::sleep(std::time::Duration::from_millis(50));
            user.write("work/crate/src/lib.rs", text);
        };
        change(3);
        assert!(compiles("crate", "main:ro", 1));
        assert!(compiles("crate", "main", 1));
        assert!(!compiles("crate", "main", 1));
        change(2);
        assert!(compiles("crate", "main", 0));
        // Each run prints a note on the cache, and `cache list` shows it.
        let words = ["test", "crate", "--framework", "cargo", "--cache", "main", "--timeout", "300s"];
        user.hotcell(words).env("PATH", &path).end().code(0).says("the cache main holds what earlier runs");
        let listed = user.hotcell(["cache", "list", "--json"]).end().code(0).json();
        let warm =
            listed["entries"].as_array().expect("rows").iter().filter(|one| one["kind"] == "warm").count();
        assert!((3..=5).contains(&warm), "{listed:#}");
        for (word, why) in [("a b", "a cache has a name"), ("", "a cache has a name")] {
            user.hotcell(["test", "crate", "--cache", word]).end().code(125).says(why);
        }
        user.make_folder("work/py");
        user.write(
            "work/py/test_a.py",
            "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): pass\n",
        );
        let words = ["test", "py", "--framework", "unittest", "--toolchain", "/usr", "--cache", "main"];
        user.hotcell(words)
            .end()
            .code(0)
            .says("--cache: nothing of it is used or kept: unittest builds nothing");
    });
}
