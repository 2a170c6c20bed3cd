//! The tools: names, arguments, answers, and dispatch.

mod arguments;
mod edit;
mod files;
mod input;
mod output;
mod picture;
pub(crate) mod plugins;
mod policies;
mod quarantine;
mod runs;
pub(crate) mod schema;
mod service;
mod sessions;
mod terminals;
pub(crate) mod verbs;

use std::borrow::Cow;
use std::sync::OnceLock;

use hotcell_server::metrics::Called;
use hotcell_server::{Caller, Live};
use hotcell_state::report::{Code, ErrorReport};
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::schema::{brief, published, whole, without_empty_defaults};
use crate::blocking::blocking;
use crate::reply::{answered, refused};
use crate::wait::Listener;

/// Effect of a tool, for the hints that clients show.
#[derive(Clone, Copy)]
enum Effect {
    /// Changes nothing.
    Reads,
    /// Adds data, and removes none.
    Adds,
    /// May replace or remove data that the caller saved; idempotent.
    Replaces,
}

fn tool<I: JsonSchema>(
    name: &'static str,
    title: &str,
    about: &'static str,
    output: Schema,
    effect: Effect,
) -> Tool {
    without_structure::<I>(name, title, about, effect).with_raw_output_schema(published(output.to_value()))
}

/// A tool whose answers are content alone, such as pictures.
fn without_structure<I: JsonSchema>(
    name: &'static str,
    title: &str,
    about: &'static str,
    effect: Effect,
) -> Tool {
    let hints = ToolAnnotations::with_title(title)
        .read_only(matches!(effect, Effect::Reads))
        .destructive(matches!(effect, Effect::Replaces))
        .idempotent(!matches!(effect, Effect::Adds))
        .open_world(false);
    Tool::new(name, about, published(without_empty_defaults(whole::<I>().to_value())))
        .with_title(title)
        .with_annotations(hints)
}

/// All tools, in the order of their list.
#[must_use]
pub fn all() -> &'static [Tool] {
    static ALL: OnceLock<Vec<Tool>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all = vec![
            tool::<input::RunCode>(
                "run_code",
                "Run code",
                "Runs Python, Bash, JavaScript, TypeScript, Go, Rust, C, C++, Java or SQL source in a fresh sandbox without network; says how \
                 it ended and what it printed. Nothing is kept between calls.",
                output::run(),
                Effect::Adds,
            ),
            tool::<input::RunCommand>(
                "run_command",
                "Run a command",
                "Runs a program of this host or of a workspace in a fresh sandbox without network; with workspace_id in its folder. No \
                 shell splits argv: for pipes [\"bash\", \"-c\", \"…\"].",
                output::run(),
                Effect::Adds,
            ),
            tool::<input::RunTests>(
                "run_tests",
                "Run tests",
                "Runs a project's tests in a fresh sandbox without network; says which failed, where, and why. pytest, unittest, jest, vitest, \
                 mocha, node, cargo, go, gtest, junit and others.",
                output::tests(),
                Effect::Adds,
            ),
            tool::<input::RunStatus>(
                "run_status",
                "Status of a run",
                "Says how far a run is, or how it ended.",
                output::any(),
                Effect::Reads,
            ),
            tool::<input::RunOutput>(
                "run_output",
                "Output of a run",
                "Reads what a run printed from a byte offset on; next_offset is where to read on.",
                whole::<output::Read>(),
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
                "Makes a folder for files: empty, with files, or over a host folder. Removed a day after its last use.",
                whole::<output::Workspace>(),
                Effect::Adds,
            ),
            tool::<input::WorkspaceWrite>(
                "workspace_write",
                "Write files",
                "Writes whole files; all of them or none.",
                whole::<output::Workspace>(),
                Effect::Replaces,
            ),
            tool::<input::WorkspaceEdit>(
                "workspace_edit",
                "Edit files",
                "Replaces pieces of text in files, all or none.",
                whole::<output::Edited>(),
                Effect::Replaces,
            ),
            tool::<input::WorkspaceRead>(
                "workspace_read",
                "Read a file",
                "Reads a file from a byte offset on.",
                whole::<output::File>(),
                Effect::Reads,
            ),
            without_structure::<input::WorkspaceImage>(
                "workspace_image",
                "Show a picture",
                "Shows a PNG or JPEG file of a workspace, such as a plot that run_command left there with keep.",
                Effect::Reads,
            ),
            tool::<input::WorkspaceList>(
                "workspace_list",
                "List files",
                "Lists the files and folders of a workspace; without workspace_id, your workspaces.",
                whole::<output::List>(),
                Effect::Reads,
            ),
            tool::<input::WorkspaceRemove>(
                "workspace_remove",
                "Remove files",
                "Removes a file or folder of a workspace; without path, the whole workspace.",
                whole::<output::Workspace>(),
                Effect::Replaces,
            ),
            tool::<input::WorkspaceDiff>(
                "workspace_diff",
                "Show changes",
                "Shows what a workspace changed since it began, or since its last commit: paths, and a unified diff.",
                whole::<output::Diff>(),
                Effect::Reads,
            ),
            tool::<input::WorkspaceNamed>(
                "workspace_commit",
                "Commit to the folder",
                "Takes changes over into the host folder of the workspace, where the operator allows that. Conflicts stop it; links, git's \
                 own state and names that other programs run are left out until a person approves.",
                whole::<output::Committed>(),
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
                whole::<output::Exported>(),
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
                whole::<output::Shown>(),
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
                whole::<policies::OrgPolicies>(),
                Effect::Reads,
            ),
            tool::<sessions::SessionCreate>(
                "session_create",
                "Start a session",
                "Starts an interpreter whose variables stay between calls.",
                brief::<sessions::Described>(1),
                Effect::Adds,
            ),
            tool::<sessions::SessionExecute>(
                "session_execute",
                "Run a cell",
                "Runs code in a session: the value of its last expression, output, and figures as pictures.",
                brief::<sessions::Executed>(1),
                Effect::Adds,
            ),
            tool::<sessions::SessionUpload>(
                "session_upload",
                "Upload to a session",
                "Writes a file in a session's sandbox, in pieces where it is long.",
                brief::<sessions::Uploaded>(1),
                Effect::Adds,
            ),
            tool::<sessions::SessionNamed>(
                "session_interrupt",
                "Interrupt a cell",
                "Interrupts what runs in a session; its variables stay.",
                brief::<sessions::Interrupted>(1),
                Effect::Adds,
            ),
            tool::<sessions::SessionNamed>(
                "session_reset",
                "Reset a session",
                "Begins a session again, with nothing of what it had.",
                brief::<sessions::Described>(1),
                Effect::Replaces,
            ),
            tool::<input::Nothing>(
                "session_list",
                "List sessions",
                "Lists your sessions, and why those that ended did.",
                brief::<sessions::Listed>(1),
                Effect::Reads,
            ),
            tool::<sessions::SessionNamed>(
                "session_close",
                "Close a session",
                "Ends a session; its variables and files are gone.",
                brief::<sessions::Described>(1),
                Effect::Replaces,
            ),
            tool::<terminals::TerminalStart>(
                "terminal_start",
                "Start a terminal",
                "Starts a shell, debugger, editor or other program in a terminal; answers its screen.",
                terminals::answer(true),
                Effect::Adds,
            ),
            tool::<terminals::TerminalSend>(
                "terminal_send",
                "Type",
                "Types text, then keys; answers the screen when it is quiet, or has `until`.",
                terminals::answer(false),
                Effect::Adds,
            ),
            tool::<terminals::TerminalScreen>(
                "terminal_screen",
                "Look at the screen",
                "Answers a terminal's screen when it is quiet, or has `until`.",
                terminals::answer(false),
                Effect::Reads,
            ),
            tool::<terminals::TerminalResize>(
                "terminal_resize",
                "Change the size",
                "Changes the size of a terminal.",
                terminals::answer(false),
                Effect::Adds,
            ),
            tool::<terminals::TerminalNamed>(
                "terminal_close",
                "Close a terminal",
                "Ends a terminal's program with all its processes.",
                terminals::answer(false),
                Effect::Replaces,
            ),
            tool::<input::Nothing>(
                "doctor",
                "Examine the host",
                "Says what this host can enforce, found out by trying: each layer of the sandbox and each profile. \
                 Use it when runs are refused.",
                brief::<hotcell_sandbox::doctor::Doctor>(1),
                Effect::Reads,
            ),
        ];
        all.extend(service::tools());
        all
    })
}

/// All tools as they are listed for clients, in few words.
#[must_use]
pub fn listed() -> &'static [Tool] {
    static LISTED: OnceLock<Vec<Tool>> = OnceLock::new();
    LISTED.get_or_init(|| all().iter().map(schema::lean).collect())
}

/// Calls a tool.
///
/// # Errors
/// The protocol's error for an unknown tool. Any other problem is reported in the answer.
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
    // An unknown name is not counted, since it is any text that the caller sent.
    live.metrics().called(Some(name).filter(|_| known), how);
    answer
}

/// Like [`call`]; sets `known` to whether there is a tool of this name.
async fn answer(
    live: &Live,
    caller: &Caller,
    name: &str,
    arguments: JsonObject,
    listener: &Listener,
    known: &mut bool,
) -> Result<CallToolResult, ErrorData> {
    let is_verb = verbs::is_one(live, name).await;
    let done = match name {
        "run_code" => runs::code(live, caller, arguments, listener).await,
        "run_command" => runs::command(live, caller, arguments, listener).await,
        "run_tests" => runs::tests(live, caller, arguments, listener).await,
        "run_status" => runs::status(live, caller, arguments, listener).await,
        "run_output" => runs::output(live, caller, arguments).await,
        "run_cancel" => runs::cancel(live, caller, arguments).await,
        "workspace_create" => files::create(live, caller, arguments).await,
        "workspace_write" => files::write(live, caller, arguments).await,
        "workspace_edit" => edit::edit(live, caller, arguments).await,
        "workspace_read" => files::read(live, caller, arguments).await,
        "workspace_image" => picture::image(live, caller, arguments).await,
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
        "session_create" => sessions::create(live, caller, arguments, listener).await,
        "session_execute" => sessions::execute(live, caller, arguments, listener).await,
        "session_upload" => sessions::upload(live, caller, arguments).await,
        "session_interrupt" => sessions::interrupt(live, caller, arguments).await,
        "session_reset" => sessions::reset(live, caller, arguments).await,
        "session_list" => sessions::list(live, caller, arguments),
        "session_close" => sessions::close(live, caller, arguments).await,
        "terminal_start" => terminals::start(live, caller, arguments, listener).await,
        "terminal_send" => terminals::send(live, caller, arguments).await,
        "terminal_screen" => terminals::screen(live, caller, arguments).await,
        "terminal_resize" => terminals::resize(live, caller, arguments).await,
        "terminal_close" => terminals::close(live, caller, arguments).await,
        "read_org_policies" => policies::read(live, arguments).await,
        "doctor" => match parse::<input::Nothing>(arguments) {
            Ok(_) => Ok(examined(live.examine().await.as_ref())),
            Err(report) => Err(report),
        },
        _ if service::has(name) => service::call(live, caller, name, arguments, listener).await,
        _ if is_verb => verbs::call(live, caller, name, &arguments, listener).await,
        _ => return plugins::call(live, caller, name, arguments, listener, known).await,
    };
    Ok(done.unwrap_or_else(|report| refused(&report)))
}

/// Parses the arguments of a call as the tool would, and does nothing.
pub(crate) fn understood(name: &str, arguments: JsonObject) -> Result<(), ErrorReport> {
    match name {
        "run_code" => {
            parse::<input::RunCode>(arguments).and_then(|asked| input::files(asked.files).map(drop))
        }
        "run_command" => parse::<input::RunCommand>(arguments).and_then(|asked| {
            hotcell_server::network_requests::hosts(&asked.run.network, &hotcell_egress::AllowList::default())
                .map(drop)
        }),
        "run_tests" => parse::<input::RunTests>(arguments).and_then(|asked| {
            hotcell_server::network_requests::hosts(&asked.run.network, &hotcell_egress::AllowList::default())
                .map(drop)
        }),
        "run_output" => parse::<input::RunOutput>(arguments).map(drop),
        "workspace_edit" => parse::<input::WorkspaceEdit>(arguments).map(drop),
        "workspace_create" => {
            parse::<input::WorkspaceCreate>(arguments).and_then(|asked| input::files(asked.files).map(drop))
        }
        "scan_artifact" => parse::<input::ScanArtifact>(arguments).map(drop),
        _ => parse::<input::Nothing>(arguments).map(drop),
    }
}

/// Deserialises a tool's arguments.
fn parse<T: DeserializeOwned + JsonSchema + 'static>(arguments: JsonObject) -> Result<T, ErrorReport> {
    let arguments = arguments::normal(&schema::of_arguments::<T>(), arguments)?;
    serde_path_to_error::deserialize(Value::Object(arguments)).map_err(|e| {
        let field =
            Some(e.path().to_string()).filter(|path| path != ".").unwrap_or_else(|| "arguments".into());
        tracing::debug!("{field} was taken by the schema and not by its type: {e}");
        ErrorReport::new(Code::InvalidValue, format!("{field} is not of the form that is wanted"))
            .field(field)
            .hint("see the tool's input schema")
    })
}

/// Normalises arguments, so that calls with the same meaning are equal.
fn normal<T: JsonSchema + 'static>(arguments: JsonObject) -> Result<JsonObject, ErrorReport> {
    arguments::normal(&schema::of_arguments::<T>(), arguments)
}

fn examined(doctor: &hotcell_sandbox::doctor::Doctor) -> CallToolResult {
    answered(doctor, hotcell_sandbox::doctor::render(doctor, false))
}

/// Error for a call that gives both or neither of two arguments.
fn one_of(first: &str, second: &str) -> ErrorReport {
    ErrorReport::new(Code::InvalidValue, format!("give either {first} or {second}")).field(first)
}

/// A file's name for a message, without characters that could break a line.
fn shown(path: &str) -> Cow<'_, str> {
    Cow::Owned(hotcell_state::report::printable(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tools_have_names_annotations_and_descriptions() {
        for tool in all() {
            assert!(tool.name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{}", tool.name);
            assert!(tool.annotations.is_some() && tool.description.is_some(), "{}", tool.name);
        }
    }

    #[test]
    fn tool_list_fits_length_limit() {
        let length = json!(all()).to_string().len();
        assert!(length < 91_000, "{length}");
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
