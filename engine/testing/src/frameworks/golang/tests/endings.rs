//! Results and endings of programs of Go, whose output may look like results.

use super::*;

/// Version mark, for what depends on it.
fn by(version: &str, tests: &[&str]) -> String {
    let mark = said("", &format!("@hotcell\tversion\tx1\t{version}\n"));
    let head = said("", "@hotcell\tprogram\tx1\n");
    begun(tests).replace(&head, &[head.clone(), mark].concat())
}

#[test]
fn text_of_old_go_that_looks_like_results_is_judged_by_the_package() {
    use Status::{Failed, Passed, Skipped};
    type Row<'a> = (&'a [(&'a str, &'a str)], &'a str, &'a [(&'a str, Status)], u64);
    let rows: [Row<'_>; 10] = [
        // A subtest whose start followed text.
        (
            &[("run", "TestA"), ("pass", "TestA/s"), ("skip", "TestA/t"), ("pass", "TestA")],
            "pass",
            &[("TestA", Passed), ("TestA/s", Passed), ("TestA/t", Skipped)],
            4,
        ),
        (
            &[("run", "TestA"), ("fail", "TestA/s"), ("fail", "TestA")],
            "fail",
            &[("TestA", Failed), ("TestA/s", Failed)],
            2,
        ),
        // Printed by a test: of one that never started, that will start, and that ended.
        (&[("run", "TestA"), ("fail", "TestZ"), ("pass", "TestA")], "pass", &[("TestA", Passed)], 2),
        (&[("run", "TestA"), ("fail", "TestA/z"), ("pass", "TestA")], "pass", &[("TestA", Passed)], 2),
        (
            &[("run", "TestA"), ("fail", "TestB"), ("pass", "TestA"), ("run", "TestB"), ("pass", "TestB")],
            "pass",
            &[("TestA", Passed), ("TestB", Passed)],
            2,
        ),
        (
            &[("run", "TestB"), ("pass", "TestB"), ("run", "TestA"), ("fail", "TestB"), ("pass", "TestA")],
            "pass",
            &[("TestA", Passed), ("TestB", Passed)],
            2,
        ),
        // Of itself.
        (&[("run", "TestA"), ("fail", "TestA"), ("pass", "TestA")], "pass", &[("TestA", Passed)], 2),
        (&[("run", "TestA"), ("fail", "TestA"), ("pass", "TestA")], "fail", &[("TestA", Failed)], 2),
        (&[("run", "TestA"), ("pass", "TestA"), ("fail", "TestA")], "fail", &[("TestA", Failed)], 2),
        (&[("run", "TestA"), ("fail", "TestA"), ("skip", "TestA")], "pass", &[("TestA", Skipped)], 2),
    ];
    for (events, end, want, collected) in rows {
        // Go prints each result first, and then writes the event for it.
        let printed = |action: &str, test: &str| match action {
            "run" => String::new(),
            _ => said(test, &format!("--- {}: {test} (0.25s)\n", action.to_uppercase())),
        };
        let body: String =
            events.iter().map(|(action, test)| printed(action, test) + &of(action, test)).collect();
        let text = [by("go1.19.8", &["TestA", "TestB"]), body.clone(), line(end, "")].concat();
        let live = followed(&text, "");
        let mut want: BTreeMap<String, _> =
            want.iter().map(|(test, status)| (format!("{PACKAGE}::{test}"), Some(*status))).collect();
        if end == "pass" {
            // A good program has left out what it listed and did not start.
            want.entry(format!("{PACKAGE}::TestB")).or_insert(Some(Skipped));
        }
        let got: BTreeMap<String, _> =
            statuses(&live).into_iter().map(|(id, status)| (id.to_owned(), status)).collect();
        assert_eq!(got, want, "{events:?} {end}");
        assert_eq!((live.faults, live.collected.map(|n| n.max(2))), (0, Some(collected)), "{events:?} {end}");
        // A newer `go` marks its own lines: the same is a contradiction there, unless it is bad anyway.
        let newer = [by("go1.24.1", &["TestA", "TestB"]), body, line(end, "")].concat();
        let live = followed(&newer, "");
        let bad = live.seen().iter().any(|seen| !seen.status.is_some_and(Status::is_good));
        assert!(live.faults > 0 || bad, "{events:?} {end}");
    }
}

#[test]
fn failure_of_old_go_is_known_when_the_run_is_cut() {
    let text =
        [by("go1.19.8", &["TestA", "TestB"]), of("run", "TestA"), of("fail", "TestA"), of("run", "TestB")];
    let live = followed(&text.concat(), "");
    let want = [("TestA", Some(Status::Failed)), ("TestB", None)];
    for (test, want) in want {
        assert_eq!(statuses(&live)[&*format!("{PACKAGE}::{test}")], want, "{test}");
    }
    assert_eq!((live.finished, live.faults), (None, 0));
}

#[test]
fn crash_of_go_program_is_a_failure_with_its_reason() {
    let at = format!(
        "goroutine 7 [running]:\n\t/usr/lib/go/src/log.go:7 +0x1\n\t{PROJECT}/sub/x_test.go:9 +0x27\n"
    );
    let place = Some(("sub/x_test.go".to_owned(), 9));
    for (text, whole, want, want_at) in [
        (
            "2026/01/01 cannot open db\n",
            "exit status 1\nFAIL\tx\t0.1s\n",
            "the test program ended with exit status 1: 2026/01/01 cannot open db",
            None,
        ),
        (
            "",
            "exit status 3\nFAIL\tx\t0.1s\n",
            "the test program ended with exit status 3, and nothing says why",
            None,
        ),
        ("", "FAIL\tx\t0.1s\n", "the test program ended, and nothing says why", None),
        (
            "",
            "exit status 0\nFAIL\tx\t0.1s\n",
            "the test program ended with exit status 0 before its tests were done, as by os.Exit(0) in a test, TestMain or init; a test is left out by t.Skip",
            None,
        ),
        (&*format!("hi\npanic: oh\n\n{at}"), "exit status 2\n", "panic: oh", place.clone()),
        (
            &*format!("fatal error: concurrent map writes\n\n{at}"),
            "exit status 2\n",
            "fatal error: concurrent map writes",
            place.clone(),
        ),
        (
            "runtime: goroutine stack exceeds 1000000000-byte limit\nfatal error: stack overflow\n",
            "exit status 2\n",
            "fatal error: stack overflow",
            None,
        ),
        ("", &*format!("panic: late\n{at}exit status 2\n"), "panic: late", place.clone()),
    ] {
        for old in ["go1.19.8", "go1.24.1"] {
            let all = [
                by(old, &["TestA", "TestF", "TestG"]),
                of("run", "TestA"),
                of("pass", "TestA"),
                of("run", "TestF"),
                text.split_inclusive('\n').map(|line| said("TestF", line)).collect(),
                whole.split_inclusive('\n').map(|line| said("", line)).collect(),
                line("fail", ""),
            ];
            let live = followed(&all.concat(), "");
            let seen = &live.seen()[live.position(&format!("{PACKAGE}::TestF")).unwrap()];
            assert_eq!(
                (seen.status, seen.open, seen.message.as_deref()),
                (Some(Status::Failed), 0, Some(want)),
                "{text}"
            );
            assert_eq!((&seen.at, live.faults, live.position(PACKAGE)), (&want_at, 0, None), "{text}");
            assert_eq!(live.finished, Some((1, None)));
        }
    }
    // No test ran: `init`, `TestMain`.
    for (whole, want) in [
        (
            "panic: init broke\n\ngoroutine 1 [running]:\n\t/x/a_test.go:3 +0x27\nexit status 2\nFAIL\tx\t0.0s\n",
            "panic: init broke",
        ),
        (
            "PASS\nexit status 3\nFAIL\tx\t0.0s\n",
            "the test program ended with exit status 3, and nothing says why",
        ),
        (
            "no database\nexit status 0\nFAIL\tx\t0.0s\n",
            "the test program ended with exit status 0 before its tests were done, as by os.Exit(0) in a test, TestMain or init; a test is left out by t.Skip; it printed last: no database",
        ),
        (
            "no database\nexit status 1\nFAIL\tx\t0.0s\n",
            "the test program ended with exit status 1: no database",
        ),
    ] {
        let output: String = whole.split_inclusive('\n').map(|line| said("", line)).collect();
        let live = followed(&[begun(&["TestA"]), output, line("fail", "")].concat(), "");
        let seen = &live.seen()[live.position(PACKAGE).unwrap()];
        assert_eq!((seen.status, seen.message.as_deref()), (Some(Status::Errored), Some(want)));
    }
    // Subtests: the innermost one ran. A package that passes with an open test stays without a result.
    for (end, want) in [("fail", Some(Status::Failed)), ("pass", None)] {
        let all = [
            begun(&["TestA"]),
            of("run", "TestA"),
            of("run", "TestA/s"),
            said("TestA/s", "why\n"),
            line(end, ""),
        ];
        let live = followed(&all.concat(), "");
        for test in ["TestA", "TestA/s"] {
            assert_eq!(statuses(&live)[&*format!("{PACKAGE}::{test}")], want, "{test} {end}");
        }
    }
}

#[test]
fn message_of_go_test_has_all_of_its_lines() {
    let race = format!(
        "==================\nWARNING: DATA RACE\nWrite at 0x00c0 by goroutine 8:\n  x.F()\n      {PROJECT}/sub/x_test.go:12 +0x3c\n\nPrevious read at 0x1:\n==================\n    testing.go:1319: race detected during execution of test\n"
    );
    for (text, want, line) in [
        (
            "    x_test.go:3: connecting\n    x_test.go:7: want 3, got 4\n",
            Some("connecting\nwant 3, got 4"),
            Some(7),
        ),
        (
            "    x_test.go:3: one\n        more\nplain\n    x_test.go:5: two\n",
            Some("one\nmore\ntwo"),
            Some(5),
        ),
        (&race, Some("data race: Write at 0x00c0 by goroutine 8"), Some(12)),
        (
            "    testing.go:1319: race detected during execution of test\n",
            Some("race detected during execution of test"),
            None,
        ),
        ("got:\n1\nwant:\n2\n", Some("got:\n1\nwant:\n2"), None),
        ("", None, None),
    ] {
        let (message, at) = reasons::why(text, PROJECT, "sub");
        assert_eq!((message.as_deref(), at.as_ref().map(|(_, line)| *line)), (want, line), "{text}");
        assert!(at.is_none_or(|(file, _)| file == "sub/x_test.go"));
    }
}

#[test]
fn failure_counts_where_a_go_program_says_fail_and_ends_well() {
    for (more, want) in [
        (String::new(), Status::Failed),
        (of("pass", "TestB"), Status::Failed),
        (of("skip", "TestB"), Status::Failed),
        ([of("run", "TestB"), of("pass", "TestB")].concat(), Status::Failed),
    ] {
        let text = [
            by("go1.19.8", &["TestB"]),
            of("run", "TestB"),
            of("fail", "TestB"),
            said("", "FAIL\n"),
            more.clone(),
            line("pass", ""),
        ];
        let live = followed(&text.concat(), "");
        let seen = &live.seen()[live.position(&format!("{PACKAGE}::TestB")).unwrap()];
        assert_eq!(seen.status, Some(want), "{more}");
    }
    // Without that line, and without a later result, the failure counts.
    let text = [by("go1.19.8", &["TestB"]), of("run", "TestB"), of("fail", "TestB"), line("pass", "")];
    assert_eq!(followed(&text.concat(), "").seen()[0].status, Some(Status::Failed));
}

#[test]
fn killed_go_program_has_no_failed_test() {
    for (test, text) in [("TestB", "exit status 137\n"), ("", "exit status 137\n"), ("", "signal: killed\n")]
    {
        let all = [begun(&["TestB"]), of("run", "TestB"), said(test, text), line("fail", "")];
        let live = followed(&all.concat(), "");
        assert_eq!(statuses(&live)[&*format!("{PACKAGE}::TestB")], None, "{text}");
        let program = &live.seen()[live.position(PACKAGE).unwrap()];
        let want = match text {
            "signal: killed\n" => "the test program ended with signal: killed, and nothing says why",
            _ => "SIGKILL ended the test program, and nothing says why",
        };
        assert_eq!(program.message.as_deref(), Some(want), "{test} {text}");
    }
}

/// `TestMain` may call `m.Run` several times: each test ends as often as it starts, and its worst result counts.
#[test]
fn go_tests_that_run_twice_end_twice() {
    for version in ["go1.19.8", "go1.24.1"] {
        for (results, open, want) in [
            (&["pass", "pass"][..], 0, Some(Status::Passed)),
            (&["fail", "pass"], 0, Some(Status::Failed)),
            (&["pass", ""], 1, Some(Status::Passed)),
        ] {
            let run = |result: &&str| {
                let sub = of("run", "TestA/s") + &of("pass", "TestA/s");
                let end = if result.is_empty() { String::new() } else { of(result, "TestA") };
                [of("run", "TestA"), sub, end].concat()
            };
            let runs: String = results.iter().map(run).collect();
            let last = if results.contains(&"fail") { "fail" } else { "pass" };
            // It lists its tests as often.
            let live = followed(&[by(version, &["TestA", "TestA"]), runs, line(last, "")].concat(), "");
            let seen = &live.seen()[live.position(&format!("{PACKAGE}::TestA")).unwrap()];
            assert_eq!((seen.open, seen.status), (open, want), "{version} {results:?}");
            assert_eq!((live.faults, live.collected), (0, Some(2)), "{version} {results:?}");
        }
    }
}
