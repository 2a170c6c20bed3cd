//! Plugins: components that a person added, what was granted to them, and what they ask for while they run.
//!
//! Rows stand in the state folder's database, components in `tools/components/`, by their digests. Every change is in the
//! audit log ([`crate::audit`]) in the same transaction, and only a person on the command line makes one that gives anything.
//!
//! | module | idea |
//! | --- | --- |
//! | [`settings`] | the operator's table `tools` |
//! | `rows` | a plugin as it is stored |
//! | [`report`] | plugins and tools as they are shown |
//! | [`plugins`] | what is there, and what is in force |
//! | `fetch` | from a source to a version that was looked at |
//! | [`caller`] | a call, from a tool's name to its answer |
//! | [`asking`] | a call of somebody who has to ask a person for what it is denied |
//! | `changes` | whether the tools became others |
//! | `broker` | what a call asks for: each question to whoever can answer it |
//! | [`progress`] | how far a call says that it is |
//! | `http` | requests of plugins, to addresses that were checked |
//! | `secrets` | secrets that plugins use unseen |
//! | `values` | values that plugins keep |
//! | `steps` | add, update, accept, grant, revoke, remove: each one transaction |

pub mod asking;
mod broker;
pub mod caller;
mod changes;
mod fetch;
mod http;
pub mod plugins;
pub mod progress;
pub mod report;
pub(crate) mod rows;
mod secrets;
pub mod settings;
mod steps;
#[cfg(test)]
mod tests;
mod values;

pub use asking::Asked;
pub use caller::{Caller, Uncalled};
pub use fetch::{AddOptions, Describe};
pub use plugins::{Plugins, Ready};
pub use progress::Watch;
pub use report::{Inspection, Tool, ToolList};
pub use settings::ToolSettings;
pub use steps::Added;
