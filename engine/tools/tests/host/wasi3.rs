//! Components for WASI 0.3, whose functions may be asynchronous.

use std::time::Duration;

use hotcell_tools::{CallError, Limit, Prepared};

use crate::support::{component, run};

/// An asynchronous function that waits for this number of nanoseconds, and returns 7.
fn waiting(nanoseconds: u64) -> Prepared {
    component(&format!(
        r#"(component
            (import "wasi:clocks/monotonic-clock@0.3.0" (instance $clock
                (export "wait-for" (func async (param "how-long" u64)))))
            (core func $wait (canon lower (func $clock "wait-for")))
            (core func $return (canon task.return (result u32)))
            (core module $m
                (import "" "wait" (func $wait (param i64)))
                (import "" "return" (func $return (param i32)))
                (func (export "run") (result i32)
                    (call $wait (i64.const {nanoseconds})) (call $return (i32.const 7)) (i32.const 0))
                (func (export "callback") (param i32 i32 i32) (result i32) unreachable))
            (core instance $i (instantiate $m (with "" (instance
                (export "wait" (func $wait)) (export "return" (func $return))))))
            (func (export "run") async (result u32)
                (canon lift (core func $i "run") async (callback (core func $i "callback")))))"#
    ))
}

#[tokio::test]
async fn asynchronous_function_is_callable() {
    let answer = run(&waiting(1_000_000), |_| {}).await.expect("an answer");
    assert_eq!(answer.value.get(), r#"{"result":7}"#);
}

#[tokio::test]
async fn asynchronous_sleep_hits_wall_limit() {
    let limits = |request: &mut hotcell_tools::CallRequest| request.limits.wall = Duration::from_millis(200);
    let error = run(&waiting(3_600_000_000_000), limits).await.expect_err("it sleeps");
    assert!(matches!(error, CallError::Limit { limit: Limit::Wall, .. }), "{error:?}");
}
