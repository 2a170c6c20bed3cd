//! Messages of Anthropic: content blocks; results of tools are blocks of the user.

use serde_json::{Value, json};

use super::{Completion, WireError, add_turn, count, entries, list, set, settings, text};
use crate::message::{Arguments, Message, Request, Stop, Tool, ToolCall};
use crate::tokens::Tokens;

/// Key of an input that stands for arguments which are not an object.
const MALFORMED: &str = "malformed_arguments";
/// Beginning of an id that is written in hexadecimal digits.
const CODED_ID: &str = "hx_";

pub fn encode(model: &str, request: &Request) -> Value {
    let mut messages: Vec<Value> = Vec::new();
    for message in &request.messages {
        let (role, blocks) = blocks(message);
        // All results of a message's calls have to be in the message after it.
        add_turn(&mut messages, role, "content", blocks);
    }
    let mut body = json!({"model": model, "max_tokens": request.max_output_tokens, "messages": messages});
    set(&mut body, request.temperature, None);
    if let Some(system) = &request.system {
        body["system"] = system.as_str().into();
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({"name": tool.name, "description": tool.description, "input_schema": tool.parameters})
        });
        body["tools"] = tools.collect();
    }
    body
}

fn blocks(message: &Message) -> (&'static str, Vec<Value>) {
    match message {
        Message::User { text } => ("user", vec![json!({"type": "text", "text": text})]),
        Message::Tool { id, text, .. } => {
            ("user", vec![json!({"type": "tool_result", "tool_use_id": coded(id), "content": text})])
        }
        Message::Assistant { text, calls } => {
            // An empty text block is refused.
            let text = Some(text).filter(|text| !text.is_empty());
            let text = text.map(|text| json!({"type": "text", "text": text}));
            let calls = calls.iter().map(|call| {
                let input = match &call.arguments {
                    Arguments::Json(object) => Value::Object(object.clone()),
                    Arguments::Malformed(text) => json!({ MALFORMED: text }),
                };
                json!({"type": "tool_use", "id": coded(&call.id), "name": call.name, "input": input})
            });
            ("assistant", text.into_iter().chain(calls).collect())
        }
    }
}

/// An id with only letters, digits, `_` and `-`, which Anthropic requires; those of other servers have more (`functions.read:0`).
fn coded(id: &str) -> String {
    let plain = !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if plain && !id.starts_with(CODED_ID) {
        return id.to_owned();
    }
    id.bytes().fold(CODED_ID.to_owned(), |coded, byte| format!("{coded}{byte:02x}"))
}

fn decoded(id: &str) -> String {
    let bytes = id.strip_prefix(CODED_ID).filter(|digits| digits.is_ascii()).and_then(|digits| {
        let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
        pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect::<Option<Vec<u8>>>()
    });
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_else(|| id.to_owned())
}

pub fn decode(body: &Value) -> Result<Request, WireError> {
    let mut request = settings(body, "max_tokens", "max_tokens")?;
    request.seed = None;
    request.system = match body.get("system") {
        None | Some(Value::Null) => None,
        Some(system) => Some(joined(system)?),
    };
    let mut names = std::collections::BTreeMap::new();
    for message in list(body, "messages", "messages")? {
        let content = &message["content"];
        let one = [json!({"type": "text", "text": content})];
        let blocks =
            if content.is_string() { &one } else { list(message, "content", "a message's content")? };
        if text(message, "role", "a message's role")? == "assistant" {
            let (text, calls) = answer(blocks)?;
            names.extend(calls.iter().map(|call| (call.id.clone(), call.name.clone())));
            request.messages.push(Message::Assistant { text, calls });
            continue;
        }
        for block in blocks {
            request.messages.push(match text(block, "type", "a block's type")? {
                "text" => Message::User { text: text(block, "text", "a block's text")?.to_owned() },
                "tool_result" => {
                    let id = decoded(text(block, "tool_use_id", "tool_use_id")?);
                    let name = names.get(&id).cloned();
                    let text = match block.get("content") {
                        None | Some(Value::Null) => String::new(),
                        Some(content) => joined(content)?,
                    };
                    let name = name.ok_or(WireError::Shape("the call of a tool's result"))?;
                    Message::Tool { id, name, text }
                }
                other => return Err(WireError::Content(other.to_owned())),
            });
        }
    }
    for tool in entries(body, "tools", "tools")? {
        request.tools.push(Tool {
            name: text(tool, "name", "a tool's name")?.to_owned(),
            description: tool["description"].as_str().unwrap_or_default().to_owned(),
            parameters: tool["input_schema"].clone(),
        });
    }
    Ok(request)
}

/// A text, or the texts of blocks.
fn joined(content: &Value) -> Result<String, WireError> {
    match content {
        Value::String(text) => Ok(text.clone()),
        Value::Array(blocks) => blocks
            .iter()
            .map(|block| match block["type"].as_str() {
                Some("text") => text(block, "text", "a block's text"),
                other => Err(WireError::Content(other.unwrap_or_default().to_owned())),
            })
            .collect(),
        _ => Err(WireError::Shape("content")),
    }
}

/// Text and calls of the model's blocks; its reasoning is left out.
fn answer(blocks: &[Value]) -> Result<(String, Vec<ToolCall>), WireError> {
    let (mut all, mut calls) = (String::new(), Vec::new());
    for block in blocks {
        match text(block, "type", "a block's type")? {
            "text" => all.push_str(text(block, "text", "a block's text")?),
            "thinking" | "redacted_thinking" => {}
            "tool_use" => {
                let arguments = match &block["input"] {
                    Value::Object(object) => match object.get(MALFORMED).and_then(Value::as_str) {
                        Some(text) if object.len() == 1 => Arguments::Malformed(text.to_owned()),
                        _ => Arguments::Json(object.clone()),
                    },
                    Value::Null => Arguments::parse(""),
                    other => Arguments::Malformed(other.to_string()),
                };
                calls.push(ToolCall {
                    id: decoded(block["id"].as_str().unwrap_or_default()),
                    name: text(block, "name", "the name of a tool call")?.to_owned(),
                    arguments,
                    signature: None,
                });
            }
            other => return Err(WireError::Content(other.to_owned())),
        }
    }
    Ok((all, calls))
}

pub fn reply(body: &Value) -> Result<Completion, WireError> {
    let (text, calls) = answer(list(body, "content", "content")?)?;
    let stop = match body["stop_reason"].as_str() {
        Some("end_turn" | "stop_sequence") => Stop::End,
        Some("max_tokens" | "model_context_window_exceeded") => Stop::Length,
        Some("tool_use") => Stop::ToolCalls,
        Some("refusal") => Stop::Refused,
        _ => Stop::Other,
    };
    let tokens = body.get("usage").filter(|usage| usage.is_object()).map(|usage| Tokens {
        fresh: count(usage, "/input_tokens").saturating_add(count(usage, "/cache_creation_input_tokens")),
        cached: count(usage, "/cache_read_input_tokens"),
        output: count(usage, "/output_tokens"),
    });
    let model = body["model"].as_str().map(str::to_owned);
    Ok(Completion { text, calls, stop, tokens, cost: None, model })
}
