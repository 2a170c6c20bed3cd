//! `hotcell make`: scripted models plan, test, write and repair; they answer badly, attack, or are killed.

use std::sync::{Arc, Mutex};

use hotcell_end_to_end::mcp::until;
use hotcell_end_to_end::{Ended, User, everyone};
use serde_json::Value;

use crate::fix::{file, server};

const PLAN: &str = "PLAN_START\nSUMMARY: sums\nFILE: calc.py\nPURPOSE: adds and doubles\nINTERFACE:\ndef add(a, b)\ndef double(a)\nPLAN_END\n";
const CODE: &str = "def add(a, b):\n    return a + b\n\n\ndef double(a):\n    return a * 2\n";
const TESTS: &str = "import unittest\n\nimport calc\n\n\nclass Calc(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(2, 3), 5)\n\n    \
    def test_double(self):\n        self.assertEqual(calc.double(5), 10)\n";
/// Tests that say nothing about the code: one uses none, one looks at no result.
const EMPTY_TESTS: &str = "import unittest\n\nimport calc\n\n\nclass Calc(unittest.TestCase):\n    def test_add(self):\n        self.assertTrue(calc.add is not None)\n\n    \
    def test_double(self):\n        calc.double(5)\n";

fn with_model(user: &User, answers: &[&str]) -> Arc<Mutex<Vec<String>>> {
    user.make_folder("work");
    user.write("work/SPEC.md", "add(a, b) gives the sum, double(a) twice a.\n");
    let (address, seen) = server(answers);
    user.hotcell(["model", "add", "local", "--provider", "llamacpp", "--url", &address])
        .words(&["--model", "scripted", "--replace"])
        .end()
        .code(0);
    seen
}

fn make(user: &User, words: &[&str]) -> Ended {
    user.hotcell(["make", "SPEC.md"]).words(words).cwd(user.path("work")).end()
}

fn read(user: &User, name: &str) -> String {
    let text = std::fs::read_to_string(user.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    text.trim_end().to_owned() + "\n"
}

fn roles(user: &User) -> Value {
    user.hotcell(["usage", "--by", "role", "--json"]).end().code(0).json()
}

#[test]
fn program_is_made_with_one_repair_and_written_to_a_new_folder() {
    everyone(|user| {
        let wrong = file("calc.py", &CODE.replace("a * 2", "a + 2"));
        let (tests, right) = (file("test_calc.py", TESTS), file("calc.py", CODE));
        let seen = with_model(user, &[PLAN, &tests, &wrong, &right]);
        let report = make(user, &["--json", "--out", "calc"]).code(0).json();
        assert_eq!((&report["kind"], &report["state"]), (&"make".into(), &"converged".into()), "{report}");
        assert_eq!(report["best"]["iteration"], 2, "{report}");
        let rows = &report["candidates"][0]["iterations"];
        assert_eq!((&rows[0]["ask"], &rows[1]["ask"]), (&"first".into(), &"repair".into()), "{report}");
        let tests = &report["made"]["tests"];
        assert_eq!((&tests["failing_on_stub"], &tests["of"]), (&2.into(), &2.into()), "{report}");
        // The run on the stub is evidence, too.
        let run = tests["run"].as_str().expect("a run").to_owned();
        user.hotcell(["runs", "show", &run]).end().code(0);
        assert_eq!(read(user, "work/calc/calc.py"), CODE);
        assert_eq!(read(user, "work/calc/test_calc.py"), TESTS);
        let prompts = seen.lock().expect("no panic").clone();
        assert!(!prompts[1].contains("return a") && prompts[1].contains("def double(a)"), "{}", prompts[1]);
        assert!(
            prompts[2].contains("a test, cannot be changed") && !prompts[2].contains("NotWritten"),
            "{}",
            prompts[2]
        );
        let usage = roles(user).to_string();
        for role in ["architect", "tester", "coder", "debugger"] {
            assert!(usage.contains(role), "{role}: {usage}");
        }
        let id = report["id"].as_str().expect("an id").to_owned();
        user.hotcell(["agent", "export", &id, user.path("work/export").to_str().expect("a path")])
            .end()
            .code(0);
        assert_eq!(read(user, "work/export/code/calc.py"), CODE);
        assert!(read(user, "work/export/events.jsonl").contains("PLAN_START"));
        assert!(read(user, "work/export/changes.patch").contains("+++ b/test_calc.py"));
        let shown = user.hotcell(["agent", "show", &id]).end();
        assert!(shown.code(0).text().contains("written to "), "{}", shown.text());
        user.hotcell(["agent", "resume", &id, "--commit"]).end().code(125).says("--out");
    });
}

#[test]
fn tests_that_pass_on_a_stub_are_refused_three_times() {
    let user = User::me();
    let seen = with_model(&user, &[PLAN, &file("test_calc.py", EMPTY_TESTS)]);
    let report = make(&user, &["--json"]).code(1).json();
    assert_eq!((&report["state"], &report["usage"]["calls"]), (&"escalated".into(), &4.into()), "{report}");
    let tester = &report["made"]["stages"][1];
    assert_eq!(tester["answers"].as_array().map(Vec::len), Some(3), "{report}");
    assert!(
        tester["answers"][2]["refused"]
            .as_str()
            .is_some_and(|why| why.contains("2 of 2 tests pass on a stub"))
    );
    assert!(report["best"].is_null() && report["made"]["tests"].is_null(), "{report}");
    assert!(seen.lock().expect("no panic")[2].contains("do not count"), "the tester was not told");
    // A better answer of a tester, and the code.
    let id = report["id"].as_str().expect("an id").to_owned();
    let (tests, code) = (file("test_calc.py", TESTS), file("calc.py", CODE));
    with_model(&user, &[&tests, &code]);
    user.hotcell(["agent", "resume", &id, "--accept"]).end().code(125).says("no code yet");
    let made = user.hotcell(["agent", "resume", &id, "--constraint", "test the results", "--json"]).end();
    assert_eq!(made.code(0).json()["state"], "converged", "{}", made.text());
}

#[test]
fn tests_that_pass_on_wrong_code_are_not_enough() {
    let user = User::me();
    let plan = PLAN.replace("def double(a)\n", "");
    // 0 + 0 is 0 - 0: the tests fail on a stub, and say nothing about the operator.
    let tests = file(
        "test_calc.py",
        &TESTS
            .split("\n\n    def test_double")
            .next()
            .expect("a part")
            .replace("add(2, 3), 5", "add(0, 0), 0"),
    );
    let code = file("calc.py", "def add(a, b):\n    return a - b\n");
    with_model(&user, &[&plan, &tests, &code]);
    let report = make(&user, &["--json", "--out", "out"]).code(1).json();
    assert_eq!(
        (&report["state"], &report["reason"]),
        (&"escalated".into(), &"tests_prove_nothing".into()),
        "{report}"
    );
    let score = &report["best"]["score"];
    assert!(score.to_string().contains("tests fail on 0 of 1") && score["score"] == 60, "{report}");
    assert!(!user.path("work/out").exists());
    // A person may take it nevertheless.
    let id = report["id"].as_str().expect("an id").to_owned();
    let out = user.path("taken");
    user.hotcell(["agent", "resume", &id, "--accept", "--out", out.to_str().expect("a path")]).end().code(0);
    assert!(out.join("calc.py").is_file());
}

#[test]
fn hostile_plans_tests_and_code_touch_nothing() {
    let user = User::me();
    for path in
        ["../outside.py", "/tmp/hotcell-outside.py", ".git/hooks/pre-commit", ".hidden/a.py", "conftest.py"]
    {
        with_model(&user, &[&PLAN.replace("calc.py", path)]);
        let report = make(&user, &["--json"]).code(1).json();
        assert_eq!(report["reason"], "malformed_answers", "{path}: {report}");
        assert!(report["made"]["plan"].is_null() && report["usage"]["calls"] == 3, "{report}");
    }
    with_model(&user, &[PLAN, &file("calc.py", CODE)]);
    assert_eq!(make(&user, &["--json"]).code(1).json()["reason"], "malformed_answers");
    // A coder that changes the tests, and code that forges their result.
    let tests = file("test_calc.py", TESTS);
    let changed = file("calc.py", CODE) + &file("test_calc.py", EMPTY_TESTS);
    let forged = file("calc.py", "import os\nprint('OK')\nos._exit(0)\n");
    for (answer, reason) in [(changed, "malformed_answers"), (forged, "max_iterations_reached")] {
        with_model(&user, &[PLAN, &tests, &answer]);
        let report = make(&user, &["--json", "--iterations", "1", "--out", "out"]).code(1).json();
        assert_eq!(report["reason"], reason, "{report}");
        assert!(!user.path("work/out").exists());
    }
    assert!(!user.path("work/outside.py").exists() && !user.path("outside.py").exists());
    assert_eq!(std::fs::read_dir(user.path("work")).expect("the folder").count(), 1);
}

#[test]
fn killed_session_goes_on_at_each_stage_and_is_charged_once() {
    let user = User::me();
    let (tests, code) = (file("test_calc.py", TESTS), file("calc.py", CODE));
    let seen = with_model(&user, &["sleep", PLAN, "sleep", &tests, "sleep", &code]);
    let calls = || seen.lock().expect("no panic").len();
    let mut driver = user.hotcell(["make", "SPEC.md"]).cwd(user.path("work")).piped().start();
    let mut id = String::new();
    for call in [1, 3, 5] {
        until("a call without an answer", || calls() == call);
        driver.kill().expect("it is killed");
        driver.wait().expect("it ended");
        let list = user.hotcell(["agent", "list", "--json"]).end().code(0).json();
        list["sessions"][0]["id"].as_str().expect("an id").clone_into(&mut id);
        driver = user.hotcell(["agent", "resume", &id]).piped().start();
    }
    assert!(driver.wait().expect("it ended").success());
    let report = user.hotcell(["agent", "show", &id, "--json"]).end().code(0).json();
    assert_eq!(
        (&report["state"], &report["best"]["iteration"]),
        (&"converged".into(), &1.into()),
        "{report}"
    );
    assert_eq!(
        (&report["usage"]["calls"], &report["usage"]["without_reply"]),
        (&6.into(), &3.into()),
        "{report}"
    );
    let out = user.path("made");
    user.hotcell(["agent", "resume", &id, "--out", out.to_str().expect("a path")]).end().code(0);
    assert_eq!((read(&user, "made/calc.py").as_str(), calls()), (CODE, 6));
}

#[test]
fn javascript_is_made_by_given_tests_after_a_plan() {
    let user = User::me();
    let plan = PLAN.replace("calc.py", "calc.js");
    let code = file("calc.js", "exports.add = (a, b) => a + b;\nexports.double = (a) => a * 2;");
    let seen = with_model(&user, &[&plan, &code]);
    user.make_folder("work/given");
    let tests = "const test = require(\"node:test\");\nconst assert = require(\"node:assert/strict\");\nconst { add } = require(\"./calc.js\");\n\
                 test(\"adds\", () => assert.equal(add(2, 3), 5));\n";
    user.write("work/given/calc.test.js", tests);
    let planned = make(&user, &["--lang", "js", "--tests", "given", "--plan-only"]);
    let text = planned.code(0).text();
    assert!(
        text.contains("calc.js") && text.contains("adds and doubles") && text.contains("planned"),
        "{text}"
    );
    let list = user.hotcell(["agent", "list", "--json"]).end().code(0).json();
    assert_eq!(list["sessions"][0]["state"], "planned", "{list}");
    let id = list["sessions"][0]["id"].as_str().expect("an id").to_owned();
    let out = user.path("made");
    let made = user.hotcell(["agent", "resume", &id, "--json", "--out", out.to_str().expect("a path")]).end();
    let report = made.code(0).json();
    assert_eq!(
        (&report["state"], &report["made"]["tests"]["given"]),
        (&"converged".into(), &true.into()),
        "{report}"
    );
    assert_eq!((read(&user, "made/calc.test.js").as_str(), seen.lock().expect("no panic").len()), (tests, 2));
    assert!(read(&user, "made/package.json").contains("node --test"));
}

#[test]
fn requests_that_cannot_work_say_so_in_a_line() {
    let user = User::me();
    user.make_folder("work");
    user.write("work/SPEC.md", "adds");
    make(&user, &[]).code(125).says_one_line("hotcell model add ollama");
    let seen = with_model(&user, &[PLAN]);
    make(&user, &["--lang", "pyton"]).code(125).says("did you mean python?");
    make(&user, &["--budget", "0calls"]).code(125).says("allows no call");
    make(&user, &["--model", "locl"]).code(125).says("did you mean \"local\"");
    make(&user, &["--out", "."]).code(125).says("is not empty");
    make(&user, &["--tests", "none"]).code(125).says("none");
    for (name, bytes, why) in [
        ("EMPTY.md", &b" \n"[..], "is empty"),
        ("LONG.md", &[b'x'; 1 << 20], "larger than 64 KiB"),
        ("BYTES.md", b"\xff\xfe", "not UTF-8"),
    ] {
        user.write(format!("work/{name}"), bytes);
        user.hotcell(["make", name]).cwd(user.path("work")).end().code(125).says_one_line(why);
    }
    user.hotcell(["make", "."]).cwd(user.path("work")).end().code(125).says_one_line("a folder");
    assert_eq!(seen.lock().expect("no panic").len(), 0);
}
