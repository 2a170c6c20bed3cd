//! Caches in the state folder, which only save time: each may be removed at any time, and is made again when
//! it is needed.
//!
//! | kind | folder | what |
//! | --- | --- | --- |
//! | `deps` | `deps/` | what `--deps` installed, and compiled of it ahead |
//! | `builds` | `builds/` | what compilers made of a toolchain's own, as Go's standard library |
//! | `warm` | `warm/` | what `test --cache NAME` keeps of a build tool |
//! | `components` | `tools/compiled/` | tools' components as machine code |
//! | `readings` | `readings.db` | reports of files that the guard has read |
//! | `blobs` | `fleet-blobs/` | inputs and outputs of a farm's actions, kept by its workers |
//! | `digests` | `fleet-digests/` | digests of files that `run --remote` sends |
//! | `results` | `verb-results/` | results of tools that verbs of agent definitions call |

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use hotcell_scanning::cache;
use hotcell_state::state::{StateFolder, VERB_RESULTS};
use hotcell_state::time::micros_since_1970;
use hotcell_workspace::Folder;
use schemars::JsonSchema;
use serde::Serialize;

use crate::builds::{self, EMPTY, WARM};

/// The schema's name.
pub const SCHEMA: &str = "hotcell.cache/1";
/// Kinds that are a folder with an entry for each thing that is kept.
const FOLDERS: [(&str, &str); 4] =
    [("deps", "deps"), ("builds", "builds"), ("warm", WARM), ("components", "tools/compiled")];
/// Folder of the blobs of workers: one entry, since a worker alone knows which of them belong together.
pub const BLOBS: &str = "fleet-blobs";
/// The key of the compiled components: it is not an entry, and the others are nothing without it.
const KEY: &str = "key";
const READINGS: &str = "readings";
/// Folder of the digests of folders' files.
pub const DIGESTS: &str = "fleet-digests";
/// Kinds that are one entry each: their files mean nothing to a person.
const WHOLE: [(&str, &str); 3] = [("blobs", BLOBS), ("digests", DIGESTS), ("results", VERB_RESULTS)];

/// `hotcell.cache/1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CacheList {
    /// Always `hotcell.cache/1`.
    pub schema: String,
    /// The state folder; names are relative to it.
    #[schemars(with = "String")]
    pub folder: PathBuf,
    /// Existing entries, the last used first; for `prune` and `clear`, the removed ones.
    pub entries: Vec<Entry>,
    /// Total size of these entries.
    pub bytes: u64,
    /// For `prune` and `clear`: entries that were to be removed and stay, since runs use them or write them now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_use: Vec<Entry>,
}

/// Something that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Entry {
    /// `deps`, `builds`, `warm`, `components`, `readings`, `blobs`, `digests` or `results`.
    pub kind: String,
    /// Path in the state folder.
    pub name: String,
    /// Size on disk.
    pub bytes: u64,
    /// When it was made or used last, in microseconds since 1970.
    pub used_us: i64,
}

/// Criteria for `prune`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prune {
    /// Minimum time without use of the entries to remove.
    pub older: Option<Duration>,
    /// Maximum number of bytes to keep; the entries used longest ago are removed first.
    pub most: Option<u64>,
}

impl CacheList {
    fn new(state: &StateFolder, entries: Vec<Entry>) -> Self {
        let bytes = entries.iter().map(|entry| entry.bytes).sum();
        Self {
            schema: SCHEMA.to_owned(),
            folder: state.path().to_owned(),
            entries,
            bytes,
            in_use: Vec::new(),
        }
    }
}

/// Lists the entries of all caches, the last used first.
///
/// # Errors
/// When the state folder or one of its caches cannot be read.
pub fn list(state: &StateFolder) -> io::Result<CacheList> {
    let mut entries = Vec::new();
    for (kind, folder) in FOLDERS {
        let inside = match fs::read_dir(state.path().join(folder)) {
            Ok(inside) => inside,
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(e),
        };
        for entry in inside {
            let entry = entry?;
            let name = entry.file_name();
            if kind == "components" && name == KEY || kind == "warm" && name == EMPTY {
                continue;
            }
            // An entry that was removed meanwhile.
            let Ok(about) = entry.metadata() else { continue };
            entries.push(Entry {
                kind: kind.to_owned(),
                name: Path::new(folder).join(name).display().to_string(),
                bytes: taken(&entry.path(), &about),
                used_us: about.modified().map_or(0, micros_since_1970),
            });
        }
    }
    for (kind, name) in WHOLE {
        let place = state.path().join(name);
        let Ok(about) = fs::symlink_metadata(&place) else { continue };
        entries.push(Entry {
            kind: kind.to_owned(),
            name: name.to_owned(),
            bytes: taken(&place, &about),
            used_us: about.modified().map_or(0, micros_since_1970),
        });
    }
    if let Ok(about) = fs::symlink_metadata(state.path().join(cache::DATABASE)) {
        entries.push(Entry {
            kind: READINGS.to_owned(),
            name: cache::DATABASE.to_owned(),
            bytes: about.len(),
            used_us: about.modified().map_or(0, micros_since_1970),
        });
    }
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.used_us));
    Ok(CacheList::new(state, entries))
}

/// Bytes of a file, or of all files in a folder; links are not followed.
fn taken(path: &Path, about: &fs::Metadata) -> u64 {
    if !about.is_dir() {
        return about.len();
    }
    let inside = fs::read_dir(path).into_iter().flatten().flatten();
    inside.filter_map(|entry| Some(taken(&entry.path(), &entry.metadata().ok()?))).sum()
}

/// Removes the entries that meet the criteria and that no run uses. Returns the removed ones, and those in use.
///
/// # Errors
/// When the entries cannot be listed, or one cannot be removed.
pub fn prune(state: &StateFolder, what: Prune, now: SystemTime) -> io::Result<CacheList> {
    let all = list(state)?;
    let before = what.older.and_then(|older| now.checked_sub(older)).map(micros_since_1970);
    let goes = chosen(&all.entries, before, what.most);
    remove(state, goes)
}

/// Removes all entries that no run uses. Returns the removed ones, and those in use.
///
/// # Errors
/// When the entries cannot be listed, or one cannot be removed.
pub fn clear(state: &StateFolder) -> io::Result<CacheList> {
    let all = list(state)?.entries;
    remove(state, all)
}

/// Entries to remove, of `all` in the order of use, the last used first: those used before `before`, and
/// those beyond `most` bytes.
fn chosen(all: &[Entry], before: Option<i64>, most: Option<u64>) -> Vec<Entry> {
    let mut bytes = 0u64;
    let goes = |entry: &&Entry| {
        let old = before.is_some_and(|before| entry.used_us < before);
        // A removed larger entry counts too: no smaller one that was used earlier is kept in its place.
        bytes = bytes.saturating_add(if old { 0 } else { entry.bytes });
        old || most.is_some_and(|most| bytes > most)
    };
    all.iter().filter(goes).cloned().collect()
}

fn remove(state: &StateFolder, entries: Vec<Entry>) -> io::Result<CacheList> {
    let folder = Folder::ours(state.path())?;
    let (mut removed, mut in_use) = (Vec::new(), Vec::new());
    for entry in entries {
        let place = state.path().join(&entry.name);
        // Kept until it is gone: no run begins to use it meanwhile.
        let lock = if entry.kind == READINGS { unread(&place) } else { builds::free(&place) };
        if lock.is_none() && fs::symlink_metadata(&place).is_ok_and(|about| !about.is_symlink()) {
            in_use.push(entry);
            continue;
        }
        match folder.remove_all(Path::new(&entry.name)) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(io::Error::other(format!("{} cannot be removed: {e}", entry.name))),
        }
        if entry.kind == READINGS {
            for end in cache::BESIDE {
                let _ = folder.remove_all(Path::new(&format!("{}{end}", cache::DATABASE)));
            }
        }
        removed.push(entry);
    }
    Ok(CacheList { in_use, ..CacheList::new(state, removed) })
}

/// The database, when no process reads or writes it: SQLite locks bytes of it for as long as that. One that only has it open loses what it would
/// have remembered.
fn unread(place: &Path) -> Option<fs::File> {
    use nix::fcntl::{FcntlArg, fcntl};
    let file = fs::File::open(place).ok()?;
    let mut lock = nix::libc::flock {
        l_type: i16::try_from(nix::libc::F_WRLCK).unwrap_or_default(),
        l_whence: i16::try_from(nix::libc::SEEK_SET).unwrap_or_default(),
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    let asked = fcntl(&file, FcntlArg::F_OFD_GETLK(&mut lock));
    let held = asked.is_ok() && i32::from(lock.l_type) != nix::libc::F_UNLCK;
    (!held).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, bytes: u64, used_us: i64) -> Entry {
        Entry { kind: "deps".to_owned(), name: name.to_owned(), bytes, used_us }
    }

    #[test]
    fn cache_eviction_removes_old_and_excess() {
        let all = [entry("a", 10, 9), entry("b", 10, 8), entry("c", 10, 7), entry("d", 1, 6)];
        for (before, most, goes) in [
            (None, None, ""),
            (Some(8), None, "cd"),
            (Some(0), None, ""),
            (None, Some(31), ""),
            (None, Some(30), "d"),
            (None, Some(20), "cd"),
            (None, Some(0), "abcd"),
            (Some(8), Some(10), "bcd"),
        ] {
            let got: String = chosen(&all, before, most).into_iter().map(|entry| entry.name).collect();
            assert_eq!(got, goes, "{before:?} {most:?}");
        }
    }

    #[test]
    fn cache_removal_lists_only_reproducible_folders() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateFolder::open(&dir.path().join("state")).unwrap();
        let at = |path: &str| state.path().join(path);
        for folder in [
            "deps/pip-1/lib",
            "builds/go-1",
            "tools/compiled",
            "fleet-blobs",
            "fleet-digests",
            "verb-results",
            "tools/components",
            "objects/aa",
        ] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        for (file, text) in [
            ("deps/pip-1/lib/a.py", "12345"),
            ("deps/npm-2.failed", "why"),
            ("builds/go-1/x", "1"),
            ("tools/compiled/key", "secret"),
            ("tools/compiled/e1", "1234"),
            ("fleet-blobs/0a", "12345678"),
            ("fleet-digests/8-2", "12"),
            ("verb-results/0a.json", "{}"),
            ("tools/components/c", "1"),
            ("objects/aa/b", "1"),
            ("readings.db", "123"),
            ("hotcell.db", "1"),
        ] {
            fs::write(at(file), text).unwrap();
        }
        std::os::unix::fs::symlink(at("objects"), at("deps/pip-1/link")).unwrap();
        let found = list(&state).unwrap();
        let mut names: Vec<_> = found.entries.iter().map(|e| (e.name.as_str(), e.kind.as_str())).collect();
        names.sort_unstable();
        let want = [
            ("builds/go-1", "builds"),
            ("deps/npm-2.failed", "deps"),
            ("deps/pip-1", "deps"),
            ("fleet-blobs", "blobs"),
            ("fleet-digests", "digests"),
            ("readings.db", "readings"),
            ("tools/compiled/e1", "components"),
            ("verb-results", "results"),
        ];
        assert_eq!(names, want);
        // Entries that a run uses or writes stay.
        let used = ["deps/pip-1", "fleet-blobs"].map(|name| builds::InUse::lock(&at(name)).unwrap());
        fs::remove_file(at("readings.db")).unwrap();
        let database = rusqlite::Connection::open(at("readings.db")).unwrap();
        database.execute_batch("CREATE TABLE a (b); BEGIN; INSERT INTO a VALUES (1)").unwrap();
        let names = |entries: &[Entry]| {
            let mut names: Vec<String> = entries.iter().map(|entry| entry.name.clone()).collect();
            names.sort_unstable();
            names.join(" ")
        };
        let most = Prune { older: None, most: Some(0) };
        let done = prune(&state, most, SystemTime::now()).unwrap();
        assert_eq!(names(&done.in_use), "deps/pip-1 fleet-blobs readings.db");
        assert_eq!(
            names(&done.entries),
            "builds/go-1 deps/npm-2.failed fleet-digests tools/compiled/e1 verb-results"
        );
        drop((used, database));
        fs::create_dir_all(at("builds/go-1")).unwrap();
        fs::write(at("deps/npm-2.failed"), "why").unwrap();
        fs::write(at("tools/compiled/e1"), "1234").unwrap();
        let none =
            prune(&state, Prune { older: Some(Duration::from_secs(3600)), most: None }, SystemTime::now());
        assert!(none.unwrap().entries.is_empty());
        fs::create_dir_all(at("fleet-digests")).unwrap();
        assert_eq!(clear(&state).unwrap().entries.len(), 7);
        assert!(list(&state).unwrap().entries.is_empty());
        for stays in ["tools/compiled/key", "tools/components/c", "objects/aa/b", "hotcell.db"] {
            assert!(at(stays).exists(), "{stays}");
        }
    }
}
