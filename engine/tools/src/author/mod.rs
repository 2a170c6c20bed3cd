//! Tools for plugin authors: create a folder, build a component from it, and run its test cases.

pub mod build;
pub mod cases;
pub mod new;
pub mod trial;

use std::io;
use std::path::{Path, PathBuf};

pub use build::{Built, build, finish};
pub use cases::{Case, Cases};
pub use new::{Language, check_name, create};
pub use trial::{Tried, run, run_prepared};

/// Errors for plugin authors.
#[derive(Debug, thiserror::Error)]
pub enum AuthorError {
    /// The name is not valid for a plugin.
    #[error("{why}")]
    Name {
        /// Fault of the name, which it says.
        why: String,
    },
    /// The file or folder exists already.
    #[error("{} is there already", path.display())]
    Exists {
        /// Path that would be written.
        path: PathBuf,
    },
    /// The folder is not a plugin's.
    #[error("{} has no {missing}", folder.display())]
    Folder {
        /// Path of the folder.
        folder: PathBuf,
        /// File that it lacks.
        missing: &'static str,
    },
    /// A tool of the language is missing.
    #[error("{what} is missing: {remedy}")]
    Missing {
        /// Name of the tool.
        what: &'static str,
        /// Way to install it.
        remedy: String,
    },
    /// A tool of the language failed; its own messages say why.
    #[error("{command} failed: {status}")]
    Failed {
        /// The program and its arguments.
        command: String,
        /// Exit status of the command.
        status: String,
    },
    /// The documentation or the manifest could not be embedded.
    #[error(transparent)]
    Embed(#[from] crate::component::docs::EmbedError),
    /// The manifest is not valid.
    #[error(transparent)]
    Manifest(#[from] hotcell_sandbox::profile::FileError),
    /// The cases cannot be read.
    #[error("the cases: {message}")]
    Cases {
        /// Fault and its position.
        message: String,
    },
    /// The component cannot be loaded.
    #[error(transparent)]
    Load(#[from] crate::LoadError),
    /// A file operation or a program failed.
    #[error("{}: {cause}", path.display())]
    Io {
        /// Path of the file or program.
        path: PathBuf,
        /// Error of the operating system.
        cause: io::Error,
    },
}

pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> AuthorError {
    let path = path.to_owned();
    move |cause| AuthorError::Io { path, cause }
}
