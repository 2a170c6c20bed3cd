//! Measures what a sandbox costs on this host: starts beside a bare spawn, beside a C program that makes the
//! same kernel calls (the floor) and beside other installed sandboxes; runs per second; memory of idle
//! sandboxes; and the duration of each step.
//!
//! Results are compared with the targets; nothing is changed. All variants of a table take turns, so that
//! other work on the machine affects all of them alike. The parts of the whole benchmark ([`bench()`]) are
//! public too.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! use hotcell_bench::{Options, bench};
//!
//! let options = Options { runs: 50, ..Options::default() };
//! let report = bench(&options, &mut |step, done, of| eprintln!("{step}: {done} of {of}")).await;
//! for check in &report.checks {
//!     println!("{}: {}", check.what, if check.met { "met" } else { "missed" });
//! }
//! # }
//! ```
//!
//! | module | purpose |
//! | --- | --- |
//! | [`selection`] | requested rows and peers |
//! | [`ways`] | ways to start a program, measured in turn |
//! | [`floor`] | the C program and its driver |
//! | [`peers`] | other sandboxes: their commands, and why one cannot run here |
//! | [`languages`] | interpreters outside and inside |
//! | [`throughput`], [`memory`], [`steps`] | runs per second; memory of idle sandboxes; durations of steps |
//! | [`targets`] | measured values and targets |
//! | [`report`], [`svg`] | `hotcell.bench/1`, tables, a chart |
//! | [`stats`], [`host`], [`processes`] | percentiles; the machine; processes and their memory |

#![forbid(unsafe_code)]

mod all;
pub mod floor;
pub mod host;
pub mod languages;
pub mod memory;
pub mod peers;
pub mod processes;
pub mod report;
pub mod selection;
pub mod stats;
pub mod steps;
pub mod svg;
pub mod targets;
pub mod throughput;
pub mod ways;

pub use all::{Options, bench};
pub use report::{Report, Row};
pub use selection::{Peers, RowName, Rows};
pub use stats::Samples;

/// Reason why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// A program outside could not be started, or failed.
    #[error("{0}")]
    Program(String),
    /// A run inside failed.
    #[error("{program} inside: {why}")]
    Inside {
        /// The program.
        program: String,
        /// Reason from the outcome.
        why: String,
    },
    /// No sandbox became ready in time.
    #[error("no sandbox was ready within {seconds} s: {why}")]
    NotReady {
        /// Time waited, in seconds.
        seconds: u64,
        /// The engine's error when a sandbox is requested directly.
        why: String,
    },
    /// The ready sandbox could not be used.
    #[error("what was ready was not used: the run was served by something that was made or started for it")]
    NotHot,
    /// The floor failed.
    #[error("the floor: {0}")]
    Floor(String),
    /// Leftovers of runs were not removed in time.
    #[error("a sandbox that has ended does not go away")]
    Unsettled,
    /// A file or folder of ours could not be used.
    #[error("a temporary file: {0}")]
    File(#[from] std::io::Error),
}
