//! Calls that continue in the background, in the state folder's database: a result can be fetched even after
//! the service has ended. Unfinished tasks of a dead service count as failed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hotcell_state::caller::Caller;
use hotcell_state::database;
use hotcell_state::database::{PooledConnection, retry_while_busy};
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::StateFolder;
use hotcell_state::time::micros_since_1970;
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;

use super::folder;

/// Retention of a finished task, in milliseconds: one hour.
pub const TASK_RETENTION_MS: u64 = 3_600_000;
/// Maximum number of tasks per caller; a further call is answered without a task.
const MAX_TASKS: u64 = 1000;
/// Maximum size of a stored answer, in bytes.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// Maximum number of complete results held in memory while they cannot be written; of further ones only the
/// fact is stored.
const MAX_UNWRITTEN_RESULTS: usize = 64;

/// Placeholder for a service's name: a run without a task, of a service that has ended.
const LEFT: &str = "left";
/// Maximum number of such rows per caller; the oldest are removed.
const MAX_LEFT_ROWS: u64 = 500;

/// Result of a task whose service ended.
const DIED: &str = "the server ended before it was done";

/// State of a task.
#[derive(Clone, Debug, PartialEq)]
pub enum Stands {
    /// In progress.
    Working,
    /// Completed, with this answer.
    Completed(Value),
    /// Failed, with the reason.
    Failed(String),
    /// Cancelled by its caller.
    Cancelled,
}

impl Stands {
    const fn name(&self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::Completed(_) => "completed",
            Self::Failed(_) => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A task.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Unguessable id.
    pub id: String,
    /// Time of its start, in microseconds since 1970.
    pub created_us: i64,
    /// Time of its last change, in microseconds since 1970.
    pub updated_us: i64,
    /// Retention after its start, in milliseconds; it is extended while the task is in progress.
    pub ttl_ms: u64,
    /// Current state.
    pub stands: Stands,
}

/// Tasks of a state folder, for one service.
#[derive(Clone, Debug)]
pub struct Tasks {
    state: std::path::PathBuf,
    service: String,
    /// Results that could not be written; served from here until they can be.
    unwritten: Arc<Mutex<HashMap<String, Stands>>>,
}

type Done<T> = Result<T, ErrorReport>;

fn bad(why: impl std::fmt::Display) -> ErrorReport {
    ErrorReport::new(Code::State, format!("the tasks cannot be read or written: {why}")).parameter("state")
}

fn now() -> i64 {
    micros_since_1970(std::time::SystemTime::now())
}

impl Tasks {
    /// Tasks of a state folder; `service` is the name of this service's own folder there.
    #[must_use]
    pub fn of(state: &StateFolder, service: &str) -> Self {
        Self { state: state.path().to_owned(), service: service.to_owned(), unwritten: Arc::default() }
    }

    fn unwritten(&self) -> MutexGuard<'_, HashMap<String, Stands>> {
        self.unwritten.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> Done<(StateFolder, PooledConnection)> {
        let folder = StateFolder::open(&self.state).map_err(bad)?;
        let database = database::open_to_write(&folder).map_err(bad)?;
        // An answer that was given must survive a power loss.
        retry_while_busy(|| database.execute_batch("PRAGMA synchronous = FULL")).map_err(bad)?;
        Ok((folder, database))
    }

    /// Begins a task, unless it exists. On return it is on the disk. Blocks.
    ///
    /// # Errors
    /// A report when this caller has too many tasks, or the task cannot be written.
    pub fn begin(&self, caller: &Caller, id: &str) -> Done<Task> {
        let (folder, database) = self.open()?;
        let now = now();
        self.end_those_of_the_dead(&folder, &database)?;
        let begun = database::transaction(&database, || -> rusqlite::Result<bool> {
            database.execute("DELETE FROM tasks WHERE expires <= ?1", [now])?;
            let count = "SELECT count(*) FROM tasks WHERE caller = ?1 AND service <> 'left'";
            let count: u64 = database.query_row(count, [caller.to_string()], |row| row.get(0))?;
            if count >= MAX_TASKS {
                return Ok(false);
            }
            database.execute(
                "INSERT OR IGNORE INTO tasks (id, caller, service, created, updated, state)
                 VALUES (?1, ?2, ?3, ?4, ?4, 'working')",
                params![id, caller.to_string(), self.service, now],
            )?;
            Ok(true)
        });
        if !begun.map_err(bad)? {
            let why = format!("{MAX_TASKS} tasks of yours are remembered already");
            return Err(ErrorReport::new(Code::Busy, why));
        }
        self.get(caller, id)
    }

    /// Stores results of runs for requests to a later service: a client that starts a service for each call
    /// asks another one than the run's. Existing tasks are left unchanged. Blocks.
    ///
    /// # Errors
    /// A report when nothing can be written.
    pub fn leave(&self, caller: &Caller, became: &[(String, Stands)]) -> Done<()> {
        let (_, database) = self.open()?;
        let now = now();
        database::transaction(&database, || -> rusqlite::Result<()> {
            database.execute("DELETE FROM tasks WHERE expires <= ?1", [now])?;
            for (id, stands) in became {
                database.execute(
                    "INSERT OR IGNORE INTO tasks (id, caller, service, created, updated, state)
                     VALUES (?1, ?2, ?3, ?4, ?4, 'working')",
                    params![id, caller.to_string(), LEFT, now],
                )?;
                write(&database, id, stands)?;
            }
            database.execute(
                "DELETE FROM tasks WHERE service = ?1 AND caller = ?2 AND id NOT IN
                 (SELECT id FROM tasks WHERE service = ?1 AND caller = ?2 ORDER BY created DESC LIMIT ?3)",
                params![LEFT, caller.to_string(), MAX_LEFT_ROWS],
            )?;
            Ok(())
        })
        .map_err(bad)
    }

    /// Marks unfinished tasks of ended services as failed, so that they expire.
    fn end_those_of_the_dead(&self, folder: &StateFolder, database: &Connection) -> Done<()> {
        let of = || -> rusqlite::Result<Vec<String>> {
            let query = "SELECT DISTINCT service FROM tasks WHERE state = 'working' AND service <> ?1";
            database.prepare(query)?.query_map([&self.service], |row| row.get(0))?.collect()
        };
        for service in retry_while_busy(of).map_err(bad)? {
            if !folder::lives(folder, &service) {
                let remembered = i64::try_from(TASK_RETENTION_MS).unwrap_or(i64::MAX).saturating_mul(1000);
                let end = || {
                    let query = "UPDATE tasks SET state = 'failed', payload = ?2, updated = ?3, expires = ?4
                                 WHERE service = ?1 AND state = 'working'";
                    database.execute(query, params![service, DIED, now(), now().saturating_add(remembered)])
                };
                retry_while_busy(end).map_err(bad)?;
            }
        }
        Ok(())
    }

    /// Writes the result of a task in progress. Blocks. A result that cannot be written is held in memory,
    /// and written when it is requested.
    ///
    /// # Errors
    /// A report when nothing can be written.
    pub fn end(&self, id: &str, became: &Stands) -> Done<()> {
        let written = self
            .open()
            .and_then(|(_, database)| retry_while_busy(|| write(&database, id, became)).map_err(bad));
        let mut unwritten = self.unwritten();
        if written.is_ok() {
            unwritten.remove(id);
        } else if !unwritten.contains_key(id) {
            let short = || Stands::Failed("it is done, and its answer could not be written down".to_owned());
            let kept = if unwritten.len() < MAX_UNWRITTEN_RESULTS { became.clone() } else { short() };
            unwritten.insert(id.to_owned(), kept);
        }
        written
    }

    /// A caller's task. Blocks.
    ///
    /// # Errors
    /// One and the same report for unknown tasks, forgotten tasks and tasks of other callers.
    pub fn get(&self, caller: &Caller, id: &str) -> Done<Task> {
        let folder = StateFolder::open_existing(&self.state).map_err(bad)?.ok_or_else(unknown)?;
        let Some((database, form)) = database::open_to_read(&folder).map_err(bad)? else {
            return Err(unknown());
        };
        if form < 5 {
            return Err(unknown());
        }
        let found = retry_while_busy(|| read(&database, caller, id)).map_err(bad)?;
        let (mut task, service) = found.ok_or_else(unknown)?;
        let kept = self.unwritten().get(id).cloned();
        if let (Stands::Working, Some(became)) = (&task.stands, kept) {
            // For requests after this service has ended.
            if let Err(report) = self.end(id, &became) {
                tracing::warn!("{report}");
            }
            task.stands = became;
        }
        if task.stands == Stands::Working && service != self.service && !folder::lives(&folder, &service) {
            task.stands = Stands::Failed(DIED.to_owned());
            // For the next request; the answer is the same if it cannot be written.
            if let Err(report) = self.end(id, &task.stands) {
                tracing::warn!("{report}");
            }
        }
        Ok(task)
    }
}

fn write(database: &Connection, id: &str, became: &Stands) -> rusqlite::Result<()> {
    let now = now();
    let payload = match became {
        Stands::Completed(answer) => Some(answer.to_string()),
        Stands::Failed(why) => Some(why.clone()),
        Stands::Working | Stands::Cancelled => None,
    };
    let (state, payload) = match payload {
        Some(long) if long.len() > MAX_ANSWER_BYTES => {
            ("failed", Some(format!("its answer has {} bytes, too many to be kept", long.len())))
        }
        payload => (became.name(), payload),
    };
    let remembered = i64::try_from(TASK_RETENTION_MS).unwrap_or(i64::MAX).saturating_mul(1000);
    database.execute(
        "UPDATE tasks SET state = ?2, payload = ?3, updated = ?4, expires = ?5
         WHERE id = ?1 AND state = 'working'",
        params![id, state, payload, now, now.saturating_add(remembered)],
    )?;
    Ok(())
}

fn read(database: &Connection, caller: &Caller, id: &str) -> rusqlite::Result<Option<(Task, String)>> {
    let query = "SELECT service, created, updated, expires, state, payload FROM tasks
                 WHERE id = ?1 AND caller = ?2 AND (expires IS NULL OR expires > ?3)";
    let now = now();
    let read = |row: &rusqlite::Row<'_>| {
        let (created_us, expires): (i64, Option<i64>) = (row.get(1)?, row.get(3)?);
        let (state, payload): (String, Option<String>) = (row.get(4)?, row.get(5)?);
        let payload = payload.unwrap_or_default();
        let stands = match state.as_str() {
            "working" => Stands::Working,
            "cancelled" => Stands::Cancelled,
            "completed" => match serde_json::from_str(&payload) {
                Ok(answer) => Stands::Completed(answer),
                Err(e) => Stands::Failed(format!("its answer is damaged: {e}")),
            },
            _ => Stands::Failed(payload),
        };
        // While the task is in progress, its retention is extended.
        let lasts = expires.unwrap_or(now).saturating_sub(created_us).max(0);
        let more = if expires.is_none() { TASK_RETENTION_MS } else { 0 };
        let ttl_ms = u64::try_from(lasts / 1000).unwrap_or(0).saturating_add(more).max(1);
        let task = Task { id: id.to_owned(), created_us, updated_us: row.get(2)?, ttl_ms, stands };
        Ok((task, row.get(0)?))
    };
    database.query_row(query, params![id, caller.to_string(), now], read).optional()
}

fn unknown() -> ErrorReport {
    ErrorReport::new(Code::UnknownName, "there is no task of that taskId")
        .field("taskId")
        .hint("use a taskId from an answer to you; what has ended is forgotten after an hour")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::ServiceFolder;
    use serde_json::json;

    fn service(state: &StateFolder) -> (ServiceFolder, Tasks) {
        let folder = ServiceFolder::make(state).unwrap();
        let name = folder.path().file_name().unwrap().to_string_lossy().into_owned();
        let tasks = Tasks::of(state, &name);
        (folder, tasks)
    }

    #[test]
    fn task_outlives_service_and_belongs_to_caller() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateFolder::open(&dir.path().join("s")).unwrap();
        let (me, you) = (Caller::new("me"), Caller::new("you"));
        let (first, tasks) = service(&state);
        assert_eq!(tasks.get(&me, "a").unwrap_err(), unknown(), "before there is any");
        for id in ["a", "b", "c"] {
            assert_eq!(tasks.begin(&me, id).unwrap().stands, Stands::Working);
        }
        assert_eq!(tasks.begin(&me, "a").unwrap().id, "a", "it was begun");
        assert_eq!(tasks.get(&you, "a").unwrap_err(), tasks.get(&you, "nothing").unwrap_err());
        let answer = Stands::Completed(json!({ "content": [] }));
        tasks.end("a", &answer).unwrap();
        tasks.end("a", &Stands::Cancelled).unwrap();
        tasks.end("b", &Stands::Cancelled).unwrap();
        let (_second, others) = service(&state);
        assert_eq!(others.get(&me, "c").unwrap().stands, Stands::Working, "its service lives");
        drop(first);
        assert_eq!(others.get(&me, "a").unwrap().stands, answer);
        assert_eq!(others.get(&me, "b").unwrap().stands, Stands::Cancelled);
        let Stands::Failed(why) = others.get(&me, "c").unwrap().stands else { panic!() };
        assert!(why.contains("the server ended"), "{why}");
        assert_eq!(others.get(&me, "c").unwrap().stands, Stands::Failed(why));
        let task = others.get(&me, "a").unwrap();
        assert!((TASK_RETENTION_MS..TASK_RETENTION_MS + 60_000).contains(&task.ttl_ms), "{task:?}");
    }

    #[test]
    fn saved_run_results_use_no_task_slots() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateFolder::open(&dir.path().join("s")).unwrap();
        let (folder, tasks) = service(&state);
        let (me, you) = (Caller::new("me"), Caller::new("you"));
        tasks.begin(&me, "t").unwrap();
        tasks.end("t", &Stands::Completed(json!(1))).unwrap();
        let some: Vec<_> =
            (0..MAX_LEFT_ROWS + 20).map(|n| (format!("r{n}"), Stands::Completed(json!(n)))).collect();
        tasks.leave(&me, &some[..20]).unwrap();
        tasks.leave(&me, &[("t".to_owned(), Stands::Cancelled)]).unwrap();
        tasks.leave(&me, &some[20..]).unwrap();
        drop(folder);
        let (_second, others) = service(&state);
        assert_eq!(others.get(&me, "r519").unwrap().stands, Stands::Completed(json!(519)));
        assert_eq!(others.get(&me, "t").unwrap().stands, Stands::Completed(json!(1)));
        assert_eq!(others.get(&you, "r519").unwrap_err(), unknown());
        assert_eq!(others.get(&me, "r0").unwrap_err(), unknown(), "the oldest go");
        assert_eq!(others.begin(&me, "u").unwrap().stands, Stands::Working);
    }

    #[test]
    fn task_end_without_database_is_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateFolder::open(&dir.path().join("s")).unwrap();
        let (folder, tasks) = service(&state);
        let (me, you) = (Caller::new("me"), Caller::new("you"));
        let names: Vec<String> = (0..=MAX_UNWRITTEN_RESULTS).map(|n| format!("t{n}")).collect();
        for name in &names {
            tasks.begin(&me, name).unwrap();
        }
        let answer = Stands::Completed(json!({ "content": [1] }));
        let database = Connection::open(state.database()).unwrap();
        // As on a full disk: the database can be read, but not written.
        let full = "CREATE TRIGGER full BEFORE UPDATE ON tasks BEGIN SELECT RAISE(FAIL, 'full'); END";
        database.execute_batch(full).unwrap();
        for name in &names {
            tasks.end(name, &answer).unwrap_err();
        }
        assert_eq!(tasks.get(&me, "t0").unwrap().stands, answer);
        assert_eq!(tasks.get(&you, "t0").unwrap_err(), unknown());
        let last = tasks.clone().get(&me, names.last().unwrap()).unwrap().stands;
        assert!(matches!(&last, Stands::Failed(why) if why.contains("could not be written")), "{last:?}");
        database.execute_batch("DROP TRIGGER full").unwrap();
        assert_eq!(tasks.get(&me, "t0").unwrap().stands, answer);
        drop(folder);
        let (_second, others) = service(&state);
        assert_eq!(others.get(&me, "t0").unwrap().stands, answer, "it was written when it was asked for");
        assert!(
            tasks.unwritten().len() == MAX_UNWRITTEN_RESULTS - 1 || !tasks.unwritten().contains_key("t0")
        );
    }

    #[test]
    fn oversized_task_result_fails_and_old_expires() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateFolder::open(&dir.path().join("s")).unwrap();
        let (_folder, tasks) = service(&state);
        let me = Caller::new("me");
        tasks.begin(&me, "a").unwrap();
        tasks.end("a", &Stands::Completed(json!("x".repeat(MAX_ANSWER_BYTES)))).unwrap();
        let Stands::Failed(why) = tasks.get(&me, "a").unwrap().stands else { panic!() };
        assert!(why.contains("too many"), "{why}");
        Connection::open(state.database()).unwrap().execute_batch("UPDATE tasks SET expires = 1").unwrap();
        assert_eq!(tasks.get(&me, "a").unwrap_err(), unknown());
        tasks.begin(&me, "b").unwrap();
        let left: u64 = Connection::open(state.database())
            .unwrap()
            .query_row("SELECT count(*) FROM tasks", [], |row| row.get(0))
            .unwrap();
        assert_eq!(left, 1);
    }
}
