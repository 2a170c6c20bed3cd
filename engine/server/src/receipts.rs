//! Receipts of callers' runs, where the operator's configuration wants one for each: made after the answer, and read by the run's caller.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hotcell_receipts::run::RunFacts;
use hotcell_receipts::{Subject, record, run, test_result, tree};
use hotcell_report::RunReport;
use hotcell_review::quarantine::QuarantineConfig;
use hotcell_state::caller::Caller;
use hotcell_state::history::Stored;
use hotcell_verbs::pinned::PinnedWorkspace;
use hotcell_verbs::request::Merged;
use sha2::{Digest, Sha256};

use crate::registry::Live;
use crate::run::{Answer, Run, RunContext};
use crate::signing::ReceiptFacts;
use crate::workspaces::RunDir;

/// The files of a run, before it starts.
#[derive(Debug)]
enum Files {
    Folder(PathBuf),
    Kept(Arc<PinnedWorkspace>),
}

impl Files {
    /// Their subject. Blocks.
    fn subject(&self) -> Result<Subject, String> {
        match self {
            Self::Folder(folder) => tree::subject("workspace", folder, &[]).map_err(|e| e.to_string()),
            Self::Kept(kept) => kept
                .pinned()
                .with_view(|_, view| Ok(tree::of_view("workspace", view)))
                .map_err(|e| e.to_string())?
                .map_err(|e| e.to_string()),
        }
    }
}

impl RunContext {
    /// Notes facts for the run's receipt.
    pub(crate) fn state_in_receipt(&self, change: impl FnOnce(&mut ReceiptFacts)) {
        change(&mut self.run.receipt_facts());
    }

    /// Notes the policy under which the run starts, if it gets a receipt.
    pub(crate) fn state_policy(&self, merged: &Merged) {
        if self.run.has_receipt {
            self.state_in_receipt(|facts| facts.in_force = Some(merged.in_force()));
        }
    }

    /// Takes the digest of the files that the run sees, if it gets a receipt. Files without a digest end in a receipt without them: its subject is the
    /// request then.
    pub(crate) async fn digest_files(&self, workspace: Option<&RunDir>) {
        if !self.run.has_receipt {
            return;
        }
        let files = match workspace {
            None => return,
            Some(RunDir::Temporary(temporary)) => Files::Folder(temporary.path().to_owned()),
            Some(RunDir::Pinned(kept)) => Files::Kept(Arc::clone(kept)),
        };
        self.digest(files).await;
    }

    /// Like [`RunContext::digest_files`], for a folder that only the run sees.
    pub(crate) async fn digest_folder(&self, folder: &Path) {
        if self.run.has_receipt {
            self.digest(Files::Folder(folder.to_owned())).await;
        }
    }

    async fn digest(&self, files: Files) {
        match tokio::task::spawn_blocking(move || files.subject()).await {
            Ok(Ok(subject)) => self.state_in_receipt(|facts| facts.subjects.push(subject)),
            Ok(Err(why)) => tracing::warn!("the files of a run have no digest for its receipt: {why}"),
            Err(error) => tracing::warn!("the files of a run have no digest for its receipt: {error}"),
        }
    }
}

impl Live {
    /// Makes the receipt of a run that has ended, in the background.
    pub(crate) fn make_receipt(
        &self,
        run: &Arc<Run>,
        stored: &Stored,
        answer: Arc<Answer>,
        outcome: RunReport,
    ) {
        let Some(issuer) = self.issuer().filter(|_| run.has_receipt) else { return };
        let Some(config) = QuarantineConfig::of(&self.configuration_of(&run.caller)) else { return };
        let (run, stored) = (Arc::clone(run), stored.clone());
        self.behind(async move {
            let made = tokio::task::spawn_blocking(move || {
                let facts = run.receipt_facts().clone();
                let mut subjects = facts.subjects;
                if subjects.is_empty() {
                    subjects.push(Subject::with("request", "sha256", hex::encode(run.content)));
                }
                issuer
                    .issue_for(&config, &stored.id, env!("CARGO_PKG_VERSION"), |about| match &*answer {
                        Answer::Tests(report) => {
                            let json = serde_json::to_vec(report)?;
                            test_result::statement(report, &json, facts.image_digest, subjects, about)
                        }
                        Answer::Outcome(_) => {
                            let facts = RunFacts {
                                program: stored.command.first().map_or("", String::as_str),
                                command: &stored.command,
                                profile: None,
                                policy_sha256: facts.in_force.as_ref().map(|policy| &*policy.policy_sha256),
                                limits: facts.in_force.as_ref().map(|policy| &policy.limits),
                                image: facts.image.as_deref(),
                                image_digest: facts.image_digest.clone(),
                                guard: facts.guard.as_deref(),
                                outcome_json: &serde_json::to_vec(&outcome)?,
                            };
                            run::statement(&outcome, &facts, subjects, about)
                        }
                    })
                    .map(|envelope| run.receive(hex::encode(Sha256::digest(envelope))))
            });
            match made.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::error!("a run has no receipt: {error}"),
                Err(error) => tracing::error!("a run has no receipt: {error}"),
            }
        });
    }

    /// The receipt of a caller's run, an envelope in JSON; `None` until it was made. Blocks.
    #[must_use]
    pub fn receipt(&self, caller: &Caller, id: &str) -> Option<String> {
        let run = self.run(caller, id).ok()?;
        self.kept_receipt(run.receipt()?)
    }

    /// A receipt of a caller's session, an envelope in JSON, by the session's handle and a number from 1 (each reset ends a session with a receipt of its own); `None`
    /// until it was made. Blocks.
    #[must_use]
    pub fn session_receipt(&self, caller: &Caller, id: &str, number: usize) -> Option<String> {
        let mut receipts = self.sessions().receipts(caller).into_iter();
        let (_, receipts) = receipts.find(|(session, _)| session == id)?;
        self.kept_receipt(receipts.get(number.checked_sub(1)?)?.as_deref()?)
    }

    fn kept_receipt(&self, digest: &str) -> Option<String> {
        match record::kept(&self.state_folder(), digest) {
            Ok(receipt) => receipt,
            Err(error) => {
                tracing::warn!("{error}");
                None
            }
        }
    }
}
