//! Why a test of Go failed, and where, from what it printed. Pure.

use crate::case::MAX_MESSAGE_BYTES;
use crate::frameworks::runner;
use crate::text::clip;

/// `a_test.go:3:28: undefined: x`, `a_test.go:6: got 3`
pub(super) fn place(line: &str) -> Option<(&str, u32, &str)> {
    let line = line.trim_start();
    let (file, rest) = line.split_at(line.find(".go:")? + 3);
    let (number, rest) = rest[1..].split_once(':')?;
    let column =
        rest.split_once(": ").filter(|(c, _)| !c.is_empty() && c.bytes().all(|b| b.is_ascii_digit()));
    let rest = column.map_or(rest, |(_, rest)| rest);
    (!file.contains(' ')).then_some((file, number.parse().ok()?, rest.trim_start()))
}

/// Line with which Go's runtime says why a program ends.
pub(super) fn crash(said: &str) -> Option<&str> {
    said.lines().find(|line| ["panic: ", "fatal error: "].iter().any(|head| line.starts_with(head)))
}

/// Why a test program ended, from the output of a test that ran and that of the whole program.
pub(super) fn ending(said: &str, whole: &str) -> String {
    // The second form since Go 1.24.
    let bare = |line: &str| {
        line.trim_end_matches(" [recovered]").trim_end_matches(" [recovered, repanicked]").to_owned()
    };
    if let Some(line) = crash(said).or_else(|| crash(whole)) {
        return bare(line);
    }
    let own = |line: &&str| {
        ["FAIL", "PASS", "ok  \t", "exit status ", "coverage: ", "signal: ", "=== ", "--- "]
            .iter()
            .all(|head| !line.starts_with(head))
            && !line.trim().is_empty()
    };
    let last = said.lines().rfind(own).or_else(|| whole.lines().rfind(own)).map(str::trim);
    let is_code = |line: &&str| line.starts_with("exit status ") || line.starts_with("signal: ");
    let code = whole.lines().rfind(is_code).map(str::trim);
    let signal =
        code.and_then(|code| code.strip_prefix("exit status ")?.parse().ok()).filter(|code| *code > 128);
    if let Some(signal) = signal.map(runner::ending) {
        return match last {
            Some(last) => format!("{signal}: {last}"),
            None => format!("{signal}, and nothing says why"),
        };
    }
    if code == Some("exit status 0") {
        let last = last.map(|last| format!("; it printed last: {last}")).unwrap_or_default();
        return format!(
            "the test program ended with exit status 0 before its tests were done, as by os.Exit(0) in a test, TestMain or init; a test is left out by t.Skip{last}"
        );
    }
    match (last, code) {
        (Some(last), Some(code)) => format!("the test program ended with {code}: {last}"),
        (None, Some(code)) => format!("the test program ended with {code}, and nothing says why"),
        (Some(last), None) => format!("the test program ended: {last}"),
        (None, None) => "the test program ended, and nothing says why".to_owned(),
    }
}

/// First place in the project of a stack: `\t/home/…/a_test.go:3 +0x27`.
fn frame(said: &str, project: &str) -> Option<(String, u32)> {
    let project = format!("{project}/");
    said.lines().filter_map(|l| l.trim_start().strip_prefix(&project)).find_map(|l| {
        let (file, rest) = l.split_once(".go:")?;
        Some((format!("{file}.go"), rest.split(' ').next()?.parse().ok()?))
    })
}

/// Failure message and place, from a test's output: a panic, a data race, or the lines with a place. Lines of `t.Log`
/// look like those of `t.Error`: all of them are the message, and the last one is the place, since `t.Fatal` ends a test.
pub(super) fn why(said: &str, project: &str, folder: &str) -> (Option<String>, Option<(String, u32)>) {
    if crash(said).is_some() {
        return (Some(clip(&ending(said, ""), MAX_MESSAGE_BYTES)), frame(said, project));
    }
    if let Some((_, race)) = said.split_once("WARNING: DATA RACE") {
        let (access, at) = (race.lines().find(|l| !l.trim().is_empty()), frame(race, project));
        let message = format!("data race: {}", access.unwrap_or_default().trim().trim_end_matches(':'));
        return (Some(clip(&message, MAX_MESSAGE_BYTES)), at);
    }
    let (mut message, mut at): (Vec<&str>, _) = (Vec::new(), None);
    for line in said.lines() {
        // The package testing itself says that a race was found, or that a test took too long.
        if let Some((file, line, text)) = place(line) {
            at = if file == "testing.go" { at } else { Some((file, line)) };
            message.push(text);
        } else if at.is_some() && line.starts_with("        ") {
            // Further lines of a message are indented more.
            message.push(line.trim());
        }
    }
    message.retain(|line| !line.is_empty());
    let Some((file, line)) = at else {
        // An example prints no place: actual and expected output.
        let all = if message.is_empty() { said.trim().to_owned() } else { message.join("\n") };
        return (Some(clip(&all, MAX_MESSAGE_BYTES)).filter(|m| !m.is_empty()), None);
    };
    let file =
        if folder.is_empty() || file.contains('/') { file.to_owned() } else { format!("{folder}/{file}") };
    let message = Some(clip(&message.join("\n"), MAX_MESSAGE_BYTES)).filter(|m| !m.is_empty());
    (message, Some((file, line)))
}
