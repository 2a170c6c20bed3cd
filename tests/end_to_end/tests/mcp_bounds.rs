//! Resources that `hotcell mcp` holds for one caller, and for strangers, are limited, and one caller cannot
//! use another's.

use std::io::Write;
use std::net::TcpStream;

use hotcell_end_to_end::User;
use hotcell_end_to_end::mcp::{
    Http, Local, SESSIONS, STATELESS, bearer, initialize, meta, reply, resident, two_callers, unheard, until,
};
use serde_json::json;

#[test]
fn sessions_of_one_caller_leave_room_for_others() {
    let user = User::me();
    let (server, [one, two]) = two_callers(&user);
    let begin = |token: &str| server.post(&[("Authorization", &bearer(token))], &initialize(1).to_string());
    let begun: Vec<_> = (0..130).map(|_| begin(&one)).collect();
    let statuses: Vec<_> = begun.iter().map(|r| r.status).collect();
    assert!(statuses[..128].iter().all(|s| *s == 200) && statuses[128..] == [429, 429], "{statuses:?}");
    assert_eq!(begin(&two).status, 200);
    for token in [&one, &two] {
        assert_eq!(server.call(token, "run_command", &json!({ "argv": ["true"] }))["isError"], false);
    }
    // A caller that ends a session may begin another.
    let session = begun[0].header("mcp-session-id").unwrap();
    let end = format!(
        "DELETE /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: {}\r\nMcp-Session-Id: {session}\r\nConnection: close\r\n\r\n",
        bearer(&one)
    );
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(end.as_bytes()).unwrap();
    assert!((200..300).contains(&reply(stream).status));
    assert_eq!((begin(&one).status, begin(&one).status), (200, 429));
}

#[test]
fn silent_connections_delay_no_caller() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    // The limit of this process; the server has its own.
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    let user = User::me();
    let server = Http::start(&user, &[]);
    let strangers: Vec<TcpStream> = (0..1_100)
        .map(|_| {
            let mut stream = TcpStream::connect(server.address).unwrap();
            // Half of a request: the server would wait for the rest.
            stream.write_all(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n").unwrap();
            stream
        })
        .collect();
    assert_eq!(server.call(&server.token, "run_command", &json!({ "argv": ["true"] }))["isError"], false);
    // The strangers were not gone: the last of them is still connected, and is told what its request lacks.
    let mut last = strangers.into_iter().next_back().unwrap();
    last.write_all(b"Connection: close\r\n\r\n").unwrap();
    assert_eq!(reply(last).status, 401);
}

#[test]
fn duplicate_headers_are_refused() {
    let user = User::me();
    let server = Http::start(&user, &[]);
    let token = bearer(&server.token);
    let with = |line: &str, path: &str| {
        let body = initialize(1).to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {token}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nConnection: close\r\nContent-Length: {}\r\n{line}\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        reply(stream).status
    };
    assert_eq!((with("", "/mcp"), with("", "http://localhost/mcp")), (200, 200));
    for line in [
        "Host: evil.example\r\n",
        "Authorization: Bearer x\r\n",
        "Mcp-Session-Id: a\r\nMcp-Session-Id: b\r\n",
    ] {
        assert_eq!(with(line, "/mcp"), 400, "{line}");
    }
    assert_eq!(with("", "http://evil.example/mcp"), 400);
}

#[test]
fn message_with_millions_of_values_is_refused() {
    let user = User::me();
    let server = Http::start(&user, &[]);
    let zeros = vec!["0"; 3_500_000].join(",");
    let text =
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"_meta":{{"x":[{zeros}]}}}}}}"#);
    let before = resident(server.pid());
    let refused = server.post(&[("Authorization", &bearer(&server.token))], &text);
    assert_eq!(
        (refused.status, &refused.messages[0]["error"]["code"]),
        (400, &json!(-32600)),
        "{}",
        refused.head
    );
    let mut client = Local::start(&user, STATELESS);
    // The first answer shows that the program is loaded, whose pages would count as growth else.
    client.good("doctor", &json!({}));
    let small = resident(client.pid());
    client.send_bytes(format!("{text}\n").as_bytes());
    assert_eq!(client.said()["error"]["code"], -32600);
    let grown = [resident(server.pid()).saturating_sub(before), resident(client.pid()).saturating_sub(small)];
    assert!(grown.iter().all(|g| *g < 64 << 20), "{grown:?}");
}

#[test]
fn stdio_requests_are_bounded_with_unique_ids() {
    let user = User::me();
    for revision in [STATELESS, SESSIONS] {
        let mut client = Local::start(&user, revision);
        let run =
            client.good("run_command", &json!({ "argv": ["sleep", "300"], "wait_ms": 0 }))["run_id"].clone();
        let wait = json!({ "name": "run_status", "arguments": { "run_id": run, "wait_ms": 600_000 } });
        let first = client.ask("tools/call", wait.clone());
        let again =
            json!({ "jsonrpc": "2.0", "id": first, "method": "tools/list", "params": { "_meta": meta() } });
        client.send(&again);
        assert_eq!(client.answer(&first.into())["error"]["code"], -32600);
        for _ in 0..1023 {
            client.ask("tools/call", wait.clone());
        }
        let over = client.ask("tools/call", wait);
        assert!(
            client.answer(&over.into())["error"]["message"].as_str().unwrap().contains("requests are open")
        );
        // A cancelled call makes room.
        let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": first } });
        client.send(&cancel);
        let stop = json!({ "name": "run_cancel", "arguments": { "run_id": run } });
        let stopped = client.request("tools/call", stop);
        assert_eq!(stopped["result"]["structuredContent"]["cause"], "cancelled", "{stopped}");
    }
}

#[test]
fn unreading_client_does_not_block_server_end() {
    let user = User::me();
    let (mut child, mut stdin) = unheard(&user);
    for id in 0..20 {
        let list =
            json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list", "params": { "_meta": meta() } });
        stdin.write_all(format!("{list}\n").as_bytes()).unwrap();
    }
    drop(stdin);
    let mut status = None;
    until("the end of the server", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(0));
}

#[test]
fn long_input_is_refused_or_truncated_in_memory() {
    let user = User::me();
    let state = user.make_folder("state");
    let mut client = Local::silent(&user, &["--state", state.to_str().unwrap()]);
    let stdin = "x".repeat((1 << 20) + 1);
    assert!(client.bad("run_command", &json!({ "argv": ["cat"], "stdin": stdin })).contains("1048576"));
    let long = vec!["é".repeat(1000); 400];
    let argv: Vec<_> = std::iter::once("true".to_owned()).chain(long).collect();
    let argv = json!({ "argv": argv });
    for _ in 0..10 {
        client.good("run_command", &argv);
    }
    let list = client.request("resources/list", json!({}));
    assert_eq!(list["result"]["resources"].as_array().unwrap().len(), 10);
    assert_eq!(client.end().0, Some(0));
    let held: u64 = std::fs::read_dir(state).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum();
    assert!(held < 2 << 20, "{held} bytes for ten runs");
}

#[test]
fn host_temporary_folder_is_not_operator_path() {
    let user = User::me();
    let folder = tempfile::Builder::new().prefix("hotcell-host-").tempdir_in("/tmp").unwrap();
    std::fs::create_dir_all(folder.path().join("bin")).unwrap();
    let program = folder.path().join("bin/tool");
    std::fs::write(&program, "#!/bin/sh\necho read\n").unwrap();
    for path in [folder.path(), &program] {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let mut client = Local::start(&user, STATELESS);
    let said = client.bad("run_command", &json!({ "argv": [program] }));
    assert!(said.contains("not a path inside the sandbox"), "{said}");
    // A program of the workspace, by either of its names.
    let file = json!([{ "path": "run.sh", "content": "#!/bin/sh\necho own\n", "executable": true }]);
    let id = client.good("workspace_create", &json!({ "files": file }))["workspace_id"].clone();
    for name in ["./run.sh", "/home/sandbox/project/run.sh"] {
        let ran = client.good("run_command", &json!({ "argv": [name], "workspace_id": id }));
        assert_eq!(ran["stdout"]["text"], "own\n", "{name}: {ran}");
    }
}
