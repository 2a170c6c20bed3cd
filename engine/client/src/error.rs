//! Errors. Their texts are one line each; what a server says in them is escaped and bounded.

use std::time::Duration;

use hotcell_sandbox::text::printable;

/// Maximum number of a server's characters in a message.
const MAX_FOREIGN_CHARS: usize = 400;

/// A server's text for a message.
pub(crate) fn foreign(text: &str) -> String {
    let short: String = text.chars().take(MAX_FOREIGN_CHARS).collect();
    let dots = if short.len() < text.len() { "…" } else { "" };
    format!("{}{dots}", printable(short.trim()))
}

/// Why a client is not connected, or a list was not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// An address that is not used.
    #[error("{0}")]
    Endpoint(String),
    /// A program that does not start.
    #[error("the program {program} does not start: {why}")]
    Program {
        /// Its name.
        program: String,
        /// Reason.
        why: String,
    },
    /// The connection failed or was lost.
    #[error("{0}")]
    Lost(String),
    /// The server did not answer in time.
    #[error("the server did not answer {what} within {} s", within.as_secs_f32())]
    TooLate {
        /// Request.
        what: &'static str,
        /// Time that was given.
        within: Duration,
    },
    /// The server refused the request.
    #[error("the server refused {what}: {why}")]
    Refused {
        /// Request.
        what: &'static str,
        /// Its reason.
        why: String,
    },
    /// The server's answer is larger than the bounds.
    #[error("the server's answer to {what} is too large: {why}")]
    TooLarge {
        /// Request.
        what: &'static str,
        /// Bound that was passed.
        why: String,
    },
    /// The client was closed, or never connected.
    #[error("the client is not connected")]
    Closed,
}

/// How a call ended without an answer of its tool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The call was not sent: nothing has happened.
    #[error("the call was not sent: {0}")]
    NotSent(String),
    /// The server refused the call: an unknown tool, or arguments that do not fit.
    #[error("the server refused the call: {message} ({code})")]
    Refused {
        /// JSON-RPC code, or the HTTP status.
        code: i32,
        /// Its reason.
        message: String,
    },
    /// The call was sent and its answer is lost. It may have been carried out; it is not repeated.
    #[error("the outcome of the call is unknown: {0}")]
    Unknown(String),
    /// No answer in time; the server was told to cancel. It may have been carried out.
    #[error("no answer within {} s; the server was told to cancel, and may have carried out the call", within.as_secs_f32())]
    TooLate {
        /// Time that was given.
        within: Duration,
    },
    /// The caller cancelled, and the server was told so. It may have been carried out.
    #[error("cancelled; the server may have carried out the call")]
    Cancelled,
    /// The server wants something of its user first, which this client does not give.
    #[error("the tool asks for input that this client does not give: {0}")]
    WantsInput(String),
}

impl CallError {
    /// Whether the server may have carried out the call.
    #[must_use]
    pub fn may_have_run(&self) -> bool {
        matches!(self, Self::Unknown(_) | Self::TooLate { .. } | Self::Cancelled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_server_is_escaped_and_bounded() {
        assert_eq!(foreign(" a\n\u{202e}b\u{1b}[2J "), "a\\n\\u{202e}b\\u{1b}[2J");
        assert_eq!(foreign(&"x".repeat(1000)), format!("{}…", "x".repeat(MAX_FOREIGN_CHARS)));
    }
}
