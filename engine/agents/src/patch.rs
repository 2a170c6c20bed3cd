//! Changes of an artifact as they were when it was tested, so that the folder's later changes neither hide nor alter them.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;

use hotcell_workspace::{Change, Folder, Kind, Stack};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Entry of a path before and after a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// Digest before; `None` for a path that was not there.
    pub before: Option<String>,
    /// Digest after; `None` for a path that is removed.
    pub after: Option<String>,
}

/// A diff, with the digests of the paths that it changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Patch {
    /// Unified diff.
    pub diff: String,
    /// Changed paths.
    pub paths: BTreeMap<String, Versions>,
}

impl Patch {
    /// The changes between two views, with a diff of them.
    ///
    /// # Errors
    /// When a changed path cannot be read.
    pub fn of(before: &Stack<'_>, after: &Stack<'_>, changes: &[Change], diff: String) -> io::Result<Self> {
        let versions = |change: &Change| {
            let (before, after) = (entry(before, &change.path)?, entry(after, &change.path)?);
            Ok((change.path.to_string_lossy().into_owned(), Versions { before, after }))
        };
        Ok(Self { diff, paths: changes.iter().map(versions).collect::<io::Result<_>>()? })
    }

    /// Paths of a folder that are neither as they were before the change nor as they are after it.
    ///
    /// # Errors
    /// When the folder or one of the paths cannot be read.
    pub fn conflicts(&self, folder: &Path) -> io::Result<Vec<String>> {
        let folder = Folder::open(folder)?;
        let now = Stack::new([], &folder);
        let mut all = Vec::new();
        for (path, versions) in &self.paths {
            let found = entry(&now, Path::new(path))?;
            if found != versions.before && found != versions.after {
                all.push(path.clone());
            }
        }
        Ok(all)
    }
}

/// Digest of an entry: of a file its contents and whether it is executable, of anything else its kind.
fn entry(view: &Stack<'_>, path: &Path) -> io::Result<Option<String>> {
    let node = match view.node(path) {
        // A parent folder became a file.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => None,
        other => other?,
    };
    let Some(node) = node else { return Ok(None) };
    if node.kind != Kind::File {
        return Ok(Some(format!("{:?}", node.kind).to_lowercase()));
    }
    let mut sum = Sha256::new();
    let (mut file, mut piece) = (view.file(path)?, vec![0; 64 << 10]);
    loop {
        match file.read(&mut piece)? {
            0 => break,
            read => sum.update(&piece[..read]),
        }
    }
    let executable = if node.mode & 0o111 == 0 { "" } else { "+x" };
    Ok(Some(format!("{}{executable}", hex::encode(sum.finalize()))))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn folder_conflicts_unless_it_is_as_before_or_as_after() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let digest = |text: Option<&str>| {
            let _ = std::fs::remove_file(&path);
            text.iter().for_each(|text| std::fs::write(&path, text).unwrap());
            let folder = Folder::open(dir.path()).unwrap();
            entry(&Stack::new([], &folder), Path::new("a")).unwrap()
        };
        let states = [None, Some(""), Some("one"), Some("two")];
        for before in states {
            for after in states {
                let versions = Versions { before: digest(before), after: digest(after) };
                let patch = Patch { diff: String::new(), paths: [("a".to_owned(), versions)].into() };
                for now in states {
                    digest(now);
                    let want: &[&str] = if now == before || now == after { &[] } else { &["a"] };
                    assert_eq!(patch.conflicts(dir.path()).unwrap(), want, "{before:?} {after:?} {now:?}");
                }
            }
        }
    }

    #[test]
    fn digest_tells_kinds_and_executables_apart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let now = || {
            let folder = Folder::open(dir.path()).unwrap();
            entry(&Stack::new([], &folder), Path::new("a")).unwrap()
        };
        std::fs::write(&path, "x").unwrap();
        let plain = now();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let executable = now();
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("x", &path).unwrap();
        let link = now();
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        let all = std::collections::BTreeSet::from([None, plain, executable, link, now()]);
        assert_eq!(all.len(), 5, "{all:?}");
        // Below a file there is nothing.
        std::fs::remove_dir(&path).unwrap();
        std::fs::write(&path, "x").unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        assert_eq!(entry(&Stack::new([], &folder), Path::new("a/b")).unwrap(), None);
    }
}
