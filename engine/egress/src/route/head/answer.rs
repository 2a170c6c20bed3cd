//! Heads of answers: read strictly, and written anew for the client. Pure.

use std::fmt::Write as _;

use url::Url;

use super::{Asked, line};
use crate::http::{self, Bad, Body};
use crate::route::Route;
use crate::route::held::Held;

/// Headers of an answer that do not go back, beyond those of the connection.
pub(super) const NOT_SENT_BACK: [&str; 1] = ["strict-transport-security"];

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
    let is_plain = |name: &str| http::values(response.headers, name).all(plain);
    // gRPC compresses its messages, and not the body.
    let is_encoded = body != Body::Length(0) && !(is_plain("content-encoding") && is_plain("grpc-encoding"));
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
pub(super) fn moved(route: &Route, inside: &str, path: &str, place: &str) -> String {
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
pub(super) fn linked(route: &Route, inside: &str, path: &str, links: &str) -> String {
    let mut text = String::with_capacity(links.len());
    let mut rest = links;
    while let Some((before, after)) = rest.split_once('<') {
        let Some((place, after)) = after.split_once('>') else { break };
        let _ = write!(text, "{before}<{}>", moved(route, inside, path, place));
        rest = after;
    }
    text + rest
}
