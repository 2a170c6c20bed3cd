//! Formats the result of a run for a model: the outcome's fields within a budget, and a short text with the
//! same content.

mod changes;
mod hint;
pub(crate) mod outputs;
pub(crate) mod packages;
mod test_report;

use hotcell_report::RunReport;
use hotcell_sandbox::outcome::{Cause, LayerState, Layers, Outcome, Output, Timings};
use hotcell_sandbox::units::format_duration;
use hotcell_server::{Answer, Live, Phase, Run, Stream};
use hotcell_state::report::{printable, printable_message};
use rmcp::model::{CallToolResult, ContentBlock, Resource};
use serde_json::{Map, Value, json};

use changes::with_changes;
pub(crate) use changes::words_of_changes;
pub(crate) use hint::{hint, speaks_of_hosts};

use crate::parameters::in_arguments;
use crate::reply::without_nulls;
use crate::text::{Shown, bounded};
use crate::toolsets::Toolsets;
use crate::uri::uri_of_stream;

/// Maximum number of denials shown.
const MAX_DENIALS: usize = 20;
/// Budget for both streams together, in characters. Some clients write an answer of more than about 20 kB to
/// a file instead of showing it, and most send both text and structure, so each has to stay below half of
/// that.
const MAX_OUTPUT_CHARS: usize = 7_000;
/// Size of the end of standard error in which a missing package is looked for, in bytes.
const MAX_ERRORS_BYTES: usize = 4 << 10;

/// Level of detail of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Only unusual fields that have a value.
    News,
    /// All fields.
    All,
}

impl Detail {
    /// Detail for the argument `verbose`.
    #[must_use]
    pub const fn of(verbose: bool) -> Self {
        if verbose { Self::All } else { Self::News }
    }
}

/// Answer about a run: its outcome when it has ended, else its progress.
#[must_use]
pub fn of_run(live: &Live, run: &Run, detail: Detail) -> CallToolResult {
    let mut fields = Map::new();
    fields.insert("run_id".into(), json!(run.id));
    let Some(answer) = run.answer() else { return under_way(live, run, fields) };
    fields.insert("status".into(), json!("finished"));
    let (mut words, links) = match answer.as_ref() {
        Answer::Outcome(outcome) => finished(run, outcome, detail, &mut fields),
        Answer::Tests(report) => test_report::finished(run, report, detail, &mut fields),
    };
    let files = outputs::add(live.engine(), run, answer.outcome(), &mut fields, &mut words);
    let mut content = vec![ContentBlock::text(words)];
    content.extend(links);
    content.extend(files);
    result(content, fields)
}

fn result(content: Vec<ContentBlock>, fields: Map<String, Value>) -> CallToolResult {
    let mut result = CallToolResult::success(content);
    let mut structure = Value::Object(fields);
    without_nulls(&mut structure);
    result.structured_content = Some(structure);
    result
}

fn under_way(live: &Live, run: &Run, mut fields: Map<String, Value>) -> CallToolResult {
    let state = run.state();
    let seconds = run.asked.elapsed().as_secs();
    let mut words = match (state.phase, live.position(run)) {
        (Phase::Queued, Some(position)) => {
            fields.insert("status".into(), json!("queued"));
            fields.insert("position".into(), json!(position));
            format!("waits for its turn, at position {position}")
        }
        _ => {
            fields.insert("status".into(), json!("running"));
            format!("runs since {seconds} s")
        }
    };
    if let Some(progress) = &state.progress {
        fields.insert("progress".into(), json!({ "done": progress.done, "total": progress.total }));
        if let Some(total) = progress.total {
            words.push_str(&format!("; {} of {total} done", progress.done));
        }
    }
    let hint = to_go_on(&Toolsets::own(live.configuration().toolsets()));
    fields.insert("hint".into(), json!(hint));
    words.push_str(&format!("; run_id {}\n{hint}\n", run.id));
    let links = streams(run, MAX_OUTPUT_CHARS, &mut fields, &mut words);
    drop(links);
    result(vec![ContentBlock::text(words)], fields)
}

/// Next calls about a run that has not ended.
fn to_go_on(toolsets: &Toolsets) -> String {
    let stop = if toolsets.has("run_cancel") { ", run_cancel to stop it" } else { "" };
    format!(
        "it goes on: call run_status with this run_id and wait_ms to wait for its end, run_output to read what it prints{stop}"
    )
}

/// Adds the output to both forms of an answer, cut to the same length; returns links to streams that are not
/// shown whole.
pub(crate) fn streams(
    run: &Run,
    budget: usize,
    fields: &mut Map<String, Value>,
    words: &mut String,
) -> Vec<ContentBlock> {
    let printed = run.state().printed;
    // One stream can use the part of the budget that the other does not need.
    let needs = |at: usize| usize::try_from(printed[at]).unwrap_or(usize::MAX).saturating_mul(2);
    let first = needs(0).min((budget / 2).max(budget.saturating_sub(needs(1))));
    let shares = [first.max(64), budget.saturating_sub(first).max(64)];
    let mut links = Vec::new();
    for (stream, share) in Stream::ALL.into_iter().zip(shares) {
        // An empty standard error is the usual case, and is left out.
        if stream == Stream::Stderr && printed[1] == 0 {
            continue;
        }
        let shown = Shown::of(run, stream, share);
        let uri = uri_of_stream(&run.id, stream);
        fields.insert(stream.name().into(), shown.to_json(&uri));
        words.push_str(&shown.to_lines(stream.name()));
        if shown.omitted.is_some() {
            links.push(link(uri, stream, shown.bytes));
        }
    }
    links
}

/// Removes details that do not help a model: the reasons why layers are unavailable, with paths of the host;
/// the mounts of every sandbox; and the steps of its set-up.
fn without_noise(outcome: &mut RunReport) {
    for state in outcome.layers.states.values_mut() {
        if let LayerState::Unavailable(why) = state {
            "doctor says why".clone_into(why);
        }
    }
    outcome.mounts.retain(|m| matches!(m.kind.as_str(), "workspace" | "bind" | "toolchain" | "copy"));
    outcome.timings_us.steps.clear();
}

/// A copy of a report without what an answer leaves out in any case. The output, the diff and the list of mounts are nearly all of it.
fn considered(report: &RunReport, detail: Detail, ran: bool) -> RunReport {
    let all = detail == Detail::All;
    let of = &report.outcome;
    let outcome = Outcome {
        schema: of.schema.clone(),
        cause: of.cause,
        reason: of.reason.clone(),
        exit_code: of.exit_code,
        signal: of.signal.clone(),
        stdout: Output::default(),
        stderr: Output::default(),
        usage: of.usage.clone(),
        limits_hit: of.limits_hit.clone(),
        denials: of.denials.iter().take(MAX_DENIALS).cloned().collect(),
        denials_complete: of.denials_complete,
        requests: if all { of.requests.clone() } else { None },
        missing: if all { of.missing.clone() } else { None },
        layers: if all || !ran { of.layers.clone() } else { Layers::default() },
        mounts: if all { of.mounts.clone() } else { Vec::new() },
        timings_us: if all { of.timings_us.clone() } else { Timings::default() },
    };
    RunReport {
        outcome,
        // `with_changes` adds them.
        changes: None,
        diff: None,
        kept: None,
        outputs: None,
        commit: report.commit.clone(),
        compile: report.compile.clone(),
        scan: report.scan.clone(),
        remote: if all { report.remote.clone() } else { None },
    }
}

/// Fields of an outcome without the output: all of them, or the unusual ones.
pub(crate) fn of_outcome(outcome: &RunReport, detail: Detail) -> Map<String, Value> {
    let ran = !matches!(outcome.cause, Cause::Refused | Cause::Internal);
    let mut whole = considered(outcome, detail, ran);
    let left_out = outcome.denials.len().saturating_sub(MAX_DENIALS);
    without_noise(&mut whole);
    whole.reason = whole.reason.as_deref().map(bounded);
    for left in whole.commit.iter_mut().flat_map(|commit| &mut commit.left) {
        left.why = in_arguments(&left.why);
    }
    let mut fields = match serde_json::to_value(&whole) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    fields.retain(|name, _| name != "stdout" && name != "stderr");
    if detail == Detail::News {
        fields.retain(|name, value| match name.as_str() {
            "cause" | "exit_code" | "signal" | "reason" | "kept" | "commit" => true,
            "limits_hit" | "denials" => value.as_array().is_some_and(|rows| !rows.is_empty()),
            // A compiled program is the usual case.
            "compile" => {
                value["done"] == false || value["diagnostics"].as_array().is_some_and(|said| !said.is_empty())
            }
            "scan" => value.get("verdict").is_some_and(|verdict| verdict != "allow"),
            "layers" => !ran && value.as_object().is_some_and(|all| all.len() > 3),
            _ => false,
        });
    }
    if detail == Detail::News
        && let Some(Value::Array(hits)) = fields.get_mut("limits_hit")
    {
        // When, and how it was found out, is for verbose.
        for hit in hits.iter_mut().filter_map(Value::as_object_mut) {
            hit.retain(|name, _| name == "limit" || name == "value");
        }
    }
    if left_out > 0 {
        fields.insert("denials_omitted".into(), json!(left_out));
    }
    with_changes(outcome, &mut fields);
    fields
}

/// Link to a stream that is not shown whole.
pub(crate) fn link(uri: String, stream: Stream, bytes: u64) -> ContentBlock {
    ContentBlock::resource_link(
        Resource::new(uri, stream.name()).with_mime_type("text/plain").with_size(bytes),
    )
}

/// Adds the outcome's fields; returns the text, and links to streams that are not shown whole.
fn finished(
    run: &Run,
    outcome: &RunReport,
    detail: Detail,
    fields: &mut Map<String, Value>,
) -> (String, Vec<ContentBlock>) {
    fields.extend(of_outcome(outcome, detail));
    let hint = of_packages(run, outcome).or_else(|| hint(outcome, &run.request));
    let mut words = format!("{}; run_id {}\n", summary(outcome), run.id);
    words.push_str(&words_of_changes(outcome, &run.request));
    if let Some(hint) = hint {
        words.push_str(&format!("{hint}\n"));
        fields.insert("hint".into(), json!(hint));
    }
    if detail == Detail::All {
        words.push_str(&format!("{}\n", details(fields)));
    }
    let links =
        if never_ran(outcome) { Vec::new() } else { streams(run, MAX_OUTPUT_CHARS, fields, &mut words) };
    (words, links)
}

/// Advice for a source that failed because it imports a package that is not there.
fn of_packages(run: &Run, outcome: &RunReport) -> Option<String> {
    let failed = outcome.cause == Cause::Exited && outcome.exit_code != Some(0);
    if !failed || run.request.imports.is_empty() {
        return None;
    }
    let errors = run.last(Stream::Stderr, MAX_ERRORS_BYTES);
    packages::hint(&run.request, &String::from_utf8_lossy(&errors.bytes))
}

/// Whether no program was started, so that there is no output to speak of.
pub(crate) fn never_ran(outcome: &RunReport) -> bool {
    let before =
        matches!(outcome.cause, Cause::Refused | Cause::Quarantined | Cause::NotFound | Cause::NotExecutable);
    before && outcome.stdout.bytes == 0 && outcome.stderr.bytes == 0
}

/// Fields that only a verbose answer has, as JSON behind bars.
pub(crate) fn details(fields: &Map<String, Value>) -> String {
    const NAMES: [&str; 8] =
        ["usage", "layers", "mounts", "timings_us", "denials_complete", "compile", "command", "interpreter"];
    let lines = NAMES.iter().filter_map(|name| {
        let value =
            fields.get(*name).or_else(|| fields.get("outcome")?.get(*name)).filter(|v| !v.is_null())?;
        let value: String = printable(&value.to_string()).chars().take(1_500).collect();
        Some(format!("| {name}: {value}"))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// One line with the ending, the duration, the limits hit and the denials.
pub(crate) fn summary(outcome: &RunReport) -> String {
    let mut words = match (outcome.cause, outcome.exit_code, &outcome.signal, &outcome.reason) {
        // A compiler that made no program.
        (Cause::Exited, Some(_), _, Some(reason)) => bounded(&printable_message(reason)),
        (Cause::Exited, Some(code), _, _) => format!("exited with code {code}"),
        (Cause::Signaled, _, Some(signal), _) => format!("ended by {signal}"),
        (_, _, _, Some(reason)) => bounded(&printable_message(reason)),
        (cause, ..) => format!("ended: {cause:?}").to_lowercase(),
    };
    if let Some(wall) = outcome.usage.wall_us {
        words.push_str(&format!(" after {}", format_duration(std::time::Duration::from_millis(wall / 1000))));
    }
    let hits: Vec<_> =
        outcome.limits_hit.iter().map(|h| json!(h.limit).as_str().unwrap_or("").to_owned()).collect();
    if !hits.is_empty() {
        words.push_str(&format!("; limits reached: {}", hits.join(", ")));
    }
    for denial in outcome.denials.iter().take(5) {
        words.push_str(&format!(
            "; denied: {} {} ({})",
            denial.operation,
            printable(&denial.target).chars().take(100).collect::<String>(),
            denial.layer
        ));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcell_sandbox::outcome::Denial;

    #[test]
    fn cancel_is_named_where_it_is_offered() {
        for (names, is_named) in [
            (&[][..], false),
            (&["run"], true),
            (&["run", "github"], true),
            (&["github", "all"], true),
            (&["github"], false),
        ] {
            let hint = to_go_on(&Toolsets::own(names));
            assert_eq!(hint.ends_with("prints, run_cancel to stop it"), is_named, "{names:?}: {hint}");
        }
    }

    #[test]
    fn summary_escapes_program_line_breaks() {
        let mut outcome = RunReport::without_a_run(Cause::Exited, "");
        outcome.exit_code = Some(1);
        outcome.denials.push(Denial {
            layer: "seccomp".into(),
            operation: "mount".into(),
            target: "x\nexited with code 0".into(),
            errno: "EPERM".into(),
            count: 1,
        });
        assert_eq!(summary(&outcome).lines().count(), 1);
    }
}
