//! Ed25519 keys (RFC 8032): private ones as PKCS#8, public ones as PEM of their SubjectPublicKeyInfo (RFC 8410).

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

use crate::digest;
use crate::envelope::{Envelope, PAYLOAD_TYPE, Signature, pre_authentication};
use crate::statement::Statement;

/// DER of an Ed25519 SubjectPublicKeyInfo up to the 32 bytes of the key.
const SPKI_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
const PUBLIC_LABEL: &str = "PUBLIC KEY";
const PRIVATE_LABEL: &str = "PRIVATE KEY";
/// Maximum size of a key's file, in bytes.
pub const MAX_KEY_BYTES: usize = 8192;

/// Why a key cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// The text is not PEM with this label.
    #[error("no PEM block \"{0}\"")]
    NotPem(&'static str),
    /// The key is of another kind, or damaged.
    #[error("not an Ed25519 key ({0}); make one with: openssl genpkey -algorithm ed25519")]
    NotEd25519(String),
    /// Everybody can sign for the key.
    #[error(
        "the key is a point of low order, for which one signature fits every text; its owner has no private key"
    )]
    LowOrder,
    /// The system gives no random numbers.
    #[error("there is no randomness for a new key")]
    NoRandomness,
}

/// A private key. `Debug` prints its public identifier only.
pub struct SigningKey {
    pair: Ed25519KeyPair,
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public().id())
    }
}

impl SigningKey {
    /// Makes a new key; returns it with its PKCS#8 form, which is secret.
    ///
    /// # Errors
    /// [`KeyError::NoRandomness`].
    pub fn generate() -> Result<(Self, Vec<u8>), KeyError> {
        let document =
            Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| KeyError::NoRandomness)?;
        let bytes = document.as_ref().to_vec();
        Ok((Self::from_pkcs8(&bytes)?, bytes))
    }

    /// Reads a key from PKCS#8, with or without the public half (version 2 or 1).
    ///
    /// # Errors
    /// [`KeyError::NotEd25519`].
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, KeyError> {
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der);
        Ok(Self { pair: pair.map_err(|e| KeyError::NotEd25519(e.to_string()))? })
    }

    /// Reads a key from PEM (`BEGIN PRIVATE KEY`), or from PKCS#8 itself.
    ///
    /// # Errors
    /// [`KeyError`] when it is neither.
    pub fn parse(bytes: &[u8]) -> Result<Self, KeyError> {
        match std::str::from_utf8(bytes) {
            Ok(text) if text.contains("-----BEGIN") => Self::from_pkcs8(&from_pem(text, PRIVATE_LABEL)?),
            _ => Self::from_pkcs8(bytes),
        }
    }

    /// The public half.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        let mut key = [0; 32];
        key.copy_from_slice(self.pair.public_key().as_ref());
        PublicKey(key)
    }

    /// Raw signature over bytes.
    #[must_use]
    pub fn sign_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        self.pair.sign(bytes).as_ref().to_vec()
    }

    /// Signs a statement.
    ///
    /// # Errors
    /// When the statement is not representable in JSON.
    pub fn sign(&self, statement: &Statement) -> Result<Envelope, serde_json::Error> {
        let payload = serde_json::to_vec(statement)?;
        let signature = self.sign_bytes(&pre_authentication(PAYLOAD_TYPE, &payload));
        Ok(Envelope {
            payload_type: PAYLOAD_TYPE.to_owned(),
            payload: STANDARD.encode(&payload),
            signatures: vec![Signature { keyid: self.public().id(), sig: STANDARD.encode(signature) }],
        })
    }
}

/// A public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// Identifier: SHA-256 of the SubjectPublicKeyInfo, 64 hexadecimal digits.
    #[must_use]
    pub fn id(&self) -> String {
        digest::sha256(&self.spki())
    }

    fn spki(&self) -> Vec<u8> {
        [&SPKI_PREFIX[..], &self.0].concat()
    }

    /// PEM form, as `openssl pkey -pubout` writes it.
    #[must_use]
    pub fn to_pem(&self) -> String {
        to_pem(PUBLIC_LABEL, &self.spki())
    }

    /// Reads the PEM form.
    ///
    /// # Errors
    /// [`KeyError`] when it is not an Ed25519 public key.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        let der = from_pem(text, PUBLIC_LABEL)?;
        let key = der.strip_prefix(&SPKI_PREFIX).and_then(|key| key.try_into().ok());
        let key = key.ok_or_else(|| KeyError::NotEd25519(format!("{} bytes of another kind", der.len())))?;
        if is_of_low_order(&key) { Err(KeyError::LowOrder) } else { Ok(Self(key)) }
    }

    /// Checks a signature over bytes.
    #[must_use]
    pub fn verifies(&self, bytes: &[u8], signature: &[u8]) -> bool {
        !is_of_low_order(&self.0)
            && UnparsedPublicKey::new(&ED25519, &self.0).verify(bytes, signature).is_ok()
    }
}

/// Whether a point is one of the eight whose multiple by 8 is the identity, in any of their encodings: RFC 8032 (section 5.1) does not forbid them.
fn is_of_low_order(key: &[u8; 32]) -> bool {
    /// Their second coordinates: of the orders 4, 1, 8, 8 and 2, and of 4 and 1 beyond the prime.
    const LOW: [&str; 7] = [
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    ];
    // The highest bit is the sign of the first coordinate.
    let mut point = *key;
    point[31] &= 0x7f;
    LOW.contains(&hex::encode(point).as_str())
}

/// Keys that a verifier trusts, with a name for each.
#[derive(Clone, Debug, Default)]
pub struct KeyRing {
    keys: BTreeMap<PublicKey, String>,
}

impl KeyRing {
    /// A ring of these keys, named by their identifiers.
    pub fn of(keys: impl IntoIterator<Item = PublicKey>) -> Self {
        Self { keys: keys.into_iter().map(|key| (key, key.id())).collect() }
    }

    /// Adds a key; a key that is there already keeps its name.
    pub fn add(&mut self, key: PublicKey, name: &str) {
        self.keys.entry(key).or_insert_with(|| name.to_owned());
    }

    /// The keys with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&PublicKey, &str)> {
        self.keys.iter().map(|(key, name)| (key, name.as_str()))
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

/// PEM (RFC 7468) with lines of 64 characters.
fn to_pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    for line in text.as_bytes().chunks(64) {
        pem.push_str(&String::from_utf8_lossy(line));
        pem.push('\n');
    }
    pem.push_str(&format!("-----END {label}-----\n"));
    pem
}

fn from_pem(text: &str, label: &'static str) -> Result<Vec<u8>, KeyError> {
    let not = || KeyError::NotPem(label);
    let (_, rest) = text.split_once(&format!("-----BEGIN {label}-----")).ok_or_else(not)?;
    let (body, _) = rest.split_once(&format!("-----END {label}-----")).ok_or_else(not)?;
    let body: String = body.split_ascii_whitespace().collect();
    STANDARD.decode(body).map_err(|_| not())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test vector 2 of RFC 8032, section 7.1: secret key, public key, message and signature.
    #[test]
    fn public_key_verifies_the_vector_of_rfc_8032() {
        let bytes = |text: &str| -> Vec<u8> {
            (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
        };
        let key = bytes("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c");
        let signature = bytes(
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
        );
        let key = PublicKey(key.try_into().unwrap());
        assert!(key.verifies(&[0x72], &signature));
        assert!(!key.verifies(&[0x73], &signature));
        assert!(!key.verifies(&[0x72], &signature[..63]));
    }

    #[test]
    fn keys_survive_their_text_forms() {
        let (key, pkcs8) = SigningKey::generate().unwrap();
        assert_eq!(SigningKey::parse(&pkcs8).unwrap().public(), key.public());
        let pem = to_pem(PRIVATE_LABEL, &pkcs8);
        assert_eq!(SigningKey::parse(pem.as_bytes()).unwrap().public(), key.public());
        assert_eq!(PublicKey::from_pem(&key.public().to_pem()).unwrap(), key.public());
        assert!(!format!("{key:?}").contains(&STANDARD.encode(&pkcs8)[40..]));
    }

    /// PKCS#8 version 1, which OpenSSL writes: without the public half.
    #[test]
    fn parse_reads_a_key_without_its_public_half() {
        let pem = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----\n";
        let key = SigningKey::parse(pem.as_bytes()).unwrap();
        assert_eq!(
            hex::encode(key.public().0),
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
        );
    }

    #[test]
    fn keys_of_low_order_are_refused() {
        let mut point = [0; 32];
        for (first, last) in [(1, 0), (0, 0), (1, 0x80), (0, 0x80)] {
            (point[0], point[31]) = (first, last);
            let key = PublicKey(point);
            assert_eq!(PublicKey::from_pem(&key.to_pem()), Err(KeyError::LowOrder), "{point:?}");
            // The signature whose point is the identity and whose number is 0 fits every text for such a key.
            let mut signature = [0; 64];
            signature[0] = 1;
            assert!(!key.verifies(b"any text", &signature));
        }
        let (key, _) = SigningKey::generate().unwrap();
        assert_eq!(PublicKey::from_pem(&key.public().to_pem()), Ok(key.public()));
    }

    #[test]
    fn parse_refuses_other_keys_and_texts() {
        for text in [
            "",
            "x",
            "-----BEGIN PRIVATE KEY-----\n!!\n-----END PRIVATE KEY-----\n",
            "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----",
        ] {
            assert!(SigningKey::parse(text.as_bytes()).is_err(), "{text}");
            assert!(PublicKey::from_pem(text).is_err(), "{text}");
        }
    }
}
