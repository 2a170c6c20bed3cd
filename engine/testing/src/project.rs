//! Reads a project's files from outside: limited in number and size, and never through a link.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path};

use cap_std::fs::Dir;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};

/// Maximum number of files listed.
const MAX_FILES: usize = 20_000;
/// Maximum number of folders opened.
const MAX_FOLDERS: usize = 4_000;
/// Maximum depth.
const MAX_FOLDER_DEPTH: usize = 12;
/// Maximum number of bytes read of a file; the rest is ignored.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Maximum number of test files searched.
const MAX_SEARCHED_FILES: usize = 300;
/// Maximum number of bytes that are searched of one file.
const MAX_SEARCHED_BYTES: usize = 64 << 10;
/// Folders whose files are not the project's own.
const FOREIGN: [&str; 9] =
    ["node_modules", "__pycache__", "target", "build", "dist", "site-packages", "venv", "env", "vendor"];

/// A project as seen by detection. Paths are relative to the project, with slashes.
pub trait Project: std::fmt::Debug {
    /// Files of the project, sorted; without third-party code, and incomplete for a very large project.
    fn files(&self) -> &[String];
    /// The beginning of a file; `None` when it is not a file or cannot be read.
    fn read(&self, path: &str) -> Option<Vec<u8>>;
    /// At most `most` bytes of a file, possibly more than [`Project::read`] returns; otherwise like that.
    fn read_more(&self, path: &str, most: u64) -> Option<Vec<u8>> {
        let _ = most;
        self.read(path)
    }
    /// True when a file or folder with this name exists.
    fn has(&self, path: &str) -> bool;

    /// One line of a file, from 1.
    fn line(&self, path: &str, line: u32) -> Option<String> {
        let bytes = self.read(path)?;
        let line = bytes.split(|b| *b == b'\n').nth(usize::try_from(line).ok()?.checked_sub(1)?)?;
        Some(crate::text::clip(String::from_utf8_lossy(line).trim(), 400))
    }
}

/// Kind of a folder's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// Another kind.
    Other,
}

/// Lists a project's files, sorted, limited, without third-party code; `entries` returns the contents of a
/// folder, whose path is relative to the project and empty for the project itself.
pub fn list(mut entries: impl FnMut(&str) -> Vec<(String, Entry)>) -> Vec<String> {
    let mut files = Vec::new();
    let mut waiting = vec![(String::new(), 0)];
    let mut folders = 0;
    while let Some((folder, depth)) = waiting.pop() {
        folders += 1;
        let below = |name: &str| if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
        let mut found = entries(&folder);
        found.truncate(MAX_FILES);
        if depth > 0 && found.iter().any(|(name, _)| name == "pyvenv.cfg") {
            continue;
        }
        for (name, kind) in found {
            if kind == Entry::File && files.len() < MAX_FILES {
                files.push(below(&name));
            } else if kind == Entry::Folder
                && depth < MAX_FOLDER_DEPTH
                && folders + waiting.len() < MAX_FOLDERS
                && !name.starts_with('.')
                && !FOREIGN.contains(&name.as_str())
            {
                waiting.push((below(&name), depth + 1));
            }
        }
    }
    files.sort();
    files
}

/// First of these files that contains one of these texts in its beginning.
#[must_use]
pub fn first_with(project: &dyn Project, is: impl Fn(&str) -> bool, texts: &[&str]) -> Option<String> {
    let files = project.files().iter().filter(|f| is(f)).take(MAX_SEARCHED_FILES);
    let has = |file: &&String| {
        project.read(file).is_some_and(|bytes| {
            let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_SEARCHED_BYTES)]);
            texts.iter().any(|t| text.contains(t))
        })
    };
    files.into_iter().find(has).cloned()
}

/// A project in a host folder.
#[derive(Debug)]
pub struct ProjectFolder {
    folder: OwnedFd,
    files: Vec<String>,
}

impl ProjectFolder {
    /// Opens a folder and lists it. Links on the way to the folder are followed, links inside are not.
    ///
    /// # Errors
    /// When it is not a readable folder.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        let flags = (OFlag::O_DIRECTORY | OFlag::O_CLOEXEC).bits();
        let folder = File::options().read(true).custom_flags(flags).open(path)?;
        let mut project = Self { folder: folder.into(), files: Vec::new() };
        project.files = list(|folder| project.entries(folder));
        Ok(project)
    }

    fn entries(&self, folder: &str) -> Vec<(String, Entry)> {
        let at = if folder.is_empty() { "." } else { folder };
        let Some(opened) = open_below(&self.folder, Path::new(at), OFlag::O_DIRECTORY) else {
            return Vec::new();
        };
        let Ok(entries) = Dir::from_std_file(opened).entries() else { return Vec::new() };
        let entry = |entry: cap_std::fs::DirEntry| {
            let (kind, name) = (entry.file_type().ok()?, entry.file_name().into_string().ok()?);
            let kind = if kind.is_file() {
                Entry::File
            } else if kind.is_dir() {
                Entry::Folder
            } else {
                Entry::Other
            };
            Some((name, kind))
        };
        entries.flatten().take(MAX_FILES).filter_map(entry).collect()
    }
}

impl Project for ProjectFolder {
    fn files(&self) -> &[String] {
        &self.files
    }

    fn read(&self, path: &str) -> Option<Vec<u8>> {
        self.read_more(path, MAX_FILE_BYTES)
    }

    fn read_more(&self, path: &str, most: u64) -> Option<Vec<u8>> {
        let file = open_below(&self.folder, Path::new(path), OFlag::empty())?;
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    fn has(&self, path: &str) -> bool {
        let path = Path::new(path);
        let inside = path.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
        inside && open_below(&self.folder, path, OFlag::O_PATH).is_some()
    }
}

/// Opens a path below a folder, without following links, and without blocking.
fn open_below(folder: &impl AsFd, path: &Path, flags: OFlag) -> Option<File> {
    let how = OpenHow::new()
        .flags(
            flags
                | OFlag::O_CLOEXEC
                | if flags.contains(OFlag::O_PATH) {
                    OFlag::empty()
                } else {
                    OFlag::O_NONBLOCK | OFlag::O_NOCTTY
                },
        )
        .resolve(
            ResolveFlag::RESOLVE_BENEATH
                | ResolveFlag::RESOLVE_NO_SYMLINKS
                | ResolveFlag::RESOLVE_NO_MAGICLINKS,
        );
    openat2(folder.as_fd(), path, how).ok().map(File::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn project_folder_follows_no_link_out() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "s").unwrap();
        let project = tempfile::tempdir().unwrap();
        let at = |name: &str| project.path().join(name);
        std::fs::create_dir_all(at("tests/deep")).unwrap();
        std::fs::create_dir_all(at(".git")).unwrap();
        std::fs::create_dir_all(at("my-venv/lib")).unwrap();
        for file in
            ["tests/deep/test_a.py", ".git/config", "my-venv/pyvenv.cfg", "my-venv/lib/test_x.py", "b.py"]
        {
            std::fs::write(at(file), "one\n  two\n").unwrap();
        }
        symlink(outside.path(), at("way")).unwrap();
        symlink(outside.path().join("secret"), at("link.py")).unwrap();
        nix::unistd::mkfifo(&at("pipe.py"), nix::sys::stat::Mode::S_IRWXU).unwrap();

        let folder = ProjectFolder::open(project.path()).unwrap();
        assert_eq!(folder.files(), ["b.py", "tests/deep/test_a.py"]);
        assert_eq!(folder.line("b.py", 2).as_deref(), Some("two"));
        for (line, want) in [(0, None), (9, None), (1, Some("one"))] {
            assert_eq!(folder.line("b.py", line).as_deref(), want);
        }
        for path in ["link.py", "way/secret", "pipe.py", "tests", "../x", "/etc/passwd", "nothing"] {
            assert_eq!(folder.read(path), None, "{path}");
        }
        for (path, want) in
            [("b.py", true), ("tests/deep", true), ("way/secret", false), ("/etc", false), ("..", false)]
        {
            assert_eq!(folder.has(path), want, "{path}");
        }
    }
}
