//! TLS to the host of a route: who is trusted, and the connection.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::RouteError;

/// Maximum size of a file with root certificates, in bytes.
const MAX_ROOTS_BYTES: u64 = 4 << 20;

/// Root certificates for one host.
#[derive(Debug)]
pub struct Trust {
    /// Those of a file; the system's are read at the first request, since reading them takes milliseconds.
    made: OnceLock<Result<Arc<ClientConfig>, String>>,
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

    fn get(&self) -> Result<Arc<ClientConfig>, String> {
        self.made.get_or_init(of_system).clone()
    }

    /// Opens TLS over a connection to this host.
    ///
    /// # Errors
    /// A sentence, when the host does not speak TLS or its certificate is not accepted.
    pub async fn connect(&self, stream: TcpStream, host: &str) -> Result<TlsStream<TcpStream>, String> {
        let config = self.get()?;
        let name = ServerName::try_from(host.to_owned()).map_err(|e| e.to_string())?;
        TlsConnector::from(config).connect(name, stream).await.map_err(|e| format!("TLS failed: {e}"))
    }
}

fn of_system() -> Result<Arc<ClientConfig>, String> {
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

/// HTTP/1.1 is the one protocol that is offered.
fn config(roots: RootCertStore) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = builder.map_err(|e| e.to_string())?.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
