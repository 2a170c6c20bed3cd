//! Approvals: permissions that a call needs and only a person can give. The call records its request, a
//! person approves or denies it, and after an approval the same call works once when it is repeated.
//!
//! An approval is for one caller, one digest, a limited time, and one use. Rows are in the state folder's
//! database; every step is in the audit log ([`hotcell_state::audit`]) in the same transaction, with the channel
//! used. [`crate::permission`] has the requests as data. The rules for releases
//! from quarantine and for grants remain with [`crate::quarantine`] and plugins: an approval here takes their
//! step.
//!
//! | module | idea |
//! | --- | --- |
//! | [`service`] | the steps as front ends take them |
//! | `content` | digest of the files that a run is about to see |
//! | `waiting` | pages of the requests that wait |
//! | [`key`] | the key of this installation, for data that travels through clients |

pub mod content;
mod error;
pub mod key;
pub mod service;
#[cfg(test)]
mod tests;
mod waiting;

pub use crate::approvals::service::{Approvals, GrantCheck, RequestStatus};
pub use crate::permission::{Approval, ApprovalList, ApprovalSubject, Kind, SCHEMA, State};
