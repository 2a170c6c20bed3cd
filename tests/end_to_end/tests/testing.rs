//! `hotcell test`: its results for a person, a script and a workflow, and its defence against hostile tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hotcell_end_to_end::{Ended, User, everyone, node_modules, past_the_start, venv};
use serde_json::Value;

/// Runs a test as each user, with pytest first on `PATH`.
fn with_pytest(test: impl Fn(&User, &str)) {
    let Some(venv) = venv() else { return };
    let path = format!("{}/bin:/usr/bin:/bin", venv.display());
    everyone(|user| test(user, &path));
}

/// A project with one test file.
fn project(user: &User, name: &str, text: &str) -> PathBuf {
    let folder = user.make_folder(name);
    user.write(format!("{name}/test_it.py"), text);
    folder
}

fn test(user: &User, path: &str, folder: &Path, options: &[&str]) -> Ended {
    let mut call = user.hotcell(["test"]).env("PATH", path);
    call.add(options).add([folder]);
    call.end()
}

/// Results by id.
fn results(report: &Value) -> BTreeMap<String, String> {
    let cases = report["cases"].as_array().expect("cases");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    cases.iter().map(|case| (text(&case["id"]), text(&case["status"]))).collect()
}

/// All files below a folder with their bytes.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        if entry.path().is_dir() {
            found.extend(contents(&entry.path()));
        } else {
            found.insert(entry.path(), std::fs::read(entry.path()).expect("a file"));
        }
    }
    found
}

#[test]
fn pytest_bug_is_reported_without_writes() {
    with_pytest(|user, path| {
        let folder = user.example("basket");
        let before = contents(&folder);
        // One of its files is hostile: the guard would stop here, but these tests are about the sandbox.
        let ended = test(user, path, &folder, &["--guard", "report", "--json", "--filter", "not warmup"]);
        let report = ended.code(1).silent().json();
        assert_eq!((&report["complete"], &report["consistent"]), (&true.into(), &true.into()), "{report:#}");
        let totals =
            ["passed", "failed", "errored", "skipped"].map(|t| report["totals"][t].as_u64().unwrap());
        assert_eq!(totals, [13, 1, 0, 1], "{report:#}");
        let cases = report["cases"].as_array().unwrap();
        let bad = cases.iter().find(|case| case["status"] == "failed").expect("one failed");
        assert_eq!(bad["id"], "tests/test_pricing.py::test_discounts_begin_at_their_count[10-5]");
        assert_eq!((&bad["file"], &bad["line"]), (&"tests/test_pricing.py".into(), &26.into()));
        assert_eq!(bad["source"], "assert discount(count) == percent");
        assert!(bad["message"].as_str().unwrap().starts_with("assert 0 == 5"), "{bad:#}");
        assert!(bad["details"].as_str().unwrap().contains("VOLUME_DISCOUNTS") || bad["details"].is_string());
        assert_eq!(contents(&folder), before, "the project is as it was");

        let ended = test(user, path, &folder, &["--guard", "report", "--filter", "not warmup"]);
        let text = ended.code(1).text();
        assert!(text.starts_with("FAILED  tests/test_pricing.py::"), "failures come first: {text}");
        assert!(
            text.contains("    tests/test_pricing.py:26\n    > assert discount(count) == percent\n"),
            "{text}"
        );
        let last = text.lines().last().unwrap();
        assert!(last.starts_with("failed: 1 failed, 13 passed, 1 skipped in "), "{last}");

        let id = bad["id"].as_str().unwrap();
        let again = test(user, path, &folder, &["--guard", "report", "--json", "--filter", id]);
        assert_eq!(results(&again.code(1).json()), [(id.to_owned(), "failed".to_owned())].into());
    });
}

#[test]
fn limit_retains_results_and_names_running_test() {
    with_pytest(|user, path| {
        let folder = user.example("basket");
        let ended = test(user, path, &folder, &["--guard", "report", "--json", "--memory", "256M"]);
        let report = ended.code(124).json();
        let results = results(&report);
        assert_eq!(report["outcome"]["cause"], "memory_limit", "{report:#}");
        assert_eq!(results["tests/test_warmup.py::test_caches_are_warm"], "not_finished");
        assert_eq!(results["tests/test_export.py::test_export_can_be_read_back"], "passed");
        assert_eq!((&report["complete"], &report["verdict"]), (&false.into(), &"limit".into()));
        let denied = report["outcome"]["denials"].as_array().unwrap().iter();
        assert!(denied.filter(|d| d["target"] == "198.51.100.7:443").count() == 1, "{report:#}");
        assert!(folder.join("basket/pricing.py").is_file(), "what was deleted was a copy");

        let sleepy = project(
            user,
            "sleepy",
            "def test_a():\n    pass\n\ndef test_b():\n    import time\n    time.sleep(60)\n",
        );
        let ended = test(user, path, &sleepy, &["--timeout", "10s"]);
        ended.code(124).says("hotcell: stopped: time limit 10 s reached");
        assert!(ended.text().contains("UNFINISHED  test_it.py::test_b"), "{ended:#?}");
    });
}

#[test]
fn test_verdicts_set_exit_status() {
    with_pytest(|user, path| {
        for (name, text, code, word) in [
            ("good", "def test_a():\n    pass\n", 0, "passed: 1 passed"),
            (
                "skips",
                "import pytest\n\n@pytest.mark.skip\ndef test_a():\n    pass\n",
                2,
                "no result: 1 skipped",
            ),
            ("bad", "def test_a():\n    assert 0\n", 1, "failed: 1 failed"),
            ("none", "import pytest\n", 2, "no tests"),
            ("syntax", "import pytest\ndef test_a(:\n    pass\n", 1, "1 with errors"),
            (
                "crash",
                "import os\n\ndef test_a():\n    os.kill(os.getpid(), 11)\n",
                2,
                "SIGSEGV ended the test runner while test_it.py::test_a ran",
            ),
            ("leaves", "import os\n\nos._exit(0)\n", 2, "ended with exit code 0 while test_it.py was loaded"),
            (
                "leaves-early",
                "import sys\n\nsys.exit(0)\n",
                2,
                "pytest was ended early: SystemExit: 0 at test_it.py:3",
            ),
            (
                "absent",
                "import pytest\n\npytest.importorskip('no_such_module')\n",
                2,
                "no test passed: all were skipped, or failed as expected; the first: could not import 'no_such_module'",
            ),
            ("exit", "import os\n\ndef test_a():\n    os._exit(0)\n", 2, "the report is missing"),
            (
                "quit",
                "import pytest\n\ndef test_a():\n    pytest.exit('enough', returncode=0)\n",
                2,
                "no result: ",
            ),
        ] {
            let folder = project(user, name, text);
            let ended = test(user, path, &folder, &[]);
            assert!(ended.code(code).text().contains(word), "{name}: no {word:?} in {ended:#?}");
        }
    });
}

#[test]
fn hostile_tests_never_pass_for_good() {
    const CLEAN: &str = "<testsuites tests='1' failures='0'><testsuite><testcase classname='test_it' name='test_bad' time='0'/></testsuite></testsuites>";
    let forge = format!(
        "import os, sys, glob\n\ndef path():\n    return [a.split('=', 1)[1] for a in sys.argv if a.startswith('--junitxml')][0]\n\n\
         def forge():\n    os.makedirs(os.path.dirname(path()), exist_ok=True)\n    open(path(), 'w').write(\"{CLEAN}\")\n    os._exit(0)\n"
    );
    let last = |text: &str| format!("{forge}\nimport atexit\n\n{text}");
    with_pytest(|user, path| {
        for (name, text) in [
            ("forged-and-gone", last("def test_bad():\n    forge()\n")),
            ("forged-at-exit", last("atexit.register(forge)\n\ndef test_bad():\n    assert 0\n")),
            ("closes-3", "import os\n\ndef test_bad():\n    os.closerange(3, 4096)\n    assert 0\n".to_owned()),
            (
                "writes-events",
                "import os, stat\n\ndef test_bad():\n    for fd in range(3, 1024):\n        try:\n            \
                 if stat.S_ISFIFO(os.fstat(fd).st_mode):\n                os.write(fd, b'{\"e\":\"end\",\"id\":\"test_it.py::test_bad\",\"status\":\"passed\",\"ms\":1}\\n{\"e\":\"finish\",\"exit\":0}\\n')\n        \
                 except OSError:\n            pass\n    os._exit(0)\n"
                    .to_owned(),
            ),
            ("kills-parent", "import os, signal\n\ndef test_bad():\n    os.kill(1, signal.SIGKILL)\n    os.kill(os.getppid(), signal.SIGKILL)\n    assert 0\n".to_owned()),
            ("outlives", "import os, time\n\ndef test_bad():\n    if os.fork() == 0:\n        os.setsid()\n        time.sleep(60)\n    os._exit(0)\n".to_owned()),
            ("terminal", "import os\n\ndef test_bad():\n    os.close(os.open('/dev/tty', os.O_RDWR))\n".to_owned()),
            ("reads-stdin", "def test_bad():\n    import os\n    assert os.read(0, 1)\n".to_owned()),
        ] {
            let folder = project(user, name, &text);
            let began = std::time::Instant::now();
            let ended = test(user, path, &folder, &["--timeout", "30s"]);
            assert!(matches!(ended.code, Some(1 | 2)), "{name}: {ended:#?}");
            assert!(began.elapsed() < Duration::from_secs(25), "{name} was waited for");
        }
        // Two more that only a limit ends.
        for (name, text, option) in [
            (
                "floods",
                "import os\n\ndef test_bad():\n    import stat\n    pipes = [fd for fd in range(3, 1024) if is_pipe(fd)]\n    while True:\n        os.write(pipes[0], b'x' * 65536)\n\ndef is_pipe(fd):\n    import os, stat\n    try:\n        return stat.S_ISFIFO(os.fstat(fd).st_mode)\n    except OSError:\n        return False\n",
                ["--max-output", "16M"],
            ),
            (
                "fills",
                "def test_bad():\n    with open('/tmp/x', 'wb', buffering=0) as f:\n        while True:\n            try:\n                f.write(b'x' * 65536)\n            except OSError:\n                pass\n",
                ["--max-disk", "8M"],
            ),
        ] {
            let folder = project(user, name, text);
            let ended = test(user, path, &folder, &option);
            let text = ended.code(124).text();
            assert!(text.contains("UNFINISHED  test_it.py::test_bad"), "{name}: {ended:#?}");
        }
    });
}

#[test]
fn huge_report_has_bounded_cost() {
    with_pytest(|user, path| {
        let text = "import os, sys\n\ndef test_bad():\n    out = [a.split('=', 1)[1] for a in sys.argv if a.startswith('--junitxml')][0]\n    \
                    os.makedirs(os.path.dirname(out), exist_ok=True)\n    with open(out, 'wb') as f:\n        f.truncate(1 << 30)\n    os._exit(0)\n";
        let folder = project(user, "huge", text);
        let ended = test(user, path, &folder, &["--json"]);
        let report = ended.code(2).json();
        assert!(report["reason"].as_str().unwrap().contains("1 GiB"), "{report:#}");
    });
}

#[test]
fn missing_pytest_names_interpreter_and_installation() {
    let Some(_) = venv() else { return };
    everyone(|user| {
        let bare = user.path("bare");
        let made = std::process::Command::new("/usr/bin/python3")
            .args(["-m", "venv", "--without-pip"])
            .arg(&bare)
            .status();
        assert!(made.expect("python3").success());
        let folder = project(user, "good", "import pytest\n\ndef test_a():\n    pass\n");
        let path = format!("{}/bin:/usr/bin:/bin", bare.display());
        let ended = test(user, &path, &folder, &[]);
        let text = ended.code(125).text();
        assert!(
            text.contains("pytest is not installed for") && text.contains("bare/bin/python"),
            "{ended:#?}"
        );
        let report = test(user, &path, &folder, &["--json"]).code(125).json();
        assert_eq!(
            (&report["verdict"], report["cases"].as_array().map(Vec::len)),
            (&"not_installed".into(), Some(0))
        );
    });
}

#[test]
fn test_mistakes_are_reported_before_run() {
    everyone(|user| {
        let path = "/usr/bin:/bin";
        let empty = user.make_folder("empty");
        test(user, path, &empty, &[]).code(2).says_one_line("no tests were found");
        test(user, path, &user.path("absent"), &[]).code(125).says("cannot be opened");
        let file = user.write("file.py", "");
        test(user, path, &file, &[]).code(125).says("it is a file");
        let report = test(user, path, &file, &["--json"]).code(125).silent().json();
        assert_eq!(
            (&report["schema"], &report["outcome"]["cause"]),
            (&"hotcell.test_report/1".into(), &"refused".into())
        );
        let both = user.make_folder("both");
        user.write("both/jest.config.js", "");
        user.write("both/.mocharc.json", "{}");
        let why = "looks like jest (there is jest.config.js) and like mocha (there is .mocharc.json): choose with \
                   --framework jest or --framework mocha";
        test(user, path, &both, &[]).code(125).says(why);
        // A project's own test script decides if there is one, and an unsupported framework is named.
        user.make_folder("taped");
        user.write("taped/package.json", r#"{"scripts":{"test":"uvu t.js"}}"#);
        let why = "the script test of package.json runs uvu, which is not supported";
        test(user, path, &user.path("taped"), &[]).code(2).says_one_line(why);
        for (folder, file, text, command) in [
            ("scripted", "package.json", r#"{"scripts":{"test":"node run.js"}}"#, "npm test"),
            ("made", "Makefile", "test:\n\tsh test.sh\n", "make test"),
        ] {
            user.make_folder(folder);
            user.write(format!("{folder}/{file}"), text);
            let why = format!("`hotcell run --workspace DIR -- {command}` runs it, by its exit status");
            test(user, path, &user.path(folder), &[]).code(2).says_one_line(&why);
        }
        test(user, path, &empty, &["--framework", "pytst"]).code(125).says_one_line("did you mean pytest?");
        test(user, path, &empty, &["--junit", "absent/x.xml"]).code(125).says_one_line("--junit");
        test(user, path, &empty, &["--repeat", "0"]).code(125).says_one_line("--repeat");
        test(user, path, &empty, &["--fail-fst"]).code(125).says_one_line("did you mean --fail-fast?");
    });
}

#[test]
fn junit_xml_and_workflow_agree() {
    with_pytest(|user, path| {
        let text = "import pytest\n\n@pytest.mark.parametrize('x', ['a\\n::add-mask::b', '##[error]c', '<d>&\"'])\n\
                    def test_a(x):\n    print('::add-mask::printed')\n    raise ValueError('one\\n::error::two ##[x] <b>|')\n";
        let folder = project(user, "odd", text);
        let (xml, summary) = (user.path("work/out.xml"), user.path("work/summary.md"));
        let mut call = user.hotcell(["test", "-v", "--github", "--junit", "out.xml"]);
        call = call.env("PATH", path).env("GITHUB_STEP_SUMMARY", &summary);
        call.add([&folder]);
        let ended = call.end();
        let lines: Vec<String> =
            ended.code(1).text().lines().chain(ended.stderr.lines()).map(str::to_owned).collect();
        let commands = lines.iter().filter(|l| l.trim_start().starts_with("::"));
        assert!(
            commands.clone().all(|l| l.starts_with("::error file=test_it.py,line=6,title=")),
            "{ended:#?}"
        );
        assert_eq!(commands.count(), 3, "{ended:#?}");
        assert!(!lines.iter().any(|l| l.contains("##[")), "{ended:#?}");
        let summary = std::fs::read_to_string(summary).expect("a summary");
        assert!(summary.starts_with("### failed&#58; 3 failed") && !summary.contains("<b>"), "{summary}");
        let xml = std::fs::read_to_string(xml).expect("a file");
        assert_eq!(xml.matches("<testcase ").count(), 3, "{xml}");
        assert_eq!(xml.matches("<failure ").count(), 3, "{xml}");
        assert!(xml.contains("tests=\"3\" failures=\"3\" errors=\"0\" skipped=\"0\""), "{xml}");
    });
}

#[test]
fn fail_fast_stops_and_repeat_names_flaky_tests() {
    with_pytest(|user, path| {
        let folder = project(user, "three", "def test_a():\n    assert 0\n\ndef test_b():\n    assert 0\n");
        let report = test(user, path, &folder, &["--json", "--fail-fast"]).code(1).json();
        assert_eq!(results(&report).len(), 1, "{report:#}");

        let counter = user.make_folder("counter");
        let inside = counter.display();
        let text = format!(
            "import pathlib\n\ndef test_sometimes():\n    with open('{inside}/n', 'a+') as f:\n        f.write('x')\n        \
             f.seek(0)\n        assert len(f.read()) != 2\n\ndef test_always():\n    pass\n"
        );
        let folder = project(user, "flaky", &text);
        let rw = counter.to_str().expect("UTF-8");
        let report = test(user, path, &folder, &["--json", "--repeat", "3", "--rw", rw]).code(1).json();
        let flaky = report["flaky"].as_array().expect("a list");
        assert_eq!(flaky.len(), 1, "{report:#}");
        let counts = ["passed", "failed"].map(|c| flaky[0][c].as_u64().unwrap());
        assert_eq!((flaky[0]["id"].as_str(), counts), (Some("test_it.py::test_sometimes"), [2, 1]));
        assert_eq!(report["repeats"].as_array().map(Vec::len), Some(3));
        std::fs::remove_file(counter.join("n")).expect("written by the test");
        let ended = test(user, path, &folder, &["--repeat", "3", "--rw", rw]);
        assert!(ended.code(1).text().contains("FLAKY"), "{ended:#?}");
    });
}

#[test]
fn ctrl_c_keeps_the_results_so_far() {
    with_pytest(|user, path| {
        let shared = user.make_folder("shared");
        let rw = shared.to_str().expect("UTF-8");
        let text = format!(
            "def test_a():\n    pass\n\ndef test_b():\n    import time\n    open('{rw}/begun', 'w')\n    time.sleep(60)\n"
        );
        let folder = project(user, "long", &text);
        let mut call = user.hotcell(["test", "--json", "--rw", rw]).env("PATH", path);
        call.add([&folder]);
        let child = call.start();
        let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
        let until = std::time::Instant::now() + Duration::from_secs(60);
        while !shared.join("begun").exists() {
            assert!(std::time::Instant::now() < until, "the second test never began");
            std::thread::sleep(Duration::from_millis(10));
        }
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("still there");
        let output = child.wait_with_output().expect("ends");
        assert_eq!(output.status.code(), Some(130), "{output:?}");
        let report: Value = serde_json::from_slice(&output.stdout).expect("one object");
        let results = results(&report);
        assert_eq!(results["test_it.py::test_a"], "passed", "{report:#}");
        assert_eq!(results["test_it.py::test_b"], "not_finished", "{report:#}");
    });
}

#[test]
fn unittest_runs_without_installation() {
    everyone(|user| {
        let text = "import sys, unittest\n\nclass T(unittest.TestCase):\n    def test_a(self):\n        \
                    print('one')\n        print('two', file=sys.stderr)\n        self.assertIs(sys.stdout, sys.__stdout__)\n        \
                    self.assertEqual(1, 2)\n\n    def test_b(self):\n        print('good')\n\n    @unittest.skip('later')\n    def test_c(self):\n        pass\n";
        let folder = project(user, "unit", text);
        let report = test(user, "/usr/bin:/bin", &folder, &["--json"]).code(1).json();
        let want =
            [("test_it.T.test_a", "failed"), ("test_it.T.test_b", "passed"), ("test_it.T.test_c", "skipped")];
        assert_eq!(results(&report), want.map(|(id, status)| (id.to_owned(), status.to_owned())).into());
        assert_eq!(report["framework"], "unittest");
        // The output of a failed test is known as that test's, and is in the run's output as well.
        let failed = report["cases"].as_array().expect("cases").iter().find(|case| case["name"] == "test_a");
        let failed = failed.expect("it ran");
        assert_eq!((&failed["stdout"], &failed["stderr"]), (&"one\n".into(), &"two\n".into()), "{failed:#}");
        assert_eq!(failed["message"], "AssertionError: 1 != 2", "{failed:#}");
        assert!(report["outcome"]["stdout"].to_string().contains("one\\ngood"), "{:#}", report["outcome"]);
        for profile in ["strict", "landlock-only"] {
            let ended = test(user, "/usr/bin:/bin", &folder, &["--profile", profile, "--json"]);
            // An ordinary user may have no cgroup, without which strict refuses.
            if ended.code != Some(125) {
                assert_eq!(results(&ended.code(1).json()), results(&report), "{profile}");
            }
        }
    });
}

/// The example in JavaScript and TypeScript, with its packages; `None` without them.
fn postage(user: &User) -> Option<PathBuf> {
    let modules = node_modules()?;
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/postage");
    let folder = user.make_folder("postage");
    for from in [example.as_path(), modules] {
        let copied = std::process::Command::new("cp").arg("-rT").arg(from).arg(&folder).status();
        assert!(copied.expect("cp").success(), "{} cannot be copied", from.display());
    }
    Some(folder)
}

#[test]
fn jest_and_typescript_as_a_user_types_it() {
    everyone(|user| {
        let Some(folder) = postage(user) else { return };
        let path = "/usr/bin:/bin";
        let before = contents(&folder.join("tests"));
        // One test runs forever: the results until then are kept.
        let slow = [
            ("tests/slow/tracking.test.js::a parcel is on its way", "passed"),
            ("tests/slow/tracking.test.js::and arrives", "not_finished"),
        ];
        let report = past_the_start(30, &slow, |limit| {
            test(user, path, &folder, &["--json", "--timeout", limit]).code(124).json()
        });
        let all = results(&report);
        for (id, status) in slow {
            assert_eq!(all.get(id).map(String::as_str), Some(status), "{report:#}");
        }
        assert_eq!((&report["framework"], &report["framework_version"]), (&"jest".into(), &"30.5.2".into()));
        let scan = &report["outcome"]["scan"]["verdict"];
        assert_eq!(scan, "review", "packages are nothing to refuse: {report:#}");

        let ended = test(user, path, &folder, &["--json", "--filter", "tests/parcel.test.js"]);
        let report = ended.code(1).json();
        assert_eq!((&report["complete"], &report["consistent"]), (&true.into(), &true.into()), "{report:#}");
        let totals =
            ["passed", "failed", "errored", "skipped"].map(|t| report["totals"][t].as_u64().unwrap());
        assert_eq!(totals, [3, 2, 0, 2], "{report:#}");
        let bad = report["cases"].as_array().unwrap().iter().find(|case| case["status"] == "failed").unwrap();
        assert_eq!(bad["id"], "tests/parcel.test.js::postage::500 g are within their step");
        assert_eq!((&bad["file"], &bad["line"]), (&"tests/parcel.test.js".into(), &10.into()), "{report:#}");
        assert_eq!(bad["source"], "expect(postage(grams)).toBe(cents);");
        let again = test(user, path, &folder, &["--json", "--filter", bad["id"].as_str().unwrap()]);
        assert_eq!(results(&again.code(1).json()).len(), 1, "{again:#?}");

        for (filter, code, word) in [
            ("tests/label.test.ts", 0, "passed: 2 passed"),
            ("tests/tariff.test.js", 1, "1 with errors"),
            ("abroad", 1, "1 with errors"),
        ] {
            let ended = test(user, path, &folder, &["--filter", filter]);
            assert!(ended.code(code).text().contains(word), "{filter}: {ended:#?}");
        }
        assert_eq!(contents(&folder.join("tests")), before, "the project is as it was");
    });
}
