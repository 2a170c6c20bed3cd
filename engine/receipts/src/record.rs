//! Receipts in the audit log: each one's digest is an entry, and its bytes stay in the state folder, so that a missing, exchanged or inserted one is found.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::PathBuf;
use std::time::SystemTime;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use hotcell_guard::quarantine::Entry;
use hotcell_review::quarantine::{QuarantineConfig, QuarantineError};
use hotcell_state::StateFolder;
use hotcell_state::audit::{self, Problem, Subject};
use hotcell_state::database::Connection;
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
pub fn log_end(config: &QuarantineConfig) -> Result<Option<String>, QuarantineError> {
    Ok(config.open()?.audit(1)?.entries.pop().map(|entry| entry.hash))
}

/// Keeps a receipt and notes it in the audit log.
///
/// # Errors
/// [`QuarantineError`] when the state folder or the log cannot be written.
pub fn record(config: &QuarantineConfig, run: &str, envelope: &str) -> Result<(), QuarantineError> {
    let digest = sha256(envelope.as_bytes());
    let quarantine = config.open()?;
    let folder = StateFolder::open(config.state.path()?)?;
    let kept = make_private(folder.dir(), FOLDER)
        .and_then(|()| nofollow::folder(folder.dir(), FOLDER))
        .and_then(|dir| make_private(&dir, KEPT).and_then(|()| nofollow::folder(&dir, KEPT)))
        .and_then(|dir| write_new(&dir, &format!("{digest}.json"), envelope.as_bytes(), true));
    kept.map_err(|error| QuarantineError::Io { what: "a receipt cannot be kept", error })?;
    let actor = config.actor();
    let now_us = micros_since_1970(SystemTime::now());
    let after = AfterReceipt { receipt: digest.clone(), run: run.to_owned() };
    quarantine.step(|database| {
        audit::append(database, now_us, &actor, ACTION, &digest, &after)?;
        Ok::<(), QuarantineError>(())
    })
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
