//! A test and its result, as reported by any framework.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of cases read of one run.
pub const MAX_CASES: usize = 200_000;
/// Maximum size of a message, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 4 << 10;
/// Maximum size of details, standard output and standard error each, in bytes.
pub const MAX_DETAIL_BYTES: usize = 64 << 10;
/// Maximum size of an id, a name or a file, in bytes.
pub const MAX_NAME_BYTES: usize = 8 << 10;
/// Maximum size of all texts of one report together, in bytes.
pub const MAX_TEXT_BYTES: usize = 40 << 20;

/// Result of a test, from good to bad: where two sources differ, the greater one is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Passed.
    Passed,
    /// Skipped, or failed as expected.
    Skipped,
    /// Started, but its end was not observed.
    NotFinished,
    /// Failed.
    Failed,
    /// Could not be run: its file, its set-up or its tear-down is broken.
    Errored,
}

impl Status {
    /// Whether a run can pass with a case of this status.
    #[must_use]
    pub const fn is_good(self) -> bool {
        matches!(self, Self::Passed | Self::Skipped)
    }

    /// Name in reports.
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

/// One test of a report. Texts are as the program wrote them, but shortened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Case {
    /// The framework's id, which `--filter` accepts.
    pub id: String,
    /// File, relative to the project: of the failure, else of the test.
    pub file: Option<String>,
    /// Line in that file, from 1.
    pub line: Option<u32>,
    /// Last part of the id.
    pub name: String,
    /// Result.
    pub status: Status,
    /// Duration including set-up and tear-down, in milliseconds.
    pub duration_ms: u64,
    /// Failure or reason for skipping, in one line or a few.
    pub message: Option<String>,
    /// Traceback or diff, head and tail.
    pub details: Option<String>,
    /// Standard output, if the framework records it.
    pub stdout: Option<String>,
    /// Standard error, if the framework records it.
    pub stderr: Option<String>,
    /// Text of `line` in the project, for a case that is not good.
    pub source: Option<String>,
    /// All attempts of a rerun test, the first one first. The case's status is then the best of theirs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
}

#[cfg(test)]
impl Case {
    /// Test of 1 ms with this id as its name, without a file and without texts.
    pub(crate) fn bare(id: &str, status: Status) -> Self {
        let (id, name) = (id.to_owned(), id.to_owned());
        Self {
            id,
            file: None,
            line: None,
            name,
            status,
            duration_ms: 1,
            message: None,
            details: None,
            stdout: None,
            stderr: None,
            source: None,
            attempts: Vec::new(),
        }
    }
}

/// One attempt of a rerun test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attempt {
    /// Result.
    pub status: Status,
    /// See [`Case::duration_ms`].
    pub duration_ms: u64,
    /// See [`Case::message`].
    pub message: Option<String>,
    /// See [`Case::details`].
    pub details: Option<String>,
}

impl Attempt {
    /// Converts a case of one run.
    #[must_use]
    pub fn of(case: &Case) -> Self {
        let Case { status, duration_ms, message, details, .. } = case.clone();
        Self { status, duration_ms, message, details }
    }
}

/// One entry of a final report, before any comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// See [`Case::id`].
    pub id: String,
    /// Result according to the report.
    pub status: Status,
    /// Duration in milliseconds.
    pub duration_ms: f64,
    /// See [`Case::file`].
    pub file: Option<String>,
    /// See [`Case::line`].
    pub line: Option<u32>,
    /// See [`Case::message`].
    pub message: Option<String>,
    /// See [`Case::details`].
    pub details: Option<String>,
    /// See [`Case::stdout`].
    pub stdout: Option<String>,
    /// See [`Case::stderr`].
    pub stderr: Option<String>,
}

impl Entry {
    /// An entry with only a status and a duration.
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

/// A completely read final report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FinalReport {
    /// Entries, in its order; an id may occur several times.
    pub entries: Vec<Entry>,
}

/// Why there is no final report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// The report was not written.
    #[error("the report is missing")]
    Missing,
    /// Another kind of file is in its place, or it is too large.
    #[error("the report cannot be taken: {0}")]
    Unreadable(String),
    /// The contents are not a complete report.
    #[error("the report is broken: {0}")]
    Broken(String),
}
