//! The journal: each event of a session is a row in the database of the state folder, so that a killed session goes on.

use std::time::SystemTime;

use hotcell_state::database::{self, DatabaseError, PooledConnection, retry_while_busy, transaction};
use hotcell_state::ids::{PrefixMatch, random_hex, resolve_prefix};
use hotcell_state::state::StateFolder;
use hotcell_state::time::micros_since_1970;
use rusqlite::{OptionalExtension, params};
use serde::{Deserialize, Serialize};

use crate::budget::{Amount, Limits};
use crate::evidence::Evidence;
use crate::machine::{Ask, Event, Rules};
use crate::patch::Patch;
use crate::spec::Making;

/// Maximum number of sessions; older ones are removed with their events.
pub const MAX_SESSIONS: i64 = 500;

/// Request of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// `fix` or `make`.
    pub kind: String,
    /// The project's folder, absolute.
    pub project: String,
    /// Framework, if it was named.
    pub framework: Option<String>,
    /// Selected tests.
    pub filter: Option<String>,
    /// The packages that the project's lock files name are installed for the tests.
    #[serde(default)]
    pub deps: bool,
    /// Time limit of one test run, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Name of the model, in place of the roles' models.
    pub model: Option<String>,
    /// Words of the user.
    pub words: Option<String>,
    /// Number of candidates.
    pub candidates: u32,
    /// Limits of each attempt.
    pub rules: Rules,
    /// Limits of the session.
    pub limits: Limits,
    /// Further instructions.
    pub constraints: Vec<String>,
    /// Maximum of output tokens of a call.
    pub max_output_tokens: u32,
    /// Seed; candidates add their number.
    pub seed: Option<i64>,
}

/// A row of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "entry")]
pub enum Entry {
    /// A driver begins to work at the session.
    Began,
    /// A workspace of a candidate was made.
    Workspace {
        /// Id.
        id: String,
    },
    /// A call begins; its reservation.
    Asked {
        /// Kind of question.
        ask: Ask,
        /// Role.
        role: String,
        /// Most that the call takes.
        most: Amount,
    },
    /// A reply.
    Replied {
        /// Text.
        text: String,
        /// The answer is cut.
        cut: bool,
        /// Model.
        model: String,
        /// Amount that it took.
        used: Amount,
        /// `known`, `free` or `unknown`.
        cost: String,
        /// Milliseconds.
        time_ms: u64,
    },
    /// No reply.
    NoReply {
        /// Reason.
        why: String,
        /// Amount that may have been charged.
        used: Amount,
    },
    /// A test run.
    Tested {
        /// Evidence.
        evidence: Box<Evidence>,
        /// Digest of the content.
        artifact: String,
        /// Changed files.
        files: Vec<String>,
        /// Changed lines.
        lines: u64,
        /// The model's explanation, shortened.
        analysis: String,
        /// Changes against the source as it was then; `None` for given code, tests, and rows of older versions.
        #[serde(default)]
        patch: Option<Box<Patch>>,
    },
    /// An event of the machine.
    Step {
        /// The event.
        event: Event,
    },
    /// A note of a front end: the caller, a pattern, a prompt, a review, how a session without attempts ended.
    Noted {
        /// Kind of note.
        what: String,
        /// Contents.
        value: serde_json::Value,
    },
    /// The request of a session that makes code; a later one counts.
    Making {
        /// Request.
        making: Box<Making>,
    },
    /// Changed limits and instructions of the session.
    Changed {
        /// The task from now on.
        task: Box<Task>,
    },
}

/// A row with its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Candidate from 1, or the number of a stage; 0 for the session itself.
    pub candidate: u32,
    /// Microseconds since 1970.
    pub time_us: i64,
    /// Contents.
    #[serde(flatten)]
    pub entry: Entry,
}

/// A session in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    /// Id.
    pub id: String,
    /// Microseconds since 1970 at its beginning.
    pub time_us: i64,
    /// State of the best candidate, or `running`.
    pub state: String,
    /// Task at its beginning.
    pub task: Task,
}

/// Why the journal cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The database cannot be opened.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// A query failed.
    #[error("the journal of sessions: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// A row of another version.
    #[error("the journal of sessions has a row that this hotcell does not know: {0}")]
    Json(#[from] serde_json::Error),
    /// No random numbers.
    #[error("{0}")]
    Random(String),
    /// No session has this id.
    #[error("there is no session {id:?}{}", near.as_ref().map(|near| format!("; did you mean {near}?")).unwrap_or_default())]
    Unknown {
        /// Id as typed.
        id: String,
        /// Nearest id.
        near: Option<String>,
    },
    /// Several sessions have ids with this beginning.
    #[error("{id:?} could be {}; give more digits", among.join(", "))]
    Ambiguous {
        /// Id as typed.
        id: String,
        /// Some of the ids.
        among: Vec<String>,
    },
}

/// The journal, open for writing.
pub struct Journal(PooledConnection);

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Journal")
    }
}

impl Journal {
    /// Opens the journal, and creates it when it is missing.
    ///
    /// # Errors
    /// [`JournalError::Database`].
    pub fn open(folder: &StateFolder) -> Result<Self, JournalError> {
        Ok(Self(database::open_to_write(folder)?))
    }

    /// Begins a session; returns its id.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn begin(&self, task: &Task) -> Result<String, JournalError> {
        let id = random_hex(6).map_err(|e| JournalError::Random(e.to_string()))?;
        let json = serde_json::to_string(task)?;
        let now = micros_since_1970(SystemTime::now());
        let begin = || {
            transaction(&self.0, || {
                self.0.execute(
                    "INSERT INTO agent_sessions (id, time_us, state, task) VALUES (?1, ?2, 'running', ?3)",
                    params![id, now, json],
                )?;
                const OLD: &str = "SELECT id FROM agent_sessions ORDER BY time_us DESC LIMIT -1 OFFSET ?1";
                self.0
                    .execute(&format!("DELETE FROM agent_events WHERE session IN ({OLD})"), [MAX_SESSIONS])?;
                self.0.execute(&format!("DELETE FROM agent_sessions WHERE id IN ({OLD})"), [MAX_SESSIONS])
            })
        };
        retry_while_busy(begin)?;
        Ok(id)
    }

    /// Adds rows, all or none of them.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn add(&self, session: &str, candidate: u32, entries: &[Entry]) -> Result<(), JournalError> {
        let json = entries.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
        let now = micros_since_1970(SystemTime::now());
        let add = || {
            transaction(&self.0, || {
                for entry in &json {
                    self.0.execute(
                        "INSERT INTO agent_events (session, candidate, time_us, entry) VALUES (?1, ?2, ?3, ?4)",
                        params![session, candidate, now, entry],
                    )?;
                }
                Ok(())
            })
        };
        Ok(retry_while_busy(add)?)
    }

    /// Notes the state of a session for lists.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn set_state(&self, session: &str, state: &str) -> Result<(), JournalError> {
        const SQL: &str = "UPDATE agent_sessions SET state = ?2 WHERE id = ?1";
        retry_while_busy(|| self.0.execute(SQL, params![session, state]))?;
        Ok(())
    }

    /// Rows of a session, in their order.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn rows(&self, session: &str) -> Result<Vec<Row>, JournalError> {
        const SQL: &str =
            "SELECT candidate, time_us, entry FROM agent_events WHERE session = ?1 ORDER BY seq";
        let read = || {
            let mut statement = self.0.prepare(SQL)?;
            let rows = statement
                .query_map([session], |row| Ok((row.get(0)?, row.get(1)?, row.get::<_, String>(2)?)))?;
            rows.collect::<Result<Vec<_>, _>>()
        };
        let row = |(candidate, time_us, json): (u32, i64, String)| {
            Ok(Row { candidate, time_us, entry: serde_json::from_str(&json)? })
        };
        retry_while_busy(read)?.into_iter().map(row).collect()
    }

    /// Removes a session with its events.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn remove(&self, session: &str) -> Result<(), JournalError> {
        let remove = || {
            transaction(&self.0, || {
                self.0.execute("DELETE FROM agent_events WHERE session = ?1", [session])?;
                self.0.execute("DELETE FROM agent_sessions WHERE id = ?1", [session])
            })
        };
        retry_while_busy(remove)?;
        Ok(())
    }

    /// Notes of a session, in their order: kind and contents.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn notes(&self, session: &str) -> Result<Vec<(String, serde_json::Value)>, JournalError> {
        const SQL: &str = "SELECT entry FROM agent_events WHERE session = ?1 AND entry LIKE '{\"entry\":\"noted\"%' ORDER BY seq";
        let read = || {
            let mut statement = self.0.prepare(SQL)?;
            let rows = statement.query_map([session], |row| row.get::<_, String>(0))?;
            rows.collect::<Result<Vec<_>, _>>()
        };
        let mut notes = Vec::new();
        for json in retry_while_busy(read)? {
            if let Entry::Noted { what, value } = serde_json::from_str(&json)? {
                notes.push((what, value));
            }
        }
        Ok(notes)
    }

    /// Ids of the sessions that have this note.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn noted(&self, what: &str, value: &serde_json::Value) -> Result<Vec<String>, JournalError> {
        const SQL: &str = "SELECT DISTINCT session FROM agent_events WHERE entry = ?1";
        let json = serde_json::to_string(&Entry::Noted { what: what.to_owned(), value: value.clone() })?;
        let read = || {
            let mut statement = self.0.prepare(SQL)?;
            let rows = statement.query_map([&json], |row| row.get::<_, String>(0))?;
            rows.collect::<Result<Vec<_>, _>>()
        };
        Ok(retry_while_busy(read)?)
    }

    /// Sessions, the newest first.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn list(&self) -> Result<Vec<SessionRow>, JournalError> {
        const SQL: &str = "SELECT id, time_us, state, task FROM agent_sessions ORDER BY time_us DESC, id";
        let read = || {
            let mut statement = self.0.prepare(SQL)?;
            let rows = statement
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get::<_, String>(3)?)))?;
            rows.collect::<Result<Vec<_>, _>>()
        };
        let row = |(id, time_us, state, json): (String, i64, String, String)| {
            Ok(SessionRow { id, time_us, state, task: serde_json::from_str(&json)? })
        };
        retry_while_busy(read)?.into_iter().map(row).collect()
    }

    /// A session by its id, or the beginning of it.
    ///
    /// # Errors
    /// [`JournalError::Unknown`], [`JournalError::Ambiguous`].
    pub fn find(&self, typed: &str) -> Result<SessionRow, JournalError> {
        let mut all = self.list()?;
        let ids: Vec<String> = all.iter().map(|row| row.id.clone()).collect();
        match resolve_prefix(typed, &ids) {
            PrefixMatch::One(id) => {
                let at = ids.iter().position(|other| *other == id).unwrap_or_default();
                Ok(all.swap_remove(at))
            }
            PrefixMatch::Several(among) => Err(JournalError::Ambiguous { id: typed.to_owned(), among }),
            PrefixMatch::None(near) => Err(JournalError::Unknown { id: typed.to_owned(), near }),
        }
    }

    /// Tells if a session exists.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn has(&self, session: &str) -> Result<bool, JournalError> {
        const SQL: &str = "SELECT 1 FROM agent_sessions WHERE id = ?1";
        let found =
            retry_while_busy(|| self.0.query_row(SQL, [session], |row| row.get::<_, i64>(0)).optional())?;
        Ok(found.is_some())
    }
}

/// Time that drivers worked at a session, in milliseconds: from each beginning to the last row before the next one.
#[must_use]
pub fn worked_ms(rows: &[Row]) -> u64 {
    let (mut all, mut began, mut last) = (0, None, 0);
    for row in rows {
        if row.entry == Entry::Began {
            all += began.map_or(0, |began: i64| last - began);
            began = Some(row.time_us);
        }
        last = row.time_us;
    }
    all += began.map_or(0, |began| last - began);
    u64::try_from(all / 1000).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task() -> Task {
        Task {
            kind: "fix".to_owned(),
            project: "/p".to_owned(),
            framework: None,
            filter: None,
            deps: false,
            timeout_ms: None,
            model: None,
            words: None,
            candidates: 1,
            rules: Rules::default(),
            limits: Limits::default(),
            constraints: Vec::new(),
            max_output_tokens: 100,
            seed: None,
        }
    }

    #[test]
    fn rows_come_back_in_their_order_and_ids_by_their_beginning() {
        let dir = tempfile::tempdir().unwrap();
        let folder = StateFolder::open(&dir.path().join("state")).unwrap();
        let journal = Journal::open(&folder).unwrap();
        let id = journal.begin(&task()).unwrap();
        let entries = [
            Entry::Began,
            Entry::Asked { ask: Ask::Repair, role: "debugger".to_owned(), most: Amount::default() },
            Entry::Step { event: Event::Malformed { why: "x".to_owned() } },
        ];
        journal.add(&id, 1, &entries).unwrap();
        let rows = journal.rows(&id).unwrap();
        assert_eq!(rows.iter().map(|row| row.entry.clone()).collect::<Vec<_>>(), entries);
        let caller = serde_json::json!("one");
        let note = Entry::Noted { what: "caller".to_owned(), value: caller.clone() };
        journal.add(&id, 0, &[note]).unwrap();
        assert_eq!(journal.notes(&id).unwrap(), [("caller".to_owned(), caller.clone())]);
        assert_eq!(journal.noted("caller", &caller).unwrap(), std::slice::from_ref(&id));
        assert!(journal.noted("caller", &serde_json::json!("two")).unwrap().is_empty());
        let other = journal.begin(&task()).unwrap();
        journal.add(&other, 0, &entries).unwrap();
        journal.remove(&other).unwrap();
        assert!(!journal.has(&other).unwrap() && journal.rows(&other).unwrap().is_empty());
        journal.set_state(&id, "converged").unwrap();
        let found = journal.find(&id[..4]).unwrap();
        assert_eq!((found.id.as_str(), found.state.as_str(), found.task), (id.as_str(), "converged", task()));
        assert!(matches!(journal.find("zz"), Err(JournalError::Unknown { .. })));
        assert!(journal.has(&id).unwrap() && !journal.has("zz").unwrap());
    }

    #[test]
    fn time_without_a_driver_does_not_count() {
        let row = |time_us, entry| Row { candidate: 0, time_us, entry };
        let other = || Entry::Workspace { id: String::new() };
        let rows =
            [row(0, Entry::Began), row(5_000, other()), row(900_000, Entry::Began), row(902_000, other())];
        assert_eq!((worked_ms(&rows), worked_ms(&[])), (7, 0));
    }
}
