//! Outgoing HTTP: collects a whole request, passes it to the broker, and returns its response. Makes no
//! connections itself.

pub(crate) mod bounds;
pub(crate) mod futures;

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http_body_util::{BodyExt as _, Full};
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

use crate::ask::{Blob, Refused};
use crate::asker::{Allowance, Asker, Place};
use crate::questions::MAX_REQUESTS;
use crate::{Ask, Reply};

/// Maximum size of one body, in bytes, in either direction: both the host and the parent hold whole bodies.
const MAX_BODY_BYTES: u64 = 8 << 20;

/// Maximum size of all bodies of one call, and of the headers of responses, in bytes. A guest can keep every
/// response that it got.
const MAX_CALL_BYTES: u64 = 32 << 20;

/// Maximum size of a part of an unsent body, in bytes. The host keeps two parts for each request: a guest can
/// have as many requests as resources, and need not send any.
const MAX_PART_BYTES: usize = 16 << 10;

/// Maximum number of simultaneous requests of one call.
const MAX_CONCURRENT_REQUESTS: u32 = 8;

type Io = Box<dyn Future<Output = Result<(), Error>> + Send>;
type Sent = Result<(http::Response<WasiBody>, Io), Error>;

/// HTTP hook of one call.
pub(crate) struct Http {
    asker: Arc<Asker>,
    bodies: Arc<Allowance>,
    requests: Allowance,
    together: Arc<AtomicU32>,
}

impl Http {
    pub(crate) fn new(asker: Arc<Asker>) -> Self {
        Self {
            asker,
            bodies: Arc::new(Allowance::new(MAX_CALL_BYTES)),
            requests: Allowance::new(MAX_REQUESTS),
            together: Arc::default(),
        }
    }
}

impl WasiHttpHooks for Http {
    // The broker takes the host from the URL, and would not trust another one.
    fn set_host_header(&mut self) -> bool {
        false
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        MAX_PART_BYTES
    }

    fn p3_outgoing_body_chunk_size(&mut self) -> usize {
        MAX_PART_BYTES
    }

    fn send_request(
        &mut self,
        request: http::Request<WasiBody>,
        options: Option<RequestOptions>,
        _: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Sent> + Send> {
        let place = Place::take(&self.together, MAX_CONCURRENT_REQUESTS).filter(|_| self.requests.take(1));
        let (asker, bodies) = (Arc::clone(&self.asker), Arc::clone(&self.bodies));
        Box::new(async move {
            let Some(_place) = place else { return Err(Error::ConnectionLimitReached) };
            let ask = gather(request, options, &asker, &bodies).await?;
            let response = response(asker.ask(ask).await, &bodies)?;
            Ok((response, Box::new(async { Ok(()) }) as Io))
        })
    }
}

async fn gather(
    request: http::Request<WasiBody>,
    options: Option<RequestOptions>,
    asker: &Asker,
    bodies: &Allowance,
) -> Result<Ask, Error> {
    let (parts, mut body) = request.into_parts();
    // User name and password belong in a header, which the log does not show.
    if parts.uri.authority().is_none_or(|authority| authority.as_str().contains('@')) {
        return Err(Error::HttpRequestUriInvalid);
    }
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { return Err(Error::HttpRequestTrailerSectionSize(Some(0))) };
        if (whole.len() + data.len()) as u64 > MAX_BODY_BYTES || !bodies.take(data.len() as u64) {
            return Err(Error::HttpRequestBodySize(Some(MAX_BODY_BYTES)));
        }
        whole.extend_from_slice(&data);
    }
    // The whole response arrives at once, so waiting for its first byte is waiting for all of it.
    let wanted = options.and_then(|options| options.first_byte_timeout);
    Ok(Ask::Http {
        method: parts.method.to_string(),
        url: parts.uri.to_string(),
        headers: parts
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), Blob(value.as_bytes().to_vec())))
            .collect(),
        body: Blob(whole),
        timeout_ms: asker.milliseconds(wanted),
    })
}

fn response(reply: Reply, bodies: &Allowance) -> Result<http::Response<WasiBody>, Error> {
    let (status, headers, Blob(body)) = match reply {
        Reply::Http { status, headers, body } => (status, headers, body),
        Reply::Refused { why } => return Err(refused(why)),
        _ => return Err(Error::InternalError(Some("the broker answered something else".to_owned()))),
    };
    let bytes =
        headers.iter().map(|(name, Blob(value))| name.len() + value.len()).sum::<usize>() + body.len();
    if !bodies.take(bytes as u64) {
        return Err(Error::HttpResponseBodySize(Some(MAX_CALL_BYTES)));
    }
    let body = Full::new(Bytes::from(body)).map_err(|never| match never {}).boxed_unsync();
    let mut response = http::Response::new(body);
    *response.status_mut() = http::StatusCode::from_u16(status).map_err(|_| Error::HttpProtocolError)?;
    for (name, Blob(value)) in headers {
        // A header that is not valid cannot have been received as one.
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| Error::HttpProtocolError)?;
        let value = HeaderValue::from_bytes(&value).map_err(|_| Error::HttpProtocolError)?;
        response.headers_mut().append(name, value);
    }
    Ok(response)
}

fn refused(why: Refused) -> Error {
    match why {
        Refused::Denied(_) => Error::HttpRequestDenied,
        Refused::Full => Error::HttpResponseBodySize(None),
        Refused::NotSet => Error::DestinationNotFound,
        // The codes of these have no room for the reason, which is what the caller needs.
        Refused::TooMuch(why) | Refused::Invalid(why) | Refused::Unavailable(why) => {
            Error::InternalError(Some(why))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::{Duration, Instant};

    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{BoxFuture, Broker};

    fn answer(status: u16, headers: &[(&str, &[u8])], body: usize) -> Reply {
        let headers =
            headers.iter().map(|(name, value)| ((*name).to_owned(), Blob(value.to_vec()))).collect();
        Reply::Http { status, headers, body: Blob(vec![b'x'; body]) }
    }

    /// Gives every request an empty response, and records the questions.
    #[derive(Default)]
    struct Empty(Mutex<Vec<Ask>>);

    impl Broker for Empty {
        fn ask(&self, _: u64, ask: Ask) -> BoxFuture<'_, Reply> {
            self.0.lock().expect("no panic").push(ask);
            Box::pin(std::future::ready(answer(204, &[], 0)))
        }
    }

    fn hook() -> (Http, Arc<Empty>) {
        let broker = Arc::new(Empty::default());
        let deadline = Instant::now() + Duration::from_secs(10);
        let asker = Asker::new(broker.clone(), 7, deadline, CancellationToken::new());
        (Http::new(Arc::new(asker)), broker)
    }

    fn send(
        hook: &mut Http,
        url: &str,
        body: usize,
        options: Option<RequestOptions>,
    ) -> impl Future<Output = Result<u16, Error>> + use<> {
        let body = Full::new(Bytes::from(vec![b'y'; body])).map_err(|never| match never {}).boxed_unsync();
        let request = http::Request::post(url).header("x-a", "1").body(body).expect("a request");
        let sent = Box::into_pin(hook.send_request(request, options, Box::new(async { Ok(()) })));
        async move { sent.await.map(|(response, _)| response.status().as_u16()) }
    }

    #[tokio::test]
    async fn http_request_reaches_broker_unchanged() {
        let (mut hook, broker) = hook();
        let options =
            RequestOptions { first_byte_timeout: Some(Duration::from_secs(2)), ..RequestOptions::default() };
        assert_eq!(
            send(&mut hook, "https://example.org:8443/a?b=c", 3, Some(options)).await.expect("sent"),
            204
        );
        let wanted = Ask::Http {
            method: "POST".to_owned(),
            url: "https://example.org:8443/a?b=c".to_owned(),
            headers: vec![("x-a".to_owned(), Blob(b"1".to_vec()))],
            body: Blob(b"yyy".to_vec()),
            timeout_ms: 2_000,
        };
        assert_eq!(*broker.0.lock().expect("no panic"), [wanted]);
        // Without a timeout in the request, it is the rest of the call's time.
        send(&mut hook, "http://example.org/", 0, None).await.expect("sent");
        let last = broker.0.lock().expect("no panic").pop();
        assert!(matches!(last, Some(Ask::Http { timeout_ms: 5_000..=10_000, .. })), "{last:?}");
    }

    #[tokio::test]
    async fn http_requests_are_limited_without_userinfo() {
        let (mut hook, broker) = hook();
        let error = send(&mut hook, "https://me:word@example.org/", 0, None)
            .await
            .expect_err("a password")
            .to_string();
        assert!(error.contains("URI"), "{error}");
        let large = usize::try_from(MAX_BODY_BYTES).expect("it fits");
        let error = send(&mut hook, "https://example.org/", large + 1, None)
            .await
            .expect_err("too large")
            .to_string();
        assert!(error.contains("body size"), "{error}");
        assert!(broker.0.lock().expect("no panic").is_empty());
        for n in 0..MAX_CALL_BYTES / MAX_BODY_BYTES {
            send(&mut hook, "https://example.org/", large, None)
                .await
                .unwrap_or_else(|error| panic!("{n}: {error}"));
        }
        send(&mut hook, "https://example.org/", 1, None)
            .await
            .expect_err("all of them together are too large");
        // The limits on simultaneous requests and on all requests, which include those above.
        let waiting: Vec<_> =
            (0..MAX_CONCURRENT_REQUESTS).map(|_| send(&mut hook, "https://example.org/", 0, None)).collect();
        let error = send(&mut hook, "https://example.org/", 0, None)
            .await
            .expect_err("too many together")
            .to_string();
        assert!(error.contains("limit"), "{error}");
        drop(waiting);
        let mut sent = 0;
        while send(&mut hook, "https://example.org/", 0, None).await.is_ok() {
            sent += 1;
        }
        assert!((200..MAX_REQUESTS).contains(&sent), "{sent}");
    }

    #[test]
    fn http_answer_becomes_response_or_error() {
        let bodies = Allowance::new(25);
        let good = response(answer(404, &[("x-a", b"1"), ("x-a", b"\xff")], 4), &bodies).expect("a response");
        assert_eq!((good.status().as_u16(), good.headers().get_all("x-a").iter().count()), (404, 2));
        for (reply, wanted) in [
            (answer(99, &[], 0), "protocol"),
            (answer(200, &[("a b", b"")], 0), "protocol"),
            (answer(200, &[("a", b"1\r\nb: 2")], 0), "protocol"),
            (answer(200, &[], 7), "body size"),
            (Reply::Done, "something else"),
            (Reply::Refused { why: Refused::Denied("net=http://a:1".into()) }, "denied"),
            (Reply::Refused { why: Refused::Unavailable("no route".into()) }, "no route"),
            (Reply::Refused { why: Refused::TooMuch("at most 8388608 bytes".into()) }, "at most 8388608"),
            (Reply::Refused { why: Refused::Invalid("a header is wrong".into()) }, "a header"),
        ] {
            let error = response(reply, &bodies).expect_err(wanted).to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
