//! Follows symbolic links one at a time, so that every name on the way is known, and who chose it.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use super::files::Kind;
use super::sight::{Seen, Sight};

/// Maximum number of links followed; the kernel has the same limit.
const MAX_LINKS: usize = 40;

/// One name of a file on the way from the written path to the canonical one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hop {
    /// Absolute, without `.` and `..`.
    pub path: PathBuf,
    /// Whether a link with an absolute target led here.
    pub absolute: bool,
}

/// Reason why a path leads to no file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Dead {
    /// The path itself does not exist.
    Absent,
    /// A link on the way points to this path, which does not exist.
    Dangling(PathBuf),
    /// Links form a loop, or there are too many.
    Loop,
    /// The project leads to this path, which the operator's own settings do not lead to; it was not looked
    /// at.
    Barred(PathBuf),
}

enum Step<'a> {
    End(PathBuf),
    /// A link, and the number of names that follow it.
    Hop {
        next: PathBuf,
        absolute: bool,
        after: usize,
        /// Who chose the next name: as before, or the project if the link was the project's.
        sight: Sight<'a>,
    },
    /// A name that does not exist, and the number of names from it on.
    Missing {
        name: PathBuf,
        from: usize,
    },
    Barred(PathBuf),
}

/// Every name of `path`, the first as written and the last canonical. Never empty when `Ok`.
///
/// From the first link in the project on, the path counts as the project's.
pub(super) fn chain(mut sight: Sight<'_>, path: &Path) -> Result<Vec<Hop>, Dead> {
    let mut hops = vec![Hop { path: normal(path), absolute: true }];
    let mut at = path.to_path_buf();
    // Number of trailing names that come from the original path rather than from a link.
    let mut written = usize::MAX;
    for _ in 0..=MAX_LINKS {
        match step(sight, &at) {
            Step::End(real) if !sight.may_end_at(&real) => return Err(Dead::Barred(real)),
            Step::End(real) => {
                if hops.last().is_none_or(|h| h.path != real) {
                    hops.push(Hop { path: real, absolute: false });
                }
                return Ok(hops);
            }
            Step::Hop { next, absolute, after, sight: from } => {
                sight = from;
                written = written.min(after);
                hops.push(Hop { path: normal(&next), absolute });
                at = next;
            }
            Step::Barred(name) => return Err(Dead::Barred(name)),
            Step::Missing { from, .. } if from <= written => return Err(Dead::Absent),
            Step::Missing { name, .. } => return Err(Dead::Dangling(name)),
        }
    }
    Err(Dead::Loop)
}

/// The canonical path of `path`, if it leads anywhere.
pub(super) fn real(sight: Sight<'_>, path: &Path) -> Option<PathBuf> {
    chain(sight, path).ok()?.pop().map(|h| h.path)
}

/// Whether a file or folder is at the end of `path`.
pub(super) fn exists(sight: Sight<'_>, path: &Path) -> bool {
    real(sight, path).is_some()
}

/// The type of the file at the end of `path`, following links.
pub(super) fn look(sight: Sight<'_>, path: &Path) -> Option<Kind> {
    match sight.look(&real(sight, path)?) {
        Seen::There(kind) => Some(kind),
        Seen::Absent | Seen::Barred => None,
    }
}

/// `path` without `.`, and with every `..` resolved textually.
///
/// Only correct if no link occurs before a `..`.
pub(super) fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => out.push(name),
            Component::ParentDir => {
                out.pop();
            }
            _ => {}
        }
    }
    out
}

fn step<'a>(sight: Sight<'a>, path: &Path) -> Step<'a> {
    let parts: Vec<OsString> = path.components().map(|c| c.as_os_str().to_owned()).collect();
    let missing = |i: usize| Step::Missing { name: normal(path), from: parts.len() - i };
    let mut so_far = PathBuf::from("/");
    for (i, part) in parts.iter().enumerate() {
        match Path::new(part).components().next() {
            Some(Component::Normal(name)) => so_far.push(name),
            Some(Component::ParentDir) => {
                so_far.pop();
                continue;
            }
            _ => continue,
        }
        match sight.look(&so_far) {
            Seen::Absent => return missing(i),
            // The whole path, so that a message can show where the link leads.
            Seen::Barred => {
                so_far.extend(&parts[i + 1..]);
                return Step::Barred(normal(&so_far));
            }
            Seen::There(Kind::Link(target)) => {
                let sight = sight.after_a_link_at(&so_far);
                let absolute = target.is_absolute();
                so_far.pop();
                let mut next = so_far.join(target);
                next.extend(&parts[i + 1..]);
                return Step::Hop { next, absolute, after: parts.len() - i - 1, sight };
            }
            Seen::There(Kind::Folder) => {}
            // A path through a regular file leads nowhere.
            Seen::There(_) if i + 1 < parts.len() => return missing(i),
            Seen::There(_) => {}
        }
    }
    Step::End(so_far)
}
