//! Meaning of one command. Pure.

use super::{Place, Runner, Start};
use crate::frameworks::javascript::shell::{self, Word};
use crate::project::Project;

/// Meaning of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Starts a supported framework.
    Start(Box<Start>),
    /// Runs tests with another program.
    Tests,
    /// Runs tests of another language with this tool.
    Tool(&'static str),
    /// Runs no tests and is not needed by them: prints, installs or checks style.
    Nothing,
    /// Unknown.
    Unknown,
}

/// Unsupported programs that run tests.
const RUNNERS: [&str; 13] = [
    "nosetests",
    "nose2",
    "trial",
    "stestr",
    "testr",
    "ostestr",
    "green",
    "behave",
    "robot",
    "zope-testrunner",
    "ward",
    "avocado",
    "runtests",
];

/// Programs that tests do not need here: what they do is done, is about style, or only prints.
const QUIET: [&str; 36] = [
    "pip",
    "pip3",
    "uv",
    "echo",
    "printf",
    "true",
    "rm",
    "mkdir",
    "touch",
    "black",
    "ruff",
    "flake8",
    "isort",
    "mypy",
    "pyright",
    "pylint",
    "pyflakes",
    "pycodestyle",
    "bandit",
    "codespell",
    "twine",
    "check-manifest",
    "cat",
    "ls",
    "which",
    "clear",
    "codecov",
    "set",
    "pre-commit",
    "sphinx-build",
    "pwd",
    "activate",
    "doc8",
    "build",
    "ty",
    "vulture",
];

/// Programs that start the following command, and their options that take a word.
const WRAPPERS: [(&[&str], &[&str]); 9] = [
    (
        &["uv", "run"],
        &["--with", "--extra", "--group", "--python", "-p", "--package", "--env-file", "--only-group"],
    ),
    (&["poetry", "run"], &[]),
    (&["pipenv", "run"], &[]),
    (&["pdm", "run"], &[]),
    (&["hatch", "run"], &[]),
    (&["xvfb-run"], &["-n", "-s", "--server-num", "--server-args"]),
    (&["time"], &[]),
    (&["exec"], &[]),
    (&["nice"], &["-n"]),
];

/// Last component of a path.
fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn is_python(name: &str) -> bool {
    let rest = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy"));
    name == "py" || rest.is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
}

/// True for a typical name of a test script or module.
fn like_tests(name: &str) -> bool {
    let mut parts = name.split(|c: char| !c.is_ascii_alphanumeric());
    let whole = ["runtests", "runtest", "testall", "alltests", "testrunner"];
    parts.any(|part| {
        let part = part.to_ascii_lowercase();
        part == "test" || part == "tests" || part == "testing" || whole.contains(&part.as_str())
    })
}

/// Meaning of a command in this environment.
#[must_use]
pub fn meaning(words: &[Word], place: &Place) -> Meaning {
    of(words, words, place.clone())
}

fn of(all: &[Word], words: &[Word], mut place: Place) -> Meaning {
    let Some(first) = words.first() else { return Meaning::Nothing };
    if first.open() {
        return Meaning::Unknown;
    }
    let rest = &words[1..];
    let start = |runner, script, arguments: &[Word], place: Place| {
        let arguments = arguments.to_vec();
        Meaning::Start(Box::new(Start { runner, place, script, arguments, words: all.to_vec() }))
    };
    for (wrapper, valued) in WRAPPERS {
        let is = words.len() > wrapper.len()
            && wrapper.iter().zip(words).all(|(name, word)| base(&word.text) == *name);
        if is {
            return of(all, behind(&words[wrapper.len()..], valued), place);
        }
    }
    let name = base(&first.text);
    match name {
        "pytest" | "py.test" => start(Runner::Pytest, None, rest, place),
        "unittest" => start(Runner::Unittest, None, rest, place),
        "env" => {
            let mut rest = rest;
            while let Some((word, more)) = rest.split_first() {
                let Some((name, value)) = shell::variable(word).filter(|_| !word.open()) else { break };
                place.variables.push((name, value.text));
                rest = more;
            }
            if rest.first().is_some_and(|word| word.text.starts_with('-')) {
                return Meaning::Unknown;
            }
            of(all, rest, place)
        }
        "coverage" | "slipcover" => covered(all, rest, place),
        "manage.py" if rest.first().is_some_and(|word| word.text == "test") => {
            start(Runner::Django, Some(first.text.clone()), &rest[1..], place)
        }
        "django-admin" if rest.first().is_some_and(|word| word.text == "test") => {
            start(Runner::Django, None, &rest[1..], place)
        }
        "cargo" | "go" if rest.iter().any(|word| word.text == "test" || word.text == "nextest") => {
            Meaning::Tool(if name == "go" { "go" } else { "cargo" })
        }
        // Of a shell: they fail for a reason, or change it.
        "test" | "[" | "source" | "." => Meaning::Unknown,
        "npm" | "yarn" | "pnpm" if rest.iter().any(|word| word.text.starts_with('t')) => Meaning::Tool("npm"),
        "bash" | "sh" | "zsh" if rest.first().is_some_and(|word| like_tests(base(&word.text))) => {
            Meaning::Tests
        }
        _ if is_python(name) => python(all, rest, place),
        _ if RUNNERS.contains(&name) => Meaning::Tests,
        _ if QUIET.contains(&name) || base(name).starts_with("pip3.") => Meaning::Nothing,
        _ if like_tests(name) => Meaning::Tests,
        _ => Meaning::Unknown,
    }
}

/// True when the folder in which a tool of another language runs tests has a project of that language. Options may name
/// another folder.
#[must_use]
pub fn has_suite(words: &[Word], place: &Place, project: &dyn Project) -> bool {
    const FOLDERS: [&str; 7] =
        ["--manifest-path", "--prefix", "-C", "--cwd", "--dir", "--directory", "--project-directory"];
    let manifests: &[&str] = match words.first().map(|word| base(&word.text)) {
        Some("cargo") => &["Cargo.toml"],
        Some("go") => &["go.mod", "go.work"],
        _ => &["package.json"],
    };
    let mut folder = place.folder.clone();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let (name, value) = word.text.split_once('=').unwrap_or((&word.text, ""));
        if !FOLDERS.contains(&name) {
            continue;
        }
        let value = if word.text.contains('=') { value } else { rest.next().map_or("", |word| &word.text) };
        let value =
            if name == "--manifest-path" { value.rsplit_once('/').map_or("", |(f, _)| f) } else { value };
        let Some(named) = super::tox::folder(&folder, value) else { return false };
        folder = named;
    }
    let beside =
        |name: &&str| if folder.is_empty() { (*name).to_owned() } else { format!("{folder}/{name}") };
    manifests.iter().any(|name| project.has(&beside(name)))
}

/// A command without what only chooses the environment that it runs in: `uv run`, `poetry run`. That choice is the operator's here.
#[must_use]
pub fn unwrapped(words: &[Word]) -> &[Word] {
    let of_environment = WRAPPERS.iter().filter(|(wrapper, _)| wrapper.len() == 2);
    for (wrapper, valued) in of_environment {
        let is = words.len() > wrapper.len()
            && wrapper.iter().zip(words).all(|(name, word)| base(&word.text) == *name);
        if is {
            return unwrapped(behind(&words[wrapper.len()..], valued));
        }
    }
    words
}

/// Words that follow the options of a wrapper.
fn behind<'a>(mut words: &'a [Word], valued: &[&str]) -> &'a [Word] {
    while let Some((word, rest)) = words.split_first().filter(|(word, _)| word.text.starts_with('-')) {
        let takes = valued.contains(&word.text.as_str());
        words = if takes { rest.get(1..).unwrap_or_default() } else { rest };
        if word.text == "--" {
            break;
        }
    }
    words
}

/// `coverage run …`: coverage is measured by `--coverage` instead.
fn covered(all: &[Word], words: &[Word], place: Place) -> Meaning {
    const VALUED: [&str; 8] = [
        "--rcfile",
        "--source",
        "--source-pkgs",
        "--include",
        "--omit",
        "--context",
        "--data-file",
        "--concurrency",
    ];
    match words.first().map(|word| word.text.as_str()) {
        Some("run") => {}
        Some("report") if words.iter().any(|word| word.text.starts_with("--fail-under")) => {
            return Meaning::Unknown;
        }
        _ => return Meaning::Nothing,
    }
    let mut rest = &words[1..];
    while let Some((word, more)) = rest.split_first() {
        match word.text.as_str() {
            "-m" | "--module" => return module(all, more, place),
            option if option.starts_with('-') => {
                rest = if VALUED.contains(&option) { more.get(1..).unwrap_or_default() } else { more };
            }
            _ => return script(all, rest, place),
        }
    }
    Meaning::Unknown
}

/// Arguments of `python`.
fn python(all: &[Word], mut words: &[Word], mut place: Place) -> Meaning {
    while let Some((word, rest)) = words.split_first() {
        let text = word.text.as_str();
        if word.open() {
            return Meaning::Unknown;
        }
        match text {
            "-m" => return module(all, rest, place),
            "--version" | "-V" | "--help" => return Meaning::Nothing,
            // Any program: it may be the check that fails.
            "-c" => return Meaning::Unknown,
            "-W" | "-X" => {
                let Some(value) = rest.first() else { return Meaning::Unknown };
                set(&mut place, text, &value.text);
                words = &rest[1..];
            }
            _ if text.starts_with("-W") || text.starts_with("-X") => {
                set(&mut place, &text[..2], &text[2..]);
                words = rest;
            }
            "-O" | "-OO" => {
                place.variables.push(("PYTHONOPTIMIZE".to_owned(), (text.len() - 1).to_string()));
                words = rest;
            }
            _ if text.starts_with('-') => {
                // `-Im pytest`.
                if text.ends_with('m') && !text.starts_with("--") {
                    return module(all, rest, place);
                }
                words = rest;
            }
            _ => return script(all, words, place),
        }
    }
    Meaning::Nothing
}

/// Converts an option of the interpreter to a variable.
fn set(place: &mut Place, option: &str, value: &str) {
    match (option, value) {
        ("-W", value) => {
            let known = place.variables.iter().rev().find(|(name, _)| name == "PYTHONWARNINGS");
            let all = known.map_or_else(|| value.to_owned(), |(_, known)| format!("{known},{value}"));
            place.variables.push(("PYTHONWARNINGS".to_owned(), all));
        }
        ("-X", "dev") => place.variables.push(("PYTHONDEVMODE".to_owned(), "1".to_owned())),
        ("-X", "utf8" | "utf8=1") => place.variables.push(("PYTHONUTF8".to_owned(), "1".to_owned())),
        _ => {}
    }
}

/// Arguments of `-m`.
fn module(all: &[Word], words: &[Word], place: Place) -> Meaning {
    let Some((name, rest)) = words.split_first() else { return Meaning::Unknown };
    let start = |runner| {
        let (arguments, words) = (rest.to_vec(), all.to_vec());
        Meaning::Start(Box::new(Start { runner, place: place.clone(), script: None, arguments, words }))
    };
    match name.text.as_str() {
        "pytest" | "py.test" => start(Runner::Pytest),
        "unittest" => start(Runner::Unittest),
        "coverage" | "slipcover" => covered(all, rest, place),
        "django" if rest.first().is_some_and(|word| word.text == "test") => {
            let (arguments, words) = (rest[1..].to_vec(), all.to_vec());
            Meaning::Start(Box::new(Start { runner: Runner::Django, place, script: None, arguments, words }))
        }
        "twisted.trial" | "nose" | "nose2" | "stestr" | "green" | "testtools.run" | "ward" | "behave" => {
            Meaning::Tests
        }
        "pip" | "build" | "venv" | "ensurepip" | "compileall" => Meaning::Nothing,
        name if QUIET.contains(&name) => Meaning::Nothing,
        name if like_tests(name) || name == "doctest" => Meaning::Tests,
        _ => Meaning::Unknown,
    }
}

/// A Python script.
fn script(all: &[Word], words: &[Word], place: Place) -> Meaning {
    let Some((path, rest)) = words.split_first() else { return Meaning::Unknown };
    let first = rest.first().map(|word| word.text.as_str());
    match base(&path.text) {
        "manage.py" if first == Some("test") => {
            let (arguments, words) = (rest[1..].to_vec(), all.to_vec());
            let script = Some(path.text.clone());
            Meaning::Start(Box::new(Start { runner: Runner::Django, place, script, arguments, words }))
        }
        "pytest" | "py.test" => of(all, words, place),
        "setup.py" if rest.iter().any(|word| word.text == "test") => Meaning::Tests,
        "setup.py" | "manage.py" => Meaning::Unknown,
        name if like_tests(name) || like_tests(&path.text) => Meaning::Tests,
        _ => Meaning::Unknown,
    }
}
