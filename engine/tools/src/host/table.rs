//! State of one process: its calls, the plugins that it is loading, its questions. Only keeps count; sends
//! nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::protocol::Violation;
use crate::questions::Questions;
use crate::{Answer, Broker, CallError, Limits, LoadError};

/// Maximum size of all open questions of a process, and of the replies that it has not begun to read, in
/// bytes.
pub const MAX_ASKED_BYTES: usize = 64 << 20;

/// End of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Whether the process was ended on purpose, between calls.
    pub clean: bool,
    /// Reason, for people to read.
    pub why: String,
    /// Time of the end.
    pub at: Instant,
}

/// Reasons to end a process.
#[derive(Debug)]
pub enum Why {
    NotNeeded,
    Failed(String),
}

/// Whether a process takes calls.
#[derive(Debug)]
pub enum State {
    /// The process takes calls.
    Open,
    /// The process takes no more calls, and ends after the last running one.
    Retiring,
    /// The process is ending for this reason; `None` when the cause is its own and not known yet.
    Ending(Option<Why>),
    /// The process has ended.
    Ended(End),
}

/// A call that is running.
pub struct Underway {
    pub answer: oneshot::Sender<Result<Answer, CallError>>,
    pub broker: Arc<dyn Broker>,
    pub limits: Limits,
    pub questions: Questions,
    /// No caller waits for it any more.
    pub abandoned: bool,
}

/// An open question.
pub struct Asking {
    pub call: u64,
    /// Size of the question, or of the reply once there is one.
    pub bytes: usize,
    pub task: AbortHandle,
}

/// State of one process.
pub struct Table {
    pub state: State,
    pub calls: HashMap<u64, Underway>,
    pub loads: HashMap<u64, oneshot::Sender<Result<(), LoadError>>>,
    pub asks: HashMap<u64, Asking>,
    pub asked: usize,
    /// Number of questions so far that were not withdrawn: each can be withdrawn once, also after its reply.
    pub withdrawable: u64,
    /// Last number given to a call or plugin.
    pub numbers: u64,
    /// Number of calls so far.
    pub served: u64,
    pub last: Instant,
}

impl Table {
    /// State of a process that has just started.
    pub fn new() -> Self {
        Self {
            state: State::Open,
            calls: HashMap::new(),
            loads: HashMap::new(),
            asks: HashMap::new(),
            asked: 0,
            withdrawable: 0,
            numbers: 0,
            served: 0,
            last: Instant::now(),
        }
    }

    /// Adds a question.
    pub fn ask(&mut self, ask: u64, asking: Asking) {
        self.asked += asking.bytes;
        self.withdrawable += 1;
        self.asks.insert(ask, asking);
    }

    /// Removes a question that was withdrawn.
    ///
    /// # Errors
    /// [`Violation`] when there are more withdrawals than questions.
    pub fn withdraw(&mut self, ask: u64) -> Result<(), Violation> {
        let left = self.withdrawable.checked_sub(1);
        self.withdrawable = left.ok_or_else(|| Violation::new("it withdrew more questions than it asked"))?;
        // The reply may be on its way.
        self.drop_ask(ask);
        Ok(())
    }

    pub fn forget_ask(&mut self, ask: u64) -> Option<Asking> {
        let asking = self.asks.remove(&ask)?;
        self.asked -= asking.bytes;
        Some(asking)
    }

    /// Counts a reply in place of its question; `false` when that exceeds the maximum.
    pub fn replied(&mut self, ask: u64, bytes: usize) -> bool {
        let Some(asking) = self.asks.get_mut(&ask) else { return true };
        let asked = self.asked - asking.bytes + bytes;
        if asked > MAX_ASKED_BYTES {
            return false;
        }
        (self.asked, asking.bytes) = (asked, bytes);
        true
    }

    pub fn drop_ask(&mut self, ask: u64) {
        if let Some(asking) = self.forget_ask(ask) {
            asking.task.abort();
        }
    }

    pub fn drop_asks(&mut self, which: impl Fn(&Asking) -> bool) {
        if self.asks.is_empty() {
            return;
        }
        let asks: Vec<u64> =
            self.asks.iter().filter(|(_, asking)| which(asking)).map(|(ask, _)| *ask).collect();
        for ask in asks {
            self.drop_ask(ask);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn reply_bytes_count_until_forgotten() {
        let mut table = Table::new();
        for ask in 0..3 {
            let task = tokio::spawn(std::future::pending::<()>()).abort_handle();
            table.ask(ask, Asking { call: 1, bytes: 10, task });
        }
        assert!(table.replied(0, MAX_ASKED_BYTES - 20));
        assert_eq!(table.asked, MAX_ASKED_BYTES);
        assert!(!table.replied(1, 11), "it is refused");
        assert!(table.replied(2, 10));
        assert_eq!(table.asked, MAX_ASKED_BYTES);
        assert!(table.forget_ask(0).is_some() && table.forget_ask(0).is_none());
        assert!(table.replied(1, 11) && table.replied(0, usize::MAX), "a question that nobody has any more");
        assert_eq!(table.asked, 21);
        table.drop_asks(|_| true);
        assert_eq!((table.asked, table.asks.len()), (0, 0));
    }

    #[test]
    fn withdrawals_are_limited_to_questions() {
        let mut table = Table::new();
        assert!(table.withdraw(1).is_err());
        table.withdrawable = 2;
        assert!(table.withdraw(1).is_ok() && table.withdraw(1).is_ok() && table.withdraw(1).is_err());
    }
}
