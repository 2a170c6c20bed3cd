//! Errors of approvals, and their conversion to reports.

use hotcell_state::report::{Code, ErrorReport};

use crate::permission::state::{Illegal, Step};
use crate::permission::{MAX_PENDING_PER_CALLER, MAX_PENDING_REQUESTS};
use crate::quarantine::QuarantineError;
use crate::quarantine::service::of_quarantine;

/// Why a step failed; it changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum ApprovalError {
    /// The state folder, its database, or a step of the quarantine failed.
    #[error(transparent)]
    Quarantine(#[from] QuarantineError),
    /// SQLite failed.
    #[error("the approvals cannot be read or written: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// No request has this id.
    #[error("there is no approval {id:?}")]
    NoSuch { id: String, hint: String },
    /// Several requests match this prefix.
    #[error("{id:?} could be {}; give more digits", among.join(", "))]
    Ambiguous { id: String, among: Vec<String> },
    /// The step is not allowed from this state, or for this actor.
    #[error("{id}: {why}")]
    Illegal { id: String, step: Step, why: Illegal },
    /// Too many requests wait already.
    #[error("{}", if *.own { format!("{MAX_PENDING_PER_CALLER} requests of yours wait for a person already") }
                  else { format!("{MAX_PENDING_REQUESTS} requests wait for a person already") })]
    Full { own: bool },
    /// Error of the step that the approval is for.
    #[error("{0}")]
    Report(#[from] ErrorReport),
}

impl From<ApprovalError> for ErrorReport {
    fn from(error: ApprovalError) -> Self {
        let words = error.to_string();
        match error {
            ApprovalError::Report(report) => report,
            ApprovalError::Quarantine(error) => of_quarantine(&error),
            ApprovalError::NoSuch { hint, .. } => Self::new(Code::UnknownName, words).field("ID").hint(hint),
            ApprovalError::Ambiguous { .. } => Self::new(Code::UnknownName, words).field("ID"),
            ApprovalError::Illegal { .. } => Self::new(Code::InvalidValue, words).field("ID"),
            ApprovalError::Full { .. } => Self::new(Code::Busy, words)
                .hint("a person decides with hotcell approvals list, approve and deny; then ask again"),
            ApprovalError::Sqlite(_) => Self::new(Code::State, words).parameter("state"),
        }
    }
}
