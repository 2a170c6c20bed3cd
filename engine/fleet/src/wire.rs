//! Channels to a farm, messages in messages, and the words for a call that failed.

use std::error::Error;
use std::time::Duration;

use bazel_remote_apis::google::protobuf::{Any, Timestamp};
use bazel_remote_apis::google::rpc;
use prost::Message;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use crate::address::Address;
use crate::error::{FleetError, Kind};

/// Time limit of a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit of a call that answers at once.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum size of a message, in bytes: gRPC's default.
pub const MAX_MESSAGE: usize = 4 << 20;
/// Interval of TCP's own probes: they find a machine that is gone.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);

/// A channel, which connects at its first call, and again when the connection is lost.
///
/// # Errors
/// [`FleetError`] when the address cannot be one.
pub fn channel(address: &Address) -> Result<Channel, FleetError> {
    let endpoint = Endpoint::from_shared(format!("http://{}", address.server))
        .map_err(|e| FleetError::request(format!("{address}: {e}")))?;
    Ok(endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_keepalive(Some(TCP_KEEPALIVE))
        .user_agent(concat!("hotcell/", env!("CARGO_PKG_VERSION")))
        .map_err(|e| FleetError::host(e.to_string()))?
        .connect_lazy())
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
    let source = deepest(status);
    let is_html = said.contains("content-type") || said.contains("invalid compression flag");
    let is_protocol =
        source.contains("http2 error") || source.contains("frame") || source.contains("FRAME_SIZE");
    match status.code() {
        _ if is_html || is_protocol => (
            Kind::Farm,
            "the server there does not speak gRPC; name the port of the farm's own API".to_owned(),
        ),
        Code::Unavailable | Code::Unknown if !source.is_empty() => {
            (Kind::Unreachable, format!("the farm cannot be reached: {source}"))
        }
        Code::Unavailable => (Kind::Unreachable, with("the farm is not available")),
        Code::DeadlineExceeded | Code::Cancelled => {
            (Kind::Unreachable, with("the farm did not answer in time"))
        }
        Code::ResourceExhausted => (Kind::Unreachable, with("the farm has no room for it")),
        Code::Unauthenticated => {
            (Kind::Farm, with("the farm wants credentials, which hotcell cannot send yet"))
        }
        Code::PermissionDenied => (Kind::Farm, with("the farm does not allow it")),
        Code::Unimplemented => (Kind::Farm, with("the server there has no such service")),
        Code::NotFound => (Kind::Missing, with("not found")),
        Code::InvalidArgument => (Kind::Farm, with("the farm refused it: check the instance name")),
        Code::FailedPrecondition => (Kind::Farm, with("the farm refused it")),
        code => (Kind::Farm, with(&format!("{code:?}"))),
    }
}

/// The innermost cause of an error, which is the system's.
fn deepest(status: &Status) -> String {
    let mut cause = status.source();
    let mut text = String::new();
    while let Some(error) = cause {
        text = error.to_string();
        cause = error.source();
    }
    text
}

/// A message as `Any`.
#[must_use]
pub fn pack(name: &str, message: &impl Message) -> Any {
    Any { type_url: format!("type.googleapis.com/{name}"), value: message.encode_to_vec() }
}

/// The message of an `Any`, if it has this type.
#[must_use]
pub fn unpack<M: Message + Default>(name: &str, any: &Any) -> Option<M> {
    let is = any.type_url.rsplit('/').next() == Some(name);
    if is { M::decode(any.value.as_slice()).ok() } else { None }
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
    fn failed_calls_say_who_has_to_change_something() {
        for (code, said, kind, words) in [
            (Code::Unauthenticated, "", Kind::Farm, "credentials"),
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
