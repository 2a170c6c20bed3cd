//! A real registry on this machine: what was pushed by an OCI client is fetched by tag and by digest; what it has damaged, and
//! what is no component, is refused.

use std::path::Path;

use hotcell_registry::Registry;
use hotcell_tools::sources::oci::{MANIFEST_LAYER, SIGNATURE_LAYER};
use hotcell_tools::sources::{Fetched, Source, SourceError, sha256};
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference, RegistryOperation};

/// What is pushed to it.
struct Pushed(Registry);

impl Pushed {
    fn start() -> Option<Self> {
        Registry::start().map(Self)
    }

    /// Pushes an artifact of these layers; the digest of its manifest.
    fn push(&self, name: &str, layers: &[(&str, &[u8])]) -> String {
        let row = |kind: &str, bytes: &[u8]| serde_json::json!({ "mediaType": kind, "digest": format!("sha256:{}", sha256(bytes)), "size": bytes.len() });
        let kind = "application/vnd.oci.image.manifest.v1+json";
        let rows: Vec<_> = layers.iter().map(|(kind, bytes)| row(kind, bytes)).collect();
        let manifest = serde_json::json!({
            "schemaVersion": 2, "mediaType": kind, "config": row("application/vnd.wasm.config.v0+json", b"{}"), "layers": rows,
        })
        .to_string();
        let reference: Reference = format!("{}/{name}", self.0.address).parse().unwrap();
        let work = async {
            let client =
                Client::new(ClientConfig { protocol: ClientProtocol::Http, ..ClientConfig::default() });
            client.auth(&reference, &RegistryAuth::Anonymous, RegistryOperation::Push).await.unwrap();
            for bytes in layers.iter().map(|(_, bytes)| *bytes).chain([&b"{}"[..]]) {
                let digest = format!("sha256:{}", sha256(bytes));
                client.push_blob(&reference, bytes.to_vec(), &digest).await.unwrap();
            }
            let manifest = manifest.clone().into_bytes();
            client.push_manifest_raw(&reference, manifest, kind.parse().unwrap()).await.unwrap();
        };
        let _ = rustls::crypto::ring::default_provider().install_default();
        runtime().block_on(work);
        sha256(manifest.as_bytes())
    }

    fn fetch(&self, name: &str) -> Result<Fetched, SourceError> {
        fetch(&format!("oci://{}/{name}", self.0.address))
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn fetch(text: &str) -> Result<Fetched, SourceError> {
    let source = Source::parse(text.as_ref(), Path::new("/"))?;
    runtime().block_on(source.fetch())
}

const WASM: &str = "application/wasm";

#[test]
fn what_was_pushed_is_fetched_and_pinned() {
    let Some(registry) = Pushed::start() else { return };
    let large = vec![7; 3 << 20];
    let digest = registry.push("some/my-tool:one", &[(WASM, &large)]);
    let fetched = registry.fetch("some/my-tool:one").unwrap();
    assert_eq!((&fetched.wasm, fetched.name.as_str()), (&large, "my-tool"));
    assert_eq!(fetched.pinned, format!("oci://{}/some/my-tool@sha256:{digest}", registry.0.address));
    assert_eq!(fetch(&fetched.pinned).unwrap(), fetched, "by digest it is the same");
    // A tag that moves is something else, what was pinned stays.
    registry.push("some/my-tool:one", &[(WASM, b"newer")]);
    assert_eq!(registry.fetch("some/my-tool:one").unwrap().wasm, b"newer");
    assert_eq!(fetch(&fetched.pinned).unwrap(), fetched);
    let whole = [
        ("application/vnd.wasm.content.layer.v1+wasm", &b"other type"[..]),
        (MANIFEST_LAYER, b"[plugin]\nname = \"x\"\n"),
        (SIGNATURE_LAYER, b"signed"),
    ];
    registry.push("whole", &whole);
    let fetched = registry.fetch("whole").unwrap();
    assert_eq!((fetched.wasm.as_slice(), fetched.signature.as_deref()), (&b"other type"[..], Some("signed")));
    assert_eq!(fetched.manifest.unwrap().0, "[plugin]\nname = \"x\"\n");
}

#[test]
fn what_is_damaged_or_no_component_is_refused() {
    let Some(registry) = Pushed::start() else { return };
    registry.push("text", &[("text/plain", b"hello")]);
    registry.push("two", &[(WASM, b"a"), (WASM, b"b")]);
    for (name, word) in [
        ("text", "no layer of the type"),
        ("two", "more than one component"),
        ("none", "none"),
        (&format!("two@sha256:{}", "0".repeat(64)), "two@sha256"),
    ] {
        let error = registry.fetch(name).expect_err(name).to_string();
        assert!(error.contains(word), "{name}: {error}");
    }
    let digest = registry.push("changed", &[(WASM, b"component")]);
    std::fs::write(registry.0.file(&sha256(b"component")), "COMPONENT").unwrap();
    let error = registry.fetch("changed").unwrap_err();
    assert!(error.to_string().to_lowercase().contains("digest"), "{error}");
    // The registry serves another manifest than the one that was asked for.
    let text = std::fs::read_to_string(registry.0.file(&digest)).unwrap();
    std::fs::write(registry.0.file(&digest), text.replace("application/wasm", "application/WASM")).unwrap();
    assert!(registry.fetch(&format!("changed@sha256:{digest}")).is_err());
}

#[test]
fn a_registry_that_is_down_is_named() {
    let down = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = fetch(&format!("oci://{down}/tool:1")).unwrap_err().to_string();
    assert!(error.contains(&down.to_string()) && error.to_lowercase().contains("refused"), "{error}");
}
