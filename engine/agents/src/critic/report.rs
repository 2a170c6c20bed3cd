//! `hotcell.agent_review/1`: the result of a review.

use hotcell_models::ledger::Usage;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::score::Score;

use super::answer::{Defect, Severity};
use super::depth::Depth;
use super::points::Recommendation;

/// Value of the `schema` field.
pub const SCHEMA: &str = "hotcell.agent_review/1";

/// Result of a review.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ReviewReport {
    /// Always `hotcell.agent_review/1`.
    pub schema: String,
    /// Id of the review, under which the ledger has its calls.
    pub review_id: String,
    /// Reviewed folder, file or artifact.
    pub subject: String,
    /// Depth.
    pub review_depth: Depth,
    /// Advice; nothing of hotcell acts on it.
    pub recommendation: Recommendation,
    /// 0 to 100: the computed score without the points that a model's defects take.
    pub quality_score: u8,
    /// Score computed from runs and the guard.
    pub computed: Score,
    /// Points that a model's defects take away, at most 30.
    pub taken: u8,
    /// Guard.
    pub guard: Guarded,
    /// Findings of the guard, at most 100.
    pub policy_violations: Vec<hotcell_guard::Finding>,
    /// Tests; `null` when there is no result.
    pub tests: Option<TestsOf>,
    /// Why there is no result of tests, or no coverage.
    pub no_tests: Option<String>,
    /// Defects that a model names, each with a line that exists. The words are the model's.
    pub defects: Vec<Defect>,
    /// Suggestions in the model's words.
    pub suggestions: Vec<String>,
    /// Reading by a model.
    pub model: ReadBy,
    /// Calls, tokens and cost.
    pub usage: Usage,
    /// Seconds in all.
    pub seconds: f64,
}

/// Reading by the guard.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Guarded {
    /// Verdict.
    pub verdict: hotcell_guard::Verdict,
    /// Number of findings.
    pub findings: u64,
    /// Bytes of the subject.
    pub bytes: u64,
}

/// Tests of the subject.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TestsOf {
    /// Run in the history.
    pub run: Option<String>,
    /// Framework.
    pub framework: String,
    /// Verdict.
    pub verdict: hotcell_testing::Verdict,
    /// Good tests.
    pub good: u64,
    /// All tests.
    pub of: u64,
    /// Ids of tests that are not good, at most 20.
    pub failing: Vec<String>,
    /// Percentage of executable lines that ran; `null` when it was not measured.
    pub coverage_percent: Option<f64>,
}

/// Reading by a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReadBy {
    /// Models that answered.
    pub models: Vec<String>,
    /// Number of files that a model read.
    pub files_read: u64,
    /// Number of files of code that no model read: too many or too long.
    pub files_not_read: u64,
    /// Named defects that were dropped, since they name no line that exists, or are not of the form.
    pub dropped: u64,
    /// Answers without a line of the form.
    pub unusable: u64,
    /// Why no model read it, or why the reading ended early.
    pub why: Option<String>,
}

impl ReadBy {
    /// Whether an answer could not be used: its files count as not read, whatever others say.
    #[must_use]
    pub const fn has_unusable(&self) -> bool {
        self.unusable > 0
    }
}

impl ReviewReport {
    /// Tells if something is at review or above: a verdict of the guard, a gate that is not passed, a test that is not good, or a defect that is more than
    /// a note.
    #[must_use]
    pub fn has_findings(&self) -> bool {
        self.guard.verdict >= hotcell_guard::Verdict::Review
            || !self.computed.accepted()
            || self.tests.as_ref().is_some_and(|tests| {
                tests.good < tests.of || tests.verdict != hotcell_testing::Verdict::Passed
            })
            || self.defects.iter().any(|defect| defect.severity > Severity::Note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_answer_that_cannot_be_used_counts() {
        for (files_read, unusable, want) in [(0, 0, false), (3, 0, false), (0, 1, true), (3, 1, true)] {
            let by = ReadBy { files_read, unusable, ..ReadBy::default() };
            assert_eq!(by.has_unusable(), want, "{by:?}");
        }
    }
}
