//! Connections that stay open for whoever comes next.
//!
//! Opening costs more than asking: SQLite reads the schema, and whoever finds that nobody has the database open reads its whole
//! log again (<https://sqlite.org/walformat.html>, recovery).

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hotcell_sandbox::FileId;
use rusqlite::Connection;

/// How many stay open.
const MOST: usize = 4;

static ALL: Mutex<All> = Mutex::new(All { kept: Vec::new(), out: Vec::new() });

/// What this process has open.
struct All {
    /// The last of them was used last.
    kept: Vec<Kept>,
    /// Those that somebody has, by their numbers.
    out: Vec<(u64, Of)>,
}

impl All {
    /// Whether the same file is open with another log: SQLite then has one index for both, that of the older.
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
        let mut all = all();
        if let (Some(connection), Some(of)) = (self.connection.take(), self.kept.take())
            // One that is in the middle of something would see yesterday for ever.
            && connection.is_autocommit()
        {
            all.kept.push(Kept { of, number: self.number, connection });
        }
        if all.kept.len() > MOST {
            all.kept.remove(0);
        }
        // What is closed is closed by now.
        all.out.retain(|(number, _)| *number != self.number);
    }
}

impl Lent {
    /// A new one; kept where it is known of what.
    pub(super) fn new(connection: Connection, of: Option<Of>) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let mut all = all();
        let alone = of.as_ref().is_none_or(|of| !all.has_another_log(of));
        // One that has the index of another log makes no other one fit to be kept.
        let told = of.clone().map(|of| if alone { of } else { Of { log: None, ..of } });
        all.out.extend(told.map(|of| (number, of)));
        Self { connection: Some(connection), kept: of.filter(|_| alone), number }
    }

    /// Closed, not kept, when it is dropped.
    pub(crate) fn for_once(mut self) -> Self {
        self.kept = None;
        self
    }

    /// One that was kept. Those of a database that has lost its name, or its log, are closed.
    pub(super) fn again(of: &Of) -> Option<Self> {
        let mut all = all();
        all.kept.retain(|one| one.of.path != of.path || (one.of.id, one.of.log) == (of.id, of.log));
        let at = all.kept.iter().rposition(|one| one.of == *of)?;
        let Kept { of, number, connection } = all.kept.remove(at);
        all.out.push((number, of.clone()));
        Some(Self { connection: Some(connection), kept: Some(of), number })
    }

    /// What it sees now. <https://sqlite.org/pragma.html#pragma_data_version>
    pub(crate) fn seen(&self) -> rusqlite::Result<Seen> {
        let version = self.pragma_query_value(None, "data_version", |row| row.get(0))?;
        Ok(Seen { number: self.number, version })
    }
}
