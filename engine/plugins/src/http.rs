//! HTTP requests of plugins, to checked addresses. Redirects are left to the plugin: it sees them, and the
//! next origin has to be granted as well. Proxies of the environment are ignored, and names never lead to the
//! host's own network.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hotcell_egress::address::{Reach, reach};
use hotcell_egress::route::table::goes_with_secrets;
use hotcell_egress::{Resolver, Secret};
use hotcell_state::report::{Code, ErrorReport};
use hotcell_tools::ask::{Blob, Refused};
use hotcell_tools::error::with_causes;
use hotcell_tools::{Held, Origin, Reply};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, Url};

use super::secrets::Placeholders;

/// Maximum size of a request or response body, in bytes.
const MAX_BODY_BYTES: usize = 8 << 20;
/// Maximum size of all headers, names and values together, in bytes.
const MAX_HEADER_BYTES: usize = 64 << 10;
/// Maximum number of headers.
const MAX_HEADERS: usize = 128;
/// Maximum length of a URL, in bytes.
const MAX_URL_BYTES: usize = 8192;
/// Time limit for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Headers of the connection, or that name the server: only the host sets them.
const OURS: [&str; 10] = [
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "upgrade",
    "keep-alive",
    "te",
    "trailer",
    "expect",
    "proxy-connection",
];

/// Resolves names to public addresses only.
#[derive(Debug)]
struct Checked(Arc<dyn Resolver>);

impl Resolve for Checked {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = Arc::clone(&self.0);
        Box::pin(async move {
            let found = resolver.resolve(name.as_str()).await?;
            let mut why = None;
            let mut public = Vec::new();
            for address in found {
                match reach(address) {
                    Reach::Public => public.push(SocketAddr::new(address, 0)),
                    Reach::Private(what) | Reach::Never(what) => {
                        why.get_or_insert_with(|| format!("{} is at {address}, {what}", name.as_str()));
                    }
                }
            }
            match (public.is_empty(), why) {
                (false, _) => Ok(Box::new(public.into_iter()) as Addrs),
                (true, Some(why)) => {
                    Err(format!("{why}: such a place is granted by its address, not by a name").into())
                }
                (true, None) => Err(format!("{} has no address", name.as_str()).into()),
            }
        })
    }
}

/// A request from a plugin.
pub struct Outgoing {
    pub method: String,
    pub url: String,
    pub headers: Vec<(String, Blob)>,
    pub body: Blob,
    pub timeout: Duration,
}

/// A client that connects to checked addresses only.
pub fn client(resolver: Arc<dyn Resolver>) -> Result<Client, ErrorReport> {
    // Fails when it is set already, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .dns_resolver(Arc::new(Checked(resolver)))
        .redirect(Policy::none())
        .no_proxy()
        .referer(false)
        .connect_timeout(CONNECT_TIMEOUT)
        .build()
        .map_err(|e| {
            ErrorReport::new(Code::Internal, format!("the HTTP client cannot be made: {}", told(&e)))
        })
}

/// Kind of an origin's address if nothing is ever sent there, even with a grant. The host's own loopback can
/// be granted.
pub fn unreachable(place: &Origin) -> Option<&'static str> {
    let address: IpAddr = place.host.parse().ok()?;
    match reach(address) {
        Reach::Never(what) if !address.is_loopback() => Some(what),
        _ => None,
    }
}

/// Checks that a plugin may send there.
pub fn allowed(held: &Held, url: &Url) -> Result<Origin, Refused> {
    let origin = Origin::of(url).map_err(Refused::Invalid)?;
    // The check at the time of the grant may be outdated.
    if unreachable(&origin).is_some() || !held.net.contains(&origin) {
        return Err(Refused::Denied(format!("net={origin}")));
    }
    Ok(origin)
}

/// Sends a request and receives the answer, with the secrets that were sent masked in it.
pub async fn send(
    client: &Client,
    held: &Held,
    outgoing: Outgoing,
    placeholders: &tokio::sync::Mutex<Placeholders>,
    value: impl Fn(&str) -> Result<Option<Arc<Secret>>, String>,
) -> Reply {
    let done = async {
        let Outgoing { method, url, headers, body, timeout } = outgoing;
        if url.len() > MAX_URL_BYTES {
            return Err(Refused::TooMuch(format!("a URL has at most {MAX_URL_BYTES} bytes")));
        }
        if body.0.len() > MAX_BODY_BYTES {
            return Err(Refused::TooMuch(format!("a body has at most {MAX_BODY_BYTES} bytes")));
        }
        let url = Url::parse(&url).map_err(|e| Refused::Invalid(format!("no URL: {e}")))?;
        let to = allowed(held, &url)?;
        let method = Method::from_bytes(method.as_bytes())
            .ok()
            .filter(|m| ![Method::CONNECT, Method::TRACE].contains(m))
            .ok_or_else(|| {
                Refused::Invalid("the method is GET, POST, PUT, PATCH, DELETE, HEAD or OPTIONS".to_owned())
            })?;
        let (headers, secret) = {
            let mut placeholders = placeholders.lock().await;
            (filled(&headers, &to, held, &mut placeholders, value)?, placeholders.any_left())
        };
        let request = client.request(method, url).headers(headers).timeout(timeout).body(body.0);
        let response = request.send().await.map_err(|e| Refused::Unavailable(told(&e)))?;
        received(response, secret, placeholders).await
    };
    match done.await {
        Ok(reply) => reply,
        Err(why) => Reply::Refused { why },
    }
}

fn filled(
    headers: &[(String, Blob)],
    to: &Origin,
    held: &Held,
    placeholders: &mut Placeholders,
    value: impl Fn(&str) -> Result<Option<Arc<Secret>>, String>,
) -> Result<HeaderMap, Refused> {
    let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.0.len()).sum();
    if headers.len() > MAX_HEADERS || bytes > MAX_HEADER_BYTES {
        return Err(Refused::TooMuch(format!(
            "a request has at most {MAX_HEADERS} headers and {MAX_HEADER_BYTES} bytes in them"
        )));
    }
    let mut map = HeaderMap::new();
    for (name, text) in headers {
        let bad = || Refused::Invalid(format!("{name:?} is no header"));
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        if OURS.contains(&key.as_str()) {
            continue;
        }
        let (text, secret) =
            placeholders.fill(&text.0, to, &held.secrets, &value).map_err(Refused::Unavailable)?;
        let mut text = HeaderValue::from_bytes(&text).map_err(|_| bad())?;
        text.set_sensitive(secret);
        map.append(key, text);
    }
    if placeholders.any_left() {
        let other = |name: &&HeaderName| !goes_with_secrets(name.as_str());
        let others: Vec<HeaderName> = map.keys().filter(other).cloned().collect();
        for name in others {
            map.remove(name);
        }
        // The response is searched for secrets, so it must not be compressed.
        map.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }
    Ok(map)
}

async fn received(
    mut response: reqwest::Response,
    secret: bool,
    placeholders: &tokio::sync::Mutex<Placeholders>,
) -> Result<Reply, Refused> {
    let plain = response.headers().get(CONTENT_ENCODING).is_none_or(|value| value == "identity");
    if secret && !plain {
        return Err(Refused::Unavailable(
            "the answer is compressed although a secret left with the request: it cannot be looked through"
                .to_owned(),
        ));
    }
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|e| Refused::Unavailable(told(&e)))? {
        if body.len() + piece.len() > MAX_BODY_BYTES {
            return Err(Refused::TooMuch(format!("the answer is larger than {MAX_BODY_BYTES} bytes")));
        }
        body.extend_from_slice(&piece);
    }
    let placeholders = placeholders.lock().await;
    let headers = response.headers().iter().take(MAX_HEADERS);
    let headers = headers
        .filter(|(name, _)| !OURS.contains(&name.as_str()))
        .map(|(name, value)| (name.to_string(), Blob(placeholders.mask(value.as_bytes().to_vec()))));
    Ok(Reply::Http {
        status: response.status().as_u16(),
        headers: headers.collect(),
        body: Blob(placeholders.mask(body)),
    })
}

/// Error text without the URL, which may contain a secret.
fn told(error: &reqwest::Error) -> String {
    let text = if error.is_timeout() { "it took too long" } else { "the request failed" };
    with_causes(text.to_owned(), error)
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
