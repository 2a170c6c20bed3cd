//! Checks that the history is intact and contains every answered run.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use crate::calls::Answered;
use crate::kinds::Place;
use crate::processes::Children;
use crate::run::surroundings;

/// Maximum number of runs in the history.
const MAX_RUNS: usize = 1000;

/// The database of a state folder.
pub struct Rows<'a> {
    pub children: &'a Children,
    pub place: &'a Place,
    pub state: &'a Path,
}

impl Rows<'_> {
    /// Faults of the program's history. `answered` are marks of runs of which at most [`MAX_RUNS`] were started
    /// since the first of them, with the correct causes of each; `total` is the number of answered runs since
    /// the beginning.
    pub fn of_program(&self, answered: &HashMap<String, Vec<&'static str>>, total: usize) -> Vec<String> {
        let rows = match self.all() {
            Ok(rows) => rows,
            Err(why) => return vec![why],
        };
        let mut wrong = Vec::new();
        if rows.len() > MAX_RUNS || rows.len() < total.min(MAX_RUNS) {
            wrong.push(format!("the history has {} rows after {total} answers", rows.len()));
        }
        let mut seen: HashMap<&str, &str> = HashMap::new();
        for row in &rows {
            // The tests of a project have no mark of their own.
            let marked = row["command"][0] != "test";
            if marked && seen.insert(mark(row), row["cause"].as_str().unwrap_or_default()).is_some() {
                wrong.push(format!("the history has {} twice", mark(row)));
            }
        }
        for (mark, causes) in answered {
            match seen.get(mark.as_str()) {
                None => wrong.push(format!("the history lacks {mark}")),
                Some(cause) if !causes.contains(cause) => {
                    wrong.push(format!("the history says {cause} of {mark}, not {}", causes.join(" or ")));
                }
                Some(_) => {}
            }
        }
        wrong.extend(self.is_whole().err());
        wrong
    }

    /// Faults of a server's history, and of its audit log: `answered` are among its last [`MAX_RUNS`] runs.
    pub fn of_server(&self, answered: &[Answered]) -> Vec<String> {
        let rows = match self.all() {
            Ok(rows) => rows,
            Err(why) => return vec![why],
        };
        let mut wrong = Vec::new();
        for one in answered {
            let of_it: Vec<&Value> = rows.iter().filter(|row| mark(row) == one.mark).collect();
            match of_it.as_slice() {
                [row] if row["cause"] == one.cause.as_str() => {}
                others => wrong.push(format!("the history has {others:?} of {one:?}")),
            }
        }
        wrong.extend(self.is_whole().err());
        match self.asked(&["audit", "verify", "--json"]) {
            Ok(log) if log["problem"].is_null() && log["schema"].is_string() => {}
            other => wrong.push(format!("the audit log: {other:?}")),
        }
        wrong
    }

    fn all(&self) -> Result<Vec<Value>, String> {
        let list = self.asked(&["runs", "list", "--json"])?;
        list["runs"].as_array().cloned().ok_or_else(|| format!("the history has no runs: {list}"))
    }

    /// Runs hotcell and parses its output.
    fn asked(&self, words: &[&str]) -> Result<Value, String> {
        let mut command = Command::new(&self.place.hotcell);
        command.args(words).arg("--state").arg(self.state);
        surroundings(&mut command, self.place);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let (pid, mut child) = self.children.start(&mut command).map_err(|e| e.to_string())?;
        let mut text = Vec::new();
        let read = child.stdout.take().map(|mut stdout| stdout.read_to_end(&mut text));
        let status = self.children.wait(pid, Duration::from_secs(60));
        serde_json::from_slice(&text)
            .map_err(|e| format!("{words:?} says nothing: {e}, {status:?}, {read:?}"))
    }

    fn is_whole(&self) -> Result<(), String> {
        let bad = |e: rusqlite::Error| format!("the history is broken: {e}");
        let path = self.state.join("hotcell.db");
        let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(bad)?;
        let said: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).map_err(bad)?;
        if said != "ok" {
            return Err(format!("the history is broken: {said}"));
        }
        // A row is written completely or not at all, so its contents can be read.
        let half = "SELECT count(*) FROM runs WHERE NOT (json_valid(command) AND json_valid(usage) \
                    AND json_valid(outcome) AND json_extract(outcome, '$.cause') = cause)";
        let half: u64 = database.query_row(half, [], |row| row.get(0)).map_err(bad)?;
        if half == 0 { Ok(()) } else { Err(format!("the history has {half} rows that are not whole")) }
    }
}

/// Last argument of a run.
fn mark(row: &Value) -> &str {
    row["command"].as_array().and_then(|words| words.last()?.as_str()).unwrap_or_default()
}
