//! Receipts: signed statements of runs, tests and scans, their verification, and the keys.

use std::io::{BufRead, BufReader, Write};

use hotcell_end_to_end::mcp::{Local, STATELESS, until};
use hotcell_end_to_end::{Ended, User, Weak, everyone};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::tools::configure;

fn receipt(user: &User, words: &[&str]) -> Ended {
    user.hotcell(["receipt"]).words(words).end()
}

/// Paths of files in a user's folder.
fn path(user: &User, name: &str) -> String {
    user.path(name).to_str().expect("UTF-8").to_owned()
}

#[test]
fn receipt_of_a_run_states_how_it_ended() {
    everyone(|user| {
        let out = |name: &str| path(user, &format!("work/{name}"));
        let rows: [(&str, &[&str], i32, &str, &str); 5] = [
            ("good.json", &["--", "true"], 0, "PASSED", "exited"),
            ("code.json", &["--", "false"], 1, "FAILED", "exited"),
            ("limit.json", &["--timeout", "1s", "--", "sleep", "30"], 124, "FAILED", "wall_limit"),
            ("none.json", &["--", "no-such-program"], 127, "FAILED", "not_found"),
            ("refused.json", &["--ro", "/no/such/file", "--", "true"], 125, "FAILED", "refused"),
        ];
        for (file, words, code, result, cause) in rows {
            let file = out(file);
            user.hotcell(["run", "--receipt", &file]).words(words).end().code(code);
            let list = receipt(user, &["verify", "--json", &file]).code(0).json();
            let statement = &list["receipts"][0]["statement"];
            let predicate = &statement["predicate"];
            assert_eq!(
                (&predicate["result"], &predicate["cause"]),
                (&result.into(), &cause.into()),
                "{file}"
            );
            assert_eq!(statement["predicateType"], "urn:hotcell:predicate:run:v1");
            assert_eq!(predicate["policy_sha256"].as_str().map(str::len), Some(64), "{predicate:#}");
            assert!(predicate["limits"]["processes"].is_u64(), "{predicate:#}");
            assert_eq!(predicate["limits"]["wall"] == 1.0, file.ends_with("limit.json"), "{predicate:#}");
            assert_eq!(predicate["hotcell"]["attempt"], 1, "{predicate:#}");
            receipt(user, &["verify", "--passed", &file]).code(i32::from(result == "FAILED"));
        }
        // A repetition is counted; under another policy it is another run.
        for (file, words, attempt) in
            [("again.json", &["--", "true"][..], 2), ("more.json", &["--memory", "100M", "--", "true"], 1)]
        {
            let file = out(file);
            user.hotcell(["run", "--receipt", &file]).words(words).end().code(0);
            let list = receipt(user, &["verify", "--json", &file]).code(0).json();
            assert_eq!(
                list["receipts"][0]["statement"]["predicate"]["hotcell"]["attempt"], attempt,
                "{list:#}"
            );
        }
        user.hotcell(["audit", "verify"]).end().code(0);
    });
}

fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn receipt_of_a_session_has_its_cells() {
    everyone(|user| {
        let out = |name: &str| path(user, &format!("work/{name}"));
        let statement = |file: &str| {
            let list = receipt(user, &["verify", "--json", file]).code(0).json();
            list["receipts"][0]["statement"].clone()
        };
        for (file, cells, code, result, statuses, attempt) in [
            ("good.json", ["x = 6", "x * 7"], 0, "PASSED", ["ok", "ok"], 1),
            ("again.json", ["x = 6", "x * 7"], 0, "PASSED", ["ok", "ok"], 2),
            ("error.json", ["x = 6", "1 / 0"], 1, "FAILED", ["ok", "error"], 1),
            ("died.json", ["x = 6", "import os; os._exit(3)"], 125, "FAILED", ["ok", "died"], 1),
        ] {
            let file = out(file);
            let lines: String = cells.iter().map(|code| format!("{}\n", json!({ "code": code }))).collect();
            user.hotcell(["session", "python", "--json", "--receipt", &file]).input(lines).end().code(code);
            let statement = statement(&file);
            let predicate = &statement["predicate"];
            assert_eq!(statement["predicateType"], "urn:hotcell:predicate:run:v1");
            assert_eq!(predicate["result"], result, "{predicate:#}");
            assert_eq!(predicate["hotcell"]["attempt"], attempt, "{predicate:#}");
            assert_eq!(predicate["policy_sha256"].as_str().map(str::len), Some(64), "{predicate:#}");
            let session = &predicate["session"];
            for (number, (cell, status)) in cells.iter().zip(statuses).enumerate() {
                let step = json!({ "kind": "cell", "sha256": sha256(cell), "status": status });
                assert_eq!(session["steps"][number], step, "{session:#}");
            }
            let lines: String = cells.iter().map(|cell| format!("cell\0{}\n", sha256(cell))).collect();
            assert_eq!(statement["subject"][0]["digest"]["sha256"], sha256(&lines), "{statement:#}");
            receipt(user, &["verify", "--passed", &file]).code(i32::from(result == "FAILED"));
        }
        let shown = receipt(user, &["show", &out("good.json")]);
        assert!(shown.code(0).text().contains("python: 2 cells"), "{}", shown.text());
        // The end of a terminal, and a request to end, while it waits for more. Under nohup, which may have started the tests, it outlives its
        // terminal.
        for (outer, signals, ended) in [
            ("--default-signal=HUP", &[Signal::SIGHUP][..], "hangup"),
            ("--default-signal=HUP", &[Signal::SIGTERM], "request"),
            ("--ignore-signal=HUP", &[Signal::SIGHUP, Signal::SIGTERM], "nohup"),
        ] {
            let file = out(&format!("{ended}.json"));
            let words = ["session", "python", "--json", "--receipt", &file];
            let mut child = user.hotcell_on(&Weak::default().within(&["env", outer]), words).piped().start();
            let mut stdin = child.stdin.take().expect("a pipe");
            stdin.write_all(b"{\"code\": \"x = 6\"}\n").expect("it reads");
            let mut line = String::new();
            let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
            stdout.read_line(&mut line).expect("an answer");
            for (sent, signal) in signals.iter().enumerate() {
                kill(Pid::from_raw(i32::try_from(child.id()).expect("an id")), *signal).expect("it is sent");
                if sent + 1 < signals.len() {
                    stdin.write_all(b"{\"code\": \"x\"}\n").expect("it reads");
                    line.clear();
                    stdout.read_line(&mut line).expect("an answer");
                    assert!(line.contains('6'), "{ended}: {line}");
                }
            }
            assert_eq!(child.wait().expect("it ends").code(), Some(130), "{ended}");
            assert_eq!(statement(&file)["predicate"]["session"]["cells"], signals.len(), "{ended}");
        }
        // Each session of a service, too, however it ends.
        user.make_folder("work/kept");
        configure(user, &format!("[receipts]\nalways = true\nfolder = \"{}\"\n", out("kept")));
        let kept = || -> Vec<String> {
            let files = std::fs::read_dir(out("kept")).expect("a folder");
            files.map(|file| file.expect("a file").path().to_str().expect("UTF-8").to_owned()).collect()
        };
        let mut client = Local::start(user, STATELESS);
        for closes in [true, false] {
            let made = client.good("session_create", &json!({ "language": "bash" }));
            let id = &made["session_id"];
            client.good("session_execute", &json!({ "session_id": id, "code": format!("echo {closes}") }));
            if closes {
                let closed = client.good("session_close", &json!({ "session_id": id }));
                assert_eq!(kept().len(), 1);
                // The receipt is a resource of its caller.
                let uri = closed["receipt"].as_str().expect("an address").to_owned();
                assert!(uri.ends_with(&format!("/{}/1", id.as_str().expect("a handle"))), "{uri}");
                let read = client.request("resources/read", json!({ "uri": uri }));
                let text = std::fs::read_to_string(&kept()[0]).expect("a receipt");
                assert_eq!(read["result"]["contents"][0]["text"], text.as_str(), "{read:#}");
                let list = client.request("resources/list", json!({}));
                assert!(list.to_string().contains(&uri), "{list:#}");
                for other in [uri.replace("/1", "/2"), uri.replace("/ses_", "/ses_0")] {
                    let none = client.request("resources/read", json!({ "uri": other }));
                    assert!(none["error"].is_object(), "{none}");
                }
            }
        }
        client.end();
        assert_eq!(kept().len(), 2);
        let service = super::serve::Service::start(user, &[]);
        for words in [&["create", "s", "python"][..], &["exec", "s", "1"], &["close", "s"]] {
            service.with(user.hotcell(["session"].iter().chain(words))).end().code(0);
        }
        service.stop(user);
        assert_eq!(kept().len(), 3);
        for file in kept() {
            receipt(user, &["verify", "--passed", &file]).code(0);
            assert_eq!(statement(&file)["predicate"]["session"]["cells"], 1);
        }
        user.hotcell(["audit", "verify"]).end().code(0);
    });
}

#[test]
fn receipt_of_tests_is_bound_to_the_folder() {
    everyone(|user| {
        user.make_folder("work/p");
        let test = "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): pass\n    @unittest.skip('x')\n    def test_b(self): pass\n";
        user.write("work/p/test_a.py", test);
        let (project, file) = (path(user, "work/p"), path(user, "work/t.json"));
        let words = ["test", "--framework", "unittest", "--toolchain", "/usr", "--receipt", &file, &project];
        user.hotcell(words).end().code(0);
        let verify = ["verify", "--passed", "--folder", &project, &file];
        let said = receipt(user, &verify);
        said.code(0).prints(&format!("good      {file}: states PASSED; signed by this installation\n"));
        let list = receipt(user, &["verify", "--json", &file]).code(0).json();
        let predicate = &list["receipts"][0]["statement"]["predicate"];
        assert_eq!(predicate["passedTests"].as_array().map(Vec::len), Some(1), "{predicate:#}");
        assert_eq!(
            (&predicate["failedTests"], &predicate["hotcell"]["skipped"]),
            (&serde_json::json!([]), &1.into())
        );
        // One more byte anywhere in the project: the receipt is about something else.
        user.write("work/p/more.py", "");
        receipt(user, &verify).code(1);
        std::fs::remove_file(user.path("work/p/more.py")).unwrap();
        receipt(user, &verify).code(0);
        // The receipt and other results lie in the folder itself.
        let (inside, junit) = (path(user, "work/p/r.json"), path(user, "work/p/j.xml"));
        for _ in 0..2 {
            let more = ["--receipt", &inside, "--junit", &junit, &project];
            user.hotcell(["test", "--framework", "unittest", "--toolchain", "/usr"])
                .words(&more)
                .end()
                .code(0);
            receipt(user, &["verify", "--passed", "--folder", &project, &inside]).code(1);
            receipt(user, &["verify", "--passed", "--folder", &project, "--except", &junit, &inside]).code(0);
            std::fs::remove_file(&junit).unwrap();
            receipt(user, &["verify", "--passed", "--folder", &project, &inside]).code(0);
        }
        std::fs::remove_file(&inside).unwrap();
        user.write("work/p/test_a.py", test.replace("pass", "self.fail()"));
        user.hotcell(words).end().code(1);
        receipt(user, &["verify", "--passed", &file]).code(1);
    });
}

#[test]
fn changed_receipts_and_other_keys_are_refused() {
    everyone(|user| {
        let file = path(user, "work/r.json");
        user.hotcell(["run", "--receipt", &file, "--", "true"]).end().code(0);
        let pem = path(user, "work/key.pem");
        let key = receipt(user, &["key", "show"]);
        key.code(0);
        user.write("work/key.pem", key.text());
        // Another installation knows no key, then this one by option, then by name.
        let other = path(user, "work/other");
        let there = |words: &[&str]| user.hotcell(["--state", &other, "receipt"]).words(words).end();
        there(&["verify", &file]).code(125).says("there is no key");
        there(&["verify", "--key", &pem, &file]).code(0);
        there(&["key", "trust", "ci", &pem]).code(0);
        there(&["verify", &file]).code(0);
        there(&["key", "trust", "../x", &pem]).code(125).says("is not a name for a key");
        there(&["key", "distrust", "ci"]).code(0);
        there(&["key", "distrust", "ci"]).code(125).says("no trusted key");
        // A new key here: the former one's receipts still verify, and the new one's do not where the former is trusted.
        receipt(user, &["key", "rotate"]).code(0);
        receipt(user, &["verify", &file]).code(0);
        let newer = path(user, "work/n.json");
        user.hotcell(["run", "--receipt", &newer, "--", "true"]).end().code(0);
        there(&["verify", "--key", &pem, &newer]).code(1);
        // Changed text, no receipt at all, and a file that is not there.
        let text = std::fs::read_to_string(user.path("work/r.json")).unwrap();
        user.write("work/r.json", text.replacen("\"payload\":\"e", "\"payload\":\"f", 1));
        receipt(user, &["verify", &file]).code(1);
        user.write("work/r.json", "[]");
        receipt(user, &["verify", &file]).code(1);
        receipt(user, &["verify", &path(user, "work/gone.json")]).code(125).says("cannot be read");
        receipt(user, &["verify", "--subject", "md5:1", &file]).code(125).says("sha256:");
    });
}

#[test]
fn audit_finds_receipts_of_earlier_releases_that_nothing_names() {
    everyone(|user| {
        let file = path(user, "work/r.json");
        let state = path(user, "work/own");
        let run = ["--state", &state, "run", "--receipt", &file, "--", "true"];
        user.hotcell(run).end().code(0);
        let audit = || user.hotcell(["--state", &state, "audit", "verify"]).end();
        audit().code(0);
        let kept = user.path("work/own/receipts/kept");
        user.make_folder("work/own/receipts/kept");
        user.write(kept.join(format!("{}.json", "0".repeat(64))), "{}");
        audit().code(125).says("is not in the log");
    });
}

/// A git repository made by hand: an index with one file. Its tree has the object id that git computes.
fn repository(user: &User, folder: &str) -> &'static str {
    user.make_folder(&format!("{folder}/.git"));
    user.write(format!("{folder}/test_a.py"), TEST);
    let mut index = b"DIRC\0\0\0\x02\0\0\0\x01".to_vec();
    index.extend([0; 24]);
    index.extend(0o100_644_u32.to_be_bytes());
    index.extend([0; 32]);
    index.extend(9_u16.to_be_bytes());
    index.extend(b"test_a.py\0");
    // The checksum is left out, as with index.skipHash.
    index.extend([0; 20]);
    std::fs::write(user.path(&format!("{folder}/.git/index")), index).unwrap();
    "gitTree:b2faf25e722134906e237724dbc2f71d70426f5b"
}

const TEST: &str = "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): pass\n";

#[test]
fn policy_says_which_receipts_are_good() {
    everyone(|user| {
        let tree = repository(user, "work/p");
        let (project, file) = (path(user, "work/p"), path(user, "work/t.json"));
        let words = ["test", "--framework", "unittest", "--toolchain", "/usr", "--receipt", &file, &project];
        user.hotcell(words).end().code(0);
        let policy = path(user, "work/policy.toml");
        let verify = |text: &str| {
            user.write("work/policy.toml", text);
            receipt(user, &["verify", "--policy", &policy, &file])
        };
        verify(&format!(
            "max_age = \"1h\"\n[test_result]\nlayers = [\"no_new_privs\"]\nsubjects = [\"{tree}\"]\n"
        ))
        .code(0);
        let key = receipt(user, &["key", "list", "--json"]).code(0).json();
        let id = key["keys"][0]["id"].as_str().unwrap().to_owned();
        verify(&format!("keys = [\"{id}\"]\n[test_result]\n")).code(0);
        let other = "0".repeat(64);
        for (text, word) in [
            (format!("keys = [\"{other}\"]\n[test_result]\n"), "not one of the wanted"),
            (format!("[test_result]\nimages = [\"sha256:{other}\"]\n"), "no digest of an image"),
            (format!("[test_result]\nsubjects = [\"gitTree:{}\"]\n", "0".repeat(40)), "no subject"),
            ("[test_result]\n[svr]\n".to_owned(), "MISSING   no good receipt of the kind svr"),
            ("[run]\n".to_owned(), "names no receipts of type"),
        ] {
            let said = verify(&text);
            assert!(said.code(1).text().contains(word), "{text}: {}", said.text());
        }
        let list = receipt(user, &["verify", "--json", "--policy", &policy, &file]).code(1).json();
        assert_eq!(list["missing"], serde_json::json!(["run"]));
        for text in ["", "[tests]\n", "max_age = \"soon\"\n[run]\n", "[run]\nlayers = [\"landlok\"]\n", "["] {
            verify(text).code(125);
        }
        receipt(user, &["verify", "--policy", "/no/such/file", &file]).code(125);
    });
}

#[test]
fn configuration_gives_every_run_a_receipt() {
    everyone(|user| {
        user.make_folder("work/out");
        let (out, config) = (path(user, "work/out"), path(user, "work/config.toml"));
        let write = |more: &str| {
            user.write("work/config.toml", format!("[receipts]\nalways = true\nfolder = \"{out}\"\n{more}"));
        };
        let run = || user.hotcell(["--config", &config, "run", "--", "true"]).end();
        write("");
        run().code(0);
        run().code(0);
        let files: Vec<_> = std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(files.len(), 2, "{files:?}");
        for file in &files {
            receipt(user, &["verify", "--passed", file.to_str().unwrap()]).code(0);
        }
        // No run without a key that can be used.
        for (more, word) in [
            ("key = \"fd:999\"", "fd:999"),
            ("key = \"file:/no/such/key\"", "/no/such/key"),
            ("key = \"credential:none\"", "credential:none"),
            ("key = \"exec:/no/such/program\"", "public_key"),
            ("key = \"env:KEY\"", "credential:NAME"),
            ("foldr = \"x\"", "receipts.folder"),
        ] {
            write(more);
            let ended = run();
            let said = &ended.code(125).stderr;
            assert!(said.contains(word), "{more}: {said}");
        }
        assert_eq!(std::fs::read_dir(&out).unwrap().count(), 2);
        user.hotcell(["audit", "verify"]).end().code(0);
    });
}

#[test]
fn runs_of_agents_have_receipts_as_resources() {
    everyone(|user| {
        configure(user, "[receipts]\nalways = true\n");
        let mut client = Local::start(user, STATELESS);
        let rows = [
            ("run_command", json!({ "argv": ["true"] }), "PASSED", "request"),
            ("run_code", json!({ "language": "bash", "code": "exit 3\n" }), "FAILED", "workspace"),
        ];
        for (tool, call, result, subject) in rows {
            let id = client.good(tool, &call)["run_id"].as_str().expect("an id").to_owned();
            let uri = format!("hotcell://runs/{id}/receipt");
            let mut read = Value::Null;
            until("the receipt", || {
                read = client.request("resources/read", json!({ "uri": uri }));
                read["error"].is_null()
            });
            let text = read["result"]["contents"][0]["text"].as_str().expect("a text");
            user.write("work/r.json", text);
            let list = receipt(user, &["verify", "--json", &path(user, "work/r.json")]).code(0).json();
            let statement = &list["receipts"][0]["statement"];
            assert_eq!(statement["predicate"]["result"], result, "{statement:#}");
            assert_eq!(statement["subject"][0]["name"], subject, "{statement:#}");
        }
        let none = client.request("resources/read", json!({ "uri": "hotcell://runs/run_x/receipt" }));
        assert!(none["error"].is_object(), "{none}");
        client.end();
        user.hotcell(["audit", "verify"]).end().code(0);
        // A service that cannot sign does not start.
        configure(user, "[receipts]\nalways = true\nkey = \"file:/no/such/key\"\n");
        let ended = user.hotcell(["mcp"]).end();
        assert!(ended.code(125).stderr.contains("/no/such/key"), "{ended:?}");
    });
}
