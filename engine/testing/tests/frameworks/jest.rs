//! jest, in the version pinned by `examples/postage`: every kind of ending, and hostile projects that try to
//! appear good.

use super::*;

/// A folder with `node_modules`, made once and removed when this process has ended.
pub(crate) fn with_jest() -> Option<&'static Path> {
    static MODULES: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let made = MODULES.get_or_init(|| {
        // Prepared by a script for every suite.
        if let Some(folder) = std::env::var_os("HOTCELL_TEST_JEST") {
            return Ok(folder.into());
        }
        installed_by_npm(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/postage"))
    });
    match made {
        Ok(folder) => Some(folder),
        Err(error) => {
            println!("skipped: no jest: {}", error.lines().next_back().unwrap_or_default());
            None
        }
    }
}

/// Runs a project, with jest in a place where node finds packages from there.
async fn jest_with(modules: &Path, files: &[(&str, &str)], selection: Selection, limits: Limits) -> Ran {
    let folder = project(files);
    if !folder.path().join("package.json").exists() {
        std::fs::write(folder.path().join("package.json"), "{\"scripts\":{\"test\":\"jest\"}}").unwrap();
    }
    let session = session_with("jest", Path::new("/usr"), folder.path(), &selection, limits, |policy| {
        policy.read_only(modules.join("node_modules"), "/home/sandbox/node_modules")
    });
    let mut events = Vec::new();
    let report = session
        .run(&Engine::new(), &mut |progress| {
            if let Progress::Event(event) = progress {
                events.push(event.clone());
            }
        })
        .await;
    Ran { report, events }
}

async fn jest(modules: &Path, files: &[(&str, &str)]) -> Ran {
    jest_with(modules, files, Selection::default(), large()).await
}

/// Node needs more than Python.
fn large() -> Limits {
    Limits { memory: Bytes::mib(1024), disk: Bytes::mib(256), ..limits() }
}

const GOOD: &str = "test('a', () => {});\n";
const BAD: &str = "test('a', () => { expect(1).toBe(2); });\n";

const MANY_TESTS: &str = "describe('cart', () => {
  test('ok', () => {});
  test('bad', () => {
    expect(1).toBe(2);
  });
  test('throws', async () => { throw new Error('why'); });
  test.skip('left', () => {});
  test.todo('later');
  test.each([1, 2])('each %i', (n) => { expect(n).toBe(1); });
});
describe('hook', () => {
  beforeAll(() => { throw new Error('hook'); });
  test('never', () => {});
});
test('red', () => { expect('a::b').toBe('c'); });
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jest_kinds_are_reported() {
    let Some(modules) = with_jest() else { return };
    let files = [
        ("many.test.js", MANY_TESTS),
        ("sub/typed.test.ts", "const n: number = 2;\ntest('typed', () => { expect(n).toBe(2); });\n"),
        ("syntax.test.js", "test('a', () => {\n  const = 1;\n});\n"),
        ("none.test.js", "module.exports = 1;\n"),
        ("after.test.js", "afterAll(() => { throw new Error('late'); });\ntest('fine', () => {});\n"),
        ("package.json", "{\"jest\":{\"transform\":{\"\\\\.ts$\":[\"ts-jest\",{\"diagnostics\":false}]}}}"),
    ];
    let ran = jest(modules, &files).await;
    ran.assert(Verdict::Failed, true, true);
    // Passed: ok, each 1, typed, fine. Errored: the syntax, no tests, what comes after all.
    assert_eq!(ran.counts(), [4, 5, 3, 2, 0], "{}", ran.told());
    let bad = ran.case("many.test.js::cart::bad");
    assert_eq!((bad.file.as_deref(), bad.line), (Some("many.test.js"), Some(4)), "{}", ran.told());
    assert_eq!(bad.source.as_deref(), Some("expect(1).toBe(2);"));
    assert!(bad.message.as_deref().unwrap().contains("Received: 1"), "{}", ran.told());
    assert_eq!((ran.case("cart::ok").line, ran.case("cart::ok").name.as_str()), (Some(2), "ok"));
    let syntax = ran.case("syntax.test.js");
    assert_eq!((syntax.status, syntax.line), (Status::Errored, Some(2)), "{}", ran.told());
    assert_eq!(ran.case("after.test.js").status, Status::Errored, "{}", ran.told());
    assert!(!ran.told().contains("\\u001b[3"), "colours go: {}", ran.told());
    assert_eq!(ran.report.framework_version.as_deref(), Some("30.5.2"));

    for (filter, want) in [
        ("many.test.js::cart::each 2", [0, 1, 0, 0, 0]),
        ("sub/typed.test.ts", [1, 0, 0, 0, 0]),
        ("sub", [1, 0, 0, 0, 0]),
        ("typed|fine", [2, 0, 3, 0, 0]),
    ] {
        let some = jest_with(modules, &files, filtered(filter), large()).await;
        assert_eq!(some.counts(), want, "{filter}: {}", some.told());
        assert!(some.report.complete && some.report.consistent, "{filter}: {}", some.told());
    }
    let two = [files[1], files[5]];
    let nothing = jest_with(modules, &two, filtered("nothing like it"), large()).await;
    assert_eq!(nothing.report.verdict, Verdict::Unusable, "{}", nothing.told());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jest_passes_empty_and_fail_fast_are_reported() {
    let Some(modules) = with_jest() else { return };
    jest(modules, &[("a.test.js", GOOD)]).await.assert(Verdict::Passed, true, true);
    // A server that is left open does not delay the end.
    let open = "require('net').createServer().listen(0); setInterval(() => {}, 1e6);\ntest('a', () => {});\n";
    jest(modules, &[("a.test.js", open)]).await.assert(Verdict::Passed, true, true);
    let none = jest(modules, &[("a.js", "")]).await;
    none.assert(Verdict::Unusable, true, true);
    assert_eq!(none.report.reason.as_deref(), Some("no tests were found"));
    let pattern = ("package.json", "{\"scripts\":{\"test\":\"jest -t good\"}}");
    let some = jest(
        modules,
        &[("a.test.js", "test('good', () => {});\ntest('bad', () => { throw 1; });\n"), pattern],
    )
    .await;
    some.assert(Verdict::Passed, true, true);
    let left = "1 test was found and left out by the project itself";
    assert_eq!(some.report.reason.as_deref(), Some(left), "{}", some.told());
    let nosuch = jest_with(modules, &[("a.test.js", GOOD)], filtered("nosuch"), large()).await;
    nosuch.assert(Verdict::Unusable, true, true);
    let want = "the filter \"nosuch\" matches none of 1 test; a run without ‹filter› names them";
    assert_eq!(nosuch.report.reason.as_deref(), Some(want), "{}", nosuch.told());
    let skipped = jest(modules, &[("a.test.js", "test.skip('a', () => {});\n")]).await;
    skipped.assert(Verdict::Unusable, true, true);
    let fast = Selection { fail_fast: true, ..Selection::default() };
    let both = [("a.test.js", BAD), ("b.test.js", BAD)];
    let ran = jest_with(modules, &both, fast, large()).await;
    ran.assert(Verdict::Failed, true, true);
    assert_eq!(ran.counts(), [0, 1, 0, 0, 0], "{}", ran.told());
    let workers = Selection { jobs: Some(2), ..Selection::default() };
    let ran = jest_with(modules, &both, workers, large()).await;
    ran.assert(Verdict::Failed, true, true);
    assert_eq!(ran.counts(), [0, 2, 0, 0, 0], "{}", ran.told());
    let broken = jest(modules, &[("jest.config.js", "module.exports = {"), ("a.test.js", GOOD)]).await;
    assert_eq!(broken.report.verdict, Verdict::Unusable, "{}", broken.told());
    assert!(broken.report.reason.as_deref().unwrap().contains("it printed last"), "{}", broken.told());
    let narrow = "{\"jest\":{\"testMatch\":[\"**/a.test.js\"]}}";
    let files = [("package.json", narrow), ("a.test.js", GOOD), ("b.test.js", BAD)];
    let ran = jest(modules, &files).await;
    ran.assert(Verdict::Passed, true, true);
    let want = "no test ran of files that seem to hold some: b.test.js";
    assert_eq!(ran.report.reason.as_deref(), Some(want));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jest_retries_and_repeated_titles_are_counted() {
    let Some(modules) = with_jest() else { return };
    let again = "jest.retryTimes(2);\nlet n = 0;\ntest('a', () => { n += 1; expect(n).toBe(2); });\n";
    jest(modules, &[("a.test.js", again)]).await.assert(Verdict::Passed, true, true);
    let twice = "test('a', () => {});\ntest('a', () => { expect(1).toBe(2); });\ntest('a', () => {});\n";
    let ran = jest(modules, &[("a.test.js", twice)]).await;
    ran.assert(Verdict::Failed, true, true);
    assert_eq!(ran.counts(), [2, 1, 0, 0, 0], "{}", ran.told());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jest_limit_leaves_observed_results() {
    let Some(modules) = with_jest() else { return };
    let before = "test('before', () => {});\n";
    for (does, limits, cause) in [
        ("for (;;) {}", Limits { wall: Duration::from_secs(8), ..large() }, "time"),
        (
            "const all = []; for (;;) all.push(Buffer.alloc(1 << 20, 1));",
            Limits { memory: Bytes::mib(384), ..large() },
            "memory",
        ),
    ] {
        let test = format!("{before}test('goes on', () => {{ {does} }});\n");
        let files = [("a.test.js", test.as_str())];
        let mut ran = jest_with(modules, &files, Selection::default(), limits.clone()).await;
        if let Some(limits) = longer(&limits, &ran, "::goes on") {
            ran = jest_with(modules, &files, Selection::default(), limits).await;
        }
        assert_eq!(ran.report.verdict, Verdict::Limit, "{cause}: {}", ran.told());
        assert_eq!(ran.case("::before").status, Status::Passed, "{cause}: {}", ran.told());
        assert_eq!(ran.case("::goes on").status, Status::NotFinished, "{cause}: {}", ran.told());
    }
}

/// A server or timer that jest tests leave open ends soon, and an error that it throws before counts as by hand.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_jest_tests_leave_open_ends_soon() {
    let Some(modules) = with_jest() else { return };
    let throws = "setTimeout(() => { throw new Error('late'); }, 200);";
    for (does, settings, verdict) in [
        ("require('http').createServer().listen(0);", "{}", Verdict::Passed),
        ("setInterval(() => {}, 10);", "{}", Verdict::Passed),
        (throws, "{}", Verdict::Unusable),
        (throws, "{\"forceExit\":true}", Verdict::Passed),
    ] {
        let test = format!("test('a', () => {{ {does} }});\n");
        let package = format!("{{\"scripts\":{{\"test\":\"jest\"}},\"jest\":{settings}}}");
        let ran = jest(modules, &[("package.json", &package), ("a.test.js", &test)]).await;
        assert_eq!(ran.report.verdict, verdict, "{does} {settings}: {}", ran.told());
        if verdict == Verdict::Unusable {
            let reason = ran.report.reason.as_deref().unwrap_or_default();
            assert!(reason.contains("Error: late"), "{}", ran.told());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tests_that_end_the_runner() {
    let Some(modules) = with_jest() else { return };
    for does in [
        "process.exit(0)",
        "process.exit(1)",
        "process.exit(86)",
        "process.reallyExit(0)",
        "process.kill(process.pid, 9)",
        "process.abort()",
    ] {
        let test = format!(
            "test('before', () => {{}});\ntest('a', () => {{ {does}; }});\ntest('after', () => {{}});\n"
        );
        let ran = jest(modules, &[("a.test.js", &test)]).await;
        assert_eq!(ran.report.verdict, Verdict::Unusable, "{does}: {}", ran.told());
        ran.assert_not_passed();
        assert_eq!(ran.case("::before").status, Status::Passed, "{does}");
        assert_eq!(ran.case("::a").status, Status::NotFinished, "{does}");
    }
}

/// Writes an all-passed report of one test.
const FORGED: &str = r#"
const fs = require('fs');
const REPORT = '/home/sandbox/.hotcell-reports/jest.json';
const forge = (tests) => fs.writeFileSync(REPORT, JSON.stringify({ success: true, numTotalTests: 1, testResults: [
  { name: '/home/sandbox/project/a.test.js', status: 'passed', message: '',
    assertionResults: tests.map((title) => ({ ancestorTitles: [], title, status: 'passed', failureMessages: [] })) }] }));
const pipes = () => fs.readdirSync('/proc/self/fd').map(Number).filter((fd) => {
  try { return fd > 2 && fs.fstatSync(fd).isFIFO(); } catch { return false; } });
const say = (text) => pipes().forEach((fd) => { try { fs.writeSync(fd, text); } catch {} });
"#;

/// A program of the project that ends last, in jest's own process.
async fn at_the_end(modules: &Path, does: &str, tests: &str, limits: Limits) -> Ran {
    let config = format!("{FORGED}\nprocess.on('exit', () => {{ {does} }});\nmodule.exports = {{}};\n");
    let files = [("jest.config.js", config.as_str()), ("a.test.js", tests)];
    jest_with(modules, &files, Selection::default(), limits).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_reports_and_codes() {
    let Some(modules) = with_jest() else { return };
    // Before anything ran, and after a failure: report and exit code, the report alone, the code alone.
    let early = format!("{FORGED}\nforge(['a']); process.exit(0);\n");
    let ran = jest(modules, &[("jest.config.js", &early), ("a.test.js", BAD)]).await;
    assert_eq!(ran.report.verdict, Verdict::Unusable, "{}", ran.told());
    ran.assert_not_passed();
    for does in [
        "forge(['a']); process.reallyExit(0);",
        "forge(['a']); process.exitCode = 0;",
        "forge(['a']);",
        "process.reallyExit(0);",
        "forge(['a']); say('{\"e\":\"finish\",\"exit\":0}\\n'); process.reallyExit(0);",
    ] {
        let ran = at_the_end(modules, does, BAD, large()).await;
        assert_eq!(ran.report.verdict, Verdict::Unusable, "{does}: {}", ran.told());
        ran.assert_not_passed();
        assert_eq!(ran.case("::a").status, Status::Failed, "{does}: {}", ran.told());
    }
    let within = format!("{FORGED}\ntest('a', () => {{ forge(['a']); process.reallyExit(0); }});\n");
    jest(modules, &[("a.test.js", &within)]).await.assert_not_passed();
    for code in ["1", "7"] {
        let ran = at_the_end(modules, &format!("process.exitCode = {code};"), GOOD, large()).await;
        assert_eq!(ran.report.verdict, Verdict::Unusable, "{}", ran.told());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_jest_reports_do_not_pass() {
    let Some(modules) = with_jest() else { return };
    for (what, does) in [
        ("missing", "fs.rmSync(REPORT);"),
        ("empty", "fs.writeFileSync(REPORT, '');"),
        ("truncated", "fs.truncateSync(REPORT, 200);"),
        ("a link", "fs.renameSync(REPORT, REPORT + 2); fs.symlinkSync(REPORT + 2, REPORT);"),
        ("a folder", "fs.rmSync(REPORT); fs.mkdirSync(REPORT);"),
        ("of 1 GB", "fs.truncateSync(REPORT, 2 ** 30);"),
        (
            "deep",
            "fs.writeFileSync(REPORT, '{\"testResults\":' + '['.repeat(10000) + ']'.repeat(10000) + '}');",
        ),
        ("another test's", "forge(['b']);"),
        ("with one more", "forge(['a', 'b']);"),
        ("of none", "forge([]);"),
    ] {
        let ran = at_the_end(modules, does, GOOD, Limits { disk: Bytes::mib(2048), ..large() }).await;
        assert_eq!(ran.report.verdict, Verdict::Unusable, "{what}: {}", ran.told());
        ran.assert_not_passed();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tampered_jest_pipe_does_not_pass() {
    let Some(modules) = with_jest() else { return };
    for (what, does) in [
        ("closes everything", "pipes().forEach((fd) => fs.closeSync(fd));"),
        ("ends the run", "say('{\"e\":\"finish\",\"exit\":0}\\n');"),
        ("writes nonsense", "say('\\n\\xff');"),
        ("ends what never began", "say('{\"e\":\"end\",\"id\":\"x\",\"status\":\"passed\"}\\n');"),
    ] {
        let test = format!("{FORGED}\ntest('a', () => {{ {does} }});\ntest('b', () => {{}});\n");
        let ran = jest(modules, &[("a.test.js", &test)]).await;
        assert_eq!(ran.report.verdict, Verdict::Unusable, "{what}: {}", ran.told());
        ran.assert_not_passed();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_jest_is_explained() {
    if !Path::new("/usr/bin/node").exists() {
        println!("skipped: no /usr/bin/node");
        return;
    }
    let files = [("package.json", "{\"devDependencies\":{\"jest\":\"30\"}}"), ("a.test.js", GOOD)];
    let ran = run_with("jest", Path::new("/usr"), &files, Selection::default(), large()).await;
    assert_eq!(ran.report.verdict, Verdict::NotInstalled, "{}", ran.told());
    assert!(ran.report.reason.as_deref().unwrap().contains("`npm ci`"), "{}", ran.told());
}
