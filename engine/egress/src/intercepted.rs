//! Connections to hosts with a secret whose TLS ends here, with a certificate of the run's own authority.
//!
//! One host decides everything: that of CONNECT (or SOCKS, or a relay's name) is the one whose certificate is shown, that TLS has to
//! name, that `Host` has to name, whose addresses are checked, and to which a request is sent. Nothing is connected to before a request
//! was judged.

use std::io;
use std::sync::Arc;

use rustls::{AlertDescription, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::error::ConnectError;
use crate::host::Host;
use crate::http;
use crate::ledger::Operation;
use crate::proxy::Shared;
use crate::route::head::Authority;
use crate::route::tls::READ_BYTES;
use crate::stream::Input;
use crate::tunnel::{First, judged};

/// Why a client ended a handshake, for the report.
fn reason(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnsupportedCertificate,
        )) => "the program does not accept the certificate of this run: its client reads neither /etc/ssl/certs nor a \
               variable that is set; name /etc/ssl/certs/ca-certificates.crt in the client's own setting"
            .to_owned(),
        Some(rustls::Error::NoApplicationProtocol) => {
            "the program speaks neither HTTP/2 nor HTTP/1.1, which alone are intercepted".to_owned()
        }
        _ => format!("TLS with the program failed: {error}"),
    }
}

impl Shared {
    /// TLS for connections to a host that are intercepted; `None` for all others.
    pub(crate) fn intercepts(&self, host: &Host, port: u16) -> Option<Arc<ServerConfig>> {
        self.authority.as_ref().and_then(|authority| authority.tls(host, port))
    }

    /// Counts a request without TLS to a host that is intercepted.
    pub(crate) fn without_tls(&self, host: &Host, port: u16) -> ConnectError {
        let why = "a secret is for this host, and only sent over TLS; use https";
        self.deny(Operation::Http, &format!("{host}:{port}"), Some(why.to_owned()))
    }

    /// Serves a connection that a client opened to this host.
    pub(crate) async fn intercepted(
        self: &Arc<Self>,
        mut client: Input<impl AsyncRead + Unpin + Send>,
        mut back: impl AsyncWrite + Unpin + Send,
        tls: Arc<ServerConfig>,
        host: &Host,
        port: u16,
    ) -> io::Result<()> {
        let Host::Name(name) = host else { return Ok(()) };
        let target = format!("{host}:{port}");
        let Ok(first) = timeout(self.limits.head, judged(&mut client, host, port)).await else {
            return Ok(());
        };
        match first? {
            First::Tls(_) => {}
            First::Free if client.held().is_empty() => return Ok(()),
            First::Http | First::Free => {
                let error = self.without_tls(host, port);
                back.write_all(&http::refusal("400 Bad Request", &error.to_string())).await?;
                return back.shutdown().await;
            }
            First::Other(why) => {
                self.deny(Operation::Tls, &target, Some(why));
                return back.shutdown().await;
            }
        }
        let stream = tokio::io::join(BufReader::with_capacity(READ_BYTES, client.into_reader()), back);
        let accepting = TlsAcceptor::from(tls).accept(stream).into_fallible();
        let stream = match timeout(self.limits.connect, accepting).await {
            Ok(Ok(stream)) => stream,
            // The connection is closed after the report: a program that saw its end may end the run.
            Ok(Err((error, _open))) => {
                self.note(Operation::Tls, format!("{target} ({})", reason(&error)));
                return Ok(());
            }
            Err(_) => return Ok(()),
        };
        // The library's own reading of the name, which also covers a second first message.
        let named = stream.get_ref().1.server_name().map(|named| Host::parse(named.as_bytes()));
        if named != Some(Ok(host.clone())) {
            self.deny(Operation::Tls, &target, Some("its TLS names another server".to_owned()));
            return Ok(());
        }
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            return self.streams(stream, name, port).await;
        }
        let (from, back) = tokio::io::split(stream);
        self.routed(Input::new(from), back, Authority::Host(name, port)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_certificates_are_named() {
        let of = |error| reason(&io::Error::new(io::ErrorKind::InvalidData, error));
        for alert in [AlertDescription::UnknownCA, AlertDescription::CertificateUnknown] {
            assert!(of(rustls::Error::AlertReceived(alert)).contains("/etc/ssl/certs/ca-certificates.crt"));
        }
        assert!(of(rustls::Error::NoApplicationProtocol).contains("HTTP/1.1"));
        assert!(reason(&io::ErrorKind::UnexpectedEof.into()).starts_with("TLS with the program failed"));
    }
}
