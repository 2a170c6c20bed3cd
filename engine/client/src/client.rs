//! The client: connections with their events, lists, calls.

mod call;
mod options;
mod served;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, ListToolsRequest, PaginatedRequestParams,
    PingRequest, ServerResult,
};
use rmcp::service::{
    ClientInitializeError, Peer, PeerRequestOptions, RequestHandle, RoleClient, RunningService, ServiceError,
    serve_client_with_lifecycle_and_ct,
};
use serde_json::Value;
use tokio::sync::{broadcast, watch};
use tokio::time::{sleep, timeout, timeout_at};
use tokio_util::sync::{CancellationToken, DropGuard};

pub use call::Call;
pub use options::{Options, Revision};

use crate::answer::{self, Answer, Tool};
use crate::backoff::behind;
use crate::endpoint::Endpoint;
use crate::error::{CallError, ClientError, foreign};
use crate::event::{Event, State};
use crate::http_client::{self, HttpError};
use crate::lines::Lines;
use crate::notes::{Fault, Kind, News, Notes};
use crate::process::Process;
use crate::server::Server;
use crate::web_socket;

/// Number of events that wait for a slow reader; older ones are dropped then.
const MAX_EVENTS: usize = 256;
/// Maximum number of pages of a list.
const MAX_PAGES: usize = 100;
/// Time for the farewell to a server, and for telling it to cancel.
const FAREWELL: Duration = Duration::from_secs(1);
/// Number of connections on which a list is asked for, until its loss is an error.
const LIST_ATTEMPTS: u32 = 3;

/// A client of one server.
#[derive(Debug)]
pub struct Client {
    inner: Arc<Inner>,
    _stop: DropGuard,
}

struct Inner {
    server: Server,
    options: Options,
    events: broadcast::Sender<Event>,
    state: watch::Sender<State>,
    current: Mutex<Option<Current>>,
    /// Why the client gave up.
    given_up: Mutex<Option<ClientError>>,
    /// Whether a first connection was made.
    has_begun: AtomicBool,
    stop: CancellationToken,
    ended: CancellationToken,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("server", &self.server).finish_non_exhaustive()
    }
}

/// The connection of the moment.
#[derive(Clone)]
struct Current {
    peer: Peer<RoleClient>,
    notes: Notes,
    fault: Fault,
    /// Cancelled by the first who sees that the connection is of no more use.
    lost: CancellationToken,
}

/// A new connection with what belongs to it.
struct Established {
    service: RunningService<RoleClient, Notes>,
    current: Current,
    process: Option<Process>,
}

fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Client {
    /// A client that is not connected yet.
    #[must_use]
    pub fn new(server: Server, options: Options) -> Self {
        let stop = CancellationToken::new();
        let inner = Inner {
            server,
            options,
            events: broadcast::channel(MAX_EVENTS).0,
            state: watch::channel(State::Disconnected).0,
            current: Mutex::default(),
            given_up: Mutex::default(),
            has_begun: AtomicBool::new(false),
            ended: CancellationToken::new(),
            stop: stop.clone(),
        };
        Self { inner: Arc::new(inner), _stop: stop.drop_guard() }
    }

    /// Connects, and keeps the connection up from then on. Does nothing when that is so already.
    ///
    /// # Errors
    /// [`ClientError`] when the first attempt fails; no further one is made then.
    pub async fn connect(&self) -> Result<(), ClientError> {
        let mut is_first = false;
        self.inner.state.send_if_modified(|state| {
            is_first = *state == State::Disconnected
                && locked(&self.inner.current).is_none()
                && !self.inner.stop.is_cancelled();
            if is_first {
                *state = State::Connecting;
            }
            is_first
        });
        if !is_first {
            return self.inner.connected().await.map(drop);
        }
        match self.inner.establish().await {
            Ok(established) => {
                self.inner.has_begun.store(true, Ordering::Release);
                self.inner.begin(&established);
                tokio::spawn(supervise(self.inner.clone(), established));
                Ok(())
            }
            Err(error) => {
                self.inner.give_up(error.clone());
                self.inner.ended.cancel();
                Err(error)
            }
        }
    }

    /// State of the connection.
    #[must_use]
    pub fn state(&self) -> State {
        *self.inner.state.borrow()
    }

    /// Events from now on. A reader that is too slow loses the oldest ones.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.inner.events.subscribe()
    }

    /// Asks the server for a sign of life.
    ///
    /// # Errors
    /// [`ClientError`] without an answer in time.
    pub async fn ping(&self) -> Result<(), ClientError> {
        self.inner.ask("ping", ClientRequest::PingRequest(PingRequest::default())).await.map(drop)
    }

    /// All tools of the server. Asked for again on the next connection when this one is lost.
    ///
    /// # Errors
    /// [`ClientError`] when the server does not answer in time or refuses, or the list is too large.
    pub async fn tools(&self) -> Result<Vec<Tool>, ClientError> {
        const WHAT: &str = "tools/list";
        let (max_tools, max_bytes) = (self.inner.options.max_tools, self.inner.options.max_message_bytes);
        let too_large = |why: String| ClientError::TooLarge { what: WHAT, why };
        let (mut tools, mut cursor, mut bytes): (Vec<Tool>, Option<String>, usize) = (Vec::new(), None, 0);
        for _ in 0..MAX_PAGES {
            let mut params = PaginatedRequestParams::default();
            params.cursor.clone_from(&cursor);
            let request = ListToolsRequest { params: Some(params), ..Default::default() };
            let result = self.inner.ask(WHAT, request.into()).await?;
            let page = answer::page(serde_json::to_value(&result).unwrap_or_default());
            let Some((more, next)) = page else {
                let why = "its answer is no list of tools".to_owned();
                return Err(ClientError::Refused { what: WHAT, why });
            };
            bytes += more.iter().map(|tool| tool.definition.to_string().len()).sum::<usize>();
            tools.extend(more);
            if tools.len() > max_tools {
                return Err(too_large(format!("more than {max_tools} tools")));
            }
            if bytes > max_bytes {
                return Err(too_large(format!("more than {max_bytes} bytes")));
            }
            match next {
                Some(next) if cursor.as_ref() != Some(&next) => cursor = Some(next),
                _ => return Ok(tools),
            }
        }
        Err(too_large(format!("more than {MAX_PAGES} pages")))
    }

    /// Calls a tool, once: a call whose answer is lost is never sent again.
    ///
    /// # Errors
    /// [`CallError`], which says whether the call may have been carried out.
    pub async fn call(&self, call: Call) -> Result<Answer, CallError> {
        let Call { tool, arguments, within, mut progress, notices: mut each_notice, cancel } = call;
        let Value::Object(arguments) = arguments else {
            return Err(CallError::NotSent("the arguments are not a JSON object".to_owned()));
        };
        let deadline = tokio::time::Instant::now() + within;
        let current = match timeout_at(deadline, self.inner.connected()).await {
            Ok(Ok(current)) => current,
            Ok(Err(e)) => return Err(CallError::NotSent(e.to_string())),
            Err(_) => {
                return Err(CallError::NotSent(format!("not connected within {} s", within.as_secs_f32())));
            }
        };
        let request = CallToolRequest::new(CallToolRequestParams::new(tool).with_arguments(arguments));
        let sent = current.peer.send_request_with_option(request.into(), PeerRequestOptions::no_options());
        let mut handle = match sent.await {
            Ok(handle) => handle,
            Err(e) => return Err(CallError::NotSent(current.fault.why().unwrap_or_else(|| innermost(&e)))),
        };
        let token = handle.progress_token.clone();
        let mut notes = current.notes.follow(&token);
        let mut tell = move |news: News| match (news, &mut progress, &mut each_notice) {
            (News::Progress(news), Some(each), _) => each(news),
            (News::Notice(news), _, Some(each)) => each(news),
            _ => {}
        };
        let ended = loop {
            tokio::select! {
                answer = &mut handle.rx => break Ok(answer),
                Some(news) = notes.recv() => tell(news),
                () = cancel.cancelled() => break Err(CallError::Cancelled),
                () = tokio::time::sleep_until(deadline) => break Err(CallError::TooLate { within }),
            }
        };
        current.notes.forget(&token);
        let result = match ended {
            Ok(result) => result.unwrap_or(Err(ServiceError::TransportClosed)),
            Err(error) => {
                tell_to_cancel(handle, &error).await;
                return Err(error);
            }
        };
        // News that came before the answer.
        while let Ok(news) = notes.try_recv() {
            tell(news);
        }
        match result {
            Ok(ServerResult::InputRequiredResult(_)) => {
                Err(CallError::WantsInput("it answered input_required".to_owned()))
            }
            Ok(result) => answer::answer(serde_json::to_value(&result).unwrap_or_default())
                .ok_or_else(|| CallError::Unknown("the server's answer is not a tool's".to_owned())),
            Err(error) => Err(self.inner.call_error(&error, &current)),
        }
    }

    /// Ends the connection and the program of the server; returns when that is done.
    pub async fn close(&self) {
        let was_begun = self.state() != State::Disconnected || locked(&self.inner.current).is_some();
        self.inner.stop.cancel();
        if was_begun {
            self.inner.ended.cancelled().await;
        }
    }
}

/// Tells a server to cancel a call, if it listens.
async fn tell_to_cancel(handle: RequestHandle<RoleClient>, why: &CallError) {
    let why = match why {
        CallError::Cancelled => "cancelled by the caller",
        _ => "no answer in time",
    };
    let _ = timeout(FAREWELL, handle.cancel(Some(why.to_owned()))).await;
}

fn innermost(error: &ServiceError) -> String {
    match error {
        ServiceError::TransportSend(e) => match e.error.downcast_ref::<HttpError>() {
            Some(e) => http_client::of(e).1,
            None => http_client::innermost(e.error.as_ref()),
        },
        ServiceError::TransportClosed => "the connection was lost".to_owned(),
        other => http_client::innermost(other),
    }
}

/// Whether rmcp made an error itself, since the stream of an answer ended without it.
fn is_cut_stream(code: i32, message: &str) -> bool {
    code == rmcp::model::ErrorCode::INTERNAL_ERROR.0 && message.starts_with("streamable HTTP ")
}

impl Inner {
    fn set(&self, state: State) {
        self.state.send_replace(state);
    }

    fn give_up(&self, error: ClientError) {
        let why = error.to_string();
        *locked(&self.given_up) = Some(error);
        *locked(&self.current) = None;
        self.set(State::Error);
        let _ = self.events.send(Event::Error { why });
    }

    fn begin(&self, established: &Established) {
        *locked(&self.current) = Some(established.current.clone());
        let info = established.current.peer.peer_info();
        let server = info.as_ref().and_then(|info| info.server_info.clone());
        let (name, version) =
            server.map_or_else(Default::default, |server| (foreign(&server.name), foreign(&server.version)));
        let revision = info.map(|info| foreign(info.protocol_version.as_str())).unwrap_or_default();
        self.set(State::Connected);
        let _ = self.events.send(Event::Connected { name, version, revision });
    }

    /// The connection, once there is one.
    async fn connected(&self) -> Result<Current, ClientError> {
        let mut states = self.state.subscribe();
        loop {
            let state = *states.borrow_and_update();
            let current = locked(&self.current).clone();
            match (state, current) {
                (State::Connected, Some(current)) => return Ok(current),
                (State::Error, _) => {
                    return Err(locked(&self.given_up).clone().unwrap_or(ClientError::Closed));
                }
                _ if self.stop.is_cancelled() => return Err(ClientError::Closed),
                // Never begun: nothing will change.
                (State::Disconnected, None) if !self.is_supervised() => return Err(ClientError::Closed),
                _ => {}
            }
            tokio::select! {
                changed = states.changed() => changed.map_err(|_| ClientError::Closed)?,
                () = self.stop.cancelled() => return Err(ClientError::Closed),
            }
        }
    }

    /// Whether a task makes new connections.
    fn is_supervised(&self) -> bool {
        !self.ended.is_cancelled() && self.has_begun.load(Ordering::Acquire)
    }

    /// Makes one connection.
    async fn establish(&self) -> Result<Established, ClientError> {
        let fault = Fault::default();
        let notes = Notes::new(self.events.clone(), self.options.host.clone());
        // A sealed token is opened for this connection, and is gone with it.
        let opened = match &self.server {
            Server::Http(endpoint) => Some(endpoint.opened().await?),
            _ => None,
        };
        let within = self.options.connect_within;
        let max_bytes = self.options.max_message_bytes;
        let unstarted =
            |e: std::io::Error| ClientError::Program { program: self.server.name(), why: e.to_string() };
        let cut = CancellationToken::new();
        let guard = cut.clone().drop_guard();
        let (begun, process) = if let Some(endpoint) = opened.clone().filter(Endpoint::is_web_socket) {
            let transport =
                web_socket::connect(endpoint, within, max_bytes, self.events.clone(), fault.clone()).await?;
            let serving = serve_client_with_lifecycle_and_ct(
                notes.clone(),
                transport,
                self.options.revision.lifecycle(),
                cut,
            );
            (timeout(within, serving).await, None)
        } else if let Some(endpoint) = &opened {
            let transport = http_client::transport(endpoint, within, max_bytes, fault.clone())?;
            let serving = serve_client_with_lifecycle_and_ct(
                notes.clone(),
                transport,
                self.options.revision.lifecycle(),
                cut,
            );
            (timeout(within, serving).await, None)
        } else if let Server::Within(server) = &self.server {
            let (process, streams) = Process::within(server, self.events.clone()).map_err(unstarted)?;
            let transport = Lines::new(streams, max_bytes, self.events.clone(), fault.clone());
            let serving = serve_client_with_lifecycle_and_ct(
                notes.clone(),
                transport,
                self.options.revision.lifecycle(),
                cut,
            );
            (timeout(within, serving).await, Some(process))
        } else {
            let command = self.server.command().ok_or(ClientError::Closed)?;
            let (process, streams) = Process::start(command, self.events.clone()).map_err(unstarted)?;
            let transport = Lines::new(streams, max_bytes, self.events.clone(), fault.clone());
            let serving = serve_client_with_lifecycle_and_ct(
                notes.clone(),
                transport,
                self.options.revision.lifecycle(),
                cut,
            );
            (timeout(within, serving).await, Some(process))
        };
        let error = match begun {
            Ok(Ok(service)) => {
                guard.disarm();
                let current =
                    Current { peer: service.peer().clone(), notes, fault, lost: CancellationToken::new() };
                return Ok(Established { service, current, process });
            }
            Ok(Err(error)) => Some(error),
            Err(_) => None,
        };
        drop(guard);
        let status = match process {
            Some(process) => process.end().await,
            None => None,
        };
        let status = status.map_or_else(String::new, |status| format!(" ({status})"));
        Err(match (error, fault.why()) {
            (None, _) => ClientError::TooLate { what: "initialize", within },
            (Some(ClientInitializeError::JsonRpcError(e)), _) => {
                ClientError::Refused { what: "initialize", why: foreign(&e.message) }
            }
            (_, Some(why)) if matches!(self.server, Server::Http(_)) => ClientError::Lost(why),
            (_, Some(why)) => ClientError::Lost(format!("{why}{status} before it answered initialize")),
            (Some(e), None) => ClientError::Lost(format!("{}{status}", http_client::innermost(&e))),
        })
    }

    /// Sends a request that is safe to repeat, and repeats it when the connection is lost.
    async fn ask(&self, what: &'static str, request: ClientRequest) -> Result<ServerResult, ClientError> {
        let within = self.options.list_within;
        let deadline = tokio::time::Instant::now() + within;
        let late = ClientError::TooLate { what, within };
        let mut attempt = 1;
        loop {
            let current = timeout_at(deadline, self.connected()).await.map_err(|_| late.clone())??;
            let sent =
                current.peer.send_request_with_option(request.clone(), PeerRequestOptions::no_options());
            let result = match sent.await {
                Ok(mut handle) => match timeout_at(deadline, &mut handle.rx).await {
                    Ok(result) => result.unwrap_or(Err(ServiceError::TransportClosed)),
                    Err(_) => {
                        tell_to_cancel(handle, &CallError::TooLate { within }).await;
                        return Err(late);
                    }
                },
                Err(e) => Err(e),
            };
            match result {
                Ok(result) => return Ok(result),
                Err(ServiceError::McpError(e)) if !is_cut_stream(e.code.0, &e.message) => {
                    return Err(ClientError::Refused { what, why: foreign(&e.message) });
                }
                Err(error) => {
                    let why = current.fault.why().unwrap_or_else(|| innermost(&error));
                    let is_lost = self.note_lost(&error, &current);
                    if !is_lost || attempt == LIST_ATTEMPTS || self.options.attempts == Some(0) {
                        return Err(ClientError::Lost(format!("{why}, in place of an answer to {what}")));
                    }
                    attempt += 1;
                }
            }
        }
    }

    /// Takes notice of an error that ends a connection: another one is made. Whether it is such an error.
    fn note_lost(&self, error: &ServiceError, of: &Current) -> bool {
        let is_lost = match error {
            ServiceError::TransportClosed => true,
            ServiceError::TransportSend(e) => match e.error.downcast_ref::<HttpError>() {
                Some(
                    HttpError::Client(_) | HttpError::SessionExpired | HttpError::TransportChannelClosed,
                ) => true,
                Some(_) => false,
                None => true,
            },
            _ => false,
        };
        if is_lost {
            of.fault.note(innermost(error));
            // The next caller must not get this connection again, even before its end is seen.
            let mut current = locked(&self.current);
            if current.as_ref().is_some_and(|current| current.fault.is(&of.fault)) {
                *current = None;
                self.set(State::Disconnected);
                of.lost.cancel();
            }
        }
        is_lost
    }

    fn call_error(&self, error: &ServiceError, current: &Current) -> CallError {
        let why = || current.fault.why().unwrap_or_else(|| innermost(error));
        match error {
            ServiceError::McpError(e) if is_cut_stream(e.code.0, &e.message) => {
                CallError::Unknown("the answer's stream ended without it".to_owned())
            }
            ServiceError::McpError(e) => CallError::Refused { code: e.code.0, message: foreign(&e.message) },
            ServiceError::TransportSend(e) => {
                self.note_lost(error, current);
                match e.error.downcast_ref::<HttpError>().map(http_client::of) {
                    Some((Kind::NotDone, why)) => CallError::NotSent(why),
                    Some((Kind::MayBeDone, why)) => CallError::Unknown(why),
                    None => CallError::Unknown(why()),
                }
            }
            _ => {
                self.note_lost(error, current);
                CallError::Unknown(why())
            }
        }
    }
}

/// Waits for the end of a connection and makes the next one, until the client is closed or gives up.
async fn supervise(inner: Arc<Inner>, mut established: Established) {
    let mut attempt = 0;
    loop {
        let begun = Instant::now();
        let Established { service, current, process } = established;
        let cut = service.cancellation_token();
        let mut waiting = Box::pin(service.waiting());
        let (is_over, is_stopped) = tokio::select! {
            _ = &mut waiting => (true, false),
            () = current.lost.cancelled() => (false, false),
            () = inner.stop.cancelled() => (false, true),
        };
        cut.cancel();
        if !is_over {
            let _ = timeout(FAREWELL, waiting).await;
        }
        let status = match process {
            Some(process) => process.end().await,
            None => None,
        };
        *locked(&inner.current) = None;
        if is_stopped {
            break;
        }
        let status = status.map_or_else(String::new, |status| format!(" ({status})"));
        let mut why = format!(
            "{}{status}",
            current.fault.why().unwrap_or_else(|| "the connection was lost".to_owned())
        );
        let mut error = ClientError::Lost(why.clone());
        attempt = behind(attempt, begun.elapsed());
        let mut in_a_row = 0;
        established = loop {
            if inner.options.attempts.is_some_and(|most| in_a_row >= most) {
                inner.give_up(error);
                inner.ended.cancel();
                return;
            }
            let retry_in = inner.options.backoff.delay(attempt);
            inner.set(State::Disconnected);
            let _ = inner.events.send(Event::Disconnected { why, retry_in: Some(retry_in) });
            (attempt, in_a_row) = (attempt.saturating_add(1), in_a_row + 1);
            tokio::select! {
                () = sleep(retry_in) => {}
                () = inner.stop.cancelled() => { inner.set(State::Disconnected); inner.ended.cancel(); return }
            }
            inner.set(State::Connecting);
            let next = tokio::select! {
                next = inner.establish() => next,
                () = inner.stop.cancelled() => { inner.set(State::Disconnected); inner.ended.cancel(); return }
            };
            match next {
                Ok(next) => break next,
                Err(e) => (why, error) = (e.to_string(), e),
            }
        };
        inner.begin(&established);
    }
    inner.set(State::Disconnected);
    let _ = inner.events.send(Event::Disconnected { why: "closed".to_owned(), retry_in: None });
    inner.ended.cancel();
}
