//! Requests of agents, from the call to a person's decision and the one call that it allows: `hotcell
//! approvals`.

use std::sync::atomic::Ordering;

use hotcell_end_to_end::mcp::{Local, SESSIONS, STATELESS, two_callers};
use hotcell_end_to_end::{Ended, User, everyone};
use serde_json::{Value, json};

use super::network::{Server, server};
use super::tools::{ASKS, configure, write};

/// Dangerous on the face of it, and harmless in a sandbox.
pub const HOSTILE: &str = "import os\nprint('ran')\nos.system('rm -rf /home/')\n";

pub fn approvals(user: &User, words: &[&str]) -> Ended {
    user.hotcell(["approvals"]).words(words).end()
}

pub fn list(user: &User) -> Vec<Value> {
    approvals(user, &["list", "--json"]).code(0).silent().json()["approvals"]
        .as_array()
        .cloned()
        .expect("a list")
}

fn states(user: &User) -> Vec<(String, String)> {
    let text = |row: &Value, field: &str| row[field].as_str().expect("a text").to_owned();
    list(user).iter().map(|row| (text(row, "kind"), text(row, "state"))).collect()
}

/// Extracts the id from a message that says which command to type.
#[track_caller]
pub fn id_in(said: &str) -> String {
    let id = said.split("hotcell approvals approve ").nth(1).and_then(|rest| rest.get(..8));
    id.unwrap_or_else(|| panic!("no id is named: {said}")).to_owned()
}

/// A client of a server whose operator gives this site an address: the rule, and the client.
fn with_site(user: &User, site: &Server) -> (String, Local) {
    let rule = format!("site.test={}:{}", site.at, site.port);
    configure(user, &format!("[mcp]\nhosts = [\"{rule}\"]\n"));
    (rule, Local::start(user, SESSIONS))
}

pub fn audit_is_good(user: &User) {
    let text = user.hotcell(["audit", "verify"]).end().code(0).silent().text();
    assert!(text.starts_with("good: "), "{text}");
}

/// Channels and actions of the audit log, the oldest first.
pub fn log(user: &User) -> Vec<(String, String)> {
    let log = user.hotcell(["audit", "list", "--json"]).end().code(0).json();
    let text = |row: &Value, field: &str| row[field].as_str().expect("a text").to_owned();
    let all = log["entries"].as_array().expect("entries").iter();
    all.map(|row| (text(row, "action"), text(row, "channel"))).collect()
}

#[test]
fn agent_requested_release_is_approved() {
    everyone(|user| {
        assert!(list(user).is_empty());
        approvals(user, &["list"]).code(0).prints("").says("nobody asks for anything");
        let mut client = Local::start(user, STATELESS);
        let code = json!({ "language": "python", "code": HOSTILE });
        let refused = client.good("run_code", &code);
        assert_eq!(refused["cause"], "quarantined", "{refused:#}");
        assert!(list(user).is_empty(), "a refusal alone asks for nothing");
        let item = refused["scan"]["quarantine"]["id"].clone();
        let ask = json!({ "id": item, "reason": "a test \u{1b}[31m of ours" });
        let asked = client.good("quarantine_request", &ask);
        let id = id_in(asked["hint"].as_str().unwrap());
        assert_eq!(client.good("quarantine_request", &ask)["hint"], asked["hint"], "it is asked once");
        assert_eq!(client.good("quarantine_show", &json!({ "id": item }))["hint"], asked["hint"]);
        let row = &list(user)[0];
        assert_eq!(
            (&row["id"], &row["kind"], &row["asked_by"]),
            (&json!(id), &json!("release"), &json!("mcp:stdio"))
        );
        let page = approvals(user, &["show", &id[..5]]).code(0).text();
        assert!(
            page.contains("mcp:stdio asks to run the item") && page.contains("\\u{1b}[31m of ours"),
            "{page}"
        );
        assert!(page.contains("hotcell quarantine show"), "{page}");
        // No tool approves, whatever its name.
        for tool in ["approvals_approve", "approve", "quarantine_release", "approvals"] {
            let answer = client.request("tools/call", json!({ "name": tool, "arguments": { "id": id } }));
            assert_eq!(answer["error"]["code"], -32602, "{answer:#}");
        }
        approvals(user, &["approve", &id, "--reason", "looked at it"]).code(0).silent();
        let shown = client.good("quarantine_show", &json!({ "id": item }));
        assert_eq!((&shown["state"], &shown["runs_left"]), (&json!("released"), &json!(1)));
        let ran = client.good("run_code", &code);
        assert_eq!(ran["stdout"]["text"], "ran\n", "{ran:#}");
        assert_eq!(client.good("run_code", &code)["cause"], "quarantined", "once");
        assert_eq!(states(user), [("release".to_owned(), "used".to_owned())]);
        for (again, why) in [("approve", "used already; nothing was allowed"), ("deny", "nothing to deny")] {
            approvals(user, &[again, &id]).code(125).says(why);
        }
        // A person has refused: that is final, and cannot be requested again.
        let asked = client.good("quarantine_request", &ask);
        let next = id_in(asked["hint"].as_str().unwrap());
        assert_ne!(next, id);
        approvals(user, &["deny", &next, "--reason", "not again"]).code(0).silent();
        assert!(client.bad("quarantine_request", &ask).contains("a person said no"));
        assert_eq!(client.good("run_code", &code)["cause"], "quarantined");
        audit_is_good(user);
    });
}

#[test]
fn command_line_release_answers_requests() {
    let user = User::me();
    let mut client = Local::start(&user, STATELESS);
    let code = json!({ "language": "python", "code": HOSTILE });
    let item = client.good("run_code", &code)["scan"]["quarantine"]["id"].as_str().unwrap().to_owned();
    client.good("quarantine_request", &json!({ "id": item, "reason": "please" }));
    user.hotcell(["quarantine", "release", &item, "--reason", "yes"]).end().code(0);
    assert_eq!(states(&user), [("release".to_owned(), "approved".to_owned())]);
    assert_eq!(client.good("run_code", &code)["stdout"]["text"], "ran\n");
    assert_eq!(states(&user), [("release".to_owned(), "used".to_owned())]);
    client.good("quarantine_request", &json!({ "id": item, "reason": "please" }));
    user.hotcell(["quarantine", "reject", &item, "--reason", "no"]).end().code(0);
    let all = states(&user);
    assert_eq!(all[0].1, "denied", "{all:?}");
    audit_is_good(&user);
}

#[test]
fn hosts_are_reached_after_approval_of_run() {
    let Some(server) = server() else { return };
    everyone(|user| {
        let before = server.asked.load(Ordering::Acquire);
        let reached = || server.asked.load(Ordering::Acquire) - before;
        let (host, mut client) = with_site(user, &server);
        let code = format!(
            "import urllib.request\nprint(urllib.request.urlopen('http://site.test:{}/', timeout=20).read().decode())\n",
            server.port
        );
        let call = |code: &str| json!({ "language": "python", "code": code, "network": [host] });
        let said = client.bad("run_code", &call(&code));
        let id = id_in(&said);
        assert!(said.contains("let one run_code reach site.test"), "{said}");
        assert_eq!(client.bad("run_code", &call(&code)), said, "asked once");
        let page = approvals(user, &["show", &id]).code(0).text();
        assert!(page.contains("  |     import urllib.request\n"), "{page}");
        approvals(user, &["approve", &id]).code(0);
        // Another program or other hosts make another request.
        let other = client.bad("run_code", &call(&format!("{code}#")));
        assert_ne!(id_in(&other), id);
        let mut more = call(&code);
        more["network"] = json!([host, "pypi.org:443"]);
        assert_ne!(id_in(&client.bad("run_code", &more)), id);
        assert_eq!(reached(), 0);
        let ran = client.good("run_code", &call(&code));
        assert_eq!((&ran["stdout"]["text"], reached()), (&json!("reached\n"), 1), "{ran:#}");
        assert_ne!(id_in(&client.bad("run_code", &call(&code))), id, "once");
        // Invalid hosts are an error and request nothing.
        let asked = list(user).len();
        for wrong in [json!(["site.test"]), json!(["http://x:1"]), json!([""]), json!(vec!["a.org:1"; 17])] {
            let mut call = call(&code);
            call["network"] = wrong;
            assert!(client.bad("run_code", &call).contains("network"), "{call}");
        }
        // Only the operator decides on the address of a name, and on private addresses.
        let elsewhere = format!("pypi.org={}:{}", server.at, server.port);
        for wrong in [elsewhere.as_str(), "site.test=10.9.8.7:80", "192.168.0.1:80", "169.254.169.254:80"] {
            let mut call = call(&code);
            call["network"] = json!([wrong]);
            assert!(client.bad("run_code", &call).contains("network"), "{call}");
        }
        assert_eq!((list(user).len(), reached()), (asked, 1));
        // The files of a workspace are part of the run's identity.
        let made =
            client.good("workspace_create", &json!({ "files": [{ "path": "a.py", "content": code }] }));
        let mut call =
            json!({ "argv": ["python3", "a.py"], "workspace_id": made["workspace_id"], "network": [host] });
        let id = id_in(&client.bad("run_command", &call));
        let page = approvals(user, &["show", &id]).code(0).text();
        assert!(page.contains("+import urllib.request"), "what was there when it asked is shown: {page}");
        approvals(user, &["approve", &id]).code(0);
        let evil = json!({ "workspace_id": made["workspace_id"], "files": [{ "path": "a.py", "content": format!("{code}#evil") }] });
        client.good("workspace_write", &evil);
        assert_ne!(id_in(&client.bad("run_command", &call)), id);
        let good =
            json!({ "workspace_id": made["workspace_id"], "files": [{ "path": "a.py", "content": code }] });
        client.good("workspace_write", &good);
        // A call with an idempotency key is one run, however often it is sent.
        call["idempotency_key"] = "k".into();
        let ran = client.good("run_command", &call);
        assert_eq!(ran["stdout"]["text"], "reached\n", "{ran:#}");
        assert_eq!(client.good("run_command", &call)["run_id"], ran["run_id"]);
        assert_eq!(reached(), 2);
        audit_is_good(user);
    });
}

#[test]
fn tests_reach_hosts_after_approval() {
    let Some(server) = server() else { return };
    everyone(|user| {
        let before = server.asked.load(Ordering::Acquire);
        let reached = || server.asked.load(Ordering::Acquire) - before;
        let (host, mut client) = with_site(user, &server);
        let test = format!(
            "import unittest\nimport urllib.request\nclass T(unittest.TestCase):\n    def test_it(self):\n        \
             self.assertEqual(urllib.request.urlopen('http://site.test:{}/', timeout=20).read(), b'reached')\n",
            server.port
        );
        let file = |path: &str, text: &str| json!({ "path": path, "content": text });
        let alone = json!({ "files": [file("test_a.py", &test)], "network": [host] });
        // A suite in a folder of its own takes another path.
        let apart = json!({ "files": [file("a/test_a.py", &test), file("a/pyproject.toml", "[project]\nname = \"a\"\n"),
            file("b/pyproject.toml", "[project]\nname = \"b\"\n"), file("b/test_b.py", &test)], "network": [host] });
        for (call, many) in [(alone, 1), (apart, 2)] {
            let start = reached();
            let said = client.bad("run_tests", &call);
            assert!(said.contains("let one run_tests reach site.test"), "{said}");
            let id = id_in(&said);
            let page = approvals(user, &["show", &id]).code(0).text();
            assert!(page.contains("import urllib.request"), "{page}");
            approvals(user, &["approve", &id]).code(0);
            let mut other = call.clone();
            other["files"][0]["content"] = "# other\n".into();
            assert_ne!(id_in(&client.bad("run_tests", &other)), id);
            let mut without = call.clone();
            without.as_object_mut().unwrap().remove("network");
            let ran = client.good("run_tests", &without);
            assert_eq!((&ran["verdict"], reached()), (&json!("failed"), start), "{ran:#}");
            let ran = client.good("run_tests", &call);
            assert_eq!((&ran["verdict"], reached() - start), (&json!("passed"), many), "{ran:#}");
            assert_ne!(id_in(&client.bad("run_tests", &call)), id, "once");
        }
        let wrong = json!({ "files": [file("test_a.py", &test)], "network": ["192.168.0.1:80"] });
        assert!(client.bad("run_tests", &wrong).contains("network"));
        // The files of the workspace are part of the request.
        let made = client.good("workspace_create", &json!({ "files": [file("test_a.py", &test)] }));
        let call = json!({ "workspace_id": made["workspace_id"], "network": [host] });
        let id = id_in(&client.bad("run_tests", &call));
        approvals(user, &["approve", &id]).code(0);
        let write =
            |text: &str| json!({ "workspace_id": made["workspace_id"], "files": [file("test_a.py", text)] });
        client.good("workspace_write", &write(&format!("{test}#evil")));
        assert_ne!(id_in(&client.bad("run_tests", &call)), id);
        client.good("workspace_write", &write(&test));
        assert_eq!(client.good("run_tests", &call)["verdict"], "passed");
        audit_is_good(user);
    });
}

#[test]
fn approval_is_fully_readable_or_not_requested() {
    let user = User::me();
    let mut client = Local::start(&user, STATELESS);
    let call = |code: String| json!({ "language": "python", "code": code, "network": ["pypi.org:443", "*.example.co.uk:443"] });
    let long = format!("{}import os; os.system('LAST')\u{3164}\n", "# harmless\n".repeat(1_500));
    let id = id_in(&client.bad("run_code", &call(long)));
    let page = approvals(&user, &["show", &id]).code(0).text();
    assert!(
        !page.contains("LAST")
            && page.contains(&format!("more characters: hotcell approvals show {id} --all")),
        "{page}"
    );
    assert!(page.contains("  | *.example.co.uk:443: every name below that, whoever has it\n"), "{page}");
    let all = approvals(&user, &["show", "--all", &id]).code(0).text();
    assert!(all.contains("os.system('LAST')\\u{3164}\n") && !all.contains("more characters"), "{all}");
    approvals(&user, &["approve", &id]).code(0);
    let before = list(&user).len();
    let said = client.bad("run_code", &call(format!("{}\n", "# 0123456789\n".repeat(25_000))));
    assert!(said.contains("at most 256 KiB are shown; nobody was asked"), "{said}");
    assert_eq!(list(&user).len(), before);
}

#[test]
fn network_off_prevents_host_requests() {
    let user = User::me();
    configure(&user, "network = \"off\"\n");
    let mut client = Local::start(&user, STATELESS);
    let test = |path: &str| json!({ "path": path, "content": "import unittest\nclass T(unittest.TestCase):\n    def test_it(self):\n        pass\n" });
    let setup = |path: &str| json!({ "path": path, "content": "[project]\nname = \"a\"\n" });
    for (tool, mut call) in [
        ("run_command", json!({ "argv": ["true"] })),
        ("run_tests", json!({ "files": [test("test_a.py")] })),
        (
            "run_tests",
            json!({ "files": [test("a/test_a.py"), setup("a/pyproject.toml"), test("b/test_b.py"), setup("b/pyproject.toml")] }),
        ),
    ] {
        call["network"] = json!(["pypi.org:443"]);
        let said = client.bad(tool, &call);
        assert!(said.contains("network") && list(&user).is_empty(), "{tool}: {said}");
    }
}

#[test]
fn plugin_gets_approved_capability_for_one_call() {
    everyone(|user| {
        configure(user, "[tools.config.asks]\ncolour = \"blue\"\n");
        write(user, "asks.wasm", ASKS);
        let added = user.hotcell(["tool", "add", "asks.wasm"]).end();
        added.code(0);
        let mut client = Local::start(user, STATELESS);
        let answer = client.call("asks_ask", &json!({}));
        let said =
            answer["content"].as_array().unwrap().iter().map(|c| c["text"].to_string()).collect::<String>();
        let id = id_in(&said);
        assert_eq!(answer["_meta"]["hotcell/approval"]["id"], id, "{answer:#}");
        let page = approvals(user, &["show", &id]).code(0).text();
        assert!(page.contains("give the plugin asks config=colour for one call of asks_ask"), "{page}");
        approvals(user, &["approve", &id]).code(0);
        assert_eq!(client.good("asks_ask", &json!({}))["result"], 400, "it has the setting");
        assert_eq!(client.good("asks_ask", &json!({}))["result"], 10, "once");
        let tools = user.hotcell(["tool", "list", "--json"]).end().json();
        assert_eq!(tools["tools"][0]["granted"], json!([]), "nothing is granted for good");
        // Another component: the approval is for the one that requested it.
        let waits = list(user).into_iter().find(|row| row["state"] == "pending").expect("it asked again");
        write(user, "asks.wasm", &ASKS.replace("(i32.const 10)", "(i32.const 20)"));
        user.hotcell(["tool", "add", "asks.wasm"]).end().code(0);
        let late = approvals(user, &["approve", waits["id"].as_str().unwrap()]);
        late.code(125).says("is another component now");
        audit_is_good(user);
    });
}

#[test]
fn protected_names_are_committed_after_exact_approval() {
    everyone(|user| {
        let project = user.make_folder("project");
        let path = project.to_str().unwrap();
        configure(user, &format!("[mcp]\ncommit = [{path:?}]\n"));
        let mut client = Local::start(user, STATELESS);
        let files = |text: &str| json!([{ "path": ".vscode/tasks.json", "content": text }, { "path": "a.txt", "content": "a" }]);
        let made =
            client.good("workspace_create", &json!({ "folder": path, "files": files("{\"a\": 1}\n") }));
        let workspace = json!({ "workspace_id": made["workspace_id"] });
        let first = client.good("workspace_commit", &workspace);
        let id = id_in(first["approval"]["hint"].as_str().unwrap());
        assert!(project.join("a.txt").exists() && !project.join(".vscode/tasks.json").exists());
        let page = approvals(user, &["show", &id]).code(0).text();
        assert!(page.contains("| .vscode/tasks.json") && page.contains("+{\"a\": 1}"), "{page}");
        // Other bytes make another request, and nothing is committed.
        let rewrite = |text: &str| json!({ "workspace_id": made["workspace_id"], "files": files(text) });
        client.good("workspace_write", &rewrite("{\"a\": 2}\n"));
        approvals(user, &["approve", &id]).code(0);
        let other = client.good("workspace_commit", &workspace);
        assert_ne!(id_in(other["approval"]["hint"].as_str().unwrap()), id);
        assert!(!project.join(".vscode/tasks.json").exists());
        client.good("workspace_write", &rewrite("{\"a\": 1}\n"));
        let done = client.good("workspace_commit", &workspace);
        assert!(done["approval"].is_null() && done["left"] == json!([]), "{done:#}");
        assert_eq!(std::fs::read_to_string(project.join(".vscode/tasks.json")).unwrap(), "{\"a\": 1}\n");
        client.good("workspace_write", &rewrite("{\"a\": 3}\n"));
        assert!(!client.good("workspace_commit", &workspace)["approval"].is_null(), "once");
        audit_is_good(user);
    });
}

#[test]
fn approval_is_bound_to_requesting_caller() {
    let user = User::me();
    let (http, [one, two]) = two_callers(&user);
    let state = user.path("state");
    let on = |words: &[&str]| approvals(&user, &[words, &["--state", state.to_str().unwrap()]].concat());
    let call = json!({ "argv": ["true"], "network": ["pypi.org:443"] });
    let text = |answer: Value| answer["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    let id = id_in(&text(http.call(&one, "run_command", &call)));
    on(&["approve", &id]).code(0);
    let other = text(http.call(&two, "run_command", &call));
    assert_ne!(id_in(&other), id, "{other}");
    let ran = http.call(&one, "run_command", &call);
    assert_eq!(ran["isError"], false, "{ran:#}");
    assert_eq!(http.call(&one, "run_command", &call)["isError"], true);
    // Equal bytes from another caller are still refused.
    let code = json!({ "language": "python", "code": HOSTILE });
    let cause = |token: &str| http.call(token, "run_code", &code)["structuredContent"].clone();
    let refused = cause(&one);
    assert_eq!(cause(&two)["scan"]["quarantine"]["id"], refused["scan"]["quarantine"]["id"]);
    let ask = json!({ "id": refused["scan"]["quarantine"]["id"], "reason": "a test" });
    let asked = http.call(&one, "quarantine_request", &ask);
    let id = id_in(asked["structuredContent"]["hint"].as_str().unwrap());
    on(&["approve", &id]).code(0);
    assert_eq!(cause(&two)["cause"], "quarantined");
    let shown = http.call(&two, "quarantine_show", &json!({ "id": ask["id"] }));
    assert_eq!(shown["structuredContent"]["state"], "held", "{shown:#}");
    let other = http.call(&two, "quarantine_request", &ask);
    let other = id_in(other["structuredContent"]["hint"].as_str().unwrap());
    on(&["approve", &other]).code(125).says("is released for mcp:one already");
    assert_eq!(cause(&one)["stdout"]["text"], "ran\n");
    on(&["approve", &other]).code(0);
    assert_eq!(
        (cause(&one)["cause"].clone(), cause(&two)["stdout"]["text"].clone()),
        (json!("quarantined"), json!("ran\n"))
    );
}

#[test]
fn mistakes_of_a_person_are_named() {
    let user = User::me();
    approvals(&user, &["show", "ab"]).code(125).says("nothing was asked for");
    let mut client = Local::start(&user, STATELESS);
    let call = json!({ "argv": ["true"], "network": ["pypi.org:443"] });
    let id = id_in(&client.bad("run_command", &call));
    let mut wrong = id.clone();
    wrong.replace_range(7.., if id.ends_with('0') { "1" } else { "0" });
    for words in [["show", &wrong], ["approve", &wrong], ["deny", &wrong]] {
        approvals(&user, &words).code(125).says(&format!("did you mean {id}?"));
    }
    approvals(&user, &["approve", &id, "--expires", "0s"]).code(125);
    approvals(&user, &["approve", &id, "--expires", "31d"]).code(125).says("at most 30d");
    approvals(&user, &["approve", &id, "--reason", " "]).code(125).says("cannot be empty");
    let report = approvals(&user, &["show", &wrong, "--json"]).code(125).json();
    assert_eq!(report["schema"], "hotcell.error/1");
    assert_eq!(list(&user)[0]["state"], "pending");
    // An expired approval allows nothing.
    approvals(&user, &["approve", &id, "--expires", "1ms"]).code(0);
    assert_ne!(id_in(&client.bad("run_command", &call)), id);
    approvals(&user, &["approve", &id]).code(125).says("it has expired; nothing was allowed");
    // A model cannot flood the list.
    let more = |n: u32| json!({ "argv": ["true"], "network": [format!("h{n}.org:443")] });
    let refused = (0..20)
        .map(|n| client.bad("run_command", &more(n)))
        .filter(|said| said.contains("wait for a person already"));
    assert_eq!(refused.count(), 5, "one waited before");
    let schema = user.hotcell(["schema", "approvals"]).end();
    let schema = serde_json::from_slice(&schema.code(0).stdout).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let all = approvals(&user, &["list", "--json"]).json();
    assert!(validator.is_valid(&all), "{all:#}");
    audit_is_good(&user);
}
