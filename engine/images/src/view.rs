//! View of stacked layers without a mount, enough to find a program. Links are followed within the layers.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs;
use rustix::io::Errno;

use crate::tree::{Kind, Tree, is_opaque, kind};

/// Maximum number of links in the resolution of one path. See `path_resolution(7)`.
const MAX_LINKS: usize = 40;

/// Layers, the topmost first.
pub(crate) struct View {
    layers: Vec<Tree>,
}

impl View {
    pub(crate) fn open(layers: &[PathBuf]) -> io::Result<Self> {
        let open = |path: &PathBuf| Ok(Tree::new(std::fs::File::open(path)?.into()));
        Ok(Self { layers: layers.iter().map(open).collect::<io::Result<_>>()? })
    }

    /// Kind of the entry at a path below the root, with all links followed; `None` when it does not exist.
    pub(crate) fn find(&self, path: &Path) -> io::Result<Option<Kind>> {
        let mut left: VecDeque<OsString> = parts(path);
        let mut at = PathBuf::new();
        let mut links = 0;
        let mut found = Kind::Folder;
        while let Some(part) = left.pop_front() {
            if part == ".." {
                at.pop();
                found = Kind::Folder;
                continue;
            }
            if found != Kind::Folder {
                return Ok(None);
            }
            let Some((kind, layer)) = self.entry(&at, &part)? else { return Ok(None) };
            if kind == Kind::Link {
                links += 1;
                if links > MAX_LINKS {
                    return Ok(None);
                }
                let says = fs::readlinkat(layer.existing(&at)?, &part, Vec::new())?;
                let says = Path::new(OsStr::from_bytes(says.as_bytes())).to_owned();
                if says.is_absolute() {
                    at = PathBuf::new();
                }
                let mut parts = parts(&says);
                parts.append(&mut left);
                left = parts;
            } else {
                at.push(part);
                found = kind;
            }
        }
        Ok(Some(found))
    }

    /// The entry with this name in the topmost layer that decides about it.
    fn entry(&self, folder: &Path, name: &OsStr) -> io::Result<Option<(Kind, &Tree)>> {
        for layer in &self.layers {
            let at = match layer.existing(folder) {
                Ok(at) => at,
                // A missing folder leaves the decision to lower layers, unless a parent is opaque. A link or
                // another entry in its place hides them.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    if hides(layer, folder.parent().unwrap_or(Path::new("")))? {
                        return Ok(None);
                    }
                    continue;
                }
                Err(e) if is(&e, &[Errno::NOTDIR, Errno::LOOP]) => return Ok(None),
                Err(e) => return Err(e),
            };
            match kind(&at, name)? {
                Some(Kind::Whiteout) => return Ok(None),
                Some(kind) => return Ok(Some((kind, layer))),
                None if hides(layer, folder)? => return Ok(None),
                None => {}
            }
        }
        Ok(None)
    }

    /// Entries directly in the root, sorted by name.
    pub(crate) fn top(&self) -> io::Result<BTreeMap<OsString, Kind>> {
        let mut all = BTreeMap::new();
        for layer in &self.layers {
            for entry in fs::Dir::read_from(layer.root())? {
                let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
                if name != "."
                    && name != ".."
                    && !all.contains_key(&name)
                    && let Some(kind) = kind(layer.root(), &name)?
                {
                    all.insert(name, kind);
                }
            }
        }
        all.retain(|_, kind| *kind != Kind::Whiteout);
        Ok(all)
    }
}

fn is(error: &io::Error, which: &[Errno]) -> bool {
    error.raw_os_error().is_some_and(|raw| which.contains(&Errno::from_raw_os_error(raw)))
}

/// Whether a layer hides the entries of lower layers in a folder, by an opaque mark on the folder or a
/// parent. A folder that does not exist in the layer hides nothing.
fn hides(layer: &Tree, folder: &Path) -> io::Result<bool> {
    for folder in folder.ancestors() {
        match layer.existing(folder) {
            Ok(at) if is_opaque(&at)? => return Ok(true),
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) if is(&e, &[Errno::NOTDIR, Errno::LOOP]) => return Ok(true),
            Err(e) => return Err(e),
        }
    }
    Ok(false)
}

fn parts(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a layer: `x/` is a folder, `x!` an opaque one, `-x` a whiteout, `x>y` a link, anything else a
    /// file.
    fn layer(names: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let mut tree = Tree::new(std::fs::File::open(dir.path()).unwrap().into());
        for name in names {
            let (path, says) = name.split_once('>').map_or((*name, None), |(a, b)| (a, Some(b)));
            let path = Path::new(path.trim_start_matches('-').trim_end_matches(['/', '!']));
            let (parent, last) = (path.parent().unwrap(), path.file_name().unwrap());
            match (says, name.starts_with('-')) {
                (Some(says), _) => tree.link(parent, last, says.as_ref(), 0).unwrap(),
                (_, true) => tree.whiteout(parent, last).unwrap(),
                _ if name.ends_with(['/', '!']) => tree.make(parent, last, 0o755).unwrap(),
                _ => drop(tree.create(parent, last).unwrap()),
            }
            if name.ends_with('!') {
                tree.opaque(path).unwrap();
            }
        }
        dir
    }

    #[test]
    fn programs_are_found_within_the_layers() {
        type Row<'a> = (&'a [&'a str], &'a [&'a str], &'a str, Option<Kind>);
        let rows: [Row<'_>; 17] = [
            (&["bin>usr/bin", "usr/bin/sh"], &[], "bin/sh", Some(Kind::File)),
            (&["usr/bin/sh"], &["-usr/bin/sh"], "usr/bin/sh", None),
            (&["usr/bin/sh"], &["-usr"], "usr/bin/sh", None),
            (&["usr/bin/sh"], &["usr!"], "usr/bin/sh", None),
            (&["usr/bin/sh"], &["usr/bin!", "usr/bin/x"], "usr/bin/sh", None),
            (&["usr/bin/sh"], &["usr/bin/x"], "usr/bin/sh", Some(Kind::File)),
            (&["usr/bin/sh"], &["usr/lib!"], "usr/bin/sh", Some(Kind::File)),
            (&["usr/bin/sh"], &["usr"], "usr/bin/sh", None),
            (&["usr/bin/python3.9"], &["usr/bin/python3>python3.9"], "usr/bin/python3", Some(Kind::File)),
            (&["opt/x"], &["bin/x>/opt/x"], "bin/x", Some(Kind::File)),
            (&["opt/x"], &["bin/x>../../../../opt/x"], "bin/x", Some(Kind::File)),
            (&[], &["bin/passwd>/etc/passwd"], "bin/passwd", None),
            (&[], &["a>b", "b>a"], "a", None),
            (&[], &["a>."], "a/a/a", Some(Kind::Folder)),
            (&["a/x"], &["a>b", "b/y"], "a/x", None),
            (&["a/x"], &["a>b", "b/y"], "a/y", Some(Kind::File)),
            (&["file"], &[], "file/..", Some(Kind::Folder)),
        ];
        for (below, above, path, want) in rows {
            let (below_dir, above_dir) = (layer(below), layer(above));
            let view = View::open(&[above_dir.path().into(), below_dir.path().into()]).unwrap();
            assert_eq!(view.find(Path::new(path)).unwrap(), want, "{below:?} {above:?} {path}");
        }
    }

    #[test]
    fn image_root_is_listed_through_layers() {
        let (below, above) = (layer(&["usr/", "old", "bin>usr/bin", "etc/"]), layer(&["-old", "new", "etc"]));
        let view = View::open(&[above.path().into(), below.path().into()]).unwrap();
        let want = [("bin", Kind::Link), ("etc", Kind::File), ("new", Kind::File), ("usr", Kind::Folder)];
        assert_eq!(view.top().unwrap(), want.into_iter().map(|(n, k)| (n.into(), k)).collect());
    }
}
