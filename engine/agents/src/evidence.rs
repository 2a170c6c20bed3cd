//! Evidence of one test run, as it is stored, scored, and told to a model.

use std::collections::{BTreeMap, BTreeSet};

use hotcell_testing::{Status, TestReport, Verdict};
use serde::{Deserialize, Serialize};

use crate::review::Review;
use crate::score::{Measured, Score, score};
use crate::text::ends;

/// Maximum number of failures that are kept with their words.
const MAX_FAILURES: usize = 20;
/// Maximum size of the words of one failure, in bytes.
const MAX_FAILURE_BYTES: usize = 2000;
/// Maximum size of kept output, in bytes.
const MAX_OUTPUT_BYTES: usize = 6000;

/// Evidence of one test run. All texts are from hostile programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// Run in the history; `None` when nothing ran.
    pub run: Option<String>,
    /// Framework.
    pub framework: String,
    /// Verdict.
    pub verdict: Verdict,
    /// Reason of a result that is not normal.
    pub reason: Option<String>,
    /// Statuses by id.
    pub tests: BTreeMap<String, Status>,
    /// Failures with their words.
    pub failures: Vec<Failure>,
    /// Standard output and standard error of the run, head and tail.
    pub output: String,
    /// Findings of the guard when it let nothing run.
    pub guard: Vec<String>,
    /// The report is complete, and its witnesses agree.
    pub valid: bool,
    /// Milliseconds.
    pub duration_ms: u64,
    /// Trial of the tests on mutants of the code; only of accepted code that was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutants: Option<Mutants>,
}

impl Evidence {
    /// Words for code that the guard let nothing run of, in place of counts of tests: `the guard refused it (sh.fetch.run …), no test ran`.
    #[must_use]
    pub fn refused(&self) -> Option<String> {
        (self.verdict == Verdict::Quarantined).then(|| {
            let why = self.guard.first().map(|finding| format!(" ({})", crate::text::line(finding, 200)));
            format!("the guard refused it{}, no test ran", why.unwrap_or_default())
        })
    }
}

/// Result of tests on mutants of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mutants {
    /// Mutants on which a test fails.
    pub killed: u64,
    /// Mutants that were tried.
    pub of: u64,
    /// The tests are a model's.
    pub by_model: bool,
}

impl Mutants {
    /// Tells if tests of a model fail on none of the mutants, so that they say nothing about the code.
    #[must_use]
    pub const fn prove_nothing(&self) -> bool {
        self.by_model && self.of > 0 && self.killed == 0
    }
}

/// A test that is not good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Id.
    pub id: String,
    /// Status.
    pub status: Status,
    /// File and line.
    pub place: Option<String>,
    /// Message and details.
    pub words: String,
}

/// The tests of a candidate compared with those of the given code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Tests that are required: all of now, and those of before that are missing.
    pub required: u64,
    /// Of these, good ones.
    pub good: u64,
    /// Tests that were good before and are not now.
    pub regressions: u64,
    /// Tests of before that are missing.
    pub missing: Vec<String>,
    /// Ids that are not good, missing ones included.
    pub failing: BTreeSet<String>,
}

impl Evidence {
    /// Evidence in a report.
    #[must_use]
    pub fn of(report: &TestReport, run: Option<String>) -> Self {
        let words = |case: &hotcell_testing::Case| {
            let parts = [&case.message, &case.details, &case.stdout, &case.stderr];
            let all = parts.into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join("\n");
            Failure {
                id: case.id.clone(),
                status: case.status,
                place: case.file.as_ref().map(|file| match case.line {
                    Some(line) => format!("{file}:{line}"),
                    None => file.clone(),
                }),
                words: ends(&all, MAX_FAILURE_BYTES),
            }
        };
        let outcome = &report.outcome;
        let streams = [&outcome.stdout, &outcome.stderr]
            .map(|stream| String::from_utf8_lossy(&stream.to_bytes()).into_owned());
        let output = streams.join("\n");
        Self {
            run,
            framework: report.framework.clone(),
            verdict: report.verdict,
            reason: report.reason.clone(),
            tests: report.cases.iter().map(|case| (case.id.clone(), case.status)).collect(),
            failures: report.bad().take(MAX_FAILURES).map(words).collect(),
            output: ends(output.trim(), MAX_OUTPUT_BYTES),
            guard: if report.verdict == Verdict::Quarantined {
                findings(outcome.scan.as_ref())
            } else {
                Vec::new()
            },
            valid: report.complete && report.consistent && report.verdict <= Verdict::Failed,
            duration_ms: report.totals.duration_ms,
            mutants: None,
        }
    }

    /// Number of good tests.
    #[must_use]
    pub fn passed(&self) -> usize {
        self.tests.values().filter(|status| status.is_good()).count()
    }

    /// Whether any test began.
    #[must_use]
    pub fn ran(&self) -> bool {
        self.verdict <= Verdict::Limit
    }

    /// Compares with the given code's tests.
    #[must_use]
    pub fn compared(&self, before: &Self) -> Compared {
        // A test that is skipped now and was not skipped before is not good: the code under repair may skip it. Files that could not be loaded
        // stood for their tests.
        let is_good = |id: &str, status: Status| match (status, before.tests.get(id)) {
            (Status::Skipped, Some(old)) => *old == Status::Skipped,
            (status, _) => status.is_good(),
        };
        let missing: Vec<String> = before
            .tests
            .iter()
            .filter(|(id, status)| **status != Status::Errored && !self.tests.contains_key(*id))
            .map(|(id, _)| id.clone())
            .collect();
        let mut failing: BTreeSet<String> = self
            .tests
            .iter()
            .filter(|(id, status)| !is_good(id, **status))
            .map(|(id, _)| id.clone())
            .collect();
        failing.extend(missing.iter().cloned());
        let was_good = |id: &&String| before.tests.get(*id).is_some_and(|status| *status == Status::Passed);
        let required = (self.tests.len() + missing.len()) as u64;
        Compared {
            required,
            good: required - failing.len() as u64,
            regressions: failing.iter().filter(was_good).count() as u64,
            missing,
            failing,
        }
    }

    /// Score against the given code.
    #[must_use]
    pub fn score(&self, before: &Self, covered: Option<(u64, u64)>) -> Score {
        let compared = self.compared(before);
        let all_good = compared.required > 0 && compared.good == compared.required;
        score(&Measured {
            run: self.run.clone(),
            // A run whose tests are all good and which did not pass is contradicted by something.
            valid: self.valid && (!all_good || self.verdict == Verdict::Passed),
            guard: self.verdict != Verdict::Quarantined,
            all_there: compared.missing.is_empty(),
            required: compared.required,
            good: compared.good,
            regressions: compared.regressions,
            covered,
            mutants: self.mutants.map(|mutants| (mutants.killed, mutants.of)),
            unproven_tests: self.mutants.is_some_and(|mutants| mutants.by_model),
        })
    }

    /// The review of an artifact with this evidence.
    #[must_use]
    pub fn review(&self, before: &Self, artifact: &str, covered: Option<(u64, u64)>) -> Review {
        let score = self.score(before, covered);
        Review {
            artifact: artifact.to_owned(),
            failing: self.compared(before).failing,
            accepted: score.accepted(),
            score: score.score,
        }
    }
}

/// The guard's findings in words, from its report.
fn findings(scan: Option<&serde_json::Value>) -> Vec<String> {
    let all = scan.and_then(|scan| scan.get("findings")).and_then(serde_json::Value::as_array);
    let word = |finding: &serde_json::Value, field: &str| {
        finding.get(field).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
    };
    let told =
        |finding: &serde_json::Value| format!("{}: {}", word(finding, "rule"), word(finding, "message"));
    all.into_iter().flatten().take(MAX_FAILURES).map(told).collect()
}

#[cfg(test)]
mod tests {
    use hotcell_report::RunReport;
    use hotcell_sandbox::Cause;

    use super::*;

    fn evidence(verdict: Verdict, tests: &[(&str, Status)]) -> Evidence {
        let report =
            TestReport::without_a_run("pytest", Vec::new(), RunReport::without_a_run(Cause::Refused, ""));
        let tests = tests.iter().map(|(id, status)| ((*id).to_owned(), *status)).collect();
        Evidence {
            verdict,
            tests,
            valid: verdict <= Verdict::Failed,
            ..Evidence::of(&report, Some("r".to_owned()))
        }
    }

    #[test]
    fn candidates_are_accepted_only_with_all_tests_of_before() {
        use Status::{Errored, Failed, Passed, Skipped};
        let before =
            evidence(Verdict::Failed, &[("a", Passed), ("b", Failed), ("s", Skipped), ("file", Errored)]);
        for (verdict, tests, accepted, regressions) in [
            (Verdict::Passed, &[("a", Passed), ("b", Passed), ("s", Skipped)][..], true, 0),
            (
                Verdict::Passed,
                &[("a", Passed), ("b", Passed), ("s", Skipped), ("file::new", Passed)],
                true,
                0,
            ),
            // A test is gone, or skipped.
            (Verdict::Passed, &[("a", Passed), ("s", Skipped)], false, 0),
            (Verdict::Passed, &[("a", Passed), ("b", Skipped), ("s", Skipped)], false, 0),
            (Verdict::Passed, &[("b", Passed), ("s", Skipped)], false, 1),
            (Verdict::Failed, &[("a", Failed), ("b", Passed), ("s", Skipped)], false, 1),
            (Verdict::Unusable, &[("a", Passed), ("b", Passed), ("s", Skipped)], false, 0),
            // Everything is good, and yet the run failed.
            (Verdict::Failed, &[("a", Passed), ("b", Passed), ("s", Skipped)], false, 0),
            (Verdict::Quarantined, &[], false, 1),
            (Verdict::Unusable, &[], false, 1),
        ] {
            let now = evidence(verdict, tests);
            assert_eq!(now.review(&before, "x", None).accepted, accepted, "{verdict:?} {tests:?}");
            assert_eq!(now.compared(&before).regressions, regressions, "{verdict:?} {tests:?}");
        }
    }

    #[test]
    fn tests_of_a_model_count_only_when_they_fail_on_a_mutant() {
        let before = evidence(Verdict::Failed, &[("a", Status::Failed)]);
        let good = evidence(Verdict::Passed, &[("a", Status::Passed)]);
        for (killed, of, by_model, accepted, score) in [
            (0, 0, true, true, 100),
            (0, 3, true, false, 60),
            (1, 2, true, true, 95),
            (2, 2, true, true, 100),
            (0, 3, false, true, 90),
        ] {
            let mutants = Mutants { killed, of, by_model };
            let review = Evidence { mutants: Some(mutants), ..good.clone() }.review(&before, "x", None);
            assert_eq!((review.accepted, review.score), (accepted, score), "{mutants:?}");
            assert_eq!(mutants.prove_nothing(), !accepted);
        }
    }

    #[test]
    fn code_that_the_guard_refused_is_told_as_such_and_not_as_failed_tests() {
        let mut refused = evidence(Verdict::Quarantined, &[]);
        assert_eq!(refused.refused().as_deref(), Some("the guard refused it, no test ran"));
        refused.guard = vec!["calc.py:2: py.shell.reverse\n".to_owned(), "other".to_owned()];
        assert_eq!(
            refused.refused().as_deref(),
            Some("the guard refused it (calc.py:2: py.shell.reverse), no test ran")
        );
        for verdict in [Verdict::Passed, Verdict::Failed, Verdict::Unusable] {
            assert_eq!(evidence(verdict, &[]).refused(), None);
        }
    }

    #[test]
    fn given_code_scores_below_its_repair() {
        let before = evidence(Verdict::Failed, &[("a", Status::Passed), ("b", Status::Failed)]);
        let fixed = evidence(Verdict::Passed, &[("a", Status::Passed), ("b", Status::Passed)]);
        let (old, new) = (before.review(&before, "given", None), fixed.review(&before, "new", None));
        assert!(!old.accepted && new.accepted && new.rank() > old.rank());
        assert_eq!((old.score, new.score), (60, 100));
    }
}
