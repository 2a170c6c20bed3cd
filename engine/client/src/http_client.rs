//! Requests over HTTP: `rmcp`'s client of `reqwest`, with the token bound to its origin, redirects of other origins refused, and the first fault kept.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::Sse;

use crate::endpoint::{Endpoint, is_loopback, redirect};
use crate::error::{ClientError, foreign};
use crate::notes::{Fault, Kind};
use crate::rights::more_rights;

/// Maximum number of attempts to go on with a stream of events.
const MAX_RESUMES: usize = 5;

pub(crate) type HttpError = StreamableHttpError<reqwest::Error>;
type Headers = HashMap<HeaderName, HeaderValue>;
type Events = BoxStream<'static, Result<Sse, SseError>>;

/// Client of one endpoint.
#[derive(Clone)]
pub(crate) struct Bound {
    client: reqwest::Client,
    endpoint: Arc<Endpoint>,
    fault: Fault,
}

/// A transport to an endpoint.
///
/// # Errors
/// When the operating system's certificates cannot be used.
pub(crate) fn transport(
    endpoint: &Endpoint,
    connect_within: Duration,
    max_bytes: usize,
    fault: Fault,
) -> Result<StreamableHttpClientTransport<Bound>, ClientError> {
    let client = client(endpoint, connect_within)?;
    let bound = Bound { client, endpoint: Arc::new(endpoint.clone()), fault };
    let mut resumes = ExponentialBackoff::default();
    (resumes.max_times, resumes.max_delay) = (Some(MAX_RESUMES), Some(Duration::from_secs(30)));
    let mut config = StreamableHttpClientTransportConfig::with_uri(endpoint.url().as_str())
        .max_sse_event_size(max_bytes)
        // rmcp would send a call again in the new session.
        .reinit_on_expired_session(false);
    config.retry_config = Arc::new(resumes);
    Ok(StreamableHttpClientTransport::with_client(bound, config))
}

/// Client for an endpoint, which follows no redirect to another origin.
///
/// # Errors
/// When the operating system's certificates cannot be used.
pub(crate) fn client(endpoint: &Endpoint, connect_within: Duration) -> Result<reqwest::Client, ClientError> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let from = endpoint.url().clone();
    let policy = Policy::custom(move |attempt| {
        match redirect(&from, attempt.url(), attempt.status().as_u16(), attempt.previous().len()) {
            Ok(()) => attempt.follow(),
            Err(why) => attempt.error(why),
        }
    });
    let mut builder =
        reqwest::Client::builder().redirect(policy).connect_timeout(connect_within).referer(false);
    if is_loopback(endpoint.url()) {
        // Neither a proxy nor a name server is to see what is for this machine.
        let here: [SocketAddr; 2] = [([127, 0, 0, 1], 0).into(), ([0, 0, 0, 0, 0, 0, 0, 1], 0).into()];
        builder = builder.no_proxy().resolve_to_addrs("localhost", &here);
    }
    builder.build().map_err(|e| ClientError::Endpoint(innermost(&e)))
}

impl Bound {
    /// The token for an address, as the header wants it. The copy lives as long as one request.
    fn token(&self, address: &str) -> Option<String> {
        self.endpoint.token_for(address).and_then(|token| String::from_utf8(token.expose().to_vec()).ok())
    }

    fn noted<T>(&self, result: Result<T, HttpError>) -> Result<T, HttpError> {
        if let Err(error) = &result {
            self.fault.note(of(error).1);
        }
        result
    }
}

impl StreamableHttpClient for Bound {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let token = self.token(&uri);
        self.noted(self.client.post_message(uri, message, session, token, headers).await)
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        headers: Headers,
        max_bytes: usize,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let token = self.token(&uri);
        let answer = self
            .client
            .post_message_with_max_sse_event_size(uri, message, session, token, headers, max_bytes);
        self.noted(answer.await)
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _: Option<String>,
        headers: Headers,
    ) -> Result<(), HttpError> {
        let token = self.token(&uri);
        self.client.delete_session(uri, session, token, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _: Option<String>,
        headers: Headers,
    ) -> Result<Events, HttpError> {
        let token = self.token(&uri);
        self.client.get_stream(uri, session, last_event, token, headers).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _: Option<String>,
        headers: Headers,
        max_bytes: usize,
    ) -> Result<Events, HttpError> {
        let token = self.token(&uri);
        self.client
            .get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, max_bytes)
            .await
    }
}

/// The cause at the end of a chain, escaped: the outer ones repeat the address.
pub(crate) fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    foreign(&error.to_string())
}

/// Kind and text of an error.
pub(crate) fn of(error: &HttpError) -> (Kind, String) {
    match error {
        StreamableHttpError::Client(e) => {
            let never_sent = e.is_connect() || e.is_builder() || e.is_redirect();
            (if never_sent { Kind::NotDone } else { Kind::MayBeDone }, innermost(e))
        }
        StreamableHttpError::AuthRequired(_) => {
            (Kind::NotDone, "the server wants a token (HTTP 401), or another one than was sent".to_owned())
        }
        StreamableHttpError::InsufficientScope(e) => {
            let next = more_rights(e.required_scope.as_deref());
            (Kind::NotDone, format!("the token does not allow this (HTTP 403); {next}"))
        }
        StreamableHttpError::HttpStatus(e) if e.status == 429 => {
            (Kind::NotDone, "the server has too many requests (HTTP 429)".to_owned())
        }
        StreamableHttpError::SessionExpired => {
            (Kind::NotDone, "the server has ended the session (HTTP 404)".to_owned())
        }
        StreamableHttpError::UnexpectedContentType(kind) => {
            let kind = kind.as_deref().map_or_else(|| "no type".to_owned(), foreign);
            (
                Kind::MayBeDone,
                format!(
                    "the answer is not MCP: {kind} in place of JSON or an event stream; is the address right?"
                ),
            )
        }
        other => (Kind::MayBeDone, innermost(other)),
    }
}
