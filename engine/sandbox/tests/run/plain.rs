//! The fallback for hosts that forbid user namespaces: Landlock, seccomp and rlimits on the host's own tree.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use hotcell_sandbox::{Cause, Confinement, Layer, Policy, ProcView};

use crate::{run, sh, stdout, told};

fn plain(mut policy: Policy) -> Policy {
    policy.shape.confinement = Confinement::LandlockOnly;
    policy
}

#[tokio::test]
async fn proc_view_limits_visible_processes() {
    let script = "read -r own < /proc/self/stat && echo own; cat /proc/1/cmdline > /dev/null && echo host; \
        cat /proc/cpuinfo > /dev/null && echo machine; cat /proc/self/status > /dev/null && echo child; true";
    let of = |proc| {
        let mut policy = plain(sh(script));
        policy.shape.proc = proc;
        policy
    };
    let outcome = run(&of(ProcView::Masked)).await;
    assert_eq!(stdout(&outcome), "own\nhost\nmachine\nchild\n", "{}", told(&outcome));
    let outcome = run(&of(ProcView::OwnProcesses)).await;
    assert_eq!(stdout(&outcome), "own\n", "{}", told(&outcome));
}

#[tokio::test]
async fn landlock_only_run_reports_missing_layers() {
    let outcome = run(&plain(sh(
        "echo $HOME; touch $HOME/x && echo wrote; pwd; grep -E '^(NoNew|Seccomp:)' /proc/self/status",
    )))
    .await;
    let text = stdout(&outcome);
    assert!(
        text.contains("wrote") && text.contains("NoNewPrivs:\t1") && text.contains("Seccomp:\t2"),
        "{}",
        told(&outcome)
    );
    for layer in [Layer::UserNs, Layer::MountNs, Layer::PidNs, Layer::NetNs] {
        assert!(!outcome.layers.is_on(layer), "{layer}");
    }
    assert!(
        outcome.layers.is_on(Layer::Landlock) && outcome.layers.is_on(Layer::Seccomp),
        "{}",
        told(&outcome)
    );
    let home = std::path::PathBuf::from(text.lines().next().unwrap_or_default());
    let until = Instant::now() + Duration::from_secs(3);
    while home.exists() && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!home.exists(), "the scratch folder is gone afterwards");
}

/// As `lib64` of a virtual environment in `/tmp`: the link is the host's, and leads to its folder.
#[tokio::test]
async fn toolchain_behind_link_is_readable() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let (lib, link) = (folder.path().join("lib"), folder.path().join("lib64"));
    std::fs::create_dir(&lib).unwrap();
    std::fs::write(lib.join("word"), "found").unwrap();
    std::os::unix::fs::symlink("lib", &link).unwrap();
    let script = format!("cat {}", link.join("word").display());
    let outcome = run(&plain(sh(&script).toolchain(&lib).toolchain(&link))).await;
    assert_eq!(stdout(&outcome), "found", "{}", told(&outcome));
}

#[tokio::test]
async fn landlock_only_denies_host_files_and_network() {
    let secret = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(secret.path(), "secret").expect("written");
    let script = "cat \"$0\"; cat /etc/shadow; echo x > /tmp/hotcell-plain-escape; \
                  /usr/bin/python3 -c 'import socket; socket.socket()' 2>/dev/null || echo no socket; \
                  ls /root >/dev/null || echo no root";
    let outcome = run(&plain(sh(script).arg(secret.path()))).await;
    assert_eq!(stdout(&outcome), "no socket\nno root\n", "{}", told(&outcome));
    assert!(!std::path::Path::new("/tmp/hotcell-plain-escape").exists());
}

#[tokio::test]
async fn daemons_end_with_program_or_limit() {
    // A machine that is emulated may need a second to start a shell.
    for (script, seconds, cause) in [
        ("setsid sleep 613 & echo begun", 30.0, Cause::Exited),
        ("setsid sleep 614 & sleep 614", 0.4, Cause::WallLimit),
    ] {
        let outcome = run(&plain(sh(script)).wall(Duration::from_secs_f64(seconds))).await;
        assert_eq!(outcome.cause, cause, "{}", told(&outcome));
    }
    let until = Instant::now() + Duration::from_secs(3);
    let alive = || {
        std::fs::read_dir("/proc").expect("/proc").flatten().any(|e| {
            std::fs::read(e.path().join("cmdline"))
                .is_ok_and(|c| c == b"sleep\x00613\x00" || c == b"sleep\x00614\x00")
        })
    };
    while alive() && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!alive());
}

#[tokio::test]
async fn landlock_only_workspace_is_copy() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("a"), "original").expect("written");
    let outcome = run(&plain(sh("cat a; echo changed > a; cat a").workspace(dir.path()))).await;
    assert_eq!(stdout(&outcome), "originalchanged\n", "{}", told(&outcome));
    assert_eq!(std::fs::read(dir.path().join("a")).expect("read"), b"original");
    assert!(outcome.mounts.iter().any(|m| m.kind == "copy"));

    let at_home = sh("cat ../shown/a ../deep/er; echo x >> ../deep/er")
        .workspace(dir.path())
        .read_only(dir.path(), "/home/sandbox/shown")
        .read_only(dir.path().join("a"), "/home/sandbox/deep/er");
    let outcome = run(&plain(at_home)).await;
    assert_eq!(stdout(&outcome), "originaloriginal", "{}", told(&outcome));
    assert_eq!(std::fs::read(dir.path().join("a")).expect("read"), b"original");

    // The system's own /tmp is not scratch here, so a folder in it needs a rule of its own.
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(dir.path(), open).expect("opened");
    let at_its_place =
        run(&plain(sh("cat \"$0\"/a").arg(dir.path()).read_only(dir.path(), dir.path()))).await;
    assert_eq!(stdout(&at_its_place), "original", "{}", told(&at_its_place));

    let elsewhere = run(&plain(sh("true").read_only(dir.path(), "/data"))).await;
    assert_eq!(elsewhere.cause, Cause::Refused, "{}", told(&elsewhere));
}
