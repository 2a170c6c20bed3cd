#![doc = include_str!("../README.md")]
//!
//! | module | idea |
//! | --- | --- |
//! | [`envelope`] | DSSE: what exactly is signed, and the JSON around it |
//! | [`statement`] | in-toto statements, subjects and digests |
//! | [`keys`] | Ed25519 keys: making, reading, PEM, identifiers |
//! | [`store`] | keys of an installation in its state folder: own, retired, trusted |
//! | [`signer`] | the signer that the configuration names: a key, or a program of the host |
//! | `program` | a program that signs |
//! | [`issue`] | making a receipt |
//! | [`ahead`] | the database, opened while a run goes on |
//! | [`record`] | receipts in the audit log |
//! | [`tree`], [`git`] | directory hash and git tree of a project |
//! | [`run`], [`session`], [`session_steps`], [`test_result`], [`scan`], [`agent`] | the predicates |
//! | [`error`], [`stated`] | errors, and the result that a receipt states |
//! | [`check`] | verification, and conditions that a receipt has to meet |
//! | [`policy`] | conditions in a file |

#![forbid(unsafe_code)]

pub mod agent;
pub mod ahead;
pub mod check;
mod digest;
pub mod envelope;
pub mod error;
pub mod git;
pub mod issue;
pub mod keys;
mod nofollow;
pub mod policy;
mod program;
pub mod record;
pub mod run;
pub mod scan;
pub mod session;
pub mod session_steps;
pub mod signer;
pub mod stated;
pub mod statement;
pub mod store;
pub mod test_result;
pub mod tree;

pub use ahead::Ahead;
pub use check::{Conditions, Verified, verify};
pub use envelope::Envelope;
pub use error::ReceiptError;
pub use issue::{IssueError, Issuer};
pub use keys::{KeyError, KeyRing, PublicKey, SigningKey};
pub use stated::Stated;
pub use statement::{ACTION, OUTPUTS, Statement, Subject};
pub use store::KeyStore;
