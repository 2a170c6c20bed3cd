//! The service while it runs: several callers, runs that go on behind the answer, folders that callers fill.
//!
//! Any front end can stand on it; it knows no protocol. A [`Caller`] is who asks; every [`Run`] and every workspace
//! has an unguessable name that means something to its caller alone. Work waits in a queue that is fair between
//! callers. Everything is bounded: output that is kept, runs that are remembered, bytes and files of workspaces.
//!
//! | module | idea |
//! | --- | --- |
//! | `caller` | who asks; unguessable names |
//! | [`asked`] | limits that somebody asks for, held against the operator's |
//! | [`retained`] | output that is kept: beginning and end, read by offset |
//! | [`queue`] | who is next |
//! | [`run`] | one run: its state, its output, its end |
//! | [`registry`] | all runs: start, find, forget |
//! | `finished` | which ended runs are forgotten |
//! | `scribe` | the history, behind the answers |
//! | `current` | the configuration in force |
//! | [`command`] | a program or a source as work |
//! | [`asking`] | hosts that a run asks for |
//! | `leave` | hosts that a run reaches, for as long as it may |
//! | [`tests`] | a project's tests as work |
//! | `suites` | tests in several folders as work |
//! | [`paths`] | paths in a workspace, checked |
//! | [`workspaces`] | workspaces of callers, with quotas |
//! | [`tasks`] | calls that go on behind a task, and what became of them |
//! | [`tokens`] | who may ask over a network |
//! | [`folder`] | the service's own folder, and what a dead service left |

pub mod asked;
pub mod asking;
mod caller;
pub mod command;
mod current;
mod finished;
pub mod folder;
mod leave;
pub mod paths;
pub mod queue;
pub mod registry;
pub mod retained;
pub mod run;
mod scribe;
mod suites;
pub mod tasks;
pub mod tests;
pub mod tokens;
pub mod workspaces;

pub use asked::AskedLimits;
pub use caller::{Caller, random_hex};
pub use command::CommandRequest;
pub use queue::Lane;
pub use registry::{Bounds, Live, Order, Work};
pub use run::{Answer, Desk, Phase, Progress, Run, State, Stream};
pub use tests::TestsRequest;
pub use tokens::Tokens;
pub use workspaces::{Entry, EntryKind, Place, Quotas, Workspace, Workspaces};
