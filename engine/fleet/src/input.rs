//! The input of a run on a farm: a folder as it was when it was read, and hotcell's own files beside it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use bazel_remote_apis::build::bazel::remote::execution::v2::{Directory, DirectoryNode, FileNode};
use hotcell_workspace::{Folder, Layer, Stack};
use prost::Message;

use crate::cas::{Blobs, Content};
use crate::digest::Key;
use crate::error::FleetError;
use crate::gather::{Gathered, gather};
use crate::known::{self, Counts, Known};
use crate::tree::Bounds;

/// Folder in the input root with hotcell's own files.
pub const OWN: &str = ".hotcell-farm";

/// A folder that was read once, for any number of runs.
#[derive(Clone, Debug)]
pub struct Input {
    gathered: Gathered,
    folder: Arc<Folder>,
    /// File of the digests that were believed.
    place: Option<PathBuf>,
    counts: Counts,
}

/// A file of hotcell's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnFile {
    /// Path below [`OWN`].
    pub path: PathBuf,
    /// Content.
    pub bytes: Vec<u8>,
    /// It may be executed.
    pub executable: bool,
}

impl Input {
    /// Reads a folder, under layers that hide some of it. Without a folder, the input has nothing.
    ///
    /// # Errors
    /// [`FleetError`] of a wrong request: the folder cannot be read, or has what a farm cannot hold.
    pub fn read(folder: Option<&Path>, layers: &[PathBuf]) -> Result<Self, FleetError> {
        Self::read_again(folder, layers, None)
    }

    /// Like [`Input::read`], with a folder of digests of earlier readings, and the present time. Files that are as they were are not read again.
    ///
    /// # Errors
    /// As [`Input::read`].
    pub fn read_again(
        folder: Option<&Path>,
        layers: &[PathBuf],
        place: Option<(&Path, SystemTime)>,
    ) -> Result<Self, FleetError> {
        let empty = tempfile::tempdir().map_err(|e| FleetError::host(format!("no temporary folder: {e}")))?;
        let path = folder.unwrap_or(empty.path());
        let open = |path: &Path| {
            Folder::open(path).map_err(|e| FleetError::request(format!("{}: {e}", path.display())))
        };
        let opened = open(path)?;
        let layers = layers.iter().map(|layer| open(layer)).collect::<Result<Vec<_>, _>>()?;
        let view = Stack::new(layers.iter().map(Layer::over), &opened);
        let mut known = place.and_then(|(place, now)| Known::open(place, path, now));
        let is_own = |layer: &Layer<'_>| std::ptr::eq(layer.folder, &raw const opened);
        let of_folder = |path: &Path| {
            let found = if layers.is_empty() { None } else { view.find(path)? };
            Ok::<_, io::Error>(found.is_none_or(|(_, layer)| is_own(&layer)))
        };
        let gathered =
            gather(&view, Path::new(""), Bounds::default(), &mut |path, node, open| match &mut known {
                Some(known) if of_folder(path)? => known.digest(path, node, open),
                _ => Key::of_reader(open()?, node.bytes),
            })?;
        let counts = known.as_ref().map_or_else(Counts::default, Known::counts);
        let place = known.as_ref().map(|known| known.path().to_owned());
        if let Some(known) = known {
            known.save();
        }
        Ok(Self { gathered, folder: Arc::new(opened), place, counts })
    }

    /// Numbers of files whose digests were known and that were read, where digests are kept.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Forgets the digests of the folder: one of its files was not what its digest says.
    pub fn forget(&self) {
        if let Some(place) = &self.place {
            known::forget(place);
        }
    }

    /// The folder's files by path.
    #[must_use]
    pub const fn files(&self) -> &BTreeMap<PathBuf, Key> {
        &self.gathered.files
    }

    /// The folder from which files are uploaded.
    #[must_use]
    pub const fn folder(&self) -> &Arc<Folder> {
        &self.folder
    }

    /// Digest of the input root with these files, and all blobs by digest.
    ///
    /// # Errors
    /// [`FleetError`] of a wrong request: the folder has an entry with hotcell's own name.
    pub fn with(&self, own: &[OwnFile]) -> Result<(Key, Blobs), FleetError> {
        let texts = self.gathered.messages.iter().map(|(key, text)| (*key, Content::Bytes(text.clone())));
        let files = self.gathered.files.iter().map(|(path, key)| (*key, Content::File(path.clone())));
        let mut blobs: Blobs = texts.chain(files).collect();
        if own.is_empty() {
            return Ok((self.gathered.root, blobs));
        }
        let mut root = self.gathered.directory.clone();
        let names =
            root.files.iter().map(|node| &node.name).chain(root.symlinks.iter().map(|node| &node.name));
        if names.chain(root.directories.iter().map(|node| &node.name)).any(|name| name == OWN) {
            let why = format!(
                "the workspace has {OWN}, which is the name of hotcell's own folder there; remove it"
            );
            return Err(FleetError::request(why));
        }
        let files: BTreeMap<&Path, &OwnFile> = own.iter().map(|file| (file.path.as_path(), file)).collect();
        let key = place(Path::new(""), &files, &mut blobs)?;
        root.directories.push(DirectoryNode { name: OWN.to_owned(), digest: Some(key.message()) });
        root.directories.sort_by(|a, b| a.name.cmp(&b.name));
        let text = root.encode_to_vec();
        let key = Key::of(&text);
        blobs.remove(&self.gathered.root);
        blobs.insert(key, Content::Bytes(text));
        Ok((key, blobs))
    }
}

/// Makes the message of one folder of hotcell's own files, and of those in it.
fn place(at: &Path, files: &BTreeMap<&Path, &OwnFile>, blobs: &mut Blobs) -> Result<Key, FleetError> {
    let mut directory = Directory::default();
    let mut folders = std::collections::BTreeSet::new();
    for (path, file) in files {
        let Ok(below) = path.strip_prefix(at) else { continue };
        let mut parts = below.iter();
        let Some(first) = parts.next() else { continue };
        let name =
            first.to_str().ok_or_else(|| FleetError::request(format!("{first:?} is not UTF-8")))?.to_owned();
        if parts.next().is_some() {
            folders.insert(name);
            continue;
        }
        let key = Key::of(&file.bytes);
        blobs.insert(key, Content::Bytes(file.bytes.clone()));
        let is_executable = file.executable;
        directory.files.push(FileNode {
            name,
            digest: Some(key.message()),
            is_executable,
            ..FileNode::default()
        });
    }
    for name in folders {
        let digest = Some(place(&at.join(&name), files, blobs)?.message());
        directory.directories.push(DirectoryNode { name, digest });
    }
    let text = directory.encode_to_vec();
    let key = Key::of(&text);
    blobs.insert(key, Content::Bytes(text));
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{Entry, expand};

    #[test]
    fn own_files_lie_beside_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.py"), "a").unwrap();
        let input = Input::read(Some(dir.path()), &[]).unwrap();
        let own = |path: &str| OwnFile { path: path.into(), bytes: path.into(), executable: false };
        let (root, blobs) =
            input.with(&[own("begin"), own("home/.hotcell/x"), own("home/.hotcell/y")]).unwrap();
        let directories = blobs.iter().filter_map(|(key, content)| match content {
            Content::Bytes(text) => Some((*key, Directory::decode(text.as_slice()).ok()?)),
            Content::File(_) => None,
        });
        let tree = expand(root, &directories.collect(), Bounds::default()).unwrap();
        let mut paths: Vec<_> = tree.entries.iter().map(|(path, _)| path.to_str().unwrap()).collect();
        paths.sort_unstable();
        let mut want = [OWN, "begin", "home", "home/.hotcell", "home/.hotcell/x", "home/.hotcell/y"]
            .map(|path| if path == OWN { path.to_owned() } else { format!("{OWN}/{path}") })
            .to_vec();
        want.push("a.py".to_owned());
        want.sort_unstable();
        assert_eq!(paths, want);
        assert!(
            tree.entries.contains(&("a.py".into(), Entry::File { key: Key::of(b"a"), executable: false }))
        );
        std::fs::create_dir(dir.path().join(OWN)).unwrap();
        let again = Input::read(Some(dir.path()), &[]).unwrap();
        assert!(again.with(&[own("begin")]).unwrap_err().message.contains(OWN));
    }
}
