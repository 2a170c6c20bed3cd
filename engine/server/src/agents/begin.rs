//! The beginning of sessions, and further work at those that escalated.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use hotcell_agents::driver::{self, said};
use hotcell_agents::journal::Entry;
use hotcell_agents::{Action, Ended, Journal, Phase, Rules, Task};
use hotcell_state::caller::Caller;
use hotcell_state::report::{Code, ErrorReport, printable_line};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::registry::Live;
use crate::running_agents::{Agent, Lines, MAX_LINES, Running};

use super::worker::Setting;
use super::{AskedLimits, CALLER, limits, projects};

/// Maximum of output tokens of an answer.
const MAX_OUTPUT_TOKENS: u32 = 8192;
/// Iterations that a revision adds.
const MORE_ITERATIONS: u32 = 2;
/// Maximum number of iterations of a session, with all revisions.
const MAX_ITERATIONS: u32 = 20;
/// Maximum number of instructions that are added to a session while it runs.
const MAX_INSTRUCTIONS: usize = 10;
/// Kind of the note with which a session without a report ends.
pub(super) const ENDED: &str = "ended";

/// Request of a session.
#[derive(Clone, Debug)]
pub struct Specification {
    /// Workspace with the code, if there is any, and the tests that decide.
    pub workspace_id: String,
    /// Task in words.
    pub words: String,
    /// Further instructions.
    pub constraints: Vec<String>,
    /// Framework of the tests, if it was named.
    pub framework: Option<String>,
    /// Maximum number of iterations.
    pub iterations: u32,
    /// Score from which an accepted artifact ends the session.
    pub threshold: u8,
    /// Limits that the caller asks for.
    pub limits: AskedLimits,
}

/// A session that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Session.
    pub session_id: String,
    /// Time limit, in milliseconds.
    pub most_ms: u64,
}

fn state(error: &hotcell_agents::journal::JournalError) -> ErrorReport {
    ErrorReport::new(Code::State, error.to_string())
}

impl Live {
    /// Begins a session over a copy of a caller's workspace. It goes on in the background. Blocks.
    ///
    /// # Errors
    /// A report when no model is configured, five sessions run already, or the workspace is not the caller's.
    pub fn agent_begin(&self, caller: &Caller, asked: &Specification) -> Result<Taken, ErrorReport> {
        let setting = Setting::of(self, caller);
        let chosen = self.agents().chosen(caller, Agent::Alpha);
        let kept = self.workspaces().get(caller, &asked.workspace_id)?.kept()?;
        let limits =
            limits::first(asked.limits, &setting.configuration.user.agents.limits, asked.iterations)?;
        driver::ready(&setting.configuration.user.models, chosen.model.as_deref(), &limits)?;
        let place = self.agents().place()?;
        let journal = Journal::open(&setting.folder).map_err(|e| state(&e))?;
        let is_running = |id: &str| self.agents().lines(id).is_some();
        let bench = setting.bench()?;
        let own = journal.noted(CALLER, &json!(caller.to_string())).map_err(|e| state(&e))?;
        projects::forget(&setting.folder, &bench, &journal, &own, &is_running);
        projects::prune(&setting.folder, &bench, &journal, &is_running);
        let project = projects::copy(&setting.folder, &kept)?;
        let task = Task {
            kind: "task".to_owned(),
            project: project.to_string_lossy().into_owned(),
            framework: asked.framework.clone(),
            filter: None,
            deps: false,
            timeout_ms: None,
            model: chosen.model,
            words: Some(asked.words.clone()),
            candidates: 1,
            rules: Rules { iterations: asked.iterations, threshold: asked.threshold, ..Rules::default() },
            limits,
            constraints: asked.constraints.clone(),
            max_output_tokens: MAX_OUTPUT_TOKENS,
            seed: None,
        };
        let note = |what: &str, value: &str| Entry::Noted { what: what.to_owned(), value: json!(value) };
        let mut notes = vec![note(CALLER, &caller.to_string())];
        notes.extend(chosen.prompt.map(|(_, text)| note(said::BASE_PROMPT, &text)));
        let begun = journal.begin(&task).and_then(|id| journal.add(&id, 0, &notes).map(|()| id));
        let id = begun.map_err(|e| {
            projects::remove(&project);
            state(&e)
        })?;
        let session = id.clone();
        let work = async move |driver: &driver::Driver<'_>| driver.fix_as(task, Some(&session), false).await;
        self.agent_spawn(setting, &id, place, work)?;
        Ok(Taken { session_id: id, most_ms: limits.time_ms.unwrap_or(u64::MAX) })
    }

    /// Goes on with a session that escalated, with further instructions and two more iterations, or only resumes one that was interrupted. Blocks.
    ///
    /// # Errors
    /// A report when the session is not the caller's, runs, or has ended in another state.
    pub fn agent_revise(
        &self,
        caller: &Caller,
        session: &str,
        instructions: &[String],
        asked: AskedLimits,
    ) -> Result<Taken, ErrorReport> {
        let standing = self.agent_standing(caller, session)?;
        if standing.running {
            return Err(ErrorReport::new(Code::Busy, format!("the session {session} is running"))
                .field("session_id")
                .hint("call again when get_project_status says that it has ended"));
        }
        let refused = |why: &str, hint: &str| {
            Err(ErrorReport::new(Code::Refused, why.to_owned()).field("session_id").hint(hint.to_owned()))
        };
        match standing.phase {
            Phase::Converged => {
                return refused(
                    "all tests pass, so that nothing shows the defect",
                    "add a test that fails to the workspace with the artifact's files, and begin a session over it",
                );
            }
            Phase::Failed | Phase::Idle => {
                return refused("the session has ended for good", "begin another one with execute_task_spec");
            }
            _ => {}
        }
        let setting = Setting::of(self, caller);
        let place = self.agents().place()?;
        let iterations =
            standing.iteration.max(standing.task.rules.iterations).saturating_add(MORE_ITERATIONS);
        if iterations > MAX_ITERATIONS {
            return refused(
                &format!("a session has at most {MAX_ITERATIONS} iterations"),
                "begin another one with execute_task_spec",
            );
        }
        let added = iterations.saturating_sub(standing.task.rules.iterations);
        let most = &setting.configuration.user.agents.limits;
        let (limits, new_ms) = limits::further(&standing.task.limits, asked, most, (iterations, added))?;
        let (id, constraints) = (session.to_owned(), instructions.to_vec());
        let model = self.agents().chosen(caller, Agent::Alpha).model;
        let decision = (standing.phase == Phase::Escalated)
            .then(|| Action::RetryWithConstraints { constraints: constraints.clone() });
        let change = move |task: &mut Task| {
            if task.rules.iterations < iterations {
                task.rules.iterations = iterations;
            }
            task.limits = limits;
            task.constraints.extend(constraints);
            if model.is_some() {
                task.model = model;
            }
        };
        let work = async move |driver: &driver::Driver<'_>| driver.resume(&id, decision, change, false).await;
        self.agent_spawn(setting, session, place, work)?;
        Ok(Taken { session_id: session.to_owned(), most_ms: new_ms })
    }

    /// Adds an instruction to a session; its next question has it. Blocks.
    ///
    /// # Errors
    /// A report when the session is not the caller's.
    pub fn agent_instruct(
        &self,
        caller: &Caller,
        session: &str,
        instruction: &str,
    ) -> Result<(), ErrorReport> {
        self.agent_owned(caller, session)?;
        let note = Entry::Noted { what: said::INSTRUCTION.to_owned(), value: json!(instruction) };
        let journal = Journal::open(&self.state_folder()).map_err(|e| state(&e))?;
        let notes = journal.notes(session).map_err(|e| state(&e))?;
        if notes.iter().filter(|(what, _)| what == said::INSTRUCTION).count() >= MAX_INSTRUCTIONS {
            let why = format!("a session has at most {MAX_INSTRUCTIONS} patterns");
            return Err(ErrorReport::new(Code::Refused, why).field("session_id"));
        }
        journal.add(session, 0, &[note]).map_err(|e| state(&e))
    }

    fn agent_spawn(
        &self,
        setting: Setting,
        id: &str,
        place: OwnedSemaphorePermit,
        work: impl AsyncFnOnce(&driver::Driver<'_>) -> Result<Ended, ErrorReport> + Send + 'static,
    ) -> Result<(), ErrorReport> {
        let (stop, stopped) = watch::channel(false);
        let lines: Lines = Arc::new(Mutex::new(VecDeque::new()));
        let mut table = self.agents().table();
        if table.ending || table.running.contains_key(id) {
            return Err(ErrorReport::new(
                Code::Busy,
                format!("the session {id} is running, or hotcell is ending"),
            ));
        }
        let (agents, session, told) = (Arc::clone(self.agents()), id.to_owned(), Arc::clone(&lines));
        let run = move || {
            let say = |line: &str| {
                let mut lines = told.lock().unwrap_or_else(PoisonError::into_inner);
                if lines.len() == MAX_LINES {
                    lines.pop_front();
                }
                lines.push_back(printable_line(line));
            };
            let ended = setting.drive(stopped, &say, work);
            if let Err(error) = note_end(&setting, &session, &ended) {
                tracing::warn!("the end of the session {session} is not in the journal: {error}");
            }
            agents.table().running.remove(&session);
            drop(place);
        };
        let name = format!("agent-{id}");
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(run)
            .map_err(|e| ErrorReport::new(Code::Internal, format!("the session {id} has no thread: {e}")))?;
        table.threads.retain(|thread| !thread.is_finished());
        table.threads.push(thread);
        table.running.insert(id.to_owned(), Running { stop, lines });
        table.begun.insert(id.to_owned());
        Ok(())
    }
}

/// Notes the end of a session that has no report of its own: nothing to do, no tests, an error.
fn note_end(
    setting: &Setting,
    session: &str,
    ended: &Result<Option<Ended>, ErrorReport>,
) -> Result<(), hotcell_agents::journal::JournalError> {
    let (word, why) = match ended {
        Ok(Some(Ended::Session(_)) | None) => return Ok(()),
        Ok(Some(Ended::NothingToFix(evidence))) => (
            "nothing to do",
            format!("all {} tests pass already; write tests for what is asked", evidence.tests.len()),
        ),
        Ok(Some(Ended::NoResult(report))) => {
            let reason = report.reason.clone().unwrap_or_else(|| report.verdict.words().to_owned());
            ("no tests", format!("the tests have no result to begin with: {reason}"))
        }
        Err(report) => ("failed", report.to_string()),
    };
    // Paths of the state folder mean nothing to a caller.
    let journal = Journal::open(&setting.folder)?;
    let project = journal.find(session)?.task.project;
    let folder = setting.folder.path().to_string_lossy().into_owned();
    let why = why.replace(&project, "the workspace").replace(&folder, "…");
    journal.add(session, 0, &[Entry::Noted { what: ENDED.to_owned(), value: json!(why) }])?;
    journal.set_state(session, word)
}
