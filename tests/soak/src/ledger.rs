//! Runs that each append a line to one file: whatever happens to the server's parts, no run appends two
//! lines, and every answered run appends one.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::calls::{Asked, Judged, exited};

/// Number of lines before the next file.
const MAX_LINES: usize = 60;

/// A workspace with a file, and its expected contents.
#[derive(Debug, Default)]
pub struct Ledger {
    workspace: Option<Value>,
    /// Marks of its runs, and whether each ended correctly.
    runs: Vec<(String, bool)>,
}

impl Ledger {
    /// Makes another run, which appends a line.
    pub fn add(&mut self, asked: &mut Asked<'_>) -> Judged {
        self.try_add(asked).err().unwrap_or(Judged::Right)
    }

    /// Checks the file, and removes the workspace.
    pub fn close(&mut self, asked: &mut Asked<'_>) -> Judged {
        self.look(asked).err().unwrap_or(Judged::Right)
    }

    fn try_add(&mut self, asked: &mut Asked<'_>) -> Result<(), Judged> {
        if self.runs.len() >= MAX_LINES {
            self.look(asked)?;
        }
        let id = match &self.workspace {
            Some(id) => id.clone(),
            None => {
                let made = asked.ask("workspace_create", &json!({}))?;
                self.workspace.insert(made["workspace_id"].clone()).clone()
            }
        };
        let mark = asked.mark.clone();
        self.runs.push((mark.clone(), false));
        let argv = json!(["sh", "-c", "echo $0 >>ledger; echo $0", mark]);
        let ran = asked.run("run_command", &json!({ "workspace_id": id, "keep": true, "argv": argv }))?;
        exited(&ran, 0, &format!("{mark}\n"))?;
        if let Some(run) = self.runs.last_mut() {
            run.1 = true;
        }
        Ok(())
    }

    fn look(&mut self, asked: &mut Asked<'_>) -> Result<(), Judged> {
        let Some(id) = self.workspace.take() else { return Ok(()) };
        let runs = std::mem::take(&mut self.runs);
        if runs.iter().any(|(_, ended)| *ended) {
            let read = asked.ask("workspace_read", &json!({ "workspace_id": id, "path": "ledger" }))?;
            let text = read["text"].as_str().unwrap_or_default();
            if read["next_offset"] != read["bytes"] {
                return Err(Judged::Wrong(format!("a ledger is too long: {read}")));
            }
            wrong(text, &runs).map_err(Judged::Wrong)?;
        }
        asked.ask("workspace_remove", &json!({ "workspace_id": id })).map(drop)
    }
}

/// Checks that each run that ended correctly is listed once, and each other one at most once.
fn wrong(text: &str, runs: &[(String, bool)]) -> Result<(), String> {
    let mut counts: HashMap<&str, u32> = HashMap::new();
    text.lines().for_each(|line| *counts.entry(line).or_default() += 1);
    for (mark, ended) in runs {
        let count = counts.remove(mark.as_str()).unwrap_or(0);
        if count > 1 || *ended && count == 0 {
            return Err(format!("{mark} (answered: {ended}) stands {count} times in its ledger"));
        }
    }
    if counts.is_empty() { Ok(()) } else { Err(format!("a ledger has lines of nobody: {counts:?}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_duplicate_and_foreign_lines_are_found() {
        let runs = [("a".to_owned(), true), ("b".to_owned(), false), ("c".to_owned(), true)];
        for (text, right) in [
            ("a\nb\nc\n", true),
            ("a\nc\n", true),
            ("a\nb\n", false),
            ("a\na\nc\n", false),
            ("a\nb\nb\nc\n", false),
            ("a\nc\nd\n", false),
        ] {
            assert_eq!(wrong(text, &runs).is_ok(), right, "{text:?}");
        }
    }
}
