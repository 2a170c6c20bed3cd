//! Files of a run that were asked for and copied out of its sandbox.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::changes::LeftOut;

/// Files of a run that were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Outputs {
    /// Files that were copied out.
    pub files: Vec<OutputFile>,
    /// Files and patterns that were not, with reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<LeftOut>,
}

/// A file that was copied out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputFile {
    /// Path below the folder that the program started in, or below its home folder.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Path of the copy on the host; absent where the service keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}
