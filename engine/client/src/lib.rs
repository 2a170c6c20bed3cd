#![doc = include_str!("../README.md")]
//!
//! | module | idea |
//! | --- | --- |
//! | [`client`] | the client: connections, lists, calls |
//! | [`server`] | the servers that can be reached, and the programs among them |
//! | [`endpoint`] | addresses of HTTP servers, their origins, redirects |
//! | [`backoff`] | delays between attempts to connect |
//! | [`event`] | states and events |
//! | [`answer`] | tools and answers |
//! | [`error`] | errors |
//! | [`pool`] | one client for each address and token |
//!
//! The protocol itself is `rmcp`'s; no type of it is in this crate's interface.

#![forbid(unsafe_code)]

pub mod answer;
pub mod backoff;
pub mod client;
pub mod endpoint;
pub mod error;
pub mod event;
mod http_client;
mod lines;
mod noise;
mod notes;
pub mod pool;
mod process;
pub mod server;
mod web_socket;

pub use answer::{Answer, Tool};
pub use backoff::Backoff;
pub use client::{Call, Client, Options, Revision};
pub use endpoint::Endpoint;
pub use error::{CallError, ClientError};
pub use event::{Event, Progress, State};
pub use pool::Pool;
pub use server::{Sandboxed, Server, Unconfined};
