//! What a run changed in its workspace: told in the outcome, shown as a diff, taken over into the original.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hotcell_sandbox::Changed;
use hotcell_sandbox::outcome::{Change, ChangeKind, Commit, LeftOut, Outcome};
use hotcell_sandbox::policy::{PROJECT, Policy};
use hotcell_workspace::store::{StoreError, Workspace};
use hotcell_workspace::{CommitError, Folder, Layer, Stack, Terms, What, changes, commit, diff};

use crate::kept::Kept;

/// Rows in an outcome.
const MOST_ROWS: usize = 10_000;
/// Paths that are looked at.
const MOST_PATHS: usize = 2_000_000;
/// The longest diff in an outcome, in bytes.
const LONGEST_DIFF: usize = 4 << 20;

/// What to do with the changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Show them.
    pub diff: bool,
    /// Take them over when the program ends with 0.
    pub commit: bool,
    /// Take over protected names as well.
    pub allow_protected: bool,
    /// Leave them in the workspace that the run is in, however it ends; for one that stays.
    pub stay: bool,
}

/// A workspace as it is before a run.
#[derive(Clone, Debug)]
pub struct Before {
    original: PathBuf,
    layers: Vec<PathBuf>,
    since: (i64, i64),
    ignored: Vec<PathBuf>,
    keep: Keep,
    /// The most that the program may write.
    most: u64,
    /// The workspace, where it is one that stays.
    kept: Option<Arc<Kept>>,
}

impl Before {
    /// When the view of the workspace begins; before anything looks at it. Only a commit asks for it.
    #[must_use]
    pub fn moment(keep: Keep) -> (i64, i64) {
        if keep.commit { hotcell_workspace::moment() } else { (0, 0) }
    }

    /// The workspace of a policy, seen since a moment; `kept` when it is one that stays.
    #[must_use]
    pub fn of(policy: &Policy, since: (i64, i64), keep: Keep, kept: Option<Arc<Kept>>) -> Option<Self> {
        let (original, layers) = match &kept {
            Some(kept) => kept.mount(),
            None => (policy.job.workspace.clone()?, policy.job.layers.clone()),
        };
        let binds = policy.job.binds.iter().map(|b| &b.inside).chain(&policy.job.toolchains);
        let ignored = binds.filter_map(|p| p.strip_prefix(PROJECT).ok()).map(Path::to_owned).collect();
        let most = policy.job.limits.disk.0;
        Some(Self { original, layers, since, ignored, keep, most, kept })
    }

    /// Tells in the outcome what was changed, and does with it what was asked for: a commit only after
    /// `success`. One that fails is told there too.
    ///
    /// # Errors
    /// What was changed cannot be read, and somebody asked for it.
    pub async fn collect(
        self,
        changed: Option<Changed>,
        outcome: &mut Outcome,
        success: bool,
    ) -> io::Result<()> {
        if changed.is_none() && nothing_ran(outcome) {
            return Ok(());
        }
        let keep = self.keep;
        let collected = match settled(changed).await {
            Ok(changed) => tokio::task::spawn_blocking(move || self.read(&changed, success))
                .await
                .unwrap_or_else(|e| Err(io::Error::other(e))),
            Err(error) => Err(error),
        };
        match collected {
            Err(error) if keep.diff || keep.commit || keep.stay => {
                let unread = |then: &str| {
                    let error = Some(format!("what was changed cannot be read: {error}; {then}"));
                    Some(Commit { error, ..Commit::default() })
                };
                if keep.stay {
                    outcome.kept = unread("the workspace is as it was");
                }
                if keep.commit && success {
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
        let all = changes(&before, &[layer], &self.ignored, MOST_PATHS)?;
        let after = before.with(layer);
        let rows = all.iter().take(MOST_ROWS).map(row).collect();
        let diff = if self.keep.diff { Some(diff(&before, &after, &all, LONGEST_DIFF)?) } else { None };
        if let Some(kept) = self.kept.filter(|_| self.keep.stay) {
            let (stays, commit) = stay(&kept, (&upper, whole, &self.ignored), self.keep, success);
            return Ok(Collected { rows, diff, commit, kept: Some(stays) });
        }
        let commit = (self.keep.commit && success).then(|| {
            let owner = original.node(Path::new("")).ok().flatten().map(|node| node.owner);
            let (since, allow_protected) = (self.since, self.keep.allow_protected);
            let terms = Terms { since, allow_protected, owner, most: self.most };
            told(commit(&after, &original, &all, &terms))
        });
        Ok(Collected { rows, diff, commit, kept: None })
    }
}

/// Nothing ran, or only a compiler that made no program.
fn nothing_ran(outcome: &Outcome) -> bool {
    outcome.usage.wall_us.is_none() || outcome.compile.as_ref().is_some_and(|compile| !compile.done)
}

/// The changes of a run that took place, when nothing of it is alive any more.
async fn settled(changed: Option<Changed>) -> io::Result<Changed> {
    let mut changed = changed.ok_or_else(|| io::Error::other("the workspace cannot be opened any more"))?;
    changed.settle().await?;
    Ok(changed)
}

fn tell(collected: io::Result<Collected>, outcome: &mut Outcome) {
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

/// Adds a run's changes to its workspace, however it ended, and commits them after `success` where that was asked for.
fn stay(
    kept: &Kept,
    (upper, whole, ignored): (&Folder, bool, &[PathBuf]),
    keep: Keep,
    success: bool,
) -> (Commit, Option<Commit>) {
    let absorbed = kept.take().and_then(|mut workspace| {
        let found = workspace.absorb_since(kept.pinned(), upper, whole, ignored)?;
        Ok((workspace, found.len() as u64))
    });
    let (mut workspace, done) = match absorbed {
        Ok(absorbed) => absorbed,
        Err(error) => return (not_kept(&error), None),
    };
    let commit = (keep.commit && success).then(|| {
        let owner = workspace.owner_of_source();
        commit_of(&mut workspace, keep.allow_protected, owner)
    });
    (Commit { done, ..Commit::default() }, commit)
}

fn not_kept(error: &StoreError) -> Commit {
    let conflicts = match error {
        StoreError::Moved(paths) => paths.iter().map(|p| p.to_string_lossy().into_owned()).collect(),
        _ => Vec::new(),
    };
    Commit { error: Some(error.to_string()), conflicts, ..Commit::default() }
}

/// Commits a workspace, and tells it as an outcome does.
fn commit_of(workspace: &mut Workspace<'_>, allow_protected: bool, owner: Option<(u32, u32)>) -> Commit {
    match workspace.commit(allow_protected, owner) {
        Ok(committed) => told(Ok(committed)),
        Err(StoreError::Commit(error)) => told(Err(error)),
        Err(other) => Commit { error: Some(other.to_string()), ..Commit::default() },
    }
}

pub(crate) fn row(change: &hotcell_workspace::Change) -> Change {
    Change {
        path: change.path.to_string_lossy().into_owned(),
        kind: match change.what {
            What::Added => ChangeKind::Added,
            What::Modified => ChangeKind::Modified,
            What::Deleted => ChangeKind::Deleted,
            What::TypeChanged => ChangeKind::TypeChanged,
        },
        bytes: change.after.map_or(0, |node| node.bytes),
    }
}

/// A commit as an outcome tells it.
pub(crate) fn told(result: Result<hotcell_workspace::Committed, CommitError>) -> Commit {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    match result {
        Ok(committed) => Commit {
            done: committed.done.len() as u64,
            left: committed
                .left
                .iter()
                .map(|(path, why)| LeftOut { path: text(path), why: why.to_string() })
                .collect(),
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
