//! One test and what it came to, as any framework's report says it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most cases that are read of one run.
pub const MOST_CASES: usize = 200_000;
/// Kept of a message, bytes.
pub const MESSAGE: usize = 4 << 10;
/// Kept of details, standard output and standard error each, bytes.
pub const DETAILS: usize = 64 << 10;
/// Kept of an id, a name or a file, bytes.
pub const NAME: usize = 8 << 10;
/// Kept of all texts of one report together, bytes.
pub const ALL_TEXT: usize = 40 << 20;

/// What a test came to, from good to bad: where two sources differ, the greater one is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It did what it should.
    Passed,
    /// It was left out, or failed as expected.
    Skipped,
    /// It started, and nobody saw its end.
    NotFinished,
    /// It found something wrong.
    Failed,
    /// It could not be run: its file, its set-up or its tear-down is broken.
    Errored,
}

impl Status {
    /// Whether a run with such a case may have passed.
    #[must_use]
    pub const fn is_good(self) -> bool {
        matches!(self, Self::Passed | Self::Skipped)
    }

    /// The word in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Skipped => "skipped",
            Self::NotFinished => "not_finished",
            Self::Failed => "failed",
            Self::Errored => "errored",
        }
    }
}

/// One test of a report. Texts are as the program wrote them, cut to size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Case {
    /// What the framework calls it, and what `--filter` finds again.
    pub id: String,
    /// Its file, relative to the project: where it went wrong, else where it begins.
    pub file: Option<String>,
    /// Line in that file, from 1.
    pub line: Option<u32>,
    /// The last part of its id.
    pub name: String,
    /// What it came to.
    pub status: Status,
    /// How long it took with set-up and tear-down, milliseconds.
    pub duration_ms: u64,
    /// One line or a few: what was wrong, or why it was skipped.
    pub message: Option<String>,
    /// The traceback or diff, head and tail.
    pub details: Option<String>,
    /// What it wrote to standard output, where the framework keeps that.
    pub stdout: Option<String>,
    /// What it wrote to standard error, where the framework keeps that.
    pub stderr: Option<String>,
    /// The text of `line` in the project, for a case that is not good.
    pub source: Option<String>,
}

/// One entry of a final report, before it is compared with anything.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// As in [`Case::id`].
    pub id: String,
    /// What the report says.
    pub status: Status,
    /// Milliseconds.
    pub duration_ms: f64,
    /// As in [`Case::file`].
    pub file: Option<String>,
    /// As in [`Case::line`].
    pub line: Option<u32>,
    /// As in [`Case::message`].
    pub message: Option<String>,
    /// As in [`Case::details`].
    pub details: Option<String>,
    /// As in [`Case::stdout`].
    pub stdout: Option<String>,
    /// As in [`Case::stderr`].
    pub stderr: Option<String>,
}

impl Entry {
    /// A status and nothing more.
    #[must_use]
    pub fn bare(id: &str, status: Status, duration_ms: f64) -> Self {
        Self {
            id: id.to_owned(),
            status,
            duration_ms,
            file: None,
            line: None,
            message: None,
            details: None,
            stdout: None,
            stderr: None,
        }
    }
}

/// A final report that was read to its end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FinalReport {
    /// Its entries, in its order; the same id may come twice.
    pub entries: Vec<Entry>,
}

/// Why there is no final report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// It was not written.
    #[error("the report is missing")]
    Missing,
    /// Something else lies in its place, or it is too large.
    #[error("the report cannot be taken: {0}")]
    Unreadable(String),
    /// Its bytes are not a whole report.
    #[error("the report is broken: {0}")]
    Broken(String),
}
