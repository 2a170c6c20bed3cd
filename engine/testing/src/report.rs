//! `hotcell.test_report/1`: what a run of tests came to, for programs to read.

use hotcell_sandbox::outcome::Outcome;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::case::{Case, Status};
use crate::coverage::Coverage;
use crate::judge::Verdict;

/// The name of this form in its `schema` field.
pub const SCHEMA: &str = "hotcell.test_report/1";

/// How many tests there are of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// Passed.
    pub passed: u64,
    /// Failed.
    pub failed: u64,
    /// Could not be run.
    pub errored: u64,
    /// Skipped, or failed as expected.
    pub skipped: u64,
    /// Started, and never seen to end.
    pub not_finished: u64,
    /// The whole run by the clock, milliseconds; where that is not known, all cases together.
    pub duration_ms: u64,
}

impl Totals {
    /// Adds another suite's; suites run one after the other.
    pub fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.errored += other.errored;
        self.skipped += other.skipped;
        self.not_finished += other.not_finished;
        self.duration_ms = self.duration_ms.saturating_add(other.duration_ms);
    }

    /// Counts cases.
    #[must_use]
    pub fn of(cases: &[Case], outcome: &Outcome) -> Self {
        let count = |status| cases.iter().filter(|c| c.status == status).count() as u64;
        Self {
            passed: count(Status::Passed),
            failed: count(Status::Failed),
            errored: count(Status::Errored),
            skipped: count(Status::Skipped),
            not_finished: count(Status::NotFinished),
            duration_ms: outcome.usage.wall_us.map_or_else(
                || cases.iter().fold(0, |sum, c| c.duration_ms.saturating_add(sum)),
                |us| us / 1000,
            ),
        }
    }
}

/// What ran the tests, as it says itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Interpreter {
    /// Path inside, as it was started.
    pub path: String,
    /// Version, as it says itself.
    pub version: String,
}

/// One of several runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Repeat {
    /// What it came to.
    pub verdict: Verdict,
    /// As in the report.
    pub complete: bool,
    /// As in the report.
    pub consistent: bool,
    /// As in the report.
    pub reason: Option<String>,
    /// As in the report.
    pub totals: Totals,
}

/// A test that did not come to the same in every run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Flaky {
    /// Its id.
    pub id: String,
    /// In so many runs it passed.
    pub passed: u64,
    /// Failed.
    pub failed: u64,
    /// Could not be run.
    pub errored: u64,
    /// Was skipped.
    pub skipped: u64,
    /// Did not end.
    pub not_finished: u64,
    /// Was not there.
    pub absent: u64,
}

/// One of several suites of a project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Suite {
    /// Its folder below the project; empty for the project itself.
    pub folder: String,
    /// Its framework.
    pub framework: String,
    /// As in the report.
    pub framework_version: Option<String>,
    /// What it came to.
    pub verdict: Verdict,
    /// As in the report.
    pub complete: bool,
    /// As in the report.
    pub consistent: bool,
    /// As in the report.
    pub reason: Option<String>,
    /// As in the report.
    pub totals: Totals,
}

/// What a run of tests came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TestReport {
    /// Always `hotcell.test_report/1`.
    pub schema: String,
    /// The framework.
    pub framework: String,
    /// Its version, where it has one of its own and said so.
    pub framework_version: Option<String>,
    /// The command that ran inside.
    pub command: Vec<String>,
    /// What ran it; `null` where it did not say.
    pub interpreter: Option<Interpreter>,
    /// The answer.
    pub verdict: Verdict,
    /// The final report covers the whole run.
    pub complete: bool,
    /// Report, live events and exit code agree.
    pub consistent: bool,
    /// Why it is not complete or consistent, what ended it, or what is to be done; `null` for a plain run.
    pub reason: Option<String>,
    /// Counts.
    pub totals: Totals,
    /// Every test.
    pub cases: Vec<Case>,
    /// Which lines ran; `null` where nobody asked, or nothing was measured.
    #[serde(default)]
    pub coverage: Option<Coverage>,
    /// With more than one suite: each of them, by folder. `totals`, `cases` and `coverage` are of all of them then, `reason` and `outcome`
    /// of the worst one.
    #[serde(default)]
    pub suites: Option<Vec<Suite>>,
    /// With more than one run: each of them. `totals`, `cases` and `outcome` are of the worst one then.
    pub repeats: Option<Vec<Repeat>>,
    /// With more than one run: the tests that differed.
    pub flaky: Option<Vec<Flaky>>,
    /// What the run itself came to.
    pub outcome: Outcome,
}

impl TestReport {
    /// The cases that are not good.
    pub fn bad(&self) -> impl Iterator<Item = &Case> {
        self.cases.iter().filter(|case| !case.status.is_good())
    }

    /// A report in which nothing ran: a refusal, or a program that is not there.
    #[must_use]
    pub fn without_a_run(framework: &str, command: Vec<String>, outcome: Outcome) -> Self {
        use hotcell_sandbox::Cause;
        let verdict = match outcome.cause {
            Cause::NotFound => Verdict::NotInstalled,
            Cause::Quarantined => Verdict::Quarantined,
            Cause::Cancelled => Verdict::Interrupted,
            _ => Verdict::Refused,
        };
        Self {
            schema: SCHEMA.to_owned(),
            framework: framework.to_owned(),
            framework_version: None,
            command,
            interpreter: None,
            verdict,
            complete: false,
            consistent: true,
            reason: outcome.reason.clone(),
            totals: Totals::default(),
            cases: Vec::new(),
            coverage: None,
            suites: None,
            repeats: None,
            flaky: None,
            outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_the_fields_of_the_contract_and_reads_back() {
        let outcome = Outcome::without_a_run(hotcell_sandbox::Cause::Refused, "no");
        let report = TestReport::without_a_run("pytest", vec!["python3".to_owned()], outcome);
        let json = serde_json::to_value(&report).unwrap();
        for field in
            ["framework", "command", "complete", "consistent", "totals", "cases", "coverage", "outcome"]
        {
            assert!(json.get(field).is_some(), "{field}");
        }
        assert_eq!((&json["schema"], &json["coverage"]), (&SCHEMA.into(), &serde_json::Value::Null));
        assert_eq!(serde_json::from_value::<TestReport>(json).unwrap(), report);
    }
}
