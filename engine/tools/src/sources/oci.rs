//! An artifact of a registry: one layer that is a component, perhaps one with the manifest and one with the signature.
//!
//! What a tag stands for is resolved once and pinned by its digest. Anonymous; TLS, and plain HTTP to loopback only.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::StreamExt;
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::manifest::OciDescriptor;
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference};
use serde::Deserialize;

use super::{Fetched, LONGEST, LONGEST_SIGNATURE, SourceError, is_sha256, name_of, sha256};
use crate::error::with_causes;
use crate::manifest;

/// How the name of an artifact in a registry begins.
pub const SCHEME: &str = "oci://";
/// Layers that are components.
const COMPONENT: [&str; 2] = ["application/wasm", "application/vnd.wasm.content.layer.v1+wasm"];
/// The layer with `plugin.toml`.
pub const MANIFEST_LAYER: &str = "application/vnd.hotcell.plugin.v1+toml";
/// The layer with the component's minisign signature.
pub const SIGNATURE_LAYER: &str = "application/vnd.hotcell.minisig.v1";
/// What is asked for.
const MANIFESTS: [&str; 1] = ["application/vnd.oci.image.manifest.v1+json"];
/// The longest document, in bytes.
const DOCUMENT: u64 = 1 << 20;
/// Connecting, and waiting for the next bytes.
const PATIENCE: Duration = Duration::from_secs(30);
/// The whole of it.
const WHOLE: Duration = Duration::from_secs(180);

/// `oci://HOST[:PORT]/NAME[:TAG|@sha256:…]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    reference: Reference,
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    layers: Vec<OciDescriptor>,
}

impl Artifact {
    /// Reads it.
    ///
    /// # Errors
    /// [`SourceError::Unreadable`].
    pub fn parse(text: &str) -> Result<Self, SourceError> {
        let rest = text.strip_prefix(SCHEME).unwrap_or(text);
        let host = rest.split_once('/').map_or("", |(host, _)| host);
        if !(host.contains(['.', ':']) || host == "localhost") {
            let why = "it names no registry: oci://HOST[:PORT]/NAME[:TAG|@sha256:…]";
            return Err(SourceError::unreadable(text, why));
        }
        let reference =
            rest.parse().map_err(|e| SourceError::unreadable(text, format!("is no artifact's name: {e}")))?;
        Ok(Self { reference })
    }

    /// Without tag and digest.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{SCHEME}{}/{}", self.reference.registry(), self.reference.repository())
    }
}

/// Whether a registry is this machine, which is spoken to without TLS.
fn is_loopback(registry: &str) -> bool {
    let host = match registry.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => registry,
    };
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|a| a.is_loopback())
}

/// Fetches it.
///
/// # Errors
/// [`SourceError`].
pub async fn fetch(artifact: &Artifact) -> Result<Fetched, SourceError> {
    let place = artifact.reference.to_string();
    let late = || SourceError::unreadable(&place, format!("it does not answer within {} s", WHOLE.as_secs()));
    tokio::time::timeout(WHOLE, pull(&artifact.reference, &place)).await.unwrap_or_else(|_| Err(late()))
}

async fn pull(reference: &Reference, place: &str) -> Result<Fetched, SourceError> {
    let bad = |why: String| SourceError::unreadable(place, why);
    // The second of two calls finds it set.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let protocol =
        if is_loopback(reference.registry()) { ClientProtocol::Http } else { ClientProtocol::Https };
    let client = Client::new(ClientConfig {
        protocol,
        connect_timeout: Some(PATIENCE),
        read_timeout: Some(PATIENCE),
        ..ClientConfig::default()
    });
    let asked = client.pull_manifest_raw(reference, &RegistryAuth::Anonymous, &MANIFESTS).await;
    let (document, _) = asked.map_err(|e| bad(with_causes(e.to_string(), &e)))?;
    if document.len() as u64 > DOCUMENT {
        return Err(SourceError::Long { place: format!("the manifest of {place}"), most: DOCUMENT });
    }
    let found = sha256(&document);
    let promised = reference.digest().map(|d| d.strip_prefix("sha256:").unwrap_or(d));
    if let Some(promised) = promised.filter(|promised| *promised != found) {
        return Err(SourceError::Digest { place: place.to_owned(), promised: promised.to_owned(), found });
    }
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
    let puller = Puller { client: &client, reference, place };
    let wasm = puller.blob(component, LONGEST).await?;
    let manifest = match of(&[MANIFEST_LAYER]).0 {
        Some(layer) => {
            let name = PathBuf::from(format!("{place} ({})", manifest::FILE));
            Some((puller.text(layer, manifest::LONGEST).await?, name))
        }
        None => None,
    };
    let signature = match of(&[SIGNATURE_LAYER]).0 {
        Some(layer) => Some(puller.text(layer, LONGEST_SIGNATURE).await?),
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
    client: &'a Client,
    reference: &'a Reference,
    place: &'a str,
}

impl Puller<'_> {
    async fn text(&self, layer: &OciDescriptor, most: u64) -> Result<String, SourceError> {
        let bytes = self.blob(layer, most).await?;
        String::from_utf8(bytes)
            .map_err(|_| SourceError::unreadable(self.place, format!("{} is not UTF-8", layer.digest)))
    }

    /// A blob that has its digest.
    async fn blob(&self, layer: &OciDescriptor, most: u64) -> Result<Vec<u8>, SourceError> {
        let bad =
            |e: &dyn std::error::Error| SourceError::unreadable(self.place, with_causes(e.to_string(), e));
        let long = || SourceError::Long { place: self.place.to_owned(), most };
        let promised = layer.digest.strip_prefix("sha256:").filter(|d| is_sha256(d));
        let Some(promised) = promised else {
            return Err(SourceError::unreadable(self.place, format!("{} is no sha256 digest", layer.digest)));
        };
        if u64::try_from(layer.size).unwrap_or(u64::MAX) > most {
            return Err(long());
        }
        let mut sent = self.client.pull_blob_stream(self.reference, layer).await.map_err(|e| bad(&e))?;
        let mut bytes = Vec::new();
        while let Some(piece) = sent.stream.next().await {
            let piece = piece.map_err(|e| bad(&e))?;
            if (bytes.len() + piece.len()) as u64 > most {
                return Err(long());
            }
            bytes.extend_from_slice(&piece);
        }
        let found = sha256(&bytes);
        if found != promised {
            return Err(SourceError::Digest {
                place: format!("a layer of {}", self.place),
                promised: promised.to_owned(),
                found,
            });
        }
        Ok(bytes)
    }
}
