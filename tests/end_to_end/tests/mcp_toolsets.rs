//! Toolsets of `hotcell mcp`: which tools a client is offered, by option, variable and configuration.

use hotcell_end_to_end::mcp::{Local, SESSIONS, STATELESS};
use hotcell_end_to_end::{User, Weak, everyone};
use serde_json::json;

fn names(client: &mut Local) -> Vec<String> {
    let list = client.request("tools/list", json!({}));
    let tools = list["result"]["tools"].as_array().unwrap_or_else(|| panic!("{list:#}"));
    tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn default_toolset_is_small_and_says_how_to_get_more() {
    everyone(|user| {
        for revision in [SESSIONS, STATELESS] {
            let mut client = Local::start_on(user, &Weak::default(), &["--toolsets", "default"], revision);
            let all = names(&mut client);
            assert!(all.len() <= 10 && all.contains(&"run_tests".to_owned()), "{all:?}");
            for (tool, set) in
                [("scan_artifact", "guard"), ("workspace_diff", "workspace"), ("doctor", "host")]
            {
                let said = client.bad(tool, &json!({}));
                assert!(said.contains(&format!("--toolsets default,{set}")), "{tool}: {said}");
            }
            let made = client
                .good("workspace_create", &json!({ "files": [{ "path": "src/main.py", "content": "x" }] }));
            let id = made["workspace_id"].clone();
            let said = client.bad("workspace_read", &json!({ "workspace_id": id, "path": "main.py" }));
            assert!(said.contains("did you mean \"src/main.py\"?"), "{said}");
            let said = client.bad("workspace_commit", &json!({ "workspace_id": id }));
            assert!(
                said.contains("not offered by this server: workspace_export (toolset snapshots)"),
                "{said}"
            );
            let runs = client.good("run_command", &json!({ "argv": ["sleep", "9"], "wait_ms": 0 }));
            let hint = runs["hint"].as_str().expect("a hint");
            assert!(hint.contains("run_status") && !hint.contains("run_cancel"), "{hint}");
            let done = client.good("run_code", &json!({ "language": "python", "code": "print(6 * 7)" }));
            assert_eq!(done["status"], "finished", "{done:#}");
            assert_eq!(client.end().0, Some(0));
        }
    });
}

#[test]
fn toolsets_are_chosen_by_option_and_configuration() {
    let user = User::me();
    let mut client = Local::start_on(&user, &Weak::default(), &["--toolsets", "guard,host"], SESSIONS);
    let wanted = ["scan_artifact", "quarantine_list", "quarantine_show", "quarantine_request", "doctor"];
    assert_eq!(names(&mut client), wanted);
    assert!(client.bad("run_code", &json!({})).contains("default,run"));
    // Unknown to everybody, or a plugin's whose set is off.
    assert!(client.bad("files_read", &json!({})).contains("default,tools"));
    drop(client);
    // The variable of the tests' servers takes precedence over a file.
    let config = user.write("work/config.toml", "[mcp]\ntoolsets = [\"policies\"]\n");
    let words = ["mcp", "check", "--json", "--config", config.to_str().expect("UTF-8")];
    let checked = user.hotcell(words).end().code(0).json();
    assert_eq!(checked["tools"], json!(["read_org_policies"]), "{checked:#}");
    for (text, says) in [
        ("[mcp]\ntoolsets = [\"polices\"]\n", "did you mean policies?"),
        ("[mcp]\ntoolsets = \"all\"\n", "config.toml:2: "),
        ("[mcp]\ntoolset = [\"all\"]\n", "toolsets"),
    ] {
        user.write("work/config.toml", text);
        let ended = user.hotcell(["mcp", "--config", config.to_str().expect("UTF-8")]).end();
        ended.code(125).says(says);
    }
    user.hotcell(["mcp", "--toolsets", "rum"])
        .end()
        .code(125)
        .says("did you mean run?")
        .says("there are default");
    let told = user.hotcell(["mcp"]).env("HOTCELL_MCP_TOOLSETS", "rum").end();
    told.code(125).says("HOTCELL_MCP_TOOLSETS: there is no toolset");
}
