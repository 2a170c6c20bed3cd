//! `hotcell mcp --role` and `hotcell make --processes`: four processes, each with the tools of one role; one that is killed does not end the others.

use std::fs;

use hotcell_end_to_end::mcp::{Local, SESSIONS, until};
use hotcell_end_to_end::{User, Weak};
use serde_json::{Value, json};

use crate::fix::{file, server_by};

const PLAN: &str =
    "PLAN_START\nSUMMARY: sums\nFILE: calc.py\nPURPOSE: adds\nINTERFACE:\ndef add(a, b)\nPLAN_END\n";
const CODE: &str = "def add(a, b):\n    return a + b\n";
const TESTS: &str = "import unittest\n\nimport calc\n\n\nclass Calc(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(2, 3), 5)\n";
/// Words of the roles' instructions.
const ROLES: [&str; 4] =
    ["You are the architect", "You write code", "You are the tester", "You repair a project"];

/// A user whose model answers each role with its text; a text `sleep` never answers the first time, and then as `awake`.
fn with_model(user: &User, answers: [&str; 4], awake: &str) -> std::sync::Arc<std::sync::Mutex<Vec<String>>> {
    user.make_folder("work");
    user.write("work/SPEC.md", "add(a, b) gives the sum.\n");
    let answers = answers.map(str::to_owned);
    let awake = awake.to_owned();
    let slept = std::sync::atomic::AtomicBool::new(false);
    let (address, seen) = server_by(move |_, body| {
        let role = ROLES.iter().position(|role| body.contains(role)).expect("a role");
        let text = answers[role].clone();
        if text == "sleep" && slept.swap(true, std::sync::atomic::Ordering::SeqCst) {
            awake.clone()
        } else {
            text
        }
    });
    let words = ["model", "add", "local", "--provider", "llamacpp", "--url", &address, "--model", "scripted"];
    user.hotcell(words).words(&["--replace"]).end().code(0);
    seen
}

fn start(user: &User, role: &str) -> Local {
    Local::start_on(user, &Weak::default(), &["--role", role], SESSIONS)
}

/// The JSON in the only text of an answer (S0.10).
fn json_of(answer: &Value) -> Value {
    assert!(answer["isError"] != true, "{answer}");
    assert_eq!(answer["content"].as_array().map(Vec::len), Some(1), "{answer}");
    serde_json::from_str(answer["content"][0]["text"].as_str().expect("a text")).expect("JSON")
}

#[test]
fn roles_hand_work_on_as_the_founding_document_has_it() {
    let user = User::me();
    let (tests, wrong, right) =
        (file("test_calc.py", TESTS), file("calc.py", &CODE.replace('+', "-")), file("calc.py", CODE));
    with_model(&user, [PLAN, &wrong, &tests, &right], "");
    let mut architect = start(&user, "architect");
    let listed = architect.request("tools/list", json!({}));
    let names: Vec<_> =
        listed["result"]["tools"].as_array().expect("tools").iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, [&json!("create_architecture")]);
    let plan = json_of(
        &architect.call("create_architecture", &json!({ "requirements": "add(a, b) gives the sum." })),
    );
    assert_eq!(plan["detailed_plan"]["files"][0]["path"], "calc.py", "{plan}");
    let mut coder = start(&user, "coder");
    let code = json_of(&coder.call("generate_code", &json!({ "architectural_plan": plan["detailed_plan"] })));
    let code = &code["code_package"];
    assert!(code["files"]["calc.py"].as_str().is_some_and(|text| text.contains("a - b")), "{code}");
    let mut tester = start(&user, "tester");
    let made = json_of(&tester.call("generate_tests", &json!({ "code_package": code })));
    let tests = &made["test_package"];
    assert_eq!((&tests["failing_on_stub"], &tests["of"]), (&1.into(), &1.into()), "{made}");
    let ran = json_of(&tester.call("run_tests", &json!({ "code_package": code, "test_package": tests })));
    let results = &ran["test_results"];
    assert_eq!((&results["passed"], &results["of"]), (&false.into(), &1.into()), "{ran}");
    let mut debugger = start(&user, "debugger");
    let fixed = json_of(&debugger.call("fix_code", &json!({ "code": code, "test_results": results })));
    assert_eq!(
        (&fixed["success"], &fixed["final_test_results"]["passed"]),
        (&true.into(), &true.into()),
        "{fixed}"
    );
    let text = fixed["fixed_code"]["calc.py"].as_str().expect("a text");
    assert_eq!(text.trim_end(), CODE.trim_end(), "{fixed}");
    let attempt = &fixed["attempts"][0];
    assert_eq!((&attempt["attempt"], &attempt["test_passed"]), (&1.into(), &true.into()), "{fixed}");
    // Objects as JSON text are understood; what a model could not write is refused from a client, too.
    let text = json!({ "code_package": code.to_string(), "test_package": tests.to_string() });
    assert_eq!(json_of(&tester.call("run_tests", &text))["test_results"]["of"], 1);
    let with = |path: &str| {
        let mut code = code.clone();
        code["files"] = json!({ path: "x" });
        json!({ "code_package": code, "test_package": tests })
    };
    for (arguments, why) in [
        (with("../outside.py"), "../outside.py"),
        (with("test_calc.py"), "is a test by its name"),
        (with(".git/hooks/pre-commit"), "protected"),
        (json!({ "code_package": code }), "test_package is missing"),
        (json!({ "code_package": 5, "test_package": tests }), "code_package"),
        (json!({ "code_package": code, "test_package": tests, "more": 1 }), "more"),
    ] {
        let answer = tester.call("run_tests", &arguments);
        assert!(answer["isError"] == true && answer.to_string().contains(why), "{why}: {answer}");
    }
    assert!(coder.call("run_tests", &json!({}))["isError"] == true);
    for client in [architect, coder, tester, debugger] {
        assert_eq!(client.end().0, Some(0));
    }
    let usage = user.hotcell(["usage", "--by", "role", "--json"]).end().code(0).json().to_string();
    for role in ["architect", "coder", "tester", "debugger"] {
        assert!(usage.contains(role), "{role}: {usage}");
    }
    user.hotcell(["mcp", "--role", "codr"]).end().code(125).says("did you mean coder?");
}

/// Processes of hotcell that serve a role for this user.
fn servers_of(user: &User, role: &str) -> Vec<i32> {
    let state = user.path("state").into_os_string().into_string().expect("a path");
    let pids = fs::read_dir("/proc").expect("/proc").flatten().filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse::<i32>().ok()?;
        let words = String::from_utf8_lossy(&fs::read(entry.path().join("cmdline")).ok()?).into_owned();
        let words: Vec<&str> = words.split('\0').collect();
        let is_it = words.contains(&state.as_str()) && words.windows(2).any(|two| two == ["--role", role]);
        is_it.then_some(pid)
    });
    pids.collect()
}

#[test]
fn killed_role_is_started_again_and_the_program_is_made() {
    let user = User::me();
    let (tests, wrong, right) =
        (file("test_calc.py", TESTS), file("calc.py", &CODE.replace('+', "-")), file("calc.py", CODE));
    let seen = with_model(&user, [PLAN, "sleep", &tests, &right], &wrong);
    let state = user.path("state");
    let (state, out) = (state.to_str().expect("a path"), user.path("calc"));
    let words = [
        "--state",
        state,
        "make",
        "SPEC.md",
        "--processes",
        "--json",
        "--out",
        out.to_str().expect("a path"),
    ];
    let driver = user.hotcell(words).cwd(user.path("work")).piped().start();
    until("the coder's question", || seen.lock().expect("no panic").len() == 2);
    let coder = servers_of(&user, "coder");
    assert_eq!((coder.len(), servers_of(&user, "architect").len()), (1, 1));
    let killed =
        std::process::Command::new("kill").args(["-9", &coder[0].to_string()]).status().expect("kill runs");
    assert!(killed.success());
    let ended = driver.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{text}{}", String::from_utf8_lossy(&ended.stderr));
    let report: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&report["success"], &report["restarted"]), (&true.into(), &json!(["coder"])), "{report}");
    assert_eq!((&report["attempts"], &report["good"]), (&1.into(), &1.into()), "{report}");
    let made = fs::read_to_string(out.join("calc.py")).expect("the code");
    assert_eq!(made.trim_end(), CODE.trim_end());
    assert!(out.join("test_calc.py").is_file());
    for role in ["architect", "coder", "tester", "debugger"] {
        until("the end of the processes", || servers_of(&user, role).is_empty());
    }
    user.hotcell(["make", "SPEC.md", "--processes", "--candidates", "2"])
        .cwd(user.path("work"))
        .end()
        .code(125);
}
