//! Imports from a real registry on this machine: an image pushed by an OCI client is imported by tag and by
//! digest, and damaged data is refused.

use std::io::{Read, Write};
use std::net::TcpListener;

use hotcell_images::source::HOST_ARCHITECTURE;
use hotcell_images::{Digest, Image, Limits, Source, Store, StoreError, import};
use hotcell_registry::Registry;
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference, RegistryOperation};

/// A registry with pushed images.
struct Pushed(Registry);

impl Pushed {
    fn start() -> Option<Self> {
        Registry::start().map(Self)
    }

    fn name(&self, rest: &str) -> String {
        format!("{}/{rest}", self.0.address)
    }

    /// Pushes an index of an image for this host and one for another platform. Returns the digests of the
    /// index and of the manifest.
    fn push(&self, name: &str, layers: &[Vec<u8>]) -> (Digest, Digest) {
        let config = serde_json::json!({
            "architecture": HOST_ARCHITECTURE, "os": "linux",
            "rootfs": { "type": "layers", "diff_ids": layers.iter().map(|l| Digest::of(l)).collect::<Vec<_>>() },
        })
        .to_string();
        let row = |bytes: &[u8], kind: &str| serde_json::json!({ "mediaType": kind, "digest": Digest::of(bytes), "size": bytes.len() });
        let rows: Vec<_> = layers.iter().map(|l| row(l, "application/vnd.oci.image.layer.v1.tar")).collect();
        let manifest = serde_json::json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": row(config.as_bytes(), "application/vnd.oci.image.config.v1+json"),
            "layers": rows,
        })
        .to_string();
        let mut here = row(manifest.as_bytes(), "application/vnd.oci.image.manifest.v1+json");
        here["platform"] = serde_json::json!({ "os": "linux", "architecture": HOST_ARCHITECTURE });
        let mut there = here.clone();
        there["platform"]["architecture"] = "other".into();
        let kind = "application/vnd.oci.image.index.v1+json";
        let index = serde_json::json!({ "schemaVersion": 2, "mediaType": kind, "manifests": [there, here] })
            .to_string();
        let reference: Reference = self.name(name).parse().unwrap();
        let digest = Digest::of(index.as_bytes());
        let work = async {
            let client =
                Client::new(ClientConfig { protocol: ClientProtocol::Http, ..ClientConfig::default() });
            client.auth(&reference, &RegistryAuth::Anonymous, RegistryOperation::Push).await.unwrap();
            for blob in layers.iter().map(Vec::as_slice).chain([config.as_bytes()]) {
                let digest = Digest::of(blob).to_string();
                client.push_blob(&reference, blob.to_vec(), &digest).await.unwrap();
            }
            let put = async |reference: &Reference, text: &str, kind: &str| {
                client
                    .push_manifest_raw(reference, text.as_bytes().to_vec(), kind.parse().unwrap())
                    .await
                    .unwrap();
            };
            let own = reference.clone_with_digest(Digest::of(manifest.as_bytes()).to_string());
            put(&own, &manifest, "application/vnd.oci.image.manifest.v1+json").await;
            put(&reference, &index, kind).await;
        };
        let _ = rustls::crypto::ring::default_provider().install_default();
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work);
        (digest, Digest::of(manifest.as_bytes()))
    }
}

fn layer(name: &str, bytes: &[u8]) -> Vec<u8> {
    let mut out = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes.len() as u64);
    header.set_mode(0o755);
    out.append_data(&mut header, name, bytes).unwrap();
    out.into_inner().unwrap()
}

#[test]
fn pushed_image_is_imported() {
    let Some(registry) = Pushed::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let layers = [layer("usr/bin/python3", &vec![7; 3 << 20]), layer("etc/a", b"upper")];
    let (index, manifest) = registry.push("some/image:one", &layers);
    let get = |name: &str| -> Result<Image, StoreError> {
        import(
            &store,
            "x",
            &Source::of(format!("oci://{}", registry.name(name)).as_ref()),
            &Limits::default(),
        )
    };
    let image = get("some/image:one").unwrap();
    assert_eq!((image.digest, image.layers.len()), (manifest, 2));
    assert_eq!(image.languages, ["python"]);
    let held = store.hold("x").unwrap();
    assert_eq!(std::fs::read(held.layers[0].join("etc/a")).unwrap(), b"upper");
    drop(held);
    // By digest; existing layers are not fetched again.
    std::fs::remove_file(registry.0.file(&Digest::of(&layers[0]).hex())).unwrap();
    for digest in [index, manifest] {
        let again = get(&format!("some/image@{digest}")).unwrap();
        assert_eq!((again.digest, &again.layers), (manifest, &image.layers));
    }
    assert!(get("some/image:two").unwrap_err().to_string().contains("some/image:two"));
    assert!(get(&format!("some/image@{}", Digest::of(b"other"))).is_err());
    assert_eq!(
        std::fs::read_dir(dir.path().join("layers"))
            .unwrap()
            .filter(|e| { e.as_ref().unwrap().file_name().to_string_lossy().starts_with("unfinished") })
            .count(),
        0
    );
}

#[test]
fn damaged_registry_layer_is_refused() {
    let Some(registry) = Pushed::start() else { return };
    let layers = [layer("a", b"first"), layer("b", b"second")];
    registry.push("image:1", &layers);
    let file = registry.0.file(&Digest::of(&layers[1]).hex());
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[520] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let name = format!("oci://{}", registry.name("image:1"));
    let error = import(&store, "x", &Source::Registry(name), &Limits::default()).unwrap_err().to_string();
    assert!(error.contains(&Digest::of(&layers[1]).to_string()), "{error}");
    assert!(store.list().unwrap().is_empty());
}

#[test]
fn unreachable_registry_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    // A registry that accepts connections and closes them.
    let closing = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = closing.local_addr().unwrap();
    std::thread::spawn(move || closing.incoming().for_each(drop));
    for name in [format!("oci://{address}/a:1"), "oci://python".to_owned()] {
        let error = import(&store, "x", &Source::Registry(name.clone()), &Limits::default()).unwrap_err();
        assert!(error.to_string().starts_with(&name), "{error}");
    }
}

#[test]
fn endless_manifest_is_dropped_at_its_limit() {
    const MIB: usize = 1 << 20;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; 1];
        stream.read_exact(&mut head).unwrap();
        let piece = [b"10000\r\n".as_slice(), &[b' '; 1 << 16], b"\r\n"].concat();
        let mut sent = 0;
        let mut answer = stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
        while answer.is_ok() && sent < 64 * MIB {
            answer = stream.write_all(&piece);
            sent += piece.len();
        }
        sent
    });
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let name = format!("oci://{address}/a:1");
    let error = import(&store, "x", &Source::Registry(name), &Limits::default()).unwrap_err().to_string();
    assert!(error.contains("longer than 8388608 bytes"), "{error}");
    // Buffers of the operating system hold more than the client took.
    assert!(server.join().unwrap() < 64 * MIB);
}
