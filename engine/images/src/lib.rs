//! What a sandbox's root file system is made of: layers of files, unpacked without trust, stored once, verified.
//!
//! | module | what |
//! | --- | --- |
//! | [`unpack`](mod@unpack) | an archive becomes a folder: nothing lands outside it, nothing is made that could act |
//! | [`stream`] | what an archive is compressed with, found by its first bytes, read within bounds |
//! | [`definition`] | what an image is made of, in TOML |
//! | [`debian`] | Debian packages as one archive |
//! | [`pypi`], [`npm`] | packages of the two registries |
//! | [`bytecode`] | Python's modules compiled ahead of time, in a sandbox |
//! | [`build`](mod@build) | a definition becomes layers |
//! | [`source`] | where images come from: folders, OCI layouts, `docker save`, registries |
//! | [`image`] | what is kept of an image |
//! | [`store`] | images on this host: layers by digest, rows by name |

#![forbid(unsafe_code)]

pub mod build;
pub mod bytecode;
pub mod debian;
pub mod definition;
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
pub use image::{Config, Image, Top};
pub use source::{Source, import};
pub use store::{Held, Import, Named, Store, StoreError};
pub use stream::Digest;
pub use unpack::{Limits, UnpackError, Unpacked, unpack};

/// The example of the README is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
