//! One request over `wasi:http`.

use requests::{answer, read, reason};
use wasip2::http::outgoing_handler;
use wasip2::http::types::{Fields, Method, OutgoingRequest, Scheme};

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
    let response = answer(pending).map_err(|e| format!("{what}: {e}"))?;
    let (status, headers) = (response.status(), response.headers().entries());
    let body = read(response, LONGEST).map_err(|e| format!("{what}: {e}"))?;
    if body.len() > LONGEST {
        return Err(format!("{what}: the answer is longer than {LONGEST} bytes"));
    }
    Ok(Answer { status, headers, body })
}
