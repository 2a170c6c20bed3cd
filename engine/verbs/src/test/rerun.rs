//! One run of the prepared tests, and reruns of failed ones.

use std::sync::{Arc, PoisonError};

use hotcell_report::RunReport;
use hotcell_sandbox::outcome::Cause;
use hotcell_sandbox::policy::{Confinement, Policy};
use hotcell_sandbox::{Changed, Spawn};
use hotcell_testing::build_args;
use hotcell_testing::chosen::{self, Chosen, ONLY};
use hotcell_testing::coverage::Measured;
use hotcell_testing::framework::Command;
use hotcell_testing::report::retry::Retries;
use hotcell_testing::{Cancel, Progress, Project, ProjectFolder, Session, TestReport, Verdict};

use crate::test::services::SCRIPT;

use super::{Beside, PreparedTest, seen_from_the_project};

impl PreparedTest {
    /// One run in a new sandbox.
    pub async fn once(
        &self,
        engine: &dyn Spawn,
        cancel: &Cancel,
        policy: &Policy,
        (chosen, measured): (&Chosen, Option<Measured>),
        progress: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> TestReport {
        let (mut report, mut changed) = match self.session(policy, chosen) {
            Ok(session) => {
                let followed = self.followed.clone();
                let is_part = chosen.is_part && chosen.command.argv != self.command.argv;
                session
                    .cancelled_by(cancel)
                    .covered(measured)
                    .following(followed)
                    .selecting(self.selection.filter.clone(), is_part)
                    .run_and_keep(engine, progress)
                    .await
            }
            Err(e) => (self.unwritten(&e), None),
        };
        crate::elsewhere::take(&mut report.outcome);
        if let Some(changed) = &mut changed {
            self.keep_warm(&report, changed).await;
        }
        if let Some(before) = self.before.clone() {
            let passed = report.verdict == Verdict::Passed;
            if let Err(error) = before.collect(changed, &mut report.outcome, passed).await {
                tracing::warn!(target: "hotcell_contents", "what the tests changed in the workspace cannot be told: {error}");
            }
        }
        crate::request::sign(self.scan.as_ref(), &mut report.outcome);
        Beside::tell(&mut report);
        if report.verdict == Verdict::Unusable
            && report.cases.is_empty()
            && let Some(hint) =
                self.with_project(|project| build_args::hint(self.framework.name(), project)).flatten()
        {
            report.reason = Some(report.reason.map_or_else(|| hint.clone(), |why| format!("{why}; {hint}")));
        }
        report
    }

    /// Of a complete run, keeps what the build tool has made for the next one.
    async fn keep_warm(&self, report: &TestReport, changed: &mut Changed) {
        let warm = self.warm.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(warm) = warm else { return };
        let ended = report.complete && matches!(report.verdict, Verdict::Passed | Verdict::Failed);
        if ended && changed.settle().await.is_ok() {
            let beside = std::mem::take(&mut changed.beside);
            let _ = tokio::task::spawn_blocking(move || warm.keep(beside)).await;
        }
    }

    /// A session of some command in place of the one that the policy was made for.
    pub fn session(&self, policy: &Policy, chosen: &Chosen) -> std::io::Result<Session> {
        let project = self.view.clone().map(|view| view as Arc<dyn Project + Send + Sync>);
        let policy = self.with_command(policy, chosen);
        let beside = (!self.options.beside.is_empty()).then(Beside::script);
        Session::over(self.framework, chosen.command.clone(), policy, project)?
            .showing(ONLY, chosen.file.as_deref())?
            .showing(SCRIPT, beside.as_deref())
    }

    /// Report of a run that could not begin.
    pub fn unwritten(&self, error: &std::io::Error) -> TestReport {
        let why = format!("hotcell's own files for the run cannot be written: {error}; make room in TMPDIR");
        let outcome = RunReport::without_a_run(Cause::Refused, why);
        TestReport::without_a_run(self.framework.name(), Vec::new(), outcome)
    }

    /// The policy with other arguments for its program; the program's path and the arguments before those of
    /// the test command stay.
    fn with_command(&self, policy: &Policy, chosen: &Chosen) -> Policy {
        let mut policy = policy.clone();
        if chosen.command.argv != self.command.argv {
            let before = policy.job.argv.len().saturating_sub(self.command.argv.len().saturating_sub(1));
            policy.job.argv.truncate(before);
            policy.job.argv.extend(chosen.command.argv.iter().skip(1).cloned());
            if policy.shape.confinement == Confinement::LandlockOnly {
                seen_from_the_project(&mut policy);
            }
        }
        policy
    }

    /// Adds the requested build options, which were validated before, to another command of these tests.
    pub fn build_as_asked(&self, project: &dyn Project, command: &mut Command) {
        let _ = build_args::add(self.framework.name(), project, &self.options.build_args, command);
    }

    /// Calls `ask` with the workspace as it is on the host.
    pub fn with_project<T>(&self, ask: impl FnOnce(&dyn Project) -> T) -> Option<T> {
        if let Some(view) = &self.view {
            return Some(ask(view.as_ref()));
        }
        let folder = ProjectFolder::open(self.policy.job.workspace.as_deref()?).ok()?;
        Some(ask(&folder))
    }

    /// Reruns failed tests, alone if the framework can select them, until all have passed once or `retry`
    /// reruns are done.
    pub async fn again(
        &self,
        engine: &dyn Spawn,
        cancel: &Cancel,
        (policy, all): (&Policy, &Chosen),
        first: TestReport,
        progress: &mut (impl FnMut(u32, Progress<'_>) + Send),
    ) -> TestReport {
        let mut retries = Retries::new(first);
        for number in 2..=self.options.retry.saturating_add(1) {
            let pending = retries.pending();
            if pending.is_empty() {
                break;
            }
            let some = self.with_project(|project| {
                let mut some = chosen::again(self.framework, &self.selection, project, &pending);
                some.iter_mut().for_each(|one| self.build_as_asked(project, &mut one.command));
                some
            });
            let some = some.filter(|some| !some.is_empty() && !retries.needs_whole());
            let whole = some.is_none();
            for chosen in some.unwrap_or_else(|| vec![all.clone()]) {
                let progress = &mut |what: Progress<'_>| progress(number, what);
                let report = self.once(engine, cancel, policy, (&chosen, None), progress).await;
                retries.add(report, whole);
            }
        }
        retries.finish()
    }
}
