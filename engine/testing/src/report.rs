//! `hotcell.test_report/1`: result of a test run, for programs to read.
//!
//! | module | idea |
//! | --- | --- |
//! | [`judge`], [`verdict`] | three witnesses -> one verdict |
//! | [`repeat`], [`retry`] | several runs in one; reruns of failed tests |
//! | [`shards`] | parts of a suite that ran on several machines, in one report |
//! | [`junit_out`], [`github`], [`coverage_out`] | a report as JUnit XML, and for a GitHub workflow; coverage as files |

pub mod coverage_out;
pub mod github;
pub mod judge;
pub mod junit_out;
pub mod repeat;
pub mod retry;
pub mod shards;
pub mod verdict;

use hotcell_report::RunReport;
use hotcell_sandbox::Outcome;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::case::{Case, Status};
use crate::coverage::Coverage;
use crate::report::verdict::Verdict;

/// Value of the `schema` field.
pub const SCHEMA: &str = "hotcell.test_report/1";

/// Number of tests by status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// Passed.
    pub passed: u64,
    /// Failed.
    pub failed: u64,
    /// Tests that could not be run.
    pub errored: u64,
    /// Skipped, or failed as expected.
    pub skipped: u64,
    /// Started tests whose end was not observed.
    pub not_finished: u64,
    /// Wall-clock time of the whole run, in milliseconds; if unknown, the sum of all cases.
    pub duration_ms: u64,
}

impl Totals {
    /// Adds those of another suite; suites run one after the other.
    pub fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.errored += other.errored;
        self.skipped += other.skipped;
        self.not_finished += other.not_finished;
        self.duration_ms = self.duration_ms.saturating_add(other.duration_ms);
    }

    /// Number of all cases.
    #[must_use]
    pub const fn cases(&self) -> u64 {
        self.passed + self.failed + self.errored + self.skipped + self.not_finished
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

/// Interpreter that ran the tests, according to itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Interpreter {
    /// Path inside, as it was started.
    pub path: String,
    /// Version, according to the interpreter.
    pub version: String,
}

/// One of several runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Repeat {
    /// Verdict.
    pub verdict: Verdict,
    /// See the report.
    pub complete: bool,
    /// See the report.
    pub consistent: bool,
    /// See the report.
    pub reason: Option<String>,
    /// See the report.
    pub totals: Totals,
}

/// A test with different results in several runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Flaky {
    /// Id.
    pub id: String,
    /// Number of runs in which it passed.
    pub passed: u64,
    /// Number of runs in which it failed.
    pub failed: u64,
    /// Number of runs in which it could not be run.
    pub errored: u64,
    /// Number of runs in which it was skipped.
    pub skipped: u64,
    /// Number of runs in which it did not end.
    pub not_finished: u64,
    /// Number of runs without it.
    pub absent: u64,
}

/// One of several suites of a project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Suite {
    /// Folder below the project; empty for the project itself.
    pub folder: String,
    /// Framework.
    pub framework: String,
    /// The Python of `--python` that it ran with, as it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
    /// As in the report.
    pub framework_version: Option<String>,
    /// Verdict.
    pub verdict: Verdict,
    /// See the report.
    pub complete: bool,
    /// See the report.
    pub consistent: bool,
    /// See the report.
    pub reason: Option<String>,
    /// See the report.
    pub totals: Totals,
}

/// Result of a test run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TestReport {
    /// Always `hotcell.test_report/1`.
    pub schema: String,
    /// Framework.
    pub framework: String,
    /// Version of the framework, if it has one of its own and reported it.
    pub framework_version: Option<String>,
    /// Command that ran inside.
    pub command: Vec<String>,
    /// The Python of `--python`, as it was asked for. With several, `suites` has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
    /// Interpreter that ran it; `null` if not reported.
    pub interpreter: Option<Interpreter>,
    /// Verdict.
    pub verdict: Verdict,
    /// True when the final report covers the whole run.
    pub complete: bool,
    /// True when report, live events and exit code agree.
    pub consistent: bool,
    /// Why it is incomplete or inconsistent, what ended it, or what to do; `null` for a normal run.
    pub reason: Option<String>,
    /// Counts.
    pub totals: Totals,
    /// Tests.
    pub cases: Vec<Case>,
    /// Line coverage; `null` if not requested, or not measured.
    #[serde(default)]
    pub coverage: Option<Coverage>,
    /// Suites, by folder, if there are several. `totals`, `cases` and `coverage` then combine all of them,
    /// `reason` and `outcome` are of the worst one.
    #[serde(default)]
    pub suites: Option<Vec<Suite>>,
    /// Runs, if there are several. `totals`, `cases` and `outcome` are then of the worst one.
    pub repeats: Option<Vec<Repeat>>,
    /// With several runs or with reruns: the tests with different results.
    pub flaky: Option<Vec<Flaky>>,
    /// With reruns: each run, the first one first. `outcome` is then of the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<Vec<Repeat>>,
    /// With `--shards`: the parts that the suite was split into, as each ran. `totals`, `cases` and `coverage` combine all of them,
    /// `reason` and `outcome` are of the worst one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<Vec<shards::ShardRun>>,
    /// Outcome of the sandbox.
    pub outcome: RunReport,
    /// Number of tests that were found and not started; used for reruns.
    #[serde(skip)]
    pub not_started: Option<u64>,
}

impl TestReport {
    /// Cases that are not good.
    pub fn bad(&self) -> impl Iterator<Item = &Case> {
        self.cases.iter().filter(|case| !case.status.is_good())
    }

    /// The report of one Python among several: its tests are told apart from those of others by ` [python 3.12]` behind ids and names.
    #[must_use]
    pub fn of_python(mut self, python: &str, alone: bool) -> Self {
        self.python = Some(python.to_owned());
        if !alone {
            let mark = mark_of(python);
            for case in &mut self.cases {
                case.id.push_str(&mark);
                case.name.push_str(&mark);
            }
            for flaky in self.flaky.iter_mut().flatten() {
                flaky.id.push_str(&mark);
            }
        }
        self
    }

    /// A report in which nothing ran: a refusal, or a program that is not there.
    #[must_use]
    pub fn without_a_run(framework: &str, command: Vec<String>, outcome: RunReport) -> Self {
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
            python: None,
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
            retries: None,
            shards: None,
            outcome,
            not_started: None,
        }
    }
}

/// Behind the ids of a Python among several.
#[must_use]
pub fn mark_of(python: &str) -> String {
    format!(" [python {python}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_has_contract_fields_and_round_trips() {
        let outcome = RunReport::without_a_run(hotcell_sandbox::Cause::Refused, "no");
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
