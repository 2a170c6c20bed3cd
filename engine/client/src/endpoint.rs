//! Addresses of HTTP servers: which are used, and which redirects are followed. The decisions are pure.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use hotcell_egress::sealed::Sealed;
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
    token: Option<Token>,
}

/// Source of the token of an endpoint, which may change from connection to connection.
pub trait TokenSource: fmt::Debug + Send + Sync {
    /// Purpose that tells tokens of one server from those of another.
    fn purpose(&self) -> &str;
    /// Token for a connection to an endpoint.
    ///
    /// # Errors
    /// [`ClientError::Endpoint`] when there is no token for now.
    fn token<'a>(&'a self, endpoint: &'a Endpoint) -> BoxFuture<'a, Result<Secret, ClientError>>;
}

/// A bearer token.
#[derive(Clone, Debug)]
enum Token {
    /// In memory.
    Open(Arc<Secret>),
    /// Encrypted; opened for each connection.
    Sealed(Arc<Sealed>),
    /// From a source that is asked for each connection.
    Source(Arc<dyn TokenSource>),
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
        if address.trim().is_empty() {
            let why = "the address is empty; give one, such as https://example.com/mcp".to_owned();
            return Err(ClientError::Endpoint(why));
        }
        let url = Url::parse(address).map_err(|e| match address.contains("://") {
            true => wrong(&format!("not an address: {e}")),
            false => wrong("not an address: it does not begin with https:// or wss://"),
        })?;
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
        self.token = Some(Token::Open(Arc::new(token)));
        self
    }

    /// Sends a sealed bearer token, which is decrypted for each connection and wiped behind it.
    #[must_use]
    pub fn sealed(mut self, token: Sealed) -> Self {
        self.token = Some(Token::Sealed(Arc::new(token)));
        self
    }

    /// Purpose to which the token of an entry is sealed: its name and the origin. The same text does not open for another origin.
    #[must_use]
    pub fn purpose(&self, name: &str) -> String {
        format!("token of {name} for {}", self.url.origin().ascii_serialization())
    }

    /// With the tokens of a source, such as a login at the server's authorization server ([`crate::LoggedIn`]).
    #[must_use]
    pub fn logged_in(mut self, source: Arc<dyn TokenSource>) -> Self {
        self.token = Some(Token::Source(source));
        self
    }

    /// This endpoint with its token decrypted, for one connection.
    pub(crate) async fn opened(&self) -> Result<Self, ClientError> {
        let token = match &self.token {
            None | Some(Token::Open(_)) => return Ok(self.clone()),
            Some(Token::Sealed(sealed)) => {
                sealed.open().map_err(|e| ClientError::Endpoint(format!("the sealed token: {e}")))?
            }
            Some(Token::Source(source)) => source.token(self).await?,
        };
        Ok(self.clone().token(token))
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

    /// Token for an address: only for this endpoint's own origin, and only once it is decrypted.
    pub(crate) fn token_for(&self, address: &str) -> Option<&Secret> {
        let url = Url::parse(address).ok()?;
        match &self.token {
            Some(Token::Open(token)) if url.origin() == self.url.origin() => Some(token),
            _ => None,
        }
    }

    /// Key of a pool: the address, and a digest of the token, from which it cannot be found.
    pub(crate) fn key(&self) -> String {
        let token = self.token.as_ref().map(|token| match token {
            Token::Open(token) => Sha256::digest(token.expose()),
            Token::Sealed(token) => Sha256::digest(token.text()),
            Token::Source(source) => Sha256::digest(source.purpose()),
        });
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
            ("no address", Some("not an address: it does not begin with https://")),
            ("", Some("the address is empty; give one")),
            (" ", Some("the address is empty; give one")),
            ("https://", Some("not an address: empty host")),
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

    #[tokio::test]
    async fn sealed_tokens_are_opened_for_a_connection_to_their_origin() {
        use hotcell_egress::sealed::SealKey;
        use hotcell_egress::secret::SecretSource;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, "0f".repeat(32)).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let key = SecretSource::File(path.clone());
        let endpoint = |address: &str| Endpoint::new(address).unwrap();
        let here = endpoint("https://example.com/mcp");
        let token = Secret::new(b"s3cret".to_vec()).unwrap();
        let text = SealKey::new(&key.read().unwrap()).unwrap().seal(&token, &here.purpose("a")).unwrap();
        let sealed = |endpoint: Endpoint, name: &str| {
            let purpose = endpoint.purpose(name);
            endpoint.sealed(Sealed::new(key.clone(), &text, &purpose))
        };
        let closed = sealed(here, "a");
        assert!(closed.token_for("https://example.com/mcp").is_none());
        let opened = closed.opened().await.unwrap();
        assert_eq!(opened.token_for("https://example.com/other").unwrap().expose(), b"s3cret");
        assert!(opened.token_for("https://evil.example/mcp").is_none());
        // A text that is moved to another entry or another origin does not open.
        for (address, name) in [("https://evil.example/mcp", "a"), ("https://example.com/mcp", "b")] {
            let error = sealed(endpoint(address), name).opened().await.unwrap_err().to_string();
            assert!(error.contains("does not open") && !error.contains("s3cret"), "{error}");
        }
        std::fs::remove_file(path).unwrap();
        assert!(closed.opened().await.unwrap_err().to_string().contains("the sealed token: the key"));
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
