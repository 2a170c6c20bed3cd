//! Each import asks the broker's question that WIT describes, and turns every reply into the result that WIT
//! describes.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::generated::hotcell::guard::scan::{self, Host as _};
use super::generated::hotcell::sandbox::run::{self, Host as _};
use super::generated::hotcell::tool::{cancelled, config, kv, log, progress, secret};
use crate::ask::{Blob, Refused};
use crate::asker::Asker;
use crate::runtime::state::State;
use crate::{Ask, BoxFuture, Broker, Limits, Reply};

/// A broker that always gives one reply.
struct Same(Reply, Mutex<Vec<Ask>>);

impl Broker for Same {
    fn ask(&self, call: u64, ask: Ask) -> BoxFuture<'_, Reply> {
        assert_eq!(call, 7);
        self.1.lock().expect("no panic").push(ask);
        Box::pin(std::future::ready(self.0.clone()))
    }
}

impl Same {
    fn asked(&self) -> Vec<Ask> {
        std::mem::take(&mut self.1.lock().expect("no panic"))
    }
}

fn state(reply: Reply) -> (State, Arc<Same>) {
    let broker = Arc::new(Same(reply, Mutex::default()));
    let asker =
        Asker::new(broker.clone(), 7, Instant::now() + Duration::from_secs(5), CancellationToken::new());
    (State::new(&[], &[], &Limits::default(), asker).expect("a state"), broker)
}

fn refusals() -> [Refused; 6] {
    let text = || "why".to_owned();
    [
        Refused::Denied(text()),
        Refused::NotSet,
        Refused::TooMuch(text()),
        Refused::Full,
        Refused::Invalid(text()),
        Refused::Unavailable(text()),
    ]
}

#[tokio::test]
async fn refusals_map_to_interface_errors() {
    let mut table = Vec::new();
    for why in refusals() {
        let (mut state, _) = state(Reply::Refused { why });
        let config = config::Host::get(&mut state, "key".to_owned()).await.expect("no trap");
        let secret =
            secret::Host::get(&mut state, "name".to_owned()).await.expect("no trap").expect_err("refused");
        let kv = kv::Host::get(&mut state, "key".to_owned()).await.expect("no trap").expect_err("refused");
        let request = run::Request {
            argv: vec!["true".to_owned()],
            files: vec![],
            stdin: None,
            env: vec![],
            timeout_ms: None,
            memory: None,
        };
        let run = state.run(request).await.expect("no trap").expect_err("refused");
        let scan = state.scan("a.py".to_owned(), vec![], None).await.expect("no trap").expect_err("refused");
        let config = config.map_err(|error| error.name().to_owned());
        let (secret, kv, denied) = (secret.name(), kv.name(), state.asker.denied());
        table.push(format!("{config:?} {secret} {kv} {run:?} {scan:?} {denied:?}"));
    }
    let wanted = [
        r#"Err("denied") denied unavailable Error::Denied Error::Denied ["why"]"#,
        r#"Ok(None) not-set unavailable Error::Unavailable("the broker answered something else") Error::Unavailable("the broker answered something else") []"#,
        r#"Err("unavailable") unavailable too-large Error::TooMany Error::TooMany []"#,
        r#"Err("unavailable") unavailable full Error::TooMany Error::TooMany []"#,
        r#"Err("denied") denied unavailable Error::Invalid("why") Error::Unavailable("why") []"#,
        r#"Err("unavailable") unavailable unavailable Error::Unavailable("why") Error::Unavailable("why") []"#,
    ];
    assert_eq!(table, wanted);
}

#[tokio::test]
async fn oversized_store_requests_are_not_sent() {
    let (mut state, broker) = state(Reply::Done);
    let (long, key) = ("k".repeat(257), "k".repeat(256));
    for refused in [
        kv::Host::set(&mut state, long.clone(), vec![]).await,
        kv::Host::set(&mut state, "k".to_owned(), vec![0; (64 << 10) + 1]).await,
        kv::Host::delete(&mut state, long.clone()).await,
    ] {
        assert!(matches!(refused, Ok(Err(kv::Error::TooLarge))));
    }
    assert!(matches!(config::Host::get(&mut state, long.clone()).await, Ok(Err(config::Error::Denied))));
    assert!(matches!(secret::Host::get(&mut state, long).await, Ok(Err(secret::Error::Denied))));
    assert!(broker.asked().is_empty());
    assert!(matches!(kv::Host::set(&mut state, key.clone(), vec![1]).await, Ok(Ok(()))));
    assert!(matches!(kv::Host::delete(&mut state, "k".to_owned()).await, Ok(Ok(()))));
    assert_eq!(
        broker.asked(),
        [Ask::KvSet { key, value: Blob(vec![1]) }, Ask::KvDelete { key: "k".to_owned() }]
    );
    // Replies that do not match the question.
    assert!(matches!(kv::Host::keys(&mut state, String::new()).await, Ok(Err(kv::Error::Unavailable))));
    assert!(matches!(
        config::Host::get(&mut state, String::new()).await,
        Ok(Err(config::Error::Unavailable))
    ));
}

#[tokio::test]
async fn questions_are_counted() {
    let (mut state, broker) = state(Reply::Keys { keys: vec!["a".to_owned()] });
    let mut answered = 0;
    while let Ok(Ok(keys)) = kv::Host::keys(&mut state, "a".to_owned()).await {
        assert_eq!(keys, ["a"]);
        answered += 1;
    }
    assert_eq!((answered, broker.asked().len()), (10_000, 10_000));
}

#[tokio::test]
async fn secret_import_returns_placeholder() {
    let (mut state, _) = state(Reply::Text { text: Some("random".to_owned()) });
    let handle = secret::Host::get(&mut state, "token".to_owned()).await.expect("no trap").expect("a handle");
    let again = wasmtime::component::Resource::new_borrow(handle.rep());
    assert_eq!(secret::HostHandle::placeholder(&mut state, again).await.expect("no trap"), "random");
    secret::HostHandle::drop(&mut state, handle).await.expect("no trap");
    assert!(state.table.is_empty());
}

#[tokio::test]
async fn lines_and_reports_are_limited() {
    let (mut state, broker) = state(Reply::Done);
    for _ in 0..300 {
        log::Host::write(&mut state, log::Level::Info, "\u{1b}[31m".repeat(2_000)).await.expect("no trap");
    }
    let lines = broker.asked();
    assert_eq!(lines.len(), 256);
    assert!(
        matches!(&lines[0], Ask::Log { level, message } if level == "info" && (4_000..=4_096).contains(&message.len()) && !message.contains('\u{1b}'))
    );
    assert!(
        matches!(&lines[255], Ask::Log { level, message } if level == "warn" && message.contains("dropped"))
    );
    for done in [5, 6, 7] {
        progress::Host::report(&mut state, done, Some(10), Some("a\nb".to_owned())).await.expect("no trap");
    }
    let first = Ask::Progress { done: 5, total: Some(10), message: Some("a b".to_owned()) };
    assert_eq!(broker.asked(), [first], "the others came too soon");
    tokio::time::sleep(Duration::from_millis(110)).await;
    for done in [4, 9] {
        progress::Host::report(&mut state, done, None, None).await.expect("no trap");
    }
    assert_eq!(broker.asked(), [Ask::Progress { done: 9, total: None, message: None }], "it does not fall");
}

#[test]
fn guest_sees_cancellation() {
    let (mut state, _) = state(Reply::Done);
    assert!(!cancelled::Host::check(&mut state).expect("no trap"));
    state.asker.cancel.cancel();
    assert!(cancelled::Host::check(&mut state).expect("no trap"));
}

#[tokio::test]
async fn guest_runs_have_remaining_time_and_count() {
    let ran = Reply::Ran {
        cause: "exited".to_owned(),
        exit_code: Some(3),
        stdout: Blob(b"out".to_vec()),
        stderr: Blob(vec![]),
        truncated: true,
        reason: None,
        wall_ms: 9,
    };
    let (mut state, broker) = state(ran);
    let request = |timeout_ms| run::Request {
        argv: vec!["python3".to_owned()],
        files: vec![run::File { path: "a/b.py".to_owned(), content: vec![1] }],
        stdin: Some(vec![2]),
        env: vec![("A".to_owned(), "b".to_owned())],
        timeout_ms,
        memory: Some(1 << 20),
    };
    let none = run::Request { argv: vec![], ..request(None) };
    assert!(matches!(state.run(none).await, Ok(Err(run::Error::Invalid(_)))));
    let outcome = state.run(request(Some(100))).await.expect("no trap").expect("an outcome");
    assert_eq!(
        (&*outcome.cause, outcome.exit_code, &*outcome.stdout, outcome.truncated, outcome.wall_ms),
        ("exited", Some(3), &b"out"[..], true, 9)
    );
    let asked = Ask::Sandbox {
        argv: vec!["python3".to_owned()],
        files: vec![("a/b.py".to_owned(), Blob(vec![1]))],
        stdin: Some(Blob(vec![2])),
        env: vec![("A".to_owned(), "b".to_owned())],
        timeout_ms: 100,
        memory: Some(1 << 20),
    };
    assert_eq!(broker.asked(), [asked]);
    for timeout in [None, Some(u32::MAX)] {
        state.run(request(timeout)).await.expect("no trap").expect("an outcome");
        let asked = broker.asked().pop();
        assert!(matches!(asked, Some(Ask::Sandbox { timeout_ms: 1..=5_000, .. })), "{asked:?}");
    }
    for _ in 3..16 {
        state.run(request(None)).await.expect("no trap").expect("an outcome");
    }
    assert!(matches!(state.run(request(None)).await, Ok(Err(run::Error::TooMany))));
}

#[tokio::test]
async fn scan_import_returns_report() {
    let finding = crate::ask::Finding {
        rule: "r".to_owned(),
        severity: "high".to_owned(),
        message: "m".to_owned(),
        line: 1,
        column: 2,
    };
    let reply = |verdict: &str| Reply::Scanned {
        verdict: verdict.to_owned(),
        language: Some("python".to_owned()),
        findings: vec![finding.clone()],
        unread: vec!["the end".to_owned()],
    };
    for (name, verdict) in [
        ("allow", scan::Verdict::Allow),
        ("review", scan::Verdict::Review),
        ("quarantine", scan::Verdict::Quarantine),
        ("incomplete", scan::Verdict::Incomplete),
    ] {
        let (mut state, broker) = state(reply(name));
        let report = state.scan("a.py".to_owned(), vec![1], None).await.expect("no trap").expect("a report");
        assert_eq!((report.verdict, report.findings[0].line, &*report.unread[0]), (verdict, 1, "the end"));
        assert_eq!(
            broker.asked(),
            [Ask::Scan { name: "a.py".to_owned(), content: Blob(vec![1]), language: None }]
        );
    }
    let (mut state, broker) = state(reply("splendid"));
    assert!(matches!(state.scan("a".to_owned(), vec![], None).await, Ok(Err(scan::Error::Unavailable(_)))));
    broker.asked();
    assert!(matches!(
        state.scan("a".to_owned(), vec![0; (1 << 20) + 1], None).await,
        Ok(Err(scan::Error::TooMany))
    ));
    assert!(broker.asked().is_empty());
}
