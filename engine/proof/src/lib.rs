//! Hostile programs against the sandbox: does each wall hold alone, on this host?
//!
//! A row of [`table`] is one attack: a small program, the walls that should stop it, and for whom. Each
//! row runs inside an [`arena`], first with nothing around it (it must get through, or it proves nothing), then with
//! every layer on, then with each wall knocked out, then with all of them out; [`verdict`] decides, as a pure function,
//! what those runs come to. [`special`] holds what no exit code can answer, [`coverage`] says which number of the project's list
//! of attacks is shown by what, [`suite`] runs all of it within a time and [`report`] says what came of it.
//!
//! Nothing here decides what a sandbox is made of, and nothing hostile runs outside an arena. A program that uses this
//! crate calls [`stage`] before anything else, and ends with what it gives: arenas are made by executing the program again.
//!
//! ```no_run
//! use hotcell_proof::{report, stage, suite};
//!
//! if let Some(code) = stage(&std::env::args_os().collect::<Vec<_>>()) {
//!     std::process::exit(code);
//! }
//! let found = suite::prove(&suite::Options::default(), &hotcell_proof::arena::GO_ON, &|_| {});
//! println!("{}", report::text(&found.expect("an arena"), false));
//! ```

pub mod arena;
pub mod cgroups;
pub mod coverage;
pub mod decoys;
pub mod driver;
pub mod engine;
mod html;
pub mod programs;
pub mod report;
pub mod run;
pub mod special;
mod stages;
pub mod suite;
pub mod table;
mod text;
mod unsafe_calls;
pub mod verdict;

pub use stages::stage;
