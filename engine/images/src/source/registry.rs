//! Imports images from a registry: fetches the documents and the missing layers into a folder of the store,
//! and reads them from there like those of any layout. No data of a registry is used before its digest is
//! verified.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use hotcell_oci::{Reference, Repository, Timeouts};

use super::add;
use super::oci::{
    Descriptor, Layout, MAX_DOCUMENT_BYTES, Manifest, blob, choose, configuration, of_manifest, parse,
};
use crate::error::{SourceError, StoreError};
use crate::image::Image;
use crate::store::{Import, Store};
use crate::stream::Digest;
use crate::unpack::Limits;

/// Timeout for connecting, and for the next bytes of a layer.
const NETWORK_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout for a document, which has a few thousand bytes.
const DOCUMENT_TIMEOUT: Duration = Duration::from_secs(60);
/// Accepted media types of manifests.
const MANIFESTS: [&str; 4] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];
/// Maximum nesting depth of indexes.
const MAX_INDEX_DEPTH: usize = 4;

/// Imports an image from a registry. Blocks on the network, so do not call it in a thread of an event loop.
pub(crate) fn import(store: &Store, name: &str, source: &str, limits: &Limits) -> Result<Image, StoreError> {
    let reference = Reference::parse(source)
        .map_err(|e| SourceError::Registry { name: source.to_owned(), why: e.to_string() })?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut import = store.begin()?;
    let folder = import.fresh()?;
    let fetched = runtime.block_on(fetch(&import, &folder, source, &reference, limits));
    let added = fetched.and_then(|digest| {
        let blobs = Layout::open(&folder)?;
        let resolved = of_manifest(&blobs, digest, 0)?;
        add(store, name, source, &blobs, resolved, limits)
    });
    std::fs::remove_dir_all(&folder)?;
    added
}

/// Fetches the documents and the missing layers, and returns the digest of the topmost document.
async fn fetch(
    import: &Import<'_>,
    folder: &Path,
    source: &str,
    reference: &Reference,
    limits: &Limits,
) -> Result<Digest, StoreError> {
    let timeouts = Timeouts { connect: NETWORK_TIMEOUT, idle: Some(NETWORK_TIMEOUT) };
    let from = Repository::new(reference.host(), reference.repository(), source, timeouts)?;
    let mut fetcher = Fetcher { from, source, folder };
    std::fs::create_dir_all(folder.join("blobs/sha256"))?;
    let (top, mut manifest) = fetcher.document(reference.version()).await?;
    for _ in 0..MAX_INDEX_DEPTH {
        if manifest.config.is_some() || manifest.manifests.is_empty() {
            break;
        }
        let chosen = choose(&manifest.manifests, None)?.digest;
        manifest = fetcher.document(&chosen.to_string()).await?.1;
    }
    let Some(config) = &manifest.config else {
        return Err(fetcher.bad(&"what it has there is no image").into());
    };
    fetcher.blob(config, MAX_DOCUMENT_BYTES).await?;
    let text = std::fs::read(folder.join(blob(&config.digest)))?;
    let (_, diff_ids) = configuration(&format!("the configuration {}", config.digest), &text)?;
    for (layer, diff_id) in manifest.layers.iter().zip(&diff_ids) {
        if !import.has(diff_id) {
            fetcher.blob(layer, limits.bytes).await?;
        }
    }
    Ok(top)
}

struct Fetcher<'a> {
    from: Repository<'a>,
    source: &'a str,
    folder: &'a Path,
}

impl Fetcher<'_> {
    fn bad(&self, why: &dyn std::fmt::Display) -> SourceError {
        SourceError::Registry { name: self.source.to_owned(), why: why.to_string() }
    }

    /// Fetches an index or a manifest, and stores it as a blob.
    async fn document(&mut self, version: &str) -> Result<(Digest, Manifest), StoreError> {
        let asked = self.from.manifest(version, &MANIFESTS, MAX_DOCUMENT_BYTES);
        let answered = tokio::time::timeout(DOCUMENT_TIMEOUT, asked).await;
        let (bytes, digest) = answered.map_err(|_| {
            self.bad(&format!("it does not answer within {} s", DOCUMENT_TIMEOUT.as_secs()))
        })??;
        let digest = Digest(digest);
        std::fs::write(self.folder.join(blob(&digest)), &bytes)?;
        let what = format!("the manifest of {}", self.source);
        let manifest: Manifest = parse(&what, &bytes)?;
        manifest.check(&what)?;
        Ok((digest, manifest))
    }

    /// Fetches a blob into a file. A file whose digest is wrong stays until the folder is removed, unread.
    async fn blob(&mut self, descriptor: &Descriptor, most: u64) -> Result<(), StoreError> {
        let place = self.folder.join(blob(&descriptor.digest));
        // Two layers may be equal.
        let mut file = match File::create_new(&place) {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => return Ok(()),
            file => file?,
        };
        let digest = descriptor.digest.to_string();
        self.from
            .blob((&digest, descriptor.size), most, |piece| file.write_all(piece).map_err(StoreError::from))
            .await
    }
}
