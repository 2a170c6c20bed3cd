//! Output of Rust's test programs, unchanged since 1.0 except for details. Any of it may come from a test.

use crate::case::Status;

/// Status words after a name.
const WORDS: [(&str, Status); 4] = [
    ("ok", Status::Passed),
    ("FAILED", Status::Failed),
    ("ignored", Status::Skipped),
    ("bench:", Status::Passed),
];

/// Result in a line `test NAME ... ok`. Other output may precede it, so every possible start is tried;
/// `known` tells the valid names.
#[must_use]
pub fn result(line: &str, known: impl Fn(&str) -> bool) -> Option<(&str, Status, Option<&str>)> {
    let (head, tail) = line.rsplit_once(" ... ")?;
    // Some harnesses align results in a column.
    let head = head.trim_end();
    let word = tail.split([' ', ',']).next()?;
    let (_, status) = WORDS.into_iter().find(|(name, _)| *name == word)?;
    let note = tail.strip_prefix("ignored, ").filter(|_| status == Status::Skipped);
    // libtest-mimic aligns names if some tests have a kind before the name.
    let names = head.match_indices("test ").map(|(at, _)| head[at + 5..].trim_start());
    // ` - should panic` and similar notes follow the name.
    let mut names =
        names.flat_map(|name| [Some(name), name.rsplit_once(" - ").map(|(name, _)| name)]).flatten();
    names.find(|name| known(name)).map(|name| (name, status, note))
}

/// Number of tests in a line `running 3 tests`.
#[must_use]
pub fn running(line: &str) -> Option<u64> {
    let count = line.strip_prefix("running ")?;
    count.strip_suffix(" tests").or_else(|| count.strip_suffix(" test"))?.parse().ok()
}

/// Name in a line `---- NAME stdout ----` of libtest, or `---- NAME ----` of libtest-mimic.
#[must_use]
pub fn section(line: &str) -> Option<&str> {
    let name = line.strip_prefix("---- ")?;
    name.strip_suffix(" stdout ----").or_else(|| name.strip_suffix(" ----"))
}

/// Counts in a line `test result: ok. 2 passed; 1 failed; 1 ignored; …`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Number of passed tests.
    pub passed: u64,
    /// Number of failed tests.
    pub failed: u64,
    /// Number of ignored tests.
    pub ignored: u64,
}

/// Parses the last line of a test program.
#[must_use]
pub fn sum(line: &str) -> Option<Sum> {
    let rest = line.strip_prefix("test result: ")?;
    let (word, rest) = rest.split_once(". ")?;
    let mut sum = Sum::default();
    for part in rest.split("; ") {
        let Some((count, what)) = part.split_once(' ') else { continue };
        let count = count.parse().ok();
        match what {
            // A measured benchmark counts as passed.
            "passed" | "measured" => sum.passed = sum.passed.saturating_add(count?),
            "failed" => sum.failed = count?,
            "ignored" => sum.ignored = count?,
            _ => {}
        }
    }
    (matches!(word, "ok" | "FAILED") && (word == "ok") == (sum.failed == 0)).then_some(sum)
}

/// Failure message and place, from a failed test's output: a panic of current Rust or before 1.73, a returned
/// error, or libtest's message about an expected panic that did not occur, or had another text.
#[must_use]
pub fn why(text: &str) -> (Option<String>, Option<(String, u32)>) {
    let (message, place) = panic(text);
    // libtest writes it after everything else.
    let expected = ["note: test did not panic as expected", "note: panic did not contain expected string"];
    let note = expected.iter().filter_map(|note| text.rfind(note)).max();
    let note = note.map(|at| text[at + "note: ".len()..].trim_end().to_owned());
    (note.or(message), place)
}

/// A panic, or a returned error.
fn panic(text: &str) -> (Option<String>, Option<(String, u32)>) {
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(error) = line.strip_prefix("Error: ") {
            return (Some(error.to_owned()), None);
        }
        let Some((_, place)) = line.split_once(" panicked at ").filter(|_| line.starts_with("thread '"))
        else {
            continue;
        };
        if let Some(at) = place.strip_suffix(':').and_then(location) {
            let message =
                lines.take_while(|l| !l.starts_with("note: ") && !l.starts_with("stack backtrace:"));
            let message = message.collect::<Vec<_>>().join("\n");
            return (Some(message.trim_end().to_owned()).filter(|m| !m.is_empty()), Some(at));
        }
        if let Some((message, at)) = place.rsplit_once(", ").and_then(|(m, at)| Some((m, location(at)?))) {
            return (Some(message.trim_matches('\'').to_owned()), Some(at));
        }
    }
    (None, None)
}

/// `src/lib.rs:3:5`
fn location(text: &str) -> Option<(String, u32)> {
    let mut parts = text.rsplitn(3, ':');
    let (_column, line) = (parts.next()?.parse::<u32>().ok()?, parts.next()?.parse().ok()?);
    Some((parts.next()?.to_owned(), line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Status::{Failed, Passed, Skipped};
    use proptest::prelude::*;

    #[test]
    fn libtest_result_lines_are_parsed() {
        let known = |name: &str| ["a::b", "c", "src/lib.rs - add (line 5)"].contains(&name);
        for (line, want) in [
            ("test a::b ... ok", Some(("a::b", Passed, None))),
            ("test a::b ... FAILED", Some(("a::b", Failed, None))),
            ("test c ... ignored", Some(("c", Skipped, None))),
            ("test c ... ignored, slow, and so on", Some(("c", Skipped, Some("slow, and so on")))),
            ("test c ... ok <0.001s>", Some(("c", Passed, None))),
            ("test c ... bench:  12 ns/iter (+/- 1)", Some(("c", Passed, None))),
            ("test c - should panic ... ok", Some(("c", Passed, None))),
            ("said without an endtest c ... ok", Some(("c", Passed, None))),
            ("test src/lib.rs - add (line 5) ... ok", Some(("src/lib.rs - add (line 5)", Passed, None))),
            (
                "test src/lib.rs - add (line 5) - compile ... ok",
                Some(("src/lib.rs - add (line 5)", Passed, None)),
            ),
            ("test c          ... ok", Some(("c", Passed, None))),
            ("test         c  ... ignored", Some(("c", Skipped, None))),
            ("test d ... ok", None),
            ("test c ... fine", None),
            ("test c has been running for over 60 seconds", None),
            ("test c ... ", None),
            ("", None),
        ] {
            assert_eq!(result(line, known), want, "{line}");
        }
    }

    #[test]
    fn libtest_summary_is_parsed() {
        let line = "test result: FAILED. 2 passed; 1 failed; 3 ignored; 1 measured; 0 filtered out; finished in 0.14s";
        assert_eq!(sum(line), Some(Sum { passed: 3, failed: 1, ignored: 3 }));
        for bad in [
            "test result: ok. 1 passed; 1 failed",
            "test result: FAILED. 1 passed",
            "test result: ok. x passed",
            "test result: FAILED. 18446744073709551615 passed; 1 measured",
            "ok",
        ] {
            assert_eq!(sum(bad), None, "{bad}");
        }
        for (line, want) in
            [("running 1 test", Some(1)), ("running 12 tests", Some(12)), ("running late", None)]
        {
            assert_eq!(running(line), want);
        }
    }

    #[test]
    fn libtest_panic_yields_message_and_position() {
        let at = |file: &str, line| Some((file.to_owned(), line));
        for (text, message, place) in [
            (
                "said\n\nthread 'a::b' (17901) panicked at src/lib.rs:14:44:\nassertion `left == right` failed\n  left: 3\n right: 4\nnote: run with\n",
                Some("assertion `left == right` failed\n  left: 3\n right: 4"),
                at("src/lib.rs", 14),
            ),
            (
                "thread 'a' panicked at 'no, not so', src/lib.rs:3:5\nnote: x",
                Some("no, not so"),
                at("src/lib.rs", 3),
            ),
            ("Error: \"bad\"\n", Some("\"bad\""), None),
            (
                "note: test did not panic as expected at src/lib.rs:9:8",
                Some("test did not panic as expected at src/lib.rs:9:8"),
                None,
            ),
            (
                "\nthread 't' panicked at src/lib.rs:4:72:\nbang\nnote: run with\nnote: panic did not contain expected string\n      panic message: \"bang\"\n expected substring: \"boom\"\n",
                Some(
                    "panic did not contain expected string\n      panic message: \"bang\"\n expected substring: \"boom\"",
                ),
                at("src/lib.rs", 4),
            ),
            ("thread 'a' panicked at somewhere", None, None),
        ] {
            assert_eq!(why(text), (message.map(str::to_owned), place), "{text}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_libtest_text_causes_no_panic(text in "(test |thread '| panicked at | \\.\\.\\. |ok|[a-z:0-9 ,\n']){0,12}") {
            let _ = (result(&text, |_| true), sum(&text), why(&text), running(&text), section(&text));
        }
    }
}
