//! Sessions in which models write code: their candidates, scores, and the evidence for each, which names its run.

use std::sync::Arc;

use hotcell_agents::bench::Bench;
use hotcell_agents::driver::{self, Driver};
use hotcell_agents::journal::SessionRow;
use hotcell_agents::report::{Best, CandidateReport, IterationRow, TestsRow};
use hotcell_agents::{Journal, SessionReport};
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::StateFolder;
use hotcell_state::time::rfc3339;
use hotcell_verbs::workspaces;
use maud::{Markup, html};

use super::run::first;
use super::{Page, Shown};
use crate::chart::{Bar, bars};
use crate::form::{Fields, query};
use crate::frame::{Failure, Tab, pages, seconds, table};
use crate::say::{beginning, said};
use crate::site::Site;
use crate::text::{Place, Section, part};

/// Rows of a page.
const ROWS: usize = 50;
/// Maximum number of answers, points and names in a table.
const MAX_ROWS: usize = 200;
/// Maximum number of names in a cell.
const MAX_NAMES: usize = 8;
/// Maximum length of a text in a row, in characters.
const MAX_ROW_CHARS: usize = 160;

/// The list.
pub fn show(site: &Site, fields: &Fields) -> Shown {
    let folder = site.folder()?;
    let rows = match &folder {
        Some(folder) => journal(folder)?.list().map_err(|e| bad(&e))?,
        None => Vec::new(),
    };
    let state = |row: &SessionRow| match &folder {
        Some(folder) => driver::listed_state(folder, &row.id, &row.state),
        None => row.state.clone(),
    };
    let at = fields.page();
    let skipped = usize::try_from(at - 1).unwrap_or(usize::MAX).saturating_mul(ROWS);
    let shown: Vec<_> = rows
        .iter()
        .skip(skipped)
        .take(ROWS)
        .map(|row| {
            vec![
                html! { a href=(format!("/agents/{}", row.id)) { (row.id) } },
                said(&row.task.kind),
                beginning(&row.task.project, MAX_ROW_CHARS),
                html! { (state(row).replace('_', " ")) },
                html! { span.n { (seconds(&rfc3339(row.time_us))) } },
            ]
        })
        .collect();
    let body = html! {
        div #live {
            @if rows.is_empty() {
                p { "No session of an agent is kept: " code { "hotcell fix" } " and " code { "hotcell make" } " begin one." }
            } @else {
                (table("Sessions", &["Session", "Kind", "Project", "State", "Started"], &shown))
                (pages(at, ROWS as u64, rows.len() as u64, &|page| format!("/agents{}", query(&[("page", &page.to_string())]))))
            }
        }
    };
    Ok(Page { tab: Some(Tab::Agents), title: "Agents".to_owned(), body })
}

/// One session.
pub fn session(site: &Site, id: &str) -> Shown {
    let report = read(site, id)?;
    let id = report.id.as_deref().unwrap_or(id);
    let answers: Vec<_> = report
        .candidates
        .iter()
        .flat_map(|candidate| candidate.iterations.iter().map(move |one| (candidate, one)))
        .collect();
    let given = vec![
        html! { "as it was" },
        html! {},
        html! {},
        tests(Some(&report.before)),
        html! {},
        html! {},
        html! {},
    ];
    let rows: Vec<_> = std::iter::once(given)
        .chain(answers.iter().take(MAX_ROWS).map(|(candidate, one)| answer(candidate, one)))
        .collect();
    let body = html! {
        dl.facts {
            dt { "Project" } dd { code { (beginning(&report.project, MAX_ROW_CHARS)) } }
            dt { "State" } dd {
                strong { (word(&report.state)) }
                @if let Some(reason) = &report.reason { ": " (beginning(&word(reason), MAX_ROW_CHARS)) }
            }
            dt { "Calls of models" } dd { (report.usage.calls) " calls, " (cost(&report)) }
            dt { "Time" } dd { (format!("{:.1} s", report.seconds)) }
            @if let Some(commit) = &report.commit { dt { "Taken over" } dd { (beginning(&word(commit), MAX_ROW_CHARS)) } }
        }
        (scores(&answers))
        h2 { "Answers" }
        (table("Answers", &["Candidate", "Answer", "Model", "Tests, run", "Score", "Not good", "Files"], &rows))
        @if answers.len() > MAX_ROWS { p.note { (answers.len() - MAX_ROWS) " more: hotcell agent show " (id) } }
        @if let Some(best) = &report.best { (handed_over(best)) } @else { p { "None of the answers is better than the given code." } }
        @if let Some(text) = report.diff.as_deref().filter(|text| !text.is_empty()) {
            h2 { "Diff of the best one" }
            @let part = first("Diff", text.as_bytes())?;
            (part.html)
            @if let Some(next) = part.next { p { a href=(more(id, next)) { "Go on reading" } } }
        }
        @if !report.actions.is_empty() {
            h2 { "Commands that go on from here" }
            ul { @for action in report.actions.iter().take(MAX_NAMES) { li { code { (beginning(action, MAX_ROW_CHARS)) } } } }
        }
    };
    Ok(Page { tab: Some(Tab::Agents), title: format!("Session {id}"), body })
}

/// The diff in parts.
pub fn diff(site: &Site, id: &str, fields: &Fields) -> Shown {
    let text = read(site, id)?.diff.unwrap_or_default();
    let sections = [Section { title: "Diff".to_owned(), bytes: text.len() as u64 }];
    let part = part(&sections, &|_| Ok(text.clone().into_bytes()), Place::parse(fields.get("from")))?;
    let body = html! {
        div #part { (part.html) }
        div #end {
            @match part.next {
                Some(next) => p { a #next rel="next" href=(more(id, next)) { "Next part" } },
                None => p.note { "This is its end." },
            }
        }
        p { a href=(format!("/agents/{id}")) { "Back to the session" } }
    };
    Ok(Page { tab: Some(Tab::Agents), title: "Diff of a session".to_owned(), body })
}

fn more(id: &str, next: Place) -> String {
    format!("/agents/{id}/diff{}", query(&[("from", &next.to_string())]))
}

fn bad(error: &dyn std::fmt::Display) -> ErrorReport {
    ErrorReport::new(Code::State, error.to_string())
}

fn journal(folder: &StateFolder) -> Result<Journal, ErrorReport> {
    Journal::open(folder).map_err(|e| bad(&e))
}

fn read(site: &Site, id: &str) -> Result<SessionReport, Failure> {
    let folder = site.folder()?.ok_or_else(Failure::nowhere)?;
    let bench = Bench(Arc::new(workspaces::store(&folder)?));
    Ok(Driver::show(&folder, &bench, id)?.0)
}

/// A value that JSON shows as a word, or as a word with a text.
fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word.replace('_', " "),
        Ok(value) => value.to_string(),
        Err(_) => String::new(),
    }
}

fn cost(report: &SessionReport) -> String {
    format!("{} tokens, ${:.4}", report.usage.tokens, report.usage.dollars)
}

fn tests(row: Option<&TestsRow>) -> Markup {
    html! {
        @if let Some(row) = row {
            (row.good) " of " (row.of)
            @if let Some(run) = &row.run { ", " a href=(format!("/runs/{run}")) { (run) } }
        }
    }
}

fn names(all: &[String]) -> Markup {
    html! {
        @for (at, one) in all.iter().take(MAX_NAMES).enumerate() { @if at > 0 { ", " } (beginning(one, MAX_ROW_CHARS)) }
        @if all.len() > MAX_NAMES { " and " (all.len() - MAX_NAMES) " more" }
    }
}

fn answer(candidate: &CandidateReport, one: &IterationRow) -> Vec<Markup> {
    vec![
        html! { (candidate.number) ", " (word(&candidate.state)) },
        html! {
            @if let Some(number) = one.iteration { (number) ", " } (word(&one.ask))
            @if let Some(why) = &one.unusable { ": " (beginning(why, MAX_ROW_CHARS)) }
        },
        beginning(one.model.as_deref().unwrap_or("-"), MAX_ROW_CHARS),
        tests(one.tests.as_ref()),
        html! { @if let Some(score) = one.score { (score) } },
        names(&one.failing),
        names(&one.files),
    ]
}

fn scores(answers: &[(&CandidateReport, &IterationRow)]) -> Markup {
    let bar = |(candidate, one): &(&CandidateReport, &IterationRow)| {
        let score = one.score?;
        let label = format!("candidate {}: {score}", candidate.number);
        Some(Bar { value: f64::from(score), label, bad: score < 100 })
    };
    let all: Vec<_> = answers.iter().filter_map(bar).collect();
    bars("Scores of the answers", "100", &all)
}

/// The artifact that is handed over, with the points and gates of its score.
fn handed_over(best: &Best) -> Markup {
    let points = best.score.points.iter().map(|point| {
        vec![html! { (point.name.replace('_', " ")) }, html! { (point.earned) " of " (point.of) }, html! {}]
    });
    let gates = best.score.gates.iter().map(|gate| {
        vec![
            html! { "gate: " (gate.name.replace('_', " ")) },
            html! { @if gate.passed { span.state.good { "passed" } } @else { span.state.bad { "not passed" } } },
            html! { @if let Some(run) = &gate.run { a href=(format!("/runs/{run}")) { (run) } } },
        ]
    });
    let rows: Vec<_> = points.chain(gates).take(MAX_ROWS).collect();
    html! {
        h2 { "Candidate " (best.candidate) ", answer " (best.iteration) ", is handed over" }
        p {
            "Chosen by " (said(&best.chosen_by)) ", " (best.lines) " changed lines, score " (best.score.score) ", tests "
            (tests(Some(&best.tests))) "."
            @if !best.accepted { " " strong { "Not all gates are passed." } }
        }
        p { "Files: " (names(&best.files)) }
        (table("Evidence of the score", &["Evidence", "Result", "Run"], &rows))
    }
}
