//! Changes that a run made in its workspace: reported in the outcome, shown as a diff, committed to the
//! original.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hotcell_report::{Change, ChangeKind, Commit, LeftOut, Mark, Marked, RunReport};
use hotcell_review::binaries;
use hotcell_review::quarantine::QuarantineConfig;
use hotcell_sandbox::Changed;
use hotcell_sandbox::policy::{PROJECT, Policy};
use hotcell_workspace::admit::{self, Left};
use hotcell_workspace::store::{StoreError, Workspace};
use hotcell_workspace::{
    CommitError, CommitOptions, Folder, Kind, Layer, Marks, Stack, What, changes, commit, diff,
};

use crate::outputs::OutputRequest;
use crate::pinned::PinnedWorkspace;

/// Maximum number of rows in an outcome.
const MAX_ROWS: usize = 10_000;
/// Maximum number of paths examined.
const MAX_PATHS: usize = 2_000_000;
/// How a user of the command line commits protected names.
const BY_OPTION: &str = "‹allow_protected› takes it over";
/// Reason why special files are not kept in a workspace.
const NO_SPECIAL: &str = "devices, pipes and sockets are not kept in a workspace";
/// Maximum size of the diff in an outcome, in bytes.
const MAX_DIFF_BYTES: usize = 4 << 20;

/// How to treat the changes of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangePolicy {
    /// Show a diff.
    pub diff: bool,
    /// Commit them when the program exits with 0.
    pub commit: bool,
    /// Commit protected names as well.
    pub allow_protected: bool,
    /// Commit them however the program ends, for a caller that reads the folder itself.
    pub after_failure: bool,
    /// Keep them in the workspace of the run, however it ends; for a pinned workspace.
    pub stay: bool,
}

/// Reader of a workspace as a run left it, however that ended.
pub trait ViewReader: Send + Sync + std::fmt::Debug {
    /// Reads the view, which is hostile. Blocks.
    fn read(&self, view: &Stack<'_>);
}

/// Baseline of a workspace, taken before a run.
#[derive(Clone, Debug)]
pub struct WorkspaceBaseline {
    original: PathBuf,
    layers: Vec<PathBuf>,
    since: (i64, i64),
    ignored: Vec<PathBuf>,
    keep: ChangePolicy,
    /// Maximum number of bytes that the program may write.
    most: u64,
    /// The pinned workspace, if the run is in one.
    kept: Option<Arc<PinnedWorkspace>>,
    /// Where it is noted which binaries a commit took over.
    noted: Option<QuarantineConfig>,
    /// Files that are copied out.
    outputs: Option<OutputRequest>,
    /// Reader of the workspace after the run.
    reader: Option<Arc<dyn ViewReader>>,
}

impl WorkspaceBaseline {
    /// Start of the view of the workspace, to be taken before anything reads it; needed only for a commit.
    #[must_use]
    pub fn moment(keep: ChangePolicy) -> (i64, i64) {
        if keep.commit { hotcell_workspace::moment() } else { (0, 0) }
    }

    /// Baseline of a policy's workspace, with changes counted since a moment; `kept` is the pinned workspace,
    /// if it is one.
    #[must_use]
    pub fn of(
        policy: &Policy,
        since: (i64, i64),
        keep: ChangePolicy,
        kept: Option<Arc<PinnedWorkspace>>,
    ) -> Option<Self> {
        let (original, layers) = match &kept {
            Some(kept) => kept.mount(),
            None => (policy.job.workspace.clone()?, policy.job.layers.clone()),
        };
        let binds = policy.job.binds.iter().map(|b| &b.inside).chain(&policy.job.toolchains);
        let ignored = binds.filter_map(|p| p.strip_prefix(PROJECT).ok()).map(Path::to_owned).collect();
        let most = policy.job.limits.disk.0;
        Some(Self {
            original,
            layers,
            since,
            ignored,
            keep,
            most,
            kept,
            noted: None,
            outputs: None,
            reader: None,
        })
    }

    /// Leaves out changes below these paths: they are neither reported nor committed.
    #[must_use]
    pub fn without(mut self, paths: impl Iterator<Item = PathBuf>) -> Self {
        self.ignored.extend(paths);
        self
    }

    /// Copies files out of the workspace, however the run ends.
    #[must_use]
    pub fn copying(self, outputs: OutputRequest) -> Self {
        outputs.of_workspace();
        Self { outputs: Some(outputs), ..self }
    }

    /// Shows the workspace to a reader, however the run ends. Where the workspace cannot be read, the reader is not called.
    #[must_use]
    pub fn reading(self, reader: Arc<dyn ViewReader>) -> Self {
        Self { reader: Some(reader), ..self }
    }

    /// Notes the machine code that a commit takes over: it may run later, unread ([`hotcell_review::binaries`]).
    #[must_use]
    pub fn noting(self, keep: Option<QuarantineConfig>) -> Self {
        Self { noted: keep, ..self }
    }

    /// Tells in the outcome what was changed, and does with it what was asked for: a commit only after
    /// `success`. One that fails is told there too.
    ///
    /// # Errors
    /// When the changes cannot be read although the request needs them.
    pub async fn collect(
        self,
        changed: Option<Changed>,
        outcome: &mut RunReport,
        success: bool,
    ) -> io::Result<()> {
        if changed.is_none() && nothing_ran(outcome) {
            return Ok(());
        }
        let (keep, outputs) = (self.keep, self.outputs.clone());
        let collected = match settled(changed).await {
            Ok(changed) => tokio::task::spawn_blocking(move || self.read(&changed, success))
                .await
                .unwrap_or_else(|e| Err(io::Error::other(e))),
            Err(error) => Err(error),
        };
        if let (Err(error), Some(outputs)) = (&collected, &outputs) {
            outputs.failed(error);
        }
        match collected {
            Err(error) if keep.diff || keep.commit || keep.stay => {
                let unread = |then: &str| {
                    let error = Some(format!("what was changed cannot be read: {error}; {then}"));
                    Some(Commit { error, ..Commit::default() })
                };
                if keep.stay {
                    outcome.kept = unread("the workspace is as it was");
                }
                if keep.commit && (success || keep.after_failure) {
                    outcome.commit = unread("nothing was taken over");
                }
                Err(error)
            }
            collected => {
                tell(collected, outcome);
                Ok(())
            }
        }
    }

    fn read(self, changed: &Changed, success: bool) -> io::Result<Collected> {
        let original = Folder::open(&self.original)?;
        let layers = self.layers.iter().map(|l| Folder::ours(l)).collect::<io::Result<Vec<_>>>()?;
        let before = Stack::new(layers.iter().map(Layer::over), &original);
        let whole = changed.whole;
        let upper = Folder::from_fd(changed.folder.try_clone()?);
        let layer = Layer { folder: &upper, whole };
        let all = changes(&before, &[layer], &self.ignored, MAX_PATHS)?;
        let after = before.with(layer);
        if let Some(outputs) = &self.outputs {
            outputs.from_changes(&all, &upper);
        }
        if let Some(reader) = &self.reader {
            reader.read(&after);
        }
        let rows = all.iter().take(MAX_ROWS).map(row).collect();
        let diff = if self.keep.diff { Some(diff(&before, &after, &all, MAX_DIFF_BYTES)?) } else { None };
        if let Some(kept) = self.kept.filter(|_| self.keep.stay) {
            let (stays, commit) = stay(&kept, (&upper, whole, &self.ignored), self.keep, success);
            return Ok(Collected { rows, diff, commit, kept: Some(stays) });
        }
        let commit = (self.keep.commit && (success || self.keep.after_failure)).then(|| {
            let owner = original.node(Path::new("")).ok().flatten().map(|node| node.owner);
            let allow = self.keep.allow_protected.into();
            let terms = CommitOptions { since: self.since, allow, owner, most: self.most };
            let committed = commit(&after, &original, &all, &terms);
            if let (Ok(committed), Some(noted)) = (&committed, &self.noted) {
                binaries::note_written(
                    noted,
                    binaries::written(&self.original, committed.done.iter().cloned()),
                );
            }
            told(committed)
        });
        Ok(Collected { rows, diff, commit, kept: None })
    }
}

/// True when no program ran, or only a compiler that produced none.
fn nothing_ran(outcome: &RunReport) -> bool {
    outcome.usage.wall_us.is_none() || outcome.compile.as_ref().is_some_and(|compile| !compile.done)
}

/// The changes of a run, once no process of the run is alive.
async fn settled(changed: Option<Changed>) -> io::Result<Changed> {
    let mut changed = changed.ok_or_else(|| io::Error::other("the workspace cannot be opened any more"))?;
    changed.settle().await?;
    Ok(changed)
}

fn tell(collected: io::Result<Collected>, outcome: &mut RunReport) {
    match collected {
        Ok(collected) => {
            outcome.changes = Some(collected.rows);
            outcome.diff = collected.diff;
            outcome.commit = collected.commit;
            outcome.kept = collected.kept;
        }
        Err(error) => {
            tracing::warn!(target: "hotcell_contents", "what was changed in the workspace cannot be told: {error}");
        }
    }
}

struct Collected {
    rows: Vec<Change>,
    diff: Option<String>,
    commit: Option<Commit>,
    kept: Option<Commit>,
}

/// Adds a run's changes to its pinned workspace, however the run ended, and commits them after `success` if
/// requested.
fn stay(
    kept: &PinnedWorkspace,
    (upper, whole, ignored): (&Folder, bool, &[PathBuf]),
    keep: ChangePolicy,
    success: bool,
) -> (Commit, Option<Commit>) {
    let absorbed = kept.take().and_then(|mut workspace| {
        let found = workspace.absorb_since(kept.pinned(), upper, whole, ignored)?;
        Ok((workspace, found))
    });
    let (mut workspace, found) = match absorbed {
        Ok(absorbed) => absorbed,
        Err(error) => return (not_kept(&error), None),
    };
    let kept = all_but_special(&found);
    let commit = (keep.commit && success).then(|| {
        let owner = workspace.owner_of_source();
        commit_of(&mut workspace, keep.allow_protected, owner)
    });
    (kept, commit)
}

/// Result for changes that stay in a workspace, which holds no devices, pipes and sockets.
fn all_but_special(found: &[hotcell_workspace::Change]) -> Commit {
    let special = |change: &&hotcell_workspace::Change| {
        change.after.is_some_and(|node| matches!(node.kind, Kind::Special | Kind::Whiteout))
    };
    let left: Vec<_> = found
        .iter()
        .filter(special)
        .map(|change| LeftOut { path: text(&change.path), why: NO_SPECIAL.to_owned() })
        .collect();
    Commit { done: (found.len() - left.len()) as u64, left, ..Commit::default() }
}

fn not_kept(error: &StoreError) -> Commit {
    let conflicts = match error {
        StoreError::Moved(paths) => paths.iter().map(|p| p.to_string_lossy().into_owned()).collect(),
        _ => Vec::new(),
    };
    Commit { error: Some(error.to_string()), conflicts, ..Commit::default() }
}

/// Commits a workspace and converts the result for an outcome.
fn commit_of(workspace: &mut Workspace<'_>, allow_protected: bool, owner: Option<(u32, u32)>) -> Commit {
    match workspace.commit(allow_protected, owner) {
        Ok(committed) => told(Ok(committed)),
        Err(StoreError::Commit(error)) => told(Err(error)),
        Err(other) => Commit { error: Some(other.to_string()), ..Commit::default() },
    }
}

/// A change as it is shown.
#[must_use]
pub fn row(change: &hotcell_workspace::Change) -> Change {
    Change {
        path: change.path.to_string_lossy().into_owned(),
        kind: match change.what {
            What::Added => ChangeKind::Added,
            What::Modified => ChangeKind::Modified,
            What::Deleted => ChangeKind::Deleted,
            What::TypeChanged => ChangeKind::TypeChanged,
        },
        bytes: change.after.map_or(0, |node| node.bytes),
        marks: marks(Marks::of(change)),
    }
}

fn marks(marks: Marks) -> Vec<Mark> {
    let all = [
        (marks.hidden, Mark::Hidden),
        (marks.executable, Mark::Executable),
        (marks.link, Mark::Link),
        (marks.mode, Mark::Mode),
    ];
    all.into_iter().filter(|(is, _)| *is).map(|(_, mark)| mark).collect()
}

/// Committed paths that a person should look at.
pub fn marked(committed: &hotcell_workspace::Committed) -> Vec<Marked> {
    let row = |(path, of): &(PathBuf, Marks)| Marked { path: text(path), marks: marks(*of) };
    committed.marked.iter().take(MAX_ROWS).map(row).collect()
}

/// Paths that a commit left out, with the reasons; `how` as in [`admit::told`].
pub fn left_out(left: &[(PathBuf, Left)], how: &str) -> Vec<LeftOut> {
    let row = |(path, why): (PathBuf, String)| LeftOut { path: text(&path), why };
    admit::told(left, how).into_iter().map(row).collect()
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Converts the result of a commit for an outcome.
#[must_use]
pub fn told(result: Result<hotcell_workspace::Committed, CommitError>) -> Commit {
    match result {
        Ok(committed) => Commit {
            done: committed.done.len() as u64,
            left: left_out(&committed.left, BY_OPTION),
            marked: marked(&committed),
            ..Commit::default()
        },
        Err(error) => {
            let (done, conflicts) = match &error {
                CommitError::Conflict(paths) => (0, paths.iter().map(|p| text(p)).collect()),
                CommitError::Stopped { done, .. } => (done.len() as u64, Vec::new()),
                CommitError::Unread { .. } | CommitError::NotStored { .. } => (0, Vec::new()),
            };
            Commit { done, error: Some(error.to_string()), conflicts, ..Commit::default() }
        }
    }
}
