//! A tree of a farm, written into a folder.

use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bazel_remote_apis::build::bazel::remote::execution::v2::Directory;
pub use hotcell_workspace::Folder;

use crate::cache::{Cache, MAX_WHOLE};
use crate::cas::Cas;
use crate::digest::Key;
use crate::error::FleetError;
use crate::tree::{Bounds, Entry, Read, Tree, children, expand};

/// Maximum size of one `Directory` message, in bytes.
const MAX_DIRECTORY: u64 = 64 << 20;

/// Number of blobs that are laid from the cache by one thread at a time: the processors share a large tree.
const CACHED_PART: usize = 512;

/// Places of a file in a tree, with the permission to execute it.
type Places = Vec<(PathBuf, bool)>;

/// Storage of blobs: the farm's, and the worker's cache in front of it.
#[derive(Clone, Debug)]
pub struct Source {
    /// The farm's.
    pub cas: Cas,
    /// The worker's.
    pub cache: Option<Arc<Cache>>,
}

impl Source {
    /// The blobs that are cached, of those that are small enough to be read at once.
    async fn cached(&self, keys: &[Key]) -> Result<BTreeMap<Key, Vec<u8>>, FleetError> {
        let Some(cache) = self.cache.clone() else { return Ok(BTreeMap::new()) };
        let keys = keys.to_vec();
        let read = tokio::task::spawn_blocking(move || {
            keys.iter().filter_map(|key| Some((*key, cache.read(*key)?))).collect()
        });
        read.await.map_err(|e| FleetError::host(e.to_string()))
    }

    /// Keeps a blob that was read from the farm.
    fn keep(&self, key: Key, bytes: &[u8]) {
        if let Some(cache) = &self.cache {
            cache.put(key, bytes);
        }
    }
}

/// Reads the directories below a root, level by level, and checks them.
///
/// # Errors
/// [`FleetError`] when one is missing, and those of [`expand`].
pub async fn read(source: &mut Source, root: Key, bounds: Bounds) -> Result<Tree, FleetError> {
    let mut directories: BTreeMap<Key, Directory> = BTreeMap::new();
    let mut wanted = vec![root];
    let mut met = Read::default();
    for _ in 0..=bounds.depth {
        met.want(&wanted, bounds)?;
        let mut next = Vec::new();
        let mut take = |key: Key, text: &[u8]| {
            let directory = met.decode(key, text, bounds)?;
            next.extend(children(&directory)?);
            directories.insert(key, directory);
            Ok::<_, FleetError>(())
        };
        // Part by part, so that a wide level is not held twice.
        for part in wanted.chunks(CACHED_PART) {
            let cached = source.cached(part).await?;
            cached.iter().try_for_each(|(key, text)| take(*key, text))?;
            let missed: Vec<Key> = part.iter().copied().filter(|key| !cached.contains_key(key)).collect();
            let mut rest = missed.as_slice();
            while !rest.is_empty() {
                let (first, others) = source.cas.first_batch(rest);
                let read = if first.is_empty() {
                    let key = rest[0];
                    BTreeMap::from([(key, source.cas.read(key, MAX_DIRECTORY).await?)])
                } else {
                    source.cas.read_batch(first).await?
                };
                rest = if first.is_empty() { &rest[1..] } else { others };
                for (key, text) in read {
                    take(key, &text)?;
                    source.keep(key, &text);
                }
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

/// Writes a tree into an empty folder. Each blob is read once: from the worker's cache, else from the farm.
///
/// # Errors
/// [`FleetError`] when a blob is missing or wrong, or this machine cannot write it.
pub async fn write(source: &mut Source, tree: Tree, folder: &Arc<Folder>) -> Result<(), FleetError> {
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
    if let Some(cache) = &source.cache {
        files = from_cache(cache, files, folder).await?;
    }
    let keys: Vec<Key> = files.keys().copied().collect();
    let mut rest = keys.as_slice();
    while let Some(large) = rest.first() {
        let (first, others) = source.cas.first_batch(rest);
        if first.is_empty() {
            let places = files.remove(large).unwrap_or_default();
            rest = &rest[1..];
            large_file(source, *large, places, folder).await?;
            continue;
        }
        rest = others;
        let blobs = source.cas.read_batch(first).await?;
        let placed: Vec<_> = blobs
            .into_iter()
            .map(|(key, bytes)| (key, files.remove(&key).unwrap_or_default(), bytes))
            .collect();
        let cache = source.cache.clone();
        blocking(folder, move |folder| {
            for (key, places, bytes) in &placed {
                place(folder, places, bytes)?;
                if let Some(cache) = &cache {
                    cache.put(*key, bytes);
                }
            }
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// Writes the files that are cached, on all processors; returns the others.
async fn from_cache(
    cache: &Arc<Cache>,
    files: BTreeMap<Key, Places>,
    folder: &Arc<Folder>,
) -> Result<BTreeMap<Key, Places>, FleetError> {
    let mut tasks = tokio::task::JoinSet::new();
    let most = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut missed = BTreeMap::new();
    let mut files = files.into_iter().peekable();
    while files.peek().is_some() || !tasks.is_empty() {
        while tasks.len() < most && files.peek().is_some() {
            let part: Vec<_> = files.by_ref().take(CACHED_PART).collect();
            let (cache, folder) = (cache.clone(), folder.clone());
            tasks.spawn_blocking(move || {
                part.into_iter()
                    .filter_map(|(key, places)| match lay(&cache, &folder, key, &places) {
                        Ok(true) => None,
                        Ok(false) => Some(Ok((key, places))),
                        Err(error) => Some(Err(error)),
                    })
                    .collect::<std::io::Result<Vec<_>>>()
            });
        }
        if let Some(done) = tasks.join_next().await {
            let done = done.map_err(|e| FleetError::host(e.to_string()))?;
            missed.extend(done.map_err(|e| unwritten(&e))?);
        }
    }
    Ok(missed)
}

/// Writes a cached blob to its places; false when it is not cached.
fn lay(cache: &Cache, folder: &Folder, key: Key, places: &Places) -> std::io::Result<bool> {
    if key.size <= MAX_WHOLE {
        let Some(bytes) = cache.read(key) else { return Ok(false) };
        return place(folder, places, &bytes).map(|()| true);
    }
    let Some((path, executable)) = places.first() else { return Ok(true) };
    let mut file = folder.create(path)?;
    if !cache.copy(key, &mut file)? {
        folder.remove_file(path)?;
        return Ok(false);
    }
    finish(&file, *executable)?;
    copies(folder, path, &places[1..]).map(|()| true)
}

/// Writes a file to its places.
fn place(folder: &Folder, places: &Places, bytes: &[u8]) -> std::io::Result<()> {
    for (path, executable) in places {
        let mut file = folder.create(path)?;
        file.write_all(bytes)?;
        finish(&file, *executable)?;
    }
    Ok(())
}

async fn large_file(
    source: &mut Source,
    key: Key,
    places: Places,
    folder: &Arc<Folder>,
) -> Result<(), FleetError> {
    let Some((path, executable)) = places.first().cloned() else { return Ok(()) };
    let mut file = folder.create(&path).map_err(|e| unwritten(&e))?;
    source.cas.read_into(key, &mut file).await?;
    finish(&file, executable).map_err(|e| unwritten(&e))?;
    let cache = source.cache.clone();
    blocking(folder, move |folder| {
        if let Some(cache) = cache {
            cache.put_file(key, &mut folder.file(&path)?);
        }
        copies(folder, &path, &places[1..])
    })
    .await
}

/// Copies a file that was laid to its other places.
fn copies(folder: &Folder, path: &Path, others: &[(PathBuf, bool)]) -> std::io::Result<()> {
    for (other, executable) in others {
        let mut copy = folder.create(other)?;
        std::io::copy(&mut folder.file(path)?, &mut copy)?;
        finish(&copy, *executable)?;
    }
    Ok(())
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
