//! A choice among a plugin's tools, and a component of other hosts that imports drafts of WASI.

use hotcell_end_to_end::mcp::{Local, SESSIONS, until};
use hotcell_end_to_end::{User, everyone};
use serde_json::{Value, json};

use super::tools::{ASKS, SAYS, configure, write};
use super::tools_mcp::{of, told};

#[test]
fn offered_tools_are_listed_others_refused() {
    everyone(|user| {
        write(user, "says.wasm", SAYS);
        user.hotcell(["tool", "add", "says.wasm"]).end().code(0);
        let offered = user.hotcell(["tool", "offer", "says", "--only", "echo,says_fail"]).end();
        assert!(offered.code(0).text().contains("not offered  says_spin"), "{offered:#?}");
        user.hotcell(["tool", "call", "says_echo", "text=x"]).end().code(0).prints("x\n");
        user.hotcell(["tool", "call", "says_stop"])
            .end()
            .code(125)
            .says("\"says_stop\" is not offered")
            .says("hotcell tool offer says --all");
        let list = user.hotcell(["tool", "list", "--json"]).end().code(0).json();
        let tools = list["tools"].as_array().unwrap().iter();
        let offered: Vec<&Value> =
            tools.filter(|tool| tool["offered"] == true).map(|tool| &tool["name"]).collect();
        assert_eq!(offered, ["says_echo", "says_fail"]);
        let page = user.hotcell(["tool", "inspect", "says", "--json"]).end().code(0).json();
        assert_eq!(page["exports"][3]["offered"], json!(false));
        for (words, why) in [
            (&["offer", "says", "--hide", "ecko"][..], "did you mean echo?"),
            (&["offer", "say", "--all"], "did you mean says?"),
            (&["offer", "says"], "--only"),
            (&["offer", "says"], "--hide"),
            (&["offer", "says", "--all", "--hide", "echo"], "cannot be used with"),
            (&["offer", "says", "--only", "echo", "--hide", "echo"], "cannot be used with"),
        ] {
            user.hotcell(["tool"]).words(words).end().code(125).says(why);
        }
        user.hotcell(["audit", "verify"]).end().code(0);
    });
}

#[test]
fn client_is_notified_of_changed_offer() {
    let user = User::me();
    write(&user, "says.wasm", SAYS);
    user.hotcell(["tool", "add", "says.wasm"]).end().code(0);
    let mut client = Local::start(&user, SESSIONS);
    assert_eq!(of("says", &mut client).len(), 4);
    until("the server looks for changes", || {
        user.hotcell(["tool", "offer", "says", "--hide", "stop,spin"]).end().code(0);
        of("says", &mut client) == ["says_echo", "says_fail"]
    });
    told(&mut client);
    let hidden = client.request("tools/call", json!({ "name": "says_stop", "arguments": {} }));
    let text = hidden["error"]["message"].as_str().expect("the protocol's error");
    assert!(text.contains("there is no tool") && !text.contains("offer"), "{text}");
    assert_eq!(client.good("says_echo", &json!({ "text": "x" })), json!({ "result": "x" }));
    user.hotcell(["tool", "offer", "says", "--all"]).end().code(0);
    told(&mut client);
    assert_eq!(of("says", &mut client).len(), 4);
}

/// A component that imports the settings by each draft of WASI, in place of hotcell's own interface.
#[test]
fn settings_are_readable_by_wasi_drafts() {
    everyone(|user| {
        configure(user, "[tools.config.drafted]\ncolour = \"green\"\n");
        for import in [
            "wasi:config/store@0.2.0-draft",
            "wasi:config/runtime@0.2.0-draft",
            "wasi:config/store@0.2.0-draft-2024-09-27",
            "wasi:config/store@0.2.0-rc.1",
        ] {
            // An error has a text there, which stands where the value would; its case stays where it was.
            let text = ASKS.replace("hotcell:tool/config@0.1.0", import).replace(
                r#"(enum "denied" "unavailable")"#,
                r#"(variant (case "upstream" string) (case "io" string))"#,
            );
            write(user, "drafted.wasm", &text);
            user.hotcell(["tool", "add", "drafted.wasm"]).end().code(0).says("it asks for config=…");
            let ask = || user.hotcell(["tool", "call", "drafted_ask"]).end();
            assert!(ask().code(0).says("was denied config=colour").text().contains("10"), "{import}");
            user.hotcell(["tool", "grant", "drafted", "config=colour"]).end().code(0);
            assert!(ask().code(0).text().contains("500"), "{import}: five letters");
            user.hotcell(["tool", "remove", "drafted"]).end().code(0);
        }
        for import in ["wasi:config/store@0.2.0-draft9", "wasi:config/store@0.2.0"] {
            write(user, "drafted.wasm", &ASKS.replace("hotcell:tool/config@0.1.0", import));
            user.hotcell(["tool", "add", "drafted.wasm"]).end().code(125).says(import).says("of it there is");
        }
    });
}
