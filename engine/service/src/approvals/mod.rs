//! Approvals: what a call needs that only a person gives. The call records what it asks for, a person says yes or no, and the same
//! call, repeated, works once.
//!
//! An approval is for one caller, one digest, some time, and one use. Rows stand in the state folder's database; every step is in
//! the audit log ([`crate::audit`]) in the same transaction, with the channel that it came by. What a release from quarantine or a
//! grant may be is decided where it always was ([`crate::quarantine`], [`crate::tools`]): a yes here takes that step.
//!
//! | module | idea |
//! | --- | --- |
//! | [`state`] | the states of a request and who may take which step; pure |
//! | [`what`] | what is asked for, and its digest |
//! | [`report`] | a request as it is shown |
//! | `rows` | a request as it is stored |
//! | [`desk`] | the steps as front ends take them |
//! | `content` | the bytes that a run is about to see, as a digest |
//! | [`key`] | the key of this installation, for what travels through clients |

pub mod content;
pub mod desk;
mod error;
pub mod key;
pub mod report;
pub(crate) mod rows;
pub mod state;
#[cfg(test)]
mod tests;
pub mod what;

pub use desk::{Approvals, Standing};
pub use report::{Approval, ApprovalList, SCHEMA};
pub use state::{Kind, State};
pub use what::What;

use std::time::Duration;

/// How long a request waits, and how long a yes or a no counts when nobody says. One day.
pub const LASTS: Duration = Duration::from_secs(86_400);
/// The longest that a yes may count: 30 days.
pub const LONGEST: Duration = Duration::from_secs(30 * 86_400);
/// Requests of one caller that wait. A caller that asks for more is told so, and nothing is recorded.
pub const WAITING_FOR_ONE: u64 = 16;
/// Requests of all callers that wait.
pub const WAITING: u64 = 256;
/// How long what is over is remembered. 30 days.
pub const REMEMBERED: Duration = Duration::from_secs(30 * 86_400);
