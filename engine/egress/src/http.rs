//! Parses HTTP/1 heads strictly, checks them, and writes new ones. Pure; RFC 9110 and 9112.
//!
//! In a forwarded request, the headers that name the target and the end of the body are written anew, so that
//! no two servers on its way can disagree about them. One request per connection.

mod first_line;
mod overrides;

use std::fmt::Write as _;

pub use first_line::looks_like_a_request;
pub use overrides::Overrides;

use crate::host::{Host, HostError};

/// Maximum size of a head, in bytes.
pub const MAX_HEAD_BYTES: usize = 16 * 1024;
/// Up to this many bytes, a head is parsed on every read; a longer one only once its end has arrived.
/// Otherwise a client that sends single bytes would cost the proxy far more work than itself.
const SMALL_HEAD_BYTES: usize = 1024;
/// Maximum number of headers in a head.
pub(crate) const MAX_HEADERS: usize = 128;
/// Default port of `http:` URLs.
const HTTP: u16 = 80;
/// Ports of HTTP, with or without TLS, by IANA's registry or common use: a tunnel to one of them passes only
/// HTTP/1 and TLS. The protocol at other ports is unknown, so only data that could be a request is parsed
/// there.
pub const HTTP_PORTS: [u16; 11] = [HTTP, 443, 3128, 8000, 8008, 8080, 8081, 8088, 8118, 8443, 8888];

/// Reason why a request is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Bad {
    /// The data is not HTTP/1, or its head is too long.
    #[error("it is no HTTP/1 request, or its head is longer than 16 KiB")]
    Malformed,
    /// The target is neither `http://HOST/…` nor, for CONNECT, `HOST:PORT`.
    #[error("a proxy is asked for http://HOST/… or by CONNECT HOST:PORT")]
    Target,
    /// The host is not valid.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The `Host` header names another host or port than the target.
    #[error("its Host header names {named}, and it is sent to {to}")]
    OtherHost {
        /// The request's target as `HOST:PORT`.
        to: String,
        /// The `Host` header as sent.
        named: String,
    },
    /// A request of HTTP/1.1 has no `Host`, or any request has two.
    #[error("it has no Host header, or more than one")]
    NoHost,
    /// The length of the body is ambiguous.
    #[error("where its body ends is said twice, or in a way that is not known")]
    Length,
}

/// How the end of a body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// The body has this many bytes.
    Length(u64),
    /// The body is chunked; the last chunk is empty.
    Chunked,
    /// The body ends with the connection; for responses only.
    Close,
}

/// A client's request to the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyRequest {
    /// Opens a tunnel to this host and port.
    Connect(Host, u16),
    /// Forwards a request.
    Forward(Forward),
}

/// A request to be forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// Target host.
    pub host: Host,
    /// Target port.
    pub port: u16,
    /// Method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Methods and paths that headers give in place of the request's own: see [`Overrides`].
    pub overrides: Overrides,
    /// The new head.
    pub head: Vec<u8>,
    /// How the end of the request's body is found.
    pub body: Body,
    /// Whether the method is HEAD, so that the response has no body, whatever its headers say.
    pub is_head: bool,
}

/// Name of a header in small letters, with `-` for `_`: gateways that make variables of headers (CGI, RFC 3875, 4.1.18) read both alike.
fn plain_name(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "-")
}

/// Head of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// The new head.
    pub head: Vec<u8>,
    /// Whether another response follows (1xx).
    pub interim: bool,
    /// How the end of the response's body is found.
    pub body: Body,
}

/// Headers that apply to one connection, or that are written anew.
pub(crate) const NOT_SENT_ON: [&str; 14] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-authentication-info",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
    "content-length",
    "host",
    "alt-svc",
];

/// Parses a request to the proxy, or a request inside a tunnel to `tunnel`. Returns the request and the
/// length of its head, or `None` when more bytes are needed.
///
/// # Errors
/// [`Bad`] when the request is malformed or ambiguous, or names another host.
pub fn request(bytes: &[u8], tunnel: Option<(&Host, u16)>) -> Result<Option<(ProxyRequest, usize)>, Bad> {
    if is_unfinished(bytes) {
        return Ok(None);
    }
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let used = match request.parse(bytes) {
        Ok(httparse::Status::Complete(used)) if used <= MAX_HEAD_BYTES => used,
        Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD_BYTES => return Ok(None),
        _ => return Err(Bad::Malformed),
    };
    let (Some(method), Some(target), Some(version)) = (request.method, request.path, request.version) else {
        return Err(Bad::Malformed);
    };
    if method == "CONNECT" {
        // A body would be the first bytes of the tunnel; the Host header has no effect.
        if tunnel.is_some() {
            return Err(Bad::Target);
        }
        let (host, port) = Host::parse_with_port(target.as_bytes())?;
        return Ok(Some((ProxyRequest::Connect(host, port.ok_or(Bad::Target)?), used)));
    }
    let (host, port, path) = match tunnel {
        Some((host, port)) if target.starts_with('/') || target == "*" => {
            (host.clone(), port, target.to_owned())
        }
        Some(_) => return Err(Bad::Target),
        None => absolute(target)?,
    };
    let body = request_body(request.headers, version)?;
    let mut hosts = request.headers.iter().filter(|h| h.name.eq_ignore_ascii_case("host"));
    match (hosts.next(), hosts.next()) {
        (Some(header), None) => {
            let (named, at) = Host::parse_with_port(header.value.trim_ascii())?;
            if named != host || at.unwrap_or(HTTP) != port && !(tunnel.is_some() && at.is_none()) {
                let named = at.map_or_else(|| named.to_string(), |at| format!("{named}:{at}"));
                return Err(Bad::OtherHost { to: format!("{host}:{port}"), named });
            }
        }
        (None, None) if version == 0 => {}
        _ => return Err(Bad::NoHost),
    }
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {host}");
    if port != HTTP {
        let _ = write!(head, ":{port}");
    }
    head.push_str("\r\nConnection: close\r\n");
    match body {
        Body::Chunked => head.push_str("Transfer-Encoding: chunked\r\n"),
        Body::Length(length) if length > 0 || has(request.headers, "content-length") => {
            let _ = write!(head, "Content-Length: {length}\r\n");
        }
        _ => {}
    }
    let head = with_rest(head, request.headers, &NOT_SENT_ON);
    let is_head = method == "HEAD";
    let overrides = Overrides::of(method, request.headers)?;
    let (method, target) = (method.to_owned(), path);
    let forward = Forward { host, port, method, target, overrides, head, body, is_head };
    Ok(Some((ProxyRequest::Forward(forward), used)))
}

/// Whether a long head has no end yet and may still get one.
pub(crate) fn is_unfinished(bytes: &[u8]) -> bool {
    let blank = |at: usize| matches!(bytes.get(at + 1..), Some([b'\n', ..] | [b'\r', b'\n', ..]));
    (SMALL_HEAD_BYTES..MAX_HEAD_BYTES).contains(&bytes.len())
        && !bytes.iter().enumerate().any(|(at, byte)| *byte == b'\n' && blank(at))
}

/// Splits `http://HOST[:PORT]/PATH`.
fn absolute(target: &str) -> Result<(Host, u16, String), Bad> {
    const SCHEME: &str = "http://";
    let scheme = target.get(..SCHEME.len()).filter(|s| s.eq_ignore_ascii_case(SCHEME));
    let rest = scheme.and_then(|s| target.get(s.len()..)).ok_or(Bad::Target)?;
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if path.starts_with(['#', '\\']) {
        return Err(Bad::Target);
    }
    let (host, port) = Host::parse_with_port(authority.as_bytes())?;
    let slash = if path.starts_with('/') { "" } else { "/" };
    Ok((host, port.unwrap_or(HTTP), format!("{slash}{path}")))
}

fn has(headers: &[httparse::Header<'_>], name: &str) -> bool {
    headers.iter().any(|h| h.name.eq_ignore_ascii_case(name))
}

/// Values of all headers of this name.
pub(crate) fn values<'a>(
    headers: &'a [httparse::Header<'_>],
    name: &'a str,
) -> impl Iterator<Item = &'a [u8]> {
    headers.iter().filter(move |h| h.name.eq_ignore_ascii_case(name)).map(|h| h.value.trim_ascii())
}

/// How the end of a request's body is found.
///
/// # Errors
/// [`Bad::Length`] when that is said twice, or in a way that is not known.
pub(crate) fn request_body(headers: &[httparse::Header<'_>], version: u8) -> Result<Body, Bad> {
    match (said_length(headers)?, is_chunked(headers)?) {
        (None, false) => Ok(Body::Length(0)),
        (Some(length), false) => Ok(Body::Length(length)),
        (None, true) if version == 1 => Ok(Body::Chunked),
        _ => Err(Bad::Length),
    }
}

/// The single `Content-Length`, if there is one.
fn said_length(headers: &[httparse::Header<'_>]) -> Result<Option<u64>, Bad> {
    let mut lengths = values(headers, "content-length");
    match (lengths.next(), lengths.next()) {
        (None, _) => Ok(None),
        (Some(text), None) if !text.is_empty() && text.iter().all(u8::is_ascii_digit) => {
            let length = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
            length.map(Some).ok_or(Bad::Length)
        }
        _ => Err(Bad::Length),
    }
}

fn is_chunked(headers: &[httparse::Header<'_>]) -> Result<bool, Bad> {
    let mut codings = values(headers, "transfer-encoding");
    match (codings.next(), codings.next()) {
        (None, _) => Ok(false),
        (Some(coding), None) if coding.eq_ignore_ascii_case(b"chunked") => Ok(true),
        _ => Err(Bad::Length),
    }
}

/// Adds the headers that are forwarded, and the end of the head.
fn with_rest(head: String, headers: &[httparse::Header<'_>], left_out: &[&str]) -> Vec<u8> {
    let mut bytes = head.into_bytes();
    let named: Vec<&[u8]> =
        values(headers, "connection").flat_map(|v| v.split(|b| *b == b',')).map(<[u8]>::trim_ascii).collect();
    for header in headers {
        let own = left_out.contains(&plain_name(header.name).as_str());
        if !own && !named.iter().any(|name| header.name.as_bytes().eq_ignore_ascii_case(name)) {
            for part in [header.name.as_bytes(), b": ", header.value, b"\r\n"] {
                bytes.extend_from_slice(part);
            }
        }
    }
    bytes.extend_from_slice(b"\r\n");
    bytes
}

/// Parses the head of a response. Returns the response and the length of its head, or `None` when more bytes
/// are needed.
///
/// # Errors
/// [`Bad`] when the head is malformed or its body length ambiguous.
pub fn answer(bytes: &[u8], to_head: bool) -> Result<Option<(Answer, usize)>, Bad> {
    if is_unfinished(bytes) {
        return Ok(None);
    }
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let used = match response.parse(bytes) {
        Ok(httparse::Status::Complete(used)) if used <= MAX_HEAD_BYTES => used,
        Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD_BYTES => return Ok(None),
        _ => return Err(Bad::Malformed),
    };
    let code = response.code.ok_or(Bad::Malformed)?;
    // No upgrade was requested, since that header is not forwarded.
    if code == 101 {
        return Err(Bad::Malformed);
    }
    let interim = code < 200;
    let body = answer_body(response.headers, interim || to_head || matches!(code, 204 | 304))?;
    let mut head = format!("HTTP/1.1 {code} {}\r\n", response.reason.unwrap_or_default());
    if !interim {
        head.push_str("Connection: close\r\n");
    }
    // A response without a body may still state the length that the body would have.
    let left_out: Vec<&str> = NOT_SENT_ON
        .into_iter()
        .filter(|name| !matches!(*name, "content-length" | "transfer-encoding" | "trailer"))
        .collect();
    let head = with_rest(head, response.headers, &left_out);
    Ok(Some((Answer { status: code, head, interim, body }, used)))
}

/// How the end of a response's body is found. `is_without`: the response never has one.
///
/// # Errors
/// [`Bad::Length`] when that is said twice, or in a way that is not known.
pub(crate) fn answer_body(headers: &[httparse::Header<'_>], is_without: bool) -> Result<Body, Bad> {
    match (said_length(headers)?, is_chunked(headers)?) {
        _ if is_without => Ok(Body::Length(0)),
        (Some(length), false) => Ok(Body::Length(length)),
        (None, true) => Ok(Body::Chunked),
        (None, false) => Ok(Body::Close),
        (Some(_), true) => Err(Bad::Length),
    }
}

/// Response to a client whose request is rejected.
#[must_use]
pub fn refusal(status: &str, why: &str) -> Vec<u8> {
    let text = format!("hotcell: {why}\n");
    format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: text/plain\r\nX-Content-Type-Options: nosniff\r\n\
         Content-Length: {}\r\n\r\n{text}",
        text.len()
    )
    .into_bytes()
}

/// Response to CONNECT once the connection is established.
pub const CONNECTED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn framing_headers_are_left_out_in_every_spelling() {
        for name in ["Transfer_Encoding", "TRANSFER-ENCODING", "Proxy_Authorization", "http2_Settings"] {
            let text = format!(
                "GET http://a.test/x HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n{name}: 1\r\nX_Own: 2\r\n\r\n"
            );
            // The true spelling of the length is refused where it is ambiguous.
            let Ok(Some((ProxyRequest::Forward(forward), _))) = request(text.as_bytes(), None) else {
                continue;
            };
            let head = String::from_utf8(forward.head).unwrap();
            assert!(
                !head.to_lowercase().contains(&name.to_lowercase()) && head.contains("X_Own: 2"),
                "{head}"
            );
        }
    }

    fn forwarded(text: &str) -> Result<(String, String, Body), Bad> {
        match request(text.as_bytes(), None)? {
            Some((ProxyRequest::Forward(f), used)) => {
                assert_eq!(used, text.find("\r\n\r\n").unwrap() + 4);
                Ok((format!("{}:{}", f.host, f.port), String::from_utf8(f.head).unwrap(), f.body))
            }
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn forwarded_request_is_rewritten() {
        let (to, head, body) = forwarded(
            "POST http://A.com:8080/p?q HTTP/1.1\r\nhost: a.com:8080\r\nProxy-Authorization: secret\r\n\
             Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nUpgrade: h2c\r\nContent-Length: 5\r\nX-Kept: yes\r\n\r\n",
        )
        .unwrap();
        assert_eq!((to.as_str(), body), ("a.com:8080", Body::Length(5)));
        assert_eq!(
            head,
            "POST /p?q HTTP/1.1\r\nHost: a.com:8080\r\nConnection: close\r\nContent-Length: 5\r\nX-Kept: yes\r\n\r\n"
        );
        let (to, head, _) = forwarded("GET http://a.com?q HTTP/1.0\r\n\r\n").unwrap();
        assert_eq!(
            (to.as_str(), head.as_str()),
            ("a.com:80", "GET /?q HTTP/1.1\r\nHost: a.com\r\nConnection: close\r\n\r\n")
        );
    }

    #[test]
    fn ambiguous_requests_are_refused() {
        let host = "Host: a.com\r\n";
        let other = |named: &str| Bad::OtherHost { to: "a.com:80".into(), named: named.into() };
        for (text, want) in [
            (format!("GET / HTTP/1.1\r\n{host}\r\n"), Bad::Target),
            (format!("GET https://a.com/ HTTP/1.1\r\n{host}\r\n"), Bad::Target),
            (format!("GET http:/a.com/ HTTP/1.1\r\n{host}\r\n"), Bad::Target),
            (format!("GET http://a.com\\@b.com/ HTTP/1.1\r\n{host}\r\n"), Bad::Target),
            ("GET http://a.com/ HTTP/1.1\r\n\r\n".into(), Bad::NoHost),
            (format!("GET http://a.com/ HTTP/1.1\r\n{host}{host}\r\n"), Bad::NoHost),
            ("GET http://a.com/ HTTP/1.1\r\nHost: b.com\r\n\r\n".into(), other("b.com")),
            ("GET http://a.com/ HTTP/1.1\r\nHost: a.com:81\r\n\r\n".into(), other("a.com:81")),
            (
                format!(
                    "POST http://a.com/ HTTP/1.1\r\n{host}Content-Length: 1\r\nContent-Length: 1\r\n\r\n"
                ),
                Bad::Length,
            ),
            (format!("POST http://a.com/ HTTP/1.1\r\n{host}Content-Length: +1\r\n\r\n"), Bad::Length),
            (format!("POST http://a.com/ HTTP/1.1\r\n{host}Content-Length: 1,1\r\n\r\n"), Bad::Length),
            (
                format!(
                    "POST http://a.com/ HTTP/1.1\r\n{host}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
                ),
                Bad::Length,
            ),
            (
                format!("POST http://a.com/ HTTP/1.1\r\n{host}Transfer-Encoding: gzip, chunked\r\n\r\n"),
                Bad::Length,
            ),
            (
                format!("POST http://a.com/ HTTP/1.1\r\n{host}Transfer-Encoding: xchunked\r\n\r\n"),
                Bad::Length,
            ),
            ("POST http://a.com/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n".into(), Bad::Length),
            (
                format!("POST http://a.com/ HTTP/1.1\r\n{host}Transfer-Encoding : chunked\r\n\r\n"),
                Bad::Malformed,
            ),
            (format!("GET http://a.com/ HTTP/1.1\r\n{host} folded\r\n\r\n"), Bad::Malformed),
            ("PRI * HTTP/2.0\r\n\r\n".into(), Bad::Malformed),
        ] {
            assert_eq!(forwarded(&text).unwrap_err(), want, "{text}");
        }
        for target in
            ["http://user@a.com/", "http://a%2ecom/", "http://0x7f.1/", "http:///", "http://a.com:/"]
        {
            let error = forwarded(&format!("GET {target} HTTP/1.1\r\n{host}\r\n")).unwrap_err();
            assert!(matches!(error, Bad::Host(_)), "{target}: {error:?}");
        }
    }

    #[test]
    fn connections_and_requests_within_them() {
        let connect = |text: &str| request(text.as_bytes(), None);
        let Ok(Some((ProxyRequest::Connect(host, 443), _))) =
            connect("CONNECT A.com:443 HTTP/1.1\r\nHost: x\r\n\r\n")
        else {
            panic!()
        };
        assert_eq!(host.to_string(), "a.com");
        assert_eq!(connect("CONNECT a.com HTTP/1.1\r\n\r\n"), Err(Bad::Target));
        assert!(matches!(connect("CONNECT u@a.com:443 HTTP/1.1\r\n\r\n"), Err(Bad::Host(_))));
        for (text, good) in [
            ("GET / HTTP/1.1\r\nHost: a.com\r\n\r\n", true),
            ("GET / HTTP/1.1\r\nHost: a.com:8080\r\n\r\n", true),
            ("OPTIONS * HTTP/1.1\r\nHost: a.com\r\n\r\n", true),
            ("GET / HTTP/1.1\r\nHost: b.com\r\n\r\n", false),
            ("GET / HTTP/1.1\r\nHost: a.com:80\r\n\r\n", false),
            ("GET http://b.com/ HTTP/1.1\r\nHost: a.com\r\n\r\n", false),
            ("CONNECT b.com:443 HTTP/1.1\r\n\r\n", false),
        ] {
            assert_eq!(request(text.as_bytes(), Some((&host, 8080))).is_ok(), good, "{text}");
        }
    }

    #[test]
    fn answers_are_written_anew() {
        let read = |text: &str, to_head| answer(text.as_bytes(), to_head).map(|a| a.unwrap().0);
        let got = read(
            "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 3\r\nSet-Cookie: a\r\n\r\n",
            false,
        )
        .unwrap();
        assert_eq!(got.body, Body::Length(3));
        assert_eq!(
            got.head,
            b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\nSet-Cookie: a\r\n\r\n"
        );
        for (text, to_head, body) in [
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false, Some(Body::Chunked)),
            ("HTTP/1.0 200\r\n\r\n", false, Some(Body::Close)),
            ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", true, Some(Body::Length(0))),
            ("HTTP/1.1 304 x\r\nContent-Length: 9\r\n\r\n", false, Some(Body::Length(0))),
            ("HTTP/1.1 100 Continue\r\n\r\n", false, Some(Body::Length(0))),
            ("HTTP/1.1 101 x\r\n\r\n", false, None),
            ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", false, None),
            ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", false, None),
        ] {
            assert_eq!(read(text, to_head).ok().map(|a| a.body), body, "{text}");
        }
    }

    #[test]
    fn long_heads_are_malformed() {
        let head = |length: usize| {
            let start = "GET http://a.com/ HTTP/1.1\r\nHost: a.com\r\nX: ";
            format!("{start}{}\r\n\r\n", "x".repeat(length - start.len() - 4))
        };
        for length in [SMALL_HEAD_BYTES, MAX_HEAD_BYTES - 1, MAX_HEAD_BYTES] {
            let head = head(length);
            assert_eq!(request(&head.as_bytes()[..length - 1], None), Ok(None), "{length}");
            assert!(matches!(request(head.as_bytes(), None), Ok(Some(_))), "{length}");
        }
        assert_eq!(request(head(MAX_HEAD_BYTES + 1).as_bytes(), None), Err(Bad::Malformed));
        assert_eq!(
            request(&head(MAX_HEAD_BYTES + 9).as_bytes()[..MAX_HEAD_BYTES], None),
            Err(Bad::Malformed)
        );
    }

    proptest! {
        #[test]
        fn arbitrary_http_bytes_cause_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = request(&bytes, None);
            let _ = answer(&bytes, false);
            let _ = looks_like_a_request(&bytes);
            let _ = request(&[b"GET http://a.com/ HTTP/1.1\r\nHost: ", &bytes[..]].concat(), None);
        }

        #[test]
        fn forwarded_request_parses_as_one_to_host(
            value in "[ -~]{0,20}", name in "[A-Za-z-]{1,16}", path in "/[!-~]{0,20}",
        ) {
            let text = format!("GET http://a.com{path} HTTP/1.1\r\nHost: a.com\r\n{name}: {value}\r\n\r\n");
            if let Ok(Some((ProxyRequest::Forward(forward), _))) = request(text.as_bytes(), None) {
                let host = Host::Name("a.com".to_owned());
                let again = request(&forward.head, Some((&host, 80)));
                let Ok(Some((ProxyRequest::Forward(again), used))) = again else { panic!("{again:?}") };
                prop_assert_eq!(used, forward.head.len());
                prop_assert_eq!((again.host, again.body), (forward.host, forward.body));
            }
        }
    }
}
