//! Images: imported from every kind of source, verified, used for runs, shared and removed.

use std::path::Path;

use hotcell_end_to_end::image::{Entry, archive, blob, digest, layers, layout};
use hotcell_end_to_end::mcp::{Local, STATELESS};
use hotcell_end_to_end::{Ended, User, everyone};
use serde_json::json;

fn image(user: &User, words: &[&str]) -> Ended {
    user.hotcell(["image"]).words(words).end()
}

/// Runs a test as each user, with a layout of two layers in `work/layout`.
fn everyone_with_a_layout(test: impl Fn(&User, &[Vec<u8>; 2])) {
    let Some(layers) = layers() else {
        println!("skipped: no busybox; install busybox-static");
        return;
    };
    everyone(|user| {
        layout(&user.path("made"), &layers);
        user.copy_folder(&user.path("made"), &user.path("work/layout"));
        test(user, &layers);
    });
}

const LOOK_SCRIPT: &str = "cat /etc/which; ls /etc/old /opt 2>&1; echo $GREETING $HOME $PATH; id -un; touch /etc/x 2>&1; cat /proc/1/comm";

#[test]
fn layout_image_is_imported_and_used() {
    everyone_with_a_layout(|user, layers| {
        let said = image(user, &["import", "layout", "--name", "made"]);
        said.code(0);
        assert_eq!(said.text(), "made\n");
        let run = user.shell(["--image", "made"], LOOK_SCRIPT).end();
        let text = run.code(0).text();
        assert!(text.starts_with("upper\nls: /etc/old: No such file or directory\n/opt:\nnew\n"), "{text}");
        assert!(text.contains("hello /home/sandbox /bin\nsandbox\n"), "{text}");
        assert!(text.contains("Read-only file system"), "{text}");
        assert!(!text.contains("launch"), "{text}");
        let shown = image(user, &["--json", "inspect", "made"]).code(0).json();
        let row = &shown["images"][0];
        assert_eq!(shown["schema"], "hotcell.images/1");
        let want: Vec<String> = layers.iter().rev().map(|l| digest(l)).collect();
        assert_eq!(row["details"]["layers"], serde_json::json!(want));
        assert!(row["details"]["notes"][0].as_str().is_some_and(|n| n.contains("setuid")), "{row}");
        // Without the host's files: its own programs are not there.
        user.hotcell(["run", "--image", "made", "--", "/usr/bin/env"]).end().code(0);
        user.hotcell(["run", "--image", "made", "--", "python3", "-c", "1"]).end().code(127);
    });
}

#[test]
fn layout_and_docker_archives_give_same_image() {
    everyone_with_a_layout(|user, layers| {
        let first = image(user, &["--json", "import", "layout"]).code(0).json();
        let folder = user.path("work/layout");
        let mut files = Vec::new();
        for name in ["index.json", "oci-layout"] {
            files.push((name.to_owned(), std::fs::read(folder.join(name)).expect("there")));
        }
        for entry in std::fs::read_dir(folder.join("blobs/sha256")).expect("there") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(&folder).expect("below").display().to_string();
            files.push((name, std::fs::read(path).expect("there")));
        }
        let entries: Vec<_> = files.iter().map(|(n, b)| (n.as_str(), Entry::File(0o644, &b[..]))).collect();
        user.write("work/layout.tar", archive(&entries));
        let second = image(user, &["--json", "import", "layout.tar", "--name", "second"]).code(0).json();
        assert_eq!(first["images"][0]["digest"], second["images"][0]["digest"]);
        let config = r#"{"architecture":"ARCH","os":"linux","rootfs":{"diff_ids":["A","B"]}}"#
            .replace("ARCH", hotcell_end_to_end::image::architecture())
            .replace("\"A\"", &format!("{:?}", digest(&layers[0])))
            .replace("\"B\"", &format!("{:?}", digest(&layers[1])));
        let name = format!("{}.json", digest(config.as_bytes()).trim_start_matches("sha256:"));
        let manifest =
            format!(r#"[{{"Config":"{name}","RepoTags":["x:1"],"Layers":["1/layer.tar","2/layer.tar"]}}]"#);
        let saved = archive(&[
            ("1/layer.tar", Entry::File(0o644, &layers[0])),
            ("2/layer.tar", Entry::File(0o644, &layers[1])),
            (&name, Entry::File(0o644, config.as_bytes())),
            ("manifest.json", Entry::File(0o644, manifest.as_bytes())),
        ]);
        user.write("work/saved.tar", saved);
        image(user, &["import", "saved.tar"]).code(0);
        assert_eq!(user.shell(["--image", "saved"], "cat /etc/which").end().code(0).text(), "upper\n");
        // Each layer is stored once, and stays while an image uses it.
        let kept = user.path("home/.local/state/hotcell/images/layers");
        let count = || {
            std::fs::read_dir(&kept).expect("there").filter(|e| e.as_ref().unwrap().path().is_dir()).count()
        };
        assert_eq!(count(), 2);
        image(user, &["remove", "layout"]).code(0);
        image(user, &["remove", "saved"]).code(0);
        assert_eq!(count(), 2);
        user.shell(["--image", "second"], "true").end().code(0);
        image(user, &["remove", "second"]).code(0);
        assert_eq!(count(), 0);
        assert_eq!(image(user, &["list", "--json"]).code(0).json()["images"], serde_json::json!([]));
    });
}

#[test]
fn damaged_image_is_named_with_both_digests() {
    everyone_with_a_layout(|user, layers| {
        let promised = digest(&layers[1]);
        let file = blob(&user.path("work/layout"), &promised);
        let mut bytes = std::fs::read(&file).expect("there");
        bytes[600] ^= 1;
        std::fs::write(&file, &bytes).expect("written");
        let ended = image(user, &["import", "layout"]);
        ended.code(125).says(&promised).says(&digest(&bytes));
        assert_eq!(image(user, &["--json", "list"]).code(0).json()["images"], serde_json::json!([]));
    });
}

#[test]
fn folder_image_shows_workspace() {
    everyone_with_a_layout(|user, _| {
        let Some(busybox) = hotcell_end_to_end::find("busybox") else { return };
        user.make_folder("work/root/bin");
        std::fs::copy(busybox, user.path("work/root/bin/busybox")).expect("copied");
        for name in ["sh", "cat", "ls"] {
            std::os::unix::fs::symlink("busybox", user.path("work/root/bin").join(name)).expect("linked");
        }
        user.own(&user.path("work/root/bin/busybox"));
        image(user, &["import", "root"]).code(0);
        user.make_folder("work/p");
        user.write("work/p/a", "mine\n");
        let run = user.shell(["--image", "root", "--workspace", "p", "--diff"], "cat a; echo new > b").end();
        let text = run.code(0).text();
        assert!(text.starts_with("mine\n") && text.contains("+new"), "{text}");
        // The image may come from the configuration, but not from a project's own file.
        let configured = user.shell([], "ls /").env("HOTCELL_IMAGE", "root").end();
        assert!(configured.code(0).text().contains("bin\n"));
        user.write("work/p/hotcell.toml", "image = \"root\"\n");
        user.shell(["--workspace", "p"], "true").end().code(125).says("image");
    });
}

#[test]
fn agent_runs_in_operator_image() {
    everyone_with_a_layout(|user, _| {
        image(user, &["import", "layout", "--name", "made"]).code(0);
        let mut client = Local::start(user, STATELESS);
        let asked = json!({ "argv": ["cat", "/etc/which"], "image": "made" });
        let content = client.good("run_command", &asked);
        assert_eq!(content["stdout"]["text"], "upper\n", "{content:#}");
        let asked = json!({ "language": "bash", "code": "true", "image": "other" });
        let said = client.bad("run_code", &asked);
        assert!(
            said.contains("there is no image \\\"other\\\"") || said.contains("there is no image \"other\""),
            "{said}"
        );
        client.end();
    });
}

#[test]
fn image_mistakes_are_explained() {
    everyone(|user| {
        let says = |ended: &Ended, word: &str| {
            ended.code(125).says_one_line(word);
        };
        says(&user.hotcell(["run", "--image", "none", "--", "true"]).end(), "image list");
        says(&image(user, &["inspect", "none"]), "image list");
        says(&image(user, &["remove", "../x"]), "no image");
        says(&image(user, &["import", "missing"]), "cannot be read");
        user.write("work/text", "no archive");
        says(&image(user, &["import", "text"]), "neither a folder");
        says(&image(user, &["import", "text", "--name", "a/b"]), "name of an image");
        let evil = archive(&[(
            "manifest.json",
            Entry::File(0o644, b"[{\"Config\":\"../../etc/passwd\",\"Layers\":[]}]"),
        )]);
        user.write("work/evil.tar", evil);
        says(&image(user, &["import", "evil.tar"]), "../../etc/passwd");
        let json = user.hotcell(["--json", "run", "--image", "none", "--", "true"]).end();
        assert_eq!(json.code(125).json()["cause"], "refused");
    });
}

/// The image's own `/etc/passwd`, loader settings and devices have no effect outside.
#[test]
fn hostile_image_files_have_no_effect() {
    everyone_with_a_layout(|user, layers| {
        let evil = archive(&[
            ("etc/passwd", Entry::File(0o644, b"sandbox:x:0:0::/:/bin/sh\n")),
            ("etc/hosts", Entry::File(0o644, b"6.6.6.6 localhost\n")),
            ("proc", Entry::Link("/etc")),
            ("dev", Entry::Link("/srv")),
            ("tmp", Entry::Link("/nowhere")),
            ("home", Entry::File(0o644, b"")),
        ]);
        layout(&user.path("evil"), &[layers[0].clone(), evil]);
        user.copy_folder(&user.path("evil"), &user.path("work/evil"));
        image(user, &["import", "evil"]).code(0);
        let script = "id; cat /etc/hosts; ls /dev/null /proc/self/status; touch /tmp/a ~/a && echo written";
        let run = user.shell(["--image", "evil"], script).end();
        let text = run.code(0).text();
        assert!(text.starts_with("uid=1000(sandbox)") && text.ends_with("written\n"), "{text}");
        assert!(text.contains("127.0.0.1") && text.contains("/proc/self/status"), "{text}");
        assert!(!Path::new("/nowhere").exists());
    });
}
