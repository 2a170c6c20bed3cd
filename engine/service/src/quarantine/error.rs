//! What holds when a step is taken, and why one is not.

use std::io;
use std::time::Duration;

use hotcell_guard::quarantine::Illegal;

use crate::database::DatabaseError;
use crate::state::StateError;

/// Items that are held at once.
pub(super) const MOST_ITEMS: u64 = 10_000;

/// What holds when a step is taken.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Whoever releases is not who asked.
    pub two_persons: bool,
    /// How long an item stays that nobody cares for.
    pub retention: Duration,
    /// The digest of rules, version and limits: [`hotcell_guard::quarantine::policy_digest`].
    pub policy: String,
    /// Now, in microseconds since 1970.
    pub now_us: i64,
}

/// Why a step was not taken.
#[derive(Debug, thiserror::Error)]
pub enum QuarantineError {
    /// The folder.
    #[error(transparent)]
    State(#[from] StateError),
    /// The database.
    #[error("the quarantine in {0}")]
    Database(DatabaseError),
    /// What SQLite said while the step was done; nothing of it is.
    #[error("the quarantine cannot be written: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The files beside the database.
    #[error("{what}: {error}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// Another step takes too long.
    #[error("another hotcell holds the quarantine; try again")]
    Busy,
    /// There is no room for one more.
    #[error("{MOST_ITEMS} items are held; hotcell quarantine purge makes room")]
    Full,
    /// No item has such an id.
    #[error("there is no item {id:?} in quarantine; {hint}")]
    NoSuchItem {
        /// As asked.
        id: String,
        /// The nearest, or what to do.
        hint: String,
    },
    /// Several have.
    #[error("{id:?} could be {}; give more digits", among.join(", "))]
    Ambiguous {
        /// As asked.
        id: String,
        /// Some of those that it could be.
        among: Vec<String>,
    },
    /// Not from there, or not by them.
    #[error("{id}: {why}")]
    Illegal {
        /// The item.
        id: String,
        /// Why.
        why: Illegal,
    },
    /// A release of it counts, for somebody else.
    #[error(
        "{id} is released for {other} already; when that has run, or is taken back with hotcell quarantine \
             reject, it can be released for another"
    )]
    ForAnother {
        /// The item.
        id: String,
        /// The channel that it is for.
        other: String,
    },
    /// There is nothing that a release could name.
    #[error("{id} cannot be released: {why}; --guard report runs it all the same")]
    Unreleasable {
        /// The item.
        id: String,
        /// What is not known.
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

/// A failure of a file, with what was tried.
pub(super) fn io(what: &'static str) -> impl Fn(io::Error) -> QuarantineError {
    move |error| QuarantineError::Io { what, error }
}

/// What a step comes to.
pub(super) type Done<T> = Result<T, QuarantineError>;
