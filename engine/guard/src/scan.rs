//! One scan: reads parts in every plausible language, and returns a verdict.

use crate::context::{Cx, LATE};

use std::time::Instant;

use sha2::{Digest, Sha256};

use crate::artifact::{Artifact, Called};
use crate::executed::Executed;
use crate::hooks;
use crate::ingest;
use crate::language::Language;
use crate::limits::{Limits, STACK_BYTES};
use crate::project;
use crate::report::{Coverage, Finding, HandedSource, Identity, Part, PartState, Report, SCHEMA, Verdict};
use crate::rules::Pack;
use crate::score;

const FAILED: &str = "the parser failed";
const NO_THREAD: &str = "no thread to parse on";

/// Scans one file with everything inside it. Pure: the same bytes, name, rules and limits yield the same
/// report, unless the time limit is exceeded first.
#[must_use]
pub fn scan(pack: &Pack, limits: &Limits, artifact: &Artifact) -> Report {
    on_a_deep_stack(|| {
        let begun = Instant::now();
        let mut report = scan_here(pack, limits, artifact, &artifact.called);
        // Only an archive contains the other files; the passes of a single file are left to the scan of its folder.
        let within = format!("{}!", artifact.name);
        let is_inside = |path: &str| path.starts_with(&within) && project::is_source(path);
        if report.coverage.parts.iter().any(|part| is_inside(&part.path)) {
            project::follow(&mut report, &mut |_, called| {
                let time = limits.time.checked_sub(begun.elapsed())?;
                let called: Vec<Called> = artifact.called.iter().chain(called).cloned().collect();
                let found = scan_here(pack, &Limits { time, ..limits.clone() }, artifact, &called);
                is_repeatable(&found).then_some(found)
            });
        }
        report
    })
}

fn scan_here(pack: &Pack, limits: &Limits, artifact: &Artifact, called: &[Called]) -> Report {
    let mut cx = Cx::new(pack, limits, read);
    cx.called = called.to_vec();
    ingest::read_file(&mut cx, artifact);
    ingest::cache::settle(&mut cx);
    cx.natives.settle(&mut cx.parts);
    let bytes_total = artifact.bytes.len() as u64;
    let (verdict, findings) = score::decide(&cx);
    let mut report = Report {
        schema: SCHEMA.to_owned(),
        artifact: Identity {
            sha256: hex::encode(Sha256::digest(&artifact.bytes)),
            bytes: bytes_total,
            names: vec![artifact.name.clone()],
        },
        verdict,
        coverage: Coverage {
            bytes_seen: cx.bytes_seen.min(bytes_total),
            bytes_total,
            executes: cx.executes,
            passes: cx.passes,
            fingerprints: cx.known.fingerprints,
            ..Coverage::of(cx.parts)
        },
        findings,
        quarantine: None,
    };
    hooks::judge(&mut report);
    report
}

/// Reads a text in a language.
fn read(cx: &mut Cx<'_>, language: Language, text: &str) -> PartState {
    crate::unicode::read(cx, language, text);
    crate::instructions::read(cx, language, text);
    // A program that changes the folder, or starts others in another, may use paths relative to it.
    if matches!(language, Language::Python | Language::JavaScript | Language::TypeScript)
        && (text.contains("chdir") || text.contains("cwd"))
    {
        cx.hand(HandedSource::Folder(crate::value::HOLE.to_string()), Executed::As(language));
    }
    let state = match language {
        Language::Python => crate::python::read(cx, text),
        Language::Bash => crate::shell::read(cx, text),
        Language::JavaScript | Language::TypeScript => crate::javascript::read(cx, language, text),
        Language::Sql => crate::sql::read(cx, text),
        Language::PowerShell => crate::powershell::read(cx, text),
        Language::Text => crate::unicode::prose(cx, text),
        _ => crate::tree::read(cx, language, text),
    };
    crate::listed::read(cx, language, text);
    crate::structure::read(cx, language, text, state)
}

/// True when a report depends only on the scanned input. A report that ran out of time could differ on a
/// faster or less busy machine, so neither it nor its reader is kept.
#[must_use]
pub fn is_repeatable(report: &Report) -> bool {
    let is_bounded = |finding: &Finding| finding.rule == project::BOUNDED;
    !report.findings.iter().any(is_bounded) && !report.coverage.parts.iter().any(|part| {
        matches!(&part.state, PartState::Skipped(why) if why == LATE || why == FAILED || why.starts_with(NO_THREAD))
    })
}

/// Combines the reports of a folder's files: the strictest verdict, all parts, all findings.
#[must_use]
pub fn merge(name: &str, reports: impl IntoIterator<Item = Report>) -> Report {
    let mut hash = Sha256::new();
    let mut sum = Report {
        schema: SCHEMA.to_owned(),
        artifact: Identity { sha256: String::new(), bytes: 0, names: vec![name.to_owned()] },
        verdict: Verdict::Allow,
        coverage: Coverage::default(),
        findings: Vec::new(),
        quarantine: None,
    };
    for report in reports {
        // With their lengths, so that no two folders hash the same bytes.
        for field in report.artifact.names.iter().chain([&report.artifact.sha256]) {
            hash.update((field.len() as u64).to_le_bytes());
            hash.update(field);
        }
        sum.artifact.bytes += report.artifact.bytes;
        sum.verdict = sum.verdict.max(report.verdict);
        sum.coverage.bytes_seen += report.coverage.bytes_seen;
        sum.coverage.bytes_total += report.coverage.bytes_total;
        sum.coverage.ignored += report.coverage.ignored;
        sum.coverage.parts.extend(report.coverage.parts);
        sum.coverage.executes.extend(report.coverage.executes);
        sum.coverage.passes.extend(report.coverage.passes);
        sum.coverage.fingerprints.extend(report.coverage.fingerprints);
        sum.findings.extend(report.findings);
    }
    sum.coverage.count();
    sum.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    sum.artifact.sha256 = hex::encode(hash.finalize());
    sum
}

/// Scans a rule's example: as its language, or, for rules over text, as a Python file (its strings and
/// comments are texts, too). A first line `#!install` marks a file that an installer loads by itself,
/// `#!file NAME` a file of that name, `#!hex NAME` one whose bytes follow in hexadecimal.
pub(crate) fn scan_example(pack: &Pack, language: Language, text: &str) -> Report {
    let limits = Limits::default();
    on_a_deep_stack(|| {
        let mut cx = Cx::new(pack, &limits, read);
        if let Some((name, rest)) = text.strip_prefix("#!file ").and_then(|t| t.split_once('\n')) {
            ingest::read(&mut cx, name.trim(), rest.as_bytes(), 0);
        } else if let Some((name, rest)) = text.strip_prefix("#!hex ").and_then(|t| t.split_once('\n')) {
            ingest::read(&mut cx, name.trim(), &crate::decode::hex(rest.as_bytes()).unwrap_or_default(), 0);
        } else if language == Language::Text {
            ingest::read(&mut cx, "example.py", text.as_bytes(), 0);
        } else {
            cx.read_part("example", language, text, text.starts_with("#!install"));
        }
        let (verdict, findings) = score::decide(&cx);
        Report {
            schema: SCHEMA.to_owned(),
            artifact: Identity::default(),
            verdict,
            coverage: Coverage::of(cx.parts),
            findings,
            quarantine: None,
        }
    })
}

/// Runs `work` on a stack that matches the depth limits, since the parsers recurse. A panic makes the
/// artifact unread.
fn on_a_deep_stack(work: impl FnOnce() -> Report + Send) -> Report {
    std::thread::scope(|scope| {
        let spawned = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work);
        match spawned.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(report)) => report,
            Ok(Err(_)) => unread(FAILED),
            Err(error) => unread(&format!("{NO_THREAD}: {error}")),
        }
    })
}

fn unread(why: &str) -> Report {
    let part =
        Part { path: String::new(), language: String::new(), state: PartState::Skipped(why.to_owned()) };
    Report {
        schema: SCHEMA.to_owned(),
        artifact: Identity::default(),
        verdict: Verdict::Incomplete,
        coverage: Coverage::of(vec![part]),
        findings: Vec::new(),
        quarantine: None,
    }
}
