//! `hotcell test` on projects that are compiled first: Rust and Go, with the toolchains of this machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hotcell_end_to_end::{User, everyone, rust};
use serde_json::Value;

/// A project of `examples/`, as this user's own.
fn example(user: &User, name: &str) -> PathBuf {
    fn copy(user: &User, from: &Path, to: &str) {
        user.make_folder(to);
        for entry in std::fs::read_dir(from).expect("a folder").flatten() {
            let inner = format!("{to}/{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                copy(user, &entry.path(), &inner);
            } else {
                user.write(&inner, std::fs::read(entry.path()).expect("a file"));
            }
        }
    }
    copy(user, &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name), name);
    user.path(name)
}

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
fn a_crate_with_a_bug_and_a_test_that_never_ends() {
    let Some(rust) = rust() else { return };
    let path = format!("{}/bin:/usr/bin:/bin", rust.display());
    everyone(|user| {
        let folder = example(user, "tally");
        let report = test(user, &path, &folder, &["--timeout", "25s"], 124);
        assert_eq!(report["framework"], "cargo");
        let want = [
            ("src/lib.rs::tests::a_long_text", "skipped"),
            ("src/lib.rs::tests::case_does_not_matter", "failed"),
            ("src/lib.rs::tests::nothing_has_no_most", "passed"),
            ("src/lib.rs::tests::words_are_counted", "passed"),
            ("tests/texts.rs::a_sentence", "passed"),
            ("tests/texts.rs::an_empty_text_has_a_most", "failed"),
            ("tests/waits.rs::first", "passed"),
            ("tests/waits.rs::for_ever", "not_finished"),
        ];
        assert_eq!(results(&report), want.into(), "{report:#}");
        assert!(!folder.join("target").exists(), "the project is as it was");

        let report = test(user, &path, &folder, &["--filter", want[1].0], 1);
        assert_eq!(results(&report), [want[1]].into(), "{report:#}");
        assert_eq!(report["cases"][0]["source"], "assert_eq!(words(\"The the\")[\"the\"], 2);");
        // Its examples too, and nothing that fails.
        let report = test(user, &path, &folder, &["--filter", "words"], 0);
        let want =
            [("src/lib.rs - words (line 7)", "passed"), ("src/lib.rs::tests::words_are_counted", "passed")];
        assert_eq!(results(&report), want.into(), "{report:#}");
    });
}

#[test]
fn a_module_with_a_bug_and_a_test_that_never_ends() {
    let there = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .chain(["/usr/bin".into()])
        .find(|folder| folder.join("go").is_file());
    let Some(bin) = there else {
        println!("skipped: no go (on Debian: apt-get install golang-go)");
        return;
    };
    let path = format!("{}:/usr/bin:/bin", bin.display());
    everyone(|user| {
        let folder = example(user, "ledger");
        let report = test(user, &path, &folder, &["--timeout", "25s"], 124);
        assert_eq!(report["framework"], "go");
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
