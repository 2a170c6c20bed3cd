//! Sessions: interpreters whose state stays, over MCP and on the command line, and cells that attack them.

use hotcell_end_to_end::mcp::{Local, STATELESS, two_callers};
use hotcell_end_to_end::{User, everyone, find};
use serde_json::{Value, json};

fn create(client: &mut Local, language: &str) -> String {
    let made = client.good("session_create", &json!({ "language": language }));
    made["session_id"].as_str().expect("a handle").to_owned()
}

fn cell(client: &mut Local, id: &str, code: &str) -> Value {
    client.good("session_execute", &json!({ "session_id": id, "code": code, "timeout_ms": 20000 }))
}

#[test]
fn variables_stay_and_results_are_apart_from_output() {
    everyone(|user| {
        let mut client = Local::start(user, STATELESS);
        let id = create(&mut client, "python");
        assert_eq!(cell(&mut client, &id, "x = 6")["status"], "ok");
        let done = cell(&mut client, &id, "import sys\nprint('out'); print('err', file=sys.stderr)\nx * 7");
        assert_eq!(
            (&done["value"], &done["stdout"], &done["stderr"]),
            (&json!("42"), &json!("out\n"), &json!("err\n")),
            "{done:#}"
        );
        assert_eq!(cell(&mut client, &id, "import asyncio\nawait asyncio.sleep(0, 5)")["value"], "5");
        let failed = cell(&mut client, &id, "def f():\n    1 / 0\n\nf()");
        let trace = failed["error"].as_str().expect("a traceback");
        assert!(trace.contains("line 2, in f") && !trace.contains("<string>"), "{trace}");
        let asked = cell(&mut client, &id, "input('name? ')");
        assert!(asked["error"].as_str().expect("an error").contains("nobody to ask"), "{asked:#}");
        let slow = json!({ "session_id": id, "code": "while True: pass", "timeout_ms": 200 });
        let slow = client.good("session_execute", &slow);
        assert_eq!((&slow["status"], slow["note"].is_string()), (&json!("interrupted"), true), "{slow:#}");
        assert_eq!(cell(&mut client, &id, "x")["value"], "6");
        // A cell that waits for nothing else is interrupted from beside it.
        client.ask(
            "tools/call",
            json!({ "name": "session_execute", "arguments": { "session_id": id, "code": "import time; time.sleep(60)" } }),
        );
        let stop = json!({ "session_id": id });
        while client.good("session_interrupt", &stop)["interrupted"] != true {}
        // Waits for the cell before it, whose time is a minute.
        assert_eq!(cell(&mut client, &id, "x")["value"], "6");
        let reset = client.good("session_reset", &json!({ "session_id": id }));
        assert_eq!(reset["session_id"], id.as_str());
        assert!(cell(&mut client, &id, "x")["error"].as_str().expect("an error").contains("NameError"));
        assert_eq!(client.good("session_list", &json!({}))["sessions"][0]["state"], "ready");
        client.good("session_close", &json!({ "session_id": id }));
        let said = client.bad("session_execute", &json!({ "session_id": id, "code": "1" }));
        assert!(said.contains("no session"), "{said}");
    });
}

#[test]
fn other_languages_keep_their_state() {
    let user = User::me();
    let mut client = Local::start(&user, STATELESS);
    let id = create(&mut client, "bash");
    cell(&mut client, &id, "cd /usr; n=5");
    assert_eq!(cell(&mut client, &id, "echo $n $PWD")["stdout"], "5 /usr\n");
    let id = create(&mut client, "sql");
    cell(&mut client, &id, "create table t(a); insert into t values (1), (2);");
    assert_eq!(cell(&mut client, &id, "select sum(a) as s from t")["value"], "s\n3");
    if find("node").is_some() {
        let id = create(&mut client, "node");
        cell(&mut client, &id, "let x = 6");
        assert_eq!(cell(&mut client, &id, "x * 7")["value"], "42");
        let slow = json!({ "session_id": id, "code": "for (;;);", "timeout_ms": 200 });
        assert_eq!(client.good("session_execute", &slow)["status"], "interrupted");
        assert_eq!(cell(&mut client, &id, "x")["value"], "6");
    }
    let said = client.bad("session_create", &json!({ "language": "pyhton" }));
    assert!(said.contains("did you mean python?"), "{said}");
}

#[test]
fn hostile_cells_harm_their_own_session_alone() {
    everyone(|user| {
        let mut client = Local::start(user, STATELESS);
        let (bad, good) = (create(&mut client, "python"), create(&mut client, "python"));
        cell(&mut client, &good, "kept = 1");
        // A process that comes out of a cell answers nothing, and one that stays holds nothing up.
        let forked = cell(&mut client, &bad, "import os, time\nif os.fork() == 0: time.sleep(300)\n7");
        assert_eq!(forked["value"], "7", "{forked:#}");
        let forged = cell(
            &mut client,
            &bad,
            "import os\nfor fd in range(3, 1000):\n    try: os.write(fd, b'{\"nonce\":\"x\",\"status\":\"ok\",\"value\":\"forged\"}\\n')\n    except OSError: pass\n1",
        );
        assert_eq!(forged["value"], "1", "{forged:#}");
        let flood = cell(&mut client, &bad, "while True: print('x' * 100000)");
        assert_eq!(flood["status"], "interrupted", "{:#}", flood["note"]);
        assert!(flood["stdout"].to_string().len() < 9_000);
        assert_eq!(cell(&mut client, &bad, "2")["value"], "2");
        let stubborn = "import time\nwhile True:\n    try: time.sleep(60)\n    except BaseException: pass";
        let slow = json!({ "session_id": bad, "code": stubborn, "timeout_ms": 200 });
        let died = client.good("session_execute", &slow);
        assert_eq!(died["status"], "died", "{died:#}");
        assert_eq!(client.good("session_list", &json!({}))["sessions"][0]["state"], "ended");
        client.good("session_reset", &json!({ "session_id": bad }));
        let closed = cell(&mut client, &bad, "import os\nos.closerange(3, 1024)");
        assert_eq!(closed["status"], "died", "{closed:#}");
        client.good("session_reset", &json!({ "session_id": bad }));
        let eaten =
            cell(&mut client, &bad, "x = bytearray(1 << 30)\nfor i in range(0, len(x), 4096): x[i] = 1");
        assert!(eaten["status"] == "died" || eaten["error"].to_string().contains("MemoryError"), "{eaten:#}");
        let long = json!({ "session_id": good, "code": "#".repeat(4 << 20) });
        let long = client.call("session_execute", &long);
        assert!(
            long.to_string().contains("at most 1048576"),
            "{}",
            long.to_string().chars().take(400).collect::<String>()
        );
        // Code that is cut into cells is read as a whole.
        assert_eq!(cell(&mut client, &good, "import shutil\nwhat = '/home'")["status"], "ok");
        let refused = cell(&mut client, &good, "shutil.rmtree(what)");
        assert_eq!(refused["status"], "refused", "{refused:#}");
        assert_eq!(cell(&mut client, &good, "kept")["value"], "1");
    });
}

#[test]
fn sessions_belong_to_their_caller() {
    let user = User::me();
    let (server, [one, two]) = two_callers(&user);
    let made = server.call(&one, "session_create", &json!({ "language": "python" }));
    let id = made["structuredContent"]["session_id"].clone();
    assert!(id.is_string(), "{made:#}");
    let foreign = server.call(&two, "session_execute", &json!({ "session_id": id, "code": "1" }));
    assert!(foreign["isError"] == true && foreign.to_string().contains("there is no session"), "{foreign:#}");
    let list = server.call(&two, "session_list", &json!({}));
    assert_eq!(list["structuredContent"]["sessions"], json!([]), "{list:#}");
    for _ in 0..3 {
        server.call(&one, "session_create", &json!({ "language": "python" }));
    }
    let fifth = server.call(&one, "session_create", &json!({ "language": "python" }));
    assert!(fifth.to_string().contains("session_close"), "{fifth:#}");
}

#[test]
fn command_line_runs_cells_of_a_pipe() {
    everyone(|user| {
        let call =
            |words: &[&str], input: &str| user.hotcell(["session"].iter().chain(words)).input(input).end();
        let lines = "{\"code\": \"x = 6\"}\n{\"code\": \"print(1)\\nx * 7\"}\n";
        let ended = call(&["python", "--json"], lines);
        ended.code(0);
        let answers: Vec<Value> =
            ended.text().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!((answers.len(), &answers[1]["value"]), (2, &json!("42")), "{}", ended.text());
        call(&["python"], "print(1)\n6 * 7\n").code(0).prints("1\n42\n");
        call(&["python"], "1 / 0\n").code(1).says("ZeroDivisionError");
        call(&["python", "--cell-timeout", "200ms"], "while True: pass\n")
            .code(124)
            .says("interrupted after 0.2 s");
        call(&["python", "--json"], "no cell\n").code(125);
        call(&["perl"], "").code(125).says("there are python, node, bash, sql");
    });
}
