//! `hotcell test` on the examples in languages other than Python, with the toolchains of this machine.

use std::collections::BTreeMap;
use std::path::Path;

use hotcell_end_to_end::{User, everyone, past_the_start, rust};
use serde_json::Value;

/// Results by id.
fn results(report: &Value) -> BTreeMap<&str, &str> {
    let cases = report["cases"].as_array().expect("cases");
    cases.iter().map(|case| (case["id"].as_str().unwrap(), case["status"].as_str().unwrap())).collect()
}

fn test(user: &User, path: &str, folder: &Path, options: &[&str], code: i32) -> Value {
    let mut call = user.hotcell(["test", "--json"]).env("PATH", path);
    call.add(options).add([folder]);
    call.end().code(code).json()
}

#[test]
fn cargo_example_reports_bug_and_endless_test() {
    let Some(rust) = rust() else { return };
    let path = format!("{}/bin:/usr/bin:/bin", rust.display());
    everyone(|user| {
        let folder = user.example("tally");
        let want = [
            ("src/lib.rs::tests::long_text_is_counted", "skipped"),
            ("src/lib.rs::tests::case_does_not_matter", "failed"),
            ("src/lib.rs::tests::empty_text_has_no_commonest_word", "passed"),
            ("src/lib.rs::tests::words_are_counted", "passed"),
            ("tests/texts.rs::sentence_has_commonest_word", "passed"),
            ("tests/texts.rs::empty_text_has_empty_commonest_word", "failed"),
            ("tests/waits.rs::first", "passed"),
            ("tests/waits.rs::for_ever", "not_finished"),
        ];
        let report =
            past_the_start(25, &want, |limit| test(user, &path, &folder, &["--timeout", limit], 124));
        assert_eq!(report["framework"], "cargo");
        assert_eq!(results(&report), want.into(), "{report:#}");
        assert!(!folder.join("target").exists(), "the project is as it was");

        let report = test(user, &path, &folder, &["--filter", want[1].0], 1);
        assert_eq!(results(&report), [want[1]].into(), "{report:#}");
        assert_eq!(report["cases"][0]["source"], "assert_eq!(words(\"The the\")[\"the\"], 2);");
        // Includes its examples, and no failures.
        let report = test(user, &path, &folder, &["--filter", "words"], 0);
        let want =
            [("src/lib.rs - words (line 7)", "passed"), ("src/lib.rs::tests::words_are_counted", "passed")];
        assert_eq!(results(&report), want.into(), "{report:#}");
    });
}

#[test]
fn go_example_reports_bug_and_endless_test() {
    let there = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .chain(["/usr/bin".into()])
        .find(|folder| folder.join("go").is_file());
    let Some(bin) = there else {
        println!("skipped: no go (on Debian: apt-get install golang-go)");
        return;
    };
    let path = format!("{}:/usr/bin:/bin", bin.display());
    everyone(|user| {
        let folder = user.example("ledger");
        let want = [
            ("example.com/ledger/report::TestFirstOfNone", "failed"),
            ("example.com/ledger/report::TestLine", "passed"),
            ("example.com/ledger/waits::TestFirst", "passed"),
            ("example.com/ledger/waits::TestForEver", "not_finished"),
            ("example.com/ledger::ExampleSum", "passed"),
            ("example.com/ledger::TestAverage", "failed"),
            ("example.com/ledger::TestAverage/even", "passed"),
            ("example.com/ledger::TestAverage/of_equal", "passed"),
            ("example.com/ledger::TestAverage/rounds", "failed"),
            ("example.com/ledger::TestOfNothing", "passed"),
            ("example.com/ledger::TestSum", "passed"),
            ("example.com/ledger::TestYears", "skipped"),
        ];
        let report =
            past_the_start(25, &want, |limit| test(user, &path, &folder, &["--timeout", limit], 124));
        assert_eq!(report["framework"], "go");
        assert_eq!(results(&report), want.into(), "{report:#}");

        let report = test(user, &path, &folder, &["--filter", "example.com/ledger::TestAverage/rounds"], 1);
        let want = [
            ("example.com/ledger::TestAverage", "failed"),
            ("example.com/ledger::TestAverage/rounds", "failed"),
        ];
        assert_eq!(results(&report), want.into(), "{report:#}");
        test(user, &path, &folder, &["--filter", "TestSum"], 0);
    });
}

#[test]
fn cpp_example_reports_bug_and_endless_test() {
    let lacks = ["/usr/include/gtest/gtest.h", "/usr/bin/cmake", "/usr/bin/c++", "/usr/bin/make"];
    if let Some(lacking) = lacks.iter().find(|path| !Path::new(path).exists()) {
        println!("skipped: no {lacking} (on Debian: apt-get install libgtest-dev cmake make g++)");
        return;
    }
    everyone(|user| {
        let folder = user.example("parking");
        let want = [
            ("fee_test::Fee.BeginsFree", "passed"),
            ("fee_test::Fee.CountsHoursThatHaveBegun", "passed"),
            ("fee_test::Fee.DISABLED_AtNight", "skipped"),
            ("fee_test::Fee.HasAMostForADay", "failed"),
            ("fee_test::Fee.OfAYear", "skipped"),
            ("fee_test::Fee.RefusesLessThanNoTime", "passed"),
            ("fee_test::Some/Days.CostTheSameEach/0", "passed"),
            ("fee_test::Some/Days.CostTheSameEach/1", "passed"),
            ("fee_test::Some/Days.CostTheSameEach/2", "passed"),
            ("waits_test::Waits.First", "passed"),
            ("waits_test::Waits.ForEver", "not_finished"),
        ];
        let report = past_the_start(40, &want, |limit| {
            test(user, "/usr/bin:/bin", &folder, &["--timeout", limit], 124)
        });
        assert_eq!(report["framework"], "gtest");
        assert_eq!(results(&report), want.into(), "{report:#}");
        assert!(!folder.join("build").exists(), "the project is as it was");

        let report = test(user, "/usr/bin:/bin", &folder, &["--filter", want[3].0], 1);
        assert_eq!(results(&report), [want[3]].into(), "{report:#}");
        assert_eq!(report["cases"][0]["source"], "EXPECT_EQ(fee(23 * 60), 1500) << \"a day costs no more\";");
        test(user, "/usr/bin:/bin", &folder, &["--filter", "Fee.Begins*"], 0);
    });
}

#[test]
fn java_example_reports_bug_and_endless_test() {
    let lacks = ["/usr/bin/javac", "/usr/share/java/junit-jupiter-api.jar"];
    if let Some(lacking) = lacks.iter().find(|path| !Path::new(path).exists()) {
        println!("skipped: no {lacking} (on Debian: apt-get install default-jdk-headless junit5)");
        return;
    }
    everyone(|user| {
        let folder = user.example("tickets");
        let want = [
            ("src/test/java/tickets/PricesTest.java", "errored"),
            ("tickets.SeatsTest$WhenFull::nothingIsTaken()", "passed"),
            ("tickets.SeatsTest::takenSeatsAreNotFree(int)[1]", "passed"),
            ("tickets.SeatsTest::takenSeatsAreNotFree(int)[2]", "passed"),
            ("tickets.SeatsTest::theBalcony()", "skipped"),
            ("tickets.SeatsTest::theFirstAreTakenFirst()", "passed"),
            ("tickets.SeatsTest::theWholeRow()", "errored"),
            ("tickets.WaitsTest::first()", "passed"),
            ("tickets.WaitsTest::forEver()", "not_finished"),
        ];
        let report = past_the_start(25, &want, |limit| {
            test(user, "/usr/bin:/bin", &folder, &["--timeout", limit], 124)
        });
        assert_eq!(report["framework"], "junit");
        assert_eq!(results(&report), want.into(), "{report:#}");

        let report =
            test(user, "/usr/bin:/bin", &folder, &["--filter", "tickets.SeatsTest::theWholeRow()"], 1);
        let (case, want) = (
            &report["cases"][1],
            "throw new IllegalStateException(\"no \" + count + \" seats beside each other\");",
        );
        assert_eq!(
            (&case["source"], &case["file"]),
            (&want.into(), &"src/main/java/tickets/Seats.java".into())
        );
    });
}

#[test]
fn node_example_reports_bug_and_endless_test() {
    if !Path::new("/usr/bin/node").exists() {
        println!("skipped: no /usr/bin/node (on Debian: apt-get install nodejs)");
        return;
    }
    everyone(|user| {
        let folder = user.example("recipes");
        let want = [
            // Only node itself reports this one as passed.
            ("test/early.test.js", "errored"),
            ("test/scale.test.js::scale::doubles", "passed"),
            ("test/scale.test.js::scale::goes to the next five grams", "failed"),
            ("test/scale.test.js::scale::is for somebody", "passed"),
            ("test/scale.test.js::scale::knows litres", "skipped"),
            ("test/scale.test.js::scale::knows pinches", "skipped"),
            ("test/waits.test.js::begins", "passed"),
            ("test/waits.test.js::waits for ever", "not_finished"),
        ];
        let report = past_the_start(15, &want, |limit| {
            test(user, "/usr/bin:/bin", &folder, &["--timeout", limit], 124)
        });
        assert_eq!(report["framework"], "node");
        assert_eq!(results(&report), want.into(), "{report:#}");

        let report = test(user, "/usr/bin:/bin", &folder, &["--filter", want[2].0], 1);
        assert_eq!(results(&report), [want[2]].into(), "{report:#}");
        assert_eq!(report["cases"][0]["source"], "assert.equal(scale(98, 'g', 1, 1), 100);");
        test(user, "/usr/bin:/bin", &folder, &["--filter", want[1].0], 0);
    });
}

#[test]
fn pgtap_example_reports_bug_and_endless_test() {
    let found = std::fs::read_dir("/usr/share/postgresql").into_iter().flatten().flatten();
    if !found.map(|e| e.path()).any(|version| version.join("extension/pgtap.control").exists()) {
        println!("skipped: no pgTAP (on Debian: apt-get install postgresql postgresql-15-pgtap)");
        return;
    }
    everyone(|user| {
        let folder = user.example("loans");
        let want = [
            ("tests/lending.sql::a book is lent", "passed"),
            ("tests/lending.sql::again when it is back", "passed"),
            ("tests/lending.sql::not twice at once", "passed"),
            ("tests/lending.sql::test 5", "skipped"),
            ("tests/lending.sql::what came back does not count", "failed"),
            ("tests/returns.sql", "errored"),
            ("tests/returns.sql::Table loans should exist", "passed"),
            ("tests/waits.sql::begins", "passed"),
            ("tests/waits.sql::test 2", "not_finished"),
        ];
        let report = past_the_start(25, &want, |limit| {
            test(user, "/usr/bin:/bin", &folder, &["--timeout", limit], 124)
        });
        assert_eq!(report["framework"], "pgtap");
        assert_eq!(results(&report), want.into(), "{report:#}");

        let report = test(user, "/usr/bin:/bin", &folder, &["--filter", "tests/returns.sql"], 1);
        let error = &report["cases"].as_array().unwrap().iter().find(|c| c["status"] == "errored").unwrap();
        assert_eq!(error["message"], "relation \"returned\" does not exist");
    });
}
