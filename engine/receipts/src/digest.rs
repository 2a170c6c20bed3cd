//! Digests as hexadecimal digits.

use sha2::{Digest, Sha256};

/// SHA-256 of bytes, as 64 hexadecimal digits in lower case.
pub fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}
