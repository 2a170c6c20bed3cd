//! Conditions on receipts in a file (TOML), for `hotcell receipt verify --policy FILE`: what an operator requires before something is released.
//!
//! Each table that the file has names a kind of receipt that is required; a receipt of another kind is not good.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use hotcell_sandbox::Layer;
use hotcell_sandbox::profile::{FileError, Key, parse_strict};
use hotcell_sandbox::units::parse_duration;
use serde::{Deserialize, Deserializer};

use crate::check::Conditions;
use crate::{agent, run, scan, test_result};

/// Time by which the clock of the machine that signed may be ahead.
const MAX_AHEAD: Duration = Duration::from_secs(300);
/// Kinds of receipts: their tables, and their types.
pub const KINDS: [(&str, &str); 4] = [
    ("test_result", test_result::PREDICATE_TYPE),
    ("run", run::PREDICATE_TYPE),
    ("svr", scan::PREDICATE_TYPE),
    ("agent_session", agent::PREDICATE_TYPE),
];
/// Algorithms of subjects, with the number of their hexadecimal digits.
pub const ALGORITHMS: [(&str, usize); 4] =
    [("sha256", 64), ("dirHash", 64), (crate::git::ALGORITHM, 40), ("gitCommit", 40)];

/// A policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    keys: BTreeSet<String>,
    max_age: Option<Duration>,
    /// Conditions by the type of the predicate.
    kinds: BTreeMap<&'static str, Kind>,
}

/// Raw form of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    keys: BTreeSet<String>,
    #[serde(deserialize_with = "time")]
    max_age: Option<Duration>,
    test_result: Option<Kind>,
    run: Option<Kind>,
    svr: Option<Kind>,
    agent_session: Option<Kind>,
}

/// Conditions on receipts of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table of conditions")]
struct Kind {
    result: Wanted,
    layers: BTreeSet<Layer>,
    images: BTreeSet<String>,
    subjects: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
enum Wanted {
    #[default]
    #[serde(rename = "PASSED")]
    Passed,
    #[serde(rename = "any")]
    Any,
}

const WITHIN: &[Key] =
    &[Key::value("result"), Key::value("layers"), Key::value("images"), Key::value("subjects")];
const KEYS: &[Key] = &[
    Key::value("keys"),
    Key::value("max_age"),
    Key::table("test_result", WITHIN),
    Key::table("run", WITHIN),
    Key::table("svr", WITHIN),
    Key::table("agent_session", WITHIN),
];

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    parse_duration(&String::deserialize(from)?).map(Some).map_err(serde::de::Error::custom)
}

impl Policy {
    /// Parses a file's text.
    ///
    /// # Errors
    /// [`FileError`] with the line and the nearest key.
    pub fn parse(text: &str, file: &Path) -> Result<Self, FileError> {
        let written: Written = parse_strict(text, file, KEYS)?;
        let wrong = |key: &str, why: String| FileError::of_key(file, key, why).found_in(text);
        if let Some(id) = written.keys.iter().find(|id| !is_hex(id, 64)) {
            let why = format!("{id:?} is not the identifier of a key, 64 hexadecimal digits");
            return Err(wrong("keys", why));
        }
        let mut kinds = BTreeMap::new();
        let given = [written.test_result, written.run, written.svr, written.agent_session];
        for ((table, uri), kind) in KINDS.into_iter().zip(given) {
            let Some(kind) = kind else { continue };
            if let Some(image) = kind.images.iter().find(|image| image_digest(image).is_none()) {
                let why = format!("{image:?} is not sha256: with 64 hexadecimal digits");
                return Err(wrong(&format!("{table}.images"), why));
            }
            for subject in &kind.subjects {
                digest(subject).map_err(|why| wrong(&format!("{table}.subjects"), why))?;
            }
            let is_run = [run::PREDICATE_TYPE, test_result::PREDICATE_TYPE].contains(&uri);
            let wants_run = !kind.layers.is_empty() || !kind.images.is_empty();
            if wants_run && !is_run {
                let why =
                    format!("{table} is not about one run: its receipt states neither layers nor an image");
                return Err(wrong(table, why));
            }
            kinds.insert(uri, kind);
        }
        if kinds.is_empty() {
            let names: Vec<_> = KINDS.iter().map(|(table, _)| format!("[{table}]")).collect();
            let why = format!("requires no receipt; it needs one of the tables {}", names.join(", "));
            return Err(FileError::of_file(file, why));
        }
        let keys = written.keys.into_iter().map(|id| id.to_ascii_lowercase()).collect();
        Ok(Self { keys, max_age: written.max_age, kinds })
    }

    /// Conditions on a receipt of this type at this time, in microseconds since 1970; `None` for a type that the policy does not name.
    #[must_use]
    pub fn conditions(&self, predicate_type: &str, now_us: i64) -> Option<Conditions> {
        let (uri, kind) = self.kinds.get_key_value(predicate_type)?;
        let mut conditions = Conditions {
            passed: kind.result == Wanted::Passed,
            predicate_type: Some((*uri).to_owned()),
            layers: kind.layers.clone(),
            images: kind.images.iter().map(|image| image.to_ascii_lowercase()).collect(),
            keys: self.keys.clone(),
            ..Conditions::default()
        };
        conditions.subject.extend(kind.subjects.iter().filter_map(|subject| digest(subject).ok()));
        if let Some(age) = self.max_age {
            conditions.within(age, now_us);
        }
        Some(conditions)
    }

    /// Names of the required kinds of which these types have none.
    #[must_use]
    pub fn missing(&self, good: &[&str]) -> Vec<&'static str> {
        let kinds = KINDS.iter().filter(|(_, uri)| self.kinds.contains_key(uri) && !good.contains(uri));
        kinds.map(|(table, _)| *table).collect()
    }
}

impl Conditions {
    /// Requires a statement of at most this age, that is not from the future.
    pub fn within(&mut self, age: Duration, now_us: i64) {
        let us = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        self.not_before_us = Some(now_us.saturating_sub(us(age)));
        self.not_after_us = Some(now_us.saturating_add(us(MAX_AHEAD)));
    }
}

/// Parses a subject, `ALGORITHM:DIGITS`.
///
/// # Errors
/// A sentence with the known algorithms.
pub fn digest(text: &str) -> Result<(String, String), String> {
    let names: Vec<_> = ALGORITHMS.iter().map(|(name, _)| format!("{name}:…")).collect();
    let (name, digits) = text.split_once(':').unwrap_or((text, ""));
    match ALGORITHMS.iter().find(|(known, _)| *known == name) {
        None => Err(format!("is not {} ({name:?} is unknown)", names.join(", "))),
        Some((_, length)) if !is_hex(digits, *length) => {
            Err(format!("is not {name}: with {length} hexadecimal digits"))
        }
        Some(_) => Ok((name.to_owned(), digits.to_owned())),
    }
}

fn image_digest(text: &str) -> Option<&str> {
    text.strip_prefix("sha256:").filter(|digits| is_hex(digits, 64))
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const TREE: &str = "0356fbafe9f8756119886475bc524ec25cd932ef";

    fn parsed(text: &str) -> Result<Policy, String> {
        Policy::parse(text, Path::new("release.toml")).map_err(|e| e.to_string())
    }

    #[test]
    fn policy_is_conditions_by_kind() {
        let text = format!(
            "keys = [\"{}\"]\nmax_age = \"7d\"\n[test_result]\nlayers = [\"landlock\", \"seccomp\"]\nimages = [\"sha256:{KEY}\"]\n\
             subjects = [\"gitTree:{TREE}\"]\n[run]\nresult = \"any\"\n",
            KEY.to_uppercase()
        );
        let policy = parsed(&text).unwrap();
        let tests = policy.conditions(test_result::PREDICATE_TYPE, 1_000_000_000_000).unwrap();
        let want = Conditions {
            passed: true,
            subject: BTreeMap::from([("gitTree".to_owned(), TREE.to_owned())]),
            predicate_type: Some(test_result::PREDICATE_TYPE.to_owned()),
            layers: [Layer::Landlock, Layer::Seccomp].into(),
            images: [format!("sha256:{KEY}")].into(),
            keys: [KEY.to_owned()].into(),
            not_before_us: Some(1_000_000_000_000 - 7 * 86_400 * 1_000_000),
            not_after_us: Some(1_000_000_000_000 + 300_000_000),
        };
        assert_eq!(tests, want);
        assert!(!policy.conditions(run::PREDICATE_TYPE, 0).unwrap().passed);
        assert_eq!(policy.conditions(scan::PREDICATE_TYPE, 0), None);
        assert_eq!(policy.conditions("https://example.org/x", 0), None);
        assert_eq!(policy.missing(&[run::PREDICATE_TYPE]), ["test_result"]);
        let session = parsed("[agent_session]\n").unwrap();
        assert!(session.conditions(agent::PREDICATE_TYPE, 0).unwrap().passed);
        assert_eq!(session.missing(&[run::PREDICATE_TYPE]), ["agent_session"]);
        assert!(policy.missing(&[run::PREDICATE_TYPE, test_result::PREDICATE_TYPE]).is_empty());
    }

    #[test]
    fn wrong_policies_say_what_is_wrong() {
        for (text, word) in [
            ("", "requires no receipt"),
            ("max_age = \"7d\"", "[test_result]"),
            ("[tests]", "unknown key"),
            ("[run]\nlayer = []", "layers"),
            ("[run]\nlayers = [\"landlok\"]", "landlock"),
            ("[run]\nresult = \"FAILED\"", "any"),
            ("[run]\nimages = [\"python:3.12\"]", "sha256:"),
            ("[run]\nsubjects = [\"gitTree:12\"]", "40 hexadecimal"),
            ("[run]\nsubjects = [\"md5:12\"]", "dirHash"),
            ("[svr]\nlayers = [\"seccomp\"]", "neither layers"),
            ("[agent_session]\nlayers = [\"seccomp\"]", "neither layers"),
            ("keys = [\"ci\"]\n[run]", "64 hexadecimal"),
            ("max_age = 7\n[run]", "string"),
            ("max_age = \"soon\"\n[run]", "soon"),
            ("run", "release.toml"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(word) && error.contains("release.toml"), "{text}: {error}");
        }
    }
}
