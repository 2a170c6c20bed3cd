//! What a run hands over beside its output: events as they come, and the files in its home folder afterwards.

use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, Instant};

use hotcell_sandbox::home::CollectError;
use hotcell_sandbox::{Bytes, Cause, Confinement, Finished, Home, Policy};

use crate::{run, sh, stdout, told};

const BOTH: [Confinement; 2] = [Confinement::Namespaces, Confinement::LandlockOnly];

async fn finish(mut policy: Policy, confinement: Confinement) -> (Finished, Vec<u8>) {
    policy.shape.confinement = confinement;
    let mut running = hotcell_sandbox::spawn(&policy).await.expect("starts");
    let mut events = Vec::new();
    let Some(mut receiver) = running.events() else { return (running.finish().await, events) };
    let end = tokio::spawn(running.finish());
    while let Some(piece) = receiver.recv().await {
        events.extend(piece);
    }
    (end.await.expect("followed"), events)
}

async fn home_after(script: &str, confinement: Confinement) -> Home {
    let (finished, _) = finish(sh(script), confinement).await;
    assert_eq!(finished.outcome.exit_code, Some(0), "{}", told(&finished.outcome));
    finished.home.expect("a home folder")
}

fn refused(home: &Home, path: &str) -> &'static str {
    match home.read(Path::new(path), Bytes::mib(1)) {
        Ok(_) => "read",
        Err(CollectError::Missing(_)) => "missing",
        Err(CollectError::NotAFile(_)) => "no file",
        Err(CollectError::TooLarge { .. }) => "too large",
        Err(CollectError::Io { .. }) => "refused",
    }
}

#[tokio::test]
async fn events_come_by_a_descriptor_of_their_own() {
    for confinement in BOTH {
        let (finished, events) =
            finish(sh("echo one >&3; echo out; echo two >&3").events(), confinement).await;
        assert_eq!(events, b"one\ntwo\n", "{}", told(&finished.outcome));
        assert_eq!(stdout(&finished.outcome), "out\n");
    }
}

#[tokio::test]
async fn without_events_there_is_no_such_descriptor() {
    let outcome = run(&sh("ls /proc/self/fd; echo x >&3")).await;
    // 3 is the folder that `ls` reads.
    assert_eq!(stdout(&outcome), "0\n1\n2\n3\n", "{}", told(&outcome));
    assert_ne!(outcome.exit_code, Some(0), "{}", told(&outcome));
}

#[tokio::test]
async fn an_event_comes_while_the_program_runs() {
    let policy = sh("echo begun >&3; read line; echo \"$line\" >&3").events().stdin_piped();
    let mut running = hotcell_sandbox::spawn(&policy).await.expect("starts");
    let mut stdin = running.stdin().expect("a pipe");
    let mut events = running.events().expect("events");
    let end = tokio::spawn(running.finish());
    assert_eq!(events.recv().await.as_deref(), Some(&b"begun\n"[..]));
    tokio::io::AsyncWriteExt::write_all(&mut stdin, b"heard\n").await.expect("fed");
    assert_eq!(events.recv().await.as_deref(), Some(&b"heard\n"[..]));
    assert_eq!(end.await.expect("followed").outcome.exit_code, Some(0));
}

#[tokio::test]
async fn a_flood_of_events_hits_the_limit_of_output() {
    let mut policy = sh("yes >&3").events();
    policy.job.limits.output = Bytes::mib(1);
    let (finished, events) = finish(policy, Confinement::Namespaces).await;
    assert_eq!(finished.outcome.cause, Cause::OutputLimit, "{}", told(&finished.outcome));
    assert!(events.len() >= 1 << 20);
}

#[tokio::test]
async fn files_at_home_can_be_read_afterwards() {
    for confinement in BOTH {
        let home =
            home_after("mkdir -p a/b; printf hello > a/b/report; touch a/b/empty; mkdir a/b/c", confinement)
                .await;
        assert_eq!(home.read(Path::new("a/b/report"), Bytes::mib(1)).expect("read"), b"hello");
        let mut files = home.list(Path::new("a/b"), 10).expect("listed");
        files.sort();
        let want = [("a/b/empty", 0), ("a/b/report", 5)].map(|(path, size)| (path.into(), Bytes(size)));
        assert_eq!(files, want);
        assert_eq!(home.list(Path::new("a/b"), 1).expect("listed").len(), 1);
    }
}

#[tokio::test]
async fn nothing_is_followed_out_of_it() {
    let script = "ln -s /etc/passwd link; ln -s / root; ln -s /etc etc; mkfifo pipe; mkdir folder; \
                  truncate -s 1024G sparse; ln -s report twice; echo x > report; \
                  /usr/bin/python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")' 2>/dev/null || mkfifo socket";
    for confinement in BOTH {
        let began = Instant::now();
        let script =
            script.replace("1024G", if confinement == Confinement::Namespaces { "1024G" } else { "1G" });
        let home = home_after(&script, confinement).await;
        for (path, want) in [
            ("link", "no file"),
            ("root/etc/passwd", "no file"),
            ("etc/passwd", "no file"),
            ("../../etc/passwd", "no file"),
            ("/etc/passwd", "no file"),
            ("pipe", "no file"),
            ("folder", "no file"),
            ("socket", "no file"),
            ("twice", "no file"),
            ("sparse", "too large"),
            ("absent", "missing"),
            ("folder/absent", "missing"),
        ] {
            assert_eq!(refused(&home, path), want, "{path}, {confinement:?}");
        }
        assert!(matches!(home.list(Path::new("etc"), 9), Err(CollectError::NotAFile(_))));
        assert!(matches!(home.list(Path::new("absent"), 9), Err(CollectError::Missing(_))));
        assert!(began.elapsed() < Duration::from_secs(20), "nothing was waited for");
    }
}

#[tokio::test]
async fn a_limit_leaves_the_files_there() {
    for confinement in BOTH {
        let policy = sh("printf partly > report; sleep 60").wall(Duration::from_millis(400));
        let (finished, _) = finish(policy, confinement).await;
        assert_eq!(finished.outcome.cause, Cause::WallLimit, "{}", told(&finished.outcome));
        let report = finished.home.expect("a home folder").read(Path::new("report"), Bytes::mib(1));
        assert_eq!(report.expect("read"), b"partly");
    }
}

/// What a run changed in a workspace: names, and how each is shown.
async fn changed_by(script: &str, workspace: &Path, layers: &[&Path]) -> (tempfile::TempDir, bool) {
    let mut policy = sh(script).workspace(workspace);
    policy.job.layers = layers.iter().map(|l| l.to_path_buf()).collect();
    let (finished, _) = finish(policy, Confinement::Namespaces).await;
    assert_eq!(finished.outcome.exit_code, Some(0), "{}", told(&finished.outcome));
    let mut changed = finished.changed.expect("what was changed");
    changed.settle().await.expect("settles");
    // A later run's layer is a folder of ours: tar keeps what an overlay means, with whiteouts and attributes.
    let to = tempfile::tempdir().expect("a folder");
    let archive = std::process::Command::new("tar")
        .args(["--xattrs", "--xattrs-include=user.overlay.*", "--no-same-owner", "-cf"])
        .arg(to.path().join(".tar"))
        .args(["-C", &format!("/proc/{}/fd/{}", std::process::id(), changed.folder.as_raw_fd()), "."])
        .status();
    assert!(archive.expect("tar").success());
    let unpacked = std::process::Command::new("tar")
        .args(["--xattrs", "--xattrs-include=user.overlay.*", "--no-same-owner", "-xf", ".tar"])
        .current_dir(to.path())
        .status();
    assert!(unpacked.expect("tar").success());
    std::fs::remove_file(to.path().join(".tar")).expect("removed");
    (to, changed.whole)
}

#[tokio::test]
async fn what_a_run_changed_is_a_layer_of_the_next() {
    let original = tempfile::tempdir().expect("a folder");
    for file in ["a", "b", "d/x", "d/y"] {
        let file = original.path().join(file);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("made");
        std::fs::write(file, "original").expect("written");
    }
    let (first, whole) =
        changed_by("echo 1 > a; rm b; rm -r d; mkdir d; echo 1 > d/z; mkdir n", original.path(), &[]).await;
    if whole {
        println!("skipped: no copy-on-write workspace on this kernel");
        return;
    }
    let (second, _) = changed_by(
        "cat a d/z; ls -A . d; test ! -e b || exit 1; echo 2 > d/z; rmdir n",
        original.path(),
        &[first.path()],
    )
    .await;
    let policy = {
        let mut policy = sh("cat a d/z; echo *").workspace(original.path());
        policy.job.layers = vec![second.path().into(), first.path().into()];
        policy
    };
    let outcome = run(&policy).await;
    assert_eq!(stdout(&outcome), "1\n2\na d\n", "{}", told(&outcome));
    assert_eq!(std::fs::read_to_string(original.path().join("b")).expect("read"), "original");
}

#[tokio::test]
async fn a_copied_workspace_is_changed_as_a_whole() {
    let original = tempfile::tempdir().expect("a folder");
    std::fs::write(original.path().join("a"), "original").expect("written");
    let policy = sh("echo 1 > b").workspace(original.path());
    let (finished, _) = finish(policy, Confinement::LandlockOnly).await;
    let changed = finished.changed.expect("what was changed");
    let folder = format!("/proc/self/fd/{}", changed.folder.as_raw_fd());
    let mut names: Vec<_> =
        std::fs::read_dir(folder).expect("read").map(|e| e.expect("an entry").file_name()).collect();
    names.sort();
    assert!(changed.whole && names == ["a", "b"], "{names:?}");
}

#[tokio::test]
async fn too_many_layers_are_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    for (workspace, count) in [(true, 9), (false, 1)] {
        let mut policy = sh("true");
        policy.job.workspace = workspace.then(|| dir.path().into());
        policy.job.layers = vec![dir.path().into(); count];
        let outcome = run(&policy).await;
        assert_eq!(outcome.cause, Cause::Refused);
        assert!(outcome.reason.unwrap_or_default().contains("layers"));
    }
}
