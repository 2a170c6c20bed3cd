//! Calls that go on behind a task: the answer equals that of the polling tools, also after the server has
//! ended.

use hotcell_end_to_end::mcp::{Local, SESSIONS, STATELESS, marked, tree, two_callers, until};
use hotcell_end_to_end::{User, everyone};
use serde_json::{Value, json};

fn able() -> Value {
    json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } })
}

/// Starts a call of a script, and does not wait for it.
fn begin(client: &mut Local, script: &str) -> Value {
    let arguments = json!({ "argv": ["sh", "-c", script], "wait_ms": 0 });
    let answer = client.request("tools/call", json!({ "name": "run_command", "arguments": arguments }));
    answer["result"].clone()
}

fn get(client: &mut Local, id: &Value) -> Value {
    let answer = client.request("tasks/get", json!({ "taskId": id }));
    answer["result"].clone()
}

fn ended(client: &mut Local, id: &Value) -> Value {
    let mut last = Value::Null;
    until("the end of the task", || {
        last = get(client, id);
        last["status"] != "working"
    });
    last
}

#[test]
fn long_call_becomes_task_for_able_client() {
    everyone(|user| {
        for revision in [SESSIONS, STATELESS] {
            let mut client = Local::able(user, revision, able());
            let task = begin(&mut client, "sleep 0.5; echo done");
            assert_eq!(
                (&task["resultType"], &task["status"]),
                (&json!("task"), &json!("working")),
                "{task:#}"
            );
            assert!(task["ttlMs"].as_u64().is_some() && task["pollIntervalMs"].as_u64().is_some());
            let id = task["taskId"].clone();
            let done = ended(&mut client, &id);
            assert_eq!(done["status"], "completed", "{done:#}");
            let polled = client.call("run_status", &json!({ "run_id": id }));
            for field in ["structuredContent", "content", "isError"] {
                assert_eq!(done["result"][field], polled[field], "{field}");
            }
            assert_eq!(done["result"]["structuredContent"]["stdout"]["text"], "done\n");
            // A call that finishes at once is answered at once.
            let quick = client.good("run_command", &json!({ "argv": ["true"] }));
            assert_eq!(quick["status"], "finished");
            // A failure in the sandbox is an answer.
            let task = begin(&mut client, "sleep 0.3; exit 3");
            let failed = ended(&mut client, &task["taskId"]);
            assert_eq!(
                (&failed["status"], &failed["result"]["structuredContent"]["exit_code"]),
                (&json!("completed"), &json!(3))
            );
        }
        // A client without tasks is answered as before, and cannot use them.
        let mut plain = Local::start(user, STATELESS);
        let answer = begin(&mut plain, "sleep 0.3");
        assert_eq!(answer["structuredContent"]["status"], "running", "{answer:#}");
        let refused = plain.request("tasks/get", json!({ "taskId": "x" }));
        assert_eq!(refused["error"]["code"], -32021, "{refused:#}");
    });
}

#[test]
fn cancelled_task_ends_its_processes() {
    let user = User::me();
    let mut client = Local::able(&user, STATELESS, able());
    let mark = format!("hotcell-task-{}", std::process::id());
    let mut arguments = tree(&mark);
    arguments["wait_ms"] = 0.into();
    let answer = client.request("tools/call", json!({ "name": "run_command", "arguments": arguments }));
    let id = answer["result"]["taskId"].clone();
    until("three processes", || marked(&mark) >= 3);
    let ack = client.request("tasks/cancel", json!({ "taskId": id }));
    assert_eq!((&ack["result"]["resultType"], &ack["result"]["status"]), (&json!("complete"), &Value::Null));
    assert_eq!(ended(&mut client, &id)["status"], "cancelled");
    until("no process", || marked(&mark) == 0);
    let again = client.request("tasks/cancel", json!({ "taskId": id }));
    assert_eq!(again["result"]["resultType"], "complete", "{again:#}");
    let update = client.request("tasks/update", json!({ "taskId": id, "inputResponses": { "x": {} } }));
    assert_eq!(update["result"]["resultType"], "complete", "{update:#}");
}

#[test]
fn task_outlives_server() {
    everyone(|user| {
        let mut first = Local::able(user, STATELESS, able());
        let done = begin(&mut first, "sleep 0.2; echo kept")["taskId"].clone();
        assert_eq!(ended(&mut first, &done)["status"], "completed");
        let cut = begin(&mut first, "sleep 100")["taskId"].clone();
        // A graceful end: the running task has failed.
        assert_eq!(first.end().0, Some(0));
        let mut second = Local::able(user, STATELESS, able());
        let kept = get(&mut second, &done);
        assert_eq!(kept["result"]["structuredContent"]["stdout"]["text"], "kept\n", "{kept:#}");
        let polled = second.call("run_status", &json!({ "run_id": done }));
        assert_eq!(polled["structuredContent"], kept["result"]["structuredContent"]);
        let failed = get(&mut second, &cut);
        assert_eq!(failed["status"], "failed", "{failed:#}");
        assert!(failed["error"]["message"].as_str().unwrap().contains("the server ended"), "{failed:#}");
        assert!(second.bad("run_status", &json!({ "run_id": cut })).contains("the server ended"));
        // A sudden end: nothing could be recorded.
        let killed = begin(&mut second, "sleep 100")["taskId"].clone();
        assert_eq!(get(&mut second, &killed)["status"], "working");
        drop(second);
        let mut third = Local::able(user, STATELESS, able());
        assert_eq!(get(&mut third, &killed)["status"], "failed");
        assert_eq!(get(&mut third, &done)["status"], "completed");
    });
}

#[test]
fn task_of_another_caller_is_unknown() {
    let user = User::me();
    let (http, [one, two]) = two_callers(&user);
    let meta = json!({ "io.modelcontextprotocol/clientCapabilities": able() });
    let arguments = json!({ "argv": ["sleep", "5"], "wait_ms": 0 });
    let begun = http.request(
        &one,
        "tools/call",
        json!({ "name": "run_command", "arguments": arguments, "_meta": meta }),
    );
    let id = begun["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{begun:#}")).to_owned();
    let ask = |token: &str, method: &str, id: &str| {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": {
            "taskId": id, "inputResponses": {},
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": STATELESS,
                "io.modelcontextprotocol/clientCapabilities": able(),
                "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" }
            }
        } });
        let bearer = format!("Bearer {token}");
        let headers = [
            ("MCP-Protocol-Version", STATELESS),
            ("Mcp-Method", method),
            ("Mcp-Name", id),
            ("Authorization", &bearer),
        ];
        http.post(&headers, &body.to_string()).messages.last().cloned().expect("a message")
    };
    assert_eq!(ask(&one, "tasks/get", &id)["result"]["status"], "working");
    let nothing = format!("run_{}", "0".repeat(32));
    for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
        let (theirs, none) = (ask(&two, method, &id), ask(&two, method, &nothing));
        assert_eq!(theirs["error"]["code"], -32602, "{theirs:#}");
        assert_eq!(theirs["error"], none["error"], "{method}");
    }
    assert_eq!(ask(&one, "tasks/get", &id)["result"]["status"], "working", "nobody cancelled it");
}
