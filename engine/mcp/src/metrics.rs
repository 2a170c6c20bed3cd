//! Numbers for whoever watches the server: Prometheus' text format over HTTP, at an address of its own.
//!
//! On loopback anybody may ask; beyond it only with a token of the server's. The names of hosts are checked as where the
//! protocol is spoken, so that no page in a browser reads them under another name.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header, uri::Authority};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hotcell_service::live::{Live, Tokens};
use hotcell_service::metrics::text;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::http::{HttpError, contradicts, no_token, refuse, whose};

/// Where the numbers are.
pub const PATH: &str = "/metrics";
/// Connections at once; further ones wait.
const CONNECTIONS: usize = 8;
/// How long a connection may take, with its request and its answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest headers of a request, in bytes.
const LONGEST_HEADERS: usize = 16 * 1024;
const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Where to tell numbers.
#[derive(Debug)]
pub struct MetricsOptions {
    /// The address; port 0 for any.
    pub address: SocketAddr,
    /// Who may ask beyond loopback.
    pub tokens: Option<Tokens>,
    /// Names by which clients may call it, besides those of loopback and the address.
    pub hosts: Vec<String>,
    /// Beyond loopback without encryption: somebody else sees to that.
    pub plain: bool,
}

impl MetricsOptions {
    /// For loopback.
    #[must_use]
    pub fn here(address: SocketAddr) -> Self {
        Self { address, tokens: None, hosts: Vec::new(), plain: false }
    }
}

/// It listens, and does not answer yet.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    address: SocketAddr,
    tokens: Option<Tokens>,
    hosts: Vec<String>,
}

/// Listens.
///
/// # Errors
/// [`HttpError`].
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

/// Who may ask for what.
struct Gate {
    live: Live,
    tokens: Option<Tokens>,
    hosts: Vec<String>,
}

impl Listening {
    /// The address, with its port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers as long as the future lives.
    pub async fn serve(self, live: Live) {
        let gate = Arc::new(Gate { live, tokens: self.tokens, hosts: self.hosts });
        let app = Router::new()
            .route(PATH, get(told))
            .layer(axum::middleware::from_fn_with_state(Arc::clone(&gate), admit))
            .with_state(gate);
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let place = Arc::clone(&places).acquire_owned().await;
            let Ok((stream, _)) = self.listener.accept().await else {
                // Out of descriptors, most likely: some will be closed.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .keep_alive(false)
                .max_buf_size(LONGEST_HEADERS)
                .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app.clone()));
            tokio::spawn(async move {
                let _ = tokio::time::timeout(PATIENCE, connection).await;
                drop(place);
            });
        }
    }
}

/// Lets a request in, or not.
async fn admit(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    if contradicts(&request) {
        return refuse(StatusCode::BAD_REQUEST, "The request names its host, origin or token twice.\n");
    }
    let headers = request.headers();
    // No page of a browser has a reason to ask.
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
