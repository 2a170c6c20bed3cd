//! Turns wasmtime's errors into the reason a call failed.

use hotcell_sandbox::Bytes;
use wasmtime::component::ResourceTableError;
use wasmtime::{PoolConcurrencyLimitError, Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use crate::asker::line;
use crate::runtime::capture::Printed;
use crate::runtime::limiter::Reached;
use crate::runtime::state::State;
use crate::{CallError, Limit, Limits};

/// Maximum length of the end of a guest's output that a trap's error includes, in bytes: the message of a
/// panic.
const MAX_TAIL_BYTES: usize = 512;

/// Maximum length of a trap's description, in bytes.
const MAX_MESSAGE_BYTES: usize = 512;

/// Maximum number of lines of a backtrace in an error; functions that call each other in turn take one line
/// each.
const MAX_FUNCTIONS: usize = 12;

/// Maximum number of functions that call each other in turn and are recognized as a recursion.
const MAX_PERIOD: usize = 4;

/// Maximum length of one of their names, in bytes.
const MAX_FUNCTION_BYTES: usize = 120;

/// Cause of a call's end.
pub(crate) enum Failure {
    /// A trap of the guest, or a limit that the host enforced.
    Wasm(wasmtime::Error),
    /// Any other error.
    Call(CallError),
}

impl From<wasmtime::Error> for Failure {
    fn from(error: wasmtime::Error) -> Self {
        Self::Wasm(error)
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl From<Reached> for Failure {
    fn from(reached: Reached) -> Self {
        Self::Wasm(reached.into())
    }
}

impl Failure {
    /// Converts the failure to the error for the caller.
    pub(crate) fn explain(self, state: &State, printed: &Printed, limits: &Limits) -> CallError {
        let limiter = &state.limiter;
        let error = match self {
            Self::Call(error) => return error,
            Self::Wasm(error) => error,
        };
        if printed.exceeded {
            return reached(Limit::Output, limits);
        }
        if let Some(limit) = limit(&error) {
            return reached(limit, limits);
        }
        if let Some(I32Exit(status)) = error.downcast_ref() {
            return CallError::Trap {
                message: told(&format!("it ended itself with status {status} before it answered"), printed),
                denied: state.asker.denied(),
                frames: Vec::new(),
            };
        }
        if error.is::<PoolConcurrencyLimitError>() {
            return CallError::Host {
                message: format!("{}; try again when fewer calls run", error.root_cause()),
            };
        }
        // A guest that is refused memory or a longer table usually gives up. One that fails much later for
        // another reason cannot be told apart.
        if let Some(limit) = limiter.refused() {
            return reached(limit, limits);
        }
        let message =
            error.downcast_ref::<Trap>().map_or_else(|| error.root_cause().to_string(), ToString::to_string);
        // A guest that gives up because of a denial rarely says so.
        let denied = state.asker.denied();
        let had = if denied.is_empty() {
            String::new()
        } else {
            format!("; it had been denied {}", denied.join(", "))
        };
        let message = told(message.trim_start_matches("wasm trap: "), printed) + &had;
        CallError::Trap { message, denied, frames: frames(&error) }
    }
}

/// Limit behind an error, if there is one. For some limits wasmtime 48.0.8 gives only a text; a test reaches
/// each.
fn limit(error: &wasmtime::Error) -> Option<Limit> {
    if let Some(Reached(limit)) = error.downcast_ref() {
        return Some(*limit);
    }
    match error.downcast_ref() {
        Some(Trap::StackOverflow) => return Some(Limit::Stack),
        Some(Trap::AllocationTooLarge) => return Some(Limit::Memory),
        _ => {}
    }
    if matches!(error.downcast_ref(), Some(ResourceTableError::Full)) {
        return Some(Limit::Resources);
    }
    let message = error.root_cause().to_string();
    [
        ("fuel allocated for hostcalls has been exhausted", Limit::Copied),
        ("store handle limit exceeded", Limit::Handles),
        ("resource table has no free keys", Limit::Resources),
        ("instance count too high", Limit::Instances),
        ("table count too high", Limit::Tables),
        ("memory count too high", Limit::Instances),
    ]
    .into_iter()
    .find_map(|(text, limit)| message.contains(text).then_some(limit))
}

/// Functions on the guest's stack, the innermost first, by the names in the component.
fn frames(error: &wasmtime::Error) -> Vec<String> {
    let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() else { return Vec::new() };
    let name = |frame: &wasmtime::FrameInfo| match frame.func_name() {
        Some(name) => line(&format!("{:#}", rustc_demangle::demangle(name)), MAX_FUNCTION_BYTES),
        None => format!("function {}", frame.func_index()),
    };
    counted(backtrace.frames().iter().map(name))
}

/// Names in order, with repeated sequences of up to [`MAX_PERIOD`] merged and counted, so that the caller of a
/// recursion is visible.
fn counted(names: impl Iterator<Item = String>) -> Vec<String> {
    let names: Vec<String> = names.collect();
    let mut told = Vec::new();
    let mut rest = &names[..];
    while !rest.is_empty() && told.len() < MAX_FUNCTIONS {
        let times = |period: usize| rest.chunks_exact(period).take_while(|c| *c == &rest[..period]).count();
        // A pair that occurs twice by chance stays as it is.
        let periods = (1..=MAX_PERIOD.min(rest.len())).map(|period| (period, times(period)));
        let repeated = periods.into_iter().find(|(period, times)| *times > if *period == 1 { 1 } else { 2 });
        let (period, times) = repeated.unwrap_or((1, 1));
        told.extend(rest[..period].iter().map(|name| match times {
            1 => name.clone(),
            times => format!("{name} ({times} times)"),
        }));
        rest = &rest[period * times..];
    }
    told.truncate(MAX_FUNCTIONS);
    told
}

/// The message, with the end of the guest's standard error, where language runtimes write why they give up.
fn told(message: &str, printed: &Printed) -> String {
    let message = line(message, MAX_MESSAGE_BYTES);
    let stderr = String::from_utf8_lossy(&printed.stderr);
    let stderr = stderr.trim();
    let from = stderr.len().saturating_sub(MAX_TAIL_BYTES);
    let from = (from..=stderr.len()).find(|at| stderr.is_char_boundary(*at)).unwrap_or(stderr.len());
    match &stderr[from..] {
        "" => message,
        tail => format!("{message}; it printed: {}", line(tail, MAX_TAIL_BYTES)),
    }
}

/// The error for a limit, with its value.
pub(crate) fn reached(limit: Limit, limits: &Limits) -> CallError {
    let value = match limit {
        Limit::Memory => limits.memory.to_string(),
        Limit::Tables => limits.tables.to_string(),
        Limit::TableElements => limits.table_elements.to_string(),
        Limit::Instances => limits.instances.to_string(),
        Limit::Handles => limits.handles.to_string(),
        Limit::Resources => limits.resources.to_string(),
        Limit::Copied => limits.copied.to_string(),
        Limit::Output => limits.output.to_string(),
        Limit::Result => limits.result.to_string(),
        Limit::Arguments => limits.arguments.to_string(),
        Limit::Depth => limits.depth.to_string(),
        Limit::Wall => format!("{:?}", limits.wall),
        Limit::Stack => Bytes(crate::limits::STACK_BYTES as u64).to_string(),
    };
    CallError::Limit { limit, value }
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn stack_names_collapse_recursion_and_are_bounded() {
        for (names, told) in [
            ("", ""),
            ("a", "a"),
            ("a a a b", "a (3 times) b"),
            ("a b a", "a b a"),
            ("a b a b c", "a b a b c"),
            ("a b a b a b a c", "a (3 times) b (3 times) a c"),
            ("x a b c a b c a b c d d e", "x a (3 times) b (3 times) c (3 times) d (2 times) e"),
            ("a b c d e a b c d e a b c d e", "a b c d e a b c d e a b"),
            ("a b c d e f g h i j k l m n", "a b c d e f g h i j k l"),
        ] {
            let names = names.split_whitespace().map(str::to_owned);
            assert_eq!(counted(names).join(" "), told);
        }
    }
}
