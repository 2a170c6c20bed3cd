#![doc = include_str!("../README.md")]
//!
//! | module | idea |
//! | --- | --- |
//! | [`envelope`] | DSSE: what exactly is signed, and the JSON around it |
//! | [`statement`] | in-toto statements, subjects and digests |
//! | [`keys`] | Ed25519 keys: making, reading, PEM, identifiers |
//! | [`store`] | keys of an installation in its state folder: own, retired, trusted |
//! | [`record`] | receipts in the audit log |
//! | [`tree`] | directory hash of a project |
//! | [`run`], [`test_result`], [`scan`] | the predicates |
//! | [`error`], [`stated`] | errors, and the result that a receipt states |
//! | [`check`] | verification, and conditions that a receipt has to meet |

#![forbid(unsafe_code)]

pub mod check;
mod digest;
pub mod envelope;
pub mod error;
pub mod keys;
mod nofollow;
pub mod record;
pub mod run;
pub mod scan;
pub mod stated;
pub mod statement;
pub mod store;
pub mod test_result;
pub mod tree;

pub use check::{Conditions, Verified, verify};
pub use envelope::Envelope;
pub use error::ReceiptError;
pub use keys::{KeyError, KeyRing, PublicKey, SigningKey};
pub use stated::Stated;
pub use statement::{Statement, Subject};
pub use store::KeyStore;
