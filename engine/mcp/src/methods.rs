//! Methods of the protocol that are served, and their parameters: errors for others name the part that is wrong. Pure.

use hotcell_sandbox::layer::likely;
use rmcp::model::{ErrorCode, ErrorData};
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
            ("ref.type", true, Value::is_string, "ref/prompt or ref/resource"),
            ("argument", true, Value::is_object, "an object with name and value"),
            ("argument.name", true, Value::is_string, "a text"),
            ("argument.value", true, Value::is_string, "a text"),
        ],
        "subscriptions/listen" => {
            &[("notifications", true, Value::is_object, "an object with the lists to hear of")]
        }
        "tasks/cancel" | "tasks/get" | "tasks/update" => &[TASK],
        _ => &[],
    }
}

/// The answer to a method that this server does not have.
pub(crate) fn no_method(method: &str) -> ErrorData {
    let shown: String = method.chars().take(MAX_METHOD_CHARS).collect();
    let is_other = NOT_SERVED.contains(&method) || method.starts_with("notifications/");
    let near = likely(&shown, METHODS).filter(|near| *near != shown && !is_other);
    let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("there is no method {shown:?}{near}"), None)
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
    let named = parameters(method).iter().chain([&meta]).find_map(wrong);
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
