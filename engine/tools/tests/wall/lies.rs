//! A process that was taken over lies, floods, dies or stays silent: only its own calls suffer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use hotcell_sandbox::Bytes;
use hotcell_tools::cache::{Cache, DEFAULT_CACHE_BYTES};
use hotcell_tools::{Ask, BoxFuture, Broker, CallError, Limit, LoadError, Reply};
use tokio_util::sync::CancellationToken;

use crate::place::{Asked, Bench, Test};

pub const TESTS: &[Test] = &[
    ("protocol_violation_ends_process", || Box::pin(protocol_violation_ends_process())),
    ("duplicate_answer_counts_once", || Box::pin(duplicate_answer_counts_once())),
    ("process_death_fails_only_its_calls", || Box::pin(process_death_fails_only_its_calls())),
    ("repeatedly_failing_process_is_paused", || Box::pin(repeatedly_failing_process_is_paused())),
    ("program_that_never_starts_is_paused", || Box::pin(program_that_never_starts_is_paused())),
    ("failed_compilation_is_not_retried_immediately", || {
        Box::pin(failed_compilation_is_not_retried_immediately())
    }),
    ("silent_process_is_ended", || Box::pin(silent_process_is_ended())),
    ("endless_questions_are_ended", || Box::pin(endless_questions_are_ended())),
    ("unread_replies_count_as_open_questions", || Box::pin(unread_replies_count_as_open_questions())),
    ("withdrawn_question_is_dropped", || Box::pin(withdrawn_question_is_dropped())),
    ("cancelled_call_ends", || Box::pin(cancelled_call_ends())),
    ("dropped_call_future_cancels", || Box::pin(dropped_call_future_cancels())),
    ("compiler_exceeding_limits_is_ended", || Box::pin(compiler_exceeding_limits_is_ended())),
    ("changed_component_is_not_run", || Box::pin(changed_component_is_not_run())),
];

async fn protocol_violation_ends_process() {
    for what in [
        "answers-another",
        "answers-lines",
        "answers-long",
        "answers-deep",
        "prints-much",
        "oversized",
        "too-short",
        "unknown-kind",
        "ready-again",
        "asks-for-another",
        "asks-twice",
        "asks-too-much",
        "withdraws-unasked",
        "withdraws-twice",
        "floods",
    ] {
        let bench = Bench::with(&["fake", what], |_| (), Asked { mute: true, ..Asked::default() });
        let plugin = bench.plugin("a", b"wasm");
        let message = bench.host_error(&plugin, "{}").await;
        assert!(message.contains("broke the protocol"), "{what}: {message}");
        // A new process is started, which behaves the same way.
        assert!(bench.hosts.prepare(&plugin).await.unwrap().process.is_some(), "{what}");
        bench.hosts.close().await;
    }
    for what in ["no-protocol", "loads-another"] {
        let bench = Bench::fake(what);
        let message = bench.host_error(&bench.plugin("a", b"wasm"), "{}").await;
        assert!(message.contains("broke the protocol"), "{what}: {message}");
    }
}

async fn duplicate_answer_counts_once() {
    let bench = Bench::fake("answers-twice");
    let plugin = bench.plugin("a", b"wasm");
    for _ in 0..3 {
        assert_eq!(bench.call(&plugin, "f", "{}").await.unwrap().value.get(), "{}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn process_death_fails_only_its_calls() {
    let bench = Bench::fake("dies");
    let (shared, mut own) = (bench.plugin("a", b"wasm of a"), bench.plugin("b", b"wasm of b"));
    own.held.guard = true;
    bench.hosts.prepare(&own).await.unwrap();
    let (died, waited, spared) = tokio::join!(
        async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            bench.host_error(&shared, r#"{"a":"die"}"#).await
        },
        bench.host_error(&shared, r#"{"a":"wait"}"#),
        async {
            tokio::time::sleep(Duration::from_millis(600)).await;
            bench.call(&own, "f", "{}").await
        },
    );
    assert!(died.contains("SIGABRT") && waited.contains("SIGABRT"), "{died}; {waited}");
    assert!(spared.is_ok());
    assert!(bench.hosts.prepare(&own).await.unwrap().process.is_none(), "the other process was not touched");
    bench.call(&shared, "f", "{}").await.unwrap();
}

async fn repeatedly_failing_process_is_paused() {
    let bench = Bench::fake("dies");
    let plugin = bench.plugin("a", b"wasm");
    // Once in the shared process, and then in its own.
    for _ in 0..6 {
        assert!(bench.host_error(&plugin, "die").await.contains("SIGABRT"));
    }
    let message = bench.host_error(&plugin, "die").await;
    assert!(message.contains("failed 5 times within 60 s"), "{message}");
    // Others are not affected.
    let mut other = bench.plugin("b", b"wasm of b");
    other.held.guard = true;
    bench.call(&other, "f", "{}").await.unwrap();
    bench.call(&bench.plugin("c", b"wasm of c"), "f", "{}").await.unwrap();
}

async fn program_that_never_starts_is_paused() {
    let bench = Bench::new(&["fake", "never-ready"]);
    let plugin = bench.plugin("a", b"wasm");
    for _ in 0..2 {
        let message = bench.host_error(&plugin, "{}").await;
        assert!(message.contains("exited with 3"), "{message}");
    }
    // Pretends that it was compiled.
    let cache = Cache::open(&bench.dir.path().join("cache"), DEFAULT_CACHE_BYTES).unwrap();
    cache.put(&plugin.digest, b"code").unwrap();
    for _ in 0..5 {
        let message = bench.host_error(&plugin, "{}").await;
        assert!(message.contains("exited with 3"), "{message}");
    }
    let message = bench.host_error(&plugin, "{}").await;
    assert!(message.contains("failed 5 times"), "{message}");
}

async fn failed_compilation_is_not_retried_immediately() {
    let bench = Bench::with(
        &["fake", "compiles-forever"],
        |o| o.compile_time = Duration::from_millis(700),
        Asked::default(),
    );
    let plugin = bench.plugin("a", b"wasm");
    let first = bench.host_error(&plugin, "{}").await;
    let begun = Instant::now();
    assert_eq!(bench.host_error(&plugin, "{}").await, first);
    assert!(first.contains("takes more than") && begun.elapsed() < Duration::from_millis(700));
}

async fn silent_process_is_ended() {
    let bench = Bench::fake("silent");
    let mut plugin = bench.plugin("a", b"wasm");
    plugin.limits.wall = Duration::from_millis(200);
    let begun = Instant::now();
    let result = bench.call(&plugin, "f", "{}").await;
    assert!(matches!(result, Err(CallError::Limit { limit: Limit::Wall, .. })), "{result:?}");
    assert!(begun.elapsed() >= Duration::from_millis(1200));
    assert!(bench.hosts.prepare(&plugin).await.unwrap().process.is_some());
}

async fn endless_questions_are_ended() {
    let bench = Bench::fake("asks-forever");
    let mut plugin = bench.plugin("a", b"wasm");
    plugin.limits.wall = Duration::from_secs(60);
    let message = bench.host_error(&plugin, "{}").await;
    assert!(message.contains("more questions than a call may ask"), "{message}");
    // The maximum number of log lines of a call.
    assert_eq!(bench.asked.texts.lock().unwrap().len(), 256);
    bench.hosts.close().await;
}

/// Answers every question with a mebibyte, and counts them.
#[derive(Default)]
struct Long(AtomicU32);

impl Broker for Long {
    fn ask(&self, _: u64, _: Ask) -> BoxFuture<'_, Reply> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::ready(Reply::Text { text: Some("x".repeat(1 << 20)) }))
    }
}

async fn unread_replies_count_as_open_questions() {
    let bench = Bench::fake("asks-unread");
    let mut plugin = bench.plugin("a", b"wasm");
    plugin.limits.wall = Duration::from_secs(60);
    let broker = Arc::new(Long::default());
    let asked = Arc::clone(&broker) as Arc<dyn Broker>;
    let result = bench.hosts.call(&plugin, "f", "{}", asked, CancellationToken::new()).await;
    let message = result.unwrap_err().to_string();
    assert!(message.contains("too many questions"), "{message}");
    // One reply is on its way, and no longer counts as an open question.
    let answered = broker.0.load(Ordering::Relaxed);
    assert!(answered <= 65, "{answered}");
}

async fn withdrawn_question_is_dropped() {
    let bench =
        Bench::with(&["fake", "asks-and-withdraws"], |_| (), Asked { mute: true, ..Asked::default() });
    bench.call(&bench.plugin("a", b"wasm"), "f", "{}").await.unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    // A reply may have been dropped before it began.
    while *bench.asked.dropped.lock().unwrap()
        < u32::try_from(bench.asked.texts.lock().unwrap().len()).unwrap()
    {
        assert!(Instant::now() < until);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn cancelled_call_ends() {
    for (what, replaced) in [("cancels", false), ("silent", true)] {
        let bench = Bench::fake(what);
        let plugin = bench.plugin("a", b"wasm");
        bench.hosts.prepare(&plugin).await.unwrap();
        let cancel = CancellationToken::new();
        let broker = Arc::clone(&bench.asked) as Arc<dyn Broker>;
        let call = bench.hosts.call(&plugin, "f", "{}", broker, cancel.clone());
        let (result, ()) = tokio::join!(call, async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            cancel.cancel();
        });
        // A process that answers in time is kept.
        assert_eq!(result.is_ok(), !replaced, "{what}: {result:?}");
        assert_eq!(bench.hosts.prepare(&plugin).await.unwrap().process.is_some(), replaced, "{what}");
    }
}

async fn dropped_call_future_cancels() {
    for (what, replaced) in [("cancels", false), ("silent", true)] {
        let bench = Bench::fake(what);
        let mut plugin = bench.plugin("a", b"wasm");
        plugin.limits.wall = Duration::from_secs(60);
        bench.hosts.prepare(&plugin).await.unwrap();
        let call = bench.call(&plugin, "f", "{}");
        assert!(tokio::time::timeout(Duration::from_millis(50), call).await.is_err());
        // The process has two seconds.
        tokio::time::sleep(Duration::from_millis(2500)).await;
        assert_eq!(bench.hosts.prepare(&plugin).await.unwrap().process.is_some(), replaced, "{what}");
    }
}

async fn compiler_exceeding_limits_is_ended() {
    for (what, why) in [
        ("compiles-forever", "takes more than 500ms"),
        ("compiles-everything", "more memory"),
        ("compiles-nonsense", "said something else"),
    ] {
        let bench = Bench::with(
            &["fake", what],
            |o| {
                if what == "compiles-forever" {
                    o.compile_time = Duration::from_millis(500);
                }
                o.compile_memory = Bytes::mib(96);
            },
            Asked::default(),
        );
        let error = bench.hosts.describe(b"wasm").await.unwrap_err();
        assert!(matches!(&error, LoadError::Compile { .. }), "{what}: {error:?}");
        let message = error.to_string();
        // Without a cgroup the program's allocation fails, and it aborts by itself.
        let aborted = what == "compiles-everything" && message.contains("SIG");
        assert!(message.contains(why) || aborted, "{what}: {message}");
    }
}

async fn changed_component_is_not_run() {
    let bench = Bench::fake("good");
    let plugin = bench.plugin("a", b"wasm");
    std::fs::write(&plugin.wasm, b"evil").unwrap();
    let message = bench.host_error(&plugin, "{}").await;
    assert!(message.contains("was changed"), "{message}");
    std::fs::remove_file(&plugin.wasm).unwrap();
    assert!(bench.host_error(&plugin, "{}").await.contains("cannot be read"));
}
