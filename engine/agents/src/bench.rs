//! The workspaces of a session: copies of the project, to which answers are applied, and in which tests run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hotcell_report::Commit;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_verbs::pinned::PinnedWorkspace;
use hotcell_verbs::{changes, workspaces};
use hotcell_workspace::store::{NewFile, Quota, Source, Store, StoreError, Workspace};
use hotcell_workspace::{CommitError, Folder, Stack, diff};

use crate::edit::{self, Edit, Malformed};
use crate::patch::Patch;
use crate::tree::{self, Target};

/// Time limit for waiting for a workspace that another process looks at.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of a diff, in bytes.
const MAX_DIFF_BYTES: usize = 4 << 20;

/// Changes of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Digest of the content.
    pub artifact: String,
    /// Files.
    pub files: Vec<String>,
    /// Lines that were added or removed.
    pub lines: u64,
    /// Unified diff, and digests.
    pub patch: Patch,
}

/// Workspaces in a store.
#[derive(Clone, Debug)]
pub struct Bench(pub Arc<Store>);

impl Bench {
    /// Makes a workspace over a folder.
    ///
    /// # Errors
    /// A report when the folder cannot be opened, or the store is full.
    pub fn make(&self, project: &Path) -> Result<String, ErrorReport> {
        let made = self.0.create(Source::Folder(project.to_owned())).map_err(|e| workspaces::report(&e))?;
        Ok(made.id().to_owned())
    }

    /// Makes a workspace over nothing, whose artifact 0 has these files.
    ///
    /// # Errors
    /// A report when they cannot be written, or the store is full.
    pub fn begin(&self, files: &[(String, String)]) -> Result<String, ErrorReport> {
        let mut made = self.0.create(Source::Empty).map_err(|e| workspaces::report(&e))?;
        let new = |(path, text): &(String, String)| NewFile {
            path: PathBuf::from(path),
            bytes: text.clone().into_bytes(),
            executable: false,
        };
        let all: Vec<NewFile> = files.iter().map(new).collect();
        made.write(&all).and_then(|()| made.snapshot(&name(0))).map_err(|e| workspaces::report(&e))?;
        Ok(made.id().to_owned())
    }

    /// Writes all files of an artifact into an empty folder.
    ///
    /// # Errors
    /// A report when the artifact cannot be read, or the folder not written.
    pub fn write_out(&self, id: &str, artifact: usize, to: &Path) -> Result<(), ErrorReport> {
        self.show(id, artifact)?;
        let bad = |e: std::io::Error| {
            ErrorReport::new(Code::InvalidValue, format!("{} cannot be written: {e}", to.display()))
        };
        let folder = Folder::open(to).map_err(bad)?;
        self.pin(id)?.pinned().copy_to(&folder, Quota::default()).map_err(|e| workspaces::report(&e))
    }

    /// Removes a workspace, if it is there.
    pub fn remove(&self, id: &str) {
        if let Err(error) = self.0.remove(id) {
            tracing::debug!("the workspace {id} stays: {error}");
        }
    }

    /// Makes another workspace with an artifact, which is artifact 1 there.
    ///
    /// # Errors
    /// A report when the workspace is gone, or the store is full.
    pub fn fork(&self, id: &str, artifact: usize) -> Result<String, ErrorReport> {
        self.show(id, artifact)?;
        let mut fork = self.0.fork(id).map_err(|e| workspaces::report(&e))?;
        fork.snapshot(&name(1)).map_err(|e| workspaces::report(&e))?;
        Ok(fork.id().to_owned())
    }

    fn take(&self, id: &str) -> Result<Workspace<'_>, ErrorReport> {
        self.0.take_within(id, BUSY_TIMEOUT).map_err(|e| workspaces::report(&e))
    }

    /// The workspace as it is now, for a run.
    ///
    /// # Errors
    /// A report when it is gone.
    pub fn pin(&self, id: &str) -> Result<Arc<PinnedWorkspace>, ErrorReport> {
        PinnedWorkspace::pin(&self.0, id).map_err(|e| workspaces::report(&e))
    }

    /// Goes to an artifact: 0 is the given code, or what a workspace over nothing began with.
    ///
    /// # Errors
    /// A report when it cannot be written.
    pub fn show(&self, id: &str, artifact: usize) -> Result<(), ErrorReport> {
        let mut workspace = self.take(id)?;
        go(&mut workspace, artifact)
    }

    /// Calls `work` with the view of an artifact.
    ///
    /// # Errors
    /// A report when it cannot be read.
    pub fn look<T>(
        &self,
        id: &str,
        work: impl FnOnce(&Stack<'_>) -> std::io::Result<T>,
    ) -> Result<T, ErrorReport> {
        let workspace = self.take(id)?;
        workspace.with_view(|_, view| work(view)).map_err(|e| workspaces::report(&e))
    }

    /// Reads an answer against an artifact; nothing is changed.
    ///
    /// # Errors
    /// A report when the workspace cannot be read; the inner error is for the model.
    pub fn read(
        &self,
        id: &str,
        artifact: usize,
        (text, cut): (&str, bool),
        (only, frozen): (Option<String>, &[String]),
    ) -> Result<Result<Edit, Malformed>, ErrorReport> {
        self.show(id, artifact)?;
        self.look(id, |view| Ok(edit::read(text, cut, &Target { view, only, frozen })))
    }

    /// Applies files to an artifact and keeps the result as another one. Applying again has the same result.
    ///
    /// # Errors
    /// A report when it cannot be written; nothing is applied then.
    pub fn apply(
        &self,
        id: &str,
        from: usize,
        to: usize,
        files: &[(String, String)],
    ) -> Result<Changed, ErrorReport> {
        let mut workspace = self.take(id)?;
        go(&mut workspace, from)?;
        let modes = |view: &Stack<'_>| {
            let is_executable = |(path, _): &(String, String)| {
                view.node(Path::new(path)).ok().flatten().is_some_and(|node| node.mode & 0o111 != 0)
            };
            files.iter().map(is_executable).collect::<Vec<_>>()
        };
        let modes = workspace.with_view(|_, view| Ok(modes(view))).map_err(|e| workspaces::report(&e))?;
        let new: Vec<NewFile> = files
            .iter()
            .zip(modes)
            .map(|((path, text), executable)| NewFile {
                path: PathBuf::from(path),
                bytes: text.clone().into_bytes(),
                executable,
            })
            .collect();
        workspace.write(&new).map_err(|e| workspaces::report(&e))?;
        match workspace.snapshot(&name(to)) {
            Ok(()) | Err(StoreError::SnapshotTaken(_)) => changed(&workspace),
            Err(error) => Err(workspaces::report(&error)),
        }
    }

    /// Changes of an artifact against the given code.
    ///
    /// # Errors
    /// A report when they cannot be read.
    pub fn changed(&self, id: &str, artifact: usize) -> Result<Changed, ErrorReport> {
        let mut workspace = self.take(id)?;
        go(&mut workspace, artifact)?;
        changed(&workspace)
    }

    /// Writes the changes of an artifact to the project, by the rules of a run's commit. A changed path with the
    /// contents that `patch` was made against, or with its new ones, is free of conflicts whatever its times are.
    ///
    /// # Errors
    /// A report when the workspace cannot be read. A conflict is in the result.
    pub fn commit(
        &self,
        id: &str,
        artifact: usize,
        (project, patch): (&Path, Option<&Patch>),
    ) -> Result<Commit, ErrorReport> {
        let mut workspace = self.take(id)?;
        go(&mut workspace, artifact)?;
        let owner = workspace.owner_of_source();
        // Whatever changes after this moment is a conflict, so that nothing is missed between the look and the commit.
        let moment = hotcell_workspace::moment();
        let committed = match patch.map(|patch| patch.conflicts(project)) {
            Some(Ok(paths)) if paths.is_empty() => workspace.commit_as_of(moment, false, owner),
            Some(Ok(paths)) => {
                Err(CommitError::Conflict(paths.into_iter().map(PathBuf::from).collect()).into())
            }
            Some(Err(_)) | None => workspace.commit(false, owner),
        };
        match committed {
            Ok(committed) => Ok(changes::told(Ok(committed))),
            Err(StoreError::Commit(error)) => Ok(changes::told(Err(error))),
            Err(other) => Err(workspaces::report(&other)),
        }
    }
}

fn name(artifact: usize) -> String {
    format!("artifact-{artifact}")
}

fn go(workspace: &mut Workspace<'_>, artifact: usize) -> Result<(), ErrorReport> {
    let gone = match workspace.discard(Some(&name(artifact))) {
        Err(StoreError::NoSnapshot(_)) if artifact == 0 => workspace.discard(None),
        other => other,
    };
    gone.map_err(|e| workspaces::report(&e))
}

fn changed(workspace: &Workspace<'_>) -> Result<Changed, ErrorReport> {
    let all = workspace.changes().map_err(|e| workspaces::report(&e))?;
    let read = |before: &Stack<'_>, after: &Stack<'_>| {
        let diff = diff(before, after, &all, MAX_DIFF_BYTES)?;
        Ok((tree::digest(after, &all)?, Patch::of(before, after, &all, diff)?))
    };
    let (artifact, patch) = workspace.with_view(read).map_err(|e| workspaces::report(&e))?;
    let is_change = |line: &&str| {
        (line.starts_with('+') && !line.starts_with("+++ "))
            || (line.starts_with('-') && !line.starts_with("--- "))
    };
    Ok(Changed {
        artifact,
        files: all.iter().map(|change| change.path.to_string_lossy().into_owned()).collect(),
        lines: patch.diff.lines().filter(is_change).count() as u64,
        patch,
    })
}
