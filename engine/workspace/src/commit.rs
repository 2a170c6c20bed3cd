//! Takes changes over into the original: all that can be, or nothing when somebody else changed the same.
//!
//! New bytes are written beside the original first, so that a full disk is met before anything is replaced; then each
//! file is replaced at once by a rename. Only regular files and folders are taken over.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

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
}

/// A moment on the clock of file times that lies between what was changed before this call and what is changed after it.
/// That clock stands still for some milliseconds at a time, so this waits for its next step.
#[must_use]
pub fn moment() -> (i64, i64) {
    let read = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
        (now.tv_sec, now.tv_nsec)
    };
    let before = read();
    loop {
        let now = read();
        // A clock that was set back has taken a step as well.
        if now != before {
            return now;
        }
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
}

impl std::fmt::Display for Left {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Protected(name) => write!(f, "{name} is protected: others' programs run or believe it"),
            Self::NoFile(Kind::Link) => f.write_str("symbolic links are not taken over"),
            Self::NoFile(_) => f.write_str("devices, pipes and sockets are not taken over"),
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
    let repository = change.path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".git"));
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
    for change in changes {
        if let Some(why) = admit(change, terms.allow_protected) {
            committed.left.push((change.path.clone(), why));
            continue;
        }
        let now = original.node(&change.path).map_err(|error| unread(change, error))?;
        if conflicts(change, now.as_ref(), terms.since) {
            conflicting.push(change.path.clone());
        }
        wanted.push(change);
    }
    // What a deleted folder still has, the program never saw.
    for change in wanted.iter().filter(|c| is_folder(c.before) && !is_folder(c.after)) {
        if is_folder(original.node(&change.path).map_err(|error| unread(change, error))?) {
            for name in original.names(&change.path).map_err(|error| unread(change, error))? {
                let path = change.path.join(name);
                if !changes.iter().any(|c| c.path == path) {
                    conflicting.push(path);
                }
            }
        }
    }
    if !conflicting.is_empty() {
        return Err(CommitError::Conflict(conflicting));
    }
    // Nothing can be put below what is left out.
    let (kept, below): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|change| {
        !ancestors(&change.path).iter().any(|folder| {
            committed.left.iter().any(|(path, _)| path == folder)
                && original.node(folder).is_ok_and(|node| !is_folder(node))
        })
    });
    for change in below {
        committed.left.push((change.path.clone(), Left::NoFile(Kind::Link)));
    }
    if kept.is_empty() {
        return Ok(committed);
    }
    let waiting = Waiting::make(original, &kept[0].path)?;
    for (number, change) in kept.iter().enumerate() {
        if change.after.is_some_and(|node| node.kind == Kind::File) {
            waiting
                .store(number, change, after, terms)
                .map_err(|error| CommitError::NotStored { path: change.path.clone(), error })?;
        }
    }
    let stored = original.sync();
    stored.map_err(|error| CommitError::NotStored { path: kept[0].path.clone(), error })?;
    let all = kept.len();
    let mut done = Vec::new();
    // What goes, the innermost first; then what comes, the outermost first.
    let goes = |c: &&(usize, &Change)| c.1.what == What::Deleted || c.1.what == What::TypeChanged;
    let numbered: Vec<_> = kept.iter().copied().enumerate().collect();
    for (_, change) in numbered.iter().rev().filter(goes) {
        match remove(original, change, &committed.left) {
            Ok(()) if change.what == What::Deleted => done.push(change.path.clone()),
            Ok(()) => {}
            Err(error) => return Err(CommitError::Stopped { path: change.path.clone(), error, done, all }),
        }
    }
    for (number, change) in numbered.iter().filter(|(_, c)| c.what != What::Deleted) {
        match waiting.put(*number, change, original, terms) {
            Ok(()) => done.push(change.path.clone()),
            Err(error) => return Err(CommitError::Stopped { path: change.path.clone(), error, done, all }),
        }
    }
    done.sort();
    committed.done = done;
    Ok(committed)
}

fn unread(change: &Change, error: io::Error) -> CommitError {
    CommitError::Unread { path: change.path.clone(), error }
}

fn remove(original: &Folder, change: &Change, left: &[(PathBuf, Left)]) -> io::Result<()> {
    let Some(now) = original.node(&change.path)? else { return Ok(()) };
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
        if let Some(owner) = terms.owner.filter(|_| is_root()) {
            self.folder.own(&name, owner)?;
        }
        self.folder.set_mode(&name, mode(change))
    }

    fn put(&self, number: usize, change: &Change, original: &Folder, terms: &Terms) -> io::Result<()> {
        let Some(after) = change.after else { return Ok(()) };
        let now = original.node(&change.path)?;
        if after.kind == Kind::Folder {
            if now.is_none() {
                original.make(&change.path, mode(change))?;
                if let Some(owner) = terms.owner.filter(|_| is_root()) {
                    original.own(&change.path, owner)?;
                }
            } else if change.what == What::Modified {
                original.set_mode(&change.path, mode(change))?;
            }
            return Ok(());
        }
        if change.what != What::TypeChanged && conflicts(change, now.as_ref(), terms.since) {
            return Err(io::Error::other("somebody else changed it in this moment"));
        }
        original.take(&change.path, &self.folder, Path::new(&number.to_string()))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.original.remove_all(&self.name) {
            tracing::warn!("{} is left behind in the project: {error}", self.name.display());
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
mod tests {
    use super::*;
    use crate::changes::changes;
    use crate::stack::Layer;

    fn node(kind: Kind, changed: i64) -> Node {
        Node { kind, mode: 0o644, bytes: 0, changed: (changed, 0), owner: (0, 0) }
    }

    fn change(path: &str, what: What, before: Option<Kind>, after: Option<Kind>) -> Change {
        let node = |kind: Kind| node(kind, 1);
        Change { path: path.into(), what, before: before.map(node), after: after.map(node) }
    }

    #[test]
    fn what_may_be_taken_over() {
        let file = |path: &str| change(path, What::Added, None, Some(Kind::File));
        let made = |kind| change("x", What::Added, None, Some(kind));
        assert_eq!(admit(&file("a.py"), false), None);
        assert_eq!(admit(&file(".mcp.json"), false), Some(Left::Protected(".mcp.json")));
        assert_eq!(admit(&file(".mcp.json"), true), None);
        assert_eq!(admit(&made(Kind::Link), true), Some(Left::NoFile(Kind::Link)));
        assert_eq!(admit(&made(Kind::Special), true), Some(Left::NoFile(Kind::Special)));
        assert_eq!(admit(&file("sub/.git"), false), Some(Left::Protected(".git")));
        assert_eq!(admit(&change(".git", What::Added, None, Some(Kind::Folder)), false), None);
    }

    #[test]
    fn what_somebody_else_changed_is_a_conflict() {
        use Kind::{File, Folder};
        let since = (10, 0);
        for (change, now, conflict) in [
            (change("x", What::Modified, Some(File), Some(File)), Some(node(File, 9)), false),
            (change("x", What::Modified, Some(File), Some(File)), Some(node(File, 10)), true),
            (change("x", What::Modified, Some(File), Some(File)), Some(node(Folder, 1)), true),
            (change("x", What::Modified, Some(File), Some(File)), None, true),
            (change("x", What::Deleted, Some(File), None), Some(node(File, 9)), false),
            (change("x", What::Deleted, Some(File), None), Some(node(File, 11)), true),
            (change("x", What::Deleted, Some(File), None), None, false),
            (change("x", What::Added, None, Some(File)), None, false),
            (change("x", What::Added, None, Some(File)), Some(node(File, 1)), true),
            (change("x", What::Added, None, Some(Folder)), Some(node(Folder, 11)), false),
            (change("x", What::Modified, Some(Folder), Some(Folder)), Some(node(Folder, 11)), false),
        ] {
            assert_eq!(conflicts(&change, now.as_ref(), since), conflict, "{change:?} {now:?}");
        }
    }

    struct Case {
        _dirs: [tempfile::TempDir; 2],
        original: Folder,
        upper: Folder,
    }

    fn case(original: &[&str], upper: impl FnOnce(&Path, &Folder)) -> Case {
        let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        for file in original {
            let path = dirs[0].path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "original").unwrap();
        }
        let [original, folder] = [0, 1].map(|n: usize| Folder::open(dirs[n].path()).unwrap());
        upper(dirs[1].path(), &folder);
        Case { _dirs: dirs, original, upper: folder }
    }

    impl Case {
        fn commit(&self, terms: &Terms) -> Result<Committed, CommitError> {
            let before = Stack::new([], &self.original);
            let layer = Layer::over(&self.upper);
            let found = changes(&before, &[layer], &[], 999).unwrap();
            commit(&before.with(layer), &self.original, &found, terms)
        }
        fn shown(&self) -> Vec<(String, String)> {
            let stack = Stack::new([], &self.original);
            let text = |path: &Path, node: &Node| match node.kind {
                Kind::File => io::read_to_string(stack.file(path).unwrap()).unwrap(),
                kind => format!("{kind:?}"),
            };
            let all = stack.walk(Path::new(""), 999).unwrap();
            all.iter().map(|(p, n)| (p.to_string_lossy().into_owned(), text(p, n))).collect()
        }
    }

    fn later() -> Terms {
        Terms { since: (i64::MAX, 0), allow_protected: false, owner: None }
    }

    fn rows(rows: &[(&str, &str)]) -> Vec<(String, String)> {
        rows.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    }

    #[test]
    fn changes_are_taken_over() {
        let case = case(&["a", "b", "d/x", "d/y", "f/z", "t"], |path, upper| {
            std::fs::write(path.join("a"), "new").unwrap();
            upper.whiteout(Path::new("b")).unwrap();
            upper.make_all(Path::new("d")).unwrap();
            upper.set_opaque(Path::new("d")).unwrap();
            std::fs::write(path.join("d/y"), "new").unwrap();
            upper.whiteout(Path::new("f")).unwrap();
            upper.make_all(Path::new("n/m")).unwrap();
            std::fs::write(path.join("n/m/new"), "new").unwrap();
            upper.make_all(Path::new("t")).unwrap();
            std::fs::write(path.join("t/in"), "new").unwrap();
        });
        let committed = case.commit(&later()).unwrap();
        assert_eq!(committed.left, []);
        let want = [
            ("a", "new"),
            ("d", "Folder"),
            ("d/y", "new"),
            ("n", "Folder"),
            ("n/m", "Folder"),
            ("n/m/new", "new"),
            ("t", "Folder"),
            ("t/in", "new"),
        ];
        assert_eq!(case.shown(), rows(&want));
    }

    #[test]
    fn protected_names_links_and_setuid_bits_stay_out() {
        use std::os::unix::fs::PermissionsExt;
        let case = case(&[".git/hooks/keep", "a"], |path, upper| {
            upper.make_all(Path::new(".git/hooks")).unwrap();
            std::fs::write(path.join(".git/hooks/pre-commit"), "evil").unwrap();
            std::fs::write(path.join(".git/index"), "fine").unwrap();
            upper.make_link(Path::new("link"), Path::new("/etc/passwd")).unwrap();
            std::fs::write(path.join("suid"), "x").unwrap();
            std::fs::set_permissions(path.join("suid"), PermissionsExt::from_mode(0o6777)).unwrap();
        });
        let committed = case.commit(&later()).unwrap();
        assert_eq!(committed.left.len(), 2, "{committed:?}");
        let shown: Vec<_> = case.shown().into_iter().map(|(path, _)| path).collect();
        assert_eq!(shown, [".git", ".git/hooks", ".git/hooks/keep", ".git/index", "a", "suid"]);
        assert_eq!(case.original.node(Path::new("suid")).unwrap().unwrap().mode, 0o755);
        let allowed = case.commit(&Terms { allow_protected: true, ..later() }).unwrap();
        assert!(allowed.done.contains(&".git/hooks/pre-commit".into()) && allowed.left.len() == 1);
    }

    #[test]
    fn a_conflict_takes_nothing_over() {
        let case = case(&["a", "b"], |path, _| {
            std::fs::write(path.join("a"), "new").unwrap();
            std::fs::write(path.join("c"), "new").unwrap();
        });
        let before = case.shown();
        let error = case.commit(&Terms { since: (0, 0), ..later() }).unwrap_err();
        assert!(matches!(&error, CommitError::Conflict(paths) if paths == &[PathBuf::from("a")]), "{error}");
        assert_eq!(case.shown(), before);
    }

    #[test]
    fn a_file_put_into_a_deleted_folder_meanwhile_is_a_conflict() {
        let case = case(&["d/x"], |_, upper| upper.whiteout(Path::new("d")).unwrap());
        let before = Stack::new([], &case.original);
        let layer = Layer::over(&case.upper);
        let found = changes(&before, &[layer], &[], 999).unwrap();
        drop(case.original.create(Path::new("d/new")).unwrap());
        let error = commit(&before.with(layer), &case.original, &found, &later()).unwrap_err();
        assert!(
            matches!(&error, CommitError::Conflict(paths) if paths == &[PathBuf::from("d/new")]),
            "{error}"
        );
        assert!(case.original.node(Path::new("d/x")).unwrap().is_some());
    }

    #[test]
    fn a_link_put_into_the_original_meanwhile_is_not_followed() {
        let outside = tempfile::tempdir().unwrap();
        let case = case(&["d/x"], |path, upper| {
            upper.make_all(Path::new("d")).unwrap();
            std::fs::write(path.join("d/new"), "new").unwrap();
        });
        let before = Stack::new([], &case.original);
        let layer = Layer::over(&case.upper);
        let found = changes(&before, &[layer], &[], 999).unwrap();
        case.original.remove_all(Path::new("d")).unwrap();
        case.original.make_link(Path::new("d"), outside.path()).unwrap();
        assert!(commit(&before.with(layer), &case.original, &found, &later()).is_err());
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_killed_commit_left_goes_with_the_next() {
        let case = case(&["a"], |path, _| std::fs::write(path.join("a"), "new").unwrap());
        case.original.make_all(Path::new(".hotcell-commit-dead/x")).unwrap();
        case.commit(&later()).unwrap();
        assert_eq!(case.shown(), rows(&[("a", "new")]));
    }
}
