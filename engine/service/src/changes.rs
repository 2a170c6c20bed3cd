//! What a run changed in its workspace: told in the outcome, shown as a diff, taken over into the original.

use std::io;
use std::path::{Path, PathBuf};

use hotcell_sandbox::Changed;
use hotcell_sandbox::outcome::{Change, ChangeKind, Commit, LeftOut, Outcome};
use hotcell_sandbox::policy::{PROJECT, Policy};
use hotcell_workspace::store::{StoreError, Workspace};
use hotcell_workspace::{CommitError, Folder, Layer, Stack, Terms, What, changes, commit, diff};

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
}

impl Before {
    /// When the view of the workspace begins; before anything looks at it. Only a commit asks for it.
    #[must_use]
    pub fn moment(keep: Keep) -> (i64, i64) {
        if keep.commit { hotcell_workspace::moment() } else { (0, 0) }
    }

    /// The workspace of a policy, seen since a moment.
    #[must_use]
    pub fn of(policy: &Policy, since: (i64, i64), keep: Keep) -> Option<Self> {
        let original = policy.job.workspace.clone()?;
        let binds = policy.job.binds.iter().map(|b| &b.inside).chain(&policy.job.toolchains);
        let ignored = binds.filter_map(|p| p.strip_prefix(PROJECT).ok()).map(Path::to_owned).collect();
        let most = policy.job.limits.disk.0;
        Some(Self { original, layers: policy.job.layers.clone(), since, ignored, keep, most })
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
            Err(error) if keep.diff || keep.commit => {
                if keep.commit && success {
                    let error =
                        Some(format!("what was changed cannot be read: {error}; nothing was taken over"));
                    outcome.commit = Some(Commit { error, ..Commit::default() });
                }
                Err(error)
            }
            collected => {
                tell(collected, outcome);
                Ok(())
            }
        }
    }

    /// The same, and adds the changes to the workspace that the run was in; they are kept however it ended.
    ///
    /// # Errors
    /// What the workspace says; its state is as before then.
    pub async fn collect_into(
        self,
        workspace: &mut Workspace<'_>,
        changed: Option<Changed>,
        outcome: &mut Outcome,
    ) -> Result<(), StoreError> {
        if changed.is_none() && nothing_ran(outcome) {
            return Ok(());
        }
        let changed = settled(changed).await?;
        let (ignored, keep, success) = (self.ignored.clone(), self.keep, outcome.success());
        let shown = Self { keep: Keep { commit: false, ..keep }, ..self };
        tell(shown.read(&changed, success), outcome);
        let upper = Folder::from_fd(changed.folder.try_clone()?);
        workspace.absorb(&upper, changed.whole, &ignored)?;
        if keep.commit && success {
            let owner = workspace.owner_of_source();
            outcome.commit = match workspace.commit(keep.allow_protected, owner) {
                Ok(committed) => Some(told(Ok(committed))),
                Err(StoreError::Commit(error)) => Some(told(Err(error))),
                Err(other) => return Err(other),
            };
        }
        Ok(())
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
        let commit = (self.keep.commit && success).then(|| {
            let owner = original.node(Path::new("")).ok().flatten().map(|node| node.owner);
            let (since, allow_protected) = (self.since, self.keep.allow_protected);
            let terms = Terms { since, allow_protected, owner, most: self.most };
            told(commit(&after, &original, &all, &terms))
        });
        Ok(Collected { rows, diff, commit })
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
        }
        Err(error) => tracing::warn!("what was changed in the workspace cannot be told: {error}"),
    }
}

struct Collected {
    rows: Vec<Change>,
    diff: Option<String>,
    commit: Option<Commit>,
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
fn told(result: Result<hotcell_workspace::Committed, CommitError>) -> Commit {
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
