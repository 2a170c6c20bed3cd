//! The project as a model is shown it: names, sources, and the texts that an answer is applied to. Links are never followed.

use std::io::{self, Read};
use std::path::Path;

use hotcell_workspace::{Change, Kind, Stack};
use sha2::{Digest, Sha256};

use crate::edit::{Files, MAX_FILE_BYTES};
use crate::paths::{self, BadPath};

/// Maximum number of files that are listed.
const MAX_LISTED: usize = 5000;
/// Maximum size of a file that is shown to a model.
const MAX_SHOWN_BYTES: u64 = 64 * 1024;
/// Folders that hold no sources of the project's own.
const OTHERS: [&str; 12] = [
    "node_modules",
    "target",
    "venv",
    "env",
    "__pycache__",
    "dist",
    "build",
    "vendor",
    "site-packages",
    "coverage",
    "out",
    "bower_components",
];
/// Ends of names of files with text that is not code.
const NO_CODE: [&str; 22] = [
    "md", "rst", "txt", "lock", "json", "yaml", "yml", "toml", "ini", "cfg", "xml", "csv", "svg", "html",
    "css", "sum", "mod", "log", "license", "sql", "env", "in",
];

/// A file in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Path below the project.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// A test, or what decides how tests run.
    pub is_test: bool,
}

impl Listed {
    /// Tells if it looks like code that a model may change.
    #[must_use]
    pub fn is_code(&self) -> bool {
        let end = Path::new(&self.path).extension().and_then(|end| end.to_str()).unwrap_or_default();
        !self.is_test && !end.is_empty() && !NO_CODE.contains(&end.to_ascii_lowercase().as_str())
    }
}

/// Plain files of the view whose paths an answer could name, the first ones by path.
///
/// # Errors
/// When the view cannot be read.
pub fn list(view: &Stack<'_>) -> io::Result<Vec<Listed>> {
    let mut all = Vec::new();
    let mut folders = vec![std::path::PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for (path, node) in view.list(&folder)? {
            let Some(name) = path.to_str() else { continue };
            let last = name.rsplit('/').next().unwrap_or(name);
            match node.kind {
                Kind::Folder if !OTHERS.contains(&last) && !last.starts_with('.') => folders.push(path),
                Kind::File if paths::check(name).is_ok() || paths::is_test(name) => {
                    all.push(Listed {
                        path: name.to_owned(),
                        bytes: node.bytes,
                        is_test: paths::is_test(name),
                    });
                }
                _ => {}
            }
            if all.len() >= MAX_LISTED {
                return Ok(all);
            }
        }
    }
    all.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(all)
}

/// Text of a file that is small enough to be shown.
#[must_use]
pub fn shown(view: &Stack<'_>, file: &Listed) -> Option<String> {
    if file.bytes > MAX_SHOWN_BYTES {
        return None;
    }
    read(view, &file.path).ok().flatten()
}

/// Text of a plain file; `None` when there is nothing.
fn read(view: &Stack<'_>, path: &str) -> Result<Option<String>, BadPath> {
    let no_file = || BadPath::NoFile(path.to_owned());
    let whole = Path::new(path);
    for above in whole.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
        match view.node(above).map_err(|_| no_file())? {
            None => return Ok(None),
            Some(node) if node.kind == Kind::Folder => {}
            Some(_) => return Err(no_file()),
        }
    }
    let Some(node) = view.node(whole).map_err(|_| no_file())? else { return Ok(None) };
    if node.kind != Kind::File || node.bytes > MAX_FILE_BYTES as u64 {
        return Err(no_file());
    }
    let mut bytes = Vec::new();
    let file = view.file(whole).map_err(|_| no_file())?;
    file.take(MAX_FILE_BYTES as u64).read_to_end(&mut bytes).map_err(|_| no_file())?;
    String::from_utf8(bytes).map(Some).map_err(|_| no_file())
}

/// A view as an answer sees it.
#[derive(Debug)]
pub struct Target<'a> {
    /// View of the workspace.
    pub view: &'a Stack<'a>,
    /// File of a code block without a path.
    pub only: Option<String>,
    /// Files that cannot be written, in addition to tests.
    pub frozen: &'a [String],
}

impl Files for Target<'_> {
    fn text(&self, path: &str) -> Result<Option<String>, BadPath> {
        // Above a path, nothing may be a link: checked from the top down.
        read(self.view, path)
    }

    fn only(&self) -> Option<String> {
        self.only.clone()
    }

    fn is_frozen(&self, path: &str) -> bool {
        // File systems that fold case have one file for names that differ in it.
        self.frozen.iter().any(|frozen| frozen.eq_ignore_ascii_case(path))
    }

    /// Code that is made has no given tests but the frozen ones; those that a coder wrote into it do not run.
    fn keeps_inner_tests(&self) -> bool {
        self.frozen.is_empty()
    }
}

/// Digest of files with their content, in the order of `paths`.
///
/// # Errors
/// When a file cannot be read.
pub fn digest_of(view: &Stack<'_>, paths: &[String]) -> io::Result<String> {
    let mut sum = Sha256::new();
    for path in paths {
        let mut bytes = Vec::new();
        view.file(Path::new(path))?.read_to_end(&mut bytes)?;
        add(&mut sum, path, &bytes);
    }
    Ok(hex::encode(&sum.finalize()[..16]))
}

/// Adds a file.
fn add(sum: &mut Sha256, path: &str, bytes: &[u8]) {
    for part in [path.as_bytes(), bytes] {
        sum.update((part.len() as u64).to_le_bytes());
        sum.update(part);
    }
}

/// Digest of texts with their paths; that of files with these texts.
#[must_use]
pub fn digest_of_texts(files: &[(String, String)]) -> String {
    let mut sum = Sha256::new();
    files.iter().for_each(|(path, text)| add(&mut sum, path, text.as_bytes()));
    hex::encode(&sum.finalize()[..16])
}

/// Digest of changes with their content; equal for workspaces with equal files over one source.
///
/// # Errors
/// When a changed file cannot be read.
pub fn digest(view: &Stack<'_>, changes: &[Change]) -> io::Result<String> {
    let mut sum = Sha256::new();
    for change in changes {
        let mut bytes = Vec::new();
        if change.after.is_some_and(|node| node.kind == Kind::File) {
            view.file(&change.path)?.read_to_end(&mut bytes)?;
        }
        add(&mut sum, &change.path.to_string_lossy(), &bytes);
    }
    Ok(hex::encode(&sum.finalize()[..16]))
}
