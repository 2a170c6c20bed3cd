//! Copies on the host of the files that a caller puts into a session, so that the guard reads them before they are inside, and cells
//! together with them.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hotcell_sandbox::temporary;
use hotcell_verbs::language::Language;
use tempfile::TempDir;

/// Maximum size of a copy in bytes. A longer file is data, and is not read.
pub(crate) const MAX_READ_BYTES: usize = 4 << 20;

/// Maximum size of all copies in bytes.
const MAX_COPIED_BYTES: u64 = 256 << 20;

/// Copies of a session's uploads, by their paths below the home folder.
#[derive(Debug, Default)]
pub(crate) struct Uploads {
    folder: Option<TempDir>,
    bytes: u64,
    /// Files that are too long for a copy: what is appended to them is not a file of its own.
    long: HashSet<PathBuf>,
}

/// A change of a copy, which is undone if the guard refuses it.
#[derive(Debug)]
pub(crate) struct Staged {
    path: PathBuf,
    before: Option<Vec<u8>>,
    was_long: bool,
    /// Whether there is a copy to be read.
    pub(crate) is_read: bool,
}

impl Uploads {
    /// Folder of the copies, if there are any.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.path().to_owned())
    }

    /// Writes a piece of a file into its copy. `below`: a path without `..`.
    ///
    /// # Errors
    /// A sentence: a source that is too long to be read, too many copies, and a disk that takes no copy.
    pub(crate) fn stage(&mut self, below: &str, piece: &[u8], append: bool) -> Result<Staged, String> {
        let kept = |e: io::Error| format!("the copy for the guard was not kept: {e}; make room in TMPDIR");
        let folder = match &mut self.folder {
            Some(folder) => folder,
            none => none.insert(temporary::folder().map_err(kept)?),
        };
        let path = folder.path().join(below);
        let before = match fs::read(&path) {
            Ok(bytes) => Some(bytes),
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory
                ) =>
            {
                None
            }
            Err(e) => return Err(kept(e)),
        };
        let old = before.as_ref().map_or(0, Vec::len);
        let first = before.as_deref().filter(|_| append).unwrap_or_default();
        let whole = [first, piece].concat();
        let was_long = self.long.contains(&path);
        if whole.len() > MAX_READ_BYTES || append && was_long {
            let ending = Path::new(below).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
            if Language::of_ending(&ending.to_ascii_lowercase()).is_some() {
                return Err(format!(
                    "a source file has at most {MAX_READ_BYTES} bytes, as the guard reads it"
                ));
            }
            if before.is_some() {
                fs::remove_file(&path).map_err(kept)?;
            }
            self.bytes -= old as u64;
            self.long.insert(path.clone());
            return Ok(Staged { path, before, was_long, is_read: false });
        }
        let bytes = self.bytes - old as u64 + whole.len() as u64;
        if bytes > MAX_COPIED_BYTES {
            return Err(format!("the uploads of a session have at most {MAX_COPIED_BYTES} bytes together"));
        }
        write(folder.path(), &path, &whole).map_err(kept)?;
        self.bytes = bytes;
        self.long.remove(&path);
        Ok(Staged { path, before, was_long, is_read: true })
    }

    /// Puts a copy back to what it was.
    pub(crate) fn undo(&mut self, staged: &Staged) {
        let now = fs::metadata(&staged.path).map_or(0, |file| file.len());
        match staged.was_long {
            true => self.long.insert(staged.path.clone()),
            false => self.long.remove(&staged.path),
        };
        let done = match &staged.before {
            Some(bytes) => fs::write(&staged.path, bytes).map(|()| bytes.len() as u64),
            None if !staged.is_read => return,
            None => fs::remove_file(&staged.path).map(|()| 0),
        };
        if let Ok(bytes) = done {
            self.bytes = self.bytes - now + bytes;
        }
    }
}

/// Writes a file, in place of a file above it or a folder there: a cell may have removed these since they were put in.
fn write(folder: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let above = path.parent().unwrap_or(folder);
    for part in above.ancestors().take_while(|part| *part != folder) {
        if part.is_file() {
            fs::remove_file(part)?;
        }
    }
    if path.is_dir() {
        fs::remove_dir_all(path)?;
    }
    fs::create_dir_all(above)?;
    fs::write(path, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copies(uploads: &Uploads) -> Vec<(String, usize)> {
        let top = uploads.folder().unwrap();
        let mut all = Vec::new();
        let mut folders = vec![top.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                match entry.is_dir() {
                    true => folders.push(entry),
                    false => {
                        let name = entry.strip_prefix(&top).unwrap().to_string_lossy().into_owned();
                        all.push((name, fs::read(entry).unwrap().len()));
                    }
                }
            }
        }
        all.sort();
        all
    }

    #[test]
    fn folder_has_a_name_that_the_next_start_removes() {
        let mut uploads = Uploads::default();
        uploads.stage("a.py", b"one", false).unwrap();
        let name = uploads.folder().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        let other = temporary::folder().unwrap().path().file_name().unwrap().to_str().unwrap().to_owned();
        let process = |name: &str| name.split('-').take(3).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(process(&name), process(&other), "{name}");
    }

    #[test]
    fn pieces_are_copied_and_undone() {
        let mut uploads = Uploads::default();
        assert!(uploads.stage("d/a.py", b"one", false).unwrap().is_read);
        let more = uploads.stage("d/a.py", b"more", true).unwrap();
        assert_eq!(copies(&uploads), [("d/a.py".to_owned(), 7)]);
        uploads.undo(&more);
        assert_eq!((copies(&uploads), uploads.bytes), (vec![("d/a.py".to_owned(), 3)], 3));
        let other = uploads.stage("d", b"12", false).unwrap();
        assert_eq!(copies(&uploads), [("d".to_owned(), 2)]);
        uploads.undo(&other);
        assert_eq!(copies(&uploads), []);
    }

    #[test]
    fn long_files_are_data_and_long_sources_are_refused() {
        let mut uploads = Uploads::default();
        let long = vec![b' '; MAX_READ_BYTES];
        assert!(uploads.stage("a.csv", &long, false).unwrap().is_read);
        let first = uploads.stage("a.csv", b"x", true).unwrap();
        assert!(!first.is_read && uploads.bytes == 0);
        assert!(!uploads.stage("a.csv", b"y", true).unwrap().is_read, "a piece is not a file of its own");
        uploads.undo(&first);
        assert_eq!(uploads.bytes, long.len() as u64);
        assert!(uploads.stage("a.csv", b"z", false).unwrap().is_read);
        assert_eq!(uploads.bytes, 1);
        assert!(uploads.stage("a.csv", b"z", true).unwrap().is_read);
        assert!(uploads.stage("a.PY", &long, false).unwrap().is_read);
        assert!(uploads.stage("a.PY", b"x", true).unwrap_err().contains("at most 4194304 bytes"));
    }
}
