#![doc = include_str!("../README.md")]
//!
//! | module | idea |
//! | --- | --- |
//! | [`client`] | the client: connections, lists, calls |
//! | [`server`] | the servers that can be reached, and the programs among them |
//! | [`endpoint`] | addresses of HTTP servers, their origins, redirects |
//! | [`login`] | logins at authorization servers, and their tokens |
//! | [`backoff`] | delays between attempts to connect |
//! | [`event`] | states and events |
//! | [`notice`] | output, calls, changed files and tasks while a call runs |
//! | [`host`] | forms and folders that a server asks for |
//! | [`tiers`] | several servers in an order, and an invented answer on request |
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
pub mod host;
mod http_client;
mod lines;
pub mod login;
mod noise;
mod notes;
pub mod notice;
pub mod pool;
mod process;
mod rights;
pub mod server;
pub mod tiers;
mod web_socket;

pub use answer::{Answer, Tool};
pub use backoff::Backoff;
pub use client::{Call, Client, Options, Revision};
pub use endpoint::{Endpoint, TokenSource};
pub use error::{CallError, ClientError};
pub use event::{Event, Progress, State};
pub use host::Host;
pub use login::request::{FormerLogin, Identity, LoginRequest};
pub use login::{Keeper, LoggedIn, Login};
pub use notice::Notice;
pub use pool::Pool;
pub use rights::scopes;
pub use server::{Sandboxed, Server, Started, Unconfined, Within};
pub use tiers::{Callbacks, Execution, Tiers};
