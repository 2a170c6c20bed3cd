//! Farms that lie, fail or are silent: each lie is one failure that is named, in a bounded time, and never a good result.

use std::time::{Duration, Instant};

use hotcell_end_to_end::{User, everyone};
use hotcell_farm::execution::{Lie, Rules, TestFarm};

/// Each lie, with the exit status and the words of the failure.
const LIES: &[(Lie, i32, &str)] = &[
    (Lie::OldVersion, 125, "speaks versions 1 to 1"),
    (Lie::NoExecution, 125, "executes nothing"),
    (Lie::NoWorkers, 125, "no worker took the run within 2 s"),
    (Lie::WrongPlatform, 125, "no worker has OSFamily=plan9"),
    (Lie::LostStates, 125, "ended the stream of states"),
    (Lie::NoAnswer, 125, "without an answer"),
    (Lie::WrongBytes, 125, "other bytes than the digest"),
    (Lie::ShortReads, 125, "other bytes than the digest"),
    (Lie::MissingBlobs, 125, "does not have the blob"),
    (Lie::ShortWrites, 125, "stored"),
    (Lie::OtherMissing, 125, "misses a blob that it was not asked for"),
    (Lie::UpPath, 125, "leads elsewhere"),
    (Lie::AbsolutePath, 125, "leads elsewhere"),
    (Lie::LinkOut, 125, "leads out"),
    (Lie::Deep, 125, "deeper than 128"),
    (Lie::Wide, 125, "more than 999999 entries"),
    (Lie::Crowded, 125, "more than 999999 entries"),
    (Lie::Listed, 125, "more than 100000 repeated fields"),
    (Lie::NoTree, 125, "not a tree"),
    (Lie::SlashName, 125, "has a slash"),
    (Lie::Huge, 125, "bytes"),
    (Lie::NoDigest, 125, "not SHA-256"),
    (Lie::Cached, 125, "from its cache"),
    (Lie::WorkerFailed, 125, "the worker's disk is full"),
    (Lie::OutcomeLost, 125, "lost"),
    (Lie::StrangeReceipt, 125, "receipt"),
];

/// More than any of them takes on a busy machine.
const BOUND: Duration = Duration::from_secs(120);

#[test]
fn lies_of_a_farm_are_named_failures() {
    everyone(|user| {
        user.make_folder("work/p");
        user.write("work/p/large", vec![b'x'; 3_000_000]);
        let script =
            "mkdir dist; echo a >dist/a; head -c 3000000 /dev/zero >dist/large; head -c 9000 /dev/zero";
        for (lie, code, word) in LIES {
            let farm = TestFarm::start(Rules { lie: Some(*lie), ..Rules::default() });
            // Longer than a watcher that is lost looks for the run again.
            let queue = if *lie == Lie::NoWorkers { "2s" } else { "60s" };
            let mut text = format!("[fleet]\naddress = \"{}\"\nqueue = \"{queue}\"\n", farm.address);
            if *lie == Lie::StrangeReceipt {
                let key = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";
                user.write("key.pem", key);
                text.push_str("require_receipts = true\ntrusted_keys = [\"key.pem\"]\n");
            }
            let config = user.write("config.toml", text).display().to_string();
            let began = Instant::now();
            let mut call =
                user.hotcell(["run", "--remote", "fleet", "--config", &config, "--workspace", "p"]);
            call.add(["--output-files", "out=dist/", "--", "sh", "-c", script]);
            let ended = call.end();
            assert_eq!(ended.code, Some(*code), "{lie:?} {ended:#?}");
            ended.says(word);
            assert!(began.elapsed() < BOUND, "{lie:?} took {:?}", began.elapsed());
            assert!(!user.path("evil").exists() && !std::path::Path::new("/tmp/hotcell-evil").exists());
        }
    });
}

#[test]
fn compressed_lies_are_named_failures() {
    let user = User::me();
    for lie in [Lie::Bomb, Lie::WrongBytes, Lie::ShortReads] {
        let farm = TestFarm::start(Rules { lie: Some(lie), compresses: true, ..Rules::default() });
        let mut call = user.hotcell(["run", "--remote", &farm.address]);
        call.add(["--", "sh", "-c", "head -c 3000000 /dev/zero"]);
        call.end().code(125).says("other bytes than the digest");
    }
}

#[test]
fn log_that_differs_from_the_result_is_a_failure() {
    let user = User::me();
    let farm = TestFarm::start(Rules { lie: Some(Lie::OtherLog), logs: true, ..Rules::default() });
    let mut call = user.hotcell(["run", "--remote", &farm.address]);
    call.add(["--", "sh", "-c", "echo a; sleep 2; echo b"]);
    call.end().code(125).says("standard output has other bytes");
}

#[test]
fn outcome_of_a_worker_does_not_overrule_the_result() {
    let user = User::me();
    let farm = TestFarm::start(Rules { lie: Some(Lie::OtherExit), ..Rules::default() });
    // The farm's word is all there is: the double says 0, and no worker of hotcell says otherwise.
    let mut call = user.hotcell(["run", "--remote", &farm.address, "--json"]);
    call.add(["--", "sh", "-c", "exit 3"]);
    let report = call.end().code(0).json();
    assert_eq!(report["remote"]["sandboxed"], false, "{report:#}");
}

/// A suite whose part is lost is never a good one.
#[test]
fn suites_with_a_lost_part_do_not_pass() {
    everyone(|user| {
        user.make_folder("u");
        let text = "import unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n        pass\n    def test_b(self):\n        pass\n";
        user.write("u/test_it.py", text);
        for lie in [
            Lie::WorkerFailed,
            Lie::OutcomeLost,
            Lie::NoAnswer,
            Lie::WrongBytes,
            Lie::OtherMissing,
            Lie::UpPath,
        ] {
            let farm = TestFarm::start(Rules { lie: Some(lie), ..Rules::default() });
            for options in [&["--framework", "unittest"][..], &["--framework", "unittest", "--shards", "2"]] {
                let mut call = user.hotcell(["test", "--remote", &farm.address, "--json"]);
                call.add(options).add([user.path("u")]);
                let ended = call.end();
                let report = ended.json();
                assert_ne!(report["verdict"], "passed", "{lie:?} {report:#}");
                assert_eq!(ended.code, Some(125), "{lie:?} {report:#}");
                assert!(report["reason"].as_str().is_some_and(|why| !why.is_empty()), "{report:#}");
            }
        }
    });
}

/// A server that takes connections and never says anything.
#[test]
fn silent_server_is_given_up() {
    let user = User::me();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let far = format!("grpc://127.0.0.1:{}/main", listener.local_addr().unwrap().port());
    let began = Instant::now();
    let mut call = user.hotcell(["run", "--remote", &far]);
    call.add(["--", "true"]);
    call.end().code(125).says("did not answer in time");
    assert!(began.elapsed() < BOUND);
}
