//! Plugins: the commands to add them, to grant them capabilities, and to call their tools.

use hotcell_end_to_end::{Ended, User, everyone};
use serde_json::{Value, json};

/// Functions that echo, fail, loop forever and trap.
pub const SAYS: &str = r#"(component
    (core module $m
        (memory (export "memory") 1)
        (data (i32.const 8) "nope")
        (global $at (mut i32) (i32.const 1024))
        (func (export "realloc") (param i32 i32 i32 i32) (result i32) (local i32)
            (local.set 4 (global.get $at))
            (global.set $at (i32.add (global.get $at) (local.get 3)))
            (local.get 4))
        (func (export "echo") (param i32 i32) (result i32)
            (i32.store (i32.const 16) (local.get 0))
            (i32.store (i32.const 20) (local.get 1))
            (i32.const 16))
        (func (export "fail") (result i32)
            (i32.store (i32.const 32) (i32.const 1))
            (i32.store (i32.const 36) (i32.const 8))
            (i32.store (i32.const 40) (i32.const 4))
            (i32.const 32))
        (func (export "spin") (loop $l (br $l)))
        (func (export "stop") unreachable))
    (core instance $i (instantiate $m))
    (func (export "echo") (param "text" string) (result string)
        (canon lift (core func $i "echo") (memory (core memory $i "memory")) (realloc (core func $i "realloc"))))
    (func (export "fail") (result (result (error string)))
        (canon lift (core func $i "fail") (memory (core memory $i "memory"))))
    (func (export "spin") (canon lift (core func $i "spin")))
    (func (export "stop") (canon lift (core func $i "stop"))))"#;

/// A version without one of the tools, and with one of another name.
pub fn changed() -> String {
    SAYS.replace(r#"(func (export "stop") (canon"#, r#"(func (export "halt") (canon"#)
}

/// Reads the setting `colour`: 0 and its length, or an error: 10 denied, 11 unavailable; 1 if it is not set.
pub const ASKS: &str = r#"(component
    (import "hotcell:tool/config@0.1.0" (instance $config
        (type $e (enum "denied" "unavailable"))
        (export "error" (type $error (eq $e)))
        (export "get" (func (param "key" string) (result (result (option string) (error $error)))))))
    (core module $memory (memory (export "memory") 1) (data (i32.const 8) "colour")
        (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 512)))
    (core instance $memory (instantiate $memory))
    (core func $get (canon lower (func $config "get")
        (memory (core memory $memory "memory")) (realloc (core func $memory "realloc"))))
    (core module $m
        (import "" "memory" (memory 1))
        (import "" "get" (func $get (param i32 i32 i32)))
        (func (export "ask") (result i32)
            (call $get (i32.const 8) (i32.const 6) (i32.const 64))
            (if (result i32) (i32.load8_u (i32.const 64))
                (then (i32.add (i32.const 10) (i32.load8_u (i32.const 68))))
                (else (if (result i32) (i32.load8_u (i32.const 68))
                    (then (i32.mul (i32.const 100) (i32.load (i32.const 76))))
                    (else (i32.const 1)))))))
    (core instance $i (instantiate $m (with "" (instance
        (export "memory" (memory $memory "memory")) (export "get" (func $get))))))
    (func (export "ask") (result u32) (canon lift (core func $i "ask"))))"#;

pub fn write(user: &User, name: &str, text: &str) {
    user.write(format!("work/{name}"), wat::parse_str(text).unwrap_or_else(|e| panic!("{e}")));
}

/// Answer of a tool, which has a schema of its own.
fn value(ended: &Ended) -> Value {
    serde_json::from_slice(&ended.stdout).unwrap_or_else(|e| panic!("{e}: {ended:#?}"))
}

pub fn configure(user: &User, text: &str) {
    user.make_folder("home/.config");
    user.make_folder("home/.config/hotcell");
    user.write("home/.config/hotcell/config.toml", text);
}

#[test]
fn plugin_is_added_called_and_removed() {
    everyone(|user| {
        configure(user, "[tools]\ntimeout = \"2s\"\n");
        user.hotcell(["tool", "list"]).end().code(0).prints("").says("no plugins yet");
        write(user, "says.wasm", SAYS);
        let page = user.hotcell(["tool", "inspect", "says.wasm"]).end();
        assert!(page.code(0).text().contains("could use"), "{page:#?}");
        assert!(!user.path("home/.local/state/hotcell/tools/components").exists(), "looking keeps nothing");
        user.hotcell(["tool", "add", "says.wasm"]).end().code(0).says("says is added; it asks for nothing");
        user.hotcell(["tool", "add", "says.wasm"]).end().code(0).says("there already");
        let list = user.hotcell(["tool", "list", "--json"]).end().code(0).json();
        let names: Vec<&Value> = list["tools"].as_array().unwrap().iter().map(|t| &t["name"]).collect();
        assert_eq!(names, ["says_echo", "says_fail", "says_spin", "says_stop"]);
        assert_eq!(list["schema"], "hotcell.tools/1");
        assert!(user.hotcell(["tool", "list"]).end().code(0).text().contains("says_echo"));

        let call = |args: &[&str]| user.hotcell(["tool", "call"]).words(args).end();
        call(&["says_echo", "--args", r#"{"text":"hello"}"#]).code(0).prints("hello\n");
        user.write("work/args.json", r#"{"text":"from a file"}"#);
        call(&["says_echo", "--args", "@args.json"]).code(0).prints("from a file\n");
        let piped =
            user.hotcell(["tool", "call", "says_echo", "--args", "-"]).input(r#"{"text":"piped"}"#).end();
        piped.code(0).prints("piped\n");
        let told = value(call(&["says_echo", "--args", r#"{"text":"x"}"#, "--json"]).code(0));
        assert_eq!(told, json!({ "result": "x" }));
        call(&["says_fail"]).code(1).prints("").says("nope");
        assert_eq!(value(call(&["says_fail", "--json"]).code(1)), json!({ "error": "nope" }));
        call(&["says_spin"]).code(124).says("wall clock limit 2s reached");
        assert_eq!(value(call(&["says_spin", "--json"]).code(124))["code"], "limit");
        call(&["says_stop"]).code(1).says("trapped").says("; in function");
        assert_eq!(value(call(&["says_stop", "--json"]).code(1))["code"], "trap");
        call(&["says_echo", "text=from a word"]).code(0).prints("from a word\n");
        call(&["says_echo", "text:=\"from JSON\""]).code(0).prints("from JSON\n");
        call(&["says_echo", "text:=1"]).code(125).says("/text");
        call(&["says_echo", "text"]).code(125).says("no '='");
        call(&["says_echo", "--args", r#"{"text":"still there"}"#]).code(0).prints("still there\n");

        call(&["says_ecko"]).code(125).says("did you mean says_echo?");
        call(&["says_echo"]).code(125).says("text");
        call(&["says_echo", "--args", r#"{"text":1}"#]).code(125).says("/text");
        call(&["says_echo", "--args", "{"]).code(125).says("no JSON");
        call(&["says_echo", "--args", "[]"]).code(125).says("JSON object");
        call(&["says_echo", "--args", "@none"]).code(125).says("cannot be read");

        user.hotcell(["tool", "remove", "says"]).end().code(0);
        call(&["says_echo"]).code(125).says("no plugin is loaded");
        user.hotcell(["audit", "verify"]).end().code(0);
    });
}

#[test]
fn plugin_setting_is_visible_once_granted() {
    everyone(|user| {
        configure(user, "[tools.config.asks]\ncolour = \"green\"\n");
        write(user, "asks.wasm", ASKS);
        let page = user.hotcell(["tool", "inspect", "asks.wasm", "--json"]).end().code(0).json();
        assert_eq!(page["capabilities_at_most"], json!(["config"]));
        user.hotcell(["tool", "add", "asks.wasm"]).end().code(0);
        let ask = || user.hotcell(["tool", "call", "asks_ask"]).end();
        assert!(ask().code(0).says("was denied config=colour").text().contains("10"));
        let granted = user.hotcell(["tool", "grant", "asks", "config=colour"]).end();
        assert!(granted.code(0).text().contains("config=colour"), "{granted:#?}");
        assert!(ask().code(0).text().contains("500"), "five letters");
        user.hotcell(["tool", "revoke", "asks", "config=colour"]).end().code(0);
        assert!(ask().code(0).text().contains("10"));
        for (words, why) in [
            (["grant", "asks", "sandbox"], "does not ask for sandboxed runs"),
            (["grant", "asks", "config=*"], "no wildcards"),
            (["grant", "asks", "read=/none"], "cannot be opened"),
            (["grant", "ask", "config=a"], "did you mean asks?"),
            (["revoke", "asks", "config=colour"], "is not granted"),
        ] {
            user.hotcell(["tool"]).words(&words).end().code(125).says_one_line(why);
        }
        let log = user.hotcell(["audit", "list"]).end();
        assert!(log.code(0).text().contains("tool_grant") && log.text().contains("tool_revoke"), "{log:#?}");
        user.hotcell(["audit", "verify"]).end().code(0);
    });
}

#[test]
fn plugin_update_is_shown_before_acceptance() {
    let user = User::me();
    write(&user, "says.wasm", SAYS);
    user.hotcell(["tool", "add", "says.wasm"]).end().code(0);
    write(&user, "says.wasm", &changed());
    user.hotcell(["tool", "add", "says.wasm"]).end().code(0).says("another version of says waits");
    user.hotcell(["tool", "call", "says_halt"]).end().code(125);
    let waits = user.hotcell(["tool", "accept", "says"]).end();
    assert!(
        waits.code(0).text().contains("+ tool halt") && waits.text().contains("- tool stop"),
        "{waits:#?}"
    );
    let digest =
        user.hotcell(["tool", "inspect", "says", "--json"]).end().code(0).json()["update"]["id"].clone();
    let digest = digest.as_str().unwrap();
    assert!(waits.text().contains(&format!("hotcell tool accept says {}", &digest[..12])), "{waits:#?}");
    user.hotcell(["tool", "accept", "says", "0123456789ab"]).end().code(125).says("look at it first");
    user.hotcell(["tool", "accept", "says", &digest[..12]]).end().code(0);
    user.hotcell(["tool", "call", "says_halt"]).end().code(1).says("trapped");
    user.hotcell(["tool", "accept", "says"]).end().code(125).says_one_line("no other version");
    user.hotcell(["audit", "verify"]).end().code(0);
}

#[test]
fn plugin_name_retains_digits() {
    everyone(|user| {
        for (file, name) in
            [("conv1", "conv1"), ("conv2", "conv2"), ("2048", "plugin-2048"), ("my_tool_v2", "my-tool-v2")]
        {
            write(user, &format!("{file}.wasm"), SAYS);
            let added = user.hotcell(["tool", "add", &format!("{file}.wasm")]).end();
            added.code(0).says(&format!("{name} is added"));
            let echo = format!("{name}_echo");
            user.hotcell(["tool", "call", &echo, "text=x"]).end().code(0).prints("x\n");
        }
    });
}

#[test]
fn invalid_plugin_is_refused_without_residue() {
    everyone(|user| {
        let core = wat::parse_str("(module)").unwrap();
        let whole = wat::parse_str(SAYS).unwrap();
        user.write("work/core.wasm", &core);
        user.write("work/cut.wasm", &whole[..whole.len() / 2]);
        user.write("work/text.wasm", "hello");
        write(user, "needs.wasm", r#"(component (import "nobody:has/this" (instance (export "f" (func)))))"#);
        let wants = r#"(component (import "acme:a/b" (instance (export "f" (func))))
            (import "wasi:keyvalue/watcher@0.2.0-draft" (instance (export "open" (func)))))"#;
        write(user, "wants.wasm", wants);
        write(user, "a-name-of-more-than-32-characters-x.wasm", SAYS);
        write(user, "empty.wasm", "(component)");
        write(user, "run.wasm", SAYS);
        for folder in ["none", "unknown", "two"] {
            user.make_folder(&format!("work/{folder}"));
        }
        write(user, "unknown/a.wasm", SAYS);
        user.write("work/unknown/plugin.toml", "[plugin]\nname = \"a\"\n[requests]\nnett = []\n");
        write(user, "two/a.wasm", SAYS);
        write(user, "two/b.wasm", SAYS);
        for (source, why) in [
            ("core.wasm", "core module"),
            ("cut.wasm", "cut.wasm"),
            ("text.wasm", "text.wasm"),
            ("needs.wasm", "nobody:has/this"),
            ("wants.wasm", "acme:a/b, wasi:keyvalue/watcher@0.2.0-draft, which this host does not provide"),
            ("a-name-of-more-than-32-characters-x.wasm", "at most 32"),
            ("empty.wasm", "no function"),
            ("run.wasm", "taken by hotcell"),
            ("none", "no component"),
            ("unknown", "requests.net"),
            ("two", "more than one component"),
            ("gone.wasm", "cannot be opened"),
            ("https://127.0.0.1:1/a.wasm", "#sha256="),
            ("oci://a", "names no registry"),
            ("oci://127.0.0.1:1/a:1", "127.0.0.1:1"),
        ] {
            let added = user.hotcell(["tool", "add", source]).end();
            added.code(125).says_one_line(why);
        }
        user.hotcell(["tool", "list"]).end().code(0).says("no plugins yet");
        let kept = user.path("home/.local/state/hotcell/tools/components");
        assert_eq!(kept.read_dir().map_or(0, Iterator::count), 0);
    });
}
