//! Failures, and by whose fault they are: a worker's answer depends on it.

/// Who has to change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The request is wrong: an address, a tree, an option. Trying again changes nothing.
    Request,
    /// The farm does not have a blob that it should have.
    Missing,
    /// The farm refused, broke the protocol, or answered wrong bytes.
    Farm,
    /// The farm cannot be reached, or is too busy. Trying again may help.
    Unreachable,
    /// This machine failed.
    Host,
}

/// A failure, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FleetError {
    /// Who has to change something.
    pub kind: Kind,
    /// One line for a person.
    pub message: String,
}

impl FleetError {
    /// An error of this kind.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// A wrong request.
    pub fn request(message: impl Into<String>) -> Self {
        Self::new(Kind::Request, message)
    }

    /// A farm that broke the protocol.
    pub fn farm(message: impl Into<String>) -> Self {
        Self::new(Kind::Farm, message)
    }

    /// A failure of this machine.
    pub fn host(message: impl Into<String>) -> Self {
        Self::new(Kind::Host, message)
    }
}
