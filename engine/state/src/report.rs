//! `hotcell.error/1`: an error in a command line or a configuration, for programs to read.

pub use hotcell_sandbox::text::{barred, barred_within, printable, printable_line, printable_message};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Value of the `schema` field.
pub const SCHEMA: &str = "hotcell.error/1";

/// An error that a person has to correct before anything can run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{message}{}", hint.as_ref().map(|hint| format!("{}{hint}", before_hint(message))).unwrap_or_default())]
pub struct ErrorReport {
    /// Always `hotcell.error/1`.
    pub schema: String,
    /// Kind of error.
    pub code: Code,
    /// One line for people.
    pub message: String,
    /// The invalid option, key, variable or name.
    pub field: Option<String>,
    /// `field` is a parameter of the request, by its key; a front end shows it by its own name for it.
    #[serde(skip)]
    pub is_parameter: bool,
    /// Advice, with the nearest valid name if there is one.
    pub hint: Option<String>,
}

/// The mark between a message and its hint: a question has one of its own.
fn before_hint(message: &str) -> &'static str {
    if message.ends_with(['?', '!']) { " " } else { "; " }
}

/// Kinds of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// Options that do not fit together.
    Usage,
    /// Unknown command.
    UnknownCommand,
    /// Unknown option.
    UnknownOption,
    /// Unknown name: of a profile, a schema, a run.
    UnknownName,
    /// Invalid value.
    InvalidValue,
    /// Error in a configuration file or variable.
    Configuration,
    /// The state folder cannot be used.
    State,
    /// A queue or a quota is full.
    Busy,
    /// A person has to approve this first, or has refused it.
    NeedsApproval,
    /// A tool call reached a limit.
    Limit,
    /// A tool's component trapped: unreachable code, an invalid access, an exit with a status.
    Trap,
    /// A tool failed after it was denied something.
    Denied,
    /// Refused: for example a component that cannot be loaded, or differs from the one added.
    Refused,
    /// A call was sent and its answer is lost: it may have been carried out.
    UnknownOutcome,
    /// Internal error of hotcell.
    Internal,
}

impl ErrorReport {
    /// A report without field and hint.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            code,
            message: message.into(),
            field: None,
            is_parameter: false,
            hint: None,
        }
    }

    /// Sets the field.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// Sets the field to a parameter of the request, such as `max_uses`, which the command line shows as `--max-uses`.
    #[must_use]
    pub fn parameter(mut self, key: &str) -> Self {
        self.field = Some(key.to_owned());
        self.is_parameter = true;
        self
    }

    /// Sets the hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_and_hint_have_one_mark_between_them() {
        for (message, hint, want) in [
            ("no model a", Some("name one"), "no model a; name one"),
            ("no model a; did you mean b?", Some("name one"), "no model a; did you mean b? name one"),
            ("no model a; did you mean b?", None, "no model a; did you mean b?"),
            ("", Some("name one"), "; name one"),
        ] {
            let report = ErrorReport::new(Code::UnknownName, message);
            let report = hint.into_iter().fold(report, ErrorReport::hint);
            assert_eq!(report.to_string(), want);
        }
    }
}
