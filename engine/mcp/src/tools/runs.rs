//! Tools that run something, and those that look after what runs.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base64::Engine as _;
use hotcell_egress::AllowList;
use hotcell_service::Keep;
use hotcell_service::approvals::Standing;
use hotcell_service::live::asked::out_of_range;
use hotcell_service::live::asking::{Approved, hosts};
use hotcell_service::live::workspaces::NewFile;
use hotcell_service::live::{Caller, CommandRequest, Live, Order, Phase, Place, Run, TestsRequest};
use hotcell_service::report::{Code, ErrorReport};
use hotcell_service::request::Language;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use serde_json::Value;

use super::{answered, blocking, input, one_of, output, parse};
use crate::answer::of_run;
use crate::approvals::refusal;
use crate::tasks::remembered;
use crate::text::{barred, beginning, utf8_beginning};
use crate::wait::{Listener, beside, for_the_end};

/// Bytes of output in one answer.
const PIECE: usize = 16_000;
/// How long a cancelled run may take to end before the answer.
const END: Duration = Duration::from_secs(3);

type Answered = Result<CallToolResult, ErrorReport>;

pub async fn code(live: &Live, caller: &Caller, arguments: JsonObject, listener: &Listener) -> Answered {
    let content = content(arguments.get("idempotency_key").is_some(), "run_code", &arguments);
    let call = sent(&arguments);
    let asked: input::RunCode = parse(arguments)?;
    let patience = patience(asked.wait_ms)?;
    let hosts = hosts(&asked.network, &live.configuration().hosts())?;
    let language = Language::from(asked.language);
    let mut files = input::files(asked.files)?;
    let code = asked.code.into_bytes();
    let name = language.file_name(&code);
    files.retain(|f| f.path != name);
    files.push(NewFile { path: name.clone(), bytes: code.clone(), executable: false });
    let workspace = {
        let live = live.clone();
        blocking(move || live.workspaces().temporary(&files).map(Place::Temporary)).await?
    };
    let mut request = CommandRequest::of_source(language, (name, code), asked.args, workspace);
    (request.stdin, request.limits, request.image) = (asked.stdin.into_bytes(), asked.limits, asked.image);
    let ask = Ask { tool: "run_code", hosts, call, workspace_id: None };
    start(live, caller, request, (asked.idempotency_key, content), patience, listener, ask).await
}

pub async fn command(live: &Live, caller: &Caller, arguments: JsonObject, listener: &Listener) -> Answered {
    let content = content(arguments.get("idempotency_key").is_some(), "run_command", &arguments);
    let call = sent(&arguments);
    let asked: input::RunCommand = parse(arguments)?;
    let patience = patience(asked.wait_ms)?;
    let hosts = hosts(&asked.network, &live.configuration().hosts())?;
    let keep = kept(asked.keep, asked.diff, asked.workspace_id.as_deref())?;
    let workspace = match asked.workspace_id.clone() {
        Some(id) => {
            let (held, owner) = (live.clone(), caller.clone());
            Some(blocking(move || pinned(&held, &owner, &id)).await?)
        }
        None => None,
    };
    let request = CommandRequest {
        source: None,
        image: asked.image,
        argv: asked.argv,
        workspace,
        keep,
        env: asked.env.into_iter().collect(),
        stdin: asked.stdin.into_bytes(),
        limits: asked.limits,
        network: None,
        approved: None,
    };
    let ask = Ask { tool: "run_command", hosts, call, workspace_id: asked.workspace_id };
    start(live, caller, request, (asked.idempotency_key, content), patience, listener, ask).await
}

pub async fn tests(live: &Live, caller: &Caller, arguments: JsonObject, listener: &Listener) -> Answered {
    let content = content(arguments.get("idempotency_key").is_some(), "run_tests", &arguments);
    let call = sent(&arguments);
    let asked: input::RunTests = parse(arguments)?;
    let patience = patience(asked.wait_ms)?;
    let hosts = hosts(&asked.network, &live.configuration().hosts())?;
    let files = input::files(asked.files)?;
    if asked.workspace_id.is_some() != files.is_empty() {
        return Err(one_of("workspace_id", "files"));
    }
    let keep = kept(asked.keep, asked.diff, asked.workspace_id.as_deref())?;
    let (held, owner, key) = (live.clone(), caller.clone(), asked.idempotency_key);
    let work = blocking(move || {
        let workspace = match &asked.workspace_id {
            Some(id) => pinned(&held, &owner, id)?,
            None => Place::Temporary(held.workspaces().temporary(&files)?),
        };
        let ask = Ask { tool: "run_tests", hosts, call, workspace_id: asked.workspace_id };
        let approved = ask.approved(Some(&workspace));
        let request = TestsRequest {
            workspace,
            keep,
            framework: asked.framework,
            filter: asked.filter,
            coverage: asked.coverage,
            image: asked.image,
            limits: asked.limits,
            approved: approved.clone(),
        };
        let prepared = request.into_work(&held, &owner)?;
        Ok((prepared.work, approved.filter(|_| !prepared.is_answered)))
    });
    let (work, approved) = work.await?;
    if let Some(standing) = pending(live, caller, approved, key.as_deref(), &content).await? {
        return Ok(refusal(&standing));
    }
    let command = vec!["run_tests".to_owned()];
    let run = live.start(caller, Order { command, key, lane: listener.lane(), content, work })?;
    Ok(follow(live, &run, patience, listener).await)
}

/// What becomes of the changes.
fn kept(keep: bool, diff: bool, workspace: Option<&str>) -> Result<Keep, ErrorReport> {
    for (asked, field) in [(keep, "keep"), (diff, "diff")] {
        if asked && workspace.is_none() {
            let why = format!("{field} needs workspace_id: what is given for one call is gone when it ends");
            return Err(ErrorReport::new(Code::InvalidValue, why).field(field));
        }
    }
    Ok(Keep { stay: keep, diff, ..Keep::default() })
}

/// A caller's workspace as it is now. Blocks.
fn pinned(live: &Live, caller: &Caller, id: &str) -> Result<Place, ErrorReport> {
    live.workspaces().get(caller, id)?.kept().map(Place::Kept)
}

/// All that was asked for, where it will be compared.
fn content(keyed: bool, tool: &str, arguments: &JsonObject) -> Vec<u8> {
    if keyed { format!("{tool} {}", serde_json::json!(arguments)).into_bytes() } else { Vec::new() }
}

fn patience(wait_ms: u64) -> Result<Duration, ErrorReport> {
    if wait_ms > input::LONGEST_WAIT_MS {
        return Err(out_of_range("wait_ms", wait_ms, 0, input::LONGEST_WAIT_MS));
    }
    Ok(Duration::from_millis(wait_ms))
}

/// Hosts that a call names, and what else it says.
struct Ask {
    tool: &'static str,
    hosts: Option<AllowList>,
    call: Value,
    workspace_id: Option<String>,
}

impl Ask {
    /// What a person has to approve, and is held to; none where it names no hosts.
    fn approved(self, workspace: Option<&Place>) -> Option<Arc<Approved>> {
        let place = self.workspace_id.zip(workspace.cloned());
        let (tool, call) = (self.tool, self.call);
        self.hosts.map(|hosts| Arc::new(Approved { tool, hosts, call, place, ask: OnceLock::new() }))
    }
}

/// What stands between a call and its start: nothing where nobody has to be asked, somebody said yes, or it has started before.
async fn pending(
    live: &Live,
    caller: &Caller,
    approved: Option<Arc<Approved>>,
    key: Option<&str>,
    content: &[u8],
) -> Result<Option<Standing>, ErrorReport> {
    let Some(approved) = approved else { return Ok(None) };
    if live.again(caller, key, content)?.is_some() {
        return Ok(None);
    }
    let desk = live.approvals(caller)?;
    let standing = blocking(move || {
        let what = approved.what()?;
        if desk.take(&what)?.is_none() {
            return desk.ask(&what, None).map(Some);
        }
        // Looked at again when it begins: it may have to wait for its turn.
        let _ = approved.ask.set(what.ask());
        Ok(None)
    });
    standing.await
}

/// The arguments of a call that names hosts: a person is shown all of them.
fn sent(arguments: &JsonObject) -> Value {
    if arguments.contains_key("network") { Value::Object(arguments.clone()) } else { Value::Null }
}

async fn start(
    live: &Live,
    caller: &Caller,
    mut request: CommandRequest,
    (key, content): (Option<String>, Vec<u8>),
    patience: Duration,
    listener: &Listener,
    ask: Ask,
) -> Answered {
    let command = request.typed();
    request.network.clone_from(&ask.hosts);
    let approved = ask.approved(request.workspace.as_ref());
    request.approved.clone_from(&approved);
    // What cannot run is not asked for.
    let work = request.into_work(live, caller)?;
    if let Some(standing) = pending(live, caller, approved, key.as_deref(), &content).await? {
        return Ok(refusal(&standing));
    }
    let run = live.start(caller, Order { command, key, lane: listener.lane(), content, work })?;
    Ok(follow(live, &run, patience, listener).await)
}

async fn follow(live: &Live, run: &Arc<Run>, patience: Duration, listener: &Listener) -> CallToolResult {
    for_the_end(live, run, listener, patience).await;
    of_run(live, run)
}

pub async fn status(live: &Live, caller: &Caller, arguments: JsonObject, listener: &Listener) -> Answered {
    let asked: input::RunStatus = parse(arguments)?;
    let patience = patience(asked.wait_ms)?;
    let run = match live.run(caller, &asked.run_id) {
        Ok(run) => run,
        // A task remembers what a server did that has ended.
        Err(report) => return remembered(live, caller, &asked.run_id).await.ok_or(report),
    };
    beside(live, &run, listener, patience).await;
    Ok(of_run(live, &run))
}

pub async fn cancel(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: input::RunCancel = parse(arguments)?;
    let run = live.run(caller, &asked.run_id)?;
    live.cancel(&run);
    let _ = tokio::time::timeout(END, run.ended()).await;
    Ok(of_run(live, &run))
}

pub fn output(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: input::RunOutput = parse(arguments)?;
    let run = live.run(caller, &asked.run_id)?;
    // The phase before the bytes: what has ended prints no more.
    let state = run.state();
    let stream = asked.stream.into();
    let piece = run.read(stream, asked.offset, PIECE);
    let bytes = run.state().printed[stream as usize];
    let (text, base64, taken) = as_text(&piece.bytes);
    let gap = piece.next - piece.offset - piece.bytes.len() as u64;
    let next_offset = piece.offset + taken as u64 + if taken == piece.bytes.len() { gap } else { 0 };
    let read = output::Read {
        run_id: run.id.clone(),
        stream: stream.name().to_owned(),
        offset: piece.offset,
        next_offset,
        bytes,
        end: state.phase == Phase::Finished && next_offset >= bytes,
        text,
        base64,
    };
    let words = format!(
        "{} bytes {} to {} of {bytes}{}",
        read.stream,
        read.offset,
        read.offset + taken as u64,
        if read.end { ", the end" } else { "" }
    );
    Ok(with_piece(answered(&read, words), read.text.as_deref().map(barred)))
}

/// Adds a piece of text as a block of its own, for clients that show no structured content.
pub(super) fn with_piece(mut result: CallToolResult, piece: Option<String>) -> CallToolResult {
    result.content.extend(piece.filter(|p| !p.is_empty()).map(ContentBlock::text));
    result
}

/// Bytes as text up to a character that is cut, or else as they are, within the budget; and how many were taken.
pub(super) fn as_text(bytes: &[u8]) -> (Option<String>, Option<String>, usize) {
    match utf8_beginning(bytes) {
        Some(text) if !text.is_empty() || bytes.is_empty() => {
            let text = &text[..beginning(text, PIECE)];
            (Some(text.to_owned()), None, text.len())
        }
        _ => {
            let bytes = &bytes[..bytes.len().min(PIECE / 4 * 3)];
            (None, Some(base64::engine::general_purpose::STANDARD.encode(bytes)), bytes.len())
        }
    }
}
