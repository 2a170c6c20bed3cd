//! What tests came to, as a model reads it: those that are not good first, with place and message, within the budget.

use hotcell_service::live::{Run, Stream};
use hotcell_service::report::printable;
use hotcell_testing::{Case, TestReport};
use rmcp::model::ContentBlock;
use serde_json::{Map, Value, json};

use crate::BUDGET;
use crate::answer::{hint, link, summary, with_changes, without_noise, words_of_changes};
use crate::resources::uri_of_stream;
use crate::text::{Shown, beginning};

/// Characters of each stream beside a report: the cases say more.
const STREAM: usize = 1_000;
/// Characters of a text of one case.
const TEXT: usize = 1_200;
/// Bad cases in the short text.
const WORDS: usize = 20;

/// Adds the report's fields; gives the short text, and links to streams that are not shown whole.
pub fn finished(
    run: &Run,
    report: &TestReport,
    fields: &mut Map<String, Value>,
) -> (String, Vec<ContentBlock>) {
    let mut whole = TestReport { cases: Vec::new(), ..report.clone() };
    whole.outcome.denials.truncate(10);
    without_noise(&mut whole.outcome);
    let mut links = Vec::new();
    if let Ok(Value::Object(mut json)) = serde_json::to_value(&whole) {
        for stream in Stream::ALL {
            let shown = Shown::of(run, stream, STREAM);
            let uri = uri_of_stream(&run.id, stream);
            json["outcome"][stream.name()] = shown.to_json(&uri);
            if shown.omitted.is_some() {
                links.push(link(uri, stream, shown.bytes));
            }
        }
        if let Value::Object(outcome) = &mut json["outcome"] {
            with_changes(&report.outcome, outcome);
        }
        fields.extend(json);
    }
    let hint = hint(&report.outcome);
    if let Some(hint) = hint {
        fields.insert("hint".into(), json!(hint));
    }
    let mut left = BUDGET.saturating_sub(Value::Object(fields.clone()).to_string().chars().count() + 200);
    let (good, bad): (Vec<_>, Vec<_>) = report.cases.iter().partition(|c| c.status.is_good());
    let mut cases = Vec::new();
    for case in bad.iter().chain(&good) {
        let row = row(case);
        let cost = row.to_string().chars().count() + 1;
        let Some(rest) = left.checked_sub(cost) else { break };
        left = rest;
        cases.push(row);
    }
    let omitted = report.cases.len() - cases.len();
    fields.insert("cases".into(), json!(cases));
    if omitted > 0 {
        fields.insert("cases_omitted".into(), json!(omitted));
    }
    (words(run, report, &bad, hint), links)
}

/// A case with its texts cut to size; what is empty is left out of good ones.
fn row(case: &Case) -> Value {
    let mut case = case.clone();
    let texts = [&mut case.message, &mut case.details, &mut case.stdout, &mut case.stderr, &mut case.source];
    for text in texts.into_iter().flatten() {
        let end = beginning(text, TEXT);
        if end < text.len() {
            text.truncate(end);
            text.push('…');
        }
    }
    if case.status.is_good() {
        (case.details, case.stdout, case.stderr) = (None, None, None);
    }
    json!(case)
}

fn words(run: &Run, report: &TestReport, bad: &[&Case], hint: Option<&str>) -> String {
    let totals = &report.totals;
    let mut words = format!(
        "{} passed, {} failed, {} errored, {} skipped, {} not finished; run_id {}\n",
        totals.passed, totals.failed, totals.errored, totals.skipped, totals.not_finished, run.id
    );
    if !report.complete || !report.consistent {
        words.push_str("the report is not to be relied on: see complete, consistent and reason\n");
    }
    if let Some(reason) = &report.reason {
        words.push_str(&format!("{}\n", printable(reason)));
    }
    if report.outcome.cause != hotcell_sandbox::Cause::Exited && report.reason != report.outcome.reason {
        words.push_str(&format!("{}\n", summary(&report.outcome)));
    }
    if let Some(hint) = hint {
        words.push_str(&format!("{hint}\n"));
    }
    if report.outcome.kept.is_some() {
        words.push_str(&words_of_changes(&report.outcome));
    }
    for case in bad.iter().take(WORDS) {
        let place = match (&case.file, case.line) {
            (Some(file), Some(line)) => format!(" {}:{line}", printable(file)),
            _ => String::new(),
        };
        let message = case.message.as_deref().unwrap_or_default().lines().next().unwrap_or_default();
        let message: String = printable(message).chars().take(200).collect();
        words.push_str(&format!("{} {}{place}\n| {message}\n", case.status.name(), printable(&case.id)));
    }
    if bad.len() > WORDS {
        words.push_str(&format!("({} more that are not good)\n", bad.len() - WORDS));
    }
    words
}
