//! Interpreters whose state stays between cells, each in a sandbox of its own.
//!
//! A driver in the interpreter reads cells and writes results over a pair of sockets that was its standard input; the program that a cell
//! is has `/dev/null` there. Output is apart from results, and comes while a cell runs. Each cell has an unpredictable number, without
//! which a result is not taken. What runs in the interpreter can read that number all the same, so **a hostile cell can forge the results
//! of its own session**, and of no other: nothing of a result is trusted, and it is bounded like output.
//!
//! | module | idea |
//! | --- | --- |
//! | [`language`] | the languages, their interpreters and drivers |
//! | [`session`] | one session: start, cells, end |
//! | [`sessions`] | the sessions of callers: handles, number, idle time |
//! | `answer` | the result of a cell |
//! | `channel` | results and output of an interpreter, put together |
//! | [`files`] | files that cells return, and that are put in |
//! | `uploads` | copies of the files that are put in, for the guard |
//! | `marked` | output up to the mark of a cell's end |
//! | [`steps`] | digests of cells and of files that are put in, for receipts |

#![forbid(unsafe_code)]

mod answer;
mod channel;
pub mod files;
pub mod language;
mod marked;
pub mod session;
pub mod sessions;
pub mod steps;
mod uploads;

pub use answer::{Answer, CellResult, Ended, InterruptResult, Printed, Status};
pub use channel::Stream;
pub use files::CellFile;
pub use language::Language;
pub use session::{Cell, Session, SessionEnd, Start, Witness};
pub use sessions::{Bounds, Gone, Sessions};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
