//! unittest, with the system's Python.

use super::*;

async fn unittest(files: &[(&str, &str)], selection: Selection) -> Option<Ran> {
    Some(run_with("unittest", with_python()?, files, selection, limits()).await)
}

const MANY_TESTS: &str = r#"
import os, sys, unittest
class A(unittest.TestCase):
    def test_ok(self): pass
    def test_fail(self):
        self.assertEqual(1, 2)
    def test_error(self): raise ValueError("x")
    @unittest.skip("why")
    def test_skip(self): pass
    @unittest.expectedFailure
    def test_expected(self): self.fail()
    @unittest.expectedFailure
    def test_unexpected(self): pass
    def test_sub(self):
        for i in range(3):
            with self.subTest(i=i): self.assertNotEqual(i, 1)
    def test_surroundings(self):
        self.assertTrue(sys.argv[0].endswith("-m unittest"))
        self.assertIn(os.getcwd(), sys.path)
        self.assertFalse(any(".hotcell" in p for p in sys.path))
    def test_forks(self):
        if os.fork() == 0: os._exit(0)
class B(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise ValueError("class")
    def test_b(self): pass
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unittest_kinds_are_reported() {
    let files = [
        ("test_many.py", MANY_TESTS),
        ("test_syntax.py", "def (:\n"),
        ("pkg/__init__.py", ""),
        ("pkg/test_p.py", MANY_TESTS),
    ];
    let Some(ran) = unittest(&files, Selection::default()).await else { return };
    ran.assert(Verdict::Failed, true, true);
    assert_eq!(ran.counts(), [6, 6, 5, 4, 0], "{}", ran.told());
    let bad = ran.case("test_many.A.test_fail");
    assert_eq!((bad.file.as_deref(), bad.line), (Some("test_many.py"), Some(6)), "{}", ran.told());
    assert_eq!(bad.source.as_deref(), Some("self.assertEqual(1, 2)"));
    assert!(bad.details.as_deref().unwrap().contains("1 != 2"));
    assert_eq!(ran.case("test_many.B").status, Status::Errored);
    assert_eq!((ran.case("test_syntax").status, ran.case("test_syntax").line), (Status::Errored, Some(1)));

    let one = unittest(&files, filtered("pkg.test_p.A.test_ok")).await.unwrap();
    // A file that cannot be imported is an error, unless an id names tests of another one, as for unittest itself.
    assert_eq!(one.counts(), [1, 0, 0, 0, 0], "{}", one.told());
    let part = unittest(&files, filtered("test_ok")).await.unwrap();
    assert_eq!(part.report.totals.errored, 1, "{}", part.told());
    let first =
        Selection { fail_fast: true, filter: Some("test_many.py".to_owned()), ..Selection::default() };
    let one = unittest(&files, first).await.unwrap();
    one.assert(Verdict::Failed, true, true);
    assert_eq!(one.report.totals.failed + one.report.totals.errored, 1, "{}", one.told());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unittest_passes_empty_and_omitted_are_reported() {
    let good = "import unittest\nclass A(unittest.TestCase):\n    def test_a(self): pass\n";
    let Some(ran) = unittest(&[("test_a.py", good)], Selection::default()).await else { return };
    ran.assert(Verdict::Passed, true, true);
    // Exit code 0 before Python 3.12, 5 since then.
    let ran = unittest(&[("test_a.py", "x = 1\n")], Selection::default()).await.unwrap();
    ran.assert(Verdict::Unusable, true, true);
    let skipped =
        "import unittest\n@unittest.skip('no')\nclass A(unittest.TestCase):\n    def test_a(self): pass\n";
    let ran = unittest(&[("test_a.py", skipped)], Selection::default()).await.unwrap();
    ran.assert(Verdict::Unusable, true, true);
    let left_out = "import unittest\nclass A(unittest.TestCase):\n    @classmethod\n    def setUpClass(cls): raise unittest.SkipTest('no')\n    def test_a(self): pass\nclass B(unittest.TestCase):\n    def test_b(self): pass\n";
    let ran = unittest(&[("test_a.py", left_out)], Selection::default()).await.unwrap();
    ran.assert(Verdict::Passed, true, true);
    assert_eq!(ran.counts(), [1, 0, 0, 1, 0], "{}", ran.told());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unawaited_coroutine_test_fails() {
    let tests = "import unittest\nclass A(unittest.TestCase):\n    async def test_a(self): self.fail()\n    def test_y(self): yield\n    @unittest.skip('no')\n    async def test_s(self): pass\nclass B(unittest.IsolatedAsyncioTestCase):\n    async def test_b(self): pass\nclass C(unittest.TestCase):\n    def _callTestMethod(self, method):\n        import asyncio\n        asyncio.run(method())\n    async def test_c(self): pass\n";
    let Some(ran) = unittest(&[("test_a.py", tests)], Selection::default()).await else { return };
    ran.assert(Verdict::Failed, true, true);
    assert_eq!(ran.counts(), [2, 0, 2, 1, 0], "{}", ran.told());
    assert!(ran.case("test_a").message.as_deref().unwrap().contains("coroutine"), "{}", ran.told());
}

/// Each shape of a test's function that makes lazy code, in each of unittest's classes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lazy_test_functions_pass_only_where_they_run() {
    let shapes = [
        ("coroutine", "async def test_x(self): self.fail()\n"),
        ("generator", "def test_x(self): yield self.fail()\n"),
        ("async_generator", "async def test_x(self):\n        self.fail()\n        yield\n"),
        ("wrapped", "@wrapped\n    async def test_x(self): self.fail()\n"),
        ("made", "def test_x(self): return (self.fail() for _ in [1])\n"),
        ("plain", "def test_x(self): pass\n"),
    ];
    let mut text = "import functools, unittest\ndef wrapped(f):\n    @functools.wraps(f)\n    def w(*a): return f(*a)\n    return w\n".to_owned();
    for (name, shape) in shapes {
        for kind in ["TestCase", "IsolatedAsyncioTestCase"] {
            text += &format!("class {name}_{kind}(unittest.{kind}):\n    {shape}");
        }
    }
    let Some(ran) = unittest(&[("test_a.py", &text)], Selection::default()).await else { return };
    ran.assert(Verdict::Failed, true, true);
    for (name, _) in shapes {
        for kind in ["TestCase", "IsolatedAsyncioTestCase"] {
            let case = ran.case(&format!("{name}_{kind}.test_x"));
            let want = name == "plain";
            assert_eq!(format!("{:?}", case.status) == "Passed", want, "{name} {kind}: {}", ran.told());
        }
    }
}

/// unittest knows nothing of an error that ends a thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_that_end_threads_are_told() {
    for (target, want) in
        [("self.fail", Some("1 error ended a thread: AssertionError: None")), ("print", None)]
    {
        let test = format!(
            "import threading, unittest\nclass A(unittest.TestCase):\n    def test_a(self):\n        t = threading.Thread(target={target}); t.start(); t.join()\n"
        );
        let Some(ran) = unittest(&[("test_a.py", &test)], Selection::default()).await else { return };
        ran.assert(Verdict::Passed, true, true);
        assert_eq!(ran.report.reason.as_deref(), want, "{}", ran.told());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupted_test_is_unfinished() {
    let test = "import unittest\nclass A(unittest.TestCase):\n    def test_a(self): pass\n    def test_b(self): raise KeyboardInterrupt\n";
    let Some(ran) = unittest(&[("test_a.py", test)], Selection::default()).await else { return };
    assert_ne!(ran.report.verdict, Verdict::Passed, "{}", ran.told());
    assert_eq!(ran.counts()[0], 1, "{}", ran.told());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn skipped_class_excuses_no_other_class() {
    let skipped = "class S(unittest.TestCase):\n    @classmethod\n    def setUpClass(cls): raise unittest.SkipTest('no')\n    def test_s(self): pass\n";
    for other in [
        "class T(unittest.TestCase):\n    def run(self, result=None): return result\n    def test_t(self): self.fail()\n",
        "class T(unittest.TestCase):\n    @classmethod\n    def setUpClass(cls): sys.exit(0)\n    def test_t(self): self.fail()\n",
        "class T(unittest.TestCase):\n    def run(self, result=None):\n        super().run(result)\n        result.stop()\n    def test_t(self): pass\n    def test_u(self): self.fail()\n",
        "class T(unittest.TestCase):\n    def test_t(self): pass\ndef load_tests(loader, tests, pattern): sys.exit(0)\n",
    ] {
        let test = format!(
            "import sys, unittest\n{skipped}class A(unittest.TestCase):\n    def test_a(self): pass\n{other}"
        );
        let Some(ran) = unittest(&[("test_a.py", &test)], Selection::default()).await else { return };
        assert_eq!(ran.report.verdict, Verdict::Unusable, "{other}: {}", ran.told());
        assert!(!ran.report.complete, "{other}: {}", ran.told());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tests_in_a_folder_that_is_no_package() {
    let test = "import unittest, shop\nclass A(unittest.TestCase):\n    def test_a(self): self.assertEqual(shop.PRICE, 2)\n";
    let files = [("shop.py", "PRICE = 1\n"), ("tests/test_a.py", test)];
    let Some(ran) = unittest(&files, Selection::default()).await else { return };
    ran.assert(Verdict::Failed, true, true);
    let bad = ran.case("test_a.A.test_a");
    assert_eq!((bad.file.as_deref(), bad.line), (Some("tests/test_a.py"), Some(3)), "{}", ran.told());
    let ran = unittest(&files, filtered("tests/test_a.py")).await.unwrap();
    assert_eq!(ran.counts(), [0, 1, 0, 0, 0], "{}", ran.told());
    // Chosen against the detection's advice, it leaves out files that it does not find, and this is reported.
    let good = "import unittest\nclass A(unittest.TestCase):\n    def test_a(self): pass\n";
    let ran = unittest(&[("test_b.py", good), files[0], files[1]], Selection::default()).await.unwrap();
    ran.assert(Verdict::Passed, true, true);
    let want = "no test ran of files that seem to hold some: tests/test_a.py";
    assert_eq!(ran.report.reason.as_deref(), Some(want));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tests_that_end_the_runner_or_forge() {
    let forge = "os.makedirs('/home/sandbox/.hotcell-reports', exist_ok=True); open('/home/sandbox/.hotcell-reports/unittest.jsonl', 'w').write('{\"e\":\"case\",\"id\":\"test_a.A.test_a\",\"status\":\"passed\"}\\n{\"e\":\"done\",\"count\":1}\\n')";
    for does in [
        "os._exit(0)".to_owned(),
        "os.kill(os.getpid(), 9)".to_owned(),
        format!("{forge}; os._exit(0)"),
        "import atexit; atexit.register(lambda: os._exit(0)); self.fail()".to_owned(),
        "os.closerange(3, 4096)".to_owned(),
    ] {
        let test = format!(
            "import os, unittest\nclass A(unittest.TestCase):\n    def test_a(self):\n        {does}\n    def test_b(self): pass\n"
        );
        let Some(ran) = unittest(&[("test_a.py", &test)], Selection::default()).await else { return };
        assert_eq!(ran.report.verdict, Verdict::Unusable, "{does}: {}", ran.told());
        ran.assert_not_passed();
    }
}

/// An error that a test raised counts, even where unittest's own parts are replaced by ones that drop it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_that_unittest_drops_are_failures() {
    let Some(python) = with_python() else { return };
    let quiet = "import unittest.case\nfrom contextlib import contextmanager\n@contextmanager\ndef quiet(self, test_case, *more, **most):\n    try: yield\n    except BaseException: pass\nunittest.case._Outcome.testPartExecutor = quiet\n";
    let plain = "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): self.fail('x')\n    def test_b(self): pass\n";
    let coroutines = "import unittest\nclass T(unittest.IsolatedAsyncioTestCase):\n    async def test_a(self): self.fail('x')\n    async def test_b(self): pass\n";
    for tests in [plain, coroutines] {
        let text = format!("{quiet}{tests}");
        let ran = run_with("unittest", python, &[("test_a.py", &text)], Selection::default(), limits()).await;
        ran.assert(Verdict::Failed, true, true);
        assert_eq!(ran.counts(), [1, 1, 0, 0, 0], "{}", ran.told());
        let message = ran.case("test_a").message.clone().unwrap_or_default();
        assert!(message.contains("it raised AssertionError, and nothing reported that"), "{}", ran.told());
    }
    // A test that is expected to fail, that is skipped within, or that a run of its own repeats.
    let good = "import unittest\nclass T(unittest.TestCase):\n    n = 0\n    def run(self, result=None):\n        super().run(unittest.TestResult())\n        return super().run(result)\n    @unittest.expectedFailure\n    def test_a(self): self.fail('x')\n    def test_b(self): self.skipTest('no')\n    def test_c(self):\n        T.n += 1\n        self.assertGreater(T.n, 1)\n";
    let ran = run_with("unittest", python, &[("test_a.py", good)], Selection::default(), limits()).await;
    ran.assert(Verdict::Passed, true, true);
    assert_eq!(ran.counts(), [1, 0, 0, 2, 0], "{}", ran.told());
}
