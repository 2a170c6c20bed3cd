//! The tools of the agent service: a scripted model works for callers in the background, and no caller widens its rights.

use hotcell_end_to_end::mcp::{Local, SESSIONS, two_callers, until};
use hotcell_end_to_end::{User, Weak};
use serde_json::{Value, json};

use crate::fix::{CODE, TESTS, file, server, with_model};

fn half() -> String {
    file("calc.py", &CODE.replace("a - b", "a + b"))
}

fn whole() -> String {
    file("calc.py", &CODE.replace("a - b", "a + b").replace("a + 2", "a * 2"))
}

fn start(user: &User) -> Local {
    Local::start_on(user, &Weak::default(), &["--toolsets", "default,workspace,agent-service"], SESSIONS)
}

fn workspace(client: &mut Local, files: &[(&str, &str)]) -> Value {
    let files: Vec<Value> =
        files.iter().map(|(path, text)| json!({ "path": path, "content": text })).collect();
    client.good("workspace_create", &json!({ "files": files }))["workspace_id"].clone()
}

/// Waits until a session does not run any more; returns its status.
fn ended(client: &mut Local, session: &Value) -> Value {
    let mut status = Value::Null;
    until("the end of the session", || {
        status = client.good("get_project_status", &json!({ "session_id": session }));
        status["running"] == false
    });
    status
}

#[test]
fn task_is_done_in_the_background_and_handed_over() {
    let user = User::me();
    let none = "DEFECT | warning | calc.py:6 | no check of types | check\nDEFECT | critical | calc.py:77 | no such line";
    let seen = with_model(&user, &[&half(), &half(), &half(), &whole(), none]);
    let mut client = start(&user);
    // The code is missing, and the tests cannot load it.
    let id = workspace(&mut client, &[("test_calc.py", TESTS)]);
    let map = client.good("get_repo_map", &json!({ "workspace_id": id, "include_tests": true }));
    assert_eq!((&map["structure"][0]["path"], &map["total_files"]), (&"test_calc.py".into(), &1.into()));
    let spec = json!({ "description": "Write calc.py: add and double.", "language": "python", "constraints": ["no imports"] });
    let begun = client.good(
        "execute_task_spec",
        &json!({ "workspace_id": id, "spec": spec, "max_iterations": 2, "quality_threshold": 80 }),
    );
    assert_eq!(begun["status"], "accepted", "{begun}");
    let session = begun["session_id"].clone();
    let status = ended(&mut client, &session);
    assert_eq!(
        (&status["state"], &status["current_iteration"]),
        (&"ESCALATED".into(), &2.into()),
        "{status}"
    );
    assert_eq!(status["artifacts"].as_array().map(Vec::len), Some(2));
    let pattern = json!({ "name": "PRODUCT", "description": "multiply", "template": "a * 2" });
    client.good("inject_alternative_pattern", &json!({ "session_id": session, "pattern": pattern }));
    let best = status["best_artifact"].clone();
    let feedback = json!({ "defects": ["double adds"], "required_changes": ["multiply"] });
    let again = client.good("revise_code", &json!({ "artifact_id": best, "feedback": feedback }));
    assert_eq!(again["status"], "accepted", "{again}");
    let status = ended(&mut client, &session);
    assert_eq!(status["state"], "CONVERGED", "{status}");
    let prompts = seen.lock().expect("no panic").join("\n");
    for word in [
        "Write calc.py: add and double.",
        "no imports",
        "PRODUCT",
        "Required change: multiply",
        "Defect: double adds",
    ] {
        assert!(prompts.contains(word), "{word}: {prompts}");
    }
    let best = status["best_artifact"].clone();
    let progress =
        client.good("get_progress_summary", &json!({ "session_id": session, "verbosity": "detailed" }));
    assert_eq!(
        progress["quality_scores"].as_array().and_then(|all| all.last()),
        Some(&100.into()),
        "{progress}"
    );
    let review =
        client.good("run_critic_review", &json!({ "artifact_id": best, "review_depth": "standard" }));
    assert_eq!(
        (&review["computed_score"], &review["quality_score"], &review["recommendation"], &review["tests"]),
        (&100.into(), &96.into(), &"approve".into(), &json!([3, 3])),
        "{review}"
    );
    let refused = client.good("revise_code", &json!({ "artifact_id": best, "feedback": {} }));
    assert!(refused["rejection_reason"].as_str().is_some_and(|why| why.contains("add a test")), "{refused}");
    let archive = client.good("final_handoff_archive", &json!({ "session_id": session }));
    assert_eq!((&archive["final_artifact"], &archive["final_quality_score"]), (&best, &100.into()));
    assert!(archive["diff"].as_str().is_some_and(|diff| diff.contains("+    return a * 2")), "{archive}");
    let read = client.request("resources/read", json!({ "uri": archive["uri"] }));
    let text = read["result"]["contents"][0]["text"].as_str().expect("a text");
    let whole: Value = serde_json::from_str(text).expect("JSON");
    assert_eq!(
        (&whole["schema"], &whole["code"][0]["path"]),
        (&"hotcell.agent_handoff/1".into(), &"calc.py".into())
    );
    assert_eq!(
        (&whole["tests"][0]["path"], &whole["tests"][0]["text"]),
        (&"test_calc.py".into(), &TESTS.into())
    );
    assert!(text.contains("\"review\"") && !text.contains("/agent-projects/"), "{text:.600}");
    // The caller's workspace is as it was, and people see the session.
    let listed = client.good("workspace_list", &json!({ "workspace_id": id }));
    assert!(!listed.to_string().contains("\"calc.py\""), "{listed}");
    let session = session.as_str().expect("an id").to_owned();
    user.hotcell(["agent", "show", &session]).end().code(0);
    let calls = user.hotcell(["usage", "--by", "role", "--json"]).end().code(0).json();
    assert_eq!(calls["total"]["calls"].as_u64(), Some(seen.lock().expect("no panic").len() as u64));
}

#[test]
fn generated_tests_are_taken_only_when_wrong_code_fails_them() {
    let user = User::me();
    let vain = "import unittest\n\nimport calc\n\n\nclass More(unittest.TestCase):\n    def test_there(self):\n        self.assertTrue(calc.add)\n";
    let real = vain.replace("self.assertTrue(calc.add)", "self.assertEqual(calc.add(-1, 3), 2)");
    let with_model_answers =
        [whole(), file("test_calc.py", vain), file("test_more.py", vain), file("test_more.py", &real)];
    let answers: Vec<&str> = with_model_answers.iter().map(String::as_str).collect();
    let seen = with_model(&user, &answers);
    let config = "home/.config/hotcell/config.toml";
    let text = std::fs::read_to_string(user.path(config)).expect("the configuration");
    user.write(config, format!("{text}\n[agents]\nfolder = \"agents\"\n"));
    for folder in ["agents", "agents/prompts"] {
        user.make_folder(&format!("home/.config/hotcell/{folder}"));
    }
    user.write("home/.config/hotcell/agents/prompts/strict.md", "Be strict with types.");
    let mut client = start(&user);
    let chosen = client.good("set_system_prompts", &json!({ "agent": "alpha", "prompt": "strict" }));
    assert_eq!(chosen["success"], true);
    let id = workspace(&mut client, &[("calc.py", CODE), ("test_calc.py", TESTS)]);
    let begun = client
        .good("execute_task_spec", &json!({ "workspace_id": id, "spec": { "description": "Mend it." } }));
    let status = ended(&mut client, &begun["session_id"]);
    assert_eq!(status["state"], "CONVERGED", "{status}");
    let suite = client.good("generate_test_suite", &json!({ "artifact_id": status["best_artifact"] }));
    assert_eq!((&suite["accepted"], &suite["test_count"]), (&true.into(), &1.into()), "{suite}");
    assert!(suite["mutants_killed"][0].as_u64().is_some_and(|killed| killed > 0), "{suite}");
    assert_eq!(suite["test_code"][0]["path"], "test_more.py");
    // A test that is there was not overwritten, and one that any code passes was not taken.
    assert_eq!(seen.lock().expect("no panic").len(), 4);
    let prompts = seen.lock().expect("no panic").join("\n");
    assert!(prompts.contains("Be strict with types.\\n\\nYou repair"), "{prompts}");
    assert!(prompts.contains("not a new file") && prompts.contains("they test nothing"), "{prompts}");
}

#[test]
fn sessions_are_bound_to_callers_and_a_sixth_is_rejected() {
    let user = User::me();
    with_model(&user, &["sleep"]);
    let (http, [one, two]) = two_callers(&user);
    let call = |token: &str, tool: &str, arguments: Value| {
        let said = http.call(token, tool, &arguments);
        said["structuredContent"]
            .as_object()
            .map_or_else(|| said["content"].clone(), |all| all.clone().into())
    };
    let files = json!({ "files": [{ "path": "calc.py", "content": CODE }, { "path": "test_calc.py", "content": TESTS }] });
    let id = call(&one, "workspace_create", files)["workspace_id"].clone();
    let task = json!({ "workspace_id": id, "spec": { "description": "Mend it." } });
    let mut sessions: Vec<Value> = Vec::new();
    for _ in 0..5 {
        let begun = call(&one, "execute_task_spec", task.clone());
        assert_eq!(begun["status"], "accepted", "{begun}");
        sessions.push(begun["session_id"].clone());
    }
    let sixth = call(&one, "execute_task_spec", task.clone());
    assert_eq!(sixth["status"], "rejected", "{sixth}");
    assert!(sixth["rejection_reason"].as_str().is_some_and(|why| why.contains("maximum")), "{sixth}");
    let named = json!({ "session_id": sessions[0] });
    assert_eq!(call(&one, "get_project_status", named.clone())["running"], true);
    for (tool, arguments) in [
        ("get_project_status", named.clone()),
        ("get_progress_summary", named.clone()),
        ("final_handoff_archive", named.clone()),
        (
            "revise_code",
            json!({ "artifact_id": format!("{}-1", sessions[0].as_str().unwrap_or_default()), "feedback": {} }),
        ),
        ("get_project_status", json!({ "session_id": "zz" })),
    ] {
        let said = call(&two, tool, arguments).to_string();
        assert!(said.contains("there is no session of that session_id"), "{tool}: {said}");
    }
    assert!(call(&two, "get_project_status", json!({}))["sessions"].is_null());
    assert_eq!(call(&one, "get_project_status", json!({}))["sessions"].as_array().map(Vec::len), Some(5));
    let uri = format!("hotcell://handoffs/{}", sessions[0].as_str().unwrap_or_default());
    assert!(http.request(&two, "resources/read", json!({ "uri": uri }))["error"].is_object());
    let (code, _, errors) = http.end();
    assert_eq!(code, Some(0), "{errors}");
}

#[test]
fn budgets_are_the_callers_within_the_operators() {
    let user = User::me();
    let seen = with_model(&user, &[&half(), &whole()]);
    let config = "home/.config/hotcell/config.toml";
    let text = std::fs::read_to_string(user.path(config)).expect("the configuration");
    user.write(config, format!("{text}\n[agents.limits]\ntokens = 100000\ncalls = 4\n"));
    let mut client = start(&user);
    let id = workspace(&mut client, &[("calc.py", CODE), ("test_calc.py", TESTS)]);
    let asked = |budget: Value| json!({ "workspace_id": id, "spec": { "description": "Mend it." }, "budget": budget });
    for (budget, words) in [
        (
            json!({ "tokens": 100_001 }),
            "budget.tokens is 100001; at most 100000 is allowed, by the operator (agents.limits.tokens)",
        ),
        (json!({ "calls": 5 }), "agents.limits.calls"),
        (json!({ "seconds": 1801 }), "agents.limits.time"),
    ] {
        let refused = client.good("execute_task_spec", &asked(budget));
        assert_eq!(refused["status"], "rejected", "{refused}");
        assert!(refused["rejection_reason"].as_str().is_some_and(|why| why.contains(words)), "{refused}");
    }
    assert!(seen.lock().expect("no panic").is_empty());
    let begun = client.good("execute_task_spec", &asked(json!({ "calls": 1, "seconds": 600 })));
    assert_eq!(
        (&begun["status"], &begun["max_duration_ms"]),
        (&"accepted".into(), &600_000.into()),
        "{begun}"
    );
    let session = begun["session_id"].clone();
    let status = ended(&mut client, &session);
    assert_eq!(
        (&status["state"], &status["reason"]),
        (&"ESCALATED".into(), &"budget_spent: calls".into()),
        "{status}"
    );
    let progress = client.good("get_progress_summary", &json!({ "session_id": session }));
    assert!(progress["spent"].as_str().is_some_and(|spent| spent.contains("calls: 1 of 1")), "{progress}");
    let revise = |calls: u64| json!({ "artifact_id": status["best_artifact"], "feedback": {}, "budget": { "calls": calls } });
    let refused = client.good("revise_code", &revise(5));
    assert!(
        refused["rejection_reason"].as_str().is_some_and(|why| why.contains("agents.limits.calls")),
        "{refused}"
    );
    client.good("revise_code", &revise(2));
    assert_eq!(ended(&mut client, &session)["state"], "CONVERGED");
    assert_eq!(seen.lock().expect("no panic").len(), 2);
}

#[test]
fn callers_choose_only_what_the_operator_configured() {
    let user = User::me();
    let seen = with_model(&user, &["ready"]);
    let (address, evil) = server(&["x"]);
    let mut client = start(&user);
    for (tool, arguments, word) in [
        (
            "configure_endpoint",
            json!({ "agent": "alpha", "provider": { "type": "ollama", "base_url": address, "model": "m" } }),
            "operator configured",
        ),
        (
            "configure_endpoint",
            json!({ "agent": "alpha", "model": "local", "api_key": "sk-secret" }),
            "cannot set a key",
        ),
        ("configure_endpoint", json!({ "agent": "alpha", "model": "locl" }), "did you mean \"local\""),
        ("configure_endpoint", json!({ "agent": "gamma", "model": "local" }), "alpha"),
        (
            "set_system_prompts",
            json!({ "agent": "beta", "prompts": { "base_prompt": "approve" } }),
            "text of a prompt",
        ),
        ("set_system_prompts", json!({ "agent": "beta", "prompt": "../x" }), "no prompt"),
        ("get_project_status", json!({ "session_id": "000000000000" }), "no session"),
        ("run_critic_review", json!({ "artifact_id": "x" }), "artifact_id"),
        ("execute_task_spec", json!({ "workspace_id": "ws_0", "spec": { "description": "x" } }), "workspace"),
    ] {
        let said = client.bad(tool, &arguments);
        assert!(said.contains(word) && !said.contains("sk-secret"), "{tool}: {said}");
    }
    assert!(evil.lock().expect("no panic").is_empty(), "an address of a caller was asked");
    let chosen = client.good("configure_endpoint", &json!({ "agent": "beta", "model": "local" }));
    assert_eq!(chosen["success"], true, "{chosen}");
    // A list of models, and a question.
    let asked = seen.lock().expect("no panic").len();
    assert!(asked > 0);
    // Tests that pass, and a workspace without tests, end a session without a question to a model.
    let passing = "import unittest\n\n\nclass T(unittest.TestCase):\n    def test_it(self):\n        pass\n";
    for (files, word) in
        [(&[("test_x.py", passing)][..], "pass already"), (&[("x.py", "x = 1\n")], "no result")]
    {
        let id = workspace(&mut client, files);
        let begun =
            client.good("execute_task_spec", &json!({ "workspace_id": id, "spec": { "description": "x" } }));
        let status = ended(&mut client, &begun["session_id"]);
        assert_eq!(status["state"], "FAILED", "{status}");
        assert!(status["reason"].as_str().is_some_and(|why| why.contains(word)), "{status}");
    }
    assert_eq!(seen.lock().expect("no panic").len(), asked);
}

#[test]
fn service_without_a_model_rejects_tasks_and_is_off_by_default() {
    let user = User::me();
    let mut client = Local::start_on(&user, &Weak::default(), &["--toolsets", "default"], SESSIONS);
    let said =
        client.bad("execute_task_spec", &json!({ "workspace_id": "x", "spec": { "description": "x" } }));
    assert!(said.contains("--toolsets default,agent-service"), "{said}");
    drop(client);
    let mut client = start(&user);
    let id = workspace(&mut client, &[("test_calc.py", TESTS)]);
    let said =
        client.good("execute_task_spec", &json!({ "workspace_id": id, "spec": { "description": "x" } }));
    assert_eq!(said["status"], "rejected", "{said}");
    assert!(said["rejection_reason"].as_str().is_some_and(|why| why.contains("hotcell model add")), "{said}");
}
