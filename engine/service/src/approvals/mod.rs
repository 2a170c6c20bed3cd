//! Approvals: permissions that a call needs and only a person can give. The call records its request, a
//! person approves or denies it, and after an approval the same call works once when it is repeated.
//!
//! An approval is for one caller, one digest, a limited time, and one use. Rows are in the state folder's
//! database; every step is in the audit log ([`crate::audit`]) in the same transaction, with the channel
//! used. The rules for releases from quarantine and for grants remain with [`crate::quarantine`] and
//! [`crate::tools`]: an approval here takes their step.
//!
//! | module | idea |
//! | --- | --- |
//! | [`state`] | the states of a request and who may take which step; pure |
//! | [`what`] | the subject of a request, and its digest |
//! | [`report`] | a request as it is shown |
//! | `rows` | a request as it is stored |
//! | [`desk`] | the steps as front ends take them |
//! | `content` | digest of the files that a run is about to see |
//! | [`key`] | the key of this installation, for data that travels through clients |

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

/// Default lifetime of a pending request, and of an approval or denial: one day.
pub const LASTS: Duration = Duration::from_secs(86_400);
/// Maximum lifetime of an approval: 30 days.
pub const LONGEST: Duration = Duration::from_secs(30 * 86_400);
/// Maximum number of pending requests of one caller. A caller that exceeds it gets an error, and nothing is
/// recorded.
pub const WAITING_FOR_ONE: u64 = 16;
/// Maximum number of pending requests of all callers.
pub const WAITING: u64 = 256;
/// Retention of closed requests: 30 days.
pub const REMEMBERED: Duration = Duration::from_secs(30 * 86_400);
