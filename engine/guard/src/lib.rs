//! Reads an artifact before it runs and says how dangerous it looks, and how much of it could be read.
//!
//! Bytes become parts (`ingest`), parts are read in every plausible language and become facts, rules in files say
//! what facts mean, and only `score` decides. Triage and trail, not containment: the sandbox is what holds.
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
mod decode;
pub mod folder;
mod hidden;
mod ingest;
mod javascript;
mod limits;
mod python;
pub mod quarantine;
mod report;
mod rules;
mod sarif;
mod scan;
mod score;
mod shell;
mod spelled;
mod sql;
mod structure;
mod transforms;
mod tree;
mod value;

pub use artifact::Artifact;
pub use folder::{PYTHON_CACHE, Walk, scan_path, unread};
pub use limits::Limits;
pub use report::{Coverage, Finding, Held, Identity, Part, PartState, Report, SCHEMA, Severity, Verdict};
pub use rules::{Language, Match, Metadata, Pack, PackError, Rule, When};
pub use sarif::sarif;
pub use scan::{is_repeatable, merge, scan};

/// Names what this build of the crate finds: a digest of its sources, its rules and, where they are known, the versions
/// of its parsers, in hexadecimal. The same artifact under the same name, rules and limits has the same report as long as
/// this is the same.
pub const BUILD: &str = env!("HOTCELL_GUARD_BUILD");
