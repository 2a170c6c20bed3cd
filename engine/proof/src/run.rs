//! Result of one run of an attack, as data that is passed from the arena to the harness.

use serde::{Deserialize, Serialize};

use crate::words::{Ending, Layer, Wall};

/// Exit code of a program that got through.
pub const THROUGH: i32 = 77;
/// Exit code of a program that was stopped as expected, or whose operation worked as it must.
pub const STOPPED: i32 = 0;
/// Exit code of a program that lacks a precondition.
pub const MISSING: i32 = 2;
/// Exit code of a program that found no such call in the kernel, or behind a filter.
pub const ABSENT: i32 = 38;

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
