//! The driver: carries out the effects of the machine, and writes each event into the journal before it goes on.

mod ask;
pub(crate) mod calls;
mod finish;
mod lock;
mod make;
pub(crate) mod mutate;
pub mod said;
#[cfg(test)]
mod tests;
mod work;

pub use calls::ready;
pub use lock::listed_state;

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::path::Path;
use std::time::Instant;

use hotcell_config::{Configuration, RunSettings};
use hotcell_models::{Client, Ledger, ModelSettings};
use hotcell_sandbox::Spawn;
use hotcell_state::history::{History, Stored};
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::StateFolder;
use hotcell_testing::{Cancel, Selection, TestReport, Verdict};
use hotcell_toolchain::Surroundings;
use hotcell_verbs::changes::ChangePolicy;
use hotcell_verbs::test::{TestOptions, TestRequest, Unready};

use crate::attempt::{Attempt, replay};
use crate::bench::Bench;
use crate::budget::Budget;
use crate::driver::make::Workshop;
use crate::evidence::Evidence;
use crate::journal::{Entry, Journal, Task, worked_ms};
use crate::machine::{Action, Event};
use crate::make::{Stage, Stages};
use crate::report::SessionReport;

/// Message of a run of tests that was cancelled.
pub(crate) const INTERRUPTED: &str = "interrupted";

/// Resources of a driver.
pub struct Driver<'a> {
    /// State folder.
    pub folder: &'a StateFolder,
    /// Workspaces.
    pub bench: Bench,
    /// Configuration of the tests' sandboxes.
    pub configuration: &'a Configuration,
    /// Settings of the tests' sandboxes.
    pub settings: RunSettings,
    /// Source of sandboxes.
    pub engine: &'a dyn Spawn,
    /// Configured models.
    pub models: &'a ModelSettings,
    /// Surroundings in which programs are found.
    pub around: Surroundings,
    /// Ends a running test.
    pub cancel: Cancel,
    /// Shows one line of progress.
    pub say: &'a dyn Fn(&str),
    /// Gets the files of the artifact that a session hands over, before they are taken over; `None` where no receipt is made.
    pub seen: Option<&'a dyn Fn(&hotcell_workspace::Stack<'_>)>,
}

impl std::fmt::Debug for Driver<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Driver")
    }
}

/// Result of a request.
#[derive(Clone, Debug)]
pub enum Ended {
    /// All tests pass already.
    NothingToFix(Box<Evidence>),
    /// The tests have no result that a repair could begin with.
    NoResult(Box<TestReport>),
    /// A session, with its report.
    Session(Box<SessionReport>),
}

/// A session that is worked at.
pub(crate) struct Session<'a> {
    driver: &'a Driver<'a>,
    id: String,
    task: Task,
    journal: Journal,
    ledger: Ledger,
    repairs: Client,
    fresh: Client,
    shop: Option<Workshop>,
    budget: RefCell<Budget>,
    accepted: Cell<bool>,
    began: Instant,
    worked_ms: u64,
    _lock: File,
}

pub(crate) fn of_journal(error: &crate::journal::JournalError) -> ErrorReport {
    use crate::journal::JournalError::{Ambiguous, Unknown};
    match error {
        Unknown { .. } | Ambiguous { .. } => {
            ErrorReport::new(Code::UnknownName, error.to_string()).hint("hotcell agent list shows them")
        }
        _ => ErrorReport::new(Code::State, error.to_string()),
    }
}

impl Driver<'_> {
    /// Repairs a project whose tests fail.
    ///
    /// # Errors
    /// A report when nothing can be done: no model, a price that is not known, a project that cannot be opened.
    pub async fn fix(&self, task: Task, commit: bool) -> Result<Ended, ErrorReport> {
        self.fix_as(task, None, commit).await
    }

    /// Repairs a project as [`Driver::fix`] does, as a session that the journal has already, without rows of attempts.
    ///
    /// # Errors
    /// As [`Driver::fix`].
    pub async fn fix_as(&self, task: Task, begun: Option<&str>, commit: bool) -> Result<Ended, ErrorReport> {
        // Without its lock, lists call a session interrupted that the journal calls running.
        let lock = begun.map(|id| self.lock(id)).transpose()?;
        // Before any test runs, since nothing could follow from it.
        let (repairs, fresh) = self.clients(&task)?;
        ask::check_keys(&repairs).and_then(|()| ask::check_keys(&fresh))?;
        let workspace = self.bench.make(Path::new(&task.project))?;
        let (report, evidence) = match self.test(&task, &workspace, "as it is").await {
            Ok(tested) => tested,
            Err(error) => {
                self.bench.remove(&workspace);
                return Err(error);
            }
        };
        let repairable = matches!(report.verdict, Verdict::Failed | Verdict::Limit)
            || (report.verdict == Verdict::Unusable
                && report.outcome.usage.wall_us.is_some()
                && seems_broken(&report));
        if !repairable {
            self.bench.remove(&workspace);
            return Ok(match report.verdict {
                Verdict::Passed => Ended::NothingToFix(Box::new(evidence)),
                _ => Ended::NoResult(Box::new(report)),
            });
        }
        let journal = Journal::open(self.folder).map_err(|e| of_journal(&e))?;
        let id = match begun {
            Some(id) => id.to_owned(),
            None => journal.begin(&task).map_err(|e| of_journal(&e))?,
        };
        (self.say)(&format!(
            "session {id}: {} of {} tests are good; {} {}",
            evidence.passed(),
            evidence.tests.len(),
            task.candidates,
            if task.candidates == 1 { "candidate" } else { "candidates" }
        ));
        for number in 1..=task.candidates {
            let workspace =
                if number == 1 { workspace.clone() } else { self.bench.make(Path::new(&task.project))? };
            let review = evidence.review(&evidence, "given", None);
            let tested = Entry::Tested {
                evidence: Box::new(evidence.clone()),
                artifact: "given".to_owned(),
                files: Vec::new(),
                lines: 0,
                analysis: String::new(),
                patch: None,
            };
            let rows = [
                Entry::Workspace { id: workspace },
                Entry::Step { event: Event::CodeGiven },
                tested,
                Entry::Step { event: Event::Reviewed(review) },
            ];
            journal.add(&id, number, &rows).map_err(|e| of_journal(&e))?;
        }
        let lock = lock.map_or_else(|| self.lock(&id), Ok)?;
        self.go_on_locked(lock, &id, &task, &journal, None, commit).await
    }

    /// Goes on with a session, after a decision about an escalated one.
    ///
    /// # Errors
    /// A report when there is no such session, another driver works at it, or it cannot go on.
    pub async fn resume(
        &self,
        id: &str,
        decision: Option<Action>,
        changed: impl FnOnce(&mut Task),
        commit: bool,
    ) -> Result<Ended, ErrorReport> {
        let journal = Journal::open(self.folder).map_err(|e| of_journal(&e))?;
        let found = journal.find(id).map_err(|e| of_journal(&e))?;
        let rows = journal.rows(&found.id).map_err(|e| of_journal(&e))?;
        let (mut task, attempts, _) = replay(&found.task, &rows);
        if Stages::of(&rows).is_none() && attempts.iter().any(|attempt| attempt.workspace.is_none()) {
            let why = format!("the session {} was ended before its work began", found.id);
            return Err(ErrorReport::new(Code::State, why).hint("begin another one"));
        }
        let before = task.clone();
        changed(&mut task);
        if task != before {
            let entry = Entry::Changed { task: Box::new(task) };
            journal.add(&found.id, 0, &[entry]).map_err(|e| of_journal(&e))?;
        }
        self.go_on(&found.id, &found.task, &journal, decision, commit).await
    }

    async fn go_on(
        &self,
        id: &str,
        task: &Task,
        journal: &Journal,
        decision: Option<Action>,
        commit: bool,
    ) -> Result<Ended, ErrorReport> {
        let lock = self.lock(id)?;
        self.go_on_locked(lock, id, task, journal, decision, commit).await
    }

    async fn go_on_locked(
        &self,
        lock: File,
        id: &str,
        task: &Task,
        journal: &Journal,
        decision: Option<Action>,
        commit: bool,
    ) -> Result<Ended, ErrorReport> {
        let rows = journal.rows(id).map_err(|e| of_journal(&e))?;
        let (task, mut attempts, budget) = replay(task, &rows);
        let (repairs, fresh) = self.clients(&task)?;
        let shop = Stages::of(&rows).map(|stages| self.workshop(&task, &stages.making)).transpose()?;
        let session = Session {
            driver: self,
            id: id.to_owned(),
            journal: Journal::open(self.folder).map_err(|e| of_journal(&e))?,
            ledger: Ledger::open(self.folder).map_err(|e| ErrorReport::new(Code::State, e.to_string()))?,
            repairs,
            fresh,
            shop,
            budget: RefCell::new(budget),
            accepted: Cell::new(false),
            began: Instant::now(),
            worked_ms: worked_ms(&rows),
            task,
            _lock: lock,
        };
        session.journal.add(id, 0, &[Entry::Began]).map_err(|e| of_journal(&e))?;
        session.journal.set_state(id, lock::RUNNING).map_err(|e| of_journal(&e))?;
        if let Some(shop) = &session.shop {
            if !session.prepare(shop, decision.as_ref()).await? {
                return session.finish(&attempts, commit).map(|report| Ended::Session(Box::new(report)));
            }
            if let Some(made) = shop.made.get() {
                let unbegun = attempts.iter_mut().filter(|attempt| attempt.workspace.is_none());
                unbegun.into_iter().try_for_each(|attempt| session.begin(made, attempt))?;
            }
        }
        let attempts = session.run(attempts, decision).await.map_err(|error| match error.hint {
            Some(_) => error,
            None => error.hint(format!(
                "the session {id} keeps what was made: hotcell agent resume {id} goes on, hotcell agent export {id} DIR writes it"
            )),
        })?;
        session.finish(&attempts, commit).map(|report| Ended::Session(Box::new(report)))
    }

    /// Locks a session, so that one driver works at it.
    ///
    /// # Errors
    /// A report when another one does.
    pub fn lock(&self, id: &str) -> Result<File, ErrorReport> {
        lock::take(self.folder, id)
    }

    /// Runs the tests in a workspace.
    pub(crate) async fn test(
        &self,
        task: &Task,
        workspace: &str,
        what: &str,
    ) -> Result<(TestReport, Evidence), ErrorReport> {
        let selected = (task.framework.clone(), task.filter.clone());
        let command = vec![task.kind.clone(), task.project.clone(), what.to_owned()];
        let (report, run) = self.run_tests(workspace, selected, false, command).await?;
        let evidence = Evidence::of(&report, run);
        Ok((report, evidence))
    }

    /// Runs tests of a framework, with a filter, in a workspace; returns the report and the run's id in the history. `command` is shown there.
    pub(crate) async fn run_tests(
        &self,
        workspace: &str,
        (framework, filter): (Option<String>, Option<String>),
        coverage: bool,
        command: Vec<String>,
    ) -> Result<(TestReport, Option<String>), ErrorReport> {
        let selection = Selection { filter, ..Selection::default() };
        self.run_selected(workspace, (framework, selection), coverage, command).await
    }

    /// Runs any selection of tests as [`Driver::run_tests`] does.
    pub(crate) async fn run_selected(
        &self,
        workspace: &str,
        (framework, selection): (Option<String>, Selection),
        coverage: bool,
        command: Vec<String>,
    ) -> Result<(TestReport, Option<String>), ErrorReport> {
        let kept = self.bench.pin(workspace)?;
        let request = TestRequest {
            project: kept.mount().0,
            kept: Some(kept),
            framework,
            selection,
            coverage,
            repeat: 1,
            settings: self.settings.clone(),
            // The tests' own changes are dropped.
            keep: ChangePolicy::default(),
            options: TestOptions::default(),
        };
        let stored = Stored::begin(command);
        let report = match request.prepare_suites(self.configuration, &self.around, &mut |_| Ok(())) {
            Ok(prepared) => {
                let run = prepared.run(self.engine, &self.cancel, |_| (), |_, _| ()).await;
                run.ok_or_else(|| ErrorReport::new(Code::Internal, "no suite was prepared"))?
            }
            Err(Unready::Wrong(report)) => return Err(report),
            Err(Unready::Answered(report)) => *report,
        };
        if report.verdict == Verdict::Interrupted {
            return Err(ErrorReport::new(Code::Refused, INTERRUPTED));
        }
        let ran = report.outcome.usage.wall_us.is_some();
        if ran
            && let Err(error) =
                History::open(self.folder).and_then(|history| history.add(&stored, &report.outcome))
        {
            tracing::warn!("this run is not in the history: {error}");
        }
        Ok((report, ran.then(|| stored.id.clone())))
    }
}

/// Tells if a run without a result failed because the code is broken, rather than because there are no tests.
fn seems_broken(report: &TestReport) -> bool {
    let no_tests =
        report.totals.cases() == 0 && report.outcome.exit_code.is_some_and(|code| matches!(code, 0 | 5));
    !no_tests
}

impl Session<'_> {
    /// Writes rows, and applies them.
    pub(crate) fn note(&self, attempt: &mut Attempt, entries: &[Entry]) -> Result<(), ErrorReport> {
        self.journal.add(&self.id, attempt.number, entries).map_err(|e| of_journal(&e))?;
        entries.iter().for_each(|entry| attempt.apply(entry));
        Ok(())
    }

    pub(crate) fn say(&self, attempt: &Attempt, line: &str) {
        if let Some(stage) = Stage::of(attempt.number) {
            (self.driver.say)(&format!("{}: {line}", stage.role()));
        } else if self.task.candidates == 1 {
            (self.driver.say)(line);
        } else {
            (self.driver.say)(&format!("candidate {}: {line}", attempt.number));
        }
    }

    /// Milliseconds that are left; `None` without a limit.
    pub(crate) fn left_ms(&self) -> Option<u64> {
        let worked = self.worked_ms + u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.task.limits.time_ms.map(|limit| limit.saturating_sub(worked))
    }
}
