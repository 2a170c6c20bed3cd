//! Files that a run wrote, by the word of a farm. All of it is hostile: paths, trees, sizes.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use bazel_remote_apis::build::bazel::remote::execution::v2 as reapi;
use hotcell_workspace::Folder;

use crate::cas::Cas;
use crate::digest::Key;
use crate::error::FleetError;
use crate::lay;
use crate::tree::{Bounds, Entry, Read, Tree, expand};

/// Maximum size of an output stream that is read, in bytes: hotcell's own limit of output of a suite.
pub(crate) const MAX_STREAM: u64 = 256 << 20;
/// Maximum size of the message of an output folder, in bytes.
const MAX_TREE: u64 = 64 << 20;

/// A file that a run wrote or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Path below the input root.
    pub path: PathBuf,
    /// Digest.
    pub key: Key,
}

/// An output stream.
pub(crate) async fn stream(
    cas: &mut Cas,
    raw: Vec<u8>,
    digest: Option<&reapi::Digest>,
) -> Result<Vec<u8>, FleetError> {
    match digest {
        Some(digest) if raw.is_empty() && digest.size_bytes != 0 => {
            let key =
                Key::check(Some(digest), "an output stream").map_err(|e| FleetError::farm(e.message))?;
            cas.read(key, MAX_STREAM).await
        }
        _ => Ok(raw),
    }
}

/// Files of a result that are not in the input. All paths are checked as hostile.
pub(crate) async fn written(
    cas: &mut Cas,
    result: &reapi::ActionResult,
    input: &BTreeMap<PathBuf, Key>,
) -> Result<Vec<Written>, FleetError> {
    let farm = |error: FleetError| FleetError::farm(format!("the farm's result: {}", error.message));
    let bounds = Bounds::default();
    let mut all: BTreeMap<PathBuf, Key> = BTreeMap::new();
    let (mut bytes, mut met) = (0_u64, Read::default());
    let too_many = || FleetError::farm(format!("the farm's result has more than {} files", bounds.entries));
    if result.output_files.len() > bounds.entries {
        return Err(too_many());
    }
    for file in &result.output_files {
        let key = Key::check(file.digest.as_ref(), &format!("the output {:?}", file.path)).map_err(farm)?;
        let path = relative(&file.path)?;
        if path.as_os_str().is_empty() {
            return Err(FleetError::farm("the farm's result has a file without a path"));
        }
        all.insert(path, key);
    }
    for folder in &result.output_directories {
        let base = relative(&folder.path)?;
        let key = Key::check(folder.tree_digest.as_ref(), "an output folder").map_err(farm)?;
        met.want(&[key], bounds).map_err(farm)?;
        let text = cas.read(key, MAX_TREE).await.map_err(farm)?;
        let (root, directories) = met.decode_tree(&text, bounds).map_err(farm)?;
        drop(text);
        for (path, entry) in expand(root, &directories, bounds).map_err(farm)?.entries {
            if let Entry::File { key, .. } = entry {
                all.insert(base.join(path), key);
            }
        }
        if all.len() > bounds.entries {
            return Err(too_many());
        }
    }
    let is_new = |(path, key): &(PathBuf, Key)| input.get(path) != Some(key);
    let mut new = Vec::new();
    for (path, key) in all.into_iter().filter(is_new) {
        bytes = bytes.saturating_add(key.size);
        if bytes > bounds.bytes {
            return Err(FleetError::farm(format!("the farm's result has more than {} bytes", bounds.bytes)));
        }
        new.push(Written { path, key });
    }
    Ok(new)
}

/// A path of a result below the input root.
fn relative(text: &str) -> Result<PathBuf, FleetError> {
    let path = Path::new(text);
    let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    if is_plain && !text.contains('\0') {
        return Ok(path.to_owned());
    }
    Err(FleetError::farm(format!("the farm's result has a path that leads elsewhere: {text:?}")))
}

/// Downloads files into an empty folder, where each gets the path that `to` says; no file of more than `most` bytes together.
///
/// # Errors
/// [`FleetError`] when a blob is missing or wrong, when they are too large, or when two of them cannot be in one tree.
pub(crate) async fn download<'w>(
    cas: &mut Cas,
    files: impl Iterator<Item = (PathBuf, &'w Written)>,
    most: u64,
    folder: &Arc<Folder>,
) -> Result<(), FleetError> {
    let mut entries: BTreeMap<PathBuf, Entry> = BTreeMap::new();
    let mut bytes = 0_u64;
    for (path, written) in files {
        bytes = bytes.saturating_add(written.key.size);
        for parent in path.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty()) {
            if !matches!(entries.entry(parent.to_owned()).or_insert(Entry::Folder), Entry::Folder) {
                return Err(conflict(parent));
            }
        }
        if entries.insert(path.clone(), Entry::File { key: written.key, executable: true }).is_some() {
            return Err(conflict(&path));
        }
    }
    if bytes > most {
        return Err(FleetError::farm(format!(
            "the farm's result has {bytes} bytes of files; the limit is {most}"
        )));
    }
    let mut source = lay::Source { cas: cas.clone(), cache: None };
    lay::write(&mut source, Tree { entries: entries.into_iter().collect(), bytes }, folder).await
}

fn conflict(path: &Path) -> FleetError {
    FleetError::farm(format!("the farm's result has {} as a file and as a folder", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_results_stay_below() {
        for (text, good) in
            [("a/b", true), ("", true), ("../a", false), ("/a", false), ("a/../../b", false), ("a\0", false)]
        {
            assert_eq!(relative(text).is_ok(), good, "{text:?}");
        }
    }
}
