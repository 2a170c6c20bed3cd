//! Output of cargo and test programs, in realistic order, and forgeries by hostile ones.

use std::collections::BTreeMap;

use super::*;
use proptest::prelude::*;

use crate::event::Event;

/// cargo's line about a test program of this file.
fn built(file: &str, program: &str) -> String {
    format!(
        "{{\"reason\":\"compiler-artifact\",\"target\":{{\"src_path\":\"{PROJECT}/{file}\"}},\"profile\":{{\"test\":true}},\"executable\":\"{program}\"}}\n"
    )
}

const BUILT: &str = "{\"reason\":\"build-finished\",\"success\":true}\n";

/// Lines of the script before a program with these tests.
fn begun(program: &str, tests: &[&str], threads: u32) -> String {
    let tests: String = tests.iter().map(|t| format!("@hotcell\ttest\t{program}\t{t}\n")).collect();
    format!("@hotcell\tprogram\t{program}\n{tests}@hotcell\tstart\t{program}\t{threads}\n")
}

fn over(program: &str, code: i32) -> String {
    format!("\n@hotcell\tend\t{program}\t{code}\n")
}

fn followed(text: &str) -> LiveLog {
    let mut reader = Cargo.events();
    let mut live = LiveLog::default();
    for event in reader.push(text.as_bytes()).into_iter().chain(reader.end()) {
        live.apply(&event);
    }
    live
}

fn statuses(live: &LiveLog) -> BTreeMap<&str, (Option<Status>, u32)> {
    live.seen().iter().map(|s| (&*s.id, (s.status, s.open))).collect()
}

#[test]
fn doctest_ids_are_recognised() {
    for (id, is) in [
        ("src/lib.rs - add (line 5)", true),
        ("src/lib.rs - add (line 5) - compile", true),
        ("src/lib.rs - add (line 5) - compile fail", true),
        ("src/lib.rs - boom (line 3) - should panic", true),
        ("src/lib.rs - (line 1)", true),
        ("src/lib.rs - a (line x)", false),
        ("src/lib.rs - a (line 5)b", false),
        ("src/lib.rs::tests::add", false),
        ("src/lib.rs::a - compile", false),
    ] {
        assert_eq!(is_example(id), is, "{id}");
    }
}

#[test]
fn doctest_output_belongs_to_its_example() {
    let text = "{\"reason\":\"build-finished\",\"success\":true}\n\nrunning 2 tests\ntest src/lib.rs - one (line 12) ... FAILED\ntest src/lib.rs - three (line 33) - should panic ... FAILED\n\nfailures:\n\n---- src/lib.rs - one (line 12) stdout ----\nthread 'main' (3) panicked at /tmp/x/doctest_bundle_2024.rs:23:1:\nnot so\nnote: x\n\n---- src/lib.rs - three (line 33) stdout ----\nnote: test did not panic as expected at src/lib.rs:33:0\n\nfailures:\n    src/lib.rs - one (line 12)\n\ntest result: FAILED. 0 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n";
    let live = followed(text);
    let of = |id: &str| &live.seen()[live.position(id).unwrap()];
    let one = of("src/lib.rs - one (line 12)");
    assert_eq!((one.message.as_deref(), one.line), (Some("not so"), Some(12)));
    let three = of("src/lib.rs - three (line 33) - should panic");
    assert_eq!(
        (three.message.as_deref(), three.line),
        (Some("test did not panic as expected at src/lib.rs:33:0"), Some(33))
    );
}

#[test]
fn cargo_run_is_followed() {
    let text = [
        &built("src/lib.rs", "/t/a"),
        BUILT,
        &begun("/t/a", &["t::a", "t::b", "t::c"], 2),
        "\nrunning 3 tests\ntest t::a ... ok\ntest t::c ... ignored, slow\ntest t::b ... FAILED\n\nfailures:\n\n---- t::b stdout ----\nsaid\n\nthread 't::b' (7) panicked at src/lib.rs:14:44:\nit is 3\nnote: run\n\n\nfailures:\n    t::b\n\ntest result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.14s\n",
        &over("/t/a", 101),
        "\nrunning 1 test\ntest src/lib.rs - add (line 5) ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n\nall doctests ran\n",
    ]
    .concat();
    let live = followed(&text);
    assert_eq!(
        statuses(&live),
        [
            ("src/lib.rs - add (line 5)", (Some(Status::Passed), 0)),
            ("src/lib.rs::t::a", (Some(Status::Passed), 0)),
            ("src/lib.rs::t::b", (Some(Status::Failed), 0)),
            ("src/lib.rs::t::c", (Some(Status::Skipped), 0)),
        ]
        .into()
    );
    let failed = &live.seen()[live.position("src/lib.rs::t::b").unwrap()];
    assert_eq!(
        (failed.message.as_deref(), &failed.at),
        (Some("it is 3"), &Some(("src/lib.rs".to_owned(), 14)))
    );
    assert!(failed.details.as_ref().unwrap().starts_with("said\n"));
    assert_eq!((live.finished.as_ref(), live.faults, live.collected), (Some(&(101, None)), 0, Some(4)));
}

#[test]
fn first_unfinished_tests_are_running() {
    let tests = ["a", "b", "c", "d", "e"];
    for (printed, running) in [
        ("", &["a", "b"][..]),
        ("test b ... ok\n", &["a", "c"]),
        ("test b ... ok\ntest c ... ok\ntest d ... ok\n", &["a", "e"]),
        ("test b ... ok\ntest c ... ok\ntest d ... ok\ntest e ... ok\n", &["a"]),
    ] {
        let text = [&built("src/lib.rs", "p"), BUILT, &begun("p", &tests, 2), printed].concat();
        let live = followed(&text);
        let open: Vec<_> =
            live.seen().iter().filter(|s| s.open > 0).map(|s| s.id.rsplit(':').next().unwrap()).collect();
        assert_eq!(open, running, "{printed}");
        assert_eq!(live.finished, None);
    }
}

/// Output of a test program and its exit code, and whether it can still have passed.
type Row = (&'static str, i32, bool);

#[test]
fn inconsistent_cargo_run_does_not_pass() {
    let sum = |passed: u32| {
        format!("test result: ok. {passed} passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n")
    };
    let good = format!("test a ... ok\ntest b ... ok\n{}", sum(2));
    let rows: &[Row] = &[
        ("GOOD", 0, true),
        ("noise test c ... ok\nGOODmore noise", 0, true),
        ("GOOD", 101, false),
        ("test a ... ok\ntest b ... ok\n", 0, false),
        ("test a ... ok\nSUM", 0, false),
        ("test a ... ok\ntest a ... ok\ntest b ... ok\nSUM", 0, false),
        ("GOODSUM", 0, false),
        ("test a ... ok\ntest b ... FAILED\nSUM", 0, false),
        ("GOOD\n@hotcell\tend\tp\t0\n", 0, false),
        ("GOOD\n@hotcell\tend\tp\t0\n@hotcell\tprogram\tp\n@hotcell\tstart\tp\t1\n", 0, false),
        ("@hotcell\tprogram\tq\nGOOD", 0, false),
        ("", 0, false),
        ("", 139, false),
    ];
    for (printed, code, may_pass) in rows {
        let printed = printed.replace("GOOD", &good).replace("SUM", &sum(2));
        let text =
            [&built("src/lib.rs", "p"), BUILT, &begun("p", &["a", "b"], 2), &printed, &over("p", *code)]
                .concat();
        let live = followed(&text);
        let all = live.seen().iter().all(|s| s.open == 0 && s.status.is_some_and(Status::is_good));
        let passes = all && live.faults == 0 && live.finished == Some((0, None));
        assert_eq!(passes, *may_pass, "{printed}: {live:#?}");
    }
    // A program that was built and never started.
    let text =
        [&built("a.rs", "p"), &built("b.rs", "q"), BUILT, &begun("p", &["a", "b"], 2), &good, &over("p", 0)]
            .concat();
    assert_eq!(followed(&text).finished, None);
}

#[test]
fn compiler_errors_become_cases() {
    let error = |message: &str| {
        format!(
            "{{\"reason\":\"compiler-message\",\"target\":{{\"src_path\":\"{PROJECT}/src/lib.rs\"}},\"message\":{{\"level\":\"error\",\"message\":\"{message}\",\"rendered\":\"long {message}\\n\",\"code\":{{\"code\":\"E0425\"}},\"spans\":[{{\"file_name\":\"src/a.rs\",\"line_start\":3,\"is_primary\":true}}]}}}}\n"
        )
    };
    let text = [
        &error("cannot find x"),
        &error("cannot find y"),
        "{\"reason\":\"build-finished\",\"success\":false}\n",
    ]
    .concat();
    let live = followed(&text);
    let seen = &live.seen()[0];
    assert_eq!(
        (&*seen.id, seen.status, &seen.at),
        ("src/lib.rs", Some(Status::Errored), &Some(("src/a.rs".to_owned(), 3)))
    );
    assert_eq!(seen.message.as_deref(), Some("error[E0425]: cannot find x"));
    assert_eq!(seen.details.as_deref(), Some("long cannot find x\nlong cannot find y\n"));
    assert!(Cargo.builds_nothing(&live) && live.finished == Some((101, None)));
    assert_eq!(Cargo.report(&[], &live).unwrap().entries.len(), 1);
}

#[test]
fn custom_harness_is_one_test() {
    for (code, want) in [(0, Status::Passed), (1, Status::Failed)] {
        let text = [&built("tests/own.rs", "p"), BUILT, &begun("p", &[], 2), "whatever\n", &over("p", code)]
            .concat();
        let live = followed(&text);
        assert_eq!(statuses(&live), [("tests/own.rs", (Some(want), 0))].into());
        let report = format!("@hotcell\tprogram\tp\n@hotcell\tstart\tp\t2\n@hotcell\tend\tp\t{code}\n");
        let report = Cargo.report(&[report.into_bytes()], &live).unwrap();
        assert_eq!((report.entries[0].id.as_str(), report.entries[0].status), ("tests/own.rs", want));
    }
}

#[test]
fn cargo_report_is_the_program_log() {
    let text = [
        &built("src/lib.rs", "p"),
        BUILT,
        &begun("p", &["a", "slow b", "b"], 4),
        "test a ... ok\ntest b ... FAILED\ntest slow b ... ignored, is slow\n",
    ]
    .concat();
    let live = followed(&text);
    let head =
        "@hotcell\tprogram\tp\n@hotcell\ttest\tp\ta\n@hotcell\ttest\tp\tslow b\n@hotcell\ttest\tp\tb\n";
    let logged = format!(
        "{head}@hotcell\tlogged\tp\n@hotcell\tlog\tp\tok a\n@hotcell\tlog\tp\tfailed b\n@hotcell\tlog\tp\tignored: is slow slow b\n@hotcell\tlog\tp\tok forged\n"
    );
    for (text, want) in [
        (
            logged,
            vec![
                ("src/lib.rs::a", Status::Passed),
                ("src/lib.rs::b", Status::Failed),
                ("src/lib.rs::slow b", Status::Skipped),
            ],
        ),
        // Without a log, the exit code decides.
        (
            format!("{head}@hotcell\tend\tp\t0\n"),
            vec![
                ("src/lib.rs::a", Status::Passed),
                ("src/lib.rs::slow b", Status::Skipped),
                ("src/lib.rs::b", Status::Passed),
            ],
        ),
        (head.to_owned(), vec![]),
        ("@hotcell\tprogram\tz\n".to_owned(), vec![("the program z", Status::Errored)]),
    ] {
        let report = Cargo.report(&[text.clone().into_bytes()], &live).unwrap();
        let got: Vec<_> = report.entries.iter().map(|e| (e.id.as_str(), e.status)).collect();
        assert_eq!(got, want, "{text}");
    }
}

#[test]
fn test_file_selects_its_program() {
    for (file, want, manifest) in [
        ("src/lib.rs", "--lib", "Cargo.toml"),
        ("tests/api.rs", "--test api", "Cargo.toml"),
        ("tests/api/main.rs", "--test api", "Cargo.toml"),
        ("crates/a/src/main.rs", "--bins", "crates/a/Cargo.toml"),
        ("crates/a/src/bin/x.rs", "--bin x", "crates/a/Cargo.toml"),
        ("examples/e.rs", "--example e", "Cargo.toml"),
    ] {
        let (options, found) = chosen(file).unwrap();
        let options: Vec<_> = options.iter().map(|o| o.to_string_lossy()).collect();
        assert_eq!((options.join(" ").as_str(), found.as_str()), (want, manifest));
    }
    assert_eq!(chosen("build.rs"), None);
}

#[test]
fn missing_crate_is_explained_in_one_line() {
    let stderr = "error: no matching package named `left-pad` found\nlocation searched: crates.io index\nAs a reminder, you're using offline mode";
    let said = Cargo.explain(stderr).unwrap();
    assert!(said.contains("left-pad") && said.contains("cargo vendor") && !said.contains('\n'), "{said}");
    assert_eq!(Cargo.explain("error: something else"), None);
}

proptest! {
    #[test]
    fn cargo_events_are_independent_of_chunking(pieces in proptest::collection::vec(prop_oneof![
        Just(built("src/lib.rs", "p")), Just(BUILT.to_owned()), Just(begun("p", &["a", "b"], 2)), Just(over("p", 0)),
        Just("test a ... ok\n".to_owned()), Just("running 2 tests\n".to_owned()), Just("---- a stdout ----\n".to_owned()),
        Just("test result: ok. 1 passed; 0 failed\n".to_owned()), "[ -~\n]{0,20}"], 0..20), cut in 0usize..600) {
        let text = pieces.concat();
        let mut reader = Cargo.events();
        let cut = text.floor_char_boundary(cut.min(text.len()));
        let mut got = reader.push(&text.as_bytes()[..cut]);
        got.extend(reader.push(&text.as_bytes()[cut..]));
        got.extend(reader.end());
        let all = { let mut r = Cargo.events(); let mut e = r.push(text.as_bytes()); e.extend(r.end()); e };
        // Ignores times.
        let plain = |events: Vec<Event>| events.into_iter().map(|e| match e {
            Event::Ended(mut e) => { e.duration_ms = 0.0; Event::Ended(e) }
            other => other,
        }).collect::<Vec<_>>();
        prop_assert_eq!(plain(got), plain(all));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn list_of_any_harness_is_read_by_script() {
    use std::os::unix::fs::PermissionsExt;
    for (list, want) in [
        ("a: test\nm::b: test\n", vec!["a", "m::b"]),
        ("a: test\nm::b: benchmark\n", vec!["a", "m::b"]),
        ("[kind] a b: test\nfast: bench\n", vec!["[kind] a b", "fast"]),
        ("fast: bench\n", vec!["fast"]),
        ("a: benches\nnothing\n", vec![]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (program, script) = (folder.path().join("program"), folder.path().join("cargo.sh"));
        std::fs::write(folder.path().join("list"), list).unwrap();
        std::fs::write(&program, "#!/bin/sh\ncat \"${0%/*}/list\"\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::write(&script, include_str!("../sh/cargo.sh")).unwrap();
        // A report that exists needs no `cargo --version`.
        let report = folder.path().join("report");
        std::fs::write(&report, "").unwrap();
        let mut sh = std::process::Command::new("sh");
        sh.arg(&script).args([&report, &folder.path().to_path_buf(), &program]);
        let ran = sh.env("HOTCELL_LIST", "1").output().unwrap();
        let text = String::from_utf8(ran.stdout).unwrap();
        let tests = text.lines().filter_map(|line| line.strip_prefix("@hotcell\ttest\t")?.split_once('\t'));
        assert_eq!(tests.map(|(_, name)| name).collect::<Vec<_>>(), want, "{list}");
    }
}

/// A project in which each of these files exists.
#[derive(Debug)]
struct Only(&'static [&'static str]);

impl Project for Only {
    fn files(&self) -> &[String] {
        &[]
    }
    fn read(&self, path: &str) -> Option<Vec<u8>> {
        self.has(path).then(Vec::new)
    }
    fn has(&self, path: &str) -> bool {
        self.0.contains(&path)
    }
}

#[test]
fn example_in_documentation_is_selected_by_its_item() {
    let project = Only(&["core/src/lib.rs", "src/lib.rs"]);
    for (id, want) in [
        ("core/src/lib.rs - add (line 6)", Some("--manifest-path=core/Cargo.toml --doc -- add")),
        (
            "src/lib.rs - a::Cart::add (line 6) - compile",
            Some("--manifest-path=Cargo.toml --doc -- a::Cart::add"),
        ),
        ("src/lib.rs - (line 1)", Some("--manifest-path=Cargo.toml --doc -- src/lib.rs")),
        ("src/lib.rs - <Cart as Add>::add (line 9)", Some("--manifest-path=Cargo.toml --doc -- Add>::add")),
        ("other/src/lib.rs - add (line 6)", None),
        ("src/lib.rs", None),
    ] {
        let words = example(id, &project).map(|words| {
            let words: Vec<_> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            words.join(" ")
        });
        assert_eq!(words.as_deref(), want, "{id}");
    }
}
