//! The quarantine: what the gate refused is held until a person decides, or until nobody cared for long enough.
//!
//! An item is an artifact by its digest. Its rows stand in the state folder's database, the files that asked for a look in
//! `objects/`, wrapped. What may be done with an item is decided by [`hotcell_guard::quarantine`]; every step is in the
//! audit log ([`crate::audit`]) in the same transaction.
//!
//! | module | idea |
//! | --- | --- |
//! | [`identity`] | what was refused, by its bytes |
//! | `objects` | bytes by their digest, wrapped |
//! | [`item`] | an item as it is shown |
//! | `rows` | an item as it is stored |
//! | [`error`] | what holds when a step is taken, and why one is not |
//! | [`store`] | the open quarantine: one change at a time |
//! | `steps` | the steps, each one transaction |
//! | [`gate`] | what is done with something that is about to run and must not |
//! | [`office`] | the steps as front ends take them: what was read under other rules is read again first |

pub mod error;
pub mod gate;
pub mod identity;
pub mod item;
mod objects;
pub mod office;
mod rows;
mod steps;
pub mod store;
#[cfg(test)]
mod tests;

pub use error::{QuarantineError, Terms};
pub use gate::Keep;
pub use item::{Item, Items, SCHEMA};
pub use office::Office;
pub use store::Quarantine;

use std::time::Duration;

/// How long an item stays that nobody asks for and that is not refused again. Default 30 days.
pub const RETENTION: Duration = Duration::from_secs(30 * 86_400);
/// How long a release lasts when nobody says. One day.
pub const RELEASE: Duration = Duration::from_secs(86_400);
/// The longest release: a year.
pub const LONGEST_RELEASE: Duration = Duration::from_secs(365 * 86_400);
