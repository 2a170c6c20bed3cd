//! Stores bytes by their digest, wrapped: programs on the host cannot run them, index them or recognise their
//! type.
//!
//! An object is `objects/AA/SHA256` in the state folder, mode 0400: a magic line, a random number, and the
//! bytes XORed with a stream derived from that number. This is not encryption: a user who can read the file
//! can unwrap it.

use std::collections::HashSet;
use std::io::{self, Read, Write};

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use hotcell_state::state::{StateFolder, make_private};
use sha2::{Digest, Sha256};

const FOLDER: &str = "objects";
const MAGIC: &[u8] = b"hotcell-object/1\n";
const NONCE_LEN: usize = 16;
/// Maximum size of an object, in bytes; the guard scans no larger file.
pub const MAX_OBJECT_BYTES: u64 = 64 << 20;
/// Prefix of a file's name until it is complete.
const UNFINISHED: &str = "new-";

/// Folder of objects.
#[derive(Debug)]
pub struct Objects(Dir);

impl Objects {
    pub fn open(folder: &StateFolder) -> io::Result<Self> {
        make_private(folder.dir(), FOLDER)?;
        Ok(Self(folder.dir().open_dir(FOLDER)?))
    }

    /// Stores bytes. Does nothing when they are stored already.
    pub fn put(&self, bytes: &[u8]) -> io::Result<String> {
        let name = hex_digest(bytes);
        let shelf = self.shelf(&name, true)?;
        if shelf.symlink_metadata(&name).is_ok_and(|m| m.is_file()) {
            return Ok(name);
        }
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).map_err(io::Error::other)?;
        let mut body = bytes.to_vec();
        mask(&nonce, &mut body);
        let unfinished =
            format!("{UNFINISHED}{}", hotcell_state::ids::random_hex(8).map_err(io::Error::other)?);
        let written = (|| {
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(0o400);
            let mut file = self.0.open_with(&unfinished, &options)?;
            for piece in [MAGIC, &nonce, &body] {
                file.write_all(piece)?;
            }
            file.sync_all()?;
            self.0.rename(&unfinished, &shelf, &name)?;
            // Syncs the name as well as the bytes; the folder's handle is not open as a file, so it is opened
            // again.
            shelf.open(".")?.sync_all()
        })();
        if written.is_err() {
            // Frees the space on a full disk.
            let _ = self.0.remove_file(&unfinished);
        }
        written.map(|()| name)
    }

    /// Bytes of a digest, which is verified.
    pub fn get(&self, name: &str) -> io::Result<Vec<u8>> {
        let bad = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(nix::libc::O_NONBLOCK | nix::libc::O_NOFOLLOW);
        let file = self.shelf(name, false)?.open_with(name, &options)?;
        let mut all = Vec::new();
        file.take(MAX_OBJECT_BYTES + 1024).read_to_end(&mut all)?;
        let body = all.strip_prefix(MAGIC).ok_or_else(|| bad("it is no object of hotcell's"))?;
        let (nonce, body) = body.split_at_checked(NONCE_LEN).ok_or_else(|| bad("it is cut off"))?;
        let mut body = body.to_vec();
        mask(nonce, &mut body);
        if hex_digest(&body) == name { Ok(body) } else { Err(bad("its content was changed")) }
    }

    /// Removes incomplete files of processes that died. Under the quarantine's lock no process is writing
    /// one.
    pub fn sweep_unfinished(&self) -> io::Result<()> {
        for entry in self.0.entries()? {
            let name = entry?.file_name();
            if name.to_str().is_some_and(|name| name.starts_with(UNFINISHED)) {
                self.0.remove_file(&name)?;
            }
        }
        Ok(())
    }

    /// Like [`Objects::sweep_unfinished`], and removes objects that no row names.
    pub fn sweep(&self, known: &HashSet<String>) -> io::Result<()> {
        self.sweep_unfinished()?;
        for entry in self.0.entries()? {
            let name = entry?.file_name();
            if let Ok(shelf) = self.0.open_dir(&name) {
                for object in shelf.entries()? {
                    let object = object?.file_name();
                    if object.to_str().is_some_and(|object| !known.contains(object)) {
                        shelf.remove_file(&object)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn shelf(&self, name: &str, make: bool) -> io::Result<Dir> {
        let shelf = name.get(..2).filter(|_| name.len() == 64 && name.bytes().all(|b| b.is_ascii_hexdigit()));
        let shelf = shelf.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it is no digest"))?;
        if make {
            make_private(&self.0, shelf)?;
        }
        self.0.open_dir(shelf)
    }
}

/// XORs with sha256 of the number and a counter; applying it twice restores the bytes.
fn mask(nonce: &[u8], bytes: &mut [u8]) {
    for (count, block) in bytes.chunks_mut(32).enumerate() {
        let mut hash = Sha256::new();
        hash.update(nonce);
        hash.update((count as u64).to_le_bytes());
        for (byte, mask) in block.iter_mut().zip(hash.finalize()) {
            *byte ^= mask;
        }
    }
}

/// sha256 in hexadecimal.
pub fn hex_digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn objects() -> (tempfile::TempDir, Objects) {
        let dir = tempfile::tempdir().unwrap();
        let folder = StateFolder::open(&dir.path().join("state")).unwrap();
        (dir, Objects::open(&folder).unwrap())
    }

    #[test]
    fn quarantined_object_is_wrapped_and_restored() {
        let (dir, objects) = objects();
        let evil = b"#!/bin/sh\nrm -rf /home/\n".repeat(50);
        let name = objects.put(&evil).unwrap();
        assert_eq!(objects.put(&evil).unwrap(), name);
        let path = dir.path().join("state/objects").join(&name[..2]).join(&name);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o400);
        let raw = std::fs::read(&path).unwrap();
        assert!(raw.starts_with(MAGIC) && !raw.windows(6).any(|w| w == b"rm -rf"));
        assert_eq!(objects.get(&name).unwrap(), evil);
        assert_eq!(objects.get(&objects.put(b"").unwrap()).unwrap(), b"");
        objects.sweep(&HashSet::new()).unwrap();
        assert_eq!(objects.get(&name).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn altered_quarantine_object_is_refused() {
        let (dir, objects) = objects();
        let name = objects.put(b"print(1)").unwrap();
        let path = dir.path().join("state/objects").join(&name[..2]).join(&name);
        let raw = std::fs::read(&path).unwrap();
        for bad in [&raw[..raw.len() - 1], b"print(1)", MAGIC, &[]] {
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, bad).unwrap();
            assert_eq!(objects.get(&name).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert!(objects.get(&name).is_err());
        for name in ["", "..", "../../../etc/passwd", &"z".repeat(64), &"é".repeat(32)] {
            assert!(objects.get(name).is_err(), "{name}");
        }
    }

    #[test]
    fn sweep_removes_orphaned_objects() {
        let (dir, objects) = objects();
        let (kept, orphan) = (objects.put(b"a").unwrap(), objects.put(b"b").unwrap());
        std::fs::write(dir.path().join("state/objects/new-0"), "half").unwrap();
        objects.sweep(&HashSet::from([kept.clone()])).unwrap();
        assert!(objects.get(&kept).is_ok() && objects.get(&orphan).is_err());
        assert!(!dir.path().join("state/objects/new-0").exists());
    }
}
