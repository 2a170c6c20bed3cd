//! Receipts of runs, tests and scans: `--receipt FILE`, and `receipts.always` of the configuration.

use std::path::{Path, PathBuf};

use hotcell_config::Configuration;
use hotcell_receipts::agent::{self, SessionFacts};
use hotcell_receipts::git::GitTree;
use hotcell_receipts::run::{About, RunFacts};
use hotcell_receipts::{Ahead, Issuer, Statement, Subject, git, run, scan, test_result, tree};
use hotcell_report::RunReport;
use hotcell_server::session_receipts;
use hotcell_sessions::SessionEnd;
use hotcell_state::report::{Code, ErrorReport, printable};
use hotcell_testing::TestReport;
use hotcell_verbs::pinned::PinnedWorkspace;

use crate::result_file::{Before, ResultFile};

/// A receipt that is to be written when the run has ended.
#[derive(Debug)]
pub struct Receipt {
    file: Option<ResultFile>,
    issuer: Issuer,
    /// Files and folders of the host that the run takes; `None` where the database is not opened ahead.
    taken: Option<Vec<PathBuf>>,
    /// The database, where it is opened while the program runs.
    ahead: Option<Ahead>,
    subjects: Vec<Subject>,
}

/// Object that a receipt is about, as the command line names it.
#[derive(Clone, Copy, Debug)]
pub enum ReceiptOf<'a> {
    /// A folder.
    Folder(&'a Path),
    /// A stored workspace, with its changes.
    Workspace(&'a PinnedWorkspace),
    /// Bytes with a name.
    Bytes(&'a str, &'a [u8]),
    /// A command.
    Command,
}

/// Whether a run gets a receipt: where a file is named for it, or the configuration says always.
pub fn is_wanted(file: Option<&Path>, configuration: &Configuration) -> bool {
    file.is_some() || configuration.user.receipts.always
}

impl Receipt {
    /// Opens the key and the file, and takes the digests, before anything runs.
    ///
    /// # Errors
    /// [`ErrorReport`] when there is no key or no state folder, the file cannot be written, or the folder has no digest.
    pub fn open(
        file: Option<&Path>,
        trees: &[PathBuf],
        configuration: &Configuration,
        about: ReceiptOf<'_>,
    ) -> Result<Self, ErrorReport> {
        let field = if file.is_some() { "--receipt" } else { "receipts.always" };
        let wrong =
            |why: String| ErrorReport::new(Code::InvalidValue, format!("{field}: {why}")).field(field);
        let issuer = Issuer::of(configuration).map_err(|e| wrong(e.to_string()))?;
        let subjects = match about {
            ReceiptOf::Folder(folder) => {
                let name = folder.file_name().unwrap_or_default().to_string_lossy();
                let bad = |e: tree::TreeError| wrong(format!("{}: {e}", folder.display()));
                let except: Vec<_> = file.into_iter().collect();
                let mut subjects = vec![tree::subject(&name, folder, &except).map_err(bad)?];
                match git::subject(&name, folder, &except).map_err(bad)? {
                    GitTree::Subject(subject) => subjects.push(subject),
                    GitTree::Untracked(path) => tracing::warn!(
                        "the receipt is about the folder, and not about a git tree: {} is not tracked; \
                         use a clean checkout for a receipt about a commit's tree",
                        printable(&path)
                    ),
                    GitTree::None => {}
                }
                subjects
            }
            ReceiptOf::Workspace(kept) => {
                let id = kept.pinned().id();
                let bad = |why: String| wrong(format!("{id}: {why}"));
                let digest = kept.pinned().with_view(|_, view| Ok(tree::of_view(id, view)));
                vec![digest.map_err(|e| bad(e.to_string()))?.map_err(|e| bad(e.to_string()))?]
            }
            ReceiptOf::Bytes(name, bytes) => vec![Subject::sha256(name, bytes)],
            ReceiptOf::Command => Vec::new(),
        };
        let file = file.map(|file| {
            ResultFile::open(file, trees, Before::Emptied)
                .map_err(|why| wrong(why).hint("name a file that can be written"))
        });
        Ok(Self { file: file.transpose()?, issuer, taken: None, ahead: None, subjects })
    }

    /// Has the database opened while the program runs, for which this process takes these files and folders from the host.
    pub fn with_taken(self, taken: Vec<PathBuf>) -> Self {
        Self { taken: Some(taken), ..self }
    }

    /// Begins to open the database, once.
    pub fn open_ahead(&mut self) {
        if let Some(taken) = self.taken.take() {
            self.ahead = Some(self.issuer.open_ahead(taken));
        }
    }

    /// Whether the database is open for writing. Waits for [`Receipt::open_ahead`].
    pub fn is_open(&mut self) -> bool {
        self.ahead.as_mut().is_some_and(Ahead::is_open)
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
    pub fn of_tests(&mut self, id: &str, report: &TestReport, image: Option<String>) -> Result<(), String> {
        let json = serde_json::to_vec(report).map_err(|e| e.to_string())?;
        let subjects = std::mem::take(&mut self.subjects);
        self.write(id, |about| test_result::statement(report, &json, image, subjects, about))
    }

    /// Signs the facts of a session.
    ///
    /// # Errors
    /// As [`Receipt::of_run`].
    pub fn of_session(&mut self, facts: SessionFacts, subjects: Vec<Subject>) -> Result<(), String> {
        self.write("", |about| agent::statement(facts, subjects, about))
    }

    /// Signs the facts of an interpreter session.
    ///
    /// # Errors
    /// As [`Receipt::of_run`].
    pub fn of_interpreter(&mut self, end: &SessionEnd) -> Result<(), String> {
        self.write("", |about| session_receipts::statement(end, about))
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
        // Otherwise it would be opened twice.
        self.is_open();
        let envelope =
            self.issuer.issue(id, env!("CARGO_PKG_VERSION"), statement).map_err(|e| e.to_string())?;
        match &mut self.file {
            Some(file) => {
                file.write(envelope.as_bytes()).map_err(|e| format!("{}: {e}", file.named().display()))
            }
            None => Ok(()),
        }
    }
}
