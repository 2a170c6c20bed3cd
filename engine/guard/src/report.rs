//! Report of a scan: `hotcell.scan/1` of the contract.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::executed::Executed;

/// Value of the `schema` field.
pub const SCHEMA: &str = "hotcell.scan/1";

/// Verdict on an artifact, ordered by strictness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every part was read as what would execute it, or is certainly data, and there is no finding above a
    /// note.
    Allow,
    /// A person should review a finding, or a part that was not read and that nothing is known to execute.
    Review,
    /// Some part that could be executed was not read: a limit, a damaged archive, an unknown encoding.
    Incomplete,
    /// Plainly dangerous.
    Quarantine,
}

impl Verdict {
    /// Name in reports.
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

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// A capability of ordinary code; never changes a verdict.
    Note,
    /// Needs review.
    Warning,
    /// Plainly dangerous.
    Critical,
}

/// A place where a rule matched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Id of the rule.
    pub rule: String,
    /// Severity.
    pub severity: Severity,
    /// Capability or threat named by the rule, such as `process.shell`.
    pub capability: String,
    /// Path of the part.
    pub part: String,
    /// First line, from 1; 0 for the whole part.
    pub line: u32,
    /// Column in characters, from 1; 0 for the whole part.
    pub column: u32,
    /// Last line.
    pub end_line: u32,
    /// Weakness by its number in the Common Weakness Enumeration, such as `CWE-78`.
    pub cwe: Option<String>,
    /// Explanation for people.
    pub message: String,
    /// Transforms that the matched text went through, outermost first: `base64`, `zlib`, `shell` …
    pub derived_from: Vec<String>,
    /// Way of the value from its source to the matched call, where the rule asks about the source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<Frame>,
}

/// A step on the way of a value from its source to a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Frame {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// Kind of the step.
    pub step: StepKind,
    /// Name of the parameter, variable, attribute or function, at most 40 letters, digits, `_`, `.`, `(` and
    /// `)`; empty for the last step.
    pub name: String,
    /// Part that it is in, if not the finding's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
}

/// Kind of a step on the way of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// Comes from here: a parameter of a tool, an answer of a network, a file.
    Source,
    /// Is bound to a name.
    Bound,
    /// Is stored in an attribute of an object.
    Stored,
    /// Is passed to a parameter of a function.
    Passed,
    /// Is used by the matched call.
    Sink,
}

impl StepKind {
    /// Name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Bound => "bound",
            Self::Stored => "stored",
            Self::Passed => "passed",
            Self::Sink => "sink",
        }
    }
}

/// How a part was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PartState {
    /// Parsed as its language without errors.
    Parsed,
    /// Parsed as its language with errors.
    Recovered,
    /// Certainly data, by its contents: images, fonts, tables, prose. Nothing executes it.
    Inert,
    /// Seen only as bytes: it could be executed, and no parser of the guard reads it.
    BytesOnly,
    /// Not read, for this reason, although it may be executed. A gate refuses it.
    Skipped(String),
    /// Not read, for this reason; nothing that is known to run executes it. Needs review.
    SetAside(String),
}

/// Coverage of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Read as what would execute it.
    Read,
    /// Certainly data: nothing executes it.
    Data,
    /// Not read: an artifact with such a part never gets `allow`.
    NotRead,
}

impl PartState {
    /// Coverage of this part.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Parsed | Self::Recovered => Kind::Read,
            Self::Inert => Kind::Data,
            Self::BytesOnly | Self::Skipped(_) | Self::SetAside(_) => Kind::NotRead,
        }
    }

    /// Minimum strictness of a report with such a part.
    #[must_use]
    pub const fn least(&self) -> Verdict {
        match self {
            Self::Parsed | Self::Recovered | Self::Inert => Verdict::Allow,
            Self::SetAside(_) => Verdict::Review,
            Self::BytesOnly | Self::Skipped(_) => Verdict::Incomplete,
        }
    }
}

/// A file, or a piece of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// Path: `a.zip!lib/x.py`, `n.ipynb!cell-3`.
    pub path: String,
    /// Language that it was read as.
    pub language: String,
    /// How it was read.
    pub state: PartState,
}

impl Part {
    /// Why it was not read, for people; `None` when it was read, or is data.
    #[must_use]
    pub fn why_not_read(&self) -> Option<String> {
        match &self.state {
            PartState::Skipped(why) | PartState::SetAside(why) => Some(why.clone()),
            PartState::BytesOnly => Some(format!("{} is not read here", self.language)),
            PartState::Parsed | PartState::Recovered | PartState::Inert => None,
        }
    }
}

/// For serde, which passes references.
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Coverage of an artifact.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Coverage {
    /// Number of bytes read.
    pub bytes_seen: u64,
    /// Number of bytes in total.
    pub bytes_total: u64,
    /// Number of parts read as what would execute them.
    #[serde(default)]
    pub read: u64,
    /// Number of parts that are certainly data.
    #[serde(default)]
    pub data: u64,
    /// Number of parts not read.
    #[serde(default)]
    pub not_read: u64,
    /// Number of files and folders that the project's own `.gitignore` and `.ignore` left out; nothing is said about what is in them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ignored: u64,
    /// Parts.
    pub parts: Vec<Part>,
    /// Code outside the parts that they execute: files by name, standard input, arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub executes: Vec<Handed>,
    /// Values from the caller of a tool or a route that the parts pass to functions of files beyond the scanned one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passes: Vec<Pass>,
    /// Fingerprints of the parts' code, when they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fingerprints: Vec<Fingerprint>,
}

/// Fingerprint of a part's code in a language.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fingerprint {
    /// Path of the part.
    pub part: String,
    /// Language.
    pub language: String,
    /// sha256 of its tokens, in hexadecimal, without comments, white space, quotes of texts and own names.
    pub sha256: String,
}

/// Code outside a part that the part executes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Handed {
    /// Part that executes it.
    pub part: String,
    /// Where it comes from.
    pub source: HandedSource,
    /// How it is executed: `{"as": "python"}`, or `{"unread": "perl"}`.
    #[schemars(with = "serde_json::Value")]
    pub executed: Executed,
}

/// Which argument of a call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Argument {
    /// By its position, from 0, without the instance.
    Position(u32),
    /// By its name.
    Name(String),
}

/// A value from the caller of a tool or a route, or a secret, that a part passes to a function of another file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pass {
    /// Part that calls the function.
    pub part: String,
    /// The function, by the name that the part imports it by: `.helpers.run`.
    pub target: String,
    /// Argument.
    pub argument: Argument,
    /// Origins of the value, as bits.
    #[serde(default)]
    pub origin: u32,
    /// True within a tool that does not say that it sends anything.
    #[serde(default)]
    pub silent: bool,
    /// Way of the value up to the call.
    pub frames: Vec<Frame>,
}

/// Source of code that a part executes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HandedSource {
    /// A file, by the name used in the part; U+FFFC replaces unknown pieces, and `*`, `?` and `[…]` are shell
    /// patterns.
    File(String),
    /// A program by its path: its own contents tell its language.
    Program(String),
    /// A file by its name, read by make.
    Makefile(String),
    /// A file of git settings by its name: settings can contain commands.
    GitSettings(String),
    /// A file of variables that a program sets for itself.
    Variables(String),
    /// A folder that something is started in: relative file names may begin there.
    Folder(String),
    /// Possibly a file, given to a program unknown to the guard; `executed` names that program.
    Given(String),
    /// A text in the part, in a language that the guard does not read.
    Text,
    /// The program's standard input.
    Stdin,
    /// The program's arguments.
    Arguments,
    /// The program's arguments or its standard input: it is unknown which.
    Input,
}

impl Coverage {
    /// Coverage of these parts, without byte counts.
    #[must_use]
    pub fn of(parts: Vec<Part>) -> Self {
        let mut coverage = Self { parts, ..Self::default() };
        coverage.count();
        coverage
    }

    /// Recounts the parts after a change.
    pub fn count(&mut self) {
        let of = |kind| self.parts.iter().filter(|part| part.state.kind() == kind).count() as u64;
        (self.read, self.data, self.not_read) = (of(Kind::Read), of(Kind::Data), of(Kind::NotRead));
    }
}

/// Identity of a scanned artifact.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Identity {
    /// sha256 of the bytes, in hexadecimal; for a folder, over its files' names and digests in order.
    pub sha256: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Names that it was submitted under.
    pub names: Vec<String>,
}

/// Where an artifact is held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Held {
    /// Id in the quarantine.
    pub id: String,
    /// `held`, `under_review`, `released`, `rejected` or `purged`.
    pub state: String,
}

/// Report of a scan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Always `hotcell.scan/1`.
    pub schema: String,
    /// Scanned artifact.
    pub artifact: Identity,
    /// Verdict.
    pub verdict: Verdict,
    /// Coverage.
    pub coverage: Coverage,
    /// Findings, by place.
    pub findings: Vec<Finding>,
    /// Where it is held, if it is. The library leaves this empty.
    pub quarantine: Option<Held>,
}

/// True when a finding of this severity changes a verdict.
pub(crate) fn counts(severity: Severity) -> bool {
    severity > Severity::Note
}
