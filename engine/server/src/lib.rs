//! The running service: several callers, runs that outlive a response, folders that callers fill.
//!
//! Any front end can use it; it knows no protocol. Every [`Run`] and every workspace has an unguessable name
//! that is valid for its [`Caller`] alone. Jobs wait in a queue that is fair between callers. Everything is
//! bounded: stored output, remembered runs, bytes and files of workspaces.
//!
//! | module | idea |
//! | --- | --- |
//! | [`asked`] | limits that a caller requests, checked against the operator's |
//! | [`retained`] | stored output: beginning and end, read by offset |
//! | [`queue`] | fair queue |
//! | [`run`] | one run: its state, its output, its end |
//! | [`registry`] | all runs: start, find, forget |
//! | `finished` | which finished runs are forgotten |
//! | `scribe` | writes the history in the background |
//! | `current` | the configuration in force |
//! | [`command`] | a program or a source as a job |
//! | [`asking`] | network requests of a run |
//! | `leave` | network permit of a run |
//! | [`tests`] | a project's tests as a job |
//! | `suites` | tests in several folders as a job |
//! | [`paths`] | paths in a workspace, checked |
//! | [`workspaces`] | workspaces of callers, with quotas |
//! | [`tasks`] | calls that continue in the background, and their results |
//! | [`tokens`] | authentication of network callers |
//! | [`folder`] | the service's own folder, and leftovers of dead services |

#![forbid(unsafe_code)]

pub mod command;
mod current;
mod finished;
pub mod folder;
mod history_writer;
pub mod limits;
pub mod metrics;
mod network_permit;
pub mod network_requests;
pub mod paths;
pub mod queue;
pub mod registry;
pub mod retained;
pub mod run;
mod suites_job;
pub mod tasks;
pub mod tests_job;
pub mod tokens;
pub mod workspaces;

pub use crate::limits::AskedLimits;
pub use crate::tests_job::TestsRequest;
pub use command::CommandRequest;
pub use hotcell_state::caller::Caller;
pub use queue::Lane;
pub use registry::{Bounds, Live, Order, Work};
pub use run::{Answer, Phase, Progress, Requested, Run, RunContext, State, Stream};
pub use tokens::Tokens;
pub use workspaces::{Entry, EntryKind, Quotas, RunDir, Workspace, Workspaces};
