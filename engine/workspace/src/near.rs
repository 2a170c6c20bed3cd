//! Looks up paths below a folder one after the other, and keeps the parent folder of the last one open: entries of one
//! folder take one system call each, where a path takes three.
//!
//! For folders that no process changes, or where an entry may as well have been seen a moment earlier. A lookup right before a
//! change uses [`Folder::around`].

use std::io;
use std::path::{Path, PathBuf};

use crate::folder::{Folder, Node};

/// A folder, and the last parent folder below it.
#[derive(Debug)]
pub(crate) struct Near<'f> {
    top: &'f Folder,
    last: Option<(PathBuf, Option<Folder>)>,
}

impl<'f> Near<'f> {
    pub(crate) const fn new(top: &'f Folder) -> Self {
        Self { top, last: None }
    }

    /// The parent folder of a path, and the path's last name; `None` when there is no such folder. For the folder itself, the
    /// folder and an empty name.
    ///
    /// # Errors
    /// When the parent cannot be opened, as it lies behind a mount.
    pub(crate) fn at<'p>(&mut self, path: &'p Path) -> io::Result<Option<(&Folder, &'p Path)>> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(Some((self.top, path)));
        };
        let name = Path::new(name);
        if parent.as_os_str().is_empty() {
            return Ok(Some((self.top, name)));
        }
        if self.last.as_ref().is_none_or(|(last, _)| last != parent) {
            self.last = None;
            let opened = self.top.around(path)?.map(|(folder, _)| folder);
            self.last = Some((parent.to_owned(), opened));
        }
        Ok(self.last.as_ref().and_then(|(_, folder)| folder.as_ref()).map(|folder| (folder, name)))
    }

    /// Metadata of the entry at a path, as [`Folder::node`].
    ///
    /// # Errors
    /// As [`Folder::node`].
    pub(crate) fn node(&mut self, path: &Path) -> io::Result<Option<Node>> {
        match self.at(path)? {
            Some((folder, name)) => folder.node(name),
            None => Ok(None),
        }
    }
}
