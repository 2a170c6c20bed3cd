//! Finds Python virtual environments by their content, whatever their name. `venv`: a folder with
//! `pyvenv.cfg`.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::changes::Change;
use crate::folder::Kind;
use crate::stack::Stack;

/// File that makes a folder a virtual environment.
const MARKER: &str = "pyvenv.cfg";

/// Virtual environments in the original, and in the original with the changes applied.
#[derive(Debug)]
pub struct Environments<'s, 'f> {
    views: [&'s Stack<'f>; 2],
    known: HashMap<PathBuf, bool>,
}

impl<'s, 'f> Environments<'s, 'f> {
    /// Makes a finder that looks into both views.
    #[must_use]
    pub fn new(before: &'s Stack<'f>, after: &'s Stack<'f>) -> Self {
        Self { views: [before, after], known: HashMap::new() }
    }

    /// The virtual environment that the path of a change is or lies in.
    ///
    /// # Errors
    /// When one of the views cannot be read.
    pub fn around(&mut self, change: &Change) -> io::Result<Option<PathBuf>> {
        // Nothing lies in an entry that was not a folder and is not one now.
        let is_folder = [change.before, change.after].iter().flatten().any(|node| node.kind == Kind::Folder);
        for folder in change.path.ancestors().skip(usize::from(!is_folder)) {
            if self.is_one(folder)? {
                return Ok(Some(folder.to_owned()));
            }
        }
        Ok(None)
    }

    fn is_one(&mut self, folder: &Path) -> io::Result<bool> {
        if let Some(known) = self.known.get(folder) {
            return Ok(*known);
        }
        let mut is = false;
        for view in self.views {
            is = is
                || match view.node(&folder.join(MARKER)) {
                    // No changes are read from, or applied to, a folder that we may not enter.
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => false,
                    node => node?.is_some(),
                };
        }
        self.known.insert(folder.to_owned(), is);
        Ok(is)
    }
}
