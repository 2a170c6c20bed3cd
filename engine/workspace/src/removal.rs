//! Removes folders with everything below them.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{self, Mode};

use crate::folder::{Folder, Kind};
use crate::near::Near;
use crate::parallel::at_once;

/// Maximum number of file names that are collected before they are removed together.
const MAX_BATCH_NAMES: usize = 4096;

impl Folder {
    /// Removes an entry with everything below it. For folders that are ours: unreadable ones get back their
    /// permissions.
    ///
    /// # Errors
    /// When an entry cannot be removed; one that does not exist is not an error.
    pub fn remove_all(&self, path: &Path) -> io::Result<()> {
        let Some(node) = self.node(path)? else { return Ok(()) };
        if node.kind != Kind::Folder {
            return self.remove_file(path);
        }
        let (mut folders, mut files, mut waiting) = (Vec::new(), Vec::new(), vec![path.to_owned()]);
        while let Some(path) = waiting.pop() {
            let folder = self.folder(&path)?;
            if fs::fstat(&folder)?.st_mode & 0o700 != 0o700 {
                fs::fchmod(&folder, Mode::RWXU)?;
            }
            for (name, kind) in folder.entries(Path::new(""))? {
                let inner = path.join(name);
                match kind {
                    Kind::Folder => waiting.push(inner),
                    _ => files.push(inner),
                }
                if files.len() >= MAX_BATCH_NAMES {
                    self.remove_files(&std::mem::take(&mut files))?;
                }
            }
            folders.push(path);
        }
        self.remove_files(&files)?;
        // Inner folders before the outer ones.
        folders.iter().rev().try_for_each(|folder| gone(self.remove_folder(folder)))
    }

    fn remove_files(&self, files: &[PathBuf]) -> io::Result<()> {
        let remove = |near: &mut Near<'_>, file: &PathBuf| match near.at(file)? {
            Some((folder, name)) => gone(folder.remove_file(name)),
            None => Ok(()),
        };
        at_once(files, || Near::new(self), remove).whole()
    }
}

/// Treats an entry as removed when another process removed it first.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|e| if e.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(e) })
}
