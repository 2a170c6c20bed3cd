//! `cargo test` with a real toolchain, on valid, broken and hostile crates.

use super::*;

pub(super) const MANIFEST: &str =
    "[package]\nname = \"tally\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n";

/// A Rust toolchain that this user may read: `HOTCELL_TEST_RUST`, or the one of `rustc`.
pub(super) fn with_rust() -> Option<PathBuf> {
    let named = std::env::var_os("HOTCELL_TEST_RUST").map(PathBuf::from);
    let folder = named.or_else(|| {
        let output = Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
        Some(String::from_utf8(output.stdout).ok()?.trim().into())
    });
    let found =
        folder.filter(|folder| Command::new(folder.join("bin/cargo")).arg("--version").output().is_ok());
    if found.is_none() {
        println!("skipped: no cargo that this user may start");
    }
    found
}

pub(super) fn limits() -> Limits {
    Limits {
        memory: Bytes::mib(1536),
        wall: Duration::from_secs(240),
        processes: 256,
        disk: Bytes::mib(512),
        ..super::limits()
    }
}

async fn cargo(rust: &Path, files: &[(&str, &str)], selection: Selection, limits: Limits) -> Ran {
    let files = [&[("Cargo.toml", MANIFEST)], files].concat();
    run_with("cargo", rust, &files, selection, limits).await
}

async fn plain(rust: &Path, files: &[(&str, &str)]) -> Ran {
    cargo(rust, files, Selection::default(), limits()).await
}

pub(super) const LIB: &str = r#"//! Adds.

/// Adds.
///
/// ```
/// assert_eq!(tally::add(1, 2), 3);
/// ```
pub fn add(a: u32, b: u32) -> u32 {
    a + b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds() {
        assert_eq!(add(1, 2), 3);
    }

    #[test]
    fn fails() {
        println!("said");
        assert_eq!(add(1, 2), 4);
    }

    #[test]
    #[should_panic]
    fn panics() {
        panic!("as it should");
    }

    #[test]
    #[ignore = "slow"]
    fn slow() {}
}
"#;
pub(super) const API: &str =
    "#[test]\nfn whole() {}\n\n#[test]\nfn err() -> Result<(), String> {\n    Err(\"bad\".into())\n}\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cargo_reports_each_test() {
    let Some(rust) = with_rust() else { return };
    let files = [("src/lib.rs", LIB), ("tests/api.rs", API)];
    let ran = plain(&rust, &files).await;
    ran.assert(Verdict::Failed, true, true);
    assert_eq!(ran.counts(), [4, 2, 0, 1, 0], "{}", ran.told());
    let failed = ran.case("src/lib.rs::tests::fails");
    assert_eq!(
        (failed.file.as_deref(), failed.line, failed.status),
        (Some("src/lib.rs"), Some(24), Status::Failed)
    );
    assert_eq!(failed.source.as_deref(), Some("assert_eq!(add(1, 2), 4);"));
    assert!(failed.message.as_ref().unwrap().contains("left: 3"), "{}", ran.told());
    assert!(failed.details.as_ref().unwrap().starts_with("said\n"), "{}", ran.told());
    assert_eq!(ran.case("tests::slow").message.as_deref(), Some("slow"));
    assert_eq!(ran.case("tests/api.rs::err").message.as_deref(), Some("\"bad\""));
    assert_eq!(ran.case("src/lib.rs - add (line 5)").status, Status::Passed);
    assert!(ran.report.framework_version.as_ref().unwrap().starts_with("1."), "{}", ran.told());

    for (filter, want) in [
        ("src/lib.rs::tests::fails", &["src/lib.rs::tests::fails"][..]),
        ("tests/api.rs", &["tests/api.rs::err", "tests/api.rs::whole"]),
        ("hole", &["tests/api.rs::whole"]),
    ] {
        let ran = cargo(&rust, &files, filtered(filter), limits()).await;
        let ids: Vec<_> = ran.report.cases.iter().map(|c| c.id.as_str()).collect();
        assert_eq!(ids, want, "{}", ran.told());
        assert!(ran.report.complete && ran.report.consistent, "{}", ran.told());
    }
    // Only the first program with a failure runs.
    let fast = Selection { fail_fast: true, ..Selection::default() };
    let ran = cargo(&rust, &files, fast, limits()).await;
    ran.assert(Verdict::Failed, true, true);
    assert_eq!(ran.counts(), [2, 1, 0, 1, 0], "{}", ran.told());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cargo_compile_error_has_position() {
    let Some(rust) = with_rust() else { return };
    let ran = plain(&rust, &[("src/lib.rs", "#[test]\nfn a() {\n    let x: u32 = y;\n}\n")]).await;
    ran.assert(Verdict::Failed, true, true);
    let case = ran.case("src/lib.rs");
    assert_eq!((case.status, case.line), (Status::Errored, Some(3)), "{}", ran.told());
    assert_eq!(case.message.as_deref(), Some("error[E0425]: cannot find value `y` in this scope"));
    assert!(case.details.as_ref().unwrap().contains("-->"), "{}", ran.told());

    let manifest = format!("{MANIFEST}[dependencies]\nthere-is-no-such-crate = \"1\"\n");
    let files = [("Cargo.toml", manifest.as_str()), ("src/lib.rs", LIB)];
    let ran = run_with("cargo", &rust, &files, Selection::default(), limits()).await;
    assert_eq!((ran.report.verdict, ran.report.cases.len()), (Verdict::Unusable, 0), "{}", ran.told());
    let why = ran.report.reason.as_deref().unwrap();
    assert!(why.contains("a dependency is not there") && why.contains("there-is-no-such-crate"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_cargo_test_leaves_observed_results() {
    let Some(rust) = with_rust() else { return };
    let before = "#[test]\nfn a() {}\n#[test]\nfn b() {\n    std::thread::sleep(std::time::Duration::from_secs(2));\n    ";
    let short = Limits { wall: Duration::from_secs(30), ..limits() };
    let tight = Limits { memory: Bytes::mib(700), ..limits() };
    let (code, signal) = ("the test program ended with exit code", "SIGABRT ended the test program");
    for (end, limits, verdict, how) in [
        ("std::process::abort();", limits(), Verdict::Unusable, Some(signal.to_owned())),
        ("std::process::exit(0);", limits(), Verdict::Unusable, Some(format!("{code} 0"))),
        ("std::process::exit(3);", limits(), Verdict::Unusable, Some(format!("{code} 3"))),
        ("loop { std::thread::park(); }", short, Verdict::Limit, None),
        ("let mut v = Vec::new();\n    loop { v.push(vec![1u8; 1 << 20]); }", tight, Verdict::Limit, None),
    ] {
        let text = format!("{before}{end}\n}}\n");
        let files = [("tests/t.rs", text.as_str()), ("src/lib.rs", "")];
        let mut ran = cargo(&rust, &files, Selection::default(), limits.clone()).await;
        if let Some(limits) = longer(&limits, &ran, "::b") {
            ran = cargo(&rust, &files, Selection::default(), limits).await;
        }
        assert_eq!(ran.report.verdict, verdict, "{end}: {}", ran.told());
        assert_eq!(ran.case("tests/t.rs::a").status, Status::Passed, "{end}: {}", ran.told());
        assert_eq!(ran.case("tests/t.rs::b").status, Status::NotFinished, "{end}: {}", ran.told());
        if let Some(how) = how {
            let said = format!("tests/t.rs: {how} before all of its tests were done");
            let reason = ran.report.reason.as_deref().unwrap_or_default();
            assert!(
                reason.starts_with(&said) && reason.contains("tests/t.rs::b started"),
                "{end}: {}",
                ran.told()
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn program_without_libtest_is_one_test() {
    let Some(rust) = with_rust() else { return };
    let manifest = format!(
        "{MANIFEST}[[test]]\nname = \"good\"\nharness = false\n[[test]]\nname = \"bad\"\nharness = false\n"
    );
    let files = [
        ("Cargo.toml", manifest.as_str()),
        ("src/lib.rs", ""),
        ("tests/good.rs", "fn main() { println!(\"all is well\"); }\n"),
        ("tests/bad.rs", "fn main() { std::process::exit(3); }\n"),
    ];
    let ran = run_with("cargo", &rust, &files, Selection::default(), limits()).await;
    ran.assert(Verdict::Failed, true, true);
    assert_eq!(ran.counts(), [1, 1, 0, 0, 0], "{}", ran.told());
    assert_eq!(ran.case("tests/bad.rs").message.as_deref(), Some("the test program ended with exit code 3"));
}

/// A harness with libtest's options that writes its log in place of its output, as libtest-mimic does.
const LIKE_MIMIC: &str = r#"
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| args.iter().any(|arg| arg == word);
    if has("--help") { return println!("--exact --list --logfile <PATH>"); }
    let all = ["plain", "other::two", "off"];
    if has("--list") { return all.iter().for_each(|name| println!("{name}: test")); }
    let asked: Vec<_> = all.iter().filter(|name| !has("--exact") || has(name)).collect();
    let mut text = format!("\nrunning {} tests\n", asked.len());
    let (mut good, mut bad, mut off) = (0, 0, 0);
    for name in asked {
        let said = match *name { "off" => { off += 1; "ignored" } "other::two" if BAD => { bad += 1; "FAILED" } _ => { good += 1; "ok" } };
        text += &format!("test {name:<10} ... {said}\n");
    }
    let end = if bad > 0 { "FAILED" } else { "ok" };
    text += &format!("\ntest result: {end}. {good} passed; {bad} failed; {off} ignored; 0 measured; 0 filtered out; finished in 0.00s\n\n");
    match args.iter().skip_while(|arg| *arg != "--logfile").nth(1) {
        Some(log) => std::fs::write(log, text).unwrap(),
        None => print!("{text}"),
    }
    std::process::exit(if bad > 0 { 101 } else { 0 });
}
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn harness_may_write_log_instead_of_output() {
    let Some(rust) = with_rust() else { return };
    let manifest = format!("{MANIFEST}[[test]]\nname = \"files\"\nharness = false\n");
    for (bad, verdict, counts) in
        [("false", Verdict::Passed, [2, 0, 0, 1, 0]), ("true", Verdict::Failed, [1, 1, 0, 1, 0])]
    {
        let harness = LIKE_MIMIC.replace("BAD", bad);
        let files = [("Cargo.toml", manifest.as_str()), ("src/lib.rs", ""), ("tests/files.rs", &harness)];
        let ran = run_with("cargo", &rust, &files, Selection::default(), limits()).await;
        ran.assert(verdict, true, true);
        assert_eq!(ran.counts(), counts, "{bad}: {}", ran.told());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cargo_workspace_is_tested_completely() {
    let Some(rust) = with_rust() else { return };
    let member =
        |name: &str| format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    let (one, two) = (member("one"), member("two"));
    let test = "#[test]\nfn same() { assert!(std::path::Path::new(\"Cargo.toml\").exists()); }\n";
    let files = [
        ("Cargo.toml", "[workspace]\nmembers = [\"one\", \"two\"]\nresolver = \"2\"\n"),
        ("one/Cargo.toml", one.as_str()),
        ("one/src/lib.rs", test),
        ("two/Cargo.toml", two.as_str()),
        ("two/src/lib.rs", test),
    ];
    let ran = run_with("cargo", &rust, &files, Selection::default(), limits()).await;
    ran.assert(Verdict::Passed, true, true);
    let ids: Vec<_> = ran.report.cases.iter().map(|c| c.id.as_str()).collect();
    assert_eq!(ids, ["one/src/lib.rs::same", "two/src/lib.rs::same"], "{}", ran.told());
}

/// A test that prints `words` like its program, outside libtest's capture.
fn saying(words: &str, then: &str) -> String {
    format!(
        "use std::io::Write;\n#[test]\nfn a() {{\n    let own = std::env::args().next().unwrap();\n    let _ = &own;\n    \
         let text = {words};\n    let mut out = std::io::stdout();\n    out.write_all(text.as_bytes()).unwrap();\n    out.flush().unwrap();\n    {then}\n}}\n\
         #[test]\nfn b() {{\n    std::thread::sleep(std::time::Duration::from_millis(1500));\n    panic!(\"it does not work\");\n}}\n"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_libtest_output_does_not_pass() {
    let Some(rust) = with_rust() else { return };
    const GOOD: &str = r"test a ... ok\ntest b ... ok\n\ntest result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\n";
    let good = format!("{GOOD:?}").replace("\\\\n", "\\n");
    let ended = format!("format!(\"{GOOD}\\n@hotcell\\tend\\t{{own}}\\t0\\n\")");
    let again = format!(
        "format!(\"{GOOD}\\n@hotcell\\tend\\t{{own}}\\t0\\n@hotcell\\tprogram\\t{{own}}\\n@hotcell\\tstart\\t{{own}}\\t1\\n\")"
    );
    for (what, text) in [
        ("all is well, and gone", saying(&good, "std::process::exit(0);")),
        ("all is well, and on", saying(&good, "")),
        ("one line", saying("\"test b ... ok\\n\"", "")),
        ("the end, and gone", saying(&ended, "std::process::exit(0);")),
        ("the end, and on", saying(&ended, "")),
        ("the end and a new beginning", saying(&again, "std::process::exit(0);")),
    ] {
        let ran = plain(&rust, &[("src/lib.rs", ""), ("tests/t.rs", &text)]).await;
        println!("{what}: {:?}", ran.report.reason);
        ran.assert_not_passed();
        assert_eq!(ran.report.verdict, Verdict::Unusable, "{what}: {}", ran.told());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tests_that_forge_the_report() {
    let Some(rust) = with_rust() else { return };
    // The path of its log is an argument; the report is beside it.
    let log = |text: &str, then: &str| {
        format!(
            "#[test]\nfn a() {{\n    let log = std::env::args().skip_while(|a| a != \"--logfile\").nth(1).unwrap();\n    \
             let report = log.strip_suffix(\".log\").unwrap();\n    let _ = report;\n    {text}\n    {then}\n}}\n\
             #[test]\nfn b() {{\n    std::thread::sleep(std::time::Duration::from_millis(1500));\n    panic!(\"it does not work\");\n}}\n"
        )
    };
    for (what, text) in [
        ("a log", log("std::fs::write(&log, \"ok a\\nok b\\n\").unwrap();", "std::process::exit(0);")),
        ("no report", log("std::fs::remove_file(report).unwrap();", "")),
        ("a report of nothing", log("std::fs::write(report, \"\").unwrap();", "std::process::exit(0);")),
        (
            "a link",
            log(
                "std::fs::remove_file(report).unwrap(); std::os::unix::fs::symlink(\"/dev/zero\", report).unwrap();",
                "std::process::exit(0);",
            ),
        ),
    ] {
        let ran = plain(&rust, &[("src/lib.rs", ""), ("tests/t.rs", &text)]).await;
        println!("{what}: {:?}", ran.report.reason);
        assert_eq!(ran.report.verdict, Verdict::Unusable, "{what}: {}", ran.told());
    }
}

/// A source file with tests that are in no program is told, whatever leaves it out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn left_out_rust_file_is_named() {
    let Some(rust) = with_rust() else { return };
    const GOOD: &str = "#[test]\nfn a() {}\n";
    const BAD: &str = "#[test]\nfn never() { panic!() }\n";
    let with_modules = format!("mod shop;\n#[cfg(test)]\nmod tests;\n{GOOD}");
    for (more, files, want) in [
        ("", &[("src/lib.rs", GOOD), ("src/shop.rs", BAD)][..], Some("src/shop.rs")),
        ("", &[("src/lib.rs", GOOD), ("tests/sub/t.rs", BAD)], Some("tests/sub/t.rs")),
        ("[lib]\ntest = false\n", &[("src/lib.rs", BAD), ("tests/t.rs", GOOD)], Some("src/lib.rs")),
        (
            "[features]\nx = []\n[[test]]\nname = \"t\"\nrequired-features = [\"x\"]\n",
            &[("src/lib.rs", GOOD), ("tests/t.rs", BAD)],
            Some("tests/t.rs"),
        ),
        (
            "",
            &[
                ("src/lib.rs", &with_modules),
                ("src/tests.rs", GOOD),
                ("src/shop/mod.rs", "#[cfg(test)]\nmod cart;\n"),
                ("src/shop/cart.rs", GOOD),
                ("fixture/Cargo.toml", "[package]\nname = \"fixture\"\nversion = \"0.1.0\"\n"),
                ("fixture/src/lib.rs", BAD),
            ],
            None,
        ),
        (
            "",
            &[
                ("src/lib.rs", "mod shop;\nmod cart { include!(\"cart_tests.rs\"); }\n"),
                ("src/shop.rs", "#[cfg(test)]\n#[path = \"shop_tests.rs\"]\nmod tests;\n"),
                ("src/shop_tests.rs", GOOD),
                ("src/cart_tests.rs", GOOD),
                (
                    "tests/ui.rs",
                    "#[test]\nfn ui() {\n    // t.pass\n    let _ = Path.compile_fail(\"tests/ui/*.rs\");\n}\nstruct Path;\nimpl Path {\n    fn compile_fail(&self, _: &str) {}\n}\n",
                ),
                ("tests/ui/bad.rs", BAD),
            ],
            None,
        ),
    ] {
        let manifest = format!("{MANIFEST}{more}").replace("[workspace]\n", "");
        let files = [&[("Cargo.toml", manifest.as_str())], files].concat();
        let ran = run_with("cargo", &rust, &files, Selection::default(), limits()).await;
        ran.assert(Verdict::Passed, true, true);
        let want = want.map(|file| format!("no test ran of files that seem to hold some: {file}"));
        assert_eq!(ran.report.reason, want, "{files:?}: {}", ran.told());
    }
}
