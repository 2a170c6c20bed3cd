//! A specification from which code is made: the request with it, the languages, and the plan.

pub mod inputs;
pub mod language;
pub mod plan;
pub mod stub;

use serde::{Deserialize, Serialize};

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
}
