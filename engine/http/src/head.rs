//! Checks of a request's head, before its body is read.

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hotcell_state::caller::Caller;

use crate::tokens::Tokens;

/// Caller whose token a request carries.
#[must_use]
pub fn whose(tokens: &Tokens, headers: &HeaderMap) -> Option<Caller> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(7)?;
    tokens.caller(token).filter(|_| scheme.eq_ignore_ascii_case(b"bearer "))
}

/// Response to a request without a token.
#[must_use]
pub fn no_token() -> Response {
    let mut response = refuse(
        StatusCode::UNAUTHORIZED,
        "A token is needed: Authorization: Bearer TOKEN. hotcell said where it is when it started.\n",
    );
    response.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
    response
}

/// Whether a request has two values for its host, origin, token or one of the fields `further`, of which a proxy might have read the other.
#[must_use]
pub fn contradicts(request: &Request, further: &[header::HeaderName]) -> bool {
    let headers = request.headers();
    let twice = |name: &header::HeaderName| headers.get_all(name).iter().nth(1).is_some();
    let single = [header::HOST, header::ORIGIN, header::AUTHORIZATION];
    let other = |host: &str| headers.get(header::HOST).is_none_or(|h| h.as_bytes() != host.as_bytes());
    single.iter().chain(further).any(twice) || request.uri().authority().is_some_and(|a| other(a.as_str()))
}

/// A refusal with a message.
#[must_use]
pub fn refuse(status: StatusCode, why: &'static str) -> Response {
    (status, [(header::CONNECTION, "close")], why).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn duplicate_host_or_origin_is_detected() {
        for (uri, headers, want) in [
            ("/mcp", vec![("host", "localhost:1")], false),
            ("http://localhost:1/mcp", vec![("host", "localhost:1")], false),
            ("http://evil.example/mcp", vec![("host", "localhost:1")], true),
            ("/mcp", vec![("host", "localhost"), ("host", "localhost")], true),
            ("/mcp", vec![("origin", "http://a"), ("origin", "http://b")], true),
            ("/mcp", vec![("accept", "a"), ("accept", "b")], false),
        ] {
            let request = headers.iter().fold(Request::builder().uri(uri), |r, (n, v)| r.header(*n, *v));
            assert_eq!(contradicts(&request.body(Body::empty()).unwrap(), &[]), want, "{uri} {headers:?}");
        }
    }
}
