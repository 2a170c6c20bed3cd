//! Errors of images: their sources and their store.

use std::io;
use std::path::PathBuf;

use hotcell_oci::RegistryError;

use crate::image::{HOST_ARCHITECTURE, MAX_LAYERS};
use crate::stream::Digest;
use crate::unpack::UnpackError;

/// Reason why a source cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A file or folder of the source cannot be read.
    #[error("{path} cannot be read: {error}", path = .path.display())]
    Unreadable {
        /// Path.
        path: PathBuf,
        /// Error of the system call.
        error: io::Error,
    },
    /// The format is not known.
    #[error("{0} is neither a folder, an OCI layout nor what `docker save` writes")]
    NoImage(String),
    /// The source lacks a part that its index names.
    #[error("{0} is not in it")]
    Missing(String),
    /// A document of the source is not valid.
    #[error("{what} cannot be understood: {why}")]
    Document {
        /// The document.
        what: String,
        /// The problem.
        why: String,
    },
    /// The source has no image for this host, only for these platforms.
    #[error("it has no image for {HOST_ARCHITECTURE} Linux, only for {0}")]
    Platform(String),
    /// A registry request failed.
    #[error("{name}: {why}")]
    Registry {
        /// The requested name.
        name: String,
        /// The problem.
        why: String,
    },
    /// The source has several images, and none was chosen. With their names.
    #[error("it has several images for this host: {0}; name one behind a #, as FILE#NAME")]
    Several(String),
}

/// Errors of a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The image exceeds a limit of runs.
    #[error("the image has {0}; make a smaller one")]
    Large(String),
    /// There is no such image.
    #[error("there is no image {0:?}")]
    Unknown(String),
    /// The name is not valid for an image.
    #[error("{0:?} cannot be the name of an image: letters, digits and ._:- between them, at most 100")]
    Name(String),
    /// The record of an image cannot be parsed.
    #[error("the image {0:?} is damaged ({1}); remove it and import it again")]
    Damaged(String, String),
    /// The source cannot be read or used.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A layer was refused.
    #[error("the layer {layer}: {error}")]
    Layer {
        /// The layer: a digest, or a file name.
        layer: String,
        /// The problem.
        error: UnpackError,
    },
    /// The data has another digest than expected.
    #[error(
        "{what} has the digest {found}, and should have {promised}: it is damaged, or was changed on its way"
    )]
    Digest {
        /// The data.
        what: String,
        /// Expected digest.
        promised: Digest,
        /// Digest of the data.
        found: Digest,
    },
    /// The image has more layers than an overlay can have.
    #[error(
        "the image has {0} layers, and at most {MAX_LAYERS} can be mounted; make it again with fewer steps"
    )]
    Layers(usize),
    /// An operation on the store's own files failed.
    #[error("the store of images: {0}")]
    Io(#[from] io::Error),
}

impl From<RegistryError> for StoreError {
    fn from(error: RegistryError) -> Self {
        match error {
            RegistryError::Unreadable { place: name, why } => SourceError::Registry { name, why }.into(),
            RegistryError::Long { place: name, most } => {
                SourceError::Registry { name, why: format!("it is longer than {most} bytes") }.into()
            }
            RegistryError::Digest { place: what, promised, found } => {
                Self::Digest { what, promised: Digest(promised), found: Digest(found) }
            }
        }
    }
}
