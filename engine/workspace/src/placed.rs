//! Files of a run copied into a folder of the host. No link is followed, and nothing is overwritten but a file that an earlier copy put
//! there and that is unchanged since.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs;

use crate::folder::{Folder, Kind};
use crate::random_hex;

/// Extended attribute of a copied file: its size and time of modification then.
const COPIED: &str = "user.hotcell.output";
/// Permission bits of a copied file: never executable.
const MODE: u32 = 0o644;

/// Writes a file of `bytes` bytes at `path` below `folder`, and makes the folders that are missing on the way.
///
/// # Errors
/// When there is another entry of that name, the path leads through a link, the source has more bytes than `bytes`, or a system call fails;
/// nothing is left of a file that was not written whole.
pub fn place(folder: &Folder, path: &Path, from: impl Read, bytes: u64) -> io::Result<()> {
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        folder.make_all(parent)?;
    }
    let existing = folder.node(path)?;
    let is_replaced = match existing {
        None => false,
        Some(node) if node.kind == Kind::File && is_ours(&folder.file(path)?) => true,
        Some(_) => return Err(io::Error::other("there is another file of this name")),
    };
    let written = if is_replaced {
        path.with_file_name(format!(".hotcell-{}", random_hex()?))
    } else {
        path.to_owned()
    };
    let whole = write(folder, &written, from, bytes)
        .and_then(|()| if is_replaced { folder.take(path, folder, &written) } else { Ok(()) });
    if whole.is_err() {
        let _ = folder.remove_file(&written);
    }
    whole
}

fn write(folder: &Folder, path: &Path, from: impl Read, bytes: u64) -> io::Result<()> {
    let mut file = folder.create(path)?;
    if io::copy(&mut from.take(bytes.saturating_add(1)), &mut file)? > bytes {
        return Err(io::Error::other("it grew while it was copied"));
    }
    fs::fchmod(&file, fs::Mode::from_raw_mode(MODE))?;
    // Where the file system has no such attributes, a later copy finds another's file there.
    let _ = fs::fsetxattr(&file, COPIED, state(&file)?.as_bytes(), fs::XattrFlags::empty());
    Ok(())
}

fn state(file: &File) -> io::Result<String> {
    let about = file.metadata()?;
    Ok(format!("{} {}.{:09}", about.len(), about.mtime(), about.mtime_nsec()))
}

fn is_ours(file: &File) -> bool {
    let mut value = [0u8; 64];
    match fs::fgetxattr(file, COPIED, &mut value[..]) {
        Ok(len) => state(file).is_ok_and(|state| state.as_bytes() == &value[..len]),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_files_and_links_stay() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("mine"), "mine").unwrap();
        std::os::unix::fs::symlink("mine", at("link")).unwrap();
        std::os::unix::fs::symlink(".", at("way")).unwrap();
        for name in ["mine", "link", "way/new", "mine/below"] {
            assert!(place(&folder, Path::new(name), &b"x"[..], 1).is_err(), "{name}");
        }
        assert_eq!(std::fs::read(at("mine")).unwrap(), b"mine");
        place(&folder, Path::new("a/b"), &b"one"[..], 3).unwrap();
        assert_eq!(std::fs::metadata(at("a/b")).unwrap().mode() & 0o777, MODE);
        assert!(place(&folder, Path::new("a/long"), &b"four"[..], 3).is_err());
        assert!(!at("a/long").exists());
        if is_ours(&folder.file(Path::new("a/b")).unwrap()) {
            place(&folder, Path::new("a/b"), &b"two!"[..], 4).unwrap();
            assert_eq!(std::fs::read(at("a/b")).unwrap(), b"two!");
        }
        std::fs::write(at("a/b"), "changed").unwrap();
        assert!(place(&folder, Path::new("a/b"), &b"x"[..], 1).is_err());
        assert_eq!(std::fs::read_dir(at("a")).unwrap().count(), 1);
    }
}
