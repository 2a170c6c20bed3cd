//! Report for a GitHub workflow: annotations in the code, and a table for the step's summary.
//!
//! The runner may interpret any line as a command, so text from tests never begins a line and never contains
//! the characters that begin a command. See "Workflow commands" in GitHub's documentation.

use std::fmt::Write as _;

use hotcell_sandbox::text::{printable_line, printable_message};

use crate::case::Case;
use crate::report::verdict::Verdict;
use crate::report::{Flaky, TestReport};

/// GitHub shows ten annotations of a kind per step.
const MAX_ANNOTATIONS: usize = 10;
/// Maximum number of rows in the summary's table.
const MAX_ROWS: usize = 50;
/// Maximum length of a message, in characters.
const MAX_MESSAGE_CHARS: usize = 1000;

/// One `::error` line for each suite without a valid result, and one for each of the first cases that are not good, ten in
/// all as far as the suites leave room. A note on a run that passed is a warning.
///
/// `folder` is the project's folder relative to the top of the repository, empty for the top itself: GitHub
/// expects file names relative to the top.
#[must_use]
pub fn annotations(report: &TestReport, folder: &str) -> String {
    let mut out = String::new();
    let suites = report.suites.as_deref().unwrap_or_default();
    for suite in suites {
        let reason = suite.reason.as_deref();
        let folder = if suite.folder.is_empty() { "." } else { &suite.folder };
        let python = suite.python.as_ref().map(|python| format!(" (python {python})")).unwrap_or_default();
        note(&mut out, suite.verdict, reason, &format!("{} in {folder}{python}: ", suite.framework));
    }
    if suites.is_empty() {
        note(&mut out, report.verdict, report.reason.as_deref(), "");
    }
    // Notes are first: what is behind the tenth of a kind is not shown, and no test tells of a suite without a result.
    let noted = |level: &str| out.lines().filter(|line| line.starts_with(level)).count();
    let [errors, warnings] =
        ["::error ", "::warning "].map(|level| MAX_ANNOTATIONS.saturating_sub(noted(level)));
    for case in report.bad().take(errors) {
        let mut place = String::new();
        if let Some(file) = &case.file {
            let _ = write!(place, "file={},", property(&below(folder, file)));
            if let Some(line) = case.line {
                let _ = write!(place, "line={line},");
            }
        }
        let _ = writeln!(out, "::error {place}title={}::{}", property(&case.id), data(&message(case)));
    }
    for flaky in report.flaky.iter().flatten().take(warnings) {
        let case = report.cases.iter().find(|case| case.id == flaky.id);
        out.push_str(&warning(flaky, case, folder));
    }
    // A run that is not good always has an error.
    if !out.lines().any(|line| line.starts_with("::error ")) && report.verdict != Verdict::Passed {
        let _ = writeln!(out, "::error title=hotcell::{}", report.verdict.words());
    }
    out
}

/// The `::warning` line of a flaky test.
fn warning(flaky: &Flaky, case: Option<&Case>, folder: &str) -> String {
    let place = case.and_then(|case| {
        let line = case.line.map(|line| format!("line={line},")).unwrap_or_default();
        Some(format!("file={},{line}", property(&below(folder, case.file.as_deref()?))))
    });
    let bad = flaky.failed + flaky.errored + flaky.not_finished;
    let all = bad + flaky.passed + flaky.skipped + flaky.absent;
    let mut text = format!("flaky: not good in {bad} of {all} runs");
    let why = case.and_then(|case| case.attempts.iter().find(|a| !a.status.is_good())?.message.clone());
    if let Some(why) = why {
        let _ = write!(text, ": {}", why.chars().take(MAX_MESSAGE_CHARS).collect::<String>());
    }
    format!("::warning {}title={}::{}\n", place.unwrap_or_default(), property(&flaky.id), data(&text))
}

/// The line about a whole run or suite: its reason, and at least its verdict if that is worse than failed.
fn note(out: &mut String, verdict: Verdict, reason: Option<&str>, whose: &str) {
    let level = if verdict == Verdict::Passed { "warning" } else { "error" };
    let text = match (reason, verdict) {
        (Some(reason), _) => reason,
        (None, Verdict::Passed | Verdict::Failed) => return,
        (None, verdict) => verdict.words(),
    };
    let _ = writeln!(out, "::{level} title=hotcell::{}", data(&format!("{whose}{text}")));
}

/// Path of a project's file, relative to the top of the repository.
fn below(folder: &str, file: &str) -> String {
    if folder.is_empty() || file.starts_with('/') { file.to_owned() } else { format!("{folder}/{file}") }
}

/// Markdown for `$GITHUB_STEP_SUMMARY`, with file names relative to the top of the repository as in [`annotations`].
#[must_use]
pub fn summary(report: &TestReport, headline: &str, folder: &str) -> String {
    let mut out = format!("### {}\n\n", cell(headline));
    if let Some(reason) = &report.reason {
        let _ = writeln!(out, "{}\n", cell(reason));
    }
    let bad: Vec<&Case> = report.bad().collect();
    if !bad.is_empty() {
        out.push_str("| test | result | where | message |\n| --- | --- | --- | --- |\n");
        for case in bad.iter().take(MAX_ROWS) {
            let file = case.file.as_deref().map(|file| below(folder, file)).unwrap_or_default();
            let line = case.line.filter(|_| case.file.is_some());
            let place = line.map_or_else(|| file.clone(), |line| format!("{file}:{line}"));
            let (id, message) = (cell(&case.id), cell(&message(case)));
            let _ = writeln!(out, "| {id} | {} | {} | {message} |", case.status.name(), cell(&place));
        }
        if bad.len() > MAX_ROWS {
            let _ = writeln!(out, "\nand {} more", bad.len() - MAX_ROWS);
        }
    }
    out
}

fn message(case: &Case) -> String {
    let text = case.message.as_deref().unwrap_or(case.status.name());
    text.chars().take(MAX_MESSAGE_CHARS).collect()
}

/// Escapes the text of a command: characters that cannot be seen, and those that a command is made of.
fn data(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(printable_line).collect();
    lines.join("\n").replace('%', "%25").replace('\n', "%0A").replace("##[", "#%23[")
}

/// Escapes a property of a command.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

/// One cell of a table: a single line of visible characters, with Markdown and HTML escaped.
fn cell(text: &str) -> String {
    let mut out = String::new();
    for c in printable_message(&text.replace(['\n', '\r', '\t'], " ")).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '(' | ')' | '|' | '#' | '!' | '~' | ':' | '@' => {
                let _ = write!(out, "&#{};", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Status;
    use crate::report::junit_out::tests::{VERDICTS, report, suite};

    #[test]
    fn annotations_have_error_iff_verdict_is_bad() {
        for verdict in VERDICTS {
            for reason in [None, Some("why")] {
                for statuses in [&[][..], &[Status::Passed], &[Status::Failed], &[Status::NotFinished]] {
                    let good = verdict == Verdict::Passed;
                    if good && statuses.iter().any(|s| !s.is_good()) {
                        continue;
                    }
                    let mut report = report(verdict, statuses, reason);
                    for suites in [false, true] {
                        report.suites = suites.then(|| vec![suite(&report, "web")]);
                        let lines = annotations(&report, "");
                        assert_eq!(lines.contains("::error "), !good, "{verdict:?} {statuses:?} {lines}");
                    }
                }
            }
        }
    }

    #[test]
    fn suite_without_result_is_among_the_annotations_that_are_shown() {
        for (bad, suites, all) in [(3, 2, 5), (10, 2, 10), (60, 2, 10), (60, 9, 10), (60, 12, 12)] {
            let mut report = report(Verdict::Unusable, &vec![Status::Failed; bad], Some("why"));
            report.suites = Some(vec![suite(&report, "web"); suites]);
            let lines = annotations(&report, "");
            let errors: Vec<&str> = lines.lines().filter(|line| line.starts_with("::error ")).collect();
            assert_eq!(errors.len(), all, "{lines}");
            let noted = |line: &&str| line.starts_with("::error title=hotcell::pytest in web: why");
            assert!(errors[..suites].iter().all(noted), "{lines}");
        }
    }

    #[test]
    fn annotations_and_summary_name_files_from_the_top_of_the_repository() {
        let mut report = report(Verdict::Failed, &[Status::Failed], None);
        report.cases[0].file = Some("tests/a.py".to_owned());
        for (folder, line, want) in [
            ("", Some(3), "| tests/a.py&#58;3 |"),
            ("web/app", Some(3), "| web/app/tests/a.py&#58;3 |"),
            ("web/app", None, "| web/app/tests/a.py |"),
        ] {
            report.cases[0].line = line;
            let table = summary(&report, "failed", folder);
            assert!(table.contains(want), "{want}: {table}");
        }
    }

    #[test]
    fn flaky_test_is_a_warning_with_line() {
        let mut report = report(Verdict::Passed, &[Status::Passed], None);
        let id = report.cases[0].id.clone();
        report.cases[0].file = Some("a.py".to_owned());
        report.cases[0].line = Some(7);
        report.cases[0].attempts = vec![crate::case::Attempt {
            status: Status::Failed,
            duration_ms: 1,
            message: Some("x\n::error::y".to_owned()),
            details: None,
        }];
        let counts = (0, 0, 0, 0);
        let (errored, skipped, not_finished, absent) = counts;
        report.flaky = Some(vec![Flaky { id, passed: 1, failed: 1, errored, skipped, not_finished, absent }]);
        let lines = annotations(&report, "svc");
        assert_eq!(lines.lines().count(), 1, "{lines}");
        assert!(lines.starts_with("::warning file=svc/a.py,line=7,title=tests/test_a.py%3A%3Apassed::flaky: not good in 1 of 2 runs: x%0A::error::y"), "{lines}");
        // A warning does not replace the error that a bad run must have.
        report.verdict = Verdict::Unusable;
        assert!(annotations(&report, "").contains("::error "));
    }

    #[test]
    fn files_are_named_from_the_top_of_the_repository() {
        for (folder, file, want) in [
            ("", "a.py", "a.py"),
            ("services/api", "a.py", "services/api/a.py"),
            ("x", "/usr/a.py", "/usr/a.py"),
        ] {
            assert_eq!(below(folder, file), want);
        }
    }

    #[test]
    fn test_text_cannot_form_workflow_command() {
        for (text, want) in [
            ("a\n::add-mask::x", "a%0A::add-mask::x"),
            ("100%\r", "100%25\\r"),
            ("##[error]x", "#%23[error]x"),
            ("\u{1b}]52;c;x\u{7}", "\\u{1b}]52;c;x\\u{7}"),
            ("\r\u{202e}x\u{9b}2J", "\\r\\u{202e}x\\u{9b}2J"),
        ] {
            assert_eq!(data(text), want);
        }
        assert_eq!(property("t.py::a[x,y]"), "t.py%3A%3Aa[x%2Cy]");
    }

    #[test]
    fn test_text_cannot_form_markup() {
        assert_eq!(cell("<b>\n| ![x](y)"), "&lt;b&gt; &#124; &#33;&#91;x&#93;&#40;y&#41;");
        assert_eq!(cell("\u{1b}[2J\u{202e}x"), "&#92;u{1b}&#91;2J&#92;u{202e}x");
    }
}
