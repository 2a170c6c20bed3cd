//! Blobs kept on the worker's disk, so that a farm need not send them again. Each is checked against its digest when it
//! is used: a blob that something else changed is removed and read from the farm.
//!
//! Several workers may share a folder. A blob appears by a rename, so that it is whole or absent; the least recently used
//! ones are removed by one worker at a time.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use nix::libc;

use crate::digest::{Hashing, Key};

/// Default size of a worker's cache, in bytes: a thousandth of it is still larger than most inputs.
pub const DEFAULT_SIZE: u64 = 10 << 30;
/// Maximum size of a blob that is read at once, in bytes; larger ones are copied in pieces.
pub const MAX_WHOLE: u64 = 4 << 20;
/// Time after which the use of a blob is noted again: the order of removal needs no more.
const USE_INTERVAL: Duration = Duration::from_secs(60);
/// Age of a file that is being written at which its writer must be dead.
const ABANDONED: Duration = Duration::from_secs(3600);
/// Beginning of the names of files that are being written.
const UNFINISHED: &str = ".new-";
/// Name of the file that the worker which removes blobs locks.
const LOCK: &str = ".lock";
/// Size of a piece of a large blob, in bytes.
const PIECE: usize = 256 << 10;

/// Counts since the worker began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Blobs that were taken from the cache.
    pub hits: u64,
    /// Their size, in bytes.
    pub hit_bytes: u64,
    /// Blobs that were not there.
    pub misses: u64,
    /// Blobs with other bytes than their digest says, which were removed.
    pub wrong: u64,
    /// Size of all blobs, as of the last look, in bytes.
    pub bytes: u64,
}

/// A folder of blobs.
#[derive(Debug)]
pub struct Cache {
    folder: PathBuf,
    most: u64,
    /// Size of all blobs as far as this process knows, and the part that it added since it looked.
    filled: Mutex<(u64, u64)>,
    hits: AtomicU64,
    hit_bytes: AtomicU64,
    misses: AtomicU64,
    wrong: AtomicU64,
}

impl Cache {
    /// Opens or makes the folder, whose blobs may have `most` bytes together. Blocks for as long as it takes to look
    /// through it.
    ///
    /// # Errors
    /// When the folder cannot be made, or belongs to or can be written by another user.
    pub fn open(folder: &Path, most: u64) -> io::Result<Self> {
        make_private(folder)?;
        let cache = Self {
            folder: folder.to_owned(),
            most,
            filled: Mutex::new((0, 0)),
            hits: AtomicU64::new(0),
            hit_bytes: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
        };
        cache.sweep()?;
        Ok(cache)
    }

    /// Counts for the operator.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        Counts {
            hits: count(&self.hits),
            hit_bytes: count(&self.hit_bytes),
            misses: count(&self.misses),
            wrong: count(&self.wrong),
            bytes: self.filled.lock().unwrap_or_else(PoisonError::into_inner).0,
        }
    }

    fn path(&self, key: Key) -> PathBuf {
        self.folder.join(hex::encode(key.hash))
    }

    /// Opens a blob of the right size; any other entry under its name is removed.
    fn opened(&self, key: Key) -> Option<File> {
        let path = self.path(key);
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(&path);
        let file = match opened {
            Ok(file) => file,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    self.refuse(&path);
                }
                self.misses.fetch_add(1, Ordering::Relaxed);
                return None;
            }
        };
        let about = file.metadata().ok()?;
        if !about.is_file() || about.len() != key.size {
            self.refuse(&path);
            self.misses.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let now = SystemTime::now();
        if about.modified().is_ok_and(|used| now.duration_since(used).unwrap_or_default() > USE_INTERVAL) {
            let _ = file.set_modified(now);
        }
        Some(file)
    }

    fn refuse(&self, path: &Path) {
        self.wrong.fetch_add(1, Ordering::Relaxed);
        tracing::warn!("{} is not the blob that its name says; it is removed", path.display());
        let _ = fs::remove_file(path).or_else(|_| fs::remove_dir_all(path));
    }

    fn hit(&self, key: Key) {
        self.hits.fetch_add(1, Ordering::Relaxed);
        self.hit_bytes.fetch_add(key.size, Ordering::Relaxed);
    }

    /// Reads a blob of at most [`MAX_WHOLE`] bytes. `None` when it is not there, or was not what its digest says.
    #[must_use]
    pub fn read(&self, key: Key) -> Option<Vec<u8>> {
        if key.size > MAX_WHOLE {
            return None;
        }
        let mut file = self.opened(key)?;
        let mut bytes = vec![0; usize::try_from(key.size).ok()?];
        if file.read_exact(&mut bytes).is_err() || !key.is_of(&bytes) {
            self.refuse(&self.path(key));
            return None;
        }
        self.hit(key);
        Some(bytes)
    }

    /// Copies a blob. False when it is not there, or was not what its digest says: then `to` has bytes to be thrown away.
    ///
    /// # Errors
    /// When `to` cannot be written.
    pub fn copy(&self, key: Key, to: &mut impl Write) -> io::Result<bool> {
        let Some(file) = self.opened(key) else { return Ok(false) };
        if copy(&mut file.take(key.size + 1), to)? != key {
            self.refuse(&self.path(key));
            return Ok(false);
        }
        self.hit(key);
        Ok(true)
    }

    /// Keeps a blob, whose bytes were checked. A failure costs time later, and nothing else.
    pub fn put(&self, key: Key, bytes: &[u8]) {
        self.keep(key, |file| file.write_all(bytes).map(|()| true));
    }

    /// Keeps what a file has, if it is the blob.
    pub fn put_file(&self, key: Key, from: &mut impl Read) {
        self.keep(key, |file| Ok(copy(&mut from.take(key.size + 1), file)? == key));
    }

    fn keep(&self, key: Key, write: impl FnOnce(&mut File) -> io::Result<bool>) {
        // Half of the cache for one blob would remove too many others.
        if key.size == 0 || key.size > self.most / 2 {
            return;
        }
        let kept = self.write(key, write).and_then(|is_new| {
            if !is_new {
                return Ok(());
            }
            let (known, added) = {
                let mut filled = self.filled.lock().unwrap_or_else(PoisonError::into_inner);
                filled.0 += key.size;
                filled.1 += key.size;
                *filled
            };
            // Others add to the folder, too: each looks again after a tenth.
            if known > self.most || added > self.most / 10 { self.sweep() } else { Ok(()) }
        });
        if let Err(error) = kept {
            tracing::warn!("a blob is not kept in {}: {error}", self.folder.display());
        }
    }

    /// Writes a blob beside its name and renames it; false when it is there already, or was not the blob.
    fn write(&self, key: Key, write: impl FnOnce(&mut File) -> io::Result<bool>) -> io::Result<bool> {
        let to = self.path(key);
        if fs::symlink_metadata(&to).is_ok() {
            return Ok(false);
        }
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let from = self.folder.join(format!("{UNFINISHED}{}", hex::encode(random)));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&from)?;
        let done = write(&mut file).and_then(|is_it| if is_it { fs::rename(&from, &to) } else { Ok(()) });
        if fs::symlink_metadata(&from).is_ok() {
            let _ = fs::remove_file(&from);
            return done.map(|()| false);
        }
        done.map(|()| true)
    }

    /// Looks through the folder, and removes the least recently used blobs where it has too many bytes. Does nothing
    /// while another worker does it.
    fn sweep(&self) -> io::Result<()> {
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(self.folder.join(LOCK))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                self.filled.lock().unwrap_or_else(PoisonError::into_inner).1 = 0;
                return Ok(());
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let mut blobs = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            // An entry that another worker removed meanwhile.
            let Ok(about) = entry.metadata() else { continue };
            let used = about.modified()?;
            if name.to_str().is_some_and(|name| name.starts_with(UNFINISHED)) {
                if used.elapsed().is_ok_and(|age| age > ABANDONED) {
                    let _ = fs::remove_file(entry.path());
                }
            } else if name != LOCK {
                blobs.push((used, about.len(), entry.path()));
            }
        }
        let (stays, removed) = surplus(blobs, self.most);
        for path in removed {
            let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
        }
        *self.filled.lock().unwrap_or_else(PoisonError::into_inner) = (stays, 0);
        Ok(())
    }
}

/// Makes a folder that only this user can enter, unless it exists.
///
/// # Errors
/// When it cannot be made, or belongs to or can be written by another user.
pub(crate) fn make_private(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let about = fs::symlink_metadata(folder)?;
    if !about.is_dir() || about.uid() != nix::unistd::geteuid().as_raw() || about.mode() & 0o022 != 0 {
        let why = format!("{} has to be a folder of this user that others cannot write", folder.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(())
}

/// Copies everything, and tells its digest.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<Key> {
    let mut hashing = Hashing::default();
    let mut piece = vec![0; PIECE];
    loop {
        let read = match from.read(&mut piece) {
            Ok(0) => return Ok(hashing.finish()),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hashing.add(&piece[..read]);
        to.write_all(&piece[..read])?;
    }
}

/// Size of the blobs that stay, and those to remove: none up to `most` bytes; beyond, the least recently used ones until
/// nine tenths are left, so that the next blob does not begin it again.
fn surplus<T>(mut blobs: Vec<(SystemTime, u64, T)>, most: u64) -> (u64, Vec<T>) {
    let mut total: u64 = blobs.iter().map(|(_, bytes, _)| bytes).sum();
    if total <= most {
        return (total, Vec::new());
    }
    blobs.sort_by_key(|(used, ..)| *used);
    let mut removed = Vec::new();
    for (_, bytes, blob) in blobs {
        if total <= most / 10 * 9 {
            break;
        }
        total -= bytes;
        removed.push(blob);
    }
    (total, removed)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn surplus_is_least_recently_used() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let blobs = || vec![(at(3), 40, "c"), (at(1), 40, "a"), (at(2), 40, "b"), (at(4), 40, "d")];
        for (most, stays, removed) in [
            (160, 160, &[][..]),
            (159, 120, &["a"]),
            (100, 80, &["a", "b"]),
            (10, 0, &["a", "b", "c", "d"]),
            (0, 0, &["a", "b", "c", "d"]),
        ] {
            assert_eq!(surplus(blobs(), most), (stays, removed.to_vec()), "{most}");
        }
    }

    fn cache(most: u64) -> (tempfile::TempDir, Cache) {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(&dir.path().join("blobs"), most).unwrap();
        (dir, cache)
    }

    #[test]
    fn changed_blobs_are_removed_and_missed() {
        let (dir, cache) = cache(1 << 20);
        let key = Key::of(b"good bytes");
        let at = dir.path().join("blobs").join(hex::encode(key.hash));
        assert_eq!(cache.read(key), None);
        cache.put(key, b"good bytes");
        assert_eq!(cache.read(key).as_deref(), Some(&b"good bytes"[..]));
        let mut copied = Vec::new();
        assert!(cache.copy(key, &mut copied).unwrap());
        assert_eq!(copied, b"good bytes");
        let outside = dir.path().join("outside");
        fs::write(&outside, "good bytes").unwrap();
        type Spoil = fn(&Path, &Path);
        for spoil in [
            (|at, _| fs::write(at, "evil bytes").unwrap()) as Spoil,
            |at, _| fs::write(at, "short").unwrap(),
            |at, _| fs::write(at, "good bytes, and more").unwrap(),
            |at, outside| symlink(outside, at).unwrap(),
            |at, _| fs::create_dir(at).unwrap(),
            |at, _| nix::unistd::mkfifo(at, nix::sys::stat::Mode::S_IRWXU).unwrap(),
        ] {
            let _ = fs::remove_file(&at);
            spoil(&at, &outside);
            let wrong = cache.counts().wrong;
            assert_eq!(cache.read(key), None);
            assert_eq!(cache.counts().wrong, wrong + 1);
            assert!(fs::symlink_metadata(&at).is_err(), "it stays");
            spoil(&at, &outside);
            assert!(!cache.copy(key, &mut Vec::new()).unwrap());
            cache.put(key, b"good bytes");
            assert!(cache.read(key).is_some(), "it is not replaced");
        }
        assert_eq!(fs::read(&outside).unwrap(), b"good bytes");
    }

    #[test]
    fn size_is_bounded_with_several_workers() {
        let (dir, cache) = cache(100_000);
        let other = Cache::open(&dir.path().join("blobs"), 100_000).unwrap();
        let blob = |at: u32| {
            let bytes = vec![at.to_le_bytes()[0]; 5000];
            (Key::of(&bytes), bytes)
        };
        for at in 0..60 {
            let (key, bytes) = blob(at);
            let by = if at % 2 == 0 { &cache } else { &other };
            by.put(key, &bytes);
            by.put_file(key, &mut bytes.as_slice());
        }
        let size: u64 = fs::read_dir(dir.path().join("blobs"))
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .sum();
        // Each worker may be a tenth over before it looks.
        assert!((40_000..=120_000).contains(&size), "{size}");
        let kept = (0..60).filter(|at| cache.read(blob(*at).0).is_some()).count();
        assert!(kept >= 8, "{kept}");
        cache.put_file(Key::of(b"x"), &mut &b"y"[..]);
        assert_eq!(cache.read(Key::of(b"x")), None);
        cache.put(Key::of(&[7; 60_000]), &[7; 60_000]);
        assert_eq!(cache.read(Key::of(&[7; 60_000])), None, "more than half of the cache");
    }

    #[test]
    fn folders_of_others_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, PermissionsExt::from_mode(0o777)).unwrap();
        assert!(Cache::open(&open, 1).unwrap_err().to_string().contains("others"));
        symlink(dir.path(), dir.path().join("link")).unwrap();
        assert!(Cache::open(&dir.path().join("link"), 1).is_err());
    }
}
