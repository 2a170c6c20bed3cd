//! Cancelled, hung up, gone: the whole process tree of a run dies, as seen in `/proc`.

use std::time::{Duration, Instant};

use hotcell_end_to_end::mcp::{Http, Local, SESSIONS, STATELESS, initialize, marked, tree, until};
use hotcell_end_to_end::{User, everyone};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// Time limit for the end, far above the promised 200 ms: other programs run alongside the tests.
const END_TIMEOUT: Duration = Duration::from_secs(5);

fn mark(name: &str) -> String {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let next = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    format!("hotcell-{name}-{}-{next}", std::process::id())
}

#[track_caller]
fn dies(what: &str, mark: &str) {
    let took = until("the end of the tree", || marked(mark) == 0);
    eprintln!("{what}: the tree was gone after {took:?}");
    assert!(took < END_TIMEOUT, "{what}: {took:?}");
}

fn call(mark: &str) -> Value {
    json!({ "name": "run_command", "arguments": tree(mark) })
}

fn kill_with(pid: u32, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(pid).unwrap()), signal).unwrap();
}

#[test]
fn cancelled_request_ends_process_tree() {
    everyone(|user| {
        for revision in [SESSIONS, STATELESS] {
            let mut client = Local::start(user, revision);
            let mark = mark("cancelled");
            let id = client.ask("tools/call", call(&mark));
            until("the tree", || marked(&mark) >= 3);
            client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }));
            dies("notifications/cancelled", &mark);
            // The server keeps serving.
            client.good("run_command", &json!({ "argv": ["true"] }));
        }
    });
}

#[test]
fn cancelled_cell_is_interrupted_and_a_waiting_one_does_not_begin() {
    let user = User::me();
    for revision in [SESSIONS, STATELESS] {
        let mut client = Local::start(&user, revision);
        let made = client.good("session_create", &json!({ "language": "python" }));
        let id = made["session_id"].as_str().expect("an id").to_owned();
        let of = |code: &str| json!({ "session_id": id, "code": code });
        let ask = |client: &mut Local, code: &str| {
            client.ask("tools/call", json!({ "name": "session_execute", "arguments": of(code) }))
        };
        let cancel = |client: &mut Local, id: u64| {
            client.send(
                &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }),
            );
        };
        // A waiting cell that is cancelled takes nothing from the one that runs.
        let first = ask(&mut client, "import time\ntime.sleep(1)\n'slept'");
        let waiting = ask(&mut client, "ran = True");
        std::thread::sleep(Duration::from_millis(300));
        cancel(&mut client, waiting);
        let answer = client.answer(&first.into());
        assert_eq!(answer["result"]["structuredContent"]["value"], "'slept'", "{answer}");
        let began = Instant::now();
        let endless = ask(&mut client, "while True: pass");
        std::thread::sleep(Duration::from_millis(300));
        cancel(&mut client, endless);
        let next = client.good("session_execute", &of("'ran' in globals()"));
        assert_eq!((&next["status"], &next["value"]), (&json!("ok"), &json!("False")), "{next:#}");
        // The time of a cell is a minute.
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    }
}

#[test]
fn cancelled_start_leaves_no_session_and_no_terminal() {
    let user = User::me();
    for revision in [SESSIONS, STATELESS] {
        let mut client = Local::start(&user, revision);
        for (tool, arguments) in [
            ("session_create", json!({ "language": "python" })),
            ("terminal_start", json!({ "argv": ["cat"] })),
        ] {
            // As many as a caller may have at a time, and more, are cancelled before their answer.
            for _ in 0..12 {
                let id = client.ask("tools/call", json!({ "name": tool, "arguments": arguments }));
                client.send(
                    &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }),
                );
            }
            // Their places are free again, once they are closed.
            let (began, mut made) = (Instant::now(), 0);
            while made < 4 {
                let answer = client.call(tool, &arguments);
                match answer["isError"] == json!(false) {
                    true => made += 1,
                    false => assert!(began.elapsed() < Duration::from_secs(60), "{tool}: {answer:#}"),
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

#[test]
fn shared_run_ends_with_last_request() {
    let user = User::me();
    let mut client = Local::start(&user, STATELESS);
    let ask = |client: &mut Local, argv: &Value| {
        let call = json!({ "name": "run_command", "arguments": { "argv": argv, "idempotency_key": "k", "wait_ms": 60_000 } });
        client.ask("tools/call", call)
    };
    let cancel = |client: &mut Local, id: u64| {
        client.send(
            &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }),
        );
    };
    // A client that asks again after a broken connection must not be affected by its end.
    let argv = json!(["sh", "-c", "sleep 1; echo done"]);
    let (first, second) = (ask(&mut client, &argv), ask(&mut client, &argv));
    std::thread::sleep(Duration::from_millis(200));
    cancel(&mut client, first);
    let answer = client.answer(&second.into());
    assert_eq!(answer["result"]["structuredContent"]["stdout"]["text"], "done\n", "{answer}");

    let mut client = Local::start(&user, STATELESS);
    let mark = mark("shared");
    let argv = tree(&mark)["argv"].clone();
    let both = [ask(&mut client, &argv), ask(&mut client, &argv)];
    until("the tree", || marked(&mark) >= 3);
    both.into_iter().for_each(|id| cancel(&mut client, id));
    until("the end of the tree", || marked(&mark) == 0);
}

#[test]
fn run_cancel_ends_tree_waiters_do_not() {
    everyone(|user| {
        let mut client = Local::start(user, STATELESS);
        let mark = mark("run-cancel");
        let mut asked = tree(&mark);
        asked["wait_ms"] = 0.into();
        let id = client.good("run_command", &asked)["run_id"].clone();
        until("the tree", || marked(&mark) >= 3);
        let status = json!({ "name": "run_status", "arguments": { "run_id": id, "wait_ms": 60_000 } });
        let waiting = client.ask("tools/call", status);
        let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": waiting } });
        client.send(&cancel);
        assert_eq!(client.good("run_status", &json!({ "run_id": id }))["status"], "running");
        let pid = client.pid();
        let ended = client.good("run_cancel", &json!({ "run_id": id }));
        assert_eq!((marked(&mark), &ended["cause"]), (0, &"cancelled".into()), "{pid}");
    });
}

#[test]
fn end_of_standard_input_ends_runs() {
    everyone(|user| {
        let mut client = Local::start(user, SESSIONS);
        let mark = mark("eof");
        client.ask("tools/call", call(&mark));
        until("the tree", || marked(&mark) >= 3);
        let (code, took, errors) = client.end();
        assert_eq!((code, errors.as_str(), marked(&mark)), (Some(0), "", 0));
        assert!(took < END_TIMEOUT, "{took:?}");
    });
}

#[test]
fn killed_server_leaves_no_process() {
    everyone(|user| {
        for signal in [Signal::SIGKILL, Signal::SIGTERM] {
            let mut client = Local::start(user, STATELESS);
            let mark = mark("killed");
            client.ask("tools/call", call(&mark));
            until("the tree", || marked(&mark) >= 3);
            kill_with(client.pid(), signal);
            dies(signal.as_str(), &mark);
        }
    });
}

#[test]
fn closed_http_stream_ends_process_tree() {
    everyone(|user| {
        let server = Http::start(user, &[]);
        let hung_up = mark("hung-up");
        let stream = server.ask(&server.token, "tools/call", call(&hung_up)).unwrap();
        until("the tree", || marked(&hung_up) >= 3);
        drop(stream);
        dies("a closed stream", &hung_up);

        let bearer = format!("Bearer {}", server.token);
        let begun = server.post(&[("Authorization", &bearer)], &initialize(1).to_string());
        let session = begun.header("mcp-session-id").unwrap().to_owned();
        let headers = [
            ("Authorization", bearer.as_str()),
            ("Mcp-Session-Id", session.as_str()),
            ("MCP-Protocol-Version", SESSIONS),
        ];
        server.post(&headers, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        let hung_up = mark("hung-up-session");
        let request = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call(&hung_up) });
        let stream = server.open(&headers, &request.to_string()).unwrap();
        until("the tree", || marked(&hung_up) >= 3);
        drop(stream);
        dies("a closed stream of a session", &hung_up);
    });
}

#[test]
fn ending_server_ends_runs_and_answers() {
    everyone(|user| {
        let server = Http::start(user, &[]);
        let mark = mark("graceful");
        let stream = server.ask(&server.token, "tools/call", call(&mark)).unwrap();
        until("the tree", || marked(&mark) >= 3);
        let (code, took, errors) = server.end();
        assert_eq!((code, errors.as_str(), marked(&mark)), (Some(0), "", 0));
        assert!(took < END_TIMEOUT, "{took:?}");
        let reply = hotcell_end_to_end::mcp::reply(stream);
        let last = reply.messages.last().expect("the open request is answered");
        assert_eq!(last["result"]["structuredContent"]["cause"], "cancelled", "{reply:?}");
    });
}
