//! Verbs of agent definitions as tools, in a set that is off until the operator turns it on.

use std::sync::Arc;

use hotcell_definitions::{Cache, Catalog, Definition, Inputs, Means, Options, PluginTools, execute};
use hotcell_server::{Caller, Live};
use hotcell_state::report::{Code, ErrorReport, printable};
use hotcell_tools::Answer;
use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use serde_json::value::RawValue;

use crate::tools::plugins;
use crate::wait::Listener;

/// The verbs, sorted by name. Files that cannot be used are logged and left out.
pub(crate) async fn all(live: &Live) -> Vec<Tool> {
    let catalog = catalog(live).await;
    for broken in &catalog.broken {
        tracing::warn!("{broken}");
    }
    catalog.entries.iter().map(|entry| listed(&entry.definition)).collect()
}

/// Whether a tool is a verb.
pub(crate) async fn is_one(live: &Live, tool: &str) -> bool {
    // Tools whose names cannot be those of verbs are not looked up in files.
    let version = tool.rsplit_once("_v").map(|(_, version)| version);
    let numbered = version.is_some_and(|v| !v.is_empty() && v.bytes().all(|b| b.is_ascii_digit()));
    numbered && find(&catalog(live).await, tool).is_some()
}

async fn catalog(live: &Live) -> Catalog {
    let folder = live.configuration().user.agents.folder.clone();
    tokio::task::spawn_blocking(move || Catalog::read(folder.as_deref())).await.unwrap_or_default()
}

fn find<'a>(catalog: &'a Catalog, tool: &str) -> Option<&'a Definition> {
    let named = |definition: &&Definition| definition.verb.tool_name() == tool;
    catalog.entries.iter().map(|entry| &entry.definition).find(named)
}

fn listed(definition: &Definition) -> Tool {
    let about = format!("{}: {}", definition.verb, printable(&definition.description));
    let schema = definition.input_schema().as_object().cloned().unwrap_or_default();
    // The whole schema is `hotcell schema agent_response`; a model would pay for it in every conversation.
    let output = JsonObject::from_iter([("type".to_owned(), "object".into())]);
    Tool::new(definition.verb.tool_name(), about, Arc::new(schema))
        .with_raw_output_schema(Arc::new(output))
        .with_annotations(ToolAnnotations::with_title(definition.verb.to_string()).open_world(true))
}

/// Runs a verb for a caller, and ends when no caller waits any more.
///
/// # Errors
/// A report when its inputs are wrong, or the plugins cannot be read.
pub(crate) async fn call(
    live: &Live,
    caller: &Caller,
    name: &str,
    arguments: &JsonObject,
    listener: &Listener,
) -> Result<CallToolResult, ErrorReport> {
    let catalog = catalog(live).await;
    let gone = || ErrorReport::new(Code::UnknownName, format!("Verb not found: {}", printable(name)));
    let definition = find(&catalog, name).ok_or_else(gone)?;
    let plugins_off =
        || ErrorReport::new(Code::Refused, "this server has no plugins, whose tools verbs call");
    let tools = live.tools().ok_or_else(plugins_off)?;
    let inputs = Inputs::check(definition, arguments)?;
    let configuration = live.configuration_of(caller);
    let state =
        configuration.asker.as_ref().and_then(|(_, choice)| choice.path().ok().map(ToOwned::to_owned));
    let (models, wanted, path) = (configuration.user.models.clone(), definition.clone(), state.clone());
    let means = tokio::task::spawn_blocking(move || match path {
        Some(path) => Means::of(&models, &wanted, &path),
        None => Err("there is no state folder".to_owned()),
    });
    let options = Options {
        means: means.await.unwrap_or_else(|e| Err(format!("hotcell itself failed: {e}"))),
        cache: state.as_deref().map(Cache::of),
    };
    let callable = PluginTools::new(Arc::clone(tools), &caller.to_string()).await?;
    let response = tokio::select! {
        response = execute(definition, &inputs, &callable, &options) => response,
        () = listener.gone() => return Err(ErrorReport::new(Code::Internal, "cancelled")),
    };
    let internal = |e: serde_json::Error| ErrorReport::new(Code::Internal, e.to_string());
    let text = serde_json::to_value(&response).map_err(internal)?.to_string();
    let answer = Answer {
        is_error: false,
        value: RawValue::from_string(text).map_err(internal)?,
        stdout: String::new(),
        stderr: String::new(),
        denied: Vec::new(),
        wall_us: 0,
        peak_memory: 0,
    };
    Ok(plugins::whole_or_kept(&definition.verb.to_string(), &answer, tools, caller).await)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn verbs_cost_at_most_250_tokens() {
        for entry in Catalog::read(None).entries {
            let tool: Value = serde_json::to_value(listed(&entry.definition)).unwrap();
            // Four characters a token, as JSON of schemas has them.
            assert!(tool.to_string().len() <= 1_000, "{tool}");
        }
    }
}
