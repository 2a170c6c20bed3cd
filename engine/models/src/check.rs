//! Proof of an endpoint by asking it: its list of models, a one-word completion, and the window by a marked prompt.

use std::time::Duration;

use hotcell_state::ids;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;

use crate::client::{Client, ModelError, Reply};
use crate::endpoint::Endpoint;
use crate::message::{Request, Stop};
use crate::retry::Backoff;

/// Output tokens that a check allows; models that reason first need some for it.
const MAX_OUTPUT_TOKENS: u32 = 512;
/// Maximum number of models that are named in a report.
const MAX_MODELS: usize = 50;

/// Result of a check.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// Name of the endpoint.
    pub name: String,
    /// Provider.
    pub provider: String,
    /// URL.
    pub url: String,
    /// Configured model.
    pub model: String,
    /// True when the model replied, and the window, if it was asked for, holds.
    pub good: bool,
    /// Models that the server lists, at most 50; `null` when it has no list.
    pub models: Option<Vec<String>>,
    /// Reason why there is no list.
    pub models_problem: Option<String>,
    /// True when the configured model is in the list; `null` without a list.
    pub listed: Option<bool>,
    /// Reply to a question for one word.
    pub completion: Option<Answered>,
    /// Reason why there is no reply.
    pub completion_problem: Option<String>,
    /// Window in tokens as the list of models states it.
    pub stated_window: Option<u64>,
    /// Window as a marked prompt proved it; `null` when it was not asked for.
    pub window: Option<WindowProof>,
}

/// Reply of a check.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Answered {
    /// Beginning of the text.
    pub text: String,
    /// Model, as the server states it.
    pub model: String,
    /// Seconds.
    pub seconds: f64,
    /// `known`, `free` or `unknown`.
    pub cost: String,
    /// True when the server counts tokens.
    pub counts_tokens: bool,
}

/// Result of a prompt whose beginning has a mark that the model has to repeat.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WindowProof {
    /// Tokens that were asked for, about as many as the prompt has.
    pub asked: u32,
    /// Tokens that the server read, as it counts them.
    pub read: Option<u64>,
    /// Result.
    pub result: WindowResult,
    /// The server's words, when it refused.
    pub problem: Option<String>,
}

/// Results of a marked prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WindowResult {
    /// The model repeated the mark, and the server counts the whole prompt.
    Holds,
    /// The server left out a part of the prompt without an error.
    Cut,
    /// The server refused the prompt.
    Refused,
    /// The server counts the whole prompt, but the model did not repeat the mark: it may be too weak to.
    Unproven,
}

/// Checks an endpoint. The replies are returned for the ledger.
///
/// # Errors
/// [`ModelError`] when no client can be made; what the server does wrong is in the report.
pub async fn check(
    endpoint: &Endpoint,
    window: Option<u32>,
    deadline: Instant,
) -> Result<(Check, Vec<Reply>), ModelError> {
    // A check says how the server is now.
    let once = Backoff { ceiling: Duration::ZERO, ..Backoff::default() };
    let client = Client::new(vec![endpoint.clone()])?.with_backoff(once);
    let mut replies = Vec::new();
    let mut report = Check {
        name: endpoint.name.clone(),
        provider: endpoint.provider.name().to_owned(),
        url: endpoint.url.to_string(),
        model: endpoint.model.clone(),
        good: false,
        models: None,
        models_problem: None,
        listed: None,
        completion: None,
        completion_problem: None,
        stated_window: None,
        window: None,
    };
    match client.document(0, endpoint.models_url(), deadline).await {
        Err(failure) => report.models_problem = Some(failure.to_string()),
        Ok(list) => match models(&list) {
            None => report.models_problem = Some("the list has another form".to_owned()),
            Some(models) => {
                let own = models.iter().find(|(name, _)| is_model(name, &endpoint.model));
                report.listed = Some(own.is_some());
                report.stated_window = own.and_then(|(_, window)| *window);
                report.models = Some(models.into_iter().take(MAX_MODELS).map(|(name, _)| name).collect());
            }
        },
    }
    let question = Request::ask("Reply with the one word: ready", MAX_OUTPUT_TOKENS);
    match client.complete(&question, deadline).await {
        Err(error) => report.completion_problem = Some(error.to_string()),
        Ok(reply) => {
            report.completion_problem = empty(&reply).map(str::to_owned);
            report.completion = Some(Answered {
                text: reply.text.trim().chars().take(60).collect(),
                model: reply.model.clone(),
                seconds: reply.time.as_secs_f64(),
                cost: reply.cost.name().to_owned(),
                counts_tokens: reply.tokens.is_some(),
            });
            replies.push(reply);
        }
    }
    if let (Some(asked), Some(_)) = (window, &report.completion) {
        let mark = ids::random_hex(4).map_err(|e| ModelError::Client(e.to_string()))?;
        let proof = match client.complete(&marked(&mark, asked), deadline).await {
            Ok(reply) => {
                let read = reply.tokens.map(|tokens| tokens.fresh.saturating_add(tokens.cached));
                let result = judge(reply.text.contains(&mark), read, asked);
                replies.push(reply);
                WindowProof { asked, read, result, problem: None }
            }
            Err(error) => {
                let problem = Some(error.to_string());
                WindowProof { asked, read: None, result: WindowResult::Refused, problem }
            }
        };
        report.window = Some(proof);
    }
    // Servers load models that they do not list, so that a reply counts for more than the list.
    let holds = report.window.as_ref().is_none_or(|proof| proof.result == WindowResult::Holds);
    report.good = report.completion.is_some() && report.completion_problem.is_none() && holds;
    Ok((report, replies))
}

/// Why a reply without text says nothing for a model; one that was cut may have been its reasoning.
fn empty(reply: &Reply) -> Option<&'static str> {
    match reply.stop {
        _ if !reply.text.trim().is_empty() => None,
        Stop::Length => None,
        _ if !reply.calls.is_empty() => Some("the reply is a call of a tool, of which none was offered"),
        _ => Some("the reply is empty"),
    }
}

/// Names of the models that a server lists.
///
/// # Errors
/// A sentence, when there is no client or no list.
pub async fn listed(endpoint: Endpoint, deadline: Instant) -> Result<Vec<String>, String> {
    let url = endpoint.models_url();
    let client = Client::new(vec![endpoint]).map_err(|e| e.to_string())?;
    let list = client.document(0, url, deadline).await.map_err(|e| e.to_string())?;
    let models = models(&list).ok_or("the list has another form")?;
    Ok(models.into_iter().map(|(name, _)| name).collect())
}

/// A prompt of about this many tokens, with the mark at its beginning: servers that cut leave the beginning out. Each of the words is one
/// token in the usual vocabularies.
fn marked(mark: &str, tokens: u32) -> Request {
    const WORDS: [&str; 8] = ["the", "day", "was", "long", "and", "very", "warm", "again"];
    let filler: Vec<_> = WORDS.into_iter().cycle().take(tokens.saturating_sub(80) as usize).collect();
    let prompt = format!(
        "The code word is {mark}. Remember it.\n{}\nWhat is the code word at the beginning? Reply with it alone.",
        filler.join(" ")
    );
    Request { temperature: Some(0.0), ..Request::ask(prompt, MAX_OUTPUT_TOKENS) }
}

/// Three quarters, because vocabularies differ.
fn judge(repeated: bool, read: Option<u64>, asked: u32) -> WindowResult {
    let enough = u64::from(asked) * 3 / 4;
    match (repeated, read) {
        (_, Some(read)) if read < enough => WindowResult::Cut,
        (true, _) => WindowResult::Holds,
        (false, _) => WindowResult::Unproven,
    }
}

/// Names and windows in a list of models: `data` (OpenAI, Anthropic) or `models` (Gemini).
fn models(list: &Value) -> Option<Vec<(String, Option<u64>)>> {
    let all = list["data"].as_array().or_else(|| list["models"].as_array())?;
    let one = |model: &Value| {
        let name = model["id"].as_str().or_else(|| model["name"].as_str())?;
        let window = [
            "/max_model_len",         // vLLM
            "/context_length",        // OpenRouter
            "/context_window",        // Groq
            "/loaded_context_length", // LM Studio
            "/inputTokenLimit",       // Gemini
            "/max_input_tokens",      // Anthropic
            "/meta/n_ctx",            // llama.cpp
        ];
        let window = window.iter().find_map(|pointer| model.pointer(pointer)?.as_u64());
        Some((name.to_owned(), window))
    };
    Some(all.iter().filter_map(one).collect())
}

/// Tells if a listed name is the configured one; Gemini lists `models/NAME`, Ollama `NAME:latest`.
fn is_model(listed: &str, configured: &str) -> bool {
    let plain = |name: &str| {
        let name = name.strip_prefix("models/").unwrap_or(name);
        name.strip_suffix(":latest").unwrap_or(name).to_owned()
    };
    plain(listed) == plain(configured)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Arguments, ToolCall};
    use serde_json::json;

    #[test]
    fn lists_of_models_are_read_in_each_form() {
        for (list, want) in [
            (json!({"object": "list", "data": [{"id": "a"}, {"no": 1}]}), Some(vec![("a", None)])),
            (json!({"data": [{"id": "a", "max_model_len": 4096}]}), Some(vec![("a", Some(4096))])),
            (json!({"data": [{"id": "a", "meta": {"n_ctx": 512}}]}), Some(vec![("a", Some(512))])),
            (
                json!({"models": [{"name": "models/a", "inputTokenLimit": 9}]}),
                Some(vec![("models/a", Some(9))]),
            ),
            (json!({"data": []}), Some(vec![])),
            (json!([]), None),
        ] {
            let want = want.map(|all| all.into_iter().map(|(n, w)| (n.to_owned(), w)).collect::<Vec<_>>());
            assert_eq!(models(&list), want, "{list}");
        }
        for (listed, configured, want) in [
            ("models/gemini-x", "gemini-x", true),
            ("llama3:latest", "llama3", true),
            ("llama3:8b", "llama3", false),
        ] {
            assert_eq!(is_model(listed, configured), want, "{listed}");
        }
    }

    #[test]
    fn replies_without_text_are_good_only_when_they_were_cut() {
        let call = || ToolCall {
            id: "1".into(),
            name: "ls".into(),
            arguments: Arguments::Malformed(String::new()),
            signature: None,
        };
        for (text, calls, stop, want) in [
            ("ready", 0, Stop::End, None),
            (" \n", 0, Stop::Length, None),
            ("", 0, Stop::End, Some("empty")),
            (" \n", 0, Stop::Other, Some("empty")),
            ("", 1, Stop::ToolCalls, Some("tool")),
            ("ready", 1, Stop::ToolCalls, None),
        ] {
            let reply = Reply {
                text: text.to_owned(),
                calls: (0..calls).map(|_| call()).collect(),
                stop,
                endpoint: String::new(),
                provider: crate::endpoint::Provider::Ollama,
                model: String::new(),
                tokens: None,
                cost: crate::tokens::Cost::Free,
                time: Duration::ZERO,
                attempts: 1,
                passed_over: Vec::new(),
            };
            let is_call = calls > 0 && text.is_empty();
            assert_eq!(reply.words().starts_with("(a call of the tool ls;"), is_call, "{text:?}");
            assert!(is_call || reply.words() == text);
            let found = empty(&reply);
            assert_eq!(found.is_some(), want.is_some(), "{text:?} {stop:?}");
            assert!(found.zip(want).is_none_or(|(found, want)| found.contains(want)));
        }
    }

    #[test]
    fn window_is_judged_by_mark_and_count() {
        for (repeated, read, want) in [
            (true, Some(8000), WindowResult::Holds),
            (true, None, WindowResult::Holds),
            (false, Some(8000), WindowResult::Unproven),
            (false, None, WindowResult::Unproven),
            (false, Some(4096), WindowResult::Cut),
            (true, Some(4096), WindowResult::Cut),
        ] {
            assert_eq!(judge(repeated, read, 8192), want, "{repeated} {read:?}");
        }
    }
}
