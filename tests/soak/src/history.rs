//! Whether the history is whole and knows every run that was answered.

use std::collections::HashMap;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use crate::kinds::Place;
use crate::processes::Children;
use crate::run::surroundings;

/// Runs that the history keeps.
const KEPT: usize = 1000;

/// What is wrong with it. `answered` are marks of runs of which at most [`KEPT`] were started since the first of them,
/// with the causes that are right for each; `total` is how many were answered since the beginning.
pub fn wrong(
    children: &Children,
    place: &Place,
    answered: &HashMap<String, Vec<&'static str>>,
    total: usize,
) -> Vec<String> {
    let rows = match rows(children, place) {
        Ok(rows) => rows,
        Err(why) => return vec![why],
    };
    let mut wrong = Vec::new();
    if rows.len() > KEPT || rows.len() < total.min(KEPT) {
        wrong.push(format!("the history has {} rows after {total} answers", rows.len()));
    }
    let mut seen: HashMap<&str, &str> = HashMap::new();
    for row in &rows {
        let mark = row["command"].as_array().and_then(|words| words.last()?.as_str()).unwrap_or_default();
        // The tests of a project have no mark of their own.
        let marked = row["command"][0] != "test";
        if marked && seen.insert(mark, row["cause"].as_str().unwrap_or_default()).is_some() {
            wrong.push(format!("the history has {mark} twice"));
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
    if let Err(why) = is_whole(place) {
        wrong.push(why);
    }
    wrong
}

fn rows(children: &Children, place: &Place) -> Result<Vec<Value>, String> {
    let mut command = Command::new(&place.hotcell);
    command.args(["runs", "list", "--json", "--state"]).arg(place.work.join("state"));
    surroundings(&mut command, place);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let (pid, mut child) = children.start(&mut command).map_err(|e| e.to_string())?;
    let mut text = Vec::new();
    let read = child.stdout.take().map(|mut stdout| stdout.read_to_end(&mut text));
    let status = children.wait(pid, Duration::from_secs(60));
    let list: Option<Value> = serde_json::from_slice(&text).ok();
    let rows = list.as_ref().and_then(|list| list["runs"].as_array());
    rows.cloned().ok_or_else(|| format!("the history cannot be read: {status:?}, {read:?}"))
}

fn is_whole(place: &Place) -> Result<(), String> {
    let bad = |e: rusqlite::Error| format!("the history is broken: {e}");
    let path = place.work.join("state/hotcell.db");
    let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(bad)?;
    let said: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).map_err(bad)?;
    if said == "ok" { Ok(()) } else { Err(format!("the history is broken: {said}")) }
}
