//! Predicate of a session of `hotcell fix` or `hotcell make`: what models were asked, and by which runs the artifact that is handed over was judged.
//!
//! The statement is about the artifact. What a model says about itself is not in it: each number is from a run in a sandbox, or from the ledger.

use hotcell_testing::report::verdict::Verdict;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::run::About;
use crate::stated::Stated;
use crate::statement::{Statement, Subject};

/// Type of the predicate.
pub const PREDICATE_TYPE: &str = "urn:hotcell:predicate:agent-session:v1";

/// The predicate `urn:hotcell:predicate:agent-session:v1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentPredicate {
    /// `PASSED` when the session converged, its best artifact passed all gates, and nothing failed in taking it over, else `FAILED`.
    pub result: Stated,
    /// Facts of the session.
    #[serde(flatten)]
    pub session: SessionFacts,
    /// Facts about the statement.
    pub hotcell: About,
}

/// Facts of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionFacts {
    /// Id of the session; `null` when the tests passed already, and no model was asked.
    pub session: Option<String>,
    /// `fix` or `make`.
    pub kind: String,
    /// Whether the session converged, or came to rest after its artifact was taken over.
    pub converged: bool,
    /// State, as in `hotcell.agent_session/1`.
    pub state: String,
    /// Reason of an end without an accepted artifact, as in `hotcell.agent_session/1`.
    pub reason: Option<serde_json::Value>,
    /// Tests of the given code, or of a stub.
    pub before: TestCounts,
    /// The artifact that is handed over, which the subjects are; `null` when none is better than the given code.
    pub best: Option<BestFacts>,
    /// Frozen tests of a session of `hotcell make`; `null` for a repair, whose tests are the project's.
    pub tests: Option<FrozenTests>,
    /// Number of candidates.
    pub candidates: u64,
    /// Number of answers of models, unusable ones included.
    pub answers: u64,
    /// Names of the models that answered, as in the configuration.
    pub models: Vec<String>,
    /// Number of calls of models.
    pub calls: u64,
    /// Tokens of these calls.
    pub tokens: u64,
    /// Sum of the known costs, in US dollars.
    pub dollars: f64,
    /// Number of calls of unknown cost, which `dollars` does not have.
    pub calls_of_unknown_cost: u64,
    /// Whether the changes were taken over; `null` where that was not requested.
    pub taken_over: Option<bool>,
    /// SHA-256 of the changes as a unified diff.
    pub changes_sha256: Option<String>,
    /// SHA-256 of the report, as the command prints it with `--json` (without the newline at its end).
    pub report_sha256: String,
    /// SHA-256 of all events of the session so far, as `hotcell agent export` writes them to `events.jsonl`.
    pub events_sha256: String,
}

/// Counts of a test run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TestCounts {
    /// Run in the history.
    pub run: Option<String>,
    /// Verdict.
    pub verdict: Verdict,
    /// Good tests.
    pub good: u64,
    /// All tests.
    pub of: u64,
}

/// The artifact that is handed over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BestFacts {
    /// Candidate, from 1.
    pub candidate: u32,
    /// Iteration of the candidate.
    pub iteration: u32,
    /// Rung of the ladder that decided among the candidates.
    pub chosen_by: String,
    /// All gates are passed.
    pub accepted: bool,
    /// 0 to 100.
    pub score: u8,
    /// Gates, each with the run that it is from.
    pub gates: Vec<GateFacts>,
    /// Tests.
    pub tests: TestCounts,
    /// Number of changed files.
    pub files: u64,
    /// Changed lines.
    pub lines: u64,
}

/// A condition without which an artifact is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GateFacts {
    /// Name.
    pub name: String,
    /// Whether the artifact passes.
    pub passed: bool,
    /// Run in the history.
    pub run: Option<String>,
}

/// Tests that were frozen before the code was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FrozenTests {
    /// Given by the user, in place of a model's.
    pub given: bool,
    /// Digest of the files with their content, as in `hotcell.agent_session/1`.
    pub digest: String,
    /// Tests that fail on a stub.
    pub failing_on_stub: u64,
    /// All tests.
    pub of: u64,
}

impl SessionFacts {
    /// Result that a receipt states.
    #[must_use]
    pub fn stated(&self) -> Stated {
        let all_good =
            |tests: &TestCounts| tests.verdict == Verdict::Passed && tests.of > 0 && tests.good == tests.of;
        let good = match &self.best {
            Some(best) => best.accepted && best.gates.iter().all(|gate| gate.passed) && all_good(&best.tests),
            // No model was asked, since nothing failed.
            None => self.session.is_none() && all_good(&self.before),
        };
        if good && self.converged && self.taken_over != Some(false) { Stated::Passed } else { Stated::Failed }
    }
}

/// Statement about a session. The subjects are the artifact that is handed over and its changes; without an artifact, the report.
///
/// # Errors
/// When a part is not representable in JSON.
pub fn statement(
    session: SessionFacts,
    mut subjects: Vec<Subject>,
    about: About,
) -> Result<Statement, serde_json::Error> {
    if subjects.is_empty() {
        subjects.push(Subject::with("report", "sha256", session.report_sha256.clone()));
    }
    let predicate = AgentPredicate { result: session.stated(), session, hotcell: about };
    Ok(Statement::new(subjects, PREDICATE_TYPE, serde_json::to_value(predicate)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(verdict: Verdict, good: u64, of: u64) -> TestCounts {
        TestCounts { run: Some("r".to_owned()), verdict, good, of }
    }

    fn session(best: Option<BestFacts>) -> SessionFacts {
        SessionFacts {
            session: Some("s".to_owned()),
            kind: "fix".to_owned(),
            converged: true,
            state: "converged".to_owned(),
            reason: None,
            before: counts(Verdict::Failed, 1, 2),
            best,
            tests: None,
            candidates: 1,
            answers: 1,
            models: Vec::new(),
            calls: 1,
            tokens: 1,
            dollars: 0.0,
            calls_of_unknown_cost: 0,
            taken_over: None,
            changes_sha256: None,
            report_sha256: "00".to_owned(),
            events_sha256: "00".to_owned(),
        }
    }

    fn best() -> BestFacts {
        let gate = GateFacts { name: "valid".to_owned(), passed: true, run: None };
        BestFacts {
            candidate: 1,
            iteration: 1,
            chosen_by: "score".to_owned(),
            accepted: true,
            score: 100,
            gates: vec![gate],
            tests: counts(Verdict::Passed, 2, 2),
            files: 1,
            lines: 2,
        }
    }

    /// A session is stated as passed only where every witness says so.
    #[test]
    fn session_passes_only_without_any_doubt() {
        type Change = fn(&mut SessionFacts);
        let all: [(Change, Stated); 9] = [
            (|_| {}, Stated::Passed),
            (|s| s.taken_over = Some(true), Stated::Passed),
            (|s| s.taken_over = Some(false), Stated::Failed),
            (|s| s.converged = false, Stated::Failed),
            (|s| s.best.as_mut().unwrap().accepted = false, Stated::Failed),
            (|s| s.best.as_mut().unwrap().gates[0].passed = false, Stated::Failed),
            (|s| s.best.as_mut().unwrap().tests = counts(Verdict::Failed, 2, 2), Stated::Failed),
            (|s| s.best.as_mut().unwrap().tests = counts(Verdict::Passed, 1, 2), Stated::Failed),
            (|s| s.best.as_mut().unwrap().tests = counts(Verdict::Passed, 0, 0), Stated::Failed),
        ];
        for (at, (change, want)) in all.into_iter().enumerate() {
            let mut facts = session(Some(best()));
            change(&mut facts);
            assert_eq!(facts.stated(), want, "row {at}");
            let statement = statement(facts, Vec::new(), About::now("", "1", None)).unwrap();
            assert_eq!(statement.predicate["result"], serde_json::to_value(want).unwrap(), "row {at}");
            assert_eq!(statement.subject[0].name, "report");
        }
        // Without an artifact, only a project that needs none is good.
        let mut facts = session(None);
        assert_eq!(facts.stated(), Stated::Failed);
        facts.before = counts(Verdict::Passed, 2, 2);
        assert_eq!(facts.stated(), Stated::Failed, "a session that changed nothing");
        facts.session = None;
        assert_eq!(facts.stated(), Stated::Passed);
    }
}
