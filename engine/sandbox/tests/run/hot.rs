//! Prewarmed sandboxes: equivalent to others, used once, and never a hindrance.

use std::time::{Duration, Instant};

use hotcell_sandbox::pool::{Pool, PoolOptions};
use hotcell_sandbox::{Bytes, Cause, Confinement, Engine, Outcome, Policy};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{sh, stdout, told};

/// A pool with two sandboxes for each shape.
fn pool() -> Pool {
    Pool::new(Engine::new(), PoolOptions { each: 2, ..PoolOptions::default() })
}

/// Runs the policy until some sandboxes are waiting for it.
async fn warmed(pool: &Pool, policy: &Policy) {
    for _ in 0..2 {
        pool.run(policy).await;
    }
    filled(pool, 2).await;
}

async fn filled(pool: &Pool, count: usize) {
    let begun = Instant::now();
    while pool.ready() != count {
        assert!(begun.elapsed() < Duration::from_secs(20), "{} are ready, not {count}", pool.ready());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Process 1 shares a namespace with the program, and can mount while it sets up. Checks its remaining
/// privileges when a job needs nothing from it.
#[tokio::test]
async fn process_1_drops_privileges_before_job() {
    let pool = pool();
    let policy = sh(
        "grep -E '^(CapPrm|CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/1/status | tr -s '\\t' ' '; ls /proc/1/fd",
    );
    warmed(&pool, &policy).await;
    let hot = pool.run(&policy).await;
    assert_eq!(pool.served().hot, 1, "{}", told(&hot));
    let said = stdout(&hot);
    for want in ["CapPrm: 0000000000000000", "CapEff: 0000000000000000", "NoNewPrivs: 1", "Seccomp: 2"] {
        assert!(said.contains(want), "{want}: {said}");
    }
    // The process cannot be inspected, so its descriptors cannot be taken either.
    assert!(!said.lines().any(|line| line.parse::<u32>().is_ok()), "{said}");
}

/// A job too long for a message is sent in a memfd.
#[tokio::test]
async fn long_jobs_arrive_complete() {
    let pool = pool();
    for length in [10, 8_000, 16_000, 100_000] {
        let argument = "x".repeat(length);
        let policy = Policy::new("/bin/sh").args(["-c", "echo ${#1}", "sh", &argument]);
        warmed(&pool, &policy).await;
        let before = pool.served().hot;
        let hot = pool.run(&policy).await;
        assert_eq!(pool.served().hot, before + 1);
        assert_eq!(stdout(&hot).trim(), length.to_string(), "{}", told(&hot));
        pool.clear();
    }
}

/// Everything about its environment that a program can see.
const LOOKS: &str = "set -- /proc/[0-9]*; echo $#; pwd; id; hostname; env | sort; stat -c '%A %u %g %n' / /* /tmp /home/sandbox /dev/*; ls -A /tmp /home/sandbox; \
    cat /proc/self/status | grep -E '^(Name|Cap|NoNewPrivs|Seccomp|Groups|NSpid|PPid)'; cat /proc/self/mountinfo | cut -d' ' -f4-6 | sort; \
    ulimit -a; ls /proc/self/fd; cat /proc/self/limits; ip -o addr 2>/dev/null | wc -l; cat; exit 3";

#[tokio::test]
async fn pooled_sandbox_equals_fresh_one() {
    let pool = pool();
    let workspace = tempfile::tempdir().expect("a folder");
    std::fs::write(workspace.path().join("file"), "text").expect("written");
    let (project, bind) = (workspace.path().to_owned(), workspace.path().to_owned());
    let more = |policy: Policy| -> [Policy; 5] {
        let mut env = policy.clone();
        env.job.env.push(("A".into(), "b".into()));
        let mut input = policy.clone();
        input.job.stdin = hotcell_sandbox::policy::Stdin::Bytes(b"input".to_vec());
        let mut plain = policy.clone();
        plain.shape.confinement = Confinement::LandlockOnly;
        [policy, env, input, plain, sh(LOOKS).memory(Bytes::mib(100)).read_only(&bind, "/mnt/bind")]
    };
    let mut policies = more(sh(LOOKS)).to_vec();
    let mut in_project = sh(&format!("cat file; echo new > file; cat file; {LOOKS}"));
    in_project.job.workspace = Some(project);
    policies.push(in_project);
    for policy in policies {
        let cold = pool.engine().run(&policy).await;
        assert_eq!(cold.cause, Cause::Exited, "{}", told(&cold));
        warmed(&pool, &policy).await;
        let before = pool.served().hot;
        let hot = pool.run(&policy).await;
        assert_eq!(pool.served().hot, before + 1, "it was not one of those that were ready");
        // The scratch folder has a unique name there.
        if policy.shape.confinement == Confinement::Namespaces {
            assert_eq!(stdout(&hot), stdout(&cold));
        }
        assert_eq!((hot.cause, hot.exit_code), (cold.cause, cold.exit_code), "{}", told(&hot));
        assert_eq!((&hot.layers, &hot.mounts), (&cold.layers, &cold.mounts));
        // Addresses among the arguments differ between runs.
        let denied = |outcome: &Outcome| -> Vec<(String, String)> {
            outcome.denials.iter().map(|d| (d.layer.to_string(), d.operation.clone())).collect()
        };
        assert_eq!(denied(&hot), denied(&cold));
        pool.clear();
    }
    assert_eq!(std::fs::read_to_string(workspace.path().join("file")).expect("there"), "text");
}

#[tokio::test]
async fn sandbox_is_used_once() {
    let pool = pool();
    let leaves = sh(
        "set -- /proc/[0-9]*; echo $# $$; ls -A /tmp /home/sandbox /dev/shm; echo mine > /tmp/left; echo mine > /home/sandbox/left; \
                     echo mine > /dev/shm/left; (sleep 300 &)",
    );
    let first = stdout(&pool.run(&leaves).await).to_owned();
    warmed(&pool, &leaves).await;
    for _ in 0..6 {
        filled(&pool, 2).await;
        let before = pool.served().hot;
        let next = pool.run(&leaves).await;
        assert_eq!(stdout(&next), first, "{}", told(&next));
        assert_eq!(pool.served().hot, before + 1);
    }
}

/// Shortly after a job was sent, process 1 is asked whether its program runs. Events at about that time must
/// not end a run or get lost.
#[tokio::test]
async fn events_during_start_query_are_handled() {
    let pool = pool();
    // Orphans end before, at and after that time, each waking process 1, while the program goes on.
    let orphans = "for n in 1 3 5 6; do (sleep 0.00$n &); done";
    for (script, want) in [
        (format!("{orphans}; echo a; sleep 0.03; echo b"), "a\nb\n"),
        ("exit 3".to_owned(), ""),
        ("sleep 0.001; echo c".to_owned(), "c\n"),
        ("sleep 0.004; echo c".to_owned(), "c\n"),
        // The filter stops the program before there is a listener.
        ("unshare -U true 2>/dev/null; echo d".to_owned(), "d\n"),
        // More output than a pipe holds, before it is read.
        ("head -c 300000 /dev/zero | tr '\\0' e | tail -c 2; head -c 200000 /dev/zero >&2".to_owned(), "ee"),
    ] {
        let policy = sh(&script);
        warmed(&pool, &policy).await;
        for _ in 0..8 {
            filled(&pool, 2).await;
            let before = pool.served().hot;
            let outcome = pool.run(&policy).await;
            assert_eq!(pool.served().hot, before + 1);
            assert_eq!(
                (outcome.cause, stdout(&outcome)),
                (Cause::Exited, want),
                "{script}: {}",
                told(&outcome)
            );
            assert!(outcome.timings_us.run > 0 && outcome.timings_us.exec > 0, "{}", told(&outcome));
            let denied = outcome.denials.iter().any(|row| row.operation == "unshare");
            assert_eq!(denied, script.contains("unshare"), "{}", told(&outcome));
        }
        pool.clear();
    }
}

/// A process that writes to an ended program, or to one that no longer reads, must not wait until the run is
/// followed.
#[tokio::test]
async fn standard_input_writer_sees_closed_pipe() {
    use tokio::io::AsyncWriteExt;
    let pool = pool();
    for script in ["true", "exec 0<&-; (true &); sleep 0.5"] {
        let mut policy = sh(script);
        policy.job.stdin = hotcell_sandbox::Stdin::Piped;
        for _ in 0..4 {
            let mut running = pool.spawn(&policy).await.expect("it runs");
            let mut stdin = running.stdin().expect("piped");
            let all = [b'x'; 300_000];
            let written = tokio::time::timeout(Duration::from_secs(20), stdin.write_all(&all)).await;
            let error = written.expect("it does not wait for ever").expect_err("nobody read it");
            assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe, "{script}");
            assert_eq!(running.wait().await.cause, Cause::Exited, "{script}");
        }
    }
}

/// Output of a program that has ended before it is read must count too.
#[tokio::test]
async fn output_limit_holds_for_short_programs() {
    let pool = pool();
    let mut policy = sh("head -c 20000 /dev/zero");
    policy.job.limits.output = Bytes(4096);
    for _ in 0..6 {
        let outcome = pool.run(&policy).await;
        assert_eq!(outcome.cause, Cause::OutputLimit, "{}", told(&outcome));
    }
}

#[tokio::test]
async fn limits_hold_in_pooled_sandbox() {
    let pool = pool();
    let hungry = sh("dd if=/dev/zero of=/dev/shm/a bs=1M count=200 2>/dev/null; x=$(head -c 200000000 /dev/zero | tr '\\0' a); echo $?")
        .memory(Bytes::mib(64));
    let slow = {
        let mut slow = sh("sleep 60");
        slow.job.limits.wall = Duration::from_millis(300);
        slow
    };
    for (policy, cause) in [(hungry, Cause::MemoryLimit), (slow, Cause::WallLimit)] {
        warmed(&pool, &policy).await;
        let before = pool.served().hot;
        let outcome = pool.run(&policy).await;
        assert_eq!(outcome.cause, cause, "{}", told(&outcome));
        assert_eq!(pool.served().hot, before + 1);
        pool.clear();
    }
}

#[tokio::test]
async fn killed_launcher_ends_waiting_sandboxes() {
    let pool = pool();
    warmed(&pool, &sh("true")).await;
    let launcher = pool.engine().launcher_id().await.expect("a launcher");
    kill(Pid::from_raw(launcher.cast_signed()), Signal::SIGKILL).expect("killed");
    // The launcher's sandboxes end a moment later, on a slow machine much later and one after another: a run that
    // was given one of them before its end is lost.
    let begun = std::time::Instant::now();
    let mut good_in_a_row = 0;
    while good_in_a_row < 8 {
        let outcome = pool.run(&sh("echo still")).await;
        if outcome.cause == Cause::Internal {
            assert!(begun.elapsed() < Duration::from_secs(30), "sandboxes outlive their launcher");
            good_in_a_row = 0;
            tokio::time::sleep(Duration::from_millis(10)).await;
        } else {
            assert_eq!(stdout(&outcome), "still\n", "{}", told(&outcome));
            good_in_a_row += 1;
        }
    }
}

/// The runner took no job, so its status is not the end of a program.
#[tokio::test]
async fn runner_killed_while_waiting_runs_no_job() {
    // With a folder, process 1 gets the job; without one, the runner does.
    for policy in [sh("echo still"), sh("echo still").read_only("/usr", "/tmp/data")] {
        let pool = pool();
        warmed(&pool, &policy).await;
        let launcher = pool.engine().launcher_id().await.expect("a launcher");
        let mut runners: Vec<u32> = Vec::new();
        // Sandboxes of earlier runs may not have ended yet.
        for _ in 0..500 {
            runners = children(launcher).into_iter().flat_map(children).collect();
            if runners.len() == 2 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(runners.len(), 2);
        for runner in runners {
            kill(Pid::from_raw(runner.cast_signed()), Signal::SIGKILL).expect("killed");
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        for _ in 0..4 {
            let outcome = pool.run(&policy).await;
            assert_eq!((outcome.cause, stdout(&outcome)), (Cause::Exited, "still\n"), "{}", told(&outcome));
        }
    }
}

/// Child processes; empty for a process that has ended.
fn children(of: u32) -> Vec<u32> {
    let list = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    list.split_whitespace().map(|id| id.parse().expect("an id")).collect()
}

#[tokio::test]
async fn idle_sandboxes_expire_and_budget_holds() {
    let options = PoolOptions { each: 3, all: 4, idle: Duration::from_millis(400), ..PoolOptions::default() };
    let pool = Pool::new(Engine::new(), options);
    let shapes = [sh("true"), sh("true").memory(Bytes::mib(99)), sh("true").memory(Bytes::mib(98))];
    for _ in 0..10 {
        for policy in &shapes {
            assert!(pool.run(policy).await.success());
            assert!(pool.ready() <= 4);
        }
    }
    // With a memory limit of 0, no sandbox is made.
    let none = PoolOptions { memory: Bytes(0), ..PoolOptions::default() };
    let small = Pool::new(pool.engine().clone(), none);
    for _ in 0..4 {
        assert!(small.run(&shapes[0]).await.success());
    }
    assert_eq!((small.ready(), small.served().cold), (0, 4));
    // Sandboxes are kept until the idle time has passed.
    tokio::time::sleep(3 * options.idle).await;
    filled(&pool, 0).await;
    // A shape that was asked for once is not prewarmed.
    assert!(pool.run(&sh("true")).await.success());
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(pool.ready(), 0);
    let none = Pool::new(Engine::new(), PoolOptions { each: 0, ..PoolOptions::default() });
    for _ in 0..3 {
        assert!(none.run(&sh("true")).await.success());
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(none.ready(), 0);
}

#[tokio::test]
async fn impossible_shape_is_refused_by_pool() {
    let pool = pool();
    let impossible = sh("true").memory(Bytes(0));
    for _ in 0..3 {
        let outcome = pool.run(&impossible).await;
        assert_eq!(outcome.cause, Cause::Refused, "{}", told(&outcome));
    }
    assert_eq!(pool.ready(), 0);
    // A job that a prewarmed sandbox cannot start returns the reason.
    warmed(&pool, &sh("true")).await;
    let outcome = pool.run(&Policy::new("no-such-program")).await;
    assert_eq!(outcome.cause, Cause::NotFound, "{}", told(&outcome));
}

#[tokio::test]
async fn concurrent_requests_are_all_served() {
    // More requests than the socket to the launcher holds.
    let engine = Engine::new();
    let runs: Vec<_> = (0..96)
        .map(|_| {
            let engine = engine.clone();
            let mut policy = sh("echo here");
            // An emulated machine makes the sandboxes one after the other.
            policy.job.limits.wall = Duration::from_secs(300);
            tokio::spawn(async move { engine.run(&policy).await })
        })
        .collect();
    for run in runs {
        let outcome = run.await.expect("it ran");
        assert_eq!(stdout(&outcome), "here\n", "{}", told(&outcome));
    }
}
