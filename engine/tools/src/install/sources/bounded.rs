//! Answers of untrusted servers: limits on size, time and redirects.

use std::net::IpAddr;
use std::time::Duration;

use reqwest::header::LOCATION;
use reqwest::redirect::Policy;
use reqwest::{Client, Response, Url};

use super::SourceError;
use crate::error::with_causes;

/// Maximum number of redirects per request.
pub(crate) const MAX_REDIRECTS: usize = 5;

/// Whether a URL may be fetched; also checked for each step of a redirect.
pub(crate) fn allowed(url: &Url) -> bool {
    match url.scheme() {
        "https" => true,
        "http" => url.host_str().is_some_and(is_loopback),
        _ => false,
    }
}

/// Whether a host is this machine: a loopback address, or the one name that always is.
pub(crate) fn is_loopback(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// A client that fetches only allowed URLs, with a time limit for connecting.
///
/// # Errors
/// [`SourceError::Unreadable`] of `place` when the client cannot be created.
pub(crate) fn client(place: &str, connect: Duration) -> Result<Client, SourceError> {
    // A second call finds the provider set already, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let policy = Policy::custom(|attempt| {
        // A redirect from HTTPS to HTTP, which is for loopback only, would lead to a service of this host.
        let sinks =
            attempt.url().scheme() == "http" && attempt.previous().iter().any(|url| url.scheme() != "http");
        if attempt.previous().len() > MAX_REDIRECTS || !allowed(attempt.url()) || sinks {
            return attempt.stop();
        }
        attempt.follow()
    });
    let client = Client::builder().redirect(policy).connect_timeout(connect).build();
    client.map_err(|e| failed(place, &e))
}

/// The error for a request without an answer.
pub(crate) fn failed(place: &str, error: &reqwest::Error) -> SourceError {
    SourceError::unreadable(place, with_causes(error.to_string(), error))
}

/// The error for an answer whose status is not a success.
pub(crate) fn refused(place: &str, response: &Response) -> SourceError {
    let status = response.status();
    let to = response.headers().get(LOCATION).filter(|_| status.is_redirection());
    let why = match to.map(|to| hotcell_sandbox::text::printable(&String::from_utf8_lossy(to.as_bytes()))) {
        Some(to) => format!(
            "it answers {status} and sends to {to}; that is followed at most {MAX_REDIRECTS} times, by https only, and from elsewhere never to this host"
        ),
        None => format!("it answers {status}"),
    };
    SourceError::unreadable(place, why)
}

/// The whole body of an answer. One that announces more than `most` bytes, or sends more, is dropped at once.
///
/// # Errors
/// [`SourceError::Long`] for too many bytes; [`SourceError::Unreadable`] for a status that is not a success,
/// or a body that breaks off.
pub(crate) async fn body(mut response: Response, place: &str, most: u64) -> Result<Vec<u8>, SourceError> {
    if !response.status().is_success() {
        return Err(refused(place, &response));
    }
    let long = || SourceError::Long { place: place.to_owned(), most };
    if response.content_length().is_some_and(|claimed| claimed > most) {
        return Err(long());
    }
    let mut bytes = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|e| failed(place, &e))? {
        if (bytes.len() + piece.len()) as u64 > most {
            return Err(long());
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}
