//! Protected names in a commit: what exactly a person approves.

use std::io;
use std::path::Path;

use hotcell_workspace::commit::admit;
use hotcell_workspace::diff;
use hotcell_workspace::store::Workspace;

use super::told::of_store;
use crate::approvals::content::Content;
use crate::approvals::what::{SHOWN, What, beginning};
use crate::report::ErrorReport;

/// Names that are listed.
const NAMES: usize = 100;
/// The longest diff that is looked at for what is shown, in bytes.
const LONGEST: usize = 4 * SHOWN;

/// What a commit of a workspace would take over if protected names were allowed: for one of which the others are taken over already.
pub(super) fn asked(workspace: &Workspace<'_>, folder: &Path) -> Result<What, ErrorReport> {
    let mut found = workspace.changes().map_err(|e| of_store(&e))?;
    found.retain(|change| admit(change, true).is_none());
    let folder = folder.to_string_lossy().into_owned();
    let mut content = Content::default();
    content.text(workspace.id().as_bytes());
    content.text(folder.as_bytes());
    let read = workspace.with_view(|before, after| -> io::Result<String> {
        content.changes(after, found.iter())?;
        diff(before, after, &found, LONGEST)
    });
    let shown = read.map_err(|e| of_store(&e))?;
    Ok(What::Protected {
        workspace: workspace.id().to_owned(),
        folder,
        paths: found.iter().take(NAMES).map(|change| change.path.to_string_lossy().into_owned()).collect(),
        total: found.len() as u64,
        content: content.finish(),
        shown: beginning(&shown),
    })
}
