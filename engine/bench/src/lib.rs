//! Measures what a sandbox costs on this host: starts beside a bare spawn, beside a C program that makes the same kernel
//! calls (the floor) and beside other sandboxes that are installed; runs per second; memory of what waits; and where the
//! time goes, step by step.
//!
//! It measures and compares with the targets; it changes nothing. All variants of a table take turns, so that whatever else
//! the machine does meets all of them alike. Beside the user's whole benchmark ([`bench()`]) its parts are public.
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
//! | module | idea |
//! | --- | --- |
//! | [`selection`] | which rows and peers somebody asked for |
//! | [`ways`] | ways to start a program, measured in turn |
//! | [`floor`] | the C program and who drives it |
//! | [`peers`] | other sandboxes: their commands, and why one cannot run here |
//! | [`languages`] | interpreters outside and inside |
//! | [`throughput`], [`memory`], [`steps`] | runs per second; what waiting costs; where the time goes |
//! | [`targets`] | measured beside target |
//! | [`report`], [`svg`] | `hotcell.bench/1`, tables, a picture |
//! | [`stats`], [`host`], [`processes`] | percentiles; the machine; what processes use |

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

/// Why something could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// A program outside could not be started, or failed.
    #[error("{0}")]
    Program(String),
    /// A run inside did not end well.
    #[error("{program} inside: {why}")]
    Inside {
        /// What was run.
        program: String,
        /// The outcome's reason.
        why: String,
    },
    /// No sandbox became ready in time.
    #[error("no sandbox was ready within {seconds} s: {why}")]
    NotReady {
        /// How long it was waited for.
        seconds: u64,
        /// What the engine says when it is asked for one.
        why: String,
    },
    /// What was ready could not be used.
    #[error("what was ready was not used: the run was served by something that was made or started for it")]
    NotHot,
    /// The floor.
    #[error("the floor: {0}")]
    Floor(String),
    /// What is left of runs does not go away.
    #[error("a sandbox that has ended does not go away")]
    Unsettled,
    /// A file or folder of ours.
    #[error("a temporary file: {0}")]
    File(#[from] std::io::Error),
}
