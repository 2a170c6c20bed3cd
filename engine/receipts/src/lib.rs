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
//! | [`check`] | verification, and conditions that a receipt has to meet |

#![forbid(unsafe_code)]

pub mod check;
pub mod envelope;
mod hex;
pub mod keys;
mod nofollow;
pub mod record;
pub mod run;
pub mod scan;
pub mod statement;
pub mod store;
pub mod test_result;
pub mod tree;

pub use check::{Conditions, ReceiptError, Verified, verify};
pub use envelope::Envelope;
pub use keys::{KeyError, KeyRing, PublicKey, SigningKey};
pub use statement::{Statement, Subject};
pub use store::KeyStore;
