//! A tree of a farm, written into a folder.

use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bazel_remote_apis::build::bazel::remote::execution::v2::Directory;
use hotcell_workspace::Folder;
use prost::Message;

use crate::cas::Cas;
use crate::digest::Key;
use crate::error::FleetError;
use crate::tree::{Bounds, Entry, Tree, children, expand};

/// Maximum size of one `Directory` message, in bytes.
const MAX_DIRECTORY: u64 = 64 << 20;

/// Places of a file in a tree, with the permission to execute it.
type Places = Vec<(PathBuf, bool)>;

/// Reads the directories below a root, level by level, and checks them.
///
/// # Errors
/// [`FleetError`] when one is missing, and those of [`expand`].
pub async fn read(cas: &mut Cas, root: Key, bounds: Bounds) -> Result<Tree, FleetError> {
    let mut directories: BTreeMap<Key, Directory> = BTreeMap::new();
    let mut wanted = vec![root];
    for _ in 0..=bounds.depth {
        let (mut next, mut rest) = (Vec::new(), wanted.as_slice());
        while !rest.is_empty() {
            let (first, others) = cas.first_batch(rest);
            let read = if first.is_empty() {
                let key = rest[0];
                BTreeMap::from([(key, cas.read(key, MAX_DIRECTORY).await?)])
            } else {
                cas.read_batch(first).await?
            };
            rest = if first.is_empty() { &rest[1..] } else { others };
            for (key, text) in read {
                let directory = Directory::decode(text.as_slice())
                    .map_err(|e| FleetError::request(format!("{} is not a directory: {e}", key.name())))?;
                next.extend(children(&directory)?);
                directories.insert(key, directory);
            }
        }
        next.sort_unstable();
        next.dedup();
        next.retain(|key| !directories.contains_key(key));
        if directories.len() + next.len() > bounds.entries {
            return Err(FleetError::request(format!("the tree has more than {} entries", bounds.entries)));
        }
        if next.is_empty() {
            return expand(root, &directories, bounds);
        }
        wanted = next;
    }
    Err(FleetError::request(format!("the tree is deeper than {} folders", bounds.depth)))
}

/// Writes a tree into an empty folder. Each blob is read once.
///
/// # Errors
/// [`FleetError`] when a blob is missing or wrong, or this machine cannot write it.
pub async fn write(cas: &mut Cas, tree: Tree, folder: &Arc<Folder>) -> Result<(), FleetError> {
    let mut files: BTreeMap<Key, Places> = BTreeMap::new();
    let mut others = Vec::new();
    for (path, entry) in tree.entries {
        match entry {
            Entry::File { key, executable } => files.entry(key).or_default().push((path, executable)),
            other => others.push((path, other)),
        }
    }
    blocking(folder, move |folder| {
        others.iter().try_for_each(|(path, entry)| match entry {
            Entry::Link(target) => folder.make_link(path, Path::new(target)),
            _ => folder.make(path, 0o755),
        })
    })
    .await?;
    let keys: Vec<Key> = files.keys().copied().collect();
    let mut rest = keys.as_slice();
    while let Some(large) = rest.first() {
        let (first, others) = cas.first_batch(rest);
        if first.is_empty() {
            let places = files.remove(large).unwrap_or_default();
            rest = &rest[1..];
            large_file(cas, *large, places, folder).await?;
            continue;
        }
        rest = others;
        let blobs = cas.read_batch(first).await?;
        let placed: Vec<_> =
            blobs.into_iter().map(|(key, bytes)| (files.remove(&key).unwrap_or_default(), bytes)).collect();
        blocking(folder, move |folder| {
            for (places, bytes) in &placed {
                for (path, executable) in places {
                    let mut file = folder.create(path)?;
                    file.write_all(bytes)?;
                    finish(&file, *executable)?;
                }
            }
            Ok(())
        })
        .await?;
    }
    Ok(())
}

async fn large_file(cas: &mut Cas, key: Key, places: Places, folder: &Arc<Folder>) -> Result<(), FleetError> {
    let Some((path, executable)) = places.first().cloned() else { return Ok(()) };
    let mut file = folder.create(&path).map_err(|e| unwritten(&e))?;
    cas.read_into(key, &mut file).await?;
    finish(&file, executable).map_err(|e| unwritten(&e))?;
    blocking(folder, move |folder| {
        for (other, executable) in &places[1..] {
            let mut copy = folder.create(other)?;
            std::io::copy(&mut folder.file(&path)?, &mut copy)?;
            finish(&copy, *executable)?;
        }
        Ok(())
    })
    .await
}

fn finish(file: &File, executable: bool) -> std::io::Result<()> {
    file.set_permissions(Permissions::from_mode(if executable { 0o755 } else { 0o644 }))
}

fn unwritten(error: &std::io::Error) -> FleetError {
    FleetError::host(format!("the input of an action cannot be written: {error}"))
}

/// Does work on the folder in a thread of its own: heartbeats go on meanwhile.
async fn blocking(
    folder: &Arc<Folder>,
    work: impl FnOnce(&Folder) -> std::io::Result<()> + Send + 'static,
) -> Result<(), FleetError> {
    let folder = folder.clone();
    let done = tokio::task::spawn_blocking(move || work(&folder)).await;
    done.map_err(|e| FleetError::host(e.to_string()))?.map_err(|e| unwritten(&e))
}
