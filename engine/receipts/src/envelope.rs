//! DSSE envelopes, version 1.0.2 of the protocol: a payload of a named type, and signatures over both.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hotcell_sandbox::unique;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ReceiptError;

/// Payload type of an in-toto statement.
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
/// Maximum size of an envelope that is read, in bytes. A report of 100,000 tests takes about 12 MB.
pub const MAX_ENVELOPE_BYTES: usize = 64 << 20;
/// Maximum number of signatures that are tried.
pub const MAX_SIGNATURES: usize = 16;

/// A signed payload, in the JSON form of DSSE.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    /// Type of the payload.
    pub payload_type: String,
    /// The payload in base64.
    pub payload: String,
    /// Signatures.
    pub signatures: Vec<Signature>,
}

/// One signature of an envelope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Signature {
    /// Identifier of the key: a hint that decides nothing.
    #[serde(default)]
    pub keyid: String,
    /// The signature in base64.
    pub sig: String,
}

impl Envelope {
    /// Parses an envelope.
    ///
    /// # Errors
    /// [`ReceiptError::NotAnEnvelope`] when it is too large, not of the form, or has no or too many signatures.
    pub fn parse(json: &[u8]) -> Result<Self, ReceiptError> {
        let not = |why: String| ReceiptError::NotAnEnvelope(why);
        if json.len() > MAX_ENVELOPE_BYTES {
            return Err(not(format!("it is larger than {} MiB", MAX_ENVELOPE_BYTES >> 20)));
        }
        // A sequence of the fields would be read too, and by other verifiers not.
        if !json.trim_ascii_start().starts_with(b"{") {
            return Err(not("it is not a JSON object".to_owned()));
        }
        let envelope: Self = serde_json::from_slice(json).map_err(|e| not(e.to_string()))?;
        if envelope.signatures.is_empty() {
            return Err(not("it has no signature".to_owned()));
        }
        if envelope.signatures.len() > MAX_SIGNATURES {
            return Err(not(format!("it has more than {MAX_SIGNATURES} signatures")));
        }
        Ok(envelope)
    }

    /// Whether a file holds an envelope and nothing else: other keys are allowed in one (DSSE) and unsigned, and would be read by those who take
    /// the file for something else.
    #[must_use]
    pub fn is_alone(json: &[u8]) -> bool {
        let has_only = |value: &serde_json::Value, keys: &[&str]| {
            value.as_object().is_some_and(|object| object.keys().all(|key| keys.contains(&key.as_str())))
        };
        unique::check(json).is_ok()
            && serde_json::from_slice::<serde_json::Value>(json).is_ok_and(|envelope| {
                has_only(&envelope, &["payloadType", "payload", "signatures"])
                    && envelope["signatures"]
                        .as_array()
                        .is_some_and(|all| all.iter().all(|signature| has_only(signature, &["keyid", "sig"])))
            })
    }

    /// Bytes of the payload.
    ///
    /// # Errors
    /// [`ReceiptError::NotAnEnvelope`] when it is not base64.
    pub fn payload_bytes(&self) -> Result<Vec<u8>, ReceiptError> {
        STANDARD.decode(&self.payload).map_err(|e| ReceiptError::NotAnEnvelope(format!("its payload: {e}")))
    }

    /// The envelope as JSON, with a newline at its end.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

impl Signature {
    /// Bytes of the signature; `None` when it is not base64.
    #[must_use]
    pub fn bytes(&self) -> Option<Vec<u8>> {
        STANDARD.decode(&self.sig).ok()
    }
}

/// Pre-authentication encoding: the bytes that are signed. Both parts are preceded by their lengths, so that no other pair has the same encoding.
#[must_use]
pub fn pre_authentication(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut bytes = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
    bytes.extend_from_slice(payload);
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pre_authentication_is_that_of_the_protocols_example() {
        let encoded = pre_authentication("http://example.com/HelloWorld", b"hello world");
        assert_eq!(encoded, b"DSSEv1 29 http://example.com/HelloWorld 11 hello world");
    }

    #[test]
    fn parse_refuses_what_is_no_envelope() {
        for (json, part) in [
            ("", "not a JSON object"),
            (r#"["a","",[["","AA"]]]"#, "not a JSON object"),
            ("{", "EOF"),
            (r#"{"payloadType":"a","payload":"","signatures":[]}"#, "no signature"),
            (r#"{"payload":"","signatures":[{"sig":""}]}"#, "payloadType"),
        ] {
            let error = Envelope::parse(json.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(part), "{json}: {error}");
        }
        let many = format!(
            r#"{{"payloadType":"a","payload":"","signatures":[{}]}}"#,
            [r#"{"sig":""}"#; MAX_SIGNATURES + 1].join(",")
        );
        assert!(Envelope::parse(many.as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn pre_authentication_differs_for_different_pairs(
            a in "[a-z0-9 ]{0,12}", b in proptest::collection::vec(any::<u8>(), 0..12),
            c in "[a-z0-9 ]{0,12}", d in proptest::collection::vec(any::<u8>(), 0..12),
        ) {
            prop_assert_eq!((&a, &b) == (&c, &d), pre_authentication(&a, &b) == pre_authentication(&c, &d));
        }
    }
}
