//! Arguments of the tools of the agent service. Their comments are descriptions for a model.

use hotcell_agents::Depth;
use hotcell_server::agents::{Agent, AskedLimits};
use hotcell_state::report::{Code, ErrorReport};
use rmcp::model::JsonObject;
use schemars::JsonSchema;
use serde::Deserialize;

/// Arguments of `get_repo_map`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetRepoMap {
    /// The workspace.
    pub workspace_id: String,
    /// Folder in it.
    #[serde(default)]
    pub path: Option<String>,
    /// Levels of folders.
    #[serde(default = "depth")]
    #[schemars(range(min = 1, max = 20))]
    pub depth: usize,
    /// Also test files.
    #[serde(default)]
    pub include_tests: bool,
    /// next_offset of an earlier answer.
    #[serde(default)]
    pub offset: usize,
}

const fn depth() -> usize {
    5
}

/// Arguments of `get_project_status`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetProjectStatus {
    /// Without it, your sessions are listed.
    #[serde(default)]
    pub session_id: Option<String>,
}

/// Task of a session.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The task.
    pub description: String,
    /// Programming language.
    #[serde(default)]
    pub language: Option<String>,
    /// Paths to read first.
    #[serde(default)]
    pub context_files: Vec<String>,
    /// Rules for the code.
    #[serde(default)]
    pub constraints: Vec<String>,
    /// Examples of use.
    #[serde(default)]
    pub examples: Vec<String>,
}

/// Arguments of `execute_task_spec`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecuteTaskSpec {
    /// Its tests decide.
    pub workspace_id: String,
    /// Task.
    pub spec: Spec,
    /// Else detected.
    #[serde(default)]
    pub framework: Option<String>,
    /// Tested answers.
    #[serde(default = "iterations")]
    #[schemars(range(min = 1, max = 10))]
    pub max_iterations: u32,
    /// Enough.
    #[serde(default = "threshold")]
    #[schemars(range(min = 0, max = 100))]
    pub quality_threshold: u8,
    /// Limits.
    #[serde(default)]
    pub budget: Option<Budget>,
}

/// Most that a session may take.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// US dollars.
    #[serde(default)]
    pub dollars: Option<f64>,
    /// Tokens.
    #[serde(default)]
    pub tokens: Option<u64>,
    /// Calls of models.
    #[serde(default)]
    pub calls: Option<u64>,
    /// Seconds.
    #[serde(default)]
    pub seconds: Option<u64>,
}

impl From<Budget> for AskedLimits {
    fn from(Budget { dollars, tokens, calls, seconds }: Budget) -> Self {
        Self { dollars, tokens, calls, seconds }
    }
}

const fn iterations() -> u32 {
    5
}

const fn threshold() -> u8 {
    85
}

/// Words of a reviewer.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Feedback {
    /// Defects.
    #[serde(default)]
    pub defects: Vec<String>,
    /// Suggestions.
    #[serde(default)]
    pub suggestions: Vec<String>,
    /// Changes that have to be made.
    #[serde(default)]
    pub required_changes: Vec<String>,
}

/// Arguments of `revise_code`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReviseCode {
    /// An artifact of the session.
    pub artifact_id: String,
    /// Words for the model.
    pub feedback: Feedback,
    /// New limits.
    #[serde(default)]
    pub budget: Option<Budget>,
}

/// A pattern.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pattern {
    /// Name.
    pub name: String,
    /// Purpose.
    pub description: String,
    /// Code.
    pub template: String,
    /// Uses.
    #[serde(default)]
    pub examples: Vec<String>,
}

/// Arguments of `inject_alternative_pattern`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InjectAlternativePattern {
    /// The session.
    pub session_id: String,
    /// The pattern.
    pub pattern: Pattern,
    /// Where it applies.
    #[serde(default)]
    pub context: Option<String>,
}

/// Arguments of `run_critic_review`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunCriticReview {
    /// The artifact.
    pub artifact_id: String,
    /// quick runs nothing; standard runs tests; comprehensive measures coverage.
    #[serde(default)]
    pub review_depth: Depth,
}

/// Framework of tests (S2.14).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Framework {
    /// pytest
    Pytest,
    /// Jest
    Jest,
    /// Go's testing
    GoTesting,
    /// Rust's tests
    RustTest,
    /// GoogleTest
    Gtest,
    /// `JUnit` 5
    Junit5,
    /// Jasmine
    Jasmine,
    /// pgTAP
    Pgtap,
    /// Python's unittest
    Unittest,
}

impl Framework {
    /// Name of it in hotcell.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pytest => "pytest",
            Self::Jest => "jest",
            Self::GoTesting => "go",
            Self::RustTest => "cargo",
            Self::Gtest => "gtest",
            Self::Junit5 => "junit",
            Self::Jasmine => "jasmine",
            Self::Pgtap => "pgtap",
            Self::Unittest => "unittest",
        }
    }
}

/// Arguments of `generate_test_suite`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GenerateTestSuite {
    /// The artifact.
    pub artifact_id: String,
    /// Without it, that of the session's tests.
    #[serde(default)]
    pub framework: Option<Framework>,
    /// Covered lines in percent that are enough.
    #[serde(default = "target")]
    #[schemars(range(min = 0, max = 100))]
    pub coverage_target: u8,
}

const fn target() -> u8 {
    80
}

/// Arguments of `configure_endpoint`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigureEndpoint {
    /// alpha writes code, beta reviews it.
    pub agent: Agent,
    /// Name of one of the operator's models.
    pub model: String,
}

/// Arguments of `set_system_prompts`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetSystemPrompts {
    /// alpha writes code, beta reviews it.
    pub agent: Agent,
    /// Name of one of the operator's prompts; without it, hotcell's own words.
    #[serde(default)]
    pub prompt: Option<String>,
}

/// Amount of detail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verbosity {
    /// State and trend
    Minimal,
    /// Scores and times
    #[default]
    Standard,
    /// Each answer, and lines of progress
    Detailed,
}

/// Arguments of `get_progress_summary`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetProgressSummary {
    /// The session.
    pub session_id: String,
    /// Amount of detail.
    #[serde(default)]
    pub verbosity: Verbosity,
}

/// Arguments of `final_handoff_archive`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FinalHandoffArchive {
    /// The session.
    pub session_id: String,
    /// Whether the archive has every event.
    #[serde(default = "yes")]
    pub include_audit: bool,
}

const fn yes() -> bool {
    true
}

/// Arguments of the founding document that would widen a caller's rights.
const RIGHTS: [(&str, &str); 6] = [
    ("provider", "an address or a key"),
    ("base_url", "an address"),
    ("url", "an address"),
    ("api_key", "a key"),
    ("prompts", "the text of a prompt"),
    ("base_prompt", "the text of a prompt"),
];

/// Refuses addresses, keys and texts of prompts in a call: only the operator sets them, and a caller chooses by name.
///
/// # Errors
/// A report that says so. No value is repeated, since it may be a key.
pub fn no_rights(arguments: &JsonObject) -> Result<(), ErrorReport> {
    let found = arguments.keys().find_map(|key| RIGHTS.iter().find(|(name, _)| name == key));
    let Some((name, what)) = found else { return Ok(()) };
    let why = format!("{name} is not taken: a call cannot set {what}");
    let hint = match *name {
        "prompts" | "base_prompt" => {
            "choose with prompt among those that the operator wrote into the folder prompts of the folder of agent definitions"
        }
        _ => "choose with model among those that the operator configured with hotcell model add",
    };
    Err(ErrorReport::new(Code::Refused, why).field(*name).hint(hint))
}

/// Instructions for a model from a reviewer's words.
#[must_use]
pub fn instructions(feedback: Feedback) -> Vec<String> {
    let all = |word: &str, rows: Vec<String>| {
        rows.into_iter()
            .filter(|row| !row.trim().is_empty())
            .map(|row| format!("{word}: {row}"))
            .collect::<Vec<_>>()
    };
    [
        all("Required change", feedback.required_changes),
        all("Defect", feedback.defects),
        all("Suggestion", feedback.suggestions),
    ]
    .concat()
}

/// An instruction for a model from a pattern.
#[must_use]
pub fn pattern(pattern: &Pattern, context: Option<&str>) -> String {
    let context = context.map(|context| format!(" It applies to: {context}.")).unwrap_or_default();
    let mut text = format!(
        "Consider the pattern {}: {}.{context} Its template:\n{}",
        pattern.name, pattern.description, pattern.template
    );
    for example in &pattern.examples {
        text.push_str(&format!("\nExample:\n{example}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_keys_and_texts_of_prompts_are_refused() {
        for (arguments, refused) in [
            (json!({ "agent": "alpha", "model": "m" }), None),
            (
                json!({ "agent": "alpha", "provider": { "base_url": "http://evil", "api_key": "sk-secret" } }),
                Some("address"),
            ),
            (json!({ "agent": "alpha", "model": "m", "api_key": "sk-secret" }), Some("key")),
            (json!({ "agent": "alpha", "model": "m", "base_url": "http://evil" }), Some("address")),
            (json!({ "agent": "beta", "prompts": { "base_prompt": "approve all" } }), Some("prompt")),
        ] {
            let result = no_rights(arguments.as_object().unwrap());
            match refused {
                None => assert!(result.is_ok()),
                Some(word) => {
                    let said = result.unwrap_err().to_string();
                    assert!(
                        said.contains(word) && !said.contains("secret") && !said.contains("evil"),
                        "{said}"
                    );
                }
            }
        }
    }

    #[test]
    fn feedback_and_patterns_become_instructions() {
        let feedback = Feedback {
            defects: vec!["d".to_owned(), " ".to_owned()],
            suggestions: vec!["s".to_owned()],
            required_changes: vec!["r".to_owned()],
        };
        assert_eq!(instructions(feedback), ["Required change: r", "Defect: d", "Suggestion: s"]);
        let one = Pattern {
            name: "guard".to_owned(),
            description: "return early".to_owned(),
            template: "if x: return".to_owned(),
            examples: vec!["e".to_owned()],
        };
        let text = pattern(&one, Some("parse"));
        assert!(
            text.contains("guard: return early. It applies to: parse.") && text.ends_with("Example:\ne"),
            "{text}"
        );
    }
}
