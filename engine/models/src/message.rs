//! Messages, tool calls and requests in one form, independent of a provider. Text only: no images, no sound.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Maximum number of messages of a request.
pub const MAX_MESSAGES: usize = 4096;
/// Maximum length of a tool's name, the smallest of the providers' limits (OpenAI, Anthropic, Gemini).
pub const MAX_TOOL_NAME_CHARS: usize = 64;

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// A message of the user. It has text.
    User {
        /// The text.
        text: String,
    },
    /// An answer of the model: text, tool calls, or both.
    Assistant {
        /// The text; empty when there are only calls.
        text: String,
        /// Calls, in the model's order.
        calls: Vec<ToolCall>,
    },
    /// The result of a tool call.
    Tool {
        /// Id of the call.
        id: String,
        /// Name of the tool, which Gemini asks for.
        name: String,
        /// Output of the tool.
        text: String,
    },
}

/// A call that a model asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Id that the result refers to.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments.
    pub arguments: Arguments,
    /// A provider's opaque signature, which has to be sent back with the call (`thoughtSignature` of Gemini 3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

/// Arguments of a tool call. Models write JSON that is not valid, so that a caller has to be able to tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arguments {
    /// A JSON object.
    Json(Map<String, Value>),
    /// Text that is not a JSON object, as the model wrote it.
    Malformed(String),
}

/// A tool that a model may call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// Name: letters, digits, `_` and `-`.
    pub name: String,
    /// Description for the model.
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
}

/// A request to a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// Instructions that precede the conversation.
    pub system: Option<String>,
    /// The conversation; the last message is not the model's.
    pub messages: Vec<Message>,
    /// Tools that the model may call.
    pub tools: Vec<Tool>,
    /// Maximum number of output tokens, including those of a model's reasoning.
    pub max_output_tokens: u32,
    /// Temperature; the provider's default without it.
    pub temperature: Option<f64>,
    /// Seed, for servers that have one. It is not sent to Anthropic, whose format has none.
    pub seed: Option<i64>,
}

/// Why a model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// The answer is complete.
    End,
    /// The maximum number of output tokens, or the window, was reached: the answer is cut.
    Length,
    /// The model waits for results of its tool calls.
    ToolCalls,
    /// The provider refused to go on.
    Refused,
    /// A reason that is not known here.
    Other,
}

/// Why a request is not sent to any provider.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// There is nothing to answer.
    #[error("the request has no message")]
    Empty,
    /// Too many messages.
    #[error("the request has {0} messages; {MAX_MESSAGES} are possible")]
    TooMany(usize),
    /// A message of the user has no text, which providers refuse.
    #[error("message {0} of the request is empty")]
    EmptyMessage(usize),
    /// The last message is the model's own.
    #[error("the last message of the request is the model's own, so that there is nothing to answer")]
    NothingToAnswer,
    /// The results that follow a message do not fit its tool calls.
    #[error(
        "the tool calls of message {0} of the request are not followed by one result each, with its id and name"
    )]
    Results(usize),
    /// A result of no call.
    #[error("message {0} of the request is the result of a tool call that is not there")]
    Orphan(usize),
    /// A tool's name.
    #[error(
        "{0:?} is not a name of a tool: up to {MAX_TOOL_NAME_CHARS} letters, digits, _ and -, each name once"
    )]
    ToolName(String),
    /// A tool's schema.
    #[error("the parameters of the tool {0:?} are not a JSON object with a schema")]
    Schema(String),
    /// No output is possible.
    #[error("the request allows no output tokens")]
    NoOutput,
}

impl Message {
    /// A message of the user.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Self::User { text: text.into() }
    }

    /// An answer without calls.
    #[must_use]
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::Assistant { text: text.into(), calls: Vec::new() }
    }

    /// The result of a call.
    #[must_use]
    pub fn result(call: &ToolCall, text: impl Into<String>) -> Self {
        Self::Tool { id: call.id.clone(), name: call.name.clone(), text: text.into() }
    }
}

impl Request {
    /// A question without history.
    #[must_use]
    pub fn ask(prompt: impl Into<String>, max_output_tokens: u32) -> Self {
        Self { messages: vec![Message::user(prompt)], max_output_tokens, ..Self::default() }
    }

    /// Checks rules that all providers have, so that a request that none accepts costs no call.
    ///
    /// # Errors
    /// [`RequestError`] for the first violation; messages count from 1.
    pub fn check(&self) -> Result<(), RequestError> {
        if self.messages.is_empty() {
            return Err(RequestError::Empty);
        }
        if self.messages.len() > MAX_MESSAGES {
            return Err(RequestError::TooMany(self.messages.len()));
        }
        if self.max_output_tokens == 0 {
            return Err(RequestError::NoOutput);
        }
        let mut names = std::collections::BTreeSet::new();
        for tool in &self.tools {
            if !is_tool_name(&tool.name) || !names.insert(&tool.name) {
                return Err(RequestError::ToolName(tool.name.clone()));
            }
            if !tool.parameters.is_object() {
                return Err(RequestError::Schema(tool.name.clone()));
            }
        }
        let mut at = 0;
        while let Some(message) = self.messages.get(at) {
            at += 1;
            match message {
                Message::User { text } if text.trim().is_empty() => {
                    return Err(RequestError::EmptyMessage(at));
                }
                Message::User { .. } => {}
                Message::Assistant { text, calls } => {
                    if text.trim().is_empty() && calls.is_empty() {
                        return Err(RequestError::EmptyMessage(at));
                    }
                    if let Some(bad) = calls.iter().find(|call| !is_tool_name(&call.name)) {
                        return Err(RequestError::ToolName(bad.name.clone()));
                    }
                    if !self.results_fit(calls, at) {
                        return Err(RequestError::Results(at));
                    }
                    at += calls.len();
                }
                Message::Tool { .. } => return Err(RequestError::Orphan(at)),
            }
        }
        match self.messages.last() {
            Some(Message::Assistant { .. }) => Err(RequestError::NothingToAnswer),
            _ => Ok(()),
        }
    }

    /// A lower bound of the tokens of input and output together. A token of prose has about four characters; code with deep indentation has
    /// more, so that eight are counted.
    #[must_use]
    pub fn least_tokens(&self) -> u64 {
        let of_message = |message: &Message| match message {
            Message::User { text } | Message::Assistant { text, .. } | Message::Tool { text, .. } => {
                text.len()
            }
        };
        let bytes =
            self.messages.iter().map(of_message).sum::<usize>() + self.system.as_ref().map_or(0, String::len);
        (bytes as u64 / 8).saturating_add(self.max_output_tokens.into())
    }

    /// Tells if the messages from `at` on are one result for each call, in any order.
    fn results_fit(&self, calls: &[ToolCall], at: usize) -> bool {
        let mut left: Vec<(&str, &str)> =
            calls.iter().map(|call| (call.id.as_str(), call.name.as_str())).collect();
        for message in self.messages.iter().skip(at).take(calls.len()) {
            let Message::Tool { id, name, .. } = message else { return false };
            let Some(found) = left.iter().position(|call| *call == (id.as_str(), name.as_str())) else {
                return false;
            };
            left.swap_remove(found);
        }
        left.is_empty()
    }
}

impl Arguments {
    /// Arguments from JSON text, as OpenAI sends them; an empty text stands for no arguments.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        if text.trim().is_empty() {
            return Self::Json(Map::new());
        }
        match serde_json::from_str(text) {
            Ok(Value::Object(object)) => Self::Json(object),
            _ => Self::Malformed(text.to_owned()),
        }
    }
}

fn is_tool_name(name: &str) -> bool {
    (1..=MAX_TOOL_NAME_CHARS).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str) -> ToolCall {
        ToolCall {
            id: id.to_owned(),
            name: "read".to_owned(),
            arguments: Arguments::Json(Map::new()),
            signature: None,
        }
    }

    fn with(messages: Vec<Message>) -> Result<(), RequestError> {
        Request { messages, max_output_tokens: 1, ..Request::default() }.check()
    }

    #[test]
    fn requests_that_no_provider_accepts_are_refused() {
        let calls = |ids: &[&str]| Message::Assistant {
            text: String::new(),
            calls: ids.iter().map(|id| call(id)).collect(),
        };
        let result = |id: &str| Message::result(&call(id), "");
        let user = || Message::user("a");
        for (messages, want) in [
            (vec![], Err(RequestError::Empty)),
            (vec![user()], Ok(())),
            (vec![user(), Message::user(" \n")], Err(RequestError::EmptyMessage(2))),
            (vec![user(), Message::assistant("b")], Err(RequestError::NothingToAnswer)),
            (vec![user(), Message::assistant(""), user()], Err(RequestError::EmptyMessage(2))),
            (vec![user(), calls(&["1"]), user()], Err(RequestError::Results(2))),
            (vec![user(), calls(&["1", "2"]), result("2"), result("1")], Ok(())),
            (vec![user(), calls(&["1", "2"]), result("1"), result("1")], Err(RequestError::Results(2))),
            (vec![user(), calls(&["1", "2"]), result("1")], Err(RequestError::Results(2))),
            (vec![user(), result("1")], Err(RequestError::Orphan(2))),
            (vec![user(); MAX_MESSAGES + 1], Err(RequestError::TooMany(MAX_MESSAGES + 1))),
        ] {
            assert_eq!(with(messages.clone()), want, "{messages:?}");
        }
        let mut request = Request::ask("a", 0);
        assert_eq!(request.check(), Err(RequestError::NoOutput));
        request.max_output_tokens = 1;
        for (name, parameters) in [("a b", serde_json::json!({})), ("", serde_json::json!({}))] {
            request.tools = vec![Tool { name: name.to_owned(), description: String::new(), parameters }];
            assert_eq!(request.check(), Err(RequestError::ToolName(name.to_owned())));
        }
        request.tools =
            vec![Tool { name: "a".to_owned(), description: String::new(), parameters: Value::Null }];
        assert_eq!(request.check(), Err(RequestError::Schema("a".to_owned())));
    }

    #[test]
    fn arguments_keep_malformed_text() {
        assert_eq!(Arguments::parse(" "), Arguments::Json(Map::new()));
        for text in ["[1]", "\"a\"", "{\"a\":", "{} {}"] {
            assert_eq!(Arguments::parse(text), Arguments::Malformed(text.to_owned()));
        }
    }
}
