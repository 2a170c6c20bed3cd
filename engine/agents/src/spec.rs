//! A specification from which code is made: the request with it, the languages, and the plan.

pub mod go_version;
pub mod inputs;
pub mod language;
pub mod plan;
pub mod stub;

use serde::{Deserialize, Serialize};

pub use go_version::GoVersion;
pub use language::Language;
pub use plan::Plan;

/// Request of a session that makes code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Making {
    /// Language.
    pub language: Language,
    /// Specification.
    pub spec: String,
    /// Given plan in its format, in place of an architect's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Given tests with their texts, in place of a tester's; empty for none.
    pub tests: Vec<(String, String)>,
    /// Ends after the plan.
    pub plan_only: bool,
    /// New or empty folder for the accepted result.
    pub out: Option<String>,
    /// Version of Go in the settings; `None` in other languages, and in sessions that began before it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub go: Option<GoVersion>,
}

impl Making {
    /// Rules of the language, for every role.
    #[must_use]
    pub fn rules(&self) -> String {
        self.language.rules(self.go.unwrap_or_default())
    }

    /// Settings as files of a project that has files of these paths.
    #[must_use]
    pub fn setting_files<'a>(&self, paths: impl IntoIterator<Item = &'a str>) -> Vec<(String, String)> {
        self.language.setting_files(paths, self.go.unwrap_or_default())
    }
}
