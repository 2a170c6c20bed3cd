//! Tools of the agent service (S2.6 to S2.18): sessions in which models write code, judged by tests. A set that is off until the operator turns it on.

mod input;
mod map;
mod output;
mod tell;
mod work;

use hotcell_server::{Caller, Live};
use hotcell_state::report::ErrorReport;
use rmcp::model::{CallToolResult, JsonObject, Tool};

use crate::toolsets;
use crate::wait::Listener;

use super::schema::brief;
use super::{Effect, tool};

/// The tools.
pub(super) fn tools() -> Vec<Tool> {
    vec![
        tool::<input::GetRepoMap>(
            "get_repo_map",
            "Map a workspace",
            "Lists files and folders of a workspace with sizes.",
            brief::<output::RepoMap>(1),
            Effect::Reads,
        ),
        tool::<input::GetProjectStatus>(
            "get_project_status",
            "Status of a session",
            "Says how a session stands.",
            brief::<output::Status>(1),
            Effect::Reads,
        ),
        tool::<input::ExecuteTaskSpec>(
            "execute_task_spec",
            "Begin",
            "A model writes code in a copy until tests pass, in the background.",
            brief::<output::Accepted>(1),
            Effect::Adds,
        ),
        tool::<input::ReviseCode>(
            "revise_code",
            "Revise",
            "Goes on with a session that escalated.",
            brief::<output::Accepted>(1),
            Effect::Adds,
        ),
        tool::<input::InjectAlternativePattern>(
            "inject_alternative_pattern",
            "Propose a pattern",
            "Gives a pattern to the next question of a session.",
            brief::<output::Injected>(1),
            Effect::Adds,
        ),
        tool::<input::RunCriticReview>(
            "run_critic_review",
            "Review an artifact",
            "Measures an artifact, then a model names defects, which only take points.",
            brief::<output::Reviewed>(1),
            Effect::Adds,
        ),
        tool::<input::GenerateTestSuite>(
            "generate_test_suite",
            "Write tests",
            "Lets a model write tests for an artifact; they are accepted when they fail on wrong versions of it.",
            brief::<output::Generated>(1),
            Effect::Adds,
        ),
        tool::<input::ConfigureEndpoint>(
            "configure_endpoint",
            "Choose a model",
            "Chooses one of the operator's models for your sessions, if it replies.",
            brief::<output::Configured>(1),
            Effect::Replaces,
        ),
        tool::<input::SetSystemPrompts>(
            "set_system_prompts",
            "Choose a prompt",
            "Chooses one of the operator's prompts for your sessions.",
            brief::<output::Prompted>(1),
            Effect::Replaces,
        ),
        tool::<input::GetProgressSummary>(
            "get_progress_summary",
            "Progress of a session",
            "Scores and times of a session's iterations.",
            brief::<output::Summary>(1),
            Effect::Reads,
        ),
        tool::<input::FinalHandoffArchive>(
            "final_handoff_archive",
            "Hand over",
            "Gives the best artifact: its diff, and a resource with code, tests, evidence and events.",
            brief::<output::HandedOver>(1),
            Effect::Reads,
        ),
    ]
}

/// Whether a tool is in this set.
pub(super) fn has(name: &str) -> bool {
    toolsets::set_of(name) == Some(toolsets::AGENT_SERVICE)
}

/// Calls a tool of this set.
pub(super) async fn call(
    live: &Live,
    caller: &Caller,
    name: &str,
    arguments: JsonObject,
    listener: &Listener,
) -> Result<CallToolResult, ErrorReport> {
    match name {
        "get_repo_map" => tell::repo_map(live, caller, arguments).await,
        "get_project_status" => tell::status(live, caller, arguments).await,
        "execute_task_spec" => work::execute(live, caller, arguments).await,
        "revise_code" => work::revise(live, caller, arguments).await,
        "inject_alternative_pattern" => work::inject(live, caller, arguments).await,
        "run_critic_review" => work::review(live, caller, arguments, listener).await,
        "generate_test_suite" => work::suite(live, caller, arguments, listener).await,
        "configure_endpoint" => work::configure(live, caller, arguments).await,
        "set_system_prompts" => work::prompts(live, caller, arguments).await,
        "get_progress_summary" => tell::progress(live, caller, arguments).await,
        _ => tell::handoff(live, caller, arguments).await,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn tools_of_the_service_cost_at_most_250_tokens() {
        for tool in tools() {
            let listed = crate::tools::schema::lean(&tool);
            let text = serde_json::to_value(&listed).unwrap().to_string();
            // Four and a half characters a token, as these schemas have them; `scripts/test --only mcp` counts tokens.
            assert!(text.len() <= 1_130, "{}: {} {text}", tool.name, text.len());
            let input = Value::Object((*listed.input_schema).clone()).to_string();
            for word in ["additionalProperties", "oneOf", "\"const\""] {
                assert!(!input.contains(word), "{}: {word}", tool.name);
            }
        }
    }
}
