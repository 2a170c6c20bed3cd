//! Errors of reading and checking receipts.

/// Why a receipt is not accepted.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReceiptError {
    /// The file has not the form of an envelope.
    #[error("not a DSSE envelope: {0}")]
    NotAnEnvelope(String),
    /// The payload is of another type.
    #[error("the payload is {0:?}, not an in-toto statement (application/vnd.in-toto+json)")]
    PayloadType(String),
    /// No signature is by a trusted key.
    #[error("no signature is by a trusted key; it names {}", if keyids.is_empty() { "none".to_owned() } else { keyids.join(", ") })]
    Untrusted {
        /// Keys that the envelope names; a hint only.
        keyids: Vec<String>,
    },
    /// There is no key to verify with.
    #[error("there is no key to verify with")]
    NoKeys,
    /// The signed payload is not a statement.
    #[error("the signed payload is not an in-toto statement: {0}")]
    NotAStatement(String),
    /// A condition is not met.
    #[error("{0}")]
    Condition(String),
}
