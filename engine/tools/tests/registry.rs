//! A real registry on this machine: artifacts pushed by an OCI client are fetched by tag and by digest;
//! damaged artifacts, and those that are not components, are refused.

use std::path::Path;

use hotcell_registry::Registry;
use hotcell_tools::install::cosign::PrivateKey;
use hotcell_tools::install::signature::Key;
use hotcell_tools::install::sources::oci::{Artifact, MANIFEST_LAYER, SIGNATURE_LAYER};
use hotcell_tools::install::sources::publish::publish;
use hotcell_tools::install::sources::{Fetched, Source, SourceError, sha256};
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference, RegistryOperation};

/// A registry to push artifacts to.
struct Pushed(Registry);

impl Pushed {
    fn start() -> Option<Self> {
        Registry::start().map(Self)
    }

    /// Pushes an artifact with these layers; returns the digest of its manifest.
    fn push(&self, name: &str, layers: &[(&str, &[u8])]) -> String {
        self.push_with(name, layers, &serde_json::json!({}))
    }

    /// Puts a signature beside an artifact, as cosign does.
    fn sign(&self, name: &str, digest: &str, payload: &[u8], signature: &str) {
        let layer = ("application/vnd.dev.cosign.simplesigning.v1+json", payload);
        let annotations = serde_json::json!({ "dev.cosignproject.cosign/signature": signature });
        self.push_with(&format!("{name}:sha256-{digest}.sig"), &[layer], &annotations);
    }

    fn push_with(&self, name: &str, layers: &[(&str, &[u8])], annotations: &serde_json::Value) -> String {
        let row = |kind: &str, bytes: &[u8]| serde_json::json!({ "mediaType": kind, "digest": format!("sha256:{}", sha256(bytes)), "size": bytes.len(), "annotations": annotations });
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
fn pushed_component_is_fetched_and_pinned() {
    let Some(registry) = Pushed::start() else { return };
    let large = vec![7; 3 << 20];
    let digest = registry.push("some/my-tool:one", &[(WASM, &large)]);
    let fetched = registry.fetch("some/my-tool:one").unwrap();
    assert_eq!((&fetched.wasm, fetched.name.as_str()), (&large, "my-tool"));
    assert_eq!(fetched.pinned, format!("oci://{}/some/my-tool@sha256:{digest}", registry.0.address));
    assert_eq!(fetch(&fetched.pinned).unwrap(), fetched, "by digest it is the same");
    // A moved tag gives other contents; the pinned digest still gives the old ones.
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
fn damaged_registry_artifact_is_refused() {
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
    // The registry serves another manifest than the requested one.
    let text = std::fs::read_to_string(registry.0.file(&digest)).unwrap();
    std::fs::write(registry.0.file(&digest), text.replace("application/wasm", "application/WASM")).unwrap();
    assert!(registry.fetch(&format!("changed@sha256:{digest}")).is_err());
}

#[test]
fn unreachable_registry_is_named() {
    let down = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = fetch(&format!("oci://{down}/tool:1")).unwrap_err().to_string();
    assert!(error.contains(&down.to_string()) && error.to_lowercase().contains("refused"), "{error}");
}

/// Runs `openssl`, which is independent of this code, and returns its output.
fn openssl(arguments: &[&str], input: &[u8]) -> Vec<u8> {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let mut command = Command::new("openssl");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{arguments:?}");
    output.stdout
}

/// A pair of keys as files: the private one, and what vouches.
fn pair(folder: &Path, name: &str) -> (std::path::PathBuf, Key) {
    let (private, public) = (folder.join(format!("{name}.pem")), folder.join(format!("{name}.pub.pem")));
    let (key, out) = (private.to_str().unwrap(), public.to_str().unwrap());
    openssl(&["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", key], b"");
    openssl(&["pkey", "-in", key, "-pubout", "-out", out], b"");
    (private, Key::parse(out, Path::new("/")).unwrap())
}

#[test]
fn published_component_verifies_by_signature() {
    let Some(registry) = Pushed::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let ((private, key), (_, other)) = (pair(dir.path(), "mine"), pair(dir.path(), "other"));
    let private = PrivateKey::read(&private).unwrap();
    let name = format!("{}/some/tool:one", registry.0.address);
    let artifact = Artifact::parse(&name).unwrap();
    let fetched = Fetched {
        wasm: vec![7; 3 << 20],
        manifest: Some(("[plugin]\nname = \"x\"\n".to_owned(), "plugin.toml".into())),
        signature: Some("minisign's".to_owned()),
        name: "tool".to_owned(),
        pinned: String::new(),
    };
    let publish =
        |key: Option<&PrivateKey>| runtime().block_on(publish(&artifact, &fetched, key, None)).unwrap();
    let unsigned = publish(None);
    assert_eq!(unsigned.signature, None);
    let source = Source::parse(format!("oci://{name}").as_ref(), Path::new("/")).unwrap();
    let got = runtime().block_on(source.fetch()).unwrap();
    assert_eq!(
        (&got.wasm, &got.signature, &got.pinned),
        (&fetched.wasm, &fetched.signature, &unsigned.pinned)
    );
    assert_eq!(got.manifest.as_ref().unwrap().0, fetched.manifest.as_ref().unwrap().0);
    let check = |got: &Fetched, key: &Key| {
        runtime().block_on(source.check(got, key, None)).map_err(|error| error.to_string())
    };
    let missing = check(&got, &key).unwrap_err();
    assert!(missing.contains(".sig") && missing.contains("404"), "{missing}");
    // Signed afterwards, the same artifact; twice is as good as once.
    for _ in 0..2 {
        let signed = publish(Some(&private));
        assert_eq!(signed.pinned, unsigned.pinned, "the artifact is the same");
        assert_eq!(check(&got, &key), Ok(()));
    }
    assert!(check(&got, &other).unwrap_err().contains("another key"));
    // Of another artifact it is not a signature, whatever its tag is.
    let digest = got.pinned.rsplit_once("sha256:").unwrap().1.to_owned();
    let newer = registry.push("some/tool:two", &[(WASM, b"newer")]);
    let payload = private.sign("a.org/x", &digest).unwrap();
    registry.sign("some/tool", &newer, &payload.payload, &payload.signature);
    let two = registry.fetch("some/tool:two").unwrap();
    assert!(check(&two, &key).unwrap_err().contains("not this artifact"));
    // Files are signed otherwise.
    let file = dir.path().join("a.wasm");
    std::fs::write(&file, "x").unwrap();
    let local = Source::parse(file.as_os_str(), Path::new("/")).unwrap();
    let fetched = runtime().block_on(local.fetch()).unwrap();
    let told = runtime().block_on(local.check(&fetched, &key, None)).unwrap_err().to_string();
    assert!(told.contains("minisign"), "{told}");
}

/// As `cosign sign --key` leaves it: another's document, with more in it, signed by openssl.
#[test]
fn openssl_cosign_signature_verifies() {
    let Some(registry) = Pushed::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (private, key) = pair(dir.path(), "mine");
    let digest = registry.push("tool:one", &[(WASM, b"component")]);
    let payload = format!(
        r#"{{"critical":{{"identity":{{"docker-reference":"{}/tool"}},"image":{{"docker-manifest-digest":"sha256:{digest}"}},"type":"cosign container image signature"}},"optional":{{"creator":"cosign/v2"}}}}"#,
        registry.0.address
    );
    let signature = openssl(&["dgst", "-sha256", "-sign", private.to_str().unwrap()], payload.as_bytes());
    let signature = base64(&signature);
    registry.sign("tool", &digest, payload.as_bytes(), &signature);
    let source = format!("oci://{}/tool:one", registry.0.address);
    let source = Source::parse(source.as_ref(), Path::new("/")).unwrap();
    let got = runtime().block_on(source.fetch()).unwrap();
    runtime().block_on(source.check(&got, &key, None)).unwrap();
    // The document is damaged in the registry.
    std::fs::write(registry.0.file(&sha256(payload.as_bytes())), payload.replace("cosign/v2", "cosign/v3"))
        .unwrap();
    assert!(runtime().block_on(source.check(&got, &key, None)).is_err());
    // And its annotation.
    registry.sign("tool", &digest, b"{}", &signature);
    assert!(runtime().block_on(source.check(&got, &key, None)).is_err());
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
