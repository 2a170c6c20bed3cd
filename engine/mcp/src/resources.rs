//! Runs and workspaces as resources: their URIs, lists, templates and completion.

use base64::Engine as _;
use hotcell_sandbox::layer::likely;
use hotcell_server::{Caller, Entry, EntryKind, Live, Stream};
use hotcell_state::report::printable;
use rmcp::ErrorData;
use rmcp::model::{
    CompleteRequestParams, CompletionInfo, Reference, Resource, ResourceContents, ResourceTemplate,
};
use serde_json::json;

use crate::answer::{Detail, of_run};
use crate::near_uri::near;
use crate::uri::{
    TAR, decoded, encoded, uri_of_answer, uri_of_output, uri_of_receipt, uri_of_session_file,
    uri_of_session_receipt, uri_of_stream,
};
use crate::{prompts, tools};

/// URI of the examination of the host. It has no variable; it is a template since it is not a caller's resource.
pub const DOCTOR: &str = "hotcell://doctor";

/// Beginning of each of hotcell's own URIs.
const SCHEME: &str = "hotcell://";

/// Number of resources per page of a list.
pub const PAGE_LEN: usize = 100;
/// Maximum number of files of all workspaces in the list.
const MAX_FILES: usize = 1_000;

/// Meaning of a URI.
#[derive(Debug, PartialEq)]
enum Named {
    Run(String),
    Output(String, Stream),
    Receipt(String),
    Returned(String, String),
    SessionFile(String, String),
    SessionReceipt(String, usize),
    File(String, String),
    Archive(String),
    Answer(String),
    Tool(String),
    Handoff(String, bool),
}

/// Parses a URI. Slashes of a path in it may be percent-encoded.
fn named(uri: &str) -> Option<Named> {
    let (kind, rest) = uri.strip_prefix("hotcell://")?.split_once('/')?;
    let (id, rest) = match rest.split_once('/') {
        Some((id, rest)) => (id.to_owned(), Some(rest)),
        None => (rest.to_owned(), None),
    };
    Some(match (kind, rest) {
        ("exports", None) => Named::Archive(id),
        ("answers", None) => Named::Answer(id),
        ("tools", None) => Named::Tool(id),
        ("handoffs", None) => Named::Handoff(id, true),
        ("handoffs", Some("no-audit")) => Named::Handoff(id, false),
        ("runs", Some(path)) if path.starts_with("files/") => {
            Named::Returned(id, decoded(path.strip_prefix("files/").filter(|path| !path.is_empty())?)?)
        }
        ("sessions", Some(path)) if !path.is_empty() => Named::SessionFile(id, decoded(path)?),
        ("session-receipts", Some(number)) => {
            let is_plain = number.bytes().all(|byte| byte.is_ascii_digit()) && !number.starts_with('0');
            Named::SessionReceipt(id, number.parse().ok().filter(|_| is_plain)?)
        }
        ("runs", None) => Named::Run(id),
        ("runs", Some("receipt")) => Named::Receipt(id),
        ("runs", Some(name)) => Named::Output(id, Stream::ALL.into_iter().find(|s| s.name() == name)?),
        ("workspaces", Some(path)) if !path.is_empty() => Named::File(id, decoded(path)?),
        _ => return None,
    })
}

fn is_file(entry: &Entry) -> bool {
    entry.kind == EntryKind::File
}

/// A caller's resources: its runs with their streams, the newest first, and the files of its workspaces.
/// Blocks.
#[must_use]
pub fn list(live: &Live, caller: &Caller) -> Vec<Resource> {
    let mut all = Vec::new();
    for run in live.runs(caller) {
        let command = printable(&run.command.join(" ")).chars().take(100).collect::<String>();
        let run_uri = format!("hotcell://runs/{}", run.id);
        all.push(
            Resource::new(run_uri, run.id.clone())
                .with_description(command)
                .with_mime_type("application/json"),
        );
        if run.receipt().is_some() {
            all.push(
                Resource::new(uri_of_receipt(&run.id), format!("receipt of {}", run.id))
                    .with_mime_type("application/json"),
            );
        }
        for stream in Stream::ALL {
            let printed = run.state().printed[stream as usize];
            if printed > 0 {
                let name = format!("{} of {}", stream.name(), run.id);
                all.push(
                    Resource::new(uri_of_stream(&run.id, stream), name)
                        .with_mime_type("text/plain")
                        .with_size(printed),
                );
            }
        }
    }
    let returned = live.runs(caller).into_iter().flat_map(|run| {
        run.files().into_iter().map(|(path, bytes)| (run.id.clone(), path, bytes)).collect::<Vec<_>>()
    });
    all.extend(returned.take(MAX_FILES).map(|(id, path, bytes)| {
        Resource::new(uri_of_output(&id, &path), printable(&path)).with_size(bytes)
    }));
    let of_sessions = live.sessions().list(caller).into_iter().flat_map(|(id, session)| {
        session.files().into_iter().map(move |(path, bytes)| (id.clone(), path, bytes))
    });
    all.extend(of_sessions.take(MAX_FILES).map(|(id, path, bytes)| {
        Resource::new(uri_of_session_file(&id, &path), printable(&path)).with_size(bytes)
    }));
    for (id, receipts) in live.sessions().receipts(caller) {
        for (at, _) in receipts.iter().enumerate().filter(|(_, digest)| digest.is_some()) {
            let name = format!("receipt {} of {id}", at + 1);
            all.push(
                Resource::new(uri_of_session_receipt(&id, at + 1), name).with_mime_type("application/json"),
            );
        }
    }
    for (id, bytes) in live.tools().map(|tools| tools.kept().list(caller)).unwrap_or_default() {
        let size = u64::try_from(bytes).unwrap_or(u64::MAX);
        all.push(Resource::new(uri_of_answer(&id), id).with_mime_type("application/json").with_size(size));
    }
    let mut left = MAX_FILES;
    for workspace in live.workspaces().list(caller) {
        if left == 0 {
            break;
        }
        for entry in workspace.list(None).unwrap_or_default().into_iter().filter(is_file).take(left) {
            left -= 1;
            let uri = format!("hotcell://workspaces/{}/{}", workspace.id, encoded(&entry.path));
            all.push(Resource::new(uri, entry.path).with_size(entry.bytes));
        }
    }
    all
}

/// The resource templates.
#[must_use]
pub fn templates() -> Vec<ResourceTemplate> {
    let template = |uri: &str, name: &str, about: &str, kind: &str| {
        ResourceTemplate::new(uri, name).with_description(about).with_mime_type(kind)
    };
    vec![
        template("hotcell://runs/{id}", "run", "How far a run is, or how it ended", "application/json"),
        template(
            "hotcell://runs/{id}/stdout",
            "stdout",
            "What a run printed: all that is kept",
            "text/plain",
        ),
        template(
            "hotcell://runs/{id}/stderr",
            "stderr",
            "What a run printed to standard error: all that is kept",
            "text/plain",
        ),
        template(
            "hotcell://runs/{id}/receipt",
            "receipt",
            "Signed statement of a run that has ended, where the operator wants one for each",
            "application/json",
        ),
        ResourceTemplate::new("hotcell://runs/{id}/files/{path}", "output file")
            .with_description("A file that a run returned"),
        ResourceTemplate::new("hotcell://sessions/{id}/{path}", "session file")
            .with_description("A file that a cell of a session returned"),
        template(
            "hotcell://session-receipts/{id}/{number}",
            "session receipt",
            "Signed statement of a session that has ended, where the operator wants one for each; numbers begin at 1, and each reset ends a session",
            "application/json",
        ),
        ResourceTemplate::new("hotcell://workspaces/{id}/{path}", "file")
            .with_description("A file of a workspace"),
        template("hotcell://exports/{id}", "archive", "All of a workspace as a tar archive", TAR),
        template(
            "hotcell://answers/{id}",
            "answer",
            "All of a tool's answer that was too long to be shown",
            "application/json",
        ),
        template(DOCTOR, "doctor", "What this host can enforce, found out by trying", "application/json"),
        template(
            "hotcell://handoffs/{id}",
            "handoff",
            "What a session of models hands over: code, tests, evidence, events",
            "application/json",
        ),
        template(
            "hotcell://tools/{name}",
            "tool",
            "A tool with all descriptions of its arguments and its answer",
            "application/json",
        ),
    ]
}

/// Words for a URI that names nothing of the caller: the nearest of its resources and of the tools, or where they are listed. Resources of others
/// are not compared.
fn others(uri: &str, own: Vec<Resource>) -> String {
    let all = templates();
    let kinds: Vec<&str> = all
        .iter()
        .filter_map(|template| template.uri_template.strip_prefix(SCHEME)?.split('/').next())
        .collect();
    let tools = tools::all().iter().map(|tool| format!("{SCHEME}tools/{}", tool.name));
    let known: Vec<String> = own
        .into_iter()
        .map(|resource| resource.uri.clone())
        .chain(tools)
        .chain([DOCTOR.to_owned()])
        .collect();
    match near(SCHEME, uri, &kinds, &known) {
        Some(near) => format!("did you mean {near}?"),
        None => {
            "resources/list names those that there are, and resources/templates/list their forms".to_owned()
        }
    }
}

/// Reads a resource. Blocks.
///
/// # Errors
/// The protocol's error for a resource that does not exist or belongs to another caller.
pub fn read(live: &Live, caller: &Caller, uri: &str) -> Result<ResourceContents, ErrorData> {
    let not_found = |why: String| ErrorData::resource_not_found(why, Some(json!({ "uri": uri })));
    let missing = || not_found(format!("there is no such resource; {}", others(uri, list(live, caller))));
    let contents = |bytes: Vec<u8>| match String::from_utf8(bytes) {
        Ok(text) => ResourceContents::text(text, uri).with_mime_type("text/plain"),
        Err(e) => ResourceContents::blob(base64::engine::general_purpose::STANDARD.encode(e.as_bytes()), uri)
            .with_mime_type(crate::picture::kind(e.as_bytes()).unwrap_or("application/octet-stream")),
    };
    match named(uri).ok_or_else(missing)? {
        Named::Run(id) => {
            let run = live.run(caller, &id).map_err(|_| missing())?;
            let answer = of_run(live, &run, Detail::All).structured_content.unwrap_or_default();
            Ok(ResourceContents::text(answer.to_string(), uri).with_mime_type("application/json"))
        }
        Named::Output(id, stream) => {
            let run = live.run(caller, &id).map_err(|_| missing())?;
            Ok(contents(run.kept(stream).0))
        }
        Named::Receipt(id) => {
            let receipt = live.receipt(caller, &id).ok_or_else(missing)?;
            Ok(ResourceContents::text(receipt, uri).with_mime_type("application/json"))
        }
        Named::SessionReceipt(id, number) => {
            let receipt = live.session_receipt(caller, &id, number).ok_or_else(missing)?;
            Ok(ResourceContents::text(receipt, uri).with_mime_type("application/json"))
        }
        Named::Returned(id, path) => {
            let run = live.run(caller, &id).map_err(|_| missing())?;
            Ok(contents(run.file(&path).ok_or_else(missing)?.to_vec()))
        }
        Named::SessionFile(id, path) => {
            let session = live.sessions().get(caller, &id).map_err(|_| missing())?;
            let read = contents(session.file(&path).ok_or_else(missing)?.to_vec());
            Ok(match path.rsplit_once('.').map(|(_, form)| form) {
                Some("csv") => read.with_mime_type("text/csv"),
                Some("json") => read.with_mime_type("application/json"),
                // Markup stays text: it is data, and a client must not run it.
                _ => read,
            })
        }
        Named::Answer(id) => {
            let text = live.tools().and_then(|tools| tools.kept().get(caller, &id)).ok_or_else(missing)?;
            Ok(ResourceContents::text(text.to_string(), uri).with_mime_type("application/json"))
        }
        Named::Tool(name) => {
            let tool = tools::all().iter().find(|tool| tool.name == name).ok_or_else(missing)?;
            Ok(ResourceContents::text(json!(tool).to_string(), uri).with_mime_type("application/json"))
        }
        Named::Handoff(id, audit) => {
            let archive = live.agent_handoff(caller, &id, audit).map_err(|_| missing())?;
            let text = serde_json::to_string(&archive).map_err(|_| missing())?;
            Ok(ResourceContents::text(text, uri).with_mime_type("application/json"))
        }
        Named::File(id, path) => {
            let workspace = live.workspaces().get(caller, &id).map_err(|_| missing())?;
            let most = usize::try_from(live.workspaces().quotas().file).unwrap_or(usize::MAX);
            Ok(contents(workspace.read(&path, 0, most).map_err(|report| not_found(report.to_string()))?.1))
        }
        Named::Archive(id) => {
            let workspace = live.workspaces().get(caller, &id).map_err(|_| missing())?;
            let archive = workspace.export().map_err(|report| {
                ErrorData::invalid_params(report.to_string(), Some(json!({ "uri": uri })))
            })?;
            let blob = base64::engine::general_purpose::STANDARD.encode(archive);
            Ok(ResourceContents::blob(blob, uri).with_mime_type(TAR))
        }
    }
}

/// Whether a URI is of a resource of a plugin or of a foreign server.
#[must_use]
pub fn is_foreign(uri: &str) -> bool {
    ["plugins/", "servers/"]
        .iter()
        .any(|kind| uri.strip_prefix(SCHEME).is_some_and(|rest| rest.starts_with(kind)))
}

/// Checks that a completion is for a template, or a URI of one, and for a variable of it.
///
/// # Errors
/// Invalid parameters, with the template or the variable that is meant.
fn check_reference(uri: &str, variable: &str) -> Result<(), ErrorData> {
    let bad = |why: String| ErrorData::invalid_params(why, None);
    let shown = |text: &str| printable(text).chars().take(100).collect::<String>();
    let all = templates();
    let known = || all.iter().map(|template| template.uri_template.as_str());
    let kind = |uri: &str| {
        uri.strip_prefix(SCHEME).map(|rest| rest.split('/').next().unwrap_or_default().to_owned())
    };
    if !known().any(|template| kind(template) == kind(uri)) {
        // All begin with the same characters, which say nothing about likeness.
        let rest = |uri: &'_ str| uri.strip_prefix(SCHEME).unwrap_or(uri).to_owned();
        let rests: Vec<String> = known().map(rest).collect();
        let near = likely(&rest(uri), rests.iter().map(String::as_str)).map_or_else(
            || "resources/templates/list names them".to_owned(),
            |near| format!("did you mean {SCHEME}{near}?"),
        );
        return Err(bad(format!("there is no template {:?}; {near}", shown(uri))));
    }
    // A client may also name a resource, whose variables it has filled in.
    let Some(template) = known().find(|template| *template == uri) else { return Ok(()) };
    let variables: Vec<&str> =
        template.split('{').skip(1).filter_map(|part| part.split('}').next()).collect();
    if variables.contains(&variable) {
        return Ok(());
    }
    let near = match likely(variable, variables.iter().copied()) {
        Some(near) => format!("did you mean {near}?"),
        None if variables.is_empty() => "it has none".to_owned(),
        None => format!("it has {}", variables.join(", ")),
    };
    Err(bad(format!("{template} has no variable {:?}; {near}", shown(variable))))
}

/// Completes a template's variable, or a prompt's argument. Blocks.
///
/// # Errors
/// Invalid parameters, for a prompt, a template, an argument or a variable that does not exist.
pub fn complete(
    live: &Live,
    caller: &Caller,
    asked: &CompleteRequestParams,
) -> Result<CompletionInfo, ErrorData> {
    let template = match &asked.r#ref {
        Reference::Resource(template) => template,
        _ => return Ok(completed(prompts::values(live, caller, asked)?, &asked.argument.value)),
    };
    check_reference(&template.uri, &asked.argument.name)?;
    let all: Vec<String> = match (template.uri.as_str(), asked.argument.name.as_str()) {
        (uri, "id") if uri.starts_with("hotcell://runs/") => {
            live.runs(caller).iter().map(|r| r.id.clone()).collect()
        }
        (uri, "id") if uri.starts_with("hotcell://workspaces/") || uri.starts_with("hotcell://exports/") => {
            live.workspaces().list(caller).iter().map(|w| w.id.clone()).collect()
        }
        (uri, "id") if uri.starts_with("hotcell://handoffs/") => {
            live.agent_list(caller).unwrap_or_default().into_iter().map(|row| row.id).collect()
        }
        (uri, "id") if uri.starts_with("hotcell://sessions/") => {
            live.sessions().list(caller).into_iter().map(|(id, _)| id).collect()
        }
        (uri, "id") if uri.starts_with("hotcell://session-receipts/") => {
            live.sessions().receipts(caller).into_iter().map(|(id, _)| id).collect()
        }
        (uri, "number") if uri.starts_with("hotcell://session-receipts/") => {
            let id = asked.context.as_ref().and_then(|c| c.get_argument("id"));
            let receipts = live.sessions().receipts(caller).into_iter();
            let own = receipts.filter(|(session, _)| id.is_some_and(|id| *id == **session));
            own.flat_map(|(_, receipts)| (1..=receipts.len()).map(|number| number.to_string())).collect()
        }
        (uri, "name") if uri.starts_with("hotcell://tools/") => {
            tools::all().iter().map(|tool| tool.name.to_string()).collect()
        }
        (uri, "path") if uri.starts_with("hotcell://workspaces/") => {
            let id = asked.context.as_ref().and_then(|c| c.get_argument("id"));
            let workspace = id.and_then(|id| live.workspaces().get(caller, id).ok());
            let entries = workspace.and_then(|w| w.list(None).ok()).unwrap_or_default();
            entries.into_iter().filter(is_file).map(|e| e.path).collect()
        }
        _ => Vec::new(),
    };
    Ok(completed(all, &asked.argument.value))
}

/// The values that begin with `begun`, as many as an answer may have.
fn completed(all: Vec<String>, begun: &str) -> CompletionInfo {
    let fitting: Vec<_> = all.into_iter().filter(|v| v.starts_with(begun)).collect();
    let total = fitting.len();
    let shown = fitting.into_iter().take(CompletionInfo::MAX_VALUES).collect();
    CompletionInfo::with_pagination(shown, u32::try_from(total).ok(), total > CompletionInfo::MAX_VALUES)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_uris_have_one_meaning() {
        for (uri, want) in [
            ("hotcell://runs/run_1", Some(Named::Run("run_1".into()))),
            ("hotcell://runs/run_1/stderr", Some(Named::Output("run_1".into(), Stream::Stderr))),
            ("hotcell://runs/run_1/receipt", Some(Named::Receipt("run_1".into()))),
            ("hotcell://runs/run_1/files/receipt", Some(Named::Returned("run_1".into(), "receipt".into()))),
            ("hotcell://runs/run_1/files/a/b%20c", Some(Named::Returned("run_1".into(), "a/b c".into()))),
            ("hotcell://runs/run_1/files/", None),
            ("hotcell://sessions/ses_1/a%20b", Some(Named::SessionFile("ses_1".into(), "a b".into()))),
            ("hotcell://session-receipts/ses_1/2", Some(Named::SessionReceipt("ses_1".into(), 2))),
            ("hotcell://session-receipts/ses_1", None),
            ("hotcell://session-receipts/ses_1/", None),
            ("hotcell://session-receipts/ses_1/+1", None),
            ("hotcell://session-receipts/ses_1/01", None),
            ("hotcell://session-receipts/ses_1/x", None),
            ("hotcell://sessions/ses_1/", None),
            ("hotcell://sessions/ses_1", None),
            ("hotcell://workspaces/ws_1/a/b%20c", Some(Named::File("ws_1".into(), "a/b c".into()))),
            ("hotcell://workspaces/ws_1/a%2Fb", Some(Named::File("ws_1".into(), "a/b".into()))),
            ("hotcell://exports/ws_1", Some(Named::Archive("ws_1".into()))),
            ("hotcell://tools/run_code", Some(Named::Tool("run_code".into()))),
            ("hotcell://exports/ws_1/x", None),
            ("hotcell://handoffs/a1", Some(Named::Handoff("a1".into(), true))),
            ("hotcell://handoffs/a1/no-audit", Some(Named::Handoff("a1".into(), false))),
            ("hotcell://handoffs/a1/x", None),
            ("hotcell://runs/run_1/stdin", None),
            ("hotcell://runs", None),
            ("hotcell://workspaces/ws_1/", None),
            ("hotcell://workspaces/ws_1/%f", None),
            ("hotcell://workspaces/ws_1/%ff", None),
            ("file:///etc/passwd", None),
        ] {
            assert_eq!(named(uri), want, "{uri}");
        }
    }

    #[test]
    fn unknown_resource_names_the_nearest() {
        let own = || vec![Resource::new("hotcell://runs/run_1a2b3c", "run")];
        for (uri, want) in [
            ("hotcell://tools/run_cod", "did you mean hotcell://tools/run_code?"),
            ("hotcell://run/run_1a2b3c", "did you mean hotcell://runs/run_1a2b3c?"),
            ("hotcell://nothing/x", "resources/list names"),
            ("hotcell://workspaces/ws_1/x", "resources/list names"),
        ] {
            let said = others(uri, own());
            assert!(said.starts_with(want), "{uri}: {said}");
        }
        for tool in tools::all() {
            let said = others(&format!("hotcell://tools/{}s", tool.name), own());
            assert!(said.starts_with("did you mean hotcell://tools/"), "{}: {said}", tool.name);
        }
    }

    #[test]
    fn completions_are_for_templates_and_their_variables() {
        for (uri, variable, want) in [
            ("hotcell://runs/{id}", "id", Ok(())),
            ("hotcell://runs/{id}/stdout", "id", Ok(())),
            ("hotcell://workspaces/{id}/{path}", "path", Ok(())),
            ("hotcell://runs/run_1", "id", Ok(())),
            ("hotcell://runs/run_1", "anything", Ok(())),
            ("hotcell://runs/{id}", "di", Err("did you mean id?")),
            ("hotcell://workspaces/{id}/{path}", "folder", Err("it has id, path")),
            ("hotcell://doctor", "id", Err("it has none")),
            ("hotcell://run/{id}", "id", Err("did you mean hotcell://runs/{id}?")),
            ("hotcell://nothing/{x}", "x", Err("resources/templates/list")),
            ("file:///{path}", "path", Err("resources/templates/list")),
            ("", "", Err("resources/templates/list")),
        ] {
            match (check_reference(uri, variable), want) {
                (Ok(()), Ok(())) => {}
                (Err(error), Err(part)) => {
                    assert_eq!(error.code.0, -32602);
                    assert!(error.message.contains(part), "{uri} {variable}: {}", error.message);
                }
                (got, _) => panic!("{uri} {variable}: {got:?}"),
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn resource_path_round_trips(path in "\\PC{1,20}") {
            let uri = format!("hotcell://workspaces/w/{}", encoded(&path));
            proptest::prop_assert_eq!(named(&uri), Some(Named::File("w".into(), path)));
        }
    }
}
