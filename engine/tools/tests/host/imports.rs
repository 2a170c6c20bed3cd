//! A guest's questions reach the broker, and its denials are reported.

use std::sync::Arc;

use hotcell_tools::ask::Refused;
use hotcell_tools::{Ask, CallError, Limit, Prepared, Reply};

use crate::support::{Played, component, run};

/// Writes a log line, asks twice for the setting `two`, runs `end`, and returns the kind of the second reply.
fn guest(end: &str) -> Prepared {
    component(&format!(
        r#"(component
            (import "hotcell:tool/config@0.1.0" (instance $config
                (type $e (enum "denied" "unavailable"))
                (export "error" (type $error (eq $e)))
                (export "get" (func (param "key" string) (result (result (option string) (error $error)))))))
            (import "hotcell:tool/log@0.1.0" (instance $log
                (type $l (enum "debug" "info" "warn" "error"))
                (export "level" (type $level (eq $l)))
                (export "write" (func (param "level" $level) (param "message" string)))))
            (core module $memory (memory (export "memory") 1) (data (i32.const 8) "two\nlines")
                (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 512)))
            (core instance $memory (instantiate $memory))
            (core func $get (canon lower (func $config "get")
                (memory (core memory $memory "memory")) (realloc (core func $memory "realloc"))))
            (core func $log (canon lower (func $log "write") (memory (core memory $memory "memory"))))
            (core module $m
                (import "" "memory" (memory 1))
                (import "" "get" (func $get (param i32 i32 i32)))
                (import "" "log" (func $log (param i32 i32 i32)))
                (func (export "run") (result i32)
                    (call $log (i32.const 2) (i32.const 8) (i32.const 9))
                    (call $get (i32.const 8) (i32.const 3) (i32.const 64))
                    (call $get (i32.const 8) (i32.const 3) (i32.const 64))
                    ;; result: err, then which
                    {end}
                    (i32.add (i32.mul (i32.load8_u (i32.const 64)) (i32.const 10)) (i32.load8_u (i32.const 68)))))
            (core instance $i (instantiate $m (with "" (instance
                (export "memory" (memory $memory "memory")) (export "get" (func $get)) (export "log" (func $log))))))
            (func (export "run") (result u32) (canon lift (core func $i "run"))))"#
    ))
}

/// Denies every setting.
fn strict() -> Arc<Played> {
    Played::new(|ask| match ask {
        Ask::Config { key } => Reply::Refused { why: Refused::Denied(format!("config={key}")) },
        _ => Reply::Done,
    })
}

#[tokio::test]
async fn answer_lists_denied_imports() {
    let broker = strict();
    let answer = run(&guest(""), |request| request.broker = broker.clone()).await.expect("an answer");
    assert_eq!(answer.value.get(), r#"{"result":10}"#, "an error, and the first of the two");
    assert_eq!(answer.denied, ["config=two"], "once, though it asked twice");
    let log = Ask::Log { level: "warn".to_owned(), message: "two lines".to_owned() };
    assert_eq!(broker.asked()[..2], [log, Ask::Config { key: "two".to_owned() }]);
}

#[tokio::test]
async fn trap_after_denial_names_it() {
    let error = run(&guest("unreachable"), |request| request.broker = strict())
        .await
        .expect_err("a trap")
        .to_string();
    assert!(error.contains("unreachable") && error.contains("it had been denied config=two"), "{error}");
}

// All of WASI is linked for every component, but gives it no access.
#[tokio::test]
async fn sockets_and_names_are_denied() {
    let guest = component(
        r#"(component
            (import "wasi:sockets/network@0.2.0" (instance $network
                (export "network" (type (sub resource)))
                (type $e (enum "unknown" "access-denied" "not-supported" "invalid-argument" "out-of-memory" "timeout"
                    "concurrency-conflict" "not-in-progress" "would-block" "invalid-state" "new-socket-limit" "address-not-bindable"
                    "address-in-use" "remote-unreachable" "connection-refused" "connection-reset" "connection-aborted"
                    "datagram-too-large" "name-unresolvable" "temporary-resolver-failure" "permanent-resolver-failure"))
                (export "error-code" (type (eq $e)))
                (type $f (enum "ipv4" "ipv6"))
                (export "ip-address-family" (type (eq $f)))))
            (alias export $network "network" (type $net))
            (alias export $network "error-code" (type $error))
            (alias export $network "ip-address-family" (type $family))
            (import "wasi:sockets/instance-network@0.2.0" (instance $instance
                (alias outer 1 $net (type $n)) (export "network" (type $nn (eq $n)))
                (export "instance-network" (func (result (own $nn))))))
            (import "wasi:sockets/tcp@0.2.0" (instance $tcp (export "tcp-socket" (type (sub resource)))))
            (alias export $tcp "tcp-socket" (type $tcps))
            (import "wasi:sockets/udp@0.2.0" (instance $udp (export "udp-socket" (type (sub resource)))))
            (alias export $udp "udp-socket" (type $udps))
            (import "wasi:sockets/tcp-create-socket@0.2.0" (instance $newtcp
                (alias outer 1 $error (type $e)) (export "error-code" (type $ee (eq $e)))
                (alias outer 1 $family (type $f)) (export "ip-address-family" (type $ff (eq $f)))
                (alias outer 1 $tcps (type $s)) (export "tcp-socket" (type $ss (eq $s)))
                (export "create-tcp-socket" (func (param "address-family" $ff) (result (result (own $ss) (error $ee)))))))
            (import "wasi:sockets/udp-create-socket@0.2.0" (instance $newudp
                (alias outer 1 $error (type $e)) (export "error-code" (type $ee (eq $e)))
                (alias outer 1 $family (type $f)) (export "ip-address-family" (type $ff (eq $f)))
                (alias outer 1 $udps (type $s)) (export "udp-socket" (type $ss (eq $s)))
                (export "create-udp-socket" (func (param "address-family" $ff) (result (result (own $ss) (error $ee)))))))
            (import "wasi:sockets/ip-name-lookup@0.2.0" (instance $lookup
                (alias outer 1 $net (type $n)) (export "network" (type $nn (eq $n)))
                (alias outer 1 $error (type $e)) (export "error-code" (type $ee (eq $e)))
                (export "resolve-address-stream" (type $s (sub resource)))
                (export "resolve-addresses"
                    (func (param "network" (borrow $nn)) (param "name" string) (result (result (own $s) (error $ee)))))))
            (core module $memory (memory (export "memory") 1) (data (i32.const 8) "localhost"))
            (core instance $memory (instantiate $memory))
            (alias core export $memory "memory" (core memory $mem))
            (core func $net (canon lower (func $instance "instance-network")))
            (core func $tcp (canon lower (func $newtcp "create-tcp-socket") (memory $mem)))
            (core func $udp (canon lower (func $newudp "create-udp-socket") (memory $mem)))
            (core func $name (canon lower (func $lookup "resolve-addresses") (memory $mem)))
            (core module $m
                (import "" "memory" (memory 1)) (import "" "net" (func $net (result i32)))
                (import "" "tcp" (func $tcp (param i32 i32))) (import "" "udp" (func $udp (param i32 i32)))
                (import "" "name" (func $name (param i32 i32 i32 i32)))
                ;; Of each result: 10 for an error, and which.
                (func $digits (param i32) (result i32)
                    (i32.add (i32.mul (i32.load8_u (local.get 0)) (i32.const 10)) (i32.load8_u offset=4 (local.get 0))))
                (func (export "run") (result i32)
                    (call $tcp (i32.const 0) (i32.const 64))
                    (call $udp (i32.const 1) (i32.const 80))
                    (call $name (call $net) (i32.const 8) (i32.const 9) (i32.const 96))
                    (i32.add (i32.mul (call $digits (i32.const 64)) (i32.const 10000))
                        (i32.add (i32.mul (call $digits (i32.const 80)) (i32.const 100)) (call $digits (i32.const 96))))))
            (core instance $i (instantiate $m (with "" (instance (export "memory" (memory $mem)) (export "net" (func $net))
                (export "tcp" (func $tcp)) (export "udp" (func $udp)) (export "name" (func $name))))))
            (func (export "run") (result u32) (canon lift (core func $i "run"))))"#,
    );
    let answer = run(&guest, |_| {}).await.expect("an answer");
    assert_eq!(
        answer.value.get(),
        r#"{"result":111130}"#,
        "access-denied twice, and a name that is never resolved"
    );
}

#[tokio::test]
async fn blob_reaches_caller_as_text_uncopied() {
    let echo = component(
        r#"(component
            (import "hotcell:tool/blob@0.1.0" (instance $blobs
                (export "blob" (type $b (sub resource)))
                (export "[method]blob.length" (func (param "self" (borrow $b)) (result u64)))))
            (alias export $blobs "blob" (type $blob))
            (core func $length (canon lower (func $blobs "[method]blob.length")))
            (core module $m
                (import "" "length" (func $length (param i32) (result i64)))
                (func (export "run") (param i32) (result i32)
                    (if (i64.ne (call $length (local.get 0)) (i64.const 3000000)) (then unreachable))
                    (local.get 0)))
            (core instance $i (instantiate $m (with "" (instance (export "length" (func $length))))))
            (func (export "run") (param "bytes" (own $blob)) (result (own $blob)) (canon lift (core func $i "run"))))"#,
    );
    let text = "QUJD".repeat(1_000_000);
    let arguments = format!(r#"{{"bytes":"{text}"}}"#);
    let answer = run(&echo, |request| request.arguments.clone_from(&arguments)).await.expect("an answer");
    assert!(answer.value.get() == format!(r#"{{"result":"{text}"}}"#));
    assert_eq!(answer.peak_memory, 3_000_000, "what the host keeps counts as memory");
    let error = run(&echo, |request| {
        request.arguments.clone_from(&arguments);
        request.limits.memory = hotcell_sandbox::Bytes::mib(1);
    });
    let error = error.await.expect_err("too much");
    assert!(matches!(error, CallError::Limit { limit: Limit::Memory, .. }), "{error:?}");
}
