//! MCP over streamable HTTP: many callers, each by its token.
//!
//! Before a request's body is read it is known who sends it. Hosts, origins, bodies, headers, connections, sessions
//! and open requests are all bounded. What cannot be had safely is refused when it is asked for.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hotcell_service::live::{Caller, Live, Tokens};
use http_body::Frame;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use rmcp::service::RxJsonRpcMessage;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServerHandler};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::wait::Closed;
use crate::{LONGEST_MESSAGE, Server};

/// Where the protocol is spoken.
pub const PATH: &str = "/mcp";
/// Connections at once; further ones wait.
const CONNECTIONS: usize = 1024;
/// Open requests of one caller; further ones are answered with 429.
const REQUESTS: usize = 256;
/// Bodies of one caller that are read at once, when they are not small; further ones wait.
const LARGE: usize = 8;
/// The longest small body, in bytes.
const SMALL: u64 = 64 * 1024;
/// Sessions of revisions that have them.
const SESSIONS: usize = 1024;
/// How long a session may be idle.
const SESSION_IDLE: Duration = Duration::from_secs(3600);
/// How long the headers of a request may take to come.
const HEADERS: Duration = Duration::from_secs(10);
/// How long the body of a request may take to come.
const BODY: Duration = Duration::from_secs(30);
/// The longest headers of a request, in bytes.
const LONGEST_HEADERS: usize = 64 * 1024;
/// How long open requests may take to end when the server does.
const LAST_WORDS: Duration = Duration::from_secs(3);
const SESSION_ID: &str = "mcp-session-id";

/// How to serve over HTTP.
#[derive(Debug)]
pub struct HttpOptions {
    /// The address; port 0 for any.
    pub address: SocketAddr,
    /// The callers. `None` lets everybody in, on loopback only.
    pub tokens: Option<Tokens>,
    /// Names by which clients may call this server, besides those of loopback and the address.
    pub hosts: Vec<String>,
    /// Beyond loopback without encryption: somebody else sees to that.
    pub plain: bool,
}

/// Why it cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// Without a token, beyond loopback.
    #[error(
        "--no-auth lets everybody in, and {0} can be reached from other machines; use 127.0.0.1, or tokens"
    )]
    Open(SocketAddr),
    /// Unencrypted, beyond loopback.
    #[error(
        "{0} can be reached from other machines, and tokens would go there unencrypted; \
         use 127.0.0.1 behind a proxy that speaks TLS, or say --plain-http if the network is yours alone"
    )]
    Plain(SocketAddr),
    /// The address cannot be had.
    #[error("{address} cannot be listened on: {error}")]
    Bind {
        /// Which.
        address: SocketAddr,
        /// What the system said.
        error: std::io::Error,
    },
}

/// A server that listens, and does not answer yet.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    address: SocketAddr,
    options: HttpOptions,
}

/// Listens.
///
/// # Errors
/// [`HttpError`].
pub async fn listen(options: HttpOptions) -> Result<Listening, HttpError> {
    let asked = options.address;
    if !asked.ip().is_loopback() {
        if options.tokens.is_none() {
            return Err(HttpError::Open(asked));
        }
        if !options.plain {
            return Err(HttpError::Plain(asked));
        }
    }
    let bad = |error| HttpError::Bind { address: asked, error };
    let listener = TcpListener::bind(asked).await.map_err(bad)?;
    let address = listener.local_addr().map_err(bad)?;
    Ok(Listening { listener, address, options })
}

impl Listening {
    /// The address, with its port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` resolves; then every run is ended.
    pub async fn serve(self, live: Live, stop: impl Future<Output = ()>) {
        let server = Server::for_many(live.clone());
        self.serve_with(move || server.clone(), stop, || async move { live.close().await }).await;
    }

    /// Serves any handler the same way; `close` ends what open requests wait for.
    pub async fn serve_with<S: ServerHandler + Send + 'static, F: Future<Output = ()>>(
        self,
        server: impl Fn() -> S + Send + Sync + 'static,
        stop: impl Future<Output = ()>,
        close: impl FnOnce() -> F,
    ) {
        let ending = CancellationToken::new();
        let app = self.app(server, ending.clone());
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let graceful = GracefulShutdown::new();
        let mut stop = std::pin::pin!(stop);
        loop {
            let next = async {
                let place = Arc::clone(&places).acquire_owned().await;
                (place, self.listener.accept().await)
            };
            let (place, accepted) = tokio::select! {
                next = next => next,
                () = &mut stop => break,
            };
            let Ok((stream, _)) = accepted else {
                // Out of descriptors, most likely: some will be closed.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let _ = stream.set_nodelay(true);
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADERS)
                .max_buf_size(LONGEST_HEADERS)
                .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app.clone()));
            let connection = graceful.watch(connection);
            tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!("a connection ended: {error}");
                }
                drop(place);
            });
        }
        drop(self.listener);
        close().await;
        ending.cancel();
        let _ = tokio::time::timeout(LAST_WORDS, graceful.shutdown()).await;
    }

    fn app<S: ServerHandler + Send + 'static>(
        &self,
        server: impl Fn() -> S + Send + Sync + 'static,
        ending: CancellationToken,
    ) -> Router {
        let port = self.address.port();
        let mut hosts = self.options.hosts.clone();
        hosts.extend(["localhost", "127.0.0.1", "::1"].map(str::to_owned));
        if !self.address.ip().is_unspecified() {
            hosts.push(self.address.ip().to_string());
        }
        // A browser's page may only come from here; there is none.
        let origins = ["localhost", "127.0.0.1", "[::1]"].map(|h| format!("http://{h}:{port}"));
        let config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(hosts)
            .with_allowed_origins(origins)
            .enforce_origin_validation()
            .with_max_request_body_bytes(LONGEST_MESSAGE)
            .with_cancellation_token(ending);
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(SESSION_IDLE);
        let sessions = Arc::new(sessions);
        let tokens = self.options.tokens.clone();
        let gate = Arc::new(Gate { tokens, sessions: Arc::clone(&sessions), open: Mutex::default() });
        let service = StreamableHttpService::new(move || Ok(server()), sessions, config);
        Router::new().route_service(PATH, service).layer(axum::middleware::from_fn_with_state(gate, admit))
    }
}

/// Who may in, and how many at once.
struct Gate {
    tokens: Option<Tokens>,
    sessions: Arc<LocalSessionManager>,
    open: Mutex<Open>,
}

/// Places of one caller's requests.
#[derive(Clone)]
struct Places {
    all: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

impl Default for Places {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(REQUESTS)), large: Arc::new(Semaphore::new(LARGE)) }
    }
}

/// What is open.
#[derive(Default)]
struct Open {
    requests: HashMap<Caller, Places>,
    /// Whose each session is.
    sessions: HashMap<String, Caller>,
}

impl Gate {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn caller(&self, headers: &HeaderMap) -> Option<Caller> {
        let Some(tokens) = &self.tokens else { return Some(Caller::new("everybody")) };
        let value = headers.get(header::AUTHORIZATION)?.as_bytes();
        let (scheme, token) = value.split_at_checked(7)?;
        tokens.caller(token).filter(|_| scheme.eq_ignore_ascii_case(b"bearer "))
    }

    fn places(&self, caller: &Caller) -> Places {
        self.open().requests.entry(caller.clone()).or_default().clone()
    }

    /// Whether a session that a request names may be the caller's.
    fn owns(&self, caller: &Caller, session: &str) -> bool {
        self.open().sessions.get(session).is_none_or(|owner| owner == caller)
    }

    /// Remembers whose a session is, and forgets those that are gone.
    async fn began(&self, caller: &Caller, session: String) {
        let living: std::collections::HashSet<_> =
            self.sessions.sessions.read().await.keys().map(ToString::to_string).collect();
        let mut open = self.open();
        open.sessions.retain(|id, _| living.contains(id));
        open.sessions.insert(session, caller.clone());
    }
}

/// A refusal with a line for a person.
fn refuse(status: StatusCode, why: &'static str) -> Response {
    (status, [(header::CONNECTION, "close")], why).into_response()
}

/// The protocol's answer to a body that is no message.
fn no_message(error: &serde_json::Error) -> Response {
    let answer = json!({ "jsonrpc": "2.0", "id": null, "error": crate::lines::refusal(error) });
    (StatusCode::BAD_REQUEST, [(header::CONTENT_TYPE, "application/json")], answer.to_string())
        .into_response()
}

/// Lets a request in, or not; before its body is read.
async fn admit(State(gate): State<Arc<Gate>>, mut request: Request, next: Next) -> Response {
    let headers = request.headers();
    let Some(caller) = gate.caller(headers) else {
        let mut response = refuse(
            StatusCode::UNAUTHORIZED,
            "A token is needed: Authorization: Bearer TOKEN. hotcell said where it is when it started.\n",
        );
        response.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
        return response;
    };
    let length = headers.get(header::CONTENT_LENGTH).and_then(|l| l.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|l| l > LONGEST_MESSAGE as u64) {
        return refuse(StatusCode::PAYLOAD_TOO_LARGE, "A request has at most 8 MiB.\n");
    }
    let session = headers.get(SESSION_ID).and_then(|s| s.to_str().ok());
    if session.is_some_and(|s| !gate.owns(&caller, s)) {
        return refuse(StatusCode::NOT_FOUND, "There is no such session.\n");
    }
    if session.is_none() && gate.sessions.sessions.read().await.len() >= SESSIONS {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "There are too many sessions.\n");
    }
    let Ok(place) = gate.places(&caller).all.try_acquire_owned() else {
        return refuse(StatusCode::TOO_MANY_REQUESTS, "You have too many open requests.\n");
    };
    let mut text = Bytes::new();
    if request.method() == Method::POST {
        let small = length.is_some_and(|l| l <= SMALL);
        let _large = if small { None } else { gate.places(&caller).large.acquire_owned().await.ok() };
        let (parts, body) = request.into_parts();
        let body = tokio::time::timeout(BODY, axum::body::to_bytes(body, LONGEST_MESSAGE)).await;
        request = match body {
            Ok(Ok(body)) => {
                text = body.clone();
                Request::from_parts(parts, Body::from(body))
            }
            Ok(Err(_)) => return refuse(StatusCode::PAYLOAD_TOO_LARGE, "A request has at most 8 MiB.\n"),
            Err(_) => return refuse(StatusCode::REQUEST_TIMEOUT, "The request did not come in time.\n"),
        };
    }
    let closed = CancellationToken::new();
    // Armed while the answer is under way: whoever hangs up drops it.
    let guard = closed.clone().drop_guard();
    request.extensions_mut().insert(caller.clone());
    request.extensions_mut().insert(Closed(closed));
    let mut response = next.run(request).await;
    if response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE
        && let Err(error) = serde_json::from_slice::<RxJsonRpcMessage<RoleServer>>(&text)
    {
        response = no_message(&error);
    }
    let session = response.headers().get(SESSION_ID).and_then(|s| s.to_str().ok()).map(str::to_owned);
    if let Some(session) = session {
        gate.began(&caller, session).await;
    }
    response.map(|body| Body::new(Watched { body, guard: Some(guard), _place: place }))
}

/// A response's body that tells when it is dropped before its end.
struct Watched {
    body: Body,
    guard: Option<DropGuard>,
    _place: OwnedSemaphorePermit,
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if matches!(polled, Poll::Ready(None))
            && let Some(guard) = self.guard.take()
        {
            guard.disarm();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}
