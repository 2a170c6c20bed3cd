//! Runs hostile programs against the sandbox: does each defence hold alone, on this host?
//!
//! A row of [`table`] is one attack: a small program, the defences that should stop it, and the users who
//! start it. Each row runs inside an [`arena`], first without a sandbox (where it must get through, or it
//! proves nothing), then with every layer on, then with each defence knocked out, then with all of them out.
//! [`verdict`] judges these runs as a pure function. [`scenarios`] has the tests that an exit code cannot
//! decide, [`coverage`] maps the project's list of attacks to its tests, [`suite`] runs everything within a
//! time limit, and [`report`] has the results.
//!
//! This crate does not decide how a sandbox is made, and nothing hostile runs outside an arena. A program
//! that uses it calls [`stage`] first, and exits with the code that it returns: arenas are made by executing
//! the program again.
//!
//! ```no_run
//! use hotcell_proof::items::Options;
//! use hotcell_proof::{report, stage, suite};
//!
//! if let Some(code) = stage(&std::env::args_os().collect::<Vec<_>>()) {
//!     std::process::exit(code);
//! }
//! let found = suite::prove(&Options::default(), &hotcell_proof::arena::GO_ON, &|_| {});
//! println!("{}", report::text(&found.expect("an arena"), false));
//! ```

pub mod arena;
pub mod cgroups;
pub mod coverage;
pub mod decoys;
pub mod driver;
pub mod engine;
pub mod items;
pub mod programs;
pub mod report;
pub mod run;
pub mod scenarios;
mod stages;
pub mod suite;
pub mod table;
pub mod task;
mod unsafe_calls;
pub mod verdict;
pub mod words;

pub use stages::stage;
