//! What cargo, nextest and our script say, and what hostile tests add.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::case::Status;

fn built(file: &str, program: &str) -> String {
    format!(
        "{{\"reason\":\"compiler-artifact\",\"target\":{{\"src_path\":\"{PROJECT}/{file}\"}},\"profile\":{{\"test\":true}},\"executable\":\"{program}\"}}\n"
    )
}

const BUILT: &str = "{\"reason\":\"build-finished\",\"success\":true}\n";

fn begin(name: &str) -> String {
    format!("@hotcell\tbegin\tp\t0.9.143 tally {name}\n")
}

fn end(name: &str, code: &str) -> String {
    format!("@hotcell\tend\tp\t{code} {name}\n")
}

/// What is seen of two streams.
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
fn a_run_is_followed() {
    let text = [
        &built("src/lib.rs", "p"),
        BUILT,
        "@hotcell\tignored\tp\tslow\n@hotcell\tignored\tp\tslow\n",
        &begin("a"),
        &begin("b c"),
        &end("a", "0"),
        &begin("d"),
        &end("b c", "134"),
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
    // One that runs is the end of nothing.
    assert_eq!((live.finished.as_ref(), live.faults, live.collected), (None, 0, Some(3)));
    let live = followed(&format!("{text}{}", end("d", "0")), &starting(3));
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
fn what_does_not_hold_together_has_not_passed() {
    let good = [begin("a"), begin("b"), end("b", "0"), end("a", "0")].concat();
    for (what, text, count, passes) in [
        ("good", good.clone(), 2, true),
        ("one more was announced", good.clone(), 3, false),
        ("one less was announced", good.clone(), 1, false),
        ("one does not end", [begin("a"), begin("b"), end("b", "0")].concat(), 2, false),
        ("one ends twice", format!("{good}{}", end("a", "0")), 2, false),
        ("one begins twice", format!("{}{good}", begin("a")), 2, false),
        ("one that did not begin ends", format!("{}{good}", end("c", "0")), 2, false),
        ("one ends its process", good.replace("0 a", "early a"), 2, false),
        ("one fails", good.replace("0 a", "101 a"), 2, false),
        ("an exit code is none", good.replace("0 a", "x a"), 2, false),
        ("another program", format!("{good}@hotcell\tend\tq\t0 a\n"), 2, false),
        ("a line of no kind", format!("{good}@hotcell\tpraise\tp\t0 a\n"), 2, false),
        ("ignored when it has run", format!("{good}@hotcell\tignored\tp\ta\n"), 2, false),
    ] {
        let text = [&built("src/lib.rs", "p"), BUILT, &text].concat();
        let live = followed(&text, &starting(count));
        let all = live.seen().iter().all(|s| s.open == 0 && s.status.is_some_and(Status::is_good));
        let got = all && live.faults == 0 && live.finished == Some((0, None));
        assert_eq!(got, passes, "{what}: {live:#?}");
    }
    // Nobody said how many there are.
    let text = [&built("src/lib.rs", "p"), BUILT, &good].concat();
    assert_eq!(followed(&text, "").finished, None);
    // Before cargo's last word nobody speaks.
    assert_eq!(followed(&[&built("src/lib.rs", "p"), good.as_str()].concat(), &starting(2)).started(), 0);
}

#[test]
fn no_tests_no_build_and_no_nextest() {
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
    fn any_bytes(out in "(@hotcell\t|begin|end|ignored|\tp|\t|\n|0 a| |early|tally ){0,40}", err in "(Starting | tests| across |\n|9|-){0,12}") {
        let live = followed(&[&built("src/lib.rs", "p"), BUILT, &out].concat(), &err);
        let passed = live.seen().iter().filter(|s| s.status == Some(Status::Passed)).count();
        prop_assert!(live.seen().len() >= passed);
    }
}
