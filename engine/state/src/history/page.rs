//! Pages of the history: some runs of many, filtered by the database.

use rusqlite::{Row, params};

use crate::database::retry_while_busy;
use crate::time::rfc3339;

use super::{Cause, History, HistoryError, RunRow, cause_name};

/// Runs to be listed. The default is every run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Only runs that ended so.
    pub cause: Option<Cause>,
    /// Only runs whose command contains this text.
    pub text: Option<String>,
    /// Only runs whose command, as a JSON array, begins so, such as `["test",`.
    pub begins: Option<&'static str>,
}

const COLUMNS: &str = "id, started, command, cause, exit_code, usage";

pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    let json = |at: usize| row.get::<_, String>(at);
    Ok(RunRow {
        id: row.get(0)?,
        started: rfc3339(row.get(1)?),
        command: serde_json::from_str(&json(2)?).unwrap_or_default(),
        cause: serde_json::from_value(json(3)?.into()).unwrap_or(Cause::Internal),
        exit_code: row.get(4)?,
        usage: serde_json::from_str(&json(5)?).unwrap_or_default(),
    })
}

impl History {
    /// At most `most` of the runs that the filter admits, newest first, without the first `skipped` ones; and the number
    /// of all that it admits.
    ///
    /// # Errors
    /// [`HistoryError::Database`] when SQLite fails.
    pub fn page(
        &self,
        filter: &RunFilter,
        skipped: u64,
        most: u64,
    ) -> Result<(Vec<RunRow>, u64), HistoryError> {
        // The command is stored as JSON, so the text is compared as it stands in a string there.
        let text = filter.text.as_ref().map(|text| {
            let quoted = serde_json::to_string(text).unwrap_or_default();
            quoted.trim_matches('"').to_owned()
        });
        let cause = filter.cause.map(cause_name);
        let admitted = "(?1 IS NULL OR cause = ?1) AND (?2 IS NULL OR instr(command, ?2) > 0)
             AND (?3 IS NULL OR instr(command, ?3) = 1)";
        let query = || {
            let mut statement = self.database.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM runs WHERE {admitted} ORDER BY seq DESC LIMIT ?4 OFFSET ?5"
            ))?;
            let rows = statement.query_map(params![cause, text, filter.begins, most, skipped], read)?;
            let rows = rows.collect::<Result<Vec<_>, _>>()?;
            let count = format!("SELECT count(*) FROM runs WHERE {admitted}");
            Ok((
                rows,
                self.database.query_row(&count, params![cause, text, filter.begins], |row| row.get(0))?,
            ))
        };
        retry_while_busy(query).map_err(|error| self.bad(error))
    }

    /// A run's row in the list, by its whole id; `None` when there is no such run.
    ///
    /// # Errors
    /// [`HistoryError::Database`] when SQLite fails.
    pub fn row(&self, id: &str) -> Result<Option<RunRow>, HistoryError> {
        let query = || {
            let mut statement =
                self.database.prepare_cached(&format!("SELECT {COLUMNS} FROM runs WHERE id = ?1"))?;
            statement.query_map([id], read)?.next().transpose()
        };
        retry_while_busy(query).map_err(|error| self.bad(error))
    }
}

#[cfg(test)]
mod tests {
    use hotcell_report::RunReport;

    use super::*;
    use crate::history::Stored;
    use crate::state::StateFolder;

    #[test]
    fn page_holds_filtered_runs_and_their_number() {
        let dir = tempfile::tempdir().unwrap();
        let folder = StateFolder::open(&dir.path().join("state")).unwrap();
        let history = History::open(&folder).unwrap();
        for n in 0..30 {
            let cause = if n % 3 == 0 { Cause::WallLimit } else { Cause::Exited };
            let command = vec!["echo".to_owned(), format!("say \"{n}\" é")];
            let stored = Stored { id: format!("{n:06x}"), ..Stored::begin(command) };
            history.add(&stored, &RunReport::without_a_run(cause, "")).unwrap();
        }
        let of = |cause, text: Option<&str>| RunFilter { cause, text: text.map(str::to_owned), begins: None };
        for (filter, skipped, first, shown, total) in [
            (of(None, None), 0, Some("00001d"), 10, 30),
            (of(None, None), 25, Some("000004"), 5, 30),
            (of(None, None), 99, None, 0, 30),
            (of(Some(Cause::WallLimit), None), 0, Some("00001b"), 10, 10),
            (of(None, Some("\"7\"")), 0, Some("000007"), 1, 1),
            (of(None, Some("é")), 0, Some("00001d"), 10, 30),
            (of(Some(Cause::Exited), Some("\"7\"")), 0, Some("000007"), 1, 1),
            (of(Some(Cause::Exited), Some("\"6\"")), 0, None, 0, 0),
            (of(None, Some("%")), 0, None, 0, 0),
        ] {
            let (rows, all) = history.page(&filter, skipped, 10).unwrap();
            assert_eq!((rows.len(), all), (shown, total), "{filter:?} {skipped}");
            assert_eq!(rows.first().map(|row| row.id.as_str()), first, "{filter:?} {skipped}");
        }
        let of_say = RunFilter { begins: Some("[\"say"), ..RunFilter::default() };
        assert_eq!(history.page(&of_say, 0, 10).unwrap().1, 0, "it is not at the beginning");
        let of_echo = RunFilter { begins: Some("[\"echo\","), ..RunFilter::default() };
        assert_eq!(history.page(&of_echo, 0, 10).unwrap().1, 30);
        assert_eq!(history.row("000007").unwrap().unwrap().command[1], "say \"7\" é");
        assert!(history.row("00").unwrap().is_none());
    }
}
