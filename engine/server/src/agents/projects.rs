//! Projects of callers' sessions: copies of workspaces in the state folder. The newest are kept, with the workspaces of their sessions.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hotcell_agents::bench::Bench;
use hotcell_agents::journal::{Entry, Journal};
use hotcell_state::ids::random_hex;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::StateFolder;
use hotcell_verbs::pinned::PinnedWorkspace;
use hotcell_workspace::Folder;
use hotcell_workspace::store::Quota;

use crate::workspaces::errors::of_store;

/// Folder in the state folder.
const FOLDER: &str = "agent-projects";
/// Number of projects that are kept.
const MAX_PROJECTS: usize = 20;
/// Number of sessions of one caller that are kept.
const MAX_OF_CALLER: usize = 100;
/// Age from which a folder without a session is a leftover.
const LEFT_AGE: Duration = Duration::from_secs(3600);
/// Quota of a project.
const QUOTA: Quota = Quota { bytes: 256 << 20, files: 65_536 };

/// Copies a workspace into a new folder.
pub(super) fn copy(state: &StateFolder, kept: &PinnedWorkspace) -> Result<PathBuf, ErrorReport> {
    let failed =
        |e: std::io::Error| ErrorReport::new(Code::State, format!("the project cannot be copied: {e}"));
    let path = state.path().join(FOLDER).join(random_hex(8)?);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(failed)?;
    let copied = Folder::open(&path)
        .map_err(failed)
        .and_then(|folder| kept.pinned().copy_to(&folder, QUOTA).map_err(|e| of_store(&e)));
    if copied.is_err() {
        remove(&path);
    }
    copied.map(|()| path)
}

/// Removes a project's folder.
pub(super) fn remove(path: &Path) {
    if let Err(error) = std::fs::remove_dir_all(path)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!("a project of a session stays: {error}");
    }
}

/// Removes a session's workspaces.
fn remove_workspaces(bench: &Bench, journal: &Journal, session: &str) {
    for row in journal.rows(session).unwrap_or_default() {
        if let Entry::Workspace { id } = row.entry {
            bench.remove(&id);
        }
    }
}

/// Removes the oldest of a caller's sessions beyond the maximum, so that none can push the others' out of the journal.
pub(super) fn forget(
    state: &StateFolder,
    bench: &Bench,
    journal: &Journal,
    own: &[String],
    is_running: &dyn Fn(&str) -> bool,
) {
    let Ok(sessions) = journal.list() else { return };
    let own = sessions.into_iter().filter(|session| own.contains(&session.id));
    for session in own.skip(MAX_OF_CALLER - 1).filter(|session| !is_running(&session.id)) {
        remove_workspaces(bench, journal, &session.id);
        let project = Path::new(&session.task.project);
        // Nothing else is ever removed, whatever a row says.
        if project.parent() == Some(&state.path().join(FOLDER)) {
            remove(project);
        }
        if let Err(error) = journal.remove(&session.id) {
            tracing::warn!("the session {} stays: {error}", session.id);
        }
    }
}

/// Removes the oldest projects beyond the maximum, with the workspaces of their sessions, unless `is_running`, and leftovers.
pub(super) fn prune(
    state: &StateFolder,
    bench: &Bench,
    journal: &Journal,
    is_running: &dyn Fn(&str) -> bool,
) {
    let top = state.path().join(FOLDER);
    let Ok(sessions) = journal.list() else { return };
    let mut kept = 0;
    let mut known = std::collections::HashSet::new();
    for session in sessions {
        let project = PathBuf::from(&session.task.project);
        if project.parent() != Some(&top) || !project.is_dir() {
            continue;
        }
        known.insert(project.clone());
        kept += 1;
        if kept <= MAX_PROJECTS || is_running(&session.id) {
            continue;
        }
        remove_workspaces(bench, journal, &session.id);
        remove(&project);
    }
    for entry in top.read_dir().into_iter().flatten().flatten() {
        let age = entry.metadata().and_then(|meta| meta.modified()).ok().and_then(|at| at.elapsed().ok());
        if !known.contains(&entry.path()) && age.is_some_and(|age| age > LEFT_AGE) {
            remove(&entry.path());
        }
    }
}
