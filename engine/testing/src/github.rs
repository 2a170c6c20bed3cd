//! A report for a GitHub workflow: annotations beside the code, and a table for the step's summary.
//!
//! All of it may be read as a command by the runner, so what a test wrote never begins a line of its own and never
//! holds the characters that begin a command. See "Workflow commands" in GitHub's documentation.

use std::fmt::Write as _;

use crate::case::Case;
use crate::report::TestReport;

/// GitHub shows ten annotations of a kind for a step.
const MOST_ANNOTATIONS: usize = 10;
/// Rows of the summary's table.
const MOST_ROWS: usize = 50;
/// Characters of a message.
const LONGEST: usize = 1000;

/// One `::error` line for each of the first cases that are not good, and one for a run that proves nothing.
#[must_use]
pub fn annotations(report: &TestReport) -> String {
    let mut out = String::new();
    for case in report.bad().take(MOST_ANNOTATIONS) {
        let mut place = String::new();
        if let Some(file) = &case.file {
            let _ = write!(place, "file={},", property(file));
            if let Some(line) = case.line {
                let _ = write!(place, "line={line},");
            }
        }
        let _ = writeln!(out, "::error {place}title={}::{}", property(&case.id), data(&message(case)));
    }
    if let Some(reason) = &report.reason {
        let _ = writeln!(out, "::error title=hotcell::{}", data(reason));
    }
    out
}

/// Markdown for `$GITHUB_STEP_SUMMARY`.
#[must_use]
pub fn summary(report: &TestReport, headline: &str) -> String {
    let mut out = format!("### {}\n\n", cell(headline));
    if let Some(reason) = &report.reason {
        let _ = writeln!(out, "{}\n", cell(reason));
    }
    let bad: Vec<&Case> = report.bad().collect();
    if !bad.is_empty() {
        out.push_str("| test | result | where | message |\n| --- | --- | --- | --- |\n");
        for case in bad.iter().take(MOST_ROWS) {
            let place = match (&case.file, case.line) {
                (Some(file), Some(line)) => format!("{file}:{line}"),
                (file, _) => file.clone().unwrap_or_default(),
            };
            let (id, message) = (cell(&case.id), cell(&message(case)));
            let _ = writeln!(out, "| {id} | {} | {} | {message} |", case.status.name(), cell(&place));
        }
        if bad.len() > MOST_ROWS {
            let _ = writeln!(out, "\nand {} more", bad.len() - MOST_ROWS);
        }
    }
    out
}

fn message(case: &Case) -> String {
    let text = case.message.as_deref().unwrap_or(case.status.name());
    text.chars().take(LONGEST).collect()
}

/// The text of a command.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A").replace("##[", "#%23[")
}

/// A property of a command.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

/// One cell of a table: one line, and no Markdown or HTML of theirs.
fn cell(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\n' | '\r' => out.push(' '),
            c if c.is_control() => {}
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

    #[test]
    fn nothing_of_a_test_s_is_a_command() {
        for (text, want) in [
            ("a\n::add-mask::x", "a%0A::add-mask::x"),
            ("100%\r", "100%25%0D"),
            ("##[error]x", "#%23[error]x"),
        ] {
            assert_eq!(data(text), want);
        }
        assert_eq!(property("t.py::a[x,y]"), "t.py%3A%3Aa[x%2Cy]");
    }

    #[test]
    fn nothing_of_a_test_s_is_markup() {
        assert_eq!(cell("<b>\n| ![x](y)"), "&lt;b&gt; &#124; &#33;&#91;x&#93;&#40;y&#41;");
    }
}
