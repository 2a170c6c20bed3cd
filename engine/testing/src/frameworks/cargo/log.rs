//! The log that libtest writes with `--logfile`: one entry per test, of several lines if its message has
//! several. Pure.
//!
//! An entry consists of a result, its message, and the name at its end: `ok NAME`, `failed NAME`,
//! `failed: MESSAGE NAME`, `failed (time limit exceeded) NAME`, `ignored NAME`, `ignored: REASON NAME`
//! (library/test/src/console.rs of Rust).

use crate::case::Status;

/// Results in an entry's first line, longest first.
const RESULTS: [(&str, Status, bool); 8] = [
    ("failed (time limit exceeded) ", Status::Failed, false),
    ("failed: ", Status::Failed, true),
    ("failed ", Status::Failed, false),
    ("ignored: ", Status::Skipped, true),
    ("ignored ", Status::Skipped, false),
    ("ok ", Status::Passed, false),
    ("test ", Status::Passed, false),
    ("bench ", Status::Passed, false),
];

/// Tests of a log with their results, in its order.
///
/// `tests` are the names listed by the program, `seen` returns a name's status in its output. A message can
/// contain any text of a test's panic, so an entry ends at the first line that ends with a name of that
/// status, or else with any name; of several such names the longest is used.
pub fn results<'a>(
    log: &[String],
    tests: &'a [String],
    seen: impl Fn(&str) -> Option<Status>,
) -> Vec<(&'a str, Status)> {
    let mut out = Vec::new();
    let mut rest = log;
    while let Some((line, after)) = rest.split_first() {
        rest = after;
        let Some((text, status, message)) = RESULTS
            .iter()
            .find_map(|(word, status, message)| Some((line.strip_prefix(word)?, *status, *message)))
        else {
            continue;
        };
        if !message {
            out.extend(tests.iter().find(|name| *name == text).map(|name| (name.as_str(), status)));
            continue;
        }
        let ends = |line: &'_ str, agrees: bool| {
            let named = |name: &&String| {
                let head = line.strip_suffix(name.as_str());
                head.is_some_and(|head| head.is_empty() || head.ends_with(' '))
                    && (!agrees || seen(name) == Some(status))
            };
            tests.iter().filter(named).max_by_key(|name| name.len())
        };
        let lines = || std::iter::once(text).chain(after.iter().map(String::as_str)).enumerate();
        let end = lines().find_map(|(at, line)| Some((at, ends(line, true)?)));
        let end = end.or_else(|| lines().find_map(|(at, line)| Some((at, ends(line, false)?))));
        if let Some((at, name)) = end {
            out.push((name, status));
            rest = after.get(at..).unwrap_or_default();
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn log_entries_yield_results_and_messages() {
        let tests = lines("a\nt::a\nt::b\nt::long name");
        for (log, want) in [
            (
                "ok a\nfailed t::a\nignored t::b\n",
                vec![("a", Status::Passed), ("t::a", Status::Failed), ("t::b", Status::Skipped)],
            ),
            ("ignored: takes too long t::a", vec![("t::a", Status::Skipped)]),
            ("failed: note: test did not panic as expected t::b", vec![("t::b", Status::Failed)]),
            (
                "failed: note: panic did not contain expected string\n      panic message: \"bang\"\n expected substring: \"boom\" t::a\nok a",
                vec![("t::a", Status::Failed), ("a", Status::Passed)],
            ),
            ("failed (time limit exceeded) t::a", vec![("t::a", Status::Failed)]),
            ("failed: why\nok a\nnever named", vec![("a", Status::Failed)]),
            ("ok b\nbench t::b\npraise a", vec![("t::b", Status::Passed)]),
            ("ok t::long name", vec![("t::long name", Status::Passed)]),
            ("failed: x t::long name", vec![("t::long name", Status::Failed)]),
            ("", vec![]),
        ] {
            assert_eq!(results(&lines(log), &tests, |_| None), want, "{log}");
        }
    }

    #[test]
    fn message_naming_other_tests_is_not_split() {
        let tests = lines("t::a\nt::b");
        let log = lines("failed: note: see t::b\nand t::a\nok t::b");
        let seen = HashMap::from([("t::a", Status::Failed), ("t::b", Status::Passed)]);
        let got = results(&log, &tests, |name| seen.get(name).copied());
        assert_eq!(got, [("t::a", Status::Failed), ("t::b", Status::Passed)]);
    }

    proptest! {
        #[test]
        fn log_entries_with_any_message_round_trip(
            entries in proptest::collection::vec((0..4_usize, "[a-z :\n]{0,20}"), 0..8)
        ) {
            let tests: Vec<String> = (0..entries.len()).map(|n| format!("suite::Test{n}")).collect();
            let mut log = String::new();
            let mut want = Vec::new();
            for ((kind, message), name) in entries.iter().zip(&tests) {
                let status = [Status::Passed, Status::Failed, Status::Skipped, Status::Failed][*kind];
                let head = match kind {
                    0 => "ok".to_owned(),
                    1 => format!("failed: {message}"),
                    2 => format!("ignored: {message}"),
                    _ => "failed".to_owned(),
                };
                log.push_str(&format!("{head} {name}\n"));
                want.push((name.as_str(), status));
            }
            let seen: HashMap<&str, Status> = want.iter().copied().collect();
            prop_assert_eq!(results(&lines(&log), &tests, |name| seen.get(name).copied()), want);
        }

        #[test]
        fn arbitrary_log_causes_no_panic(log in proptest::collection::vec("(failed|ok|ignored|: | |a|t::a){0,6}", 0..6)) {
            let _ = results(&log, &["a".to_owned(), "t::a".to_owned()], |_| Some(Status::Failed));
        }
    }
}
