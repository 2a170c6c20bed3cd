//! Tools for workspaces.

use std::sync::Arc;

use hotcell_service::live::{self, Caller, Live};
use hotcell_service::report::ErrorReport;
use rmcp::model::{CallToolResult, JsonObject};

use super::runs::{as_text, with_piece};
use super::{answered, blocking, input, output, parse, shown};

/// Bytes of a file in one answer.
const PIECE: usize = 16_000;
/// Entries of a list in one answer.
const ENTRIES: usize = 200;
/// Characters of a list in one answer, about.
const CHARACTERS: usize = 16_000;

type Answered = Result<CallToolResult, ErrorReport>;

fn described(live: &Live, workspace: &live::Workspace, removed: bool) -> output::Workspace {
    let used = workspace.used();
    output::Workspace {
        workspace_id: workspace.id.clone(),
        files: used.files,
        bytes: used.bytes,
        bytes_left: live.workspaces().quotas().bytes.saturating_sub(used.bytes),
        removed,
    }
}

fn words(workspace: &output::Workspace) -> String {
    format!(
        "workspace_id {}: {} files and folders, {} bytes",
        workspace.workspace_id, workspace.files, workspace.bytes
    )
}

pub async fn create(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: input::WorkspaceCreate = parse(arguments)?;
    let files = input::files(asked.files)?;
    let workspace = {
        let (live, caller) = (live.clone(), caller.clone());
        blocking(move || live.workspaces().create(&caller, &files)).await?
    };
    let made = described(live, &workspace, false);
    Ok(answered(&made, words(&made)))
}

pub async fn write(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: input::WorkspaceWrite = parse(arguments)?;
    let files = input::files(asked.files)?;
    let workspace = live.workspaces().get(caller, &asked.workspace_id)?;
    let written = files.len();
    let held = Arc::clone(&workspace);
    blocking(move || held.write(&files)).await?;
    let now = described(live, &workspace, false);
    Ok(answered(&now, format!("{written} files written; {}", words(&now))))
}

pub async fn read(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: input::WorkspaceRead = parse(arguments)?;
    let workspace = live.workspaces().get(caller, &asked.workspace_id)?;
    let (path, offset) = (asked.path.clone(), asked.offset);
    let (bytes, piece) = blocking(move || workspace.read(&path, offset, PIECE)).await?;
    let (text, base64, taken) = as_text(&piece);
    let offset = offset.min(bytes);
    let file = output::File {
        workspace_id: asked.workspace_id,
        path: asked.path,
        bytes,
        offset,
        next_offset: offset + taken as u64,
        text,
        base64,
    };
    let words = format!("{}, bytes {offset} to {} of {bytes}", shown(&file.path), file.next_offset);
    Ok(with_piece(answered(&file, words), file.text.clone()))
}

pub async fn list(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: input::WorkspaceList = parse(arguments)?;
    let Some(id) = asked.workspace_id else {
        if asked.path.is_some() {
            return Err(ErrorReport::new(
                hotcell_service::report::Code::InvalidValue,
                "path needs workspace_id",
            )
            .field("workspace_id"));
        }
        let all: Vec<_> = live.workspaces().list(caller).iter().map(|w| described(live, w, false)).collect();
        let lines: Vec<_> = all.iter().map(words).collect();
        let list = output::List { workspace_id: None, entries: Vec::new(), omitted: 0, workspaces: all };
        return Ok(answered(
            &list,
            if lines.is_empty() { "no workspaces".to_owned() } else { lines.join("\n") },
        ));
    };
    let workspace = live.workspaces().get(caller, &id)?;
    let below = asked.path;
    let found = blocking(move || workspace.list(below.as_deref())).await?;
    let mut room = CHARACTERS;
    let fits = |e: &&live::Entry| {
        let cost = e.path.len() + 60;
        room.checked_sub(cost).map(|rest| room = rest).is_some()
    };
    let shown_entries = found.iter().take(ENTRIES).take_while(fits).count();
    let omitted = found.len() - shown_entries;
    let entry = |e: live::Entry| output::Entry {
        path: e.path,
        kind: if e.folder { "folder" } else { "file" }.to_owned(),
        bytes: e.bytes,
    };
    let entries: Vec<_> = found.into_iter().take(shown_entries).map(entry).collect();
    let mut lines: Vec<_> =
        entries.iter().map(|e| format!("{} {} {}", e.kind, e.bytes, shown(&e.path))).collect();
    if omitted > 0 {
        lines.push(format!("({omitted} more are left out; list a folder)"));
    }
    let list =
        output::List { workspace_id: Some(id), entries, omitted: omitted as u64, workspaces: Vec::new() };
    Ok(answered(&list, if lines.is_empty() { "empty".to_owned() } else { lines.join("\n") }))
}

pub async fn remove(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: input::WorkspaceRemove = parse(arguments)?;
    let workspace = live.workspaces().get(caller, &asked.workspace_id)?;
    let Some(path) = asked.path else {
        live.workspaces().remove(caller, &asked.workspace_id)?;
        return Ok(answered(&described(live, &workspace, true), "the workspace is removed"));
    };
    let (held, of) = (Arc::clone(&workspace), path.clone());
    blocking(move || held.remove(&of)).await?;
    let now = described(live, &workspace, false);
    Ok(answered(&now, format!("{} is removed; {}", shown(&path), words(&now))))
}
