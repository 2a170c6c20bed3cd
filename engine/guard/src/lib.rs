//! Scans an artifact before it runs, and reports how dangerous it looks and how much of it could be read.
//!
//! Bytes are split into parts (`ingest`), parts are read in every plausible language and yield facts, rules
//! in files give facts a meaning, and only `score` decides. The guard provides triage and an audit trail, not
//! containment: the sandbox is the protection.
//!
//! ```
//! use hotcell_guard::{Artifact, Limits, Pack, Verdict, scan};
//! let pack = Pack::builtin()?;
//! let report = scan(&pack, &Limits::default(), &Artifact::new("a.py", "import shutil\nshutil.rmtree('/home')\n"));
//! assert_eq!(report.verdict, Verdict::Quarantine);
//! # Ok::<(), hotcell_guard::PackError>(())
//! ```

#![forbid(unsafe_code)]

mod artifact;
pub mod command;
mod context;
mod decode;
mod executed;
mod feed;
pub mod folder;
mod hooks;
mod hosts;
mod ingest;
mod instructions;
mod javascript;
mod kinds;
mod known;
mod language;
mod limits;
mod listed;
mod natives;
mod passes;
mod powershell;
mod project;
mod prove;
mod python;
pub mod quarantine;
mod renamed;
mod report;
mod rules;
mod sarif;
mod scan;
mod score;

mod shell;
mod spelled;
mod sql;
mod structure;
mod syntax;
mod transforms;
mod tree;
mod unicode;
mod value;
mod windows;

pub use artifact::{Artifact, Called};
pub use executed::{Executed, Executions};
pub use feed::RECORD_FINGERPRINTS;
pub use folder::{PYTHON_CACHE, Walk, scan_path, unread};
pub use known::MAX_FINGERPRINTS;
pub use language::Language;
pub use limits::Limits;
pub use prove::{failures, load_pack, prove};
pub use report::{
    Argument, Coverage, Finding, Fingerprint, Frame, Handed, HandedSource, Held, Identity, Kind, Part,
    PartState, Pass, Report, SCHEMA, Severity, StepKind, Verdict,
};
pub use rules::{Match, Metadata, Pack, PackError, Rule, When};
pub use sarif::sarif;
pub use scan::{is_repeatable, merge, scan};
pub use value::HOLE;

/// Identifies the behaviour of this build of the crate: a digest, in hexadecimal, of its sources, its rules
/// and, where known, the versions of its parsers. While it is unchanged, the same artifact under the same
/// name, rules and limits yields the same report.
pub const BUILD: &str = env!("HOTCELL_GUARD_BUILD");
