//! Addresses of HTTP servers: which are used, and which redirects are followed. The decisions are pure.

use std::fmt;
use std::sync::Arc;

use hotcell_egress::secret::Secret;
use reqwest::Url;
use sha2::{Digest, Sha256};

use crate::error::{ClientError, foreign};

/// Maximum number of redirects.
const MAX_REDIRECTS: usize = 3;

/// An address of a server, and the bearer token for its origin.
#[derive(Clone)]
pub struct Endpoint {
    url: Url,
    token: Option<Arc<Secret>>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("url", &self.url.as_str()).field("token", &self.token).finish()
    }
}

impl Endpoint {
    /// An address: `https` or `wss`, or `http` and `ws` on this machine.
    ///
    /// # Errors
    /// [`ClientError::Endpoint`] for other schemes, plain `http` to another machine, and addresses with a user, a password or a fragment.
    pub fn new(address: &str) -> Result<Self, ClientError> {
        let wrong = |why: &str| ClientError::Endpoint(format!("{}: {why}", foreign(address)));
        let url = Url::parse(address).map_err(|e| wrong(&format!("not an address: {e}")))?;
        let named = ClientError::Endpoint(
            "the address has a user or a password in it; tokens are given apart".to_owned(),
        );
        match url.scheme() {
            _ if !url.username().is_empty() || url.password().is_some() => Err(named),
            _ if url.fragment().is_some() => Err(wrong("a server's address has no fragment (#)")),
            "https" | "wss" => Ok(Self { url, token: None }),
            "http" | "ws" if is_loopback(&url) => Ok(Self { url, token: None }),
            "http" => Err(wrong("plain http is used on this machine only; use https")),
            "ws" => Err(wrong("plain ws is used on this machine only; use wss")),
            _ => Err(wrong("neither https nor http, wss nor ws")),
        }
    }

    /// Sends a bearer token with each request to this origin.
    #[must_use]
    pub fn token(mut self, token: Secret) -> Self {
        self.token = Some(Arc::new(token));
        self
    }

    /// Whether the server is reached over WebSocket.
    #[must_use]
    pub fn is_web_socket(&self) -> bool {
        matches!(self.url.scheme(), "ws" | "wss")
    }

    /// The address.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Token for an address: only for this endpoint's own origin.
    pub(crate) fn token_for(&self, address: &str) -> Option<&Secret> {
        let url = Url::parse(address).ok()?;
        self.token.as_deref().filter(|_| url.origin() == self.url.origin())
    }

    /// Key of a pool: the address, and a digest of the token, from which it cannot be found.
    pub(crate) fn key(&self) -> String {
        let token = self.token.as_ref().map(|token| Sha256::digest(token.expose()));
        let token: String = token.iter().flatten().map(|byte| format!("{byte:02x}")).collect();
        format!("{}:{token}", self.url)
    }
}

/// Whether an address is on this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Whether a redirect is followed. Only 307 and 308 keep the method and the body of a request; another origin is another server.
pub(crate) fn redirect(from: &Url, to: &Url, status: u16, before: usize) -> Result<(), String> {
    let address = foreign(to.as_str());
    if to.origin() != from.origin() {
        return Err(format!("redirected to another origin, which is not followed: {address}"));
    }
    if !matches!(status, 307 | 308) {
        return Err(format!("answered with status {status} and the address {address}; use that address"));
    }
    if before > MAX_REDIRECTS {
        return Err(format!("redirected more than {MAX_REDIRECTS} times"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_https_or_on_this_machine() {
        for (address, says) in [
            ("https://example.com/mcp", None),
            ("http://127.0.0.1:8000/mcp", None),
            ("http://127.9.9.9/", None),
            ("http://[::1]:1/mcp", None),
            ("http://localhost:3000/mcp", None),
            ("wss://example.com/mcp", None),
            ("ws://127.0.0.1:8000/mcp", None),
            ("ws://example.com/mcp", Some("use wss")),
            ("http://example.com/mcp", Some("this machine only")),
            ("http://10.0.0.1/mcp", Some("this machine only")),
            ("http://localhost.example.com/", Some("this machine only")),
            ("http://127.0.0.1.example.com/", Some("this machine only")),
            ("ftp://example.com/", Some("neither https nor http")),
            ("file:///etc/passwd", Some("neither https nor http")),
            ("https://example.com/#a", Some("no fragment")),
            ("https://user:s3cret@example.com/", Some("tokens are given apart")),
            ("no address", Some("not an address")),
        ] {
            match (Endpoint::new(address), says) {
                (Ok(_), None) => {}
                (Err(e), Some(says)) => {
                    let e = e.to_string();
                    assert!(e.contains(says) && !e.contains("s3cret"), "{address}: {e}");
                }
                (other, _) => panic!("{address}: {other:?}"),
            }
        }
    }

    #[test]
    fn tokens_go_to_their_origin_only() {
        let endpoint =
            Endpoint::new("https://example.com/mcp").unwrap().token(Secret::new(b"s3cret".to_vec()).unwrap());
        for (address, has) in [
            ("https://example.com/mcp", true),
            ("https://example.com:443/other?x=1", true),
            ("https://example.com:444/mcp", false),
            ("http://example.com/mcp", false),
            ("https://www.example.com/mcp", false),
            ("https://example.com.evil.example/mcp", false),
            ("no address", false),
        ] {
            assert_eq!(endpoint.token_for(address).is_some(), has, "{address}");
        }
        assert!(!format!("{endpoint:?}").contains("s3cret"));
        let other = Endpoint::new("https://example.com/mcp").unwrap();
        assert!(endpoint.key() != other.key() && !endpoint.key().contains("s3cret"));
    }

    #[test]
    fn redirects_stay_with_their_server() {
        let from = Url::parse("https://example.com/mcp").unwrap();
        for (to, status, before, says) in [
            ("https://example.com/mcp/", 308, 1, None),
            ("https://example.com/v1", 307, 3, None),
            ("https://example.com/v1", 307, 4, Some("more than 3 times")),
            ("https://example.com/v1", 302, 1, Some("status 302")),
            ("https://evil.example/mcp", 307, 1, Some("another origin")),
            ("http://example.com/mcp", 307, 1, Some("another origin")),
            ("https://example.com:8443/mcp", 308, 1, Some("another origin")),
        ] {
            let got = redirect(&from, &Url::parse(to).unwrap(), status, before);
            assert_eq!(got.is_err(), says.is_some(), "{to} {status} {before}");
            assert!(says.is_none_or(|says| got.unwrap_err().contains(says)), "{to}");
        }
    }
}
