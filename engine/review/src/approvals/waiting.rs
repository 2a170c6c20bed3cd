//! Pages of the requests that wait for a person.

use hotcell_state::database::retry_while_busy;
use hotcell_state::report::ErrorReport;

use super::service::Approvals;
use crate::permission::Approval;
use crate::permission::rows::{self, now};

impl Approvals {
    /// At most `most` of the pending requests of all callers, newest first, without the first `skipped` ones; and the
    /// number of all that wait.
    ///
    /// # Errors
    /// A report when they cannot be read.
    pub fn waiting(&self, skipped: u64, most: u64) -> Result<(Vec<Approval>, u64), ErrorReport> {
        let now = now();
        self.read(|database| {
            let read = || {
                let all = rows::pending(database, now)?;
                let page = rows::pending_page(database, now, skipped, most)?;
                Ok((page.iter().map(|row| row.shown(now)).collect(), all))
            };
            Ok(retry_while_busy(read)?)
        })
    }
}
