//! A registry, asked without an account unless something is published: manifests and blobs, and the token that some registries give to everybody.
//!
//! Every answer is limited while it arrives, the token server's too; a client that buffers whole answers
//! would take as much memory as a registry likes to send.

mod push;

use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use reqwest::{Client, Response, StatusCode, Url};
use serde::Deserialize;

use super::SourceError;
use super::bounded::{allowed, body, client, failed, is_loopback};
use super::oci::Patience;

/// Media type of the manifests that are requested and sent.
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// Maximum size of an answer with a token, in bytes.
const MAX_TOKEN_BYTES: u64 = 64 << 10;

/// One repository of a registry.
pub(crate) struct Repository<'a> {
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

/// Authentication challenge of a registry.
#[derive(Debug, Default, PartialEq, Eq)]
struct Challenge {
    realm: String,
    service: Option<String>,
    scope: Option<String>,
}

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

impl<'a> Repository<'a> {
    /// Creates a client. Sends nothing yet.
    ///
    /// # Errors
    /// [`SourceError::Unreadable`] when the client cannot be created.
    pub fn new(
        registry: &str,
        name: &'a str,
        place: &'a str,
        patience: Patience,
    ) -> Result<Self, SourceError> {
        let scheme = if is_own(registry) { "http" } else { "https" };
        let base = format!("{scheme}://{registry}/v2/{name}");
        Ok(Self {
            client: client(place, patience.connect)?,
            base,
            name,
            place,
            authorization: None,
            credentials: None,
        })
    }

    /// Fetches the manifest of a tag or digest.
    ///
    /// # Errors
    /// [`SourceError::Unreadable`] when it cannot be fetched, [`SourceError::Long`] when it is longer than
    /// `most` bytes.
    pub async fn manifest(&mut self, which: &str, most: u64) -> Result<Vec<u8>, SourceError> {
        let path = format!("manifests/{which}");
        let mut response = self.get(&path).await?;
        if response.status() == StatusCode::UNAUTHORIZED
            && let Some(challenge) =
                response.headers().get(WWW_AUTHENTICATE).and_then(|text| challenge(text.to_str().ok()?))
        {
            self.authorization = Some(self.token(challenge).await?);
            response = self.get(&path).await?;
        }
        body(response, &format!("the manifest of {}", self.place), most).await
    }

    /// Fetches a blob. The caller has to check its digest.
    ///
    /// # Errors
    /// [`SourceError::Unreadable`] when it cannot be fetched, [`SourceError::Long`] when it is longer than
    /// `most` bytes.
    pub async fn blob(&self, digest: &str, most: u64) -> Result<Vec<u8>, SourceError> {
        body(self.get(&format!("blobs/{digest}")).await?, self.place, most).await
    }

    async fn get(&self, path: &str) -> Result<Response, SourceError> {
        let mut request = self.client.get(format!("{}/{path}", self.base)).header(ACCEPT, MANIFEST);
        if let Some(authorization) = &self.authorization {
            // Only the registry gets the token: the client drops the header when it follows a redirect to
            // another host.
            request = request.header(AUTHORIZATION, authorization);
        }
        request.send().await.map_err(|e| failed(self.place, &e))
    }

    async fn token(&self, challenge: Challenge) -> Result<HeaderValue, SourceError> {
        let bad = |why: String| SourceError::unreadable(self.place, why);
        let Challenge { realm, service, scope } = challenge;
        let mut url =
            Url::parse(&realm).map_err(|_| bad("it sends for a token to what is no URL".to_owned()))?;
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

/// Whether a registry is on this machine; such a registry is reached without TLS.
pub(crate) fn is_own(registry: &str) -> bool {
    match registry.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => is_loopback(host),
        _ => is_loopback(registry),
    }
}

/// Parses `Bearer realm="…",service="…",scope="…"`.
fn challenge(text: &str) -> Option<Challenge> {
    let (scheme, mut rest) = text.trim().split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let mut challenge = Challenge::default();
    while let Some((key, after)) = rest.split_once("=\"") {
        let (value, more) = after.split_once('"')?;
        match key.trim_matches([',', ' ']).to_ascii_lowercase().as_str() {
            "realm" => value.clone_into(&mut challenge.realm),
            "service" => challenge.service = Some(value.to_owned()),
            "scope" => challenge.scope = Some(value.to_owned()),
            _ => {}
        }
        rest = more;
    }
    (!challenge.realm.is_empty()).then_some(challenge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registry_challenge_is_parsed() {
        let all = |realm: &str, service: Option<&str>, scope: Option<&str>| {
            let text = |text: Option<&str>| text.map(str::to_owned);
            Some(Challenge { realm: realm.to_owned(), service: text(service), scope: text(scope) })
        };
        for (text, wanted) in [
            (
                r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull,push""#,
                all(
                    "https://auth.docker.io/token",
                    Some("registry.docker.io"),
                    Some("repository:a/b:pull,push"),
                ),
            ),
            (r#"bearer  realm="https://a.org" , error="x""#, all("https://a.org", None, None)),
            (r#"Bearer service="x""#, None),
            (r#"Bearer realm="https://a.org"#, None),
            (r#"Basic realm="https://a.org""#, None),
            ("Bearer", None),
            ("", None),
        ] {
            assert_eq!(challenge(text), wanted, "{text}");
        }
    }

    #[test]
    fn loopback_registries_are_recognised() {
        for (registry, own) in [
            ("localhost:5000", true),
            ("127.0.0.1:5000", true),
            ("127.0.0.1", true),
            ("[::1]:5000", true),
            ("ghcr.io", false),
            ("10.0.0.1:5000", false),
            ("localhost.example.org", false),
        ] {
            assert_eq!(is_own(registry), own, "{registry}");
        }
    }
}
