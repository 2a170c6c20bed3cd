//! An MCP server in front of the service: agents save, run and test code through it.
//!
//! Revisions `2026-07-28` and `2025-11-25` (and `2025-06-18`, which clients still speak) in one server, over standard
//! input and output and over streamable HTTP. This is the only crate that knows the protocol; what it offers is done
//! by [`hotcell_service::Live`].
//!
//! | module | idea |
//! | --- | --- |
//! | [`server`] | the protocol's requests, for one caller each |
//! | [`tools`] | the tools: what they take, what they do |
//! | `approvals` | what an answer says of an approval that a call needs |
//! | `elicit` | asking a person through the client, where the operator allows that |
//! | [`answer`] | what a run came to, as a model reads it, within a budget |
//! | [`text`] | shortening of what programs printed |
//! | [`wait`] | waiting for a run with progress, until it ends or nobody listens |
//! | `tasks` | calls that go on behind a task |
//! | [`resources`] | runs and workspaces as resources |
//! | `lines`, [`stdio`], [`http`] | the two transports |
//! | `fed` | both fronts, fed with any bytes |
//! | [`metrics`] | numbers for whoever watches the server |
//! | [`prompts`] | ways through the tools, for a person to start |
//! | [`probe`] | what another server offers, as a client finds it out |
//! | `vain` | how often a client is asked that does not say yes |
//! | `values` | messages of too many values, before they are read |
//! | [`mod@reference`] | the tool reference of the book |

#![forbid(unsafe_code)]

pub mod answer;
mod approvals;
mod elicit;
#[doc(hidden)]
pub mod fed;
pub mod http;
mod lines;
pub mod metrics;
pub mod probe;
pub mod prompts;
pub mod reference;
pub mod resources;
pub mod server;
pub mod stdio;
mod tasks;
mod tests_answer;
pub mod text;
pub mod tools;
mod vain;
mod values;
pub mod wait;

pub use http::{HttpError, HttpOptions};
pub use server::Server;

/// The longest message that a client may send, in bytes: a line on standard input, a body over HTTP. Default 8 MiB.
pub const LONGEST_MESSAGE: usize = 8 << 20;
/// How long answers may take to be sent when the server ends.
const LAST_WORDS: std::time::Duration = std::time::Duration::from_secs(3);
/// Characters of structured content in an answer. Default 20,000.
pub const BUDGET: usize = 20_000;
