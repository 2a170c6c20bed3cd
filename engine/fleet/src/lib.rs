//! The Remote Execution API (REAPI v2), both sides: runs on a farm of others' machines, and a farm's worker whose
//! actions are sandboxes.
//!
//! No side trusts another. The client checks the digest of every byte that a farm returns, and the worker treats each
//! tree, path, size and count that a farm sends as hostile. Decisions are plain functions; the code that speaks gRPC
//! is thin and beside them. There is no queue and no storage here: those are the farm's.
//!
//! | module | idea |
//! | --- | --- |
//! | [`address`] | `grpcs://HOST:PORT/INSTANCE`; without TLS only to this machine, unless the operator says so |
//! | [`access`] | TLS, certificates and the bearer token |
//! | [`digest`] | SHA-256 digests of blobs |
//! | [`error`] | what failed, and by whose fault |
//! | [`wire`] | messages in messages, channels, statuses |
//! | [`count`] | repeated fields of a message, counted before they take memory |
//! | [`tree`] | `Directory` messages checked as hostile input: names, links, counts, depth |
//! | [`gather`] | a view of a folder as `Directory` messages |
//! | [`known`] | digests of a folder's files, kept between runs |
//! | [`cas`] | the content-addressed storage: find, upload, read |
//! | [`cache`] | blobs kept on the worker's disk |
//! | [`mod@zstd`] | compressed blobs, decompressed within bounds |
//! | [`lay`] | a checked tree written into a folder |
//! | [`action`] | an action checked against the operator's limits, which it can only narrow |
//! | [`verdict`] | how a run ended, in the API's terms, and back |
//! | [`bots`] | messages of the Remote Workers API |
//! | [`leases`] | leases to start, to stop and to forget |
//! | [`room`] | number of actions that fit at once |
//! | [`once`], [`marks`] | runs that may not be run twice |
//! | [`receipt`] | a worker's receipt of a result |
//! | [`executor`] | one program in one sandbox |
//! | [`perform`] | one action of a farm |
//! | [`runner_api`], [`runner`] | the runner service of Buildbarn |
//! | [`entry`] | the entry of NativeLink |
//! | [`meter`], [`status`] | a worker and a farm for their operator |
//! | [`worker`] | the session with a farm's scheduler |
//! | [`client`] | one run on a farm |
//! | [`input`], `execute`, `results` | its parts: input, the action in the farm's hands, what was written |
//! | [`receipt_check`] | the receipt of a worker, verified |
//! | [`elsewhere`] | a farm in place of sandboxes here |
//!
//! Sources: `build/bazel/remote/execution/v2/remote_execution.proto` of bazelbuild/remote-apis, and
//! `google/devtools/remoteworkers/v1test2/bots.proto` of googleapis.

#![forbid(unsafe_code)]

pub mod access;
pub mod action;
pub mod address;
pub mod bots;
pub mod cache;
pub mod cas;
pub mod client;
pub mod count;
pub mod digest;
pub mod elsewhere;
pub mod entry;
pub mod error;
mod execute;
pub mod executor;
pub mod gather;
pub mod input;
pub mod known;
pub mod lay;
pub mod leases;
pub mod marks;
pub mod meter;
pub mod once;
pub mod perform;
pub mod receipt;
pub mod receipt_check;
mod results;
pub mod room;
pub mod runner;
pub mod runner_api;
pub mod status;
pub mod tree;
pub mod verdict;
pub mod wire;
pub mod worker;
pub mod zstd;

pub use access::Access;
pub use address::Address;
pub use client::Farm;
pub use elsewhere::Elsewhere;
pub use error::{FleetError, Kind};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
