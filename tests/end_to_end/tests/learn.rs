//! `hotcell learn` and `runs suggest`: a policy from what full sandboxes denied, never wider, never applied.

use hotcell_end_to_end::{User, everyone};
use serde_json::Value;

use crate::network::server;

/// Reads a file, asks a host for a page through the proxy, and fails without either. Prints lies about denials.
const PROGRAM: &str = r#"
import sys, urllib.request
print('hotcell: denied: connect to liar.test:443 (network)')
print('network = ["liar.test:443"]')
text = open(sys.argv[1]).read()
print(text, urllib.request.urlopen(sys.argv[2], timeout=20).read().decode())
"#;

fn words<'a>(first: &[&'a str], rest: &[&'a str]) -> Vec<&'a str> {
    [first, rest].concat()
}

fn rules(suggestion: &Value, key: &str) -> Vec<String> {
    let all = suggestion[key].as_array().expect("rules");
    all.iter().map(|one| one["rule"].as_str().unwrap_or_default().to_owned()).collect()
}

fn file(user: &User, name: &str) -> String {
    user.write(name, "hello").to_str().expect("a path").to_owned()
}

#[test]
fn denied_file_and_host_are_suggested_and_replayed() {
    let Some(server) = server() else { return };
    everyone(|user| {
        let state = user.path("work/state").to_str().expect("a path").to_owned();
        let data = file(user, "work/data.txt");
        let rule = format!("{}:{}", server.at, server.port);
        let url = format!("http://{rule}/");
        let program = ["--", "/usr/bin/python3", "-c", PROGRAM, &data, &url];
        // One run sees what was missing first; the second lack shows with the first file there.
        let learn = ["learn", "--private", "--json", "--state", &state];
        let first = user.hotcell(words(&learn, &program)).end();
        let told = first.json();
        assert_eq!((rules(&told, "ro"), rules(&told, "network")), (vec![data.clone()], vec![]), "{told:#}");
        // Nothing could leave the sandbox, so it was replayed, and then the host was missing.
        assert_eq!(
            (&told["replay"]["made"], &told["replay"]["sufficed"]),
            (&true.into(), &false.into()),
            "{told:#}"
        );
        assert_eq!(told["replay"]["still_denied"], serde_json::json!([rule]), "{told:#}");
        first.code(1);
        let with_file = words(&learn, &["--ro", &data]);
        // With a host, a replay is the person's to allow.
        let asked = user.hotcell(words(&with_file, &program)).end().code(0).json();
        assert_eq!(
            (rules(&asked, "ro"), rules(&asked, "network")),
            (vec![], vec![rule.clone()]),
            "{asked:#}"
        );
        assert_eq!(asked["replay"]["made"], false, "{asked:#}");
        assert!(asked["replay"]["why_not"].to_string().contains("--replay"), "{asked:#}");
        let before = server.asked.load(std::sync::atomic::Ordering::Acquire);
        let policy = user.path("work/policy.toml").to_str().expect("a path").to_owned();
        let replay = words(&with_file, &["--replay", "--output", &policy]);
        let replayed = user.hotcell(words(&replay, &program)).end().code(0).json();
        assert_eq!(replayed["replay"]["sufficed"], true, "{replayed:#}");
        assert!(server.asked.load(std::sync::atomic::Ordering::Acquire) > before);
        // The file is a configuration with which the program works, and never replaces another one.
        let run = ["run", "--config", &policy, "--state", &state, "--ro", &data];
        user.hotcell(words(&run, &program)).end().code(0);
        let again = user.hotcell(words(&["learn", "--output", &policy], &program)).end();
        again.code(125).says("it exists");
        // All runs of the history together.
        let list = user.hotcell(["runs", "list", "--state", &state, "--json"]).end().json();
        let ids: Vec<_> = list["runs"]
            .as_array()
            .expect("runs")
            .iter()
            .map(|run| run["id"].as_str().unwrap().to_owned())
            .collect();
        let mut suggest = vec!["runs", "suggest", "--private", "--state", &state, "--json"];
        suggest.extend(ids.iter().map(String::as_str));
        let merged = user.hotcell(suggest).end().code(0).json();
        assert_eq!(
            (rules(&merged, "ro"), rules(&merged, "network")),
            (vec![data.clone()], vec![rule.clone()]),
            "{merged:#}"
        );
        assert!(merged["network"][0]["runs"].as_array().is_some_and(|runs| runs.len() >= 2), "{merged:#}");
        assert!(!merged.to_string().contains("liar.test:443\""), "{merged:#}");
    });
}

#[test]
fn protected_files_are_refused_and_stay_unread() {
    everyone(|user| {
        user.make_folder("home/.ssh");
        let key = file(user, "home/.ssh/id_ed25519");
        let state = user.path("work/state").to_str().expect("a path").to_owned();
        let plain = file(user, "work/plain.txt");
        let link = user.path("work/innocent.txt");
        std::os::unix::fs::symlink(&key, &link).expect("a link");
        let link = link.to_str().expect("a path");
        let own = format!("{state}/hotcell.db");
        let script = "import os, sys\nfor path in sys.argv[1:]:\n  try: print('read', path, open(path).read())\n  except OSError: pass";
        let learn = ["learn", "--json", "--folders", "--replay", "--state", &state, "--"];
        let program = [
            "/usr/bin/python3",
            "-c",
            script,
            &key,
            "/home/sandbox/.ssh/id_ed25519",
            link,
            &own,
            "/var/run/docker.sock",
            &plain,
        ];
        let told = user.hotcell(words(&learn, &program)).end().code(0).json();
        assert_eq!((rules(&told, "ro"), rules(&told, "network")), (vec![plain.clone()], vec![]), "{told:#}");
        let refused = told["refused"].to_string();
        for path in [key.as_str(), "/home/sandbox/.ssh/id_ed25519", link, &own, "/var/run/docker.sock"] {
            assert!(refused.contains(path), "{path} {told:#}");
        }
        // The replay had the plain file alone.
        let run = told["replay"]["run"].as_str().expect("a run").to_owned();
        let shown = user.hotcell(["runs", "show", "--state", &state, "--json", &run]).end().code(0).json();
        assert_eq!(shown["stdout"]["text"], format!("read {plain} hello\n"), "{shown:#}");
        assert_eq!(told["replay"]["sufficed"], true, "{told:#}");
    });
}

#[test]
fn wrong_words_end_with_one_line() {
    everyone(|user| {
        user.hotcell(["learn"]).end().code(125).says("there is no program to learn from");
        user.hotcell(["learn", "--runs", "21", "--", "true"]).end().code(125).says("21");
        user.hotcell(["learn", "--", "/no/such/program"]).end().code(127).says("nothing can be learnt");
        user.hotcell(["learn", "--deps", "--", "true"]).end().code(125).says("--workspace");
        user.hotcell(["runs", "suggest"]).end().code(125);
        user.hotcell(["runs", "suggest", "abc"]).end().code(125).says("there is no run");
    });
}
