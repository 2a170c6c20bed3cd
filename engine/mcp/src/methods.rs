//! Methods of the protocol that are served, and their parameters: errors for others name the part that is wrong. Pure.

use hotcell_sandbox::layer::likely;
use rmcp::model::{ClientRequest, ErrorCode, ErrorData, GetMeta};
use serde_json::Value;

/// Supported methods.
pub(crate) const METHODS: [&str; 15] = [
    "completion/complete",
    "initialize",
    "ping",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "server/discover",
    "subscriptions/listen",
    "tasks/cancel",
    "tasks/get",
    "tasks/update",
    "tools/call",
    "tools/list",
];

/// Methods of the protocol that are not served: a client that sends one did not mistype another.
const NOT_SERVED: [&str; 8] = [
    "elicitation/create",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
    "roots/list",
    "sampling/createMessage",
    "tasks/list",
    "tasks/result",
];

/// Maximum length of a method in an error, in characters.
const MAX_METHOD_CHARS: usize = 100;

/// A parameter: its path, whether a request needs it, whether a value fits, and the wanted value in words.
type Parameter = (&'static str, bool, fn(&Value) -> bool, &'static str);

/// Parameters of a method whose types are told; the outer before the inner.
fn parameters(method: &str) -> &'static [Parameter] {
    const TASK: Parameter = ("taskId", true, Value::is_string, "the id of a task");
    match method {
        "initialize" => &[
            ("protocolVersion", true, Value::is_string, "a revision of the protocol, such as \"2025-11-25\""),
            ("capabilities", true, Value::is_object, "an object, {} for none"),
            ("clientInfo", true, Value::is_object, "an object with name and version"),
            ("clientInfo.name", true, Value::is_string, "a text"),
            ("clientInfo.version", true, Value::is_string, "a text"),
        ],
        "tools/call" => &[
            ("name", true, Value::is_string, "the name of a tool"),
            ("arguments", false, Value::is_object, "an object with the tool's arguments"),
        ],
        "prompts/get" => &[
            ("name", true, Value::is_string, "the name of a prompt"),
            ("arguments", false, Value::is_object, "an object with the prompt's arguments"),
        ],
        "resources/read" => &[("uri", true, Value::is_string, "the URI of a resource")],
        "completion/complete" => &[
            ("ref", true, Value::is_object, "an object that names a prompt or a template"),
            ("ref.type", true, is_reference, "ref/prompt or ref/resource"),
            ("argument", true, Value::is_object, "an object with name and value"),
            ("argument.name", true, Value::is_string, "a text"),
            ("argument.value", true, Value::is_string, "a text"),
        ],
        "subscriptions/listen" => {
            &[("notifications", true, Value::is_object, "an object with the lists to hear of")]
        }
        "prompts/list" | "resources/list" | "resources/templates/list" | "tools/list" => {
            &[("cursor", false, Value::is_string, "a cursor of an earlier list")]
        }
        "tasks/cancel" | "tasks/get" | "tasks/update" => &[TASK],
        _ => &[],
    }
}

/// Parameters of a completion that depend on the kind of its reference.
fn of_reference(method: &str, params: &Value) -> &'static [Parameter] {
    match params.pointer("/ref/type").and_then(Value::as_str).filter(|_| method == "completion/complete") {
        Some("ref/prompt") => &[("ref.name", true, Value::is_string, "the name of a prompt")],
        Some("ref/resource") => &[("ref.uri", true, Value::is_string, "the URI of a template")],
        _ => &[],
    }
}

fn is_reference(kind: &Value) -> bool {
    kind == "ref/prompt" || kind == "ref/resource"
}

/// The answer to a method that this server does not have.
pub(crate) fn no_method(method: &str) -> ErrorData {
    let shown: String = method.chars().take(MAX_METHOD_CHARS).collect();
    let is_other = NOT_SERVED.contains(&method) || method.starts_with("notifications/");
    let near = likely(&shown, METHODS).filter(|near| *near != shown && !is_other);
    let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("there is no method {shown:?}{near}"), None)
}

/// Puts an error of the protocol's library about a method of another revision in words: its message is the method's name alone.
pub(crate) fn in_words(error: &mut ErrorData) {
    if error.code == ErrorCode::METHOD_NOT_FOUND && METHODS.contains(&&*error.message) {
        error.message = of_another_revision(&error.message).message;
    }
}

/// Words for a request before a client has begun.
const NOT_BEGUN: &str = "this connection has not begun: send initialize first, or, from revision 2026-07-28 on, \
io.modelcontextprotocol/protocolVersion and io.modelcontextprotocol/clientCapabilities in params._meta of each request";

/// The answer to a request before its client has begun.
pub(crate) fn not_begun() -> ErrorData {
    ErrorData::invalid_params(NOT_BEGUN, None)
}

/// True for a request that does not say its revision, and may not come before `initialize`.
pub(crate) fn comes_too_early(request: &ClientRequest) -> bool {
    match request {
        ClientRequest::InitializeRequest(_)
        | ClientRequest::PingRequest(_)
        | ClientRequest::DiscoverRequest(_) => false,
        other => other.get_meta().protocol_version().is_none(),
    }
}

/// The answer to a method of another revision.
pub(crate) fn of_another_revision(method: &str) -> ErrorData {
    let why = format!("the method {method:?} is not of the revision of MCP that is spoken here");
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, why, None)
}

/// As [`in_words`], of the text of an answer; `None` for any other text.
pub(crate) fn answer_in_words(text: &[u8]) -> Option<String> {
    let mut answer: Value = serde_json::from_slice(text).ok()?;
    let mut error: ErrorData = serde_json::from_value(answer.get("error")?.clone()).ok()?;
    let before = error.message.clone();
    in_words(&mut error);
    if error.message == before {
        return None;
    }
    answer["error"]["message"] = error.message.into();
    Some(answer.to_string())
}

/// Describes the mistake in parameters that the protocol's library did not take.
pub(crate) fn misshapen(method: &str, params: Option<&Value>) -> String {
    let none = Value::Null;
    let params = params.unwrap_or(&none);
    let wrong = |(path, needed, fits, wanted): &Parameter| {
        let pointer = format!("/{}", path.replace('.', "/"));
        match params.pointer(&pointer) {
            None => needed.then(|| format!("{path} is missing; wanted is {wanted}")),
            Some(value) if fits(value) || !needed && value.is_null() => None,
            Some(value) => Some(format!("{path} is {}; wanted is {wanted}", kind(value))),
        }
    };
    let meta: Parameter = ("_meta", false, Value::is_object, "an object");
    let mut all = parameters(method).iter().chain(of_reference(method, params)).chain([&meta]);
    let named = all.find_map(wrong);
    named.unwrap_or_else(|| format!("the parameters of {method} are not those of the protocol"))
}

/// Kind of a value, in words.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn malformed_request_names_wrong_part() {
        let client = json!({ "name": "a", "version": "1" });
        for (method, params, want) in [
            ("tools/call", json!({}), "name is missing; wanted is the name of a tool"),
            ("tools/call", json!({ "name": 5 }), "name is a number; wanted is the name of a tool"),
            (
                "tools/call",
                json!({ "name": "doctor", "arguments": [] }),
                "arguments is a list; wanted is an object with the tool's arguments",
            ),
            (
                "tools/call",
                json!({ "name": "doctor", "arguments": "{}" }),
                "arguments is a text; wanted is an object with the tool's arguments",
            ),
            ("tools/call", json!({ "name": "doctor", "_meta": 1 }), "_meta is a number; wanted is an object"),
            (
                "tools/call",
                json!({ "name": "doctor", "arguments": null }),
                "the parameters of tools/call are not",
            ),
            ("resources/read", json!({ "name": 5 }), "uri is missing; wanted is the URI of a resource"),
            (
                "initialize",
                json!({ "protocolVersion": 5 }),
                "protocolVersion is a number; wanted is a revision",
            ),
            (
                "initialize",
                json!({ "protocolVersion": "1", "clientInfo": client }),
                "capabilities is missing",
            ),
            (
                "initialize",
                json!({ "protocolVersion": "1", "capabilities": {}, "clientInfo": { "name": "a" } }),
                "clientInfo.version is missing; wanted is a text",
            ),
            ("completion/complete", json!({ "ref": "x" }), "ref is a text; wanted is an object"),
            ("completion/complete", json!({ "ref": { "type": 1 } }), "ref.type is a number"),
            (
                "completion/complete",
                json!({ "ref": { "type": "ref/tool" } }),
                "ref.type is a text; wanted is ref/prompt or ref/resource",
            ),
            (
                "completion/complete",
                json!({ "ref": { "type": "ref/prompt" }, "argument": { "name": "a", "value": "b" } }),
                "ref.name is missing; wanted is the name of a prompt",
            ),
            (
                "completion/complete",
                json!({ "ref": { "type": "ref/resource", "uri": 5 }, "argument": { "name": "a", "value": "b" } }),
                "ref.uri is a number",
            ),
            (
                "tools/list",
                json!({ "cursor": 5 }),
                "cursor is a number; wanted is a cursor of an earlier list",
            ),
            ("tasks/get", json!({ "taskId": null }), "taskId is null; wanted is the id of a task"),
            ("subscriptions/listen", json!({}), "notifications is missing"),
            ("ping", json!({ "x": 1 }), "the parameters of ping are not those of the protocol"),
        ] {
            let said = misshapen(method, Some(&params));
            assert!(said.starts_with(want), "{params}: {said}");
        }
        assert!(misshapen("tools/call", None).contains("name is missing"));
    }

    #[test]
    fn method_of_another_revision_is_told_as_that() {
        for (code, message, want) in [
            (ErrorCode::METHOD_NOT_FOUND, "ping", "the method \"ping\" is not of the revision"),
            (ErrorCode::METHOD_NOT_FOUND, "there is no method \"x\"", "there is no method \"x\""),
            (ErrorCode::INVALID_PARAMS, "ping", "ping"),
        ] {
            let mut error = ErrorData::new(code, message, None);
            in_words(&mut error);
            assert!(error.message.starts_with(want), "{}", error.message);
        }
        let answer = json!({ "jsonrpc": "2.0", "id": "a", "error": { "code": -32601, "message": "ping" } });
        let worded: Value =
            serde_json::from_str(&answer_in_words(answer.to_string().as_bytes()).unwrap()).unwrap();
        assert!(worded["id"] == "a" && worded["error"]["code"] == -32601, "{worded}");
        assert!(worded["error"]["message"].as_str().unwrap().contains("not of the revision"), "{worded}");
        for other in ["", "[]", "{}", r#"{"result":{}}"#, r#"{"error":{"code":-32601,"message":"x"}}"#] {
            assert_eq!(answer_in_words(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn unknown_methods_are_told_the_nearest() {
        for (method, near) in [
            ("tools/lst", Some("tools/list")),
            ("tool/call", Some("tools/call")),
            ("resource/read", Some("resources/read")),
            ("no/such/method", None),
            ("resources/subscribe", None),
            ("tasks/list", None),
            ("notifications/initialized", None),
            ("", None),
        ] {
            let said = no_method(method).message;
            assert!(said.starts_with(&format!("there is no method {method:?}")), "{said}");
            assert_eq!(
                said.split_once("did you mean ").map(|(_, near)| near.trim_end_matches('?')),
                near,
                "{said}"
            );
        }
        assert!(no_method(&"x".repeat(1 << 20)).message.len() < 200);
    }
}
