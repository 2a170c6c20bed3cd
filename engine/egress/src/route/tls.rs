//! TLS to the host of a route: who is trusted, and the connection.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::RouteError;

/// Maximum size of a file with root certificates, in bytes.
const MAX_ROOTS_BYTES: u64 = 4 << 20;

/// Memory for what is read from a connection at once: the library of TLS asks for 4 KiB each time, a quarter of a record.
pub(crate) const READ_BYTES: usize = 64 << 10;

/// TLS to a host.
pub(crate) type HostStream = TlsStream<BufReader<TcpStream>>;

/// Versions of HTTP that a host is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// HTTP/1.1 alone.
    One,
    /// HTTP/2, and HTTP/1.1 for hosts without it.
    Both,
}

/// TLS with the same roots, by what is offered.
#[derive(Clone, Debug)]
struct Configs {
    one: Arc<ClientConfig>,
    both: Arc<ClientConfig>,
}

/// Root certificates for one host.
#[derive(Debug)]
pub struct Trust {
    /// Those of a file; the system's are read at the first request, since reading them takes milliseconds.
    made: OnceLock<Result<Configs, String>>,
}

impl Trust {
    /// The system's root certificates.
    pub const fn system() -> Self {
        Self { made: OnceLock::new() }
    }

    /// Those of a PEM file, and no others.
    pub fn of_file(path: &Path) -> Result<Self, RouteError> {
        let bad = |why: String| RouteError::Roots { path: path.to_owned(), why };
        let metadata = std::fs::metadata(path).map_err(|e| bad(e.to_string()))?;
        if !metadata.is_file() || metadata.len() > MAX_ROOTS_BYTES {
            return Err(bad(format!("it is not a file of at most {} MiB", MAX_ROOTS_BYTES >> 20)));
        }
        let certificates = CertificateDer::pem_file_iter(path).map_err(|e| bad(e.to_string()))?;
        let mut roots = RootCertStore::empty();
        for certificate in certificates {
            let certificate = certificate.map_err(|e| bad(e.to_string()))?;
            roots.add(certificate).map_err(|e| bad(e.to_string()))?;
        }
        if roots.is_empty() {
            return Err(bad(
                "it has no certificate; write one that begins with -----BEGIN CERTIFICATE-----".to_owned()
            ));
        }
        let config = config(roots).map_err(RouteError::Tls)?;
        Ok(Self { made: OnceLock::from(Ok(config)) })
    }

    fn get(&self, offer: Offer) -> Result<Arc<ClientConfig>, String> {
        let configs = self.made.get_or_init(of_system).clone()?;
        Ok(match offer {
            Offer::One => configs.one,
            Offer::Both => configs.both,
        })
    }

    /// Opens TLS over a connection to this host, for HTTP/1.1.
    ///
    /// # Errors
    /// A sentence, when the host does not speak TLS or its certificate is not accepted.
    pub async fn connect(&self, stream: TcpStream, host: &str) -> Result<HostStream, String> {
        self.connect_for(stream, host, Offer::One).await
    }

    /// Opens TLS over a connection to this host, for these versions of HTTP.
    ///
    /// # Errors
    /// As for [`Trust::connect`].
    pub(crate) async fn connect_for(
        &self,
        stream: TcpStream,
        host: &str,
        offer: Offer,
    ) -> Result<HostStream, String> {
        let config = self.get(offer)?;
        let name = ServerName::try_from(host.to_owned()).map_err(|e| e.to_string())?;
        TlsConnector::from(config)
            .connect(name, BufReader::with_capacity(READ_BYTES, stream))
            .await
            .map_err(|e| format!("TLS failed: {e}"))
    }
}

fn of_system() -> Result<Configs, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(
            "this host has no root certificates; install ca-certificates, or name a file with ca".to_owned()
        );
    }
    config(roots)
}

fn config(roots: RootCertStore) -> Result<Configs, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut one = builder.map_err(|e| e.to_string())?.with_root_certificates(roots).with_no_client_auth();
    one.alpn_protocols = vec![b"http/1.1".to_vec()];
    let mut both = one.clone();
    both.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Configs { one: Arc::new(one), both: Arc::new(both) })
}
