//! The audit log: a database row for each step, chained by digests, with the head of the chain also kept in a
//! file.
//!
//! Each row is added in the transaction that does the step. Triggers forbid other changes through SQL; the
//! chain ([`hotcell_guard::quarantine::Chain`]) reveals rows that were changed past them, the file reveals a
//! truncated log, and the last entry of each item is compared with the item. A user who can write the state
//! folder can still forge all of it: only a head digest noted elsewhere reveals that.

use hotcell_guard::quarantine::{Broken, Chain, Entry, Head};
use rusqlite::{Connection, Row, params};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::state::StateFolder;

mod head_file;

pub use head_file::{read as read_head, write as write_head};

/// Value of the `schema` field.
pub const SCHEMA: &str = "hotcell.audit/1";
/// File that holds the head of the log.
const HEAD: &str = "audit.head";
/// Triggers that protect the table; when they are missing, the log was tampered with.
const TRIGGERS: [&str; 2] = ["audit_no_delete", "audit_no_update"];

/// Audit log in the form `hotcell.audit/1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditLog {
    /// Always `hotcell.audit/1`.
    pub schema: String,
    /// Entries, newest last; empty when only the check was requested.
    pub entries: Vec<Entry>,
    /// Number of entries in the log.
    pub total: u64,
    /// Head of the log. A copy noted elsewhere reveals later if the log was forged.
    pub head: Option<Head>,
    /// Problem found; null when there is no problem, or no check was made.
    pub problem: Option<String>,
}

impl AuditLog {
    /// A log of these entries.
    #[must_use]
    pub fn new(entries: Vec<Entry>, total: u64) -> Self {
        let head = entries.last().map(Entry::head);
        Self { schema: SCHEMA.to_owned(), entries, total, head, problem: None }
    }
}

/// A table whose rows are in the log at each step.
pub trait Subject {
    /// Takes an entry when its `detail` is about a row of this table; false for another's.
    fn take(&mut self, entry: &Entry) -> bool;

    /// Compares each row with its last entry.
    ///
    /// # Errors
    /// [`Problem`] when a row differs from its last entry, is missing, or has no entry.
    fn compare(&mut self, database: &Connection) -> Result<(), Problem>;
}

/// Makes a [`Subject`] that took nothing yet.
pub type NewSubject = fn() -> Box<dyn Subject>;

/// SQL that adds an entry.
const ADD: &str = "INSERT INTO audit (seq, time_us, channel, actor, action, subject, detail, prev, hash)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
/// SQL that reads the head.
const LAST: &str = "SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1";

/// Compiles the statements of [`append`], which the connection keeps.
///
/// # Errors
/// When the schema cannot be read.
pub fn prepare(database: &Connection) -> rusqlite::Result<()> {
    [ADD, LAST].into_iter().try_for_each(|sql| database.prepare_cached(sql).map(drop))
}

/// Appends an entry; call this within the step's own transaction.
pub fn append(
    database: &Connection,
    now_us: i64,
    actor: &Actor,
    action: &str,
    subject: &str,
    after: &impl Serialize,
) -> rusqlite::Result<()> {
    let entry = Entry {
        seq: 0,
        time_us: now_us,
        channel: actor.channel.to_string(),
        actor: actor.to_string(),
        action: action.to_owned(),
        subject: subject.to_owned(),
        detail: serde_json::to_string(after)
            .map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))?,
        prev: String::new(),
        hash: String::new(),
    }
    .after(head(database)?.as_ref());
    let row = params![
        entry.seq,
        entry.time_us,
        entry.channel,
        entry.actor,
        entry.action,
        entry.subject,
        entry.detail,
        entry.prev,
        entry.hash
    ];
    database.prepare_cached(ADD)?.execute(row).map(drop)
}

/// Actors of an action on a subject over a channel, each once.
pub fn actors(
    database: &Connection,
    (action, subject): (&str, &str),
    channel: &str,
) -> rusqlite::Result<Vec<String>> {
    let query = "SELECT DISTINCT actor FROM audit WHERE action = ?1 AND subject = ?2 AND channel = ?3";
    database.prepare(query)?.query_map([action, subject, channel], |row| row.get(0))?.collect()
}

/// Head of the log in the database.
pub fn head(database: &Connection) -> rusqlite::Result<Option<Head>> {
    // A step asks for it four times.
    let mut last = database.prepare_cached(LAST)?;
    let mut rows = last.query_map([], |row| Ok(Head { seq: row.get(0)?, hash: row.get(1)? }))?;
    rows.next().transpose()
}

fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    Ok(Entry {
        seq: row.get(0)?,
        time_us: row.get(1)?,
        channel: row.get(2)?,
        actor: row.get(3)?,
        action: row.get(4)?,
        subject: row.get(5)?,
        detail: row.get(6)?,
        prev: row.get(7)?,
        hash: row.get(8)?,
    })
}

const COLUMNS: &str = "seq, time_us, channel, actor, action, subject, detail, prev, hash";

/// The last `most` entries, newest last.
pub fn last(database: &Connection, most: u64) -> rusqlite::Result<AuditLog> {
    let mut statement =
        database.prepare(&format!("SELECT {COLUMNS} FROM audit ORDER BY seq DESC LIMIT ?1"))?;
    let mut entries = statement.query_map([most], entry)?.collect::<Result<Vec<_>, _>>()?;
    entries.reverse();
    let total = database.query_row("SELECT count(*) FROM audit", [], |row| row.get(0))?;
    Ok(AuditLog::new(entries, total))
}

/// At most `most` entries of an action whose detail contains a text, newest last.
pub fn naming(database: &Connection, action: &str, text: &str, most: u64) -> rusqlite::Result<Vec<Entry>> {
    let mut statement = database.prepare(&format!(
        "SELECT {COLUMNS} FROM audit WHERE action = ?1 AND instr(detail, ?2) > 0 ORDER BY seq DESC LIMIT ?3"
    ))?;
    let mut entries =
        statement.query_map(params![action, text, most], entry)?.collect::<Result<Vec<_>, _>>()?;
    entries.reverse();
    Ok(entries)
}

/// Checks the whole log: the chain, its head against the file's and against `noted`, the triggers, and every
/// row of these subjects against its last entry. An entry is taken by the first subject that knows it. A problem that was found is in the `problem` field of the result.
pub fn verify(
    database: &Connection,
    folder: &StateFolder,
    noted: Option<&str>,
    subjects: &[NewSubject],
) -> rusqlite::Result<AuditLog> {
    let mut log = last(database, 0)?;
    log.head = head(database)?;
    log.problem = problem(database, folder, noted, log.total, subjects).err().map(|Problem(why)| why);
    Ok(log)
}

/// Why the log is not as it was written.
#[derive(Debug)]
pub struct Problem(pub String);

impl From<Broken> for Problem {
    fn from(broken: Broken) -> Self {
        Self(broken.to_string())
    }
}

impl From<rusqlite::Error> for Problem {
    fn from(error: rusqlite::Error) -> Self {
        Self(format!("the log cannot be read: {error}"))
    }
}

fn problem(
    database: &Connection,
    folder: &StateFolder,
    noted: Option<&str>,
    total: u64,
    subjects: &[NewSubject],
) -> Result<(), Problem> {
    let mut triggers = database.prepare(
        "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'audit' ORDER BY name",
    )?;
    let triggers = triggers.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
    if triggers != TRIGGERS {
        return Err(Problem("the triggers that forbid changes of the log are not there".to_owned()));
    }
    let known = match read_head(folder) {
        Ok(Some(head)) => vec![head],
        Ok(None) if total == 0 => Vec::new(),
        Ok(None) => return Err(Problem(format!("the file {HEAD} with the log's end is gone"))),
        Err(e) => return Err(Problem(format!("the file {HEAD} with the log's end cannot be read: {e}"))),
    };
    let mut subjects: Vec<Box<dyn Subject>> = subjects.iter().map(|new| new()).collect();
    let (mut unreadable, mut seen) = (None, noted.is_none());
    let mut statement = database.prepare(&format!("SELECT {COLUMNS} FROM audit ORDER BY seq"))?;
    let entries = statement.query_map([], entry)?.map_while(|entry| match entry {
        Ok(entry) => {
            // Entries of no subject tell of steps without a row.
            let _known = subjects.iter_mut().any(|subject| subject.take(&entry));
            seen |= noted.is_some_and(|noted| noted.eq_ignore_ascii_case(&entry.hash));
            Some(entry)
        }
        Err(error) => {
            unreadable = Some(error);
            None
        }
    });
    let checked = Chain::verify(entries, &known);
    if let Some(error) = unreadable {
        return Err(error.into());
    }
    checked?;
    if !seen {
        let why = "the digest that was noted is not in the log: it was made anew, or it is another log's";
        return Err(Problem(why.to_owned()));
    }
    subjects.iter_mut().try_for_each(|subject| subject.compare(database))
}

/// Tells if the file with the head exists.
pub fn has_head(folder: &StateFolder) -> bool {
    folder.dir().symlink_metadata(HEAD).is_ok()
}
