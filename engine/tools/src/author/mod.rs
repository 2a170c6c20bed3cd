//! For those who write plugins: a folder to begin with, a component out of it, and cases that it is called with.

pub mod build;
pub mod cases;
pub mod new;
pub mod trial;

use std::io;
use std::path::{Path, PathBuf};

pub use build::{Built, build, finish};
pub use cases::{Case, Cases};
pub use new::{Language, create};
pub use trial::{Tried, run};

/// Why something of an author's did not work.
#[derive(Debug, thiserror::Error)]
pub enum AuthorError {
    /// A name that no plugin can have.
    #[error(
        "'{name}' cannot be a plugin's name: a small letter, then at most 31 small letters, digits and '-'"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// There is something already.
    #[error("{} is there already", path.display())]
    Exists {
        /// What would be written.
        path: PathBuf,
    },
    /// The folder is no plugin's.
    #[error("{} has no {missing}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What a plugin's folder has.
        missing: &'static str,
    },
    /// A tool of the language is missing.
    #[error("{what} is missing: {remedy}")]
    Missing {
        /// Which.
        what: &'static str,
        /// What installs it.
        remedy: String,
    },
    /// A tool of the language failed; it has said why.
    #[error("{command} failed: {status}")]
    Failed {
        /// The program and its arguments.
        command: String,
        /// How it ended.
        status: String,
    },
    /// The component could not be finished.
    #[error(transparent)]
    Embed(#[from] crate::docs::EmbedError),
    /// The cases cannot be read.
    #[error("the cases: {message}")]
    Cases {
        /// What is wrong, and where.
        message: String,
    },
    /// The component cannot be loaded.
    #[error(transparent)]
    Load(#[from] crate::LoadError),
    /// A file or a program.
    #[error("{}: {cause}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
}

pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> AuthorError {
    let path = path.to_owned();
    move |cause| AuthorError::Io { path, cause }
}
