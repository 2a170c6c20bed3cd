//! Receipts of sessions: the artifact that is handed over, and the evidence by which it was judged.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use hotcell_agents::journal::Row;
use hotcell_agents::report::TestsRow;
use hotcell_agents::{Phase, SessionReport};
use hotcell_config::Configuration;
use hotcell_receipts::agent::{BestFacts, FrozenTests, GateFacts, SessionFacts, TestCounts};
use hotcell_receipts::{Subject, tree};
use hotcell_state::report::{Code, ErrorReport};
use hotcell_workspace::Stack;

use crate::context::current_folder;
use crate::receipt::make::{Receipt, ReceiptOf, is_wanted};

/// Name of the artifact's subject.
const ARTIFACT: &str = "artifact";
/// Name of the changes' subject, as `hotcell agent export` names their file.
const CHANGES: &str = "changes.patch";

/// Opens the key and the file of a receipt, where one is wanted, before any model is asked.
///
/// # Errors
/// [`ErrorReport`] when there is no key, or the file cannot be written or lies in the project, whose files are the subject.
pub fn open(
    file: Option<&Path>,
    project: Option<&Path>,
    configuration: &Configuration,
) -> Result<Option<Receipt>, ErrorReport> {
    if !is_wanted(file, configuration) {
        return Ok(None);
    }
    if let (Some(file), Some(project)) = (file, project)
        && tree::is_below(project, &current_folder().join(file))
    {
        let why =
            format!("--receipt: {} lies in the project, whose files the receipt is about", file.display());
        return Err(ErrorReport::new(Code::InvalidValue, why)
            .field("--receipt")
            .hint("name a file outside of the project"));
    }
    let trees: Vec<_> = project.map(Path::to_owned).into_iter().collect();
    Receipt::open(file, &trees, configuration, ReceiptOf::Command).map(Some)
}

/// The artifact's digest, taken before it is handed over: a commit empties its workspace.
#[derive(Debug, Default)]
pub struct Witness(Mutex<Option<Subject>>);

impl Witness {
    /// Takes the digest of an artifact's files.
    pub fn look(&self, view: &Stack<'_>) {
        let seen = tree::of_view(ARTIFACT, view);
        if let Err(error) = &seen {
            tracing::warn!("the receipt names the changes only: the artifact has no digest: {error}");
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = seen.ok();
    }

    fn subject(&self) -> Option<Subject> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Signs the report of a session with its events.
///
/// # Errors
/// A sentence, when the key, the log or the file cannot be used.
pub fn issue(
    receipt: &mut Receipt,
    report: &SessionReport,
    events: &[Row],
    witness: &Witness,
    more: Vec<Subject>,
) -> Result<(), String> {
    let mut subjects: Vec<Subject> = witness.subject().into_iter().collect();
    let facts = facts(report, events)?;
    // Without an artifact there are no changes to speak for.
    if let (Some(_), Some(diff)) = (&report.best, &report.diff) {
        subjects.push(Subject::sha256(CHANGES, diff.as_bytes()));
    }
    subjects.extend(more);
    receipt.of_session(facts, subjects)
}

/// All events, one JSON object a line.
///
/// # Errors
/// A sentence, when one is not representable in JSON.
pub fn lines(events: &[Row]) -> Result<String, String> {
    let mut text = String::new();
    for row in events {
        text.push_str(&serde_json::to_string(row).map_err(|e| e.to_string())?);
        text.push('\n');
    }
    Ok(text)
}

fn facts(report: &SessionReport, events: &[Row]) -> Result<SessionFacts, String> {
    let json = |e: serde_json::Error| e.to_string();
    let value = |value: serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let answers = report.candidates.iter().flat_map(|candidate| &candidate.iterations);
    let mut models: Vec<String> = answers.clone().filter_map(|answer| answer.model.clone()).collect();
    models.sort();
    models.dedup();
    let made = report.made.as_ref();
    let written = made.and_then(|made| made.out.as_ref().map(|_| made.written));
    let digest = |text: &[u8]| Subject::sha256("", text).digest.into_values().next().unwrap_or_default();
    let report_sha256 = digest(&serde_json::to_vec(report).map_err(json)?);
    Ok(SessionFacts {
        session: report.id.clone(),
        kind: report.kind.clone(),
        // A session whose artifact was taken over is at rest.
        converged: matches!(report.state, Phase::Converged | Phase::Idle),
        state: value(serde_json::to_value(report.state).map_err(json)?),
        reason: report.reason.as_ref().map(serde_json::to_value).transpose().map_err(json)?,
        before: counts(&report.before),
        best: report.best.as_ref().map(|best| BestFacts {
            candidate: best.candidate,
            iteration: best.iteration,
            chosen_by: best.chosen_by.clone(),
            accepted: best.accepted,
            score: best.score.score,
            gates: best
                .score
                .gates
                .iter()
                .map(|gate| GateFacts { name: gate.name.clone(), passed: gate.passed, run: gate.run.clone() })
                .collect(),
            tests: counts(&best.tests),
            files: best.files.len() as u64,
            lines: best.lines,
        }),
        tests: made.and_then(|made| made.tests.as_ref()).map(|tests| FrozenTests {
            given: tests.given,
            digest: tests.digest.clone(),
            failing_on_stub: tests.failing_on_stub,
            of: tests.of,
        }),
        candidates: report.candidates.len() as u64,
        answers: answers.count() as u64,
        models,
        calls: report.usage.calls,
        tokens: report.usage.tokens,
        dollars: report.usage.dollars,
        calls_of_unknown_cost: report.usage.unknown,
        taken_over: report.commit.as_ref().map(|commit| commit.error.is_none()).or(written),
        changes_sha256: report.diff.as_ref().map(|diff| digest(diff.as_bytes())),
        report_sha256,
        events_sha256: digest(lines(events)?.as_bytes()),
    })
}

fn counts(tests: &TestsRow) -> TestCounts {
    TestCounts { run: tests.run.clone(), verdict: tests.verdict, good: tests.good, of: tests.of }
}
