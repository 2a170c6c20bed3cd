//! Receipts of interpreter sessions, made when they have ended.

use std::sync::Arc;

use hotcell_receipts::run::{About, RunFacts};
use hotcell_receipts::session;
use hotcell_receipts::session_steps::{SessionStep, SessionSteps};
use hotcell_receipts::{Issuer, Statement};
use hotcell_review::quarantine::QuarantineConfig;
use hotcell_sessions::{SessionEnd, Witness};
use sha2::{Digest, Sha256};

/// Makes the receipts of a caller's sessions, where the operator's configuration wants one for each.
#[derive(Debug)]
pub struct SessionReceipts {
    issuer: Arc<Issuer>,
    config: QuarantineConfig,
}

impl SessionReceipts {
    /// Receipts by this issuer; entries of the audit log have the caller of `config`.
    #[must_use]
    pub const fn new(issuer: Arc<Issuer>, config: QuarantineConfig) -> Self {
        Self { issuer, config }
    }
}

impl Witness for SessionReceipts {
    fn ended(&self, end: SessionEnd) -> Option<String> {
        // A session has no row in the history, and its handle is a secret of its caller.
        let issued = self
            .issuer
            .issue_for(&self.config, "", env!("CARGO_PKG_VERSION"), |about| statement(&end, about));
        match issued {
            Ok(envelope) => Some(hex::encode(Sha256::digest(envelope))),
            Err(error) => {
                tracing::error!("a session has no receipt: {error}");
                None
            }
        }
    }
}

/// Statement about a session that has ended.
///
/// # Errors
/// When a part is not representable in JSON.
pub fn statement(end: &SessionEnd, about: About) -> Result<Statement, serde_json::Error> {
    let listed = end.steps.listed().iter().map(|step| SessionStep {
        kind: step.kind.name().to_owned(),
        sha256: step.sha256.clone(),
        status: step.status.to_owned(),
    });
    let steps = SessionSteps {
        language: end.language.name().to_owned(),
        packages: end.packages.clone(),
        cells: end.steps.cells(),
        uploads: end.steps.uploads(),
        not_ok: end.steps.not_ok(),
        closed: end.is_closed,
        steps_sha256: end.steps.sha256(),
        steps: listed.collect(),
    };
    let facts = RunFacts {
        program: end.language.name(),
        command: &end.argv,
        profile: end.profile.as_deref(),
        policy_sha256: Some(&end.in_force.policy_sha256),
        limits: Some(&end.in_force.limits),
        image: end.image.as_deref(),
        image_digest: end.image_digest.clone(),
        // The guard reads each cell on its own: one that it refuses has this status.
        guard: None,
        outcome_json: &serde_json::to_vec(&end.report)?,
    };
    session::statement(&end.report, &facts, &steps, end.steps.inputs_sha256(), about)
}
