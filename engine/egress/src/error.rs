//! Errors of a connection through the proxy.

/// Reason why a connection failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The connection is not allowed, and was counted as a denial.
    #[error("{0}")]
    Denied(String),
    /// The connection is allowed, but the host cannot be reached.
    #[error("{0}")]
    Unreachable(String),
}
