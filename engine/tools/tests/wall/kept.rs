//! Instances that are kept for sessions, and handles of their resources, against callers and components that
//! do not keep to the rules.

use std::time::Duration;

use hotcell_tools::{CallError, HostsOptions, Limit, Limits, Plugin};
use serde_json::json;

use crate::place::{Asked, Bench, Test};

pub const TESTS: &[Test] = &[
    ("handles_belong_to_caller_and_match_type", || Box::pin(handles_belong_to_caller_and_match_type())),
    ("failed_instance_ends_and_others_continue", || Box::pin(failed_instance_ends_and_others_continue())),
    ("handles_and_instances_are_bounded", || Box::pin(handles_and_instances_are_bounded())),
    ("changed_grant_or_idle_time_ends_instance", || Box::pin(changed_grant_or_idle_time_ends_instance())),
];

const NEW: &str = "[constructor]counter";
const UP: &str = "[method]counter.up";
const FINISH: &str = "[static]counter.finish";
const DROP: &str = "[drop-handle]";

fn counter() -> Vec<u8> {
    wat::parse_str(include_str!("counter.wat")).unwrap()
}

/// A plugin of a caller, with short calls and few handles.
fn of(bench: &Bench, name: &str, caller: &str) -> Plugin {
    let mut plugin = bench.plugin(name, &counter());
    plugin.limits = Limits { wall: Duration::from_millis(500), handles: 8, ..plugin.limits };
    plugin.session = Some(caller.to_owned());
    plugin
}

async fn new(bench: &Bench, plugin: &Plugin, start: u32) -> String {
    let answer = bench.value(plugin, NEW, &json!({ "start": start }).to_string()).await;
    answer["result"].as_str().unwrap().to_owned()
}

fn handle(handle: &str) -> String {
    json!({ "handle": handle }).to_string()
}

/// The refusal of arguments.
async fn refusal(bench: &Bench, plugin: &Plugin, path: &str, arguments: &str) -> String {
    match bench.call(plugin, path, arguments).await {
        Err(CallError::Arguments { message, .. }) => message,
        other => panic!("{path} {arguments}: {other:?}"),
    }
}

async fn handles_belong_to_caller_and_match_type() {
    let bench = Bench::new(&["tool-host"]);
    let (alice, bob) = (of(&bench, "a", "alice"), of(&bench, "a", "bob"));
    let (a, b) = (new(&bench, &alice, 10).await, new(&bench, &alice, 20).await);
    assert!(a.starts_with("counter_") && a != b, "{a} {b}");
    for wanted in [11, 12] {
        assert_eq!(bench.value(&alice, UP, &handle(&a)).await["result"], wanted);
    }
    // One answer to all that are not handles of this caller: the text does not say which exist.
    let his = new(&bench, &bob, 1).await;
    let forged = format!("counter_{}", "0".repeat(32));
    let gone = refusal(&bench, &alice, UP, &handle(&forged)).await;
    assert!(gone.contains("no such handle"), "{gone}");
    for (who, text) in [(&bob, &a), (&alice, &his), (&alice, &"1".to_owned()), (&alice, &a.to_uppercase())] {
        for path in [UP, DROP] {
            assert_eq!(refusal(&bench, who, path, &handle(text)).await, gone, "{text}");
        }
    }
    assert_eq!(bench.value(&bob, UP, &handle(&his)).await["result"], 2);
    // A handle of another resource, and one that a call uses up and names twice.
    let timer = bench.value(&alice, "[constructor]timer", "{}").await["result"].as_str().unwrap().to_owned();
    assert!(refusal(&bench, &alice, UP, &handle(&timer)).await.contains("another resource"));
    let join = |own: &str, lent: &str| json!({ "own": own, "lent": lent }).to_string();
    assert!(refusal(&bench, &alice, "join", &join(&a, &a)).await.contains("named twice"));
    assert_eq!(refusal(&bench, &alice, "join", &join(&a, &forged)).await, gone);
    // Refused arguments used nothing up.
    assert_eq!(bench.value(&alice, "join", &join(&a, &b)).await["result"], 32);
    assert_eq!(refusal(&bench, &alice, UP, &handle(&a)).await, gone);
    assert_eq!(bench.value(&alice, FINISH, &json!({ "counter": b }).to_string()).await["result"], 20);
    assert_eq!(refusal(&bench, &alice, FINISH, &json!({ "counter": b }).to_string()).await, gone);
    assert_eq!(bench.value(&alice, "dropped", "{}").await["result"], 2);
    // Dropped by the caller: the component's own destructor runs.
    let c = new(&bench, &alice, 0).await;
    assert_eq!(bench.value(&alice, DROP, &handle(&c)).await, json!({}));
    assert_eq!(refusal(&bench, &alice, DROP, &handle(&c)).await, gone);
    assert_eq!(bench.value(&alice, "dropped", "{}").await["result"], 3);
    // State without a resource is the caller's as well.
    for wanted in [1, 2] {
        assert_eq!(bench.value(&alice, "calls", "{}").await["result"], wanted);
    }
    assert_eq!(bench.value(&bob, "calls", "{}").await["result"], 1);
    // Without a session an instance ends with its call, and gives no handles.
    let alone = Plugin { session: None, ..alice.clone() };
    let refused = bench.call(&alone, NEW, r#"{"start":1}"#).await;
    assert!(matches!(refused, Err(CallError::Refused { .. })), "{refused:?}");
    for _ in 0..2 {
        assert_eq!(bench.value(&alone, "calls", "{}").await["result"], 1);
    }
    bench.hosts.close().await;
}

async fn failed_instance_ends_and_others_continue() {
    let bench = Bench::new(&["tool-host"]);
    let (alice, bob) = (of(&bench, "a", "alice"), of(&bench, "a", "bob"));
    let his = new(&bench, &bob, 1).await;
    for (path, arguments, ends) in [
        ("fault", "{}", true),
        ("spin", "{}", true),
        ("grow", "{}", true),
        ("several", r#"{"n":9}"#, true),
        ("nothing", "{}", false),
        ("several", r#"{"n":"x"}"#, false),
        (
            "several",
            r#"{"n":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}"#,
            false,
        ),
    ] {
        let mine = new(&bench, &alice, 5).await;
        let failed = bench.call(&alice, path, arguments).await.unwrap_err();
        assert_eq!(failed.ends_instance(), ends, "{path}: {failed}");
        if ends {
            let gone = refusal(&bench, &alice, UP, &handle(&mine)).await;
            assert!(gone.contains("no such handle"), "{path}: {gone}");
            assert_eq!(bench.value(&alice, "calls", "{}").await["result"], 1, "{path}");
        } else {
            assert_eq!(bench.value(&alice, UP, &handle(&mine)).await["result"], 6, "{path}");
        }
    }
    let cancelled = tokio::time::timeout(Duration::from_millis(100), bench.call(&alice, "spin", "{}")).await;
    assert!(cancelled.is_err());
    assert_eq!(bench.value(&bob, UP, &handle(&his)).await["result"], 2, "another caller's goes on");
    assert_eq!(bench.hosts.failures(), 0);
    bench.hosts.close().await;
}

async fn handles_and_instances_are_bounded() {
    let bench = Bench::new(&["tool-host"]);
    let alice = of(&bench, "p0", "alice");
    let all = bench.value(&alice, "several", r#"{"n":7}"#).await;
    let first = new(&bench, &alice, 1).await;
    assert_eq!(all["result"].as_array().unwrap().len(), 7);
    // A flood of constructors is refused, and what there is stays.
    for path in [NEW, "several"] {
        let full = bench.call(&alice, path, r#"{"start":1}"#).await;
        assert!(
            matches!(&full, Err(CallError::Busy { message }) if message.contains("8 handles")),
            "{full:?}"
        );
    }
    assert_eq!(bench.value(&alice, UP, &handle(&first)).await["result"], 2);
    bench.value(&alice, DROP, &handle(all["result"][0].as_str().unwrap())).await;
    new(&bench, &alice, 1).await;
    // A list that does not fit ends the instance: the guest has given them away already.
    bench.value(&alice, DROP, &handle(all["result"][1].as_str().unwrap())).await;
    let full = bench.call(&alice, "several", r#"{"n":2}"#).await;
    assert!(matches!(full, Err(CallError::Limit { limit: Limit::Handles, .. })), "{full:?}");
    // Of one caller the longest idle instance makes room, and no other caller's does.
    let first = new(&bench, &alice, 1).await;
    let bob = of(&bench, "p0", "bob");
    let his = new(&bench, &bob, 1).await;
    for number in 1..=8 {
        new(&bench, &of(&bench, &format!("p{number}"), "alice"), 1).await;
    }
    refusal(&bench, &alice, UP, &handle(&first)).await;
    assert_eq!(bench.value(&bob, UP, &handle(&his)).await["result"], 2);
    bench.hosts.close().await;
}

async fn changed_grant_or_idle_time_ends_instance() {
    let quick = |options: &mut HostsOptions| {
        (options.idle, options.session_idle) = (Duration::from_millis(50), Duration::from_millis(800));
    };
    let bench = Bench::with(&["tool-host"], quick, Asked::default());
    let alice = of(&bench, "a", "alice");
    let mine = new(&bench, &alice, 1).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(bench.value(&alice, UP, &handle(&mine)).await["result"], 2, "other processes end sooner");
    let granted = Plugin { env: vec![("A".to_owned(), "b".to_owned())], ..alice.clone() };
    refusal(&bench, &granted, UP, &handle(&mine)).await;
    let mine = new(&bench, &granted, 1).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    refusal(&bench, &granted, UP, &handle(&mine)).await;
    assert_eq!(bench.hosts.failures(), 0);
    bench.hosts.close().await;
}
