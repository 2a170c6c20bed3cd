//! The table of attacks and layers, as Markdown.

use std::fmt::Write as _;

use hotcell_proof::run::{Run, Setting};
use hotcell_proof::table::Row;
use hotcell_proof::verdict::{Proven, Shown, Verdict, shown};
use hotcell_proof::words::{User, Wall};

/// One row for one user, with its results.
#[derive(Clone, Debug)]
pub struct Line {
    /// The row.
    pub row: &'static Row,
    /// User that the row ran for.
    pub user: User,
    /// Runs of the row.
    pub runs: Vec<Run>,
    /// Verdict over the runs; `None` before the first of them.
    pub verdict: Option<Verdict>,
    /// Verdict of a run in the confinement without namespaces.
    pub landlock_only: Option<Verdict>,
}

impl Line {
    /// A row without results yet.
    #[must_use]
    pub const fn new(row: &'static Row, user: User) -> Self {
        Self { row, user, runs: Vec::new(), verdict: None, landlock_only: None }
    }
}

/// The table: each layer with the result without it.
#[must_use]
pub fn markdown(lines: &[Line]) -> String {
    let mut text = String::from(
        "| attack | user | everything on | without one wall | all walls out | bare | verdict | landlock-only |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for line in lines {
        let cell = |setting: Setting| {
            line.runs.iter().find(|r| r.setting == setting).map_or("–", |run| word(&shown(line.row, run)))
        };
        let walls: Vec<String> = line.row.walls_for(line.user).map(|w| wall_cell(line, w)).collect();
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            line.row.test_name(),
            line.user.name(),
            cell(Setting::AllOn),
            if walls.is_empty() { "–".to_owned() } else { walls.join(", ") },
            cell(Setting::AllOut),
            cell(Setting::Bare),
            verdict_cell(line),
            landlock_only_cell(line),
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

fn landlock_only_cell(line: &Line) -> String {
    match &line.landlock_only {
        None => "–".to_owned(),
        Some(Verdict::Held(_)) => "stopped".to_owned(),
        Some(other) => told(other, ""),
    }
}

fn verdict_cell(line: &Line) -> String {
    let single = line.row.single_wall.map(|why| format!("; one wall: {why}")).unwrap_or_default();
    line.verdict.as_ref().map_or("–".to_owned(), |verdict| told(verdict, &single))
}

fn told(verdict: &Verdict, single: &str) -> String {
    match verdict {
        Verdict::Held(Proven::WallsOut) => format!("held{single}"),
        Verdict::Held(Proven::Bare) => format!("held, shown bare{single}"),
        Verdict::Held(Proven::Not(why)) => format!("held, not proven: {why}{single}"),
        Verdict::Works => "works".to_owned(),
        Verdict::Open(why) => format!("open: {why}"),
        Verdict::Skipped(why) => format!("skipped: {why}"),
        Verdict::Failed(why) => format!("**FAILED** {}", why.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcell_proof::table::rows;
    use hotcell_proof::words::Ending;

    #[test]
    fn markdown_row_shows_verdict() {
        let row = rows().next().expect("a row");
        let run = |setting, code| Run {
            setting,
            ending: Ending::Exited(code),
            survivor: false,
            in_force: Vec::new(),
            note: String::new(),
            milliseconds: 1,
        };
        let runs = vec![run(Setting::AllOn, 0), run(Setting::AllOut, 77)];
        let text = markdown(&[Line {
            runs,
            verdict: Some(Verdict::Held(Proven::WallsOut)),
            ..Line::new(row, User::User)
        }]);
        assert!(text.contains("| a001_read_denied_file | user | stopped |"), "{text}");
        assert!(text.contains("| **through** | – | held | – |"), "{text}");
    }
}
