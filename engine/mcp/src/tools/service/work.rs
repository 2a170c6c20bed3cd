//! Tools of the agent service that begin, steer and review work.

use hotcell_sandbox::text::counted;
use hotcell_server::agents::{ArtifactId, AskedLimits, Specification, Taken};
use hotcell_server::{Caller, Live};
use hotcell_state::report::{Code, ErrorReport, printable_line};
use rmcp::model::{CallToolResult, JsonObject};
use tokio::sync::watch;

use crate::blocking::blocking;
use crate::reply::answered;
use crate::text::barred;
use crate::tools::parse;
use crate::wait::Listener;

use super::tell::standing;
use super::{input, output};

type Answered = Result<CallToolResult, ErrorReport>;

/// Maximum size of a task in words, with files and examples, in bytes.
const MAX_WORDS_BYTES: usize = 64 * 1024;
/// Maximum size of an instruction, in bytes.
const MAX_INSTRUCTION_BYTES: usize = 16 * 1024;
/// Maximum size of one file that is read first, in bytes.
const MAX_CONTEXT_BYTES: usize = 16 * 1024;
/// Maximum number of findings and defects in an answer.
const MAX_ROWS: usize = 30;

fn accepted(taken: &Taken) -> CallToolResult {
    let answer = output::Accepted {
        session_id: Some(taken.session_id.clone()),
        status: "accepted",
        rejection_reason: None,
        max_duration_ms: Some(taken.most_ms),
    };
    let words = format!(
        "accepted: session_id {}; it goes on in the background: get_project_status, then final_handoff_archive",
        taken.session_id
    );
    answered(&answer, words)
}

/// A session that cannot begin is an answer (S2.9); a mistake in the arguments is an error.
fn or_rejected(begun: Result<Taken, ErrorReport>) -> Answered {
    let report = match begun {
        Ok(taken) => return Ok(accepted(&taken)),
        Err(report) if matches!(report.code, Code::Busy | Code::Configuration | Code::Refused) => report,
        Err(report) => return Err(report),
    };
    let reason = printable_line(&crate::parameters::in_arguments(&report.to_string()));
    let words = format!("rejected: {reason}");
    let answer = output::Accepted {
        session_id: None,
        status: "rejected",
        rejection_reason: Some(reason),
        max_duration_ms: None,
    };
    Ok(answered(&answer, words))
}

fn bounded(field: &str, text: &str, most: usize) -> Result<(), ErrorReport> {
    if text.trim().is_empty() || text.len() > most {
        let why = format!("{field} has {} bytes; allowed is 1 to {most}", text.len());
        return Err(ErrorReport::new(Code::InvalidValue, why).field(field));
    }
    Ok(())
}

pub async fn execute(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: input::ExecuteTaskSpec = parse(arguments)?;
    let limits = AskedLimits::from(asked.budget.unwrap_or_default());
    limits.check()?;
    bounded("spec.description", &asked.spec.description, MAX_WORDS_BYTES)?;
    let (held, owner) = (live.clone(), caller.clone());
    let begun = blocking(move || {
        let workspace = held.workspaces().get(&owner, &asked.workspace_id)?;
        let spec = asked.spec;
        let mut words = spec.description;
        if let Some(language) = &spec.language {
            words.push_str(&format!("\nLanguage: {language}"));
        }
        for example in &spec.examples {
            words.push_str(&format!("\nExample:\n{example}"));
        }
        for path in &spec.context_files {
            let (_, bytes) = workspace.read(path, 0, MAX_CONTEXT_BYTES)?;
            words.push_str(&format!("\nRead first, {path}:\n{}", String::from_utf8_lossy(&bytes)));
        }
        bounded("spec", &words, MAX_WORDS_BYTES)?;
        for constraint in &spec.constraints {
            bounded("spec.constraints", constraint, MAX_INSTRUCTION_BYTES)?;
        }
        let specification = Specification {
            workspace_id: asked.workspace_id,
            words,
            constraints: spec.constraints,
            framework: asked.framework,
            iterations: asked.max_iterations,
            threshold: asked.quality_threshold,
            limits,
        };
        Ok(held.agent_begin(&owner, &specification))
    });
    or_rejected(begun.await?)
}

fn artifact(text: &str) -> Result<ArtifactId, ErrorReport> {
    text.parse().map_err(|why: String| {
        ErrorReport::new(Code::InvalidValue, why)
            .field("artifact_id")
            .hint("get_project_status lists a session's artifacts")
    })
}

pub async fn revise(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: input::ReviseCode = parse(arguments)?;
    let limits = AskedLimits::from(asked.budget.unwrap_or_default());
    limits.check()?;
    let artifact = artifact(&asked.artifact_id)?;
    let instructions = input::instructions(asked.feedback);
    for instruction in &instructions {
        bounded("feedback", instruction, MAX_INSTRUCTION_BYTES)?;
    }
    let (held, owner) = (live.clone(), caller.clone());
    let begun = blocking(move || Ok(held.agent_revise(&owner, &artifact.session, &instructions, limits)));
    or_rejected(begun.await?)
}

pub async fn inject(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: input::InjectAlternativePattern = parse(arguments)?;
    let instruction = input::pattern(&asked.pattern, asked.context.as_deref());
    bounded("pattern", &instruction, MAX_INSTRUCTION_BYTES)?;
    let (held, owner, session) = (live.clone(), caller.clone(), asked.session_id.clone());
    blocking(move || held.agent_instruct(&owner, &session, &instruction)).await?;
    let running = standing(live, caller, asked.session_id.clone()).await?.running;
    let words = if running {
        "the next question of the session has it"
    } else {
        "the session has it when it goes on: revise_code"
    };
    Ok(answered(&output::Injected { session_id: asked.session_id, running }, words))
}

pub async fn review(live: &Live, caller: &Caller, arguments: JsonObject, listener: &Listener) -> Answered {
    let asked: input::RunCriticReview = parse(arguments)?;
    let artifact = artifact(&asked.artifact_id)?;
    let (stop, stopped) = watch::channel(false);
    let (held, owner) = (live.clone(), caller.clone());
    let work = blocking(move || held.agent_review(&owner, &artifact, asked.review_depth, stopped));
    let report = tokio::select! {
        report = work => report?,
        () = listener.gone() => {
            let _ = stop.send(true);
            return Err(ErrorReport::new(Code::Internal, "cancelled"));
        }
    };
    let violation = |finding: &hotcell_guard::Finding| {
        printable_line(&format!("{}:{}: {} ({})", finding.part, finding.line, finding.message, finding.rule))
    };
    let in_words = |why: &String| printable_line(&crate::parameters::in_arguments(why));
    let mut notes: Vec<String> =
        [&report.no_tests, &report.model.why].into_iter().flatten().map(in_words).collect();
    for (count, words) in [
        (report.model.dropped, "defects were dropped, since they name no line that exists"),
        (report.model.unusable, "answers of the model could not be used"),
        (report.model.files_not_read, "files were not read by the model"),
    ] {
        if count > 0 {
            notes.push(format!("{count} {words}"));
        }
    }
    let answer = output::Reviewed {
        review_id: report.review_id.clone(),
        quality_score: report.quality_score,
        computed_score: report.computed.score,
        defects: report.defects.iter().take(MAX_ROWS).cloned().collect(),
        test_coverage: report.tests.as_ref().and_then(|tests| tests.coverage_percent),
        tests: report.tests.as_ref().map(|tests| [tests.good, tests.of]),
        policy_violations: report.policy_violations.iter().take(MAX_ROWS).map(violation).collect(),
        suggestions: report.suggestions.iter().take(MAX_ROWS).cloned().collect(),
        recommendation: report.recommendation,
        notes,
    };
    let advice = serde_json::to_value(answer.recommendation).unwrap_or_default();
    let mut words = format!(
        "{}: score {} (computed {}, less {} by defects), guard {}\n",
        advice.as_str().unwrap_or_default(),
        answer.quality_score,
        answer.computed_score,
        report.taken,
        report.guard.verdict.name()
    );
    if let Some([good, of]) = answer.tests {
        words.push_str(&format!("{good} of {of} tests are good\n"));
    }
    for note in &answer.notes {
        words.push_str(&format!("{note}\n"));
    }
    for defect in &answer.defects {
        let fix = defect.fix.as_deref().map(|fix| format!(" ({fix})")).unwrap_or_default();
        words.push_str(&barred(&format!("{}:{}: {}{fix}", defect.file, defect.line, defect.problem)));
    }
    for violation in &answer.policy_violations {
        words.push_str(&barred(violation));
    }
    for suggestion in &answer.suggestions {
        words.push_str(&barred(suggestion));
    }
    Ok(answered(&answer, words))
}

pub async fn suite(live: &Live, caller: &Caller, arguments: JsonObject, listener: &Listener) -> Answered {
    let asked: input::GenerateTestSuite = parse(arguments)?;
    let artifact = artifact(&asked.artifact_id)?;
    let framework = asked.framework.map(input::Framework::name);
    let (stop, stopped) = watch::channel(false);
    let (held, owner) = (live.clone(), caller.clone());
    let work = blocking(move || held.agent_suite(&owner, &artifact, framework, stopped));
    let suite = tokio::select! {
        suite = work => suite?,
        () = listener.gone() => {
            let _ = stop.send(true);
            return Err(ErrorReport::new(Code::Internal, "cancelled"));
        }
    };
    let mut room = crate::MAX_CONTENT_CHARS;
    let mut left_out = 0;
    let mut test_code = Vec::new();
    for (path, content) in suite.files {
        if content.len() > room {
            left_out += 1;
            continue;
        }
        room -= content.len();
        test_code.push(output::TestFile { path, content });
    }
    let answer = output::Generated {
        test_artifact_id: suite.id,
        accepted: suite.accepted,
        reason: suite.why.as_deref().map(printable_line),
        test_count: suite.tests,
        coverage: suite.coverage_percent,
        target_reached: suite.coverage_percent.map(|percent| percent >= f64::from(asked.coverage_target)),
        mutants_killed: [suite.killed, suite.mutants],
        test_code,
    };
    let mut words = format!(
        "{}: {}, failing on {} of {} wrong versions of the code\n",
        if answer.accepted { "accepted" } else { "not accepted" },
        counted(answer.test_count, "new test"),
        suite.killed,
        suite.mutants
    );
    if let Some(percent) = answer.coverage {
        words.push_str(&format!("{percent:.1} % of the lines are covered\n"));
    }
    if let Some(reason) = &answer.reason {
        words.push_str(&barred(reason));
    }
    if left_out > 0 {
        words.push_str(&format!(
            "{left_out} files are too long for an answer; final_handoff_archive has them\n"
        ));
    }
    for file in &answer.test_code {
        words.push_str(&barred(&format!("{}:\n{}", file.path, file.content)));
    }
    Ok(answered(&answer, words))
}

pub async fn configure(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    input::no_rights(&arguments)?;
    let asked: input::ConfigureEndpoint = parse(arguments)?;
    let (check, before) = live.agent_model(caller, asked.agent, &asked.model).await?;
    let health = match (&check.completion, &check.completion_problem) {
        (Some(answered), _) => format!("replied in {:.1} s", answered.seconds),
        (None, Some(problem)) => printable_line(problem),
        (None, None) => "no reply".to_owned(),
    };
    let words = if check.good {
        format!("{} is used from the next session or review on: {health}", check.name)
    } else {
        format!("{} is not used: {health}", check.name)
    };
    let answer = output::Configured { success: check.good, health_check: health, previous_config: before };
    Ok(answered(&answer, words))
}

pub async fn prompts(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    input::no_rights(&arguments)?;
    let asked: input::SetSystemPrompts = parse(arguments)?;
    let (held, owner) = (live.clone(), caller.clone());
    let before = blocking(move || held.agent_prompt(&owner, asked.agent, asked.prompt.as_deref())).await?;
    let words = "used from the next session or review on; hotcell's instructions come after it";
    Ok(answered(&output::Prompted { success: true, previous_prompt: before }, words))
}
