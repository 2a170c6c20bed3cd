//! Predicate of the guard's verdict: in-toto's Simple Verification Result, version 0.1. It lists properties that hold, so a bad verdict has none.

use hotcell_guard::{Report, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest;
use crate::run::About;
use crate::statement::{Statement, Subject};

/// Type of the predicate.
pub const PREDICATE_TYPE: &str = "https://in-toto.io/attestation/svr/v0.1";
/// Property of an artifact with the verdict `allow`.
pub const ALLOWED: &str = "HOTCELL_GUARD_ALLOW";
/// Property of an artifact of which every part was read.
pub const ALL_READ: &str = "HOTCELL_GUARD_ALL_READ";

/// The predicate, with hotcell's extension field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerdictPredicate {
    /// The verifier.
    pub verifier: Verifier,
    /// RFC 3339.
    pub time_created: String,
    /// Properties that hold.
    pub properties: Vec<String>,
    /// Facts that the predicate has no field for.
    pub hotcell: VerdictFacts,
}

/// Who verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verifier {
    /// URI with the version of the guard.
    pub id: String,
}

/// Facts of a scan beside in-toto's fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictFacts {
    /// Facts about the statement.
    #[serde(flatten)]
    pub about: About,
    /// Verdict.
    pub verdict: Verdict,
    /// Number of findings.
    pub findings: u64,
    /// SHA-256 of the whole report as JSON.
    pub report_sha256: String,
}

/// Statement about a scan; the artifact's digest is the subject.
///
/// # Errors
/// When a part is not representable in JSON.
pub fn statement(report: &Report, report_json: &[u8], about: About) -> Result<Statement, serde_json::Error> {
    let mut properties = Vec::new();
    if report.verdict == Verdict::Allow {
        properties.push(ALLOWED.to_owned());
    }
    if report.coverage.parts.iter().all(|part| part.state.kind() != hotcell_guard::Kind::NotRead) {
        properties.push(ALL_READ.to_owned());
    }
    let name = report.artifact.names.first().map_or("", String::as_str);
    let predicate = VerdictPredicate {
        verifier: Verifier { id: format!("urn:hotcell:guard:{}", about.version) },
        time_created: hotcell_state::time::rfc3339(about.time_us),
        properties,
        hotcell: VerdictFacts {
            verdict: report.verdict,
            findings: report.findings.len() as u64,
            report_sha256: digest::sha256(report_json),
            about,
        },
    };
    let subject = Subject::with(name, "sha256", report.artifact.sha256.clone());
    Ok(Statement::new(vec![subject], PREDICATE_TYPE, serde_json::to_value(predicate)?))
}
