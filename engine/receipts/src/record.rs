//! Receipts in the audit log: each one's digest is an entry, and its bytes stay in the state folder, so that a missing, exchanged or inserted one is found.

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
use hotcell_state::database::{Connection, retry_while_busy};
use hotcell_state::state::make_private;
use hotcell_state::time::micros_since_1970;
use serde::{Deserialize, Serialize};

use crate::digest::sha256;
use crate::nofollow;
use crate::store::{FOLDER, write_new};

/// Action of the log.
const ACTION: &str = "receipt";
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

/// Digest of the end of the audit log; `None` when the log is empty.
///
/// # Errors
/// [`QuarantineError`] when the log cannot be read.
pub fn log_end(quarantine: &Quarantine) -> Result<Option<String>, QuarantineError> {
    Ok(retry_while_busy(|| audit::head(&quarantine.database))?.map(|head| head.hash))
}

/// Keeps a receipt and notes it in the audit log; its digest. The bytes are on the disk before the log names them.
///
/// # Errors
/// [`QuarantineError`] when the state folder or the log cannot be written.
pub fn record(
    quarantine: &Quarantine,
    actor: &Actor,
    run: &str,
    envelope: &str,
) -> Result<String, QuarantineError> {
    let digest = sha256(envelope.as_bytes());
    let root = quarantine.folder.dir();
    let kept = make_private(root, FOLDER)
        .and_then(|()| nofollow::folder(root, FOLDER))
        .and_then(|dir| make_private(&dir, KEPT).and_then(|()| nofollow::folder(&dir, KEPT)))
        .and_then(|dir| {
            write_new(&dir, &format!("{digest}.json"), envelope.as_bytes(), true)?;
            // The name, too: the log must not name a receipt that a power loss takes away.
            dir.open(".")?.sync_all()
        });
    kept.map_err(|error| QuarantineError::Io { what: "a receipt cannot be kept", error })?;
    let now_us = micros_since_1970(SystemTime::now());
    let after = AfterReceipt { receipt: digest.clone(), run: run.to_owned() };
    quarantine.step(|database| {
        audit::append(database, now_us, actor, ACTION, &digest, &after)?;
        Ok::<(), QuarantineError>(())
    })?;
    Ok(digest)
}

/// The kept receipt with this digest; `None` when it is gone, or its bytes have another digest.
///
/// # Errors
/// [`QuarantineError::Io`] when it cannot be read.
pub fn kept(state: &StateFolder, digest: &str) -> Result<Option<String>, QuarantineError> {
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
        let state = database.path().map(PathBuf::from);
        let folder = state.as_deref().and_then(|path| path.parent()).map(|path| path.join(FOLDER).join(KEPT));
        let dir = match folder.map(|folder| Dir::open_ambient_dir(folder, ambient_authority())) {
            Some(Ok(dir)) => Some(dir),
            Some(Err(e)) if e.kind() != io::ErrorKind::NotFound => {
                return Err(Problem(format!("the folder of the receipts cannot be opened: {e}")));
            }
            _ => None,
        };
        for (digest, run) in &self.noted {
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
