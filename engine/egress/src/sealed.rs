//! Secrets that are kept on disk: encrypted with AES-256-GCM under a key that is kept elsewhere, and decrypted for a use only.
//!
//! A sealed text is bound to a purpose, such as the entry and the origin that a token is for: moved to another one, it does not open. Each sealing
//! draws a random nonce of 96 bits; a key may be used for 2^32 of them (NIST SP 800-38D, 8.3).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroizing;

use crate::secret::{Secret, SecretError, SecretSource};

/// Size of a key in bytes.
const KEY_BYTES: usize = 32;
/// Beginning of a sealed text: the version of the format.
const PREFIX: &str = "hotcell-sealed-1:";

/// A key, wiped when it is dropped.
pub struct SealKey(LessSafeKey);

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealKey(…)")
    }
}

/// Why a secret cannot be sealed or opened. The messages contain neither the key nor the secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// The key cannot be read.
    #[error("the key: {0}")]
    Source(#[from] SecretError),
    /// The key is not one.
    #[error("the key is not {KEY_BYTES} bytes as {} hexadecimal digits: openssl rand -hex {KEY_BYTES} makes one", KEY_BYTES * 2)]
    Key,
    /// The system gives no random numbers.
    #[error("the system gives no random numbers")]
    Random,
    /// The text is not a sealed one.
    #[error("it is not a sealed secret of this version")]
    Form,
    /// The text does not open.
    #[error("it does not open: the key is another one, or the text was changed or is of another entry")]
    Closed,
}

impl SealKey {
    /// The key in a secret: 64 hexadecimal digits.
    ///
    /// # Errors
    /// [`SealError::Key`] for anything else.
    pub fn new(secret: &Secret) -> Result<Self, SealError> {
        let digits = secret.expose();
        if digits.len() != KEY_BYTES * 2 {
            return Err(SealError::Key);
        }
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |c: u8| char::from(c).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            let (Some(high), Some(low)) = (digit(pair[0]), digit(pair[1])) else {
                return Err(SealError::Key);
            };
            *byte = high << 4 | low;
        }
        UnboundKey::new(&AES_256_GCM, &*key)
            .map(|key| Self(LessSafeKey::new(key)))
            .map_err(|_| SealError::Key)
    }

    /// Encrypts a secret for a purpose.
    ///
    /// # Errors
    /// [`SealError::Random`] when the system gives no random numbers.
    pub fn seal(&self, secret: &Secret, purpose: &str) -> Result<String, SealError> {
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(|_| SealError::Random)?;
        let mut text = secret.expose().to_vec();
        self.0
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(purpose), &mut text)
            .map_err(|_| SealError::Random)?;
        Ok(format!("{PREFIX}{}", STANDARD.encode([&nonce[..], &text].concat())))
    }

    /// Decrypts a secret that was sealed for this purpose.
    ///
    /// # Errors
    /// [`SealError::Form`] for another text, [`SealError::Closed`] when key, text or purpose do not fit each other.
    pub fn open(&self, sealed: &str, purpose: &str) -> Result<Secret, SealError> {
        let encoded = sealed.strip_prefix(PREFIX).ok_or(SealError::Form)?;
        let mut bytes = Zeroizing::new(STANDARD.decode(encoded).map_err(|_| SealError::Form)?);
        let (nonce, text) = bytes.split_at_mut_checked(NONCE_LEN).ok_or(SealError::Form)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| SealError::Form)?;
        let open = self.0.open_in_place(nonce, Aad::from(purpose), text).map_err(|_| SealError::Closed)?;
        Ok(Secret::new(open.to_vec())?)
    }
}

/// A secret as it is kept: the sealed text, its purpose, and the place of the key. Nothing of the secret is in memory.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed {
    key: SecretSource,
    text: String,
    purpose: String,
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealed").field("key", &self.key).finish_non_exhaustive()
    }
}

impl Sealed {
    /// A sealed text, which is opened later.
    #[must_use]
    pub fn new(key: SecretSource, text: &str, purpose: &str) -> Self {
        Self { key, text: text.to_owned(), purpose: purpose.to_owned() }
    }

    /// The sealed text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Reads the key and decrypts the secret.
    ///
    /// # Errors
    /// [`SealError`] when the key cannot be read, or does not open the text.
    pub fn open(&self) -> Result<Secret, SealError> {
        SealKey::new(&self.key.read()?)?.open(&self.text, &self.purpose)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(digit: &str) -> SealKey {
        SealKey::new(&Secret::new(digit.repeat(64).into_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn sealed_secrets_open_with_their_key_for_their_purpose_only() {
        let secret = Secret::new(b"s3cret".to_vec()).unwrap();
        let sealed = key("a").seal(&secret, "notes https://example.com").unwrap();
        assert!(sealed.starts_with(PREFIX) && !sealed.contains("s3cret"), "{sealed}");
        assert_ne!(
            sealed,
            key("a").seal(&secret, "notes https://example.com").unwrap(),
            "a nonce of its own"
        );
        assert_eq!(key("A").open(&sealed, "notes https://example.com").unwrap().expose(), b"s3cret");
        let cut = &sealed[..sealed.len() - 8];
        let mut flipped = sealed.clone();
        flipped.replace_range(30..31, if &sealed[30..31] == "A" { "B" } else { "A" });
        for (digit, text, purpose, want) in [
            ("b", &*sealed, "notes https://example.com", SealError::Closed),
            ("a", &sealed, "notes https://evil.example", SealError::Closed),
            ("a", &sealed, "", SealError::Closed),
            ("a", cut, "notes https://example.com", SealError::Closed),
            ("a", &flipped, "notes https://example.com", SealError::Closed),
            ("a", "s3cret", "", SealError::Form),
            ("a", PREFIX, "", SealError::Form),
            ("a", "hotcell-sealed-1:!", "", SealError::Form),
        ] {
            let got = key(digit).open(text, purpose).unwrap_err();
            assert_eq!(got.to_string(), want.to_string(), "{digit} {purpose}");
        }
    }

    #[test]
    fn keys_are_64_digits_of_any_source() {
        for text in ["a", &"g".repeat(64), &"a".repeat(63), &"a".repeat(65), &"é".repeat(32)] {
            let error =
                SealKey::new(&Secret::new(text.as_bytes().to_vec()).unwrap()).unwrap_err().to_string();
            assert!(error.contains("openssl rand -hex 32"), "{error}");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, "0f".repeat(32)).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let source = SecretSource::File(path.clone());
        let token = Secret::new(b"t".to_vec()).unwrap();
        let text = SealKey::new(&source.read().unwrap()).unwrap().seal(&token, "p").unwrap();
        let sealed = Sealed::new(source, &text, "p");
        assert_eq!(sealed.open().unwrap().expose(), b"t");
        assert!(!format!("{sealed:?}").contains(&text));
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        assert!(sealed.open().unwrap_err().to_string().contains("chmod 600"));
    }

    proptest! {
        #[test]
        fn texts_of_others_never_open(text in ".{0,200}", bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let key = key("0");
            prop_assert!(key.open(&text, "p").is_err());
            let opened = key.open(&format!("{PREFIX}{}", STANDARD.encode(&bytes)), "p");
            prop_assert!(opened.is_err());
        }
    }
}
