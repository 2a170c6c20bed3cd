//! pytest on projects that want to be taken for good.

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

/// A plugin's hook that runs after everything else, with the report lying there.
const AT_THE_END: &str = "import pytest, os\nfrom forging import *\n@pytest.hookimpl(trylast=True)\ndef pytest_unconfigure(config):\n";

async fn conftest(venv: &Path, conftest: &str, tests: &str) -> Ran {
    pytest(venv, &[("conftest.py", conftest), ("forging.py", FORGED), ("test_a.py", tests)]).await
}

const BAD: &str = "def test_a(): assert 0\n";
const GOOD: &str = "def test_a(): pass\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_forged_before_anything_ran() {
    let Some(venv) = with_pytest() else { return };
    let ran = conftest(venv, "from forging import *\nforge()\nos._exit(0)\n", BAD).await;
    ran.assert_not_passed();
    assert_eq!(ran.report.verdict.exit_code(), 2, "{}", ran.told());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_forged_after_a_failure() {
    let Some(venv) = with_pytest() else { return };
    // The report and the exit code say passed; what was seen does not.
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
async fn the_exit_code_says_failed() {
    let Some(venv) = with_pytest() else { return };
    let ran = conftest(venv, "def pytest_sessionfinish(session): session.exitstatus = 1\n", GOOD).await;
    ran.assert(Verdict::Unusable, true, false);
    let ran = conftest(venv, "import atexit, os\natexit.register(lambda: os._exit(1))\n", GOOD).await;
    ran.assert(Verdict::Unusable, true, false);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_that_are_none() {
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
async fn a_huge_report() {
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
async fn a_test_that_meddles_with_the_pipe() {
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
async fn a_flood_on_the_pipe_ends_the_run() {
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
async fn a_child_that_goes_on_and_outlives_the_run() {
    let Some(venv) = with_pytest() else { return };
    // The child runs the rest of the tests too, and must not be heard.
    let forked = "import os\ndef test_a():\n    os.fork()\ndef test_b(): pass\n";
    let ran = pytest(venv, &[("test_a.py", forked)]).await;
    assert!(ran.events.iter().filter(|e| matches!(e, Event::Ended(_))).count() == 2, "{}", ran.told());
    let outlives = "import os, subprocess\ndef test_a():\n    subprocess.Popen(['sleep', '600'], start_new_session=True)\ndef test_b():\n    if os.fork() == 0:\n        os.setsid()\n        import time; time.sleep(600)\n";
    let ran = pytest(venv, &[("test_a.py", outlives)]).await;
    ran.assert(Verdict::Passed, true, true);
    assert!(ran.report.outcome.usage.wall_us.unwrap() < 50_000_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_leaves_no_report() {
    let Some(venv) = with_pytest() else { return };
    let test = "import os\ndef test_a():\n    try:\n        with open('/home/sandbox/fill', 'wb', 0) as f:\n            while True: f.write(b'x' * 4096)\n    except OSError: pass\n";
    let ran = pytest(venv, &[("test_a.py", test)]).await;
    assert!(matches!(ran.report.verdict, Verdict::Unusable | Verdict::Limit), "{}", ran.told());
    ran.assert_not_passed();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_is_nobody_to_ask() {
    let Some(venv) = with_pytest() else { return };
    let test = "import sys, os, pytest\ndef test_in():\n    assert os.read(0, 10) == b''\ndef test_terminal():\n    with pytest.raises(OSError): open('/dev/tty')\n";
    pytest(venv, &[("test_a.py", test)]).await.assert(Verdict::Passed, true, true);
}
