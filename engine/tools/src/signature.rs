//! Signatures of components by minisign: who vouches for the bytes, where a key was named. Without a key nothing is claimed.

use std::path::Path;

use minisign_verify::{PublicKey, Signature};

use crate::sources::SourceError;
use crate::sources::file::text;

/// Why a signature does not vouch.
#[derive(Debug, thiserror::Error)]
pub enum SignatureError {
    /// The key is none.
    #[error("{0:?} is no minisign key: name the .pub file, or its second line, which begins with RW")]
    Key(String),
    /// There is no signature.
    #[error(
        "a key is named, and there is no signature: it lies beside NAME.wasm as NAME.wasm.minisig, or name it with --signature FILE"
    )]
    Missing,
    /// The signature is none.
    #[error("the signature cannot be read: {0}")]
    Unreadable(String),
    /// It is another's, or another file's.
    #[error("the signature is not by the key {key}, or not of these bytes: {why}")]
    Wrong {
        /// The key.
        key: String,
        /// What is wrong.
        why: String,
    },
    /// A file.
    #[error(transparent)]
    Source(#[from] SourceError),
}

/// A key that may vouch.
#[derive(Clone, Debug)]
pub struct Key {
    key: PublicKey,
    base64: String,
}

impl Key {
    /// Reads what a person named: a `.pub` file, counted from `cwd`, or the key itself in base64.
    ///
    /// # Errors
    /// [`SignatureError`].
    pub fn parse(named: &str, cwd: &Path) -> Result<Self, SignatureError> {
        let no_key = |_| SignatureError::Key(named.to_owned());
        if let Ok(key) = PublicKey::from_base64(named) {
            return Ok(Self { key, base64: named.to_owned() });
        }
        let path = cwd.join(named);
        if !path.is_file() {
            return Err(SignatureError::Key(named.to_owned()));
        }
        let text = text(&path, 4096)?;
        let line = text.lines().map(str::trim).find(|line| line.starts_with("RW")).unwrap_or_default();
        let key = PublicKey::from_base64(line).map_err(no_key)?;
        Ok(Self { key, base64: line.to_owned() })
    }

    /// Whether this is a key in base64, and not a file's name.
    #[must_use]
    pub fn is_key(named: &str) -> bool {
        PublicKey::from_base64(named).is_ok()
    }

    /// In base64: how a record names it.
    #[must_use]
    pub fn base64(&self) -> &str {
        &self.base64
    }

    /// Checks that this key signed these bytes.
    ///
    /// # Errors
    /// [`SignatureError`].
    pub fn check(&self, bytes: &[u8], signature: Option<&str>) -> Result<(), SignatureError> {
        let text = signature.ok_or(SignatureError::Missing)?;
        let signature = Signature::decode(text).map_err(|e| SignatureError::Unreadable(e.to_string()))?;
        // Signatures of the old form are over the bytes themselves; the new ones over their digest.
        let wrong = |e: minisign_verify::Error| SignatureError::Wrong {
            key: self.base64.clone(),
            why: e.to_string(),
        };
        self.key.verify(bytes, &signature, false).map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What minisign's own documentation signs: the bytes `test`.
    const KEY: &str = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";
    const SIGNATURE: &str = "untrusted comment: signature from minisign secret key\n\
        RUQf6LRCGA9i559r3g7V1qNyJDApGip8MfqcadIgT9CuhV3EMhHoN1mGTkUidF/z7SrlQgXdy8ofjb7bNJJylDOocrCo8KLzZwo=\n\
        trusted comment: timestamp:1556193335\tfile:test\n\
        y/rUw2y8/hOUYjZU71eHp/Wo1KZ40fGy2VJEDl34XMJM+TX48Ss/17u3IvIfbVR1FkZZSNCisQbuQY+bHwhEBg==";
    const OTHER: &str = "RWQBAgMEBQYHCHmlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";

    #[test]
    fn a_key_vouches_for_its_bytes_only() {
        let dir = tempfile::tempdir().unwrap();
        let file = format!("untrusted comment: minisign public key\n{KEY}\n");
        std::fs::write(dir.path().join("key.pub"), file).unwrap();
        for named in [KEY, "key.pub"] {
            let key = Key::parse(named, dir.path()).unwrap();
            assert_eq!(key.base64(), KEY);
            key.check(b"test", Some(SIGNATURE)).unwrap();
            assert!(matches!(key.check(b"Test", Some(SIGNATURE)), Err(SignatureError::Wrong { .. })));
            assert!(matches!(key.check(b"test", None), Err(SignatureError::Missing)));
            assert!(matches!(key.check(b"test", Some("x")), Err(SignatureError::Unreadable(_))));
            let changed = SIGNATURE.replace("file:test", "file:best");
            assert!(key.check(b"test", Some(&changed)).is_err(), "its comment is signed as well");
        }
        let other = Key::parse(OTHER, dir.path()).unwrap();
        assert!(matches!(other.check(b"test", Some(SIGNATURE)), Err(SignatureError::Wrong { .. })));
        std::fs::write(dir.path().join("empty.pub"), "").unwrap();
        for named in ["", "none.pub", "empty.pub", "RWQ"] {
            assert!(Key::parse(named, dir.path()).is_err(), "{named}");
        }
    }
}
