//! Secrets that plugins use unseen: where they are stored, their placeholders, and where they are inserted
//! and removed again. Values are read, held and masked by `hotcell-egress`, as those of runs.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use hotcell_config::{Configuration, SECRET, SecretDefinition};
use hotcell_egress::redact::{MIN_REDACTED_BYTES, Spellings};
use hotcell_egress::route::Scheme;
use hotcell_egress::route::table::{Asking, Entry, Values};
use hotcell_egress::{Secret, SecretError, SecretSource, Way};
use hotcell_tools::Origin;
use hotcell_tools::ask::Blob;
use reqwest::Url;

/// Prefix of a placeholder.
const PREFIX: &str = "hotcell-secret-";
/// Maximum number of placeholders per call.
const MAX_PLACEHOLDERS: usize = 64;

/// Values for one request, by name; `None` for secrets that are not set.
pub type Granted = BTreeMap<String, Result<Option<Arc<Secret>>, String>>;

/// Secrets that plugins may be granted: those of the operator's table `[secrets.NAME]`, and of the older places.
#[derive(Debug, Default)]
pub struct Table {
    values: Values,
    /// Names that a warning was given for.
    warned: Mutex<BTreeSet<String>>,
}

/// The operator's definitions, and the folder of the configuration, as they are now.
#[derive(Clone, Debug)]
pub struct Defined {
    secrets: BTreeMap<String, SecretDefinition>,
    home: Option<PathBuf>,
}

impl Defined {
    /// Those of a configuration.
    pub fn of(configuration: &Configuration) -> Self {
        Self { secrets: configuration.user.run.secrets.defined.clone(), home: configuration.home.clone() }
    }

    /// The definition of a secret, as far as plugins can use it.
    fn entry(&self, name: &str) -> Result<Option<Entry>, String> {
        let Some(definition) = self.secrets.get(name) else { return Ok(None) };
        if matches!(definition.scheme, Scheme::AwsSigV4(_)) {
            return Err(format!("the secret {name} signs requests to AWS, which plugins cannot use"));
        }
        let (binding, rules) = (definition.binding.clone(), definition.rules.clone());
        Ok(Some(Entry { supply: definition.supply(Arc::new(Way::default())), binding, rules }))
    }
}

impl Table {
    /// The value of a secret. Blocks for 20 s at most.
    ///
    /// # Errors
    /// A sentence, when its source gives none, or one that cannot be sent or masked.
    pub fn value(&self, name: &str, defined: &Defined) -> Result<Option<Arc<Secret>>, String> {
        if let Some(entry) = defined.entry(name)? {
            return self.values.value(name, &entry).map(Some);
        }
        let secret = value(name, defined.home.as_deref())?;
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if secret.is_some() && warned.insert(name.to_owned()) {
            tracing::warn!(
                "the secret {name} of plugins is read from HOTCELL_{SECRET}{name} or the file secrets/{name}, without rules for its \
                 requests: define [secrets.{name}] with source and host in your configuration instead"
            );
        }
        Ok(secret.map(Arc::new))
    }

    /// The values of these secrets for one request, each judged by the rules of its definition. Blocks.
    pub fn for_request(
        &self,
        names: BTreeSet<String>,
        defined: &Defined,
        method: &str,
        url: &Url,
        length: usize,
    ) -> Granted {
        let one = |name: &str| {
            if let Some(entry) = defined.entry(name)? {
                let asking = Asking {
                    is_tls: url.scheme() == "https",
                    host: url.host_str().unwrap_or_default(),
                    port: url.port_or_known_default().unwrap_or_default(),
                    method,
                    path: url.path(),
                    length: length as u64,
                };
                entry.judge(asking).map_err(|why| format!("the secret {name}: {why}"))?;
                self.values.count(name, &entry)?;
            }
            self.value(name, defined)
        };
        names.into_iter().map(|name| (name.clone(), one(&name))).collect()
    }

    /// Forgets all values, since the configuration was read anew.
    pub fn clear(&self) {
        self.values.clear();
    }
}

/// A secret's value in the older places: the variable `HOTCELL_SECRET_NAME`, else the file `secrets/NAME` in the configuration's
/// folder.
///
/// # Errors
/// A sentence, when others can read the file, it is not a regular file, or the value cannot be sent or masked.
fn value(name: &str, home: Option<&Path>) -> Result<Option<Secret>, String> {
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
        value: impl Fn(&str) -> Result<Option<Arc<Secret>>, String>,
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

    /// Names of the secrets whose placeholders are in these headers, and that `to` may receive.
    pub fn named(
        &self,
        headers: &[(String, Blob)],
        to: &Origin,
        allowed: &BTreeMap<String, BTreeSet<Origin>>,
    ) -> BTreeSet<String> {
        let there = |placeholder: &str| {
            headers.iter().any(|(_, text)| find(&text.0, placeholder.as_bytes()).is_some())
        };
        let may = |name: &str| allowed.get(name).is_some_and(|places| places.contains(to));
        let names = self.names.iter().filter(|(placeholder, name)| may(name) && there(placeholder));
        names.map(|(_, name)| name.clone()).collect()
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
        let value = |_: &str| Ok(Some(Arc::new(Secret::new(b"s3cret/+value".to_vec()).unwrap())));
        let mut placeholders = Placeholders::default();
        let one = placeholders.give("T").unwrap();
        assert_eq!(placeholders.give("T").unwrap(), one);
        let headers = [("x".to_owned(), Blob(one.clone().into_bytes()))];
        assert!(placeholders.named(&headers, &b, &allowed).is_empty());
        assert_eq!(placeholders.named(&headers, &a, &allowed), BTreeSet::from(["T".to_owned()]));
        assert!(placeholders.named(&[], &a, &allowed).is_empty());
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
    fn operators_table_decides_where_a_secret_may_go() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        std::fs::write(&file, "abc-defg\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::create_dir(dir.path().join("secrets")).unwrap();
        for name in ["GH", "OLD"] {
            let old = dir.path().join("secrets").join(name);
            std::fs::write(&old, "old-value\n").unwrap();
            std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        let option = format!("GH=file:{}@api.test/v1", file.display());
        let keys = "AWS=env:HOTCELL_NO_SUCH@s3.eu-central-1.amazonaws.com";
        let options: Vec<hotcell_config::SecretOption> =
            [option.as_str(), keys].iter().map(|text| text.parse().unwrap()).collect();
        let secrets = hotcell_config::SecretSettings::of_options(&options, false, false).defined;
        let defined = Defined { secrets, home: Some(dir.path().to_owned()) };
        let table = Table::default();
        let ask = |name: &str, url: &str| {
            let names = BTreeSet::from([name.to_owned()]);
            let all = table.for_request(names, &defined, "GET", &url.parse().unwrap(), 0);
            all[name].clone().map(|secret| secret.map(|secret| secret.expose().to_vec()))
        };
        for (name, url, want) in [
            ("GH", "https://api.test/v1/x", Ok(Some(&b"abc-defg"[..]))),
            ("GH", "https://api.test/v2", Err("below /v1")),
            ("GH", "https://api.test:8443/v1/x", Err("it is for api.test")),
            ("GH", "https://evil.test/v1/x", Err("it is for api.test")),
            ("GH", "http://api.test/v1/x", Err("TLS")),
            ("AWS", "https://s3.eu-central-1.amazonaws.com/", Err("plugins cannot use")),
            // The older places have no rules.
            ("OLD", "https://evil.test/", Ok(Some(b"old-value"))),
            ("NONE", "https://evil.test/", Ok(None)),
        ] {
            match (ask(name, url), want) {
                (Ok(got), Ok(want)) => assert_eq!(got.as_deref(), want, "{name} {url}"),
                (Err(why), Err(word)) => {
                    assert!(why.contains(word) && !why.contains("abc"), "{name} {url}: {why}");
                }
                (got, want) => panic!("{name} {url}: {got:?} {want:?}"),
            }
        }
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
