use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};

use super::*;

/// Writes archives, including those that no honest program writes.
#[derive(Default)]
struct Archive(Vec<u8>);

impl Archive {
    fn raw(mut self, kind: u8, name: &[u8], link: &[u8], mode: u32, bytes: &[u8]) -> Self {
        if name.len() > 100 || link.len() > 100 {
            let mut records = Vec::new();
            for (key, value) in [(&b"path"[..], name), (b"linkpath", link)] {
                if !value.is_empty() {
                    records.extend(record(key, value));
                }
            }
            self = self.put(b'x', b"pax", b"", 0o644, &records, (0, 0));
        }
        let (name, link) = (&name[..name.len().min(100)], &link[..link.len().min(100)]);
        self.put(kind, name, link, mode, bytes, (0, 0))
    }

    fn put(mut self, kind: u8, name: &[u8], link: &[u8], mode: u32, bytes: &[u8], owner: (u64, u64)) -> Self {
        let mut header = tar::Header::new_ustar();
        let raw = header.as_old_mut();
        raw.name[..name.len()].copy_from_slice(name);
        raw.linkname[..link.len()].copy_from_slice(link);
        raw.linkflag = [kind];
        header.set_mode(mode);
        header.set_size(bytes.len() as u64);
        header.set_mtime(1_000_000);
        header.set_uid(owner.0);
        header.set_gid(owner.1);
        if matches!(kind, b'3' | b'4') {
            header.set_device_major(1).unwrap();
            header.set_device_minor(3).unwrap();
        }
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    fn file(self, name: &str, bytes: &[u8]) -> Self {
        self.raw(b'0', name.as_bytes(), b"", 0o644, bytes)
    }
    fn folder(self, name: &str) -> Self {
        self.raw(b'5', name.as_bytes(), b"", 0o755, b"")
    }
    fn link(self, name: &str, says: &str) -> Self {
        self.raw(b'2', name.as_bytes(), says.as_bytes(), 0o777, b"")
    }
    fn hard(self, name: &str, of: &str) -> Self {
        self.raw(b'1', name.as_bytes(), of.as_bytes(), 0o644, b"")
    }
    fn end(mut self) -> Vec<u8> {
        self.0.extend([0; 1024]);
        self.0
    }
}

fn record(key: &[u8], value: &[u8]) -> Vec<u8> {
    // The length includes its own digits.
    let rest = key.len() + value.len() + 3;
    let mut length = rest;
    while length.to_string().len() + rest != length {
        length = length.to_string().len() + rest;
    }
    [length.to_string().as_bytes(), b" ", key, b"=", value, b"\n"].concat()
}

fn open(path: &Path) -> OwnedFd {
    std::fs::File::open(path).unwrap().into()
}

/// A target folder, and one beside it that has to stay untouched.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("in")).unwrap();
        std::fs::create_dir(dir.path().join("out")).unwrap();
        std::fs::write(dir.path().join("out/secret"), "untouched").unwrap();
        Self { dir }
    }
    fn inside(&self) -> PathBuf {
        self.dir.path().join("in")
    }
    fn unpack(&self, archive: &[u8], limits: &Limits) -> Result<Unpacked, UnpackError> {
        let result = unpack(archive, open(&self.inside()), limits);
        let outside: Vec<_> =
            std::fs::read_dir(self.dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(outside.len(), 2, "something landed outside: {outside:?}");
        assert_eq!(std::fs::read_dir(self.dir.path().join("out")).unwrap().count(), 1);
        let secret = self.dir.path().join("out/secret");
        assert_eq!(std::fs::read_to_string(&secret).unwrap(), "untouched");
        assert_eq!(std::fs::metadata(secret).unwrap().nlink(), 1);
        result
    }
    /// Paths and entries: a file's text, `/`, `-> target`, `deleted`.
    fn shown(&self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        let mut folders = vec![self.inside()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                let about = entry.metadata().unwrap();
                let name = entry.path().strip_prefix(self.inside()).unwrap().display().to_string();
                let what = if about.is_dir() {
                    folders.push(entry.path());
                    "/".to_owned()
                } else if about.is_symlink() {
                    format!("-> {}", entry.path().read_link().unwrap().display())
                } else if about.file_type().is_char_device() {
                    assert_eq!(about.rdev(), 0);
                    "deleted".to_owned()
                } else {
                    String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap()).into_owned()
                };
                all.insert(name, what);
            }
        }
        all
    }
}

#[test]
fn ordinary_archive_is_unpacked() {
    let place = Place::new();
    let long = format!("{}/file", "d".repeat(120));
    let archive = Archive::default()
        .folder("./")
        .folder("./usr/")
        .file("./usr/a", b"1")
        .file("no/folder/before", b"2")
        .link("b", "/usr/a")
        .hard("c", "usr/a")
        .file(&long, b"3")
        .file("twice", b"first")
        .file("twice", b"second")
        .end();
    let found = place.unpack(&archive, &Limits::default()).unwrap();
    let want = [
        ("usr", "/"),
        ("usr/a", "1"),
        ("no", "/"),
        ("no/folder", "/"),
        ("no/folder/before", "2"),
        ("b", "-> /usr/a"),
        ("c", "1"),
        (&"d".repeat(120), "/"),
        (&long, "3"),
        ("twice", "second"),
    ];
    assert_eq!(place.shown(), want.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect());
    assert_eq!(found.diff_id, Digest::of(&archive));
    assert_eq!(found.archive_bytes, archive.len() as u64);
    let (a, c) = (place.inside().join("usr/a"), place.inside().join("c"));
    assert_eq!(a.metadata().unwrap().ino(), c.metadata().unwrap().ino());
    assert_eq!(a.metadata().unwrap().mtime(), 1_000_000);
}

#[test]
fn entries_pointing_outside_are_refused() {
    let cases: Vec<(&str, Archive)> = vec![
        ("..", Archive::default().file("../out/new", b"x")),
        ("..", Archive::default().file("a/../../out/new", b"x")),
        ("..", Archive::default().file("a/..", b"x")),
        ("absolute", Archive::default().file("/tmp/new", b"x")),
        ("absolute", Archive::default().file("//out/new", b"x")),
        ("link", Archive::default().link("a", "../out").file("a/new", b"x")),
        ("link", Archive::default().link("a", "../out").folder("a/new")),
        ("link", Archive::default().link("a", "../out").link("a/new", "x")),
        ("link", Archive::default().link("a", "../out").raw(b'0', b"a/.wh.secret", b"", 0o644, b"")),
        ("link", Archive::default().link("a", "../out").raw(b'0', b"a/.wh..wh..opq", b"", 0o644, b"")),
        ("link", Archive::default().link("a", "..").link("b", "a/out").file("b/new", b"x")),
        ("link", Archive::default().link("a", "../out").hard("b", "a/secret")),
        ("hard link", Archive::default().hard("b", "../out/secret")),
        ("hard link", Archive::default().hard("b", "/etc/passwd")),
        ("hard link", Archive::default().hard("b", "missing")),
        ("hard link", Archive::default().folder("d").hard("b", "d")),
        ("hard link", Archive::default().hard("b", "b")),
        ("NUL", Archive::default().raw(b'0', &[b"a\0b".as_slice(), &[b'x'; 120]].concat(), b"", 0o644, b"")),
        ("too long", Archive::default().file(&"x".repeat(256), b"")),
        ("too long", Archive::default().file(&"x/".repeat(2500), b"")),
        ("too deep", Archive::default().folder(&"x/".repeat(200))),
        ("deletes", Archive::default().file("a/.wh.", b"")),
        ("deletes", Archive::default().file("a/.wh...", b"")),
        ("neither", Archive::default().raw(b'V', b"volume", b"", 0, b"")),
        ("folder", Archive::default().file("a", b"x").file("a/b", b"x")),
        ("no name", Archive::default().file(".", b"x")),
        ("says nothing", Archive::default().link("a", "")),
    ];
    for (word, archive) in cases {
        let error = Place::new().unpack(&archive.end(), &Limits::default()).unwrap_err().to_string();
        assert!(error.contains(word), "{word}: {error}");
    }
}

/// A link may have any target. A file in its place is not written through it, but replaces the link.
#[test]
fn existing_link_is_replaced_not_followed() {
    let place = Place::new();
    let archive = Archive::default()
        .link("a", "../out/secret")
        .file("a", b"mine")
        .link("d", "../out")
        .folder("d")
        .file("d/new", b"x")
        .folder("e")
        .file("e/old", b"x")
        .link("e", "../out")
        .link("f", "/etc/shadow")
        .hard("g", "f");
    place.unpack(&archive.end(), &Limits::default()).unwrap();
    let shown = place.shown();
    assert_eq!(shown["a"], "mine");
    assert_eq!((shown["d/new"].as_str(), shown["e"].as_str()), ("x", "-> ../out"));
    assert_eq!(shown["g"], "-> /etc/shadow", "a name of the link");
}

#[test]
fn unpacked_files_have_no_special_powers() {
    let place = Place::new();
    let archive = Archive::default()
        .put(b'0', b"su", b"", 0o4755, b"x", (0, 0))
        .put(b'0', b"private", b"", 0o600, b"x", (1000, 100))
        .put(b'5', b"tmp", b"", 0o1777, b"", (0, 0))
        .put(b'5', b"closed", b"", 0o500, b"", (0, 0))
        .file("closed/in", b"x")
        .put(b'3', b"null", b"", 0o666, b"", (0, 0))
        .put(b'4', b"disk", b"", 0o660, b"", (0, 6))
        .put(b'6', b"pipe", b"", 0o644, b"", (0, 0));
    let found = place.unpack(&archive.end(), &Limits::default()).unwrap();
    assert_eq!((found.special, found.setid, found.entries), (3, 1, 8));
    let mode = |name: &str| place.inside().join(name).metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!([mode("su"), mode("private"), mode("tmp"), mode("closed")], [0o755, 0o644, 0o777, 0o755]);
    assert_eq!(place.shown().len(), 5, "no device");
    let me = place.inside().metadata().unwrap().uid();
    assert_eq!(place.inside().join("private").metadata().unwrap().uid(), me);
    let rows: Vec<String> = found.recorded.iter().map(ToString::to_string).collect();
    let want = [
        "- 4755 0 0 - su",
        "- 0600 1000 100 - private",
        "d 1777 0 0 - tmp",
        "d 0500 0 0 - closed",
        "c 0666 0 0 1:3 null",
        "b 0660 0 6 1:3 disk",
        "p 0644 0 0 - pipe",
    ];
    assert_eq!(rows, want);
}

#[test]
fn whiteouts_become_overlay_whiteouts() {
    let place = Place::new();
    let archive = Archive::default()
        .file("a/.wh.gone", b"")
        .file("b/.wh..wh..opq", b"")
        .file("b/new", b"x")
        .file("c/.wh..wh.plnk", b"")
        // In any order, entries of this layer stay and hide those of lower layers.
        .file(".wh.again", b"")
        .file("again/x", b"x")
        .file("before/x", b"x")
        .file(".wh.before", b"")
        .file("kept", b"x")
        .file(".wh.kept", b"");
    let found = place.unpack(&archive.clone_end(), &Limits::default()).unwrap();
    let shown = place.shown();
    assert_eq!(shown["a/gone"], "deleted");
    assert_eq!(shown["kept"], "x");
    assert!(!shown.contains_key("c/.wh..wh.plnk"));
    assert_eq!(found.whiteouts, 5);
    for name in ["b", "again", "before"] {
        let mut value = [0; 8];
        let len =
            rustix::fs::getxattr(place.inside().join(name), "user.overlay.opaque", &mut value[..]).unwrap();
        assert_eq!(&value[..len], b"y", "{name}");
    }
    let names = Place::new();
    names.unpack(&archive.end(), &Limits { whiteouts: false, ..Limits::default() }).unwrap();
    assert!(names.shown().contains_key("a/.wh.gone"));
}

impl Archive {
    fn clone_end(&self) -> Vec<u8> {
        Self(self.0.clone()).end()
    }
}

#[test]
fn unpacking_retains_user_attributes_only() {
    let place = Place::new();
    let records = [
        record(b"SCHILY.xattr.user.mime", b"text"),
        record(b"SCHILY.xattr.user.overlay.redirect", b"/out"),
        record(b"SCHILY.xattr.security.capability", b"x"),
        record(b"SCHILY.xattr.trusted.overlay.opaque", b"y"),
    ]
    .concat();
    let archive = Archive::default().put(b'x', b"pax", b"", 0, &records, (0, 0)).file("a", b"x").end();
    let found = place.unpack(&archive, &Limits::default()).unwrap();
    assert_eq!(found.attributes_dropped, 3);
    let mut names = vec![0; 512];
    let len = rustix::fs::listxattr(place.inside().join("a"), &mut names[..]).unwrap();
    assert_eq!(&names[..len], b"user.mime\0");
}

#[test]
fn limits_hold_while_reading() {
    let many = (0..20).fold(Archive::default(), |a, n| a.file(&format!("f{n}"), b"0123456789")).end();
    let small = Limits { entries: 10, ..Limits::default() };
    assert!(Place::new().unpack(&many, &small).unwrap_err().to_string().contains("10 entries"));
    let small = Limits { bytes: 4096, ..Limits::default() };
    assert!(Place::new().unpack(&many, &small).unwrap_err().to_string().contains("4096 bytes"));
    // An archive whose header claims a wrong size.
    let mut lying = Archive::default().file("a", b"x").0;
    let mut header = tar::Header::from_byte_slice(&lying[..512]).clone();
    header.set_size(1 << 40);
    header.set_cksum();
    lying[..512].copy_from_slice(header.as_bytes());
    assert!(Place::new().unpack(&lying, &Limits::default()).is_err());
    // Endless attributes.
    let endless = record(b"SCHILY.xattr.user.x", &vec![b'x'; 2 << 20]);
    let archive = Archive::default().put(b'x', b"pax", b"", 0, &endless, (0, 0)).file("a", b"").end();
    assert!(
        Place::new().unpack(&archive, &Limits::default()).unwrap_err().to_string().contains("attributes")
    );
    // Ten thousand nested folders, one entry after the other.
    let mut deep = Archive::default();
    for depth in 1..10_000 {
        deep = deep.folder(&"d/".repeat(depth.min(2000)));
    }
    assert!(
        Place::new().unpack(&deep.end(), &Limits::default()).unwrap_err().to_string().contains("too deep")
    );
}

#[test]
fn decompression_bomb_is_refused() {
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let mut header = tar::Header::new_ustar();
    header.set_path("zeros").unwrap();
    header.set_mode(0o644);
    header.set_size(1 << 30);
    header.set_cksum();
    bomb.write_all(header.as_bytes()).unwrap();
    for _ in 0..1024 {
        bomb.write_all(&[0; 1 << 20]).unwrap();
    }
    let error = Place::new().unpack(&bomb.finish().unwrap(), &Limits::default()).unwrap_err();
    assert!(error.to_string().contains("compressed byte"), "{error}");
}

#[test]
fn holes_stay_holes() {
    let Some(tar) = [Path::new("/usr/bin/tar"), Path::new("/bin/tar")].into_iter().find(|p| p.exists())
    else {
        println!("skipped: no tar");
        return;
    };
    let place = Place::new();
    let from = tempfile::tempdir().unwrap();
    let file = std::fs::File::create(from.path().join("sparse")).unwrap();
    file.set_len(64 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"end", (64 << 20) - 3).unwrap();
    let run = |format: &str| {
        let archive = from.path().join("a.tar");
        let mut make = std::process::Command::new(tar);
        make.args(["--create", "--sparse", format, "--file"]).arg(&archive);
        assert!(make.arg("-C").arg(from.path()).arg("sparse").status().unwrap().success());
        place.unpack(&std::fs::read(archive).unwrap(), &Limits::default())
    };
    run("--format=gnu").unwrap();
    let about = place.inside().join("sparse").metadata().unwrap();
    assert_eq!(about.len(), 64 << 20);
    assert!(about.blocks() * 512 < 1 << 20, "{} blocks", about.blocks());
    assert!(std::fs::read(place.inside().join("sparse")).unwrap().ends_with(b"\0end"));
    assert!(run("--format=posix").unwrap_err().to_string().contains("sparse"));
}

#[test]
fn damaged_archive_is_an_error() {
    let whole = Archive::default().file("a", &[b'x'; 5000]).end();
    for archive in [&whole[..700], &whole[..100], &b"no archive at all".repeat(100)[..]] {
        let error = Place::new().unpack(archive, &Limits::default()).unwrap_err();
        assert!(matches!(error, UnpackError::Archive(_)), "{error}");
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 200, ..Default::default() })]

    /// Whatever entries an archive has, in whatever order, nothing outside is touched.
    #[test]
    fn arbitrary_archive_writes_nothing_outside(
        entries in proptest::collection::vec((0..8u8, 0..14usize, 0..14usize), 1..25),
        changed in proptest::collection::vec((0..8192usize, 0u8..), 0..3),
    ) {
        const NAMES: [&str; 14] = [
            "a", "b", "a/b", "a/b/c", "../out", "../out/secret", "/tmp/x", ".", "a/../b", ".wh.a", "a/.wh.b",
            ".wh..wh..opq", "a/.wh..wh..opq", "b/secret",
        ];
        let mut archive = Archive::default();
        for (kind, name, link) in entries {
            let kind = b"01235670"[usize::from(kind)];
            archive = archive.raw(kind, NAMES[name].as_bytes(), NAMES[link].as_bytes(), 0o4777, b"");
        }
        let mut bytes = archive.end();
        for (at, byte) in changed {
            let len = bytes.len();
            bytes[at % len] = byte;
        }
        let _ = Place::new().unpack(&bytes, &Limits::default());
    }
}
