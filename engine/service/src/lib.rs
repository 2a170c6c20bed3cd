//! The operations of hotcell: each request of a person, a script or a model is implemented once here, for
//! every front end.
//!
//! The command line is one such front end: it translates to and from this crate. The crate joins the parts:
//! profile, configuration and request become a policy ([`config`]), the program is found ([`request`]), the
//! sandbox runs it, and the history records it ([`history`]) in the state folder ([`state`]). Code that the
//! gate ([`gate`]) refuses is held ([`quarantine`]) until a person decides; any other permission that a call
//! needs waits as a request ([`approvals`]). Each of these steps is recorded in the log ([`audit`]). For
//! long-running front ends, [`live`] keeps runs, their output and callers' workspaces, and [`metrics`] counts.
//!
//! The crate knows no command-line options and prints nothing.

#![forbid(unsafe_code)]

pub mod actor;
pub mod approvals;
pub mod audit;
mod below;
pub mod binaries;
mod build_folders;
mod builds;
pub mod caches;
pub mod caller;
pub mod changes;
pub mod compile;
pub mod config;
mod database;
pub mod deps;
pub mod execute;
pub mod gate;
pub mod guard;
pub mod history;
mod ids;
pub mod image_build;
pub mod images;
pub mod kept;
pub mod known;
pub mod language;
mod limits;
pub mod live;
pub mod metrics;
pub mod network;
mod outer_git;
pub mod permission;
mod plantable;
pub mod policies;
pub mod quarantine;
pub mod reader;
pub mod reading;
pub mod report;
pub mod request;
pub mod state;
pub mod suites;
pub mod target;
pub mod test;
pub mod time;
pub mod tools;
pub mod typed;
mod variables;
pub mod view;
pub mod whole;
pub mod workspaces;

pub use actor::Actor;
pub use approvals::Approvals;
pub use changes::ChangePolicy;
pub use config::{Configuration, Settings};
pub use database::DatabaseError;
pub use execute::{Observer, RunReport, execute};
pub use history::{History, RunList, RunRow, Stored};
pub use language::Language;
pub use live::Live;
pub use quarantine::Quarantine;
pub use report::ErrorReport;
pub use request::{Merged, Prepared, RunRequest, RunTarget, Source};
pub use state::{StateChoice, StateFolder};
pub use test::{PreparedTest, TestRequest, Unready};
