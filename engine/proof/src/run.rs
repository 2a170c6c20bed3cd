//! Result of one run of an attack, as data that is passed from the arena to the harness.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::table::{Layer, Wall};

/// Exit code of a program that got through.
pub const THROUGH: i32 = 77;
/// Exit code of a program that was stopped as expected, or whose operation worked as it must.
pub const STOPPED: i32 = 0;
/// Exit code of a program that lacks a precondition.
pub const MISSING: i32 = 2;
/// Exit code of a program that found no such call in the kernel, or behind a filter.
pub const ABSENT: i32 = 38;

/// User who starts the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum User {
    /// Root of the arena's user namespace, an unused id outside of it.
    Root,
    /// An ordinary user of the arena.
    User,
}

impl User {
    /// Both users.
    pub const ALL: [Self; 2] = [Self::Root, Self::User];

    /// The name of the user in a test's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::User => "user",
        }
    }
}

/// Confinement of a program in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// The arena only; the sandbox engine is not involved.
    Bare,
    /// The sandbox with its default layers.
    AllOn,
    /// The weaker sandbox without namespaces, with everything else on.
    LandlockOnly,
    /// The sandbox without this defence.
    Without(Wall),
    /// The sandbox without any of the row's defences that can be switched off.
    AllOut,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The program exited with this code.
    Exited(i32),
    /// The program was ended by this signal.
    Signaled(String),
    /// A limit ended the program; the name of the cause in the outcome, such as `memory_limit`.
    Limit(String),
    /// The engine refused to run it like this; with the reason.
    Refused(String),
    /// Another ending, such as a failure of the harness.
    Other(String),
}

/// One run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Confinement of the program.
    pub setting: Setting,
    /// How the run ended.
    pub ending: Ending,
    /// Whether a process that the program left behind was alive afterwards.
    pub survivor: bool,
    /// Layers that the outcome reports as in force.
    #[serde(default)]
    pub in_force: Vec<Layer>,
    /// Message of the program, or the engine's reason.
    pub note: String,
    /// Wall-clock duration in milliseconds, measured by the harness.
    pub milliseconds: u64,
}
