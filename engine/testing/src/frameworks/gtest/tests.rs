//! Output of Google Test programs, and forgeries by hostile tests.

use super::*;
use proptest::prelude::*;

use crate::event::Event;

fn begun(tests: &[&str]) -> String {
    let tests: String = tests.iter().map(|t| format!("@hotcell\ttest\ta/cart\t{t}\n")).collect();
    format!("@hotcell\tprogram\ta/cart\t\n{tests}@hotcell\tstart\ta/cart\t\n")
}

fn done(code: i32) -> String {
    format!("\n@hotcell\tend\ta/cart\t{code}\n@hotcell\tdone\t-\t{}\n", i32::from(code != 0))
}

fn followed(text: &str) -> LiveLog {
    let mut reader = GoogleTest.events();
    let mut live = LiveLog::default();
    let mut events: Vec<Event> = reader.push(text.as_bytes());
    events.extend(reader.end());
    events.iter().for_each(|event| live.apply(event));
    live
}

fn of<'a>(live: &'a LiveLog, test: &str) -> &'a crate::live::Seen {
    &live.seen()[live.position(&format!("a/cart::{test}")).unwrap()]
}

#[test]
fn gtest_run_is_followed() {
    let text = [
        &begun(&["Cart.Adds", "Cart.Bad", "Cart.Left", "Cart.DISABLED_Later", "S.Never", "Params/P.X/1"]),
        "[ RUN      ] Cart.Adds\nhi[       OK ] Cart.Adds (3 ms)\n",
        "[ RUN      ] Cart.Bad\nsaid\n./sub/cart_test.cc:4: Failure\nExpected equality of these values:\n  1\n  2\nsub/b.cc:9: Failure\nX\n[  FAILED  ] Cart.Bad (0 ms)\n",
        "[ RUN      ] Cart.Left\na.cc:5: Skipped\nslow\n[  SKIPPED ] Cart.Left (0 ms)\n[----------] 1 test from S\na.cc:10: Failure\nFailed\nset-up\n",
        "[ RUN      ] S.Never\n[  SKIPPED ] S.Never (0 ms)\n[ RUN      ] Params/P.X/1\n[  FAILED  ] Params/P.X/1, where GetParam() = 2 (0 ms)\n",
        "[  FAILED  ] Cart.Bad\n[  SKIPPED ] 2 tests, listed below:\n[  FAILED  ] S: SetUpTestSuite or TearDownTestSuite\n",
        &done(1),
    ]
    .concat();
    let live = followed(&text);
    assert_eq!((live.faults, live.collected, &live.finished), (0, Some(5), &Some((1, None))));
    for (test, want) in [
        ("Cart.Adds", Status::Passed),
        ("Cart.Bad", Status::Failed),
        ("Cart.Left", Status::Skipped),
        ("Cart.DISABLED_Later", Status::Skipped),
        ("S", Status::Errored),
        ("Params/P.X/1", Status::Failed),
    ] {
        assert_eq!((of(&live, test).status, of(&live, test).open), (Some(want), 0), "{test}");
    }
    let bad = of(&live, "Cart.Bad");
    assert_eq!(bad.message.as_deref(), Some("Expected equality of these values:\n  1\n  2"));
    assert_eq!(bad.at, Some(("sub/cart_test.cc".to_owned(), 4)));
    assert_eq!(
        (of(&live, "Cart.Adds").details.as_deref(), of(&live, "Cart.Adds").duration_ms),
        (Some("hi"), 3.0)
    );
    assert_eq!(of(&live, "S").message.as_deref(), Some("Failed\nset-up"));
}

/// A filter of the program's own is told once, and only of a run of all tests: a test may print anything.
#[test]
fn own_filter_of_gtest_program_is_noted() {
    let good = "[ RUN      ] Cart.Adds\n[       OK ] Cart.Adds (3 ms)\n";
    let note = "Note: Google Test filter = Cart.Adds\n";
    let want = "a/cart ran only the tests of a filter that it sets itself: Cart.Adds";
    for (asked, said, want) in [
        ("all", format!("{note}{good}"), Some(want)),
        ("all", format!("{note}{note}{good}"), Some(want)),
        ("all", good.to_owned(), None),
        ("all", format!("{good}{note}"), None),
        ("", format!("{note}{good}"), None),
    ] {
        let begun = begun(&["Cart.Adds"]).replace("start\ta/cart\t", &format!("start\ta/cart\t{asked}"));
        let live = followed(&format!("{begun}{said}{}", done(0)));
        assert_eq!(live.finished, Some((0, want.map(str::to_owned))), "{asked} {said}");
        assert_eq!(live.faults, 0);
    }
}

#[test]
fn endings_that_are_no_end_of_tests() {
    let crash = format!("{}[ RUN      ] Cart.Adds\n{}", begun(&["Cart.Adds", "Cart.B"]), done(139));
    let live = followed(&crash);
    assert_eq!((of(&live, "Cart.Adds").open, live.faults), (1, 0));
    let program = &live.seen()[live.position("a/cart").unwrap()];
    let want = "SIGSEGV ended the test program before all of its tests were done";
    assert_eq!((program.status, program.message.as_deref()), (Some(Status::Errored), Some(want)));
    let cut = followed(&format!("{}[ RUN      ] Cart.Adds\nabc", begun(&["Cart.Adds"])));
    assert_eq!((of(&cut, "Cart.Adds").open, cut.finished), (1, None));
    let build = "@hotcell\tbroken\tsub/a.cc\t7 no such thing\n@hotcell\tdone\t-\t1\n";
    let live = followed(build);
    assert_eq!(live.seen()[0].at, Some(("sub/a.cc".to_owned(), 7)));
    assert_eq!(live.seen()[0].message.as_deref(), Some("no such thing"));
}

#[test]
fn forged_gtest_lines_are_faults() {
    let run = "[ RUN      ] Cart.Adds\n";
    for (what, added, faults) in [
        ("another's beginning", "[ RUN      ] Cart.B\n", true),
        ("another's end", "[       OK ] Cart.B (0 ms)\n", true),
        ("its end twice", "[       OK ] Cart.Adds (0 ms)\n[  FAILED  ] Cart.Adds (0 ms)\n", true),
        ("a line of ours", "@hotcell\ttest\ta/cart\tCart.C\n", true),
        ("another program", "@hotcell\tprogram\tb\t\n", true),
        ("its end and all", "@hotcell\tend\ta/cart\t0\n@hotcell\tdone\t-\t0\n", true),
        ("a test that nobody listed", "[ RUN      ] Inner.Test\n[       OK ] Inner.Test (0 ms)\n", false),
    ] {
        let live = followed(&format!("{}{run}{added}{}", begun(&["Cart.Adds", "Cart.B"]), done(0)));
        assert_eq!(live.faults > 0, faults, "{what}: {live:?}");
    }
}

proptest! {
    #[test]
    fn arbitrary_gtest_output_causes_no_panic(text in "(@hotcell\t|program|test|start|end|done|broken|\t|a|\\[ RUN      \\] |\\[       OK \\] |\\[  FAILED  \\] |A.b| \\(3 ms\\)|: Failure|\n){0,40}") {
        let _ = followed(&text);
    }
}

#[test]
fn skipped_gtest_environment_skips_its_tests() {
    let skip = "[----------] Global test environment set-up.\n./env_test.cc:2: Skipped\nno device here\nno device here\n[----------] Global test environment tear-down\n";
    for (said, code, want) in [(skip, 0, Some(Status::Skipped)), ("", 0, None), (skip, 1, None)] {
        let live = followed(&[&begun(&["Disk.Reads", "Disk.DISABLED_X"]), said, &done(code)].concat());
        let of_disk = live.position("a/cart::Disk.Reads").and_then(|at| live.seen()[at].status);
        assert_eq!((of_disk, live.hidden), (want, u64::from(want.is_some())), "{said} {code}");
        if want.is_some() {
            assert!(of(&live, "Disk.Reads").message.as_deref().unwrap().ends_with("skipped: no device here"));
        }
    }
}

#[test]
fn failing_gtest_environment_is_named() {
    let run = "[ RUN      ] Cart.Adds\n";
    let bad = format!("{run}a.cc:1: Failure\nFailed\n[  FAILED  ] Cart.Adds (0 ms)\n");
    let good = format!("{run}[       OK ] Cart.Adds (0 ms)\n");
    let down = "[----------] Global test environment tear-down\nenv.cc:4: Failure\nFailed\nnot clean\n[==========] 1 test\n";
    let ended = "the test program ended with exit code 1";
    for (text, want) in [
        (format!("{good}{down}"), Some((format!("{ended}: Failed\nnot clean"), Some(4)))),
        (format!("{bad}{down}"), Some((format!("{ended}: Failed\nnot clean"), Some(4)))),
        (
            format!("x.cc:9: Skipped\noff\n{bad}{down}"),
            Some((format!("{ended}: Failed\nnot clean"), Some(4))),
        ),
        (format!("x.cc:9: Skipped\noff\n{bad}"), None),
        (good.clone(), Some((ended.to_owned(), None))),
    ] {
        let live = followed(&format!("{}{text}{}", begun(&["Cart.Adds"]), done(1)));
        let program = live.position("a/cart").map(|at| &live.seen()[at]);
        let got = program.map(|p| (p.message.clone().unwrap(), p.at.as_ref().map(|(_, line)| *line)));
        assert_eq!(got, want, "{text}");
    }
}

/// Each run of all tests begins with a line of Google Test, between tests; elsewhere, or out of its order, it is text.
#[test]
fn repeated_gtest_run_is_followed() {
    let run = |result: &str| format!("[ RUN      ] Cart.Adds\n{result} Cart.Adds (1 ms)\n");
    let again = |number: u32| format!("\nRepeating all tests (iteration {number}) . . .\n\n");
    let (good, bad) = (run("[       OK ]"), run("[  FAILED  ]"));
    let note = |times: u32| Some(format!("a/cart ran its tests {times} times, as it sets itself"));
    for (said, code, want, note, faults) in [
        (format!("{}{good}{}{good}", again(1), again(2)), 0, Some(Status::Passed), note(2), false),
        (format!("{}{bad}{}{good}", again(1), again(2)), 1, Some(Status::Failed), note(2), false),
        (format!("{}{good}", again(1)), 0, Some(Status::Passed), None, false),
        (format!("{good}{good}"), 0, Some(Status::Passed), None, true),
        (format!("{}{good}{}{good}", again(1), again(3)), 0, Some(Status::Passed), None, true),
        (format!("{good}{}{good}", again(2)), 0, Some(Status::Passed), None, true),
    ] {
        let live = followed(&format!("{}{said}{}", begun(&["Cart.Adds"]), done(code)));
        assert_eq!((of(&live, "Cart.Adds").status, live.faults > 0), (want, faults), "{said}");
        assert_eq!(live.finished, Some((i64::from(code), note)), "{said}");
    }
    let inside =
        format!("{}[ RUN      ] Cart.Adds\n{}[       OK ] Cart.Adds (1 ms)\n{good}", again(1), again(2));
    assert!(followed(&format!("{}{inside}{}", begun(&["Cart.Adds"]), done(0))).faults > 0);
}

/// A program that ends with 0 before its tests are done has failed; one that says that it runs a part has left the others out.
#[test]
fn gtest_program_that_ends_well_and_early() {
    let run = "[ RUN      ] Cart.Adds\n";
    let good = format!("{run}[       OK ] Cart.Adds (1 ms)\n");
    let shard = "Note: This is test shard 1 of 2.\n";
    let cut = done(0).replace("a/cart\t0", "a/cart\t0 cut");
    let whole = done(0).replace("a/cart\t0", "a/cart\t0 whole");
    let early = "the test program ended with exit code 0 before all of its tests were done: a test, or what it calls, ends the process, as by exit(0)";
    for (said, end, program, other) in [
        (run.to_owned(), &cut, Some(early), None),
        (good.clone(), &cut, Some(early), None),
        (format!("{shard}{good}"), &cut, Some(early), None),
        (format!("{shard}{good}"), &whole, None, Some(Status::Skipped)),
        (good.clone(), &whole, None, None),
    ] {
        let live = followed(&format!("{}{said}{end}", begun(&["Cart.Adds", "Cart.B"])));
        let message = live.position("a/cart").and_then(|at| live.seen()[at].message.clone());
        assert_eq!(message.as_deref(), program, "{said}{end}");
        let left = live.position("a/cart::Cart.B").and_then(|at| live.seen()[at].status);
        assert_eq!((left, live.faults), (other, 0), "{said}{end}");
    }
}

/// A program may print in colours and without times (`color`, `print_time`): each form is followed alike.
#[test]
fn printed_forms_of_gtest_are_followed() {
    let tests = [("Cart.Adds", "[       OK ]", Status::Passed), ("Cart.Bad", "[  FAILED  ]", Status::Failed)];
    for (colour, off) in [("", ""), ("\x1b[0;32m", "\x1b[m"), ("\x1b[1;31m", "\x1b[0m"), ("\x1b[m", "")] {
        for time in [" (7 ms)", ""] {
            let of_test = |(test, sign, _): &(&str, &str, Status)| {
                format!(
                    "{colour}[ RUN      ] {off}{test}\na.cc:2: Failure\nsaid{colour}{sign} {off}{test}{time}\n"
                )
            };
            let ran: String = tests.iter().map(of_test).collect();
            let summary = format!(
                "{colour}[  FAILED  ] {off}1 test, listed below:\n{colour}[  FAILED  ] {off}Cart.Bad\n"
            );
            let live = followed(&format!("{}{ran}{summary}{}", begun(&["Cart.Adds", "Cart.Bad"]), done(1)));
            for (test, _, want) in tests {
                assert_eq!(
                    (of(&live, test).status, of(&live, test).open),
                    (Some(want), 0),
                    "{colour:?} {time}"
                );
            }
            assert_eq!((live.faults, live.position("a/cart")), (0, None), "{colour:?} {time}");
        }
    }
    // An end without a time, beside ends with one, is a test's own text.
    let text = "[ RUN      ] Cart.Adds\n[       OK ] Cart.Adds (1 ms)\n[ RUN      ] Cart.Bad\n[       OK ] Cart.Bad\n[  FAILED  ] Cart.Bad (1 ms)\n";
    let live = followed(&format!("{}{text}{}", begun(&["Cart.Adds", "Cart.Bad"]), done(1)));
    assert_eq!((of(&live, "Cart.Bad").status, live.faults), (Some(Status::Failed), 0));
}

/// A test of ctest that is another program is known by its end, and a line of it among a program's output is a forgery.
#[test]
fn other_programs_of_ctest_are_tests() {
    for (said, code, want) in [
        ("0 run", "0", Status::Passed),
        ("0 run Passed", "0", Status::Passed),
        ("0 skipped Skipped", "0", Status::Skipped),
        ("8 run Failed", "1", Status::Errored),
        ("8 skipped", "1", Status::Errored),
        ("", "1", Status::Errored),
    ] {
        let text = format!(
            "@hotcell\tstep\tctest::a b\t\n@hotcell\tstepped\tctest::a b\t{said}\n@hotcell\tdone\t-\t{code}\n"
        );
        let live = followed(&text);
        let seen = &live.seen()[0];
        assert_eq!((&*seen.id, seen.status, seen.open), ("ctest::a b", Some(want), 0), "{said}");
        assert_eq!((live.collected, live.faults), (Some(1), 0), "{said}");
        let failed = said == "8 run Failed";
        assert_eq!(seen.message.as_deref(), failed.then_some("ctest: Failed"), "{said}");
        let (code, how) = said.split_once(' ').unwrap_or(("1", ""));
        let report = format!(
            "@hotcell\tprogram\tctest::a b\t\n@hotcell\tend\tctest::a b\t{code} {how}\n@hotcell\tdone\t-\t0\n"
        );
        let entries = GoogleTest.report(&[report.into_bytes()], &live).unwrap().entries;
        assert_eq!(
            entries.iter().map(|e| (&*e.id, e.status)).collect::<Vec<_>>(),
            [("ctest::a b", want)],
            "{said}"
        );
    }
    let cut = followed("@hotcell\tstep\tctest::a\t\n");
    assert_eq!((cut.seen()[0].open, &cut.finished), (1, &None));
    let within = format!("{}@hotcell\tstep\tctest::a\t\n{}", begun(&["Cart.Adds"]), done(0));
    assert!(followed(&within).faults > 0);
}

/// A disabled test is skipped, unless the program itself has it run (`also_run_disabled_tests`).
#[test]
fn disabled_gtest_that_runs_has_its_result() {
    let good = "[ RUN      ] Cart.Adds\n[       OK ] Cart.Adds (1 ms)\n";
    let run = |sign: &str| format!("{good}[ RUN      ] Cart.DISABLED_X\n[{sign}] Cart.DISABLED_X (1 ms)\n");
    for (said, code, want, collected) in [
        (good.to_owned(), Some(0), Status::Skipped, 1),
        (good.to_owned(), None, Status::Skipped, 1),
        (run("       OK "), Some(0), Status::Passed, 2),
        (run("  FAILED  "), Some(1), Status::Failed, 2),
    ] {
        let end = code.map(done).unwrap_or_default();
        let live = followed(&format!("{}{said}{end}", begun(&["Cart.Adds", "Cart.DISABLED_X"])));
        let off = of(&live, "Cart.DISABLED_X");
        assert_eq!((off.status, off.started), (Some(want), want != Status::Skipped), "{said} {code:?}");
        assert_eq!((live.collected, live.faults), (Some(collected), 0), "{said} {code:?}");
    }
}
