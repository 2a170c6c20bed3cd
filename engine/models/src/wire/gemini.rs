//! generateContent of Gemini: parts; results of tools name the tool; ids of calls are optional.

use serde_json::{Map, Value, json};

use super::{Completion, WireError, add_turn, count, entries, list, set, settings, text};
use crate::message::{Arguments, Message, Request, Stop, Tool, ToolCall};
use crate::tokens::Tokens;

/// Key of arguments that are not an object.
const MALFORMED: &str = "malformed_arguments";
/// Key of a tool's output.
const RESULT: &str = "result";

pub fn encode(request: &Request) -> Value {
    let mut contents: Vec<Value> = Vec::new();
    for message in &request.messages {
        let (role, parts) = parts(message);
        // A turn needs as many results as the one before has calls.
        add_turn(&mut contents, role, "parts", parts);
    }
    let mut config = json!({"maxOutputTokens": request.max_output_tokens});
    set(&mut config, request.temperature, request.seed);
    let mut body = json!({"contents": contents, "generationConfig": config});
    if let Some(system) = &request.system {
        body["systemInstruction"] = json!({"parts": [{"text": system}]});
    }
    if !request.tools.is_empty() {
        let tools: Vec<_> = request
            .tools
            .iter()
            .map(|tool| {
                let schema = &tool.parameters;
                json!({"name": tool.name, "description": tool.description, "parametersJsonSchema": schema})
            })
            .collect();
        body["tools"] = json!([{"functionDeclarations": tools}]);
    }
    body
}

fn parts(message: &Message) -> (&'static str, Vec<Value>) {
    match message {
        Message::User { text } => ("user", vec![json!({ "text": text })]),
        Message::Tool { id, name, text } => {
            let response = json!({ RESULT: text });
            ("user", vec![json!({"functionResponse": {"id": id, "name": name, "response": response}})])
        }
        Message::Assistant { text, calls } => {
            let text = Some(text).filter(|text| !text.is_empty()).map(|text| json!({ "text": text }));
            let calls = calls.iter().map(|call| {
                let args = match &call.arguments {
                    Arguments::Json(object) => Value::Object(object.clone()),
                    Arguments::Malformed(text) => json!({ MALFORMED: text }),
                };
                let mut part = json!({"functionCall": {"id": call.id, "name": call.name, "args": args}});
                if let Some(signature) = &call.signature {
                    part["thoughtSignature"] = signature.as_str().into();
                }
                part
            });
            ("model", text.into_iter().chain(calls).collect())
        }
    }
}

pub fn decode(body: &Value) -> Result<Request, WireError> {
    let mut request = settings(&body["generationConfig"], "maxOutputTokens", "maxOutputTokens")?;
    if let Some(system) = body.get("systemInstruction").filter(|system| !system.is_null()) {
        let parts = list(system, "parts", "the parts of systemInstruction")?;
        let texts = parts.iter().map(|part| text(part, "text", "a part's text"));
        request.system = Some(texts.collect::<Result<_, _>>()?);
    }
    for content in list(body, "contents", "contents")? {
        let parts = list(content, "parts", "the parts of contents")?;
        if content["role"] == "model" {
            let (text, calls) = answer(parts)?;
            request.messages.push(Message::Assistant { text, calls });
            continue;
        }
        for part in parts {
            request.messages.push(if let Some(text) = part["text"].as_str() {
                Message::User { text: text.to_owned() }
            } else if let Some(result) = part.get("functionResponse") {
                let response = &result["response"];
                let output =
                    response[RESULT].as_str().filter(|_| response.as_object().map(Map::len) == Some(1));
                Message::Tool {
                    id: result["id"].as_str().unwrap_or_default().to_owned(),
                    name: text(result, "name", "the name of functionResponse")?.to_owned(),
                    text: output.map_or_else(|| response.to_string(), str::to_owned),
                }
            } else {
                return Err(unknown(part));
            });
        }
    }
    for group in entries(body, "tools", "tools")? {
        for tool in list(group, "functionDeclarations", "functionDeclarations")? {
            let schema = tool.get("parametersJsonSchema").or_else(|| tool.get("parameters"));
            request.tools.push(Tool {
                name: text(tool, "name", "a tool's name")?.to_owned(),
                description: tool["description"].as_str().unwrap_or_default().to_owned(),
                parameters: schema.cloned().unwrap_or_default(),
            });
        }
    }
    Ok(request)
}

fn unknown(part: &Value) -> WireError {
    let keys = part.as_object().map(|part| part.keys().cloned().collect::<Vec<_>>().join(", "));
    WireError::Content(keys.unwrap_or_default())
}

/// Text and calls of the model's parts; its thoughts are left out.
fn answer(parts: &[Value]) -> Result<(String, Vec<ToolCall>), WireError> {
    let (mut all, mut calls) = (String::new(), Vec::new());
    for part in parts {
        if part["thought"] == true {
            continue;
        }
        if let Some(call) = part.get("functionCall") {
            let arguments = match &call["args"] {
                Value::Object(object) => match object.get(MALFORMED).and_then(Value::as_str) {
                    Some(text) if object.len() == 1 => Arguments::Malformed(text.to_owned()),
                    _ => Arguments::Json(object.clone()),
                },
                Value::Null => Arguments::parse(""),
                other => Arguments::Malformed(other.to_string()),
            };
            calls.push(ToolCall {
                id: call["id"].as_str().unwrap_or_default().to_owned(),
                name: text(call, "name", "the name of functionCall")?.to_owned(),
                arguments,
                signature: part["thoughtSignature"].as_str().map(str::to_owned),
            });
        } else if let Some(text) = part["text"].as_str() {
            all.push_str(text);
        } else {
            return Err(unknown(part));
        }
    }
    Ok((all, calls))
}

pub fn reply(body: &Value) -> Result<Completion, WireError> {
    let model = body["modelVersion"].as_str().map(str::to_owned);
    let tokens = body.get("usageMetadata").filter(|usage| usage.is_object()).map(|usage| {
        let (all, cached) = (count(usage, "/promptTokenCount"), count(usage, "/cachedContentTokenCount"));
        let thoughts = count(usage, "/thoughtsTokenCount");
        Tokens {
            fresh: all.saturating_sub(cached),
            cached: cached.min(all),
            output: count(usage, "/candidatesTokenCount").saturating_add(thoughts),
        }
    });
    let Some(candidate) = entries(body, "candidates", "candidates")?.first() else {
        return match body.pointer("/promptFeedback/blockReason").and_then(Value::as_str) {
            Some(why) => Ok(Completion {
                text: format!("the prompt was blocked: {why}"),
                calls: Vec::new(),
                stop: Stop::Refused,
                tokens,
                cost: None,
                model,
            }),
            None => Err(WireError::Shape("candidates")),
        };
    };
    // A candidate that was stopped before its first part has no content.
    let parts = entries(&candidate["content"], "parts", "the parts of the candidate")?;
    let (text, calls) = answer(parts)?;
    let stop = match candidate["finishReason"].as_str() {
        Some("STOP") if !calls.is_empty() => Stop::ToolCalls,
        Some("STOP") => Stop::End,
        Some("MAX_TOKENS") => Stop::Length,
        Some("SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "LANGUAGE") => {
            Stop::Refused
        }
        _ => Stop::Other,
    };
    Ok(Completion { text, calls, stop, tokens, cost: None, model })
}
