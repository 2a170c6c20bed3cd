//! Formats test results for a model: tests that did not pass, with location, message, stack and output,
//! within the budget, and the same in text and structure.

use hotcell_sandbox::Cause;
use hotcell_sandbox::text::counted;
use hotcell_server::{Run, Stream};
use hotcell_state::report::{printable, printable_message};
use hotcell_testing::coverage::Coverage;
use hotcell_testing::{Case, TestReport, Verdict};
use rmcp::model::ContentBlock;
use serde_json::{Map, Value, json};

use crate::parameters::in_arguments;
use crate::reply::without_nulls;
use crate::text::{barred, excerpt};
use crate::uri::uri_of_stream;

use super::{Detail, details, hint, never_ran, of_outcome, streams, summary, words_of_changes};

/// Budget for all cases in each of the two forms, in characters.
const MAX_CASES_CHARS: usize = 8_000;
/// Maximum and minimum budget for the texts of one case, in characters.
const MAX_CASE_CHARS: usize = 2_600;
const MIN_CASE_CHARS: usize = 160;
/// Budget for each stream when no case shows what was wrong, in characters.
const MAX_STREAM_CHARS: usize = 3_000;
/// Budget for what tests printed without its being known which one, in characters.
const MAX_PRINTED_CHARS: usize = 1_000;
/// Maximum number of files in the text's lines about coverage.
const MAX_FILES: usize = 15;

/// One case, cut to its share of the budget.
struct Shown {
    id: String,
    status: &'static str,
    place: Option<String>,
    source: Option<String>,
    message: Option<String>,
    details: Option<String>,
    stdout: Option<String>,
    stderr: Option<String>,
}

impl Shown {
    fn of(case: &Case, share: usize) -> Self {
        let place = case.file.as_ref().map(|file| match case.line {
            Some(line) => format!("{file}:{line}"),
            None => file.clone(),
        });
        let matters = |line: &str| is_of_failure(line, case);
        let cut = |text: &Option<String>, most: usize| {
            let text = text.as_deref().map(str::trim_end).filter(|text| !text.trim().is_empty())?;
            Some(excerpt(text, most.max(MIN_CASE_CHARS), matters))
        };
        let details = case.details.as_deref().filter(|details| says_more(details, case));
        // Stacks of JavaScript begin with the message, which is told beside them.
        let message = case.message.as_deref().map(str::trim).filter(|m| m.chars().count() <= share / 4);
        let details = details.map(|details| {
            let rest = message.and_then(|message| details.trim_start().strip_prefix(message));
            rest.filter(|rest| rest.starts_with('\n')).map_or(details, |rest| &rest[1..]).to_owned()
        });
        let printed = if case.status.is_good() { [&None, &None] } else { [&case.stdout, &case.stderr] };
        Self {
            id: case.id.clone(),
            status: case.status.name(),
            place,
            source: cut(&case.source, 200),
            message: cut(&case.message, share / 4),
            details: cut(&details, share / 2),
            stdout: cut(printed[0], share / 6),
            stderr: cut(printed[1], share / 6),
        }
    }

    fn to_json(&self, case: &Case, detail: Detail) -> Value {
        let mut row = json!({
            "id": self.id, "file": case.file, "line": case.line, "name": case.name, "status": self.status,
            "message": self.message, "source": self.source, "details": self.details, "stdout": self.stdout, "stderr": self.stderr,
        });
        if detail == Detail::All {
            row["duration_ms"] = json!(case.duration_ms);
        }
        without_nulls(&mut row);
        row
    }

    fn to_lines(&self) -> String {
        let place = self.place.as_deref().map(|place| format!(" {}", printable(place))).unwrap_or_default();
        let mut lines = format!("{} {}{place}\n", self.status, printable(&self.id));
        // A stack that has each line of the message tells it already.
        let within = |text: &str, other: Option<&String>| {
            let mut said = text.lines().map(str::trim).filter(|line| !line.is_empty());
            other.is_some_and(|other| {
                said.all(|said| other.lines().any(|line| line.trim_end().ends_with(said)))
            })
        };
        if let Some(source) = self.source.as_ref().filter(|s| !within(s, self.details.as_ref())) {
            lines.push_str(&barred(source.trim()));
        }
        if let Some(message) = self.message.as_ref().filter(|m| !within(m, self.details.as_ref())) {
            lines.push_str(&barred(message));
        }
        if let Some(details) = &self.details {
            lines.push_str(&barred(details));
        }
        for (name, text) in [("printed", &self.stdout), ("printed to standard error", &self.stderr)] {
            if let Some(text) = text {
                lines.push_str(&format!("{name}:\n{}", barred(text)));
            }
        }
        lines
    }
}

/// Whether a stack line helps to understand the failure: marked by the framework, or at the location of the
/// failure.
fn is_of_failure(line: &str, case: &Case) -> bool {
    let plain = line.trim();
    let marked = line.starts_with("E ")
        || line.starts_with("> ")
        || plain.starts_with("- ")
        || plain.starts_with("+ ");
    let source = case
        .source
        .as_deref()
        .map(str::trim)
        .is_some_and(|source| source.len() > 3 && plain.contains(source));
    let placed = match (&case.file, case.line) {
        (Some(file), Some(number)) => {
            let name = file.rsplit('/').next().unwrap_or(file);
            plain.contains(&format!("{name}:{number}"))
                || (plain.contains(name) && plain.contains(&format!("line {number}")))
        }
        _ => false,
    };
    marked || source || placed || plain.starts_with("Differing items")
}

/// Whether a stack has a line beyond the location, source and message.
fn says_more(details: &str, case: &Case) -> bool {
    let message: Vec<&str> = case.message.as_deref().unwrap_or_default().lines().map(str::trim).collect();
    let source = case.source.as_deref().unwrap_or_default().trim();
    let file = case.file.as_deref().and_then(|file| file.rsplit('/').next()).unwrap_or_default();
    let known = |line: &str| {
        let plain = line.trim().trim_start_matches("E ").trim_start_matches("> ").trim();
        plain.chars().all(|c| "^~-=_ ".contains(c))
            || plain == source
            || plain.starts_with("Traceback (most recent call last)")
            || message.iter().any(|said| {
                !said.is_empty() && (plain == *said || plain.ends_with(said) || said.ends_with(plain))
            })
            || case.line.is_some_and(|number| {
                !file.is_empty()
                    && plain.contains(file)
                    && (plain.contains(&format!(":{number}")) || plain.contains(&format!("line {number},")))
            })
    };
    details.lines().any(|line| !known(line))
}

/// Adds the report's fields; returns the text, and links to streams that are not shown whole.
pub fn finished(
    run: &Run,
    report: &TestReport,
    detail: Detail,
    fields: &mut Map<String, Value>,
) -> (String, Vec<ContentBlock>) {
    let bad: Vec<&Case> = report.cases.iter().filter(|case| !case.status.is_good()).collect();
    let good = report.cases.iter().filter(|case| case.status.is_good() && detail == Detail::All);
    add_report(report, detail, fields);
    let share = (MAX_CASES_CHARS / bad.len().max(1)).clamp(MIN_CASE_CHARS, MAX_CASE_CHARS);
    let (mut room, mut rows, mut lines) = (MAX_CASES_CHARS, Vec::new(), String::new());
    let total = bad.len() + good.clone().count();
    let mut shown_bad = 0;
    for case in bad.iter().copied().chain(good) {
        let shown = Shown::of(case, share);
        let (row, text) = (shown.to_json(case, detail), shown.to_lines());
        let cost = row.to_string().chars().count().max(text.chars().count());
        let Some(rest) = room.checked_sub(cost) else { break };
        room = rest;
        shown_bad += usize::from(!case.status.is_good());
        rows.push(row);
        lines.push_str(&text);
    }
    let omitted = total - rows.len();
    fields.insert("cases".into(), json!(rows));
    if omitted > 0 {
        fields.insert("cases_omitted".into(), json!(omitted));
        lines.push_str(&format!("({omitted} more; filter runs some of them)\n"));
    }
    let hint = hint(&report.outcome, &run.request).or_else(|| next(report, shown_bad));
    let mut words = head(run, report);
    if let Some(hint) = &hint {
        fields.insert("hint".into(), json!(hint));
    }
    words.push_str(&words_of_changes(&report.outcome, &run.request));
    words.push_str(&lines);
    if let Some(coverage) = &report.coverage {
        words.push_str(&of_coverage(coverage));
    }
    if let Some(hint) = hint {
        words.push_str(&format!("{hint}\n"));
    }
    if detail == Detail::All {
        words.push_str(&format!("{}\n", details(fields)));
    }
    if shown_bad > 0
        && detail == Detail::News
        && let Some(Value::Object(outcome)) = fields.get_mut("outcome")
    {
        printed(run, report, outcome, &mut words);
    }
    // Output of the framework matters when no test shows what was wrong.
    let mut links = Vec::new();
    let silent = shown_bad == 0 && report.verdict != Verdict::Passed && !never_ran(&report.outcome);
    if (silent || detail == Detail::All)
        && let Some(Value::Object(outcome)) = fields.get_mut("outcome")
    {
        links = streams(run, MAX_STREAM_CHARS, outcome, &mut words);
    }
    (words, links)
}

/// Adds what the tests printed where it is not known which one did: unittest and Django write their own words to
/// standard error alone, so standard output is the tests'.
fn printed(run: &Run, report: &TestReport, outcome: &mut Map<String, Value>, words: &mut String) {
    let is_known = report.cases.iter().any(|case| case.stdout.is_some());
    if is_known || !matches!(report.framework.as_str(), "unittest" | "django") {
        return;
    }
    let shown = crate::text::Shown::of(run, Stream::Stdout, MAX_PRINTED_CHARS);
    if shown.bytes > 0 {
        words.push_str(&shown.to_lines("stdout of all tests"));
        let uri = uri_of_stream(&run.id, Stream::Stdout);
        outcome.insert("stdout".to_owned(), shown.to_json(&uri));
    }
}

/// Fields of a report except its cases.
fn add_report(report: &TestReport, detail: Detail, fields: &mut Map<String, Value>) {
    let mut whole = TestReport { cases: Vec::new(), ..report.clone() };
    let suites = whole.suites.iter_mut().flatten().map(|suite| &mut suite.reason);
    for reason in suites.chain([&mut whole.reason]).flatten() {
        *reason = in_arguments(reason);
    }
    let Ok(Value::Object(mut all)) = serde_json::to_value(&whole) else { return };
    all.shift_remove("cases");
    all.insert("outcome".into(), Value::Object(of_outcome(&report.outcome, detail)));
    if detail == Detail::News {
        let told = report.reason == report.outcome.reason;
        let news = [
            "framework",
            "verdict",
            "complete",
            "consistent",
            "reason",
            "totals",
            "coverage",
            "suites",
            "repeats",
            "flaky",
            "outcome",
        ];
        all.retain(|name, _| news.contains(&name.as_str()));
        if let Some(Value::Object(outcome)) = all.get_mut("outcome")
            && told
        {
            outcome.shift_remove("reason");
        }
        for suite in all.get_mut("suites").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Value::Object(suite) = suite {
                suite.shift_remove("framework_version");
            }
        }
        if let Some(Value::Object(totals)) = all.get_mut("totals") {
            totals.retain(|name, count| {
                matches!(name.as_str(), "passed" | "failed") || (name != "duration_ms" && *count != 0)
            });
        }
        if let Some(Value::Object(coverage)) = all.get_mut("coverage")
            && let Some(Value::Array(files)) = coverage.get_mut("files")
        {
            files.truncate(MAX_FILES * 4);
        }
    }
    let first = ["verdict", "framework", "totals", "complete", "consistent", "reason"];
    for name in first {
        if let Some(value) = all.shift_remove(name) {
            fields.insert(name.to_owned(), value);
        }
    }
    fields.extend(all);
}

/// Lines above the cases: the totals, and problems of the run itself.
fn head(run: &Run, report: &TestReport) -> String {
    let totals = &report.totals;
    let mut words = String::new();
    if totals.cases() == 0 {
        // A missing requirement is reported before the missing counts.
        let why = report.reason.as_deref().map(|why| printable_message(&in_arguments(why)));
        let (verdict, why) = (report.verdict.words(), why.as_deref().unwrap_or("no tests ran"));
        // A reason that begins with the verdict stands alone.
        let first = verdict.split(':').next().unwrap_or(verdict);
        words.push_str(&if why.starts_with(first) { why.to_owned() } else { format!("{verdict}: {why}") });
    } else {
        let counts = [
            (totals.passed, "passed"),
            (totals.failed, "failed"),
            (totals.errored, "errored"),
            (totals.skipped, "skipped"),
            (totals.not_finished, "not finished"),
        ];
        let said: Vec<_> = counts
            .iter()
            .enumerate()
            .filter(|(at, (count, _))| *at < 2 || *count > 0)
            .map(|(_, (count, what))| format!("{count} {what}"))
            .collect();
        words.push_str(&format!("{}: {}", report.framework, said.join(", ")));
    }
    words.push_str(&format!("; run_id {}\n", run.id));
    if totals.cases() > 0 {
        if !report.complete || !report.consistent {
            let what = if report.complete { "contradicts itself" } else { "does not cover the whole run" };
            words.push_str(&format!("the report {what}: do not rely on it\n"));
        }
        if let Some(reason) = &report.reason {
            words.push_str(&format!("{}\n", printable_message(&in_arguments(reason))));
        }
    }
    if report.outcome.cause != Cause::Exited && report.reason != report.outcome.reason {
        words.push_str(&format!("{}\n", summary(&report.outcome)));
    }
    for suite in report.suites.iter().flatten() {
        let folder = if suite.folder.is_empty() { "." } else { suite.folder.as_str() };
        let counts =
            format!("{} passed, {} failed", suite.totals.passed, suite.totals.failed + suite.totals.errored);
        let reason =
            suite.reason.as_deref().map(|why| format!(": {}", printable_message(&in_arguments(why))));
        let reason = reason.unwrap_or_default();
        let (folder, what) = (printable(folder), suite.verdict.words());
        words.push_str(&format!("{folder} ({}): {what}, {counts}{reason}\n", suite.framework));
    }
    words
}

/// The next step after failed tests.
fn next(report: &TestReport, shown: usize) -> Option<String> {
    (report.verdict == Verdict::Failed && shown > 0).then(|| {
        "mend the code, not the tests, unless a test is wrong; filter with an id runs one alone".to_owned()
    })
}

fn of_coverage(coverage: &Coverage) -> String {
    let percent =
        coverage.lines_percent.map_or_else(|| "none".to_owned(), |percent| format!("{percent:.1} %"));
    let mut lines = format!("coverage: {percent} of {}\n", counted(coverage.lines, "line"));
    let gaps = coverage.files.iter().filter(|file| !file.missing.is_empty());
    for file in gaps.take(MAX_FILES) {
        let missing: Vec<_> = file
            .missing
            .iter()
            .take(8)
            .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
            .collect();
        let more = if file.missing.len() > 8 { " and further" } else { "" };
        let path = printable(&file.path);
        lines.push_str(&format!(
            "{path}: {:.1} %, not run: {}{more}\n",
            file.lines_percent,
            missing.join(", ")
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcell_testing::Status;

    fn case(details: &str) -> Case {
        Case {
            id: "t.T.test_a".to_owned(),
            file: Some("test_a.py".to_owned()),
            line: Some(7),
            name: "test_a".to_owned(),
            status: Status::Failed,
            duration_ms: 1,
            message: Some("AssertionError: 1 != 2".to_owned()),
            details: Some(details.to_owned()),
            stdout: None,
            stderr: None,
            source: Some("        self.assertEqual(f(), 2)".to_owned()),
            attempts: Vec::new(),
        }
    }

    #[test]
    fn redundant_stack_is_omitted() {
        let own = "Traceback (most recent call last):\n  File \"/home/sandbox/project/test_a.py\", line 7, in test_a\n    \
                   self.assertEqual(f(), 2)\n    ~~~~~~~^^^^\nAssertionError: 1 != 2\n";
        assert!(!says_more(own, &case(own)));
        let deeper = own
            .replace("AssertionError", "  File \"/home/sandbox/project/a.py\", line 3, in f\nAssertionError");
        assert!(says_more(&deeper, &case(&deeper)));
    }

    #[test]
    fn long_stack_retains_failing_line() {
        let mut deep = "Traceback (most recent call last):\n".to_owned();
        deep.push_str(
            "  File \"/home/sandbox/project/test_a.py\", line 7, in test_a\n    self.assertEqual(f(), 2)\n",
        );
        for n in 0..60 {
            deep.push_str(&format!(
                "  File \"/home/sandbox/project/deep.py\", line {n}, in f{n}\n    return f{}(x)\n",
                n + 1
            ));
        }
        deep.push_str("  File \"/home/sandbox/project/deep.py\", line 999, in last\n    return table['beta']\nKeyError: 'beta'\n");
        let mut case = case(&deep);
        case.stdout = Some((0..200).map(|n| format!("step {n}\n")).collect::<String>() + "LAST WORDS\n");
        for share in [MIN_CASE_CHARS * 6, MAX_CASE_CHARS] {
            let shown = Shown::of(&case, share);
            let text = shown.to_lines();
            for word in ["return table['beta']", "KeyError: 'beta'", "LAST WORDS", "test_a.py:7"] {
                assert!(text.contains(word), "{share} {word}: {text}");
            }
            assert!(text.chars().count() < 2 * share + 600, "{}", text.chars().count());
            let row = shown.to_json(&case, Detail::News).to_string();
            assert!(row.contains("return table['beta']") && row.contains("LAST WORDS"), "{row}");
        }
    }
}
