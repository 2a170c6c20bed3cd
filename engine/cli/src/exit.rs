//! Exit statuses, as documented, and the final output on standard output.

use std::io::{self, Write};

use hotcell_report::RunReport;
use hotcell_sandbox::outcome::Cause;
use hotcell_sandbox::text::is_shown;
use nix::sys::signal::Signal;
use serde::Serialize;

use crate::terminal::screen;

/// A usage error, a refusal, or a failure of hotcell itself.
pub const REFUSED: u8 = 125;
/// A limit ended the run.
pub const LIMIT: u8 = 124;
/// Interrupted.
pub const INTERRUPTED: u8 = 130;
/// Exit status when standard output was closed by its reader: as if `SIGPIPE` had ended the process.
pub const UNHEARD: u8 = 128 + 13;

/// The exit status of `run`.
pub fn of_outcome(outcome: &RunReport) -> u8 {
    match outcome.cause {
        Cause::Exited => u8::try_from(outcome.exit_code.unwrap_or(0) & 0xff).unwrap_or(REFUSED),
        Cause::Signaled => 128 + signal_number(outcome.signal.as_deref().unwrap_or_default()),
        cause if cause.is_limit() => LIMIT,
        Cause::Cancelled => INTERRUPTED,
        Cause::NotExecutable => 126,
        Cause::NotFound => 127,
        _ => REFUSED,
    }
}

/// The number of `SIGSEGV`, or of `SIG40`, which has no name.
fn signal_number(name: &str) -> u8 {
    let known = name.parse::<Signal>().ok().and_then(|s| u8::try_from(s as i32).ok());
    known.or_else(|| name.strip_prefix("SIG")?.parse().ok()).filter(|n| *n < 128).unwrap_or(0)
}

/// The exit status when writing to standard output fails: silent if its reader closed it, otherwise with a
/// message.
pub fn of_write_error(error: &io::Error) -> u8 {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return UNHEARD;
    }
    let _ = writeln!(
        io::stderr(),
        "{}hotcell: error: standard output cannot be written: {error}",
        screen::begin_line()
    );
    REFUSED
}

/// Prints one JSON object: on one line, or indented on a terminal.
pub fn print_json<T: Serialize>(value: &T) -> io::Result<()> {
    use io::IsTerminal;
    let mut text = if io::stdout().is_terminal() {
        serde_json::to_string_pretty(value)?
    } else {
        serde_json::to_string(value)?
    };
    text.push('\n');
    print_json_text(&text)
}

/// Prints JSON text. Characters that a terminal interprets or that are invisible can occur in strings only,
/// and are escaped there as JSON allows, which keeps the meaning.
pub fn print_json_text(text: &str) -> io::Result<()> {
    use io::IsTerminal;
    if io::stdout().is_terminal() { print_text(&with_escapes(text)) } else { print_text(text) }
}

fn with_escapes(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c == '\n' || is_shown(c) {
            out.push(c);
        } else {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        }
    }
    out
}

/// Prints text.
pub fn print_text(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// The exit status after printing.
pub fn printed(result: std::io::Result<()>, code: u8) -> u8 {
    match result {
        Ok(()) => code,
        Err(e) => of_write_error(&e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_json_escapes_invisible_characters() {
        let value = serde_json::json!({ "a": "\u{9b}2J\u{7f}\u{202e}\u{e0041}é\u{1b}" });
        let text = with_escapes(&serde_json::to_string_pretty(&value).unwrap());
        assert!(text.chars().all(|c| c == '\n' || is_shown(c)), "{text:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }

    #[test]
    fn outcomes_map_to_exit_status() {
        for (cause, code, signal, want) in [
            (Cause::Exited, Some(3), None, 3),
            (Cause::Exited, Some(0), None, 0),
            (Cause::Signaled, None, Some("SIGSEGV"), 139),
            (Cause::Signaled, None, Some("SIGKILL"), 137),
            (Cause::Signaled, None, Some("SIG40"), 168),
            (Cause::WallLimit, None, None, 124),
            (Cause::CpuLimit, None, None, 124),
            (Cause::MemoryLimit, None, None, 124),
            (Cause::ProcessLimit, None, None, 124),
            (Cause::DiskLimit, None, None, 124),
            (Cause::FileLimit, None, None, 124),
            (Cause::OutputLimit, None, None, 124),
            (Cause::Cancelled, None, None, 130),
            (Cause::Quarantined, None, None, 125),
            (Cause::Refused, None, None, 125),
            (Cause::NotFound, None, None, 127),
            (Cause::NotExecutable, None, None, 126),
            (Cause::Internal, None, None, 125),
        ] {
            let mut outcome = RunReport::without_a_run(cause, "");
            (outcome.exit_code, outcome.signal) = (code, signal.map(str::to_owned));
            assert_eq!(of_outcome(&outcome), want, "{cause:?} {signal:?}");
        }
    }
}
