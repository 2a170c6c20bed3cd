//! Tools of plugins, behind hotcell's own: what a component says of itself, and calls of its functions.

use std::sync::Arc;

use hotcell_service::live::asking::sorted;
use hotcell_service::live::{Caller, Live};
use hotcell_service::report::{Code, ErrorReport};
use hotcell_service::tools::{Asked, Caller as Tools, Plugins, Tool as PluginTool, Uncalled, Watch};
use hotcell_tools::{Answer, CallError, Capability};
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, MetaObject, Tool, ToolAnnotations};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::refused;
use crate::approvals;
use crate::wait::Listener;

/// The tools of all plugins, in the order of their names. What cannot be read is told in the log: hotcell's own tools work
/// without.
pub(crate) async fn all(live: &Live) -> Vec<Tool> {
    let Some(tools) = live.tools() else { return Vec::new() };
    let plugins = tools.plugins().clone();
    tokio::task::spawn_blocking(move || list(&plugins)).await.unwrap_or_default()
}

fn list(plugins: &Plugins) -> Vec<Tool> {
    match plugins.list() {
        Ok(list) => {
            let mut tools: Vec<Tool> = list.tools.iter().map(listed).collect();
            tools.sort_by(|a, b| a.name.cmp(&b.name));
            tools
        }
        Err(report) => {
            tracing::warn!("the tools of plugins cannot be listed: {report}");
            Vec::new()
        }
    }
}

/// A tool as a client sees it. Nothing says what its author claims it to do to the world, so no hint but one: whether it can reach
/// beyond this host.
fn listed(tool: &PluginTool) -> Tool {
    let object = |schema: &Value| Arc::new(schema.as_object().cloned().unwrap_or_default());
    let about = match tool.description.trim() {
        "" => format!("A tool of the plugin {}.", tool.plugin),
        said => said.to_owned(),
    };
    let reaches = tool.granted.iter().any(|capability| capability.starts_with("net="));
    Tool::new(tool.name.clone(), about, object(&tool.input_schema))
        .with_raw_output_schema(object(&tool.output_schema))
        .with_annotations(ToolAnnotations::with_title(tool.name.clone()).open_world(reaches))
}

/// Calls a tool of a plugin; `known` becomes whether one was found.
///
/// # Errors
/// The protocol's, for a tool that there is not.
pub(crate) async fn call(
    live: &Live,
    caller: &Caller,
    name: &str,
    arguments: JsonObject,
    listener: &Listener,
    known: &mut bool,
) -> Result<CallToolResult, ErrorData> {
    *known = false;
    let Some(tools) = live.tools() else { return Err(unknown(name, None)) };
    // The same call may name its arguments in another order.
    let arguments = sorted(&Value::Object(arguments)).to_string();
    let approvals = match live.approvals(caller) {
        Ok(approvals) => approvals,
        Err(report) => return Ok(refused(&report)),
    };
    let (watch, mut reported) = Watch::new();
    let cancel = CancellationToken::new();
    let called = tools.call_asking(&approvals, name, &arguments, cancel.clone(), Some(watch));
    let mut called = std::pin::pin!(called);
    let answered = tokio::select! {
        answered = &mut called => answered,
        () = listener.gone() => {
            cancel.cancel();
            called.await
        }
        () = listener.tell_tool(&mut reported) => called.await,
    };
    *known = !matches!(answered, Err(Uncalled::Report(_)));
    match answered {
        Ok(Asked { answer, standing }) => {
            let mut result = shown(name, &answer);
            if let Some(standing) = &standing {
                approvals::tell(&mut result, standing);
            }
            Ok(result)
        }
        Err(Uncalled::Report(report)) if report.code == Code::UnknownName => {
            Err(unknown(name, report.hint.as_deref()))
        }
        Err(Uncalled::Report(report)) => Ok(refused(&report)),
        Err(Uncalled::Call(error)) => Ok(refused(&failed(&error))),
    }
}

fn unknown(name: &str, hint: Option<&str>) -> ErrorData {
    let shown: String = name.chars().take(100).collect();
    let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
    ErrorData::invalid_params(format!("there is no tool of the name {shown:?}{hint}"), None)
}

fn failed(error: &CallError) -> ErrorReport {
    let report = |code| ErrorReport::new(code, error.to_string());
    match error {
        CallError::Arguments { at, .. } => {
            report(Code::InvalidValue).field(at).hint("see the tool's input schema")
        }
        // It names files of this host.
        CallError::Host { message } => {
            tracing::warn!(target: "hotcell_contents", "a tool could not be run: {message}");
            ErrorReport::new(Code::Internal, "the tool could not be run on this host; hotcell's log says why")
        }
        _ => report(Code::Internal),
    }
}

/// An answer as a model reads it: its one text as it is, else JSON.
fn shown(name: &str, answer: &Answer) -> CallToolResult {
    let value: Value = serde_json::from_str(answer.value.get()).unwrap_or_default();
    let alone = value.as_object().filter(|o| o.len() == 1).and_then(|o| o.values().next());
    let text = match alone {
        Some(Value::String(text)) => text.clone(),
        Some(alone) if answer.is_error => alone.to_string(),
        _ => answer.value.get().to_owned(),
    };
    let mut content = vec![ContentBlock::text(text)];
    // A tool host that was taken over can say anything here: only what is a capability goes into a command.
    let denied: Vec<&str> = answer.denied.iter().map(String::as_str).filter(|word| is_plain(word)).collect();
    if !denied.is_empty() {
        let plugin = name.split('_').next().unwrap_or_default();
        let denied = denied.join(" ");
        content.push(ContentBlock::text(format!(
            "it was denied {denied}; a person can grant that for good on the command line: hotcell tool grant {plugin} {denied}"
        )));
    }
    if answer.is_error {
        // What its output schema describes is an answer that is none.
        let mut result = CallToolResult::error(content);
        let mut meta = MetaObject::new();
        meta.0.insert("hotcell/tool_error".to_owned(), json!(value));
        result.meta = Some(meta);
        return result;
    }
    let mut result = CallToolResult::success(content);
    result.structured_content = Some(value);
    result
}

/// Whether a word is a capability that a shell takes as it is.
fn is_plain(word: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"=:/@._-[]".contains(&b);
    word.bytes().all(plain) && word.parse::<Capability>().is_ok()
}

/// Calls `told` each time that the list of tools has become another, as long as the future lives and somebody hears it.
pub(crate) async fn changes<F: Future<Output = bool>>(tools: Arc<Tools>, mut told: impl FnMut() -> F) {
    let mut changes = tools.changes();
    while changes.changed().await.is_ok() && told().await {}
}
