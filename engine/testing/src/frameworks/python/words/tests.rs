use super::*;
use crate::framework::{Selection, Strength};
use crate::frameworks::detect;

#[derive(Debug)]
struct Files(Vec<(String, String)>, Vec<String>);

impl Files {
    fn new(files: &[(&str, &str)]) -> Self {
        let mut all: Vec<_> =
            files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        all.sort();
        let names = all.iter().map(|(name, _)| name.clone()).collect();
        Self(all, names)
    }
}

impl Project for Files {
    fn files(&self) -> &[String] {
        &self.1
    }
    fn read(&self, path: &str) -> Option<Vec<u8>> {
        self.0.iter().find(|(name, _)| name == path).map(|(_, text)| text.as_bytes().to_vec())
    }
    fn has(&self, path: &str) -> bool {
        self.0.iter().any(|(name, _)| name == path || name.starts_with(&format!("{path}/")))
    }
}

/// One-line form of a start: runner, variables, folder and arguments.
fn line(start: &Start) -> String {
    let variables = start.place.variables.iter().map(|(name, value)| format!("{name}={value} "));
    let folder =
        if start.place.folder.is_empty() { String::new() } else { format!("cd {}; ", start.place.folder) };
    let arguments = start.arguments.iter().map(|word| format!(" {}", word.text));
    let text: String = variables.chain([folder, start.runner.name().to_owned()]).chain(arguments).collect();
    text.replace(TOP, "TOP")
}

/// Starts, other commands that run tests, and parts not followed.
fn said(file: &str, text: &str) -> (Vec<String>, Vec<String>, Vec<String>) {
    let words = of(&Files::new(&[(file, text)])).unwrap_or_default();
    let others = words.others.iter().map(|other| text_of(&other.words)).collect();
    (words.starts.iter().map(line).collect(), others, words.left)
}

type Row<'a> = (&'a str, &'a [&'a str], &'a [&'a str], &'a [&'a str]);

fn check(file: &str, rows: &[Row<'_>]) {
    for (text, starts, others, left) in rows {
        let (got, other, rest) = said(file, text);
        assert_eq!(got, *starts, "{file}: {text}");
        assert_eq!(other, *others, "{file}: {text}");
        assert_eq!(rest, *left, "{file}: {text}");
    }
}

#[test]
fn tox_ini_commands_are_read() {
    check(
        "tox.ini",
        &[
            ("[testenv]\ncommands = pytest {posargs}\n", &["pytest"], &[], &[]),
            ("[testenv]\ncommands = pytest {posargs:tests/unit -q}\n", &["pytest tests/unit -q"], &[], &[]),
            (
                "[testenv]\nsetenv =\n  TZ = UTC\n  PYTHONPATH = {toxinidir}/src\n  X={unknown}\ncommands =\n  pip list\n  python -m pytest -m 'not slow' \\\n    tests\n",
                &["TZ=UTC PYTHONPATH=TOP/src pytest -m not slow tests"],
                &[],
                &[],
            ),
            (
                "[testenv]\nchangedir = tests\ncommands = {envpython} -bb -m unittest discover -s .\n",
                &["cd tests; unittest discover -s ."],
                &[],
                &[],
            ),
            (
                "[testenv]\ncommands =\n  coverage run --source=x -m pytest -v\n  coverage report --fail-under=90\n",
                &["pytest -v"],
                &[],
                &["coverage report --fail-under=90"],
            ),
            (
                "[testenv]\ncommands =\n  pytest tests/unit\n  pytest tests/integration\n",
                &["pytest tests/unit", "pytest tests/integration"],
                &[],
                &[],
            ),
            ("[testenv]\ncommands = - python runtests.py --fast\n", &[], &["python runtests.py --fast"], &[]),
            (
                "[testenv]\ncommands =\n  pytest\n  trial pkg\n  flake8\n  ./build.sh\n",
                &["pytest"],
                &["trial pkg"],
                &["./build.sh"],
            ),
            (
                "[testenv]\ncommands = python -Wa manage.py test --settings=s notes\n",
                &["PYTHONWARNINGS=a django --settings=s notes"],
                &[],
                &[],
            ),
            (
                "[testenv]\ncommands =\n  py{38,39}: pytest a\n  pypy: pytest b\n  !win: pytest c\n",
                &["pytest c"],
                &[],
                &["pytest a", "pytest b"],
            ),
            // Variables for environments other than the one that stands for all.
            (
                "[tox]\nenvlist = docs, py{38,39}-{db,nodb}\n[testenv]\nsetenv =\n  A = 1\n  py38-db: B = 2\n  nodb: C = 3\n  py38,lint: D = 4\n  !nodb: E = 5\n  py39-db: F = 6\n  linux: G = 7\n  py{38,40}-{x,db}: H = a: b\ncommands = pytest\n",
                &["A=1 B=2 D=4 E=5 G=7 H=a: b pytest"],
                &[],
                &[],
            ),
            (
                "[tox]\nenvlist = py{38,39}-{mypy,tests}\n[testenv]\nsetenv =\n  tests: A=1\n  mypy: B=2\ncommands =\n  tests: pytest t\n  mypy: mypy src\n",
                &["A=1 pytest t"],
                &[],
                &[],
            ),
            ("[testenv]\nsetenv =\n  cov: A=1\n  !cov: B=2\ncommands = pytest\n", &["B=2 pytest"], &[], &[]),
            (
                "[base]\ncommands = pytest x\n[testenv]\ncommands = {[base]commands}\n",
                &["pytest x"],
                &[],
                &[],
            ),
            (
                "[tox]\nenvlist = py{39,310}, slow, docs\n[testenv]\ncommands = pytest\n[testenv:slow]\ncommands = pytest --slow\n[testenv:docs]\ncommands = pytest docs\n",
                &["pytest"],
                &[],
                &["pytest --slow ([testenv:slow])"],
            ),
            (
                "[testenv:lint]\ncommands = ruff check\n[testenv:unit]\ncommands = pytest u\n",
                &["pytest u"],
                &[],
                &[],
            ),
            (
                "[testenv]\nchangedir = .tox\ncommands = pytest --doctest-modules {env_site_packages_dir}/pk {tox_root}/tests {posargs}\n",
                &["cd .tox; pytest --doctest-modules {hotcell:site}/pk TOP/tests"],
                &[],
                &[],
            ),
            ("[testenv]\ncommands = pytest {unknown}/x\n", &[], &[], &["pytest {unknown}/x"]),
            (
                "[testenv]\ncommands = pytest --log-format='%(a)s' {posargs:\\\n  -o x=.tox/{envname}.xml \\\n  } t\n",
                &["pytest --log-format=%(a)s -o x=.tox/py.xml t"],
                &[],
                &[],
            ),
            ("[flake8]\nignore = E1\n", &[], &[], &[]),
        ],
    );
    check(
        "setup.cfg",
        &[("[tox:tox]\nenvlist = py\n[testenv]\ncommands = pytest -x\n", &["pytest -x"], &[], &[])],
    );
}

#[test]
fn tox_in_toml() {
    let native = "commands = [[\"pytest\", {replace = \"posargs\", default = [\"tests\"], extend = true}], [\"python\", \"-m\", \"x.tests\"]]\nset_env = { A = \"1\" }\nchange_dir = \"sub\"\n";
    let want: (&[&str], &[&str]) = (&["A=1 cd sub; pytest tests"], &["python -m x.tests"]);
    check("tox.toml", &[(&format!("[env_run_base]\n{native}"), want.0, want.1, &[])]);
    check(
        "pyproject.toml",
        &[
            (&format!("[tool.tox.env_run_base]\n{native}"), want.0, want.1, &[]),
            (
                "[tool.tox]\nlegacy_tox_ini = \"\"\"\n[testenv]\ncommands = pytest -q\n\"\"\"\n",
                &["pytest -q"],
                &[],
                &[],
            ),
            (
                "[tool.tox]\nenv_list = [\"t\"]\n[tool.tox.env.t]\ncommands = [[\"pytest\", \"t\"]]\n",
                &["pytest t"],
                &[],
                &[],
            ),
            ("[tool.other]\n", &[], &[], &[]),
        ],
    );
}

#[test]
fn noxfile_sessions_are_read() {
    let head = "import nox\n\n";
    let session = |body: &str| format!("{head}@nox.session(python=[\"3.11\"])\ndef tests(session):\n{body}");
    type Own<'a> = (String, &'a [&'a str], &'a [&'a str], &'a [&'a str]);
    let rows: Vec<Own<'_>> = vec![
        (
            session(
                "    session.install(\".\", \"pytest\")\n    session.run(\"pytest\", \"tests\", *session.posargs)\n",
            ),
            &["pytest tests"],
            &[],
            &[],
        ),
        (
            session(
                "    session.run(\n        \"python\", \"-m\", \"pytest\",\n        *(session.posargs or [\"-q\", \"t\"]),\n        env={\"TZ\": \"UTC\"},\n    )\n",
            ),
            &["TZ=UTC pytest -q t"],
            &[],
            &[],
        ),
        (
            session(
                "    args = session.posargs or [\"a\"]\n    session.run(\"coverage\", \"run\", \"-m\", \"pytest\", *args)\n    session.notify(\"c\")\n",
            ),
            &["pytest a"],
            &[],
            &[],
        ),
        (
            session("    session.chdir(\"sub\")\n    session.run(\"python\", \"manage.py\", \"test\")\n"),
            &["cd sub; django"],
            &[],
            &[],
        ),
        (
            session(
                "    session.run(\"pytest\")\n    if session.python:\n        session.run(\"pytest\", \"more\")\n",
            ),
            &["pytest"],
            &[],
            &["pytest more"],
        ),
        (
            session("    session.run(\"pytest\", f\"x{1}\")\n    session.run(\"python\", \"test_all.py\")\n"),
            &[],
            &["python test_all.py"],
            &["session.run(\"pytest\", f\"x{1}\")"],
        ),
        (
            format!(
                "{head}nox.options.sessions = [\"unit\"]\n@nox.session\ndef docs(session):\n    session.run(\"pytest\", \"docs\")\n@nox.session\ndef unit(session):\n    session.run(\"pytest\", \"u\")\n"
            ),
            &["pytest u"],
            &[],
            &[],
        ),
        (format!("{head}@nox.session\ndef lint(session):\n    session.run(\"ruff\")\n"), &[], &[], &[]),
    ];
    for (text, starts, others, left) in &rows {
        check("noxfile.py", &[(text, starts, others, left)]);
    }
}

#[test]
fn long_nox_calls_are_cut_between_characters() {
    for shift in 0..4 {
        let (ascii, wide) = ("x".repeat(shift), "\u{1f600}".repeat(4096));
        let call =
            format!("    session.run(\"pytest\", \"{ascii}{wide}\")\n    session.run(\"pytest\", \"a\")\n");
        let (starts, _, left) =
            said("noxfile.py", &format!("import nox\n\n@nox.session\ndef t(session):\n{call}"));
        assert_eq!((starts, left.len()), (vec!["pytest a".to_owned()], 1));
    }
}

#[test]
fn makefile_test_targets_are_read() {
    check(
        "Makefile",
        &[
            ("test:\n\tpytest tests\n", &["pytest tests"], &[], &[]),
            (
                "PY ?= python3\nARGS = -q \\\n  --tb=short\n.PHONY: test\ntest: build unit # all\n\t@echo hi\nunit:\n\tTZ=UTC $(PY) -m pytest ${ARGS} tests/test_*.py\nbuild:\n\tpip install -e .\n",
                &["TZ=UTC pytest -q --tb=short tests/test_*.py"],
                &[],
                &[],
            ),
            (
                "check:\n\tcd sub && python -m unittest && ./run-tests.sh\n",
                &["cd sub; unittest"],
                &["./run-tests.sh"],
                &[],
            ),
            ("test:\n\t$(MAKE) a\na:\n\tpytest a\n", &["pytest a"], &[], &[]),
            ("test:\n\tgo test ./...\n", &[], &[], &[]),
            (
                "test:\n\tpytest `ls`\n\tpytest $(shell ls)\n\tpytest b\n",
                &["pytest b"],
                &[],
                &["pytest `ls`", "pytest $(shell ls)"],
            ),
            ("lint:\n\tpytest\n", &[], &[], &[]),
        ],
    );
    let words = makefile::read(&Files::new(&[("Makefile", "test:\n\tgo test ./...\n\tcargo test\n")]));
    assert_eq!(words.map(|words| words.tools).unwrap_or_default(), ["go", "cargo"]);
}

#[test]
fn first_source_that_starts_tests_is_used() {
    let all = [
        ("tox.ini", "[testenv]\ncommands = pytest tox\n"),
        ("noxfile.py", "@nox.session\ndef t(session):\n    session.run(\"pytest\", \"nox\")\n"),
        ("Makefile", "test:\n\tpytest make\n"),
    ];
    for (at, want) in ["pytest tox", "pytest nox", "pytest make"].iter().enumerate() {
        let words = of(&Files::new(&all[at..])).unwrap();
        assert_eq!(line(&words.starts[0]), *want);
    }
}

#[test]
fn words_choose_the_framework() {
    let case =
        ("tests/test_a.py", "import unittest\nclass A(unittest.TestCase):\n    def test_a(self): pass\n");
    for (command, files, want) in [
        ("python -m unittest", &[case][..], "unittest"),
        ("python -m unittest", &[case, ("conftest.py", "")], "unittest"),
        ("pytest", &[case], "pytest"),
        ("python manage.py test", &[case, ("manage.py", "import django")], "django"),
    ] {
        let tox = format!("[testenv]\ncommands = {command}\n");
        let files: Vec<_> = files.iter().copied().chain([("tox.ini", tox.as_str())]).collect();
        let found = detect(&Files::new(&files));
        assert_eq!((found[0].0.name(), found[0].1.strength), (want, Strength::Configured), "{command}");
    }
}

#[test]
fn arguments_for_a_selection() {
    let tox = "[testenv]\ncommands = pytest -p no:x --cov pkg -m fast -k 'a or b' tests/unit tests/it.py::test_x --unknown word\n";
    let project =
        Files::new(&[("tox.ini", tox), ("tests/unit/test_a.py", ""), ("tests/it.py", ""), ("pkg/a.py", "")]);
    let words = of(&project);
    for (filter, want) in [
        (None, "-p no:x --cov pkg -m fast -k a or b tests/unit tests/it.py::test_x --unknown word"),
        (Some("tests/unit/test_a.py"), "-p no:x --cov -m fast --unknown word"),
        (Some("some_name"), "-p no:x --cov -m fast -k a or b --unknown word"),
    ] {
        let selection = Selection { filter: filter.map(str::to_owned), ..Selection::default() };
        let given = given::given(words.as_ref(), Runner::Pytest, &selection, &project);
        let text: Vec<&str> = given.arguments.iter().map(|word| word.text.as_str()).collect();
        assert_eq!(text.join(" "), want, "{filter:?}");
    }
    // From another folder, where paths begin at the top, with dots, or in what is installed.
    let tox = "[testenv]\nchangedir = run\ncommands = pytest -q {envsitepackagesdir}/pk {toxinidir}/tests ../docs {toxinidir} own.py word\n";
    let project =
        Files::new(&[("tox.ini", tox), ("tests/test_a.py", ""), ("docs/a.py", ""), ("run/own.py", "")]);
    let words = of(&project);
    let selection = Selection { filter: Some("tests/test_a.py".to_owned()), ..Selection::default() };
    let given = given::given(words.as_ref(), Runner::Pytest, &selection, &project);
    let text: Vec<&str> = given.arguments.iter().map(|word| word.text.as_str()).collect();
    assert_eq!(text, ["-q", "word"]);
}

#[test]
fn omitted_commands_are_noted() {
    let tox = "[testenv]\ncommands =\n  pytest a\n  pytest b\n  trial c\n  ./other\n";
    let words = of(&Files::new(&[("tox.ini", tox)]));
    let all = Selection { detected: true, ..Selection::default() };
    let one = Selection { filter: Some("x".to_owned()), ..all.clone() };
    let notes =
        |runner, selection| given::followed(words.as_ref(), runner, selection, &Files::new(&[])).notes;
    assert_eq!(
        notes(Runner::Pytest, &all),
        [
            "tox.ini [testenv] runs `pytest b`, `trial c` too: it ran, and only its exit status is known",
            "not run of tox.ini [testenv]: `./other`",
        ]
    );
    assert!(notes(Runner::Pytest, &one).is_empty());
    assert_eq!(
        notes(Runner::Unittest, &all)[..2],
        [
            "tox.ini [testenv] tests by `pytest a`: unittest runs what it finds by itself",
            "tox.ini [testenv] runs `pytest a`, `pytest b`, `trial c` too, which was not run",
        ]
    );
    let project = Files::new(&[]);
    let word = |selection| given::given(words.as_ref(), Runner::Pytest, selection, &project).word;
    let text = word(&all).unwrap().into_string().unwrap();
    assert!(text.contains("\"name\":\"pytest b\"") && text.contains("\"name\":\"trial c\""), "{text}");
    assert!(!word(&one).unwrap().into_string().unwrap().contains("trial"));
}

#[test]
fn same_tests_with_other_pythons_run_once() {
    let rows = [
        // The commands, what else runs, and whether it is said that they start again.
        ("uv run --python 3.11 pytest tests/\n\tuv run --python 3.12 pytest tests/", "", true),
        ("python3.11 -m pytest\n\tpython3.12 -m pytest", "", true),
        ("uv run pytest a\n\tuv run --python 3.12 pytest b", "pytest b", false),
        ("pytest a\n\tpoetry run pytest b", "pytest b", false),
        ("pytest a\n\thatch run trial c", "trial c", false),
        ("pytest a\n\tX=1 pytest a", "pytest a", false),
    ];
    for (commands, beside, again) in rows {
        let makefile = format!("test:\n\t{commands}\n");
        let project = Files::new(&[("Makefile", &makefile)]);
        let words = of(&project);
        let selection = Selection { detected: true, ..Selection::default() };
        let word = given::given(words.as_ref(), Runner::Pytest, &selection, &project).word;
        let text = word.map(|word| word.into_string().unwrap()).unwrap_or_else(|| "--x={}".to_owned());
        let value: serde_json::Value = serde_json::from_str(text.split_once('=').unwrap().1).unwrap();
        let steps = value["steps"].as_array().cloned().unwrap_or_default();
        let steps: Vec<String> = steps
            .iter()
            .map(|step| {
                let words = step["words"].as_array().unwrap().iter().filter_map(|word| word.as_str());
                words.collect::<Vec<_>>().join(" ")
            })
            .collect();
        assert_eq!(steps.join("; "), beside, "{commands}");
        let notes = given::followed(words.as_ref(), Runner::Pytest, &selection, &project).notes.join("; ");
        assert_eq!(notes.contains("the same tests again"), again, "{commands}: {notes}");
    }
}

#[test]
fn tasks_of_pyproject_and_justfiles() {
    let rows: [(&str, &str, &[&str], &str, &str); 16] = [
        // The file, its text, starts with their arguments, what else runs tests, what is not read.
        (
            "pyproject.toml",
            "[tool.hatch.envs.default.scripts]\ntest = 'pytest {args:tests}'\ncov = 'pytest --cov'\n",
            &["pytest tests"],
            "",
            "",
        ),
        (
            "pyproject.toml",
            "[tool.hatch.envs.test]\nenv-vars = { A = '1' }\n[tool.hatch.envs.test.scripts]\ntest = ['lint', 'pytest -x {args}']\nlint = 'ruff check'\n",
            &["pytest A=1 -x"],
            "",
            "",
        ),
        ("pyproject.toml", "[tool.hatch.envs.docs.scripts]\nbuild = 'mkdocs build'\n", &[], "", ""),
        (
            "pyproject.toml",
            "[tool.pdm.scripts]\n_.env = { TZ = 'UTC' }\ntest = { cmd = 'pytest -m fast', env = { B = 'x y' } }\n",
            &["pytest TZ=UTC B=x y -m fast"],
            "",
            "",
        ),
        (
            "pyproject.toml",
            "[tool.pdm.scripts]\ntest = { cmd = ['pytest', '-k', 'a b'] }\n",
            &["pytest -k a b"],
            "",
            "",
        ),
        (
            "pyproject.toml",
            "[tool.pdm.scripts]\ntest = { composite = ['lint', 'unit'] }\nlint = 'flake8'\nunit = 'python -m unittest discover -s t'\n",
            &["unittest discover -s t"],
            "",
            "",
        ),
        (
            "pyproject.toml",
            "[tool.pdm.scripts]\ntest = { call = 'run:main' }\n",
            &[],
            "",
            "{ call = \"run:main\" }",
        ),
        ("pyproject.toml", "[tool.poe.tasks]\ntest = 'pytest --tb short'\n", &["pytest --tb short"], "", ""),
        (
            "pyproject.toml",
            "[tool.poe.tasks.test]\nsequence = [{ cmd = 'mypy .' }, { cmd = 'pytest a' }, 'more']\n[tool.poe.tasks.more]\nshell = 'trial b'\n",
            &["pytest a"],
            "trial b",
            "",
        ),
        ("pyproject.toml", "[tool.poe.tasks]\ntest = { script = 'x:y' }\n", &[], "", "{ script = \"x:y\" }"),
        ("pyproject.toml", "[tool.taskipy.tasks]\ntest = 'pytest'\n", &["pytest"], "", ""),
        (
            "justfile",
            "test *args: lint\n    uv run pytest {{args}} tests\nlint:\n    ruff check\n",
            &["pytest tests"],
            "",
            "",
        ),
        (
            "justfile",
            "set shell := ['bash']\n# tests\ntest:\n    @just unit\nunit:\n    python -m pytest -q\n",
            &["pytest -q"],
            "",
            "",
        ),
        (
            ".justfile",
            "test version='3.12':\n    uv run --python {{version}} pytest\n",
            &[],
            "",
            "uv run --python {{version}} pytest",
        ),
        ("justfile", "build:\n    make\n", &[], "", ""),
        ("pyproject.toml", "[tool.poe.tasks]\ntest = ['test']\n", &[], "", ""),
    ];
    for (file, text, starts, others, left) in rows {
        let words = tasks::read(&Files::new(&[(file, text)])).pop().unwrap_or_default();
        let got: Vec<String> = words
            .starts
            .iter()
            .map(|start| {
                let variables = start.place.variables.iter().map(|(name, value)| format!("{name}={value}"));
                let arguments = start.arguments.iter().map(|word| word.text.clone());
                let all: Vec<String> =
                    [start.runner.name().to_owned()].into_iter().chain(variables).chain(arguments).collect();
                all.join(" ")
            })
            .collect();
        assert_eq!(got, starts, "{text}");
        let other: Vec<String> = words.others.iter().map(|other| text_of(&other.words)).collect();
        assert_eq!(other.join("; "), others, "{text}");
        assert_eq!(words.left.join("; "), left, "{text}");
    }
}

#[test]
fn failing_commands_beside_the_tests_are_named() {
    for command in [
        "$(MAKE) -C sub test",
        "$(MAKE) -f other.mk test",
        "$(MAKE) unknown",
        "$(MAKE) X=1 test",
        "$(MAKE)",
        "cd sub && $(MAKE) test",
        "python3 -c 'import sys; sys.exit(1)'",
        "true && python3 -c 1/0",
        "test -f /nonexist",
        "[ -f x ]",
        "find . -name x",
        "tee a",
        "diff a b",
        "git diff --exit-code",
        "python3 check.py",
        ". ./env.sh",
        "source env.sh",
        "export X=`date`",
        "if true; then false; fi",
        "cargo test --manifest-path x/Cargo.toml",
        "cargo nextest run --manifest-path=x/Cargo.toml",
        "npm --prefix web test",
        "cd web && yarn test",
        "go -C svc test ./...",
    ] {
        let text = format!("test:\n\tpytest tests\n\t{command}\nsub:\n\tpytest sub\n");
        let project = Files::new(&[("Makefile", &text), ("tests/test_a.py", ""), ("sub/test_b.py", "")]);
        let words = of(&project).unwrap();
        let selection = Selection { detected: true, ..Selection::default() };
        let notes = given::followed(Some(&words), Runner::Pytest, &selection, &project).notes;
        assert_eq!(words.starts.len(), 1, "{command}");
        assert!(notes.iter().any(|note| note.starts_with("not run of Makefile")), "{command}: {notes:?}");
    }
    // A suite of its own, which hotcell finds; and what only prints, installs or checks style.
    for (command, detected, named) in [
        ("cargo test --manifest-path x/Cargo.toml", true, false),
        ("cargo test --manifest-path x/Cargo.toml", false, true),
        ("cd x && cargo test", true, false),
        ("npm --prefix web test", true, false),
        ("go -C svc test ./...", true, false),
        ("@echo done", true, false),
        ("set -e; ruff check && mypy .", true, false),
        ("pytest tests | tee log", true, false),
    ] {
        let text = format!("test:\n\tpytest tests\n\t{command}\n");
        let files =
            [("Makefile", &*text), ("x/Cargo.toml", ""), ("web/package.json", ""), ("svc/go.mod", "")];
        let project = Files::new(&files);
        let selection = Selection { detected, ..Selection::default() };
        let notes = given::followed(of(&project).as_ref(), Runner::Pytest, &selection, &project).notes;
        assert_eq!(notes.iter().any(|note| note.starts_with("not run of")), named, "{command}: {notes:?}");
    }
    check(
        "tox.ini",
        &[(
            "[testenv]\ncommands =\n  pytest\n  python -c \"raise SystemExit(1)\"\n  test -f nope\n",
            &["pytest"],
            &[],
            &["python -c 'raise SystemExit(1)'", "test -f nope"],
        )],
    );
}

#[test]
fn makefile_exports_reach_the_tests() {
    let exported: &[&str] = &["MODE=ci pytest tests"];
    for head in [
        "export MODE = ci",
        "export MODE := ci",
        "export MODE=ci",
        "export MODE ?= ci",
        "MODE ?= ci\nexport MODE",
        "MODE = ci\nexport",
        "test: export MODE = ci",
        "test: MODE = ci\nexport MODE",
        ".EXPORT_ALL_VARIABLES:\nMODE = ci",
        "override export MODE = ci",
        "export override MODE := ci",
        "A = c\nexport MODE := $(A)i\nA = x",
        "MODE = c\nexport MODE := $(MODE)i",
        "ifdef CI\nexport MODE = x\nelse\nexport MODE = ci\nendif",
        "export OTHER = 1\nunexport OTHER\nexport MODE = ci",
    ] {
        check("Makefile", &[(&format!("{head}\ntest:\n\tpytest tests\n"), exported, &[], &[])]);
    }
    check(
        "Makefile",
        &[
            ("MODE = ci\ntest:\n\tpytest tests\n", &["pytest tests"], &[], &[]),
            ("test: export MODE = ci\ntest: unit\nunit:\n\tpytest\n", &["MODE=ci pytest"], &[], &[]),
            ("test:\n\tMODE=ci $(MAKE) unit\nunit:\n\tX=1 pytest\n", &["MODE=ci X=1 pytest"], &[], &[]),
            (
                ".ONESHELL:\ntest:\n\texport MODE=ci\n\tcd sub\n\tpytest\n",
                &["MODE=ci cd sub; pytest"],
                &[],
                &[],
            ),
            ("test:\n\texport MODE=ci\n\tpytest\n", &["pytest"], &[], &[]),
            (
                "export NOW = $(shell date)\ntest:\n\tpytest\n",
                &["pytest"],
                &[],
                &["export NOW = $(shell date)"],
            ),
            ("include more.mk\ntest:\n\tpytest\n", &["pytest"], &[], &["include more.mk"]),
            ("define X\ntest:\n\tno\nendef\ntest:\n\tpytest\n", &["pytest"], &[], &["define X"]),
            ("test: a.o b | c\n\tpytest\n.PHONY: b\nc:\n", &["pytest"], &[], &["make a.o"]),
            ("test: a b\na: c\nb: c\nc:\n\tpytest\n", &["pytest"], &[], &[]),
            ("P = a b\ntest: $(P)\na:\n\tpytest a\nb:\n\tpytest b\n", &["pytest a", "pytest b"], &[], &[]),
            ("test:\n\t$(MAKE) -j 4 -s a\na:\n\tpytest a\n", &["pytest a"], &[], &[]),
        ],
    );
}

#[test]
fn makefile_conditionals_are_evaluated() {
    let body = "\ntest:\n\tpytest a\nelse\ntest:\n\tpytest b\nendif\n";
    let (a, b): (&[&str], &[&str]) = (&["pytest a"], &["pytest b"]);
    for (condition, want) in [
        ("ifdef CI", b),
        ("ifndef CI", a),
        ("X = 1\nifdef X", a),
        ("X =\nifdef X", b),
        ("ifeq ($(X),)", a),
        ("X := y\nifeq ($(X),y)", a),
        ("X := y\nifneq ($(X), y)", b),
        ("ifeq \"$(X)\" \"y\"", b),
        ("ifeq '$(X)' ''", a),
        ("ifeq ($(OS),Windows_NT)", b),
        ("ifeq ($(shell uname),Darwin)", b),
        ("ifeq ($(shell uname -s),Linux)", a),
    ] {
        check("Makefile", &[(&format!("{condition}{body}"), want, &[], &[])]);
    }
    check(
        "Makefile",
        &[
            (&format!("ifeq ($(shell id -u),0){body}"), a, &[], &["ifeq ($(shell id -u),0)"]),
            (
                "X = 2\nifeq ($(X),1)\nA = one\nelse ifeq ($(X),2)\nA = two\nelse\nA = more\nendif\ntest:\n\tpytest $(A)\n",
                &["pytest two"],
                &[],
                &[],
            ),
            (
                "ifdef X\nifdef Y\nA = 1\nelse\nA = 2\nendif\nelse\nA = 3\nendif\ntest:\n\tpytest $(A)\n",
                &["pytest 3"],
                &[],
                &[],
            ),
            ("test:\nifdef CI\n\tpytest ci\nelse\n\tpytest\nendif\n", &["pytest"], &[], &[]),
        ],
    );
}
