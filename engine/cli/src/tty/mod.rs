//! Programs with a terminal of their own: `hotcell run --tty`.
//!
//! | module | idea |
//! | --- | --- |
//! | [`choice`] | whether a program gets a terminal |
//! | [`caller`] | the caller's terminal: raw mode, and its restoration |
//! | [`keys`] | the keys by which a person ends a program that ignores all others |
//! | [`options`] | the options of `hotcell run` about it |
//! | [`session`] | the streams of a run with a terminal |

pub(crate) mod caller;
pub(crate) mod choice;
mod keys;
pub(crate) mod options;
pub(crate) mod session;
