//! Servers that break the protocol, end, flood, redirect or change their minds, each written for its test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hotcell_client::{
    Backoff, Call, CallError, Callbacks, Client, ClientError, Endpoint, Event, Host, Notice, Options,
    Progress, Revision, Server, State, Tiers, Unconfined,
};
use hotcell_egress::secret::Secret;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Beginning of a server in Python: `answer` and `begin`, which answers `initialize`.
const PYTHON: &str = r#"
import json, os, sys, time
def answer(asked, result):
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
def asked():
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "initialize":
            answer(message, {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "odd\u202e", "version": "1"}})
        elif "id" in message or message.get("method") == "notifications/cancelled":
            yield message
def tools(*names):
    return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}
"#;

fn options() -> Options {
    Options {
        connect_within: Duration::from_secs(5),
        list_within: Duration::from_secs(5),
        backoff: Backoff { first: Duration::from_millis(5), longest: Duration::from_millis(20) },
        ..Options::default()
    }
}

fn python(program: &str) -> Server {
    Server::Unconfined(Unconfined::new("/usr/bin/python3").arg("-Sc").arg(format!("{PYTHON}\n{program}")))
}

async fn connected(server: Server, options: Options) -> Client {
    let client = Client::new(server, options);
    client.connect().await.expect("it connects");
    client
}

async fn refused(server: Server, options: Options) -> String {
    let client = Client::new(server, options);
    let begun = Instant::now();
    let error = client.connect().await.expect_err("it does not connect").to_string();
    assert!(begun.elapsed() < Duration::from_secs(4), "{error}: {:?}", begun.elapsed());
    assert_eq!(client.state(), State::Error);
    // A client that gave up says so, and makes no other attempt.
    assert!(matches!(client.call(Call::new("x", json!({}))).await, Err(CallError::NotSent(_))));
    client.close().await;
    error
}

#[tokio::test]
async fn programs_that_do_not_begin_are_explained() {
    let short = Options { connect_within: Duration::from_millis(300), ..options() };
    let small = Options { max_message_bytes: 1 << 20, ..options() };
    for (program, options, says) in [
        ("sys.exit(3)", options(), "the server ended (exit status: 3) before it answered initialize"),
        ("print('x' * (100 << 20))", small, "a line of more than 1048576 bytes"),
        ("while True: print('noise')", options(), "does not speak MCP"),
        ("sys.stdin.read()", short.clone(), "did not answer initialize within 0.3 s"),
        // A program that neither reads nor ends is killed.
        (
            "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); sys.stdin.readline(); os.close(1); time.sleep(1)",
            options(),
            "the server ended",
        ),
        (
            "m = json.loads(sys.stdin.readline()); print(json.dumps({'jsonrpc': '2.0', 'id': m['id'], 'error': {'code': -1, 'message': 'go\\u202e away'}}), flush=True); sys.stdin.read()",
            options(),
            "refused initialize: go\\u{202e} away",
        ),
        (
            "m = json.loads(sys.stdin.readline()); answer(m, {'tools': []}); sys.stdin.read()",
            options(),
            "initialize",
        ),
    ] {
        let error = refused(python(program), options).await;
        assert!(error.contains(says) && !error.contains('\u{202e}'), "{program}: {error}");
    }
    let error = refused(Server::Unconfined(Unconfined::new("/no/such/server")), options()).await;
    assert!(error.contains("/no/such/server") && error.contains("No such file"), "{error}");
}

#[tokio::test]
async fn calls_have_progress_deadlines_and_an_end() {
    let program = r#"
for m in asked():
    name = m.get("params", {}).get("name")
    if m["method"] == "tools/list": answer(m, tools("a"))
    elif m["method"] == "notifications/cancelled": open(os.environ["SEEN"], "a").write("cancelled\n")
    elif name == "progress":
        token = m["params"]["_meta"]["progressToken"]
        for i in range(3):
            print(json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": i, "total": 3, "message": "m\u001b"}}), flush=True)
        answer(m, {"content": [{"type": "text", "text": "done"}], "structuredContent": {"n": 1}})
    elif name == "fails": answer(m, {"content": [{"type": "text", "text": "no"}], "isError": True})
    elif name == "unknown": print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32602, "message": "Unknown tool"}}), flush=True)
    elif name == "other": answer(m, {"tools": []})
"#;
    let folder = tempfile::tempdir().unwrap();
    let seen = folder.path().join("seen");
    let Server::Unconfined(program) = python(program) else { unreachable!() };
    let client = connected(Server::Unconfined(program.env("SEEN", &seen)), options()).await;
    let heard = Arc::new(Mutex::new(Vec::new()));
    let to = heard.clone();
    let call = Call::new("progress", json!({}))
        .progress(move |p| to.lock().unwrap().push((p.done, p.total, p.message)));
    let answer = client.call(call).await.unwrap();
    assert_eq!(
        (answer.text(), answer.structured, answer.is_error),
        ("done".to_owned(), Some(json!({ "n": 1 })), false)
    );
    let heard = heard.lock().unwrap().clone();
    assert_eq!(heard.len(), 3);
    assert_eq!(heard[2], (2.0, Some(3.0), Some("m\\u{1b}".to_owned())));
    assert!(client.call(Call::new("fails", json!({}))).await.unwrap().is_error);
    let error = client.call(Call::new("unknown", json!({}))).await.unwrap_err();
    assert_eq!(error, CallError::Refused { code: -32602, message: "Unknown tool".to_owned() });
    assert!(matches!(client.call(Call::new("other", json!({}))).await, Err(CallError::Unknown(_))));
    assert!(matches!(client.call(Call::new("a", json!([]))).await, Err(CallError::NotSent(_))));
    // No answer: the deadline, and the caller.
    let error =
        client.call(Call::new("never", json!({})).within(Duration::from_millis(50))).await.unwrap_err();
    assert_eq!(error, CallError::TooLate { within: Duration::from_millis(50) });
    let cancel = CancellationToken::new();
    cancel.cancel();
    let error = client.call(Call::new("never", json!({})).cancel(cancel)).await.unwrap_err();
    assert!(error == CallError::Cancelled && error.may_have_run());
    // The server was told, and still answers.
    assert_eq!(client.tools().await.unwrap()[0].name, "a");
    assert_eq!(std::fs::read_to_string(&seen).unwrap(), "cancelled\ncancelled\n");
    client.close().await;
    assert_eq!(client.state(), State::Disconnected);
    assert_eq!(client.ping().await, Err(ClientError::Closed));
}

#[tokio::test]
async fn lost_calls_are_unknown_and_never_repeated_while_lists_are() {
    // Ends at the first list and at each call, and counts the calls.
    let program = r#"
for m in asked():
    if m["method"] == "tools/list":
        if not os.path.exists(os.environ["SEEN"]):
            open(os.environ["SEEN"], "w")
            sys.exit(1)
        answer(m, tools("a"))
    else:
        open(os.environ["SEEN"], "a").write("call\n")
        os._exit(1)
"#;
    let folder = tempfile::tempdir().unwrap();
    let seen = folder.path().join("seen");
    let Server::Unconfined(program) = python(program) else { unreachable!() };
    let server = Server::Unconfined(program.env("SEEN", &seen));
    let client = Client::new(server.clone(), options());
    let mut events = client.events();
    client.connect().await.unwrap();
    assert_eq!(client.tools().await.unwrap().len(), 1);
    let error = client.call(Call::new("a", json!({}))).await.unwrap_err();
    assert_eq!(error, CallError::Unknown("the server ended".to_owned()));
    assert!(error.may_have_run());
    // The next connection has been made, and works.
    assert_eq!(client.tools().await.unwrap().len(), 1);
    client.close().await;
    assert_eq!(std::fs::read_to_string(&seen).unwrap(), "call\n");
    let mut told = Vec::new();
    while let Ok(event) = events.try_recv() {
        told.push(match event {
            Event::Connected { name, .. } => format!("connected {name}"),
            Event::Disconnected { why, retry_in } => format!("disconnected: {why} {retry_in:?}"),
            other => format!("{other:?}"),
        });
    }
    let ready = "connected odd\\u{202e}";
    let ends = "disconnected: the server ended (exit status: 1)";
    let (one, two) = (format!("{ends} Some(5ms)"), format!("{ends} Some(10ms)"));
    assert_eq!(told, [ready, &one, ready, &two, ready, "disconnected: closed None"]);
    // Without further attempts, the loss is final.
    std::fs::remove_file(&seen).unwrap();
    let client = connected(server, Options { attempts: Some(0), ..options() }).await;
    let error = client.tools().await.unwrap_err().to_string();
    assert!(error.contains("the server ended"), "{error}");
    let error = client.call(Call::new("a", json!({}))).await.unwrap_err();
    assert!(matches!(&error, CallError::NotSent(why) if why.contains("the server ended")), "{error}");
}

/// Notices and progress that were heard.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

impl Callbacks for Heard {
    fn notice(&mut self, notice: Notice) {
        self.0.lock().unwrap().push(match notice {
            Notice::Output(text) => format!("output {text}"),
            Notice::ToolCall { name, arguments } => format!("call {name} {arguments}"),
            Notice::FileChange { path, change } => format!("file {path} {change}"),
            Notice::Todos(todos) => format!("todos {}", todos.len()),
            other => format!("{other:?}"),
        });
    }

    fn progress(&mut self, progress: Progress) {
        self.0.lock().unwrap().push(format!("progress {}", progress.done));
    }
}

const HEARD: [&str; 6] =
    ["output a line", "output b", "call read {\"p\":1}", "file a.py created", "todos 2", "progress 1"];

/// Messages that a server sends while it carries out a call.
fn news(token: &Value) -> Vec<Value> {
    let log = |data: Value| json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": data } });
    vec![
        log(json!("a line")),
        log(json!({ "type": "output", "text": "b", "progressToken": token })),
        log(json!({ "type": "tool_call", "name": "read", "arguments": { "p": 1 }, "progressToken": token })),
        log(json!({ "type": "file_change", "path": "a.py", "change": "created", "progressToken": token })),
        log(json!({ "type": "todos", "todos": [{ "text": "a" }, { "text": "b" }], "progressToken": token })),
        log(json!({ "type": "other" })),
        json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progressToken": token, "progress": 1 } }),
    ]
}

#[tokio::test]
async fn executions_have_all_callbacks_on_each_transport_and_the_next_server_is_asked_only_before() {
    let program = r#"
for m in asked():
    if m["method"] == "tools/list": answer(m, tools("a"))
    elif m["params"]["name"] == "lost": os._exit(1)
    else:
        token = m["params"]["_meta"]["progressToken"]
        for line in open(os.environ["NEWS"]):
            news = json.loads(line.replace('"TOKEN"', json.dumps(token)))
            print(json.dumps(news), flush=True)
        answer(m, {"content": [{"type": "text", "text": "done"}], "structuredContent": {"tokensUsed": 7}})
"#;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("news");
    let lines: Vec<String> = news(&json!("TOKEN")).iter().map(Value::to_string).collect();
    std::fs::write(&path, lines.join("\n")).unwrap();
    let Server::Unconfined(program) = python(program) else { unreachable!() };
    let program = Server::Unconfined(program.env("NEWS", &path));
    let (address, seen) = http(|asked| {
        usual(asked).unwrap_or_else(|| {
            let answer = json!({ "jsonrpc": "2.0", "id": asked.2["id"], "result": {
                "content": [{ "type": "text", "text": "done" }], "structuredContent": { "tokensUsed": 7 } } });
            let mut all = news(&asked.2["params"]["_meta"]["progressToken"]);
            all.push(answer);
            let events: String = all.iter().map(|one| format!("data: {one}\n\n")).collect();
            format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\n{events}").into_bytes()
        })
    });
    let far = Server::Http(Endpoint::new(&address).unwrap());
    let gone = || Server::Unconfined(Unconfined::new("/no/such/server"));
    let (arguments, within, cancel) = (json!({}), Duration::from_secs(5), CancellationToken::new());
    for server in [program.clone(), far.clone()] {
        let heard = Heard::default();
        let tiers = Tiers::new(vec![gone(), server], options());
        let done = tiers.execute(("a", &arguments), within, heard.clone(), &cancel).await.unwrap();
        assert!(done.success && !done.simulated && done.tier == Some(1), "{done:?}");
        assert_eq!((done.output.as_str(), done.tokens_used, done.passed_over.len()), ("done", Some(7), 1));
        assert_eq!(*heard.0.lock().unwrap(), HEARD);
    }
    // A call that may have been carried out is not given to the next server, invented answer or not.
    let tiers = Tiers::new(vec![program, far], Options { attempts: Some(0), ..options() }).simulated();
    let before = calls(&seen);
    let error = tiers.execute(("lost", &arguments), within, (), &cancel).await.unwrap_err();
    assert!(error.may_have_run() && calls(&seen) == before, "{error}");
}

/// Answers forms and gives folders, where it says so.
#[derive(Debug)]
struct Answers(bool);

impl Host for Answers {
    fn has_forms(&self) -> bool {
        self.0
    }

    fn has_folders(&self) -> bool {
        self.0
    }

    fn form(&self, asked: Value) -> hotcell_sandbox::BoxFuture<'_, Option<Value>> {
        Box::pin(async move { Some(json!({ "action": "accept", "content": { "said": asked["message"] } })) })
    }

    fn folders(&self) -> hotcell_sandbox::BoxFuture<'_, Vec<Value>> {
        Box::pin(async { vec![json!({ "uri": "file:///a" }), json!({ "no": "uri" })] })
    }
}

#[tokio::test]
async fn servers_are_answered_only_by_a_host_that_says_so() {
    let program = r#"
def ask(method, params):
    print(json.dumps({"jsonrpc": "2.0", "id": method, "method": method, "params": params}), flush=True)
    answer = json.loads(sys.stdin.readline())
    return answer.get("result", "refused")
for m in asked():
    form = {"message": "m", "requestedSchema": {"type": "object", "properties": {"said": {"type": "string"}}}}
    url = {"mode": "url", "message": "m", "url": "https://evil.example/", "elicitationId": "1"}
    got = [ask("elicitation/create", form), ask("elicitation/create", url), ask("roots/list", {}), ask("sampling/createMessage", {"messages": [], "maxTokens": 1})]
    answer(m, {"content": [], "structuredContent": got})
"#;
    for (has, form, roots) in [
        (false, json!({ "action": "decline" }), json!({ "roots": [] })),
        (
            true,
            json!({ "action": "accept", "content": { "said": "m" } }),
            json!({ "roots": [{ "uri": "file:///a" }] }),
        ),
    ] {
        let client =
            connected(python(program), Options { host: Some(Arc::new(Answers(has))), ..options() }).await;
        let answer = client.call(Call::new("a", json!({}))).await.unwrap();
        assert_eq!(
            answer.structured,
            Some(json!([form, { "action": "decline" }, roots, "refused"])),
            "{has}"
        );
    }
}

#[tokio::test]
async fn resources_and_prompts_are_listed_and_bounded() {
    let program = r#"
for m in asked():
    kind, cursor = m["method"], (m.get("params") or {}).get("cursor")
    if kind == "resources/list":
        answer(m, dict({"resources": [{"uri": "a:%s" % cursor, "name": "a"}]}, **({} if cursor else {"nextCursor": "2"})))
    elif kind == "resources/read":
        answer(m, {"contents": [{"uri": m["params"]["uri"], "text": "x"}]})
    elif kind == "prompts/list":
        answer(m, {"prompts": [{"name": str(i)} for i in range(1001)]})
    else:
        answer(m, {"messages": [{"role": "user", "content": {"type": "text", "text": json.dumps(m["params"]["arguments"])}}]})
"#;
    let client = connected(python(program), options()).await;
    assert_eq!(client.serves(), (false, false));
    assert_eq!(client.resources().await.unwrap().len(), 2);
    assert_eq!(client.resource("a:b").await.unwrap(), [json!({ "uri": "a:b", "text": "x" })]);
    let error = client.prompts().await.unwrap_err().to_string();
    assert!(error.contains("more than 1000 entries"), "{error}");
    let arguments = json!({ "x": "1" }).as_object().cloned().unwrap();
    let prompt = client.prompt("p", arguments).await.unwrap();
    assert_eq!(prompt["messages"][0]["content"]["text"], "{\"x\": \"1\"}");
}

#[tokio::test]
async fn lists_and_answers_are_bounded() {
    let program = r#"
pages = int(sys.argv[1]) if len(sys.argv) > 1 else 0
n = 0
for m in asked():
    if m["method"] == "tools/call":
        answer(m, {"content": [{"type": "text", "text": "x" * (2 << 20)}]})
        continue
    n += 1
    kind = sys.argv[1]
    if kind == "many": answer(m, tools(*[str(i) for i in range(50)]))
    elif kind == "pages": answer(m, dict(tools(str(n)), nextCursor=str(n)))
    elif kind == "same": answer(m, dict(tools(str(n)), nextCursor="a"))
    elif kind == "large": answer(m, {"tools": [{"name": "a", "description": "x" * 600000, "inputSchema": {"type": "object"}}], "nextCursor": str(n)})
"#
    .replace("pages = int(sys.argv[1]) if len(sys.argv) > 1 else 0\n", "");
    let bounds = Options { max_tools: 49, max_message_bytes: 1 << 20, attempts: Some(0), ..options() };
    for (kind, says) in [
        ("many", "more than 49 tools"),
        ("pages", "more than 49 tools"),
        ("large", "more than 1048576 bytes"),
    ] {
        let Server::Unconfined(program) = python(&program) else { unreachable!() };
        let client = connected(Server::Unconfined(program.arg(kind)), bounds.clone()).await;
        let error = client.tools().await.unwrap_err().to_string();
        assert!(error.contains(says), "{kind}: {error}");
        if kind == "large" {
            let error = client.call(Call::new("a", json!({}))).await.unwrap_err();
            assert!(
                matches!(&error, CallError::Unknown(why) if why.contains("a line of more than 1048576 bytes")),
                "{error}"
            );
        }
    }
    let Server::Unconfined(program) = python(&program) else { unreachable!() };
    let client = connected(Server::Unconfined(program.arg("same")), bounds).await;
    assert_eq!(client.tools().await.unwrap().len(), 2, "a cursor that stays the same is the end");
}

/// Request of a client: method, headers in lower case, body.
type Asked = (String, String, Value);

/// A server over HTTP: each request gets what the function returns, as it is.
fn http(mut answer: impl FnMut(&Asked) -> Vec<u8> + Send + 'static) -> (String, Arc<Mutex<Vec<Asked>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/mcp", listener.local_addr().unwrap());
    let seen: Arc<Mutex<Vec<Asked>>> = Arc::default();
    let noted = seen.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let Some(asked) = request(&stream) else { continue };
            let bytes = answer(&asked);
            noted.lock().unwrap().push(asked);
            let _ = (&stream).write_all(&bytes);
        }
    });
    (address, seen)
}

fn request(stream: &TcpStream) -> Option<Asked> {
    let mut reader = BufReader::new(stream);
    let (mut first, mut headers) = (String::new(), String::new());
    reader.read_line(&mut first).ok()?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        headers.push_str(&line.to_lowercase());
    }
    let length = headers.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    Some((first, headers, serde_json::from_slice(&body).unwrap_or_default()))
}

fn reply(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}")
        .into_bytes()
}

fn result(asked: &Asked, result: &Value) -> Vec<u8> {
    let body = json!({ "jsonrpc": "2.0", "id": asked.2["id"], "result": result }).to_string();
    reply("200 OK", "content-type: application/json\r\n", &body)
}

/// Answers `initialize`, notifications, and requests other than calls.
fn usual(asked: &Asked) -> Option<Vec<u8>> {
    let info = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": { "name": "h", "version": "1" } });
    match asked.2["method"].as_str() {
        Some("initialize") => {
            let body = json!({ "jsonrpc": "2.0", "id": asked.2["id"], "result": info }).to_string();
            Some(reply("200 OK", "content-type: application/json\r\nmcp-session-id: s1\r\n", &body))
        }
        Some("tools/list") => Some(result(asked, &json!({ "tools": [{ "name": "a", "inputSchema": {} }] }))),
        Some("tools/call") => None,
        Some(_) if asked.2["id"].is_null() => Some(reply("202 Accepted", "", "")),
        _ => Some(reply("405 Method Not Allowed", "", "")),
    }
}

fn calls(seen: &Mutex<Vec<Asked>>) -> usize {
    seen.lock().unwrap().iter().filter(|asked| asked.2["method"] == "tools/call").count()
}

#[tokio::test]
async fn tokens_stay_with_their_origin_and_redirects_do_too() {
    let token = || Secret::new(b"s3cret".to_vec()).unwrap();
    let (other, seen_other) = http(|asked| usual(asked).unwrap_or_default());
    for status in ["302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let to = other.clone();
        let (address, _) = http(move |_| reply(status, &format!("location: {to}\r\n"), ""));
        let endpoint = Endpoint::new(&address).unwrap().token(token());
        let error = refused(Server::Http(endpoint), options()).await;
        assert!(error.contains("another origin") && error.contains(&other), "{status}: {error}");
    }
    assert!(seen_other.lock().unwrap().is_empty(), "nothing went to the other origin");
    // Within the origin, the token goes along.
    let (address, seen) = http(|asked| {
        if asked.0.contains(" /mcp ") {
            return reply("308 Permanent Redirect", "location: /v1\r\n", "");
        }
        usual(asked).unwrap_or_else(|| result(asked, &json!({ "content": [] })))
    });
    let client = connected(Server::Http(Endpoint::new(&address).unwrap().token(token())), options()).await;
    assert_eq!(client.tools().await.unwrap()[0].name, "a");
    client.close().await;
    let seen = seen.lock().unwrap();
    assert!(seen.iter().all(|asked| asked.1.contains("authorization: bearer s3cret")), "{seen:#?}");
    assert!(seen.iter().any(|asked| asked.0.starts_with("DELETE /v1 ")), "the session is ended: {seen:#?}");
}

#[tokio::test]
async fn answers_over_http_that_are_not_mcp_are_explained() {
    let huge =
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", 100 << 20)
            .into_bytes();
    let flood = [&huge[..], &vec![b' '; 17 << 20]].concat();
    let html = || reply("200 OK", "content-type: text/html\r\n", "<html>hello</html>");
    let rows: Vec<(Vec<u8>, &str)> = vec![
        (html(), "text/html in place of JSON"),
        (reply("404 Not Found", "content-type: text/html\r\n", "<html>"), "404"),
        (reply("401 Unauthorized", "www-authenticate: Bearer\r\n", ""), "wants a token"),
        (reply("500 Internal Server Error", "", ""), "HTTP 500"),
        (reply("200 OK", "content-type: application/json\r\n", "{}"), "could not parse JSON"),
        (huge, "exceeded the maximum size"),
        (flood, "exceeded the maximum size"),
        (vec![], "connection closed before message completed"),
    ];
    for (bytes, says) in rows {
        let (address, _) = http(move |_| bytes.clone());
        let error = refused(Server::Http(Endpoint::new(&address).unwrap()), options()).await;
        assert!(error.contains(says), "{says}: {error}");
    }
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = refused(Server::Http(Endpoint::new(&format!("http://{closed}/")).unwrap()), options()).await;
    assert!(error.contains("Connection refused"), "{error}");
}

#[tokio::test]
async fn calls_over_http_are_sent_once() {
    let event = |data: &str| {
        format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\n{data}")
            .into_bytes()
    };
    type Fits = fn(&CallError) -> bool;
    let rows: Vec<(Vec<u8>, Fits)> = vec![
        // Cut off before the answer, with and without a stream.
        (vec![], |e| matches!(e, CallError::Unknown(_))),
        (event(": nothing\n\n"), |e| matches!(e, CallError::Unknown(_))),
        (reply("502 Bad Gateway", "", ""), |e| matches!(e, CallError::Unknown(_))),
        (reply("200 OK", "content-type: text/html\r\n", "<html>"), |e| matches!(e, CallError::Unknown(_))),
        // Not carried out: a session that is gone, a token, too many requests.
        (reply("404 Not Found", "", ""), |e| matches!(e, CallError::NotSent(_))),
        (reply("401 Unauthorized", "www-authenticate: Bearer\r\n", ""), |e| {
            matches!(e, CallError::NotSent(_))
        }),
        (reply("429 Too Many Requests", "", ""), |e| matches!(e, CallError::NotSent(_))),
    ];
    for (bytes, fits) in rows {
        let said = String::from_utf8_lossy(&bytes).into_owned();
        let (address, seen) = http(move |asked| usual(asked).unwrap_or_else(|| bytes.clone()));
        let client = connected(Server::Http(Endpoint::new(&address).unwrap()), options()).await;
        let error = client.call(Call::new("a", json!({})).within(Duration::from_secs(3))).await.unwrap_err();
        assert!(fits(&error), "{said}: {error:?}");
        // A later list works, on a new session where the old one is gone.
        assert_eq!(client.tools().await.unwrap().len(), 1, "{said}");
        client.close().await;
        assert_eq!(calls(&seen), 1, "{said}");
    }
}

#[tokio::test]
async fn servers_of_either_revision_are_understood() {
    let discovered = json!({
        "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}, "ttlMs": 0, "cacheScope": "private",
        "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "new", "version": "1" } }
    });
    let (new, _) = http(move |asked| match asked.2["method"].as_str() {
        Some("server/discover") => result(asked, &discovered),
        Some("tools/list") => result(
            asked,
            &json!({ "resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private" }),
        ),
        _ => reply("400 Bad Request", "", ""),
    });
    let (old, _) = http(|asked| match asked.2["method"].as_str() {
        Some("server/discover") => {
            let error = json!({ "code": -32601, "message": "Method not found" });
            let body = json!({ "jsonrpc": "2.0", "id": asked.2["id"], "error": error }).to_string();
            reply("200 OK", "content-type: application/json\r\n", &body)
        }
        _ => usual(asked).unwrap_or_default(),
    });
    for (address, want) in [(new, "2026-07-28"), (old, "2025-11-25")] {
        let options = Options { revision: Revision::Discover, ..options() };
        let client = Client::new(Server::Http(Endpoint::new(&address).unwrap()), options);
        let mut events = client.events();
        client.connect().await.unwrap();
        client.tools().await.unwrap();
        let Ok(Event::Connected { revision, .. }) = events.try_recv() else { panic!("{want}") };
        assert_eq!(revision, want);
    }
}
