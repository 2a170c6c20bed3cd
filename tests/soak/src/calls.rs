//! Calls to a server under chaos, and their only correct answers.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Calls, Reply};
use crate::dice::Dice;
use crate::kinds::Place;

/// Time limit for any answer: a guard's reader or a tool host that was killed is restarted meanwhile.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);

/// Dangerous on the face of it, and harmless in a sandbox.
const HOSTILE: &str = "import os\nprint('ran')\nos.system('rm -rf /home/')\n";

/// A tool that echoes its argument.
pub const ECHO: &str = r#"(component
    (core module $m
        (memory (export "memory") 1)
        (global $at (mut i32) (i32.const 1024))
        (func (export "realloc") (param i32 i32 i32 i32) (result i32) (local i32)
            (local.set 4 (global.get $at))
            (global.set $at (i32.add (global.get $at) (local.get 3)))
            (local.get 4))
        (func (export "echo") (param i32 i32) (result i32)
            (i32.store (i32.const 16) (local.get 0))
            (i32.store (i32.const 20) (local.get 1))
            (i32.const 16)))
    (core instance $i (instantiate $m))
    (func (export "echo") (param "text" string) (result string)
        (canon lift (core func $i "echo") (memory (core memory $i "memory")) (realloc (core func $i "realloc")))))"#;

/// Verdict on a call.
#[derive(Debug, PartialEq, Eq)]
pub enum Judged {
    Right,
    /// The answer reports a failure with a reason: correct if a blow struck.
    Failed(String),
    /// The answer reports that its program was killed: correct if the soak did that.
    Killed,
    /// The server ended.
    Lost,
    Wrong(String),
}

/// One kind of call.
pub struct Kind {
    pub name: &'static str,
    /// Relative frequency.
    pub weight: u64,
    call: fn(&mut Asked<'_>) -> Result<(), Judged>,
}

const fn kind(name: &'static str, weight: u64, call: fn(&mut Asked<'_>) -> Result<(), Judged>) -> Kind {
    Kind { name, weight, call }
}

static KINDS: [Kind; 10] = [
    kind("code (python)", 30, |asked| {
        let (a, b) = (asked.dice.below(1000), asked.dice.below(1000));
        let code = format!("import sys\nprint(sys.argv[1], {a} * {b})\nsys.exit({})\n", a % 7);
        let exit = i64::try_from(a % 7).unwrap_or(0);
        let mark = asked.mark.clone();
        let answer = asked.run("run_code", &json!({ "language": "python", "code": code, "args": [mark] }))?;
        exited(&answer, exit, &format!("{mark} {}\n", a * b))
    }),
    kind("code (node)", 6, |asked| {
        let a = asked.dice.below(100_000);
        let code = format!("console.log({a} + 1)");
        let answer = asked.run("run_code", &json!({ "language": "javascript", "code": code }))?;
        exited(&answer, 0, &format!("{}\n", a + 1))
    }),
    kind("command", 30, |asked| {
        let code = asked.dice.below(100);
        let script = format!("(sleep 600 &) ; echo $0; exit {code}");
        let mark = asked.mark.clone();
        let answer = asked.run("run_command", &json!({ "argv": ["sh", "-c", script, mark] }))?;
        exited(&answer, i64::try_from(code).unwrap_or(0), &format!("{mark}\n"))
    }),
    kind("signal", 4, |asked| {
        let answer = asked.run("run_command", &json!({ "argv": ["sh", "-c", "kill -SEGV $$"] }))?;
        signaled(&answer, "SIGSEGV")
    }),
    kind("wall clock", 4, |asked| {
        let arguments = json!({ "argv": ["sleep", "600"], "limits": { "timeout_seconds": 0.3 } });
        ended(&asked.run("run_command", &arguments)?, &["wall_limit"])
    }),
    kind("held (python)", 5, |asked| {
        let code = format!("# {}\n{HOSTILE}", asked.dice.roll());
        let answer = asked.run("run_code", &json!({ "language": "python", "code": code }))?;
        ended(&answer, &["quarantined"])
    }),
    kind("scan", 8, |asked| {
        let n = asked.dice.roll();
        let bad = asked.dice.chance(50);
        let text = if bad { format!("# {n}\n{HOSTILE}") } else { format!("print({n})\n") };
        let answer =
            asked.ask("scan_artifact", &json!({ "files": [{ "path": "a.py", "content": text }] }))?;
        let verdict = answer["verdict"].as_str().unwrap_or_default();
        match (bad, verdict) {
            (true, "quarantine") | (false, "allow") => Ok(()),
            // A file whose reader was killed counts as unread, and is not run.
            (_, "incomplete") if answer["unread"].as_array().is_some_and(|u| !u.is_empty()) => {
                Err(Judged::Failed(format!("unread: {}", answer["unread"])))
            }
            _ => Err(Judged::Wrong(format!("scan of bad: {bad}: {answer}"))),
        }
    }),
    kind("workspace", 8, |asked| {
        let mark = asked.mark.clone();
        let files = json!({ "files": [{ "path": "file", "content": "original\n" }] });
        let made = asked.ask("workspace_create", &files)?;
        let id = made["workspace_id"].clone();
        let kept = keeps(asked, &id, &mark);
        // Also after a blow that kept the run from its end: a caller has a limited number of workspaces.
        let removed = asked.ask("workspace_remove", &json!({ "workspace_id": id }));
        kept.and(removed.map(drop))
    }),
    kind("tests (python)", 6, |asked| {
        let bad = asked.dice.chance(50);
        let more = if bad { "    def test_sum(self): self.assertEqual(2 + 3, 6)\n" } else { "" };
        let text = format!(
            "import unittest\n\nclass T(unittest.TestCase):\n    def test_one(self): pass\n    def test_two(self): pass\n{more}"
        );
        let arguments =
            json!({ "framework": "unittest", "files": [{ "path": "test_it.py", "content": text }] });
        let report = asked.run("run_tests", &arguments)?;
        let totals = (&report["totals"]["passed"], &report["totals"]["failed"]);
        match report["verdict"].as_str().unwrap_or_default() {
            "passed" | "failed" => {
                same("verdict", &report["verdict"], &json!(if bad { "failed" } else { "passed" }))?;
                let right = totals == (&json!(2), &json!(u8::from(bad)));
                if right { Ok(()) } else { Err(Judged::Wrong(format!("totals of {report}"))) }
            }
            "unusable" if report["outcome"]["signal"] == "SIGKILL" => Err(Judged::Killed),
            // Its reader was killed: it is held, and not run.
            "quarantined" if report["outcome"]["scan"]["verdict"] == "incomplete" => {
                Err(explained("tests: quarantined", &report))
            }
            verdict @ ("unusable" | "refused" | "interrupted") => {
                Err(explained(&format!("tests: {verdict}"), &report))
            }
            other => Err(Judged::Wrong(format!("verdict {other:?}: {report}"))),
        }
    }),
    kind("tool", 15, |asked| {
        let mark = asked.mark.clone();
        let answer = asked.ask("echo_echo", &json!({ "text": mark }))?;
        same("echo", &answer["result"], &json!(mark))
    }),
];

/// Kinds that this host supports.
pub fn here(place: &Place, has_tool: bool) -> Vec<&'static Kind> {
    let node = std::path::Path::new("/usr/bin/node").exists();
    let can = |kind: &&Kind| match kind.name {
        "tool" => has_tool,
        name => (place.python || !name.ends_with("(python)")) && (node || !name.ends_with("(node)")),
    };
    KINDS.iter().filter(can).collect()
}

/// An answered run, which must be in the history.
#[derive(Clone, Debug)]
pub struct Answered {
    /// Last argument of the run.
    pub mark: String,
    pub cause: String,
    pub at: Instant,
}

/// A running call.
pub struct Asked<'a> {
    pub client: &'a dyn Calls,
    pub dice: Dice,
    /// Unique argument of the call.
    pub mark: String,
    /// Answered runs, by their last arguments, with their causes.
    pub answered: Vec<Answered>,
}

impl Asked<'_> {
    /// Makes a call of this kind.
    pub fn of(&mut self, kind: &Kind) -> Judged {
        (kind.call)(self).err().unwrap_or(Judged::Right)
    }

    pub fn ask(&mut self, tool: &str, arguments: &Value) -> Result<Value, Judged> {
        match self.client.call(tool, arguments, ANSWER_TIMEOUT) {
            Reply::Good(answer) => Ok(answer),
            Reply::Bad(why) if why.trim().is_empty() => {
                Err(Judged::Wrong(format!("{tool} failed without a word")))
            }
            Reply::Bad(why) => Err(Judged::Failed(format!("{tool}: {why}"))),
            Reply::Lost => Err(Judged::Lost),
            Reply::Silent => {
                Err(Judged::Wrong(format!("{tool} was not answered within {} s", ANSWER_TIMEOUT.as_secs())))
            }
        }
    }

    /// Like [`Self::ask`], for a run, which must be in the history afterwards.
    pub fn run(&mut self, tool: &str, arguments: &Value) -> Result<Value, Judged> {
        let mut arguments = arguments.clone();
        arguments["wait_ms"] = json!(60_000);
        let answer = self.ask(tool, &arguments)?;
        if answer["status"] != "finished" {
            return Err(Judged::Wrong(format!("{tool} did not finish: {answer}")));
        }
        let cause = answer["cause"].as_str().or_else(|| answer["outcome"]["cause"].as_str());
        let words = ["argv", "args"].iter().find_map(|name| arguments[*name].as_array());
        let marked = words.and_then(|words| words.last()?.as_str());
        if let (Some(mark), Some(cause)) = (marked.filter(|word| *word == self.mark), cause) {
            let (mark, cause) = (mark.to_owned(), cause.to_owned());
            self.answered.push(Answered { mark, cause, at: Instant::now() });
        }
        Ok(answer)
    }
}

/// A run whose changes are kept in the workspace.
fn keeps(asked: &mut Asked<'_>, id: &Value, mark: &str) -> Result<(), Judged> {
    let script = "cat file; echo $0 >file; mkdir new; echo x >new/y";
    let argv = json!({ "workspace_id": id, "keep": true, "argv": ["sh", "-c", script, mark] });
    exited(&asked.run("run_command", &argv)?, 0, "original\n")?;
    // Reading is not a run, so no blow explains a fault: this is the kept file.
    let read = asked.ask("workspace_read", &json!({ "workspace_id": id, "path": "file" }))?;
    if read.to_string().contains(mark) {
        return Ok(());
    }
    Err(Judged::Wrong(format!("a kept workspace lacks {mark}: {read}")))
}

fn same(what: &str, is: &Value, want: &Value) -> Result<(), Judged> {
    if is == want { Ok(()) } else { Err(Judged::Wrong(format!("{what} {is}, not {want}"))) }
}

/// A failure that gives a reason; one that does not is wrong.
fn explained(what: &str, answer: &Value) -> Judged {
    let reason = answer["reason"].as_str().or_else(|| answer["outcome"]["reason"].as_str());
    match reason.filter(|reason| !reason.trim().is_empty()) {
        Some(reason) => Judged::Failed(format!("{what}: {reason}")),
        None => Judged::Wrong(format!("{what} without a reason: {answer}")),
    }
}

/// Checks that the cause is one of these, or an honest failure.
pub fn ended(answer: &Value, causes: &[&str]) -> Result<(), Judged> {
    let cause = answer["cause"].as_str().unwrap_or_default();
    if causes.contains(&cause) {
        return Ok(());
    }
    match cause {
        "internal" | "refused" => Err(explained(cause, answer)),
        // An artifact whose reader was killed is held, and not run.
        "quarantined" if answer["scan"]["verdict"] == "incomplete" => Err(explained(cause, answer)),
        // The program itself was killed, as the answer says.
        "signaled" if answer["signal"] == "SIGKILL" => Err(Judged::Killed),
        _ => Err(Judged::Wrong(format!("{cause:?}, not {causes:?}: {answer}"))),
    }
}

pub fn exited(answer: &Value, code: i64, printed: &str) -> Result<(), Judged> {
    ended(answer, &["exited"])?;
    let right = answer["exit_code"] == code && answer["stdout"]["text"] == printed;
    if right { Ok(()) } else { Err(Judged::Wrong(format!("not {code} and {printed:?}: {answer}"))) }
}

/// Checks for a program that ended by a signal: its own, or one that was sent to any process of ours.
fn signaled(answer: &Value, signal: &str) -> Result<(), Judged> {
    ended(answer, &["signaled"])?;
    if answer["signal"] == "SIGKILL" && signal != "SIGKILL" {
        return Err(Judged::Killed);
    }
    same("signal", &answer["signal"], &json!(signal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_judged_by_outcome() {
        let of = |cause: &str, more: Value| {
            let mut answer = json!({ "cause": cause, "exit_code": 3, "stdout": { "text": "x\n" } });
            answer.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
            exited(&answer, 3, "x\n").err().unwrap_or(Judged::Right)
        };
        assert_eq!(of("exited", json!({})), Judged::Right);
        for more in
            [json!({ "exit_code": 0 }), json!({ "stdout": { "text": "" } }), json!({ "exit_code": null })]
        {
            assert!(matches!(of("exited", more.clone()), Judged::Wrong(_)), "{more}");
        }
        assert!(matches!(of("internal", json!({ "reason": "it was lost" })), Judged::Failed(_)));
        assert!(matches!(of("internal", json!({ "reason": "" })), Judged::Wrong(_)));
        assert_eq!(of("signaled", json!({ "signal": "SIGKILL" })), Judged::Killed);
        assert!(matches!(
            of("signaled", json!({ "signal": "SIGSEGV", "reason": "by it" })),
            Judged::Wrong(_)
        ));
        let ended_by =
            |signal: &str| signaled(&json!({ "cause": "signaled", "signal": signal }), "SIGSEGV").err();
        assert_eq!(ended_by("SIGSEGV"), None);
        assert_eq!(ended_by("SIGKILL"), Some(Judged::Killed));
        assert!(matches!(ended_by("SIGTERM"), Some(Judged::Wrong(_))));
        assert!(matches!(of("memory_limit", json!({ "reason": "32 MiB" })), Judged::Wrong(_)));
    }

    #[test]
    fn echo_tool_is_a_component() {
        assert!(wat::parse_str(ECHO).is_ok());
    }
}
