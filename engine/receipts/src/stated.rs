//! Result that a receipt states.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Result that a receipt states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Stated {
    /// Everything passed, and nothing contradicts it.
    Passed,
    /// Anything else.
    Failed,
}
