//! Number of entries in the state folder that wait for a person.

use hotcell_guard::quarantine::State;
use hotcell_review::permission::rows as approvals;
use hotcell_review::quarantine::{Quarantine, QuarantineError};
use hotcell_state::database::retry_while_busy;
use hotcell_state::state::StateFolder;
use hotcell_state::time::micros_since_1970;
use rusqlite::Connection;

/// Pending approvals, and quarantine items by state.
pub type Counts = (u64, Vec<(State, u64)>);

/// Counts pending approvals and quarantine items. Blocks.
///
/// # Errors
/// [`QuarantineError`] when the database cannot be read.
pub fn counts(folder: &StateFolder) -> Result<Counts, QuarantineError> {
    let store = match StateFolder::open_existing(folder.path())? {
        Some(folder) => Quarantine::open_to_read(folder)?,
        None => None,
    };
    match store {
        Some(store) => Ok(retry_while_busy(|| counted(&store.database))?),
        None => Ok((0, State::ALL.map(|state| (state, 0)).to_vec())),
    }
}

fn counted(database: &Connection) -> rusqlite::Result<Counts> {
    let pending = approvals::pending(database, micros_since_1970(std::time::SystemTime::now()))?;
    let query = "SELECT count(*) FROM quarantine WHERE state = ?1";
    let of = |state: State| Ok((state, database.query_row(query, [state.name()], |row| row.get(0))?));
    Ok((pending, State::ALL.into_iter().map(of).collect::<rusqlite::Result<_>>()?))
}
