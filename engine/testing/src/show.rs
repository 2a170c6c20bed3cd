//! Lines for people. Everything that came from the tests goes through [`printable`].

use crate::case::{Case, Status};
use crate::event::Event;
use crate::report::TestReport;
use crate::text::{clip, printable};

/// The most lines of a message that are shown.
const LINES: usize = 8;

/// One line about what just happened; `None` for what is not worth one.
#[must_use]
pub fn event(event: &Event) -> Option<String> {
    match event {
        Event::Collected(count) => Some(format!("{count} tests")),
        Event::Ended(ended) | Event::Group(ended, _) => {
            Some(format!("{:<8} {}", word(ended.status), printable(&clip(&ended.id, 300))))
        }
        _ => None,
    }
}

/// The report, for a terminal: each test that is not good with its place and message, then the counts.
#[must_use]
pub fn report(report: &TestReport) -> String {
    let mut out = String::new();
    for case in report.cases.iter().filter(|c| !c.status.is_good()) {
        out.push_str(&about(case));
    }
    for flaky in report.flaky.iter().flatten() {
        let counts = [
            (flaky.passed, "passed"),
            (flaky.failed, "failed"),
            (flaky.errored, "errored"),
            (flaky.skipped, "skipped"),
            (flaky.not_finished, "not finished"),
            (flaky.absent, "absent"),
        ];
        out.push_str(&format!("FLAKY    {}: {}\n", printable(&clip(&flaky.id, 300)), counted(&counts)));
    }
    let totals = &report.totals;
    let counts = counted(&[
        (totals.failed, "failed"),
        (totals.errored, "errored"),
        (totals.not_finished, "not finished"),
        (totals.passed, "passed"),
        (totals.skipped, "skipped"),
    ]);
    let seconds = std::time::Duration::from_millis(totals.duration_ms).as_secs_f64();
    out.push_str(&format!("{}: {counts} in {seconds:.2} s", report.framework));
    if let Some(runs) = &report.repeats {
        out.push_str(&format!(" (the worst of {} runs)", runs.len()));
    }
    out.push('\n');
    if let Some(reason) = &report.reason {
        out.push_str(&format!("{}\n", printable(reason)));
    }
    out
}

fn about(case: &Case) -> String {
    let mut out = format!("{:<8} {}\n", word(case.status), printable(&clip(&case.id, 300)));
    if let Some(file) = &case.file {
        let line = case.line.map(|l| format!(":{l}")).unwrap_or_default();
        let source = case.source.as_deref().map(|s| format!(": {}", printable(s))).unwrap_or_default();
        out.push_str(&format!("  {}{line}{source}\n", printable(&clip(file, 300))));
    }
    for line in case.message.iter().flat_map(|m| m.lines()).take(LINES) {
        out.push_str(&format!("    {}\n", printable(&clip(line, 400))));
    }
    out
}

const fn word(status: Status) -> &'static str {
    match status {
        Status::Passed => "passed",
        Status::Skipped => "skipped",
        Status::NotFinished => "NO END",
        Status::Failed => "FAILED",
        Status::Errored => "ERROR",
    }
}

fn counted(counts: &[(u64, &str)]) -> String {
    let parts: Vec<_> =
        counts.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
    if parts.is_empty() { "no tests".to_owned() } else { parts.join(", ") }
}
