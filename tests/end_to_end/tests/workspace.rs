//! Copy-on-write workspaces: the changes of a run are shown, committed, kept or dropped; only a commit
//! changes the original.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use hotcell_end_to_end::{Ended, User, Weak, everyone, is_root};

use crate::endings::wait_until;

const CHANGE: &str =
    "echo two >> a.txt; rm gone; mkdir -p new/deep; echo x > new/deep/f; chmod +x new/deep/f";

/// A project with three files.
fn project(user: &User) -> std::path::PathBuf {
    let folder = user.make_folder("work/p");
    user.make_folder("work/p/d");
    for (name, text) in [("a.txt", "one\n"), ("gone", "gone\n"), ("d/x", "x\n")] {
        user.write(format!("work/p/{name}"), text);
    }
    folder
}

/// Each path below a folder with its kind and contents.
fn tree(folder: &Path) -> Vec<String> {
    let mut all = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        for entry in std::fs::read_dir(at).expect("a folder") {
            let path = entry.expect("an entry").path();
            let about = path.symlink_metadata().expect("there");
            let name = path.strip_prefix(folder).expect("below").display().to_string();
            let text = if about.is_file() {
                std::fs::read_to_string(&path).unwrap_or_default().trim_end().replace('\n', ",")
            } else {
                format!("{:?}", about.file_type().is_dir())
            };
            all.push(format!("{name} {:o} {text}", about.permissions().mode() & 0o7777));
            if about.is_dir() {
                folders.push(path);
            }
        }
    }
    all.sort();
    all
}

fn workspace(user: &User, words: &[&str]) -> Ended {
    user.hotcell(["workspace"]).words(words).end()
}

#[test]
fn workspace_changes_are_reported_and_discarded() {
    everyone(|user| {
        let folder = project(user);
        let before = tree(&folder);
        let told = user.shell(["--json", "--workspace", "p"], CHANGE).end().code(0).json();
        let rows: Vec<_> = told["changes"].as_array().expect("changes").iter().collect();
        let rows: Vec<_> =
            rows.iter().map(|r| format!("{} {}", r["path"], r["kind"]).replace('"', "")).collect();
        let want = ["a.txt modified", "gone deleted", "new added", "new/deep added", "new/deep/f added"];
        assert_eq!((rows, &told["commit"]), (want.map(str::to_owned).to_vec(), &serde_json::Value::Null));
        let diff = user.shell(["--workspace", "p", "--diff"], CHANGE).end();
        let text = diff.code(0).says_one_line("new executable: new/deep/f").text();
        for part in ["--- a/a.txt", "+two", "deleted file mode 100644", "new file mode 100755"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert_eq!(tree(&folder), before, "nothing of it was taken over");
    });
}

#[test]
fn diff_applies_with_git() {
    if hotcell_end_to_end::find("git").is_none() {
        println!("skipped: no git");
        return;
    }
    everyone(|user| {
        let folder = project(user);
        user.copy_folder(&folder, &user.path("work/q"));
        let script = format!("{CHANGE}; printf 'no newline' > d/x; echo q > 'n \"q\" ü'");
        let diff = user.shell(["--workspace", "p", "--diff"], &script).end().code(0).text();
        user.write("work/p.diff", diff);
        user.shell(["--workspace", "p", "--commit"], &script).end().code(0);
        let mut git = user.program(Path::new("git"));
        let applied = git.args(["apply", "--unsafe-paths", "../p.diff"]).current_dir(user.path("work/q"));
        assert!(applied.status().expect("git starts").success());
        assert_eq!(tree(&user.path("work/q")), tree(&folder));
        // Files that git cannot take from text are comments, and keep it from none of the others.
        let more = "printf 'caf\\351\\n' > l.txt; printf 'a\\000b' > nul; printf '\\033[1m\\n' > esc; echo last > zz";
        let ended = user.shell(["--guard", "off", "--workspace", "p", "--diff"], more).end();
        ended.code(0).says("git apply leaves out: b/esc").says("git apply leaves out: b/nul");
        user.write("work/more.diff", ended.text());
        let mut git = user.program(Path::new("git"));
        let applied = git.args(["apply", "--unsafe-paths", "../more.diff"]).current_dir(user.path("work/q"));
        assert!(applied.status().expect("git starts").success());
        let has = |name: &str| user.path("work/q").join(name).exists();
        assert_eq!(["zz", "nul", "esc", "l.txt"].map(has), [true, false, false, false]);
    });
}

#[test]
fn commit_needs_exit_code_zero() {
    everyone(|user| {
        let folder = project(user);
        let before = tree(&folder);
        user.shell(["--workspace", "p", "--commit"], &format!("{CHANGE}; exit 3")).end().code(3);
        user.shell(["--workspace", "p", "--commit", "--timeout", "1s"], &format!("{CHANGE}; sleep 9"))
            .end()
            .code(124);
        assert_eq!(tree(&folder), before);
        let ended = user.shell(["--workspace", "p", "--commit"], CHANGE).end();
        ended.code(0).says("taken over: 5 paths").says("new executable: new/deep/f");
        let want = [
            "a.txt 644 one,two",
            "d 755 true",
            "d/x 644 x",
            "new 755 true",
            "new/deep 755 true",
            "new/deep/f 755 x",
        ];
        assert_eq!(tree(&folder), want);
        let owner = |path: &Path| std::os::unix::fs::MetadataExt::uid(&path.metadata().expect("there"));
        assert_eq!(owner(&folder.join("new/deep/f")), owner(&folder));
    });
}

#[test]
fn commit_excludes_harmful_paths() {
    everyone(|user| {
        let folder = project(user);
        for inner in [".git", ".git/hooks", ".git/objects"] {
            user.make_folder(&format!("work/p/{inner}"));
        }
        let outside = user.make_folder("work/outside");
        symlink(&outside, folder.join("link")).expect("a link");
        user.own(&folder.join("link"));
        let script = "echo evil > .git/hooks/pre-commit; echo evil > .mcp.json; mkdir .vscode; echo {} > .vscode/tasks.json; \
                      ln -s /etc/passwd passwd; mkfifo pipe; \
                      echo s > suid; chmod 6777 suid; echo u > unreadable; chmod 0 unreadable; \
                      rm link; mkdir link; echo in > link/f; \
                      ln a.txt hard; echo three >> hard";
        let told = user.shell(["--json", "--workspace", "p", "--commit"], script).end().code(0).json();
        let left: Vec<_> = told["commit"]["left"].as_array().expect("left").iter().collect();
        let left: Vec<_> = left.iter().map(|row| row["path"].as_str().expect("a path")).collect();
        let want = [".git", ".mcp.json", ".vscode", ".vscode/tasks.json", "passwd", "pipe"];
        assert_eq!(left, want, "{}", told["commit"]);
        let want = [
            ".git 755 true",
            ".git/hooks 755 true",
            ".git/objects 755 true",
            "a.txt 644 one,three",
            "d 755 true",
            "d/x 644 x",
            "gone 644 gone",
            "hard 644 one,three",
            "link 755 true",
            "link/f 644 in",
            "suid 755 s",
        ];
        let all = tree(&folder);
        let all: Vec<_> = all.iter().filter(|row| !row.starts_with("unreadable")).collect();
        assert_eq!(all, want.iter().collect::<Vec<_>>());
        assert!(folder.join("unreadable").metadata().expect("taken over").permissions().mode() & 0o7777 == 0);
        assert_eq!(std::fs::read_dir(&outside).expect("a folder").count(), 0);
        let both = std::os::unix::fs::MetadataExt::nlink(&folder.join("hard").metadata().expect("there"));
        assert_eq!(both, 1, "two names of one file are two files");
        // The next run could not read it.
        std::fs::remove_file(folder.join("unreadable")).expect("removed");
        user.shell(["--workspace", "p", "--commit", "--allow-protected"], "echo {} > .mcp.json")
            .end()
            .code(0);
        assert!(folder.join(".mcp.json").exists());
    });
}

#[test]
fn concurrent_original_change_is_a_conflict() {
    everyone(|user| {
        let folder = project(user);
        let signs = user.make_folder("work/signs");
        let script = "echo mine > a.txt; echo new > n; touch /tmp/signs/running; \
                      while [ ! -e /tmp/signs/go ]; do sleep 0.02; done";
        let signs_option = format!("{}:/tmp/signs", signs.display());
        let options = ["--json", "--workspace", "p", "--commit", "--rw", &signs_option];
        let run = user.shell(options, script).start();
        wait_until("the program runs", || signs.join("running").exists());
        user.write("work/p/a.txt", "theirs");
        user.write("work/signs/go", "");
        let output = run.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(125), "{}", String::from_utf8_lossy(&output.stderr));
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(told["commit"]["conflicts"], serde_json::json!(["a.txt"]), "{}", told["commit"]);
        assert_eq!(std::fs::read_to_string(folder.join("a.txt")).expect("read"), "theirs");
        assert!(!folder.join("n").exists(), "nothing of it was taken over");
    });
}

#[test]
fn unreportable_or_unstorable_changes_fail_run() {
    everyone(|user| {
        let folder = project(user);
        user.write("work/p/key", "secret");
        std::fs::set_permissions(folder.join("key"), PermissionsExt::from_mode(0o0)).expect("changed");
        let before = tree(&folder);
        // Longer paths than the kernel accepts at once.
        let long = format!("d={}; for n in $(seq 40); do mkdir $d; cd -P $d; done", "d".repeat(200));
        user.shell(["--guard", "off", "--workspace", "p", "--diff"], &long)
            .end()
            .code(125)
            .says("cannot be told");
        user.shell(["--guard", "off", "--workspace", "p", "--commit"], &long)
            .end()
            .code(125)
            .says("nothing was taken over");
        // More bytes than --disk, which take no space in scratch.
        for script in
            ["truncate -s 1T big", "head -c 9M /dev/zero > a0; for n in $(seq 50); do ln a0 a$n; done"]
        {
            let ended = user.shell(["--guard", "off", "--workspace", "p", "--commit"], script).end();
            ended.code(125).says("cannot be stored").says("nothing was taken over");
        }
        assert_eq!(tree(&folder), before);
        let closed = ["--guard", "off", "--json", "--workspace", "p"];
        let told = user.shell(closed, "echo new > n; chmod 0 .").end().code(0).json();
        assert_eq!(told["changes"][0]["path"], "n", "{}", told["changes"]);
        assert_eq!(tree(&folder), before);
        // A file that its owner cannot read stays that way.
        user.shell(["--guard", "off", "--workspace", "p", "--diff"], "chmod 600 key").end().code(0);
        assert_eq!(folder.join("key").metadata().expect("there").permissions().mode() & 0o777, 0);
    });
}

#[test]
fn commit_creates_no_trusted_git_repository() {
    everyone(|user| {
        let folder = project(user);
        for inner in [".git", ".git/objects", ".git/refs"] {
            user.make_folder(&format!("work/p/{inner}"));
        }
        let script = "printf ../evil > .git/commondir; mkdir -p evil/objects evil/refs bare/objects bare/refs; \
                      echo x > evil/config; echo x > bare/config; echo x > bare/HEAD; echo x > bare/file; echo x > evil/file; \
                      mkdir .husky; echo x > .husky/pre-commit";
        user.shell(["--workspace", "p", "--commit"], script).end().code(0);
        for out in [".git/commondir", "bare/HEAD", "bare/config", "bare/file", "bare/objects", ".husky"] {
            assert!(!folder.join(out).exists(), "{out}");
        }
        assert!(folder.join("evil/file").exists());
    });
}

/// Runs git on the host, in a user's project.
fn git(user: &User, words: &[&str]) -> String {
    let mut git = user.program(Path::new("git"));
    let always = ["-c", "user.email=a@b", "-c", "user.name=n", "-c", "safe.directory=*"];
    let output = git.args(always).args(words).current_dir(user.path("work/p")).output().expect("git starts");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn git_commits_inside_become_edits() {
    if hotcell_end_to_end::find("git").is_none() {
        println!("skipped: no git");
        return;
    }
    everyone(|user| {
        let folder = project(user);
        user.write("work/p/Makefile", "all:\n\ttrue\n");
        git(user, &["init", "-q"]);
        git(user, &["add", "."]);
        git(user, &["commit", "-qm", "first"]);
        let state = tree(&folder.join(".git"));
        let script = "g='git -c user.email=a@b -c user.name=n -c safe.directory=*'; set -e; \
                      mkdir -p .github/workflows .vscode; echo owned > .github/workflows/ci.yml; echo owned > .envrc; \
                      echo '{}' > .vscode/tasks.json; $g add -f .github .envrc .vscode; echo two >> a.txt; $g add a.txt; \
                      $g commit -qm second; printf 'all:\\n\\techo owned\\n' > Makefile; $g update-index --skip-worktree Makefile; \
                      echo 'payload*' >> .git/info/exclude; echo x > payload.sh; git init -q --bare bare; echo y > new.py";
        let ended = user.shell(["--guard", "off", "--workspace", "p", "--commit"], script).end();
        ended.code(0).says("left out: .git: git's own state (").says("--allow-protected takes it over");
        ended
            .says(".envrc is protected: loaded into the shell on cd")
            .says("left out: bare: git's own state (");
        assert_eq!(tree(&folder.join(".git")), state, "git's own state is the original's");
        let status = git(user, &["status", "--porcelain"]);
        let lines: Vec<_> = status.lines().collect();
        assert_eq!(lines, [" M Makefile", " M a.txt", "?? new.py", "?? payload.sh"]);
        assert_eq!(git(user, &["rev-list", "--count", "HEAD"]).trim(), "1");
        for out in [".envrc", ".github", ".vscode", "bare/HEAD", "bare/config", "bare/hooks"] {
            assert!(!folder.join(out).exists(), "{out}");
        }
        // In a pinned workspace the decision is the same, and the entries that were left out are committed
        // after approval.
        git(user, &["checkout", "-q", "."]);
        let id = workspace(user, &["create", "p"]).code(0).text().trim().to_owned();
        user.shell(["--guard", "off", "--workspace", &id], script).end().code(0);
        let told = workspace(user, &["commit", &id, "--json"]).code(0).json();
        let left = told["commit"]["left"].as_array().expect("left");
        assert!(
            left.iter().any(|row| row["path"] == ".git") && tree(&folder.join(".git")).len() >= state.len()
        );
        assert_eq!(git(user, &["rev-list", "--count", "HEAD"]).trim(), "1");
        workspace(user, &["commit", &id, "--allow-protected"]).code(0);
        assert_eq!(git(user, &["rev-list", "--count", "HEAD"]).trim(), "2");
        assert!(folder.join(".envrc").exists() && folder.join("bare/HEAD").exists());
    });
}

#[test]
fn commit_report_names_notable_changes() {
    everyone(|user| {
        let folder = project(user);
        let script = "echo 'docs/' > .gitignore; mkdir .pytest_cache; echo 1 > .pytest_cache/a; echo x > .unheard-of; \
                      printf '#!/bin/sh\\necho \\000 hidden\\n' > build.sh; chmod +x build.sh a.txt; printf 'x\\342\\200\\256y\\n' > d/x; \
                      head -c 3000 /dev/urandom > bin; echo '*.config' > vite.config.ts; mkfifo pipe";
        let ended = user.shell(["--guard", "off", "--workspace", "p", "--diff"], script).end();
        let text = ended.code(0).text();
        for part in [
            "# b/build.sh: 24 bytes, can be executed; ",
            "# +echo \\x00 hidden\n",
            "# b/bin: 3000 bytes; it begins with\n# | ",
            "old mode 100644\nnew mode 100755\n",
            "+x\\u{202e}y\n",
            "# b/pipe is a device, a pipe or a socket",
        ] {
            assert!(text.contains(part), "{part:?} in {text}");
        }
        assert!(!text.contains(['\0', '\u{202e}']) && !text.contains("\ndiff --git a/d/x"), "{text}");
        ended
            .says("new executable: build.sh")
            .says("executable now: a.txt")
            .says("new hidden: .pytest_cache (2 paths)");
        let told = user
            .shell(["--guard", "off", "--json", "--workspace", "p", "--diff"], script)
            .end()
            .code(0)
            .json();
        assert!(told["diff"].as_str().expect("a diff").contains("+x\u{202e}y\n"), "exact");
        let ended = user.shell(["--guard", "off", "--workspace", "p", "--commit"], script).end();
        ended
            .code(0)
            .says("left out: .unheard-of: a hidden name is protected")
            .says("left out: vite.config.ts: ");
        ended
            .says("left out: pipe: devices, pipes and sockets")
            .says("new hidden: .gitignore")
            .says("new executable: build.sh");
        assert!(folder.join(".pytest_cache/a").exists() && !folder.join(".unheard-of").exists());
        // A pinned workspace cannot hold pipes, and says so.
        let id = workspace(user, &["create", "p"]).code(0).text().trim().to_owned();
        let ended = user.shell(["--guard", "off", "--workspace", &id], "mkfifo d/f; echo 1 > ordinary").end();
        ended.code(0).says_one_line("left out: d/f: devices, pipes and sockets are not kept");
        workspace(user, &["commit", &id]).code(0);
        assert!(folder.join("ordinary").exists() && !folder.join("d/f").exists());
    });
}

#[test]
fn target_of_protected_link_is_protected() {
    everyone(|user| {
        let folder = project(user);
        user.make_folder("work/p/scripts");
        user.write("work/p/scripts/check", "exit 0\n");
        symlink("scripts/check", folder.join(".envrc")).expect("a link");
        user.own(&folder.join(".envrc"));
        let script = "echo owned > scripts/check; echo 1 > scripts/other; ln -s .vscode l; mkdir .vscode; echo owned > l/tasks.json";
        let ended = user.shell(["--guard", "off", "--workspace", "p", "--commit"], script).end();
        ended.code(0).says("left out: scripts/check: .envrc leads there");
        assert_eq!(std::fs::read_to_string(folder.join("scripts/check")).expect("there"), "exit 0\n");
        assert!(folder.join("scripts/other").exists() && !folder.join(".vscode").exists());
    });
}

#[test]
fn full_disk_leaves_original_unchanged() {
    if !is_root() {
        println!("skipped: only root can mount a small file system");
        return;
    }
    let user = User::me();
    let small = user.make_folder("work/small");
    let place = small.display();
    let host = Weak::default()
        .mounts(&format!(
            "mount -t tmpfs -o size=128k small {place}; echo one > {place}/a; echo two > {place}/b"
        ))
        .within(&["sh", "-c", "\"$@\"; echo status $?; cat small/*; ls -A small", "sh"]);
    let script = "echo changed > a; head -c 1000000 /dev/zero > b";
    let ended =
        user.hotcell_on(&host, ["run", "--workspace", "small", "--commit", "--", "sh", "-c", script]).end();
    ended
        .code(0)
        .prints("status 125\none\ntwo\na\nb\n")
        .says("b cannot be stored")
        .says("nothing was taken over");
}

#[test]
fn meaningless_workspace_options_are_refused() {
    everyone(|user| {
        project(user);
        let run = |options: &[&str]| user.hotcell(["run"]).words(options).words(&["--", "true"]).end();
        run(&["--diff"]).code(125).says_one_line("--workspace DIR");
        run(&["--commit"]).code(125).says_one_line("--workspace DIR");
        run(&["--workspace", "p", "--allow-protected"]).code(125).says_one_line("--commit");
        run(&["--workspace", "ws_00"]).code(125).says_one_line("there is no workspace ws_00");
        for words in [
            &["read", "ws_00", "x"][..],
            &["commit", "ws_../../x"],
            &["create", "nowhere"],
            &["create", "--archive", "p/a.txt"],
            &["create", "--bundle", "p/a.txt"],
        ] {
            workspace(user, words).code(125).says_one_line("hotcell: error: ");
        }
        assert_eq!(workspace(user, &["list"]).code(0).says("no workspaces yet").text(), "");
    });
}

#[test]
fn workspace_persists_between_runs() {
    everyone(|user| {
        let folder = project(user);
        let before = tree(&folder);
        let id = workspace(user, &["create", "p"]).code(0).text().trim().to_owned();
        let run = |script: &str| user.shell(["--workspace", &id], script).end();
        run(CHANGE).code(0);
        run("cat a.txt; test ! -e gone; rm -r new; ln -s a.txt l").code(0).prints("one\ntwo\n");
        run("cat l; test ! -e new; exit 7").code(7).prints("one\ntwo\n");
        user.hotcell(["workspace", "write", &id, "d/y"]).input("written").end().code(0);
        run("cat d/y").code(0).prints("written");
        workspace(user, &["read", &id, "d/y"]).code(0).prints("written");
        assert_eq!(tree(&folder), before);
        workspace(user, &["snapshot", &id, "one"]).code(0);
        let fork = workspace(user, &["fork", &id]).code(0).text().trim().to_owned();
        workspace(user, &["delete", &id, "d"]).code(0);
        workspace(user, &["list", &id]).code(0).prints("a.txt\nl\n");
        workspace(user, &["list", &fork]).code(0).prints("a.txt\nd/\nd/x\nd/y\nl\n");
        workspace(user, &["discard", &id, "--to", "one"]).code(0);
        workspace(user, &["list", &id]).code(0).prints("a.txt\nd/\nd/x\nd/y\nl\n");
        let diff = workspace(user, &["diff", &id]).code(0).text();
        assert!(diff.contains("+two") && diff.contains("+written"), "{diff}");
        let told = workspace(user, &["commit", &id, "--json"]).code(0).json();
        assert_eq!(told["changes"].as_array().map(Vec::len), Some(1), "the link stays: {told}");
        assert_eq!(tree(&folder), ["a.txt 644 one,two", "d 755 true", "d/x 644 x", "d/y 644 written"]);
        workspace(user, &["export", &fork, "out.tar"]).code(0);
        workspace(user, &["export", &fork, "out.tar"]).code(125).says_one_line("out.tar");
        let again = workspace(user, &["create", "--archive", "out.tar"]).code(0).text().trim().to_owned();
        workspace(user, &["list", &again]).code(0).prints("a.txt\nd/\nd/x\nd/y\nl\n");
        assert_eq!(
            workspace(user, &["list", "--json"]).json()["workspaces"].as_array().map(Vec::len),
            Some(3)
        );
        for id in [&id, &fork, &again] {
            workspace(user, &["remove", id]).code(0);
        }
        let left = user.path("home/.local/state/hotcell/workspaces/layers");
        assert_eq!(std::fs::read_dir(left).expect("a folder").count(), 0, "nothing is left");
        assert_eq!(tree(&folder).len(), 4);
    });
}

#[test]
fn run_blocks_no_other_and_kill_leaves_nothing() {
    everyone(|user| {
        project(user);
        let signs = user.make_folder("work/signs");
        let id = workspace(user, &["create", "p"]).code(0).text().trim().to_owned();
        user.shell(["--workspace", &id], "echo kept > kept").end().code(0);
        let signs_option = format!("{}:/tmp/signs", signs.display());
        let options = ["--workspace", &id, "--rw", &signs_option];
        let begin = |script: &str| {
            let script = format!(
                "{script}; touch /tmp/signs/running; while [ ! -e /tmp/signs/go ]; do sleep 0.02; done"
            );
            let run = user.shell(options, &format!("{script}; cat kept")).start();
            wait_until("the program runs", || signs.join("running").exists());
            std::fs::remove_file(signs.join("running")).expect("removed");
            run
        };
        let ends = |run: std::process::Child| {
            let output = run.wait_with_output().expect("it ends");
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned(), errors)
        };
        let mut lost = begin("echo lost > lost");
        let one = begin("echo first > one; echo first > a.txt");
        let two = begin("echo second > two; echo second > a.txt");
        // Meanwhile others read, change and fork it.
        workspace(user, &["read", &id, "a.txt"]).code(0).prints("one\n");
        workspace(user, &["delete", &id, "kept"]).code(0);
        let fork = workspace(user, &["fork", &id]).code(0).text().trim().to_owned();
        user.shell(["--workspace", &id], "echo d > d/y").end().code(0);
        lost.kill().expect("killed");
        lost.wait().expect("ended");
        user.write("work/signs/go", "");
        let mut all = [ends(one), ends(two)];
        all.sort();
        // Both started from the same state; the second one to change the same file is told.
        let [(kept, first, _), (refused, second, errors)] = all;
        assert_eq!(
            (kept, refused, first.as_str(), second.as_str()),
            (Some(0), Some(125), "kept\n", "kept\n")
        );
        assert!(errors.contains("not kept: a.txt changed in the workspace"), "{errors}");
        let listed = workspace(user, &["list", &id]).code(0).text();
        let (name, text) = if listed.contains("\none\n") { ("one", "first") } else { ("two", "second") };
        assert_eq!(listed, format!("a.txt\nd/\nd/x\nd/y\ngone\n{name}\n"));
        workspace(user, &["read", &id, "a.txt"]).code(0).prints(&format!("{text}\n"));
        for id in [&id, &fork] {
            workspace(user, &["remove", id]).code(0);
        }
        let left = user.path("home/.local/state/hotcell/workspaces");
        for folder in ["layers", "pins"] {
            assert_eq!(std::fs::read_dir(left.join(folder)).expect("a folder").count(), 0, "{folder}");
        }
    });
}

#[test]
fn persistent_workspace_is_copied_without_mounts() {
    everyone(|user| {
        project(user);
        let id = workspace(user, &["create", "p"]).code(0).text().trim().to_owned();
        let run = |script: &str, profile: &str| {
            user.shell(["--json", "--profile", profile, "--workspace", &id], script).end()
        };
        let probe = run("true", "landlock-only");
        if probe.code != Some(0) {
            println!("skipped: no landlock-only here: {}", probe.text());
            return;
        }
        run("echo two >> a.txt; rm gone", "standard").code(0);
        let told =
            run("cat a.txt; ls; echo three >> a.txt; rm -r d; echo n > n", "landlock-only").code(0).json();
        assert_eq!(told["stdout"]["text"], "one\ntwo\na.txt\nd\n", "{told:#}");
        assert!(told["mounts"].as_array().expect("mounts").iter().any(|m| m["kind"] == "copy"));
        let rows: Vec<_> =
            told["changes"].as_array().expect("rows").iter().map(|r| r["path"].clone()).collect();
        assert_eq!(
            (rows, &told["kept"]["done"]),
            (vec!["a.txt".into(), "d".into(), "d/x".into(), "n".into()], &4.into())
        );
        let told = run("cat a.txt; ls", "standard").code(0).json();
        assert_eq!(told["stdout"]["text"], "one\ntwo\nthree\na.txt\nn\n");
        user.hotcell(["workspace", "write", &id, "large"]).input(vec![b'x'; 4096]).end().code(0);
        user.shell(["--profile", "landlock-only", "--disk", "1K", "--workspace", &id], "true")
            .end()
            .code(125)
            .says("cannot be copied");
    });
}

#[test]
fn hostile_archive_writes_nothing_outside() {
    everyone(|user| {
        // Entries that lead outside: by dots, by an absolute path, through a link.
        let script = "import tarfile,io\nt=tarfile.open('evil.tar','w')\n\
                      def add(name,**k):\n i=tarfile.TarInfo(name); i.size=4\n for a,b in k.items(): setattr(i,a,b)\n \
                      t.addfile(i,io.BytesIO(b'evil'))\n\
                      add('../out1'); add('/tmp/out2'); add('good')\n\
                      l=tarfile.TarInfo('l'); l.type=tarfile.SYMTYPE; l.linkname='/tmp'; t.addfile(l)\n\
                      add('l/out3')\n\
                      d=tarfile.TarInfo('dev'); d.type=tarfile.CHRTYPE; d.devmajor=1; d.devminor=3; t.addfile(d)\n";
        let made = user
            .program(Path::new("/usr/bin/python3"))
            .args(["-c", script])
            .current_dir(user.path("work"))
            .status();
        assert!(made.expect("python starts").success());
        // tar itself refuses some of it and exits with an error; then there is no workspace.
        let ended = workspace(user, &["create", "--archive", "evil.tar"]);
        ended.code(125).says_one_line("cannot be unpacked");
        for name in ["out1", "out2", "out3"] {
            assert!(!Path::new("/tmp").join(name).exists() && !user.path("work").join(name).exists());
        }
        assert_eq!(workspace(user, &["list", "--json"]).json()["workspaces"], serde_json::json!([]));
    });
}

#[test]
fn workspace_files_are_scanned_before_next_run() {
    everyone(|user| {
        project(user);
        let id = workspace(user, &["create", "p"]).code(0).text().trim().to_owned();
        let run = |script: &str| user.shell(["--workspace", &id], script).end();
        run("echo 'import shutil; shutil.rmtree(\"/home\")' > evil.py").code(0);
        run("touch ran").code(125).says("quarantined").says("evil.py");
        workspace(user, &["delete", &id, "evil.py"]).code(0);
        run("ls").code(0).prints("a.txt\nd\ngone\n");
    });
}

#[test]
fn release_covers_exact_workspace_state() {
    everyone(|user| {
        let folder = project(user);
        symlink("a.txt", folder.join("link")).expect("a link");
        user.own(&folder.join("link"));
        let id = workspace(user, &["create", "p"]).code(0).text().trim().to_owned();
        let run = |script: &str| user.shell(["--workspace", &id, "--json"], script).end();
        run("echo 'import shutil; shutil.rmtree(\"/home\")' > evil.py; ln -s evil.py new").code(0);
        let held =
            || run("true").code(125).json()["scan"]["quarantine"]["id"].as_str().expect("an id").to_owned();
        let release = |item: &str| {
            user.hotcell(["quarantine", "release", item, "--reason", "looked at it", "--uses", "9"])
                .end()
                .code(0);
        };
        let item = held();
        release(&item);
        run("ls").code(0);
        // Every other state is another item: more, other or fewer files and links.
        let mut all = vec![item.clone()];
        for change in [
            "echo 1 > more",
            "echo 2 > more",
            "rm more; ln -sf a.txt new",
            "ln -sf evil.py new; rm link",
            "ln -s d link",
        ] {
            // The earlier state was released.
            run(change).code(0);
            let item = held();
            assert!(!all.contains(&item), "{change}");
            release(&item);
            all.push(item);
        }
    });
}

#[test]
fn passing_tests_may_retain_files() {
    everyone(|user| {
        let folder = user.make_folder("work/q");
        let case = "import unittest\nclass T(unittest.TestCase):\n    def test_it(self):\n        \
                    open('snapshot.txt', 'w').write('new\\n')\n        self.assertTrue(OK)\n";
        let run = |ok: &str, options: &[&str]| {
            user.write("work/q/test_it.py", case.replace("OK", ok));
            user.hotcell(["test", "q", "--toolchain", "/usr", "--env", "PYTHONDONTWRITEBYTECODE=1"])
                .words(options)
                .end()
        };
        let diff = run("True", &["--diff"]);
        assert!(diff.code(0).text().contains("+++ b/snapshot.txt"), "{diff:?}");
        run("False", &["--commit"]).code(1);
        assert!(!folder.join("snapshot.txt").exists());
        run("True", &["--commit"]).code(0).says("taken over: 1 path");
        assert_eq!(std::fs::read_to_string(folder.join("snapshot.txt")).expect("taken over"), "new\n");
        run("True", &["--commit", "--repeat", "2"]).code(125).says_one_line("--repeat");
    });
}
