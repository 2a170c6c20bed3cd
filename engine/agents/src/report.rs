//! `hotcell.agent_session/1`: the result of a session, for people and programs.

use hotcell_models::ledger::Usage;
use hotcell_report::Commit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::attempt::{Attempt, Happened, Tested};
use crate::choose::{Candidate, choose};
use crate::evidence::Evidence;
use crate::journal::Task;
use crate::machine::{Ask, Phase, Reason};
use crate::make::report::MadeReport;
use crate::score::Score;

/// Value of the `schema` field.
pub const SCHEMA: &str = "hotcell.agent_session/1";
/// Value of the `schema` field of a list.
pub const LIST_SCHEMA: &str = "hotcell.agent_sessions/1";

/// Result of a session.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SessionReport {
    /// Always `hotcell.agent_session/1`.
    pub schema: String,
    /// Id of the session; `null` when there was nothing to do.
    pub id: Option<String>,
    /// `fix` or `make`.
    pub kind: String,
    /// The project's folder, or the specification's file.
    pub project: String,
    /// State.
    pub state: Phase,
    /// Reason of an end without an accepted artifact.
    pub reason: Option<Reason>,
    /// Tests of the given code, or of a stub.
    pub before: TestsRow,
    /// Candidates.
    pub candidates: Vec<CandidateReport>,
    /// The artifact that is handed over; `null` when none is better than the given code.
    pub best: Option<Best>,
    /// Its changes as a unified diff, against the files as they were when it was tested.
    pub diff: Option<String>,
    /// Changed files that are other ones in the project by now: the changes are not taken over until they are as they were.
    #[serde(default)]
    pub conflicts: Vec<String>,
    /// Result of taking the changes over; `null` if that was not requested, or nothing was accepted.
    pub commit: Option<Commit>,
    /// Plan and tests of a session of `hotcell make`; `null` for a repair.
    pub made: Option<MadeReport>,
    /// Calls, tokens and cost.
    pub usage: Usage,
    /// Seconds that drivers worked at it.
    pub seconds: f64,
    /// Commands that go on from here.
    pub actions: Vec<String>,
}

/// Counts of a test run.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TestsRow {
    /// Run in the history.
    pub run: Option<String>,
    /// Verdict.
    pub verdict: hotcell_testing::Verdict,
    /// Good tests.
    pub good: u64,
    /// All tests.
    pub of: u64,
}

/// A candidate.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CandidateReport {
    /// Number, from 1.
    pub number: u32,
    /// State.
    pub state: Phase,
    /// Reason of its end.
    pub reason: Option<Reason>,
    /// Workspace with its best artifact.
    pub workspace: Option<String>,
    /// Answers, in their order.
    pub iterations: Vec<IterationRow>,
}

/// One answer of a model, and what came of it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct IterationRow {
    /// Number of the reviewed artifact; `null` for an answer that could not be used.
    pub iteration: Option<u32>,
    /// Kind of question.
    pub ask: Ask,
    /// Model.
    pub model: Option<String>,
    /// Why the answer could not be used.
    pub unusable: Option<String>,
    /// Tests.
    pub tests: Option<TestsRow>,
    /// Score.
    pub score: Option<u8>,
    /// Changed files.
    pub files: Vec<String>,
    /// Ids of tests that are not good, at most ten.
    pub failing: Vec<String>,
}

/// The artifact that is handed over.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Best {
    /// Candidate.
    pub candidate: u32,
    /// Iteration.
    pub iteration: u32,
    /// Rung of the ladder that decided among the candidates.
    pub chosen_by: String,
    /// All gates are passed.
    pub accepted: bool,
    /// Score with its evidence.
    pub score: Score,
    /// Tests.
    pub tests: TestsRow,
    /// Changed files.
    pub files: Vec<String>,
    /// Changed lines.
    pub lines: u64,
    /// Workspace.
    pub workspace: Option<String>,
}

/// Sessions in the form `hotcell.agent_sessions/1`, the newest first.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SessionList {
    /// Always `hotcell.agent_sessions/1`.
    pub schema: String,
    /// Sessions.
    pub sessions: Vec<SessionEntry>,
}

/// A session in a list.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SessionEntry {
    /// Id.
    pub id: String,
    /// RFC 3339, UTC.
    pub started: String,
    /// `fix` or `make`.
    pub kind: String,
    /// The project's folder, or the specification's file.
    pub project: String,
    /// State: `running` while a driver works at it or after one was killed, else how it ended.
    pub state: String,
}

impl SessionReport {
    /// The report of a project whose tests pass already.
    #[must_use]
    pub fn without_work(task: &Task, evidence: &Evidence) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            id: None,
            kind: task.kind.clone(),
            project: task.project.clone(),
            state: Phase::Converged,
            reason: None,
            before: row(evidence, evidence),
            candidates: Vec::new(),
            best: None,
            diff: None,
            conflicts: Vec::new(),
            commit: None,
            made: None,
            usage: Usage::default(),
            seconds: 0.0,
            actions: Vec::new(),
        }
    }
}

/// Sentence on a project whose files changed after the artifact was made, with the ways out.
#[must_use]
pub fn conflict(id: &str, paths: &[String]) -> String {
    let first = paths.first().map(|path| crate::text::line(path, 200)).unwrap_or_default();
    let more = match paths.len() {
        0 | 1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    format!(
        "{first}{more} changed in the project since the session {id} saw it, so nothing was taken over; put it back and \
         hotcell agent resume {id} --commit, or hotcell agent export {id} DIR and patch -p1 < DIR/changes.patch"
    )
}

/// Counts of evidence against that of the given code.
#[must_use]
pub fn row(evidence: &Evidence, before: &Evidence) -> TestsRow {
    let compared = evidence.compared(before);
    TestsRow {
        run: evidence.run.clone(),
        verdict: evidence.verdict,
        good: compared.good,
        of: compared.required,
    }
}

/// State of a session, from those of its attempts: the best of them.
#[must_use]
pub fn state(attempts: &[Attempt]) -> (Phase, Option<Reason>) {
    let of = |phase| attempts.iter().find(|attempt| attempt.state.phase == phase);
    let order = [
        Phase::Converged,
        Phase::Reviewing,
        Phase::Revising,
        Phase::Generating,
        Phase::Escalated,
        Phase::Failed,
    ];
    let one = order.into_iter().find_map(of);
    one.map_or((Phase::Idle, None), |attempt| (attempt.state.phase, attempt.state.reason.clone()))
}

/// A candidate's report.
#[must_use]
pub fn candidate(attempt: &Attempt) -> CandidateReport {
    let before = attempt.before();
    let rows = attempt.happened.iter().filter_map(|happened| match happened {
        Happened::Unusable { ask, why } => Some(IterationRow {
            iteration: None,
            ask: *ask,
            model: None,
            unusable: Some(why.clone()),
            tests: None,
            score: None,
            files: Vec::new(),
            failing: Vec::new(),
        }),
        Happened::Tested(at) => {
            let tested = attempt.tested.get(*at)?;
            let review = attempt.state.reviews.get(*at)?;
            Some(IterationRow {
                iteration: Some(iteration(attempt, *at)),
                ask: tested.ask?,
                model: tested.model.clone(),
                unusable: None,
                tests: before.map(|before| row(&tested.evidence, before)),
                score: Some(review.score),
                files: tested.files.clone(),
                failing: review.failing.iter().take(10).cloned().collect(),
            })
        }
    });
    CandidateReport {
        number: attempt.number,
        state: attempt.state.phase,
        reason: attempt.state.reason.clone(),
        workspace: attempt.workspace.clone(),
        iterations: rows.collect(),
    }
}

fn iteration(attempt: &Attempt, at: usize) -> u32 {
    u32::try_from(at + usize::from(!attempt.state.given)).unwrap_or(u32::MAX)
}

/// The artifact to hand over: that of the best candidate, if it is better than the given code.
#[must_use]
pub fn best(attempts: &[Attempt]) -> Option<Best> {
    let facts = |attempt: &Attempt| {
        let (at, tested) = attempt.best()?;
        let compared = tested.evidence.compared(attempt.before()?);
        Some(Candidate {
            number: attempt.number,
            well_formed: at > 0 || !attempt.state.given,
            guard: tested.evidence.verdict != hotcell_testing::Verdict::Quarantined,
            ran: tested.evidence.valid,
            regressions: compared.regressions,
            failing: compared.failing.len() as u64,
            score: attempt.state.reviews[at].score,
            lines: tested.lines,
            digest: tested.artifact.clone(),
        })
    };
    let all: Vec<Candidate> = attempts.iter().filter_map(facts).collect();
    let (chosen, why) = choose(&all)?;
    let attempt = attempts.iter().find(|attempt| attempt.number == all[chosen].number)?;
    let (at, tested) = attempt.best()?;
    if at == 0 && attempt.state.given {
        return None;
    }
    Some(of(attempt, at, tested, why))
}

fn of(attempt: &Attempt, at: usize, tested: &Tested, why: &str) -> Best {
    let before = attempt.before().unwrap_or(&tested.evidence);
    let score = tested.evidence.score(before, None);
    Best {
        candidate: attempt.number,
        iteration: iteration(attempt, at),
        chosen_by: why.to_owned(),
        accepted: score.accepted(),
        score,
        tests: row(&tested.evidence, before),
        files: tested.files.clone(),
        lines: tested.lines,
        workspace: attempt.workspace.clone(),
    }
}
