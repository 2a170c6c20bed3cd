//! In-toto statements, version 1: subjects by their digests, and a predicate about them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest;

/// Value of `_type`.
pub const TYPE: &str = "https://in-toto.io/Statement/v1";

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

    /// Digest of what the statement is about, however it came out: subjects, command, policy, image. A repetition is about the same.
    #[must_use]
    pub fn about(&self) -> String {
        let subjects: Vec<_> = self.subject.iter().map(|subject| &subject.digest).collect();
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
