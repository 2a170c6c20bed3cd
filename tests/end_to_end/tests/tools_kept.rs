//! Instances of plugins that are kept for a caller, and handles of their resources, as clients see them.

use hotcell_end_to_end::mcp::{Local, SESSIONS, STATELESS, two_callers};
use hotcell_end_to_end::{User, everyone};
use serde_json::json;

use super::tools::write;
use super::tools_mcp::of;

/// Counters as a resource, state without one, and a trap.
const COUNTS: &str = r#"(component
    (type $r (resource (rep i32)))
    (core func $new (canon resource.new $r))
    (core module $m
        (import "" "new" (func $new (param i32) (result i32)))
        (memory 1)
        (global $last (mut i32) (i32.const 0))
        (func (export "make") (result i32)
            (global.set $last (i32.add (global.get $last) (i32.const 4)))
            (call $new (global.get $last)))
        (func (export "up") (param i32) (result i32)
            (i32.store (local.get 0) (i32.add (i32.load (local.get 0)) (i32.const 1)))
            (i32.load (local.get 0)))
        (func (export "stop") unreachable))
    (core instance $i (instantiate $m (with "" (instance (export "new" (func $new))))))
    (export $counter "counter" (type $r))
    (func (export "[constructor]counter") (result (own $counter)) (canon lift (core func $i "make")))
    (func (export "[method]counter.up") (param "self" (borrow $counter)) (result u32) (canon lift (core func $i "up")))
    (func (export "stop") (canon lift (core func $i "stop"))))"#;

const NAMES: [&str; 4] = ["counts_counter_new", "counts_counter_up", "counts_drop-handle", "counts_stop"];

#[test]
fn handle_persists_for_its_caller() {
    everyone(|user| {
        write(user, "counts.wasm", COUNTS);
        user.hotcell(["tool", "add", "counts.wasm"]).end().code(0);
        let page = user.hotcell(["tool", "inspect", "counts"]).end().code(0).text();
        assert!(page.contains("an instance for each caller"), "{page}");
        let page = user.hotcell(["tool", "inspect", "counts", "--json"]).end().code(0).json();
        assert_eq!(page["session"], true);
        for revision in [SESSIONS, STATELESS] {
            let mut client = Local::start(user, revision);
            assert_eq!(of("counts", &mut client), NAMES);
            let made = client.good("counts_counter_new", &json!({}));
            let handle = json!({ "handle": made["result"] });
            for wanted in [1, 2] {
                assert_eq!(client.good("counts_counter_up", &handle), json!({ "result": wanted }));
            }
            client.good("counts_drop-handle", &handle);
            let gone = client.bad("counts_counter_up", &handle);
            assert!(gone.contains("no such handle"), "{gone}");
            let made = client.good("counts_counter_new", &json!({}));
            let trapped = client.call("counts_stop", &json!({}));
            assert!(trapped["content"].to_string().contains("begin anew"), "{trapped:#}");
            let again = client.bad("counts_counter_up", &json!({ "handle": made["result"] }));
            assert_eq!(again, gone);
            assert_eq!(client.end().0, Some(0));
        }
        // A command is a session of its own, and says so.
        user.hotcell(["tool", "call", "counts_counter_new"]).end().code(0).says("end with this command");
    });
}

#[test]
fn handle_of_another_caller_is_unknown() {
    let user = User::me();
    let (server, [one, two]) = two_callers(&user);
    let add = |text: &str| {
        write(&user, "counts.wasm", text);
        let state = user.path("state");
        user.hotcell(["tool", "add", "counts.wasm", "--state", state.to_str().unwrap()]).end().code(0);
    };
    add(COUNTS);
    let made = |token: &str| {
        server.call(token, "counts_counter_new", &json!({}))["structuredContent"]["result"].clone()
    };
    let up = |token: &str, handle: &serde_json::Value| {
        server.call(token, "counts_counter_up", &json!({ "handle": handle }))
    };
    let (mine, theirs) = (made(&one), made(&two));
    let forged = json!(format!("counter_{}", "0".repeat(32)));
    let none = up(&one, &forged);
    assert_eq!(none["isError"], true, "{none:#}");
    assert_eq!(up(&one, &theirs), none);
    assert_eq!(up(&two, &mine), none);
    assert_eq!(up(&one, &mine)["structuredContent"], json!({ "result": 1 }));
    assert_eq!(server.call(&two, "counts_stop", &json!({}))["isError"], true);
    assert_eq!(up(&one, &mine)["structuredContent"], json!({ "result": 2 }), "another caller's trap");
    assert_eq!(up(&two, &theirs), none);
    // Another component ends the instances of the old one.
    add(&COUNTS.replace("(memory 1)", "(memory 2)"));
    assert_eq!(up(&one, &mine), none);
}
