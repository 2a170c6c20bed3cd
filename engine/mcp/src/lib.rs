//! An MCP server in front of the service: agents save, run and test code with it.
//!
//! One server for revisions `2026-07-28` and `2025-11-25` (and `2025-06-18`, which clients still use), over
//! standard input and output and over streamable HTTP. This is the only crate that knows the protocol; the
//! work is done by [`hotcell_server::Live`].
//!
//! | module | purpose |
//! | --- | --- |
//! | [`server`] | the protocol's requests, each for one caller |
//! | [`tools`] | the tools: their arguments and their work |
//! | [`toolsets`] | which tools a client is offered |
//! | [`combined`] | foreign servers beside the own tools |
//! | `reply` | an answer with a value or an error |
//! | `approvals` | approvals in answers |
//! | `elicit` | asking a user through the client, where the operator allows that |
//! | [`answer`] | results of runs for a model, within a budget |
//! | [`text`] | shortening the output of programs |
//! | [`wait`] | waiting for a run with progress, until it ends or no listener is left |
//! | [`roles`] | a server with the tools of one role |
//! | `left_results` | runs of a server that has ended |
//! | `tasks` | calls that continue as a task |
//! | `uri` | URIs of resources |
//! | [`resources`] | runs and workspaces as resources |
//! | `lines`, [`stdio`], [`http`] | the two transports |
//! | `fuzzing` | both transports, fed with arbitrary bytes |
//! | [`metrics`] | metrics for monitoring the server |
//! | `plugin_words`, `fitted` | words of plugins for a model, within a budget |
//! | [`pin`] | pins of a foreign server's tools |
//! | `client_habits` | answers as certain clients need them |
//! | `picture` | pictures, known by their bytes |
//! | `plugin_resources` | resources and prompts of plugins |
//! | [`prompts`] | workflows with the tools, for users to start |
//! | [`probe`] | capabilities of another server, found out as a client |
//! | `media_ranges` | `Accept` headers with wildcards, or without any type |
//! | `parameters` | parameters in the messages of libraries, as arguments of tools |
//! | `priming_events` | streams for clients that do not know priming events |
//! | `prompt_limit` | limits how often a client that does not approve is asked |
//! | `methods` | served methods, and the wrong part of their parameters |
//! | `unread` | a message from its text, or why it is not one |
//! | `values` | rejects messages with too many values, before they are parsed |
//! | [`mod@reference`] | the tool reference of the book |

#![forbid(unsafe_code)]

pub mod answer;
mod approvals;
mod blocking;
mod client_habits;
pub mod combined;
mod elicit;
mod fitted;
#[doc(hidden)]
pub mod fuzzing;
pub mod http;
mod left_results;
mod lines;
mod media_ranges;
mod methods;
pub mod metrics;
mod near_uri;
mod pages;
mod parameters;
mod picture;
pub mod pin;
mod plugin_resources;
mod plugin_words;
mod priming_events;
pub mod probe;
pub mod probe_http;
mod prompt_limit;
pub mod prompts;
pub mod reference;
mod reply;
mod request_id;
pub mod resources;
pub mod roles;
pub mod server;
pub mod stdio;
mod tasks;
pub mod text;
pub mod tools;
pub mod toolsets;
mod unread;
mod uri;
mod values;
pub mod wait;

pub use approvals::name_state;
pub use combined::Combined;
pub use http::{HttpError, HttpOptions};
pub use server::Server;
pub use toolsets::Toolsets;

/// Maximum size of a client's message in bytes: a line on standard input, a body over HTTP. Default 8 MiB.
pub const MAX_MESSAGE_BYTES: usize = 8 << 20;
/// Maximum size of structured content in an answer, in characters. Default 20,000.
pub const MAX_CONTENT_CHARS: usize = 20_000;
