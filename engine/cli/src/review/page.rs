//! A review on one screen. Words of models, tests and files are shown on one line each, without invisible characters.

use hotcell_agents::ReviewReport;
use hotcell_agents::critic::{Recommendation, Severity};
use hotcell_sandbox::text::printable_line;

/// Maximum number of findings of the guard that are shown; `hotcell scan` shows all of them.
const MAX_FINDINGS: usize = 20;

/// The page.
pub fn page(report: &ReviewReport) -> String {
    let advice = match report.recommendation {
        Recommendation::Approve => "approve",
        Recommendation::Revise => "revise",
        Recommendation::Escalate => "a person should look",
    };
    let mut text = format!("{advice}: score {} ({})\n", report.quality_score, points(report));
    let failed: Vec<&str> =
        report.computed.gates.iter().filter(|gate| !gate.passed).map(|gate| gate.name.as_str()).collect();
    if !failed.is_empty() {
        text.push_str(&format!("gates not passed: {}\n", failed.join(", ")));
    }
    text.push_str(&format!(
        "guard: {}, {}\n",
        report.guard.verdict.name(),
        counted(report.guard.findings, "finding")
    ));
    for finding in report.policy_violations.iter().take(MAX_FINDINGS) {
        text.push_str(&format!(
            "  {}:{}: {} ({})\n",
            printable_line(&finding.part),
            finding.line,
            printable_line(&finding.message),
            finding.rule
        ));
    }
    if let Some(tests) = &report.tests {
        let run = tests.run.as_deref().map(|run| format!(", run {run}")).unwrap_or_default();
        let coverage = tests
            .coverage_percent
            .map(|percent| format!(", {percent:.1} % of lines covered"))
            .unwrap_or_default();
        text.push_str(&format!(
            "tests: {} of {} are good ({}){coverage}{run}\n",
            tests.good, tests.of, tests.framework
        ));
        for id in &tests.failing {
            text.push_str(&format!("  not good: {}\n", printable_line(id)));
        }
    }
    if let Some(why) = &report.no_tests {
        let what = if report.tests.is_some() { "coverage" } else { "tests" };
        text.push_str(&format!("{what}: {}\n", printable_line(&why.replace('\n', " "))));
    }
    text.push_str(&format!("model: {}\n", model(report)));
    for defect in &report.defects {
        let severity = match defect.severity {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        };
        text.push_str(&format!(
            "  {}:{}: {severity}: {}\n",
            printable_line(&defect.file),
            defect.line,
            printable_line(&defect.problem)
        ));
        if let Some(fix) = &defect.fix {
            text.push_str(&format!("    {}\n", printable_line(fix)));
        }
    }
    for suggestion in &report.suggestions {
        text.push_str(&format!("  suggestion: {}\n", printable_line(suggestion)));
    }
    text
}

fn points(report: &ReviewReport) -> String {
    let points =
        report.computed.points.iter().map(|point| format!("{} {}/{}", point.name, point.earned, point.of));
    let mut all: Vec<String> = points.collect();
    if report.taken > 0 {
        all.push(format!("less {} by the model's defects", report.taken));
    }
    all.join(", ")
}

fn model(report: &ReviewReport) -> String {
    let read = &report.model;
    let why = read.why.as_ref().map(|why| printable_line(&why.replace('\n', " ")));
    if read.models.is_empty() {
        return format!("no model read it: {}", why.unwrap_or_default());
    }
    let names: Vec<String> = read.models.iter().map(|name| printable_line(name)).collect();
    let mut text = format!("{} read {}", names.join(", "), counted(read.files_read, "file"));
    for (count, words) in [
        (read.files_not_read, "not read"),
        (read.dropped, "named defects without a line that exists"),
        (read.unusable, "answers that could not be used"),
    ] {
        if count > 0 {
            text.push_str(&format!(", {count} {words}"));
        }
    }
    if let Some(why) = why {
        text.push_str(&format!("; {why}"));
    }
    let usage = &report.usage;
    text.push_str(&format!("; {}, {} tokens", counted(usage.calls, "call"), usage.tokens));
    if usage.dollars > 0.0 {
        text.push_str(&format!(", ${:.4}", usage.dollars));
    }
    text
}

/// A number with its noun, which has an s unless there is one.
fn counted(n: u64, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}
