//! Folders of the host that a project or a caller may lead to: only those that the operator's own settings
//! lead to.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use hotcell_end_to_end::mcp::{Local, STATELESS};
use hotcell_end_to_end::{User, Weak, everyone};
use serde_json::{Value, json};

const SECRET: &str = "hunter2";

/// Writes a program, and makes the folders above it.
fn program(user: &User, path: &str, text: &str) {
    user.make_folder(path.rsplit_once('/').expect("a folder").0);
    user.write_program(path, &format!("#!/bin/sh\n{text}\n"));
}

fn file(user: &User, path: &str, text: &str) {
    user.make_folder(path.rsplit_once('/').expect("a folder").0);
    user.write(path, text);
}

/// Version managers in the home folder, and the operator's `PATH`; and applications that look like
/// installations.
fn operators_path(user: &User) -> String {
    for version in ["3.11.7", "3.12.1"] {
        let at = format!("home/.pyenv/versions/{version}");
        program(user, &format!("{at}/bin/python3"), &format!("echo python {version}"));
        program(user, &format!("{at}/bin/look"), &format!("ls -A {}", user.path(&at).display()));
        file(user, &format!("{at}/lib/python/here"), "");
        file(user, &format!("{at}/.env"), SECRET);
    }
    for name in ["python3", "look"] {
        program(user, &format!("home/.pyenv/shims/{name}"), "exec pyenv exec");
    }
    file(user, "home/.pyenv/version", "3.11.7\n");
    program(user, "home/.cargo/bin/rustup", "exit 1");
    let cargo = user.path("home/.cargo/bin/cargo");
    symlink("rustup", &cargo).expect("a link");
    user.own(&cargo);
    file(user, "home/.rustup/settings.toml", "default_toolchain = \"a\"\n");
    for name in ["a", "b"] {
        program(user, &format!("home/.rustup/toolchains/{name}/bin/cargo"), &format!("echo cargo {name}"));
    }
    let secret = user.path("srv/app/.env");
    for (app, sign) in [("app", "pyvenv.cfg"), ("node", "lib/node_modules/x"), ("rust", "lib/rustlib/x")] {
        for name in ["python3", "cargo", "sh"] {
            program(user, &format!("srv/{app}/bin/{name}"), &format!("cat {}", secret.display()));
        }
        file(user, &format!("srv/{app}/{sign}"), "home = /usr/bin\n");
        file(user, &format!("srv/{app}/.env"), SECRET);
    }
    let home = user.path("home");
    format!("{0}/.pyenv/shims:{0}/.cargo/bin:/usr/bin:/bin", home.display())
}

/// Files of a hostile project and the command to run in it.
fn hostile(user: &User) -> Vec<(&'static str, String, &'static str)> {
    let srv = user.path("srv").display().to_string();
    let read = format!("cat {srv}/app/.env");
    vec![
        ("x", format!("#!{srv}/app/bin/sh\n{read}\n"), "./x"),
        ("x", format!("#!/usr/bin/env {srv}/app/bin/sh\n{read}\n"), "./x"),
        ("x", format!("#!/bin/sh\n'''exec' '{srv}/app/bin/sh' \"$0\" \"$@\"\n{read}\n"), "./x"),
        ("x", format!("#!{srv}/node/bin/sh\n{read}\n"), "./x"),
        ("x", format!("#!{srv}/../srv/app/bin/sh\n{read}\n"), "./x"),
        ("x", format!("#!/usr/bin/../..{srv}/app/bin/sh\n{read}\n"), "./x"),
        ("x", format!("#!/proc/self/root{srv}/app/bin/sh\n{read}\n"), "./x"),
        ("x", format!("#!{}/.pyenv/versions/3.12.1/.env\n", user.path("home").display()), "./x"),
        (".venv/pyvenv.cfg", format!("home = {srv}/app/bin\nversion = 3.11.2\n"), "python3"),
        (".venv/pyvenv.cfg", format!("home = /usr/bin/../..{srv}/app/bin\n"), "python3"),
        ("rust-toolchain.toml", format!("[toolchain]\npath = \"{srv}/rust\"\n"), "cargo"),
        ("rust-toolchain.toml", "[toolchain]\npath = \"../srv/rust\"\n".to_owned(), "cargo"),
    ]
}

#[test]
fn clone_files_show_nothing_and_error_names_option() {
    everyone(|user| {
        let path = operators_path(user);
        for (n, (name, text, typed)) in hostile(user).into_iter().enumerate() {
            let project = format!("work/p{n}");
            file(user, &format!("{project}/{name}"), &text);
            if name == "x" {
                user.write_program(format!("{project}/x"), &text);
            } else if name.starts_with(".venv") {
                program(user, &format!("{project}/.venv/bin/python3"), "echo from the project");
            }
            let words = ["run", "--guard", "off", "--workspace", &format!("p{n}"), "--", typed];
            let ended = user.hotcell(words).env("PATH", &path).end();
            ended.code(125).prints("").says_one_line("--toolchain");
        }
        // Links, which git preserves.
        for (n, (name, target, typed)) in [
            (".venv", "../../srv/app", "python3"),
            (".venv", "../../srv/app", "pip"),
            ("venv", "../../srv/app", "python3"),
            (".venv/bin", "../../../srv/app/bin", "sh"),
            (".venv/bin/python3", "../../../../srv/app/bin/python3", "python3"),
            ("x", "../../srv/app/bin/sh", "./x"),
            ("l", "../../srv/app", "./l/bin/sh"),
        ]
        .into_iter()
        .enumerate()
        {
            let project = user.make_folder(&format!("work/l{n}"));
            if name.starts_with(".venv/") {
                file(user, &format!("work/l{n}/.venv/pyvenv.cfg"), "home = /usr/bin\n");
                let above = project.join(name);
                std::fs::create_dir_all(above.parent().expect("a folder")).expect("made");
            }
            symlink(target, project.join(name)).expect("a link");
            user.own(&project.join(name));
            let words = ["run", "--workspace", &format!("l{n}"), "--", typed];
            let ended = user.hotcell(words).env("PATH", &path).end();
            ended.code(125).prints("").says_one_line("--toolchain");
            // The system's own programs are still there, and the option works.
            if typed == "python3" && name.ends_with("venv") {
                let words = ["run", "--workspace", &format!("l{n}"), "--", "echo", "there"];
                user.hotcell(words).env("PATH", &path).end().code(0).prints("there\n");
                let app = user.path("srv/app").display().to_string();
                let words = ["run", "--workspace", &format!("l{n}"), "--toolchain", &app, "--", "python3"];
                user.hotcell(words).env("PATH", &path).end().code(0).prints(SECRET);
            }
        }
        // A source that the person names, which is a link in the project.
        let project = user.make_folder("work/source");
        symlink("../../srv/app/.env", project.join("a.sh")).expect("a link");
        let words = ["run", "--workspace", "source", "--lang", "bash", "source/a.sh"];
        user.hotcell(words).end().code(125).prints("").says_one_line("is a link that came with");
    });
}

#[test]
fn clone_selects_operator_installations_and_sees_parts() {
    everyone(|user| {
        let path = operators_path(user);
        let run = |words: &[&str]| user.hotcell(words).env("PATH", &path).end();
        user.make_folder("work/p");
        run(&["run", "--workspace", "p", "--", "python3"]).code(0).prints("python 3.11.7\n");
        user.write("work/p/.python-version", "3.12\n");
        run(&["run", "--workspace", "p", "--", "python3"]).code(0).prints("python 3.12.1\n");
        for spelling in ["../../../srv/app", "3.12.1/../../../../srv/app", "/srv/app"] {
            user.write("work/p/.python-version", spelling);
            run(&["run", "--workspace", "p", "--", "python3"]).code(0).prints("python 3.11.7\n");
        }
        run(&["run", "--workspace", "p", "--", "cargo"]).code(0).prints("cargo a\n");
        user.write("work/p/rust-toolchain.toml", "[toolchain]\nchannel = \"b\"\n");
        run(&["run", "--workspace", "p", "--", "cargo"]).code(0).prints("cargo b\n");
        // Its own environment, based on a Python of the operator's.
        let version = user.path("home/.pyenv/versions/3.12.1");
        file(user, "work/p/.venv/pyvenv.cfg", &format!("home = {}/bin\n", version.display()));
        user.make_folder("work/p/.venv/bin");
        let python = user.path("work/p/.venv/bin/python3");
        symlink(version.join("bin/python3"), &python).expect("a link");
        user.own(&python);
        let outcome = run(&["run", "--json", "--workspace", "p", "--", "python3"]).code(0).json();
        assert_eq!(outcome["stdout"]["text"], "python 3.12.1\n");
        let shown: Vec<PathBuf> = outcome["mounts"]
            .as_array()
            .expect("mounts")
            .iter()
            .filter(|mount| mount["kind"] == "toolchain")
            .filter_map(|mount| Some(mount["inside"].as_str()?.into()))
            .collect();
        let want = [version.join("bin"), version.join("lib"), user.path("work/p/.venv")];
        assert_eq!(shown.len(), want.len(), "{shown:?}");
        assert!(want.iter().all(|path| shown.contains(path)), "{shown:?}");
        // A script's first line may name one, and files beside its parts are not visible.
        let text = format!("#!{}/bin/python3\n", version.display());
        user.write_program("work/p/tool", &text);
        run(&["run", "--workspace", "p", "--", "./tool"]).code(0).prints("python 3.12.1\n");
        user.write("work/p/.python-version", "3.12.1\n");
        run(&["run", "--workspace", "p", "--", "look"]).code(0).prints("bin\nlib\n");
    });
}

#[test]
fn bound_program_is_found_at_inside_path() {
    everyone(|user| {
        user.write_program("work/tool", "#!/bin/sh\necho bound $1\n");
        let words = ["run", "--ro", "tool:/home/sandbox/x", "--", "/home/sandbox/x", "here"];
        user.hotcell(words).end().code(0).prints("bound here\n");
        user.hotcell(["run", "--ro", "tool:/home/sandbox/x", "--", "/home/sandbox/y"]).end().code(127);
    });
}

/// A server whose operator has this `PATH`.
fn server(user: &User, path: &str, options: &[&str]) -> Local {
    let path = format!("PATH={path}");
    Local::start_on(user, &Weak::default().within(&["/usr/bin/env", &path]), options, STATELESS)
}

fn text(answer: &Value) -> String {
    let content = answer["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    content.iter().filter_map(|part| part["text"].as_str()).collect()
}

#[test]
fn mcp_caller_selects_operator_installations_only() {
    everyone(|user| {
        let path = operators_path(user);
        let mut client = server(user, &path, &[]);
        let mut run = |files: Value, argv: &str| {
            let made = client.good("workspace_create", &json!({ "files": files }));
            let asked = json!({ "argv": [argv], "workspace_id": made["workspace_id"] });
            text(&client.call("run_command", &asked))
        };
        for (name, text, argv) in hostile(user) {
            let own = json!({ "path": ".venv/bin/python3", "content": "#!/bin/sh\n", "executable": true });
            let said = run(json!([{ "path": name, "content": text, "executable": true }, own]), argv);
            let is_refused = said.contains("toolchains") && !said.contains(SECRET) && !said.contains("/srv/");
            // A virtual environment needs certain files to count as one, and this one has none of them.
            assert!(
                is_refused || name == ".venv/pyvenv.cfg" && !said.contains(SECRET),
                "{name} {text}: {said}"
            );
        }
        // One answer for all, whether the path exists or not.
        let mut said: Vec<String> =
            ["srv/app/bin/sh", "srv/app/bin/none", "srv/none", "srv/app/.env", "srv", "home"]
                .map(|below| run(script(&user.path(below).display().to_string()), "./x"))
                .into();
        said.extend(
            ["/root/.bashrc", "/root/none", "/etc/shadow", "/proc/1/environ", "/"]
                .map(|p| run(script(p), "./x")),
        );
        let first = said[0].split("run_").next().unwrap_or_default().to_owned();
        for said in &said {
            assert_eq!(said.split("run_").next().unwrap_or_default(), first);
        }
        // Choices that it does have.
        let one = |name: &str, content: &str| json!([{ "path": name, "content": content }]);
        assert!(run(one("f", ""), "python3").contains("python 3.11.7"));
        assert!(run(one(".python-version", "3.12\n"), "python3").contains("python 3.12.1"));
        assert!(
            run(one("rust-toolchain.toml", "[toolchain]\nchannel = \"b\"\n"), "cargo").contains("cargo b")
        );
        let line = script(&user.path("home/.pyenv/versions/3.12.1/bin/python3").display().to_string());
        assert!(run(line, "./x").contains("python 3.12.1"));
    });
}

fn script(interpreter: &str) -> Value {
    json!([{ "path": "x", "content": format!("#!{interpreter}\n"), "executable": true }])
}

#[test]
fn link_in_operator_folder_is_refused_over_mcp() {
    everyone(|user| {
        let path = operators_path(user);
        let site = user.make_folder("work/site");
        symlink("../../srv/app", site.join(".venv")).expect("a link");
        user.own(&site.join(".venv"));
        let app = user.path("srv/app").display().to_string();
        for (toolchains, works) in [(String::new(), false), (format!("toolchains = [{app:?}]\n"), true)] {
            let text_of = format!("{toolchains}[mcp]\nfolders = [{:?}]\n", site.display().to_string());
            let file = user.write("config.toml", text_of);
            let mut client = server(user, &path, &["--config", file.to_str().expect("a path")]);
            let made = client.good("workspace_create", &json!({ "folder": site.display().to_string() }));
            let asked = json!({ "argv": ["python3"], "workspace_id": made["workspace_id"] });
            let said = text(&client.call("run_command", &asked));
            assert_eq!(said.contains(SECRET), works, "{said}");
            assert!(works || said.contains("toolchains"), "{said}");
        }
    });
}

/// A caller commits an installation into the operator's home, where one is looked for; its word is not the operator's. Without the
/// commit's folder it would be the operator's own: the file at its place is believed then.
#[test]
fn planted_installation_is_not_operators() {
    everyone(|user| {
        operators_path(user);
        let conda = user.make_folder("home/miniconda3");
        let planted = json!([
            { "path": "conda-meta/history", "content": "x\n" },
            { "path": "bin/tool", "content": "#!/bin/sh\necho planted\n", "executable": true },
        ]);
        let path = format!("{}/bin:/usr/bin:/bin", conda.display());
        let line = format!("{}/bin/tool", conda.display());
        for (commit, works) in [(true, false), (false, true)] {
            let folder = conda.display().to_string();
            let own = if commit { format!("[mcp]\ncommit = [{folder:?}]\n") } else { String::new() };
            let file = user.write("config.toml", own);
            let mut client = server(user, &path, &["--config", file.to_str().expect("a path")]);
            if commit {
                let made = client.good("workspace_create", &json!({ "folder": folder }));
                let id = &made["workspace_id"];
                client.good("workspace_write", &json!({ "workspace_id": id, "files": planted }));
                client.good("workspace_commit", &json!({ "workspace_id": id }));
                assert!(conda.join("bin/tool").is_file(), "nothing was planted");
            }
            // By its name on PATH, and by a first line, which only chooses.
            let other = client.good("workspace_create", &json!({ "files": script(&line) }));
            for argv in ["tool", "./x"] {
                let asked = json!({ "argv": [argv], "workspace_id": other["workspace_id"] });
                let said = text(&client.call("run_command", &asked));
                assert_eq!(said.contains("planted"), works, "{argv}, commit {commit}: {said}");
                assert!(works || !said.contains(&line), "{said}");
            }
        }
    });
}

/// The options that take a path, with a link of a clone's that leads out of it, with one that stays, and with where it leads.
#[test]
fn typed_paths_follow_no_clone_link_outside() {
    everyone(|user| {
        file(user, "work/clone/.git/HEAD", "x");
        for folder in ["work/clone/real", "work/private"] {
            let what = if folder.ends_with("real") { "theirs" } else { SECRET };
            file(user, &format!("{folder}/key"), what);
            file(user, &format!("{folder}/a.sh"), &format!("echo {what}\n"));
            file(
                user,
                &format!("{folder}/test_a.py"),
                "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): print(open('key').read())\n",
            );
            program(user, &format!("{folder}/bin/tool"), &format!("echo {what}"));
        }
        // A configuration that would be an error says that it was read.
        file(user, "work/private/hotcell.toml", "nonsense = 1\n");
        for (link, to) in [("out", "../private"), ("in", "real")] {
            let link = user.path("work/clone").join(link);
            symlink(to, &link).expect("a link");
            user.own(&link);
        }
        let forms: [&[&str]; 8] = [
            &["run", "--ro", "AT:/x", "--", "cat", "/x/key"],
            &["run", "--rw", "AT:/x", "--", "cat", "/x/key"],
            &["run", "--workspace", "AT", "--", "cat", "key"],
            &["run", "--workspace", "AT", "--deps", "--", "cat", "key"],
            &["run", "--stdin", "AT/key", "--", "cat"],
            &["run", "--toolchain", "AT", "--", "tool"],
            &["run", "--lang", "bash", "AT/a.sh"],
            &["test", "AT", "--framework", "unittest"],
        ];
        for form in forms {
            let typed = |at: &str| {
                let words: Vec<String> = form.iter().map(|word| word.replace("AT", at)).collect();
                user.hotcell(words).end()
            };
            let led = typed("clone/out");
            led.code(125).says("is a link that came with");
            assert!(
                !led.text().contains(SECRET) && !led.text().contains("nonsense"),
                "{form:?}: {}",
                led.text()
            );
            if !form.contains(&"--deps") {
                typed("clone/in").code(0);
            }
        }
        // Paths that no program of a sandbox sees; the table of all is a unit test of the command line.
        file(user, "work/private/a.yml", &format!("id: {SECRET}"));
        let read_here: [&[&str]; 10] = [
            &["scan", "AT"],
            &["scan", "--json", "AT/key"],
            &["run", "--rules", "AT", "--lang", "bash", "-"],
            &["run", "--profile", "AT/hotcell.toml", "--", "true"],
            &["test", "clone", "--shard", "1/2", "--shard-times", "AT/key"],
            &["--config", "AT/hotcell.toml", "runs", "list"],
            &["tool", "add", "AT/key"],
            &["image", "build", "AT/hotcell.toml"],
            &["workspace", "create", "AT"],
            &["workspace", "create", "--archive", "AT/key"],
        ];
        for form in read_here {
            let words: Vec<String> = form.iter().map(|word| word.replace("AT", "clone/out")).collect();
            let led = user.hotcell(words).end();
            let said = led.code(125).text() + &led.stderr;
            assert!(said.contains("is a link that came with"), "{form:?}: {said}");
            assert!(!said.contains(SECRET) && !said.contains("nonsense"), "{form:?}: {said}");
        }
        // A path that is named directly, and not by a link, is used.
        user.hotcell(["run", "--stdin", "private/key", "--", "cat"]).end().code(0).prints(SECRET);
        user.hotcell(["run", "--ro", "private:/x", "--", "cat", "/x/key"]).end().code(0).prints(SECRET);
    });
}

/// Tests that may write where the results go put a link at their name. Who opened the name afterwards would write through it, as through
/// the link beside it.
#[test]
fn results_are_not_written_through_links() {
    everyone(|user| {
        let out = user.make_folder("work/out");
        let victim = user.write("work/victim", "kept");
        let script = format!(
            "import os, unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n        \
             for name in ('j.xml', 'summary.md'):\n            os.remove('/out/' + name)\n            os.symlink({0:?}, '/out/' + name)\n        \
             os.symlink({0:?}, '/out/beside')\n",
            victim.display().to_string()
        );
        file(user, "work/p/test_a.py", &script);
        let words = [
            "test",
            "p",
            "--framework",
            "unittest",
            "--junit",
            "out/j.xml",
            "--github",
            "--rw",
            "out:/out",
            "--guard",
            "off",
        ];
        user.hotcell(words).env("GITHUB_STEP_SUMMARY", out.join("summary.md")).end().code(0);
        let read = |path: &std::path::Path| std::fs::read_to_string(path).expect("a file");
        assert_eq!(read(&victim), "kept");
        for (name, holds) in [("j.xml", "<testsuite"), ("summary.md", "###")] {
            assert!(out.join(name).symlink_metadata().expect("results").is_file(), "{name} is a link");
            assert!(read(&out.join(name)).contains(holds), "{name}");
        }
        // The control: it is an attack.
        std::fs::write(out.join("beside"), "overwritten").expect("written");
        assert_eq!(read(&victim), "overwritten");
    });
}
