//! Tools of the agent service that only read: a map, and how sessions stand.

use hotcell_agents::Phase;
use hotcell_agents::machine::Reason;
use hotcell_agents::paths;
use hotcell_models::Money;
use hotcell_sandbox::text::counted;
use hotcell_server::agents::Standing;
use hotcell_server::{Caller, EntryKind, Live};
use hotcell_state::report::{ErrorReport, printable, printable_line};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Resource};

use crate::MAX_CONTENT_CHARS;
use crate::blocking::blocking;
use crate::parameters::in_arguments;
use crate::reply::answered;
use crate::text::{barred, beginning};
use crate::tools::parse;
use crate::uri::uri_of_handoff;

use super::{input, map, output};

type Answered = Result<CallToolResult, ErrorReport>;

/// Maximum number of sessions in a list.
const MAX_LISTED: usize = 50;

pub async fn repo_map(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: input::GetRepoMap = parse(arguments)?;
    let (held, owner) = (live.clone(), caller.clone());
    let (id, path) = (asked.workspace_id, asked.path.filter(|path| path != "."));
    let below = path.clone();
    let entries = blocking(move || held.workspaces().get(&owner, &id)?.list(below.as_deref())).await?;
    let files: Vec<(String, u64, bool)> = entries
        .into_iter()
        .filter(|entry| entry.kind == EntryKind::File)
        .map(|entry| {
            let is_test = paths::is_test(&entry.path);
            (entry.path, entry.bytes, is_test)
        })
        .collect();
    let depth = asked.depth + path.as_deref().map_or(0, |path| path.trim_matches('/').split('/').count());
    let is_hidden = |path: &str| path.split('/').any(|part| part.starts_with('.'));
    let map = map::map(&files, (depth, asked.include_tests, asked.offset), &is_hidden);
    let mut words = format!(
        "{}, about {}\n",
        counted(map.total_files, "file"),
        counted(map.total_tokens_estimated, "token")
    );
    for node in &map.structure {
        let size = match (node.bytes, node.files) {
            (Some(bytes), _) => format!(" {bytes}"),
            (None, Some(files)) => format!("/ ({})", counted(files, "file")),
            (None, None) => "/".to_owned(),
        };
        words.push_str(&format!("{}{size}\n", printable(&node.path)));
    }
    if let Some(next) = map.next_offset {
        words.push_str(&format!("more from offset {next} on\n"));
    }
    Ok(answered(&map, words))
}

pub async fn standing(live: &Live, caller: &Caller, session: String) -> Result<Standing, ErrorReport> {
    let (held, owner) = (live.clone(), caller.clone());
    blocking(move || held.agent_standing(&owner, &session)).await
}

/// A state by its name in the founding document.
fn state_of(standing: &Standing) -> String {
    match standing.phase {
        Phase::Idle => "IDLE",
        Phase::Generating => "GENERATING",
        Phase::Reviewing => "REVIEWING",
        Phase::Revising => "REVISING",
        Phase::Converged => "CONVERGED",
        Phase::Escalated => "ESCALATED",
        Phase::Failed => "FAILED",
    }
    .to_owned()
}

/// Words for the end of a session without an accepted artifact.
fn reason_of(standing: &Standing) -> Option<String> {
    let named = |reason: &Reason| match reason {
        Reason::BudgetSpent(which) => format!("budget_spent: {which}"),
        Reason::EndpointUnavailable(why) => format!("endpoint_unavailable: {}", printable_line(why)),
        other => {
            serde_json::to_value(other).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
        }
    };
    let stopped = (!standing.running
        && matches!(standing.phase, Phase::Generating | Phase::Reviewing | Phase::Revising))
    .then(|| "interrupted; revise_code goes on with it".to_owned());
    standing
        .ended
        .as_deref()
        .map(|why| printable_line(&in_arguments(why)))
        .or_else(|| standing.reason.as_ref().map(named))
        .or(stopped)
}

pub async fn status(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: input::GetProjectStatus = parse(arguments)?;
    let Some(session) = asked.session_id else {
        let (held, owner) = (live.clone(), caller.clone());
        let all = blocking(move || held.agent_list(&owner)).await?;
        let sessions: Vec<_> = all
            .into_iter()
            .take(MAX_LISTED)
            .map(|row| output::Session { session_id: row.id, state: row.state })
            .collect();
        let line = |one: &output::Session| format!("{} {}\n", one.session_id, one.state);
        let words =
            if sessions.is_empty() { "no sessions".to_owned() } else { sessions.iter().map(line).collect() };
        return Ok(answered(&output::Status { sessions, ..output::Status::default() }, words));
    };
    let standing = standing(live, caller, session).await?;
    let answer = output::Status {
        session_id: Some(standing.id.clone()),
        state: Some(state_of(&standing)),
        reason: reason_of(&standing),
        running: Some(standing.running),
        current_iteration: Some(standing.iteration),
        max_iterations: Some(standing.task.rules.iterations),
        quality_threshold: Some(standing.task.rules.threshold),
        last_quality_score: standing.progress.scores.last().copied(),
        artifacts: standing.artifacts.iter().map(ToString::to_string).collect(),
        best_artifact: standing.best.as_ref().map(|(id, _)| id.to_string()),
        elapsed_time_ms: Some(standing.elapsed_ms),
        sessions: Vec::new(),
    };
    let mut words = format!(
        "{}, {} of {} iterations",
        state_of(&standing),
        standing.iteration,
        standing.task.rules.iterations
    );
    if let Some(before) = &standing.before {
        words.push_str(&format!("; at first {} of {} tests were good", before.good, before.of));
    }
    if let Some((id, best)) = &standing.best {
        words.push_str(&format!(
            "; best artifact {id}: {} of {} tests are good, score {}",
            best.tests.good, best.tests.of, best.score.score
        ));
    }
    if let Some(reason) = &answer.reason {
        words.push_str(&format!("; {reason}"));
    }
    if standing.running {
        words.push_str("; it goes on by itself");
    }
    Ok(answered(&answer, words))
}

pub async fn progress(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: input::GetProgressSummary = parse(arguments)?;
    let standing = standing(live, caller, asked.session_id).await?;
    let is = |verbosity| asked.verbosity == verbosity;
    let (minimal, detailed) = (is(input::Verbosity::Minimal), is(input::Verbosity::Detailed));
    let usage = &standing.usage;
    let most = &standing.task.limits;
    let of = |most: Option<u64>| most.map(|most| format!(" of {most}")).unwrap_or_default();
    let more = if usage.uncounted > 0 { "+" } else { "" };
    let (calls, tokens) = (of(most.calls), of(most.tokens));
    let mut spent = format!("calls: {}{calls}, tokens: {}{more}{tokens}", usage.calls, usage.tokens);
    match most.picodollars {
        Some(most) => spent.push_str(&format!(", ${:.4} of {}", usage.dollars, Money(most))),
        None if usage.dollars > 0.0 => spent.push_str(&format!(", ${:.4}", usage.dollars)),
        None => {}
    }
    let rows = standing.candidate.as_ref().map(|candidate| candidate.iterations.clone()).unwrap_or_default();
    let answer = output::Summary {
        session_id: standing.id.clone(),
        iterations_completed: standing.iteration,
        quality_scores: (!minimal).then(|| standing.progress.scores.clone()),
        time_per_iteration_ms: (!minimal).then(|| standing.progress.times_ms.clone()),
        current_state: state_of(&standing),
        convergence_trend: standing.progress.trend,
        iterations: if detailed { rows } else { Vec::new() },
        progress: if detailed { standing.lines.clone() } else { Vec::new() },
        spent: (!minimal).then_some(spent),
    };
    let trend = serde_json::to_value(answer.convergence_trend).unwrap_or_default();
    let mut words = format!(
        "{}, iterations: {}, {}\n",
        answer.current_state,
        answer.iterations_completed,
        trend.as_str().unwrap_or_default()
    );
    if let (Some(scores), Some(times)) = (&answer.quality_scores, &answer.time_per_iteration_ms) {
        for (score, time) in scores.iter().zip(times) {
            words.push_str(&format!("score {score}, {time} ms\n"));
        }
    }
    if let Some(spent) = &answer.spent {
        words.push_str(&format!("{spent}\n"));
    }
    for row in &answer.iterations {
        let what = match (&row.unusable, &row.tests) {
            (Some(why), _) => format!("not usable: {why}"),
            (None, Some(tests)) => format!("{} of {} tests are good", tests.good, tests.of),
            (None, None) => "no result".to_owned(),
        };
        words.push_str(&barred(&what));
    }
    for line in &answer.progress {
        words.push_str(&barred(line));
    }
    Ok(answered(&answer, words))
}

/// Next steps after a session.
fn recommendations(standing: &Standing) -> Vec<String> {
    let all: &[&str] = match standing.phase {
        Phase::Converged => &[
            "read the diff, and write the archive's files with workspace_write",
            "run_critic_review before you take it over",
        ],
        Phase::Escalated => &[
            "revise_code goes on with more instructions",
            "configure_endpoint chooses another model, then revise_code",
            "the best artifact is in the archive as it is",
        ],
        Phase::Failed | Phase::Idle => &["execute_task_spec begins another session"],
        _ => &["revise_code goes on with what was interrupted"],
    };
    all.iter().map(|one| (*one).to_owned()).collect()
}

pub async fn handoff(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: input::FinalHandoffArchive = parse(arguments)?;
    let (held, owner, session) = (live.clone(), caller.clone(), asked.session_id.clone());
    let archive = blocking(move || held.agent_handoff(&owner, &session, asked.include_audit)).await?;
    let standing = standing(live, caller, asked.session_id).await?;
    let best = archive.session.best.as_ref();
    let diff = archive.session.diff.as_deref().unwrap_or_default();
    let shown = &diff[..beginning(diff, MAX_CONTENT_CHARS / 2)];
    let uri = uri_of_handoff(&archive.archive_id, asked.include_audit);
    let answer = output::HandedOver {
        uri: uri.clone(),
        final_artifact: archive.artifact_id.clone(),
        files: best.map(|best| best.files.clone()).unwrap_or_default(),
        diff: (!shown.is_empty()).then(|| shown.to_owned()),
        test_suite: best.map(|best| output::Suite {
            run: best.tests.run.clone(),
            good: best.tests.good,
            of: best.tests.of,
        }),
        final_quality_score: best.map(|best| best.score.score),
        total_iterations: standing.iteration,
        audit_events: archive.audit_trail.len(),
        recommendations: recommendations(&standing),
        archive_id: archive.archive_id,
    };
    let mut words = match (&answer.final_artifact, answer.final_quality_score, &answer.test_suite) {
        (Some(id), Some(score), Some(suite)) => {
            format!("artifact {id}: {} of {} tests are good, score {score}\n", suite.good, suite.of)
        }
        _ => "no artifact is better than the given code\n".to_owned(),
    };
    words.push_str(&format!("code, tests, evidence and {} events: {uri}\n", answer.audit_events));
    for step in &answer.recommendations {
        words.push_str(&format!("{step}\n"));
    }
    words.push_str(&barred(shown));
    if shown.len() < diff.len() {
        words.push_str(&format!("({} bytes of the diff are left out)\n", diff.len() - shown.len()));
    }
    let mut result = answered(&answer, words);
    let link =
        Resource::new(uri, format!("archive of {}", answer.archive_id)).with_mime_type("application/json");
    result.content.push(ContentBlock::resource_link(link));
    Ok(result)
}
