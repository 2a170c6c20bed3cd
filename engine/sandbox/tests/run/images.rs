use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use hotcell_sandbox::{Cause, Confinement, ImageRoot, Policy, RootEntry, RootKind};
use nix::sys::stat::{Mode, SFlag, mknod};

use crate::{run, stdout, told};

/// Makes a character device 0/0, which needs no privilege.
fn whiteout(path: &Path) {
    mknod(path, SFlag::S_IFCHR, Mode::empty(), 0).expect("a whiteout");
}

/// An image of a static shell, and folders of further layers.
struct Made {
    dir: tempfile::TempDir,
}

impl Made {
    fn new() -> Option<Self> {
        let Some(busybox) =
            ["/usr/bin/busybox", "/bin/busybox"].map(Path::new).into_iter().find(|p| p.exists())
        else {
            println!("skipped: no busybox; install busybox-static");
            return None;
        };
        let made = Self { dir: tempfile::tempdir().expect("a folder") };
        let lower = made.layer(1);
        for folder in ["usr/bin", "etc/sub", "opt/old", "dev", "home/other", "var"] {
            fs::create_dir_all(lower.join(folder)).expect("made");
        }
        fs::copy(busybox, lower.join("usr/bin/busybox")).expect("copied");
        symlink("usr/bin", lower.join("bin")).expect("linked");
        for name in ["sh", "cat", "ls", "id", "touch", "env", "echo", "stat", "head"] {
            symlink("/bin/busybox", lower.join("usr/bin").join(name)).expect("linked");
        }
        fs::write(lower.join("etc/passwd"), "root:x:0:0:evil\n").expect("written");
        fs::write(lower.join("etc/sub/a"), "below\n").expect("written");
        fs::write(lower.join("opt/old/a"), "old\n").expect("written");
        fs::write(lower.join("dev/mem"), "a file of the image\n").expect("written");
        fs::write(lower.join("start"), "#!/bin/sh\necho started\n").expect("written");
        fs::set_permissions(lower.join("start"), PermissionsExt::from_mode(0o755)).expect("mode");
        let upper = made.layer(0);
        fs::create_dir_all(upper.join("opt")).expect("made");
        fs::create_dir_all(upper.join("etc/sub")).expect("made");
        fs::write(upper.join("etc/sub/a"), "above\n").expect("written");
        whiteout(&upper.join("opt/old"));
        Some(made)
    }

    fn layer(&self, number: usize) -> PathBuf {
        // Characters that have a special meaning in mount options.
        let path = self.dir.path().join(format!("a:b,c=\\{number}"));
        fs::create_dir_all(&path).expect("made");
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("mode");
        path
    }

    fn image(&self) -> ImageRoot {
        let entry = |(name, kind): (&str, RootKind)| RootEntry { name: name.into(), kind };
        let top = [
            ("usr", RootKind::Folder),
            ("etc", RootKind::Folder),
            ("opt", RootKind::Folder),
            ("dev", RootKind::Folder),
            ("home", RootKind::Folder),
            ("var", RootKind::Folder),
            ("start", RootKind::File),
            ("bin", RootKind::Link),
        ];
        ImageRoot { layers: vec![self.layer(0), self.layer(1)], top: top.map(entry).into() }
    }

    fn sh(&self, script: &str) -> Policy {
        Policy::new("sh").args(["-c", script]).image(self.image())
    }
}

#[tokio::test]
async fn image_replaces_host_files() {
    let Some(made) = Made::new() else { return };
    let script = "cat /etc/sub/a; ls /opt; /start; ls /usr; head -n1 /etc/passwd; ls /dev; id -un; ls /home";
    let outcome = run(&made.sh(script)).await;
    let text = stdout(&outcome);
    assert!(outcome.success(), "{}", told(&outcome));
    assert!(text.starts_with("above\nstarted\nbin\nroot:x:0:0:root:/:"), "{text}");
    assert!(!text.contains("mem") && text.contains("null\n") && text.contains("sandbox\n"), "{text}");
    assert!(outcome.mounts.iter().any(|m| m.inside == "/" && m.kind == "image"));
    assert!(outcome.mounts.iter().all(|m| m.kind != "system"), "nothing of the host");
}

#[tokio::test]
async fn image_is_read_only_with_all_layers() {
    let Some(made) = Made::new() else { return };
    let script =
        "touch /usr/x; touch /etc/x; touch /x; echo x > /opt/x; touch /tmp/y /dev/shm/y ~/y; ls /tmp";
    let outcome = run(&made.sh(script)).await;
    assert_eq!(stdout(&outcome), "y\n", "{}", told(&outcome));
    for layer in [hotcell_sandbox::Layer::Landlock, hotcell_sandbox::Layer::MountNs] {
        let host = run(&Policy::new("true")).await;
        assert_eq!(outcome.layers.states[&layer], host.layers.states[&layer]);
    }
    assert_eq!(fs::read_dir(made.layer(0)).expect("readable").count(), 2);
    // Paths on the host must not be visible inside.
    let mounts = run(&made.sh("cat /proc/self/mountinfo")).await;
    assert!(!stdout(&mounts).contains("a:b"), "{}", stdout(&mounts));
}

#[tokio::test]
async fn workspace_and_folders_are_visible_in_image() {
    let Some(made) = Made::new() else { return };
    let project = tempfile::tempdir().expect("a folder");
    fs::write(project.path().join("a"), "project\n").expect("written");
    let policy = made.sh("cat a /opt/data/a; echo b > b; cat b").workspace(project.path());
    let outcome = run(&policy.read_only(project.path(), "/opt/data")).await;
    assert_eq!(stdout(&outcome), "project\nproject\nb\n", "{}", told(&outcome));
    assert!(!project.path().join("b").exists());
    let behind_a_link = run(&made.sh("true").read_only(project.path(), "/bin/data")).await;
    assert_eq!(behind_a_link.cause, Cause::Refused);
    assert!(
        behind_a_link.reason.as_deref().is_some_and(|r| r.contains("/bin is a link")),
        "{}",
        told(&behind_a_link)
    );
}

#[tokio::test]
async fn programs_are_those_of_the_image() {
    let Some(made) = Made::new() else { return };
    let missing = run(&Policy::new("python3").image(made.image())).await;
    assert_eq!(missing.cause, Cause::NotFound, "{}", told(&missing));
    // A link out of the image leads nowhere.
    symlink("/proc/1/root/usr/bin/env", made.layer(0).join("opt/env")).expect("linked");
    symlink("../../../../../../usr/bin/echo", made.layer(0).join("opt/echo")).expect("linked");
    let out = run(&Policy::new("/opt/env").image(made.image())).await;
    assert_ne!(out.cause, Cause::Exited, "{}", told(&out));
    let up = run(&made.sh("exec /opt/echo busybox")).await;
    assert_eq!(stdout(&up), "busybox\n", "the image's own: {}", told(&up));
}

#[tokio::test]
async fn unusable_image_is_refused() {
    let Some(made) = Made::new() else { return };
    let mut plain = made.sh("true");
    plain.shape.confinement = Confinement::LandlockOnly;
    let mut none = made.sh("true");
    none.shape.image = Some(ImageRoot::default());
    let mut many = made.sh("true");
    many.shape.image = Some(ImageRoot { layers: vec![made.layer(1); 200], top: Vec::new() });
    let mut gone = made.sh("true");
    gone.shape.image = Some(ImageRoot { layers: vec!["/nowhere/at/all".into()], top: Vec::new() });
    for (policy, word) in
        [(plain, "mount namespace"), (none, "of 0 layers"), (many, "of 200"), (gone, "root")]
    {
        let outcome = run(&policy).await;
        assert_eq!(outcome.cause, Cause::Refused, "{word}");
        assert!(outcome.reason.as_deref().is_some_and(|r| r.contains(word)), "{word}: {}", told(&outcome));
    }
    // The maximum number of layers.
    let mut layers = vec![made.layer(0)];
    layers.extend((2..127).map(|n| made.layer(n)));
    layers.push(made.layer(1));
    let image = ImageRoot { layers, ..made.image() };
    let outcome = run(&Policy::new("/start").image(image)).await;
    assert_eq!(stdout(&outcome), "started\n", "{}", told(&outcome));
}
