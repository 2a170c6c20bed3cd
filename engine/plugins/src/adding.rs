//! Options for adding a plugin, and the reader of its component.

use std::path::PathBuf;

use hotcell_tools::{BoxFuture, Description, LoadError};

/// Reads untrusted components in a process of its own that can be ended.
pub trait Describe: Send + Sync {
    /// Description that a component gives of itself.
    fn describe<'a>(&'a self, wasm: &'a [u8]) -> BoxFuture<'a, Result<Description, LoadError>>;
}

/// Options for adding a plugin.
#[derive(Clone, Debug, Default)]
pub struct AddOptions {
    /// A key, or its file, that has to have signed it: minisign's the component, cosign's the artifact of a registry.
    pub key: Option<String>,
    /// File of the signature, if it is not beside the component.
    pub signature: Option<PathBuf>,
    /// Replace a plugin of this name that came from another source.
    pub replace: bool,
}
