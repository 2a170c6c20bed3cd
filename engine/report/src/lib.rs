//! The report of a run, `hotcell.outcome/1`: the sandbox's [`Outcome`] with what was done before and after it by others.
//!
//! ```
//! use hotcell_report::RunReport;
//! use hotcell_sandbox::Cause;
//!
//! let mut report = RunReport::without_a_run(Cause::Refused, "the workspace is not there");
//! assert!(!report.success());
//! report.scan = Some(serde_json::json!({ "verdict": "allow" }));
//! // One object in JSON: the outcome's fields and those of this crate.
//! let json = serde_json::to_value(&report).unwrap();
//! assert_eq!((&json["cause"], &json["scan"]["verdict"]), (&"refused".into(), &"allow".into()));
//! ```
//!
//! | module | idea |
//! | --- | --- |
//! | [`changes`] | changes in the workspace, and what became of them |
//! | [`compile`] | the compile step |
//! | [`outputs`] | files that were copied out |
//! | [`remote`] | the farm on which it ran |

#![forbid(unsafe_code)]

pub mod changes;
pub mod compile;
pub mod outputs;
pub mod remote;

use std::ops::{Deref, DerefMut};

use hotcell_sandbox::{Cause, Outcome, Refusal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use changes::{Change, ChangeKind, Commit, LeftOut, Mark, Marked};
pub use compile::{Compile, Diagnostic, Severity};
pub use outputs::{OutputFile, Outputs};
pub use remote::{Remote, WorkerReceipt};

/// The result of a run. In JSON and in code it is read like its outcome, the part of the sandbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Outcome", description = "The result of a run.")]
pub struct RunReport {
    /// The sandbox's part.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Changes in the workspace, the first 10,000 by path; `null` where they are not collected.
    pub changes: Option<Vec<Change>>,
    /// The changes as a unified diff; `null` if it was not requested.
    pub diff: Option<String>,
    /// Result of taking changes over into the original; `null` if that was not requested.
    pub commit: Option<Commit>,
    /// How the source was compiled; `null` where no compilation was needed.
    #[serde(default)]
    pub compile: Option<Compile>,
    /// Result of keeping the changes in a stored workspace; `null` if there is no such workspace, or keeping
    /// was not requested.
    pub kept: Option<Commit>,
    /// The guard's report; `null` if nothing was scanned.
    pub scan: Option<serde_json::Value>,
    /// Files that were asked for and copied out; absent where none were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Outputs>,
    /// Farm on which it ran; absent for a run of this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<Remote>,
}

impl RunReport {
    /// The report of a request that never started a program.
    #[must_use]
    pub fn without_a_run(cause: Cause, reason: impl Into<String>) -> Self {
        Outcome::without_a_run(cause, reason).into()
    }
}

impl From<Outcome> for RunReport {
    fn from(outcome: Outcome) -> Self {
        Self {
            outcome,
            changes: None,
            diff: None,
            commit: None,
            compile: None,
            kept: None,
            scan: None,
            outputs: None,
            remote: None,
        }
    }
}

impl From<Refusal> for RunReport {
    fn from(refusal: Refusal) -> Self {
        Outcome::from(refusal).into()
    }
}

impl Deref for RunReport {
    type Target = Outcome;

    fn deref(&self) -> &Outcome {
        &self.outcome
    }
}

impl DerefMut for RunReport {
    fn deref_mut(&mut self) -> &mut Outcome {
        &mut self.outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published form: readers know the fields in this order.
    #[test]
    fn json_has_outcome_fields_before_those_of_others() {
        let text = serde_json::to_string(&RunReport::without_a_run(Cause::Refused, "no")).unwrap();
        let names = ["schema", "cause", "timings_us", "changes", "diff", "commit", "compile", "kept", "scan"];
        let places: Vec<_> = names.map(|name| text.find(&format!("\"{name}\":"))).into_iter().collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} {text}");
        assert!(!text.contains("\"outcome\""), "{text}");
    }

    #[test]
    fn json_reads_back() {
        let mut report = RunReport::without_a_run(Cause::Quarantined, "held");
        report.usage.wall_us = Some(u64::MAX);
        report.diff = Some("-a\n+b\n".to_owned());
        report.changes = Some(vec![Change {
            path: "a".to_owned(),
            kind: ChangeKind::Added,
            bytes: 1 << 53,
            marks: vec![Mark::Hidden],
        }]);
        report.compile = Some(Compile::default());
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<RunReport>(&text).unwrap(), report);
        // Reports of earlier versions have no compile step.
        let mut older: serde_json::Value = serde_json::from_str(&text).unwrap();
        older.as_object_mut().unwrap().remove("compile");
        assert_eq!(serde_json::from_value::<RunReport>(older).unwrap().compile, None);
    }
}
