//! The running service: several callers, runs that outlive a response, folders that callers fill.
//!
//! Any front end can use it; it knows no protocol. Every [`Run`] and every workspace has an unguessable name
//! that is valid for its [`Caller`] alone. Jobs wait in a queue that is fair between callers. Everything is
//! bounded: stored output, remembered runs, bytes and files of workspaces.
//!
//! | module | idea |
//! | --- | --- |
//! | [`limits`] | limits that a caller requests, checked against the operator's |
//! | [`retained`] | stored output: beginning and end, read by offset |
//! | [`queue`] | fair queue |
//! | [`run`] | one run: its state, its output, its end |
//! | [`registry`] | all runs: start, find, forget |
//! | `finished` | which finished runs are forgotten |
//! | `signing` | parts of a receipt from before its run starts |
//! | `receipts` | signed statements of runs, after their answers |
//! | `history_writer` | writes the history in the background |
//! | `current` | the configuration in force |
//! | [`jobs`] | jobs: a program or a source, the tests of a project, several suites |
//! | [`network_requests`] | network requests of a run |
//! | `network_permit` | network permit of a run |
//! | [`paths`] | paths in a workspace, checked |
//! | [`workspaces`] | workspaces of callers, with quotas |
//! | `running_agents` | sessions of models that run now, and choices of callers |
//! | `sessions` | sessions of callers |
//! | [`terminals`] | terminals of callers |
//! | [`agents`] | sessions in which models write code, reviews, choices among the operator's models |
//! | [`tasks`] | calls that continue in the background, and their results |
//! | [`metrics`] | counts for an operator |
//! | [`folder`] | the service's own folder, and leftovers of dead services |

#![forbid(unsafe_code)]

pub mod agents;
mod current;
mod finished;
pub mod folder;
mod history_writer;
pub mod jobs;
pub mod limits;
pub mod metrics;
mod network_permit;
pub mod network_requests;
pub mod paths;
pub mod queue;
mod receipts;
pub mod registry;
pub mod retained;
pub mod run;
mod running_agents;
pub mod session_receipts;
mod sessions;
mod signing;
pub mod tasks;
pub mod terminals;
pub mod workspaces;

pub use crate::jobs::command::CommandRequest;
pub use crate::jobs::tests::TestsRequest;
pub use crate::limits::AskedLimits;
pub use hotcell_state::caller::Caller;
pub use queue::Lane;
pub use registry::{Bounds, Live, Order, Work};
pub use run::{Answer, Phase, Progress, Requested, Run, RunContext, State, Stream};
pub use workspaces::{Entry, EntryKind, Quotas, RunDir, Workspace, Workspaces};
