//! Formats the result of a run for a model: the outcome's fields within a budget, and a short text with the
//! same content.

pub(crate) mod outputs;
pub(crate) mod packages;
mod test_report;

use hotcell_report::{Commit, RunReport};
use hotcell_sandbox::outcome::{Cause, LayerState, Limit};
use hotcell_sandbox::units::format_duration;
use hotcell_server::{Answer, Live, Phase, Requested, Run, Stream};
use hotcell_state::report::printable;
use rmcp::model::{CallToolResult, ContentBlock, Resource};
use serde_json::{Map, Value, json};

use crate::parameters::in_arguments;
use crate::reply::without_nulls;
use crate::text::{Shown, barred, beginning, bounded};
use crate::uri::uri_of_stream;

/// Maximum number of denials shown.
const MAX_DENIALS: usize = 20;
/// Budget for changed paths, in characters.
const MAX_CHANGES_CHARS: usize = 2_000;
/// Budget for a diff, in characters.
const MAX_DIFF_CHARS: usize = 5_000;
/// Maximum number of conflicts shown.
const MAX_CONFLICTS: usize = 20;
/// Budget for both streams together, in characters. Some clients write an answer of more than about 20 kB to
/// a file instead of showing it, and most send both text and structure, so each has to stay below half of
/// that.
const MAX_OUTPUT_CHARS: usize = 7_000;
/// Size of the end of standard error in which a missing package is looked for, in bytes.
const MAX_ERRORS_BYTES: usize = 4 << 10;
/// Folders and files of tools' caches, whose changes are not reported.
const CACHES: [&str; 7] = [
    "__pycache__",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".hypothesis",
    ".nyc_output",
    ".vitest-cache",
];

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
    let files = outputs::add(run, answer.outcome(), &mut fields, &mut words);
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
    let hint = "it goes on: call run_status with this run_id and wait_ms to wait for its end, run_output to read what it \
                prints, run_cancel to stop it";
    fields.insert("hint".into(), json!(hint));
    words.push_str(&format!("; run_id {}\n{hint}\n", run.id));
    let links = streams(run, MAX_OUTPUT_CHARS, &mut fields, &mut words);
    drop(links);
    result(vec![ContentBlock::text(words)], fields)
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

/// Fields of an outcome without the output: all of them, or the unusual ones.
pub(crate) fn of_outcome(outcome: &RunReport, detail: Detail) -> Map<String, Value> {
    let mut whole = outcome.clone();
    let left_out = whole.denials.len().saturating_sub(MAX_DENIALS);
    whole.denials.truncate(MAX_DENIALS);
    without_noise(&mut whole);
    whole.reason = whole.reason.as_deref().map(bounded);
    let taken = [&mut whole.commit, &mut whole.kept].into_iter().flatten();
    for left in taken.flat_map(|commit| &mut commit.left) {
        left.why = in_arguments(&left.why);
    }
    let mut fields = match serde_json::to_value(&whole) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    fields.retain(|name, _| name != "stdout" && name != "stderr");
    if detail == Detail::News {
        let ran = !matches!(outcome.cause, Cause::Refused | Cause::Internal);
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

/// Whether a changed path belongs to a tool's cache.
fn is_cache(path: &str) -> bool {
    path.split('/').any(|part| CACHES.contains(&part)) || path.ends_with(".pyc")
}

/// A unified diff without the sections of caches.
fn without_caches(diff: &str) -> String {
    let mut left_out = false;
    let lines = diff.split_inclusive('\n').filter(|line| {
        // Lines of a file's content begin with a mark.
        if let Some((_, path)) = line.strip_prefix("diff --git ").and_then(|names| names.rsplit_once(" b/")) {
            left_out = is_cache(path.trim_end().trim_end_matches('"'));
        }
        !left_out
    });
    lines.collect()
}

/// Cuts the changes in an answer: a budget of characters for the paths, and one for the diff.
fn with_changes(outcome: &RunReport, fields: &mut Map<String, Value>) {
    for name in ["changes", "diff", "kept", "outputs"] {
        fields.shift_remove(name);
    }
    let rows: Vec<_> = outcome.changes.iter().flatten().filter(|row| !is_cache(&row.path)).collect();
    if !rows.is_empty() {
        let mut room = MAX_CHANGES_CHARS;
        let row = |row: &&hotcell_report::Change| {
            let mut row = json!(row);
            if row["marks"].as_array().is_some_and(Vec::is_empty)
                && let Value::Object(fields) = &mut row
            {
                fields.shift_remove("marks");
            }
            row
        };
        let fits = |row: &Value| {
            let cost = row.to_string().chars().count();
            room.checked_sub(cost).map(|rest| room = rest).is_some()
        };
        let shown: Vec<_> = rows.iter().map(row).take_while(fits).collect();
        if shown.len() < rows.len() {
            fields.insert("changes_omitted".into(), json!(rows.len() - shown.len()));
        }
        fields.insert("changes".into(), json!(shown));
    }
    if let Some(diff) = outcome.diff.as_deref().map(without_caches).filter(|diff| !diff.is_empty()) {
        let shown = &diff[..beginning(&diff, MAX_DIFF_CHARS)];
        if shown.len() < diff.len() {
            fields.insert("diff_omitted".into(), json!(diff.len() - shown.len()));
        }
        fields.insert("diff".into(), json!(shown));
    }
    if let Some(kept) = &outcome.kept {
        let mut kept = kept.clone();
        let omitted = [("conflicts_omitted", kept.conflicts.len()), ("left_omitted", kept.left.len())];
        kept.conflicts.truncate(MAX_CONFLICTS);
        kept.left.truncate(MAX_CONFLICTS);
        let mut kept = json!(kept);
        for (name, all) in omitted.into_iter().filter(|(_, all)| *all > MAX_CONFLICTS) {
            kept[name] = json!(all - MAX_CONFLICTS);
        }
        if let Value::Object(fields) = &mut kept {
            fields.retain(|_, value| !value.as_array().is_some_and(Vec::is_empty));
        }
        fields.insert("kept".into(), kept);
    }
}

/// Line that counts the rows beyond those that are shown.
fn more_than(shown: usize, all: usize) -> String {
    if all > shown { format!("({} more)\n", all - shown) } else { String::new() }
}

/// Text about the changes: whether they were kept, their paths, and the diff.
pub(crate) fn words_of_changes(outcome: &RunReport, request: &Requested) -> String {
    let rows: Vec<_> = outcome.changes.iter().flatten().filter(|row| !is_cache(&row.path)).collect();
    let mut words = match &outcome.kept {
        Some(Commit { error: Some(error), conflicts, .. }) => {
            let more = more_than(MAX_CONFLICTS, conflicts.len());
            let conflicts = conflicts.iter().take(MAX_CONFLICTS);
            let conflicts: String =
                conflicts.map(|path| format!("changed by others: {}\n", printable(path))).collect();
            format!("its changes were not kept: {}\n{conflicts}{more}", printable(error))
        }
        Some(kept) => {
            let more = more_than(MAX_CONFLICTS, kept.left.len());
            let left = kept.left.iter().take(MAX_CONFLICTS);
            let left = left.map(|left| format!("left out: {}: {}\n", printable(&left.path), left.why));
            let all = outcome.changes.iter().flatten().count();
            let caches = match all - rows.len() {
                0 => String::new(),
                caches => format!(", {caches} of them in caches, which are not listed"),
            };
            let left: String = left.collect();
            format!("{} changed paths stay in the workspace{caches}\n{left}{more}", kept.done)
        }
        None if rows.is_empty() => String::new(),
        None if request.scratch => {
            "its folder is gone, and with it these files; run_command in a workspace with keep: true leaves them\n"
                .to_owned()
        }
        None => format!("{} changed paths, which are gone now; keep: true leaves them\n", rows.len()),
    };
    let mut room = MAX_CHANGES_CHARS / 2;
    for (at, row) in rows.iter().enumerate() {
        let kind = serde_json::to_value(row.kind).ok().and_then(|k| k.as_str().map(str::to_owned));
        let line = format!("{} {}\n", kind.unwrap_or_default(), printable(&row.path));
        let Some(rest) = room.checked_sub(line.chars().count()) else {
            words.push_str(&format!("({} more)\n", rows.len() - at));
            break;
        };
        room = rest;
        words.push_str(&line);
    }
    if let Some(diff) = outcome.diff.as_deref().map(without_caches).filter(|diff| !diff.is_empty()) {
        let shown = &diff[..beginning(&diff, MAX_DIFF_CHARS)];
        words.push_str(&barred(shown));
        if shown.len() < diff.len() {
            words.push_str(&format!("({} bytes of the diff are left out)\n", diff.len() - shown.len()));
        }
    }
    words
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
        (Cause::Exited, Some(_), _, Some(reason)) => bounded(&printable(reason)),
        (Cause::Exited, Some(code), _, _) => format!("exited with code {code}"),
        (Cause::Signaled, _, Some(signal), _) => format!("ended by {signal}"),
        (_, _, _, Some(reason)) => bounded(&printable(reason)),
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

/// The next step, where the cause alone does not show it. Output of the program is never part of it.
pub(crate) fn hint(outcome: &RunReport, request: &Requested) -> Option<String> {
    let reached =
        |limit: Limit| outcome.limits_hit.iter().rev().find(|hit| hit.limit == limit).map(|hit| hit.value);
    // Suggests more only where the operator allows more than was reached.
    let more = |limit: Limit, field: &str, most: Option<u64>| match (reached(limit), most) {
        (Some(value), Some(most)) if value < most => format!(", or ask for more with limits.{field}"),
        _ => "; more is not allowed here".to_owned(),
    };
    let most = request.most.as_ref();
    let micros = |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    Some(match outcome.cause {
        Cause::WallLimit => {
            let most = most.map(|m| micros(m.wall));
            format!(
                "it did not end in time: look for an endless loop or a wait for input, or do less{}",
                more(Limit::Wall, "timeout_seconds", most)
            )
        }
        Cause::CpuLimit => {
            let most = most.map(|m| m.cpu_time.map_or(u64::MAX, micros));
            format!(
                "it computed for too long: look for an endless loop, or do less{}",
                more(Limit::CpuTime, "cpu_seconds", most)
            )
        }
        Cause::MemoryLimit => {
            format!(
                "it needed too much memory: process the data in pieces{}",
                more(Limit::Memory, "memory_mib", most.map(|m| m.memory.0))
            )
        }
        Cause::ProcessLimit => {
            format!(
                "it kept starting processes or threads beyond the limit: start fewer{}",
                more(Limit::Processes, "processes", most.map(|m| u64::from(m.processes)))
            )
        }
        Cause::DiskLimit | Cause::FileLimit => {
            format!(
                "it kept writing to a full disk: write less{}",
                more(Limit::Disk, "disk_mib", most.map(|m| m.disk.0))
            )
        }
        Cause::OutputLimit => {
            "it printed too much: print less, or write to a file and print parts of it".to_owned()
        }
        Cause::Cancelled => "it was cancelled; call again to run it anew".to_owned(),
        Cause::Signaled => "a signal ended it: a crash of the program, or it killed itself".to_owned(),
        Cause::Exited if outcome.exit_code != Some(0) => return of_network(outcome, request),
        _ => return None,
    })
}

/// The next step for a failed run that was denied the network, or requested something outside its hosts.
fn of_network(outcome: &RunReport, request: &Requested) -> Option<String> {
    let denied = outcome.denials.iter().any(|d| d.layer == "network");
    match &request.hosts {
        Some(hosts) if denied => Some(format!(
            "it reached for an address that was not approved: only {} may be reached; name others in network",
            printable(hosts)
        )),
        Some(_) => None,
        None if denied => Some(
            "there is no network in the sandbox but a private loopback: give the program its data as files, or name \
             hosts in network, which a person has to approve"
                .to_owned(),
        ),
        None if request.may_fetch => Some(
            "it ran without network, where no name resolves and nothing can be downloaded: give the program its data as \
             files, or name hosts in network, which a person has to approve"
                .to_owned(),
        ),
        None => None,
    }
}

/// Whether a call mentions hosts: programs that download, or network calls and addresses in source code.
#[must_use]
pub(crate) fn speaks_of_hosts(text: &str) -> bool {
    const WORDS: [&str; 14] = [
        "http://",
        "https://",
        "urlopen",
        "requests.",
        "httpx",
        "aiohttp",
        "getaddrinfo",
        "gethostby",
        "create_connection",
        "socket.",
        "net.Dial",
        "net.connect",
        "fetch(",
        "wss://",
    ];
    // Programs that only reach for hosts, and the commands of others that download.
    const ALWAYS: [&str; 12] =
        ["curl", "wget", "ssh", "scp", "rsync", "ping", "nslookup", "dig", "host", "apt", "apt-get", "npx"];
    const COMMANDS: [(&str, &[&str]); 18] = [
        ("pip", &["install", "download", "wheel", "index", "search"]),
        ("pip3", &["install", "download", "wheel", "index", "search"]),
        ("pipx", &["install", "run"]),
        ("uv", &["pip", "sync", "add", "run", "tool", "lock"]),
        ("poetry", &["install", "add", "update", "lock"]),
        ("conda", &["install", "create", "update"]),
        ("npm", &["install", "i", "ci", "add", "update", "view", "exec", "create"]),
        ("yarn", &["install", "add", "up"]),
        ("pnpm", &["install", "i", "add", "update", "dlx"]),
        ("bun", &["install", "add", "update"]),
        ("cargo", &["add", "install", "fetch", "update", "search"]),
        ("go", &["get", "install", "mod"]),
        ("gem", &["install", "fetch", "update"]),
        ("bundle", &["install", "update"]),
        ("composer", &["install", "require", "update"]),
        ("git", &["clone", "fetch", "pull", "push", "ls-remote", "submodule"]),
        ("docker", &["pull", "push", "run", "build"]),
        ("apk", &["add", "update"]),
    ];
    if WORDS.iter().any(|word| text.contains(word)) {
        return true;
    }
    // Words as a shell, or a list of texts in source code, divides them.
    let ends = |c: char| c.is_whitespace() || "\"'`,;|&()[]{}$".contains(c);
    text.lines().any(|line| {
        let words: Vec<&str> = line.split(ends).filter(|word| !word.is_empty()).collect();
        let reaches = |at: usize| {
            let (Some(program), Some(next)) = (words.get(at), words.get(at + 1)) else { return false };
            let program = program.rsplit('/').next().unwrap_or(program);
            let always = at == 0 && *next != "=" && ALWAYS.contains(&program);
            always || COMMANDS.iter().any(|(known, commands)| *known == program && commands.contains(next))
        };
        (0..words.len()).any(reaches)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcell_sandbox::outcome::Denial;

    #[test]
    fn failed_outcomes_have_hint_or_reason() {
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
            assert!(hint(&RunReport::without_a_run(cause, ""), &Requested::default()).is_some(), "{cause:?}");
        }
        let refused = RunReport::without_a_run(Cause::Refused, "no landlock here;\nsee doctor");
        assert_eq!(
            (hint(&refused, &Requested::default()), summary(&refused).as_str()),
            (None, "no landlock here;\\nsee doctor")
        );
    }

    #[test]
    fn hint_offers_only_permitted_limits() {
        use hotcell_sandbox::outcome::{Evidence, LimitHit};
        let most = hotcell_sandbox::Limits::default();
        for (value, offered) in [(most.memory.0, false), (most.memory.0 / 2, true)] {
            let mut outcome = RunReport::without_a_run(Cause::MemoryLimit, "");
            let evidence = Evidence::Kernel;
            outcome.limits_hit.push(LimitHit { limit: Limit::Memory, value, at_us: 1, evidence });
            let request = Requested { most: Some(most.clone()), ..Requested::default() };
            let said = hint(&outcome, &request).unwrap();
            assert_eq!(said.contains("limits.memory_mib"), offered, "{said}");
        }
    }

    #[test]
    fn network_hint_matches_request_and_denials() {
        let denial = Denial {
            layer: "network".into(),
            operation: "connect".into(),
            target: "192.0.2.1:80".into(),
            errno: "EPERM".into(),
            count: 1,
        };
        let said = |hosts: Option<&str>, denied: bool, may_fetch: bool, code: i32| {
            let mut outcome = RunReport::without_a_run(Cause::Exited, "");
            outcome.exit_code = Some(code);
            outcome.denials.extend(denied.then(|| denial.clone()));
            let request = Requested { hosts: hosts.map(str::to_owned), may_fetch, ..Requested::default() };
            hint(&outcome, &request).unwrap_or_default()
        };
        for (hosts, denied, may_fetch, code, want) in [
            (None, true, false, 1, "there is no network"),
            (None, false, true, 1, "no name resolves"),
            (None, false, false, 1, ""),
            (None, true, true, 0, ""),
            (Some("pypi.org:443"), true, true, 1, "only pypi.org:443 may be reached"),
            (Some("pypi.org:443"), false, true, 1, ""),
        ] {
            let got = said(hosts, denied, may_fetch, code);
            assert!(if want.is_empty() { got.is_empty() } else { got.contains(want) }, "{got}");
        }
        for (text, want) in [
            ("pip install x", true),
            ("/usr/bin/curl -sS x", true),
            ("import urllib.request as u; u.urlopen(x)", true),
            ("python3 -m pip download six", true),
            ("set -e\ncd x && npm ci", true),
            ("set -e\nwget -q x.org/y", true),
            ("subprocess.run(['/usr/bin/git', 'clone', url])", true),
            ("out=$(cargo fetch)", true),
            ("pip list", false),
            ("git status; git log", false),
            ("host = 3\nping", false),
            ("print('curly')", false),
            ("python3 app.py", false),
        ] {
            assert_eq!(speaks_of_hosts(text), want, "{text}");
        }
    }

    #[test]
    fn caches_are_no_changes() {
        for (path, want) in [
            ("__pycache__/a.cpython-311.pyc", true),
            ("src/.pytest_cache/v/x", true),
            ("cache.py", false),
            ("a/pycache/x", false),
        ] {
            assert_eq!(is_cache(path), want, "{path}");
        }
    }

    #[test]
    fn diffs_leave_out_caches() {
        let of = |path: &str| {
            format!(
                "diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-a\n+diff --git x b/.pytest_cache\n"
            )
        };
        let (good, cache) = (of("src/a.py"), of("a/__pycache__/b.pyc"));
        for (diff, want) in [
            (String::new(), String::new()),
            (good.clone(), good.clone()),
            (cache.clone(), String::new()),
            (format!("{cache}{good}{cache}"), good.clone()),
            (
                format!("diff --git \"a/\\t.pyc\" \"b/\\t.pyc\"\nx\n{good}"),
                format!("diff --git \"a/\\t.pyc\" \"b/\\t.pyc\"\nx\n{good}"),
            ),
        ] {
            assert_eq!(without_caches(&diff), want, "{diff}");
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
