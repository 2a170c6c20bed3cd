//! `hotcell test --list`, and the times of an earlier run.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use hotcell_sandbox::Spawn;
use hotcell_sandbox::text::printable_line;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_testing::session::MAX_REPORT_SIZE;
use hotcell_testing::{Cancel, TestReport, Verdict};
use hotcell_verbs::suites::PreparedSuites;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::args::Common;
use crate::exit::printed;
use crate::mask::Masks;
use crate::signals::interrupted;
use crate::terminal::notes;
use crate::terminal::progress::Show;
use crate::{exit, options};

/// Value of the `schema` field: name and version of this format.
pub const SCHEMA: &str = "hotcell.test_list/1";

/// The tests of a project; none of them was run.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct TestList {
    /// Always `hotcell.test_list/1`.
    pub schema: String,
    /// Test ids, as in a report and for `--filter`; for jest, its files.
    pub tests: Vec<String>,
}

/// Prints the list; returns the exit status. Without a list, the report gives the reason.
pub async fn list(
    common: &Common,
    engine: &dyn Spawn,
    prepared: PreparedSuites,
    (masks, filter): (&Masks, Option<&str>),
) -> u8 {
    let cancel = Cancel::default();
    let mut show = Show::new(common, 1, false).hiding(masks);
    let found = {
        let mut listing = std::pin::pin!(prepared.list(engine, &cancel, |what| show.see(1, what)));
        tokio::select! {
            found = &mut listing => found,
            () = interrupted() => {
                cancel.cancel();
                listing.await
            }
        }
    };
    show.end();
    let hidden = |tests: Vec<String>| tests.iter().map(|id| masks.text(id).into_owned()).collect::<Vec<_>>();
    let found = found.map(hidden).map_err(|report| Box::new(masks.report(*report)));
    match found {
        Ok(tests) if common.json => {
            let code = code_of(&tests);
            printed(exit::print_json(&TestList { schema: SCHEMA.to_owned(), tests }), code)
        }
        Ok(tests) => {
            if tests.is_empty() {
                notes::say(filter.map_or_else(
                    || "no tests were found".to_owned(),
                    |filter| format!("the filter {filter:?} matches no test; leave --filter out to list all"),
                ));
            }
            let text: String = tests.iter().map(|id| format!("{}\n", printable_line(id))).collect();
            printed(exit::print_text(&text), code_of(&tests))
        }
        Err(report) => {
            let report = options::of_tests(*report);
            let code = report.verdict.exit_code();
            if common.json {
                return printed(exit::print_json(&report), code);
            }
            let why = report.reason.as_deref().or(report.outcome.reason.as_deref());
            notes::say(format!("error: {}", why.unwrap_or(report.verdict.words())));
            code
        }
    }
}

/// The exit status, as for a run: an empty list is not a success.
fn code_of(tests: &[String]) -> u8 {
    if tests.is_empty() { Verdict::Unusable.exit_code() } else { 0 }
}

/// Durations of tests, from the report of an earlier run.
pub fn times(file: &Path) -> Result<HashMap<String, u64>, ErrorReport> {
    let wrong = |why: String| {
        ErrorReport::new(Code::InvalidValue, format!("--shard-times {}: {why}", file.display()))
            .field("--shard-times")
            .hint("name the report of an earlier run: hotcell test --json DIR >FILE")
    };
    let mut text = Vec::new();
    let opened = std::fs::File::open(file).map_err(|e| wrong(e.to_string()))?;
    opened.take(MAX_REPORT_SIZE.0 + 1).read_to_end(&mut text).map_err(|e| wrong(e.to_string()))?;
    if text.len() as u64 > MAX_REPORT_SIZE.0 {
        return Err(wrong(format!("it is longer than {MAX_REPORT_SIZE}")));
    }
    let report: TestReport =
        serde_json::from_slice(&text).map_err(|e| wrong(format!("it is no test report: {e}")))?;
    Ok(report.cases.into_iter().map(|case| (case.id, case.duration_ms)).collect())
}
