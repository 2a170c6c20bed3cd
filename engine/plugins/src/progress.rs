//! Progress reports of a call.

use std::sync::Arc;

use tokio::sync::watch;

/// A tool's latest report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// Amount done.
    pub done: u64,
    /// Total amount.
    pub total: Option<u64>,
    /// Message in the tool's own words, which are not trusted.
    pub message: Option<String>,
}

/// Sender of a call's reports.
#[derive(Clone, Debug)]
pub struct Watch(Arc<watch::Sender<Reported>>);

impl Watch {
    /// A watch and its receiver.
    #[must_use]
    pub fn new() -> (Self, watch::Receiver<Reported>) {
        let (sender, receiver) = watch::channel(Reported::default());
        (Self(Arc::new(sender)), receiver)
    }

    pub(crate) fn reported(&self, reported: Reported) {
        self.0.send_replace(reported);
    }
}
