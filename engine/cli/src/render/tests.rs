//! A test report for people: failures first, each with its location, its source line and its message; then a
//! summary line.

use std::fmt::Write as _;

use hotcell_sandbox::outcome::Cause;
use hotcell_sandbox::text::{printable, printable_message};
use hotcell_testing::coverage::{Coverage, FileCoverage};
use hotcell_testing::report::Totals;
use hotcell_testing::{Case, Status, TestReport, Verdict};

/// Maximum number of failures shown in full; of the others only the names.
const MAX_FULL_FAILURES: usize = 10;
/// Maximum number of further names.
const MAX_NAMES: usize = 40;
/// Maximum number of lines of a message.
const MAX_MESSAGE_LINES: usize = 8;
/// Maximum number of lines of details, with -v.
const MAX_DETAIL_LINES: usize = 200;

/// Maximum number of files whose coverage is shown, those with the most missing lines first, and of ranges in
/// each.
const MAX_COVERAGE_FILES: usize = 10;
const MAX_RANGES: usize = 8;

/// Style of a page.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// Use colour.
    pub colour: bool,
    /// Include tracebacks and the tests' output.
    pub verbose: bool,
    /// For a GitHub workflow: no text of a test may look like a command.
    pub github: bool,
}

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// A line written by a test.
    fn theirs(self, line: &str) -> String {
        self.no_command(printable(line))
    }

    /// A line of hotcell with words of tests, which are escaped already.
    fn ours(self, line: &str) -> String {
        self.no_command(printable_message(line))
    }

    fn no_command(self, line: String) -> String {
        if !self.github {
            return line;
        }
        // The runner recognizes one form of commands anywhere in a line, and the other after leading blanks.
        let line = line.replace("##[", "# #[");
        let blanks = line.len() - line.trim_start().len();
        let (blank, words) = line.split_at(blanks);
        if words.starts_with("::") { format!("{blank}: {}", &words[1..]) } else { line }
    }
}

/// The output on standard output after a run.
pub fn page(report: &TestReport, style: Style) -> String {
    let mut out = String::new();
    let bad: Vec<&Case> = report.bad().collect();
    for case in bad.iter().take(MAX_FULL_FAILURES) {
        whole(&mut out, case, style);
    }
    for case in bad.iter().skip(MAX_FULL_FAILURES).take(MAX_NAMES) {
        let _ = writeln!(out, "{}  {}", label(case, style), style.theirs(&case.id));
    }
    if bad.len() > MAX_FULL_FAILURES + MAX_NAMES {
        let _ = writeln!(out, "and {} more; --json has them all", bad.len() - MAX_FULL_FAILURES - MAX_NAMES);
    }
    for flaky in report.flaky.iter().flatten() {
        let word = style.paint("33", "FLAKY");
        if let Some(case) = report.cases.iter().find(|case| case.id == flaky.id && case.attempts.len() > 1) {
            let attempts = attempts(case);
            let _ = writeln!(out, "{word}   {}  {attempts}", style.theirs(&case.id));
            continue;
        }
        let _ = writeln!(
            out,
            "{word}   {}  passed {} times, failed {}",
            style.theirs(&flaky.id),
            flaky.passed,
            flaky.failed
        );
    }
    // The reason for a run that was ended from outside is printed on standard error.
    let theirs = matches!(report.outcome.cause, Cause::Exited | Cause::Signaled);
    if let Some(reason) = report.reason.as_deref().filter(|_| theirs) {
        let _ = writeln!(out, "{}", style.ours(reason));
    }
    if !out.is_empty() && !out.ends_with("\n\n") {
        out.push('\n');
    }
    for suite in report.suites.iter().flatten() {
        let folder = if suite.folder.is_empty() { "." } else { &suite.folder };
        let version = suite.framework_version.as_ref().map(|v| format!(" {v}")).unwrap_or_default();
        let python = suite.python.as_ref().map(|p| format!(" on python {p}")).unwrap_or_default();
        let line = format!(
            "{folder}: {}{version}{python}: {}",
            suite.framework,
            answer(suite.verdict, &suite.totals)
        );
        let _ = writeln!(out, "{}", style.theirs(&line));
    }
    for shard in report.shards.iter().flatten() {
        let worker =
            shard.remote.as_ref().map(|remote| remote.worker.as_str()).filter(|name| !name.is_empty());
        let worker = worker.map(|name| format!(" on {name}")).unwrap_or_default();
        let line = format!("part {}{worker}: {}", shard.number, answer(shard.verdict, &shard.totals));
        let _ = writeln!(out, "{}", style.theirs(&line));
    }
    if report.suites.is_some() || report.shards.is_some() {
        out.push('\n');
    }
    if let Some(coverage) = &report.coverage {
        covered(&mut out, coverage, style);
    }
    let code = if report.verdict == Verdict::Passed { "1;32" } else { "1;31" };
    let _ = writeln!(out, "{}", style.paint(code, &style.theirs(&headline(report))));
    out
}

/// The result of each attempt at a test, and the first error.
fn attempts(case: &Case) -> String {
    let words: Vec<&str> = case.attempts.iter().map(|attempt| attempt.status.name()).collect();
    let wrong = case.attempts.iter().find(|attempt| !attempt.status.is_good());
    let why = wrong.and_then(|attempt| attempt.message.as_deref()?.lines().next());
    let why = why.map(|why| format!(": {}", printable(why))).unwrap_or_default();
    format!("{}{why}", words.join(", then "))
}

fn label(case: &Case, style: Style) -> String {
    match case.status {
        Status::Failed => style.paint("31", "FAILED"),
        Status::Errored => style.paint("31", "ERROR"),
        Status::NotFinished => style.paint("33", "UNFINISHED"),
        Status::Passed | Status::Skipped => case.status.name().to_uppercase(),
    }
}

fn whole(out: &mut String, case: &Case, style: Style) {
    let _ = writeln!(out, "{}  {}", label(case, style), style.theirs(&case.id));
    if let Some(file) = &case.file {
        let line = case.line.map(|line| format!(":{line}")).unwrap_or_default();
        let place = style.paint("2", &format!("{}{line}", style.theirs(file)));
        let _ = writeln!(out, "    {place}");
    }
    if let Some(source) = case.source.as_deref().filter(|s| !s.is_empty()) {
        let _ = writeln!(out, "    > {}", style.theirs(source));
    }
    if case.attempts.len() > 1 {
        let _ = writeln!(out, "    in none of {} attempts it passed", case.attempts.len());
    }
    let cut_off = (case.status == Status::NotFinished).then_some("was running when the run ended");
    let message = case.message.as_deref().or(cut_off).unwrap_or_default();
    lines(out, message, "E", MAX_MESSAGE_LINES, style);
    if style.verbose {
        for (text, mark) in [(&case.details, "|"), (&case.stdout, "1"), (&case.stderr, "2")] {
            lines(out, text.as_deref().unwrap_or_default(), mark, MAX_DETAIL_LINES, style);
        }
    }
    out.push('\n');
}

/// Appends lines of a test, each behind a mark, so that none looks like a line of hotcell's.
fn lines(out: &mut String, text: &str, mark: &str, most: usize, style: Style) {
    let count = text.lines().count();
    for line in text.lines().take(most) {
        let _ = writeln!(out, "    {mark} {}", style.theirs(&line.replace('\t', "    ")));
    }
    if count > most {
        let _ = writeln!(out, "    {mark} … {} more lines", count - most);
    }
}

/// The files with the most uncovered lines, and the total.
fn covered(out: &mut String, coverage: &Coverage, style: Style) {
    let gap = |file: &FileCoverage| file.lines - file.covered;
    let mut files: Vec<_> = coverage.files.iter().filter(|file| gap(file) > 0).collect();
    files.sort_by_key(|file| std::cmp::Reverse(gap(file)));
    for file in files.iter().take(MAX_COVERAGE_FILES) {
        let stretch =
            |(from, to): &(u32, u32)| if from == to { from.to_string() } else { format!("{from}-{to}") };
        let mut missing: Vec<String> = file.missing.iter().take(MAX_RANGES).map(stretch).collect();
        missing.extend((file.missing.len() > MAX_RANGES).then(|| "…".to_owned()));
        let percent = style.paint("33", &format!("{:>6.2} %", file.lines_percent));
        let _ = writeln!(out, "{percent}  {}  not run: {}", style.theirs(&file.path), missing.join(", "));
    }
    if files.len() > MAX_COVERAGE_FILES {
        let _ = writeln!(out, "          and {} more files", files.len() - MAX_COVERAGE_FILES);
    }
    let percent = coverage.lines_percent.map_or_else(|| "none".to_owned(), |p| format!("{p:.2} %"));
    let files = coverage.files.len();
    let s = if files == 1 { "" } else { "s" };
    let _ = writeln!(out, "coverage: {percent} of {} lines in {files} file{s}\n", coverage.lines);
}

/// A verdict with its counts.
fn answer(verdict: Verdict, totals: &Totals) -> String {
    let parts: Vec<String> = [
        (totals.failed, "failed"),
        (totals.errored, "with errors"),
        (totals.not_finished, "not finished"),
        (totals.passed, "passed"),
        (totals.skipped, "skipped"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, word)| format!("{count} {word}"))
    .collect();
    let counts = if parts.is_empty() { "no tests".to_owned() } else { parts.join(", ") };
    match verdict {
        Verdict::Passed => format!("passed: {counts}"),
        Verdict::Failed => format!("failed: {counts}"),
        Verdict::Limit => format!("stopped: {counts}"),
        Verdict::Unusable => format!("no result: {counts}"),
        Verdict::Quarantined => "quarantined: nothing was run".to_owned(),
        Verdict::Interrupted => format!("interrupted: {counts}"),
        // Of several suites, some ran: their failures are not to be overlooked.
        _ if totals.failed + totals.errored > 0 => format!("failed, and not all was run: {counts}"),
        _ if !parts.is_empty() => format!("not all was run: {counts}"),
        _ => format!("not run: {counts}"),
    }
}

/// The summary line.
pub fn headline(report: &TestReport) -> String {
    let totals = &report.totals;
    let mut line = match report.verdict {
        Verdict::Refused if report.outcome.cause == Cause::Refused => "refused: nothing was run".to_owned(),
        // Other suites may have run.
        Verdict::Quarantined if report.suites.is_some() => {
            answer(Verdict::Passed, totals).replacen("passed", "quarantined in part", 1)
        }
        verdict => answer(verdict, totals),
    };
    if report.outcome.cause != Cause::Refused && report.outcome.usage.wall_us.is_some() {
        let _ = write!(line, " in {}", crate::terminal::notes::time(totals.duration_ms.saturating_mul(1000)));
    }
    if let Some(flaky) = report.flaky.as_ref().filter(|f| !f.is_empty()) {
        let _ = write!(line, " · {} flaky", flaky.len());
    }
    if let Some(runs) = &report.repeats {
        let _ = write!(line, " · the worst of {} runs", runs.len());
    }
    if let Some(runs) = &report.retries {
        let again = runs.len() - 1;
        let _ = write!(line, " · failed ones run again {again} time{}", if again == 1 { "" } else { "s" });
    }
    let framework = [Some(report.framework.as_str()), report.framework_version.as_deref()];
    let framework: Vec<&str> = framework.into_iter().flatten().filter(|word| !word.is_empty()).collect();
    if !framework.is_empty() {
        let _ = write!(line, " · {}", framework.join(" "));
    }
    // Of several Pythons the suites are named.
    let several = report.suites.iter().flatten().any(|suite| suite.python.is_some());
    if let Some(interpreter) = report.interpreter.as_ref().filter(|_| !several) {
        let _ = write!(line, " · {} ({})", interpreter.path, interpreter.version);
    }
    line
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn failures_are_not_hidden_behind_a_suite_that_did_not_run() {
        let of = |passed, failed| Totals { passed, failed, ..Totals::default() };
        for (verdict, totals, want) in [
            (Verdict::Interrupted, of(1, 0), "interrupted: 1 passed"),
            (Verdict::Interrupted, of(0, 0), "interrupted: no tests"),
            (Verdict::NotInstalled, of(4, 1), "failed, and not all was run: 1 failed, 4 passed"),
            (Verdict::NotInstalled, of(4, 0), "not all was run: 4 passed"),
            (Verdict::NotInstalled, of(0, 0), "not run: no tests"),
            (Verdict::Refused, of(0, 2), "failed, and not all was run: 2 failed"),
            (Verdict::Limit, of(1, 0), "stopped: 1 passed"),
        ] {
            assert_eq!(answer(verdict, &totals), want, "{verdict:?}");
        }
    }
}
