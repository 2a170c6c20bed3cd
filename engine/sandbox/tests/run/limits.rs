use std::time::{Duration, Instant};

use hotcell_sandbox::outcome::Limit;
use hotcell_sandbox::{Bytes, Cause, Limits, Outcome, Policy};

use crate::{run, sh, told};

fn python(script: &str) -> Policy {
    Policy::new("/usr/bin/python3").args(["-c", script])
}

fn hit(outcome: &Outcome, limit: Limit) -> bool {
    outcome.limits_hit.iter().any(|h| h.limit == limit)
}

/// Runs a bomb; it must be ended well before its limit of wall-clock time.
async fn bomb(policy: &Policy, cause: Cause) -> Outcome {
    let started = Instant::now();
    let outcome = run(policy).await;
    assert_eq!(outcome.cause, cause, "{}", told(&outcome));
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    outcome
}

#[tokio::test]
async fn wall_limit_ends_sleeper_ignoring_signals() {
    let policy =
        sh("trap '' TERM INT; echo begun; while :; do sleep 1; done").wall(Duration::from_millis(1500));
    let outcome = bomb(&policy, Cause::WallLimit).await;
    assert!(hit(&outcome, Limit::Wall));
    assert_eq!(outcome.stdout.text.as_deref(), Some("begun\n"), "output so far is kept");
}

#[tokio::test]
async fn cpu_time_ends_a_spinner_on_several_threads() {
    let mut policy = sh("while :; do :; done & while :; do :; done");
    policy.job.limits.cpu_time = Some(Duration::from_millis(600));
    let outcome = bomb(&policy, Cause::CpuLimit).await;
    assert!(hit(&outcome, Limit::CpuTime) || outcome.signal.is_some(), "{}", told(&outcome));
}

#[tokio::test]
async fn memory_ends_a_bomb_and_keeps_its_output() {
    let script = "print('begun', flush=True)\nx = []\nwhile True: x.append(bytearray(1 << 20))";
    let outcome = bomb(&python(script).memory(Bytes::mib(64)), Cause::MemoryLimit).await;
    assert!(hit(&outcome, Limit::Memory), "{}", told(&outcome));
    assert_eq!(outcome.stdout.text.as_deref(), Some("begun\n"));
}

#[tokio::test]
async fn memory_that_is_only_reserved_is_free() {
    let script =
        "import mmap; m = mmap.mmap(-1, 64 << 30, prot=0, flags=mmap.MAP_PRIVATE | 0x4000); print('ok')";
    let outcome = run(&python(script).memory(Bytes::mib(64))).await;
    assert_eq!(outcome.stdout.text.as_deref(), Some("ok\n"), "{}", told(&outcome));
}

#[tokio::test]
async fn memory_that_forked_workers_share_counts_once() {
    let script = "import os, time\n\
        shared = bytearray(b'x') * (40 << 20)\n\
        workers = []\n\
        for _ in range(12):\n    pid = os.fork()\n    if pid == 0:\n        time.sleep(0.6); os._exit(sum(shared[::4096]) == 0)\n    workers.append(pid)\n\
        print([os.waitpid(pid, 0)[1] for pid in workers] == [0] * 12)";
    let outcome = run(&python(script).memory(Bytes::mib(384))).await;
    assert_eq!(outcome.stdout.text.as_deref(), Some("True\n"), "{}", told(&outcome));
}

#[tokio::test]
async fn fork_bomb_is_limited_and_ended() {
    let mut policy = sh("f() { f | f & f; }; f").wall(Duration::from_secs(5));
    policy.job.limits.processes = 20;
    let outcome = run(&policy).await;
    if outcome.layers.cgroup_version > 0 {
        // The limit is hit at once; a shell bomb may fail by itself before the second is over.
        assert!(hit(&outcome, Limit::Processes), "{}", told(&outcome));
        assert!(matches!(outcome.cause, Cause::ProcessLimit | Cause::Exited), "{}", told(&outcome));
    } else {
        assert!(
            matches!(outcome.cause, Cause::WallLimit | Cause::Exited | Cause::CpuLimit),
            "{}",
            told(&outcome)
        );
    }
}

#[tokio::test]
async fn forks_that_go_on_failing_end_the_run() {
    let script = "import os, time\nwhile True:\n try:\n  if os.fork() == 0: time.sleep(60)\n except OSError: time.sleep(0.01)";
    let mut policy = python(script).wall(Duration::from_secs(6));
    policy.job.limits.processes = 8;
    let outcome = run(&policy).await;
    let want = if outcome.layers.cgroup_version > 0 { Cause::ProcessLimit } else { Cause::WallLimit };
    assert_eq!(outcome.cause, want, "{}", told(&outcome));
}

#[tokio::test]
async fn output_ends_a_bomb_and_keeps_both_ends() {
    let limits = Limits { output: Bytes::mib(1), capture: Bytes::kib(8), ..Limits::default() };
    let outcome = bomb(&sh("echo first; yes").limits(limits), Cause::OutputLimit).await;
    let text = outcome.stdout.text.clone().unwrap_or_default();
    assert!(text.starts_with("first\ny\n") && outcome.stdout.truncated, "{}", told(&outcome));
    assert_eq!(text.len(), 8 << 10);
    assert!(outcome.stdout.bytes > 1 << 20);
}

#[tokio::test]
async fn full_disk_is_denied_then_ends_run() {
    let limits = Limits { disk: Bytes::mib(4), ..Limits::default() };
    let once = run(&sh("head -c 8M /dev/zero > /tmp/x; echo $?").limits(limits.clone())).await;
    assert_eq!((once.cause, once.stdout.text.as_deref()), (Cause::Exited, Some("1\n")), "{}", told(&once));
    assert!(hit(&once, Limit::Disk), "{}", told(&once));
    let outcome = bomb(&sh("cat /dev/zero > /tmp/x; sleep 30").limits(limits), Cause::DiskLimit).await;
    assert!(outcome.usage.disk_bytes.is_some_and(|n| n >= 4 << 20), "{}", told(&outcome));
}

#[tokio::test]
async fn excess_files_are_denied_then_end_run() {
    let limits = Limits { files: 100, ..Limits::default() };
    let script = "import itertools, time\nfor i in itertools.count():\n try: open(f'/tmp/{i}', 'x').close()\n except OSError: time.sleep(0.05)";
    let outcome = bomb(&python(script).limits(limits), Cause::FileLimit).await;
    assert!(hit(&outcome, Limit::Files), "{}", told(&outcome));
    assert!(outcome.usage.disk_files.is_some_and(|n| (98..=102).contains(&n)), "{}", told(&outcome));
}

#[tokio::test]
async fn scratch_is_not_charged_as_memory() {
    let policy = sh("head -c 100M /dev/zero > /tmp/x; sleep 0.3; echo done").memory(Bytes::mib(32));
    let outcome = run(&policy).await;
    assert_eq!(outcome.stdout.text.as_deref(), Some("done\n"), "{}", told(&outcome));
}

#[tokio::test]
async fn job_limits_below_shape_hold() {
    let engine = hotcell_sandbox::Engine::shared();
    let sandbox = engine.acquire(&hotcell_sandbox::Shape::default()).await.expect("acquired");
    let script = "import time\nx = bytearray(96 << 20)\ntime.sleep(5)";
    let job = python(script).memory(Bytes::mib(48)).job;
    let outcome = sandbox.release(&job).await.expect("released").wait().await;
    assert_eq!(outcome.cause, Cause::MemoryLimit, "{}", told(&outcome));
    let sandbox = engine.acquire(&hotcell_sandbox::Shape::default()).await.expect("acquired");
    let mut more = python("pass").job;
    more.limits.processes = 100_000;
    let refusal = sandbox.release(&more).await.expect_err("above the ceiling");
    assert!(refusal.message.contains("ceiling"), "{refusal}");
}

#[tokio::test]
async fn program_cannot_forge_limit() {
    let outcome = run(&sh("kill -XCPU $$")).await;
    assert_eq!(
        (outcome.cause, outcome.signal.as_deref()),
        (Cause::Signaled, Some("SIGXCPU")),
        "{}",
        told(&outcome)
    );
    assert!(outcome.limits_hit.is_empty());
}

#[tokio::test]
async fn memory_that_is_in_no_mapping_is_memory() {
    let script = "import os, time\nfd = os.memfd_create('x')\nfor _ in range(96): os.write(fd, bytes(1 << 20))\ntime.sleep(5)";
    let outcome = run(&python(script).memory(Bytes::mib(48))).await;
    if outcome.layers.cgroup_version > 0 {
        assert_eq!(outcome.cause, Cause::MemoryLimit, "{}", told(&outcome));
    } else {
        // Without a cgroup nothing would account for this memory, so it cannot be allocated.
        assert_eq!(outcome.exit_code, Some(1), "{}", told(&outcome));
    }
}

/// Runs a program that holds too much memory until it is stopped.
async fn stopped_by_memory(policy: Policy) -> Outcome {
    let outcome = run(&policy.wall(Duration::from_secs(120))).await;
    assert_eq!(outcome.cause, Cause::MemoryLimit, "{}", told(&outcome));
    assert!(hit(&outcome, Limit::Memory), "{}", told(&outcome));
    outcome
}

/// A program that fills 4 MiB of shared anonymous memory after another, and hides each from its resident memory.
const HIDDEN: &str = "import ctypes, mmap, sys, time\n\
    c = ctypes.CDLL(None)\n\
    size = int(sys.argv[1]) << 20\n\
    m = mmap.mmap(-1, size, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)\n\
    at = ctypes.addressof(ctypes.c_char.from_buffer(m))\n\
    for i in range(0, size, 4 << 20):\n\
    \x20   ctypes.memset(at + i, 65, 4 << 20)\n\
    \x20   c.madvise(ctypes.c_void_p(at + i), ctypes.c_size_t(4 << 20), 4)\n";

#[tokio::test]
async fn shared_memory_that_is_not_resident_is_memory() {
    let hold = "print('held', flush=True)\ntime.sleep(200)";
    // The process that holds it maps it without ever having touched it.
    let forked = "import os\nif os.fork(): os._exit(0) if sys.argv[2:] else time.sleep(200)\n";
    // The kernel does not show the mappings of a program that cannot be traced.
    let undumpable = "c.prctl(4, 0, 0, 0, 0)\n";
    let renamed = "c.prctl(0x53564d41, 0, ctypes.c_void_p(at), ctypes.c_size_t(size), b'other')\n";
    let read_only = "c.mprotect(ctypes.c_void_p(at), ctypes.c_size_t(size), 5)\n";
    for then in ["", forked, undumpable, renamed, read_only] {
        let policy = Policy::new("/usr/bin/python3").args(["-c", &format!("{HIDDEN}{then}{hold}"), "192"]);
        stopped_by_memory(policy.memory(Bytes::mib(96))).await;
    }
}

#[tokio::test]
async fn shared_memory_of_dev_zero_is_memory() {
    let script = "import mmap, os, time\n\
        m = mmap.mmap(os.open('/dev/zero', os.O_RDWR), 192 << 20)\n\
        for i in range(0, 192 << 20, 4096): m[i] = 1\n\
        m.madvise(mmap.MADV_DONTNEED)\ntime.sleep(200)";
    stopped_by_memory(python(script).memory(Bytes::mib(96))).await;
}

#[tokio::test]
async fn memory_of_a_process_without_its_first_thread_is_memory() {
    let script = "import ctypes, threading, time\n\
        def hold():\n    time.sleep(1)\n    x = bytearray(b'x') * (192 << 20)\n    time.sleep(200)\n\
        threading.Thread(target=hold).start()\n\
        ctypes.CDLL(None).syscall(60, 0)";
    stopped_by_memory(python(script).memory(Bytes::mib(96))).await;
}

#[tokio::test]
async fn shared_memory_within_the_limit_passes() {
    // As a database's buffers: one mapping that ten processes fill and use together, for many samples.
    let workers = "import mmap, os, time\n\
        m = mmap.mmap(-1, 96 << 20)\n\
        workers = []\n\
        for _ in range(10):\n    pid = os.fork()\n    if pid == 0:\n\
        \x20       for i in range(0, 96 << 20, 4096): m[i] = 1\n\
        \x20       time.sleep(0.8); os._exit(0)\n    workers.append(pid)\n\
        print([os.waitpid(pid, 0)[1] for pid in workers] == [0] * 10)";
    // As numpy with shared memory: a file on scratch, which counts as disk.
    let arrays = "import time\nfrom multiprocessing import shared_memory\n\
        one = shared_memory.SharedMemory(create=True, size=96 << 20)\n\
        for i in range(0, 96 << 20, 4096): one.buf[i] = 1\n\
        time.sleep(0.3)\none.close()\none.unlink()\nprint(True)";
    // One after another: each is gone before the next.
    let series = "import mmap\n\
        for _ in range(12):\n    m = mmap.mmap(-1, 96 << 20)\n\
        \x20   for i in range(0, 96 << 20, 4096): m[i] = 1\n    m.close()\n\
        print(True)";
    for (script, memory) in [(workers, 320), (arrays, 96), (series, 256)] {
        let outcome = run(&python(script).memory(Bytes::mib(memory))).await;
        assert_eq!(outcome.stdout.text.as_deref(), Some("True\n"), "{script}: {}", told(&outcome));
        assert!(!hit(&outcome, Limit::Memory), "{script}: {}", told(&outcome));
    }
}

/// Children of children that end before they are sampled, each with 30 ms of processor time, for `seconds`.
fn orphans(seconds: u32) -> String {
    format!(
        "import os, time\n\
        end = time.time() + {seconds}\n\
        while time.time() < end:\n    if os.fork() == 0:\n\
        \x20       if os.fork(): os._exit(0)\n\
        \x20       until = time.process_time() + 0.03\n\
        \x20       while time.process_time() < until: pass\n\
        \x20       os._exit(0)\n\
        \x20   os.wait(); time.sleep(0.03)\n\
        print('done')"
    )
}

#[tokio::test]
async fn cpu_time_of_orphans_counts() {
    let mut policy = python(&orphans(600)).wall(Duration::from_secs(300));
    policy.job.limits.cpu_time = Some(Duration::from_secs(2));
    let outcome = run(&policy).await;
    assert_eq!(outcome.cause, Cause::CpuLimit, "{}", told(&outcome));
    assert!(hit(&outcome, Limit::CpuTime), "{}", told(&outcome));
    policy = python(&orphans(1));
    policy.job.limits.cpu_time = Some(Duration::from_secs(20));
    let outcome = run(&policy).await;
    assert_eq!(outcome.stdout.text.as_deref(), Some("done\n"), "{}", told(&outcome));
    assert!(outcome.limits_hit.is_empty(), "{}", told(&outcome));
}

/// Memory that belongs to the kernel counts in each version of cgroups and without one.
#[tokio::test]
async fn memory_of_the_kernel_is_memory() {
    // Unread datagrams, about 200 MiB.
    let queued = "import socket, time\n\
        kept = []\n\
        for _ in range(300):\n    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\n    kept.append(pair)\n\
        \x20   for one in pair:\n        one.setblocking(False)\n        try:\n            while True: one.send(bytes(60000))\n\
        \x20       except OSError: pass\n\
        print('held', flush=True)\ntime.sleep(200)";
    // 60,000 page tables, of 4 KiB each, for one page of zeros.
    let tables = "import ctypes, time\n\
        c = ctypes.CDLL(None)\nc.mmap.restype = ctypes.c_void_p\n\
        at = c.mmap(None, ctypes.c_size_t(60000 << 21), 1, 0x4022, -1, ctypes.c_long(0))\n\
        c.madvise(ctypes.c_void_p(at), ctypes.c_size_t(60000 << 21), 15)\n\
        for i in range(60000): ctypes.c_char.from_address(at + (i << 21)).value\n\
        print('held', flush=True)\ntime.sleep(200)";
    for script in [queued, tables] {
        let outcome = stopped_by_memory(python(script).memory(Bytes::mib(64))).await;
        assert!(outcome.usage.peak_memory_bytes.is_some_and(|n| n > 64 << 20), "{}", told(&outcome));
    }
}

#[tokio::test]
async fn caches_of_the_kernel_are_not_memory() {
    // The kernel remembers names that do not exist, about 200 bytes each, until it needs the memory. They are new
    // in each run, since those that it knows belong to the group that asked first.
    let script = "import os, time\n\
        begun = time.time_ns()\n\
        for i in range(400000):\n    try: os.stat(f'/usr/lib/no-such-name-{begun}-{i}')\n    except OSError: pass\n\
        time.sleep(0.5)\nprint('done')";
    let outcome = run(&python(script).memory(Bytes::mib(48))).await;
    assert_eq!(outcome.stdout.text.as_deref(), Some("done\n"), "{}", told(&outcome));
    assert!(!hit(&outcome, Limit::Memory), "{}", told(&outcome));
}
