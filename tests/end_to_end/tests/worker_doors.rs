//! The doors of other farms' workers: Buildbarn's runner (`hotcell worker --runner`), driven by a stand-in for bb_worker,
//! and NativeLink's entrypoint (`hotcell worker-entry`), called as its worker does.

use std::collections::HashMap;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hotcell_end_to_end::{Call, User, everyone};
use hotcell_farm::hotcell_fleet::runner_api::RunRequest;
use hotcell_farm::{bot, until};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::worker::{Started, names};

struct Buildbarn {
    build: PathBuf,
    socket: PathBuf,
    runner: Started,
}

fn buildbarn(user: &User, options: &[&str]) -> Buildbarn {
    let build = user.make_folder("build");
    let socket = user.path("work/runner.sock");
    let call = user.hotcell(["worker", "--runner", &format!("unix:{}", socket.display())]);
    let call = call.words(&["--build-directory", build.to_str().expect("UTF-8")]).words(options);
    let runner = Started::new(call);
    runner.until_it_says("ready");
    Buildbarn { build, socket, runner }
}

impl Buildbarn {
    /// An action's folder, as bb_worker makes it.
    fn action(&self, user: &User, name: &str, script: &str) -> RunRequest {
        for folder in ["", "/root", "/root/work", "/tmp", "/server_logs"] {
            user.make_folder(&format!("build/{name}{folder}"));
        }
        user.write(format!("build/{name}/root/in.txt"), "input\n");
        RunRequest {
            arguments: ["sh", "-c", script].map(str::to_owned).to_vec(),
            environment_variables: HashMap::from([("GREETING".to_owned(), "hello".to_owned())]),
            working_directory: "work".to_owned(),
            stdout_path: format!("{name}/stdout"),
            stderr_path: format!("{name}/stderr"),
            input_root_directory: format!("{name}/root"),
            temporary_directory: format!("{name}/tmp"),
            server_logs_directory: format!("{name}/server_logs"),
        }
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.build.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
    }
}

#[test]
fn runner_takes_over_what_an_action_wrote() {
    everyone(|user| {
        let mut bb = buildbarn(user, &["--receipts"]);
        bot::check_readiness(&bb.socket, "").expect("it is ready");
        assert!(bot::check_readiness(&bb.socket, "nowhere").is_err());
        let script = "cat ../in.txt; echo $GREETING >&2; mkdir -p out/.git; echo made >out/.git/config; rm ../in.txt; \
                      ln -s out link; cat /proc/net/route | wc -l; exit 3";
        let ran = bot::run(&bb.socket, bb.action(user, "a", script), None).expect("it runs");
        assert_eq!((ran.exit_code, ran.resource_usage.len()), (3, 1));
        assert_eq!((bb.read("a/stdout").as_str(), bb.read("a/stderr").as_str()), ("input\n1\n", "hello\n"));
        assert_eq!(bb.read("a/root/work/out/.git/config"), "made\n");
        assert!(!bb.build.join("a/root/in.txt").exists());
        let owner = |path: &str| std::fs::symlink_metadata(bb.build.join(path)).expect("it is there").uid();
        assert_eq!(owner("a/root/work/out"), owner("a/root"));
        let outcome: Value =
            serde_json::from_str(&bb.read("a/server_logs/hotcell.outcome.json")).expect("JSON");
        assert_eq!((&outcome["cause"], &outcome["exit_code"]), (&"exited".into(), &3.into()));
        // One command has other inputs in each action: the runner cannot tell a repetition.
        bot::run(&bb.socket, bb.action(user, "b", script), None).expect("it runs");
        for name in ["a", "b"] {
            let receipt = bb.build.join(name).join("server_logs/hotcell.receipt.json");
            let verify = user.hotcell(["receipt", "verify", "--json"]);
            let list = verify.words(&[receipt.to_str().expect("UTF-8")]).end().code(0).json();
            let about = &list["receipts"][0]["statement"]["predicate"]["hotcell"];
            assert!(about["attempt"].is_null() && about["time_us"].is_i64(), "{list:#}");
        }
        // A limit, a signal and a missing program are the action's; each has a folder of its own.
        for (name, script, code) in [("m", "tail /dev/zero", 124), ("s", "kill -SEGV $$", 139)] {
            let ran = bot::run(&bb.socket, bb.action(user, name, script), None).expect("it runs");
            assert_eq!(ran.exit_code, code, "{name}");
        }
        let mut none = bb.action(user, "n", "");
        none.arguments = vec!["no-such-program".to_owned()];
        assert_eq!(bot::run(&bb.socket, none, None).expect("it answers").exit_code, 127);
        bb.runner.signal(Signal::SIGTERM);
        assert_eq!(bb.runner.code(), Some(0), "{}", bb.runner.said());
        assert!(!bb.socket.exists());
    });
}

#[test]
fn runner_refuses_paths_that_lead_out() {
    everyone(|user| {
        let bb = buildbarn(user, &[]);
        let secret = user.write("secret", "secret\n");
        let good = bb.action(user, "a", "true");
        symlink(&secret, bb.build.join("a/link")).expect("a link");
        symlink(user.path(""), bb.build.join("a/out")).expect("a link");
        user.write("build/a/taken", "kept\n");
        type Change = fn(&mut RunRequest);
        for change in [
            (|r| r.input_root_directory = "../work".to_owned()) as Change,
            |r| r.input_root_directory = "/etc".to_owned(),
            |r| r.input_root_directory = "a/out".to_owned(),
            |r| r.input_root_directory = "nowhere".to_owned(),
            |r| r.stdout_path = "../x".to_owned(),
            |r| r.stdout_path = "a/link".to_owned(),
            |r| r.stdout_path = "a/out/x".to_owned(),
            |r| r.stdout_path = "a/taken".to_owned(),
            |r| r.stderr_path = "a/root/x".to_owned(),
            |r| r.working_directory = "../..".to_owned(),
            |r| r.server_logs_directory = "a/out".to_owned(),
            |r| r.server_logs_directory = "../logs".to_owned(),
            |r| r.arguments.clear(),
        ] {
            let mut request = good.clone();
            change(&mut request);
            assert!(bot::run(&bb.socket, request.clone(), None).is_err(), "{request:?}");
            for name in ["a/stdout", "a/stderr"] {
                let _ = std::fs::remove_file(bb.build.join(name));
            }
        }
        assert_eq!(std::fs::read_to_string(&secret).expect("a file"), "secret\n");
        assert_eq!(bb.read("a/taken"), "kept\n");
        assert!(!names(&user.path("")).contains("x"));
        assert_eq!(bot::run(&bb.socket, good, None).expect("it runs").exit_code, 0);
    });
}

#[test]
fn cancelled_calls_of_a_runner_end_the_action() {
    everyone(|user| {
        let bb = buildbarn(user, &[]);
        let nap = format!("{}6{}", if user.is_ordinary() { 7 } else { 8 }, std::process::id());
        let request = bb.action(user, "a", &format!("sleep {nap}"));
        assert!(bot::run(&bb.socket, request, Some(Duration::from_secs(5))).is_err());
        let runs = || {
            let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
            let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
            lines.into_iter().any(|line| line.split(|b| *b == 0).any(|word| word == nap.as_bytes()))
        };
        until("nothing of it runs", || !runs());
        let again = bb.action(user, "b", "echo on");
        assert_eq!(bot::run(&bb.socket, again, None).expect("it runs").exit_code, 0);
    });
}

/// The folder that NativeLink makes for an action, and the side-channel file that it names.
fn nativelink(user: &User, name: &str) -> (PathBuf, PathBuf) {
    user.make_folder(&format!("{name}/work/sub"));
    let folder = user.path(name);
    for path in ["", "work", "work/sub"] {
        user.own(&folder.join(path));
    }
    user.write(format!("{name}/work/in.txt"), "input\n");
    (folder.join("work/sub"), folder.join("0123456789abcdef0123456789abcdef"))
}

fn entry(user: &User, (work, side): (&Path, &Path), options: &[&str], script: &str) -> Call {
    let call = user.hotcell(["worker-entry", "--trust-environment"]).words(options);
    let call = call.words(&["--", "sh", "-c", script]).cwd(work);
    call.env("HOTCELL_SIDE_CHANNEL_FILE", side).env("HOTCELL_TIMEOUT_MILLIS", "30000")
}

#[test]
fn entry_runs_actions_and_tells_failures_apart() {
    everyone(|user| {
        let (work, side) = nativelink(user, "a");
        let script = "cat ../in.txt; echo $GREETING; env | grep -c HOTCELL; echo made >out; exit 7";
        let ended = entry(user, (&work, &side), &[], script).env("GREETING", "hi").end();
        ended.code(7).prints("input\nhi\n0\n");
        assert_eq!(std::fs::read_to_string(work.join("out")).expect("a file"), "made\n");
        assert!(!side.exists());
        entry(user, (&work, &side), &[], "exit 125").end().code(125);
        assert!(!side.exists(), "an action's own 125");
        let ended = entry(user, (&work, &side), &[], "tail /dev/zero").end();
        ended.code(124).says("memory");
        assert!(!side.exists());
        let slow = entry(user, (&work, &side), &[], "sleep 60").env("HOTCELL_TIMEOUT_MILLIS", "500").end();
        slow.code(124);
        assert_eq!(std::fs::read_to_string(&side).expect("a file"), "{\"failure\":\"timeout\"}\n");
        // The worker's own failure: a profile that is not there.
        let (work, side) = nativelink(user, "b");
        let failed = entry(user, (&work, &side), &["--profile", "./nowhere.toml"], "true").end();
        failed.code(125);
        assert_eq!(std::fs::read_to_string(&side).expect("a file"), "{\"failure\":\"infrastructure\"}\n");
    });
}

#[test]
fn entry_takes_nothing_from_the_variables_of_a_client() {
    everyone(|user| {
        let (work, side) = nativelink(user, "a");
        let evil = user.write("evil.toml", "network = \"all\"\n[limits]\nmemory = \"64G\"\n");
        let trap = user.make_folder("trap");
        let ended = entry(user, (&work, &side), &[], "cat /proc/net/route | wc -l; echo $HOTCELL_CONFIG")
            .env("HOTCELL_CONFIG", &evil)
            .env("HOTCELL_PROFILE", "nowhere")
            .env("XDG_STATE_HOME", &trap)
            .env("XDG_CONFIG_HOME", &trap)
            .env("TMPDIR", &trap)
            .end();
        ended.code(0).prints(&format!("1\n{}\n", evil.display()));
        assert!(names(&trap).is_empty(), "{:?}", names(&trap));
        // Any path as the side channel.
        for path in [user.path("home/.profile"), work.join("0123456789abcdef0123456789abcdef")] {
            let ended =
                entry(user, (&work, &path), &[], "sleep 60").env("HOTCELL_TIMEOUT_MILLIS", "100").end();
            ended.code(125).says("not a file that NativeLink makes");
            assert!(!path.exists());
        }
        let plain = user.hotcell(["worker-entry", "--", "true"]).cwd(&work).end();
        plain.code(125).says("linked dynamically");
        // By its link, all words are the action's.
        let link = user.path("hotcell-worker-entry");
        symlink(user.binary(), &link).expect("a link");
        let output =
            user.program(&link).args(["--trust-environment", "--", "true"]).output().expect("it starts");
        assert_eq!(output.status.code(), Some(125));
        assert!(String::from_utf8_lossy(&output.stderr).contains("linked dynamically"), "{output:?}");
    });
}
