//! Why a session ended: by itself, by a limit, or from here. Pure.

use std::time::Duration;

use hotcell_report::RunReport;
use hotcell_sandbox::outcome::Cause;

/// Reason for which a session's sandbox is ended from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    /// On request, or by a bound of sessions.
    Asked,
    /// Another one takes its place.
    Reset,
    /// Its cell went on after an interrupt.
    Unheeded,
    /// Its interpreter closed its connection, and its processes went on.
    Silent,
}

impl Closed {
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Asked => "it was closed",
            Self::Reset => "it was reset",
            Self::Unheeded => "its cell did not end after an interrupt",
            Self::Silent => "its interpreter ended, or closed its connection",
        }
    }

    /// Time for a sandbox to end by itself, and say why.
    pub(super) const fn patience(self) -> Duration {
        match self {
            Self::Asked | Self::Reset | Self::Unheeded => Duration::ZERO,
            Self::Silent => Duration::from_secs(2),
        }
    }
}

/// Next step of a caller after an end, which has lost variables and files: a session that was closed cannot be reset, and after a reset there is
/// another one under its handle, unless that did not start.
pub(super) const fn next(closed: Option<Closed>) -> &'static str {
    match closed {
        Some(Closed::Asked) => "another session begins empty",
        Some(Closed::Reset) => {
            "a new call goes to the session in its place; if there is none, reset it again"
        }
        Some(Closed::Unheeded | Closed::Silent) | None => "a reset begins empty",
    }
}

/// Reason of an end, in one sentence with what the kernel said.
pub(super) fn why(report: &RunReport, closed: Option<Closed>) -> String {
    let cause = match (report.cause, report.exit_code) {
        (Cause::Cancelled, _) => return closed.unwrap_or(Closed::Asked).words().to_owned(),
        (Cause::Exited, Some(code)) => format!("its interpreter ended with {code}"),
        (cause, _) => serde_json::to_value(cause)
            .ok()
            .and_then(|name| name.as_str().map(|name| name.replace('_', " ")))
            .unwrap_or_default(),
    };
    match &report.reason {
        Some(reason) => format!("{cause}: {reason}"),
        None => cause,
    }
}

/// State that is lost with a session of this many cells, in words; `None` for one without cells.
pub(super) fn lost(cells: u64) -> Option<String> {
    match cells {
        0 => None,
        1 => Some("the variables and files of its cell".to_owned()),
        many => Some(format!("the variables and files of its {many} cells")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_have_one_reason_each() {
        for (cause, code, closed, want) in [
            (Cause::Exited, Some(3), None, "its interpreter ended with 3"),
            // It ended by itself before its sandbox was closed.
            (Cause::Exited, Some(3), Some(Closed::Silent), "its interpreter ended with 3"),
            (Cause::Cancelled, None, Some(Closed::Asked), "it was closed"),
            (Cause::Cancelled, None, Some(Closed::Reset), "it was reset"),
            (Cause::Cancelled, None, None, "it was closed"),
            (Cause::Cancelled, None, Some(Closed::Unheeded), "its cell did not end after an interrupt"),
            (Cause::Cancelled, None, Some(Closed::Silent), "its interpreter ended, or closed its connection"),
        ] {
            let mut report = RunReport::without_a_run(cause, "");
            (report.outcome.exit_code, report.outcome.reason) = (code, None);
            let found = why(&report, closed);
            assert_eq!(found, want, "{cause:?} {closed:?}");
        }
    }

    #[test]
    fn only_a_session_that_is_there_can_be_reset() {
        for (closed, want) in [
            (Some(Closed::Asked), "another session"),
            (Some(Closed::Reset), "if there is none, reset it again"),
            (Some(Closed::Unheeded), "a reset"),
            (Some(Closed::Silent), "a reset"),
            (None, "a reset"),
        ] {
            assert!(next(closed).contains(want), "{closed:?}");
        }
    }
}
