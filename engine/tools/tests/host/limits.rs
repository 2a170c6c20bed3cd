//! Each limit is reached by a guest that tries to, and is named in the error.

use std::time::{Duration, Instant};

use hotcell_sandbox::Bytes;
use hotcell_tools::{CallError, Limit, Limits, Prepared};

use crate::support::{component, module, run};

/// Calls the component with these limits, and expects this one to be reached.
async fn reaches(limit: Limit, limits: Limits, prepared: &Prepared) {
    let started = Instant::now();
    let error = run(prepared, |request| request.limits = limits).await.expect_err("it goes too far");
    assert!(
        matches!(&error, CallError::Limit { limit: reached, .. } if *reached == limit),
        "{limit}: {error:?}"
    );
    // The wall limit is ten seconds: only the test of that limit may wait for it.
    assert!(started.elapsed() < Duration::from_secs(9), "{limit} took {:?}", started.elapsed());
}

fn short() -> Limits {
    Limits { wall: Duration::from_millis(200), ..Limits::default() }
}

#[tokio::test]
async fn endless_loop_hits_wall_limit() {
    reaches(Limit::Wall, short(), &module(r#"(func (export "run") (loop br 0))"#)).await;
}

#[tokio::test]
async fn endless_start_function_hits_wall_limit() {
    reaches(Limit::Wall, short(), &module(r#"(func $s (loop br 0)) (start $s) (func (export "run"))"#)).await;
}

#[tokio::test]
async fn sleep_in_host_hits_wall_limit() {
    reaches(Limit::Wall, short(), &sleeper()).await;
}

/// Sleeps for an hour.
pub fn sleeper() -> Prepared {
    component(
        r#"(component
            (import "wasi:io/poll@0.2.0" (instance $poll
                (export "pollable" (type $p (sub resource)))
                (export "[method]pollable.block" (func (param "self" (borrow $p))))))
            (alias export $poll "pollable" (type $pollable))
            (import "wasi:clocks/monotonic-clock@0.2.0" (instance $clock
                (alias outer 1 $pollable (type $q))
                (export "pollable" (type $p (eq $q)))
                (export "subscribe-duration" (func (param "when" u64) (result (own $p))))))
            (core func $block (canon lower (func $poll "[method]pollable.block")))
            (core func $sleep (canon lower (func $clock "subscribe-duration")))
            (core module $m
                (import "" "sleep" (func $sleep (param i64) (result i32)))
                (import "" "block" (func $block (param i32)))
                (func (export "run") (call $block (call $sleep (i64.const 3600000000000)))))
            (core instance $i (instantiate $m (with "" (instance
                (export "sleep" (func $sleep)) (export "block" (func $block))))))
            (func (export "run") (canon lift (core func $i "run"))))"#,
    )
}

#[tokio::test]
async fn endless_loops_do_not_keep_others_from_running() {
    let endless = module(r#"(func (export "run") (loop br 0))"#);
    let quick = module(r#"(func (export "run"))"#);
    let limits = Limits { wall: Duration::from_secs(3), ..Limits::default() };
    let (slow, started) = (run(&endless, |request| request.limits = limits), Instant::now());
    let others = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        for _ in 0..20 {
            run(&quick, |_| {}).await.expect("it runs");
        }
        started.elapsed()
    };
    // Both on the single thread of this test.
    let (slow, others) = tokio::join!(slow, others);
    assert!(slow.is_err() && others < Duration::from_secs(3), "{others:?}");
}

#[tokio::test]
async fn memory_growth_hits_limit() {
    let greedy = |start: u32, more: u32| {
        module(&format!(
            r#"(memory {start}) (func (export "run")
                (if (i32.eq (memory.grow (i32.const {more})) (i32.const -1)) (then unreachable)))"#
        ))
    };
    reaches(Limit::Memory, Limits::default(), &greedy(1, 1024)).await;
    reaches(Limit::Memory, Limits::default(), &greedy(1025, 0)).await;
    let answer = run(&greedy(1, 1023), |_| {}).await.expect("all that there is");
    assert_eq!(answer.peak_memory, 64 << 20);
}

#[tokio::test]
async fn several_memories_share_one_limit() {
    let twice = |pages: u32| {
        component(&format!(
            r#"(component
                (core module $m (memory {pages}) (func (export "run")))
                (core instance $a (instantiate $m))
                (core instance $b (instantiate $m))
                (func (export "run") (canon lift (core func $b "run"))))"#
        ))
    };
    reaches(Limit::Memory, Limits::default(), &twice(513)).await;
    run(&twice(512), |_| {}).await.expect("all that there is");
}

#[tokio::test]
async fn refused_growth_may_be_survived() {
    let modest = module(
        r#"(memory 1) (func (export "run")
            (if (i32.ne (memory.grow (i32.const 65000)) (i32.const -1)) (then unreachable)))"#,
    );
    run(&modest, |_| {}).await.expect("it goes on without");
}

#[tokio::test]
async fn tables_are_limited_in_length_and_number() {
    let long = r#"(table 1 funcref) (func (export "run")
        (if (i32.eq (table.grow 0 (ref.null func) (i32.const 20000)) (i32.const -1)) (then unreachable)))"#;
    reaches(Limit::TableElements, Limits::default(), &module(long)).await;
    reaches(
        Limit::TableElements,
        Limits::default(),
        &module(r#"(table 20001 funcref) (func (export "run"))"#),
    )
    .await;
    let many = format!("{} (func (export \"run\"))", "(table 1 funcref)".repeat(5));
    reaches(Limit::Tables, Limits { tables: 4, ..Limits::default() }, &module(&many)).await;
}

#[tokio::test]
async fn excess_instances_are_refused() {
    let many = format!(
        r#"(component (core module $m (func (export "run"))) {}
            (core instance $i (instantiate $m)) (func (export "run") (canon lift (core func $i "run"))))"#,
        "(core instance (instantiate $m))".repeat(32)
    );
    reaches(Limit::Instances, Limits::default(), &component(&many)).await;
}

#[tokio::test]
async fn excess_handles_are_refused() {
    let bomb = component(
        r#"(component
            (type $r (resource (rep i32)))
            (core func $new (canon resource.new $r))
            (core module $m (import "" "new" (func $new (param i32) (result i32)))
                (func (export "run") (loop (drop (call $new (i32.const 1))) (br 0))))
            (core instance $i (instantiate $m (with "" (instance (export "new" (func $new))))))
            (func (export "run") (canon lift (core func $i "run"))))"#,
    );
    reaches(Limit::Handles, Limits::default(), &bomb).await;
}

#[tokio::test]
async fn excess_host_resources_are_refused() {
    let bomb = component(
        r#"(component
            (import "wasi:http/types@0.2.0" (instance $http
                (export "fields" (type $f (sub resource)))
                (export "[constructor]fields" (func (result (own $f))))))
            (core func $new (canon lower (func $http "[constructor]fields")))
            (core module $m (import "" "new" (func $new (result i32)))
                (func (export "run") (loop (drop (call $new)) (br 0))))
            (core instance $i (instantiate $m (with "" (instance (export "new" (func $new))))))
            (func (export "run") (canon lift (core func $i "run"))))"#,
    );
    reaches(Limit::Resources, Limits { handles: 100_000, ..Limits::default() }, &bomb).await;
    reaches(Limit::Handles, Limits { resources: 100_000, ..Limits::default() }, &bomb).await;
}

#[tokio::test]
async fn blobs_count_as_memory() {
    let bomb = component(
        r#"(component
            (import "hotcell:tool/blob@0.1.0" (instance $blobs
                (export "blob" (type $b (sub resource)))
                (export "[constructor]blob" (func (param "bytes" (list u8)) (result (own $b))))))
            (core module $memory (memory (export "memory") 17))
            (core instance $memory (instantiate $memory))
            (core func $new (canon lower (func $blobs "[constructor]blob") (memory (core memory $memory "memory"))))
            (core module $m (import "" "new" (func $new (param i32 i32) (result i32)))
                (func (export "run") (loop (drop (call $new (i32.const 0) (i32.const 1048576))) (br 0))))
            (core instance $i (instantiate $m (with "" (instance (export "new" (func $new))))))
            (func (export "run") (canon lift (core func $i "run"))))"#,
    );
    reaches(Limit::Memory, Limits::default(), &bomb).await;
}

#[tokio::test]
async fn random_byte_requests_are_bounded() {
    let random = |bytes: u64| {
        component(&format!(
            r#"(component
            (import "wasi:random/random@0.2.0" (instance $random
                (export "get-random-bytes" (func (param "len" u64) (result (list u8))))))
            (core module $memory (memory (export "memory") 40)
                (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024)))
            (core instance $memory (instantiate $memory))
            (core func $get (canon lower (func $random "get-random-bytes")
                (memory (core memory $memory "memory")) (realloc (core func $memory "realloc"))))
            (core module $m (import "" "get" (func $get (param i64 i32)))
                (func (export "run") (call $get (i64.const {bytes}) (i32.const 0))))
            (core instance $i (instantiate $m (with "" (instance (export "get" (func $get))))))
            (func (export "run") (canon lift (core func $i "run"))))"#
        ))
    };
    run(&random(1 << 20), |_| {}).await.expect("a mebibyte is fine");
    for bytes in [(1 << 20) + 1, u64::MAX] {
        let error = run(&random(bytes), |_| {}).await.expect_err("more than the host makes at once");
        assert!(
            matches!(&error, CallError::Trap { message, .. } if message.contains("exceeds limit 1048576")),
            "{error:?}"
        );
    }
}

/// A function whose result of this type is read from the beginning of a memory of 1 MiB that `fill` has
/// written to.
fn answering(ty: &str, fill: &str) -> Prepared {
    component(&format!(
        r#"(component
            (core module $m (memory (export "memory") 17) (func (export "run") (result i32) {fill} (i32.const 0)))
            (core instance $i (instantiate $m))
            (func (export "run") (result {ty}) (canon lift (core func $i "run") (memory (core memory $i "memory")))))"#
    ))
}

#[tokio::test]
async fn four_gigabyte_and_repeated_texts_are_refused() {
    let claims = answering(
        "string",
        "(i32.store (i32.const 0) (i32.const 8)) (i32.store (i32.const 4) (i32.const -1))",
    );
    let error = run(&claims, |_| {}).await.expect_err("there is no such text");
    assert!(matches!(&error, CallError::Trap { .. }), "{error:?}");
    // 100 texts that all refer to one mebibyte.
    let repeats = answering(
        "(list string)",
        r#"(local $at i32)
        (i32.store (i32.const 0) (i32.const 16)) (i32.store (i32.const 4) (i32.const 100))
        (local.set $at (i32.const 16))
        (loop
            (i32.store (local.get $at) (i32.const 0))
            (i32.store offset=4 (local.get $at) (i32.const 1048576))
            (br_if 0 (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 8))) (i32.const 816))))"#,
    );
    reaches(Limit::Copied, Limits::default(), &repeats).await;
    let asks = component(
        r#"(component
            (import "hotcell:tool/kv@0.1.0" (instance $kv
                (type $e (enum "too-large" "full" "unavailable"))
                (export "error" (type $error (eq $e)))
                (export "delete" (func (param "key" string) (result (result (error $error)))))))
            (core module $memory (memory (export "memory") 32))
            (core instance $memory (instantiate $memory))
            (core func $delete (canon lower (func $kv "delete") (memory (core memory $memory "memory"))))
            (core module $m (import "" "delete" (func $delete (param i32 i32 i32)))
                (func (export "run") (call $delete (i32.const 0) (i32.const 2000000) (i32.const 0))))
            (core instance $i (instantiate $m (with "" (instance (export "delete" (func $delete))))))
            (func (export "run") (canon lift (core func $i "run"))))"#,
    );
    reaches(Limit::Copied, Limits { copied: Bytes::mib(1), ..Limits::default() }, &asks).await;
}

#[tokio::test]
async fn oversized_result_is_refused() {
    let long = answering(
        "string",
        "(i32.store (i32.const 4) (i32.const 1048576)) (memory.fill (i32.const 8) (i32.const 120) (i32.const 1048576)) (i32.store (i32.const 0) (i32.const 8))",
    );
    reaches(Limit::Result, Limits { result: Bytes::kib(512), ..Limits::default() }, &long).await;
    run(&long, |_| {}).await.expect("a mebibyte is fine");
}

#[tokio::test]
async fn deeply_nested_list_is_refused() {
    let deep = answering(
        &format!("{}u32{}", "(list ".repeat(20), ")".repeat(20)),
        "(i32.store (i32.const 0) (i32.const 0)) (i32.store (i32.const 4) (i32.const 1))",
    );
    reaches(Limit::Depth, Limits { depth: 16, ..Limits::default() }, &deep).await;
    run(&deep, |_| {}).await.expect("an answer, though the list is its own element");
    // Each list contains itself three times, twenty levels deep: three and a half thousand million elements.
    let wide = answering(
        &format!("{}u32{}", "(list ".repeat(20), ")".repeat(20)),
        "(i64.store (i32.const 0) (i64.const 0x300000000)) (i64.store (i32.const 8) (i64.const 0x300000000))
        (i64.store (i32.const 16) (i64.const 0x300000000))",
    );
    reaches(Limit::Copied, Limits::default(), &wide).await;
}

#[tokio::test]
async fn oversized_arguments_are_refused() {
    let plain = module(r#"(func (export "run"))"#);
    let error = run(&plain, |request| {
        request.limits.arguments = Bytes(100);
        request.arguments = format!("{{{}}}", " ".repeat(100));
    });
    let error = error.await.expect_err("too long");
    assert_eq!(error, CallError::Limit { limit: Limit::Arguments, value: "100 B".to_owned() });
}

#[tokio::test]
async fn endless_recursion_hits_stack_limit() {
    reaches(Limit::Stack, Limits::default(), &module(r#"(func $f (export "run") (call $f))"#)).await;
}

/// Writes `bytes` bytes from address 0 of its memory to standard output, `times` times.
fn printer(bytes: u32, times: u32) -> Prepared {
    component(&format!(
        r#"(component
            (import "wasi:io/error@0.2.0" (instance $e (export "error" (type (sub resource)))))
            (alias export $e "error" (type $error))
            (import "wasi:io/streams@0.2.0" (instance $streams
                (alias outer 1 $error (type $o))
                (export "output-stream" (type $stream (sub resource)))
                (export "error" (type $er (eq $o)))
                (type $se (variant (case "last-operation-failed" (own $er)) (case "closed")))
                (export "stream-error" (type $streamerror (eq $se)))
                (export "[method]output-stream.blocking-write-and-flush"
                    (func (param "self" (borrow $stream)) (param "contents" (list u8)) (result (result (error $streamerror)))))))
            (alias export $streams "output-stream" (type $output))
            (import "wasi:cli/stdout@0.2.0" (instance $stdout
                (alias outer 1 $output (type $o))
                (export "output-stream" (type $s (eq $o)))
                (export "get-stdout" (func (result (own $s))))))
            (core module $memory (memory (export "memory") 1) (data (i32.const 0) "{{\"jsonrpc\":\"2.0\"}}\n"))
            (core instance $memory (instantiate $memory))
            (core func $get (canon lower (func $stdout "get-stdout")))
            (core func $write (canon lower (func $streams "[method]output-stream.blocking-write-and-flush") (memory (core memory $memory "memory"))))
            (core module $m
                (import "" "get" (func $get (result i32)))
                (import "" "write" (func $write (param i32 i32 i32 i32)))
                (func (export "run") (local $n i32) (local $out i32)
                    (local.set $out (call $get))
                    (loop
                        (call $write (local.get $out) (i32.const 0) (i32.const {bytes}) (i32.const 8192))
                        (br_if 0 (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const {times}))))))
            (core instance $i (instantiate $m (with "" (instance (export "get" (func $get)) (export "write" (func $write))))))
            (func (export "run") (canon lift (core func $i "run"))))"#
    ))
}

#[tokio::test]
async fn guest_output_is_captured_and_limited() {
    let answer = run(&printer(18, 2), |_| {}).await.expect("an answer");
    assert_eq!(answer.stdout, "{\"jsonrpc\":\"2.0\"}\n{\"jsonrpc\":\"2.0\"}\n");
    reaches(Limit::Output, Limits::default(), &printer(4096, u32::MAX)).await;
}

#[tokio::test]
async fn cancelled_sleeping_guest_ends_within_second() {
    let sleeper = sleeper();
    let started = Instant::now();
    let error = run(&sleeper, |request| {
        let cancel = request.cancel.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            cancel.cancel();
        });
    });
    assert_eq!(error.await.expect_err("cancelled"), CallError::Cancelled);
    assert!(
        (Duration::from_secs(1)..Duration::from_secs(8)).contains(&started.elapsed()),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test]
async fn excess_calls_of_component_wait() {
    let sleeper = sleeper();
    let limits = Limits { concurrent: 1, wall: Duration::from_millis(300), ..Limits::default() };
    let one = || run(&sleeper, |request| request.limits = limits.clone());
    let started = Instant::now();
    let (first, second) = tokio::join!(one(), one());
    assert!(
        first.is_err() && second.is_err() && started.elapsed() >= Duration::from_millis(600),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test]
async fn abandoned_call_frees_its_place() {
    let sleeper = sleeper();
    for _ in 0..64 {
        let call = run(&sleeper, |_| {});
        tokio::time::timeout(Duration::from_millis(2), call).await.expect_err("it sleeps");
    }
    run(&module(r#"(func (export "run"))"#), |_| {}).await.expect("there is room in the pool");
}

#[tokio::test]
async fn trap_messages_name_the_cause() {
    for (core, wanted) in [
        (r#"(func (export "run") unreachable)"#, "unreachable"),
        (r#"(func $s unreachable) (start $s) (func (export "run"))"#, "unreachable"),
        (
            r#"(memory 1) (func (export "run") (drop (i32.load (i32.const 65536))))"#,
            "out of bounds memory access",
        ),
        (r#"(func (export "run") (drop (i32.div_u (i32.const 1) (i32.const 0))))"#, "divide by zero"),
    ] {
        let error = run(&module(core), |_| {}).await.expect_err("a trap");
        assert!(
            matches!(&error, CallError::Trap { message, .. } if message.contains(wanted)),
            "{core}: {error:?}"
        );
    }
    let after = component(
        r#"(component
            (core module $m (memory (export "memory") 1)
                (func (export "run") (result i32) (i32.const 0)) (func (export "after") (param i32) unreachable))
            (core instance $i (instantiate $m))
            (func (export "run") (result string)
                (canon lift (core func $i "run") (memory (core memory $i "memory")) (post-return (core func $i "after")))))"#,
    );
    let error = run(&after, |_| {}).await.expect_err("a trap");
    assert!(
        matches!(&error, CallError::Trap { message, .. } if message.contains("unreachable")),
        "{error:?}"
    );
}

#[tokio::test]
async fn guest_exit_is_an_error() {
    for status in [0, 1] {
        let exits = component(&format!(
            r#"(component
                (import "wasi:cli/exit@0.2.0" (instance $cli (export "exit" (func (param "status" (result))))))
                (core func $exit (canon lower (func $cli "exit")))
                (core module $m (import "" "exit" (func $exit (param i32))) (func (export "run") (call $exit (i32.const {status}))))
                (core instance $i (instantiate $m (with "" (instance (export "exit" (func $exit))))))
                (func (export "run") (canon lift (core func $i "run"))))"#
        ));
        let error = run(&exits, |_| {}).await.expect_err("no answer");
        assert!(
            matches!(&error, CallError::Trap { message, .. } if message.contains(&format!("status {status}"))),
            "{error:?}"
        );
    }
}
