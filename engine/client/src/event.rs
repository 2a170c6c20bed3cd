//! States of a client, and events that its caller can follow.

use std::time::Duration;

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not connected; another attempt follows, unless the client is new or closed.
    Disconnected,
    /// An attempt is under way.
    Connecting,
    /// The server has answered `initialize` or `server/discover`.
    Connected,
    /// No further attempt is made.
    Error,
}

/// A change, or a text that the server gives beside the protocol. All texts of a server are escaped and bounded.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The server is ready.
    Connected {
        /// Name that the server gives itself.
        name: String,
        /// Version that the server gives itself.
        version: String,
        /// Revision of the protocol.
        revision: String,
    },
    /// The connection was lost, or an attempt failed.
    Disconnected {
        /// Reason.
        why: String,
        /// Time until the next attempt; `None` when none follows.
        retry_in: Option<Duration>,
    },
    /// The client has given up.
    Error {
        /// Reason.
        why: String,
    },
    /// The server says that its tools are other ones now.
    ToolsChanged,
    /// A line of a program's standard error, not escaped.
    Stderr(Vec<u8>),
    /// A line of a program's standard output that is not a message of the protocol.
    Noise(String),
}

/// Progress of a call, as the server states it.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Amount that is done.
    pub done: f64,
    /// Amount in all, if the server knows it.
    pub total: Option<f64>,
    /// Text, escaped and bounded.
    pub message: Option<String>,
}
