//! Reads one message from its text; a text that is not one is refused with the reason, and with the id of its request where that can be read. Pure.

use rmcp::RoleServer;
use rmcp::model::{ClientRequest, ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::RxJsonRpcMessage;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::methods::{comes_too_early, kind, misshapen, not_begun, of_another_revision};
use crate::request_id::{FoundId, find_id, salvage};
use crate::values;

/// A text that is not a message.
#[derive(Debug)]
pub(crate) struct Unread {
    pub error: ErrorData,
    /// Id of its request: the sender waits for an answer with it.
    pub id: Option<RequestId>,
    /// Whether the text is a request, of another form than the protocol's.
    pub is_request: bool,
}

impl Unread {
    fn of(text: &[u8], error: ErrorData) -> Box<Self> {
        Box::new(Self { error, id: id_of(text), is_request: false })
    }

    fn request(error: ErrorData, id: RequestId) -> Box<Self> {
        Box::new(Self { error, id: Some(id), is_request: true })
    }
}

/// Id of a message that is refused, so that its sender does not wait.
pub(crate) fn id_of(text: &[u8]) -> Option<RequestId> {
    match find_id(text) {
        FoundId::Good(id) => Some(id),
        FoundId::Bad | FoundId::None => None,
    }
}

/// Id of a request; `None` for answers and notifications.
pub(crate) fn request_id(text: &[u8]) -> Option<RequestId> {
    #[derive(Deserialize)]
    struct Head {
        method: Option<IgnoredAny>,
    }
    let id = id_of(text)?;
    serde_json::from_slice::<Head>(text).ok()?.method.map(|_| id)
}

/// The refusal of a request for news in a session: the revisions with sessions do not have it, and the library's error is its name alone.
pub(crate) fn listens_in_session(text: &[u8]) -> Option<Box<Unread>> {
    const LISTEN: &str = "subscriptions/listen";
    #[derive(Deserialize)]
    struct Head {
        method: String,
        params: Option<Value>,
    }
    let head: Head = serde_json::from_slice(text).ok()?;
    let says_revision = head.params.is_some_and(|params| {
        params.get("_meta").is_some_and(|meta| meta.get("io.modelcontextprotocol/protocolVersion").is_some())
    });
    let id = request_id(text).filter(|_| head.method == LISTEN && !says_revision)?;
    Some(Unread::request(of_another_revision(LISTEN), id))
}

/// The refusal of a request without a session, where it needs one.
pub(crate) fn without_session(text: &[u8]) -> Option<Box<Unread>> {
    match read(text) {
        Ok(JsonRpcMessage::Request(request)) if comes_too_early(&request.request) => {
            Some(Box::new(Unread { error: not_begun(), id: Some(request.id), is_request: false }))
        }
        _ => None,
    }
}

/// Refuses a text with too many values, before it is parsed, and one with a key twice.
pub(crate) fn check(text: &[u8]) -> Result<(), Box<Unread>> {
    values::check(text).map_err(|error| Unread::of(text, error))?;
    values::check_keys(text)
        .map_err(|error| Box::new(Unread { is_request: true, ..*Unread::of(text, error) }))
}

/// Reads a message that [`check`] passed.
pub(crate) fn read(text: &[u8]) -> Result<RxJsonRpcMessage<RoleServer>, Box<Unread>> {
    if find_id(text) == FoundId::Bad {
        let why = "the id is neither a text nor a whole number of 64 bits";
        return Err(Unread::of(text, ErrorData::invalid_request(why, None)));
    }
    let message = serde_json::from_slice(text).map_err(|error| match salvage(text) {
        Some((id, error)) => Unread::request(error, id),
        None => Unread::of(text, refusal(text, &error)),
    })?;
    // Without a session no handler is asked, and the library's error is about another revision.
    if let JsonRpcMessage::Request(request) = &message
        && let ClientRequest::CustomRequest(custom) = &request.request
        && custom.method == "initialize"
    {
        let why = misshapen("initialize", custom.params.as_ref());
        return Err(Unread::request(ErrorData::invalid_params(why, None), request.id.clone()));
    }
    match &message {
        JsonRpcMessage::Request(request) => match wrong_cursor(&request.request, text) {
            Some(why) => Err(Unread::request(ErrorData::invalid_params(why, None), request.id.clone())),
            None => Ok(message),
        },
        _ => Ok(message),
    }
}

/// The mistake in a list's cursor. The protocol's library takes parameters of a list that it cannot read for none, and would give the first page.
fn wrong_cursor(request: &ClientRequest, text: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Body {
        params: Option<Value>,
    }
    let (method, params) = match request {
        ClientRequest::ListToolsRequest(list) => ("tools/list", &list.params),
        ClientRequest::ListPromptsRequest(list) => ("prompts/list", &list.params),
        ClientRequest::ListResourcesRequest(list) => ("resources/list", &list.params),
        ClientRequest::ListResourceTemplatesRequest(list) => ("resources/templates/list", &list.params),
        _ => return None,
    };
    if params.is_some() {
        return None;
    }
    let params = serde_json::from_slice::<Body>(text).ok()?.params?;
    let is_wrong = params.get("cursor").is_some_and(|cursor| !cursor.is_string() && !cursor.is_null());
    is_wrong.then(|| misshapen(method, Some(&params)))
}

/// Error for a text that is not a message.
fn refusal(text: &[u8], error: &serde_json::Error) -> ErrorData {
    if error.is_data() {
        let why = serde_json::from_slice(text).ok().and_then(|value| no_message(&value));
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        ErrorData::invalid_request(
            format!("this is not a JSON-RPC request, notification or response{why}"),
            None,
        )
    } else {
        ErrorData::parse_error(format!("this is not JSON: {}", where_it_is_not(text, error)), None)
    }
}

/// Describes the mistake in a text that is not JSON, in plain words.
fn where_it_is_not(text: &[u8], error: &serde_json::Error) -> String {
    if let Err(error) = std::str::from_utf8(text) {
        return format!("it is not UTF-8 at byte {}", error.valid_up_to());
    }
    if error.is_eof() {
        return "it ends too early".to_owned();
    }
    if error.to_string().starts_with("recursion limit") {
        return "it is nested deeper than 128".to_owned();
    }
    format!("line {}, column {}", error.line(), error.column())
}

/// The mistake in a value that is not a message, where it is plain.
fn no_message(value: &Value) -> Option<String> {
    let fields = match value {
        Value::Object(fields) => fields,
        Value::Array(_) => {
            return Some("messages in a list (batches) are not taken; send each by itself".to_owned());
        }
        other => return Some(format!("{} is not an object", kind(other))),
    };
    match fields.get("jsonrpc") {
        None => return Some("jsonrpc is missing; wanted is \"2.0\"".to_owned()),
        Some(version) if version != "2.0" => return Some("jsonrpc is not \"2.0\"".to_owned()),
        Some(_) => {}
    }
    if fields.get("id").is_some_and(Value::is_null) && fields.contains_key("method") {
        return Some(
            "id is null; a request has a text or a whole number, and a notification no id".to_owned(),
        );
    }
    match (fields.get("method"), fields.get("params")) {
        (Some(Value::String(_)), Some(params)) if !params.is_object() => {
            Some(format!("params is {}; wanted is an object", kind(params)))
        }
        (Some(Value::String(_)), Some(params))
            if params.get("_meta").is_some_and(|meta| !meta.is_object()) =>
        {
            Some(format!("params._meta is {}; wanted is an object", kind(&params["_meta"])))
        }
        (Some(Value::String(_)), _) => None,
        (Some(other), _) => Some(format!("method is {}; wanted is a text", kind(other))),
        (None, _) if !["result", "error"].iter().any(|key| fields.contains_key(*key)) => {
            Some("it has neither method nor result nor error".to_owned())
        }
        (None, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_text_has_reason_and_id() {
        let id = |id: i64| Some(RequestId::Number(id));
        for (text, code, want, found) in [
            ("{no", -32700, "line 1, column 2", None),
            ("", -32700, "ends too early", None),
            ("[]", -32600, "batches", None),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600, "send each by itself", None),
            ("17", -32600, "a number is not an object", None),
            (r#"{"id":1,"method":"ping"}"#, -32600, "jsonrpc is missing", id(1)),
            (r#"{"jsonrpc":"1.0","id":2,"method":"ping"}"#, -32600, "jsonrpc is not \"2.0\"", id(2)),
            (r#"{"jsonrpc":2,"id":2,"method":"ping"}"#, -32600, "jsonrpc is not \"2.0\"", id(2)),
            (r#"{"jsonrpc":"2.0","id":3,"method":5}"#, -32600, "method is a number; wanted is a text", id(3)),
            (
                r#"{"jsonrpc":"2.0","id":4,"method":"tools/list","params":[]}"#,
                -32600,
                "params is a list; wanted is an object",
                id(4),
            ),
            (
                r#"{"jsonrpc":"2.0","id":4,"method":"tools/list","params":{"_meta":5}}"#,
                -32600,
                "params._meta is a number; wanted is an object",
                id(4),
            ),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600, "id is null", None),
            (r#"{"jsonrpc":"2.0","id":5}"#, -32600, "neither method nor result nor error", id(5)),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600, "whole number of 64 bits", None),
            (
                r#"{"jsonrpc":"2.0","id":6,"method":"initialize","params":{"protocolVersion":5}}"#,
                -32602,
                "protocolVersion is a number",
                id(6),
            ),
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"initialize"}"#,
                -32602,
                "protocolVersion is missing",
                id(7),
            ),
            (r#"{"jsonrpc":"2.0","id":8,"method":"x","params":{"a":"\ud800"}}"#, -32602, "surrogate", id(8)),
            (
                r#"{"jsonrpc":"2.0","id":9,"method":"tools/list","params":{"cursor":5}}"#,
                -32602,
                "cursor is a number; wanted is a cursor of an earlier list",
                id(9),
            ),
            (
                r#"{"jsonrpc":"2.0","id":9,"method":"prompts/list","params":{"_meta":{},"cursor":{}}}"#,
                -32602,
                "cursor is an object",
                id(9),
            ),
            (
                r#"{"jsonrpc":"2.0","id":9,"method":"resources/list","params":{"cursor":[]}}"#,
                -32602,
                "cursor is a list",
                id(9),
            ),
            (
                r#"{"jsonrpc":"2.0","id":9,"method":"resources/templates/list","params":{"cursor":false}}"#,
                -32602,
                "cursor is true or false",
                id(9),
            ),
        ] {
            let unread = read(text.as_bytes()).expect_err(text);
            assert_eq!((unread.error.code.0, &unread.id), (code, &found), "{text}: {unread:?}");
            assert!(unread.error.message.contains(want), "{text}: {}", unread.error.message);
            assert_eq!(unread.is_request, code == -32602, "{text}");
        }
        let latin = b"{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"x\",\"params\":{\"a\":\"\xe9\"}}";
        let unread = read(latin).expect_err("not UTF-8");
        assert_eq!(
            (unread.error.code.0, &*unread.error.message, &unread.id),
            (-32700, "this is not JSON: it is not UTF-8 at byte 52", &id(9))
        );
        let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"f","version":"1"}}}"#;
        for text in [
            hello,
            r#"{"jsonrpc":"2.0","id":1,"method":"no/such"}"#,
            r#"{"jsonrpc":"2.0","method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":null}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x","more":1}}"#,
        ] {
            assert!(read(text.as_bytes()).is_ok(), "{text}");
        }
    }

    #[test]
    fn answers_and_notifications_are_no_requests() {
        for (text, want) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, Some(RequestId::Number(1))),
            (r#"{"method":"ping","params":{"id":2},"id":"a"}"#, Some(RequestId::String("a".into()))),
            (r#"{"jsonrpc":"2.0","id":1,"result":{"method":"x"}}"#, None),
            (r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, None),
            ("[]", None),
            ("", None),
        ] {
            assert_eq!(request_id(text.as_bytes()), want, "{text}");
        }
    }

    #[test]
    fn requests_that_a_session_cannot_answer_are_told_why() {
        let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
        for (text, listens, is_early) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#.to_owned(), false, true),
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#.to_owned(), false, true),
            (r#"{"jsonrpc":"2.0","id":1,"method":"no/such"}"#.to_owned(), false, true),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.to_owned(), false, false),
            (
                format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{{meta}}}}}"#),
                false,
                false,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{}}}"#
                    .to_owned(),
                true,
                true,
            ),
            (
                format!(
                    r#"{{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{{"notifications":{{}},{meta}}}}}"#
                ),
                false,
                false,
            ),
            (r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#.to_owned(), false, false),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.to_owned(), false, false),
            ("[".to_owned(), false, false),
        ] {
            let (news, early) = (listens_in_session(text.as_bytes()), without_session(text.as_bytes()));
            assert_eq!((news.is_some(), early.is_some()), (listens, is_early), "{text}");
            for unread in news.into_iter().chain(early) {
                assert_eq!(unread.id, Some(RequestId::Number(1)), "{text}");
                assert!(unread.error.message.contains("revision"), "{}", unread.error.message);
            }
        }
    }

    #[test]
    fn checks_name_the_request() {
        let many = format!(
            r#"{{"jsonrpc":"2.0","id":9,"method":"x","params":{{"a":[{}0]}}}}"#,
            "0,".repeat(200_000)
        );
        let unread = check(many.as_bytes()).unwrap_err();
        assert_eq!((unread.id, unread.is_request), (Some(RequestId::Number(9)), false));
        let unread = check(br#"{"jsonrpc":"2.0","id":"a","method":"x","method":"y"}"#).unwrap_err();
        assert_eq!((unread.id, unread.is_request), (Some(RequestId::String("a".into())), true));
    }
}
