//! The storage of the Remote Execution API (REAPI v2): folders to blobs of a farm, and blobs to folders.
//!
//! A farm is not trusted: the digest of every byte that it returns is checked, and each tree, path, size and count that
//! it sends is treated as hostile. Decisions are plain functions; the code that speaks gRPC is thin and beside them.
//!
//! | module | idea |
//! | --- | --- |
//! | [`address`] | `grpc://HOST:PORT/INSTANCE`; without TLS only to this machine, unless the operator says so |
//! | [`digest`] | SHA-256 digests of blobs |
//! | [`error`] | what failed, and by whose fault |
//! | [`wire`] | messages in messages, channels, statuses |
//! | [`tree`] | `Directory` messages checked as hostile input: names, links, counts, depth |
//! | [`gather`] | a view of a folder as `Directory` messages |
//! | [`cas`] | the content-addressed storage: find, upload, read |
//! | [`lay`] | a checked tree written into a folder |
//!
//! Source: `build/bazel/remote/execution/v2/remote_execution.proto` of bazelbuild/remote-apis.

#![forbid(unsafe_code)]

pub mod address;
pub mod cas;
pub mod digest;
pub mod error;
pub mod gather;
pub mod lay;
pub mod tree;
pub mod wire;

pub use address::Address;
pub use error::{FleetError, Kind};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
