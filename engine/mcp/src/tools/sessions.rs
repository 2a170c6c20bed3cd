//! Tools of sessions: interpreters whose variables stay between calls.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use hotcell_sandbox::text::counted;
use hotcell_sandbox::units::format_duration;
use hotcell_scanning::pictures::checked;
use hotcell_server::jobs::returned::patterns;
use hotcell_server::{Caller, Live};
use hotcell_sessions::session::{CELL_TIMEOUT, INTERRUPT_TIMEOUT, MAX_CELL_TIMEOUT};
use hotcell_sessions::{
    Answer, Cell, CellFile, CellResult, Gone, InterruptResult, Language, Printed, Session,
};
use hotcell_state::report::{Code, ErrorReport, printable};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Resource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::input::bytes_of;
use super::{answered, parse};
use crate::picture::may_be_shown;
use crate::text::{barred, beginning, end};
use crate::uri::{uri_of_session_file, uri_of_session_receipt};
use crate::wait::Listener;

/// Budget of each text of an answer, in characters.
const MAX_TEXT_CHARS: usize = 4_000;

/// Maximum number of files that are linked.
const MAX_LINKS: usize = 30;

type Answered = Result<CallToolResult, ErrorReport>;

/// Arguments of `session_create`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionCreate {
    /// python, node, typescript, bash, sql (SQLite in memory) or postgresql
    pub language: String,
    /// One of the operator's images, in place of the host's programs.
    #[serde(default)]
    pub image: Option<String>,
    /// Packages of PyPI or npm, such as numpy==2.1.3, where the operator allows them.
    #[serde(default)]
    #[schemars(length(max = 50))]
    pub packages: Vec<String>,
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
    /// Files to return, as patterns below /home/sandbox such as *.png; new ones in outputs/ come anyway.
    #[serde(default)]
    #[schemars(length(max = 32))]
    pub outputs: Vec<String>,
}

/// Arguments of `session_upload`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionUpload {
    /// The session.
    pub session_id: String,
    /// Path below /home/sandbox, such as data.csv.
    pub path: String,
    /// The piece as text, at most 1 MiB. Give either content or base64.
    #[serde(default)]
    #[schemars(extend("x-empty-counts" = true))]
    pub content: Option<String>,
    /// The piece in base64, for bytes that are not text.
    #[serde(default)]
    #[schemars(extend("x-empty-counts" = true))]
    pub base64: Option<String>,
    /// Whether to append to the file, for the pieces after the first.
    #[serde(default)]
    pub append: bool,
}

/// Result of an upload.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Uploaded {
    /// Path below /home/sandbox.
    pub path: String,
    /// Size of the file now.
    pub bytes: u64,
}

/// A file of a cell.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Returned {
    /// Path below /home/sandbox, or cell-3.csv for a form of the value.
    pub path: String,
    /// Size.
    pub bytes: usize,
    /// Resource with its contents.
    pub uri: String,
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
    /// Its packages with versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<String>,
    /// Seconds since the last cell.
    pub idle_s: u64,
    /// Why it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// State that was lost with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
    /// Resource with the receipt of its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
}

/// Sessions.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Listed {
    /// Sessions of the caller, the oldest first; then those that ended within the last hour without a request.
    pub sessions: Vec<Described>,
}

/// Result of an interrupt.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Interrupted {
    /// Whether a cell ran and ended.
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
    /// Files that it returned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<Returned>,
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
        packages: session.packages.clone(),
        idle_s: session.idle().as_secs(),
        lost: ended.as_ref().and_then(|_| session.lost()),
        why: ended.map(|ended| ended.why.clone()),
        receipt: None,
    }
}

fn described_gone(gone: Gone) -> Described {
    Described {
        idle_s: gone.idle().as_secs(),
        session_id: gone.id,
        language: gone.language.name().to_owned(),
        state: "ended".to_owned(),
        cells: gone.cells,
        packages: gone.packages,
        why: Some(gone.why),
        lost: gone.lost,
        receipt: None,
    }
}

/// URI of the receipt of the session that a handle has, or, with `before`, had so many resets ago; `None` where none was made.
fn receipt_of(live: &Live, caller: &Caller, id: &str, before: usize) -> Option<String> {
    let receipts = live.sessions().receipts(caller);
    let (_, receipts) = receipts.iter().find(|(session, _)| session == id)?;
    let number = receipts.len().checked_sub(before)?;
    receipts.get(number.checked_sub(1)?)?.as_ref().map(|_| uri_of_session_receipt(id, number))
}

/// Answer with a link to a receipt.
fn with_receipt(mut result: CallToolResult, receipt: Option<String>, name: &str) -> CallToolResult {
    if let Some(uri) = receipt {
        let link = Resource::new(uri, format!("receipt of {name}")).with_mime_type("application/json");
        result.content.push(ContentBlock::resource_link(link));
    }
    result
}

pub async fn create(live: &Live, caller: &Caller, arguments: JsonObject, listener: &Listener) -> Answered {
    let asked: SessionCreate = parse(arguments)?;
    let language = Language::parse(&asked.language)
        .map_err(|why| ErrorReport::new(Code::UnknownName, why).field("language"))?;
    let (id, session) = live.session_create(caller, language, asked.image, &asked.packages).await?;
    if listener.is_gone().await {
        // The caller never gets its handle, and it would count towards the sessions that it may have.
        live.sessions().close(caller, &id).await?;
        return Err(ErrorReport::new(Code::Refused, "the call was cancelled; its session is closed"));
    }
    let idle = format_duration(live.sessions().bounds().idle);
    let mut words = format!(
        "a session of {}: session_id {id}; it lasts until session_close, {idle} without a cell, or the end of this server",
        language.name()
    );
    if !session.packages.is_empty() {
        words.push_str(&format!("\npackages: {}", printable(&session.packages.join(" "))));
    }
    Ok(answered(&described(&id, &session), words))
}

pub async fn execute(live: &Live, caller: &Caller, arguments: JsonObject, listener: &Listener) -> Answered {
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
    let cell = Cell { code: asked.code, timeout, outputs: patterns(&asked.outputs)? };
    // On its own: a call that is cancelled interrupts its cell, and must not leave half of its result to the next one.
    let withdrawn = CancellationToken::new();
    let _at_the_end = withdrawn.clone().drop_guard();
    let token = withdrawn.clone();
    let mut executing = tokio::spawn(async move { session.execute_unless(cell, token.cancelled()).await });
    let answer = tokio::select! {
        answer = &mut executing => answer,
        () = listener.gone() => {
            withdrawn.cancel();
            executing.await
        }
    };
    let answer = answer
        .map_err(|error| ErrorReport::new(Code::Internal, format!("the cell was not followed: {error}")))?;
    let mut answer = answer;
    let (own, unread) = (live.clone(), std::mem::take(&mut answer.images));
    let checking = move || unread.iter().map(|picture| checked(own.engine(), picture)).collect::<Vec<_>>();
    let pictures = tokio::task::spawn_blocking(checking)
        .await
        .map_err(|error| ErrorReport::new(Code::Internal, format!("the pictures were not read: {error}")))?;
    Ok(told(asked.session_id, &answer, pictures))
}

pub async fn upload(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let SessionUpload { session_id, path, content, base64, append } = parse(arguments)?;
    let session = live.sessions().get(caller, &session_id)?;
    let bytes = bytes_of("", content, base64)?;
    let bytes = session.put(&path, &bytes, append).await?;
    let words = format!("{} has {}", printable(&path), counted(bytes, "byte"));
    Ok(answered(&Uploaded { path, bytes }, words))
}

pub async fn interrupt(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: SessionNamed = parse(arguments)?;
    let session = live.sessions().get(caller, &asked.session_id)?;
    let (interrupted, words) = match session.interrupt_and_wait(INTERRUPT_TIMEOUT).await {
        InterruptResult::Stopped => (true, "interrupted; its variables stay"),
        InterruptResult::Ignored => {
            (false, "the cell was asked to stop and still runs; session_reset ends it and its variables")
        }
        InterruptResult::Idle => (false, "no cell runs"),
    };
    Ok(answered(&Interrupted { interrupted }, words))
}

pub async fn reset(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: SessionNamed = parse(arguments)?;
    let session = live.session_reset(caller, &asked.session_id).await?;
    // The receipt is of the interpreter before.
    let receipt = receipt_of(live, caller, &asked.session_id, 1);
    let new = Described { receipt: receipt.clone(), ..described(&asked.session_id, &session) };
    let answer = answered(&new, "a new interpreter, empty, under the same session_id");
    Ok(with_receipt(answer, receipt, &asked.session_id))
}

pub fn list(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let _: super::input::Nothing = parse(arguments)?;
    let all = live.sessions().list(caller);
    let live_ones = all.iter().map(|(id, session)| described(id, session));
    let sessions = live_ones.chain(live.sessions().gone(caller).into_iter().map(described_gone));
    let sessions: Vec<_> = sessions
        .map(|one| Described { receipt: receipt_of(live, caller, &one.session_id, 0), ..one })
        .collect();
    let line = |one: &Described| {
        let why = one.why.as_deref().map(|why| format!(": {}", printable(why))).unwrap_or_default();
        let lost = one.lost.as_deref().map(|lost| format!("; lost: {lost}")).unwrap_or_default();
        format!(
            "{} {} {}, {}{why}{lost}\n",
            one.session_id,
            one.language,
            one.state,
            counted(one.cells, "cell")
        )
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
    (closed.state, closed.why, closed.lost) = ("closed".to_owned(), None, None);
    closed.receipt = receipt_of(live, caller, &asked.session_id, 0);
    let mut words = "closed; its variables and files are gone".to_owned();
    if let Some(uri) = &closed.receipt {
        words.push_str(&format!("\nreceipt: {uri}"));
    }
    let receipt = closed.receipt.clone();
    Ok(with_receipt(answered(&closed, words), receipt, &asked.session_id))
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

fn told(session_id: String, answer: &Answer, checked: Vec<Result<Vec<u8>, String>>) -> CallToolResult {
    let result = &answer.result;
    let returned = |file: &CellFile| Returned {
        path: file.path.clone(),
        bytes: file.bytes.len(),
        uri: uri_of_session_file(&session_id, &file.path),
    };
    let files: Vec<Returned> = answer.files.iter().map(returned).collect();
    let executed = Executed {
        session_id,
        result: CellResult {
            value: result.value.as_deref().map(cut),
            error: result.error.as_deref().map(cut),
            ..result.clone()
        },
        stdout: printed(&answer.stdout),
        stderr: printed(&answer.stderr),
        images: checked.iter().flatten().count(),
        files,
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
    let (mut pictures, mut links) = (Vec::new(), Vec::new());
    for (at, image) in checked.into_iter().enumerate() {
        let name = format!("picture {}", at + 1);
        let shown = image.and_then(|image| {
            let picture = may_be_shown(&name, image.len() as u64, &image).map_err(|report| report.message)?;
            let data = base64::engine::general_purpose::STANDARD.encode(&image);
            Ok(ContentBlock::image(data, picture.kind))
        });
        match shown {
            Ok(block) => pictures.push(block),
            Err(why) => words.push_str(&format!("{name} is not shown: {}\n", printable(&why))),
        }
    }
    for file in executed.files.iter().take(MAX_LINKS) {
        let name = printable(&file.path);
        words.push_str(&format!("returned: {name}, {}\n", counted(file.bytes, "byte")));
        links.push(ContentBlock::resource_link(
            Resource::new(file.uri.clone(), name).with_size(file.bytes as u64),
        ));
    }
    for left in &answer.left {
        words.push_str(&format!("not returned: {}: {}\n", printable(&left.path), printable(&left.why)));
    }
    let mut result = answered(&json!(executed), words);
    result.content.extend(links);
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
