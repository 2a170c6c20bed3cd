//! Requests for a permission that only a person can give: their subject, their states, and their rows in the database.
//!
//! | module | idea |
//! | --- | --- |
//! | [`state`] | the states of a request and who may take which step; pure |
//! | [`subject`] | the subject of a request, and its digest |
//! | [`report`] | a request as it is shown |
//! | `rows` | a request as it is stored |

pub mod report;
pub mod rows;
pub mod state;
pub mod subject;

pub use crate::permission::subject::ApprovalSubject;
pub use report::{Approval, ApprovalList, SCHEMA};
pub use state::{Kind, State};

use std::time::Duration;

/// Default lifetime of a pending request, and of an approval or denial: one day.
pub const DEFAULT_LIFETIME: Duration = Duration::from_secs(86_400);
/// Maximum lifetime of an approval: 30 days.
pub const MAX_LIFETIME: Duration = Duration::from_secs(30 * 86_400);
/// Maximum number of pending requests of one caller. A caller that exceeds it gets an error, and nothing is
/// recorded.
pub const MAX_PENDING_PER_CALLER: u64 = 16;
/// Maximum number of pending requests of all callers.
pub const MAX_PENDING_REQUESTS: u64 = 256;
/// Retention of closed requests: 30 days.
pub const REQUEST_RETENTION: Duration = Duration::from_secs(30 * 86_400);
