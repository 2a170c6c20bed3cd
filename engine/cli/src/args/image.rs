//! `hotcell image …`

use std::ffi::OsString;

use clap::Subcommand;

/// Commands on images.
#[derive(Debug, Subcommand)]
pub enum ImageCommand {
    /// List the images on this host
    List,
    /// Build one from Debian, PyPI and npm packages; python, node, go, rust … or a file
    #[command(
        after_help = "Definitions that come with hotcell: python, node, go, rust, cpp, java, postgres, angular.\n\
                      The host's apt resolves and fetches; nothing is installed on the host, and no root is needed.\n\
                      Built again when the archive has newer packages, otherwise there is nothing to do."
    )]
    Build {
        /// A definition's name, or a file
        #[arg(value_name = "NAME|FILE")]
        definition: OsString,
    },
    /// Add an image from a folder, an OCI layout, the output of `docker save`, or a registry
    #[command(
        after_help = "SOURCE is the folder of a root file system, an OCI layout (a folder, or a tar archive of it), what\n\
                      `docker save` writes, or oci://HOST[:PORT]/NAME[:TAG|@sha256:…]; behind a # stands which image\n\
                      of several in a file. Every digest is checked."
    )]
    Import {
        /// Location of the image
        #[arg(value_name = "SOURCE")]
        source: OsString,
        /// Name of the image here [default: from its source]
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
    },
    /// Show the parts of an image, and what is left out of it
    Inspect {
        /// Name of the image
        name: String,
    },
    /// Remove an image, and the layers that no other image uses
    Remove {
        /// Name of the image
        name: String,
    },
}
