//! One request over `wasi:http`.

use wasip2::http::outgoing_handler;
use wasip2::http::types::{ErrorCode, Fields, IncomingBody, Method, OutgoingRequest, Scheme};
use wasip2::io::streams::StreamError;

use crate::url::Base;

/// Maximum size of an answer, in bytes.
const LONGEST: usize = 16 << 20;

/// An answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(value).ok()
    }
}

/// Requests a path of a server.
pub(crate) fn get(base: &Base, path: &str, headers: &[(&str, &str)]) -> Result<Answer, String> {
    let what = format!("{}{}{path}", base.authority, base.path);
    let fields = Fields::new();
    for (name, value) in headers {
        fields.append(name, value.as_bytes()).map_err(|e| format!("{what}: header {name}: {e}"))?;
    }
    let request = OutgoingRequest::new(fields);
    let scheme = if base.https { Scheme::Https } else { Scheme::Http };
    let set = request.set_method(&Method::Get).is_ok()
        && request.set_scheme(Some(&scheme)).is_ok()
        && request.set_authority(Some(&base.authority)).is_ok()
        && request.set_path_with_query(Some(&format!("{}{path}", base.path))).is_ok();
    if !set {
        return Err(format!("{what} is no address"));
    }
    let pending =
        outgoing_handler::handle(request, None).map_err(|code| format!("{what}: {}", reason(code)))?;
    pending.subscribe().block();
    let response = pending
        .get()
        .and_then(Result::ok)
        .ok_or_else(|| format!("{what}: there is no answer"))?
        .map_err(|code| format!("{what}: {}", reason(code)))?;
    let (status, headers) = (response.status(), response.headers().entries());
    let incoming = response.consume().map_err(|()| format!("{what}: the answer has no body"))?;
    let mut body = Vec::new();
    let stream = incoming.stream().map_err(|()| format!("{what}: the answer has no body"))?;
    loop {
        match stream.blocking_read(1 << 16) {
            Ok(part) => body.extend_from_slice(&part),
            Err(StreamError::Closed) => break,
            Err(StreamError::LastOperationFailed(e)) => {
                return Err(format!("{what}: {}", e.to_debug_string()));
            }
        }
        if body.len() > LONGEST {
            return Err(format!("{what}: the answer is longer than {LONGEST} bytes"));
        }
    }
    drop(stream);
    drop(IncomingBody::finish(incoming));
    Ok(Answer { status, headers, body })
}

/// Reason for a failed request in words; hotcell gives its own in an internal error.
fn reason(code: ErrorCode) -> String {
    match code {
        ErrorCode::InternalError(Some(why)) => why,
        ErrorCode::HttpRequestDenied => "this place is not granted".to_owned(),
        ErrorCode::HttpRequestBodySize(Some(most)) => format!("the request is larger than {most} bytes"),
        ErrorCode::HttpResponseBodySize(Some(most)) => format!("the answers are larger than {most} bytes"),
        ErrorCode::ConnectionLimitReached => "this call has sent too many requests".to_owned(),
        other => other.to_string(),
    }
}
