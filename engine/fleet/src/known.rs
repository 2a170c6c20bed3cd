//! Digests of a folder's files, kept between two readings, so that a file is read again only when it may have changed.
//!
//! There is one file of digests for each folder that was read, replaced as a whole by a rename. A file of another start of the machine counts for nothing: after
//! a crash of the system a file may have newer bytes than its times say. A wrong digest would have a farm run other bytes than the folder has, and nothing
//! more: each side checks the bytes that it gets against their digest.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use hotcell_workspace::Node;
use hotcell_workspace::settled::{Moment, Seen, boot_id, is_settled, moment, notes_changes};
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat2};
use nix::libc;
use nix::sys::stat::{FileStat, SFlag, fstat, fstatat};

use crate::cache::make_private;
use crate::digest::Key;
use crate::gather::Open;

/// Folder in the state folder.
pub use hotcell_verbs::caches::DIGESTS;
/// First bytes of a file of digests: name and version of the format.
const MAGIC: &[u8; 18] = b"hotcell.digests/1\n";
/// Size of the record of one file, in bytes.
const RECORD: usize = 8 * 4 + 4 * 2 + 32;
/// Maximum number of files in one file of digests: 14 MB of them.
const MAX_RECORDS: usize = 200_000;
/// Maximum number of folders whose digests are kept.
const MAX_FOLDERS: usize = 32;
/// Beginning of the names of files that are being written.
const UNFINISHED: &str = ".new-";
/// Age of a file that is being written at which its writer must be dead.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Counts of one reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Files whose digest was known.
    pub known: usize,
    /// Files that were read.
    pub read: usize,
}

/// The digests of one folder's files.
#[derive(Debug)]
pub struct Known {
    path: PathBuf,
    folder: File,
    /// The parent folder of the last file, below the folder; `None` where it cannot be opened.
    parent: (PathBuf, Option<OwnedFd>),
    /// Beginning of the file: format, start of the machine, device.
    head: Vec<u8>,
    device: u64,
    /// When the reading began.
    now: Moment,
    /// Digests of before, by inode.
    before: Vec<(Seen, Key)>,
    /// Digests for the next reading.
    next: Vec<(Seen, Key)>,
    counts: Counts,
}

impl Known {
    /// Opens the digests of a folder, which are kept in `place`, for a reading that begins `now`. `None` where they cannot be kept: then each file is read.
    #[must_use]
    pub fn open(place: &Path, folder: &Path, now: SystemTime) -> Option<Self> {
        let opened = Self::opened(place, folder, now);
        opened
            .inspect_err(|e| tracing::debug!("digests are not kept in {}: {e}", place.display()))
            .ok()
            .flatten()
    }

    fn opened(place: &Path, folder: &Path, now: SystemTime) -> io::Result<Option<Self>> {
        let folder = OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(folder)?;
        if !notes_changes(&folder)? {
            return Ok(None);
        }
        let (device, inode) = fstat(&folder).map(|stat| (stat.st_dev, stat.st_ino))?;
        make_private(place)?;
        let path = place.join(format!("{device:x}-{inode:x}"));
        let now = moment(now);
        let head = [MAGIC.as_slice(), boot_id()?.as_bytes(), &device.to_le_bytes()].concat();
        let before = read(&path, &head, device).unwrap_or_default();
        let parent = (PathBuf::new(), Some(folder.try_clone()?.into()));
        Ok(Some(Self {
            path,
            folder,
            parent,
            head,
            device,
            now,
            before,
            next: Vec::new(),
            counts: Counts::default(),
        }))
    }

    /// File of the digests.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Counts so far.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Digest of a file of the folder: the known one while the kernel describes the file as it did, else that of its bytes.
    ///
    /// # Errors
    /// When the file cannot be read, or has more bytes than its description says.
    pub fn digest(&mut self, path: &Path, node: &Node, open: &mut Open<'_>) -> io::Result<Key> {
        if let Some(known) = self.look(path, node).and_then(|seen| self.find(&seen)) {
            self.counts.known += 1;
            self.next.push(known);
            return Ok(known.1);
        }
        self.counts.read += 1;
        let mut file = open()?;
        let before = seen(&fstat(&file)?);
        let key = Key::of_reader(&mut file, node.bytes)?;
        let is_whole = before.device == self.device && before.bytes == key.size;
        if is_whole && is_settled(&before, &seen(&fstat(&file)?), self.now) {
            self.next.push((before, key));
        }
        Ok(key)
    }

    /// The file at a path, if it is the one that a walk has just found there.
    fn look(&mut self, path: &Path, node: &Node) -> Option<Seen> {
        let (parent, name) = (path.parent()?, path.file_name()?);
        if self.parent.0 != parent {
            let resolve = ResolveFlag::RESOLVE_BENEATH
                | ResolveFlag::RESOLVE_NO_SYMLINKS
                | ResolveFlag::RESOLVE_NO_MAGICLINKS
                | ResolveFlag::RESOLVE_NO_XDEV;
            let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
            let how = OpenHow::new().flags(flags).resolve(resolve);
            let to = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            self.parent = (parent.to_owned(), openat2(&self.folder, to, how).ok());
        }
        let stat = fstatat(self.parent.1.as_ref()?, name, AtFlags::AT_SYMLINK_NOFOLLOW).ok()?;
        let is_file = stat.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFREG.bits();
        let seen = seen(&stat);
        let is_same = seen.device == self.device && (seen.bytes, seen.changed) == (node.bytes, node.changed);
        (is_file && is_same).then_some(seen)
    }

    fn find(&self, seen: &Seen) -> Option<(Seen, Key)> {
        let at = self.before.binary_search_by_key(&seen.inode, |(known, _)| known.inode).ok()?;
        self.before.get(at).filter(|(known, _)| known == seen).copied()
    }

    /// Keeps the digests of this reading, if there are new ones. A failure costs time later, and nothing else.
    pub fn save(mut self) {
        if self.next.len() == self.counts.known {
            return;
        }
        if let Err(error) = self.write() {
            tracing::debug!("digests are not kept in {}: {error}", self.path.display());
        }
    }

    fn write(&mut self) -> io::Result<()> {
        let place = self.path.parent().unwrap_or(Path::new("/"));
        // A file with several names is one record.
        self.next.sort_unstable_by_key(|(seen, _)| seen.inode);
        self.next.dedup_by_key(|(seen, _)| seen.inode);
        self.next.truncate(MAX_RECORDS);
        let mut text = self.head.clone();
        text.reserve(self.next.len() * RECORD + 32);
        self.next.iter().for_each(|record| push(&mut text, record));
        let sum = Key::of(&text);
        text.extend_from_slice(&sum.hash);
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let from = place.join(format!("{UNFINISHED}{}", hex::encode(random)));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&from)?;
        let written = file.write_all(&text).and_then(|()| fs::rename(&from, &self.path));
        if written.is_err() {
            let _ = fs::remove_file(&from);
        }
        written?;
        sweep(place)
    }
}

/// Forgets the digests of a folder, one of which was wrong.
pub fn forget(path: &Path) {
    let _ = fs::remove_file(path);
}

fn seen(stat: &FileStat) -> Seen {
    Seen {
        device: stat.st_dev,
        inode: stat.st_ino,
        bytes: stat.st_size.unsigned_abs(),
        modified: (stat.st_mtime, stat.st_mtime_nsec),
        changed: (stat.st_ctime, stat.st_ctime_nsec),
    }
}

fn push(text: &mut Vec<u8>, (seen, key): &(Seen, Key)) {
    for number in [seen.inode, seen.bytes] {
        text.extend_from_slice(&number.to_le_bytes());
    }
    for (seconds, nanos) in [seen.modified, seen.changed] {
        text.extend_from_slice(&seconds.to_le_bytes());
        text.extend_from_slice(&u32::try_from(nanos).unwrap_or(0).to_le_bytes());
    }
    text.extend_from_slice(&key.hash);
}

/// Reads a file of digests; `None` where it is not whole, or is of another start of the machine.
fn read(path: &Path, head: &[u8], device: u64) -> Option<Vec<(Seen, Key)>> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let mut text = Vec::new();
    let most = head.len() + MAX_RECORDS * RECORD + 32;
    file.take(most as u64 + 1).read_to_end(&mut text).ok()?;
    parse(&text, head, device)
}

fn parse(text: &[u8], head: &[u8], device: u64) -> Option<Vec<(Seen, Key)>> {
    let (text, sum) = text.split_at_checked(text.len().checked_sub(32)?)?;
    let records = text.strip_prefix(head)?;
    if Key::of(text).hash != sum || !records.len().is_multiple_of(RECORD) {
        return None;
    }
    records.chunks_exact(RECORD).map(|record| one(record, device)).collect()
}

fn one(mut record: &[u8], device: u64) -> Option<(Seen, Key)> {
    fn next<const N: usize>(record: &mut &[u8]) -> Option<[u8; N]> {
        let (first, rest) = record.split_first_chunk()?;
        *record = rest;
        Some(*first)
    }
    fn moment(record: &mut &[u8]) -> Option<Moment> {
        Some((i64::from_le_bytes(next(record)?), i64::from(u32::from_le_bytes(next(record)?))))
    }
    let record = &mut record;
    let (inode, bytes) = (u64::from_le_bytes(next(record)?), u64::from_le_bytes(next(record)?));
    let seen = Seen { device, inode, bytes, modified: moment(record)?, changed: moment(record)? };
    Some((seen, Key { hash: next(record)?, size: bytes }))
}

/// Removes the digests of the folders that were read longest ago, and what dead writers left.
fn sweep(place: &Path) -> io::Result<()> {
    let mut kept = Vec::new();
    for entry in fs::read_dir(place)? {
        let entry = entry?;
        // An entry that another process removed meanwhile.
        let Ok(about) = entry.metadata() else { continue };
        let written = about.modified()?;
        if !entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            kept.push((written, entry.path()));
        } else if written.elapsed().is_ok_and(|age| age > ABANDONED) {
            let _ = fs::remove_file(entry.path());
        }
    }
    kept.sort_unstable();
    let surplus = kept.len().saturating_sub(MAX_FOLDERS);
    kept.drain(..surplus).try_for_each(|(_, path)| fs::remove_file(path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::thread::sleep;
    use std::time::UNIX_EPOCH;

    use proptest::prelude::*;

    use super::*;
    use crate::input::Input;

    /// A moment at which what a test has written is settled.
    fn later() -> SystemTime {
        SystemTime::now() + Duration::from_secs(3600)
    }

    /// A kernel before Linux 6.13 has a clock of up to 10 ms for files: a test that says that it is later waits for its next tick.
    fn tick() {
        sleep(Duration::from_millis(25));
    }

    struct Tree {
        _dir: tempfile::TempDir,
        root: PathBuf,
        place: PathBuf,
    }

    /// `None` where the file system does not note changes, as `tmpfs`.
    fn tree(names: &[&str]) -> Option<Tree> {
        let dir = tempfile::tempdir().unwrap();
        let (root, place) = (dir.path().join("root"), dir.path().join("state/digests"));
        fs::create_dir(&root).unwrap();
        for name in names {
            fs::write(root.join(name), format!("text of {name}")).unwrap();
        }
        tick();
        let notes = notes_changes(File::open(&root).unwrap()).unwrap();
        notes.then_some(Tree { _dir: dir, root, place })
    }

    impl Tree {
        fn read(&self, now: SystemTime) -> Input {
            Input::read_again(Some(&self.root), &[], Some((&self.place, now))).unwrap()
        }

        /// Reads the folder, checks every digest, and tells the number of files that were read.
        fn checked(&self, now: SystemTime) -> usize {
            let input = self.read(now);
            let fresh = Input::read(Some(&self.root), &[]).unwrap();
            assert_eq!(input.files(), fresh.files());
            assert_eq!(input.with(&[]).unwrap().0, fresh.with(&[]).unwrap().0);
            input.counts().read
        }

        fn file(&self) -> PathBuf {
            let all: Vec<_> = fs::read_dir(&self.place).unwrap().map(|entry| entry.unwrap().path()).collect();
            assert_eq!(all.len(), 1);
            all[0].clone()
        }
    }

    #[test]
    fn fresh_files_are_read_again_and_old_ones_are_not() {
        let Some(tree) = tree(&["a", "b", "c"]) else { return };
        for now in [SystemTime::now(), SystemTime::now(), UNIX_EPOCH] {
            assert_eq!(tree.checked(now), 3);
        }
        assert_eq!(tree.checked(later()), 3);
        // Once kept, by any clock.
        assert_eq!((tree.checked(later()), tree.checked(SystemTime::now())), (0, 0));
        fs::remove_file(tree.root.join("a")).unwrap();
        fs::hard_link(tree.root.join("b"), tree.root.join("a")).unwrap();
        // A link is a change of the inode.
        assert_eq!((tree.checked(later()), tree.checked(later())), (2, 0));
    }

    /// Ways in which a file changes and keeps its size.
    #[test]
    fn changed_files_are_read_again_whatever_their_times() {
        let Some(tree) = tree(&["a", "b"]) else { return };
        let (a, b) = (tree.root.join("a"), tree.root.join("b"));
        let time = || fs::metadata(&a).unwrap().modified().unwrap();
        let set =
            |path: &Path, time| File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
        type Way<'w> = &'w dyn Fn();
        let ways: [(&str, Way<'_>); 6] = [
            ("overwritten", &|| fs::write(&a, "TEXT of a").unwrap()),
            ("overwritten, time set back", &|| {
                let before = time();
                fs::write(&a, "Text of a").unwrap();
                set(&a, before);
            }),
            ("in place, time set back", &|| {
                use std::os::unix::fs::FileExt;
                let before = time();
                File::options().write(true).open(&a).unwrap().write_all_at(b"X", 0).unwrap();
                set(&a, before);
            }),
            ("another inode with the same time", &|| {
                let before = time();
                fs::write(tree.root.join("n"), "other a!!").unwrap();
                set(&tree.root.join("n"), before);
                fs::rename(tree.root.join("n"), &a).unwrap();
            }),
            ("removed and made again, perhaps with the same inode", &|| {
                let before = time();
                fs::remove_file(&a).unwrap();
                fs::write(&a, "again a!!").unwrap();
                set(&a, before);
            }),
            ("swapped with another", &|| {
                fs::rename(&a, tree.root.join("n")).unwrap();
                fs::rename(&b, &a).unwrap();
                fs::rename(tree.root.join("n"), &b).unwrap();
            }),
        ];
        for (way, change) in ways {
            tree.checked(later());
            assert_eq!(tree.checked(later()), 0, "{way}");
            tick();
            change();
            tick();
            let read = tree.checked(later());
            assert!(read >= 1, "{way}: {read}");
        }
    }

    #[test]
    fn digests_of_another_start_or_with_other_bytes_are_not_believed() {
        let Some(tree) = tree(&["a", "b"]) else { return };
        type Spoil = fn(&mut Vec<u8>);
        let spoils: [Spoil; 6] = [
            |text| text[20] ^= 1,
            |text| *text.last_mut().unwrap() ^= 1,
            |text| text.truncate(40),
            |text| text.clear(),
            |text| text.extend_from_slice(&[0; 72]),
            // A whole file of another start.
            |text| {
                text[20] = if text[20] == b'0' { b'1' } else { b'0' };
                let end = text.len() - 32;
                let sum = Key::of(&text[..end]).hash;
                text[end..].copy_from_slice(&sum);
            },
        ];
        for spoil in spoils {
            tree.checked(later());
            assert_eq!(tree.checked(later()), 0);
            let mut text = fs::read(tree.file()).unwrap();
            spoil(&mut text);
            fs::write(tree.file(), text).unwrap();
            assert_eq!(tree.checked(later()), 2);
        }
        let input = tree.read(later());
        input.forget();
        assert_eq!(fs::read_dir(&tree.place).unwrap().count(), 0);
        assert_eq!(tree.checked(later()), 2);
        // A link is not followed.
        fs::rename(tree.file(), tree.place.with_extension("moved")).unwrap();
        let name = format!(
            "{:x}-{:x}",
            fs::metadata(&tree.root).unwrap().dev(),
            fs::metadata(&tree.root).unwrap().ino()
        );
        std::os::unix::fs::symlink(tree.place.with_extension("moved"), tree.place.join(name)).unwrap();
        assert_eq!(tree.checked(later()), 2);
    }

    /// Files of a layer have other bytes than the folder's of the same name.
    #[test]
    fn layers_hide_known_files() {
        let Some(tree) = tree(&["a", "b"]) else { return };
        let layer = tempfile::tempdir().unwrap();
        fs::write(layer.path().join("a"), "LAYER's a").unwrap();
        let layers = [layer.path().to_owned()];
        for read in [1, 0, 0] {
            let input = Input::read_again(Some(&tree.root), &layers, Some((&tree.place, later()))).unwrap();
            let fresh = Input::read(Some(&tree.root), &layers).unwrap();
            assert_eq!(input.files(), fresh.files());
            assert_eq!(input.files()[Path::new("a")], Key::of(b"LAYER's a"));
            assert_eq!(input.counts().read, read);
        }
    }

    #[test]
    fn folders_beyond_the_bound_are_forgotten() {
        let Some(tree) = tree(&["a"]) else { return };
        fs::create_dir_all(&tree.place).unwrap();
        for at in 0..MAX_FOLDERS + 9 {
            fs::write(tree.place.join(format!("1-{at}")), "x").unwrap();
        }
        assert_eq!(tree.checked(later()), 1);
        assert_eq!(fs::read_dir(&tree.place).unwrap().count(), MAX_FOLDERS);
        assert_eq!(tree.checked(later()), 0);
        fs::set_permissions(&tree.place, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        assert_eq!(tree.read(later()).counts(), Counts::default(), "others could write there");
    }

    proptest! {
        /// Records come back as they were written, and a changed text is not taken for one.
        #[test]
        fn files_of_digests_come_back(
            numbers in prop::collection::vec((any::<u64>(), any::<u64>(), any::<i64>(), 0..1_000_000_000_i64, any::<[u8; 32]>()), 0..5),
            flip in any::<usize>(),
        ) {
            let record = |&(inode, bytes, seconds, nanos, hash): &(u64, u64, i64, i64, [u8; 32])| {
                let seen = Seen { device: 7, inode, bytes, modified: (seconds, nanos), changed: (seconds, 0) };
                (seen, Key { hash, size: bytes })
            };
            let records: Vec<_> = numbers.iter().map(record).collect();
            let mut text = b"head".to_vec();
            records.iter().for_each(|record| push(&mut text, record));
            prop_assert_eq!(text.len(), 4 + records.len() * RECORD);
            let sum = Key::of(&text);
            text.extend_from_slice(&sum.hash);
            prop_assert_eq!(parse(&text, b"head", 7), Some(records));
            prop_assert_eq!(parse(&text, b"other", 7), None);
            let at = flip % text.len();
            text[at] ^= 1;
            prop_assert_eq!(parse(&text, b"head", 7), None);
        }
    }
}
