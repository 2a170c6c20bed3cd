//! Git tree of a project: the object id of its tracked files as they are in the folder, by git's own format
//! (<https://git-scm.com/docs/gitformat-index>, <https://git-scm.com/book/en/v2/Git-Internals-Git-Objects>). No program of git is run: a repository's
//! settings may name others.
//!
//! The index says which files are tracked; their bytes are read from the folder. For a clean checkout without conversions (line ends, Git LFS) the id is
//! that of `git rev-parse HEAD^{tree}`. A folder with other entries has no such id: a program reads them too, and a result would be said of a
//! tree that did not give it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, MetadataExt};
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, digest};

use crate::nofollow;
use crate::statement::Subject;
use crate::tree::{MAX_DEPTH, MAX_FILES, TreeError, below};

/// Algorithm in in-toto's digest set.
pub const ALGORITHM: &str = "gitTree";
/// Maximum size of an index, in bytes. One of a million files has about 100 MB.
const MAX_INDEX_BYTES: u64 = 256 << 20;
/// Length of an object id in bytes. Repositories with SHA-256 are not read.
const ID: usize = 20;
/// Length of an entry of the index before its name, in bytes.
const FIXED: usize = 62;

type Id = [u8; ID];

/// State of a folder by git's index.
#[derive(Debug, PartialEq)]
pub enum GitTree {
    /// The subject by the tree of its tracked files.
    Subject(Subject),
    /// A path below the folder that is not tracked.
    Untracked(String),
    /// The folder is not the top of a repository, or the index has what no tree of these files can hold: conflicts, submodules, sparse or
    /// split contents.
    None,
}

/// Subject for a folder that is the top of a repository and has tracked files alone. `except` are files that are left out, such as the receipt
/// itself: paths of the host, which need not be there or below the folder.
///
/// # Errors
/// [`TreeError`] when a folder or a tracked file cannot be read.
pub fn subject(name: &str, folder: &Path, except: &[&Path]) -> Result<GitTree, TreeError> {
    let at = |path: &str| {
        let path = path.to_owned();
        move |source| TreeError::Io { path, source }
    };
    let dir = Dir::open_ambient_dir(folder, ambient_authority()).map_err(at("."))?;
    let Ok(git) = nofollow::folder(&dir, ".git") else { return Ok(GitTree::None) };
    let Ok(file) = nofollow::file(&git, "index") else { return Ok(GitTree::None) };
    let mut index = Vec::new();
    file.take(MAX_INDEX_BYTES + 1).read_to_end(&mut index).map_err(at(".git/index"))?;
    let Some(tracked) = tracked(&index) else { return Ok(GitTree::None) };
    let except: BTreeSet<String> = except.iter().filter_map(|path| below(folder, path)).collect();
    if let Some(path) = untracked(&dir, &tracked, "", &except)? {
        return Ok(GitTree::Untracked(path));
    }
    let id = tree(&dir, &tracked, "")?.unwrap_or_else(|| object("tree", b""));
    Ok(GitTree::Subject(Subject::with(name, ALGORITHM, hex::encode(id))))
}

/// An entry of the folder that is not tracked, if there is one.
fn untracked(
    dir: &Dir,
    folder: &Folder,
    above: &str,
    except: &BTreeSet<String>,
) -> Result<Option<String>, TreeError> {
    let io = |path: &str| {
        let path = path.to_owned();
        move |source| TreeError::Io { path, source }
    };
    for entry in dir.entries().map_err(io(above))? {
        let entry = entry.map_err(io(above))?;
        let name = entry.file_name();
        let path = format!("{above}{}", name.to_string_lossy());
        if path == ".git" || except.contains(&path) {
            continue;
        }
        let is_folder = entry.file_type().map_err(io(&path))?.is_dir();
        match (name.to_str().and_then(|name| folder.0.get(name)), is_folder) {
            (Some(None), false) => {}
            (Some(Some(below)), true) => {
                let dir = nofollow::folder(dir, name.to_str().unwrap_or_default()).map_err(io(&path))?;
                if let Some(path) = untracked(&dir, below, &format!("{path}/"), except)? {
                    return Ok(Some(path));
                }
            }
            // A file in place of a folder, or the other way round, is not the tracked one.
            _ => return Ok(Some(path)),
        }
    }
    Ok(None)
}

/// Tracked names of one folder.
#[derive(Debug, Default, PartialEq, Eq)]
struct Folder(BTreeMap<String, Option<Folder>>);

/// The tracked files of an index; `None` for one that is damaged, or has more than plain files.
fn tracked(index: &[u8]) -> Option<Folder> {
    let number = |at: usize| Some(u32::from_be_bytes(index.get(at..at + 4)?.try_into().ok()?));
    let end = index.len().checked_sub(ID)?;
    // The checksum is left out with index.skipHash. A repository with SHA-256 has another one.
    let sum = index.get(end..)?;
    if sum != [0; ID] && digest(&SHA1_FOR_LEGACY_USE_ONLY, &index[..end]).as_ref() != sum {
        return None;
    }
    let (version, count) = (number(4)?, usize::try_from(number(8)?).ok()?);
    if !index.starts_with(b"DIRC") || !(2..=4).contains(&version) || count > MAX_FILES {
        return None;
    }
    let (mut top, mut at, mut name) = (Folder::default(), 12, Vec::new());
    for _ in 0..count {
        let begin = at;
        let mode = number(begin + 24)?;
        let flags = u16::from_be_bytes(index.get(begin + 60..begin + 62)?.try_into().ok()?);
        at += FIXED;
        // An extended entry has more flags: a file that is left out of the folder, or not yet added.
        let extended = flags & 0x4000 != 0;
        let stage = flags & 0x3000;
        if extended {
            at += 2;
        }
        if version == 4 {
            let (strip, next) = varint(index, at)?;
            at = next;
            name.truncate(name.len().checked_sub(strip)?);
        } else {
            name.clear();
        }
        let length = index.get(at..end)?.iter().position(|byte| *byte == 0)?;
        name.extend_from_slice(&index[at..at + length]);
        at += length + 1;
        if version != 4 {
            // Entries have a multiple of 8 bytes, with at least the one NUL.
            at = begin + (at - 1 - begin) / 8 * 8 + 8;
        }
        if extended || stage != 0 || !matches!(mode >> 12, 0o10 | 0o12) {
            return None;
        }
        top.add(std::str::from_utf8(&name).ok()?)?;
    }
    // Extensions that a reader must know begin with a small letter: split and sparse indexes.
    while at < end {
        if index.get(at)?.is_ascii_lowercase() {
            return None;
        }
        at = at.checked_add(8)?.checked_add(usize::try_from(number(at + 4)?).ok()?)?;
    }
    (at == end).then_some(top)
}

/// A number of the form of offsets in packs, and the place behind it.
fn varint(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut byte = *bytes.get(at)?;
    let mut value = usize::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        at += 1;
        byte = *bytes.get(at)?;
        value = value.checked_add(1)?.checked_mul(128)? + usize::from(byte & 0x7f);
    }
    Some((value, at + 1))
}

impl Folder {
    /// Adds a path; `None` for one that is not below the folder, or is a file and a folder at once.
    fn add(&mut self, path: &str) -> Option<()> {
        let mut here = self;
        let mut parts = path.split('/').peekable();
        let mut depth = 0;
        while let Some(part) = parts.next() {
            depth += 1;
            if part.is_empty()
                || part == "."
                || part == ".."
                || part.eq_ignore_ascii_case(".git")
                || depth > MAX_DEPTH
            {
                return None;
            }
            if parts.peek().is_none() {
                return here.0.insert(part.to_owned(), None).is_none().then_some(());
            }
            here = here.0.entry(part.to_owned()).or_insert_with(|| Some(Self::default())).as_mut()?;
        }
        None
    }
}

/// Id of a folder's tree; `None` when no tracked file is there.
fn tree(dir: &Dir, folder: &Folder, above: &str) -> Result<Option<Id>, TreeError> {
    let mut entries: Vec<(String, &'static str, Id)> = Vec::new();
    for (name, below) in &folder.0 {
        let path = format!("{above}{name}");
        let there = match below {
            Some(below) => match nofollow::folder(dir, name) {
                Ok(dir) => tree(&dir, below, &format!("{path}/"))?.map(|id| ("40000", id)),
                Err(e) if gone(&e) => None,
                Err(source) => return Err(TreeError::Io { path, source }),
            },
            None => match blob(dir, name) {
                Ok(found) => Some(found),
                Err(e) if gone(&e) => None,
                Err(source) => return Err(TreeError::Io { path, source }),
            },
        };
        if let Some((mode, id)) = there {
            entries.push((name.clone(), mode, id));
        }
    }
    if entries.is_empty() {
        return Ok(None);
    }
    // Git compares names of folders with a slash at their end.
    let key = |(name, mode, _): &(String, &str, Id)| {
        if *mode == "40000" { format!("{name}/").into_bytes() } else { name.clone().into_bytes() }
    };
    entries.sort_by_key(key);
    let mut body = Vec::new();
    for (name, mode, id) in entries {
        body.extend_from_slice(format!("{mode} {name}\0").as_bytes());
        body.extend_from_slice(&id);
    }
    Ok(Some(object("tree", &body)))
}

/// Whether a tracked entry was removed from the folder, or another kind of entry took its place.
fn gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Mode and id of a file or link.
fn blob(dir: &Dir, name: &str) -> io::Result<(&'static str, Id)> {
    use std::os::unix::ffi::OsStrExt;
    let metadata = dir.symlink_metadata(name)?;
    if metadata.is_symlink() {
        return Ok(("120000", object("blob", dir.read_link_contents(name)?.as_os_str().as_bytes())));
    }
    if metadata.is_dir() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let file = nofollow::file(dir, name)?;
    let metadata = file.metadata()?;
    let mut sum = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    sum.update(format!("blob {}\0", metadata.len()).as_bytes());
    let (mut buffer, mut left) = (vec![0; 64 * 1024], metadata.len());
    let mut file = file.take(left + 1);
    loop {
        let length = file.read(&mut buffer)?;
        if length == 0 {
            break;
        }
        left = left.checked_sub(length as u64).ok_or_else(|| io::Error::other("it is being written"))?;
        sum.update(&buffer[..length]);
    }
    if left > 0 {
        return Err(io::Error::other("it is being written"));
    }
    let mode = if metadata.mode() & 0o100 == 0 { "100644" } else { "100755" };
    Ok((mode, id(sum.finish().as_ref())))
}

fn object(kind: &str, bytes: &[u8]) -> Id {
    let mut sum = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    sum.update(format!("{kind} {}\0", bytes.len()).as_bytes());
    sum.update(bytes);
    id(sum.finish().as_ref())
}

fn id(digest: &[u8]) -> Id {
    let mut id = [0; ID];
    id.copy_from_slice(digest);
    id
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use proptest::prelude::*;

    use super::*;

    /// An index of version 2 with these names and modes.
    fn index(files: &[(&str, u32, u16)]) -> Vec<u8> {
        let mut bytes = b"DIRC\0\0\0\x02".to_vec();
        bytes.extend(u32::try_from(files.len()).unwrap().to_be_bytes());
        for (name, mode, flags) in files {
            let begin = bytes.len();
            bytes.extend([0; 24]);
            bytes.extend(mode.to_be_bytes());
            bytes.extend([0; 32]);
            bytes.extend((flags | u16::try_from(name.len()).unwrap()).to_be_bytes());
            bytes.extend(name.as_bytes());
            let padded = begin + (bytes.len() - begin) / 8 * 8 + 8;
            bytes.resize(padded, 0);
        }
        let sum = digest(&SHA1_FOR_LEGACY_USE_ONLY, &bytes);
        bytes.extend(sum.as_ref());
        bytes
    }

    fn project(index: &[u8]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at(".git")).unwrap();
        std::fs::create_dir_all(at("a")).unwrap();
        std::fs::write(at(".git/index"), index).unwrap();
        std::fs::write(at("a/x.sh"), "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(at("a/x.sh"), PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::write(at("a.txt"), "hello\n").unwrap();
        std::os::unix::fs::symlink("a.txt", at("link")).unwrap();
        folder
    }

    fn of(folder: &Path) -> Option<String> {
        match subject("p", folder, &[]).unwrap() {
            GitTree::Subject(subject) => Some(subject.digest[ALGORITHM].clone()),
            GitTree::Untracked(_) | GitTree::None => None,
        }
    }

    const FILES: [(&str, u32, u16); 3] =
        [("a.txt", 0o100_644, 0), ("a/x.sh", 0o100_755, 0), ("link", 0o120_000, 0)];

    /// The id is that of `git add a.txt a/x.sh link && git write-tree` (git 2.47.3).
    #[test]
    fn tree_is_that_of_git() {
        let folder = project(&index(&FILES));
        assert_eq!(of(folder.path()).as_deref(), Some(TREE));
        std::fs::write(folder.path().join("a.txt"), "hello!\n").unwrap();
        assert_ne!(of(folder.path()).as_deref(), Some(TREE));
        std::fs::remove_file(folder.path().join("a.txt")).unwrap();
        assert!(of(folder.path()).is_some_and(|id| id != TREE));
    }

    #[test]
    fn folder_with_other_entries_has_no_tree() {
        let of = |make: fn(&Path), except: &[&str]| {
            let folder = project(&index(&FILES));
            make(folder.path());
            let except: Vec<_> = except.iter().map(|name| folder.path().join(name)).collect();
            let except: Vec<_> = except.iter().map(std::path::PathBuf::as_path).collect();
            subject("p", folder.path(), &except).unwrap()
        };
        let untracked = |path: &str| GitTree::Untracked(path.to_owned());
        assert!(matches!(of(|_| (), &[]), GitTree::Subject(_)));
        let file = |top: &Path| std::fs::write(top.join("a/conftest.py"), "").unwrap();
        assert_eq!(of(file, &[]), untracked("a/conftest.py"));
        assert_eq!(of(file, &["conftest.py"]), untracked("a/conftest.py"));
        assert!(matches!(of(file, &["a/conftest.py"]), GitTree::Subject(_)));
        assert_eq!(of(|top| std::fs::create_dir(top.join("empty")).unwrap(), &[]), untracked("empty"));
        assert_eq!(of(|top| std::os::unix::fs::symlink("/", top.join("b")).unwrap(), &[]), untracked("b"));
        let replaced = |top: &Path| {
            std::fs::remove_file(top.join("a.txt")).unwrap();
            std::fs::create_dir(top.join("a.txt")).unwrap();
        };
        assert_eq!(of(replaced, &[]), untracked("a.txt"));
    }

    const TREE: &str = "0356fbafe9f8756119886475bc524ec25cd932ef";

    #[test]
    fn folders_without_a_plain_index_have_no_tree() {
        for files in [
            [("a.txt", 0o100_644, 0x1000), FILES[1], FILES[2]],
            [("a.txt", 0o100_644, 0x4000), FILES[1], FILES[2]],
            [("a.txt", 0o160_000, 0), FILES[1], FILES[2]],
            [("a", 0o40_000, 0), FILES[0], FILES[2]],
            [("../a.txt", 0o100_644, 0), FILES[1], FILES[2]],
            [(".git/config", 0o100_644, 0), FILES[1], FILES[2]],
            [("a.txt", 0o100_644, 0), ("a.txt", 0o100_644, 0), FILES[2]],
            [("a", 0o100_644, 0), FILES[1], FILES[2]],
        ] {
            let folder = project(&index(&files));
            assert_eq!(of(folder.path()), None, "{files:?}");
        }
        let mut damaged = index(&FILES);
        damaged[40] ^= 1;
        assert_eq!(of(project(&damaged).path()), None);
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(of(folder.path()), None);
        std::fs::write(folder.path().join(".git"), "gitdir: /etc\n").unwrap();
        assert_eq!(of(folder.path()), None);
    }

    #[test]
    fn links_out_of_the_project_are_not_followed() {
        let folder = project(&index(&FILES));
        std::fs::remove_file(folder.path().join("a/x.sh")).unwrap();
        std::fs::remove_dir(folder.path().join("a")).unwrap();
        let other = project(&index(&FILES));
        std::os::unix::fs::symlink(other.path().join("a"), folder.path().join("a")).unwrap();
        assert_eq!(of(folder.path()), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_index_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..400), at in 0..200_usize) {
            tracked(&bytes);
            let mut almost = index(&FILES);
            let at = at % almost.len();
            almost.splice(at..(at + bytes.len() / 8).min(almost.len()), bytes.iter().copied().take(8));
            let end = almost.len().saturating_sub(ID);
            almost[end..].fill(0);
            tracked(&almost);
        }
    }
}
