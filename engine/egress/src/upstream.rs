//! The operator's own proxy: connections to hosts that are looked up go through it, by CONNECT.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use zeroize::Zeroizing;

use crate::host::Host;
use crate::http::MAX_HEAD_BYTES;
use crate::secret::Secret;

/// A proxy that the operator names. Cheap to clone; `Debug` leaves the credential out.
#[derive(Clone)]
pub struct Upstream(Arc<Inner>);

struct Inner {
    host: String,
    port: u16,
    /// Value of `Proxy-Authorization`.
    credential: Option<Zeroizing<Vec<u8>>>,
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Upstream({self})")
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0.host, self.0.port)
    }
}

/// Checks the place of a proxy, `HOST:PORT`.
///
/// # Errors
/// A sentence for a URL with anything but `http://`, a missing port, or a host that is not one.
pub fn check_place(text: &str) -> Result<(String, u16), String> {
    let form = "write HOST:PORT of an HTTP proxy, such as proxy.example.com:3128";
    let place = text.strip_prefix("http://").unwrap_or(text);
    let place = place.strip_suffix('/').unwrap_or(place);
    if place.contains("://") {
        return Err(format!("{text:?}: only proxies that are reached without TLS are supported; {form}"));
    }
    if place.contains('@') {
        return Err(format!("a credential does not stand here, but in upstream_proxy_auth; {form}"));
    }
    match Host::parse_with_port(place.as_bytes()) {
        Ok((host, Some(port))) => Ok((host.to_string(), port)),
        Ok((_, None)) => Err(format!("{text:?} names no port; {form}")),
        Err(why) => Err(format!("{text:?}: {why}; {form}")),
    }
}

impl Upstream {
    /// A proxy at `HOST:PORT`, with a credential `USER:PASSWORD` if it wants one.
    ///
    /// # Errors
    /// A sentence when the place or the credential has another form.
    pub fn new(place: &str, credential: Option<&Secret>) -> Result<Self, String> {
        let (host, port) = check_place(place)?;
        let credential = match credential.map(Secret::expose) {
            Some(value) if !value.contains(&b':') => {
                return Err(
                    "the credential of the upstream proxy has no colon: it is USER:PASSWORD".to_owned()
                );
            }
            Some(value) => {
                let encoded = Zeroizing::new(STANDARD.encode(value));
                Some(Zeroizing::new([b"Basic ", encoded.as_bytes()].concat()))
            }
            None => None,
        };
        Ok(Self(Arc::new(Inner { host, port, credential })))
    }

    /// Opens a tunnel to a host.
    ///
    /// # Errors
    /// A sentence, when the proxy is not reached within this time, or does not open the tunnel.
    pub(crate) async fn open(&self, name: &str, port: u16, within: Duration) -> Result<TcpStream, String> {
        let opened = timeout(within, self.asked(name, port)).await;
        opened.map_err(|_| format!("the upstream proxy {self} did not answer in time"))?
    }

    async fn asked(&self, name: &str, port: u16) -> Result<TcpStream, String> {
        let failed = |e: std::io::Error| format!("the upstream proxy {self} is not reached: {e}");
        let host = self.0.host.trim_start_matches('[').trim_end_matches(']');
        let mut stream = TcpStream::connect((host, self.0.port)).await.map_err(failed)?;
        let _ = stream.set_nodelay(true);
        let mut head = Zeroizing::new(Vec::with_capacity(MAX_HEAD_BYTES));
        head.extend_from_slice(
            format!("CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n").as_bytes(),
        );
        if let Some(credential) = &self.0.credential {
            for part in [&b"Proxy-Authorization: "[..], credential.as_slice(), b"\r\n"] {
                head.extend_from_slice(part);
            }
        }
        head.extend_from_slice(b"\r\n");
        stream.write_all(&head).await.map_err(failed)?;
        // Byte by byte: what follows the answer's head is the host's.
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            if answer.len() >= MAX_HEAD_BYTES {
                return Err(format!("the upstream proxy {self} sent no answer of HTTP/1"));
            }
            match stream.read_u8().await {
                Ok(byte) => answer.push(byte),
                Err(_) => {
                    return Err(format!("the upstream proxy {self} ended the connection without an answer"));
                }
            }
        }
        match status(&answer) {
            Some(200..=299) => Ok(stream),
            Some(407) => Err(format!(
                "the upstream proxy {self} wants another credential (407); name its source in upstream_proxy_auth"
            )),
            Some(code) => Err(format!("the upstream proxy {self} does not open it: it answered {code}")),
            None => Err(format!("the upstream proxy {self} sent no answer of HTTP/1")),
        }
    }
}

/// Status of an answer's head.
fn status(head: &[u8]) -> Option<u16> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut headers);
    matches!(response.parse(head), Ok(httparse::Status::Complete(_))).then_some(response.code).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_hosts_with_ports() {
        for (text, want) in [
            ("proxy.test:3128", "proxy.test:3128"),
            ("http://proxy.test:3128/", "proxy.test:3128"),
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("[::1]:8080", "[::1]:8080"),
        ] {
            assert_eq!(Upstream::new(text, None).unwrap().to_string(), want);
        }
        for (text, word) in [
            ("proxy.test", "names no port"),
            ("https://proxy.test:443", "without TLS"),
            ("socks5://proxy.test:1080", "without TLS"),
            ("me:pw@proxy.test:3128", "upstream_proxy_auth"),
            ("", "HOST:PORT"),
            ("a b:1", "HOST:PORT"),
        ] {
            let error = Upstream::new(text, None).unwrap_err();
            assert!(error.contains(word) && !error.contains("pw"), "{text}: {error}");
        }
    }

    #[test]
    fn credential_is_user_and_password_and_not_shown() {
        let secret = |text: &str| Secret::new(text.as_bytes().to_vec()).unwrap();
        let upstream = Upstream::new("proxy.test:1", Some(&secret("me:pass-word"))).unwrap();
        assert!(!format!("{upstream:?} {upstream}").contains("pass"), "{upstream:?}");
        assert!(
            Upstream::new("proxy.test:1", Some(&secret("pass-word"))).unwrap_err().contains("USER:PASSWORD")
        );
    }

    #[test]
    fn statuses_are_read() {
        for (head, want) in [
            ("HTTP/1.1 200 Connection established\r\n\r\n", Some(200)),
            ("HTTP/1.0 407 x\r\nProxy-Authenticate: Basic\r\n\r\n", Some(407)),
            ("SSH-2.0-x\r\n\r\n", None),
        ] {
            assert_eq!(status(head.as_bytes()), want, "{head}");
        }
    }
}
