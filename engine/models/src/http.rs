//! One HTTP exchange, bounded in time and size. Redirects are not followed, and no proxy of the environment is used: the prompt and the
//! key are for the configured origin.

use std::io;
use std::time::{Duration, SystemTime};

use hotcell_egress::Secret;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, Url};
use serde_json::Value;
use tokio::time::Instant;

use crate::endpoint::{Endpoint, is_loopback};
use crate::failure::{Failure, words};
use crate::retry::retry_after;
use crate::wire::{Wire, error_text};

/// Maximum size of a reply. 128,000 tokens, escaped as JSON, have at most about 3 MB.
pub const MAX_REPLY_BYTES: usize = 4 << 20;
/// Maximum size of an error's body that is read for its message.
const MAX_ERROR_BYTES: usize = 64 << 10;
/// Maximum size of the headers of a reply by HTTP/2; by HTTP/1 hyper takes at most 100 headers of 400 KiB in all.
const MAX_HEADER_BYTES: u32 = 32 << 10;
/// Time limit for a connection, including TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A client for all endpoints.
#[derive(Clone, Debug)]
pub struct Http(Client);

impl Http {
    /// Makes a client.
    ///
    /// # Errors
    /// A sentence, when TLS cannot be set up.
    pub fn new() -> Result<Self, String> {
        // Fails when it is set already, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Client::builder()
            .user_agent(concat!("hotcell/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .no_proxy()
            .referer(false)
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_max_header_list_size(MAX_HEADER_BYTES)
            .build()
            .map(Self)
            .map_err(|e| format!("the HTTP client cannot be made: {}", innermost(&e)))
    }

    /// Sends a JSON body, and returns that of the reply.
    ///
    /// # Errors
    /// [`Failure`], also when `until` has passed.
    pub async fn post(
        &self,
        endpoint: &Endpoint,
        key: Option<&Secret>,
        body: Vec<u8>,
        until: Instant,
    ) -> Result<Value, Failure> {
        let request = self.0.post(endpoint.completion_url()).body(body);
        exchange(request.header(CONTENT_TYPE, "application/json"), endpoint, key, until).await
    }

    /// Reads a JSON document of the endpoint.
    ///
    /// # Errors
    /// [`Failure`], also when `until` has passed.
    pub async fn get(
        &self,
        endpoint: &Endpoint,
        key: Option<&Secret>,
        url: Url,
        until: Instant,
    ) -> Result<Value, Failure> {
        exchange(self.0.get(url), endpoint, key, until).await
    }
}

async fn exchange(
    request: reqwest::RequestBuilder,
    endpoint: &Endpoint,
    key: Option<&Secret>,
    until: Instant,
) -> Result<Value, Failure> {
    let request = request.headers(headers(endpoint.provider.wire(), key)?);
    let began = Instant::now();
    let whole = async {
        let response = request.send().await.map_err(|e| {
            if !e.is_connect() {
                return Failure::Cut(innermost(&e));
            }
            match is_loopback(&endpoint.url) && is_refused(&e) {
                true => Failure::NotListening(innermost(&e), authority(&endpoint.url)),
                false => Failure::Connect(innermost(&e)),
            }
        })?;
        answer(response, key).await
    };
    match tokio::time::timeout_at(until, whole).await {
        Ok(answer) => answer,
        Err(_) => Err(Failure::Time(began.elapsed())),
    }
}

/// The headers of a format, with the key marked as sensitive, so that no library prints it.
fn headers(wire: Wire, key: Option<&Secret>) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    if wire == Wire::Anthropic {
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
    }
    let Some(key) = key else { return Ok(headers) };
    let (name, value) = match wire {
        Wire::OpenAi { .. } => {
            let value = zeroize::Zeroizing::new([b"Bearer ", key.expose()].concat());
            ("authorization", HeaderValue::from_bytes(&value))
        }
        Wire::Anthropic => ("x-api-key", HeaderValue::from_bytes(key.expose())),
        Wire::Gemini => ("x-goog-api-key", HeaderValue::from_bytes(key.expose())),
    };
    let mut value =
        value.map_err(|_| Failure::Key("the key has a byte that no header can have".to_owned()))?;
    value.set_sensitive(true);
    headers.insert(name, value);
    Ok(headers)
}

async fn answer(mut response: Response, key: Option<&Secret>) -> Result<Value, Failure> {
    let status = response.status();
    if status.is_redirection() {
        let to = response.headers().get(LOCATION).map(|to| words(to.as_bytes(), key));
        return Err(Failure::Redirect { status: status.as_u16(), to: to.unwrap_or_default() });
    }
    if !status.is_success() {
        let header = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = header.and_then(|text| retry_after(text, SystemTime::now()));
        // The status says enough when the body cannot be read.
        let body = body(&mut response, MAX_ERROR_BYTES).await.unwrap_or_default();
        let web_page = is_web_page(&response, &body);
        let words = if web_page { String::new() } else { words(message(&body).as_bytes(), key) };
        return Err(Failure::Status { status: status.as_u16(), words, retry_after });
    }
    let body = body(&mut response, MAX_REPLY_BYTES).await?;
    if is_web_page(&response, &body) {
        return Err(Failure::WebPage(title(&body, key)));
    }
    serde_json::from_slice(&body).map_err(|e| {
        Failure::Reply(format!("the reply is not JSON ({e}): {}", words(&body[..body.len().min(400)], key)))
    })
}

/// The body, of which no more is read than `most` bytes.
async fn body(response: &mut Response, most: usize) -> Result<Vec<u8>, Failure> {
    if response.content_length().is_some_and(|said| said > most as u64) {
        return Err(Failure::TooLarge(most));
    }
    let mut bytes = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|e| Failure::Cut(innermost(&e)))? {
        if bytes.len() + piece.len() > most {
            return Err(Failure::TooLarge(most));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

fn is_web_page(response: &Response, body: &[u8]) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.starts_with("text/html") || body.trim_ascii_start().starts_with(b"<")
}

/// The title of a web page.
fn title(body: &[u8], key: Option<&Secret>) -> String {
    let text = String::from_utf8_lossy(body);
    let title = text.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>"));
    title.map(|(title, _)| words(title.as_bytes(), key)).unwrap_or_default()
}

/// The message in an error's body: that of a JSON object, else the text.
fn message(body: &[u8]) -> String {
    let json = serde_json::from_slice::<Value>(body).ok();
    // Gemini's OpenAI-compatible interface answers with a list of one error.
    let error = json.as_ref().and_then(|json| json.get(0).unwrap_or(json).get("error"));
    let text = json.as_ref().and_then(|json| json["message"].as_str().or_else(|| json["detail"].as_str()));
    match (error, text) {
        (Some(error), _) => error_text(error),
        (None, Some(text)) => text.to_owned(),
        (None, None) => String::from_utf8_lossy(body).into_owned(),
    }
}

/// The reason below the layers of a library; those above name the URL again.
/// Whether the system refused a connection, since no program listens.
fn is_refused(error: &reqwest::Error) -> bool {
    let mut why: &dyn std::error::Error = error;
    while let Some(below) = why.source() {
        why = below;
        if why.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::ConnectionRefused) {
            return true;
        }
    }
    false
}

/// Host and port of a URL.
fn authority(url: &Url) -> String {
    let port = url.port_or_known_default().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}{port}", url.host_str().unwrap_or_default())
}

fn innermost(error: &reqwest::Error) -> String {
    let mut why: &dyn std::error::Error = error;
    while let Some(below) = why.source() {
        why = below;
    }
    words(why.to_string().as_bytes(), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_errors_are_found() {
        for (body, want) in [
            (r#"{"error": {"message": "no", "type": "x"}}"#, "no"),
            (r#"[{"error": {"message": "no", "code": 400}}]"#, "no"),
            (r#"{"error": "no"}"#, "no"),
            (r#"{"detail": "no"}"#, "no"),
            (r#"{"object": "error", "message": "no"}"#, "no"),
            ("no", "no"),
            ("", ""),
        ] {
            assert_eq!(message(body.as_bytes()), want, "{body}");
        }
    }

    #[test]
    fn keys_are_in_the_header_of_each_format_and_not_printed() {
        let key = Secret::new(b"sk-secret".to_vec()).unwrap();
        for (wire, name, value) in [
            (Wire::OpenAi { limit: "max_tokens" }, "authorization", "Bearer sk-secret"),
            (Wire::Anthropic, "x-api-key", "sk-secret"),
            (Wire::Gemini, "x-goog-api-key", "sk-secret"),
        ] {
            let headers = headers(wire, Some(&key)).unwrap();
            assert_eq!(headers[name], value);
            assert!(!format!("{headers:?}").contains("sk-secret"));
        }
    }
}
