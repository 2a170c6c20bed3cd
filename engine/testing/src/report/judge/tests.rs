use proptest::prelude::*;

use super::*;
use crate::Verdict;
use crate::event::{Ended, Event, Runtime};
use crate::frameworks::cargo::Cargo;
use crate::frameworks::gtest::GoogleTest;
use crate::frameworks::jest::Jest;
use crate::frameworks::pytest::Pytest;

mod notes;

fn entry(id: &str, status: Status) -> Entry {
    Entry {
        id: id.to_owned(),
        status,
        duration_ms: 1.0,
        file: None,
        line: None,
        message: None,
        details: None,
        stdout: None,
        stderr: None,
    }
}

fn ended(id: &str, status: Status) -> Ended {
    Ended { id: id.to_owned(), status, duration_ms: 1.0, message: None, at: None, file: None }
}

fn exited(code: i32) -> Outcome {
    Outcome {
        cause: Cause::Exited,
        exit_code: Some(code),
        reason: None,
        ..Outcome::without_a_run(Cause::Exited, "")
    }
}

fn ended_by(cause: Cause) -> Outcome {
    Outcome::without_a_run(cause, "why")
}

/// One letter per test: passed, skipped, failed, errored, or `n` for a test that did not end.
fn status(letter: char) -> Option<Status> {
    match letter {
        'p' => Some(Status::Passed),
        's' => Some(Status::Skipped),
        'f' => Some(Status::Failed),
        'e' => Some(Status::Errored),
        _ => None,
    }
}

fn report(letters: &str) -> Result<FinalReport, ReportError> {
    match letters {
        "missing" => Err(ReportError::Missing),
        "broken" => Err(ReportError::Broken("it is".to_owned())),
        letters => Ok(FinalReport {
            entries: letters
                .chars()
                .enumerate()
                .map(|(i, c)| entry(&i.to_string(), status(c).unwrap()))
                .collect(),
        }),
    }
}

/// Live events: letters, then the number of further collected tests after `+`, then `!` and the announced
/// code.
fn live(text: &str) -> LiveLog {
    let mut log = LiveLog::default();
    let (letters, code) = text.split_once('!').map_or((text, None), |(l, c)| (l, c.parse().ok()));
    let (letters, more) = letters.split_once('+').map_or((letters, 0), |(l, n)| (l, n.parse().unwrap()));
    log.apply(&Event::Collected(letters.chars().filter(|c| *c != '-').count() as u64 + more, 0));
    for (i, letter) in letters.chars().enumerate().filter(|(_, c)| *c != '-') {
        let id = i.to_string();
        log.apply(&Event::Started(id.clone(), None, None));
        if let Some(status) = status(letter) {
            log.apply(&Event::Ended(ended(&id, status)));
        }
    }
    if let Some(code) = code {
        log.apply(&Event::Finished(code, None));
    }
    log
}

#[test]
fn verdict_follows_events_report_and_exit() {
    use Verdict::{Failed, Interrupted, Limit, NotInstalled, Passed, Quarantined, Refused, Unusable};
    for (seen, written, outcome, want) in [
        // All witnesses agree.
        ("pp!0", "pp", exited(0), (Passed, true, true)),
        ("ps!0", "ps", exited(0), (Passed, true, true)),
        ("ss!0", "ss", exited(0), (Unusable, true, true)),
        ("pf!1", "pf", exited(1), (Failed, true, true)),
        ("pe!1", "pe", exited(1), (Failed, true, true)),
        ("e!2", "e", exited(2), (Failed, true, true)),
        ("f+3!1", "f", exited(1), (Failed, true, true)),
        ("!5", "", exited(5), (Unusable, true, true)),
        ("!0", "", exited(0), (Unusable, true, true)),
        ("+2!0", "", exited(0), (Unusable, false, true)),
        // The report is missing, broken, too short or too long.
        ("pp!0", "missing", exited(0), (Unusable, false, false)),
        ("pp!0", "broken", exited(0), (Unusable, false, false)),
        ("pf!1", "missing", exited(1), (Unusable, false, true)),
        ("pp!0", "p", exited(0), (Unusable, false, true)),
        ("p!0", "pp", exited(0), (Unusable, true, false)),
        ("-p!0", "pp", exited(0), (Unusable, true, false)),
        // The report contradicts the live events.
        ("f!1", "p", exited(1), (Unusable, true, false)),
        ("f!0", "p", exited(0), (Unusable, true, false)),
        ("p!1", "f", exited(1), (Unusable, true, false)),
        ("s!0", "p", exited(0), (Unusable, true, false)),
        // The exit code contradicts both.
        ("pf!0", "pf", exited(0), (Unusable, true, false)),
        ("pp!1", "pp", exited(1), (Unusable, true, false)),
        ("pp!5", "pp", exited(5), (Unusable, true, false)),
        ("pp!0", "pp", exited(1), (Unusable, true, false)),
        ("pp!1", "pp", exited(0), (Unusable, true, false)),
        ("pp!3", "pp", exited(3), (Unusable, true, true)),
        ("pp!2", "pp", exited(2), (Unusable, true, true)),
        ("pp!86", "pp", exited(86), (Unusable, true, true)),
        // The run did not end normally.
        ("pp", "pp", exited(0), (Unusable, false, true)),
        ("pn!0", "pp", exited(0), (Unusable, false, false)),
        ("p+1!0", "p", exited(0), (Unusable, false, true)),
        ("pn", "missing", ended_by(Cause::Signaled), (Unusable, false, true)),
        ("pp!0", "pp", ended_by(Cause::Signaled), (Unusable, true, true)),
        ("pn", "missing", ended_by(Cause::WallLimit), (Limit, false, true)),
        ("pp!0", "pp", ended_by(Cause::OutputLimit), (Limit, true, true)),
        ("", "missing", ended_by(Cause::Cancelled), (Interrupted, false, true)),
        ("", "missing", ended_by(Cause::Refused), (Refused, false, true)),
        ("", "missing", ended_by(Cause::Internal), (Refused, false, true)),
        ("", "missing", ended_by(Cause::NotFound), (NotInstalled, false, true)),
        ("", "missing", ended_by(Cause::Quarantined), (Quarantined, false, true)),
    ] {
        let judged = judge(&Pytest, Asked::default(), report(written), &live(seen), &outcome);
        let got = (judged.verdict, judged.complete, judged.consistent);
        assert_eq!(
            got, want,
            "{seen} {written} {:?} {:?}: {:?}",
            outcome.cause, outcome.exit_code, judged.reason
        );
    }
}

#[test]
fn worse_status_of_events_and_report_wins() {
    for (seen, written, want) in [
        ("p", "f", Status::Failed),
        ("f", "p", Status::Failed),
        ("e", "f", Status::Errored),
        ("n", "p", Status::NotFinished),
        ("n", "f", Status::Failed),
        ("s", "p", Status::Skipped),
        ("p", "missing", Status::Passed),
        ("n", "missing", Status::NotFinished),
        ("-", "p", Status::Passed),
    ] {
        let judged = judge(&Pytest, Asked::default(), report(written), &live(seen), &exited(0));
        assert_eq!(judged.cases[0].status, want, "{seen} {written}");
    }
}

#[test]
fn repeated_report_entries_are_one_case() {
    let report = FinalReport { entries: vec![entry("0", Status::Failed), entry("0", Status::Errored)] };
    let mut log = LiveLog::default();
    log.apply(&Event::Started("0".into(), None, None));
    log.apply(&Event::Ended(ended("0", Status::Errored)));
    log.apply(&Event::Finished(1, None));
    let judged = judge(&Pytest, Asked::default(), Ok(report), &log, &exited(1));
    assert_eq!((judged.verdict, judged.cases.len(), judged.cases[0].duration_ms), (Verdict::Failed, 1, 2));
}

#[test]
fn same_named_tests_are_counted_as_by_framework() {
    use Status::{Failed, Passed, Skipped};
    for (seen, written, late, want) in [
        // Each test started, ended and is in the report.
        (&[Passed, Failed][..], &[Failed, Passed][..], None, &[("a", Failed), ("a #2", Passed)][..]),
        (
            &[Passed, Passed, Skipped],
            &[Passed, Skipped, Passed],
            None,
            &[("a", Passed), ("a #2", Skipped), ("a #3", Passed)],
        ),
        // Parts or repetitions of one test, or contradicting results: one case, with the worse result.
        (&[Failed], &[Passed, Failed], None, &[("a", Failed)]),
        (&[Failed, Passed], &[Passed], None, &[("a", Failed)]),
        (&[Passed, Passed], &[Passed, Failed], None, &[("a", Failed)]),
        // An error after both had ended belongs to one of them.
        (&[Passed, Passed], &[Passed, Failed], Some(Failed), &[("a", Failed)]),
    ] {
        let mut log = LiveLog::default();
        for status in seen {
            log.apply(&Event::Started("a".into(), None, None));
            log.apply(&Event::Ended(ended("a", *status)));
        }
        if let Some(late) = late {
            log.apply(&Event::Group(ended("a", late), 0));
        }
        let bad = written.contains(&Failed) || seen.contains(&Failed);
        log.apply(&Event::Finished(i64::from(bad), None));
        let report = FinalReport { entries: written.iter().map(|status| entry("a", *status)).collect() };
        let judged = judge(&Jest, Asked::default(), Ok(report), &log, &exited(i32::from(bad)));
        let got: Vec<_> = judged.cases.iter().map(|case| (case.id.as_str(), case.status)).collect();
        assert_eq!(got, want, "{seen:?} {written:?}");
        // An id of pytest is one test: further entries are repetitions.
        let repeated = FinalReport { entries: written.iter().map(|status| entry("a", *status)).collect() };
        let of_pytest = judge(&Pytest, Asked::default(), Ok(repeated), &log, &exited(i32::from(bad)));
        assert_eq!(of_pytest.cases.len(), 1);
        assert_eq!(judged.verdict == Verdict::Passed, !bad);
    }
    // A number that another test has is skipped.
    let mut log = LiveLog::default();
    for id in ["a #2", "a", "a"] {
        log.apply(&Event::Started(id.into(), None, None));
        log.apply(&Event::Ended(ended(id, Passed)));
    }
    log.apply(&Event::Finished(0, None));
    let report = FinalReport { entries: ["a #2", "a", "a"].map(|id| entry(id, Passed)).to_vec() };
    let judged = judge(&Jest, Asked::default(), Ok(report), &log, &exited(0));
    assert_eq!(judged.cases.iter().map(|case| case.id.as_str()).collect::<Vec<_>>(), ["a #2", "a", "a #3"]);
}

#[test]
fn unfollowed_script_part_prevents_pass() {
    let part = || Followed {
        notes: vec!["a note".to_owned()],
        left: Some("a part".to_owned()),
        ..Followed::default()
    };
    for (followed, want) in [
        (Followed::default(), (Verdict::Passed, true, None)),
        (Followed { left: None, ..part() }, (Verdict::Passed, true, Some("a note"))),
        (part(), (Verdict::Unusable, false, Some("a note; a part"))),
    ] {
        let asked = Asked { followed: Some(&followed), ..Asked::default() };
        let judged = judge(&Pytest, asked, report("p"), &live("p!0"), &exited(0));
        assert_eq!((judged.verdict, judged.complete, judged.reason.as_deref()), want);
    }
}

#[test]
fn unbuilt_extension_is_noted_with_many_skips() {
    let followed = Followed { unbuilt: Some("it is not built".to_owned()), ..Followed::default() };
    let totals = |passed, skipped| Totals { passed, skipped, ..Totals::default() };
    let asked = Asked { followed: Some(&followed), ..Asked::default() };
    for (passed, skipped, want) in [
        (39, 41, Some("41 of 80 tests were skipped, and it is not built")),
        (100, 3, None),
        (1, 2, None),
        (9, 3, Some("3 of 12 tests were skipped, and it is not built")),
    ] {
        assert_eq!(unbuilt(asked, &totals(passed, skipped)).as_deref(), want);
        assert_eq!(unbuilt(Asked::default(), &totals(passed, skipped)), None);
    }
}

#[test]
fn end_of_test_program_is_explained_by_its_standard_error() {
    let cargos = "   Compiling a v0.1.0\n     Running unittests src/lib.rs\nthread 'a' has overflowed its stack\nfatal runtime error: stack overflow\nerror: test failed, to rerun pass `--lib`\n\nCaused by:\n  exit status: 134\n";
    let asserted = "\nt: t.cc:3: Assertion `n == 4' failed.\nAborted\n";
    for (framework, stderr, code, want) in [
        (
            &GoogleTest as &dyn Framework,
            asserted,
            134,
            Some("t: t.cc:3: Assertion `n == 4' failed. / Aborted"),
        ),
        (&GoogleTest, "", 134, None),
        (&GoogleTest, asserted, 1, Some("t: t.cc:3: Assertion `n == 4' failed. / Aborted")),
        // Nothing was ended: what the tests printed explains nothing.
        (&GoogleTest, asserted, 0, None),
        (
            &Cargo,
            cargos,
            134,
            Some("thread 'a' has overflowed its stack / fatal runtime error: stack overflow"),
        ),
    ] {
        let mut log = live("f");
        if code != 0 {
            let message = Some(format!("{} before all", runner::ending(code)));
            log.apply(&Event::Group(Ended { message, ..ended("program", Status::Errored) }, 0));
        }
        log.apply(&Event::Finished(1, None));
        let mut outcome = exited(1);
        outcome.stderr.text = Some(stderr.to_owned());
        let reason =
            judge(framework, Asked::default(), report("f"), &log, &outcome).reason.unwrap_or_default();
        let printed = reason.split("; ").find_map(|part| part.strip_prefix("it printed last: "));
        assert_eq!(printed, want, "{} {code}: {reason}", framework.name());
    }
}

#[test]
fn end_of_runner_between_two_tests_is_explained_by_its_standard_error() {
    let python = "Traceback (most recent call last):\nat end\nRuntimeError: late\n";
    let node = "/home/sandbox/project/a.test.js:9\n  throw new Error('late');\n  ^\n\nError: late\n    at f (a.js:1:2)\n    at node:internal/timers:1:2\n\nNode.js v20.20.2\n";
    for (framework, letters, report_of, stderr, want) in [
        (&Pytest as &dyn Framework, "pf", "missing", python, Some("RuntimeError: late")),
        (&Pytest, "pp", "missing", python, Some("RuntimeError: late")),
        (&Pytest, "pp", "missing", "late\n    at end\n", Some("at end")),
        (&Jest, "pf", "missing", node, Some("Error: late")),
        (&Jest, "pp", "missing", node, Some("Error: late")),
        (&Jest, "pp", "missing", "", None),
        // The framework came to its end, or its report is there.
        (&Jest, "pf!1", "missing", node, None),
        (&Jest, "pf", "pf", node, None),
    ] {
        let mut outcome = exited(1);
        outcome.stderr.text = Some(stderr.to_owned());
        let log = live(letters);
        let reason =
            judge(framework, Asked::default(), report(report_of), &log, &outcome).reason.unwrap_or_default();
        let printed = reason.split("; the ").next().and_then(|part| part.strip_prefix("it printed last: "));
        let last = printed.and_then(|text| text.split(" / ").last());
        assert_eq!(last, want, "{letters} {report_of}: {reason}");
    }
}

#[test]
fn missing_framework_is_named_with_installation() {
    let mut log = LiveLog::default();
    let runtime = Runtime::default();
    log.apply(&Event::Missing("pytest".into(), runtime));
    for (program, want) in [
        ("/venv/bin/python", "install it with: /venv/bin/python -m pip install pytest"),
        (
            "/usr/bin/python3",
            "apt install python3-pytest; or in the project's folder: /usr/bin/python3 -m venv .venv",
        ),
    ] {
        let asked = Asked { program, ..Asked::default() };
        let judged = judge(&Pytest, asked, Err(ReportError::Missing), &log, &exited(86));
        assert_eq!(judged.verdict, Verdict::NotInstalled);
        let reason = judged.reason.unwrap();
        assert!(reason.contains(want), "{reason}");
    }
    // Users are never told to install a package that a program made up.
    let mut made_up = LiveLog::default();
    made_up.apply(&Event::Missing("pytest-evil".into(), Runtime::default()));
    let judged = judge(&Pytest, Asked::default(), Err(ReportError::Missing), &made_up, &exited(86));
    assert_eq!(judged.verdict, Verdict::Unusable);
    assert!(!judged.reason.unwrap().contains("evil"));
    // If tests ran, their framework is installed.
    log.apply(&Event::Started("a".into(), None, None));
    let judged = judge(&Pytest, Asked::default(), Err(ReportError::Missing), &log, &exited(86));
    assert_eq!(judged.verdict, Verdict::Unusable);
}

#[test]
fn limit_retains_observed_results() {
    let judged = judge(
        &Pytest,
        Asked::default(),
        Err(ReportError::Missing),
        &live("pfn"),
        &ended_by(Cause::MemoryLimit),
    );
    let t = &judged.totals;
    assert_eq!((judged.verdict.exit_code(), t.passed, t.failed, t.not_finished), (124, 1, 1, 1));
}

#[test]
fn reasons_stay_few_and_printable() {
    let many =
        FinalReport { entries: (0..1000).map(|i| entry(&format!("\x1b{i}"), Status::Passed)).collect() };
    let reason = judge(&Pytest, Asked::default(), Ok(many), &live("!0"), &exited(0)).reason.unwrap();
    assert!(
        reason.len() < 2000 && !reason.chars().any(char::is_control) && reason.contains("994 more"),
        "{reason}"
    );
}

#[test]
fn files_without_run_tests_are_named() {
    let files = ["tests/test_a.py", "tests/test_b.py", "test_b.py", "x/y_test.py"].map(str::to_owned);
    let asked = Asked { files: &files, ..Asked::default() };
    for (framework, ids, left_out, want) in [
        (
            &Pytest as &dyn Framework,
            &["tests/test_a.py::a", "test_b.py::T::b", "test_b.py"][..],
            0,
            Some("no test ran of files that seem to hold some: tests/test_b.py, x/y_test.py"),
        ),
        // Observed from a subfolder.
        (&Pytest, &["test_a.py::a", "test_b.py::b", "tests/test_b.py::b", "y_test.py::c[x::y]"], 0, None),
        (
            &Pytest,
            &["test_b.py::b", "tests/test_b.py::b", "tests/test_a.py::a", "x/y_test.py::c"],
            3,
            Some("3 tests were found and left out by the project itself"),
        ),
        (
            &crate::frameworks::unittest::Unittest,
            &["tests.test_a.A.test_x", "test_b.A.B.test_y", "tests.test_b.T.t"],
            0,
            Some("no test ran of files that seem to hold some: x/y_test.py"),
        ),
    ] {
        let mut log = LiveLog::default();
        log.apply(&Event::Collected(ids.len() as u64, left_out));
        for id in ids {
            log.apply(&Event::Started((*id).to_owned(), None, None));
            log.apply(&Event::Ended(ended(id, Status::Passed)));
        }
        log.apply(&Event::Finished(0, None));
        let report = FinalReport { entries: ids.iter().map(|id| entry(id, Status::Passed)).collect() };
        let judged = judge(framework, asked, Ok(report), &log, &exited(0));
        assert_eq!((judged.verdict, judged.reason.as_deref()), (Verdict::Passed, want));
    }
}

#[test]
fn run_without_tests_says_what_was_asked_for() {
    let names = "; a run without ‹filter› names them";
    for (filter, part, left_out, want) in [
        (None, false, 0, "no tests were found".to_owned()),
        (None, false, 1, "no tests were found: the project itself leaves the only one out".to_owned()),
        (None, false, 5, "no tests were found: the project itself leaves all 5 out".to_owned()),
        (None, true, 5, "no tests were found".to_owned()),
        (Some("nosuch"), false, 0, format!("the filter \"nosuch\" matches no test{names}")),
        (Some("nosuch"), false, 1, format!("the filter \"nosuch\" matches none of 1 test{names}")),
        (Some("a\n\"b"), false, 18, format!("the filter \"a\\n\\\"b\" matches none of 18 tests{names}")),
    ] {
        for code in [0, 5] {
            let mut log = LiveLog::default();
            log.apply(&Event::Collected(0, left_out));
            log.apply(&Event::Finished(code, None));
            let asked = Asked { filter, part, ..Asked::default() };
            let code = i32::try_from(code).unwrap();
            let judged = judge(&Pytest, asked, Ok(FinalReport::default()), &log, &exited(code));
            assert_eq!(
                (judged.verdict, judged.reason.as_deref()),
                (Verdict::Unusable, Some(&*want)),
                "{filter:?}"
            );
            assert!(is_none_found(&want));
        }
    }
}

#[test]
fn tests_left_out_are_counted_in_whole_runs_alone() {
    for (filter, part, left_out, want) in [
        (None, false, 0, None),
        (None, false, 1, Some("1 test was found and left out by the project itself")),
        (None, false, 2, Some("2 tests were found and left out by the project itself")),
        (Some("0"), false, 2, None),
        (None, true, 2, None),
    ] {
        // No file of the project looks like tests.
        let mut log = LiveLog::default();
        log.apply(&Event::Collected(1, left_out));
        log.apply(&Event::Started("0".into(), None, None));
        log.apply(&Event::Ended(ended("0", Status::Passed)));
        log.apply(&Event::Finished(0, None));
        let report = FinalReport { entries: vec![entry("0", Status::Passed)] };
        let asked = Asked { filter, part, ..Asked::default() };
        let judged = judge(&Pytest, asked, Ok(report), &log, &exited(0));
        assert_eq!((judged.verdict, judged.reason.as_deref()), (Verdict::Passed, want), "{filter:?} {part}");
    }
}

/// Effects of a known cause are not told beside it.
#[test]
fn known_cause_is_the_whole_reason() {
    let go = crate::frameworks::framework("go").unwrap();
    for (said, want) in [
        (
            "a_test.go:3:8: no required module provides package example.org/far; to add it:",
            "a dependency is not there (a_test.go:3:8: no required module provides package example.org/far; to add it:), \
             and nothing is fetched: run `go mod download` outside, or `go mod vendor` in the project, or add ‹deps›",
        ),
        (
            "go: go.mod file not found in current directory or any parent directory; see 'go help modules'",
            "go finds no module in the project (go.mod file not found in current directory or any parent directory; see \
             'go help modules'): name a folder with a go.mod",
        ),
    ] {
        let mut outcome = exited(1);
        outcome.stderr.text = Some(format!("{said}\n"));
        let judged = judge(go, Asked::default(), Err(ReportError::Missing), &LiveLog::default(), &outcome);
        assert_eq!((judged.verdict, judged.reason.as_deref()), (Verdict::Unusable, Some(want)));
        assert!(!judged.complete);
    }
}

#[test]
fn skipped_group_is_not_counted_missing() {
    let mut log = live("p+3");
    let skipped = Ended { id: "B".into(), ..ended("B", Status::Skipped) };
    log.apply(&Event::Group(skipped, 2));
    log.apply(&Event::Finished(0, None));
    let report = FinalReport { entries: vec![entry("0", Status::Passed), entry("B", Status::Skipped)] };
    let judged = judge(&Pytest, Asked::default(), Ok(report), &log, &exited(0));
    assert_eq!((judged.verdict, judged.complete), (Verdict::Unusable, false));
    assert_eq!(judged.reason.as_deref(), Some("1 test was collected and not run"));
}

/// JavaScript's frameworks allow two tests with one title: they are one case, and both have run.
#[test]
fn tests_of_same_title_both_count() {
    for (starts, rows, passes) in [(2, 2, true), (2, 1, false), (1, 2, false), (1, 1, false)] {
        let mut log = LiveLog::default();
        log.apply(&Event::Collected(2, 0));
        for _ in 0..starts {
            log.apply(&Event::Started("0".into(), None, None));
            log.apply(&Event::Ended(ended("0", Status::Passed)));
        }
        log.apply(&Event::Finished(0, None));
        let report = FinalReport { entries: vec![entry("0", Status::Passed); rows] };
        let judged = judge(&Pytest, Asked::default(), Ok(report), &log, &exited(0));
        assert_eq!(judged.verdict == Verdict::Passed, passes, "{starts} {rows}: {:?}", judged.reason);
    }
}

proptest! {
    /// Whatever one witness says, all three have to agree to pass.
    #[test]
    fn single_failing_source_prevents_pass(
        seen in "[psfen-]{0,4}", written in "[psfe]{0,4}", plus in 0u64..2, announced in 0i64..3, code in 0i32..6,
    ) {
        let text = format!("{seen}+{plus}!{announced}");
        let judged = judge(&Pytest, Asked::default(), report(&written), &live(&text), &exited(code));
        let good = |t: &str| !t.is_empty() && t.chars().all(|c| "ps".contains(c));
        let all = seen == written && good(&seen) && seen.contains('p') && plus == 0 && announced == 0 && code == 0;
        prop_assert_eq!(judged.verdict == Verdict::Passed, all);
    }
}

/// Entries of files and programs are not counted as tests.
#[test]
fn contradicted_exit_code_counts_tests_alone() {
    for (tests, group, want) in [
        ("ff", false, "2 tests did not"),
        ("ff", true, "2 tests did not"),
        ("pf", true, "1 test did not"),
        ("pp", true, "tests/a.rs did not"),
    ] {
        let mut log = live(tests);
        let mut rows = report(tests).unwrap();
        if group {
            log.apply(&Event::Group(ended("tests/a.rs", Status::Errored), 0));
            rows.entries.push(entry("tests/a.rs", Status::Errored));
        }
        log.apply(&Event::Finished(0, None));
        let judged = judge(&Cargo, Asked::default(), Ok(rows), &log, &exited(0));
        let reason = judged.reason.unwrap_or_default();
        assert!(
            reason.contains(&format!("the exit code says that all passed, and {want}")),
            "{tests} {group}: {reason}"
        );
    }
}
