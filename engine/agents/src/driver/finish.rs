//! The end of a session: the best artifact is chosen, shown, and taken over if that was requested.

use std::path::Path;

use hotcell_models::LedgerReader;
use hotcell_models::ledger::By;
use hotcell_report::Commit;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::StateFolder;
use hotcell_testing::Verdict;
use hotcell_workspace::Stack;

use super::{Driver, Session, of_journal};
use crate::attempt::{Attempt, Tested, replay};
use crate::bench::Bench;
use crate::journal::{Entry, Journal, Row, Task, worked_ms};
use crate::machine::{Event, Phase, Reason};
use crate::make::{Stages, output};
use crate::report::{self, Best, SCHEMA, SessionReport, TestsRow};

impl Session<'_> {
    /// Chooses, notes the state, and makes the report.
    pub(crate) fn finish(&self, attempts: &[Attempt], commit: bool) -> Result<SessionReport, ErrorReport> {
        // The report is made first: a commit empties the workspace.
        let mut report = self.report(attempts)?;
        let phase = report.state;
        let accepted = |best: &Best| best.accepted || phase == Phase::Idle;
        let out = self.shop.as_ref().and_then(|shop| shop.making.out.as_deref());
        if let (Some(seen), Some(best)) = (self.driver.seen, &report.best) {
            let workspace = best.workspace.as_deref().unwrap_or_default();
            self.driver.bench.show(workspace, artifact(attempts, best.candidate))?;
            self.driver.bench.look(workspace, |view| {
                seen(view);
                Ok(())
            })?;
        }
        let best = report.best.clone().filter(accepted);
        let (mut committed, mut written) = (None, None);
        if let Some(best) = &best {
            let workspace = best.workspace.as_deref().unwrap_or_default();
            let artifact = artifact(attempts, best.candidate);
            let handed = if let Some(out) = out {
                let result = output::write(&self.driver.bench, (workspace, artifact), Path::new(out));
                written.insert(result).is_ok()
            } else if commit && self.shop.is_none() {
                let patch = tested(attempts, best.candidate).and_then(|tested| tested.patch.as_deref());
                let project = Path::new(&self.task.project);
                let mut result = self.driver.bench.commit(workspace, artifact, (project, patch))?;
                if !result.conflicts.is_empty() {
                    report.conflicts.clone_from(&result.conflicts);
                    result.error = Some(report::conflict(&self.id, &result.conflicts));
                }
                committed.insert(result).error.is_none()
            } else {
                false
            };
            if handed {
                let handed = [Entry::Step { event: Event::HandedOver }];
                self.journal.add(&self.id, best.candidate, &handed).map_err(|e| of_journal(&e))?;
                report.actions.clear();
                report.conflicts.clear();
                if let Some(made) = &mut report.made {
                    made.written = true;
                }
            }
        }
        let word = match (&committed, &written, phase) {
            (Some(Commit { error: None, .. }), ..) | (_, Some(Ok(())), _) => "taken over".to_owned(),
            (.., Phase::Idle) if report.best.is_none() && self.shop.is_some() => "planned".to_owned(),
            (.., Phase::Idle) => "accepted".to_owned(),
            _ => phase_word(phase),
        };
        self.journal.set_state(&self.id, &word).map_err(|e| of_journal(&e))?;
        written.unwrap_or(Ok(())).map_err(|error| {
            error.hint(format!("hotcell agent resume {} --out DIR writes it to another folder", self.id))
        })?;
        report.commit = committed;
        Ok(report)
    }

    fn report(&self, attempts: &[Attempt]) -> Result<SessionReport, ErrorReport> {
        let rows = self.journal.rows(&self.id).map_err(|e| of_journal(&e))?;
        make(self.driver.folder, &self.driver.bench, &self.id, (&self.task, attempts, &rows))
    }
}

impl Driver<'_> {
    /// Report of a stored session, and its rows.
    ///
    /// # Errors
    /// A report when there is no such session, or it cannot be read.
    pub fn show(
        folder: &StateFolder,
        bench: &Bench,
        id: &str,
    ) -> Result<(SessionReport, Vec<Row>), ErrorReport> {
        let journal = Journal::open(folder).map_err(|e| of_journal(&e))?;
        let found = journal.find(id).map_err(|e| of_journal(&e))?;
        let rows = journal.rows(&found.id).map_err(|e| of_journal(&e))?;
        let (task, attempts, _) = replay(&found.task, &rows);
        Ok((make(folder, bench, &found.id, (&task, &attempts, &rows))?, rows))
    }
}

impl Driver<'_> {
    /// Writes the best artifact of a stored session into an empty folder.
    ///
    /// # Errors
    /// A report when there is no such session, or the folder cannot be written.
    pub fn write_best(
        folder: &StateFolder,
        bench: &Bench,
        id: &str,
        best: &Best,
        to: &Path,
    ) -> Result<(), ErrorReport> {
        let journal = Journal::open(folder).map_err(|e| of_journal(&e))?;
        let found = journal.find(id).map_err(|e| of_journal(&e))?;
        let rows = journal.rows(&found.id).map_err(|e| of_journal(&e))?;
        let (_, attempts, _) = replay(&found.task, &rows);
        let workspace = best.workspace.as_deref().unwrap_or_default();
        bench.write_out(workspace, artifact(&attempts, best.candidate), to)
    }

    /// Calls `work` with the files of the best artifact of a stored session.
    ///
    /// # Errors
    /// A report when there is no such session, or its workspace is gone.
    pub fn look_at_best<T>(
        folder: &StateFolder,
        bench: &Bench,
        id: &str,
        best: &Best,
        work: impl FnOnce(&Stack<'_>) -> std::io::Result<T>,
    ) -> Result<T, ErrorReport> {
        let journal = Journal::open(folder).map_err(|e| of_journal(&e))?;
        let found = journal.find(id).map_err(|e| of_journal(&e))?;
        let rows = journal.rows(&found.id).map_err(|e| of_journal(&e))?;
        let (_, attempts, _) = replay(&found.task, &rows);
        let workspace = best.workspace.as_deref().unwrap_or_default();
        bench.show(workspace, artifact(&attempts, best.candidate))?;
        bench.look(workspace, work)
    }
}

fn phase_word(phase: Phase) -> String {
    serde_json::to_value(phase).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}

/// The command that takes a result over: into a new folder, or into the project.
fn take_over(id: &str, is_new: bool, accept: bool) -> String {
    match (is_new, accept) {
        (true, false) => format!("hotcell agent resume {id} --out DIR"),
        (true, true) => format!("hotcell agent resume {id} --accept --out DIR"),
        (false, false) => format!("hotcell agent resume {id} --commit"),
        (false, true) => format!("hotcell agent resume {id} --accept --commit"),
    }
}

/// Evidence about a candidate's best artifact.
fn tested(attempts: &[Attempt], candidate: u32) -> Option<&Tested> {
    attempts.iter().find(|attempt| attempt.number == candidate)?.best().map(|(_, tested)| tested)
}

/// Index of a candidate's best artifact.
fn artifact(attempts: &[Attempt], candidate: u32) -> usize {
    let one = attempts.iter().find(|attempt| attempt.number == candidate);
    one.and_then(|attempt| attempt.state.best).unwrap_or(0)
}

fn make(
    folder: &StateFolder,
    bench: &Bench,
    id: &str,
    (task, attempts, rows): (&Task, &[Attempt], &[Row]),
) -> Result<SessionReport, ErrorReport> {
    let stages = Stages::of(rows);
    let (state, reason) = match stages.as_ref().and_then(Stages::state) {
        Some(state) => state,
        None if attempts.iter().all(|attempt| attempt.workspace.is_none()) => (Phase::Generating, None),
        None => report::state(attempts),
    };
    let best = report::best(attempts);
    let patch = best.as_ref().and_then(|best| {
        let stored = tested(attempts, best.candidate)?.patch.as_deref().cloned();
        // Rows of older versions have none.
        stored.or_else(|| {
            let changed = bench.changed(best.workspace.as_deref()?, artifact(attempts, best.candidate));
            changed.ok().map(|changed| changed.patch)
        })
    });
    let conflicts = match &patch {
        Some(patch) if stages.is_none() => patch
            .conflicts(Path::new(&task.project))
            .unwrap_or_else(|_| patch.paths.keys().cloned().collect()),
        _ => Vec::new(),
    };
    let before = attempts.first().and_then(Attempt::before);
    let nothing = || TestsRow { run: None, verdict: Verdict::Unusable, good: 0, of: 0 };
    let before = before.map_or_else(nothing, |before| report::row(before, before));
    let usage = LedgerReader::open(folder).and_then(|ledger| ledger.report(By::Role, Some(id)));
    let usage = usage.map_err(|e| ErrorReport::new(Code::State, e.to_string()))?.total;
    let mut actions = Vec::new();
    match state {
        Phase::Idle if stages.is_some() && best.is_none() => {
            actions.push(format!("hotcell agent resume {id}"));
        }
        Phase::Converged => actions.push(take_over(id, stages.is_some(), false)),
        Phase::Escalated => {
            actions.push(format!(
                "hotcell agent resume {id} --iterations N --budget N --constraint TEXT --model NAME"
            ));
            if best.is_some() {
                actions.push(take_over(id, stages.is_some(), true));
            }
            actions.push(format!("hotcell agent resume {id} --abort"));
        }
        Phase::Generating | Phase::Reviewing | Phase::Revising => {
            actions.push(format!("hotcell agent resume {id}"));
        }
        Phase::Failed if matches!(reason, Some(Reason::EndpointUnavailable(_))) => {
            actions.push("hotcell model check".to_owned());
        }
        _ => {}
    }
    if !conflicts.is_empty() && best.is_some() {
        actions.push(format!("hotcell agent export {id} DIR"));
    }
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let seconds = worked_ms(rows) as f64 / 1000.0;
    Ok(SessionReport {
        schema: SCHEMA.to_owned(),
        id: Some(id.to_owned()),
        kind: task.kind.clone(),
        project: task.project.clone(),
        state,
        reason,
        before,
        candidates: attempts.iter().map(report::candidate).collect(),
        best,
        diff: patch.map(|patch| patch.diff),
        conflicts,
        commit: None,
        made: stages.as_ref().map(|stages| crate::make::report::report(stages, rows)),
        usage,
        seconds,
        actions,
    })
}
