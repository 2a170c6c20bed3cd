//! Receipts of runs, tests and scans: `--receipt FILE`.

use std::path::{Path, PathBuf};

use hotcell_receipts::run::{About, RunFacts};
use hotcell_receipts::{KeyStore, Statement, Subject, record, run, scan, test_result, tree};
use hotcell_report::RunReport;
use hotcell_review::quarantine::QuarantineConfig;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::StateFolder;
use hotcell_testing::TestReport;

use crate::result_file::{Before, ResultFile};

/// A receipt that is to be written when the run has ended.
#[derive(Debug)]
pub struct Receipt {
    file: ResultFile,
    config: QuarantineConfig,
    subjects: Vec<Subject>,
}

/// Object that a receipt is about, as the command line names it.
#[derive(Clone, Copy, Debug)]
pub enum ReceiptOf<'a> {
    /// A folder.
    Folder(&'a Path),
    /// Bytes with a name.
    Bytes(&'a str, &'a [u8]),
    /// A command.
    Command,
}

impl Receipt {
    /// Opens the file and takes the digests, before anything runs.
    ///
    /// # Errors
    /// [`ErrorReport`] when the file cannot be written, the folder has no digest, or there is no state folder.
    pub fn open(
        file: &Path,
        trees: &[PathBuf],
        config: Option<QuarantineConfig>,
        about: ReceiptOf<'_>,
    ) -> Result<Self, ErrorReport> {
        let wrong =
            |why: String| ErrorReport::new(Code::InvalidValue, format!("--receipt {why}")).field("--receipt");
        let config = config.ok_or_else(|| wrong("needs a state folder".to_owned()))?;
        let subjects = match about {
            ReceiptOf::Folder(folder) => {
                let name = folder.file_name().unwrap_or_default().to_string_lossy();
                vec![
                    tree::subject(&name, folder, &[file])
                        .map_err(|e| wrong(format!("{}: {e}", folder.display())))?,
                ]
            }
            ReceiptOf::Bytes(name, bytes) => vec![Subject::sha256(name, bytes)],
            ReceiptOf::Command => Vec::new(),
        };
        let file = ResultFile::open(file, trees, Before::Emptied)
            .map_err(|why| wrong(why).hint("name a file that can be written"))?;
        Ok(Self { file, config, subjects })
    }

    /// Signs the outcome of a run.
    ///
    /// # Errors
    /// A sentence, when the key, the log or the file cannot be used.
    pub fn of_run(&mut self, id: &str, outcome: &RunReport, facts: &RunFacts<'_>) -> Result<(), String> {
        let subjects = std::mem::take(&mut self.subjects);
        self.write(id, |about| run::statement(outcome, facts, subjects, about))
    }

    /// Signs a test report.
    ///
    /// # Errors
    /// As [`Receipt::of_run`].
    pub fn of_tests(&mut self, id: &str, report: &TestReport) -> Result<(), String> {
        let json = serde_json::to_vec(report).map_err(|e| e.to_string())?;
        let subjects = std::mem::take(&mut self.subjects);
        self.write(id, |about| test_result::statement(report, &json, subjects, about))
    }

    /// Signs the guard's report.
    ///
    /// # Errors
    /// As [`Receipt::of_run`].
    pub fn of_scan(&mut self, report: &hotcell_guard::Report) -> Result<(), String> {
        let json = serde_json::to_vec(report).map_err(|e| e.to_string())?;
        self.write("", |about| scan::statement(report, &json, about))
    }

    fn write(
        &mut self,
        id: &str,
        statement: impl FnOnce(About) -> Result<Statement, serde_json::Error>,
    ) -> Result<(), String> {
        let path = self.config.state.path().map_err(|e| e.to_string())?;
        let folder = StateFolder::open(path).map_err(|e| e.to_string())?;
        let key = KeyStore::open(&folder).and_then(|store| store.own()).map_err(|e| e.to_string())?;
        let end = record::log_end(&self.config).map_err(|e| e.to_string())?;
        let statement =
            statement(About::now(id, env!("CARGO_PKG_VERSION"), end)).map_err(|e| e.to_string())?;
        let envelope = key.sign(&statement).map_err(|e| e.to_string())?.to_json();
        record::record(&self.config, id, &envelope).map_err(|e| e.to_string())?;
        self.file.write(envelope.as_bytes()).map_err(|e| format!("{}: {e}", self.file.named().display()))
    }
}
