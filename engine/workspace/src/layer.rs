//! Writes layers: the changes of a view in the format of the kernel's overlay file system. All metadata is
//! ours, not the program's.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::changes::Change;
use crate::folder::{Folder, Kind, ancestors};
use crate::stack::Stack;

/// Size of a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Held {
    /// Bytes of its files.
    pub bytes: u64,
    /// Number of files, folders, links and deletions.
    pub files: u64,
}

impl Held {
    /// Sum of both sizes.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self { bytes: self.bytes.saturating_add(other.bytes), files: self.files.saturating_add(other.files) }
    }
}

/// Size of changes when written as a layer.
#[must_use]
pub fn held(changes: &[Change]) -> Held {
    // A sparse file can claim any size, so the sum saturates.
    let sizes = changes.iter().filter_map(|c| c.after).map(|node| node.bytes);
    Held { bytes: sizes.fold(0, u64::saturating_add), files: changes.len() as u64 }
}

/// How file content gets into a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// By copying, since a program wrote the view's content.
    Copied,
    /// By hard links to the view's layers, which are never written to again.
    Shared,
}

/// Writes the changes between two views as a layer into an empty folder. Devices, pipes and sockets are left
/// out, setuid bits are removed, and everything is owned by `owner`.
///
/// # Errors
/// When a view cannot be read or the layer cannot be written.
pub fn write(
    before: &Stack<'_>,
    after: &Stack<'_>,
    changes: &[Change],
    to: &Folder,
    bytes: Bytes,
    owner: Option<(u32, u32)>,
) -> io::Result<()> {
    let mut folders = BTreeMap::new();
    for change in changes {
        let path = change.path.as_path();
        around(before, after, path, to, &mut folders, owner)?;
        let Some(node) = change.after else {
            // A whiteout of a parent already deletes the path.
            if !hidden(to, path)? {
                to.whiteout(path)?;
            }
            continue;
        };
        match node.kind {
            Kind::Folder => {
                if folders.insert(path.to_owned(), node.mode).is_none() {
                    to.make(path, 0o700)?;
                }
                if change.before.is_some_and(|was| was.kind != Kind::Folder) {
                    to.set_opaque(path)?;
                }
            }
            Kind::File => file(after, path, node.mode, to, bytes, owner)?,
            Kind::Link => to.make_link(path, &after.link(path)?)?,
            Kind::Whiteout | Kind::Special => continue,
        }
        if let Some(owner) = owner.filter(|_| node.kind != Kind::File) {
            to.own(path, owner)?;
        }
    }
    // Last, and inner folders before outer ones, since some modes forbid writing.
    folders.iter().rev().try_for_each(|(folder, mode)| to.set_mode(folder, *mode))
}

/// Makes the parent folders of a path, and records their modes.
fn around(
    before: &Stack<'_>,
    after: &Stack<'_>,
    path: &Path,
    to: &Folder,
    made: &mut BTreeMap<PathBuf, u32>,
    owner: Option<(u32, u32)>,
) -> io::Result<()> {
    for folder in ancestors(path.parent().unwrap_or(Path::new(""))) {
        if made.contains_key(&folder) {
            continue;
        }
        // A folder that is itself unchanged keeps its mode in `before`; `after` may have an older one.
        let was = before.node(&folder)?.filter(|node| node.kind == Kind::Folder);
        let node = was.map_or_else(|| after.node(&folder), |node| Ok(Some(node)))?;
        // A folder that a parent's deletion hides needs no entry.
        if to.node(&folder)?.is_some() || hidden(to, &folder)? {
            return Ok(());
        }
        to.make(&folder, 0o700)?;
        if let Some(owner) = owner {
            to.own(&folder, owner)?;
        }
        made.insert(folder, node.map_or(0o755, |n| n.mode));
    }
    Ok(())
}

/// Whether a parent of a path is not a folder in this layer, or is opaque.
fn hidden(to: &Folder, path: &Path) -> io::Result<bool> {
    for folder in ancestors(path.parent().unwrap_or(Path::new(""))) {
        match to.node(&folder)? {
            Some(node) if node.kind != Kind::Folder => return Ok(true),
            Some(_) if to.opaque(&folder)? => return Ok(true),
            Some(_) => {}
            None => return Ok(false),
        }
    }
    Ok(false)
}

fn file(
    after: &Stack<'_>,
    path: &Path,
    mode: u32,
    to: &Folder,
    bytes: Bytes,
    owner: Option<(u32, u32)>,
) -> io::Result<()> {
    if bytes == Bytes::Shared
        && let Some((_, layer)) = after.find(path)?
    {
        return to.hard_link(path, layer.folder, path);
    }
    let mut source = after.file(path)?;
    let times = source.metadata()?.modified()?;
    let mut target = to.create(path)?;
    io::copy(&mut source, &mut target)?;
    target.set_modified(times)?;
    if let Some(owner) = owner {
        to.own(path, owner)?;
    }
    to.set_mode(path, mode)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::changes;
    use crate::stack::Layer;

    type Tree = Vec<(PathBuf, Kind, u32, String)>;

    fn shown(stack: &Stack<'_>) -> Tree {
        let text = |path: &Path, kind| match kind {
            Kind::File => io::read_to_string(stack.file(path).unwrap()).unwrap(),
            Kind::Link => stack.link(path).unwrap().display().to_string(),
            _ => String::new(),
        };
        let all = stack.walk(Path::new(""), 999).unwrap();
        all.into_iter()
            .map(|(p, n)| {
                let t = text(&p, n.kind);
                (p, n.kind, n.mode, t)
            })
            .collect()
    }

    /// One step of a program, on a view that is written as a new layer after each step.
    #[derive(Clone, Debug)]
    enum Step {
        Write(usize),
        Remove(usize),
        Folder(usize),
        Link(usize),
        Mode(usize),
    }

    const PATHS: [&str; 9] = ["a", "d", "d/x", "d/y", "d/e", "d/e/f", "g", "g/h", "g/h/i"];

    /// Applies a step to an ordinary folder, as a program would see it.
    fn apply(step: &Step, folder: &Folder, at: &Path) {
        use std::os::unix::fs::PermissionsExt;
        let (Step::Write(n) | Step::Remove(n) | Step::Folder(n) | Step::Link(n) | Step::Mode(n)) = step;
        let path = Path::new(PATHS[*n % PATHS.len()]);
        match step {
            Step::Write(n) => {
                let _ = std::fs::write(at.join(path), format!("written {n}"));
            }
            Step::Remove(_) => folder.remove_all(path).unwrap_or_default(),
            Step::Folder(_) => folder.make(path, 0o755).unwrap_or_default(),
            Step::Link(_) => folder.make_link(path, Path::new("nowhere")).unwrap_or_default(),
            Step::Mode(_) => {
                if folder.node(path).unwrap().is_some_and(|n| n.kind == Kind::File) {
                    std::fs::set_permissions(at.join(path), PermissionsExt::from_mode(0o755)).unwrap();
                }
            }
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { cases: 64, ..Default::default() })]

        /// Whatever a program does, its changes as layers over the original show the tree that it left, both
        /// as separate layers and merged.
        #[test]
        fn layers_show_tree_left_by_program(
            runs in proptest::collection::vec(
                proptest::collection::vec((0..5u8, 0..9usize), 1..12), 1..4,
            ),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let open = |name: &str| {
                std::fs::create_dir_all(dir.path().join(name)).unwrap();
                Folder::open(&dir.path().join(name)).unwrap()
            };
            let (base, live) = (open("base"), open("live"));
            for file in ["a", "d/x", "d/e/f", "g/h/i"] {
                for side in ["base", "live"] {
                    let path = dir.path().join(side).join(file);
                    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                    std::fs::write(path, "original").unwrap();
                }
            }
            let mut layers: Vec<Folder> = Vec::new();
            for (number, run) in runs.iter().enumerate() {
                for (kind, n) in run {
                    let step = match kind {
                        0 => Step::Write(*n), 1 => Step::Remove(*n), 2 => Step::Folder(*n),
                        3 => Step::Link(*n), _ => Step::Mode(*n),
                    };
                    apply(&step, &live, &dir.path().join("live"));
                }
                let written = open(&format!("layer{number}"));
                {
                    let before = Stack::new(layers.iter().rev().map(Layer::over), &base);
                    let whole = Layer { folder: &live, whole: true };
                    let found = changes(&before, &[whole], &[], 999).unwrap();
                    write(&before, &before.with(whole), &found, &written, Bytes::Copied, None).unwrap();
                }
                layers.push(written);
                let after = Stack::new(layers.iter().rev().map(Layer::over), &base);
                proptest::prop_assert_eq!(shown(&after), shown(&Stack::new([], &live)));
            }
            let bottom = Stack::new([], &base);
            let all: Vec<_> = layers.iter().rev().map(Layer::over).collect();
            let found = changes(&bottom, &all, &[], 999).unwrap();
            let merged = open("merged");
            let after = Stack::new(all, &base);
            write(&bottom, &after, &found, &merged, Bytes::Shared, None).unwrap();
            proptest::prop_assert_eq!(shown(&Stack::new([Layer::over(&merged)], &base)), shown(&after));
        }
    }
}
