//! Making a receipt: the statement is signed, kept in the state folder, noted in the audit log, and written to the operator's folder.

use std::io;
use std::path::PathBuf;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use hotcell_config::{Configuration, ReceiptSettings};
use hotcell_review::quarantine::{QuarantineConfig, QuarantineError};
use hotcell_state::StateFolder;
use hotcell_state::state::StateError;

use crate::record;
use crate::run::About;
use crate::signer::{Signer, SignerError};
use crate::statement::Statement;
use crate::store::write_new;

/// Why there is no receipt.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IssueError {
    /// There is no state folder.
    #[error("a receipt needs a state folder")]
    NoState,
    /// The state folder cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// Nothing can be signed.
    #[error(transparent)]
    Signer(#[from] SignerError),
    /// The audit log or the folder of kept receipts cannot be used.
    #[error(transparent)]
    Record(#[from] QuarantineError),
    /// The statement is not representable in JSON.
    #[error("the statement: {0}")]
    Json(#[from] serde_json::Error),
    /// The operator's folder cannot be written.
    #[error("receipts.folder {path}: {source}", path = folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Reason.
        source: io::Error,
    },
}

/// Makes receipts with one key. It is opened before anything runs, so that a key that cannot be used is noticed in time.
#[derive(Debug)]
pub struct Issuer {
    signer: Signer,
    config: QuarantineConfig,
    folder: Option<PathBuf>,
}

impl Issuer {
    /// An issuer with the key and the folder of these settings; entries of the audit log have the caller of `config`. Blocks.
    ///
    /// # Errors
    /// [`IssueError`] when the key cannot be read, or the folder cannot be opened.
    pub fn open(settings: &ReceiptSettings, config: QuarantineConfig) -> Result<Self, IssueError> {
        let state = StateFolder::open(config.state.path()?)?;
        let signer = Signer::open(settings, &state)?;
        let folder = settings.folder.clone();
        if let Some(folder) = &folder {
            opened(folder)?;
        }
        Ok(Self { signer, config, folder })
    }

    /// An issuer for every run, if the configuration wants one.
    ///
    /// # Errors
    /// As [`Issuer::open`].
    pub fn always(configuration: &Configuration) -> Result<Option<Self>, IssueError> {
        match configuration.user.receipts.always {
            true => Self::of(configuration).map(Some),
            false => Ok(None),
        }
    }

    /// An issuer with the settings of a configuration.
    ///
    /// # Errors
    /// As [`Issuer::open`], and [`IssueError::NoState`].
    pub fn of(configuration: &Configuration) -> Result<Self, IssueError> {
        let config = QuarantineConfig::of(configuration).ok_or(IssueError::NoState)?;
        Self::open(&configuration.user.receipts, config)
    }

    /// Makes the receipt of a run; the envelope as JSON. Blocks until it survives a power loss.
    ///
    /// # Errors
    /// [`IssueError`]; then no receipt is in the log, or it is there and not in the operator's folder.
    pub fn issue(
        &self,
        run: &str,
        version: &str,
        statement: impl FnOnce(About) -> Result<Statement, serde_json::Error>,
    ) -> Result<String, IssueError> {
        self.issue_for(&self.config, run, version, statement)
    }

    /// Like [`Issuer::issue`], for another caller of the same state folder.
    ///
    /// # Errors
    /// As [`Issuer::issue`].
    pub fn issue_for(
        &self,
        config: &QuarantineConfig,
        run: &str,
        version: &str,
        statement: impl FnOnce(About) -> Result<Statement, serde_json::Error>,
    ) -> Result<String, IssueError> {
        let quarantine = config.open()?;
        let mut statement = statement(About::now(run, version, record::log_end(&quarantine)?))?;
        let about = statement.about();
        statement.predicate["hotcell"]["attempt"] = (record::count(&quarantine, &about)? + 1).into();
        let envelope = self.signer.sign(&statement)?.to_json();
        let digest = record::record(&quarantine, &config.actor(), run, (&about, &envelope))?;
        if let Some(folder) = &self.folder {
            let name = if run.is_empty() { &digest } else { run };
            let written = write_new(&opened(folder)?, &format!("{name}.json"), envelope.as_bytes(), false);
            written.map_err(|source| IssueError::Folder { folder: folder.clone(), source })?;
        }
        Ok(envelope)
    }
}

fn opened(folder: &std::path::Path) -> Result<Dir, IssueError> {
    Dir::open_ambient_dir(folder, ambient_authority())
        .map_err(|source| IssueError::Folder { folder: folder.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use hotcell_guard::quarantine::Channel;
    use hotcell_state::state::StateChoice;

    use super::*;
    use crate::statement::Subject;
    use crate::{KeyStore, verify};

    fn statement(about: About) -> Result<Statement, serde_json::Error> {
        let hotcell = serde_json::to_value::<About>(about)?;
        let predicate = serde_json::json!({"result": "PASSED", "hotcell": hotcell});
        Ok(Statement::new(vec![Subject::sha256("a", b"a")], crate::test_result::PREDICATE_TYPE, predicate))
    }

    #[test]
    fn receipts_are_in_the_log_in_their_order_and_in_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let config = QuarantineConfig {
            state: StateChoice::Named(dir.path().join("state")),
            channel: Channel::Cli,
            two_persons: false,
            team: std::collections::BTreeSet::new(),
            retention: hotcell_review::quarantine::DEFAULT_RETENTION,
        };
        let settings = ReceiptSettings { folder: Some(out.clone()), ..ReceiptSettings::default() };
        let error = Issuer::open(&settings, config.clone()).unwrap_err().to_string();
        assert!(error.contains("receipts.folder"), "{error}");
        std::fs::create_dir(&out).unwrap();
        let issuer = Issuer::open(&settings, config.clone()).unwrap();
        let first = issuer.issue("00000001", "1", statement).unwrap();
        let second = issuer.issue("00000002", "1", statement).unwrap();
        assert_eq!(std::fs::read_to_string(out.join("00000002.json")).unwrap(), second);
        let ring =
            KeyStore::open(&StateFolder::open(&dir.path().join("state")).unwrap()).unwrap().ring().unwrap();
        let of = |json: &str| verify(json.as_bytes(), &ring).unwrap().statement.predicate["hotcell"].clone();
        let log = config.open().unwrap().audit(10).unwrap();
        let entries: Vec<_> = log.entries.iter().map(|entry| entry.subject.clone()).collect();
        assert_eq!(entries, [&first, &second].map(|json| crate::digest::sha256(json.as_bytes())));
        assert!(of(&first)["audit_head"].is_null());
        assert_eq!(of(&second)["audit_head"], log.entries[0].hash);
        assert_eq!((&of(&first)["attempt"], &of(&second)["attempt"]), (&1.into(), &2.into()));
        // A receipt is never replaced.
        assert!(issuer.issue("00000002", "1", statement).is_err());
        let problem = config.open().unwrap().verify(None, &[record::audited]).unwrap().problem;
        assert_eq!(problem, None);
        let state = StateFolder::open(&dir.path().join("state")).unwrap();
        assert_eq!(record::kept(&state, &entries[0]).unwrap().as_deref(), Some(&*first));
        assert_eq!(record::kept(&state, "00").unwrap(), None);
    }
}
