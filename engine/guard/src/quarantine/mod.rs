//! Steps allowed for a held artifact, as plain functions over data. Nothing here opens a file or a database.
//!
//! | module | idea |
//! | --- | --- |
//! | `state` | the states of an item, and who may take which step |
//! | `person` | persons, and whether two of them may be one |
//! | `release` | a person's release, and if it covers an artifact now |
//! | `chain` | the audit log's chain of digests, and its verification |

mod chain;
mod person;
mod release;
mod state;

pub use chain::{Broken, Chain, Entry, GENESIS, Head};
pub use person::Person;
pub use release::{Release, Uncovered, policy_digest};
pub use state::{Channel, Illegal, Persons, State, Step, next};
