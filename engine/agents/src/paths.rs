//! Paths in a model's answer, which are hostile: which may be written, and which files are tests or decide how tests run.

use std::path::{Component, Path};

use hotcell_workspace::protected;
use hotcell_workspace::protected::is_hidden;

/// Maximum length of a path.
const MAX_PATH_BYTES: usize = 512;
/// Folders of tests.
const TEST_FOLDERS: [&str; 9] =
    ["test", "tests", "__tests__", "spec", "specs", "testing", "e2e", "__snapshots__", "testdata"];
/// Files that decide which tests run and how, and modules that are loaded before tests.
const TEST_SETTINGS: [&str; 34] = [
    "conftest.py",
    "pytest.ini",
    "tox.ini",
    "setup.cfg",
    "setup.py",
    "pyproject.toml",
    "manage.py",
    "sitecustomize.py",
    "usercustomize.py",
    "pytest.py",
    "_pytest.py",
    "unittest.py",
    "package.json",
    "package-lock.json",
    "karma.conf.js",
    "jasmine.json",
    "babel.config.js",
    "tsconfig.json",
    "vite.config.js",
    "vite.config.ts",
    "cargo.toml",
    "cargo.lock",
    "build.rs",
    "go.mod",
    "go.sum",
    "go.work",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "settings.gradle",
    "cmakelists.txt",
    "makefile",
    "hotcell.toml",
    "requirements.txt",
];

/// Why a path is not written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPath {
    /// No path within the project.
    #[error("{0:?} is not a path within the project, such as src/name.py")]
    Outside(String),
    /// Git's state, settings of tools, hidden files.
    #[error("{0} is protected and cannot be changed here")]
    Protected(String),
    /// A test, or what decides how tests run.
    #[error("{0} is a test, or decides how tests run, and cannot be changed here; change the code instead")]
    Test(String),
    /// No new test file, where only those are taken.
    #[error(
        "{0} is not a new file that is a test by its name; write tests into new files, such as tests/test_name.py"
    )]
    NotNew(String),
    /// A link, a folder, or something below a file.
    #[error("{0} is not a plain file and cannot be changed here")]
    NoFile(String),
}

/// Checks the words of a path; the file system is not read.
///
/// # Errors
/// [`BadPath`].
pub fn check(path: &str) -> Result<(), BadPath> {
    let outside = || BadPath::Outside(crate::text::line(path, 100));
    let plain = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    let is_odd = |c: char| c == '\\' || c == ':' || !hotcell_sandbox::text::is_shown(c);
    // `a//b`, `a/./b` and `a/` are names of plain files for the file system, but no path that a model needs.
    let normal = path.split('/').all(|part| !part.is_empty() && part != ".");
    if path.is_empty() || path.len() > MAX_PATH_BYTES || !plain || !normal || path.contains(is_odd) {
        return Err(outside());
    }
    let named = Path::new(path);
    if protected(named).is_some() || is_hidden(named) {
        return Err(BadPath::Protected(path.to_owned()));
    }
    Ok(())
}

/// Tells if a file is a test, or decides how tests run, by its name. Names are compared without case.
#[must_use]
pub fn is_test(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    let (folders, name) = lower.rsplit_once('/').unwrap_or(("", &lower));
    if folders.split('/').any(|folder| TEST_FOLDERS.contains(&folder)) || TEST_SETTINGS.contains(&name) {
        return true;
    }
    let (stem, end) = name.rsplit_once('.').unwrap_or((name, ""));
    let config =
        ["jest.config", "vitest.config", "vitest.workspace", "playwright.config", ".mocharc", ".babelrc"];
    stem == "test"
        || stem == "tests"
        || stem.starts_with("test_")
        || stem.ends_with("_test")
        || stem.ends_with("_tests")
        || stem.ends_with(".test")
        || stem.ends_with(".spec")
        || stem.ends_with("_spec")
        || config.contains(&stem)
        || (["java", "kt", "cs", "php", "swift"].contains(&end)
            && ["test", "tests", "it"].iter().any(|word| stem.ends_with(word)))
        || ["pth", "snap", "feature"].contains(&end)
        || name.ends_with(".csproj")
}

/// Tells if a file decides which tests run and how, by its name.
#[must_use]
pub fn is_setting(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    let name = lower.rsplit('/').next().unwrap_or(&lower);
    let stem = name.split('.').next().unwrap_or(name);
    TEST_SETTINGS.contains(&name) || name.contains(".config.") || stem.is_empty() || name.ends_with(".pth")
}

/// Tells if a file decides how tests run, by its name.
#[must_use]
pub fn decides_tests(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    TEST_SETTINGS.contains(&lower.rsplit('/').next().unwrap_or(&lower))
}

/// The part of a Rust source from its tests on; it is frozen like a test file.
#[must_use]
pub fn inner_tests<'a>(path: &str, text: &'a str) -> Option<&'a str> {
    let is_rust = Path::new(path).extension().is_some_and(|end| end.eq_ignore_ascii_case("rs"));
    text.find("#[cfg(test)]").filter(|_| is_rust).map(|at| text[at..].trim_end())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_out_of_the_project_are_refused() {
        for bad in [
            "",
            "/etc/passwd",
            "../x.py",
            "a/../../x.py",
            "a/..",
            "..",
            ".",
            "./a.py",
            "a//b.py",
            "a/",
            "a\\b.py",
            "C:x.py",
            "a\nb.py",
            "a\u{202e}b.py",
            "a\u{0}b",
            "~/../x",
            "a/./b.py",
        ] {
            assert!(matches!(check(bad), Err(BadPath::Outside(_))), "{bad:?}");
        }
        for bad in [
            ".git/config",
            "a/.git/hooks/pre-commit",
            ".GIT/config",
            "sub/.gitmodules",
            ".env",
            ".vscode/tasks.json",
            ".hidden/x.py",
            ".bashrc",
        ] {
            assert!(matches!(check(bad), Err(BadPath::Protected(_))), "{bad:?}");
        }
        for good in ["a.py", "src/lib.rs", "a b/c-d_e.js", "Küche/rezept.py"] {
            assert_eq!(check(good), Ok(()), "{good:?}");
        }
    }

    #[test]
    fn tests_and_their_settings_are_known_by_name() {
        for test in [
            "test_a.py",
            "a_test.py",
            "tests/a.py",
            "pkg/Tests/data.json",
            "conftest.py",
            "sub/CONFTEST.py",
            "a.test.js",
            "src/a.spec.ts",
            "a_test.go",
            "src/test/java/A.java",
            "FooTest.java",
            "package.json",
            "Cargo.toml",
            "jest.config.mjs",
            "pytest.ini",
            "sitecustomize.py",
            "x.pth",
            "pytest.py",
            "go.mod",
            "test.py",
            "Makefile",
            "a_spec.rb",
        ] {
            assert!(is_test(test), "{test}");
        }
        for code in [
            "a.py",
            "src/lib.rs",
            "contest.py",
            "latest.js",
            "attestation.go",
            "src/protest/a.py",
            "Latest.py",
        ] {
            assert!(!is_test(code), "{code}");
        }
    }

    #[test]
    fn tests_inside_rust_sources_are_told_apart() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {}\n";
        assert_eq!(inner_tests("src/a.rs", text), Some("#[cfg(test)]\nmod tests {}"));
        assert_eq!(inner_tests("a.py", text), None);
        assert_eq!(inner_tests("a.rs", "fn a() {}"), None);
    }

    proptest! {
        #[test]
        fn accepted_paths_stay_below_the_project(path in "[a./\\\\~ ]{0,12}") {
            if check(&path).is_ok() {
                prop_assert!(Path::new("/p").join(&path).starts_with("/p"));
                prop_assert!(!path.split('/').any(|part| part == ".." || part == ".git"));
            }
        }
    }
}
