use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use hotcell_sandbox::Cause;

use crate::{is_root, run, sh, stdout, told};

/// Name, contents, mode and owner of everything below a folder.
fn snapshot(dir: &Path) -> Vec<(String, Vec<u8>, u32)> {
    let mut all = Vec::new();
    let mut todo = vec![dir.to_owned()];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(&dir).expect("readable") {
            let path = entry.expect("an entry").path();
            let meta = path.symlink_metadata().expect("metadata");
            let content = if meta.is_file() { fs::read(&path).expect("content") } else { Vec::new() };
            all.push((path.display().to_string(), content, meta.permissions().mode()));
            if meta.is_dir() {
                todo.push(path);
            }
        }
    }
    all.sort();
    all
}

fn project(mode: u32) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    fs::create_dir(dir.path().join("sub")).expect("made");
    fs::write(dir.path().join("sub/a.txt"), "original").expect("written");
    fs::write(dir.path().join("run.sh"), "#!/bin/sh\ncat sub/a.txt\n").expect("written");
    fs::set_permissions(dir.path().join("run.sh"), PermissionsExt::from_mode(0o700)).expect("mode");
    fs::set_permissions(dir.path().join("sub"), PermissionsExt::from_mode(mode)).expect("mode");
    fs::set_permissions(dir.path(), PermissionsExt::from_mode(mode)).expect("mode");
    dir
}

const CHANGE: &str = "./run.sh && echo changed > sub/a.txt && rm run.sh && rm -r sub && mkdir sub && echo new > sub/b && cat sub/b";

#[tokio::test]
async fn workspace_is_writable_inside_and_unchanged_outside() {
    let dir = project(0o700);
    let before = snapshot(dir.path());
    let outcome = run(&sh(CHANGE).workspace(dir.path())).await;
    assert_eq!(stdout(&outcome), "originalnew\n", "{}", told(&outcome));
    assert_eq!(snapshot(dir.path()), before);
}

#[tokio::test]
async fn workspace_of_another_user_works_for_root() {
    if !is_root() {
        eprintln!("skipped: only root can make files of another user");
        return;
    }
    let dir = project(0o700);
    for path in ["", "sub", "sub/a.txt", "run.sh"] {
        chown(dir.path().join(path), Some(4321), Some(4321)).expect("chown");
    }
    let before = snapshot(dir.path());
    let outcome = run(&sh(CHANGE).workspace(dir.path())).await;
    assert_eq!(stdout(&outcome), "originalnew\n", "{}", told(&outcome));
    assert_eq!(snapshot(dir.path()), before);
}

#[tokio::test]
async fn read_only_folders_are_read_only() {
    let dir = project(0o700);
    let script =
        "cat /data/sub/a.txt; echo x > /data/new || echo refused; echo x > /data/sub/a.txt || echo refused";
    let outcome = run(&sh(script).read_only(dir.path(), "/data")).await;
    assert_eq!(stdout(&outcome), "originalrefused\nrefused\n", "{}", told(&outcome));
}

#[tokio::test]
async fn copy_on_write_folder_changes_inside_only() {
    let dir = project(0o700);
    let before = snapshot(dir.path());
    let script = "cat ~/kept/sub/a.txt; echo x > ~/kept/new && echo y >> ~/kept/sub/a.txt && cat ~/kept/new ~/kept/sub/a.txt && \
                  mkdir ~/kept/deep && mv ~/kept/sub ~/kept/deep/ && rm -r ~/kept/deep && cp /bin/true ~/kept/ && ~/kept/true && \
                  echo ran; ls ~/project";
    let other = project(0o700);
    for policy in [sh(script), sh(script).workspace(other.path())] {
        let with_project = policy.job.workspace.is_some();
        let outcome = run(&policy.copy_on_write(dir.path(), "/home/sandbox/kept")).await;
        let said = stdout(&outcome);
        assert!(said.starts_with("originalx\noriginaly\nran\n"), "{}", told(&outcome));
        assert_eq!(said.contains("run.sh"), with_project, "{}", told(&outcome));
        assert_eq!(snapshot(dir.path()), before);
        let mount = outcome.mounts.iter().find(|m| m.inside == "/home/sandbox/kept").expect("a row");
        assert!(mount.writable, "{mount:?}");
    }
    let file = run(&sh("true").copy_on_write(dir.path().join("run.sh"), "/opt/x")).await;
    assert!(told(&file).contains("only folders"), "{}", told(&file));
}

#[tokio::test]
async fn writable_folder_files_belong_to_folder_owner() {
    use std::os::unix::fs::MetadataExt;
    let dir = project(0o700);
    if is_root() {
        for path in ["", "sub", "sub/a.txt", "run.sh"] {
            chown(dir.path().join(path), Some(4321), Some(4321)).expect("chown");
        }
    }
    let script = "echo mine > /out/new && echo more >> /out/sub/a.txt && cat /out/sub/a.txt";
    let outcome = run(&sh(script).read_write(dir.path(), "/out")).await;
    assert_eq!(stdout(&outcome), "originalmore\n", "{}", told(&outcome));
    let meta = fs::metadata(dir.path().join("new")).expect("written for real");
    let owner = fs::metadata(dir.path()).expect("the folder").uid();
    assert_eq!(meta.uid(), owner);
}

#[tokio::test]
async fn single_file_can_be_bound_anywhere() {
    let dir = project(0o700);
    let file = dir.path().join("sub/a.txt");
    let policy = sh("cat /etc/extra.conf /opt/x/y ~/deep/er/file").read_only(&file, "/etc/extra.conf");
    let policy = policy.read_only(&file, "/opt/x/y").read_only(&file, "/home/sandbox/deep/er/file");
    let outcome = run(&policy).await;
    assert_eq!(stdout(&outcome), "originaloriginaloriginal", "{}", told(&outcome));
}

#[tokio::test]
async fn folders_that_cannot_be_mounted_are_refused() {
    for (policy, word) in [
        (sh("true").workspace("/no/such/folder"), "/no/such/folder"),
        (sh("true").workspace("/etc/hostname"), "not a folder"),
        (sh("true").read_only("/dev/null", "/x"), "neither"),
        (sh("true").read_only("/usr", "relative"), "start with /"),
        (sh("true").read_only("/usr", "/a/../b"), "`..`"),
        (sh("true").read_only("/usr", "/proc/x"), "belongs to the sandbox"),
        (sh("true").read_only("/", "/host"), "never mounted"),
        (sh("true").cwd("/nowhere"), "/nowhere"),
    ] {
        let outcome = run(&policy).await;
        assert_eq!(outcome.cause, Cause::Refused, "{}", told(&outcome));
        assert!(outcome.reason.as_deref().is_some_and(|r| r.contains(word)), "{word}: {}", told(&outcome));
    }
}

#[tokio::test]
async fn names_that_are_not_text_survive() {
    use std::os::unix::ffi::OsStringExt;
    let dir = tempfile::tempdir().expect("a folder");
    let odd = std::ffi::OsString::from_vec(b"bad\xff\nname".to_vec());
    let inner = dir.path().join(&odd);
    fs::create_dir(&inner).expect("made");
    fs::write(inner.join("f"), "there").expect("written");
    let outcome = run(&sh("cat f").workspace(&inner)).await;
    assert_eq!(stdout(&outcome), "there", "{}", told(&outcome));
}

#[tokio::test]
async fn mountpoints_are_never_made_on_host() {
    let dir = project(0o755);
    let before = Path::new("/usr/hotcell-ghost").exists();
    let outcome = run(&sh("true").read_only(dir.path(), "/usr/hotcell-ghost/x")).await;
    assert_eq!(outcome.cause, Cause::Refused, "{}", told(&outcome));
    assert!(!before && !Path::new("/usr/hotcell-ghost").exists());
    // A path that exists on the host is covered, but only inside.
    let outcome = run(&sh("cat /usr/share/sub/a.txt").read_only(dir.path(), "/usr/share")).await;
    assert_eq!(stdout(&outcome), "original", "{}", told(&outcome));
}

#[tokio::test]
async fn setuid_files_cannot_reach_host() {
    let dir = tempfile::tempdir().expect("a folder");
    let script = "import os, ctypes\n\
        def tried(what, *a):\n try: what(*a); print('made')\n except OSError as e: print(e.errno)\n\
        os.chdir('/out')\n\
        open('f', 'w').close()\n\
        tried(os.chmod, 'f', 0o4755)\n\
        tried(os.open, 'g', os.O_CREAT | os.O_WRONLY, 0o4755)\n\
        tried(os.mknod, 'h', 0o102755)\n\
        os.chmod('f', 0o755)\n";
    let policy = hotcell_sandbox::Policy::new("/usr/bin/python3").args(["-c", script]);
    let outcome = run(&policy.read_write(dir.path(), "/out")).await;
    assert_eq!(stdout(&outcome), "1\n1\n1\n", "{}", told(&outcome));
    for (name, _, mode) in snapshot(dir.path()) {
        assert_eq!(mode & 0o6000, 0, "{name}");
    }
}

#[tokio::test]
async fn files_of_others_follow_their_permissions() {
    if !is_root() {
        eprintln!("skipped: only root can make files of another user");
        return;
    }
    // The folder's owner is shown as the sandbox's user; files of other users stay others' files.
    let dir = project(0o700);
    for (name, mode, owner) in [("public", 0o644, 4321), ("private", 0o600, 4321), ("mine", 0o600, 0)] {
        let path = dir.path().join(name);
        fs::write(&path, name).expect("written");
        fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("mode");
        chown(&path, Some(owner), Some(owner)).expect("chown");
    }
    let script = "cat mine public; cat private || echo no; echo more >> mine && cat mine";
    let outcome = run(&sh(script).workspace(dir.path())).await;
    assert_eq!(stdout(&outcome), "minepublicno\nminemore\n", "{}", told(&outcome));
    assert_eq!(fs::read(dir.path().join("mine")).expect("read"), b"mine");
}

#[tokio::test]
async fn sockets_in_a_read_only_folder_lead_nowhere() {
    let dir = tempfile::tempdir().expect("a folder");
    let listener = std::os::unix::net::UnixListener::bind(dir.path().join("s")).expect("bound");
    let script = "import socket\n\
        s = socket.socket(socket.AF_UNIX)\n\
        try: s.connect('/data/s'); print('connected')\n\
        except OSError as e: print(type(e).__name__)\n";
    let policy = hotcell_sandbox::Policy::new("/usr/bin/python3").args(["-c", script]);
    let outcome = run(&policy.read_only(dir.path(), "/data")).await;
    assert_eq!(stdout(&outcome), "ConnectionRefusedError\n", "{}", told(&outcome));
    drop(listener);
}

#[tokio::test]
async fn links_in_a_workspace_do_not_steer_mountpoints() {
    let project = tempfile::tempdir().expect("a folder");
    let data = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink("/proc", project.path().join("link")).expect("linked");
    let policy =
        sh("true").workspace(project.path()).read_only(data.path(), "/home/sandbox/project/link/sys");
    let outcome = run(&policy).await;
    assert_eq!(outcome.cause, Cause::Refused, "{}", told(&outcome));
}

/// A job with these aliases of its workspace.
fn named(script: &str, folder: &Path, names: &[&Path]) -> hotcell_sandbox::Policy {
    let mut policy = sh(script).workspace(folder);
    policy.job.aliases = names.iter().map(|name| name.to_path_buf()).collect();
    policy
}

#[tokio::test]
async fn workspace_aliases_show_only_workspace() {
    let dir = project(0o755);
    // In scratch, in the root, and at paths of the sandbox's own.
    for (name, leads) in [
        ("/tmp/one/two/project", true),
        ("/home/somebody/project", true),
        ("/srv/a b/project", true),
        ("/home/sandbox/project/sub", false),
        ("/usr/project", false),
        ("/etc/project", false),
        ("/proc/project", false),
    ] {
        let script = "cat \"$N/sub/a.txt\" && readlink -f \"$N\" && ls -A \"$N/..\" && pwd && echo new > \"$N/new\" && cat new";
        let outcome = run(&named(script, dir.path(), &[Path::new(name)]).env("N", name)).await;
        let last = Path::new(name).file_name().unwrap().to_str().unwrap();
        let project = "/home/sandbox/project";
        let want = format!("original{project}\n{last}\n{project}\nnew\n");
        assert_eq!(stdout(&outcome) == want, leads, "{name}: {}", told(&outcome));
        assert_eq!(outcome.exit_code == Some(0), leads, "{name}: {}", told(&outcome));
    }
    assert!(!dir.path().join("new").exists());
}

#[tokio::test]
async fn job_folders_are_made_in_own_home() {
    let data = project(0o755);
    let with = |folders: &[&str], script: &str| {
        let mut policy = sh(script);
        policy.job.folders = folders.iter().map(Into::into).collect();
        policy
    };
    for folder in ["outputs", "a/b c/d"] {
        let script = "[ -d \"$HOME/$N\" ] && echo 1 >\"$HOME/$N/x\" && cat \"$HOME/$N/x\"";
        let outcome = run(&with(&[folder, folder], script).env("N", folder)).await;
        assert_eq!(stdout(&outcome), "1\n", "{folder}: {}", told(&outcome));
    }
    let outcome = run(&with(&[], "ls -A \"$HOME\"")).await;
    assert!(outcome.success() && stdout(&outcome).is_empty(), "{}", told(&outcome));
    // A mount decides what is there, and nothing is made on the host.
    for (inside, folder) in [("/home/sandbox/outputs", "outputs"), ("/home/sandbox/outputs", "outputs/new")] {
        let outcome = run(&with(&[folder], "cat ~/outputs/sub/a.txt").read_only(data.path(), inside)).await;
        assert_eq!(stdout(&outcome), "original", "{folder}: {}", told(&outcome));
    }
    assert!(!data.path().join("new").exists());
    for folder in ["", "/etc", "..", "a/../..", "./a"] {
        let outcome = run(&with(&[folder], "true")).await;
        assert_eq!(outcome.cause, Cause::Refused, "{folder:?}: {}", told(&outcome));
    }
}

#[tokio::test]
async fn binds_below_alias_stay_visible() {
    let dir = project(0o755);
    let inner = dir.path().join("sub");
    for name in ["/srv/project", "/tmp/project"] {
        let script = format!(
            "cat {name}/sub/a.txt {name}/run.sh && readlink {name}/run.sh && ! readlink {name}/sub && rm sub/a.txt && cat {name}/sub/a.txt"
        );
        let policy = named(&script, dir.path(), &[Path::new(name)]).read_only(&inner, format!("{name}/sub"));
        let outcome = run(&policy).await;
        assert!(
            outcome.success() && stdout(&outcome).ends_with("/home/sandbox/project/run.sh\noriginal"),
            "{name}: {}",
            told(&outcome)
        );
    }
}
