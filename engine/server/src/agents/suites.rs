//! Test suites for artifacts of callers.

use hotcell_agents::Journal;
use hotcell_agents::attempt::replay;
use hotcell_agents::journal::Entry;
use hotcell_agents::suite::{Suite, SuiteRequest};
use hotcell_state::caller::Caller;
use hotcell_state::report::{Code, ErrorReport};
use serde_json::json;
use tokio::sync::watch;

use crate::registry::Live;
use crate::running_agents::Agent;

use super::worker::Setting;
use super::{ArtifactId, limits};

/// Time limit for the model's part, in milliseconds.
const SUITE_TIMEOUT_MS: u64 = 15 * 60 * 1000;
/// Maximum of output tokens of an answer.
const MAX_OUTPUT_TOKENS: u32 = 8192;
/// Kind of the note about a suite.
const SUITE: &str = "suite";

impl Live {
    /// Lets the caller's model `alpha` write tests for an artifact of a session; the result is noted in the session. `stop` ends it. Blocks, and must
    /// not be called within a runtime.
    ///
    /// # Errors
    /// A report when there is no such artifact, the session runs, no model is configured, or it was stopped.
    pub fn agent_suite(
        &self,
        caller: &Caller,
        artifact: &ArtifactId,
        framework: Option<&str>,
        stop: watch::Receiver<bool>,
    ) -> Result<Suite, ErrorReport> {
        let standing = self.agent_standing(caller, &artifact.session)?;
        let missing = || {
            ErrorReport::new(Code::UnknownName, format!("there is no artifact {artifact}"))
                .field("artifact_id")
                .hint("get_project_status lists a session's artifacts")
        };
        let workspace = standing.workspace.clone().ok_or_else(missing)?;
        let (_, attempts, _) = replay(&standing.task, &standing.rows);
        let tested = attempts.first().and_then(|one| one.tested.get(artifact.number)).ok_or_else(missing)?;
        let chosen = self.agents().chosen(caller, Agent::Alpha);
        let setting = Setting::of(self, caller);
        let _place = self.agents().place()?;
        let request = SuiteRequest {
            workspace,
            artifact: artifact.number,
            changed: tested.files.clone(),
            before: tested.evidence.tests.keys().cloned().collect(),
            framework: framework.map_or_else(|| tested.evidence.framework.clone(), str::to_owned),
            model: chosen.model,
            limits: limits::of_call(&setting.configuration.user.agents.limits, SUITE_TIMEOUT_MS),
            max_output_tokens: MAX_OUTPUT_TOKENS,
            task: standing.task.words.clone(),
            base_prompt: chosen.prompt.map(|(_, text)| text),
        };
        let written = setting.drive(stop, &|_| (), async move |driver| {
            // A driver that works at the session uses its workspace.
            let _lock = driver.lock(&artifact.session)?;
            driver.suite(&request).await
        })?;
        let suite = written.ok_or_else(|| ErrorReport::new(Code::Internal, "the call was stopped"))?;
        let note = json!({ "artifact_id": artifact.to_string(), "suite": suite });
        let noted = Journal::open(&setting.folder).and_then(|journal| {
            journal.add(&artifact.session, 0, &[Entry::Noted { what: SUITE.to_owned(), value: note }])
        });
        noted.map_err(|e| ErrorReport::new(Code::State, e.to_string()))?;
        Ok(suite)
    }
}
