//! The history of runs: one SQLite table in the state folder, bounded, safe for many processes at once.
//!
//! A command that ends appends its run to a file ([`History::note`]), and the next process that opens the history moves it into the
//! table. A service adds rows itself: WAL, one commit without a sync, and no checkpoint on closing.

mod page;
mod waiting;

use std::time::SystemTime;

use hotcell_report::RunReport;
use hotcell_sandbox::outcome::{Cause, Output, ProxiedRequest, RequestCounts, RequestRow, Usage};
use rusqlite::{OptionalExtension, params};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::database::{self, DatabaseError, PooledConnection, retry_while_busy, transaction};
use crate::state::{StateError, StateFolder};
use crate::time::{micros_since_1970, rfc3339};

pub use page::RunFilter;

/// Value of the list's `schema` field.
pub const SCHEMA: &str = "hotcell.runs/1";
/// Maximum number of runs kept; older ones are removed.
const MAX_RUNS: i64 = 1000;
/// Maximum size of each stream in a stored outcome, in bytes, so that the history stays below about 64 MiB.
const MAX_STREAM_BYTES: usize = 32 * 1024;

/// A run in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRow {
    /// Twelve hexadecimal digits.
    pub id: String,
    /// RFC 3339, UTC.
    pub started: String,
    /// Command as typed; invalid UTF-8 is replaced.
    pub command: Vec<String>,
    /// Why the run ended.
    pub cause: Cause,
    /// Exit code of the program.
    pub exit_code: Option<i32>,
    /// Resources used.
    pub usage: Usage,
}

/// List of runs in the form `hotcell.runs/1`, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunList {
    /// Always `hotcell.runs/1`.
    pub schema: String,
    /// Runs.
    pub runs: Vec<RunRow>,
}

/// Value of the `schema` field of a list of requests.
pub const REQUESTS_SCHEMA: &str = "hotcell.requests/1";

/// A request, in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequestReport {
    /// RFC 3339, UTC.
    pub time: String,
    /// The request.
    #[serde(flatten)]
    pub request: ProxiedRequest,
}

impl From<RequestRow> for RequestReport {
    fn from(row: RequestRow) -> Self {
        Self { time: rfc3339(row.at_us), request: row.request }
    }
}

/// Requests of a run in the form `hotcell.requests/1`, in the order in which they began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequestList {
    /// Always `hotcell.requests/1`.
    pub schema: String,
    /// Id of the run.
    pub id: String,
    /// Counts of all requests with secrets, by the secret's name.
    pub secrets: std::collections::BTreeMap<String, RequestCounts>,
    /// Counts of all requests without a secret; absent where there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plain: Option<RequestCounts>,
    /// Number of requests that are not listed.
    #[serde(default)]
    pub left_out: u64,
    /// The first 1,000 requests with secrets, and the first 500 others.
    pub requests: Vec<RequestReport>,
}

impl RunList {
    /// A list of these runs.
    #[must_use]
    pub fn new(runs: Vec<RunRow>) -> Self {
        Self { schema: SCHEMA.to_owned(), runs }
    }
}

/// A run to be recorded.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Id of the run.
    pub id: String,
    /// Time of the request.
    pub started: SystemTime,
    /// Command as typed.
    pub command: Vec<String>,
}

impl Stored {
    /// A record that begins now, with a new id.
    #[must_use]
    pub fn begin(command: Vec<String>) -> Self {
        Self { id: fresh_id(), started: SystemTime::now(), command }
    }
}

/// Error of reading or writing the history.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The state folder cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The database failed.
    #[error("the history in {0}")]
    Database(DatabaseError),
    /// No run has this id.
    #[error("there is no run {0:?}; `hotcell runs list` shows them")]
    NoSuchRun(String),
    /// Several runs match this prefix.
    #[error("{id:?} could be {}; give more digits", among.join(", "))]
    Ambiguous {
        /// Requested id.
        id: String,
        /// Some of the matching ids.
        among: Vec<String>,
    },
}

impl From<DatabaseError> for HistoryError {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::State(error) => Self::State(error),
            other => Self::Database(other),
        }
    }
}

/// An open history.
#[derive(Debug)]
pub struct History {
    database: PooledConnection,
    path: std::path::PathBuf,
}

impl History {
    /// Opens the history for writing, and creates it when it is missing.
    ///
    /// # Errors
    /// [`HistoryError::State`] or [`HistoryError::Database`] when the state folder or the database cannot be
    /// used.
    pub fn open(folder: &StateFolder) -> Result<Self, HistoryError> {
        let history = Self { database: database::open_to_write(folder)?, path: folder.database() };
        waiting::take_in(folder, &history.database)?;
        Ok(history)
    }

    /// Records a run that ended without opening the database, for a process that ends now. The run is in the history for
    /// each process that opens it from now on.
    ///
    /// # Errors
    /// [`HistoryError::State`] when the state folder cannot be written, [`HistoryError::Database`] when many runs wait
    /// and the database cannot take them.
    pub fn note(folder: &StateFolder, run: &Stored, outcome: &RunReport) -> Result<(), HistoryError> {
        waiting::append(folder, run, outcome)
    }

    /// True when few runs wait for the database, so that [`Self::note`] does not open it.
    #[must_use]
    pub fn has_room(folder: &StateFolder) -> bool {
        waiting::is_few(folder)
    }

    /// As [`Self::note`], for a program without the database, which records a run only where there [is room](Self::has_room).
    ///
    /// # Errors
    /// When the state folder cannot be written.
    pub fn note_alone(folder: &StateFolder, run: &Stored, outcome: &RunReport) -> Result<(), StateError> {
        waiting::append_alone(folder, run, outcome)
    }

    /// Moves runs of [`Self::note`] into the database, for those who read its tables themselves. If that is not possible now,
    /// they stay where they are.
    pub fn settle(folder: &StateFolder) {
        if waiting::is_any(folder)
            && let Err(error) = Self::open(folder)
        {
            tracing::debug!("runs that ended lately are not in the database yet: {error}");
        }
    }

    /// Checks that the history can be opened for writing.
    ///
    /// # Errors
    /// [`HistoryError::State`] or [`HistoryError::Database`] when the state folder or the database cannot be
    /// used.
    pub fn check(folder: &StateFolder) -> Result<(), HistoryError> {
        // Not pooled: SQLite's locks would be dropped if this process opened and closed the folder's files by
        // other means.
        database::open_to_write(folder).map(|database| drop(database.for_once())).map_err(HistoryError::from)
    }

    /// Opens the history for reading; `None` when there is no history yet.
    ///
    /// # Errors
    /// [`HistoryError::State`] or [`HistoryError::Database`] when the state folder or the database cannot be
    /// used.
    pub fn open_to_read(folder: &StateFolder) -> Result<Option<Self>, HistoryError> {
        if waiting::is_any(folder)
            && let Err(error) = Self::open(folder)
        {
            tracing::debug!("runs that ended lately stay outside of the database: {error}");
            return waiting::beside(folder);
        }
        let opened = database::open_to_read(folder)?.filter(|(_, form)| *form > 0);
        Ok(opened.map(|(database, _)| Self { database, path: folder.database() }))
    }

    fn bad(&self, error: rusqlite::Error) -> HistoryError {
        HistoryError::Database(DatabaseError::Sqlite { path: self.path.clone(), error })
    }

    /// Records a run, and removes the oldest runs beyond the maximum.
    ///
    /// # Errors
    /// [`HistoryError::Database`] when SQLite fails.
    pub fn add(&self, run: &Stored, outcome: &RunReport) -> Result<(), HistoryError> {
        let row = params![
            run.id,
            micros_since_1970(run.started),
            json(&run.command),
            cause_name(outcome.cause),
            outcome.exit_code,
            json(&outcome.usage),
            json(&Kept::of(outcome)),
        ];
        retry_while_busy(|| {
            transaction(&self.database, || {
                self.database.execute(
                    "INSERT INTO runs (id, started, command, cause, exit_code, usage, outcome)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                    row,
                )?;
                let last = self.database.last_insert_rowid();
                self.database.execute("DELETE FROM runs WHERE seq <= ?1", [last - MAX_RUNS])
            })
        })
        .map_err(|error| self.bad(error))
        .map(drop)
    }

    /// All runs, newest first.
    ///
    /// # Errors
    /// [`HistoryError::Database`] when SQLite fails.
    pub fn list(&self) -> Result<Vec<RunRow>, HistoryError> {
        let read = || {
            let mut statement = self.database.prepare(
                "SELECT id, started, command, cause, exit_code, usage FROM runs ORDER BY seq DESC",
            )?;
            statement.query_map([], page::read)?.collect::<Result<Vec<_>, _>>()
        };
        retry_while_busy(read).map_err(|error| self.bad(error))
    }

    /// Outcome of a run, by its id or a prefix of it.
    ///
    /// # Errors
    /// [`HistoryError::NoSuchRun`] when no run matches, [`HistoryError::Ambiguous`] when several do,
    /// [`HistoryError::Database`] when SQLite fails.
    pub fn show(&self, id: &str) -> Result<RunReport, HistoryError> {
        self.read(id).map(|(_, outcome)| outcome)
    }

    /// Requests of a run, by its id or a prefix of it.
    ///
    /// # Errors
    /// Like [`History::show`].
    pub fn requests(&self, id: &str) -> Result<RequestList, HistoryError> {
        let (id, kept) = self.read::<KeptRequests>(id)?;
        let counts = kept.requests.unwrap_or_default();
        Ok(RequestList {
            schema: REQUESTS_SCHEMA.to_owned(),
            id,
            secrets: counts.secrets,
            plain: counts.plain,
            left_out: counts.left_out,
            requests: kept.request_rows.into_iter().map(RequestReport::from).collect(),
        })
    }

    /// Whole id and outcome of a run, read as `T`.
    fn read<T: serde::de::DeserializeOwned>(&self, id: &str) -> Result<(String, T), HistoryError> {
        if id.is_empty() || !id.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(HistoryError::NoSuchRun(id.to_owned()));
        }
        let id = id.to_ascii_lowercase();
        let find = || {
            let mut statement = self.database.prepare(
                "SELECT id FROM runs WHERE substr(id, 1, length(?1)) = ?1 ORDER BY seq DESC LIMIT 6",
            )?;
            let found = statement.query_map([&id], |row| row.get(0))?;
            found.collect::<Result<Vec<String>, _>>()
        };
        let mut found = retry_while_busy(find).map_err(|error| self.bad(error))?;
        if found.len() > 1 {
            return Err(HistoryError::Ambiguous { id, among: found });
        }
        let Some(whole) = found.pop() else { return Err(HistoryError::NoSuchRun(id)) };
        let read = || {
            self.database
                .query_row("SELECT outcome FROM runs WHERE id = ?1", [&whole], |row| row.get::<_, String>(0))
                .optional()
        };
        let text = retry_while_busy(read).map_err(|error| self.bad(error))?;
        let text = text.ok_or(HistoryError::NoSuchRun(id))?;
        let read = serde_json::from_str(&text);
        read.map(|read| (whole, read))
            .map_err(|e| self.bad(rusqlite::Error::ToSqlConversionFailure(e.into())))
    }
}

/// A stored outcome, with the rows that it counts only.
#[derive(Serialize)]
struct Kept {
    #[serde(flatten)]
    outcome: RunReport,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    request_rows: Vec<RequestRow>,
}

impl Kept {
    fn of(outcome: &RunReport) -> Self {
        let rows = outcome.requests.as_ref().map(|requests| requests.rows.clone()).unwrap_or_default();
        Self { outcome: bounded(outcome), request_rows: rows }
    }
}

/// The part of a stored outcome about requests.
#[derive(Default, Deserialize)]
#[serde(default)]
struct KeptRequests {
    requests: Option<hotcell_sandbox::outcome::Requests>,
    request_rows: Vec<RequestRow>,
}

/// A value as JSON text for a column.
fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

fn cause_name(cause: Cause) -> String {
    match serde_json::to_value(cause) {
        Ok(serde_json::Value::String(name)) => name,
        _ => "internal".to_owned(),
    }
}

/// The outcome with its streams shortened to their beginning and end.
pub fn bounded(outcome: &RunReport) -> RunReport {
    let mut kept = outcome.clone();
    (kept.stdout, kept.stderr) = (shorter(&outcome.stdout), shorter(&outcome.stderr));
    kept
}

fn shorter(output: &Output) -> Output {
    let kept = output.to_bytes();
    if kept.len() <= MAX_STREAM_BYTES {
        return output.clone();
    }
    let half = MAX_STREAM_BYTES / 2;
    // Cut text at character boundaries, so that it stays text.
    let (mut head, mut tail) = (half, kept.len() - half);
    if let Some(text) = &output.text {
        head = text.floor_char_boundary(head);
        tail = text.ceil_char_boundary(tail);
    }
    Output::new([&kept[..head], &kept[tail..]].concat(), output.bytes)
}

/// A new random id of twelve hexadecimal digits.
fn fresh_id() -> String {
    use std::hash::{BuildHasher, Hasher};
    // The keys come from the kernel's random numbers, once per thread, and differ for each hasher.
    let mut hasher = std::hash::RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    format!("{:012x}", hasher.finish() & 0xffff_ffff_ffff)
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    fn folder() -> (tempfile::TempDir, StateFolder) {
        let dir = tempfile::tempdir().unwrap();
        let folder = StateFolder::open(&dir.path().join("state")).unwrap();
        (dir, folder)
    }

    fn outcome(text: &str) -> RunReport {
        let mut outcome = RunReport::without_a_run(Cause::Exited, "");
        (outcome.reason, outcome.exit_code) = (None, Some(0));
        outcome.stdout = Output::new(text.as_bytes().to_vec(), text.len() as u64);
        outcome
    }

    fn run(id: &str) -> Stored {
        Stored { id: id.to_owned(), ..Stored::begin(vec!["true".to_owned()]) }
    }

    #[test]
    fn history_entry_is_found_by_id_prefix() {
        let (_dir, folder) = folder();
        assert!(History::open_to_read(&folder).unwrap().is_none());
        let history = History::open(&folder).unwrap();
        history.add(&run("aa11"), &outcome("one")).unwrap();
        history.add(&run("aa22"), &outcome("two")).unwrap();
        let history = History::open_to_read(&folder).unwrap().unwrap();
        let ids: Vec<_> = history.list().unwrap().into_iter().map(|row| row.id).collect();
        assert_eq!(ids, ["aa22", "aa11"]);
        assert_eq!(history.show("AA2").unwrap().stdout.text.as_deref(), Some("two"));
        assert!(matches!(history.show("aa"), Err(HistoryError::Ambiguous { among, .. }) if among.len() == 2));
        for id in ["b", "", "%", "aa11'", "zz"] {
            assert!(matches!(history.show(id), Err(HistoryError::NoSuchRun(_))), "{id}");
        }
    }

    #[test]
    fn history_keeps_newest_rows() {
        let (_dir, folder) = folder();
        let history = History::open(&folder).unwrap();
        for n in 0..MAX_RUNS + 5 {
            history.add(&run(&format!("{n:06x}")), &outcome("")).unwrap();
        }
        let rows = history.list().unwrap();
        assert_eq!(rows.len(), usize::try_from(MAX_RUNS).unwrap());
        assert_eq!(rows.last().unwrap().id, "000005");
    }

    #[test]
    fn long_output_loses_its_middle() {
        let long = format!("{}é{}", "a".repeat(MAX_STREAM_BYTES / 2 - 1), "b".repeat(MAX_STREAM_BYTES));
        let short = shorter(&Output::new(long.clone().into_bytes(), long.len() as u64));
        assert!(short.truncated && short.text.as_ref().unwrap().len() <= MAX_STREAM_BYTES, "{short:?}");
        assert_eq!(short.bytes, long.len() as u64);
        let raw = shorter(&Output::new(vec![0xff; MAX_STREAM_BYTES * 2], 5_000_000));
        assert!(raw.base64.is_some() && raw.to_bytes().len() == MAX_STREAM_BYTES && raw.bytes == 5_000_000);
    }

    #[test]
    fn newer_database_version_is_refused() {
        let (_dir, folder) = folder();
        drop(History::open(&folder).unwrap());
        let database = Connection::open(folder.database()).unwrap();
        let newer = crate::database::VERSION + 1;
        database.pragma_update(None, "user_version", newer).unwrap();
        drop(database);
        let error = History::open(&folder).unwrap_err();
        assert!(
            matches!(error, HistoryError::Database(DatabaseError::Newer { found, .. }) if found == newer),
            "{error}"
        );
    }

    #[test]
    fn invalid_database_file_is_an_error() {
        let (_dir, folder) = folder();
        std::fs::write(folder.database(), "not a database, but long enough to have a header".repeat(20))
            .unwrap();
        let error = History::open(&folder).unwrap_err().to_string();
        assert!(error.contains("cannot be used"), "{error}");
    }

    #[test]
    fn concurrent_history_writers_lose_no_row() {
        let (_dir, folder) = folder();
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let folder = &folder;
                scope.spawn(move || {
                    for n in 0..10 {
                        let history = History::open(folder).unwrap();
                        history.add(&run(&format!("{writer:02x}{n:02x}")), &outcome("x")).unwrap();
                    }
                });
            }
        });
        assert_eq!(History::open(&folder).unwrap().list().unwrap().len(), 80);
    }
}
