//! Collects the paths of a project that a protected name or git's settings lead to.

use std::collections::{HashMap, VecDeque};
use std::path::{Component, Path, PathBuf};

use crate::protected::{folded_path, protected};

/// Maximum number of links in the resolution of one path. See `path_resolution(7)`.
const MAX_LINKS: usize = 40;

/// Reason why a path counts as protected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lead {
    /// The link, settings file or folder that leads there; relative to the project where it lies below it.
    pub by: PathBuf,
    /// How it leads there.
    pub how: How,
}

/// How something leads to a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// A link with a protected name, or a further link in its resolution.
    Link,
    /// Git's settings name the path.
    Settings,
    /// The source could not be read, so it is unknown whether it leads there. With the error.
    Unread(String),
}

/// Paths below a project, each with what leads there.
#[derive(Debug, Default)]
pub struct Places {
    /// Absolute path of the project, without links.
    root: PathBuf,
    found: HashMap<String, (PathBuf, Lead)>,
}

impl Places {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root, found: HashMap::new() }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The lead to a path below the project, or to a folder above it.
    #[must_use]
    pub fn leading_to(&self, path: &Path) -> Option<&Lead> {
        if self.found.is_empty() {
            return None;
        }
        path.ancestors().find_map(|place| self.found.get(&folded_path(place))).map(|(_, lead)| lead)
    }

    /// Every path with its lead, in no order.
    pub fn all(&self) -> impl Iterator<Item = (&Path, &Lead)> {
        self.found.values().map(|(place, lead)| (place.as_path(), lead))
    }

    /// A path relative to the project where it lies below it, for messages.
    pub(super) fn below(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.root).unwrap_or(path).to_owned()
    }

    /// Protects a path. One outside the project, or already protected by its name, is ignored.
    pub(super) fn add(&mut self, place: &Path, by: &Path, how: How) {
        let Ok(place) = place.strip_prefix(&self.root) else { return };
        if protected(place).is_some() {
            return;
        }
        let lead = Lead { by: self.below(by), how };
        self.found.entry(folded_path(place)).or_insert_with(|| (place.to_owned(), lead));
    }

    /// Protects the target of a path, and each link in its resolution.
    pub(super) fn add_where(&mut self, path: &Path, by: &Path, how: &How) {
        let Some(resolved) = self.resolve(path) else { return };
        self.add(&resolved.place, by, how.clone());
        for link in resolved.links.iter().filter(|link| *link != by) {
            self.add(link, by, how.clone());
        }
    }

    /// Protects every path that an unreadable source may lead to.
    pub(super) fn unread(&mut self, place: &Path, by: &Path, why: String) {
        let place = if self.root.starts_with(place) { self.root.clone() } else { place.to_owned() };
        self.add(&place, by, How::Unread(why));
    }

    /// Resolves an absolute path, whose target need not exist; `None` when there are too many links, as in a
    /// cycle.
    pub(super) fn resolve(&self, path: &Path) -> Option<Resolved> {
        // The path of the project itself has no links.
        let (mut at, rest) = match path.strip_prefix(&self.root) {
            Ok(rest) => (self.root.clone(), rest),
            Err(_) => (PathBuf::from("/"), path),
        };
        let mut todo: VecDeque<PathBuf> = parts(rest).collect();
        let mut links = Vec::new();
        while let Some(name) = todo.pop_front() {
            match name.components().next() {
                Some(Component::RootDir) => at = PathBuf::from("/"),
                Some(Component::ParentDir) => {
                    at.pop();
                }
                Some(Component::Normal(_)) => {
                    let next = at.join(&name);
                    let Ok(says) = std::fs::read_link(&next) else {
                        at = next;
                        continue;
                    };
                    links.push(next);
                    if links.len() > MAX_LINKS {
                        return None;
                    }
                    for part in parts(&says).collect::<Vec<_>>().into_iter().rev() {
                        todo.push_front(part);
                    }
                }
                _ => {}
            }
        }
        Some(Resolved { place: at, links })
    }
}

/// Result of resolving a path.
pub(super) struct Resolved {
    pub place: PathBuf,
    /// Links that were followed.
    pub links: Vec<PathBuf>,
}

fn parts(path: &Path) -> impl Iterator<Item = PathBuf> {
    path.components().map(|part| PathBuf::from(part.as_os_str()))
}
