//! Secrets that plugins use unseen: where they are stored, their placeholders, and where they are inserted
//! and removed again. Values are read, held and masked by `hotcell-egress`, as those of runs.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use hotcell_config::SECRET;
use hotcell_egress::redact::{MIN_REDACTED_BYTES, Spellings};
use hotcell_egress::{Secret, SecretError, SecretSource};
use hotcell_tools::Origin;

/// Prefix of a placeholder.
const PREFIX: &str = "hotcell-secret-";
/// Maximum number of placeholders per call.
const MAX_PLACEHOLDERS: usize = 64;

/// A secret's value: the variable `HOTCELL_SECRET_NAME`, else the file `secrets/NAME` in the configuration's
/// folder.
///
/// # Errors
/// A sentence, when others can read the file, it is not a regular file, or the value cannot be sent or masked.
pub fn value(name: &str, home: Option<&Path>) -> Result<Option<Secret>, String> {
    let variable = SecretSource::Env(format!("HOTCELL_{SECRET}{name}"));
    let file = home.map(|home| SecretSource::File(home.join("secrets").join(name)));
    for source in [Some(variable), file].into_iter().flatten() {
        match source.read() {
            Ok(secret) if secret.expose().len() < MIN_REDACTED_BYTES => {
                return Err(format!(
                    "the secret {name} is shorter than {MIN_REDACTED_BYTES} bytes, too short to be removed from what a host answers"
                ));
            }
            Ok(secret) => return Ok(Some(secret)),
            Err(SecretError::NotSet(_) | SecretError::Empty) => {}
            Err(SecretError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            Err(SecretError::File { source, .. }) => {
                return Err(format!("the file of the secret {name} cannot be used: {source}"));
            }
            Err(why) => return Err(format!("the secret {name} cannot be used: {why}")),
        }
    }
    Ok(None)
}

/// Placeholders for secrets during one call.
#[derive(Debug, Default)]
pub struct Placeholders {
    /// Secret names by placeholder.
    names: BTreeMap<String, String>,
    /// Values that were sent.
    sent: Spellings,
}

impl Placeholders {
    /// A new placeholder; the same secret has one placeholder throughout the call.
    pub fn give(&mut self, name: &str) -> Result<String, String> {
        if let Some((placeholder, _)) = self.names.iter().find(|(_, known)| *known == name) {
            return Ok(placeholder.clone());
        }
        if self.names.len() >= MAX_PLACEHOLDERS {
            return Err(format!("a call has at most {MAX_PLACEHOLDERS} secrets"));
        }
        let random =
            hotcell_state::ids::random_hex(16).map_err(|e| format!("there is no randomness: {e}"))?;
        let placeholder = format!("{PREFIX}{random}");
        self.names.insert(placeholder.clone(), name.to_owned());
        Ok(placeholder)
    }

    /// Replaces placeholders in a header's value by those secrets that `to` may receive. Other placeholders
    /// stay as they are, without a meaning.
    pub fn fill(
        &mut self,
        header: &[u8],
        to: &Origin,
        allowed: &BTreeMap<String, BTreeSet<Origin>>,
        value: impl Fn(&str) -> Result<Option<Secret>, String>,
    ) -> Result<(Vec<u8>, bool), String> {
        let (mut filled, mut any) = (header.to_vec(), false);
        for (placeholder, name) in &self.names {
            if find(&filled, placeholder.as_bytes()).is_none()
                || !allowed.get(name).is_some_and(|places| places.contains(to))
            {
                continue;
            }
            let Some(secret) = value(name)? else { return Err(format!("the secret {name} is not set")) };
            filled = replace(&filled, placeholder.as_bytes(), secret.expose());
            any = true;
            if !self.sent.cover(secret.expose()) {
                self.sent.add(secret.expose());
            }
        }
        Ok((filled, any))
    }

    /// True when a secret was sent during this call.
    pub fn any_left(&self) -> bool {
        !self.sent.is_empty()
    }

    /// Masks the values that were sent in what comes back, as in answers to runs.
    pub fn mask(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        self.sent.mask(&mut bytes);
        bytes
    }
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    (!what.is_empty()).then(|| text.windows(what.len()).position(|window| window == what)).flatten()
}

fn replace(text: &[u8], what: &[u8], with: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some(at) = find(rest, what) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(with);
        rest = &rest[at + what.len()..];
    }
    out.extend_from_slice(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn secret_is_substituted_for_its_origin_only() {
        let (a, b): (Origin, Origin) = ("https://a.org".parse().unwrap(), "https://b.org".parse().unwrap());
        let allowed = BTreeMap::from([("T".to_owned(), BTreeSet::from([a.clone()]))]);
        let value = |_: &str| Ok(Some(Secret::new(b"s3cret/+value".to_vec()).unwrap()));
        let mut placeholders = Placeholders::default();
        let one = placeholders.give("T").unwrap();
        assert_eq!(placeholders.give("T").unwrap(), one);
        assert_ne!(Placeholders::default().give("T").unwrap(), one, "each call has its own");
        let header = format!("Bearer {one}");
        let (there, filled) = placeholders.fill(header.as_bytes(), &b, &allowed, value).unwrap();
        assert_eq!((there, filled), (header.clone().into_bytes(), false));
        assert!(!placeholders.any_left());
        let (there, filled) = placeholders.fill(header.as_bytes(), &a, &allowed, value).unwrap();
        assert_eq!((there.as_slice(), filled), (&b"Bearer s3cret/+value"[..], true));
        for back in [
            "x s3cret/+value y",
            "czNjcmV0Lyt2YWx1ZQ==",
            "s3cret%2F%2Bvalue",
            "s3cret%2f%2bvalue",
            r#""s3cret\/+value""#,
        ] {
            let masked = String::from_utf8(placeholders.mask(back.as_bytes().to_vec())).unwrap();
            assert!(masked.contains("********") && !masked.contains("s3cret"), "{masked}");
        }
        // A value that is sent again is known.
        assert!(placeholders.fill(header.as_bytes(), &a, &allowed, value).unwrap().1);
        assert_eq!(format!("{placeholders:?}").matches("s3cret").count(), 0);
        assert!(
            placeholders.fill(header.as_bytes(), &a, &allowed, |_| Ok(None)).unwrap_err().contains("not set")
        );
    }

    #[test]
    fn placeholders_per_call_are_limited() {
        let mut placeholders = Placeholders::default();
        for number in 0..MAX_PLACEHOLDERS {
            placeholders.give(&format!("T{number}")).unwrap();
        }
        assert!(placeholders.give("T0").is_ok(), "it has one already");
        let why = placeholders.give("T64").unwrap_err();
        assert!(why.contains("64"), "{why}");
    }

    #[test]
    fn secret_file_must_be_private() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("secrets")).unwrap();
        let file = dir.path().join("secrets/T");
        let read =
            || value("T", Some(dir.path())).map(|secret| secret.map(|secret| secret.expose().to_vec()));
        assert_eq!(read(), Ok(None));
        std::fs::write(&file, "abc-defg\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(read().unwrap_err().contains("chmod 600"));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(read(), Ok(Some(b"abc-defg".to_vec())));
        std::fs::write(&file, "abc-def").unwrap();
        assert!(read().unwrap_err().contains("shorter than 8 bytes"));
        std::fs::write(&file, "abc-defg\nh").unwrap();
        assert!(read().unwrap_err().contains("control character"));
        std::fs::write(&file, "\n").unwrap();
        assert_eq!(read(), Ok(None));
        std::fs::write(&file, vec![b'x'; 8192]).unwrap();
        assert_eq!(read().unwrap().unwrap().len(), 8192);
        std::fs::write(&file, vec![b'x'; 8193]).unwrap();
        assert!(read().unwrap_err().contains("longer than 8192 bytes"));
        std::fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &file).unwrap();
        assert!(read().is_err());
    }
}
