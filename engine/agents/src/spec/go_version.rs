//! Version of Go that a project's settings name: the compiler's own, so that models may write what it has. A session keeps the version with which it began.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The first version with generics.
const FIRST: u32 = 18;
/// The last version that is taken from outside.
const LAST: u32 = 99;
/// The first version whose loops have variables of their own in each turn, and ranges over numbers.
const OF_TURNS: u32 = 22;
/// Name of the test that tells the compiler's version.
const TEST: &str = "TestHotcellVersion";

/// Version 1.N of Go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GoVersion(u32);

impl Default for GoVersion {
    /// Version of sessions that recorded none.
    fn default() -> Self {
        Self(FIRST)
    }
}

impl fmt::Display for GoVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.0)
    }
}

impl GoVersion {
    /// Version in the words of a compiler, such as `go1.22.3` or `devel go1.25-0a1b2c`.
    #[must_use]
    pub fn of(words: &str) -> Option<Self> {
        let digits = words.match_indices("go1.").find_map(|(at, found)| {
            let rest = &words[at + found.len()..];
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            rest[..end].parse().ok()
        })?;
        Some(Self(digits))
    }

    /// Tells if a version that comes from outside can be one: known are 1.18 to 1.99.
    #[must_use]
    pub const fn is_plausible(self) -> bool {
        self.is_enough() && self.0 <= LAST
    }

    /// Tells if this version has what code of a session needs.
    #[must_use]
    pub const fn is_enough(self) -> bool {
        self.0 >= FIRST
    }

    /// Settings of a project.
    #[must_use]
    pub fn module(self) -> String {
        format!("module project\n\ngo {self}\n")
    }

    /// Rules about the language of this version, for every role.
    #[must_use]
    pub fn rules(self) -> String {
        let turns = if self.0 < OF_TURNS {
            ": all turns of a loop share its variable, and range takes no number"
        } else {
            ""
        };
        format!("go.mod is there, with the module project and go {self}{turns}.")
    }
}

/// A test whose subtest has the compiler's version as its name.
#[must_use]
pub fn test() -> (String, String) {
    let text = format!(
        "package project\n\nimport (\n\t\"runtime\"\n\t\"testing\"\n)\n\nfunc {TEST}(t *testing.T) {{\n\tt.Run(runtime.Version(), func(t *testing.T) {{}})\n}}\n"
    );
    ("hotcell_version_test.go".to_owned(), text)
}

/// Version that the test told, by the ids of a report.
pub fn told<'a>(mut ids: impl Iterator<Item = &'a str>) -> Option<GoVersion> {
    ids.find_map(|id| GoVersion::of(id.split_once(TEST)?.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_compilers() {
        for (words, want) in [
            ("go1.18", Some("1.18")),
            ("go1.22.3", Some("1.22")),
            ("go1.23rc1", Some("1.23")),
            ("go1.24.1 X:nocoverageredesign", Some("1.24")),
            ("devel go1.25-0a1b2c Tue Jan 7", Some("1.25")),
            ("devel_+0a1b2c", None),
            ("go1.", None),
            ("", None),
        ] {
            assert_eq!(GoVersion::of(words).map(|of| of.to_string()).as_deref(), want, "{words}");
        }
        for (words, enough, turns) in [
            ("go1.17", false, true),
            ("go1.18", true, true),
            ("go1.21.9", true, true),
            ("go1.22", true, false),
        ] {
            let of = GoVersion::of(words).unwrap();
            assert_eq!((of.is_enough(), of.rules().contains("share")), (enough, turns), "{words}");
            assert!(of.module().ends_with(&format!("\ngo {of}\n")));
        }
        let ids = [
            "project::TestHotcellProbe",
            "project::TestHotcellVersion",
            "project::TestHotcellVersion/go1.19.8",
        ];
        assert_eq!(told(ids.into_iter()), GoVersion::of("go1.19"));
        assert_eq!(told(["project::TestHotcellVersion"].into_iter()), None);
    }
}
