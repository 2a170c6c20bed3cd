//! Feeds of the operator: fingerprints of code that is known to be bad, and names of popular packages. Both yield notes.

mod code;
mod modules;
mod names;
mod token;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::report::{Finding, Fingerprint};

pub(crate) use code::fingerprint;
pub(crate) use modules::{NODE_MODULES, PYTHON_MODULES};
pub(crate) use names::{Likeness, Popular, Registry};

/// Extension of a feed's file.
const ENDING: &str = ".feed";
/// Name of a feed with which reports have the fingerprints of what was scanned.
pub const RECORD_FINGERPRINTS: &str = "record-fingerprints.feed";
/// Maximum number of fingerprints and names of all feeds together.
const MAX_ENTRIES: usize = 500_000;
/// Maximum size of all feeds together, in bytes.
const MAX_BYTES: usize = 64 << 20;
/// Maximum length of a label, in characters.
const MAX_LABEL: usize = 100;

/// Entries of all feeds.
#[derive(Debug)]
pub(crate) struct Feed {
    codes: FxHashMap<[u8; 32], Box<str>>,
    pypi: Popular,
    npm: Popular,
    entries: usize,
    bytes: usize,
    /// True to record the fingerprints of what is scanned.
    pub(crate) records: bool,
}

/// Results of a scan's comparisons.
#[derive(Default)]
pub(crate) struct Known {
    /// Findings, all of them notes.
    pub(crate) notes: Vec<Finding>,
    /// Fingerprints of the parts.
    pub(crate) fingerprints: Vec<Fingerprint>,
    /// True when a limit left something uncompared.
    pub(crate) limited: bool,
    /// Names that were compared.
    pub(crate) names: FxHashSet<(Registry, String)>,
}

/// Problem for which a feed does not load, with the number of its line, from 1.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FeedError {
    pub(crate) line: usize,
    pub(crate) problem: String,
}

/// True for the name of a feed's file.
pub(crate) fn is_feed(file: &str) -> bool {
    file.ends_with(ENDING)
}

impl Default for Feed {
    fn default() -> Feed {
        let (pypi, npm) = (Popular::of(Registry::Pypi), Popular::of(Registry::Npm));
        Feed { codes: FxHashMap::default(), pypi, npm, entries: 0, bytes: 0, records: false }
    }
}

impl Feed {
    /// Adds the entries of a feed's file.
    ///
    /// # Errors
    /// [`FeedError`] for the first line that cannot be an entry, and for feeds that are too large.
    pub(crate) fn add(&mut self, text: &str) -> Result<(), FeedError> {
        self.bytes = self.bytes.saturating_add(text.len());
        if self.bytes > MAX_BYTES {
            let problem = format!("the feeds have more than {MAX_BYTES} bytes together");
            return Err(FeedError { line: 1, problem });
        }
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                self.entry(line).map_err(|problem| FeedError { line: at + 1, problem })?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, line: &str) -> Result<(), String> {
        let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        if let Some(registry) = Registry::named(first) {
            if rest.is_empty() {
                return Err(format!("there are no names of packages behind {first}"));
            }
            for name in rest.split_whitespace() {
                if !registry.is_name(name) {
                    return Err(format!("{:?} is not a name of a package of {first}", cut(name)));
                }
                self.count()?;
                let popular = match registry {
                    Registry::Pypi => &mut self.pypi,
                    Registry::Npm => &mut self.npm,
                };
                popular.add(name);
            }
            return Ok(());
        }
        let digest = hex::decode(first).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        let Some(digest) = digest else {
            return Err(format!(
                "{:?} is not a fingerprint, which is 64 hexadecimal digits, and not pypi or npm",
                cut(first)
            ));
        };
        if rest.is_empty() {
            return Err("there is no label behind the fingerprint".to_owned());
        }
        if rest.chars().count() > MAX_LABEL || rest.chars().any(char::is_control) {
            return Err(format!("the label has control characters or more than {MAX_LABEL} characters"));
        }
        self.count()?;
        self.codes.entry(digest).or_insert_with(|| rest.into());
        Ok(())
    }

    fn count(&mut self) -> Result<(), String> {
        self.entries += 1;
        if self.entries > MAX_ENTRIES {
            return Err(format!("the feeds have more than {MAX_ENTRIES} fingerprints and names together"));
        }
        Ok(())
    }

    /// Label of a fingerprint that is known to be bad.
    pub(crate) fn label(&self, fingerprint: &[u8; 32]) -> Option<&str> {
        self.codes.get(fingerprint).map(|label| &**label)
    }

    /// Popular packages of a registry.
    pub(crate) fn popular(&self, registry: Registry) -> &Popular {
        match registry {
            Registry::Pypi => &self.pypi,
            Registry::Npm => &self.npm,
        }
    }
}

/// Beginning of a text for a message.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(80)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_feeds() {
        let digest = "0123456789abcdef".repeat(4);
        let long = "x".repeat(101);
        for (text, want) in [
            ("", Ok(())),
            ("# a comment\n\n  \r\n", Ok(())),
            (&*format!("{digest}  a campaign, 2026 (ünïcode)\r\n{}\tb", digest.to_uppercase()), Ok(())),
            ("pypi requests numpy\nnpm  lodash\t@types/node", Ok(())),
            ("#\npypi", Err((2, "there are no names of packages behind pypi"))),
            ("pypi a b;c", Err((1, "\"b;c\" is not a name of a package of pypi"))),
            ("\n\nnpm @x", Err((3, "\"@x\" is not a name of a package of npm"))),
            (digest.as_str(), Err((1, "there is no label behind the fingerprint"))),
            (
                &*format!("{digest} {long}"),
                Err((1, "the label has control characters or more than 100 characters")),
            ),
            (
                &*format!("{digest} a\u{1b}[2J"),
                Err((1, "the label has control characters or more than 100 characters")),
            ),
            (
                "0123 short",
                Err((
                    1,
                    "\"0123\" is not a fingerprint, which is 64 hexadecimal digits, and not pypi or npm",
                )),
            ),
            (
                "pypi a\nid: rule",
                Err((2, "\"id:\" is not a fingerprint, which is 64 hexadecimal digits, and not pypi or npm")),
            ),
            (
                "cargo serde",
                Err((
                    1,
                    "\"cargo\" is not a fingerprint, which is 64 hexadecimal digits, and not pypi or npm",
                )),
            ),
        ] {
            let want = want.map_err(|(line, problem)| FeedError { line, problem: problem.to_owned() });
            assert_eq!(Feed::default().add(text), want, "{text:?}");
        }
    }

    #[test]
    fn entries_are_bounded_over_all_feeds() {
        let mut feed = Feed { entries: MAX_ENTRIES - 2, ..Feed::default() };
        assert_eq!(feed.add("npm a\nnpm b"), Ok(()));
        let problem = "the feeds have more than 500000 fingerprints and names together".to_owned();
        assert_eq!(feed.add("# x\nnpm c"), Err(FeedError { line: 2, problem }));
        let mut feed = Feed { bytes: MAX_BYTES - 6, ..Feed::default() };
        assert_eq!(feed.add("npm a\n"), Ok(()));
        let problem = "the feeds have more than 67108864 bytes together".to_owned();
        assert_eq!(feed.add("#"), Err(FeedError { line: 1, problem }));
    }

    #[test]
    fn entries_are_found() {
        let mut feed = Feed::default();
        assert_eq!(
            feed.add(&format!("{} first\n{0} second\npypi requests\nnpm lodash", "ab".repeat(32))),
            Ok(())
        );
        assert_eq!(feed.label(&[0xab; 32]), Some("first"));
        assert_eq!(feed.label(&[0xac; 32]), None);
        assert_eq!(
            feed.popular(Registry::Pypi).resembled("reqests"),
            Some(("requests", Likeness::OneLetter))
        );
        assert_eq!(feed.popular(Registry::Npm).resembled("reqests"), None);
    }
}
