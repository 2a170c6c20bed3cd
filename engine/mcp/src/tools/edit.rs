//! Edits files in a workspace: search and replace, several per call.

use hotcell_server::workspaces::Edit;
use hotcell_server::{Caller, Live};
use hotcell_state::report::ErrorReport;
use rmcp::model::{CallToolResult, JsonObject};

use super::{answered, blocking, input, output, parse, shown};

/// Handles `workspace_edit`.
pub async fn edit(
    live: &Live,
    caller: &Caller,
    arguments: JsonObject,
) -> Result<CallToolResult, ErrorReport> {
    let asked: input::WorkspaceEdit = parse(arguments)?;
    let (live, caller, id) = (live.clone(), caller.clone(), asked.workspace_id.clone());
    let edits: Vec<Edit> = asked
        .edits
        .into_iter()
        .map(|edit| Edit { path: edit.path, old: edit.old, new: edit.new, all: edit.all })
        .collect();
    let (edits, counts) = blocking(move || {
        let counts = live.workspaces().get(&caller, &id)?.edit(&edits)?;
        Ok((edits, counts))
    })
    .await?;
    let mut files: Vec<output::EditedFile> = Vec::new();
    for (edit, count) in edits.iter().zip(&counts) {
        let count = *count as u64;
        match files.iter_mut().find(|file| file.path == edit.path) {
            Some(file) => file.replaced += count,
            None => files.push(output::EditedFile { path: edit.path.clone(), replaced: count }),
        }
    }
    let lines: Vec<_> =
        files.iter().map(|f| format!("{}: {} replaced", shown(&f.path), f.replaced)).collect();
    Ok(answered(&output::Edited { workspace_id: asked.workspace_id, files }, lines.join("\n")))
}
