//! Tools of terminals: programs that a model drives by keys, and whose screen it reads as text.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hotcell_report::RunReport;
use hotcell_sandbox::outcome::Cause;
use hotcell_server::terminals::terminal::{MAX_TYPED_BYTES, REACTION, Settled, Terminal, size};
use hotcell_server::terminals::{IDLE_TIMEOUT, Open};
use hotcell_server::{AskedLimits, Caller, CommandRequest, Live};
use hotcell_state::report::{Code, ErrorReport, printable_line};
use hotcell_terminals::keys;
use rmcp::model::{CallToolResult, JsonObject};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::runs::{kept, patience, pinned, start_terminal};
use super::{answered, blocking, brief, normal, parse};
use crate::text::barred;
use crate::wait::Listener;

/// Default time to wait for a screen, in milliseconds.
const WAIT_MS: u64 = 3_000;
/// Maximum number of keys of a call.
const MAX_KEYS: usize = 256;

type Answered = Result<CallToolResult, ErrorReport>;

/// Arguments of `terminal_start`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TerminalStart {
    /// The program and its arguments.
    #[schemars(length(min = 1))]
    pub argv: Vec<String>,
    /// Workspace to start in.
    #[serde(default)]
    pub workspace_id: Option<String>,
    /// Keep its changes there.
    #[serde(default)]
    pub keep: bool,
    /// Variables.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// An image of the operator's.
    #[serde(default)]
    pub image: Option<String>,
    /// HOST:PORT each; a person has to approve first.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub network: Vec<String>,
    /// Default 24.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100))]
    pub rows: Option<u16>,
    /// Default 80.
    #[serde(default)]
    #[schemars(range(min = 1, max = 250))]
    pub columns: Option<u16>,
}

/// Arguments of `terminal_send`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TerminalSend {
    /// The terminal.
    pub terminal_id: String,
    /// Text; a new line is the enter key.
    #[serde(default)]
    pub text: String,
    /// Such as enter, tab, escape, up, page_down, f1, ctrl-c, alt-x.
    #[serde(default)]
    pub keys: Vec<String>,
    /// Text to wait for.
    #[serde(default)]
    pub until: Option<String>,
    /// Maximum wait, by default 3000.
    #[serde(default)]
    #[schemars(range(max = 600_000))]
    pub wait_ms: Option<u64>,
}

/// Arguments of `terminal_screen`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TerminalScreen {
    /// The terminal.
    pub terminal_id: String,
    /// Text to wait for.
    #[serde(default)]
    pub until: Option<String>,
    /// Maximum wait, by default 3000.
    #[serde(default)]
    #[schemars(range(max = 600_000))]
    pub wait_ms: Option<u64>,
}

/// Arguments of `terminal_resize`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TerminalResize {
    /// The terminal.
    pub terminal_id: String,
    /// Lines, 1 to 100.
    #[schemars(range(min = 1, max = 100))]
    pub rows: u16,
    /// Characters in a line, 1 to 250.
    #[schemars(range(min = 1, max = 250))]
    pub columns: u16,
}

/// Arguments of `terminal_close`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TerminalNamed {
    /// The terminal.
    pub terminal_id: String,
}

/// A terminal and its screen.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Seen {
    /// Name of the terminal for the other tools.
    pub terminal_id: String,
    /// Its run; run_output has the bytes that the program wrote.
    pub run_id: String,
    /// running, ended or closed
    pub state: String,
    /// The screen, without blank lines at its end; what a program painted, and no words of hotcell's.
    pub screen: String,
    /// Line of the cursor, from 1.
    pub cursor_row: usize,
    /// Column of the cursor, from 1.
    pub cursor_column: usize,
    /// Whether the program shows the cursor.
    pub cursor_shown: bool,
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
    /// Whether the program uses the whole screen, as editors do.
    pub full_screen: bool,
    /// Why the wait ended: quiet, found, deadline or ended
    pub waited: String,
    /// Exit status of a program that has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Why it ended, where it did not exit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Bytes that the program did not take, since it does not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_taken: Option<usize>,
}

/// Schema of an answer. All fields are described once, at the first tool; a model pays for each list of fields.
pub fn answer(first: bool) -> Schema {
    const ALWAYS: [&str; 3] = ["terminal_id", "state", "screen"];
    let mut schema = brief::<Seen>(1);
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.retain(|name, _| first || ALWAYS.contains(&name.as_str()));
        // Required ones stand first.
        for name in ALWAYS.iter().rev() {
            if let Some(value) = properties.shift_remove(*name) {
                properties.shift_insert(0, (*name).to_owned(), value);
            }
        }
    }
    schema.insert("required".to_owned(), json!(ALWAYS));
    schema
}

/// Shows a terminal.
fn seen(id: &str, open: &Open, waited: Settled, not_taken: Option<usize>) -> (Seen, String) {
    let screen = open.terminal.screen();
    let answer = open.run.answer();
    let outcome = answer.as_ref().map(|answer| answer.outcome());
    let (row, column) = screen.cursor();
    let size = screen.size();
    let seen = Seen {
        terminal_id: id.to_owned(),
        run_id: open.run.id.clone(),
        state: if outcome.is_some() { "ended" } else { "running" }.to_owned(),
        screen: screen.text(),
        cursor_row: row + 1,
        cursor_column: column + 1,
        cursor_shown: screen.has_cursor(),
        rows: size.rows,
        columns: size.columns,
        full_screen: screen.is_alternate(),
        waited: waited.name().to_owned(),
        exit_code: outcome.and_then(|outcome| outcome.exit_code),
        why: outcome.filter(|outcome| outcome.cause != Cause::Exited).map(why),
        not_taken: not_taken.filter(|bytes| *bytes > 0),
    };
    let mut words = match (&seen.why, seen.exit_code) {
        (Some(why), _) => format!("the program has ended: {}", printable_line(why)),
        (None, Some(code)) => format!("the program has exited with {code}"),
        (None, None) => format!("the program runs; {}", seen.waited),
    };
    words.push_str(&format!(
        "; terminal_id {id}, {} x {}, cursor in line {} column {}{}\n",
        seen.rows,
        seen.columns,
        seen.cursor_row,
        seen.cursor_column,
        if seen.cursor_shown { "" } else { " (hidden)" }
    ));
    if let Some(bytes) = seen.not_taken {
        words.push_str(&format!("{bytes} bytes were not typed: the program does not read\n"));
    }
    if seen.screen.is_empty() {
        words.push_str("the screen is blank\n");
    } else {
        words.push_str(&barred(&seen.screen));
    }
    (seen, words)
}

/// Reason of an end, in one sentence.
fn why(outcome: &RunReport) -> String {
    let cause = serde_json::to_value(outcome.cause);
    let cause = cause.ok().and_then(|name| name.as_str().map(|name| name.replace('_', " ")));
    let cause = cause.unwrap_or_default();
    match &outcome.reason {
        Some(reason) => format!("{cause}: {reason}"),
        None => cause,
    }
}

fn shown(id: &str, open: &Open, waited: Settled, not_taken: Option<usize>) -> CallToolResult {
    let (seen, words) = seen(id, open, waited, not_taken);
    answered(&seen, words)
}

pub async fn start(live: &Live, caller: &Caller, arguments: JsonObject, listener: &Listener) -> Answered {
    let arguments = normal::<TerminalStart>(arguments)?;
    let asked: TerminalStart = parse(arguments.clone())?;
    let size = size(asked.rows, asked.columns)?;
    let place = live.terminals().reserve(caller)?;
    let keep = kept(asked.keep, false, asked.workspace_id.as_deref())?;
    let workspace = match asked.workspace_id.clone() {
        Some(id) => {
            let (held, owner) = (live.clone(), caller.clone());
            Some(blocking(move || pinned(&held, &owner, &id)).await?)
        }
        None => None,
    };
    let mut env: Vec<(String, String)> = asked.env.into_iter().collect();
    if !env.iter().any(|(name, _)| name == "TERM") {
        env.push(("TERM".to_owned(), "xterm-256color".to_owned()));
    }
    let terminal = Arc::new(Terminal::new(size));
    let request = CommandRequest {
        source: None,
        image: asked.image,
        argv: asked.argv,
        workspace,
        keep,
        env,
        stdin: Vec::new(),
        limits: AskedLimits::default(),
        network: None,
        secrets: Vec::new(),
        outputs: Vec::new(),
        terminal: Some(Arc::clone(&terminal)),
        approved: None,
    };
    let started =
        start_terminal(live, caller, &arguments, request, (&asked.network, asked.workspace_id), listener);
    let run = match started.await? {
        Ok(run) => run,
        Err(needs_approval) => return Ok(needs_approval),
    };
    let open = Open { terminal, run };
    let id = place.keep(open.clone())?;
    let wait = Duration::from_millis(WAIT_MS);
    let waited = tokio::select! {
        biased;
        () = listener.gone() => None,
        waited = open.terminal.settle(&open.run, None, Some((0, wait)), wait) => Some(waited),
    };
    let Some(waited) = waited else {
        // The caller never gets its handle, and its program would go on.
        live.terminals().close(caller, &id).await?;
        return Err(ErrorReport::new(Code::Refused, "the call was cancelled; its terminal is closed"));
    };
    let answer = open.run.answer();
    if let Some(outcome) = answer.as_ref().map(|answer| answer.outcome())
        && outcome.usage.wall_us.is_none()
    {
        // Nothing ran: an answer as run_command gives it, and no terminal.
        live.terminals().close(caller, &id).await?;
        return Err(ErrorReport::new(Code::Refused, why(outcome)).field("argv"));
    }
    let (seen, words) = seen(&id, &open, waited, None);
    let minutes = IDLE_TIMEOUT.as_secs() / 60;
    let lasts = format!(
        "it lasts until terminal_close, {minutes} minutes without a call, or the end of this server\n"
    );
    Ok(answered(&seen, lasts + &words))
}

pub async fn send(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: TerminalSend = parse(arguments)?;
    let time = patience(asked.wait_ms.unwrap_or(WAIT_MS))?;
    let open = live.terminals().get(caller, &asked.terminal_id)?;
    let until = wanted(asked.until.as_deref())?;
    if asked.keys.len() > MAX_KEYS {
        let why = format!("keys has {} names; allowed are {MAX_KEYS}", asked.keys.len());
        return Err(ErrorReport::new(Code::InvalidValue, why).field("keys"));
    }
    let mut bytes = keys::text(&asked.text);
    let application = open.terminal.screen().has_application_keys();
    for (at, key) in asked.keys.iter().enumerate() {
        let key = keys::bytes(key, application)
            .map_err(|why| ErrorReport::new(Code::UnknownName, why).field(format!("keys[{at}]")))?;
        bytes.extend(key);
    }
    if bytes.is_empty() {
        return Err(ErrorReport::new(Code::InvalidValue, "there is nothing to type")
            .field("text")
            .hint("give text, keys or both; terminal_screen looks without typing"));
    }
    if bytes.len() > MAX_TYPED_BYTES {
        let why = format!("there are {} bytes to type; allowed are {MAX_TYPED_BYTES}", bytes.len());
        return Err(ErrorReport::new(Code::InvalidValue, why)
            .field("text")
            .hint("put what is long into a file of a workspace"));
    }
    let before = open.terminal.changes();
    let count = bytes.len();
    let terminal = Arc::clone(&open.terminal);
    // On its own: a call that is given up must not leave half of a line.
    let typing = tokio::spawn(async move { terminal.type_keys(bytes).await });
    let taken = typing
        .await
        .map_err(|error| ErrorReport::new(Code::Internal, format!("nothing was typed: {error}")))??;
    let waited = open.terminal.settle(&open.run, until, Some((before, REACTION)), time).await;
    Ok(shown(&asked.terminal_id, &open, waited, Some(count - taken)))
}

pub async fn screen(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: TerminalScreen = parse(arguments)?;
    let time = patience(asked.wait_ms.unwrap_or(WAIT_MS))?;
    let open = live.terminals().get(caller, &asked.terminal_id)?;
    let until = wanted(asked.until.as_deref())?;
    let waited = open.terminal.settle(&open.run, until, None, time).await;
    Ok(shown(&asked.terminal_id, &open, waited, None))
}

/// A text to wait for: of one line, since lines of a screen are cut where they wrap.
fn wanted(until: Option<&str>) -> Result<Option<&str>, ErrorReport> {
    match until {
        Some(text) if text.contains(['\n', '\r']) => {
            Err(ErrorReport::new(Code::InvalidValue, "until has more than one line").field("until"))
        }
        until => Ok(until.filter(|text| !text.is_empty())),
    }
}

pub async fn resize(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: TerminalResize = parse(arguments)?;
    let size = size(Some(asked.rows), Some(asked.columns))?;
    let open = live.terminals().get(caller, &asked.terminal_id)?;
    let before = open.terminal.changes();
    open.terminal.resize(size);
    let time = Duration::from_millis(WAIT_MS);
    let waited = open.terminal.settle(&open.run, None, Some((before, REACTION)), time).await;
    Ok(shown(&asked.terminal_id, &open, waited, None))
}

pub async fn close(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: TerminalNamed = parse(arguments)?;
    let open = live.terminals().close(caller, &asked.terminal_id).await?;
    let (mut seen, words) = seen(&asked.terminal_id, &open, Settled::Ended, None);
    seen.state = "closed".to_owned();
    Ok(answered(&seen, words))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{TerminalResize, TerminalStart};
    use crate::tools::schema::of_arguments;

    #[test]
    fn sizes_have_one_range_in_errors() {
        let start = |size: &Value| json!({ "argv": ["true"], "rows": size });
        let resize = |size: &Value| json!({ "terminal_id": "t", "rows": size, "columns": 80 });
        for size in [json!(-1), json!(0), json!(101), json!(100_000)] {
            for (schema, arguments) in [
                (of_arguments::<TerminalStart>(), start(&size)),
                (of_arguments::<TerminalResize>(), resize(&size)),
            ] {
                let Value::Object(arguments) = arguments else { continue };
                let said = crate::tools::arguments::normal(&schema, arguments).unwrap_err().to_string();
                assert!(said.contains(&format!("rows is {size}; allowed is 1 to 100")), "{said}");
            }
        }
    }

    #[test]
    fn terminal_tools_cost_at_most_250_tokens_each() {
        let of_terminals = |tool: &&rmcp::model::Tool| tool.name.starts_with("terminal_");
        let all: Vec<_> = crate::tools::listed().iter().filter(of_terminals).collect();
        assert_eq!(all.len(), 5);
        for tool in all {
            let text = serde_json::to_string(tool).unwrap();
            // Four characters a token, as JSON of schemas has them.
            assert!(text.len() <= 1_000, "{} has {}: {text}", tool.name, text.len());
        }
    }
}
