//! Directory hash of a project: `dirHash` of in-toto's digest set, which is Go's `h1` (golang.org/x/mod/sumdb/dirhash) in hexadecimal digits.
//!
//! Each regular file is one line `SHA256  PATH\n`, sorted by path; the hash is SHA-256 of all lines. A symbolic link is a line with `link:` and the
//! SHA-256 of its target, and a pipe, a socket or a device one with `other`, which no file has. `.git` folders, empty folders and permissions
//! are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use hotcell_workspace::{Kind, Stack};
use sha2::{Digest, Sha256};

use crate::nofollow;
use crate::statement::Subject;

/// Maximum number of files.
pub const MAX_FILES: usize = 1_000_000;
/// Maximum depth of folders.
pub const MAX_DEPTH: usize = 128;

/// Why a folder has no hash.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// An entry cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// Path below the folder.
        path: String,
        /// Reason.
        source: io::Error,
    },
    /// A name that a line cannot hold.
    #[error("{0:?} has a newline or is not UTF-8 in its name, which a directory hash cannot hold")]
    Name(String),
    /// Too many files or too deep.
    #[error("more than {MAX_FILES} files, or folders deeper than {MAX_DEPTH}")]
    TooLarge,
}

/// Subject for a folder, by its directory hash. `except` are files and folders that are left out, such as the receipt itself: paths of the host, which
/// need not be there or below the folder.
///
/// # Errors
/// [`TreeError`] when something cannot be read or the folder is too large.
pub fn subject(name: &str, folder: &Path, except: &[&Path]) -> Result<Subject, TreeError> {
    let io = |source| TreeError::Io { path: folder.display().to_string(), source };
    let dir = Dir::open_ambient_dir(folder, ambient_authority()).map_err(io)?;
    let except: BTreeSet<String> = except.iter().filter_map(|path| below(folder, path)).collect();
    let mut files = BTreeMap::new();
    walk(&dir, "", 0, &except, &mut files)?;
    Ok(of_files(name, &files))
}

/// Subject for a workspace with its changes, by the directory hash of the files that a program sees there.
///
/// # Errors
/// [`TreeError`] when something cannot be read or the workspace is too large.
pub fn of_view(name: &str, view: &Stack<'_>) -> Result<Subject, TreeError> {
    let path = ".".to_owned();
    let top = |source| TreeError::Io { path, source };
    let mut files = BTreeMap::new();
    for (path, node) in view.walk(Path::new(""), MAX_FILES).map_err(top)? {
        let in_git =
            path.parent().is_some_and(|above| above.components().any(|part| part.as_os_str() == ".git"));
        if in_git || node.kind == Kind::Folder {
            continue;
        }
        let Some(text) = path.to_str().filter(|text| !text.contains('\n')) else {
            return Err(TreeError::Name(path.to_string_lossy().into_owned()));
        };
        let io = |source| TreeError::Io { path: text.to_owned(), source };
        let digest = match node.kind {
            Kind::Link => of_link(&view.link(&path).map_err(io)?),
            Kind::File => of_reader(view.file(&path).map_err(io)?).map_err(io)?,
            _ => OTHER.to_owned(),
        };
        files.insert(text.to_owned(), digest);
    }
    Ok(of_files(name, &files))
}

/// Stands in a line for an entry without contents.
const OTHER: &str = "other";

fn of_link(target: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    format!("link:{}", hex::encode(Sha256::digest(target.as_os_str().as_bytes())))
}

fn of_files(name: &str, files: &BTreeMap<String, String>) -> Subject {
    let mut all = Sha256::new();
    for (path, digest) in files {
        all.update(format!("{digest}  {path}\n"));
    }
    Subject::with(name, "dirHash", hex::encode(all.finalize()))
}

/// Whether a path of the host leads to an entry below a folder.
#[must_use]
pub fn is_below(folder: &Path, path: &Path) -> bool {
    below(folder, path).is_some()
}

/// A path relative to a folder, where it is below it. Its last part need not be there, and is not followed.
pub(crate) fn below(folder: &Path, path: &Path) -> Option<String> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let whole = parent.canonicalize().ok()?.join(path.file_name()?);
    Some(whole.strip_prefix(folder.canonicalize().ok()?).ok()?.to_str()?.to_owned())
}

fn walk(
    dir: &Dir,
    above: &str,
    depth: usize,
    except: &BTreeSet<String>,
    files: &mut BTreeMap<String, String>,
) -> Result<(), TreeError> {
    if depth > MAX_DEPTH {
        return Err(TreeError::TooLarge);
    }
    let shown = |above: &str| if above.is_empty() { ".".to_owned() } else { above.to_owned() };
    for entry in dir.entries().map_err(|source| TreeError::Io { path: shown(above), source })? {
        let entry = entry.map_err(|source| TreeError::Io { path: shown(above), source })?;
        let name = entry.file_name();
        let lossy = || format!("{above}{}", name.to_string_lossy());
        let Some(text) = name.to_str().filter(|text| !text.contains('\n')) else {
            return Err(TreeError::Name(lossy()));
        };
        let io = |source| TreeError::Io { path: lossy(), source };
        if except.contains(&format!("{above}{text}")) {
            continue;
        }
        let kind = entry.file_type().map_err(io)?;
        if kind.is_dir() {
            if text != ".git" {
                let below = nofollow::folder(dir, text).map_err(io)?;
                walk(&below, &format!("{above}{text}/"), depth + 1, except, files)?;
            }
            continue;
        }
        let digest = if kind.is_symlink() {
            of_link(&dir.read_link_contents(text).map_err(io)?)
        } else if kind.is_file() {
            of_file(dir, text).map_err(io)?
        } else {
            OTHER.to_owned()
        };
        if files.len() >= MAX_FILES {
            return Err(TreeError::TooLarge);
        }
        files.insert(format!("{above}{text}"), digest);
    }
    Ok(())
}

/// Digest of a regular file. An entry that became something else meanwhile is an error, never followed or waited for.
fn of_file(dir: &Dir, name: &str) -> io::Result<String> {
    of_reader(nofollow::file(dir, name)?)
}

fn of_reader(mut file: impl Read) -> io::Result<String> {
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex::encode(digest.finalize())),
            length => digest.update(&buffer[..length]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(folder: &Path) -> String {
        subject("p", folder, &[]).unwrap().digest["dirHash"].clone()
    }

    /// The example of Go's own test of `Hash1`: two files named `abc` and `xyz`, each with the contents "hello".
    #[test]
    fn hash_is_that_of_go() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("xyz"), "hello").unwrap();
        std::fs::write(folder.path().join("abc"), "hello").unwrap();
        let line = |name: &str| format!("{}  {name}\n", crate::digest::sha256(b"hello"));
        assert_eq!(hash(folder.path()), crate::digest::sha256((line("abc") + &line("xyz")).as_bytes()));
    }

    #[test]
    fn links_and_pipes_are_told_from_files() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("a"), "/etc/passwd").unwrap();
        let file = hash(folder.path());
        std::fs::remove_file(at("a")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", at("a")).unwrap();
        let link = hash(folder.path());
        std::fs::remove_file(at("a")).unwrap();
        make_fifo(&at("a"));
        let pipe = hash(folder.path());
        std::fs::remove_file(at("a")).unwrap();
        let all = std::collections::BTreeSet::from([file, link, pipe, hash(folder.path())]);
        assert_eq!(all.len(), 4);
    }

    fn make_fifo(path: &Path) {
        use rustix::fs::{CWD, FileType, Mode};
        rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    }

    #[test]
    fn hash_covers_contents_names_and_links_only() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("a/b")).unwrap();
        std::fs::write(at("a/b/c"), "1").unwrap();
        let first = hash(folder.path());
        std::fs::create_dir_all(at(".git/objects")).unwrap();
        std::fs::write(at(".git/config"), "x").unwrap();
        std::fs::create_dir(at("empty")).unwrap();
        assert_eq!(hash(folder.path()), first);
        std::os::unix::fs::symlink("/etc/passwd", at("link")).unwrap();
        let linked = hash(folder.path());
        assert_ne!(linked, first);
        std::fs::remove_file(at("link")).unwrap();
        std::os::unix::fs::symlink("/etc/shadow", at("link")).unwrap();
        assert_ne!(hash(folder.path()), linked);
        std::fs::rename(at("a/b/c"), at("a/b/d")).unwrap();
        std::fs::remove_file(at("link")).unwrap();
        assert_ne!(hash(folder.path()), first);
    }

    #[test]
    fn exceptions_are_left_out_wherever_they_are_named_from() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("a")).unwrap();
        std::fs::write(at("a/b"), "1").unwrap();
        let first = hash(folder.path());
        std::fs::create_dir(at("out")).unwrap();
        std::fs::write(at("out/x"), "2").unwrap();
        std::fs::write(at("r.json"), "3").unwrap();
        let of = |except: &[&Path]| subject("p", folder.path(), except).unwrap().digest["dirHash"].clone();
        assert_eq!(of(&[&at("out"), &at("a/../r.json"), Path::new("/elsewhere"), &at("gone")]), first);
        assert_ne!(of(&[&at("out")]), first);
        assert_ne!(of(&[&at("out"), &at("r.json"), &at("a/b")]), first);
    }

    #[test]
    fn names_with_newlines_and_too_deep_folders_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a\nb"), "").unwrap();
        assert!(matches!(subject("p", folder.path(), &[]), Err(TreeError::Name(_))));
        let deep = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(deep.path().join("d/".repeat(MAX_DEPTH + 1))).unwrap();
        assert!(matches!(subject("p", deep.path(), &[]), Err(TreeError::TooLarge)));
    }
}
