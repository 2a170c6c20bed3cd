//! Certificates for one test: an authority, a server by the name of localhost, a client.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, PKCS_ED25519};
use tonic::transport::{Certificate, Identity, ServerTlsConfig};

/// Certificates and keys in PEM form.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// Certificate of the authority.
    pub ca: String,
    /// Certificate of the server.
    pub server: String,
    /// Key of the server.
    pub server_key: String,
    /// Certificate of a client.
    pub client: String,
    /// Key of the client.
    pub client_key: String,
}

impl Certificates {
    /// Makes new ones; the server's is for this name.
    ///
    /// # Panics
    /// When a key cannot be made.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let key = || KeyPair::generate_for(&PKCS_ED25519).expect("there are random bytes");
        let params = |name: &str| CertificateParams::new(vec![name.to_owned()]).expect("the name is one");
        let ca_key = key();
        let mut ca = params("authority.test");
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca_certificate = ca.self_signed(&ca_key).expect("the authority signs itself");
        let issuer = Issuer::new(ca, &ca_key);
        let made = |name: &str| {
            let own = key();
            let certificate = params(name).signed_by(&own, &issuer).expect("the authority signs");
            (pem("CERTIFICATE", certificate.der()), pem("PRIVATE KEY", &own.serialize_der()))
        };
        let (server, server_key) = made(name);
        let (client, client_key) = made("client.test");
        Self { ca: pem("CERTIFICATE", ca_certificate.der()), server, server_key, client, client_key }
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
}

/// TLS of a farm.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Its certificates.
    pub certificates: Certificates,
    /// Clients have to show a certificate of the authority.
    pub mutual: bool,
}

impl Tls {
    pub(crate) fn server(&self) -> ServerTlsConfig {
        let Certificates { ca, server, server_key, .. } = &self.certificates;
        let config = ServerTlsConfig::new().identity(Identity::from_pem(server, server_key));
        if self.mutual { config.client_ca_root(Certificate::from_pem(ca)) } else { config }
    }
}
