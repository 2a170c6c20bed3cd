//! Following symbolic links one at a time, so that every name on the way is known.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use super::files::{Fs, Kind};

/// The kernel gives up after this many links, and so does this.
const MOST_LINKS: usize = 40;

/// One name of a file on the way from what was written to what is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hop {
    /// Absolute, without `.` and `..`.
    pub path: PathBuf,
    /// Whether a link with an absolute target led here.
    pub absolute: bool,
}

/// Why a path leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Dead {
    /// The path itself is not there.
    Absent,
    /// A link on the way points to this name, which is not there.
    Dangling(PathBuf),
    /// Links go round in a circle, or there are too many.
    Loop,
}

enum Step {
    End(PathBuf),
    /// A link, and how many names follow it.
    Hop {
        next: PathBuf,
        absolute: bool,
        after: usize,
    },
    /// A name that is not there, and how many names there are from it on.
    Missing {
        name: PathBuf,
        from: usize,
    },
}

/// Every name of `path`, the first as written and the last without links. Never empty when it is `Ok`.
pub(super) fn chain(fs: &dyn Fs, path: &Path) -> Result<Vec<Hop>, Dead> {
    let mut hops = vec![Hop { path: normal(path), absolute: true }];
    let mut at = path.to_path_buf();
    // How many names at the end were written by whoever asked, rather than by a link.
    let mut written = usize::MAX;
    for _ in 0..=MOST_LINKS {
        match step(fs, &at) {
            Step::End(real) => {
                if hops.last().is_none_or(|h| h.path != real) {
                    hops.push(Hop { path: real, absolute: false });
                }
                return Ok(hops);
            }
            Step::Hop { next, absolute, after } => {
                written = written.min(after);
                hops.push(Hop { path: normal(&next), absolute });
                at = next;
            }
            Step::Missing { from, .. } if from <= written => return Err(Dead::Absent),
            Step::Missing { name, .. } => return Err(Dead::Dangling(name)),
        }
    }
    Err(Dead::Loop)
}

/// The name of `path` without links, if it leads anywhere.
pub(super) fn real(fs: &dyn Fs, path: &Path) -> Option<PathBuf> {
    chain(fs, path).ok()?.pop().map(|h| h.path)
}

/// Whether a file or folder is at the end of `path`.
pub(super) fn exists(fs: &dyn Fs, path: &Path) -> bool {
    real(fs, path).is_some()
}

/// What is at the end of `path`, links followed.
pub(super) fn look(fs: &dyn Fs, path: &Path) -> Option<Kind> {
    fs.look(&real(fs, path)?)
}

/// `path` without `.`, and with every `..` taken back to the name before it.
///
/// Only right where no link stands before a `..`.
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

fn step(fs: &dyn Fs, path: &Path) -> Step {
    let parts: Vec<OsString> = path.components().map(|c| c.as_os_str().to_owned()).collect();
    let missing = |i| Step::Missing { name: normal(path), from: parts.len() - i };
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
        match fs.look(&so_far) {
            None => return missing(i),
            Some(Kind::Link(target)) => {
                let absolute = target.is_absolute();
                so_far.pop();
                let mut next = so_far.join(target);
                next.extend(&parts[i + 1..]);
                return Step::Hop { next, absolute, after: parts.len() - i - 1 };
            }
            Some(Kind::Folder) => {}
            // A file in the middle of a path leads nowhere.
            Some(_) if i + 1 < parts.len() => return missing(i),
            Some(_) => {}
        }
    }
    Step::End(so_far)
}
