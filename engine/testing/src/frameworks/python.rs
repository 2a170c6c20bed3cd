//! Common parts of pytest, unittest and Django: forms of test files, and the project's own test configuration
//! ([`words`]).

pub mod words;

use hotcell_sandbox::policy::PROJECT;
use words::Runner;

use crate::framework::{Evidence, Strength};
use crate::project::Project;

/// Evidence for a framework; the project's own configuration of its tests decides.
#[must_use]
pub(crate) fn weighed(project: &dyn Project, runner: Runner, other: Option<Evidence>) -> Option<Evidence> {
    let Some(words) = words::of(project) else { return other };
    match words.first() {
        Some(first) if first == runner => {
            let reason = format!("{} tests by {}", words.source, runner.name());
            Some(Evidence { strength: Strength::Configured, reason })
        }
        Some(_) => other.map(|other| Evidence { strength: other.strength.min(Strength::Used), ..other }),
        None => other,
    }
}

/// Standard error up to the innermost line of the project where Python says what ran when it crashed or took too long
/// (`faulthandler`): the lines behind that are those of the interpreter, the framework and hotcell.
#[must_use]
pub fn up_to_crash(stderr: &str) -> &str {
    const HEADS: [&str; 2] = ["Fatal Python error: ", "Timeout ("];
    let heads = HEADS
        .iter()
        .filter_map(|head| stderr.rfind(head).filter(|at| *at == 0 || stderr[..*at].ends_with('\n')));
    let Some(head) = heads.max() else { return stderr };
    let place = format!("  File \"{PROJECT}/");
    let own = stderr[head..].find(&place).map(|at| head + at);
    let end = own.map(|at| stderr[at..].find('\n').map_or(stderr.len(), |end| at + end));
    end.map_or(stderr, |end| &stderr[..end])
}

/// Description of a native extension of the project that has no built file.
#[must_use]
pub fn unbuilt(project: &dyn Project) -> Option<String> {
    const SIGNS: [(&str, &[&str]); 2] = [
        (
            "setup.py",
            &["ext_modules", "cythonize(", "rust_extensions", "RustExtension(", "cffi_modules", "mypycify("],
        ),
        (
            "pyproject.toml",
            &[
                "maturin",
                "setuptools-rust",
                "setuptools_rust",
                "scikit-build",
                "scikit_build",
                "mesonpy",
                "ext-modules",
                "ext_modules",
            ],
        ),
    ];
    let built = |file: &String| [".so", ".pyd", ".dylib"].iter().any(|end| file.ends_with(end));
    if project.files().iter().any(built) {
        return None;
    }
    let (file, sign) = SIGNS.into_iter().find_map(|(file, signs)| {
        let text = words::text(project, file)?;
        Some((file, *signs.iter().find(|sign| text.contains(**sign))?))
    })?;
    Some(format!(
        "the project's extension modules ({file}: {}) are not built in its folder: where the skipped tests need them, build them first (`python setup.py build_ext --inplace`, `pip install .`, `maturin develop`)",
        sign.trim_end_matches('(')
    ))
}

/// Maximum number of test files searched.
const MAX_SEARCHED_FILES: usize = 300;
/// Maximum number of bytes that are searched of one file.
const MAX_SEARCHED_BYTES: usize = 64 << 10;

/// Findings in a project's Python test files, each with the first file that has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signs {
    /// A file that pytest collects by its name.
    pub any: Option<String>,
    /// A file that imports pytest.
    pub pytest: Option<String>,
    /// A file with test functions, or test classes without a base, which only pytest runs.
    pub plain: Option<String>,
    /// A file with a `unittest.TestCase` and a name that unittest finds.
    pub unittest: Option<String>,
    /// Folder from which unittest finds such files: the project's, or else the first one's.
    pub root: String,
    /// A file with a `unittest.TestCase` that unittest does not find from there.
    pub elsewhere: Option<String>,
    /// All files that contain something with a test's name.
    pub files: Vec<String>,
}

/// Searches the test files.
#[must_use]
pub fn signs(project: &dyn Project) -> Signs {
    let mut signs = Signs::default();
    let mut roots = Vec::new();
    let files = project.files().iter().filter(|f| {
        let name = base(f);
        name.ends_with(".py") && (name.starts_with("test") || name.ends_with("_test.py"))
    });
    for file in files.take(MAX_SEARCHED_FILES) {
        let for_pytest = base(file).starts_with("test_") || file.ends_with("_test.py");
        let Some(bytes) = project.read(file) else { continue };
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_SEARCHED_BYTES)]);
        let note = |sign: &mut Option<String>, there: bool| {
            if there && sign.is_none() {
                *sign = Some(file.clone());
            }
        };
        note(&mut signs.any, for_pytest);
        if has_line(&text, |l| l.trim_start().trim_start_matches("async ").starts_with("def test")) {
            signs.files.push(file.clone());
        }
        note(
            &mut signs.pytest,
            has_line(&text, |l| l.starts_with("import pytest") || l.starts_with("from pytest")),
        );
        note(&mut signs.plain, for_pytest && has_line(&text, is_plain));
        let cases = text.contains("unittest") && text.contains("TestCase");
        let found = base(file).starts_with("test");
        note(&mut signs.unittest, found && cases);
        if cases {
            roots.push((file, found.then(|| root(project, file))));
        }
    }
    // The project's folder, if any file is found from there.
    let root = roots.iter().filter_map(|(_, root)| *root).min_by_key(|root| !root.is_empty());
    root.unwrap_or_default().clone_into(&mut signs.root);
    signs.elsewhere = roots.iter().find(|(_, at)| *at != root).map(|(file, _)| (*file).clone());
    signs
}

/// Folder from which unittest finds a file: the first parent that is not a package.
fn root<'a>(project: &dyn Project, file: &'a str) -> &'a str {
    let parent = |path: &'a str| path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut folder = parent(file);
    while !folder.is_empty() && project.has(&format!("{folder}/__init__.py")) {
        folder = parent(folder);
    }
    folder
}

fn is_plain(line: &str) -> bool {
    let class = line.strip_prefix("class Test").and_then(|l| l.split_once([':', '('])).map(|(_, rest)| rest);
    line.starts_with("def test_")
        || line.starts_with("async def test_")
        || class.is_some_and(|rest| {
            rest.trim().is_empty() || rest.starts_with("):") || rest.starts_with("object)")
        })
}

/// How to install a part of pytest for this interpreter.
#[must_use]
pub fn install(what: &str, interpreter: &str) -> String {
    let of_system = interpreter.starts_with("/usr/bin/") || interpreter.starts_with("/bin/");
    let how = if of_system {
        // In Debian and others pip writes only to a virtual environment (PEP 668).
        format!(
            "apt install python3-{what}; or in the project's folder: {interpreter} -m venv .venv && .venv/bin/pip install {what}"
        )
    } else {
        format!("{interpreter} -m pip install {what}")
    };
    format!("{what} is not installed for {interpreter}; install it with: {how}")
}

/// Tests if a file has a matching line that begins in its first column, or is an indented import.
fn has_line(text: &str, is: impl Fn(&str) -> bool) -> bool {
    text.lines().any(is)
}

/// True when one of a file's lines is this section heading.
#[must_use]
pub fn has_section(project: &dyn Project, file: &str, head: &str) -> bool {
    project.has(file)
        && project.read(file).is_some_and(|bytes| {
            String::from_utf8_lossy(&bytes).lines().any(|l| l.trim_start().starts_with(head))
        })
}

/// Last component of a path.
#[must_use]
pub fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crash_of_python_ends_with_the_projects_line() {
        let outside = "  File \"/usr/lib/python3.11/ctypes/__init__.py\", line 519 in string_at\n";
        let own = |line: u32| format!("  File \"{PROJECT}/test_a.py\", line {line} in test_x");
        let rest = "\n  File \"/venv/_pytest/python.py\", line 166 in pytest_pyfunc_call\n  File \"<frozen runpy>\", line 88\n";
        let thread = "Current thread 0x7f (most recent call first):\n";
        for head in ["Fatal Python error: Segmentation fault\n\n", "Timeout (0:00:01)!\n"] {
            for before in ["", "said\n", "Fatal Python error: told by a test\n"] {
                let text = format!("{before}{head}{thread}{outside}{}{rest}{}{rest}", own(4), own(9));
                let want = format!("{before}{head}{thread}{outside}{}", own(4));
                assert_eq!(up_to_crash(&text), want, "{text}");
            }
            // None of its lines is the project's.
            let text = format!("{head}{thread}{outside}");
            assert_eq!(up_to_crash(&text), text);
        }
        for text in ["", "said\n", "a Timeout (0:00:01)!\n", &format!("{}\nFatal Python error: x", own(1))] {
            assert_eq!(up_to_crash(text), text);
        }
    }
}
