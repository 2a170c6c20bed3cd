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
    /// True when the farm answered from its action cache: nothing ran for this request.
    #[serde(default)]
    pub cached: bool,
    /// State of the worker's receipt.
    #[serde(default)]
    pub receipt: WorkerReceipt,
    /// Id of the key that signed the receipt, or the reason why it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt_about: Option<String>,
}

/// State of the receipt of a farm's worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkerReceipt {
    /// The result came without one.
    #[default]
    Missing,
    /// The result came with one, and no key is trusted by which it could be verified.
    Unchecked,
    /// A trusted key signed it, and it states this result.
    Verified,
    /// No trusted key signed it, or it states another result.
    Refused,
}
