//! Root file systems for sandboxes: layers of files, unpacked as untrusted input, stored once, verified.
//!
//! | module | purpose |
//! | --- | --- |
//! | [`unpack`](mod@unpack) | unpacks an archive into a folder, never outside it, and without setuid files or
//! devices |
//! | [`stream`] | detects an archive's compression and reads it within bounds |
//! | [`definition`] | contents of an image, in TOML |
//! | [`debian`] | Debian packages as one archive |
//! | [`pypi`], [`npm`] | packages of the two registries |
//! | [`bytecode`] | compiles Python's modules ahead of time, in a sandbox |
//! | [`build`](mod@build) | builds layers from a definition |
//! | [`source`] | imports images: folders, OCI layouts, `docker save`, registries |
//! | `error` | errors of sources and of the store |
//! | [`image`] | the record of an image |
//! | [`store`] | images on this host: layers by digest, records by name |

#![forbid(unsafe_code)]

pub mod build;
pub mod bytecode;
pub mod debian;
pub mod definition;
mod error;
pub mod image;
pub mod npm;
mod pipe;
pub mod pypi;
pub mod source;
pub mod store;
pub mod stream;
pub mod tarball;
mod tool;
mod tree;
pub mod unpack;
mod view;

pub use definition::{Definition, DefinitionError};
pub use error::{SourceError, StoreError};
pub use image::{Config, Image, Top};
pub use source::{Source, import};
pub use store::{Held, Import, Named, Store};
pub use stream::Digest;
pub use unpack::{Limits, UnpackError, Unpacked, unpack};

/// Compiles and runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
