//! Sharding and listing of tests, both by the framework's own list, made before anything runs.

use hotcell_sandbox::Spawn;
use hotcell_sandbox::policy::Policy;
use hotcell_sandbox::text::counted;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_testing::chosen::{self, Chosen};
use hotcell_testing::report::judge::none_found;
use hotcell_testing::session::Listed;
use hotcell_testing::{Cancel, Progress, TestReport, Verdict};

use super::{Beside, PreparedTest};

/// Frameworks that can list their tests.
const THESE: &str = "pytest, unittest, jest, cargo, go and gtest have it";

/// Error for a framework that lacks such an option.
pub fn unsplit(framework: &str, key: &str) -> ErrorReport {
    let why =
        format!("{framework} cannot say which tests there are without running them, so it has no ‹{key}›");
    ErrorReport::new(Code::InvalidValue, why).parameter(key).hint(format!("leave it out; {THESE}"))
}

impl PreparedTest {
    /// The tests to run: all that were selected, or a shard of them.
    ///
    /// # Errors
    /// The report, when there is no list or the shard is empty.
    pub async fn split(
        &self,
        engine: &dyn Spawn,
        cancel: &Cancel,
        policy: &Policy,
        progress: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> Result<Chosen, Box<TestReport>> {
        let all = Chosen { command: self.command.clone(), file: None, is_part: false };
        let Some(shard) = &self.options.shard else { return Ok(all) };
        let (number, of) = (shard.number, shard.of);
        let Listed { ids, outcome } = self.list(engine, cancel, policy, progress).await?;
        let ours = shard.take(self.framework.name(), &ids);
        if ours.is_empty() {
            let name = self.framework.name();
            let mut report = TestReport::without_a_run(name, Vec::new(), outcome);
            let all = ids.len();
            report.reason = Some(match all {
                0 => none_found(self.selection.filter.as_deref(), 0),
                1 => format!("part {number} of {of} has no test: there is 1 in all"),
                _ => format!("part {number} of {of} has no test: there are {all} in all"),
            });
            report.complete = all > 0;
            report.verdict = if all > 0 { Verdict::Passed } else { Verdict::Unusable };
            return Err(Box::new(report));
        }
        progress(Progress::Ahead(&format!(
            "part {number} of {of}: {} of {}",
            ours.len(),
            counted(ids.len(), "test")
        )));
        let part = self.with_project(|project| chosen::part(self.framework, &self.selection, project, &ours));
        let mut part = part.flatten().ok_or_else(|| {
            let why = format!(
                "part {number} of {of} has more names than a command line of {} takes: use more parts",
                self.framework.name()
            );
            let outcome = hotcell_report::RunReport::without_a_run(hotcell_sandbox::Cause::Refused, why);
            Box::new(TestReport::without_a_run(self.framework.name(), Vec::new(), outcome))
        })?;
        part = part.of_listed(ours.len(), ids.len());
        self.with_project(|project| self.build_as_asked(project, &mut part.command));
        if self.measured.is_some() {
            self.with_project(|project| self.framework.cover(&mut part.command, project));
        }
        Ok(part)
    }

    /// Ids of the tests that would run.
    ///
    /// # Errors
    /// A report without cases that says why there is no list.
    pub async fn list(
        &self,
        engine: &dyn Spawn,
        cancel: &Cancel,
        policy: &Policy,
        progress: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> Result<Listed, Box<TestReport>> {
        let command = self.with_project(|project| chosen::listing(self.framework, &self.selection, project));
        let Some(mut command) = command.flatten() else {
            let why = unsplit(self.framework.name(), "list").to_string();
            let outcome = hotcell_report::RunReport::without_a_run(hotcell_sandbox::Cause::Refused, why);
            return Err(Box::new(TestReport::without_a_run(self.framework.name(), Vec::new(), outcome)));
        };
        self.with_project(|project| self.build_as_asked(project, &mut command));
        let mut listed = match self.session(policy, &Chosen { command, file: None, is_part: false }) {
            Ok(session) => session.cancelled_by(cancel).list(engine, progress).await,
            Err(e) => Err(Box::new(self.unwritten(&e))),
        };
        match &mut listed {
            Ok(listed) => {
                crate::elsewhere::take(&mut listed.outcome);
                crate::request::sign(self.scan.as_ref(), &mut listed.outcome);
            }
            Err(report) => {
                crate::elsewhere::take(&mut report.outcome);
                crate::request::sign(self.scan.as_ref(), &mut report.outcome);
                Beside::tell(report);
            }
        }
        listed
    }

    /// Like [`PreparedTest::list`], for callers that will not run the tests.
    ///
    /// # Errors
    /// Like [`PreparedTest::list`].
    pub async fn list_only(
        &self,
        engine: &dyn Spawn,
        cancel: &Cancel,
        progress: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> Result<Listed, Box<TestReport>> {
        let mut policy = self.policy.clone();
        let mut say = |what: &str| progress(Progress::Ahead(what));
        let _in_use = tokio::select! {
            biased;
            () = cancel.wait() => None,
            lock = crate::builds::standard_library(engine, self.compiled(), &mut policy, &mut say) => lock,
        };
        self.list(engine, cancel, &policy, progress).await
    }
}
