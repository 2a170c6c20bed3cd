//! The tools: their names, what they take and give, and who does the work.

mod files;
mod input;
mod output;
pub(crate) mod plugins;
mod policies;
mod quarantine;
mod runs;

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use hotcell_service::live::{Caller, Live};
use hotcell_service::metrics::Called;
use hotcell_service::report::{Code, ErrorReport};
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, MetaObject, Tool, ToolAnnotations};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::wait::Listener;

/// What a tool does to the world, for the hints that clients show.
#[derive(Clone, Copy)]
enum Effect {
    /// Nothing.
    Reads,
    /// Adds, and takes nothing away.
    Adds,
    /// May replace or remove what the caller saved; again does no more.
    Replaces,
}

fn tool<I: JsonSchema>(
    name: &'static str,
    title: &str,
    about: &'static str,
    output: Schema,
    effect: Effect,
) -> Tool {
    let hints = ToolAnnotations::with_title(title)
        .read_only(matches!(effect, Effect::Reads))
        .destructive(matches!(effect, Effect::Replaces))
        .idempotent(!matches!(effect, Effect::Adds))
        .open_world(false);
    Tool::new(name, about, object(schema::<I>(), Null::Absent))
        .with_title(title)
        .with_raw_output_schema(object(output, Null::Said))
        .with_annotations(hints)
}

/// A type's schema, whole in one piece: not every client follows references.
fn schema<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12()
        .with(|s| s.inline_subschemas = true)
        .into_generator()
        .into_root_schema_for::<T>()
}

/// A type's schema without what lies deeper than this: an answer explains itself, and lists of tools are read by models.
fn brief<T: JsonSchema>(depth: usize) -> Schema {
    Schema::try_from(without_depths(schema::<T>().as_value(), depth)).unwrap_or_default()
}

fn without_depths(schema: &Value, depth: usize) -> Value {
    let mut kept = JsonObject::new();
    for key in ["type", "description", "enum", "const", "required"] {
        if let Some(value) = schema.get(key).filter(|_| key != "required" || depth > 0) {
            kept.insert(key.to_owned(), value.clone());
        }
    }
    // A choice of words that are each explained is a choice of words.
    for key in ["oneOf", "anyOf"] {
        let Some(choices) = schema.get(key).and_then(Value::as_array) else { continue };
        let words: Vec<_> = choices.iter().filter_map(|c| c.get("const")).collect();
        if !words.is_empty() && words.len() == choices.len() {
            kept.insert("enum".to_owned(), serde_json::json!(words));
        } else {
            let choices: Vec<_> = choices.iter().map(|c| without_depths(c, depth)).collect();
            kept.insert(key.to_owned(), choices.into());
        }
    }
    if depth > 0 {
        if let Some(Value::Object(properties)) = schema.get("properties") {
            let properties = properties.iter().map(|(n, p)| (n.clone(), without_depths(p, depth - 1)));
            kept.insert("properties".to_owned(), Value::Object(properties.collect()));
        }
        if let Some(items) = schema.get("items") {
            kept.insert("items".to_owned(), without_depths(items, depth));
        }
    }
    Value::Object(kept)
}

/// What `null` is in a schema.
#[derive(Clone, Copy, PartialEq)]
enum Null {
    /// The same as an argument that is left out: not worth a word.
    Absent,
    /// A value that an answer may have.
    Said,
}

fn object(schema: Schema, null: Null) -> Arc<JsonObject> {
    let mut schema = schema.to_value();
    with_one_type(&mut schema, null);
    Arc::new(match schema {
        Value::Object(mut object) => {
            // The protocol says which dialect it is, and the tool what it is for.
            object.retain(|name, _| !matches!(name.as_str(), "$schema" | "title" | "description"));
            object
        }
        _ => JsonObject::new(),
    })
}

/// Replaces lists of types by single ones, and leaves formats out: not every client and model reads them.
fn with_one_type(schema: &mut Value, null: Null) {
    let Value::Object(fields) = schema else { return };
    // Names of number types of ours mean nothing to a client.
    fields.remove("format");
    let single = fields.get("type").and_then(Value::as_array).and_then(|types| {
        let mut others = types.iter().filter(|t| *t != "null");
        others.next().filter(|_| others.next().is_none()).cloned()
    });
    if let Some(kind) = single {
        fields.insert("type".to_owned(), kind);
        if null == Null::Absent {
            fields.retain(|name, value| name != "default" || !value.is_null());
        } else {
            let about = fields.remove("description");
            let own = Value::Object(std::mem::take(fields));
            fields.insert("anyOf".to_owned(), serde_json::json!([own, { "type": "null" }]));
            fields.extend(about.map(|a| ("description".to_owned(), a)));
        }
    }
    for (name, value) in fields {
        match value {
            Value::Object(all) if name == "properties" => {
                all.values_mut().for_each(|p| with_one_type(p, null));
            }
            Value::Array(all) => all.iter_mut().for_each(|s| with_one_type(s, null)),
            Value::Object(_) => with_one_type(value, null),
            _ => {}
        }
    }
}

/// All tools, in the order in which they are listed.
#[must_use]
pub fn all() -> &'static [Tool] {
    static ALL: OnceLock<Vec<Tool>> = OnceLock::new();
    ALL.get_or_init(|| {
        vec![
            tool::<input::RunCode>(
                "run_code",
                "Run code",
                "Runs a source file in a fresh sandbox without network, and says how it ended and what it printed. \
                 Give further files that it reads or imports in files; it starts in their folder. Nothing is kept \
                 between calls. It answers when the program has ended or wait_ms are over; then run_status goes on.",
                output::run(),
                Effect::Adds,
            ),
            tool::<input::RunCommand>(
                "run_command",
                "Run a command",
                "Runs a program that is installed on this host, or one of a workspace, in a fresh sandbox without \
                 network. With workspace_id it starts in the workspace's folder and may change files there; its \
                 changes are gone when it ends, unless keep says that they stay. argv is not read by a shell; for \
                 pipes use [\"bash\", \"-c\", \"…\"].",
                output::run(),
                Effect::Adds,
            ),
            tool::<input::RunTests>(
                "run_tests",
                "Run tests",
                "Runs a project's tests in a fresh sandbox without network, and says test by test what happened: which \
                 failed, where, and why. The project is a workspace, or files given here. pytest, unittest, jest, \
                 vitest, mocha, jasmine, karma, node, cargo, nextest, go, gtest, junit and pgtap are known; the framework is found by what the project looks like.",
                output::tests(),
                Effect::Adds,
            ),
            tool::<input::RunStatus>(
                "run_status",
                "Status of a run",
                "Says how far a run is, or how it ended. With wait_ms it waits for the end at most that long.",
                output::any(),
                Effect::Reads,
            ),
            tool::<input::RunOutput>(
                "run_output",
                "Output of a run",
                "Reads what a run printed, from an offset in bytes on, also while it runs. The beginning and the end \
                 of a long stream are kept; next_offset is where to read on.",
                schema::<output::Read>(),
                Effect::Reads,
            ),
            tool::<input::RunCancel>(
                "run_cancel",
                "Cancel a run",
                "Ends a run with all its processes, or takes it out of the queue. Nothing happens when it has ended.",
                output::any(),
                Effect::Replaces,
            ),
            tool::<input::WorkspaceCreate>(
                "workspace_create",
                "Create a workspace",
                "Makes a folder for files, empty, with files or over a folder of the host, and gives its workspace_id. \
                 It is removed when it was not used for a day.",
                schema::<output::Workspace>(),
                Effect::Adds,
            ),
            tool::<input::WorkspaceWrite>(
                "workspace_write",
                "Write files",
                "Writes files to a workspace, each as a whole; folders are made, files of the same path are replaced. \
                 Either all of them fit the quotas or nothing is written.",
                schema::<output::Workspace>(),
                Effect::Replaces,
            ),
            tool::<input::WorkspaceRead>(
                "workspace_read",
                "Read a file",
                "Reads a file of a workspace, from an offset in bytes on.",
                schema::<output::File>(),
                Effect::Reads,
            ),
            tool::<input::WorkspaceList>(
                "workspace_list",
                "List files",
                "Lists the files and folders of a workspace; without workspace_id, your workspaces.",
                schema::<output::List>(),
                Effect::Reads,
            ),
            tool::<input::WorkspaceRemove>(
                "workspace_remove",
                "Remove files",
                "Removes a file or folder of a workspace; without path, the whole workspace.",
                schema::<output::Workspace>(),
                Effect::Replaces,
            ),
            tool::<input::WorkspaceDiff>(
                "workspace_diff",
                "Show changes",
                "Shows what a workspace changed since it began, or since its last commit: paths, and a unified diff.",
                schema::<output::Diff>(),
                Effect::Reads,
            ),
            tool::<input::WorkspaceNamed>(
                "workspace_commit",
                "Commit to the folder",
                "Takes a workspace's changes over into the folder of the host that it was made over, where the \
                 operator allows that. Nothing is taken over when somebody changed the same there. Links are left out, \
                 and names that other programs run until a person approves them.",
                schema::<output::Committed>(),
                Effect::Replaces,
            ),
            tool::<input::WorkspaceDiscard>(
                "workspace_discard",
                "Discard changes",
                "Takes a workspace back to a snapshot, or to how it began. Changes since then are gone.",
                brief::<output::Workspace>(1),
                Effect::Replaces,
            ),
            tool::<input::WorkspaceSnapshot>(
                "workspace_snapshot",
                "Keep a state",
                "Keeps a workspace's present state under a name, for workspace_discard. It costs no copy.",
                brief::<output::Workspace>(1),
                Effect::Adds,
            ),
            tool::<input::WorkspaceNamed>(
                "workspace_fork",
                "Fork a workspace",
                "Makes another workspace that begins where this one is now. It costs no copy.",
                brief::<output::Workspace>(1),
                Effect::Adds,
            ),
            tool::<input::WorkspaceNamed>(
                "workspace_export",
                "Export a workspace",
                "Gives all of a workspace as a tar archive of at most 16 MiB: as a resource, and in the answer where \
                 it is short.",
                schema::<output::Exported>(),
                Effect::Reads,
            ),
            tool::<input::ScanArtifact>(
                "scan_artifact",
                "Scan files",
                "Says how dangerous a workspace or files look, and where, without running anything: the same reading \
                 that stands before every run. quarantine and incomplete are not run.",
                brief::<output::Scanned>(1),
                Effect::Reads,
            ),
            tool::<input::Nothing>(
                "quarantine_list",
                "List what was refused",
                "Lists what of yours was refused, and where its review stands.",
                brief::<output::Refused>(1),
                Effect::Reads,
            ),
            tool::<input::QuarantineShow>(
                "quarantine_show",
                "Show what was refused",
                "Says where in it which rules matched, and where its review stands.",
                schema::<output::Shown>(),
                Effect::Reads,
            ),
            tool::<input::QuarantineRequest>(
                "quarantine_request",
                "Ask for a release",
                "Asks a person to let something run that was refused. Only a person decides, on the command line of \
                 this host; quarantine_show says what came of it. Change the code instead where it does not need \
                 what was found.",
                brief::<output::Shown>(1),
                Effect::Adds,
            ),
            tool::<policies::ReadOrgPolicies>(
                "read_org_policies",
                "Read the organisation's rules",
                "Gives the rules that the operator's organisation has for code: style, security or custom. Read \
                 those of security before you write code that handles input, secrets or rights; without rules of its \
                 own they are a baseline after the OWASP Top 10.",
                schema::<policies::OrgPolicies>(),
                Effect::Reads,
            ),
            tool::<input::Nothing>(
                "doctor",
                "Examine the host",
                "Says what this host can enforce, found out by trying: each layer of the sandbox and each profile. \
                 Use it when runs are refused.",
                brief::<hotcell_sandbox::doctor::Doctor>(1),
                Effect::Reads,
            ),
        ]
    })
}

/// Calls a tool.
///
/// # Errors
/// The protocol's, for a tool that there is not. Everything else is an answer that says what was wrong.
pub async fn call(
    live: &Live,
    caller: &Caller,
    name: &str,
    arguments: JsonObject,
    listener: &Listener,
) -> Result<CallToolResult, ErrorData> {
    let mut known = true;
    let answer = answer(live, caller, name, arguments, listener, &mut known).await;
    let well = answer.as_ref().is_ok_and(|result| result.is_error != Some(true));
    let how = if well { Called::Ok } else { Called::Error };
    // Whatever was said in place of a name is nobody's to count.
    live.metrics().called(Some(name).filter(|_| known), how);
    answer
}

/// As [`call`]; `known` becomes whether a tool has the name.
async fn answer(
    live: &Live,
    caller: &Caller,
    name: &str,
    arguments: JsonObject,
    listener: &Listener,
    known: &mut bool,
) -> Result<CallToolResult, ErrorData> {
    let done = match name {
        "run_code" => runs::code(live, caller, arguments, listener).await,
        "run_command" => runs::command(live, caller, arguments, listener).await,
        "run_tests" => runs::tests(live, caller, arguments, listener).await,
        "run_status" => runs::status(live, caller, arguments, listener).await,
        "run_output" => runs::output(live, caller, arguments),
        "run_cancel" => runs::cancel(live, caller, arguments).await,
        "workspace_create" => files::create(live, caller, arguments).await,
        "workspace_write" => files::write(live, caller, arguments).await,
        "workspace_read" => files::read(live, caller, arguments).await,
        "workspace_list" => files::list(live, caller, arguments).await,
        "workspace_remove" => files::remove(live, caller, arguments).await,
        "workspace_diff" => files::diff(live, caller, arguments).await,
        "workspace_commit" => files::commit(live, caller, arguments).await,
        "workspace_discard" => files::discard(live, caller, arguments).await,
        "workspace_snapshot" => files::snapshot(live, caller, arguments).await,
        "workspace_fork" => files::fork(live, caller, arguments).await,
        "workspace_export" => files::export(live, caller, arguments).await,
        "scan_artifact" => quarantine::scan(live, caller, arguments).await,
        "quarantine_list" => quarantine::list(live, caller, arguments).await,
        "quarantine_show" => quarantine::show(live, caller, arguments).await,
        "quarantine_request" => quarantine::request(live, caller, arguments).await,
        "read_org_policies" => policies::read(live, arguments).await,
        "doctor" => match parse::<input::Nothing>(arguments) {
            Ok(_) => Ok(examined(live.examine().await.as_ref())),
            Err(report) => Err(report),
        },
        _ => return plugins::call(live, caller, name, arguments, listener, known).await,
    };
    Ok(done.unwrap_or_else(|report| refused(&report)))
}

/// Reads the arguments of a call as the tool would, and does nothing.
pub(crate) fn understood(name: &str, arguments: JsonObject) -> Result<(), ErrorReport> {
    match name {
        "run_code" => {
            parse::<input::RunCode>(arguments).and_then(|asked| input::files(asked.files).map(drop))
        }
        "run_command" => parse::<input::RunCommand>(arguments).and_then(|asked| {
            hotcell_service::live::asking::hosts(&asked.network, &hotcell_egress::AllowList::default())
                .map(drop)
        }),
        "run_tests" => parse::<input::RunTests>(arguments).and_then(|asked| {
            hotcell_service::live::asking::hosts(&asked.network, &hotcell_egress::AllowList::default())
                .map(drop)
        }),
        "run_output" => parse::<input::RunOutput>(arguments).map(drop),
        "workspace_create" => {
            parse::<input::WorkspaceCreate>(arguments).and_then(|asked| input::files(asked.files).map(drop))
        }
        "scan_artifact" => parse::<input::ScanArtifact>(arguments).map(drop),
        _ => parse::<input::Nothing>(arguments).map(drop),
    }
}

/// A tool's arguments as its type.
fn parse<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, ErrorReport> {
    serde_path_to_error::deserialize(Value::Object(arguments)).map_err(|e| {
        let (path, error) = (e.path().to_string(), e.inner().to_string());
        let named = error.split('`').nth(1).filter(|_| error.contains("field `")).map(str::to_owned);
        let field = match (path.as_str(), named) {
            (".", Some(name)) => name,
            (".", None) => "arguments".to_owned(),
            (path, Some(name)) if !path.ends_with(&name) => format!("{path}.{name}"),
            (path, _) => path.to_owned(),
        };
        ErrorReport::new(Code::InvalidValue, format!("{field}: {error}"))
            .field(field)
            .hint("see the tool's input schema")
    })
}

/// An answer that says what was wrong. It has no structured content: that would have to be of the tool's output schema.
pub(crate) fn refused(report: &ErrorReport) -> CallToolResult {
    let mut result = CallToolResult::error(vec![ContentBlock::text(report.to_string())]);
    if let Ok(error) = serde_json::to_value(report) {
        let mut meta = MetaObject::new();
        meta.0.insert("hotcell/error".to_owned(), error);
        result.meta = Some(meta);
    }
    result
}

/// An answer with a value, and a text about it.
fn answered<T: Serialize>(value: &T, words: impl Into<String>) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(words)]);
    result.structured_content = serde_json::to_value(value).ok();
    result
}

fn examined(doctor: &hotcell_sandbox::doctor::Doctor) -> CallToolResult {
    answered(doctor, hotcell_sandbox::doctor::render(doctor, false))
}

/// What is named twice or not at all.
fn one_of(first: &str, second: &str) -> ErrorReport {
    ErrorReport::new(Code::InvalidValue, format!("give either {first} or {second}")).field(first)
}

/// A file's name for a message, without what could break a line.
fn shown(path: &str) -> Cow<'_, str> {
    Cow::Owned(hotcell_service::report::printable(path))
}

/// Work on files, away from the threads that answer.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ErrorReport> + Send + 'static,
) -> Result<T, ErrorReport> {
    let failed =
        |e| ErrorReport::new(Code::Internal, format!("hotcell failed while it worked on files: {e}"));
    tokio::task::spawn_blocking(work).await.map_err(failed)?
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_are_short_and_schemas_are_objects() {
        for tool in all() {
            assert!(tool.name.len() <= 64 && tool.name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'));
            for schema in [&tool.input_schema, tool.output_schema.as_ref().unwrap()] {
                assert_eq!(schema["type"], "object", "{}", tool.name);
                let text = json!(schema).to_string();
                assert!(
                    !text.contains("$ref") && !text.contains("\"type\":[") && !text.contains("\"uint"),
                    "{}",
                    tool.name
                );
            }
            assert_eq!(tool.input_schema["additionalProperties"], false, "{}", tool.name);
            assert!(tool.annotations.is_some() && tool.description.is_some());
        }
    }

    #[test]
    fn the_list_of_tools_is_short_enough_to_be_read() {
        let length = json!(all()).to_string().len();
        assert!(length < 64_000, "{length}");
    }

    #[test]
    fn mistakes_in_arguments_name_their_field() {
        let field = |value: Value| {
            let Value::Object(arguments) = value else { panic!() };
            parse::<input::RunCode>(arguments).unwrap_err().field.unwrap()
        };
        for (arguments, want) in [
            (json!({}), "language"),
            (json!({"language": "python"}), "code"),
            (json!({"language": "python", "code": 1}), "code"),
            (json!({"language": "python", "code": "", "files": [{"path": 1}]}), "files[0].path"),
            (json!({"language": "python", "code": "", "limits": {"memory": 1}}), "limits.memory"),
            (json!({"language": "python", "code": "", "wait_ms": -1}), "wait_ms"),
            (json!({"language": "cobol", "code": ""}), "language"),
            (json!({"language": "python", "code": "", "session": 1}), "session"),
        ] {
            assert_eq!(field(arguments.clone()), want, "{arguments}");
        }
    }
}
