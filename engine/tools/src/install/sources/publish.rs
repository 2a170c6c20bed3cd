//! Publishing: a component with its manifest as an artifact of a registry, as [`super::oci`] fetches it, and its signature beside it.

use hotcell_oci::Repository;
use serde_json::{Value, json};

use super::oci::{
    Artifact, COMPONENT, MANIFEST_KIND, MANIFEST_LAYER, MAX_DOCUMENT_BYTES, Patience, SIGNATURE_LAYER,
};
use super::{Fetched, SourceError, sha256};
use crate::install::cosign::{PrivateKey, tag};

/// The type of the configuration of an artifact.
const CONFIG: &str = "application/vnd.wasm.config.v0+json";
/// The type of the configuration of a signature.
const SIGNATURE_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
/// Maximum number of signatures of one artifact.
const MAX_SIGNATURES: usize = 16;

/// Result of [`publish`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// `oci://HOST/NAME@sha256:…`.
    pub pinned: String,
    /// The tag of its signature.
    pub signature: Option<String>,
}

/// Sends a component with what lies beside it, and signs it. `credentials` are `NAME:PASSWORD` in base64.
///
/// # Errors
/// [`SourceError`].
pub async fn publish(
    artifact: &Artifact,
    fetched: &Fetched,
    key: Option<&PrivateKey>,
    credentials: Option<&str>,
) -> Result<Published, SourceError> {
    let (patience, place) = (Patience::default(), artifact.to_string());
    let work = Box::pin(send(artifact, &place, fetched, key, credentials, patience));
    let done = tokio::time::timeout(patience.whole, work).await;
    done.unwrap_or_else(|_| {
        Err(SourceError::unreadable(&place, format!("it does not take it within {:?}", patience.whole)))
    })
}

async fn send(
    artifact: &Artifact,
    place: &str,
    fetched: &Fetched,
    key: Option<&PrivateKey>,
    credentials: Option<&str>,
    patience: Patience,
) -> Result<Published, SourceError> {
    let bad = |why: String| SourceError::unreadable(place, why);
    if artifact.digest().is_some() {
        return Err(bad("a digest is what publishing comes to; name a tag".to_owned()));
    }
    let name = artifact.repository().to_owned();
    let to = Repository::new(artifact.host(), &name, place, patience.timeouts())?;
    let mut to = to.with_credentials(credentials)?;
    let mut blobs = vec![(COMPONENT[0], fetched.wasm.as_slice())];
    if let Some((text, _)) = &fetched.manifest {
        blobs.push((MANIFEST_LAYER, text.as_bytes()));
    }
    if let Some(text) = &fetched.signature {
        blobs.push((SIGNATURE_LAYER, text.as_bytes()));
    }
    let mut layers = Vec::new();
    for (kind, bytes) in blobs {
        to.push_blob(bytes).await?;
        layers.push(layer(kind, bytes));
    }
    let config =
        json!({ "architecture": "wasm", "os": "wasip2", "layerDigests": [layers[0]["digest"]] }).to_string();
    to.push_blob(config.as_bytes()).await?;
    let manifest = document(&layer(CONFIG, config.as_bytes()), &layers);
    let digest = to.push_manifest(artifact.tag(), MANIFEST_KIND, &manifest).await?;
    let signature = match key {
        Some(key) => Some(sign(&mut to, artifact, key, &digest).await?),
        None => None,
    };
    Ok(Published { pinned: format!("{}@sha256:{digest}", artifact.place()), signature })
}

/// Adds a signature to the existing ones, and returns their tag.
async fn sign(
    to: &mut Repository<'_>,
    artifact: &Artifact,
    key: &PrivateKey,
    digest: &str,
) -> Result<String, SourceError> {
    let bad = |why: String| SourceError::unreadable(artifact.place(), why);
    let repository = format!("{}/{}", artifact.registry(), artifact.repository());
    let signed = key.sign(&repository, digest).map_err(bad)?;
    let tag = tag(digest);
    let before = to.manifest(&tag, &[MANIFEST_KIND], MAX_DOCUMENT_BYTES).await.ok();
    let before = before.and_then(|(text, _)| serde_json::from_slice::<Value>(&text).ok());
    let mut layers: Vec<Value> =
        before.as_ref().and_then(|document| document["layers"].as_array()).cloned().unwrap_or_default();
    layers.truncate(MAX_SIGNATURES - 1);
    layers.push(signed.layer());
    to.push_blob(&signed.payload).await?;
    let diffs: Vec<&Value> = layers.iter().map(|layer| &layer["digest"]).collect();
    let config = json!({
        "architecture": "", "os": "", "config": {}, "rootfs": { "type": "layers", "diff_ids": diffs },
    });
    let config = config.to_string();
    to.push_blob(config.as_bytes()).await?;
    to.push_manifest(&tag, MANIFEST_KIND, &document(&layer(SIGNATURE_CONFIG, config.as_bytes()), &layers))
        .await?;
    Ok(tag)
}

fn layer(kind: &str, bytes: &[u8]) -> Value {
    json!({ "mediaType": kind, "digest": format!("sha256:{}", sha256(bytes)), "size": bytes.len() })
}

fn document(config: &Value, layers: &[Value]) -> String {
    json!({ "schemaVersion": 2, "mediaType": MANIFEST_KIND, "config": config, "layers": layers }).to_string()
}
