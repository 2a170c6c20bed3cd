//! Reports of failed calls: each kind of failure has a code and an exit status.

use hotcell_state::report::{Code, ErrorReport};
use hotcell_tools::CallError;

/// Exit status when the tool answered with an error, or trapped.
pub const FAILED: u8 = 1;
/// Exit status when a limit ended the call.
pub const LIMIT: u8 = 124;
/// Exit status when the tool could not be called.
pub const NOT_CALLED: u8 = 125;

/// Report of a failed call, in the error's own words.
#[must_use]
pub fn report_of(error: &CallError) -> ErrorReport {
    let report = |code| ErrorReport::new(code, error.to_string());
    match error {
        CallError::Unknown { .. } => report(Code::UnknownName),
        CallError::Arguments { at, .. } => report(Code::InvalidValue).field(at),
        CallError::Limit { .. } => report(Code::Limit),
        CallError::Trap { denied, .. } if !denied.is_empty() => report(Code::Denied),
        CallError::Trap { .. } => report(Code::Trap),
        CallError::Refused { .. } => report(Code::Refused),
        CallError::Busy { .. } => report(Code::Busy),
        CallError::Cancelled | CallError::Host { .. } => report(Code::Internal),
    }
}

/// Exit status of `hotcell tool call`.
#[must_use]
pub fn exit_of(error: &CallError) -> u8 {
    match error {
        CallError::Trap { .. } => FAILED,
        CallError::Limit { limit: hotcell_tools::Limit::Arguments, .. } => NOT_CALLED,
        CallError::Limit { .. } => LIMIT,
        _ => NOT_CALLED,
    }
}

#[cfg(test)]
mod tests {
    use hotcell_tools::Limit;

    use super::*;

    #[test]
    fn call_errors_map_to_code_and_status() {
        let text = String::new;
        let trap = |denied: &[&str]| CallError::Trap {
            message: text(),
            denied: denied.iter().map(|word| (*word).to_owned()).collect(),
            frames: Vec::new(),
        };
        let limit = |limit| CallError::Limit { limit, value: text() };
        for (error, code, status) in [
            (CallError::Unknown { name: text() }, Code::UnknownName, 125),
            (CallError::Arguments { at: text(), message: text() }, Code::InvalidValue, 125),
            (limit(Limit::Wall), Code::Limit, 124),
            (limit(Limit::Memory), Code::Limit, 124),
            (limit(Limit::Result), Code::Limit, 124),
            // The call never began.
            (limit(Limit::Arguments), Code::Limit, 125),
            (trap(&[]), Code::Trap, 1),
            (trap(&["guard"]), Code::Denied, 1),
            (CallError::Refused { message: text() }, Code::Refused, 125),
            (CallError::Busy { message: text() }, Code::Busy, 125),
            (CallError::Cancelled, Code::Internal, 125),
            (CallError::Host { message: text() }, Code::Internal, 125),
        ] {
            assert_eq!((report_of(&error).code, exit_of(&error)), (code, status), "{error:?}");
        }
    }
}
