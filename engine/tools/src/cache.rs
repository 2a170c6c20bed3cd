//! Compiled components, kept between starts. They are machine code that runs without further checks, so an
//! entry is used only if this installation wrote it.
//!
//! An entry is named by the component's digest and by the compiler's fingerprint, and begins with a keyed
//! hash of both and of its bytes. The key is random, made once, and stored beside the entries in a folder
//! that no other user may enter. An entry that is cut, changed or foreign is removed, with a warning, and
//! compiled again. The caller gets a sealed copy in memory of the very bytes that were checked.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, MemfdFlags, Mode, OFlags, SealFlags, Timespec, Timestamps, UTIME_NOW};
use rustix::io::Errno;

use crate::LoadError;
use crate::protocol::MAX_COMPILED_BYTES;

/// Identity of the compiler and its settings: raised with wasmtime, and with the code generation settings in
/// `engine.rs`. wasmtime itself detects any other difference (another processor), as [`LoadError::Stale`].
const FORM: &str = "wasmtime 48.0.8, hotcell 2";
/// Default for the maximum size of all entries together, in bytes.
pub const DEFAULT_CACHE_BYTES: u64 = 2 << 30;
/// Maximum size of a stored description of a component, in bytes.
const MAX_STORED_DESCRIPTION_BYTES: u64 = 16 << 20;
/// Length of a keyed hash, and of the key, in bytes.
const MAC_LEN: usize = 32;
/// Bytes to read, hash and copy at a time: few enough to stay in the processor's cache.
const CHUNK_BYTES: usize = 256 << 10;
const KEY: &str = "key";
/// Prefix of the names of unfinished files.
const UNFINISHED: &str = "new-";
/// Age at which an unfinished file is taken to be left over from a process that ended.
const ABANDONED_AGE: Duration = Duration::from_secs(3600);

/// An open cache.
#[derive(Debug)]
pub struct Cache {
    folder: OwnedFd,
    path: PathBuf,
    key: [u8; MAC_LEN],
    most: u64,
}

impl Cache {
    /// Opens a cache, and creates its folder (0700) and key (0600) when they are missing.
    ///
    /// # Errors
    /// [`LoadError::Host`] when the folder cannot be created, belongs to another user, or is open to others.
    pub fn open(path: &Path, most: u64) -> Result<Self, LoadError> {
        use std::os::unix::fs::DirBuilderExt;
        let cannot = |what: &str, e: io::Error| LoadError::Host {
            message: format!("the cache of compiled components {} {what}: {e}", path.display()),
        };
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|e| cannot("cannot be made", e))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(CWD, path, flags, Mode::empty())
            .map_err(|e| cannot("cannot be opened", e.into()))?;
        private(&folder).map_err(|e| cannot("is not taken", e))?;
        let key = key(&folder).map_err(|e| cannot("has no key", e))?;
        Ok(Self { folder, path: path.to_owned(), key, most })
    }

    /// The compiled component with this digest (SHA-256, in hexadecimal), sealed; `None` when there is no
    /// entry that can be trusted.
    #[must_use]
    pub fn get(&self, digest: &str) -> Option<File> {
        let name = name(digest)?;
        let (mut entry, length) = match self.entry(&name) {
            Ok(entry) => entry,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return None,
            Err(e) => return self.reject(digest, &e.to_string()),
        };
        let mut memory = match memory() {
            Ok(memory) => memory,
            Err(e) => {
                tracing::warn!("a compiled component has no place in memory: {e}");
                return None;
            }
        };
        // The check reads the copy, and the copy is handed out only after it is sealed.
        match self.copy(digest, length, &mut entry, &mut memory) {
            Ok(true) => Some(memory),
            Ok(false) => self.reject(digest, "this installation did not write it so"),
            Err(e) => self.reject(digest, &e.to_string()),
        }
    }

    /// Copies an entry's code, and seals it; returns whether this installation wrote it.
    fn copy(&self, digest: &str, length: u64, entry: &mut File, memory: &mut File) -> io::Result<bool> {
        let (mut expected, mut piece) = ([0; MAC_LEN], vec![0; CHUNK_BYTES]);
        entry.read_exact(&mut expected)?;
        let mut mac = self.begin(digest, length);
        let mut left = length;
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
            match entry.read(&mut piece[..most])? {
                0 => return Err(io::Error::other("it is cut off")),
                read => {
                    mac.update(&piece[..read]);
                    memory.write_all(&piece[..read])?;
                    left -= read as u64;
                }
            }
        }
        seal(memory)?;
        // Compared in constant time.
        Ok(mac.finalize() == blake3::Hash::from_bytes(expected))
    }

    /// Stores a compiled component, and removes older entries to make room.
    ///
    /// # Errors
    /// When the digest is not valid or a file operation fails; nothing is stored then.
    pub fn put(&self, digest: &str, code: &[u8]) -> io::Result<()> {
        let name = name(digest).ok_or_else(|| io::Error::other("no digest"))?;
        let mac = self.begin(digest, code.len() as u64).update(code).finalize();
        write(&self.folder, &[mac.as_bytes(), code], |new| {
            rustix::fs::renameat(&self.folder, new, &self.folder, &name)
        })?;
        self.make_room(&name)
    }

    /// Whether there is an entry for this digest; its hash is checked only when it is read.
    #[must_use]
    pub fn has(&self, digest: &str) -> bool {
        name(digest)
            .is_some_and(|name| rustix::fs::statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok())
    }

    /// Description of a component that a build of hotcell stored.
    #[must_use]
    pub fn said(&self, digest: &str, build: &str) -> Option<Vec<u8>> {
        let name = said_name(digest, build)?;
        let (mut entry, length) =
            self.entry(&name).ok().filter(|(_, length)| *length <= MAX_STORED_DESCRIPTION_BYTES)?;
        let (mut expected, mut text) = ([0; MAC_LEN], Vec::new());
        entry.read_exact(&mut expected).ok()?;
        entry.take(length + 1).read_to_end(&mut text).ok()?;
        let mac = self.begin(&name, text.len() as u64).update(&text).finalize();
        if mac == blake3::Hash::from_bytes(expected) {
            return Some(text);
        }
        let _ = rustix::fs::unlinkat(&self.folder, name, AtFlags::empty());
        None
    }

    /// Stores a build's description of a component.
    ///
    /// # Errors
    /// When the digest is not valid or a file operation fails; nothing is stored then.
    pub fn say(&self, digest: &str, build: &str, text: &[u8]) -> io::Result<()> {
        let name = said_name(digest, build).ok_or_else(|| io::Error::other("no digest"))?;
        let mac = self.begin(&name, text.len() as u64).update(text).finalize();
        write(&self.folder, &[mac.as_bytes(), text], |new| {
            rustix::fs::renameat(&self.folder, new, &self.folder, &name)
        })
    }

    /// Removes a compiled component.
    pub fn remove(&self, digest: &str) {
        if let Some(name) = name(digest) {
            // The entry may be gone already.
            let _ = rustix::fs::unlinkat(&self.folder, name, AtFlags::empty());
        }
    }

    fn reject<T>(&self, digest: &str, why: &str) -> Option<T> {
        tracing::warn!(
            "the compiled form of {digest} in {} is removed, and compiled again: {why}",
            self.path.display()
        );
        self.remove(digest);
        None
    }

    /// Opens an entry, and returns the length of its code.
    fn entry(&self, name: &str) -> io::Result<(File, u64)> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = File::from(rustix::fs::openat(&self.folder, name, flags, Mode::empty())?);
        let size = file.metadata()?.len();
        if !file.metadata()?.is_file() || size > (MAC_LEN + MAX_COMPILED_BYTES) as u64 {
            return Err(io::Error::other("it is no entry"));
        }
        let length = size.checked_sub(MAC_LEN as u64).ok_or_else(|| io::Error::other("it is cut off"))?;
        // Entries are removed in order of last use. On a file system that keeps no times the order is that of
        // writing.
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let _ = rustix::fs::futimens(&file, &Timestamps { last_access: now, last_modification: now });
        Ok((file, length))
    }

    /// Starts the keyed hash of an entry, up to its code.
    fn begin(&self, digest: &str, length: u64) -> blake3::Hasher {
        let mut mac = blake3::Hasher::new_keyed(&self.key);
        for part in [FORM.as_bytes(), digest.as_bytes()] {
            mac.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        mac.update(&length.to_le_bytes());
        mac
    }

    /// Removes the least recently used entries until the rest fits, and abandoned unfinished files. The entry
    /// `keep`, just written, stays.
    fn make_room(&self, keep: &str) -> io::Result<()> {
        let (mut entries, mut total) = (Vec::new(), 0);
        for entry in rustix::fs::Dir::read_from(&self.folder)? {
            let entry = entry?;
            let name = OsStr::new(entry.file_name().to_str().unwrap_or_default()).to_owned();
            let Ok(stat) = rustix::fs::statat(&self.folder, &name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            let since =
                Duration::new(stat.st_mtime.unsigned_abs(), u32::try_from(stat.st_mtime_nsec).unwrap_or(0));
            let text = name.to_str().unwrap_or_default();
            if text.starts_with(UNFINISHED) {
                let written = SystemTime::UNIX_EPOCH + since;
                if written.elapsed().is_ok_and(|age| age > ABANDONED_AGE) {
                    let _ = rustix::fs::unlinkat(&self.folder, &name, AtFlags::empty());
                }
            } else if text.len() > 64 && text != keep {
                entries.push((since, name, stat.st_size.unsigned_abs()));
            } else if text == keep {
                total = stat.st_size.unsigned_abs();
            }
        }
        total += entries.iter().map(|(_, _, size)| size).sum::<u64>();
        entries.sort();
        for (_, name, size) in entries {
            if total <= self.most {
                break;
            }
            // Another process may have removed it first.
            let _ = rustix::fs::unlinkat(&self.folder, &name, AtFlags::empty());
            total -= size;
        }
        Ok(())
    }
}

/// Whether this is a SHA-256 digest in hexadecimal, as this crate writes it.
#[must_use]
pub fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn name(digest: &str) -> Option<String> {
    is_digest(digest).then(|| format!("{digest}.{}", &blake3::hash(FORM.as_bytes()).to_hex()[..16]))
}

/// Entry name of a build's description: the form distinguishes it from a compiled component.
fn said_name(digest: &str, build: &str) -> Option<String> {
    let form = format!("{FORM}, said by {build}");
    is_digest(digest).then(|| format!("{digest}.said-{}", &blake3::hash(form.as_bytes()).to_hex()[..16]))
}

/// Checks that a folder belongs to this user and is closed to others.
fn private(folder: &OwnedFd) -> io::Result<()> {
    let stat = rustix::fs::fstat(folder)?;
    let us = rustix::process::geteuid().as_raw();
    if stat.st_uid != us {
        return Err(io::Error::other(format!("it belongs to user {} and not to you ({us})", stat.st_uid)));
    }
    if stat.st_mode & 0o077 != 0 {
        let mode = stat.st_mode & 0o7777;
        return Err(io::Error::other(format!("others may enter it (mode {mode:04o}); chmod it to 0700")));
    }
    Ok(())
}

/// Key of this installation, created if it is missing. If several processes create it at once, all use the
/// first one.
fn key(folder: &OwnedFd) -> io::Result<[u8; MAC_LEN]> {
    let read = || -> io::Result<[u8; MAC_LEN]> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = File::from(rustix::fs::openat(folder, KEY, flags, Mode::empty())?);
        private(&file.as_fd().try_clone_to_owned()?)?;
        let mut bytes = Vec::new();
        file.take(1 + MAC_LEN as u64).read_to_end(&mut bytes)?;
        bytes
            .try_into()
            .map_err(|_| io::Error::other("it is damaged; remove the folder, all of it is made again"))
    };
    match read() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        read => return read,
    }
    let mut fresh = [0; MAC_LEN];
    getrandom::fill(&mut fresh).map_err(|e| io::Error::other(e.to_string()))?;
    write(folder, &[&fresh], |new| {
        let linked = rustix::fs::linkat(folder, new, folder, KEY, AtFlags::empty());
        rustix::fs::unlinkat(folder, new, AtFlags::empty())?;
        match linked {
            Err(Errno::EXIST) => Ok(()),
            linked => linked,
        }
    })?;
    read()
}

/// Writes a complete new file (0600) to disk, and lets `place` give it its name.
fn write(folder: &OwnedFd, parts: &[&[u8]], place: impl FnOnce(&str) -> Result<(), Errno>) -> io::Result<()> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|e| io::Error::other(e.to_string()))?;
    let new = format!("{UNFINISHED}{:016x}", u64::from_le_bytes(random));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(folder, &new, flags, Mode::RUSR | Mode::WUSR)?);
    let written = (|| -> io::Result<()> {
        for part in parts {
            file.write_all(part)?;
        }
        file.sync_all()?;
        place(&new)?;
        Ok(rustix::fs::fsync(folder)?)
    })();
    written.inspect_err(|_| {
        let _ = rustix::fs::unlinkat(folder, &new, AtFlags::empty());
    })
}

/// A memory file with these bytes, sealed against changes.
///
/// # Errors
/// When the kernel cannot create, fill or seal the file.
pub(crate) fn sealed(bytes: &[u8]) -> io::Result<File> {
    let mut file = memory()?;
    file.write_all(bytes)?;
    seal(&mut file)?;
    Ok(file)
}

/// An empty file in memory.
fn memory() -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // The file is mapped and never executed as a program; a host may require that to be declared
    // (`vm.memfd_noexec`).
    let fd = match rustix::fs::memfd_create("hotcell-component", flags | MemfdFlags::NOEXEC_SEAL) {
        // Kernels before 6.3 do not know the flag.
        Err(Errno::INVAL) => rustix::fs::memfd_create("hotcell-component", flags),
        made => made,
    }?;
    Ok(File::from(fd))
}

fn seal(file: &mut File) -> io::Result<()> {
    file.rewind()?;
    let all = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    Ok(rustix::fs::fcntl_add_seals(&*file, all)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

    fn cache(dir: &tempfile::TempDir) -> Cache {
        Cache::open(&dir.path().join("cache"), DEFAULT_CACHE_BYTES).unwrap()
    }

    fn content(file: &File) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    fn entry(dir: &tempfile::TempDir, digest: &str) -> PathBuf {
        dir.path().join("cache").join(name(digest).unwrap())
    }

    #[test]
    fn cached_code_is_shared_between_processes() {
        let dir = tempfile::tempdir().unwrap();
        let first = cache(&dir);
        assert!(first.get(A).is_none());
        first.put(A, b"code").unwrap();
        let again = cache(&dir);
        let file = again.get(A).unwrap();
        assert_eq!(content(&file), b"code");
        assert!((&file).write_all(b"x").is_err(), "it is sealed");
        assert!(again.get(B).is_none());
        let mode = |path: PathBuf| path.metadata().unwrap().mode() & 0o777;
        assert_eq!(mode(dir.path().join("cache")), 0o700);
        assert_eq!(mode(dir.path().join("cache/key")), 0o600);
        assert_eq!(mode(entry(&dir, A)), 0o600);
    }

    #[test]
    fn altered_cache_entry_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(&dir);
        let forge = |change: &dyn Fn(&mut Vec<u8>)| {
            cache.put(A, b"machine code").unwrap();
            let mut bytes = std::fs::read(entry(&dir, A)).unwrap();
            change(&mut bytes);
            std::fs::write(entry(&dir, A), bytes).unwrap();
            assert!(cache.get(A).is_none());
            assert!(!entry(&dir, A).exists());
        };
        forge(&|bytes| bytes[40] ^= 1);
        forge(&|bytes| bytes[0] ^= 1);
        forge(&|bytes| bytes.truncate(35));
        forge(&|bytes| bytes.truncate(10));
        forge(&Vec::clear);
        forge(&|bytes| bytes.push(0));
        // A hash of the bytes alone, without the key.
        forge(&|bytes| {
            bytes.truncate(MAC_LEN);
            bytes.copy_from_slice(blake3::hash(b"evil").as_bytes());
            bytes.extend(b"evil");
        });
        // A complete entry of another component.
        cache.put(A, b"of a").unwrap();
        std::fs::rename(entry(&dir, A), entry(&dir, B)).unwrap();
        assert!(cache.get(B).is_none());
        // An entry of another installation.
        let elsewhere = tempfile::tempdir().unwrap();
        super::tests::cache(&elsewhere).put(A, b"theirs").unwrap();
        std::fs::copy(entry(&elsewhere, A), entry(&dir, A)).unwrap();
        assert!(cache.get(A).is_none());
        // A link or a folder instead of a file.
        cache.put(B, b"of b").unwrap();
        std::os::unix::fs::symlink(entry(&dir, B), entry(&dir, A)).unwrap();
        assert!(cache.get(A).is_none());
        std::fs::create_dir(entry(&dir, A)).unwrap();
        assert!(cache.get(A).is_none());
        assert!(cache.get("../key").is_none() && cache.put("../key", b"").is_err());
    }

    #[test]
    fn cached_description_belongs_to_build_and_component() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(&dir);
        cache.say(A, "one", b"about a").unwrap();
        assert_eq!(cache.said(A, "one").as_deref(), Some(&b"about a"[..]));
        assert!(cache.said(A, "two").is_none() && cache.said(B, "one").is_none() && !cache.has(A));
        cache.put(A, b"code").unwrap();
        assert!(cache.has(A) && !cache.has(B));
        let path =
            |digest: &str, build: &str| dir.path().join("cache").join(said_name(digest, build).unwrap());
        // A complete entry of another component, and one that was changed.
        std::fs::copy(path(A, "one"), path(B, "one")).unwrap();
        assert!(cache.said(B, "one").is_none() && !path(B, "one").exists());
        std::fs::copy(entry(&dir, A), path(A, "two")).unwrap();
        assert!(cache.said(A, "two").is_none());
        let mut bytes = std::fs::read(path(A, "one")).unwrap();
        bytes[MAC_LEN] ^= 1;
        std::fs::write(path(A, "one"), bytes).unwrap();
        assert!(cache.said(A, "one").is_none());
    }

    #[test]
    fn cache_folder_open_to_others_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cache");
        drop(cache(&dir));
        for mode in [0o755, 0o770, 0o701] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            let refused = Cache::open(&path, DEFAULT_CACHE_BYTES).unwrap_err().to_string();
            assert!(refused.contains("others may enter it"), "{refused}");
        }
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).unwrap();
        std::fs::set_permissions(path.join("key"), PermissionsExt::from_mode(0o644)).unwrap();
        assert!(Cache::open(&path, DEFAULT_CACHE_BYTES).is_err());
        std::fs::write(path.join("key"), b"short").unwrap();
        std::fs::set_permissions(path.join("key"), PermissionsExt::from_mode(0o600)).unwrap();
        assert!(Cache::open(&path, DEFAULT_CACHE_BYTES).is_err());
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(Cache::open(&link, DEFAULT_CACHE_BYTES).is_err());
        if rustix::process::geteuid().is_root() {
            let theirs = dir.path().join("theirs");
            std::fs::create_dir(&theirs).unwrap();
            std::fs::set_permissions(&theirs, PermissionsExt::from_mode(0o700)).unwrap();
            std::os::unix::fs::chown(&theirs, Some(65_534), Some(65_534)).unwrap();
            let refused = Cache::open(&theirs, DEFAULT_CACHE_BYTES).unwrap_err().to_string();
            assert!(refused.contains("belongs to user 65534"), "{refused}");
        }
    }

    #[test]
    fn least_recently_used_entry_is_evicted() {
        let dir = tempfile::tempdir().unwrap();
        let small = Cache::open(&dir.path().join("cache"), 300).unwrap();
        let age = |digest: &str, seconds: u64| {
            let file = File::open(entry(&dir, digest)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
        };
        small.put(A, &[1; 80]).unwrap();
        small.put(B, &[2; 80]).unwrap();
        age(A, 60);
        age(B, 30);
        // A was used, so B is the oldest now.
        assert!(small.get(A).is_some());
        let leftover = dir.path().join("cache/new-0");
        std::fs::write(&leftover, b"").unwrap();
        File::open(&leftover).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let c = "c".repeat(64);
        small.put(&c, &[3; 80]).unwrap();
        assert!(small.get(A).is_some() && small.get(B).is_none() && small.get(&c).is_some());
        assert!(!leftover.exists());
        // An entry larger than the whole cache is kept alone.
        small.put(B, &[4; 400]).unwrap();
        assert!(small.get(A).is_none() && small.get(B).is_some());
    }

    #[test]
    fn concurrent_first_openers_share_one_key() {
        let dir = tempfile::tempdir().unwrap();
        let keys: Vec<_> = std::thread::scope(|scope| {
            let openers: Vec<_> = (0..8).map(|_| scope.spawn(|| cache(&dir).key)).collect();
            openers.into_iter().map(|opener| opener.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0]));
        assert_eq!(std::fs::read_dir(dir.path().join("cache")).unwrap().count(), 1);
    }

    #[test]
    fn cache_form_names_linked_wasmtime_version() {
        let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
        let lock = std::fs::read_to_string(lock).unwrap();
        let version = FORM.split([' ', ',']).nth(1).unwrap();
        assert!(lock.contains(&format!("name = \"wasmtime\"\nversion = \"{version}\"")), "{FORM}");
    }
}
