//! Errors of loading a component and of calling a tool.

pub use hotcell_oci::error::with_causes;
use serde::{Deserialize, Serialize};

use crate::limits::Limit;

/// Reasons a component cannot be loaded. Nothing of it is kept then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum LoadError {
    /// The bytes are not a component: they are a core module, cut off, or something else.
    #[error("{message}")]
    NotAComponent {
        /// Nature of the bytes, and what to do.
        message: String,
    },
    /// The component needs imports that this host does not provide.
    #[error("it imports {}, which this host does not provide", imports.join(", "))]
    Imports {
        /// Names of the imports.
        imports: Vec<String>,
    },
    /// A function has a type that no tool can have.
    #[error("{function}: {message}")]
    Signature {
        /// Name of the export.
        function: String,
        /// Description of the fault.
        message: String,
    },
    /// The component exports no function.
    #[error("it exports no function, so it has no tool")]
    NoTools,
    /// Compiling took too much time or memory, or the compiler failed.
    #[error("it cannot be compiled: {message}")]
    Compile {
        /// Reason for the failure.
        message: String,
    },
    /// The component differs from the one that was added.
    #[error("{message}")]
    Changed {
        /// Description of the difference.
        message: String,
    },
    /// The compiled form belongs to another build: compile again.
    #[error("its compiled form is not this build's")]
    Stale,
    /// The host failed.
    #[error("{message}")]
    Host {
        /// Reason for the failure.
        message: String,
    },
}

/// Reasons a call fails. An error that the tool itself reports is an answer, not one of these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum CallError {
    /// There is no such tool.
    #[error("there is no tool '{name}'")]
    Unknown {
        /// Name that was called.
        name: String,
    },
    /// The arguments do not match the schema.
    #[error("arguments{at}: {message}")]
    Arguments {
        /// JSON pointer to the fault (RFC 6901); empty for the whole.
        at: String,
        /// Description of the fault.
        message: String,
    },
    /// A limit was reached.
    #[error("stopped: {limit} limit {value} reached")]
    Limit {
        /// The limit.
        limit: Limit,
        /// Value of the limit, with its unit.
        value: String,
    },
    /// The component stopped itself: unreachable code, a bad access, an exit with a status.
    #[error("trapped: {message}{}", within(frames))]
    Trap {
        /// Description of the trap.
        message: String,
        /// Denials before the trap, as [`crate::Answer::denied`].
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        denied: Vec<String>,
        /// Functions on the stack, the innermost first; empty if unknown.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        frames: Vec<String>,
    },
    /// The component is not run: it cannot be loaded, or differs from the one that was added.
    #[error("{message}")]
    Refused {
        /// Reason for the refusal.
        message: String,
    },
    /// Too many calls of the plugin are waiting already, or this one waited too long.
    #[error("busy: {message}")]
    Busy {
        /// Which of the two, and what to do.
        message: String,
    },
    /// The caller no longer wants the answer.
    #[error("cancelled")]
    Cancelled,
    /// The host process ended, or could not be started.
    #[error("the tool host failed: {message}")]
    Host {
        /// Reason for the failure.
        message: String,
    },
}

impl CallError {
    /// Whether a kept instance is gone after this error, with all of its handles. Calls that did not begin
    /// leave it as it was.
    #[must_use]
    pub fn ends_instance(&self) -> bool {
        match self {
            Self::Unknown { .. } | Self::Arguments { .. } | Self::Refused { .. } | Self::Busy { .. } => false,
            Self::Limit { limit, .. } => *limit != Limit::Arguments,
            Self::Trap { .. } | Self::Cancelled | Self::Host { .. } => true,
        }
    }
}

/// Location of a trap, for the end of its line.
fn within(frames: &[String]) -> String {
    if frames.is_empty() { String::new() } else { format!("; in {}", frames.join(", called by ")) }
}
