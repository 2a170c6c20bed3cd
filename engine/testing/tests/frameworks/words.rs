//! Follows a project's own configuration of its Python tests: the result is the same as by hand.

use super::*;

const GOOD: &str = "def test_good(): pass\n";
const BAD: &str = "def test_bad(): assert 0\n";
const CASE: &str = "import unittest\nclass A(unittest.TestCase):\n    def test_a(self): pass\n";
const SURROUNDINGS: &str = "import os\ndef test_here():\n    assert os.environ['TZ'] == 'UTC' and os.environ['PYTHONHASHSEED'] == '3'\n    assert os.getcwd().endswith('/tests') and os.environ['AT'] == os.path.dirname(os.getcwd()) + '/x'\n";

/// A run by the project's configuration: verdict, counts, and a part of the reason.
type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], Verdict, [u64; 5], &'a str);

async fn check(prefix: &Path, rows: &[Row<'_>]) {
    for (framework, files, verdict, counts, reason) in rows {
        let selection = Selection { detected: true, ..Selection::default() };
        let ran = run_with(framework, prefix, files, selection, limits()).await;
        assert_eq!((ran.report.verdict, ran.counts()), (*verdict, *counts), "{files:?}: {}", ran.told());
        let said = ran.report.reason.as_deref().unwrap_or_default();
        assert!(said.contains(reason), "{files:?}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pytest_commands_of_project_are_followed() {
    let Some(prefix) = with_pytest() else { return };
    let two = [("a/test_a.py", GOOD), ("b/test_b.py", BAD)];
    let [a, b] = two;
    check(prefix, &[
        ("pytest", &[a, b, ("tox.ini", "[testenv]\ncommands = pytest {posargs:a}\n")], Verdict::Passed, [1, 0, 0, 0, 0], "b/test_b.py"),
        // A second start counts, and fails the run.
        ("pytest", &[a, b, ("tox.ini", "[testenv]\ncommands =\n  pytest a\n  pytest b\n")], Verdict::Failed, [1, 0, 1, 0, 0], "`pytest b`"),
        (
            "pytest",
            &[("tests/test_a.py", SURROUNDINGS), ("tox.ini", "[testenv]\nchangedir = tests\nsetenv =\n  TZ=UTC\n  PYTHONHASHSEED=3\n  AT={toxinidir}/x\ncommands = python -m pytest\n")],
            Verdict::Passed,
            [1, 0, 0, 0, 0],
            "",
        ),
        // A plugin that tox's environment would have, and this one lacks.
        ("pytest", &[a, ("tox.ini", "[testenv]\ncommands = pytest --html=x.html a\n")], Verdict::Passed, [1, 0, 0, 0, 0], "--html=x.html (pytest-html is not installed)"),
        (
            "pytest",
            &[a, ("run_tests.py", "raise SystemExit(3)\n"), ("noxfile.py", "import nox\n@nox.session\ndef t(session):\n    session.run('pytest', 'a')\n    session.run('python', 'run_tests.py')\n")],
            Verdict::Failed,
            [1, 0, 1, 0, 0],
            "`python run_tests.py`",
        ),
        ("pytest", &[a, b, ("Makefile", "test:\n\tpytest a/test_*.py\n\t./unknown\n")], Verdict::Passed, [1, 0, 0, 0, 0], "not run of Makefile, target test: `./unknown`"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unittest_commands_of_project_are_followed() {
    let Some(prefix) = with_python() else { return };
    let rows: &[Row<'_>] = &[
        (
            "unittest",
            &[
                ("t/check_a.py", CASE),
                ("tox.ini", "[testenv]\ncommands = python -m unittest discover -s t -p 'check_*.py'\n"),
            ],
            Verdict::Passed,
            [1, 0, 0, 0, 0],
            "",
        ),
        (
            "unittest",
            &[
                ("test_a.py", CASE),
                ("run_tests.py", "raise SystemExit(1)\n"),
                ("Makefile", "test:\n\tpython -m unittest && python run_tests.py\n"),
            ],
            Verdict::Failed,
            [1, 0, 1, 0, 0],
            "run_tests.py",
        ),
    ];
    check(prefix, rows).await;
}

/// In a named virtual environment: not every test setup has one.
fn with_django() -> Option<PathBuf> {
    let venv = std::env::var_os("HOTCELL_TEST_DJANGO").map(PathBuf::from);
    if venv.is_none() {
        println!("skipped: HOTCELL_TEST_DJANGO names no virtual environment with Django");
    }
    venv
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn django_commands_of_project_are_followed() {
    let Some(prefix) = with_django() else { return };
    let manage = "import os, sys\nos.environ.setdefault('DJANGO_SETTINGS_MODULE', 'site1.settings')\nfrom django.core.management import execute_from_command_line\nexecute_from_command_line(sys.argv)\n";
    let settings = "SECRET_KEY = 'x'\nINSTALLED_APPS = ['notes']\nDATABASES = {'default': {'ENGINE': 'django.db.backends.sqlite3', 'NAME': ':memory:'}}\nDEFAULT_AUTO_FIELD = 'django.db.models.AutoField'\n";
    let tests = "from django.test import TestCase, tag\nfrom .models import Note\nclass NoteTests(TestCase):\n    def test_saved(self):\n        Note.objects.create(text='milk')\n        self.assertEqual(Note.objects.count(), 1)\n    @tag('slow')\n    def test_wrong(self): self.assertEqual(Note.objects.count(), 2)\n";
    let models = "from django.db import models\nclass Note(models.Model):\n    text = models.TextField()\n";
    let whole = |tox: &'static str, settings: &'static str| {
        vec![
            ("manage.py", manage),
            ("site1/__init__.py", ""),
            ("site1/settings.py", settings),
            ("notes/__init__.py", ""),
            ("notes/models.py", models),
            ("notes/tests.py", tests),
            ("tox.ini", tox),
        ]
    };
    let plain = whole("", settings);
    let tagged = whole("[testenv]\ncommands = python manage.py test --exclude-tag=slow\n", settings);
    let broken = whole("", "import nothere\n");
    check(
        &prefix,
        &[
            ("django", &plain, Verdict::Failed, [1, 1, 0, 0, 0], ""),
            ("django", &tagged, Verdict::Passed, [1, 0, 0, 0, 0], ""),
            ("django", &broken, Verdict::Unusable, [0, 0, 0, 0, 0], "No module named 'nothere'"),
        ],
    )
    .await;
    let one =
        run_with("django", &prefix, &plain, filtered("notes.tests.NoteTests.test_saved"), limits()).await;
    assert_eq!((one.report.verdict, one.counts()), (Verdict::Passed, [1, 0, 0, 0, 0]), "{}", one.told());
    let bad = run_with("django", &prefix, &plain, filtered("test_wrong"), limits()).await;
    let case = bad.case("notes.tests.NoteTests.test_wrong");
    assert_eq!((case.file.as_deref(), case.line), (Some("notes/tests.py"), Some(8)), "{}", bad.told());
    // Without Django nothing begins, and the answer says how to get it.
    let Some(python) = with_python() else { return };
    let none = run_with("django", python, &plain, Selection::default(), limits()).await;
    assert_eq!(none.report.verdict, Verdict::NotInstalled, "{}", none.told());
}
