//! What one run of one attack came to, as data that crosses from the arena to the harness.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::table::{Layer, Wall};

/// The exit code by which a program says that it got through.
pub const THROUGH: i32 = 77;
/// The exit code by which a program says that it was stopped as expected, or that what must work works.
pub const STOPPED: i32 = 0;
/// The exit code by which a program says that a precondition is missing.
pub const MISSING: i32 = 2;
/// The exit code by which a program says that the kernel, or a filter, knows no such call.
pub const ABSENT: i32 = 38;

/// Who starts the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum User {
    /// Root of the arena's user namespace, which is nobody outside of it.
    Root,
    /// An ordinary user of the arena.
    User,
}

impl User {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Root, Self::User];

    /// The name in a test's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::User => "user",
        }
    }
}

/// What stood around a program in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// Nothing but the arena; the sandbox engine is not involved.
    Bare,
    /// The sandbox as everybody gets it.
    AllOn,
    /// The weaker sandbox without namespaces, everything else on.
    LandlockOnly,
    /// The sandbox without this wall.
    Without(Wall),
    /// The sandbox without any of the row's walls that can be switched off.
    AllOut,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The program ended by itself with this code.
    Exited(i32),
    /// A signal ended it.
    Signaled(String),
    /// A limit ended it; the name of the cause in the outcome, such as `memory_limit`.
    Limit(String),
    /// The engine would not run it like this.
    Refused(String),
    /// Something else, such as a failure of the harness.
    Other(String),
}

/// One run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// What stood around it.
    pub setting: Setting,
    /// How it ended.
    pub ending: Ending,
    /// Whether a process that it left behind was alive afterwards.
    pub survivor: bool,
    /// The layers that the outcome says were in force.
    #[serde(default)]
    pub in_force: Vec<Layer>,
    /// The program's own line, or the engine's reason.
    pub note: String,
    /// Wall clock in milliseconds, as the harness saw it.
    pub milliseconds: u64,
}
