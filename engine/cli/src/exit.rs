//! Exit status, as the contract says, and the last words on standard output.

use std::io::{self, Write};

use hotcell_sandbox::outcome::{Cause, Outcome};
use nix::sys::signal::Signal;
use serde::Serialize;

/// A usage error, a refusal, or a failure of hotcell itself.
pub const REFUSED: u8 = 125;
/// Interrupted.
pub const INTERRUPTED: u8 = 130;
/// Nobody reads standard output any more: as if `SIGPIPE` had ended us.
pub const UNHEARD: u8 = 128 + 13;

/// The exit status of `run`.
pub fn of_outcome(outcome: &Outcome) -> u8 {
    match outcome.cause {
        Cause::Exited => u8::try_from(outcome.exit_code.unwrap_or(0) & 0xff).unwrap_or(REFUSED),
        Cause::Signaled => 128 + signal_number(outcome.signal.as_deref().unwrap_or_default()),
        cause if cause.is_limit() => 124,
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

/// The exit status when standard output cannot be written: quiet when nobody reads it, else with a line.
pub fn of_write_error(error: &io::Error) -> u8 {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return UNHEARD;
    }
    let _ = writeln!(io::stderr(), "hotcell: error: standard output cannot be written: {error}");
    REFUSED
}

/// Prints one JSON object: on a line, or readable on a terminal.
pub fn print_json<T: Serialize>(value: &T) -> io::Result<()> {
    use io::IsTerminal;
    let mut text = if io::stdout().is_terminal() {
        serde_json::to_string_pretty(value)?
    } else {
        serde_json::to_string(value)?
    };
    text.push('\n');
    print_text(&text)
}

/// Prints text.
pub fn print_text(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_its_status() {
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
            let mut outcome = Outcome::without_a_run(cause, "");
            (outcome.exit_code, outcome.signal) = (code, signal.map(str::to_owned));
            assert_eq!(of_outcome(&outcome), want, "{cause:?} {signal:?}");
        }
    }
}
