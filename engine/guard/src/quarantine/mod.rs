//! What may be done with an artifact that is held, as plain functions over data. Nothing here opens a file or a database.
//!
//! | module | idea |
//! | --- | --- |
//! | `state` | the states of an item, and who may take which step |
//! | `release` | what a person allowed, and whether that covers an artifact now |
//! | `chain` | the audit log's chain of digests, and what is wrong with one |

mod chain;
mod release;
mod state;

pub use chain::{Broken, Chain, Entry, GENESIS, Head};
pub use release::{Release, Uncovered, policy_digest};
pub use state::{Channel, Illegal, Persons, State, Step, next};
