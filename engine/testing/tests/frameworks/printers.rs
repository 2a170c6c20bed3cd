//! Programs that print TAP: tape and ava in the versions of `runners/package-lock.json`, node-tap as it was recorded, and
//! programs of a project's; every kind of ending, and programs that try to appear good.

use super::node::with_runners;
use super::*;

fn large() -> Limits {
    Limits { memory: Bytes::mib(1024), processes: 256, disk: Bytes::mib(256), ..limits() }
}

/// Runs a project whose script `test` this is.
async fn run(name: &str, script: &str, files: &[(&str, &str)], selection: Selection) -> Ran {
    let folder = project(files);
    let package = serde_json::json!({"scripts": {"test": script}}).to_string();
    std::fs::write(folder.path().join("package.json"), package).unwrap();
    let found = hotcell_testing::detect(&ProjectFolder::open(folder.path()).unwrap());
    assert_eq!(found[0].0.name(), name, "{found:?}");
    let session =
        session_with(
            name,
            Path::new("/usr"),
            folder.path(),
            &selection,
            large(),
            |policy| match with_runners() {
                Some(modules) => policy.read_only(modules.join("node_modules"), "/home/sandbox/node_modules"),
                None => policy,
            },
        );
    Ran { report: session.run(&Engine::new(), &mut |_| ()).await, events: Vec::new() }
}

const TAPE: &str = "const test = require('tape');\n";
const GOOD: &str = "test('good', (t) => { t.ok(true, 'yes'); t.end(); });\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tape_by_file_test_and_assertion() {
    if with_runners().is_none() {
        return;
    }
    let a = TAPE.to_owned()
        + "test('adds', (t) => {\n  t.plan(3);\n  t.equal(2, 2);\n  t.equal(2, 3, 'three');\n  t.skip('slow');\n});\n\
           test('later', { todo: true }, (t) => { t.equal(1, 2); t.end(); });\n\
           test('outer', (t) => { t.test('inner', (s) => { s.ok(1); s.ok(1); s.end(); }); t.end(); });\n";
    let b = "import test from 'tape';\n".to_owned() + GOOD;
    let files = [("test/a.js", a.as_str()), ("test/deep/b.mjs", &b)];
    let ran = run("tape", "c8 tape 'test/**/*.*js' | tap-spec", &files, Selection::default()).await;
    ran.assert(Verdict::Failed, true, true);
    assert_eq!(ran.counts(), [4, 1, 0, 2, 0], "{}", ran.told());
    let bad = ran.case("test/a.js::adds::three");
    assert_eq!((bad.file.as_deref(), bad.line), (Some("test/a.js"), Some(5)), "{}", ran.told());
    assert_eq!(bad.message.as_deref(), Some("expected: 3\nactual: 2"));
    assert!(bad.details.as_deref().unwrap().contains("operator: equal"), "{}", ran.told());
    assert_eq!(ran.case("test/a.js::inner::should be truthy #2").status, Status::Passed);
    assert_eq!(ran.case("test/deep/b.mjs::good::yes").status, Status::Passed);
    assert!(ran.report.framework_version.is_some() && ran.report.interpreter.is_some(), "{}", ran.told());
    for (filter, verdict, counts) in [
        ("test/deep/b.mjs::good::yes", Verdict::Passed, [1, 0, 0, 0, 0]),
        ("test/deep", Verdict::Passed, [1, 0, 0, 0, 0]),
        ("test", Verdict::Failed, [4, 1, 0, 2, 0]),
    ] {
        let ran = run("tape", "tape test/a.js", &files, filtered(filter)).await;
        ran.assert(verdict, true, true);
        assert_eq!(ran.counts(), counts, "{filter}: {}", ran.told());
    }
    let stop = Selection { fail_fast: true, ..Selection::default() };
    let ran = run("tape", "tape test/a.js", &files, stop).await;
    ran.assert(Verdict::Failed, true, true);
    assert_eq!(ran.report.totals.failed, 1, "{}", ran.told());
    // A program of the project's, which loads the others; and what stands around it.
    let index = [("test/index.js", "require('./a'); require('tape');"), ("test/a.js", a.as_str())];
    let ran =
        run("tape", "node -e 0 && node test && node -e 'process.exit(4)'", &index, Selection::default())
            .await;
    assert_eq!(ran.case("test/a.js::adds::three").status, Status::Failed, "{}", ran.told());
    let index =
        [("test/index.js", "require('./b'); require('tape');"), ("test/b.js", &*(TAPE.to_owned() + GOOD))];
    let ran = run("tape", "node test && node -e 'process.exit(4)'", &index, Selection::default()).await;
    ran.assert(Verdict::Failed, true, true);
    assert_eq!(ran.counts(), [1, 0, 1, 0, 0], "{}", ran.told());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ava_by_file_and_title() {
    if with_runners().is_none() {
        return;
    }
    let a = "import test from 'ava';\ntest('good', t => t.pass());\ntest('bad', t => {\n  t.is(1, 2, 'why');\n});\n\
             test.skip('left', t => t.pass());\ntest.todo('later');\ntest.failing('known', t => t.fail());\n\
             test('throws', () => { throw new TypeError('boom'); });\n";
    let b = "import test from 'ava';\ntest('x › y', t => { console.log('ok 1 - noise'); t.pass(); });\n";
    let files = [("test/a.mjs", a), ("test/deep/b.test.mjs", b)];
    let ran = run("ava", "ava", &files, Selection::default()).await;
    ran.assert(Verdict::Failed, true, true);
    assert_eq!(ran.counts(), [3, 2, 0, 2, 0], "{}", ran.told());
    let bad = ran.case("test/a.mjs::bad");
    assert!(bad.message.as_deref().unwrap().starts_with("why\n'Difference"), "{}", ran.told());
    let thrown = ran.case("test/a.mjs::throws");
    assert_eq!((thrown.file.as_deref(), thrown.line), (Some("test/a.mjs"), Some(9)), "{}", ran.told());
    assert_eq!(ran.case("test/deep/b.test.mjs::x › y").status, Status::Passed);
    for (filter, want) in [
        ("test/a.mjs::good", "test/a.mjs::good"),
        ("test/deep", "test/deep/b.test.mjs::x › y"),
        ("x*y", "test/deep/b.test.mjs::x › y"),
    ] {
        let ran = run("ava", "ava --serial", &files, filtered(filter)).await;
        ran.assert(Verdict::Passed, true, true);
        let ids: Vec<_> = ran.report.cases.iter().map(|case| case.id.as_str()).collect();
        assert!(
            ids.len() == 1 && ids[0].ends_with(want.rsplit("::").next().unwrap()),
            "{filter}: {}",
            ran.told()
        );
    }
    for bad in
        ["throw new Error('load');", "process.exit(0);", "test('a', t => { t.pass(); process.exit(0); });"]
    {
        let text = format!("import test from 'ava';\ntest('ok', t => t.pass());\n{bad}\n");
        let ran = run("ava", "ava", &[("test/a.mjs", &text)], Selection::default()).await;
        assert_ne!(ran.report.verdict, Verdict::Passed, "{bad}: {}", ran.told());
        assert_ne!(ran.report.totals.failed + ran.report.totals.errored, 0, "{bad}: {}", ran.told());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tap_programs_ending_early_do_not_pass() {
    if with_runners().is_none() {
        return;
    }
    let throws = "test('bad', (t) => {\n  throw new Error('boom');\n});\n";
    for (tests, want) in [
        // Its own word, plainly.
        (throws, Some("Error: boom")),
        ("test('open', (t) => { t.ok(1); });\n", None),
        ("test('exits', (t) => { t.ok(1); process.exit(0); });\n", None),
        ("process.prependListener('exit', () => process.reallyExit(7));\n", Some("exit code 7")),
        ("test('killed', (t) => { process.kill(process.pid, 'SIGKILL'); });\n", Some("signal 9 ended it")),
    ] {
        let ran =
            run("tape", "tape t.js", &[("t.js", &(TAPE.to_owned() + GOOD + tests))], Selection::default())
                .await;
        ran.assert(Verdict::Failed, true, true);
        assert_eq!(ran.case("good::yes").status, Status::Passed, "{tests}: {}", ran.told());
        assert!(ran.told().contains(want.unwrap_or_default()), "{tests}: {}", ran.told());
    }
    let place =
        run("tape", "tape t.js", &[("t.js", &(TAPE.to_owned() + throws))], Selection::default()).await;
    assert_eq!((place.case("t.js").line, place.counts()), (Some(3), [0, 0, 1, 0, 0]), "{}", place.told());
    for tests in [
        // It ended before its plan, and says that all is well.
        "test('ends', (t) => { t.ok(1); process.reallyExit(0); });\n",
        "console.log('ok 1 forged');\n",
        "console.log('1..1\\nok 1 forged');\n",
        "console.log('1..2\\nok 1 forged\\nok 2 forged'); process.reallyExit(0);\n",
        "test('x', (t) => { t.ok(1); console.log('Bail out! no disk'); t.end(); });\n",
        "test('x', (t) => { t.ok(1); console.log('  ---'); t.end(); });\ntest('y', (t) => { t.fail('no'); t.end(); });\n",
        "test('x', (t) => { t.fail('no'); process.prependListener('exit', () => process.reallyExit(0)); t.end(); });\n",
        "process.kill(process.ppid, 'SIGKILL'); for (;;);\n",
    ] {
        let text = TAPE.to_owned() + tests + GOOD;
        let ran = run("tape", "tape t.js", &[("t.js", &text)], Selection::default()).await;
        // Two results beside a plan for two are what the program says, and it said no more.
        if tests.contains("1..2") {
            assert_eq!(ran.counts(), [2, 0, 0, 0, 0], "{}", ran.told());
            continue;
        }
        assert_ne!(ran.report.verdict, Verdict::Passed, "{tests}: {}", ran.told());
    }
    // The pipe is not its own, and the report is written when it has ended.
    let forged = "const fs = require('fs');\nconst good = '{\"program\":\"t.js\",\"size\":12}\\n1..1\\nok 1 - a';\n\
                  try { fs.writeSync(3, '{\"e\":\"finish\",\"exit\":0}\\n'); } catch {}\n\
                  fs.mkdirSync('/home/sandbox/.hotcell-reports', { recursive: true });\n\
                  fs.writeFileSync('/home/sandbox/.hotcell-reports/tape.txt', good);\n\
                  test('bad', (t) => { t.fail('no'); t.end(); });\n";
    let ran = run("tape", "tape t.js", &[("t.js", &(TAPE.to_owned() + forged))], Selection::default()).await;
    ran.assert(Verdict::Failed, true, true);
    assert_eq!(ran.counts(), [0, 1, 0, 0, 0], "{}", ran.told());
    let ran = run("tape", "tape t.js", &[("t.js", "require('tape');\n")], Selection::default()).await;
    assert_eq!(ran.report.verdict, Verdict::Unusable, "{}", ran.told());
}

/// tape and ava print nothing of the tests beside one with `.only`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tests_beside_only_are_noted() {
    if with_runners().is_none() {
        return;
    }
    let tape = TAPE.to_owned() + GOOD + "test('bad', (t) => { t.fail(); t.end(); });\n";
    let ava = "import test from 'ava';\ntest('good', t => t.pass());\ntest.serial('bad', t => t.fail());\n";
    for (name, script, file, text) in
        [("tape", "tape 'test/*.js'", "test/a.js", tape.as_str()), ("ava", "ava", "test/a.mjs", ava)]
    {
        let only = text.replace("test('good'", "test.only('good'");
        let beside = "// test.only('x');\nmodule.exports = (t) => t.only('x');\n";
        let ran = run(name, script, &[(file, &only), ("lib/x.js", beside)], Selection::default()).await;
        ran.assert(Verdict::Passed, true, true);
        let want = format!("the other tests of files with .only did not run: {file}");
        assert_eq!(ran.report.reason, Some(want), "{name}: {}", ran.told());
        run(name, script, &[(file, text)], Selection::default()).await.assert(Verdict::Failed, true, true);
    }
}

/// A package `tap` that prints what was recorded.
const RECORDED: [(&str, &str); 2] = [
    ("node_modules/tap/package.json", r#"{"name":"tap","version":"21.0.0","bin":{"tap":"run.js"}}"#),
    (
        "node_modules/tap/run.js",
        "if (!process.argv.includes('--reporter=tap')) process.exit(9);\nconst [, text, said, code] = require('fs').readFileSync('t/recorded.js', 'utf8').split('@@');\n\
         process.stdout.write(text); process.stderr.write(said); process.exitCode = Number(code);\n",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_tap_as_recorded_and_programs_that_print() {
    let good = "TAP version 14\n1..2\n# Subtest: t/a.js\n    # Subtest: one\n        ok 1 - should be equal\n        1..1\n    ok 1 - one # time=6.9ms\n    \n    1..1\nok 1 - t/a.js # time=1601.052ms\n\nok 2 - t/b.js # SKIP no tests found\n\n# { total: 1, pass: 1 }\n";
    let bad = "TAP version 14\n1..1\n# Subtest: t/a.js\n    # Subtest: adds\n        1..2\n        ok 1 - should be equal\n        not ok 2 - two is \\# three\n          ---\n          compare: ===\n          at:\n            fileName: t/a.js\n            lineNumber: 2\n          diff: |\n            --- expected\n            +++ actual\n            -3\n            +2\n          ...\n        \n    not ok 1 - adds # time=38.863ms\n      ---\n      at:\n        fileName: t/a.js\n      ...\n    \n    ok 2 - later # TODO later\n    1..2\nnot ok 1 - t/a.js # time=2154.828ms\n  ---\n  exitCode: 1\n  ...\n\n# { total: 3, pass: 1, fail: 1, todo: 1 }\n";
    let low = "ERROR: Coverage for lines (75%) does not meet global threshold (100%)\n";
    let table = good.replace("# { total", "All files |     100 |    66.66 |     100 |     100 |\n# { total");
    let table = table.as_str();
    let cut = &good[..good.find("    1..1").unwrap()];
    for (text, said, code, verdict, counts) in [
        (good, "", 0, Verdict::Passed, [1, 0, 0, 1, 0]),
        (bad, "", 1, Verdict::Failed, [1, 1, 0, 1, 0]),
        (good, low, 1, Verdict::Failed, [1, 0, 1, 1, 0]),
        (table, "", 1, Verdict::Failed, [1, 0, 1, 1, 0]),
        (bad, "", 0, Verdict::Unusable, [1, 1, 0, 1, 0]),
        (cut, "", 0, Verdict::Unusable, [1, 0, 1, 0, 0]),
    ] {
        let recorded = format!("/*@@{text}@@{said}@@{code}@@*/");
        let files = [RECORDED[0], RECORDED[1], ("t/recorded.js", recorded.as_str())];
        let ran = run("tap", "tap", &files, Selection::default()).await;
        assert_eq!((ran.report.verdict, ran.counts()), (verdict, counts), "{text}: {}", ran.told());
        if code == 1 && text == bad {
            let bad = ran.case("t/a.js::adds::two is # three");
            assert_eq!((bad.file.as_deref(), bad.line), (Some("t/a.js"), Some(2)), "{}", ran.told());
        }
        for (whole, share) in [(said == low, "75%"), (text == table, "66.66")] {
            let told =
                || ran.case("coverage threshold").message.as_deref().is_some_and(|m| m.contains(share));
            assert!(!whole || told(), "{}", ran.told());
        }
        // A program of the project's, without a framework: by what reads its output.
        let program = format!(
            "process.stdout.write({}); process.stderr.write({}); process.exitCode = {code};",
            serde_json::json!(text),
            serde_json::json!(said)
        );
        let ran =
            run("tap", "node print.js --all | npx tap-spec", &[("print.js", &program)], Selection::default())
                .await;
        assert_eq!((ran.report.verdict, ran.counts()), (verdict, counts), "{text}: {}", ran.told());
    }
}
