//! Wire formats: requests and replies of ours as JSON of a provider, and back.
//!
//! A conversation survives both ways with every message and tool call; property tests check it. Content that is not text (images, sound)
//! is refused with its name, never left out.

use serde_json::{Value, json};

use crate::message::{Request, Stop, ToolCall};
use crate::tokens::{Money, Tokens};

mod anthropic;
mod gemini;
mod openai;
#[cfg(test)]
mod tests;

/// A wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Chat Completions: OpenAI, DeepSeek, OpenRouter, Ollama, LM Studio, llama.cpp, vLLM.
    /// <https://platform.openai.com/docs/api-reference/chat>
    OpenAi {
        /// Key of the limit of output tokens: OpenAI's newer models take `max_completion_tokens` only, other servers know `max_tokens`.
        limit: &'static str,
    },
    /// Messages. <https://docs.anthropic.com/en/api/messages>
    Anthropic,
    /// generateContent. <https://ai.google.dev/api/generate-content>
    Gemini,
}

/// A reply as the provider sent it.
#[derive(Clone, Debug, PartialEq)]
pub struct Completion {
    /// Text; empty when there are only tool calls.
    pub text: String,
    /// Tool calls. Ids that the server left out are empty.
    pub calls: Vec<ToolCall>,
    /// Reason why the model stopped.
    pub stop: Stop,
    /// Tokens, when the server counted them.
    pub tokens: Option<Tokens>,
    /// Cost, when the server stated it (OpenRouter).
    pub cost: Option<Money>,
    /// Name of the model, as the server states it.
    pub model: Option<String>,
}

/// JSON that is not of the expected form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// A value is missing, or of another type.
    #[error("{0} is missing or of another type")]
    Shape(&'static str),
    /// Content that is not text.
    #[error("content of the type {0:?} is not supported, only text and tool calls")]
    Content(String),
    /// An error in place of a reply, although the status is 200 (OpenRouter does so).
    #[error("the server answers with an error: {0}")]
    Error(String),
}

impl Wire {
    /// The body of a request.
    #[must_use]
    pub fn encode(self, model: &str, request: &Request) -> Value {
        match self {
            Self::OpenAi { limit } => openai::encode(model, request, limit),
            Self::Anthropic => anthropic::encode(model, request),
            Self::Gemini => gemini::encode(request),
        }
    }

    /// A request of ours from the body of a request.
    ///
    /// # Errors
    /// [`WireError`] when the body has another form, or content that is not text.
    pub fn decode(self, body: &Value) -> Result<Request, WireError> {
        match self {
            Self::OpenAi { limit } => openai::decode(body, limit),
            Self::Anthropic => anthropic::decode(body),
            Self::Gemini => gemini::decode(body),
        }
    }

    /// The reply in a response's body.
    ///
    /// # Errors
    /// [`WireError`] when the body has another form, or content that is not text.
    pub fn reply(self, body: &Value) -> Result<Completion, WireError> {
        if let Some(error) = body.get("error").filter(|error| !error.is_null()) {
            return Err(WireError::Error(error_text(error)));
        }
        match self {
            Self::OpenAi { .. } => openai::reply(body),
            Self::Anthropic => anthropic::reply(body),
            Self::Gemini => gemini::reply(body),
        }
    }
}

/// The message of an error, in the forms `"text"` and `{"message": "text"}`.
pub(crate) fn error_text(error: &Value) -> String {
    let message = error.get("message").unwrap_or(error);
    message.as_str().map_or_else(|| message.to_string(), str::to_owned)
}

fn text<'a>(value: &'a Value, key: &str, name: &'static str) -> Result<&'a str, WireError> {
    value.get(key).and_then(Value::as_str).ok_or(WireError::Shape(name))
}

fn list<'a>(value: &'a Value, key: &str, name: &'static str) -> Result<&'a [Value], WireError> {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).ok_or(WireError::Shape(name))
}

/// Entries of a list that may be missing or null.
fn entries<'a>(value: &'a Value, key: &str, name: &'static str) -> Result<&'a [Value], WireError> {
    match value.get(key) {
        None | Some(Value::Null) => Ok(&[]),
        Some(_) => list(value, key, name),
    }
}

fn count(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

/// The common settings of a request, read back.
fn settings(body: &Value, limit: &str, name: &'static str) -> Result<Request, WireError> {
    let max = body.get(limit).and_then(Value::as_u64).and_then(|n| n.try_into().ok());
    Ok(Request {
        max_output_tokens: max.ok_or(WireError::Shape(name))?,
        temperature: body.get("temperature").and_then(Value::as_f64),
        seed: body.get("seed").and_then(Value::as_i64),
        ..Request::default()
    })
}

/// Adds a message in a format whose turns alternate: content of the user joins that of a message before it.
fn add_turn(messages: &mut Vec<Value>, role: &str, key: &str, content: Vec<Value>) {
    let before = messages.last_mut().filter(|last| role == "user" && last["role"] == role);
    match before.and_then(|last| last[key].as_array_mut()) {
        Some(all) => all.extend(content),
        None => messages.push(json!({"role": role, key: content})),
    }
}

/// Adds the settings that a request has.
fn set(body: &mut Value, temperature: Option<f64>, seed: Option<i64>) {
    if let Some(temperature) = temperature {
        body["temperature"] = json!(temperature);
    }
    if let Some(seed) = seed {
        body["seed"] = json!(seed);
    }
}
