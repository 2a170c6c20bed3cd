//! The policy as a configuration, with a comment for each line. Pure.
//!
//! Programs choose names of hosts and files, and persons the commands: all of it is made printable and kept to one line, so
//! that nothing leaves its comment or string.

use std::fmt::Write as _;

use hotcell_sandbox::text::printable_line;

use crate::evidence::Seen;
use crate::suggestion::{Refused, Suggestion};

/// Maximum length of a command in a comment, in characters.
const MAX_COMMAND_CHARS: usize = 60;

impl Suggestion {
    /// The policy as a configuration that `hotcell run` reads, with a comment for each line.
    #[must_use]
    pub fn toml(&self) -> String {
        toml(self)
    }
}

fn toml(all: &Suggestion) -> String {
    let mut text = String::from(
        "# Suggested by hotcell from what runs were denied. Nothing is in force until you copy it into your configuration,\n\
         # or name this file: hotcell run --config FILE. Remove the lines that you do not want.\n",
    );
    for run in &all.runs {
        let watched = if run.files_watched { "" } else { "; its files were not watched" };
        let _ = writeln!(
            text,
            "# run {} of {}: {}{watched}",
            line(&run.id),
            line(&run.started),
            command(&run.command.join(" "))
        );
    }
    if let Some(replay) = &all.replay {
        let _ = writeln!(text, "# {}", line(&said(replay)));
        for denied in &replay.still_denied {
            let _ = writeln!(text, "#   still denied: {}", line(denied));
        }
    }
    let hosts: Vec<_> = all.network.iter().map(|one| (&one.rule, &one.opens, &one.seen)).collect();
    let files: Vec<_> = all.ro.iter().map(|one| (&one.rule, &one.opens, &one.seen)).collect();
    for (key, rules) in [("network", hosts), ("ro", files)] {
        if rules.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\n{key} = [");
        for (rule, opens, seen) in rules {
            let _ = writeln!(text, "  # {}", wanted(seen));
            let _ = writeln!(text, "  # opens: {}", line(opens));
            let _ = writeln!(text, "  {},", quoted(rule));
        }
        text.push_str("]\n");
    }
    if all.is_empty() {
        text.push_str("\n# Nothing is suggested.\n");
    }
    if !all.refused.is_empty() {
        text.push_str("\n# Denied, and not suggested:\n");
    }
    for Refused { kind, target, reason, seen } in &all.refused {
        let _ = writeln!(text, "#   {kind} {}: {} ({} times)", line(target), line(reason), seen.count);
    }
    if all.left_out > 0 {
        let _ = writeln!(text, "# {} more are not listed", all.left_out);
    }
    text
}

/// The result of a replay in a sentence.
fn said(replay: &crate::suggestion::Replay) -> String {
    let status = replay.exit_code.map(|code| format!(", exit status {code}")).unwrap_or_default();
    match (replay.made, replay.sufficed) {
        (true, Some(true)) => format!("replayed with this policy: it suffices{status}"),
        (true, _) => format!("replayed with this policy: it does not suffice{status}"),
        (false, _) => {
            format!("not replayed: {}", replay.why_not.as_deref().unwrap_or("nothing is suggested"))
        }
    }
}

fn wanted(seen: &Seen) -> String {
    // Long commands may differ only in what is cut.
    let mut programs: Vec<_> = seen.programs.iter().map(|program| command(program)).collect();
    programs.dedup();
    let more = programs.len().saturating_sub(3);
    programs.truncate(3);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let runs = match seen.runs.len() {
        1 => "1 run".to_owned(),
        n => format!("{n} runs"),
    };
    let when = match seen.first == seen.last {
        true => line(&seen.last),
        false => format!("{} to {}", line(&seen.first), line(&seen.last)),
    };
    let mark = seen.mark.map(|mark| format!("; CAUTION: {}", mark.words())).unwrap_or_default();
    let times = if seen.count == 1 { "once".to_owned() } else { format!("{} times", seen.count) };
    format!("wanted by {}{more}, {times} in {runs}, {when}{mark}", programs.join("; "))
}

fn command(text: &str) -> String {
    let text = line(text);
    match text.char_indices().nth(MAX_COMMAND_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

fn line(text: &str) -> String {
    printable_line(text)
}

/// A basic string of TOML. JSON's escapes are TOML's, but for DEL, which rules do not contain.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_else(|_| "\"\"".to_owned())
}
