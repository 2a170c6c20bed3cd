//! Ends of runs: exit status, cause, and the line that explains it.

use std::time::{Duration, Instant};

use hotcell_end_to_end::{User, everyone};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

#[test]
fn program_exit_code_is_passed_on() {
    everyone(|user| {
        user.run(["true"]).end().code(0).prints("").silent();
        user.run(["false"]).end().code(1).silent();
        user.shell([], "echo out; echo err >&2; exit 77").end().code(77).prints("out\n").says("err");
        let outcome = user.shell(["--json"], "exit 3").end().code(3).silent().json();
        assert_eq!((&outcome["cause"], &outcome["exit_code"]), (&"exited".into(), &3.into()));
    });
}

#[test]
fn signal_exit_code_is_128_plus_number() {
    everyone(|user| {
        user.shell([], "kill -TERM $$").end().code(143).says_one_line("SIGTERM");
        user.shell([], "kill -SEGV $$").end().code(139);
        let outcome = user.shell(["--json"], "kill -USR1 $$").end().code(138).json();
        assert_eq!((&outcome["cause"], &outcome["signal"]), (&"signaled".into(), &"SIGUSR1".into()));
    });
}

#[test]
fn limit_exit_code_is_124_with_name() {
    everyone(|user| {
        for (options, script, cause, line) in [
            (["--timeout", "300ms"], "sleep 30", "wall_limit", "stopped: time limit 300 ms reached"),
            (["--cpu-time", "1s"], "while :; do :; done", "cpu_limit", "stopped: CPU time limit 1 s reached"),
            (["--max-output", "64K"], "yes", "output_limit", "stopped: output limit 64 KiB reached"),
            (
                ["--memory", "32M"],
                "head -c 200000000 /dev/zero | tail -c 100000000 | wc -c",
                "memory_limit",
                "stopped: memory limit 32 MiB reached",
            ),
        ] {
            let started = Instant::now();
            let outcome = user.shell(options.into_iter().chain(["--json"]), script).end();
            let outcome = outcome.code(124).json();
            assert_eq!(outcome["cause"], cause, "{script}");
            assert!(started.elapsed() < Duration::from_secs(15), "{script}");
            assert_eq!(outcome["limits_hit"].as_array().map(Vec::is_empty), Some(false), "{outcome:#}");
            let ended = user.shell(options, script).end();
            ended.code(124).says(&format!("hotcell: {line}\n"));
        }
    });
}

#[test]
fn denying_limit_lets_program_continue() {
    everyone(|user| {
        let outcome = user
            .shell(
                ["--max-disk", "1M", "--json"],
                "head -c 9000000 /dev/zero > big; wc -c < big; rm big; exit 0",
            )
            .end()
            .code(0)
            .json();
        assert_eq!(outcome["cause"], "exited");
        let kept: u64 = outcome["stdout"]["text"].as_str().unwrap().trim().parse().unwrap();
        assert!(kept <= 1 << 20, "{kept}");
    });
}

#[test]
fn missing_program_is_127_unusable_is_126() {
    everyone(|user| {
        let plain = user.write("work/plain.txt", "text");
        let no_interpreter = user.write_program("work/script", "#!/no/such/interpreter\n");
        let ended = user.run(["no-such-program"]).end();
        ended.code(127).prints("").says_one_line("no-such-program");
        user.run([user.path("work/none")]).end().code(127).says_one_line("none");
        user.run([&plain]).end().code(126).says_one_line("plain.txt");
        user.run([user.path("work")]).end().code(126).says_one_line("work");
        // Its existence is not checked, because it is not in an installation of the user's.
        user.run([&no_interpreter]).end().code(125).says_one_line("/no/such/interpreter");
        let json = |words: [&str; 4]| user.hotcell(words).end().json();
        assert_eq!(json(["run", "--json", "--", "no-such-program"])["cause"], "not_found");
        assert_eq!(json(["run", "--json", "--", "./plain.txt"])["cause"], "not_executable");
    });
}

#[test]
fn ctrl_c_is_130_and_ends_program() {
    everyone(|user| {
        for signal in [Signal::SIGINT, Signal::SIGTERM] {
            let marker = format!("86{}", std::process::id());
            let child = user.shell(["--json"], &format!("echo ready; sleep {marker}")).start();
            let id = Pid::from_raw(i32::try_from(child.id()).unwrap());
            wait_until("the program runs", || is_running(&marker));
            kill(id, signal).unwrap();
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(130), "{signal}");
            let outcome: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(outcome["cause"], "cancelled");
            assert_eq!(outcome["stdout"]["text"], "ready\n", "what it printed is kept");
            assert!(!is_running(&marker), "the program outlived hotcell");
        }
    });
}

#[test]
fn sigkill_of_hotcell_takes_the_program_with_it() {
    everyone(|user| {
        let marker = format!("87{}", std::process::id());
        let mut child = user.shell([], &format!("sleep {marker}")).start();
        wait_until("the program runs", || is_running(&marker));
        child.kill().unwrap();
        child.wait().unwrap();
        wait_until("the program is gone", || !is_running(&marker));
    });
}

#[test]
fn killed_run_source_is_removed_by_next() {
    everyone(|user| {
        let tmp = user.make_folder("tmp");
        let kept = || std::fs::read_dir(&tmp).unwrap().count();
        let marker = format!("88{}", std::process::id());
        let call = user.hotcell(["run", "--lang", "bash", "-"]).input(format!("sleep {marker}; :"));
        let mut child = call.env("TMPDIR", &tmp).start();
        wait_until("the program runs", || is_running(&marker));
        assert_eq!(kept(), 1, "a source from standard input lies in a file");
        child.kill().unwrap();
        child.wait().unwrap();
        user.run(["true"]).env("TMPDIR", &tmp).end().code(0);
        assert_eq!(kept(), 0);
    });
}

/// Whether a process was started as `sleep MARKER`.
fn is_running(marker: &str) -> bool {
    let wanted = format!("sleep\0{marker}\0");
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        std::fs::read(entry.path().join("cmdline")).is_ok_and(|c| c.ends_with(wanted.as_bytes()))
    })
}

pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < until, "not within 10 s: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn denials_are_explained() {
    let user = User::me();
    let script = "exec 3<>/dev/tcp/93.184.216.34/80";
    let mut words = vec!["run", "--", "bash", "-c", script];
    let ended = user.hotcell(&words).end();
    ended.says("hotcell: denied: connect to 93.184.216.34:80 (network)");
    words.insert(1, "--quiet");
    let quiet = user.hotcell(&words).end();
    assert!(!quiet.stderr.contains("denied:"), "{quiet:#?}");
    words[1] = "--json";
    let outcome = user.hotcell(&words).end().json();
    assert_eq!(outcome["denials"][0]["layer"], "network", "{outcome:#}");
}

#[test]
fn summary_needs_verbose_or_terminal() {
    let user = User::me();
    user.hotcell(["run", "-v", "--", "true"]).end().code(0).says_one_line("exited with 0 · wall ");
    user.hotcell(["run", "--", "true"]).end().code(0).silent();
}
