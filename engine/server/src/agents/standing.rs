//! How a session stands, from its rows. No workspace is touched, since a driver may be using it.

use hotcell_agents::attempt::replay;
use hotcell_agents::journal::{Row, SessionRow};
use hotcell_agents::machine::Reason;
use hotcell_agents::report::{self, Best, CandidateReport, TestsRow};
use hotcell_agents::{Journal, Phase, Task, driver, journal};
use hotcell_models::LedgerReader;
use hotcell_models::ledger::{By, Usage};
use hotcell_state::caller::Caller;
use hotcell_state::report::{Code, ErrorReport};
use serde_json::json;

use crate::registry::Live;

use super::begin::ENDED;
use super::progress::Progress;
use super::{ArtifactId, CALLER, unknown};

/// How a session stands.
#[derive(Clone, Debug)]
pub struct Standing {
    /// Session.
    pub id: String,
    /// Task.
    pub task: Task,
    /// State.
    pub phase: Phase,
    /// Reason of its end.
    pub reason: Option<Reason>,
    /// Why it ended without a report: nothing to do, no tests, an error.
    pub ended: Option<String>,
    /// It runs in this process.
    pub running: bool,
    /// Last lines of progress, while it runs.
    pub lines: Vec<String>,
    /// Number of reviewed artifacts of the model.
    pub iteration: u32,
    /// Progress.
    pub progress: Progress,
    /// Artifacts of the model that were tested.
    pub artifacts: Vec<ArtifactId>,
    /// Best artifact and its id, if it is better than the given code.
    pub best: Option<(ArtifactId, Best)>,
    /// Tests of the given code.
    pub before: Option<TestsRow>,
    /// Iterations.
    pub candidate: Option<CandidateReport>,
    /// Milliseconds that drivers worked at it.
    pub elapsed_ms: u64,
    /// Calls, tokens and cost.
    pub usage: Usage,
    /// Rows.
    pub rows: Vec<Row>,
    /// Workspace of its artifacts.
    pub workspace: Option<String>,
    /// Changed files of each artifact, the given code first.
    pub files: Vec<Vec<String>>,
}

impl Live {
    /// Checks that a session is a caller's. Blocks.
    ///
    /// # Errors
    /// One and the same report for unknown sessions and those of other callers.
    pub(crate) fn agent_owned(&self, caller: &Caller, session: &str) -> Result<SessionRow, ErrorReport> {
        let state = |e: journal::JournalError| ErrorReport::new(Code::State, e.to_string());
        let journal = Journal::open(&self.state_folder()).map_err(state)?;
        let found = journal.find(session).map_err(|_| unknown())?;
        let notes = journal.notes(&found.id).map_err(state)?;
        let owner = (CALLER.to_owned(), json!(caller.to_string()));
        // A whole id alone: a beginning could be guessed.
        if found.id != session || !notes.contains(&owner) {
            return Err(unknown());
        }
        Ok(found)
    }

    /// A caller's sessions, the newest first; of a process's only those that run here. Blocks.
    ///
    /// # Errors
    /// A report when the journal cannot be read.
    pub fn agent_list(&self, caller: &Caller) -> Result<Vec<SessionRow>, ErrorReport> {
        let state = |e: journal::JournalError| ErrorReport::new(Code::State, e.to_string());
        let journal = Journal::open(&self.state_folder()).map_err(state)?;
        let own = journal.noted(CALLER, &json!(caller.to_string())).map_err(state)?;
        let mut all = journal.list().map_err(state)?;
        all.retain(|row| own.contains(&row.id) && (!caller.is_process() || self.agents().begun(&row.id)));
        for row in &mut all {
            row.state = driver::listed_state(&self.state_folder(), &row.id, &row.state);
        }
        Ok(all)
    }

    /// How a caller's session stands. Blocks.
    ///
    /// # Errors
    /// One and the same report for unknown sessions and those of other callers.
    pub fn agent_standing(&self, caller: &Caller, session: &str) -> Result<Standing, ErrorReport> {
        let found = self.agent_owned(caller, session)?;
        let folder = self.state_folder();
        let state = |e: journal::JournalError| ErrorReport::new(Code::State, e.to_string());
        let journal = Journal::open(&folder).map_err(state)?;
        let rows = journal.rows(session).map_err(state)?;
        let (task, attempts, _) = replay(&found.task, &rows);
        let (phase, reason) = report::state(&attempts);
        let notes = journal.notes(session).map_err(state)?;
        let ended = notes.iter().rev().find(|(what, _)| what == ENDED);
        let running = self.agents().lines(session);
        let usage = LedgerReader::open(&folder).and_then(|ledger| ledger.report(By::Role, Some(session)));
        let usage = usage.map_err(|e| ErrorReport::new(Code::State, e.to_string()))?.total;
        let first = attempts.first();
        let id = |number| ArtifactId { session: session.to_owned(), number };
        let at = first.and_then(|attempt| attempt.state.best);
        let tested = first.map_or(0, |attempt| attempt.tested.len());
        // A session whose tests had no result failed, although no attempt began.
        let phase = if ended.is_some() && running.is_none() { Phase::Failed } else { phase };
        Ok(Standing {
            id: session.to_owned(),
            phase: if running.is_some() && first.is_none_or(|one| one.tested.is_empty()) {
                Phase::Generating
            } else {
                phase
            },
            reason,
            ended: ended.and_then(|(_, why)| why.as_str().map(str::to_owned)),
            running: running.is_some(),
            lines: running.unwrap_or_default(),
            iteration: first.map_or(0, |attempt| attempt.state.iteration()),
            progress: Progress::of(&rows, &task.rules),
            artifacts: (1..tested).map(id).collect(),
            best: at.zip(report::best(&attempts)).map(|(at, best)| (id(at), best)),
            before: first.and_then(|one| one.before()).map(|before| report::row(before, before)),
            candidate: first.map(report::candidate),
            elapsed_ms: journal::worked_ms(&rows),
            usage,
            workspace: first.and_then(|attempt| attempt.workspace.clone()),
            files: first.map(|one| one.tested.iter().map(|t| t.files.clone()).collect()).unwrap_or_default(),
            rows,
            task,
        })
    }
}
