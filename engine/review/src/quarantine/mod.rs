//! The quarantine: code that the gate refused is held until a person decides, or until its retention is over.
//!
//! An item is an artifact by its digest. Its rows are in the state folder's database, the files that need
//! review in `objects/`, wrapped. [`hotcell_guard::quarantine`] decides which steps are allowed; every step
//! is in the audit log ([`hotcell_state::audit`]) in the same transaction.
//!
//! | module | idea |
//! | --- | --- |
//! | [`identity`] | identifies refused code by its bytes |
//! | `objects` | bytes by their digest, wrapped |
//! | [`item`] | an item as it is shown |
//! | `rows` | an item as it is stored |
//! | [`error`] | conditions and errors of a step |
//! | [`store`] | the open quarantine: one change at a time |
//! | `steps` | the steps, each one transaction |
//! | `config` | where and for whom refused code is held |
//! | [`service`] | the steps as front ends take them: items scanned under other rules are scanned again first |
//! | `waiting` | pages of the items that wait |

mod config;
pub mod error;
pub mod identity;
pub mod item;
mod objects;
mod rows;
pub mod service;
mod steps;
pub mod store;
#[cfg(test)]
mod tests;
mod waiting;

pub use crate::quarantine::config::QuarantineConfig;
pub use crate::quarantine::service::QuarantineService;
pub use error::{QuarantineError, StepContext};
pub use item::{Item, Items, SCHEMA};
pub use steps::Judged;
pub use store::Quarantine;

use std::time::Duration;

/// Default retention of an item that is neither requested nor refused again: 30 days.
pub const DEFAULT_RETENTION: Duration = Duration::from_secs(30 * 86_400);
/// Default lifetime of a release: one day.
pub const DEFAULT_RELEASE_LIFETIME: Duration = Duration::from_secs(86_400);
/// Maximum lifetime of a release: a year.
pub const MAX_RELEASE_LIFETIME: Duration = Duration::from_secs(365 * 86_400);
