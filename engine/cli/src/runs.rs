//! `hotcell runs`: the history, for people and for programs.

use std::fmt::Write as _;
use std::path::Path;

use hotcell_learn::Evidence;
use hotcell_report::RunReport;
use hotcell_sandbox::outcome::Output;
use hotcell_sandbox::text::counted;
use hotcell_state::history::{History, HistoryError, RequestList, RunList, RunRow};
use hotcell_state::report::{Code, ErrorReport, barred, printable};
use hotcell_state::state::StateFolder;

use crate::args::{Common, RunsCommand};
use crate::context::{configuration, current_folder, state};
use crate::exit::printed;
use crate::render::har;
use crate::result_file::{Before, ResultFile};
use crate::terminal::notes;
use crate::{exit, learn, suggested, usage};

/// Runs the command; returns its exit status.
pub fn runs(common: &Common, command: &RunsCommand) -> u8 {
    match answer(common, command) {
        Ok(code) => code,
        Err(report) => usage::fail(&report, common.json),
    }
}

fn answer(common: &Common, command: &RunsCommand) -> Result<u8, ErrorReport> {
    if let RunsCommand::Suggested { command } = command {
        return suggested::verbs::suggested(common, command);
    }
    let history = open(common)?;
    Ok(match command {
        RunsCommand::List => {
            let rows = match &history {
                Some(history) => history.list().map_err(|e| of_history(&e))?,
                None => Vec::new(),
            };
            let result = if common.json {
                exit::print_json(&RunList::new(rows))
            } else if rows.is_empty() {
                if !common.quiet {
                    notes::say("no runs yet; try: hotcell run -- id");
                }
                Ok(())
            } else {
                exit::print_text(&table(&rows))
            };
            printed(result, 0)
        }
        RunsCommand::Show { id, network, har } if *network || har.is_some() => {
            let none = || HistoryError::NoSuchRun(id.clone());
            let list = history.ok_or_else(none).and_then(|h| h.requests(id)).map_err(|e| of_history(&e))?;
            if let Some(file) = har {
                write_archive(file, &list)?;
            }
            let result = if common.json {
                exit::print_json(&list)
            } else if !network {
                Ok(())
            } else if list.secrets.is_empty() && list.requests.is_empty() {
                if !common.quiet {
                    notes::say(
                        "nothing went through the proxy: this run had no --network and no --secret, or made no request",
                    );
                }
                Ok(())
            } else {
                exit::print_text(&requests(&list))
            };
            printed(result, 0)
        }
        // Answered above.
        RunsCommand::Suggested { .. } => 0,
        RunsCommand::Suggest { ids, suggest } => {
            let configuration = configuration(common, Some(current_folder()))?;
            learn::of_runs(common, &configuration, &evidence(history.as_ref(), ids)?, suggest)?
        }
        RunsCommand::Show { id, .. } => {
            let none = || HistoryError::NoSuchRun(id.clone());
            let outcome = history.ok_or_else(none).and_then(|h| h.show(id)).map_err(|e| of_history(&e))?;
            let result =
                if common.json { exit::print_json(&outcome) } else { exit::print_text(&page(&outcome)) };
            printed(result, 0)
        }
    })
}

/// Evidence of runs of the history, of each once.
fn evidence(history: Option<&History>, ids: &[String]) -> Result<Vec<Evidence>, ErrorReport> {
    let mut runs: Vec<Evidence> = Vec::new();
    for id in ids {
        let none = || of_history(&HistoryError::NoSuchRun(id.clone()));
        let history = history.ok_or_else(none)?;
        let rows = history.requests(id).map_err(|e| of_history(&e))?;
        let report = history.show(id).map_err(|e| of_history(&e))?;
        let listed = history.list().map_err(|e| of_history(&e))?;
        let listed = listed.into_iter().find(|row| row.id == rows.id).ok_or_else(none)?;
        if runs.iter().all(|run| run.id != rows.id) {
            let requests: Vec<_> = rows.requests.into_iter().map(|row| row.request).collect();
            runs.push(Evidence::of(&rows.id, &listed.started, &listed.command, &report, &requests));
        }
    }
    Ok(runs)
}

/// Writes requests as an HTTP archive, to a new file or in place of an earlier one.
fn write_archive(file: &Path, list: &RequestList) -> Result<(), ErrorReport> {
    let wrong = |why: String| ErrorReport::new(Code::InvalidValue, format!("--har {why}")).field("--har");
    let text = serde_json::to_vec_pretty(&har::archive(list)).map_err(|e| wrong(e.to_string()))?;
    let mut to = ResultFile::open(file, &[], Before::Emptied)
        .map_err(|why| wrong(why).hint("name a file that can be written"))?;
    to.write(&text).map_err(|e| wrong(format!("{}: {e}", file.display())))
}

fn open(common: &Common) -> Result<Option<History>, ErrorReport> {
    let configuration = configuration(common, Some(current_folder()))?;
    let choice = state(common, &configuration);
    let path = choice.path().map_err(|e| of_history(&e.into()))?;
    let folder = StateFolder::open_existing(path).map_err(|e| of_history(&e.into()))?;
    match folder {
        Some(folder) => History::open_to_read(&folder).map_err(|e| of_history(&e)),
        None => Ok(None),
    }
}

/// Converts a failure of the history to a report.
pub fn of_history(error: &HistoryError) -> ErrorReport {
    match error {
        HistoryError::NoSuchRun(id) | HistoryError::Ambiguous { id, .. } => {
            ErrorReport::new(Code::UnknownName, error.to_string()).field(id)
        }
        _ => ErrorReport::new(Code::State, error.to_string()).field("--state"),
    }
}

fn table(rows: &[RunRow]) -> String {
    let mut text =
        format!("{:12}  {:20}  {:14}  {:>4}  {:>8}  COMMAND\n", "ID", "STARTED", "CAUSE", "EXIT", "WALL");
    for row in rows {
        let exit = row.exit_code.map(|c| c.to_string()).unwrap_or_default();
        let wall = row.usage.wall_us.map(notes::time).unwrap_or_default();
        let started = format!("{}Z", row.started.split('.').next().unwrap_or_default());
        let command = printable(&row.command.join(" "));
        let command: String = command.chars().take(100).collect();
        let cause = notes::name(row.cause);
        let _ = writeln!(text, "{:12}  {started:20}  {cause:14}  {exit:>4}  {wall:>8}  {command}", row.id);
    }
    text
}

/// A line for each request, and the counts. A program controls the paths, so they are made printable.
fn requests(list: &RequestList) -> String {
    let mut text = format!(
        "{:20}  {:10}  {:>6}  {:>9}  {:>9}  {:10}  REQUEST\n",
        "TIME", "SECRET", "STATUS", "SENT", "RECEIVED", "ENDING"
    );
    for listed in &list.requests {
        let time = format!("{}Z", listed.time.split('.').next().unwrap_or_default());
        let row = &listed.request;
        let status = row.status.map(|status| status.to_string()).unwrap_or_default();
        let rule = if row.rule.is_empty() { String::new() } else { format!(" ({})", row.rule) };
        let request = printable(&format!("{} {}{}{rule}", row.method, row.host, row.path));
        let _ = writeln!(
            text,
            "{time:20}  {:10}  {status:>6}  {:>9}  {:>9}  {:10}  {request}",
            row.secret.as_deref().unwrap_or("-"),
            row.sent_bytes,
            row.received_bytes,
            row.ending
        );
    }
    let plain = list.plain.iter().map(|counts| ("without a secret", counts));
    for (name, counts) in list.secrets.iter().map(|(name, counts)| (name.as_str(), counts)).chain(plain) {
        let _ = writeln!(
            text,
            "{name}: {}, {} denied, {} failed",
            counted(counts.requests, "request"),
            counts.denied,
            counts.failed
        );
    }
    if list.left_out > 0 {
        let _ = writeln!(text, "{} more requests were only counted", list.left_out);
    }
    text
}

fn page(outcome: &RunReport) -> String {
    let mut text = format!("{}\n", notes::summary(outcome, ""));
    if let Some(reason) = &outcome.reason {
        let _ = writeln!(text, "{}", printable(reason));
    }
    for denial in &outcome.denials {
        let line = format!(
            "denied: {} {} ({}, {} times)",
            denial.operation, denial.target, denial.layer, denial.count
        );
        let _ = writeln!(text, "{}", printable(&line));
    }
    if !outcome.layers.states.is_empty() {
        text.push_str("layers:");
        for (layer, state) in &outcome.layers.states {
            let _ = write!(text, " {layer}={}", printable(&String::from(state.clone())));
        }
        text.push('\n');
    }
    for mount in
        outcome.mounts.iter().filter(|m| !matches!(m.kind.as_str(), "system" | "device" | "proc" | "devpts"))
    {
        let access = if mount.writable { "rw" } else { "ro" };
        let _ = writeln!(text, "mount: {} ({}, {access})", printable(&mount.inside), mount.kind);
    }
    for (name, output) in [("stdout", &outcome.stdout), ("stderr", &outcome.stderr)] {
        stream(&mut text, name, output);
    }
    text
}

/// A stream with every line marked, so that no program can print lines that look like hotcell's.
fn stream(text: &mut String, name: &str, output: &Output) {
    if output.bytes == 0 {
        return;
    }
    let kept = output.to_bytes();
    let _ = writeln!(
        text,
        "{name}: {}{}",
        counted(output.bytes, "byte"),
        if output.truncated { ", the middle is gone" } else { "" }
    );
    text.push_str(&barred(&String::from_utf8_lossy(&kept), "  | "));
}
