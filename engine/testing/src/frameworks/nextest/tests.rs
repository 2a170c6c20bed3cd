//! Output of cargo, nextest and hotcell's script, and forgeries by hostile tests.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::case::Status;

fn built(file: &str, program: &str) -> String {
    format!(
        "{{\"reason\":\"compiler-artifact\",\"target\":{{\"src_path\":\"{PROJECT}/{file}\"}},\"profile\":{{\"test\":true}},\"executable\":\"{program}\"}}\n"
    )
}

const LIBTEST: &str = "\n@hotcell\tlisted\tp\twhole libtest\n";
const BUILT: &str = "{\"reason\":\"build-finished\",\"success\":true}\n";

fn begin(name: &str) -> String {
    attempt(1, name)
}

fn attempt(number: u32, name: &str) -> String {
    format!("set-up\n@hotcell\tbegin\tp\t0.9.143 tally {number} {name}\n")
}

/// `CODE ATTEMPT TOTAL-ATTEMPTS SAID`
fn end(name: &str, code: &str) -> String {
    format!("\n@hotcell\tend\tp\t{code} {name}\n")
}

/// Live events of two streams.
fn followed(stdout: &str, stderr: &str) -> LiveLog {
    let mut reader = Nextest.events();
    let mut live = LiveLog::default();
    let out = reader.push(stdout.as_bytes());
    let errors = reader.push_stderr(stderr.as_bytes());
    for event in out.into_iter().chain(errors).chain(reader.end()) {
        live.apply(&event);
    }
    live
}

fn starting(count: usize) -> String {
    format!("   Compiling tally v0.1.0\n    Starting {count} tests across 2 binaries (1 test skipped)\n")
}

#[test]
fn nextest_run_is_followed() {
    let text = [
        &built("src/lib.rs", "p"),
        BUILT,
        "@hotcell\tignored\tp\tslow\n@hotcell\tignored\tp\tslow\n",
        &begin("a"),
        &begin("b c"),
        &end("a", "0 1 1 one"),
        &begin("d"),
        &end("b c", "134 1 1 nothing"),
    ]
    .concat();
    let live = followed(&text, &starting(3));
    let seen: BTreeMap<_, _> = live.seen().iter().map(|s| (&*s.id, (s.status, s.open))).collect();
    let want = [
        ("src/lib.rs::a", (Some(Status::Passed), 0)),
        ("src/lib.rs::b c", (Some(Status::Failed), 0)),
        ("src/lib.rs::d", (None, 1)),
        ("src/lib.rs::slow", (Some(Status::Skipped), 0)),
    ];
    assert_eq!(seen, want.into());
    // A running test is not a normal end.
    assert_eq!((live.finished.as_ref(), live.faults, live.collected), (None, 0, Some(3)));
    let live = followed(&format!("{text}{}", end("d", "0 1 1 one")), &starting(3));
    assert_eq!(live.finished, Some((100, None)));
    assert_eq!(live.runtime.as_ref().unwrap().version.as_deref(), Some("0.9.143"));
    let aborted = &live.seen()[live.position("src/lib.rs::b c").unwrap()];
    assert_eq!(aborted.message.as_deref(), Some("SIGABRT ended the test program"));

    let xml = b"<testsuites><testsuite name='tally'><testcase name='a' classname='tally' time='0.5'/>\
        <testcase name='b c' classname='tally'><failure message='m' type='t'>d</failure>\
        <system-out>\nrunning 1 test\nsaid\ntest b c ... FAILED\n\nfailures:\n</system-out>\
        <system-err>\nthread 'b' (7) panicked at src/a.rs:3:5:\nno\nnote: x\n</system-err></testcase>\
        <testcase name='e' classname='other'/></testsuite></testsuites>";
    let entries = Nextest.report(&[xml.to_vec()], &live).unwrap().entries;
    let got: Vec<_> = entries.iter().map(|e| (e.id.as_str(), e.status)).collect();
    let want = [
        ("src/lib.rs::slow", Status::Skipped),
        ("src/lib.rs::a", Status::Passed),
        ("src/lib.rs::b c", Status::Failed),
        ("other::e", Status::Passed),
    ];
    assert_eq!(got, want);
    let failed = &entries[2];
    assert_eq!((failed.message.as_deref(), failed.stdout.as_deref()), (Some("no"), Some("said")));
    assert_eq!((failed.file.as_deref(), failed.line), (Some("src/a.rs"), Some(3)));
}

#[test]
fn inconsistent_nextest_run_does_not_pass() {
    const ONE: &str = "0 1 1 one";
    let good = [begin("a"), begin("b"), end("b", ONE), end("a", ONE)].concat();
    let a = |code: &str| [begin("a"), begin("b"), end("b", ONE), end("a", code)].concat();
    let tried =
        |last: &str| [begin("a"), end("a", "101 1 2 other"), attempt(2, "a"), end("a", last)].concat();
    for (what, text, count, passes) in [
        ("good", good.clone(), 2, true),
        ("one more was announced", good.clone(), 3, false),
        ("one less was announced", good.clone(), 1, false),
        ("one does not end", [begin("a"), begin("b"), end("b", ONE)].concat(), 2, false),
        ("one ends twice", format!("{good}{}", end("a", ONE)), 2, false),
        ("one begins twice", format!("{}{good}", begin("a")), 2, false),
        ("one that did not begin ends", format!("{}{good}", end("c", ONE)), 2, false),
        ("one ends its process", a("0 1 1 nothing"), 2, false),
        ("nothing ran", a("0 1 1 none"), 2, false),
        ("one says that another failed", a("0 1 1 other"), 2, false),
        ("one fails", a("101 1 1 other"), 2, false),
        ("one fails and says that it did not", a("101 1 1 one"), 2, false),
        ("an exit code is none", a("x 1 1 one"), 2, false),
        ("good at the second attempt", tried("0 2 2 one"), 1, true),
        ("bad at the second attempt", tried("101 2 2 other"), 1, false),
        (
            "good after an attempt that was killed",
            [begin("a"), attempt(2, "a"), end("a", "0 2 2 one")].concat(),
            1,
            true,
        ),
        ("an attempt is left out", [begin("a"), attempt(3, "a"), end("a", "0 3 3 one")].concat(), 1, false),
        (
            "an attempt ends that is over",
            [begin("a"), attempt(2, "a"), end("a", "0 1 2 one"), end("a", "0 2 2 one")].concat(),
            1,
            false,
        ),
        ("left out when it ran", a("0 1 1 ignored"), 2, true),
        ("no second attempt", [begin("a"), end("a", "101 1 2 other")].concat(), 1, false),
        ("a second attempt before the first", [attempt(2, "a"), end("a", ONE)].concat(), 1, false),
        ("another program", format!("{good}@hotcell\tend\tq\t0 1 1 one a\n"), 2, false),
        ("a line of no kind", format!("{good}@hotcell\tpraise\tp\t0 a\n"), 2, false),
        ("ignored when it has run", format!("{good}@hotcell\tignored\tp\ta\n"), 2, false),
        ("listed when it has run", format!("{good}@hotcell\tlisted\tp\tall \n"), 2, false),
    ] {
        let text = [&built("src/lib.rs", "p"), BUILT, LIBTEST, &text].concat();
        let live = followed(&text, &starting(count));
        let all = live.seen().iter().all(|s| s.open == 0 && s.status.is_some_and(Status::is_good));
        let got = all && live.faults == 0 && live.finished.as_ref().is_some_and(|(code, _)| *code == 0);
        assert_eq!(got, passes, "{what}: {live:#?}");
    }
    // The number of tests was not announced.
    let text = [&built("src/lib.rs", "p"), BUILT, &good].concat();
    assert_eq!(followed(&text, "").finished, None);
    // The script does not run before cargo's last message.
    assert_eq!(followed(&[&built("src/lib.rs", "p"), good.as_str()].concat(), &starting(2)).started(), 0);
}

#[test]
fn nextest_decisions_set_case_status() {
    let all = |text: &str, said: &str| {
        let text = [&built("src/lib.rs", "p"), BUILT, LIBTEST, text].concat();
        followed(&text, &format!("{}{said}", starting(1)))
    };
    const SUM: &str =
        "     Summary [   0.191s] 1 test run: 0 passed, 1 failed, 1 skipped\nerror: test run failed\n";
    // Killed with the script that follows it, and not retried.
    for text in [begin("a"), [begin("a"), end("a", "101 1 2 other")].concat()] {
        let live = all(&text, SUM);
        assert_eq!((live.seen()[0].open, live.seen()[0].status), (0, Some(Status::Failed)), "{text}");
        assert_eq!(live.finished.as_ref().unwrap().0, 100);
        let report = Nextest.report(&[b"<testsuites/>".to_vec()], &live).unwrap();
        assert_eq!(report.entries[0].status, Status::Failed);
    }
    // All tests are good, but the run failed.
    let live = all(&[begin("a"), end("a", "0 1 1 one")].concat(), SUM);
    assert_eq!((live.seen()[0].status, live.finished.as_ref().unwrap().0), (Some(Status::Passed), 100));
    // Left out by settings.
    assert_eq!(
        live.finished.unwrap().1.as_deref(),
        Some("the project's settings of nextest leave 1 test out")
    );
    let ignored = "@hotcell\tignored\tp\tslow\n";
    let live = all(&format!("{ignored}{}{}", begin("a"), end("a", "0 1 1 one")), "");
    assert_eq!(live.finished, Some((0, None)));
    // For a program without libtest only the exit code is known, and that no test ran.
    let other = |said: &str| {
        let listed = "@hotcell\tlisted\tp\tall other\n";
        let end = end("a", &format!("0 1 1 {said}"));
        let text = [&built("src/lib.rs", "p"), BUILT, listed, &begin("a"), &end].concat();
        followed(&text, &starting(1)).seen()[0].status
    };
    assert_eq!((other("nothing"), other("none")), (Some(Status::Passed), Some(Status::Errored)));
    // A test that could not run here is good for nextest.
    let live = all(&[begin("a"), end("a", "0 1 1 ignored")].concat(), "");
    let passed =
        b"<testsuites><testsuite name='s'><testcase name='a' classname='tally'/></testsuite></testsuites>";
    assert_eq!(Nextest.report(&[passed.to_vec()], &live).unwrap().entries[0].status, Status::Skipped);
    // Set-up scripts, and excluded tests, are in the report.
    let xml = b"<testsuites><testsuite name='s'><testcase name='db' classname='@setup-script:db'/>\
        <testcase name='x' classname='tally'><skipped/></testcase></testsuite></testsuites>";
    assert_eq!(Nextest.report(&[xml.to_vec()], &LiveLog::default()).unwrap().entries, []);
}

#[test]
fn nextest_without_tests_build_or_program_is_explained() {
    let text = [&built("src/lib.rs", "p"), BUILT].concat();
    assert_eq!(followed(&text, &starting(0)).finished, Some((4, None)));
    let error = format!(
        "{{\"reason\":\"compiler-message\",\"target\":{{\"src_path\":\"{PROJECT}/src/lib.rs\"}},\"message\":{{\"level\":\"error\",\"message\":\"cannot find x\",\"rendered\":\"long\",\"code\":null,\"spans\":[{{\"file_name\":\"src/a.rs\",\"line_start\":3,\"is_primary\":true}}]}}}}\n{{\"reason\":\"build-finished\",\"success\":false}}\n"
    );
    let live = followed(&error, "");
    assert_eq!(live.finished, Some((101, None)));
    assert!(Nextest.builds_nothing(&live));
    let entries = Nextest.report(&[], &live).unwrap().entries;
    assert_eq!((entries[0].id.as_str(), entries[0].status), ("src/lib.rs", Status::Errored));
    let live = followed("", "error: no such command: `nextest`\n\nhelp: view all\n");
    assert_eq!(live.missing.as_deref(), Some(PROGRAM));
    assert!(Nextest.install(PROGRAM, "").is_some_and(|how| how.contains("cargo install")));
}

#[test]
fn expressions_and_names() {
    for (filter, want) in [
        ("test(a)", true),
        ("not test(a)", true),
        ("(binary_id(=a::b) & !kind(test))", true),
        ("package(a)+deps(b)", true),
        ("a::b", false),
        ("a::mytest(1)", false),
        ("case_(1)", false),
        ("my::test(1)", false),
    ] {
        assert_eq!(is_expression(filter), want, "{filter}");
    }
}

proptest! {
    #[test]
    fn arbitrary_nextest_output_causes_no_panic(out in "(@hotcell\t|begin|end|ignored|\tp|\t|\n|0 a| |early|tally ){0,40}", err in "(Starting | tests| across |\n|9|-){0,12}") {
        let live = followed(&[&built("src/lib.rs", "p"), BUILT, &out].concat(), &err);
        let passed = live.seen().iter().filter(|s| s.status == Some(Status::Passed)).count();
        prop_assert!(live.seen().len() >= passed);
    }
}
