//! A real registry on this machine: what was pushed by an OCI client is imported, by tag and by digest; what it has damaged
//! is refused.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hotcell_images::source::HOST_ARCHITECTURE;
use hotcell_images::{Digest, Image, Limits, Source, Store, StoreError, import};
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference, RegistryOperation};

/// The registry, which ends with this.
struct Registry {
    child: Child,
    address: String,
    dir: tempfile::TempDir,
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Registry {
    fn start() -> Option<Self> {
        let program =
            ["/usr/bin/docker-registry", "/usr/bin/registry"].map(Path::new).into_iter().find(|p| p.exists());
        let Some(program) = program else {
            println!("skipped: no docker-registry; install it");
            return None;
        };
        // A port that somebody takes meanwhile is tried again.
        for _ in 0..10 {
            let dir = tempfile::tempdir().unwrap();
            let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
            let config = dir.path().join("config.yml");
            let root = dir.path().join("data");
            let text = format!(
                "version: 0.1\nlog: {{level: error}}\nstorage:\n  filesystem: {{rootdirectory: {}}}\nhttp: {{addr: '{address}'}}\n",
                root.display()
            );
            std::fs::write(&config, text).unwrap();
            let mut child = Command::new(program)
                .arg("serve")
                .arg(&config)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let until = Instant::now() + Duration::from_secs(20);
            while Instant::now() < until && child.try_wait().unwrap().is_none() {
                if std::net::TcpStream::connect(&address).is_ok() {
                    return Some(Self { child, address, dir });
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        panic!("the registry does not start");
    }

    fn name(&self, rest: &str) -> String {
        format!("{}/{rest}", self.address)
    }

    /// Pushes an index of an image for this host and one for another; the digests of the index and of the manifest.
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

    /// The registry's own file of a blob.
    fn file(&self, digest: &Digest) -> PathBuf {
        let hex = digest.hex();
        self.dir.path().join(format!("data/docker/registry/v2/blobs/sha256/{}/{hex}/data", &hex[..2]))
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
fn what_was_pushed_is_imported() {
    let Some(registry) = Registry::start() else { return };
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
    // By digest; the layers that are here are not fetched again.
    std::fs::remove_file(registry.file(&Digest::of(&layers[0]))).unwrap();
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
fn what_a_registry_has_damaged_is_refused() {
    let Some(registry) = Registry::start() else { return };
    let layers = [layer("a", b"first"), layer("b", b"second")];
    registry.push("image:1", &layers);
    let file = registry.file(&Digest::of(&layers[1]));
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
fn a_registry_that_is_not_there_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    // It takes connections and closes them.
    let closing = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = closing.local_addr().unwrap();
    std::thread::spawn(move || closing.incoming().for_each(drop));
    for name in [format!("oci://{address}/a:1"), "oci://python".to_owned()] {
        let error = import(&store, "x", &Source::Registry(name.clone()), &Limits::default()).unwrap_err();
        assert!(error.to_string().starts_with(&name), "{error}");
    }
}
