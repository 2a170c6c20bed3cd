//! The readers of a route's requests and answers, held against what they promise, for bytes of an enemy: by fuzzing, and by this crate's
//! property tests.

use http::{HeaderName, HeaderValue, Request, Uri, uri};

use super::aws::{self, Scope};
use super::head::{self, Authority, Framing, http2};
use super::rules::RequestRules;
use super::{Binding, Route, RouteError, Scheme};
use crate::host::Host;
use crate::http::{self as http1, Body, ProxyRequest};
use crate::secret::Secret;

/// Value of the secret that the readers are tried with.
const VALUE: &str = "t0p-s3cret/value";
/// Key that requests are signed with.
const KEY: &str = "wJalrXUtnFEMI/K7MDENG+b";
/// Keys of the signed route.
const KEYS: &str = "AKIDEXAMPLE:wJalrXUtnFEMI/K7MDENG+b";
/// Beginning of a signature of ours.
const SIGNED: &str = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/";
/// Port of base URLs.
const INSIDE: u16 = 888;

/// Readers of a route to `api.test/v1`.
///
/// ```
/// let readers = hotcell_egress::route::reader::Readers::new().unwrap();
/// readers.check(b"GET /v1/ HTTP/1.1\r\nHost: api.test\r\n\r\n").unwrap();
/// ```
#[derive(Debug)]
pub struct Readers {
    route: Route,
    /// A route whose requests are signed.
    signed: Route,
    host: Host,
}

impl Readers {
    /// Readers with a secret of their own.
    ///
    /// # Errors
    /// [`RouteError`] when the route cannot be made.
    pub fn new() -> Result<Self, RouteError> {
        let binding: Binding = "api.test/v1".parse()?;
        let secret = Secret::new(VALUE.as_bytes().to_vec()).map_err(|e| RouteError::Tls(e.to_string()))?;
        let route = Route::new("gh", binding, &Scheme::Bearer, &secret, RequestRules::default(), None)?;
        let keys = Secret::new(KEYS.as_bytes().to_vec()).map_err(|e| RouteError::Tls(e.to_string()))?;
        let scope = Scope::new("eu-west-1", "s3").ok_or_else(|| RouteError::Tls("a scope".to_owned()))?;
        let (binding, scheme) = ("api.test/v1".parse()?, Scheme::AwsSigV4(scope));
        let signed = Route::new("aws", binding, &scheme, &keys, RequestRules::default(), None)?;
        Ok(Self { route, signed, host: Host::Name("api.test".to_owned()) })
    }

    /// Reads bytes as a request within TLS, as a request to a base URL, and as an answer.
    ///
    /// # Errors
    /// A sentence with the promise that was broken: that the host finds exactly one request in what it is sent, to itself, with our
    /// credential alone and the same body; and that a client finds one answer without the value.
    pub fn check(&self, bytes: &[u8]) -> Result<(), String> {
        for server in [Authority::Host("api.test", 443), Authority::Loopback(INSIDE)] {
            let Ok(Some((asked, used))) = head::request(bytes, server) else { continue };
            if used > bytes.len() {
                return Err(format!("{used} of {} bytes were used", bytes.len()));
            }
            let path = match server {
                Authority::Host(..) => asked.path.clone(),
                Authority::Loopback(_) => head::path_at(&self.route, head::split_name(&asked.path).1),
            };
            let held = self.route.held();
            let sent = head::for_host(&self.route, &held, &asked, &path);
            self.sent(&sent, asked.body, |credential| credential == format!("Bearer {VALUE}").as_bytes())?;
            let held = self.signed.held();
            let line = held.signs().and_then(|scope| match aws::request::payload(scope, &asked) {
                Ok(aws::request::Payload::Line(line)) => Some(line),
                Ok(aws::request::Payload::Whole) => Some(aws::request::line_of(b"")),
                Err(_) => None,
            });
            if let Some(line) = line {
                let mut signed = asked.clone();
                signed.payload = Some(line);
                let sent = head::for_host(&self.signed, &held, &signed, &path);
                self.sent(&sent, asked.body, |credential| credential.starts_with(SIGNED.as_bytes()))?;
                if sent.windows(KEY.len()).any(|part| part == KEY.as_bytes()) {
                    return Err("the host is told the key".to_owned());
                }
            }
            let Ok(Some((answer, _))) = head::answer(bytes, asked.method == "HEAD") else { continue };
            self.answered(&asked, &path, &answer)?;
        }
        let plain = b"GET /v1/ HTTP/1.1\r\nHost: api.test\r\n\r\n";
        if let (Ok(Some((asked, _))), Ok(Some((answer, _)))) =
            (head::request(plain, Authority::Host("api.test", 443)), head::answer(bytes, false))
        {
            self.answered(&asked, "/v1/", &answer)?;
        }
        Ok(())
    }

    /// Reads bytes as the head of a stream of HTTP/2: the method, the authority and the path, and then fields, a line each.
    ///
    /// # Errors
    /// A sentence with the promise that was broken: those of [`Readers::check`], for a host of either version.
    pub fn check_stream(&self, bytes: &[u8]) -> Result<(), String> {
        let mut lines = bytes.split(|b| *b == b'\n');
        let mut next = || lines.next().unwrap_or_default();
        let mut uri = uri::Parts::default();
        let mut request = Request::new(());
        let method = next();
        uri.scheme = Some(uri::Scheme::HTTPS);
        let (Ok(method), Ok(authority), Ok(path)) =
            (method.try_into(), uri::Authority::try_from(next()), uri::PathAndQuery::try_from(next()))
        else {
            return Ok(());
        };
        (uri.authority, uri.path_and_query) = (Some(authority), Some(path));
        let Ok(uri) = Uri::from_parts(uri) else { return Ok(()) };
        (*request.method_mut(), *request.uri_mut()) = (method, uri);
        for field in lines {
            let colon = field.iter().position(|b| *b == b':').unwrap_or(field.len());
            let (name, value) = (&field[..colon], field.get(colon + 1..).unwrap_or_default());
            if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
                request.headers_mut().append(name, value);
            }
        }
        let (parts, ()) = request.into_parts();
        for is_whole in [true, false] {
            let Ok(streamed) = http2::request(&parts, is_whole, Authority::Host("api.test", 443)) else {
                continue;
            };
            let (asked, held) = (streamed.asked, self.route.held());
            let head = head::for_host(&self.route, &held, &asked, &asked.path);
            let credential = format!("Bearer {VALUE}");
            self.sent(&head, asked.body, |sent| sent == credential.as_bytes())?;
            // A head at the limits has too many fields with those of the proxy.
            let Some(sent) = http2::for_host(&head, streamed.trailers) else { continue };
            if sent.uri().authority().map(uri::Authority::as_str) != Some("api.test") {
                return Err(format!("the host finds another authority: {}", sent.uri()));
            }
            if sent.uri().path() != asked.path {
                return Err(format!("the host finds another path: {}", sent.uri()));
            }
            let all: Vec<_> = sent.headers().get_all("authorization").iter().collect();
            if !matches!(all[..], [one] if one == credential.as_str()) {
                return Err("the host finds another credential, or none".to_owned());
            }
            for name in ["cookie", "x-api-key", "connection", "transfer-encoding", "host", "range"] {
                if sent.headers().contains_key(name) {
                    return Err(format!("the header {name} went on"));
                }
            }
        }
        Ok(())
    }

    /// Reads a head for the host as another server would.
    fn sent(&self, head: &[u8], body: Body, is_ours: impl Fn(&[u8]) -> bool) -> Result<(), String> {
        let mut headers = [httparse::EMPTY_HEADER; 4 * http1::MAX_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(head) {
            Ok(httparse::Status::Complete(used)) if used == head.len() => {}
            other => return Err(format!("the host does not find one request: {other:?}")),
        }
        let all = |name: &str| -> Vec<Vec<u8>> {
            http1::values(request.headers, name).map(<[u8]>::to_vec).collect()
        };
        if all("host") != [b"api.test"] {
            return Err("the host finds another Host".to_owned());
        }
        if !matches!(&all("authorization")[..], [one] if is_ours(one)) {
            return Err("the host finds another credential, or none".to_owned());
        }
        // A signature goes with a range: the key is not sent, so no part of an answer has it.
        let range = if is_ours(SIGNED.as_bytes()) { "cookie" } else { "range" };
        for name in ["cookie", "x-api-key", "connection", "upgrade", "te", range, "proxy-authorization"] {
            if !all(name).is_empty() {
                return Err(format!("the header {name} went on"));
            }
        }
        match http1::request(head, Some((&self.host, 443))) {
            Ok(Some((ProxyRequest::Forward(again), used))) if (again.body, used) == (body, head.len()) => {
                Ok(())
            }
            // The proxy's own headers may take a head at the limits beyond them.
            Err(http1::Bad::Malformed) => Ok(()),
            other => Err(format!("the host finds another body than {body:?}: {other:?}")),
        }
    }

    /// Reads a head for the client as the client would.
    fn answered(&self, asked: &head::Asked, path: &str, answer: &head::Answer) -> Result<(), String> {
        let framing = match answer.body {
            Body::Length(length) => Framing::Length(length),
            Body::Chunked | Body::Close if asked.is_current => Framing::Chunked,
            Body::Chunked | Body::Close => Framing::Close,
        };
        let held = self.route.held();
        let head = head::for_client((&self.route, &held), asked, path, answer, framing, true);
        let mut headers = [httparse::EMPTY_HEADER; 4 * http1::MAX_HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        match response.parse(&head) {
            Ok(httparse::Status::Complete(used)) if used == head.len() => {}
            other => return Err(format!("the client does not find one answer: {other:?}")),
        }
        if head.windows(VALUE.len()).any(|part| part == VALUE.as_bytes()) {
            return Err("the client is told the value".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;
    use proptest::prelude::*;

    /// Parts of requests and answers, among them those by which requests are smuggled.
    const PARTS: [&str; 48] = [
        "GET ",
        "POST ",
        "PRI ",
        "/v1/",
        "/gh/v1/x",
        "/v1/../x",
        "//",
        "*",
        "https://evil.test/v1/",
        "?a=b",
        " HTTP/1.1\r\n",
        " HTTP/1.0\r\n",
        " HTTP/2.0\r\n",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 101 x\r\n",
        "HTTP/1.1 204 \r\n",
        "Host: api.test\r\n",
        "Host: 127.0.0.1:888\r\n",
        "Host: evil.test\r\n",
        "host:api.test:443\r\n",
        "Content-Length: 1\r\n",
        "Content-Length: 2\r\n",
        "Content-Length: +1\r\n",
        "Content-Length: 1, 1\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Transfer-Encoding: x, chunked\r\n",
        "transfer-encoding:\tchunked\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Connection: close, authorization\r\n",
        "Authorization: mine\r\n",
        "AUTHORIZATION: mine\r\n",
        "Author_ization: mine\r\n",
        " folded\r\n",
        "\r\n",
        "\n",
        "\r",
        "\0",
        "\t",
        "X: t0p-s3cret/value\r\n",
        "Location: https://api.test/v1/t0p-s3cret/value\r\n",
        "Link: <t0p-s3cret/value>\r\n",
        "Upgrade: h2c\r\n",
        "Cookie: a\r\n",
        "X-Amz-Date: mine\r\n",
        "x-amz-meta-a:  b   c\r\n",
        "X-Amz-Content-Sha256: UNSIGNED-PAYLOAD\r\n",
        "&X-Amz-Signature=mine&b=%2",
        "0\r\n\r\n",
    ];

    /// Made once: the forms of a secret that answers are searched for are many.
    static READERS: LazyLock<Readers> = LazyLock::new(|| Readers::new().unwrap());

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn readers_keep_their_promises(parts in proptest::collection::vec(0..PARTS.len(), 0..14)) {
            let bytes: String = parts.iter().map(|part| PARTS[*part]).collect();
            prop_assert_eq!(READERS.check(bytes.as_bytes()), Ok(()));
        }

        #[test]
        fn streams_keep_their_promises(
            first in "(GET|POST|get|PRI)\n(api\\.test|api\\.test:443|evil\\.test|a@api\\.test|API\\.test\\.)\n/[a-z/.%?&=#~]{0,12}\n",
            parts in proptest::collection::vec(0..PARTS.len(), 0..14),
        ) {
            let text = first + &parts.iter().map(|part| PARTS[*part]).collect::<String>().replace('\r', "");
            prop_assert_eq!(READERS.check_stream(text.as_bytes()), Ok(()));
        }

        #[test]
        fn arbitrary_bytes_break_no_promise(
            bytes in proptest::collection::vec(any::<u8>(), 0..80), at in 0usize..60,
        ) {
            let mut text = b"POST /v1/ HTTP/1.1\r\nHost: api.test\r\nContent-Length: 3\r\nX: y\r\n\r\n".to_vec();
            text.splice(at..at, bytes);
            prop_assert_eq!(READERS.check(&text), Ok(()));
            prop_assert_eq!(READERS.check_stream(&text), Ok(()));
        }
    }
}
