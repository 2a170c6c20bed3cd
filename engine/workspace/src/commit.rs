//! Applies changes to the original: all that are allowed, or none when the same paths were changed there
//! meanwhile.
//!
//! New content is first written to a temporary folder in the original, so that a full disk is noticed before
//! anything is replaced; then each file is atomically replaced by a rename. Only regular files and folders
//! are applied.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::admit::{Allow, Judge, Left};
use crate::changes::{Change, What};
use crate::folder::{Folder, Kind, Node, ancestors};
use crate::marks::Marks;
use crate::near::Near;
use crate::parallel::{Done, at_once, in_order};
use crate::stack::{Lookups, Stack};

/// Name prefix of the temporary folder for new content.
const WAITING: &str = ".hotcell-commit-";

/// Options of a commit.
#[derive(Clone, Copy, Debug)]
pub struct CommitOptions {
    /// Time at which the program got its view of the original: any later change there is a conflict. Seconds
    /// and nanoseconds since 1970, on the clock of file times.
    pub since: (i64, i64),
    /// Which protected names to apply.
    pub allow: Allow,
    /// Owner and group of new files when root commits; `None` for those of the committing process.
    pub owner: Option<(u32, u32)>,
    /// Maximum size of all new files together, in bytes as written: hard links are counted each, and holes
    /// count as data.
    pub most: u64,
}

/// Returns a time on the clock of file times that is later than all changes before this call and earlier than
/// all changes after it. That clock advances only every few milliseconds, except after a file was looked at
/// (multigrain timestamps, Linux 6.13), so this waits until it passes the present time. See
/// `clock_gettime(2)`.
#[must_use]
pub fn moment() -> (i64, i64) {
    use rustix::time::{ClockId, clock_gettime};
    let read = |clock| {
        let now = clock_gettime(clock);
        (now.tv_sec, now.tv_nsec)
    };
    let mut present = read(ClockId::Realtime);
    loop {
        let coarse = read(ClockId::RealtimeCoarse);
        if coarse > present {
            return coarse;
        }
        // The clock may have been set back meanwhile.
        present = present.min(read(ClockId::Realtime));
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
}

/// Result of a commit.
#[derive(Debug, Default)]
pub struct Committed {
    /// Paths that were applied.
    pub done: Vec<PathBuf>,
    /// Paths that were left out, with the reason.
    pub left: Vec<(PathBuf, Left)>,
    /// Applied paths that a reviewer should look at.
    pub marked: Vec<(PathBuf, Marks)>,
}

/// Reason why a commit applied nothing, or not everything.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Paths of the commit were changed in the original meanwhile. Nothing was applied.
    #[error("{} changed in the original since the program saw it{}; nothing was taken over", .0[0].display(), more(.0.len()))]
    Conflict(Vec<PathBuf>),
    /// The original cannot be read. Nothing was applied.
    #[error("{path}: {error}; nothing was taken over", path = .path.display())]
    Unread {
        /// Path that cannot be read.
        path: PathBuf,
        /// Error of the system call.
        error: io::Error,
    },
    /// The new content cannot be stored, for example on a full disk. Nothing was applied.
    #[error("the new {path} cannot be stored: {error}; nothing was taken over", path = .path.display())]
    NotStored {
        /// Path whose content cannot be stored.
        path: PathBuf,
        /// Error of the system call.
        error: io::Error,
    },
    /// A system call failed halfway.
    #[error("{path}: {error}; {done} of {all} changes were taken over before", path = .path.display(), done = .done.len())]
    Stopped {
        /// Path that failed.
        path: PathBuf,
        /// Error of the system call.
        error: io::Error,
        /// Paths that were applied.
        done: Vec<PathBuf>,
        /// Number of paths that were to be applied.
        all: usize,
    },
}

fn more(paths: usize) -> String {
    if paths > 1 { format!(", and {} more", paths - 1) } else { String::new() }
}

/// Whether the entry in the original is not the one that the program saw. Pure.
#[must_use]
pub fn conflicts(change: &Change, original: Option<&Node>, since: (i64, i64)) -> bool {
    match (change.before.as_ref(), original) {
        // Both sides deleted the entry, or it never existed.
        (_, None) => change.before.is_some() && change.what != What::Deleted,
        (None, Some(now)) => !(now.kind == Kind::Folder && is_folder(change.after)),
        (Some(was), Some(now)) if was.kind == Kind::Folder && now.kind == Kind::Folder => false,
        (Some(was), Some(now)) => was.kind != now.kind || now.changed >= since,
    }
}

/// Whether the entry was changed after the first check. A change of `ctime` does not count for a file with
/// several names: this commit itself causes one when it replaces another name of the file.
fn changed_now(change: &Change, now: Option<&Node>, since: (i64, i64)) -> bool {
    let was_linked = change.before.is_some_and(|was| was.names > 1);
    match now {
        Some(now) if was_linked => {
            change.before.is_none_or(|was| was.kind != now.kind || was.bytes != now.bytes)
        }
        now => conflicts(change, now, since),
    }
}

fn is_folder(node: Option<Node>) -> bool {
    node.is_some_and(|node| node.kind == Kind::Folder)
}

fn is_file(node: Option<Node>) -> bool {
    node.is_some_and(|node| node.kind == Kind::File)
}

/// Applies the changes of the view `after` of a project to its original.
///
/// # Errors
/// [`CommitError`], which says what was applied; in most cases nothing.
pub fn commit(
    after: &Stack<'_>,
    original: &Folder,
    changes: &[Change],
    terms: &CommitOptions,
) -> Result<Committed, CommitError> {
    let mut committed = Committed::default();
    let mut wanted: Vec<&Change> = Vec::new();
    let mut conflicting = Vec::new();
    let Some(first) = changes.first() else { return Ok(committed) };
    let before = Stack::new([], original);
    let mut judge =
        Judge::new(original, &before, after, terms.allow).map_err(|error| unread(first, error))?;
    let mut present = Near::new(original);
    for change in changes {
        if let Some(why) = judge.left(change).map_err(|error| unread(change, error))? {
            committed.left.push((change.path.clone(), why));
            continue;
        }
        let now = present.node(&change.path).map_err(|error| unread(change, error))?;
        if conflicts(change, now.as_ref(), terms.since) {
            conflicting.push(change.path.clone());
        }
        wanted.push(change);
    }
    let changed: HashSet<&Path> = changes.iter().map(|change| change.path.as_path()).collect();
    // Entries of a deleted folder that the program never saw are conflicts.
    for change in wanted.iter().filter(|c| is_folder(c.before) && !is_folder(c.after)) {
        if is_folder(original.node(&change.path).map_err(|error| unread(change, error))?) {
            for name in original.names(&change.path).map_err(|error| unread(change, error))? {
                let path = change.path.join(name);
                if !changed.contains(path.as_path()) {
                    conflicting.push(path);
                }
            }
        }
    }
    if !conflicting.is_empty() {
        return Err(CommitError::Conflict(conflicting));
    }
    // A folder that keeps an entry cannot become a file.
    let full: HashSet<PathBuf> = committed.left.iter().flat_map(|(path, _)| ancestors(path)).collect();
    let (stays, wanted): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|change| {
        change.what == What::TypeChanged && is_folder(change.before) && full.contains(&change.path)
    });
    // Nothing can be created below a path that is left out.
    let no_folder: HashSet<&PathBuf> = committed
        .left
        .iter()
        .map(|(path, _)| path)
        .filter(|path| original.node(path).is_ok_and(|node| !is_folder(node)))
        .collect();
    let (below, kept): (Vec<_>, Vec<_>) = wanted
        .into_iter()
        .partition(|change| ancestors(&change.path).iter().any(|folder| no_folder.contains(folder)));
    committed.left.extend(stays.iter().map(|change| (change.path.clone(), Left::NotEmpty)));
    committed.left.extend(below.iter().map(|change| (change.path.clone(), Left::Below)));
    if kept.is_empty() {
        return Ok(committed);
    }
    let bytes = kept.iter().filter_map(|c| c.after).fold(0, |sum: u64, node| sum.saturating_add(node.bytes));
    if bytes > terms.most {
        let path =
            kept.iter().max_by_key(|c| c.after.map_or(0, |node| node.bytes)).unwrap_or(&kept[0]).path.clone();
        let why = format!("all new files come to {bytes} bytes, and {} are allowed", terms.most);
        return Err(CommitError::NotStored { path, error: io::Error::other(why) });
    }
    let waiting = Waiting::make(original, &kept[0].path)?;
    let new: Vec<_> = kept.iter().copied().enumerate().filter(|(_, change)| is_file(change.after)).collect();
    let store = |from: &mut Lookups<'_>, (number, change): &(usize, &Change)| {
        waiting.store(*number, change, from, terms)
    };
    if let Some((place, error)) = at_once(&new, || after.lookups(), store).failed {
        return Err(CommitError::NotStored { path: new[place].1.path.clone(), error });
    }
    let stored = if new.is_empty() { Ok(()) } else { waiting.folder.sync() };
    stored.map_err(|error| CommitError::NotStored { path: kept[0].path.clone(), error })?;
    let all = kept.len();
    let mut done = Vec::new();
    let stopped =
        |change: &Change, error, done| CommitError::Stopped { path: change.path.clone(), error, done, all };
    // Deletions first, inner folders before outer ones; then additions, outer folders before inner ones.
    // Folder modes are set last, since some of them forbid writing.
    let folders = |c: &&&Change| is_folder(c.after);
    // A folder that another process made meanwhile keeps its mode.
    let theirs = |c: &&Change| c.what == What::Added && !matches!(original.node(&c.path), Ok(None));
    let modes: Vec<&Change> = kept.iter().filter(folders).copied().filter(|c| !theirs(c)).collect();
    for change in modes.iter().filter(|c| is_folder(c.before)) {
        if let Err(error) = waiting.original.set_mode(&change.path, mode(change) | 0o700) {
            return Err(stopped(change, error, done));
        }
    }
    let numbered: Vec<_> = kept.iter().copied().enumerate().collect();
    let gone = numbered.iter().filter(|(_, c)| matches!(c.what, What::Deleted | What::TypeChanged));
    let (mut gone, gone_files): (Vec<_>, Vec<_>) = gone.partition(|(_, c)| is_folder(c.before));
    gone.reverse();
    let come = numbered.iter().filter(|(_, c)| c.what != What::Deleted);
    let (come, come_files): (Vec<_>, Vec<_>) = come.partition(|(_, c)| is_folder(c.after));
    let staying: HashSet<PathBuf> = committed.left.iter().flat_map(|(path, _)| ancestors(path)).collect();
    let remove = |(_, change): &&(usize, &Change)| remove(original, change, &staying, terms.since);
    let put = |(number, change): &&(usize, &Change)| waiting.put(*number, change, original, terms);
    let alone = || ();
    let mut note = |these: &[&(usize, &Change)], ended: Done, counts: bool| {
        let taken = ended.done.iter().map(|place| these[*place].1);
        // Removing an entry to make room for one of another kind does not count; creating the new one does.
        done.extend(taken.filter(|c| counts || c.what == What::Deleted).map(|c| c.path.clone()));
        match ended.failed {
            Some((place, error)) => Err(stopped(these[place].1, error, std::mem::take(&mut done))),
            None => Ok(()),
        }
    };
    note(&gone_files, at_once(&gone_files, alone, |(), change| remove(change)), false)?;
    note(&gone, in_order(&gone, remove), false)?;
    note(&come, in_order(&come, put), true)?;
    note(&come_files, at_once(&come_files, alone, |(), change| put(change)), true)?;
    for change in modes.iter().rev() {
        if let Err(error) = original.set_mode(&change.path, mode(change)) {
            return Err(stopped(change, error, done));
        }
    }
    // A folder in which something is left out still exists.
    let stayed = |c: &Change| {
        c.what == What::Deleted && staying.contains(&c.path) && !matches!(original.node(&c.path), Ok(None))
    };
    let stayed: HashSet<&Path> = kept.iter().filter(|c| stayed(c)).map(|c| c.path.as_path()).collect();
    done.retain(|path| !stayed.contains(path.as_path()));
    committed.left.extend(stayed.iter().map(|path| ((*path).to_owned(), Left::NotEmpty)));
    done.sort();
    committed.done = done;
    let marked = kept
        .iter()
        .filter(|change| !stayed.contains(change.path.as_path()))
        .map(|change| (change.path.clone(), Marks::of(change)));
    committed.marked = marked.filter(|(_, marks)| marks.any()).collect();
    Ok(committed)
}

fn unread(change: &Change, error: io::Error) -> CommitError {
    CommitError::Unread { path: change.path.clone(), error }
}

/// Removes the entry that a change deletes; a folder in `staying`, in which something is left out, may stay.
fn remove(
    original: &Folder,
    change: &Change,
    staying: &HashSet<PathBuf>,
    since: (i64, i64),
) -> io::Result<()> {
    let Some((folder, name)) = original.around(&change.path)? else { return Ok(()) };
    let Some(now) = folder.node(name)? else { return Ok(()) };
    if changed_now(change, Some(&now), since) {
        return Err(io::Error::other("somebody else changed it in this moment"));
    }
    if now.kind != Kind::Folder {
        return folder.remove_file(name);
    }
    match folder.remove_folder(name) {
        // An entry below it is protected and stays.
        Err(_) if staying.contains(&change.path) => Ok(()),
        removed => removed,
    }
}

/// Temporary folder for new content, in the original so that a rename can move the files.
struct Waiting<'a> {
    original: &'a Folder,
    name: PathBuf,
    folder: Folder,
}

impl<'a> Waiting<'a> {
    fn make(original: &'a Folder, first: &Path) -> Result<Self, CommitError> {
        Self::try_make(original).map_err(|error| CommitError::NotStored { path: first.to_owned(), error })
    }

    fn try_make(original: &'a Folder) -> io::Result<Self> {
        for name in original.names(Path::new(""))? {
            if name.to_string_lossy().starts_with(WAITING) {
                // Left by a commit that was killed, unless it is still locked.
                let dead = original
                    .folder(Path::new(&name))
                    .is_ok_and(|folder| flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok());
                if dead {
                    original.remove_all(Path::new(&name))?;
                }
            }
        }
        let name = PathBuf::from(format!("{WAITING}{}", crate::random_hex()?));
        original.make(&name, 0o700)?;
        let folder = original.folder(&name)?;
        flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self { original, name, folder })
    }

    fn store(
        &self,
        number: usize,
        change: &Change,
        from: &mut Lookups<'_>,
        terms: &CommitOptions,
    ) -> io::Result<()> {
        let name = PathBuf::from(number.to_string());
        let mut source = from.file(&change.path)?;
        let mut target: File = self.folder.create(&name)?;
        io::copy(&mut source, &mut target)?;
        if let Some((uid, gid)) = terms.owner.filter(|_| is_root()) {
            std::os::unix::fs::fchown(&target, Some(uid), Some(gid))?;
        }
        target.set_permissions(PermissionsExt::from_mode(mode(change)))
    }

    fn put(
        &self,
        number: usize,
        change: &Change,
        original: &Folder,
        terms: &CommitOptions,
    ) -> io::Result<()> {
        let Some(after) = change.after else { return Ok(()) };
        // The folder in which the entry is looked at is also the one in which it is replaced.
        let place = original.around(&change.path)?;
        let now = place.as_ref().map_or(Ok(None), |(folder, name)| folder.node(name))?;
        // The old entry of another kind has just been removed.
        let other = match change.what {
            What::TypeChanged => now.is_some(),
            _ => changed_now(change, now.as_ref(), terms.since),
        };
        if after.kind != Kind::Folder && other {
            return Err(io::Error::other("somebody else changed it in this moment"));
        }
        let (folder, name) = place.ok_or(io::ErrorKind::NotFound)?;
        if after.kind == Kind::Folder {
            if now.is_none() {
                folder.make(name, 0o700)?;
                if let Some(owner) = terms.owner.filter(|_| is_root()) {
                    folder.own(name, owner)?;
                }
            }
            return Ok(());
        }
        folder.take(name, &self.folder, Path::new(&number.to_string()))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.original.remove_all(&self.name) {
            tracing::warn!(target: "hotcell_contents", "{} is left behind in the project: {error}", self.name.display());
        }
    }
}

/// Only root can change the owner of a file.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Mode of the applied entry: at most the nine permission bits, and no new write permission for group and
/// others.
fn mode(change: &Change) -> u32 {
    let after = change.after.map_or(0o644, |node| node.mode);
    // Write permissions that group and others already had are kept.
    let same = change.before.filter(|was| change.after.is_some_and(|is| is.kind == was.kind));
    (after & 0o755) | (same.map_or(0, |was| was.mode) & 0o022)
}

#[cfg(test)]
mod generated_tests;
#[cfg(test)]
mod tests;
