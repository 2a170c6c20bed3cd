//! Tool hosts: components run in processes of their own, confined by `hotcell-sandbox`, that can reach only
//! the folders of their plugin. Everything that needs more authority is done on this side.
//!
//! | module | idea |
//! | --- | --- |
//! | [`pool`] | [`Hosts`]: which plugin runs in which process, and when one is replaced |
//! | `options` | plugins to run, and options for their processes |
//! | `process` | one process that runs calls: its calls, its questions, its end |
//! | `start`, `waiting` | how a process begins and ends; a call with a waiting caller |
//! | `table` | state of one process |
//! | [`checked`] | checks of a process's answers |
//! | `compile` | a process that compiles one component and ends |
//! | `confine` | sandbox policy of such a process |
//! | `turns` | calls of one plugin that run, and those that wait |
//! | `link` | frames over a socket |
//! | `sessions` | instances that are kept for sessions |
//! | `restarts`, `apart` | how often a failing process is replaced, and which plugins no longer share one |
//! | [`mod@serve`] | the other side: the program in the sandbox |

/// Argument after the program's name that makes it a tool host.
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
mod sessions;
mod start;
mod table;
mod turns;
mod waiting;

pub use options::{HostsOptions, Plugin, Readiness};
pub use pool::{Hosts, digest_of};
pub use serve::serve;
