use super::*;
use std::os::unix::fs::PermissionsExt;

/// Makes an archive with one file.
fn archive(name: &str, text: &str) -> Vec<u8> {
    let mut out = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(text.len() as u64);
    header.set_mode(0o755);
    out.append_data(&mut header, name, text.as_bytes()).unwrap();
    out.into_inner().unwrap()
}

fn add(store: &Store, name: &str, files: &[(&str, &str)]) -> Image {
    let mut import = store.begin().unwrap();
    let layers: Vec<Digest> = files
        .iter()
        .map(|(file, text)| {
            import.layer("layer", &archive(file, text)[..], None, &Limits::default()).unwrap()
        })
        .collect();
    let config = Config::default();
    let digest = Digest::of(name.as_bytes());
    let named = Named { name: name.into(), source: "a test".into(), digest, config, notes: Vec::new() };
    import.finish(named, layers).unwrap()
}

fn layers(store: &Store) -> usize {
    let entries = std::fs::read_dir(store.path.join(LAYERS)).unwrap();
    entries.filter(|e| e.as_ref().unwrap().file_type().unwrap().is_dir()).count()
}

#[test]
fn images_share_layers_and_keep_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("images")).unwrap();
    assert_eq!(store.path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    let base = ("usr/bin/python3", "base");
    let one = add(&store, "one", &[("etc/one", "1"), base]);
    add(&store, "two", &[("etc/two", "2"), base]);
    assert_eq!(layers(&store), 3);
    assert_eq!((one.languages.as_slice(), one.bytes), (&["python".to_owned()][..], 5));
    let top: Vec<_> = one.top.iter().map(|t| (t.name.as_str(), t.kind)).collect();
    assert_eq!(top, [("etc", TopKind::Folder), ("usr", TopKind::Folder)]);
    assert_eq!(store.get("one").unwrap(), one);
    assert_eq!(store.list().unwrap().len(), 2);
    store.remove("one").unwrap();
    assert_eq!(layers(&store), 2, "two has the base still");
    assert!(store.hold("two").unwrap().layers.iter().all(|l| l.is_dir()));
    assert!(matches!(store.remove("one"), Err(StoreError::Unknown(_))));
    // A new image replaces the one of the same name.
    add(&store, "two", &[("etc/three", "3")]);
    assert_eq!(layers(&store), 1);
}

#[test]
fn held_image_layers_are_not_removed() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    add(&store, "one", &[("a", "1")]);
    let held = store.hold("one").unwrap();
    store.remove("one").unwrap();
    assert!(held.layers[0].join("a").exists());
    drop(held);
    Store::open(dir.path()).unwrap();
    assert_eq!(layers(&store), 0);
}

#[test]
fn remains_of_dead_import_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    add(&store, "one", &[("a", "1")]);
    let below = store.path.join(LAYERS);
    // No process has this id, see `/proc/sys/kernel/pid_max`.
    for name in ["unfinished-4194305-x-1", &"0".repeat(64)] {
        std::fs::create_dir(below.join(name)).unwrap();
    }
    std::fs::write(below.join(format!("{}.about", "1".repeat(64))), "").unwrap();
    let mut mine = store.begin().unwrap();
    let fresh = mine.fresh().unwrap();
    Store::open(dir.path()).unwrap();
    assert_eq!(layers(&store), 4, "somebody adds");
    drop(mine);
    Store::open(dir.path()).unwrap();
    assert_eq!(layers(&store), 2, "this process lives");
    assert!(fresh.exists() && !below.join(format!("{}.about", "1".repeat(64))).exists());
    // A damaged record keeps all layers.
    std::fs::write(store.path.join("two.json"), "{").unwrap();
    std::fs::create_dir(below.join("0".repeat(64))).unwrap();
    Store::open(dir.path()).unwrap();
    assert!(below.join("0".repeat(64)).exists());
    assert!(matches!(store.get("two"), Err(StoreError::Damaged(..))));
    assert_eq!(store.list().unwrap().len(), 1);
}

#[test]
fn layer_with_wrong_digest_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let mut import = store.begin().unwrap();
    let promised = Digest::of(b"something else");
    let bytes = archive("a", "1");
    let error = import.layer("x", &bytes[..], Some(promised), &Limits::default()).unwrap_err().to_string();
    let found = Digest::of(&bytes).to_string();
    assert!(error.contains(&found) && error.contains(&promised.to_string()), "{error}");
    assert!(import.layer("x", &bytes[..600], None, &Limits::default()).is_err());
    assert_eq!(layers(&store), 0);
    assert!(matches!(store.get("../x"), Err(StoreError::Unknown(_))));
}
