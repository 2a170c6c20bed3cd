//! Hostile programs against the sandbox.
//!
//! A row of [`table`] is one attack: a small program, the walls that should stop it, and for whom. The harness runs
//! each row inside an [`arena`], first with nothing around it (it must get through, or it proves nothing), then with
//! every layer on, then with each wall knocked out, then with all of them out; [`verdict`] decides, as a pure function,
//! what those runs come to. Nothing here decides what a sandbox is made of, and nothing hostile runs outside an arena.

pub mod arena;
pub mod cgroups;
pub mod decoys;
pub mod driver;
pub mod engine;
pub mod harness;
pub mod programs;
pub mod report;
pub mod run;
pub mod special;
pub mod table;
mod unsafe_calls;
pub mod verdict;
