//! `hotcell usage`: the ledger of calls, counted, imported and exported.

use hotcell_models::ledger::{By, Ledger, LedgerError, LedgerReader, Usage, UsageReport};
use hotcell_models::usage_file::{self, FileError, Merged};
use hotcell_state::report::{Code, ErrorReport, printable};
use hotcell_state::state::StateFolder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::of_state;
use crate::args::{Common, UsageArgs, UsageCommand};
use crate::context::{configuration, state};
use crate::exit::printed;
use crate::terminal::notes;
use crate::{exit, usage};

/// Value of the `schema` field of a merge.
pub const MERGE_SCHEMA: &str = "hotcell.usage_merge/1";

/// Result of an import or an export.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct MergeReport {
    /// Always `hotcell.usage_merge/1`.
    pub schema: String,
    /// Calls that were added.
    pub added: usize,
    /// Calls that were there already.
    pub known: usize,
    /// Tokens by which the file's own total differed from the sum of its calls, 0 for a consistent file.
    pub total_differs_by: i64,
}

/// Runs the command; returns its exit status.
pub fn spent(common: &Common, args: &UsageArgs) -> u8 {
    let answer = match &args.command {
        None => report(common, args),
        Some(UsageCommand::Import { file }) => folder(common, true).and_then(|folder| {
            let ledger = Ledger::open(&folder.ok_or_else(|| of_state(&"there is no state folder"))?);
            let merged = usage_file::import(&ledger.map_err(|e| of_state(&e))?, file);
            merged.map_err(|e| of_file(&e)).map(|merged| said(common, "added to the ledger", merged))
        }),
        Some(UsageCommand::Export { file }) => reader(common).and_then(|reader| {
            let merged = usage_file::export(&reader, file).map_err(|e| of_file(&e))?;
            Ok(said(common, &format!("added to {}", file.display()), merged))
        }),
    };
    answer.unwrap_or_else(|report| usage::fail(&report, common.json))
}

/// The state folder; it is made only when something is written.
fn folder(common: &Common, made: bool) -> Result<Option<StateFolder>, ErrorReport> {
    let choice = state(common, &configuration(common, None)?);
    let path = choice.path().map_err(|e| of_state(&e))?;
    let opened = if made { StateFolder::open(path).map(Some) } else { StateFolder::open_existing(path) };
    opened.map_err(|e| of_state(&e))
}

fn reader(common: &Common) -> Result<LedgerReader, ErrorReport> {
    match folder(common, false)? {
        Some(folder) => LedgerReader::open(&folder).map_err(|e| of_ledger(&e)),
        None => Ok(LedgerReader::empty()),
    }
}

fn of_ledger(error: &LedgerError) -> ErrorReport {
    of_state(error)
}

fn of_file(error: &FileError) -> ErrorReport {
    match error {
        FileError::Ledger(error) => of_ledger(error),
        _ => ErrorReport::new(Code::InvalidValue, error.to_string()).field("FILE"),
    }
}

fn said(common: &Common, what: &str, merged: Merged) -> u8 {
    if common.json {
        let report = MergeReport {
            schema: MERGE_SCHEMA.to_owned(),
            added: merged.added,
            known: merged.known,
            total_differs_by: i64::try_from(merged.missing).unwrap_or(i64::MAX),
        };
        return printed(exit::print_json(&report), 0);
    }
    if !common.quiet {
        notes::say(format!("calls {what}: {}; known already: {}", merged.added, merged.known));
        if merged.missing != 0 {
            notes::say(format!(
                "warning: the file's total_tokens differed from the sum of its calls by {}",
                merged.missing
            ));
        }
    }
    0
}

fn report(common: &Common, args: &UsageArgs) -> Result<u8, ErrorReport> {
    let report = reader(common)?.report(args.by.into(), args.session.as_deref());
    let report = report.map_err(|e| of_ledger(&e))?;
    if common.json {
        return Ok(printed(exit::print_json(&report), 0));
    }
    if args.csv {
        return Ok(printed(exit::print_text(&csv(&report)), 0));
    }
    if report.rows.is_empty() {
        if !common.quiet {
            match &args.session {
                Some(session) => notes::say(format!(
                    "no calls of a session {session:?}; hotcell usage --by session lists all"
                )),
                None => notes::say("no calls of models yet; try: hotcell model ask \"hello\""),
            }
        }
        return Ok(0);
    }
    Ok(printed(exit::print_text(&table(&report)), 0))
}

fn key_name(by: By) -> &'static str {
    match by {
        By::Role => "role",
        By::Session => "session",
        By::Iteration => "session,iteration",
        By::Model => "model",
        By::Day => "day",
    }
}

fn table(report: &UsageReport) -> String {
    let head = ["calls", "input", "cached", "output", "tokens", "cost"].map(str::to_owned);
    let key = match report.by {
        By::Iteration => "session, iteration".to_owned(),
        by => key_name(by).to_owned(),
    };
    let mut rows = vec![(key, head)];
    let name = |row: &Usage| {
        let key = if row.key.is_empty() { "-".to_owned() } else { printable(&row.key) };
        match (report.by, row.iteration) {
            (By::Iteration, Some(iteration)) => format!("{key}, {iteration}"),
            _ => key,
        }
    };
    rows.extend(report.rows.iter().map(|row| (name(row), cells(row))));
    if report.rows.len() > 1 {
        rows.push(("in all".to_owned(), cells(&report.total)));
    }
    let wide = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut widths = [0; 5];
    for (_, cells) in &rows {
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for (name, cells) in &rows {
        text.push_str(&format!("{name:wide$}"));
        for (cell, width) in cells.iter().zip(widths) {
            text.push_str(&format!("  {cell:>width$}"));
        }
        // The cost has words behind it, so that it is not aligned at its end.
        text.push_str(&format!("  {}\n", cells[5]));
    }
    text
}

fn cells(row: &Usage) -> [String; 6] {
    let mut cost = Vec::new();
    if row.calls > row.free + row.unknown {
        cost.push(
            hotcell_models::Money::from_dollars(row.dollars)
                .map_or_else(|| format!("${:.0}", row.dollars), |money| money.to_string()),
        );
    }
    if row.free > 0 {
        cost.push(format!("{} free", row.free));
    }
    if row.unknown > 0 {
        cost.push(format!("{} of unknown cost", row.unknown));
    }
    let tokens = if row.uncounted > 0 { format!("{}+", row.tokens) } else { row.tokens.to_string() };
    [
        row.calls.to_string(),
        row.fresh.to_string(),
        row.cached.to_string(),
        row.output.to_string(),
        tokens,
        cost.join(", "),
    ]
}

fn csv(report: &UsageReport) -> String {
    let mut text = format!(
        "{},calls,without_reply,tokens,fresh,cached,output,uncounted,dollars,free,unknown\n",
        key_name(report.by)
    );
    for row in &report.rows {
        let key = match report.by {
            By::Iteration => {
                let iteration = row.iteration.map(|n| n.to_string()).unwrap_or_default();
                format!("{},{iteration}", field(&row.key))
            }
            _ => field(&row.key),
        };
        text.push_str(&format!(
            "{key},{},{},{},{},{},{},{},{},{},{}\n",
            row.calls,
            row.without_reply,
            row.tokens,
            row.fresh,
            row.cached,
            row.output,
            row.uncounted,
            row.dollars,
            row.free,
            row.unknown
        ));
    }
    text
}

/// A field by RFC 4180. One that a spreadsheet would take for a formula begins with an apostrophe.
fn field(text: &str) -> String {
    let text = printable(text);
    let text = if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text };
    if text.contains([',', '"', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(by: By) -> UsageReport {
        let one = Usage {
            key: "=a,\"b\"".to_owned(),
            calls: 3,
            tokens: 9,
            fresh: 1,
            dollars: 0.015,
            free: 1,
            ..Usage::default()
        };
        let two = Usage { calls: 1, unknown: 1, uncounted: 1, iteration: Some(2), ..Usage::default() };
        let total =
            Usage { calls: 4, tokens: 9, fresh: 1, dollars: 0.015, free: 1, unknown: 1, ..Usage::default() };
        UsageReport { schema: String::new(), by, rows: vec![one, two], total }
    }

    #[test]
    fn tables_name_what_is_not_known() {
        let text = table(&report(By::Role));
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "role    calls  input  cached  output  tokens  cost");
        assert_eq!(lines[1], "=a,\"b\"      3      1       0       0       9  $0.0150, 1 free");
        assert_eq!(lines[2], "-           1      0       0       0      0+  1 of unknown cost");
        assert_eq!(
            lines[3],
            "in all      4      1       0       0       9  $0.0150, 1 free, 1 of unknown cost"
        );
    }

    #[test]
    fn values_are_quoted_and_are_no_formulas() {
        let text = csv(&report(By::Iteration));
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].starts_with("session,iteration,calls,"));
        assert!(lines[1].starts_with("\"'=a,\"\"b\"\"\",,3,0,9,1,"), "{}", lines[1]);
        assert!(lines[2].starts_with(",2,1,0,0,"), "{}", lines[2]);
    }
}
