//! One run: how it ended, limits and denials in order, requests, files, output, receipts.

use hotcell_report::RunReport;
use hotcell_sandbox::outcome::Output;
use hotcell_state::audit;
use hotcell_state::database::{open_to_read, retry_while_busy};
use hotcell_state::history::{History, HistoryError, RequestList};
use hotcell_state::report::{Code, ErrorReport};
use maud::{Markup, html};

use super::runs::{bytes, history, name, of_history, time};
use super::{Page, Shown};
use crate::form::{Fields, query};
use crate::frame::{Failure, Tab, seconds, table};
use crate::say::{beginning, in_options, said};
use crate::site::Site;
use crate::text::{Part, Place, Section, part};

/// Maximum number of rows of a table on this page; `--json` of the command line has all.
const MAX_ROWS: usize = 100;
/// Maximum length of a text in a row, in characters.
const MAX_ROW_CHARS: usize = 200;
/// Maximum length of the command, in characters.
const MAX_COMMAND_CHARS: usize = 4000;
/// Maximum number of receipts.
const MAX_RECEIPTS: u64 = 20;
/// Texts of a run, by their names in addresses.
const TEXTS: [(&str, &str); 3] =
    [("stdout", "Standard output"), ("stderr", "Standard error"), ("diff", "Diff")];

fn open(site: &Site, id: &str) -> Result<History, Failure> {
    match history(site)? {
        Some(history) => Ok(history),
        None => Err(of_history(&HistoryError::NoSuchRun(id.to_owned())).into()),
    }
}

pub fn show(site: &Site, id: &str) -> Shown {
    let history = open(site, id)?;
    let requests = history.requests(id).map_err(|error| of_history(&error))?;
    let id = requests.id.as_str();
    let outcome = history.show(id).map_err(|error| of_history(&error))?;
    let row = history.row(id).map_err(|error| of_history(&error))?;
    let body = html! {
        dl.facts {
            @if let Some(row) = &row {
                dt { "Command" } dd { code { (beginning(&row.command.join(" "), MAX_COMMAND_CHARS)) } }
                dt { "Started" } dd { (seconds(&row.started)) }
            }
            dt { "Ended" }
            dd {
                strong { (name(outcome.cause).replace('_', " ")) }
                @if let Some(code) = outcome.exit_code { ", exit status " (code) }
                @if let Some(signal) = &outcome.signal { ", " (said(signal)) }
                @if let Some(reason) = &outcome.reason { ": " (beginning(&in_options(reason), MAX_COMMAND_CHARS)) }
            }
            @for (label, value) in used(&outcome) { dt { (label) } dd { (value) } }
            dt { "Layers" }
            dd {
                @for (layer, state) in &outcome.layers.states {
                    span.tag { (layer.name()) " " (said(&String::from(state.clone()))) } " "
                }
                @if outcome.layers.states.is_empty() { "Nothing was started." }
            }
            dt { "Receipts" } dd { (receipts(site, id)?) }
        }
        (limits(&outcome))
        (denials(&outcome))
        (network(&requests))
        (files(&outcome))
        @if TEXTS.iter().any(|(key, _)| text_of(&outcome, key).is_some_and(|text| !text.is_empty())) { h2 { "Output" } }
        @for (key, title) in TEXTS {
            @if let Some(text) = text_of(&outcome, key) {
                @if !text.is_empty() {
                    @let first = first(title, &text)?;
                    (first.html)
                    @if cut(&outcome, key) { p.note { "The middle was too long to be kept." } }
                    @if let Some(next) = first.next {
                        p { a href=(more(id, key, next)) { "Go on reading" } }
                    }
                }
            }
        }
    };
    Ok(Page { tab: Some(Tab::Runs), title: format!("Run {id}"), body })
}

/// A text of a run in parts, from a place on.
pub fn text(site: &Site, id: &str, key: &str, fields: &Fields) -> Shown {
    let (_, title) = TEXTS.into_iter().find(|(name, _)| *name == key).ok_or_else(Failure::nowhere)?;
    let outcome = open(site, id)?.show(id).map_err(|error| of_history(&error))?;
    let text = text_of(&outcome, key).unwrap_or_default();
    let sections = [Section { title: title.to_owned(), bytes: text.len() as u64 }];
    let part = part(&sections, &|_| Ok(text.clone()), Place::parse(fields.get("from")))?;
    let body = html! {
        div #part { (part.html) }
        div #end {
            @match part.next {
                Some(next) => p { a #next rel="next" href=(more(id, key, next)) { "Next part" } },
                None => p.note { "This is its end." },
            }
        }
        p { a href=(format!("/runs/{id}")) { "Back to the run" } }
    };
    Ok(Page { tab: Some(Tab::Runs), title: format!("{title} of a run"), body })
}

fn more(id: &str, key: &str, next: Place) -> String {
    format!("/runs/{id}/{key}{}", query(&[("from", &next.to_string())]))
}

fn text_of(outcome: &RunReport, key: &str) -> Option<Vec<u8>> {
    match key {
        "stdout" => Some(outcome.stdout.to_bytes()),
        "stderr" => Some(outcome.stderr.to_bytes()),
        _ => outcome.diff.clone().map(String::into_bytes),
    }
}

fn cut(outcome: &RunReport, key: &str) -> bool {
    let of = |output: &Output| output.truncated;
    (key == "stdout" && of(&outcome.stdout)) || (key == "stderr" && of(&outcome.stderr))
}

/// The beginning of a text, at most a quarter of a part.
pub(super) fn first(title: &str, text: &[u8]) -> Result<Part, ErrorReport> {
    const MAX_FIRST_BYTES: usize = 3 * 1024;
    let mut end = text.len().min(MAX_FIRST_BYTES);
    while end < text.len() && text[end] & 0xc0 == 0x80 {
        end += 1;
    }
    let sections = [Section { title: title.to_owned(), bytes: text.len() as u64 }];
    let mut first = part(&sections, &|_| Ok(text[..end].to_vec()), Place::default())?;
    if first.next.is_none() && end < text.len() {
        let lines = text[..end].iter().filter(|byte| **byte == b'\n').count() as u64;
        first.next = Some(Place { section: 0, offset: end, lines });
    }
    Ok(first)
}

fn used(outcome: &RunReport) -> Vec<(&'static str, String)> {
    let usage = &outcome.usage;
    let all = [
        ("Time", usage.wall_us.map(time)),
        ("Processor", usage.cpu_us.map(time)),
        ("Memory", usage.peak_memory_bytes.map(|count| format!("at most {}", bytes(count)))),
        ("Processes", usage.peak_processes.map(|count| format!("at most {count}"))),
        ("Disk", usage.disk_bytes.map(bytes)),
    ];
    all.into_iter().filter_map(|(label, value)| Some((label, value?))).collect()
}

fn limits(outcome: &RunReport) -> Markup {
    let mut all: Vec<_> = outcome.limits_hit.iter().collect();
    all.sort_by_key(|hit| hit.at_us);
    let word = |value: &dyn erased::Word| value.word();
    let rows: Vec<_> = all
        .iter()
        .map(|hit| {
            let evidence = word(&hit.evidence);
            vec![
                html! { (time(hit.at_us)) },
                html! { (word(&hit.limit).replace('_', " ")) },
                html! { (hit.value) },
                html! { (evidence) },
            ]
        })
        .collect();
    html! {
        @if !rows.is_empty() {
            h2 { "Limits that it reached" }
            (table("Limits", &["After", "Limit", "Value", "Seen by"], &rows))
        }
    }
}

/// Values that JSON shows as one word.
mod erased {
    pub trait Word {
        fn word(&self) -> String;
    }
    impl<T: serde::Serialize> Word for T {
        fn word(&self) -> String {
            serde_json::to_value(self).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
        }
    }
}

fn denials(outcome: &RunReport) -> Markup {
    let rows: Vec<_> = outcome
        .denials
        .iter()
        .take(MAX_ROWS)
        .map(|one| {
            vec![
                html! { (one.count) },
                said(&one.layer),
                beginning(&one.operation, MAX_ROW_CHARS),
                beginning(&one.target, MAX_ROW_CHARS),
                said(&one.errno),
            ]
        })
        .collect();
    html! {
        @if !rows.is_empty() {
            h2 { "Denials" }
            (table("Denials", &["Times", "Layer", "Operation", "Target", "Error"], &rows))
            @if outcome.denials.len() > MAX_ROWS { p.note { (outcome.denials.len() - MAX_ROWS) " more" } }
            @if !outcome.denials_complete { p.note { "Not every denial could be seen." } }
        }
    }
}

fn network(list: &RequestList) -> Markup {
    let rows: Vec<_> = list
        .requests
        .iter()
        .take(MAX_ROWS)
        .map(|one| {
            vec![
                html! { (seconds(&one.time)) },
                said(one.request.secret.as_deref().unwrap_or_default()),
                beginning(
                    &format!("{} {}{}", one.request.method, one.request.host, one.request.path),
                    MAX_ROW_CHARS,
                ),
                html! { @if let Some(status) = one.request.status { (status) } },
                said(&one.request.ending),
                beginning(&one.request.rule, MAX_ROW_CHARS),
            ]
        })
        .collect();
    html! {
        @if !rows.is_empty() {
            h2 { "Requests through the proxy" }
            (table("Requests through the proxy", &["Time", "Secret", "Request", "Status", "Ending", "Rule"], &rows))
            @if list.requests.len() > MAX_ROWS { p.note { (list.requests.len() - MAX_ROWS) " more, which hotcell runs show " (list.id) " has" } }
            @if list.left_out > 0 { p.note { (list.left_out) " more were only counted" } }
        }
    }
}

fn files(outcome: &RunReport) -> Markup {
    let all = outcome.changes.as_deref().unwrap_or_default();
    let rows: Vec<_> = all
        .iter()
        .take(MAX_ROWS)
        .map(|one| {
            let kind = serde_json::to_value(one.kind).ok();
            let marks: Vec<_> = one.marks.iter().map(|mark| mark.name()).collect();
            vec![
                html! { (kind.as_ref().and_then(|kind| kind.as_str()).unwrap_or_default()) },
                beginning(&one.path, MAX_ROW_CHARS),
                html! { (bytes(one.bytes)) },
                html! { (marks.join(", ")) },
            ]
        })
        .collect();
    html! {
        @if !rows.is_empty() {
            h2 { "Changed files" }
            (table("Changed files", &["Change", "Path", "Size", "Look at"], &rows))
            @if all.len() > MAX_ROWS { p.note { (all.len() - MAX_ROWS) " more" } }
        }
    }
}

/// Receipts of a run that the audit log names.
fn receipts(site: &Site, id: &str) -> Result<Markup, Failure> {
    let bad = |why: String| ErrorReport::new(Code::State, why);
    let mut found = Vec::new();
    if let Some(folder) = site.folder()?
        && let Some((database, form)) = open_to_read(&folder).map_err(|e| bad(e.to_string()))?
        && form >= 2
    {
        let text = format!("\"run\":\"{id}\"");
        let read = || audit::naming(&database, "receipt", &text, MAX_RECEIPTS);
        found = retry_while_busy(read).map_err(|e| bad(format!("the audit log: {e}")))?;
    }
    Ok(html! {
        @if found.is_empty() { "None was asked for." }
        @for entry in &found { p { code { (said(&entry.subject)) } " in entry " (entry.seq) " of the audit log" } }
    })
}
