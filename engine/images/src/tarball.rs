//! Writes a reproducible tar archive of a folder: sorted, without owners and times, and with two modes only.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Modification time of every file: 1980-01-01, the earliest that zip archives can express.
pub const TIME: u64 = 315_532_800;

/// Adds the content of one of our own folders below `at`, except names in `left_out`, at any depth.
///
/// # Errors
/// When reading or writing fails, or an entry is not a file, folder or link.
pub fn add<W: Write>(
    out: &mut tar::Builder<W>,
    folder: &Path,
    at: &Path,
    left_out: &[&str],
) -> io::Result<()> {
    let mut names: Vec<OsString> =
        fs::read_dir(folder)?.map(|e| Ok(e?.file_name())).collect::<io::Result<_>>()?;
    names.sort();
    for name in names.iter().filter(|name| !left_out.iter().any(|no| name.to_str() == Some(no))) {
        let (path, inside) = (folder.join(name), at.join(name));
        let metadata = fs::symlink_metadata(&path)?;
        let kind = metadata.file_type();
        if kind.is_dir() {
            self::folder(out, &inside)?;
            add(out, &path, &inside, left_out)?;
        } else if kind.is_symlink() {
            link(out, &inside, &fs::read_link(&path)?)?;
        } else if kind.is_file() {
            let mode = if metadata.permissions().mode() & 0o100 == 0 { 0o644 } else { 0o755 };
            let mut header = header(tar::EntryType::Regular, mode);
            header.set_size(metadata.len());
            out.append_data(&mut header, &inside, fs::File::open(&path)?)?;
        } else {
            return Err(io::Error::other(format!("{} is neither file, folder nor link", inside.display())));
        }
    }
    Ok(())
}

/// Adds a file.
///
/// # Errors
/// When the entry cannot be written.
pub fn file<W: Write>(out: &mut tar::Builder<W>, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut header = header(tar::EntryType::Regular, mode);
    header.set_size(bytes.len() as u64);
    out.append_data(&mut header, path, bytes)
}

/// Adds a folder and its parents.
///
/// # Errors
/// When the entry cannot be written.
pub fn folder<W: Write>(out: &mut tar::Builder<W>, path: &Path) -> io::Result<()> {
    out.append_data(&mut header(tar::EntryType::Directory, 0o755), path, io::empty())
}

/// Adds a link.
///
/// # Errors
/// When the entry cannot be written.
pub fn link<W: Write>(out: &mut tar::Builder<W>, path: &Path, target: &Path) -> io::Result<()> {
    out.append_link(&mut header(tar::EntryType::Symlink, 0o777), path, target)
}

fn header(kind: tar::EntryType, mode: u32) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_mtime(TIME);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(0);
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(names: &[&str]) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        for name in names {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, name).unwrap();
            if name.ends_with('x') {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o4711)).unwrap();
            }
        }
        std::os::unix::fs::symlink("b", dir.path().join("l")).unwrap();
        let mut out = tar::Builder::new(Vec::new());
        add(&mut out, dir.path(), Path::new("at"), &["no"]).unwrap();
        out.into_inner().unwrap()
    }

    #[test]
    fn same_files_give_identical_archive() {
        let bytes = archive(&["b", "a/x", "a/no/y", "c"]);
        assert_eq!(bytes, archive(&["c", "a/x", "b", "no"]));
        let mut read = tar::Archive::new(&bytes[..]);
        let entries = read.entries().unwrap().map(|e| {
            let e = e.unwrap();
            let h = e.header();
            assert_eq!((h.uid().unwrap(), h.mtime().unwrap()), (0, TIME));
            (e.path().unwrap().to_str().unwrap().to_owned(), h.mode().unwrap())
        });
        let want = [("at/a", 0o755), ("at/a/x", 0o755), ("at/b", 0o644), ("at/c", 0o644), ("at/l", 0o777)];
        assert_eq!(entries.collect::<Vec<_>>(), want.map(|(p, m)| (p.to_owned(), m)));
        assert_ne!(bytes, archive(&["b"]));
    }
}
