//! Scan sessions: artifacts are scanned in sandboxed processes, and reports are cached.
//!
//! | module | idea |
//! | --- | --- |
//! | [`session`] | one session: reports of earlier scans first, then a reader; a service keeps its readers |
//! | [`reader`] | a process without rights that reads hostile bytes |
//! | [`pictures`] | pictures, decoded and encoded anew in a sandbox |
//! | [`cache`] | reports of earlier scans, in a database of their own |
//! | `unchanged` | state of a folder's entries, by which a report of all of it is known to be valid |
//!
//! ```no_run
//! use hotcell_guard::Artifact;
//! use hotcell_sandbox::Confinement;
//! use hotcell_scanning::session::ScanState;
//! let mut scan = ScanState::default().begin(Vec::new(), &[Confinement::Namespaces]);
//! println!("{:?}", scan.read(&Artifact::new("a.py", "import os")).verdict);
//! scan.end()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

pub mod cache;
pub mod pictures;
pub mod reader;
pub mod session;
mod unchanged;
