//! Output of `go test -json`, old and new, and forgeries by hostile tests.

use std::collections::BTreeMap;

use super::*;
use proptest::prelude::*;

mod endings;

const PACKAGE: &str = "example.com/tally/sub";

fn line(action: &str, rest: &str) -> String {
    format!("{{\"Action\":\"{action}\",\"Package\":\"{PACKAGE}\"{rest}}}\n")
}

fn of(action: &str, test: &str) -> String {
    line(action, &format!(",\"Test\":\"{test}\",\"Elapsed\":0.25"))
}

fn said(test: &str, text: &str) -> String {
    let text = serde_json::to_string(text).unwrap();
    let test = if test.is_empty() { String::new() } else { format!(",\"Test\":\"{test}\"") };
    line("output", &format!("{test},\"Output\":{text}"))
}

/// Lines of the script before a program with these tests.
fn begun(tests: &[&str]) -> String {
    let tests: String = tests.iter().map(|t| said("", &format!("@hotcell\ttest\tx1\t{t}\n"))).collect();
    let start = said("", &format!("@hotcell\tstart\tx1\t{PROJECT}/sub\n"));
    [said("", "@hotcell\tprogram\tx1\n"), tests, start].concat()
}

fn followed(out: &str, err: &str) -> LiveLog {
    let mut reader = Go.events();
    let mut live = LiveLog::default();
    let mut events = reader.push_stderr(err.as_bytes());
    events.extend(reader.push(out.as_bytes()));
    events.extend(reader.end());
    for event in events {
        live.apply(&event);
    }
    live
}

fn statuses(live: &LiveLog) -> BTreeMap<&str, Option<Status>> {
    live.seen().iter().map(|s| (&*s.id, s.status.filter(|_| s.open == 0))).collect()
}

#[test]
fn go_run_is_followed() {
    let text = [
        begun(&["TestA", "TestB", "TestC"]),
        of("run", "TestA"),
        of("pass", "TestA"),
        of("run", "TestB"),
        of("run", "TestB/x_y"),
        said("TestB/x_y", "=== RUN   TestB/x_y\n"),
        said("TestB/x_y", "hello\n"),
        said("TestB/x_y", "    sub_test.go:12: got 3\n"),
        said("TestB/x_y", "        and more\n"),
        of("fail", "TestB/x_y"),
        of("fail", "TestB"),
        of("run", "TestC"),
        of("skip", "TestC"),
        line("fail", ",\"Elapsed\":0.3"),
    ]
    .concat();
    let live = followed(&text, "");
    let want = [
        ("::TestA", Status::Passed),
        ("::TestB", Status::Failed),
        ("::TestB/x_y", Status::Failed),
        ("::TestC", Status::Skipped),
    ];
    let want: Vec<_> = want.iter().map(|(id, status)| (format!("{PACKAGE}{id}"), Some(*status))).collect();
    assert_eq!(statuses(&live), want.iter().map(|(id, status)| (id.as_str(), *status)).collect());
    let failed = &live.seen()[live.position(&format!("{PACKAGE}::TestB/x_y")).unwrap()];
    assert_eq!(
        (failed.message.as_deref(), &failed.at),
        (Some("got 3\nand more"), &Some(("sub/sub_test.go".to_owned(), 12)))
    );
    assert_eq!(
        (failed.duration_ms, failed.details.as_deref()),
        (250.0, Some("hello\n    sub_test.go:12: got 3\n        and more"))
    );
    assert_eq!((live.finished.as_ref(), live.faults, live.collected), (Some(&(1, None)), 0, Some(4)));

    let report = |end: &str| {
        let head = "@hotcell\tprogram\tx1\n@hotcell\ttest\tx1\tTestA\n@hotcell\ttest\tx1\tTestB\n@hotcell\ttest\tx1\tTestC\n@hotcell\ttest\tx1\tTestD\n";
        let entries = Go.report(&[format!("{head}{end}").into_bytes()], &live).unwrap().entries;
        entries.iter().map(|e| (e.id[PACKAGE.len()..].to_owned(), e.status)).collect::<Vec<_>>()
    };
    let want =
        |status: &[(&str, Status)]| status.iter().map(|(id, s)| ((*id).to_owned(), *s)).collect::<Vec<_>>();
    use Status::{Failed, Passed, Skipped};
    assert_eq!(
        report("@hotcell\tend\tx1\t1 whole\n"),
        want(&[("::TestA", Passed), ("::TestB", Failed), ("::TestB/x_y", Failed), ("::TestC", Skipped)])
    );
    // An exit code of success contradicts the live events; tests that were not observed are listed.
    assert_eq!(
        report("@hotcell\tend\tx1\t0 whole\n"),
        want(&[
            ("::TestA", Passed),
            ("::TestB", Passed),
            ("::TestB/x_y", Passed),
            ("::TestC", Skipped),
            ("::TestD", Passed)
        ])
    );
    // The program reports success, but did not end normally.
    assert_eq!(report("@hotcell\tend\tx1\t0 cut\n"), want(&[("::TestD", Passed)]));
    assert_eq!(report(""), want(&[]));
}

/// Since Go 1.24 builds are reported in JSON, under the name of the package that does not build.
#[test]
fn newer_go_reports_build_errors() {
    let far = "{\"ImportPath\":\"example.org/far\",\"Action\":\"build-output\",\"Output\":\"# example.com/tally/sub\\n\"}\n\
               {\"ImportPath\":\"example.org/far\",\"Action\":\"build-output\",\"Output\":\"sub/a_test.go:5:1: cannot find module providing package example.org/far: module lookup disabled by GOPROXY=off\\n\"}\n\
               {\"ImportPath\":\"example.org/far\",\"Action\":\"build-fail\"}\n";
    let failed = said("", &format!("FAIL\t{PACKAGE} [setup failed]\n"));
    let end = line("fail", ",\"Elapsed\":0,\"FailedBuild\":\"example.org/far\"");
    let text = [far, &line("start", ""), &failed, &end].concat();
    let live = followed(&text, "go: finding module for package example.org/far\n");
    let case = &live.seen()[live.position(PACKAGE).unwrap()];
    let message = case.message.as_deref().unwrap();
    assert!(
        message.contains("a dependency is not there") && message.contains("example.org/far"),
        "{message}"
    );
    assert_eq!(case.at, Some(("sub/a_test.go".to_owned(), 5)));
}

#[test]
fn inconsistent_go_run_does_not_pass() {
    let good = [begun(&["TestA"]), of("run", "TestA"), of("pass", "TestA")].concat();
    let end = line("pass", "");
    for (text, may_pass) in [
        (format!("{good}{end}"), true),
        (format!("plain text\n{good}{end}not json\n"), true),
        (format!("{good}{}", line("fail", "")), false),
        (good.clone(), false),
        (format!("{good}{end}{end}"), false),
        (format!("{good}{}{end}", of("pass", "TestA")), false),
        (format!("{good}{}{end}", of("run", "TestA")), false),
        (format!("{good}{}{end}", of("run", "TestB")), false),
        // The script's lines, forged by a test.
        (format!("{good}{}{end}", said("", "@hotcell\ttest\tx1\tTestB\n")), false),
        (format!("{good}{}{end}", said("", "@hotcell\tprogram\tx2\n")), false),
        (String::new(), false),
    ] {
        let live = followed(&text, "");
        let all = live.seen().iter().all(|s| s.open == 0 && s.status.is_some_and(Status::is_good));
        assert_eq!(
            all && live.faults == 0 && live.finished == Some((0, None)),
            may_pass,
            "{text}: {live:#?}"
        );
    }
}

#[test]
fn go_compiler_errors_have_position() {
    let err =
        format!("# {PACKAGE} [{PACKAGE}.test]\nsub/x_test.go:3:28: undefined: y\nsub/x_test.go:4:1: more\n");
    let old = followed(&format!("FAIL\t{PACKAGE} [build failed]\n"), &err);
    let new: String = err
        .lines()
        .map(|l| format!("{{\"ImportPath\":\"{PACKAGE} [{PACKAGE}.test]\",\"Action\":\"build-output\",\"Output\":\"{l}\\n\"}}\n"))
        .chain([line("start", ""), said("", &format!("FAIL\t{PACKAGE} [build failed]\n")), line("fail", ",\"FailedBuild\":\"x\"")])
        .collect();
    for (live, code) in [(old, 2), (followed(&new, ""), 1)] {
        let seen = &live.seen()[0];
        assert_eq!((&*seen.id, seen.status), (PACKAGE, Some(Status::Errored)));
        assert_eq!(
            (seen.message.as_deref(), &seen.at),
            (Some("undefined: y"), &Some(("sub/x_test.go".to_owned(), 3)))
        );
        assert!(seen.details.as_ref().unwrap().contains("more"));
        assert!(Go.builds_nothing(&live) && live.finished == Some((code, None)), "{live:#?}");
        assert_eq!(Go.report(&[], &live).unwrap().entries.len(), 1);
    }
    let err = format!(
        "# {PACKAGE}\nx.go:3:8: no required module provides package example.org/far; to add it:\n\tgo get\n"
    );
    let live = followed(&format!("FAIL\t{PACKAGE} [setup failed]\n"), &err);
    let message = live.seen()[0].message.as_deref().unwrap();
    assert!(
        message.starts_with("a dependency is not there") && message.contains("example.org/far"),
        "{message}"
    );
}

/// A module without a file of tests starts no program, and so has no report.
#[test]
fn go_module_without_tests_has_none() {
    let skipped =
        [line("start", ""), said("", &format!("?   \t{PACKAGE}\t[no test files]\n")), line("skip", "")];
    let live = followed(&skipped.concat(), "");
    assert!(Go.builds_nothing(&live) && live.finished == Some((0, None)), "{live:#?}");
    // One that started a program has to have a report.
    let live = followed(&[begun(&[]), line("pass", "")].concat(), "");
    assert!(!Go.builds_nothing(&live), "{live:#?}");
}

#[test]
fn go_panic_has_position() {
    for panic in ["panic: oh no [recovered]\n", "panic: oh no [recovered, repanicked]\n", "panic: oh no\n"] {
        let text = [
            begun(&["TestA"]),
            of("run", "TestA"),
            said("TestA", panic),
            said("TestA", "\t/usr/lib/go/src/testing/testing.go:1399 +0x39f\n"),
            said("TestA", &format!("\t{PROJECT}/sub/deep/x_test.go:11 +0x47\n")),
            of("fail", "TestA"),
            line("fail", ""),
        ];
        let live = followed(&text.concat(), "");
        let seen = &live.seen()[0];
        assert_eq!(
            (seen.message.as_deref(), &seen.at),
            (Some("panic: oh no"), &Some(("sub/deep/x_test.go".to_owned(), 11)))
        );
    }
}

#[test]
fn go_workspace_names_its_modules() {
    for (text, want) in [
        (
            "go 1.20\n\nuse (\n\t./a // first\n\t./b/c/\n\t\"./d\"\n)\nuse ./e\n",
            &["./a/...", "./b/c/...", "./d/...", "./e/..."][..],
        ),
        ("use .\n", &["./..."]),
        ("use ../x\nuse /etc\nuse (\n-flag\n)\n", &["./..."]),
        ("", &["./..."]),
    ] {
        assert_eq!(modules(text), want, "{text}");
    }
}

#[test]
fn go_test_id_becomes_pattern() {
    for (test, want) in
        [("TestA", "^TestA$"), ("TestA/b.c_(1)", "^TestA$/^b\\.c_\\(1\\)$"), ("TestÄ", "^TestÄ$")]
    {
        assert_eq!(pattern(test), want);
    }
}

proptest! {
    #[test]
    fn arbitrary_go_output_causes_no_panic(pieces in proptest::collection::vec(prop_oneof![
        Just(begun(&["TestA"])), Just(of("run", "TestA")), Just(of("fail", "TestA")), Just(line("pass", "")), Just(line("fail", "")),
        Just(said("TestA", "a.go:1: b\n")), Just(said("", "@hotcell\tend\tx1\t0\n")), "[ -~\n]{0,20}"], 0..20), err in "(# |a|.go:|1|:| |\n){0,30}") {
        let live = followed(&pieces.concat(), &err);
        let _ = Go.report(&[pieces.concat().into_bytes()], &live);
    }
}

#[test]
fn go_end_after_unterminated_text_counts() {
    let package_end = |action: &str| line(action, ",\"Elapsed\":0.5");
    let text = [
        begun(&["TestA", "TestB", "TestC", "TestD", "TestE"]),
        of("run", "TestA"),
        said("TestA", "text--- PASS: TestA (0.01s)\n"),
        of("run", "TestB"),
        said("TestB", "why--- FAIL: TestB (0.00s)\n"),
        of("run", "TestC"),
        // A test that prints such a line and has a result of its own.
        said("TestC", "x--- PASS: TestC (0.00s)\n"),
        of("fail", "TestC"),
        of("run", "TestD"),
        // A subtest whose start and end both follow other text, below a parent whose end does.
        of("run", "TestE"),
        of("run", "TestE/one"),
        said("TestE/one", "a=== RUN   TestE/two\n"),
        said("TestE/one", "b--- PASS: TestE (0.00s)\n"),
        said("TestE/one", "    --- PASS: TestE/one (0.00s)\n"),
        said("TestE/one", "    --- PASS: TestE/two (0.00s)\n"),
        // No test of that name started.
        said("TestE/one", "--- PASS: TestF (0.00s)\n"),
        package_end("fail"),
    ]
    .concat();
    let live = followed(&text, "");
    let id = |test: &str| format!("{PACKAGE}::{test}");
    let statuses = statuses(&live);
    for (test, want) in [
        ("TestA", Some(Status::Passed)),
        ("TestB", Some(Status::Failed)),
        ("TestC", Some(Status::Failed)),
        // It ran when the program ended.
        ("TestD", Some(Status::Failed)),
        ("TestE", Some(Status::Passed)),
        ("TestE/one", Some(Status::Passed)),
        ("TestE/two", Some(Status::Passed)),
    ] {
        assert_eq!(statuses[id(test).as_str()], want, "{test}");
    }
    assert!(!statuses.contains_key(id("TestF").as_str()));
}

#[test]
fn failing_go_example_shows_output() {
    let text = [
        begun(&["ExampleHello"]),
        of("run", "ExampleHello"),
        said("ExampleHello", "--- FAIL: ExampleHello (0.00s)\n"),
        said("ExampleHello", "got:\n"),
        said("ExampleHello", "hello\n"),
        said("ExampleHello", "want:\n"),
        said("ExampleHello", "bye\n"),
        of("fail", "ExampleHello"),
        line("fail", ",\"Elapsed\":0.5"),
    ]
    .concat();
    let live = followed(&text, "");
    let seen = live.seen().iter().find(|seen| seen.id.ends_with("ExampleHello")).unwrap();
    assert_eq!(seen.message.as_deref(), Some("got:\nhello\nwant:\nbye"));
}

#[test]
fn first_go_test_behind_unterminated_text_of_testmain_counts() {
    let run = |before: &str, result: &str| {
        let text = [
            begun(&["TestA", "TestB"]),
            said("", &format!("{before}=== RUN   TestA\n")),
            said("", &format!("text--- {result}: TestA (0.01s)\n")),
            of("run", "TestB"),
            of("pass", "TestB"),
            line(if result == "FAIL" { "fail" } else { "pass" }, ""),
        ];
        followed(&text.concat(), "")
    };
    for (before, result, want) in [
        ("setup...", "PASS", Some(Some(Status::Passed))),
        ("setup...", "FAIL", Some(Some(Status::Failed))),
        ("=== RUN   ", "SKIP", Some(Some(Status::Skipped))),
        // `go` itself has an event for a start at the beginning of a line: the good program has left out the test.
        ("", "PASS", Some(Some(Status::Skipped))),
    ] {
        let live = run(before, result);
        let id = format!("{PACKAGE}::TestA");
        assert_eq!(statuses(&live).get(id.as_str()).copied(), want, "{before:?} {result}");
        assert_eq!((live.faults, live.collected), (0, Some(2)), "{before:?} {result}");
    }
    // A test that is not listed does not start, and no test starts twice.
    for said_twice in ["x=== RUN   TestC\n", "x=== RUN   TestB\n"] {
        let text = [
            begun(&["TestB"]),
            of("run", "TestB"),
            of("pass", "TestB"),
            said("", said_twice),
            line("pass", ""),
        ];
        assert_eq!(followed(&text.concat(), "").started(), 1, "{said_twice}");
    }
}

/// Runs the script with a stand-in for a test program, and returns the names that it lists.
#[cfg(target_os = "linux")]
fn listed_by_script(before: &str, names: &str, after: &str) -> Vec<String> {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (program, script) = (folder.path().join("program"), folder.path().join("go.sh"));
    for (file, text) in [("before", before), ("names", names), ("after", after)] {
        std::fs::write(folder.path().join(file), text).unwrap();
    }
    let body =
        "#!/bin/sh\ncd \"${0%/*}\"\ncat before\n[ \"$1\" = '-test.list=^$' ] || cat names\ncat after\n";
    std::fs::write(&program, body).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(&script, include_str!("../sh/go.sh")).unwrap();
    let report = folder.path().join("reports/go.txt");
    std::fs::create_dir(folder.path().join("reports")).unwrap();
    // A report that exists needs no `go env`.
    std::fs::write(&report, "").unwrap();
    let ran = std::process::Command::new("sh")
        .arg(&script)
        .args([&report, &program])
        .env("HOTCELL_LIST", "1")
        .output()
        .unwrap();
    let text = String::from_utf8(ran.stdout).unwrap();
    let names = text.lines().filter_map(|line| line.strip_prefix("@hotcell\ttest\t")?.split_once('\t'));
    names.map(|(_, name)| name.to_owned()).collect()
}

#[cfg(target_os = "linux")]
#[test]
fn go_list_is_separated_from_text_of_testmain() {
    let names = "TestPrints\nTest_\u{e4}\nFuzzX\nBenchmarkB\nExampleX\n";
    let want = ["TestPrints", "Test_\u{e4}", "FuzzX", "ExampleX"];
    for (before, after) in [
        ("", ""),
        ("setup...", ""),
        ("setup...", "teardown"),
        ("setup...\n", "teardown\n"),
        ("Test setup\nTesting ", "TestDone in no time\n"),
        ("Testing: ", "Test"),
        ("a", "a"),
        ("", "Tests took 3 s\nok.\n"),
    ] {
        assert_eq!(listed_by_script(before, names, after), want, "{before:?} {after:?}");
        assert_eq!(listed_by_script(before, "", after), [""; 0], "no test: {before:?} {after:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn go_programs_do_not_learn_how_they_are_started() {
    use std::os::unix::fs::PermissionsExt;
    for (name, value) in [("HOTCELL_EACH", "1"), ("HOTCELL_LIST", "1"), ("HOTCELL_EACH", "")] {
        let folder = tempfile::tempdir().unwrap();
        let (program, script) = (folder.path().join("program"), folder.path().join("go.sh"));
        let body = "#!/bin/sh\nset >>\"$0.set\"\n[ \"${1%=*}\" != -test.list ] || echo TestA\n";
        std::fs::write(&program, body).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::write(&script, include_str!("../sh/go.sh")).unwrap();
        let report = folder.path().join("go.txt");
        std::fs::write(&report, "").unwrap();
        std::process::Command::new("sh")
            .arg(&script)
            .args([&report, &program])
            .env(name, value)
            .output()
            .unwrap();
        let seen = std::fs::read_to_string(folder.path().join("program.set")).unwrap();
        let told = ["HOTCELL_EACH", "HOTCELL_LIST"].into_iter().find(|name| seen.contains(name));
        assert_eq!(told, None, "{name}={value}: {seen}");
    }
}

/// The end of a program that lists no test is known by a run of it, where no part of the suite would run it.
#[cfg(target_os = "linux")]
#[test]
fn go_program_without_tests_must_come_to_its_end() {
    use std::os::unix::fs::PermissionsExt;
    // Each program runs this after the list of its tests.
    let ends = "for word; do case $word in -test.memprofile=*) echo x >\"${word#*=}\" ;; esac; done";
    for (mode, names, end, arguments, want) in [
        ("HOTCELL_LIST", "", "exit 0", &[][..], 1),
        ("HOTCELL_LIST", "", ends, &[], 0),
        ("HOTCELL_LIST", "", "exit 3", &[], 3),
        ("HOTCELL_LIST", "BenchmarkB", "exit 0", &[], 1),
        ("HOTCELL_LIST", "", "exit 0", &["-test.run=."], 1),
        // It belongs to a part, or the filter leaves it out.
        ("HOTCELL_LIST", "TestA", "exit 3", &[], 0),
        ("HOTCELL_LIST", "", "exit 0", &["-test.run=TestGood"], 0),
        ("HOTCELL_EACH", "", "exit 0", &[], 1),
        ("HOTCELL_EACH", "", ends, &[], 0),
        ("HOTCELL_EACH", "TestA", "exit 0", &[], 1),
        ("HOTCELL_EACH", "TestA", ends, &[], 0),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (program, script) = (folder.path().join("program"), folder.path().join("go.sh"));
        let body = format!("#!/bin/sh\ncase $1 in -test.list=*) echo {names}; exit ;; esac\n{end}\n");
        std::fs::write(&program, body).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::write(&script, include_str!("../sh/go.sh")).unwrap();
        let report = folder.path().join("go.txt");
        std::fs::write(&report, "").unwrap();
        let ran = std::process::Command::new("sh")
            .arg(&script)
            .args([&report, &program])
            .args(arguments)
            .env(mode, "1")
            .output()
            .unwrap();
        assert_eq!(ran.status.code(), Some(want), "{mode} {names:?} {end} {arguments:?}");
    }
}
