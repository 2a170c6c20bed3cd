//! The front that packages install as `hotcell`, with the whole program behind it: the same answers for the same command lines.

use std::path::{Path, PathBuf};

use hotcell_end_to_end::{Ended, User, binary, copy_program, everyone, front};
use serde_json::Value;

/// Dangerous on the face of it, and inert: there is no such folder.
const HOSTILE: &str = "import os\nos.system('rm -rf /home/')\n";

/// Installs front and whole program below a prefix, as packages do; returns both paths.
fn install(user: &User, front: &Path) -> (PathBuf, PathBuf) {
    let version = user.hotcell(["--version"]).end().text();
    let version = version.trim().strip_prefix("hotcell ").expect("a version").to_owned();
    for folder in ["prefix/bin", "prefix/lib/hotcell"] {
        std::fs::create_dir_all(user.path(folder)).unwrap();
    }
    let (small, whole) =
        (user.path("prefix/bin/hotcell"), user.path(&format!("prefix/lib/hotcell/hotcell-engine-{version}")));
    copy_program(front, &small);
    copy_program(binary(), &whole);
    (small, whole)
}

/// Exit status, output and messages, without times and sizes: the parts that must not differ.
fn essence(ended: &Ended) -> (Option<i32>, Option<i32>, String, String) {
    let text = match serde_json::from_slice::<Value>(&ended.stdout) {
        Ok(Value::Object(mut object)) => {
            for volatile in ["usage", "timings_us"] {
                object.remove(volatile);
            }
            for hit in object.get_mut("limits_hit").and_then(Value::as_array_mut).into_iter().flatten() {
                hit.as_object_mut().and_then(|hit| hit.remove("at_us"));
            }
            // Where no cgroup can be made, the reason has the path of one that each run would have made.
            if let Some(layers) = object.get_mut("layers").and_then(Value::as_object_mut) {
                let cgroup = layers.get("cgroup").and_then(Value::as_str).unwrap_or_default();
                let state = cgroup.split(':').next().unwrap_or_default().to_owned();
                layers.insert("cgroup".to_owned(), state.into());
            }
            Value::Object(object).to_string()
        }
        _ => ended.text(),
    };
    (ended.code, ended.signal, without_cgroup(&text), without_cgroup(&ended.stderr))
}

/// A text without the name of a cgroup, `/hotcell/PROCESS-…`, which a refusal tells and which differs from run to run.
fn without_cgroup(text: &str) -> String {
    let mut parts = text.split("/hotcell/");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        text + "/hotcell/" + part.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-')
    })
}

#[test]
fn front_answers_like_the_whole_program() {
    let Some(front) = front() else {
        println!("skipped: no hotcell-front beside {}", binary().display());
        return;
    };
    everyone(|user| {
        let (small, _) = install(user, &front);
        user.write("work/bad.py", HOSTILE);
        user.write("work/good.py", "print('ran')\n");
        user.make_folder("work/clean");
        user.write("work/clean/note", "kept\n");
        let calls: [(&[&str], Option<&str>, i32); 21] = [
            (&["--version"], None, 0),
            (&["-V"], None, 0),
            (&["run", "--", "echo", "hi"], None, 0),
            (&["run", "--", "sh", "-c", "echo out; echo err >&2; exit 7"], None, 7),
            (&["run", "--quiet", "--", "sh", "-c", "kill -9 $$"], None, 137),
            (&["run", "--json", "--", "sh", "-c", "exit 3"], None, 3),
            (&["run", "--", "cat"], Some("typed"), 0),
            (&["run", "--no-history", "--env", "A=1", "--", "sh", "-c", "echo $A"], None, 0),
            (&["run", "--", "no-such-program"], None, 127),
            (&["run", "--timeout", "1s", "--", "sleep", "30"], None, 124),
            (&["run", "--workspace", "clean", "--", "cat", "note"], None, 0),
            (&["run", "--lang", "python", "good.py"], None, 0),
            (&["run", "--lang", "python", "bad.py"], None, 125),
            (&["run", "--lang", "python", "-"], Some(HOSTILE), 125),
            (&["run", "--no-such-option", "--", "true"], None, 125),
            (&["run", "--memory", "much", "--", "true"], None, 125),
            (&["run", "--ro", "/no/such/place", "--", "true"], None, 125),
            (&["run", "--help"], None, 0),
            (&["run"], None, 125),
            (&["scan", "bad.py"], None, 3),
            (&["no-such-command"], None, 125),
        ];
        for (words, input, code) in calls {
            let by = |binary: &Path| {
                let call = user.hotcell_at(binary, words);
                match input {
                    Some(text) => call.input(text).end(),
                    None => call.end(),
                }
            };
            let (ours, theirs) = (by(&small), by(user.binary()));
            ours.code(code);
            assert_eq!(essence(&ours), essence(&theirs), "{words:?}");
        }
        let rows = user.hotcell_at(&small, ["runs", "list", "--json"]).end().code(0).json();
        let commands =
            rows["runs"].as_array().unwrap().iter().filter(|row| row["command"][0] == "echo").count();
        assert_eq!(commands, 2, "one run of each program: {rows:#}");
    });
}

/// Options that a plain run may have, and some that it may not, each with another that may stand beside it.
const OPTIONS: [&[&str]; 19] = [
    &[],
    &["--quiet"],
    &["--no-history"],
    &["--no-daemon", "-T"],
    &["--env", "A=1", "--env", "HOME=/tmp"],
    &["--env", "NOT_SET_ANYWHERE"],
    &["--memory", "64M", "--max-processes=9"],
    &["--timeout", "20s", "--cpu-time", "none"],
    &["--max-files=100", "--max-disk", "1M", "--open-files", "99"],
    &["--capture=2", "--max-output", "1M"],
    &["--profile", "strict"],
    &["--network", "none", "--guard", "report"],
    &["--guard=off", "--cpus", "0.5"],
    &["--memory", "1"],
    &["--profile", "no-such-profile"],
    &["--guard", "never"],
    &["--quiet", "-v"],
    &["--workspace", "clean"],
    &["--ro", "/etc/hostname:/shown"],
];
/// Programs: with and without something to scan, that end in each way, and that are not there.
const PROGRAMS: [&[&str]; 12] = [
    &["true"],
    &["/bin/false"],
    &["echo", "hi", "", "two words", "\u{1b}[31m"],
    &["cat"],
    &["env"],
    &["ls", "-A", "/"],
    &["head", "-c", "3000", "/dev/zero"],
    &["sh", "-c", "echo $A; exit 4"],
    &["cat", "here.txt"],
    &["sleep", "-1"],
    &["/etc/hostname"],
    &["no-such-program", "x"],
];

#[test]
fn front_answers_a_family_of_lines_like_the_whole_program() {
    let Some(front) = front() else {
        println!("skipped: no hotcell-front beside {}", binary().display());
        return;
    };
    everyone(|user| {
        let (small, _) = install(user, &front);
        user.make_folder("work/clean");
        user.make_folder("home/.config/hotcell");
        user.write("work/here.txt", "here\n");
        let configurations = [
            "",
            "[limits]\nmemory = \"96M\"\n[env]\nA = \"2\"\n",
            "profile = \"strict\"\nnetwork = \"off\"\n",
        ];
        for (at, options) in OPTIONS.iter().enumerate() {
            for (number, program) in PROGRAMS.iter().enumerate() {
                // Each option with a third of the programs, so that each program meets most options.
                if (at + number) % 3 != 0 {
                    continue;
                }
                let configuration = configurations[(at + number / 3) % configurations.len()];
                user.write("home/.config/hotcell/config.toml", configuration);
                let form: &[&str] = if number % 2 == 0 { &["--json"] } else { &[] };
                let words = [&["run"], *options, form, &["--"], *program].concat();
                let by = |binary: &Path| user.hotcell_at(binary, &words).input("typed\n").end();
                let (ours, theirs) = (by(&small), by(user.binary()));
                assert_eq!(essence(&ours), essence(&theirs), "{words:?} with {configuration:?}");
            }
        }
    });
}

/// A project's own file and variables count as in the whole program, also where they are wrong.
#[test]
fn front_heeds_project_and_variables_like_the_whole_program() {
    let Some(front) = front() else {
        println!("skipped: no hotcell-front beside {}", binary().display());
        return;
    };
    let user = User::me();
    let (small, _) = install(&user, &front);
    let state = user.path("named");
    for (project, variable) in [
        ("[limits]\nmemory = \"32M\"\n", None),
        ("[limits]\nmemory = \"32G\"\n", None),
        ("network = \"off\"\n", None),
        ("network = [\"pypi.org:443\"]\n", None),
        ("no_such_key = 1\n", None),
        ("", Some(("HOTCELL_MEMORY", "64M"))),
        ("", Some(("HOTCELL_MEMRY", "64M"))),
        ("", Some(("HOTCELL_GUARD", "off"))),
        ("", Some(("HOTCELL_STATE", state.to_str().expect("UTF-8")))),
        ("", Some(("HOTCELL_IMAGE", "no-such-image"))),
        ("", Some(("PATH", "/nowhere"))),
    ] {
        user.write("work/hotcell.toml", project);
        for program in [&["cat", "/proc/self/limits"][..], &["sh", "-c", "exit 3"]] {
            let words = [&["run", "--json", "--"], program].concat();
            let by = |binary: &Path| {
                let call = user.hotcell_at(binary, &words);
                match variable {
                    Some((name, value)) => call.env(name, value).end(),
                    None => call.end(),
                }
            };
            let (ours, theirs) = (by(&small), by(user.binary()));
            assert_eq!(essence(&ours), essence(&theirs), "{words:?} with {project:?} {variable:?}");
        }
    }
}

#[test]
fn front_starts_no_whole_program_but_its_own() {
    let Some(front) = front() else {
        println!("skipped: no hotcell-front beside {}", binary().display());
        return;
    };
    let user = User::me();
    let (small, whole) = install(&user, &front);
    let other = whole.with_file_name("hotcell-engine-9999.0.0");
    std::fs::rename(&whole, &other).unwrap();
    // One on PATH is another program's, too.
    let path = user.make_folder("path");
    std::fs::copy("/bin/true", path.join(whole.file_name().unwrap())).unwrap();
    for words in [&["run", "--", "true"][..], &["scan", "."], &["doctor"]] {
        let ended = user.hotcell_at(&small, words).env("PATH", &path).end();
        ended.code(125).says_one_line("is not beside it; install the whole package again");
    }
    user.hotcell_at(&small, ["--version"]).end().code(0).silent();
    // The whole program needs no front.
    user.hotcell_at(&other, ["run", "--", "echo", "alone"]).end().code(0).prints("alone\n");
}

#[test]
fn entries_of_clients_name_the_front() {
    let Some(front) = front() else {
        println!("skipped: no hotcell-front beside {}", binary().display());
        return;
    };
    let user = User::me();
    let (small, _) = install(&user, &front);
    user.hotcell_at(&small, ["mcp", "install", "--client", "gemini-cli"]).end().code(0);
    let text = std::fs::read_to_string(user.path("home/.gemini/settings.json")).unwrap();
    let settings: Value = serde_json::from_str(&text).unwrap();
    let real = small.canonicalize().unwrap();
    assert_eq!(settings["mcpServers"]["hotcell"]["command"], real.to_str().unwrap(), "{settings:#}");
}
