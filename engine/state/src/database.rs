//! The database in the state folder: how it is opened, and the history of its schema.
//!
//! Many processes use it at once: hence WAL, a busy timeout, and no checkpoint on closing, so that no process
//! waits for one when it ends. Within a process, connections stay open (`lent`).
//!
//! A commit that finds a long log runs a checkpoint. SQLite's automatic checkpoint does not work here: every new process reads the log again, does not
//! know which part is in the database already, and never restarts the log.

use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::{ErrorCode, OpenFlags, ffi};

mod pool;

pub use crate::database::pool::{DataVersion, PooledConnection};

use crate::state::{StateError, StateFolder};

/// SQL that makes each form (`PRAGMA user_version`) out of the one before.
const FORMS: [&str; 9] = [
    include_str!("database/runs.sql"),
    include_str!("database/quarantine.sql"),
    include_str!("database/tools.sql"),
    include_str!("database/approvals.sql"),
    include_str!("database/tasks.sql"),
    include_str!("database/offers.sql"),
    include_str!("database/model_calls.sql"),
    include_str!("database/agents.sql"),
    include_str!("database/receipts.sql"),
];
/// Schema version of this build.
pub const VERSION: i64 = FORMS.len() as i64;
/// Size of the log, in bytes, that triggers a checkpoint. Opening the database reads the whole log, which
/// takes about 0.15 ms for this size.
const MAX_LOG_BYTES: u64 = 256 * 1024;
/// Time limit for waiting while another process holds the database.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(3);

/// Error of opening the database.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// The state folder cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// SQLite failed.
    #[error("{} cannot be used: {error}", path.display())]
    Sqlite {
        /// The database file.
        path: PathBuf,
        /// Error of SQLite.
        error: rusqlite::Error,
    },
    /// The database was written by a newer hotcell.
    #[error(
        "{} was written by a newer hotcell (form {found}, this one knows {VERSION}); use that one, \
         or name another folder with ‹state=DIR›", path.display()
    )]
    Newer {
        /// The database file.
        path: PathBuf,
        /// Schema version found.
        found: i64,
    },
}

/// Opens the database for writing, and creates it when it is missing.
pub fn open_to_write(folder: &StateFolder) -> Result<PooledConnection, DatabaseError> {
    folder.touch_database()?;
    let usual = "PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 0;";
    if let Some((lent, VERSION)) = again(folder, true)
        && retry_while_busy(|| lent.execute_batch(usual)).is_ok()
    {
        return Ok(lent);
    }
    let (lent, _) = open(folder, true, |database| {
        // SQLite falls back to read-only when it cannot open a file for writing.
        if database.is_readonly("main")? {
            return Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_READONLY), None));
        }
        if version(database)? < VERSION {
            migrate(database)?;
        }
        database.execute_batch(usual)
    })?;
    Ok(lent)
}

/// Opens the database for reading and returns its schema version; `None` when there is no database yet. A
/// process that was stopped before it created the tables leaves version 0.
///
/// The file is opened read-write although the connection writes nothing: opened read-only, SQLite fails
/// (`SQLITE_READONLY_ROLLBACK`) while there is a journal to roll back, and it takes the journal of a database
/// that is just being created for such a journal.
pub fn open_to_read(folder: &StateFolder) -> Result<Option<(PooledConnection, i64)>, DatabaseError> {
    if folder.database_id().is_none() {
        return Ok(None);
    }
    match again(folder, false) {
        Some(found) => Ok(Some(found)),
        None => open(folder, false, |database| database.pragma_update(None, "query_only", true)).map(Some),
    }
}

/// Version of the data on an idle connection for reading, without waiting for other processes; `None` when
/// that is not possible at once.
pub fn seen_at_once(folder: &StateFolder) -> Option<DataVersion> {
    let lent = PooledConnection::again(&of(folder, false)?)?;
    let seen = lent.busy_timeout(Duration::ZERO).ok().and_then(|()| lent.seen().ok());
    if lent.busy_timeout(BUSY_TIMEOUT).is_err() {
        // The busy timeout is zero now, so it must not return to the pool.
        drop(lent.for_once());
    }
    seen
}

/// A pooled connection and the schema version. A pooled connection that fails does not prevent opening a new
/// one.
fn again(folder: &StateFolder, writes: bool) -> Option<(PooledConnection, i64)> {
    let lent = PooledConnection::again(&of(folder, writes)?)?;
    let found = retry_while_busy(|| version(&lent)).ok()?;
    (found <= VERSION).then_some((lent, found))
}

/// Identity of the database as it is now.
fn of(folder: &StateFolder, writes: bool) -> Option<crate::database::pool::Of> {
    Some(crate::database::pool::Of {
        path: folder.database(),
        id: folder.database_id()?,
        log: folder.log_id(),
        writes,
    })
}

fn open(
    folder: &StateFolder,
    writes: bool,
    prepare: impl Fn(&Connection) -> rusqlite::Result<()>,
) -> Result<(PooledConnection, i64), DatabaseError> {
    let path = folder.database();
    // Taken before opening: if the name is given to another file meanwhile, the identity does not match, and
    // the connection is not pooled as that file's.
    let before = of(folder, writes);
    let bad = |error| DatabaseError::Sqlite { path: path.clone(), error };
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let database = Connection::open_with_flags(&path, flags).map_err(bad)?;
    database.busy_timeout(BUSY_TIMEOUT).map_err(bad)?;
    database.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(bad)?;
    let found = retry_while_busy(|| version(&database)).map_err(bad)?;
    if found > VERSION {
        return Err(DatabaseError::Newer { path, found });
    }
    retry_while_busy(|| prepare(&database)).map_err(bad)?;
    // The first process that opens the database creates the log.
    let log = folder.log_id();
    let of = before
        .filter(|of| of.log.is_none() || of.log == log)
        .map(|of| crate::database::pool::Of { log, ..of });
    Ok((PooledConnection::new(database, of), found))
}

fn version(database: &Connection) -> rusqlite::Result<i64> {
    database.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Migrates to the newest schema, unless another process just did.
fn migrate(database: &Connection) -> rusqlite::Result<()> {
    database.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    transaction(database, || {
        let from = usize::try_from(version(database)?).unwrap_or(0);
        for form in FORMS.iter().skip(from) {
            database.execute_batch(form)?;
        }
        database.pragma_update(None, "user_version", VERSION)
    })
}

/// Runs `work` in a transaction that holds the write lock from its beginning, and empties a long log afterwards.
pub fn transaction<T, E: From<rusqlite::Error>>(
    database: &Connection,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    database.execute_batch("BEGIN IMMEDIATE")?;
    let done = work().and_then(|done| {
        database.execute_batch("COMMIT")?;
        Ok(done)
    });
    match &done {
        Ok(_) => empty_long_log(database),
        Err(_) => {
            let _ = database.execute_batch("ROLLBACK");
        }
    }
    done
}

/// Runs a checkpoint of a long log. The commit before it is safe already, so that it waits for no reader: a later commit tries again.
fn empty_long_log(database: &Connection) {
    let Some(log) = database.path().filter(|path| !path.is_empty()).map(|path| format!("{path}-wal")) else {
        return;
    };
    if !std::fs::metadata(log).is_ok_and(|log| log.len() > MAX_LOG_BYTES) {
        return;
    }
    let emptied = database
        .busy_timeout(Duration::ZERO)
        .and_then(|()| database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())));
    if let Err(error) = database.busy_timeout(BUSY_TIMEOUT).and(emptied) {
        tracing::debug!("the database's log is long and cannot be emptied now: {error}");
    }
}

/// Retries while another process holds the database: SQLite's busy timeout covers neither a change to WAL nor
/// the first read of a log that another process is recovering.
pub fn retry_while_busy<T>(attempt: impl Fn() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    let until = Instant::now() + BUSY_TIMEOUT;
    loop {
        match attempt() {
            Err(rusqlite::Error::SqliteFailure(e, _))
                if matches!(e.code, ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
                    && Instant::now() < until =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that was killed while it created the database leaves a journal.
    #[test]
    fn hot_journal_permits_reading_only() {
        let dir = tempfile::tempdir().unwrap();
        let made = dir.path().join("made");
        let writer = Connection::open(&made).unwrap();
        writer.execute_batch("PRAGMA cache_size = 1; CREATE TABLE t (a); BEGIN IMMEDIATE").unwrap();
        for _ in 0..40 {
            writer.execute("INSERT INTO t VALUES (randomblob(2000))", []).unwrap();
        }

        let folder = StateFolder::open(&dir.path().join("state")).unwrap();
        let journal = |path: &std::path::Path| PathBuf::from(format!("{}-journal", path.display()));
        std::fs::copy(journal(&made), journal(&folder.database())).unwrap();
        std::fs::copy(&made, folder.database()).unwrap();

        let (read, form) = open_to_read(&folder).unwrap().unwrap();
        assert_eq!(form, 0);
        assert_eq!(read.query_row("SELECT count(*) FROM t", [], |row| row.get(0)), Ok(0));
        assert!(read.execute("INSERT INTO t VALUES (1)", []).is_err(), "it was opened to read");
    }
    /// Adds rows as a process that ends after its commit does; returns the length of the log.
    fn add_by_processes(folder: &StateFolder, rows: u32, usual: &str) -> u64 {
        for _ in 0..rows {
            let database = open_to_write(folder).unwrap().for_once();
            database.execute_batch(usual).unwrap();
            let add = "INSERT INTO receipts VALUES (hex(randomblob(32)), 'a', hex(randomblob(1500)))";
            transaction(&database, || database.execute(add, [])).unwrap();
        }
        let log = std::fs::metadata(folder.path().join("hotcell.db-wal"));
        log.unwrap().len()
    }

    /// Each process that opens the database reads the whole log: any commit keeps it short, whatever table it writes.
    #[test]
    fn write_ahead_log_stays_short_across_processes() {
        for usual in ["", "PRAGMA synchronous = FULL"] {
            let dir = tempfile::tempdir().unwrap();
            let folder = StateFolder::open(&dir.path().join("state")).unwrap();
            let log = add_by_processes(&folder, 150, usual);
            assert!(log < 2 * MAX_LOG_BYTES, "{usual}: {log}");
            let (read, _) = open_to_read(&folder).unwrap().unwrap();
            let count = read.query_row("SELECT count(*) FROM receipts", [], |row| row.get(0));
            assert_eq!(count, Ok(150), "{usual}");
        }
    }

    /// A reader that stays at an old state keeps the log, and no commit waits for it.
    #[test]
    fn long_log_is_left_while_it_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let folder = StateFolder::open(&dir.path().join("state")).unwrap();
        add_by_processes(&folder, 1, "");
        let (read, _) = open_to_read(&folder).unwrap().unwrap();
        let count = |of: &Connection| of.query_row("SELECT count(*) FROM receipts", [], |row| row.get(0));
        read.execute_batch("BEGIN").unwrap();
        assert_eq!(count(&read), Ok(1));
        let began = Instant::now();
        assert!(add_by_processes(&folder, 60, "") > MAX_LOG_BYTES);
        assert!(began.elapsed() < BUSY_TIMEOUT * 3, "{:?}", began.elapsed());
        assert_eq!(count(&read), Ok(1));
        read.execute_batch("COMMIT").unwrap();
        assert_eq!(count(&read), Ok(61));
        assert!(add_by_processes(&folder, 2, "") < MAX_LOG_BYTES);
        assert_eq!(count(&read), Ok(63));
    }

    #[test]
    fn read_connection_is_reused_and_sees_writes() {
        let dir = tempfile::tempdir().unwrap();
        let folder = StateFolder::open(&dir.path().join("state")).unwrap();
        let count = |read: &PooledConnection| {
            read.query_row("SELECT count(*) FROM runs", [], |row| row.get::<_, i64>(0)).unwrap()
        };
        let add = |to: &PooledConnection| {
            to.execute_batch("INSERT INTO runs (id, started, command, cause, usage, outcome) VALUES (hex(randomblob(8)), 1, '[]', 'exited', '{}', '{}')").unwrap();
        };
        let writer = open_to_write(&folder).unwrap();
        let read = || open_to_read(&folder).unwrap().unwrap().0;

        let first = read();
        let (before, second) = (first.seen().unwrap(), read());
        assert_ne!(second.seen().unwrap(), before, "two at once are two");
        drop(second);
        drop(first);
        let again = read();
        assert_eq!((again.seen().unwrap(), count(&again)), (before, 0));
        add(&writer);
        assert_ne!(again.seen().unwrap(), before);
        assert_eq!(count(&again), 1);
        drop(again);

        // First the log is removed, then the database is replaced by another file of that name.
        writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        let held = read();
        drop(writer);
        for end in ["-wal", "-shm"] {
            std::fs::remove_file(format!("{}{end}", folder.database().display())).unwrap();
        }
        let (old, new) = (held.seen().unwrap(), read().seen().unwrap());
        assert_ne!(new, old);
        drop(held);
        let now = read().seen().unwrap();
        assert_ne!(now, new, "it had the index of the old log");
        assert_eq!((read().seen().unwrap(), count(&read())), (now, 1));
        for end in ["", "-wal", "-shm"] {
            std::fs::remove_file(format!("{}{end}", folder.database().display())).unwrap();
        }
        assert!(open_to_read(&folder).unwrap().is_none());
        add(&open_to_write(&folder).unwrap());
        add(&open_to_write(&folder).unwrap());
        assert_eq!(count(&read()), 2);
    }
}
