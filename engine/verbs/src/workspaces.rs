//! Permanent workspaces in the state folder: created from a folder, an archive or a git bundle, and used by
//! runs.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hotcell_sandbox::Engine;
use hotcell_sandbox::layer::likely;
use hotcell_sandbox::outcome::Outcome;
use hotcell_sandbox::policy::{Limits, Policy};
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::StateFolder;
use hotcell_workspace::store::{Quota, Source, Store, StoreError, Summary, Workspace};
use hotcell_workspace::{Change, CommitError, Folder};
use schemars::JsonSchema;
use serde::Serialize;

/// Value of the `schema` field of a workspace.
pub const SCHEMA: &str = "hotcell.workspace/1";
/// Value of the `schema` field of a list.
pub const LIST_SCHEMA: &str = "hotcell.workspaces/1";
/// Folder name in the state folder.
pub const FOLDER: &str = "workspaces";
/// Path of an archive in the sandbox.
const INSIDE: &str = "/home/sandbox/archive";

/// Workspace in the form `hotcell.workspace/1`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct WorkspaceReport {
    /// Always `hotcell.workspace/1`.
    pub schema: String,
    /// Id of the workspace.
    pub id: String,
    /// Folder that it was created from; `null` when it began empty.
    pub source: Option<String>,
    /// Size beside its source, in bytes.
    pub bytes: u64,
    /// Changed paths; `null` in a list.
    pub changes: Option<Vec<hotcell_report::Change>>,
    /// Result of a commit; `null` except for `workspace commit`.
    pub commit: Option<hotcell_report::Commit>,
    /// Names of its snapshots, the oldest first.
    pub snapshots: Vec<String>,
    /// Caller of an MCP server that owns it; `null` for the user's own.
    pub holder: Option<String>,
}

impl WorkspaceReport {
    /// Report on a workspace.
    #[must_use]
    pub fn of(summary: &Summary, changes: Option<&[Change]>) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            id: summary.id.clone(),
            source: match &summary.source {
                Source::Empty => None,
                Source::Folder(path) => Some(path.to_string_lossy().into_owned()),
            },
            bytes: summary.held.bytes,
            changes: changes.map(|all| all.iter().map(crate::changes::row).collect()),
            commit: None,
            snapshots: summary.snapshots.iter().map(|s| s.name.clone()).collect(),
            holder: summary.holder.clone(),
        }
    }
}

/// List of workspaces in the form `hotcell.workspaces/1`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct WorkspaceList {
    /// Always `hotcell.workspaces/1`.
    pub schema: String,
    /// Workspaces.
    pub workspaces: Vec<WorkspaceReport>,
}

impl WorkspaceList {
    /// All workspaces in a store.
    ///
    /// # Errors
    /// A report when the store cannot be read.
    pub fn of(store: &Store) -> Result<Self, ErrorReport> {
        let ids = store.ids().map_err(|e| report(&e))?;
        // One may disappear meanwhile.
        let looked = ids.iter().filter_map(|id| store.look(id).ok());
        Ok(Self {
            schema: LIST_SCHEMA.to_owned(),
            workspaces: looked.map(|summary| WorkspaceReport::of(&summary, None)).collect(),
        })
    }
}

/// Opens the store of a state folder.
///
/// # Errors
/// A report when it cannot be used.
pub fn store(state: &StateFolder) -> Result<Store, ErrorReport> {
    Store::open(&state.path().join(FOLDER), Quota::default(), None).map_err(|e| report(&e))
}

/// Tells if a path is a workspace's id, and not a folder.
#[must_use]
pub fn is_id(word: &Path) -> bool {
    word.to_str().is_some_and(|w| w.starts_with("ws_") && !w.contains('/')) && !word.exists()
}

/// Source of a new workspace.
#[derive(Clone, Debug)]
pub enum From {
    /// Empty.
    Empty,
    /// A folder.
    Folder(PathBuf),
    /// A tar archive, compressed or not, or a zip archive.
    Archive(PathBuf),
    /// A file written by `git bundle create`.
    Bundle(PathBuf),
}

/// Creates a workspace; archives and bundles are unpacked in a sandbox.
///
/// # Errors
/// A report when the source is not a folder or archive, or with the message of the unpacking program.
pub async fn create<'a>(store: &'a Store, engine: &Engine, from: From) -> Result<Workspace<'a>, ErrorReport> {
    let (file, command): (PathBuf, &[&str]) = match from {
        From::Empty => return store.create(Source::Empty).map_err(|e| report(&e)),
        From::Folder(path) => return store.create(Source::Folder(path)).map_err(|e| report(&e)),
        From::Bundle(file) => (file, &["/usr/bin/git", "clone", "--quiet", "--no-hardlinks", INSIDE, "."]),
        From::Archive(file) if is_zip(&file)? => {
            (file, &["/usr/bin/python3", "-m", "zipfile", "-e", INSIDE, "."])
        }
        From::Archive(file) => (file, &["/usr/bin/tar", "--extract", "--no-same-owner", "--file", INSIDE]),
    };
    let mut made = store.create(Source::Empty).map_err(|e| report(&e))?;
    let unpacked = unpack(&mut made, engine, &file, command).await;
    if unpacked.is_err() {
        let id = made.id().to_owned();
        drop(made);
        store.remove(&id).map_err(|e| report(&e))?;
        return Err(unpacked.err().unwrap_or_else(|| ErrorReport::new(Code::Internal, "not unpacked")));
    }
    Ok(made)
}

fn is_zip(file: &Path) -> Result<bool, ErrorReport> {
    let mut start = [0; 4];
    let read = File::open(file).and_then(|f| f.take(4).read(&mut start));
    let read = read.map_err(|e| unreadable(file, &e))?;
    Ok(start[..read] == *b"PK\x03\x04" || start[..read] == *b"PK\x05\x06")
}

fn unreadable(file: &Path, error: &io::Error) -> ErrorReport {
    ErrorReport::new(Code::InvalidValue, format!("{} cannot be read: {error}", file.display()))
        .hint("name a file that exists")
}

async fn unpack(
    made: &mut Workspace<'_>,
    engine: &Engine,
    file: &Path,
    command: &[&str],
) -> Result<(), ErrorReport> {
    let program = Path::new(command[0]);
    if !program.exists() {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        return Err(ErrorReport::new(
            Code::InvalidValue,
            format!("unpacking {} takes {name}", file.display()),
        )
        .hint(format!("install the package {name}")));
    }
    let file = file.canonicalize().map_err(|e| unreadable(file, &e))?;
    let (base, layers) = made.mount();
    let limits = Limits { wall: Duration::from_secs(600), ..hotcell_config::limits::for_tests() };
    let mut policy =
        Policy::new(command[0]).args(&command[1..]).workspace(base).read_only(&file, INSIDE).limits(limits);
    policy.shape.ceilings = policy.job.limits.clone();
    policy.job.layers = layers;
    let bad = |why: String| {
        ErrorReport::new(Code::InvalidValue, format!("{} cannot be unpacked: {why}", file.display()))
            .hint("tar, compressed tar and zip archives are; a bundle is what git bundle create wrote")
    };
    let running = engine.spawn(&policy).await.map_err(|refusal| bad(refusal.message))?;
    let finished = running.finish().await;
    if !finished.outcome.success() {
        return Err(bad(said(&finished.outcome)));
    }
    let mut changed = finished.changed.ok_or_else(|| bad("nothing was unpacked".to_owned()))?;
    changed.settle().await.map_err(|e| bad(e.to_string()))?;
    let upper = Folder::from_fd(changed.folder.try_clone().map_err(|e| bad(e.to_string()))?);
    made.absorb(&upper, changed.whole, &[]).map_err(|e| report(&e))?;
    Ok(())
}

/// Why an unpacking program failed: its first line of output, or how it ended.
fn said(outcome: &Outcome) -> String {
    let first =
        outcome.stderr.text.as_deref().and_then(|text| text.lines().find(|line| !line.trim().is_empty()));
    let reason = outcome.reason.as_deref().unwrap_or("it failed");
    first.map_or(reason, str::trim).to_owned()
}

/// Converts an error of the store into a report, with the nearest workspace for an unknown one.
#[must_use]
pub fn report_in(store: &Store, error: &StoreError) -> ErrorReport {
    let StoreError::Unknown(id) = error else { return report(error) };
    let ids = store.ids().unwrap_or_default();
    let unknown = ErrorReport::new(Code::UnknownName, format!("there is no workspace {id:?}")).field("ID");
    match likely(id, ids.iter().map(String::as_str)) {
        Some(near) => {
            unknown.hint(format!("did you mean {near}? hotcell workspace list shows which there are"))
        }
        None if ids.is_empty() => unknown.hint("no workspace is kept; hotcell workspace create makes one"),
        None => unknown.hint("hotcell workspace list shows which there are"),
    }
}

/// Converts an error of the store into a report.
#[must_use]
pub fn report(error: &StoreError) -> ErrorReport {
    let (code, hint) = match error {
        StoreError::Unknown(_) => (Code::UnknownName, Some("hotcell workspace list shows which there are")),
        StoreError::NoSnapshot(_) => (Code::UnknownName, Some("hotcell workspace list shows its snapshots")),
        StoreError::SnapshotTaken(_) | StoreError::Path(_) | StoreError::NoOriginal => {
            (Code::InvalidValue, None)
        }
        StoreError::InUse(_) => (Code::Busy, None),
        StoreError::Moved(_) => {
            (Code::InvalidValue, Some("run it again in the workspace as it is now, or in a fork"))
        }
        StoreError::Quota { .. } => (Code::Busy, Some("remove what is not needed")),
        StoreError::Source { .. } => (Code::InvalidValue, Some("name a folder that exists")),
        StoreError::Commit(CommitError::Conflict(_)) => (
            Code::InvalidValue,
            Some("look at both with hotcell workspace diff, then discard or merge by hand"),
        ),
        StoreError::Commit(_) | StoreError::Io(_) => (Code::State, None),
    };
    let report = ErrorReport::new(code, error.to_string());
    match hint {
        Some(hint) => report.hint(hint),
        None => report,
    }
}
