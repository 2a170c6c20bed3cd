//! The farm on which a run was executed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A run on a farm. The farm says all of this, and the rest of the report; only the digests of what it returned were checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Remote {
    /// Address of the farm: `grpc://HOST:PORT/INSTANCE`.
    pub farm: String,
    /// Digest of the action: SHA-256 and size, as `HASH/SIZE`.
    pub action: String,
    /// Name of the worker; empty where the farm does not tell.
    pub worker: String,
    /// Whether the layers, limits and causes are those that a hotcell worker reported. Otherwise the exit code is all that is known.
    pub sandboxed: bool,
    /// Number of blobs that the farm did not have and that were sent.
    pub sent_blobs: u64,
    /// Size of these blobs, in bytes.
    pub sent_bytes: u64,
}
