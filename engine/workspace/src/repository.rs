//! Finds git's own state: `.git` by its name, and repositories of any name by their content. See
//! `gitrepository-layout(5)`.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::protected::folded;
use crate::stack::Stack;

/// Names directly in a repository that git reads, writes or runs, for a folder that is also a work tree.
const STATE: &[&str] = &[
    "annex",
    "auto_merge",
    "bisect_log",
    "branches",
    "cherry_pick_head",
    "commit_editmsg",
    "commondir",
    "config",
    "config.worktree",
    "description",
    "fetch_head",
    "gitdir",
    "head",
    "hooks",
    "index",
    "info",
    "lfs",
    "logs",
    "merge_head",
    "merge_msg",
    "modules",
    "objects",
    "orig_head",
    "packed-refs",
    "rebase-apply",
    "rebase-merge",
    "refs",
    "reftable",
    "remotes",
    "revert_head",
    "sequencer",
    "shallow",
    "worktrees",
];

/// Repositories in the original, and in the original with the changes applied.
#[derive(Debug)]
pub struct Repositories<'s, 'f> {
    views: [&'s Stack<'f>; 2],
    known: HashMap<PathBuf, bool>,
}

impl<'s, 'f> Repositories<'s, 'f> {
    /// Makes a finder that looks into both views.
    #[must_use]
    pub fn new(before: &'s Stack<'f>, after: &'s Stack<'f>) -> Self {
        Self { views: [before, after], known: HashMap::new() }
    }

    /// The folder whose git state a path belongs to.
    ///
    /// # Errors
    /// When one of the views cannot be read.
    pub fn around(&mut self, path: &Path) -> io::Result<Option<PathBuf>> {
        // The outermost `.git`, since everything in it is git's state.
        let mut outermost = None;
        for inner in path.ancestors().filter(|inner| name(inner) == ".git") {
            outermost = Some(inner.to_owned());
        }
        if outermost.is_some() {
            return Ok(outermost);
        }
        for (inner, folder) in path.ancestors().zip(path.ancestors().skip(1)) {
            // In a repository without a work tree, everything is git's state.
            if self.is_repository(folder)?
                && (STATE.contains(&name(inner).as_str()) || !self.is_work_tree(folder)?)
            {
                return Ok(Some(folder.to_owned()));
            }
        }
        Ok(None)
    }

    /// Whether a folder also holds a project: it is the project's root, or had a `.git` before the program
    /// began.
    fn is_work_tree(&self, folder: &Path) -> io::Result<bool> {
        Ok(folder.as_os_str().is_empty() || self.views[0].node(&folder.join(".git"))?.is_some())
    }

    fn is_repository(&mut self, folder: &Path) -> io::Result<bool> {
        if let Some(known) = self.known.get(folder) {
            return Ok(*known);
        }
        let mut is = false;
        for view in self.views {
            is = is || looks_like_one(view, folder)?;
        }
        self.known.insert(folder.to_owned(), is);
        Ok(is)
    }
}

/// Last name of a path, folded.
fn name(path: &Path) -> String {
    path.file_name().map(|name| folded(&name.to_string_lossy())).unwrap_or_default()
}

/// Whether git would take a folder for a repository: it has a `HEAD`, and `objects` and `refs` of its own or
/// of another repository.
fn looks_like_one(view: &Stack<'_>, folder: &Path) -> io::Result<bool> {
    let mut has = [false; 4];
    let names = match view.names(folder) {
        // An unreadable folder may be a repository, so it counts as one.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(true),
        names => names?,
    };
    for entry in names {
        let path = folder.join(&entry);
        let place = ["head", "objects", "refs", "commondir"].iter().position(|wanted| *wanted == name(&path));
        if let Some(place) = place {
            has[place] = has[place] || view.node(&path)?.is_some();
        }
    }
    let [head, objects, refs, elsewhere] = has;
    Ok(head && (elsewhere || objects && refs))
}
