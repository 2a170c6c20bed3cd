//! Heads of requests and answers of a route: read strictly, and written anew. Pure, but for the time of a signature.

mod answer;
pub(crate) mod http2;

use std::fmt::Write as _;
use std::time::SystemTime;

pub use answer::{Answer, Framing, answer, for_client};

use super::aws;
use super::held::{Credential, Held};
use super::rules::{NormalPath, PathError, RequestRules, Verdict, is_method};
use super::{Binding, HTTPS_PORT, Route};
use crate::host::Host;
use crate::http::{self, Body};

/// Headers with credentials of the program's own, which could stand before the secret.
const CREDENTIALS: [&str; 8] = [
    "authorization",
    "cookie",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "x-auth-token",
    "private-token",
    "job-token",
];

/// Headers of a request that do not go on, beyond those and the ones of the connection: names of another target or method; and such as would
/// let the value come back encoded or in parts.
const NOT_SENT_ON: [&str; 14] = [
    "forwarded",
    "x-original-url",
    "x-rewrite-url",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "destination",
    "accept-encoding",
    "grpc-accept-encoding",
    "range",
    "if-range",
    "max-forwards",
    "via",
    "origin",
];

/// Why a request to a route is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// The head cannot be read.
    #[error(
        "it is no HTTP/1 request, its head is longer than 16 KiB, or its method is not one in capitals other than CONNECT and TRACE"
    )]
    Malformed,
    /// The target is not a path.
    #[error(
        "a secret's base URL takes paths such as /NAME/…, and a connection to one takes no other requests"
    )]
    Target,
    /// The target of a request within TLS is not a path.
    #[error("its target is not a path: its host is the one that CONNECT and TLS named")]
    Absolute,
    /// The `Host` header is not the sandbox's loopback, missing, or there twice.
    #[error("its Host header is not 127.0.0.1 with the port of the proxy")]
    Host,
    /// The `Host` header of a request within TLS is another host, missing, or there twice.
    #[error("its Host header is missing, there twice, or not {0}, which CONNECT and TLS named")]
    OtherHost(String),
    /// Another protocol is asked for.
    #[error("it asks for WebSocket, and only HTTP/1 passes to a host with a secret")]
    Upgrade,
    /// The length of the body is ambiguous.
    #[error("where its body ends is said twice, or in a way that is not known")]
    Length,
}

impl Wrong {
    /// Status of the refusal (RFC 9110).
    pub const fn status(&self) -> &'static str {
        match self {
            Self::OtherHost(_) => "421 Misdirected Request",
            Self::Upgrade => "501 Not Implemented",
            _ => "400 Bad Request",
        }
    }
}

/// The server that a client speaks to, which `Host` has to name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authority<'a> {
    /// Base URLs on the sandbox's loopback, at this port.
    Loopback(u16),
    /// A host and its port, within TLS of the run's own authority.
    Host(&'a str, u16),
}

impl Authority<'_> {
    /// Checks the `Host` headers of a request; returns the base URLs' authority as the client wrote it.
    fn check(self, headers: &[httparse::Header<'_>], version: u8) -> Result<Option<String>, Wrong> {
        let mut hosts = http::values(headers, "host");
        let named = match (hosts.next(), hosts.next()) {
            (Some(named), None) => Some(named),
            (None, None) if version == 0 => None,
            _ => return Err(self.wrong()),
        };
        match (self, named) {
            (Self::Loopback(port), None) => Ok(Some(format!("127.0.0.1:{port}"))),
            (Self::Loopback(port), Some(named)) => {
                let named = std::str::from_utf8(named).map_err(|_| Wrong::Host)?.to_ascii_lowercase();
                let own = ["127.0.0.1", "localhost"].iter().any(|name| named == format!("{name}:{port}"));
                if own { Ok(Some(named)) } else { Err(Wrong::Host) }
            }
            (Self::Host(..), None) => Ok(None),
            (Self::Host(host, port), Some(named)) => match Host::parse_with_port(named) {
                Ok((Host::Name(name), at)) if name == host && at.unwrap_or(HTTPS_PORT) == port => Ok(None),
                _ => Err(self.wrong()),
            },
        }
    }

    fn wrong(self) -> Wrong {
        match self {
            Self::Loopback(_) => Wrong::Host,
            Self::Host(host, HTTPS_PORT) => Wrong::OtherHost(host.to_owned()),
            Self::Host(host, port) => Wrong::OtherHost(format!("{host}:{port}")),
        }
    }
}

/// A request to a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub method: String,
    /// Path; to a base URL with the secret's name as its first part.
    pub path: String,
    pub query: Option<String>,
    /// Authority of the base URL, by which places in answers are named; `None` within TLS.
    pub base: Option<String>,
    headers: Vec<(String, Vec<u8>)>,
    pub body: Body,
    /// Line for the body in a signature of ours, where the request gets one.
    pub payload: Option<String>,
    /// Whether the client speaks HTTP/1.1.
    pub is_current: bool,
    /// Whether the connection stays open.
    pub keeps: bool,
}

impl Asked {
    /// Headers, without those of the connection.
    pub fn headers(&self) -> impl Iterator<Item = &(String, Vec<u8>)> {
        self.headers.iter()
    }

    /// Values of all headers of this name, which is in small letters.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.headers
            .iter()
            .filter(move |(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, v)| v.as_slice())
    }

    /// Makes it a request whose body was read, with this line for it in a signature.
    pub fn read_whole(&mut self, length: u64, line: String) {
        (self.body, self.payload) = (Body::Length(length), Some(line));
        self.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("expect"));
    }
}

/// Whether the first bytes of a client are a request whose target is a path; `None` when more are needed.
pub fn is_path(bytes: &[u8]) -> Option<bool> {
    let start = bytes.iter().position(|b| !matches!(b, b'\r' | b'\n')).unwrap_or(bytes.len());
    let line = &bytes[start..];
    match line.iter().position(|b| !(b.is_ascii_alphanumeric() || b"-_".contains(b))) {
        Some(end) if line[end] == b' ' => line.get(end + 1).map(|b| *b == b'/'),
        Some(_) => Some(false),
        None => (bytes.len() > http::MAX_HEAD_BYTES).then_some(false),
    }
}

/// Parses a request to a server. Returns the request and the length of its head, or `None` when more bytes are needed.
pub fn request(bytes: &[u8], to: Authority<'_>) -> Result<Option<(Asked, usize)>, Wrong> {
    if http::is_unfinished(bytes) {
        return Ok(None);
    }
    let mut headers = [httparse::EMPTY_HEADER; http::MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let used = match request.parse(bytes) {
        Ok(httparse::Status::Complete(used)) if used <= http::MAX_HEAD_BYTES => used,
        Ok(httparse::Status::Partial) if bytes.len() < http::MAX_HEAD_BYTES => return Ok(None),
        _ => return Err(Wrong::Malformed),
    };
    let (Some(method), Some(target), Some(version)) = (request.method, request.path, request.version) else {
        return Err(Wrong::Malformed);
    };
    if !target.starts_with('/') {
        return Err(if matches!(to, Authority::Host(..)) { Wrong::Absolute } else { Wrong::Target });
    }
    if !is_method(method) {
        return Err(Wrong::Malformed);
    }
    let body = http::request_body(request.headers, version).map_err(|_| Wrong::Length)?;
    let base = to.check(request.headers, version)?;
    if http::values(request.headers, "upgrade").any(|value| value.eq_ignore_ascii_case(b"websocket")) {
        return Err(Wrong::Upgrade);
    }
    let listed = |name: &str| {
        let mut all =
            http::values(request.headers, "connection").flat_map(|value| value.split(|b| *b == b','));
        all.any(|word| word.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
    };
    let kept = request.headers.iter().filter(|header| !listed(header.name));
    let headers = kept.map(|header| (header.name.to_owned(), header.value.to_vec())).collect();
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query.to_owned())),
        None => (target, None),
    };
    let asked = Asked {
        method: method.to_owned(),
        path: path.to_owned(),
        query,
        base,
        headers,
        body,
        payload: None,
        is_current: version == 1,
        keeps: version == 1 && !listed("close"),
    };
    Ok(Some((asked, used)))
}

/// Splits `/NAME/REST` into the name and `/REST`.
pub fn split_name(path: &str) -> (&str, &str) {
    let path = path.strip_prefix('/').unwrap_or(path);
    path.split_at(path.find('/').unwrap_or(path.len()))
}

/// Path at the host for the rest of a path behind the name.
pub fn path_at(route: &Route, rest: &str) -> String {
    let path = format!("{}{rest}", route.binding().prefix);
    if path.is_empty() { "/".to_owned() } else { path }
}

/// Judges a request by the route's rules. A path that has two readings is refused where paths are judged.
pub fn judge(route: &Route, method: &str, path: &str) -> Verdict {
    judged(route.binding(), route.rules(), method, path)
}

/// Judges a request by the rules of a secret with this binding.
pub(in crate::route) fn judged(binding: &Binding, rules: &RequestRules, method: &str, path: &str) -> Verdict {
    let strict = rules.judges_paths() || !binding.prefix.is_empty();
    match NormalPath::parse(path, rules.accepts_encoded_slash() || !strict) {
        Ok(normal) => rules.judge(method, &normal),
        Err(why) if strict || matches!(why, PathError::Character | PathError::NotAbsolute) => {
            Verdict::Denied(why.to_string())
        }
        Err(_) => rules.judge(method, &NormalPath::root()),
    }
}

/// Head for the host. Contains the secret, or a signature with it.
pub fn for_host(route: &Route, held: &Held, asked: &Asked, path: &str) -> zeroize::Zeroizing<Vec<u8>> {
    let value = match held.credential() {
        Credential::Header(value) => value,
        Credential::Keys(keys, scope) => {
            let payload = asked.payload.as_deref().unwrap_or_default();
            return aws::request::head(route, (keys, scope), asked, path, payload, SystemTime::now());
        }
    };
    let head = opening(route, asked, path, asked.query.as_deref());
    let mut head = zeroize::Zeroizing::new(head.into_bytes());
    // Room for all, so that no copy stays behind when the buffer grows.
    let length: usize = asked.headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
    head.reserve_exact(length + route.header().len() + value.len() + 6);
    for (name, value) in &asked.headers {
        if goes_on(name, route.header(), &[]) {
            line(&mut head, name.as_bytes(), value);
        }
    }
    line(&mut head, route.header().as_bytes(), value);
    head.extend_from_slice(b"\r\n");
    head
}

/// The first lines of a head for the host: those that are ours.
pub(in crate::route) fn opening(route: &Route, asked: &Asked, path: &str, query: Option<&str>) -> String {
    let mut head = format!("{} {path}", asked.method);
    if let Some(query) = query {
        let _ = write!(head, "?{query}");
    }
    let _ =
        write!(head, " HTTP/1.1\r\nHost: {}\r\nAccept-Encoding: identity\r\n", route.binding().authority());
    match asked.body {
        Body::Chunked => head.push_str("Transfer-Encoding: chunked\r\n"),
        Body::Length(length) if length > 0 || matches!(asked.method.as_str(), "POST" | "PUT" | "PATCH") => {
            let _ = write!(head, "Content-Length: {length}\r\n");
        }
        _ => {}
    }
    head
}

/// Whether a header of the program's goes on to the host, beside that of the secret. `kept`: such as go on for this kind of secret only.
pub(in crate::route) fn goes_on(name: &str, secret: &str, kept: &[&str]) -> bool {
    let name = one_spelling(name);
    name != secret.replace('_', "-")
        && !CREDENTIALS.contains(&name.as_str())
        && (goes_beside(&name) || kept.contains(&name.as_str()))
}

/// Whether a header may go beside a secret, whose credential is another matter.
pub(in crate::route) fn goes_beside(name: &str) -> bool {
    let name = one_spelling(name);
    !http::NOT_SENT_ON.contains(&name.as_str())
        && !NOT_SENT_ON.contains(&name.as_str())
        && !name.starts_with("x-forwarded-")
        && !name.starts_with("proxy-")
}

/// A header's name as gateways that make variables of headers read it: `X_Api_Key` like `X-Api-Key`.
fn one_spelling(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "-")
}

pub(in crate::route) fn line(head: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [name, b": ", value, b"\r\n"] {
        head.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests;
