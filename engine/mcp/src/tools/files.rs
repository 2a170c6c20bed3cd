//! Tools for workspaces.

use base64::Engine as _;
use hotcell_report::{Change, Mark};
use hotcell_sandbox::text::counted;
use hotcell_server::{Caller, Live};
use hotcell_state::report::{Code, ErrorReport};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Resource};

use crate::approvals::{needed, tell};
use crate::text::beginning;

use super::runs::{as_text, with_piece};
use super::{answered, blocking, input, output, parse, shown};

/// Maximum size of a part of a file or diff in one answer, in bytes.
const MAX_PART_BYTES: usize = 16_000;
/// Maximum number of entries of a list in one answer.
const MAX_ENTRIES: usize = 200;
/// Approximate maximum size of a list in one answer, in characters.
const MAX_LIST_CHARS: usize = 16_000;

/// Maximum number of paths in one answer that a commit left out.
const MAX_OMITTED_PATHS: usize = 50;

type Answered = Result<CallToolResult, ErrorReport>;

/// Describes a workspace. Blocks.
fn described(live: &Live, workspace: &hotcell_server::Workspace) -> Result<output::Workspace, ErrorReport> {
    let used = workspace.used()?;
    Ok(output::Workspace {
        workspace_id: workspace.id.clone(),
        files: used.files,
        bytes: used.bytes,
        bytes_left: live.workspaces().quotas().bytes.saturating_sub(used.bytes),
        removed: false,
        folder: workspace.folder()?.map(|folder| folder.to_string_lossy().into_owned()),
        snapshots: workspace.snapshots()?,
    })
}

/// Changes a caller's workspace, and describes it afterwards.
async fn changed(
    live: &Live,
    caller: &Caller,
    work: impl FnOnce(&Live, &Caller) -> Result<hotcell_server::Workspace, ErrorReport> + Send + 'static,
) -> Result<output::Workspace, ErrorReport> {
    let (live, caller) = (live.clone(), caller.clone());
    blocking(move || work(&live, &caller).and_then(|workspace| described(&live, &workspace))).await
}

/// Noun for that many entries of a workspace.
const fn entries(count: u64) -> &'static str {
    if count == 1 { "file or folder" } else { "files and folders" }
}

fn words(workspace: &output::Workspace) -> String {
    let mut words = format!("workspace_id {}: ", workspace.workspace_id);
    words.push_str(&match &workspace.folder {
        None => {
            format!("{} {}, {}", workspace.files, entries(workspace.files), counted(workspace.bytes, "byte"))
        }
        // Its own entries are not counted.
        Some(folder) => format!(
            "over {}, with {} changed {}, {}",
            shown(folder),
            workspace.files,
            entries(workspace.files),
            counted(workspace.bytes, "byte")
        ),
    });
    if !workspace.snapshots.is_empty() {
        let names: Vec<_> = workspace.snapshots.iter().map(|name| shown(name)).collect();
        words.push_str(&format!("; snapshots: {}", names.join(", ")));
    }
    words
}

pub async fn create(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: input::WorkspaceCreate = parse(arguments)?;
    let files = input::files(asked.files)?;
    let made = changed(live, caller, move |live, caller| {
        live.workspaces().create(caller, &files, asked.folder.as_deref())
    });
    let made = made.await?;
    Ok(answered(&made, words(&made)))
}

pub async fn write(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: input::WorkspaceWrite = parse(arguments)?;
    let files = input::files(asked.files)?;
    let written = files.len();
    let now = changed(live, caller, move |live, caller| {
        let workspace = live.workspaces().get(caller, &asked.workspace_id)?;
        workspace.write(&files).map(|()| workspace)
    });
    let now = now.await?;
    let files = if written == 1 { "file" } else { "files" };
    Ok(answered(&now, format!("{written} {files} written; {}", words(&now))))
}

pub async fn read(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: input::WorkspaceRead = parse(arguments)?;
    let (path, offset) = (asked.path.clone(), asked.offset);
    let (bytes, piece) = with(live, caller, &asked.workspace_id, move |workspace| {
        workspace.read(&path, offset, MAX_PART_BYTES)
    })
    .await?;
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
    let mut words = format!("{}, bytes {offset} to {} of {bytes}", shown(&file.path), file.next_offset);
    if file.next_offset < bytes {
        words.push_str(&format!("; read on from offset {}", file.next_offset));
    }
    let piece = if file.base64.is_some() {
        words.push_str("; in base64, because it is not text");
        if offset == 0 && crate::picture::kind(&piece).is_some() {
            words.push_str("; workspace_image shows it");
        }
        file.base64.clone()
    } else {
        file.text.clone()
    };
    if let Some(piece) = piece.filter(|piece| !piece.is_empty()) {
        words.push('\n');
        words.push_str(&piece);
    }
    Ok(answered(&file, words))
}

pub async fn list(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: input::WorkspaceList = parse(arguments)?;
    let Some(id) = asked.workspace_id else {
        if asked.path.is_some() {
            return Err(ErrorReport::new(Code::InvalidValue, "path needs workspace_id").field("workspace_id"));
        }
        let (held, owner) = (live.clone(), caller.clone());
        let all = blocking(move || {
            // A workspace may be removed while they are listed.
            let all = held.workspaces().list(&owner);
            Ok(all.iter().filter_map(|workspace| described(&held, workspace).ok()).collect::<Vec<_>>())
        });
        let all = all.await?;
        let lines: Vec<_> = all.iter().map(words).collect();
        let list = output::List {
            workspace_id: None,
            entries: Vec::new(),
            omitted: 0,
            snapshots: None,
            workspaces: all,
        };
        return Ok(answered(
            &list,
            if lines.is_empty() { "no workspaces".to_owned() } else { lines.join("\n") },
        ));
    };
    let below = asked.path;
    let found = with(live, caller, &id, move |workspace| {
        Ok((workspace.list(below.as_deref())?, workspace.snapshots()?))
    });
    let (found, snapshots) = found.await?;
    let mut room = MAX_LIST_CHARS;
    let fits = |e: &&hotcell_server::Entry| {
        let cost = e.path.len() + 60;
        room.checked_sub(cost).map(|rest| room = rest).is_some()
    };
    let shown_entries = found.iter().take(MAX_ENTRIES).take_while(fits).count();
    let omitted = found.len() - shown_entries;
    let entry = |e: hotcell_server::Entry| output::Entry {
        path: e.path,
        kind: match e.kind {
            hotcell_server::EntryKind::File => "file",
            hotcell_server::EntryKind::Folder => "folder",
            hotcell_server::EntryKind::Link => "link",
        }
        .to_owned(),
        bytes: e.bytes,
    };
    let entries: Vec<_> = found.into_iter().take(shown_entries).map(entry).collect();
    let mut lines: Vec<_> =
        entries.iter().map(|e| format!("{} {} {}", e.kind, e.bytes, shown(&e.path))).collect();
    if omitted > 0 {
        lines.push(format!("({omitted} more are left out; list a folder)"));
    }
    if lines.is_empty() {
        lines.push("empty".to_owned());
    }
    if !snapshots.is_empty() {
        let names: Vec<_> = snapshots.iter().map(|name| shown(name)).collect();
        lines.push(format!("snapshots: {}", names.join(", ")));
    }
    let (omitted, snapshots) = (omitted as u64, Some(snapshots).filter(|all| !all.is_empty()));
    let list = output::List { workspace_id: Some(id), entries, omitted, snapshots, workspaces: Vec::new() };
    Ok(answered(&list, lines.join("\n")))
}

pub async fn remove(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: input::WorkspaceRemove = parse(arguments)?;
    let Some(path) = asked.path else {
        let gone = changed_last(live, caller, asked.workspace_id).await?;
        return Ok(answered(&gone, "the workspace is removed"));
    };
    // Elsewhere an empty text counts as omitted; here it would remove everything.
    if path.is_empty() {
        let why = "path is empty, and nothing was removed";
        let hint = "name a file or folder, or leave path out (null) to remove the whole workspace";
        return Err(ErrorReport::new(Code::InvalidValue, why).field("path").hint(hint));
    }
    let of = path.clone();
    let now = changed(live, caller, move |live, caller| {
        let workspace = live.workspaces().get(caller, &asked.workspace_id)?;
        workspace.remove(&of).map(|()| workspace)
    });
    let now = now.await?;
    Ok(answered(&now, format!("{} is removed; {}", shown(&path), words(&now))))
}

/// Removes a workspace, and describes its last state.
async fn changed_last(live: &Live, caller: &Caller, id: String) -> Result<output::Workspace, ErrorReport> {
    let (live, caller) = (live.clone(), caller.clone());
    blocking(move || {
        let was = described(&live, &live.workspaces().get(&caller, &id)?)?;
        live.workspaces().remove(&caller, &id)?;
        Ok(output::Workspace { removed: true, ..was })
    })
    .await
}

/// Work on a caller's workspace.
pub(super) async fn with<T: Send + 'static>(
    live: &Live,
    caller: &Caller,
    id: &str,
    work: impl FnOnce(&hotcell_server::Workspace) -> Result<T, ErrorReport> + Send + 'static,
) -> Result<T, ErrorReport> {
    let (live, caller, id) = (live.clone(), caller.clone(), id.to_owned());
    blocking(move || work(&live.workspaces().get(&caller, &id)?)).await
}

pub async fn diff(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: input::WorkspaceDiff = parse(arguments)?;
    let (rows, text) = with(live, caller, &asked.workspace_id, hotcell_server::Workspace::diff).await?;
    let bytes = text.len() as u64;
    let from = text.floor_char_boundary(usize::try_from(asked.offset).unwrap_or(usize::MAX).min(text.len()));
    let rest = &text[from..];
    let (listed, room) = if from == 0 { fitting(&rows, MAX_PART_BYTES / 4) } else { (Vec::new(), 0) };
    let piece = rest[..beginning(rest, MAX_PART_BYTES - room)].to_owned();
    let diff = output::Diff {
        workspace_id: asked.workspace_id,
        changes_omitted: if from == 0 { (rows.len() - listed.len()) as u64 } else { 0 },
        changes: listed,
        offset: from as u64,
        next_offset: (from + piece.len()) as u64,
        bytes,
        diff: piece,
    };
    let words = format!(
        "{}; bytes {} to {} of {bytes} of the diff",
        counted(rows.len(), "changed path"),
        diff.offset,
        diff.next_offset
    );
    let mut words = words;
    for change in &diff.changes {
        let marks =
            if change.marks.is_empty() { String::new() } else { format!(" ({})", change.marks.join(", ")) };
        words.push_str(&format!("\n{} {}{marks}", change.kind, shown(&change.path)));
    }
    if diff.changes_omitted > 0 {
        words.push_str(&format!("\n({} more)", diff.changes_omitted));
    }
    let words = with_piece(words, Some(&diff.diff));
    Ok(answered(&diff, words))
}

/// The changes that fit, and their approximate size in characters.
pub(super) fn fitting(rows: &[Change], most: usize) -> (Vec<output::Changed>, usize) {
    let mut taken = 0;
    let mut listed = Vec::new();
    for row in rows {
        let kind = serde_json::to_value(row.kind).ok().and_then(|k| k.as_str().map(str::to_owned));
        let cost = beginning_cost(&row.path) + 60;
        if taken + cost > most {
            break;
        }
        taken += cost;
        listed.push(output::Changed {
            path: row.path.clone(),
            kind: kind.unwrap_or_default(),
            bytes: row.bytes,
            marks: names(&row.marks),
        });
    }
    (listed, taken)
}

fn names(marks: &[Mark]) -> Vec<String> {
    marks.iter().map(|mark| mark.name().to_owned()).collect()
}

fn beginning_cost(path: &str) -> usize {
    serde_json::Value::from(path).to_string().chars().count()
}

pub async fn commit(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: input::WorkspaceNamed = parse(arguments)?;
    let desk = live.approvals(caller)?;
    let commit = move |workspace: &hotcell_server::Workspace| workspace.commit(&desk);
    let taken = with(live, caller, &asked.workspace_id, commit).await?;
    let left = taken
        .left
        .iter()
        .take(MAX_OMITTED_PATHS)
        .map(|(path, why)| output::LeftOut { path: path.chars().take(300).collect(), why: why.clone() });
    let marked = taken
        .marked
        .iter()
        .take(MAX_OMITTED_PATHS)
        .map(|one| output::Marked { path: one.path.chars().take(300).collect(), marks: names(&one.marks) });
    let committed = output::Committed {
        workspace_id: asked.workspace_id,
        done: taken.done.len() as u64,
        left: left.collect(),
        left_omitted: taken.left.len().saturating_sub(MAX_OMITTED_PATHS) as u64,
        marked: marked.collect(),
        marked_omitted: taken.marked.len().saturating_sub(MAX_OMITTED_PATHS) as u64,
        approval: taken.standing.as_ref().and_then(|standing| Some(needed(standing.as_ref().ok()?))),
    };
    let mut words = format!("{} taken over", counted(committed.done, "path"));
    for left in &committed.left {
        words.push_str(&format!("\nleft out: {}: {}", shown(&left.path), shown(&left.why)));
    }
    for one in &committed.marked {
        words.push_str(&format!("\nlook at: {}: {}", shown(&one.path), one.marks.join(", ")));
    }
    let mut result = answered(&committed, words);
    if let Some(standing) = &taken.standing {
        tell(&mut result, standing);
    }
    Ok(result)
}

pub async fn discard(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: input::WorkspaceDiscard = parse(arguments)?;
    let now = changed(live, caller, move |live, caller| {
        let workspace = live.workspaces().get(caller, &asked.workspace_id)?;
        workspace.discard(asked.to.as_deref()).map(|()| workspace)
    });
    let now = now.await?;
    Ok(answered(&now, words(&now)))
}

pub async fn snapshot(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: input::WorkspaceSnapshot = parse(arguments)?;
    let now = changed(live, caller, move |live, caller| {
        let workspace = live.workspaces().get(caller, &asked.workspace_id)?;
        workspace.snapshot(&asked.name).map(|()| workspace)
    });
    let now = now.await?;
    Ok(answered(&now, words(&now)))
}

pub async fn fork(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: input::WorkspaceNamed = parse(arguments)?;
    let fork = changed(live, caller, move |live, caller| live.workspaces().fork(caller, &asked.workspace_id));
    let fork = fork.await?;
    Ok(answered(&fork, words(&fork)))
}

pub async fn export(live: &Live, caller: &Caller, arguments: JsonObject) -> Answered {
    let asked: input::WorkspaceNamed = parse(arguments)?;
    let archive = with(live, caller, &asked.workspace_id, hotcell_server::Workspace::export).await?;
    let bytes = archive.len() as u64;
    let short = archive.len() <= MAX_PART_BYTES / 4 * 3;
    let exported = output::Exported {
        uri: crate::uri::uri_of_archive(&asked.workspace_id),
        workspace_id: asked.workspace_id,
        bytes,
        base64: short.then(|| base64::engine::general_purpose::STANDARD.encode(&archive)),
    };
    let link =
        Resource::new(exported.uri.clone(), "archive").with_mime_type(crate::uri::TAR).with_size(bytes);
    let mut result =
        answered(&exported, format!("a tar archive of {}: {}", counted(bytes, "byte"), exported.uri));
    result.content.push(ContentBlock::resource_link(link));
    Ok(result)
}
