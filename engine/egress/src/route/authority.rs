//! Certificate authority of one run, for the hosts of its secrets alone: made, used and forgotten before the run begins.
//!
//! The authority's certificate, which the program is to trust, stays, and a key and certificate for each host. The authority's
//! own key signs these and is dropped in the same function, so that it is neither in the sandbox nor in hotcell while the program runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, GeneralSubtree,
    IsCa, Issuer, KeyPair, KeyUsagePurpose, NameConstraints, PKCS_ECDSA_P256_SHA256, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::{Route, RouteError};
use crate::host::Host;

/// Common name of certificates of hosts, which differs from the authority's: OpenSSL takes a certificate whose issuer has its own name for
/// a self-signed one.
const HOST_SUBJECT: &str = "hotcell host";
/// Common name of the authority. In small letters, so that it is its own canonical form for [`HASH_LINK`].
const SUBJECT: &str = "hotcell run";
/// Name under which OpenSSL looks for the authority in a folder of certificates: the first four bytes of the SHA-1 of its canonical subject,
/// as a little-endian number, `X509_NAME_hash(3)`, and a counter.
pub const HASH_LINK: &str = "5550a242.0";
/// Time before now from which certificates are valid, for clocks that differ.
const BEFORE: Duration = Duration::from_secs(24 * 3600);
/// Time after now until which certificates are valid. A program that runs longer has to be started anew.
const VALID: Duration = Duration::from_secs(7 * 24 * 3600);

/// Certificates of one run. `Debug` and `Clone` leave keys out.
#[derive(Clone)]
pub struct RunAuthority(Arc<Inner>);

struct Inner {
    certificate: CertificateDer<'static>,
    /// TLS by host and port.
    hosts: BTreeMap<(String, u16), Arc<ServerConfig>>,
    /// Names of the routes that are intercepted.
    routes: BTreeSet<String>,
}

impl std::fmt::Debug for RunAuthority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RunAuthority({:?})", self.0.hosts.keys())
    }
}

impl RunAuthority {
    /// Makes an authority for the hosts of these routes, which is constrained to them, and a certificate for each.
    ///
    /// # Errors
    /// [`RouteError::Both`] when two routes are for the same host and prefix, [`RouteError::Tls`] when a key or certificate cannot be made.
    pub fn new<'r>(routes: impl IntoIterator<Item = &'r Route>) -> Result<Self, RouteError> {
        let routes: Vec<&Route> = routes.into_iter().collect();
        let mut seen = BTreeMap::new();
        for route in &routes {
            let binding = route.binding();
            if let Some(first) = seen.insert((&binding.host, binding.port, &binding.prefix), route.name()) {
                return Err(RouteError::Both(first.to_owned(), route.name().to_owned()));
            }
        }
        let names: BTreeSet<&str> = routes.iter().map(|route| route.binding().host.as_str()).collect();
        let failed = |e: rcgen::Error| RouteError::Tls(e.to_string());
        let (certificate, leaves) = certificates(&names).map_err(failed)?;
        let mut hosts = BTreeMap::new();
        for route in &routes {
            let binding = route.binding();
            let place = (binding.host.clone(), binding.port);
            if let Some((leaf, key)) = leaves.get(binding.host.as_str())
                && !hosts.contains_key(&place)
            {
                let config = config(leaf.clone(), key.clone_key()).map_err(RouteError::Tls)?;
                hosts.insert(place, config);
            }
        }
        let routes = routes.iter().map(|route| route.name().to_owned()).collect();
        Ok(Self(Arc::new(Inner { certificate, hosts, routes })))
    }

    /// The authority's certificate, DER.
    #[must_use]
    pub fn certificate(&self) -> &[u8] {
        &self.0.certificate
    }

    /// The authority's certificate, PEM (RFC 7468).
    #[must_use]
    pub fn pem(&self) -> String {
        const LINE: usize = 64;
        let text = STANDARD.encode(self.certificate());
        let lines = text.as_bytes().chunks(LINE).map(|line| String::from_utf8_lossy(line) + "\n");
        format!("-----BEGIN CERTIFICATE-----\n{}-----END CERTIFICATE-----\n", lines.collect::<String>())
    }

    /// TLS with which connections to a host are ended here; `None` for hosts that are not intercepted.
    pub(crate) fn tls(&self, host: &Host, port: u16) -> Option<Arc<ServerConfig>> {
        let Host::Name(name) = host else { return None };
        self.0.hosts.get(&(name.clone(), port)).cloned()
    }

    /// Whether a route's requests are also taken from intercepted connections.
    pub(crate) fn covers(&self, route: &Route) -> bool {
        self.0.routes.contains(route.name())
    }
}

/// A certificate and its key.
type Leaf = (CertificateDer<'static>, PrivateKeyDer<'static>);

/// An authority's certificate, and a certificate by it for each of these names.
fn certificates<'n>(
    names: &BTreeSet<&'n str>,
) -> Result<(CertificateDer<'static>, BTreeMap<&'n str, Leaf>), rcgen::Error> {
    let (certificate, issuer) = authority(names)?;
    let leaves = names.iter().map(|name| leaf(name, &issuer).map(|leaf| (*name, leaf)));
    Ok((certificate, leaves.collect::<Result<_, _>>()?))
}

/// An authority that is constrained to these names.
fn authority(
    names: &BTreeSet<&str>,
) -> Result<(CertificateDer<'static>, Issuer<'static, KeyPair>), rcgen::Error> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let mut params = lasting(Vec::new(), SUBJECT)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.name_constraints = Some(NameConstraints {
        permitted_subtrees: names.iter().map(|name| GeneralSubtree::DnsName((*name).to_owned())).collect(),
        excluded_subtrees: Vec::new(),
    });
    let certificate = params.self_signed(&key)?.der().clone();
    Ok((certificate, Issuer::new(params, key)))
}

fn leaf(name: &str, issuer: &Issuer<'_, KeyPair>) -> Result<Leaf, rcgen::Error> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let mut params = lasting(vec![name.to_owned()], HOST_SUBJECT)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let certificate = params.signed_by(&key, issuer)?.der().clone();
    Ok((certificate, PrivatePkcs8KeyDer::from(key.serialize_der()).into()))
}

/// Parameters with the validity of all certificates here.
fn lasting(names: Vec<String>, subject: &str) -> Result<CertificateParams, rcgen::Error> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut params = CertificateParams::new(names)?;
    let epoch = date_time_ymd(1970, 1, 1);
    params.not_before = epoch + now.saturating_sub(BEFORE);
    params.not_after = epoch + now + VALID;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, subject);
    Ok(params)
}

/// TLS with this certificate, for HTTP/2 and HTTP/1.1.
fn config(leaf: CertificateDer<'static>, key: PrivateKeyDer<'static>) -> Result<Arc<ServerConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|e| e.to_string())?.with_no_client_auth();
    let mut config = builder.with_single_cert(vec![leaf], key).map_err(|e| e.to_string())?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::rules::RequestRules;
    use crate::route::{Binding, Scheme};
    use crate::secret::Secret;
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection};

    fn route(name: &str, binding: &str) -> Route {
        let secret = Secret::new(b"t0p-s3cret/value".to_vec()).unwrap();
        let binding: Binding = binding.parse().unwrap();
        Route::new(name, binding, &Scheme::Bearer, &secret, RequestRules::default(), None).unwrap()
    }

    fn host(name: &str) -> Host {
        Host::parse(name.as_bytes()).unwrap()
    }

    /// Does a handshake in memory; returns the protocol that both chose.
    fn handshake(
        authority: &RunAuthority,
        config: Arc<ServerConfig>,
        name: &str,
        protocols: &[&str],
    ) -> Result<Option<Vec<u8>>, rustls::Error> {
        let mut roots = RootCertStore::empty();
        roots.add(authority.certificate().to_vec().into()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut client = client.unwrap().with_root_certificates(roots).with_no_client_auth();
        client.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
        let mut server = ServerConnection::new(config).unwrap();
        while client.is_handshaking() || server.is_handshaking() {
            let mut wire = Vec::new();
            client.write_tls(&mut wire).unwrap();
            server.read_tls(&mut wire.as_slice()).unwrap();
            server.process_new_packets()?;
            let mut wire = Vec::new();
            server.write_tls(&mut wire).unwrap();
            client.read_tls(&mut wire.as_slice()).unwrap();
            client.process_new_packets()?;
        }
        Ok(client.alpn_protocol().map(<[u8]>::to_vec))
    }

    #[test]
    fn certificates_are_for_their_hosts_alone() {
        let routes = [
            route("a", "api.test"),
            route("b", "api.test/v1"),
            route("c", "api.test:8443"),
            route("d", "other.test"),
        ];
        let authority = RunAuthority::new(&routes[..3]).unwrap();
        for (name, port, known) in [
            ("api.test", 443, true),
            ("API.test.", 443, true),
            ("api.test", 8443, true),
            ("api.test", 444, false),
            ("other.test", 443, false),
            ("x.api.test", 443, false),
            ("10.0.0.1", 443, false),
        ] {
            assert_eq!(authority.tls(&host(name), port).is_some(), known, "{name}:{port}");
        }
        assert!(authority.covers(&routes[1]) && !authority.covers(&routes[3]));
        let tls = authority.tls(&host("api.test"), 443).unwrap();
        let spoken =
            |name: &str, protocols: &[&str]| handshake(&authority, Arc::clone(&tls), name, protocols);
        assert_eq!(spoken("api.test", &["h2", "http/1.1"]), Ok(Some(b"h2".to_vec())));
        assert_eq!(spoken("api.test", &["http/1.1"]), Ok(Some(b"http/1.1".to_vec())));
        assert_eq!(spoken("api.test", &[]), Ok(None));
        assert!(spoken("api.test", &["spdy/3"]).is_err());
        assert!(spoken("other.test", &[]).is_err());
        // Another run's authority has another key.
        let second = RunAuthority::new([&routes[3]]).unwrap();
        let foreign = second.tls(&host("other.test"), 443).unwrap();
        assert!(handshake(&authority, foreign, "other.test", &[]).is_err());
        let debug = format!("{authority:?}");
        assert_eq!(debug, "RunAuthority([(\"api.test\", 443), (\"api.test\", 8443)])");
    }

    #[test]
    fn authority_signs_for_its_hosts_alone() {
        let (certificate, issuer) = authority(&BTreeSet::from(["api.test"])).unwrap();
        let inner = Inner { certificate, hosts: BTreeMap::new(), routes: BTreeSet::new() };
        let authority = RunAuthority(Arc::new(inner));
        for (name, good) in [("api.test", true), ("evil.test", false), ("notapi.test", false)] {
            let (leaf, key) = leaf(name, &issuer).unwrap();
            let spoken = handshake(&authority, config(leaf, key).unwrap(), name, &[]);
            assert_eq!(spoken.is_ok(), good, "{name}");
        }
    }

    #[test]
    fn two_secrets_for_the_same_requests_are_refused() {
        let (a, b) = (route("a", "api.test/v1"), route("b", "api.test:443/v1/"));
        let error = RunAuthority::new([&a, &b]).unwrap_err();
        assert!(
            matches!(&error, RouteError::Both(first, second) if (first.as_str(), second.as_str()) == ("a", "b"))
        );
    }

    #[test]
    fn pem_is_readable_and_its_hash_is_that_of_openssl() {
        let authority = RunAuthority::new([&route("a", "api.test")]).unwrap();
        let pem = authority.pem();
        assert!(pem.lines().all(|line| line.len() <= 64) && pem.ends_with("-----END CERTIFICATE-----\n"));
        // SET { SEQUENCE { commonName, UTF8String } }, without the SEQUENCE around it (x509_name_canon).
        let length = u8::try_from(SUBJECT.len()).unwrap();
        let canonical =
            [&[0x31, length + 9, 0x30, length + 7, 6, 3, 0x55, 4, 3, 12, length], SUBJECT.as_bytes()]
                .concat();
        let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, &canonical);
        let first: [u8; 4] = digest.as_ref()[..4].try_into().unwrap();
        assert_eq!(HASH_LINK, format!("{:08x}.0", u32::from_le_bytes(first)));
    }
}
