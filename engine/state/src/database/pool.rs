//! Pool of open connections.
//!
//! Opening costs more than a query: SQLite reads the schema, and the first connection to a database reads its
//! whole log again (<https://sqlite.org/walformat.html>, recovery).

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hotcell_sandbox::FileId;
use rusqlite::Connection;

/// Maximum number of idle connections.
const MAX_IDLE_CONNECTIONS: usize = 4;

static ALL: Mutex<All> = Mutex::new(All { kept: Vec::new(), out: Vec::new() });

/// Connections of this process.
struct All {
    /// Idle connections, the most recently used last.
    kept: Vec<Kept>,
    /// Connections in use, by number.
    out: Vec<(u64, Of)>,
}

impl All {
    /// Tells if the same file is also open with another log: SQLite then uses one index for both, that of the
    /// older log.
    fn has_another_log(&self, of: &Of) -> bool {
        let another = |one: &Of| one.path == of.path && one.id == of.id && one.log != of.log;
        self.kept.iter().any(|one| another(&one.of)) || self.out.iter().any(|(_, one)| another(one))
    }
}

fn all() -> MutexGuard<'static, All> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
struct Kept {
    of: Of,
    number: u64,
    connection: Connection,
}

/// Identity of a database: it stays distinct when another file gets its name, or when its log is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Of {
    pub path: PathBuf,
    pub id: FileId,
    pub log: Option<FileId>,
    /// True for a connection that may write.
    pub writes: bool,
}

/// A connection that returns to the pool when this is dropped.
#[derive(Debug)]
pub struct PooledConnection {
    /// `Some` until this is dropped.
    connection: Option<Connection>,
    kept: Option<Of>,
    number: u64,
}

/// Version of the data as a connection last saw it: while it stays equal, no other connection has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataVersion {
    number: u64,
    version: i64,
}

impl Deref for PooledConnection {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        match &self.connection {
            Some(connection) => connection,
            None => unreachable!("it is taken out when it is dropped"),
        }
    }
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        let mut all = all();
        if let (Some(connection), Some(of)) = (self.connection.take(), self.kept.take())
            // A connection inside a transaction would go on seeing old data.
            && connection.is_autocommit()
        {
            all.kept.push(Kept { of, number: self.number, connection });
        }
        if all.kept.len() > MAX_IDLE_CONNECTIONS {
            all.kept.remove(0);
        }
        // Connections that left the pool above are closed by now.
        all.out.retain(|(number, _)| *number != self.number);
    }
}

impl PooledConnection {
    /// Wraps a new connection; it is pooled when its identity is known.
    pub fn new(connection: Connection, of: Option<Of>) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let mut all = all();
        let alone = of.as_ref().is_none_or(|of| !all.has_another_log(of));
        // This connection uses the index of another log, which does not make the other connections unfit for
        // the pool.
        let told = of.clone().map(|of| if alone { of } else { Of { log: None, ..of } });
        all.out.extend(told.map(|of| (number, of)));
        Self { connection: Some(connection), kept: of.filter(|_| alone), number }
    }

    /// Wraps a connection to no file, which is never pooled.
    pub fn alone(connection: Connection) -> Self {
        Self::new(connection, None)
    }

    /// Closes this connection, instead of pooling it, when it is dropped.
    pub fn for_once(mut self) -> Self {
        self.kept = None;
        self
    }

    /// Takes an idle connection out of the pool. Idle connections to a database that was replaced, or that
    /// lost its log, are closed.
    pub fn again(of: &Of) -> Option<Self> {
        let mut all = all();
        all.kept.retain(|one| one.of.path != of.path || (one.of.id, one.of.log) == (of.id, of.log));
        let at = all.kept.iter().rposition(|one| one.of == *of)?;
        let Kept { of, number, connection } = all.kept.remove(at);
        all.out.push((number, of.clone()));
        Some(Self { connection: Some(connection), kept: Some(of), number })
    }

    /// Current version of the data. <https://sqlite.org/pragma.html#pragma_data_version>
    pub fn seen(&self) -> rusqlite::Result<DataVersion> {
        let version = self.pragma_query_value(None, "data_version", |row| row.get(0))?;
        Ok(DataVersion { number: self.number, version })
    }
}
