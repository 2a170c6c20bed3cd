//! Orders of callers, and the limits of a service that takes them.

use std::time::Duration;

use hotcell_sandbox::BoxFuture;
use hotcell_state::report::{Code, ErrorReport};

use crate::queue::{Full, Lane};
use crate::run::{Answer, Requested, RunContext};
use crate::workspaces::Quotas;

/// Limits of a service.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Maximum number of concurrent runs. Default 5.
    pub concurrent: usize,
    /// Maximum number of concurrent runs per caller. Default: all; a front end with several callers leaves
    /// one for the others.
    pub concurrent_for_one: usize,
    /// Maximum number of waiting runs per caller. Default 128.
    pub waiting_for_one: usize,
    /// Maximum number of waiting runs. Default 1,024.
    pub waiting: usize,
    /// Maximum number of remembered finished runs per caller. Default 128.
    pub finished_for_one: usize,
    /// Retention of a finished run. Default one hour.
    pub time_to_live: Duration,
    /// Bytes stored of each output stream. Default 1 MiB.
    pub output: usize,
    /// Output of all finished runs held in memory, in bytes. Default 128 MiB.
    pub held: usize,
    /// Quotas of workspaces.
    pub quotas: Quotas,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            concurrent: 5,
            concurrent_for_one: 5,
            waiting_for_one: 128,
            waiting: 1024,
            finished_for_one: 128,
            time_to_live: Duration::from_secs(3600),
            output: 1 << 20,
            held: 128 << 20,
            quotas: Quotas::default(),
        }
    }
}

/// The work of a run.
pub type Work = Box<dyn FnOnce(RunContext) -> BoxFuture<'static, Answer> + Send>;

/// An order to run something.
pub struct Order {
    /// Command for lists and the history, which store its beginning.
    pub command: Vec<String>,
    /// The caller's idempotency key: another order with this key returns the same run, unless that run was
    /// cancelled.
    pub key: Option<String>,
    /// The caller's session; sessions take turns.
    pub lane: Lane,
    /// Everything that was requested, to detect a different order with the same key. Used only with a key.
    pub content: Vec<u8>,
    /// Facts about the request, for the answer.
    pub request: Requested,
    /// Starts at once, beside the queue: for what is bounded elsewhere.
    pub beside: bool,
    /// Work to run.
    pub work: Work,
}

impl std::fmt::Debug for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Order")
            .field("command", &self.command)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// Maximum size of a stored command line, in bytes.
const MAX_COMMAND_BYTES: usize = 4096;

/// Maximum length of a key.
pub const MAX_KEY_LEN: usize = 128;

/// The beginning of a command line.
pub(super) fn beginning(mut command: Vec<String>) -> Vec<String> {
    let mut left = MAX_COMMAND_BYTES;
    for at in 0..command.len() {
        let word = &mut command[at];
        if word.len() + 1 > left {
            word.truncate(word.floor_char_boundary(left));
            word.push('…');
            command.truncate(at + 1);
            break;
        }
        left -= word.len() + 1;
    }
    command
}

pub(super) fn full(full: Full) -> ErrorReport {
    let message = match full {
        Full::Caller(own) => format!("{own} of your runs wait already"),
        Full::All(all) => format!("{all} runs wait already"),
    };
    ErrorReport::new(Code::Busy, message).hint("wait until some have ended, or cancel some")
}
