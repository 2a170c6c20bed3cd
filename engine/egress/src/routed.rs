//! Serves a connection to routes, by a base URL or by interception: each request is judged, sent over TLS with the secret, and answered
//! without it.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, SystemTime};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use crate::error::ConnectError;
use crate::host::Host;
use crate::http::{self, Body};
use crate::judge::Judged;
use crate::ledger::{Operation, UNREADABLE};
use crate::limit::Counter;
use crate::proxy::Shared;
use crate::quota::OverLimit;
use crate::record::Counted;
use crate::route::Route;
use crate::route::head::{self, Answer, Asked, Authority, Framing};
use crate::route::held::Held;
use crate::route::records::{Ending, Request, without_values};
use crate::route::rules::Verdict;
use crate::route::within;
use crate::rule::Place;
use crate::stream::{Input, Rest};

/// Time that a connection stays open without a request: longer than between two requests of a client that keeps it.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for the answer of a host that has stopped reading a request.
const EARLY_ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Time for a client to read a refusal before the rest of its request closes the connection in its face.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection to the host of a route.
struct Upstream {
    route: usize,
    answers: Input<ReadHalf<TlsStream<TcpStream>>>,
    requests: WriteHalf<TlsStream<TcpStream>>,
}

/// Why a request has no complete answer.
pub(crate) enum End {
    /// Nothing was written to the client yet: it is told this status and sentence.
    Said(&'static str, String),
    /// Its body is beyond a limit.
    Over(OverLimit),
    /// The connection to the client or the host failed on the way.
    Io(io::Error),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Shared {
    /// Reads until the first request of a client tells whether its target is a path.
    pub(crate) async fn asks_for_a_route(
        &self,
        client: &mut Input<impl AsyncRead + Unpin>,
    ) -> io::Result<bool> {
        let told = |bytes: &[u8]| {
            head::is_path(bytes).map(|is| (is, 0)).map_or(Ok(None), |is| Ok::<_, ()>(Some(is)))
        };
        match timeout(self.limits.head, client.until(told)).await.unwrap_or(Ok(None))? {
            Some(Ok(is)) => Ok(is),
            _ => Ok(false),
        }
    }

    /// Serves a client's requests to a server, one after the other, until one of both ends the connection.
    pub(crate) async fn routed(
        &self,
        mut client: Input<impl AsyncRead + Unpin + Send>,
        mut back: impl AsyncWrite + Unpin + Send,
        server: Authority<'_>,
    ) -> io::Result<()> {
        let mut upstream = None;
        let mut patience = self.limits.head;
        loop {
            let read = timeout(patience, client.until(|bytes| head::request(bytes, server))).await;
            let asked = match read.unwrap_or(Ok(None))? {
                None => return back.shutdown().await,
                Some(Ok(asked)) => asked,
                Some(Err(wrong)) => {
                    match server {
                        Authority::Loopback(_) => {
                            let why = format!("a request to a secret's base URL: {wrong}");
                            self.deny(Operation::Http, UNREADABLE, Some(why))
                        }
                        Authority::Host(host, port) => {
                            let why = format!("a request within TLS: {wrong}");
                            self.deny(Operation::Http, &format!("{host}:{port}"), Some(why))
                        }
                    };
                    say(&mut back, wrong.status(), &wrong.to_string()).await?;
                    return close(&mut client, &mut back).await;
                }
            };
            patience = IDLE_TIMEOUT;
            if !self.one(server, &asked, &mut client, &mut back, &mut upstream).await? {
                return close(&mut client, &mut back).await;
            }
        }
    }

    /// The number of the route that a request is for, and the path at its host; else status and sentence.
    fn chosen(
        &self,
        server: Authority<'_>,
        asked: &Asked,
    ) -> Result<(usize, String), (&'static str, String)> {
        match server {
            Authority::Loopback(_) => {
                let (name, rest) = head::split_name(&asked.path);
                if let Some(number) = self.routes.iter().position(|route| route.name() == name) {
                    return Ok((number, head::path_at(&self.routes[number], rest)));
                }
                let known: Vec<&str> = self.routes.iter().map(Route::name).collect();
                let why = "no secret of the run has that name".to_owned();
                self.deny(Operation::Http, "a secret's base URL", Some(why));
                let there = known.join(", ");
                Err(("404 Not Found", format!("no secret of this run has this name; there are: {there}")))
            }
            Authority::Host(host, port) => {
                let covered =
                    |route: &Route| self.authority.as_ref().is_some_and(|authority| authority.covers(route));
                let here = |route: &Route| {
                    let binding = route.binding();
                    binding.host == host && binding.port == port && covered(route)
                };
                let routes = self.routes.iter().enumerate().filter(|(_, route)| here(route));
                within::chosen(routes, &asked.path).map(|number| (number, asked.path.clone())).map_err(
                    |why| {
                        let shown = without_values(&asked.path, asked.query.as_deref());
                        let row = format!("{} {shown}: {why}", asked.method);
                        self.deny(Operation::Http, &format!("{host}:{port}"), Some(row));
                        (
                            "403 Forbidden",
                            format!("{} of this path is not allowed at {host}: {why}", asked.method),
                        )
                    },
                )
            }
        }
    }

    /// Serves one request; returns whether the connection stays open.
    async fn one(
        &self,
        server: Authority<'_>,
        asked: &Asked,
        client: &mut Input<impl AsyncRead + Unpin + Send>,
        back: &mut (impl AsyncWrite + Unpin + Send),
        upstream: &mut Option<Upstream>,
    ) -> io::Result<bool> {
        let (number, path) = match self.chosen(server, asked) {
            Ok(chosen) => chosen,
            Err((status, why)) => {
                say(back, status, &why).await?;
                return Ok(false);
            }
        };
        let route = &self.routes[number];
        let name = route.name();
        let mut row = self.row(route, asked, &path);
        let at = self.requests().begin(row.clone());
        let rule = match head::judge(route, &asked.method, &path) {
            Verdict::Allowed(rule) => rule,
            Verdict::Denied(rule) => {
                (row.ending, row.rule) = (Ending::Denied, rule.clone());
                self.requests().end(at, row.clone());
                let why = format!("{} {} for the secret {name}: {rule}", asked.method, row.path);
                self.deny(Operation::Http, &row.host, Some(why));
                let why =
                    format!("{} of this path is not allowed for the secret {name}: {rule}", asked.method);
                say(back, "403 Forbidden", &why).await?;
                return Ok(false);
            }
        };
        if let Err((status, why)) = self.within(number, asked, &path) {
            (row.ending, row.rule) = (Ending::Denied, why.clone());
            self.requests().end(at, row.clone());
            self.deny(
                Operation::Http,
                &row.host,
                Some(format!("{} {} for the secret {name}: {why}", asked.method, row.path)),
            );
            say(
                back,
                status,
                &format!("{} of this path is not allowed for the secret {name}: {why}", asked.method),
            )
            .await?;
            return Ok(false);
        }
        row.rule = rule;
        let (sent, received) = (AtomicU64::new(0), AtomicU64::new(0));
        let counted = (&sent, &received);
        let mut status = None;
        let ended = self.exchange(number, asked, &path, client, back, upstream, counted, &mut status).await;
        (row.status, row.sent, row.received) =
            (status, sent.load(Ordering::Relaxed), received.load(Ordering::Relaxed));
        row.ending = match &ended {
            Ok(_) => Ending::Answered,
            Err(End::Over(_)) => Ending::Denied,
            Err(_) => Ending::Failed,
        };
        match &ended {
            Err(End::Said(_, why)) => row.rule.clone_from(why),
            Err(End::Over(over)) => {
                row.rule.clone_from(&over.why);
                let why = format!("{} {} for the secret {name}: {}", asked.method, row.path, over.why);
                self.deny(Operation::Http, &row.host, Some(why));
            }
            Err(End::Io(error)) => row.rule = format!("the connection ended: {error}"),
            Ok(_) => {}
        }
        self.requests().end(at, row);
        match ended {
            Ok(keeps) => Ok(keeps),
            Err(End::Io(error)) => Err(error),
            // An answer that has begun is cut off.
            Err(End::Over(_)) if status.is_some() => Ok(false),
            Err(End::Over(over)) => {
                say(back, over.status, &over.why).await?;
                Ok(false)
            }
            Err(End::Said(status, why)) => {
                say(back, status, &why).await?;
                Ok(false)
            }
        }
    }

    /// Checks a request by the rules of the network, which also hold for hosts of secrets, and by the limits of both; else status and
    /// sentence.
    fn within(&self, number: usize, asked: &Asked, path: &str) -> Result<(), (&'static str, String)> {
        let route = &self.routes[number];
        let binding = route.binding();
        let host = Host::Name(binding.host.clone());
        let over = |over: OverLimit| (over.status, over.why);
        match self.allow.judge(&host, binding.port, &asked.method, path) {
            Judged::Denied(why) => return Err(("403 Forbidden", why)),
            Judged::Allowed(rule, by) => {
                self.count(Counter::Rule(rule), by.conditions.limits, asked.body).map_err(over)?;
            }
            // The secret's own binding is the rule.
            Judged::Unlisted => {}
        }
        self.count(Counter::Route(number), route.rules().limits(), asked.body).map_err(over)
    }

    /// Largest body of a request that the rules of the network and of the secret allow.
    fn max_body(&self, number: usize, asked: &Asked, path: &str) -> Option<u64> {
        let route = &self.routes[number];
        let binding = route.binding();
        let host = Host::Name(binding.host.clone());
        let by_network = match self.allow.judge(&host, binding.port, &asked.method, path) {
            Judged::Allowed(_, rule) => rule.conditions.limits.max_body,
            Judged::Denied(_) | Judged::Unlisted => None,
        };
        by_network.into_iter().chain(route.rules().limits().max_body).min()
    }

    fn row(&self, route: &Route, asked: &Asked, path: &str) -> Request {
        let binding = route.binding();
        let mut path = without_values(path, asked.query.as_deref()).into_bytes();
        route.held().spellings().mask(&mut path);
        Request {
            at: SystemTime::now(),
            secret: route.name().to_owned(),
            host: format!("{}:{}", binding.host, binding.port),
            method: asked.method.clone(),
            path: String::from_utf8_lossy(&path).into_owned(),
            status: None,
            sent: 0,
            received: 0,
            rule: String::new(),
            ending: Ending::Unfinished,
        }
    }

    /// Opens a connection to a route's host.
    async fn open(&self, number: usize) -> Result<Upstream, End> {
        let route = &self.routes[number];
        let binding = route.binding();
        let host = Host::Name(binding.host.clone());
        // A rule of the run's list says where the host is, if there is one; the addresses are checked either way.
        let place = self.allow.place(&host, binding.port).unwrap_or(Place::Resolve);
        let stream =
            self.connect_at(Operation::Http, &host, binding.port, place).await.map_err(|e| match e {
                ConnectError::Denied(why) => End::Said("403 Forbidden", why),
                ConnectError::Unreachable(why) => End::Said("502 Bad Gateway", why),
            })?;
        let tls = timeout(self.limits.connect, route.trust().connect(stream, &binding.host)).await;
        let why = match tls {
            Ok(Ok(tls)) => {
                let (answers, requests) = tokio::io::split(tls);
                return Ok(Upstream { route: number, answers: Input::new(answers), requests });
            }
            Ok(Err(why)) => why,
            Err(_) => "TLS was not set up in time".to_owned(),
        };
        let target = format!("{}:{}", binding.host, binding.port);
        self.note(Operation::Tls, format!("{target} (it is allowed, and not reached: {why})"));
        Err(End::Said("502 Bad Gateway", format!("{target}: {why}; nothing was sent")))
    }

    /// Sends a request and passes the answer on; returns whether the client's connection stays open.
    #[expect(clippy::too_many_arguments, reason = "two connections, and the places for what is counted")]
    async fn exchange(
        &self,
        number: usize,
        asked: &Asked,
        path: &str,
        client: &mut Input<impl AsyncRead + Unpin + Send>,
        back: &mut (impl AsyncWrite + Unpin + Send),
        upstream: &mut Option<Upstream>,
        counted: (&AtomicU64, &AtomicU64),
        status: &mut Option<u16>,
    ) -> Result<bool, End> {
        let route = &self.routes[number];
        let max_body = self.max_body(number, asked, path);
        let held = route
            .fresh()
            .await
            .map_err(|why| End::Said("502 Bad Gateway", format!("{why}; nothing was sent")))?;
        let mut signed = None;
        let mut stored = None;
        if let Some(scope) = held.signs() {
            let of_ours = signed.insert(asked.clone());
            stored = self.signable(scope, of_ours, max_body, client, back).await?;
        }
        let asked = signed.as_ref().unwrap_or(asked);
        // The host may have closed the connection meanwhile, or sent an answer without a request.
        let mut kept = upstream.take().filter(|kept| kept.route == number && kept.answers.held().is_empty());
        if let Some(open) = &mut kept
            && is_ready(open.answers.more()).await
        {
            kept = None;
        }
        let again = kept.is_some()
            && asked.body == Body::Length(0)
            && matches!(asked.method.as_str(), "GET" | "HEAD");
        let mut open = match kept {
            Some(open) => open,
            None => self.open(number).await?,
        };
        let request = head::for_host(route, &held, asked, path);
        self.budget.spend(request.len())?;
        let first = match send(&mut open, &request).await {
            // It closed at this moment, and has not answered.
            Err(_) if again => {
                open = self.open(number).await?;
                send(&mut open, &request).await
            }
            first => first,
        };
        first?;
        // An answer may be there before the body is looked at; a request without one is whole then, too, and the connections stay open.
        let whole = AtomicBool::new(asked.body == Body::Length(0));
        let answered = {
            let Upstream { answers, requests, .. } = &mut open;
            let sending = async {
                let mut to = Counted::new(&mut *requests, counted.0);
                match &stored {
                    Some(stored) => {
                        self.budget.spend(stored.bytes.len())?;
                        to.write_all(&stored.bytes).await?;
                    }
                    None => client.copy_within(asked.body, max_body, &mut to, &self.budget).await?,
                }
                to.flush().await?;
                whole.store(true, Ordering::Relaxed);
                // The answer ends the exchange, even if it comes before the whole request is sent.
                std::future::pending::<io::Result<()>>().await
            };
            let answering = self.answer((route, &held), asked, path, answers, back, counted.1, status);
            let (mut sending, mut answering) = (pin!(sending), pin!(answering));
            let ended = tokio::select! {
                biased;
                answered = &mut answering => answered,
                failed = &mut sending => match failed.err().unwrap_or_else(|| io::ErrorKind::TimedOut.into()) {
                    over if over.kind() == io::ErrorKind::FileTooLarge => {
                        Err(End::Over(OverLimit::body(max_body.unwrap_or_default())))
                    }
                    error => match timeout(EARLY_ANSWER_TIMEOUT, &mut answering).await {
                        Ok(answered) => answered,
                        Err(_) => Err(error.into()),
                    },
                },
            };
            ended
        };
        let (client_keeps, host_keeps) = answered?;
        let whole = whole.load(Ordering::Relaxed);
        if host_keeps && whole {
            *upstream = Some(open);
        }
        Ok(client_keeps && whole)
    }

    /// Passes an answer on; returns whether the client's connection, and the host's, stay open.
    #[expect(clippy::too_many_arguments, reason = "two connections, and the places for what is counted")]
    async fn answer(
        &self,
        (route, held): (&Route, &Held),
        asked: &Asked,
        path: &str,
        answers: &mut Input<impl AsyncRead + Unpin + Send>,
        back: &mut (impl AsyncWrite + Unpin + Send),
        received: &AtomicU64,
        status: &mut Option<u16>,
    ) -> Result<(bool, bool), End> {
        let host = &route.binding().host;
        let answer: Answer = loop {
            let read = answers.until(|bytes| head::answer(bytes, asked.method == "HEAD")).await;
            let answer = match read {
                Ok(Some(Ok(answer))) => answer,
                Ok(Some(Err(_))) => {
                    return Err(End::Said("502 Bad Gateway", format!("{host} sent no answer of HTTP/1")));
                }
                Ok(None) | Err(_) => {
                    return Err(End::Said(
                        "502 Bad Gateway",
                        format!("{host} ended the connection without an answer"),
                    ));
                }
            };
            if !answer.interim {
                break answer;
            }
            if answer.status == 100 && asked.is_current {
                back.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
                back.flush().await?;
            }
        };
        *status = Some(answer.status);
        // Keys that sign are not sent, so an answer cannot repeat them.
        if answer.is_encoded && held.signs().is_none() {
            let why = format!(
                "{host} answered with a compressed body, although that was not asked for: it cannot be looked through \
                 for the secret {}",
                route.name()
            );
            return Err(End::Said("502 Bad Gateway", why));
        }
        let framing = match answer.body {
            Body::Length(length) => Framing::Length(length),
            Body::Chunked | Body::Close if asked.is_current => Framing::Chunked,
            Body::Chunked | Body::Close => Framing::Close,
        };
        let keeps = asked.keeps && framing != Framing::Close;
        let written = head::for_client((route, held), asked, path, &answer, framing, keeps);
        self.budget.spend(written.len())?;
        back.write_all(&written).await?;
        // TLS may hold bytes back, and the body may come much later.
        back.flush().await?;
        let mut rest = Rest::from(answer.body);
        let mut redactor = held.spellings().stream();
        while let Some(piece) = answers.piece(&mut rest).await? {
            self.budget.spend(piece.len())?;
            received.fetch_add(piece.len() as u64, Ordering::Relaxed);
            chunk(back, framing, &redactor.next(&piece)).await?;
            back.flush().await?;
        }
        chunk(back, framing, &redactor.end()).await?;
        if framing == Framing::Chunked {
            back.write_all(b"0\r\n\r\n").await?;
        }
        back.flush().await?;
        Ok((keeps, answer.keeps))
    }
}

/// Ends a connection so that the client can read the last answer.
async fn close(
    client: &mut Input<impl AsyncRead + Unpin>,
    back: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    back.shutdown().await?;
    let _ = timeout(LINGER_TIMEOUT, drain(client)).await;
    Ok(())
}

/// Reads and drops what a client still sends, up to 1 MiB.
async fn drain(client: &mut Input<impl AsyncRead + Unpin>) {
    let mut left = 1_usize << 20;
    while left > 0 && client.more().await.unwrap_or(false) {
        let length = client.held().len();
        client.take(length);
        left = left.saturating_sub(length);
    }
}

/// Whether a future is ready when it is polled once. A time limit of zero would wait for the timer's next tick, which is a millisecond.
async fn is_ready(future: impl Future) -> bool {
    let mut future = pin!(future);
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await
}

/// Sends a request's head.
async fn send(open: &mut Upstream, head: &[u8]) -> io::Result<()> {
    open.requests.write_all(head).await?;
    open.requests.flush().await
}

/// Writes a piece of an answer's body.
async fn chunk(back: &mut (impl AsyncWrite + Unpin), framing: Framing, piece: &[u8]) -> io::Result<()> {
    match framing {
        // An empty chunk would be the last one.
        _ if piece.is_empty() => Ok(()),
        Framing::Chunked => {
            let mut framed = format!("{:x}\r\n", piece.len()).into_bytes();
            framed.extend_from_slice(piece);
            framed.extend_from_slice(b"\r\n");
            back.write_all(&framed).await
        }
        Framing::Length(_) | Framing::Close => back.write_all(piece).await,
    }
}

async fn say(back: &mut (impl AsyncWrite + Unpin), status: &str, why: &str) -> io::Result<()> {
    back.write_all(&http::refusal(status, why)).await?;
    back.flush().await
}
