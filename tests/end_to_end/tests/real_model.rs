//! A real language model of 135 million parameters, which `scripts/model` serves: it makes programs, and fails at others. Both end as documented.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use hotcell_end_to_end::User;
use serde_json::Value;

/// Name, specification, interface, and comparisons of a function.
const FUNCTIONS: [(&str, &str, &str, &str); 6] = [
    (
        "is_even",
        "is_even(n) returns True if the integer n is even, and False otherwise.",
        "def is_even(n)",
        "self.assertTrue(is_even(4)), self.assertFalse(is_even(7))",
    ),
    (
        "add",
        "add(a, b) returns the sum of a and b.",
        "def add(a, b)",
        "self.assertEqual(add(2, 3), 5), self.assertEqual(add(-1, 1), 0)",
    ),
    (
        "reverse",
        "reverse(text) returns the text backwards.",
        "def reverse(text)",
        "self.assertEqual(reverse('abc'), 'cba')",
    ),
    (
        "count_vowels",
        "count_vowels(text) returns the number of vowels (a, e, i, o, u) in the text.",
        "def count_vowels(text)",
        "self.assertEqual(count_vowels('hello'), 2), self.assertEqual(count_vowels('xyz'), 0)",
    ),
    (
        "maximum",
        "maximum(values) returns the largest number of a list.",
        "def maximum(values)",
        "self.assertEqual(maximum([3, 9, 2]), 9), self.assertEqual(maximum([-5, -2]), -2)",
    ),
    (
        "factorial",
        "factorial(n) returns the product of the numbers from 1 to n, and 1 for 0.",
        "def factorial(n)",
        "self.assertEqual(factorial(5), 120), self.assertEqual(factorial(0), 1)",
    ),
];
/// States in which a session ends.
const ENDS: [&str; 3] = ["converged", "escalated", "failed"];

/// The model's server, which ends with its input.
struct Model(Child);

impl Drop for Model {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// A user whose only model is the real one; `None` without it.
fn with_model() -> Option<(User, Model)> {
    let Some(folder) = std::env::var_os("HOTCELL_TEST_MODEL").map(PathBuf::from) else {
        println!(
            "skipped: no language model: HOTCELL_TEST_MODEL names no folder (scripts/test fetches one from PyPI)"
        );
        return None;
    };
    let user = User::me();
    let serve = Command::new(folder.join("serve"))
        .arg("--folder")
        .arg(&folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut model = Model(serve.expect("the model's server starts"));
    let mut address = String::new();
    let output = model.0.stdout.take().expect("its output");
    BufReader::new(output).read_line(&mut address).expect("its address");
    let words =
        ["model", "add", "tiny", "--provider", "llamacpp", "--url", address.trim(), "--model", "smollm2"];
    user.hotcell(words).words(&["--window", "8192", "--prompts", "short"]).end().code(0);
    Some((user, model))
}

fn test(name: &str, compared: &str) -> String {
    format!(
        "import unittest\n\nfrom solution import {name}\n\n\nclass Test(unittest.TestCase):\n    def test_it(self):\n        {compared}\n"
    )
}

/// A session has ended in a documented state, and its archive has all of it.
fn check(user: &User, report: &Value, code: Option<&str>) {
    let state = report["state"].as_str().expect("a state");
    assert!(ENDS.contains(&state), "{report}");
    assert_eq!(report["reason"].is_null(), state == "converged", "{report}");
    let calls = report["usage"]["calls"].as_u64().expect("a number");
    assert!(calls > 0, "{report}");
    let id = report["id"].as_str().expect("an id");
    let to = user.path(&format!("archive-{id}"));
    user.hotcell(["agent", "export", id, to.to_str().expect("a path")]).end().code(0);
    let read = |name: &str| std::fs::read_to_string(to.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let session: Value = serde_json::from_str(&read("session.json")).expect("JSON");
    assert_eq!((&session["state"], &session["usage"]["calls"]), (&state.into(), &calls.into()));
    let asked = read("events.jsonl").matches("\"entry\":\"asked\"").count() as u64;
    assert_eq!(asked, calls, "each call is an event");
    if let Some(code) = code.filter(|_| state == "converged") {
        assert!(read("changes.patch").contains(&format!("+++ b/{code}")), "{report}");
        assert!(Path::new(&to.join("code").join(code)).is_file());
    }
}

#[test]
fn real_model_makes_one_of_six_functions_by_given_tests() {
    let Some((user, _model)) = with_model() else { return };
    let mut made = Vec::new();
    for (name, spec, interface, compared) in FUNCTIONS {
        user.make_folder(name);
        user.write(format!("{name}/SPEC.md"), spec);
        user.write(
            format!("{name}/PLAN"),
            format!("FILE: solution.py\nPURPOSE: the function {name}\nINTERFACE:\n{interface}\n"),
        );
        user.make_folder(&format!("{name}/tests"));
        user.write(format!("{name}/tests/test_{name}.py"), test(name, compared));
        let words = ["make", "SPEC.md", "--plan", "PLAN", "--tests", "tests", "--json"];
        let limits = ["--max-tokens", "256", "--seed", "1", "--budget", "4m"];
        let ended = user.hotcell(words).words(&limits).cwd(user.path(name)).end();
        let report = ended.json();
        check(&user, &report, Some("solution.py"));
        made.push(format!("{name}: {} after {} calls", report["state"], report["usage"]["calls"]));
        // The others are measured by scripts/bench-make.
        if report["state"] == "converged" {
            println!("{}", made.join("; "));
            return;
        }
    }
    panic!("a model that writes these functions made none of them: {}", made.join("; "));
}

#[test]
fn real_model_repairs_or_gives_up_as_documented() {
    let Some((user, _model)) = with_model() else { return };
    user.make_folder("shop");
    let (name, _, _, compared) = FUNCTIONS[1];
    let wrong = "def add(a, b):\n    return a - b\n";
    user.write("shop/solution.py", wrong);
    user.write("shop/test_add.py", test(name, compared));
    let words =
        ["fix", "shop", "--iterations", "1", "--max-tokens", "96", "--seed", "1", "--budget", "4m", "--json"];
    let report = user.hotcell(words).cwd(user.path("")).end().json();
    check(&user, &report, Some("solution.py"));
    // Nothing is written without --commit.
    assert_eq!(std::fs::read_to_string(user.path("shop/solution.py")).expect("the code"), wrong);
}
