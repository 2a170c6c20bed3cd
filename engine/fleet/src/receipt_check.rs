//! The receipt of a worker: whether a trusted key signed it, and whether it states the result that the farm gave.

use std::path::PathBuf;

use bazel_remote_apis::build::bazel::remote::execution::v2::ActionResult;
use hotcell_receipts::run::{PREDICATE_TYPE, RunPredicate, Stream};
use hotcell_receipts::{KeyRing, OUTPUTS, PublicKey, verify};
use hotcell_report::WorkerReceipt;
use sha2::{Digest as _, Sha256};

use crate::digest::Key;
use crate::error::FleetError;
use crate::receipt::{RECEIPT, subjects};

/// Maximum size of a receipt, in bytes.
const MAX_RECEIPT: usize = 1 << 20;

/// Rules for the receipts of workers.
#[derive(Clone, Debug, Default)]
pub struct TrustedReceipts {
    /// Keys of workers.
    pub trusted: KeyRing,
    /// A result without a verified receipt is a failure.
    pub required: bool,
}

impl TrustedReceipts {
    /// Reads public keys (PEM).
    ///
    /// # Errors
    /// [`FleetError`] of a wrong request, with the file that is not one.
    pub fn new(files: &[PathBuf], required: bool) -> Result<Self, FleetError> {
        let mut trusted = KeyRing::default();
        for file in files {
            let wrong = |why: String| FleetError::request(format!("{}: {why}", file.display()));
            let text = std::fs::read_to_string(file).map_err(|e| wrong(e.to_string()))?;
            let key = PublicKey::from_pem(&text).map_err(|e| wrong(e.to_string()))?;
            trusted.add(key, &file.to_string_lossy());
        }
        Ok(Self { trusted, required })
    }

    /// State of the receipt of a result, with the key's name or the reason.
    ///
    /// # Errors
    /// [`FleetError`] of the farm, when a verified one is required.
    pub(crate) fn check(
        &self,
        action: Key,
        result: &ActionResult,
        (stdout, stderr): (&[u8], &[u8]),
    ) -> Result<(WorkerReceipt, Option<String>), FleetError> {
        let metadata = result.execution_metadata.iter().flat_map(|metadata| &metadata.auxiliary_metadata);
        let mut receipts = metadata.filter(|any| any.type_url.rsplit('/').next() == Some(RECEIPT));
        let state = match receipts.next() {
            None => (WorkerReceipt::Missing, None),
            Some(_) if self.trusted.is_empty() => (WorkerReceipt::Unchecked, None),
            Some(any) if any.value.len() > MAX_RECEIPT => {
                (WorkerReceipt::Refused, Some(format!("it has more than {MAX_RECEIPT} bytes")))
            }
            Some(any) => match states(&any.value, &self.trusted, action, result, (stdout, stderr)) {
                Ok(key) => (WorkerReceipt::Verified, Some(key)),
                Err(why) => (WorkerReceipt::Refused, Some(why)),
            },
        };
        let why = match &state {
            _ if !self.required => return Ok(state),
            (WorkerReceipt::Verified, _) => return Ok(state),
            (WorkerReceipt::Refused, Some(why)) => format!("the worker's receipt is refused: {why}"),
            _ => "the result came without a receipt of its worker, and ‹fleet.require_receipts› demands one"
                .to_owned(),
        };
        Err(FleetError::farm(why))
    }
}

/// Verifies a receipt; returns the key's name. It has to be about this action and what was written, and to state this exit code and this output.
fn states(
    envelope: &[u8],
    trusted: &KeyRing,
    action: Key,
    result: &ActionResult,
    (stdout, stderr): (&[u8], &[u8]),
) -> Result<String, String> {
    let verified = verify(envelope, trusted).map_err(|e| e.to_string())?;
    let statement = verified.statement;
    let hash = hex::encode(action.hash);
    if !statement.subject.iter().any(|subject| subject.digest.get("sha256") == Some(&hash)) {
        return Err("it is about another action".to_owned());
    }
    let written = subjects(action, result).into_iter().find(|(name, _)| name == OUTPUTS);
    let is_written = |subject: &hotcell_receipts::Subject| {
        written.as_ref().is_some_and(|(name, digest)| {
            subject.name == *name && subject.digest.get("sha256") == Some(digest)
        })
    };
    if !statement.subject.iter().any(is_written) {
        return Err("it is about other output files".to_owned());
    }
    let exit_code = result.exit_code;
    if statement.predicate_type != PREDICATE_TYPE {
        let kind: String = statement.predicate_type.chars().take(100).collect();
        return Err(format!("it states no run, but {kind:?}"));
    }
    let stated: RunPredicate = serde_json::from_value(statement.predicate).map_err(|e| e.to_string())?;
    let mut report = hotcell_report::RunReport::without_a_run(stated.cause, "");
    (report.exit_code, report.signal) = (stated.exit_code, stated.signal.clone());
    if crate::verdict::of_report(&report).exit_code != Some(exit_code) {
        return Err(format!("it states another end of the run than exit code {exit_code}"));
    }
    for (name, stream, bytes) in
        [("standard output", &stated.stdout, stdout), ("standard error", &stated.stderr, stderr)]
    {
        if !is_of(stream, bytes) {
            return Err(format!("it states another {name}"));
        }
    }
    Ok(verified.key_name)
}

/// Whether a stated stream has these bytes. Of a stream whose middle was not kept, the receipt has the length only.
fn is_of(stream: &Stream, bytes: &[u8]) -> bool {
    stream.bytes == bytes.len() as u64
        && (stream.truncated || stream.sha256 == hex::encode(Sha256::digest(bytes)))
}

#[cfg(test)]
mod tests {
    use bazel_remote_apis::build::bazel::remote::execution::v2::ExecutedActionMetadata;
    use bazel_remote_apis::google::protobuf::Any;
    use hotcell_receipts::run::{About, RunFacts, statement};
    use hotcell_receipts::{SigningKey, Subject};
    use hotcell_report::RunReport;
    use hotcell_sandbox::Cause;
    use hotcell_sandbox::outcome::Output;

    use super::*;

    fn receipt(key: &SigningKey, action: &str, code: i32, stdout: &[u8]) -> Vec<u8> {
        let mut report = RunReport::without_a_run(Cause::Exited, "");
        report.exit_code = Some(code);
        report.stdout = Output::new(stdout.to_vec(), stdout.len() as u64);
        let written = super::subjects(Key::of(b"action"), &ActionResult::default());
        let written = written.into_iter().find(|(name, _)| name == OUTPUTS).unwrap().1;
        let subjects = vec![
            Subject::with("action", "sha256", action.to_owned()),
            Subject::with(OUTPUTS, "sha256", written),
        ];
        let made = statement(&report, &RunFacts::default(), subjects, About::now("r", "0", None)).unwrap();
        key.sign(&made).unwrap().to_json().into_bytes()
    }

    fn result(receipt: Option<Vec<u8>>) -> ActionResult {
        let any = |value| Any { type_url: format!("type.googleapis.com/{RECEIPT}"), value };
        let metadata = ExecutedActionMetadata {
            auxiliary_metadata: receipt.map(any).into_iter().collect(),
            ..Default::default()
        };
        ActionResult { execution_metadata: Some(metadata), ..Default::default() }
    }

    #[test]
    fn receipts_state_this_result_or_are_refused() {
        let (ours, _) = SigningKey::generate().unwrap();
        let (other, _) = SigningKey::generate().unwrap();
        let action = Key::of(b"action");
        let (hash, another) = (hex::encode(action.hash), hex::encode(Key::of(b"other").hash));
        let trusted = KeyRing::of([ours.public()]);
        for (made, want, words) in [
            (Some(receipt(&ours, &hash, 0, b"out")), WorkerReceipt::Verified, ""),
            (Some(receipt(&other, &hash, 0, b"out")), WorkerReceipt::Refused, ""),
            (Some(receipt(&ours, &another, 0, b"out")), WorkerReceipt::Refused, "another action"),
            (Some(receipt(&ours, &hash, 1, b"out")), WorkerReceipt::Refused, "exit code 0"),
            (Some(receipt(&ours, &hash, 0, b"lie")), WorkerReceipt::Refused, "another standard output"),
            (Some(b"{".to_vec()), WorkerReceipt::Refused, ""),
            (Some(vec![b' '; MAX_RECEIPT + 1]), WorkerReceipt::Refused, "more than"),
            (None, WorkerReceipt::Missing, ""),
        ] {
            let result = result(made);
            let rules = TrustedReceipts { trusted: trusted.clone(), required: false };
            let (is, about) = rules.check(action, &result, (b"out", b"")).unwrap();
            assert_eq!(is, want, "{about:?}");
            assert!(about.unwrap_or_default().contains(words));
            let strict = TrustedReceipts { required: true, ..rules };
            assert_eq!(strict.check(action, &result, (b"out", b"")).is_ok(), want == WorkerReceipt::Verified);
        }
        // One receipt put to another result.
        let mut other = result(Some(receipt(&ours, &hash, 0, b"out")));
        other
            .output_files
            .push(bazel_remote_apis::build::bazel::remote::execution::v2::OutputFile::default());
        let rules = TrustedReceipts { trusted, required: false };
        let (is, about) = rules.check(action, &other, (b"out", b"")).unwrap();
        assert!(is == WorkerReceipt::Refused && about.unwrap().contains("other output files"));
        let unchecked = TrustedReceipts::default().check(action, &result(Some(vec![1])), (b"", b"")).unwrap();
        assert_eq!(unchecked.0, WorkerReceipt::Unchecked);
    }
}
