//! Finds new names that some file system treats as the same as an existing name of another spelling, such as
//! `makefile` beside `Makefile`. Make prefers the new one, a diff shows two separate files, and on a
//! case-insensitive disk one replaces the other.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use crate::protected::folded;
use crate::stack::Stack;

/// Names of the original, by their folded form.
#[derive(Debug)]
pub struct Twins<'s, 'f> {
    before: &'s Stack<'f>,
    after: &'s Stack<'f>,
    known: HashMap<PathBuf, HashMap<String, Vec<OsString>>>,
}

impl<'s, 'f> Twins<'s, 'f> {
    /// Makes a finder that looks into both views.
    #[must_use]
    pub fn new(before: &'s Stack<'f>, after: &'s Stack<'f>) -> Self {
        Self { before, after, known: HashMap::new() }
    }

    /// Path in the original, still there after the changes, that differs only in spelling from a new path or
    /// from a new folder above it. `None` for a name whose spelling merely changed.
    ///
    /// # Errors
    /// When one of the views cannot be read.
    pub fn of(&mut self, path: &Path) -> io::Result<Option<PathBuf>> {
        for inner in path.ancestors() {
            let (Some(folder), Some(name)) = (inner.parent(), inner.file_name()) else { continue };
            if self.before.node(inner)?.is_some() {
                return Ok(None);
            }
            let wanted = folded(&name.to_string_lossy());
            if !self.known.contains_key(folder) {
                self.known.insert(folder.to_owned(), names(self.before, folder)?);
            }
            let others = self.known.get(folder).and_then(|names| names.get(&wanted));
            for other in others.into_iter().flatten().filter(|other| *other != name) {
                let other = folder.join(other);
                if self.before.node(&other)?.is_some() && self.after.node(&other)?.is_some() {
                    return Ok(Some(other));
                }
            }
        }
        Ok(None)
    }
}

/// Names in a folder, by their folded form.
fn names(view: &Stack<'_>, folder: &Path) -> io::Result<HashMap<String, Vec<OsString>>> {
    let mut names: HashMap<String, Vec<OsString>> = HashMap::new();
    for name in view.names(folder)? {
        names.entry(folded(&name.to_string_lossy())).or_default().push(name);
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;
    use crate::stack::Layer;

    /// Twin of the name `new` in an original that has `old`, where the program deletes `deleted`.
    fn twin(new: &str, old: &str, deleted: Option<&str>) -> Option<PathBuf> {
        let [base, upper] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        for (dir, path) in [(&base, old), (&upper, new)] {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        let [base, upper] = [&base, &upper].map(|dir| Folder::open(dir.path()).unwrap());
        if let Some(deleted) = deleted {
            upper.whiteout(Path::new(deleted)).unwrap();
        }
        let before = Stack::new([], &base);
        let after = before.with(Layer::over(&upper));
        Twins::new(&before, &after).of(Path::new(new)).unwrap()
    }

    #[test]
    fn other_spelling_of_existing_name_is_twin() {
        for (new, old, want) in [
            ("makefile", "Makefile", Some("Makefile")),
            ("a/READ\u{200b}ME.md", "a/readme.MD", Some("a/readme.MD")),
            ("SRC/new.py", "src/old.py", Some("src")),
            ("a.py ", "a.py", Some("a.py")),
            ("a/x", "b/X", None),
            ("x", "x", None),
            ("a.py", "a.pyi", None),
            ("src/new.py", "src/old.py", None),
            ("new/Src/x", "src/x", None),
        ] {
            assert_eq!(twin(new, old, None), want.map(PathBuf::from), "{new:?} {old:?}");
        }
        // The spelling changed, and nothing else.
        assert_eq!(twin("Readme.md", "README.md", Some("README.md")), None);
    }

    proptest::proptest! {
        #[test]
        fn respelled_names_are_twins(name in "[a-z]{1,8}(\\.[a-z]{1,3})?", upper in 1u16.., unseen in 0usize..12, deep in 0usize..3) {
            let mut spelt = String::new();
            for (at, c) in name.chars().enumerate() {
                if at == unseen {
                    spelt.push('\u{200d}');
                }
                spelt.push(if upper >> (at % 16) & 1 == 1 { c.to_ascii_uppercase() } else { c });
            }
            proptest::prop_assume!(spelt != name);
            let below = |top: &str| format!("{}{top}", "d/".repeat(deep));
            let (new, old) = (below(&spelt), below(&name));
            proptest::prop_assert_eq!(twin(&new, &old, None), Some(PathBuf::from(old)));
        }
    }
}
