//! Folders that callers fill: plain folders of the service, each with quotas, an unguessable name and an owner.
//!
//! Everything is opened beneath the workspace's directory handle. A program never writes to them (it gets a
//! copy-on-write view), so there are no links in them; the handle would not follow one out either.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cap_std::fs::{Dir, DirBuilder, DirBuilderExt, OpenOptions, OpenOptionsExt, PermissionsExt};
use hotcell_sandbox::Bytes;

use super::caller::{Caller, handle};
use super::folder::{ServiceFolder, make_private};
use super::paths::relative;
use crate::report::{Code, ErrorReport};
use crate::state::StateFolder;

/// Bounds of workspaces.
#[derive(Clone, Copy, Debug)]
pub struct Quotas {
    /// Workspaces of one caller. Default 32.
    pub workspaces: usize,
    /// Workspaces of all callers. Default 256.
    pub all_workspaces: usize,
    /// Bytes of files in one workspace. Default 64 MiB.
    pub bytes: u64,
    /// Bytes of one file. Default 16 MiB.
    pub file: u64,
    /// Files and folders in one workspace. Default 4,096.
    pub files: u64,
    /// Files in one call. Default 1,024.
    pub at_once: usize,
    /// How long a workspace lives after it was last used. Default 24 hours.
    pub time_to_live: Duration,
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            workspaces: 32,
            all_workspaces: 256,
            bytes: 64 << 20,
            file: 16 << 20,
            files: 4096,
            at_once: 1024,
            time_to_live: Duration::from_secs(24 * 3600),
        }
    }
}

/// A file to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile {
    /// Path below the workspace.
    pub path: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Whether it can be executed.
    pub executable: bool,
}

/// One file or folder of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Path below the workspace.
    pub path: String,
    /// A folder, else a file.
    pub folder: bool,
    /// Bytes of a file.
    pub bytes: u64,
}

/// What a workspace holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Bytes of files.
    pub bytes: u64,
    /// Files and folders.
    pub files: u64,
}

/// All workspaces of a service.
#[derive(Debug)]
pub struct Workspaces {
    folder: Arc<ServiceFolder>,
    quotas: Quotas,
    all: Mutex<HashMap<String, Arc<Workspace>>>,
}

/// A workspace. Its folder is there until nothing uses it any more.
#[derive(Debug)]
pub struct Workspace {
    /// Its unguessable name.
    pub id: String,
    /// Whose it is.
    pub caller: Caller,
    folder: Arc<ServiceFolder>,
    dir: Dir,
    path: PathBuf,
    quotas: Quotas,
    inner: Mutex<(Used, Instant)>,
}

impl Workspaces {
    pub(super) fn open(state: &StateFolder, quotas: Quotas) -> Result<Self, ErrorReport> {
        let folder = Arc::new(ServiceFolder::make(state)?);
        make_private(folder.dir(), INCOMING).map_err(|e| failed("a folder cannot be made", &e))?;
        Ok(Self { folder, quotas, all: Mutex::default() })
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<Workspace>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The quotas.
    #[must_use]
    pub fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// Makes one with these files. Blocks.
    ///
    /// # Errors
    /// A report: a quota, a path, or the disk. Nothing is made then.
    pub fn create(&self, caller: &Caller, files: &[NewFile]) -> Result<Arc<Workspace>, ErrorReport> {
        self.forget();
        let room = |all: &HashMap<String, Arc<Workspace>>| {
            let own = all.values().filter(|w| w.caller == *caller).count();
            if own >= self.quotas.workspaces {
                return Err(over("workspaces", own as u64 + 1, self.quotas.workspaces as u64)
                    .hint("remove one with workspace_remove"));
            }
            if all.len() >= self.quotas.all_workspaces {
                return Err(
                    ErrorReport::new(Code::Busy, "there are too many workspaces").hint("try again later")
                );
            }
            Ok(())
        };
        room(&self.all())?;
        let workspace = Arc::new(self.make(caller, files)?);
        let mut all = self.all();
        room(&all)?;
        all.insert(workspace.id.clone(), Arc::clone(&workspace));
        Ok(workspace)
    }

    /// Makes one that no caller can name, gone with its last use. Blocks.
    ///
    /// # Errors
    /// A report: a quota, a path, or the disk.
    pub fn temporary(&self, caller: &Caller, files: &[NewFile]) -> Result<Arc<Workspace>, ErrorReport> {
        self.make(caller, files).map(Arc::new)
    }

    fn make(&self, caller: &Caller, files: &[NewFile]) -> Result<Workspace, ErrorReport> {
        let id = handle("ws_")?;
        let io = |e: io::Error| failed("a folder cannot be made", &e);
        let mut builder = DirBuilder::new();
        // Others are kept out by the service's folder; inside it belongs to whoever the program is.
        builder.mode(0o755);
        self.folder.dir().create_dir_with(&id, &builder).map_err(io)?;
        let workspace = Workspace {
            dir: self.folder.dir().open_dir(&id).map_err(io)?,
            path: self.folder.path().join(&id),
            caller: caller.clone(),
            folder: Arc::clone(&self.folder),
            quotas: self.quotas,
            inner: Mutex::new((Used::default(), Instant::now())),
            id,
        };
        workspace.write(files)?;
        Ok(workspace)
    }

    /// A caller's workspace by its name; it counts as used.
    ///
    /// # Errors
    /// The same report for what does not exist, what has been removed and what is another caller's.
    pub fn get(&self, caller: &Caller, id: &str) -> Result<Arc<Workspace>, ErrorReport> {
        let all = self.all();
        let workspace = all.get(id).filter(|w| w.caller == *caller && !w.is_old());
        let workspace = workspace.ok_or_else(|| {
            ErrorReport::new(Code::UnknownName, "there is no workspace of that workspace_id")
                .field("workspace_id")
                .hint(
                    "use a workspace_id from workspace_create; one that nobody uses is removed after a while",
                )
        })?;
        workspace.inner().1 = Instant::now();
        Ok(Arc::clone(workspace))
    }

    /// A caller's workspaces by name.
    #[must_use]
    pub fn list(&self, caller: &Caller) -> Vec<Arc<Workspace>> {
        let mut own: Vec<_> =
            self.all().values().filter(|w| w.caller == *caller && !w.is_old()).map(Arc::clone).collect();
        own.sort_by(|a, b| a.id.cmp(&b.id));
        own
    }

    /// Removes one; its folder goes when no run uses it any more.
    ///
    /// # Errors
    /// As [`Workspaces::get`].
    pub fn remove(&self, caller: &Caller, id: &str) -> Result<(), ErrorReport> {
        self.get(caller, id)?;
        self.all().remove(id);
        Ok(())
    }

    pub(super) fn forget(&self) {
        self.all().retain(|_, w| !w.is_old());
    }

    pub(super) fn close(&self) {
        self.all().clear();
    }
}

/// Where a file is written before it takes its place.
const INCOMING: &str = "incoming";

impl Workspace {
    fn inner(&self) -> MutexGuard<'_, (Used, Instant)> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_old(&self) -> bool {
        self.inner().1.elapsed() > self.quotas.time_to_live
    }

    /// Its folder on the host. Not for a caller's eyes.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it holds.
    #[must_use]
    pub fn used(&self) -> Used {
        self.inner().0
    }

    /// Writes files, each as a whole. Blocks.
    ///
    /// # Errors
    /// A report: a quota, a path, or the disk. Files before the one that failed may have been written, and count, when
    /// the disk fails; nothing is written when a quota or a path is wrong.
    pub fn write(&self, files: &[NewFile]) -> Result<Used, ErrorReport> {
        if files.len() > self.quotas.at_once {
            return Err(over("files", files.len() as u64, self.quotas.at_once as u64));
        }
        let mut planned = Vec::new();
        for file in files {
            let size = file.bytes.len() as u64;
            if size > self.quotas.file {
                return Err(over(&format!("the size of {:?} in bytes", file.path), size, self.quotas.file)
                    .field("files"));
            }
            planned.push((relative(&file.path)?, file));
        }
        let mut inner = self.inner();
        let after = self.after(inner.0, &planned)?;
        let placed = planned.iter().try_for_each(|(path, file)| {
            self.place(path, file).map_err(|e| failed(&format!("{:?} cannot be written", file.path), &e))
        });
        *inner = (if placed.is_ok() { after } else { self.counted().unwrap_or(after) }, Instant::now());
        placed.map(|()| after)
    }

    /// What it holds, by looking.
    fn counted(&self) -> Result<Used, ErrorReport> {
        let all = self.list(None)?;
        Ok(Used { bytes: all.iter().map(|e| e.bytes).sum(), files: all.len() as u64 })
    }

    /// What it would hold after writing these.
    fn after(&self, mut used: Used, files: &[(PathBuf, &NewFile)]) -> Result<Used, ErrorReport> {
        let mut new = HashMap::new();
        for (path, file) in files {
            for folder in path.ancestors().skip(1).filter(|p| !p.as_os_str().is_empty()) {
                match (self.dir.symlink_metadata(folder), new.get(folder)) {
                    (Ok(about), _) if about.is_dir() => {}
                    (Err(_), Some(None)) => {}
                    (Err(_), None) => {
                        new.insert(folder.to_owned(), None);
                        used.files += 1;
                    }
                    _ => return Err(in_the_way(&file.path, folder)),
                }
            }
            match (self.dir.symlink_metadata(path), new.insert(path.clone(), Some(file.bytes.len() as u64))) {
                (Ok(about), None) if about.is_file() => used.bytes -= about.len().min(used.bytes),
                (_, Some(Some(earlier))) => used.bytes -= earlier,
                (Err(_), None) => used.files += 1,
                _ => return Err(in_the_way(&file.path, path)),
            }
            used.bytes += file.bytes.len() as u64;
        }
        if used.bytes > self.quotas.bytes {
            return Err(over("bytes in the workspace", used.bytes, self.quotas.bytes).field("files"));
        }
        if used.files > self.quotas.files {
            return Err(
                over("files and folders in the workspace", used.files, self.quotas.files).field("files")
            );
        }
        Ok(used)
    }

    /// Writes a file beside the workspace and moves it to its place, so that nobody ever reads half of it.
    fn place(&self, path: &Path, file: &NewFile) -> io::Result<()> {
        if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
            let mut builder = DirBuilder::new();
            builder.mode(0o755).recursive(true);
            self.dir.create_dir_with(parent, &builder)?;
        }
        let incoming = self.folder.dir().open_dir(INCOMING)?;
        let name = handle("").map_err(io::Error::other)?;
        let written = (|| {
            let mode = if file.executable { 0o755 } else { 0o644 };
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(mode);
            let mut open = incoming.open_with(&name, &options)?;
            open.set_permissions(cap_std::fs::Permissions::from_mode(mode))?;
            open.write_all(&file.bytes)?;
            incoming.rename(&name, &self.dir, path)
        })();
        if written.is_err() {
            let _ = incoming.remove_file(&name);
        }
        written
    }

    /// Reads a file: its size, and at most `most` bytes from an offset on. Blocks.
    ///
    /// # Errors
    /// A report: a path, or what is not a file.
    pub fn read(&self, path: &str, offset: u64, most: usize) -> Result<(u64, Vec<u8>), ErrorReport> {
        use std::io::Seek;
        let relative = relative(path)?;
        let io = |e: io::Error| cannot(path, "be read", &e);
        let about = self.dir.symlink_metadata(&relative).map_err(io)?;
        if !about.is_file() {
            return Err(io(io::ErrorKind::IsADirectory.into()));
        }
        let mut file = self.dir.open(&relative).map_err(io)?;
        file.seek(io::SeekFrom::Start(offset.min(about.len()))).map_err(io)?;
        let mut bytes = Vec::new();
        file.take(most as u64).read_to_end(&mut bytes).map_err(io)?;
        Ok((about.len(), bytes))
    }

    /// Files and folders below a folder, or below the top, by path. Blocks.
    ///
    /// # Errors
    /// A report: a path, or what is not a folder.
    pub fn list(&self, below: Option<&str>) -> Result<Vec<Entry>, ErrorReport> {
        let start = below.map(relative).transpose()?.unwrap_or_default();
        let mut entries = Vec::new();
        let mut folders = vec![start];
        while let Some(folder) = folders.pop() {
            let shown = folder.to_string_lossy().into_owned();
            let io = |e: io::Error| cannot(&shown, "be listed", &e);
            let at = if shown.is_empty() { Path::new(".") } else { &folder };
            for entry in self.dir.read_dir(at).map_err(io)? {
                let entry = entry.map_err(io)?;
                let path = folder.join(entry.file_name());
                let about = entry.metadata().map_err(io)?;
                let text = path.to_string_lossy().into_owned();
                entries.push(Entry {
                    path: text,
                    folder: about.is_dir(),
                    bytes: if about.is_file() { about.len() } else { 0 },
                });
                if about.is_dir() {
                    folders.push(path);
                }
            }
        }
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(entries)
    }

    /// Removes a file or folder with all that is in it. Blocks.
    ///
    /// # Errors
    /// A report: a path, or what is not there.
    pub fn remove(&self, path: &str) -> Result<Used, ErrorReport> {
        let relative = relative(path)?;
        let io = |e: io::Error| cannot(path, "be removed", &e);
        let mut inner = self.inner();
        let about = self.dir.symlink_metadata(&relative).map_err(io)?;
        let (bytes, files) = if about.is_dir() {
            let within = self.list(Some(path))?;
            self.dir.remove_dir_all(&relative).map_err(io)?;
            (within.iter().map(|e| e.bytes).sum(), within.len() as u64 + 1)
        } else {
            self.dir.remove_file(&relative).map_err(io)?;
            (about.len(), 1)
        };
        inner.0 =
            Used { bytes: inner.0.bytes.saturating_sub(bytes), files: inner.0.files.saturating_sub(files) };
        inner.1 = Instant::now();
        Ok(inner.0)
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        let (folder, id) = (Arc::clone(&self.folder), self.id.clone());
        let remove = move || {
            if let Err(error) = folder.dir().remove_dir_all(&id) {
                tracing::warn!("a workspace is left behind until the service ends: {error}");
            }
        };
        match tokio::runtime::Handle::try_current() {
            // A thread of the runtime has better things to do.
            Ok(runtime) => drop(runtime.spawn_blocking(remove)),
            Err(_) => remove(),
        }
    }
}

fn over(what: &str, asked: u64, most: u64) -> ErrorReport {
    ErrorReport::new(Code::InvalidValue, format!("{what}: {asked}; allowed is at most {most}"))
        .field(what)
        .hint(format!("at most {most} ({})", Bytes(most)))
}

fn in_the_way(path: &str, other: &Path) -> ErrorReport {
    ErrorReport::new(
        Code::InvalidValue,
        format!("{path:?} cannot be written: {:?} is in the way", other.to_string_lossy()),
    )
    .field("path")
    .hint("a file and a folder cannot have the same name; remove one or use another path")
}

fn cannot(path: &str, what: &str, error: &io::Error) -> ErrorReport {
    let why = match error.kind() {
        io::ErrorKind::NotFound => "it is not there",
        io::ErrorKind::IsADirectory => "it is a folder",
        io::ErrorKind::NotADirectory => "it is not a folder",
        _ => return failed(&format!("{path:?} cannot {what}"), error),
    };
    ErrorReport::new(Code::UnknownName, format!("{path:?} cannot {what}: {why}"))
        .field("path")
        .hint("workspace_list shows what is there")
}

/// The system refused; its words have no path in them.
fn failed(what: &str, error: &io::Error) -> ErrorReport {
    let why = error
        .raw_os_error()
        .map_or_else(|| error.kind().to_string(), |e| nix::errno::Errno::from_raw(e).desc().to_owned());
    ErrorReport::new(Code::State, format!("{what}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, bytes: &[u8]) -> NewFile {
        NewFile { path: path.to_owned(), bytes: bytes.to_vec(), executable: false }
    }

    fn workspaces(quotas: Quotas) -> (tempfile::TempDir, Workspaces) {
        let dir = tempfile::tempdir().unwrap();
        let state = StateFolder::open(&dir.path().join("state")).unwrap();
        let all = Workspaces::open(&state, quotas).unwrap();
        (dir, all)
    }

    #[test]
    fn files_are_written_read_listed_and_removed() {
        let (_dir, all) = workspaces(Quotas::default());
        let me = Caller::new("me");
        let w = all.create(&me, &[file("a/b.txt", b"one"), file("c", b"")]).unwrap();
        assert_eq!(w.used(), Used { bytes: 3, files: 3 });
        assert_eq!(
            w.write(&[file("a/b.txt", b"longer"), file("a/d/e", b"x")]).unwrap(),
            Used { bytes: 7, files: 5 }
        );
        assert_eq!(w.read("a/b.txt", 2, 3).unwrap(), (6, b"nge".to_vec()));
        assert_eq!(w.read("a/b.txt", 99, 3).unwrap(), (6, vec![]));
        let paths: Vec<_> = w.list(None).unwrap().into_iter().map(|e| (e.path, e.folder, e.bytes)).collect();
        let want =
            [("a", true, 0), ("a/b.txt", false, 6), ("a/d", true, 0), ("a/d/e", false, 1), ("c", false, 0)];
        assert_eq!(paths, want.map(|(p, f, b)| (p.to_owned(), f, b)));
        assert_eq!(w.list(Some("a/d")).unwrap().len(), 1);
        assert_eq!(w.remove("a").unwrap(), Used { bytes: 0, files: 1 });
        for missing in ["a", "a/b.txt"] {
            assert_eq!(w.read(missing, 0, 1).unwrap_err().code, Code::UnknownName);
            assert!(w.remove(missing).is_err());
        }
        assert!(w.read("c", 0, 1).is_ok() && w.list(Some("c")).is_err());
    }

    #[test]
    fn another_caller_s_is_unknown() {
        let (_dir, all) = workspaces(Quotas::default());
        let (me, other) = (Caller::new("me"), Caller::new("other"));
        let w = all.create(&me, &[]).unwrap();
        let unknown = all.get(&me, "ws_0").unwrap_err();
        assert_eq!(all.get(&other, &w.id).unwrap_err(), unknown);
        assert_eq!(all.remove(&other, &w.id).unwrap_err(), unknown);
        assert!(all.list(&other).is_empty() && all.list(&me).len() == 1);
        let path = w.path().to_owned();
        all.remove(&me, &w.id).unwrap();
        assert_eq!(all.get(&me, &w.id).unwrap_err(), unknown);
        assert!(path.exists(), "a run may still use it");
        drop(w);
        assert!(!path.exists());
    }

    #[test]
    fn quotas_hold_and_change_nothing() {
        let quotas = Quotas { workspaces: 1, bytes: 10, file: 8, files: 4, at_once: 3, ..Quotas::default() };
        let (_dir, all) = workspaces(quotas);
        let me = Caller::new("me");
        let w = all.create(&me, &[file("a", b"12345")]).unwrap();
        let before = w.list(None).unwrap();
        for files in [
            vec![file("b", b"123456789")],
            vec![file("b", b"123"), file("c", b"123")],
            vec![file("b/c/d/e", b"")],
            vec![file("x", b""), file("x/y", b"")],
            vec![file("x/y", b""), file("x", b"")],
            vec![file("a/b", b"")],
            vec![file("b", b""), file("../c", b"")],
            vec![file("1", b""), file("2", b""), file("3", b""), file("4", b"")],
        ] {
            assert!(w.write(&files).is_err(), "{files:?}");
            assert_eq!(
                (w.list(None).unwrap(), w.used()),
                (before.clone(), Used { bytes: 5, files: 1 }),
                "{files:?}"
            );
        }
        w.write(&[file("a", b"1234567"), file("b", b"123")]).unwrap();
        assert_eq!(
            w.write(&[file("c", b"12"), file("c", b""), file("b", b"")]).unwrap(),
            Used { bytes: 7, files: 3 }
        );
        assert!(all.create(&me, &[]).unwrap_err().message.contains("at most 1"));
        assert!(all.create(&Caller::new("other"), &[]).is_ok());
    }

    #[test]
    fn what_a_failed_write_left_counts() {
        let (_dir, all) = workspaces(Quotas::default());
        let w = all.create(&Caller::new("me"), &[]).unwrap();
        std::fs::remove_dir(w.path().with_file_name(INCOMING)).unwrap();
        assert_eq!(w.write(&[file("a/b", b"1")]).unwrap_err().code, Code::State);
        assert_eq!((w.used(), w.list(None).unwrap().len()), (Used { bytes: 0, files: 1 }, 1), "the folder");
    }

    #[test]
    fn a_link_in_a_workspace_is_not_followed_out() {
        let (dir, all) = workspaces(Quotas::default());
        let w = all.create(&Caller::new("me"), &[]).unwrap();
        std::fs::write(dir.path().join("secret"), "x").unwrap();
        std::os::unix::fs::symlink(dir.path().join("secret"), w.path().join("file")).unwrap();
        std::os::unix::fs::symlink(dir.path(), w.path().join("folder")).unwrap();
        assert!(w.read("file", 0, 9).is_err() && w.read("folder/secret", 0, 9).is_err());
        assert!(w.list(Some("folder")).is_err());
        assert!(w.write(&[file("folder/new", b"")]).is_err() && !dir.path().join("new").exists());
        assert!(w.write(&[file("file", b"y")]).is_err());
        w.remove("folder").unwrap();
        assert!(dir.path().join("secret").exists());
    }

    #[test]
    fn what_nobody_uses_goes() {
        let (_dir, all) = workspaces(Quotas { time_to_live: Duration::ZERO, ..Quotas::default() });
        let w = all.create(&Caller::new("me"), &[]).unwrap();
        let path = w.path().to_owned();
        std::thread::sleep(Duration::from_millis(2));
        assert!(all.get(&w.caller, &w.id).is_err());
        drop(w);
        all.forget();
        assert!(!path.exists());
    }
}
