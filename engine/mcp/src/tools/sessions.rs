//! Tools of sessions: interpreters whose variables stay between calls.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use hotcell_server::{Caller, Live};
use hotcell_sessions::session::{CELL_TIMEOUT, MAX_CELL_TIMEOUT};
use hotcell_sessions::{Answer, Cell, CellResult, Language, Printed, Session};
use hotcell_state::report::{Code, ErrorReport, printable};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{answered, parse};
use crate::picture::may_be_shown;
use crate::text::{barred, beginning, end};

/// Budget of each text of an answer, in characters.
const MAX_TEXT_CHARS: usize = 4_000;

type Answered = Result<CallToolResult, ErrorReport>;

/// Arguments of `session_create`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionCreate {
    /// python, node, bash or sql (SQLite in memory)
    pub language: String,
    /// One of the operator's images, in place of the host's programs.
    #[serde(default)]
    pub image: Option<String>,
}

/// Arguments of `session_execute`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionExecute {
    /// The session.
    pub session_id: String,
    /// The code; the value of its last expression is returned.
    pub code: String,
    /// Time until it is interrupted, by default 60000.
    #[serde(default)]
    #[schemars(range(min = 1, max = 600_000))]
    pub timeout_ms: Option<u64>,
}

/// Arguments of the tools that only name a session.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionNamed {
    /// The session.
    pub session_id: String,
}

/// A session.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Described {
    /// Name of the session for the other tools.
    pub session_id: String,
    /// Language.
    pub language: String,
    /// ready, busy, ended or closed
    pub state: String,
    /// Number of cells so far.
    pub cells: u64,
    /// Seconds since the last cell.
    pub idle_s: u64,
    /// Why it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Sessions.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Listed {
    /// Sessions of the caller, the oldest first.
    pub sessions: Vec<Described>,
}

/// Result of an interrupt.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Interrupted {
    /// Whether a cell ran.
    pub interrupted: bool,
}

/// Result of a cell.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Executed {
    /// The session.
    pub session_id: String,
    /// The result, with its texts within the budget.
    #[serde(flatten)]
    pub result: CellResult,
    /// Standard output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
    /// Standard error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// Number of pictures beside it.
    pub images: usize,
}

fn described(id: &str, session: &Session) -> Described {
    let ended = session.ended();
    let state = match (&ended, session.is_busy()) {
        (Some(_), _) => "ended",
        (None, true) => "busy",
        (None, false) => "ready",
    };
    Described {
        session_id: id.to_owned(),
        language: session.language.name().to_owned(),
        state: state.to_owned(),
        cells: session.cells(),
        idle_s: session.idle().as_secs(),
        why: ended.map(|ended| ended.why.clone()),
    }
}

pub async fn create(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: SessionCreate = parse(arguments)?;
    let language = Language::parse(&asked.language)
        .map_err(|why| ErrorReport::new(Code::UnknownName, why).field("language"))?;
    let (id, session) = live.session_create(caller, language, asked.image).await?;
    let minutes = live.sessions().bounds().idle.as_secs() / 60;
    let words = format!(
        "a session of {}: session_id {id}; it lasts until session_close, {minutes} minutes without a call, or the end of this server",
        language.name()
    );
    Ok(answered(&described(&id, &session), words))
}

pub async fn execute(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: SessionExecute = parse(arguments)?;
    let timeout = asked.timeout_ms.map_or(CELL_TIMEOUT, Duration::from_millis);
    if timeout.is_zero() || timeout > MAX_CELL_TIMEOUT {
        return Err(hotcell_server::limits::out_of_range(
            "timeout_ms",
            u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
            1,
            u64::try_from(MAX_CELL_TIMEOUT.as_millis()).unwrap_or(u64::MAX),
        ));
    }
    let session = live.sessions().get(caller, &asked.session_id)?;
    let cell = Cell { code: asked.code, timeout };
    // On its own: a call that is given up must not leave half of its result to the next one.
    let executing = tokio::spawn(async move { session.execute(cell).await });
    let answer = executing
        .await
        .map_err(|error| ErrorReport::new(Code::Internal, format!("the cell was not followed: {error}")))?;
    Ok(told(asked.session_id, &answer))
}

pub async fn interrupt(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: SessionNamed = parse(arguments)?;
    let interrupted = live.sessions().get(caller, &asked.session_id)?.interrupt().await;
    let words = if interrupted { "interrupted; its variables stay" } else { "no cell runs" };
    Ok(answered(&Interrupted { interrupted }, words))
}

pub async fn reset(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: SessionNamed = parse(arguments)?;
    let session = live.session_reset(caller, &asked.session_id).await?;
    Ok(answered(
        &described(&asked.session_id, &session),
        "a new interpreter, empty, under the same session_id",
    ))
}

pub fn list(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let _: super::input::Nothing = parse(arguments)?;
    let all = live.sessions().list(caller);
    let sessions: Vec<_> = all.iter().map(|(id, session)| described(id, session)).collect();
    let line = |one: &Described| {
        let why = one.why.as_deref().map(|why| format!(": {}", printable(why))).unwrap_or_default();
        format!("{} {} {}, {} cells{why}\n", one.session_id, one.language, one.state, one.cells)
    };
    let words =
        if sessions.is_empty() { "no sessions".to_owned() } else { sessions.iter().map(line).collect() };
    Ok(answered(&Listed { sessions }, words))
}

pub async fn close(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: SessionNamed = parse(arguments)?;
    let session: Arc<Session> = live.sessions().get(caller, &asked.session_id)?;
    live.sessions().close(caller, &asked.session_id).await?;
    let mut closed = described(&asked.session_id, &session);
    (closed.state, closed.why) = ("closed".to_owned(), None);
    Ok(answered(&closed, "closed; its variables and files are gone"))
}

/// Beginning and end of a text within the budget.
fn cut(text: &str) -> String {
    if beginning(text, MAX_TEXT_CHARS) == text.len() {
        return text.to_owned();
    }
    let (first, last) = (beginning(text, MAX_TEXT_CHARS / 2), end(text, MAX_TEXT_CHARS / 2));
    let omitted = text.len() - first - last;
    format!("{}\n[... {omitted} bytes left out ...]\n{}", &text[..first], &text[text.len() - last..])
}

fn printed(printed: &Printed) -> Option<String> {
    (printed.bytes > 0).then(|| cut(&printed.text))
}

fn told(session_id: String, answer: &Answer) -> CallToolResult {
    let result = &answer.result;
    let executed = Executed {
        session_id,
        result: CellResult {
            value: result.value.as_deref().map(cut),
            error: result.error.as_deref().map(cut),
            ..result.clone()
        },
        stdout: printed(&answer.stdout),
        stderr: printed(&answer.stderr),
        images: answer.images.len(),
    };
    let mut words = format!("cell {}: {}\n", result.cell, result.status.name());
    if let Some(note) = &result.note {
        words.push_str(&format!("{}\n", printable(note)));
    }
    for (name, text) in [
        ("value", &executed.result.value),
        ("error", &executed.result.error),
        ("stdout", &executed.stdout),
        ("stderr", &executed.stderr),
    ] {
        if let Some(text) = text {
            words.push_str(&format!("{name}:\n{}", barred(text)));
        }
    }
    let mut pictures = Vec::new();
    for (at, image) in answer.images.iter().enumerate() {
        let name = format!("picture {}", at + 1);
        match may_be_shown(&name, image.len() as u64, image) {
            Ok(picture) => {
                let data = base64::engine::general_purpose::STANDARD.encode(image);
                pictures.push(ContentBlock::image(data, picture.kind));
            }
            Err(report) => words.push_str(&format!("{}\n", report.message)),
        }
    }
    let mut result = answered(&json!(executed), words);
    result.content.extend(pictures);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_keep_their_beginning_and_end() {
        let text = format!("first{}last", "x".repeat(3 * MAX_TEXT_CHARS));
        let cut = cut(&text);
        assert!(cut.starts_with("first") && cut.ends_with("last") && cut.contains("bytes left out"));
        assert!(cut.len() < MAX_TEXT_CHARS + 60, "{}", cut.len());
        assert_eq!(super::cut("short"), "short");
    }
}
