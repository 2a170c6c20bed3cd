//! pytest on hostile projects that try to appear good.

use super::*;

/// An all-passed report of one test.
const FORGED: &str = r#"
import os
REPORT = "/home/sandbox/.hotcell-reports/pytest.xml"
def forge(tests=("test_a",)):
    os.makedirs(os.path.dirname(REPORT), exist_ok=True)
    cases = "".join('<testcase classname="test_a" name="%s" file="test_a.py" line="0" time="0.1" />' % t for t in tests)
    with open(REPORT, "w") as f:
        f.write('<?xml version="1.0"?><testsuites><testsuite name="pytest" tests="1" errors="0" failures="0">' + cases + '</testsuite></testsuites>')
"#;

/// A plugin hook that runs after everything else, when the report is written.
const AT_THE_END: &str = "import pytest, os\nfrom forging import *\n@pytest.hookimpl(trylast=True)\ndef pytest_unconfigure(config):\n";

async fn conftest(venv: &Path, conftest: &str, tests: &str) -> Ran {
    pytest(venv, &[("conftest.py", conftest), ("forging.py", FORGED), ("test_a.py", tests)]).await
}

const BAD: &str = "def test_a(): assert 0\n";
const GOOD: &str = "def test_a(): pass\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn report_forged_before_run_does_not_pass() {
    let Some(venv) = with_pytest() else { return };
    let ran = conftest(venv, "from forging import *\nforge()\nos._exit(0)\n", BAD).await;
    ran.assert_not_passed();
    assert_eq!(ran.report.verdict.exit_code(), 2, "{}", ran.told());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn report_forged_after_failure_does_not_pass() {
    let Some(venv) = with_pytest() else { return };
    // The report and the exit code say passed; the live events do not.
    let ran = conftest(venv, &format!("{AT_THE_END}    forge()\n    os._exit(0)\n"), BAD).await;
    ran.assert_not_passed();
    assert_eq!(ran.case("test_a").status, Status::Failed);
    // The report alone.
    let ran = conftest(venv, &format!("{AT_THE_END}    forge()\n"), BAD).await;
    ran.assert(Verdict::Unusable, true, false);
    assert_eq!(ran.case("test_a").status, Status::Failed);
    // The exit code alone.
    let ran = conftest(venv, "import os\ndef pytest_unconfigure(config): os._exit(0)\n", BAD).await;
    ran.assert_not_passed();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failing_exit_code_does_not_pass() {
    let Some(venv) = with_pytest() else { return };
    let ran = conftest(venv, "def pytest_sessionfinish(session): session.exitstatus = 1\n", GOOD).await;
    ran.assert(Verdict::Unusable, true, false);
    let ran = conftest(venv, "import atexit, os\natexit.register(lambda: os._exit(1))\n", GOOD).await;
    ran.assert(Verdict::Unusable, true, false);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hook_changing_result_does_not_pass() {
    let Some(venv) = with_pytest() else { return };
    // These determine the final report, the live events and the exit code.
    for (name, hook) in [
        (
            "pytest_runtest_makereport(item, call)",
            "    outcome = yield\n    outcome.get_result().outcome = 'passed'\n",
        ),
        ("pytest_runtest_logreport(report)", "    report.outcome = 'passed'\n    yield\n"),
    ] {
        let hook =
            format!("import pytest\n@pytest.hookimpl(hookwrapper=True, tryfirst=True)\ndef {name}:\n{hook}");
        for tests in [BAD, "import pytest\n@pytest.fixture\ndef f(): raise ValueError\ndef test_a(f): pass\n"]
        {
            let ran = conftest(venv, &hook, tests).await;
            ran.assert_not_passed();
            assert_eq!(ran.case("test_a").status, Status::Failed, "{}", ran.told());
            assert_eq!(ran.report.verdict.exit_code(), 2, "{}", ran.told());
        }
    }
    // These hide what a test raised before it is reported.
    let case = "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): self.fail()\n";
    for (hook, tests, id) in [
        (
            "pytest_runtest_makereport(item, call):\n    call.excinfo = None\n    yield\n",
            BAD,
            "test_a.py::test_a",
        ),
        ("pytest_runtest_call(item):\n    (yield).force_result(None)\n", BAD, "test_a.py::test_a"),
        (
            "pytest_runtest_makereport(item, call):\n    (yield).get_result().outcome = 'passed'\n",
            case,
            "test_a.py::T::test_a",
        ),
    ] {
        let hook = format!("import pytest\n@pytest.hookimpl(hookwrapper=True, tryfirst=True)\ndef {hook}");
        let ran = conftest(venv, &hook, tests).await;
        ran.assert_not_passed();
        let case = ran.report.cases.iter().find(|case| case.id == id);
        assert!(case.is_some_and(|case| case.status == Status::Failed), "{hook}: {}", ran.told());
    }
    let hook = "import pytest\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_make_collect_report(collector):\n    outcome = yield\n    report = outcome.get_result()\n    if report.failed: report.outcome, report.result, report.longrepr = 'passed', [], None\n";
    let files = [("conftest.py", hook), ("test_a.py", "def (\n"), ("test_b.py", GOOD)];
    let ran = pytest(venv, &files).await;
    ran.assert_not_passed();
    assert_eq!(ran.case("test_a.py").status, Status::Errored, "{}", ran.told());
}

/// Whatever a project has run in place of a test's function, the test has not passed; what calls the function passes it on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pytest_test_whose_function_did_not_run_does_not_pass() {
    let Some(venv) = with_pytest() else { return };
    let good =
        "import unittest\ndef test_a(): pass\nclass T(unittest.TestCase):\n    def test_a(self): pass\n";
    // With the name of its argument, and if it stands in for functions, for cases of unittest, or both.
    let of_items =
        |body: &str| format!("def pytest_collection_modifyitems(items):\n    for item in items: {body}\n");
    let of_item = |name: &str, body: &str| {
        format!("import pytest\n@pytest.hookimpl(tryfirst=True)\ndef {name}:\n    {body}\n")
    };
    let class = |name: &str, what: &str| format!("import {name} as m\nm.{what}\n");
    for (does, plain, case) in [
        (of_items("item.obj = STAND"), true, true),
        (of_item("pytest_runtest_setup(item)", "item.obj = STAND"), true, true),
        (of_item("pytest_runtest_call(item)", "item.obj = STAND"), true, true),
        (
            class("_pytest.python", "Function.runtest = lambda self, o=m.Function.runtest: CALL(self.obj)"),
            true,
            false,
        ),
        (class("unittest", "TestCase._callTestMethod = lambda self, method: CALL(method)"), false, true),
        (of_item("pytest_pyfunc_call(pyfuncitem)", "CALL(pyfuncitem.obj)\n    return True"), true, false),
    ] {
        for (honest, stand, call) in [
            (false, "lambda *a: None", "(lambda f: None)"),
            (true, "(lambda f: lambda *a: f(*a))(item.obj)", "(lambda f: f())"),
        ] {
            let hook = does.replace("STAND", stand).replace("CALL", call);
            let ran = conftest(venv, &hook, good).await;
            if honest {
                ran.assert(Verdict::Passed, true, true);
                assert_eq!(
                    (ran.counts(), &ran.report.reason),
                    ([2, 0, 0, 0, 0], &None),
                    "{hook}: {}",
                    ran.told()
                );
                continue;
            }
            ran.assert_not_passed();
            for (id, replaced) in [("test_a.py::test_a", plain), ("test_a.py::T::test_a", case)] {
                let case = ran.report.cases.iter().find(|case| case.id == id).unwrap();
                let want = if replaced { Status::Failed } else { Status::Passed };
                assert_eq!(case.status, want, "{hook}: {}", ran.told());
                let message = case.message.as_deref().unwrap_or_default();
                assert_eq!(
                    message.starts_with("its function did not run"),
                    replaced,
                    "{hook}: {}",
                    ran.told()
                );
            }
        }
    }
}

/// A hook that marks tests to fail hides their failures: of some this is told; a run of which all are marked never passes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tests_that_a_hook_expects_to_fail() {
    let Some(venv) = with_pytest() else { return };
    let tests = "import pytest\ndef test_a(): assert 0, 'why'\ndef test_b(): pass\n\
                 @pytest.mark.xfail\ndef test_c(): assert 0\ndef test_d(): pytest.xfail('known')\n";
    let hook = |which: &str| {
        format!(
            "import pytest\ndef pytest_collection_modifyitems(items):\n    for item in items:\n        if {which}: item.add_marker(pytest.mark.xfail(reason='later'))\n"
        )
    };
    let ran = conftest(venv, &hook("item.name == 'test_a'"), tests).await;
    ran.assert(Verdict::Passed, true, true);
    let want = "1 test failed, and a hook had marked it as one that is expected to fail: test_a.py::test_a";
    assert_eq!(ran.report.reason.as_deref(), Some(want), "{}", ran.told());
    let own = &tests[..tests.find("@pytest").unwrap()];
    let ran = conftest(venv, &hook("True"), own).await;
    ran.assert_not_passed();
    let failed = ran.case("test_a.py::test_a");
    let message = failed.message.as_deref().unwrap_or_default();
    assert_eq!(failed.status, Status::Failed, "{}", ran.told());
    assert!(message.starts_with("it failed, and a hook had marked each test"), "{}", ran.told());
    // The tests' own marks are theirs.
    let ran = conftest(venv, "", &tests.replace("assert 0, 'why'", "pass")).await;
    assert_eq!((ran.report.verdict, &ran.report.reason), (Verdict::Passed, &None), "{}", ran.told());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tests_that_are_set_up_and_never_called() {
    let Some(venv) = with_pytest() else { return };
    for option in ["--setup-only", "--setup-plan", "--collect-only"] {
        let ini = format!("[pytest]\naddopts = {option}\n");
        let ran = pytest(venv, &[("pytest.ini", &ini), ("test_a.py", BAD)]).await;
        ran.assert_not_passed();
        assert_eq!(ran.report.verdict, Verdict::Unusable, "{option}: {}", ran.told());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_pytest_test_reports_each_attempt() {
    let Some(venv) = with_pytest() else { return };
    // Like plugins do: each attempt with its own start, and failures not reported, or reported differently.
    for unlogged in
        ["continue", "report.outcome = 'rerun'; item.ihook.pytest_runtest_logreport(report=report); continue"]
    {
        let again = format!(
            "from _pytest.runner import runtestprotocol\ndef pytest_runtest_protocol(item, nextitem):\n    for last in range(3):\n        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)\n        reports = runtestprotocol(item, nextitem=nextitem, log=False)\n        item._initrequest()\n        for report in reports:\n            if report.failed:\n                {unlogged}\n            item.ihook.pytest_runtest_logreport(report=report)\n        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)\n        if all(r.passed for r in reports): break\n    return True\n"
        );
        let test = "runs = []\ndef test_a():\n    runs.append(1)\n    assert len(runs) == 2\n";
        conftest(venv, &again, test).await.assert(Verdict::Passed, true, true);
        let ran = conftest(venv, &again, BAD).await;
        ran.assert_not_passed();
        assert_eq!(ran.case("test_a").status, Status::Errored, "{}", ran.told());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tests_omitted_by_project_are_named() {
    let Some(venv) = with_pytest() else { return };
    let both = "def test_a(): assert 0\ndef test_good(): pass\n";
    let left_out = "1 test was found and left out by the project itself";
    let silent = "no test ran of files that seem to hold some: test_a.py";
    let uncollected = "no test ran of files that seem to hold some: test_a.py; 1 warning of pytest: cannot collect test class 'TestA' \
                       because it has a __init__ constructor (from: test_a.py)";
    let drops =
        "def pytest_collection_modifyitems(items): items[:] = [i for i in items if 'good' in i.name]\n";
    for (file, text, tests, want) in [
        ("pytest.ini", "[pytest]\naddopts = -k good\n", both, left_out),
        ("conftest.py", drops, both, left_out),
        ("conftest.py", "collect_ignore = ['test_a.py']\n", BAD, silent),
        ("pytest.ini", "[pytest]\naddopts = --ignore=test_a.py\n", BAD, silent),
        ("pytest.ini", "[pytest]\ntestpaths = sub\n", BAD, silent),
        (
            "pytest.ini",
            "[pytest]\n",
            "class TestA:\n    def __init__(self): pass\n    def test_a(self): assert 0\n",
            uncollected,
        ),
    ] {
        let ran = pytest(
            venv,
            &[(file, text), ("test_a.py", tests), ("sub/test_good.py", "def test_good(): pass\n")],
        )
        .await;
        ran.assert(Verdict::Passed, true, true);
        assert_eq!(ran.report.reason.as_deref(), Some(want), "{text}: {}", ran.told());
    }
    // With a filter, unselected tests are not reported.
    let files = [("test_a.py", both), ("test_b.py", BAD)];
    let ran = run_with("pytest", venv, &files, filtered("good"), limits()).await;
    assert_eq!((ran.report.verdict, &ran.report.reason), (Verdict::Passed, &None), "{}", ran.told());
    for (filter, settings, want) in [
        (
            Some("nosuch"),
            "",
            "the filter \"nosuch\" matches none of 3 tests; a run without ‹filter› names them",
        ),
        (None, "addopts = -k nosuch\n", "no tests were found: the project itself leaves all 3 out"),
    ] {
        let settings = format!("[pytest]\n{settings}");
        let files = [files[0], files[1], ("pytest.ini", settings.as_str())];
        let selection = Selection { filter: filter.map(str::to_owned), ..Selection::default() };
        let ran = run_with("pytest", venv, &files, selection, limits()).await;
        let why = ran.report.reason.as_deref();
        assert_eq!((ran.report.verdict, why), (Verdict::Unusable, Some(want)), "{}", ran.told());
    }
}

/// Reports of tests that pytest never called are failures, with the hook that made them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_without_a_call_are_failures() {
    let Some(venv) = with_pytest() else { return };
    let report = "TestReport(item.nodeid, item.location, {}, 'passed', None, when)";
    let say = format!(
        "def say(item):\n    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)\n    for when in ('setup', 'call', 'teardown'):\n        item.ihook.pytest_runtest_logreport(report={report})\n    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)\n    return True\n"
    );
    let head = "import pytest\nfrom _pytest.reports import TestReport\n";
    for (hook, name) in [
        ("def pytest_runtest_protocol(item, nextitem): return say(item)", "pytest_runtest_protocol"),
        (
            "@pytest.hookimpl(tryfirst=True)\ndef pytest_runtest_protocol(item): return say(item)",
            "pytest_runtest_protocol",
        ),
        (
            "def pytest_runtestloop(session): return all(say(item) for item in session.items)",
            "pytest_runtestloop",
        ),
    ] {
        let conftest = format!("{head}{say}{hook}\n");
        let ran = pytest(venv, &[("conftest.py", &conftest), ("test_a.py", BAD)]).await;
        assert_eq!(ran.report.verdict, Verdict::Unusable, "{hook}: {}", ran.told());
        ran.assert_not_passed();
        let message = ran.case("test_a").message.clone().unwrap_or_default();
        assert!(
            message.starts_with(&format!("its function did not run: {name} in conftest.py:")),
            "{hook}: {message}"
        );
    }
    // Hooks that call the tests, or leave that to pytest, or have a child process do it, which is told.
    let again = "from _pytest.runner import runtestprotocol\ndef pytest_runtest_protocol(item, nextitem):\n    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)\n    runtestprotocol(item, nextitem=nextitem)\n    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)\n    return True\n";
    let forked = format!(
        "import os\n{head}{say}def pytest_runtest_protocol(item, nextitem):\n    child = os.fork()\n    if child == 0: os._exit(0)\n    os.waitpid(child, 0)\n    return say(item)\n"
    );
    let told = "1 test passed, and its own function was not seen to run: test_a.py::test_a";
    for (conftest, want) in
        [(again, None), ("def pytest_runtest_protocol(item): print(item)\n", None), (&forked, Some(told))]
    {
        let ran = pytest(venv, &[("conftest.py", conftest), ("test_a.py", GOOD)]).await;
        ran.assert(Verdict::Passed, true, true);
        assert_eq!(ran.report.reason.as_deref(), want, "{conftest}: {}", ran.told());
    }
}

/// The end of pytest by code of the project says where, whatever exit code it has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn end_of_pytest_before_its_tests_is_told() {
    let Some(venv) = with_pytest() else { return };
    let early = "pytest was ended before its tests by the project itself: ";
    let code = "the tests' process ended with exit code 0";
    for (file, text, want) in [
        ("conftest.py", "import sys\nsys.exit(0)\n", format!("{early}SystemExit: 0 at conftest.py:2")),
        (
            "conftest.py",
            "import pytest\ndef pytest_configure(config): pytest.exit('no database', returncode=0)\n",
            format!("{early}Exit: no database"),
        ),
        ("conftest.py", "def pytest_cmdline_main(config): return 0\n", format!("{early}pytest_cmdline_main in conftest.py:1")),
        ("test_0.py", "import sys\nsys.exit(0)\n", "pytest was ended early: SystemExit: 0 at test_0.py:2".to_owned()),
        (
            "test_0.py",
            "import os\nos._exit(0)\n",
            format!("{code} while test_0.py was loaded: this file, or what it loads, ends the process"),
        ),
        (
            "conftest.py",
            "import os\nos._exit(0)\n",
            format!("{code} before a test began: settings, or code that is loaded before the tests, ends the process"),
        ),
        (
            "test_0.py",
            "import os\nos.kill(os.getpid(), 15)\n",
            "SIGTERM ended the test runner while test_0.py was loaded: this file, or what it loads, sent the signal".to_owned(),
        ),
        ("pytest.ini", "[pytest]\naddopts = --co\n", "the project's own settings have pytest collect the tests only".to_owned()),
    ] {
        let ran = pytest(venv, &[(file, text), ("test_a.py", GOOD)]).await;
        assert_eq!(ran.report.verdict, Verdict::Unusable, "{text}: {}", ran.told());
        assert!(ran.report.reason.as_deref().is_some_and(|reason| reason.contains(&want)), "{text}: {}", ran.told());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_without_passed_test_is_unusable() {
    let Some(venv) = with_pytest() else { return };
    for mark in ["skip", "xfail", "skipif(True, reason='always')"] {
        let test = format!("import pytest\npytestmark = pytest.mark.{mark}\n{BAD}");
        let ran = pytest(venv, &[("test_a.py", &test)]).await;
        ran.assert(Verdict::Unusable, true, true);
        assert_eq!(ran.counts(), [0, 0, 0, 1, 0], "{mark}: {}", ran.told());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_missing_event_gives_no_advice() {
    let Some(venv) = with_pytest() else { return };
    let told = "import os, stat\nfor fd in range(3, 1024):\n  try:\n    if stat.S_ISFIFO(os.fstat(fd).st_mode): os.write(fd, b'{\"e\":\"missing\",\"what\":\"pytest-evil\",\"executable\":\"evil; python3\",\"python\":\"3.11.2\"}\\n')\n  except OSError: pass\nos._exit(86)\n";
    let ran = conftest(venv, told, GOOD).await;
    ran.assert_not_passed();
    let said = (&ran.report.interpreter, &ran.report.command);
    assert!(!format!("{said:?}").contains("evil"), "{}", ran.told());
    // Its last line is quoted as what it printed, and nothing follows from it.
    let reason = ran.report.reason.as_deref().unwrap_or_default();
    let quoted = reason.strip_prefix("it printed last: {").and_then(|rest| rest.split_once("}; "));
    assert_eq!(
        quoted.map(|(_, own)| own),
        Some("the report is missing; the framework did not come to its end"),
        "{}",
        ran.told()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_pytest_reports_do_not_pass() {
    let Some(venv) = with_pytest() else { return };
    for (what, does) in [
        ("missing", "os.remove(REPORT)"),
        ("empty", "open(REPORT, 'w').close()"),
        ("truncated", "t = open(REPORT).read(); open(REPORT, 'w').write(t[:-20])"),
        ("a link", "os.remove(REPORT); os.symlink('/etc/passwd', REPORT)"),
        ("a link to a report", "os.rename(REPORT, REPORT + '2'); os.symlink(REPORT + '2', REPORT)"),
        ("a folder", "os.remove(REPORT); os.mkdir(REPORT)"),
        ("a pipe", "os.remove(REPORT); os.mkfifo(REPORT)"),
        ("deep", "open(REPORT, 'w').write('<testsuites>' + '<a>' * 1000000)"),
        (
            "with a document type",
            "t = open(REPORT).read(); open(REPORT, 'w').write(t.replace('<testsuites', '<!DOCTYPE a [<!ENTITY x \"y\">]><testsuites', 1))",
        ),
        ("another test's", "forge(['test_b'])"),
        ("with one more", "forge(['test_a', 'test_b'])"),
        ("of none", "forge([])"),
    ] {
        let ran = conftest(venv, &format!("{AT_THE_END}    {does}\n"), GOOD).await;
        assert_eq!(ran.report.verdict, Verdict::Unusable, "{what}: {}", ran.told());
        ran.assert_not_passed();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn huge_report_does_not_pass() {
    let Some(venv) = with_pytest() else { return };
    let large = Limits { disk: Bytes::mib(256), ..limits() };
    for does in [
        "f = open(REPORT, 'r+'); f.truncate(1 << 34)",
        "open(REPORT, 'w').write('<testsuites><testsuite>' + '<testcase/>' * 5000000)",
    ] {
        let conftest = format!("{AT_THE_END}    {does}\n");
        let files = [("conftest.py", conftest.as_str()), ("forging.py", FORGED), ("test_a.py", GOOD)];
        let ran = run_with("pytest", venv, &files, Selection::default(), large.clone()).await;
        ran.assert_not_passed();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tampered_pytest_pipe_does_not_pass() {
    let Some(venv) = with_pytest() else { return };
    for (what, does) in [
        ("closes everything", "os.closerange(3, 4096)"),
        (
            "puts a file in its place",
            "os.closerange(3, 4096)\n    for i in range(3, 1000): os.open('out', os.O_CREAT | os.O_WRONLY)",
        ),
        ("writes to it", "[os.write(fd, b'{\"e\":\"finish\",\"exit\":0}\\n') for fd in pipes()]"),
        ("writes nonsense to it", "[os.write(fd, b'\\n\\xff') for fd in pipes()]"),
        (
            "ends a test that never began",
            "[os.write(fd, b'{\"e\":\"end\",\"id\":\"x\",\"status\":\"passed\"}\\n') for fd in pipes()]",
        ),
    ] {
        let test = format!(
            "import os, stat\ndef pipes():\n  for fd in range(3, 1024):\n    try:\n      if stat.S_ISFIFO(os.fstat(fd).st_mode): yield fd\n    except OSError: pass\ndef test_a():\n    {does}\ndef test_b(): pass\n"
        );
        let ran = pytest(venv, &[("test_a.py", &test)]).await;
        assert_eq!(ran.report.verdict, Verdict::Unusable, "{what}: {}", ran.told());
        ran.assert_not_passed();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipe_flood_ends_run() {
    let Some(venv) = with_pytest() else { return };
    let test = "import os, stat\ndef test_a():\n  fds = [fd for fd in range(3, 1024) if os.path.exists('/proc/self/fd/%d' % fd) and stat.S_ISFIFO(os.fstat(fd).st_mode)]\n  for fd in fds: os.set_blocking(fd, True)\n  while True:\n    for fd in fds: os.write(fd, b'x' * 65536)\n";
    let ran = pytest(venv, &[("test_a.py", test)]).await;
    assert_eq!(ran.report.verdict, Verdict::Limit, "{}", ran.told());
    ran.assert_not_passed();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tests_that_end_the_runner() {
    let Some(venv) = with_pytest() else { return };
    for (does, verdict) in [
        ("os.kill(os.getpid(), 9)", Verdict::Unusable),
        ("os._exit(0)", Verdict::Unusable),
        ("os._exit(1)", Verdict::Unusable),
        ("os._exit(5)", Verdict::Unusable),
        ("os._exit(86)", Verdict::Unusable),
        ("pytest.exit('enough', returncode=0)", Verdict::Unusable),
        ("raise KeyboardInterrupt", Verdict::Unusable),
        ("os.abort()", Verdict::Unusable),
    ] {
        let test =
            format!("import os, pytest\ndef test_0(): pass\ndef test_a():\n    {does}\ndef test_b(): pass\n");
        let ran = pytest(venv, &[("test_a.py", &test)]).await;
        assert_eq!(ran.report.verdict, verdict, "{does}: {}", ran.told());
        ran.assert_not_passed();
        assert_eq!(ran.case("test_0").status, Status::Passed, "{does}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forked_child_of_test_is_ignored() {
    let Some(venv) = with_pytest() else { return };
    // The child process runs the remaining tests, too, and must not be heard.
    let forked = "import os\ndef test_a():\n    os.fork()\ndef test_b(): pass\n";
    let ran = pytest(venv, &[("test_a.py", forked)]).await;
    assert!(ran.events.iter().filter(|e| matches!(e, Event::Ended(_))).count() == 2, "{}", ran.told());
    let outlives = "import os, subprocess\ndef test_a():\n    subprocess.Popen(['sleep', '600'], start_new_session=True)\ndef test_b():\n    if os.fork() == 0:\n        os.setsid()\n        import time; time.sleep(600)\n";
    let ran = pytest(venv, &[("test_a.py", outlives)]).await;
    ran.assert(Verdict::Passed, true, true);
    assert!(ran.report.outcome.usage.wall_us.unwrap() < 50_000_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_disk_leaves_no_report() {
    let Some(venv) = with_pytest() else { return };
    let test = "import os\ndef test_a():\n    try:\n        with open('/home/sandbox/fill', 'wb', 0) as f:\n            while True: f.write(b'x' * 4096)\n    except OSError: pass\n";
    let ran = pytest(venv, &[("test_a.py", test)]).await;
    assert!(matches!(ran.report.verdict, Verdict::Unusable | Verdict::Limit), "{}", ran.told());
    ran.assert_not_passed();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tests_have_no_input_or_terminal() {
    let Some(venv) = with_pytest() else { return };
    let test = "import sys, os, pytest\ndef test_in():\n    assert os.read(0, 10) == b''\ndef test_terminal():\n    with pytest.raises(OSError): open('/dev/tty')\n";
    pytest(venv, &[("test_a.py", test)]).await.assert(Verdict::Passed, true, true);
}
