//! Runs untrusted commands in a sandbox with every Linux isolation layer on, and explains how each run ended.
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
//! `main` needs no initialization call: a small launcher, embedded in this library, forks the sandboxes. A
//! [`Policy`] is a [`Shape`] (shared by all runs of a kind) and a [`Job`] (different for each run), so that a
//! sandbox can be made before it is needed: `run = acquire(shape) + release(job)`. Nothing is granted until a
//! method grants it. Every [`Outcome`] lists the layers that were in force.
//!
//! | module | idea |
//! | --- | --- |
//! | [`policy`] | the caller's request |
//! | [`profile`] | named policies in TOML |
//! | [`outcome`], [`refusal`] | the result of a run; the reason why nothing was run |
//! | [`plan`] | policy x host -> plan: every decision, no system call |
//! | [`host`] | features of this host |
//! | [`engine`], [`sandbox`], [`running`] | the factory of sandboxes; a sandbox that is ready; a run in progress |
//! | [`pool`] | sandboxes made before they are asked for |
//! | [`prime`] | which of them can hold an interpreter that was started ahead |
//! | `names` | names that are asked for where there is no network |
//! | [`socket`] | messages with descriptors, and sealed memory |
//! | [`network`] | the only way out of a sandbox: sockets that a proxy serves |
//! | [`doctor`], `advice` | layers that this host can enforce; how to make one available |
//! | [`home`] | the files that a run left behind |
//! | [`seccomp`], [`cgroup`] | the two layers that take more than one system call |
//! | [`layer`], [`units`], [`text`] | names, quantities, text for a terminal or a page |
//! | [`lines`] | lines of programs that are not trusted |
//! | [`unique`] | JSON whose objects have each key once |
//! | [`own_program`] | the files of a packaged program |
//! | [`temporary`] | private folders on the host, removed even after their process was killed |

mod access;
mod advice;
pub mod alias;
pub mod cgroup;
mod deferred_fd;
mod denials;
mod descriptors;
pub mod doctor;
mod encode;
pub mod engine;
mod failure;
mod filters;
pub mod home;
pub mod host;
mod host_scratch;
mod ids;
mod job_slots;
mod kernel_memory;
pub mod kernel_text;
mod launcher;
pub mod layer;
mod leftovers;
mod likeness;
mod limits_watch;
pub mod lines;
mod missing;
mod names;
pub mod network;
mod os_text;
pub mod outcome;
pub mod own_program;
mod pace;
pub mod plan;
pub mod policy;
pub mod pool;
pub mod prime;
pub mod profile;
pub mod refusal;
mod root;
pub mod running;
pub mod sandbox;
pub mod seccomp;
mod shared;
pub mod socket;
pub mod socket_activation;
mod sources;
mod stdio;
mod streams;
mod supervise;
mod sweep;
mod sys;
pub mod temporary;
pub mod terminal;
pub mod text;
pub mod unique;
pub mod units;

pub use engine::{Engine, Spawn};
pub use home::Home;
pub use layer::Layer;
pub use outcome::{Cause, Outcome};
pub use policy::{
    Bind, Confinement, FileId, ImageRoot, Job, Limits, Network, Policy, ProcView, RootEntry, RootKind, Shape,
    Stdin, WindowSize, danger,
};
pub use refusal::{Lack, Refusal};
pub use running::{Canceller, Changed, Finished, Running, StdinWriter};
pub use sandbox::Sandbox;
pub use sources::check as check_sources;
pub use streams::Chunk;
pub use terminal::Terminal;
pub use units::Bytes;

/// Future type returned by this library: boxed, so that programs that use it stay small and quick to build.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs a policy to its end with the shared engine. A refusal is also returned as an [`Outcome`].
pub fn run(policy: &Policy) -> BoxFuture<'_, Outcome> {
    Engine::shared().run(policy)
}

/// Starts a policy with the shared engine; the program's streams can be followed.
///
/// # Errors
/// [`Refusal`] when the policy cannot be met; no program was started then.
pub fn spawn(policy: &Policy) -> BoxFuture<'_, Result<Running, Refusal>> {
    Engine::shared().spawn(policy)
}
