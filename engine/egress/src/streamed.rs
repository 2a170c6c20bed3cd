//! Sends the request of a stream to the host of its secret, over HTTP/2 or HTTP/1.1, and passes the answer on.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::Response;
use http::header::CONTENT_LENGTH;
use tokio::io::{AsyncWrite, AsyncWriteExt, ReadHalf};
use tokio::time::timeout;

use crate::admitted::Admitted;
use crate::coming::{Coming, failed};
use crate::end::End;
use crate::hosts::{Hosts, Open};
use crate::http::Body;
use crate::kept::Kept;
use crate::proxy::Shared;
use crate::quota::OverLimit;
use crate::record::Moved;
use crate::route::Route;
use crate::route::head::http2::{self, Streamed};
use crate::route::head::{self, Answer, Asked, Framing};
use crate::route::held::Held;
use crate::route::tls::HostStream;
use crate::routed::{EARLY_ANSWER_TIMEOUT, Upstream, answer_of, readable};
use crate::storing::Stored;
use crate::stream::{Input, Rest};
use crate::streams::reset;

/// Reading side of a connection to a host.
type Answers = ReadHalf<HostStream>;

/// Secret and request of a stream.
#[derive(Clone, Copy)]
struct Use<'a> {
    route: &'a Route,
    held: &'a Held,
    asked: &'a Asked,
    path: &'a str,
    trailers: bool,
}

/// A request on its way: the value as it is now, the request as it is sent, and its body if that was read.
struct Prepared<'a> {
    held: Arc<Held>,
    signed: Option<Asked>,
    stored: Option<Stored<'a>>,
    open: Open,
}

impl Shared {
    /// Sends a stream's request and passes the answer on.
    pub(crate) async fn streamed(
        &self,
        hosts: &Hosts,
        admitted: &Admitted,
        streamed: &Streamed,
        (body, respond): (&mut RecvStream, &mut SendResponse<Bytes>),
        moved: &Moved,
        status: &mut Option<u16>,
    ) -> Result<(), End> {
        let Admitted { number, ref path, .. } = *admitted;
        let _place = tokio::select! {
            biased;
            end = reset(respond) => return Err(end),
            place = self.working.acquire() => place.map_err(|_| End::Io(io::ErrorKind::Other.into()))?,
        };
        if streamed.waits {
            let mut interim = Response::new(());
            *interim.status_mut() = http::StatusCode::CONTINUE;
            respond.send_informational(interim).map_err(|error| failed(&error))?;
        }
        let max_body = self.max_body(number, &streamed.asked, path);
        let Prepared { held, signed, stored, mut open } = tokio::select! {
            biased;
            end = reset(respond) => return Err(end),
            prepared = self.prepare(hosts, number, streamed, max_body, body) => prepared?,
        };
        let asked = signed.as_ref().unwrap_or(&streamed.asked);
        let using =
            Use { route: &self.routes[number], held: &held, asked, path, trailers: streamed.trailers };
        let head = head::for_host(using.route, using.held, asked, path);
        let mut body = match &stored {
            Some(stored) => Leaving::Stored { all: &stored.bytes, left: &stored.bytes },
            None => Leaving::Stream { stream: body, kept: Kept::new() },
        };
        let mut may_repeat = true;
        loop {
            let (open_two, connection) = match open {
                Open::Two(open_two, connection) => (open_two, connection),
                Open::One(kept) => {
                    body.stop_keeping();
                    let mut open = self.begun(number, kept, asked, &head).await?;
                    let Upstream { answers, requests, .. } = &mut open;
                    let sending = send_one(&mut body, asked.body, max_body, requests, moved);
                    let answering = async {
                        let answer = tokio::select! {
                            biased;
                            end = reset(respond) => return Err(end),
                            answer = last_answer(answers, using.route, asked) => answer?,
                        };
                        let rest = Rest::from(answer.body);
                        self.hand_on(using, &answer, Coming::One(answers, rest), respond, moved, status)
                            .await?;
                        Ok(answer.keeps)
                    };
                    let (keeps, is_whole) = both(sending, answering, max_body).await?;
                    if keeps && is_whole {
                        hosts.keep(open);
                    }
                    return Ok(());
                }
            };
            self.budget.spend(head.len())?;
            let is_safe = AtomicBool::new(false);
            let lost = |error: &h2::Error, is_unprocessed: bool| {
                is_safe.store(is_unprocessed, Ordering::Relaxed);
                unanswered(using.route, error)
            };
            let ended = async {
                let begun = begin_two(open_two, &head, asked.body == Body::Length(0), using)?;
                // Nothing was sent on a connection that has ended.
                let (answer, to) =
                    begun.map_err(|error| lost(&error, error.is_io() || is_unprocessed(&error)))?;
                let sending = send_two(&mut body, max_body, to, moved);
                let answering = async {
                    let response = tokio::select! {
                        biased;
                        end = reset(respond) => return Err(end),
                        (response, is_begun) = answer_two(answer) => response
                            .map_err(|error| lost(&error, !is_begun && is_unprocessed(&error)))?,
                    };
                    let (parts, mut body) = response.into_parts();
                    let answer = http2::answer(&parts, body.is_end_stream(), asked.method == "HEAD");
                    let answer = answer.map_err(|_| {
                        let why = format!("{} sent no answer of HTTP/2", using.route.binding().host);
                        End::Said("502 Bad Gateway", why)
                    })?;
                    self.hand_on(using, &answer, Coming::Two(&mut body), respond, moved, status).await
                };
                both(sending, answering, max_body).await.map(drop)
            }
            .await;
            if ended.is_ok() || !may_repeat || !is_safe.into_inner() {
                return ended;
            }
            let Some(again) = body.begin_again() else { return ended };
            self.budget.spend(again)?;
            may_repeat = false;
            open = tokio::select! {
                biased;
                end = reset(respond) => return Err(end),
                open = self.way_to(hosts, number, Some(connection)) => open?,
            };
        }
    }

    /// Fetches the value, reads the body where it is signed whole, and finds a way to the host.
    async fn prepare(
        &self,
        hosts: &Hosts,
        number: usize,
        streamed: &Streamed,
        max_body: Option<u64>,
        body: &mut RecvStream,
    ) -> Result<Prepared<'_>, End> {
        let held = self.routes[number]
            .fresh()
            .await
            .map_err(|why| End::Said("502 Bad Gateway", format!("{why}; nothing was sent")))?;
        let (mut signed, mut stored) = (None, None);
        if let Some(scope) = held.signs() {
            let of_ours = signed.insert(streamed.asked.clone());
            if let Some(room) = self.signable(scope, of_ours, max_body).await? {
                stored = Some(room.store(of_ours, &mut Coming::<Answers>::Two(body)).await?);
            }
        }
        let open = self.way_to(hosts, number, None).await?;
        Ok(Prepared { held, signed, stored, open })
    }

    /// Passes an answer on to the client's stream; one that cannot be ended is reset.
    async fn hand_on(
        &self,
        using: Use<'_>,
        answer: &Answer,
        coming: Coming<'_, Answers>,
        respond: &mut SendResponse<Bytes>,
        moved: &Moved,
        status: &mut Option<u16>,
    ) -> Result<(), End> {
        readable(answer, using.route, using.held)?;
        let framing = match answer.body {
            Body::Length(length) => Framing::Length(length),
            Body::Chunked | Body::Close => Framing::Chunked,
        };
        let head =
            head::for_client((using.route, using.held), using.asked, using.path, answer, framing, true);
        let mut response = http2::for_client(&head).ok_or_else(|| {
            let why = format!("the head of {}'s answer has no form in HTTP/2", using.route.binding().host);
            End::Said("502 Bad Gateway", why)
        })?;
        let is_without = framing == Framing::Length(0);
        // The end of the stream says it.
        if is_without && using.asked.method != "HEAD" && answer.status != 304 {
            response.headers_mut().remove(CONTENT_LENGTH);
        }
        self.budget.spend(head.len())?;
        *status = Some(answer.status);
        let mut to = respond.send_response(response, is_without).map_err(|error| failed(&error))?;
        if is_without {
            return Ok(());
        }
        let ended = self.hand_on_body(using, coming, &mut to, moved).await;
        if ended.is_err() {
            to.send_reset(Reason::INTERNAL_ERROR);
        }
        Ok(ended?)
    }

    async fn hand_on_body(
        &self,
        using: Use<'_>,
        mut coming: Coming<'_, Answers>,
        to: &mut SendStream<Bytes>,
        moved: &Moved,
    ) -> io::Result<()> {
        let (mut redactor, mut failure) = (using.held.spellings().stream(), None);
        loop {
            let piece = tokio::select! {
                biased;
                _ = poll_fn(|context| to.poll_reset(context)) => return Err(io::ErrorKind::ConnectionReset.into()),
                piece = coming.pieces(&mut failure) => piece?,
            };
            let Some(piece) = piece else { break };
            self.budget.spend(piece.len())?;
            moved.received.fetch_add(piece.len() as u64, Ordering::Relaxed);
            give(to, redactor.next(piece).into()).await?;
        }
        give(to, redactor.end().into()).await?;
        // Trailers of HTTP/1.1 are dropped where they are read.
        let trailers = match coming {
            Coming::Two(stream) => stream.trailers().await.map_err(|error| failed(&error))?,
            Coming::One(..) => None,
        };
        let trailers = trailers.map(|trailers| http2::trailers(&trailers, using.held));
        let ended = match trailers.filter(|trailers| !trailers.is_empty()) {
            Some(trailers) => to.send_trailers(trailers),
            None => to.send_data(Bytes::new(), true),
        };
        ended.map_err(|error| failed(&error))
    }
}

/// The body of a request.
enum Leaving<'a> {
    Stored { all: &'a [u8], left: &'a [u8] },
    Stream { stream: &'a mut RecvStream, kept: Kept },
}

impl Leaving<'_> {
    /// Takes the next piece, within the largest body that is allowed.
    async fn piece(&mut self, left: &mut Option<u64>, moved: &Moved) -> io::Result<Option<Vec<u8>>> {
        let piece = match self {
            Self::Stored { left, .. } => {
                Some(std::mem::take(left)).filter(|b| !b.is_empty()).map(<[u8]>::to_vec)
            }
            Self::Stream { stream, kept } => match kept.again() {
                Some(piece) => Some(piece),
                None => {
                    let piece = Coming::<Answers>::Two(stream).piece().await?;
                    kept.take(piece.as_deref().unwrap_or_default());
                    piece
                }
            },
        };
        if let Some(piece) = &piece {
            if let Some(left) = left {
                *left = left.checked_sub(piece.len() as u64).ok_or(io::ErrorKind::FileTooLarge)?;
            }
            moved.sent.fetch_add(piece.len() as u64, Ordering::Relaxed);
        }
        Ok(piece)
    }

    /// Keeps nothing more: a host of HTTP/1.1 does not say what it has not processed.
    fn stop_keeping(&mut self) {
        if let Self::Stream { kept, .. } = self {
            kept.stop();
        }
    }

    /// Goes back to the beginning, and returns the number of bytes that were taken before; `None` where not all of them are kept.
    fn begin_again(&mut self) -> Option<usize> {
        match self {
            Self::Stored { all, left } => {
                *left = all;
                Some(all.len())
            }
            Self::Stream { kept, .. } => kept.begin_again(),
        }
    }
}

/// Sends a body over HTTP/1.1, with the length that the head states, or in chunks.
async fn send_one(
    from: &mut Leaving<'_>,
    body: Body,
    mut left: Option<u64>,
    to: &mut (impl AsyncWrite + Unpin),
    moved: &Moved,
) -> io::Result<()> {
    while let Some(piece) = from.piece(&mut left, moved).await? {
        // An empty chunk would be the last one.
        if piece.is_empty() {
            continue;
        }
        if body == Body::Chunked {
            to.write_all(format!("{:x}\r\n", piece.len()).as_bytes()).await?;
        }
        to.write_all(&piece).await?;
        if body == Body::Chunked {
            to.write_all(b"\r\n").await?;
        }
        to.flush().await?;
    }
    if body == Body::Chunked {
        to.write_all(b"0\r\n\r\n").await?;
    }
    to.flush().await
}

/// Sends a body over HTTP/2. Trailers of a request are dropped, since they were not judged.
async fn send_two(
    from: &mut Leaving<'_>,
    mut left: Option<u64>,
    to: Option<SendStream<Bytes>>,
    moved: &Moved,
) -> io::Result<()> {
    let Some(mut to) = to else { return Ok(()) };
    while let Some(piece) = from.piece(&mut left, moved).await? {
        give(&mut to, piece.into()).await?;
    }
    to.send_data(Bytes::new(), true).map_err(|error| failed(&error))
}

/// Sends bytes as far as the peer's windows allow, and waits for them.
async fn give(to: &mut SendStream<Bytes>, mut bytes: Bytes) -> io::Result<()> {
    while !bytes.is_empty() {
        to.reserve_capacity(bytes.len());
        let capacity = match poll_fn(|context| to.poll_capacity(context)).await {
            Some(capacity) => capacity.map_err(|error| failed(&error))?,
            None => return Err(io::ErrorKind::ConnectionReset.into()),
        };
        let piece = bytes.split_to(capacity.min(bytes.len()));
        to.send_data(piece, false).map_err(|error| failed(&error))?;
    }
    Ok(())
}

/// A stream that has begun: its answer and, unless the request is whole, where its body goes.
type Begun = (ResponseFuture, Option<SendStream<Bytes>>);

/// Begins a stream to the host.
fn begin_two(
    mut open: SendRequest<Bytes>,
    head: &[u8],
    is_whole: bool,
    using: Use<'_>,
) -> Result<Result<Begun, h2::Error>, End> {
    let request = http2::for_host(head, using.trailers).ok_or_else(|| {
        End::Said("400 Bad Request", "the request has no form in HTTP/2; nothing was sent".to_owned())
    })?;
    let begun = open.send_request(request, is_whole);
    Ok(begun.map(|(answer, to)| (answer, (!is_whole).then_some(to))))
}

/// Whether the host has not processed a stream that it ended with this error, so that its request can be repeated (RFC 9113, 8.7): the stream is above the
/// last one of a GOAWAY, which ends no others, or was refused.
fn is_unprocessed(error: &h2::Error) -> bool {
    error.is_remote() && (error.is_go_away() || error.reason() == Some(Reason::REFUSED_STREAM))
}

/// The last answer to a stream's request, and whether interim ones came before it: then the host has begun to process the request.
async fn answer_two(mut answer: ResponseFuture) -> (Result<Response<RecvStream>, h2::Error>, bool) {
    let mut is_begun = false;
    let response = poll_fn(|context| {
        while let Poll::Ready(Some(Ok(_))) = answer.poll_informational(context) {
            is_begun = true;
        }
        Pin::new(&mut answer).poll(context)
    })
    .await;
    (response, is_begun)
}

/// The last answer to a request, behind interim ones.
async fn last_answer(answers: &mut Input<Answers>, route: &Route, asked: &Asked) -> Result<Answer, End> {
    loop {
        let answer = answer_of(answers, route, asked).await?;
        if !answer.interim {
            return Ok(answer);
        }
    }
}

fn unanswered(route: &Route, error: &h2::Error) -> End {
    End::Said(
        "502 Bad Gateway",
        format!("{} ended the stream without an answer: {error}", route.binding().host),
    )
}

/// Sends a request and passes the answer on at the same time. The answer ends the exchange, even if it comes before the whole request is
/// sent: returned is whether it was.
async fn both<T>(
    sending: impl Future<Output = io::Result<()>>,
    answering: impl Future<Output = Result<T, End>>,
    max_body: Option<u64>,
) -> Result<(T, bool), End> {
    let (mut sending, mut answering) = (pin!(sending), pin!(answering));
    let sent = tokio::select! {
        biased;
        sent = &mut sending => sent,
        answered = &mut answering => return answered.map(|answered| (answered, false)),
    };
    match sent {
        Ok(()) => answering.await.map(|answered| (answered, true)),
        Err(over) if over.kind() == io::ErrorKind::FileTooLarge => {
            Err(End::Over(OverLimit::body(max_body.unwrap_or_default())))
        }
        Err(error) => match timeout(EARLY_ANSWER_TIMEOUT, answering).await {
            Ok(answered) => answered.map(|answered| (answered, false)),
            Err(_) => Err(error.into()),
        },
    }
}
