//! Each limit of the processes is reached, and has its own error message.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use hotcell_tools::cache::{Cache, DEFAULT_CACHE_BYTES};
use hotcell_tools::protocol::{MAX_COMPONENT_BYTES, MAX_QUESTION_BYTES};
use hotcell_tools::{Ask, BoxFuture, Broker, LoadError, Reply};
use tokio_util::sync::CancellationToken;

use crate::place::{Asked, Bench, Test};

pub const TESTS: &[Test] = &[
    ("process_start_and_load_are_timed", || Box::pin(process_start_and_load_are_timed())),
    ("stale_code_recompilation_is_limited", || Box::pin(stale_code_recompilation_is_limited())),
    ("suspect_component_gets_own_process", || Box::pin(suspect_component_gets_own_process())),
    ("shared_process_has_64_plugins", || Box::pin(shared_process_has_64_plugins())),
    ("shared_process_runs_16_calls_at_once", || Box::pin(shared_process_runs_16_calls_at_once())),
    ("component_and_compiler_answer_sizes_are_limited", || {
        Box::pin(component_and_compiler_answer_sizes_are_limited())
    }),
    ("broker_reply_size_is_limited", || Box::pin(broker_reply_size_is_limited())),
];

async fn process_start_and_load_are_timed() {
    let patience = Duration::from_millis(700);
    for (what, why) in
        [("never-says", "was not ready within 700ms"), ("never-loads", "not loaded within 700ms")]
    {
        let bench = Bench::with(&["fake", what], |o| o.patience = patience, Asked::default());
        let plugin = bench.plugin("a", b"wasm");
        // Pretends that it was compiled.
        let cache = Cache::open(&bench.dir.path().join("cache"), DEFAULT_CACHE_BYTES).unwrap();
        cache.put(&plugin.digest, b"code").unwrap();
        let begun = Instant::now();
        let message = bench.host_error(&plugin, "{}").await;
        assert!(message.contains(why), "{what}: {message}");
        assert!(
            (patience..Duration::from_secs(10)).contains(&begun.elapsed()),
            "{what}: {:?}",
            begun.elapsed()
        );
    }
}

async fn stale_code_recompilation_is_limited() {
    let bench = Bench::fake("stale");
    let message = bench.host_error(&bench.plugin("a", b"wasm"), "{}").await;
    assert!(message.contains("its compiled form is not this build's"), "{message}");
}

async fn suspect_component_gets_own_process() {
    let bench = Bench::fake("dies");
    let (bad, good) = (bench.plugin("a", b"wasm of a"), bench.plugin("b", b"wasm of b"));
    assert!(bench.host_error(&bad, "die").await.contains("SIGABRT"));
    // One process for all others, and one for the bad plugin, whose end does not affect the others.
    assert!(bench.hosts.prepare(&good).await.unwrap().process.is_some());
    assert!(bench.hosts.prepare(&bad).await.unwrap().process.is_some(), "it has its own");
    assert!(bench.host_error(&bad, "die").await.contains("SIGABRT"));
    assert!(bench.hosts.prepare(&good).await.unwrap().process.is_none(), "the others' is still there");
}

async fn shared_process_has_64_plugins() {
    let bench = Bench::fake("good");
    let cache = Cache::open(&bench.dir.path().join("cache"), DEFAULT_CACHE_BYTES).unwrap();
    let mut started = Vec::new();
    for number in 0..65 {
        let plugin = bench.plugin(&format!("p{number}"), format!("wasm of {number}").as_bytes());
        cache.put(&plugin.digest, b"code").unwrap();
        if bench.hosts.prepare(&plugin).await.unwrap().process.is_some() {
            started.push(number);
        }
    }
    assert_eq!(started, [0, 64], "one for 64 plugins, and another for the next");
}

async fn shared_process_runs_16_calls_at_once() {
    let bench = Bench::fake("together");
    // Four at a time of each plugin: five plugins would have twenty.
    let plugins: Vec<_> =
        (0..5).map(|n| bench.plugin(&format!("p{n}"), format!("wasm of {n}").as_bytes())).collect();
    for plugin in &plugins {
        bench.hosts.prepare(plugin).await.unwrap();
    }
    let calls = plugins.iter().flat_map(|plugin| (0..4).map(|_| bench.value(plugin, "f", "{}")));
    let together: Vec<u64> =
        join_all(calls).await.iter().map(|value| value["together"].as_u64().unwrap()).collect();
    assert_eq!(together.iter().max(), Some(&16), "{together:?}");
}

async fn component_and_compiler_answer_sizes_are_limited() {
    let bench = Bench::fake("compiles-oversized");
    let error = bench.hosts.describe(&vec![0; MAX_COMPONENT_BYTES + 1]).await.unwrap_err();
    assert!(
        matches!(&error, LoadError::NotAComponent { message } if message.contains("134217728 are possible")),
        "{error:?}"
    );
    let error = bench.hosts.describe(b"wasm").await.unwrap_err();
    assert!(
        matches!(&error, LoadError::Compile { message } if message.contains("broke the protocol")),
        "{error:?}"
    );
}

/// Replies with a text that is longer than any reply may be.
struct Endless;

impl Broker for Endless {
    fn ask(&self, _: u64, _: Ask) -> BoxFuture<'_, Reply> {
        Box::pin(std::future::ready(Reply::Text { text: Some("x".repeat(MAX_QUESTION_BYTES)) }))
    }
}

async fn broker_reply_size_is_limited() {
    let bench = Bench::fake("asks-for-much");
    let plugin = bench.plugin("a", b"wasm");
    let answer =
        bench.hosts.call(&plugin, "f", "{}", Arc::new(Endless), CancellationToken::new()).await.unwrap();
    let value = answer.value.get();
    assert!(value.contains("a reply of more than") && value.len() < 1000, "{value}");
}
