use super::*;
use crate::error::StoreError;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, symlink};

/// Makes an archive of files; `-name` is a whiteout.
fn archive(files: &[(&str, &str)]) -> Vec<u8> {
    let mut out = tar::Builder::new(Vec::new());
    for (name, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o755);
        out.append_data(&mut header, name, text.as_bytes()).unwrap();
    }
    out.into_inner().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

/// A layout with an index, an image for this host and one for another platform.
struct Made {
    dir: tempfile::TempDir,
    layers: Vec<Vec<u8>>,
    config: String,
}

impl Made {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("layout/blobs/sha256")).unwrap();
        let layers = vec![
            archive(&[("usr/bin/bash", "#!"), ("etc/old", "x"), ("usr/share/a", "1")]),
            archive(&[("etc/.wh.old", ""), ("usr/share/a", "2")]),
        ];
        let ids: Vec<String> = layers.iter().map(|l| Digest::of(l).to_string()).collect();
        let config = serde_json::json!({
            "architecture": HOST_ARCHITECTURE, "os": "linux",
            "config": { "Env": ["PATH=/usr/bin", "LANG=C", "broken"], "WorkingDir": "/srv", "Cmd": ["bash"] },
            "rootfs": { "type": "layers", "diff_ids": ids },
        });
        let made = Self { dir, layers, config: config.to_string() };
        let manifest = made.manifest();
        made.index(&[(&manifest, "linux", HOST_ARCHITECTURE), (&made.blob(b"{}"), "linux", "other")]);
        made
    }
    fn layout(&self) -> PathBuf {
        self.dir.path().join("layout")
    }
    fn blob(&self, bytes: &[u8]) -> Digest {
        let digest = Digest::of(bytes);
        std::fs::write(self.layout().join(oci::blob(&digest)), bytes).unwrap();
        digest
    }
    /// Compresses the first layer.
    fn manifest(&self) -> Digest {
        let descriptor = |bytes: &[u8]| {
            let digest = self.blob(bytes);
            serde_json::json!({ "mediaType": "x", "digest": digest, "size": bytes.len() })
        };
        let text = serde_json::json!({
            "schemaVersion": 2,
            "config": descriptor(self.config.as_bytes()),
            "layers": [descriptor(&gzip(&self.layers[0])), descriptor(&self.layers[1])],
        });
        self.blob(text.to_string().as_bytes())
    }
    fn index(&self, all: &[(&Digest, &str, &str)]) {
        let row = |(digest, os, architecture): &(&Digest, &str, &str)| {
            serde_json::json!({
                "mediaType": "x", "digest": digest, "size": 1,
                "platform": { "os": os, "architecture": architecture },
                "annotations": { "org.opencontainers.image.ref.name": architecture },
            })
        };
        let rows: Vec<_> = all.iter().map(row).collect();
        let index = serde_json::json!({ "schemaVersion": 2, "manifests": rows });
        std::fs::write(self.layout().join("index.json"), index.to_string()).unwrap();
        std::fs::write(self.layout().join("oci-layout"), "{\"imageLayoutVersion\":\"1.0.0\"}").unwrap();
    }
    fn store(&self) -> Store {
        Store::open(&self.dir.path().join("store")).unwrap()
    }
    fn import(&self, path: &Path) -> Result<Image, StoreError> {
        import(&self.store(), "x", &Source::of(path.as_os_str()), &Limits::default())
    }
    fn packed(&self) -> Vec<u8> {
        let mut out = tar::Builder::new(Vec::new());
        out.append_dir_all(".", self.layout()).unwrap();
        out.into_inner().unwrap()
    }
}

#[test]
fn layout_is_imported() {
    let made = Made::new();
    let image = made.import(&made.layout()).unwrap();
    assert_eq!(image.layers, made.layers.iter().rev().map(|l| Digest::of(l)).collect::<Vec<_>>());
    assert_eq!(image.languages, ["bash"]);
    assert_eq!(image.config.env.len(), 2);
    assert_eq!((image.config.workdir.as_deref(), image.config.command.len()), (Some("/srv"), 1));
    let held = made.store().hold("x").unwrap();
    assert_eq!(std::fs::read_to_string(held.layers[0].join("usr/share/a")).unwrap(), "2");
    assert_eq!(held.layers[0].join("etc/old").metadata().unwrap().rdev(), 0);
    assert_eq!(std::fs::read_to_string(held.layers[1].join("etc/old")).unwrap(), "x");
    // Importing from archives of the layout gives the same layers.
    for (name, bytes) in [("a.tar", made.packed()), ("a.tar.gz", gzip(&made.packed()))] {
        let file = made.dir.path().join(name);
        std::fs::write(&file, bytes).unwrap();
        let again = made.import(&file).unwrap();
        assert_eq!((again.layers, again.digest), (image.layers.clone(), image.digest));
    }
}

#[test]
fn saved_image_is_imported() {
    let made = Made::new();
    let config_name = format!("{}.json", Digest::of(made.config.as_bytes()).hex());
    let rows = serde_json::json!([{
        "Config": config_name, "RepoTags": ["x:1"], "Layers": ["one/layer.tar", "two/layer.tar"],
    }]);
    let pack = |config: &str| {
        let mut out = tar::Builder::new(Vec::new());
        let mut add = |name: &str, bytes: &[u8]| {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            out.append_data(&mut header, name, bytes).unwrap();
        };
        add("kept/layer.tar", &made.layers[0]);
        add("two/layer.tar", &made.layers[1]);
        add(&config_name, config.as_bytes());
        add("manifest.json", rows.to_string().as_bytes());
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        out.append_link(&mut header, "one/layer.tar", "../kept/layer.tar").unwrap();
        let file = made.dir.path().join("saved.tar");
        std::fs::write(&file, out.into_inner().unwrap()).unwrap();
        file
    };
    let image = made.import(&pack(&made.config)).unwrap();
    assert_eq!(image.layers.len(), 2);
    let changed = made.config.replace("/srv", "/etc");
    assert!(matches!(made.import(&pack(&changed)), Err(StoreError::Digest { .. })));
}

#[test]
fn folder_is_imported() {
    let made = Made::new();
    let root = made.dir.path().join("root");
    std::fs::create_dir_all(root.join("bin")).unwrap();
    std::fs::write(root.join("bin/a"), "a").unwrap();
    std::fs::hard_link(root.join("bin/a"), root.join("bin/b")).unwrap();
    std::fs::write(root.join(".wh.name"), "a name").unwrap();
    symlink("/etc/shadow", root.join("out")).unwrap();
    drop(std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap());
    let image = made.import(&root).unwrap();
    let held = made.store().hold("x").unwrap();
    let at = |name: &str| held.layers[0].join(name);
    assert_eq!(at("bin/a").metadata().unwrap().ino(), at("bin/b").metadata().unwrap().ino());
    assert_eq!(std::fs::read_to_string(at(".wh.name")).unwrap(), "a name");
    assert_eq!(at("out").read_link().unwrap(), Path::new("/etc/shadow"));
    assert!(!at("socket").exists() && image.notes.len() == 1, "{:?}", image.notes);
    // Importing the folder again gives the same image.
    let again = import(&made.store(), "y", &Source::of(root.as_os_str()), &Limits::default()).unwrap();
    assert_eq!(again.digest, image.digest);
}

#[test]
fn damaged_image_is_refused_with_both_digests() {
    for part in ["manifest", "config", "layer 0", "layer 1"] {
        let made = Made::new();
        let promised = match part {
            "manifest" => made.manifest(),
            "config" => Digest::of(made.config.as_bytes()),
            "layer 0" => Digest::of(&gzip(&made.layers[0])),
            _ => Digest::of(&made.layers[1]),
        };
        let file = made.layout().join(oci::blob(&promised));
        let mut bytes = std::fs::read(&file).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&file, &bytes).unwrap();
        let error = made.import(&made.layout()).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, StoreError::Digest { .. }), "{part}: {text}");
        assert!(
            text.contains(&promised.to_string()) && text.contains(&Digest::of(&bytes).to_string()),
            "{text}"
        );
        assert!(made.store().list().unwrap().is_empty());
        assert!(!made.store().begin().unwrap().has(&Digest::of(&made.layers[1])), "{part}: nothing is left");
    }
}

#[test]
fn image_for_other_host_is_explained() {
    let made = Made::new();
    let manifest = made.manifest();
    type Row<'a> = (&'a str, Vec<(&'a Digest, &'a str, &'a str)>);
    let rows: [Row<'_>; 4] = [
        ("linux/other", vec![(&manifest, "linux", "other")]),
        ("windows", vec![(&manifest, "windows", HOST_ARCHITECTURE)]),
        ("not in it", vec![]),
        (
            "several",
            vec![(&manifest, "linux", HOST_ARCHITECTURE), (&Digest([1; 32]), "linux", HOST_ARCHITECTURE)],
        ),
    ];
    for (word, all) in rows {
        made.index(&all);
        let error = made.import(&made.layout()).unwrap_err().to_string();
        assert!(error.contains(word), "{word}: {error}");
    }
    let file = made.dir.path().join("file");
    for (word, bytes) in [("neither", &b"text"[..]), ("neither", b""), ("neither", &archive(&[("a", "b")]))] {
        std::fs::write(&file, bytes).unwrap();
        let error = made.import(&file).unwrap_err().to_string();
        assert!(error.contains(word), "{word}: {error}");
    }
    assert!(made.import(Path::new("/nowhere/at/all")).is_err());
    std::fs::write(made.layout().join("index.json"), "[]").unwrap();
    assert!(made.import(&made.layout()).unwrap_err().to_string().contains("cannot be understood"));
}

#[test]
fn layout_blob_link_is_refused() {
    let made = Made::new();
    let blob = made.layout().join(oci::blob(&Digest::of(made.config.as_bytes())));
    let outside = made.dir.path().join("outside");
    std::fs::rename(&blob, &outside).unwrap();
    symlink(&outside, &blob).unwrap();
    assert!(made.import(&made.layout()).is_err());
}

#[test]
fn manifest_is_selected_after_hash() {
    let made = Made::new();
    let with = |which: &str| {
        let mut text = made.layout().into_os_string();
        text.push(which);
        import(&made.store(), "x", &Source::of(&text), &Limits::default())
    };
    assert!(with(&format!("#{HOST_ARCHITECTURE}")).is_ok());
    assert!(with("#missing").unwrap_err().to_string().contains("missing"));
}

#[test]
fn documents_that_readers_take_differently_are_refused() {
    let digest = format!("sha256:{}", "0".repeat(64));
    let one = format!(r#"{{"digest":"{digest}"}}"#);
    for (text, why) in [
        (format!(r#"{{"config":{one},"layers":[{one}],"manifests":[{one}]}}"#), "an index and a manifest"),
        (format!(r#"{{"layers":[{one}],"manifests":[{one}]}}"#), "an index and a manifest"),
        (
            format!(r#"{{"manifests":[{{"digest":"{digest}","annotations":{{"a":"1","a":"2"}}}}]}}"#),
            "\"a\" stands twice",
        ),
        (format!(r#"{{"config":{one},"layers":[{one}],"x":{{"y":1,"\u0079":2}}}}"#), "\"y\" stands twice"),
        // A value that is left out must not end the search.
        (format!(r#"{{"x":1e999,"config":{one},"config":{one},"layers":[{one}]}}"#), "out of range"),
        (format!(r#"{{"x":"\ud800","y":{{"a":1,"a":2}},"layers":[{one}]}}"#), "escape"),
        (
            format!(r#"{{"x":{}{},"y":{{"a":1,"a":2}},"layers":[{one}]}}"#, "[".repeat(200), "]".repeat(200)),
            "recursion limit",
        ),
    ] {
        let read = oci::parse::<Manifest>("x", text.as_bytes()).and_then(|manifest| manifest.check("x"));
        assert!(read.is_err_and(|error| error.to_string().contains(why)), "{text}");
    }
    for text in
        [format!(r#"{{"manifests":[{one},{one}]}}"#), format!(r#"{{"config":{one},"layers":[{one},{one}]}}"#)]
    {
        assert!(
            oci::parse::<Manifest>("x", text.as_bytes()).and_then(|manifest| manifest.check("x")).is_ok()
        );
    }
}

proptest::proptest! {
    /// Documents are hostile input too.
    #[test]
    fn arbitrary_image_documents_cause_no_panic(text in "[\\[\\]{}\":,a-z0-9 ]{0,200}") {
        let _ = oci::parse::<Manifest>("x", text.as_bytes());
        let _ = oci::configuration("x", text.as_bytes());
    }
}
