//! Faults of servers: each ends in a documented failure, in time, and without the key in any message.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hotcell_models::retry::Backoff;
use hotcell_models::{
    Arguments, Client, Endpoint, MAX_REPLY_BYTES, Message, ModelError, Provider, Reply, Request, Stop, Tool,
};
use tokio::time::Instant;

/// Writes an answer to one connection.
type Step = Box<dyn FnOnce(&mut TcpStream) + Send>;

/// A server on loopback that answers each request by the next step, and keeps what it was sent.
struct Server {
    address: String,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn new(steps: Vec<Step>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&seen);
        std::thread::spawn(move || {
            for step in steps {
                let Ok((mut stream, _)) = listener.accept() else { return };
                let request = read(&stream);
                keep.lock().unwrap().push(request);
                step(&mut stream);
            }
        });
        Self { address, seen }
    }

    fn requests(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    fn endpoint(&self, name: &str) -> Endpoint {
        Endpoint::new(name, Provider::Compatible, Some(&self.address), "m", None).unwrap()
    }
}

/// A request with its body.
fn read(stream: &TcpStream) -> String {
    let mut lines = BufReader::new(stream);
    let (mut text, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        text.push_str(&line);
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    lines.read_exact(&mut body).unwrap();
    text + &String::from_utf8(body).unwrap()
}

fn answer(status: &str, headers: &str, body: &str) -> Step {
    let text = format!(
        "HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    Box::new(move |stream| stream.write_all(text.as_bytes()).unwrap())
}

fn good(text: &str) -> Step {
    let body = serde_json::json!({"model": "m-1", "choices": [{"message": {"content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2}});
    answer("200 OK", "content-type: application/json\r\n", &body.to_string())
}

/// Short pauses, so that tests take no time.
fn quick() -> Backoff {
    let ms = Duration::from_millis;
    Backoff { base: ms(20), cap: ms(80), ceiling: Duration::from_secs(5), ..Backoff::default() }
}

async fn ask(endpoints: Vec<Endpoint>, within: Duration) -> Result<Reply, ModelError> {
    let client = Client::new(endpoints).unwrap().with_backoff(quick());
    client.complete(&Request::ask("hello", 64), Instant::now() + within).await
}

/// The message of the failure of a server with this one step.
async fn failure(step: Step) -> String {
    let server = Server::new(vec![step]);
    let error = ask(vec![server.endpoint("a")], Duration::from_secs(3)).await.unwrap_err();
    assert_eq!(server.requests().len(), 1, "it was tried again: {error}");
    error.to_string()
}

#[tokio::test]
async fn good_reply_has_text_tokens_and_cost() {
    let server = Server::new(vec![good("hi")]);
    let reply = ask(vec![server.endpoint("a")], Duration::from_secs(3)).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.model.as_str(), reply.stop), ("hi", "m-1", Stop::End));
    assert_eq!((reply.tokens.unwrap().total(), reply.cost.name(), reply.attempts), (7, "unknown", 1));
    let request = &server.requests()[0];
    assert!(request.starts_with("POST /v1/chat/completions HTTP/1.1"), "{request}");
    assert!(!request.to_ascii_lowercase().contains("authorization"), "no key is configured");
}

#[tokio::test]
async fn tokens_that_are_zero_are_not_counted() {
    let zero = r#"{"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0}}"#;
    let server = Server::new(vec![answer("200 OK", "", zero)]);
    let at = Endpoint::new("a", Provider::OpenAi, Some(&server.address), "gpt-5", None).unwrap();
    let reply = ask(vec![at], Duration::from_secs(3)).await.unwrap();
    assert_eq!((reply.tokens, reply.cost.name()), (None, "unknown"));
}

#[tokio::test]
async fn failures_that_pass_are_tried_again() {
    let steps = vec![
        answer("429 Too Many Requests", "retry-after: 1\r\n", "{}"),
        answer("503 Service Unavailable", "", ""),
        good("at last"),
    ];
    let server = Server::new(steps);
    let began = Instant::now();
    let reply = ask(vec![server.endpoint("a")], Duration::from_secs(4)).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.attempts), ("at last", 3));
    assert!(began.elapsed() >= Duration::from_secs(1), "the server's wish was not obeyed");
}

#[tokio::test]
async fn pause_longer_than_the_time_left_ends_at_once() {
    let server = Server::new(vec![answer("429 Too Many Requests", "retry-after: 3600\r\n", "{}")]);
    let began = Instant::now();
    let error = ask(vec![server.endpoint("a")], Duration::from_secs(60)).await.unwrap_err();
    assert!(error.to_string().contains("HTTP 429"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn errors_of_the_request_are_not_tried_again() {
    for status in
        ["400 Bad Request", "401 Unauthorized", "404 Not Found", "408 Request Timeout", "413 Too Large"]
    {
        let error = failure(answer(status, "", "{\"error\": {\"message\": \"not so\"}}")).await;
        assert!(error.contains(&status[..3]) && error.contains("not so"), "{error}");
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let other = Server::new(vec![good("stolen")]);
    for status in ["301 Moved", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let location = format!("location: {}/v1/chat/completions\r\n", other.address);
        let error = failure(answer(status, &location, "")).await;
        assert!(error.contains("not followed") && error.contains(&other.address), "{error}");
    }
    assert!(other.requests().is_empty());
}

#[tokio::test]
async fn large_replies_are_dropped() {
    let announced: Step = Box::new(|stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 52428800\r\n\r\n");
    });
    let limit = format!("larger than {MAX_REPLY_BYTES} bytes");
    let error = failure(announced).await;
    assert!(error.contains(&limit), "{error}");
    // Fifty megabytes without a length.
    let sent = Arc::new(Mutex::new(0));
    let count = Arc::clone(&sent);
    let flood: Step = Box::new(move |stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n\"");
        for _ in 0..50 {
            if stream.write_all(&[b'a'; 1 << 20]).is_err() {
                return;
            }
            *count.lock().unwrap() += 1;
        }
    });
    let error = failure(flood).await;
    assert!(error.contains(&limit), "{error}");
    assert!(*sent.lock().unwrap() < 30, "all of it was read");
    let headers: Step = Box::new(|stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
        for number in 0..200_000 {
            if stream
                .write_all(format!("x-{number}: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n").as_bytes())
                .is_err()
            {
                return;
            }
        }
    });
    let error = failure(headers).await;
    assert!(error.contains("broke off"), "{error}");
}

#[tokio::test]
async fn replies_that_break_off_are_not_repeated() {
    let cut: Step = Box::new(|stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"choices\":");
    });
    let error = failure(cut).await;
    assert!(error.contains("broke off"), "{error}");
    let silent: Step = Box::new(|_| {});
    let error = failure(silent).await;
    assert!(error.contains("broke off"), "{error}");
}

#[tokio::test]
async fn slow_replies_end_at_the_deadline() {
    // A byte now and then keeps the connection alive for ever.
    let drip: Step = Box::new(|stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
        while stream.write_all(b"1\r\n \r\n").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let server = Server::new(vec![drip]);
    let began = Instant::now();
    let error = ask(vec![server.endpoint("a")], Duration::from_millis(300)).await.unwrap_err();
    assert!(error.to_string().contains("no complete reply within"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(2));
    let ModelError::Unavailable(tried) = error else { panic!("{error}") };
    assert!(tried[0].maybe_charged);
}

#[tokio::test]
async fn pages_and_wrong_json_are_named() {
    let html = "content-type: text/html; charset=utf-8\r\n";
    for (headers, body, word) in [
        (html, "<html><head><title>Sign in</title></head></html>", "web page: Sign in"),
        ("", "<!doctype html>", "web page"),
        ("", "not json", "not JSON"),
        ("", "{\"choices\": []}", "the first of the choices"),
        ("", "{\"choices\": [{\"message\": {\"content\": 5}}]}", "content is missing or of another type"),
        ("", "[]", "choices is missing"),
        ("", "null", "choices is missing"),
        ("", "{\"error\": {\"message\": \"quota\"}}", "quota"),
        ("", &"[".repeat(100_000), "not JSON"),
    ] {
        let error = failure(answer("200 OK", headers, body)).await;
        assert!(error.contains(word), "{body:.60}: {error}");
    }
}

#[tokio::test]
async fn cascade_says_why_earlier_models_did_not_reply() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let closed =
        Endpoint::new("down", Provider::Ollama, Some(&format!("http://{closed}")), "q", None).unwrap();
    let refusing = Server::new(vec![answer("401 Unauthorized", "", "{}")]);
    let waiting = Server::new(vec![answer("429 Too Many Requests", "retry-after: 30\r\n", "{}")]);
    let last = Server::new(vec![good("me")]);
    let unset = Endpoint::new("unset", Provider::OpenAi, None, "gpt-5", Some("env:HOTCELL_TEST_NO_SUCH_KEY"));
    let all = vec![closed, refusing.endpoint("b"), waiting.endpoint("c"), unset.unwrap(), last.endpoint("d")];
    let reply = ask(all, Duration::from_secs(20)).await.unwrap();
    assert_eq!((reply.endpoint.as_str(), reply.text.as_str()), ("d", "me"));
    let whys: Vec<_> = reply.passed_over.iter().map(ToString::to_string).collect();
    assert!(
        whys[0].starts_with("down (ollama, q): no connection") && whys[0].contains("2 attempts"),
        "{whys:?}"
    );
    assert!(whys[1].contains("the key is not accepted") && whys[2].contains("429"), "{whys:?}");
    assert!(whys[3].contains("HOTCELL_TEST_NO_SUCH_KEY is not set"), "{whys:?}");
    assert!(reply.passed_over.iter().all(|tried| !tried.maybe_charged));
}

/// A person who forgot to start the server is told within seconds, however long the time limit is.
#[tokio::test]
async fn server_that_is_not_there_on_this_machine_is_not_waited_for() {
    for host in ["127.0.0.1", "localhost", "[::1]"] {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let url = format!("http://{host}:{port}");
        let endpoint = Endpoint::new("down", Provider::Ollama, Some(&url), "q", None).unwrap();
        let began = Instant::now();
        let error = ask(vec![endpoint], Duration::from_secs(600)).await.unwrap_err().to_string();
        assert!(began.elapsed() < Duration::from_secs(5), "{host}: {:?}", began.elapsed());
        if host != "[::1]" || error.contains("refused") {
            let said = format!("no program listens at {host}:{port}, 2 attempts in ");
            assert!(error.contains(&said), "{error}");
        }
    }
}

#[tokio::test]
async fn request_larger_than_the_window_is_not_sent() {
    let (small, large) = (Server::new(vec![good("small")]), Server::new(vec![good("large")]));
    let window = Some(1024);
    let first = Endpoint { window, ..small.endpoint("a") };
    let client = Client::new(vec![first, large.endpoint("b")]).unwrap();
    let until = Instant::now() + Duration::from_secs(3);
    let reply = client.complete(&Request::ask("x".repeat(8000), 25), until).await.unwrap();
    assert_eq!(reply.text, "large");
    assert!(reply.passed_over[0].why.contains("at least 1025 tokens"), "{:?}", reply.passed_over);
    assert!(small.requests().is_empty());
    assert_eq!(client.complete(&Request::ask("x".repeat(7000), 25), until).await.unwrap().text, "small");
}

#[tokio::test]
async fn slow_model_leaves_time_to_the_next() {
    let hang: Step = Box::new(|_| std::thread::sleep(Duration::from_secs(2)));
    let (slow, quick) = (Server::new(vec![hang]), Server::new(vec![good("quick")]));
    let reply = ask(vec![slow.endpoint("a"), quick.endpoint("b")], Duration::from_secs(1)).await.unwrap();
    assert_eq!(reply.text, "quick");
    assert!(reply.passed_over[0].maybe_charged, "{:?}", reply.passed_over);
}

#[tokio::test]
async fn keys_are_sent_once_read_and_shown_nowhere() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    std::fs::write(&file, "sk-very-secret\n").unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    let source = format!("file:{}", file.display());
    let echo = "{\"error\": {\"message\": \"Incorrect API key provided: sk-very-secret\"}}";
    let server = Server::new(vec![
        answer("500 Oops", "", echo),
        answer("200 OK", "", "sk-very-secret is not JSON"),
        answer("302 Found", "location: http://sk-very-secret/\r\n", ""),
    ]);
    let url = Some(server.address.as_str());
    let endpoint = Endpoint::new("a", Provider::Compatible, url, "m", Some(&source)).unwrap();
    let client = Client::new(vec![endpoint]).unwrap().with_backoff(quick());
    let mut said = format!("{client:?}");
    for _ in 0..2 {
        let until = Instant::now() + Duration::from_secs(3);
        let error = client.complete(&Request::ask("x", 9), until).await.unwrap_err();
        said += &format!("{error} {error:?}");
        // The key was read at the first request.
        let _ = std::fs::remove_file(&file);
    }
    assert!(!said.contains("very-secret") && said.contains("***"), "{said}");
    for request in server.requests() {
        assert!(request.to_ascii_lowercase().contains("authorization: bearer sk-very-secret"), "{request}");
    }
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn tool_calls_go_round_in_each_format() {
    let openai = r#"{"choices": [{"finish_reason": "tool_calls", "message": {"content": null, "tool_calls":
        [{"type": "function", "function": {"name": "read", "arguments": "{\"path\": \"a\"}"}}]}}]}"#;
    let anthropic = r#"{"stop_reason": "tool_use", "content":
        [{"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a"}}]}"#;
    let gemini = r#"{"candidates": [{"finishReason": "STOP", "content": {"parts":
        [{"functionCall": {"name": "read", "args": {"path": "a"}}, "thoughtSignature": "c2ln"}]}}]}"#;
    let anthropic_end = r#"{"stop_reason": "end_turn", "content": [{"type": "text", "text": "done"}]}"#;
    let gemini_end =
        r#"{"candidates": [{"finishReason": "STOP", "content": {"parts": [{"text": "done"}]}}]}"#;
    let openai_end = r#"{"choices": [{"finish_reason": "stop", "message": {"content": "done"}}]}"#;
    for (provider, first, second, path, echoed) in [
        (Provider::Compatible, openai, openai_end, "/v1/chat/completions", "tool_call_id"),
        (Provider::Anthropic, anthropic, anthropic_end, "/v1/messages", "tool_use_id"),
        (
            Provider::Gemini,
            gemini,
            gemini_end,
            "/v1beta/models/m:generateContent",
            "\"thoughtSignature\":\"c2ln\"",
        ),
    ] {
        let server = Server::new(vec![answer("200 OK", "", first), answer("200 OK", "", second)]);
        let endpoint = Endpoint::new("a", provider, Some(&server.address), "m", None).unwrap();
        let client = Client::new(vec![endpoint]).unwrap();
        let mut request = Request::ask("read a", 64);
        request.tools.push(Tool {
            name: "read".to_owned(),
            description: "Reads a file".to_owned(),
            parameters: serde_json::json!({"type": "object", "properties": {"path": {"type": "string"}}}),
        });
        let until = Instant::now() + Duration::from_secs(3);
        let reply = client.complete(&request, until).await.unwrap();
        assert_eq!((reply.stop, reply.calls.len()), (Stop::ToolCalls, 1), "{provider}");
        assert_eq!(reply.calls[0].arguments, Arguments::parse("{\"path\": \"a\"}"));
        assert!(!reply.calls[0].id.is_empty());
        request.messages.push(reply.message());
        request.messages.push(Message::result(&reply.calls[0], "content of a"));
        assert_eq!(client.complete(&request, until).await.unwrap().text, "done");
        let requests = server.requests();
        assert!(requests[0].starts_with(&format!("POST {path} ")), "{}", requests[0]);
        assert!(requests[1].contains(echoed) && requests[1].contains("content of a"), "{}", requests[1]);
    }
}
