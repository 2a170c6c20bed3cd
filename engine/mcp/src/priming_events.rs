//! Removes priming events from streams. Since revision 2025-11-25 an event stream begins with an event that
//! has an id and no data, so that a client can resume it. Clients of older revisions parse every event as a
//! message, and report an empty one as a broken message.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use http_body::Frame;
use serde_json::Value;

/// First revision whose clients know priming events.
const SINCE: &str = "2025-11-25";
/// Maximum size of the examined beginning, in bytes.
const MAX_EXAMINED_BYTES: usize = 4096;

/// Whether a client knows priming events: by the revision in its header, else by that of its initialize
/// request. Dates sort as texts.
pub(crate) fn knows(header: Option<&str>, body: &[u8]) -> bool {
    if let Some(revision) = header {
        return revision >= SINCE;
    }
    let greeting =
        serde_json::from_slice::<Value>(body).ok().filter(|message| message["method"] == "initialize");
    greeting.is_some_and(|message| {
        message["params"]["protocolVersion"].as_str().is_some_and(|said| said >= SINCE)
    })
}

/// Whether an event has an id or a retry time, and no data.
fn is_priming(event: &str) -> bool {
    let lines = || event.lines().filter(|line| !line.is_empty());
    let marked = lines().any(|line| line.starts_with("id:") || line.starts_with("retry:"));
    marked && !lines().any(|line| line.strip_prefix("data:").is_some_and(|data| !data.trim().is_empty()))
}

/// A body of events without the priming event at its beginning.
pub(crate) struct Unprimed {
    body: Body,
    /// The beginning, until its first event is complete; then `None`.
    head: Option<Vec<u8>>,
}

impl Unprimed {
    pub(crate) fn new(body: Body) -> Self {
        Self { body, head: Some(Vec::new()) }
    }

    /// Processes a piece, and returns the part to be sent to the client.
    fn take(&mut self, piece: Bytes) -> Bytes {
        let Some(head) = &mut self.head else { return piece };
        head.extend_from_slice(&piece);
        let end = head.windows(2).position(|two| two == b"\n\n").map(|at| at + 2);
        let known = end.and_then(|end| Some((end, std::str::from_utf8(&head[..end]).ok()?)));
        match known {
            Some((end, event)) => {
                let rest = if is_priming(event) { head.split_off(end) } else { std::mem::take(head) };
                self.head = None;
                rest.into()
            }
            None if end.is_some() || head.len() > MAX_EXAMINED_BYTES => {
                self.head.take().unwrap_or_default().into()
            }
            None => Bytes::new(),
        }
    }
}

impl http_body::Body for Unprimed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        loop {
            let polled = Pin::new(&mut self.body).poll_frame(context);
            let Poll::Ready(frame) = polled else { return Poll::Pending };
            let piece = match frame {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(piece) => self.take(piece),
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => match self.head.take().filter(|head| !head.is_empty()) {
                    Some(rest) => rest.into(),
                    None => return Poll::Ready(None),
                },
            };
            if !piece.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priming_events_need_recent_client() {
        let greets = |revision: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"{revision}"}}}}"#
            )
        };
        for (header, body, want) in [
            (Some("2025-06-18"), greets("2025-11-25"), false),
            (Some("2025-11-25"), String::new(), true),
            (Some("2026-07-28"), String::new(), true),
            (None, greets("2025-06-18"), false),
            (None, greets("2024-11-05"), false),
            (None, greets("2025-11-25"), true),
            (None, "{}".to_owned(), false),
            (None, "no JSON".to_owned(), false),
        ] {
            assert_eq!(knows(header, body.as_bytes()), want, "{header:?} {body}");
        }
    }

    #[test]
    fn priming_event_is_removed_across_chunks() {
        let priming = "id: 0\nretry: 3000\ndata: \n\n";
        let message = "id: 1\ndata: {\"jsonrpc\":\"2.0\"}\n\n";
        for (text, want) in [
            (format!("{priming}{message}"), message.to_owned()),
            (format!("{message}{priming}"), format!("{message}{priming}")),
            (format!(": hello\n\n{message}"), format!(": hello\n\n{message}")),
            ("data: x".to_owned(), "data: x".to_owned()),
            (priming.to_owned(), String::new()),
        ] {
            for size in [1, 3, 7, 500] {
                let mut body = Unprimed::new(Body::empty());
                let mut got = Vec::new();
                for piece in text.as_bytes().chunks(size) {
                    got.extend_from_slice(&body.take(Bytes::copy_from_slice(piece)));
                }
                got.extend(body.head.take().unwrap_or_default());
                assert_eq!(String::from_utf8(got).unwrap(), want, "{size}: {text:?}");
            }
        }
    }
}
