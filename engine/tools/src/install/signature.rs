//! Signatures: who vouches for a component, where a key was named. Without a key nothing is claimed. Of a component's bytes by minisign,
//! of an artifact of a registry in cosign's form ([`crate::install::cosign`]).

use std::path::Path;

use minisign_verify::{PublicKey, Signature};

use crate::install::cosign;
use crate::install::sources::SourceError;
use crate::install::sources::file::text;

/// Reasons a signature is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum SignatureError {
    /// The text is not a valid key.
    #[error(
        "{0:?} is no key: name minisign's .pub file, or its second line, which begins with RW, or a public key of cosign's in PEM"
    )]
    Key(String),
    /// The file has a key of another kind.
    #[error("{file}: {why}")]
    Kind {
        /// The file.
        file: String,
        /// Description of the fault.
        why: String,
    },
    /// The registry has no signature that vouches.
    #[error("no signature in the registry vouches for it by this key ({tag}): {why}")]
    Registry {
        /// The tag that signatures have.
        tag: String,
        /// Description of the fault.
        why: String,
    },
    /// Such a key does not sign files.
    #[error(
        "a key in cosign's form signs artifacts of a registry, and its signatures lie there: add oci://… without ‹signature›; files and URLs are signed with minisign"
    )]
    NotHere,
    /// There is no signature.
    #[error(
        "a key is named, and there is no signature: it lies beside NAME.wasm as NAME.wasm.minisig, or name it with ‹signature=FILE›"
    )]
    Missing,
    /// The signature is not valid.
    #[error("the signature cannot be read: {0}")]
    Unreadable(String),
    /// The signature is by another key, or of another file.
    #[error("the signature is not by the key {key}, or not of these bytes: {why}")]
    Wrong {
        /// Expected key.
        key: String,
        /// Description of the fault.
        why: String,
    },
    /// A file cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
}

/// A public key whose signatures are accepted.
#[derive(Clone, Debug)]
pub struct Key {
    kind: Kind,
    base64: String,
}

#[derive(Clone, Debug)]
enum Kind {
    Minisign(PublicKey),
    Cosign(cosign::PublicKey),
}

impl Key {
    /// Reads what a person named: a `.pub` or PEM file, counted from `cwd`, or the key itself, as [`Key::base64`] gives it.
    ///
    /// # Errors
    /// [`SignatureError::Key`] when the key is not valid, [`SignatureError::Source`] when the file cannot be
    /// read.
    pub fn parse(named: &str, cwd: &Path) -> Result<Self, SignatureError> {
        let no_key = |_| SignatureError::Key(named.to_owned());
        if let Ok(key) = PublicKey::from_base64(named) {
            return Ok(Self { kind: Kind::Minisign(key), base64: named.to_owned() });
        }
        let of_cosign = |text: &str| {
            let key = cosign::PublicKey::parse(text);
            let bad = |why| SignatureError::Kind { file: named.to_owned(), why };
            key.map(|key| Self { base64: key.text(), kind: Kind::Cosign(key) }).map_err(bad)
        };
        if cosign::PublicKey::is_meant(named) {
            return of_cosign(named);
        }
        let path = cwd.join(named);
        if !path.is_file() {
            return Err(SignatureError::Key(named.to_owned()));
        }
        let text = text(&path, 4096)?;
        if cosign::PublicKey::is_meant(&text) {
            return of_cosign(&text);
        }
        let line = text.lines().map(str::trim).find(|line| line.starts_with("RW")).unwrap_or_default();
        let key = PublicKey::from_base64(line).map_err(no_key)?;
        Ok(Self { kind: Kind::Minisign(key), base64: line.to_owned() })
    }

    /// Whether a text is a key in base64, and not the name of a file.
    #[must_use]
    pub fn is_key(named: &str) -> bool {
        PublicKey::from_base64(named).is_ok() || cosign::PublicKey::parse(named).is_ok()
    }

    /// The key, when it is in cosign's form.
    #[must_use]
    pub fn cosign(&self) -> Option<&cosign::PublicKey> {
        match &self.kind {
            Kind::Cosign(key) => Some(key),
            Kind::Minisign(_) => None,
        }
    }

    /// On one line: how a record names it.
    #[must_use]
    pub fn base64(&self) -> &str {
        &self.base64
    }

    /// Checks that this key signed these bytes.
    ///
    /// # Errors
    /// [`SignatureError`]; [`SignatureError::NotHere`] of a key in cosign's form.
    pub fn check(&self, bytes: &[u8], signature: Option<&str>) -> Result<(), SignatureError> {
        let Kind::Minisign(key) = &self.kind else { return Err(SignatureError::NotHere) };
        let text = signature.ok_or(SignatureError::Missing)?;
        let signature = Signature::decode(text).map_err(|e| SignatureError::Unreadable(e.to_string()))?;
        // Signatures in the old format are over the bytes themselves; new ones are over their digest.
        let wrong = |e: minisign_verify::Error| SignatureError::Wrong {
            key: self.base64.clone(),
            why: e.to_string(),
        };
        key.verify(bytes, &signature, false).map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Example from minisign's own documentation: the signed bytes are `test`.
    const KEY: &str = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";
    const SIGNATURE: &str = "untrusted comment: signature from minisign secret key\n\
        RUQf6LRCGA9i559r3g7V1qNyJDApGip8MfqcadIgT9CuhV3EMhHoN1mGTkUidF/z7SrlQgXdy8ofjb7bNJJylDOocrCo8KLzZwo=\n\
        trusted comment: timestamp:1556193335\tfile:test\n\
        y/rUw2y8/hOUYjZU71eHp/Wo1KZ40fGy2VJEDl34XMJM+TX48Ss/17u3IvIfbVR1FkZZSNCisQbuQY+bHwhEBg==";
    const OTHER: &str = "RWQBAgMEBQYHCHmlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";

    #[test]
    fn minisign_key_verifies_its_bytes_only() {
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
