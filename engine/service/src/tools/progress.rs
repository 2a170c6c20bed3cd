//! How far a call says that it is.

use std::sync::Arc;

use tokio::sync::watch;

/// What a tool reported last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// So much.
    pub done: u64,
    /// Of so much.
    pub total: Option<u64>,
    /// In the tool's own words, which are not ours.
    pub message: Option<String>,
}

/// Where a call's reports go.
#[derive(Clone, Debug)]
pub struct Watch(Arc<watch::Sender<Reported>>);

impl Watch {
    /// A watch, and what hears it.
    #[must_use]
    pub fn new() -> (Self, watch::Receiver<Reported>) {
        let (sender, receiver) = watch::channel(Reported::default());
        (Self(Arc::new(sender)), receiver)
    }

    pub(super) fn reported(&self, reported: Reported) {
        self.0.send_replace(reported);
    }
}
