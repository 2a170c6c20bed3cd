//! Workers of a farm, driven by a small farm in this process that is honest or hostile: `hotcell worker --bots`.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hotcell_end_to_end::{Call, User, everyone};
use hotcell_farm::bazel_remote_apis::build::bazel::remote::execution::v2 as reapi;
use hotcell_farm::hotcell_fleet::digest::Key;
use hotcell_farm::hotcell_fleet::{receipt, verdict};
use hotcell_farm::storage::Lie;
use hotcell_farm::{Farm, Message, file, folder, shell, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reapi::platform::Property;
use reapi::{Directory, SymlinkNode};
use serde_json::Value;

/// Lease of most tests: long, so that a machine that is busy with others loses none.
const LONG: Duration = Duration::from_secs(120);
/// Lease of tests in which a worker dies.
const SHORT: Duration = Duration::from_secs(5);

/// A started hotcell whose standard error is read; it is killed when this is dropped.
pub struct Started {
    pub child: Child,
    said: Arc<Mutex<String>>,
}

impl Started {
    pub fn new(call: Call) -> Self {
        let mut child = call.start();
        let said = Arc::new(Mutex::new(String::new()));
        let (stderr, lines) = (child.stderr.take().expect("a pipe"), said.clone());
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let mut lines = lines.lock().expect("the lines");
                lines.push_str(&line);
                lines.push('\n');
            }
        });
        Self { child, said }
    }

    pub fn said(&self) -> String {
        self.said.lock().expect("the lines").clone()
    }

    pub fn until_it_says(&self, words: &str) {
        let begin = std::time::Instant::now();
        while !self.said().contains(words) {
            assert!(begin.elapsed() < hotcell_farm::PATIENCE, "no {words:?} in:\n{}", self.said());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends a signal to hotcell itself, which may have `setpriv` as its former name.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).expect("a process id"));
        kill(pid, signal).expect("it is there");
    }

    pub fn code(&mut self) -> Option<i32> {
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A worker with a name of its own, whose temporary files are below the user's folder.
fn worker(user: &User, farm: &Farm, name: &str, options: &[&str]) -> Started {
    let tmp = user.make_folder("tmp");
    let call = user.hotcell(["worker", "--bots", &farm.url(), "--name", name]).words(options);
    let started = Started::new(call.env("TMPDIR", tmp));
    started.until_it_says("connected");
    started
}

fn empty(farm: &Farm) -> Key {
    farm.store(&Directory::default())
}

/// Whether a process has this word in its command line.
fn runs(word: &str) -> bool {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    processes
        .filter(|entry| entry.file_name().to_string_lossy().bytes().all(|b| b.is_ascii_digit()))
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        // The sandbox's own programs, and not the worker, which never has an action's words.
        .any(|line| line.split(|b| *b == 0).any(|argument| argument == word.as_bytes()))
}

/// A duration for `sleep` that no other test has.
fn nap(user: &User, number: u32) -> String {
    format!("{}{}.{number}", if user.is_ordinary() { 7 } else { 8 }, std::process::id())
}

fn stdout(result: &reapi::ActionResult) -> String {
    String::from_utf8_lossy(&result.stdout_raw).into_owned()
}

#[test]
fn unchanged_inputs_are_laid_from_the_worker_s_cache() {
    everyone(|user| {
        let farm = Farm::start(LONG);
        let started = worker(user, &farm, "cached", &["--jobs", "1"]);
        let large = farm
            .storage
            .put((0..5_000_000_u32).map(|at| at.to_le_bytes()[0] ^ at.to_le_bytes()[1]).collect());
        let program = farm.storage.put(b"#!/bin/sh\necho from a program\n".to_vec());
        let mut root = Directory { files: vec![file("large", large)], ..Directory::default() };
        root.files.push(reapi::FileNode { is_executable: true, ..file("program", program) });
        let many =
            (0..100).map(|at| file(&format!("f{at:03}"), farm.storage.put(format!("{at}\n").into_bytes())));
        let below = farm.store(&Directory { files: many.collect(), ..Directory::default() });
        root.directories.push(folder("below", below));
        root.symlinks.push(SymlinkNode {
            name: "zlink".to_owned(),
            target: "below/f042".to_owned(),
            ..SymlinkNode::default()
        });
        let root = farm.store(&root);
        let script = "./program; cat below/* | wc -l; wc -c <large; cat zlink";
        let wanted = "from a program\n100\n5000000\n42\n";
        let ran = |note: &str| {
            let before = farm.storage.reads();
            let (status, result) = farm.end(&farm.script(root, script));
            assert_eq!(
                (status.code, stdout(&result.unwrap_or_default()).as_str()),
                (0, wanted),
                "{note}: {status:?}"
            );
            farm.storage.reads() - before
        };
        assert!(ran("first") > 100);
        // The action and its command.
        assert_eq!(ran("again"), 2);
        // Spoilt blobs are read again, and never used.
        let blobs = user.path("home/.local/state/hotcell/fleet-blobs");
        std::fs::write(blobs.join(hex(large)), vec![b'x'; 5_000_000]).expect("a blob");
        std::fs::write(blobs.join(hex(program)), "#!/bin/sh\necho from somewhere\n").expect("a blob");
        assert_eq!(ran("spoilt"), 4);
        assert_eq!(ran("mended"), 2);
        drop(started);
        // Another worker of the folder has them at once.
        let _other = worker(user, &farm, "other", &[]);
        assert_eq!(ran("another worker"), 2);
    });
}

fn hex(key: Key) -> String {
    key.name().split('/').next().expect("a hash").to_owned()
}

#[test]
fn hostile_trees_are_refused_and_the_worker_goes_on() {
    everyone(|user| {
        let farm = Farm::start(LONG);
        let _worker = worker(user, &farm, "hostile", &[]);
        let x = farm.storage.put(b"x".to_vec());
        let of_files = |names: &[&str]| {
            let files = names.iter().map(|name| file(name, x)).collect();
            farm.store(&Directory { files, ..Directory::default() })
        };
        let of_link = |target: &str| {
            let link =
                SymlinkNode { name: "l".to_owned(), target: target.to_owned(), ..SymlinkNode::default() };
            farm.store(&Directory { symlinks: vec![link], ..Directory::default() })
        };
        let mut deep = of_files(&["f"]);
        for _ in 0..200 {
            deep = farm.store(&Directory { directories: vec![folder("d", deep)], ..Directory::default() });
        }
        // 10^6 files in seven messages.
        let mut wide = of_files(&["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
        for _ in 0..5 {
            let directories = (0..10).map(|at| folder(&format!("d{at}"), wide)).collect();
            wide = farm.store(&Directory { directories, ..Directory::default() });
        }
        // A message of 10^6 names would have 82 MB; it is refused by its size, before it is read.
        let flat = Key { size: 82_000_000, ..x };
        let flat = farm.store(&Directory { directories: vec![folder("d", flat)], ..Directory::default() });
        let huge = Key { size: 1 << 60, ..x };
        let huge = farm.store(&Directory { files: vec![file("f", huge)], ..Directory::default() });
        let garbage = farm.storage.put(b"\xff\xff not a directory".to_vec());
        let both = Directory {
            files: vec![file("a", x)],
            directories: vec![folder("a", of_files(&["f"]))],
            ..Directory::default()
        };
        for (root, why) in [
            (of_files(&[".."]), "not a name"),
            (of_files(&["a/b"]), "slash"),
            (of_files(&["/etc/passwd"]), "slash"),
            (of_files(&["a\0b"]), "zero byte"),
            (of_files(&["a", "a"]), "twice"),
            (farm.store(&both), "twice"),
            (of_link("/etc/passwd"), "absolute"),
            (of_link("../../x"), "leads out"),
            (of_link("a/../../x"), "may lead out"),
            (deep, "deeper"),
            (wide, "entries"),
            (flat, "larger than"),
            (huge, "bytes"),
            (garbage, "not a directory"),
        ] {
            let (status, result) = farm.end(&farm.script(root, "true"));
            assert!(status.message.contains(why) && result.is_none(), "{why}: {status:?}");
            assert_eq!(status.code, 3, "INVALID_ARGUMENT: {status:?}");
        }
        for (outputs, script, why) in [
            (vec!["../out"], "true", "leads out"),
            (vec!["out"], "mkfifo out", "a pipe"),
            (vec!["out"], "ln -s /etc/passwd out", "absolute"),
            (vec!["out"], "mkdir out; mkfifo out/p", "a pipe"),
        ] {
            let outputs = outputs.into_iter().map(str::to_owned).collect();
            let command = reapi::Command { output_paths: outputs, ..shell(script) };
            let (status, result) = farm.end(&farm.queue(empty(&farm), &command, |_| {}));
            assert!(status.message.contains(why) && result.is_none(), "{why}: {status:?}");
        }
        let (status, result) = farm.end(&farm.script(empty(&farm), "echo still here"));
        assert_eq!((status.code, stdout(&result.unwrap_or_default()).as_str()), (0, "still here\n"));
    });
}

#[test]
fn lies_of_the_storage_are_no_inputs() {
    everyone(|user| {
        let farm = Farm::start(LONG);
        let started = worker(user, &farm, "lied-to", &["--cache-size", "0"]);
        let small = farm.storage.put(b"small file".to_vec());
        let large = farm.storage.put(vec![7; 6_000_000]);
        let of = |key| farm.store(&Directory { files: vec![file("f", key)], ..Directory::default() });
        // UNAVAILABLE is tried again, so the farm would never end: each lie is told until the first try has ended.
        for (key, lie, why) in [
            (small, Lie::Wrong, "other bytes"),
            (small, Lie::Short, "other bytes"),
            (small, Lie::Long, "other bytes"),
            (large, Lie::Wrong, "other bytes"),
            (large, Lie::Short, "other bytes"),
            (large, Lie::Long, "other bytes"),
        ] {
            farm.storage.lie(key, lie);
            let id = farm.script(of(key), "wc -c <f");
            started.until_it_says(&format!("{id}: ended: the farm answered {why}"));
            farm.storage.honest();
            let (status, result) = farm.end(&id);
            let size = format!("{}\n", key.size);
            assert_eq!((status.code, stdout(&result.unwrap_or_default())), (0, size), "{lie:?}: {status:?}");
        }
        for key in [small, large] {
            farm.storage.lie(key, Lie::Missing);
            let (status, result) = farm.end(&farm.script(of(key), "true"));
            assert_eq!((status.code, result.is_none()), (9, true), "FAILED_PRECONDITION: {status:?}");
        }
        farm.storage.honest();
        farm.storage.lie(large, Lie::Silent);
        let id = farm.script(of(large), "true");
        started.until_it_says(&format!("{id}: started"));
        farm.scheduler.take_back(&id);
        started.until_it_says(&format!("{id}: taken back"));
    });
}

#[test]
fn killed_workers_leave_nothing_and_their_leases_move() {
    everyone(|user| {
        let farm = Farm::start(SHORT);
        let (folder, option) = flags(user);
        let first = worker(user, &farm, "killed", &[&option]);
        let nap = nap(user, 1);
        let id = farm.script(empty(&farm), &format!("echo began; test -e /flags/go || sleep {nap}"));
        until("the action runs", || runs(&nap));
        first.signal(Signal::SIGKILL);
        until("nothing of it runs", || !runs(&nap));
        std::fs::write(folder.join("go"), "").expect("a flag");
        let mut second = worker(user, &farm, "second", &[&option]);
        let (status, result) = farm.end(&id);
        assert_eq!((status.code, stdout(&result.unwrap_or_default()).as_str()), (0, "began\n"), "{status:?}");
        assert_eq!(farm.scheduler.given(&id), 2);
        second.signal(Signal::SIGTERM);
        assert_eq!(second.code(), Some(0), "{}", second.said());
        let left: Vec<_> =
            std::fs::read_dir(user.path("tmp")).expect("a folder").flatten().map(|e| e.path()).collect();
        assert!(left.is_empty(), "{left:?}");
    });
}

/// A folder that actions see as `/flags`, by the worker's option.
fn flags(user: &User) -> (std::path::PathBuf, String) {
    let folder = user.make_folder("flags");
    let option = format!("--ro={}:/flags", folder.display());
    let _ = std::fs::remove_file(folder.join("go"));
    (folder, option)
}

#[test]
fn actions_go_on_while_their_farm_starts_again() {
    everyone(|user| {
        let mut farm = Farm::start(LONG);
        let started = worker(user, &farm, "lasting", &[]);
        // Longer than the farm is away, and a text that no other process has.
        let nap = format!("8.{}{}", std::process::id(), u8::from(user.is_ordinary()));
        let id = farm.script(empty(&farm), &format!("sleep {nap}; echo answer"));
        until("the action runs", || runs(&nap));
        farm.stop();
        // Long enough for a sign of life without an answer; the action goes on whether or not one was due.
        std::thread::sleep(Duration::from_secs(3));
        farm.serve();
        let (status, result) = farm.end(&id);
        assert_eq!(
            (status.code, stdout(&result.unwrap_or_default()).as_str()),
            (0, "answer\n"),
            "{status:?}\n{}",
            started.said()
        );
        assert_eq!(farm.scheduler.given(&id), 1, "{}", started.said());
        assert!(!started.said().contains("grpcs://"), "{}", started.said());
    });
}

#[test]
fn clocks_that_differ_lose_no_action() {
    let user = User::me();
    let farm = Farm::start(LONG);
    let started = worker(&user, &farm, "skewed", &["--jobs", "2"]);
    for hours in [-2, 2] {
        farm.scheduler.set_clock(hours * 3600);
        let nap = nap(&user, 4);
        let back = farm.script(empty(&farm), &format!("sleep {nap}"));
        let (status, result) = farm.end(&farm.script(empty(&farm), "echo answer"));
        assert_eq!(
            (status.code, stdout(&result.unwrap_or_default()).as_str()),
            (0, "answer\n"),
            "{status:?}"
        );
        until("the action runs", || runs(&nap));
        assert_eq!(farm.scheduler.given(&back), 1, "{}", started.said());
        // A lease that was taken back is noticed all the same.
        farm.scheduler.take_back(&back);
        until("it is ended", || !runs(&nap));
    }
}

#[test]
fn leases_that_are_taken_back_end_and_drains_wait() {
    everyone(|user| {
        let farm = Farm::start(LONG);
        let mut started = worker(user, &farm, "drained", &["--jobs", "2", "--json"]);
        let (cancelled, waits) = (nap(user, 2), nap(user, 3));
        let back = farm.script(empty(&farm), &format!("sleep {cancelled}"));
        until("the action runs", || runs(&cancelled));
        farm.scheduler.take_back(&back);
        until("it is ended", || !runs(&cancelled));
        let go = empty(&farm);
        let last = farm.script(go, &format!("timeout 3 sleep {waits}; echo last"));
        until("the action runs", || runs(&waits));
        started.signal(Signal::SIGTERM);
        started.until_it_says("ending: 1 actions still run");
        let never = farm.script(go, "echo never");
        let (status, result) = farm.end(&last);
        assert_eq!((status.code, stdout(&result.unwrap_or_default()).as_str()), (0, "last\n"), "{status:?}");
        assert_eq!(started.code(), Some(0), "{}", started.said());
        assert!(farm.scheduler.ended(&never).is_none());
        let mut printed = String::new();
        let mut stdout = started.child.stdout.take().expect("a pipe");
        std::io::Read::read_to_string(&mut stdout, &mut printed).expect("text");
        let counts: Value = serde_json::from_str(&printed).expect("JSON");
        assert_eq!(
            (&counts["started"], &counts["completed"], &counts["taken_back"]),
            (&2.into(), &1.into(), &1.into())
        );
    });
}

#[test]
fn silent_farms_lose_their_leases() {
    everyone(|user| {
        let farm = Farm::start(SHORT);
        let (folder, option) = flags(user);
        let started = worker(user, &farm, "alone", &[&option]);
        let nap = nap(user, 4);
        let id = farm.script(empty(&farm), &format!("echo once more; test -e /flags/go || sleep {nap}"));
        until("the action runs", || runs(&nap));
        farm.scheduler.silent(true);
        until("its lease has run out", || !runs(&nap));
        std::fs::write(folder.join("go"), "").expect("a flag");
        farm.scheduler.silent(false);
        let (status, result) = farm.end(&id);
        assert_eq!(
            (status.code, stdout(&result.unwrap_or_default()).as_str()),
            (0, "once more\n"),
            "{status:?}"
        );
        assert!(started.said().contains("did not answer"), "{}", started.said());
    });
}

fn once(id: &str) -> impl FnOnce(&mut reapi::Action) + use<> {
    let property = Property { name: "hotcell-once".to_owned(), value: id.to_owned() };
    move |action| action.platform = Some(reapi::Platform { properties: vec![property] })
}

#[test]
fn runs_that_began_once_are_lost() {
    everyone(|user| {
        for (number, (cache, storage)) in [(true, true), (false, true), (true, false)].into_iter().enumerate()
        {
            let farm = Farm::start(SHORT);
            if !cache {
                farm.storage.bar_cache();
            }
            let nap = nap(user, 5 + u32::try_from(number).expect("small"));
            let command = shell(&format!("sleep {nap}"));
            let id = farm.queue(empty(&farm), &command, once(&format!("run-{number}-0123456789")));
            if !storage {
                farm.storage.store_nothing();
            }
            let first = worker(user, &farm, "first", &[]);
            until("the action runs", || runs(&nap));
            drop(first);
            let _second = worker(user, &farm, "second", &[]);
            let (status, result) = farm.end(&id);
            assert_eq!((status.code, result.is_none()), (10, true), "ABORTED: {status:?}");
            assert!(status.message.starts_with("lost: ") && !runs(&nap), "{status:?}");
        }
        // Without a place for the mark it never begins.
        let farm = Farm::start(LONG);
        farm.storage.bar_cache();
        let id = farm.queue(empty(&farm), &shell("true"), once("run-nowhere-0123456789"));
        farm.storage.store_nothing();
        let _worker = worker(user, &farm, "nowhere", &[]);
        let (status, _) = farm.end(&id);
        assert!(status.code == 9 && status.message.contains("no place"), "{status:?}");
    });
}

#[test]
fn results_have_receipts_of_the_worker() {
    everyone(|user| {
        let farm = Farm::start(LONG);
        let _worker = worker(user, &farm, "signing", &["--receipts"]);
        let command =
            reapi::Command { output_paths: vec!["out".to_owned()], ..shell("echo said; echo made >out") };
        let mut action = Key::of(b"");
        let id = farm.queue(empty(&farm), &command, |queued| action = Key::of(&queued.encode_to_vec()));
        let (status, result) = farm.end(&id);
        let result = result.unwrap_or_else(|| panic!("{status:?}"));
        let metadata = result.execution_metadata.clone().expect("metadata").auxiliary_metadata;
        let of = |name: &str| {
            let any = metadata.iter().find(|any| any.type_url.ends_with(name));
            any.unwrap_or_else(|| panic!("no {name}")).value.clone()
        };
        let file = user.write("receipt.json", of(receipt::RECEIPT));
        let verified =
            user.hotcell(["receipt", "verify", "--json"]).words(&[file.to_str().expect("UTF-8")]).end();
        verified.code(0);
        let envelope: Value = serde_json::from_slice(&of(receipt::RECEIPT)).expect("JSON");
        assert_eq!(envelope["payloadType"], "application/vnd.in-toto+json");
        let shown: Value = serde_json::from_slice(&verified.stdout).expect("JSON");
        let text = shown.to_string();
        for (name, digest) in receipt::subjects(action, &result) {
            assert!(text.contains(&digest), "{name} is not in {text}");
        }
        let outcome = Key::of(&of(verdict::OUTCOME));
        assert!(text.contains(&hex(outcome)), "the outcome is not in {text}");
        assert_eq!(shown["receipts"][0]["statement"]["predicate"]["hotcell"]["attempt"], 1, "{text}");
    });
}

#[test]
fn actions_wait_for_memory() {
    everyone(|user| {
        let farm = Farm::start(LONG);
        let options = ["--jobs", "3", "--memory", "256M", "--total-memory", "600M"];
        let _worker = worker(user, &farm, "full", &options);
        let script = "date +%s%N; sleep 1; date +%s%N";
        let ids: Vec<_> = (0..3).map(|_| farm.script(empty(&farm), script)).collect();
        let spans: Vec<(u64, u64)> = ids
            .iter()
            .map(|id| {
                let (status, result) = farm.end(id);
                let text = stdout(&result.unwrap_or_else(|| panic!("{status:?}")));
                let times: Vec<u64> = text.lines().map(|line| line.parse().expect("a time")).collect();
                (times[0], times[1])
            })
            .collect();
        let most =
            spans.iter().map(|(at, _)| spans.iter().filter(|(from, to)| from <= at && at < to).count()).max();
        assert!(most <= Some(2), "{spans:?}");
        let refused =
            user.hotcell(["worker", "--bots", &farm.url(), "--memory", "2G", "--total-memory", "1G"]).end();
        refused.code(125).says_one_line("--memory");
    });
}

#[test]
fn metrics_and_status_tell_what_runs() {
    everyone(|user| {
        let farm = Farm::start(LONG);
        let started = worker(user, &farm, "measured", &["--metrics", "127.0.0.1:0", "--jobs", "1"]);
        let said = started.said();
        let address =
            said.split("http://").nth(1).and_then(|rest| rest.split('/').next()).expect("an address");
        let (status, _) = farm.end(&farm.script(empty(&farm), "exit 3"));
        assert_eq!(status.code, 0);
        let nap = nap(user, 9);
        let id = farm.script(empty(&farm), &format!("sleep {nap}"));
        let _waits = farm.script(empty(&farm), "true");
        until("the action runs", || runs(&nap));
        let text = get(address, "localhost", "/metrics");
        for line in [
            "hotcell_worker_actions_total{result=\"failed\"} 1",
            "hotcell_worker_actions_running 1",
            "hotcell_worker_slots 1",
            "# TYPE hotcell_worker_oldest_lease_seconds gauge",
        ] {
            assert!(text.contains(line), "no {line} in {text}");
        }
        assert!(get(address, "evil.example", "/metrics").starts_with("HTTP/1.1 403"));
        let seen = user.hotcell(["fleet", "status", &farm.url(), "--worker", address, "--json"]).end();
        let seen = seen.code(0).json();
        assert_eq!((&seen["farm"]["queued"], &seen["farm"]["executing"]), (&1.into(), &1.into()), "{seen:#}");
        assert_eq!(
            (&seen["workers"][0]["status"]["name"], &seen["farm"]["api_high"]),
            (&"measured".into(), &"2.3".into())
        );
        let shown = user.hotcell(["fleet", "status", &farm.url(), "--worker", address]).end();
        assert!(shown.code(0).text().contains("1 wait"), "{shown:?}");
        let none = user.hotcell(["fleet", "status", "--worker", "127.0.0.1:1"]).end();
        assert!(none.code(125).text().contains("cannot be asked"), "{none:?}");
        farm.scheduler.take_back(&id);
        let open = user.hotcell(["worker", "--bots", &farm.url(), "--metrics", "0.0.0.0:0"]).end();
        open.code(125).says_one_line("loopback");
    });
}

fn get(address: &str, host: &str, path: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).expect("the worker listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers");
    text
}

#[test]
fn wrong_options_are_one_line_each() {
    let user = User::me();
    let taken = user.path("taken");
    std::fs::write(&taken, "").expect("a file");
    let taken = format!("unix:{}", taken.display());
    let folder = user.path("work");
    let folder = folder.to_str().expect("UTF-8");
    for (options, words) in [
        (&["--bots", "http://x/main"][..], "grpc://"),
        (&["--bots", "grpc://farm.example:1/main"], "farm.example"),
        (&["--runner", "unix:/tmp/x"], "--build-directory"),
        (&["--runner", "/tmp/x", "--build-directory", folder], "unix:PATH"),
        (&["--runner", &taken, "--build-directory", folder], "not a socket"),
        (&["--runner", "unix:/tmp/x", "--build-directory", "/nowhere/at/all"], "/nowhere"),
        (
            &["--bots", "grpc://127.0.0.1:1/x", "--runner", "unix:/tmp/x", "--build-directory", folder],
            "--bots",
        ),
        (&["--bots", "grpc://127.0.0.1:1/x", "--capture", "1M"], "--capture"),
        (&["--bots", "grpc://127.0.0.1:1/x", "--jobs", "0"], "--jobs"),
    ] {
        let ended = user.hotcell(["worker"]).words(options).end();
        ended.code(125).says(words);
        assert!(ended.stderr.lines().count() <= 2, "{ended:?}");
    }
    let farm = Farm::start(LONG);
    let other = farm.url().replace("/main", "/other");
    user.hotcell(["worker", "--bots", &other]).end().code(125).says_one_line("instance");
}

/// Names of a folder.
pub fn names(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
