//! What a run changed in its workspace, for people.

use std::io::{self, IsTerminal, Write};

use hotcell_sandbox::outcome::Outcome;
use hotcell_service::report::printable;

use crate::args::Common;
use crate::{exit, notes};

/// Lines about what was left out before the rest is only counted.
const MOST: usize = 8;

/// Prints the diff, and says what was taken over; an exit status of its own where that failed.
pub fn show(outcome: &Outcome, common: &Common) -> Option<u8> {
    let mut status = None;
    if !common.json
        && let Some(diff) = outcome.diff.as_deref()
        && let Err(error) = print(diff)
    {
        status = Some(exit::of_write_error(&error));
    }
    if let Some(kept) = outcome.kept.as_ref().filter(|kept| kept.error.is_some()) {
        status = Some(exit::REFUSED);
        if !common.json {
            notes::say(format!("not kept: {}", kept.error.as_deref().unwrap_or_default()));
            list(kept.conflicts.iter().map(|path| format!("conflict: {path}")));
        }
    }
    let Some(commit) = outcome.commit.as_ref() else { return status };
    if commit.error.is_some() {
        status = Some(exit::REFUSED);
    }
    if common.json {
        return status;
    }
    if let Some(error) = &commit.error {
        notes::say(format!("not taken over: {error}"));
        list(commit.conflicts.iter().map(|path| format!("conflict: {path}")));
    } else if !common.quiet {
        taken_over(commit.done);
    }
    list(commit.left.iter().map(|left| format!("left out: {}: {}", left.path, left.why)));
    status
}

/// Says how much was taken over.
pub fn taken_over(paths: u64) {
    notes::say(format!("taken over: {paths} {}", if paths == 1 { "path" } else { "paths" }));
}

/// Says the first lines, and how many more there are.
pub fn list(lines: impl ExactSizeIterator<Item = String>) {
    let all = lines.len();
    lines.take(MOST).for_each(notes::say);
    if all > MOST {
        notes::say(format!("{} more; --json lists them", all - MOST));
    }
}

/// On a terminal in colour and without control characters of the program's; else as it is, for `git apply`.
pub fn print(diff: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if !out.is_terminal() {
        out.write_all(diff.as_bytes())?;
        return out.flush();
    }
    let colour = notes::colour();
    for line in diff.lines() {
        let line_colour = match line.as_bytes().first() {
            Some(b'+') => "32",
            Some(b'-') => "31",
            Some(b'@') => "36",
            Some(b'd') => "1",
            _ => "0",
        };
        let line = printable(line);
        if colour { writeln!(out, "\x1b[{line_colour}m{line}\x1b[0m")? } else { writeln!(out, "{line}")? }
    }
    out.flush()
}
