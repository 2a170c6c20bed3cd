//! A driver that is killed by SIGKILL behind any of its events: the session goes on, comes to the same artifact, and no call is charged twice.

use std::path::Path;
use std::process::Command;

use hotcell_end_to_end::User;
use serde_json::Value;

use crate::fix::{file, server_by};

const PLAN: &str =
    "PLAN_START\nSUMMARY: sums\nFILE: calc.py\nPURPOSE: adds\nINTERFACE:\ndef add(a, b)\nPLAN_END\n";
const CODE: &str = "def add(a, b):\n    return a + b\n";
const TESTS: &str = "import unittest\n\nimport calc\n\n\nclass Calc(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(2, 3), 5)\n";

/// Prints the number of transactions of the only session; with a number it goes back to the state behind that transaction: later events are not
/// there, nor calls in the ledger whose reply is not.
const CUT: &str = r#"
import json, sqlite3, sys
db = sqlite3.connect(sys.argv[1])
rows = [(seq, time, candidate, json.loads(entry)) for seq, time, candidate, entry in
        db.execute("SELECT seq, time_us, candidate, entry FROM agent_events ORDER BY seq")]
times = sorted({time for _, time, _, _ in rows})
if len(sys.argv) == 2:
    print(len(times))
    sys.exit()
last = times[int(sys.argv[2]) - 1]
session = db.execute("SELECT id FROM agent_sessions").fetchone()[0]
kept = [(candidate, entry) for _, time, candidate, entry in rows if time <= last]
asked, ended = {}, set()
for candidate, entry in kept:
    if entry["entry"] == "asked":
        asked[candidate] = asked.get(candidate, 0) + 1
    if entry["entry"] in ("replied", "no_reply"):
        ended.add(f"{session}.{candidate}.{asked[candidate]}")
db.execute("DELETE FROM agent_events WHERE time_us > ?", (last,))
db.execute("UPDATE agent_sessions SET state = 'running'")
for (id,) in db.execute("SELECT id FROM model_calls").fetchall():
    if id.rpartition(".")[0] not in ended:
        db.execute("DELETE FROM model_calls WHERE id = ?", (id,))
db.commit()
print(sum(asked.values()), len(ended))
"#;

fn cut(state: &Path, at: Option<usize>) -> Vec<usize> {
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-I", "-c", CUT]).arg(state.join("hotcell.db"));
    let ended = command.args(at.map(|at| at.to_string())).output().expect("python3 runs");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    String::from_utf8_lossy(&ended.stdout)
        .split_whitespace()
        .map(|word| word.parse().expect("a number"))
        .collect()
}

#[test]
fn driver_killed_behind_any_event_comes_to_the_same_artifact() {
    let user = User::me();
    user.make_folder("work");
    user.write("work/SPEC.md", "add(a, b) gives the sum.\n");
    let answers = [
        PLAN.to_owned(),
        file("test_calc.py", TESTS),
        file("calc.py", &CODE.replace('+', "-")),
        file("calc.py", CODE),
    ];
    let roles = ["You are the architect", "You are the tester", "You write code", "You repair"];
    let (address, seen) = server_by(move |_, body| {
        let role = roles.iter().position(|role| body.contains(role)).expect("a role");
        answers[role].clone()
    });
    let words = ["model", "add", "local", "--provider", "llamacpp", "--url", &address, "--model", "scripted"];
    user.hotcell(words).end().code(0);
    let whole = user.path("state");
    let state = whole.to_str().expect("a path");
    let report = user
        .hotcell(["--state", state, "make", "SPEC.md", "--json"])
        .cwd(user.path("work"))
        .end()
        .code(0)
        .json();
    let calls = |report: &Value| report["usage"]["calls"].as_u64().expect("a number");
    assert_eq!((&report["state"], calls(&report)), (&"converged".into(), 4), "{report}");
    let id = report["id"].as_str().expect("an id");
    let transactions = cut(&whole, None)[0];
    assert!(transactions > 15, "{transactions}");
    for at in 1..=transactions {
        let copy = user.path(&format!("state-{at}"));
        let copied = Command::new("cp").arg("-a").arg(&whole).arg(&copy).status().expect("cp runs");
        assert!(copied.success());
        let [asked, ended] = cut(&copy, Some(at))[..] else { panic!("two numbers") };
        let before = seen.lock().expect("no panic").len();
        let resumed =
            user.hotcell(["--state", copy.to_str().expect("a path"), "agent", "resume", id, "--json"]).end();
        let again = resumed.code(0).json();
        assert_eq!(
            (&again["state"], &again["diff"]),
            (&report["state"], &report["diff"]),
            "event {at}: {again}"
        );
        let requests = seen.lock().expect("no panic").len() - before;
        // An answer that was recorded is not asked for again; a call whose end was lost counts, and is made again.
        assert_eq!(requests, 4 - ended, "event {at}");
        assert_eq!(calls(&again), (asked + requests) as u64, "event {at}: {again}");
        assert_eq!(again["usage"]["without_reply"], (asked - ended) as u64, "event {at}: {again}");
        std::fs::remove_dir_all(&copy).expect("the copy is removed");
    }
}
