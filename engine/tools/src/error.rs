//! Why a component could not be loaded, and why a call came to nothing.

use serde::{Deserialize, Serialize};

use crate::limits::Limit;

/// Why a component cannot be loaded. Nothing of it is kept then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum LoadError {
    /// The bytes are no component: a core module, cut off, or something else.
    #[error("{message}")]
    NotAComponent {
        /// What it is, and what to do.
        message: String,
    },
    /// It needs what nobody provides.
    #[error("it imports {}, which this host does not provide", imports.join(", "))]
    Imports {
        /// Names of the imports.
        imports: Vec<String>,
    },
    /// A function has a type that no tool can have.
    #[error("{function}: {message}")]
    Signature {
        /// The export.
        function: String,
        /// What is wrong with it.
        message: String,
    },
    /// It exports no function.
    #[error("it exports no function, so it has no tool")]
    NoTools,
    /// Compiling took too long or too much, or the compiler failed.
    #[error("it cannot be compiled: {message}")]
    Compile {
        /// Why.
        message: String,
    },
    /// The compiled form is of another build: compile again.
    #[error("its compiled form is not this build's")]
    Stale,
    /// The host could not do it.
    #[error("{message}")]
    Host {
        /// Why.
        message: String,
    },
}

/// Why a call came to nothing. A tool's own error is an answer, not one of these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum CallError {
    /// There is no such tool.
    #[error("there is no tool '{name}'")]
    Unknown {
        /// The name.
        name: String,
    },
    /// The arguments do not match the schema.
    #[error("arguments{at}: {message}")]
    Arguments {
        /// Where, as a JSON pointer (RFC 6901); empty for the whole.
        at: String,
        /// What is wrong.
        message: String,
    },
    /// A limit was reached.
    #[error("stopped: {limit} limit {value} reached")]
    Limit {
        /// Which.
        limit: Limit,
        /// Its value, with its unit.
        value: String,
    },
    /// The component stopped itself: unreachable code, a bad access, an exit with a status.
    #[error("trapped: {message}")]
    Trap {
        /// What happened.
        message: String,
    },
    /// Somebody does not want the answer any more.
    #[error("cancelled")]
    Cancelled,
    /// The host process ended, or could not be had.
    #[error("the tool host failed: {message}")]
    Host {
        /// Why.
        message: String,
    },
}

/// An error with what is behind it: of some, the outermost says only that sending failed. `text` is what to say of the outermost.
#[must_use]
pub fn with_causes(mut text: String, error: &dyn std::error::Error) -> String {
    let mut inner = error.source();
    while let Some(cause) = inner {
        let more = cause.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        inner = cause.source();
    }
    text
}
