//! Serves a connection to routes, by a base URL or by interception: each request is judged, sent over TLS with the secret, and answered
//! without it.

use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::timeout;

use crate::admitted::Admitted;
use crate::coming::Coming;
use crate::end::End;
use crate::error::ConnectError;
use crate::host::Host;
use crate::http::{self, Body};
use crate::ledger::{Operation, UNREADABLE};
use crate::proxy::Shared;
use crate::quota::OverLimit;
use crate::record::{Counted, Moved};
use crate::route::Route;
use crate::route::head::{self, Answer, Asked, Authority, Framing, Wrong};
use crate::route::held::Held;
use crate::route::tls::{HostStream, Offer};
use crate::rule::Place;
use crate::stream::{Input, Rest, at_once};

/// Time that a connection stays open without a request: longer than between two requests of a client that keeps it.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for the answer of a host that has stopped reading a request.
pub(crate) const EARLY_ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Time for a client to read a refusal before the rest of its request closes the connection in its face.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection of HTTP/1 to the host of a route.
pub(crate) struct Upstream {
    pub route: usize,
    pub answers: Input<ReadHalf<HostStream>>,
    pub requests: WriteHalf<HostStream>,
}

impl Upstream {
    /// A connection that was opened for a route.
    pub fn new(route: usize, tls: HostStream) -> Self {
        let (answers, requests) = tokio::io::split(tls);
        Self { route, answers: Input::new(answers), requests }
    }

    /// Whether the host has neither closed the connection meanwhile, nor sent an answer without a request.
    pub async fn is_usable(&mut self) -> bool {
        self.answers.held().is_empty() && at_once(self.answers.more()).await.is_none()
    }

    /// Sends a request's head.
    async fn send(&mut self, head: &[u8]) -> io::Result<()> {
        self.requests.write_all(head).await?;
        self.requests.flush().await
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
                    self.unreadable(server, &wrong);
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

    /// Counts a request that cannot be read.
    pub(crate) fn unreadable(&self, server: Authority<'_>, wrong: &Wrong) {
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
        let admitted = match self.admit(server, asked) {
            Ok(admitted) => admitted,
            Err((status, why)) => {
                say(back, status, &why).await?;
                return Ok(false);
            }
        };
        let moved = Moved::default();
        let mut status = None;
        let ended = self.exchange(&admitted, asked, client, back, upstream, &moved, &mut status).await;
        self.ended(admitted, &asked.method, ended.as_ref().map(drop), &moved, status);
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

    /// Opens a connection of HTTP/1 to a route's host.
    async fn open(&self, number: usize) -> Result<Upstream, End> {
        self.tls(number, Offer::One).await.map(|tls| Upstream::new(number, tls))
    }

    /// Opens TLS to a route's host.
    pub(crate) async fn tls(&self, number: usize, offer: Offer) -> Result<HostStream, End> {
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
        let tls = timeout(self.limits.connect, route.trust().connect_for(stream, &binding.host, offer)).await;
        let why = match tls {
            Ok(Ok(tls)) => return Ok(tls),
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
        admitted: &Admitted,
        asked: &Asked,
        client: &mut Input<impl AsyncRead + Unpin + Send>,
        back: &mut (impl AsyncWrite + Unpin + Send),
        upstream: &mut Option<Upstream>,
        moved: &Moved,
        status: &mut Option<u16>,
    ) -> Result<bool, End> {
        let Admitted { number, ref path, .. } = *admitted;
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
            let plan = self.signable(scope, of_ours, max_body).await?;
            if let Some(place) = plan {
                if asked.is_current && asked.values("expect").next().is_some() {
                    back.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
                    back.flush().await?;
                }
                stored = Some(place.store(of_ours, &mut Coming::One(client, Rest::from(asked.body))).await?);
            }
        }
        let asked = signed.as_ref().unwrap_or(asked);
        let kept = upstream.take().filter(|kept| kept.route == number);
        let request = head::for_host(route, &held, asked, path);
        let mut open = self.begun(number, kept, asked, &request).await?;
        // An answer may be there before the body is looked at; a request without one is whole then, too, and the connections stay open.
        let whole = AtomicBool::new(asked.body == Body::Length(0));
        let answered = {
            let Upstream { answers, requests, .. } = &mut open;
            let sending = async {
                let mut to = Counted::new(&mut *requests, &moved.sent);
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
            let answering = self.answer((route, &held), asked, path, answers, back, moved, status);
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

    /// Sends a request's head over the connection that was kept, if the host has not closed it, and over a new one otherwise.
    pub(crate) async fn begun(
        &self,
        number: usize,
        kept: Option<Upstream>,
        asked: &Asked,
        head: &[u8],
    ) -> Result<Upstream, End> {
        self.budget.spend(head.len())?;
        if let Some(mut open) = kept
            && open.is_usable().await
        {
            let again = asked.body == Body::Length(0) && matches!(asked.method.as_str(), "GET" | "HEAD");
            match open.send(head).await {
                Ok(()) => return Ok(open),
                // It closed at this moment, and has not answered.
                Err(_) if again => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut open = self.open(number).await?;
        open.send(head).await?;
        Ok(open)
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
        moved: &Moved,
        status: &mut Option<u16>,
    ) -> Result<(bool, bool), End> {
        let answer: Answer = loop {
            let answer = answer_of(answers, route, asked).await?;
            if !answer.interim {
                break answer;
            }
            if answer.status == 100 && asked.is_current {
                back.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
                back.flush().await?;
            }
        };
        *status = Some(answer.status);
        readable(&answer, route, held)?;
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
            moved.received.fetch_add(piece.len() as u64, Ordering::Relaxed);
            chunk(back, framing, &redactor.next(piece)).await?;
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

/// Reads the head of an answer, which may be an interim one.
pub(crate) async fn answer_of(
    answers: &mut Input<impl AsyncRead + Unpin>,
    route: &Route,
    asked: &Asked,
) -> Result<Answer, End> {
    let host = &route.binding().host;
    match answers.until(|bytes| head::answer(bytes, asked.method == "HEAD")).await {
        Ok(Some(Ok(answer))) => Ok(answer),
        Ok(Some(Err(_))) => Err(End::Said("502 Bad Gateway", format!("{host} sent no answer of HTTP/1"))),
        Ok(None) | Err(_) => {
            Err(End::Said("502 Bad Gateway", format!("{host} ended the connection without an answer")))
        }
    }
}

/// Checks that an answer can be looked through for the value.
///
/// # Errors
/// [`End::Said`] for a compressed body. Keys that sign are not sent, so an answer cannot repeat them.
pub(crate) fn readable(answer: &Answer, route: &Route, held: &Held) -> Result<(), End> {
    if !answer.is_encoded || held.signs().is_some() {
        return Ok(());
    }
    let why = format!(
        "{} answered with a compressed body, although that was not asked for: it cannot be looked through \
         for the secret {}",
        route.binding().host,
        route.name()
    );
    Err(End::Said("502 Bad Gateway", why))
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
