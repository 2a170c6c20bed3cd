//! MCP over streamable HTTP: many callers, each identified by its token.
//!
//! The caller is identified before a request's body is read. Hosts, origins, bodies, headers, connections,
//! sessions and open requests are all bounded. An unsafe configuration is refused at start.

mod sessions;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hotcell_http::tokens::NOT_TOKENS;
use hotcell_http::{Connection, Tokens, contradicts, no_token, refuse, whose};
use hotcell_server::{Caller, Lane, Live};
use http_body::Frame;
use rmcp::ServerHandler;
use rmcp::model::ErrorData;
use rmcp::transport::streamable_http_server::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::priming_events::Unprimed;
use crate::server::REVISIONS;
use crate::unread::{self, Unread};
use crate::wait::Closed;
use crate::{Combined, MAX_MESSAGE_BYTES, Server, media_ranges, methods, priming_events};

use sessions::{InUse, OpenIds, Session, forgotten};

pub use hotcell_http::{HttpError, HttpOptions};

/// Path of the endpoint.
pub const PATH: &str = "/mcp";
/// Maximum number of open requests per caller; further ones get a 429.
const MAX_REQUESTS: usize = 256;
/// Maximum size of the large bodies of one caller's open requests together, in KiB; further ones wait.
const MAX_LARGE_BODIES_KIB: usize = 64 * 1024;
/// Maximum size of a small body, in bytes.
const MAX_SMALL_BODY_BYTES: u64 = 64 * 1024;
/// Maximum number of sessions per caller, in revisions with sessions.
const MAX_SESSIONS: usize = 128;
/// Idle timeout of a session.
const SESSION_IDLE_TIMEOUT: Duration = Duration::from_secs(3600);
/// Retention of the messages of a cancelled call, which has no answer that its caller could still request.
const CANCELLED_RETENTION: Duration = Duration::from_secs(5);
/// Timeout for the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
pub(crate) const SESSION_ID: &str = "mcp-session-id";
const REVISION: &str = "mcp-protocol-version";

/// A server that listens and does not respond yet.
#[derive(Debug)]
pub struct Listening(hotcell_http::Listening);

/// Starts listening.
///
/// # Errors
/// [`HttpError::Bind`] when the address cannot be bound; other variants when the options are unsafe.
pub async fn listen(options: HttpOptions) -> Result<Listening, HttpError> {
    hotcell_http::listen(options).await.map(Listening)
}

impl Listening {
    /// Address of the socket, with its port.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.0.address()
    }

    /// Serves until `stop` resolves; then every run and foreign server is ended.
    pub async fn serve(self, live: Live, combined: Option<Arc<Combined>>, stop: impl Future<Output = ()>) {
        // Watches the plugins' files for changes, whether or not a client listens.
        let _changes = live.tools().map(hotcell_plugins::Caller::changes);
        let server = Server::for_many(live.clone()).with(combined.clone());
        let counted = live.clone();
        let counting = move |status| counted.metrics().responded(status);
        self.serve_counted(move || server.clone(), stop, || async move { live.close().await }, counting)
            .await;
        if let Some(combined) = combined {
            combined.close().await;
        }
    }

    /// Serves any handler in this way; `close` ends the waiting of open requests.
    pub async fn serve_with<S: ServerHandler + Send + 'static, F: Future<Output = ()>>(
        self,
        server: impl Fn() -> S + Send + Sync + 'static,
        stop: impl Future<Output = ()>,
        close: impl FnOnce() -> F,
    ) {
        self.serve_counted(server, stop, close, |_| ()).await;
    }

    /// Like [`Self::serve_with`]; `counting` receives the status of each response.
    async fn serve_counted<S: ServerHandler + Send + 'static, F: Future<Output = ()>>(
        self,
        server: impl Fn() -> S + Send + Sync + 'static,
        stop: impl Future<Output = ()>,
        close: impl FnOnce() -> F,
        counting: impl Fn(u16) + Clone + Send + Sync + 'static,
    ) {
        let ending = CancellationToken::new();
        let app = app(self.address(), self.0.options(), server, ending.clone());
        let close = || async move {
            close().await;
            ending.cancel();
        };
        self.0.serve(app, stop, close, counting).await;
    }
}

/// The router that responds to requests.
pub(crate) fn app<S: ServerHandler + Send + 'static>(
    address: SocketAddr,
    options: &HttpOptions,
    server: impl Fn() -> S + Send + Sync + 'static,
    ending: CancellationToken,
) -> Router {
    let port = address.port();
    let mut hosts = options.hosts.clone();
    hosts.extend(["localhost", "127.0.0.1", "::1"].map(str::to_owned));
    if !address.ip().is_unspecified() {
        hosts.push(address.ip().to_string());
    }
    // Pages in a browser may only come from this server, which serves no pages.
    let origins = ["localhost", "127.0.0.1", "[::1]"].map(|h| format!("http://{h}:{port}"));
    let config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(hosts)
        .with_allowed_origins(origins)
        .enforce_origin_validation()
        .with_max_request_body_bytes(MAX_MESSAGE_BYTES)
        .with_cancellation_token(ending);
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(SESSION_IDLE_TIMEOUT);
    sessions.session_config.completed_cache_ttl = CANCELLED_RETENTION;
    let sessions = Arc::new(sessions);
    let tokens = options.tokens.clone();
    let gate = Arc::new(Gate { tokens, sessions: Arc::clone(&sessions), open: Mutex::default() });
    let service = StreamableHttpService::new(move || Ok(server()), sessions, config);
    let router = Router::new().route_service(PATH, service).fallback(elsewhere);
    router.layer(axum::middleware::from_fn_with_state(gate, admit))
}

/// Response to a request at any other path.
async fn elsewhere() -> Response {
    refuse(StatusCode::NOT_FOUND, "MCP is served at the path /mcp of this server, and nothing at others.\n")
}

/// Checks who may send requests, and limits their number.
struct Gate {
    tokens: Option<Tokens>,
    sessions: Arc<LocalSessionManager>,
    open: Mutex<Open>,
}

/// Permits for one caller's requests.
#[derive(Clone)]
struct Places {
    all: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(MAX_REQUESTS)),
            large: Arc::new(Semaphore::new(MAX_LARGE_BODIES_KIB)),
        }
    }
}

/// Open requests and sessions.
#[derive(Default)]
struct Open {
    requests: HashMap<Caller, Places>,
    sessions: HashMap<String, Session>,
}

impl Gate {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn caller(&self, headers: &HeaderMap) -> Option<Caller> {
        let Some(tokens) = &self.tokens else { return Some(Caller::new(NOT_TOKENS[1])) };
        whose(tokens, headers)
    }

    fn places(&self, caller: &Caller) -> Places {
        self.open().requests.entry(caller.clone()).or_default().clone()
    }

    /// Whether the session named by a request may belong to the caller.
    fn owns(&self, caller: &Caller, session: &str) -> bool {
        self.open().sessions.get(session).is_none_or(|known| known.owner == *caller)
    }

    /// Marks a session of the caller as in use; `None` for an id that is not a known session of the caller.
    fn enter(&self, caller: &Caller, session: &str) -> Option<InUse> {
        let open = self.open();
        let known = open.sessions.get(session).filter(|known| known.owner == *caller)?;
        Some(InUse::of(known))
    }

    /// Records the owner of a new session, and forgets closed sessions. If the caller has too many, one is
    /// ended: the least recently used idle one, else the new one. Returns whether the new session stays.
    async fn began(&self, caller: &Caller, session: String) -> bool {
        let before = Instant::now();
        let living: std::collections::HashSet<_> =
            self.sessions.sessions.read().await.keys().map(ToString::to_string).collect();
        let (lives, ends) = {
            let mut open = self.open();
            // A session that began after the list was read is kept.
            open.sessions.retain(|id, known| living.contains(id) || known.used() >= before);
            let now = Instant::now();
            let used = Arc::new(Mutex::new(now));
            let known = Session { owner: caller.clone(), used, ids: OpenIds::default(), ends: false };
            // Also recorded when it is about to be ended, so that it belongs to this caller.
            open.sessions.entry(session.clone()).or_insert(known);
            let count = |known: &&Session| known.owner == *caller && !known.ends;
            let (lives, ends) = if open.sessions.values().filter(count).count() <= MAX_SESSIONS {
                (true, None)
            } else if let Some(id) = forgotten(&open.sessions, caller, now) {
                (true, Some(id))
            } else {
                (false, Some(session))
            };
            // The session belongs to its caller until it is closed.
            if let Some(known) = ends.as_ref().and_then(|id| open.sessions.get_mut(id)) {
                known.ends = true;
            }
            (lives, ends)
        };
        if let Some(id) = ends {
            let sessions = Arc::clone(&self.sessions);
            // In a task, so that it completes even if the caller disconnects now.
            let closed = tokio::spawn(async move { sessions.close_session(&id.into()).await });
            let _ = closed.await;
        }
        lives
    }
}

/// The protocol's response to a body that is not a message. The status of a request of which the id could be read is 200, since clients ignore
/// the body of an error status.
fn refused(unread: &Unread) -> Response {
    let answer = json!({ "jsonrpc": "2.0", "id": unread.id, "error": unread.error });
    let status =
        if unread.is_request && unread.id.is_some() { StatusCode::OK } else { StatusCode::BAD_REQUEST };
    (status, [(header::CONTENT_TYPE, "application/json")], answer.to_string()).into_response()
}

/// Admits or refuses a request, before its body is read.
async fn admit(State(gate): State<Arc<Gate>>, mut request: Request, next: Next) -> Response {
    if contradicts(&request, &[header::HeaderName::from_static(SESSION_ID)]) {
        return refuse(
            StatusCode::BAD_REQUEST,
            "The request names its host, origin, token or session twice.\n",
        );
    }
    let headers = request.headers();
    let Some(caller) = gate.caller(headers) else { return no_token() };
    if request.extensions().get::<Arc<Connection>>().is_some_and(|one| !one.show_token()) {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "There are too many connections; close some.\n");
    }
    let length = headers.get(header::CONTENT_LENGTH).and_then(|l| l.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|l| l > MAX_MESSAGE_BYTES as u64) {
        return refuse(StatusCode::PAYLOAD_TOO_LARGE, "A request has at most 8 MiB.\n");
    }
    let session = headers.get(SESSION_ID).and_then(|s| s.to_str().ok()).map(str::to_owned);
    if session.as_ref().is_some_and(|s| !gate.owns(&caller, s)) {
        return refuse(StatusCode::NOT_FOUND, "There is no such session.\n");
    }
    let mut in_use = session.as_ref().and_then(|session| gate.enter(&caller, session));
    let Ok(place) = gate.places(&caller).all.try_acquire_owned() else {
        return refuse(StatusCode::TOO_MANY_REQUESTS, "You have too many open requests.\n");
    };
    let (mut text, mut large) = (Bytes::new(), None);
    if request.method() == Method::POST {
        if length.is_none_or(|l| l > MAX_SMALL_BODY_BYTES) {
            let needs = kibibytes(
                length.map_or(MAX_MESSAGE_BYTES, |l| usize::try_from(l).unwrap_or(MAX_MESSAGE_BYTES)),
            );
            large = gate.places(&caller).large.acquire_many_owned(needs).await.ok();
        }
        let (parts, body) = request.into_parts();
        let body = tokio::time::timeout(BODY_TIMEOUT, axum::body::to_bytes(body, MAX_MESSAGE_BYTES)).await;
        request = match body {
            Ok(Ok(body)) => {
                // A request without a length reserved room for the maximum.
                let rest = large.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
                let surplus = rest.saturating_sub(kibibytes(body.len()) as usize);
                drop(large.as_mut().and_then(|l| l.split(surplus)));
                if let Err(unread) = unread::check(&body) {
                    return refused(&unread);
                }
                if in_use.is_some()
                    && let Some(unread) = unread::listens_in_session(&body)
                {
                    return refused(&unread);
                }
                if let (Some(session), Some(id)) = (&mut in_use, unread::request_id(&body))
                    && !session.take(&id).await
                {
                    let why = "a request of this id is open in the session; give each an id of its own";
                    let error = ErrorData::invalid_request(why, None);
                    return refused(&Unread { error, id: Some(id), is_request: true });
                }
                text = body.clone();
                Request::from_parts(parts, Body::from(body))
            }
            Ok(Err(_)) => return refuse(StatusCode::PAYLOAD_TOO_LARGE, "A request has at most 8 MiB.\n"),
            Err(_) => return refuse(StatusCode::REQUEST_TIMEOUT, "The request did not come in time.\n"),
        };
    }
    if request.method() == Method::POST {
        media_ranges::name_both_types(request.headers_mut());
    }
    let (posts, deletes) = (request.method() == Method::POST, request.method() == Method::DELETE);
    let revision = request.headers().get(REVISION).and_then(|r| r.to_str().ok());
    let knows_priming = priming_events::knows(revision, &text);
    // A revision that is not spoken has an error of its own.
    let is_spoken = revision.is_none_or(|said| REVISIONS.iter().any(|spoken| spoken.as_str() == said));
    let lacks_session = session.is_none() && is_spoken;
    let closed = CancellationToken::new();
    // Active while the response is in progress; dropped when the client disconnects.
    let guard = closed.clone().drop_guard();
    request.extensions_mut().insert(caller.clone());
    request.extensions_mut().insert(Closed(closed));
    if let Some(session) = session.filter(|_| in_use.is_some()) {
        request.extensions_mut().insert(Lane::of(&session));
    }
    // In a task, so that it completes even if the client disconnects: an abandoned half, such as a session
    // whose id no client has learned, or a stream without its request, would last as long as sessions do.
    let work = tokio::spawn(async move {
        let mut response = next.run(request).await;
        let status = response.status();
        if (status == StatusCode::UNSUPPORTED_MEDIA_TYPE || posts && status == StatusCode::BAD_REQUEST)
            && let Err(unread) = unread::read(&text)
        {
            response = refused(&unread);
        } else if posts
            && status == StatusCode::BAD_REQUEST
            && lacks_session
            && let Some(unread) = unread::without_session(&text)
        {
            response = refused(&unread);
        }
        if posts && status == StatusCode::NOT_FOUND {
            response = worded(response).await;
        }
        // The session is already closed at this point, and clients complain about a 202.
        if deletes && response.status() == StatusCode::ACCEPTED {
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if !knows_priming && kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
            response = response.map(|body| Body::new(Unprimed::new(body)));
        }
        let session = response.headers().get(SESSION_ID).and_then(|s| s.to_str().ok()).map(str::to_owned);
        if let Some(session) = session
            && !gate.began(&caller, session).await
        {
            response =
                refuse(StatusCode::TOO_MANY_REQUESTS, "You have too many sessions; end some with DELETE.\n");
        }
        (response, (place, large), in_use)
    });
    match work.await {
        Ok((response, places, session)) => response
            .map(|body| Body::new(Watched { body, guard: Some(guard), _places: places, _session: session })),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => refuse(StatusCode::SERVICE_UNAVAILABLE, "The server ends.\n"),
        },
    }
}

/// Maximum size of an error that is put in words, in bytes; the library's own are shorter.
const MAX_ERROR_BYTES: usize = 16 * 1024;

/// The response to a method of another revision, in words. Errors have their whole length in a header, so that none is cut.
async fn worded(response: Response) -> Response {
    let length =
        response.headers().get(header::CONTENT_LENGTH).and_then(|l| l.to_str().ok()?.parse::<usize>().ok());
    let length = length.or_else(|| http_body::Body::size_hint(response.body()).exact()?.try_into().ok());
    if length.is_none_or(|length| length > MAX_ERROR_BYTES) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(text) = axum::body::to_bytes(body, MAX_ERROR_BYTES).await else {
        return Response::from_parts(parts, Body::empty());
    };
    let Some(worded) = methods::answer_in_words(&text) else {
        return Response::from_parts(parts, Body::from(text));
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(worded))
}

/// A length in KiB, the unit of the semaphore.
fn kibibytes(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}

/// Body of a response that reports when it is dropped before its end.
struct Watched {
    body: Body,
    guard: Option<DropGuard>,
    _places: (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>),
    _session: Option<InUse>,
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

#[cfg(test)]
mod tests {
    use hyper::service::Service as _;
    use hyper_util::service::TowerToHyperService;

    use super::*;

    #[tokio::test]
    async fn id_of_an_open_request_is_refused() {
        let gate = Arc::new(Gate { tokens: None, sessions: Arc::default(), open: Mutex::default() });
        let owner = Caller::new(NOT_TOKENS[1]);
        for id in ["a", "b"] {
            let used = Arc::new(Mutex::new(Instant::now()));
            let session = Session { owner: owner.clone(), used, ids: OpenIds::default(), ends: false };
            gate.open().sessions.insert(id.to_owned(), session);
        }
        let answer = Arc::new(Semaphore::new(0));
        let wait = Arc::clone(&answer);
        let handler = async move || {
            drop(wait.acquire().await);
            StatusCode::OK
        };
        let layer = axum::middleware::from_fn_with_state(Arc::clone(&gate), admit);
        let service = TowerToHyperService::new(Router::new().fallback(handler).layer(layer));
        let post = |session: &str, text: &str| {
            let request = Request::post(PATH).header(SESSION_ID, session).body(Body::from(text.to_owned()));
            tokio::spawn(service.call(request.unwrap()))
        };
        let words = async |response: Response| {
            let body = axum::body::to_bytes(response.into_body(), 1 << 16).await.unwrap();
            String::from_utf8(body.to_vec()).unwrap()
        };
        let (ping, reply) = (r#"{"id":7,"method":"ping"}"#, r#"{"id":7,"result":{}}"#);
        let first = post("a", ping);
        let open = || gate.open().sessions["a"].ids.lock().unwrap().len();
        while open() == 0 {
            tokio::task::yield_now().await;
        }
        let refused = words(post("a", ping).await.unwrap().unwrap()).await;
        assert!(refused.contains("\"id\":7") && refused.contains("open in the session"), "{refused}");
        // Another session, another id, and an answer of the client.
        let others = [post("b", ping), post("a", r#"{"id":8,"method":"ping"}"#), post("a", reply)];
        answer.add_permits(100);
        for other in others.into_iter().chain([first]) {
            assert_eq!(words(other.await.unwrap().unwrap()).await, "");
        }
        assert_eq!(open(), 0);
        assert_eq!(words(post("a", ping).await.unwrap().unwrap()).await, "", "it is free again");
    }

    #[tokio::test]
    async fn request_at_another_path_is_told_the_right_one() {
        struct Nothing;
        impl ServerHandler for Nothing {}
        let options = HttpOptions {
            address: SocketAddr::from(([127, 0, 0, 1], 80)),
            passed: None,
            tokens: None,
            hosts: Vec::new(),
            plain: false,
        };
        let app = app(options.address, &options, || Nothing, CancellationToken::new());
        let service = TowerToHyperService::new(app);
        for (method, path, is_told) in [
            ("GET", "/", true),
            ("POST", "/", true),
            ("POST", "/sse", true),
            ("POST", "/mcp/", true),
            ("POST", "/mcp/other", true),
            ("GET", "/.well-known/oauth-protected-resource/mcp", true),
            ("GET", "//mcp", true),
            ("GET", "/mcp", false),
            ("POST", "/mcp?x=1", false),
        ] {
            let request = Request::builder().method(method).uri(path).header("host", "localhost");
            let response = service.call(request.body(Body::from("{}")).unwrap()).await.unwrap();
            let status = response.status();
            let body = axum::body::to_bytes(response.into_body(), 1000).await.unwrap();
            let told = String::from_utf8_lossy(&body).contains("at the path /mcp ");
            assert_eq!(
                (status == StatusCode::NOT_FOUND, told),
                (is_told, is_told),
                "{method} {path}: {status}"
            );
        }
    }

    #[tokio::test]
    async fn error_about_another_revision_is_put_in_words() {
        let error = |message: &str| {
            json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -32601, "message": message } }).to_string()
        };
        for (body, want) in [
            (error("ping"), "the method \\\"ping\\\" is not of the revision"),
            (error("there is no method \"x\""), "there is no method"),
            ("There is no such session.\n".to_owned(), "There is no such session.\n"),
            ("x".repeat(MAX_ERROR_BYTES + 1), "xx"),
            (String::new(), ""),
        ] {
            let length = body.len();
            let response = (StatusCode::NOT_FOUND, body).into_response();
            let worded = worded(response).await;
            assert_eq!(worded.status(), StatusCode::NOT_FOUND);
            let text = axum::body::to_bytes(worded.into_body(), 1 << 20).await.unwrap();
            let text = String::from_utf8(text.to_vec()).unwrap();
            assert!(text.contains(want) && text.len() >= length, "{text}");
        }
    }

    #[tokio::test]
    async fn request_of_disconnected_caller_runs_to_end() {
        let gate = Arc::new(Gate { tokens: None, sessions: Arc::default(), open: Mutex::default() });
        let (end, mut ended) = tokio::sync::mpsc::unbounded_channel();
        let answer = async move |request: Request| {
            let Closed(closed) = request.extensions().get::<Closed>().unwrap().clone();
            closed.cancelled().await;
            // A task that is dropped here has done half of its work.
            tokio::task::yield_now().await;
            end.send(()).unwrap();
            StatusCode::OK
        };
        let layer = axum::middleware::from_fn_with_state(Arc::clone(&gate), admit);
        let service = TowerToHyperService::new(Router::new().fallback(answer).layer(layer));
        let request = Request::post(PATH).body(Body::from("{}")).unwrap();
        let patience = Duration::from_millis(50);
        assert!(tokio::time::timeout(patience, service.call(request)).await.is_err(), "nobody hung up yet");
        tokio::time::timeout(Duration::from_secs(10), ended.recv()).await.unwrap().unwrap();
        // The caller's permit is free again.
        let places = gate.places(&Caller::new(NOT_TOKENS[1])).all;
        let all = tokio::time::timeout(
            Duration::from_secs(10),
            places.acquire_many(u32::try_from(MAX_REQUESTS).unwrap()),
        )
        .await;
        drop(all.unwrap().unwrap());
    }
}
