//! Tools and a prompt that ask the client for input: by a request of their own in revision 2025-11-25, by an
//! answer that names the input in 2026-07-28.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};

use rmcp::ErrorData;
use rmcp::model::{ClientCapabilities, InputRequest, InputRequiredResult, InputResponses};
use serde_json::{Value, json};

/// Next step of a call.
pub enum Next {
    /// The call is answered.
    Done(String),
    /// The client has to provide input first.
    Ask(InputRequiredResult),
}

/// States that were given out: any other one was tampered with.
#[derive(Debug, Default)]
pub struct States(Mutex<(u64, HashSet<String>)>);

impl States {
    fn issue(&self, round: &str) -> String {
        let mut states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        states.0 += 1;
        let state = format!("{round}-{}", states.0);
        states.1.insert(state.clone());
        state
    }

    fn check(&self, state: Option<&str>) -> Result<String, ErrorData> {
        let states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = state.filter(|s| states.1.contains(*s));
        known
            .map(str::to_owned)
            .ok_or_else(|| ErrorData::invalid_params("requestState is not one of ours", None))
    }
}

pub fn form(message: &str, field: &str, kind: &str) -> Value {
    json!({ "method": "elicitation/create", "params": {
        "mode": "form",
        "message": message,
        "requestedSchema": { "type": "object", "properties": { field: { "type": kind } }, "required": [field] }
    } })
}

fn sampling(text: &str, tokens: u32) -> Value {
    json!({ "method": "sampling/createMessage", "params": {
        "messages": [{ "role": "user", "content": { "type": "text", "text": text } }], "maxTokens": tokens
    } })
}

fn roots() -> Value {
    json!({ "method": "roots/list", "params": {} })
}

fn ask(requests: &[(&str, Value)], state: Option<String>) -> Result<Next, ErrorData> {
    let mut all = BTreeMap::new();
    for (name, request) in requests {
        let request: InputRequest = serde_json::from_value(request.clone())
            .map_err(|e| ErrorData::internal_error(format!("{name}: {e}"), None))?;
        all.insert((*name).to_owned(), request);
    }
    Ok(Next::Ask(InputRequiredResult::new(Some(all), state)))
}

/// Text that the user entered in a field, if the question was accepted.
fn written<'a>(responses: &'a InputResponses, name: &str, field: &str) -> Option<&'a Value> {
    let response = responses.get(name)?;
    (response["action"] == "accept").then(|| &response["content"][field]).filter(|v| !v.is_null())
}

/// Next step of a tool or prompt; `None` for one that needs no input.
pub fn step(
    name: &str,
    responses: &InputResponses,
    state: Option<&str>,
    client: Option<&ClientCapabilities>,
    states: &States,
) -> Option<Result<Next, ErrorData>> {
    let text = |response: Option<&Value>| response.map(Value::to_string).unwrap_or_default();
    let done = |text: String| Ok(Next::Done(text));
    Some(match name {
        "test_input_required_result_elicitation" | "test_input_required_result_validate" => {
            match written(responses, "user_name", "name").and_then(Value::as_str) {
                Some(name) => done(format!("Hello, {name}!")),
                None => ask(&[("user_name", form("What is your name?", "name", "string"))], None),
            }
        }
        "test_input_required_result_sampling" => match responses.get("capital_question") {
            Some(response) => done(response["content"]["text"].as_str().unwrap_or_default().to_owned()),
            None => ask(&[("capital_question", sampling("What is the capital of France?", 100))], None),
        },
        "test_input_required_result_list_roots" => match responses.get("client_roots") {
            Some(response) => done(format!("Roots: {}", response["roots"])),
            None => ask(&[("client_roots", roots())], None),
        },
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
            let confirm = form("Please confirm", "ok", "boolean");
            match (state, responses.get("confirm")) {
                (None, _) => ask(&[("confirm", confirm)], Some(states.issue("confirm"))),
                (Some(_), _) => match states.check(state) {
                    Ok(_) => done("state-ok".to_owned()),
                    Err(e) => Err(e),
                },
            }
        }
        "test_input_required_result_multiple_inputs" => {
            let wanted = ["user_name", "greeting", "client_roots"];
            if wanted.iter().all(|name| responses.contains_key(*name)) {
                match states.check(state) {
                    Ok(_) => done(wanted.map(|name| text(responses.get(name))).join(" ")),
                    Err(e) => Err(e),
                }
            } else {
                let all = [
                    ("user_name", form("What is your name?", "name", "string")),
                    ("greeting", sampling("Generate a greeting", 50)),
                    ("client_roots", roots()),
                ];
                ask(&all, Some(states.issue("multiple")))
            }
        }
        "test_input_required_result_multi_round" => match state.map(|s| states.check(Some(s))) {
            Some(Err(e)) => Err(e),
            Some(Ok(known)) if known.starts_with("round2") && responses.contains_key("step2") => {
                done(format!("done: {}", text(responses.get("step2"))))
            }
            Some(Ok(known)) if known.starts_with("round1") && responses.contains_key("step1") => {
                let color = form("Step 2: What is your favorite color?", "color", "string");
                ask(&[("step2", color)], Some(states.issue("round2")))
            }
            _ => ask(
                &[("step1", form("Step 1: What is your name?", "name", "string"))],
                Some(states.issue("round1")),
            ),
        },
        "test_input_required_result_capabilities" => {
            let has = |of: fn(&ClientCapabilities) -> bool| client.is_some_and(of);
            let mut all = Vec::new();
            if has(|c| c.elicitation.is_some()) {
                all.push(("user_name", form("What is your name?", "name", "string")));
            }
            if has(|c| c.sampling.is_some()) {
                all.push(("greeting", sampling("Generate a greeting", 50)));
            }
            if has(|c| c.roots.is_some()) {
                all.push(("client_roots", roots()));
            }
            if all.is_empty() || all.iter().all(|(name, _)| responses.contains_key(*name)) {
                done("done".to_owned())
            } else {
                ask(&all, None)
            }
        }
        "test_streaming_elicitation" => match responses.get("user_name") {
            Some(_) => done("done".to_owned()),
            None => ask(&[("user_name", form("What is your name?", "name", "string"))], None),
        },
        "test_input_required_result_prompt" => match written(responses, "user_context", "context") {
            Some(context) => done(format!("Use this context: {context}")),
            None => ask(
                &[("user_context", form("What context should the prompt use?", "context", "string"))],
                None,
            ),
        },
        _ => return None,
    })
}

/// Question of a tool of revision 2025-11-25 to a person.
pub fn question(name: &str, message: &str) -> Option<Value> {
    let (message, properties, required) = match name {
        "test_elicitation" => (
            message,
            json!({
                "username": { "type": "string", "description": "User's response" },
                "email": { "type": "string", "description": "User's email address" }
            }),
            json!(["username", "email"]),
        ),
        "test_elicitation_sep1034_defaults" => (
            "Please review and update the form fields with defaults",
            json!({
                "name": { "type": "string", "description": "User name", "default": "John Doe" },
                "age": { "type": "integer", "description": "User age", "default": 30 },
                "score": { "type": "number", "description": "User score", "default": 95.5 },
                "status": {
                    "type": "string", "description": "User status",
                    "enum": ["active", "inactive", "pending"], "default": "active"
                },
                "verified": { "type": "boolean", "description": "Verification status", "default": true }
            }),
            json!([]),
        ),
        "test_elicitation_sep1330_enums" => {
            let titled = |word: &str| {
                json!([
                    { "const": "value1", "title": format!("First {word}") },
                    { "const": "value2", "title": format!("Second {word}") },
                    { "const": "value3", "title": format!("Third {word}") }
                ])
            };
            let plain = json!(["option1", "option2", "option3"]);
            (
                "Please select options from the enum fields",
                json!({
                    "untitledSingle": { "type": "string", "enum": plain },
                    "titledSingle": { "type": "string", "oneOf": titled("Option") },
                    "legacyEnum": {
                        "type": "string", "enum": ["opt1", "opt2", "opt3"],
                        "enumNames": ["Option One", "Option Two", "Option Three"]
                    },
                    "untitledMulti": { "type": "array", "items": { "type": "string", "enum": plain } },
                    "titledMulti": { "type": "array", "items": { "anyOf": titled("Choice") } }
                }),
                json!([]),
            )
        }
        _ => return None,
    };
    Some(json!({
        "mode": "form",
        "message": message,
        "requestedSchema": { "type": "object", "properties": properties, "required": required }
    }))
}
