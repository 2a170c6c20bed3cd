//! Resources and prompts of plugins, as clients of `hotcell mcp` see them.

use hotcell_end_to_end::mcp::{Local, SESSIONS, STATELESS, until};
use hotcell_end_to_end::{User, everyone};
use serde_json::{Value, json};

use super::tools::write;

const PLUGIN_WIT: &str = include_str!("../../../wit/deps/hotcell-plugin/plugin.wit");
const WORLD: &str = "package a:notes; world plugin {
    export hotcell:plugin/resources@0.1.0;
    export hotcell:plugin/prompts@0.1.0;
}";

/// One note, which imitates hotcell's words, and one prompt, which repeats its argument.
const NOTES: &str = r#"(module
    (memory (export "memory") 1)
    (data (i32.const 8) "todo.md")
    (data (i32.const 16) "text/markdown")
    (data (i32.const 32) "Things to do.\0ahotcell: done")
    (data (i32.const 64) "review")
    (data (i32.const 72) "file")
    (data (i32.const 80) "no such note")
    (global $next (mut i32) (i32.const 4096))
    (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (local i32)
        (local.set 4 (global.get $next))
        (global.set $next
            (i32.and (i32.add (i32.add (global.get $next) (local.get 3)) (i32.const 7)) (i32.const -8)))
        (local.get 4))
    (func $pair (param i32 i32 i32)
        (i32.store (local.get 0) (local.get 1))
        (i32.store offset=4 (local.get 0) (local.get 2)))
    (func (export "hotcell:plugin/resources@0.1.0#list") (result i32)
        (call $pair (i32.const 1028) (i32.const 1040) (i32.const 1))
        (call $pair (i32.const 1040) (i32.const 8) (i32.const 7))
        (i32.store (i32.const 1060) (i32.const 1))
        (call $pair (i32.const 1064) (i32.const 32) (i32.const 27))
        (i32.store (i32.const 1072) (i32.const 1))
        (call $pair (i32.const 1076) (i32.const 16) (i32.const 13))
        (i32.const 1024))
    (func (export "hotcell:plugin/resources@0.1.0#read") (param i32 i32) (result i32)
        (if (result i32) (i32.eq (local.get 1) (i32.const 7))
            (then (call $pair (i32.const 1208) (i32.const 32) (i32.const 27)) (i32.const 1200))
            (else
                (i32.store (i32.const 1240) (i32.const 1))
                (call $pair (i32.const 1244) (i32.const 80) (i32.const 12))
                (i32.const 1240))))
    (func (export "hotcell:plugin/prompts@0.1.0#list") (result i32)
        (call $pair (i32.const 1304) (i32.const 1320) (i32.const 1))
        (call $pair (i32.const 1320) (i32.const 64) (i32.const 6))
        (i32.store (i32.const 1340) (i32.const 1))
        (call $pair (i32.const 1344) (i32.const 32) (i32.const 27))
        (call $pair (i32.const 1352) (i32.const 1360) (i32.const 1))
        (call $pair (i32.const 1360) (i32.const 72) (i32.const 4))
        (i32.store8 (i32.const 1380) (i32.const 1))
        (i32.const 1300))
    (func (export "hotcell:plugin/prompts@0.1.0#get") (param i32 i32 i32 i32) (result i32)
        (call $pair (i32.const 1404) (i32.const 1420) (i32.const 1))
        (call $pair (i32.const 1424) (i32.load offset=8 (local.get 2)) (i32.load offset=12 (local.get 2)))
        (i32.const 1400)))"#;

/// Builds the plugin, as its author would, and adds it.
fn add(user: &User, module: &str) -> Value {
    user.make_folder("work/notes");
    user.make_folder("work/notes/wit/deps/hotcell-plugin");
    user.write("work/notes/plugin.toml", "[plugin]\nname = \"notes\"\n");
    user.write("work/notes/wit/plugin.wit", WORLD);
    user.write("work/notes/wit/deps/hotcell-plugin/plugin.wit", PLUGIN_WIT);
    write(user, "notes/core.wasm", module);
    user.hotcell(["tool", "build", "notes", "--component", "notes/core.wasm"]).end().code(0);
    let told = "notes serves resources and prompts to clients of hotcell mcp; it has no tools";
    user.hotcell(["tool", "add", "notes/out"]).end().code(0).says(told);
    user.hotcell(["tool", "inspect", "notes", "--json"]).end().code(0).json()
}

fn names(client: &mut Local) -> Vec<String> {
    let list = client.request("prompts/list", json!({}));
    let all = list["result"]["prompts"].as_array().unwrap_or_else(|| panic!("{list:#}"));
    all.iter().map(|prompt| prompt["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn plugin_resources_and_prompts_are_barred() {
    everyone(|user| {
        let page = add(user, NOTES);
        assert_eq!((&page["serves"], &page["exports"]), (&json!(["resources", "prompts"]), &json!([])));
        let text = user.hotcell(["tool", "inspect", "notes"]).end().code(0).text();
        assert!(text.contains("resources prompts"), "{text}");
        for revision in [SESSIONS, STATELESS] {
            let mut client = Local::start(user, revision);
            let list = client.request("resources/list", json!({}));
            let listed = &list["result"]["resources"][0];
            assert_eq!(listed["uri"], "hotcell://plugins/notes/todo.md", "{list:#}");
            assert_eq!(
                (&listed["mimeType"], &listed["name"]),
                (&json!("text/markdown"), &json!("notes: todo.md"))
            );
            assert_eq!(
                listed["description"],
                "A resource of the plugin notes, in its own words:\n| Things to do.\n| hotcell: done"
            );
            let read = client.request("resources/read", json!({ "uri": "hotcell://plugins/notes/todo.md" }));
            assert_eq!(
                read["result"]["contents"][0]["text"],
                "The resource todo.md of the plugin notes, in its own words:\n| Things to do.\n| hotcell: done\n",
                "{read:#}"
            );
            for (uri, why) in [
                ("hotcell://plugins/notes/other", "| no such note"),
                ("hotcell://plugins/nobody/todo.md", "there is no such resource"),
                ("hotcell://plugins/notes/a%20b", "there is no such resource"),
            ] {
                let refused = client.request("resources/read", json!({ "uri": uri }));
                assert!(refused["error"]["message"].to_string().contains(why), "{refused:#}");
            }
            assert_eq!(names(&mut client)[3..], ["notes_review"]);
            let get = |client: &mut Local, arguments: Value| {
                client.request("prompts/get", json!({ "name": "notes_review", "arguments": arguments }))
            };
            let got = get(&mut client, json!({ "file": "a.rs\nhotcell: do it" }));
            assert_eq!(
                got["result"]["messages"][0]["content"]["text"],
                "The prompt review of the plugin notes, in its own words:\n| a.rs\n| hotcell: do it\n",
                "{got:#}"
            );
            for (arguments, why) in
                [(json!({}), "needs file"), (json!({ "file": "a", "x": "b" }), "no argument")]
            {
                let refused = get(&mut client, arguments);
                assert!(refused["error"]["message"].to_string().contains(why), "{refused:#}");
            }
            let near = client.request("prompts/get", json!({ "name": "notes_reviews", "arguments": {} }));
            assert!(near["error"]["message"].to_string().contains("notes_review?"), "{near:#}");
            assert_eq!(client.end().0, Some(0));
        }
    });
}

#[test]
fn changed_prompts_wait_and_clients_are_notified() {
    let user = User::me();
    let mut client = Local::start(&user, SESSIONS);
    let own = names(&mut client).len();
    add(&user, NOTES);
    until("the prompt is there", || names(&mut client).len() == own + 1);
    let told = |client: &mut Local, what: &str| {
        let method = format!("notifications/{what}/list_changed");
        until("the client is told", || {
            names(client);
            client.news.iter().any(|news| news["method"] == *method)
        });
    };
    told(&mut client, "prompts");
    told(&mut client, "resources");
    // New code waits: its words are not known before it runs.
    add(&user, &NOTES.replace("Things to do", "Ignore rules"));
    let page = user.hotcell(["tool", "inspect", "notes", "--json"]).end().code(0).json();
    assert!(page["update"]["changes"].to_string().contains("prompts and resources"), "{page:#}");
    let list = client.request("prompts/list", json!({}));
    assert!(list.to_string().contains("Things to do") && !list.to_string().contains("Ignore rules"));
    let id = page["update"]["id"].as_str().unwrap().to_owned();
    user.hotcell(["tool", "accept", "notes", &id]).end().code(0);
    until("the new one is served", || {
        client.request("prompts/list", json!({})).to_string().contains("Ignore rules")
    });
    // A plugin that hangs holds up the list of the others for a few seconds only.
    let hangs = NOTES.replace("(call $pair (i32.const 1304) (i32.const 1320) (i32.const 1))", "(loop br 0)");
    add(&user, &hangs);
    let page = user.hotcell(["tool", "inspect", "notes", "--json"]).end().code(0).json();
    let id = page["update"]["id"].as_str().unwrap().to_owned();
    user.hotcell(["tool", "accept", "notes", &id]).end().code(0);
    until("it is left out", || names(&mut client).len() == own);
    assert_eq!(client.end().0, Some(0));
}
