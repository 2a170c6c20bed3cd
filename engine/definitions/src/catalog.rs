//! The definitions that there are: examples of hotcell's own, and the files of the operator's folder.

use std::io::Read;
use std::path::{Path, PathBuf};

use hotcell_sandbox::layer::likely;
use hotcell_sandbox::profile::FileError;
use hotcell_state::report::{Code, ErrorReport, printable};

use crate::definition::{Definition, MAX_FILE_BYTES};
use crate::verb::Wanted;

/// Examples that come with hotcell.
const EXAMPLES: [(&str, &str); 3] = [
    ("review.analyze.toml", include_str!("../examples/review.analyze.toml")),
    ("file.check.toml", include_str!("../examples/file.check.toml")),
    ("page.check.toml", include_str!("../examples/page.check.toml")),
];
/// Maximum number of files in the folder.
pub const MAX_FILES: usize = 64;

/// Origin of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Comes with hotcell.
    Example,
    /// A file of the operator's folder.
    File(PathBuf),
}

/// A definition with its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Definition.
    pub definition: Definition,
    /// Origin.
    pub source: Source,
}

/// All definitions, in the order of their names and versions, and files that cannot be used.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// Definitions.
    pub entries: Vec<Entry>,
    /// Files that cannot be used, with the reasons. The others can.
    pub broken: Vec<FileError>,
}

impl Catalog {
    /// Reads the examples and the `.toml` files of a folder. A file takes the place of an example of the same name and version. Blocks.
    #[must_use]
    pub fn read(folder: Option<&Path>) -> Self {
        let mut catalog = Self::default();
        for (name, text) in EXAMPLES {
            match Definition::parse(text, Path::new(name)) {
                Ok(definition) => catalog.entries.push(Entry { definition, source: Source::Example }),
                Err(error) => catalog.broken.push(error),
            }
        }
        let files = folder.map_or(Ok(Vec::new()), files);
        for path in files.unwrap_or_else(|error| {
            catalog.broken.push(error);
            Vec::new()
        }) {
            match read(&path) {
                Ok(definition) => catalog.add(definition, path),
                Err(error) => catalog.broken.push(error),
            }
        }
        catalog.entries.sort_by(|a, b| a.definition.verb.cmp(&b.definition.verb));
        catalog
    }

    fn add(&mut self, definition: Definition, path: PathBuf) {
        let same = |entry: &&mut Entry| {
            entry.definition.verb == definition.verb
                || entry.definition.verb.tool_name() == definition.verb.tool_name()
        };
        match self.entries.iter_mut().find(same) {
            Some(Entry { source: Source::File(first), .. }) => {
                let why = format!("{} is in {} already", definition.verb, first.display());
                self.broken.push(FileError::of_file(&path, why));
            }
            Some(entry) => *entry = Entry { definition, source: Source::File(path) },
            None => self.entries.push(Entry { definition, source: Source::File(path) }),
        }
    }

    /// A definition by its name, with a version or the newest.
    ///
    /// # Errors
    /// [`ErrorReport`] with the nearest name, or the versions that there are.
    pub fn find(&self, typed: &str) -> Result<&Entry, ErrorReport> {
        let bad = |message: String| ErrorReport::new(Code::UnknownName, message).field("VERB");
        let wanted: Wanted = typed.parse().map_err(|why: String| bad(printable(&why)))?;
        let same = self.entries.iter().filter(|entry| entry.definition.verb.name == wanted.name);
        let versions: Vec<&Entry> = same.collect();
        let found = match wanted.version {
            None => versions.last().copied(),
            Some(version) => versions.iter().copied().find(|entry| entry.definition.verb.version == version),
        };
        if let Some(found) = found {
            return Ok(found);
        }
        let report = bad(format!("Verb not found: {}", printable(typed)));
        if let Some(newest) = versions.last() {
            return Err(report.hint(format!("the newest version is {}", newest.definition.verb)));
        }
        let names: Vec<String> = self.entries.iter().map(|entry| entry.definition.verb.to_string()).collect();
        let near = match likely(&wanted.name, names.iter().map(String::as_str)) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("there are {}", names.join(", ")),
        };
        let mark = if near.ends_with('?') { "" } else { ";" };
        let broken = match self.broken.len() {
            0 => String::new(),
            1 => format!("{mark} a file cannot be used: {}", self.broken[0]),
            more => format!("{mark} {more} files cannot be used: hotcell agent definitions names them"),
        };
        Err(report.hint(format!("{near}{broken}")))
    }
}

/// The `.toml` files of a folder, sorted.
fn files(folder: &Path) -> Result<Vec<PathBuf>, FileError> {
    let failed =
        |e: std::io::Error| FileError::of_file(folder, format!("the folder of agents cannot be read: {e}"));
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|end| end == "toml") {
            all.push(path);
        }
    }
    if all.len() > MAX_FILES {
        return Err(FileError::of_file(
            folder,
            format!("the folder of agents has more than {MAX_FILES} files"),
        ));
    }
    all.sort();
    Ok(all)
}

fn read(path: &Path) -> Result<Definition, FileError> {
    let failed = |e: std::io::Error| FileError::of_file(path, format!("cannot be read: {e}"));
    // A pipe or a device would be waited for.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(FileError::of_file(path, "is no file"));
    }
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(MAX_FILE_BYTES as u64 + 1).read_to_string(&mut text).map_err(failed)?;
    Definition::parse(&text, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "name = \"a.b\"\nversion = 1\ndescription = \"x\"\n[tools.t]\ntool = \"p_f\"\n[returns]\ntype = \"object\"\n";

    #[test]
    fn examples_are_valid() {
        let catalog = Catalog::read(None);
        assert!(catalog.broken.is_empty(), "{:?}", catalog.broken);
        let names: Vec<String> = catalog.entries.iter().map(|entry| entry.definition.signature()).collect();
        assert_eq!(
            names,
            ["file.check@v1(path)", "page.check@v1(url)", "review.analyze@v1(pr_number, repo, path?)"]
        );
    }

    #[test]
    fn folder_is_read_and_broken_files_named() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("1.toml", FILE);
        write("2.toml", &FILE.replace("version = 1", "version = 2"));
        write("3.toml", FILE);
        write("4.toml", &FILE.replace("a.b", "file.check"));
        write("5.toml", "name = 1");
        write("notes.md", "x");
        std::fs::create_dir(folder.path().join("6.toml")).unwrap();
        let catalog = Catalog::read(Some(folder.path()));
        assert_eq!(catalog.entries.len(), 5);
        assert_eq!(catalog.find("a.b").unwrap().definition.verb.version, 2);
        assert_eq!(catalog.find("a.b@v1").unwrap().source, Source::File(folder.path().join("1.toml")));
        assert_ne!(catalog.find("file.check@v1").unwrap().source, Source::Example);
        assert_eq!(catalog.broken.len(), 3, "{:?}", catalog.broken);
        assert!(catalog.broken[0].message.contains("is in"), "{:?}", catalog.broken);
        for (name, word) in [
            ("revew.analyze@v1", "Verb not found: revew.analyze@v1; did you mean review.analyze@v1?"),
            ("zzzzzzzzzzzzzzz", "Verb not found: zzzzzzzzzzzzzzz; there are a.b@v1, a.b@v2, "),
            ("a.b@v3", "the newest version is a.b@v2"),
            ("a.b@3", "no version like @v1"),
        ] {
            let error = catalog.find(name).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
        let missing = Catalog::read(Some(&folder.path().join("none")));
        assert!(missing.broken.len() == 1 && missing.entries.len() == 3);
    }
}
