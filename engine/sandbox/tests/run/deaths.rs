//! Tests which processes end together, and that nothing is left behind.

use std::time::{Duration, Instant};

use hotcell_sandbox::{Cause, Engine, Policy};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{run, sh, told};

/// Whether the command line of any process contains `mark`.
fn alive(mark: &str) -> bool {
    let own = std::process::id().to_string();
    std::fs::read_dir("/proc").expect("/proc").flatten().any(|entry| {
        let name = entry.file_name();
        name != own.as_str()
            && name.to_string_lossy().bytes().all(|b| b.is_ascii_digit())
            && std::fs::read(entry.path().join("cmdline"))
                .is_ok_and(|line| line.split(|b| *b == 0).any(|arg| arg == mark.as_bytes()))
    })
}

fn wait_until(what: impl Fn() -> bool) -> bool {
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        if what() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

/// A program that keeps running, with a daemon that left its session, both findable by `mark`.
fn stays(mark: &str) -> Policy {
    sh("setsid sh -c 'sleep 600; :' \"$0\" & sleep 600; :").arg(mark)
}

#[tokio::test]
async fn daemons_end_with_the_program() {
    let mark = "hotcell-mark-daemon";
    let outcome = run(&sh("setsid sh -c 'sleep 600; :' \"$0\" >/dev/null 2>&1 & echo begun").arg(mark)).await;
    assert_eq!((outcome.cause, outcome.exit_code), (Cause::Exited, Some(0)), "{}", told(&outcome));
    assert!(wait_until(|| !alive(mark)));
}

#[tokio::test]
async fn background_child_does_not_delay_outcome() {
    let started = Instant::now();
    let outcome = run(&sh("sleep 600 & echo done")).await;
    assert_eq!(outcome.stdout.text.as_deref(), Some("done\n"));
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
}

#[tokio::test]
async fn killed_launcher_ends_sandboxes_and_is_replaced() {
    let engine = Engine::new();
    let mark = "hotcell-mark-launcher";
    let policy = stays(mark);
    let running = engine.spawn(&policy).await.expect("spawned");
    let waiting = tokio::spawn(running.wait());
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(alive(mark));
    let launcher = engine.launcher_id().await.expect("a launcher");
    kill(Pid::from_raw(i32::try_from(launcher).expect("a pid")), Signal::SIGKILL).expect("killed");
    let outcome = waiting.await.expect("followed");
    assert_eq!(outcome.cause, Cause::Internal, "{}", told(&outcome));
    assert!(wait_until(|| !alive(mark)));
    let again = engine.run(&sh("echo again")).await;
    assert_eq!(again.stdout.text.as_deref(), Some("again\n"), "{}", told(&again));
}

#[tokio::test]
async fn stopped_launcher_does_not_keep_dropped_run() {
    let engine = Engine::new();
    let mark = "hotcell-mark-stopped";
    let policy = stays(mark);
    let mut running = engine.spawn(&policy).await.expect("spawned");
    let output = running.output();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(alive(mark));
    let launcher =
        Pid::from_raw(i32::try_from(engine.launcher_id().await.expect("a launcher")).expect("a pid"));
    kill(launcher, Signal::SIGSTOP).expect("stopped");
    drop((running, output));
    let ended = tokio::task::spawn_blocking(move || wait_until(|| !alive(mark))).await.expect("waited");
    kill(launcher, Signal::SIGCONT).expect("continued");
    assert!(ended);
}

/// Sandboxes only need their launcher to exist, so a launcher that does not answer must not cost a run.
#[tokio::test]
async fn stopped_launcher_is_replaced_and_runs_continue() {
    let engine = Engine::new();
    let mark = "hotcell-mark-kept";
    let mut policy = sh("cat; echo done").arg(mark);
    policy.job.stdin = hotcell_sandbox::Stdin::Piped;
    let mut running = engine.spawn(&policy).await.expect("spawned");
    let stdin = running.stdin();
    let begun = tokio::task::spawn_blocking(move || wait_until(|| alive(mark))).await.expect("waited");
    assert!(begun);
    let first = engine.launcher_id().await.expect("a launcher");
    kill(Pid::from_raw(first.cast_signed()), Signal::SIGSTOP).expect("stopped");
    let folder = tempfile::tempdir().expect("a folder");
    // A folder is cloned by the launcher, and the engine waits for the answer.
    let policy = sh("echo other").read_only(folder.path(), folder.path());
    // The first run to notice is refused if it was waiting for the clone, and served by the next launcher if
    // it was waiting for the sandbox.
    let first_to_meet_it = engine.run(&policy).await;
    let served = first_to_meet_it.stdout.text.as_deref() == Some("other\n");
    assert!(served || first_to_meet_it.cause == Cause::Internal, "{}", told(&first_to_meet_it));
    let other = engine.run(&policy).await;
    assert_eq!(other.stdout.text.as_deref(), Some("other\n"), "{}", told(&other));
    assert_ne!(engine.launcher_id().await, Some(first));
    drop(stdin);
    let outcome = running.wait().await;
    assert_eq!(outcome.stdout.text.as_deref(), Some("done\n"), "{}", told(&outcome));
}

#[tokio::test]
async fn hundred_runs_leave_no_resources() {
    let engine = Engine::new();
    let count = |what: &str| std::fs::read_dir(format!("/proc/self/{what}")).expect("/proc/self").count();
    let groups = || {
        let folders = engine.cgroup_folders();
        let own = format!("{}-", std::process::id());
        folders
            .iter()
            .flat_map(|f| std::fs::read_dir(f).into_iter().flatten().flatten())
            .filter(|e| e.file_name().to_string_lossy().starts_with(&own))
            .count()
    };
    let _ = engine.run(&sh("true")).await;
    assert!(engine.settle(Duration::from_secs(5)).await);
    let before = count("fd");
    for _ in 0..100 {
        let outcome = engine.run(&sh("true")).await;
        assert!(outcome.success(), "{}", told(&outcome));
    }
    assert!(engine.settle(Duration::from_secs(5)).await);
    // Other tests run in this process at the same time, some with dozens of sandboxes: only a leak for each
    // run would exceed this number and persist.
    let gone = move || std::fs::read_dir("/proc/self/fd").expect("/proc/self").count() < before + 95;
    let gone = tokio::task::spawn_blocking(move || (0..8).any(|_| wait_until(gone))).await.expect("waited");
    assert!(gone, "{before} descriptors before, {} after", count("fd"));
    assert!(groups() < 100, "{} cgroups left", groups());
}

#[tokio::test]
async fn launcher_end_kills_program_without_pid_namespace() {
    let engine = Engine::new();
    let mark = "hotcell-mark-plain";
    let mut policy = stays(mark);
    policy.shape.confinement = hotcell_sandbox::Confinement::LandlockOnly;
    let running = engine.spawn(&policy).await.expect("spawned");
    let waiting = tokio::spawn(running.wait());
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(alive(mark));
    let launcher = engine.launcher_id().await.expect("a launcher");
    kill(Pid::from_raw(i32::try_from(launcher).expect("a pid")), Signal::SIGKILL).expect("killed");
    let outcome = waiting.await.expect("followed");
    assert_eq!(outcome.cause, Cause::Internal, "{}", told(&outcome));
    assert!(tokio::task::spawn_blocking(move || wait_until(|| !alive(mark))).await.expect("waited"));
}

/// The children of a single-threaded process.
fn children(parent: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Whether a process has not ended yet; an ended one may still wait to be reaped by its new parent.
fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Regression: the second process waits for a job, and used to outlive the processes that could send one.
#[tokio::test]
async fn jobless_sandbox_without_pid_namespace_leaves_no_process() {
    for killed in [false, true] {
        let engine = Engine::new();
        let shape = hotcell_sandbox::Shape {
            confinement: hotcell_sandbox::Confinement::LandlockOnly,
            ..hotcell_sandbox::Shape::default()
        };
        let sandbox = engine.acquire(&shape).await.expect("acquired");
        let launcher = engine.launcher_id().await.expect("a launcher");
        let all = move || -> Vec<u32> {
            children(launcher).into_iter().flat_map(|init| [vec![init], children(init)].concat()).collect()
        };
        let both = move || wait_until(|| all().len() == 2);
        assert!(tokio::task::spawn_blocking(both).await.expect("waited"), "{:?}", all());
        let all = all();
        if killed {
            kill(Pid::from_raw(launcher.cast_signed()), Signal::SIGKILL).expect("killed");
        } else {
            drop(sandbox);
        }
        let ended = move || wait_until(|| !all.iter().any(|pid| lives(*pid)));
        assert!(tokio::task::spawn_blocking(ended).await.expect("waited"), "killed: {killed}");
    }
}
