//! Receipts in the audit log: each one's digest is an entry, and its bytes are a row of the database, so that a missing, exchanged or inserted one is found.
//!
//! Row and entry are one transaction: neither a power loss nor a killed process leaves one without the other. Earlier releases kept the bytes in
//! files of the folder `receipts/kept`, which are still read and checked.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::PathBuf;
use std::time::SystemTime;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use hotcell_guard::quarantine::Entry;
use hotcell_review::quarantine::{Quarantine, QuarantineError};
use hotcell_state::StateFolder;
use hotcell_state::actor::Actor;
use hotcell_state::audit::{self, Problem, Subject};
use hotcell_state::database::{Connection, open_to_read, retry_while_busy};
use hotcell_state::receipts;
use hotcell_state::time::micros_since_1970;
use serde::{Deserialize, Serialize};

use crate::digest::sha256;
use crate::nofollow;
use crate::store::FOLDER;

/// Action of the log.
const ACTION: &str = "receipt";
/// Folder of the receipts of earlier releases.
const KEPT: &str = "kept";

/// Contents of an entry; its `detail`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AfterReceipt {
    /// SHA-256 of the envelope.
    receipt: String,
    /// Id of the run.
    run: String,
}

/// Place of a receipt: its number among those about the same, and the end of the audit log before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number among the receipts of this installation about the same, from 1.
    pub number: u64,
    /// Digest of the end of the audit log; `None` when the log is empty.
    pub log_end: Option<String>,
}

impl Place {
    /// The place of the next receipt about this.
    fn next(database: &Connection, about: &str) -> Result<Self, QuarantineError> {
        let read = || Ok((audit::head(database)?, receipts::count(database, about)?));
        let (head, count) = retry_while_busy(read)?;
        Ok(Self { number: count + 1, log_end: head.map(|head| head.hash) })
    }
}

/// A receipt that was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// SHA-256 of the envelope.
    pub digest: String,
    /// The envelope as JSON.
    pub envelope: String,
}

/// Compiles the statements of [`record`], which the connection keeps.
///
/// # Errors
/// [`QuarantineError`] when the schema cannot be read.
pub fn prepare(quarantine: &Quarantine) -> Result<(), QuarantineError> {
    let database = &quarantine.database;
    Ok(retry_while_busy(|| receipts::prepare(database).and_then(|()| audit::prepare(database)))?)
}

/// Place that a receipt about this has, unless another one is recorded before it.
///
/// # Errors
/// [`QuarantineError`] when the database or the log cannot be read.
pub fn place(quarantine: &Quarantine, about: &str) -> Result<Place, QuarantineError> {
    Place::next(&quarantine.database, about)
}

/// Keeps a receipt and notes it in the audit log, in one transaction. `about` is the digest of what it is about. `envelope` makes it for its place, while nothing
/// else is recorded; `None` from there records nothing.
///
/// # Errors
/// That of `envelope`, and [`QuarantineError`] when the database or the log cannot be written; then there is neither the receipt nor its entry.
pub fn record<E: From<QuarantineError>>(
    quarantine: &Quarantine,
    actor: &Actor,
    run: &str,
    about: &str,
    envelope: impl FnOnce(Place) -> Result<Option<String>, E>,
) -> Result<Option<Recorded>, E> {
    let now_us = micros_since_1970(SystemTime::now());
    quarantine.step(|database| {
        let envelope = match envelope(Place::next(database, about)?) {
            Ok(Some(envelope)) => envelope,
            // Nothing was written by this step.
            other => return Ok::<_, QuarantineError>(other.map(|_| None)),
        };
        let digest = sha256(envelope.as_bytes());
        receipts::keep(database, &digest, about, &envelope)?;
        let after = AfterReceipt { receipt: digest.clone(), run: run.to_owned() };
        audit::append(database, now_us, actor, ACTION, &digest, &after)?;
        Ok(Ok(Some(Recorded { digest, envelope })))
    })?
}

/// The kept receipt with this digest; `None` when it is gone, or its bytes have another digest.
///
/// # Errors
/// [`QuarantineError`] when it cannot be read.
pub fn kept(state: &StateFolder, digest: &str) -> Result<Option<String>, QuarantineError> {
    if let Some((database, _)) = open_to_read(state)?
        && let Some(text) = retry_while_busy(|| receipts::read(&database, digest))?
    {
        return Ok((sha256(text.as_bytes()) == digest).then_some(text));
    }
    let read = || -> io::Result<String> {
        let dir = nofollow::folder(&nofollow::folder(state.dir(), FOLDER)?, KEPT)?;
        let file = nofollow::file(&dir, &format!("{digest}.json"))?;
        let mut text = String::new();
        file.take(crate::envelope::MAX_ENVELOPE_BYTES as u64).read_to_string(&mut text)?;
        Ok(text)
    };
    match read() {
        Ok(text) if sha256(text.as_bytes()) == digest => Ok(Some(text)),
        Ok(_) => Ok(None),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(QuarantineError::Io { what: "a receipt cannot be read", error }),
    }
}

/// Receipts as a subject of the log's check.
#[must_use]
pub fn audited() -> Box<dyn Subject> {
    Box::new(Receipts::default())
}

#[derive(Debug, Default)]
struct Receipts {
    /// Runs by the digests of their receipts.
    noted: BTreeMap<String, String>,
}

impl Subject for Receipts {
    fn take(&mut self, entry: &Entry) -> bool {
        if entry.action != ACTION {
            return false;
        }
        match serde_json::from_str::<AfterReceipt>(&entry.detail) {
            Ok(after) => {
                self.noted.insert(after.receipt, after.run);
                true
            }
            Err(_) => false,
        }
    }

    fn compare(&mut self, database: &Connection) -> Result<(), Problem> {
        let mut wrong = None;
        let mut in_files = self.noted.clone();
        receipts::each(database, |digest, envelope| {
            in_files.remove(&digest);
            let problem = match self.noted.get(&digest) {
                None => format!("the receipt {digest} is not in the log"),
                Some(run) if sha256(envelope.as_bytes()) != digest => {
                    format!("the receipt {digest} of run {run} was exchanged")
                }
                Some(_) => return,
            };
            wrong.get_or_insert(Problem(problem));
        })?;
        match wrong {
            Some(problem) => Err(problem),
            None => self.compare_files(database, &in_files),
        }
    }
}

impl Receipts {
    /// Checks the files of earlier releases: those with an entry have to be there, and no others.
    fn compare_files(&self, database: &Connection, noted: &BTreeMap<String, String>) -> Result<(), Problem> {
        let state = database.path().map(PathBuf::from);
        let folder = state.as_deref().and_then(|path| path.parent()).map(|path| path.join(FOLDER).join(KEPT));
        let dir = match folder.map(|folder| Dir::open_ambient_dir(folder, ambient_authority())) {
            Some(Ok(dir)) => Some(dir),
            Some(Err(e)) if e.kind() != io::ErrorKind::NotFound => {
                return Err(Problem(format!("the folder of the receipts cannot be opened: {e}")));
            }
            _ => None,
        };
        for (digest, run) in noted {
            let missing = || Problem(format!("the receipt {digest} of run {run} is gone"));
            let dir = dir.as_ref().ok_or_else(missing)?;
            let mut bytes = Vec::new();
            let read = nofollow::file(dir, &format!("{digest}.json")).and_then(|file| {
                file.take(crate::envelope::MAX_ENVELOPE_BYTES as u64).read_to_end(&mut bytes)
            });
            match read {
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(missing()),
                Err(e) => return Err(Problem(format!("the receipt {digest} cannot be read: {e}"))),
                Ok(_) if sha256(&bytes) != *digest => {
                    return Err(Problem(format!("the receipt {digest} of run {run} was exchanged")));
                }
                Ok(_) => {}
            }
        }
        let Some(dir) = dir else { return Ok(()) };
        for entry in dir.entries().map_err(|e| Problem(e.to_string()))? {
            let name = entry.map_err(|e| Problem(e.to_string()))?.file_name();
            let Some(digest) = name.to_str().and_then(|name| name.strip_suffix(".json")) else { continue };
            if !self.noted.contains_key(digest) {
                return Err(Problem(format!("the receipt {digest} is not in the log")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use hotcell_guard::quarantine::Channel;

    use super::*;

    fn recorded(quarantine: &Quarantine, actor: &Actor, about: &str, envelope: &str) -> Recorded {
        let envelope = |_| Ok::<_, QuarantineError>(Some(envelope.to_owned()));
        record(quarantine, actor, "r", about, envelope).unwrap().unwrap()
    }

    /// A log with two receipts about the same.
    fn begun() -> (tempfile::TempDir, Quarantine, [String; 2]) {
        let dir = tempfile::tempdir().unwrap();
        let quarantine = Quarantine::open(StateFolder::open(&dir.path().join("state")).unwrap()).unwrap();
        let actor = Actor { uid: 1, name: String::new(), channel: Channel::Cli };
        let digests =
            ["{\"a\":1}", "{\"a\":2}"].map(|envelope| recorded(&quarantine, &actor, "same", envelope).digest);
        (dir, quarantine, digests)
    }

    fn problem(quarantine: &Quarantine) -> String {
        quarantine.verify(None, &[audited]).unwrap().problem.unwrap_or_default()
    }

    #[test]
    fn rows_that_differ_from_the_log_are_found() {
        for (sql, word) in [
            ("UPDATE receipts SET envelope = '{}'", "was exchanged"),
            ("DELETE FROM receipts WHERE envelope LIKE '%2%'", "is gone"),
            ("INSERT INTO receipts VALUES ('00', 'same', '{}')", "is not in the log"),
            ("UPDATE receipts SET digest = '00' WHERE envelope LIKE '%1%'", "is not in the log"),
        ] {
            let (_dir, quarantine, digests) = begun();
            assert_eq!(problem(&quarantine), "");
            assert_eq!(place(&quarantine, "same").unwrap().number, 3);
            assert_eq!(kept(&quarantine.folder, &digests[1]).unwrap().as_deref(), Some("{\"a\":2}"));
            quarantine.database.execute_batch(sql).unwrap();
            assert!(problem(&quarantine).contains(word), "{sql}: {}", problem(&quarantine));
        }
    }

    #[test]
    fn step_without_an_envelope_records_nothing() {
        let (_dir, quarantine, _) = begun();
        let actor = Actor { uid: 1, name: String::new(), channel: Channel::Cli };
        let before = place(&quarantine, "same").unwrap();
        let given = |given: Result<Option<String>, QuarantineError>| {
            record(&quarantine, &actor, "r", "same", |place| {
                assert_eq!(place, before);
                given
            })
        };
        assert_eq!(given(Ok(None)).unwrap(), None);
        assert!(matches!(given(Err(QuarantineError::Busy)), Err(QuarantineError::Busy)));
        assert_eq!(place(&quarantine, "same").unwrap(), before);
        assert_eq!(problem(&quarantine), "");
    }

    #[test]
    fn files_of_earlier_releases_are_read_and_checked() {
        let (dir, quarantine, digests) = begun();
        let folder = dir.path().join("state").join(FOLDER).join(KEPT);
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join(format!("{}.json", digests[0]));
        quarantine.database.execute("DELETE FROM receipts WHERE digest = ?1", [&digests[0]]).unwrap();
        assert!(problem(&quarantine).contains("is gone"));
        assert_eq!(kept(&quarantine.folder, &digests[0]).unwrap(), None);
        std::fs::write(&file, "{\"a\":1}").unwrap();
        assert_eq!(problem(&quarantine), "");
        assert_eq!(kept(&quarantine.folder, &digests[0]).unwrap().as_deref(), Some("{\"a\":1}"));
        std::fs::write(&file, "{}").unwrap();
        assert!(problem(&quarantine).contains("was exchanged"));
        assert_eq!(kept(&quarantine.folder, &digests[0]).unwrap(), None);
        std::fs::write(&file, "{\"a\":1}").unwrap();
        std::fs::write(folder.join("00.json"), "{}").unwrap();
        assert!(problem(&quarantine).contains("is not in the log"));
    }
}
