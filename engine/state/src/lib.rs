//! The state folder: its database, the audit log, the history of runs, identifiers and times.
//!
//! Every other crate that remembers something keeps it in tables of this database or in files of this folder. Each
//! step that changes what may run is recorded in the log in the same transaction.
//!
//! | module | idea |
//! | --- | --- |
//! | [`state`] | the folder: who may write there, created with private rights |
//! | [`database`] | the database: its schema, its connections, retries while another process holds it |
//! | [`audit`] | the log of decisions, chained by digests |
//! | [`history`] | runs that ended, with their outcomes |
//! | [`running`] | runs that go on, while a page shows them |
//! | [`receipts`] | receipts as they are kept |
//! | [`ids`] | random identifiers, and identifiers by their beginning |
//! | [`actor`] | who took a step: an account and a channel |
//! | [`caller`] | callers of a service |
//! | [`report`] | an error as front ends show it |
//! | [`time`] | times as they are stored and shown |
//!
//! ```no_run
//! use hotcell_state::{History, StateChoice, StateFolder};
//! let choice = StateChoice::usual(None, std::env::var_os("HOME").map(Into::into));
//! let folder = StateFolder::open(choice.path()?)?;
//! for run in History::open(&folder)?.list()? {
//!     println!("{} {}", run.id, run.command.join(" "));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

pub mod actor;
pub mod audit;
pub mod caller;
pub mod database;
pub mod history;
pub mod ids;
pub mod receipts;
pub mod report;
pub mod running;
pub mod state;
pub mod time;

pub use actor::Actor;
pub use database::DatabaseError;
pub use history::{History, RunList, RunRow, Stored};
pub use report::ErrorReport;
pub use running::LiveRun;
pub use state::{StateChoice, StateFolder};
