//! Third-party projects: each test has the same result inside and outside.
//!
//! `scripts/fetch-projects` prepares them and prints the folder for `$HOTCELL_TEST_PROJECTS` (Python) or
//! `$HOTCELL_TEST_OTHERS` (other languages); `projects/` lists them with the reasons for their choice.
//! Outside, a program of ours (`src/observer.py`) runs Python suites as the project's own command does, in an
//! environment like the one inside; other suites run by their own commands, of whose output only the result
//! of each test is read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use hotcell_end_to_end::User;
use serde_json::Value;

#[test]
fn python_projects_agree_inside_and_outside() {
    all_of("HOTCELL_TEST_PROJECTS");
}

#[test]
fn other_language_projects_agree_inside_and_outside() {
    all_of("HOTCELL_TEST_OTHERS");
}

fn all_of(variable: &str) {
    let Some(top) = std::env::var_os(variable).map(PathBuf::from) else {
        println!("skipped: other people's projects: {variable} names no folder (scripts/fetch-projects)");
        return;
    };
    let list = std::fs::read(top.join("projects.json")).expect("scripts/fetch-projects made the folder");
    let list: Vec<Value> = serde_json::from_slice(&list).expect("a list");
    let user = User::ordinary().unwrap_or_else(User::me);
    assert!(user.is_ordinary(), "this needs setpriv");
    let wrong: Vec<String> = list.iter().filter_map(|project| compare(&user, &top, project).err()).collect();
    assert!(!list.is_empty() && wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Runs one project's suite inside and outside, and reports the tests whose results differ. Some suites have
/// tests that depend on the machine's speed, so a difference counts only if it occurs three times in a row.
fn compare(user: &User, top: &Path, project: &Value) -> Result<(), String> {
    let mut left = differences(user, top, project, "first");
    for attempt in ["second", "third"] {
        if left.is_empty() {
            return Ok(());
        }
        println!("tried again: {}", left.join("\n  "));
        let again = differences(user, top, project, attempt);
        left.retain(|line| again.contains(line));
    }
    if left.is_empty() { Ok(()) } else { Err(left.join("\n")) }
}

fn differences(user: &User, top: &Path, project: &Value, attempt: &str) -> Vec<String> {
    let text = |key: &str| project[key].as_str().unwrap_or_default();
    let name = format!("{}-{}", text("name").replace('/', "-"), text("version"));
    let copy = |to: &str| {
        let folder = user.make_folder(to).join(&name);
        user.copy_folder(&top.join(&name), &folder);
        folder
    };
    let outside = outside(user, top, &copy(&format!("{attempt}-outside")), project);
    let inside = inside(user, top, &copy(&format!("{attempt}-inside")), project);
    let tests = inside.results.len();
    let least = project["tests"].as_u64().unwrap_or(u64::MAX);
    println!("{name}: {tests} tests, exit codes {} and {}; {}", outside.code, inside.code, inside.told);

    let mut wrong = Vec::new();
    // Differences that the docs name: each must occur, exactly as described.
    let named = project["differs"].as_object();
    let named =
        |id: &str| named.and_then(|named| Some((named.get(id)?[0].as_str()?, named.get(id)?[1].as_str()?)));
    for id in outside.results.keys().chain(inside.results.keys()).collect::<BTreeSet<_>>() {
        let (out, within) = (outside.results.get(id), inside.results.get(id));
        let as_named = named(id).map(|(o, i)| (Some(o), Some(i)));
        let found = (out.map(String::as_str), within.map(String::as_str));
        if as_named.map_or(out != within, |expected| expected != found) {
            wrong.push(format!("{name}: {id}: outside {out:?}, inside {within:?}"));
        }
    }
    // An expected failure is a failure to the exit code.
    let one_lies = project["framework"] == "gtest" || project["differs"].is_object();
    if outside.code != inside.code && !one_lies {
        wrong.push(format!("{name}: exit code {} outside, {} inside", outside.code, inside.code));
    }
    if (tests as u64) < least {
        wrong.push(format!("{name}: fewer than {least} tests ran"));
    }
    wrong
}

/// Result of a suite.
struct Ran {
    code: i64,
    results: BTreeMap<String, String>,
    told: String,
}

/// Exit code and results of the suite's own command.
fn outside(user: &User, top: &Path, folder: &Path, project: &Value) -> Ran {
    let text = |key: &str| project[key].as_str().unwrap_or_default();
    if let Some(script) = script(text("framework")) {
        return by_its_words(user, folder, script, text("framework"));
    }
    let temporary = user.make_folder("temporary");
    let report = temporary.join("outside.json");
    let observer = user.write("observer.py", include_str!("../src/observer.py"));
    let python = top.join("venv/bin/python3");
    let mut command = user.program(&python);
    command.arg("-B").arg(observer).arg(&report).arg(text("framework"));
    match text("filter") {
        "" => {}
        path if folder.join(path).exists() => drop(command.arg(path)),
        words => drop(command.args(["-k", words])),
    }
    command.env_clear().env("HOME", user.path("home")).env("TMPDIR", &temporary).env("LANG", "C.UTF-8");
    command
        .env("PATH", path_of(top))
        .current_dir(folder)
        // A file that a test may reopen by name, as inside; with a pipe of root's it could not.
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let output = command.output().expect("the suite can be started");
    let report = std::fs::read(report).unwrap_or_else(|e| {
        let said = String::from_utf8_lossy(&output.stderr);
        panic!("{}: no results outside: {e}\n{said}", folder.display())
    });
    let report: Value = serde_json::from_slice(&report).expect("JSON");
    let tests = report["tests"].as_object().expect("tests").iter();
    // Names of tests that are made from their file's path.
    let inside = |id: &str| id.replace(&*folder.to_string_lossy(), "/home/sandbox/project");
    let tests = tests.map(|(id, status)| (inside(id), status.as_str().unwrap_or_default().to_owned()));
    Ran { code: report["code"].as_i64().expect("a code"), results: tests.collect(), told: String::new() }
}

/// A suite's own command, for languages whose commands report enough.
fn script(framework: &str) -> Option<&'static str> {
    Some(match framework {
        "cargo" => "exec cargo test --offline --no-fail-fast 2>&1",
        "go" => "exec go test -count=1 -v ./... 2>&1",
        "node" => {
            "code=0; for file in test/*.test.js; do echo \"file $file\"; node --test-reporter=tap $file || code=1; done; exit $code"
        }
        // One of Google Test's programs fails on purpose and reports success, so its exit code is not the
        // suite's.
        "gtest" => {
            "cmake -S . -B ../build >../log && cmake --build ../build >>../log || exit 9; cd ../build; \
             for program in $(find . -name '*_unittest' -type f | sort); do echo \"file ${program#./}\"; $program || exit 1; done"
        }
        _ => return None,
    })
}

/// Runs a command, and reads the result of each test from its output.
fn by_its_words(user: &User, folder: &Path, script: &str, framework: &str) -> Ran {
    let mut command = user.program(Path::new("/bin/sh"));
    command.args(["-c", script]).env_clear().current_dir(folder).stdin(Stdio::null());
    let (home, temporary) = (user.path("home"), user.make_folder("temporary"));
    command
        .env("HOME", home)
        .env("TMPDIR", temporary)
        .env("LANG", "C.UTF-8")
        .env("PATH", path_for(framework));
    let output = command.output().expect("the suite can be started");
    let said = String::from_utf8_lossy(&output.stdout);
    let mut results = BTreeMap::new();
    let mut file = "";
    for line in said.lines() {
        if let Some(name) = line.strip_prefix("file ") {
            file = name;
        } else if let ("cargo", Some(running)) = (framework, line.trim_start().strip_prefix("Running ")) {
            file = running.trim_start_matches("unittests ").split(' ').next().unwrap_or_default();
        } else if line.trim_start().starts_with("Doc-tests ") {
            file = "";
        } else if let Some((name, status)) = ended(framework, line) {
            // Go's package is known at its end; the names of documentation examples contain their file.
            let id = if file.is_empty() { name.to_owned() } else { format!("{file}::{name}") };
            results.insert(id, status.to_owned());
        }
    }
    assert!(!results.is_empty(), "no results outside: {said}{}", String::from_utf8_lossy(&output.stderr));
    Ran { code: i64::from(output.status.code().unwrap_or(-1)), results, told: String::new() }
}

/// The test that ended with this line, and its result.
fn ended<'a>(framework: &str, line: &'a str) -> Option<(&'a str, &'static str)> {
    let line = line.trim_start();
    let until = |text: &'a str, mark: &str| text.split(mark).next().unwrap_or_default();
    match framework {
        "cargo" => {
            let (name, how) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
            let how = match how {
                "ok" => "passed",
                "FAILED" => "failed",
                _ => "skipped",
            };
            Some((name, how))
        }
        "go" => {
            let (how, name) = line.strip_prefix("--- ")?.split_once(": ")?;
            let how = match how {
                "PASS" => "passed",
                "FAIL" => "failed",
                _ => "skipped",
            };
            Some((until(name, " ("), how))
        }
        "node" => {
            let (failed, rest) = line.strip_prefix("not ").map_or((false, line), |rest| (true, rest));
            let name = rest.strip_prefix("ok ")?.split_once(" - ")?.1;
            let skipped = name.contains(" # SKIP");
            Some((
                until(name, " # "),
                if skipped {
                    "skipped"
                } else if failed {
                    "failed"
                } else {
                    "passed"
                },
            ))
        }
        _ => {
            let (how, name) = line.strip_prefix('[')?.split_once(" ] ")?;
            let how = match how.trim() {
                "OK" => "passed",
                // Repeated without a time at the end.
                "FAILED" if name.contains(" (") => "failed",
                _ => return None,
            };
            // With the parameter of the test after a comma.
            Some((until(until(name, " ("), ","), how))
        }
    }
}

/// `PATH` of a suite's programs, inside and outside.
fn path_for(framework: &str) -> String {
    let rust = hotcell_end_to_end::rust().filter(|_| framework == "cargo");
    rust.map_or_else(String::new, |folder| format!("{}/bin:", folder.display()))
        + "/usr/local/bin:/usr/bin:/bin"
}

/// Result of `hotcell test`.
fn inside(user: &User, top: &Path, folder: &Path, project: &Value) -> Ran {
    let text = |key: &str| project[key].as_str().unwrap_or_default();
    let mut call = user.hotcell(["test", "--json", "--framework", text("framework"), "--timeout", "10m"]);
    let other = script(text("framework")).is_some();
    call = call.env("PATH", if other { path_for(text("framework")) } else { path_of(top) });
    call.add(["--guard", "report", "--memory", "2G", "--disk", "2G", "--processes", "512"]);
    // Some of them need 1,024 and more; an ordinary user's runs have fewer by default (docs/src/limits.md).
    call.add(["--open-files", "4096"]);
    if let Some(jobs) = project["jobs"].as_i64() {
        call.add(["--jobs", &jobs.to_string()]);
    }
    if !text("filter").is_empty() {
        call.add(["--filter", text("filter")]);
    }
    call.add([folder]);
    let ended = call.end();
    let report = ended.json();
    let cases = report["cases"].as_array().expect("cases");
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let id = |case: &Value| match text("framework") {
        "go" => word(&case["name"]),
        _ => word(&case["id"]),
    };
    let results = cases.iter().map(|case| (id(case), word(&case["status"]))).collect();
    let told = format!(
        "verdict {}, complete {}, consistent {}, reason {}, limits {}, {}",
        report["verdict"],
        report["complete"],
        report["consistent"],
        report["reason"],
        report["outcome"]["limits_hit"],
        ended.stderr
    );
    Ran { code: i64::from(ended.code.unwrap_or(-1)), results, told }
}

fn path_of(top: &Path) -> String {
    format!("{}/venv/bin:/usr/local/bin:/usr/bin:/bin", top.display())
}
