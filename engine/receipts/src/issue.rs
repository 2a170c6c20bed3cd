//! Making a receipt: the statement is signed, kept in the state folder, noted in the audit log, and written to the operator's folder.

use std::io;
use std::path::PathBuf;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use hotcell_config::{Configuration, ReceiptSettings};
use hotcell_review::quarantine::{QuarantineConfig, QuarantineError};
use hotcell_state::StateFolder;
use hotcell_state::state::StateError;

use crate::ahead::Ahead;
use crate::record::{self, Place, Recorded};
use crate::run::About;
use crate::signer::{Signer, SignerError};
use crate::statement::Statement;
use crate::store::write_new;

/// Number of times that a program signs one receipt, if others take its place meanwhile: each time may take seconds, and the caller waits.
const MAX_ROUNDS: usize = 3;

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
    /// Others about the same were faster, each time that the program signed.
    #[error(
        "other receipts about the same were recorded while the program of receipts.key signed, {MAX_ROUNDS} times; nothing is recorded: repeat it \
         when fewer runs of it end at once, or use a key that hotcell reads"
    )]
    Overtaken,
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

    /// Opens the database for the next receipt while a run goes on, for which this process takes these files and folders from the host.
    #[must_use]
    pub fn open_ahead(&self, read: Vec<PathBuf>) -> Ahead {
        Ahead::open(&self.config, read)
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
        let statement = statement(About::now(run, version, None))?;
        let about = Some(statement.about());
        self.make(config, run, statement, about)
    }

    /// Like [`Issuer::issue`], for a statement that does not name all that it is about: whether it is a repetition is not known, so that it has no number,
    /// and counts for no other's.
    ///
    /// # Errors
    /// As [`Issuer::issue`].
    pub fn issue_unnumbered(
        &self,
        run: &str,
        version: &str,
        statement: impl FnOnce(About) -> Result<Statement, serde_json::Error>,
    ) -> Result<String, IssueError> {
        self.make(&self.config, run, statement(About::now(run, version, None))?, None)
    }

    /// Signs and records a statement. Its number and the end of the log are those of the transaction that records it, so that no two receipts about the same have
    /// one number. A key signs within that transaction. A program may take seconds, during which others would wait: it signs before, and again if its place
    /// was taken meanwhile, at most [`MAX_ROUNDS`] times.
    fn make(
        &self,
        config: &QuarantineConfig,
        run: &str,
        mut statement: Statement,
        about: Option<String>,
    ) -> Result<String, IssueError> {
        let is_numbered = about.is_some();
        let about = about.unwrap_or_default();
        let quarantine = config.open()?;
        let mut signed = |place: &Place| {
            let facts = &mut statement.predicate["hotcell"];
            facts["attempt"] = is_numbered.then_some(place.number).into();
            facts["audit_head"] = place.log_end.as_deref().into();
            Ok::<_, IssueError>(self.signer.sign(&statement)?.to_json())
        };
        let mut recorded = None;
        for _ in 0..MAX_ROUNDS {
            let before = match &self.signer {
                Signer::Key(_) => None,
                Signer::Program { .. } => {
                    let place = record::place(&quarantine, &about)?;
                    Some((signed(&place)?, place))
                }
            };
            recorded = record::record(&quarantine, &config.actor(), run, &about, |place| match before {
                None => signed(&place).map(Some),
                // Entries of others may be behind the end that it names.
                Some((envelope, taken)) => {
                    Ok((!is_numbered || taken.number == place.number).then_some(envelope))
                }
            })?;
            if recorded.is_some() {
                break;
            }
        }
        let Recorded { digest, envelope } = recorded.ok_or(IssueError::Overtaken)?;
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
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use hotcell_config::KeySource;
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

    fn config(dir: &tempfile::TempDir) -> QuarantineConfig {
        QuarantineConfig {
            state: StateChoice::Named(dir.path().join("state")),
            channel: Channel::Cli,
            two_persons: false,
            team: std::collections::BTreeSet::new(),
            retention: hotcell_review::quarantine::DEFAULT_RETENTION,
        }
    }

    fn attempt(json: &str) -> serde_json::Value {
        let envelope: crate::Envelope = serde_json::from_str(json).unwrap();
        let payload = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, envelope.payload);
        let statement: Statement = serde_json::from_slice(&payload.unwrap()).unwrap();
        statement.predicate["hotcell"]["attempt"].clone()
    }

    /// Each thread has a connection and a lock of its own, as a process has.
    #[test]
    fn receipts_that_are_made_at_once_have_numbers_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let (key, _) = crate::SigningKey::generate().unwrap();
        std::fs::write(dir.path().join("pub.pem"), key.public().to_pem()).unwrap();
        let asks = dir.path().join("asks");
        std::fs::create_dir(&asks).unwrap();
        let script = format!(
            "f={}/$$; cat >$f; mv $f $f.in; until test -e $f.out; do sleep 0.01; done; cat $f.out",
            asks.display()
        );
        let by_program = ReceiptSettings {
            key: KeySource::Program(vec!["/bin/sh".to_owned(), "-c".to_owned(), script]),
            public_key: Some(dir.path().join("pub.pem")),
            ..ReceiptSettings::default()
        };
        let settings = [ReceiptSettings::default(), by_program];
        const THREADS: usize = 6;
        const EACH: usize = 3;
        let (barrier, done) = (Barrier::new(THREADS), AtomicBool::new(false));
        let mut numbers: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let issuer = Issuer::open(&settings[thread % 2], config(&dir)).unwrap();
                    let barrier = &barrier;
                    scope.spawn(move || {
                        barrier.wait();
                        let once = || match issuer.issue("", "1", statement) {
                            Err(IssueError::Overtaken) => None,
                            other => Some(other.unwrap()),
                        };
                        let issued =
                            (0..EACH).map(|_| std::iter::repeat_with(once).flatten().next().unwrap());
                        issued.map(|json| attempt(&json).as_u64().unwrap()).collect::<Vec<_>>()
                    })
                })
                .collect();
            // The service that the program asks.
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    for asked in std::fs::read_dir(&asks).unwrap().map(|entry| entry.unwrap().path()) {
                        if asked.extension() == Some("in".as_ref()) {
                            let signature = key.sign_bytes(&std::fs::read(&asked).unwrap());
                            std::fs::write(asked.with_extension("new"), signature).unwrap();
                            std::fs::rename(asked.with_extension("new"), asked.with_extension("out"))
                                .unwrap();
                            std::fs::remove_file(&asked).unwrap();
                        }
                    }
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
            let numbers = threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect::<Vec<_>>();
            done.store(true, Ordering::Relaxed);
            numbers.into_iter().flat_map(Result::unwrap).collect()
        });
        numbers.sort_unstable();
        let all: Vec<u64> = (1..).take(THREADS * EACH).collect();
        assert_eq!(numbers, all);
        let checked = config(&dir).open().unwrap().verify(None, &[record::audited]).unwrap();
        assert_eq!(checked.problem, None);
    }

    /// The program of the host waits until another receipt about the same is recorded, so many times.
    #[test]
    fn program_whose_place_is_taken_signs_so_many_times() {
        let dir = tempfile::tempdir().unwrap();
        let (key, _) = crate::SigningKey::generate().unwrap();
        std::fs::write(dir.path().join("pub.pem"), key.public().to_pem()).unwrap();
        let script = format!(
            "cd {} && cat >new && mv new asked && until test -e signed; do sleep 0.01; done; cat signed; rm signed",
            dir.path().display()
        );
        let by_program = ReceiptSettings {
            key: KeySource::Program(vec!["/bin/sh".to_owned(), "-c".to_owned(), script]),
            public_key: Some(dir.path().join("pub.pem")),
            ..ReceiptSettings::default()
        };
        let by_key = Issuer::open(&ReceiptSettings::default(), config(&dir)).unwrap();
        let by_program = Issuer::open(&by_program, config(&dir)).unwrap();
        let (asked, signed) = (dir.path().join("asked"), dir.path().join("signed"));
        let mut recorded = 0;
        for (lost, is_numbered, rounds) in
            [(0, true, 1), (1, true, 2), (2, true, 3), (3, true, 3), (9, true, 3), (9, false, 1)]
        {
            let done = AtomicBool::new(false);
            let (issued, times, others) = std::thread::scope(|scope| {
                let service = scope.spawn(|| {
                    let (mut times, mut others) = (0, 0);
                    while !done.load(Ordering::Relaxed) {
                        if let Ok(text) = std::fs::read(&asked) {
                            std::fs::remove_file(&asked).unwrap();
                            if times < lost {
                                by_key.issue("", "1", statement).unwrap();
                                others += 1;
                            }
                            times += 1;
                            std::fs::write(dir.path().join("part"), key.sign_bytes(&text)).unwrap();
                            std::fs::rename(dir.path().join("part"), &signed).unwrap();
                        }
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    (times, others)
                });
                let issued = match is_numbered {
                    true => by_program.issue("", "1", statement),
                    false => by_program.issue_unnumbered("", "1", statement),
                };
                done.store(true, Ordering::Relaxed);
                let (times, others) = service.join().unwrap();
                (issued, times, others)
            });
            assert_eq!(times, rounds, "{lost}");
            recorded += others;
            if lost < MAX_ROUNDS || !is_numbered {
                recorded += 1;
                issued.unwrap();
            } else {
                let error = issued.unwrap_err();
                assert!(matches!(error, IssueError::Overtaken), "{error}");
                assert!(error.to_string().contains("3 times; nothing is recorded"), "{error}");
            }
            assert_eq!(config(&dir).open().unwrap().audit(100).unwrap().entries.len(), recorded);
        }
    }

    #[test]
    fn statement_without_all_that_it_is_about_has_no_number() {
        let dir = tempfile::tempdir().unwrap();
        let issuer = Issuer::open(&ReceiptSettings::default(), config(&dir)).unwrap();
        for _ in 0..2 {
            assert!(attempt(&issuer.issue_unnumbered("", "1", statement).unwrap()).is_null());
        }
        assert_eq!(attempt(&issuer.issue("", "1", statement).unwrap()), 1);
        let problem = config(&dir).open().unwrap().verify(None, &[record::audited]).unwrap().problem;
        assert_eq!(problem, None);
    }

    #[test]
    fn receipts_are_in_the_log_in_their_order_and_in_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let config = config(&dir);
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
