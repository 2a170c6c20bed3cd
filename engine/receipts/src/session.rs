//! Interpreter sessions: one statement at the end of each, of the type of a run, with its cells by their digests.

use hotcell_report::RunReport;

use crate::run::{self, About, RunFacts};
use crate::session_steps::SessionSteps;
use crate::statement::{Statement, Subject};

/// Name of the subject: the cells, and the files that were put in.
pub const SESSION: &str = "session";

/// Statement about a session that has ended. The subject is the digest of its steps without their statuses, so that a repetition is about the same.
///
/// # Errors
/// When a part is not representable in JSON.
pub fn statement(
    outcome: &RunReport,
    facts: &RunFacts<'_>,
    steps: &SessionSteps,
    inputs_sha256: String,
    about: About,
) -> Result<Statement, serde_json::Error> {
    let subject = Subject::with(SESSION, "sha256", inputs_sha256);
    let mut statement = run::statement(outcome, facts, vec![subject], about)?;
    statement.predicate["result"] = serde_json::to_value(steps.stated(outcome.success()))?;
    statement.predicate["session"] = serde_json::to_value(steps)?;
    Ok(statement)
}

#[cfg(test)]
mod tests {
    use hotcell_sandbox::outcome::Cause;

    use super::*;
    use crate::run::RunPredicate;
    use crate::session_steps::SessionStep;

    #[test]
    fn session_passes_when_each_step_was_ok_and_it_ended_as_it_should() {
        for (cells, not_ok, closed, cause, exit_code, want) in [
            (1, 0, true, Cause::Cancelled, None, "PASSED"),
            (3, 0, false, Cause::Exited, Some(0), "PASSED"),
            (0, 0, true, Cause::Cancelled, None, "FAILED"),
            (3, 1, true, Cause::Cancelled, None, "FAILED"),
            (1, 0, false, Cause::Cancelled, None, "FAILED"),
            (1, 0, false, Cause::Exited, Some(3), "FAILED"),
            (1, 0, false, Cause::MemoryLimit, None, "FAILED"),
        ] {
            let mut outcome = RunReport::without_a_run(cause, "x");
            outcome.exit_code = exit_code;
            let step = SessionStep { kind: "cell".into(), sha256: "00".into(), status: "ok".into() };
            let steps = SessionSteps {
                language: "python".to_owned(),
                packages: Vec::new(),
                cells,
                uploads: 0,
                not_ok,
                closed,
                steps_sha256: "00".to_owned(),
                steps: vec![step],
            };
            let about = About::now("", "1", None);
            let made = statement(&outcome, &RunFacts::default(), &steps, "0f".to_owned(), about).unwrap();
            assert_eq!(made.predicate["result"], want, "{cells} {not_ok} {closed} {cause:?}");
            assert_eq!(made.subject, [Subject::with(SESSION, "sha256", "0f".to_owned())]);
            let predicate: RunPredicate = serde_json::from_value(made.predicate).unwrap();
            assert_eq!(predicate.session, Some(steps));
        }
    }
}
