//! `hotcell.error/1`: what was wrong with a command line or a configuration, for programs to read.

pub use hotcell_sandbox::text::printable;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of this form in its `schema` field.
pub const SCHEMA: &str = "hotcell.error/1";

/// Something that a person has to change before anything can run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{message}{}", hint.as_ref().map(|h| format!("; {h}")).unwrap_or_default())]
pub struct ErrorReport {
    /// Always `hotcell.error/1`.
    pub schema: String,
    /// What kind of mistake it is.
    pub code: Code,
    /// One line for a person.
    pub message: String,
    /// The option, key, variable or name that is wrong.
    pub field: Option<String>,
    /// What to do, with the nearest valid name where there is one.
    pub hint: Option<String>,
}

/// Kinds of mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The command line does not fit together.
    Usage,
    /// No such command.
    UnknownCommand,
    /// No such option.
    UnknownOption,
    /// No such name: a profile, a schema, a run.
    UnknownName,
    /// A value that means nothing here.
    InvalidValue,
    /// A configuration file or variable.
    Configuration,
    /// The state folder cannot be used.
    State,
    /// There is no room now: a queue or a quota.
    Busy,
    /// A person has to approve it first, or said no.
    NeedsApproval,
    /// hotcell itself failed.
    Internal,
}

impl ErrorReport {
    /// A report without field and hint.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { schema: SCHEMA.to_owned(), code, message: message.into(), field: None, hint: None }
    }

    /// Names what is wrong.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// Says what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
