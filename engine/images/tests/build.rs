//! Builds a small image from the real package archive, as the user who runs the tests.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use hotcell_images::build::build;
use hotcell_images::{Definition, Store};

/// Whether the archive can be reached; without it, the test is skipped with a message.
fn has_apt() -> bool {
    let apt = Path::new("/usr/bin/apt-get").exists();
    if !apt {
        println!("skipped: no apt-get");
    }
    apt
}

#[test]
fn small_image_is_built_once() {
    if !has_apt() {
        return;
    }
    let text = "languages = [\"bash\"]\nlinks = { \"usr/bin/vi\" = \"busybox\", \"usr/bin/bash\" = \"dash\" }\n\
        [debian]\npackages = [\"busybox-static\", \"dash\"]\n";
    let definition = Definition::parse(text, Path::new("small.toml")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let mut lines = Vec::new();
    let built = build(&store, &definition, "small.toml", &mut |line| lines.push(line.to_owned())).unwrap();
    assert!(lines.iter().any(|l| l.starts_with("unpacking 1/")), "{lines:?}");
    let image = &built.image;
    assert_eq!((built.made, image.layers.len(), image.name.as_str()), (1, 1, "small"));
    assert_eq!(image.languages, ["bash"]);
    assert!(image.source.starts_with("small.toml ("), "{}", image.source);
    assert!(image.notes.iter().any(|n| n.contains("dash: ")), "{:?}", image.notes);

    let tree = store.layer(&image.layers[0]);
    let shell = fs::symlink_metadata(tree.join("usr/bin/dash")).unwrap();
    assert_eq!((shell.is_file(), shell.permissions().mode() & 0o7777), (true, 0o755));
    for (link, target) in [("bin", "usr/bin"), ("lib", "usr/lib"), ("usr/bin/vi", "busybox")] {
        assert_eq!(fs::read_link(tree.join(link)).unwrap(), Path::new(target), "{link}");
    }
    // The program interpreter (dynamic loader) that programs name.
    let loader = tree.join("usr").join(if cfg!(target_arch = "x86_64") { "lib64" } else { "lib" });
    assert!(
        fs::read_dir(loader).unwrap().flatten().any(|e| e.file_name().to_string_lossy().starts_with("ld-"))
    );
    assert!(tree.join("etc/debian_version").exists() && !tree.join("usr/share/man").exists());
    let remembered = fs::read_dir(dir.path().join("built")).unwrap().next().unwrap().unwrap();
    let remembered = fs::read_to_string(remembered.path()).unwrap();
    assert!(remembered.contains("\"libc6 2.") && remembered.contains(" sha256:"), "{remembered}");

    let again = build(&store, &definition, "small.toml", &mut |_| {}).unwrap();
    assert_eq!((again.made, &again.image), (0, image));
    let elsewhere = tempfile::tempdir().unwrap();
    let other =
        build(&Store::open(elsewhere.path()).unwrap(), &definition, "small.toml", &mut |_| {}).unwrap();
    assert_eq!((other.made, other.image.digest), (1, image.digest), "the same packages, the same bytes");

    for (wrong, word) in [
        (Definition { path: vec!["/usr/*/none".into()], ..definition.clone() }, "/usr/*/none is 0 folders"),
        (Definition { languages: ["go".into()].into(), ..definition.clone() }, "no program for go"),
        (Definition { packages: vec!["hotcell-no-such".into()], ..definition.clone() }, "hotcell-no-such"),
        (Definition { suite: Some("wheezy".into()), ..definition.clone() }, "bookworm"),
    ] {
        let wrong = Definition { name: "wrong".into(), ..wrong };
        let error = build(&store, &wrong, "wrong.toml", &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
    assert_eq!(store.list().unwrap(), [built.image]);
}
