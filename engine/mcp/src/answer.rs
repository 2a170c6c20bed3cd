//! What a run came to, as a model reads it: the fields of the outcome within a budget, and a short text of the same.

use hotcell_sandbox::outcome::{Cause, Commit, LayerState, Outcome};
use hotcell_sandbox::units::format_duration;
use hotcell_service::live::{Answer, Live, Phase, Run, Stream};
use hotcell_service::report::printable;
use rmcp::model::{CallToolResult, ContentBlock, Resource};
use serde_json::{Map, Value, json};

use crate::BUDGET;
use crate::resources::uri_of_stream;
use crate::text::{Shown, beginning};

/// Rows of denials that are shown.
const DENIALS: usize = 20;
/// Characters of changed paths.
const CHANGES: usize = 3_000;
/// Characters of a diff.
const DIFF: usize = 6_000;
/// Conflicts that are named.
const CONFLICTS: usize = 20;
/// Left to the output however long the rest is.
const LEAST: usize = 4_000;
/// Characters of each stream in the short text.
const SHORT: usize = 1_500;

/// A run as it stands: its outcome when it has ended, else how far it is.
#[must_use]
pub fn of_run(live: &Live, run: &Run) -> CallToolResult {
    let mut fields = Map::new();
    fields.insert("run_id".into(), json!(run.id));
    let Some(answer) = run.answer() else { return under_way(live, run, fields) };
    fields.insert("status".into(), json!("finished"));
    let (words, links) = match answer.as_ref() {
        Answer::Outcome(outcome) => finished(run, outcome, &mut fields),
        Answer::Tests(report) => crate::tests_answer::finished(run, report, &mut fields),
    };
    let mut content = vec![ContentBlock::text(words)];
    content.extend(links);
    result(content, fields)
}

fn result(content: Vec<ContentBlock>, fields: Map<String, Value>) -> CallToolResult {
    let mut result = CallToolResult::success(content);
    result.structured_content = Some(Value::Object(fields));
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
    }
    let hint = "call run_status with this run_id to wait for the end, run_output to read what it prints, \
                run_cancel to stop it";
    fields.insert("hint".into(), json!(hint));
    words.push_str(&format!("; run_id {}\n{hint}", run.id));
    let mut lines = words + "\n";
    let share = (BUDGET - LEAST) / 2;
    for stream in Stream::ALL {
        let shown = Shown::of(run, stream, share);
        fields.insert(stream.name().into(), shown.to_json(&uri_of_stream(&run.id, stream)));
        lines.push_str(&Shown::of(run, stream, SHORT).to_lines(stream.name()));
    }
    result(vec![ContentBlock::text(lines)], fields)
}

/// Leaves out what is the same for all runs, or nobody's question here: what every sandbox has mounted, the steps of
/// its set-up, and why a layer cannot be had, with the host's own paths.
pub(crate) fn without_noise(outcome: &mut Outcome) {
    for state in outcome.layers.states.values_mut() {
        if let LayerState::Unavailable(why) = state {
            "doctor says why".clone_into(why);
        }
    }
    outcome.mounts.retain(|m| matches!(m.kind.as_str(), "workspace" | "bind" | "toolchain" | "copy"));
    outcome.timings_us.steps.clear();
}

/// Bounds what an answer says of changes: a budget of characters for the paths, and one for the diff.
pub(crate) fn with_changes(outcome: &Outcome, fields: &mut Map<String, Value>) {
    if let Some(rows) = &outcome.changes {
        let mut room = CHANGES;
        let fits = |row: &&hotcell_sandbox::outcome::Change| {
            let cost = json!(row).to_string().chars().count();
            room.checked_sub(cost).map(|rest| room = rest).is_some()
        };
        let shown: Vec<_> = rows.iter().take_while(fits).collect();
        if shown.len() < rows.len() {
            fields.insert("changes_omitted".into(), json!(rows.len() - shown.len()));
        }
        fields.insert("changes".into(), json!(shown));
    }
    if let Some(diff) = &outcome.diff {
        let shown = &diff[..beginning(diff, DIFF)];
        if shown.len() < diff.len() {
            fields.insert("diff_omitted".into(), json!(diff.len() - shown.len()));
        }
        fields.insert("diff".into(), json!(shown));
    }
    if let Some(kept) = &outcome.kept {
        let mut kept = kept.clone();
        kept.conflicts.truncate(CONFLICTS);
        fields.insert("kept".into(), json!(kept));
    }
}

/// What became of the changes, in a line.
pub(crate) fn words_of_changes(outcome: &Outcome) -> String {
    match &outcome.kept {
        Some(Commit { error: Some(error), .. }) => {
            format!("its changes were not kept: {}\n", printable(error))
        }
        Some(kept) => format!("{} changed paths stay in the workspace\n", kept.done),
        None => outcome
            .changes
            .as_ref()
            .map_or_else(String::new, |rows| format!("{} changed paths\n", rows.len())),
    }
}

/// A link to a stream that is not shown whole.
pub(crate) fn link(uri: String, stream: Stream, bytes: u64) -> ContentBlock {
    ContentBlock::resource_link(
        Resource::new(uri, stream.name()).with_mime_type("text/plain").with_size(bytes),
    )
}

/// Adds the outcome's fields; gives the short text, and links to streams that are not shown whole.
fn finished(run: &Run, outcome: &Outcome, fields: &mut Map<String, Value>) -> (String, Vec<ContentBlock>) {
    let mut whole = outcome.clone();
    let left_out = whole.denials.len().saturating_sub(DENIALS);
    whole.denials.truncate(DENIALS);
    without_noise(&mut whole);
    if let Ok(Value::Object(outcome)) = serde_json::to_value(&whole) {
        fields.extend(outcome.into_iter().filter(|(name, _)| name != "stdout" && name != "stderr"));
    }
    if left_out > 0 {
        fields.insert("denials_omitted".into(), json!(left_out));
    }
    with_changes(outcome, fields);
    let hint = hint(outcome);
    if let Some(hint) = hint {
        fields.insert("hint".into(), json!(hint));
    }
    let used = Value::Object(fields.clone()).to_string().chars().count();
    let mut left = BUDGET.saturating_sub(used + 600).max(LEAST);

    let mut words = summary(outcome);
    words.push_str(&format!("; run_id {}\n", run.id));
    words.push_str(&words_of_changes(outcome));
    if let Some(hint) = hint {
        words.push_str(&format!("{hint}\n"));
    }
    let mut links = Vec::new();
    // What one stream does not need is the other's.
    let printed = run.state().printed;
    let needs = |at: usize| usize::try_from(printed[at]).unwrap_or(usize::MAX).saturating_mul(2);
    let shares =
        if needs(0) < left / 2 { [needs(0), left - needs(0)] } else { [left - needs(1).min(left / 2), 0] };
    for stream in Stream::ALL {
        let share = if stream == Stream::Stdout { shares[0].max(64) } else { left };
        let shown = Shown::of(run, stream, share);
        let uri = uri_of_stream(&run.id, stream);
        let json = shown.to_json(&uri);
        left = left.saturating_sub(json.to_string().chars().count()).max(64);
        if shown.omitted.is_some() {
            links.push(link(uri, stream, shown.bytes));
        }
        fields.insert(stream.name().into(), json);
        words.push_str(&Shown::of(run, stream, SHORT).to_lines(stream.name()));
    }
    (words, links)
}

/// One line: how it ended, after how long, which limits it hit and what it was denied.
pub(crate) fn summary(outcome: &Outcome) -> String {
    let mut words = match (outcome.cause, outcome.exit_code, &outcome.signal, &outcome.reason) {
        // A compiler that made no program.
        (Cause::Exited, Some(_), _, Some(reason)) => printable(reason),
        (Cause::Exited, Some(code), _, _) => format!("exited with code {code}"),
        (Cause::Signaled, _, Some(signal), _) => format!("ended by {signal}"),
        (_, _, _, Some(reason)) => printable(reason),
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

/// What to do next, where the cause alone does not say it.
pub(crate) fn hint(outcome: &Outcome) -> Option<&'static str> {
    let denied_network = || outcome.denials.iter().any(|d| d.layer == "network");
    Some(match outcome.cause {
        Cause::WallLimit => {
            "it did not end in time: look for an endless loop or a wait for input, do less, or ask for more with limits.timeout_seconds"
        }
        Cause::CpuLimit => {
            "it computed for too long: look for an endless loop, do less, or ask for more with limits.cpu_seconds"
        }
        Cause::MemoryLimit => {
            "it needed too much memory: process the data in pieces, or ask for more with limits.memory_mib"
        }
        Cause::ProcessLimit => {
            "it kept starting processes or threads beyond the limit: start fewer, or ask for more with limits.processes"
        }
        Cause::DiskLimit | Cause::FileLimit => {
            "it kept writing to a full disk: write less, or ask for more with limits.disk_mib"
        }
        Cause::OutputLimit => "it printed too much: print less, or write to a file and print parts of it",
        Cause::Cancelled => "it was cancelled; call again to run it anew",
        Cause::Signaled => "a signal ended it: a crash of the program, or it killed itself",
        Cause::Exited if outcome.exit_code != Some(0) && denied_network() => {
            "there is no network in the sandbox but a private loopback: give the program its data as files"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcell_sandbox::outcome::Denial;

    #[test]
    fn every_bad_end_says_what_to_do_or_why() {
        for cause in [
            Cause::WallLimit,
            Cause::CpuLimit,
            Cause::MemoryLimit,
            Cause::ProcessLimit,
            Cause::DiskLimit,
            Cause::FileLimit,
            Cause::OutputLimit,
            Cause::Cancelled,
            Cause::Signaled,
        ] {
            assert!(hint(&Outcome::without_a_run(cause, "")).is_some(), "{cause:?}");
        }
        let refused = Outcome::without_a_run(Cause::Refused, "no landlock here;\nsee doctor");
        assert_eq!((hint(&refused), summary(&refused).as_str()), (None, "no landlock here;\\nsee doctor"));
    }

    #[test]
    fn what_the_program_chose_stays_on_its_line() {
        let mut outcome = Outcome::without_a_run(Cause::Exited, "");
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
