//! Connections that stay open for whoever comes next.
//!
//! Opening costs more than asking: SQLite reads the schema, and whoever finds that nobody has the database open reads its whole
//! log again (<https://sqlite.org/walformat.html>, recovery).

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use hotcell_sandbox::FileId;
use rusqlite::Connection;

/// How many stay open.
const MOST: usize = 4;

/// The last of them was used last.
static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct Kept {
    of: Of,
    number: u64,
    connection: Connection,
}

/// Which database, also where another has its name now, or its log was taken away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Of {
    pub path: PathBuf,
    pub id: FileId,
    pub log: Option<FileId>,
    /// Whether it may be written through the connection.
    pub writes: bool,
}

/// A connection; it is kept when this is dropped.
#[derive(Debug)]
pub(crate) struct Lent {
    /// Here until it is dropped.
    connection: Option<Connection>,
    kept: Option<Of>,
    number: u64,
}

/// What a connection saw last: as long as it is the same, nobody has written anything since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    number: u64,
    version: i64,
}

impl Deref for Lent {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        match &self.connection {
            Some(connection) => connection,
            None => unreachable!("it is taken out when it is dropped"),
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let (Some(connection), Some(of)) = (self.connection.take(), self.kept.take()) else { return };
        // One that is in the middle of something would see yesterday for ever.
        if !connection.is_autocommit() {
            return;
        }
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(Kept { of, number: self.number, connection });
        let oldest = (kept.len() > MOST).then(|| kept.remove(0));
        drop(kept);
        drop(oldest);
    }
}

impl Lent {
    /// A new one; kept where it is known of what.
    pub(super) fn new(connection: Connection, of: Option<Of>) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self { connection: Some(connection), kept: of, number: LAST.fetch_add(1, Ordering::Relaxed) }
    }

    /// Closed, not kept, when it is dropped.
    pub(crate) fn for_once(mut self) -> Self {
        self.kept = None;
        self
    }

    /// One that was kept. Those of a database that has lost its name, or its log, are closed.
    pub(super) fn again(of: &Of) -> Option<Self> {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let is_another =
            |one: &mut Kept| one.of.path == of.path && (one.of.id, one.of.log) != (of.id, of.log);
        let gone: Vec<Kept> = kept.extract_if(.., is_another).collect();
        let at = kept.iter().rposition(|one| one.of == *of);
        let found = at.map(|at| kept.remove(at));
        drop(kept);
        drop(gone);
        let Kept { of, number, connection } = found?;
        Some(Self { connection: Some(connection), kept: Some(of), number })
    }

    /// What it sees now. <https://sqlite.org/pragma.html#pragma_data_version>
    pub(crate) fn seen(&self) -> rusqlite::Result<Seen> {
        let version = self.pragma_query_value(None, "data_version", |row| row.get(0))?;
        Ok(Seen { number: self.number, version })
    }
}
