//! The response of a verb: one form for both modes, `hotcell.agent_response/1`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Value of the `schema` field.
pub const SCHEMA: &str = "hotcell.agent_response/1";

/// Response of a verb.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Response {
    /// Always `hotcell.agent_response/1`.
    pub schema: String,
    /// Verb with its version.
    pub verb: String,
    /// Inputs of the call, with defaults.
    pub input_params: Map<String, Value>,
    /// Summary for a person. It may have words of others.
    pub summary: String,
    /// Answer, valid by the verb's own schema of returns.
    pub result: Map<String, Value>,
    /// Results of the tools by their names in the definition: data, `{"error": …}` or `{"skipped": …}`. Only with the data mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_data: Option<Map<String, Value>>,
    /// Task for the caller's own model over the data. Only with the data mode of a verb that has a prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Next>,
    /// How the response came about.
    pub metadata: Metadata,
}

/// Task for the receiver of the data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Next {
    /// Task, in the words of the definition.
    pub task: String,
    /// JSON Schema of the answer.
    pub returns: Value,
}

/// The way that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Data for the caller's own model; needs no key.
    IdeIntegrated,
    /// Answered by a configured model.
    StandaloneAi,
}

/// How a response came about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Metadata {
    /// Way that was taken.
    pub mode: Mode,
    /// Reason for this way.
    pub why: String,
    /// Tools with a result, by their names in the definition, in the order of their ends.
    pub tools_executed: Vec<String>,
    /// All tools.
    pub tools: Vec<ToolReport>,
    /// Fields of `result` for which the data has nothing: a default of their type. Empty when a model answered.
    pub defaults: Vec<String>,
    /// Model that answered, or whose answers could not be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llm_model: Option<String>,
    /// Use of models; missing when none was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Beginning of the call, as RFC 3339.
    pub timestamp: String,
    /// Time of the call.
    pub execution_time_ms: u64,
    /// Part of it in which no tool and no model was waited for.
    pub own_time_ms: f64,
}

/// One tool of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolReport {
    /// Name in the definition.
    pub name: String,
    /// Tool.
    pub tool: String,
    /// How it ended.
    pub status: Status,
    /// The result was kept from an earlier call.
    pub cached: bool,
    /// Reason why there is no result. It may have words of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Time.
    pub time_ms: u64,
}

/// How a tool ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It answered.
    Done,
    /// It failed, or could not be called.
    Failed,
    /// Not called, since these inputs do not ask for it.
    Skipped,
}

/// Use of models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Replies: 2 after a repair.
    pub replies: u32,
    /// Name of the configured model; missing when none replied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Tokens; missing when the server does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// `known`, `free` or `unknown`.
    pub cost: String,
    /// Cost in US dollars, when it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dollars: Option<f64>,
    /// Models that were not asked or did not reply, with the reason.
    pub passed_over: Vec<String>,
}

impl Response {
    /// Exit status: 1 when a tool failed or a model's answer could not be used, else 0.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        let failed = self.metadata.tools.iter().any(|tool| tool.status == Status::Failed);
        u8::from(failed || self.metadata.mode == Mode::IdeIntegrated && self.metadata.usage.is_some())
    }
}
