//! Language models: configured, asked and counted, against a scripted server on loopback.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hotcell_end_to_end::{Ended, User, everyone};
use serde_json::json;

/// Answers each request by the next text, for ever by the last; keeps what it was sent.
pub fn server(answers: Vec<String>) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&seen);
    std::thread::spawn(move || {
        for number in 0.. {
            let Ok((mut stream, _)) = listener.accept() else { return };
            let mut lines = BufReader::new(&stream);
            let (mut text, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                if lines.read_line(&mut line).is_err() || line.trim().is_empty() {
                    break;
                }
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap_or(0);
                }
                text.push_str(&line);
            }
            let mut body = vec![0; length];
            let _ = lines.read_exact(&mut body);
            text.push_str(&String::from_utf8_lossy(&body));
            keep.lock().expect("no panic").push(text);
            let answer = &answers[answers.len().min(number + 1) - 1];
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (address, seen)
}

pub fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

pub fn reply(text: &str, finish: &str) -> String {
    let body = json!({"model": "m-1", "choices": [{"message": {"content": text}, "finish_reason": finish}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 4}});
    answer("200 OK", &body.to_string())
}

fn model(user: &User, words: &[&str]) -> Ended {
    user.hotcell(["model"]).words(words).end()
}

#[test]
fn model_is_added_asked_counted_and_removed() {
    everyone(|user| {
        let said = model(user, &["ask", "hello"]);
        said.code(125);
        assert!(
            said.stderr.contains("hotcell model add ollama") && said.stderr.lines().count() == 1,
            "{}",
            said.stderr
        );
        model(user, &["list"]).code(0);
        let list = answer("200 OK", "{\"data\": [{\"id\": \"tiny\"}]}");
        let (local, _) = server(vec![list, reply("Hi.", "stop"), reply("half", "length")]);
        let (down, _) = server(vec![answer("401 Unauthorized", "{}")]);
        model(user, &["add", "paid", "--provider", "openai", "--url", &down, "--model", "gpt-5"]).code(0);
        // The server lists one model, so that its name is not needed.
        model(user, &["add", "ollama", "--url", &local]).code(0);
        let list = model(user, &["list", "--json"]).code(0).json();
        assert_eq!(
            (&list["models"][0]["model"], &list["models"][0]["price"]["kind"]),
            (&"tiny".into(), &"free".into())
        );
        assert_eq!(list["roles"], json!({"default": ["paid", "ollama"]}));
        let answer = model(user, &["ask", "hello", "--session", "s", "--json"]).code(0).json();
        assert_eq!(
            (&answer["text"], &answer["name"], &answer["cost"]),
            (&"Hi.".into(), &"ollama".into(), &"free".into())
        );
        assert!(answer["passed_over"][0]["why"].as_str().is_some_and(|why| why.contains("401")), "{answer}");
        let cut = model(user, &["ask", "hello", "--model", "ollama"]);
        cut.code(1).prints("half\n");
        assert!(cut.stderr.contains("it is cut"), "{}", cut.stderr);
        let usage = |words: &[&str]| user.hotcell(["usage"]).words(words).end();
        let report = usage(&["--by", "session", "--json"]).code(0).json();
        assert_eq!((&report["total"]["calls"], &report["total"]["tokens"]), (&2.into(), &28.into()));
        usage(&["--by", "model", "--csv"]).code(0).prints(
            "model,calls,without_reply,tokens,fresh,cached,output,uncounted,dollars,free,unknown\nm-1,2,0,28,20,0,8,0,0,2,0\n",
        );
        let unknown = model(user, &["remove", "olama"]);
        assert!(unknown.code(125).stderr.contains("did you mean \"ollama\""), "{}", unknown.stderr);
        model(user, &["remove", "ollama"]).code(0);
        model(user, &["remove", "paid"]).code(0);
        let left = std::fs::read_to_string(user.path("home/.config/hotcell/config.toml")).expect("the file");
        assert_eq!(left, "");
    });
}

#[test]
fn project_file_must_not_name_a_model() {
    everyone(|user| {
        let (address, seen) = server(vec![reply("stolen", "stop")]);
        let table = format!("[models.a]\nprovider = \"compatible\"\nurl = \"{address}\"\nmodel = \"m\"\n");
        user.write("work/hotcell.toml", &table);
        model(user, &["ask", "a secret"]).code(125);
        let run = user.run(["true"]).end();
        assert!(run.code(125).stderr.contains("models ="), "{}", run.stderr);
        assert!(seen.lock().expect("no panic").is_empty());
    });
}

#[test]
fn key_of_a_model_is_shown_nowhere() {
    let user = User::me();
    let echo = "{\"error\": {\"message\": \"wrong key sk-very-secret\"}}";
    let (address, seen) = server(vec![answer("401 Unauthorized", echo)]);
    let words =
        ["add", "a", "--provider", "anthropic", "--url", &address, "--model", "m", "--key", "env:THE_KEY"];
    model(&user, &words).code(0);
    let mut said = String::new();
    for words in
        [&["list"][..], &["check"], &["ask", "hello"], &["check", "--json"], &["ask", "hello", "--json"]]
    {
        let ended = user.hotcell(["model", "-vv"]).words(words).env("THE_KEY", "sk-very-secret").end();
        said += &format!("{}{}", String::from_utf8_lossy(&ended.stdout), ended.stderr);
    }
    assert!(said.contains("wrong key ***") && !said.contains("very-secret"), "{said}");
    let seen = seen.lock().expect("no panic").join("\n");
    assert!(seen.contains("x-api-key: sk-very-secret"), "{seen}");
}

#[test]
fn killed_imports_lose_and_double_no_call() {
    let user = User::me();
    let files: Vec<String> = (0..8)
        .map(|file| {
            let entry = |n: usize| json!({"agent": format!("a{file}"), "tokens": n % 7, "iteration": n % 5, "timestamp": n / 50});
            let log: Vec<_> = (0..400).map(entry).collect();
            let name = format!("work/usage{file}.json");
            user.write(&name, json!({"usage_log": log}).to_string());
            user.path(&name).to_str().expect("UTF-8").to_owned()
        })
        .collect();
    let mut wait = 3_u64;
    for round in 0..2 {
        let mut all: Vec<_> =
            files.iter().map(|file| user.hotcell(["usage", "import", file]).start()).collect();
        for child in &mut all {
            // Times that differ, without a source of randomness.
            wait = wait * 7 % 23;
            std::thread::sleep(Duration::from_millis(wait));
            if round == 0 {
                let _ = child.kill();
            }
        }
        for mut child in all {
            let _ = child.wait();
        }
    }
    let report = user.hotcell(["usage", "--by", "role", "--json"]).end().code(0).json();
    assert_eq!(report["total"]["calls"], 8 * 400);
    let one: u64 = (0..400).map(|n| n % 7).sum();
    assert_eq!(report["total"]["tokens"], 8 * one);
    let file = user.path("work/all.json");
    let file = file.to_str().expect("UTF-8");
    user.hotcell(["usage", "export", file]).end().code(0);
    user.hotcell(["usage", "import", file, "--json"]).end().code(0);
    let again = user.hotcell(["usage", "--json"]).end().code(0).json();
    assert_eq!(again["total"]["calls"], 8 * 400);
}

#[test]
fn warning_without_a_reader_does_not_end_the_program() {
    let user = User::me();
    // The first request is refused for now, which is a warning; the second one is answered.
    let (address, seen) = server(vec![answer("503 Service Unavailable", ""), reply("hi", "stop")]);
    model(&user, &["add", "a", "--provider", "llamacpp", "--url", &address, "--model", "m"]).code(0);
    let mut asks = user.hotcell(["model", "ask", "hello"]).start();
    drop(asks.stderr.take());
    let mut text = String::new();
    asks.stdout.take().expect("standard output").read_to_string(&mut text).expect("text");
    let status = asks.wait().expect("it ended");
    assert!(status.success() && text.contains("hi"), "{status}: {text}");
    assert_eq!(seen.lock().expect("no panic").len(), 2);
}

#[test]
fn provider_without_its_key_is_told_when_it_is_added() {
    let user = User::me();
    let add = |words: &[&str]| {
        let words = [&["add", "a", "--model", "m", "--replace", "--provider"], words].concat();
        model(&user, &words).code(0).stderr.clone()
    };
    assert!(add(&["anthropic"]).contains("--key env:VARIABLE"), "no word about the key");
    for words in [
        &["anthropic", "--key", "env:THE_KEY"][..],
        &["anthropic", "--url", "http://127.0.0.1:9"],
        &["ollama"],
    ] {
        let said = add(words);
        assert!(said.contains("next: hotcell model check a") && !said.contains("--key"), "{said}");
    }
}
