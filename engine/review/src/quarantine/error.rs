//! Conditions and errors of a step.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use hotcell_guard::quarantine::Illegal;
use hotcell_state::database::DatabaseError;
use hotcell_state::state::StateError;

/// Maximum number of items held at once.
pub const MAX_ITEMS: u64 = 10_000;

/// Conditions under which a step is taken.
#[derive(Clone, Debug)]
pub struct StepContext {
    /// An item must be released by another person than the one who asked.
    pub two_persons: bool,
    /// Names that may use a team's page.
    pub team: BTreeSet<String>,
    /// Retention of items that no user handles.
    pub retention: Duration,
    /// Digest of rules, version and limits: [`hotcell_guard::quarantine::policy_digest`].
    pub policy: String,
    /// Current time, in microseconds since 1970.
    pub now_us: i64,
}

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub enum QuarantineError {
    /// The state folder cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The database cannot be used.
    #[error("the quarantine in {0}")]
    Database(DatabaseError),
    /// SQLite failed during the step, which was rolled back.
    #[error("the quarantine cannot be written: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// A file beside the database failed.
    #[error("{what}: {error}")]
    Io {
        /// Operation that failed.
        what: &'static str,
        /// Error of the system call.
        error: io::Error,
    },
    /// Another step takes too long.
    #[error("another hotcell holds the quarantine; try again")]
    Busy,
    /// The maximum number of items is held.
    #[error("{MAX_ITEMS} items are held; hotcell quarantine purge makes room")]
    Full,
    /// No item has this id.
    #[error("there is no item {id:?} in quarantine; {hint}")]
    NoSuchItem {
        /// Requested id.
        id: String,
        /// The nearest id, or advice.
        hint: String,
    },
    /// Several items match this prefix.
    #[error("{id:?} could be {}; give more digits", among.join(", "))]
    Ambiguous {
        /// Requested id.
        id: String,
        /// Some of the matching ids.
        among: Vec<String>,
    },
    /// The step is not allowed from this state, or for this actor.
    #[error("{id}: {why}")]
    Illegal {
        /// Item.
        id: String,
        /// Reason.
        why: Illegal,
    },
    /// The item has a valid release for another caller.
    #[error(
        "{id} is released for {other} already; when that has run, or is taken back with hotcell quarantine \
             reject, it can be released for another"
    )]
    ForAnother {
        /// Item.
        id: String,
        /// Channel that the release is for.
        other: String,
    },
    /// The item is not as it was shown to the person who decides.
    #[error("{id} is not as it was shown: {now}")]
    NotAsShown {
        /// Item.
        id: String,
        /// Its present state, and who decided meanwhile.
        now: String,
    },
    /// The item has no digest that a release could name.
    #[error("{id} cannot be released: {why}; ‹guard=report› runs it all the same")]
    Unreleasable {
        /// Item.
        id: String,
        /// Part that is not known.
        why: String,
    },
}

impl From<DatabaseError> for QuarantineError {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::State(error) => Self::State(error),
            other => Self::Database(other),
        }
    }
}

/// Maps a file's error, with the operation that failed.
pub fn io(what: &'static str) -> impl Fn(io::Error) -> QuarantineError {
    move |error| QuarantineError::Io { what, error }
}

/// Result of a step.
pub type Done<T> = Result<T, QuarantineError>;
