//! Words that the rows, the runs and the verdicts share.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use hotcell_sandbox::Layer;

/// Something that should stop an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wall {
    /// A layer that a policy can switch off.
    Layer(Layer),
    /// The bare kernel refuses an ordinary user, whatever stands around the program.
    Kernel,
    /// The supervisor: sampled limits, the wall clock, the sweep of descriptors, what it hands over and what not.
    Supervisor,
    /// The launcher: it sits in an empty network namespace, cannot be dumped, runs from a sealed memory file, and has ceilings of its own
    /// for what all its sandboxes come to.
    Launcher,
}

impl fmt::Display for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Layer(layer) => f.write_str(layer.name()),
            Self::Kernel => f.write_str("kernel"),
            Self::Supervisor => f.write_str("supervisor"),
            Self::Launcher => f.write_str("launcher"),
        }
    }
}

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
