//! Heads of requests and answers of a route: read strictly, and written anew. Pure.

use std::fmt::Write as _;

use url::Url;

use super::held::Held;
use super::rules::{NormalPath, PathError, Verdict, is_method};
use super::{HTTPS_PORT, Route};
use crate::host::Host;
use crate::http::{self, Bad, Body};

/// Headers of a request that do not go on, beyond those of the connection: the program's own credentials, which could stand before the
/// secret; names of another target or method; and those that would let the value come back encoded or in parts.
const NOT_SENT_ON: [&str; 20] = [
    "authorization",
    "cookie",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "x-auth-token",
    "private-token",
    "job-token",
    "forwarded",
    "x-original-url",
    "x-rewrite-url",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "accept-encoding",
    "range",
    "if-range",
    "max-forwards",
    "via",
    "origin",
];
/// Headers of an answer that do not go back, beyond those of the connection.
const NOT_SENT_BACK: [&str; 1] = ["strict-transport-security"];

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
    /// Whether the client speaks HTTP/1.1.
    pub is_current: bool,
    /// Whether the connection stays open.
    pub keeps: bool,
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
    let rules = route.rules();
    let strict = rules.judges_paths() || !route.binding().prefix.is_empty();
    match NormalPath::parse(path, rules.accepts_encoded_slash() || !strict) {
        Ok(normal) => rules.judge(method, &normal),
        Err(why) if strict || matches!(why, PathError::Character | PathError::NotAbsolute) => {
            Verdict::Denied(why.to_string())
        }
        Err(_) => rules.judge(method, &NormalPath::root()),
    }
}

/// Head for the host. Contains the secret.
pub fn for_host(route: &Route, held: &Held, asked: &Asked, path: &str) -> zeroize::Zeroizing<Vec<u8>> {
    let mut head = format!("{} {path}", asked.method);
    if let Some(query) = &asked.query {
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
    let mut head = zeroize::Zeroizing::new(head.into_bytes());
    // Room for all, so that no copy stays behind when the buffer grows.
    let length: usize = asked.headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
    head.reserve_exact(length + route.header().len() + held.expose().len() + 6);
    for (name, value) in &asked.headers {
        if goes_on(name, route.header()) {
            line(&mut head, name.as_bytes(), value);
        }
    }
    line(&mut head, route.header().as_bytes(), held.expose());
    head.extend_from_slice(b"\r\n");
    head
}

/// Whether a header of the program's goes on to the host.
fn goes_on(name: &str, secret: &str) -> bool {
    // Gateways that make variables of headers read `X_Api_Key` like `X-Api-Key`.
    let name = name.to_ascii_lowercase().replace('_', "-");
    name != secret.replace('_', "-")
        && !http::NOT_SENT_ON.contains(&name.as_str())
        && !NOT_SENT_ON.contains(&name.as_str())
        && !name.starts_with("x-forwarded-")
        && !name.starts_with("proxy-")
}

fn line(head: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [name, b": ", value, b"\r\n"] {
        head.extend_from_slice(part);
    }
}

/// An answer of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    reason: String,
    headers: Vec<(String, Vec<u8>)>,
    pub body: Body,
    /// Whether another answer follows (1xx).
    pub interim: bool,
    /// Whether the host keeps the connection open.
    pub keeps: bool,
    /// Whether the body is compressed, so that it cannot be looked through.
    pub is_encoded: bool,
}

/// Parses the head of an answer. Returns the answer and the length of its head, or `None` when more bytes are needed.
pub fn answer(bytes: &[u8], to_head: bool) -> Result<Option<(Answer, usize)>, Bad> {
    if http::is_unfinished(bytes) {
        return Ok(None);
    }
    let mut headers = [httparse::EMPTY_HEADER; http::MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let used = match response.parse(bytes) {
        Ok(httparse::Status::Complete(used)) if used <= http::MAX_HEAD_BYTES => used,
        Ok(httparse::Status::Partial) if bytes.len() < http::MAX_HEAD_BYTES => return Ok(None),
        _ => return Err(Bad::Malformed),
    };
    let (Some(status), Some(version)) = (response.code, response.version) else { return Err(Bad::Malformed) };
    // No upgrade was asked for.
    if status == 101 {
        return Err(Bad::Malformed);
    }
    let interim = status < 200;
    let body = http::answer_body(response.headers, interim || to_head || matches!(status, 204 | 304))?;
    let mut named =
        http::values(response.headers, "connection").flat_map(|value| value.split(|b| *b == b','));
    let closes = named.any(|word| word.trim_ascii().eq_ignore_ascii_case(b"close"));
    let plain = |value: &[u8]| value.is_empty() || value.eq_ignore_ascii_case(b"identity");
    let is_encoded =
        body != Body::Length(0) && !http::values(response.headers, "content-encoding").all(plain);
    let headers =
        response.headers.iter().map(|header| (header.name.to_owned(), header.value.to_vec())).collect();
    let reason = response.reason.unwrap_or_default().to_owned();
    let keeps = version == 1 && !closes && body != Body::Close;
    Ok(Some((Answer { status, reason, headers, body, interim, keeps, is_encoded }, used)))
}

/// How the end of an answer's body is told to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// By the length that the host gave.
    Length(u64),
    /// By chunks.
    Chunked,
    /// By the end of the connection.
    Close,
}

/// Head for the client: without the connection's headers and the value, and for a base URL with places at the route's host as places of the
/// route.
pub fn for_client(
    (route, held): (&Route, &Held),
    asked: &Asked,
    path: &str,
    answer: &Answer,
    framing: Framing,
    keeps: bool,
) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {} {}\r\n", answer.status, answer.reason).into_bytes();
    line(&mut head, b"Connection", if keeps { b"keep-alive" } else { b"close" });
    match framing {
        Framing::Chunked => line(&mut head, b"Transfer-Encoding", b"chunked"),
        Framing::Length(length) if !matches!(answer.status, 204 | 304) && asked.method != "HEAD" => {
            line(&mut head, b"Content-Length", length.to_string().as_bytes());
        }
        _ => {}
    }
    for (name, value) in &answer.headers {
        let lower = name.to_ascii_lowercase();
        // An answer without a body may state the length that the body would have.
        let length = lower == "content-length" && (asked.method == "HEAD" || answer.status == 304);
        if !length && (http::NOT_SENT_ON.contains(&lower.as_str()) || NOT_SENT_BACK.contains(&lower.as_str()))
        {
            continue;
        }
        match (lower.as_str(), std::str::from_utf8(value), &asked.base) {
            ("location" | "content-location", Ok(place), Some(base)) => {
                line(&mut head, name.as_bytes(), moved(route, base, path, place).as_bytes());
            }
            ("link", Ok(links), Some(base)) => {
                line(&mut head, name.as_bytes(), linked(route, base, path, links).as_bytes());
            }
            _ => line(&mut head, name.as_bytes(), value),
        }
    }
    head.extend_from_slice(b"\r\n");
    held.spellings().mask(&mut head);
    head
}

/// A place that an answer names: within the route as a URL of the route, others as absolute URLs, to which the client goes without a secret.
fn moved(route: &Route, inside: &str, path: &str, place: &str) -> String {
    let binding = route.binding();
    let here = Url::parse(&format!("https://{}{path}", binding.authority()));
    let Ok(to) = here.and_then(|here| here.join(place)) else { return place.to_owned() };
    let at_host = to.scheme() == "https"
        && to.host_str() == Some(binding.host.as_str())
        && to.port_or_known_default() == Some(binding.port)
        && to.username().is_empty();
    let rest = to.path().strip_prefix(binding.prefix.as_str());
    match rest.filter(|rest| at_host && (rest.is_empty() || rest.starts_with('/'))) {
        Some(rest) => {
            let query = to.query().map(|query| format!("?{query}")).unwrap_or_default();
            let fragment = to.fragment().map(|fragment| format!("#{fragment}")).unwrap_or_default();
            format!("http://{inside}/{}{rest}{query}{fragment}", route.name())
        }
        None => to.to_string(),
    }
}

/// The places of a `Link` header, each within `<` and `>` (RFC 8288).
fn linked(route: &Route, inside: &str, path: &str, links: &str) -> String {
    let mut text = String::with_capacity(links.len());
    let mut rest = links;
    while let Some((before, after)) = rest.split_once('<') {
        let Some((place, after)) = after.split_once('>') else { break };
        let _ = write!(text, "{before}<{}>", moved(route, inside, path, place));
        rest = after;
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::rules::RequestRules;
    use crate::route::{Binding, Scheme};
    use crate::secret::Secret;
    use proptest::prelude::*;

    const VALUE: &str = "t0p-s3cret/value";

    fn route(binding: &str, scheme: &Scheme) -> Route {
        let secret = Secret::new(VALUE.as_bytes().to_vec()).unwrap();
        let binding: Binding = binding.parse().unwrap();
        Route::new("gh", binding, scheme, &secret, RequestRules::default(), None).unwrap()
    }

    fn asked(text: &str) -> Result<Asked, Wrong> {
        request(text.as_bytes(), Authority::Loopback(888)).map(|found| {
            let (asked, used) = found.unwrap_or_else(|| panic!("unfinished: {text}"));
            assert_eq!(used, text.find("\r\n\r\n").unwrap() + 4);
            asked
        })
    }

    fn sent(route: &Route, text: &str) -> String {
        let asked = asked(text).unwrap();
        let path = path_at(route, split_name(&asked.path).1);
        String::from_utf8(for_host(route, &route.held(), &asked, &path).to_vec()).unwrap()
    }

    #[test]
    fn head_for_the_host_has_our_host_and_the_secret_once() {
        let head = sent(
            &route("api.test:8443/v1", &Scheme::Bearer),
            "POST /gh/models?x=1 HTTP/1.1\r\nHost: 127.0.0.1:888\r\nAuthorization: Bearer mine\r\nauthorization: Basic x\r\n\
             AUTHORIZATION : no\r\n\r\n".replace("AUTHORIZATION : no\r\n", "").as_str(),
        );
        assert_eq!(
            head,
            format!(
                "POST /v1/models?x=1 HTTP/1.1\r\nHost: api.test:8443\r\nAccept-Encoding: identity\r\nContent-Length: 0\r\n\
                 authorization: Bearer {VALUE}\r\n\r\n"
            )
        );
        let head = sent(
            &route("api.test", &Scheme::header("X-Acme-Key").unwrap()),
            "GET /gh HTTP/1.1\r\nHost: localhost:888\r\nx-acme-key: a\r\nX_Acme_Key: b\r\nX-API-Key: c\r\nCookie: d\r\n\
             Connection: keep-alive, X-Kept-Not\r\nX-Kept-Not: e\r\nX-Forwarded-Host: f\r\nX-HTTP-Method-Override: DELETE\r\n\
             X-Original-URL: /admin\r\nRange: bytes=0-1\r\nAccept-Encoding: gzip\r\nProxy-Authorization: g\r\nUpgrade: h2c\r\n\
             TE: trailers\r\nTrailer: x\r\nX-Kept: yes\r\n\r\n",
        );
        assert_eq!(
            head,
            format!(
                "GET / HTTP/1.1\r\nHost: api.test\r\nAccept-Encoding: identity\r\nX-Kept: yes\r\nx-acme-key: {VALUE}\r\n\r\n"
            )
        );
    }

    #[test]
    fn smuggled_and_foreign_requests_are_refused() {
        let host = "Host: 127.0.0.1:888\r\n";
        for (text, want) in [
            (format!("GET http://a.test/ HTTP/1.1\r\n{host}\r\n"), Wrong::Target),
            (format!("GET http://127.0.0.1:888/gh/ HTTP/1.1\r\n{host}\r\n"), Wrong::Target),
            (format!("OPTIONS * HTTP/1.1\r\n{host}\r\n"), Wrong::Target),
            (format!("CONNECT api.test:443 HTTP/1.1\r\n{host}\r\n"), Wrong::Target),
            (format!("CONNECT /gh HTTP/1.1\r\n{host}\r\n"), Wrong::Malformed),
            (format!("TRACE /gh/ HTTP/1.1\r\n{host}\r\n"), Wrong::Malformed),
            (format!("get /gh/ HTTP/1.1\r\n{host}\r\n"), Wrong::Malformed),
            ("GET /gh/ HTTP/1.1\r\n\r\n".to_owned(), Wrong::Host),
            (format!("GET /gh/ HTTP/1.1\r\n{host}{host}\r\n"), Wrong::Host),
            ("GET /gh/ HTTP/1.1\r\nHost: api.test\r\n\r\n".to_owned(), Wrong::Host),
            ("GET /gh/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".to_owned(), Wrong::Host),
            ("GET /gh/ HTTP/1.1\r\nHost: 127.0.0.1:888, api.test\r\n\r\n".to_owned(), Wrong::Host),
            (
                format!("POST /gh/ HTTP/1.1\r\n{host}Content-Length: 1\r\nContent-Length: 1\r\n\r\n"),
                Wrong::Length,
            ),
            (
                format!("POST /gh/ HTTP/1.1\r\n{host}Content-Length: 1\r\ncontent-length: 2\r\n\r\n"),
                Wrong::Length,
            ),
            (
                format!(
                    "POST /gh/ HTTP/1.1\r\n{host}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
                ),
                Wrong::Length,
            ),
            (
                format!("POST /gh/ HTTP/1.1\r\n{host}Transfer-Encoding: chunked, identity\r\n\r\n"),
                Wrong::Length,
            ),
            (format!("POST /gh/ HTTP/1.1\r\n{host}Content-Length: +1\r\n\r\n"), Wrong::Length),
            (format!("GET /gh/ HTTP/1.1\r\n{host}X: a\r\n folded\r\n\r\n"), Wrong::Malformed),
            (format!("GET /gh/ HTTP/1.1\r\n{host}X: a\0b\r\n\r\n"), Wrong::Malformed),
            (format!("GET /gh/ HTTP/1.1\r\n{host}X : a\r\n\r\n"), Wrong::Malformed),
            (format!("GET /gh/\0 HTTP/1.1\r\n{host}\r\n"), Wrong::Malformed),
            (format!("GET /gh/ HTTP/2.0\r\n{host}\r\n"), Wrong::Malformed),
        ] {
            let read = request(text.as_bytes(), Authority::Loopback(888));
            assert_eq!(read.map(drop), Err(want), "{text:?}");
        }
    }

    #[test]
    fn host_within_tls_is_the_one_that_connect_named() {
        let at = |port| Authority::Host("api.test", port);
        for (host, port, good) in [
            ("Host: api.test", 443, true),
            ("Host: API.Test.:443", 443, true),
            ("Host: api.test:8443", 8443, true),
            ("Host: api.test", 8443, false),
            ("Host: api.test:8443", 443, false),
            ("Host: evil.test", 443, false),
            ("Host: x.api.test", 443, false),
            ("Host: api.test.evil.test", 443, false),
            ("Host: api.test, evil.test", 443, false),
            ("Host: api.test evil.test", 443, false),
            ("Host: u@api.test", 443, false),
            ("Host: 10.0.0.1", 443, false),
            ("Host: 127.0.0.1:888", 443, false),
            ("Host:", 443, false),
            ("X: y", 443, false),
            ("Host: api.test\r\nHost: api.test", 443, false),
            ("Host: api.test\r\nhost: evil.test", 443, false),
            ("Host: evil.test\r\nHost: api.test", 443, false),
        ] {
            let got = request(format!("GET / HTTP/1.1\r\n{host}\r\n\r\n").as_bytes(), at(port));
            let want = if port == 443 { "api.test" } else { "api.test:8443" };
            match got {
                Ok(Some((asked, _))) => assert!(good && asked.base.is_none(), "{host}"),
                Err(wrong) => assert_eq!((wrong, good), (Wrong::OtherHost(want.to_owned()), false), "{host}"),
                Ok(None) => panic!("unfinished: {host}"),
            }
        }
        let host = "Host: api.test\r\n";
        for (text, want, status) in [
            (format!("GET https://api.test/ HTTP/1.1\r\n{host}\r\n"), Wrong::Absolute, "400"),
            (format!("GET https://evil.test/ HTTP/1.1\r\n{host}\r\n"), Wrong::Absolute, "400"),
            (format!("GET http://api.test/ HTTP/1.1\r\n{host}\r\n"), Wrong::Absolute, "400"),
            (format!("CONNECT evil.test:443 HTTP/1.1\r\n{host}\r\n"), Wrong::Absolute, "400"),
            (format!("OPTIONS * HTTP/1.1\r\n{host}\r\n"), Wrong::Absolute, "400"),
            (format!("GET / HTTP/1.1\r\n{host}:authority: evil.test\r\n\r\n"), Wrong::Malformed, "400"),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), Wrong::Malformed, "400"),
            (
                "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n".to_owned(),
                Wrong::OtherHost("api.test".into()),
                "421",
            ),
            (format!("GET / HTTP/1.1\r\n{host}Upgrade: websocket\r\n\r\n"), Wrong::Upgrade, "501"),
        ] {
            let got = request(text.as_bytes(), at(443)).map(drop).unwrap_err();
            assert!(got == want && got.status().starts_with(status), "{text:?}: {got:?}");
        }
        // HTTP/1.0 needs no Host.
        assert!(request(b"GET / HTTP/1.0\r\n\r\n", at(443)).is_ok_and(|found| found.is_some()));
    }

    #[test]
    fn places_in_answers_within_tls_stay_as_they_are() {
        let route = route("api.test", &Scheme::Bearer);
        let head = b"GET / HTTP/1.1\r\nHost: api.test\r\n\r\n";
        let (asked, _) = request(head, Authority::Host("api.test", 443)).unwrap().unwrap();
        let links = "Location: /there\r\nLink: <https://api.test/x>; rel=\"next\"\r\n";
        let text = format!("HTTP/1.1 302 Found\r\n{links}Set-Cookie: k={VALUE}\r\nContent-Length: 0\r\n\r\n");
        let (answer, _) = answer(text.as_bytes(), false).unwrap().unwrap();
        let head = for_client((&route, &route.held()), &asked, "/", &answer, Framing::Length(0), true);
        let head = String::from_utf8(head).unwrap();
        assert!(head.contains(links) && head.contains("Set-Cookie: k=****"), "{head}");
    }

    #[test]
    fn paths_with_two_readings_are_refused_where_paths_matter() {
        let with_prefix = route("api.test/v1", &Scheme::Bearer);
        let without = route("api.test", &Scheme::Bearer);
        for (rest, strict, plain) in [
            ("/models", true, true),
            ("", true, true),
            ("/../admin", false, true),
            ("/%2e%2e/admin", false, true),
            ("/a%2f..%2fb", false, true),
            ("//a", false, true),
            ("/a%00", false, true),
            ("/@acme%2fpkg", false, true),
            ("/a#b", false, false),
            ("/a\\b", false, false),
            ("/ä", false, false),
        ] {
            for (route, want) in [(&with_prefix, strict), (&without, plain)] {
                let got = judge(route, "GET", &path_at(route, rest));
                assert_eq!(matches!(got, Verdict::Allowed(_)), want, "{rest} {route:?}: {got:?}");
            }
        }
        assert_eq!((path_at(&with_prefix, ""), path_at(&without, "")), ("/v1".to_owned(), "/".to_owned()));
        assert_eq!(split_name("/gh/a/b"), ("gh", "/a/b"));
        assert_eq!(
            (split_name("/gh"), split_name("/"), split_name("//x")),
            (("gh", ""), ("", ""), ("", "/x"))
        );
    }

    #[test]
    fn places_at_the_host_become_places_of_the_route() {
        let route = route("api.test/v1", &Scheme::Bearer);
        for (place, want) in [
            ("https://api.test/v1/x?y=1#z", "http://127.0.0.1:888/gh/x?y=1#z"),
            ("https://API.test:443/v1", "http://127.0.0.1:888/gh"),
            ("/v1/x", "http://127.0.0.1:888/gh/x"),
            ("x", "http://127.0.0.1:888/gh/a/x"),
            ("../../../gh/x", "https://api.test/gh/x"),
            ("/gh/x", "https://api.test/gh/x"),
            ("/v12/x", "https://api.test/v12/x"),
            ("https://evil.test/v1/x", "https://evil.test/v1/x"),
            ("//evil.test/v1", "https://evil.test/v1"),
            ("http://api.test/v1/x", "http://api.test/v1/x"),
            ("https://api.test:444/v1/x", "https://api.test:444/v1/x"),
            ("https://api.test@evil.test/v1", "https://api.test@evil.test/v1"),
        ] {
            assert_eq!(moved(&route, "127.0.0.1:888", "/v1/a/b", place), want, "{place}");
        }
        let links = "<https://api.test/v1/x?page=2>; rel=\"next\", <https://other.test/>; rel=\"last\"";
        let want = "<http://127.0.0.1:888/gh/x?page=2>; rel=\"next\", <https://other.test/>; rel=\"last\"";
        assert_eq!(linked(&route, "127.0.0.1:888", "/v1/x", links), want);
        assert_eq!(linked(&route, "127.0.0.1:888", "/v1/x", "no < end"), "no < end");
    }

    #[test]
    fn head_for_the_client_is_without_the_value() {
        let route = route("api.test", &Scheme::Bearer);
        let asked = asked("GET /gh/ HTTP/1.1\r\nHost: 127.0.0.1:888\r\n\r\n").unwrap();
        let text = format!(
            "HTTP/1.1 302 seen {VALUE}\r\nX-Echo: Bearer {VALUE}\r\nLocation: https://evil.test/?k={}\r\nConnection: close\r\n\
             Strict-Transport-Security: x\r\nAlt-Svc: h3\r\nContent-Length: 3\r\n\r\n",
            VALUE.replace('/', "%2F")
        );
        let (answer, used) = answer(text.as_bytes(), false).unwrap().unwrap();
        assert_eq!(
            (used, answer.status, answer.body, answer.keeps),
            (text.len(), 302, Body::Length(3), false)
        );
        let head = for_client((&route, &route.held()), &asked, "/", &answer, Framing::Length(3), true);
        let masked = "*".repeat(VALUE.len());
        let want = format!(
            "HTTP/1.1 302 seen {masked}\r\nConnection: keep-alive\r\nContent-Length: 3\r\nX-Echo: Bearer {masked}\r\n\
             Location: https://evil.test/?k={masked}**\r\n\r\n"
        );
        assert_eq!(String::from_utf8(head).unwrap(), want);
        for (text, good) in [
            ("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\nContent-Length: 3\r\n\r\n", false),
            ("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n\r\n", false),
        ] {
            assert_eq!(super::answer(text.as_bytes(), false).unwrap().unwrap().0.is_encoded, good, "{text}");
        }
        for text in [
            "HTTP/1.1 101 x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "SSH-2.0\r\n\r\n",
        ] {
            assert!(super::answer(text.as_bytes(), false).is_err(), "{text}");
        }
    }

    #[test]
    fn first_bytes_tell_paths_from_other_requests() {
        for (bytes, want) in [
            (&b"GET /gh/"[..], Some(true)),
            (b"\r\nGET /gh/", Some(true)),
            (b"GET http://a.test/", Some(false)),
            (b"CONNECT a.test:443", Some(false)),
            (b"CONNECT /gh", Some(true)),
            (b"GET", None),
            (b"GET ", None),
            (b"", None),
            (b"G\x00T /", Some(false)),
            (b"\x16\x03\x01", Some(false)),
        ] {
            assert_eq!(is_path(bytes), want, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_heads_cause_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = request(&bytes, Authority::Loopback(888));
            let _ = answer(&bytes, false);
            let _ = is_path(&bytes);
            let head = b"GET /gh/ HTTP/1.1\r\nHost: 127.0.0.1:888\r\n";
            let _ = request(&[head, &bytes[..]].concat(), Authority::Loopback(888));
        }

        #[test]
        fn accepted_host_within_tls_is_the_bound_one(
            names in proptest::collection::vec("(api.test|evil.test|API.TEST|api.test:443|[ -~]{0,12})", 0..3),
        ) {
            let lines: String = names.iter().map(|name| format!("Host: {name}\r\n")).collect();
            let text = format!("GET / HTTP/1.1\r\n{lines}\r\n");
            if let Ok(Some(_)) = request(text.as_bytes(), Authority::Host("api.test", 443)) {
                prop_assert_eq!(names.len(), 1);
                let name = names[0].trim().to_ascii_lowercase();
                let name = name.strip_suffix(":443").unwrap_or(&name);
                prop_assert_eq!(name.strip_suffix('.').unwrap_or(name), "api.test");
            }
        }

        #[test]
        fn no_header_of_the_program_stands_beside_the_secret(
            name in "[A-Za-z_-]{1,20}", value in "[ -~]{0,20}", path in "/[!-~]{0,20}",
        ) {
            let route = route("api.test/v1", &Scheme::Bearer);
            let text = format!("GET /gh{path} HTTP/1.1\r\nHost: 127.0.0.1:888\r\n{name}: {value}\r\n\r\n");
            if let Ok(Some((asked, _))) = request(text.as_bytes(), Authority::Loopback(888)) {
                let path = path_at(&route, split_name(&asked.path).1);
                if matches!(judge(&route, "GET", &path), Verdict::Allowed(_)) {
                    prop_assert!(path == "/v1" || path.starts_with("/v1/"));
                    let head = for_host(&route, &route.held(), &asked, &path);
                    let mut headers = [httparse::EMPTY_HEADER; 16];
                    let mut again = httparse::Request::new(&mut headers);
                    prop_assert_eq!(again.parse(&head), Ok(httparse::Status::Complete(head.len())));
                    let named = |name: &str| again.headers.iter().filter(|h| h.name.eq_ignore_ascii_case(name)).count();
                    prop_assert_eq!((named("host"), named("authorization")), (1, 1));
                }
            }
        }
    }
}
