//! Changes of a run in its workspace, and what became of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One change in a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// Path below the workspace.
    pub path: String,
    /// Kind of change.
    pub kind: ChangeKind,
    /// Size of the file now.
    pub bytes: u64,
    /// Properties that a person should look at; mostly empty.
    #[serde(default)]
    pub marks: Vec<Mark>,
}

/// A property of a change that a person should look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// New and hidden, or below something hidden.
    Hidden,
    /// An executable file that was not executable before.
    Executable,
    /// A link that is new or has a new target.
    Link,
    /// Permission bits differ from before.
    Mode,
}

impl Mark {
    /// The name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hidden => "hidden",
            Self::Executable => "executable",
            Self::Link => "link",
            Self::Mode => "mode",
        }
    }
}

/// A path that a person should look at, with the reasons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Marked {
    /// Path below the workspace.
    pub path: String,
    /// Properties to look at.
    pub marks: Vec<Mark>,
}

/// The kinds of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// New.
    Added,
    /// Contents or mode changed.
    Modified,
    /// Removed.
    Deleted,
    /// The type of the entry changed, such as a file that became a folder.
    TypeChanged,
}

/// Result of taking changes over into the original of a workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Commit {
    /// Number of paths taken over.
    pub done: u64,
    /// Paths left out, with reasons; git's own state is one row for each repository.
    pub left: Vec<LeftOut>,
    /// The first 10,000 of the taken-over paths that a person should look at.
    #[serde(default)]
    pub marked: Vec<Marked>,
    /// Reason why nothing, or not everything, was taken over; `null` on success.
    pub error: Option<String>,
    /// Paths that were changed elsewhere since the program saw them.
    pub conflicts: Vec<String>,
}

/// A change that was not taken over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// Path below the workspace.
    pub path: String,
    /// Reason.
    pub why: String,
}
