//! Metrics of the server: Prometheus' text format over HTTP, at a separate address.
//!
//! On loopback any client may read them, beyond it only one with a token of the server. Host names are
//! checked as at the protocol's endpoint, so that no web page can read the metrics under another name.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header, uri::Authority};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hotcell_http::{HttpError, Tokens, contradicts, no_token, refuse, whose};
use hotcell_server::Live;
use hotcell_server::metrics::text;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Path of the metrics.
pub const PATH: &str = "/metrics";
/// Maximum number of connections; further ones wait.
const MAX_CONNECTIONS: usize = 8;
/// Time limit of a connection, with its request and its response.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of the headers of a request, in bytes.
const MAX_HEADER_BYTES: usize = 16 * 1024;
const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Options for serving metrics.
#[derive(Debug)]
pub struct MetricsOptions {
    /// Address; port 0 for any free port.
    pub address: SocketAddr,
    /// Tokens of the clients that may read beyond loopback.
    pub tokens: Option<Tokens>,
    /// Names by which clients may address it, besides those of loopback and the address.
    pub hosts: Vec<String>,
    /// Serve beyond loopback without encryption, which a proxy in front provides.
    pub plain: bool,
}

impl MetricsOptions {
    /// Options for serving on loopback.
    #[must_use]
    pub fn here(address: SocketAddr) -> Self {
        Self { address, tokens: None, hosts: Vec::new(), plain: false }
    }
}

/// A socket that listens and does not respond yet.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    address: SocketAddr,
    tokens: Option<Tokens>,
    hosts: Vec<String>,
}

/// Starts listening.
///
/// # Errors
/// [`HttpError`] when the address cannot be bound, or when the options are unsafe.
pub async fn listen(options: MetricsOptions) -> Result<Listening, HttpError> {
    let MetricsOptions { address: asked, tokens, mut hosts, plain } = options;
    let far = !asked.ip().is_loopback();
    let tokens = tokens.filter(|_| far);
    if far && (!plain || tokens.is_none()) {
        return Err(HttpError::Metrics(asked));
    }
    let bad = |error| HttpError::Bind { address: asked, error };
    let listener = TcpListener::bind(asked).await.map_err(bad)?;
    let address = listener.local_addr().map_err(bad)?;
    hosts.extend(["localhost", "127.0.0.1", "::1"].map(str::to_owned));
    if !address.ip().is_unspecified() {
        hosts.push(address.ip().to_string());
    }
    Ok(Listening { listener, address, tokens, hosts })
}

/// Checks who may read.
struct Gate {
    live: Live,
    tokens: Option<Tokens>,
    hosts: Vec<String>,
}

impl Listening {
    /// Address of the socket, with its port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Responds as long as the future lives.
    pub async fn serve(self, live: Live) {
        let gate = Arc::new(Gate { live, tokens: self.tokens, hosts: self.hosts });
        let app = Router::new()
            .route(PATH, get(told))
            .layer(axum::middleware::from_fn_with_state(Arc::clone(&gate), admit))
            .with_state(gate);
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let place = Arc::clone(&places).acquire_owned().await;
            let Ok((stream, _)) = self.listener.accept().await else {
                // Probably out of descriptors, of which some will be closed.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .keep_alive(false)
                .max_buf_size(MAX_HEADER_BYTES)
                .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app.clone()));
            tokio::spawn(async move {
                let _ = tokio::time::timeout(CONNECTION_TIMEOUT, connection).await;
                drop(place);
            });
        }
    }
}

/// Admits or refuses a request.
async fn admit(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    if contradicts(&request, &[]) {
        return refuse(StatusCode::BAD_REQUEST, "The request names its host, origin or token twice.\n");
    }
    let headers = request.headers();
    // No web page has a reason to read the metrics.
    if !is_named(&gate.hosts, headers) || headers.contains_key(header::ORIGIN) {
        return refuse(StatusCode::FORBIDDEN, "The request names another host, or comes from a page.\n");
    }
    if gate.tokens.as_ref().is_some_and(|tokens| whose(tokens, headers).is_none()) {
        return no_token();
    }
    next.run(request).await
}

/// Whether the host that a request names is one of these.
fn is_named(hosts: &[String], headers: &HeaderMap) -> bool {
    let named = headers.get(header::HOST).and_then(|host| host.to_str().ok()?.parse::<Authority>().ok());
    named.is_some_and(|named| {
        let host = named.host().trim_start_matches('[').trim_end_matches(']');
        hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
    })
}

async fn told(State(gate): State<Arc<Gate>>) -> Response {
    let live = gate.live.clone();
    let families = tokio::task::spawn_blocking(move || live.metrics().families(&live.now())).await;
    match families {
        Ok(families) => ([(header::CONTENT_TYPE, FORMAT)], text::render(&families)).into_response(),
        Err(_) => refuse(StatusCode::INTERNAL_SERVER_ERROR, "The numbers cannot be had.\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_those_of_this_machine() {
        let hosts = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
        for (host, want) in [
            (Some("localhost"), true),
            (Some("LOCALHOST:9000"), true),
            (Some("127.0.0.1:9000"), true),
            (Some("[::1]:9000"), true),
            (Some("localhost.evil.example"), false),
            (Some("evil.example:80"), false),
            (Some(""), false),
            (None, false),
        ] {
            let headers = host.map(|host| (header::HOST, host.parse().unwrap())).into_iter().collect();
            assert_eq!(is_named(&hosts, &headers), want, "{host:?}");
        }
    }
}
