//! Secrets that plugins use unseen: where they are stored, their placeholders, and where they are inserted
//! and removed again.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use base64::Engine as _;
use hotcell_config::SECRET;
use hotcell_tools::Origin;

/// Maximum size of a secret, in bytes.
const MAX_SECRET_BYTES: u64 = 8192;
/// Prefix of a placeholder.
const PREFIX: &str = "hotcell-secret-";
/// Maximum number of placeholders per call.
const MAX_PLACEHOLDERS: usize = 64;

/// A secret's value: the variable `HOTCELL_SECRET_NAME`, else the file `secrets/NAME` in the configuration's
/// folder.
///
/// # Errors
/// A sentence, when others can read the file, or it is not a regular file.
pub fn value(name: &str, home: Option<&Path>) -> Result<Option<Vec<u8>>, String> {
    let variable = std::env::var_os(format!("HOTCELL_{SECRET}{name}"));
    if let Some(value) = variable.filter(|value| !value.is_empty()) {
        return Ok(Some(value.into_encoded_bytes()));
    }
    match home.map(|home| of_file(&home.join("secrets").join(name))) {
        None => Ok(None),
        Some(Ok(value)) => Ok(Some(value).filter(|value| !value.is_empty())),
        Some(Err(e)) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Some(Err(e)) => Err(format!("the file of the secret {name} cannot be used: {e}")),
    }
}

fn of_file(path: &Path) -> io::Result<Vec<u8>> {
    let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    let us = nix::unistd::geteuid().as_raw();
    if !metadata.is_file() || metadata.uid() != us {
        return Err(io::Error::other("it is no file of yours"));
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(io::Error::other("others can read it; chmod 600 it"));
    }
    let mut value = Vec::new();
    file.take(MAX_SECRET_BYTES + 1).read_to_end(&mut value)?;
    if value.len() as u64 > MAX_SECRET_BYTES {
        return Err(io::Error::other(format!("it is longer than {MAX_SECRET_BYTES} bytes")));
    }
    while value.last().is_some_and(u8::is_ascii_whitespace) {
        value.pop();
    }
    Ok(value)
}

/// Minimum length, in bytes, of an encoded form of a secret to search for.
const MIN_ENCODED_BYTES: usize = 8;

/// Placeholders for secrets during one call.
#[derive(Debug, Default)]
pub struct Placeholders {
    /// Secret names by placeholder.
    names: BTreeMap<String, String>,
    /// Values that were sent, each with its placeholder.
    left: Vec<(Vec<u8>, String)>,
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
        allowed: &BTreeMap<String, std::collections::BTreeSet<Origin>>,
        value: impl Fn(&str) -> Result<Option<Vec<u8>>, String>,
    ) -> Result<(Vec<u8>, bool), String> {
        let (mut filled, mut any) = (header.to_vec(), false);
        for (placeholder, name) in &self.names {
            if find(&filled, placeholder.as_bytes()).is_none()
                || !allowed.get(name).is_some_and(|places| places.contains(to))
            {
                continue;
            }
            let Some(secret) = value(name)? else { return Err(format!("the secret {name} is not set")) };
            filled = replace(&filled, placeholder.as_bytes(), &secret);
            any = true;
            if !self.left.iter().any(|(known, _)| *known == secret) {
                self.left.push((secret, placeholder.clone()));
            }
        }
        Ok((filled, any))
    }

    /// True when a secret was sent during this call.
    pub fn any_left(&self) -> bool {
        !self.left.is_empty()
    }

    /// Removes secrets from a response: as they are, in base64 also within a longer text, percent-encoded,
    /// and JSON-escaped. A server that receives a secret can encode it in ways that are not recognised here.
    pub fn scrub(&self, bytes: Vec<u8>) -> Vec<u8> {
        self.left.iter().fold(bytes, |bytes, (secret, placeholder)| {
            spellings(secret).iter().fold(bytes, |bytes, spelled| match find(&bytes, spelled) {
                Some(_) => replace(&bytes, spelled, placeholder.as_bytes()),
                None => bytes,
            })
        })
    }
}

/// Encoded forms of a value.
fn spellings(secret: &[u8]) -> Vec<Vec<u8>> {
    use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
    use std::fmt::Write;
    let mut percent = String::new();
    for byte in secret {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            percent.push(char::from(*byte));
        } else {
            let _ = write!(percent, "%{byte:02X}");
        }
    }
    let mut all = vec![
        secret.to_vec(),
        STANDARD_NO_PAD.encode(secret).into_bytes(),
        URL_SAFE_NO_PAD.encode(secret).into_bytes(),
        percent.to_ascii_lowercase().into_bytes(),
        percent.into_bytes(),
    ];
    // In JSON a `/` may be escaped or not.
    let text = String::from_utf8_lossy(secret);
    let quoted = serde_json::to_string(&text).unwrap_or_default();
    let quoted = quoted.trim_matches('"');
    all.push(quoted.as_bytes().to_vec());
    all.push(quoted.replace('/', "\\/").into_bytes());
    // Within a longer text, only the characters that depend on the secret alone.
    for before in 1..3 {
        let mut shifted = vec![0; before];
        shifted.extend_from_slice(secret);
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            let encoded = engine.encode(&shifted);
            // A very short secret has no such characters.
            let own = encoded.as_bytes().get(4..shifted.len() / 3 * 4).unwrap_or_default();
            all.push(own.to_vec());
        }
    }
    let whole = secret.len() / 3 * 4;
    all.push(STANDARD_NO_PAD.encode(secret).into_bytes()[..whole].to_vec());
    all.push(URL_SAFE_NO_PAD.encode(secret).into_bytes()[..whole].to_vec());
    // Shorter forms would match by chance.
    all.retain(|spelled| spelled.len() >= MIN_ENCODED_BYTES || spelled == secret);
    // Longest first, since a shorter form may be a prefix of it.
    all.sort_by_key(|spelled| std::cmp::Reverse(spelled.len()));
    all.dedup();
    all
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
    use std::collections::BTreeSet;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn secret_is_substituted_for_its_origin_only() {
        let (a, b): (Origin, Origin) = ("https://a.org".parse().unwrap(), "https://b.org".parse().unwrap());
        let allowed = BTreeMap::from([("T".to_owned(), BTreeSet::from([a.clone()]))]);
        let value = |_: &str| Ok(Some(b"s3cret/+value".to_vec()));
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
            let scrubbed = String::from_utf8(placeholders.scrub(back.as_bytes().to_vec())).unwrap();
            assert!(scrubbed.contains(&one) && !scrubbed.contains("s3cret"), "{scrubbed}");
        }
        for short in ["", "a", "ab", "abc", "\u{fc}"] {
            assert!(
                spellings(short.as_bytes())
                    .iter()
                    .all(|s| s.len() >= MIN_ENCODED_BYTES || s == short.as_bytes())
            );
        }
        // As part of a longer text, at any offset.
        for before in ["", "B", "Be", "Bearer "] {
            let encoded =
                base64::engine::general_purpose::STANDARD.encode(format!("{before}s3cret/+value and more"));
            let scrubbed = String::from_utf8(placeholders.scrub(encoded.clone().into_bytes())).unwrap();
            assert!(scrubbed.contains(&one), "{before}: {encoded}: {scrubbed}");
        }
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
        let read = || value("T", Some(dir.path()));
        assert_eq!(read(), Ok(None));
        std::fs::write(&file, "abc\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(read().unwrap_err().contains("chmod 600"));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(read(), Ok(Some(b"abc".to_vec())));
        std::fs::write(&file, vec![b'x'; 8192]).unwrap();
        assert_eq!(read().unwrap().unwrap().len(), 8192);
        std::fs::write(&file, vec![b'x'; 8193]).unwrap();
        assert!(read().unwrap_err().contains("longer than 8192 bytes"));
        std::fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &file).unwrap();
        assert!(read().is_err());
    }
}
