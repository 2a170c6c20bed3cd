//! `go test` with a real toolchain, on valid, broken and hostile modules.

use super::*;

const MODULE: &str = "module example.com/tally\n\ngo 1.19\n";

/// The folder above `bin/go`.
fn with_go() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&path).chain(["/usr/bin".into()]).find(|folder| folder.join("go").is_file());
    let found = found.and_then(|bin| bin.parent().map(Path::to_path_buf));
    if found.is_none() {
        println!("skipped: no go (on Debian: apt-get install golang-go)");
    }
    found
}

fn limits() -> Limits {
    Limits {
        memory: Bytes::mib(1536),
        wall: Duration::from_secs(240),
        processes: 256,
        disk: Bytes::mib(512),
        ..super::limits()
    }
}

async fn go(go: &Path, files: &[(&str, &str)], selection: Selection, limits: Limits) -> Ran {
    let files = [&[("go.mod", MODULE)], files].concat();
    run_with("go", go, &files, selection, limits).await
}

async fn plain(prefix: &Path, files: &[(&str, &str)]) -> Ran {
    go(prefix, files, Selection::default(), limits()).await
}

/// A test file with these imports and functions.
fn tests(imports: &[&str], functions: &str) -> String {
    let imports: String = imports.iter().map(|i| format!("\t\"{i}\"\n")).collect();
    format!("package tally\n\nimport (\n{imports}\t\"testing\"\n)\n\n{functions}\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn go_tests_that_testmain_runs_twice() {
    let Some(prefix) = with_go() else { return };
    let text = |test: &str| {
        format!(
            "var runs int\nfunc TestMain(m *testing.M) {{\n\tif code := m.Run(); code != 0 {{\n\t\tos.Exit(code)\n\t}}\n\truns++\n\tos.Exit(m.Run())\n}}\nfunc TestA(t *testing.T) {{ t.Run(\"s\", func(t *testing.T) {{ {test} }}) }}"
        )
    };
    for (test, verdict, counts) in [
        ("", Verdict::Passed, [2, 0, 0, 0, 0]),
        ("if runs > 0 { t.Fatal() }", Verdict::Failed, [0, 2, 0, 0, 0]),
    ] {
        let ran = plain(&prefix, &[("a_test.go", &tests(&["os"], &text(test)))]).await;
        ran.assert(verdict, true, true);
        assert_eq!(ran.counts(), counts, "{test}: {}", ran.told());
    }
}

/// Tests that `TestMain` leaves out by a flag are skipped, and told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn go_tests_that_testmain_leaves_out_by_a_flag() {
    let Some(prefix) = with_go() else { return };
    let main = |sets: &str| {
        format!(
            "func TestMain(m *testing.M) {{\n\tflag.Parse()\n\tflag.Set(\"test.run\", \"{sets}\")\n\tos.Exit(m.Run())\n}}\nfunc TestGood(t *testing.T) {{}}\nfunc TestBad(t *testing.T) {{ t.Fatal(\"bad\") }}"
        )
    };
    for (sets, verdict, counts) in [
        ("TestGood", Verdict::Passed, [1, 0, 0, 1, 0]),
        ("TestNone", Verdict::Unusable, [0, 0, 0, 2, 0]),
        ("Test", Verdict::Failed, [1, 1, 0, 0, 0]),
    ] {
        let ran = plain(&prefix, &[("a_test.go", &tests(&["flag", "os"], &main(sets)))]).await;
        ran.assert(verdict, true, true);
        assert_eq!(ran.counts(), counts, "{sets}: {}", ran.told());
        if sets == "TestGood" {
            let want = "1 test was left out by the test program itself: example.com/tally::TestBad";
            assert_eq!(ran.report.reason.as_deref(), Some(want), "{}", ran.told());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn go_reports_each_test() {
    let Some(prefix) = with_go() else { return };
    let tally = "package tally\n\nfunc Add(a, b int) int { return a + b }\n";
    let text = tests(
        &["fmt"],
        "func TestAdds(t *testing.T) { t.Log(Add(1, 2)) }\nfunc TestFails(t *testing.T) {\n\tfmt.Println(\"said\")\n\t\
         t.Run(\"a b\", func(t *testing.T) {\n\t\tt.Errorf(\"got %d\", Add(1, 2))\n\t})\n\tt.Run(\"fine\", func(t *testing.T) { t.Parallel() })\n}\n\
         func TestSkips(t *testing.T) { t.Skip(\"slow\") }\nfunc ExampleAdd() {\n\tfmt.Println(Add(1, 2))\n\t// Output: 3\n}\n",
    );
    let panics =
        "package deep\n\nimport \"testing\"\n\nfunc TestPanics(t *testing.T) {\n\tpanic(\"oh no\")\n}\n";
    let broken = "package broken\n\nimport \"testing\"\n\nfunc TestX(t *testing.T) { undefined() }\n";
    let files = [
        ("tally.go", tally),
        ("tally_test.go", text.as_str()),
        ("deep/d_test.go", panics),
        ("broken/b_test.go", broken),
        ("none/n.go", "package none\n"),
    ];
    let ran = plain(&prefix, &files).await;
    ran.assert(Verdict::Failed, true, true);
    assert_eq!(ran.counts(), [3, 3, 1, 1, 0], "{}", ran.told());
    let failed = ran.case("tally::TestFails/a_b");
    assert_eq!(
        (failed.file.as_deref(), failed.line, failed.message.as_deref()),
        (Some("tally_test.go"), Some(12), Some("got 3"))
    );
    assert_eq!(failed.source.as_deref(), Some("t.Errorf(\"got %d\", Add(1, 2))"));
    assert_eq!(ran.case("TestSkips").message.as_deref(), Some("slow"));
    let panicked = ran.case("deep::TestPanics");
    assert_eq!(
        (panicked.message.as_deref(), panicked.line),
        (Some("panic: oh no"), Some(6)),
        "{}",
        ran.told()
    );
    let built = ran.case("tally/broken");
    assert_eq!((built.file.as_deref(), built.line), (Some("broken/b_test.go"), Some(5)), "{}", ran.told());
    assert!(ran.report.framework_version.as_ref().unwrap().starts_with("1."), "{}", ran.told());

    for (filter, want) in [
        (
            "example.com/tally::TestFails/a_b",
            &["example.com/tally::TestFails", "example.com/tally::TestFails/a_b"][..],
        ),
        ("deep", &["example.com/tally/deep::TestPanics"]),
    ] {
        let ran = go(&prefix, &files, filtered(filter), limits()).await;
        let ids: Vec<_> = ran.report.cases.iter().map(|c| c.id.as_str()).collect();
        assert_eq!(ids, want, "{}", ran.told());
        ran.assert(Verdict::Failed, true, true);
    }
    let good =
        &[files[0], ("a_test.go", "package tally\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {}\n")];
    plain(&prefix, good).await.assert(Verdict::Passed, true, true);
}

/// Functions and files whose names are almost those of tests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn go_tests_with_other_names_are_noted() {
    let Some(prefix) = with_go() else { return };
    let good = tests(&[], "func TestAdds(t *testing.T) {}\nfunc Testfails(t *testing.T) { t.Fail() }");
    let other = tests(&[], "func TestOther(t *testing.T) { t.Fail() }");
    let ran = plain(&prefix, &[("a_test.go", &good), ("b.test.go", &other)]).await;
    ran.assert(Verdict::Passed, true, true);
    let want = "no test ran of files that seem to hold some: a_test.go/Testfails, b.test.go/TestOther";
    assert_eq!(ran.report.reason.as_deref(), Some(want), "{}", ran.told());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn go_module_without_tests_says_so() {
    let Some(prefix) = with_go() else { return };
    let empty = "package sub\n\nimport \"testing\"\n\nfunc helper(t *testing.T) { t.Helper() }\n";
    for (files, reason) in [
        (&[("tally.go", "package tally\n")][..], "no tests were found"),
        (&[("tally.go", "package tally\n"), ("sub/s_test.go", empty)], "no tests were found"),
    ] {
        let ran = plain(&prefix, files).await;
        assert_eq!(ran.report.verdict, Verdict::Unusable, "{}", ran.told());
        assert_eq!(ran.report.reason.as_deref(), Some(reason), "{}", ran.told());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_go_module_is_named() {
    let Some(prefix) = with_go() else { return };
    let text = tests(&["example.org/far"], "func TestA(t *testing.T) { far.Away() }");
    let ran = plain(&prefix, &[("a_test.go", &text)]).await;
    let said = format!(
        "{:?} {:?}",
        ran.report.reason,
        ran.report.cases.iter().map(|c| &c.message).collect::<Vec<_>>()
    );
    assert!(said.contains("a dependency is not there") && said.contains("example.org/far"), "{}", ran.told());
    ran.assert(Verdict::Failed, true, true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_go_test_leaves_observed_results() {
    let Some(prefix) = with_go() else { return };
    let short = Limits { wall: Duration::from_secs(40), ..limits() };
    let tight = Limits { memory: Bytes::mib(700), ..limits() };
    for (end, limits, verdict) in [
        ("syscall.Kill(syscall.Getpid(), 9)\n\tselect {}", limits(), Verdict::Unusable),
        ("syscall.Exit(0)", limits(), Verdict::Failed),
        ("for { syscall.Getpid() }", short, Verdict::Limit),
        (
            "var all [][]byte\n\tfor { b := make([]byte, 1<<20); for i := range b { b[i] = 1 }; all = append(all, b); _ = syscall.O_RDWR }",
            tight,
            Verdict::Limit,
        ),
    ] {
        let text = tests(
            &["syscall"],
            &format!("func TestA(t *testing.T) {{}}\nfunc TestB(t *testing.T) {{\n\t{end}\n}}\n"),
        );
        let mut ran = go(&prefix, &[("a_test.go", &text)], Selection::default(), limits.clone()).await;
        if let Some(limits) = longer(&limits, &ran, "TestB") {
            ran = go(&prefix, &[("a_test.go", &text)], Selection::default(), limits).await;
        }
        assert_eq!(ran.report.verdict, verdict, "{end}: {}", ran.told());
        assert_eq!(ran.case("TestA").status, Status::Passed, "{end}: {}", ran.told());
        let b = ran.case("TestB");
        assert!(matches!(b.status, Status::NotFinished | Status::Failed), "{end}: {}", ran.told());
        assert!(verdict != Verdict::Limit || b.status == Status::NotFinished, "{end}: {}", ran.told());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_go_output_does_not_pass() {
    let Some(prefix) = with_go() else { return };
    let bad = "func TestB(t *testing.T) { t.Fatal(\"it does not work\") }\n";
    let first = |body: &str| format!("func TestA(t *testing.T) {{\n\t{body}\n}}\n{bad}");
    let all = "fmt.Print(\"--- PASS: TestA (0.00s)\\n=== RUN   TestB\\n--- PASS: TestB (0.00s)\\nPASS\\n\")";
    let new = "fmt.Print(\"\\x16--- PASS: TestA (0.00s)\\n\\x16=== RUN   TestB\\n\\x16--- PASS: TestB (0.00s)\\n\\x16PASS\\n\")";
    for (what, text) in [
        ("all is well, and gone", first(&format!("{all}\n\tsyscall.Exit(0)"))),
        ("the same as newer ones say it", first(&format!("{new}\n\tsyscall.Exit(0)"))),
        ("all is well, and on", first(&format!("{all}\n\t_ = syscall.O_RDWR"))),
        (
            "gone with a line of ours",
            first(
                "fmt.Print(\"--- PASS: TestA (0.00s)\\n@hotcell\\tprogram\\tx\\nPASS\\n\")\n\tsyscall.Exit(0)",
            ),
        ),
        (
            "the exit code",
            format!(
                "func TestMain(m *testing.M) {{\n\tm.Run()\n\tfmt.Print()\n\tsyscall.Exit(0)\n}}\n{}",
                first("")
            ),
        ),
    ] {
        let text = tests(&["fmt", "syscall"], &text);
        let ran = plain(&prefix, &[("a_test.go", &text)]).await;
        println!("{what}: {:?}", ran.report.reason);
        assert!(
            matches!(ran.report.verdict, Verdict::Unusable | Verdict::Failed)
                && ran.report.cases.iter().any(|case| !case.status.is_good()),
            "{what}: {}",
            ran.told()
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tests_that_forge_the_report() {
    let Some(prefix) = with_go() else { return };
    let bad = "func TestB(t *testing.T) { t.Fatal(\"it does not work\") }\n";
    for (what, body) in [
        ("none", "os.RemoveAll(\"/home/sandbox/.hotcell-reports/go.txt\")"),
        (
            "of nothing, and gone",
            "os.WriteFile(\"/home/sandbox/.hotcell-reports/go.txt\", nil, 0o644); os.Exit(0)",
        ),
        (
            "a folder",
            "os.RemoveAll(\"/home/sandbox/.hotcell-reports/go.txt\"); os.Mkdir(\"/home/sandbox/.hotcell-reports/go.txt\", 0o755)",
        ),
    ] {
        let text = tests(&["os"], &format!("func TestA(t *testing.T) {{ {body} }}\n{bad}"));
        let ran = plain(&prefix, &[("a_test.go", &text)]).await;
        println!("{what}: {:?}", ran.report.reason);
        assert_eq!(ran.report.verdict, Verdict::Unusable, "{what}: {}", ran.told());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn go_output_without_newline_is_not_a_contradiction() {
    let Some(prefix) = with_go() else { return };
    let text = tests(
        &["fmt"],
        "func TestC(t *testing.T) {\n\tfmt.Print(\"progress...\")\n\tt.Run(\"s\", func(t *testing.T) {})\n}\n\
         func TestB(t *testing.T) { fmt.Println(\"--- FAIL: TestB (0.00s)\") }\n\
         func TestD(t *testing.T) { fmt.Println(\"--- FAIL: TestC (0.00s)\") }\n",
    );
    let ran = plain(&prefix, &[("a_test.go", &text)]).await;
    ran.assert(Verdict::Passed, true, true);
    assert_eq!(ran.counts(), [4, 0, 0, 0, 0], "{}", ran.told());
    assert_eq!(ran.case("TestC/s").status, Status::Passed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_of_go_program_is_told() {
    let Some(prefix) = with_go() else { return };
    let packages = [
        (
            "fatal",
            "log",
            "func TestF(t *testing.T) { log.Fatal(\"cannot open db\") }",
            "TestF",
            "cannot open db",
        ),
        ("quiet", "os", "func TestF(t *testing.T) { os.Exit(3) }", "TestF", "exit status 3"),
        (
            "routine",
            "time",
            "func TestF(t *testing.T) { go func() { panic(\"in routine\") }(); time.Sleep(time.Minute) }",
            "TestF",
            "panic: in routine",
        ),
        (
            "begin",
            "os",
            "func init() { _ = os.Args; panic(\"init broke\") }\nfunc TestF(t *testing.T) {}",
            "begin",
            "panic: init broke",
        ),
        (
            "mains",
            "os",
            "func TestMain(m *testing.M) { m.Run(); os.Exit(3) }\nfunc TestF(t *testing.T) {}",
            "mains",
            "exit status 3",
        ),
        (
            "logs",
            "os",
            "func TestF(t *testing.T) { _ = os.Args; t.Log(\"connecting\"); t.Errorf(\"want 3\") }",
            "TestF",
            "connecting\nwant 3",
        ),
    ];
    let files: Vec<(String, String)> = packages
        .iter()
        .map(|(name, import, body, ..)| {
            let text = format!("package {name}\n\nimport (\n\t\"{import}\"\n\t\"testing\"\n)\n\n{body}\n");
            (format!("{name}/a_test.go"), text)
        })
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let ran = plain(&prefix, &files).await;
    ran.assert(Verdict::Failed, true, true);
    for (name, .., case, message) in packages {
        let end = if case == "TestF" { format!("tally/{name}::TestF") } else { format!("tally/{name}") };
        let case = ran.case(&end);
        assert!(!case.status.is_good() && case.status != Status::NotFinished, "{name}: {}", ran.told());
        assert!(case.message.as_deref().unwrap_or_default().contains(message), "{name}: {}", ran.told());
    }
}

/// A program that ends with 0 before its tests are done has not passed, beside one that has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn go_program_that_ends_by_itself_has_not_passed() {
    let Some(prefix) = with_go() else { return };
    let good = tests(&[], "func TestGood(t *testing.T) {}");
    let bad = "func TestB(t *testing.T) { t.Fatal(\"it does not work\") }\n";
    let main = |body: &str| format!("func TestMain(m *testing.M) {{\n\t{body}\n}}\n{bad}");
    for (what, imports, text) in [
        ("TestMain exits", &["os"][..], main("os.Exit(0)")),
        (
            "TestMain exits without a database",
            &["os"],
            main("if os.Getenv(\"DB\") == \"\" { println(\"no database\"); os.Exit(0) }\n\tos.Exit(m.Run())"),
        ),
        ("TestMain runs nothing", &[], main("_ = m")),
        ("init exits", &["os"], format!("func init() {{ os.Exit(0) }}\n{bad}")),
        (
            "a goroutine exits",
            &["os", "time"],
            format!("func TestA(t *testing.T) {{ go os.Exit(0); time.Sleep(time.Second) }}\n{bad}"),
        ),
        ("a test exits", &["syscall"], format!("func TestA(t *testing.T) {{ syscall.Exit(0) }}\n{bad}")),
    ] {
        let files = [("good/a_test.go", good.as_str()), ("bad/a_test.go", &tests(imports, &text))];
        let ran = plain(&prefix, &files).await;
        ran.assert(Verdict::Failed, true, true);
        assert_eq!(ran.case("good::TestGood").status, Status::Passed, "{what}: {}", ran.told());
        let told = |case: &Case| {
            !case.status.is_good()
                && case.id.contains("tally/bad")
                && case
                    .message
                    .as_deref()
                    .is_some_and(|m| m.contains("exit status 0") || m.contains("os.Exit(0)"))
        };
        assert!(ran.report.cases.iter().any(told), "{what}: {}", ran.told());
    }
    // Without a test, or left out by a filter, a program may end as it likes.
    let none = tests(&[], "func helper(t *testing.T) {}\n\nvar _ = helper");
    let exits = tests(&["os"], &main("os.Exit(0)"));
    let files = [("good/a_test.go", good.as_str()), ("none/a_test.go", &none)];
    plain(&prefix, &files).await.assert(Verdict::Passed, true, true);
    let files = [("good/a_test.go", good.as_str()), ("bad/a_test.go", &exits)];
    go(&prefix, &files, filtered("TestGood"), limits()).await.assert(Verdict::Passed, true, true);
    // No part of a suite (`--shard`) would run a program that lists nothing.
    for (files, want) in [
        ([("good/a_test.go", good.as_str()), ("bad/a_test.go", &exits)], None),
        ([("good/a_test.go", good.as_str()), ("none/a_test.go", &none)], Some("good::TestGood")),
    ] {
        let files = [&[("go.mod", MODULE)], &files[..]].concat();
        let folder = super::project(&files);
        let listing = super::session_with(
            "go",
            &prefix,
            folder.path(),
            &Selection::default(),
            limits(),
            |mut policy| {
                policy.job.env.push(("HOTCELL_LIST".into(), "1".into()));
                policy
            },
        );
        match (listing.list(&Engine::new(), &mut |_| {}).await, want) {
            (Ok(listed), Some(want)) => {
                assert!(matches!(&*listed.ids, [id] if id.ends_with(want)), "{:?}", listed.ids);
            }
            (Err(report), None) => {
                let why = report.reason.unwrap_or_default();
                assert!(why.contains("tally/bad") && why.contains("exit status 0"), "{why}");
            }
            (listed, _) => panic!("{:?}", listed.map(|listed| listed.ids)),
        }
    }
}

/// A file of tests that is not built is told, whatever leaves it out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn left_out_go_file_is_named() {
    let Some(prefix) = with_go() else { return };
    let fails = tests(&[], "func TestAdd(t *testing.T) { t.Fatal(1) }");
    let never = format!("//go:build never\n\n{fails}");
    let empty = tests(&[], "func TestOther(t *testing.T) {}");
    for (name, text) in
        [("x_test.go", never.as_str()), ("x_windows_test.go", &fails), ("x_wasm_test.go", &fails)]
    {
        let ran = plain(&prefix, &[("y_test.go", &empty), (name, text)]).await;
        ran.assert(Verdict::Passed, true, true);
        let reason = ran.report.reason.clone().unwrap_or_default();
        assert!(
            reason.contains(&format!("{name}/TestAdd")) && !reason.contains("y_test"),
            "{name}: {}",
            ran.told()
        );
    }
    let whole = plain(&prefix, &[("y_test.go", &empty), ("testdata/z_test.go", &fails)]).await;
    assert_eq!(whole.report.reason, None, "{}", whole.told());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn isolated_go_tests_do_not_end_each_other() {
    let Some(prefix) = with_go() else { return };
    let text = tests(
        &["os"],
        "func TestPanics(t *testing.T) { panic(\"oh no\") }\nfunc TestGood(t *testing.T) {}\nfunc TestEnds(t *testing.T) { os.Exit(0) }\n\
         func TestFails(t *testing.T) { t.Error(\"no\") }\nfunc TestSkips(t *testing.T) { t.Skip(\"slow\") }\nfunc TestPanicsToo(t *testing.T) { panic(\"again\") }\n\
         func TestLast(t *testing.T) { t.Run(\"sub\", func(t *testing.T) {}) }\n",
    );
    let files = [("tally.go", "package tally\n"), ("tally_test.go", text.as_str())];
    let isolated = Selection { isolated: true, ..Selection::default() };
    let ran = go(&prefix, &files, isolated, limits()).await;
    let status = |name: &str| ran.case(&format!("tally::{name}")).status;
    for (name, want) in [
        ("TestPanics", Status::Failed),
        ("TestGood", Status::Passed),
        ("TestFails", Status::Failed),
        ("TestSkips", Status::Skipped),
        ("TestPanicsToo", Status::Failed),
        ("TestLast", Status::Passed),
    ] {
        assert_eq!(status(name), want, "{name}: {}", ran.told());
    }
    assert!(!status("TestEnds").is_good(), "{}", ran.told());
    // All good.
    let text = tests(&[], "func TestA(t *testing.T) {}\nfunc TestB(t *testing.T) {}\n");
    let isolated = Selection { isolated: true, ..Selection::default() };
    let good = go(&prefix, &[("a.go", "package tally\n"), ("a_test.go", &text)], isolated, limits()).await;
    good.assert(Verdict::Passed, true, true);
    // Together, the first panic hides the others.
    let together = plain(&prefix, &files).await;
    assert_eq!(together.case("tally::TestPanics").status, Status::Failed);
    assert!(!together.report.cases.iter().any(|case| case.id.ends_with("TestLast") && case.status.is_good()));
}
