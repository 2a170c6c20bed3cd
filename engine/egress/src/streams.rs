//! Serves an intercepted connection of HTTP/2: each stream is one request, judged, sent and answered like one of HTTP/1.1.
//!
//! The library bounds what a client can make it hold: open streams, heads, windows, streams that are reset before they are looked at, small
//! and empty frames. Here are bounded the streams of a run that are at work, and those that a client cancels or that are refused.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::end::End;
use crate::hosts::{
    CONNECTION_WINDOW, Hosts, MAX_HEAD_BYTES, SEND_BUFFER, SMALL_FRAMES, STREAM_WINDOW, STREAMS,
};
use crate::ledger::Operation;
use crate::pace::{Pace, Rate};
use crate::proxy::Shared;
use crate::record::Moved;
use crate::route::head::http2;
use crate::routed::IDLE_TIMEOUT;
use crate::spending::Spending;

/// Streams of a connection that may end refused or cancelled; beyond this rate the connection ends.
const FRUITLESS: Rate = Rate { at_once: 100, per_second: 10 };
/// Maximum number of streams that the library remembers after a reset, or forgives that were reset before they were looked at. Those that it
/// resets itself have its own limit for the whole connection: they include the streams beyond [`STREAMS`] of a client that has not heard of it.
const RESETS: usize = 20;
/// Time for streams to end their rows once their connection has ended.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// End of a stream, for the limit of those that lead to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Answered,
    Fruitless,
}

impl Shared {
    /// Serves a client's streams until one of both ends the connection.
    pub(crate) async fn streams(
        self: &Arc<Self>,
        io: impl AsyncRead + AsyncWrite + Send + Unpin,
        host: &str,
        port: u16,
    ) -> io::Result<()> {
        let mut builder = h2::server::Builder::new();
        builder
            .max_concurrent_streams(STREAMS)
            .max_header_list_size(MAX_HEAD_BYTES)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .data_frame_budget(SMALL_FRAMES)
            .max_send_buffer_size(SEND_BUFFER)
            .max_concurrent_reset_streams(RESETS)
            .max_pending_accept_reset_streams(RESETS);
        let broken = |error: &h2::Error| {
            if !error.is_io() {
                let why = format!("HTTP/2 within TLS: {error}");
                self.deny(Operation::Http, &format!("{host}:{port}"), Some(why));
            }
        };
        let io = Spending::new(io, &self.budget);
        let mut connection = match timeout(self.limits.head, builder.handshake::<_, Bytes>(io)).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => {
                broken(&error);
                return Ok(());
            }
            Err(_) => return Ok(()),
        };
        let hosts = Arc::new(Hosts::new(host, port));
        let (mut streams, mut closing) = (JoinSet::new(), false);
        let mut fruitless = Pace::new(FRUITLESS, Instant::now());
        loop {
            let accepted = tokio::select! {
                accepted = connection.accept() => accepted,
                Some(ended) = streams.join_next() => {
                    let is_fruitless = !matches!(ended, Ok(Ended::Answered));
                    if is_fruitless && !fruitless.come(Instant::now()).is_zero() {
                        connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
                    }
                    continue;
                }
                () = sleep(IDLE_TIMEOUT), if streams.is_empty() => {
                    if closing {
                        break;
                    }
                    closing = true;
                    connection.graceful_shutdown();
                    continue;
                }
            };
            match accepted {
                Some(Ok((request, respond))) => {
                    let (shared, hosts) = (Arc::clone(self), Arc::clone(&hosts));
                    streams.spawn(async move { shared.stream(&hosts, request, respond).await });
                }
                Some(Err(error)) => {
                    broken(&error);
                    break;
                }
                None => break,
            }
        }
        // Their rows end with them.
        drop(connection);
        let _ = timeout(LINGER_TIMEOUT, async { while streams.join_next().await.is_some() {} }).await;
        Ok(())
    }

    /// Serves one stream.
    async fn stream(
        &self,
        hosts: &Hosts,
        request: Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
    ) -> Ended {
        let (parts, mut body) = request.into_parts();
        let is_head = parts.method == Method::HEAD;
        let streamed = match http2::request(&parts, body.is_end_stream(), hosts.authority()) {
            Ok(streamed) => streamed,
            Err(wrong) => {
                self.unreadable(hosts.authority(), &wrong);
                refuse(&mut respond, is_head, wrong.status(), &wrong.to_string());
                return Ended::Fruitless;
            }
        };
        let admitted = match self.admit(hosts.authority(), &streamed.asked) {
            Ok(admitted) => admitted,
            Err((status, why)) => {
                refuse(&mut respond, is_head, status, &why);
                return Ended::Fruitless;
            }
        };
        let (moved, mut status) = (Moved::default(), None);
        let ended =
            self.streamed(hosts, &admitted, &streamed, (&mut body, &mut respond), &moved, &mut status).await;
        self.ended(admitted, &streamed.asked.method, ended.as_ref().map(drop), &moved, status);
        match ended {
            Ok(()) => return Ended::Answered,
            // An answer that has begun was cut off.
            Err(_) if status.is_some() => {}
            Err(End::Over(over)) => refuse(&mut respond, is_head, over.status, &over.why),
            Err(End::Said(status, why)) => refuse(&mut respond, is_head, status, &why),
            Err(End::Io(_)) => respond.send_reset(Reason::INTERNAL_ERROR),
        }
        Ended::Fruitless
    }
}

/// Waits until the client resets the stream, or the connection ends.
pub(crate) async fn reset(respond: &mut SendResponse<Bytes>) -> End {
    let _ = poll_fn(|context| respond.poll_reset(context)).await;
    End::Io(io::ErrorKind::ConnectionReset.into())
}

/// Answers a stream with a refusal. An answer to HEAD has no body (RFC 9110, 9.3.2).
fn refuse(respond: &mut SendResponse<Bytes>, is_head: bool, status: &str, why: &str) {
    let mut response = Response::new(());
    let code = status.split(' ').next().and_then(|code| code.parse::<StatusCode>().ok());
    *response.status_mut() = code.unwrap_or(StatusCode::BAD_GATEWAY);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    // The client may have gone.
    if let Ok(mut to) = respond.send_response(response, is_head)
        && !is_head
    {
        let _ = to.send_data(format!("hotcell: {why}\n").into(), true);
    }
}
