//! Runs that wait for the database: a command that ends appends its run to one file, and the next process that opens the history moves them.
//!
//! A process that opens SQLite for one row reads the log and the schema again, some 150 reads for which its user
//! would wait. The file's lock (`flock(2)`) is held while a record is written and while records are moved, so that none is lost
//! or seen in part. A process that is killed leaves at most a part of its own record, which the next one separates by a newline.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use cap_std::fs::{OpenOptions, OpenOptionsExt};
use hotcell_report::RunReport;
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

use super::{History, HistoryError, Kept, MAX_RUNS, Stored, cause_name, json};
use crate::database::{retry_while_busy, transaction};
use crate::state::{DATABASE, StateError, StateFolder};
use crate::time::micros_since_1970;

/// Size of the file, in bytes, from which on the next run moves its records into the database.
const MANY_BYTES: u64 = 256 * 1024;
/// Maximum size of the file, in bytes, when its records cannot be moved.
const MAX_BYTES: u64 = 4 * 1024 * 1024;
/// Version of a record's form.
const VERSION: u32 = 1;

/// A run as a row of the database.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Record {
    v: u32,
    id: String,
    started: i64,
    command: String,
    cause: String,
    exit_code: Option<i32>,
    usage: String,
    outcome: String,
}

impl Record {
    fn of(run: &Stored, outcome: &RunReport) -> Self {
        Self {
            v: VERSION,
            id: run.id.clone(),
            started: micros_since_1970(run.started),
            command: json(&run.command),
            cause: cause_name(outcome.cause),
            exit_code: outcome.exit_code,
            usage: json(&outcome.usage),
            outcome: json(&Kept::of(outcome)),
        }
    }
}

fn name() -> String {
    format!("{DATABASE}-runs")
}

/// Whether a run waits.
pub(super) fn is_any(folder: &StateFolder) -> bool {
    folder.dir().symlink_metadata(name()).is_ok_and(|file| file.is_file() && file.len() > 0)
}

/// Appends a run, after moving the earlier ones if there are many.
///
/// # Errors
/// [`HistoryError::State`] when the file cannot be written, and the error of moving when the file is full.
pub(super) fn append(folder: &StateFolder, run: &Stored, outcome: &RunReport) -> Result<(), HistoryError> {
    let bad = |error| {
        HistoryError::State(StateError::Io { path: folder.path().into(), what: "cannot be written", error })
    };
    let mut file = open(folder, Way::Append).map_err(bad)?;
    let mut size = file.metadata().map_err(bad)?.len();
    if size >= MANY_BYTES {
        // Opening the history moves the records, for which it takes the lock.
        drop(file);
        let moved = History::open(folder).map(drop);
        file = open(folder, Way::Append).map_err(bad)?;
        size = file.metadata().map_err(bad)?.len();
        if size >= MAX_BYTES {
            moved?;
            return Err(bad(io::Error::other(format!(
                "{} is full, and another process holds the database",
                name()
            ))));
        }
    }
    write(&file, size, run, outcome).map_err(bad)
}

/// True when the next [`append`] moves no records.
pub(super) fn is_few(folder: &StateFolder) -> bool {
    match folder.dir().symlink_metadata(name()) {
        Ok(file) => file.len() < MANY_BYTES,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Appends a run without moving earlier ones.
///
/// # Errors
/// When the file cannot be written, or is full.
pub(super) fn append_alone(
    folder: &StateFolder,
    run: &Stored,
    outcome: &RunReport,
) -> Result<(), StateError> {
    let bad = |error| StateError::Io { path: folder.path().into(), what: "cannot be written", error };
    let file = open(folder, Way::Append).map_err(bad)?;
    let size = file.metadata().map_err(bad)?.len();
    if size >= MAX_BYTES {
        return Err(bad(io::Error::other(format!("{} is full", name()))));
    }
    write(&file, size, run, outcome).map_err(bad)
}

/// Writes a record behind those of this size.
fn write(mut file: &File, size: u64, run: &Stored, outcome: &RunReport) -> io::Result<()> {
    // A part of a record that a killed process left ends here.
    let record = format!("\n{}", json(&Record::of(run, outcome)));
    file.write_all(record.as_bytes()).inspect_err(|_| {
        // Without the part that was written.
        let _ = file.set_len(size);
    })
}

/// Moves all records into the database.
///
/// # Errors
/// When the file or the database fails. Records stay in the file then.
pub(super) fn take_in(folder: &StateFolder, database: &Connection) -> Result<(), HistoryError> {
    if !is_any(folder) {
        return Ok(());
    }
    let bad = |error| {
        HistoryError::State(StateError::Io { path: folder.path().into(), what: "cannot be read", error })
    };
    let file = open(folder, Way::Move).map_err(bad)?;
    let records = all(&file).map_err(bad)?;
    if records.is_empty() {
        return file.set_len(0).map_err(bad);
    }
    insert(database, &records).map_err(|error| {
        HistoryError::Database(crate::database::DatabaseError::Sqlite { path: folder.database(), error })
    })?;
    // A process that is killed here leaves records that are in the database: they are not added again.
    file.set_len(0).map_err(bad)
}

/// The history for reading where records cannot be moved, as on a full or read-only file system: a connection of its own sees them behind
/// the rows of the database. `None` when there is neither.
///
/// # Errors
/// When the file or the database cannot be read.
pub(super) fn beside(folder: &StateFolder) -> Result<Option<History>, HistoryError> {
    let path = folder.database();
    let bad = |error| {
        HistoryError::State(StateError::Io { path: folder.path().into(), what: "cannot be read", error })
    };
    let of_sqlite =
        |error| HistoryError::Database(crate::database::DatabaseError::Sqlite { path: path.clone(), error });
    let file = open(folder, Way::Read).map_err(bad)?;
    let records = all(&file).map_err(bad)?;
    let database = match crate::database::open_to_read(folder)?.filter(|(_, form)| *form > 0) {
        Some((database, _)) => {
            let database = database.for_once();
            retry_while_busy(|| {
                database.execute_batch(
                    "PRAGMA query_only = 0; PRAGMA temp_store = MEMORY;
                     CREATE TEMP TABLE waiting AS SELECT * FROM main.runs WHERE 0;",
                )?;
                add(&database, "temp.waiting", &records)?;
                database.execute_batch(
                    "UPDATE temp.waiting SET seq = rowid + (SELECT coalesce(max(seq), 0) FROM main.runs);
                     CREATE TEMP VIEW runs AS SELECT * FROM main.runs UNION ALL SELECT * FROM temp.waiting;
                     PRAGMA query_only = 1;",
                )
            })
            .map_err(of_sqlite)?;
            database
        }
        None if records.is_empty() => return Ok(None),
        None => {
            let memory = Connection::open_in_memory().map_err(of_sqlite)?;
            memory.execute_batch(include_str!("../database/runs.sql")).map_err(of_sqlite)?;
            insert(&memory, &records).map_err(of_sqlite)?;
            crate::database::PooledConnection::alone(memory)
        }
    };
    Ok(Some(History { database, path }))
}

/// Use of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Append,
    Move,
    Read,
}

/// Opens the file and takes its lock, which closing it releases.
fn open(folder: &StateFolder, way: Way) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(way != Way::Read).create(way == Way::Append).mode(0o600);
    let file = folder.dir().open_with(name(), &options)?.into_std();
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{} is not a file", name())));
    }
    file.lock()?;
    Ok(file)
}

/// All records of the open file.
fn all(mut file: &File) -> io::Result<Vec<Record>> {
    let mut text = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut text)?;
    let (records, broken) = records(&text);
    if broken > 0 {
        tracing::warn!("{broken} runs are not in the history: their records are not whole");
    }
    Ok(records)
}

/// The records in the text of the file, and the number of other lines. Pure.
fn records(text: &[u8]) -> (Vec<Record>, usize) {
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let mut broken = 0;
    let read = lines.filter_map(|line| match serde_json::from_slice::<Record>(line) {
        Ok(record) if record.v == VERSION => Some(record),
        _ => {
            broken += 1;
            None
        }
    });
    (read.collect(), broken)
}

/// Adds the records that the database does not have, in one transaction, and removes the oldest runs beyond the maximum.
fn insert(database: &Connection, records: &[Record]) -> rusqlite::Result<()> {
    retry_while_busy(|| {
        transaction(database, || {
            add(database, "main.runs", records)?;
            database
                .execute("DELETE FROM runs WHERE seq <= (SELECT max(seq) FROM runs) - ?1", [MAX_RUNS])
                .map(drop)
        })
    })
}

/// Adds the records that the database does not have to a table.
fn add(database: &Connection, table: &str, records: &[Record]) -> rusqlite::Result<()> {
    let mut add = database.prepare(&format!(
        "INSERT INTO {table} (id, started, command, cause, exit_code, usage, outcome)
         SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 WHERE NOT EXISTS (SELECT 1 FROM main.runs WHERE id = ?1)"
    ))?;
    for one in records {
        add.execute(params![
            one.id,
            one.started,
            one.command,
            one.cause,
            one.exit_code,
            one.usage,
            one.outcome
        ])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcell_sandbox::outcome::Cause;

    fn folder() -> (tempfile::TempDir, StateFolder) {
        let dir = tempfile::tempdir().unwrap();
        let folder = StateFolder::open(&dir.path().join("state")).unwrap();
        (dir, folder)
    }

    fn run(id: &str) -> Stored {
        Stored { id: id.to_owned(), ..Stored::begin(vec!["echo".to_owned(), "a\nb".to_owned()]) }
    }

    fn outcome(text: &str) -> RunReport {
        let mut outcome = RunReport::without_a_run(Cause::Exited, "");
        outcome.stdout = hotcell_sandbox::outcome::Output::new(text.into(), text.len() as u64);
        outcome
    }

    fn ids(folder: &StateFolder) -> Vec<String> {
        History::open_to_read(folder)
            .unwrap()
            .unwrap()
            .list()
            .unwrap()
            .into_iter()
            .map(|row| row.id)
            .collect()
    }

    fn size(folder: &StateFolder) -> u64 {
        folder.dir().symlink_metadata(name()).unwrap().len()
    }

    #[test]
    fn appended_runs_are_listed_in_order_and_moved_once() {
        use cap_std::fs::MetadataExt;
        let (_dir, folder) = folder();
        for id in ["aa11", "aa22"] {
            History::note(&folder, &run(id), &outcome("x")).unwrap();
        }
        assert!(folder.database_id().is_none(), "no database is opened for them");
        assert_eq!(folder.dir().symlink_metadata(name()).unwrap().mode() & 0o777, 0o600);
        assert_eq!(ids(&folder), ["aa22", "aa11"]);
        assert_eq!(size(&folder), 0);
        History::open(&folder).unwrap().add(&run("aa33"), &outcome("")).unwrap();
        History::note(&folder, &run("aa44"), &outcome("")).unwrap();
        let history = History::open(&folder).unwrap();
        history.add(&run("aa55"), &outcome("")).unwrap();
        assert_eq!(ids(&folder), ["aa55", "aa44", "aa33", "aa22", "aa11"]);
        assert_eq!(history.show("aa11").unwrap().stdout.text.as_deref(), Some("x"));
    }

    #[test]
    fn records_of_killed_processes_are_separated() {
        let whole = |id: &str| format!("\n{}", json(&Record::of(&run(id), &outcome(""))));
        for (text, want, want_broken) in [
            (String::new(), vec![], 0),
            (whole("a1"), vec!["a1"], 0),
            (whole("a1") + &whole("a2"), vec!["a1", "a2"], 0),
            (whole("a1") + &whole("a2")[..20] + &whole("a3"), vec!["a1", "a3"], 1),
            ("\0\0\0".to_owned() + &whole("a1"), vec!["a1"], 1),
            (whole("a1").replace("\"v\":1", "\"v\":2"), vec![], 1),
        ] {
            let (found, broken) = records(text.as_bytes());
            let found: Vec<_> = found.iter().map(|record| record.id.as_str()).collect();
            assert_eq!((found, broken), (want, want_broken), "{text}");
        }
    }

    /// As after a process that was killed between the commit and the removal of the records.
    #[test]
    fn records_that_are_in_the_database_are_not_added_again() {
        let (_dir, folder) = folder();
        History::note(&folder, &run("aa11"), &outcome("")).unwrap();
        let text = folder.dir().read(name()).unwrap();
        assert_eq!(ids(&folder), ["aa11"]);
        folder.dir().write(name(), text).unwrap();
        History::note(&folder, &run("aa22"), &outcome("")).unwrap();
        assert_eq!(ids(&folder), ["aa22", "aa11"]);
        let database = Connection::open(folder.database()).unwrap();
        let last: i64 = database.query_row("SELECT max(seq) FROM runs", [], |row| row.get(0)).unwrap();
        assert_eq!(last, 2, "rows have no gaps");
    }

    #[test]
    fn many_runs_are_moved_by_the_next_and_a_full_file_takes_no_more() {
        let (_dir, folder) = folder();
        let long = outcome(&"x".repeat(20_000));
        for n in 0..20 {
            History::note(&folder, &run(&format!("{n:04x}")), &long).unwrap();
        }
        assert!(size(&folder) < MANY_BYTES && History::has_room(&folder), "{}", size(&folder));
        assert_eq!(ids(&folder).len(), 20);
        // A newer hotcell's database: its runs wait for it, up to a bound.
        let database = Connection::open(folder.database()).unwrap();
        database.pragma_update(None, "user_version", crate::database::VERSION + 1).unwrap();
        let full = (0..1000).find_map(|n| History::note(&folder, &run(&format!("b{n:04x}")), &long).err());
        let full = full.expect("the file is bounded").to_string();
        assert!(full.contains("newer hotcell"), "{full}");
        assert!(size(&folder) < MAX_BYTES + 64 * 1024);
    }

    #[test]
    fn concurrent_processes_lose_no_run() {
        let (_dir, folder) = folder();
        std::thread::scope(|scope| {
            for writer in 0..6 {
                let folder = &folder;
                scope.spawn(move || {
                    for n in 0..20 {
                        History::note(folder, &run(&format!("{writer:02x}{n:02x}")), &outcome("x")).unwrap();
                        if n % 7 == writer {
                            ids(folder);
                        }
                    }
                });
            }
        });
        assert_eq!(ids(&folder).len(), 120);
    }

    /// As on a full or read-only file system.
    #[test]
    fn runs_that_cannot_be_moved_are_listed() {
        let (_dir, folder) = folder();
        let listed = || {
            let history = beside(&folder).unwrap().unwrap();
            assert_eq!(history.show("bb").unwrap().stdout.text.as_deref(), Some("x"));
            history.list().unwrap().into_iter().map(|row| row.id).collect::<Vec<_>>()
        };
        History::note(&folder, &run("bb22"), &outcome("x")).unwrap();
        assert_eq!(listed(), ["bb22"], "without a database");
        let text = folder.dir().read(name()).unwrap();
        History::open(&folder).unwrap().add(&run("aa11"), &outcome("")).unwrap();
        folder.dir().write(name(), text).unwrap();
        History::note(&folder, &run("cc33"), &outcome("")).unwrap();
        assert_eq!(listed(), ["cc33", "aa11", "bb22"]);
        assert!(size(&folder) > 0, "nothing is moved");
        assert_eq!(ids(&folder), ["cc33", "aa11", "bb22"]);
    }

    #[test]
    fn program_without_the_database_adds_runs_where_few_wait() {
        let (_dir, folder) = folder();
        assert!(History::has_room(&folder));
        History::note_alone(&folder, &run("aa11"), &outcome("x")).unwrap();
        History::note(&folder, &run("aa22"), &outcome("x")).unwrap();
        History::note_alone(&folder, &run("aa33"), &outcome("x")).unwrap();
        assert_eq!(ids(&folder), ["aa33", "aa22", "aa11"]);
        let long = outcome(&"x".repeat(20_000));
        let full =
            (0..1000).find_map(|n| History::note_alone(&folder, &run(&format!("b{n:04x}")), &long).err());
        assert!(full.expect("the file is bounded").to_string().contains("is full"));
        assert!(!History::has_room(&folder) && size(&folder) < MAX_BYTES + 64 * 1024);
    }

    #[test]
    fn unusable_file_is_an_error() {
        let (_dir, folder) = folder();
        folder.dir().create_dir(name()).unwrap();
        let error = History::note(&folder, &run("aa11"), &outcome("")).unwrap_err().to_string();
        assert!(error.contains("cannot be written"), "{error}");
    }
}
