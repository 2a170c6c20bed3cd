//! The open quarantine: one change at a time, all of it or nothing, and what can be read of it.

use std::time::{Duration, Instant};

use cap_std::fs::{OpenOptions, OpenOptionsExt};
use hotcell_guard::Report;
use hotcell_guard::quarantine::Channel;
use nix::fcntl::{Flock, FlockArg};
use rusqlite::Connection;

use super::error::{Done, QuarantineError, Terms, io};
use super::item::Item;
use super::objects::Objects;
use super::rows::{self, File, Row};
use crate::audit::{self, AuditLog};
use crate::database::{self, Lent, patiently, transaction};
use crate::ids::{Meant, meant};
use crate::state::StateFolder;

/// Held while a step is done, so that the log's end in its file is never older than the last one's.
const LOCK: &str = "quarantine.lock";
/// How long another step may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// The open quarantine of a state folder.
#[derive(Debug)]
pub struct Quarantine {
    pub(crate) database: Lent,
    pub(crate) folder: StateFolder,
}

impl Quarantine {
    /// Opens it to write; makes it when it is missing.
    ///
    /// # Errors
    /// [`QuarantineError`].
    pub fn open(folder: StateFolder) -> Done<Self> {
        let database = database::open_to_write(&folder)?;
        // A step that was told is done, whatever happens to the machine.
        patiently(|| database.execute_batch("PRAGMA synchronous = FULL"))?;
        Ok(Self { database, folder })
    }

    /// Opens it to read; `None` when there is none yet.
    ///
    /// # Errors
    /// [`QuarantineError`].
    pub fn open_to_read(folder: StateFolder) -> Done<Option<Self>> {
        let opened = database::open_to_read(&folder)?.filter(|(_, form)| *form >= 2);
        Ok(opened.map(|(database, _)| Self { database, folder }))
    }

    /// One step at a time, all of it or nothing; then the log's end goes to its file.
    pub(super) fn change<T>(&self, work: impl FnOnce(&Connection) -> Done<T>) -> Done<T> {
        self.step(work)
    }

    /// The same for steps of others that are in the same log.
    pub(crate) fn step<T, E: From<QuarantineError> + From<rusqlite::Error>>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        let _turn = self.turn()?;
        let before = audit::head(&self.database)?;
        let file = "the end of the audit log cannot be written";
        if before.is_none() && !audit::has_head(&self.folder) {
            // From now on a missing file is a mistake.
            audit::write_head(&self.folder, None).map_err(io(file))?;
        }
        let done = transaction(&self.database, || work(&self.database))?;
        let after = audit::head(&self.database)?;
        if after != before
            && let Err(error) = audit::write_head(&self.folder, after.as_ref())
        {
            // The step is done and in the log; the next one writes the file.
            tracing::warn!("{file}: {error}");
        }
        Ok(done)
    }

    pub(super) fn turn(&self) -> Done<Flock<std::fs::File>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).mode(0o600);
        let what = "the quarantine cannot be locked";
        let mut file = self.folder.dir().open_with(LOCK, &options).map_err(io(what))?.into_std();
        let until = Instant::now() + PATIENCE;
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

    pub(super) fn objects(&self) -> Done<Objects> {
        Objects::open(&self.folder).map_err(io("the folder of what is kept cannot be opened"))
    }

    /// Every item, or those that came by a channel; those that were refused last first.
    ///
    /// # Errors
    /// [`QuarantineError`].
    pub fn list(&self, of: Option<&Channel>, terms: &Terms) -> Done<Vec<Item>> {
        let of = of.map(ToString::to_string);
        let rows = patiently(|| rows::all(&self.database, of.as_deref()))?;
        rows.iter().map(|row| Ok(row.item(rows::files(&self.database, row.seq)?, terms))).collect()
    }

    /// An item by its id, or the beginning of it; with a channel, only one that came by it.
    ///
    /// # Errors
    /// [`QuarantineError`].
    pub fn show(&self, id: &str, of: Option<&Channel>, terms: &Terms) -> Done<Item> {
        let row = self.find(&self.database, id, of)?;
        Ok(row.item(rows::files(&self.database, row.seq)?, terms))
    }

    /// The item of an artifact, whatever it is run as.
    ///
    /// # Errors
    /// [`QuarantineError`].
    pub fn of_artifact(&self, sha256: &str, terms: &Terms) -> Done<Option<Item>> {
        let row = patiently(|| rows::by_digest_alone(&self.database, sha256))?;
        Ok(row.map(|row| row.item(Vec::new(), terms)))
    }

    pub(super) fn find(&self, database: &Connection, id: &str, of: Option<&Channel>) -> Done<Row> {
        let of = of.map(ToString::to_string);
        let mut known = database.prepare_cached("SELECT id, seq FROM quarantine ORDER BY last_seen DESC")?;
        let known = known.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))?;
        let mut ids = Vec::new();
        for row in known {
            let (id, seq) = row?;
            // Another's items are not there.
            if of.as_deref().map_or(Ok(true), |of| rows::was_seen_by(database, seq, of))? {
                ids.push(id);
            }
        }
        let none = |near: Option<String>| {
            let hint = match near {
                Some(near) => format!("did you mean {near}? hotcell quarantine list shows them"),
                None => "nothing is held; hotcell scan --quarantine holds what it finds".to_owned(),
            };
            QuarantineError::NoSuchItem { id: id.to_owned(), hint }
        };
        match meant(id, &ids) {
            Meant::One(whole) => rows::by_id(database, &whole)?.ok_or_else(|| none(None)),
            Meant::Several(among) => Err(QuarantineError::Ambiguous { id: id.to_owned(), among }),
            Meant::None(near) => Err(none(near)),
        }
    }

    /// The bytes of a file of an item.
    ///
    /// # Errors
    /// [`QuarantineError`], also where they are not those that were kept.
    pub fn content(&self, sha256: &str) -> Done<Vec<u8>> {
        self.objects()?.get(sha256).map_err(io("what was kept cannot be read"))
    }

    /// The files of an item that are kept, as they were, with what they are run as.
    pub(super) fn kept(&self, id: &str) -> Done<Vec<(File, Done<Vec<u8>>)>> {
        let row = self.find(&self.database, id, None)?;
        let files = rows::files(&self.database, row.seq)?.into_iter().filter(|file| file.why.is_none());
        Ok(files.map(|file| (file.clone(), self.content(&file.sha256))).collect())
    }

    /// What is stored of an item's report.
    pub(super) fn report(&self, id: &str) -> Done<Report> {
        Ok(self.find(&self.database, id, None)?.report)
    }

    /// The last entries of the audit log, newest last.
    ///
    /// # Errors
    /// [`QuarantineError`].
    pub fn audit(&self, most: u64) -> Done<AuditLog> {
        Ok(patiently(|| audit::last(&self.database, most))?)
    }

    /// Checks the audit log; with a digest that was noted as its end once, also that it is still in it.
    ///
    /// # Errors
    /// [`QuarantineError`] where it cannot be read; what is wrong with it is in the answer.
    pub fn verify(&self, noted: Option<&str>) -> Done<AuditLog> {
        // While no step is half done, where that can be had.
        let _turn = self.turn().ok();
        Ok(patiently(|| audit::verify(&self.database, &self.folder, noted))?)
    }
}
