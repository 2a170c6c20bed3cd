//! In-toto statements, version 1: subjects by their digests, and a predicate about them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest;

/// Value of `_type`.
pub const TYPE: &str = "https://in-toto.io/Statement/v1";

/// Name of the subject of a result's receipt that is the action, with its inputs.
pub const ACTION: &str = "action";
/// Name of the subject of a result's receipt that is what the action printed and wrote.
pub const OUTPUTS: &str = "outputs";

/// A statement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Statement {
    /// Always `https://in-toto.io/Statement/v1`.
    #[serde(rename = "_type")]
    pub kind: String,
    /// The subjects, at least one.
    pub subject: Vec<Subject>,
    /// Type of the predicate, a URI.
    #[serde(rename = "predicateType")]
    pub predicate_type: String,
    /// The predicate.
    pub predicate: serde_json::Value,
}

/// A subject, or another resource, by its digests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Subject {
    /// Name, for people; verification does not use it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Hexadecimal digests by algorithm: `sha256`, or `dirHash` for a folder.
    pub digest: BTreeMap<String, String>,
}

impl Statement {
    /// A statement with these parts.
    #[must_use]
    pub fn new(subject: Vec<Subject>, predicate_type: &str, predicate: serde_json::Value) -> Self {
        Self { kind: TYPE.to_owned(), subject, predicate_type: predicate_type.to_owned(), predicate }
    }

    /// Digest of what the statement is about, however it came out: subjects, command, policy, image. A repetition is about the same. The outputs of an
    /// action count for nothing here.
    #[must_use]
    pub fn about(&self) -> String {
        // A folder of the name is a subject as any other.
        let of_action = self.subject.iter().any(|subject| subject.name == ACTION);
        let is_input = |subject: &&Subject| !of_action || subject.name != OUTPUTS;
        let subjects: Vec<_> = self.subject.iter().filter(is_input).map(|subject| &subject.digest).collect();
        let of_run = ["command_sha256", "policy_sha256", "image_digest"].map(|key| &self.predicate[key]);
        let of_tests = [&self.predicate["configuration"], &self.predicate["hotcell"]["image_digest"]];
        let all = serde_json::json!([self.predicate_type, subjects, of_run, of_tests]);
        digest::sha256(all.to_string().as_bytes())
    }
}

impl Subject {
    /// A subject with the SHA-256 digest of these bytes.
    #[must_use]
    pub fn sha256(name: &str, bytes: &[u8]) -> Self {
        Self::with(name, "sha256", digest::sha256(bytes))
    }

    /// A subject with one digest, as hexadecimal digits.
    #[must_use]
    pub fn with(name: &str, algorithm: &str, digest: String) -> Self {
        Self { name: name.to_owned(), digest: BTreeMap::from([(algorithm.to_owned(), digest)]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_action_with_other_outputs_is_about_the_same() {
        let about = |subjects: &[(&str, &str)]| {
            let subjects = subjects.iter().map(|(name, text)| Subject::sha256(name, text.as_bytes()));
            Statement::new(subjects.collect(), "t", serde_json::json!({})).about()
        };
        let first = about(&[(ACTION, "a"), (OUTPUTS, "1")]);
        for (subjects, same) in [
            ([(ACTION, "a"), (OUTPUTS, "2")], true),
            ([(OUTPUTS, "2"), (ACTION, "a")], true),
            ([(ACTION, "b"), (OUTPUTS, "1")], false),
            ([(ACTION, "a"), ("other", "1")], false),
        ] {
            assert_eq!(about(&subjects) == first, same, "{subjects:?}");
        }
        // A folder that has this name.
        assert_ne!(about(&[(OUTPUTS, "1")]), about(&[(OUTPUTS, "2")]));
    }
}
