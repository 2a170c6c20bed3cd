//! A scan report for people: a headline, then each place with its source, then the parts that were not read.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use hotcell_guard::{Finding, Report, Severity};
use hotcell_report::RunReport;
use hotcell_sandbox::outcome::Cause;
use hotcell_sandbox::text::printable;

use crate::args::Common;
use crate::terminal::{notes, screen};

/// Maximum number of places shown with their source.
const MAX_FRAMES: usize = 20;
/// Maximum number of places shown when they only explain a refusal.
const MAX_REFUSAL_FRAMES: usize = 3;
/// Maximum number of unread parts listed by name.
const MAX_UNREAD_PARTS: usize = 10;
/// Maximum width of a source line.
const MAX_LINE_WIDTH: usize = 120;
/// Maximum number of source lines for a place.
const MAX_LINES: usize = 4;
/// Maximum size in bytes of a file that is opened again for its lines.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Returns the text of a file of an artifact, by its path in the artifact.
pub type Source<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The output on standard output after a scan.
pub fn page(report: &Report, source: Source<'_>, colour: bool, verbose: bool) -> String {
    let mut out = headline(report);
    out.push('\n');
    out.push_str(&body(report, source, colour, verbose));
    if let Some(held) = &report.quarantine {
        let _ = writeln!(
            out,
            "\n{} as {}: hotcell quarantine show {}",
            held.state.replace('_', " "),
            held.id,
            held.id
        );
    }
    out
}

/// Each place with its source, then the parts that were not read.
pub fn body(report: &Report, source: Source<'_>, colour: bool, verbose: bool) -> String {
    let mut out = String::new();
    let least = if verbose { Severity::Note } else { Severity::Warning };
    let shown = places(report, least);
    for (finding, again) in shown.iter().take(MAX_FRAMES) {
        out.push('\n');
        out.push_str(&frame(finding, *again, source, colour));
    }
    if shown.len() > MAX_FRAMES {
        let _ = writeln!(out, "\nand {} more; --json has them all", shown.len() - MAX_FRAMES);
    }
    let unread: Vec<String> = report
        .coverage
        .parts
        .iter()
        .filter_map(|part| {
            Some(format!("not read: {}: {}", printable(&part.path), printable(&part.why_not_read()?)))
        })
        .collect();
    if !unread.is_empty() {
        out.push('\n');
    }
    for line in unread.iter().take(MAX_UNREAD_PARTS) {
        let _ = writeln!(out, "{line}");
    }
    if unread.len() > MAX_UNREAD_PARTS {
        let _ = writeln!(
            out,
            "and {} more that were not read; --json has them all",
            unread.len() - MAX_UNREAD_PARTS
        );
    }
    out
}

/// The verdict, followed by the counts.
fn headline(report: &Report) -> String {
    let count = |severity| report.findings.iter().filter(|f| f.severity == severity).count();
    let (critical, warnings, notes) =
        (count(Severity::Critical), count(Severity::Warning), count(Severity::Note));
    let verdict = report.verdict.name();
    let mut line = format!(
        "{verdict}: {critical} critical, {warnings} warning{}, {notes} note{}",
        plural(warnings),
        plural(notes)
    );
    let mut coverage = report.coverage.clone();
    coverage.count();
    let _ = write!(line, " · {} part{} read", coverage.read, if coverage.read == 1 { "" } else { "s" });
    for (count, what) in [(coverage.data, "data"), (coverage.not_read, "not read")] {
        if count > 0 {
            let _ = write!(line, ", {count} {what}");
        }
    }
    if coverage.ignored > 0 {
        let _ = write!(line, ", {} left out by .gitignore (--no-ignore reads them)", coverage.ignored);
    }
    line
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// The first place of each rule in each part, and the number of further places.
fn places(report: &Report, least: Severity) -> Vec<(&Finding, usize)> {
    let mut shown: Vec<(&Finding, usize)> = Vec::new();
    for finding in report.findings.iter().filter(|f| f.severity >= least) {
        match shown.iter_mut().find(|(known, _)| known.rule == finding.rule && known.part == finding.part) {
            Some((_, again)) => *again += 1,
            None => shown.push((finding, 0)),
        }
    }
    shown
}

/// One place: the finding, the location, and the rule.
fn frame(finding: &Finding, again: usize, source: Source<'_>, colour: bool) -> String {
    let level = match finding.severity {
        Severity::Critical => Level::ERROR.with_name("critical"),
        Severity::Warning => Level::WARNING,
        Severity::Note => Level::NOTE,
    };
    let path = printable(&finding.part);
    let mut notes = Vec::new();
    if !finding.derived_from.is_empty() {
        notes.push(format!("seen through {}", finding.derived_from.join(" > ")));
    }
    if !finding.frames.is_empty() {
        notes.push(way(finding));
    }
    if again > 0 {
        notes.push(format!("and in {again} more place{} of this file", plural(again)));
    }
    notes.extend(finding.cwe.clone());
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    let title = level.clone().primary_title(&finding.message).id(&finding.rule);
    let excerpt = excerpt(finding, source);
    let mut group = match &excerpt {
        Some((text, from, to)) => title.element(
            Snippet::source(text)
                .line_start(finding.line as usize)
                .path(&path)
                .annotation(AnnotationKind::Primary.span(*from..*to)),
        ),
        None => Group::with_title(title).element(annotate_snippets::Origin::path(&path)),
    };
    for note in &notes {
        group = group.element(Level::NOTE.message(note));
    }
    let mut text = renderer.render(&[group]).to_string();
    text.push('\n');
    text
}

/// Way of a value: `comes from line 3 (source cmd), 5 (bound line), 9 (sink)`.
fn way(finding: &Finding) -> String {
    let step = |frame: &hotcell_guard::Frame| {
        let name = if frame.name.is_empty() { String::new() } else { format!(" {}", printable(&frame.name)) };
        let file = frame.part.as_ref().map_or_else(String::new, |part| format!("{}:", printable(part)));
        format!("{file}{} ({}{name})", frame.line, frame.step.name())
    };
    format!("by way of line {}", finding.frames.iter().map(step).collect::<Vec<_>>().join(", "))
}

/// The lines of a place, and the range of bytes to highlight in them.
fn excerpt(finding: &Finding, source: Source<'_>) -> Option<(String, usize, usize)> {
    let file = finding.part.split('!').next().unwrap_or_default();
    if finding.line == 0 || file.len() != finding.part.len() {
        return None;
    }
    let source = source(file)?;
    let count = (finding.end_line.saturating_sub(finding.line) as usize + 1).min(MAX_LINES);
    let lines: Vec<&str> = source.lines().skip(finding.line as usize - 1).take(count).collect();
    let first = lines.first()?;
    // Cut a window out of a long line, so that the finding is visible.
    let column =
        first.char_indices().nth(finding.column.max(1) as usize - 1).map_or(first.len(), |(at, _)| at);
    let start = if first.len() > MAX_LINE_WIDTH {
        first.floor_char_boundary(column.saturating_sub(MAX_LINE_WIDTH / 4))
    } else {
        0
    };
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        let line = if number == 0 { &line[start..] } else { line };
        let end = line.floor_char_boundary(line.len().min(MAX_LINE_WIDTH));
        if number > 0 {
            text.push('\n');
        }
        text.push_str(&printable(&line[..end]));
    }
    let end = text.lines().next().map_or(0, |line| line.trim_end().len());
    let from = text.floor_char_boundary((column - start).min(end.saturating_sub(1)));
    Some((text.clone(), from, end.max(from)))
}

/// Reads files below these folders, or these files themselves.
pub fn on_disk(roots: &[PathBuf]) -> impl Fn(&str) -> Option<String> {
    move |file| {
        let path = roots
            .iter()
            .map(|root| if root.is_file() { root.clone() } else { root.join(file) })
            .find(|path| path.is_file())?;
        if path.metadata().ok()?.len() > MAX_FILE_BYTES {
            return None;
        }
        Some(String::from_utf8_lossy(&std::fs::read(path).ok()?).into_owned())
    }
}

/// Shows on standard error why something was not run.
pub fn frames_of(outcome: &RunReport, roots: &[&Path], common: &Common) {
    if outcome.cause != Cause::Quarantined || common.json || common.quiet {
        return;
    }
    let Some(report) = outcome.scan.clone().and_then(|scan| serde_json::from_value::<Report>(scan).ok())
    else {
        return;
    };
    let roots: Vec<PathBuf> = roots.iter().map(|root| root.to_path_buf()).collect();
    let mut out = io::stderr().lock();
    let _ = out.write_all(screen::begin_line().as_bytes());
    for (finding, again) in places(&report, Severity::Warning).into_iter().take(MAX_REFUSAL_FRAMES) {
        let _ = writeln!(out, "{}", frame(finding, again, &on_disk(&roots), notes::colour()));
    }
}
