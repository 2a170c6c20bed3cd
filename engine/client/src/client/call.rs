//! A call of a tool, as its caller wants it.

use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::event::Progress;
use crate::notice::Notice;

/// A call of a tool.
pub struct Call {
    pub(super) tool: String,
    pub(super) arguments: Value,
    pub(super) within: Duration,
    pub(super) progress: Option<Box<dyn FnMut(Progress) + Send>>,
    pub(super) notices: Option<Box<dyn FnMut(Notice) + Send>>,
    pub(super) cancel: CancellationToken,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").field("tool", &self.tool).field("within", &self.within).finish_non_exhaustive()
    }
}

impl Call {
    /// A call with arguments, which are a JSON object. The answer may take 300 s.
    #[must_use]
    pub fn new(tool: &str, arguments: Value) -> Self {
        let cancel = CancellationToken::new();
        let (tool, within) = (tool.to_owned(), Duration::from_secs(300));
        Self { tool, arguments, within, progress: None, notices: None, cancel }
    }

    /// Sets the time for the answer, connecting included.
    #[must_use]
    pub fn within(mut self, within: Duration) -> Self {
        self.within = within;
        self
    }

    /// Calls a function for each progress notification. The ones that come faster than the function returns are dropped.
    #[must_use]
    pub fn progress(mut self, each: impl FnMut(Progress) + Send + 'static) -> Self {
        self.progress = Some(Box::new(each));
        self
    }

    /// Calls a function for each notice: output, calls of tools, changed files, tasks. The ones that come faster than the function returns are dropped.
    #[must_use]
    pub fn notices(mut self, each: impl FnMut(Notice) + Send + 'static) -> Self {
        self.notices = Some(Box::new(each));
        self
    }

    /// Cancels the call once this token is cancelled.
    #[must_use]
    pub fn cancel(mut self, cancel: CancellationToken) -> Self {
        self.cancel = cancel;
        self
    }
}
