//! One repository of a registry: manifests and blobs, fetched without an account, and pushed with one.

mod push;

use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::challenge::Challenge;
use crate::error::RegistryError;
use crate::reference::sha256;
use crate::transport::{allowed, body, client, failed, is_loopback, pieces};

/// Maximum size of an answer with a token, in bytes.
const MAX_TOKEN_BYTES: u64 = 64 << 10;
/// Pause before a request is sent a second time.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// Maximum pause that a registry can ask for by `Retry-After`; after a longer one its answer is an error.
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(5);

/// Time limits for a registry. The caller bounds the whole.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Time limit for connecting.
    pub connect: Duration,
    /// Time limit for each next piece of an answer.
    pub idle: Option<Duration>,
}

/// A repository. Sends nothing before it is asked.
#[derive(Debug)]
pub struct Repository<'a> {
    client: Client,
    /// `https://HOST/v2/NAME`.
    base: String,
    name: &'a str,
    /// Name of the source in messages.
    place: &'a str,
    authorization: Option<HeaderValue>,
    /// Credentials of a user who publishes. Sent to the registry, and to the server that it names for tokens.
    credentials: Option<HeaderValue>,
}

/// Answer of a token server.
#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

impl<'a> Repository<'a> {
    /// Makes a client of the repository `name` at a registry, `HOST[:PORT]`. Messages name it by `place`.
    ///
    /// # Errors
    /// [`RegistryError::Unreadable`] when the client cannot be created.
    pub fn new(
        registry: &str,
        name: &'a str,
        place: &'a str,
        timeouts: Timeouts,
    ) -> Result<Self, RegistryError> {
        let scheme = if is_own(registry) { "http" } else { "https" };
        Ok(Self {
            client: client(place, timeouts.connect, timeouts.idle)?,
            base: format!("{scheme}://{registry}/v2/{name}"),
            name,
            place,
            authorization: None,
            credentials: None,
        })
    }

    /// Fetches the manifest of a tag or digest, which must be of one of these media types. Returns it with its SHA-256 digest.
    ///
    /// # Errors
    /// [`RegistryError::Unreadable`] when it cannot be fetched, [`RegistryError::Long`] when it is longer than
    /// `most` bytes, [`RegistryError::Digest`] when it has another digest than it is named by.
    pub async fn manifest(
        &mut self,
        version: &str,
        kinds: &[&str],
        most: u64,
    ) -> Result<(Vec<u8>, [u8; 32]), RegistryError> {
        let place = format!("the manifest of {}", self.place);
        let (url, kinds) = (format!("{}/manifests/{version}", self.base), kinds.join(", "));
        let response = self.send(Method::GET, &url, |request| request.header(ACCEPT, &kinds)).await?;
        if let Some(why) = explained(response.status()) {
            return Err(RegistryError::unreadable(
                self.place,
                format!("it answers {}{why}", response.status()),
            ));
        }
        let bytes = body(response, &place, most).await?;
        let found: [u8; 32] = Sha256::digest(&bytes).into();
        match sha256(version) {
            Some(promised) if promised != found => Err(RegistryError::Digest { place, promised, found }),
            None if version.contains(':') => Err(not_sha256(self.place, version)),
            _ => Ok((bytes, found)),
        }
    }

    /// Fetches a blob of a descriptor: its digest, and its size in bytes, which may be at most `most`. Hands it to `sink` piece by piece; the pieces
    /// can be used only after success.
    ///
    /// # Errors
    /// [`RegistryError::Unreadable`] when it cannot be fetched, [`RegistryError::Long`] when it is longer than
    /// announced or possible, [`RegistryError::Digest`] when it has another digest; errors of `sink`.
    pub async fn blob<E: From<RegistryError>>(
        &mut self,
        (digest, size): (&str, u64),
        most: u64,
        mut sink: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let promised = sha256(digest).ok_or_else(|| not_sha256(self.place, digest))?;
        let place = format!("the blob {digest} of {}", self.place);
        // The announced size is checked first.
        if size > most {
            return Err(RegistryError::Long { place, most }.into());
        }
        let url = format!("{}/blobs/{digest}", self.base);
        let response = self.send(Method::GET, &url, |request| request).await?;
        let mut state = Sha256::new();
        pieces(response, &place, size, |piece| {
            state.update(piece);
            sink(piece)
        })
        .await?;
        let found: [u8; 32] = state.finalize().into();
        if found != promised {
            return Err(RegistryError::Digest { place, promised, found }.into());
        }
        Ok(())
    }

    /// Sends a request: with the token or credentials that the registry asks for first, and once more if it only reads and the failure may pass.
    async fn send(
        &mut self,
        method: Method,
        url: &str,
        fill: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<Response, RegistryError> {
        let (mut may_authorize, mut may_repeat) = (true, matches!(method, Method::GET | Method::HEAD));
        loop {
            let mut request = fill(self.client.request(method.clone(), url));
            if let Some(authorization) = &self.authorization {
                // Only the registry gets it: the client drops the header when it follows a redirect to another host.
                request = request.header(AUTHORIZATION, authorization);
            }
            let response = match request.send().await {
                Ok(response) => response,
                // The connection ended before the answer.
                Err(error)
                    if may_repeat && error.is_request() && !error.is_connect() && !error.is_timeout() =>
                {
                    may_repeat = false;
                    tokio::time::sleep(RETRY_PAUSE).await;
                    continue;
                }
                Err(error) => return Err(failed(self.place, &error)),
            };
            if response.status() == StatusCode::UNAUTHORIZED && may_authorize {
                may_authorize = false;
                self.authorization = match self.authorized(&response).await? {
                    Some(value) => Some(value),
                    None => return Ok(response),
                };
                continue;
            }
            match pause(response.status(), response.headers().get(RETRY_AFTER)).filter(|_| may_repeat) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Ok(response),
            }
            may_repeat = false;
        }
    }

    /// Value of the header `Authorization` for a registry's challenge; `None` where it asks for nothing that is known.
    async fn authorized(&self, response: &Response) -> Result<Option<HeaderValue>, RegistryError> {
        let asked = response.headers().get(WWW_AUTHENTICATE).and_then(|text| text.to_str().ok());
        match asked {
            Some(text) if text.to_ascii_lowercase().starts_with("basic") => Ok(self.credentials.clone()),
            Some(text) => match Challenge::parse(text) {
                Some(challenge) => self.token(challenge).await.map(Some),
                None => Ok(None),
            },
            None => Ok(None),
        }
    }

    async fn token(&self, challenge: Challenge) -> Result<HeaderValue, RegistryError> {
        let bad = |why: String| RegistryError::unreadable(self.place, why);
        let Challenge { realm, service, scope } = challenge;
        let mut url = Url::parse(&realm)
            .map_err(|_| bad("it sends for a token to a text that is not a URL".to_owned()))?;
        let inwards = url.scheme() == "http" && !self.base.starts_with("http:");
        if !allowed(&url) || inwards {
            return Err(bad(format!("it sends for a token to {url}: that is asked by https only")));
        }
        url.query_pairs_mut()
            .append_pair("scope", &scope.unwrap_or_else(|| format!("repository:{}:pull", self.name)));
        if let Some(service) = service {
            url.query_pairs_mut().append_pair("service", &service);
        }
        let place = format!("{} ({})", self.place, url.host_str().unwrap_or_default());
        let mut request = self.client.get(url);
        if let Some(credentials) = &self.credentials {
            request = request.header(AUTHORIZATION, credentials);
        }
        let answered = request.send().await.map_err(|e| failed(&place, &e))?;
        let text = body(answered, &place, MAX_TOKEN_BYTES).await?;
        let given: Token = serde_json::from_slice(&text).map_err(|e| bad(format!("its token: {e}")))?;
        let token = given.token.or(given.access_token).unwrap_or_default();
        let mut value = HeaderValue::try_from(format!("Bearer {token}"))
            .map_err(|_| bad("its token can be in no header".to_owned()))?;
        value.set_sensitive(true);
        Ok(value)
    }
}

/// Pause after which a request is worth repeating; `None` for an answer that will not change soon.
fn pause(status: StatusCode, after: Option<&HeaderValue>) -> Option<Duration> {
    if !matches!(status.as_u16(), 429 | 502 | 503 | 504) {
        return None;
    }
    let Some(after) = after else { return Some(RETRY_PAUSE) };
    // A date is not parsed: its pause is rarely short.
    let pause = Duration::from_secs(after.to_str().ok()?.trim().parse().ok()?);
    (pause <= MAX_RETRY_PAUSE).then_some(pause.max(RETRY_PAUSE))
}

/// Explanation of a status of a registry that has no such manifest, or does not show it.
fn explained(status: StatusCode) -> Option<&'static str> {
    match status {
        StatusCode::NOT_FOUND => Some(": it has no such repository, tag or digest"),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Some(
            ": it has no such repository, or shows it to accounts only, and hotcell reads without an account",
        ),
        _ => None,
    }
}

fn not_sha256(place: &str, digest: &str) -> RegistryError {
    let digest = hotcell_sandbox::text::printable(digest);
    RegistryError::unreadable(place, format!("{digest} is not a sha256 digest"))
}

/// Whether a registry is on this machine; such a registry is reached without TLS.
fn is_own(registry: &str) -> bool {
    match registry.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => is_loopback(host),
        _ => is_loopback(registry),
    }
}

#[cfg(test)]
mod tests;
