//! Arguments of `workspace`.

use std::path::PathBuf;

use clap::Subcommand;
use clap::builder::{OsStringValueParser, TypedValueParser};

use super::path;

/// Commands of `hotcell workspace …`.
#[derive(Debug, Subcommand)]
pub enum WorkspaceCommand {
    /// Create a workspace: empty, over a folder, or from an archive or bundle; prints its id
    Create {
        /// A folder, which is never changed
        #[arg(value_name = "DIR", conflicts_with_all = ["archive", "bundle"], value_parser = OsStringValueParser::new().try_map(path))]
        folder: Option<PathBuf>,
        /// A tar (also compressed) or zip archive
        #[arg(long, value_name = "FILE", conflicts_with = "bundle")]
        archive: Option<PathBuf>,
        /// A file written by `git bundle create`
        #[arg(long, value_name = "FILE")]
        bundle: Option<PathBuf>,
    },
    /// List workspaces, or the files of one
    List {
        /// Id of a workspace
        id: Option<String>,
    },
    /// Write a file from standard input
    Write {
        /// Id of the workspace
        id: String,
        /// Path in the workspace
        path: PathBuf,
        /// Make the file executable
        #[arg(long)]
        executable: bool,
    },
    /// Print a file
    Read {
        /// Id of the workspace
        id: String,
        /// Path in the workspace
        path: PathBuf,
    },
    /// Delete a file or folder in the workspace
    Delete {
        /// Id of the workspace
        id: String,
        /// Path in the workspace
        path: PathBuf,
    },
    /// Print the changes in the workspace
    Diff {
        /// Id of the workspace
        id: String,
    },
    /// Write the changes to the folder from which the workspace was made
    Commit {
        /// Id of the workspace
        id: String,
        /// Include git's own state, and files that other tools run or trust
        #[arg(long)]
        allow_protected: bool,
    },
    /// Discard the changes in the workspace
    Discard {
        /// Id of the workspace
        id: String,
        /// Only changes since this snapshot
        #[arg(long, value_name = "SNAPSHOT")]
        to: Option<String>,
    },
    /// Store the present state under a name
    Snapshot {
        /// Id of the workspace
        id: String,
        /// Name of the snapshot
        name: String,
    },
    /// Create another workspace with the present state of this one; prints its id
    Fork {
        /// Id of the workspace
        id: String,
    },
    /// Write the files of the workspace as a tar archive
    Export {
        /// Id of the workspace
        id: String,
        /// A new file [default: stdout]
        file: Option<PathBuf>,
    },
    /// Remove a workspace; the folder from which it was made is kept
    Remove {
        /// Id of the workspace
        id: String,
    },
}
