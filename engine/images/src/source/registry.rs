//! Imports images from a registry: fetches the documents and the missing layers into a folder of the store,
//! and reads them from there like those of any layout. No data of a registry is used before its digest is
//! verified.
//!
//! Access is anonymous; TLS by rustls with the system's root certificates; plain HTTP to loopback addresses
//! only.

use std::fs::File;
use std::io::Write;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use futures_util::StreamExt;
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::manifest::OciDescriptor;
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference};

use super::add;
use super::oci::{
    Descriptor, Layout, MAX_DOCUMENT_BYTES, Manifest, blob, choose, configuration, of_manifest, parse,
};
use crate::error::{SourceError, StoreError};
use crate::image::Image;
use crate::store::{Import, Store};
use crate::stream::Digest;
use crate::unpack::Limits;

/// Prefix of the name of an image in a registry.
pub const SCHEME: &str = "oci://";
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

/// Parses a name into registry, repository, and tag or digest.
pub(crate) fn reference(name: &str) -> Result<Reference, SourceError> {
    let bad = |why: String| SourceError::Registry { name: name.to_owned(), why };
    let rest = name.strip_prefix(SCHEME).unwrap_or(name);
    let host = rest.split_once('/').map_or("", |(host, _)| host);
    if !(host.contains(['.', ':']) || host == "localhost") {
        return Err(bad("it names no registry: oci://HOST[:PORT]/NAME[:TAG|@sha256:…]".to_owned()));
    }
    rest.parse().map_err(|e| bad(format!("it is no name of an image: {e}")))
}

/// Whether a registry is on this machine, which is accessed without TLS.
fn is_loopback(registry: &str) -> bool {
    let host = match registry.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => registry,
    };
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|a| a.is_loopback())
}

/// Imports an image from a registry. Blocks on the network, so do not call it in a thread of an event loop.
pub(crate) fn import(store: &Store, name: &str, source: &str, limits: &Limits) -> Result<Image, StoreError> {
    let reference = reference(source)?;
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
    // Fails when a provider is already installed, which is harmless.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let protocol =
        if is_loopback(reference.registry()) { ClientProtocol::Http } else { ClientProtocol::Https };
    let client = Client::new(ClientConfig {
        protocol,
        connect_timeout: Some(NETWORK_TIMEOUT),
        read_timeout: Some(NETWORK_TIMEOUT),
        ..ClientConfig::default()
    });
    let fetcher = Fetcher { client, reference, source, folder, limits };
    std::fs::create_dir_all(folder.join("blobs/sha256"))?;
    let (top, mut manifest) = fetcher.document(reference).await?;
    for _ in 0..MAX_INDEX_DEPTH {
        if manifest.config.is_some() || manifest.manifests.is_empty() {
            break;
        }
        let chosen = choose(&manifest.manifests, None)?.digest;
        manifest = fetcher.document(&reference.clone_with_digest(chosen.to_string())).await?.1;
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
    client: Client,
    reference: &'a Reference,
    source: &'a str,
    folder: &'a Path,
    limits: &'a Limits,
}

impl Fetcher<'_> {
    fn bad(&self, why: &dyn std::fmt::Display) -> SourceError {
        SourceError::Registry { name: self.source.to_owned(), why: why.to_string() }
    }

    /// Fetches an index or a manifest, and stores it as a blob.
    async fn document(&self, reference: &Reference) -> Result<(Digest, Manifest), StoreError> {
        let asked = self.client.pull_manifest_raw(reference, &RegistryAuth::Anonymous, &MANIFESTS);
        let answered = tokio::time::timeout(DOCUMENT_TIMEOUT, asked).await;
        let (bytes, _) = answered
            .map_err(|_| self.bad(&format!("it does not answer within {} s", DOCUMENT_TIMEOUT.as_secs())))?
            .map_err(|e| self.bad(&e))?;
        if bytes.len() as u64 > MAX_DOCUMENT_BYTES {
            return Err(self.bad(&format!("its manifest is longer than {MAX_DOCUMENT_BYTES} bytes")).into());
        }
        let digest = Digest::of(&bytes);
        if let Some(promised) = reference.digest().and_then(Digest::parse).filter(|p| *p != digest) {
            let what = format!("the manifest of {}", self.source);
            return Err(StoreError::Digest { what, promised, found: digest });
        }
        std::fs::write(self.folder.join(blob(&digest)), &bytes)?;
        Ok((digest, parse(&format!("the manifest of {}", self.source), &bytes)?))
    }

    /// Fetches a blob, up to its announced size. The reader verifies its digest.
    async fn blob(&self, descriptor: &Descriptor, most: u64) -> Result<(), StoreError> {
        if descriptor.size > most {
            return Err(self
                .bad(&format!("{} has {} bytes, and {most} are possible", descriptor.digest, descriptor.size))
                .into());
        }
        let place = self.folder.join(blob(&descriptor.digest));
        // Two layers may be equal.
        let mut file = match File::create_new(&place) {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => return Ok(()),
            file => file?,
        };
        let theirs = OciDescriptor {
            digest: descriptor.digest.to_string(),
            size: i64::try_from(descriptor.size).unwrap_or(i64::MAX),
            ..OciDescriptor::default()
        };
        let mut sent =
            self.client.pull_blob_stream(self.reference, &theirs).await.map_err(|e| self.bad(&e))?;
        let mut length = 0;
        while let Some(piece) = sent.stream.next().await {
            let piece = piece.map_err(|e| self.bad(&e))?;
            length += piece.len() as u64;
            if length > descriptor.size.min(self.limits.bytes.max(MAX_DOCUMENT_BYTES)) {
                return Err(self.bad(&format!("{} is longer than it should be", descriptor.digest)).into());
            }
            file.write_all(&piece)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registry_is_read_from_image_name() {
        for (name, registry, rest) in [
            ("oci://localhost:5000/a/b:1", "localhost:5000", "a/b:1"),
            ("oci://example.org/a", "example.org", "a:latest"),
            ("oci://[::1]:5000/a", "", ""),
            ("oci://python:3", "", ""),
            ("oci://library/python", "", ""),
            ("oci://", "", ""),
            ("oci://example.org/UPPER", "", ""),
        ] {
            match reference(name) {
                Ok(found) => {
                    let tag = found.tag().unwrap_or_default();
                    assert_eq!(
                        (found.registry(), format!("{}:{tag}", found.repository())),
                        (registry, rest.to_owned())
                    );
                }
                Err(_) => assert_eq!(registry, "", "{name}"),
            }
        }
    }

    #[test]
    fn loopback_registry_alone_needs_no_tls() {
        for (registry, loopback) in [
            ("localhost", true),
            ("localhost:5000", true),
            ("127.0.0.1:5000", true),
            ("127.1.2.3", true),
            ("[::1]:5000", true),
            ("example.org", false),
            ("localhost.example.org", false),
            ("127.0.0.1.example.org:80", false),
            ("10.0.0.1:5000", false),
        ] {
            assert_eq!(is_loopback(registry), loopback, "{registry}");
        }
    }
}
