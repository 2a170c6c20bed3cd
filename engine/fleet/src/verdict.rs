//! How a run ended, in the API's terms, and back. Pure.
//!
//! A program's own failure is a result with an exit code. A worker's failure is a status, for which a farm tries
//! another worker (`UNAVAILABLE`, `INTERNAL`) or tells its client (the others).

use bazel_remote_apis::build::bazel::remote::execution::v2::{ActionResult, ExecuteResponse};
use bazel_remote_apis::google::protobuf::Any;
use hotcell_report::RunReport;
use hotcell_sandbox::outcome::{Cause, Output};
use nix::sys::signal::Signal;
use tonic::Code;

use crate::error::{FleetError, Kind};
use crate::once::LOST;

/// Type of the outcome in a result's auxiliary metadata. Its value is a JSON object, `hotcell.outcome/1`.
pub const OUTCOME: &str = "hotcell.outcome.v1";
/// Maximum size of an outcome that is read, in bytes.
const MAX_OUTCOME: usize = 1 << 20;

/// Result of an action for the farm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Exit code of the result; `None` where there is no result.
    pub exit_code: Option<i32>,
    /// Status.
    pub code: Code,
    /// One line for a person; may be empty.
    pub message: String,
}

/// Tells how a run ended.
#[must_use]
pub fn of_report(report: &RunReport) -> Verdict {
    let message = report.reason.clone().unwrap_or_default();
    let own = |exit_code, code| Verdict { exit_code: Some(exit_code), code, message: message.clone() };
    let none = |code| Verdict { exit_code: None, code, message: message.clone() };
    match report.cause {
        Cause::Exited => own(report.exit_code.unwrap_or(0), Code::Ok),
        Cause::Signaled => own(128 + report.signal.as_deref().map_or(0, number), Code::Ok),
        Cause::WallLimit => own(124, Code::DeadlineExceeded),
        cause if cause.is_limit() => own(124, Code::Ok),
        Cause::NotExecutable => own(126, Code::Ok),
        Cause::NotFound => own(127, Code::Ok),
        Cause::Cancelled => none(Code::Cancelled),
        Cause::Quarantined => none(Code::PermissionDenied),
        Cause::Refused => none(Code::FailedPrecondition),
        _ => none(Code::Internal),
    }
}

/// Status of an action that was not run, or whose result could not be stored.
#[must_use]
pub const fn of_error(error: &FleetError) -> Code {
    match error.kind {
        Kind::Request => Code::InvalidArgument,
        // The API's code for inputs that are not in the storage.
        Kind::Missing => Code::FailedPrecondition,
        Kind::Farm | Kind::Unreachable | Kind::Host => Code::Unavailable,
    }
}

fn number(name: &str) -> i32 {
    name.parse::<Signal>().map_or(0, |signal| signal as i32)
}

/// The outcome for a result's metadata, without the output, which the result has.
#[must_use]
pub fn metadata(report: &RunReport) -> Option<Any> {
    let mut report = report.clone();
    (report.stdout, report.stderr) = (Output::default(), Output::default());
    (report.changes, report.scan) = (None, None);
    let value = serde_json::to_vec(&report).ok()?;
    Some(Any { type_url: format!("type.googleapis.com/{OUTCOME}"), value })
}

/// The report of a farm's answer. A worker's own outcome is taken where its exit code agrees with the result's.
///
/// # Errors
/// [`FleetError`] when the farm or the worker failed, or nothing was run.
pub fn of_answer(response: &ExecuteResponse) -> Result<RunReport, FleetError> {
    let status = response.status.clone().unwrap_or_default();
    let code = Code::from(status.code);
    let said: String =
        status.message.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect();
    let result = response.result.as_ref();
    match code {
        Code::Ok => {}
        Code::DeadlineExceeded => {
            let own = result.and_then(of_worker).filter(|report| report.cause == Cause::WallLimit);
            let why = if said.is_empty() { "stopped at the farm's time limit".to_owned() } else { said };
            return Ok(own.unwrap_or_else(|| RunReport::without_a_run(Cause::WallLimit, why)));
        }
        // A run that may not be run twice, and whose worker did not answer. Farms have other reasons to abort.
        Code::Aborted if said.starts_with(LOST) => {
            return Ok(RunReport::without_a_run(Cause::Internal, said));
        }
        Code::Cancelled => return Ok(RunReport::without_a_run(Cause::Cancelled, "cancelled on the farm")),
        Code::PermissionDenied => return Ok(RunReport::without_a_run(Cause::Quarantined, said)),
        Code::InvalidArgument | Code::FailedPrecondition => {
            return Err(FleetError::request(format!("the farm's worker refused the run: {said}")));
        }
        code => {
            let why = if said.is_empty() { format!("{code:?}") } else { said };
            return Err(FleetError::new(Kind::Unreachable, format!("the farm could not run it: {why}")));
        }
    }
    let result = result.ok_or_else(|| FleetError::farm("the farm answered without a result"))?;
    Ok(of_worker(result).unwrap_or_else(|| {
        let mut report = RunReport::without_a_run(Cause::Exited, "");
        (report.reason, report.exit_code) = (None, Some(result.exit_code));
        report
    }))
}

/// A hotcell worker's own outcome, if it agrees with the result.
fn of_worker(result: &ActionResult) -> Option<RunReport> {
    let metadata = result.execution_metadata.as_ref()?;
    let is_ours =
        |any: &&Any| any.type_url.rsplit('/').next() == Some(OUTCOME) && any.value.len() <= MAX_OUTCOME;
    let any = metadata.auxiliary_metadata.iter().find(is_ours)?;
    let report: RunReport = serde_json::from_slice(&any.value).ok()?;
    (of_report(&report).exit_code == Some(result.exit_code)).then_some(report)
}

#[cfg(test)]
mod tests {
    use bazel_remote_apis::build::bazel::remote::execution::v2::ExecutedActionMetadata;

    use super::*;
    use crate::wire;

    fn report(cause: Cause, code: Option<i32>, signal: Option<&str>) -> RunReport {
        let mut report = RunReport::without_a_run(cause, "why");
        (report.exit_code, report.signal) = (code, signal.map(str::to_owned));
        report
    }

    #[test]
    fn failures_of_programs_and_workers_are_told_apart() {
        for (report, exit_code, code) in [
            (report(Cause::Exited, Some(3), None), Some(3), Code::Ok),
            (report(Cause::Signaled, None, Some("SIGSEGV")), Some(139), Code::Ok),
            (report(Cause::MemoryLimit, None, None), Some(124), Code::Ok),
            (report(Cause::WallLimit, None, None), Some(124), Code::DeadlineExceeded),
            (report(Cause::NotFound, None, None), Some(127), Code::Ok),
            (report(Cause::Refused, None, None), None, Code::FailedPrecondition),
            (report(Cause::Quarantined, None, None), None, Code::PermissionDenied),
            (report(Cause::Internal, None, None), None, Code::Internal),
            (report(Cause::Cancelled, None, None), None, Code::Cancelled),
        ] {
            let verdict = of_report(&report);
            assert_eq!((verdict.exit_code, verdict.code), (exit_code, code), "{report:?}");
        }
        assert_eq!(of_error(&FleetError::request("x")), Code::InvalidArgument);
        assert_eq!(of_error(&FleetError::host("x")), Code::Unavailable);
    }

    fn answer(code: Code, exit_code: i32, ours: Option<&RunReport>) -> ExecuteResponse {
        let metadata = ExecutedActionMetadata {
            auxiliary_metadata: ours.and_then(metadata).into_iter().collect(),
            ..Default::default()
        };
        let result = ActionResult { exit_code, execution_metadata: Some(metadata), ..Default::default() };
        ExecuteResponse {
            result: Some(result),
            status: Some(wire::status(code, "said")),
            ..Default::default()
        }
    }

    #[test]
    fn answers_become_outcomes() {
        let plain = of_answer(&answer(Code::Ok, 7, None)).unwrap();
        assert_eq!((plain.cause, plain.exit_code), (Cause::Exited, Some(7)));
        let memory = report(Cause::MemoryLimit, None, None);
        let ours = of_answer(&answer(Code::Ok, 124, Some(&memory))).unwrap();
        assert_eq!(ours.cause, Cause::MemoryLimit);
        // A worker whose words do not agree with its result.
        let lie = of_answer(&answer(Code::Ok, 1, Some(&report(Cause::Exited, Some(0), None)))).unwrap();
        assert_eq!((lie.cause, lie.exit_code), (Cause::Exited, Some(1)));
        assert_eq!(of_answer(&answer(Code::DeadlineExceeded, 124, None)).unwrap().cause, Cause::WallLimit);
        assert_eq!(of_answer(&answer(Code::Aborted, 0, None)).unwrap_err().kind, Kind::Unreachable);
        let mut lost = answer(Code::Aborted, 0, None);
        lost.status = Some(wire::status(Code::Aborted, "lost: it began"));
        let lost = of_answer(&lost).unwrap();
        assert_eq!((lost.cause, lost.reason.as_deref()), (Cause::Internal, Some("lost: it began")));
        assert_eq!(of_answer(&answer(Code::InvalidArgument, 0, None)).unwrap_err().kind, Kind::Request);
        assert_eq!(of_answer(&answer(Code::Internal, 0, None)).unwrap_err().kind, Kind::Unreachable);
        assert!(of_answer(&ExecuteResponse::default()).is_err());
    }
}
