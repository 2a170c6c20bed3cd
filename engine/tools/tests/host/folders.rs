//! A guest can access the folders that it was granted, and nothing else; through a read-only one it
//! changes nothing.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use hotcell_tools::Folder;

use crate::support::{component, run};

/// Result of `run` on success; otherwise it is the number of WASI's error code.
const DONE: u32 = 1000;

/// A guest that does one thing in its folders: `$a` is the first of them, `$b` the last, and the paths are
/// `(p)` and `(q)`.
async fn guest(act: &str, p: &str, q: &str, folders: &[(&Path, bool)]) -> u32 {
    let act = act.replace("(p)", &format!("(i32.const 1024) (i32.const {})", p.len()));
    let act = act.replace("(q)", &format!("(i32.const 2048) (i32.const {})", q.len()));
    let text = format!(
        r#"(component
        (import "wasi:filesystem/types@0.2.0" (instance $types
            (export "descriptor" (type $d (sub resource)))
            (type $e (enum "access" "would-block" "already" "bad-descriptor" "busy" "deadlock" "quota" "exist" "file-too-large"
                "illegal-byte-sequence" "in-progress" "interrupted" "invalid" "io" "is-directory" "loop" "too-many-links"
                "message-size" "name-too-long" "no-device" "no-entry" "no-lock" "insufficient-memory" "insufficient-space"
                "not-directory" "not-empty" "not-recoverable" "unsupported" "no-tty" "no-such-device" "overflow" "not-permitted"
                "pipe" "read-only" "invalid-seek" "text-file-busy" "cross-device"))
            (export "error-code" (type $error (eq $e)))
            (type $pf (flags "symlink-follow"))
            (export "path-flags" (type $pathflags (eq $pf)))
            (type $of (flags "create" "directory" "exclusive" "truncate"))
            (export "open-flags" (type $openflags (eq $of)))
            (type $df (flags "read" "write" "file-integrity-sync" "data-integrity-sync" "requested-write-sync" "mutate-directory"))
            (export "descriptor-flags" (type $descriptorflags (eq $df)))
            (export "[method]descriptor.open-at" (func (param "self" (borrow $d)) (param "path-flags" $pathflags) (param "path" string)
                (param "open-flags" $openflags) (param "flags" $descriptorflags) (result (result (own $d) (error $error)))))
            (export "[method]descriptor.set-size" (func (param "self" (borrow $d)) (param "size" u64) (result (result (error $error)))))
            (export "[method]descriptor.write" (func (param "self" (borrow $d)) (param "buffer" (list u8)) (param "offset" u64)
                (result (result u64 (error $error)))))
            (export "[method]descriptor.rename-at" (func (param "self" (borrow $d)) (param "old-path" string)
                (param "new-descriptor" (borrow $d)) (param "new-path" string) (result (result (error $error)))))
            (export "[method]descriptor.link-at" (func (param "self" (borrow $d)) (param "old-path-flags" $pathflags)
                (param "old-path" string) (param "new-descriptor" (borrow $d)) (param "new-path" string) (result (result (error $error)))))
            (export "[method]descriptor.symlink-at" (func (param "self" (borrow $d)) (param "old-path" string) (param "new-path" string)
                (result (result (error $error)))))
            (export "[method]descriptor.unlink-file-at" (func (param "self" (borrow $d)) (param "path" string)
                (result (result (error $error)))))
            (export "[method]descriptor.create-directory-at" (func (param "self" (borrow $d)) (param "path" string)
                (result (result (error $error)))))))
        (alias export $types "descriptor" (type $descriptor))
        (import "wasi:filesystem/preopens@0.2.0" (instance $preopens
            (alias outer 1 $descriptor (type $o))
            (export "descriptor" (type $d (eq $o)))
            (export "get-directories" (func (result (list (tuple (own $d) string)))))))
        (core module $memory (memory (export "memory") 1) (global $next (mut i32) (i32.const 8192))
            (data (i32.const 1024) "{p}") (data (i32.const 2048) "{q}")
            (func (export "realloc") (param i32 i32 i32 i32) (result i32)
                (global.get $next)
                (global.set $next (i32.add (global.get $next) (i32.and (i32.add (local.get 3) (i32.const 7)) (i32.const -8))))))
        (core instance $memory (instantiate $memory))
        (alias core export $memory "memory" (core memory $mem))
        (alias core export $memory "realloc" (core func $realloc))
        (core func $dirs (canon lower (func $preopens "get-directories") (memory $mem) (realloc $realloc)))
        (core func $open (canon lower (func $types "[method]descriptor.open-at") (memory $mem)))
        (core func $size (canon lower (func $types "[method]descriptor.set-size") (memory $mem)))
        (core func $write (canon lower (func $types "[method]descriptor.write") (memory $mem)))
        (core func $rename (canon lower (func $types "[method]descriptor.rename-at") (memory $mem)))
        (core func $link (canon lower (func $types "[method]descriptor.link-at") (memory $mem)))
        (core func $symlink (canon lower (func $types "[method]descriptor.symlink-at") (memory $mem)))
        (core func $unlink (canon lower (func $types "[method]descriptor.unlink-file-at") (memory $mem)))
        (core func $mkdir (canon lower (func $types "[method]descriptor.create-directory-at") (memory $mem)))
        (core module $m
            (import "" "memory" (memory 1))
            (import "" "dirs" (func $dirs (param i32)))
            (import "" "open" (func $open (param i32 i32 i32 i32 i32 i32 i32)))
            (import "" "size" (func $size (param i32 i64 i32)))
            (import "" "write" (func $write (param i32 i32 i32 i64 i32)))
            (import "" "rename" (func $rename (param i32 i32 i32 i32 i32 i32 i32)))
            (import "" "link" (func $link (param i32 i32 i32 i32 i32 i32 i32 i32)))
            (import "" "symlink" (func $symlink (param i32 i32 i32 i32 i32 i32)))
            (import "" "unlink" (func $unlink (param i32 i32 i32 i32)))
            (import "" "mkdir" (func $mkdir (param i32 i32 i32 i32)))
            ;; What is at 64: a result whose error is so many bytes behind its discriminant.
            (func $outcome (param i32) (result i32)
                (if (result i32) (i32.load8_u (i32.const 64))
                    (then (i32.load8_u (i32.add (i32.const 64) (local.get 0)))) (else (i32.const {DONE}))))
            (func (export "run") (result i32) (local $a i32) (local $b i32)
                (call $dirs (i32.const 16))
                (if (i32.eqz (i32.load (i32.const 20))) (then (return (i32.const 9999))))
                (local.set $a (i32.load (i32.load (i32.const 16))))
                (local.set $b (i32.load (i32.add (i32.load (i32.const 16)) (i32.mul (i32.const 12) (i32.sub (i32.load (i32.const 20)) (i32.const 1))))))
                {act}))
        (core instance $i (instantiate $m (with "" (instance
            (export "memory" (memory $mem)) (export "dirs" (func $dirs)) (export "open" (func $open)) (export "size" (func $size))
            (export "write" (func $write)) (export "rename" (func $rename)) (export "link" (func $link))
            (export "symlink" (func $symlink)) (export "unlink" (func $unlink)) (export "mkdir" (func $mkdir))))))
        (func (export "run") (result u32) (canon lift (core func $i "run"))))"#
    );
    let folders = folders
        .iter()
        .map(|(path, writable)| Folder { path: path.to_path_buf(), writable: *writable, identity: None })
        .collect();
    let answer = run(&component(&text), |request| request.folders = folders)
        .await
        .unwrap_or_else(|error| panic!("{act}: {error}"));
    let value: serde_json::Value = serde_json::from_str(answer.value.get()).expect("JSON");
    value["result"].as_u64().and_then(|code| u32::try_from(code).ok()).expect("a code")
}

/// Opens `(p)`, following links, with these open flags and rights.
fn open(how: u32, what_for: u32) -> String {
    format!(
        "(call $open (local.get $a) (i32.const 1) (p) (i32.const {how}) (i32.const {what_for}) (i32.const 64)) (call $outcome (i32.const 4))"
    )
}

/// A folder `granted` with a file, a folder and links, and a file beside it.
fn tree() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().expect("a folder");
    let root = dir.path().canonicalize().expect("it is there");
    let granted = root.join("granted");
    fs::create_dir_all(granted.join("sub")).expect("made");
    fs::write(granted.join("inside"), "inside").expect("written");
    fs::write(root.join("secret"), "secret").expect("written");
    fs::create_dir(root.join("granted-too")).expect("made");
    for (target, link) in [
        ("../secret", "out"),
        ("..", "up"),
        ("/", "root"),
        ("inside", "in"),
        ("../granted/inside", "around"),
        ("out", "twice"),
    ] {
        symlink(target, granted.join(link)).expect("linked");
    }
    (dir, granted)
}

#[tokio::test]
async fn granted_folder_is_opened_others_refused() {
    let (dir, granted) = tree();
    let absolute = dir.path().join("secret");
    for path in ["inside", "sub/../inside", "in", "sub", "sub/", "."] {
        assert_eq!(guest(&open(0, 1), path, "", &[(&granted, false)]).await, DONE, "{path} is inside");
    }
    let outside = [
        "..",
        "../",
        "../secret",
        "./../secret",
        "sub/../../secret",
        "inside/../../secret",
        "out",
        "out/",
        "out/.",
        "up",
        "up/",
        "up/secret",
        "up/granted/inside",
        "root",
        "root/etc",
        "root/etc/passwd",
        "/etc/passwd",
        "around",
        "twice",
        "twice/",
        "../granted-too",
        "up/./secret",
        "sub/../up/secret",
        "//etc/passwd",
    ];
    for path in outside.into_iter().chain([absolute.to_str().expect("UTF-8")]) {
        for (how, what_for) in [(0, 1), (0, 3), (1, 3), (2, 1), (8, 3), (9, 2)] {
            let code = guest(&open(how, what_for), path, "", &[(&granted, true)]).await;
            assert_ne!(code, DONE, "{path} is outside ({how}, {what_for})");
        }
    }
    assert_eq!(fs::read_to_string(dir.path().join("secret")).expect("it is there"), "secret");
    assert_eq!(
        guest(&open(0, 1), "inside", "", &[]).await,
        9999,
        "without a grant there is no folder at all"
    );
}

#[tokio::test]
async fn links_that_a_guest_makes_lead_nowhere_else() {
    let (dir, granted) = tree();
    for target in ["../secret", "..", "/etc/passwd", "sub/../../secret"] {
        let make = "(call $symlink (local.get $a) (p) (q) (i32.const 64)) (call $outcome (i32.const 1))";
        guest(make, target, "made", &[(&granted, true)]).await;
        for path in ["made", "made/", "made/secret"] {
            assert_ne!(guest(&open(0, 1), path, "", &[(&granted, true)]).await, DONE, "{target}: {path}");
            assert_ne!(guest(&open(8, 2), path, "", &[(&granted, true)]).await, DONE, "{target}: {path}");
        }
        fs::remove_file(granted.join("made")).ok();
    }
    // A hard link, and a file moved to another folder, stay within the granted folders.
    for (act, p, q) in [
        (
            "(call $link (local.get $a) (i32.const 0) (p) (local.get $a) (q) (i32.const 64))",
            "../secret",
            "mine",
        ),
        (
            "(call $link (local.get $a) (i32.const 0) (p) (local.get $a) (q) (i32.const 64))",
            "inside",
            "../mine",
        ),
        (
            "(call $link (local.get $a) (i32.const 0) (p) (local.get $a) (q) (i32.const 64))",
            "up/secret",
            "mine",
        ),
        ("(call $rename (local.get $a) (p) (local.get $a) (q) (i32.const 64))", "inside", "../mine"),
        ("(call $rename (local.get $a) (p) (local.get $a) (q) (i32.const 64))", "../secret", "mine"),
        ("(call $rename (local.get $a) (p) (local.get $a) (q) (i32.const 64))", "inside", "up/mine"),
        ("(call $unlink (local.get $a) (p) (i32.const 64))", "up/secret", ""),
        ("(call $mkdir (local.get $a) (p) (i32.const 64))", "../mine", ""),
    ] {
        let code = guest(&format!("{act} (call $outcome (i32.const 1))"), p, q, &[(&granted, true)]).await;
        assert_ne!(code, DONE, "{act} {p} {q}");
    }
    assert_eq!(fs::read_dir(dir.path()).expect("it is there").count(), 3, "nothing came, nothing went");
    assert!(granted.join("inside").exists() && !granted.join("mine").exists());
}

#[tokio::test]
async fn read_only_folder_cannot_be_changed() {
    let (dir, granted) = tree();
    let other = dir.path().canonicalize().expect("it is there").join("granted-too");
    fs::write(other.join("mine"), "mine").expect("written");
    // `$a` is read-only, `$b` is not.
    let both = [(&*granted, false), (&*other, true)];
    let opened = |how: u32, what_for: u32, then: &str, behind: u32| {
        format!(
            "(call $open (local.get $a) (i32.const 1) (p) (i32.const {how}) (i32.const {what_for}) (i32.const 64))
            (if (i32.load8_u (i32.const 64)) (then (return (call $outcome (i32.const 4)))))
            {then} (call $outcome (i32.const {behind}))"
        )
    };
    let size = "(call $size (i32.load (i32.const 68)) (i64.const 0) (i32.const 64))";
    let write = "(call $write (i32.load (i32.const 68)) (p) (i64.const 0) (i32.const 64))";
    let one = |act: &str| format!("{act} (call $outcome (i32.const 1))");
    let acts = [
        (open(0, 2), "inside", "", "opened to write"),
        (open(0, 3), "inside", "", "opened to read and write"),
        (open(1, 1), "new", "", "created"),
        (open(1, 3), "new", "", "created to write"),
        (open(8, 1), "inside", "", "truncated when opened to read"),
        (open(8, 3), "inside", "", "truncated when opened to write"),
        (open(9, 1), "inside", "", "created or truncated"),
        (
            opened(0, 33, "(call $mkdir (i32.load (i32.const 68)) (p) (i32.const 64))", 1),
            "sub",
            "",
            "changed by a handle that wants to",
        ),
        (opened(0, 1, size, 1), "inside", "", "truncated by its handle"),
        (opened(0, 1, write, 8), "inside", "", "written by its handle"),
        (
            one("(call $rename (local.get $a) (p) (local.get $a) (q) (i32.const 64))"),
            "inside",
            "renamed",
            "renamed",
        ),
        (
            one("(call $rename (local.get $a) (p) (local.get $b) (q) (i32.const 64))"),
            "inside",
            "taken",
            "moved out",
        ),
        (
            one("(call $rename (local.get $b) (p) (local.get $a) (q) (i32.const 64))"),
            "mine",
            "inside",
            "moved in over it",
        ),
        (
            one("(call $link (local.get $a) (i32.const 0) (p) (local.get $a) (q) (i32.const 64))"),
            "inside",
            "linked",
            "linked",
        ),
        (
            one("(call $link (local.get $a) (i32.const 0) (p) (local.get $b) (q) (i32.const 64))"),
            "inside",
            "taken",
            "linked out, to be written there",
        ),
        (
            one("(call $link (local.get $b) (i32.const 0) (p) (local.get $a) (q) (i32.const 64))"),
            "mine",
            "linked",
            "linked in",
        ),
        (one("(call $symlink (local.get $a) (p) (q) (i32.const 64))"), "inside", "linked", "linked by name"),
        (one("(call $unlink (local.get $a) (p) (i32.const 64))"), "inside", "", "removed"),
        (one("(call $unlink (local.get $a) (p) (i32.const 64))"), "out", "", "link removed"),
        (one("(call $mkdir (local.get $a) (p) (i32.const 64))"), "new", "", "folder made"),
    ];
    for (act, p, q, what) in acts {
        assert_ne!(guest(&act, p, q, &both).await, DONE, "{what}");
        assert_eq!(fs::read_to_string(granted.join("inside")).expect("it is there"), "inside", "{what}");
        assert_eq!(fs::read_dir(&granted).expect("it is there").count(), 8, "{what}");
        assert_eq!(fs::read_dir(&other).expect("it is there").count(), 1, "{what}");
    }
    // The guest may do all that in a folder granted for writing.
    let write = opened(9, 3, write, 8);
    assert_eq!(guest(&write, "new", "", &[(&other, true)]).await, DONE);
    assert_eq!(fs::read_to_string(other.join("new")).expect("it is there"), "new");
}

#[tokio::test]
async fn grant_replaced_by_link_is_refused() {
    let (dir, granted) = tree();
    let root = dir.path().canonicalize().expect("it is there");
    let link = root.join("granted").join("sub-link");
    symlink(root.join("granted-too"), &link).expect("linked");
    for (path, wanted) in [
        (link, "grant it anew"),
        (root.join("nowhere"), "No such file"),
        (granted.join("inside"), "Not a directory"),
    ] {
        let request = |request: &mut hotcell_tools::CallRequest| {
            request.folders = vec![Folder { path, writable: false, identity: None }];
        };
        let error = run(&crate::support::module(r#"(func (export "run"))"#), request)
            .await
            .expect_err(wanted)
            .to_string();
        assert!(error.contains(wanted), "{error}");
    }
}
