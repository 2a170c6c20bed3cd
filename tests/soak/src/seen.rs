//! All rows that the history ever had: it keeps a thousand, so they are counted here as they are written.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use crate::calls::Answered;

/// Rows by the last argument of their command: their number, and the cause of the last one.
#[derive(Debug, Default)]
pub struct Seen {
    database: PathBuf,
    rows: HashMap<String, (u32, String)>,
    last: i64,
}

impl Seen {
    /// For the history of a state folder.
    pub fn of(state: &Path) -> Self {
        Self { database: state.join("hotcell.db"), ..Self::default() }
    }

    /// Reads new rows; needed at least once per thousand runs.
    pub fn look(&mut self) -> Result<(), String> {
        let bad = |e: rusqlite::Error| format!("the history cannot be read: {e}");
        let database =
            Connection::open_with_flags(&self.database, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(bad)?;
        database.busy_timeout(Duration::from_secs(60)).map_err(bad)?;
        let query = "SELECT seq, command, cause FROM runs WHERE seq > ?1 ORDER BY seq";
        let mut statement = database.prepare(query).map_err(bad)?;
        let row = |row: &rusqlite::Row<'_>| -> rusqlite::Result<(i64, String, String)> {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        };
        for row in statement.query_map([self.last], row).map_err(bad)? {
            let (seq, command, cause) = row.map_err(bad)?;
            if seq != self.last + 1 {
                return Err(format!("the history goes from row {} to row {seq}", self.last));
            }
            self.last = seq;
            self.add(&command, cause);
        }
        Ok(())
    }

    fn add(&mut self, command: &str, cause: String) {
        let words: Value = serde_json::from_str(command).unwrap_or_default();
        let mark = words.as_array().and_then(|words| words.last()?.as_str()).unwrap_or_default();
        let row = self.rows.entry(mark.to_owned()).or_default();
        *row = (row.0 + 1, cause);
    }

    /// Number of rows so far.
    pub fn rows(&self) -> i64 {
        self.last
    }

    /// Faults: a run of ours (whose mark begins with `ours`) that is listed twice, or an answered one that is
    /// missing.
    pub fn wrong(&self, ours: &str, answered: &[Answered]) -> Vec<String> {
        let twice = self.rows.iter().filter(|(mark, (count, _))| mark.starts_with(ours) && *count > 1);
        let mut wrong: Vec<String> =
            twice.map(|(mark, (count, _))| format!("the history has {mark} {count} times")).collect();
        for one in answered {
            match self.rows.get(&one.mark) {
                Some((_, cause)) if *cause == one.cause => {}
                other => wrong.push(format!("the history has {other:?} of {one:?}")),
            }
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn lost_and_duplicate_rows_are_found() {
        let mut seen = Seen::default();
        for (command, cause) in [
            (r#"["sh","m-1"]"#, "exited"),
            (r#"["sh","m-2"]"#, "exited"),
            (r#"["sh","m-2"]"#, "signaled"),
            (r#"["test"]"#, "exited"),
            (r#"["test"]"#, "exited"),
        ] {
            seen.add(command, cause.to_owned());
        }
        let one = |mark: &str, cause: &str| Answered {
            mark: mark.to_owned(),
            cause: cause.to_owned(),
            at: Instant::now(),
        };
        assert_eq!(seen.wrong("m-", &[one("m-1", "exited")]).len(), 1, "m-2 is there twice");
        for lost in [one("m-3", "exited"), one("m-1", "signaled")] {
            assert_eq!(seen.wrong("none", std::slice::from_ref(&lost)).len(), 1, "{lost:?}");
        }
    }
}
