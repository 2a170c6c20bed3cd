//! Languages in which code is made: their names, how tests are named and written, files that hotcell adds, and stubs.

use std::path::Path;

use hotcell_sandbox::layer::likely;
use hotcell_verbs::language::meant;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::go_version::GoVersion;

/// A language.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// Python, with tests of unittest, which is part of each installation.
    #[default]
    Python,
    /// JavaScript as CommonJS, with tests of node's own runner.
    JavaScript,
    /// Go, with tests of its package testing.
    Go,
    /// Rust, with tests of its own harness.
    Rust,
}

/// A stub in place of the sources: every name is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stub {
    /// Each use of a name fails. Tests that pass on it use no code, or expect any error.
    Fails,
    /// Calls return something: what is equal to nothing, or where results have types, zero, `false`, nothing. Tests that pass on all stubs whose calls
    /// return look at no result.
    Returns,
    /// Calls return another value of the type of their result.
    ReturnsOther,
}

/// Stub of a Python module. Its errors are assertions, so that a test which meets one fails as it would by a wrong result.
const PYTHON_STUB: &str = r#"class NotWritten(AssertionError):
    pass


class _Name:
    def __init__(self, name):
        self.__dict__["_name"] = name

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Name(name)

    def _use(self, *args, **kwargs):
        raise NotWritten(self._name + " is not written yet")

    __call__ = CALL
    __len__ = __iter__ = __getitem__ = __contains__ = __bool__ = __int__ = __float__ = _use
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __lt__ = __gt__ = __le__ = __ge__ = _use
    __truediv__ = __mod__ = __pow__ = __neg__ = __enter__ = __setattr__ = __setitem__ = _use


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _Name(name)


if __name__ == "__main__":
    raise SystemExit("not written yet")
"#;

/// Stub of a CommonJS module.
const JAVASCRIPT_STUB: &str = r#""use strict";
function named(name) {
  const use = () => {
    throw new Error(name + " is not written yet");
  };
  return new Proxy(function () {}, {
    get: (target, key) => (typeof key === "symbol" || key === "prototype" || key === "then" ? target[key] : named(String(key))),
    apply: APPLY,
    construct: CONSTRUCT,
  });
}
module.exports = named("the module");
if (require.main === module) {
  console.error("not written yet");
  process.exitCode = 1;
}
"#;

/// Settings of a JavaScript project, so that `npm test` runs its tests.
const PACKAGE: &str = "{\n  \"private\": true,\n  \"scripts\": {\n    \"test\": \"node --test\"\n  }\n}\n";

/// Settings of a Rust project. Tests and examples within the code would be the coder's own, so that they do not decide: neither those of the library nor of
/// a program that cargo would find by its place.
const CARGO_MANIFEST: &str = "[package]\nname = \"project\"\nversion = \"0.1.0\"\nedition = \"2021\"\nautobins = false\nautoexamples = false\nautobenches = false\n\n# The tests are those in the folder tests.\n[lib]\ntest = false\ndoctest = false\n";

/// Settings of its program, if it has one.
const CARGO_PROGRAM: &str = "\n[[bin]]\nname = \"project\"\npath = \"src/main.rs\"\ntest = false\n";

/// Path of the program of a Rust project.
const RUST_PROGRAM: &str = "src/main.rs";

impl Language {
    /// All languages.
    pub const ALL: [Self; 4] = [Self::Python, Self::JavaScript, Self::Go, Self::Rust];

    /// Name, as it is typed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::JavaScript => "javascript",
            Self::Go => "go",
            Self::Rust => "rust",
        }
    }

    /// A language by its name or an alias.
    ///
    /// # Errors
    /// Words that name the nearest language and all of them.
    pub fn named(word: &str) -> Result<Self, String> {
        let lower = word.trim().to_ascii_lowercase();
        let found = meant(&lower, |name| Self::ALL.into_iter().find(|one| one.name() == name));
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name);
            let near =
                likely(&lower, names).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            format!("code is not made in {word:?}{near} (the languages are {})", names.join(", "))
        })
    }

    /// Tells if a file is a source of this language.
    #[must_use]
    pub fn is_source(self, path: &str) -> bool {
        let end = Path::new(path).extension().and_then(|end| end.to_str()).unwrap_or_default();
        match self {
            Self::Python => end == "py",
            Self::JavaScript => matches!(end, "js" | "cjs"),
            Self::Go => end == "go",
            Self::Rust => end == "rs",
        }
    }

    /// Tells if a tester may write a file of this name: a test that the framework finds, or data of tests.
    #[must_use]
    pub fn is_test(self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        let is_data = path.starts_with("testdata/") && !crate::paths::decides_tests(path);
        is_data
            || match self {
                Self::Python => self.is_source(path) && name.starts_with("test_"),
                Self::JavaScript => [".test.js", ".test.cjs"].iter().any(|end| name.ends_with(end)),
                Self::Go => name.ends_with("_test.go"),
                Self::Rust => self.is_source(path) && path.starts_with("tests/"),
            }
    }

    /// Name of the tests of a source.
    #[must_use]
    pub fn test_of(self, source: &str) -> String {
        let name = source.rsplit('/').next().unwrap_or(source);
        let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
        match self {
            Self::Python => format!("test_{stem}.py"),
            Self::JavaScript => format!("{stem}.test.js"),
            // Beside the source, since it is in one package with it.
            Self::Go => format!("{}{stem}_test.go", source.strip_suffix(name).unwrap_or_default()),
            Self::Rust => format!("tests/{stem}.rs"),
        }
    }

    /// Framework of a tester's tests, which needs no package.
    #[must_use]
    pub const fn framework(self) -> &'static str {
        match self {
            Self::Python => "unittest",
            Self::JavaScript => "node",
            Self::Go => "go",
            Self::Rust => "cargo",
        }
    }

    /// Program that has to be installed, for people.
    #[must_use]
    pub const fn compiler(self) -> &'static str {
        match self {
            Self::Python => "Python 3",
            Self::JavaScript => "Node.js",
            Self::Go => "Go 1.18 or later",
            Self::Rust => "cargo and rustc 1.57 or later",
        }
    }

    /// Tells if a stub needs the types of a plan's interfaces, which then are declarations of the language.
    #[must_use]
    pub const fn is_typed(self) -> bool {
        matches!(self, Self::Go | Self::Rust)
    }

    /// Stubs whose calls return. A value of a type may be the expected one by chance; of two values, one is not.
    #[must_use]
    pub const fn returning(self) -> &'static [Stub] {
        if self.is_typed() { &[Stub::Returns, Stub::ReturnsOther] } else { &[Stub::Returns] }
    }

    /// Rules of the language, for every role.
    #[must_use]
    pub fn rules(self, go: GoVersion) -> String {
        let words = match self {
            Self::Python => {
                "Language: Python 3, with its standard library only. Modules are files such as name.py in the project's folder, from which they are imported by name."
            }
            Self::JavaScript => {
                "Language: JavaScript for Node.js, with its own modules only. Files are CommonJS: name.js with require(\"./other.js\") and module.exports."
            }
            Self::Go => {
                "Language: Go, with its standard library only. GO_MODULE A package in a folder is imported as \"project/FOLDER\". Each file begins with the package of its interface."
            }
            Self::Rust => {
                "Language: Rust 2021, with its standard library only. Cargo.toml is there, with the package project: the library is src/lib.rs, which has pub mod NAME; for each src/NAME.rs. A program is src/main.rs over it, if it is planned. There are no tests within src."
            }
        };
        words.replace("GO_MODULE", &go.rules())
    }

    /// Rules of a plan's interfaces, for the architect; empty where they are prose.
    #[must_use]
    pub const fn plan_rules(self) -> &'static str {
        match self {
            Self::Python | Self::JavaScript => "",
            Self::Go => {
                "INTERFACE is Go as in the file, one declaration a line, without comments: first package NAME (one name for all files of a folder), imports that the declarations need, types and their fields, constants, variables, and each exported function and method without its body, such as func Add(a int, b int) int"
            }
            Self::Rust => {
                "INTERFACE is Rust as in the file, one item a line, without comments: use, pub struct and pub enum with all that they hold and derive, pub const, impl blocks with braces, and each public function with ; in place of its body, such as pub fn add(a: i64, b: i64) -> i64; No result is an impl Trait. Sources are src/lib.rs, which has to be there, and src/NAME.rs."
            }
        }
    }

    /// Rules of tests, for the tester.
    #[must_use]
    pub const fn test_rules(self) -> &'static str {
        match self {
            Self::Python => {
                "Write tests with unittest (import unittest, classes of unittest.TestCase) in files test_NAME.py in the project's folder."
            }
            Self::JavaScript => {
                "Write tests with node:test and node:assert/strict, by require, in files NAME.test.js in the project's folder."
            }
            Self::Go => {
                "Write tests with the package testing in files NAME_test.go, each in the folder and in the package of the code that it tests. Import nothing that is not used."
            }
            Self::Rust => {
                "Write tests as functions with #[test] in files tests/NAME.rs, with use project::…; of public names only."
            }
        }
    }

    /// Paths of files that hotcell adds to a project; no model changes them.
    #[must_use]
    pub const fn settings(self) -> &'static [&'static str] {
        match self {
            Self::Python => &[],
            Self::JavaScript => &["package.json"],
            Self::Go => &["go.mod"],
            Self::Rust => &["Cargo.toml"],
        }
    }

    /// [`Language::settings`] as files of a project that has files of these paths.
    #[must_use]
    pub fn setting_files<'a>(
        self,
        paths: impl IntoIterator<Item = &'a str>,
        go: GoVersion,
    ) -> Vec<(String, String)> {
        let has_program = || paths.into_iter().any(|path| path == RUST_PROGRAM);
        let text = match self {
            Self::Python => return Vec::new(),
            Self::JavaScript => PACKAGE.to_owned(),
            Self::Go => go.module(),
            Self::Rust => format!("{CARGO_MANIFEST}{}", if has_program() { CARGO_PROGRAM } else { "" }),
        };
        self.settings().iter().map(|path| ((*path).to_owned(), text.clone())).collect()
    }

    /// Tells if a source is one that frozen tests can judge: not a program of Rust, and in Go a file beside a test.
    #[must_use]
    pub fn is_judged(self, path: &str, frozen: &[String]) -> bool {
        let folder = |path: &str| path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        match self {
            Self::Python | Self::JavaScript => true,
            Self::Go => frozen.iter().any(|test| test.ends_with("_test.go") && folder(test) == folder(path)),
            Self::Rust => path != RUST_PROGRAM && !path.starts_with("src/bin/"),
        }
    }

    /// Text of a stub that has every name, in place of any source; `None` in a language with types.
    #[must_use]
    pub fn stub_of_any(self, stub: Stub) -> Option<String> {
        Some(match (self, stub) {
            (Self::Python, Stub::Fails) => PYTHON_STUB.replace("CALL", "_use"),
            (Self::Python, _) => {
                PYTHON_STUB.replace("CALL", "lambda self, *args, **kwargs: _Name(self._name)")
            }
            (Self::JavaScript, Stub::Fails) => {
                JAVASCRIPT_STUB.replace("APPLY", "use").replace("CONSTRUCT", "use")
            }
            (Self::JavaScript, _) => {
                JAVASCRIPT_STUB.replace("APPLY", "() => undefined").replace("CONSTRUCT", "() => named(name)")
            }
            (Self::Go | Self::Rust, _) => return None,
        })
    }

    /// Tells if a test is one of the frozen files, by its id in a report. Only Rust has tests within sources.
    #[must_use]
    pub fn is_frozen_test(self, id: &str, frozen: &[String]) -> bool {
        self != Self::Rust
            || frozen
                .iter()
                .any(|path| id.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with("::")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_are_named_and_mistakes_name_the_nearest() {
        for language in Language::ALL {
            assert_eq!(Language::named(language.name()), Ok(language));
        }
        for (alias, language) in [
            ("py", Language::Python),
            (" Python3 ", Language::Python),
            ("js", Language::JavaScript),
            ("node", Language::JavaScript),
            ("NodeJS", Language::JavaScript),
        ] {
            assert_eq!(Language::named(alias), Ok(language), "{alias}");
        }
        for (word, near) in [
            ("pyton", "did you mean python?"),
            ("Java", "did you mean javascript?"),
            ("golan", "did you mean go"),
            ("rusty", "did you mean rust?"),
            ("cobol", "python, javascript, go, rust"),
        ] {
            assert!(Language::named(word).is_err_and(|why| why.contains(near)), "{word}");
        }
    }

    #[test]
    fn stubs_of_any_source_differ_in_their_calls() {
        for language in Language::ALL.into_iter().filter(|language| !language.is_typed()) {
            let of = |stub| language.stub_of_any(stub).unwrap();
            let (fails, returns) = (of(Stub::Fails), of(Stub::Returns));
            assert_ne!(fails, returns);
            for word in ["CALL", "APPLY", "CONSTRUCT"] {
                assert!(!fails.contains(word) && !returns.contains(word), "{word}");
            }
        }
    }

    #[test]
    fn tests_within_sources_are_not_those_that_were_frozen() {
        let frozen = ["tests/calc.rs".to_owned(), "Cargo.toml".to_owned()];
        for (language, id, is_frozen) in [
            (Language::Rust, "tests/calc.rs::adds", true),
            (Language::Rust, "src/main.rs::tests::adds", false),
            (Language::Rust, "tests/calc.rs2::adds", false),
            (Language::Go, "project::TestAdd", true),
            (Language::Python, "test_calc.Calc.test_add", true),
        ] {
            assert_eq!(language.is_frozen_test(id, &frozen), is_frozen, "{id}");
        }
    }

    #[test]
    fn settings_keep_tests_of_a_coder_away() {
        for (language, paths, program) in [
            (Language::Rust, &["src/lib.rs", "src/main.rs"][..], true),
            (Language::Rust, &["src/lib.rs", "src/bin/x.rs"], false),
            (Language::Go, &["src/main.rs"], false),
        ] {
            let files = language.setting_files(paths.iter().copied(), GoVersion::default());
            assert_eq!(files[0].1.contains("[[bin]]"), program, "{paths:?}");
            assert_eq!(files[0].1.contains("autobins = false"), language == Language::Rust);
            assert!(!files[0].1.contains("autotests"));
        }
        let frozen = ["sub/a_test.go".to_owned(), "go.mod".to_owned()];
        for (language, path, judged) in [
            (Language::Go, "sub/a.go", true),
            (Language::Go, "a.go", false),
            (Language::Go, "sub/deep/a.go", false),
            (Language::Rust, "src/lib.rs", true),
            (Language::Rust, "src/main.rs", false),
            (Language::Rust, "src/bin/x.rs", false),
            (Language::Python, "a.py", true),
        ] {
            assert_eq!(language.is_judged(path, &frozen), judged, "{path}");
        }
    }

    #[test]
    fn testers_write_only_tests_that_are_frozen_for_others() {
        for (language, good, bad) in [
            (
                Language::Python,
                ["test_a.py", "sub/test_b.py", "testdata/x.json"],
                ["a.py", "conftest.py", "test_a.txt"],
            ),
            (
                Language::JavaScript,
                ["a.test.js", "sub/b.test.cjs", "testdata/x.json"],
                ["a.js", "package.json", "testdata/package.json"],
            ),
            (
                Language::Go,
                ["a_test.go", "sub/b_test.go", "testdata/x.json"],
                ["a.go", "go.mod", "test_a.go"],
            ),
            (
                Language::Rust,
                ["tests/a.rs", "tests/common/mod.rs", "testdata/x.json"],
                ["src/a.rs", "tests/Cargo.toml", "build.rs"],
            ),
        ] {
            for path in good {
                assert!(language.is_test(path) && crate::paths::is_test(path), "{path}");
            }
            for path in bad {
                assert!(!language.is_test(path), "{path}");
            }
            let settings = language.settings().iter().all(|path| crate::paths::is_test(path));
            assert!(settings && language.is_test(&language.test_of("sub/name.x")));
        }
    }
}
