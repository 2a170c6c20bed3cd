//! `hotcell model ask`: one question, one reply.

use std::io::{IsTerminal, Read};

use hotcell_models::ledger::{Call, Purpose};
use hotcell_models::{Client, Message, Reply, Request, Stop, Tokens};
use hotcell_state::report::{Code, ErrorReport, printable_line};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{internal, ledger, of_model, record, settings, unasked, unknown};
use crate::args::{AskArgs, Common};
use crate::context::runtime;
use crate::exit;
use crate::exit::printed;
use crate::terminal::notes;

/// Value of the `schema` field.
pub const SCHEMA: &str = "hotcell.model_reply/1";
/// Maximum size of a prompt from standard input: more than the largest windows hold.
const MAX_PROMPT_BYTES: u64 = 8 << 20;

/// A reply.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// Always `hotcell.model_reply/1`.
    pub schema: String,
    /// Text.
    pub text: String,
    /// Reason why the model stopped; only `end` is a complete reply.
    pub stop: Stop,
    /// Name of the configured model that replied.
    pub name: String,
    /// Provider.
    pub provider: String,
    /// Model, as the server states it.
    pub model: String,
    /// Tokens; `null` when the server does not count.
    pub tokens: Option<Tokens>,
    /// `known`, `free` or `unknown`.
    pub cost: String,
    /// Cost in US dollars, when it is known.
    pub dollars: Option<f64>,
    /// Seconds that the attempt took.
    pub seconds: f64,
    /// Number of attempts at this model.
    pub attempts: u32,
    /// Models that were asked before, with the reason why they did not reply.
    pub passed_over: Vec<PassedOver>,
}

/// A model that did not reply.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct PassedOver {
    /// Name.
    pub name: String,
    /// Number of attempts.
    pub attempts: u32,
    /// Reason.
    pub why: String,
}

/// Asks; returns the exit status.
pub fn ask(common: &Common, args: &AskArgs) -> Result<u8, ErrorReport> {
    let settings = settings(common)?;
    let endpoints = match &args.model {
        Some(name) => vec![settings.endpoint(name).map_err(|e| unknown(&e, "--model"))?.clone()],
        None => settings.of_role(&args.role).map_err(|e| unknown(&e, "--role"))?,
    };
    if args.model.is_none() && !settings.roles.contains_key(&args.role) && !common.quiet && !common.json {
        unasked(&args.role).into_iter().for_each(notes::say);
    }
    let purpose = Purpose::new(&args.role, args.session.as_deref(), args.iteration)
        .map_err(|e| ErrorReport::new(Code::InvalidValue, e.to_string()).field("--session"))?;
    let request = Request {
        system: args.system.clone(),
        messages: vec![Message::user(prompt(&args.prompt)?)],
        max_output_tokens: args.max_tokens,
        temperature: args.temperature,
        seed: args.seed,
        ..Request::default()
    };
    let client = Client::new(endpoints).map_err(|e| of_model(&e))?;
    let ledger = ledger(common)?;
    let runtime = runtime().map_err(|e| internal(&e))?;
    let reply = match runtime.block_on(client.complete(&request, Instant::now() + args.timeout)) {
        Ok(reply) => reply,
        Err(error) => {
            record(&ledger, Call::of_error(&purpose, &error));
            return Err(of_model(&error));
        }
    };
    record(&ledger, Call::of_reply(&purpose, &reply));
    let empty = reply.text.trim().is_empty();
    let code = u8::from(empty || reply.stop != Stop::End);
    if common.json {
        return Ok(printed(exit::print_json(&answer(reply)), code));
    }
    let result = exit::print_text(&shown(&reply.text));
    if !common.quiet {
        notes::say(about(&reply));
    }
    let problem = match reply.stop {
        Stop::Length if empty => {
            Some("it has no text: the model spent its output on reasoning; raise --max-tokens")
        }
        Stop::Length => Some("it is cut: the model reached the limit of output; raise --max-tokens"),
        Stop::Refused => Some("the model or its provider refused to go on"),
        Stop::End if !empty => None,
        _ if empty => Some("it has no text"),
        _ => Some("the model stopped for an unknown reason, so that it may be incomplete"),
    };
    if let Some(problem) = problem {
        notes::say(format!("warning: {problem}"));
    }
    Ok(printed(result, code))
}

/// The prompt, or that on standard input.
fn prompt(text: &str) -> Result<String, ErrorReport> {
    let bad =
        |why: String| ErrorReport::new(Code::InvalidValue, format!("standard input {why}")).field("PROMPT");
    if text != "-" {
        return Ok(text.to_owned());
    }
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(MAX_PROMPT_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|e| bad(format!("cannot be read: {e}")))?;
    if bytes.len() as u64 > MAX_PROMPT_BYTES {
        return Err(bad(format!("is larger than {MAX_PROMPT_BYTES} bytes, which no window holds")));
    }
    String::from_utf8(bytes).map_err(|_| bad("is not UTF-8".to_owned()))
}

/// A model's text with a line feed at its end; on a terminal without characters that move the cursor or are invisible.
fn shown(text: &str) -> String {
    let text = text.trim_end_matches('\n');
    if std::io::stdout().is_terminal() {
        return text.lines().map(|line| printable_line(line) + "\n").collect();
    }
    format!("{text}\n")
}

/// `local (ollama, qwen2.5-coder:7b): 1,204 + 0 cached + 96 tokens, free, 2.1 s`
fn about(reply: &Reply) -> String {
    let tokens = match reply.tokens {
        Some(Tokens { fresh, cached, output }) => format!("{fresh} + {cached} cached + {output} tokens"),
        None => "tokens not counted".to_owned(),
    };
    let mut line = format!(
        "{} ({}, {}): {tokens}, {}, {:.1} s",
        reply.endpoint,
        reply.provider,
        reply.model,
        reply.cost,
        reply.time.as_secs_f64()
    );
    if reply.attempts > 1 {
        line.push_str(&format!(", attempt {}", reply.attempts));
    }
    line
}

fn answer(reply: Reply) -> Answer {
    let passed = reply.passed_over.into_iter();
    Answer {
        schema: SCHEMA.to_owned(),
        text: reply.text,
        stop: reply.stop,
        name: reply.endpoint,
        provider: reply.provider.name().to_owned(),
        model: reply.model,
        tokens: reply.tokens,
        cost: reply.cost.name().to_owned(),
        dollars: reply.cost.money().map(hotcell_models::Money::dollars),
        seconds: reply.time.as_secs_f64(),
        attempts: reply.attempts,
        passed_over: passed
            .map(|tried| PassedOver { name: tried.endpoint, attempts: tried.attempts, why: tried.why })
            .collect(),
    }
}
