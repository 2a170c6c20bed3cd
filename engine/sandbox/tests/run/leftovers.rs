//! Results of a run other than its output: events as they arrive, and the files in its home folder
//! afterwards.

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
async fn events_use_separate_descriptor() {
    for confinement in BOTH {
        let (finished, events) =
            finish(sh("echo one >&3; echo out; echo two >&3").events(), confinement).await;
        assert_eq!(events, b"one\ntwo\n", "{}", told(&finished.outcome));
        assert_eq!(stdout(&finished.outcome), "out\n");
    }
}

#[tokio::test]
async fn event_descriptor_is_absent_without_events() {
    let outcome = run(&sh("ls /proc/self/fd; echo x >&3")).await;
    // Descriptor 3 is the folder that `ls` reads.
    assert_eq!(stdout(&outcome), "0\n1\n2\n3\n", "{}", told(&outcome));
    assert_ne!(outcome.exit_code, Some(0), "{}", told(&outcome));
}

#[tokio::test]
async fn event_arrives_while_program_runs() {
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
async fn event_flood_hits_output_limit() {
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
async fn home_reader_follows_no_link() {
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
async fn files_survive_time_limit() {
    for confinement in BOTH {
        let policy = sh("printf partly > report; sleep 60").wall(Duration::from_millis(400));
        let (finished, _) = finish(policy, confinement).await;
        assert_eq!(finished.outcome.cause, Cause::WallLimit, "{}", told(&finished.outcome));
        let report = finished.home.expect("a home folder").read(Path::new("report"), Bytes::mib(1));
        assert_eq!(report.expect("read"), b"partly");
    }
}

#[tokio::test]
async fn layers_lie_over_a_workspace() {
    use nix::sys::stat::{Mode, SFlag, mknod};
    let [original, below, above] = [(); 3].map(|()| tempfile::tempdir().expect("a folder"));
    let write = |folder: &Path, file: &str, text: &str| {
        let file = folder.join(file);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("made");
        std::fs::write(file, text).expect("written");
    };
    for file in ["a", "b", "d/x", "d/y"] {
        write(original.path(), file, "original\n");
    }
    write(below.path(), "a", "below\n");
    write(below.path(), "d/z", "below\n");
    write(above.path(), "d/z", "above\n");
    for gone in [below.path().join("b"), above.path().join("d/x")] {
        mknod(&gone, SFlag::S_IFCHR, Mode::empty(), 0).expect("what was deleted");
    }
    let mut policy = sh("cat a d/y d/z; echo * d/*; echo new > d/x; cat d/x").workspace(original.path());
    policy.job.layers = vec![above.path().into(), below.path().into()];
    let (finished, _) = finish(policy, Confinement::Namespaces).await;
    let want = "below\noriginal\nabove\na d d/y d/z\nnew\n";
    assert_eq!(stdout(&finished.outcome), want, "{}", told(&finished.outcome));
    assert!(!above.path().join("d/new").exists() && original.path().join("d/x").exists());
    let mut changed = finished.changed.expect("what was changed");
    changed.settle().await.expect("settles");
    let folder = format!("/proc/self/fd/{}/d", changed.folder.as_raw_fd());
    let names: Vec<_> =
        std::fs::read_dir(folder).expect("read").filter_map(Result::ok).map(|e| e.file_name()).collect();
    assert!(names.contains(&"x".into()), "{names:?}");
}

#[tokio::test]
async fn copied_workspace_is_reported_completely() {
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
async fn excess_layers_are_refused() {
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
