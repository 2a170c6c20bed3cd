//! What hotcell says on standard error: one line each, short, without anything that could move a cursor.

use std::fmt;
use std::io::{self, IsTerminal, Write};

use hotcell_sandbox::Bytes;
use hotcell_sandbox::outcome::{Cause, Outcome};
use hotcell_sandbox::units::format_duration;
use hotcell_service::guard::Passed;
use hotcell_service::report::printable;

use crate::args::Common;
use crate::log;

/// Lines about denials before the rest is only counted.
const MOST: usize = 8;

/// Whether colour goes to standard error.
pub fn colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()) && io::stderr().is_terminal()
}

/// Says one line.
pub fn say(line: impl fmt::Display) {
    if log::json::say("info", &line.to_string()) {
        return;
    }
    let _ = writeln!(io::stderr(), "hotcell: {}", printable(&line.to_string()));
}

fn say_dim(line: &str) {
    let line = printable(line);
    let _ = if colour() {
        writeln!(io::stderr(), "\x1b[2mhotcell: {line}\x1b[0m")
    } else {
        writeln!(io::stderr(), "hotcell: {line}")
    };
}

/// Says what the guard thinks of what is about to run.
pub fn guard(passed: Option<&Passed>, common: &Common) {
    if let Some(line) = passed.and_then(|p| p.warning.as_deref()).filter(|_| !common.json && !common.quiet) {
        say(format!("guard: {line}"));
    }
}

/// Says how a run ended.
pub fn after_run(outcome: &Outcome, id: &str, common: &Common) {
    if common.json {
        // The object says it all.
        return;
    }
    if let Some(line) = ending(outcome) {
        say(line);
    }
    if common.quiet {
        return;
    }
    for line in denials(outcome) {
        say(line);
    }
    if common.verbose > 0 || (io::stderr().is_terminal() && ran(outcome)) {
        say_dim(&summary(outcome, id));
    }
}

fn ran(outcome: &Outcome) -> bool {
    outcome.usage.wall_us.is_some()
}

/// Why it ended, where that is not the program's own doing.
fn ending(outcome: &Outcome) -> Option<String> {
    let reason = outcome.reason.clone().unwrap_or_default();
    Some(match outcome.cause {
        // Only a compiler that made nothing has a reason.
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

/// What the program tried and was not allowed to do, one line for each kind.
fn denials(outcome: &Outcome) -> Vec<String> {
    let mut kinds: Vec<(String, &str, u64)> = Vec::new();
    for denial in &outcome.denials {
        let what = match denial.layer.as_str() {
            // The raw arguments of a system call tell a person nothing.
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
        .take(MOST)
        .map(|(what, layer, count)| match count {
            1 => format!("denied: {what} ({layer})"),
            n => format!("denied: {what} ({layer}, {n} times)"),
        })
        .collect();
    if kinds.len() > MOST {
        lines.push(format!("denied: {} more kinds; --json lists them", kinds.len() - MOST));
    }
    lines
}

/// The one line after a run.
pub fn summary(outcome: &Outcome, id: &str) -> String {
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

/// A cause as the outcome writes it.
pub fn name(cause: Cause) -> String {
    let value = serde_json::to_value(cause).unwrap_or_default();
    value.as_str().unwrap_or("internal").to_owned()
}

/// Microseconds for a person.
pub fn time(us: u64) -> String {
    if us < 10_000 {
        return format!("{}.{} ms", us / 1000, us % 1000 / 100);
    }
    format_duration(std::time::Duration::from_micros(us))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcell_sandbox::outcome::Denial;

    fn denial(layer: &str, operation: &str, target: &str, count: u64) -> Denial {
        let (layer, operation, target) = (layer.into(), operation.into(), target.into());
        Denial { layer, operation, target, errno: "EPERM".into(), count }
    }

    #[test]
    fn denials_in_words() {
        let mut outcome = Outcome::without_a_run(Cause::Exited, "");
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
        assert_eq!(denials(&outcome).len(), MOST + 1);
    }

    #[test]
    fn times_for_people() {
        for (us, want) in [(0, "0.0 ms"), (1_499, "1.4 ms"), (12_345, "12 ms"), (1_500_000, "1.5 s")] {
            assert_eq!(time(us), want);
        }
    }
}
