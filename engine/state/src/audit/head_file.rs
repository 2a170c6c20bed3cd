//! The file with the head of the log: two places, of which each step writes the older one, so that one sync confirms it.
//!
//! A new file under the old name would need two syncs, of its bytes and of its name. Here the name, the size and the blocks stay, and a write that a
//! power loss tears leaves the other place: the head of the step before, which the log still contains. Each place is a line `SEQ DIGEST CHECK`,
//! filled up with spaces. A file of one line `SEQ DIGEST`, as earlier releases wrote it, is read as well, and they read the first place.

use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};

use cap_std::fs::{OpenOptions, OpenOptionsExt};
use hotcell_guard::quarantine::{GENESIS, Head};
use sha2::{Digest, Sha256};

use super::HEAD;
use crate::state::StateFolder;

/// Size of a place in bytes: no two are on one block of a disk.
const PLACE_BYTES: usize = 4096;
/// Size of the file.
const FILE_BYTES: usize = 2 * PLACE_BYTES;

/// Head of the log in the file; `None` for an empty log.
///
/// # Errors
/// When there is no file, it cannot be read, or no place of it has a head.
pub fn read(folder: &StateFolder) -> io::Result<Option<Head>> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(nix::libc::O_NONBLOCK | nix::libc::O_NOFOLLOW);
    let file = match folder.dir().open_with(HEAD, &options) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let mut bytes = Vec::new();
    file.take(FILE_BYTES as u64).read_to_end(&mut bytes)?;
    let head = newest(&bytes).ok_or_else(|| io::Error::other("it is not SEQ DIGEST"))?;
    // An empty log has no head to compare with.
    Ok((head.seq > 0).then_some(head))
}

/// Writes the head; it is on the disk afterwards. Call this under the quarantine's lock.
///
/// # Errors
/// When the file cannot be written.
pub fn write(folder: &StateFolder, head: Option<&Head>) -> io::Result<()> {
    let head = head.cloned().unwrap_or_else(|| Head { seq: 0, hash: GENESIS.to_owned() });
    if over_older(folder, &head)? { Ok(()) } else { anew(folder, &head) }
}

/// Writes the head over the older place; false where the file has to be made anew.
fn over_older(folder: &StateFolder, head: &Head) -> io::Result<bool> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(nix::libc::O_NONBLOCK | nix::libc::O_NOFOLLOW);
    let Ok(file) = folder.dir().open_with(HEAD, &options) else { return Ok(false) };
    let file = file.into_std();
    let metadata = file.metadata()?;
    // A second name belongs to a copy of the state folder.
    if !metadata.is_file() || metadata.nlink() != 1 || metadata.len() != FILE_BYTES as u64 {
        return Ok(false);
    }
    let mut bytes = vec![0; FILE_BYTES];
    file.read_exact_at(&mut bytes, 0)?;
    let Some(at) = place_for(&bytes, head) else { return Ok(false) };
    file.write_all_at(&place(head), (at * PLACE_BYTES) as u64)?;
    file.sync_data()?;
    Ok(true)
}

/// Makes the file anew, under its name at once.
fn anew(folder: &StateFolder, head: &Head) -> io::Result<()> {
    const NEW: &str = "audit.head.new";
    let dir = folder.dir();
    // A process that died may have left this file.
    let _ = dir.remove_file(NEW);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = dir.open_with(NEW, &options)?;
    let mut bytes = place(head);
    bytes.resize(FILE_BYTES, b' ');
    file.write_all(&bytes)?;
    file.sync_all()?;
    dir.rename(NEW, dir, HEAD)?;
    // Syncs the name as well as the bytes; the handle of the state folder is not open as a file, so it is
    // opened again.
    dir.open(".")?.sync_all()
}

/// Number of the place that a head is written to; `None` where a place has a head that is not older, as after the log was restored from a copy.
fn place_for(bytes: &[u8], head: &Head) -> Option<usize> {
    let heads: Vec<_> = bytes.chunks(PLACE_BYTES).map(parsed).collect();
    if heads.iter().flatten().any(|known| known.seq >= head.seq) || heads.iter().all(Option::is_none) {
        return None;
    }
    let older = heads.iter().enumerate().min_by_key(|(_, known)| known.as_ref().map(|known| known.seq));
    older.map(|(at, _)| at)
}

/// The newest head in the places.
fn newest(bytes: &[u8]) -> Option<Head> {
    bytes.chunks(PLACE_BYTES).filter_map(parsed).max_by_key(|head| head.seq)
}

/// The head in a place; `None` for an empty place, or one written in part.
fn parsed(place: &[u8]) -> Option<Head> {
    // Without the 4,000 spaces behind it first: each would be looked at as a character.
    let text = std::str::from_utf8(place.trim_ascii_end()).ok()?;
    let mut words = text.split_ascii_whitespace();
    let (seq, hash) = (words.next()?.parse().ok()?, words.next()?.to_owned());
    let head = Head { seq, hash };
    match (words.next(), words.next()) {
        // As earlier releases wrote it. A place written in part may end within its digest.
        (None, _) if is_digest(&head.hash) => Some(head),
        (Some(word), None) if word == check(&head) => Some(head),
        _ => None,
    }
}

/// Whether a word is a whole digest.
fn is_digest(word: &str) -> bool {
    word.len() == GENESIS.len() && word.bytes().all(|b| b.is_ascii_hexdigit())
}

fn place(head: &Head) -> Vec<u8> {
    let mut bytes = format!("{} {} {}\n", head.seq, head.hash, check(head)).into_bytes();
    bytes.resize(PLACE_BYTES, b' ');
    bytes
}

/// A digest of a place's words, which a write in part does not have.
fn check(head: &Head) -> String {
    hex::encode(&Sha256::digest(format!("{} {}", head.seq, head.hash))[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(seq: u64) -> Head {
        Head { seq, hash: format!("{seq:064x}") }
    }

    fn folder() -> (tempfile::TempDir, StateFolder) {
        let dir = tempfile::tempdir().unwrap();
        let folder = StateFolder::open(&dir.path().join("state")).unwrap();
        (dir, folder)
    }

    #[test]
    fn heads_take_turns_in_two_places() {
        let (dir, folder) = folder();
        let path = dir.path().join("state").join(HEAD);
        write(&folder, None).unwrap();
        assert_eq!(read(&folder).unwrap(), None);
        let inode = std::fs::metadata(&path).unwrap().ino();
        for seq in 1..=5 {
            write(&folder, Some(&head(seq))).unwrap();
            assert_eq!(read(&folder).unwrap(), Some(head(seq)));
            let bytes = std::fs::read(&path).unwrap();
            let all: Vec<_> = bytes.chunks(PLACE_BYTES).map(|place| parsed(place).unwrap().seq).collect();
            assert_eq!(all.iter().max().unwrap() - all.iter().min().unwrap(), 1, "{all:?}");
        }
        assert_eq!(std::fs::metadata(&path).unwrap().ino(), inode, "the file stays");
        // The log of a restored copy ends earlier.
        write(&folder, Some(&head(2))).unwrap();
        assert_eq!(read(&folder).unwrap(), Some(head(2)));
    }

    /// Each beginning of a write leaves the new head or the one before.
    #[test]
    fn torn_write_leaves_the_head_before() {
        let (dir, folder) = folder();
        let path = dir.path().join("state").join(HEAD);
        for seq in 1..=3 {
            write(&folder, Some(&head(seq))).unwrap();
        }
        let before = std::fs::read(&path).unwrap();
        let new = place(&head(4));
        let at = place_for(&before, &head(4)).unwrap() * PLACE_BYTES;
        for torn in 0..=200 {
            let mut bytes = before.clone();
            bytes[at..at + torn].copy_from_slice(&new[..torn]);
            let read = newest(&bytes).unwrap();
            assert!(read == head(3) || (read == head(4) && torn > 80), "{torn}: {read:?}");
            // Bytes that never reached the disk are zeros, or the spaces of a new file.
            for rest in [0, b' '] {
                bytes[at + torn..at + PLACE_BYTES].fill(rest);
                let read = newest(&bytes).unwrap();
                assert!(read == head(3) || (read == head(4) && torn > 65), "{torn}: {read:?}");
            }
        }
    }

    #[test]
    fn files_of_other_forms_are_read_or_refused() {
        let (dir, folder) = folder();
        let path = dir.path().join("state").join(HEAD);
        let old = format!("7 {}\n", head(7).hash);
        std::fs::write(&path, &old).unwrap();
        assert_eq!(read(&folder).unwrap(), Some(head(7)));
        write(&folder, Some(&head(8))).unwrap();
        assert_eq!(read(&folder).unwrap(), Some(head(8)));
        let (short, long) = (format!("7 {:063x}\n", 7), format!("7 {:065x}\n", 7));
        let other = format!("7 {:063x}g\n", 7);
        for text in
            ["", "x", "7", " ", "-1 00\n", "7 00\n", "7 00 00\n", "7 00 00 00\n", &short, &long, &other]
        {
            std::fs::write(&path, text).unwrap();
            assert!(read(&folder).is_err(), "{text:?}");
        }
        // A link is not followed, and is replaced.
        let victim = dir.path().join("victim");
        std::fs::write(&victim, vec![b' '; FILE_BYTES]).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        assert!(read(&folder).is_err());
        write(&folder, Some(&head(9))).unwrap();
        assert_eq!(std::fs::read(&victim).unwrap(), vec![b' '; FILE_BYTES]);
        assert_eq!(read(&folder).unwrap(), Some(head(9)));
        // A second name of the file keeps what it had.
        let copy = dir.path().join("copy");
        std::fs::hard_link(&path, &copy).unwrap();
        let had = std::fs::read(&copy).unwrap();
        write(&folder, Some(&head(10))).unwrap();
        assert_eq!(std::fs::read(&copy).unwrap(), had);
        assert_eq!(read(&folder).unwrap(), Some(head(10)));
    }
}
