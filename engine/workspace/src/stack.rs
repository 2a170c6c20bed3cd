//! The view that an overlay shows: layers over a folder, by the rules of the kernel's overlay file system,
//! without a mount. See `Documentation/filesystems/overlayfs.rst`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::folder::{Folder, Kind, Node, ancestors};
use crate::near::Near;

/// One layer of a view.
#[derive(Clone, Copy, Debug)]
pub struct Layer<'a> {
    /// Folder with the layer's entries.
    pub folder: &'a Folder,
    /// The layer is a complete copy: nothing below it is visible.
    pub whole: bool,
}

impl<'a> Layer<'a> {
    /// A layer as an overlay writes it.
    #[must_use]
    pub const fn over(folder: &'a Folder) -> Self {
        Self { folder, whole: false }
    }
}

/// Layers, the topmost first; the last is an ordinary folder.
#[derive(Clone, Debug)]
pub struct Stack<'a> {
    layers: Vec<Layer<'a>>,
}

/// Result of looking up a path in one layer.
enum Seen {
    /// The layer has the entry.
    Here(Node),
    /// The layer hides the entry, here and in lower layers.
    Hidden,
    /// The layer does not decide; the next lower one does.
    Below,
}

impl<'a> Stack<'a> {
    /// A view of layers over a folder.
    #[must_use]
    pub fn new(layers: impl IntoIterator<Item = Layer<'a>>, base: &'a Folder) -> Self {
        Self { layers: layers.into_iter().chain([Layer { folder: base, whole: true }]).collect() }
    }

    /// This view with one more layer on top.
    #[must_use]
    pub fn with(&self, layer: Layer<'a>) -> Self {
        Self { layers: [layer].into_iter().chain(self.layers.iter().copied()).collect() }
    }

    /// The entry at a path, and its layer.
    ///
    /// # Errors
    /// When a layer cannot be read.
    pub fn find(&self, path: &Path) -> io::Result<Option<(Node, Layer<'a>)>> {
        for layer in &self.layers {
            match seen(layer, path)? {
                Seen::Here(node) => return Ok(Some((node, *layer))),
                Seen::Hidden => return Ok(None),
                Seen::Below => {}
            }
        }
        Ok(None)
    }

    /// The entry at a path.
    ///
    /// # Errors
    /// When a layer cannot be read.
    pub fn node(&self, path: &Path) -> io::Result<Option<Node>> {
        Ok(self.find(path)?.map(|(node, _)| node))
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// When the path does not exist, or is not a file.
    pub fn file(&self, path: &Path) -> io::Result<File> {
        match self.find(path)? {
            Some((_, layer)) => layer.folder.file(path),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Lookups of many paths, where those of one folder follow each other.
    pub(crate) fn lookups(&self) -> Lookups<'a> {
        let layer =
            |layer: &Layer<'a>| NearLayer { layer: *layer, near: Near::new(layer.folder), hides: None };
        Lookups { layers: self.layers.iter().map(layer).collect() }
    }

    /// Target of a symbolic link.
    ///
    /// # Errors
    /// When the path does not exist, or is not a link.
    pub fn link(&self, path: &Path) -> io::Result<PathBuf> {
        match self.find(path)? {
            Some((_, layer)) => layer.folder.link(path),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// The entries directly in a folder, sorted by name. A folder that does not exist has no entries.
    ///
    /// # Errors
    /// When a layer cannot be read.
    pub fn list(&self, folder: &Path) -> io::Result<Vec<(PathBuf, Node)>> {
        let mut entries = Vec::new();
        for name in self.names(folder)? {
            let path = folder.join(name);
            if let Some(node) = self.node(&path)? {
                entries.push((path, node));
            }
        }
        Ok(entries)
    }

    /// Names that any layer has directly in a folder, including those that a higher layer hides.
    ///
    /// # Errors
    /// When a layer cannot be read.
    pub(crate) fn names(&self, folder: &Path) -> io::Result<BTreeSet<OsString>> {
        let mut names = BTreeSet::new();
        for layer in &self.layers {
            match seen(layer, folder)? {
                Seen::Here(node) if node.kind == Kind::Folder => {
                    names.extend(layer.folder.names(folder)?);
                    if hides(layer, folder)? {
                        break;
                    }
                }
                Seen::Here(_) | Seen::Hidden => break,
                Seen::Below => {}
            }
        }
        Ok(names)
    }

    /// All entries below a folder, each folder before its content, at most `most` entries.
    ///
    /// # Errors
    /// When a layer cannot be read, or there are more than `most` entries or folders nested deeper than
    /// 256.
    pub fn walk(&self, folder: &Path, most: usize) -> io::Result<Vec<(PathBuf, Node)>> {
        self.walk_but(folder, &[], most)
    }

    /// Like [`Stack::walk`], but leaves out the paths `without` and all below them: these belong to
    /// other file systems that are mounted there.
    ///
    /// # Errors
    /// As [`Stack::walk`].
    pub fn walk_but(
        &self,
        folder: &Path,
        without: &[PathBuf],
        most: usize,
    ) -> io::Result<Vec<(PathBuf, Node)>> {
        let (mut all, mut names, mut lookups) = (Vec::new(), PathBytes::default(), self.lookups());
        // Entries that were found, the next one last.
        let mut found: Vec<(PathBuf, Node)> = Vec::new();
        let mut folder = Some(folder.to_owned());
        loop {
            if let Some(folder) = folder {
                let first = found.len();
                for path in self.names(&folder)?.into_iter().map(|name| folder.join(name)) {
                    if without.contains(&path) {
                        continue;
                    }
                    check_bounds(&path, all.len() + found.len(), most)?;
                    names.add(&path)?;
                    if let Some((node, _)) = lookups.find(&path)? {
                        found.push((path, node));
                    }
                }
                found[first..].reverse();
            }
            let Some((path, node)) = found.pop() else { return Ok(all) };
            folder = (node.kind == Kind::Folder).then(|| path.clone());
            all.push((path, node));
        }
    }
}

/// Finds entries of a view like [`Stack::find`], with the parent folder of the last path open in each layer.
#[derive(Debug)]
pub(crate) struct Lookups<'a> {
    layers: Vec<NearLayer<'a>>,
}

#[derive(Debug)]
struct NearLayer<'a> {
    layer: Layer<'a>,
    near: Near<'a>,
    /// The last folder for which it mattered whether the layer hides what lower layers have in it, and whether it does.
    hides: Option<(PathBuf, bool)>,
}

impl<'a> Lookups<'a> {
    /// The entry at a path, and its layer.
    ///
    /// # Errors
    /// When a layer cannot be read.
    pub(crate) fn find(&mut self, path: &Path) -> io::Result<Option<(Node, Layer<'a>)>> {
        Ok(self.look(path)?.map(|(node, at)| (node, self.layers[at].layer)))
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// When the path does not exist, or is not a file.
    pub(crate) fn file(&mut self, path: &Path) -> io::Result<File> {
        let Some((node, at)) = self.look(path)? else { return Err(io::ErrorKind::NotFound.into()) };
        if node.kind != Kind::File {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
        }
        match self.layers[at].near.at(path)? {
            Some((folder, name)) => folder.seen_file(name),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// The entry at a path, and the index of its layer.
    fn look(&mut self, path: &Path) -> io::Result<Option<(Node, usize)>> {
        for (at, near) in self.layers.iter_mut().enumerate() {
            match near.seen(path)? {
                Seen::Here(node) => return Ok(Some((node, at))),
                Seen::Hidden => return Ok(None),
                Seen::Below => {}
            }
        }
        Ok(None)
    }
}

impl NearLayer<'_> {
    fn seen(&mut self, path: &Path) -> io::Result<Seen> {
        let node = self.near.node(path)?;
        if let Some(seen) = seen_there(&self.layer, node) {
            return Ok(seen);
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        let hides = match &self.hides {
            Some((last, hides)) if last == folder => *hides,
            _ => {
                let hides = hides(&self.layer, folder)?;
                self.hides = Some((folder.to_owned(), hides));
                hides
            }
        };
        Ok(if hides { Seen::Hidden } else { Seen::Below })
    }
}

/// Maximum nesting depth of folders.
pub(crate) const MAX_FOLDER_DEPTH: usize = 256;

/// Maximum length of a path in bytes: `PATH_MAX` of `path_resolution(7)` without its NUL.
const MAX_PATH_BYTES: usize = 4095;

/// Maximum length of all paths of a walk together, in bytes: a million of 134. A program makes long ones from little: it names a folder once, and each path
/// below it repeats the name in the memory of this process.
const MAX_ALL_PATH_BYTES: usize = 128 << 20;

/// Length of the paths that a walk has found.
#[derive(Debug, Default)]
pub(crate) struct PathBytes(usize);

impl PathBytes {
    /// Adds a path.
    ///
    /// # Errors
    /// When all together are too long; the error names the beginning of this one.
    pub(crate) fn add(&mut self, path: &Path) -> io::Result<()> {
        self.0 = self.0.saturating_add(path.as_os_str().len());
        if self.0 <= MAX_ALL_PATH_BYTES {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "the paths of its files have more than {} MiB together; its folder {:?} has some of them",
            MAX_ALL_PATH_BYTES >> 20,
            first_of(path)
        )))
    }
}

/// Beginning of a path.
fn first_of(path: &Path) -> String {
    let first = path.components().next().map(|first| first.as_os_str().to_string_lossy().into_owned());
    first.unwrap_or_default()
}

/// Checks a path of a walk that has found `found` of at most `most` entries before it.
///
/// # Errors
/// When there are too many, or the path is too deep or too long. A program makes such paths folder by folder; the error
/// names the beginning, where they can be removed.
pub(crate) fn check_bounds(path: &Path, found: usize, most: usize) -> io::Result<()> {
    let (depth, bytes) = (path.components().count(), path.as_os_str().len());
    let why = if found >= most {
        return Err(io::Error::other(format!("it has more than {most} files and folders")));
    } else if depth > MAX_FOLDER_DEPTH {
        format!("has folders nested deeper than {MAX_FOLDER_DEPTH}")
    } else if bytes > MAX_PATH_BYTES {
        format!("has paths longer than {MAX_PATH_BYTES} bytes")
    } else {
        return Ok(());
    };
    Err(io::Error::other(format!("its folder {:?} {why}", first_of(path))))
}

fn seen(layer: &Layer<'_>, path: &Path) -> io::Result<Seen> {
    // Fast path: most layers do not have the path, and a present entry needs no check for opaque parents.
    if let Some(seen) = seen_there(layer, layer.folder.node(path)?) {
        return Ok(seen);
    }
    Ok(if hides(layer, path.parent().unwrap_or(Path::new("")))? { Seen::Hidden } else { Seen::Below })
}

/// Result of a look-up that the entry itself decides; `None` where the folders above it do.
fn seen_there(layer: &Layer<'_>, node: Option<Node>) -> Option<Seen> {
    match node {
        Some(node) if node.kind == Kind::Whiteout && !layer.whole => Some(Seen::Hidden),
        Some(node) => Some(Seen::Here(node)),
        None if layer.whole => Some(Seen::Hidden),
        None => None,
    }
}

/// Whether a layer decides about the entry at a path.
///
/// # Errors
/// When the layer cannot be read.
pub(crate) fn speaks(layer: &Layer<'_>, path: &Path) -> io::Result<bool> {
    Ok(!matches!(seen(layer, path)?, Seen::Below))
}

/// Whether a layer hides the entries of lower layers in a folder: by an opaque mark on the folder or a
/// parent, or by an entry in its place that is not a folder.
fn hides(layer: &Layer<'_>, folder: &Path) -> io::Result<bool> {
    if layer.whole {
        return Ok(true);
    }
    for folder in ancestors(folder) {
        match layer.folder.node(&folder)? {
            // Deeper folders do not exist in the layer either.
            None => return Ok(false),
            Some(node) if node.kind != Kind::Folder => return Ok(true),
            Some(_) if layer.folder.opaque(&folder)? => return Ok(true),
            Some(_) => {}
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Makes a layer: `x/` is a folder, `x!` an opaque one, `-x` a whiteout, anything else a file.
    fn layer(names: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        for name in names {
            let path = Path::new(name.trim_start_matches('-').trim_end_matches(['/', '!']));
            folder.make_all(path.parent().unwrap()).unwrap();
            match (name.starts_with('-'), name.ends_with(['/', '!'])) {
                (true, _) => folder.whiteout(path).unwrap(),
                (_, true) => folder.make_all(path).unwrap(),
                _ => drop(folder.create(path).unwrap()),
            }
            if name.ends_with('!') {
                folder.set_opaque(path).unwrap();
            }
        }
        dir
    }

    #[test]
    fn stack_shows_layers_like_overlay() {
        for (base, middle, top, shown) in [
            (&["a", "d/x"][..], &[][..], &["b"][..], &["a", "b", "d", "d/x"][..]),
            (&["a", "d/x"], &["-a"], &[], &["d", "d/x"]),
            (&["a"], &["-a"], &["a"], &["a"]),
            (&["d/x", "d/y"], &["-d/x"], &["d/z"], &["d", "d/y", "d/z"]),
            (&["d/x"], &["d!", "d/y"], &["d/z"], &["d", "d/y", "d/z"]),
            (&["d/x"], &["-d"], &[], &[]),
            // A file hides a folder, and a folder that then replaces the file does not show the first folder
            // again.
            (&["d/x"], &["d"], &["d!", "d/new"], &["d", "d/new"]),
            (&["d/e/x", "d/f"], &["d!", "d/e/"], &["d/g"], &["d", "d/e", "d/g"]),
            (&["d/e/x", "d/e/y"], &["-d/e/x"], &["d/e!"], &["d", "d/e"]),
            (&["d/x"], &[], &["-d/x", "d/"], &["d"]),
        ] {
            let dirs = [base, middle, top].map(layer);
            let [base_folder, middle_folder, top_folder] =
                dirs.each_ref().map(|d| Folder::open(d.path()).unwrap());
            let stack = Stack::new([Layer::over(&top_folder), Layer::over(&middle_folder)], &base_folder);
            let all: Vec<_> =
                stack.walk(Path::new(""), 99).unwrap().into_iter().map(|(path, _)| path).collect();
            let want: Vec<_> = shown.iter().map(PathBuf::from).collect();
            assert_eq!(all, want, "{base:?} {middle:?} {top:?}");
            let mut lookups = stack.lookups();
            for path in [
                "a",
                "b",
                "d",
                "d/e",
                "d/e/x",
                "d/e/y",
                "d/f",
                "d/new",
                "d/x",
                "d/y",
                "d/z",
                "missing/x",
                "a/x",
            ] {
                let path = Path::new(path);
                let found = lookups.find(path).unwrap().map(|(node, _)| node);
                assert_eq!(found, stack.node(path).unwrap(), "{path:?}: {base:?} {middle:?} {top:?}");
                assert_eq!(lookups.file(path).is_ok(), stack.file(path).is_ok(), "{path:?}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// A walk has the entries of all its folders' lists, in the order of paths: `a/x` before `a.b`, as names are compared one by one.
        #[test]
        fn walks_are_in_order_of_paths(
            base in prop::collection::vec("(a|a!|a\\.|b)(/(a|a-|é)){0,3}", 0..12),
            top in prop::collection::vec("(a|a!|a\\.|c)(/(a|b|é)){0,2}", 0..6),
            most in 0..20_usize,
        ) {
            let layers = [&base, &top].map(|paths| {
                let dir = tempfile::tempdir().unwrap();
                let folder = Folder::open(dir.path()).unwrap();
                for path in paths {
                    // A file in the way of a folder stays.
                    let _ = folder.make_all(Path::new(path).parent().unwrap()).and_then(|()| folder.create(Path::new(path)));
                }
                (dir, folder)
            });
            let stack = Stack::new([Layer::over(&layers[1].1)], &layers[0].1);
            let all = stack.walk(Path::new(""), 99).unwrap();
            prop_assert!(all.is_sorted_by(|(a, _), (b, _)| a < b), "{all:?}");
            let mut listed = stack.list(Path::new("")).unwrap();
            let mut at = 0;
            while let Some((path, node)) = listed.get(at).cloned() {
                if node.kind == Kind::Folder {
                    listed.extend(stack.list(&path).unwrap());
                }
                at += 1;
            }
            listed.sort_by(|(a, _), (b, _)| a.cmp(b));
            prop_assert_eq!(&all, &listed);
            prop_assert_eq!(stack.walk(Path::new(""), most).is_ok(), all.len() <= most);
        }
    }

    #[test]
    fn opaque_layer_hides_lower_layers() {
        let (base, top) = (layer(&["a", "d/x"]), layer(&["d/y"]));
        let (base, top) = (Folder::open(base.path()).unwrap(), Folder::open(top.path()).unwrap());
        let stack = Stack::new([Layer { folder: &top, whole: true }], &base);
        let all: Vec<_> = stack.walk(Path::new(""), 99).unwrap().into_iter().map(|(path, _)| path).collect();
        assert_eq!(all, [PathBuf::from("d"), PathBuf::from("d/y")]);
    }

    #[test]
    fn link_has_no_entries_below() {
        let (base, outside) = (layer(&[]), layer(&["secret"]));
        let folder = Folder::open(base.path()).unwrap();
        folder.make_link(Path::new("out"), outside.path()).unwrap();
        let stack = Stack::new([], &folder);
        assert_eq!(stack.node(Path::new("out")).unwrap().unwrap().kind, Kind::Link);
        assert!(stack.node(Path::new("out/secret")).unwrap().is_none());
        assert!(stack.file(Path::new("out/secret")).is_err());
    }
}
