//! The wall: components run in processes of their own, confined by `hotcell-sandbox`, that hold nothing but the folders
//! of their plugin. What gives authority is done on this side of it.
//!
//! | module | idea |
//! | --- | --- |
//! | [`pool`] | [`Hosts`]: which plugin runs in which process, and when one is replaced |
//! | `options` | what is to be run, and how |
//! | `process` | one process that runs calls: its calls, its questions, its end |
//! | `start`, `waiting` | how a process begins and ends; a call that somebody waits for |
//! | `table` | what is known of one process |
//! | [`checked`] | what a process may answer |
//! | `compile` | a process that compiles one component and ends |
//! | `confine` | what such a process may use |
//! | `link` | frames over a socket |
//! | `restarts`, `apart` | how often a process that fails is replaced, and who no longer shares one |
//! | [`mod@serve`] | the other side: the program in the sandbox |

/// The word after the program's name that makes it a tool host.
pub const VERB: &str = "tool-host";

mod apart;
pub mod checked;
mod compile;
mod confine;
mod link;
mod options;
pub mod pool;
mod process;
mod restarts;
pub mod serve;
mod start;
mod table;
mod waiting;

pub use options::{HostsOptions, Plugin, Readiness};
pub use pool::{Hosts, digest_of};
pub use serve::serve;
