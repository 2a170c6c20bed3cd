//! An agent's whole workflow with everything switched on: the guard, tools of plugins, and a person's
//! approval.

use hotcell_end_to_end::everyone;
use hotcell_end_to_end::mcp::{Local, STATELESS};
use serde_json::{Value, json};

use super::approvals::{approvals, audit_is_good, id_in, log};
use super::tools::{ASKS, configure, write};

#[test]
fn agent_loop_repairs_tests_commits_with_approvals() {
    everyone(|user| {
        let project = user.make_folder("project");
        let path = project.to_str().unwrap();
        configure(user, &format!("[mcp]\ncommit = [{path:?}]\n[tools.config.asks]\ncolour = \"blue\"\n"));
        write(user, "asks.wasm", ASKS);
        user.hotcell(["tool", "add", "asks.wasm"]).end().code(0);
        let mut client = Local::start(user, STATELESS);

        // The first version would remove the user's files; nothing of it runs.
        let test = |first: &str| {
            format!(
                "import os, unittest\nfrom calc import add\n{first}\nclass T(unittest.TestCase):\n    \
                 def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n"
            )
        };
        let file = |path: &str, text: &str| json!({ "path": path, "content": text });
        let wrong = file("calc.py", "def add(a, b):\n    return a - b\n");
        let hostile = file("test_calc.py", &test("os.system('rm -rf /home/')"));
        let made = client.good("workspace_create", &json!({ "folder": path, "files": [wrong, hostile] }));
        let id = &made["workspace_id"];
        let in_it = json!({ "workspace_id": id });
        let held = client.good("run_tests", &in_it);
        assert_eq!(
            (&held["outcome"]["cause"], &held["cases"]),
            (&json!("quarantined"), &json!([])),
            "{held:#}"
        );
        let item = &held["outcome"]["scan"]["quarantine"]["id"];
        assert_eq!(client.good("quarantine_show", &json!({ "id": item }))["state"], "held");

        // Without that it runs, fails, is fixed, and passes.
        let write = |client: &mut Local, files: Value| {
            client.good("workspace_write", &json!({ "workspace_id": id, "files": files }));
        };
        write(&mut client, json!([file("test_calc.py", &test(""))]));
        let report = client.good("run_tests", &in_it);
        assert_eq!(
            (&report["verdict"], &report["totals"]["failed"]),
            (&json!("failed"), &json!(1)),
            "{report:#}"
        );
        assert!(report["cases"][0]["message"].as_str().is_some_and(|m| m.contains("-1 != 3")), "{report:#}");
        write(&mut client, json!([file("calc.py", "def add(a, b):\n    return a + b\n")]));
        let report = client.good("run_tests", &in_it);
        assert_eq!(
            (&report["verdict"], &report["totals"]["passed"]),
            (&json!("passed"), &json!(1)),
            "{report:#}"
        );

        // A plugin gets its setting once a person approves.
        let asked = client.call("asks_ask", &json!({}));
        let approval = asked["_meta"]["hotcell/approval"]["id"].as_str().expect("it asks").to_owned();
        approvals(user, &["approve", &approval]).code(0);
        assert_eq!(client.good("asks_ask", &json!({}))["result"], 400);

        // The fix is committed to the project; files that its editor would run, only after a person has seen
        // them.
        write(&mut client, json!([file(".vscode/tasks.json", "{}\n")]));
        let first = client.good("workspace_commit", &in_it);
        let read = |name: &str| std::fs::read_to_string(project.join(name)).ok();
        assert_eq!(read("calc.py").as_deref(), Some("def add(a, b):\n    return a + b\n"));
        assert_eq!(read(".vscode/tasks.json"), None);
        let approval = id_in(first["approval"]["hint"].as_str().unwrap());
        approvals(user, &["approve", &approval]).code(0);
        let done = client.good("workspace_commit", &in_it);
        assert!(done["approval"].is_null() && done["left"] == json!([]), "{done:#}");
        assert_eq!(read(".vscode/tasks.json").as_deref(), Some("{}\n"));

        audit_is_good(user);
        let by_the_person = log(user).iter().filter(|(_, channel)| channel == "cli").count();
        assert!(by_the_person >= 2, "{:?}", log(user));
    });
}
