//! Limits of rules in a run: bodies that are too large, and requests beyond a rate.

use std::io;
use std::time::Instant;

use crate::http::Body;
use crate::limit::{Allowance, Counter, RequestLimits};
use crate::proxy::Shared;

/// A request that is beyond a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverLimit {
    /// Status of the refusal (RFC 9110, RFC 6585).
    pub status: &'static str,
    /// The limit, and how far the request is beyond it.
    pub why: String,
}

impl OverLimit {
    /// A body with more bytes than this.
    pub fn body(most: u64) -> Self {
        Self {
            status: "413 Content Too Large",
            why: format!("the body has more than {most} bytes, which the rule allows"),
        }
    }

    /// The limit that ended the copy of a body, if one did.
    pub fn of(error: &io::Error, limits: RequestLimits) -> Option<Self> {
        let most = limits.max_body.filter(|_| error.kind() == io::ErrorKind::FileTooLarge);
        most.map(Self::body)
    }
}

impl Shared {
    /// Counts a request with a body that is announced so.
    ///
    /// # Errors
    /// [`OverLimit`] when it is beyond a limit; then it is not counted.
    pub(crate) fn count(&self, counter: Counter, limits: RequestLimits, body: Body) -> Result<(), OverLimit> {
        if let Some(most) = limits.max_body.filter(|_| limits.is_too_large(body)) {
            return Err(OverLimit::body(most));
        }
        let Some(rate) = limits.rate else { return Ok(()) };
        let now = Instant::now();
        let mut allowances = self.allowances();
        let allowance = allowances.entry(counter).or_insert_with(|| Allowance::new(rate, now));
        allowance.take(now).map_err(|wait| OverLimit {
            status: "429 Too Many Requests",
            why: format!(
                "more than {rate} requests, which the rule allows; the next one is in {:.1} s",
                wait.as_secs_f64()
            ),
        })
    }
}
