//! SHA-256 digests of blobs.

use std::io::{self, Read};

use bazel_remote_apis::build::bazel::remote::execution::v2::Digest;
use sha2::{Digest as _, Sha256};

use crate::error::FleetError;

/// Digest of a blob: its SHA-256 and its size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// SHA-256.
    pub hash: [u8; 32],
    /// Size in bytes.
    pub size: u64,
}

impl Key {
    /// Digest of bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self { hash: Sha256::digest(bytes).into(), size: bytes.len() as u64 }
    }

    /// Digest of what a reader has.
    ///
    /// # Errors
    /// When it cannot be read, or has more than `most` bytes.
    pub fn of_reader(from: impl Read, most: u64) -> io::Result<Self> {
        let mut hashing = Hashing::default();
        io::copy(&mut from.take(most.saturating_add(1)), &mut hashing)?;
        if hashing.size > most {
            return Err(io::Error::other(format!("it has more than {most} bytes")));
        }
        Ok(hashing.finish())
    }

    /// Checks a digest of a message: 64 lower-case hexadecimal digits, and a size.
    ///
    /// # Errors
    /// [`FleetError`] of a wrong request, with `what` for the digest's place.
    pub fn check(digest: Option<&Digest>, what: &str) -> Result<Self, FleetError> {
        let digest = digest.ok_or_else(|| FleetError::request(format!("{what} has no digest")))?;
        let bad =
            || FleetError::request(format!("{what} has a digest that is not SHA-256: {:?}", digest.hash));
        let mut hash = [0; 32];
        if digest.hash.bytes().any(|b| b.is_ascii_uppercase())
            || hex::decode_to_slice(&digest.hash, &mut hash).is_err()
        {
            return Err(bad());
        }
        let size = u64::try_from(digest.size_bytes).map_err(|_| bad())?;
        Ok(Self { hash, size })
    }

    /// The digest as a message.
    #[must_use]
    pub fn message(&self) -> Digest {
        Digest { hash: hex::encode(self.hash), size_bytes: i64::try_from(self.size).unwrap_or(i64::MAX) }
    }

    /// `HASH/SIZE`, as in resource names.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}", hex::encode(self.hash), self.size)
    }

    /// True when these bytes are the blob's.
    #[must_use]
    pub fn is_of(&self, bytes: &[u8]) -> bool {
        bytes.len() as u64 == self.size && Self::of(bytes) == *self
    }
}

/// A digest in the making.
#[derive(Default)]
pub struct Hashing {
    state: Sha256,
    size: u64,
}

impl Hashing {
    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.state.update(bytes);
        self.size += bytes.len() as u64;
    }

    /// Number of bytes so far.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The digest of all bytes added.
    #[must_use]
    pub fn finish(self) -> Key {
        Key { hash: self.state.finalize().into(), size: self.size }
    }
}

impl io::Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.add(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_of_messages_are_checked() {
        let good = Key::of(b"abc").message();
        assert_eq!(Key::check(Some(&good), "x").unwrap(), Key::of(b"abc"));
        assert_eq!(Key::of_reader(&b"abc"[..], 3).unwrap(), Key::of(b"abc"));
        assert!(Key::of_reader(&b"abcd"[..], 3).is_err());
        assert!(Key::of(b"abc").is_of(b"abc") && !Key::of(b"abc").is_of(b"abd"));
        for bad in [
            Digest { hash: good.hash.to_uppercase(), size_bytes: 3 },
            Digest { hash: good.hash[1..].to_owned(), size_bytes: 3 },
            Digest { hash: "../../etc".to_owned(), size_bytes: 3 },
            Digest { size_bytes: -1, ..good },
        ] {
            assert!(Key::check(Some(&bad), "x").is_err(), "{bad:?}");
        }
        assert!(Key::check(None, "x").is_err());
    }
}
