//! The row of a request without a secret: opened when the proxy knows the target, and closed when the connection ends.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

use crate::error::ConnectError;
use crate::host::Host;
use crate::proxy::Shared;
use crate::record::{Moved, OpenRow};
use crate::route::records::{Ending, Request};

/// The row of one connection. Dropping it closes the row.
#[derive(Debug)]
pub struct Recording<'a> {
    shared: &'a Shared,
    number: u64,
    moved: Arc<Moved>,
}

impl Recording<'_> {
    fn change(&self, change: impl FnOnce(&mut Request)) {
        self.shared.open_rows.change(self.number, change);
    }

    /// Notes the rule that allows it.
    pub fn by(&self, rule: &str) {
        self.change(|row| row.rule = rule.to_owned());
    }

    /// Notes that a connection of the program was made for it, by CONNECT and the like.
    pub fn connected(&self) {
        self.change(|row| row.ending = Ending::Answered);
    }

    /// Notes why there is no connection.
    pub fn refused(&self, error: &ConnectError) {
        let (ending, why) = match error {
            ConnectError::Denied(why) => (Ending::Denied, why),
            ConnectError::Unreachable(why) => (Ending::Failed, why),
        };
        self.change(|row| {
            // A row without a rule was denied for want of one.
            row.rule = if row.rule.is_empty() { "no rule allows it".to_owned() } else { why.clone() };
            row.ending = ending;
        });
    }

    /// Notes that what the program sent is not allowed there.
    pub fn denied(&self, why: &str) {
        self.change(|row| (row.ending, row.rule) = (Ending::Denied, why.to_owned()));
    }

    /// Notes that no usable answer came.
    pub fn failed(&self, why: &str) {
        self.change(|row| (row.ending, row.rule) = (Ending::Failed, why.to_owned()));
    }

    /// Notes the status of an answer.
    pub fn answered(&self, status: u16) {
        self.change(|row| (row.ending, row.status) = (Ending::Answered, Some(status)));
    }

    /// Count of the bytes that are sent to the host.
    pub fn sent(&self) -> &AtomicU64 {
        &self.moved.sent
    }

    /// Count of the bytes that come from the host.
    pub fn received(&self) -> &AtomicU64 {
        &self.moved.received
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        // Both are locked, so that no copy of the records is made in between.
        let mut requests = self.shared.requests();
        if let Some(closed) = self.shared.open_rows.remove(self.number) {
            let mut row = closed.now();
            if row.ending == Ending::Unfinished {
                (row.ending, row.rule) = (Ending::Failed, "the connection ended".to_owned());
            }
            requests.end(closed.at, row);
        }
    }
}

impl Shared {
    /// Opens the row of a request without a secret. `path` is without the values of a query.
    pub(crate) fn record(&self, method: &str, host: &Host, port: u16, path: String) -> Recording<'_> {
        let request = Request {
            at: SystemTime::now(),
            secret: String::new(),
            host: format!("{host}:{port}"),
            method: method.to_owned(),
            path,
            status: None,
            sent: 0,
            received: 0,
            rule: self.allow.rule_for(host, port).map(ToString::to_string).unwrap_or_default(),
            ending: Ending::Unfinished,
        };
        let mut requests = self.requests();
        let at = requests.begin(request.clone());
        let moved = Arc::<Moved>::default();
        let number = self.open_rows.add(OpenRow { at, request, moved: Arc::clone(&moved) });
        Recording { shared: self, number, moved }
    }
}
