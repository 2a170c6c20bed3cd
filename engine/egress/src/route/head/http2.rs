//! Heads of HTTP/2, read and written by way of HTTP/1.1: one reader judges the requests of both versions, and one writer makes what a host
//! and a client are sent. Pure.

use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, TE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri, request, response, uri};

use super::answer::NOT_SENT_BACK;
use super::{Answer, Asked, Authority, Wrong, line};
use crate::http::{self as http1, Bad};
use crate::route::held::Held;

/// Headers of the connection, which HTTP/2 has none of (RFC 9113, 8.2.2).
const OF_CONNECTIONS: [&str; 5] =
    ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];
/// Headers that say how the body is encoded, or whose they are: too late behind a body.
const NOT_IN_TRAILERS: [&str; 6] =
    ["content-encoding", "grpc-encoding", "content-range", "content-type", "set-cookie", "location"];

/// A request of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Streamed {
    /// The request as HTTP/1.1 would have it.
    pub asked: Asked,
    /// Whether the client reads trailers.
    pub trailers: bool,
    /// Whether the client waits until it is told to send the body.
    pub waits: bool,
}

/// Reads the head of a stream: `:authority` has to be there and to name the server, `:scheme` to be `https`. `is_whole`: no body follows.
///
/// # Errors
/// [`Wrong`], as for a request of HTTP/1.1 with these fields.
pub fn request(parts: &request::Parts, is_whole: bool, to: Authority<'_>) -> Result<Streamed, Wrong> {
    // The library drops the scheme of a request without an authority.
    let authority = parts.uri.authority().ok_or_else(|| to.wrong())?.as_str();
    if parts.extensions.get::<h2::ext::Protocol>().is_some() {
        return Err(Wrong::Upgrade);
    }
    let target = parts.uri.path_and_query().map(uri::PathAndQuery::as_str).ok_or(Wrong::Malformed)?;
    if parts.uri.scheme_str() != Some("https") {
        return Err(Wrong::Absolute);
    }
    let mut text = format!("{} {target} HTTP/1.1\r\nHost: {authority}\r\n", parts.method).into_bytes();
    for (name, value) in &parts.headers {
        if OF_CONNECTIONS.contains(&name.as_str()) || *name == TE && value != "trailers" {
            return Err(Wrong::Malformed);
        }
        // One that says what `:authority` says is left out; another one is a second authority.
        let known = *name == HOST && value.as_bytes() == authority.as_bytes();
        if !known && *name != TE && *name != EXPECT {
            line(&mut text, name.as_str().as_bytes(), value.as_bytes());
        }
    }
    if !is_whole && !parts.headers.contains_key(CONTENT_LENGTH) {
        line(&mut text, b"Transfer-Encoding", b"chunked");
    }
    text.extend_from_slice(b"\r\n");
    match super::request(&text, to)? {
        Some((asked, used)) if used == text.len() => {
            let waits = parts.headers.get(EXPECT).is_some_and(|value| value.as_bytes() == b"100-continue");
            Ok(Streamed { asked, trailers: parts.headers.contains_key(TE), waits })
        }
        _ => Err(Wrong::Malformed),
    }
}

/// The head of a request for a host of HTTP/2, of one that is written for HTTP/1.1. `None` where a field has no form there.
pub fn for_host(head: &[u8], trailers: bool) -> Option<Request<()>> {
    let mut headers = [httparse::EMPTY_HEADER; 2 * http1::MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let Ok(httparse::Status::Complete(used)) = request.parse(head) else { return None };
    let (method, target) = (request.method?, request.path?);
    let mut hosts = http1::values(request.headers, "host");
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return None };
    let mut parts = uri::Parts::default();
    parts.scheme = Some(uri::Scheme::HTTPS);
    parts.authority = Some(uri::Authority::try_from(host).ok()?);
    parts.path_and_query = Some(uri::PathAndQuery::try_from(target).ok()?);
    let mut made = Request::new(());
    *made.method_mut() = method.parse().ok()?;
    *made.uri_mut() = Uri::from_parts(parts).ok()?;
    *made.headers_mut() = fields(request.headers)?;
    if trailers {
        made.headers_mut().insert(TE, HeaderValue::from_static("trailers"));
    }
    (used == head.len()).then_some(made)
}

/// Reads the head of an answer of HTTP/2. `is_whole`: no body follows.
///
/// # Errors
/// [`Bad`], as for an answer of HTTP/1.1 with these fields.
pub fn answer(parts: &response::Parts, is_whole: bool, to_head: bool) -> Result<Answer, Bad> {
    let status = parts.status.as_u16();
    let mut text = format!("HTTP/1.1 {status} \r\n").into_bytes();
    for (name, value) in &parts.headers {
        if OF_CONNECTIONS.contains(&name.as_str()) {
            return Err(Bad::Malformed);
        }
        line(&mut text, name.as_str().as_bytes(), value.as_bytes());
    }
    if !parts.headers.contains_key(CONTENT_LENGTH) {
        match is_whole {
            false => line(&mut text, b"Transfer-Encoding", b"chunked"),
            true if !to_head && !matches!(status, 204 | 304) => line(&mut text, b"Content-Length", b"0"),
            true => {}
        }
    }
    text.extend_from_slice(b"\r\n");
    match super::answer(&text, to_head)? {
        Some((answer, used)) if used == text.len() => Ok(answer),
        _ => Err(Bad::Malformed),
    }
}

/// The head of an answer for a client of HTTP/2, of one that is written for HTTP/1.1.
pub fn for_client(head: &[u8]) -> Option<Response<()>> {
    let mut headers = [httparse::EMPTY_HEADER; 2 * http1::MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let Ok(httparse::Status::Complete(used)) = response.parse(head) else { return None };
    let mut made = Response::new(());
    *made.status_mut() = StatusCode::from_u16(response.code?).ok()?;
    *made.headers_mut() = fields(response.headers)?;
    (used == head.len()).then_some(made)
}

/// Trailers of an answer, without the value and without fields that would be too late. Empty where they cannot be written.
pub fn trailers(from: &HeaderMap, held: &Held) -> HeaderMap {
    let mut text = Vec::new();
    for (name, value) in from {
        let left_out = [&http1::NOT_SENT_ON[..], &NOT_SENT_BACK, &NOT_IN_TRAILERS];
        if !left_out.iter().any(|names| names.contains(&name.as_str())) {
            line(&mut text, name.as_str().as_bytes(), value.as_bytes());
        }
    }
    text.extend_from_slice(b"\r\n");
    held.spellings().mask(&mut text);
    let mut headers = [httparse::EMPTY_HEADER; http1::MAX_HEADERS];
    match httparse::parse_headers(&text, &mut headers) {
        Ok(httparse::Status::Complete((_, headers))) => fields(headers).unwrap_or_default(),
        _ => HeaderMap::new(),
    }
}

/// Fields without those of the connection; such as carry credentials are kept out of tables of compression.
fn fields(headers: &[httparse::Header<'_>]) -> Option<HeaderMap> {
    let mut all = HeaderMap::with_capacity(headers.len());
    for header in headers {
        let name = HeaderName::from_bytes(header.name.as_bytes()).ok()?;
        if name == HOST || OF_CONNECTIONS.contains(&name.as_str()) {
            continue;
        }
        let mut value = HeaderValue::from_bytes(header.value).ok()?;
        let plain = [CONTENT_LENGTH, CONTENT_TYPE, ACCEPT, USER_AGENT];
        value.set_sensitive(!plain.contains(&name));
        all.append(name, value);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Body;
    use crate::route::rules::RequestRules;
    use crate::route::{Binding, Route, Scheme};
    use crate::secret::Secret;

    const HERE: Authority<'_> = Authority::Host("api.test", 443);

    fn route() -> Route {
        let secret = Secret::new(b"t0p-s3cret/value".to_vec()).unwrap();
        let binding: Binding = "api.test".parse().unwrap();
        Route::new("gh", binding, &Scheme::Bearer, &secret, RequestRules::default(), None).unwrap()
    }

    fn parts(method: &str, uri: &str, headers: &[(&str, &str)]) -> request::Parts {
        let mut made = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            made = made.header(*name, *value);
        }
        made.body(()).unwrap().into_parts().0
    }

    #[test]
    fn streams_are_read_as_requests_of_http_1() {
        for (method, uri, headers, want) in [
            ("GET", "https://api.test/v1?q=1", &[][..], Ok(Body::Chunked)),
            ("GET", "https://api.test:443/v1", &[], Ok(Body::Chunked)),
            ("POST", "https://api.test/v1", &[("content-length", "3")], Ok(Body::Length(3))),
            ("GET", "https://API.test/", &[], Ok(Body::Chunked)),
            ("GET", "https://api.test/", &[("host", "api.test"), ("te", "trailers")], Ok(Body::Chunked)),
            ("GET", "https://evil.test/", &[], Err("421")),
            ("GET", "https://api.test:8443/", &[], Err("421")),
            ("GET", "https://mine@api.test/", &[], Err("421")),
            ("GET", "https://api.test/", &[("host", "evil.test")], Err("421")),
            ("GET", "https://api.test/", &[("host", "API.test")], Err("421")),
            ("GET", "/", &[("host", "api.test")], Err("421")),
            ("GET", "http://api.test/", &[], Err("400")),
            ("get", "https://api.test/", &[], Err("400")),
            ("TRACE", "https://api.test/", &[], Err("400")),
            ("CONNECT", "evil.test:443", &[], Err("400")),
            ("GET", "https://api.test/", &[("connection", "close")], Err("400")),
            ("GET", "https://api.test/", &[("transfer-encoding", "chunked")], Err("400")),
            ("GET", "https://api.test/", &[("upgrade", "websocket")], Err("400")),
            ("GET", "https://api.test/", &[("keep-alive", "1")], Err("400")),
            ("GET", "https://api.test/", &[("te", "gzip")], Err("400")),
            ("POST", "https://api.test/", &[("content-length", "+1")], Err("400")),
            ("POST", "https://api.test/", &[("content-length", "1"), ("content-length", "1")], Err("400")),
        ] {
            let got = request(&parts(method, uri, headers), false, HERE);
            let got = got.map(|streamed| streamed.asked.body).map_err(|wrong| wrong.status()[..3].to_owned());
            assert_eq!(got, want.map_err(str::to_owned), "{method} {uri} {headers:?}");
        }
        let whole = request(&parts("GET", "https://api.test/", &[]), true, HERE).unwrap();
        assert_eq!((whole.asked.body, whole.waits, whole.trailers), (Body::Length(0), false, false));
        let long = "x".repeat(http1::MAX_HEAD_BYTES);
        assert_eq!(
            request(&parts("GET", "https://api.test/", &[("x", &long)]), true, HERE),
            Err(Wrong::Malformed)
        );
    }

    #[test]
    fn host_is_sent_the_secret_and_no_header_of_connections() {
        let headers = [
            ("authorization", "mine"),
            ("cookie", "a=b"),
            ("grpc-accept-encoding", "gzip"),
            ("te", "trailers"),
            ("expect", "100-continue"),
            ("x-own", "1"),
        ];
        let streamed = request(&parts("POST", "https://api.test/v1?q", &headers), false, HERE).unwrap();
        assert!(streamed.trailers && streamed.waits);
        let route = route();
        let head = super::super::for_host(&route, &route.held(), &streamed.asked, "/v1");
        let sent = for_host(&head, streamed.trailers).unwrap();
        assert_eq!(sent.uri().to_string(), "https://api.test/v1?q");
        let names: Vec<&str> = sent.headers().keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["accept-encoding", "x-own", "authorization", "te"]);
        let credential = &sent.headers()["authorization"];
        assert!(credential.is_sensitive() && credential == "Bearer t0p-s3cret/value");
        for bad in ["GET /", "GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"] {
            assert!(for_host(bad.as_bytes(), false).is_none(), "{bad}");
        }
    }

    #[test]
    fn answers_and_trailers_come_back_without_the_value() {
        let of = |status: u16, headers: &[(&str, &str)], is_whole, to_head| {
            let mut made = Response::builder().status(status);
            for (name, value) in headers {
                made = made.header(*name, *value);
            }
            answer(&made.body(()).unwrap().into_parts().0, is_whole, to_head)
        };
        for (status, headers, is_whole, to_head, want) in [
            (200, &[][..], false, false, Some((Body::Chunked, false))),
            (200, &[], true, false, Some((Body::Length(0), false))),
            (204, &[], true, false, Some((Body::Length(0), false))),
            (200, &[("content-length", "9")], true, true, Some((Body::Length(0), false))),
            (200, &[("content-length", "9")], false, false, Some((Body::Length(9), false))),
            (200, &[("content-encoding", "gzip")], false, false, Some((Body::Chunked, true))),
            (200, &[("grpc-encoding", "gzip")], false, false, Some((Body::Chunked, true))),
            (200, &[("grpc-encoding", "identity")], false, false, Some((Body::Chunked, false))),
            (200, &[("transfer-encoding", "chunked")], false, false, None),
            (200, &[("content-length", "1"), ("content-length", "2")], false, false, None),
        ] {
            let got = of(status, headers, is_whole, to_head).ok().map(|a| (a.body, a.is_encoded));
            assert_eq!(got, want, "{status} {headers:?}");
        }
        let route = route();
        let asked = request(&parts("GET", "https://api.test/", &[]), true, HERE).unwrap().asked;
        let told =
            of(200, &[("x-echo", "Bearer t0p-s3cret/value"), ("alt-svc", "h3")], false, false).unwrap();
        let head = super::super::for_client(
            (&route, &route.held()),
            &asked,
            "/",
            &told,
            super::super::Framing::Chunked,
            true,
        );
        let back = for_client(&head).unwrap();
        assert_eq!(back.headers().len(), 1);
        assert_eq!(back.headers()["x-echo"], "Bearer ****************");
        let mut map = HeaderMap::new();
        for (name, value) in [
            ("grpc-status", "0"),
            ("grpc-message", "t0p-s3cret%2Fvalue"),
            ("content-length", "1"),
            ("te", "x"),
        ] {
            map.insert(name, HeaderValue::from_static(value));
        }
        let map = trailers(&map, &route.held());
        assert_eq!((map.len(), &map["grpc-status"]), (2, &HeaderValue::from_static("0")));
        assert_eq!(map["grpc-message"], "******************");
    }
}
