//! Verification of a receipt: the bytes are checked first, and parsed only then; afterwards the conditions of the person who asks.

use std::collections::{BTreeMap, BTreeSet};

use hotcell_sandbox::{Layer, unique};

use crate::envelope::{Envelope, PAYLOAD_TYPE, pre_authentication};
use crate::error::ReceiptError;
use crate::keys::KeyRing;
use crate::stated::Stated;
use crate::statement::{Statement, TYPE};
use crate::{agent, run, scan, test_result};

/// A receipt whose signature is good.
#[derive(Clone, Debug, PartialEq)]
pub struct Verified {
    /// The statement.
    pub statement: Statement,
    /// Identifier of the key that signed.
    pub key: String,
    /// Name of that key in the ring.
    pub key_name: String,
}

/// Verifies an envelope with the keys of a ring. The identifier that a signature names decides nothing: each key is tried.
///
/// # Errors
/// [`ReceiptError`] when the envelope, its signature or its payload is not good.
pub fn verify(json: &[u8], ring: &KeyRing) -> Result<Verified, ReceiptError> {
    if ring.is_empty() {
        return Err(ReceiptError::NoKeys);
    }
    let envelope = Envelope::parse(json)?;
    let payload = envelope.payload_bytes()?;
    let signed = pre_authentication(&envelope.payload_type, &payload);
    let by = envelope.signatures.iter().filter_map(crate::envelope::Signature::bytes).find_map(|signature| {
        ring.iter()
            .find(|(key, _)| key.verifies(&signed, &signature))
            .map(|(key, name)| (key.id(), name.to_owned()))
    });
    let Some((key, key_name)) = by else {
        let short = |keyid: &str| keyid.chars().filter(char::is_ascii_graphic).take(64).collect::<String>();
        let keyids =
            envelope.signatures.iter().map(|s| short(&s.keyid)).filter(|id| !id.is_empty()).collect();
        return Err(ReceiptError::Untrusted { keyids });
    };
    if envelope.payload_type != PAYLOAD_TYPE {
        return Err(ReceiptError::PayloadType(envelope.payload_type.chars().take(100).collect()));
    }
    unique::check(&payload).map_err(ReceiptError::NotAStatement)?;
    let statement: Statement =
        serde_json::from_slice(&payload).map_err(|e| ReceiptError::NotAStatement(e.to_string()))?;
    if statement.kind != TYPE {
        return Err(ReceiptError::NotAStatement(format!("its type is {:?}", statement.kind)));
    }
    if statement.subject.is_empty() || statement.subject.iter().any(|subject| subject.digest.is_empty()) {
        return Err(ReceiptError::NotAStatement("a subject has no digest".to_owned()));
    }
    Ok(Verified { statement, key, key_name })
}

impl Verified {
    /// Result that the statement states; `None` for a predicate that hotcell does not know.
    #[must_use]
    pub fn stated(&self) -> Option<Stated> {
        let predicate = &self.statement.predicate;
        let is_good = match self.statement.predicate_type.as_str() {
            run::PREDICATE_TYPE | test_result::PREDICATE_TYPE | agent::PREDICATE_TYPE => {
                predicate["result"] == "PASSED"
            }
            scan::PREDICATE_TYPE => predicate["properties"]
                .as_array()
                .is_some_and(|all| all.iter().any(|one| one == scan::ALLOWED)),
            _ => return None,
        };
        Some(if is_good { Stated::Passed } else { Stated::Failed })
    }
}

/// Conditions on a verified receipt. What is `None` or empty is not checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// The receipt states that everything passed.
    pub passed: bool,
    /// Digests by algorithm. The receipt is about each of them.
    pub subject: BTreeMap<String, String>,
    /// Type of the predicate.
    pub predicate_type: Option<String>,
    /// Layers of the sandbox that were in force.
    pub layers: BTreeSet<Layer>,
    /// Digests of images, in one of which it ran.
    pub images: BTreeSet<String>,
    /// Identifiers of keys, one of which signed.
    pub keys: BTreeSet<String>,
    /// Oldest acceptable time of the statement, in microseconds since 1970.
    pub not_before_us: Option<i64>,
    /// Latest acceptable time, in microseconds since 1970.
    pub not_after_us: Option<i64>,
}

impl Conditions {
    /// Checks a receipt.
    ///
    /// # Errors
    /// [`ReceiptError::Condition`] with the first condition that is not met.
    pub fn check(&self, verified: &Verified) -> Result<(), ReceiptError> {
        let not = |why: String| Err(ReceiptError::Condition(why));
        if let Some(wanted) = &self.predicate_type
            && *wanted != verified.statement.predicate_type
        {
            return not(format!(
                "the receipt is of type {}, not {wanted}",
                verified.statement.predicate_type
            ));
        }
        if !self.keys.is_empty() && !self.keys.contains(&verified.key) {
            return not(format!(
                "it is signed by the key {}, which is not one of the wanted ones",
                verified.key
            ));
        }
        let is_about = |name: &str, value: &str| {
            let mut digests =
                verified.statement.subject.iter().filter_map(|subject| subject.digest.get(name));
            digests.any(|digest| digest.eq_ignore_ascii_case(value))
        };
        if let Some((name, value)) = self.subject.iter().find(|(name, value)| !is_about(name, value)) {
            return not(format!("no subject of the receipt is {name}:{value}"));
        }
        let predicate = &verified.statement.predicate;
        let of_sandbox = |name: &str| match &predicate[name] {
            serde_json::Value::Null => &predicate["hotcell"][name],
            value => value,
        };
        let layers = of_sandbox("layers");
        if let Some(layer) = self.layers.iter().find(|layer| layers[layer.name()] != "on") {
            return not(match &layers[layer.name()] {
                serde_json::Value::String(state) => format!("the layer {} was {state}", layer.name()),
                _ => format!("the receipt does not state the layer {}", layer.name()),
            });
        }
        if !self.images.is_empty() {
            match of_sandbox("image_digest").as_str() {
                Some(image) if self.images.contains(image) => {}
                Some(image) => return not(format!("it ran in the image {image}, not in a wanted one")),
                None => return not("the receipt states no digest of an image".to_owned()),
            }
        }
        if let Some(oldest) = self.not_before_us {
            match verified.statement.predicate["hotcell"]["time_us"].as_i64() {
                Some(time) if time >= oldest => {}
                Some(_) => return not("the receipt is older than allowed".to_owned()),
                None => return not("the receipt has no time".to_owned()),
            }
        }
        if let Some(latest) = self.not_after_us
            && verified.statement.predicate["hotcell"]["time_us"].as_i64().is_some_and(|time| time > latest)
        {
            return not("the time of the receipt is in the future".to_owned());
        }
        match (self.passed, verified.stated()) {
            (false, _) | (true, Some(Stated::Passed)) => Ok(()),
            (true, Some(Stated::Failed)) => not("the receipt states FAILED".to_owned()),
            (true, None) => not("the receipt's predicate states no result that is known here".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;

    use super::*;
    use crate::keys::SigningKey;
    use crate::statement::Subject;

    fn statement(result: &str) -> Statement {
        let hotcell = serde_json::json!({
            "time_us": 1_000,
            "image_digest": "sha256:1",
            "layers": {"seccomp": "on", "landlock": "missing: no kernel support"}
        });
        let predicate = serde_json::json!({"result": result, "hotcell": hotcell});
        Statement::new(vec![Subject::sha256("a", b"a")], test_result::PREDICATE_TYPE, predicate)
    }

    #[test]
    fn verify_accepts_own_and_refuses_other_keys() {
        let (key, _) = SigningKey::generate().unwrap();
        let (other, _) = SigningKey::generate().unwrap();
        let json = key.sign(&statement("PASSED")).unwrap().to_json();
        let verified = verify(json.as_bytes(), &KeyRing::of([other.public(), key.public()])).unwrap();
        assert_eq!((verified.key.clone(), verified.stated()), (key.public().id(), Some(Stated::Passed)));
        assert_eq!(
            verify(json.as_bytes(), &KeyRing::of([other.public()])),
            Err(ReceiptError::Untrusted { keyids: vec![key.public().id()] })
        );
        assert_eq!(verify(json.as_bytes(), &KeyRing::default()), Err(ReceiptError::NoKeys));
    }

    /// A signature of another payload type must not be taken for one of a statement.
    #[test]
    fn verify_refuses_good_signatures_over_other_things() {
        let (key, _) = SigningKey::generate().unwrap();
        let ring = KeyRing::of([key.public()]);
        let sign = |statement: &Statement, change: &dyn Fn(&mut Statement)| {
            let mut changed = statement.clone();
            change(&mut changed);
            key.sign(&changed).unwrap().to_json()
        };
        type Change = fn(&mut Statement);
        let changes: [Change; 3] = [
            |s| s.kind = "https://in-toto.io/Statement/v0.1".to_owned(),
            |s| s.subject.clear(),
            |s| s.subject[0].digest.clear(),
        ];
        for change in changes {
            let json = sign(&statement("PASSED"), &change);
            assert!(matches!(verify(json.as_bytes(), &ring), Err(ReceiptError::NotAStatement(_))));
        }
        let mut envelope = key.sign(&statement("PASSED")).unwrap();
        envelope.payload_type = "text/plain".to_owned();
        assert!(matches!(verify(envelope.to_json().as_bytes(), &ring), Err(ReceiptError::Untrusted { .. })));
    }

    #[test]
    fn conditions_are_each_checked() {
        let (key, _) = SigningKey::generate().unwrap();
        let ring = KeyRing::of([key.public()]);
        let of = |result| verify(key.sign(&statement(result)).unwrap().to_json().as_bytes(), &ring).unwrap();
        let digest = |name: &str, value: String| BTreeMap::from([(name.to_owned(), value)]);
        let right = crate::digest::sha256(b"a");
        let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let rows: [(Conditions, &str, bool); 17] = [
            (Conditions::default(), "FAILED", true),
            (Conditions { passed: true, ..Conditions::default() }, "PASSED", true),
            (Conditions { passed: true, ..Conditions::default() }, "FAILED", false),
            (Conditions { passed: true, ..Conditions::default() }, "WARNED", false),
            (
                Conditions { subject: digest("sha256", right.to_uppercase()), ..Conditions::default() },
                "FAILED",
                true,
            ),
            (
                Conditions {
                    subject: digest("sha256", crate::digest::sha256(b"b")),
                    ..Conditions::default()
                },
                "PASSED",
                false,
            ),
            (Conditions { subject: digest("dirHash", right), ..Conditions::default() }, "PASSED", false),
            (
                Conditions { predicate_type: Some(run::PREDICATE_TYPE.to_owned()), ..Conditions::default() },
                "PASSED",
                false,
            ),
            (Conditions { not_before_us: Some(1_001), ..Conditions::default() }, "PASSED", false),
            (Conditions { not_after_us: Some(1_000), ..Conditions::default() }, "PASSED", true),
            (Conditions { not_after_us: Some(999), ..Conditions::default() }, "PASSED", false),
            (Conditions { layers: [Layer::Seccomp].into(), ..Conditions::default() }, "FAILED", true),
            (Conditions { layers: [Layer::Landlock].into(), ..Conditions::default() }, "PASSED", false),
            (Conditions { layers: [Layer::Cgroup].into(), ..Conditions::default() }, "PASSED", false),
            (
                Conditions { images: names(&["sha256:0", "sha256:1"]), ..Conditions::default() },
                "FAILED",
                true,
            ),
            (Conditions { images: names(&["sha256:0"]), ..Conditions::default() }, "PASSED", false),
            (Conditions { keys: names(&["0"]), ..Conditions::default() }, "PASSED", false),
        ];
        for (conditions, result, good) in rows {
            assert_eq!(conditions.check(&of(result)).is_ok(), good, "{conditions:?} {result}");
        }
        let signed = Conditions { keys: names(&[&key.public().id()]), ..Conditions::default() };
        assert!(signed.check(&of("FAILED")).is_ok());
        let mut unknown = of("PASSED");
        unknown.statement.predicate_type = "https://example.org/other".to_owned();
        assert!(Conditions { passed: true, ..Conditions::default() }.check(&unknown).is_err());
    }

    proptest! {
        /// One changed byte anywhere in the payload or the signature is refused.
        #[test]
        fn verify_refuses_each_changed_byte(at in 0..10_000_usize, bit in 0..8_u8, in_signature in any::<bool>()) {
            let (key, _) = SigningKey::generate().unwrap();
            let mut envelope = key.sign(&statement("PASSED")).unwrap();
            let signature = &mut envelope.signatures[0].sig;
            let text = if in_signature { signature } else { &mut envelope.payload };
            let mut bytes = STANDARD.decode(&*text).unwrap();
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            *text = STANDARD.encode(bytes);
            prop_assert!(verify(envelope.to_json().as_bytes(), &KeyRing::of([key.public()])).is_err());
        }

        #[test]
        fn verify_never_panics_on_other_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let (key, _) = SigningKey::generate().unwrap();
            prop_assert!(verify(&bytes, &KeyRing::of([key.public()])).is_err());
        }
    }
}
