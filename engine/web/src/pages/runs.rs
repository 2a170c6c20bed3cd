//! The history of runs, with a filter.

use std::io::ErrorKind;

use hotcell_sandbox::outcome::Cause;
use hotcell_state::history::{History, HistoryError, RunFilter, RunRow};
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::running::{self, RunningRow};
use hotcell_state::time::rfc3339;
use maud::{Markup, html};

use super::{Page, Shown};
use crate::chart::{Bar, MAX_BARS, bars};
use crate::form::{Fields, query};
use crate::frame::{Tab, pages, seconds, table};
use crate::say::beginning;
use crate::site::Site;

/// Rows of a page.
const ROWS: u64 = 50;
/// Rows of runs that go on.
const MAX_RUNNING: usize = 50;
/// Characters of a command in a row.
pub(super) const MAX_COMMAND_CHARS: usize = 160;
/// Causes in the order of the filter.
const CAUSES: [Cause; 15] = [
    Cause::Exited,
    Cause::Signaled,
    Cause::WallLimit,
    Cause::CpuLimit,
    Cause::MemoryLimit,
    Cause::ProcessLimit,
    Cause::DiskLimit,
    Cause::FileLimit,
    Cause::OutputLimit,
    Cause::Cancelled,
    Cause::Quarantined,
    Cause::Refused,
    Cause::NotFound,
    Cause::NotExecutable,
    Cause::Internal,
];

/// Name of a cause in JSON.
pub(super) fn name(cause: Cause) -> String {
    serde_json::to_value(cause).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Opens the history; `None` when nothing was kept yet.
pub(super) fn history(site: &Site) -> Result<Option<History>, ErrorReport> {
    match site.folder()? {
        Some(folder) => History::open_to_read(&folder).map_err(|error| of_history(&error)),
        None => Ok(None),
    }
}

pub(super) fn of_history(error: &HistoryError) -> ErrorReport {
    let code = match error {
        HistoryError::NoSuchRun(_) | HistoryError::Ambiguous { .. } => Code::UnknownName,
        _ => Code::State,
    };
    ErrorReport::new(code, error.to_string())
}

pub fn show(site: &Site, fields: &Fields) -> Shown {
    let (chosen, text) = (fields.get("cause"), fields.given("text"));
    let cause = CAUSES.into_iter().find(|cause| name(*cause) == chosen);
    let filter = RunFilter { cause, text: text.map(str::to_owned), begins: None };
    let at = fields.page();
    let (mut rows, mut total, mut last) = (Vec::new(), 0, Vec::new());
    if let Some(history) = history(site)? {
        (rows, total) = history.page(&filter, (at - 1) * ROWS, ROWS).map_err(|error| of_history(&error))?;
        (last, _) = history.page(&filter, 0, MAX_BARS as u64).map_err(|error| of_history(&error))?;
    }
    let address = |page: u64| {
        format!(
            "/runs{}",
            query(&[("cause", chosen), ("text", text.unwrap_or("")), ("page", &page.to_string())])
        )
    };
    let now = running_now(site)?;
    let body = html! {
        form.filter method="get" action="/runs" role="search" {
            label { "Ended"
                select name="cause" {
                    option value="" { "in any way" }
                    @for one in CAUSES {
                        option value=(name(one)) selected[cause == Some(one)] { (name(one).replace('_', " ")) }
                    }
                }
            }
            label { "Command contains" input type="search" name="text" value=(text.unwrap_or("")) maxlength="200"; }
            button { "Filter" }
        }
        div #live {
            @if !now.is_empty() { (going_on(&now)) }
            (walls(&last))
            (memory(&last))
            @if total == 0 {
                p { @if filter == RunFilter::default() { "No runs are kept yet." } @else { "No run is like that." } }
            } @else {
                (list("Runs", &rows))
                (pages(at, ROWS, total, &address))
            }
        }
        p.note { "Runs that go on are shown from the moment on at which this page is served. hotcell keeps the last 1,000 that ended." }
    };
    Ok(Page { tab: Some(Tab::Runs), title: "Runs".to_owned(), body })
}

/// Runs that go on; none where there is no state folder yet.
pub(crate) fn running_now(site: &Site) -> Result<Vec<RunningRow>, ErrorReport> {
    let Some(folder) = site.folder()? else { return Ok(Vec::new()) };
    running::watch(&folder).or_else(|error| match error.kind() {
        // On a read-only file system nothing goes on that could be shown.
        ErrorKind::ReadOnlyFilesystem | ErrorKind::StorageFull => Ok(Vec::new()),
        _ => Err(ErrorReport::new(Code::State, format!("runs that go on cannot be read: {error}"))),
    })
}

/// A table of runs that go on.
fn going_on(rows: &[RunningRow]) -> Markup {
    let of = |row: &RunningRow| {
        vec![
            html! { span.n { (row.id) } },
            beginning(&row.command.join(" "), MAX_COMMAND_CHARS),
            html! { span.n { (seconds(&rfc3339(row.started))) } },
            html! { span.n { (row.pid) } },
        ]
    };
    let shown: Vec<_> = rows.iter().take(MAX_RUNNING).map(of).collect();
    html! {
        h2 { "Running now: " (rows.len()) }
        (table("Runs that go on", &["Run", "Command", "Started", "Process"], &shown))
        @if rows.len() > MAX_RUNNING { p.note { "The newest " (MAX_RUNNING) " are shown." } }
    }
}

/// A table of runs.
pub(super) fn list(label: &str, rows: &[RunRow]) -> Markup {
    let heads = ["Run", "Ended", "Command", "Started", "Time", "Memory"];
    let rows: Vec<_> = rows.iter().map(row).collect();
    table(label, &heads, &rows)
}

fn good(row: &RunRow) -> bool {
    row.cause == Cause::Exited && row.exit_code == Some(0)
}

fn row(row: &RunRow) -> Vec<Markup> {
    let mark = if good(row) { "good" } else { "bad" };
    let ended = html! {
        span.state.n.(mark) {
            (name(row.cause).replace('_', " "))
            @if let Some(code) = row.exit_code { " " (code) }
        }
    };
    vec![
        html! { a href=(format!("/runs/{}", row.id)) { (row.id) } },
        ended,
        beginning(&row.command.join(" "), MAX_COMMAND_CHARS),
        html! { span.n { (seconds(&row.started)) } },
        html! { span.n { (row.usage.wall_us.map(time).unwrap_or_default()) } },
        html! { span.n { (row.usage.peak_memory_bytes.map(bytes).unwrap_or_default()) } },
    ]
}

fn walls(rows: &[RunRow]) -> Markup {
    #[expect(clippy::cast_precision_loss, reason = "a bar has 80 heights")]
    let bar = |row: &RunRow| {
        let wall = row.usage.wall_us.unwrap_or(0);
        Bar { value: wall as f64, label: format!("{}: {}", row.id, time(wall)), bad: !good(row) }
    };
    let all: Vec<_> = rows.iter().rev().map(bar).collect();
    let most = rows.iter().filter_map(|row| row.usage.wall_us).max().unwrap_or(0);
    bars("Time of the last runs", &time(most), &all)
}

fn memory(rows: &[RunRow]) -> Markup {
    #[expect(clippy::cast_precision_loss, reason = "a bar has 80 heights")]
    let bar = |row: &RunRow| {
        let peak = row.usage.peak_memory_bytes.unwrap_or(0);
        Bar { value: peak as f64, label: format!("{}: {}", row.id, bytes(peak)), bad: !good(row) }
    };
    let all: Vec<_> = rows.iter().rev().map(bar).collect();
    let most = rows.iter().filter_map(|row| row.usage.peak_memory_bytes).max().unwrap_or(0);
    if most == 0 {
        html! {}
    } else {
        bars("Memory of the last runs", &bytes(most), &all)
    }
}

/// A time for people, from microseconds.
pub(super) fn time(us: u64) -> String {
    match us {
        0..10_000 => format!("{}.{} ms", us / 1000, us % 1000 / 100),
        10_000..1_000_000 => format!("{} ms", us / 1000),
        1_000_000..60_000_000 => format!("{}.{} s", us / 1_000_000, us % 1_000_000 / 100_000),
        _ => format!("{} min {} s", us / 60_000_000, us / 1_000_000 % 60),
    }
}

/// A size for people.
pub(super) fn bytes(count: u64) -> String {
    hotcell_sandbox::Bytes(count).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        for (us, want) in [
            (0, "0.0 ms"),
            (1_234, "1.2 ms"),
            (12_345, "12 ms"),
            (1_999_999, "1.9 s"),
            (61_000_000, "1 min 1 s"),
        ] {
            assert_eq!(time(us), want);
        }
        assert!(CAUSES.iter().all(|cause| !name(*cause).is_empty()));
    }
}
