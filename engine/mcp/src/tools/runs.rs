//! Tools that start runs, and tools that monitor them.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base64::Engine as _;
use hotcell_egress::AllowList;
use hotcell_review::approvals::RequestStatus;
use hotcell_server::jobs::returned::patterns;
use hotcell_server::limits::out_of_range;
use hotcell_server::network_requests::{Approved, NamedSecret, hosts, secrets, sorted};
use hotcell_server::workspaces::NewFile;
use hotcell_server::{Caller, CommandRequest, Live, Order, Phase, Requested, Run, RunDir, TestsRequest};
use hotcell_state::report::{Code, ErrorReport};
use hotcell_verbs::ChangePolicy;
use hotcell_verbs::request::Language;
use rmcp::model::{CallToolResult, JsonObject};
use serde_json::Value;

use crate::answer::{Detail, of_run, packages, speaks_of_hosts};
use crate::approvals::refusal;
use crate::tasks::remembered;
use crate::text::{barred, beginning, utf8_beginning};
use crate::wait::{Listener, beside, for_the_end};

use super::{answered, blocking, input, normal, one_of, output, parse};

/// Maximum size of output in one answer, in bytes.
const MAX_OUTPUT_BYTES: usize = 16_000;
/// Time for a cancelled run to end before the answer.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(3);

type Answered = Result<CallToolResult, ErrorReport>;

pub async fn code(live: &Live, caller: &Caller, arguments: JsonObject, listener: &Listener) -> Answered {
    let arguments = normal::<input::RunCode>(arguments)?;
    let content = content(arguments.get("idempotency_key").is_some(), "run_code", &arguments);
    let call = sent(&arguments);
    let asked: input::RunCode = parse(arguments)?;
    let waits = Waits::of(live, &asked.run)?;
    let hosts = hosts(&asked.run.network, &live.configuration().hosts())?;
    let secrets = secrets(&asked.run.network, &live.configuration().user.run.secrets)?;
    stays_here(live, None, hosts.is_some() || !secrets.is_empty(), asked.run.image.is_some())?;
    let language = Language::from(asked.language);
    let mut files = input::files(asked.files)?;
    let code = asked.code.into_bytes();
    let name = language.file_name(&code);
    if files.iter().any(|file| file.path == name && file.bytes != code) {
        let why = format!("{name} is the name that code itself gets, and files gives another text for it");
        return Err(ErrorReport::new(Code::InvalidValue, why)
            .field("files")
            .hint("give that file another name"));
    }
    files.retain(|f| f.path != name);
    let paths: Vec<String> = files.iter().map(|f| f.path.clone()).collect();
    let imports = packages::imported(language, &String::from_utf8_lossy(&code), &paths);
    files.push(NewFile { path: name.clone(), bytes: code.clone(), executable: false });
    let workspace = {
        let live = live.clone();
        blocking(move || live.workspaces().temporary(&files).map(RunDir::Temporary)).await?
    };
    let mut request = CommandRequest::of_source(language, (name, code.clone()), asked.args, workspace);
    (request.stdin, request.limits, request.image) =
        (asked.stdin.into_bytes(), asked.run.limits, asked.run.image);
    request.outputs = patterns(&asked.run.outputs)?;
    let may_fetch = speaks_of_hosts(&String::from_utf8_lossy(&code));
    let ask =
        Ask { tool: "run_code", hosts, secrets, call, workspace_id: None, may_fetch, imports, scratch: true };
    start(live, caller, request, (asked.run.idempotency_key, content), waits, listener, ask).await
}

pub async fn command(live: &Live, caller: &Caller, arguments: JsonObject, listener: &Listener) -> Answered {
    let arguments = normal::<input::RunCommand>(arguments)?;
    let content = content(arguments.get("idempotency_key").is_some(), "run_command", &arguments);
    let call = sent(&arguments);
    let asked: input::RunCommand = parse(arguments)?;
    let waits = Waits::of(live, &asked.run)?;
    let hosts = hosts(&asked.run.network, &live.configuration().hosts())?;
    let secrets = secrets(&asked.run.network, &live.configuration().user.run.secrets)?;
    let keep = kept(asked.keep, asked.diff, asked.workspace_id.as_deref())?;
    let (id, reaches) = (asked.workspace_id.as_deref(), hosts.is_some() || !secrets.is_empty());
    stays_here(live, id, reaches, asked.run.image.is_some())?;
    let workspace = match asked.workspace_id.clone() {
        Some(id) => {
            let (held, owner) = (live.clone(), caller.clone());
            Some(blocking(move || pinned(&held, &owner, &id)).await?)
        }
        None => None,
    };
    let request = CommandRequest {
        source: None,
        image: asked.run.image,
        argv: asked.argv,
        workspace,
        keep,
        env: asked.env.into_iter().collect(),
        stdin: asked.stdin.into_bytes(),
        limits: asked.run.limits,
        network: None,
        secrets: Vec::new(),
        outputs: patterns(&asked.run.outputs)?,
        terminal: None,
        approved: None,
    };
    let may_fetch = speaks_of_hosts(&request.argv.join(" "));
    let workspace_id = asked.workspace_id;
    let ask = Ask {
        tool: "run_command",
        hosts,
        secrets,
        call,
        workspace_id,
        may_fetch,
        imports: Vec::new(),
        scratch: false,
    };
    start(live, caller, request, (asked.run.idempotency_key, content), waits, listener, ask).await
}

pub async fn tests(live: &Live, caller: &Caller, arguments: JsonObject, listener: &Listener) -> Answered {
    let arguments = normal::<input::RunTests>(arguments)?;
    let content = content(arguments.get("idempotency_key").is_some(), "run_tests", &arguments);
    let call = sent(&arguments);
    let asked: input::RunTests = parse(arguments)?;
    let waits = Waits::of(live, &asked.run)?;
    let hosts = hosts(&asked.run.network, &live.configuration().hosts())?;
    let secrets = secrets(&asked.run.network, &live.configuration().user.run.secrets)?;
    let outputs = patterns(&asked.run.outputs)?;
    let files = input::files(asked.files)?;
    if asked.workspace_id.is_some() != files.is_empty() {
        return Err(one_of("workspace_id", "files"));
    }
    let keep = kept(asked.keep, asked.diff, asked.workspace_id.as_deref())?;
    let reaches = hosts.is_some() || !secrets.is_empty();
    stays_here(live, asked.workspace_id.as_deref(), reaches, asked.run.image.is_some())?;
    let (held, owner, key) = (live.clone(), caller.clone(), asked.run.idempotency_key);
    let named = hosts.as_ref().map(ToString::to_string);
    let (at, id) = (live.clone(), asked.workspace_id.clone());
    let of = caller.clone();
    let workspace = blocking(move || match &id {
        Some(id) => pinned(&at, &of, id),
        None => at.workspaces().temporary(&files).map(RunDir::Temporary),
    });
    let workspace = workspace.await?;
    let has_secrets = !secrets.is_empty();
    let ask = Ask {
        tool: "run_tests",
        hosts,
        secrets,
        call,
        workspace_id: asked.workspace_id,
        may_fetch: false,
        imports: Vec::new(),
        scratch: false,
    };
    let approved = ask.approved(Some(&workspace));
    // Values of secrets are read when the work is made, so a person is asked before.
    if has_secrets
        && let Some(standing) = pending(live, caller, approved.clone(), key.as_deref(), &content).await?
    {
        return Ok(refusal(&standing));
    }
    let work = blocking(move || {
        let request = TestsRequest {
            workspace,
            keep,
            framework: asked.framework,
            filter: asked.filter,
            coverage: asked.coverage,
            image: asked.run.image,
            limits: asked.run.limits,
            outputs,
            approved: approved.clone(),
        };
        let prepared = request.into_work(&held, &owner)?;
        Ok((prepared.work, approved.filter(|_| !prepared.is_answered && !has_secrets)))
    });
    let (work, approved) = work.await?;
    if let Some(standing) = pending(live, caller, approved, key.as_deref(), &content).await? {
        return Ok(refusal(&standing));
    }
    let command = vec!["run_tests".to_owned()];
    let request = Requested { hosts: named, most: live.most(true), ..Requested::default() };
    let run = live.start(
        caller,
        Order { command, key, lane: listener.lane(), content, request, beside: false, work },
    )?;
    Ok(follow(live, &run, waits, listener).await)
}

/// Refuses a call that cannot be sent to the farm, where the operator's configuration sends runs to one.
fn stays_here(live: &Live, workspace: Option<&str>, reaches: bool, image: bool) -> Result<(), ErrorReport> {
    if !live.sends() {
        return Ok(());
    }
    let rows = [
        (
            workspace.is_some(),
            "workspace_id",
            "a stored workspace stays on this machine; give the files with the call",
        ),
        (reaches, "network", "a run that may be run twice has no network and no secrets"),
        (image, "image", "the operator of its workers chooses their image"),
    ];
    match rows.into_iter().find(|(given, ..)| *given) {
        Some((_, field, why)) => {
            let why = format!("this server sends runs to a farm, and {field} cannot go there: {why}");
            Err(ErrorReport::new(Code::InvalidValue, why).field(field))
        }
        None => Ok(()),
    }
}

/// Whether and how the changes are kept.
pub(super) fn kept(keep: bool, diff: bool, workspace: Option<&str>) -> Result<ChangePolicy, ErrorReport> {
    for (asked, field) in [(keep, "keep"), (diff, "diff")] {
        if asked && workspace.is_none() {
            let why = format!("{field} needs workspace_id: what is given for one call is gone when it ends");
            return Err(ErrorReport::new(Code::InvalidValue, why).field(field));
        }
    }
    Ok(ChangePolicy { stay: keep, diff, ..ChangePolicy::default() })
}

/// Present state of a caller's workspace. Blocks.
pub(super) fn pinned(live: &Live, caller: &Caller, id: &str) -> Result<RunDir, ErrorReport> {
    live.workspaces().get(caller, id)?.kept().map(RunDir::Pinned)
}

/// The request's content, when it has an idempotency key and will be compared.
fn content(keyed: bool, tool: &str, arguments: &JsonObject) -> Vec<u8> {
    // An equal call may name its arguments in another order.
    let all = || sorted(&Value::Object(arguments.clone()));
    if keyed { format!("{tool} {}", all()).into_bytes() } else { Vec::new() }
}

pub(super) fn patience(wait_ms: u64) -> Result<Duration, ErrorReport> {
    if wait_ms > input::MAX_WAIT_MS {
        return Err(out_of_range("wait_ms", wait_ms, 0, input::MAX_WAIT_MS));
    }
    Ok(Duration::from_millis(wait_ms))
}

/// Wait time of a call, and detail of its answer.
#[derive(Clone, Copy)]
struct Waits {
    patience: Duration,
    detail: Detail,
}

impl Waits {
    /// Values of the caller, or the operator's defaults.
    fn of(live: &Live, asked: &input::RunArguments) -> Result<Self, ErrorReport> {
        let patience = match asked.wait_ms {
            Some(asked) => patience(asked)?,
            None => live.configuration().default_wait(),
        };
        Ok(Self { patience, detail: Detail::of(asked.verbose) })
    }
}

/// Requested hosts of a call, and its other content.
struct Ask {
    tool: &'static str,
    hosts: Option<AllowList>,
    /// Requested secrets.
    secrets: Vec<NamedSecret>,
    call: Value,
    workspace_id: Option<String>,
    /// Whether its content mentions hosts.
    may_fetch: bool,
    /// Packages that its source imports.
    imports: Vec<String>,
    /// Whether its folder is removed at its end.
    scratch: bool,
}

impl Ask {
    /// The request that a user has to approve, and which is then enforced; `None` when it names no hosts.
    fn approved(self, workspace: Option<&RunDir>) -> Option<Arc<Approved>> {
        let place = self.workspace_id.zip(workspace.cloned());
        let (tool, call, secrets) = (self.tool, self.call, self.secrets);
        self.hosts.map(|hosts| Arc::new(Approved { tool, hosts, secrets, call, place, ask: OnceLock::new() }))
    }
}

/// The approval that a call still needs; `None` when none is required, when it was given, or when the run has
/// already started.
async fn pending(
    live: &Live,
    caller: &Caller,
    approved: Option<Arc<Approved>>,
    key: Option<&str>,
    content: &[u8],
) -> Result<Option<RequestStatus>, ErrorReport> {
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
        // Checked again when the run begins, since it may have to wait in the queue.
        let _ = approved.ask.set(what.ask());
        Ok(None)
    });
    standing.await
}

/// All arguments of a call that names hosts, to be shown to the user who approves it.
fn sent(arguments: &JsonObject) -> Value {
    if arguments.contains_key("network") { sorted(&Value::Object(arguments.clone())) } else { Value::Null }
}

async fn start(
    live: &Live,
    caller: &Caller,
    mut request: CommandRequest,
    (key, content): (Option<String>, Vec<u8>),
    waits: Waits,
    listener: &Listener,
    ask: Ask,
) -> Answered {
    let command = request.typed();
    request.network.clone_from(&ask.hosts);
    request.secrets = ask.secrets.iter().map(|secret| secret.name.clone()).collect();
    let requested = Requested {
        hosts: ask.hosts.as_ref().map(ToString::to_string),
        may_fetch: ask.may_fetch,
        most: live.most(false),
        imports: ask.imports.clone(),
        scratch: ask.scratch,
        operator: request.operator(),
    };
    let approved = ask.approved(request.workspace.as_ref());
    request.approved.clone_from(&approved);
    // A call that cannot run is rejected before an approval is requested.
    let work = request.into_work(live, caller)?;
    if let Some(standing) = pending(live, caller, approved, key.as_deref(), &content).await? {
        return Ok(refusal(&standing));
    }
    let order =
        Order { command, key, lane: listener.lane(), content, request: requested, beside: false, work };
    let run = live.start(caller, order)?;
    Ok(follow(live, &run, waits, listener).await)
}

/// Starts a program with a terminal, beside the queue, or answers with the approval that it needs first.
pub(super) async fn start_terminal(
    live: &Live,
    caller: &Caller,
    arguments: &JsonObject,
    mut request: CommandRequest,
    (network, workspace_id): (&[String], Option<String>),
    listener: &Listener,
) -> Result<Result<Arc<Run>, CallToolResult>, ErrorReport> {
    if !secrets(network, &live.configuration().user.run.secrets)?.is_empty() {
        let why = "secrets are for run_code and run_command; a terminal gets none";
        return Err(ErrorReport::new(Code::InvalidValue, why).field("network"));
    }
    let hosts = hosts(network, &live.configuration().hosts())?;
    let may_fetch = speaks_of_hosts(&request.argv.join(" "));
    let command = request.typed();
    request.network.clone_from(&hosts);
    let requested = Requested {
        hosts: hosts.as_ref().map(ToString::to_string),
        may_fetch,
        most: live.most(false),
        ..Requested::default()
    };
    let ask = Ask {
        tool: "terminal_start",
        hosts,
        secrets: Vec::new(),
        call: sent(arguments),
        workspace_id,
        may_fetch,
        imports: Vec::new(),
        scratch: false,
    };
    let approved = ask.approved(request.workspace.as_ref());
    request.approved.clone_from(&approved);
    let work = request.into_work(live, caller)?;
    if let Some(standing) = pending(live, caller, approved, None, &[]).await? {
        return Ok(Err(refusal(&standing)));
    }
    let order = Order {
        command,
        key: None,
        lane: listener.lane(),
        content: Vec::new(),
        request: requested,
        beside: true,
        work,
    };
    live.start(caller, order).map(Ok)
}

async fn follow(live: &Live, run: &Arc<Run>, waits: Waits, listener: &Listener) -> CallToolResult {
    for_the_end(live, run, listener, waits.patience).await;
    of_run(live, run, waits.detail)
}

pub async fn status(live: &Live, caller: &Caller, arguments: JsonObject, listener: &Listener) -> Answered {
    let asked: input::RunStatus = parse(arguments)?;
    let patience = patience(asked.wait_ms)?;
    let detail = Detail::of(asked.verbose);
    let run = match live.run(caller, &asked.run_id) {
        Ok(run) => run,
        // A task remembers the results of a server that has ended.
        Err(report) => return remembered(live, caller, &asked.run_id).await.ok_or(report),
    };
    beside(live, &run, listener, patience).await;
    Ok(of_run(live, &run, detail))
}

pub async fn cancel(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: input::RunCancel = parse(arguments)?;
    let run = match live.run(caller, &asked.run_id) {
        Ok(run) => run,
        // With a server that has ended its runs have ended: as with one of this server's that has, its answer is given.
        Err(report) => return remembered(live, caller, &asked.run_id).await.ok_or(report),
    };
    live.cancel(&run);
    let _ = tokio::time::timeout(CANCEL_TIMEOUT, run.ended()).await;
    Ok(of_run(live, &run, Detail::News))
}

pub async fn output(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: input::RunOutput = parse(arguments)?;
    let stream: hotcell_server::Stream = asked.stream.into();
    let (piece, bytes, ended) = match live.run(caller, &asked.run_id) {
        Ok(run) => {
            // Reads the state before the bytes: a run that has ended prints no more.
            let state = run.state();
            let piece = run.read(stream, asked.offset, MAX_OUTPUT_BYTES);
            (piece, run.state().printed[stream as usize], state.phase == Phase::Finished)
        }
        // Left by a server that has ended.
        Err(report) => {
            let (live, caller, id) = (live.clone(), caller.clone(), asked.run_id.clone());
            let left = blocking(move || {
                crate::left_results::output(&live, &caller, &id, stream, asked.offset, MAX_OUTPUT_BYTES)
                    .ok_or(report)
            });
            let (piece, bytes) = left.await?;
            (piece, bytes, true)
        }
    };
    let (text, base64, taken) = as_text(&piece.bytes);
    let gap = piece.next - piece.offset - piece.bytes.len() as u64;
    let next_offset = piece.offset + taken as u64 + if taken == piece.bytes.len() { gap } else { 0 };
    let read = output::Read {
        run_id: asked.run_id,
        stream: stream.name().to_owned(),
        offset: piece.offset,
        next_offset,
        bytes,
        end: ended && next_offset >= bytes,
        text,
        base64,
    };
    let words = format!(
        "{} bytes {} to {} of {bytes}{}{}",
        read.stream,
        read.offset,
        read.offset + taken as u64,
        if read.end { ", the end".to_owned() } else { format!("; read on from offset {next_offset}") },
        if read.base64.is_some() { "; in base64, because it is not text" } else { "" }
    );
    let words = with_piece(words, read.text.as_deref().or(read.base64.as_deref()));
    Ok(answered(&read, words))
}

/// Appends a piece of text to the words about it, behind bars: several clients show a model only the first
/// block.
pub(super) fn with_piece(words: String, piece: Option<&str>) -> String {
    match piece.filter(|piece| !piece.is_empty()) {
        Some(piece) => format!("{words}\n{}", barred(piece)),
        None => words,
    }
}

/// Bytes as text up to an incomplete character, or as base64, within the budget; and the number of bytes
/// used.
pub(super) fn as_text(bytes: &[u8]) -> (Option<String>, Option<String>, usize) {
    match utf8_beginning(bytes) {
        Some(text) if !text.is_empty() || bytes.is_empty() => {
            let text = &text[..beginning(text, MAX_OUTPUT_BYTES)];
            (Some(text.to_owned()), None, text.len())
        }
        _ => {
            let bytes = &bytes[..bytes.len().min(MAX_OUTPUT_BYTES / 4 * 3)];
            (None, Some(base64::engine::general_purpose::STANDARD.encode(bytes)), bytes.len())
        }
    }
}
