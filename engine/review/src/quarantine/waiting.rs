//! Pages of the items that wait for a person.

use hotcell_guard::quarantine::State;
use hotcell_state::database::retry_while_busy;
use hotcell_state::report::ErrorReport;
use rusqlite::params;

use super::error::QuarantineError;
use super::item::Item;
use super::rows;
use super::service::{QuarantineService, of_quarantine};

/// Items that are refused until a person decides: never decided on, asked for, or released for a time that is over.
const WAITS: &str = "(state IN (?1, ?2) OR (state = ?3 AND release_expires <= ?4))";

impl QuarantineService {
    /// At most `most` of the items that wait, those with a request first, then the most recently refused, without the
    /// first `skipped` ones; and the number of all that wait. They are as they were scanned last, and `current` tells
    /// if that was under the rules in force.
    ///
    /// # Errors
    /// A report when the quarantine cannot be read.
    pub fn waiting(&self, skipped: u64, most: u64) -> Result<(Vec<Item>, u64), ErrorReport> {
        let Some(quarantine) = self.open_to_read()? else { return Ok((Vec::new(), 0)) };
        let terms = self.terms();
        let (held, asked, released) = (State::Held.name(), State::UnderReview.name(), State::Released.name());
        let database = &quarantine.database;
        let read = || {
            let mut statement = database.prepare(&format!(
                "SELECT id FROM quarantine WHERE {WAITS}
                 ORDER BY state = ?2 DESC, last_seen DESC, seq DESC LIMIT ?5 OFFSET ?6"
            ))?;
            let ids = statement
                .query_map(params![held, asked, released, terms.now_us, most, skipped], |row| row.get(0))?;
            let mut items = Vec::new();
            for id in ids.collect::<Result<Vec<String>, _>>()? {
                if let Some(row) = rows::by_id(database, &id)? {
                    items.push(row.item(rows::files(database, row.seq)?, &terms));
                }
            }
            let count = format!("SELECT count(*) FROM quarantine WHERE {WAITS}");
            let all =
                database.query_row(&count, params![held, asked, released, terms.now_us], |row| row.get(0))?;
            Ok((items, all))
        };
        retry_while_busy(read).map_err(|error| of_quarantine(&QuarantineError::from(error)))
    }
}
