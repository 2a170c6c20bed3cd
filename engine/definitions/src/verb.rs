//! Names of verbs. Pure.

use std::fmt;
use std::str::FromStr;

/// Maximum length of a verb's name, so that its tool's name fits the limit of every client.
pub const MAX_NAME_CHARS: usize = 48;

/// A verb with its version: `review.analyze@v1`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Verb {
    /// Words with dots between them.
    pub name: String,
    /// Version, from 1.
    pub version: u32,
}

/// A verb as typed: without a version it means the newest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Name.
    pub name: String,
    /// Version, if there is one.
    pub version: Option<u32>,
}

impl Verb {
    /// A verb with a checked name.
    ///
    /// # Errors
    /// A sentence about the name or the version.
    pub fn new(name: &str, version: u32) -> Result<Self, String> {
        check(name)?;
        if version == 0 {
            return Err("versions begin with 1".to_owned());
        }
        Ok(Self { name: name.to_owned(), version })
    }

    /// Name of the tool over MCP, where `@` and `.` are not allowed by all clients: `review_analyze_v1`. Tools of plugins have one `_` only.
    #[must_use]
    pub fn tool_name(&self) -> String {
        format!("{}_v{}", self.name.replace('.', "_"), self.version)
    }
}

/// Checks a name: two or more words of small letters, digits and `-`, with dots between them.
fn check(name: &str) -> Result<(), String> {
    let word = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_lowercase())
            && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    let words = name.split('.').count();
    if words < 2 || !name.split('.').all(word) || name.len() > MAX_NAME_CHARS {
        return Err(format!(
            "{name:?} is no name of a verb: words of small letters, digits and hyphens with dots between them, such as review.analyze, at most {MAX_NAME_CHARS}"
        ));
    }
    Ok(())
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@v{}", self.name, self.version)
    }
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, version) = match text.split_once('@') {
            None => (text, None),
            Some((name, version)) => {
                let number = version.strip_prefix('v').and_then(|number| number.parse().ok());
                let wrong = || format!("{text:?} has no version like @v1");
                (name, Some(number.filter(|number| *number > 0).ok_or_else(wrong)?))
            }
        };
        Ok(Self { name: name.to_owned(), version })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_versions_are_read() {
        let verb = Verb::new("review.analyze", 12).unwrap();
        assert_eq!(
            (verb.to_string(), verb.tool_name()),
            ("review.analyze@v12".into(), "review_analyze_v12".into())
        );
        for (name, version) in [
            ("review", 1),
            ("", 1),
            ("a.", 1),
            ("a..b", 1),
            ("A.b", 1),
            ("a.1", 1),
            ("a.b c", 1),
            ("a_b.c", 1),
            ("a.b", 0),
        ] {
            assert!(Verb::new(name, version).is_err(), "{name}@v{version}");
        }
        assert!(Verb::new(&format!("a.{}", "b".repeat(47)), 1).is_err());
        for (text, version) in [("a.b@v3", Some(3)), ("a.b", None)] {
            assert_eq!(text.parse(), Ok(Wanted { name: "a.b".into(), version }));
        }
        for text in ["a.b@", "a.b@1", "a.b@v0", "a.b@v-1", "a.b@vx", "a.b@v1@v2"] {
            assert!(text.parse::<Wanted>().is_err(), "{text}");
        }
    }
}
