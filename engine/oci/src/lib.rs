#![doc = include_str!("../README.md")]
//!
//! | module | content |
//! | --- | --- |
//! | [`mod@reference`] | names of what a registry has |
//! | [`repository`] | one repository: manifests and blobs, fetched and pushed |
//! | `challenge` | what a registry asks for before it answers |
//! | [`transport`] | limits of any answer: size, time, redirects |
//! | [`error`] | what failed, and where |

mod challenge;
pub mod error;
pub mod reference;
pub mod repository;
pub mod transport;

pub use error::RegistryError;
pub use reference::{Reference, ReferenceError, SCHEME};
pub use repository::{Repository, Timeouts};
