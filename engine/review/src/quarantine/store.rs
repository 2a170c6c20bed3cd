//! The open quarantine: reading, and one atomic change at a time.

use std::time::{Duration, Instant};

use cap_std::fs::{OpenOptions, OpenOptionsExt};
use hotcell_guard::Report;
use hotcell_guard::quarantine::Channel;
use hotcell_state::audit;
use hotcell_state::audit::{AuditLog, NewSubject};
use hotcell_state::database;
use hotcell_state::database::{PooledConnection, retry_while_busy, transaction};
use hotcell_state::ids::{PrefixMatch, resolve_prefix};
use hotcell_state::state::StateFolder;
use nix::fcntl::{Flock, FlockArg};
use rusqlite::Connection;

use crate::permission;

use super::error::{Done, QuarantineError, StepContext, io};
use super::item::Item;
use super::objects::Objects;
use super::rows::{self, File, Row};

/// Lock file held during a step, so that the head file is never older than that of the step before.
const LOCK: &str = "quarantine.lock";
/// Time limit for waiting for another step.
const LOCK_TIMEOUT: Duration = Duration::from_secs(20);

/// The open quarantine of a state folder.
#[derive(Debug)]
pub struct Quarantine {
    /// Connection to the database.
    pub database: PooledConnection,
    /// The state folder.
    pub folder: StateFolder,
}

impl Quarantine {
    /// Opens the quarantine for writing, and creates it when it is missing.
    ///
    /// # Errors
    /// [`QuarantineError`] when the state folder or the database cannot be used.
    pub fn open(folder: StateFolder) -> Done<Self> {
        let database = database::open_to_write(&folder)?;
        // A confirmed step must survive a power loss.
        retry_while_busy(|| database.execute_batch("PRAGMA synchronous = FULL"))?;
        Ok(Self { database, folder })
    }

    /// Opens the quarantine for reading; `None` when it does not exist yet.
    ///
    /// # Errors
    /// [`QuarantineError`] when the state folder or the database cannot be used.
    pub fn open_to_read(folder: StateFolder) -> Done<Option<Self>> {
        let opened = database::open_to_read(&folder)?.filter(|(_, form)| *form >= 2);
        Ok(opened.map(|(database, _)| Self { database, folder }))
    }

    /// Runs one step at a time, atomically; afterwards the log's head is written to its file.
    pub fn change<T>(&self, work: impl FnOnce(&Connection) -> Done<T>) -> Done<T> {
        self.step(work)
    }

    /// Like [`Quarantine::change`], for steps of other modules that share the log.
    pub fn step<T, E: From<QuarantineError> + From<rusqlite::Error>>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        let _turn = self.turn()?;
        let file = "the end of the audit log cannot be written";
        // Within the transaction: reading outside of it would be two more, each with locks of its own.
        let (done, before, after) = transaction(&self.database, || {
            let before = audit::head(&self.database)?;
            if before.is_none() && !audit::has_head(&self.folder) {
                // From now on a missing file is an error.
                audit::write_head(&self.folder, None).map_err(io(file))?;
            }
            let done = work(&self.database)?;
            Ok::<_, E>((done, before, audit::head(&self.database)?))
        })?;
        if after != before
            && let Err(error) = audit::write_head(&self.folder, after.as_ref())
        {
            // The step is done and in the log; the next one writes the file.
            tracing::warn!("{file}: {error}");
        }
        Ok(done)
    }

    pub(crate) fn turn(&self) -> Done<Flock<std::fs::File>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).mode(0o600);
        let what = "the quarantine cannot be locked";
        let mut file = self.folder.dir().open_with(LOCK, &options).map_err(io(what))?.into_std();
        let until = Instant::now() + LOCK_TIMEOUT;
        loop {
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => return Ok(lock),
                Err((_, nix::errno::Errno::EWOULDBLOCK)) if Instant::now() >= until => {
                    return Err(QuarantineError::Busy);
                }
                Err((back, nix::errno::Errno::EWOULDBLOCK)) => file = back,
                Err((_, e)) => return Err(io(what)(e.into())),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn objects(&self) -> Done<Objects> {
        Objects::open(&self.folder).map_err(io("the folder of what is kept cannot be opened"))
    }

    /// All items, or those that a channel submitted; the most recently refused first.
    ///
    /// # Errors
    /// [`QuarantineError`] when the database cannot be read.
    pub fn list(&self, of: Option<&Channel>, terms: &StepContext) -> Done<Vec<Item>> {
        let of = of.map(ToString::to_string);
        let rows = retry_while_busy(|| rows::all(&self.database, of.as_deref()))?;
        rows.iter().map(|row| Ok(row.item(rows::files(&self.database, row.seq)?, terms))).collect()
    }

    /// An item by its id, or an unambiguous prefix of it; with a channel, only an item that it submitted.
    ///
    /// # Errors
    /// [`QuarantineError`] when no item matches, several do, or the database cannot be read.
    pub fn show(&self, id: &str, of: Option<&Channel>, terms: &StepContext) -> Done<Item> {
        let row = self.find(&self.database, id, of)?;
        Ok(row.item(rows::files(&self.database, row.seq)?, terms))
    }

    /// The item of an artifact, in any language.
    ///
    /// # Errors
    /// [`QuarantineError`] when the database cannot be read.
    pub fn of_artifact(&self, sha256: &str, terms: &StepContext) -> Done<Option<Item>> {
        let row = retry_while_busy(|| rows::by_digest_alone(&self.database, sha256))?;
        Ok(row.map(|row| row.item(Vec::new(), terms)))
    }

    pub(crate) fn find(&self, database: &Connection, id: &str, of: Option<&Channel>) -> Done<Row> {
        let of = of.map(ToString::to_string);
        let mut known = database.prepare_cached("SELECT id, seq FROM quarantine ORDER BY last_seen DESC")?;
        let known = known.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))?;
        let mut ids = Vec::new();
        for row in known {
            let (id, seq) = row?;
            // Items of other channels are invisible.
            if of.as_deref().map_or(Ok(true), |of| rows::was_seen_by(database, seq, of))? {
                ids.push(id);
            }
        }
        let none = |near: Option<String>| {
            let hint = match near {
                Some(near) => format!("did you mean {near}? hotcell quarantine list shows them"),
                None if ids.is_empty() => {
                    "nothing is held; hotcell scan --quarantine holds what it finds".to_owned()
                }
                None => "hotcell quarantine list shows what is held".to_owned(),
            };
            QuarantineError::NoSuchItem { id: id.to_owned(), hint }
        };
        match resolve_prefix(id, &ids) {
            PrefixMatch::One(whole) => rows::by_id(database, &whole)?.ok_or_else(|| none(None)),
            PrefixMatch::Several(among) => Err(QuarantineError::Ambiguous { id: id.to_owned(), among }),
            PrefixMatch::None(near) => Err(none(near)),
        }
    }

    /// Bytes of a stored file.
    ///
    /// # Errors
    /// [`QuarantineError::Io`] when they cannot be read or do not match the digest.
    pub fn content(&self, sha256: &str) -> Done<Vec<u8>> {
        self.objects()?.get(sha256).map_err(io("what was kept cannot be read"))
    }

    /// Stored files of an item, with their rows and bytes.
    pub fn kept(&self, id: &str) -> Done<Vec<(File, Done<Vec<u8>>)>> {
        let row = self.find(&self.database, id, None)?;
        let files = rows::files(&self.database, row.seq)?.into_iter().filter(|file| file.why.is_none());
        Ok(files.map(|file| (file.clone(), self.content(&file.sha256))).collect())
    }

    /// Stored report of an item.
    pub fn report(&self, id: &str) -> Done<Report> {
        Ok(self.find(&self.database, id, None)?.report)
    }

    /// Last entries of the audit log, newest last.
    ///
    /// # Errors
    /// [`QuarantineError`] when the database cannot be read.
    pub fn audit(&self, most: u64) -> Done<AuditLog> {
        Ok(retry_while_busy(|| audit::last(&self.database, most))?)
    }

    /// Checks the audit log; with a head digest noted earlier, also that the log still contains it. `above` are the
    /// subjects of crates that lie above this one: plugins and receipts.
    ///
    /// # Errors
    /// [`QuarantineError`] when the log cannot be read; a problem that was found is in the result.
    pub fn verify(&self, noted: Option<&str>, above: &[NewSubject]) -> Done<AuditLog> {
        // Waits until no step is half done, if possible.
        let _turn = self.turn().ok();
        // Details of plugins and approvals have no unknown fields; those of items are the least strict.
        let subjects = [above, &[permission::rows::audited as NewSubject, rows::audited]].concat();
        Ok(retry_while_busy(|| audit::verify(&self.database, &self.folder, noted, &subjects))?)
    }
}
