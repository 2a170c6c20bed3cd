//! `hotcell audit`: who decided what, and whether the record is intact.

use std::fmt::Write as _;

use hotcell_guard::quarantine::Entry;
use hotcell_review::quarantine::QuarantineService;
use hotcell_state::audit::AuditLog;
use hotcell_state::report::{ErrorReport, printable};
use hotcell_state::time::rfc3339;

use crate::args::{AuditCommand, Common};
use crate::context::configuration;
use crate::exit::printed;
use crate::render::quarantine::runs;
use crate::terminal::notes;
use crate::{exit, usage};

/// Runs the command; returns its exit status.
pub fn audit(common: &Common, command: &AuditCommand) -> u8 {
    match answer(common, command) {
        Ok(code) => code,
        Err(report) => usage::fail(&report, common.json),
    }
}

fn answer(common: &Common, command: &AuditCommand) -> Result<u8, ErrorReport> {
    let office = QuarantineService::of(&configuration(common, None)?, None)?;
    Ok(match command {
        AuditCommand::List { last } => {
            let log = office.audit((*last).into())?;
            if common.json {
                return Ok(printed(exit::print_json(&log), 0));
            }
            if log.entries.is_empty() && !common.quiet {
                notes::say("nothing was decided yet");
            }
            printed(exit::print_text(&table(&log)), 0)
        }
        AuditCommand::Verify { noted } => {
            let log = office
                .verify(noted.as_deref(), &[hotcell_receipts::record::audited, hotcell_plugins::audited])?;
            let code = if log.problem.is_none() { 0 } else { exit::REFUSED };
            if common.json {
                return Ok(printed(exit::print_json(&log), code));
            }
            match &log.problem {
                Some(why) => {
                    notes::say(format!("error: the audit log is not as it was written: {why}"));
                    code
                }
                None => printed(exit::print_text(&good(&log)), 0),
            }
        }
    })
}

fn good(log: &AuditLog) -> String {
    match &log.head {
        Some(head) => {
            let plural = if log.total == 1 { "entry" } else { "entries" };
            format!("good: {} {plural}; the end is {}\n", log.total, head.hash)
        }
        None => "good: nothing was decided yet\n".to_owned(),
    }
}

fn table(log: &AuditLog) -> String {
    let mut text = String::new();
    for entry in &log.entries {
        text.push_str(&line(entry));
    }
    text
}

fn line(entry: &Entry) -> String {
    let detail: serde_json::Value = serde_json::from_str(&entry.detail).unwrap_or_default();
    let field = |name: &str| printable(detail[name].as_str().unwrap_or_default());
    let mut text = format!(
        "{:>5}  {}  {:8}  {:8}  {} by {}",
        entry.seq,
        rfc3339(entry.time_us),
        printable(&entry.action),
        if detail["approval"].is_string() { field("approval") } else { field("id") },
        printable(&entry.actor),
        printable(&entry.channel),
    );
    if detail["approval"].is_string() {
        let _ = write!(text, "; {} for {}", field("kind"), field("asked_by"));
    }
    if let (Some(uses), Some(until)) = (detail["uses"].as_u64(), detail["expires_us"].as_i64()) {
        let uses = runs(u32::try_from(uses).unwrap_or(u32::MAX));
        let _ = write!(text, "; {uses} until {}", rfc3339(until));
    }
    if !field("reason").is_empty() {
        let _ = write!(text, "; {}", field("reason"));
    }
    text.push('\n');
    text
}
