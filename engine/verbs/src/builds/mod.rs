//! Cache of compiled code for later runs: kept in the state folder under the digest of all inputs, and
//! mounted copy-on-write, so that no run changes it for another.

mod golang;
mod warm;

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use hotcell_sandbox::policy::Bind;
use hotcell_sandbox::{Bytes, temporary};
use hotcell_workspace::layer::Bytes as How;
use hotcell_workspace::{Folder, Layer, Stack, changes, layer};
use nix::fcntl::AT_FDCWD;
use nix::sys::stat::{UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;

pub use golang::standard_library;
pub use warm::CacheName;
pub use warm::{EMPTY, KEPT as WARM, Warm};

/// Maximum number of paths in a compiler's output.
const MAX_PATHS: usize = 500_000;
/// Prefix of folders that are not complete yet.
pub const UNFINISHED: &str = ".unfinished-";
/// Age after which an incomplete folder is abandoned.
const ABANDONED_AGE: Duration = Duration::from_secs(24 * 3600);
/// Unused entries older than this are removed when another entry is made.
const UNUSED_AGE: Duration = Duration::from_secs(30 * 24 * 3600);
/// Time after which a failed build is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(3600);
/// Cached data may have to be copied into a run's disk quota when the kernel offers nothing better; it may
/// take at most 1/`QUOTA_DIVISOR` of that quota.
const QUOTA_DIVISOR: u64 = 4;

/// Tells if the path itself is a folder; links are not followed.
pub fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|about| about.is_dir())
}

/// Bind of a cached folder for a run with this disk quota; `None`, with a warning, when the quota is too
/// small.
pub fn bind(place: &Path, inside: &Path, disk: Bytes) -> Option<Bind> {
    match size(place) {
        Ok(bytes) if bytes <= disk.0 / QUOTA_DIVISOR => Some(Bind {
            host: place.to_owned(),
            inside: inside.to_owned(),
            writable: false,
            copy_on_write: true,
            identity: None,
        }),
        Ok(bytes) => {
            tracing::warn!(
                "what was compiled before has {bytes} bytes and is not used: ‹max_disk› is less than {QUOTA_DIVISOR} times that"
            );
            None
        }
        Err(e) => {
            tracing::warn!("what was compiled before cannot be used: {}: {e}", place.display());
            None
        }
    }
}

/// Older than any file that a run may change: compilers that compare times then rebuild from changed files.
pub const OLDEST_MTIME: i64 = 0;
/// A time in 2037: caches that remove unused entries, or update the time of entries they use, leave such
/// files alone.
pub const FUTURE_MTIME: i64 = 2_114_380_800;

/// Copies the `wanted` paths of a compiler's output to a temporary name, sets all their times to `dated`
/// (Unix time, in seconds), and renames the complete folder to `place`.
///
/// # Errors
/// When a file operation fails, or the output is more than `most` bytes; a compiler limited to that size can
/// exceed it only with sparse files.
pub fn keep(
    target: &Folder,
    wanted: &dyn Fn(&Path) -> bool,
    most: Bytes,
    dated: i64,
    place: &Path,
) -> io::Result<()> {
    keep_layers(&[Layer { folder: target, whole: true }], wanted, most, Some(dated), place)
}

/// Like [`keep`], for layers, the topmost first. Without a date, the files keep their times.
fn keep_layers(
    layers: &[Layer<'_>],
    wanted: &dyn Fn(&Path) -> bool,
    most: Bytes,
    dated: Option<i64>,
    place: &Path,
) -> io::Result<()> {
    let nothing = temporary::folder()?;
    let base = Folder::ours(nothing.path())?;
    let before = Stack::new([], &base);
    let after = layers.iter().rev().fold(before.clone(), |below, layer| below.with(*layer));
    let all = changes(&before, layers, &[], MAX_PATHS)?;
    let wanted: Vec<_> = all.into_iter().filter(|change| wanted(&change.path)).collect();
    fits(&wanted, most)?;
    let parent = place.parent().unwrap_or(Path::new("."));
    tidy(parent);
    let unfinished = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(parent)?;
    let _writing = InUse::lock(unfinished.path());
    let folder = Folder::ours(unfinished.path())?;
    layer::write(&before, &after, &wanted, &folder, How::Copied, None)?;
    let time = dated.map(|dated| TimeSpec::new(dated, 0));
    each(unfinished.path(), &mut |path, about| {
        // When root runs hotcell, the sandbox is another user of the host and has to read files that its
        // compiler made private.
        let mode = about.permissions().mode() & 0o777;
        let runs = if about.is_dir() || mode & 0o111 != 0 { 0o111 } else { 0 };
        let owner = if about.is_dir() { 0o700 } else { 0 };
        if !about.is_symlink() {
            fs::set_permissions(path, fs::Permissions::from_mode(mode | 0o444 | runs | owner))?;
        }
        let Some(time) = time else { return Ok(()) };
        Ok(utimensat(AT_FDCWD, path, &time, &time, UtimensatFlags::NoFollowSymlink)?)
    })?;
    fs::set_permissions(unfinished.path(), fs::Permissions::from_mode(0o755))?;
    // An incomplete folder under the final name would never be rebuilt.
    folder.sync()?;
    match fs::rename(unfinished.path(), place) {
        // Another process compiled it, too.
        Err(_) if is_folder(place) => Ok(()),
        renamed => renamed,
    }
}

/// Refuses output longer than allowed: a sparse file can be longer than its disk usage.
pub fn fits(changes: &[hotcell_workspace::Change], most: Bytes) -> io::Result<()> {
    let held = layer::held(changes).bytes;
    match held > most.0 {
        true => Err(io::Error::other(format!("its files have {held} bytes, and {} were allowed", most.0))),
        false => Ok(()),
    }
}

/// Shared lock on an entry: while it is kept, the entry is not removed. `None` where the entry cannot be opened or locked.
#[derive(Debug)]
pub struct InUse {
    _lock: fs::File,
}

impl InUse {
    /// Takes the lock; `None` where the entry cannot be opened or another process removes it.
    #[must_use]
    pub fn lock(place: &Path) -> Option<Self> {
        let file = fs::File::open(place).ok()?;
        file.lock_shared().ok()?;
        Some(Self { _lock: file })
    }

    /// Locks the entries of caches in a state folder that these binds show; those of [`Warm`] have a lock of their own.
    pub fn of_binds(state: &Path, binds: &[Bind]) -> Vec<Self> {
        let Ok(state) = state.canonicalize() else { return Vec::new() };
        let entry = |bind: &Bind| {
            let host = bind.host.canonicalize().ok()?;
            let mut parts = host.strip_prefix(&state).ok()?.components();
            let cache = parts.next()?.as_os_str();
            let entry = parts.next()?.as_os_str();
            LOCKED.iter().any(|name| cache == *name).then(|| state.join(cache).join(entry))
        };
        let places: std::collections::BTreeSet<PathBuf> = binds.iter().filter_map(entry).collect();
        places.iter().filter_map(|place| Self::lock(place)).collect()
    }
}

/// Folders in the state folder with an entry for each thing that runs are shown.
const LOCKED: [&str; 2] = ["deps", "builds"];

/// Exclusive lock on an entry that is to be removed; `None` while a run uses it, or it is being written.
pub fn free(place: &Path) -> Option<fs::File> {
    let file = fs::File::open(place).ok()?;
    match file.try_lock() {
        Ok(()) => Some(file),
        Err(fs::TryLockError::WouldBlock) => None,
        // A file system without locks: its use cannot be seen.
        Err(fs::TryLockError::Error(_)) => Some(file),
    }
}

/// Marks an entry as used, so that it is kept.
pub fn touch(place: &Path) {
    // A user who may not write there can still use the entry.
    let _ = fs::File::open(place).and_then(|folder| folder.set_modified(SystemTime::now()));
}

/// Removes incomplete entries, left by killed processes, and entries unused for a long time.
pub fn tidy(parent: &Path) {
    let Ok(folder) = Folder::ours(parent) else { return };
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let age = || entry.metadata().ok()?.modified().ok()?.elapsed().ok();
        let unfinished = entry.file_name().to_string_lossy().starts_with(UNFINISHED);
        let most = if unfinished { ABANDONED_AGE } else { UNUSED_AGE };
        if age().is_some_and(|age| age > most)
            && let Some(_free) = free(&entry.path())
            && let Err(e) = folder.remove_all(Path::new(&entry.file_name()))
        {
            tracing::info!("{} cannot be removed: {e}", entry.path().display());
        }
    }
}

/// The reason of a recent failure of this build; `None` when it may be tried (again).
pub fn in_vain(place: &Path) -> Option<String> {
    let marker = place.with_extension("failed");
    let age = fs::metadata(&marker).ok()?.modified().ok()?.elapsed().unwrap_or_default();
    (age < RETRY_DELAY).then(|| fs::read_to_string(&marker).unwrap_or_default())
}

/// Records a failure for [`in_vain`].
pub fn remember_in_vain(place: &Path, why: &str) {
    let _ = fs::write(place.with_extension("failed"), why);
}

/// Calls `act` for everything in a folder of our own, folders before their contents; links are not followed.
fn each(folder: &Path, act: &mut dyn FnMut(&Path, &fs::Metadata) -> io::Result<()>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, about): (PathBuf, _) = (entry.path(), entry.metadata()?);
        act(&path, &about)?;
        if about.is_dir() {
            each(&path, act)?;
        }
    }
    Ok(())
}

fn size(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    each(folder, &mut |_, about| {
        bytes += about.len();
        Ok(())
    })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::os::unix::fs::{MetadataExt, symlink};

    #[test]
    fn caches_shown_to_runs_are_locked() {
        let state = tempfile::tempdir().unwrap();
        for place in ["deps/a/lib", "deps/b", "builds/go-1", "warm/x", "other/y"] {
            fs::create_dir_all(state.path().join(place)).unwrap();
        }
        let bind = |place: &str| Bind {
            host: state.path().join(place),
            inside: PathBuf::from("/x"),
            writable: false,
            copy_on_write: false,
            identity: None,
        };
        let binds = ["deps/a", "deps/a/lib", "builds/go-1", "deps/gone", "deps", "other/y"].map(bind);
        let held = InUse::of_binds(state.path(), &binds);
        let is_free = |place: &str| free(&state.path().join(place)).is_some();
        for (place, want) in
            [("deps/a", false), ("deps/b", true), ("builds/go-1", false), ("warm/x", true), ("other/y", true)]
        {
            assert_eq!(is_free(place), want, "{place}");
        }
        // Several runs share one.
        let other = InUse::of_binds(state.path(), &binds[..1]);
        drop(held);
        assert!(!is_free("deps/a") && is_free("builds/go-1"));
        drop(other);
        assert!(is_free("deps/a") && !is_free("deps/gone"));
    }

    #[test]
    fn cached_build_has_wanted_files_and_one_time() {
        let top = tempfile::tempdir().unwrap();
        let target = top.path().join("target");
        for folder in
            ["debug/.fingerprint/a-1", "debug/.fingerprint/own-1", "debug/deps", "debug/build/a-2/out"]
        {
            fs::create_dir_all(target.join(folder)).unwrap();
        }
        for file in [
            "debug/.fingerprint/a-1/lib",
            "debug/.fingerprint/own-1/lib",
            "debug/deps/liba-1.rlib",
            "debug/own",
        ] {
            fs::write(target.join(file), file).unwrap();
        }
        let script = target.join("debug/build/a-2/build-script-build");
        fs::write(&script, "x").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
        let own = target.join("debug/deps/liba-1.rlib");
        fs::set_permissions(&own, fs::Permissions::from_mode(0o600)).unwrap();
        symlink("/etc/passwd", target.join("debug/build/a-2/out/link")).unwrap();
        let wanted = |path: &Path| !path.ends_with("debug/own") && !path.to_string_lossy().contains("own-1");
        let place = top.path().join("kept");
        for _ in 0..2 {
            keep(&Folder::open(&target).unwrap(), &wanted, Bytes::mib(1), OLDEST_MTIME, &place).unwrap();
        }
        let mut found = BTreeMap::new();
        each(&place, &mut |path, about| {
            found.insert(
                path.strip_prefix(&place).unwrap().display().to_string(),
                (about.mtime(), about.mtime_nsec()),
            );
            Ok(())
        })
        .unwrap();
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "debug",
                "debug/.fingerprint",
                "debug/.fingerprint/a-1",
                "debug/.fingerprint/a-1/lib",
                "debug/build",
                "debug/build/a-2",
                "debug/build/a-2/build-script-build",
                "debug/build/a-2/out",
                "debug/build/a-2/out/link",
                "debug/deps",
                "debug/deps/liba-1.rlib",
            ]
        );
        assert!(found.values().all(|time| *time == (0, 0)), "{found:?}");
        for (file, want) in [("debug/build/a-2/build-script-build", 0o755), ("debug/deps/liba-1.rlib", 0o644)]
        {
            assert_eq!(place.join(file).metadata().unwrap().permissions().mode() & 0o777, want, "{file}");
        }
        assert_eq!(fs::read_dir(top.path()).unwrap().count(), 2, "nothing unfinished is left");
        // Abandoned entries are removed together with the next `keep`.
        for (name, age) in
            [(".unfinished-old", 25), (".unfinished-new", 23), ("unused", 31 * 24), ("used", 29 * 24)]
        {
            let folder = top.path().join(name);
            fs::create_dir_all(folder.join("in")).unwrap();
            let at = std::time::SystemTime::now() - Duration::from_secs(age * 3600);
            fs::File::open(&folder).unwrap().set_modified(at).unwrap();
        }
        let other = top.path().join("other");
        keep(&Folder::open(&target).unwrap(), &wanted, Bytes::mib(1), OLDEST_MTIME, &other).unwrap();
        for (name, stays) in
            [(".unfinished-old", false), (".unfinished-new", true), ("unused", false), ("used", true)]
        {
            assert_eq!(top.path().join(name).exists(), stays, "{name}");
        }
        // A sparse file longer than the limit.
        let hole = fs::File::create(target.join("debug/deps/hole")).unwrap();
        hole.set_len(2 << 20).unwrap();
        let error = keep(
            &Folder::open(&target).unwrap(),
            &wanted,
            Bytes::mib(1),
            OLDEST_MTIME,
            &top.path().join("more"),
        )
        .unwrap_err();
        assert!(error.to_string().contains("were allowed"), "{error}");
        assert!(!top.path().join("more").exists());
        // A failed build is not retried at once.
        let place = top.path().join("failed");
        assert_eq!(in_vain(&place), None);
        remember_in_vain(&place, "why");
        assert_eq!(in_vain(&place).as_deref(), Some("why"));
        let marker = fs::File::options().write(true).open(place.with_extension("failed")).unwrap();
        marker.set_modified(SystemTime::now() - Duration::from_secs(3700)).unwrap();
        assert_eq!(in_vain(&place), None);
    }
}
