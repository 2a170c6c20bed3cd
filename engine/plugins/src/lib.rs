//! Plugins: components that a person added, their grants, and their requests while they run.
//!
//! Rows are in the state folder's database, components in `tools/components/`, by their digests. Every change
//! is in the audit log ([`hotcell_state::audit`]) in the same transaction, and only a person on the command line can
//! make a change that grants rights.
//!
//! | module | idea |
//! | --- | --- |
//! | `rows` | a plugin as it is stored |
//! | [`report`] | plugins and tools as they are shown |
//! | [`plugins`] | installed plugins, and their grants in force |
//! | `adding` | options for adding a plugin, and the reader of its component |
//! | `fetch` | from a source to an inspected version |
//! | [`caller`] | a call, from a tool's name to its answer |
//! | [`approvals`] | a call by a caller who has to ask a person for denied capabilities |
//! | `changes` | watches for changes of the tools |
//! | `broker` | requests of a call to the host |
//! | [`progress`] | progress reports of a call |
//! | `http` | HTTP requests of plugins, to checked addresses |
//! | `secrets` | secrets that plugins use unseen |
//! | [`failures`] | error codes and exit statuses of failed calls |
//! | [`missing_folders`] | folders that a failed call named and its plugin does not hold |
//! | [`long_answers`] | answers that were too long to be shown whole |
//! | `offer` | which of a plugin's tools are offered |
//! | `values` | values that plugins keep |
//! | `steps` | add, update, accept, grant, revoke, remove: each one transaction |

#![forbid(unsafe_code)]

mod adding;
pub mod approvals;
mod broker;
pub mod caller;
mod changes;
pub mod failures;
mod fetch;
mod http;
pub mod long_answers;
pub mod missing_folders;
pub mod offer;
pub mod plugins;
pub mod progress;
pub mod report;
pub mod rows;
mod secrets;
mod steps;
#[cfg(test)]
mod tests;
mod values;

pub use crate::approvals::Asked;
pub use crate::missing_folders::Beyond;
pub use adding::{AddOptions, Describe};
pub use caller::{Caller, InvokeError};
pub use hotcell_config::ToolSettings;
pub use offer::Choice;
pub use plugins::{Plugins, Ready, Serving};
pub use progress::Watch;
pub use report::{Inspection, Tool, ToolList};
pub use rows::audited;
pub use steps::Added;
pub use steps::grant_check;
