//! `hotcell serve`: a run through the service equals a run without it, and another user's service is never
//! used.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use hotcell_end_to_end::{Call, User, everyone, find, is_root};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, recv, send, socket};
use nix::unistd::Pid;
use serde_json::Value;

const TRUE: [&str; 4] = ["run", "--json", "--", "true"];

/// A user's own service, with the runtime folder that both use to find it.
pub struct Service {
    child: Child,
    runtime: PathBuf,
}

impl Service {
    pub fn start(user: &User, options: &[&str]) -> Self {
        let runtime = folder(user);
        let words = ["serve", "--quiet"].iter().chain(options);
        let child = user.hotcell(words).env("XDG_RUNTIME_DIR", &runtime).start();
        let service = Self { child, runtime };
        until("the service answers", || service.status(user).0.is_object());
        service
    }

    fn socket(&self) -> PathBuf {
        self.runtime.join("hotcell/serve.sock")
    }

    fn status(&self, user: &User) -> Status {
        let ended = self.with(user.hotcell(["serve", "status", "--json"])).end();
        Status(ended.json()["service"].clone())
    }

    pub fn with(&self, call: Call) -> Call {
        call.env("XDG_RUNTIME_DIR", &self.runtime)
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    pub fn stop(mut self, user: &User) {
        self.with(user.hotcell(["serve", "stop"])).end().code(0).silent();
        assert!(self.child.wait().unwrap().success());
        assert!(!self.socket().exists());
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Status(Value);

impl Status {
    fn count(&self, name: &str) -> u64 {
        self.0[name].as_u64().unwrap_or_default()
    }
}

fn folder(user: &User) -> PathBuf {
    let runtime = user.make_folder("run");
    std::fs::set_permissions(&runtime, std::fs::Permissions::from_mode(0o700)).unwrap();
    runtime
}

pub fn until(what: &str, mut is: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what} for too long");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn was_served(outcome: &Value) -> bool {
    outcome["timings_us"]["steps"]["served"].is_u64()
}

#[test]
fn served_run_equals_direct_run() {
    everyone(|user| {
        let service = Service::start(user, &[]);
        let project = user.make_folder("work/project");
        std::fs::write(project.join("file"), "old\n").unwrap();
        user.own(&project.join("file"));
        let workspace = ["--workspace", "project", "--diff"];
        let cases: [(&[&str], &str, &str); 12] = [
            (&[], "true", ""),
            (&[], "echo out; echo err >&2; exit 77", ""),
            (&[], "cat; echo $?", "some\0bytes\u{1}\n"),
            (&[], "head -c 3 >/dev/null; exit 4", &"long ".repeat(100_000)),
            (&[], "printf 'a\\377\\200b'", ""),
            (&["--output", "4M"], "head -c 2000000 /dev/zero", ""),
            (&[], "kill -USR1 $$", ""),
            (&["--timeout", "500ms"], "sleep 60", ""),
            (&["--output", "64K"], "yes", ""),
            (&["--env", "A=b c"], "echo $A; env | sort | cut -d= -f1; pwd; umask; id -u; ulimit -a", ""),
            (&workspace, "cat file; echo new >file; echo more >added; rm -f gone", ""),
            (&[], "mount -t tmpfs x /tmp 2>&1; echo a >/usr/a; cat /etc/shadow; :", ""),
        ];
        for (options, script, input) in cases {
            let call = |cold: bool| {
                let options = options.iter().copied().chain(["--json"]).chain(cold.then_some("--no-daemon"));
                service.with(user.shell(options, script)).env("TMPDIR", user.path("work")).input(input).end()
            };
            let (cold, hot) = (call(true), call(false));
            let (mut cold, mut hot) = ((cold.code, cold.json()), (hot.code, hot.json()));
            // The reason for a missing cgroup names folders, which other processes make and remove.
            for layer in [&mut cold, &mut hot]
                .into_iter()
                .flat_map(|(_, o)| o["layers"].as_object_mut().unwrap().values_mut())
            {
                if layer.as_str().is_some_and(|state| state.starts_with("unavailable: ")) {
                    *layer = "unavailable".into();
                }
            }
            // Addresses in the memory of the program are random.
            for denial in
                [&mut cold, &mut hot].into_iter().flat_map(|(_, o)| o["denials"].as_array_mut().unwrap())
            {
                denial["target"].take();
            }
            assert!(was_served(&hot.1) && !was_served(&cold.1), "{script}: {:#}", hot.1);
            assert_eq!(hot.0, cold.0, "{script}");
            for field in [
                "cause",
                "reason",
                "exit_code",
                "signal",
                "layers",
                "mounts",
                "changes",
                "diff",
                "denials",
                "denials_complete",
                "commit",
                "kept",
            ] {
                assert_eq!(hot.1[field], cold.1[field], "{script}: {field}");
            }
            // The amount of output before a limit stops the run is random.
            if hot.1["cause"] == "exited" {
                assert_eq!(
                    (&hot.1["stdout"], &hot.1["stderr"]),
                    (&cold.1["stdout"], &cold.1["stderr"]),
                    "{script}"
                );
            }
        }
        // Also as text, streamed.
        let streams = |words: &[&str]| {
            let script =
                "i=0; while [ $i -lt 3000 ]; do echo line $i; echo e $i >&2; i=$((i+1)); done; cat; exit 9";
            let ended = service.with(user.shell(words.iter().copied(), script)).input("in").end();
            ended.code(9);
            (ended.text(), ended.stderr.clone())
        };
        assert_eq!(streams(&[]), streams(&["--no-daemon"]));
        // A shape that was requested twice is kept ready.
        until("a sandbox is ready", || {
            service.with(user.run(["true"])).end().code(0).silent();
            service.status(user).count("hot") > 0
        });
        service.stop(user);
    });
}

#[test]
fn tests_run_by_service() {
    if find("python3").is_none() {
        return;
    }
    let user = User::me();
    let service = Service::start(&user, &[]);
    let project = user.make_folder("work/project");
    std::fs::write(
        project.join("test_a.py"),
        "import unittest\nclass A(unittest.TestCase):\n def test_a(self): pass\n def test_b(self): self.fail()\n",
    )
    .unwrap();
    let report = |cold: &[&str]| {
        let words = ["test", "project", "--framework", "unittest", "--json"].iter().chain(cold);
        let mut report = service.with(user.hotcell(words)).end().code(1).json();
        let outcome = report["outcome"].take();
        for case in report["cases"].as_array_mut().unwrap() {
            case["duration_ms"].take();
        }
        report["totals"]["duration_ms"].take();
        (report["cases"].take(), report["totals"].take(), outcome)
    };
    let (cold, hot) = (report(&["--no-daemon"]), report(&[]));
    assert_eq!((&hot.0, &hot.1), (&cold.0, &cold.1));
    assert!(was_served(&hot.2) && !was_served(&cold.2), "{:#}", hot.2);
}

#[test]
fn interrupt_or_killed_client_ends_run() {
    everyone(|user| {
        let service = Service::start(user, &[]);
        for (signal, code) in [(Signal::SIGINT, Some(130)), (Signal::SIGKILL, None)] {
            let mut child = service.with(user.shell([], "echo on; sleep 1000")).start();
            let mut on = [0; 3];
            child.stdout.as_mut().expect("a pipe").read_exact(&mut on).expect("it runs");
            kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
            assert_eq!(child.wait().unwrap().code(), code, "{signal}");
            until("it ends", || service.status(user).count("running") == 0);
        }
        service.with(user.run(["true"])).end().code(0).silent();
        service.stop(user);
    });
}

#[test]
fn service_death_is_reported_and_next_run_cold() {
    everyone(|user| {
        let mut service = Service::start(user, &[]);
        let child = service.with(user.shell(["--json"], "echo $$; sleep 1000")).start();
        until("it runs", || service.status(user).count("running") == 1);
        service.signal(Signal::SIGKILL);
        service.child.wait().unwrap();
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(125));
        let outcome: Value = serde_json::from_slice(&ended.stdout).unwrap();
        assert_eq!(outcome["cause"], "internal");
        let reason = outcome["reason"].as_str().unwrap_or_default();
        assert!(reason.contains("the service ended in the middle of the run"), "{reason}");
        // The socket is still there, without a listener.
        assert!(service.socket().exists());
        let outcome = service.with(user.hotcell(TRUE)).end().code(0).silent().json();
        assert!(!was_served(&outcome));
        service
            .with(user.hotcell(["serve", "status"]))
            .end()
            .code(1)
            .prints(&format!("no service runs at {}\n", service.socket().display()));
        // The socket is replaced.
        Service::start(user, &[]).stop(user);
    });
}

#[test]
fn unresponsive_service_is_abandoned() {
    let user = User::me();
    let service = Service::start(&user, &[]);
    // Both runs have begun before the service is stopped.
    let start = |options: &[&str]| {
        let script = "echo up; sleep 1000";
        let mut child = service.with(user.shell(options.iter().copied(), script)).start();
        let mut up = [0; 3];
        child.stdout.as_mut().expect("a pipe").read_exact(&mut up).expect("it runs");
        child
    };
    let interrupted = start(&[]);
    let slow = start(&["--timeout", "10s"]);
    service.signal(Signal::SIGSTOP);
    kill(Pid::from_raw(interrupted.id().cast_signed()), Signal::SIGINT).unwrap();
    for child in [slow, interrupted] {
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(125));
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(said.contains("the service does not answer"), "{said}");
    }
    // A run that starts meanwhile does without the service.
    let ended = service.with(user.hotcell(TRUE)).end();
    ended.code(0).says("did not answer within 1 s; this run makes its own sandbox");
    service.signal(Signal::SIGCONT);
    until("they are let go", || service.status(&user).count("running") == 0);
    assert!(was_served(&service.with(user.hotcell(TRUE)).end().code(0).silent().json()));
    service.stop(&user);
}

#[test]
fn second_service_is_refused_and_idle_one_exits() {
    let user = User::me();
    let service = Service::start(&user, &[]);
    service.with(user.hotcell(["serve"])).end().code(125).says("a service runs already");
    service.stop(&user);
    let runtime = folder(&user);
    let brief = ["serve", "--quiet", "--idle-exit", "200ms"];
    user.hotcell(brief).env("XDG_RUNTIME_DIR", &runtime).end().code(0).silent();
    user.hotcell(["serve", "--runs", "0"]).end().code(125).says("--runs");
    user.hotcell(["serve", "stop"]).env("XDG_RUNTIME_DIR", &runtime).end().code(125).says("no service runs");
}

#[test]
fn service_folder_of_others_is_unused() {
    everyone(|user| {
        let service = Service::start(user, &[]);
        let cold = |says: &str| {
            let ended = service.with(user.hotcell(TRUE)).end();
            ended.code(0).says(says);
            assert!(!was_served(&ended.json()), "{says}");
        };
        let mode = |path: &std::path::Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let folder = service.runtime.join("hotcell");
        mode(&folder, 0o755);
        cold("is open to others (mode 0755); it is not used");
        mode(&folder, 0o700);
        mode(&service.socket(), 0o660);
        cold("is open to others (mode 0660); it is not used");
        mode(&service.socket(), 0o600);
        let moved = service.runtime.join("moved");
        std::fs::rename(&folder, &moved).unwrap();
        std::os::unix::fs::symlink(&moved, &folder).unwrap();
        cold("is a link, or no folder; it is not used");
        service.with(user.hotcell(["serve"])).end().code(125).says("is a link, or no folder");
        std::fs::remove_file(&folder).unwrap();
        std::fs::rename(&moved, &folder).unwrap();
        let served = service.with(user.hotcell(TRUE)).end().json();
        assert!(was_served(&served));
        service.stop(user);
    });
}

#[test]
fn service_of_another_user_is_unused() {
    let Some(other) = User::ordinary() else { return };
    let me = User::me();
    for (owner, user) in [(&me, &other), (&other, &me)] {
        let service = Service::start(owner, &[]);
        // As if another user had put it there: by name, and by changing its owner.
        let ended = user.hotcell(TRUE).env("XDG_RUNTIME_DIR", &service.runtime).end();
        ended.code(0).says("it is not used").says("makes its own sandbox");
        assert!(!was_served(&ended.json()));
        if is_root() && !user.is_ordinary() {
            // Root may connect to any service, but uses only its own.
            let id = nix::unistd::geteuid().as_raw();
            for path in [service.runtime.join("hotcell"), service.socket()] {
                std::os::unix::fs::chown(path, Some(id), Some(id)).unwrap();
            }
            let ended = user.hotcell(TRUE).env("XDG_RUNTIME_DIR", &service.runtime).end();
            ended.code(0).says("user 65534 listens there and not you (0)");
            assert!(!was_served(&ended.json()));
        }
    }
}

#[test]
fn client_with_other_attributes_runs_cold() {
    everyone(|user| {
        let service = Service::start(user, &[]);
        let words = ["run", "-v", "--json", "--", "true"];
        for (within, says) in [
            (&["setpriv", "--no-new-privs"][..], "another right to gain privileges"),
            (&["nice", "-n", "5"], "another priority"),
            (&["prlimit", "--fsize=1000000000"], "another limit (Max file size)"),
        ] {
            if find(within[0]).is_none() {
                continue;
            }
            let host = hotcell_end_to_end::Weak::default().within(within);
            let ended = service.with(user.hotcell_on(&host, words)).end();
            ended.code(0).says(says);
            assert!(!was_served(&ended.json()), "{within:?}");
        }
        // A client with just lower limits or another priority may still query and stop the service.
        if find("nice").is_some() {
            let host = hotcell_end_to_end::Weak::default().within(&["nice", "-n", "5"]);
            service.with(user.hotcell_on(&host, ["serve", "status"])).end().code(0);
        }
        // The service's removal would take the run's files with it.
        let words = ["run", "-v", "--json", "--profile", "landlock-only", "--", "true"];
        let ended = service.with(user.hotcell(words)).end();
        ended.says("its files would be the service's");
        assert!(!was_served(&ended.json()), "{ended:?}");
        // Network access is provided by this process, so the run makes its own sandbox.
        let ended = service
            .with(user.hotcell(["run", "-v", "--json", "--network", "localhost:1", "--", "true"]))
            .end();
        assert!(!was_served(&ended.json()), "{ended:?}");
        service.stop(user);
    });
}

#[test]
fn concurrent_runs_are_served_or_cold() {
    everyone(|user| {
        let service = Service::start(user, &["--runs", "8"]);
        let all: Vec<_> = (0..100)
            .map(|n| (n, service.with(user.shell([], &format!("echo {n}; exit {}", n % 7))).start()))
            .collect();
        for (n, child) in all {
            let ended = child.wait_with_output().unwrap();
            assert_eq!(String::from_utf8_lossy(&ended.stdout), format!("{n}\n"));
            assert_eq!(ended.status.code(), Some(n % 7), "{}", String::from_utf8_lossy(&ended.stderr));
        }
        until("all have let go", || service.status(user).count("running") == 0);
        let status = service.status(user);
        assert!(status.count("hot") + status.count("cold") > 0);
        service.stop(user);
    });
}

#[test]
fn malformed_client_is_disconnected_without_delay() {
    let user = User::me();
    let service = Service::start(&user, &[]);
    let talk = || {
        let end = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap();
        connect(std::os::fd::AsRawFd::as_raw_fd(&end), &UnixAddr::new(&service.socket()).unwrap()).unwrap();
        end
    };
    let raw = |end: &std::os::fd::OwnedFd| std::os::fd::AsRawFd::as_raw_fd(end);
    let hear = |end: &std::os::fd::OwnedFd| {
        let mut buffer = [0; 4096];
        let n = recv(raw(end), &mut buffer, nix::sys::socket::MsgFlags::empty()).unwrap();
        String::from_utf8_lossy(&buffer[..n]).into_owned()
    };
    // Some connections stay silent all the time.
    let silent: Vec<_> = (0..50).map(|_| talk()).collect();
    for (said, heard) in [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "Nthat is no question"),
        (b"Z".to_vec(), "Nthat is no question"),
        (vec![b'R'; 30_000], "Nthat is no question"),
        (b"R".to_vec(), "Nthat is no question"),
        (vec![b'R'; 33], "Nthis process may not look into the service"),
        (b"F\x01\x01".to_vec(), "Nthat is no question"),
        (b"C".to_vec(), "Nthat is no question"),
    ] {
        let end = talk();
        let hello = hear(&end);
        assert!(hello.starts_with('H') && hello.contains(env!("CARGO_PKG_VERSION")), "{hello}");
        send(raw(&end), &said, nix::sys::socket::MsgFlags::empty()).unwrap();
        assert_eq!(hear(&end), heard);
        assert_eq!(hear(&end), "");
    }
    let served = service.with(user.hotcell(TRUE)).end().code(0).silent().json();
    assert!(was_served(&served));
    drop(silent);
    service.stop(&user);
}

#[test]
fn service_of_another_version_is_unused() {
    use nix::sys::socket::{Backlog, accept, bind, listen};
    let user = User::me();
    let runtime = folder(&user);
    let folder = runtime.join("hotcell");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    let path = folder.join("serve.sock");
    let listener = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap();
    let raw = std::os::fd::AsRawFd::as_raw_fd(&listener);
    bind(raw, &UnixAddr::new(&path).unwrap()).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    listen(&listener, Backlog::new(8).unwrap()).unwrap();
    let hello = |protocol: u32, version: &str| {
        let json = format!(
            r#"{{"version":"{version}","proof":-1,"offers":{{"landlock":9,"notifications":true,"cgroup":true,"cpus":true,"time_ns":true}}}}"#
        );
        [&b"H"[..], &protocol.to_le_bytes(), json.as_bytes()].concat()
    };
    for (said, says) in [
        (hello(3, "99.0.0"), "the service is hotcell 99.0.0"),
        (hello(77, env!("CARGO_PKG_VERSION")), "the service is of protocol 77"),
        (b"H\x03\0\0\0{".to_vec(), "of another form"),
        (b"\xff".to_vec(), "of another form"),
    ] {
        let child =
            user.hotcell(["run", "--json", "--", "echo", "hi"]).env("XDG_RUNTIME_DIR", &runtime).start();
        let end = accept(raw).unwrap();
        send(end, &said, nix::sys::socket::MsgFlags::MSG_NOSIGNAL).unwrap();
        let ended = child.wait_with_output().unwrap();
        nix::unistd::close(end).unwrap();
        assert_eq!(ended.status.code(), Some(0));
        let text = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(text.contains(says) && text.contains("makes its own sandbox"), "{text}");
        let outcome: Value = serde_json::from_slice(&ended.stdout).unwrap();
        assert!(!was_served(&outcome) && outcome["stdout"]["text"] == "hi\n");
    }
}
