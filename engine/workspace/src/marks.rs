//! Changes that a reviewer should look at: new hidden names, files that became executable, links, changed
//! permissions.

use crate::changes::{Change, What};
use crate::folder::{Kind, Node};
use crate::protected::is_hidden;

/// Execute permission for anyone.
const EXECUTE: u32 = 0o111;

/// Permissions of a folder's owner.
const OWNERS: u32 = 0o700;

/// Reasons to look at one change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The path is new, and hidden or below something hidden.
    pub hidden: bool,
    /// The file is executable now, and was not before.
    pub executable: bool,
    /// The link is new, or has another target.
    pub link: bool,
    /// The permission bits changed, or the folder is new and its owner may not read, write and enter it.
    pub mode: bool,
}

impl Marks {
    /// Marks of one change. Pure.
    #[must_use]
    pub fn of(change: &Change) -> Self {
        let kind = |node: Option<Node>| node.map(|node| node.kind);
        let runs = |node: Option<Node>| node.is_some_and(|n| n.kind == Kind::File && n.mode & EXECUTE != 0);
        let mode = |node: Node| node.mode & 0o777;
        Self {
            hidden: change.what == What::Added && is_hidden(&change.path),
            executable: runs(change.after) && !runs(change.before),
            link: kind(change.after) == Some(Kind::Link),
            mode: matches!((change.before, change.after), (Some(was), Some(is))
                if was.kind == is.kind && is.kind != Kind::Link && mode(was) != mode(is))
                || change.after.is_some_and(|is| is.kind == Kind::Folder && is.mode & OWNERS != OWNERS)
                    && kind(change.before) != Some(Kind::Folder),
        }
    }

    /// Whether there is any mark.
    #[must_use]
    pub const fn any(self) -> bool {
        self.hidden || self.executable || self.link || self.mode
    }

    /// The marks as words: `hidden`, `executable`, `link`, `mode`.
    #[must_use]
    pub fn words(self) -> Vec<&'static str> {
        let all = [
            (self.hidden, "hidden"),
            (self.executable, "executable"),
            (self.link, "link"),
            (self.mode, "mode"),
        ];
        all.into_iter().filter(|(is, _)| *is).map(|(_, word)| word).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notable_changes_are_marked() {
        let node = |(kind, mode): (Kind, u32)| Node {
            kind,
            mode,
            bytes: 0,
            names: 1,
            changed: (0, 0),
            owner: (0, 0),
        };
        use Kind::{File, Folder, Link};
        for (path, before, after, want) in [
            ("a", None, Some((File, 0o644)), &[][..]),
            (".a", None, Some((File, 0o644)), &["hidden"]),
            ("x/.a/b", None, Some((File, 0o755)), &["hidden", "executable"]),
            (".a", Some((File, 0o644)), Some((File, 0o644)), &[]),
            ("a", Some((File, 0o644)), Some((File, 0o654)), &["executable", "mode"]),
            ("a", Some((File, 0o755)), Some((File, 0o755)), &[]),
            ("a", Some((File, 0o755)), Some((File, 0o700)), &["mode"]),
            ("a", Some((Folder, 0o755)), Some((File, 0o755)), &["executable"]),
            ("a", None, Some((Folder, 0o755)), &[]),
            ("a", None, Some((Folder, 0o000)), &["mode"]),
            ("a", Some((File, 0o644)), Some((Folder, 0o555)), &["mode"]),
            ("a", Some((Folder, 0o755)), Some((Folder, 0o700)), &["mode"]),
            ("a", None, Some((Link, 0o777)), &["link"]),
            (".a", Some((File, 0o755)), None, &[]),
        ] {
            let what = match (before, after) {
                (None, _) => What::Added,
                (_, None) => What::Deleted,
                (Some((was, _)), Some((is, _))) if was != is => What::TypeChanged,
                _ => What::Modified,
            };
            let change = Change { path: path.into(), what, before: before.map(node), after: after.map(node) };
            let marks = Marks::of(&change);
            assert_eq!((marks.words(), marks.any()), (want.to_vec(), !want.is_empty()), "{path} {before:?}");
        }
    }
}
