//! Copy-on-write project trees: what a program changed, as a list, as a diff, taken over or thrown away.
//!
//! A program gets a view of a project that it may write to: layers over a folder, by the rules of the kernel's overlay
//! file system. This crate reads such views without a mount, because what a program wrote is hostile.
//!
//! | module | what |
//! | --- | --- |
//! | [`folder`] | a folder, and what is below it: nothing is followed out |
//! | [`layer`] | changes written as a layer of our own |
//! | [`stack`] | layers over a folder as one view |
//! | [`store`] | workspaces that stay: layers, snapshots, forks |
//! | [`changes`](mod@changes) | what differs between two views |
//! | [`diff`](mod@diff) | the same for people, and for `git apply` |
//! | [`commit`](mod@commit) | takes changes over into the original |
//! | [`protected`](mod@protected) | names that are not taken over unasked |

#![forbid(unsafe_code)]

mod at_once;
pub mod changes;
pub mod commit;
pub mod diff;
pub mod folder;
pub mod layer;
pub mod protected;
pub mod stack;
pub mod store;

pub use changes::{Change, What, changes};
pub use commit::{CommitError, Committed, Left, Terms, commit, moment};
pub use diff::diff;
pub use folder::{Folder, Kind, Node};
pub use protected::protected;
pub use stack::{Layer, Stack};

/// Sixteen random digits.
fn random_hex() -> std::io::Result<String> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

/// The example of the README is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
