//! What a scan answers: `hotcell.scan/1` of the contract.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The schema's name.
pub const SCHEMA: &str = "hotcell.scan/1";

/// What may be done with an artifact. Ordered by how much a gate refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every part was read and nothing above a note was found.
    Allow,
    /// Something a person should look at.
    Review,
    /// Not everything that could be executed was read: a limit, a damaged archive, an unknown encoding.
    Incomplete,
    /// Dangerous on the face of it.
    Quarantine,
}

impl Verdict {
    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Review => "review",
            Self::Incomplete => "incomplete",
            Self::Quarantine => "quarantine",
        }
    }
}

/// How much a finding says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// A capability that ordinary code has; never changes a verdict.
    Note,
    /// Asks for a person's look.
    Warning,
    /// Dangerous on the face of it.
    Critical,
}

/// A place where a rule matched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The rule's id.
    pub rule: String,
    /// How much it says.
    pub severity: Severity,
    /// The capability or threat that the rule names, `process.shell` for example.
    pub capability: String,
    /// Path of the part.
    pub part: String,
    /// First line, from 1; 0 for the part as a whole.
    pub line: u32,
    /// Column in characters, from 1; 0 for the part as a whole.
    pub column: u32,
    /// Last line.
    pub end_line: u32,
    /// The weakness by its number in the Common Weakness Enumeration, `CWE-78` for example.
    pub cwe: Option<String>,
    /// What it means, for a person.
    pub message: String,
    /// Transforms that the matched text went through, outermost place first: `base64`, `zlib`, `shell` …
    pub derived_from: Vec<String>,
}

/// How a part was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PartState {
    /// As its language, without an error.
    Parsed,
    /// As its language, around errors.
    Recovered,
    /// Data that nothing executes, by content: images, fonts, tables, prose.
    Inert,
    /// As bytes only: something that could be executed, and that no parser here reads.
    BytesOnly,
    /// Not read; why.
    Skipped(String),
}

/// A file, or a piece of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// Where it is: `a.zip!lib/x.py`, `n.ipynb!cell-3`.
    pub path: String,
    /// The language that it was read as.
    pub language: String,
    /// How.
    pub state: PartState,
}

/// How much of the artifact was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Coverage {
    /// Bytes that were read.
    pub bytes_seen: u64,
    /// Bytes that there are.
    pub bytes_total: u64,
    /// Every part.
    pub parts: Vec<Part>,
}

/// What was scanned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Identity {
    /// sha256 of the bytes, in hexadecimal; of a folder: over its files' names and digests in order.
    pub sha256: String,
    /// Size.
    pub bytes: u64,
    /// The names that it was submitted under.
    pub names: Vec<String>,
}

/// Where it is held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Held {
    /// The quarantine's id.
    pub id: String,
    /// `held`, `under_review`, `released`, `rejected` or `purged`.
    pub state: String,
}

/// The answer of a scan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Always `hotcell.scan/1`.
    pub schema: String,
    /// What was scanned.
    pub artifact: Identity,
    /// What may be done with it.
    pub verdict: Verdict,
    /// How much was read.
    pub coverage: Coverage,
    /// What was found, by place.
    pub findings: Vec<Finding>,
    /// Where it is held, when it is. The library leaves this empty.
    pub quarantine: Option<Held>,
}
