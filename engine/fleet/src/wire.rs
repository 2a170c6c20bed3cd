//! Channels to a farm, messages in messages, and the words for a call that failed.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bazel_remote_apis::google::protobuf::{Any, Timestamp};
use bazel_remote_apis::google::rpc;
use prost::Message;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, StdError, http};
use tonic::transport::{self, Endpoint};
use tonic::{Code, Status};

use crate::access::{SOURCE, Token};
use crate::address::Address;
use crate::count;
use crate::error::{FleetError, Kind};

/// Time limit of a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit of a call that answers at once.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum size of a message, in bytes: gRPC's default.
pub const MAX_MESSAGE: usize = 4 << 20;
/// Interval of TCP's own probes: they find a machine that is gone.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);
/// Interval of HTTP/2's own probes while a call is open: they find a server that hangs behind a proxy that lives.
const PING_INTERVAL: Duration = Duration::from_secs(60);
/// Time limit of the answer to a probe.
const PING_TIMEOUT: Duration = Duration::from_secs(30);

/// A channel to a farm, with its credentials. Cheap to clone; all clones share one connection.
#[derive(Clone, Debug)]
pub struct Channel {
    to: transport::Channel,
    token: Option<Token>,
    /// The server has answered a call: it speaks the protocol, and knows this machine.
    answered: Arc<AtomicBool>,
}

impl Service<http::Request<Body>> for Channel {
    type Response = http::Response<Body>;
    type Error = StdError;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StdError>> {
        self.to.poll_ready(context).map_err(|error| marked(error, &self.answered))
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let answered = self.answered.clone();
        let Some(token) = self.token.clone() else {
            let answer = self.to.call(request);
            return Box::pin(async move { told(answer.await, &answered) });
        };
        // The service that is ready is the one that is called; its clone gets ready for the next call.
        let clone = self.to.clone();
        let mut ready = std::mem::replace(&mut self.to, clone);
        Box::pin(async move {
            let value = token.header().await?;
            let mut metadata =
                tonic::metadata::MetadataMap::from_headers(std::mem::take(request.headers_mut()));
            metadata.insert("authorization", value);
            *request.headers_mut() = metadata.into_headers();
            told(ready.call(request).await, &answered)
        })
    }
}

/// Notes that a server answered, and marks the failure of a call to one that has not.
fn told<T>(answer: Result<T, transport::Error>, answered: &AtomicBool) -> Result<T, StdError> {
    match answer {
        Ok(answer) => {
            answered.store(true, Ordering::Relaxed);
            Ok(answer)
        }
        Err(error) => Err(marked(error, answered)),
    }
}

fn marked(error: transport::Error, answered: &AtomicBool) -> StdError {
    if answered.load(Ordering::Relaxed) { error.into() } else { Unanswered(error.into()).into() }
}

/// Failure of a call before the server answered any: it may be no farm, or want other credentials.
#[derive(Debug)]
struct Unanswered(StdError);

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Unanswered {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.0.as_ref())
    }
}

/// A channel, which connects at its first call, and again when the connection is lost. Reads the certificates of the address.
///
/// # Errors
/// [`FleetError`] when the address cannot be one, or a certificate cannot be used.
pub fn channel(address: &Address) -> Result<Channel, FleetError> {
    let to = endpoint(address)?.connect_lazy();
    Ok(Channel { to, token: address.access.token.clone().map(Token::new), answered: Arc::default() })
}

/// All that a channel needs. Needs no event loop, unlike the channel itself.
pub(crate) fn endpoint(address: &Address) -> Result<Endpoint, FleetError> {
    let scheme = if address.tls { "https" } else { "http" };
    let wrong = |e: transport::Error| FleetError::request(format!("{address}: {}", innermost(&e)));
    let mut endpoint = Endpoint::from_shared(format!("{scheme}://{}", address.server))
        .map_err(wrong)?
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_keepalive(Some(TCP_KEEPALIVE))
        .http2_keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .user_agent(concat!("hotcell/", env!("CARGO_PKG_VERSION")))
        .map_err(|e| FleetError::host(e.to_string()))?;
    if address.tls {
        let tls = address.access.tls()?.domain_name(address.host());
        endpoint = endpoint.tls_config(tls).map_err(wrong)?;
    }
    Ok(endpoint)
}

/// A request with a time limit.
pub fn within<T>(message: T, limit: Duration) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.set_timeout(limit);
    request
}

/// Words for a call that failed. The server's own message is quoted, and cut.
#[must_use]
pub fn failed(server: &str, what: &str, status: &Status) -> FleetError {
    let (kind, says) = reason(status);
    FleetError::new(kind, format!("{server}: {what}: {says}"))
}

/// Maximum length of a server's message that is passed on, in characters.
const MAX_SAID: usize = 300;

fn reason(status: &Status) -> (Kind, String) {
    let said: String =
        status.message().chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_SAID).collect();
    let with = |words: &str| if said.is_empty() { words.to_owned() } else { format!("{words} ({said})") };
    let source = status.source().map_or_else(String::new, innermost);
    if let Some(words) = of_tls(&source) {
        return (Kind::Farm, words);
    }
    let is_html = said.contains("content-type") || said.contains("invalid compression flag");
    let is_protocol =
        source.contains("http2 error") || source.contains("frame") || source.contains("FRAME_SIZE");
    let is_first = causes(status.source()).any(<dyn std::error::Error>::is::<Unanswered>);
    match status.code() {
        // A farm that answered before restarts, or is gone; its next answer is awaited.
        _ if !is_first && (is_closed(&source) || is_protocol) => {
            (Kind::Unreachable, format!("the farm closed the connection ({source})"))
        }
        _ if is_html || is_protocol => (
            Kind::Farm,
            "the server there does not speak gRPC, or speaks it with TLS only; name the port of the farm's own API, or write grpcs://".to_owned(),
        ),
        _ if is_closed(&source) => (
            Kind::Farm,
            "the server there closed the connection; it may speak with TLS only (grpcs://), or want a certificate of this machine (‹farm_cert› and ‹farm_key›)".to_owned(),
        ),
        Code::Unavailable | Code::Unknown if !source.is_empty() => {
            (Kind::Unreachable, format!("the farm cannot be reached: {source}"))
        }
        Code::Unavailable => (Kind::Unreachable, with("the farm is not available")),
        Code::DeadlineExceeded | Code::Cancelled => {
            (Kind::Unreachable, with("the farm did not answer in time"))
        }
        Code::ResourceExhausted => (Kind::Unreachable, with("the farm has no room for it")),
        Code::Unauthenticated if said.starts_with(SOURCE) => (Kind::Request, said),
        Code::Unauthenticated => {
            (Kind::Farm, with("the farm does not accept the credentials, or wants some; name a token with ‹farm_token›"))
        }
        Code::PermissionDenied => (Kind::Farm, with("the farm does not allow it")),
        Code::Unimplemented => (Kind::Farm, with("the server there has no such service")),
        Code::NotFound => (Kind::Missing, with("not found")),
        Code::InvalidArgument => (Kind::Farm, with("the farm refused it: check the instance name")),
        Code::FailedPrecondition => (Kind::Farm, with("the farm refused it")),
        code => (Kind::Farm, with(&format!("{code:?}"))),
    }
}

/// An error and its causes, the innermost last.
fn causes<'a>(error: Option<&'a (dyn Error + 'static)>) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(error, |&error: &&'a (dyn Error + 'static)| error.source())
}

/// The innermost cause of an error, which is the system's.
fn innermost(error: &(dyn Error + 'static)) -> String {
    causes(Some(error)).last().map_or_else(String::new, ToString::to_string)
}

/// Whether a connection ended before the answer, by the words of hyper, h2 and the system. With TLS 1.3 a client is done before the server has
/// looked at its certificate, so that a refusal may come as any of them (RFC 8446, section 4.4.2.4).
fn is_closed(source: &str) -> bool {
    ["operation was canceled", "broken pipe", "Broken pipe", "onnection reset", "connection closed"]
        .iter()
        .any(|words| source.contains(words))
}

/// Words for a failure of TLS, by rustls's own. See `rustls::Error` and RFC 8446, section 6.
fn of_tls(source: &str) -> Option<String> {
    // Two authorities of one name differ in their keys.
    let words = if source.contains("UnknownIssuer") || source.contains("BadSignature") {
        "the farm's certificate is not by an authority that is trusted here; name the farm's with ‹farm_ca›"
    } else if source.contains("certificate not valid for name") || source.contains("NotValidForName") {
        "the farm's certificate is for another name"
    } else if source.contains("invalid peer certificate") {
        "the farm's certificate is not accepted"
    } else if source.contains("CertificateRequired") || source.contains("certificate required") {
        "the farm wants a certificate of this machine; name one with ‹farm_cert› and ‹farm_key›"
    } else if source.contains("received fatal alert") {
        "the farm refused the TLS connection"
    } else if source.contains("InvalidContentType") || source.contains("corrupt message") {
        return Some("the server there does not speak TLS; write grpc:// if that is meant".to_owned());
    } else if source.contains("HTTP/2 was not negotiated") {
        return Some(
            "the server there speaks TLS, but not gRPC; name the port of the farm's own API".to_owned(),
        );
    } else {
        return None;
    };
    Some(format!("{words} ({source})"))
}

/// A message as `Any`.
#[must_use]
pub fn pack(name: &str, message: &impl Message) -> Any {
    Any { type_url: format!("type.googleapis.com/{name}"), value: message.encode_to_vec() }
}

/// The message of an `Any`, with at most [`count::MAX_FIELDS`] of these fields.
///
/// # Errors
/// The reason, when it has another type, more fields, or is not such a message.
pub fn unpack<M: Message + Default>(name: &str, any: &Any, fields: &[count::Field]) -> Result<M, String> {
    if any.type_url.rsplit('/').next() == Some(name) {
        return count::decode(&any.value, fields);
    }
    let kind: String = any.type_url.chars().map(|c| if c.is_control() { ' ' } else { c }).take(100).collect();
    Err(format!("it is a {kind:?}"))
}

/// A status.
#[must_use]
pub fn status(code: Code, message: impl Into<String>) -> rpc::Status {
    rpc::Status { code: code as i32, message: message.into(), details: Vec::new() }
}

/// The present time.
#[must_use]
pub fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(since.subsec_nanos()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_connections_are_a_wrong_address_only_before_the_first_answer() {
        let answered = AtomicBool::new(false);
        let closed = || std::io::Error::new(std::io::ErrorKind::ConnectionReset, "Connection reset by peer");
        let first = Status::from_error(Unanswered(closed().into()).into());
        let later = Status::from_error(closed().into());
        for (status, kind, words) in
            [(first, Kind::Farm, "grpcs://"), (later, Kind::Unreachable, "closed the connection (Conn")]
        {
            let error = failed("127.0.0.1:1", "Execute", &status);
            assert_eq!((error.kind, error.message.contains(words)), (kind, true), "{error}");
        }
        told(Ok(()), &answered).unwrap();
        assert!(answered.load(Ordering::Relaxed));
    }

    #[test]
    fn failed_calls_say_who_has_to_change_something() {
        for (code, said, kind, words) in [
            (Code::Unauthenticated, "", Kind::Farm, "credentials"),
            (Code::Unauthenticated, "the token's source: env:T: not set", Kind::Request, "env:T"),
            (Code::InvalidArgument, "Invalid instance name: [x]", Kind::Farm, "Invalid instance name"),
            (Code::Unavailable, "", Kind::Unreachable, "not available"),
            (Code::DeadlineExceeded, "", Kind::Unreachable, "in time"),
            (Code::Unknown, "invalid content-type: text/html", Kind::Farm, "does not speak gRPC"),
            (Code::NotFound, "a\nb", Kind::Missing, "a b"),
        ] {
            let error = failed("127.0.0.1:1", "FindMissingBlobs", &Status::new(code, said));
            assert_eq!(error.kind, kind, "{error}");
            assert!(error.message.contains(words) && !error.message.contains('\n'), "{error}");
        }
    }
}
