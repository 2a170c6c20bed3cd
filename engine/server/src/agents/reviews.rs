//! Reviews of artifacts for callers.

use hotcell_agents::journal::Entry;
use hotcell_agents::{Depth, Journal, ReviewReport, ReviewRequest, Subject};
use hotcell_state::caller::Caller;
use hotcell_state::report::{Code, ErrorReport};
use serde_json::json;
use tokio::sync::watch;

use crate::registry::Live;

use super::worker::Setting;
use super::{Agent, ArtifactId, limits};

/// Time limit for a model's part of a review, in milliseconds.
const REVIEW_TIMEOUT_MS: u64 = 10 * 60 * 1000;
/// Maximum of output tokens of an answer.
const MAX_OUTPUT_TOKENS: u32 = 4096;
/// Kind of the note about a review.
const REVIEW: &str = "review";

impl Live {
    /// Reviews an artifact of a caller's session; the result is noted in the session. `stop` ends it. Blocks, and must not be called within a runtime.
    ///
    /// # Errors
    /// A report when there is no such artifact, the session runs, or the review was stopped.
    pub fn agent_review(
        &self,
        caller: &Caller,
        artifact: &ArtifactId,
        depth: Depth,
        stop: watch::Receiver<bool>,
    ) -> Result<ReviewReport, ErrorReport> {
        let standing = self.agent_standing(caller, &artifact.session)?;
        let missing = || {
            ErrorReport::new(Code::UnknownName, format!("there is no artifact {artifact}"))
                .field("artifact_id")
                .hint("get_project_status lists a session's artifacts")
        };
        let changed = standing.files.get(artifact.number).cloned().ok_or_else(missing)?;
        let workspace = standing.workspace.clone().ok_or_else(missing)?;
        let chosen = self.agents().chosen(caller, Agent::Beta);
        let setting = Setting::of(self, caller);
        let _place = self.agents().place()?;
        let request = ReviewRequest {
            subject: Subject::Workspace { id: workspace, artifact: Some(artifact.number), changed },
            name: artifact.to_string(),
            depth,
            model: chosen.model,
            limits: limits::of_call(&setting.configuration.user.agents.limits, REVIEW_TIMEOUT_MS),
            framework: standing.task.framework.clone(),
            max_output_tokens: MAX_OUTPUT_TOKENS,
            task: standing.task.words.clone(),
            base_prompt: chosen.prompt.map(|(_, text)| text),
        };
        let reviewed = setting.drive(stop, &|_| (), async move |driver| {
            // A driver that works at the session uses its workspace.
            let _lock = driver.lock(&artifact.session)?;
            driver.review(&request).await
        })?;
        let report = reviewed.ok_or_else(|| ErrorReport::new(Code::Internal, "the review was stopped"))?;
        let note = json!({
            "review_id": report.review_id, "artifact_id": artifact.to_string(), "review_depth": depth,
            "quality_score": report.quality_score, "recommendation": report.recommendation,
            "defects": report.defects,
        });
        let journal = Journal::open(&setting.folder);
        let noted = journal.and_then(|journal| {
            journal.add(&artifact.session, 0, &[Entry::Noted { what: REVIEW.to_owned(), value: note }])
        });
        noted.map_err(|e| ErrorReport::new(Code::State, e.to_string()))?;
        Ok(report)
    }
}
