//! Where the verbs live: what a person, a script or a model asks for, done once and the same for all of them.
//!
//! The command line translates to this crate and from it, and so will other front ends. It joins the parts:
//! profile, configuration and request become a policy ([`config`]), the program is found ([`request`]), the sandbox
//! runs it, and the history remembers ([`history`]) in the state folder ([`state`]). What the gate ([`guard`]) refuses is held
//! ([`quarantine`]) until a person decides, what else a call needs waits as a request ([`approvals`]), and every step of that is in the log ([`audit`]). For front ends that stay, [`live`]
//! keeps what runs, what was printed and what callers saved, and [`metrics`] counts.
//!
//! It knows no command-line options and prints nothing.

#![forbid(unsafe_code)]

pub mod actor;
pub mod approvals;
pub mod audit;
mod builds;
pub mod changes;
pub mod compile;
pub mod config;
mod database;
pub mod deps;
pub mod guard;
pub mod history;
mod ids;
pub mod image_build;
pub mod images;
pub mod kept;
pub mod known;
pub mod language;
pub mod live;
pub mod metrics;
pub mod network;
pub mod policies;
pub mod quarantine;
pub mod reader;
pub mod reading;
pub mod report;
pub mod request;
pub mod state;
pub mod suites;
pub mod test;
pub mod time;
pub mod tools;
pub mod view;
pub mod workspaces;

pub use actor::Actor;
pub use approvals::Approvals;
pub use changes::Keep;
pub use config::{Configuration, Settings};
pub use database::DatabaseError;
pub use history::{History, RunList, RunRow, Stored};
pub use language::Language;
pub use live::Live;
pub use quarantine::Quarantine;
pub use report::ErrorReport;
pub use request::{Prepared, RunRequest, Source, What};
pub use state::{StateChoice, StateFolder};
pub use test::{PreparedTest, TestRequest, Unready};
