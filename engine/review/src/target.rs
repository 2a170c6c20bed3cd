//! Code to be scanned before a run.

use std::path::PathBuf;

use hotcell_guard::{Artifact, Executions};

/// Code to be run.
#[derive(Debug)]
pub enum Target {
    /// A file or a folder, and which of its files the command executes.
    Path(PathBuf, Executions),
    /// A folder with layers over it, topmost first, and which of its files the command executes.
    View(PathBuf, Vec<PathBuf>, Executions),
    /// A source that will be run as a certain language.
    Source(Artifact),
    /// Code that is executed but cannot be read before it runs: its name, and the reason.
    Unread(String, String),
}
