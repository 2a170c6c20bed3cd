//! Messages on standard error: one short line each, without anything that could move a cursor.

use std::cell::RefCell;
use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal, Write};

use hotcell_report::RunReport;
use hotcell_review::guard::Passed;
use hotcell_sandbox::Bytes;
use hotcell_sandbox::outcome::{Cause, Limit};
use hotcell_sandbox::units::format_duration;
use hotcell_state::report::printable_message;

use crate::args::Common;
use crate::options::in_options;
use crate::terminal::{log, screen};

/// Maximum number of lines about denials; further ones are only counted.
const MAX_DENIAL_LINES: usize = 8;

thread_local! {
    /// File that gets the messages of this thread in place of standard error.
    static DIVERTED: RefCell<Option<File>> = const { RefCell::new(None) };
}

/// Sends the messages of this thread to a file, until it is called with `None`: for a server that the combined server supervises, whose messages are that
/// server's.
pub fn divert(to: Option<File>) {
    DIVERTED.set(to);
}

/// Writes a text to the file of this thread; false without one.
fn diverted(text: &str) -> bool {
    DIVERTED.with_borrow_mut(|file| file.as_mut().map(|file| drop(file.write_all(text.as_bytes()))).is_some())
}

/// Writes a text that is escaped already, as it is.
pub fn write(text: &str) {
    if !diverted(text) {
        let _ = io::stderr().write_all(text.as_bytes());
    }
}

/// Whether standard error gets colour.
pub fn colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()) && io::stderr().is_terminal()
}

/// Prints one line.
pub fn say(line: impl fmt::Display) {
    let line = in_options(&line.to_string());
    if diverted(&format!("hotcell: {}\n", printable_message(&line))) || log::json::say("info", &line) {
        return;
    }
    let _ = writeln!(io::stderr(), "{}hotcell: {}", screen::begin_line(), printable_message(&line));
}

fn say_dim(line: &str) {
    let line = printable_message(line);
    if diverted(&format!("hotcell: {line}\n")) {
        return;
    }
    let begin = screen::begin_line();
    let _ = if colour() {
        writeln!(io::stderr(), "{begin}\x1b[2mhotcell: {line}\x1b[0m")
    } else {
        writeln!(io::stderr(), "{begin}hotcell: {line}")
    };
}

/// Reports the guard's verdict on the program that is about to run.
pub fn guard(passed: Option<&Passed>, common: &Common) {
    let Some(passed) = passed.filter(|_| !common.json && !common.quiet) else { return };
    if let Some(line) = &passed.warning {
        say(format!("guard: {line}"));
    }
    if let Some(line) = &passed.note {
        say(line.clone());
    }
}

/// Reports how a run ended.
pub fn after_run(outcome: &RunReport, id: &str, common: &Common) {
    if common.json {
        // The JSON object contains all of it.
        return;
    }
    if let Some(line) = ending(outcome) {
        say(line);
    }
    if common.quiet {
        return;
    }
    for line in limits(outcome).into_iter().chain(denials(outcome)) {
        say(line);
    }
    if let Some(line) = screen::left_out() {
        say(line);
    }
    if common.verbose > 0 || (io::stderr().is_terminal() && ran(outcome)) {
        say_dim(&summary(outcome, id));
    }
}

fn ran(outcome: &RunReport) -> bool {
    outcome.usage.wall_us.is_some()
}

/// The reason for the end, unless the program ended by itself.
fn ending(outcome: &RunReport) -> Option<String> {
    let reason = outcome.reason.clone().unwrap_or_default();
    Some(match outcome.cause {
        // An exit has a reason only if a compiler made no program.
        Cause::Exited if reason.is_empty() => return None,
        Cause::Signaled => format!("killed by {}", outcome.signal.as_deref().unwrap_or("a signal")),
        Cause::Refused => format!("refused: {reason}"),
        Cause::NotFound => format!("not found: {reason}"),
        Cause::NotExecutable => format!("not executable: {reason}"),
        Cause::Quarantined => format!("quarantined: {reason}"),
        Cause::Internal => format!("error: {reason}"),
        _ => reason,
    })
}

/// Limits that were reached without ending the run: they are often the reason for messages of the program,
/// such as "can't start new thread".
fn limits(outcome: &RunReport) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for hit in outcome.limits_hit.iter().filter(|hit| cause_of(hit.limit) != outcome.cause) {
        let line = limit_line(hit.limit, hit.value);
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// The cause of a run ended by this limit.
const fn cause_of(limit: Limit) -> Cause {
    match limit {
        Limit::Memory => Cause::MemoryLimit,
        Limit::CpuTime => Cause::CpuLimit,
        Limit::Wall => Cause::WallLimit,
        Limit::Processes => Cause::ProcessLimit,
        Limit::Disk => Cause::DiskLimit,
        Limit::Files => Cause::FileLimit,
        Limit::Output => Cause::OutputLimit,
    }
}

/// A limit, its value, and the option that raises it.
fn limit_line(limit: Limit, value: u64) -> String {
    let (text, option) = match limit {
        Limit::Memory => (format!("memory limit {}", Bytes(value)), "--memory"),
        Limit::CpuTime => (format!("CPU time limit {}", time(value)), "--cpu-time"),
        Limit::Wall => (format!("time limit {}", time(value)), "--timeout"),
        Limit::Processes => (format!("limit of {value} processes and threads"), "--max-processes"),
        Limit::Disk => (format!("disk limit {}", Bytes(value)), "--max-disk"),
        Limit::Files => (format!("limit of {value} files"), "--max-files"),
        Limit::Output => (format!("output limit {}", Bytes(value)), "--max-output"),
    };
    format!("{text} reached; {option} raises it")
}

/// Operations that were denied, one line for each kind.
fn denials(outcome: &RunReport) -> Vec<String> {
    let mut kinds: Vec<(String, &str, u64)> = Vec::new();
    for denial in &outcome.denials {
        let what = match denial.layer.as_str() {
            // The raw arguments of a system call mean nothing to a person.
            "seccomp" => denial.operation.clone(),
            "network" => format!("{} to {}", denial.operation, denial.target),
            _ => format!("{} {}", denial.operation, denial.target),
        };
        match kinds.iter_mut().find(|(known, layer, _)| *known == what && *layer == denial.layer) {
            Some((_, _, count)) => *count += denial.count,
            None => kinds.push((what, &denial.layer, denial.count)),
        }
    }
    let mut lines: Vec<String> = kinds
        .iter()
        .take(MAX_DENIAL_LINES)
        .map(|(what, layer, count)| match count {
            1 => format!("denied: {what} ({layer})"),
            n => format!("denied: {what} ({layer}, {n} times)"),
        })
        .collect();
    if kinds.len() > MAX_DENIAL_LINES {
        lines.push(format!("denied: {} more kinds; --json lists them", kinds.len() - MAX_DENIAL_LINES));
    }
    lines
}

/// The summary line after a run.
pub fn summary(outcome: &RunReport, id: &str) -> String {
    let mut parts = vec![match (outcome.cause, outcome.exit_code) {
        (Cause::Exited, Some(code)) => format!("exited with {code}"),
        (cause, _) => name(cause),
    }];
    let usage = &outcome.usage;
    let mut number = |what: &str, text: Option<String>| {
        parts.extend(text.map(|t| format!("{what} {t}")));
    };
    number("wall", usage.wall_us.map(time));
    number("CPU", usage.cpu_us.map(time));
    number("memory", usage.peak_memory_bytes.map(|b| Bytes(b).to_string()));
    let denied: u64 = outcome.denials.iter().map(|d| d.count).sum();
    number("denied", (denied > 0).then(|| denied.to_string()));
    for hit in &outcome.limits_hit {
        if outcome.cause == Cause::Exited {
            let limit = serde_json::to_value(hit.limit).unwrap_or_default();
            parts.push(format!("{} limit reached", limit.as_str().unwrap_or("a")));
        }
    }
    if !id.is_empty() {
        parts.push(format!("run {id}"));
    }
    parts.join(" · ")
}

/// The name of a cause, as in the outcome.
pub fn name(cause: Cause) -> String {
    let value = serde_json::to_value(cause).unwrap_or_default();
    value.as_str().unwrap_or("internal").to_owned()
}

/// Formats microseconds for a person.
pub fn time(us: u64) -> String {
    if us < 10_000 {
        return format!("{}.{} ms", us / 1000, us % 1000 / 100);
    }
    format_duration(std::time::Duration::from_micros(us))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcell_sandbox::outcome::{Denial, Evidence, LimitHit};

    fn denial(layer: &str, operation: &str, target: &str, count: u64) -> Denial {
        let (layer, operation, target) = (layer.into(), operation.into(), target.into());
        Denial { layer, operation, target, errno: "EPERM".into(), count }
    }

    #[test]
    fn denials_in_words() {
        let mut outcome = RunReport::without_a_run(Cause::Exited, "");
        outcome.denials = vec![
            denial("seccomp", "ptrace", "0x1", 2),
            denial("seccomp", "ptrace", "0x2", 1),
            denial("network", "connect", "93.184.216.34:80", 1),
        ];
        assert_eq!(
            denials(&outcome),
            ["denied: ptrace (seccomp, 3 times)", "denied: connect to 93.184.216.34:80 (network)"]
        );
        outcome.denials = (0..20).map(|n| denial("seccomp", &format!("call{n}"), "", 1)).collect();
        assert_eq!(denials(&outcome).len(), MAX_DENIAL_LINES + 1);
    }

    #[test]
    fn reached_limits_name_their_option_once() {
        let mut outcome = RunReport::without_a_run(Cause::WallLimit, "");
        let hit = |limit, value| LimitHit { limit, value, at_us: 1, evidence: Evidence::Kernel };
        outcome.limits_hit = vec![
            hit(Limit::Processes, 4),
            hit(Limit::Processes, 4),
            hit(Limit::Disk, 256 << 20),
            hit(Limit::Wall, 60_000_000),
        ];
        let want = [
            "limit of 4 processes and threads reached; --max-processes raises it",
            "disk limit 256 MiB reached; --max-disk raises it",
        ];
        assert_eq!(limits(&outcome), want);
        outcome.cause = Cause::DiskLimit;
        outcome.limits_hit.truncate(3);
        assert_eq!(limits(&outcome), want[..1]);
    }

    #[test]
    fn times_for_people() {
        for (us, want) in [(0, "0.0 ms"), (1_499, "1.4 ms"), (12_345, "12 ms"), (1_500_000, "1.5 s")] {
            assert_eq!(time(us), want);
        }
    }
}
