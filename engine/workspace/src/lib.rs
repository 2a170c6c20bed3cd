//! Copy-on-write project trees: the changes that a program made, as a list or a diff, to be committed or
//! discarded.
//!
//! A program gets a writable view of a project: layers over a folder, by the rules of the kernel's overlay
//! file system. This crate reads such views without mounting them, because everything that a program wrote is
//! hostile.
//!
//! | module | purpose |
//! | --- | --- |
//! | [`folder`] | access to the entries below a folder that follows no link out of it |
//! | [`layer`] | changes written as a layer |
//! | [`stack`] | layers over a folder as one view |
//! | [`store`] | persistent workspaces: layers, snapshots, forks |
//! | [`changes`](mod@changes) | differences between two views |
//! | [`diff`](mod@diff) | changes as text, for people and for `git apply` |
//! | [`marks`] | changes that a reviewer should look at: new hidden and executable files, links |
//! | [`commit`](mod@commit) | applies changes to the original |
//! | [`admit`] | which changes a commit applies |
//! | [`protected`](mod@protected) | names that a commit applies only on request, with reasons |
//! | [`repository`] | git's own state, by name and by content |
//! | [`settings`] | parser of git's settings |
//! | [`placed`] | files of a run copied into a folder of the host |
//! | [`environment`] | virtual environments, by content |
//! | [`settled`] | whether a file that was read before is known to be unchanged |
//! | [`linked`](mod@linked) | paths that protected names and git's settings lead to |

#![forbid(unsafe_code)]

pub mod admit;
pub mod changes;
pub mod commit;
pub mod diff;
pub mod environment;
pub mod folder;
pub mod layer;
pub mod linked;
pub mod marks;
mod near;
mod parallel;
pub mod placed;
pub mod protected;
mod removal;
pub mod repository;
pub mod settings;
pub mod settled;
pub mod stack;
pub mod store;
mod twins;

pub use admit::{Allow, Judge, Left};
pub use changes::{Change, What, changes};
pub use commit::{CommitError, CommitOptions, Committed, commit, moment};
pub use diff::diff;
pub use folder::{Folder, Kind, Node};
pub use marks::Marks;
pub use protected::protected;
pub use stack::{Layer, Stack};

/// Sixteen random hexadecimal digits.
fn random_hex() -> std::io::Result<String> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(hex::encode(bytes))
}

/// Compiles and runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
