//! Protected names in a commit: the exact subject that a person approves.

use std::io;
use std::path::Path;

use hotcell_review::approvals::content::Content;
use hotcell_review::permission::subject::{ApprovalSubject, MAX_TEXT_BYTES, whole};
use hotcell_state::report::ErrorReport;
use hotcell_workspace::store::Workspace;
use hotcell_workspace::{Allow, Folder, Judge, diff};

use crate::workspaces::errors::of_store;

/// Maximum number of names listed.
const MAX_NAMES: usize = 100;
/// Maximum size of a diff, in bytes: one byte more than a person may be asked to read, so that a longer one
/// is noticed.
const MAX_DIFF_BYTES: usize = MAX_TEXT_BYTES + 1;

/// Subject of the request to commit protected names of a workspace, whose other changes are committed
/// already.
pub fn asked(workspace: &Workspace<'_>, folder: &Path) -> Result<ApprovalSubject, ErrorReport> {
    let mut found = workspace.changes().map_err(|e| of_store(&e))?;
    let judged = workspace.with_view(|before, after| {
        let mut judge = Judge::new(&Folder::open(folder)?, before, after, Allow::Names)?;
        let mut admitted = Vec::new();
        for change in found.drain(..) {
            if judge.left(&change)?.is_none() {
                admitted.push(change);
            }
        }
        Ok(admitted)
    });
    let found = judged.map_err(|e| of_store(&e))?;
    let folder = folder.to_string_lossy().into_owned();
    let mut content = Content::default();
    content.text(workspace.id().as_bytes());
    content.text(folder.as_bytes());
    let read = workspace.with_view(|before, after| -> io::Result<String> {
        content.changes(after, found.iter())?;
        diff(before, after, &found, MAX_DIFF_BYTES)
    });
    let shown = read.map_err(|e| of_store(&e))?;
    Ok(ApprovalSubject::Protected {
        workspace: workspace.id().to_owned(),
        folder,
        paths: found
            .iter()
            .take(MAX_NAMES)
            .map(|change| change.path.to_string_lossy().into_owned())
            .collect(),
        total: found.len() as u64,
        content: content.finish(),
        shown: whole(shown)?,
    })
}
