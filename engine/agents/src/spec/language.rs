//! Languages in which code is made: their names, how tests are named and written, files that hotcell adds, and stubs.

use std::path::Path;

use hotcell_sandbox::layer::likely;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A language.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// Python, with tests of unittest, which is part of each installation.
    #[default]
    Python,
    /// JavaScript as CommonJS, with tests of node's own runner.
    JavaScript,
}

/// A stub in place of the sources: every name is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stub {
    /// Each use of a name fails. Tests that pass on it use no code, or expect any error.
    Fails,
    /// Calls return something that is equal to nothing. Tests that pass on it look at no result.
    Returns,
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

impl Language {
    /// All languages.
    pub const ALL: [Self; 2] = [Self::Python, Self::JavaScript];

    /// Name, as it is typed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::JavaScript => "javascript",
        }
    }

    /// Other names, as they are typed.
    const fn others(self) -> &'static [&'static str] {
        match self {
            Self::Python => &["py", "python3"],
            Self::JavaScript => &["js", "node", "nodejs"],
        }
    }

    /// A language by its name.
    ///
    /// # Errors
    /// Words that name the nearest language and all of them.
    pub fn named(word: &str) -> Result<Self, String> {
        let lower = word.trim().to_ascii_lowercase();
        let found = Self::ALL.into_iter().find(|one| one.name() == lower || one.others().contains(&&*lower));
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
        }
    }

    /// Framework of a tester's tests, which needs no package.
    #[must_use]
    pub const fn framework(self) -> &'static str {
        match self {
            Self::Python => "unittest",
            Self::JavaScript => "node",
        }
    }

    /// Rules of the language, for every role.
    #[must_use]
    pub const fn rules(self) -> &'static str {
        match self {
            Self::Python => {
                "Language: Python 3, with its standard library only. Modules are files such as name.py in the project's folder, from which they are imported by name."
            }
            Self::JavaScript => {
                "Language: JavaScript for Node.js, with its own modules only. Files are CommonJS: name.js with require(\"./other.js\") and module.exports."
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
        }
    }

    /// Files that hotcell adds to a project; no model changes them.
    #[must_use]
    pub const fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Python => &[],
            Self::JavaScript => &[("package.json", PACKAGE)],
        }
    }

    /// Text of a stub in place of a source; `None` for other files.
    #[must_use]
    pub fn stub(self, path: &str, stub: Stub) -> Option<String> {
        if !self.is_source(path) {
            return None;
        }
        Some(match (self, stub) {
            (Self::Python, Stub::Fails) => PYTHON_STUB.replace("CALL", "_use"),
            (Self::Python, Stub::Returns) => {
                PYTHON_STUB.replace("CALL", "lambda self, *args, **kwargs: _Name(self._name)")
            }
            (Self::JavaScript, Stub::Fails) => {
                JAVASCRIPT_STUB.replace("APPLY", "use").replace("CONSTRUCT", "use")
            }
            (Self::JavaScript, Stub::Returns) => {
                JAVASCRIPT_STUB.replace("APPLY", "() => undefined").replace("CONSTRUCT", "() => named(name)")
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_are_named_and_mistakes_name_the_nearest() {
        for language in Language::ALL {
            assert_eq!(Language::named(language.name()), Ok(language));
            for other in language.others() {
                assert_eq!(Language::named(other), Ok(language));
            }
        }
        for (word, near) in [
            ("pyton", "did you mean python?"),
            ("Java", "did you mean javascript?"),
            ("go", "python, javascript"),
        ] {
            assert!(Language::named(word).is_err_and(|why| why.contains(near)), "{word}");
        }
    }

    #[test]
    fn stubs_stand_for_sources_only_and_differ_in_their_calls() {
        for language in Language::ALL {
            let source = if language == Language::Python { "a.py" } else { "a.js" };
            let of = |stub| language.stub(source, stub).unwrap();
            let (fails, returns) = (of(Stub::Fails), of(Stub::Returns));
            assert_ne!(fails, returns);
            for word in ["CALL", "APPLY", "CONSTRUCT"] {
                assert!(!fails.contains(word) && !returns.contains(word), "{word}");
            }
            assert_eq!(language.stub("data.json", Stub::Fails), None);
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
        ] {
            for path in good {
                assert!(language.is_test(path) && crate::paths::is_test(path), "{path}");
            }
            for path in bad {
                assert!(!language.is_test(path), "{path}");
            }
            let settings = language.settings().iter().all(|(path, _)| crate::paths::is_test(path));
            assert!(settings && language.is_test(&language.test_of("sub/name.py")));
        }
    }
}
