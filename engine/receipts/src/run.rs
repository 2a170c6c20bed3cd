//! Predicate of a run: why it ended, behind which layers, from which inputs.

use hotcell_report::RunReport;
use hotcell_sandbox::outcome::{Cause, LimitHit, Usage};
use hotcell_sandbox::policy::Limits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest;
use crate::session_steps::SessionSteps;
use crate::stated::Stated;
use crate::statement::{Statement, Subject};

/// Type of the predicate.
pub const PREDICATE_TYPE: &str = "urn:hotcell:predicate:run:v1";
/// Value of `schema` in what every statement of hotcell carries.
pub const SCHEMA: &str = "hotcell.receipt/1";

/// Facts about the statement itself, in each predicate under `hotcell`. Others ignore this extension field, as in-toto's parsing rules say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct About {
    /// Always `hotcell.receipt/1`.
    pub schema: String,
    /// Identifier of the run in the history.
    pub run: String,
    /// Version of hotcell.
    pub version: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Time of the statement, in microseconds since 1970.
    pub time_us: i64,
    /// End of the audit log before this receipt: `null` where there is no log yet.
    pub audit_head: Option<String>,
    /// Number of this receipt among those of this installation about the same subjects, command, policy and image, from 1: a larger one was
    /// repeated. `null` where that is not known, and in receipts of earlier releases.
    #[serde(default)]
    pub attempt: Option<u64>,
}

impl About {
    /// Facts as of now.
    #[must_use]
    pub fn now(run: &str, version: &str, audit_head: Option<String>) -> Self {
        let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
        let time_us = hotcell_state::time::micros_since_1970(std::time::SystemTime::now());
        Self {
            schema: SCHEMA.to_owned(),
            run: run.to_owned(),
            version: version.to_owned(),
            kernel,
            time_us,
            audit_head,
            attempt: None,
        }
    }
}

/// The predicate `urn:hotcell:predicate:run:v1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunPredicate {
    /// `PASSED` when the program exited by itself with code 0, else `FAILED`. Of an interpreter session, `PASSED` when each of its steps was `ok`, there was a cell,
    /// and it was closed or exited so.
    pub result: Stated,
    /// Why the run ended.
    pub cause: Cause,
    /// Exit code of the program.
    pub exit_code: Option<i32>,
    /// Signal that ended the program.
    pub signal: Option<String>,
    /// Program, or the language of a source.
    pub program: String,
    /// SHA-256 of the command's words, each followed by a zero byte. Arguments may be private, so only their digest is stated.
    pub command_sha256: String,
    /// Profile of the policy; `null` for the default one.
    pub profile: Option<String>,
    /// SHA-256 of the policy in force: shape, limits, mounts, toolchains, names of variables and secrets, hosts, mode of the guard. `null` where
    /// the run was refused before it had one, and in receipts of earlier releases.
    #[serde(default)]
    pub policy_sha256: Option<String>,
    /// Limits in force; `null` as `policy_sha256`.
    #[serde(default)]
    pub limits: Option<Limits>,
    /// Image in place of the host's files.
    pub image: Option<String>,
    /// Digest of the image's manifest: `sha256:…`.
    #[serde(default)]
    pub image_digest: Option<String>,
    /// State of each layer, as in an outcome.
    pub layers: serde_json::Value,
    /// Limits that were reached.
    pub limits_hit: Vec<LimitHit>,
    /// Resources used.
    pub usage: Usage,
    /// Number of denied operations.
    pub denials: u64,
    /// False where a layer cannot report everything that it denied.
    pub denials_complete: bool,
    /// SHA-256 of the denials as JSON.
    pub denials_sha256: String,
    /// Number of requests through the proxy; 0 without a network.
    #[serde(default)]
    pub requests: u64,
    /// SHA-256 of their rows as JSON, as `requests` of the outcome lists them; `null` without a network.
    #[serde(default)]
    pub requests_sha256: Option<String>,
    /// SHA-256 of the mounts as JSON.
    pub mounts_sha256: String,
    /// SHA-256 of each captured stream, and the number of bytes written.
    pub stdout: Stream,
    /// As `stdout`.
    pub stderr: Stream,
    /// SHA-256 of the whole outcome, as the history keeps it and `hotcell run --json` prints it (without the newline at its end).
    pub outcome_sha256: String,
    /// Verdict of the guard; `null` when nothing was read.
    pub guard: Option<String>,
    /// Cells, where this is an interpreter session; absent for all other runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionSteps>,
    /// Facts about the statement.
    pub hotcell: About,
}

/// One stream of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stream {
    /// SHA-256 of the captured bytes.
    pub sha256: String,
    /// Number of bytes written.
    pub bytes: u64,
    /// Whether the middle is not captured.
    pub truncated: bool,
}

/// Facts of a run that are not in its outcome.
#[derive(Clone, Debug, Default)]
pub struct RunFacts<'a> {
    /// Program, or the language of a source.
    pub program: &'a str,
    /// Command, word by word.
    pub command: &'a [String],
    /// Profile.
    pub profile: Option<&'a str>,
    /// SHA-256 of the policy in force.
    pub policy_sha256: Option<&'a str>,
    /// Limits in force.
    pub limits: Option<&'a Limits>,
    /// Image.
    pub image: Option<&'a str>,
    /// Digest of the image.
    pub image_digest: Option<String>,
    /// Verdict of the guard.
    pub guard: Option<&'a str>,
    /// The outcome as JSON.
    pub outcome_json: &'a [u8],
}

/// Statement about a run. Without subjects, the command is the subject.
///
/// # Errors
/// When a part is not representable in JSON.
pub fn statement(
    outcome: &RunReport,
    facts: &RunFacts<'_>,
    mut subjects: Vec<Subject>,
    about: About,
) -> Result<Statement, serde_json::Error> {
    let words: Vec<u8> = facts.command.iter().flat_map(|word| word.bytes().chain([0])).collect();
    if subjects.is_empty() {
        subjects.push(Subject::sha256("command", &words));
    }
    let digest = |value: serde_json::Result<Vec<u8>>| value.map(|bytes| digest::sha256(&bytes));
    let stream = |output: &hotcell_sandbox::outcome::Output| Stream {
        sha256: digest::sha256(&output.to_bytes()),
        bytes: output.bytes,
        truncated: output.truncated,
    };
    let predicate = RunPredicate {
        result: if outcome.success() { Stated::Passed } else { Stated::Failed },
        cause: outcome.cause,
        exit_code: outcome.exit_code,
        signal: outcome.signal.clone(),
        program: facts.program.to_owned(),
        command_sha256: digest::sha256(&words),
        profile: facts.profile.map(str::to_owned),
        policy_sha256: facts.policy_sha256.map(str::to_owned),
        limits: facts.limits.cloned(),
        image: facts.image.map(str::to_owned),
        image_digest: facts.image_digest.clone(),
        layers: serde_json::to_value(&outcome.layers)?,
        limits_hit: outcome.limits_hit.clone(),
        usage: outcome.usage.clone(),
        denials: outcome.denials.iter().map(|denial| denial.count).sum(),
        denials_complete: outcome.denials_complete,
        denials_sha256: digest(serde_json::to_vec(&outcome.denials))?,
        requests: outcome.requests.as_ref().map_or(0, |all| all.rows.len() as u64),
        requests_sha256: outcome
            .requests
            .as_ref()
            .map(|all| digest(serde_json::to_vec(&all.rows)))
            .transpose()?,
        mounts_sha256: digest(serde_json::to_vec(&outcome.mounts))?,
        stdout: stream(&outcome.stdout),
        stderr: stream(&outcome.stderr),
        outcome_sha256: digest::sha256(facts.outcome_json),
        guard: facts.guard.map(str::to_owned),
        session: None,
        hotcell: about,
    };
    Ok(Statement::new(subjects, PREDICATE_TYPE, serde_json::to_value(predicate)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only a program that ended by itself with 0 is stated as passed.
    #[test]
    fn result_is_passed_for_a_clean_exit_only() {
        let causes = [
            Cause::Exited,
            Cause::Signaled,
            Cause::WallLimit,
            Cause::MemoryLimit,
            Cause::Cancelled,
            Cause::Quarantined,
            Cause::Refused,
            Cause::NotFound,
            Cause::Internal,
        ];
        for cause in causes {
            for exit_code in [None, Some(0), Some(1)] {
                let mut outcome = RunReport::without_a_run(cause, "x");
                outcome.exit_code = exit_code;
                let command = ["true".to_owned()];
                let facts = RunFacts { command: &command, ..RunFacts::default() };
                let statement = statement(&outcome, &facts, Vec::new(), About::now("0", "1", None)).unwrap();
                let wanted = if cause == Cause::Exited && exit_code == Some(0) { "PASSED" } else { "FAILED" };
                assert_eq!(statement.predicate["result"], wanted, "{cause:?} {exit_code:?}");
                assert_eq!(statement.subject[0].name, "command");
            }
        }
    }

    /// A repetition is about the same, however it came out; another policy, command or subject is not.
    #[test]
    fn repetition_is_about_the_same() {
        let limits = Limits::default();
        let about = |cause: Cause, word: &str, policy: &str, subject: &str| {
            let command = [word.to_owned()];
            let facts = RunFacts {
                command: &command,
                policy_sha256: Some(policy),
                limits: Some(&limits),
                ..RunFacts::default()
            };
            let subjects = vec![Subject::sha256("", subject.as_bytes())];
            let run = statement(
                &RunReport::without_a_run(cause, "x"),
                &facts,
                subjects,
                About::now(word, "1", None),
            )
            .unwrap();
            assert_eq!(run.predicate["limits"]["processes"], 64);
            assert_eq!(run.predicate["policy_sha256"], policy);
            run.about()
        };
        let first = about(Cause::Refused, "a", "p", "s");
        assert_eq!(first, about(Cause::WallLimit, "a", "p", "s"));
        for (word, policy, subject) in [("b", "p", "s"), ("a", "q", "s"), ("a", "p", "t")] {
            assert_ne!(first, about(Cause::Refused, word, policy, subject), "{word} {policy} {subject}");
        }
    }
}
