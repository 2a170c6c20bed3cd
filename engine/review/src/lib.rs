//! The decision whether code may run, and the people who decide: gate, quarantine, approvals.
//!
//! | module | idea |
//! | --- | --- |
//! | [`guard`] | a scan by the configured rules, and its verdict by the configured mode |
//! | [`workspace_scan`] | scan of a workspace: the folder, and the changes of earlier runs |
//! | [`whole_command`] | scan of a command: arguments, variables, standard input and the files that they execute |
//! | [`target`] | code to be scanned |
//! | [`gate`] | the last decision before a run: allowed, held, or released by a person |
//! | [`quarantine`] | refused code, until a person decides |
//! | [`permission`] | requests for a permission that only a person can give |
//! | [`approvals`] | the steps of such requests |
//! | [`binaries`] | compiled files of a project: made by an earlier run, or approved once |

#![forbid(unsafe_code)]

pub mod approvals;
pub mod binaries;
pub mod gate;
pub mod guard;
#[cfg(test)]
mod no_plugins;
pub mod permission;
pub mod quarantine;
pub mod target;
pub mod whole_command;
pub mod workspace_scan;

pub use approvals::Approvals;
pub use quarantine::Quarantine;
