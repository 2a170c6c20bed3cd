//! End of a request to a host with a secret that has no complete answer.

use std::io;

use crate::quota::OverLimit;

/// Why a request has no complete answer.
pub(crate) enum End {
    /// Nothing was written to the client yet: it is told this status and sentence.
    Said(&'static str, String),
    /// Its body is beyond a limit.
    Over(OverLimit),
    /// The connection to the client or the host failed on the way.
    Io(io::Error),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
