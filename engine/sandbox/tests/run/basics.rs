use std::io::{Read, Write};
use std::time::Duration;

use hotcell_sandbox::{Cause, Chunk, Layer, Policy, Stdin};

use crate::{run, sh, stdout, told};

#[tokio::test]
async fn exit_codes_and_signals_are_reported() {
    for (script, cause, code, signal) in [
        ("exit 0", Cause::Exited, Some(0), None),
        ("exit 77", Cause::Exited, Some(77), None),
        ("kill -9 $$", Cause::Signaled, None, Some("SIGKILL")),
        ("kill -SEGV $$", Cause::Signaled, None, Some("SIGSEGV")),
    ] {
        let outcome = run(&sh(script)).await;
        let got = (outcome.cause, outcome.exit_code, outcome.signal.as_deref());
        assert_eq!(got, (cause, code, signal), "{script}: {}", told(&outcome));
    }
}

#[tokio::test]
async fn missing_and_broken_programs_have_their_own_causes() {
    for (program, cause) in [
        ("no-such-program-anywhere", Cause::NotFound),
        ("/usr/bin/no-such-program", Cause::NotFound),
        ("/etc/passwd", Cause::NotExecutable),
        ("/usr", Cause::NotExecutable),
    ] {
        let outcome = run(&Policy::new(program)).await;
        assert_eq!(outcome.cause, cause, "{program}: {}", told(&outcome));
        assert!(outcome.reason.as_deref().is_some_and(|r| r.contains(program)), "{}", told(&outcome));
    }
}

/// As happens when a build's threads start processes while others write programs.
#[tokio::test]
async fn program_still_open_for_writing_starts() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("true");
    std::fs::copy("/bin/true", &path).unwrap();
    let policy = Policy::new("/opt/true").read_only(&path, "/opt/true");
    let write = move || std::fs::OpenOptions::new().write(true).open(&path);
    let held = write().unwrap();
    let outcome = run(&policy).await;
    assert_eq!(outcome.cause, Cause::NotExecutable, "{}", told(&outcome));
    assert!(outcome.reason.as_deref().is_some_and(|r| r.contains("open for writing")), "{}", told(&outcome));
    drop(held);
    let (ends, ended) = std::sync::mpsc::channel::<()>();
    let writer = std::thread::spawn(move || {
        while ended.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            // While the program runs, no process can write to it.
            let held = write();
            std::thread::sleep(Duration::from_millis(3));
            drop(held);
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    for _ in 0..20 {
        let outcome = run(&policy).await;
        assert!(outcome.success(), "{}", told(&outcome));
    }
    drop(ends);
    writer.join().unwrap();
}

#[tokio::test]
async fn sandbox_shows_small_private_system() {
    let script =
        "id -u; id -g; uname -n; pwd; echo $HOME $LANG $TMPDIR; cat /proc/1/comm; ls /; ls /dev; ls /home";
    let outcome = run(&sh(script)).await;
    let text = stdout(&outcome);
    assert!(
        text.starts_with("1000\n1000\nsandbox\n/home/sandbox\n/home/sandbox C.UTF-8 /tmp\nhotcell-init\n"),
        "{text}"
    );
    for absent in ["sys\n", "boot", "root", "kvm", "mem\n", "console", "tty0", "ttyS", "fuse"] {
        assert!(!text.contains(absent), "{absent} in {text}");
    }
}

#[tokio::test]
async fn environment_holds_named_variables_only() {
    let outcome = run(&Policy::new("env").env("NAMED", "yes").env("LANG", "C")).await;
    let mut lines: Vec<&str> = stdout(&outcome).lines().collect();
    lines.sort_unstable();
    let path = "PATH=/usr/local/bin:/usr/bin:/bin";
    assert_eq!(lines, ["HOME=/home/sandbox", "LANG=C", "NAMED=yes", path, "TMPDIR=/tmp"]);
}

#[tokio::test]
async fn layers_reported_on_are_in_force() {
    let outcome = run(&sh("grep -E '^(Cap|NoNew|Seccomp:)' /proc/self/status; cat /proc/self/cgroup")).await;
    let text = stdout(&outcome);
    assert!(text.contains("NoNewPrivs:\t1") && text.contains("Seccomp:\t2"), "{text}");
    assert_eq!(text.matches("0000000000000000").count(), 5, "{text}");
    for layer in [
        Layer::UserNs,
        Layer::MountNs,
        Layer::PidNs,
        Layer::NetNs,
        Layer::IpcNs,
        Layer::UtsNs,
        Layer::Seccomp,
        Layer::NoNewPrivs,
        Layer::Capabilities,
        Layer::Rlimits,
    ] {
        assert!(outcome.layers.is_on(layer), "{layer}: {}", told(&outcome));
    }
}

#[tokio::test]
async fn streams_arrive_while_the_program_runs() {
    let mut running =
        hotcell_sandbox::spawn(&sh("read a; echo got $a; echo bad >&2; read b; echo and $b").stdin_piped())
            .await
            .expect("spawned");
    let mut output = running.output().expect("output");
    let mut input = running.stdin().expect("stdin");
    use tokio::io::AsyncWriteExt;
    input.write_all(b"one\n").await.expect("written");
    let mut seen = Vec::new();
    while seen.len() < 2 {
        seen.push(output.recv().await.expect("a chunk"));
    }
    assert!(seen.contains(&Chunk::Stdout(b"got one\n".to_vec())), "{seen:?}");
    assert!(seen.contains(&Chunk::Stderr(b"bad\n".to_vec())), "{seen:?}");
    input.write_all(b"two\n").await.expect("written");
    let outcome = running.wait().await;
    assert_eq!(stdout(&outcome), "got one\nand two\n");
}

/// Regression: four of a thousand runs lost their last output. The program had ended, but the runtime
/// remembered an older state of the pipe.
#[tokio::test]
async fn last_output_of_short_runs_is_complete() {
    const RUNS: usize = 320;
    const CONCURRENT_RUNS: usize = 8;
    for first in (0..RUNS).step_by(CONCURRENT_RUNS) {
        let mut round = tokio::task::JoinSet::new();
        for n in first..first + CONCURRENT_RUNS {
            let text = format!("{n:08}").repeat(1 + n % 100);
            round.spawn(async move { (run(&Policy::new("printf").args(["%s", &text])).await, text) });
        }
        while let Some(done) = round.join_next().await {
            let (outcome, text) = done.expect("followed");
            assert_eq!(stdout(&outcome), text, "{}", told(&outcome));
        }
    }
}

#[tokio::test]
async fn standard_input_can_be_bytes_or_null() {
    let outcome = run(&Policy::new("cat").stdin_bytes("some\nbytes")).await;
    assert_eq!(stdout(&outcome), "some\nbytes");
    let mut nothing = Policy::new("cat");
    nothing.job.stdin = Stdin::Null;
    let outcome = run(&nothing).await;
    assert_eq!((stdout(&outcome), outcome.exit_code), ("", Some(0)));
}

#[tokio::test]
async fn standard_input_can_be_a_socket_that_answers() {
    let mut policy = sh("read line; echo answered $line >&0; read line; echo and $line");
    policy.job.stdin = Stdin::Socket;
    let mut running = hotcell_sandbox::spawn(&policy).await.expect("spawned");
    assert!(running.stdin().is_none());
    let mut socket = running.socket().expect("the other end");
    assert!(running.socket().is_none());
    let answer = tokio::task::spawn_blocking(move || {
        socket.write_all(b"this\n")?;
        let mut answer = [0; 14];
        socket.read_exact(&mut answer)?;
        socket.write_all(b"that\n")?;
        Ok::<_, std::io::Error>(answer)
    });
    assert_eq!(&answer.await.expect("no panic").expect("said and heard"), b"answered this\n");
    assert_eq!(stdout(&running.wait().await), "and that\n");
}

#[tokio::test]
async fn output_that_is_not_text_survives() {
    let outcome = run(&sh(r"printf '\377\000\376'")).await;
    assert_eq!(outcome.stdout.text, None);
    assert_eq!(outcome.stdout.to_bytes(), [255, 0, 254]);
}

#[tokio::test]
async fn run_can_be_cancelled() {
    let running = hotcell_sandbox::spawn(&sh("sleep 60 & sleep 60")).await.expect("spawned");
    let cancel = running.canceller();
    let started = std::time::Instant::now();
    let (outcome, ()) = tokio::join!(running.wait(), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        cancel.cancel();
    });
    assert_eq!(outcome.cause, Cause::Cancelled);
    assert!(started.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn cancel_during_sandbox_creation_ends_run() {
    for n in 0..120 {
        let running = hotcell_sandbox::spawn(&sh("sleep 60")).await.expect("spawned");
        let cancel = running.canceller();
        let (outcome, ()) = tokio::join!(running.wait(), async {
            tokio::time::sleep(Duration::from_micros(n * 50)).await;
            cancel.cancel();
        });
        assert_eq!(outcome.cause, Cause::Cancelled, "after {n} x 50 us: {}", told(&outcome));
    }
}

/// Takes the best of five runs, since a busy machine may delay one.
#[tokio::test]
async fn cancel_before_sandbox_exists_ends_at_once() {
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let running = hotcell_sandbox::spawn(&sh("sleep 60")).await.expect("spawned");
        running.canceller().cancel();
        let started = std::time::Instant::now();
        let outcome = running.wait().await;
        best = best.min(started.elapsed());
        assert_eq!(outcome.cause, Cause::Cancelled, "{}", told(&outcome));
    }
    assert!(best < Duration::from_secs(1), "{best:?}");
}

#[tokio::test]
async fn sandbox_can_precede_its_job() {
    let engine = hotcell_sandbox::Engine::shared();
    let sandbox = engine.acquire(&hotcell_sandbox::Shape::default()).await.expect("acquired");
    tokio::time::sleep(Duration::from_millis(20)).await;
    let job = Policy::new("echo").arg("later").job;
    let outcome = sandbox.release(&job).await.expect("released").wait().await;
    assert_eq!(stdout(&outcome), "later\n");
}

#[tokio::test]
async fn dev_stdout_can_be_opened_again() {
    let outcome = run(&sh("echo a > /dev/stdout; echo b > /dev/stderr")).await;
    assert_eq!(
        (stdout(&outcome), outcome.stderr.text.as_deref()),
        ("a\n", Some("b\n")),
        "{}",
        told(&outcome)
    );
}

#[tokio::test]
async fn denied_calls_are_reported_with_their_name() {
    let script = "import ctypes, socket\n\
                  libc = ctypes.CDLL(None, use_errno=True)\n\
                  print(libc.ptrace(0, 0, 0, 0), ctypes.get_errno())\n\
                  s = socket.socket()\n\
                  try: s.connect(('198.51.100.7', 81))\n\
                  except OSError as e: print(e.errno)\n";
    let outcome = run(&Policy::new("/usr/bin/python3").args(["-c", script])).await;
    assert_eq!(stdout(&outcome), "-1 1\n101\n", "{}", told(&outcome));
    let rows: Vec<(&str, &str)> =
        outcome.denials.iter().map(|d| (d.layer.as_str(), d.operation.as_str())).collect();
    assert!(rows.contains(&("seccomp", "ptrace")), "{rows:?}");
    let network = outcome.denials.iter().find(|d| d.layer == "network").expect("a network denial");
    assert_eq!((network.operation.as_str(), network.target.as_str()), ("connect", "198.51.100.7:81"));
}

#[tokio::test]
async fn private_loopback_works() {
    let script = "import socket, threading\n\
                  s = socket.create_server(('127.0.0.1', 0))\n\
                  def serve():\n    c, _ = s.accept()\n    c.sendall(b'hello')\n    c.close()\n\
                  threading.Thread(target=serve).start()\n\
                  print(socket.create_connection(s.getsockname()).recv(9))\n";
    let outcome = run(&Policy::new("/usr/bin/python3").args(["-c", script])).await;
    assert_eq!(stdout(&outcome), "b'hello'\n", "{}", told(&outcome));
}

#[tokio::test]
async fn own_message_queues_and_shared_memory_work() {
    let script = "import ctypes, os\n\
        from multiprocessing import shared_memory\n\
        libc = ctypes.CDLL(None, use_errno=True)\n\
        q = libc.mq_open(b'/own', os.O_CREAT | os.O_RDWR, 0o600, None)\n\
        print(q >= 0 or os.strerror(ctypes.get_errno()))\n\
        m = shared_memory.SharedMemory(create=True, size=64); m.buf[0] = 7; print(m.buf[0]); m.close(); m.unlink()\n\
        print(libc.shmget(0, 4096, 0o1600) >= 0)\n";
    let outcome = run(&Policy::new("/usr/bin/python3").args(["-c", script])).await;
    assert_eq!(stdout(&outcome), "True\n7\nTrue\n", "{}", told(&outcome));
}

#[tokio::test]
async fn proc_can_be_reduced_to_own_processes() {
    let mut policy = sh("ls /proc; cat /proc/cpuinfo");
    policy.shape.proc = hotcell_sandbox::ProcView::OwnProcesses;
    let outcome = run(&policy).await;
    let text = stdout(&outcome);
    assert!(
        text.starts_with("1\n") && !text.contains("cpuinfo") && text.contains("self"),
        "{}",
        told(&outcome)
    );
}

#[tokio::test]
async fn program_terminal_is_its_dev_tty() {
    let script = "import errno, os, pty, termios\n\
        try: os.open('/dev/tty', os.O_RDWR)\n\
        except OSError as e: print(errno.errorcode[e.errno])\n\
        pid, fd = pty.fork()\n\
        if pid == 0:\n    tty = os.open('/dev/tty', os.O_RDWR)\n    termios.tcgetattr(tty)\n    os.write(tty, b'typed'); os._exit(0)\n\
        print(os.read(fd, 99).decode(), os.waitpid(pid, 0)[1])";
    let outcome = run(&Policy::new("/usr/bin/python3").args(["-c", script])).await;
    assert_eq!(stdout(&outcome), "ENXIO\ntyped 0\n", "{}", told(&outcome));
}

#[tokio::test]
async fn etc_links_into_usr_keep_target() {
    let outcome = run(&sh("readlink /etc/mtab; readlink /etc/localtime")).await;
    let zone = std::fs::read_link("/etc/localtime")
        .ok()
        .filter(|says| says.starts_with("/usr") || says.starts_with("../usr"));
    let zone = zone.map(|says| format!("{}\n", says.display())).unwrap_or_default();
    assert_eq!(stdout(&outcome), format!("/proc/self/mounts\n{zone}"), "{}", told(&outcome));
}
