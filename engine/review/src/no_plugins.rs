//! The rows of plugins for tests of this crate, which has no plugins: nothing is taken, so an entry about one is a problem.

use hotcell_guard::quarantine::Entry;
use hotcell_state::audit::{Problem, Subject};
use rusqlite::Connection;

struct NoPlugins;

impl Subject for NoPlugins {
    fn take(&mut self, _: &Entry) -> bool {
        false
    }

    fn compare(&mut self, _: &Connection) -> Result<(), Problem> {
        Ok(())
    }
}

/// Makes the subject.
pub fn no_plugins() -> Box<dyn Subject> {
    Box::new(NoPlugins)
}
