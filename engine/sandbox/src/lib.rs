//! Runs a command that nobody has read in a sandbox with every Linux layer on, and explains how it ended.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! use hotcell_sandbox::{Cause, Policy};
//!
//! let policy = Policy::new("python3").args(["-c", "print(6 * 7)"]);
//! let outcome = hotcell_sandbox::run(&policy).await;
//! assert_eq!(outcome.cause, Cause::Exited);
//! assert_eq!(outcome.stdout.text.as_deref(), Some("42\n"));
//! # }
//! ```
//!
//! No call is needed in `main`: sandboxes are forked by a small launcher that this library carries with it.
//! A [`Policy`] is a [`Shape`] (what is the same for all runs of a kind) and a [`Job`] (what differs), so that a
//! sandbox can be made before it is needed: `run = acquire(shape) + release(job)`. Nothing is granted until a
//! method grants it. What was in force stands in every [`Outcome`].
//!
//! | module | idea |
//! | --- | --- |
//! | [`policy`] | what the caller asks for |
//! | [`profile`] | named policies in TOML |
//! | [`outcome`] | what a run came to |
//! | [`plan`] | policy x host -> plan: every decision, no system call |
//! | [`host`] | what this host offers |
//! | [`engine`], [`sandbox`], [`running`] | makes sandboxes; one that is ready; a run under way |
//! | [`pool`] | sandboxes that are ready before they are asked for |
//! | [`serve`] | a pool that other processes of the same user may use |
//! | [`prime`] | which of them can have an interpreter that waits |
//! | [`network`] | the only way out, for whoever serves it |
//! | [`home`] | the files that a run left behind |
//! | [`toolchain`] | which host folders a program needs besides `/usr` |
//! | [`seccomp`], [`cgroup`] | two layers that are more than one call |
//! | [`layer`], [`units`], [`text`] | names, quantities, text for a terminal |
//! | [`temporary`] | private folders of the host that a killed process does not leave for ever |

mod access;
pub mod cgroup;
mod denials;
pub mod doctor;
mod encode;
pub mod engine;
mod failure;
pub mod home;
pub mod host;
mod ids;
mod later;
mod launcher;
pub mod layer;
pub mod network;
mod os_text;
pub mod outcome;
mod owner;
pub mod passed;
mod plain;
pub mod plan;
pub mod policy;
pub mod pool;
pub mod prime;
pub mod profile;
mod room;
mod root;
pub mod running;
pub mod sandbox;
pub mod seccomp;
pub mod serve;
mod shared;
mod socket;
mod sources;
mod stdio;
mod streams;
mod supervise;
mod sys;
pub mod temporary;
pub mod text;
pub mod toolchain;
pub mod units;
mod watch;

pub use engine::{Engine, Spawn};
pub use home::Home;
pub use layer::Layer;
pub use outcome::{Cause, Outcome};
pub use plan::Refusal;
pub use policy::{
    Bind, Confinement, FileId, ImageRoot, Job, Limits, Network, Policy, ProcView, RootEntry, RootKind, Shape,
    Stdin, danger,
};
pub use running::{Canceller, Changed, Finished, Running, StdinWriter};
pub use sandbox::Sandbox;
pub use streams::Chunk;
pub use units::Bytes;

/// A future as this library returns it: boxed, so that programs that use it stay small and quick to build.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs a policy to its end with the shared engine. A refusal is an outcome too.
pub fn run(policy: &Policy) -> BoxFuture<'_, Outcome> {
    Engine::shared().run(policy)
}

/// Starts a policy with the shared engine; the program's streams can be followed.
///
/// # Errors
/// [`Refusal`] when the policy cannot be met; nothing ran then.
pub fn spawn(policy: &Policy) -> BoxFuture<'_, Result<Running, Refusal>> {
    Engine::shared().spawn(policy)
}
