//! Receipt of a result, signed by the worker that made it. The signer is the front end's: this crate knows no keys.

use std::sync::Arc;

use bazel_remote_apis::build::bazel::remote::execution::v2::ActionResult;
use bazel_remote_apis::google::protobuf::Any;
use hotcell_receipts::{ACTION, OUTPUTS};
use hotcell_report::RunReport;
use hotcell_verbs::in_force::InForce;

use crate::digest::Key;
use crate::error::FleetError;

/// Type of the receipt in a result's auxiliary metadata. Its value is the DSSE envelope as JSON.
pub const RECEIPT: &str = "hotcell.receipt.v1";

/// Facts that a receipt states.
#[derive(Clone, Debug)]
pub struct Signed {
    /// Report of the run, without its output.
    pub report: RunReport,
    /// The report, as it is in the metadata under `hotcell.outcome.v1`.
    pub outcome: Vec<u8>,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Digest of the image that it ran in.
    pub image_digest: Option<String>,
    /// Policy that was in force.
    pub in_force: InForce,
    /// Subjects: name, and SHA-256 in hexadecimal digits.
    pub subjects: Vec<(String, String)>,
}

/// Signer of receipts.
pub trait Receipts: Send + Sync {
    /// Signs; returns the DSSE envelope as JSON. Blocks.
    ///
    /// # Errors
    /// A sentence for the operator.
    fn sign(&self, signed: &Signed) -> Result<String, String>;
}

/// Subjects of a result's receipt: `action` is the action's digest, and `outputs` the SHA-256 of one line for each output,
/// in order of the lines: kind, name, and digest or target, with a zero byte between. A client computes them from the
/// result that it got, so that a farm cannot put one receipt to another result.
#[must_use]
pub fn subjects(action: Key, result: &ActionResult) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    let mut line = |kind: &str, name: &str, of: &str| lines.push(format!("{kind}\0{name}\0{of}\n"));
    for (name, raw, digest) in [
        ("stdout", &result.stdout_raw, &result.stdout_digest),
        ("stderr", &result.stderr_raw, &result.stderr_digest),
    ] {
        // A farm may move a stream from the message into the storage, and back.
        let key = digest.as_ref().filter(|_| raw.is_empty());
        let key = key.map_or_else(|| hex::encode(Key::of(raw).hash), |digest| digest.hash.clone());
        line("stream", name, &key);
    }
    for file in &result.output_files {
        let kind = if file.is_executable { "program" } else { "file" };
        line(kind, &file.path, file.digest.as_ref().map_or("", |digest| &digest.hash));
    }
    for folder in &result.output_directories {
        line("tree", &folder.path, folder.tree_digest.as_ref().map_or("", |digest| &digest.hash));
    }
    for link in &result.output_symlinks {
        line("link", &link.path, &link.target);
    }
    lines.sort();
    let outputs = Key::of(lines.concat().as_bytes());
    vec![(ACTION.to_owned(), hex::encode(action.hash)), (OUTPUTS.to_owned(), hex::encode(outputs.hash))]
}

/// Signs in a thread of its own; the receipt as metadata.
///
/// # Errors
/// [`FleetError`] of this machine: a result without the receipt that its operator wants is not given.
pub async fn signed(receipts: Arc<dyn Receipts>, signed: Signed) -> Result<Any, FleetError> {
    let done = tokio::task::spawn_blocking(move || receipts.sign(&signed)).await;
    let envelope = done.map_err(|e| FleetError::host(e.to_string()))?.map_err(|why| {
        tracing::error!("a result is not given, since it has no receipt: {why}");
        FleetError::host(
            "the worker cannot sign the receipt of the result; its operator's log has the reason",
        )
    })?;
    Ok(Any { type_url: format!("type.googleapis.com/{RECEIPT}"), value: envelope.into_bytes() })
}

#[cfg(test)]
mod tests {
    use bazel_remote_apis::build::bazel::remote::execution::v2::{OutputFile, OutputSymlink};

    use super::*;

    #[test]
    fn subjects_depend_on_every_output() {
        let file = |path: &str, text: &[u8], is_executable| OutputFile {
            path: path.to_owned(),
            digest: Some(Key::of(text).message()),
            is_executable,
            ..OutputFile::default()
        };
        let of = |result: &ActionResult| subjects(Key::of(b"action"), result)[1].1.clone();
        let base = ActionResult {
            output_files: vec![file("a", b"1", false), file("b", b"2", false)],
            stdout_raw: b"said".to_vec(),
            ..ActionResult::default()
        };
        let mut same = base.clone();
        same.output_files.reverse();
        (same.stdout_raw, same.stdout_digest) = (Vec::new(), Some(Key::of(b"said").message()));
        assert_eq!(of(&base), of(&same), "order and place do not matter");
        type Change = fn(&mut ActionResult);
        for change in [
            (|result| result.stdout_raw = b"other".to_vec()) as Change,
            |result| result.stderr_raw = b"x".to_vec(),
            |result| result.output_files[0].is_executable = true,
            |result| result.output_files[0].path = "c".to_owned(),
            |result| result.output_files[0].digest = Some(Key::of(b"3").message()),
            |result| {
                result.output_files.pop();
            },
            |result| {
                result.output_symlinks.push(OutputSymlink {
                    path: "l".to_owned(),
                    target: "a".to_owned(),
                    ..OutputSymlink::default()
                });
            },
        ] {
            let mut changed = base.clone();
            change(&mut changed);
            assert_ne!(of(&base), of(&changed));
        }
        let other = subjects(Key::of(b"other"), &base);
        assert_ne!(other[0], subjects(Key::of(b"action"), &base)[0]);
    }
}
