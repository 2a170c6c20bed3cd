//! Predicate of a test run: in-toto's test result, version 0.1. That predicate knows no skipped, unfinished or contradicted tests, so hotcell states
//! `PASSED` only for a verdict of its own that says so, and lists as failed whatever did not pass.

use hotcell_testing::case::Status;
use hotcell_testing::report::TestReport;
use hotcell_testing::report::verdict::Verdict;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest;
use crate::run::About;
use crate::stated::Stated;
use crate::statement::{Statement, Subject};

/// Type of the predicate.
pub const PREDICATE_TYPE: &str = "https://in-toto.io/attestation/test-result/v0.1";

/// The predicate, with hotcell's extension field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TestResultPredicate {
    /// Result of the whole run.
    pub result: Stated,
    /// Command and framework, by digest.
    pub configuration: Vec<Subject>,
    /// Ids of tests that passed.
    pub passed_tests: Vec<String>,
    /// Ids of tests that passed only when they were run again.
    pub warned_tests: Vec<String>,
    /// Ids of tests that failed, could not run, or did not end.
    pub failed_tests: Vec<String>,
    /// Facts that the predicate has no field for.
    pub hotcell: TestFacts,
}

/// Facts of a test run beside in-toto's fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TestFacts {
    /// Facts about the statement.
    #[serde(flatten)]
    pub about: About,
    /// Verdict, as in the report.
    pub verdict: Verdict,
    /// Framework.
    pub framework: String,
    /// Version of the framework.
    pub framework_version: Option<String>,
    /// True when the final report covers the whole run.
    pub complete: bool,
    /// True when report, live events and exit code agree.
    pub consistent: bool,
    /// Number of skipped tests.
    pub skipped: u64,
    /// Why the sandbox's run ended.
    pub cause: hotcell_sandbox::Cause,
    /// Digest of the image's manifest: `sha256:…`; `null` for the host's files.
    #[serde(default)]
    pub image_digest: Option<String>,
    /// State of each layer of the sandbox.
    pub layers: serde_json::Value,
    /// SHA-256 of the whole report, as `hotcell test --json` prints it (without the newline at its end).
    pub report_sha256: String,
}

/// Statement about a test run of the subjects.
///
/// # Errors
/// When a part is not representable in JSON.
pub fn statement(
    report: &TestReport,
    report_json: &[u8],
    image_digest: Option<String>,
    subjects: Vec<Subject>,
    about: About,
) -> Result<Statement, serde_json::Error> {
    let flaky = |id: &str| report.flaky.iter().flatten().any(|flaky| flaky.id == id);
    let mut predicate = TestResultPredicate {
        result: if report.verdict == Verdict::Passed { Stated::Passed } else { Stated::Failed },
        configuration: vec![Subject::with(
            &report.framework,
            "sha256",
            digest::sha256(&serde_json::to_vec(&report.command)?),
        )],
        passed_tests: Vec::new(),
        warned_tests: Vec::new(),
        failed_tests: Vec::new(),
        hotcell: TestFacts {
            about,
            verdict: report.verdict,
            framework: report.framework.clone(),
            framework_version: report.framework_version.clone(),
            complete: report.complete,
            consistent: report.consistent,
            skipped: report.totals.skipped,
            cause: report.outcome.cause,
            image_digest,
            layers: serde_json::to_value(&report.outcome.layers)?,
            report_sha256: digest::sha256(report_json),
        },
    };
    for case in &report.cases {
        let list = match case.status {
            Status::Passed if flaky(&case.id) => &mut predicate.warned_tests,
            Status::Passed => &mut predicate.passed_tests,
            Status::Skipped => continue,
            Status::Failed | Status::Errored | Status::NotFinished => &mut predicate.failed_tests,
        };
        list.push(case.id.clone());
    }
    Ok(Statement::new(subjects, PREDICATE_TYPE, serde_json::to_value(predicate)?))
}
