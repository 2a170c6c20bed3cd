//! pytest on honest projects.

use super::*;

const MANY_TESTS: &str = r#"
import os, sys, subprocess, multiprocessing, unittest, pytest
def square(x): return x * x
def test_ok(): pass
def test_bad():
    print("to out"); print("to err", file=sys.stderr)
    assert 1 == 2, "no"
@pytest.mark.xfail
def test_xfail(): assert 0
@pytest.mark.xfail(strict=True)
def test_strict(): pass
@pytest.mark.skip(reason="why")
def test_skip(): pass
@pytest.mark.parametrize("v", ["a::b", "x/y.py", "[q]", "n\nl", "\x1b[2J", "<&>\"'", "\x00"])
def test_odd(v): pass
@pytest.fixture
def broken(): raise ValueError("set-up")
@pytest.fixture
def leaving():
    yield
    raise ValueError("tear-down")
def test_setup(broken): pass
def test_teardown(leaving): pass
def test_both(leaving): assert 0
class TestOld(unittest.TestCase):
    def test_ok(self): pass
    def test_sub(self):
        for i in range(3):
            with self.subTest(i=i): self.assertNotEqual(i, 1)
def test_surroundings():
    import __main__
    assert "PYTHONPATH" not in os.environ and "PYTEST_PLUGINS" not in os.environ
    assert sys.argv[0].endswith(os.path.join("pytest", "__main__.py"))
    assert __main__.__spec__.name == "pytest.__main__"
    assert os.getcwd() in sys.path and not any(".hotcell" in p for p in sys.path)
    assert "hotcell_live" not in sys.modules
def test_spawn():
    with multiprocessing.get_context("spawn").Pool(1) as pool: assert pool.map(square, [3]) == [9]
def test_child_has_no_pipe():
    code = "import os\nfor fd in range(3, 1024):\n  try: os.fstat(fd)\n  except OSError: continue\n  raise SystemExit(fd)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pytest_kinds_are_reported() {
    let Some(venv) = with_pytest() else { return };
    let files = [("sub/test_many.py", MANY_TESTS), ("docs/test_text.txt", ">>> 1 + 1\n3\n")];
    let ran = pytest(venv, &files).await;
    ran.assert(Verdict::Failed, true, true);
    assert_eq!(ran.counts(), [12, 4, 3, 2, 0], "{}", ran.told());
    let bad = ran.case("::test_bad");
    assert_eq!(
        (bad.id.as_str(), bad.line, bad.status),
        ("sub/test_many.py::test_bad", Some(7), Status::Failed)
    );
    assert_eq!(bad.file.as_deref(), Some("sub/test_many.py"));
    assert_eq!(bad.source.as_deref(), Some("assert 1 == 2, \"no\""));
    assert_eq!((bad.stdout.as_deref(), bad.stderr.as_deref()), (Some("to out"), Some("to err")));
    assert!(bad.message.as_deref().unwrap().starts_with("AssertionError: no"), "{}", ran.told());
    assert!(bad.details.as_deref().unwrap().contains("assert 1 == 2"));
    assert_eq!(ran.case("::test_both").status, Status::Errored);
    assert_eq!(ran.case("::test_sub").status, Status::Failed);
    assert_eq!(ran.case("test_text.txt").status, Status::Failed);
    assert_eq!(ran.case("::test_ok").stdout, None);
    assert!(
        ran.report.interpreter.as_ref().unwrap().path.starts_with(venv.to_str().unwrap()),
        "{}",
        ran.told()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disabled_junitxml_plugin_is_enabled() {
    let Some(venv) = with_pytest() else { return };
    let settings = "[pytest]\naddopts = -p no:junitxml -p no:cacheprovider\n";
    let files = [("pytest.ini", settings), ("test_a.py", "def test_a(): pass\n")];
    pytest(venv, &files).await.assert(Verdict::Passed, true, true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pytest_passes_and_empty_selection_are_reported() {
    let Some(venv) = with_pytest() else { return };
    let files = [("test_a.py", "def test_a(): pass\ndef test_b(): pass\n")];
    let ran = pytest(venv, &files).await;
    ran.assert(Verdict::Passed, true, true);
    assert_eq!((ran.counts(), &ran.report.reason), ([2, 0, 0, 0, 0], &None));
    assert!(matches!(ran.events.last(), Some(Event::Finished(0, None))));

    // An id finds its test again.
    let one = run_with("pytest", venv, &files, filtered(&ran.report.cases[1].id), limits()).await;
    one.assert(Verdict::Passed, true, true);
    assert_eq!(one.report.cases.iter().map(|c| c.id.as_str()).collect::<Vec<_>>(), ["test_a.py::test_b"]);
    let one = run_with("pytest", venv, &files, filtered("_a and not _b"), limits()).await;
    assert_eq!(one.counts(), [1, 0, 0, 0, 0], "{}", one.told());
    let none = run_with("pytest", venv, &files, filtered("nothing_like_it"), limits()).await;
    none.assert(Verdict::Unusable, true, true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_and_options_of_the_project() {
    let Some(venv) = with_pytest() else { return };
    let ini = "[pytest]\naddopts = -q -n2 --junitxml=theirs.xml --junitprefix=zz\njunit_family = xunit2\n";
    let files = [("pytest.ini", ini), ("sub/test_many.py", MANY_TESTS)];
    let ran = pytest(venv, &files).await;
    ran.assert(Verdict::Failed, true, true);
    // Not `__main__` of pytest: a worker is started by execnet.
    assert_eq!(ran.counts(), [11, 4, 3, 2, 0], "{}", ran.told());

    let jobs = Selection { jobs: Some(2), ..Selection::default() };
    let ran = run_with("pytest", venv, &[("test_a.py", "def test_a(): pass\n")], jobs, limits()).await;
    ran.assert(Verdict::Passed, true, true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_files_are_errors() {
    let Some(venv) = with_pytest() else { return };
    let files = [
        ("test_syntax.py", "def test_x(:\n"),
        ("test_import.py", "import nothing_like_it\n"),
        ("test_skipped.py", "import pytest\npytest.skip('all', allow_module_level=True)\n"),
        ("test_good.py", "def test_good(): pass\n"),
    ];
    let ran = pytest(venv, &files).await;
    ran.assert(Verdict::Failed, true, true);
    assert_eq!(ran.counts(), [0, 0, 2, 1, 0], "{}", ran.told());
    let syntax = ran.case("test_syntax.py");
    assert_eq!((syntax.line, syntax.source.as_deref()), (Some(1), Some("def test_x(:")), "{}", ran.told());
    assert_eq!(ran.case("test_skipped.py").message.as_deref(), Some("all"), "{}", ran.told());
    assert_eq!(ran.report.reason.as_deref(), Some("1 test was collected and not run"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pytest_fail_fast_stops_at_first_failure() {
    let Some(venv) = with_pytest() else { return };
    let files = [("test_a.py", "def test_a(): assert 0\ndef test_b(): pass\n")];
    let first = Selection { fail_fast: true, ..Selection::default() };
    let ran = run_with("pytest", venv, &files, first, limits()).await;
    ran.assert(Verdict::Failed, true, true);
    assert_eq!(ran.counts(), [0, 1, 0, 0, 0], "{}", ran.told());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn project_without_tests_or_pytest_is_unusable() {
    let Some(venv) = with_pytest() else { return };
    pytest(venv, &[("test_a.py", "x = 1\n")]).await.assert(Verdict::Unusable, true, true);
    pytest(venv, &[("README.md", "")]).await.assert(Verdict::Unusable, true, true);
    let bad =
        [("pytest.ini", "[pytest]\naddopts = --no-such-option\n"), ("test_a.py", "def test_a(): pass\n")];
    let ran = pytest(venv, &bad).await;
    ran.assert_not_passed();
    let reason = ran.report.reason.as_deref().unwrap();
    assert!(reason.contains("error: unrecognized arguments: --no-such-option"), "{reason}");
    let ran = pytest(venv, &[("conftest.py", "def (:\n"), ("test_a.py", "def test_a(): pass\n")]).await;
    ran.assert_not_passed();
    let reason = ran.report.reason.as_deref().unwrap();
    assert!(reason.contains("E   SyntaxError"), "{reason}");

    let Some(python) = with_python() else { return };
    // Whatever the system has: this interpreter lacks it.
    let ran = pytest(python, &[("test_a.py", "def test_a(): pass\n")]).await;
    if ran.report.verdict == Verdict::NotInstalled {
        assert!(
            ran.report.reason.as_deref().unwrap().contains("apt install python3-pytest"),
            "{}",
            ran.told()
        );
    } else {
        ran.assert(Verdict::Passed, true, true);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_arrive_during_run_and_cancel_ends_it() {
    let Some(venv) = with_pytest() else { return };
    let folder = project(&[("test_a.py", "import time\ndef test_a(): pass\ndef test_b(): time.sleep(60)\n")]);
    let session = session("pytest", venv, folder.path(), &Selection::default(), limits());
    let cancel = session.cancel();
    let report = session
        .run(&Engine::new(), &mut |progress| {
            // Nothing else shows that the second has begun.
            if matches!(progress, Progress::Event(Event::Started(id, ..)) if id.ends_with("test_b")) {
                cancel.cancel();
            }
        })
        .await;
    assert_eq!(report.verdict, Verdict::Interrupted);
    let statuses: Vec<_> = report.cases.iter().map(|c| c.status).collect();
    assert_eq!(statuses, [Status::Passed, Status::NotFinished]);
    assert!(report.outcome.usage.wall_us.unwrap() < 50_000_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pytest_limit_leaves_observed_results() {
    let Some(venv) = with_pytest() else { return };
    let files = [("test_a.py", "def test_a(): pass\ndef test_b():\n    while True: pass\n")];
    let short = Limits { wall: Duration::from_secs(8), ..limits() };
    let mut ran = run_with("pytest", venv, &files, Selection::default(), short.clone()).await;
    if let Some(limits) = longer(&short, &ran, "test_b") {
        ran = run_with("pytest", venv, &files, Selection::default(), limits).await;
    }
    ran.assert(Verdict::Limit, false, true);
    assert_eq!(ran.counts(), [1, 0, 0, 0, 1], "{}", ran.told());
    assert_eq!(ran.case("test_b").status, Status::NotFinished);
}

/// A hook may give a report a name for people, and a parameter may be a whole text: each test stays one test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_and_long_pytest_ids_are_followed() {
    let Some(venv) = with_pytest() else { return };
    let renames = "import pytest\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n    report = (yield).get_result()\n    report.nodeid = report.nodeid.encode().decode('unicode_escape')\n";
    let ids =
        "import pytest\n@pytest.mark.parametrize('x', ['\\u4e2d', 'b'])\ndef test_a(x): assert x != 'b'\n";
    let ran = pytest(venv, &[("conftest.py", renames), ("test_a.py", ids)]).await;
    ran.assert(Verdict::Failed, true, true);
    assert_eq!(ran.counts(), [1, 1, 0, 0, 0], "{}", ran.told());
    let long = "import pytest\n@pytest.mark.parametrize('x', ['a' * 9000, 'a' * 9001, 'ü' * 9000, 'c'])\ndef test_a(x): assert x[-1] != 'ü'\n";
    let ran = pytest(venv, &[("test_a.py", long)]).await;
    ran.assert(Verdict::Failed, true, true);
    assert_eq!(ran.counts(), [3, 1, 0, 0, 0], "{} bytes", ran.told().len());
    assert!(ran.report.cases.iter().all(|case| case.id.len() < 4_000));
    // The id of the report selects it.
    let id = ran.report.cases.iter().find(|case| case.status == Status::Failed).map(|case| case.id.clone());
    let ran = run_with("pytest", venv, &[("test_a.py", long)], filtered(&id.unwrap()), limits()).await;
    ran.assert(Verdict::Failed, true, true);
    assert_eq!(ran.counts(), [0, 1, 0, 0, 0], "{} bytes", ran.told().len());
}
