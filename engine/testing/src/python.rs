//! What pytest and unittest have in common: how test files look.

use crate::project::Project;

/// The most test files that are looked into.
const MOST_READ: usize = 300;
/// Read of each, bytes.
const READ: usize = 64 << 10;

/// What was found in a project's Python test files, each with the first file that has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signs {
    /// A file that pytest collects by its name.
    pub any: Option<String>,
    /// It imports pytest.
    pub pytest: Option<String>,
    /// It has test functions, or test classes without a base: only pytest runs these.
    pub plain: Option<String>,
    /// Its name is one that unittest finds, and it has a `unittest.TestCase`.
    pub unittest: Option<String>,
    /// The folder from which unittest finds such files: the project's, or else the first one's.
    pub root: String,
    /// It has a `unittest.TestCase`, and unittest does not find it from there.
    pub elsewhere: Option<String>,
    /// All that have something that is named like a test.
    pub files: Vec<String>,
}

/// Looks for them.
#[must_use]
pub fn signs(project: &dyn Project) -> Signs {
    let mut signs = Signs::default();
    let mut roots = Vec::new();
    let files = project.files().iter().filter(|f| {
        let name = base(f);
        name.ends_with(".py") && (name.starts_with("test") || name.ends_with("_test.py"))
    });
    for file in files.take(MOST_READ) {
        let for_pytest = base(file).starts_with("test_") || file.ends_with("_test.py");
        let Some(bytes) = project.read(file) else { continue };
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(READ)]);
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
    // From the project's folder, if any is found from there.
    let root = roots.iter().filter_map(|(_, root)| *root).min_by_key(|root| !root.is_empty());
    root.unwrap_or_default().clone_into(&mut signs.root);
    signs.elsewhere = roots.iter().find(|(_, at)| *at != root).map(|(file, _)| (*file).clone());
    signs
}

/// The folder from which unittest finds a file: the first above it that is no package.
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
        // Debian and others let pip write to a virtual environment only (PEP 668).
        format!(
            "apt install python3-{what}; or in the project's folder: {interpreter} -m venv .venv && .venv/bin/pip install {what}"
        )
    } else {
        format!("{interpreter} -m pip install {what}")
    };
    format!("{what} is not installed for {interpreter}; install it with: {how}")
}

/// Whether a file has a line that begins in its first column, or is an import further in.
fn has_line(text: &str, is: impl Fn(&str) -> bool) -> bool {
    text.lines().any(is)
}

/// Whether one of a file's lines is this section's head.
#[must_use]
pub fn has_section(project: &dyn Project, file: &str, head: &str) -> bool {
    project.has(file)
        && project.read(file).is_some_and(|bytes| {
            String::from_utf8_lossy(&bytes).lines().any(|l| l.trim_start().starts_with(head))
        })
}

/// The last part of a path.
#[must_use]
pub fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
