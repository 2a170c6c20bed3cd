//! Routes, the checks before them, and listening.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hotcell_http::{Connection, FromProxy, HttpError, HttpOptions, ProxyListening, contradicts, listen};
use hotcell_state::StateFolder;
use hotcell_state::ids::random_hex;
use hotcell_state::report::printable;
use hotcell_state::running;
use maud::Markup;

use crate::admit::{Head, Own, Refused, START, admit};
use crate::form::Fields;
use crate::frame::{Tab, Visit, bare, failure, page};
use crate::live;
use crate::pages::{self, Shown};
use crate::seal::Purpose;
use crate::sessions::Role;
use crate::site::Site;

/// Name of the cookie. It is the random host's alone: without `Domain`, no other name or port below `.localhost` gets it.
const COOKIE: &str = "hotcell";
/// Maximum size of a posted form, in bytes.
const MAX_FORM_BYTES: usize = 1 << 20;
/// Time limit for a posted form to arrive.
const FORM_TIMEOUT: Duration = Duration::from_secs(10);
/// Attempts at a port that is free on both loopback addresses.
const MAX_PORT_ATTEMPTS: usize = 20;
/// Nothing inline, nothing of third parties, in no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; \
                      base-uri 'none'; frame-ancestors 'none'";
const STYLE: &str = include_str!("assets/style.css");
const SCRIPT: &str = include_str!("assets/script.js");
const ICON: &str = include_str!("assets/icon.svg");

/// Why the page cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// The port cannot be bound.
    #[error("{address} cannot be listened on: {error}")]
    Bind {
        /// Address.
        address: SocketAddr,
        /// Error of the system call.
        error: std::io::Error,
    },
    /// The socket cannot be used.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// No random numbers, for example.
    #[error(transparent)]
    Report(#[from] hotcell_state::report::ErrorReport),
}

/// Sockets that are listened on: one port of both loopback addresses. Browsers try both for a name below `.localhost`, and
/// a process that held the other one would get the requests.
#[derive(Debug)]
pub struct Listening {
    sockets: Vec<TcpListener>,
    port: u16,
}

impl Listening {
    /// Listens on this port of loopback; 0 for any.
    ///
    /// # Errors
    /// [`WebError::Bind`] when the port is taken on one of the addresses.
    pub fn bind(port: u16) -> Result<Self, WebError> {
        let mut taken = None;
        for _ in 0..if port == 0 { MAX_PORT_ATTEMPTS } else { 1 } {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let bad = |error| WebError::Bind { address, error };
            let first = TcpListener::bind(address).map_err(bad)?;
            let port = first.local_addr().map_err(bad)?.port();
            let address = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
            match TcpListener::bind(address) {
                Ok(second) => return Self::of(vec![first, second], port),
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                    taken = Some(WebError::Bind { address, error });
                }
                // This host has no such address.
                Err(_) => return Self::of(vec![first], port),
            }
        }
        Err(taken.unwrap_or_else(|| WebError::Bind {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            error: std::io::ErrorKind::AddrInUse.into(),
        }))
    }

    fn of(sockets: Vec<TcpListener>, port: u16) -> Result<Self, WebError> {
        for socket in &sockets {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            socket.set_nonblocking(true).map_err(|error| WebError::Bind { address, error })?;
        }
        Ok(Self { sockets, port })
    }

    /// The port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Serves the pages until `stop` resolves.
    ///
    /// # Errors
    /// [`WebError::Http`] when a socket cannot be used.
    pub async fn serve(self, site: Arc<Site>, stop: impl Future<Output = ()>) -> Result<(), WebError> {
        let app = Router::new().fallback(answer).with_state(Arc::clone(&site));
        let mut serving = Vec::new();
        for socket in self.sockets {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
            let options =
                HttpOptions { address, passed: Some(socket), tokens: None, hosts: Vec::new(), plain: false };
            let (ending, app) = (site.ending.clone(), app.clone());
            let listening = listen(options).await?;
            serving.push(tokio::spawn(async move {
                listening.serve(app, ending.cancelled(), || async {}, |_| ()).await;
            }));
        }
        until(&site, stop, serving).await;
        Ok(())
    }
}

/// Serves the pages to a team, over the socket of its proxy, until `stop` resolves.
pub async fn serve_team(listening: ProxyListening, site: Arc<Site>, stop: impl Future<Output = ()>) {
    let app = Router::new().fallback(answer).with_state(Arc::clone(&site));
    let ending = site.ending.clone();
    let serving = tokio::spawn(async move { listening.serve(app, ending.cancelled()).await });
    until(&site, stop, vec![serving]).await;
}

/// Follows the state folder until `stop` resolves, and waits for the ends of all tasks.
async fn until(site: &Arc<Site>, stop: impl Future<Output = ()>, serving: Vec<tokio::task::JoinHandle<()>>) {
    // From the beginning on, so that the first look shows what was started before it.
    let noting = |change: fn(&StateFolder)| {
        let site = Arc::clone(site);
        tokio::task::spawn_blocking(move || {
            if let Ok(folder) = site.made_folder() {
                change(&folder);
            }
        })
    };
    let _ = noting(|folder| drop(running::watch(folder))).await;
    let watching = tokio::spawn(live::watch(Arc::clone(site)));
    stop.await;
    let _ = noting(running::unwatch).await;
    site.ending.cancel();
    for task in serving.into_iter().chain([watching]) {
        let _ = task.await;
    }
}

/// The reader of a request: in team mode the person whom the proxy names, else the session of the cookie.
fn visitor(site: &Site, request: &Request) -> Result<Option<Visit>, Refused> {
    let headers = request.headers();
    let from = request.extensions().get::<FromProxy>().copied();
    if let Some(team) = &site.team {
        let (person, role) = team.person(headers, from)?;
        // No session has a name with a space.
        let session = format!("person {person}");
        return Ok(Some(Visit { role, session, person: Some(person) }));
    }
    // Its sender may believe that it counts.
    if site.identity_header.as_deref().is_some_and(|header| headers.contains_key(header)) {
        return Err(Refused::NotATeam);
    }
    Ok(session(headers).and_then(|session| {
        let role = site.sessions().role(&session, Instant::now())?;
        Some(Visit { role, session, person: None })
    }))
}

/// A header that is there once and is text.
fn one(headers: &HeaderMap, name: impl header::AsHeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// Secret of the session in the cookies.
fn session(headers: &HeaderMap) -> Option<String> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    cookies.flat_map(|text| text.split(';')).find_map(|cookie| {
        let (name, value) = cookie.split_once('=')?;
        (name.trim() == COOKIE).then(|| value.trim().to_owned())
    })
}

async fn answer(State(site): State<Arc<Site>>, request: Request) -> Response {
    let method = request.method().clone();
    let mut response = match checked(&site, &request) {
        Ok(visit) => routed(&site, visit, request).await,
        Err(why) => {
            let (status, message) = why.answer();
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::FORBIDDEN);
            html(status, &bare("Not answered", message, None))
        }
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // With no-referrer, browsers send `Origin: null` with forms.
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if method == Method::HEAD {
        *response.body_mut() = Body::empty();
    }
    response
}

/// Decides on the head of a request; the visit of its session.
fn checked(site: &Site, request: &Request) -> Result<Option<Visit>, Refused> {
    let headers = request.headers();
    let fetch = ["sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest"].map(header::HeaderName::from_static);
    let contradicts = contradicts(request, &fetch);
    let visit = visitor(site, request).inspect_err(|why| {
        let (_, message) = why.answer();
        tracing::warn!("a request for {} was refused: {message}", printable(request.uri().path()));
    })?;
    let head = Head {
        method: request.method().as_str(),
        path: request.uri().path(),
        host: one(headers, header::HOST).filter(|_| !contradicts),
        origin: one(headers, header::ORIGIN),
        // A value that cannot be read is another site's.
        site: headers.get(&fetch[0]).map(|value| value.to_str().unwrap_or("?")),
        mode: one(headers, &fetch[1]),
        dest: one(headers, &fetch[2]),
        role: visit.as_ref().map(|visit| visit.role),
    };
    admit(&Own { host: &site.host, origin: &site.origin, team: site.team.is_some() }, &head)?;
    if visit.is_some()
        && let Some(connection) = request.extensions().get::<Arc<Connection>>()
    {
        connection.show_token();
    }
    Ok(visit)
}

async fn routed(site: &Arc<Site>, visit: Option<Visit>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    match path.as_str() {
        "/style.css" => return ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], STYLE).into_response(),
        "/script.js" => {
            return ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8")], SCRIPT).into_response();
        }
        "/icon.svg" => return ([(header::CONTENT_TYPE, "image/svg+xml")], ICON).into_response(),
        _ => {}
    }
    if let Some(link) = path.strip_prefix(START) {
        // Looking is not opening.
        return match *request.method() == Method::GET {
            true => started(site, link),
            false => StatusCode::NO_CONTENT.into_response(),
        };
    }
    let Some(visit) = visit else { return StatusCode::UNAUTHORIZED.into_response() };
    if request.method() == Method::POST {
        return posted(site, visit, &path, request).await;
    }
    match path.as_str() {
        "/events" => live::events(site).unwrap_or_else(|| StatusCode::SERVICE_UNAVAILABLE.into_response()),
        "/doctor" => {
            let examined = site.doctor().await;
            shown(site, visit, path, move |site, _, _| pages::host(site, examined)).await
        }
        _ => {
            let query = Fields::parse(request.uri().query().unwrap_or_default().as_bytes());
            shown(site, visit, path, move |site, visit, path| pages::show(site, visit, path, &query)).await
        }
    }
}

/// Begins a session. The page goes on by itself: after a redirect from another site, a browser would not send a strict cookie.
fn started(site: &Site, link: &str) -> Response {
    let Ok(session) = random_hex(32) else { return StatusCode::INTERNAL_SERVER_ERROR.into_response() };
    let begun = site.sessions().start(link, session.clone(), Instant::now());
    let Some(role) = begun else {
        let message = "This link was used already, or was never one. hotcell web prints another one: press Enter in its terminal, or \
                       start it again.";
        return html(StatusCode::GONE, &bare("The link does not work", message, None));
    };
    let message = match role {
        Role::Decider => "This session can decide.",
        Role::Reader => "This session is for reading.",
    };
    let mut response = html(StatusCode::OK, &bare("hotcell", message, Some("/waiting")));
    let cookie = format!("{COOKIE}={session}; Path=/; HttpOnly; SameSite=Strict");
    if let Ok(value) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
    response
}

/// Reads what a page needs in a thread of its own, and puts it into the frame.
async fn shown(
    site: &Arc<Site>,
    visit: Visit,
    path: String,
    read: impl FnOnce(&Site, &Visit, &str) -> Shown + Send + 'static,
) -> Response {
    let site = Arc::clone(site);
    blocking(move || {
        let shown = read(&site, &visit, &path);
        framed(&site, &visit, shown, &path)
    })
    .await
}

fn framed(site: &Site, visit: &Visit, shown: Shown, path: &str) -> Response {
    let waiting = site.waiting().ok();
    match shown {
        Ok(one) => html(StatusCode::OK, &page(site, visit, (one.tab, &one.title), waiting, &one.body)),
        Err(why) => {
            let back = path.strip_suffix("/yes").or_else(|| path.strip_suffix("/no"));
            let tab = back.map(|_| Tab::Waiting);
            let body = failure(&why, back.unwrap_or("/waiting"));
            let status = StatusCode::from_u16(why.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            html(status, &page(site, visit, (tab, why.title), waiting, &body))
        }
    }
}

/// A change. Its head was admitted; its token is checked with what it is about.
async fn posted(site: &Arc<Site>, visit: Visit, path: &str, request: Request) -> Response {
    let body = tokio::time::timeout(FORM_TIMEOUT, to_bytes(request.into_body(), MAX_FORM_BYTES)).await;
    let Ok(Ok(body)) = body else { return StatusCode::PAYLOAD_TOO_LARGE.into_response() };
    let fields = Fields::parse(&body);
    if path == "/leave" {
        if site.seal.open(&visit.session, Purpose::Change, "", fields.get("token")).is_none() {
            let (status, message) = Refused::NotOurPage.answer();
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::FORBIDDEN);
            return html(status, &bare("Not answered", message, None));
        }
        site.sessions().end(&visit.session);
        return html(
            StatusCode::OK,
            &bare("The session has ended", "Close this tab, or open another link.", None),
        );
    }
    let (site, path) = (Arc::clone(site), path.to_owned());
    blocking(move || match pages::decide(&site, &visit, &path, &fields) {
        Ok(decided) => (StatusCode::SEE_OTHER, [(header::LOCATION, decided.address)]).into_response(),
        Err(why) => framed(&site, &visit, Err(why), &path),
    })
    .await
}

async fn blocking(work: impl FnOnce() -> Response + Send + 'static) -> Response {
    match tokio::task::spawn_blocking(work).await {
        Ok(response) => response,
        Err(error) => {
            tracing::error!("a page failed: {error}");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

fn html(status: StatusCode, page: &Markup) -> Response {
    (status, [(header::CONTENT_TYPE, "text/html; charset=utf-8")], page.0.clone()).into_response()
}
