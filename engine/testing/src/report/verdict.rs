//! Verdict on a run of tests.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Verdict on a run of tests, from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All tests are good, and all witnesses agree.
    Passed,
    /// Some tests are not good.
    Failed,
    /// There is no valid result: no tests, or a report that is missing or contradicted.
    Unusable,
    /// A limit ended the run; results observed until then are kept.
    Limit,
    /// The guard quarantined the project; nothing ran.
    Quarantined,
    /// The framework or the interpreter is not installed.
    NotInstalled,
    /// The policy could not be met, or hotcell itself failed.
    Refused,
    /// The run was cancelled.
    Interrupted,
}

impl Verdict {
    /// Short text for reports in other formats.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Unusable => "no result",
            Self::Limit => "stopped by a limit",
            Self::Quarantined => "quarantined: nothing was run",
            Self::NotInstalled => "not installed: nothing was run",
            Self::Refused => "refused: nothing was run",
            Self::Interrupted => "interrupted",
        }
    }

    /// Exit status of `hotcell test`.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Passed => 0,
            Self::Failed => 1,
            Self::Unusable => 2,
            Self::Quarantined => 3,
            Self::Limit => 124,
            Self::NotInstalled | Self::Refused => 125,
            Self::Interrupted => 130,
        }
    }
}
