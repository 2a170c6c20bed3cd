//! cargo-nextest, on valid, broken and hostile crates. No registry has it in executable form: if it is not
//! installed, these tests are skipped, and `scripts/full` builds it.

use super::cargo::{API, LIB, MANIFEST, limits, with_rust};
use super::*;

/// `HOTCELL_TEST_NEXTEST`, or the program on PATH.
fn with_nextest() -> Option<(PathBuf, PathBuf)> {
    let named = std::env::var_os("HOTCELL_TEST_NEXTEST").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut there = std::env::split_paths(&path).map(|folder| folder.join("cargo-nextest"));
    let Some(program) = named.or_else(|| there.find(|program| program.is_file())) else {
        println!("skipped: cargo-nextest is not installed; scripts/full builds it");
        return None;
    };
    Some((with_rust()?, program))
}

async fn nextest(files: &[(&str, &str)], selection: Selection, limits: Limits) -> Option<Ran> {
    let (rust, program) = with_nextest()?;
    let folder = project(&[&[("Cargo.toml", MANIFEST)], files].concat());
    let session = session_with("nextest", &rust, folder.path(), &selection, limits, |policy| {
        policy.read_only(program, "/home/sandbox/.cargo/bin/cargo-nextest")
    });
    Some(follow(session).await)
}

async fn plain(files: &[(&str, &str)]) -> Option<Ran> {
    nextest(files, Selection::default(), limits()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nextest_reports_each_test() {
    let files = [("src/lib.rs", LIB), ("tests/api.rs", API)];
    let Some(ran) = plain(&files).await else { return };
    ran.assert(Verdict::Failed, true, true);
    // Without the example in documentation, which it does not run.
    assert_eq!(ran.counts(), [3, 2, 0, 1, 0], "{}", ran.told());
    let failed = ran.case("src/lib.rs::tests::fails");
    assert_eq!(
        (failed.file.as_deref(), failed.line, failed.status),
        (Some("src/lib.rs"), Some(24), Status::Failed)
    );
    assert_eq!(failed.source.as_deref(), Some("assert_eq!(add(1, 2), 4);"));
    assert!(failed.message.as_ref().unwrap().contains("left: 3"), "{}", ran.told());
    assert_eq!(failed.stdout.as_deref(), Some("said"), "{}", ran.told());
    assert_eq!(ran.case("src/lib.rs::tests::slow").status, Status::Skipped);
    assert_eq!(ran.case("tests/api.rs::err").message.as_deref(), Some("\"bad\""));
    assert!(ran.report.framework_version.as_ref().unwrap().starts_with("0.9."), "{}", ran.told());

    for (filter, want) in [
        ("src/lib.rs::tests::fails", &["src/lib.rs::tests::fails"][..]),
        ("src/lib.rs::tests::slow", &[]),
        ("tests/api.rs", &["tests/api.rs::err", "tests/api.rs::whole"]),
        ("hole", &["tests/api.rs::whole"]),
        ("test(=err) | test(adds)", &["src/lib.rs::tests::adds", "tests/api.rs::err"]),
    ] {
        let ran = nextest(&files, filtered(filter), limits()).await.unwrap();
        let mut ids: Vec<_> =
            ran.report.cases.iter().filter(|c| c.status != Status::Skipped).map(|c| c.id.as_str()).collect();
        ids.sort_unstable();
        assert_eq!(ids, want, "{}", ran.told());
        assert!(want.is_empty() || ran.report.complete && ran.report.consistent, "{}", ran.told());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nextest_project_configuration_applies() {
    let settings =
        "[profile.default]\nretries = 2\nslow-timeout = { period = \"1s\", terminate-after = 2 }\n";
    // Good at the second attempt, since each has a process of its own.
    let lib = "#[test]\nfn a() {\n    let mark = std::env::temp_dir().join(\"mark\");\n    let there = mark.exists();\n    \
         std::fs::write(&mark, \"\").unwrap();\n    assert!(there);\n}\n#[test]\nfn b() {}\n";
    let files = [(".config/nextest.toml", settings), ("src/lib.rs", lib)];
    let Some(ran) = plain(&files).await else { return };
    ran.assert(Verdict::Passed, true, true);
    assert_eq!(ran.counts(), [2, 0, 0, 0, 0], "{}", ran.told());
    let slow = "#[test]\nfn a() { loop { std::thread::park(); } }\n#[test]\nfn b() {}\n";
    // Invalid UTF-8 in a test's output.
    let odd = "#[test]\nfn a() {\n    use std::io::Write;\n    std::io::stdout().write_all(&[0, 255, 10]).unwrap();\n}\n";
    let ran = plain(&[("src/lib.rs", odd)]).await.unwrap();
    ran.assert(Verdict::Passed, true, true);

    // Good at the second attempt is not good enough.
    let strict = settings.replace("retries = 2", "retries = 2\nflaky-result = \"fail\"");
    let ran = plain(&[(".config/nextest.toml", &strict), ("src/lib.rs", lib)]).await.unwrap();
    ran.assert(Verdict::Failed, true, true);
    assert_eq!(ran.counts(), [1, 1, 0, 0, 0], "{}", ran.told());

    // Asked to end, and killed with the script that follows it.
    let once = settings.replace("retries = 2\n", "");
    let at_once = once.replace("terminate-after = 2", "terminate-after = 2, grace-period = \"0s\"");
    // Killed three times.
    let again = settings.replace("terminate-after = 2", "terminate-after = 1, grace-period = \"0s\"");
    for settings in [&once, &at_once, &again] {
        let ran = plain(&[(".config/nextest.toml", settings), ("src/lib.rs", slow)]).await.unwrap();
        ran.assert(Verdict::Failed, true, true);
        assert_eq!(ran.case("::a").status, Status::Failed, "{settings}: {}", ran.told());
    }

    let set_up = "experimental = [\"setup-scripts\"]\n[scripts.setup.db]\ncommand = [\"printf\", \"ready\"]\n\
         [[profile.default.scripts]]\nfilter = \"all()\"\nsetup = \"db\"\n[profile.default]\ndefault-filter = \"not test(=c)\"\n";
    let good = "#[test]\nfn b() {}\n#[test]\nfn c() {}\n";
    let ran = plain(&[(".config/nextest.toml", set_up), ("src/lib.rs", good)]).await.unwrap();
    ran.assert(Verdict::Passed, true, true);
    assert_eq!(ran.counts(), [1, 0, 0, 0, 0], "{}", ran.told());
    let why = ran.report.reason.as_deref().unwrap();
    assert!(why.contains("leave 1 test out"), "{why}");

    // Arguments that make a program run nothing, and report success.
    let skips = "[profile.default]\nrun-extra-args = [\"--ignored\"]\n";
    let bad = "#[test]\nfn b() { panic!(\"it does not work\"); }\n";
    let ran = plain(&[(".config/nextest.toml", skips), ("src/lib.rs", bad)]).await.unwrap();
    ran.assert_not_passed();

    let broken = "[profile.default]\nno-such-key = \n";
    let ran = plain(&[(".config/nextest.toml", broken), ("src/lib.rs", slow)]).await.unwrap();
    assert_eq!(ran.report.verdict, Verdict::Unusable, "{}", ran.told());
    let why = ran.report.reason.as_deref().unwrap();
    assert!(why.contains("its configuration") && why.contains("no-such-key"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nextest_compile_error_and_missing_crate_are_reported() {
    let broken = [("src/lib.rs", "#[test]\nfn a() {\n    let x: u32 = y;\n}\n")];
    let Some(ran) = plain(&broken).await else { return };
    ran.assert(Verdict::Failed, true, true);
    let case = ran.case("src/lib.rs");
    assert_eq!((case.status, case.line), (Status::Errored, Some(3)), "{}", ran.told());
    assert_eq!(case.message.as_deref(), Some("error[E0425]: cannot find value `y` in this scope"));

    let ran = plain(&[("src/lib.rs", "")]).await.unwrap();
    assert_eq!(ran.report.verdict, Verdict::Unusable, "{}", ran.told());
    assert!(ran.report.reason.as_deref().unwrap().starts_with("no tests were found"), "{}", ran.told());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_nextest_is_explained() {
    let Some(rust) = with_rust() else { return };
    let files = [("Cargo.toml", MANIFEST), ("src/lib.rs", "#[test]\nfn a() {}\n")];
    let folder = project(&files);
    let session = session_with("nextest", &rust, folder.path(), &Selection::default(), limits(), |policy| {
        // Neither the system's nor the user's programs.
        only(policy, folder.path(), &["sh", "cc", "rustc"])
    });
    let ran = follow(session).await;
    assert_eq!(ran.report.verdict, Verdict::NotInstalled, "{}", ran.told());
    let why = ran.report.reason.as_deref().unwrap();
    assert!(why.contains("cargo install --locked cargo-nextest"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_nextest_test_leaves_observed_results() {
    let before = "#[test]\nfn a() {}\n#[test]\nfn b() {\n    std::thread::sleep(std::time::Duration::from_secs(2));\n    ";
    let short = Limits { wall: Duration::from_secs(30), ..limits() };
    for (end, limits, verdict, status) in [
        // Each test has a process of its own, so the others continue.
        ("std::process::abort();", limits(), Verdict::Failed, Status::Failed),
        // Only the exit code says that it passed.
        ("std::process::exit(0);", limits(), Verdict::Unusable, Status::Errored),
        ("loop { std::thread::park(); }", short, Verdict::Limit, Status::NotFinished),
    ] {
        let text = format!("{before}{end}\n}}\n");
        let files = [("tests/t.rs", text.as_str()), ("src/lib.rs", "")];
        let Some(mut ran) = nextest(&files, Selection::default(), limits.clone()).await else { return };
        if let Some(limits) = longer(&limits, &ran, "::b") {
            ran = nextest(&files, Selection::default(), limits).await.unwrap();
        }
        assert_eq!(ran.report.verdict, verdict, "{end}: {}", ran.told());
        assert_eq!(ran.case("tests/t.rs::a").status, Status::Passed, "{end}: {}", ran.told());
        assert_eq!(ran.case("tests/t.rs::b").status, status, "{end}: {}", ran.told());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_nextest_output_does_not_pass() {
    // nextest's own output, through its process, and the report, which is written at the end.
    let forge = |text: &str| {
        format!(
            "fn parent() -> String {{\n    let stat = std::fs::read_to_string(\"/proc/self/stat\").unwrap();\n    let up = |s: &str| s.rsplit(')').next().unwrap().split_whitespace().nth(1).unwrap().to_owned();\n    \
             let own = up(&stat);\n    up(&std::fs::read_to_string(format!(\"/proc/{{own}}/stat\")).unwrap())\n}}\n\
             #[test]\nfn a() {{\n    use std::io::Write;\n    let own = std::env::args().next().unwrap();\n    let _ = &own;\n    \
             let mut out = std::fs::OpenOptions::new().write(true).open(format!(\"/proc/{{}}/fd/1\", parent())).unwrap();\n    \
             out.write_all(format!(\"{text}\").as_bytes()).unwrap();\n}}\n\
             #[test]\nfn b() {{\n    std::thread::sleep(std::time::Duration::from_millis(1500));\n    panic!(\"it does not work\");\n}}\n"
        )
    };
    for (what, text) in [
        ("another's end", "@hotcell\\tend\\t{own}\\t0 1 1 one b\\n"),
        (
            "another's beginning and end",
            "@hotcell\\tbegin\\t{own}\\t- tally::t 1 b\\n@hotcell\\tend\\t{own}\\t0 1 1 one b\\n",
        ),
        ("that another is left out", "@hotcell\\tignored\\t{own}\\tb\\n"),
    ] {
        let text = forge(text);
        let Some(ran) = plain(&[("src/lib.rs", ""), ("tests/t.rs", &text)]).await else { return };
        println!("{what}: {:?}", ran.report.reason);
        ran.assert_not_passed();
        assert_eq!(ran.report.verdict, Verdict::Unusable, "{what}: {}", ran.told());
    }
}
