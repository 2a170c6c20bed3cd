//! Steps of workflows that hand something over: what strangers write, to an agent that runs commands without asking; files of
//! the machine that builds, to all readers of a cache or an artifact.

use serde_yaml_ng::{Mapping, Value as Yaml};

/// Events that a person without rights in the repository starts by what he writes.
const OF_STRANGERS: &[&str] = &[
    "issues",
    "issue_comment",
    "discussion",
    "discussion_comment",
    "pull_request_target",
    "pull_request_review",
    "pull_request_review_comment",
];
/// Kinds of these events that only a person with rights in the repository starts.
const OF_MEMBERS: &[&str] =
    &["labeled", "unlabeled", "assigned", "unassigned", "milestoned", "locked", "pinned"];
/// Programs of agents.
const AGENTS: &[&str] = &[
    "claude",
    "codex",
    "gemini",
    "copilot",
    "cursor-agent",
    "qwen",
    "opencode",
    "amp",
    "goose",
    "aider",
    "crush",
];
/// Options by which agents run commands without asking.
const UNASKED: &[&str] = &[
    "--dangerously-skip-permissions",
    "--permission-mode bypasspermissions",
    "--permission-mode=bypasspermissions",
    "--dangerously-bypass-approvals-and-sandbox",
    "danger-full-access",
    "--dangerously-allow-all",
    "--yolo",
    "--approval-mode yolo",
    "--approval-mode=yolo",
    "--allow-all-tools",
    "--yes-always",
];
/// Conditions that let through only persons with rights in the repository, or what another job decided.
const GATES: &[&str] =
    &["author_association", "github.actor", "sender.login", "user.login", "needs.", "steps.", "permission"];
/// Actions that keep files where others can read them.
const KEEPERS: &[&str] =
    &["actions/cache", "actions/cache/save", "actions/upload-artifact", "actions/upload-pages-artifact"];
/// Maximum number of jobs and steps that are looked at.
const MAX_STEPS: usize = 1024;

/// Texts of a workflow near each step in which an agent works on what strangers write and runs commands without asking.
pub(super) fn unasked_agents(document: &Yaml) -> Vec<&str> {
    if !is_of_strangers(document) {
        return Vec::new();
    }
    let found = steps(document).filter(|(job, step)| !is_gated(job) && !is_gated(step));
    found.filter_map(|(_, step)| unasked(step)).collect()
}

/// Paths that steps of a workflow keep where others can read them.
pub(super) fn kept(document: &Yaml) -> Vec<&str> {
    let mut out = Vec::new();
    for (_, step) in steps(document) {
        let action = text(step, "uses").and_then(|uses| uses.split('@').next()).unwrap_or("");
        let paths = step.get("with").and_then(|with| with.get("path")).and_then(Yaml::as_str);
        if let Some(paths) = paths.filter(|_| KEEPERS.contains(&action)) {
            out.extend(
                paths.lines().map(str::trim).filter(|path| !path.is_empty() && !path.starts_with('!')),
            );
        }
    }
    // In pipelines of GitLab each job names its own.
    let jobs = document.as_mapping().into_iter().flat_map(Mapping::values).take(MAX_STEPS);
    for kept in jobs.flat_map(|job| [job.get("artifacts"), job.get("cache")]).flatten() {
        let paths = kept.get("paths").and_then(Yaml::as_sequence).into_iter().flatten();
        out.extend(paths.filter_map(Yaml::as_str));
    }
    out
}

/// Path of a workflow as a shell would have it.
pub(super) fn plain(path: &str) -> String {
    let dense: String = path.chars().filter(|c| !c.is_whitespace()).collect();
    dense.replace("${{env.HOME}}", "~").replace("${{runner.home}}", "~")
}

fn text<'y>(map: &'y Mapping, key: &str) -> Option<&'y str> {
    map.get(key).and_then(Yaml::as_str)
}

/// Jobs of a workflow with each of their steps.
fn steps(document: &Yaml) -> impl Iterator<Item = (&Mapping, &Mapping)> {
    let jobs = document.get("jobs").and_then(Yaml::as_mapping).into_iter().flat_map(|jobs| jobs.values());
    jobs.filter_map(of_job)
        .flat_map(|(job, steps)| steps.iter().filter_map(Yaml::as_mapping).map(move |step| (job, step)))
        .take(MAX_STEPS)
}

/// A job with its steps.
fn of_job(job: &Yaml) -> Option<(&Mapping, &Vec<Yaml>)> {
    let job = job.as_mapping()?;
    Some((job, job.get("steps")?.as_sequence()?))
}

/// True for a workflow that a person without rights in the repository starts.
fn is_of_strangers(document: &Yaml) -> bool {
    let is_open = |event: &str| OF_STRANGERS.contains(&event);
    match document.get("on") {
        Some(Yaml::String(event)) => is_open(event),
        Some(Yaml::Sequence(list)) => list.iter().filter_map(Yaml::as_str).any(is_open),
        Some(Yaml::Mapping(map)) => map.iter().any(|(event, settings)| {
            let kinds = settings.get("types").and_then(Yaml::as_sequence);
            let of_members = kinds.is_some_and(|kinds| {
                kinds.iter().all(|kind| kind.as_str().is_some_and(|kind| OF_MEMBERS.contains(&kind)))
            });
            event.as_str().is_some_and(is_open) && !of_members
        }),
        _ => false,
    }
}

fn is_gated(of: &Mapping) -> bool {
    // `user.login != 'bot'` lets everyone else through.
    let picks =
        |condition: &str| ["==", "contains(", "needs.", "steps."].iter().any(|mark| condition.contains(mark));
    text(of, "if")
        .is_some_and(|condition| GATES.iter().any(|gate| condition.contains(gate)) && picks(condition))
}

/// True for a text with an option by which an agent runs commands without asking, as words of its own.
fn is_unasked(text: &str) -> bool {
    let plain = text.to_ascii_lowercase();
    let plain = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    UNASKED
        .iter()
        .any(|option| plain.match_indices(option).any(|(at, option)| ends(&plain[at + option.len()..])))
}

/// Text of a step in which an agent runs commands without asking: a command line, or the settings of an action.
fn unasked(step: &Mapping) -> Option<&str> {
    if let Some(script) = text(step, "run") {
        let line = script.lines().find(|line| is_unasked(line) && starts_agent(line));
        // An agent whose options are on lines of their own.
        let joined = || (is_unasked(script) && script.lines().any(starts_agent)).then_some(script);
        return line.or_else(joined);
    }
    let action = text(step, "uses").unwrap_or("").to_ascii_lowercase();
    let is_agent = AGENTS.iter().any(|agent| action.contains(agent));
    let settings = step.get("with").and_then(Yaml::as_mapping).filter(|_| is_agent)?;
    settings.values().filter_map(Yaml::as_str).find(|value| is_unasked(value))
}

/// True for a line of a script that starts an agent, also through a program that fetches it first.
fn starts_agent(line: &str) -> bool {
    // `npx --yes`, `timeout 10m`, `NAME=value`.
    let before = |word: &&str| {
        word.starts_with('-')
            || word.contains('=')
            || word.starts_with(|c: char| c.is_ascii_digit())
            || matches!(
                *word,
                "npx"
                    | "bunx"
                    | "pnpx"
                    | "uvx"
                    | "pnpm"
                    | "dlx"
                    | "exec"
                    | "sudo"
                    | "timeout"
                    | "env"
                    | "xargs"
                    | "nohup"
                    | "time"
            )
    };
    line.split([';', '&', '|', '(', '`']).any(|command| {
        let program = command.split_whitespace().find(|word| !before(word)).unwrap_or("");
        let name = program.rsplit('/').next().unwrap_or(program);
        let name = name.split('@').next().unwrap_or(name);
        AGENTS.contains(&name) || matches!(name, "claude-code" | "gemini-cli" | "codex-cli")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workflow(text: &str) -> Yaml {
        serde_yaml_ng::from_str(text).unwrap_or(Yaml::Null)
    }

    #[test]
    fn agents_that_do_not_ask_are_found_on_what_strangers_write() {
        let run = "jobs: {a: {steps: [{run: 'claude -p \"$BODY\" --dangerously-skip-permissions'}]}}";
        for (source, found) in [
            (format!("on: issue_comment\n{run}"), true),
            (format!("on: [push, issues]\n{run}"), true),
            (format!("on: {{issues: {{types: [opened, labeled]}}}}\n{run}"), true),
            (format!("on: {{pull_request_target: }}\n{run}"), true),
            ("on: discussion\njobs: {a: {steps: [{run: 'npx -y @openai/codex exec --yolo \"$T\"'}]}}".to_owned(), true),
            ("on: issues\njobs: {a: {steps: [{run: \"gh issue view 1 |\\n  gemini \\\\\\n  --approval-mode=yolo\"}]}}".to_owned(), true),
            ("on: issues\njobs: {a: {steps: [{uses: anthropics/claude-code-action@v1, with: {claude_args: '--permission-mode bypassPermissions'}}]}}".to_owned(), true),
            // Honest neighbours.
            (format!("on: push\n{run}"), false),
            (format!("on: workflow_dispatch\n{run}"), false),
            (format!("on: {{issues: {{types: [labeled]}}}}\n{run}"), false),
            ("on: issues\njobs: {a: {if: \"github.event.issue.author_association == 'OWNER'\", steps: [{run: 'claude --dangerously-skip-permissions'}]}}".to_owned(), false),
            ("on: issues\njobs: {a: {steps: [{if: \"github.actor == 'x'\", run: 'claude --dangerously-skip-permissions'}]}}".to_owned(), false),
            ("on: issues\njobs: {a: {steps: [{run: 'claude -p x --allowedTools Read'}]}}".to_owned(), false),
            ("on: issues\njobs: {a: {steps: [{run: 'echo use claude; app --yolo-mode=off'}]}}".to_owned(), false),
            ("on: issues\njobs: {a: {steps: [{uses: anthropics/claude-code-action@v1, with: {prompt: triage}}]}}".to_owned(), false),
            ("on: issues".to_owned(), false),
        ] {
            assert_eq!(!unasked_agents(&workflow(&source)).is_empty(), found, "{source}");
        }
    }

    #[test]
    fn paths_that_are_kept() {
        let source = "jobs: {a: {steps: [{uses: actions/cache@v4, with: {path: \"~/.npm\\n!~/.npm/x\\n~\"}}, {uses: actions/checkout@v4, with: {path: b}}, {uses: actions/upload-artifact@v4, with: {path: '${{ env.HOME }}/.ssh'}}]}}";
        let document = workflow(source);
        let found: Vec<String> = kept(&document).into_iter().map(plain).collect();
        assert_eq!(found, ["~/.npm", "~", "~/.ssh"]);
        let document =
            workflow("a: {script: [make], artifacts: {paths: [out/, home.tgz]}}\nb: {cache: {paths: [x]}}");
        assert_eq!(kept(&document), ["out/", "home.tgz", "x"]);
    }
}
