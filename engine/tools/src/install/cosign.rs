//! Signatures of artifacts of a registry in cosign's form with a key: a small document that names the artifact's digest (its payload),
//! kept as a layer beside it, and the ECDSA signature of that document over P-256 and SHA-256, in base64 as the layer's annotation.
//! Nothing here asks a transparency log or reads certificates: a key is named, and it signed or it did not.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, UnparsedPublicKey,
};
use serde::Deserialize;

use crate::install::sources::{file, sha256};

/// The type of a layer that is a payload.
pub const PAYLOAD_LAYER: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// The annotation with its signature.
pub const ANNOTATION: &str = "dev.cosignproject.cosign/signature";
/// Values of a payload's `type` that are accepted.
const KINDS: [&str; 2] = ["cosign container image signature", "https://sigstore.dev/cosign/sign/v1"];
/// Maximum size of a payload, in bytes.
pub(crate) const MAX_PAYLOAD_BYTES: u64 = 64 << 10;
/// Maximum size of a key file, in bytes.
const MAX_KEY_BYTES: u64 = 4096;
/// How a record names a key of this kind.
const PREFIX: &str = "cosign:";
/// A public key of P-256 in DER up to its point: SEQUENCE { SEQUENCE { ecPublicKey, prime256v1 }, BIT STRING }.
const SPKI: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// Length of its point, uncompressed, in bytes.
const POINT_LEN: usize = 65;

/// The tag that signatures of an artifact have, by the digest of its manifest.
#[must_use]
pub fn tag(digest: &str) -> String {
    format!("sha256-{digest}.sig")
}

/// One signature as a registry has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The document.
    pub payload: Vec<u8>,
    /// Signature, in base64.
    pub signature: String,
}

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    /// `0x04`, then both coordinates.
    point: Vec<u8>,
}

#[derive(Deserialize)]
struct Payload {
    critical: Critical,
}

#[derive(Deserialize)]
struct Critical {
    image: Image,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct Image {
    #[serde(rename = "docker-manifest-digest")]
    digest: String,
}

impl PublicKey {
    /// Reads `-----BEGIN PUBLIC KEY-----`, or what [`PublicKey::text`] wrote.
    ///
    /// # Errors
    /// A sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let der = match text.trim().strip_prefix(PREFIX) {
            Some(base64) => STANDARD.decode(base64).map_err(|e| format!("it is no base64: {e}"))?,
            None => pem(text, "PUBLIC KEY")?,
        };
        match der.strip_prefix(&SPKI[..]) {
            Some(point) if point.len() == POINT_LEN && point[0] == 4 => Ok(Self { point: point.to_vec() }),
            _ => Err("it is no key of ECDSA over P-256, which is the kind that cosign makes".to_owned()),
        }
    }

    /// Whether a text could be such a key, and not one of minisign.
    #[must_use]
    pub fn is_meant(text: &str) -> bool {
        text.starts_with(PREFIX) || text.contains("-----BEGIN")
    }

    /// How a record names it, on one line.
    #[must_use]
    pub fn text(&self) -> String {
        let der: Vec<u8> = SPKI.iter().chain(&self.point).copied().collect();
        format!("{PREFIX}{}", STANDARD.encode(der))
    }

    /// Checks that one of these signatures is by this key, and of the artifact with this digest.
    ///
    /// # Errors
    /// A sentence: why the last of them is not.
    pub fn check(&self, digest: &str, all: &[Signed]) -> Result<(), String> {
        let mut why = "there is none".to_owned();
        for signed in all {
            match self.is_of(digest, signed) {
                Ok(()) => return Ok(()),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    fn is_of(&self, digest: &str, signed: &Signed) -> Result<(), String> {
        let signature = STANDARD.decode(signed.signature.trim());
        let signature = signature.map_err(|e| format!("a signature is no base64: {e}"))?;
        // Before anything in it is believed.
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, &self.point)
            .verify(&signed.payload, &signature)
            .map_err(|_| "it is by another key, or of another document".to_owned())?;
        let payload: Payload = serde_json::from_slice(&signed.payload)
            .map_err(|e| format!("what is signed is no payload: {e}"))?;
        if !KINDS.contains(&payload.critical.kind.as_str()) {
            return Err("what is signed is no signature of an artifact".to_owned());
        }
        if payload.critical.image.digest != format!("sha256:{digest}") {
            return Err(format!(
                "what is signed is {}, and not this artifact",
                payload.critical.image.digest
            ));
        }
        Ok(())
    }
}

/// A private key, to sign with.
pub struct PrivateKey {
    pair: EcdsaKeyPair,
    random: SystemRandom,
}

impl PrivateKey {
    /// Reads a file: `-----BEGIN PRIVATE KEY-----` (PKCS #8) of P-256, not encrypted.
    ///
    /// # Errors
    /// A sentence with what makes a key that can be read.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = file::text(path, MAX_KEY_BYTES).map_err(|e| e.to_string())?;
        Self::parse(&text).map_err(|why| format!("{}: {why}", path.display()))
    }

    /// Reads a key from its text, like [`Self::read`].
    ///
    /// # Errors
    /// A sentence that says why the key cannot be read, and which command makes one that can.
    pub fn parse(text: &str) -> Result<Self, String> {
        let plain =
            "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 makes one that can be read";
        if text.contains("ENCRYPTED") {
            return Err(format!(
                "the key is encrypted; sign with cosign itself after publishing, or: {plain}"
            ));
        }
        if text.contains("BEGIN EC PRIVATE KEY") {
            return Err(
                "it is in the old form; openssl pkcs8 -topk8 -nocrypt writes the one that is read".to_owned()
            );
        }
        let der = pem(text, "PRIVATE KEY").map_err(|why| format!("{why}; {plain}"))?;
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &der, &random);
        let pair = pair.map_err(|e| format!("it is no private key of ECDSA over P-256 ({e}); {plain}"))?;
        Ok(Self { pair, random })
    }

    /// Signs the artifact with this digest in this repository (`HOST/NAME`).
    ///
    /// # Errors
    /// A sentence: there is no randomness.
    pub fn sign(&self, repository: &str, digest: &str) -> Result<Signed, String> {
        let payload = serde_json::json!({
            "critical": {
                "identity": { "docker-reference": repository },
                "image": { "docker-manifest-digest": format!("sha256:{digest}") },
                "type": KINDS[0],
            },
            "optional": null,
        });
        let payload = payload.to_string().into_bytes();
        let signature = self.pair.sign(&self.random, &payload);
        let signature = signature.map_err(|_| "it cannot be signed: there is no randomness".to_owned())?;
        Ok(Signed { payload, signature: STANDARD.encode(signature.as_ref()) })
    }
}

impl Signed {
    /// The layer of a manifest that stands for it.
    #[must_use]
    pub fn layer(&self) -> serde_json::Value {
        serde_json::json!({
            "mediaType": PAYLOAD_LAYER,
            "size": self.payload.len(),
            "digest": format!("sha256:{}", sha256(&self.payload)),
            "annotations": { ANNOTATION: self.signature },
        })
    }
}

/// Decodes the bytes between the begin and end lines of a PEM file of this kind.
fn pem(text: &str, kind: &str) -> Result<Vec<u8>, String> {
    let (begin, end) = (format!("-----BEGIN {kind}-----"), format!("-----END {kind}-----"));
    let inner = text.split_once(&begin).and_then(|(_, rest)| rest.split_once(&end)).map(|(inner, _)| inner);
    let inner = inner.ok_or_else(|| format!("there is no {begin} in it"))?;
    let base64: String = inner.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    STANDARD.decode(base64).map_err(|e| format!("it is no PEM: {e}"))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    const DIGEST: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

    /// Runs `openssl`, which is independent of this code, and returns its output; `None` where it is missing.
    fn openssl(arguments: &[&str], input: &[u8]) -> Option<Vec<u8>> {
        use std::io::Write;
        let mut command = Command::new("openssl");
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().ok()?;
        child.stdin.take().expect("piped").write_all(input).expect("written");
        let output = child.wait_with_output().expect("an end");
        assert!(output.status.success(), "{arguments:?}");
        Some(output.stdout)
    }

    fn payload(kind: &str, digest: &str) -> Vec<u8> {
        format!(
            r#"{{"critical":{{"identity":{{"docker-reference":"a.org/x"}},"image":{{"docker-manifest-digest":"{digest}"}},"type":"{kind}"}},"optional":{{"creator":"other"}}}}"#
        )
        .into_bytes()
    }

    #[test]
    fn openssl_signature_verifies_in_cosign_form() {
        let dir = tempfile::tempdir().unwrap();
        let (key, other) = (dir.path().join("key.pem"), dir.path().join("other.pem"));
        for file in [&key, &other] {
            let file = file.to_str().unwrap();
            let make = ["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", file];
            if openssl(&make, b"").is_none() {
                println!("skipped: no openssl");
                return;
            }
        }
        let public = |file: &Path| {
            let text = openssl(&["pkey", "-pubout", "-in", file.to_str().unwrap()], b"").unwrap();
            PublicKey::parse(&String::from_utf8(text).unwrap()).unwrap()
        };
        let sign = |payload: &[u8]| {
            let signed = openssl(&["dgst", "-sha256", "-sign", key.to_str().unwrap()], payload).unwrap();
            Signed { payload: payload.to_vec(), signature: STANDARD.encode(signed) }
        };
        let (mine, theirs) = (public(&key), public(&other));
        assert_eq!(PublicKey::parse(&mine.text()), Ok(mine.clone()), "a record is read again");
        let right = format!("sha256:{DIGEST}");
        for kind in KINDS {
            let signed = sign(&payload(kind, &right));
            assert_eq!(mine.check(DIGEST, std::slice::from_ref(&signed)), Ok(()), "{kind}");
            assert!(theirs.check(DIGEST, &[signed]).unwrap_err().contains("another key"));
        }
        let good = sign(&payload(KINDS[0], &right));
        let changed = |change: &dyn Fn(&mut Signed)| {
            let mut signed = good.clone();
            change(&mut signed);
            mine.check(DIGEST, &[signed])
        };
        for (change, why) in [
            (&(|s: &mut Signed| s.payload.push(b' ')) as &dyn Fn(&mut Signed), "another document"),
            (&|s| s.signature.clear(), "another key"),
            (&|s| s.signature = "%".to_owned(), "no base64"),
            (&|s| s.signature.replace_range(20..24, "AAAA"), "another key"),
        ] {
            let told = changed(change).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
        for (text, why) in [
            (payload(KINDS[0], &format!("sha256:{}", "b".repeat(64))), "and not this artifact"),
            (payload(KINDS[0], DIGEST), "and not this artifact"),
            (payload("a letter", &right), "no signature of an artifact"),
            (b"{}".to_vec(), "no payload"),
            (b"".to_vec(), "no payload"),
        ] {
            let told = mine.check(DIGEST, &[sign(&text)]).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
        assert!(mine.check(DIGEST, &[]).is_err());
        // Among several one is enough.
        assert_eq!(mine.check(DIGEST, &[sign(b"{}"), good.clone()]), Ok(()));
        // openssl accepts a signature made here.
        let private = PrivateKey::read(&key).unwrap();
        let signed = private.sign("a.org/x", DIGEST).unwrap();
        assert_eq!(mine.check(DIGEST, std::slice::from_ref(&signed)), Ok(()));
        let (sig, pubkey) = (dir.path().join("sig"), dir.path().join("pub.pem"));
        std::fs::write(&sig, STANDARD.decode(&signed.signature).unwrap()).unwrap();
        let (k, p) = (key.to_str().unwrap(), pubkey.to_str().unwrap());
        openssl(&["pkey", "-pubout", "-in", k, "-out", p], b"").unwrap();
        let check = ["dgst", "-sha256", "-verify", p, "-signature", sig.to_str().unwrap()];
        openssl(&check, &signed.payload).unwrap();
    }

    #[test]
    fn invalid_public_key_is_explained() {
        for (text, why) in [
            ("", "there is no -----BEGIN PUBLIC KEY-----"),
            ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", "P-256"),
            ("-----BEGIN PUBLIC KEY-----\n%\n-----END PUBLIC KEY-----", "no PEM"),
            ("cosign:AAAA", "P-256"),
            ("cosign:%", "base64"),
        ] {
            let told = PublicKey::parse(text).unwrap_err();
            assert!(told.contains(why), "{text}: {told}");
        }
        for (text, why) in [
            ("", "openssl genpkey"),
            ("-----BEGIN ENCRYPTED COSIGN PRIVATE KEY-----", "encrypted"),
            ("-----BEGIN EC PRIVATE KEY-----", "openssl pkcs8"),
            ("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----", "P-256"),
        ] {
            let told = PrivateKey::parse(text).err().unwrap_or_default();
            assert!(told.contains(why), "{text}: {told}");
        }
    }
}
