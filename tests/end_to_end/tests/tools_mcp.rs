//! Tools of plugins as a client of `hotcell mcp` sees them: listed, called, announced when they change.

use hotcell_end_to_end::mcp::{Local, SESSIONS, STATELESS, until};
use hotcell_end_to_end::{User, everyone};
use serde_json::{Value, json};

use super::tools::{SAYS, changed, configure, write};

/// Reports once that it is one third done.
const CLIMBS: &str = r#"(component
    (import "hotcell:tool/progress@0.1.0" (instance $progress
        (export "report" (func (param "done" u64) (param "total" (option u64)) (param "message" (option string))))))
    (core module $memory (memory (export "memory") 1) (data (i32.const 8) "a step"))
    (core instance $memory (instantiate $memory))
    (core func $report (canon lower (func $progress "report") (memory (core memory $memory "memory"))))
    (core module $m
        (import "" "report" (func $report (param i64 i32 i64 i32 i32 i32)))
        (func (export "climb")
            (call $report (i64.const 1) (i32.const 1) (i64.const 3) (i32.const 1) (i32.const 8) (i32.const 6))))
    (core instance $i (instantiate $m (with "" (instance (export "report" (func $report))))))
    (func (export "climb") (canon lift (core func $i "climb"))))"#;

const LIST_CHANGED: &str = "notifications/tools/list_changed";

fn names(client: &mut Local) -> Vec<String> {
    let list = client.request("tools/list", json!({}));
    let tools = list["result"]["tools"].as_array().expect("tools");
    tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

/// The names that are a plugin's.
pub fn of(plugin: &str, client: &mut Local) -> Vec<String> {
    names(client).into_iter().filter(|name| name.starts_with(plugin)).collect()
}

/// Waits for news that the list changed; what else came is dropped.
pub fn told(client: &mut Local) -> Value {
    if let Some(at) = client.news.iter().position(|news| news["method"] == LIST_CHANGED) {
        let news = client.news.swap_remove(at);
        client.news.clear();
        return news;
    }
    loop {
        let said = client.said();
        if said["method"] == LIST_CHANGED {
            return said;
        }
    }
}

/// Text in which a model reads that a tool failed: the tool's own words are quoted with bars.
fn failed(word: &str) -> String {
    format!("says_fail says that it failed:\n| {word}\n")
}

#[test]
fn tools_of_plugins_are_tools_of_the_server() {
    everyone(|user| {
        configure(user, "[tools]\ntimeout = \"2s\"\n");
        write(user, "says.wasm", SAYS);
        user.hotcell(["tool", "add", "says.wasm"]).end().code(0);
        for revision in [SESSIONS, STATELESS] {
            let mut client = Local::start(user, revision);
            let all = names(&mut client);
            let says = ["says_echo", "says_fail", "says_spin", "says_stop"];
            assert!(all.ends_with(&says.map(str::to_owned)), "behind hotcell's own, in order: {all:?}");
            assert_eq!(names(&mut client), all);
            assert_eq!(client.good("says_echo", &json!({ "text": "hello" })), json!({ "result": "hello" }));
            assert_eq!(client.bad("says_fail", &json!({})), failed("nope"));
            for (tool, arguments, why) in [
                ("says_spin", json!({}), "wall clock limit 2s reached"),
                ("says_stop", json!({}), "trapped"),
                ("says_echo", json!({}), "text"),
                ("says_echo", json!({ "text": 1 }), "/text"),
                ("says_echo", json!({ "text": "x", "more": 1 }), "more"),
            ] {
                let said = client.bad(tool, &arguments);
                assert!(said.contains(why), "{tool} {arguments}: {said}");
            }
            let unknown = client.request("tools/call", json!({ "name": "says_ecko", "arguments": {} }));
            assert_eq!(unknown["error"]["code"], -32602, "{unknown:#}");
            assert!(unknown["error"]["message"].as_str().unwrap().contains("says_echo"), "{unknown:#}");
            assert_eq!(client.good("says_echo", &json!({ "text": "still" })), json!({ "result": "still" }));
            assert_eq!(client.end().0, Some(0));
        }
    });
}

#[test]
fn client_is_notified_of_changed_tools() {
    let user = User::me();
    let mut session = Local::start(&user, SESSIONS);
    let mut listener = Local::start(&user, STATELESS);
    let id = listener.ask("subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }));
    assert_eq!(listener.said()["method"], "notifications/subscriptions/acknowledged");
    assert_eq!((of("says", &mut session), of("says", &mut listener)), (vec![], vec![]));

    write(&user, "says.wasm", SAYS);
    user.hotcell(["tool", "add", "says.wasm"]).end().code(0);
    told(&mut session);
    let news = told(&mut listener);
    assert_eq!(news["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id, "{news:#}");
    for client in [&mut session, &mut listener] {
        assert_eq!(of("says", client).len(), 4);
        assert_eq!(client.bad("says_fail", &json!({})), failed("nope"));
    }
    // Compiled again, without a change that needs approval: the next call uses the new one.
    write(&user, "says.wasm", &SAYS.replace("nope", "oops"));
    until("the new component is used", || session.bad("says_fail", &json!({})) == failed("oops"));
    told(&mut session);
    told(&mut listener);
    // With other tools: a person is asked.
    write(&user, "says.wasm", &changed());
    until("the change waits", || {
        let list = user.hotcell(["tool", "list", "--json"]).end().code(0).json();
        list["tools"][0]["state"] == "update_waits"
    });
    assert_eq!(session.bad("says_fail", &json!({})), failed("oops"));
    told(&mut session);
    told(&mut listener);

    user.hotcell(["tool", "remove", "says"]).end().code(0);
    for client in [&mut session, &mut listener] {
        told(client);
        assert_eq!(of("says", client), Vec::<String>::new());
    }
    assert_eq!((session.end().0, listener.end().0), (Some(0), Some(0)));
}

#[test]
fn plugin_progress_is_sent_on_request() {
    let user = User::me();
    write(&user, "climbs.wasm", CLIMBS);
    user.hotcell(["tool", "add", "climbs.wasm"]).end().code(0);
    let mut client = Local::start(&user, STATELESS);
    let call = json!({ "name": "climbs_climb", "arguments": {}, "_meta": { "progressToken": "p" } });
    let answer = client.request("tools/call", call);
    assert_eq!(answer["result"]["isError"], false, "{answer:#}");
    let news = &client.news[0]["params"];
    assert_eq!(
        (&news["progressToken"], &news["progress"], &news["total"]),
        (&json!("p"), &json!(1.0), &json!(3.0))
    );
    assert_eq!(news["message"], "a step");
    client.news.clear();
    client.call("climbs_climb", &json!({}));
    assert!(client.news.is_empty(), "nobody asked: {:?}", client.news);
}

#[test]
fn long_tool_answer_is_bounded_with_resource() {
    everyone(|user| {
        write(user, "says.wasm", SAYS);
        user.hotcell(["tool", "add", "says.wasm"]).end().code(0);
        for revision in [SESSIONS, STATELESS] {
            let mut client = Local::start(user, revision);
            for text in ["x".repeat(30_000), "a line\n".repeat(4_000), "\u{1b}\u{202e}".repeat(6_000)] {
                let arguments = json!({ "name": "says_echo", "arguments": { "text": text } });
                let answer = client.request("tools/call", arguments)["result"].clone();
                let words = answer["content"][0]["text"].as_str().unwrap();
                assert!(words.len() < 21_000 && words.contains("bytes are left out"), "{}", words.len());
                let short = answer["structuredContent"]["result"].as_str().unwrap();
                assert!(json!(short).to_string().len() <= 20_000 && short.contains("bytes are left out"));
                let uri = &answer["_meta"]["hotcell/omitted"]["uri"];
                let whole = client.request("resources/read", json!({ "uri": uri }))["result"].clone();
                let whole = whole["contents"][0]["text"].as_str().unwrap();
                assert_eq!(serde_json::from_str::<Value>(whole).unwrap(), json!({ "result": text }));
            }
            assert_eq!(client.end().0, Some(0));
        }
    });
}

#[test]
fn tool_failures_have_codes() {
    everyone(|user| {
        configure(user, "[tools]\ntimeout = \"1s\"\n");
        write(user, "says.wasm", SAYS);
        user.hotcell(["tool", "add", "says.wasm"]).end().code(0);
        let mut client = Local::start(user, SESSIONS);
        for (tool, code) in [("says_spin", "limit"), ("says_stop", "trap"), ("says_echo", "invalid_value")] {
            let answer = client.request("tools/call", json!({ "name": tool, "arguments": {} }));
            assert_eq!(answer["result"]["_meta"]["hotcell/error"]["code"], code, "{answer:#}");
        }
        assert_eq!(client.end().0, Some(0));
    });
}
