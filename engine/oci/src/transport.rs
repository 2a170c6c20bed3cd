//! Answers of untrusted servers: limits on size, time and redirects.

use std::net::IpAddr;
use std::time::Duration;

use reqwest::header::LOCATION;
use reqwest::redirect::Policy;
use reqwest::{Client, Response, Url};

use crate::error::{RegistryError, with_causes};

/// Maximum number of redirects per request.
pub const MAX_REDIRECTS: usize = 5;

/// Whether a URL may be fetched: by https, or by http from a loopback address. Also checked for each step of a redirect.
#[must_use]
pub fn allowed(url: &Url) -> bool {
    match url.scheme() {
        "https" => true,
        "http" => url.host_str().is_some_and(is_loopback),
        _ => false,
    }
}

/// Whether a host is this machine: a loopback address, or `localhost`.
#[must_use]
pub fn is_loopback(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// HTTP client that fetches only allowed URLs, with time limits for connecting and, if `idle` is given, for each next piece of an answer.
///
/// # Errors
/// [`RegistryError::Unreadable`] of `place` when the client cannot be created.
pub fn client(place: &str, connect: Duration, idle: Option<Duration>) -> Result<Client, RegistryError> {
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
    let mut client = Client::builder().redirect(policy).connect_timeout(connect);
    if let Some(idle) = idle {
        client = client.read_timeout(idle);
    }
    client.build().map_err(|e| failed(place, &e))
}

/// Error for a request without an answer.
#[must_use]
pub fn failed(place: &str, error: &reqwest::Error) -> RegistryError {
    RegistryError::unreadable(place, with_causes(error.to_string(), error))
}

/// Error for an answer whose status is not a success.
#[must_use]
pub fn refused(place: &str, response: &Response) -> RegistryError {
    let status = response.status();
    let to = response.headers().get(LOCATION).filter(|_| status.is_redirection());
    let why = match to.map(|to| hotcell_sandbox::text::printable(&String::from_utf8_lossy(to.as_bytes()))) {
        Some(to) => format!(
            "it answers {status} and sends to {to}; that is followed at most {MAX_REDIRECTS} times, by https only, and from elsewhere never to this host"
        ),
        None => format!("it answers {status}"),
    };
    RegistryError::unreadable(place, why)
}

/// Hands the body of an answer to `sink`, piece by piece. An answer that announces more than `most` bytes, or sends more, is dropped at once.
///
/// # Errors
/// [`RegistryError::Long`] for too many bytes; [`RegistryError::Unreadable`] for a status that is not a success,
/// or a body that breaks off; errors of `sink`.
pub async fn pieces<E: From<RegistryError>>(
    mut response: Response,
    place: &str,
    most: u64,
    mut sink: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    if !response.status().is_success() {
        return Err(refused(place, &response).into());
    }
    let long = || RegistryError::Long { place: place.to_owned(), most };
    if response.content_length().is_some_and(|claimed| claimed > most) {
        return Err(long().into());
    }
    let mut length = 0;
    while let Some(piece) = response.chunk().await.map_err(|e| failed(place, &e))? {
        length += piece.len() as u64;
        if length > most {
            return Err(long().into());
        }
        sink(&piece)?;
    }
    Ok(())
}

/// Whole body of an answer, of at most `most` bytes.
///
/// # Errors
/// As of [`pieces`].
pub async fn body(response: Response, place: &str, most: u64) -> Result<Vec<u8>, RegistryError> {
    let mut bytes = Vec::new();
    pieces(response, place, most, |piece| {
        bytes.extend_from_slice(piece);
        Ok::<(), RegistryError>(())
    })
    .await?;
    Ok(bytes)
}
