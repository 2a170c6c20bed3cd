//! Answers of `wasi:http`.

use wasip2::http::types::{ErrorCode, FutureIncomingResponse, IncomingBody, IncomingResponse};
use wasip2::io::streams::StreamError;

/// Maximum number of bytes of one read from a body.
const PIECE: u64 = 1 << 16;

/// Waits for the answer to a request that was sent.
///
/// # Errors
/// A text with the [`reason`] when the request failed.
pub fn answer(pending: FutureIncomingResponse) -> Result<IncomingResponse, String> {
    pending.subscribe().block();
    let answer = pending.get().and_then(Result::ok).ok_or_else(|| "there is no answer".to_owned())?;
    answer.map_err(reason)
}

/// Reads the body of an answer up to `limit` bytes, and beyond it in a body that is longer, which the caller sees by that.
///
/// # Errors
/// A text when the body breaks off.
pub fn read(answer: IncomingResponse, limit: usize) -> Result<Vec<u8>, String> {
    let none = |()| "the answer has no body".to_owned();
    let incoming = answer.consume().map_err(none)?;
    let mut body = Vec::new();
    let stream = incoming.stream().map_err(none)?;
    while body.len() <= limit {
        match stream.blocking_read(PIECE) {
            Ok(part) => body.extend_from_slice(&part),
            Err(StreamError::Closed) => break,
            Err(StreamError::LastOperationFailed(e)) => return Err(e.to_debug_string()),
        }
    }
    drop(stream);
    drop(IncomingBody::finish(incoming));
    Ok(body)
}

/// Reason for a failed request in words; hotcell gives its own in an internal error.
pub fn reason(code: ErrorCode) -> String {
    match code {
        ErrorCode::InternalError(Some(why)) => why,
        ErrorCode::HttpRequestDenied => "this place is not granted".to_owned(),
        ErrorCode::HttpRequestBodySize(Some(most)) => format!("the request is larger than {most} bytes"),
        ErrorCode::HttpResponseBodySize(Some(most)) => format!("the answers are larger than {most} bytes"),
        ErrorCode::ConnectionLimitReached => "this call has sent too many requests".to_owned(),
        other => other.to_string(),
    }
}
