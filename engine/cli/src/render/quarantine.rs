//! Items in the quarantine, for people.

use std::fmt::Write as _;

use hotcell_guard::quarantine::State;
use hotcell_guard::{Coverage, Identity, Report, Severity};
use hotcell_review::quarantine::Item;
use hotcell_review::quarantine::item::Statement;
use hotcell_sandbox::Bytes;
use hotcell_sandbox::text::printable;

use crate::render::scan;
use crate::render::scan::Source;

/// Maximum number of names listed of files that were not kept.
const MAX_NAMES: usize = 10;

/// A list, one line each.
pub fn table(items: &[&Item]) -> String {
    let mut text = String::new();
    if !items.is_empty() {
        text = format!(
            "{:8}  {:12}  {:10}  {:20}  {:>4}  WHAT\n",
            "ID", "STATE", "VERDICT", "LAST SEEN", "SEEN"
        );
    }
    for item in items {
        let what = match item.findings.first().filter(|f| f.severity > Severity::Note) {
            Some(first) => format!("{}:{} {}", first.part, first.line, first.rule),
            None => item.unread.first().map_or_else(String::new, |part| format!("{} is not read", part.path)),
        };
        let name = item.names.first().map_or("", String::as_str);
        let what = printable(&if what.is_empty() { name.to_owned() } else { format!("{name}: {what}") });
        let what: String = what.chars().take(100).collect();
        let verdict = item.verdict.name();
        let seen = seconds(&item.last_seen);
        let state = item.state.name();
        let _ =
            writeln!(text, "{:8}  {state:12}  {verdict:10}  {seen:20}  {:>4}  {what}", item.id, item.seen);
    }
    text
}

fn seconds(time: &str) -> String {
    format!("{}Z", time.split('.').next().unwrap_or_default())
}

/// An item: its state, the findings, and the next steps.
pub fn page(item: &Item, source: Source<'_>, colour: bool, verbose: bool) -> String {
    let mut out = format!("{}: {}\n", item.id, standing(item));
    let mut row = |name: &str, text: &str| {
        let _ = writeln!(out, "  {name:10} {}", printable(text));
    };
    let of = |severity| item.findings.iter().filter(|f| f.severity == severity).count();
    let (critical, warnings) = (of(Severity::Critical), of(Severity::Warning));
    row("verdict", &format!("{}: {critical} critical, {warnings} warnings", item.verdict.name()));
    row("names", &item.names.join(", "));
    row("sha256", &item.sha256);
    row("size", &Bytes(item.bytes).to_string());
    if let Some(language) = &item.language {
        row("run as", language);
    }
    let times = if item.seen == 1 { "once".to_owned() } else { format!("{} times", item.seen) };
    row("refused", &format!("{times}, last {}", seconds(&item.last_seen)));
    if item.state != State::Purged {
        row("kept", &format!("until {}", seconds(&item.expires)));
    }
    let said = |word: &Statement| {
        format!("by {} ({}), {}: {}", word.by, word.channel, seconds(&word.time), word.reason)
    };
    if let Some(word) = &item.request {
        row("asked", &said(word));
    }
    if let Some(word) = &item.decision {
        row("decided", &said(word));
    }
    if let Some(release) = &item.release {
        let ended =
            release.ended.as_ref().map(|why| format!("; it does not count: {why}")).unwrap_or_default();
        row("release", &format!("{} until {}{ended}", runs(release.uses), seconds(&release.expires)));
    }
    if let Some(why) = &item.unreleasable {
        row("releasable", &format!("no: {why}"));
    }
    let not_kept: Vec<_> =
        item.files.iter().filter_map(|f| f.not_kept.as_ref().map(|why| (f, why))).collect();
    for (file, why) in not_kept.iter().take(MAX_NAMES) {
        row("not kept", &format!("{}: {why}", file.part));
    }
    let more = item.left_out + not_kept.len().saturating_sub(MAX_NAMES) as u64;
    if more > 0 {
        row("not kept", &format!("{more} more files"));
    }
    out.push_str(&scan::body(&report(item), source, colour, verbose));
    if let Some(next) = next(item) {
        let _ = writeln!(out, "\n{next}");
    }
    out
}

/// The item's findings as a scan report.
fn report(item: &Item) -> Report {
    Report {
        schema: hotcell_guard::SCHEMA.to_owned(),
        artifact: Identity { sha256: item.sha256.clone(), bytes: item.bytes, names: item.names.clone() },
        verdict: item.verdict,
        coverage: Coverage { parts: item.unread.clone(), ..Coverage::default() },
        findings: item.findings.clone(),
        quarantine: None,
    }
}

fn standing(item: &Item) -> &'static str {
    match item.state {
        State::Held => "held; it is refused until a person releases it",
        State::UnderReview => "under review; it is refused until a person releases it",
        State::Released => "released",
        State::Rejected => "rejected",
        State::Purged => "purged; nothing of it is kept",
    }
}

/// Next steps for a person.
fn next(item: &Item) -> Option<String> {
    let id = &item.id;
    Some(match item.state {
        _ if item.unreleasable.is_some() => format!("hotcell quarantine reject {id} --reason TEXT"),
        State::Held | State::UnderReview => {
            format!(
                "hotcell quarantine release {id} --reason TEXT   or: reject {id} --reason TEXT\n\
                 with --shown {}, only as it is shown here",
                item.shown
            )
        }
        State::Released => format!("hotcell quarantine reject {id} --reason TEXT takes the release back"),
        State::Rejected => format!("hotcell quarantine release {id} --reason TEXT lets it run after all"),
        State::Purged => return None,
    })
}

/// Text after a release.
pub fn released(item: &Item) -> String {
    let (uses, until) = item.release.as_ref().map_or((0, ""), |r| (r.uses, r.expires.as_str()));
    format!(
        "{} is released for {} until {}: exactly these bytes, read under these rules\n",
        item.id,
        runs(uses),
        seconds(until)
    )
}

/// Formats a number of runs.
pub fn runs(count: u32) -> String {
    if count == 1 { "one run".to_owned() } else { format!("{count} runs") }
}
