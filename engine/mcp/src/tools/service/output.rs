//! Answers of the tools of the agent service.

use hotcell_agents::critic::{Defect, Recommendation};
use hotcell_agents::report::IterationRow;
use hotcell_server::agents::Trend;
use schemars::JsonSchema;
use serde::Serialize;

/// A file or folder.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileNode {
    /// Path.
    pub path: String,
    /// file or folder
    pub kind: &'static str,
    /// Size of a file in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Number of files below a folder that is not opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
}

/// Answer of `get_repo_map`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RepoMap {
    /// Files and folders by path.
    pub structure: Vec<FileNode>,
    /// Number of all files.
    pub total_files: u64,
    /// Tokens of all files, at four bytes each.
    pub total_tokens_estimated: u64,
    /// Offset of the next ones; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
}

/// A session in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Session {
    /// Session.
    pub session_id: String,
    /// State.
    pub state: String,
}

/// Answer of `get_project_status`.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Status {
    /// Session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// IDLE, GENERATING, REVIEWING, REVISING, CONVERGED, ESCALATED or FAILED
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Why it ended without an accepted artifact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// True while the session goes on by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<bool>,
    /// Tested artifacts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_iteration: Option<u32>,
    /// Maximum of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<u32>,
    /// Score that is enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quality_threshold: Option<u8>,
    /// Computed score of the last artifact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_quality_score: Option<u8>,
    /// Ids of artifacts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<String>,
    /// Best of them, if it is better than the given code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_artifact: Option<String>,
    /// Time of work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elapsed_time_ms: Option<u64>,
    /// Your sessions, the newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<Session>,
}

/// Answer of `execute_task_spec` and `revise_code`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Accepted {
    /// Session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// accepted or rejected
    pub status: &'static str,
    /// Why it is rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejection_reason: Option<String>,
    /// Time after which it ends at the latest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_duration_ms: Option<u64>,
}

/// Answer of `inject_alternative_pattern`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Injected {
    /// Session.
    pub session_id: String,
    /// Whether the next question of the session has it without a further call.
    pub running: bool,
}

/// Answer of `run_critic_review`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Reviewed {
    /// Review.
    pub review_id: String,
    /// 0 to 100: computed, less what defects take.
    pub quality_score: u8,
    /// Score computed from the guard and runs.
    pub computed_score: u8,
    /// Defects that a model names; its words.
    pub defects: Vec<Defect>,
    /// Covered lines in percent, measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_coverage: Option<f64>,
    /// Good tests and all tests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tests: Option<[u64; 2]>,
    /// Findings of the guard.
    pub policy_violations: Vec<String>,
    /// Suggestions of a model.
    pub suggestions: Vec<String>,
    /// approve, revise or escalate; advice
    pub recommendation: Recommendation,
    /// Why something was not measured or not read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A file of tests.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TestFile {
    /// Path.
    pub path: String,
    /// Text.
    pub content: String,
}

/// Answer of `generate_test_suite`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Generated {
    /// Id of the suite.
    pub test_artifact_id: String,
    /// Whether the tests pass on the code and fail on a wrong version of it.
    pub accepted: bool,
    /// Why they are not accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Number of new tests.
    pub test_count: u64,
    /// Covered lines in percent, measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coverage: Option<f64>,
    /// Whether that is the target or more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_reached: Option<bool>,
    /// Wrong versions of the code on which the tests fail, and all that were tried.
    pub mutants_killed: [u64; 2],
    /// The files.
    pub test_code: Vec<TestFile>,
}

/// Answer of `configure_endpoint`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Configured {
    /// Whether the model is used from now on.
    pub success: bool,
    /// Result of asking it.
    pub health_check: String,
    /// Model before, if one was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_config: Option<String>,
}

/// Answer of `set_system_prompts`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Prompted {
    /// True when the prompt is used from the next session or review on.
    pub success: bool,
    /// Prompt before, if one was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_prompt: Option<String>,
}

/// Answer of `get_progress_summary`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Summary {
    /// Session.
    pub session_id: String,
    /// Tested artifacts.
    pub iterations_completed: u32,
    /// Their computed scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quality_scores: Option<Vec<u8>>,
    /// Time of each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_per_iteration_ms: Option<Vec<u64>>,
    /// State.
    pub current_state: String,
    /// improving, stagnant or oscillating
    pub convergence_trend: Trend,
    /// Answers of the model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub iterations: Vec<IterationRow>,
    /// Lines of progress, the newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub progress: Vec<String>,
    /// Calls and tokens so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spent: Option<String>,
}

/// Tests of an artifact.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Suite {
    /// Run in hotcell's history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Good tests.
    pub good: u64,
    /// All tests.
    pub of: u64,
}

/// Answer of `final_handoff_archive`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HandedOver {
    /// Archive: the session.
    pub archive_id: String,
    /// Resource with code, tests, evidence and every event.
    pub uri: String,
    /// Artifact; absent when none is better than the given code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_artifact: Option<String>,
    /// Changed files.
    pub files: Vec<String>,
    /// Changes, cut to the budget of an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// Tests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_suite: Option<Suite>,
    /// Computed score.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_quality_score: Option<u8>,
    /// Tested artifacts.
    pub total_iterations: u32,
    /// Number of events in the archive.
    pub audit_events: usize,
    /// Next steps.
    pub recommendations: Vec<String>,
}
