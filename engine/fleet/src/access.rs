//! How a farm is reached: TLS, the certificate that this machine shows, the bearer token. Files and sources are named here; their values stay in
//! this module and [`crate::wire`].

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use hotcell_egress::program::ValueSource;
use hotcell_egress::secret::{Secret, SecretSource};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tonic::Status;
use tonic::metadata::MetadataValue;
use tonic::transport::{ClientTlsConfig, Identity};
use zeroize::Zeroizing;

use crate::error::FleetError;

/// Maximum size of a PEM file, in bytes: the roots of a Linux distribution are 0.2 MB.
const MAX_PEM: u64 = 4 << 20;
/// Time limit of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Age at which a token of a file or a program is read again: tokens of Kubernetes are replaced long before they expire.
const MAX_AGE: Duration = Duration::from_secs(60);
/// Time before its end at which a token is replaced.
const MARGIN: Duration = Duration::from_secs(30);

/// Credentials for a farm, by their places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Root certificates (PEM); without it, those of the system.
    pub ca: Option<PathBuf>,
    /// Certificate (PEM) that this machine shows.
    pub certificate: Option<PathBuf>,
    /// Private key (PEM) of the certificate.
    pub key: Option<PathBuf>,
    /// Source of the bearer token.
    pub token: Option<ValueSource>,
}

impl Access {
    /// The credentials of `[fleet]`.
    #[must_use]
    pub fn from_settings(fleet: &hotcell_config::FleetSettings) -> Self {
        Self {
            ca: fleet.ca.clone(),
            certificate: fleet.certificate.clone(),
            key: fleet.key.clone(),
            token: fleet.token.clone(),
        }
    }

    /// Settings for TLS.
    ///
    /// # Errors
    /// [`FleetError`] of a wrong request, with the file that cannot be used.
    pub(crate) fn tls(&self) -> Result<ClientTlsConfig, FleetError> {
        let mut roots = RootCertStore::empty();
        match &self.ca {
            Some(path) => {
                for certificate in certificates(path, &read(path, false)?)? {
                    roots.add(certificate).map_err(|e| unusable(path, &e.to_string()))?;
                }
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                if roots.is_empty() {
                    return Err(FleetError::request(
                        "this host has no root certificates; install ca-certificates, or name the farm's with ‹farm_ca›",
                    ));
                }
            }
        }
        let mut tls = ClientTlsConfig::new().trust_anchors(roots.roots).timeout(HANDSHAKE_TIMEOUT);
        match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                let chain = read(certificate, false)?;
                certificates(certificate, &chain)?;
                let secret = read(key, true)?;
                if PrivateKeyDer::from_pem_slice(&secret).is_err() {
                    return Err(unusable(
                        key,
                        "it has no private key; write one that begins with -----BEGIN PRIVATE KEY-----",
                    ));
                }
                tls = tls.identity(Identity::from_pem(chain.as_slice(), secret.as_slice()));
            }
            (None, None) => {}
            _ => {
                return Err(FleetError::request(
                    "a certificate and its key are given together: ‹farm_cert› and ‹farm_key›",
                ));
            }
        }
        Ok(tls)
    }
}

fn unusable(path: &Path, why: &str) -> FleetError {
    FleetError::request(format!("{}: {why}", path.display()))
}

fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, FleetError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        _ => Err(unusable(
            path,
            "it has no certificate; write one that begins with -----BEGIN CERTIFICATE-----",
        )),
    }
}

/// A regular file; with `private`, one that only its owner can read.
fn read(path: &Path, private: bool) -> Result<Zeroizing<Vec<u8>>, FleetError> {
    let failed = |e: io::Error| unusable(path, &e.to_string());
    let metadata = std::fs::metadata(path).map_err(failed)?;
    if !metadata.is_file() || metadata.len() > MAX_PEM {
        return Err(unusable(path, "it is not a file of at most 4 MiB"));
    }
    if private && metadata.mode() & 0o077 != 0 {
        return Err(unusable(path, "others can read it; chmod 600 it"));
    }
    let mut bytes = Zeroizing::new(Vec::new());
    File::open(path).and_then(|file| file.take(MAX_PEM).read_to_end(&mut bytes)).map_err(failed)?;
    Ok(bytes)
}

/// The bearer token of a farm, read when it is first needed and again before it ends.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    source: ValueSource,
    held: Arc<Mutex<Option<Held>>>,
}

#[derive(Debug)]
struct Held {
    secret: Secret,
    read: Instant,
    expires_at: Option<SystemTime>,
}

impl Token {
    pub(crate) fn new(source: ValueSource) -> Self {
        Self { source, held: Arc::default() }
    }

    /// The header's value.
    ///
    /// # Errors
    /// A status, which names the source and never the value.
    pub(crate) async fn header(&self) -> Result<MetadataValue<tonic::metadata::Ascii>, Status> {
        if let Some(value) = self.fresh() {
            return value;
        }
        let source = self.source.clone();
        let fetched = tokio::task::spawn_blocking(move || source.fetch()).await;
        let failed = |why: String| Status::unauthenticated(format!("{SOURCE}: {}: {why}", self.source));
        let fetched = fetched.map_err(|e| failed(e.to_string()))?.map_err(|e| failed(e.to_string()))?;
        let value = header(&fetched.secret);
        let held = Held { secret: fetched.secret, read: Instant::now(), expires_at: fetched.expires_at };
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = Some(held);
        value
    }

    fn fresh(&self) -> Option<Result<MetadataValue<tonic::metadata::Ascii>, Status>> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let held = held.as_ref()?;
        is_fresh(&self.source, held.read.elapsed(), held.expires_at, SystemTime::now())
            .then(|| header(&held.secret))
    }
}

/// Beginning of the message when the token's source fails.
pub(crate) const SOURCE: &str = "the token's source";

/// Whether a token that was read this long ago is still used. A descriptor can be read once only, and a variable does not change.
fn is_fresh(source: &ValueSource, age: Duration, expires_at: Option<SystemTime>, now: SystemTime) -> bool {
    match (source, expires_at) {
        (ValueSource::Read(SecretSource::Fd(_) | SecretSource::Env(_)), _) => true,
        (_, Some(end)) => now + MARGIN < end,
        (_, None) => age < MAX_AGE,
    }
}

fn header(secret: &Secret) -> Result<MetadataValue<tonic::metadata::Ascii>, Status> {
    let mut text = Zeroizing::new(b"Bearer ".to_vec());
    text.extend_from_slice(secret.expose());
    let mut value = MetadataValue::try_from(text.as_slice())
        .map_err(|_| Status::unauthenticated(format!("{SOURCE}: the value is not one for a header")))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use base64::Engine;

    use super::*;

    #[test]
    fn tokens_are_read_again_before_they_end() {
        let now = SystemTime::now();
        let in_ = |s| Some(now + Duration::from_secs(s));
        for (source, age, expires, want) in [
            ("file:/t", 5, None, true),
            ("file:/t", 61, None, false),
            ("exec:/t", 3000, in_(60), true),
            ("exec:/t", 1, in_(20), false),
            ("fd:3", 3000, None, true),
            ("env:T", 3000, None, true),
        ] {
            let is = is_fresh(&source.parse().unwrap(), Duration::from_secs(age), expires, now);
            assert_eq!(is, want, "{source} {age}");
        }
    }

    #[test]
    fn files_that_cannot_be_used_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate =
            rcgen::CertificateParams::new(vec!["farm".to_owned()]).unwrap().self_signed(&key).unwrap();
        let pem = |label: &str, der: &[u8]| {
            let text = base64::engine::general_purpose::STANDARD.encode(der);
            format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
        };
        std::fs::write(at("c.pem"), pem("CERTIFICATE", certificate.der())).unwrap();
        std::fs::write(at("k.pem"), pem("PRIVATE KEY", &key.serialize_der())).unwrap();
        std::fs::write(at("empty"), "").unwrap();
        let with = |ca: &str, certificate: Option<&str>, key: Option<&str>| {
            let access =
                Access { ca: Some(at(ca)), certificate: certificate.map(at), key: key.map(at), token: None };
            access.tls().map(drop).map_err(|e| e.message)
        };
        std::fs::set_permissions(at("k.pem"), PermissionsExt::from_mode(0o644)).unwrap();
        assert!(with("c.pem", Some("c.pem"), Some("k.pem")).unwrap_err().contains("chmod 600"));
        std::fs::set_permissions(at("k.pem"), PermissionsExt::from_mode(0o600)).unwrap();
        with("c.pem", Some("c.pem"), Some("k.pem")).unwrap();
        assert!(with("empty", None, None).unwrap_err().contains("no certificate"));
        assert!(with("none", None, None).unwrap_err().contains("none"));
        assert!(with("c.pem", Some("k.pem"), Some("k.pem")).unwrap_err().contains("no certificate"));
        assert!(with("c.pem", Some("c.pem"), None).unwrap_err().contains("‹farm_key›"));
        std::fs::set_permissions(at("c.pem"), PermissionsExt::from_mode(0o600)).unwrap();
        assert!(with("c.pem", Some("c.pem"), Some("c.pem")).unwrap_err().contains("no private key"));
    }

    #[tokio::test]
    async fn token_is_never_shown() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("t");
        std::fs::write(&file, "s3cr3t\n").unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
        let token = Token::new(format!("file:{}", file.display()).parse().unwrap());
        let value = token.header().await.unwrap();
        assert_eq!(value.as_bytes(), b"Bearer s3cr3t");
        assert!(!format!("{token:?} {value:?}").contains("s3cr3t"));
        let missing = Token::new("env:HOTCELL_NO_SUCH".parse().unwrap());
        let error = missing.header().await.unwrap_err();
        assert!(error.message().contains("env:HOTCELL_NO_SUCH"), "{error}");
    }
}
