//! Takes changes over into the original: all that can be, or nothing when somebody else changed the same.
//!
//! New bytes are written beside the original first, so that a full disk is met before anything is replaced; then each
//! file is replaced at once by a rename. Only regular files and folders are taken over.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::at_once::{Done, at_once, in_order};
use crate::changes::{Change, What};
use crate::folder::{Folder, Kind, Node, ancestors};
use crate::protected::protected;
use crate::stack::Stack;

/// Begins the name of the folder in which new bytes wait.
const WAITING: &str = ".hotcell-commit-";

/// How to take changes over.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// When the program got its view of the original: what was changed there since is a conflict. Seconds and nanoseconds
    /// since 1970, of the clock that file times are taken from.
    pub since: (i64, i64),
    /// Take over names that others' programs run ([`protected`]).
    pub allow_protected: bool,
    /// Whom new files belong to, where root commits; without, whoever commits.
    pub owner: Option<(u32, u32)>,
    /// Bytes of all new files together: what one file with many names, or a file full of holes, comes to on a disk.
    pub most: u64,
}

/// A moment on the clock of file times that lies between what was changed before this call and what is changed after it.
/// That clock stands still for some milliseconds at a time, except where a file was looked at just before (multigrain
/// timestamps, Linux 6.13), so this waits until it has gone past the present. `clock_gettime(2)`
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
        // Somebody set the clock back.
        present = present.min(read(ClockId::Realtime));
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
}

/// Why one change is not taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// The name is protected; by which rule.
    Protected(&'static str),
    /// It is a link, a device, a pipe or a socket.
    NoFile(Kind),
    /// It lies in something that is left out.
    Below,
    /// It is a file in place of a folder in which something stays.
    NotEmpty,
}

impl std::fmt::Display for Left {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Protected(name) => write!(f, "{name} is protected: others' programs run or believe it"),
            Self::NoFile(Kind::Link) => f.write_str("symbolic links are not taken over"),
            Self::NoFile(_) => f.write_str("devices, pipes and sockets are not taken over"),
            Self::Below => f.write_str("it lies in something that is left out"),
            Self::NotEmpty => f.write_str("in the folder that is there, something protected stays"),
        }
    }
}

/// What became of changes.
#[derive(Debug, Default)]
pub struct Committed {
    /// Paths that were taken over.
    pub done: Vec<PathBuf>,
    /// Paths that were not, and why.
    pub left: Vec<(PathBuf, Left)>,
}

/// Why nothing, or not all, was taken over.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Somebody else changed the same paths meanwhile. Nothing was taken over.
    #[error("{} changed in the original since the program saw it{}; nothing was taken over", .0[0].display(), more(.0.len()))]
    Conflict(Vec<PathBuf>),
    /// The original cannot be read. Nothing was taken over.
    #[error("{path}: {error}; nothing was taken over", path = .path.display())]
    Unread {
        /// Which path.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The new bytes cannot be stored, a full disk for example. Nothing was taken over.
    #[error("the new {path} cannot be stored: {error}; nothing was taken over", path = .path.display())]
    NotStored {
        /// Which path.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The system refused in the middle.
    #[error("{path}: {error}; {done} of {all} changes were taken over before", path = .path.display(), done = .done.len())]
    Stopped {
        /// Which path.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
        /// What was taken over.
        done: Vec<PathBuf>,
        /// How many there were.
        all: usize,
    },
}

fn more(paths: usize) -> String {
    if paths > 1 { format!(", and {} more", paths - 1) } else { String::new() }
}

/// Whether a change may be taken over. Pure.
#[must_use]
pub fn admit(change: &Change, allow_protected: bool) -> Option<Left> {
    let becomes = change.after.map(|node| node.kind);
    if let Some(kind @ (Kind::Link | Kind::Special | Kind::Whiteout)) = becomes {
        return Some(Left::NoFile(kind));
    }
    if allow_protected {
        return None;
    }
    // A file of that name says where a repository, and with it its settings and hooks, is.
    let repository = is_named(&change.path, ".git");
    let is_folder = |node: Option<Node>| node.is_none_or(|node| node.kind == Kind::Folder);
    if repository && !(is_folder(change.before) && is_folder(change.after)) {
        return Some(Left::Protected(".git"));
    }
    protected(&change.path).map(Left::Protected)
}

/// Whether what stands in the original is not what the program saw. Pure.
#[must_use]
pub fn conflicts(change: &Change, original: Option<&Node>, since: (i64, i64)) -> bool {
    match (change.before.as_ref(), original) {
        // Both deleted it, or nobody had it.
        (_, None) => change.before.is_some() && change.what != What::Deleted,
        (None, Some(now)) => !(now.kind == Kind::Folder && is_folder(change.after)),
        (Some(was), Some(now)) if was.kind == Kind::Folder && now.kind == Kind::Folder => false,
        (Some(was), Some(now)) => was.kind != now.kind || now.changed >= since,
    }
}

/// Whether somebody changed it after the first look, and not this commit, which took other names of the same file away.
fn changed_now(change: &Change, now: Option<&Node>, since: (i64, i64)) -> bool {
    let was_linked = change.before.is_some_and(|was| was.names > 1);
    match now {
        Some(now) if was_linked => {
            change.before.is_none_or(|was| was.kind != now.kind || was.bytes != now.bytes)
        }
        now => conflicts(change, now, since),
    }
}

/// What makes a folder of any name a repository whose settings git believes. `gitrepository-layout(5)`
const REPOSITORY: [&str; 7] = ["HEAD", "commondir", "config", "config.worktree", "hooks", "objects", "refs"];

/// Whether a change makes a repository of a folder, or changes the settings of one that is not called `.git`.
fn makes_repository(change: &Change, before: &Stack<'_>, after: &Stack<'_>) -> io::Result<bool> {
    // The folder itself, or what is below `hooks`.
    for (inner, folder) in change.path.ancestors().zip(change.path.ancestors().skip(1)) {
        let Some(name) = inner.file_name().and_then(|name| REPOSITORY.iter().find(|n| name == **n)) else {
            continue;
        };
        if is_named(folder, ".git") || !is_repository(after, folder)? {
            continue;
        }
        if inner == change.path && !is_repository(before, folder)?
            || !matches!(*name, "HEAD" | "objects" | "refs")
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_named(path: &Path, wanted: &str) -> bool {
    path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(wanted))
}

fn is_repository(stack: &Stack<'_>, folder: &Path) -> io::Result<bool> {
    let has = |name| Ok::<_, io::Error>(stack.node(&folder.join(name))?.is_some());
    Ok(has("HEAD")? && (has("commondir")? || has("objects")? && has("refs")?))
}

fn is_folder(node: Option<Node>) -> bool {
    node.is_some_and(|node| node.kind == Kind::Folder)
}

/// Takes changes over from the view `after` of a project into its original.
///
/// # Errors
/// [`CommitError`], which says what was taken over; mostly nothing.
pub fn commit(
    after: &Stack<'_>,
    original: &Folder,
    changes: &[Change],
    terms: &Terms,
) -> Result<Committed, CommitError> {
    let mut committed = Committed::default();
    let mut wanted: Vec<&Change> = Vec::new();
    let mut conflicting = Vec::new();
    let before = Stack::new([], original);
    for change in changes {
        let mut why = admit(change, terms.allow_protected);
        if why.is_none() && !terms.allow_protected && change.after.is_some() {
            let repository =
                makes_repository(change, &before, after).map_err(|error| unread(change, error))?;
            why = repository.then_some(Left::Protected("a git repository"));
        }
        if let Some(why) = why {
            committed.left.push((change.path.clone(), why));
            continue;
        }
        let now = original.node(&change.path).map_err(|error| unread(change, error))?;
        if conflicts(change, now.as_ref(), terms.since) {
            conflicting.push(change.path.clone());
        }
        wanted.push(change);
    }
    let changed: HashSet<&Path> = changes.iter().map(|change| change.path.as_path()).collect();
    // What a deleted folder still has, the program never saw.
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
    // A folder in which something stays cannot become a file.
    let full: HashSet<PathBuf> = committed.left.iter().flat_map(|(path, _)| ancestors(path)).collect();
    let (stays, wanted): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|change| {
        change.what == What::TypeChanged && is_folder(change.before) && full.contains(&change.path)
    });
    // Nothing can be put below what is left out.
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
    for (number, change) in kept.iter().enumerate() {
        if change.after.is_some_and(|node| node.kind == Kind::File) {
            waiting
                .store(number, change, after, terms)
                .map_err(|error| CommitError::NotStored { path: change.path.clone(), error })?;
        }
    }
    let stores = kept.iter().any(|change| change.after.is_some_and(|node| node.kind == Kind::File));
    let stored = if stores { waiting.folder.sync() } else { Ok(()) };
    stored.map_err(|error| CommitError::NotStored { path: kept[0].path.clone(), error })?;
    let all = kept.len();
    let mut done = Vec::new();
    let stopped =
        |change: &Change, error, done| CommitError::Stopped { path: change.path.clone(), error, done, all };
    // What goes, the innermost first; then what comes, the outermost first. Folders get their modes last, for into some
    // of them nobody may write then.
    let folders = |c: &&&Change| is_folder(c.after);
    // A folder that somebody else made meanwhile keeps its own.
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
    let remove = |(_, change): &&(usize, &Change)| remove(original, change, &committed.left, terms.since);
    let put = |(number, change): &&(usize, &Change)| waiting.put(*number, change, original, terms);
    let mut note = |these: &[&(usize, &Change)], ended: Done, counts: bool| {
        let taken = ended.done.iter().map(|place| these[*place].1);
        // What makes room for something of another kind is taken over when that is there.
        done.extend(taken.filter(|c| counts || c.what == What::Deleted).map(|c| c.path.clone()));
        match ended.failed {
            Some((place, error)) => Err(stopped(these[place].1, error, std::mem::take(&mut done))),
            None => Ok(()),
        }
    };
    note(&gone_files, at_once(&gone_files, remove), false)?;
    note(&gone, in_order(&gone, remove), false)?;
    note(&come, in_order(&come, put), true)?;
    note(&come_files, at_once(&come_files, put), true)?;
    for change in modes.iter().rev() {
        if let Err(error) = original.set_mode(&change.path, mode(change)) {
            return Err(stopped(change, error, done));
        }
    }
    done.sort();
    committed.done = done;
    Ok(committed)
}

fn unread(change: &Change, error: io::Error) -> CommitError {
    CommitError::Unread { path: change.path.clone(), error }
}

fn remove(original: &Folder, change: &Change, left: &[(PathBuf, Left)], since: (i64, i64)) -> io::Result<()> {
    let Some(now) = original.node(&change.path)? else { return Ok(()) };
    if changed_now(change, Some(&now), since) {
        return Err(io::Error::other("somebody else changed it in this moment"));
    }
    if now.kind != Kind::Folder {
        return original.remove_file(&change.path);
    }
    match original.remove_folder(&change.path) {
        // Something in it is protected and stays.
        Err(_) if left.iter().any(|(path, _)| path.starts_with(&change.path)) => Ok(()),
        removed => removed,
    }
}

/// The folder in which new bytes wait: in the original, so that a rename moves them.
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
                // Of a commit that was killed, unless it is at work.
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

    fn store(&self, number: usize, change: &Change, after: &Stack<'_>, terms: &Terms) -> io::Result<()> {
        let name = PathBuf::from(number.to_string());
        let mut source = after.file(&change.path)?;
        let mut target: File = self.folder.create(&name)?;
        io::copy(&mut source, &mut target)?;
        if let Some((uid, gid)) = terms.owner.filter(|_| is_root()) {
            std::os::unix::fs::fchown(&target, Some(uid), Some(gid))?;
        }
        target.set_permissions(PermissionsExt::from_mode(mode(change)))
    }

    fn put(&self, number: usize, change: &Change, original: &Folder, terms: &Terms) -> io::Result<()> {
        let Some(after) = change.after else { return Ok(()) };
        let now = original.node(&change.path)?;
        if after.kind == Kind::Folder {
            if now.is_none() {
                original.make(&change.path, 0o700)?;
                if let Some(owner) = terms.owner.filter(|_| is_root()) {
                    original.own(&change.path, owner)?;
                }
            }
            return Ok(());
        }
        // What was of another kind is gone since just now.
        let other = match change.what {
            What::TypeChanged => now.is_some(),
            _ => changed_now(change, now.as_ref(), terms.since),
        };
        if other {
            return Err(io::Error::other("somebody else changed it in this moment"));
        }
        original.take(&change.path, &self.folder, Path::new(&number.to_string()))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.original.remove_all(&self.name) {
            tracing::warn!(target: "hotcell_contents", "{} is left behind in the project: {error}", self.name.display());
        }
    }
}

/// Only root can give files away.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The mode that something gets: never more than the nine bits, and for others never the right to write.
fn mode(change: &Change) -> u32 {
    let after = change.after.map_or(0o644, |node| node.mode);
    // What others could do already stays as it was.
    let same = change.before.filter(|was| change.after.is_some_and(|is| is.kind == was.kind));
    (after & 0o755) | (same.map_or(0, |was| was.mode) & 0o022)
}

#[cfg(test)]
mod tests;
