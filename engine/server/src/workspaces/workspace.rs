//! One workspace of a caller, and its operations. Everything here blocks.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hotcell_report::{Change, Marked};
use hotcell_review::approvals::{Approvals, RequestStatus};
use hotcell_state::caller::Caller;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_verbs::pinned::PinnedWorkspace;
use hotcell_workspace::store::{Pinned, Source, Summary, Workspace as Held};
use hotcell_workspace::{Allow, Committed, Kind, Left, diff, layer, store};

use crate::paths::relative;
use crate::workspaces::errors::{cannot, failed, in_the_way, of_store, over};

use super::edits::{Edit, edited};
use super::files::{around, plan};
use super::{NewFile, Shared, WORKSPACE_TIMEOUT};
use super::{missing, protected};

/// Maximum number of entries examined for a list.
const MAX_ENTRIES: usize = 200_000;
/// Maximum size of a diff, in bytes.
const MAX_DIFF_BYTES: usize = 4 << 20;
/// Maximum length of a snapshot's name, in characters.
const MAX_NAME_CHARS: usize = 64;
/// Maximum size of all snapshots together, as a multiple of the workspace's quota.
const SNAPSHOT_QUOTA_FACTOR: u64 = 4;

/// A workspace of a caller.
#[derive(Clone, Debug)]
pub struct Workspace {
    /// Unguessable id.
    pub id: String,
    /// Owner.
    pub caller: Caller,
    shared: Arc<Shared>,
}

/// Size of a workspace beside its source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Size of its files, in bytes.
    pub bytes: u64,
    /// Number of files and folders; over a source, deleted ones count, too.
    pub files: u64,
}

/// Kind of entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link made by a program.
    Link,
}

/// One entry of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Path below the workspace.
    pub path: String,
    /// Kind of entry.
    pub kind: EntryKind,
    /// Size of a file, in bytes.
    pub bytes: u64,
}

/// Result of a commit.
#[derive(Debug)]
pub struct Taken {
    /// Committed paths.
    pub done: Vec<String>,
    /// Paths left out, with the reasons; git's own state is one row per repository.
    pub left: Vec<(String, String)>,
    /// Committed paths that a person should look at.
    pub marked: Vec<Marked>,
    /// State of the request to a person, or the reason why it could not be made.
    pub standing: Option<Result<RequestStatus, ErrorReport>>,
}

impl Taken {
    fn of(committed: &Committed, id: &str) -> Self {
        let how =
            format!("only a person takes it over, with hotcell workspace commit {id} --allow-protected");
        let left = hotcell_verbs::changes::left_out(&committed.left, &how);
        let text = |path: &Path| path.to_string_lossy().into_owned();
        Self {
            done: committed.done.iter().map(|path| text(path)).collect(),
            left: left.into_iter().map(|row| (row.path, row.why)).collect(),
            marked: hotcell_verbs::changes::marked(committed),
            standing: None,
        }
    }
}

/// Text of a file of at most this size, and whether it is executable.
fn text_of(view: &hotcell_workspace::Stack<'_>, path: &Path, most: u64) -> io::Result<(String, bool)> {
    let node = view.node(path)?.ok_or(io::ErrorKind::NotFound)?;
    if node.kind != Kind::File {
        return Err(if node.kind == Kind::Folder {
            io::ErrorKind::IsADirectory
        } else {
            io::ErrorKind::InvalidInput
        }
        .into());
    }
    let mut bytes = Vec::new();
    view.file(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))?;
    Ok((text, node.mode & 0o111 != 0))
}

/// All paths of a view; `None` where there are too many to compare, or it cannot be read.
fn paths(view: &hotcell_workspace::Stack<'_>) -> Option<Vec<PathBuf>> {
    let all = view.walk(Path::new(""), missing::MAX_COMPARED).ok()?;
    Some(all.into_iter().map(|(path, _)| path).collect())
}

/// The error about a path, with what the workspace has in place of it.
fn told(path: &str, what: &str, error: &io::Error, own: &Path, all: Option<Vec<PathBuf>>) -> ErrorReport {
    let report = cannot(path, what, error);
    let hint = all.and_then(|all| match error.kind() {
        io::ErrorKind::NotFound => missing::hint(own, &all),
        io::ErrorKind::IsADirectory => missing::folder_hint(own, &all),
        _ => None,
    });
    match hint {
        Some(hint) => report.hint(hint),
        None => report,
    }
}

impl Workspace {
    pub(super) fn new(id: String, caller: &Caller, shared: &Arc<Shared>) -> Self {
        Self { id, caller: caller.clone(), shared: Arc::clone(shared) }
    }

    fn look(&self) -> Result<Summary, ErrorReport> {
        self.shared.store.look(&self.id).map_err(|e| of_store(&e))
    }

    fn pin(&self) -> Result<Pinned, ErrorReport> {
        self.shared.store.pin(&self.id).map_err(|e| of_store(&e))
    }

    /// [`told`] of a workspace that no call holds.
    fn cannot(&self, path: &str, what: &str, error: &io::Error, own: &Path) -> ErrorReport {
        let all = self.pin().ok().and_then(|pinned| pinned.with_view(|_, view| Ok(paths(view))).ok());
        told(path, what, error, own, all.flatten())
    }

    fn take(&self) -> Result<Held<'_>, ErrorReport> {
        self.shared.store.take_within(&self.id, WORKSPACE_TIMEOUT).map_err(|e| of_store(&e))
    }

    /// Pins its current state for a run.
    ///
    /// # Errors
    /// A report when it is gone.
    pub fn kept(&self) -> Result<Arc<PinnedWorkspace>, ErrorReport> {
        PinnedWorkspace::pin(&self.shared.store, &self.id).map_err(|e| of_store(&e))
    }

    /// Current size.
    ///
    /// # Errors
    /// A report when it is gone or cannot be read.
    pub fn used(&self) -> Result<Used, ErrorReport> {
        let held = layer::held(&self.pin()?.changes().map_err(|e| of_store(&e))?);
        Ok(Used { bytes: held.bytes, files: held.files })
    }

    /// Host folder that it is over.
    ///
    /// # Errors
    /// A report when it is gone.
    pub fn folder(&self) -> Result<Option<PathBuf>, ErrorReport> {
        Ok(match self.look()?.source {
            Source::Folder(folder) => Some(folder),
            Source::Empty => None,
        })
    }

    /// Names of its snapshots, the oldest first.
    ///
    /// # Errors
    /// A report when it is gone.
    pub fn snapshots(&self) -> Result<Vec<String>, ErrorReport> {
        Ok(self.look()?.snapshots.into_iter().map(|snapshot| snapshot.name).collect())
    }

    /// Writes complete files; all or none.
    ///
    /// # Errors
    /// A report when a quota is exceeded, a path is invalid, or the disk fails.
    pub fn write(&self, files: &[NewFile]) -> Result<(), ErrorReport> {
        let planned = plan(files, &self.shared.quotas)?;
        let mut workspace = self.take()?;
        let blocked = workspace.with_view(|_, view| {
            for (path, file) in &planned {
                let is = |path: &Path, wanted: Kind| {
                    Ok::<_, io::Error>(view.node(path)?.is_none_or(|node| node.kind == wanted))
                };
                if !is(path, Kind::File)? {
                    return Ok(Some(in_the_way(&file.path, path)));
                }
                for folder in around(path) {
                    if !is(folder, Kind::Folder)? {
                        return Ok(Some(in_the_way(&file.path, folder)));
                    }
                }
            }
            Ok(None)
        });
        if let Some(report) = blocked.map_err(|e| of_store(&e))? {
            return Err(report);
        }
        let new = |(path, file): (PathBuf, &NewFile)| store::NewFile {
            path,
            bytes: file.bytes.clone(),
            executable: file.executable,
        };
        let all: Vec<_> = planned.into_iter().map(new).collect();
        workspace.write(&all).map_err(|e| of_store(&e))
    }

    /// Replaces pieces of text in files, all or none, in order; returns the number of replacements per edit.
    ///
    /// # Errors
    /// A report when a path is invalid, a file is not text, a piece does not occur or occurs several times,
    /// or a quota is exceeded.
    pub fn edit(&self, edits: &[Edit]) -> Result<Vec<usize>, ErrorReport> {
        let mut workspace = self.take()?;
        let mut files: BTreeMap<PathBuf, (String, String, bool)> = BTreeMap::new();
        let mut counts = Vec::with_capacity(edits.len());
        for (at, edit) in edits.iter().enumerate() {
            let own = relative(&edit.path)?;
            if !files.contains_key(&own) {
                let most = self.shared.quotas.file;
                let read = workspace.with_view(|_, view| Ok(text_of(view, &own, most)));
                let (text, executable) = read.map_err(|e| of_store(&e))?.map_err(|e| {
                    let all = workspace.with_view(|_, view| Ok(paths(view)));
                    told(&edit.path, "be edited", &e, &own, all.ok().flatten())
                })?;
                files.insert(own.clone(), (edit.path.clone(), text, executable));
            }
            let Some((_, text, _)) = files.get_mut(&own) else { continue };
            let (new, count) = edited(text, edit, at, self.shared.quotas.file)?;
            *text = new;
            counts.push(count);
            let held: u64 = files.values().map(|(_, text, _)| text.len() as u64).sum();
            if held > self.shared.quotas.bytes {
                return Err(over("bytes of the edited files", held, self.shared.quotas.bytes).field("edits"));
            }
        }
        let new = |(path, (_, text, executable)): (&PathBuf, &(String, String, bool))| store::NewFile {
            path: path.clone(),
            bytes: text.clone().into_bytes(),
            executable: *executable,
        };
        let all: Vec<_> = files.iter().map(new).collect();
        workspace.write(&all).map_err(|e| of_store(&e))?;
        Ok(counts)
    }

    /// Reads a file: its size, and at most `most` bytes from an offset.
    ///
    /// # Errors
    /// A report when the path is invalid or not a file.
    pub fn read(&self, path: &str, offset: u64, most: usize) -> Result<(u64, Vec<u8>), ErrorReport> {
        let own = relative(path)?;
        let read = self.pin()?.with_view(|_, view| {
            Ok((|| {
                let node = view.node(&own)?.ok_or(io::ErrorKind::NotFound)?;
                if node.kind == Kind::Folder {
                    return Err(io::ErrorKind::IsADirectory.into());
                }
                let mut file = view.file(&own)?;
                let size = file.metadata()?.len();
                file.seek(io::SeekFrom::Start(offset.min(size)))?;
                let mut bytes = Vec::new();
                file.take(most as u64).read_to_end(&mut bytes)?;
                Ok((size, bytes))
            })())
        });
        read.map_err(|e| of_store(&e))?.map_err(|e| self.cannot(path, "be read", &e, &own))
    }

    /// Entries below a folder, or below the top, by path.
    ///
    /// # Errors
    /// A report when the path is invalid or not a folder.
    pub fn list(&self, below: Option<&str>) -> Result<Vec<Entry>, ErrorReport> {
        let start = below.map(relative).transpose()?.unwrap_or_default();
        let found = self.pin()?.with_view(|_, view| {
            Ok((|| {
                if below.is_some() {
                    match view.node(&start)? {
                        None => return Err(io::ErrorKind::NotFound.into()),
                        Some(node) if node.kind != Kind::Folder => {
                            return Err(io::ErrorKind::NotADirectory.into());
                        }
                        Some(_) => {}
                    }
                }
                view.walk(&start, MAX_ENTRIES)
            })())
        });
        let found = found.map_err(|e| of_store(&e))?;
        let found = found.map_err(|e| self.cannot(below.unwrap_or("."), "be listed", &e, &start))?;
        let entry = |(path, node): (PathBuf, hotcell_workspace::Node)| {
            let kind = match node.kind {
                Kind::Folder => EntryKind::Folder,
                Kind::Link => EntryKind::Link,
                _ => EntryKind::File,
            };
            Entry { path: path.to_string_lossy().into_owned(), kind, bytes: node.bytes }
        };
        Ok(found.into_iter().map(entry).collect())
    }

    /// Removes a file, or a folder with its contents.
    ///
    /// # Errors
    /// A report when the path is invalid or does not exist.
    pub fn remove(&self, path: &str) -> Result<(), ErrorReport> {
        let own = relative(path)?;
        let removed = self.take()?.delete(&own);
        removed.map_err(|e| match &e {
            store::StoreError::Io(error) => self.cannot(path, "be removed", error, &own),
            other => of_store(other),
        })
    }

    /// Changes to the source, by path, and as a unified diff.
    ///
    /// # Errors
    /// A report when it cannot be read.
    pub fn diff(&self) -> Result<(Vec<Change>, String), ErrorReport> {
        let pinned = self.pin()?;
        let found = pinned.changes().map_err(|e| of_store(&e))?;
        let text = pinned.with_view(|before, after| diff(before, after, &found, MAX_DIFF_BYTES));
        Ok((found.iter().map(hotcell_verbs::changes::row).collect(), text.map_err(|e| of_store(&e))?))
    }

    /// Commits its changes to its folder, if the operator allows it; changes of protected names need a
    /// person's approval of exactly these changes. Without an approval they are left out, and requested.
    /// Git's own state is neither committed nor requested: a person could not review it.
    ///
    /// # Errors
    /// A report when the commit is not allowed, there are conflicts, or the disk fails.
    pub fn commit(&self, approvals: &Approvals) -> Result<Taken, ErrorReport> {
        let mut workspace = self.take()?;
        let Source::Folder(folder) = workspace.summary().source else {
            return Err(of_store(&store::StoreError::NoOriginal));
        };
        self.shared.folders().writable(&folder)?;
        let owner = workspace.owner_of_source();
        let committed = workspace.commit(Allow::Nothing, owner).map_err(|e| of_store(&e))?;
        let mut taken = Taken::of(&committed, &self.id);
        let asks = |left: &Left| left.wants_yes() && !matches!(left, Left::Git(_));
        if !committed.left.iter().any(|(_, left)| asks(left)) {
            return Ok(taken);
        }
        // The workspace is locked, so the request describes exactly what would be committed.
        let what = protected::asked(&workspace, &folder)?;
        if approvals.take(&what)?.is_some() {
            let more = workspace.commit(Allow::Names, owner).map_err(|e| of_store(&e))?;
            let more = Taken::of(&more, &self.id);
            taken.done.extend(more.done);
            taken.marked.extend(more.marked);
            taken.left = more.left;
        } else {
            taken.standing = Some(approvals.ask(&what, None));
        }
        Ok(taken)
    }

    /// Resets it to a snapshot, or to the current source.
    ///
    /// # Errors
    /// A report when there is no such snapshot.
    pub fn discard(&self, to: Option<&str>) -> Result<(), ErrorReport> {
        let mut workspace = self.take()?;
        workspace.discard(to).map_err(|e| match &e {
            store::StoreError::NoSnapshot(name) => {
                let all: Vec<_> =
                    workspace.summary().snapshots.iter().map(|snapshot| snapshot.name.clone()).collect();
                of_store(&e).hint(missing::snapshot_hint(name, &all))
            }
            other => of_store(other),
        })
    }

    /// Saves its current state under a name.
    ///
    /// # Errors
    /// A report when the name is invalid, or a limit is exceeded.
    pub fn snapshot(&self, name: &str) -> Result<(), ErrorReport> {
        let length = name.chars().count();
        if length == 0 || length > MAX_NAME_CHARS || name.chars().any(char::is_control) {
            let why = format!(
                "name has {length} characters; allowed is 1 to {MAX_NAME_CHARS}, without control characters"
            );
            return Err(ErrorReport::new(Code::InvalidValue, why).field("name").hint("use a short word"));
        }
        let quotas = &self.shared.quotas;
        let mut workspace = self.take()?;
        let summary = workspace.summary();
        if summary.snapshots.len() >= quotas.snapshots {
            return Err(over("snapshots", summary.snapshots.len() as u64 + 1, quotas.snapshots as u64)
                .hint("workspace_fork makes another workspace"));
        }
        let most = quotas.bytes.saturating_mul(SNAPSHOT_QUOTA_FACTOR);
        if summary.with_snapshots.bytes > most {
            return Err(over("bytes that snapshots hold", summary.with_snapshots.bytes, most)
                .hint("workspace_fork makes another workspace"));
        }
        workspace.snapshot(name).map_err(|e| of_store(&e))
    }

    /// Exports everything as a tar archive.
    ///
    /// # Errors
    /// A report when the archive exceeds the quota of a file, or cannot be read.
    pub fn export(&self) -> Result<Vec<u8>, ErrorReport> {
        let most = self.shared.quotas.file;
        let mut archive = Bounded { bytes: Vec::new(), most: usize::try_from(most).unwrap_or(usize::MAX) };
        match self.pin()?.export(&mut archive) {
            Err(store::StoreError::Io(e)) if e.kind() == io::ErrorKind::QuotaExceeded => {
                let why = format!("the archive is longer than {most} bytes");
                Err(ErrorReport::new(Code::InvalidValue, why)
                    .field("workspace_id")
                    .hint("workspace_read gives single files; a person can use hotcell workspace export"))
            }
            Err(store::StoreError::Io(e)) => Err(failed("the workspace cannot be exported", &e)),
            exported => exported.map(|()| archive.bytes).map_err(|e| of_store(&e)),
        }
    }
}

/// A buffer of limited size.
struct Bounded {
    bytes: Vec<u8>,
    most: usize,
}

impl Write for Bounded {
    fn write(&mut self, more: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + more.len() > self.most {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        self.bytes.extend_from_slice(more);
        Ok(more.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
