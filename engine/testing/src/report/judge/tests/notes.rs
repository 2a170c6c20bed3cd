//! Notes of a judgement, and verdicts on parts of a suite.

use super::*;

#[test]
fn tests_left_out_by_only_are_counted() {
    assert!(include_str!("../../../frameworks/javascript/events.cjs").contains(FOCUSED));
    let skipped = |id: &str, file: &str, why: &str| Ended {
        message: Some(why.to_owned()).filter(|why| !why.is_empty()),
        file: Some(file.to_owned()),
        ..ended(id, Status::Skipped)
    };
    for (left, want) in [
        (&[][..], None),
        (&[("a.test.js", "")], None),
        (&[("a.test.js", "todo")], None),
        (&[("a.test.js", FOCUSED)], Some("1 test was skipped in files with .only: a.test.js")),
        (
            &[("a.test.js", FOCUSED), ("a.test.js", ""), ("a.test.js", FOCUSED), ("b.test.js", FOCUSED)],
            Some("3 tests were skipped in files with .only: a.test.js, b.test.js"),
        ),
        (
            &[("a.test.js", FOCUSED), ("b.test.js", FOCUSED), ("a.test.js", FOCUSED)],
            Some("3 tests were skipped in files with .only: a.test.js, b.test.js"),
        ),
        (&[("a.mjs", NODE_FOCUSED)], Some("1 test was skipped in files with .only: a.mjs")),
    ] {
        let mut log = LiveLog::default();
        let mut entries = vec![entry("ran", Status::Passed)];
        log.apply(&Event::Collected(1 + left.len() as u64, 0));
        log.apply(&Event::Started("ran".to_owned(), None, None));
        log.apply(&Event::Ended(ended("ran", Status::Passed)));
        for (number, (file, why)) in left.iter().enumerate() {
            let id = format!("{file}::{number}");
            log.apply(&Event::Started(id.clone(), Some((*file).to_owned()), None));
            log.apply(&Event::Ended(skipped(&id, file, why)));
            entries.push(entry(&id, Status::Skipped));
        }
        log.apply(&Event::Finished(0, None));
        let judged = judge(&Jest, Asked::default(), Ok(FinalReport { entries }), &log, &exited(0));
        assert_eq!((judged.verdict, judged.reason.as_deref()), (Verdict::Passed, want), "{left:?}");
    }
}

/// Ids of each language name the files of tests in a way of their own.
#[test]
fn files_without_run_tests_are_known_by_ids() {
    use crate::frameworks::golang::Go;
    use crate::frameworks::java::Junit;
    let heads = "no test ran of files that seem to hold some: ";
    for (framework, ran, silent, id) in [
        (
            &Junit as &dyn Framework,
            "src/test/java/a/CartTest.java",
            "m/src/test/java/a/CartSpec.java",
            "a.CartTest$In::x()",
        ),
        (&Junit, "CartTest.java", "OldTest.java", "CartTest::adds(int)[1]"),
        (&GoogleTest, "tests/a.cc/Cart.Adds", "tests/b.cc/Cart.Left", "sub/a_test::Cart.Adds"),
        (&Go, "a_test.go/TestAdds", "b.test.go/TestOther", "example.com/a::TestAdds/one"),
    ] {
        let files = [ran.to_owned(), silent.to_owned()];
        let mut log = LiveLog::default();
        log.apply(&Event::Started(id.to_owned(), None, None));
        log.apply(&Event::Ended(ended(id, Status::Passed)));
        log.apply(&Event::Finished(0, None));
        let report = FinalReport { entries: vec![entry(id, Status::Passed)] };
        let asked = Asked { files: &files, ..Asked::default() };
        let judged = judge(framework, asked, Ok(report), &log, &exited(0));
        assert_eq!(judged.reason, Some(format!("{heads}{silent}")), "{id}");
    }
}

/// Message of a test that failed while it ran, and that the report calls skipped for a reason.
#[test]
fn message_of_a_failure_is_not_a_reason_for_skipping() {
    let mut log = LiveLog::default();
    log.apply(&Event::Started("a".to_owned(), None, None));
    log.apply(&Event::Ended(Ended { message: Some("it failed".to_owned()), ..ended("a", Status::Failed) }));
    log.apply(&Event::Finished(0, None));
    let skipped = Entry { message: Some("later".to_owned()), ..entry("a", Status::Skipped) };
    let report = FinalReport { entries: vec![skipped] };
    let judged = judge(&Pytest, Asked::default(), Ok(report), &log, &exited(0));
    assert_eq!((judged.verdict, judged.consistent), (Verdict::Unusable, false));
    assert_eq!(
        (judged.cases[0].status, judged.cases[0].message.as_deref()),
        (Status::Failed, Some("it failed"))
    );
}

#[test]
fn program_that_ended_early_is_named_first() {
    for (code, how) in [
        (0, "the test program ended with exit code 0"),
        (3, "the test program ended with exit code 3"),
        (134, "SIGABRT ended the test program"),
    ] {
        let mut log = live("pn");
        let message = Some(format!("{} before all of its tests were done", runner::ending(code)));
        log.apply(&Event::Group(Ended { message, ..ended("src/lib.rs", Status::Errored) }, 0));
        let code = if code == 0 { 0 } else { 101 };
        log.apply(&Event::Finished(code, None));
        let exit = exited(i32::try_from(code).unwrap());
        let judged = judge(&Cargo, Asked::default(), report("p"), &log, &exit);
        let said = format!("src/lib.rs: {how} before all of its tests were done; ");
        let reason = judged.reason.unwrap_or_default();
        assert!(judged.verdict == Verdict::Unusable && reason.starts_with(&said), "{reason}");
    }
}

#[test]
fn skipped_tests_are_a_result_of_a_part_only() {
    for (part, letters, want) in [
        (false, "ss", Verdict::Unusable),
        (true, "ss", Verdict::Passed),
        (true, "s", Verdict::Passed),
        (true, "", Verdict::Unusable),
        (false, "sp", Verdict::Passed),
    ] {
        let asked = Asked { part, ..Asked::default() };
        let log = live(&format!("{letters}!0"));
        let judged = judge(&Pytest, asked, report(letters), &log, &exited(0));
        assert_eq!(judged.verdict, want, "{part} {letters}: {:?}", judged.reason);
        let says = judged.reason.as_deref().is_some_and(|reason| reason.starts_with("no test"));
        assert_eq!(says, letters != "sp", "{part} {letters}: {:?}", judged.reason);
    }
}
