//! The part of a session's report that only sessions of `hotcell make` have.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::record::{Stage, Stages, refusal};
use crate::attempt::{Attempt, Happened};
use crate::journal::{Entry, Row};
use crate::machine::{Ask, Event, Phase, Reason};
use crate::spec::{Language, Plan, stub};
use crate::tree;

/// Plan, tests, and how they came to be.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MadeReport {
    /// Language.
    pub language: Language,
    /// Plan; `null` until there is one.
    pub plan: Option<Plan>,
    /// The plan was given by the user, in place of an architect's.
    pub plan_given: bool,
    /// Functions of the plan, as `name -> result`, for whose results no stub has a value: their tests are judged by the stub that fails, and by mutants.
    #[serde(default)]
    pub without_stub_value: Vec<String>,
    /// Architect unless a plan was given, and tester unless tests were given.
    pub stages: Vec<StageReport>,
    /// Tests; `null` until they count.
    pub tests: Option<TestsReport>,
    /// Folder to which the accepted result is written; `null` without one.
    pub out: Option<String>,
    /// True once the result is in that folder.
    pub written: bool,
}

/// A role before the code, and its answers.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StageReport {
    /// `architect` or `tester`.
    pub role: String,
    /// State.
    pub state: Phase,
    /// Reason of an end without success.
    pub reason: Option<Reason>,
    /// Answers, in their order.
    pub answers: Vec<AnswerReport>,
}

/// An answer.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AnswerReport {
    /// Kind of question.
    pub ask: Ask,
    /// Why the answer was refused; `null` when it counts.
    pub refused: Option<String>,
    /// Run of the tests on a stub, in the history.
    pub run: Option<String>,
}

/// Tests that decide about the code.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TestsReport {
    /// Given by the user, in place of a tester's.
    pub given: bool,
    /// Files, which neither coder nor debugger can change.
    pub files: Vec<String>,
    /// Digest of the files with their content.
    pub digest: String,
    /// Tests that fail on a stub.
    pub failing_on_stub: u64,
    /// All tests.
    pub of: u64,
    /// Run on the stub, in the history.
    pub run: Option<String>,
}

fn stage(stage: Stage, attempt: &Attempt) -> StageReport {
    let answer = |happened: &Happened| match happened {
        Happened::Unusable { ask, why } => AnswerReport { ask: *ask, refused: Some(why.clone()), run: None },
        Happened::Tested(at) => {
            let tested = attempt.tested.get(*at);
            AnswerReport {
                ask: tested.and_then(|tested| tested.ask).unwrap_or(attempt.ask),
                refused: refusal(attempt, *at).map(str::to_owned),
                run: tested.and_then(|tested| tested.evidence.run.clone()),
            }
        }
    };
    StageReport {
        role: stage.role().to_owned(),
        state: attempt.state.phase,
        reason: attempt.state.reason.clone(),
        answers: attempt.happened.iter().map(answer).collect(),
    }
}

/// The report of both stages; `rows` are those of the session.
#[must_use]
pub fn report(stages: &Stages, rows: &[Row]) -> MadeReport {
    let is_making = |row: &Row| matches!(row.entry, Entry::Making { .. });
    let is_handed = |row: &Row| row.entry == Entry::Step { event: Event::HandedOver };
    // A result that was written before another folder was named is not in that one.
    let last = rows.iter().rev().find(|row| is_making(row) || is_handed(row));
    let given = !stages.making.tests.is_empty();
    let tests = stages.tests().map(|files| {
        let evidence = stages.tester.tested.last().map(|tested| &tested.evidence);
        let of = evidence.map_or(0, |evidence| evidence.tests.len());
        let good = evidence.map_or(0, crate::evidence::Evidence::passed);
        TestsReport {
            given,
            digest: tree::digest_of_texts(&files),
            files: files.into_iter().map(|(path, _)| path).collect(),
            failing_on_stub: (of - good) as u64,
            of: of as u64,
            run: evidence.and_then(|evidence| evidence.run.clone()),
        }
    });
    let mut roles = Vec::new();
    let plan_given = stages.making.plan.is_some();
    if !plan_given {
        roles.push(stage(Stage::Architect, &stages.architect));
    }
    if !given {
        roles.push(stage(Stage::Tester, &stages.tester));
    }
    let plan = stages.plan();
    let unmade = plan.as_ref().map(|plan| stub::unmade(stages.making.language, plan));
    MadeReport {
        language: stages.making.language,
        plan,
        plan_given,
        without_stub_value: unmade.unwrap_or_default(),
        stages: roles,
        tests,
        out: stages.making.out.clone(),
        written: stages.making.out.is_some() && last.is_some_and(is_handed),
    }
}
