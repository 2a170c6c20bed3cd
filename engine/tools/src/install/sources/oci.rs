//! An artifact of a registry: one layer with the component, optionally one with the manifest and one with the
//! signature.
//!
//! A tag is resolved once and pinned by its digest. Access is anonymous; over TLS, and over plain HTTP to
//! loopback only.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use hotcell_oci::{Reference, Repository, Timeouts};
use serde::Deserialize;

use super::{Fetched, MAX_SIGNATURE_BYTES, MAX_SOURCE_BYTES, SourceError, name_of};
use crate::install::cosign::{self, Signed};
use crate::install::manifest;

pub use hotcell_oci::SCHEME;

/// Media type of the manifests that are requested and sent.
pub(crate) const MANIFEST_KIND: &str = "application/vnd.oci.image.manifest.v1+json";
/// Layers that are components.
pub(crate) const COMPONENT: [&str; 2] = ["application/wasm", "application/vnd.wasm.content.layer.v1+wasm"];
/// The layer with `plugin.toml`.
pub const MANIFEST_LAYER: &str = "application/vnd.hotcell.plugin.v1+toml";
/// Media type of the layer with the component's minisign signature.
pub const SIGNATURE_LAYER: &str = "application/vnd.hotcell.minisig.v1";
/// Maximum number of signatures of one artifact that are examined.
const MAX_SIGNATURES: usize = 16;
/// Maximum size of a document, in bytes.
pub(crate) const MAX_DOCUMENT_BYTES: u64 = 1 << 20;

/// `oci://HOST[:PORT]/NAME[:TAG|@sha256:…]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    reference: Reference,
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    layers: Vec<Layer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Layer {
    media_type: String,
    digest: String,
    size: u64,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

impl Artifact {
    /// Parses the name of an artifact.
    ///
    /// # Errors
    /// [`SourceError::Unreadable`] when the name is not valid.
    pub fn parse(text: &str) -> Result<Self, SourceError> {
        let reference = Reference::parse(text).map_err(|e| SourceError::unreadable(text, e))?;
        Ok(Self { reference })
    }

    /// The registry's host, as it is asked.
    #[must_use]
    pub fn host(&self) -> &str {
        self.reference.host()
    }

    /// The registry, as it was named.
    #[must_use]
    pub fn registry(&self) -> &str {
        self.reference.registry()
    }

    pub(crate) fn repository(&self) -> &str {
        self.reference.repository()
    }

    pub(crate) fn tag(&self) -> &str {
        self.reference.tag().unwrap_or("latest")
    }

    pub(crate) fn digest(&self) -> Option<&str> {
        self.reference.digest()
    }

    /// Without tag and digest.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{SCHEME}{}/{}", self.reference.registry(), self.reference.repository())
    }
}

impl std::fmt::Display for Artifact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.reference.fmt(f)
    }
}

/// The signatures in cosign's form that a registry has of an artifact, by the digest of its manifest.
///
/// # Errors
/// [`SourceError`] when the registry cannot be read, or has no manifest of signatures for the artifact.
pub async fn signatures(artifact: &Artifact, digest: &str) -> Result<Vec<Signed>, SourceError> {
    let (place, patience) = (artifact.place(), Patience::default());
    let late = || SourceError::unreadable(&place, format!("it does not answer within {:?}", patience.whole));
    let all = tokio::time::timeout(patience.whole, signed(artifact, digest, &place, patience)).await;
    all.unwrap_or_else(|_| Err(late()))
}

async fn signed(
    artifact: &Artifact,
    digest: &str,
    place: &str,
    patience: Patience,
) -> Result<Vec<Signed>, SourceError> {
    let mut from = Repository::new(artifact.host(), artifact.repository(), place, patience.timeouts())?;
    let (document, _) = from.manifest(&cosign::tag(digest), &[MANIFEST_KIND], MAX_DOCUMENT_BYTES).await?;
    let document: Document = serde_json::from_slice(&document)
        .map_err(|e| SourceError::unreadable(place, format!("the manifest of its signatures: {e}")))?;
    let mut puller = Puller { from, place };
    let mut all = Vec::new();
    let layers = document.layers.iter().filter(|layer| layer.media_type == cosign::PAYLOAD_LAYER);
    for layer in layers.take(MAX_SIGNATURES) {
        let Some(signature) = layer.annotations.get(cosign::ANNOTATION) else { continue };
        let payload = puller.blob(layer, cosign::MAX_PAYLOAD_BYTES).await?;
        all.push(Signed { payload, signature: signature.clone() });
    }
    Ok(all)
}

/// Fetches an artifact.
///
/// # Errors
/// [`SourceError::Digest`] when a part has another digest, [`SourceError::Long`] when a part is too long,
/// [`SourceError::Unreadable`] when it cannot be fetched.
pub async fn fetch(artifact: &Artifact) -> Result<Fetched, SourceError> {
    within(artifact, Patience::default()).await
}

/// Time limits for a registry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Time limit for connecting.
    pub connect: Duration,
    /// Time limit for the whole fetch, whatever the number of answers.
    pub whole: Duration,
}

impl Patience {
    pub(crate) fn timeouts(self) -> Timeouts {
        Timeouts { connect: self.connect, idle: None }
    }
}

impl Default for Patience {
    fn default() -> Self {
        Self { connect: Duration::from_secs(15), whole: Duration::from_secs(180) }
    }
}

pub(crate) async fn within(artifact: &Artifact, patience: Patience) -> Result<Fetched, SourceError> {
    let place = artifact.reference.to_string();
    let late = || SourceError::unreadable(&place, format!("it does not answer within {:?}", patience.whole));
    let pulled = tokio::time::timeout(patience.whole, pull(&artifact.reference, &place, patience)).await;
    pulled.unwrap_or_else(|_| Err(late()))
}

async fn pull(reference: &Reference, place: &str, patience: Patience) -> Result<Fetched, SourceError> {
    let bad = |why: String| SourceError::unreadable(place, why);
    let mut from = Repository::new(reference.host(), reference.repository(), place, patience.timeouts())?;
    let (document, found) = from.manifest(reference.version(), &[MANIFEST_KIND], MAX_DOCUMENT_BYTES).await?;
    let found = hex::encode(found);
    let parsed: Document =
        serde_json::from_slice(&document).map_err(|e| bad(format!("its manifest: {e}")))?;
    let of = |kinds: &[&str]| {
        let mut all = parsed.layers.iter().filter(|layer| kinds.contains(&layer.media_type.as_str()));
        (all.next(), all.next().is_some())
    };
    let (Some(component), more) = of(&COMPONENT) else {
        return Err(bad(format!(
            "it has no layer of the type {}: it is no component",
            COMPONENT.join(" or ")
        )));
    };
    if more {
        return Err(bad("it has more than one component".to_owned()));
    }
    let mut puller = Puller { from, place };
    let wasm = puller.blob(component, MAX_SOURCE_BYTES).await?;
    let manifest = match of(&[MANIFEST_LAYER]).0 {
        Some(layer) => {
            let name = PathBuf::from(format!("{place} ({})", manifest::FILE));
            Some((puller.text(layer, manifest::MAX_MANIFEST_BYTES).await?, name))
        }
        None => None,
    };
    let signature = match of(&[SIGNATURE_LAYER]).0 {
        Some(layer) => Some(puller.text(layer, MAX_SIGNATURE_BYTES).await?),
        None => None,
    };
    let repository = reference.repository();
    Ok(Fetched {
        wasm,
        manifest,
        signature,
        name: name_of(repository.rsplit('/').next().unwrap_or(repository)),
        pinned: format!("{SCHEME}{}/{repository}@sha256:{found}", reference.registry()),
    })
}

struct Puller<'a> {
    from: Repository<'a>,
    place: &'a str,
}

impl Puller<'_> {
    async fn text(&mut self, layer: &Layer, most: u64) -> Result<String, SourceError> {
        let bytes = self.blob(layer, most).await?;
        String::from_utf8(bytes)
            .map_err(|_| SourceError::unreadable(self.place, format!("{} is not UTF-8", layer.digest)))
    }

    /// Fetches a blob of at most `most` bytes.
    async fn blob(&mut self, layer: &Layer, most: u64) -> Result<Vec<u8>, SourceError> {
        let mut bytes = Vec::new();
        let keep = |piece: &[u8]| -> Result<(), SourceError> {
            bytes.extend_from_slice(piece);
            Ok(())
        };
        self.from.blob((&layer.digest, layer.size), most, keep).await?;
        Ok(bytes)
    }
}
