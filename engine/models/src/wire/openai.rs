//! Chat Completions. Arguments of tool calls are a JSON text there, which models get wrong.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Completion, WireError, count, entries, list, set, settings, text};
use crate::message::{Arguments, Message, Request, Stop, Tool, ToolCall};
use crate::tokens::{Money, Tokens};

pub fn encode(model: &str, request: &Request, limit: &str) -> Value {
    let system = request.system.iter().map(|text| json!({"role": "system", "content": text}));
    let messages: Vec<_> = system.chain(request.messages.iter().map(message)).collect();
    let mut body = json!({"model": model, "messages": messages, "stream": false});
    body[limit] = request.max_output_tokens.into();
    set(&mut body, request.temperature, request.seed);
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            let function =
                json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters});
            json!({"type": "function", "function": function})
        });
        body["tools"] = tools.collect();
    }
    body
}

fn message(message: &Message) -> Value {
    match message {
        Message::User { text } => json!({"role": "user", "content": text}),
        Message::Tool { id, text, .. } => json!({"role": "tool", "tool_call_id": id, "content": text}),
        Message::Assistant { text, calls } if calls.is_empty() => {
            json!({"role": "assistant", "content": text})
        }
        Message::Assistant { text, calls } => {
            let content = if text.is_empty() { Value::Null } else { text.as_str().into() };
            let calls: Vec<_> = calls.iter().map(call).collect();
            json!({"role": "assistant", "content": content, "tool_calls": calls})
        }
    }
}

fn call(call: &ToolCall) -> Value {
    let arguments = match &call.arguments {
        Arguments::Json(object) => Value::Object(object.clone()).to_string(),
        Arguments::Malformed(text) => text.clone(),
    };
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
}

pub fn decode(body: &Value, limit: &str) -> Result<Request, WireError> {
    let mut request = settings(body, limit, "the limit of output tokens")?;
    // Results do not name the tool.
    let mut names = BTreeMap::new();
    for message in list(body, "messages", "messages")? {
        match text(message, "role", "a message's role")? {
            "system" | "developer" => {
                let text = content(message)?;
                request.system = Some(match request.system.take() {
                    Some(before) => format!("{before}\n\n{text}"),
                    None => text,
                });
            }
            "user" => request.messages.push(Message::User { text: content(message)? }),
            "assistant" => {
                let calls = calls(message)?;
                names.extend(calls.iter().map(|call| (call.id.clone(), call.name.clone())));
                request.messages.push(Message::Assistant { text: content(message)?, calls });
            }
            "tool" => {
                let id = text(message, "tool_call_id", "tool_call_id")?.to_owned();
                let name = names.get(&id).cloned().ok_or(WireError::Shape("the call of a tool's result"))?;
                request.messages.push(Message::Tool { id, name, text: content(message)? });
            }
            other => return Err(WireError::Content(other.to_owned())),
        }
    }
    for tool in entries(body, "tools", "tools")? {
        let function = &tool["function"];
        request.tools.push(Tool {
            name: text(function, "name", "a tool's name")?.to_owned(),
            description: function["description"].as_str().unwrap_or_default().to_owned(),
            parameters: function["parameters"].clone(),
        });
    }
    Ok(request)
}

/// Content: a text, null, or parts that are texts.
fn content(message: &Value) -> Result<String, WireError> {
    match message.get("content") {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Array(parts)) => parts
            .iter()
            .map(|part| match part["type"].as_str() {
                Some("text") => text(part, "text", "a part's text"),
                other => Err(WireError::Content(other.unwrap_or_default().to_owned())),
            })
            .collect(),
        Some(_) => Err(WireError::Shape("a message's content")),
    }
}

fn calls(message: &Value) -> Result<Vec<ToolCall>, WireError> {
    entries(message, "tool_calls", "tool_calls")?
        .iter()
        .map(|call| {
            let function = &call["function"];
            let arguments = match &function["arguments"] {
                Value::String(text) => Arguments::parse(text),
                // Some servers send the object itself, or nothing.
                Value::Object(object) => Arguments::Json(object.clone()),
                Value::Null => Arguments::parse(""),
                other => Arguments::Malformed(other.to_string()),
            };
            Ok(ToolCall {
                id: call["id"].as_str().unwrap_or_default().to_owned(),
                name: text(function, "name", "the name of a tool call")?.to_owned(),
                arguments,
                signature: None,
            })
        })
        .collect()
}

pub fn reply(body: &Value) -> Result<Completion, WireError> {
    let choice =
        list(body, "choices", "choices")?.first().ok_or(WireError::Shape("the first of the choices"))?;
    let message = choice.get("message").ok_or(WireError::Shape("the message of the choice"))?;
    let (mut text, calls) = (content(message)?, calls(message)?);
    let mut stop = match choice["finish_reason"].as_str() {
        Some("length") => Stop::Length,
        Some("content_filter") => Stop::Refused,
        // Servers that say "stop" although there are calls exist.
        Some("stop" | "tool_calls" | "function_call") if !calls.is_empty() => Stop::ToolCalls,
        Some("stop") => Stop::End,
        _ => Stop::Other,
    };
    if let (true, Some(refusal)) = (text.is_empty() && calls.is_empty(), message["refusal"].as_str()) {
        (text, stop) = (refusal.to_owned(), Stop::Refused);
    }
    let usage = body.get("usage").filter(|usage| usage.is_object());
    let tokens = usage.map(|usage| {
        let of_openai = count(usage, "/prompt_tokens_details/cached_tokens");
        let cached = of_openai.max(count(usage, "/prompt_cache_hit_tokens"));
        let all = count(usage, "/prompt_tokens");
        Tokens {
            fresh: all.saturating_sub(cached),
            cached: cached.min(all),
            output: count(usage, "/completion_tokens"),
        }
    });
    let cost = usage.and_then(|usage| usage["cost"].as_f64()).and_then(Money::from_dollars);
    Ok(Completion { text, calls, stop, tokens, cost, model: body["model"].as_str().map(str::to_owned) })
}
