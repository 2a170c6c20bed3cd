//! Why a call came to nothing, told from what wasmtime says.

use hotcell_sandbox::Bytes;
use wasmtime::component::ResourceTableError;
use wasmtime::{PoolConcurrencyLimitError, Trap};
use wasmtime_wasi::I32Exit;

use crate::asker::line;
use crate::capture::Printed;
use crate::limiter::Reached;
use crate::state::State;
use crate::{CallError, Limit, Limits};

/// Bytes of what a guest printed last that are told with a trap: the message of a panic.
const TAIL: usize = 512;

/// Bytes of a trap's description.
const MESSAGE: usize = 512;

/// What ended a call.
pub(crate) enum Failure {
    /// The guest, or the host on behalf of a limit.
    Wasm(wasmtime::Error),
    /// Everything else.
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
    /// The error for whoever called.
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
            };
        }
        if error.is::<PoolConcurrencyLimitError>() {
            return CallError::Host {
                message: format!("{}; try again when fewer calls run", error.root_cause()),
            };
        }
        // A guest that cannot have more memory or a longer table usually gives up; one that dies much later of something else is not
        // told apart.
        if let Some(limit) = limiter.refused() {
            return reached(limit, limits);
        }
        let message =
            error.downcast_ref::<Trap>().map_or_else(|| error.root_cause().to_string(), ToString::to_string);
        // A guest that gives up because of a denial rarely says so.
        let denied = match &state.asker.denied()[..] {
            [] => String::new(),
            denied => format!("; it had been denied {}", denied.join(", ")),
        };
        CallError::Trap { message: told(message.trim_start_matches("wasm trap: "), printed) + &denied }
    }
}

/// Which limit it was, if it was one. Of some, wasmtime 48.0.8 gives only a text; a test hits each.
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

/// With the end of what it printed on standard error, where languages write why they give up.
fn told(message: &str, printed: &Printed) -> String {
    let message = line(message, MESSAGE);
    let stderr = String::from_utf8_lossy(&printed.stderr);
    let stderr = stderr.trim();
    let from = stderr.len().saturating_sub(TAIL);
    let from = (from..=stderr.len()).find(|at| stderr.is_char_boundary(*at)).unwrap_or(stderr.len());
    match &stderr[from..] {
        "" => message,
        tail => format!("{message}; it printed: {}", line(tail, TAIL)),
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
        Limit::Stack => Bytes(crate::engine::STACK as u64).to_string(),
    };
    CallError::Limit { limit, value }
}
