//! Files that a run executes and their languages, as far as the command tells: this overrides their names and
//! contents.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::language::Language;

/// Maximum number of links followed for one path, as in the kernel.
const MAX_LINKS: usize = 40;

/// How a file is executed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Executed {
    /// By an interpreter or a compiler of this language: it is scanned as this, whatever it looks like.
    As(Language),
    /// By a program whose language the guard does not read, such as `perl`: it is reported, and the scan is
    /// incomplete.
    Unread(String),
}

impl Executed {
    /// Language name of such a part in a report.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::As(language) => language.name(),
            Self::Unread(name) => name,
        }
    }
}

/// Files of a folder that a run executes, by relative path. A file may be executed in several ways.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Executions {
    files: BTreeMap<PathBuf, Vec<Executed>>,
    /// Paths of the folder that are hidden from the run.
    hidden: BTreeSet<PathBuf>,
}

impl Executions {
    /// Records that a file is executed. `path` is relative to the folder; `.` and `..` are resolved
    /// lexically, and a path that leads out of the folder is ignored, since it is not a file of the folder.
    pub fn add(&mut self, path: &Path, executed: Executed) {
        let Some(path) = within(Path::new(""), path) else { return };
        let all = self.files.entry(path).or_default();
        if !all.contains(&executed) {
            all.push(executed);
        }
    }

    /// How a file is executed; empty when the command does not tell.
    #[must_use]
    pub fn of(&self, path: &Path) -> &[Executed] {
        self.files.get(path).map_or(&[], Vec::as_slice)
    }

    /// Paths of the files.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.keys().map(PathBuf::as_path)
    }

    /// Hides a file or a folder from the run, so that it is not scanned.
    pub fn hide(&mut self, path: PathBuf) {
        self.hidden.insert(path);
    }

    /// Hidden paths.
    pub fn hidden(&self) -> impl Iterator<Item = &Path> {
        self.hidden.iter().map(PathBuf::as_path)
    }

    /// True when a path is hidden, or is inside a hidden folder.
    #[must_use]
    pub fn hides(&self, path: &Path) -> bool {
        self.hidden.iter().any(|hidden| path.starts_with(hidden))
    }

    /// True when nothing is known to be executed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Adds the files that links lead to. `link` returns the target of a path of the folder, if it is a link;
    /// an absolute target, or one outside the folder, is not a file of the folder.
    #[must_use]
    pub fn through_links(&self, link: &dyn Fn(&Path) -> Option<PathBuf>) -> Self {
        let mut all = Self { hidden: self.hidden.clone(), ..Self::default() };
        for (path, executed) in &self.files {
            let Some(real) = resolve(path, link) else { continue };
            executed.iter().for_each(|executed| all.add(&real, executed.clone()));
        }
        all
    }
}

/// Resolves `path`, relative to `folder`, without `.` and `..`; `None` when it leads out of the root.
fn within(folder: &Path, path: &Path) -> Option<PathBuf> {
    let mut all = folder.to_owned();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::Normal(name) => all.push(name),
            Component::ParentDir if all.pop() => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(all)
}

fn resolve(path: &Path, link: &dyn Fn(&Path) -> Option<PathBuf>) -> Option<PathBuf> {
    let names = |path: &Path| path.components().rev().map(|c| c.as_os_str().to_owned()).collect();
    let mut left: Vec<OsString> = names(path);
    let mut real = PathBuf::new();
    let mut links = 0;
    while let Some(name) = left.pop() {
        real = within(&real, Path::new(&name))?;
        let Some(target) = link(&real) else { continue };
        links += 1;
        if links > MAX_LINKS || target.is_absolute() {
            return None;
        }
        real.pop();
        left.extend(names(&target));
    }
    Some(real)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executed_path_follows_links_within_folder() {
        let perl = || Executed::Unread("perl".to_owned());
        for (path, links, real) in [
            ("a", &[][..], Some("a")),
            ("./a/../b", &[], Some("b")),
            ("../a", &[], None),
            ("/a", &[], None),
            ("a", &[("a", "b")], Some("b")),
            ("a", &[("a", "d/b"), ("d", "e/f")], Some("e/f/b")),
            ("d/a", &[("d/a", "../b")], Some("b")),
            ("d/x", &[("d", "."), ("x", "y")], Some("y")),
            ("a", &[("a", "a")], None),
            ("a", &[("a", "../b")], None),
            ("a", &[("a", "/b")], None),
        ] {
            let mut all = Executions::default();
            all.add(Path::new(path), perl());
            all.add(Path::new(path), perl());
            let link = |at: &Path| {
                links.iter().find(|(from, _)| Path::new(from) == at).map(|(_, to)| PathBuf::from(to))
            };
            let found = all.through_links(&link);
            let mut wanted = Executions::default();
            if let Some(real) = real {
                wanted.add(Path::new(real), perl());
                assert_eq!(found.of(Path::new(real)), [perl()], "{path}");
            }
            assert_eq!(found, wanted, "{path} {links:?}");
        }
    }
}
