//! One workspace of a caller, and what is done with it. Everything here blocks.

use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hotcell_sandbox::outcome::Change;
use hotcell_workspace::store::{Pinned, Source, Summary, Workspace as Held};
use hotcell_workspace::{Committed, Kind, Left, diff, layer, store};

use super::files::{around, plan};
use super::protected;
use super::told::{cannot, failed, in_the_way, of_store, over};
use super::{NewFile, PATIENCE, Shared};
use crate::approvals::{Approvals, Standing};
use crate::kept::Kept;
use crate::live::caller::Caller;
use crate::live::paths::relative;
use crate::report::{Code, ErrorReport};

/// Entries of a workspace that are looked at for a list.
const MOST_ENTRIES: usize = 200_000;
/// The longest diff, in bytes.
const LONGEST_DIFF: usize = 4 << 20;
/// The longest name of a snapshot, in characters.
const LONGEST_NAME: usize = 64;
/// How many times what a workspace may hold its snapshots may.
const SNAPSHOTS_HOLD: u64 = 4;

/// A workspace of a caller.
#[derive(Clone, Debug)]
pub struct Workspace {
    /// Its unguessable name.
    pub id: String,
    /// Whose it is.
    pub caller: Caller,
    shared: Arc<Shared>,
}

/// What a workspace holds beside its source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Bytes of files.
    pub bytes: u64,
    /// Files and folders; with a source, what was deleted of it too.
    pub files: u64,
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link that a program made.
    Link,
}

/// One entry of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Path below the workspace.
    pub path: String,
    /// What it is.
    pub kind: EntryKind,
    /// Bytes of a file.
    pub bytes: u64,
}

/// What a commit came to.
#[derive(Debug)]
pub struct Taken {
    /// Paths that were taken over.
    pub done: Vec<String>,
    /// Paths that were not, and why.
    pub left: Vec<(String, String)>,
    /// Where it stands what a person was asked for, or why nobody was.
    pub standing: Option<Result<Standing, ErrorReport>>,
}

impl Taken {
    fn of(committed: &Committed) -> Self {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        Self {
            done: committed.done.iter().map(|path| text(path)).collect(),
            left: committed.left.iter().map(|(path, left)| (text(path), left.to_string())).collect(),
            standing: None,
        }
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

    fn take(&self) -> Result<Held<'_>, ErrorReport> {
        self.shared.store.take_within(&self.id, PATIENCE).map_err(|e| of_store(&e))
    }

    /// Its state now, for a run.
    ///
    /// # Errors
    /// A report when it is gone.
    pub fn kept(&self) -> Result<Arc<Kept>, ErrorReport> {
        Kept::pin(&self.shared.store, &self.id).map_err(|e| of_store(&e))
    }

    /// What it holds.
    ///
    /// # Errors
    /// A report when it is gone or cannot be read.
    pub fn used(&self) -> Result<Used, ErrorReport> {
        let held = layer::held(&self.pin()?.changes().map_err(|e| of_store(&e))?);
        Ok(Used { bytes: held.bytes, files: held.files })
    }

    /// The folder of the host that it stands over.
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

    /// Writes files, each as a whole; all or none.
    ///
    /// # Errors
    /// A report: a quota, a path, or the disk.
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

    /// Reads a file: its size, and at most `most` bytes from an offset on.
    ///
    /// # Errors
    /// A report: a path, or what is not a file.
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
        read.map_err(|e| of_store(&e))?.map_err(|e| cannot(path, "be read", &e))
    }

    /// Entries below a folder, or below the top, by path.
    ///
    /// # Errors
    /// A report: a path, or what is not a folder.
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
                view.walk(&start, MOST_ENTRIES)
            })())
        });
        let found = found.map_err(|e| of_store(&e))?;
        let found = found.map_err(|e| cannot(below.unwrap_or("."), "be listed", &e))?;
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

    /// Removes a file or folder with all that is in it.
    ///
    /// # Errors
    /// A report: a path, or what is not there.
    pub fn remove(&self, path: &str) -> Result<(), ErrorReport> {
        let own = relative(path)?;
        self.take()?.delete(&own).map_err(|e| match &e {
            store::StoreError::Io(error) => cannot(path, "be removed", error),
            other => of_store(other),
        })
    }

    /// What it changed in its source, by path, and the same as a unified diff.
    ///
    /// # Errors
    /// A report when it cannot be read.
    pub fn diff(&self) -> Result<(Vec<Change>, String), ErrorReport> {
        let pinned = self.pin()?;
        let found = pinned.changes().map_err(|e| of_store(&e))?;
        let text = pinned.with_view(|before, after| diff(before, after, &found, LONGEST_DIFF));
        Ok((found.iter().map(crate::changes::row).collect(), text.map_err(|e| of_store(&e))?))
    }

    /// Takes its changes over into its folder, where the operator allows that; protected names only when a person approved exactly
    /// these. What nobody approved is left out, and asked for.
    ///
    /// # Errors
    /// A report: not allowed, conflicts, or the disk.
    pub fn commit(&self, approvals: &Approvals) -> Result<Taken, ErrorReport> {
        let mut workspace = self.take()?;
        let Source::Folder(folder) = workspace.summary().source else {
            return Err(of_store(&store::StoreError::NoOriginal));
        };
        self.shared.folders().writable(&folder)?;
        let owner = workspace.owner_of_source();
        let committed = workspace.commit(false, owner).map_err(|e| of_store(&e))?;
        let mut taken = Taken::of(&committed);
        if !committed.left.iter().any(|(_, left)| matches!(left, Left::Protected(_))) {
            return Ok(taken);
        }
        // The workspace is held: what is asked for is what would be taken over.
        let what = protected::asked(&workspace, &folder)?;
        if approvals.take(&what)?.is_some() {
            let more = Taken::of(&workspace.commit(true, owner).map_err(|e| of_store(&e))?);
            taken.done.extend(more.done);
            taken.left = more.left;
        } else {
            taken.standing = Some(approvals.ask(&what, None));
        }
        Ok(taken)
    }

    /// Goes back to a snapshot, or to the source as it is now.
    ///
    /// # Errors
    /// A report: there is no such snapshot.
    pub fn discard(&self, to: Option<&str>) -> Result<(), ErrorReport> {
        self.take()?.discard(to).map_err(|e| of_store(&e))
    }

    /// Keeps its present state under a name.
    ///
    /// # Errors
    /// A report: the name, or a bound.
    pub fn snapshot(&self, name: &str) -> Result<(), ErrorReport> {
        let length = name.chars().count();
        if length == 0 || length > LONGEST_NAME || name.chars().any(char::is_control) {
            let why = format!(
                "name has {length} characters; allowed is 1 to {LONGEST_NAME}, without control characters"
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
        let most = quotas.bytes.saturating_mul(SNAPSHOTS_HOLD);
        if summary.with_snapshots.bytes > most {
            return Err(over("bytes that snapshots hold", summary.with_snapshots.bytes, most)
                .hint("workspace_fork makes another workspace"));
        }
        workspace.snapshot(name).map_err(|e| of_store(&e))
    }

    /// All of it as a tar archive.
    ///
    /// # Errors
    /// A report: it is longer than the quota of a file, or cannot be read.
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

/// Bytes, at most so many.
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
