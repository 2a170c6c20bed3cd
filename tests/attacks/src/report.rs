//! The table of attacks and layers, as Markdown.

use std::fmt::Write as _;

use crate::run::{Run, Setting, User};
use crate::table::{Row, Wall};
use crate::verdict::{Proven, Shown, Verdict, shown};

/// One row for one user, and what came of it.
#[derive(Clone, Debug)]
pub struct Line {
    /// The row.
    pub row: &'static Row,
    /// For whom.
    pub user: User,
    /// Its runs.
    pub runs: Vec<Run>,
    /// What they come to.
    pub verdict: Verdict,
}

/// The table: each wall with what happened without it.
#[must_use]
pub fn markdown(lines: &[Line]) -> String {
    let mut text = String::from(
        "| attack | user | everything on | without one wall | all walls out | bare | verdict |\n| --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for line in lines {
        let cell = |setting: Setting| {
            line.runs.iter().find(|r| r.setting == setting).map_or("–", |run| word(&shown(line.row, run)))
        };
        let walls: Vec<String> = line.row.walls_for(line.user).map(|w| wall_cell(line, w)).collect();
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} |",
            line.row.test_name(),
            line.user.name(),
            cell(Setting::AllOn),
            if walls.is_empty() { "–".to_owned() } else { walls.join(", ") },
            cell(Setting::AllOut),
            cell(Setting::Bare),
            verdict_cell(line),
        );
    }
    text
}

fn wall_cell(line: &Line, wall: Wall) -> String {
    match line.runs.iter().find(|r| r.setting == Setting::Without(wall)) {
        Some(run) => format!("{wall}: {}", word(&shown(line.row, run))),
        None => format!("{wall} (always there)"),
    }
}

fn word(shown: &Shown) -> &'static str {
    match shown {
        Shown::Through => "**through**",
        Shown::Stopped => "stopped",
        Shown::Absent => "no such call",
        Shown::Missing(_) => "precondition missing",
        Shown::Refused(_) => "refused to run",
        Shown::Broken(_) => "*broken*",
    }
}

fn verdict_cell(line: &Line) -> String {
    let single = line.row.single_wall.map(|why| format!("; one wall: {why}")).unwrap_or_default();
    match &line.verdict {
        Verdict::Held(Proven::WallsOut) => format!("held{single}"),
        Verdict::Held(Proven::Bare) => format!("held, shown bare{single}"),
        Verdict::Held(Proven::Not(why)) => format!("held, not proven: {why}{single}"),
        Verdict::Works => "works".to_owned(),
        Verdict::Skipped(why) => format!("skipped: {why}"),
        Verdict::Failed(why) => format!("**FAILED** {}", why.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Ending;
    use crate::table::ROWS;

    #[test]
    fn a_line_for_a_person() {
        let row = &ROWS[0];
        let run = |setting, code| Run {
            setting,
            ending: Ending::Exited(code),
            survivor: false,
            in_force: Vec::new(),
            note: String::new(),
            milliseconds: 1,
        };
        let runs = vec![run(Setting::AllOn, 0), run(Setting::AllOut, 77)];
        let text =
            markdown(&[Line { row, user: User::User, runs, verdict: Verdict::Held(Proven::WallsOut) }]);
        assert!(text.contains("| a001_read_denied_file | user | stopped |"), "{text}");
        assert!(text.contains("| **through** | – | held |"), "{text}");
    }
}
