//! Runs that go on now, for a page that shows them. While a page is served the state folder has a folder for them; each run keeps a file there
//! and holds its lock (`flock(2)`), so that a run whose process was killed is known. Without a watcher a run costs one look for that folder.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use serde::{Deserialize, Serialize};

use crate::history::Stored;
use crate::state::{DATABASE, StateFolder, make_private};
use crate::time::micros_since_1970;

/// Maximum number of runs that are read.
const MAX_RUNS: usize = 500;
/// Maximum size of a run's file in bytes.
const MAX_FILE_BYTES: u64 = 64 * 1024;
/// Maximum length of a command's words together, in characters.
const MAX_COMMAND_CHARS: usize = 2_000;
/// Age at which an empty file without a lock is left over, and not about to be written.
const MAX_EMPTY_AGE: Duration = Duration::from_secs(60);

fn name() -> String {
    format!("{DATABASE}-running")
}

/// A run that goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningRow {
    /// Id, by which the history has it later.
    pub id: String,
    /// Time of the request in microseconds since 1970.
    pub started: i64,
    /// Process that waits for it: a command, or a service.
    pub pid: u32,
    /// Command as typed, possibly shortened.
    pub command: Vec<String>,
}

/// A run's file, which is removed with this value.
#[derive(Debug)]
pub struct LiveRun {
    folder: Dir,
    name: String,
    _locked: File,
}

impl LiveRun {
    /// Notes that a run goes on, while a page is served; a failure only hides the run.
    #[must_use]
    pub fn begin(folder: &StateFolder, run: &Stored) -> Option<Self> {
        let folder = folder.dir().open_dir(name()).ok()?;
        let written = Self::write(folder, run);
        written.inspect_err(|error| tracing::debug!("the page does not show this run: {error}")).ok()
    }

    /// As [`Self::begin`], of a state folder that is not open.
    #[must_use]
    pub fn begin_at(path: &Path, run: &Stored) -> Option<Self> {
        path.join(name()).symlink_metadata().ok()?;
        Self::begin(&StateFolder::open_existing(path).ok()??, run)
    }

    fn write(folder: Dir, run: &Stored) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let mut file = folder.open_with(&run.id, &options)?.into_std();
        let mut left = MAX_COMMAND_CHARS;
        let mut shortened = |word: &String| {
            let kept: String = word.chars().take(left).collect();
            left -= kept.chars().count();
            (!kept.is_empty() || word.is_empty()).then_some(kept)
        };
        let row = RunningRow {
            id: run.id.clone(),
            started: micros_since_1970(run.started),
            pid: std::process::id(),
            command: run.command.iter().take(MAX_COMMAND_CHARS).map_while(&mut shortened).collect(),
        };
        let written = file.lock().and_then(|()| file.write_all(&serde_json::to_vec(&row)?));
        // From here on the file goes with this value.
        let running = Self { folder, name: run.id.clone(), _locked: file };
        written.map(|()| running)
    }
}

impl Drop for LiveRun {
    fn drop(&mut self) {
        if let Err(error) = self.folder.remove_file(&self.name) {
            tracing::debug!("a run that ended is still among those that go on: {error}");
        }
    }
}

/// Runs that go on, the newest first. From the first call on, runs are noted until [`unwatch`].
///
/// # Errors
/// When the folder of runs cannot be made or read.
pub fn watch(folder: &StateFolder) -> io::Result<Vec<RunningRow>> {
    make_private(folder.dir(), &name())?;
    let runs = folder.dir().open_dir(name())?;
    let mut rows = Vec::new();
    for entry in runs.entries()?.take(MAX_RUNS) {
        let file = entry?.file_name();
        match read(&runs, Path::new(&file)) {
            Ok(Some(row)) => rows.push(row),
            Ok(None) => {}
            // It ended meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::debug!("{}: {error}", file.display()),
        }
    }
    rows.sort_by(|a, b| b.started.cmp(&a.started).then_with(|| a.id.cmp(&b.id)));
    Ok(rows)
}

/// Ends the noting of runs: the folder goes. Another watcher makes it again.
pub fn unwatch(folder: &StateFolder) {
    if let Err(error) = folder.dir().remove_dir_all(name()) {
        tracing::debug!("runs are still noted: {error}");
    }
}

/// A run by its file; `None` when its process is gone, whose file is removed, or when it is about to write.
fn read(runs: &Dir, name: &Path) -> io::Result<Option<RunningRow>> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(nix::libc::O_NONBLOCK | nix::libc::O_NOFOLLOW);
    let file = runs.open_with(name, &options)?.into_std();
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no file"));
    }
    if file.try_lock().is_ok() {
        let age = metadata.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
        if metadata.len() > 0 || age.is_some_and(|age| age > MAX_EMPTY_AGE) {
            runs.remove_file(name)?;
        }
        return Ok(None);
    }
    let mut text = Vec::new();
    file.take(MAX_FILE_BYTES).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_noted_while_somebody_watches() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        let run = |word: &str| Stored::begin(vec!["run".to_owned(), word.to_owned()]);
        assert!(LiveRun::begin_at(&path, &run("a")).is_none());
        let folder = StateFolder::open(&path).unwrap();
        assert!(LiveRun::begin(&folder, &run("a")).is_none());
        assert_eq!(watch(&folder).unwrap(), []);
        let (first, second) = (run("a"), run(&"é".repeat(3_000)));
        let one = LiveRun::begin_at(&path, &first).unwrap();
        let two = LiveRun::begin(&folder, &second).unwrap();
        let rows = watch(&folder).unwrap();
        assert_eq!(rows.iter().map(|row| &row.id).collect::<Vec<_>>(), [&second.id, &first.id]);
        assert_eq!(rows[1].command, first.command);
        assert_eq!(rows[0].command[1].chars().count(), MAX_COMMAND_CHARS - 3);
        assert_eq!(rows[0].pid, std::process::id());
        drop(one);
        assert_eq!(watch(&folder).unwrap().len(), 1);
        unwatch(&folder);
        assert!(LiveRun::begin(&folder, &run("a")).is_none());
        drop(two);
    }

    #[test]
    fn files_of_dead_processes_go() {
        let dir = tempfile::tempdir().unwrap();
        let folder = StateFolder::open(&dir.path().join("state")).unwrap();
        watch(&folder).unwrap();
        let runs = folder.dir().open_dir(name()).unwrap();
        runs.write("dead", "{}").unwrap();
        runs.write("begins", "").unwrap();
        runs.create_dir("folder").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join(name()).join("link")).unwrap();
        assert_eq!(watch(&folder).unwrap(), []);
        assert!(!runs.exists("dead") && runs.exists("begins"));
    }
}
