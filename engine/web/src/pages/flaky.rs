//! Results of tests over runs, from the receipts of test runs that are kept. Their bytes have the digests that the audit log names.

use std::collections::BTreeMap;

use hotcell_receipts::{Envelope, Statement, record, test_result};
use hotcell_state::audit;
use hotcell_state::database::{open_to_read, retry_while_busy};
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::time::rfc3339;
use maud::{Markup, html};

use crate::chart::{Bar, bars};
use crate::frame::{seconds, table};
use crate::say::{beginning, said};
use crate::site::Site;

/// Maximum number of receipts that are read: the last ones.
const MAX_RECEIPTS: u64 = 60;
/// Maximum size of a receipt that is read, in bytes: a report of about 20,000 tests.
const MAX_RECEIPT_BYTES: usize = 4 << 20;
/// Maximum number of tests in the table.
const MAX_ROWS: usize = 50;
/// Maximum length of the name of a test, in characters.
const MAX_NAME_CHARS: usize = 200;

/// One test run, as its receipt states it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    run: String,
    time_us: i64,
    /// Name of the project's folder.
    project: String,
    /// Directory hash of the files.
    files: String,
    passed: Vec<String>,
    flaky: Vec<String>,
    failed: Vec<String>,
}

/// Results of one test over runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Row {
    passed: u64,
    failed: u64,
    /// It passed only when it was run again, or ended differently over the same files.
    is_flaky: bool,
    last_failed: String,
}

/// The section of the page; empty when no receipt of a test run is kept.
pub fn section(site: &Site) -> Result<Markup, ErrorReport> {
    let seen = read(site)?;
    let rows = table_of(&seen);
    let shown: Vec<_> = rows
        .iter()
        .take(MAX_ROWS)
        .map(|((project, id), row)| {
            vec![
                beginning(id, MAX_NAME_CHARS),
                said(project),
                html! { (row.passed) },
                html! { (row.failed) },
                html! { @if row.is_flaky { span.state.bad { "flaky" } } @else { "failed" } },
                html! { @if !row.last_failed.is_empty() { a href=(format!("/runs/{}", row.last_failed)) { (row.last_failed) } } },
            ]
        })
        .collect();
    Ok(html! {
        @if !seen.is_empty() {
            h2 { "Over the last " (seen.len()) " signed test runs" }
            (rates(&seen))
            @if shown.is_empty() {
                p { "Every test passed each time." }
            } @else {
                p.note { "Flaky: it passed only when it was run again, or ended differently over the same files." }
                (table("Tests that did not always pass", &["Test", "Project", "Passed", "Not good", "Kind", "Last in"], &shown))
                @if rows.len() > MAX_ROWS { p.note { (rows.len() - MAX_ROWS) " more" } }
            }
        }
    })
}

fn read(site: &Site) -> Result<Vec<Seen>, ErrorReport> {
    let bad = |why: String| ErrorReport::new(Code::State, why);
    let Some(folder) = site.folder()? else { return Ok(Vec::new()) };
    let Some((database, form)) = open_to_read(&folder).map_err(|e| bad(e.to_string()))? else {
        return Ok(Vec::new());
    };
    if form < 2 {
        return Ok(Vec::new());
    }
    let entries = retry_while_busy(|| audit::naming(&database, "receipt", "", MAX_RECEIPTS));
    let mut all = Vec::new();
    for entry in entries.map_err(|e| bad(format!("the audit log: {e}")))? {
        let kept = record::kept(&folder, &entry.subject).map_err(|e| bad(e.to_string()))?;
        all.extend(kept.filter(|text| text.len() <= MAX_RECEIPT_BYTES).as_deref().and_then(seen));
    }
    Ok(all)
}

/// A test run of an envelope; `None` for other receipts.
fn seen(envelope: &str) -> Option<Seen> {
    let payload = Envelope::parse(envelope.as_bytes()).ok()?.payload_bytes().ok()?;
    let statement: Statement = serde_json::from_slice(&payload).ok()?;
    if statement.predicate_type != test_result::PREDICATE_TYPE {
        return None;
    }
    let subject = statement.subject.first()?;
    let predicate = &statement.predicate;
    let names = |key: &str| -> Vec<String> {
        let all = predicate[key].as_array().into_iter().flatten();
        all.filter_map(|id| id.as_str().map(str::to_owned)).collect()
    };
    Some(Seen {
        run: predicate["hotcell"]["run"].as_str()?.to_owned(),
        time_us: predicate["hotcell"]["time_us"].as_i64()?,
        project: subject.name.clone(),
        files: subject.digest.values().next()?.clone(),
        passed: names("passedTests"),
        flaky: names("warnedTests"),
        failed: names("failedTests"),
    })
}

/// Tests that did not always pass, by project and id: flaky ones first, then those that failed most often.
fn table_of(all: &[Seen]) -> Vec<((&str, &str), Row)> {
    let mut rows: BTreeMap<(&str, &str), Row> = BTreeMap::new();
    // Whether a test passed and failed over the same files.
    let mut over: BTreeMap<(&str, &str, &str), [bool; 2]> = BTreeMap::new();
    for run in all {
        for (list, good, flaky) in
            [(&run.passed, true, false), (&run.flaky, true, true), (&run.failed, false, false)]
        {
            for id in list {
                let row = rows.entry((run.project.as_str(), id.as_str())).or_default();
                let ends = over.entry((run.project.as_str(), id.as_str(), run.files.as_str())).or_default();
                ends[usize::from(good)] = true;
                row.is_flaky |= flaky || *ends == [true, true];
                match good {
                    true => row.passed += 1,
                    false => {
                        row.failed += 1;
                        row.last_failed.clone_from(&run.run);
                    }
                }
            }
        }
    }
    let mut rows: Vec<_> = rows.into_iter().filter(|(_, row)| row.failed > 0 || row.is_flaky).collect();
    rows.sort_by_key(|(_, row)| (!row.is_flaky, std::cmp::Reverse(row.failed)));
    rows
}

fn rates(all: &[Seen]) -> Markup {
    #[expect(clippy::cast_precision_loss, reason = "a bar has 80 heights")]
    let bar = |run: &Seen| {
        let good = run.passed.len() + run.flaky.len();
        let of = good + run.failed.len();
        let label = format!("{}: {good} of {of} tests are good", seconds(&rfc3339(run.time_us)));
        Bar {
            value: if of == 0 { 0.0 } else { good as f64 * 100.0 / of as f64 },
            label,
            bad: good < of || of == 0,
        }
    };
    let all: Vec<_> = all.iter().map(bar).collect();
    bars("Tests that were good, in percent", "100 %", &all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(id: &str, files: &str, [passed, flaky, failed]: [&[&str]; 3]) -> Seen {
        let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect();
        let (run, project, files) = (id.to_owned(), "p".to_owned(), files.to_owned());
        Seen {
            run,
            time_us: 0,
            project,
            files,
            passed: names(passed),
            flaky: names(flaky),
            failed: names(failed),
        }
    }

    #[test]
    fn flaky_is_what_ended_differently_over_the_same_files() {
        let all = [
            run("1", "f", [&["same", "changed", "good"], &["again"], &[]]),
            run("2", "f", [&["changed", "good"], &[], &["same"]]),
            run("3", "g", [&["good"], &[], &["changed", "same"]]),
        ];
        let rows = table_of(&all);
        let short: Vec<_> = rows
            .iter()
            .map(|((_, id), row)| (*id, row.passed, row.failed, row.is_flaky, row.last_failed.as_str()))
            .collect();
        assert_eq!(
            short,
            [("same", 1, 2, true, "3"), ("again", 1, 0, true, ""), ("changed", 2, 1, false, "3")]
        );
    }

    #[test]
    fn receipts_of_other_kinds_and_other_bytes_are_left_out() {
        for text in ["", "{}", "{\"payloadType\":\"x\",\"payload\":\"e30=\",\"signatures\":[{\"sig\":\"\"}]}"]
        {
            assert_eq!(seen(text), None);
        }
    }
}
